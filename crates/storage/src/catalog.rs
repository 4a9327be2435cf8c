//! The catalogue: a tree from table names to what the tables are.
//!
//! ```text
//! 0      1          8      48
//! | kind | reserved | tree |
//! ```
//! A table handle remembers what it found last, with the transaction. So looking a table up costs
//! one comparison as long as nobody commits.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::node::Payload;
use crate::page::{PageId, TxnId};
use crate::pager::{Bounds, Pager};
use crate::root::Tree;
use crate::{Error, Result};

/// What the entries of a table are.
// ON DISK: never renumber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TableKind {
    /// Byte-string keys with one value each.
    Plain = 0,
    /// Byte-string keys with any number of values each, sorted.
    Multi = 1,
    /// Unsigned 64-bit keys, given as 8 bytes big-endian, with one value each.
    Integer = 2,
}

impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "a plain table",
            Self::Multi => "a table with many values a key",
            Self::Integer => "a table with integer keys",
        })
    }
}

/// The longest name of a table in bytes. What the catalogue says of a table lies beside its name
/// inside the leaf.
pub(crate) const fn name_bytes_max(page_size: usize) -> usize {
    crate::node::inline_bytes_max(page_size) - Description::BYTES
}

/// What the catalogue says of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) kind: TableKind,
    pub(crate) tree: Tree,
}

impl Description {
    pub(crate) const BYTES: usize = 8 + Tree::BYTES;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = self.kind as u8;
        self.tree.encode(&mut bytes[8..]);
        bytes
    }

    pub(crate) fn decode(payload: Payload<'_>) -> Result<Self> {
        let damaged = |reason| Error::Corrupted { page: PageId::NONE, reason };
        let Payload::Inline(bytes) = payload else {
            return Err(damaged("a catalogue entry is not inline"));
        };
        if bytes.len() != Self::BYTES {
            return Err(damaged("a catalogue entry has the wrong length"));
        }
        let kind = match bytes[0] {
            0 => TableKind::Plain,
            1 => TableKind::Multi,
            2 => TableKind::Integer,
            _ => return Err(damaged("a table is of no known kind")),
        };
        let tree = Tree::decode(&bytes[8..]);
        if !tree.is_plausible() {
            return Err(damaged("the description of a table contradicts itself"));
        }
        Ok(Self { kind, tree })
    }

    pub(crate) fn find(pager: &Pager, bounds: Bounds, catalog: &Tree, name: &str) -> Result<Option<Self>> {
        catalog.get(pager, bounds, name.as_bytes())?.map(Self::decode).transpose()
    }
}

/// A handle for a table: cheap to clone, good for every transaction of the database it came from.
#[derive(Clone)]
pub struct Table(Arc<TableInner>);

struct TableInner {
    name: String,
    kind: TableKind,
    found: Found,
}

/// What a handle found last, behind a sequence lock: readers write nothing, so they do not disturb
/// each other.
///
/// `sequence` is odd while a thread writes. The thread that made it odd stores the words. A reader
/// that finds the same even number before and after has read what one thread stored.
#[derive(Default)]
pub(crate) struct Found {
    sequence: AtomicU64,
    /// The opening of the database. Two databases have the same transaction numbers, and so may one
    /// database before and after a crash.
    opening: AtomicU64,
    /// The transaction, and the words of the tree. Transaction 0 commits nothing, so zeros mean
    /// nothing found.
    txn: AtomicU64,
    words: [AtomicU64; Tree::BYTES / 8],
}

impl Found {
    #[inline]
    pub(crate) fn get(&self, opening: u64, txn: TxnId) -> Option<Tree> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let found = (self.opening.load(Ordering::Relaxed), self.txn.load(Ordering::Relaxed));
        if sequence & 1 == 1 || found != (opening, txn.0) {
            return None;
        }
        let tree = Tree::from_words(std::array::from_fn(|i| self.words[i].load(Ordering::Relaxed)));
        // Pairs with the last store of `set`, a release.
        fence(Ordering::Acquire);
        (self.sequence.load(Ordering::Relaxed) == sequence && txn.0 > 0).then_some(tree)
    }

    pub(crate) fn set(&self, opening: u64, txn: TxnId, tree: Tree) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        let taken = sequence & 1 == 0
            && self.sequence.compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !taken {
            return;
        }
        // No word may be seen before the odd number.
        fence(Ordering::Release);
        self.opening.store(opening, Ordering::Relaxed);
        self.txn.store(txn.0, Ordering::Relaxed);
        for (word, value) in self.words.iter().zip(tree.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        self.sequence.store(sequence + 2, Ordering::Release);
    }
}

impl Table {
    pub(crate) fn new(name: &str, kind: TableKind) -> Self {
        Self(Arc::new(TableInner { name: name.to_owned(), kind, found: Found::default() }))
    }

    /// A handle for a table that may not be there yet.
    #[must_use]
    pub fn named(name: &str, kind: TableKind) -> Self {
        Self::new(name, kind)
    }

    /// Whether both are handles of tables of the same name. Clones are recognized without comparing
    /// names.
    #[inline]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.name == other.0.name
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What its entries are.
    #[must_use]
    pub fn kind(&self) -> TableKind {
        self.0.kind
    }

    /// Where the handle last found the table, if that was in this transaction's state and through
    /// this opening of the database.
    #[inline]
    pub(crate) fn found_in(&self, opening: u64, txn: TxnId) -> Option<Tree> {
        self.0.found.get(opening, txn)
    }

    pub(crate) fn remember(&self, opening: u64, txn: TxnId, tree: Tree) {
        self.0.found.set(opening, txn, tree);
    }

    #[inline]
    pub(crate) fn expect_kind(&self, kinds: &[TableKind], operation: &'static str) -> Result<()> {
        if kinds.contains(&self.kind()) {
            return Ok(());
        }
        Err(Error::WrongTableKind { table: self.name().to_owned(), kind: self.kind(), operation })
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name()).field("kind", &self.kind()).finish()
    }
}

//! Cursors: a place in a table, and moves from it.
//!
//! [`RawCursor`] moves over the entries of a tree. [`Cursor`] is what users have: it knows that the
//! entries of a table with many values a key are pairs.
//!
//! Invariant: a valid cursor's stack leads from the root to a leaf, each step within the bounds of
//! its page.

use std::cell::Cell;

use smallvec::SmallVec;

use crate::ahead::{self, ScanAhead};
use crate::catalog::TableKind;
use crate::cold::Moment;
use crate::composite;
use crate::node::{LeafEntries, Node, decode_large, key_bytes_max};
use crate::page::PageId;
use crate::pager::{Bounds, Pager};
use crate::root::Tree;
use crate::{Error, Result};

/// After a large value that came from the disk, those of so many leaves are asked for beforehand.
const LARGE_AHEAD: u8 = 16;

#[derive(Clone, Copy)]
struct Frame<'a> {
    node: Node<'a>,
    index: usize,
}

/// A place among the entries of a tree.
pub(crate) struct RawCursor<'a> {
    pager: &'a Pager,
    bounds: Bounds,
    tree: Tree,
    /// The branches above the leaf.
    stack: SmallVec<[Frame<'a>; 6]>,
    leaf: Option<LeafEntries<'a>>,
    index: usize,
    /// The key of the current entry is the first `key_len` bytes; the first `prefix_len` are the
    /// leaf's prefix.
    key: Vec<u8>,
    prefix_len: usize,
    key_len: usize,
    /// The current value, or where it is if it is large.
    value: &'a [u8],
    large: bool,
    ahead: ScanAhead,
    /// The direction of the last move between leaves; at first forward.
    forward: bool,
    /// Large values are read, and come from the disk: those of so many leaves more are asked for
    /// beforehand.
    large_ahead: Cell<u8>,
}

impl<'a> RawCursor<'a> {
    pub(crate) fn new(pager: &'a Pager, bounds: Bounds, tree: Tree) -> Self {
        Self {
            pager,
            bounds,
            tree,
            stack: SmallVec::new(),
            leaf: None,
            index: 0,
            key: Vec::new(),
            prefix_len: 0,
            key_len: 0,
            value: &[],
            large: false,
            ahead: ScanAhead::default(),
            forward: true,
            large_ahead: Cell::new(0),
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.leaf.is_some()
    }

    pub(crate) fn page(&self) -> PageId {
        self.leaf.map_or(self.tree.root, |leaf| crate::page::number_of(leaf.node().bytes()))
    }

    /// The key of the current entry; empty when not on one.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key[..self.key_len]
    }

    /// The value of the current entry; empty when not on one.
    #[inline]
    pub(crate) fn value(&self) -> Result<&'a [u8]> {
        if self.large {
            return self.large_value();
        }
        Ok(self.value)
    }

    #[cold]
    fn large_value(&self) -> Result<&'a [u8]> {
        let started = Moment::now();
        let value = self.pager.value(self.bounds, decode_large(self.value));
        if started.was_slow()
            && let Some(leaf) = self.leaf
        {
            self.large_ahead.set(LARGE_AHEAD);
            ahead::large_values(leaf.node(), self.index, self.forward, self.pager, self.bounds);
        }
        value
    }

    /// Splits the current key of a table with many values; the key goes to `out`, the value starts
    /// at the result.
    pub(crate) fn split_composite(&self, out: &mut Vec<u8>) -> Result<usize> {
        composite::decode(self.key(), out)
            .ok_or(Error::Corrupted { page: self.page(), reason: "a pair of key and value is malformed" })
    }

    fn leave(&mut self) -> bool {
        self.stack.clear();
        self.leaf = None;
        self.key_len = 0;
        self.value = &[];
        self.large = false;
        false
    }

    /// Walks from a page down to a leaf, taking the child that `choose` names.
    fn descend(&mut self, mut id: PageId, mut choose: impl FnMut(Node<'a>) -> usize) -> Result<()> {
        loop {
            let node = self.pager.node(id, self.bounds)?;
            let levels_left = (self.tree.depth as usize).checked_sub(self.stack.len() + 1);
            if levels_left != Some(usize::from(node.level())) {
                return Err(Error::Corrupted { page: id, reason: "it is at another level than its tree says" });
            }
            let index = choose(node);
            if node.is_leaf() {
                self.leaf = Some(LeafEntries::new(node));
                self.index = index;
                let prefix = node.prefix();
                self.prefix_len = prefix.len();
                let room = prefix.len() + key_bytes_max(self.pager.page_size()) + LeafEntries::SPARE;
                if self.key.len() < room {
                    self.key.resize(room, 0);
                }
                self.key[..prefix.len()].copy_from_slice(prefix);
                return Ok(());
            }
            self.stack.push(Frame { node, index });
            id = node.child(index);
        }
    }

    fn start(&mut self, choose: impl FnMut(Node<'a>) -> usize) -> Result<bool> {
        self.leave();
        if self.tree.depth == 0 {
            return Ok(false);
        }
        let result = self.descend(self.tree.root, choose);
        if result.is_err() {
            self.leave();
        }
        result.map(|()| true)
    }

    /// Reads the entry under the cursor, which stands within its leaf.
    #[inline]
    fn load(&mut self) -> Result<bool> {
        let read = self.leaf.and_then(|leaf| leaf.read(self.index, &mut self.key[self.prefix_len..]));
        let Some((suffix_len, value, large)) = read else {
            return Err(Error::Corrupted { page: self.page(), reason: "a leaf changed while it was being read" });
        };
        self.key_len = self.prefix_len + suffix_len;
        self.value = value;
        self.large = large;
        Ok(true)
    }

    pub(crate) fn first(&mut self) -> Result<bool> {
        Ok(self.start(|_| 0)? && self.settle_forward()?)
    }

    pub(crate) fn last(&mut self) -> Result<bool> {
        self.forward = false;
        Ok(self.start(|node| node.count().saturating_sub(1))? && self.settle_forward()?)
    }

    /// To the first entry not below a key.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let choose = |node: Node<'a>| {
            if node.is_leaf() { node.search(key).unwrap_or_else(|index| index) } else { node.child_index(key) }
        };
        Ok(self.start(choose)? && self.settle_forward()?)
    }

    /// To the first entry above a key.
    pub(crate) fn seek_after(&mut self, key: &[u8]) -> Result<bool> {
        if self.seek(key)? && self.key() == key {
            return self.next();
        }
        Ok(self.is_valid())
    }

    /// To the last entry below a key.
    pub(crate) fn seek_before(&mut self, key: &[u8]) -> Result<bool> {
        if self.seek(key)? { self.prev() } else { self.last() }
    }

    /// To the last entry not above a key.
    pub(crate) fn seek_at_or_before(&mut self, key: &[u8]) -> Result<bool> {
        match self.seek(key)? {
            true if self.key() == key => Ok(true),
            true => self.prev(),
            false => self.last(),
        }
    }

    /// To the entry with `index` entries before it.
    pub(crate) fn nth(&mut self, index: u64) -> Result<bool> {
        if index >= self.tree.entries {
            return Ok(self.leave());
        }
        let mut left = index;
        let choose = |node: Node<'a>| {
            if node.is_leaf() {
                return usize::try_from(left).unwrap_or(usize::MAX);
            }
            for child in 0..node.count() - 1 {
                let count = node.child_count(child);
                if left < count {
                    return child;
                }
                left -= count;
            }
            node.count() - 1
        };
        if !self.start(choose)? {
            return Ok(false);
        }
        if self.leaf.is_none_or(|leaf| self.index >= leaf.count()) {
            let page = self.page();
            self.leave();
            return Err(Error::Corrupted { page, reason: "a subtree has fewer entries than its branch says" });
        }
        self.load()
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<bool> {
        let Some(leaf) = self.leaf else { return Ok(false) };
        self.index += 1;
        if self.index < leaf.count() {
            return self.load();
        }
        self.settle_forward()
    }

    /// If the cursor stands behind the last entry of its leaf, to the first one of the next leaf.
    fn settle_forward(&mut self) -> Result<bool> {
        match self.leaf {
            Some(leaf) if self.index < leaf.count() => return self.load(),
            None => return Ok(false),
            _ => {}
        }
        while let Some(mut frame) = self.stack.pop() {
            frame.index += 1;
            if frame.index < frame.node.count() {
                self.stack.push(frame);
                if frame.index + 1 < frame.node.count() {
                    self.pager.prefetch_whole(frame.node.child(frame.index + 1), self.bounds);
                }
                return self.enter(frame, true);
            }
        }
        Ok(self.leave())
    }

    #[inline]
    pub(crate) fn prev(&mut self) -> Result<bool> {
        if self.leaf.is_none() {
            return Ok(false);
        }
        if self.index > 0 {
            self.index -= 1;
            return self.load();
        }
        while let Some(mut frame) = self.stack.pop() {
            if frame.index > 0 {
                frame.index -= 1;
                self.stack.push(frame);
                return self.enter(frame, false);
            }
        }
        Ok(self.leave())
    }

    /// Goes down from a branch on top of the stack, to the first entry below it or to the last.
    fn enter(&mut self, frame: Frame<'a>, forward: bool) -> Result<bool> {
        self.forward = forward;
        let started = Moment::now();
        let choose = |node: Node<'a>| if forward { 0 } else { node.count().saturating_sub(1) };
        if let Err(e) = self.descend(frame.node.child(frame.index), choose) {
            self.leave();
            return Err(e);
        }
        if let (Some(leaf), Some(&Frame { node, index })) = (self.leaf, self.stack.last()) {
            self.ahead.came_to(started, leaf.node(), (node, index), forward, (self.pager, self.bounds));
            if let Some(left) = self.large_ahead.get().checked_sub(1) {
                self.large_ahead.set(left);
                ahead::large_values(leaf.node(), self.index, forward, self.pager, self.bounds);
            }
        }
        match self.leaf {
            Some(leaf) if self.index < leaf.count() => self.load(),
            _ => Err(Error::Corrupted { page: self.page(), reason: "a leaf is empty" }),
        }
    }
}

/// A place in a table. Every move tells whether the cursor is on an entry afterwards.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = colibri_storage::Database::open(dir.path(), &Default::default())?;
/// # let mut txn = db.write()?;
/// # let fruit = txn.create_table("fruit", colibri_storage::TableKind::Plain)?;
/// # txn.put(&fruit, b"apple", b"red")?;
/// # txn.put(&fruit, b"plum", b"blue")?;
/// let view = txn.view(&fruit)?;
/// let mut cursor = view.cursor();
/// assert!(cursor.seek(b"b")?);
/// assert_eq!((cursor.key(), cursor.value()?), (&b"plum"[..], &b"blue"[..]));
/// assert!(cursor.prev()?);
/// assert_eq!(cursor.key(), b"apple");
/// # Ok::<(), colibri_storage::Error>(())
/// ```
pub struct Cursor<'a> {
    raw: RawCursor<'a>,
    multi: bool,
    /// In tables with many values a key: the key of the current pair, and where its value starts.
    key: Vec<u8>,
    value_at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(raw: RawCursor<'a>, kind: TableKind) -> Self {
        Self { raw, multi: kind == TableKind::Multi, key: Vec::new(), value_at: 0 }
    }

    #[inline]
    fn arrive(&mut self, valid: bool) -> Result<bool> {
        if self.multi {
            self.value_at = 0;
            self.key.clear();
            if valid {
                self.value_at = self.raw.split_composite(&mut self.key)?;
            }
        }
        Ok(valid)
    }

    /// Whether the cursor is on an entry.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.raw.is_valid()
    }

    /// The current key; empty when not on an entry.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        if self.multi && self.raw.is_valid() { &self.key } else { self.raw.key() }
    }

    /// The current value; empty when not on an entry. An error if it is large and its pages are
    /// damaged.
    #[inline]
    pub fn value(&self) -> Result<&[u8]> {
        if self.multi { Ok(self.raw.key().get(self.value_at..).unwrap_or_default()) } else { self.raw.value() }
    }

    /// To the first entry.
    pub fn first(&mut self) -> Result<bool> {
        let valid = self.raw.first()?;
        self.arrive(valid)
    }

    /// To the last entry.
    pub fn last(&mut self) -> Result<bool> {
        let valid = self.raw.last()?;
        self.arrive(valid)
    }

    /// To the next entry. From the last one, off the table.
    #[expect(
        clippy::should_implement_trait,
        reason = "the field's word for this move; an entry borrows from the cursor"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        let valid = self.raw.next()?;
        self.arrive(valid)
    }

    /// To the entry before. From the first one, off the table.
    #[inline]
    pub fn prev(&mut self) -> Result<bool> {
        let valid = self.raw.prev()?;
        self.arrive(valid)
    }

    /// To the first entry whose key is not below `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let valid = if self.multi { self.raw.seek(&composite::first_of(key))? } else { self.raw.seek(key)? };
        self.arrive(valid)
    }

    /// To the first entry of exactly this key; off the table if there is none.
    pub fn seek_exact(&mut self, key: &[u8]) -> Result<bool> {
        if self.seek(key)? && self.key() == key {
            return Ok(true);
        }
        self.leave()
    }

    /// To the last entry whose key is below `key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<bool> {
        let valid =
            if self.multi { self.raw.seek_before(&composite::first_of(key))? } else { self.raw.seek_before(key)? };
        self.arrive(valid)
    }

    fn leave(&mut self) -> Result<bool> {
        let valid = self.raw.leave();
        self.arrive(valid)
    }

    /// Runs a move and undoes it by leaving the table if the key is not `key` afterwards.
    fn within(&mut self, key: &[u8], moved: bool) -> Result<bool> {
        if moved && self.key() == key { Ok(true) } else { self.leave() }
    }

    // ---- moves among the values of a key; where a key has one value, there is nothing to move to
    // ----

    /// To the first value of `key` that is not below `value`; off the table if there is none.
    pub fn seek_value(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let valid = if self.multi { self.raw.seek(&composite::encode(key, value))? } else { self.raw.seek(key)? };
        let valid = self.arrive(valid)?;
        let valid = valid && (self.multi || self.value()? >= value);
        self.within(key, valid)
    }

    /// To the first value of the current key.
    pub fn first_value(&mut self) -> Result<bool> {
        let key = self.key().to_vec();
        if !self.is_valid() { Ok(false) } else { self.seek_exact(&key) }
    }

    /// To the last value of the current key.
    pub fn last_value(&mut self) -> Result<bool> {
        if !self.is_valid() || !self.multi {
            return Ok(self.is_valid());
        }
        let valid = self.raw.seek_before(&composite::after(&self.key))?;
        self.arrive(valid)
    }

    /// To the next value of the current key. From its last one, off the table.
    pub fn next_value(&mut self) -> Result<bool> {
        let key = self.key().to_vec();
        let moved = self.next()?;
        self.within(&key, moved)
    }

    /// To the value before of the current key. From its first one, off the table.
    pub fn prev_value(&mut self) -> Result<bool> {
        let key = self.key().to_vec();
        let moved = self.prev()?;
        self.within(&key, moved)
    }

    /// To the first value of the next key.
    pub fn next_key(&mut self) -> Result<bool> {
        if !self.multi || !self.is_valid() {
            return self.next();
        }
        let valid = self.raw.seek(&composite::after(&self.key))?;
        self.arrive(valid)
    }

    /// To the last value of the key before.
    pub fn prev_key(&mut self) -> Result<bool> {
        if !self.multi || !self.is_valid() {
            return self.prev();
        }
        let valid = self.raw.seek_before(&composite::first_of(&self.key))?;
        self.arrive(valid)
    }
}

//! Where trees and committed states start.
//!
//! - [`Tree`]: the root page of a B+tree, and its size. What reads and changes it is in `tree`.
//! - [`Root`]: a committed state: the tree of its catalogue, its branches, its page count, and
//!   where the log goes on.
//!
//! Both are also kept as words: a tree in the meta page, in the catalogue and in table handles, a
//! root in the lock file.

use crate::log::Position;
use crate::page::{PageId, TxnId, get_u64, put_u64};

/// No tree is deeper: with at least two children a branch, 2^48 entries fit.
pub(crate) const DEPTH_MAX: u32 = 48;

/// Where a tree starts and how big it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tree {
    pub(crate) root: PageId,
    /// Levels, 0 for the empty tree.
    pub(crate) depth: u32,
    pub(crate) entries: u64,
    pub(crate) leaf_pages: u64,
    pub(crate) branch_pages: u64,
    pub(crate) overflow_pages: u64,
}

impl Tree {
    pub(crate) const WORDS: usize = 5;
    /// Bytes of a tree in the meta page and in the catalogue.
    pub(crate) const BYTES: usize = 8 * Self::WORDS;

    /// ```text
    /// 0      4       8         16           24             32               40
    /// | root | depth | entries | leaf pages | branch pages | overflow pages |
    /// ```
    pub(crate) fn to_words(self) -> [u64; Self::WORDS] {
        let start = u64::from(self.root.0) | u64::from(self.depth) << 32;
        [start, self.entries, self.leaf_pages, self.branch_pages, self.overflow_pages]
    }

    pub(crate) fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [start, entries, leaf_pages, branch_pages, overflow_pages] = words;
        Self {
            root: PageId(start as u32),
            depth: (start >> 32) as u32,
            entries,
            leaf_pages,
            branch_pages,
            overflow_pages,
        }
    }

    /// Whether a description that was read can be one: it is empty in every respect or in none, and
    /// not too deep.
    pub(crate) fn is_plausible(&self) -> bool {
        let empty = self.depth == 0;
        let pages = self.leaf_pages.max(self.branch_pages).max(self.overflow_pages);
        empty == (self.root == PageId::NONE)
            && empty == (self.entries == 0)
            && self.depth <= DEPTH_MAX
            && self.entries < 1 << 48
            && pages <= u64::from(u32::MAX)
    }

    pub(crate) fn encode(&self, out: &mut [u8]) {
        for (i, word) in self.to_words().into_iter().enumerate() {
            put_u64(out, 8 * i, word);
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        Self::from_words(std::array::from_fn(|i| get_u64(bytes, 8 * i)))
    }
}

/// The state of the database after a committed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Root {
    pub(crate) txn: TxnId,
    /// The tables of the main branch, or of the branch that a snapshot sees.
    pub(crate) catalog: Tree,
    /// Where the forest of branches is described; none in a file without branches (see `forest`).
    pub(crate) forest: PageId,
    pub(crate) page_count: u32,
    /// Where the log goes on.
    pub(crate) log: Position,
}

impl Root {
    pub(crate) const WORDS: usize = 10;

    /// ```text
    /// 0     1 … 5     6                         7            8           9
    /// | txn | catalog | page count and log file | log offset | log chain | forest |
    /// ```
    #[inline]
    pub(crate) fn to_words(self) -> [u64; Self::WORDS] {
        let [c0, c1, c2, c3, c4] = self.catalog.to_words();
        let Position { file, offset, chain } = self.log;
        let count_and_file = u64::from(self.page_count) | u64::from(file) << 32;
        [self.txn.0, c0, c1, c2, c3, c4, count_and_file, offset, chain, self.forest.0.into()]
    }

    #[inline]
    pub(crate) fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [txn, c0, c1, c2, c3, c4, count_and_file, offset, chain, forest] = words;
        Self {
            txn: TxnId(txn),
            catalog: Tree::from_words([c0, c1, c2, c3, c4]),
            forest: PageId(forest as u32),
            page_count: count_and_file as u32,
            log: Position { file: (count_and_file >> 32) as u32 & 1, offset, chain },
        }
    }
}

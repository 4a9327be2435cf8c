//! What commits and steady points write: page by page, for those who want to see it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::page::{PageId, PageKind, TxnId};

/// What wrote pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// A transaction, into memory: these pages reach the disk with the next steady point, unless
    /// they are replaced before that.
    Commit,
    /// A steady point, to the disk. In `SyncNoLog` mode each commit is one.
    Steady,
}

/// Pages that a commit or a steady point wrote, the meta page not counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteTrace {
    /// What wrote them.
    pub kind: WriteKind,
    /// The transaction, or the last one that the steady point covers.
    pub txn: TxnId,
    /// Bytes in a page.
    pub page_size: u32,
    /// First page and length in pages of each contiguous range, ascending.
    pub ranges: Vec<(u32, u32)>,
    /// Pages of leaves among the pages.
    pub leaves: u64,
    /// Branches.
    pub branches: u64,
    /// Pages of large values.
    pub overflow: u64,
    /// Pages of the free map.
    pub free_map: u64,
    /// Where a commit's record went: which file of the log, 0 or 1, and its bytes there. `None`
    /// without one.
    pub log: Option<(u32, Range<u64>)>,
}

impl WriteTrace {
    /// Counts runs of pages that were just written. `kind_of` is what the page at a run's head
    /// says.
    pub(crate) fn of(
        kind: WriteKind,
        txn: TxnId,
        page_size: u32,
        mut runs: Vec<(PageId, u32)>,
        kind_of: impl Fn(PageId) -> Option<PageKind>,
    ) -> Self {
        let mut trace = Self {
            kind,
            txn,
            page_size,
            ranges: Vec::new(),
            leaves: 0,
            branches: 0,
            overflow: 0,
            free_map: 0,
            log: None,
        };
        runs.sort_unstable();
        for (PageId(start), pages) in runs {
            let counter = match kind_of(PageId(start)) {
                Some(PageKind::Leaf | PageKind::WideLeaf) => &mut trace.leaves,
                Some(PageKind::Branch) => &mut trace.branches,
                Some(PageKind::Overflow) => &mut trace.overflow,
                _ => &mut trace.free_map,
            };
            *counter += u64::from(pages);
            match trace.ranges.last_mut() {
                Some((last, length)) if *last + *length == start => *length += pages,
                _ => trace.ranges.push((start, pages)),
            }
        }
        trace
    }

    /// How many pages there are.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.ranges.iter().map(|&(_, pages)| u64::from(pages)).sum()
    }

    /// How many bytes those are.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pages() * u64::from(self.page_size)
    }
}

impl fmt::Display for WriteTrace {
    /// One line: number, pages, kilobytes, ranges, leaves, branches, overflow pages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            WriteKind::Commit => "commit",
            WriteKind::Steady => "steady",
        };
        write!(
            f,
            "{kind} {}: {} pages, {} KB, {} ranges, {} leaves, {} branches, {} overflow, {} free map",
            self.txn,
            self.pages(),
            self.bytes() >> 10,
            self.ranges.len(),
            self.leaves,
            self.branches,
            self.overflow,
            self.free_map
        )
    }
}

/// The function that is called with each trace.
#[derive(Clone)]
pub(crate) struct Tracer(pub(crate) Arc<dyn Fn(&WriteTrace) + Send + Sync>);

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tracer")
    }
}

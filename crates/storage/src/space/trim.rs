//! Giving up the free pages at the file's end while the database is open.
//!
//! The file ends behind the last page in use. The policy `Lowest`, which fills the file from its
//! start, brings that page down as records are written, and compaction moves what stays (`compact`).
//!
//! Free pages at the end are given up in two steps:
//! 1. `trim`, before transaction `t` begins: the pages leave the sets, and the page count goes
//!    down. States before `t` have the larger count, `t` and later ones the smaller. The free map's
//!    base is written anew with the next steady point, so that nothing on disk lists pages beyond
//!    the count that goes with it.
//! 2. The file is cut off (`Core::cut_off`) once nobody has a larger count: new snapshots see `t`
//!    or a newer state, no snapshot is older than `t`, and both meta pages on disk have smaller
//!    counts. So whatever page number a reader comes upon, in whichever process, is below the end
//!    of the file if it is below the reader's page count; and whichever meta page a crash leaves
//!    fits into the file.
//!
//! Between the steps the file is longer than the page count says (see `tail`). The lock file says
//! so, too: a process that takes over the writing does not know which states have a larger count
//! than the newest, and so waits until nobody sees a state before that one.
//!
//! Trimming is worth it for an eighth of the file and 4 MiB. The pages must have been neither in
//! use nor allocated while a sixteenth of the file was allocated elsewhere, so that pages that come
//! and go are not cut off each time. When nobody writes, half of the file has to be free, and is
//! trimmed at once. What a compaction has moved away from is trimmed in any case.

use super::free_map::base_pages_for;
use super::{SPARE_BYTES, Space, page_bytes};
use crate::page::TxnId;
use crate::pager::Pager;

/// The file's end is given up if it is at least this fraction of the file.
const TRIM_DIVISOR: u32 = 8;
/// The same while nobody writes.
const TRIM_DIVISOR_IDLE: u32 = 2;
/// The same after a compaction.
const TRIM_DIVISOR_COMPACTED: u32 = 64;
/// Free pages at the file's end are looked for each time this fraction of the file was allocated.
const PATIENCE_DIVISOR: u32 = 16;
/// So many pages have to be allocated in between at least.
const PATIENCE_PAGES: u32 = 64;

/// When the file's end is looked at, which decides how much has to be free there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trim {
    /// A transaction is about to begin.
    Writing,
    /// Nobody writes.
    Idle,
    /// Pages were moved away from there.
    Compacted,
}

/// What was allocated since free pages were last looked for at the file's end.
#[derive(Default)]
pub(super) struct Allocated {
    pages: u32,
    /// All of them lie before this page.
    end: u32,
}

impl Allocated {
    #[inline]
    pub(super) fn add(&mut self, page: u32, pages: u32) {
        self.pages = self.pages.saturating_add(pages);
        self.end = self.end.max(page + pages);
    }
}

impl Space {
    /// Whether it is time to look for free pages at the file's end while somebody writes.
    #[inline]
    pub(crate) fn trim_is_due(&self) -> bool {
        self.allocated.pages >= (self.page_count() / PATIENCE_DIVISOR).max(PATIENCE_PAGES)
    }

    /// Lowers the page count if that is worth it, before `txn` begins. If only the free map is in
    /// the way, has that written anew instead. `true` if either was done: a steady point has to
    /// follow.
    pub(crate) fn trim(&mut self, pager: &Pager, txn: TxnId, when: Trim) -> bool {
        let allocated = std::mem::take(&mut self.allocated);
        let allocated_end = if when == Trim::Writing { allocated.end } else { 0 };
        let page_count = self.page_count();
        let (pages_min, bytes_min) = match when {
            Trim::Writing => (page_count / TRIM_DIVISOR, SPARE_BYTES),
            Trim::Idle => (page_count / TRIM_DIVISOR_IDLE, SPARE_BYTES),
            Trim::Compacted => (page_count / TRIM_DIVISOR_COMPACTED, 1),
        };
        let is_worth_it = |end: u32| {
            let pages = page_count.saturating_sub(end);
            pages >= pages_min && page_bytes(pager, pages) >= bytes_min
        };
        if !is_worth_it(self.free_end_start(true).max(allocated_end)) {
            return false;
        }
        let start = self.free_end_start(false).max(allocated_end);
        // Leaves room for the free map, which is written anew.
        let end = start.saturating_add(base_pages_for(start, pager));
        if !is_worth_it(end) {
            // The free map stands in the way. Written anew, it lies lower.
            self.map.rewrite_base();
            return true;
        }
        self.tail.shorten(end);
        self.allocator.truncate(end);
        self.map.truncate(end);
        self.cut_from(txn);
        true
    }

    /// The first of the free pages that the file ends with; with `skip_map`, as if the free map's
    /// own pages were free.
    fn free_end_start(&self, skip_map: bool) -> u32 {
        let map = if skip_map { self.map.runs() } else { Vec::new() };
        let mut start = self.page_count();
        while start > 2 {
            let index = (start as usize - 1) / 64;
            // The pages before `start` in this word, as its highest bits.
            let pages = (start - 1) % 64 + 1;
            let free = self.allocator.word(index) << (64 - pages);
            let free = free.leading_ones().min(pages);
            start -= free;
            if free < pages {
                match map.iter().find(|(page, pages)| page.0 + pages == start) {
                    Some((page, _)) => start = page.0,
                    None => break,
                }
            }
        }
        start
    }

    /// Has the file cut off behind the page count once nobody sees a state before `txn`: no state
    /// from `txn` on has a larger page count.
    pub(crate) fn cut_from(&mut self, txn: TxnId) {
        self.tail.cut_from(txn);
    }

    /// Whether the file is to be cut off.
    pub(crate) fn is_cut_pending(&self) -> bool {
        self.tail.is_cut_pending()
    }

    /// Whether the file may be cut off as far as snapshots are concerned. `pinned` is the oldest
    /// state that a snapshot sees, `visible` the oldest that new snapshots see. Not while a steady
    /// point is being made: its meta page, which is yet to be written, may have a larger page
    /// count.
    pub(crate) fn can_cut(&self, visible: TxnId, pinned: Option<TxnId>) -> bool {
        self.steady_next.is_none() && self.tail.can_cut(visible, pinned)
    }

    /// Whether only the oldest snapshot keeps the file from being cut off. Says so once a steady
    /// point, because the caller then asks the kernel whether the snapshot's process is alive.
    pub(crate) fn is_cut_blocked_by_reader(&mut self, visible: TxnId, pinned: Option<TxnId>) -> bool {
        self.can_cut(visible, None) && !self.can_cut(visible, pinned) && self.tail.ask_once(self.steady)
    }

    /// Whether the meta pages have changed since this was last asked, while a cut is pending.
    pub(crate) fn meta_pages_changed(&mut self) -> bool {
        self.tail.look_once(self.steady)
    }

    /// The file ends behind page `page_count` now, or stays as long as it is.
    pub(crate) fn end_cut(&mut self, page_count: u32) {
        self.tail.end_cut(page_count);
    }

    /// Gives back the disk space behind the last page of a file that cannot be cut off yet.
    pub(crate) fn return_disk_space_of_tail(&self, pager: &Pager) {
        self.tail.return_disk_space(pager);
    }
}

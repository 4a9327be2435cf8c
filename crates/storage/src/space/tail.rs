//! The file's end: the page count, and how the file grows behind the last page.
//!
//! ```text
//! 0                         page_count          loose.start       loose.end          allocated
//! | pages that states reach | backed, not in use | may be holes   | backed, not in use |
//! ```
//!
//! The file is always longer than the page count says: it grows by more than is needed at the
//! moment, so that most allocations at its end do not call the file system. A part of what lies
//! behind the page count may have no disk space (`loose`): the page count may have been lowered
//! (`trim`), or the file may be a copy that was made with holes. That part is backed before it is
//! used.
//!
//! Invariants:
//! 1. Every page below `page_count` and below `loose.end` that is not free was backed before it was
//!    allocated.
//! 2. What of `loose` lies below `page_count` has no meaning any more.

use std::ops::Range;

use super::{BACK_BYTES, page_bytes, pages_of};
use crate::page::{PageId, TxnId};
use crate::pager::Pager;
use crate::{Error, Result};

/// The least and the most bytes by which the file grows.
const GROWTH_BYTES: Range<u64> = (256 << 10)..(64 << 20);
/// The file grows by this fraction of its size.
const GROWTH_DIVISOR: u64 = 16;
/// Memory for pages to come is asked for in steps of this size.
const POPULATE_BYTES: u64 = 256 << 10;

/// An end of the file that is to be cut off; see `trim`.
#[derive(Clone, Copy)]
struct Cut {
    /// States before this transaction may have a larger page count.
    txn: TxnId,
    /// The steady point at which the meta pages were last looked at.
    looked: Option<TxnId>,
    /// The steady point at which it was last asked whether the readers in the way are alive.
    asked: Option<TxnId>,
}

/// The file's end.
pub(super) struct Tail {
    page_count: u32,
    loose: Range<u32>,
    /// The file is longer than it has to be, and is to be cut off.
    cut: Option<Cut>,
    /// Whether memory for pages to come is asked for before they are touched, and up to which page
    /// that was done.
    populates: bool,
    populated: u32,
}

impl Tail {
    pub(super) fn new(page_count: u32) -> Self {
        Self { page_count, loose: 0..0, cut: None, populates: false, populated: 0 }
    }

    #[inline]
    pub(super) fn page_count(&self) -> u32 {
        self.page_count
    }

    /// Takes over a page count that another process has set.
    pub(super) fn set_page_count(&mut self, page_count: u32) {
        self.page_count = page_count;
    }

    /// Declares that everything from the page count to `allocated_bytes` may be holes.
    pub(super) fn set_loose(&mut self, pager: &Pager, allocated_bytes: u64) {
        self.loose = self.page_count..pages_of(pager, allocated_bytes);
    }

    /// Asks for the memory of new pages in steps, or not.
    pub(super) fn set_populates(&mut self, populates: bool) {
        self.populates = populates;
        self.populated = self.page_count;
    }

    // ---- growing ----

    /// Makes sure that the file has `page_count` pages, with disk space behind each that is not
    /// below the page count.
    pub(super) fn reserve(&mut self, pager: &Pager, page_count: u64) -> Result<()> {
        self.back_loose(pager, page_count)?;
        let page_size = pager.page_size() as u64;
        let needed = page_count * page_size;
        let disk = pager.disk();
        if needed <= disk.allocated() {
            return Ok(());
        }
        if page_count > u64::from(pager.pages_max()) {
            return Err(Error::DatabaseFull { size_max: u64::from(pager.pages_max()) * page_size });
        }
        let step = (needed / GROWTH_DIVISOR).clamp(GROWTH_BYTES.start, GROWTH_BYTES.end);
        let roomy = (needed + step).next_multiple_of(page_size).min(u64::from(pager.pages_max()) * page_size);
        pager.grow(roomy).or_else(|_| pager.grow(needed))
    }

    /// Allocates a run at the file's end.
    pub(super) fn allocate(&mut self, pager: &Pager, pages: u32) -> Result<PageId> {
        self.reserve(pager, u64::from(self.page_count) + u64::from(pages))?;
        let page = PageId(self.page_count);
        self.page_count += pages;
        self.populate(pager);
        Ok(page)
    }

    /// Asks for the memory of the pages to come in one go: one page fault for each of them costs
    /// ten times as much. Not done where every commit flushes, because populated pages are dirty.
    fn populate(&mut self, pager: &Pager) {
        if self.populates && self.page_count > self.populated {
            let step = (POPULATE_BYTES / pager.page_size() as u64) as u32;
            let loose_start = self.loose.start.max(self.page_count);
            // Populating a hole might take disk space that is missing later, so holes are left out.
            let backed = if loose_start < self.loose.end { loose_start } else { u32::MAX };
            let end = (self.page_count + step).min(pages_of(pager, pager.disk().allocated())).min(backed);
            pager.disk().populate(page_bytes(pager, self.page_count), page_bytes(pager, end - self.page_count));
            self.populated = end;
        }
    }

    /// Backs the holes behind the last page, in steps, up to a page count.
    fn back_loose(&mut self, pager: &Pager, page_count: u64) -> Result<()> {
        let start = self.loose.start.max(self.page_count);
        let end = page_count.min(u64::from(self.loose.end)) as u32;
        if start >= end {
            return Ok(());
        }
        let page_size = pager.page_size() as u64;
        let back = |end: u32| pager.back(start, end - start);
        let roomy = end.saturating_add((BACK_BYTES / page_size) as u32).min(self.loose.end);
        let end = match back(roomy) {
            Ok(()) => roomy,
            Err(_) => back(end).map(|()| end)?,
        };
        self.loose.start = end;
        Ok(())
    }

    // ---- becoming shorter ----

    /// Lowers the page count. What lies behind it may be given back to the file system from now on.
    pub(super) fn shorten(&mut self, page_count: u32) {
        self.loose = page_count..self.loose.end.max(self.page_count);
        self.page_count = page_count;
        self.populated = self.populated.min(page_count);
    }

    /// Has the file cut off once no state before `txn` is seen.
    pub(super) fn cut_from(&mut self, txn: TxnId) {
        self.cut = Some(Cut { txn, looked: None, asked: None });
    }

    pub(super) fn is_cut_pending(&self) -> bool {
        self.cut.is_some()
    }

    /// Whether new snapshots, which see `visible` or a newer state, and the oldest snapshot that
    /// there is have small enough page counts for the file to be cut off.
    pub(super) fn can_cut(&self, visible: TxnId, pinned: Option<TxnId>) -> bool {
        self.cut.is_some_and(|cut| visible >= cut.txn && pinned.is_none_or(|pinned| pinned >= cut.txn))
    }

    /// `true` the first time this is called after a steady point while a cut is pending.
    pub(super) fn ask_once(&mut self, steady: TxnId) -> bool {
        self.cut.as_mut().is_some_and(|cut| cut.asked.replace(steady) != Some(steady))
    }

    /// As [`Tail::ask_once`], for another question.
    pub(super) fn look_once(&mut self, steady: TxnId) -> bool {
        self.cut.as_mut().is_some_and(|cut| cut.looked.replace(steady) != Some(steady))
    }

    /// The file ends behind page `page_count` now, or stays as long as it is.
    pub(super) fn end_cut(&mut self, page_count: u32) {
        self.cut = None;
        self.loose.end = self.loose.end.min(page_count);
    }

    /// Gives back the disk space behind the last page of a file that cannot be cut off yet.
    pub(super) fn return_disk_space(&self, pager: &Pager) {
        let start = self.loose.start.max(self.page_count);
        if self.cut.is_some() && start < self.loose.end {
            let _ = pager.punch(start, self.loose.end - start);
        }
    }
}

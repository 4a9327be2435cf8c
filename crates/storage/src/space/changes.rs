//! What has changed since the last steady point: which runs are new, and which old ones were freed.
//!
//! The next steady point seals and flushes the new runs, and brings the free map up to date by both
//! lists, so its cost depends on what has changed and not on the size of the file.
//!
//! Invariants:
//! 1. `new` holds the first pages of exactly those runs in use that are newer than the last steady
//!    point, and `new_pages` counts the pages of those runs.
//! 2. `ever_new` lists each page once that was in `new` since then, whether it still is or not.

use crate::page::PageId;
use crate::page_set::PageSet;
use crate::pager::Pager;

/// Runs that were allocated or freed since the last steady point.
#[derive(Default)]
pub(super) struct Changes {
    new: PageSet,
    new_pages: u64,
    ever_new: Vec<PageId>,
    /// The pages of `ever_new`.
    listed: PageSet,
    /// Runs in use at the last steady point that were freed since.
    freed: Vec<(PageId, u32)>,
}

/// The changes up to a steady point, for the free map.
pub(super) struct Taken {
    /// New runs in use.
    pub(super) new: Vec<(PageId, u32)>,
    /// Runs that were freed.
    pub(super) freed: Vec<(PageId, u32)>,
}

impl Changes {
    /// Whether a page heads a run in use that is newer than the last steady point.
    #[inline]
    pub(super) fn is_new(&self, page: PageId) -> bool {
        self.new.contains(page.0)
    }

    /// How many pages in use are newer than the last steady point.
    pub(super) fn new_pages(&self) -> u64 {
        self.new_pages
    }

    /// How many pages of the last steady point were freed since.
    pub(super) fn freed_pages(&self) -> u64 {
        self.freed.iter().map(|&(_, pages)| u64::from(pages)).sum()
    }

    /// Adds a run that was allocated; `false` if it is one of the new runs already.
    pub(super) fn add(&mut self, page: PageId, pages: u32) -> bool {
        if !self.new.insert(page.0) {
            return false;
        }
        self.new_pages += u64::from(pages);
        if self.listed.insert(page.0) {
            self.ever_new.push(page);
        }
        true
    }

    /// Removes a new run; `false` if it is none.
    pub(super) fn remove(&mut self, page: PageId, pages: u32) -> bool {
        let new = self.new.remove(page.0);
        if new {
            self.new_pages = self.new_pages.saturating_sub(u64::from(pages));
        }
        new
    }

    /// Notes that a new run has become longer or shorter.
    pub(super) fn resize(&mut self, more_pages: i64) {
        self.new_pages = self.new_pages.saturating_add_signed(more_pages);
    }

    /// Notes a run that a committed transaction freed.
    pub(super) fn free(&mut self, page: PageId, pages: u32) {
        if !self.remove(page, pages) {
            self.freed.push((page, pages));
        }
    }

    /// Hands over all changes: the state they lead to becomes the last steady point.
    pub(super) fn take(&mut self, pager: &Pager) -> Taken {
        let ever_new = std::mem::take(&mut self.ever_new);
        let mut new = Vec::with_capacity(ever_new.len());
        for page in ever_new {
            self.listed.remove(page.0);
            if self.new.remove(page.0) {
                new.push((page, pager.birth_and_pages(page).1));
            }
        }
        self.new_pages = 0;
        Taken { new, freed: std::mem::take(&mut self.freed) }
    }
}

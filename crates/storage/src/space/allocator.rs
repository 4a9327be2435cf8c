//! The free pages that the writer may use, and which of them it gets next.
//!
//! A page that may be used is in one of two sets:
//!
//! | set | holds | order of use |
//! | --- | --- | --- |
//! | `ready` | pages with disk space behind them | as the policy says |
//! | `unbacked` | pages that may have none | lowest first, after disk space was asked for |
//!
//! Unbacked pages are those that were given back to the file system, and, after opening, all free
//! pages, because nothing on disk tells which of them were given back.
//!
//! Policies ([`FreeSpace`]): `Lifo` takes the page that became free last, `Fifo` the one that
//! became free first, `Lowest` the one nearest to the file's start, `Append` none at all. Runs of
//! several pages are always taken by place.
//!
//! Invariants:
//! 1. No page is in both sets. With `Append`, both are empty.
//! 2. With `Lifo` and `Fifo`, each page of `ready` stands in `order`. `order` may also list pages
//!    that have left `ready` (as part of a run, for example); they are skipped when they are met.

use std::collections::VecDeque;

use super::page_bytes;
use crate::options::FreeSpace;
use crate::page::PageId;
use crate::page_set::PageSet;
use crate::pager::Pager;

/// Disk space that had been given back is asked for in steps of this size.
pub(super) const BACK_BYTES: u64 = 1 << 20;
/// Less free space than this is not given back to the file system.
pub(crate) const SPARE_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 4 << 20 };

/// More free space than this part of the file is given back while nobody writes.
const RETURN_DIVISOR: u32 = 8;

/// A search for a run looks at this number of bitmap words, each for 64 pages, before the file
/// grows instead.
const RUN_SEARCH_WORDS: usize = 1024;

/// The free pages that the writer may use.
pub(super) struct Allocator {
    policy: FreeSpace,
    /// For the time being, pages and runs are taken lowest first, whatever the policy.
    lowest_first: bool,
    ready: PageSet,
    /// The pages of `ready`, oldest first, where the policy goes by age.
    order: VecDeque<PageId>,
    /// So many pages at the front of `order` were unbacked before, and so are older than the
    /// others.
    oldest: u32,
    unbacked: PageSet,
}

impl Allocator {
    pub(super) fn new() -> Self {
        Self {
            policy: FreeSpace::Lifo,
            lowest_first: false,
            ready: PageSet::default(),
            order: VecDeque::new(),
            oldest: 0,
            unbacked: PageSet::default(),
        }
    }

    /// Sets the policy, before any page is ready.
    pub(super) fn set_policy(&mut self, policy: FreeSpace) {
        debug_assert_eq!(self.ready.len(), 0);
        self.policy = policy;
        if policy == FreeSpace::Append {
            self.unbacked = PageSet::default();
        }
    }

    pub(super) fn set_lowest_first(&mut self, lowest_first: bool) {
        self.lowest_first = lowest_first;
    }

    /// How many pages are free; `None` if the policy keeps no books of them.
    pub(super) fn free_pages(&self) -> Option<u32> {
        (self.policy != FreeSpace::Append).then(|| self.ready.len() + self.unbacked.len())
    }

    /// How many pages are ready.
    pub(super) fn ready_pages(&self) -> u32 {
        self.ready.len()
    }

    pub(super) fn unbacked(&self) -> &PageSet {
        &self.unbacked
    }

    /// The free pages from `64 * index` on, lowest bit first.
    #[inline]
    pub(super) fn word(&self, index: usize) -> u64 {
        self.ready.word(index) | self.unbacked.word(index)
    }

    // ---- adding and removing ----

    /// Adds pages that have just become free and have disk space behind them.
    pub(super) fn add(&mut self, page: PageId, pages: u32) {
        let run = page.0..page.0 + pages;
        match self.policy {
            // The lowest of them is taken first.
            FreeSpace::Lifo => {
                for page in run.rev() {
                    if self.ready.insert(page) {
                        self.order.push_back(PageId(page));
                    }
                }
            }
            FreeSpace::Fifo => {
                for page in run {
                    if self.ready.insert(page) {
                        self.order.push_back(PageId(page));
                    }
                }
            }
            FreeSpace::Lowest => run.for_each(|page| _ = self.ready.insert(page)),
            FreeSpace::Append => return,
        }
        if self.order.len() > 2 * self.ready.len() as usize + 1024 {
            self.drop_skipped();
        }
    }

    /// Adds pages that were unbacked until now, and so have been free for longer than the ready
    /// ones.
    fn add_oldest(&mut self, page: PageId, pages: u32) {
        if self.policy != FreeSpace::Fifo {
            return self.add(page, pages);
        }
        for page in (page.0..page.0 + pages).rev() {
            if self.ready.insert(page) {
                self.order.push_front(PageId(page));
                self.oldest += 1;
            }
        }
    }

    /// Adds pages that may have no disk space behind them.
    pub(super) fn add_unbacked(&mut self, page: PageId, pages: u32) {
        if self.policy != FreeSpace::Append {
            (page.0..page.0 + pages).for_each(|page| _ = self.unbacked.insert(page));
        }
    }

    /// Adds all pages of a set, before any other; see [`Allocator::add_unbacked`].
    pub(super) fn set_unbacked(&mut self, pages: PageSet) {
        self.unbacked = pages;
    }

    /// Removes pages that turned out to be in use, or that somebody still sees.
    pub(super) fn remove_unbacked(&mut self, page: PageId, pages: u32) {
        (page.0..page.0 + pages).for_each(|page| _ = self.unbacked.remove(page));
    }

    /// Removes all pages from `end` on.
    pub(super) fn truncate(&mut self, end: u32) {
        self.ready.truncate(end);
        self.unbacked.truncate(end);
    }

    /// Removes from `order` the entries that would be skipped.
    fn drop_skipped(&mut self) {
        let mut seen = PageSet::default();
        let ready = &self.ready;
        let mut kept: VecDeque<PageId> = VecDeque::with_capacity(ready.len() as usize);
        for &page in self.order.iter().rev().filter(|page| ready.contains(page.0)) {
            if seen.insert(page.0) {
                kept.push_front(page);
            }
        }
        self.order = kept;
    }

    // ---- allocating ----

    /// Allocates a free run of `pages` pages, or gives `None` if none is found in a search of
    /// bounded length.
    pub(super) fn allocate(&mut self, pager: &Pager, pages: u32) -> Option<PageId> {
        match pages {
            1 => self.allocate_page(pager),
            _ if self.lowest_first => self.allocate_run_lowest(pager, pages),
            _ => self.allocate_run(pager, pages, RUN_SEARCH_WORDS + pages as usize / 64),
        }
    }

    /// The first page of the lowest free run of `pages` pages, and whether it is unbacked.
    pub(super) fn lowest_run(&mut self, pages: u32) -> Option<(u32, bool)> {
        let lowest = |set: &mut PageSet| match pages {
            1 => set.lowest(),
            _ => set.find_run(pages, usize::MAX),
        };
        let ready = lowest(&mut self.ready).map(|page| (page, false));
        ready.into_iter().chain(lowest(&mut self.unbacked).map(|page| (page, true))).min()
    }

    fn allocate_run_lowest(&mut self, pager: &Pager, pages: u32) -> Option<PageId> {
        let (start, unbacked) = self.lowest_run(pages)?;
        if unbacked {
            pager.back(start, pages).ok()?;
        }
        let set = if unbacked { &mut self.unbacked } else { &mut self.ready };
        (start..start + pages).for_each(|page| _ = set.remove(page));
        Some(PageId(start))
    }

    /// As [`Allocator::allocate`] for a run, searching everything.
    pub(super) fn allocate_run_anywhere(&mut self, pager: &Pager, pages: u32) -> Option<PageId> {
        self.allocate_run(pager, pages, usize::MAX)
    }

    /// Allocates the lowest ready page, whatever the policy.
    pub(super) fn allocate_lowest(&mut self) -> Option<PageId> {
        self.ready.lowest().inspect(|&page| _ = self.ready.remove(page)).map(PageId)
    }

    fn allocate_page(&mut self, pager: &Pager) -> Option<PageId> {
        let unbacked_first = match self.policy_now() {
            FreeSpace::Lifo | FreeSpace::Append => false,
            FreeSpace::Fifo => self.oldest == 0 && self.unbacked.len() > 0,
            FreeSpace::Lowest => {
                let ready = self.ready.lowest();
                self.unbacked.lowest().is_some_and(|page| ready.is_none_or(|ready| page < ready))
            }
        };
        if unbacked_first {
            self.back(pager, 1);
        }
        self.allocate_ready().or_else(|| {
            self.back(pager, 1);
            self.allocate_ready()
        })
    }

    #[inline]
    fn policy_now(&self) -> FreeSpace {
        if self.lowest_first { FreeSpace::Lowest } else { self.policy }
    }

    #[inline]
    fn allocate_ready(&mut self) -> Option<PageId> {
        match self.policy_now() {
            FreeSpace::Lifo => {
                while let Some(page) = self.order.pop_back() {
                    if self.ready.remove(page.0) {
                        return Some(page);
                    }
                }
            }
            FreeSpace::Fifo => {
                while let Some(page) = self.order.pop_front() {
                    self.oldest = self.oldest.saturating_sub(1);
                    if self.ready.remove(page.0) {
                        return Some(page);
                    }
                }
            }
            FreeSpace::Lowest => return self.allocate_lowest(),
            FreeSpace::Append => {}
        }
        None
    }

    /// Allocates neighbouring pages, looking at `words_max` words of the bitmap at most.
    fn allocate_run(&mut self, pager: &Pager, pages: u32, words_max: usize) -> Option<PageId> {
        if self.ready.len() >= pages
            && let Some(start) = self.ready.find_run(pages, words_max)
        {
            (start..start + pages).for_each(|page| _ = self.ready.remove(page));
            return Some(PageId(start));
        }
        if self.unbacked.len() < pages {
            return None;
        }
        let start = self.unbacked.find_run(pages, words_max)?;
        pager.back(start, pages).ok()?;
        (start..start + pages).for_each(|page| _ = self.unbacked.remove(page));
        Some(PageId(start))
    }

    /// Allocates just these pages, if all of them are ready.
    pub(super) fn allocate_at(&mut self, page: PageId, pages: u32) -> bool {
        let mut run = page.0..page.0 + pages;
        let ready = run.clone().all(|page| self.ready.contains(page));
        if ready {
            run.all(|page| self.ready.remove(page));
        }
        ready
    }

    // ---- disk space ----

    /// Makes unbacked pages ready, until `pages` are ready or the disk has no more room.
    pub(super) fn back(&mut self, pager: &Pager, pages: u32) {
        let step = (BACK_BYTES / pager.page_size() as u64) as u32;
        let mut backed = Vec::new();
        let mut count = 0;
        // Moves the set's lower bound up, so that the search below begins where there are pages.
        self.unbacked.lowest();
        for (start, length) in self.unbacked.runs() {
            if self.ready.len() + count >= pages && count >= step {
                break;
            }
            let length = length.min(step);
            if pager.back(start, length).is_err() {
                break;
            }
            backed.push((start, length));
            count += length;
        }
        for (start, length) in backed.into_iter().rev() {
            self.remove_unbacked(PageId(start), length);
            self.add_oldest(PageId(start), length);
        }
    }

    /// Whether `pages` neighbouring pages are ready, after backing unbacked ones if need be.
    pub(super) fn prepare_run(&mut self, pager: &Pager, pages: u32) -> bool {
        if self.ready.find_run(pages, usize::MAX).is_none() {
            self.back(pager, self.ready.len() + pages);
        }
        self.ready.find_run(pages, usize::MAX).is_some()
    }

    /// Gives the disk space of the ready pages back to the file system if they are more than an
    /// eighth of the file's pages that have any, and if that is worth it.
    pub(super) fn return_disk_space(&mut self, pager: &Pager, page_count: u32) {
        let backed = page_count - self.unbacked.len();
        if self.ready.len() <= backed / RETURN_DIVISOR || page_bytes(pager, self.ready.len()) < SPARE_BYTES {
            return;
        }
        let ready = std::mem::take(&mut self.ready);
        self.order.clear();
        self.oldest = 0;
        let mut refused = false;
        for (start, length) in ready.runs() {
            refused = refused || pager.punch(start, length).is_err();
            if refused {
                self.add(PageId(start), length);
            } else {
                self.add_unbacked(PageId(start), length);
            }
        }
    }
}

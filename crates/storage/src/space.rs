//! Free space: which pages the writer may take, and how that is remembered on disk.
//!
//! A page is free once no state that can still be asked for reaches it. In memory, for the writer:
//! - `ready`: pages that may be taken now, in the order that [`FreeSpace`] says;
//! - `unbacked`: pages that may be taken once there is disk space behind them, lowest first: what was given back to
//!   the file system, and, after opening, every free page, since nothing tells which of them were;
//! - `pending`: pages freed by a transaction, waiting for whoever sees them. A page born in transaction `b` and freed
//!   in `f` is seen by the pinned transactions `p` with `b <= p < f`: those of snapshots, the last steady point, and
//!   a steady point being made, and, where commits become visible only once they are durable, each from the visible
//!   one on. When no such `p` is left, it is ready, whatever older snapshots live.
//! - `born`: pages in use that are newer than the last steady point: what the next one has to seal.
//!
//! On disk the free pages of a steady point are a bitmap (the base), changed by the pages listed in a chain of log
//! pages, changed by the pages listed in the meta page. Listing a page turns it from free to used or back. Most
//! steady points change a few pages back and forth, so their change fits the meta page and writes nothing else;
//! the base is written anew when the chain has grown as long as it, so the cost of a steady point does not depend
//! on how much is free.
//!
//! Between steady points nothing is written. When the writer's lock goes to another process, the state is derived
//! from the last steady point and the pages that are newer than it, and from what the snapshots that live reach of its free
//! pages (`Core::take_over`).
//!
//! What becomes of free pages at the file's end is in `tail`.
//!
//! Invariants:
//! 1. A page is in one of ready, unbacked, pending, in use (with `Append`, none is ready or unbacked: what is free and
//!    does not wait is in no set).
//! 2. `persisted` is exactly what the last steady point says of the pages below `persisted_count`, which is its page
//!    count, or the least that the page count has been since.
//! 3. No set, and nothing that is in use, names a page at or beyond `page_count`.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use crate::meta::{Meta, TOGGLES_MAX};
use crate::options::FreeSpace;
use crate::page::{self, HEADER_BYTES, PageId, PageKind, TxnId, get_u32, put_u32};
use crate::page_set::PageSet;
use crate::pager::{Bounds, Pager};
use crate::{Error, Result};

mod tail;

/// Bytes by which the file grows at least and at most.
const GROWTH_BYTES: Range<u64> = (256 << 10)..(64 << 20);
/// The file grows by this fraction of its size.
const GROWTH_DIVISOR: u64 = 16;

/// Disk space is asked for in steps of so many bytes where it had been given back.
const BACK_BYTES: u64 = 1 << 20;
/// Less free space than this is kept.
pub(crate) const SPARE_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 4 << 20 };

/// So many lists of freed pages are kept for reuse.
const SPARE_LISTS: usize = 8;
/// So many waiting pages are no reason to look after those who hold them.
const PENDING_PAGES_FEW: u64 = 64;

/// A search for a run looks at so many words of the bitmap, each for 64 pages, before the file grows instead.
const RUN_SEARCH_WORDS: usize = 1024;

/// Memory is asked for in steps of so many bytes.
const POPULATE_BYTES: u64 = 256 << 10;

/// A run of pages that a transaction no longer needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Freed {
    pub(crate) page: PageId,
    pub(crate) pages: u32,
    pub(crate) birth: TxnId,
}

/// What one committed transaction freed.
struct Pending {
    txn: TxnId,
    /// The newest pinned transaction below `txn` when this was last looked at: nothing changes until it does.
    blocker: Option<TxnId>,
    /// Some of the pages may have no disk space behind them.
    unbacked: bool,
    runs: Vec<Freed>,
}

/// Free space of one database, as its writer knows it.
pub(crate) struct Space {
    page_count: u32,
    /// Pages behind `page_count` that the file has and that may have no disk space behind them. What of it lies below
    /// `page_count` has long been seen to.
    loose: Range<u32>,
    /// The file is longer than it has to be.
    cut: Option<tail::Cut>,
    /// So many pages were taken since free pages were looked for at the file's end, all of them before this one.
    taken: u32,
    taken_end: u32,
    /// Whether to ask for the memory of pages to come before they are touched, and how far that was done.
    ahead: bool,
    populated: u32,
    policy: FreeSpace,
    /// Single pages are taken by place for the time being, whatever the policy.
    lowest: bool,
    ready: PageSet,
    /// Ready pages, freshest last, where the policy goes by age. Pages that left `ready` another way are skipped when
    /// met.
    order: VecDeque<PageId>,
    /// So many pages at the front of `order` were unbacked, and so are older than the others.
    old_backed: u32,
    unbacked: PageSet,
    /// Lists of pending groups that are gone, empty, for the next ones.
    spare: Vec<Vec<Freed>>,
    /// Runs that became free, while they are handed on.
    given: Vec<(PageId, u32, bool)>,
    /// Even pages in use since before this may have no disk space behind them: zeros of a copy made with holes.
    sparse_until: TxnId,
    pending: VecDeque<Pending>,
    pending_pages: u64,
    /// `pending_pages` when it was last found to be much.
    pending_noted: u64,

    /// First pages of runs in use that are newer than the last steady point.
    born: PageSet,
    /// How many pages those runs have.
    born_pages: u64,
    /// The pages that `born` ever held since then, each once.
    born_list: Vec<PageId>,
    born_listed: PageSet,
    /// Runs in use at the last steady point and freed since.
    freed_steady: Vec<(PageId, u32)>,

    /// The last steady point, and the one being made.
    steady: TxnId,
    steady_next: Option<TxnId>,
    /// The free pages as the last steady point says, below `persisted_count`.
    persisted: PageSet,
    /// The page count of the last steady point, or the least since.
    persisted_count: u32,
    /// The free map has to be written anew with the next steady point.
    rebase: bool,
    /// Pages whose state differs between `persisted` and base plus chain.
    toggles: HashSet<PageId>,
    base: PageId,
    base_pages: u32,
    log: Vec<PageId>,
}

/// What a steady point writes besides the catalogue: made by [`Space::begin_steady`].
pub(crate) struct SteadyPlan {
    /// Runs to seal and flush.
    pub(crate) born: Vec<(PageId, u32)>,
    /// The part of the meta page that `Space` owns; the rest is default.
    pub(crate) meta: Meta,
}

impl Space {
    /// The space of a database that has just its meta pages.
    pub(crate) fn empty() -> Self {
        Self {
            page_count: 2,
            loose: 0..0,
            cut: None,
            taken: 0,
            taken_end: 0,
            ahead: false,
            populated: 0,
            policy: FreeSpace::Lifo,
            lowest: false,
            ready: PageSet::default(),
            order: VecDeque::new(),
            old_backed: 0,
            unbacked: PageSet::default(),
            spare: Vec::new(),
            given: Vec::new(),
            sparse_until: TxnId(0),
            pending: VecDeque::new(),
            pending_pages: 0,
            pending_noted: 0,
            born: PageSet::default(),
            born_pages: 0,
            born_list: Vec::new(),
            born_listed: PageSet::default(),
            freed_steady: Vec::new(),
            steady: TxnId(0),
            steady_next: None,
            persisted: PageSet::default(),
            persisted_count: 2,
            rebase: false,
            toggles: HashSet::new(),
            base: PageId::NONE,
            base_pages: 0,
            log: Vec::new(),
        }
    }

    /// Reads the free pages of a steady point. All of them may be taken: nobody sees an older state.
    pub(crate) fn load(pager: &Pager, meta: &Meta) -> Result<Self> {
        let bounds = Bounds { page_count: meta.page_count, newest: meta.txn, steady: meta.txn };
        let mut space = Self::empty();
        space.page_count = meta.page_count;
        space.persisted_count = meta.page_count;
        space.steady = meta.txn;
        space.base = meta.free_base;
        space.base_pages = meta.free_base_pages;
        if meta.free_base != PageId::NONE {
            let run = pager.free_map_run(meta.free_base, PageKind::FreeBase, bounds)?;
            if page::run_pages_of(run) != meta.free_base_pages {
                let reason = "the free map's base has another length than the meta page says";
                return Err(Error::Corrupted { page: meta.free_base, reason });
            }
            let bytes = page::run_bytes_of(run) as usize;
            space.persisted = PageSet::from_bytes(&run[HEADER_BYTES..HEADER_BYTES + bytes]);
        }
        let mut link = meta.free_log;
        let outside = |page: u32| page < 2 || page >= meta.page_count;
        let lists_outside = |page| Error::Corrupted { page, reason: "the free map lists pages outside the file" };
        // More links than pages would be a circle.
        let links_max = meta.free_log_pages.min(meta.page_count);
        while link != PageId::NONE {
            if space.log.len() as u32 >= links_max {
                return Err(Error::Corrupted {
                    page: link,
                    reason: "the free map's chain is longer than the meta page says",
                });
            }
            let bytes = pager.free_map_run(link, PageKind::FreeLog, bounds)?;
            let count = get_u32(bytes, HEADER_BYTES + 4) as usize;
            if count > log_capacity(pager) {
                return Err(Error::Corrupted { page: link, reason: "a link of the free map's chain is too full" });
            }
            for i in 0..count {
                let page = get_u32(bytes, HEADER_BYTES + 8 + 4 * i);
                if outside(page) {
                    return Err(lists_outside(link));
                }
                space.persisted.toggle(page);
            }
            space.log.push(link);
            link = PageId(get_u32(bytes, HEADER_BYTES));
        }
        if space.log.len() as u32 != meta.free_log_pages {
            let reason = "the free map's chain is shorter than the meta page says";
            return Err(Error::Corrupted { page: meta.free_log, reason });
        }
        // The chain is kept oldest first, as it grows.
        space.log.reverse();
        for &page in &meta.toggles {
            if outside(page.0) {
                return Err(lists_outside(PageId::NONE));
            }
            space.persisted.toggle(page.0);
            space.toggles.insert(page);
        }
        if space.persisted.iter().next().is_some_and(outside) || space.persisted.end() > meta.page_count {
            return Err(lists_outside(meta.free_base));
        }
        let in_use = |(page, pages): (PageId, u32)| (page.0..page.0 + pages).any(|page| space.persisted.contains(page));
        if space.map_runs().into_iter().any(in_use) {
            return Err(Error::Corrupted { page: meta.free_base, reason: "the free map lists its own pages as free" });
        }
        space.unbacked = space.persisted.clone();
        if pager.disk().occupied()? < pager.disk().allocated() {
            space.sparse_until = meta.txn;
            space.loose = meta.page_count..pages_of(pager, pager.disk().allocated());
        }
        Ok(space)
    }

    pub(crate) fn page_count(&self) -> u32 {
        self.page_count
    }

    /// The free pages of the last steady point, for `check`.
    pub(crate) fn persisted(&self) -> &PageSet {
        &self.persisted
    }

    pub(crate) fn map_runs(&self) -> Vec<(PageId, u32)> {
        let base = (self.base != PageId::NONE).then_some((self.base, self.base_pages));
        base.into_iter().chain(self.log.iter().map(|&page| (page, 1))).collect()
    }

    /// Whether a page heads a run in use that is newer than the last steady point.
    pub(crate) fn is_born(&self, page: PageId) -> bool {
        self.born.contains(page.0)
    }

    /// The birth that a run's header names, but not newer than it can be.
    pub(crate) fn birth_bounded(&self, page: PageId, birth: TxnId) -> TxnId {
        if self.is_born(page) { birth } else { birth.min(self.steady_next.unwrap_or(self.steady)) }
    }

    /// How many pages in use are newer than the last steady point.
    pub(crate) fn born_pages(&self) -> u64 {
        self.born_pages
    }

    /// Sets the order in which free pages are taken, before any are, and when it is known which of them may be.
    pub(crate) fn set_policy(&mut self, policy: FreeSpace) {
        debug_assert_eq!(self.ready.len(), 0);
        self.policy = policy;
        if policy == FreeSpace::Append {
            self.unbacked = PageSet::default();
        }
    }

    /// Has single pages taken from the file's start, or again as the policy says.
    pub(crate) fn take_lowest(&mut self, lowest: bool) {
        self.lowest = lowest;
    }

    /// Takes in pages that became free.
    fn give(&mut self, page: PageId, pages: u32) {
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
            self.forget_skipped();
        }
    }

    /// Takes in pages that have been free for long.
    fn give_old(&mut self, page: PageId, pages: u32) {
        if self.policy != FreeSpace::Fifo {
            return self.give(page, pages);
        }
        for page in (page.0..page.0 + pages).rev() {
            if self.ready.insert(page) {
                self.order.push_front(PageId(page));
                self.old_backed += 1;
            }
        }
    }

    /// Takes out of `order` what would be skipped.
    fn forget_skipped(&mut self) {
        let mut seen = PageSet::default();
        let ready = &self.ready;
        let mut fresh: VecDeque<PageId> = VecDeque::with_capacity(ready.len() as usize);
        for &page in self.order.iter().rev().filter(|page| ready.contains(page.0)) {
            if seen.insert(page.0) {
                fresh.push_front(page);
            }
        }
        self.order = fresh;
    }

    /// Asks for the memory of new pages in steps, where commits do not flush.
    pub(crate) fn populate_ahead(&mut self, ahead: bool) {
        self.ahead = ahead;
        self.populated = self.page_count;
    }

    /// Makes sure that `pages` single pages can be taken without growing the file, so that a change that has begun
    /// cannot fail for lack of room.
    pub(crate) fn reserve(&mut self, pager: &Pager, pages: u32) -> Result<()> {
        if self.ready.len() < pages {
            self.back(pager, pages);
        }
        let missing = pages.saturating_sub(self.ready.len());
        self.grow(pager, self.page_count as u64 + u64::from(missing))
    }

    /// Makes sure that the file has so many pages, and disk space behind those that it had before.
    fn grow(&mut self, pager: &Pager, page_count: u64) -> Result<()> {
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
        disk.grow(roomy).or_else(|_| disk.grow(needed))
    }

    /// Asks for the memory behind the pages to come in one go: a fault for each costs ten times as much. Not where
    /// every commit flushes, because what is populated is dirty.
    fn populate(&mut self, pager: &Pager) {
        if self.ahead && self.page_count > self.populated {
            let step = (POPULATE_BYTES / pager.page_size() as u64) as u32;
            let loose_start = self.loose.start.max(self.page_count);
            // What has no disk space yet is not asked for: that might give it some which is missing later.
            let backed = if loose_start < self.loose.end { loose_start } else { u32::MAX };
            let end = (self.page_count + step).min(pages_of(pager, pager.disk().allocated())).min(backed);
            let page_size = pager.page_size() as u64;
            pager.disk().populate(u64::from(self.page_count) * page_size, u64::from(end - self.page_count) * page_size);
            self.populated = end;
        }
    }

    /// Takes a run of pages for a transaction.
    pub(crate) fn take(&mut self, pager: &Pager, pages: u32) -> Result<PageId> {
        let found = match pages {
            1 => self.take_one(pager),
            _ => self.take_run(pager, pages, RUN_SEARCH_WORDS + pages as usize / 64),
        };
        let page = match found {
            Some(page) => page,
            None => match self.grow(pager, u64::from(self.page_count) + u64::from(pages)) {
                Ok(()) => {
                    let page = PageId(self.page_count);
                    self.page_count += pages;
                    self.populate(pager);
                    page
                }
                // Where there is no more room, a long search is better than none.
                Err(e) => self.take_run(pager, pages, usize::MAX).ok_or(e)?,
            },
        };
        self.note_taken(page, pages)
    }

    fn note_taken(&mut self, page: PageId, pages: u32) -> Result<PageId> {
        self.taken = self.taken.saturating_add(pages);
        self.taken_end = self.taken_end.max(page.0 + pages);
        if !self.born.insert(page.0) {
            // Without checksums, damage may have led to this page being freed while it is in use.
            return Err(crate::pager::corrupted(page, "it is in use and was free"));
        }
        self.born_pages += u64::from(pages);
        if self.born_listed.insert(page.0) {
            self.born_list.push(page);
        }
        Ok(page)
    }

    fn take_one(&mut self, pager: &Pager) -> Option<PageId> {
        let unbacked_first = match self.policy_now() {
            FreeSpace::Lifo | FreeSpace::Append => false,
            FreeSpace::Fifo => self.old_backed == 0 && self.unbacked.len() > 0,
            FreeSpace::Lowest => {
                let ready = self.ready.lowest();
                self.unbacked.lowest().is_some_and(|page| ready.is_none_or(|ready| page < ready))
            }
        };
        if unbacked_first {
            self.back(pager, 1);
        }
        self.take_ready().or_else(|| {
            self.back(pager, 1);
            self.take_ready()
        })
    }

    #[inline]
    fn policy_now(&self) -> FreeSpace {
        if self.lowest { FreeSpace::Lowest } else { self.policy }
    }

    #[inline]
    fn take_ready(&mut self) -> Option<PageId> {
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
                    self.old_backed = self.old_backed.saturating_sub(1);
                    if self.ready.remove(page.0) {
                        return Some(page);
                    }
                }
            }
            FreeSpace::Lowest => {
                let page = self.ready.lowest()?;
                self.ready.remove(page);
                return Some(PageId(page));
            }
            FreeSpace::Append => {}
        }
        None
    }

    /// Takes free pages in a row, of which not many can be told from the rest by age: by place, in all policies that
    /// take free pages at all.
    fn take_run(&mut self, pager: &Pager, pages: u32, words_max: usize) -> Option<PageId> {
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
        let page_size = pager.page_size() as u64;
        pager.disk().back(u64::from(start) * page_size, u64::from(pages) * page_size).ok()?;
        (start..start + pages).for_each(|page| _ = self.unbacked.remove(page));
        Some(PageId(start))
    }

    /// Makes unbacked pages ready, until `pages` are or there is no more room on the disk.
    fn back(&mut self, pager: &Pager, pages: u32) {
        let page_size = pager.page_size() as u64;
        let step = (BACK_BYTES / page_size) as u32;
        let mut backed = Vec::new();
        let mut count = 0;
        // Has the search below begin where there are pages.
        self.unbacked.lowest();
        for (start, length) in self.unbacked.runs() {
            if self.ready.len() + count >= pages && count >= step {
                break;
            }
            let length = length.min(step);
            if pager.disk().back(u64::from(start) * page_size, u64::from(length) * page_size).is_err() {
                break;
            }
            backed.push((start, length));
            count += length;
        }
        for (start, length) in backed.into_iter().rev() {
            for page in start..start + length {
                self.unbacked.remove(page);
            }
            self.give_old(PageId(start), length);
        }
    }

    /// Gives the disk space of ready pages back to the file system if more of the file is ready than in use.
    pub(crate) fn give_back(&mut self, pager: &Pager) {
        let page_size = pager.page_size() as u64;
        let backed = self.page_count - self.unbacked.len();
        if self.ready.len() <= backed / 2 || u64::from(self.ready.len()) * page_size < SPARE_BYTES {
            return;
        }
        let ready = std::mem::take(&mut self.ready);
        self.order.clear();
        self.old_backed = 0;
        let mut refused = false;
        for (start, length) in ready.runs() {
            refused =
                refused || pager.disk().punch(u64::from(start) * page_size, u64::from(length) * page_size).is_err();
            if refused {
                self.give(PageId(start), length);
            } else {
                (start..start + length).for_each(|page| _ = self.unbacked.insert(page));
            }
        }
    }

    /// Gives back a run that was taken by the transaction under way and that no committed state has seen.
    pub(crate) fn take_back(&mut self, page: PageId, pages: u32) {
        self.remove_born(page, pages);
        self.give(page, pages);
    }

    /// Takes a run out of those that are newer than the last steady point; `false` if it is none of them.
    fn remove_born(&mut self, page: PageId, pages: u32) -> bool {
        let born = self.born.remove(page.0);
        if born {
            self.born_pages = self.born_pages.saturating_sub(u64::from(pages));
        }
        born
    }

    /// Notes what a transaction freed, as it commits.
    pub(crate) fn commit(&mut self, txn: TxnId, runs: &[Freed]) {
        for run in runs {
            self.pending_pages += u64::from(run.pages);
            if !self.remove_born(run.page, run.pages) {
                self.freed_steady.push((run.page, run.pages));
            }
        }
        if !runs.is_empty() {
            let mut kept = self.spare.pop().unwrap_or_default();
            kept.extend_from_slice(runs);
            self.pending.push_back(Pending { txn, blocker: None, unbacked: false, runs: kept });
        }
    }

    /// Moves what nobody sees any more from pending to ready. `snapshots` are the transactions that live snapshots
    /// see; they get sorted. `visible` is what new snapshots may still see.
    pub(crate) fn reclaim(&mut self, snapshots: &mut Vec<TxnId>, visible: TxnId) {
        if self.pending.is_empty() {
            return;
        }
        snapshots.extend([visible, self.steady]);
        snapshots.extend(self.steady_next);
        snapshots.sort_unstable();
        let mut given = std::mem::take(&mut self.given);
        for group in &mut self.pending {
            let blocker = if group.txn > visible {
                Some(group.txn)
            } else {
                let below = snapshots.partition_point(|&pin| pin < group.txn);
                below.checked_sub(1).map(|i| snapshots[i])
            };
            // Taking a snapshot only pins the visible state or a newer one, so the newest pin below a transaction only
            // ever falls.
            if group.blocker.is_some() && group.blocker == blocker {
                continue;
            }
            group.blocker = blocker;
            group.runs.retain(|run| {
                let seen = blocker.is_some_and(|pin| run.birth <= pin);
                if !seen {
                    given.push((run.page, run.pages, group.unbacked || run.birth <= self.sparse_until));
                }
                seen
            });
        }
        let spare = &mut self.spare;
        self.pending.retain_mut(|group| {
            let waits = !group.runs.is_empty();
            if !waits && spare.len() < SPARE_LISTS {
                spare.push(std::mem::take(&mut group.runs));
            }
            waits
        });
        self.join_pending();
        for (page, pages, unbacked) in given.drain(..) {
            self.pending_pages -= u64::from(pages);
            if unbacked && self.policy != FreeSpace::Append {
                (page.0..page.0 + pages).for_each(|page| _ = self.unbacked.insert(page));
            } else {
                self.give(page, pages);
            }
        }
        self.given = given;
    }

    /// How many pages wait, whoever for.
    pub(crate) fn pending_pages(&self) -> u64 {
        self.pending_pages
    }

    /// How many of the pages that wait each of the pinned transactions in `pins` sees, which are sorted, and how many any
    /// of them does. Looks at what waits once, however many pins there are.
    pub(crate) fn pages_seen_by(&self, pins: &[TxnId]) -> (Vec<u64>, u64) {
        // By how much more each pin sees than the one before.
        let mut more = vec![0_u64; pins.len() + 1];
        let mut any = 0;
        for group in &self.pending {
            let end = pins.partition_point(|&pin| pin < group.txn);
            for run in &group.runs {
                let start = pins[..end].partition_point(|&pin| pin < run.birth);
                if start < end {
                    let pages = u64::from(run.pages);
                    more[start] = more[start].wrapping_add(pages);
                    more[end] = more[end].wrapping_sub(pages);
                    any += pages;
                }
            }
        }
        more.pop();
        let mut sum = 0_u64;
        for pages in &mut more {
            sum = sum.wrapping_add(*pages);
            *pages = sum;
        }
        (more, any)
    }

    /// Whether twice as many pages wait as when this was last so, and not just a few.
    pub(crate) fn waits_for_much(&mut self) -> bool {
        let much = self.pending_pages > 2 * self.pending_noted + PENDING_PAGES_FEW;
        if much || self.pending_pages < self.pending_noted {
            self.pending_noted = self.pending_pages;
        }
        much
    }

    /// Joins neighbouring groups that wait for the same pin: no pin lies between them, and none will come to. So
    /// there are never more groups than pins.
    fn join_pending(&mut self) {
        for index in (1..self.pending.len()).rev() {
            if self.pending[index].blocker == self.pending[index - 1].blocker
                && let Some(mut newer) = self.pending.remove(index)
            {
                let older = &mut self.pending[index - 1];
                older.txn = newer.txn;
                older.unbacked |= newer.unbacked;
                older.runs.append(&mut newer.runs);
            }
        }
    }

    // ---- steady points ----

    fn base_pages_needed(&self, pager: &Pager) -> u32 {
        base_pages_for(self.page_count, pager)
    }

    /// Makes sure that the next steady point does not fail half way for lack of room. `freed_pages` are those that the
    /// transaction under way gives up when it commits.
    pub(crate) fn prepare_steady(&mut self, pager: &Pager, freed_pages: u64) -> Result<()> {
        // The chain never gets longer than the base, so the base is the most that the free map ever takes.
        let pages = self.base_pages_needed(pager);
        let Err(e) = self.grow(pager, u64::from(self.page_count) + u64::from(pages)) else { return Ok(()) };
        // No room behind the last page; what is free before it will do, if any is needed.
        if !self.rebase && self.toggles_max(freed_pages) <= TOGGLES_MAX as u64 {
            return Ok(());
        }
        if self.ready.find_run(pages, usize::MAX).is_none() {
            self.back(pager, self.ready.len() + pages);
        }
        self.ready.find_run(pages, usize::MAX).map(|_| ()).ok_or(e)
    }

    /// How many toggles the next steady point has at most.
    fn toggles_max(&self, freed_pages: u64) -> u64 {
        let freed: u64 = self.freed_steady.iter().map(|&(_, pages)| u64::from(pages)).sum();
        let grown = u64::from(self.page_count - self.persisted_count);
        self.toggles.len() as u64 + self.born_pages + freed + freed_pages + grown
    }

    /// Plans the steady point of `txn`, the newest committed transaction, with no transaction under way. The state of
    /// the free map in the plan is that of `txn`; everything taken from now on belongs to the steady point after it.
    pub(crate) fn begin_steady(&mut self, pager: &Pager, txn: TxnId) -> Result<SteadyPlan> {
        self.prepare_steady(pager, 0)?;
        let runs = std::mem::take(&mut self.born_list);
        let freed = std::mem::take(&mut self.freed_steady);
        let mut born: Vec<(PageId, u32)> = Vec::with_capacity(runs.len());
        // Pages that came into being since are free unless something below finds them in use.
        self.record(PageId(self.persisted_count), self.page_count - self.persisted_count, true);
        for page in runs {
            self.born_listed.remove(page.0);
            if self.born.remove(page.0) {
                let (_, pages) = pager.birth_and_pages(page);
                born.push((page, pages));
                self.record(page, pages, false);
            }
        }
        for (page, pages) in freed {
            self.record(page, pages, true);
        }
        self.born_pages = 0;
        if self.rebase || self.toggles.len() > TOGGLES_MAX {
            self.spill(pager, txn, &mut born)?;
        }
        self.persisted_count = self.page_count;
        self.steady_next = Some(txn);
        let mut toggles: Vec<PageId> = self.toggles.iter().copied().collect();
        toggles.sort_unstable();
        let meta = Meta {
            page_count: self.page_count,
            free_base: self.base,
            free_base_pages: self.base_pages,
            free_log: self.log.last().copied().unwrap_or(PageId::NONE),
            free_log_pages: self.log.len() as u32,
            toggles,
            ..Meta::default()
        };
        Ok(SteadyPlan { born, meta })
    }

    /// Brings a run to its state at the steady point being planned.
    fn record(&mut self, page: PageId, pages: u32, free: bool) {
        for page in page.0..page.0 + pages {
            if self.persisted.set(page, free) && !self.toggles.remove(&PageId(page)) {
                self.toggles.insert(PageId(page));
            }
        }
    }

    /// Moves the toggles from the meta page to the chain, or, when that is as long as the base, to a new base.
    fn spill(&mut self, pager: &Pager, txn: TxnId, born: &mut Vec<(PageId, u32)>) -> Result<()> {
        let capacity = log_capacity(pager);
        let links = self.toggles.len().div_ceil(capacity) + 1;
        if !self.rebase && self.log.len() + links <= self.base_pages_needed(pager) as usize {
            for _ in 0..links {
                let page = self.take_for_map(pager, 1)?;
                born.push((page, 1));
                let link = self.log.last().copied().unwrap_or(PageId::NONE);
                let batch: Vec<PageId> = self.toggles.iter().take(capacity).copied().collect();
                for page in &batch {
                    self.toggles.remove(page);
                }
                let bytes = pager.page_mut(page);
                page::init(bytes, page, txn, PageKind::FreeLog, 0);
                bytes[HEADER_BYTES..].fill(0);
                put_u32(bytes, HEADER_BYTES, link.0);
                put_u32(bytes, HEADER_BYTES + 4, batch.len() as u32);
                for (i, page) in batch.iter().enumerate() {
                    put_u32(bytes, HEADER_BYTES + 8 + 4 * i, page.0);
                }
                self.log.push(page);
            }
            return Ok(());
        }
        let mut freed = Vec::new();
        for (page, pages) in self.map_runs() {
            let (birth, _) = pager.birth_and_pages(page);
            freed.push(Freed { page, pages, birth });
            self.record(page, pages, true);
        }
        self.pending_pages += freed.iter().map(|run| u64::from(run.pages)).sum::<u64>();
        self.pending.push_back(Pending { txn, blocker: None, unbacked: false, runs: freed });
        let pages = self.base_pages_needed(pager);
        let page = self.take_for_map(pager, pages)?;
        born.push((page, pages));
        let run = pager.bytes_mut(page, pages);
        let bytes = run.len() - HEADER_BYTES;
        page::init_run(run, page, txn, PageKind::FreeBase, pages, bytes as u32);
        self.persisted.to_bytes(&mut run[HEADER_BYTES..]);
        self.rebase = false;
        self.toggles.clear();
        self.log.clear();
        self.base = page;
        self.base_pages = pages;
        Ok(())
    }

    /// Takes pages for the free map itself: in use at the steady point being planned, and sealed by it. They stay where
    /// they are for long, so they come from the file's start, whatever the policy.
    fn take_for_map(&mut self, pager: &Pager, pages: u32) -> Result<PageId> {
        let found = match pages {
            1 => self.ready.lowest().inspect(|&page| _ = self.ready.remove(page)).map(PageId),
            _ => self.take_run(pager, pages, usize::MAX),
        };
        let page = match found {
            Some(page) => self.note_taken(page, pages)?,
            None => self.take(pager, pages)?,
        };
        pager.mark_neither(page, pages);
        self.remove_born(page, pages);
        self.record(page, pages, false);
        Ok(page)
    }

    /// Learns which steady point is on disk.
    pub(crate) fn settle(&mut self, steady: TxnId) {
        if let Some(txn) = self.steady_next.take_if(|next| *next <= steady) {
            self.steady = txn;
        }
    }

    /// Takes over from another process, whose newest state has so many pages: `live` are the runs newer than the steady
    /// point that it or the free map uses.
    pub(crate) fn adopt(&mut self, page_count: u32, live: &[(PageId, u32)]) {
        let before = self.page_count;
        self.page_count = page_count;
        (before..page_count).for_each(|page| _ = self.unbacked.insert(page));
        for &(page, pages) in live {
            (page.0..page.0 + pages).for_each(|page| _ = self.unbacked.remove(page));
            self.born.insert(page.0);
            self.born_pages += u64::from(pages);
            self.born_listed.insert(page.0);
            self.born_list.push(page);
        }
    }

    /// What a newer state than the steady point's, or that itself, does not use; before any of it is taken.
    pub(crate) fn idle(&self) -> &PageSet {
        &self.unbacked
    }

    /// Has free pages wait as if `txn` had freed them: for those who pin a state before it that is not older than the page.
    /// To be called for one transaction after the other.
    pub(crate) fn hold_back(&mut self, txn: TxnId, runs: Vec<Freed>) {
        debug_assert!(self.pending.back().is_none_or(|group| group.txn <= txn));
        for run in &runs {
            (run.page.0..run.page.0 + run.pages).for_each(|page| _ = self.unbacked.remove(page));
            self.pending_pages += u64::from(run.pages);
        }
        if !runs.is_empty() {
            self.pending.push_back(Pending { txn, blocker: None, unbacked: true, runs });
        }
    }
}

/// Pages of a base for a file of so many pages, and some more.
fn base_pages_for(page_count: u32, pager: &Pager) -> u32 {
    page::run_pages_for(u64::from(page_count) / 8 + 64, pager.page_size()) as u32 + 1
}

/// How many whole pages so many bytes are.
fn pages_of(pager: &Pager, bytes: u64) -> u32 {
    u32::try_from(bytes / pager.page_size() as u64).unwrap_or(u32::MAX)
}

/// How many pages a link of the chain lists.
fn log_capacity(pager: &Pager) -> usize {
    (pager.page_size() - HEADER_BYTES - 8) / 4
}

#[cfg(test)]
mod tests;

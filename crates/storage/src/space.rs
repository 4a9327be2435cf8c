//! Free space: which pages the writer may use, and how that is remembered on disk.
//!
//! A page is free once no state that can still be asked for reaches it. [`Space`] is what the
//! writer knows of all pages; each part of it has a type of its own:
//!
//! | part | question |
//! | --- | --- |
//! | [`Allocator`] | Which free pages are there, and which is used next? |
//! | [`Pending`] | Which freed pages does somebody still see? |
//! | [`Changes`] | What was allocated and freed since the last steady point? |
//! | [`FreeMap`] | Which pages are free on disk, as of the last steady point? |
//! | [`Tail`] | Where does the file end, and is there disk space behind it? |
//!
//! A page moves between them like this:
//!
//! ```text
//!             allocate             commit                 reclaim
//!  Allocator ──────────► in use ──────────► Pending ───────────────► Allocator
//!  Tail      ──────────►    │ release: the transaction that allocated it gives it up or aborts
//!                           └─────────────────────────────────────► Allocator
//! ```
//!
//! Nothing is written between steady points. When the writer's lock goes to another process, that
//! one derives its `Space` from the last steady point, from the pages that are newer, and from
//! those of the steady point's free pages that a snapshot reaches (`Core::take_over`). `trim` gives
//! up the free pages at the file's end.
//!
//! Invariants:
//! 1. A page below the page count is in use, or in exactly one of the allocator and pending. With
//!    the policy `Append`, which uses no page again, a page that is neither in use nor pending is
//!    in no set.
//! 2. No set, and nothing in use, names a page at or beyond the page count.

use crate::Result;
use crate::meta::Meta;
use crate::options::FreeSpace;
use crate::page::{PageId, TxnId};
use crate::page_set::PageSet;
use crate::pager::Pager;

mod allocator;
mod changes;
mod free_map;
mod pending;
mod tail;
mod trim;

use allocator::{Allocator, BACK_BYTES};
use changes::Changes;
use free_map::{FreeMap, base_pages_for};
use pending::Pending;
use tail::Tail;

pub(crate) use allocator::SPARE_BYTES;
pub(crate) use trim::Trim;

/// A run of pages that a transaction no longer needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Freed {
    pub(crate) page: PageId,
    pub(crate) pages: u32,
    /// The transaction that wrote them.
    pub(crate) birth: TxnId,
}

/// What the writer knows of a database's pages.
pub(crate) struct Space {
    allocator: Allocator,
    pending: Pending,
    changes: Changes,
    map: FreeMap,
    tail: Tail,
    /// What was allocated since `trim` last looked at the file's end.
    allocated: trim::Allocated,
    /// Even runs in use that were written up to this transaction may have no disk space behind
    /// them: they are zeros of a copy that was made with holes.
    sparse_until: TxnId,
    /// The last steady point.
    steady: TxnId,
    /// The steady point being made.
    steady_next: Option<TxnId>,
    /// Free pages in a row that are kept for the runs of the change under way, on a disk that has no
    /// more room: first page and how many.
    held: Option<(PageId, u32)>,
}

/// What a steady point writes besides the catalogue: made by [`Space::begin_steady`].
pub(crate) struct SteadyPlan {
    /// Runs to seal and flush.
    pub(crate) runs: Vec<(PageId, u32)>,
    /// The part of the meta page that [`Space`] owns; the rest is default.
    pub(crate) meta: Meta,
}

impl Space {
    /// The space of a database that has just its meta pages.
    pub(crate) fn empty() -> Self {
        Self {
            allocator: Allocator::new(),
            pending: Pending::default(),
            changes: Changes::default(),
            map: FreeMap::empty(),
            tail: Tail::new(2),
            allocated: trim::Allocated::default(),
            sparse_until: TxnId(0),
            steady: TxnId(0),
            steady_next: None,
            held: None,
        }
    }

    /// Reads the free pages of a steady point. All of them may be used: nobody sees an older state.
    pub(crate) fn load(pager: &Pager, meta: &Meta) -> Result<Self> {
        let mut space = Self::empty();
        space.tail.set_page_count(meta.page_count);
        space.steady = meta.txn;
        space.map = FreeMap::load(pager, meta)?;
        space.allocator.set_unbacked(space.map.free().clone());
        let allocated = pager.disk().allocated();
        if pager.disk().occupied()? < allocated {
            space.sparse_until = meta.txn;
            space.tail.set_loose(pager, allocated);
        }
        Ok(space)
    }

    #[inline]
    pub(crate) fn page_count(&self) -> u32 {
        self.tail.page_count()
    }

    /// The free pages of the last steady point, for `check`.
    pub(crate) fn free_at_steady(&self) -> &PageSet {
        self.map.free()
    }

    /// The runs that the free map is stored in.
    pub(crate) fn free_map_runs(&self) -> Vec<(PageId, u32)> {
        self.map.runs()
    }

    /// Whether a page heads a run in use that is newer than the last steady point.
    #[inline]
    pub(crate) fn is_new(&self, page: PageId) -> bool {
        self.changes.is_new(page)
    }

    /// The birth that a run's header names, but not newer than it can be.
    pub(crate) fn birth_bounded(&self, page: PageId, birth: TxnId) -> TxnId {
        if self.is_new(page) { birth } else { birth.min(self.steady_next.unwrap_or(self.steady)) }
    }

    /// How many pages in use are newer than the last steady point.
    pub(crate) fn new_pages(&self) -> u64 {
        self.changes.new_pages()
    }

    /// Sets the order in which free pages are used; to be called before any is, and when it is
    /// known which may be.
    pub(crate) fn set_policy(&mut self, policy: FreeSpace) {
        self.allocator.set_policy(policy);
    }

    /// Has pages and runs allocated from the file's start, or again as the policy says.
    pub(crate) fn set_lowest_first(&mut self, lowest_first: bool) {
        self.allocator.set_lowest_first(lowest_first);
    }

    /// Whether `pages` neighbouring pages are free, all of them before a page.
    pub(crate) fn has_room_before(&mut self, pages: u32, before: u32) -> bool {
        self.allocator.lowest_run(pages).is_some_and(|(start, _)| u64::from(start) + u64::from(pages) <= before.into())
    }

    /// How many pages are in use, free map and meta pages included. `None` with a policy that keeps
    /// no books of free pages.
    pub(crate) fn in_use(&self) -> Option<u32> {
        let free = u64::from(self.allocator.free_pages()?) + self.pending.pages();
        Some(u64::from(self.page_count()).saturating_sub(free) as u32)
    }

    /// Asks for the memory of new pages before they are touched, or not.
    pub(crate) fn set_populates(&mut self, populates: bool) {
        self.tail.set_populates(populates);
    }

    // ---- allocating and releasing ----

    /// Makes sure that `pages` single pages can be allocated without growing the file, so that a
    /// change that has begun cannot fail for lack of room.
    pub(crate) fn reserve(&mut self, pager: &Pager, pages: u32) -> Result<()> {
        self.release_held();
        if self.allocator.ready_pages() < pages {
            self.allocator.back(pager, pages);
        }
        let missing = pages.saturating_sub(self.allocator.ready_pages());
        self.tail.reserve(pager, u64::from(self.page_count()) + u64::from(missing))
    }

    /// As [`Space::reserve`], and `run_pages` pages more in runs of any lengths. These can come from
    /// the file's end, whatever is free before it.
    pub(crate) fn reserve_runs(&mut self, pager: &Pager, pages: u32, run_pages: u32) -> Result<()> {
        self.reserve(pager, pages)?;
        let missing = pages.saturating_sub(self.allocator.ready_pages());
        let page_count = u64::from(self.page_count()) + u64::from(missing) + u64::from(run_pages);
        let Err(e) = self.tail.reserve(pager, page_count) else { return Ok(()) };
        // No room behind the last page, so free pages before it have to do.
        let Some(page) = self.allocator.allocate_run_anywhere(pager, run_pages) else { return Err(e) };
        let rest = self.reserve(pager, pages);
        self.held = Some((page, run_pages));
        rest
    }

    /// Gives back what was kept for a change and not used.
    fn release_held(&mut self) {
        if let Some((page, pages)) = self.held.take() {
            self.allocator.add(page, pages);
        }
    }

    /// Takes a run from what is kept for the change under way.
    fn allocate_held(&mut self, pages: u32) -> Option<PageId> {
        let (page, held) = self.held.take_if(|(_, held)| *held >= pages)?;
        if held > pages {
            self.held = Some((PageId(page.0 + pages), held - pages));
        }
        Some(page)
    }

    /// Allocates a run of pages for a transaction.
    pub(crate) fn allocate(&mut self, pager: &Pager, pages: u32) -> Result<PageId> {
        let page = match self.allocator.allocate(pager, pages) {
            Some(page) => {
                pager.claim(page, pages);
                page
            }
            None => match self.tail.allocate(pager, pages) {
                Ok(page) => page,
                // Where there is no more room, a long search is better than none.
                Err(e) => {
                    let found = self.allocate_held(pages);
                    found.or_else(|| self.allocator.allocate_run_anywhere(pager, pages)).ok_or(e)?
                }
            },
        };
        self.note_allocated(page, pages)
    }

    /// Allocates the `more` pages behind a run of `pages` pages that the transaction under way has
    /// allocated, which makes them part of it; `false` if they are not free.
    pub(crate) fn extend(&mut self, pager: &Pager, page: PageId, pages: u32, more: u32) -> bool {
        let behind = PageId(page.0 + pages);
        let is_used_again = self.allocator.allocate_at(behind, more);
        if is_used_again {
            pager.claim(behind, more);
        }
        let done = is_used_again || behind.0 == self.page_count() && self.tail.allocate(pager, more).is_ok();
        if done {
            self.allocated.add(behind.0, more);
            self.changes.resize(more.into());
        }
        done
    }

    /// Takes back the end of a run that the transaction under way has allocated.
    pub(crate) fn release_end(&mut self, page: PageId, pages: u32) {
        self.changes.resize(-i64::from(pages));
        self.allocator.add(page, pages);
    }

    fn note_allocated(&mut self, page: PageId, pages: u32) -> Result<PageId> {
        self.allocated.add(page.0, pages);
        if !self.changes.add(page, pages) {
            // Without checksums, damage may have led to this page being freed while it is in use.
            return Err(crate::pager::corrupted(page, "it is in use and was free"));
        }
        Ok(page)
    }

    /// Takes back a run that the transaction under way allocated and that no committed state
    /// reaches.
    pub(crate) fn release(&mut self, page: PageId, pages: u32) {
        self.changes.remove(page, pages);
        self.allocator.add(page, pages);
    }

    /// Notes what a transaction freed, as it commits.
    pub(crate) fn commit(&mut self, txn: TxnId, runs: &[Freed]) {
        self.release_held();
        for run in runs {
            self.changes.free(run.page, run.pages);
        }
        self.pending.add(txn, runs);
    }

    /// Gives the disk space of free pages back to the file system if a good part of the file is
    /// free.
    pub(crate) fn return_disk_space(&mut self, pager: &Pager) {
        self.allocator.return_disk_space(pager, self.tail.page_count());
    }

    // ---- pending pages ----

    /// Makes the pages usable that nobody sees any more. `snapshots` are the states that snapshots
    /// see; they get sorted. `visible` is the oldest state that new snapshots may see.
    pub(crate) fn reclaim(&mut self, snapshots: &mut Vec<TxnId>, visible: TxnId) {
        if self.pending.is_empty() {
            return;
        }
        snapshots.extend([visible, self.steady]);
        snapshots.extend(self.steady_next);
        snapshots.sort_unstable();
        let (allocator, sparse_until) = (&mut self.allocator, self.sparse_until);
        self.pending.reclaim(snapshots, visible, |run, unbacked| {
            if unbacked || run.birth <= sparse_until {
                allocator.add_unbacked(run.page, run.pages);
            } else {
                allocator.add(run.page, run.pages);
            }
        });
    }

    /// How many pages wait, for whichever reader or steady point.
    pub(crate) fn pending_pages(&self) -> u64 {
        self.pending.pages()
    }

    /// How many pending pages each of the pinned states in `pins`, which are sorted, sees, and how
    /// many pages any of them sees.
    pub(crate) fn pages_seen_by(&self, pins: &[TxnId]) -> (Vec<u64>, u64) {
        self.pending.pages_seen_by(pins)
    }

    /// Whether twice as many pages wait as when this last said so, and not just a few.
    pub(crate) fn pending_has_grown(&mut self) -> bool {
        self.pending.has_grown()
    }

    // ---- steady points ----

    /// Makes sure that the next steady point does not fail half way for lack of room. `freed_pages`
    /// are those that the transaction under way gives up when it commits.
    pub(crate) fn prepare_steady(&mut self, pager: &Pager, freed_pages: u64) -> Result<()> {
        self.release_held();
        // The chain never gets longer than the base, so the base is the most that the free map
        // takes.
        let pages = base_pages_for(self.page_count(), pager);
        let page_count = u64::from(self.page_count()) + u64::from(pages);
        let Err(e) = self.tail.reserve(pager, page_count) else { return Ok(()) };
        // No room behind the last page; free pages before it will do, if any are needed.
        let changed = self.changes.new_pages() + self.changes.freed_pages() + freed_pages;
        if self.map.fits_meta_page(self.map.toggles_after(changed, self.page_count())) {
            return Ok(());
        }
        if self.allocator.prepare_run(pager, pages) { Ok(()) } else { Err(e) }
    }

    /// Plans the steady point of `txn`, the newest committed transaction, with no transaction under
    /// way. The free map in the plan is that of `txn`; everything allocated from now on belongs to
    /// the next steady point.
    pub(crate) fn begin_steady(&mut self, pager: &Pager, txn: TxnId) -> Result<SteadyPlan> {
        self.prepare_steady(pager, 0)?;
        let changes = self.changes.take(pager);
        self.map.grow(self.page_count());
        for &(page, pages) in &changes.new {
            self.map.record(page, pages, false);
        }
        for &(page, pages) in &changes.freed {
            self.map.record(page, pages, true);
        }
        let mut runs = changes.new;
        if self.map.has_to_spill() {
            self.spill_map(pager, txn, &mut runs)?;
        }
        self.steady_next = Some(txn);
        Ok(SteadyPlan { runs, meta: self.map.finish(self.page_count()) })
    }

    /// Moves the toggles from the meta page to the chain, or, when that is as long as the base, to
    /// a new base.
    fn spill_map(&mut self, pager: &Pager, txn: TxnId, runs: &mut Vec<(PageId, u32)>) -> Result<()> {
        if let Some(links) = self.map.links_needed(pager, self.page_count()) {
            for _ in 0..links {
                let page = self.allocate_for_map(pager, 1)?;
                runs.push((page, 1));
                self.map.write_link(pager, page, txn);
            }
            return Ok(());
        }
        let mut freed = Vec::new();
        for (page, pages) in self.map.runs() {
            let (birth, _) = pager.birth_and_pages(page);
            freed.push(Freed { page, pages, birth });
            self.map.record(page, pages, true);
        }
        self.pending.add_list(txn, freed, false);
        let pages = base_pages_for(self.page_count(), pager);
        let page = self.allocate_for_map(pager, pages)?;
        runs.push((page, pages));
        self.map.write_base(pager, page, pages, txn);
        Ok(())
    }

    /// Allocates pages for the free map itself: in use at the steady point being planned, and
    /// sealed by it. They stay where they are for long, so they come from the file's start,
    /// whatever the policy.
    fn allocate_for_map(&mut self, pager: &Pager, pages: u32) -> Result<PageId> {
        let found = match pages {
            1 => self.allocator.allocate_lowest(),
            _ => self.allocator.allocate_run_anywhere(pager, pages),
        };
        let page = match found {
            Some(page) => self.note_allocated(page, pages)?,
            None => self.allocate(pager, pages)?,
        };
        pager.mark_neither(page, pages);
        self.changes.remove(page, pages);
        self.map.record(page, pages, false);
        Ok(page)
    }

    /// Learns which steady point is on disk.
    pub(crate) fn note_steady(&mut self, steady: TxnId) {
        if let Some(txn) = self.steady_next.take_if(|next| *next <= steady) {
            self.steady = txn;
        }
    }

    // ---- taking over from another process ----

    /// Takes over from another process, whose newest state has `page_count` pages. `live` are the
    /// runs newer than the steady point that this state or the free map uses.
    pub(crate) fn take_over(&mut self, page_count: u32, live: &[(PageId, u32)]) {
        let before = self.page_count();
        self.tail.set_page_count(page_count);
        self.allocator.add_unbacked(PageId(before), page_count.saturating_sub(before));
        for &(page, pages) in live {
            self.allocator.remove_unbacked(page, pages);
            self.changes.add(page, pages);
        }
    }

    /// The pages that neither the steady point nor the newest state uses; before any page is
    /// allocated.
    pub(crate) fn unused(&self) -> &PageSet {
        self.allocator.unbacked()
    }

    /// Has free pages wait as if `txn` had freed them: for those who pin a state before `txn` that
    /// is not older than the page. To be called in the order of the transactions.
    pub(crate) fn add_pending(&mut self, txn: TxnId, runs: Vec<Freed>) {
        for run in &runs {
            self.allocator.remove_unbacked(run.page, run.pages);
        }
        self.pending.add_list(txn, runs, true);
    }
}

/// The bytes of a number of pages.
fn page_bytes(pager: &Pager, pages: u32) -> u64 {
    u64::from(pages) * pager.page_size() as u64
}

/// How many whole pages a number of bytes makes.
fn pages_of(pager: &Pager, bytes: u64) -> u32 {
    u32::try_from(bytes / pager.page_size() as u64).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;

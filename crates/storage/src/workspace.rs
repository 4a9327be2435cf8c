//! What a write transaction works with: the pages it has allocated and freed, level by level; and
//! which thread of this process writes next.
//!
//! A page belongs to the transaction that its header names, and only its owner writes to it. Every
//! other page is copied first ([`Workspace::own`]). A nested transaction is a *level*: a page that
//! an outer level owns is copied again, and the original is kept until the inner level commits.
//!
//! Invariants:
//! 1. `allocated` lists every run that was allocated since the level began.
//! 2. `freed` lists every run that the level no longer needs and that an outer state of the same
//!    branch still does, but for those that the fork below the branch reaches (see `forest`).
//! 3. Aborting a level releases `allocated` and forgets `freed`.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{ArcMutexGuard, Mutex, RawMutex};
use smallvec::SmallVec;

use crate::lock_file::Shared;
use crate::log::record;
use crate::node::Node;
use crate::page::{self, PageId, PageKind, TxnId};
use crate::pager::{Bounds, Pager, corrupted};
use crate::space::{Freed, Space};
use crate::sync::{AtomicU32, FairMutex};
use crate::{Durability, Result};

/// A page on the way to an entry, and which child or entry of it.
pub(crate) type Step = (PageId, usize);
/// The path from the root to a leaf.
pub(crate) type Path = SmallVec<[Step; 8]>;

/// The right to write within this process. The lock file's writer's lock comes on top.
pub(crate) type WorkspaceGuard = ArcMutexGuard<RawMutex, Workspace>;

/// A barging lock around the workspace, with a bound on barging.
///
/// Handing the lock to a waiting thread costs a thread switch, during which nobody writes. Letting
/// a running thread take it again keeps the others waiting. So a thread that finds the lock free
/// takes it, ahead of those that wait (it *barges* in), but only `passes_max` times in a row: after
/// that, newcomers queue up behind the others.
///
/// Invariants:
/// 1. `next` goes to waiting threads in the order of their arrival.
/// 2. Only the holder of `next` waits for the workspace itself.
///
/// So a thread that finds `n` others waiting is passed by later ones at most `(n + 1) * passes_max`
/// times, and once more by each thread that had checked the bound just before it was reached.
pub(crate) struct Writers {
    workspace: Arc<Mutex<Workspace>>,
    turns: Turns,
}

/// The queue of a barging lock, apart from what it protects.
struct Turns {
    /// Held by the thread that gets the lock next.
    next: FairMutex,
    /// How many threads wait, counted from before they queue up until they have the lock.
    waiting: AtomicU32,
    /// How often the lock was released while somebody waited, since a waiting thread last got it.
    /// Changed by the holder of the lock only.
    passes: AtomicU32,
    passes_max: u32,
}

impl Writers {
    pub(crate) fn new(workspace: Workspace, durability: Durability) -> Self {
        let passes_max = match durability {
            // Compared with a flush, a switch is cheap.
            Durability::Sync | Durability::SyncNoLog | Durability::Agreed => 4,
            Durability::Lazy { .. } | Durability::NoSync => 64,
        };
        Self { workspace: Arc::new(Mutex::new(workspace)), turns: Turns::new(passes_max) }
    }

    /// Locks the workspace, waiting for it if need be.
    #[inline]
    pub(crate) fn lock(&self) -> WorkspaceGuard {
        self.try_lock().unwrap_or_else(|| self.turns.wait(|| self.workspace.lock_arc()))
    }

    /// Locks the workspace if it is free and newcomers may still barge in.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<WorkspaceGuard> {
        self.turns.try_acquire(|| self.workspace.try_lock_arc())
    }

    #[inline]
    pub(crate) fn unlock(&self, guard: WorkspaceGuard) {
        self.turns.release(guard);
    }

    /// The workspace, for reading figures without the right to write.
    pub(crate) fn workspace(&self) -> &Mutex<Workspace> {
        &self.workspace
    }
}

impl Turns {
    fn new(passes_max: u32) -> Self {
        Self { next: FairMutex::default(), waiting: AtomicU32::new(0), passes: AtomicU32::new(0), passes_max }
    }

    /// Queues up, and calls `acquire` as the next to have the lock.
    #[cold]
    fn wait<T>(&self, acquire: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let next = self.next.lock();
        let acquired = acquire();
        self.passes.store(0, Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        drop(next);
        acquired
    }

    /// Calls `try_acquire` ahead of the queue, unless newcomers have barged in too often.
    #[inline]
    fn try_acquire<T>(&self, try_acquire: impl FnOnce() -> Option<T>) -> Option<T> {
        if self.waiting.load(Ordering::Relaxed) > 0 && self.passes.load(Ordering::Relaxed) >= self.passes_max {
            return None;
        }
        try_acquire()
    }

    #[inline]
    fn release<T>(&self, held: T) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.passes.fetch_add(1, Ordering::Relaxed);
        }
        drop(held);
    }
}

/// One level of a transaction: the outermost, or a nested one.
#[derive(Default)]
struct Level {
    allocated: Vec<PageId>,
    freed: Vec<Freed>,
    /// Pages the level owns. Only nested levels need the list: the outermost owns what carries its
    /// number.
    owned: HashSet<PageId>,
    /// Pages that were given up and left to forks.
    left_pages: u64,
}

/// The writer's side of an open database. Buffers in it are kept for the next transaction.
pub(crate) struct Workspace {
    pub(crate) space: Space,
    txn: TxnId,
    steady: TxnId,
    /// The fork that the trees which are being changed start from: it still reaches their pages
    /// that are not newer, which are therefore never freed (see `forest`).
    fork: TxnId,
    /// The fork that the main branch starts from, as the forest says that begins with this page, of
    /// this birth.
    pub(crate) main_fork: (PageId, TxnId, TxnId),
    levels: Vec<Level>,
    /// The lists of the last transaction, empty.
    spare: Level,
    /// Copies of pages that are being rewritten.
    pub(crate) scratch: [Vec<u8>; 2],
    pub(crate) key: Vec<u8>,
    /// The path to the leaf that was written to last, all pages of which the transaction owns. It
    /// is empty when the path may have changed since: after every page that is allocated or freed,
    /// and every level that begins or ends.
    pub(crate) finger: Path,
    /// Pages that committed transactions have given up and left to forks, since a state was kept.
    pub(crate) left_pages: u64,
    /// The transactions are those that keep a state.
    pub(crate) is_keeping: bool,
    /// A buffer for the states that live snapshots see.
    pub(crate) snapshots: Vec<TxnId>,
    /// The log record of the transaction.
    pub(crate) record: record::Builder,
    /// A buffer for how a value differs from the one it replaces.
    pub(crate) difference: Vec<u8>,
}

impl Workspace {
    pub(crate) fn new(space: Space) -> Self {
        Self {
            space,
            txn: TxnId(0),
            steady: TxnId(0),
            fork: TxnId(0),
            main_fork: (PageId::NONE, TxnId(0), TxnId(0)),
            levels: Vec::new(),
            spare: Level::default(),
            scratch: [Vec::new(), Vec::new()],
            key: Vec::new(),
            finger: Path::new(),
            left_pages: 0,
            is_keeping: false,
            snapshots: Vec::new(),
            record: record::Builder::default(),
            difference: Vec::new(),
        }
    }

    /// Starts a transaction, which changes trees that start from no fork, unless
    /// [`Workspace::set_fork`] says otherwise.
    pub(crate) fn begin(&mut self, txn: TxnId, steady: TxnId) {
        debug_assert!(self.levels.is_empty());
        self.txn = txn;
        self.steady = steady;
        self.fork = TxnId(0);
        self.finger.clear();
        self.levels.push(std::mem::take(&mut self.spare));
    }

    pub(crate) fn txn(&self) -> TxnId {
        self.txn
    }

    /// Sets the fork that the trees which are changed from now on start from; gives the one before.
    pub(crate) fn set_fork(&mut self, fork: TxnId) -> TxnId {
        std::mem::replace(&mut self.fork, fork)
    }

    /// Bounds for the pages that the transaction may read.
    #[inline]
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { page_count: self.space.page_count(), newest: self.txn, steady: self.steady }
    }

    /// Bounds for the newest committed state, while no transaction is active.
    pub(crate) fn bounds_between(&self, shared: &Shared) -> Bounds {
        Bounds { page_count: self.space.page_count(), newest: shared.root().txn, steady: shared.steady() }
    }

    /// How many levels the transaction has: 0 if none is active, 1 without nested ones.
    pub(crate) fn levels(&self) -> usize {
        self.levels.len()
    }

    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("a transaction has at least one level")
    }

    /// Starts a nested level.
    pub(crate) fn begin_level(&mut self) {
        self.finger.clear();
        self.levels.push(Level::default());
    }

    /// Ends a nested level and keeps what it did.
    pub(crate) fn commit_level(&mut self) {
        self.finger.clear();
        let inner = self.levels.pop().expect("a nested level was begun");
        let outermost = self.levels.len() == 1;
        let level = self.level();
        level.allocated.extend(inner.allocated);
        let mut unseen = Vec::new();
        for run in inner.freed {
            let owned = if outermost {
                run.birth == self.txn
            } else {
                self.levels.last_mut().is_some_and(|l| l.owned.remove(&run.page))
            };
            if owned { unseen.push(run) } else { self.level().freed.push(run) }
        }
        self.level().owned.extend(inner.owned);
        self.level().left_pages += inner.left_pages;
        for run in unseen {
            self.space.release(run.page, run.pages);
        }
    }

    /// Ends a nested level, or the whole transaction, and undoes what it did.
    pub(crate) fn abort_level(&mut self, pager: &Pager) {
        self.finger.clear();
        let inner = self.levels.pop().expect("a level was begun");
        for page in inner.allocated {
            // A run that the level itself released may be listed twice; it is released once.
            if self.space.is_new(page) {
                let (_, pages) = pager.birth_and_pages(page);
                self.space.release(page, pages);
            }
        }
    }

    /// Ends the transaction. What it freed is pending until nobody sees it.
    pub(crate) fn commit(&mut self) {
        let mut level = self.levels.pop().expect("the outermost level was begun");
        debug_assert!(self.levels.is_empty());
        self.space.commit(self.txn, &level.freed);
        level.freed.clear();
        level.allocated.clear();
        self.left_pages += std::mem::take(&mut level.left_pages);
        self.spare = level;
    }

    /// The runs that the transaction has allocated and still owns.
    pub(crate) fn allocated_runs(&self, pager: &Pager) -> Vec<(PageId, u32)> {
        let allocated: HashSet<PageId> = self.levels.iter().flat_map(|level| &level.allocated).copied().collect();
        let kept = allocated.into_iter().filter(|&page| self.space.is_new(page));
        kept.map(|page| (page, pager.birth_and_pages(page).1)).collect()
    }

    /// How many pages the transaction frees when it commits.
    pub(crate) fn freed_pages(&self) -> u64 {
        self.levels.iter().flat_map(|level| &level.freed).map(|run| u64::from(run.pages)).sum()
    }

    /// Makes sure that a change that allocates up to `pages` single pages cannot fail half way.
    pub(crate) fn reserve(&mut self, pager: &Pager, pages: u32) -> Result<()> {
        self.space.reserve(pager, pages)
    }

    /// As [`Self::reserve`], and up to `run_pages` pages more in runs of any lengths.
    #[inline]
    pub(crate) fn reserve_runs(&mut self, pager: &Pager, pages: u32, run_pages: u32) -> Result<()> {
        match run_pages {
            0 => self.space.reserve(pager, pages),
            _ => self.space.reserve_runs(pager, pages, run_pages),
        }
    }

    /// Allocates a branch and writes its header.
    pub(crate) fn allocate_branch(&mut self, pager: &Pager, level: u8) -> Result<PageId> {
        debug_assert!(level > 0);
        let id = self.allocate(pager, 1)?;
        page::init(pager.page_mut(id), id, self.txn, PageKind::Branch, level);
        pager.mark_page(id);
        Ok(id)
    }

    /// Allocates a leaf of `pages` pages and writes its header.
    pub(crate) fn allocate_leaf(&mut self, pager: &Pager, pages: u32) -> Result<PageId> {
        let id = self.allocate(pager, pages)?;
        self.init_leaf(pager, id, pages);
        Ok(id)
    }

    /// Writes the header of a leaf over a run that the transaction owns.
    pub(crate) fn init_leaf(&self, pager: &Pager, id: PageId, pages: u32) {
        let head = pager.page_mut(id);
        page::init(head, id, self.txn, PageKind::Leaf, 0);
        page::set_leaf_pages(head, pages);
        pager.mark_node(id, pages);
    }

    /// Makes a leaf that the transaction owns longer where it is; `false` if what lies behind it is
    /// not free. The header stays.
    pub(crate) fn extend(&mut self, pager: &Pager, id: PageId, pages: u32, more: u32) -> bool {
        let done = self.space.extend(pager, id, pages, more);
        if done {
            pager.mark_neither(PageId(id.0 + pages), more);
        }
        done
    }

    /// Gives up the pages behind the first `kept` of a run that the transaction owns.
    pub(crate) fn cut(&mut self, id: PageId, kept: u32, pages: u32) {
        self.space.release_end(PageId(id.0 + kept), pages - kept);
    }

    /// Allocates a run for a large value and fills it.
    pub(crate) fn allocate_large(&mut self, pager: &Pager, value: &[u8]) -> Result<PageId> {
        let pages = page::run_pages_for(value.len() as u64, pager.page_size()) as u32;
        let id = self.allocate(pager, pages)?;
        let run = pager.bytes_mut(id, pages);
        page::init_run(run, id, self.txn, PageKind::Overflow, pages, value.len() as u32);
        let (content, tail) = run[page::HEADER_BYTES..].split_at_mut(value.len());
        content.copy_from_slice(value);
        tail.fill(0);
        pager.mark_large(id, pages);
        Ok(id)
    }

    fn allocate(&mut self, pager: &Pager, pages: u32) -> Result<PageId> {
        let id = self.space.allocate(pager, pages)?;
        self.finger.clear();
        let nested = self.levels.len() > 1;
        let level = self.level();
        level.allocated.push(id);
        if nested {
            level.owned.insert(id);
        }
        Ok(id)
    }

    #[inline]
    fn owns(&self, id: PageId, birth: TxnId) -> bool {
        // A damaged header may name this transaction by chance, so the page must also be a new one.
        birth == self.txn
            && self.space.is_new(id)
            && (self.levels.len() == 1 || self.levels.last().is_some_and(|level| level.owned.contains(&id)))
    }

    /// Whether the transaction may write to a page as it is.
    #[inline]
    pub(crate) fn is_owned(&self, pager: &Pager, id: PageId) -> bool {
        self.owns(id, pager.birth(id))
    }

    /// The page to write to instead of `id`: the page itself, or a copy.
    #[inline]
    pub(crate) fn own(&mut self, pager: &Pager, id: PageId) -> Result<PageId> {
        let birth = pager.birth(id);
        if self.owns(id, birth) {
            return Ok(id);
        }
        let node = pager.node(id, self.bounds())?;
        if node.pages() > 1 {
            return self.own_sized(pager, id, node, node.pages());
        }
        let copy = self.allocate(pager, 1)?;
        if copy == id {
            // Without checksums, damage may have led to this page being freed while it is in use.
            return Err(corrupted(id, "it is in use and was free"));
        }
        pager.copy_page(node, copy);
        page::set_owner(pager.page_mut(copy), copy, self.txn);
        pager.mark_page(copy);
        self.give_up(Freed { page: id, pages: 1, birth });
        Ok(copy)
    }

    /// As [`Self::own`] for a leaf; a copy has `pages` pages, which its entries fit.
    pub(crate) fn own_sized(&mut self, pager: &Pager, id: PageId, node: Node<'_>, pages: u32) -> Result<PageId> {
        let birth = pager.birth(id);
        if self.owns(id, birth) {
            return Ok(id);
        }
        let copy = self.allocate(pager, pages)?;
        if copy.0 < id.0 + node.pages() && id.0 < copy.0 + pages {
            return Err(corrupted(id, "it is in use and was free"));
        }
        pager.copy_leaf(node, copy, pages);
        page::set_owner(pager.page_mut(copy), copy, self.txn);
        pager.mark_node(copy, pages);
        self.give_up(Freed { page: id, pages: node.pages(), birth });
        Ok(copy)
    }

    /// Frees a page that was verified, or a run that this transaction allocated.
    pub(crate) fn free(&mut self, pager: &Pager, id: PageId) {
        let (birth, pages) = pager.birth_and_pages(id);
        self.free_run(id, pages, birth);
    }

    /// Frees a large value. Its leaf was verified, but the value was not, so nothing depends on the
    /// value's header: the length comes from the leaf, and the birth is bounded.
    pub(crate) fn free_large(&mut self, pager: &Pager, id: PageId, pages: u32, len: u32) {
        let (birth, _) = pager.birth_and_pages(id);
        // A fork may still reach the value, which the birth says: then it is verified, too. Of what
        // is damaged nothing is freed.
        if self.fork > TxnId(0) && pager.large(id, len, self.bounds()).is_err() {
            return;
        }
        self.free_run(id, pages, self.space.birth_bounded(id, birth));
    }

    /// Adds runs to what the transaction gives up, which nothing that it leaves reaches.
    pub(crate) fn free_all(&mut self, runs: Vec<Freed>) {
        self.finger.clear();
        self.level().freed.extend(runs);
    }

    /// Whether a page of this birth is freed when the transaction gives it up: no fork reaches it.
    pub(crate) fn is_freed_when_given_up(&self, birth: TxnId) -> bool {
        birth > self.fork
    }

    /// Notes a page that this level no longer needs, unless a fork still does.
    #[inline]
    fn give_up(&mut self, run: Freed) {
        if self.is_freed_when_given_up(run.birth) {
            self.level().freed.push(run);
        } else {
            self.level().left_pages += u64::from(run.pages);
        }
    }

    fn free_run(&mut self, id: PageId, pages: u32, birth: TxnId) {
        self.finger.clear();
        if self.owns(id, birth) {
            self.level().owned.remove(&id);
            self.space.release(id, pages);
        } else {
            self.give_up(Freed { page: id, pages, birth });
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// The numbers of `docs/GUARANTEES.md`.
    #[test]
    fn who_waits_is_passed_as_often_as_the_mode_says() {
        let modes =
            [(Durability::Sync, 4), (Durability::SyncNoLog, 4), (Durability::LAZY, 64), (Durability::NoSync, 64)];
        for (durability, passes) in modes {
            let writers = Writers::new(Workspace::new(Space::empty()), durability);
            // Somebody has begun to wait, and is slow.
            writers.turns.waiting.fetch_add(1, Ordering::Relaxed);
            let take_and_give_up = || writers.try_lock().map(|guard| writers.unlock(guard));
            assert_eq!(std::iter::from_fn(take_and_give_up).take(1_000).count(), passes, "{durability:?}");
        }
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod models {
    //! Threads that take the workspace again and again, with a lock in its place.

    use shuttle::sync::atomic::AtomicU64;
    use shuttle::{sync, thread};

    use super::*;

    const THREADS: u64 = 4;

    /// Each thread takes it so often. `passes_max` is what the queue goes by, `passes_allowed` what
    /// it is held to. Those who wait are next in the order of their coming, by what the lock in
    /// `sync` is.
    fn take_turns(times: u64, passes_max: u32, passes_allowed: u64) {
        let turns = Arc::new(Turns::new(passes_max));
        // The number of the turn that is under way, or was last.
        let lock = Arc::new(sync::Mutex::new(0_u64));
        let (begun, passed_most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (turns, lock) = (Arc::clone(&turns), Arc::clone(&lock));
                let (begun, passed_most) = (Arc::clone(&begun), Arc::clone(&passed_most));
                thread::spawn(move || {
                    for _ in 0..times {
                        let taken = turns.try_acquire(|| lock.try_lock().ok());
                        let mut guard = taken.unwrap_or_else(|| {
                            turns.wait(|| {
                                // It is next from here on.
                                let before = begun.load(Ordering::SeqCst);
                                let guard = lock.lock().unwrap();
                                passed_most.fetch_max(begun.load(Ordering::SeqCst) - before, Ordering::SeqCst);
                                guard
                            })
                        });
                        *guard += 1;
                        begun.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(*guard, begun.load(Ordering::SeqCst), "two at once");
                        turns.release(guard);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(turns.waiting.load(Ordering::SeqCst), 0);
        // By who had it already, and once by each that had just looked.
        let (passed, at_most) = (passed_most.load(Ordering::SeqCst), passes_allowed + 1 + (THREADS - 1));
        assert!(passed <= at_most, "passed {passed} times");
    }

    #[test]
    fn there_is_one_at_a_time_and_nobody_waits_for_ever() {
        for passes_max in [0, 1, 4] {
            shuttle::check_random(move || take_turns(3, passes_max, passes_max.into()), 1_500);
            shuttle::check_pct(move || take_turns(3, passes_max, passes_max.into()), 1_500, 3);
        }
    }

    #[test]
    fn nobody_who_waits_is_passed_more_often_than_promised() {
        shuttle::check_random(|| take_turns(40, 1, 1), 1_000);
        shuttle::check_pct(|| take_turns(40, 1, 1), 3_000, 4);
    }

    #[test]
    #[should_panic(expected = "passed ")]
    fn a_queue_that_lets_everybody_pass_is_caught() {
        shuttle::check_pct(|| take_turns(40, u32::MAX, 1), 20_000, 4);
    }
}

//! Steady points: committed states whose pages and meta page are on disk, so that they survive a
//! crash of the system. Other databases call this a checkpoint.
//!
//! Making one takes four steps:
//! 1. Plan, with the workspace locked ([`crate::space::Space::begin_steady`]). From here on the
//!    root's pages are pinned, and the log goes on in its other file.
//! 2. Seal the planned pages with their checksums. Where the map is not the file, write them to it.
//! 3. Flush them, write the meta page, flush that. If they are few, list them in the meta page
//!    instead and flush once.
//! 4. Let the new point replace the old one, whose pages become free with the next transaction.
//!
//! Where each commit is a steady point, the committing transaction does all of this before it
//! publishes. Elsewhere the background thread ([`crate::flusher`]) does it when it is due, and
//! locks the workspace for the first step only.
//!
//! Invariants:
//! 1. At most one steady point is being made at a time, over all processes.
//! 2. Making one needs nothing that a writer holds, but for the first step.

use std::ops::Range;

use crate::db::Core;
use crate::forest::Forest;
use crate::log::Position;
use crate::meta::{MANIFEST_MAX, Meta, PAST_VERSION};
use crate::page::{PageId, TxnId};
use crate::root::Root;
use crate::space::{SPARE_BYTES, SteadyPlan, Trim};
use crate::sync::{Condvar, Mutex};
use crate::trace::WriteKind;
use crate::workspace::Workspace;
use crate::{Durability, Error, Result};

/// So many bytes are written together while a steady point is made in the background.
const BATCH_BYTES: u64 = 1 << 20;
/// Runs of pages with at most this gap between them are written as one: a call to the kernel
/// costs more than writing what has changed in between.
const GAP_BYTES: u64 = 32 << 10;

/// Lets one thread of this process at a time make a steady point.
#[derive(Default)]
pub(crate) struct Makers {
    busy: Mutex<bool>,
    free: Condvar,
}

/// The right to make a steady point, until dropped.
pub(crate) struct Maker<'a>(&'a Makers);

impl Makers {
    /// Waits until no other thread makes one. The caller holds the workspace, which making one does
    /// not need.
    fn begin(&self) -> Maker<'_> {
        let mut busy = self.busy.lock();
        self.free.wait_while(&mut busy, |busy| *busy);
        *busy = true;
        Maker(self)
    }

    fn try_begin(&self) -> Option<Maker<'_>> {
        let mut busy = self.busy.lock();
        (!std::mem::replace(&mut *busy, true)).then(|| Maker(self))
    }

    fn is_busy(&self) -> bool {
        *self.busy.lock()
    }

    fn wait(&self) {
        self.free.wait_while(&mut self.busy.lock(), |busy| *busy);
    }
}

impl Drop for Maker<'_> {
    fn drop(&mut self) {
        *self.0.busy.lock() = false;
        self.0.free.notify_all();
    }
}

impl Core {
    /// Makes the newest committed state steady.
    pub(crate) fn sync(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        let (mut guard, maker) = loop {
            let mut guard = self.lock_writer(true)?;
            if self.past.is_on() && self.makers.is_busy() {
                // Looking up where the log begins would wait for it, with the writer's lock held.
                self.unlock_writer(guard);
                self.makers.wait();
                continue;
            }
            if self.past.is_on() && self.shared.root().txn > self.shared.steady() {
                // For lack of room, or for damage, the past has a gap, which is told to those who ask for
                // it.
                if let Err(Error::Poisoned) = self.keep_point(&mut guard, false) {
                    self.unlock_writer(guard);
                    return Err(Error::Poisoned);
                }
            }
            match self.makers.try_begin() {
                Some(maker) => break (guard, maker),
                None => {
                    self.unlock_writer(guard);
                    self.makers.wait();
                }
            }
        };
        let mut root = self.shared.root();
        if root.txn == self.shared.steady() {
            self.unlock_writer(guard);
            return Ok(());
        }
        guard.space.note_steady(self.shared.steady());
        let plan = match guard.space.begin_steady(&self.pager, root.txn) {
            Ok(plan) => plan,
            Err(e) => {
                self.unlock_writer(guard);
                return Err(e);
            }
        };
        let position = self.position_for(root.log);
        if position != root.log {
            root.log = position;
            self.shared.turn_log(root.txn);
        }
        // The free map's own pages may have made the file longer, and a process that takes over
        // must see that.
        self.shared.begin_steady();
        self.unlock_writer(guard);
        let agreed = match &self.agreement {
            Some(agreement) => agreement.wait(|| self.shared.visible() >= root.txn),
            None => Ok(()),
        };
        let result = agreed.and_then(|()| self.make_steady(plan, &root, false));
        if result.is_ok() {
            self.shared.raise_steady(root.txn);
            self.shared.raise_visible(root.txn);
        }
        self.shared.end_steady();
        drop(maker);
        self.log.notify(result.is_err());
        result?;
        self.return_disk_space(Trim::Idle);
        Ok(())
    }

    /// Gives unused disk space back if nobody is writing. A writer would use it again soon.
    pub(crate) fn return_disk_space(&self, when: Trim) {
        if self.agreement.is_some() {
            // A transaction that only makes the file shorter is none that others know of.
            return;
        }
        let Ok(mut guard) = self.lock_writer(false) else { return };
        if self.shared.root().txn == self.shared.steady() {
            // Dead processes may pin pages at the file's end.
            if self.shared.is_pinned_before(self.shared.steady()) {
                self.shared.release_dead_readers();
            }
            let mut can_cut = self.reclaim(&mut guard);
            guard.space.return_disk_space(&self.pager);
            // An error from here on has poisoned the database, or has changed nothing. The first
            // round may only move the free map out of the way.
            for _ in 0..2 {
                let next = self.shared.root().txn.next();
                let trimmed = guard.space.trim(&self.pager, next, when);
                self.shared.set_cut_pending(guard.space.is_cut_pending());
                if !trimmed || self.commit_trimmed(&mut guard).is_err() {
                    break;
                }
                can_cut = self.reclaim(&mut guard);
            }
            if can_cut && self.align_meta_pages(&guard).is_ok() {
                self.cut_off(&mut guard);
            }
            guard.space.return_disk_space_of_tail(&self.pager);
        }
        self.unlock_writer(guard);
    }

    /// Commits a transaction that changes nothing but the page count, as a steady point, so that
    /// new snapshots have the smaller page count. For when nobody else commits.
    fn commit_trimmed(&self, work: &mut Workspace) -> Result<()> {
        let before = self.shared.root();
        let mut root = Root { txn: before.txn.next(), ..before };
        let mut forest = Forest::of(&self.pager, work.bounds(), before.forest)?;
        let fork = forest.fork_of_main(&self.pager, work.bounds())?;
        work.begin(root.txn, self.shared.steady());
        work.set_fork(fork);
        // The copies must not lie in the end that is to go.
        work.space.set_lowest_first(true);
        let owned = root.catalog.edit(&self.pager, work).own_root();
        let noted = owned.and_then(|()| self.note_unchanged(work, &mut forest, &before));
        work.space.set_lowest_first(false);
        root.forest = forest.page();
        let prepared = noted.and_then(|()| {
            let freed_pages = work.freed_pages();
            work.space.prepare_steady(&self.pager, freed_pages)
        });
        if let Err(e) = prepared {
            work.abort_level(&self.pager);
            return Err(e);
        }
        work.commit();
        self.sync_commit(work, &mut root)?;
        self.shared.publish(root, true);
        self.past.note_steady(&root);
        Ok(())
    }

    /// Writes the last steady point to the other meta page as well if that has a larger page count.
    /// For when no steady point that would replace it will come soon.
    fn align_meta_pages(&self, work: &Workspace) -> Result<()> {
        let Some(mut last) = self.last_meta.try_lock() else { return Ok(()) };
        let (meta, slot) = &mut *last;
        if self.page_count_of_meta(1 - *slot) > work.space.page_count() && meta.txn == self.shared.steady() {
            // The pages of the point are on disk, so none has to be listed.
            meta.manifest.clear();
            self.write_meta(meta, 1 - *slot).inspect_err(|_| self.poison())?;
            self.flush()?;
        }
        Ok(())
    }

    /// The page count in a meta page, or 0 if it holds no steady point.
    fn page_count_of_meta(&self, slot: u32) -> u32 {
        Meta::decode(self.pager.raw(PageId(slot), 1), slot).map_or(0, |meta| meta.page_count)
    }

    /// Cuts the file off behind the last page, unless a meta page has a larger page count. The
    /// caller has found that no snapshot has one, and that no new one will
    /// ([`crate::space::Space::can_cut`]).
    pub(crate) fn cut_off(&self, work: &mut Workspace) {
        // While a steady point is being made, its meta page may be half written.
        let Some(_last) = self.last_meta.try_lock() else { return };
        let page_count = work.space.page_count();
        if (0..2).any(|slot| self.page_count_of_meta(slot) > page_count) {
            return;
        }
        let bytes = u64::from(page_count) * self.pager.page_size() as u64;
        let disk = self.pager.disk();
        // A file that was filled again, or that the system cannot make shorter, stays as it is.
        let done = disk.allocated() >= bytes + SPARE_BYTES && disk.shrink(bytes).is_ok();
        work.space.end_cut(if done { page_count } else { u32::MAX });
        self.shared.set_cut_pending(false);
    }

    /// Makes the transaction that is committing steady before it is published. The workspace stays
    /// locked.
    pub(crate) fn sync_commit(&self, work: &mut Workspace, root: &mut Root) -> Result<()> {
        let _maker = self.makers.begin();
        work.space.note_steady(self.shared.steady());
        let plan = work.space.begin_steady(&self.pager, root.txn).inspect_err(|_| self.poison())?;
        root.page_count = work.space.page_count();
        root.log = self.position_for(root.log);
        self.make_steady(plan, root, true)?;
        self.shared.raise_steady(root.txn);
        Ok(())
    }

    /// Where the log goes on after a steady point: at the start of its other file, unless the last
    /// steady point still needs the records there.
    fn position_for(&self, log: Position) -> Position {
        if log.offset > 0 && log.file == self.last_meta.lock().0.log.file { log.turned() } else { log }
    }

    /// Steps 2 to 4. `alone`: nothing else changes meanwhile, so a few pages can be flushed
    /// together with the meta page.
    fn make_steady(&self, plan: SteadyPlan, root: &Root, alone: bool) -> Result<()> {
        let mut last = self.last_meta.lock();
        let mut meta = Meta {
            txn: root.txn,
            page_size: self.pager.page_size() as u32,
            database_id: last.0.database_id,
            catalog: root.catalog,
            forest: root.forest,
            log: root.log,
            version: if self.past.is_on() { last.0.version.max(PAST_VERSION) } else { last.0.version },
            ..plan.meta
        };
        let one_flush = alone && plan.runs.len() <= MANIFEST_MAX;
        for &(page, pages) in &plan.runs {
            let checksum = self.pager.seal(page, pages);
            if one_flush {
                meta.manifest.push((page, checksum as u32));
            }
        }
        self.trace(WriteKind::Steady, root.txn, None, || plan.runs.clone());
        let slot = 1 - last.1;
        self.store(&plan.runs, root.txn)?;
        if !one_flush {
            if !alone && matches!(self.durability, Durability::Sync | Durability::Agreed) {
                self.write_out(plan.runs)?;
            }
            self.flush()?;
        }
        self.write_meta(&meta, slot).inspect_err(|_| self.poison())?;
        self.flush()?;
        self.past.allow_stamps(meta.version);
        *last = (meta, slot);
        Ok(())
    }

    /// Writes pages to the file, where the map is not the file.
    fn store(&self, runs: &[(PageId, u32)], steady: TxnId) -> Result<()> {
        self.pager.disk().store(runs, steady).inspect_err(|_| self.poison())
    }

    /// Writes pages in batches, so that a flush of the log in between does not wait for all of
    /// them.
    fn write_out(&self, mut runs: Vec<(PageId, u32)>) -> Result<()> {
        runs.sort_unstable();
        let page_size = self.pager.page_size() as u64;
        for ranges in batches(runs, page_size) {
            // A later flush would neither write what failed here nor report it.
            self.pager.disk().write_out(&ranges).inspect_err(|_| self.poison())?;
        }
        Ok(())
    }

    /// Writes the last steady point to both meta pages.
    pub(crate) fn rewrite_meta_pages(&self, last: &mut (Meta, u32)) -> Result<()> {
        let (meta, slot) = last;
        // The pages of the point are on disk, so none has to be listed.
        meta.manifest.clear();
        for slot in [1 - *slot, *slot] {
            self.write_meta(meta, slot).inspect_err(|_| self.poison())?;
            self.flush()?;
        }
        Ok(())
    }

    pub(crate) fn write_meta(&self, meta: &Meta, slot: u32) -> Result<()> {
        self.pager.disk().write(u64::from(slot) * self.pager.page_size() as u64, &meta.encode(slot))
    }
}

/// Ranges of bytes that are written together, from runs of pages in ascending order.
fn batches(runs: Vec<(PageId, u32)>, page_size: u64) -> impl Iterator<Item = Vec<Range<u64>>> {
    let mut runs = runs.into_iter();
    std::iter::from_fn(move || {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut bytes = 0;
        while bytes < BATCH_BYTES
            && let Some((page, pages)) = runs.next()
        {
            let start = u64::from(page.0) * page_size;
            let length = u64::from(pages) * page_size;
            match ranges.last_mut() {
                Some(last) if start - last.end <= GAP_BYTES => last.end = start + length,
                _ => ranges.push(start..start + length),
            }
            bytes += length;
        }
        (!ranges.is_empty()).then_some(ranges)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use super::{BATCH_BYTES, GAP_BYTES};
    use crate::page::PageId;
    use crate::simulation::SimDisk;
    use crate::{Database, Durability, Error, Options, TableKind};

    const PAGE_BYTES: u64 = 4096;

    /// The ranges of each batch, in pages.
    fn batches(runs: &[(u32, u32)]) -> Vec<Vec<(u64, u64)>> {
        let runs = runs.iter().map(|&(page, pages)| (PageId(page), pages)).collect();
        let in_pages = |range: std::ops::Range<u64>| (range.start / PAGE_BYTES, range.end / PAGE_BYTES);
        super::batches(runs, PAGE_BYTES).map(|ranges| ranges.into_iter().map(in_pages).collect()).collect()
    }

    #[test]
    fn pages_that_lie_close_together_are_written_as_one_range() {
        let gap = (GAP_BYTES / PAGE_BYTES) as u32;
        assert_eq!(batches(&[]), Vec::<Vec<_>>::new());
        assert_eq!(batches(&[(2, 1), (3, 4), (7 + gap, 1)]), [[(2, 8 + u64::from(gap))]]);
        assert_eq!(batches(&[(2, 1), (4 + gap, 2)]), [[(2, 3), (4 + u64::from(gap), 6 + u64::from(gap))]]);
        // What lies between them is not counted: it has not changed, for the most part.
        let batch = BATCH_BYTES / PAGE_BYTES;
        let every_other: Vec<(u32, u32)> = (0..2 * batch as u32).map(|page| (2 * page, 1)).collect();
        assert_eq!(batches(&every_other), [[(0, 2 * batch - 1)], [(2 * batch, 4 * batch - 1)]]);
    }

    /// Bug: what the kernel said of pages that it was asked to write before a flush was not
    /// listened to, and it says it once. Consequence: a steady point went on without pages that the
    /// disk had refused, and the log that had them was written over. Fix: the database is as good
    /// as after a flush that failed.
    #[test]
    fn pages_that_cannot_be_written_are_no_part_of_a_steady_point() {
        let disk = SimDisk::of_new(1, u32::MAX);
        let options = Options::new().log_bytes(1 << 30);
        let db = disk.open(&options).unwrap();
        let fill = |value: &[u8]| {
            let mut txn = db.write()?;
            let table = txn.create_table("table", TableKind::Plain)?;
            (0..2_000_u32).try_for_each(|key| txn.put(&table, &key.to_be_bytes(), value))?;
            txn.commit()
        };
        fill(b"old").unwrap();
        db.sync().unwrap();
        fill(b"new").unwrap();
        disk.fail_to_write_out();
        assert!(matches!(db.sync(), Err(Error::Io { .. })));
        assert!(matches!(fill(b"newer"), Err(Error::Poisoned)));
        drop(db);

        let db = SimDisk::of_wreck(&disk.durable(), 1).open(&options).unwrap();
        let snapshot = db.read().unwrap();
        let table = snapshot.table("table").unwrap();
        for key in 0..2_000_u32 {
            assert_eq!(snapshot.get(&table, &key.to_be_bytes()).unwrap(), Some(&b"new"[..]), "{key}");
        }
        drop(snapshot);
        assert!(db.check().unwrap().is_clean());
    }

    /// Bug: when the background could make no steady points, commits in `Lazy` mode went on for
    /// ever. Consequence: a crash took far more than the mode's bound, and nobody was told. Fix:
    /// commits that are overdue make one themselves.
    #[test]
    fn lazy_commits_do_not_run_away_from_a_background_that_makes_no_steady_points() {
        const BYTES: u64 = 64 << 10;
        const COMMITS: u64 = 200;
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().durability(Durability::Lazy { bytes: BYTES, period: Duration::MAX });
        let db = Database::open(dir.path(), &options).unwrap();
        let committed = AtomicU64::new(0);
        let held = db.0.core.makers.try_begin().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for key in 0..COMMITS {
                    let mut txn = db.write().unwrap();
                    let table = txn.create_table("table", TableKind::Plain).unwrap();
                    txn.put(&table, &key.to_be_bytes(), &[1; 8_000]).unwrap();
                    txn.commit().unwrap();
                    committed.store(key + 1, Ordering::SeqCst);
                }
            });
            let started = Instant::now();
            while committed.load(Ordering::SeqCst) < BYTES / 8192 {
                assert!(started.elapsed() < Duration::from_secs(20));
                std::thread::yield_now();
            }
            // Time for all of them, if nothing held them up.
            std::thread::sleep(Duration::from_millis(300));
            let ahead = committed.load(Ordering::SeqCst);
            drop(held);
            assert!(ahead <= 4 * BYTES / 8192 + 1, "{ahead} commits of two pages each");
        });
        assert_eq!(committed.load(Ordering::SeqCst), COMMITS);
        assert!(db.check().unwrap().is_clean());
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod models {
    //! Makers of steady points beside committing transactions that are ones themselves.

    use std::sync::Arc;

    use shuttle::sync::atomic::{AtomicU32, Ordering};
    use shuttle::{sync, thread};

    use super::*;

    /// In the background as [`Core::sync`] does it, or with the workspace held as
    /// [`Core::sync_commit`] does.
    fn make(makers: &Makers, workspace: &sync::Mutex<()>, making: &AtomicU32, background: bool) {
        let io = || {
            assert_eq!(making.fetch_add(1, Ordering::SeqCst), 0, "two steady points at once");
            thread::yield_now();
            making.fetch_sub(1, Ordering::SeqCst);
        };
        if !background {
            let _workspace = workspace.lock().unwrap();
            let _maker = makers.begin();
            return io();
        }
        let maker = loop {
            let guard = workspace.lock().unwrap();
            match makers.try_begin() {
                Some(maker) => break maker,
                None => {
                    drop(guard);
                    makers.wait();
                }
            }
        };
        io();
        drop(maker);
    }

    #[test]
    fn there_is_one_maker_at_a_time_and_nobody_waits_for_ever() {
        let model = || {
            let makers = Arc::new(Makers::default());
            let workspace = Arc::new(sync::Mutex::new(()));
            let making = Arc::new(AtomicU32::new(0));
            let threads: Vec<_> = (0..4)
                .map(|i| {
                    let (makers, workspace, making) =
                        (Arc::clone(&makers), Arc::clone(&workspace), Arc::clone(&making));
                    thread::spawn(move || (0..2).for_each(|_| make(&makers, &workspace, &making, i % 2 == 0)))
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
        };
        shuttle::check_random(model, 3_000);
        shuttle::check_pct(model, 2_000, 3);
    }
}

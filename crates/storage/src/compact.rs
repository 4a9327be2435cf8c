//! Compaction: moving pages from the file's end to free pages before them while the database is in
//! use, so that the file can end earlier.
//!
//! A round makes a steady point, which makes the pages free that nobody sees any more, and decides
//! where the file could end: behind as many pages as are in use, and a sixteenth. Transactions that
//! change no entry copy what lies behind that, the tables of each branch in the order of their keys,
//! some hundred pages at a time and with pauses in between. Then the free end is given up as `trim`
//! does. Rounds go on as long as the file becomes shorter.
//!
//! The record of such a transaction is empty, or names its branch and nothing else: after a crash
//! the pages are where they were, or where they were moved to.
//!
//! Invariants:
//! 1. A page is moved to a lower place or not at all, so compaction ends.
//! 2. A page that more than one state reaches stays: a fork's, and what a branch shares with it. The
//!    file does not become shorter than these pages allow.
//! 3. With an agreed log nothing is moved: every transaction there is one of all nodes.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::catalog::Description;
use crate::db::Core;
use crate::forest::{BranchId, Forest};
use crate::log::record::OnBranches;
use crate::page::PageId;
use crate::snapshot::list_tables;
use crate::space::Trim;
use crate::tree::{PutMode, Relocation};
use crate::txn::put_branch;
use crate::workspace::Workspace;
use crate::{Database, Result, Table};

/// About so many pages are moved in a transaction.
const PAGES_AT_ONCE: u64 = 256;
/// How long others have the writer's lock to themselves after that.
const PAUSE: Duration = Duration::from_millis(1);
/// So many steady points are made at most in a round to have room again.
const TURNS_MAX: u32 = 64;
/// A compacted file has this fraction of the pages in use free.
const SPARE_DIVISOR: u32 = 16;
/// It has so many free pages at least.
const SPARE_PAGES: u32 = if cfg!(test) { 4 } else { 64 };
/// The file is compacted by itself if it is longer than its pages in use by more than this fraction
/// of them.
const LOOSE_DIVISOR: u32 = 5;
/// The same in bytes: less is not worth it.
const LOOSE_BYTES: u64 = 16 << 20;

/// How far a compaction is, or what it has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compaction {
    /// The file's length in pages as it began.
    pub pages_before: u32,
    /// The file's length in pages now.
    pub pages: u32,
    /// Pages in use as the round began, free map and meta pages included.
    pub pages_in_use: u32,
    /// Pages that were copied to a lower place.
    pub moved: u64,
}

impl Compaction {
    /// The free pages of the file.
    #[must_use]
    pub fn free_pages(&self) -> u32 {
        self.pages.saturating_sub(self.pages_in_use)
    }
}

/// How a compaction runs beside others.
struct Pace<'a> {
    pause: Option<Duration>,
    /// Told how far it is between two transactions; breaks off.
    progress: &'a mut dyn FnMut(&Compaction) -> ControlFlow<()>,
}

/// Where the next transaction of a branch goes on: behind so many tables, and at a key of the next.
#[derive(Default)]
struct Place {
    table: usize,
    key: Vec<u8>,
}

impl Database {
    /// Moves pages to the start of the file and makes it shorter, while others read and write. The
    /// file becomes about as long as its pages in use, of all branches; less so if branches share
    /// pages, which stay where they are, if a snapshot holds pages back, or if large values find no
    /// free run. `progress` is called every millisecond or so, and can break off; what was moved by
    /// then stays.
    ///
    /// Nothing happens with [`crate::FreeSpace::Append`], which uses no page again, and with
    /// [`crate::Durability::Agreed`].
    ///
    /// # Errors
    /// Those of a commit; damage that it comes upon.
    pub fn compact(&self, mut progress: impl FnMut(&Compaction) -> ControlFlow<()>) -> Result<Compaction> {
        self.0.core.compact(Pace { pause: Some(PAUSE), progress: &mut progress })
    }
}

impl Core {
    /// Compacts the file if a good part of it is free, until `stops` says so. `last`: what the last
    /// compaction left. Where that could do little, because branches or snapshots hold pages, it is
    /// not tried again before more is free.
    pub(crate) fn compact_if_loose(&self, last: &mut Compaction, stops: &dyn Fn() -> bool) -> Result<()> {
        if self.agreement.is_some() {
            return Ok(());
        }
        let now = self.measure()?;
        let free = now.free_pages();
        let is_loose = free > now.pages_in_use / LOOSE_DIVISOR
            && u64::from(free) * self.pager.page_size() as u64 >= LOOSE_BYTES
            && free > last.free_pages() + last.free_pages() / LOOSE_DIVISOR;
        if is_loose && !stops() {
            let mut progress =
                |_: &Compaction| if stops() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            let done = self.compact(Pace { pause: Some(PAUSE), progress: &mut progress })?;
            // What was broken off goes on next time.
            *last = if stops() { Compaction::default() } else { done };
        }
        Ok(())
    }

    /// The file's length and the pages in use.
    fn measure(&self) -> Result<Compaction> {
        let mut work = self.lock_writer(true)?;
        self.reclaim(&mut work);
        let pages = work.space.page_count();
        let pages_in_use = work.space.in_use().unwrap_or(pages);
        self.unlock_writer(work);
        Ok(Compaction { pages_before: pages, pages, pages_in_use, moved: 0 })
    }

    fn compact(&self, mut pace: Pace<'_>) -> Result<Compaction> {
        let mut done = Compaction::default();
        loop {
            // Makes what was given up before usable.
            self.sync()?;
            let now = self.measure()?;
            if done.pages_before == 0 {
                done.pages_before = now.pages;
            }
            let is_shorter = done.pages == 0 || now.pages < done.pages;
            (done.pages, done.pages_in_use) = (now.pages, now.pages_in_use);
            let limit = now.pages_in_use + (now.pages_in_use / SPARE_DIVISOR).max(SPARE_PAGES);
            if !is_shorter || now.pages <= limit || self.agreement.is_some() {
                return Ok(done);
            }
            let broken_off = self.compact_round(limit, &mut pace, &mut done)?.is_break();
            self.sync()?;
            self.return_disk_space(Trim::Compacted);
            if broken_off {
                done.pages = self.measure()?.pages;
                return Ok(done);
            }
        }
    }

    /// Moves what lies behind `limit`, in all branches.
    fn compact_round(&self, limit: u32, pace: &mut Pace<'_>, done: &mut Compaction) -> Result<ControlFlow<()>> {
        for branch in self.branches_to_compact()? {
            let tables = self.tables_of(branch)?;
            let mut place = Place::default();
            // Whether a steady point was made since the last move.
            let mut is_steady = true;
            let mut turns_left = TURNS_MAX;
            while place.table <= tables.len() {
                let mut relocation = Relocation { limit, budget: PAGES_AT_ONCE, moved: 0, out_of_room: false };
                self.relocate(branch, &tables, &mut place, &mut relocation)?;
                done.moved += relocation.moved;
                if (pace.progress)(done).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                if relocation.out_of_room {
                    turns_left -= 1;
                    if is_steady && relocation.moved == 0 || turns_left == 0 {
                        return Ok(ControlFlow::Continue(()));
                    }
                    // The copies of pages that were copied again become free.
                    self.sync()?;
                    is_steady = true;
                } else if relocation.moved > 0 {
                    is_steady = false;
                    if let Some(pause) = pace.pause {
                        std::thread::sleep(pause);
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The main branch, and all others.
    fn branches_to_compact(&self) -> Result<Vec<BranchId>> {
        let mut work = self.lock_writer(true)?;
        self.reclaim(&mut work);
        let (bounds, root) = (work.bounds_between(&self.shared), self.shared.root());
        let names = Forest::of(&self.pager, bounds, root.forest).and_then(|forest| match root.forest {
            PageId::NONE => Ok(Vec::new()),
            _ => forest.names(&self.pager, bounds),
        });
        self.unlock_writer(work);
        let others = names?.into_iter().map(|(_, id)| id).filter(|&id| id != BranchId::MAIN);
        Ok([BranchId::MAIN].into_iter().chain(others).collect())
    }

    /// The tables of a branch; none if it was dropped.
    fn tables_of(&self, branch: BranchId) -> Result<Vec<Table>> {
        let work = self.lock_writer(true)?;
        let (bounds, root) = (work.bounds_between(&self.shared), self.shared.root());
        let catalog = match branch {
            BranchId::MAIN => Ok(Some(root.catalog)),
            id => Forest::of(&self.pager, bounds, root.forest)
                .and_then(|forest| forest.branch(&self.pager, bounds, id))
                .map(|found| found.filter(|branch| !branch.dropped).map(|branch| branch.catalog)),
        };
        let tables = catalog.and_then(|catalog| match catalog {
            Some(catalog) if catalog.depth > 0 => list_tables(self, bounds, catalog),
            _ => Ok(Vec::new()),
        });
        self.unlock_writer(work);
        tables
    }

    /// Moves pages of a branch in a transaction of its own, from a place on.
    fn relocate(
        &self,
        branch: BranchId,
        tables: &[Table],
        place: &mut Place,
        relocation: &mut Relocation,
    ) -> Result<()> {
        let mut work = self.lock_writer(true)?;
        self.reclaim(&mut work);
        work.begin(self.shared.root().txn.next(), self.shared.steady());
        self.begin_record(&mut work);
        work.space.set_lowest_first(true);
        let done = self.relocate_in(&mut work, branch, tables, place, relocation);
        work.space.set_lowest_first(false);
        while work.levels() > 0 {
            work.abort_level(&self.pager);
        }
        self.unlock_writer(work);
        done
    }

    fn relocate_in(
        &self,
        work: &mut Workspace,
        branch: BranchId,
        tables: &[Table],
        place: &mut Place,
        relocation: &mut Relocation,
    ) -> Result<()> {
        let (pager, bounds, root) = (&self.pager, work.bounds(), self.shared.root());
        let mut forest = Forest::of(pager, bounds, root.forest)?;
        let (before, fork) = match branch {
            BranchId::MAIN => (root.catalog, forest.fork_of_main(pager, bounds)?),
            id => match forest.branch(pager, bounds, id)?.filter(|branch| !branch.dropped) {
                Some(found) => (found.catalog, found.fork),
                None => {
                    place.table = tables.len() + 1;
                    return Ok(());
                }
            },
        };
        work.set_fork(fork);
        if branch != BranchId::MAIN {
            work.record.push_on_branches(OnBranches::Enter(branch.0));
        }
        let mut catalog = before;
        while !relocation.is_over() && place.table < tables.len() {
            let name = tables[place.table].name();
            let next = match Description::find(pager, work.bounds(), &catalog, name)? {
                Some(Description { kind, mut tree }) => {
                    let tree_before = tree;
                    let next = tree.edit(pager, work).relocate(&place.key, relocation)?;
                    if tree != tree_before {
                        let description = Description { kind, tree }.encode();
                        catalog.edit(pager, work).put(name.as_bytes(), &description, PutMode::Upsert, None)?;
                    }
                    next
                }
                None => None,
            };
            match next {
                Some(key) => place.key = key,
                None => *place = Place { table: place.table + 1, key: Vec::new() },
            }
        }
        if !relocation.is_over() && place.table == tables.len() {
            // Last the catalogue, and behind the main branch's the forest. Both are small.
            relocation.budget = u64::MAX;
            catalog.edit(pager, work).relocate(&[], relocation)?;
            if branch == BranchId::MAIN && root.forest != PageId::NONE {
                forest.edit(pager, work).relocate(relocation)?;
            }
            place.table += 1;
        }
        if catalog == before && forest.page() == root.forest {
            return Ok(());
        }
        let mut main = root.catalog;
        match branch {
            BranchId::MAIN => main = catalog,
            id => put_branch(self, work, &mut forest, id, (before, catalog))?,
        }
        if forest.page() == root.forest {
            // One of the two names the transaction.
            main.edit(pager, work).own_root()?;
        }
        self.publish(work, main, forest.page(), None).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, FreeSpace, Options, TableKind};

    fn value(key: u32, bytes: usize) -> Vec<u8> {
        key.to_le_bytes().iter().copied().cycle().take(bytes).collect()
    }

    fn fill(db: &Database, keys: impl Iterator<Item = u32>, bytes: usize) {
        let mut txn = db.write().unwrap();
        let table = txn.create_table("table", TableKind::Plain).unwrap();
        for key in keys {
            txn.put(&table, &key.to_be_bytes(), &value(key, bytes)).unwrap();
        }
        txn.commit().unwrap();
    }

    fn keep_every(db: &Database, step: u32, count: u32) {
        let mut txn = db.write().unwrap();
        let table = txn.table("table").unwrap();
        for key in (0..count).filter(|key| key % step != 0) {
            txn.delete(&table, &key.to_be_bytes()).unwrap();
        }
        txn.commit().unwrap();
        db.sync().unwrap();
    }

    fn assert_has(db: &Database, keys: impl Iterator<Item = u32>, bytes: usize) {
        let snapshot = db.read().unwrap();
        let table = snapshot.table("table").unwrap();
        let view = snapshot.view(&table).unwrap();
        let mut count = 0;
        for key in keys {
            assert!(view.get(&key.to_be_bytes()).unwrap() == Some(&value(key, bytes)[..]), "key {key}");
            count += 1;
        }
        assert_eq!(view.stat().entries, count);
        let report = db.check().unwrap();
        assert!(report.is_clean() && report.free_checked, "{:#?}", report.problems);
    }

    fn go_on(_: &Compaction) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Small rows, wide leaves, values in pages of their own: the file becomes as long as what is
    /// left, with every mode and policy.
    #[test]
    fn a_file_of_which_little_is_left_becomes_short() {
        let modes = [
            Durability::Sync,
            Durability::SyncNoLog,
            Durability::NoSync,
            Durability::Lazy { period: Duration::from_secs(1), bytes: 1 << 20 },
        ];
        for (turn, (bytes, count)) in
            [(60, 60_000), (700, 20_000), (3_000, 6_000), (40_000, 700)].into_iter().enumerate()
        {
            for policy in [FreeSpace::Lifo, FreeSpace::Fifo, FreeSpace::Lowest] {
                let dir = tempfile::tempdir().unwrap();
                let options = Options::new().durability(modes[turn]).free_space(policy);
                let db = Database::open(dir.path(), &options).unwrap();
                fill(&db, 0..count, bytes);
                // Every tenth survives, and is put once more, so that leaves are full again.
                keep_every(&db, 10, count);
                let done = db.compact(go_on).unwrap();
                assert!(done.pages_before > 2 * done.pages, "{bytes} bytes, {policy:?}: {done:?}");
                assert!(done.pages * 5 <= done.pages_in_use * 6 + 5 * 70, "{bytes} bytes, {policy:?}: {done:?}");
                assert!(done.moved > 0 || policy == FreeSpace::Lowest);
                assert_has(&db, (0..count).step_by(10), bytes);
                let length = db.stat().unwrap().file_bytes;
                assert!(length <= u64::from(done.pages) * 4096 + (5 << 20), "{length}: {done:?}");
                assert_eq!(db.compact(go_on).unwrap().moved, 0);
                drop(db);
                assert_has(&Database::open(dir.path(), &options).unwrap(), (0..count).step_by(10), bytes);
            }
        }
    }

    #[test]
    fn snapshots_see_what_they_saw_and_writers_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), &Options::new()).unwrap();
        fill(&db, 0..60_000, 100);
        let before = db.read().unwrap();
        keep_every(&db, 10, 60_000);
        let mut next = 100_000;
        let done = db
            .compact(|_| {
                fill(&db, next..next + 3, 100);
                next += 3;
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(next > 100_000);
        // The snapshot keeps the end of the file.
        assert!(done.pages * 2 > done.pages_before, "{done:?}");
        let table = before.table("table").unwrap();
        let view = before.view(&table).unwrap();
        assert!((0..60_000).all(|key| view.get(&u32::to_be_bytes(key)).unwrap() == Some(&value(key, 100)[..])));
        drop(view);
        drop(before);
        let done = db.compact(go_on).unwrap();
        assert!(done.pages * 3 < done.pages_before, "{done:?}");
        assert_has(&db, (0..60_000).step_by(10).chain(100_000..next), 100);
    }

    #[test]
    fn it_can_be_broken_off_and_what_was_moved_stays() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), &Options::new()).unwrap();
        fill(&db, 0..60_000, 100);
        keep_every(&db, 3, 60_000);
        let mut calls = 0;
        let done = db
            .compact(|_| {
                calls += 1;
                if calls == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        assert!(calls == 3 && done.moved > 0, "{calls}: {done:?}");
        assert_has(&db, (0..60_000).step_by(3), 100);
    }

    #[test]
    fn branches_are_compacted_and_what_they_share_stays() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), &Options::new()).unwrap();
        fill(&db, 0..20_000, 100);
        let branch = db.branch("branch").unwrap();
        fill(&branch, 20_000..60_000, 100);
        fill(&db, 30_000..60_000, 50);
        let mut txn = branch.write().unwrap();
        let table = txn.table("table").unwrap();
        for key in (20_000..60_000_u32).filter(|key| key % 8 != 0) {
            txn.delete(&table, &key.to_be_bytes()).unwrap();
        }
        txn.commit().unwrap();
        let mut txn = db.write().unwrap();
        for key in (30_000..60_000_u32).filter(|key| key % 8 != 0) {
            txn.delete(&table, &key.to_be_bytes()).unwrap();
        }
        txn.commit().unwrap();
        let done = db.compact(go_on).unwrap();
        assert!(done.pages * 2 < done.pages_before, "{done:?}");
        assert_has(&branch, (0..20_000).chain((20_000..60_000).step_by(8)), 100);
        let snapshot = db.read().unwrap();
        let view = snapshot.view(&snapshot.table("table").unwrap()).unwrap();
        assert_eq!(view.stat().entries, 20_000 + 30_000 / 8);
        drop(snapshot);
        let shared: u64 = db.branch_stats().unwrap().iter().map(|stat| stat.shared_bytes).max().unwrap();
        assert!(shared > 20_000 * 100);
    }

    #[test]
    fn a_file_becomes_compact_by_itself_when_writers_are_quiet() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().durability(Durability::Lazy { period: Duration::from_millis(50), bytes: 1 << 30 });
        let db = Database::open(dir.path(), &options).unwrap();
        fill(&db, 0..300_000, 100);
        let full = db.stat().unwrap().pages;
        let mut txn = db.write().unwrap();
        let table = txn.table("table").unwrap();
        for key in (0..300_000_u32).filter(|key| key % 10 != 0) {
            txn.delete(&table, &key.to_be_bytes()).unwrap();
        }
        txn.commit().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while db.stat().unwrap().pages * 4 > full {
            assert!(std::time::Instant::now() < deadline, "{} of {full} pages", db.stat().unwrap().pages);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_has(&db, (0..300_000).step_by(10), 100);
    }

    #[test]
    fn the_policy_that_uses_no_page_again_moves_none() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), &Options::new().free_space(FreeSpace::Append)).unwrap();
        fill(&db, 0..10_000, 100);
        keep_every(&db, 10, 10_000);
        let done = db.compact(go_on).unwrap();
        assert_eq!((done.moved, done.pages), (0, done.pages_before));
    }
}

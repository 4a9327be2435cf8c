//! Reaping: giving back the pages of branches that were dropped, and of forks that fewer than two
//! states start from.
//!
//! - A dropped branch gives back the pages that it owns (see `forest`): those that are newer than
//!   its fork. The fork has one state less above it.
//! - A fork with one state above it becomes one with that. What it owns and the other does not
//!   reach is given back; the other owns the rest from now on.
//!
//! No list says which pages those are: births say what a state owns, and comparing two states says
//! what has died between them. So writing beside branches costs nothing more, and reaping a fork
//! reads the branches of the trees that are newer than the fork, and the pages that are given back.
//!
//! The pages are found beside writers, in a pinned state, a few at a time with pauses in between.
//! Then one transaction gives them back, with what has changed since. A crash in between undoes
//! nothing: the forest lists what is left to do.
//!
//! Invariants:
//! 1. A page is given back in the transaction that removes its owner from the forest.
//! 2. A page whose header was not verified is not given back.

use std::time::Duration;

use crate::db::Core;
use crate::forest::{BranchId, Forest, State, Stem};
use crate::lock_file::ReaderId;
use crate::page::{PageId, TxnId};
use crate::pager::{Bounds, Pager};
use crate::root::{Root, Tree};
use crate::space::Freed;
use crate::walk;
use crate::workspace::Workspace;
use crate::{Error, Result};

/// So many pages are looked at between two pauses.
const PACE_PAGES: u32 = 256;
/// How long a pause is.
const PAUSE: Duration = Duration::from_millis(1);

/// What reaping a stem gives back, as of one state.
pub(crate) struct Found {
    /// The fork that it started from then, which says what it owned.
    fork: TxnId,
    freed: Vec<Freed>,
    /// The state above a fork: which, as of which transaction, and its catalogue then.
    above: Option<(Stem, TxnId, Tree)>,
}

/// A forest with the main branch's catalogue, to find out what reaping gives back.
struct Look<'a> {
    pager: &'a Pager,
    bounds: Bounds,
    forest: &'a Forest,
    main: &'a Tree,
}

impl Look<'_> {
    /// `None` if there is nothing to reap: it was done, or other states have come to start from the
    /// fork.
    fn find(&self, stem: Stem, pace: &mut dyn FnMut() -> Result<()>) -> Result<Option<Found>> {
        let Self { pager, bounds, forest, .. } = *self;
        match stem {
            Stem::Kept(..) => Ok(None),
            Stem::Branch(id) => {
                let Some(branch) = forest.branch(pager, bounds, id)?.filter(|branch| branch.dropped) else {
                    return Ok(None);
                };
                let state = State { stem: Some(stem), catalog: branch.catalog, fork: branch.fork };
                let freed = walk::owned(pager, bounds, &state, pace)?;
                Ok(Some(Found { fork: branch.fork, freed, above: None }))
            }
            Stem::Fork(id) => {
                let Some(fork) = forest.fork(pager, bounds, id)? else { return Ok(None) };
                let state = State { stem: Some(stem), catalog: fork.catalog, fork: fork.fork };
                let (freed, above) = match forest.above(pager, bounds, id)? {
                    (0, _) => (walk::owned(pager, bounds, &state, pace)?, None),
                    // It is kept for its own sake.
                    (1, Some(Stem::Kept(..))) => return Ok(None),
                    (1, Some(above)) => {
                        let catalog = self.catalog_of(above)?;
                        let freed = walk::owned_but_for(pager, bounds, &state, (&catalog, id), pace)?;
                        (freed, Some((above, bounds.newest, catalog)))
                    }
                    _ => return Ok(None),
                };
                Ok(Some(Found { fork: fork.fork, freed, above }))
            }
        }
    }

    fn catalog_of(&self, stem: Stem) -> Result<Tree> {
        let Self { pager, bounds, forest, main } = *self;
        let found = match stem {
            Stem::Branch(BranchId::MAIN) => Some(*main),
            Stem::Branch(id) => forest.branch(pager, bounds, id)?.map(|branch| branch.catalog),
            Stem::Fork(id) => forest.fork(pager, bounds, id)?.map(|fork| fork.catalog),
            Stem::Kept(..) => None,
        };
        let reason = "what starts from a fork is not in the forest";
        found.ok_or(Error::Corrupted { page: self.forest.page(), reason })
    }

    /// What was found in an older state, which is still pinned, brought up to date. `None` if it
    /// has to be found anew: others may have reaped the fork below meanwhile, so that this owns
    /// more, or other states start from a fork.
    fn update(&self, stem: Stem, found: Found) -> Result<Option<Found>> {
        let Self { pager, bounds, forest, .. } = *self;
        let (fork, has_same_above) = match stem {
            Stem::Kept(..) => return Ok(None),
            Stem::Branch(id) => {
                // Nobody changes the tables of a dropped branch.
                let dropped = forest.branch(pager, bounds, id)?.filter(|branch| branch.dropped);
                (dropped.map(|branch| branch.fork), true)
            }
            Stem::Fork(id) => {
                let above = found.above.map(|(above, ..)| above);
                let fork = forest.fork(pager, bounds, id)?.map(|fork| fork.fork);
                (fork, forest.above(pager, bounds, id)? == (u64::from(above.is_some()), above))
            }
        };
        if fork != Some(found.fork) || !has_same_above {
            return Ok(None);
        }
        let (Stem::Fork(id), Some((above, since, catalog))) = (stem, found.above) else {
            return Ok(Some(found));
        };
        let Found { fork, mut freed, .. } = found;
        let now = self.catalog_of(above)?;
        if now != catalog {
            // The fork's pages that the state above has given up since.
            let before = State { stem: Some(above), catalog, fork };
            let more = walk::owned_but_for(pager, bounds, &before, (&now, since), &mut || Ok(()))?;
            freed.extend(more.into_iter().filter(|run| run.birth <= id));
        }
        Ok(Some(Found { fork, freed, above: Some((above, bounds.newest, now)) }))
    }
}

/// Reaps a stem in the transaction of `work`; `false` if that was done already. `found`: what was
/// found in an older state, which is still pinned.
pub(crate) fn carry_out(
    pager: &Pager,
    work: &mut Workspace,
    forest: &mut Forest,
    main: &Tree,
    stem: Stem,
    found: Option<Found>,
) -> Result<bool> {
    let bounds = work.bounds();
    if !forest.is_to_be_reaped(pager, bounds, stem)? {
        return Ok(false);
    }
    let look = Look { pager, bounds, forest, main };
    let found = match found.map(|found| look.update(stem, found)).transpose()?.flatten() {
        Some(found) => Some(found),
        None => look.find(stem, &mut || Ok(()))?,
    };
    let Some(Found { freed, above, .. }) = found else {
        return forest.edit(pager, work).reaped(stem).map(|()| true);
    };
    match stem {
        Stem::Kept(..) => return Ok(false),
        Stem::Branch(id) => {
            let fork = forest.branch(pager, bounds, id)?.map_or(TxnId(0), |branch| branch.fork);
            let mut forest = forest.edit(pager, work);
            forest.move_above(stem, fork, TxnId(0))?;
            forest.remove_branch(id)?;
        }
        Stem::Fork(id) => {
            let below = forest.fork(pager, bounds, id)?.map_or(TxnId(0), |fork| fork.fork);
            match above {
                Some((above @ Stem::Branch(branch), ..)) => {
                    let entry = forest.branch(pager, bounds, branch)?;
                    let mut forest = forest.edit(pager, work);
                    forest.move_above(above, id, below)?;
                    if let Some(entry) = entry {
                        forest.put_branch(branch, &crate::forest::Branch { fork: below, ..entry })?;
                    }
                }
                Some((above @ Stem::Fork(upper), ..)) => {
                    let entry = forest.fork(pager, bounds, upper)?;
                    let mut forest = forest.edit(pager, work);
                    forest.move_above(above, id, below)?;
                    if let Some(entry) = entry {
                        forest.put_fork(upper, &crate::forest::Fork { fork: below, ..entry })?;
                    }
                }
                Some((Stem::Kept(..), ..)) | None => {}
            }
            let mut forest = forest.edit(pager, work);
            forest.move_above(stem, below, TxnId(0))?;
            forest.remove_fork(id)?;
        }
    }
    forest.edit(pager, work).reaped(stem)?;
    work.free_all(freed);
    Ok(true)
}

/// A state that is pinned until this is dropped.
struct Pinned<'a> {
    core: &'a Core,
    reader: ReaderId,
    root: Root,
    bounds: Bounds,
}

impl<'a> Pinned<'a> {
    fn newest(core: &'a Core) -> Result<Self> {
        // Loaded before the pin, as snapshots do.
        let steady = core.shared.steady();
        let (reader, root) = core.shared.pin(u32::MAX, 0, true)?;
        let bounds = Bounds { page_count: root.page_count, newest: root.txn, steady: steady.min(root.txn) };
        let pinned = Self { core, reader, root, bounds };
        core.ensure_mapped(root.page_count)?;
        Ok(pinned)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.core.shared.unpin(self.reader);
    }
}

impl Core {
    /// Whether something was dropped and is not reaped yet.
    pub(crate) fn has_to_reap(&self) -> Result<bool> {
        if self.shared.root().forest == PageId::NONE {
            return Ok(false);
        }
        let Pinned { root, bounds, .. } = &Pinned::newest(self)?;
        Ok(Forest::of(&self.pager, *bounds, root.forest)?.next_to_reap(&self.pager, *bounds, None)?.is_some())
    }

    /// Reaps all that there is, until `stops` says so: how many branches and forks. `paced`: with
    /// pauses. What is damaged is left as it is.
    pub(crate) fn reap_all(&self, paced: bool, stops: &dyn Fn() -> bool) -> Result<u64> {
        let (mut reaped, mut pages, mut after) = (0, 0, None);
        let mut pace = || {
            pages += 1;
            if pages % PACE_PAGES != 0 {
                return Ok(());
            }
            if stops() {
                return Err(Error::Busy);
            }
            if paced {
                std::thread::sleep(PAUSE);
            }
            Ok(())
        };
        while !stops() {
            let pinned = Pinned::newest(self)?;
            let (root, bounds) = (&pinned.root, pinned.bounds);
            let forest = Forest::of(&self.pager, bounds, root.forest)?;
            let next = forest.next_to_reap(&self.pager, bounds, after)?;
            // Each is greater than the one before it, unless there is damage.
            let Some(stem) = next.filter(|&next| after.is_none_or(|after| next > after)) else { break };
            let look = Look { pager: &self.pager, bounds, forest: &forest, main: &root.catalog };
            let done = look.find(stem, &mut pace).and_then(|found| self.reap(stem, found));
            match done {
                Ok(()) => reaped += 1,
                Err(Error::Corrupted { .. }) => after = Some(stem),
                Err(Error::Busy) => break,
                Err(e) => return Err(e),
            }
        }
        Ok(reaped)
    }

    /// Reaps a stem in a transaction of its own, whose record says nothing: after a crash the same
    /// is found again.
    fn reap(&self, stem: Stem, found: Option<Found>) -> Result<()> {
        let mut work = self.lock_writer(true)?;
        self.reclaim(&mut work);
        let root = self.shared.root();
        work.begin(root.txn.next(), self.shared.steady());
        self.begin_record(&mut work);
        let done = Forest::of(&self.pager, work.bounds(), root.forest).and_then(|mut forest| {
            match carry_out(&self.pager, &mut work, &mut forest, &root.catalog, stem, found)? {
                true => self.publish(&mut work, root.catalog, forest.page(), None).map(|_| ()),
                false => Ok(()),
            }
        });
        while work.levels() > 0 {
            work.abort_level(&self.pager);
        }
        self.unlock_writer(work);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, Options, TableKind};

    fn fill(db: &Database, from: u32, to: u32) {
        let mut txn = db.write().unwrap();
        let table = txn.create_table("table", TableKind::Plain).unwrap();
        for key in from..to {
            txn.put(&table, &key.to_be_bytes(), &[7; 60]).unwrap();
        }
        txn.commit().unwrap();
    }

    /// Drops a branch without waking the thread that reaps.
    fn drop_quietly(db: &Database, name: &str) -> Stem {
        let mut txn = db.write().unwrap();
        let id = txn.branch_named(name).unwrap().unwrap();
        txn.drop_branch(id).unwrap();
        txn.commit().unwrap();
        Stem::Branch(id)
    }

    fn find(core: &Core, stem: Stem) -> Option<Found> {
        let pinned = Pinned::newest(core).unwrap();
        let forest = Forest::of(&core.pager, pinned.bounds, pinned.root.forest).unwrap();
        let look = Look { pager: &core.pager, bounds: pinned.bounds, forest: &forest, main: &pinned.root.catalog };
        look.find(stem, &mut || Ok(())).unwrap()
    }

    /// Bug: two threads reaped at a time. One had found what a dropped branch owned when the other
    /// reaped the fork below, whose pages the branch owned from then on. Consequence: these pages
    /// were neither in use nor free, for good. Fix: what was found counts only if the fork below is
    /// the same.
    #[test]
    fn what_another_reaper_has_done_meanwhile_is_taken_into_account() {
        // Which of the two is reaped between the other's search and its transaction.
        for branch_comes_last in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let db = Database::open(dir.path(), &Options::new()).unwrap();
            fill(&db, 0, 4_000);
            let a = db.branch("a").unwrap();
            fill(&a, 0, 1_000);
            let b = a.branch("b").unwrap();
            fill(&b, 0, 100);
            // The fork of a and b has one state above it as soon as a is gone: b.
            let dropped = drop_quietly(&db, "a");
            let core = &db.0.core;
            core.reap(dropped, find(core, dropped)).unwrap();
            let forest = Forest::of(&core.pager, Pinned::newest(core).unwrap().bounds, core.shared.root().forest);
            let fork = forest.unwrap().next_to_reap(&core.pager, Pinned::newest(core).unwrap().bounds, None);
            let fork = fork.unwrap().unwrap();
            assert!(matches!(fork, Stem::Fork(_)));
            let of_fork = find(core, fork);
            let branch = drop_quietly(&db, "b");
            let of_branch = find(core, branch);
            let order = match branch_comes_last {
                true => [(fork, of_fork), (branch, of_branch)],
                false => [(branch, of_branch), (fork, of_fork)],
            };
            for (stem, found) in order {
                core.reap(stem, found).unwrap();
            }
            core.reap_all(false, &|| false).unwrap();
            let report = db.check().unwrap();
            assert!(report.is_clean() && report.free_checked, "{:#?}", report.problems);
            assert_eq!(db.branches().unwrap().len(), 1);
        }
    }
}

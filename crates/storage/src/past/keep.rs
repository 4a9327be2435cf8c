//! Keeping states, and giving up those that are too old.

use std::ops::Bound;
use std::sync::atomic::Ordering;

use super::states::{PastOf, Point, Record, damaged, kept_key, pages_of};
use crate::Result;
use crate::db::Core;
use crate::forest::{Branch, BranchId, Forest, ForestMut, Part, Stem};
use crate::log::Position;
use crate::log::record::split_time;
use crate::page::{PageId, TxnId};
use crate::root::Root;
use crate::workspace::Workspace;

/// The size of the values that keep records, in bytes. With its header such a value fills about
/// sixteen pages of 4 KiB.
const CHUNK_BYTES: usize = 60 << 10;
/// One transaction drops at most this many points.
const DROPPED_AT_ONCE: usize = 256;

/// A state that is being kept.
struct Keeping {
    state: Root,
    /// The point before.
    newest: Option<Point>,
    /// Branches that were not looked at yet.
    branches: std::vec::IntoIter<BranchId>,
    /// A branch has changed since the point before.
    changed: bool,
    /// Older points were given up.
    aged: bool,
}

impl ForestMut<'_> {
    /// Keeps a fork as what a branch is at a transaction.
    pub(crate) fn keep(&mut self, branch: BranchId, txn: TxnId, fork: TxnId) -> Result<()> {
        let (pager, bounds) = self.reading();
        let before = PastOf::new(pager, bounds, self.forest())?.kept_of(branch, txn)?.filter(|before| before.0 == txn);
        self.change(Part::Kept, &kept_key(branch, txn), Some(&fork.0.to_le_bytes()))?;
        self.move_above(Stem::Kept(branch, txn), before.map_or(TxnId(0), |(_, before)| before), fork)
    }

    fn forget(&mut self, (branch, txn, fork): (BranchId, TxnId, TxnId)) -> Result<()> {
        self.change(Part::Kept, &kept_key(branch, txn), None)?;
        self.move_above(Stem::Kept(branch, txn), fork, TxnId(0))
    }

    /// Forgets all that is kept of a branch.
    pub(crate) fn forget_branch(&mut self, branch: BranchId) -> Result<()> {
        let (pager, bounds) = self.reading();
        let kept = PastOf::new(pager, bounds, self.forest())?.all_kept_of(branch)?;
        kept.into_iter().try_for_each(|entry| self.forget(entry))
    }

    fn put_point(&mut self, point: &Point) -> Result<()> {
        self.change(Part::Points, &point.txn.0.to_be_bytes(), Some(&point.encode()))
    }

    /// Forgets the first `count` of these points, and what only they need.
    fn forget_points(&mut self, points: &[Point], count: usize) -> Result<()> {
        let (pager, bounds) = self.reading();
        let kept = PastOf::new(pager, bounds, self.forest())?.kept()?;
        let oldest = points.get(count);
        for point in &points[..count] {
            self.change(Part::Points, &point.txn.0.to_be_bytes(), None)?;
        }
        for (index, &entry) in kept.iter().enumerate() {
            // What the branch was at the oldest point is the newest entry up to it.
            let is_needed = oldest.is_some_and(|oldest| {
                entry.1 > oldest.txn || kept.get(index + 1).is_none_or(|next| next.0 != entry.0 || next.1 > oldest.txn)
            });
            if !is_needed {
                self.forget(entry)?;
            }
        }
        let up_to = oldest.map_or(u64::MAX, |oldest| oldest.txn.0).to_be_bytes();
        self.delete_range(Part::History, Bound::Unbounded, Bound::Included(&up_to))
    }
}

impl Core {
    /// Notes that the transaction of `work`, which changes no table and has no record, follows the
    /// state that was kept last.
    pub(crate) fn note_unchanged(&self, work: &mut Workspace, forest: &mut Forest, before: &Root) -> Result<()> {
        let newest = PastOf::new(&self.pager, work.bounds(), forest)?.newest_point()?;
        match newest.filter(|point| point.last == before.txn) {
            Some(point) => {
                let last = work.txn();
                forest.edit(&self.pager, work).put_point(&Point { last, ..point })
            }
            None => Ok(()),
        }
    }

    /// Keeps the newest state, unless it is kept. The caller holds the writer's lock, and no
    /// transaction is active. `always`: also without a retention.
    pub(crate) fn keep_point(&self, work: &mut Workspace, always: bool) -> Result<()> {
        if !self.past.is_on() && !always {
            return Ok(());
        }
        let root = self.shared.root();
        let mut forest = Forest::of(&self.pager, work.bounds_between(&self.shared), root.forest)?;
        let newest = PastOf::new(&self.pager, work.bounds_between(&self.shared), &forest)?.newest_point()?;
        if newest.is_some_and(|point| point.last == root.txn) {
            return Ok(());
        }
        let mut branches = vec![BranchId::MAIN];
        if root.forest != PageId::NONE {
            let named = forest.names(&self.pager, work.bounds_between(&self.shared))?;
            branches.extend(named.into_iter().map(|(_, id)| id));
        }
        let mut keeping = Keeping { state: root, newest, branches: branches.into_iter(), changed: false, aged: false };
        // One of them may have to be a steady point, which keeps no state in the middle of this.
        work.is_keeping = true;
        let kept = loop {
            match self.keep_one(work, &mut forest, &mut keeping) {
                Ok(false) => {}
                done => break done,
            }
        };
        work.is_keeping = false;
        kept?;
        let root = self.shared.root();
        *self.past.read_to.lock() = Some((root.log, root.txn));
        if let (true, Some(reaper)) = (keeping.aged, self.past.reaper.get()) {
            reaper.ask();
        }
        Ok(())
    }

    /// Runs one of the transactions that keep a state. Each makes one fork at most, which has its
    /// number; the last one makes the point. Whether it was that.
    fn keep_one(&self, work: &mut Workspace, forest: &mut Forest, keeping: &mut Keeping) -> Result<bool> {
        self.reclaim(work);
        work.begin(self.shared.root().txn.next(), self.shared.steady());
        self.begin_record(work);
        let done = self.keep_branches(work, forest, keeping).and_then(|is_done| {
            if is_done {
                self.keep_state(work, forest, keeping)?;
            }
            let pages = if is_done { std::mem::take(&mut work.left_pages) } else { 0 };
            self.publish(work, keeping.state.catalog, forest.page(), None).inspect_err(|_| work.left_pages += pages)?;
            Ok(is_done)
        });
        while work.levels() > 0 {
            work.abort_level(&self.pager);
        }
        done
    }

    /// Keeps branches up to the first that needs a new fork. Whether none is left.
    fn keep_branches(&self, work: &mut Workspace, forest: &mut Forest, keeping: &mut Keeping) -> Result<bool> {
        let (pager, state) = (&self.pager, &keeping.state);
        for id in keeping.branches.by_ref() {
            let bounds = work.bounds();
            let entry = match id {
                BranchId::MAIN => {
                    let fork = forest.fork_of_main(pager, bounds)?;
                    Branch { catalog: state.catalog, fork, ..Branch::default() }
                }
                _ => forest.branch(pager, bounds, id)?.ok_or(damaged("a name is of no branch"))?,
            };
            let (fork, _) = forest.fork_of(pager, work, id, entry)?;
            let kept = PastOf::new(pager, work.bounds(), forest)?.kept_of(id, TxnId(u64::MAX))?;
            if kept.is_none_or(|(_, kept)| kept != fork) {
                forest.edit(pager, work).keep(id, state.txn, fork)?;
                keeping.changed = true;
            }
            if fork == work.txn() {
                return Ok(keeping.branches.len() == 0);
            }
        }
        Ok(true)
    }

    /// Makes a point of a state whose branches are kept.
    fn keep_state(&self, work: &mut Workspace, forest: &mut Forest, keeping: &mut Keeping) -> Result<()> {
        let newest = keeping.newest;
        let now = newest.map_or(i64::MIN, |point| point.time).max(self.past.now());
        self.past.last_time.fetch_max(now, Ordering::AcqRel);
        if let Some(newest) = newest {
            self.keep_records(work, forest, &keeping.state, (newest, now))?;
        }
        let point = Point { txn: keeping.state.txn, last: work.txn(), time: now, pages: work.left_pages };
        forest.edit(&self.pager, work).put_point(&point)?;
        if keeping.changed {
            keeping.aged = self.give_up_old_points(work, forest, now)?;
        }
        Ok(())
    }

    /// Copies the log's records behind a point to the history.
    /// What has no time counts as committed now.
    fn keep_records(
        &self,
        work: &mut Workspace,
        forest: &mut Forest,
        root: &Root,
        (newest, now): (Point, i64),
    ) -> Result<()> {
        let (mut chunk, mut last, mut time) = (Vec::new(), newest.last, newest.time);
        let mut visit = |txn: TxnId, _: Position, operations: &[u8]| {
            if txn <= last {
                return Ok(());
            }
            let (stamp, operations) = split_time(operations);
            time = stamp.unwrap_or(now).max(time);
            if !chunk.is_empty() && chunk.len() + Record::HEADER_BYTES + operations.len() > CHUNK_BYTES {
                forest.edit(&self.pager, work).change(Part::History, &last.0.to_be_bytes(), Some(&chunk))?;
                chunk.clear();
            }
            Record { txn, time, operations }.push(&mut chunk);
            last = txn;
            Ok(())
        };
        let steady = || {
            let last = self.last_meta.lock();
            (last.0.log, last.0.txn)
        };
        let read_to = *self.past.read_to.lock();
        let (log, txn) = read_to.unwrap_or_else(steady);
        let (_, end) = self.log.read(log, txn, &mut visit)?;
        if end < root.txn {
            // A transaction that was a steady point has no record, or another process has made
            // steady points since.
            let (log, txn) = steady();
            if txn > end {
                self.log.read(log, txn, &mut visit)?;
            }
        }
        if !chunk.is_empty() {
            forest.edit(&self.pager, work).change(Part::History, &last.0.to_be_bytes(), Some(&chunk))?;
        }
        Ok(())
    }

    /// Gives up the points that are too old or too many. The newest stays, and so does the one that
    /// the oldest time within the retention needs.
    fn give_up_old_points(&self, work: &mut Workspace, forest: &mut Forest, now: i64) -> Result<bool> {
        let Some(retention) = *self.past.retention.lock() else { return Ok(false) };
        let past = PastOf::new(&self.pager, work.bounds(), forest)?;
        let points = past.points()?;
        let age = i64::try_from(retention.age.as_micros()).unwrap_or(i64::MAX);
        let old = now.saturating_sub(age);
        let aged = points.partition_point(|point| point.time <= old).saturating_sub(1);
        let page_bytes = self.pager.page_size() as u64;
        let history = pages_of(&past.history);
        let first = points.first().map_or(0, |point| point.txn.0);
        let span = points.last().map_or(0, |point| point.txn.0 - first).max(1);
        let mut count = aged;
        if let Some(bytes_max) = retention.bytes_max {
            let held = |from: usize| {
                let pages: u64 = points[from..].iter().skip(1).map(|point| point.pages).sum();
                // Records are taken for evenly long.
                let left = points.last().map_or(0, |point| point.txn.0 - points[from].txn.0);
                pages + (u128::from(history) * u128::from(left) / u128::from(span)) as u64
            };
            while count + 1 < points.len() && held(count).saturating_mul(page_bytes) > bytes_max {
                count += 1;
            }
        }
        let count = count.min(DROPPED_AT_ONCE);
        self.past.cut_short.fetch_add(count.saturating_sub(aged) as u64, Ordering::Relaxed);
        if count > 0 {
            forest.edit(&self.pager, work).forget_points(&points, count)?;
        }
        Ok(count > 0)
    }

    /// Gives up all that is kept.
    pub(super) fn forget_past(&self, work: &mut Workspace) -> Result<()> {
        let root = self.shared.root();
        let mut forest = Forest::of(&self.pager, work.bounds_between(&self.shared), root.forest)?;
        let points = PastOf::new(&self.pager, work.bounds_between(&self.shared), &forest)?.points()?;
        if points.is_empty() {
            return Ok(());
        }
        self.reclaim(work);
        work.begin(root.txn.next(), self.shared.steady());
        self.begin_record(work);
        let done = forest.edit(&self.pager, work).forget_points(&points, points.len());
        let done = done.and_then(|()| self.publish(work, root.catalog, forest.page(), None));
        while work.levels() > 0 {
            work.abort_level(&self.pager);
        }
        *self.past.read_to.lock() = None;
        done.map(|_| ())
    }
}

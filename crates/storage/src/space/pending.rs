//! Pages that a committed transaction no longer needs and that an older state may still reach.
//!
//! A page that was written by transaction `b` (its *birth*) and freed by transaction `f` belongs to
//! the states from `b` to just before `f`. It has to stay as it is while one of these states is
//! *pinned*:
//!
//! | pinned | until |
//! | --- | --- |
//! | the state of a snapshot | the snapshot is dropped |
//! | the last steady point, and the one being made | a newer steady point is on disk |
//! | the visible state, and every newer one (commits may become visible late) | a newer state is visible |
//!
//! When no pinned `p` with `b <= p < f` is left, the page may be used again, however old other
//! snapshots are: pages are reclaimed between readers, not only behind the oldest.
//!
//! Pages are kept in groups, one for each committed transaction that freed some. A group remembers
//! its *blocker*, the newest pinned state below it, and is looked at again only when that has
//! changed.
//!
//! Invariants:
//! 1. Groups are sorted by transaction, and none is empty.
//! 2. After [`Pending::reclaim`], neighbouring groups have different blockers. So there are never
//!    more groups than pinned states.
//! 3. `pages` counts the pages of all groups.

use std::collections::VecDeque;

use super::Freed;
use crate::page::TxnId;

/// So many empty lists of runs are kept for reuse.
const SPARE_LISTS: usize = 8;
/// So few pending pages are no reason to look for those who pin them.
const PAGES_FEW: u64 = 64;

/// What one committed transaction freed, or several that have the same blocker.
struct Group {
    txn: TxnId,
    /// The newest pinned state below `txn` when this was last looked at.
    blocker: Option<TxnId>,
    /// Some of the pages may have no disk space behind them.
    unbacked: bool,
    runs: Vec<Freed>,
}

/// Freed pages that wait until nobody sees them.
#[derive(Default)]
pub(super) struct Pending {
    groups: VecDeque<Group>,
    pages: u64,
    /// `pages` when [`Pending::has_grown`] last said so.
    pages_noted: u64,
    /// Empty lists, for the next groups.
    spare: Vec<Vec<Freed>>,
}

impl Pending {
    /// How many pages wait, for whichever reader or steady point.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Adds what a transaction freed as it commits.
    pub(super) fn add(&mut self, txn: TxnId, runs: &[Freed]) {
        if !runs.is_empty() {
            let mut list = self.spare.pop().unwrap_or_default();
            list.extend_from_slice(runs);
            self.add_list(txn, list, false);
        }
    }

    /// Adds a list of runs that transaction `txn`, which is not older than the last one, freed.
    /// `unbacked`: they may have no disk space behind them.
    pub(super) fn add_list(&mut self, txn: TxnId, runs: Vec<Freed>, unbacked: bool) {
        debug_assert!(self.groups.back().is_none_or(|group| group.txn <= txn));
        if !runs.is_empty() {
            self.pages += runs.iter().map(|run| u64::from(run.pages)).sum::<u64>();
            self.groups.push_back(Group { txn, blocker: None, unbacked, runs });
        }
    }

    /// Hands over the runs that nobody sees any more, each with whether it may have no disk space.
    /// `pins` are the pinned states, sorted; `visible` is the oldest state that new snapshots may
    /// see.
    pub(super) fn reclaim(&mut self, pins: &[TxnId], visible: TxnId, mut reclaimed: impl FnMut(Freed, bool)) {
        for group in &mut self.groups {
            let blocker = if group.txn > visible {
                Some(group.txn)
            } else {
                let below = pins.partition_point(|&pin| pin < group.txn);
                below.checked_sub(1).map(|i| pins[i])
            };
            // A new snapshot pins the visible state or a newer one, so a group's blocker only ever
            // gets older.
            if group.blocker.is_some() && group.blocker == blocker {
                continue;
            }
            group.blocker = blocker;
            group.runs.retain(|run| {
                let seen = blocker.is_some_and(|pin| run.birth <= pin);
                if !seen {
                    self.pages -= u64::from(run.pages);
                    reclaimed(*run, group.unbacked);
                }
                seen
            });
        }
        let spare = &mut self.spare;
        self.groups.retain_mut(|group| {
            let waits = !group.runs.is_empty();
            if !waits && spare.len() < SPARE_LISTS {
                spare.push(std::mem::take(&mut group.runs));
            }
            waits
        });
        self.join_groups();
    }

    /// Joins neighbouring groups that have the same blocker. No pin lies between them, and since
    /// new pins are never older than the visible state, none ever will.
    fn join_groups(&mut self) {
        for index in (1..self.groups.len()).rev() {
            if self.groups[index].blocker == self.groups[index - 1].blocker
                && let Some(mut newer) = self.groups.remove(index)
            {
                let older = &mut self.groups[index - 1];
                older.txn = newer.txn;
                older.unbacked |= newer.unbacked;
                older.runs.append(&mut newer.runs);
            }
        }
    }

    /// How many pending pages each of the pinned states in `pins`, which are sorted, sees, and how
    /// many pages any of them sees. Passes over the pending pages once, however many pins there
    /// are.
    pub(super) fn pages_seen_by(&self, pins: &[TxnId]) -> (Vec<u64>, u64) {
        // How many more pages each pin sees than the one before it.
        let mut more = vec![0_u64; pins.len() + 1];
        let mut any = 0;
        for group in &self.groups {
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

    /// Whether more than twice as many pages wait as when this last said so, and not just a few.
    pub(super) fn has_grown(&mut self) -> bool {
        let grown = self.pages > 2 * self.pages_noted + PAGES_FEW;
        if grown || self.pages < self.pages_noted {
            self.pages_noted = self.pages;
        }
        grown
    }
}

//! Counts and costs of statements, for `pg_stat_statements`, and the sessions with transactions,
//! for `pg_locks`.
//!
//! Each session counts in its own copy of a statement's counters, next to the plan: no other
//! session writes there, so counting is a load and a store. A reader adds up the copies; the counts
//! of a dropped copy are kept.
//!
//! Reading the clock twice costs a few hundredths of the fastest statements: of statements that
//! take less than [`SHORT_NS`] on average one run in [`TIMED_EVERY`] is timed, and the total is the
//! mean of those times all runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use colibri_txn::OwnerId;
use compact_str::CompactString;
use parking_lot::Mutex;

/// Statements that are remembered; beyond that, those that no session has a plan for any more are
/// forgotten.
const STATEMENTS_MAX: usize = 5_000;
/// Statements faster than this, in nanoseconds, are timed now and then.
const SHORT_NS: u64 = 50_000;
/// One in this number of runs of a fast statement is timed.
const TIMED_EVERY: u64 = 16;

/// What happened in a database since it was opened.
#[derive(Default)]
pub(crate) struct Activity {
    statements: Mutex<HashMap<(CompactString, String), Arc<Entry>>>,
    sessions: Mutex<Vec<Weak<Presence>>>,
    rolled_back: AtomicU64,
    next_id: AtomicU64,
}

/// A session as others see it.
#[derive(Debug)]
pub(crate) struct Presence {
    pid: i32,
    /// The transaction at work, 0 if there is none.
    owner: AtomicU64,
    /// What it holds advisory locks as, 0 if it never has.
    locker: AtomicU64,
}

impl Presence {
    pub(super) fn works_as(&self, owner: Option<OwnerId>) {
        self.owner.store(owner.map_or(0, |owner| owner.0), Ordering::Relaxed);
    }

    /// The transaction that it said last that it works as.
    pub(super) fn transaction(&self) -> Option<OwnerId> {
        let owner = self.owner.load(Ordering::Relaxed);
        (owner != 0).then_some(OwnerId(owner))
    }

    pub(super) fn locks_as(&self, owner: Option<OwnerId>) {
        self.locker.store(owner.map_or(0, |owner| owner.0), Ordering::Relaxed);
    }
}

/// A statement of a user.
struct Entry {
    id: u64,
    /// Of copies that are gone.
    gone: Counts,
    copies: Mutex<Vec<Weak<Counter>>>,
    /// See [`Counter::is_read_back`].
    is_read_back: AtomicBool,
}

/// Counts, each read and written by itself.
#[derive(Debug, Default)]
struct Counts {
    plans: AtomicU64,
    calls: AtomicU64,
    rows: AtomicU64,
    conflicts: AtomicU64,
    timed: AtomicU64,
    timed_ns: AtomicU64,
    /// Plus one, so that 0 is none.
    min_ns: AtomicU64,
    max_ns: AtomicU64,
}

/// A session's copy of a statement's counters.
pub(crate) struct Counter {
    counts: Counts,
    entry: Arc<Entry>,
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.counts.fmt(f)
    }
}

/// What a statement did and cost so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatementCounts {
    pub(crate) user: CompactString,
    pub(crate) text: String,
    pub(crate) id: i64,
    pub(crate) plans: u64,
    pub(crate) calls: u64,
    pub(crate) rows: u64,
    /// Runs that were rolled back because of other transactions, and begun again.
    pub(crate) conflicts: u64,
    pub(crate) total_ns: u64,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
}

/// Adds to a count that no other thread writes.
fn add(count: &AtomicU64, by: u64) {
    count.store(count.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

impl Counts {
    fn gather(&self, sum: &mut [u64; 8]) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let sums = [&self.plans, &self.calls, &self.rows, &self.conflicts, &self.timed, &self.timed_ns];
        for (sum, count) in sum.iter_mut().zip(sums) {
            *sum += read(count);
        }
        let least = read(&self.min_ns);
        if least > 0 && (sum[6] == 0 || least < sum[6]) {
            sum[6] = least;
        }
        sum[7] = sum[7].max(read(&self.max_ns));
    }

    /// Takes over what another has counted. Several may do so at once.
    fn absorb(&self, other: &Self) {
        let mut counts = [0; 8];
        other.gather(&mut counts);
        let sums = [&self.plans, &self.calls, &self.rows, &self.conflicts, &self.timed, &self.timed_ns];
        for (sum, count) in sums.into_iter().zip(counts) {
            sum.fetch_add(count, Ordering::Relaxed);
        }
        if counts[6] > 0 {
            let lower = |least: u64| (least == 0 || counts[6] < least).then_some(counts[6]);
            _ = self.min_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
        }
        self.max_ns.fetch_max(counts[7], Ordering::Relaxed);
    }
}

impl Counter {
    /// A run begins; whether and when it is timed.
    #[inline]
    pub(super) fn begin(&self) -> Option<Instant> {
        let calls = self.counts.calls.load(Ordering::Relaxed);
        self.counts.calls.store(calls + 1, Ordering::Relaxed);
        let timed = self.counts.timed.load(Ordering::Relaxed);
        let short = timed >= TIMED_EVERY && self.counts.timed_ns.load(Ordering::Relaxed) < SHORT_NS * timed;
        (!short || calls.is_multiple_of(TIMED_EVERY)).then(Instant::now)
    }

    /// A run has ended.
    #[inline]
    pub(super) fn end(&self, begun: Option<Instant>, rows: u64) {
        add(&self.counts.rows, rows);
        if let Some(begun) = begun {
            let ns = begun.elapsed().as_nanos() as u64;
            add(&self.counts.timed, 1);
            add(&self.counts.timed_ns, ns);
            let least = self.counts.min_ns.load(Ordering::Relaxed);
            if least == 0 || ns + 1 < least {
                self.counts.min_ns.store(ns + 1, Ordering::Relaxed);
            }
            if ns > self.counts.max_ns.load(Ordering::Relaxed) {
                self.counts.max_ns.store(ns, Ordering::Relaxed);
            }
        }
    }

    /// Counts a run that was rolled back because of other transactions.
    pub(super) fn conflicted(&self) {
        add(&self.counts.conflicts, 1);
    }

    /// Whether a transaction has read a row after this statement had added to it. Two transactions
    /// that do so with one row share its lock, and each waits for the other to release it: one of
    /// them has to fail. If the row is locked exclusively from the start they run one after the
    /// other. Rows that are not read back (totals, counters) are still added to side by side.
    #[inline]
    pub(super) fn is_read_back(&self) -> bool {
        self.entry.is_read_back.load(Ordering::Relaxed)
    }

    pub(super) fn note_read_back(&self) {
        if !self.is_read_back() {
            self.entry.is_read_back.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn planned(&self) {
        add(&self.counts.plans, 1);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.entry.gone.absorb(&self.counts);
    }
}

impl Activity {
    /// A copy of a statement's counters for one session.
    pub(super) fn counter(&self, user: &CompactString, text: &str) -> Arc<Counter> {
        let mut statements = self.statements.lock();
        let key = (user.clone(), text.to_owned());
        if statements.len() >= STATEMENTS_MAX && !statements.contains_key(&key) {
            statements.retain(|_, entry| entry.is_used());
            if statements.len() >= STATEMENTS_MAX {
                // All are in use: this one is counted, but not listed.
                return Entry::new(0).copy();
            }
        }
        let entry =
            statements.entry(key).or_insert_with(|| Entry::new(self.next_id.fetch_add(1, Ordering::Relaxed) + 1));
        entry.copy()
    }

    /// All statements that are remembered.
    pub(crate) fn statements(&self) -> Vec<StatementCounts> {
        let entries: Vec<_> =
            self.statements.lock().iter().map(|(key, entry)| (key.clone(), Arc::clone(entry))).collect();
        let mut all: Vec<StatementCounts> = entries
            .into_iter()
            .map(|((user, text), entry)| {
                let mut sum = [0; 8];
                entry.gone.gather(&mut sum);
                entry.copies.lock().iter().filter_map(Weak::upgrade).for_each(|copy| copy.counts.gather(&mut sum));
                let [plans, calls, rows, conflicts, timed, timed_ns, min, max_ns] = sum;
                let total_ns =
                    if timed == 0 { 0 } else { (u128::from(timed_ns) * u128::from(calls) / u128::from(timed)) as u64 };
                let (id, min_ns) = (entry.id as i64, min.saturating_sub(1));
                StatementCounts { user, text, id, plans, calls, rows, conflicts, total_ns, min_ns, max_ns }
            })
            .collect();
        all.sort_by_key(|statement| statement.id);
        all
    }

    /// Makes a session known; it is forgotten when what it holds goes away.
    pub(super) fn enter(&self, pid: i32) -> Arc<Presence> {
        let presence = Arc::new(Presence { pid, owner: AtomicU64::new(0), locker: AtomicU64::new(0) });
        let mut sessions = self.sessions.lock();
        // As many are looked at as there are, once they have doubled: a constant for each.
        if sessions.len() == sessions.capacity() {
            sessions.retain(|known| known.strong_count() > 0);
        }
        sessions.push(Arc::downgrade(&presence));
        presence
    }

    /// The session that a transaction belongs to.
    pub(crate) fn session_of(&self, owner: OwnerId) -> Option<i32> {
        let sessions = self.sessions.lock();
        sessions.iter().filter_map(Weak::upgrade).find_map(|presence| {
            let numbers = [&presence.owner, &presence.locker].map(|number| number.load(Ordering::Relaxed));
            (numbers.contains(&owner.0) && owner.0 != 0).then_some(presence.pid)
        })
    }

    pub(super) fn roll_back(&self) {
        self.rolled_back.fetch_add(1, Ordering::Relaxed);
    }

    /// Transactions that were rolled back.
    pub(crate) fn rolled_back(&self) -> u64 {
        self.rolled_back.load(Ordering::Relaxed)
    }
}

impl Entry {
    fn new(id: u64) -> Arc<Self> {
        Arc::new(Self { id, gone: Counts::default(), copies: Mutex::default(), is_read_back: AtomicBool::new(false) })
    }

    fn copy(self: &Arc<Self>) -> Arc<Counter> {
        let copy = Arc::new(Counter { counts: Counts::default(), entry: Arc::clone(self) });
        let mut copies = self.copies.lock();
        copies.retain(|known| known.strong_count() > 0);
        copies.push(Arc::downgrade(&copy));
        copy
    }

    fn is_used(&self) -> bool {
        self.copies.lock().iter().any(|copy| copy.strong_count() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_session_counted_stays_when_it_goes() {
        let activity = Activity::default();
        let user = CompactString::from("u");
        let first = activity.counter(&user, "SELECT $1");
        let second = activity.counter(&user, "SELECT $1");
        for _ in 0..100 {
            let begun = first.begin();
            first.end(begun, 2);
        }
        drop(first);
        second.begin();
        second.conflicted();
        let [counts] = &activity.statements()[..] else { panic!("one statement") };
        assert_eq!((counts.calls, counts.rows, counts.conflicts), (101, 200, 1));
        assert!(counts.min_ns <= counts.max_ns && counts.total_ns >= counts.min_ns);
    }

    #[test]
    fn statements_nobody_has_a_plan_for_make_room_for_new_ones() {
        let activity = Activity::default();
        let user = CompactString::from("u");
        let kept = activity.counter(&user, "kept");
        for number in 0..STATEMENTS_MAX * 2 {
            activity.counter(&user, &format!("SELECT {number}"));
        }
        let statements = activity.statements();
        assert!(statements.len() <= STATEMENTS_MAX);
        assert!(statements.iter().any(|statement| statement.text == "kept"));
        drop(kept);
    }
}

//! The rows that were written lately. Of most other rows this proves that nobody has changed them,
//! without comparing them.
//!
//! Comparing a row in two states means walking down both trees to the first page that they share.
//! These pages were just written by another CPU, so it takes hundreds of nanoseconds, and nearly
//! always the row turns out to be unchanged. So the queue of commits notes what it writes. Rows are
//! grouped by the hash that names their lock. A group is one word: the number of the last
//! transaction of the storage that wrote to one of its rows.
//!
//! ```text
//!                 from            seen          now       to
//! transactions ─────┼───────────────┼────────────┼─────────┼──►
//!  nothing is known │  all that was written is noted        │ not published, or not the queue's
//! ```
//!
//! Invariants:
//! 1. Whatever published transactions after `from` and up to `to` wrote is noted in the groups
//!    before `to` is raised.
//! 2. A group's number never gets smaller. So if it is not above `seen`, no transaction after
//!    `seen` wrote to its rows.
//! 3. Only the leader of the queue changes anything. It has the writer's lock of the storage from
//!    [`RecentWrites::begin`] until the transaction is published. The next leader finds other
//!    commits (of another process, another store, or a user of the database itself) as a gap in the
//!    numbers, and moves `from` up to it.
//!
//! An answer of "unchanged" is certain. Any other answer says nothing: rows that share a group, or
//! states outside `from` and `to`, have to be compared. Ranges are not dealt with here.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use colibri_storage::TxnId;

use crate::locks::LockName;
use crate::sync::AtomicU64;

/// So many that the writes of some tens of transactions fall into few of them; 256 KiB, from the
/// first commit on. Models are to see rows that share a group.
const GROUPS: usize = if cfg!(feature = "shuttle") { 4 } else { 1 << 15 };

/// The most writes of a transaction that are noted. With more of them most groups would say that
/// they were written to, and noting takes time.
pub(crate) const NOTED_MAX: usize = GROUPS / 2;

/// What the queue of commits has written, by groups of rows.
#[derive(Default)]
pub(crate) struct RecentWrites {
    groups: OnceLock<Box<[AtomicU64]>>,
    reach: Reach,
}

/// In a cache line of its own, because each commit writes it.
#[derive(Default)]
#[repr(align(64))]
struct Reach {
    from: AtomicU64,
    to: AtomicU64,
}

impl RecentWrites {
    /// The leader begins a transaction of the storage, which will have this number if it is
    /// published.
    pub(crate) fn begin(&self, txn: TxnId) {
        self.groups.get_or_init(|| (0..GROUPS).map(|_| AtomicU64::new(0)).collect());
        let before = txn.0 - 1;
        if self.reach.to.load(Ordering::Relaxed) != before {
            // In this order, a thread that reads the new `to` does not take earlier transactions
            // for noted.
            self.reach.from.store(before, Ordering::Relaxed);
            self.reach.to.store(before, Ordering::Release);
        }
    }

    /// The transaction is about to write to a row.
    pub(crate) fn note(&self, name: LockName, txn: TxnId) {
        if let Some(group) = self.group(name) {
            // Needs no order by itself: the store to `to` publishes it.
            group.store(txn.0, Ordering::Relaxed);
        }
    }

    /// The transaction is about to do more than write to rows, or to write to very many: nothing is
    /// known of states before it.
    pub(crate) fn forget(&self, txn: TxnId) {
        self.reach.from.store(txn.0, Ordering::Relaxed);
    }

    /// The transaction is published.
    pub(crate) fn published(&self, txn: TxnId) {
        self.reach.to.store(txn.0, Ordering::Release);
    }

    /// Whether a row is known to be the same in two states. What the leader is about to publish
    /// counts as a change.
    pub(crate) fn is_unchanged(&self, name: LockName, seen: TxnId, now: TxnId) -> bool {
        // Pairs with the stores of `begin` and `published`: everything noted before them is seen
        // below.
        let to = self.reach.to.load(Ordering::Acquire);
        now.0 <= to
            && self.group(name).is_some_and(|group| group.load(Ordering::Relaxed) <= seen.0)
            && self.reach.from.load(Ordering::Relaxed) <= seen.0
    }

    fn group(&self, name: LockName) -> Option<&AtomicU64> {
        // Other bits than those that choose the shard of a lock.
        self.groups.get().map(|groups| &groups[(name.0 >> 20) as usize % GROUPS])
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const ROW: LockName = LockName(7 << 20);
    const OTHER: LockName = LockName(8 << 20);

    fn commit(recent: &RecentWrites, txn: u64, names: &[LockName]) {
        recent.begin(TxnId(txn));
        names.iter().for_each(|&name| recent.note(name, TxnId(txn)));
        recent.published(TxnId(txn));
    }

    fn is_unchanged(recent: &RecentWrites, name: LockName, seen: u64, now: u64) -> bool {
        recent.is_unchanged(name, TxnId(seen), TxnId(now))
    }

    #[test]
    fn a_row_is_unchanged_between_the_states_that_nobody_wrote_it_in() {
        let recent = RecentWrites::default();
        commit(&recent, 11, &[OTHER]);
        commit(&recent, 12, &[ROW]);
        commit(&recent, 13, &[OTHER]);
        for (seen, now, row, other) in
            [(10, 11, false, false), (10, 10, false, false), (11, 13, false, false), (12, 13, true, false)]
        {
            assert_eq!(is_unchanged(&recent, ROW, seen, now), row, "{seen} to {now}");
            assert_eq!(is_unchanged(&recent, OTHER, seen, now), other, "{seen} to {now}");
        }
    }

    #[test]
    fn nothing_is_known_before_the_first_commit_nor_of_states_not_published() {
        let recent = RecentWrites::default();
        assert!(!is_unchanged(&recent, ROW, 3, 4));
        assert!(!is_unchanged(&recent, ROW, 0, 1));
        commit(&recent, 5, &[OTHER]);
        assert!(is_unchanged(&recent, ROW, 4, 5));
        assert!(!is_unchanged(&recent, ROW, 3, 5), "who wrote 4 is not known");
        assert!(!is_unchanged(&recent, ROW, 5, 6), "6 is somebody else's, or yet to come");
    }

    #[test]
    fn what_others_have_committed_in_between_is_a_gap() {
        let recent = RecentWrites::default();
        commit(&recent, 5, &[OTHER]);
        // 6 was somebody else's.
        commit(&recent, 7, &[OTHER]);
        assert!(!is_unchanged(&recent, ROW, 5, 7));
        assert!(is_unchanged(&recent, ROW, 6, 7));
    }

    #[test]
    fn what_is_about_to_be_published_counts_and_what_failed_only_costs_a_look() {
        let recent = RecentWrites::default();
        commit(&recent, 5, &[]);
        recent.begin(TxnId(6));
        recent.note(ROW, TxnId(6));
        assert!(!is_unchanged(&recent, ROW, 5, 5), "for the next in the same batch");
        assert!(is_unchanged(&recent, OTHER, 5, 5));
        // It failed, and its number is used again.
        commit(&recent, 6, &[OTHER]);
        assert!(!is_unchanged(&recent, ROW, 5, 6));
        assert!(is_unchanged(&recent, ROW, 6, 6));
    }

    #[test]
    fn a_space_that_is_dropped_ends_what_is_known_at_once() {
        let recent = RecentWrites::default();
        commit(&recent, 5, &[]);
        recent.begin(TxnId(6));
        recent.forget(TxnId(6));
        assert!(!is_unchanged(&recent, ROW, 5, 5), "for the next in the same batch");
        recent.published(TxnId(6));
        assert!(!is_unchanged(&recent, ROW, 5, 6));
        commit(&recent, 7, &[OTHER]);
        assert!(!is_unchanged(&recent, ROW, 5, 7));
        assert!(is_unchanged(&recent, ROW, 6, 7));
    }
}

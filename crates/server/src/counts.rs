//! Counters: each thread counts for itself; a reader adds the counts up.
//!
//! Threads count in places of their own, so that they do not wait for each other's cache lines.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use colibri_runtime::{AtomicHistogram, Histogram};
use colibri_sql::SqlState;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

/// Places to count in. More threads than places share them.
const PARTS: usize = 8;
/// Statements that are remembered as slow.
const SLOW_MAX: usize = 20;

thread_local! {
    static PART: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Relaxed) % PARTS
    };
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count([CachePadded<AtomicU64>; PARTS]);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        PART.with(|&part| self.0[part].fetch_add(n, Relaxed));
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.iter().map(|part| part.load(Relaxed)).sum()
    }
}

/// Everything that a server counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// How long statements took.
    statements: [CachePadded<AtomicHistogram>; PARTS],
    statements_us: Count,
    /// Errors that clients were told of.
    pub(crate) errors: Count,
    /// Of these, those after which a transaction is worth another attempt.
    pub(crate) conflicts: Count,
    /// Transactions of several statements that conflicted and were run again, unseen.
    pub(crate) repeated: Count,
    pub(crate) connections: Count,
    pub(crate) refused: Count,
    pub(crate) logins_failed: Count,
    pub(crate) cancels: Count,
    /// Statements that went on in the batch pool.
    pub(crate) sunk: Count,
    /// Sessions that went on at another node of the cluster.
    pub(crate) moved: Count,
    /// Times that an answer had to wait for its client to read.
    pub(crate) slow_reads: Count,
    bytes_in: Count,
    bytes_out: Count,
    slow: Mutex<Vec<SlowStatement>>,
}

/// A statement that took long.
#[derive(Debug, Clone)]
pub(crate) struct SlowStatement {
    pub(crate) took: Duration,
    pub(crate) database: String,
    pub(crate) text: String,
    pub(crate) at: jiff::Timestamp,
}

impl Counts {
    pub(crate) fn statement(&self, took: Duration) {
        PART.with(|&part| self.statements[part].record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)));
        self.statements_us.add(took.as_micros() as u64);
    }

    pub(crate) fn error(&self, state: SqlState) {
        self.errors.add(1);
        if state == SqlState::SERIALIZATION_FAILURE {
            self.conflicts.add(1);
        }
    }

    pub(crate) fn traffic(&self, bytes_in: u64, bytes_out: u64) {
        self.bytes_in.add(bytes_in);
        self.bytes_out.add(bytes_out);
    }

    /// Bytes of connections that have ended, in and out.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.bytes_in.get(), self.bytes_out.get())
    }

    /// How long statements took, and all together in microseconds.
    pub(crate) fn latency(&self) -> (Histogram, u64) {
        let mut sum = Histogram::default();
        self.statements.iter().for_each(|part| part.add_to(&mut sum));
        (sum, self.statements_us.get())
    }

    /// Remembers a statement among the slowest.
    pub(crate) fn slow(&self, took: Duration, database: &str, text: &str) {
        let mut slow = self.slow.lock();
        let place = slow.partition_point(|known| known.took >= took);
        if place < SLOW_MAX {
            let text = crate::registry::shown(text).to_owned();
            let database = database.to_owned();
            slow.insert(place, SlowStatement { took, database, text, at: jiff::Timestamp::now() });
            slow.truncate(SLOW_MAX);
        }
    }

    /// The slowest first.
    pub(crate) fn slowest(&self) -> Vec<SlowStatement> {
        self.slow.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_statements_are_remembered_in_order() {
        let counts = Counts::default();
        for ms in [5, 1, 9, 3].into_iter().chain(20..60) {
            counts.slow(Duration::from_millis(ms), "db", &format!("took {ms}"));
        }
        let slowest: Vec<_> = counts.slowest().into_iter().map(|statement| statement.took.as_millis()).collect();
        assert_eq!(slowest, (40..60).rev().collect::<Vec<_>>());
    }

    #[test]
    fn counts_of_threads_are_added_up() {
        let counts = Counts::default();
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    counts.sunk.add(2);
                    counts.statement(Duration::from_millis(3));
                });
            }
        });
        let (latency, us) = counts.latency();
        assert_eq!((counts.sunk.get(), latency.count(), us), (20, 10, 30_000));
    }
}

//! Arrivals in open loop: when each transaction is due, independent of how long the ones before it
//! take.
//!
//! In closed loop a writer that waits for a slow commit starts nothing meanwhile, so that one
//! sample stands for all the transactions that would have waited, too (coordinated omission). Here
//! transactions are due at a fixed rate, and latency runs from the moment one was due. A slow
//! commit makes those behind it late, and each of them counts.
//!
//! **Arrivals are evenly spaced**, over all writers together: they take turns. At a part of the
//! largest throughput, an engine whose commits all take the same time then never makes a
//! transaction wait, so that the tail comes from the engine and the disk. Random arrivals would
//! come in bursts: with those, even that engine's p99.9 is about six times its median at half load.
//!
//! **Waiting** is sleeping until shortly before, then spinning. A sleeping thread costs nothing,
//! but wakes late by the kernel's timer slack (made as small as possible here) and by the time
//! until it gets a processor; spinning is exact, but takes a processor from others. Waking later
//! than [`SPIN`] is part of the latency that is reported, never hidden.
//!
//! Not here: more transactions at work than there are writers. Those that are due meanwhile wait
//! for their writer.

use std::time::{Duration, Instant};

/// How long before a transaction is due its writer wakes up, and spins from then on.
const SPIN: Duration = Duration::from_micros(50);

/// When the transactions of one writer are due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    /// Seconds between the transactions of two writers whose turns follow each other.
    spacing: f64,
    writer: u32,
    writers: u32,
}

impl Schedule {
    /// For `writer`, counted from zero, of `writers` that shall do `rate` transactions a second
    /// together.
    pub(crate) fn new(rate: f64, writer: u32, writers: u32) -> Self {
        Self { spacing: 1.0 / rate, writer, writers }
    }

    /// When the transaction numbered `index` is due, after the start.
    fn due(&self, index: u64) -> Duration {
        let turn = index as f64 * f64::from(self.writers) + f64::from(self.writer);
        Duration::try_from_secs_f64(turn * self.spacing).unwrap_or(Duration::MAX)
    }

    /// Returns once the transaction is due, at once if it is overdue, with the moment at which it
    /// was.
    pub(crate) fn wait(&self, start: Instant, index: u64) -> Instant {
        let due = start.checked_add(self.due(index)).unwrap_or(start);
        loop {
            match due.checked_duration_since(Instant::now()) {
                None | Some(Duration::ZERO) => return due,
                Some(left) if left > SPIN => std::thread::sleep(left - SPIN),
                Some(_) => std::hint::spin_loop(),
            }
        }
    }
}

/// Makes this thread wake up as soon as its time has come. By default the kernel takes 50 µs more,
/// in order to wake several threads at once.
pub(crate) fn wake_up_punctually() {
    let _later_then = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_take_turns_at_the_rate_of_all() {
        let due = |writer, index| Schedule::new(1000.0, writer, 4).due(index).as_micros();
        assert_eq!([due(0, 0), due(1, 0), due(3, 0), due(0, 1), due(2, 10)], [0, 1000, 3000, 4000, 42_000]);
    }

    #[test]
    fn nobody_starts_early_and_who_is_late_starts_at_once() {
        let schedule = Schedule::new(200.0, 0, 1);
        let start = Instant::now();
        assert_eq!(schedule.wait(start, 2), start + Duration::from_millis(10));
        assert!(start.elapsed() >= Duration::from_millis(10));
        let begun = Instant::now();
        assert_eq!(schedule.wait(start, 1), start + Duration::from_millis(5));
        assert!(begun.elapsed() < Duration::from_millis(5));
    }
}

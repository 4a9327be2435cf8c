//! Arrivals in open loop: when each transaction is due, independent of how long the ones before it
//! take.
//!
//! Clients take turns: a free client takes the next arrival, waits until it is due, and runs it. So
//! one queue forms in front of all clients, as in front of a server, and not behind a client that
//! happens to be slow.
//!
//! Invariants
//! - Arrivals come in order, and none is left out. If no client was free for one, it is late, and
//!   its latency says so.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::measure::random::Random;

/// How arrivals are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Arrivals {
    /// At random, each independent of the others, as those of many users are (a Poisson process).
    Random,
    /// At equal distances.
    Even,
}

impl Arrivals {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Even => "even",
        }
    }
}

/// The arrivals of all clients of a process.
#[derive(Debug)]
pub(crate) struct Schedule {
    spacing: f64,
    arrivals: Arrivals,
    start: Instant,
    /// The measured time, in seconds after the start.
    measured: (f64, f64),
    next: Mutex<Next>,
}

#[derive(Debug)]
struct Next {
    /// Seconds after the start.
    due: f64,
    /// Arrivals that were taken and are due in the measured time.
    measured: u64,
    random: Random,
}

impl Schedule {
    /// `rate` arrivals a second from `start` on. The measured time begins and ends at the given
    /// times after it.
    pub(crate) fn new(
        rate: f64,
        arrivals: Arrivals,
        start: Instant,
        (from, until): (Duration, Duration),
        seed: u64,
    ) -> Self {
        let next = Next { due: 0.0, measured: 0, random: Random::new(seed, 0x00A1) };
        let measured = (from.as_secs_f64(), until.as_secs_f64());
        Self { spacing: 1.0 / rate, arrivals, start, measured, next: Mutex::new(next) }
    }

    /// Takes the next arrival.
    pub(crate) fn take(&self) -> Instant {
        let mut next = self.next.lock();
        next.due += match self.arrivals {
            Arrivals::Random => next.random.exponential(self.spacing),
            Arrivals::Even => self.spacing,
        };
        next.measured += u64::from((self.measured.0..self.measured.1).contains(&next.due));
        self.start + Duration::try_from_secs_f64(next.due).unwrap_or(Duration::from_secs(u32::MAX.into()))
    }

    /// About how many arrivals before `now` no client has taken, and how long ago the first of them
    /// was due.
    pub(crate) fn outstanding(&self, now: Instant) -> (u64, Duration) {
        let oldest = (self.seconds(now) - self.next.lock().due).max(0.0);
        ((oldest / self.spacing) as u64, Duration::from_secs_f64(oldest))
    }

    /// The number of arrivals that were due in the measured time, or in the part of it before
    /// `now`. It is estimated for arrivals that no client has taken.
    pub(crate) fn due_in_measured_time(&self, now: Instant) -> u64 {
        let next = self.next.lock();
        let untaken = self.seconds(now).min(self.measured.1) - next.due.max(self.measured.0);
        next.measured + (untaken / self.spacing).max(0.0) as u64
    }

    fn seconds(&self, now: Instant) -> f64 {
        now.saturating_duration_since(self.start).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(900));

    #[test]
    fn arrivals_keep_the_rate_whatever_their_spread() {
        for arrivals in [Arrivals::Random, Arrivals::Even] {
            let start = Instant::now();
            let schedule = Schedule::new(1_000.0, arrivals, start, MEASURED, 42);
            let dues: Vec<f64> = (0..100_000).map(|_| (schedule.take() - start).as_secs_f64()).collect();
            assert!(dues.windows(2).all(|pair| pair[0] <= pair[1]));
            // Of 100,000 random arrivals the time is 100 s ± 0.32 s.
            assert!((dues[99_999] - 100.0).abs() < 1.3, "{arrivals:?}: {}", dues[99_999]);
            let gaps: Vec<f64> = dues.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
            let wanted = if arrivals == Arrivals::Random { 1.0 } else { 0.0 };
            assert!((deviation / mean - wanted).abs() < 0.02, "{arrivals:?}: {}", deviation / mean);
        }
    }

    #[test]
    fn what_nobody_took_is_outstanding() {
        let start = Instant::now();
        let schedule = Schedule::new(128.0, Arrivals::Even, start, (start - start, Duration::from_secs(1)), 42);
        (0..32).for_each(|_| assert!(schedule.take() > start));
        let quarters = |count: u64| Duration::from_millis(250 * count);
        assert_eq!(schedule.outstanding(start + quarters(4)), (96, quarters(3)));
        assert_eq!(schedule.outstanding(start), (0, Duration::ZERO));
    }

    #[test]
    fn what_was_due_in_the_measured_time_is_counted_whoever_took_it() {
        for arrivals in [Arrivals::Random, Arrivals::Even] {
            let start = Instant::now();
            let all = Schedule::new(1_000.0, arrivals, start, MEASURED, 42);
            let dues: Vec<Duration> = (0..2_000).map(|_| all.take() - start).collect();
            let wanted = dues.iter().filter(|&&due| due >= MEASURED.0 && due < MEASURED.1).count() as u64;
            let end = start + Duration::from_secs(1);
            assert_eq!(all.due_in_measured_time(end), wanted, "{arrivals:?}");
            let none = Schedule::new(1_000.0, arrivals, start, MEASURED, 42);
            assert!((699..=700).contains(&none.due_in_measured_time(end)), "what nobody took is known by the rate");
            assert!((299..=300).contains(&none.due_in_measured_time(start + Duration::from_millis(500))));
        }
    }
}

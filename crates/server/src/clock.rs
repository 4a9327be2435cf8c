//! One clock for durations and for times of the day: a reading of the monotonic one is both.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// From the Unix epoch to 2000-01-01 00:00 UTC, from which PostgreSQL counts.
const UNIX_EPOCH_TO_2000_US: i64 = 946_684_800_000_000;

/// Maps the monotonic clock to the wall clock, by both at the time when it was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    instant: Instant,
    us: i64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { instant: Instant::now(), us: unix.as_micros() as i64 - UNIX_EPOCH_TO_2000_US }
    }

    /// An instant, in microseconds since 2000-01-01 00:00 UTC.
    pub(crate) fn us_of(self, instant: Instant) -> i64 {
        self.us + instant.saturating_duration_since(self.instant).as_micros() as i64
    }

    pub(crate) fn now_us(self) -> i64 {
        self.us_of(Instant::now())
    }
}

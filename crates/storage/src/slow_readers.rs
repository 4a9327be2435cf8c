//! The policy for snapshots that hold back much space: what users choose. `reclaim` carries it out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::lock_file::ReaderInfo;

/// When a snapshot that holds back pages is slow: by the bytes that all of them hold back together,
/// by how many transactions it is behind, by its age, or by whichever limit is reached first.
/// Without limits no snapshot is slow. A snapshot that holds back nothing is never slow.
///
/// ```
/// # use colibri_storage::{ReaderLimits, SlowReaders};
/// # use std::time::Duration;
/// let limits = ReaderLimits::new().bytes(1 << 30).age(Duration::from_secs(600));
/// let policy = SlowReaders::Evict { limits };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderLimits {
    pub(crate) bytes_max: u64,
    lag_max: u64,
    age_max: Duration,
}

impl Default for ReaderLimits {
    fn default() -> Self {
        Self { bytes_max: u64::MAX, lag_max: u64::MAX, age_max: Duration::MAX }
    }
}

impl ReaderLimits {
    /// No limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of pages that all snapshots together may hold back.
    #[must_use]
    pub fn bytes(mut self, bytes_max: u64) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// How many transactions a snapshot may be behind the newest.
    #[must_use]
    pub fn lag(mut self, transactions_max: u64) -> Self {
        self.lag_max = transactions_max;
        self
    }

    /// How old a snapshot may be. Setting the system's clock makes none older, and the time that
    /// the system sleeps does not count.
    #[must_use]
    pub fn age(mut self, age_max: Duration) -> Self {
        self.age_max = age_max;
        self
    }

    /// Whether only bytes are limited, so that no snapshot has to be looked at by itself.
    pub(crate) fn are_by_bytes(&self) -> bool {
        self.lag_max == u64::MAX && self.age_max == Duration::MAX
    }

    pub(crate) fn passed_by(&self, reader: &ReaderInfo) -> bool {
        reader.lag > self.lag_max || reader.age > self.age_max
    }
}

/// What a writer does when snapshots hold back pages beyond limits. A snapshot that is in use is
/// never taken away: only parked ones ([`crate::Snapshot::park`]) can be evicted.
#[derive(Clone, Default)]
pub enum SlowReaders {
    /// Lets the file grow.
    #[default]
    Grow,
    /// Waits until no snapshot is slow, before the transaction begins;
    /// [`crate::Database::try_write`] is refused with [`crate::Error::Busy`] instead. A thread that
    /// writes while it holds a snapshot may wait for itself.
    Wait {
        /// When a snapshot is slow.
        limits: ReaderLimits,
    },
    /// Evicts the parked snapshot that is furthest behind, then the next, until none is slow. When
    /// no parked one is left, lets the file grow.
    Evict {
        /// When a snapshot is slow.
        limits: ReaderLimits,
    },
    /// Asks what to do about the slow snapshot that is furthest behind, parked ones first. The
    /// function must neither write to the database nor check it: the transaction that is about to
    /// begin has the writer's lock.
    Ask {
        /// When a snapshot is slow.
        limits: ReaderLimits,
        /// The answer.
        ask: AskSlowReader,
    },
}

/// Decides about a slow reader.
pub type AskSlowReader = Arc<dyn Fn(&ReaderInfo) -> SlowReaderAnswer + Send + Sync>;

/// What to do about a slow reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowReaderAnswer {
    /// Let the file grow.
    Grow,
    /// Look again a little later.
    Wait,
    /// Evict it if it is parked; else let the file grow.
    Evict,
    /// Fail the transaction with [`crate::Error::SlowReader`] before it begins.
    Fail,
}

impl fmt::Debug for SlowReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grow => f.write_str("Grow"),
            Self::Wait { limits } => write!(f, "Wait {{ limits: {limits:?} }}"),
            Self::Evict { limits } => write!(f, "Evict {{ limits: {limits:?} }}"),
            Self::Ask { limits, .. } => write!(f, "Ask {{ limits: {limits:?} }}"),
        }
    }
}

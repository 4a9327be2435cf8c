//! What a writer does about snapshots that hold back much space.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::db::Core;
use crate::lock_file::ReaderInfo;
use crate::page::TxnId;
use crate::workspace::Workspace;
use crate::{Error, Result};

/// How long a writer that waits for readers sleeps between two looks.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// When a snapshot that holds back pages is slow: by what all of them hold back together, by how far it is behind, by
/// its age, or by whichever of these comes first. Without any, none is. A snapshot that holds back nothing never is.
///
/// ```
/// # use colibri_storage::{ReaderLimits, SlowReaders};
/// # use std::time::Duration;
/// let limits = ReaderLimits::new().bytes(1 << 30).age(Duration::from_secs(600));
/// let policy = SlowReaders::Evict { limits };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderLimits {
    bytes_max: u64,
    lag_max: u64,
    age_max: Duration,
}

impl Default for ReaderLimits {
    fn default() -> Self {
        Self { bytes_max: u64::MAX, lag_max: u64::MAX, age_max: Duration::MAX }
    }
}

impl ReaderLimits {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of pages that may be held back, by all together.
    #[must_use]
    pub fn bytes(mut self, bytes_max: u64) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Transactions that a snapshot may be behind the newest.
    #[must_use]
    pub fn lag(mut self, transactions_max: u64) -> Self {
        self.lag_max = transactions_max;
        self
    }

    /// How long ago a snapshot may have been taken. Setting the system's clock makes none older, nor does the time that
    /// the system sleeps.
    #[must_use]
    pub fn age(mut self, age_max: Duration) -> Self {
        self.age_max = age_max;
        self
    }

    /// Whether it takes no look at each snapshot to find that none is slow.
    fn are_by_bytes(&self) -> bool {
        self.lag_max == u64::MAX && self.age_max == Duration::MAX
    }

    fn passed_by(&self, reader: &ReaderInfo) -> bool {
        reader.lag > self.lag_max || reader.age > self.age_max
    }
}

/// What a writer does when snapshots hold back pages beyond limits. Snapshots are never taken away from who looks at
/// them: only parked ones ([`crate::Snapshot::park`]) can be evicted.
#[derive(Clone, Default)]
pub enum SlowReaders {
    /// Lets the file grow.
    #[default]
    Grow,
    /// Waits, before its transaction begins, until no snapshot is slow; [`crate::Database::try_write`] is refused with
    /// [`Error::Busy`] instead. A thread that writes while it holds a snapshot of its own may wait for itself.
    Wait {
        /// When a snapshot is slow.
        limits: ReaderLimits,
    },
    /// Evicts the parked snapshot that is furthest behind, and the next, until none is slow; when no parked one is left,
    /// lets the file grow.
    Evict {
        /// When a snapshot is slow.
        limits: ReaderLimits,
    },
    /// Asks what to do about the slow snapshot that is furthest behind, parked ones first. Whoever is asked must not write
    /// to the database or check it: the transaction that is about to begin has the writer's lock.
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
    /// Fail the transaction with [`Error::SlowReader`] before it begins.
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

/// When a transaction may begin.
pub(crate) enum Begin {
    Now,
    /// After another look at the readers.
    Later,
}

impl Core {
    /// Brings free space up to date before a transaction begins, and does what the policy says about those who hold
    /// back much of it.
    pub(crate) fn reclaim_for_writing(&self, work: &mut Workspace) -> Result<Begin> {
        if self.reclaim(work) && work.space.meta_pages_changed() {
            self.cut_off(work);
        }
        if work.space.trim_is_due() {
            work.space.trim(&self.pager, self.shared.root().txn.next(), false);
            self.shared.set_cut_pending(work.space.is_cut_pending());
        }
        let (limits, ask): (&ReaderLimits, &dyn Fn(&ReaderInfo) -> SlowReaderAnswer) = match &self.slow_readers {
            SlowReaders::Grow => return Ok(Begin::Now),
            SlowReaders::Wait { limits } => (limits, &|_| SlowReaderAnswer::Wait),
            SlowReaders::Evict { limits } => (limits, &|_| SlowReaderAnswer::Evict),
            SlowReaders::Ask { limits, ask } => (limits, &**ask),
        };
        let page_size = self.pager.page_size() as u64;
        let mut only_living = false;
        loop {
            // What waits for the steady point alone is not the readers' doing, so this may look without need.
            let waiting = work.space.pending_pages();
            let much = waiting * page_size > limits.bytes_max;
            if waiting == 0 || !much && limits.are_by_bytes() {
                return Ok(Begin::Now);
            }
            let mut readers = self.shared.reader_infos();
            if !much && !readers.iter().any(|reader| limits.passed_by(reader)) {
                return Ok(Begin::Now);
            }
            let bytes_held = self.note_bytes_held(work, &mut readers);
            readers.retain(|reader| {
                reader.bytes_held > Some(0) && (bytes_held > limits.bytes_max || limits.passed_by(reader))
            });
            // A parked one can be helped, so it comes first.
            let Some(slowest) = readers.iter().max_by_key(|reader| (reader.parked, reader.lag)) else {
                return Ok(Begin::Now);
            };
            if !only_living {
                only_living = true;
                if self.shared.release_dead_readers() {
                    self.reclaim(work);
                    continue;
                }
            }
            match ask(slowest) {
                SlowReaderAnswer::Wait => return Ok(Begin::Later),
                SlowReaderAnswer::Evict if slowest.parked => _ = self.shared.evict(slowest),
                SlowReaderAnswer::Grow | SlowReaderAnswer::Evict => return Ok(Begin::Now),
                SlowReaderAnswer::Fail => {
                    return Err(Error::SlowReader {
                        process: slowest.process,
                        thread: slowest.thread,
                        bytes_held: slowest.bytes_held.unwrap_or_default(),
                    });
                }
            }
            self.reclaim(work);
        }
    }

    /// Live snapshots, with what they hold back, as the last writer knows it.
    pub(crate) fn readers_with(&self, work: &Workspace) -> Vec<ReaderInfo> {
        let mut readers = self.shared.reader_infos();
        self.note_bytes_held(work, &mut readers);
        readers
    }

    /// Notes what each of the snapshots holds back; gives what all of them do.
    fn note_bytes_held(&self, work: &Workspace, readers: &mut [ReaderInfo]) -> u64 {
        let page_size = self.pager.page_size() as u64;
        readers.sort_unstable_by_key(|reader| reader.txn);
        let pins: Vec<TxnId> = readers.iter().map(|reader| reader.txn).collect();
        let (pages, any) = work.space.pages_seen_by(&pins);
        for (reader, pages) in readers.iter_mut().zip(pages) {
            reader.bytes_held = Some(pages * page_size);
        }
        any * page_size
    }
}

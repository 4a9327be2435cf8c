//! What a writer does about snapshots that hold back much space.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::db::Core;
use crate::page::TxnId;
use crate::shared::ReaderInfo;
use crate::workspace::Workspace;
use crate::{Error, Result};

/// How long a writer that waits for readers sleeps between two looks.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What a writer does when snapshots hold back more than a limit. Snapshots are never taken away from who looks at
/// them: only parked ones ([`crate::Snapshot::park`]) can be evicted.
#[derive(Clone, Default)]
pub enum SlowReaders {
    /// Lets the file grow.
    #[default]
    Grow,
    /// Waits, before its transaction begins, until they hold back less; [`crate::Database::try_write`] is refused with
    /// [`Error::Busy`] instead. A thread that writes while it holds a snapshot of its own may wait for itself.
    Wait {
        /// Bytes that may be held back, by all together.
        bytes: u64,
    },
    /// Evicts the parked snapshot that is furthest behind, and the next, until they hold back less; when none is left, lets
    /// the file grow.
    Evict {
        /// Bytes that may be held back, by all together.
        bytes: u64,
    },
    /// Asks what to do about the snapshot that is furthest behind, parked ones first. Whoever is asked must not write to
    /// the database or check it: the transaction that is about to begin has the writer's lock.
    Ask {
        /// Bytes that may be held back, by all together.
        bytes: u64,
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
            Self::Wait { bytes } => write!(f, "Wait {{ bytes: {bytes} }}"),
            Self::Evict { bytes } => write!(f, "Evict {{ bytes: {bytes} }}"),
            Self::Ask { bytes, .. } => write!(f, "Ask {{ bytes: {bytes} }}"),
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
        self.reclaim(work);
        let (limit, ask): (u64, &dyn Fn(&ReaderInfo) -> SlowReaderAnswer) = match &self.slow_readers {
            SlowReaders::Grow => return Ok(Begin::Now),
            SlowReaders::Wait { bytes } => (*bytes, &|_| SlowReaderAnswer::Wait),
            SlowReaders::Evict { bytes } => (*bytes, &|_| SlowReaderAnswer::Evict),
            SlowReaders::Ask { bytes, ask } => (*bytes, &**ask),
        };
        let page_size = self.pager.page_size() as u64;
        let mut only_living = false;
        loop {
            // What waits for the steady point alone is not the readers' doing, so this may look without need.
            if work.space.pending_pages() * page_size <= limit {
                return Ok(Begin::Now);
            }
            let readers = self.readers_with(work);
            let mut pins: Vec<TxnId> = readers.iter().map(|reader| reader.txn).collect();
            pins.sort_unstable();
            if work.space.pages_seen_by_any(&pins) * page_size <= limit {
                return Ok(Begin::Now);
            }
            if !only_living {
                only_living = true;
                if self.shared.release_dead_readers() {
                    self.reclaim(work);
                    continue;
                }
            }
            // A parked one can be helped, so it comes first.
            let slow = readers.iter().filter(|reader| reader.bytes_held > Some(0));
            let Some(slowest) = slow.max_by_key(|reader| (reader.parked, reader.lag)) else { return Ok(Begin::Now) };
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
        for reader in &mut readers {
            reader.bytes_held = Some(work.space.pages_seen_by(reader.txn) * self.pager.page_size() as u64);
        }
        readers
    }
}

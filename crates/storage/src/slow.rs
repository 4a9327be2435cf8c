//! What a writer does about snapshots that hold back much space.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::db::Core;
use crate::shared::ReaderInfo;
use crate::workspace::Workspace;
use crate::{Error, Result};

/// How long a writer that waits for readers sleeps between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What a writer does when snapshots hold back more than a limit. Snapshots are never taken away from who looks at
/// them: only parked ones ([`crate::Snapshot::park`]) can be evicted.
#[derive(Clone, Default)]
pub enum SlowReaders {
    /// Lets the file grow.
    #[default]
    Grow,
    /// Waits, before its transaction begins, until they hold back less.
    Wait {
        /// Bytes that may be held back.
        bytes: u64,
    },
    /// Evicts the parked snapshot that is furthest behind, and again; then lets the file grow.
    Evict {
        /// Bytes that may be held back.
        bytes: u64,
    },
    /// Asks what to do about the snapshot that is furthest behind.
    Ask {
        /// Bytes that may be held back.
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

impl Core {
    /// Brings free space up to date before a transaction begins, and does what the policy says about those who hold
    /// back much of it.
    pub(crate) fn reclaim_for_writing(&self, work: &mut Workspace) -> Result<()> {
        self.reclaim(work);
        let (limit, ask): (u64, &dyn Fn(&ReaderInfo) -> SlowReaderAnswer) = match &self.slow_readers {
            SlowReaders::Grow => return Ok(()),
            SlowReaders::Wait { bytes } => (*bytes, &|_| SlowReaderAnswer::Wait),
            SlowReaders::Evict { bytes } => (*bytes, &|_| SlowReaderAnswer::Evict),
            SlowReaders::Ask { bytes, ask } => (*bytes, &**ask),
        };
        loop {
            // What waits for the steady point alone is not the readers' doing, so this may look without need.
            if work.space.pending_pages() * self.pager.page_size() as u64 <= limit {
                return Ok(());
            }
            let readers = self.readers_with(work);
            // A parked one can be helped, so it comes first.
            let slow = readers.iter().filter(|reader| reader.bytes_held > limit);
            let Some(slowest) = slow.max_by_key(|reader| (reader.parked, reader.lag)) else { return Ok(()) };
            match ask(slowest) {
                SlowReaderAnswer::Wait => std::thread::sleep(LOOK_AGAIN),
                SlowReaderAnswer::Evict if slowest.parked => _ = self.shared.evict(slowest),
                SlowReaderAnswer::Grow | SlowReaderAnswer::Evict => return Ok(()),
                SlowReaderAnswer::Fail => {
                    return Err(Error::SlowReader {
                        process: slowest.process,
                        thread: slowest.thread,
                        bytes_held: slowest.bytes_held,
                    });
                }
            }
            self.shared.release_dead_readers();
            self.reclaim(work);
        }
    }

    /// Live snapshots, with what they hold back.
    pub(crate) fn readers_with(&self, work: &Workspace) -> Vec<ReaderInfo> {
        let mut readers = self.shared.reader_infos();
        for reader in &mut readers {
            reader.bytes_held = work.space.pages_seen_by(reader.txn) * self.pager.page_size() as u64;
        }
        readers
    }
}

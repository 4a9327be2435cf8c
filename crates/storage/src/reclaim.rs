//! Reclaiming free pages before a write transaction begins, and what the writer does about
//! snapshots that hold back much space.

use std::time::Duration;

use crate::db::Core;
use crate::lock_file::ReaderInfo;
use crate::page::TxnId;
use crate::slow_readers::{ReaderLimits, SlowReaderAnswer, SlowReaders};
use crate::space::Trim;
use crate::workspace::Workspace;
use crate::{Error, Result};

/// A writer that waits for readers sleeps so long between two checks.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// When a transaction may begin.
pub(crate) enum Begin {
    Now,
    /// After another check of the readers.
    Later,
}

impl Core {
    /// Brings free space up to date before a transaction begins, and follows the policy for
    /// snapshots that hold back much of it.
    pub(crate) fn reclaim_for_writing(&self, work: &mut Workspace) -> Result<Begin> {
        if self.reclaim(work) && work.space.meta_pages_changed() {
            self.cut_off(work);
        }
        if work.space.trim_is_due() {
            work.space.trim(&self.pager, self.shared.root().txn.next(), Trim::Writing);
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
            // Pages that wait for the steady point only are not held back by readers, so this check
            // may turn out to be needless.
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
            // Parked ones come first, because they can be evicted.
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

    /// Live snapshots with the bytes that each holds back, as the last writer knows them.
    pub(crate) fn readers_with(&self, work: &Workspace) -> Vec<ReaderInfo> {
        let mut readers = self.shared.reader_infos();
        self.note_bytes_held(work, &mut readers);
        readers
    }

    /// Notes the bytes that each snapshot holds back. Gives the bytes that all of them hold back
    /// together.
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

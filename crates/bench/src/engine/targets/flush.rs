//! The `flush` target: the disk without a database. A commit writes its changes as one record to
//! the next place of a file that has its full length already, and in sync mode flushes the file. No
//! durable commit can do less, so the figures of one writer show how many flushes the machine can
//! do.
//!
//! Each session has a file of its own, and each commit a flush of its own. Engines whose writers
//! share flushes may commit more often with several writers than this does.
//!
//! Not here: storage. Reads are answered as `null` answers them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::Mode;
use crate::engine::targets::null::{self, NullSession};
use crate::engine::targets::{Config, EntryVisitor, Session, Target, TxnBody, ValueVisitor, WriteOps};
use crate::measure::{Error, Result};

/// The length of a file. It is written whole before the clock starts, so that a flush is one of
/// data alone, without anything that the file system has to note about the file.
const FILE_BYTES: usize = 4 << 20;
/// The file is filled in writes of this size. The kernel may keep one large write as one unit of up
/// to 2 MiB, and count all of it as written when one byte of it changes.
const BLOCK_BYTES: usize = 4096;

struct Flush {
    dir: PathBuf,
    config: Config,
    files: Mutex<Vec<Arc<File>>>,
    sessions: AtomicU32,
}

pub(super) fn open(dir: &Path, config: &Config) -> Box<dyn Target> {
    Box::new(Flush { dir: dir.to_owned(), config: *config, files: Mutex::default(), sessions: AtomicU32::new(0) })
}

impl Target for Flush {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let path = self.dir.join(format!("session-{}", self.sessions.fetch_add(1, Ordering::Relaxed)));
        let filled = || {
            let file = File::create_new(&path)?;
            for at in (0..FILE_BYTES).step_by(BLOCK_BYTES) {
                file.write_all_at(&[1; BLOCK_BYTES], at as u64)?;
            }
            file.sync_all()?;
            Ok(Arc::new(file))
        };
        let file = filled().map_err(|error| Error::io("cannot fill", &path, error))?;
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&file));
        let ops = FlushOps { null: null::session(&self.config), record: Vec::new() };
        Ok(Box::new(FlushSession { path, file, at: 0, flushes: self.config.mode == Mode::Sync, ops }))
    }

    fn sync(&self) -> Result<()> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().try_for_each(|file| file.sync_data()).map_err(|error| Error::io("cannot flush", &self.dir, error))
    }

    fn keeps_records(&self) -> bool {
        false
    }

    fn notes(&self) -> String {
        match self.config.mode {
            Mode::Sync => {
                "no engine: each commit writes its changes into a file that is full already, a file for each writer, \
                 and flushes it (fdatasync); reads are answered from nothing"
            }
            Mode::Lazy | Mode::Nosync => {
                "no engine: each commit writes its changes into a file that is full already, a file for each writer, \
                 without a flush; reads are answered from nothing"
            }
        }
        .to_owned()
    }
}

struct FlushSession {
    path: PathBuf,
    file: Arc<File>,
    /// Where the next record goes.
    at: usize,
    flushes: bool,
    ops: FlushOps,
}

impl FlushSession {
    /// Writes the record, from the start of the file again where its end is reached.
    fn commit(&mut self) -> std::io::Result<()> {
        let mut record = self.ops.record.as_slice();
        while !record.is_empty() {
            let (now, later) = record.split_at(record.len().min(FILE_BYTES - self.at));
            self.file.write_all_at(now, self.at as u64)?;
            self.at = (self.at + now.len()) % FILE_BYTES;
            record = later;
        }
        if self.flushes { self.file.sync_data() } else { Ok(()) }
    }
}

impl Session for FlushSession {
    fn transact(&mut self, body: TxnBody<'_>) -> Result<()> {
        self.ops.record.clear();
        body(&mut self.ops)?;
        self.commit().map_err(|error| Error::io("cannot write", &self.path, error))
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        self.ops.null.get(key, visit)
    }

    fn walk(&mut self, visit: EntryVisitor<'_>) -> Result<()> {
        self.ops.null.walk(visit)
    }
}

struct FlushOps {
    null: NullSession,
    record: Vec<u8>,
}

impl WriteOps for FlushOps {
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.record.extend_from_slice(key);
        self.record.extend_from_slice(value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.record.extend_from_slice(key);
        Ok(true)
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        self.null.get(key, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_follow_each_other_and_go_on_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { mode: Mode::Sync, key_bytes: 4, value_bytes: 0, page_bytes: 4096, trace_flush: false };
        let target = open(dir.path(), &config);
        let mut session = target.session().unwrap();
        session.set(b"key ", &[2; 96]).unwrap();
        session.delete(b"gone").unwrap();
        session.set(b"last", &vec![3; FILE_BYTES - 104]).unwrap();
        let bytes = std::fs::read(dir.path().join("session-0")).unwrap();
        assert_eq!(bytes.len(), FILE_BYTES);
        // The last four bytes of the third record overwrote the start of the first.
        assert_eq!(bytes[..4], [3; 4]);
        assert_eq!(bytes[4..100], [2; 96]);
        assert_eq!(bytes[100..108], *b"gonelast");
        assert!(!target.keeps_records());
    }
}

//! The seam between the harness and the engines it measures.
//!
//! A [`Target`] is an open database, shared by all threads; a [`Session`] is what one thread does
//! with it. An engine says how it opens for each [`Mode`], and how it runs a write transaction, a
//! read of one key and a walk over all entries. Which operations come in which order is the
//! harness's business alone, so that no engine gets a workload of its own.
//!
//! Invariants
//! - One call crosses the seam per transaction, and one per operation inside it. The `null` target,
//!   which does nothing, shows what that and the harness cost.
//! - Sessions are made and used on one thread each.
//! - Nothing here times anything.

use std::fmt;
use std::path::Path;

use clap::ValueEnum;

use crate::engine::Mode;
use crate::measure::{Error, Result};

mod colibri;
mod flush;
#[cfg(feature = "rivals")]
mod mdb;
mod null;
#[cfg(feature = "rivals")]
mod redb;
#[cfg(feature = "rivals-rocksdb")]
mod rocksdb;
#[cfg(feature = "rivals")]
mod sqlite;

/// An engine that can be measured. All are named in every build; opening one that is not compiled
/// in says with which feature it would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum TargetName {
    /// This project's engine.
    Colibri,
    /// The same without its redo log: in sync mode each commit is a steady point. Other modes have
    /// no log anyway.
    ColibriNolog,
    /// The same with its redo log, encrypted: what that costs.
    ColibriEncrypted,
    /// Does nothing: what the harness itself costs.
    Null,
    /// Keeps nothing, but writes and flushes a record a commit: how many flushes the machine can
    /// do.
    Flush,
    /// LMDB, master branch (feature `rivals`).
    Lmdb,
    /// MDBX (feature `rivals`).
    Mdbx,
    /// redb (feature `rivals`).
    Redb,
    /// SQLite, one table without rowid (feature `rivals`).
    Sqlite,
    /// RocksDB (feature `rivals-rocksdb`).
    Rocksdb,
}

impl TargetName {
    /// Whether this is Colibri, in one of its forms.
    pub(crate) fn is_colibri(self) -> bool {
        matches!(self, Self::Colibri | Self::ColibriNolog | Self::ColibriEncrypted)
    }
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Colibri => "colibri",
            Self::ColibriNolog => "colibri-nolog",
            Self::ColibriEncrypted => "colibri-encrypted",
            Self::Null => "null",
            Self::Flush => "flush",
            Self::Lmdb => "lmdb",
            Self::Mdbx => "mdbx",
            Self::Redb => "redb",
            Self::Sqlite => "sqlite",
            Self::Rocksdb => "rocksdb",
        })
    }
}

/// How every engine is opened in a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    pub(crate) mode: Mode,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    /// Engines whose page size is fixed say so in their notes.
    pub(crate) page_bytes: u32,
    /// Colibri prints what it writes.
    pub(crate) trace_flush: bool,
}

/// Is called with the bytes of a value that was read, while they are valid.
pub(crate) type ValueVisitor<'a> = &'a mut dyn FnMut(&[u8]);
/// Is called with the key and value of each entry of a walk. Returns whether the walk goes on.
pub(crate) type EntryVisitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;
/// What happens inside a write transaction.
pub(crate) type TxnBody<'a> = &'a mut dyn FnMut(&mut dyn WriteOps) -> Result<()>;

/// An open database.
pub(crate) trait Target: Sync {
    /// Opens a session for the calling thread.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Returns when all commits are on disk and the background work is done.
    fn sync(&self) -> Result<()>;

    /// Checks the database's structure, for engines that can: not timed.
    fn check(&self) -> Result<Option<CheckSummary>> {
        Ok(None)
    }

    /// Whether what is set can be read back: `null` and `flush` say no.
    fn keeps_records(&self) -> bool {
        true
    }

    /// What a reader must know to compare this engine's numbers: flags, bounds, caches.
    fn notes(&self) -> String;
}

/// What a structural check found.
#[derive(Debug, Clone)]
pub(crate) struct CheckSummary {
    pub(crate) entries: u64,
    pub(crate) pages: u64,
    pub(crate) problems: Vec<String>,
}

/// One thread's use of a [`Target`].
pub(crate) trait Session {
    /// Runs `body` in one write transaction and commits it; a failing body aborts it.
    fn transact(&mut self, body: TxnBody<'_>) -> Result<()>;

    /// One transaction that inserts or overwrites.
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.transact(&mut |txn| txn.set(key, value))
    }

    /// One transaction that deletes. Returns whether the key was there.
    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let mut found = false;
        self.transact(&mut |txn| {
            found = txn.delete(key)?;
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads a key in a read transaction of its own. Returns whether the key was there.
    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool>;

    /// Walks over all entries in key order, in one read transaction, and starts over after the
    /// last, until the visitor ends it. Ends at once on an empty database.
    fn walk(&mut self, visit: EntryVisitor<'_>) -> Result<()>;
}

/// Operations inside a write transaction; reads see its own writes.
pub(crate) trait WriteOps {
    /// Inserts or overwrites.
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Deletes. Returns whether the key was there.
    fn delete(&mut self, key: &[u8]) -> Result<bool>;
    /// Reads. Returns whether the key was there.
    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool>;
}

/// Says which feature compiles the engine in, if this build is without it.
pub(crate) fn require_compiled_in(name: TargetName) -> Result<()> {
    let missing_feature = match name {
        TargetName::Colibri | TargetName::ColibriNolog | TargetName::ColibriEncrypted => None,
        TargetName::Null | TargetName::Flush => None,
        TargetName::Lmdb | TargetName::Mdbx | TargetName::Redb | TargetName::Sqlite => {
            (!cfg!(feature = "rivals")).then_some("rivals")
        }
        TargetName::Rocksdb => (!cfg!(feature = "rivals-rocksdb")).then_some("rivals-rocksdb"),
    };
    match missing_feature {
        None => Ok(()),
        Some(feature) => Err(Error::NotCompiledIn { target: name.to_string(), feature }),
    }
}

/// Opens a new database of the engine in `dir`, which exists and is empty.
pub(crate) fn open(name: TargetName, dir: &Path, config: &Config) -> Result<Box<dyn Target>> {
    require_compiled_in(name)?;
    match name {
        TargetName::Colibri | TargetName::ColibriNolog | TargetName::ColibriEncrypted => {
            colibri::open(name, dir, config)
        }
        TargetName::Null => Ok(null::open(config)),
        TargetName::Flush => Ok(flush::open(dir, config)),
        #[cfg(feature = "rivals")]
        TargetName::Lmdb => mdb::open_lmdb(dir, config),
        #[cfg(feature = "rivals")]
        TargetName::Mdbx => mdb::open_mdbx(dir, config),
        #[cfg(feature = "rivals")]
        TargetName::Redb => redb::open(dir, config),
        #[cfg(feature = "rivals")]
        TargetName::Sqlite => sqlite::open(dir, config),
        #[cfg(feature = "rivals-rocksdb")]
        TargetName::Rocksdb => rocksdb::open(dir, config),
        #[cfg(not(all(feature = "rivals", feature = "rivals-rocksdb")))]
        _ => unreachable!("refused above"),
    }
}

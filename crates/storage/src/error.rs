//! What can go wrong, and what the caller can do about it.
//!
//! Every variant answers one of three questions: fix the input ([`Error::KeyTooLong`], …), try
//! again ([`Error::Busy`], [`Error::DiskFull`], …) or restore a backup ([`Error::Corrupted`]).

use std::path::PathBuf;

use crate::page::{PageId, TxnId};

/// The result of an engine operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the storage engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on the database's files.
    #[error("{action} {path}: {source}", path = path.display())]
    Io {
        /// What was attempted, as a verb phrase: "cannot open".
        action: &'static str,
        /// The file or directory it was attempted on.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// There is no room on the disk, or a quota or a limit on file sizes is reached. The
    /// transaction was not applied; the database stays readable, and the next commit succeeds once
    /// there is room.
    #[error(
        "no room for {path} to have {bytes_wanted} bytes: the disk is full, or a quota or a limit on file sizes is reached",
        path = path.display()
    )]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// The size the file should have had.
        bytes_wanted: u64,
    },
    /// A file of the database was removed while it was open. Snapshots go on; nothing that is
    /// committed now would be found again.
    #[error("{path} was removed while the database was open: nothing can be committed to it any more", path = path.display())]
    Removed {
        /// The file.
        path: PathBuf,
    },
    /// The database has reached the largest size it was opened with.
    #[error("the database is full: it has {size_max} bytes, its largest size; open it with a larger Options::size_max")]
    DatabaseFull {
        /// `Options::size_max` in force, in bytes.
        size_max: u64,
    },
    /// Bytes in the file are not what was written. Restore a backup, or save what can be read with
    /// `dump`.
    #[error("page {page} is corrupted: {reason}")]
    Corrupted {
        /// The page that failed.
        page: PageId,
        /// Which check failed.
        reason: &'static str,
    },
    /// A record of the log is whole and makes no sense.
    #[error("the log is corrupted: {reason}")]
    CorruptedLog {
        /// What makes no sense.
        reason: &'static str,
    },
    /// Others have the database open, and this user may not write to the lock file, so they would
    /// not know of its snapshots.
    #[error("others have the database open, and {path} cannot be written to: allow writing to it, so that they know of this reader", path = path.display())]
    LockNotWritable {
        /// The lock file.
        path: PathBuf,
    },
    /// The log holds commits that are not in the data file yet, and the database cannot be written
    /// to here.
    #[error("the database in {path} was not closed and has to recover: open it once where it can be written to", path = path.display())]
    NeedsRecovery {
        /// The directory.
        path: PathBuf,
    },
    /// Those that have a database open at the same time must agree on whether commits go to the
    /// log.
    #[error("{path} is open elsewhere with another durability: all have to use Durability::Sync, or none", path = path.display())]
    DurabilityDiffers {
        /// The lock file.
        path: PathBuf,
    },
    /// There is no branch of this name, or it was dropped while a handle of it was open.
    #[error("there is no branch {name:?}")]
    NoSuchBranch {
        /// The name.
        name: String,
    },
    /// There is a branch of this name already.
    #[error("there is a branch {name:?} already")]
    BranchExists {
        /// The name.
        name: String,
    },
    /// The name of a branch is empty or too long.
    #[error("the name of a branch has {bytes} bytes; it may have 1 to {bytes_max}")]
    BranchName {
        /// Bytes in the name.
        bytes: usize,
        /// Bytes that a name may have.
        bytes_max: usize,
    },
    /// The state of the past that was asked for is not kept: it is too old, the branch was not there
    /// yet, or no states are kept at all.
    #[error("the state is not there: {}", kept_since(*since))]
    NotKept {
        /// The oldest transaction whose state is kept, and its time in microseconds since
        /// 1970-01-01 in UTC; `None` if nothing is kept.
        since: Option<(TxnId, i64)>,
    },
    /// The kept states do not lead to the one that was asked for: another process, which keeps
    /// none, has written meanwhile, or there was no room.
    #[error("what was committed from transaction {after} to {txn} was not kept")]
    PastMissing {
        /// The last transaction before the gap.
        after: TxnId,
        /// The transaction that cannot be told.
        txn: TxnId,
    },
    /// A state was asked for that is still to come.
    #[error("the state is still to come: the newest transaction is {newest}")]
    StillToCome {
        /// The newest transaction.
        newest: TxnId,
    },
    /// The main branch cannot be dropped.
    #[error("the main branch cannot be dropped")]
    MainBranch,
    /// The database is not open with `Durability::Agreed`.
    #[error("the database was not opened with a log that others agree on")]
    NotAgreed,
    /// A record of an agreed log does not follow the state of the database, or the database has
    /// commits that nobody has agreed on.
    #[error("the history differs from transaction {txn} on", txn = txn.0)]
    Diverged {
        /// The first transaction that differs.
        txn: TxnId,
    },
    /// The record of a transaction is longer than a record may be on which others agree.
    #[error("the transaction changes more than {bytes_max} bytes, which is too much to agree on at once")]
    TransactionTooLong {
        /// How long a record may be, in bytes.
        bytes_max: usize,
    },
    /// The directory holds something that is not a Colibri database.
    #[error("{path} is not a Colibri database: {reason}", path = path.display())]
    NotADatabase {
        /// The file that was looked at.
        path: PathBuf,
        /// What was wrong with it.
        reason: &'static str,
    },
    /// The database was written by a newer version of the format.
    #[error("{path} has format version {found}; this build reads up to {supported}: use a newer Colibri", path = path.display())]
    NewerFormat {
        /// The data file.
        path: PathBuf,
        /// The version found.
        found: u32,
        /// The newest version this build can read.
        supported: u32,
    },
    /// The database is encrypted, and was opened without a key.
    #[error("{path} is encrypted: give its key", path = path.display())]
    KeyMissing {
        /// The data file, or what else is encrypted.
        path: PathBuf,
    },
    /// The database is encrypted with another key.
    #[error("the key does not open {path}", path = path.display())]
    WrongKey {
        /// The data file, or what else is encrypted.
        path: PathBuf,
    },
    /// A key was given for a database that is not encrypted.
    #[error("{path} is not encrypted: open it without a key", path = path.display())]
    NotEncrypted {
        /// The data file, or what else is not encrypted.
        path: PathBuf,
    },
    /// An encrypted database is open already, in this process or in another one. Its pages are in the
    /// memory of whoever has it open, so that there can be one at a time.
    #[error("{path} is encrypted and open already: one process at a time may have it open", path = path.display())]
    EncryptedInUse {
        /// The directory.
        path: PathBuf,
    },
    /// Others than its owner may use the file with the key.
    #[error("the key in {path} is not kept secret: its file has mode {mode:o}, allow its owner alone (chmod 600)", path = path.display())]
    KeyFileOpen {
        /// The file with the key.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The page size asked for is not the one the database was created with.
    #[error(
        "the database has pages of {found} bytes, but {wanted} were asked for (leave Options::page_size out to accept it)"
    )]
    PageSizeMismatch {
        /// The page size on disk, in bytes.
        found: u32,
        /// The page size in the options, in bytes.
        wanted: u32,
    },
    /// An option is outside its range.
    #[error("option {option}: {reason}")]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// What its range is.
        reason: &'static str,
    },
    /// There is no database in the directory, and the options do not allow creating one.
    #[error("there is no database in {path}", path = path.display())]
    NotFound {
        /// The directory.
        path: PathBuf,
    },
    /// Another version of Colibri, whose processes share memory in another layout, has the database
    /// open.
    #[error("{path} is in use by another version of Colibri: close the database there first, or use that version", path = path.display())]
    OtherVersionRunning {
        /// The lock file.
        path: PathBuf,
    },
    /// The database was opened read-only.
    #[error("the database was opened read-only: to write, open it without Options::read_only")]
    ReadOnly,
    /// Another writer holds the database (only from operations that do not wait).
    #[error("another write transaction is active: try again, or wait for it with Database::write")]
    Busy,
    /// The parked snapshot was evicted, because a writer needed its pages. Take a new one.
    #[error("the snapshot of transaction {txn} was evicted while it was parked: a writer needed its pages")]
    Evicted {
        /// The transaction it saw.
        txn: crate::TxnId,
    },
    /// A snapshot holds back more space than the database's policy allows.
    #[error(
        "process {process}, thread {thread} holds back {bytes_held} bytes with an old snapshot: end it, or allow more with Options::slow_readers"
    )]
    SlowReader {
        /// The process of the snapshot.
        process: u32,
        /// The thread that took it, as the operating system numbers it.
        thread: u32,
        /// Bytes of pages that only old snapshots need.
        bytes_held: u64,
    },
    /// A backup is not what it was when it was written.
    #[error("the backup is damaged: {reason}")]
    BackupDamaged {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Backups do not fit together, or not the database.
    #[error("the backups do not fit: {reason}")]
    BackupMismatch {
        /// Why not.
        reason: &'static str,
    },
    /// All reader slots are taken.
    #[error("all {readers_max} reader slots are taken: drop snapshots, or raise Options::readers_max")]
    ReadersFull {
        /// How many slots there are.
        readers_max: u32,
    },
    /// All process slots are taken; each opening takes one, also of the same process.
    #[error("the database is open {processes_max} times, which is the most it allows: close it elsewhere first")]
    ProcessesFull {
        /// How many times a database can be open.
        processes_max: u32,
    },
    /// An earlier flush failed, so what is on disk is not known. Reopen the database.
    #[error("an earlier flush failed; reopen the database to continue from what is on disk")]
    Poisoned,
    /// Keys have at least one byte.
    #[error("a key cannot be empty")]
    KeyEmpty,
    /// The key is longer than a page allows. In tables with many values a key, key and value count
    /// together.
    #[error("the key has {bytes} bytes; at most {bytes_max} fit a page of this database")]
    KeyTooLong {
        /// Length of the key in bytes.
        bytes: usize,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// The value is longer than the format allows.
    #[error("the value has {bytes} bytes; at most {bytes_max} are allowed")]
    ValueTooLong {
        /// Length of the value in bytes.
        bytes: u64,
        /// The limit in bytes.
        bytes_max: u64,
    },
    /// A key of an integer table must be 8 bytes, big-endian.
    #[error("keys of an integer table have exactly 8 bytes, big-endian; this one has {bytes}")]
    NotAnIntegerKey {
        /// Length of the key in bytes.
        bytes: usize,
    },
    /// The operation does not apply to this kind of table.
    #[error("table {table:?} is {kind}, and {operation} does not apply to it")]
    WrongTableKind {
        /// The table.
        table: String,
        /// Its kind.
        kind: crate::TableKind,
        /// The operation attempted.
        operation: &'static str,
    },
    /// An appended or bulk-loaded key is not greater than the last one.
    #[error(
        "keys must come in ascending order here: this one is not greater than the table's last (put takes any order)"
    )]
    KeyNotInOrder,
    /// A table's name is empty or too long.
    #[error("the name of a table has from 1 to {bytes_max} bytes; this one has {bytes}")]
    TableName {
        /// Length of the name in bytes.
        bytes: usize,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// There is no such table.
    #[error("there is no table {name:?}")]
    NoSuchTable {
        /// The name asked for.
        name: String,
    },
    /// A table of that name exists with another kind.
    #[error("table {name:?} is {kind}: use it as that, or choose another name")]
    TableExists {
        /// The name asked for.
        name: String,
        /// The kind it has.
        kind: crate::TableKind,
    },
    /// Text given to `load` does not follow the dump format.
    #[error("line {line}: {reason}")]
    InvalidDump {
        /// Line number, from 1.
        line: u64,
        /// What was expected.
        reason: String,
    },
}

fn kept_since(since: Option<(TxnId, i64)>) -> String {
    since.map_or("no states of the past are kept".to_owned(), |(txn, _)| {
        format!("states are kept from transaction {txn} on")
    })
}

impl Error {
    /// Wraps an I/O error with what was attempted on which file.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: impl Into<std::io::Error>) -> Self {
        Self::Io { action, path: path.into(), source: source.into() }
    }
}

//! Failures of transactions as errors of SQL.
//!
//! Values and their errors do not depend on transactions. So where SQL calls a store it converts
//! the store's failure with [`InSql::in_sql`]. An interruption ([`colibri_txn::Interruption`]) is
//! no failure. It travels in the place of an error, so that `?` carries it, and carries a
//! [`Pause`]. The session that runs a statement calls [`pause`] on every error first.
//! [`as_failure`] turns an interruption that the session cannot heed into a failure.

use std::sync::Arc;

use colibri_storage::Error as Storage;
use colibri_txn::{Error as Txn, Interruption, LockWait, StoreWait};
use colibri_types::{Error, Result, SqlState};
use parking_lot::Mutex;

const HELD_BY_PREPARED: &str = "could not serialize access due to a prepared transaction";
const DEADLOCK_DETECTED: &str = "deadlock detected";

/// Why a statement broke off without an error for the user.
#[derive(Debug, Clone)]
pub enum Pause {
    /// It waits for a lock: roll it back, wait, run it again.
    Wait(Arc<Mutex<Option<LockWait>>>),
    /// Its snapshot is too old: roll it back and run it again.
    Stale,
    /// What it reads is on its way: wait, and go on where it was.
    Fetch(StoreWait),
    /// The same, in the middle of something that cannot be gone on with: roll the statement back,
    /// wait, run it again. What has been fetched is there then.
    FetchAnew(StoreWait),
}

/// A store's result as one of SQL.
pub trait InSql<T> {
    /// The same value, or the error that clients know.
    ///
    /// # Errors
    /// The failure, by PostgreSQL's code.
    fn in_sql(self) -> Result<T>;
}

impl<T, E: Into<Txn>> InSql<T> for std::result::Result<T, E> {
    #[inline]
    fn in_sql(self) -> Result<T> {
        self.map_err(in_sql)
    }
}

/// A store's failure as an error of SQL.
#[cold]
pub fn in_sql(error: impl Into<Txn>) -> Error {
    translate(error.into())
}

fn translate(error: Txn) -> Error {
    let message = error.to_string();
    let state = match error {
        Txn::Interrupted(interruption) => {
            return Error::interruption(match interruption {
                Interruption::Wait(wait) => Pause::Wait(Arc::new(Mutex::new(Some(wait)))),
                Interruption::Stale => Pause::Stale,
                Interruption::Fetch(wait) => Pause::Fetch(wait),
            });
        }
        Txn::Patch(error) => {
            return match error.downcast::<Error>() {
                Ok(error) => *error,
                Err(error) => Error::internal(error),
            };
        }
        Txn::Conflict { .. } => {
            return not_serializable().detail(message);
        }
        Txn::HeldByPrepared { .. } => {
            return Error::new(SqlState::SERIALIZATION_FAILURE, HELD_BY_PREPARED)
                .detail(message)
                .hint("The transaction might succeed if retried when the prepared transaction has ended.");
        }
        // What drivers' retry loops look for, in place of PostgreSQL's 40P01.
        Txn::Deadlock => {
            return Error::new(SqlState::SERIALIZATION_FAILURE, DEADLOCK_DETECTED)
                .hint("The transaction might succeed if retried.");
        }
        Txn::NotAvailable => return Error::new(SqlState::LOCK_NOT_AVAILABLE, "could not obtain lock on row"),
        Txn::Unknown { .. } => SqlState::COMMIT_UNKNOWN,
        // Clients connect anew then, which is what helps.
        Txn::NotLeading => {
            return Error::new(SqlState("57P01"), message)
                .hint("Connect to the server that leads the database now, and run the transaction again.");
        }
        Txn::KeyLength { .. } | Txn::ValueTooLong { .. } => SqlState::PROGRAM_LIMIT,
        Txn::TooLarge { .. } => SqlState::OUT_OF_MEMORY,
        Txn::ReadOnly => SqlState::READ_ONLY_TRANSACTION,
        Txn::Storage(Storage::DiskFull { .. } | Storage::DatabaseFull { .. }) => SqlState::DISK_FULL,
        Txn::Storage(Storage::TransactionTooLong { .. }) => SqlState::PROGRAM_LIMIT,
        Txn::Storage(Storage::KeyTooLong { .. } | Storage::ValueTooLong { .. }) => SqlState::PROGRAM_LIMIT,
        Txn::Storage(Storage::Corrupted { .. } | Storage::CorruptedLog { .. }) => SqlState::DATA_CORRUPTED,
        Txn::UnreadableRecord => SqlState::DATA_CORRUPTED,
        Txn::SeriesFull => SqlState::PROGRAM_LIMIT,
        Txn::CannotPrepare | Txn::SeriesUsed => SqlState::FEATURE_NOT_SUPPORTED,
        Txn::Storage(Storage::BranchExists { .. }) => SqlState("42P04"),
        Txn::Storage(Storage::NoSuchBranch { .. }) => SqlState::NO_SUCH_DATABASE,
        Txn::Storage(Storage::BranchName { .. }) => SqlState("42602"),
        Txn::Storage(Storage::MainBranch | Storage::NotEncrypted { .. }) => SqlState::WRONG_OBJECT_TYPE,
        Txn::Storage(Storage::EncryptedInUse { .. }) => SqlState("55006"),
        // As a login without a password, or with a wrong one.
        Txn::Storage(Storage::KeyMissing { .. }) => {
            return Error::new(SqlState("28000"), message)
                .hint("Commands take it with --key-file, --key-fd or --key-command.");
        }
        Txn::Storage(Storage::WrongKey { .. }) => SqlState("28000"),
        Txn::Storage(_) => SqlState::IO_ERROR,
        _ => SqlState::INTERNAL,
    };
    Error::new(state, message)
}

/// Why a statement broke off, if its error is not one for the user.
pub fn pause(error: &Error) -> Option<&Pause> {
    error.carried()
}

/// Whether a call has to be made again when what it asks for has been fetched.
pub fn is_fetch(error: &Error) -> bool {
    matches!(pause(error), Some(Pause::Fetch(_)))
}

/// For what cannot be gone on with in the middle: where it has to fetch, the statement runs again
/// from its start.
#[must_use]
pub fn from_the_start(error: Error) -> Error {
    match pause(&error) {
        Some(Pause::Fetch(wait)) => Error::interruption(Pause::FetchAnew(wait.clone())),
        _ => error,
    }
}

/// Makes a call until nothing has to be fetched for it any more, and blocks the thread meanwhile:
/// for the little that a session reads outside of the steps of a statement.
///
/// # Errors
/// Those of the call.
pub fn fetched_now<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(error) => match pause(&error) {
                Some(Pause::Fetch(wait)) => wait.wait(),
                _ => return Err(error),
            },
            done => return done,
        }
    }
}

/// What the user is told: the failure, or, where an interruption could not be heeded, that the
/// transaction has to run again.
#[must_use]
pub fn as_failure(error: Error) -> Error {
    if error.is_interruption() { not_serializable() } else { error }
}

/// What others have changed keeps a transaction from going on.
#[must_use]
#[cold]
pub fn not_serializable() -> Error {
    Error::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        .hint("The transaction might succeed if retried.")
}

/// Whether an error stays the same until a prepared transaction has ended.
#[must_use]
pub fn is_held_by_prepared(error: &Error) -> bool {
    error.state() == SqlState::SERIALIZATION_FAILURE && error.report().message == HELD_BY_PREPARED
}

/// Whether an error is a deadlock.
pub fn is_deadlock(error: &Error) -> bool {
    error.state() == SqlState::DEADLOCK || error.report().message == DEADLOCK_DETECTED
}

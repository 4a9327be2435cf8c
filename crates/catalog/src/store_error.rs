//! What transactions answer in place of a result, as SQL's errors.
//!
//! Values and their errors know nothing of transactions. So where SQL calls a store it says with
//! [`InSql::in_sql`] that the store's failure is SQL's. Two answers are not failures for the user:
//! a lock that has to be waited for, and a snapshot that is too old. They travel as errors that
//! carry a [`Pause`] until a step of a statement is an outcome of its own.

use std::sync::Arc;

use colibri_storage::Error as Storage;
use colibri_txn::{Error as Txn, LockWait};
use colibri_types::{Error, Result, SqlState};
use parking_lot::Mutex;

const DEADLOCK_DETECTED: &str = "deadlock detected";

/// Why a statement broke off without an error for the user.
#[derive(Debug, Clone)]
pub enum Pause {
    /// It waits for a lock: take it back, wait, run it again.
    Wait(Arc<Mutex<Option<LockWait>>>),
    /// Its snapshot is too old: take it back and run it again.
    Stale,
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
        Txn::Wait(wait) => {
            let pause = Pause::Wait(Arc::new(Mutex::new(Some(wait))));
            return Error::new(SqlState::LOCK_NOT_AVAILABLE, message).carrying(pause);
        }
        Txn::Stale => return Error::new(SqlState::SERIALIZATION_FAILURE, message).carrying(Pause::Stale),
        Txn::Patch(error) => {
            return match error.downcast::<Error>() {
                Ok(error) => *error,
                Err(error) => Error::internal(error),
            };
        }
        Txn::Conflict { .. } => {
            return Error::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
                .detail(message)
                .hint("The transaction might succeed if retried.");
        }
        // What drivers' retry loops look for, in place of PostgreSQL's 40P01.
        Txn::Deadlock => {
            return Error::new(SqlState::SERIALIZATION_FAILURE, DEADLOCK_DETECTED)
                .hint("The transaction might succeed if retried.");
        }
        Txn::NotAvailable => return Error::new(SqlState::LOCK_NOT_AVAILABLE, "could not obtain lock on row"),
        Txn::Unknown { .. } => SqlState::COMMIT_UNKNOWN,
        Txn::TooLarge { .. } => SqlState::OUT_OF_MEMORY,
        Txn::ReadOnly => SqlState::READ_ONLY_TRANSACTION,
        Txn::Storage(Storage::DiskFull { .. } | Storage::DatabaseFull { .. }) => SqlState::DISK_FULL,
        Txn::Storage(Storage::KeyTooLong { .. } | Storage::ValueTooLong { .. }) => SqlState::PROGRAM_LIMIT,
        Txn::Storage(Storage::Corrupted { .. } | Storage::CorruptedLog { .. }) => SqlState::DATA_CORRUPTED,
        Txn::Storage(_) => SqlState::IO_ERROR,
        _ => SqlState::INTERNAL,
    };
    Error::new(state, message)
}

/// Why a statement broke off, if its error is not one for the user.
pub fn pause(error: &Error) -> Option<&Pause> {
    error.carried()
}

/// Whether an error says that locks are waited for in a circle.
pub fn is_deadlock(error: &Error) -> bool {
    error.state() == SqlState::DEADLOCK || error.report().message == DEADLOCK_DETECTED
}

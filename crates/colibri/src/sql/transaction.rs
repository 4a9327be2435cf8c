//! Transactions that run again after a conflict.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use colibri_sql::{SqlState, TransactionState};

use super::{Connection, Error, Result};

/// The isolation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// Serializable: as if transactions ran one after the other. A transaction that would break
    /// that fails with 40001, and runs again.
    #[default]
    Serializable,
    /// READ COMMITTED: each statement sees what was committed before it.
    ReadCommitted,
}

/// How a transaction is run.
#[derive(Debug, Clone)]
pub struct TransactionOptions {
    isolation: Isolation,
    read_only: bool,
    attempts_max: u32,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self { isolation: Isolation::default(), read_only: false, attempts_max: 10 }
    }
}

impl TransactionOptions {
    /// Serializable, reading and writing, with ten attempts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The isolation level.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Makes it read-only. Such a transaction sees one state, and never has a conflict.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// The most attempts; 1 for no second one.
    #[must_use]
    pub fn attempts_max(mut self, attempts_max: u32) -> Self {
        self.attempts_max = attempts_max.max(1);
        self
    }

    pub(crate) fn begin(&self) -> String {
        let isolation = match self.isolation {
            Isolation::Serializable => "SERIALIZABLE",
            Isolation::ReadCommitted => "READ COMMITTED",
        };
        let access = if self.read_only { "READ ONLY" } else { "READ WRITE" };
        format!("BEGIN ISOLATION LEVEL {isolation} {access}")
    }

    pub(crate) fn is_last(&self, attempt: u32) -> bool {
        attempt >= self.attempts_max
    }
}

/// The pause before the next attempt: none at first, then random times that grow.
pub(crate) fn pause_after(attempt: u32) -> Duration {
    const LONGEST_US: u64 = 100_000;
    match attempt {
        0 | 1 => Duration::ZERO,
        attempt => Duration::from_micros(fastrand::u64(0..=(500 << attempt.min(16)).min(LONGEST_US))),
    }
}

pub(crate) fn already_open() -> Error {
    Error::new(SqlState::ACTIVE_TRANSACTION, "there is already a transaction in progress")
        .hint("Within a transaction, use a savepoint.")
}

pub(crate) fn failed_inside() -> Error {
    Error::new(SqlState::FAILED_TRANSACTION, "the transaction was rolled back, since a statement in it failed")
        .hint("Hand the statement's error on, or use a savepoint.")
}

/// An open transaction: a [`Connection`] whose statements belong together.
pub struct Transaction<'c> {
    connection: &'c mut Connection,
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl DerefMut for Transaction<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection
    }
}

/// Rolls the transaction back unless it was ended, also when a closure panics.
struct Open<'c>(&'c mut Connection);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.0.transaction_state() != TransactionState::Idle {
            // A rollback writes nothing, so there is no error to report.
            _ = self.0.execute("ROLLBACK", ());
        }
    }
}

impl Connection {
    /// Runs a closure in a transaction, which commits if the closure returns `Ok` and is rolled
    /// back if it returns `Err`. After a conflict with other transactions (40001, 40P01) it runs
    /// again, up to ten times: effects of the closure outside of the database may then happen
    /// several times.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let db = colibri::sql::Database::open(dir.path())?;
    /// # let mut conn = db.connect();
    /// use colibri::sql::Error;
    /// conn.batch("CREATE TABLE accounts (id int PRIMARY KEY, cents bigint CHECK (cents >= 0))")?;
    /// conn.execute("INSERT INTO accounts VALUES (1, 100), (2, 0)", ())?;
    /// let left = conn.transaction(|tx| {
    ///     tx.execute("UPDATE accounts SET cents = cents + $1 WHERE id = 2", (30,))?;
    ///     let row = tx.query_row("UPDATE accounts SET cents = cents - $1 WHERE id = 1 RETURNING cents", (30,))?;
    ///     row.get::<_, i64>("cents")
    /// })?;
    /// assert_eq!(left, 70);
    ///
    /// // A transaction that fails has changed nothing.
    /// let error = conn.transaction(|tx| {
    ///     tx.execute("UPDATE accounts SET cents = cents + 100 WHERE id = 2", ())?;
    ///     tx.execute("UPDATE accounts SET cents = cents - 100 WHERE id = 1", ())
    /// });
    /// assert_eq!(error.unwrap_err().report().constraint.as_deref(), Some("accounts_cents_check"));
    /// let rich = conn.query_row("SELECT max(cents) FROM accounts", ())?;
    /// assert_eq!(rich.get::<_, i64>(0)?, 70);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The closure's, those of a commit (40003: whether it has committed is not known), 25001
    /// within a transaction.
    pub fn transaction<T, E: From<Error>>(
        &mut self,
        run: impl FnMut(&mut Transaction<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.transaction_with(&TransactionOptions::new(), run)
    }

    /// As [`Connection::transaction`], with options.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let db = colibri::sql::Database::open(dir.path())?;
    /// # let mut conn = db.connect();
    /// use colibri::sql::{Error, TransactionOptions};
    /// let options = TransactionOptions::new().read_only(true);
    /// let refused = conn.transaction_with(&options, |tx| tx.execute("CREATE TABLE t (a int)", ()));
    /// assert_eq!(refused.unwrap_err().state().0, "25006");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Connection::transaction`].
    pub fn transaction_with<T, E: From<Error>>(
        &mut self,
        options: &TransactionOptions,
        mut run: impl FnMut(&mut Transaction<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if self.transaction_state() != TransactionState::Idle {
            return Err(already_open().into());
        }
        let begin = options.begin();
        let mut attempt = 1;
        loop {
            let open = Open(self);
            open.0.execute(begin.as_str(), ())?;
            open.0.conflicted = false;
            let result = match run(&mut Transaction { connection: open.0 }) {
                Ok(value) => open.0.commit().map(|()| value).map_err(E::from),
                Err(error) => Err(error),
            };
            let conflicted = open.0.conflicted;
            drop(open);
            if result.is_ok() || !conflicted || options.is_last(attempt) {
                return result;
            }
            std::thread::sleep(pause_after(attempt));
            attempt += 1;
        }
    }

    fn commit(&mut self) -> Result<()> {
        // A failed transaction answers COMMIT with a rollback.
        let failed = self.transaction_state() != TransactionState::Open;
        self.execute("COMMIT", ())?;
        if failed { Err(failed_inside()) } else { Ok(()) }
    }
}

impl Transaction<'_> {
    /// Runs a closure whose changes are rolled back if it returns `Err`, while the transaction goes
    /// on.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let db = colibri::sql::Database::open(dir.path())?;
    /// # let mut conn = db.connect();
    /// use colibri::sql::Error;
    /// conn.batch("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    /// conn.transaction(|tx| {
    ///     let twice = tx.savepoint(|tx| tx.execute("INSERT INTO t VALUES (2), (1)", ()));
    ///     assert_eq!(twice.unwrap_err().state().0, "23505");
    ///     tx.execute("INSERT INTO t VALUES (3)", ())
    /// })?;
    /// assert_eq!(conn.query_row("SELECT sum(id) FROM t", ())?.get::<_, i64>(0)?, 4);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The closure's. A conflict is not resolved here: return it, and the transaction runs again.
    pub fn savepoint<T, E: From<Error>>(
        &mut self,
        run: impl FnOnce(&mut Transaction<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.execute("SAVEPOINT colibri_savepoint", ())?;
        let result = run(&mut Transaction { connection: self.connection });
        if result.is_err() {
            self.execute("ROLLBACK TO SAVEPOINT colibri_savepoint", ())?;
        }
        self.execute("RELEASE SAVEPOINT colibri_savepoint", ())?;
        result
    }
}

//! A directory opened for SQL: sessions of one process.

use std::path::Path;
use std::sync::Arc;

use colibri_sql::{DirectoryLock, Engine};

use parking_lot::Mutex;

use super::{AsyncConnection, Connection, Error, Result};

/// A database for SQL. Clones are the same database; it is closed when the last of them, and of its
/// connections, is dropped.
///
/// One process at a time has a database open for SQL; connections are many. Other processes may
/// read it with the commands for storage: `colibri check`, `stat`, `copy`, `backup`.
///
/// ```
/// # let dir = tempfile::tempdir().expect("a directory");
/// use colibri::sql::Database;
/// let db = Database::open(dir.path())?;
/// let error = Database::open(dir.path()).expect_err("it is open");
/// assert_eq!(error.state().0, "55006");
/// # Ok::<(), colibri::sql::Error>(())
/// ```
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

/// Fields are dropped in order: the database is closed before another process may open it.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    lock: Mutex<Option<DirectoryLock>>,
}

impl Database {
    /// Opens a directory, and makes a database there if there is none. A commit returns when it is
    /// on disk.
    ///
    /// # Errors
    /// 55006 if it is open for SQL already, 58030 and others of the storage.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(dir, &crate::Options::new())
    }

    /// As [`Database::open`], with the options of the storage: the durability of commits, above
    /// all.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// use colibri::sql::Database;
    /// use colibri::{Durability, Options};
    /// let db = Database::open_with(dir.path(), &Options::new().durability(Durability::NoSync))?;
    /// # Ok::<(), colibri::sql::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_with(dir: impl AsRef<Path>, options: &crate::Options) -> Result<Self> {
        let storage = crate::Database::open(dir.as_ref(), options).map_err(from_storage)?;
        Self::with_storage(storage)
    }

    /// On a database of the storage that is open already.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn with_storage(storage: crate::Database) -> Result<Self> {
        let lock = DirectoryLock::for_sql(storage.path())?;
        let engine = Engine::open(storage)?;
        Ok(Self { shared: Arc::new(Shared { engine, lock: Mutex::new(Some(lock)) }) })
    }

    /// A connection, of the user `colibri`.
    #[must_use]
    pub fn connect(&self) -> Connection {
        self.connect_as("colibri")
    }

    /// A connection of a user, whose name `current_user` gives. There are no privileges: any user
    /// may do everything.
    #[must_use]
    pub fn connect_as(&self, user: &str) -> Connection {
        Connection::new(&self.shared, user)
    }

    /// A connection whose calls are futures.
    #[must_use]
    pub fn connect_async(&self) -> AsyncConnection {
        AsyncConnection::new(self.connect())
    }

    /// For a process that was forked while the database was open: closes this process's copy of the
    /// file whose lock keeps others out, so that the lock ends with the parent's. The database
    /// itself cannot be used, or closed, in such a process: forget it and its connections
    /// ([`std::mem::forget`]).
    pub fn leave_to_parent(&self) {
        drop(self.shared.lock.lock().take());
    }

    /// The storage underneath: for backups, copies, figures. Its tables are the SQL engine's, in a
    /// form of its own.
    #[must_use]
    pub fn storage(&self) -> &crate::Database {
        self.shared.engine.local_store().expect("the library opens databases of this machine").database()
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("sql::Database").field("dir", &self.storage().path()).finish_non_exhaustive()
    }
}

fn from_storage(error: crate::Error) -> Error {
    colibri_sql::in_sql(error)
}

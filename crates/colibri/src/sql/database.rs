//! A directory opened for SQL: sessions of one process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use colibri_sql::{Engine, SqlState};

use super::{AsyncConnection, Connection, Error, Result};

/// The file that says which process has a database open for SQL.
const LOCK_FILE: &str = "sql.lock";
/// PostgreSQL's `object_in_use`.
const IN_USE: SqlState = SqlState("55006");

/// A database for SQL. Clones are the same database; it is closed when the last of them, and of its connections, is
/// dropped.
///
/// One process at a time has a database open for SQL; connections are many. Other processes may look at it with what
/// works on storage: `colibri check`, `stat`, `copy`, `backup`.
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

/// Fields are dropped in order: the database is closed before somebody else may open it.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    _lock: File,
}

impl Database {
    /// Opens a directory, and makes a database there if there is none. A commit returns when it is on disk.
    ///
    /// # Errors
    /// 55006 if it is open for SQL already, 58030 and others of the storage.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(dir, &crate::Options::new())
    }

    /// As [`Database::open`], with the options of the storage: the durability of commits, above all.
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
        let lock = lock(storage.path())?;
        let engine = Engine::open(storage)?;
        Ok(Self { shared: Arc::new(Shared { engine, _lock: lock }) })
    }

    /// A connection, of the user `colibri`.
    #[must_use]
    pub fn connect(&self) -> Connection {
        self.connect_as("colibri")
    }

    /// A connection of a user, whose name `current_user` gives. There are no privileges: any user may do everything.
    #[must_use]
    pub fn connect_as(&self, user: &str) -> Connection {
        Connection::new(&self.shared, user)
    }

    /// A connection whose calls are futures.
    #[must_use]
    pub fn connect_async(&self) -> AsyncConnection {
        AsyncConnection::new(self.connect())
    }

    /// The storage underneath: for backups, copies, figures. Its tables are the SQL engine's, in a form of its own.
    #[must_use]
    pub fn storage(&self) -> &crate::Database {
        self.shared.engine.store().database()
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("sql::Database").field("dir", &self.storage().path()).finish_non_exhaustive()
    }
}

fn from_storage(error: crate::Error) -> Error {
    colibri_txn::Error::Storage(error).into()
}

/// Takes the advisory lock of a directory, which goes away with the file, and with the process.
fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK_FILE);
    let failed = |error: std::io::Error| Error::new(SqlState::IO_ERROR, format!("{}: {error}", path.display()));
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            // Only to say who it is: if that cannot be read, the message says less.
            _ = file.read_to_string(&mut owner);
            let who = match owner.trim() {
                "" => "by another process".to_owned(),
                owner if owner == std::process::id().to_string() => "by this process".to_owned(),
                owner => format!("by process {owner}"),
            };
            return Err(Error::new(IN_USE, format!("{} is open for SQL {who}", dir.display()))
                .hint("One process at a time can have a database open for SQL; its connections are many."));
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let write = |file: &mut File| -> std::io::Result<()> {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    write(&mut file).map_err(failed)?;
    Ok(file)
}

//! A directory opened for SQL, by this process or as a guest of another.
//!
//! Invariants:
//! 1. The process that has the directory's lock sets `own`, and never unsets it.
//! 2. While `own` is not set, each connection is a session of another process.
//! 3. If that process has ended, the next call of `connect` takes the lock and opens the database.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use colibri_sql::catalog::{Catalog, store_error::fetched_now};
use colibri_sql::{DirectoryLock, Engine, InSql as _, SqlState};
use colibri_txn::{Begin, LocalStore, Store as _};
use parking_lot::Mutex;

use super::processes::{Door, Entered, Entrance, Guest, close_in_child, enter};
use super::{AsyncConnection, Connection, Error, Result};

/// The user of a connection that names none.
const USER: &str = "colibri";

/// A database for SQL. Clones are the same database; it is closed when the last of them, and of its
/// connections, is dropped.
///
/// The first process that opens a directory has the database; processes that open it meanwhile
/// connect to the first through a socket in the directory, and everything works there as here. When
/// the first process closes the database or ends, its connections elsewhere end with the error 08006
/// (40003 for a commit whose outcome is not known), and the next [`Database::connect`] of any process
/// opens the database there. Within a process a directory is opened once.
///
/// ```
/// # let dir = tempfile::tempdir().expect("a directory");
/// use colibri::sql::Database;
/// let db = Database::open(dir.path())?;
/// let error = Database::open(dir.path()).expect_err("this process has it open");
/// assert_eq!(error.state().0, "55006");
/// # Ok::<(), colibri::sql::Error>(())
/// ```
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    own: OnceLock<Owned>,
    /// A thread holds this while it takes the directory's lock, or asks which process has it.
    entering: Mutex<Entering>,
    dir: PathBuf,
    options: crate::Options,
    /// Sockets of connections to another process.
    streams: Mutex<Vec<Weak<UnixStream>>>,
    /// What it is a fresh copy of.
    made_of: Option<MadeOf>,
}

/// What is needed to open the database here.
#[derive(Default)]
struct Entering {
    /// The storage, if it is open already.
    storage: Option<crate::Database>,
    /// A session that came of opening, for the first who connects.
    spare: Option<Box<Guest>>,
}

/// Fields are dropped in order: guests are sent away, and the database is closed before another
/// process may open it.
struct Owned {
    door: Option<Door>,
    engine: Arc<Engine>,
    lock: Mutex<Option<DirectoryLock>>,
}

/// The database that a fresh one is a copy of.
struct MadeOf {
    shared: Arc<Shared>,
    /// The branch's name.
    name: String,
}

/// What the names of fresh copies begin with.
const FRESH: &str = "(fresh) ";

impl Database {
    /// Opens a directory, and makes a database there if there is none. A commit returns when it is
    /// on disk.
    ///
    /// # Errors
    /// 55006 if this process has it open already, or another one that lets nobody in: a server, or
    /// one with another version of this library; 58030 and others of the storage.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(dir, &crate::Options::new())
    }

    /// As [`Database::open`], with the options of the storage: the durability of commits, above
    /// all. If another process has the database open, its options hold.
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
        let dir = dir.as_ref();
        // A lock is not made where there is no database.
        let storage = match DirectoryLock::has_been_taken(dir) {
            true => None,
            false => Some(crate::Database::open(dir, options).map_err(from_storage)?),
        };
        Self::enter(dir, options, storage)
    }

    /// On a database of the storage that is open already.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn with_storage(storage: crate::Database) -> Result<Self> {
        let path = storage.path().to_owned();
        Self::enter(&path, &crate::Options::new(), Some(storage))
    }

    fn enter(dir: &Path, options: &crate::Options, storage: Option<crate::Database>) -> Result<Self> {
        // The process may go to another directory before it needs this again.
        let dir = std::path::absolute(dir)
            .map_err(|error| Error::new(SqlState::IO_ERROR, format!("{}: {error}", dir.display())))?;
        let shared = Shared {
            own: OnceLock::new(),
            entering: Mutex::new(Entering { storage, spare: None }),
            dir,
            options: options.clone(),
            streams: Mutex::default(),
            made_of: None,
        };
        let spare = shared.enter(USER)?;
        shared.entering.lock().spare = spare;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A connection, of the user `colibri`.
    #[must_use]
    pub fn connect(&self) -> Connection {
        self.connect_as(USER)
    }

    /// A connection of a user, whose name `current_user` gives. There are no privileges: any user
    /// may do everything. If another process had the database open and is gone, this one opens it;
    /// if that fails, the connection's first call says why.
    #[must_use]
    pub fn connect_as(&self, user: &str) -> Connection {
        self.try_connect_as(user).unwrap_or_else(|error| Connection::lost(error, Arc::clone(&self.shared)))
    }

    /// As [`Database::connect_as`], with the error at once.
    ///
    /// # Errors
    /// As [`Database::open`]. In the process that has the database there are none.
    pub fn try_connect_as(&self, user: &str) -> Result<Connection> {
        let shared = &self.shared;
        if shared.own.get().is_none()
            && let Some(guest) = shared.enter(user)?
        {
            return Ok(Connection::there_for(guest, Arc::clone(shared)));
        }
        let own = shared.own.get().ok_or_else(|| Error::internal("nobody has the database"))?;
        Ok(Connection::here_for(&own.engine, user, Some(Arc::clone(shared))))
    }

    /// A connection whose calls are futures.
    #[must_use]
    pub fn connect_async(&self) -> AsyncConnection {
        AsyncConnection::new(self.connect())
    }

    /// Whether this process has the database; otherwise its connections are sessions of another
    /// one.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.shared.own.get().is_some()
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.dir
    }

    /// A database of its own that begins as what is committed here, for a test or an experiment:
    /// in the same files, made in about a commit's time whatever the size, and gone with its last
    /// handle and connection. This database and other copies do not see what happens in it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// use colibri::sql::Database;
    /// let template = Database::open(dir.path())?;
    /// template.connect().batch("CREATE TABLE birds (name text); INSERT INTO birds VALUES ('bee')")?;
    /// let fresh = template.fresh()?;
    /// fresh.connect().batch("DROP TABLE birds")?;
    /// assert_eq!(template.connect().query("SELECT * FROM birds", ())?.len(), 1);
    /// # Ok::<(), colibri::sql::Error>(())
    /// ```
    ///
    /// A copy that is left when the process ends without ending it, goes when the directory is
    /// opened the next time.
    ///
    /// # Errors
    /// 0A000 if another process has the database; 55006 if it has transactions that are prepared
    /// (`PREPARE TRANSACTION`); those of a commit.
    pub fn fresh(&self) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let Some(own) = self.shared.own.get() else {
            let message = "a fresh copy is made only in the process that has the database";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        };
        let storage = own.storage()?;
        if !LocalStore::new(storage.clone()).prepared().in_sql()?.is_empty() {
            return Err(Error::new(SqlState("55006"), "the database has transactions that are prepared"));
        }
        let name = format!("{FRESH}{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let branch = storage.branch(&name).map_err(from_storage)?;
        // From here on the branch goes with this value.
        let shared = Shared {
            own: OnceLock::new(),
            entering: Mutex::default(),
            dir: self.shared.dir.clone(),
            options: self.shared.options.clone(),
            streams: Mutex::default(),
            made_of: Some(MadeOf { shared: Arc::clone(&self.shared), name }),
        };
        _ = shared.own.set(Owned { door: None, engine: Engine::open(branch)?, lock: Mutex::new(None) });
        Ok(Self { shared: Arc::new(shared) })
    }

    /// For a process that was forked while the database was open: closes this process's copies of
    /// the file whose lock keeps others out, and of the sockets, so that they end with the parent's.
    /// The database itself cannot be used, or closed, in such a process: forget it and its
    /// connections ([`std::mem::forget`]).
    pub fn leave_to_parent(&self) {
        if let Some(own) = self.shared.own.get() {
            if let Some(mut lock) = own.lock.try_lock() {
                drop(lock.take());
            }
            if let Some(door) = &own.door {
                door.leave_to_parent();
            }
        }
        // If a thread of the parent had this at the time, it stays locked.
        if let Some(streams) = self.shared.streams.try_lock() {
            let streams = streams.iter().filter_map(Weak::upgrade);
            close_in_child(streams.map(|stream| stream.as_raw_fd()));
        }
    }

    /// The storage underneath: for backups, copies, figures. Its tables are the SQL engine's, in a
    /// form of its own. If another process has the database, this opens the files beside it.
    ///
    /// # Errors
    /// Those of opening the files.
    pub fn storage(&self) -> Result<crate::Database> {
        if let Some(own) = self.shared.own.get() {
            return own.storage();
        }
        let storage = self.shared.storage(&mut self.shared.entering.lock())?;
        Ok(storage)
    }
}

impl Shared {
    /// The storage of a database that another process has, opened once.
    fn storage(&self, entering: &mut Entering) -> Result<crate::Database> {
        if let Some(storage) = &entering.storage {
            return Ok(storage.clone());
        }
        let storage = crate::Database::open(&self.dir, &self.options).map_err(from_storage)?;
        Ok(entering.storage.insert(storage).clone())
    }

    /// What is committed to the catalogue of a database that another process has.
    pub(super) fn catalog(&self) -> Result<Catalog> {
        let store = LocalStore::new(self.storage(&mut self.entering.lock())?);
        let mut txn = store.begin(Begin { read_only: true, newest: true, ..Begin::default() }).in_sql()?;
        fetched_now(|| Catalog::load(&mut txn))
    }

    /// A session in the process that has the database, or none if this one has it now.
    fn enter(&self, user: &str) -> Result<Option<Box<Guest>>> {
        let mut entering = self.entering.lock();
        if self.own.get().is_some() {
            return Ok(None);
        }
        if user == USER
            && let Some(spare) = entering.spare.take_if(|spare| spare.is_connected())
        {
            return Ok(Some(spare));
        }
        entering.spare = None;
        match enter(&self.dir, user)? {
            Entered::Owner(lock) => {
                let owned = self.own(lock, &mut entering)?;
                // Nobody else sets it while this has the mutex.
                _ = self.own.set(owned);
                Ok(None)
            }
            Entered::Guest(guest) => {
                let mut streams = self.streams.lock();
                streams.retain(|stream| stream.strong_count() > 0);
                streams.push(Arc::downgrade(guest.stream()));
                Ok(Some(guest))
            }
        }
    }

    /// Opens the database in this process.
    fn own(&self, lock: DirectoryLock, entering: &mut Entering) -> Result<Owned> {
        // From now on guests wait; without a socket, as on some file systems, nobody can be one.
        let entrance = Entrance::new(&self.dir).ok();
        let storage = self.storage(entering)?;
        // The engine has it from now on, so that it is closed before the lock is given up.
        entering.storage = None;
        drop_fresh(&storage)?;
        let engine = Engine::open(storage)?;
        let door = entrance.map(|entrance| Door::open(entrance, &engine)).transpose()?;
        Ok(Owned { door, engine, lock: Mutex::new(Some(lock)) })
    }
}

impl Owned {
    fn storage(&self) -> Result<crate::Database> {
        let local = self.engine.local_store().ok_or_else(|| Error::internal("a database of another machine"))?;
        Ok(local.database().clone())
    }
}

/// Drops the copies that a process has left which was killed.
fn drop_fresh(storage: &crate::Database) -> Result<()> {
    for branch in storage.branches().map_err(from_storage)? {
        if branch.name.starts_with(FRESH) {
            storage.drop_branch(&branch.name).map_err(from_storage)?;
        }
    }
    Ok(())
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The engine ends before its branch does.
        self.own.take();
        let Some(MadeOf { shared, name }) = &self.made_of else { return };
        if let Some(storage) = shared.own.get().and_then(|own| own.storage().ok()) {
            // Nobody can be told of an error. The branch goes when the directory is opened again.
            _ = storage.drop_branch(name);
        }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("sql::Database").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

fn from_storage(error: crate::Error) -> Error {
    colibri_sql::in_sql(error)
}

//! Environments: opening, flags, handles of databases, figures, copies.
//!
//! Thread safety: all of an environment may be called from any thread. A database's handle is a
//! number, its slot in `dbis`. A slot's sequence number changes whenever it is filled or emptied, so a
//! transaction notices that a handle it knows was closed.

use std::ffi::{CString, c_void};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use colibri_storage::{Database, Durability, Error, Options, Snapshot};
use parking_lot::Mutex;

use super::abi::{Code, MdbEnvInfo, Result, db_flag, env_flag};
use super::names;
use super::place::Place;
use super::table::{Db, Description};
use super::txn::Txn;
use crate::fork::forks;

/// The handle of the database that LMDB keeps its free pages in. Here it is always empty.
pub(crate) const FREE_DBI: u32 = 0;
/// The handle of the unnamed database.
pub(crate) const MAIN_DBI: u32 = 1;
const CORE_DBS: u32 = 2;

const MAPSIZE_DEFAULT: usize = 1 << 20;
const READERS_DEFAULT: u32 = 126;
/// Read transactions that have ended and are kept for the next ones.
const POOL_MAX: usize = 16;

static ENVS: AtomicU64 = AtomicU64::new(1);
/// A handle of a database.
struct Slot {
    db: Arc<Db>,
    /// The transaction that has opened it and has not ended: others do not see it yet. 0 for none.
    owner: u64,
}

/// How the storage was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A commit is durable by the log.
    Logged,
    /// A commit is a steady point.
    Steady,
    /// Commits become durable in the background, and at `mdb_env_sync`.
    Lazy,
}

/// An environment of C.
pub(crate) struct Env {
    /// Tells it from all others of this process.
    pub(crate) id: u64,
    flags: AtomicU32,
    mapsize: AtomicUsize,
    /// Pages that the entries may take: what the program has said; `u64::MAX` if it has not.
    pages_max: AtomicU64,
    maxdbs: AtomicU32,
    maxreaders: AtomicU32,
    pub(crate) userctx: AtomicPtr<c_void>,
    opened: OnceLock<Opened>,
    /// Threads whose read transaction was ended by another thread: see `txn`.
    pub(crate) ended_elsewhere: Mutex<Vec<usize>>,
}

pub(crate) struct Opened {
    db: Database,
    mode: Mode,
    path: CString,
    /// For `mdb_env_get_fd`.
    file: File,
    dbis: Mutex<Vec<Option<Slot>>>,
    /// Read transactions that are reset: LMDB counts their slots.
    idle: AtomicUsize,
    sequences: Box<[AtomicU32]>,
    #[expect(clippy::vec_box, reason = "a transaction keeps its address")]
    pool: Mutex<Vec<Box<Txn>>>,
    forks: u32,
}

impl Env {
    pub(crate) fn new() -> Self {
        Self {
            id: ENVS.fetch_add(1, Ordering::Relaxed),
            flags: AtomicU32::new(0),
            mapsize: AtomicUsize::new(MAPSIZE_DEFAULT),
            pages_max: AtomicU64::new(u64::MAX),
            maxdbs: AtomicU32::new(0),
            maxreaders: AtomicU32::new(READERS_DEFAULT),
            userctx: AtomicPtr::default(),
            opened: OnceLock::new(),
            ended_elsewhere: Mutex::default(),
        }
    }

    #[inline]
    pub(crate) fn opened(&self) -> Result<&Opened> {
        self.opened.get().ok_or(Code::INVAL)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.opened.get().is_some()
    }

    #[inline]
    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags() & flag != 0
    }

    // ---- before it is open ----

    /// The file grows by itself. A size that the program sets is a bound for what its entries take.
    pub(crate) fn set_mapsize(&self, bytes: usize) {
        const PAGE: usize = 4096;
        let bytes = if bytes == 0 && self.is_open() { self.file_bytes() } else { bytes };
        let bytes = bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes);
        self.mapsize.store(bytes, Ordering::Relaxed);
        // Two pages are those that say where all others are.
        self.pages_max.store((bytes / PAGE).saturating_sub(2) as u64, Ordering::Relaxed);
    }

    pub(crate) fn pages_max(&self) -> u64 {
        self.pages_max.load(Ordering::Relaxed)
    }

    pub(crate) fn set_maxdbs(&self, count: u32) -> Result<()> {
        if self.is_open() {
            return Err(Code::INVAL);
        }
        self.maxdbs.store(count, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn set_maxreaders(&self, count: u32) -> Result<()> {
        if self.is_open() || count == 0 {
            return Err(Code::INVAL);
        }
        self.maxreaders.store(count, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn maxreaders(&self) -> u32 {
        self.maxreaders.load(Ordering::Relaxed)
    }

    pub(crate) fn set_flags(&self, flags: u32, on: bool) -> Result<()> {
        if flags & !env_flag::CHANGEABLE != 0 {
            return Err(Code::INVAL);
        }
        if on {
            self.flags.fetch_or(flags, Ordering::Relaxed)
        } else {
            self.flags.fetch_and(!flags, Ordering::Relaxed)
        };
        Ok(())
    }

    // ---- opening ----

    pub(crate) fn open(&self, path: &Path, flags: u32, file_mode: u32) -> Result<()> {
        if self.is_open() || flags & !env_flag::ALL != 0 {
            return Err(Code::INVAL);
        }
        let flags = flags | self.flags();
        let opened = self.open_files(path, flags, file_mode)?;
        self.flags.store(flags, Ordering::Relaxed);
        self.opened.set(opened).map_err(|_| Code::INVAL)
    }

    fn open_files(&self, path: &Path, flags: u32, file_mode: u32) -> Result<Opened> {
        let read_only = flags & env_flag::RDONLY != 0;
        let place = Place::of(path, flags & env_flag::NOSUBDIR != 0)?;
        let making = if read_only { None } else { place.clear_for_new()? };
        let is_lazy = flags & env_flag::NOSYNC != 0
            || flags & (env_flag::WRITEMAP | env_flag::MAPASYNC) == env_flag::WRITEMAP | env_flag::MAPASYNC;
        // Those that have an environment open at the same time all use the log, or none does.
        let modes = if is_lazy { [Mode::Lazy, Mode::Logged] } else { [Mode::Logged, Mode::Steady] };
        let options = Options::new()
            .file_names(place.names.clone())
            .readers_max(self.maxreaders().clamp(1, 1 << 20))
            .read_only(read_only)
            .create(!read_only);
        let open = |mode: Mode| {
            let durability = match mode {
                Mode::Logged => Durability::Sync,
                Mode::Steady => Durability::SyncNoLog,
                Mode::Lazy => Durability::Lazy { bytes: 64 << 20, period: Duration::from_secs(1) },
            };
            Database::open(&place.dir, &options.clone().durability(durability))
        };
        let (db, mode) = match open(modes[0]) {
            Err(Error::DurabilityDiffers { .. }) => (open(modes[1])?, modes[1]),
            db => (db?, modes[0]),
        };
        if making.is_some() {
            let mode = file_mode & !umask();
            for path in [place.data(), place.lock()] {
                let permissions = std::fs::Permissions::from_mode(mode | 0o600 & file_mode);
                std::fs::set_permissions(path, permissions).map_err(|e| Code::of_io(&e))?;
            }
        }
        drop(making);
        let file = File::options()
            .read(true)
            .write(!read_only)
            .custom_flags(libc::O_CLOEXEC)
            .open(place.data())
            .map_err(|e| Code::of_io(&e))?;
        let main = {
            let snapshot = db.read()?;
            names::description(&mut names::In::Snapshot(&snapshot), None)?.unwrap_or_default()
        };
        let free = Description { flags: db_flag::INTEGERKEY, labels: false };
        let dbis = vec![
            Some(Slot { db: Arc::new(Db::new(None, "lmdb-free", free)), owner: 0 }),
            Some(Slot { db: Arc::new(Db::new(None, names::MAIN_TABLE, main)), owner: 0 }),
        ];
        let slots = CORE_DBS.saturating_add(self.maxdbs.load(Ordering::Relaxed)) as usize;
        Ok(Opened {
            db,
            mode,
            path: CString::new(path.as_os_str().as_bytes()).map_err(|_| Code::INVAL)?,
            file,
            dbis: Mutex::new(dbis),
            idle: AtomicUsize::new(0),
            sequences: (0..slots).map(|_| AtomicU32::new(0)).collect(),
            pool: Mutex::default(),
            forks: forks(),
        })
    }

    /// Ends the environment. A process that was forked while it was open has only a copy, which is
    /// left as it is.
    pub(crate) fn close(mut self) {
        let Some(opened) = self.opened.take() else { return };
        if opened.is_of_other_process() {
            std::mem::forget(opened);
            return;
        }
        let Opened { db, pool, .. } = opened;
        drop(pool);
        // Nobody is told: the function of C returns nothing.
        let _ = db.close();
    }

    // ---- transactions ----

    /// Whether a commit returns before its changes are durable.
    pub(crate) fn is_async(&self, txn_flags: u32) -> bool {
        let flags = self.flags();
        (flags | txn_flags) & env_flag::NOSYNC != 0
            || flags & env_flag::WRITEMAP != 0 && flags & env_flag::MAPASYNC != 0
    }

    /// A snapshot of what was committed last.
    #[inline]
    pub(crate) fn snapshot(&self, db: Database) -> Result<Snapshot<'static>> {
        // Commits that nobody waits for are seen nevertheless.
        Ok(if self.is_async(0) { db.into_read_newest() } else { db.into_read() }?)
    }

    pub(crate) fn commit(&self, txn: colibri_storage::WriteTxn, txn_flags: u32) -> Result<()> {
        let opened = self.opened()?;
        match (opened.mode, self.is_async(txn_flags)) {
            (Mode::Logged, true) => {
                let _not_awaited = txn.commit_ticket()?;
            }
            (Mode::Lazy, false) => {
                txn.commit()?;
                opened.db.sync()?;
            }
            _ => {
                txn.commit()?;
            }
        }
        Ok(())
    }

    pub(crate) fn sync(&self, force: bool) -> Result<()> {
        let opened = self.opened()?;
        if self.has(env_flag::RDONLY) {
            return Err(Code::ACCES);
        }
        if force || !self.has(env_flag::NOSYNC) {
            // What the log holds is durable already.
            match opened.mode {
                Mode::Logged => _ = opened.db.ticket(opened.db.newest_txn()).wait()?,
                Mode::Steady | Mode::Lazy => opened.db.sync()?,
            }
        }
        Ok(())
    }

    // ---- figures ----

    fn file_bytes(&self) -> usize {
        let length = self.opened.get().and_then(|opened| opened.file.metadata().ok()).map_or(0, |found| found.len());
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    pub(crate) fn info(&self) -> Result<MdbEnvInfo> {
        let opened = self.opened()?;
        let snapshot = opened.db.read()?;
        let (txn, pages) = (snapshot.txn().0, snapshot.page_count());
        drop(snapshot);
        Ok(MdbEnvInfo {
            mapaddr: std::ptr::null_mut(),
            mapsize: self.mapsize.load(Ordering::Relaxed).max(pages as usize * opened.db.page_size() as usize),
            last_pgno: pages.saturating_sub(1) as usize,
            last_txnid: txn as usize,
            maxreaders: self.maxreaders(),
            numreaders: (opened.db.readers().len() + opened.idle()) as u32,
        })
    }

    /// Copies the environment to a directory, or to a file, which must not be there.
    pub(crate) fn copy(&self, dest: &Path, compact: bool) -> Result<()> {
        let opened = self.opened()?;
        let dest = if self.has(env_flag::NOSUBDIR) {
            dest.to_owned()
        } else {
            let found = std::fs::metadata(dest).map_err(|e| Code::of_io(&e))?;
            if !found.is_dir() {
                return Err(Code(libc::ENOTDIR));
            }
            dest.join("data.mdb")
        };
        if dest.exists() {
            return Err(Code(libc::EEXIST));
        }
        let dir = dest.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        with_copy(&opened.db, dir, compact, |copy| std::fs::hard_link(copy, &dest).map_err(|e| Code::of_io(&e)))
    }

    /// Writes the environment to a descriptor of the program's.
    pub(crate) fn copy_onto(&self, out: &mut File, compact: bool) -> Result<()> {
        let opened = self.opened()?;
        with_copy(&opened.db, &std::env::temp_dir(), compact, |copy| {
            let mut copy = File::open(copy).map_err(|e| Code::of_io(&e))?;
            std::io::copy(&mut copy, out).map(|_| ()).map_err(|e| Code::of_io(&e))
        })
    }
}

/// Makes a copy of a database in a directory of its own below `dir`, which goes away afterwards.
fn with_copy(db: &Database, dir: &Path, compact: bool, then: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    static COPIES: AtomicU64 = AtomicU64::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let made: PathBuf = dir.join(format!(".colibri-copy.{}.{number}", std::process::id()));
    let result = db.copy_to(&made, compact).map_err(Code::from).and_then(|_| then(&made.join("data")));
    let _ = std::fs::remove_dir_all(&made);
    result
}

/// Which permissions new files do not get. Asking the system for it would change it for a moment.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim_ascii(), 8).ok()).unwrap_or(0o022)
}

impl Opened {
    pub(crate) fn is_of_other_process(&self) -> bool {
        self.forks != forks()
    }

    pub(crate) fn db(&self) -> &Database {
        &self.db
    }

    pub(crate) fn path(&self) -> &CString {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    // ---- handles of databases ----

    /// The sequence number of a slot; `None` if there is no such slot.
    #[inline]
    pub(crate) fn sequence(&self, dbi: u32) -> Option<u32> {
        self.sequences.get(dbi as usize).map(|sequence| sequence.load(Ordering::Acquire))
    }

    /// The database of a handle, for a transaction that sees what these have opened.
    pub(crate) fn db_at(&self, dbi: u32, sees: impl Fn(u64) -> bool) -> Result<Arc<Db>> {
        let dbis = self.dbis.lock();
        let slot = dbis.get(dbi as usize).and_then(Option::as_ref).ok_or(Code::INVAL)?;
        if slot.owner == 0 || sees(slot.owner) { Ok(slot.db.clone()) } else { Err(Code::INVAL) }
    }

    pub(crate) fn find(&self, name: &[u8], sees: impl Fn(u64) -> bool) -> Option<u32> {
        let dbis = self.dbis.lock();
        let is_it = |slot: &Slot| slot.db.name.as_deref() == Some(name) && (slot.owner == 0 || sees(slot.owner));
        let at = dbis.iter().position(|slot| slot.as_ref().is_some_and(is_it))?;
        Some(at as u32)
    }

    /// Hands a handle to another transaction, or, with 0, to all.
    pub(crate) fn hand_over(&self, dbi: u32, owner: u64) {
        if let Some(Some(slot)) = self.dbis.lock().get_mut(dbi as usize) {
            slot.owner = owner;
        }
    }

    /// Fails if all slots for named databases are taken.
    pub(crate) fn expect_room(&self) -> Result<()> {
        let dbis = self.dbis.lock();
        let has_room = dbis.len() < self.sequences.len() || dbis.iter().any(Option::is_none);
        if has_room { Ok(()) } else { Err(Code::DBS_FULL) }
    }

    pub(crate) fn add(&self, db: Db, owner: u64) -> Result<u32> {
        let mut dbis = self.dbis.lock();
        let at = dbis.iter().position(Option::is_none).unwrap_or(dbis.len());
        let sequence = self.sequences.get(at).ok_or(Code::DBS_FULL)?;
        let slot = Some(Slot { db: Arc::new(db), owner });
        if at == dbis.len() {
            dbis.push(slot)
        } else {
            dbis[at] = slot
        }
        sequence.fetch_add(1, Ordering::Release);
        Ok(at as u32)
    }

    pub(crate) fn close_dbi(&self, dbi: u32) {
        let mut dbis = self.dbis.lock();
        if dbi >= CORE_DBS
            && let Some(slot) = dbis.get_mut(dbi as usize)
            && slot.take().is_some()
        {
            self.sequences[dbi as usize].fetch_add(1, Ordering::Release);
        }
    }

    // ---- ended read transactions ----

    pub(crate) fn count_idle(&self, comes: bool) {
        if comes {
            self.idle.fetch_add(1, Ordering::Relaxed)
        } else {
            self.idle.fetch_sub(1, Ordering::Relaxed)
        };
    }

    pub(crate) fn idle(&self) -> usize {
        self.idle.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn take_pooled(&self) -> Option<Box<Txn>> {
        self.pool.lock().pop()
    }

    #[inline]
    pub(crate) fn pool(&self, txn: Box<Txn>) {
        let mut pool = self.pool.lock();
        if pool.len() < POOL_MAX {
            pool.push(txn);
        }
    }
}

//! Opening, taking the writer's lock, closing: the life of a database in one process.
//!
//! Order of locks: the workspace, then the writer's lock between processes, then a maker of steady
//! points. While a steady point is written, its maker needs neither of the first two (see
//! `steady`).
//!
//! A commit publishes a root. The log or a steady point makes a published root survive a crash of
//! the system.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::agreement::Agreement;
use crate::branch::OpenBranch;
use crate::disk::{Disk, FileDisk};
use crate::encrypted_disk::EncryptedDisk;
use crate::encryption::{Cipher, EncryptionKey};
use crate::flusher::{Flusher, LogFlusher, Pace, Reaper};
use crate::lock_file::{Attached, Identity, Mode, ReaderInfo, Shared};
use crate::log::{FileLog, Log, LogFile};
use crate::meta::Meta;
use crate::options::{Durability, FreeSpace, Options};
use crate::page::{PageId, TxnId};
use crate::pager::Pager;
use crate::past::Past;
use crate::reclaim::{Begin, LOOK_AGAIN};
use crate::recovery::Recovery;
use crate::root::Root;
use crate::slow_readers::SlowReaders;
use crate::snapshot::Snapshot;
use crate::space::{Space, Trim};
use crate::steady::Makers;
use crate::ticket::Ticket;
use crate::trace::{Tracer, WriteKind, WriteTrace};
use crate::txn::WriteTxn;
use crate::workspace::{Workspace, WorkspaceGuard, Writers};
use crate::{Error, Result};

mod files;
pub(crate) use files::random_id;

/// The log is long when it holds half as many bytes as the data, within these bounds. A longer log
/// means fewer steady points, and a page that changes often is written once per steady point. But
/// the log takes disk space twice, and replaying 512 MiB takes up to four seconds.
const LOG_BYTES: std::ops::RangeInclusive<u64> = 4 << 20..=512 << 20;
/// At this multiple of the bound of a steady point, commits make the steady point
/// themselves.
const OVERDUE: u64 = 4;
/// In `Sync` mode a steady point is made when nothing was committed for this fraction of the
/// longest time, or for twice that.
const QUIET_DIVISOR: u32 = 6;
/// The number of the next opening of a database by this process.
static OPENINGS: AtomicU64 = AtomicU64::new(1);

/// An open database. Clones refer to the same one; dropping the last makes a final steady point and
/// closes it.
///
/// A thread that holds a write transaction waits for itself if it calls [`Database::write`],
/// [`Database::sync`], [`Database::check`] or [`Database::close`].
#[derive(Clone)]
pub struct Database(pub(crate) Arc<Handle>);

/// The open database and the threads that work for it: dropping it closes the database. Or one of
/// its branches, which keeps the handle of the main branch; dropping it does no more.
pub(crate) struct Handle {
    pub(crate) core: Arc<Core>,
    /// Tells this opening from all others of this process, those of branches among them.
    pub(crate) opening: u64,
    /// `None` for the main branch.
    pub(crate) branch: Option<OpenBranch>,
    /// Started when recovery is over: a steady point in the middle of it would drop the rest of the
    /// log.
    flusher: OnceLock<Flusher>,
    log_flusher: Mutex<Option<LogFlusher>>,
    reaper: Mutex<Option<Reaper>>,
    this: Weak<Handle>,
    recovery: OnceLock<Recovery>,
    closed: bool,
}

/// What transactions, snapshots and the flusher share.
pub(crate) struct Core {
    pub(crate) pager: Pager,
    pub(crate) shared: Shared,
    pub(crate) durability: Durability,
    pub(crate) free_space: FreeSpace,
    pub(crate) path: PathBuf,
    pub(crate) read_only: bool,
    /// The writer's side. In a read-only database it is never used.
    writers: Writers,
    pub(crate) log: Log,
    /// Seals what is written, if the database is encrypted.
    pub(crate) cipher: Option<Arc<Cipher>>,
    /// Others agree on commits.
    pub(crate) agreement: Option<Agreement>,
    /// From how many bytes on the log is long; `None` to go by the size of the data.
    log_bytes: Option<u64>,
    log_period: Duration,
    /// Snapshots see commits that are not durable yet.
    pub(crate) weak_reads: bool,
    pub(crate) makers: Makers,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) slow_readers: SlowReaders,
    /// It ends with the process, and nothing of it is flushed.
    temporary: bool,
    /// States that are kept after they are no longer the newest.
    pub(crate) past: Past,
    /// A flush failed, or the files are not what this process takes them for.
    poisoned: AtomicBool,
    /// The last steady point known to this process, and which meta page holds it.
    pub(crate) last_meta: Mutex<(Meta, u32)>,
}

impl Database {
    /// Opens the database in a directory, creating it if the options allow.
    ///
    /// Opening reads the same few pages whatever the size. After a crash of a process, the database
    /// is at its last commit. After a crash of the system, it is at its last durable commit; the
    /// first process to open it replays the log for that (see [`Database::recovery`]).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use colibri_storage::{Database, Options, TableKind};
    /// let db = Database::open(dir.path(), &Options::new())?;
    /// let mut txn = db.write()?;
    /// let birds = txn.create_table("birds", TableKind::Plain)?;
    /// txn.put(&birds, b"colibri", b"80 beats a second")?;
    /// txn.commit()?;
    /// assert_eq!(db.read()?.get(&birds, b"colibri")?, Some(&b"80 beats a second"[..]));
    /// # Ok::<(), colibri_storage::Error>(())
    /// ```
    pub fn open(dir: impl AsRef<Path>, options: &Options) -> Result<Self> {
        options.validate()?;
        let open = |options: &Options| {
            let (core, first) = Core::open(dir.as_ref(), options)?;
            Self::with_core(core, first)
        };
        match open(options) {
            Err(e @ Error::NeedsRecovery { .. }) if options.read_only => {
                // Recovering means writing. Where that is not possible, the first error says more.
                let writer = open(&options.clone().read_only(false).create(false));
                let recovery = writer.and_then(|db| {
                    let recovery = db.recovery();
                    db.close().map(|()| recovery)
                });
                let recovery = recovery.map_err(|_| e)?;
                let db = open(options)?;
                let _ = db.0.recovery.set(recovery);
                Ok(db)
            }
            result => result,
        }
    }

    /// Recovers if this is the first process, and lets others in.
    fn with_core(core: Core, first: bool) -> Result<Self> {
        let db = Self(Handle::new(Arc::new(core), None));
        if first {
            // Closing would delete the log, which has not been replayed.
            let recovery = db.replay().inspect_err(|_| db.0.core.give_up())?;
            if recovery != Recovery::default() {
                let _ = db.0.recovery.set(recovery);
            }
        }
        let pace = match db.0.core.durability {
            _ if db.0.core.read_only => None,
            Durability::Lazy { period, .. } => Some(Pace { longest: period, quiet: period }),
            Durability::Sync | Durability::Agreed => {
                let longest = db.0.core.log_period;
                Some(Pace { longest, quiet: longest / QUIET_DIVISOR })
            }
            Durability::SyncNoLog | Durability::NoSync => None,
        };
        if let Some(pace) = pace {
            let flusher = Flusher::start(&db.0.core, pace)?;
            if db.0.core.shared.root().txn > db.0.core.shared.steady() {
                // What a dead process left unsteady becomes steady in time, too.
                flusher.committed(false);
            }
            let _ = db.0.flusher.set(flusher);
        }
        let core = &db.0.core;
        // What a dead process left may not be durable, and must not be seen before it is.
        if first && matches!(core.durability, Durability::Sync | Durability::SyncNoLog) && !core.read_only {
            core.sync()?;
        }
        core.shared.open_gate();
        if !core.read_only && core.agreement.is_none() && core.has_to_reap().unwrap_or(false) {
            db.0.ask_for_reaping()?;
        }
        if let Some(retention) = db.retention() {
            match db.set_retention(Some(retention)) {
                // It opens all the same; the next steady point tries again.
                Err(Error::DiskFull { .. } | Error::DatabaseFull { .. }) => {}
                set => set?,
            }
        }
        Ok(db)
    }

    /// What opening the database replayed after a crash.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        self.0.recovery.get().copied().unwrap_or_default()
    }

    /// The newest visible state, for reading. Never waits. There can be as many snapshots as there
    /// are reader slots.
    #[inline]
    pub fn read(&self) -> Result<Snapshot<'_>> {
        Snapshot::borrowed(&self.0)
    }

    /// As [`Database::read`], for a snapshot that outlives this handle, for example in another
    /// thread.
    pub fn read_owned(&self) -> Result<Snapshot<'static>> {
        Snapshot::owned(Arc::clone(&self.0))
    }

    /// As [`Database::read_owned`], but always the newest committed state, which may not be durable
    /// yet. A caller that tells others what it holds waits for its ticket first: see
    /// [`Database::ticket`].
    pub fn read_newest_owned(&self) -> Result<Snapshot<'static>> {
        Snapshot::weak(Arc::clone(&self.0))
    }

    /// As [`Database::read_owned`], but the snapshot takes this handle, and
    /// [`Snapshot::into_database`] gives it back. So it does not change the count of handles, a
    /// word that all threads share, which matters for frequent short reads.
    pub fn into_read(self) -> Result<Snapshot<'static>> {
        Snapshot::owned(self.0)
    }

    /// As [`Database::read_newest_owned`]; the snapshot takes this handle.
    pub fn into_read_newest(self) -> Result<Snapshot<'static>> {
        Snapshot::weak(self.0)
    }

    /// The transaction whose state [`Database::read`] gives at this moment.
    #[inline]
    #[must_use]
    pub fn readable_txn(&self) -> TxnId {
        let core = &self.0.core;
        if core.weak_reads { core.shared.newest() } else { core.shared.visible() }
    }

    /// The newest committed transaction, be it durable or not.
    #[inline]
    #[must_use]
    pub fn newest_txn(&self) -> TxnId {
        self.0.core.shared.newest()
    }

    /// A ticket for a committed transaction, which tells when it is durable. For a number that is
    /// not used yet, a ticket for the newest transaction.
    pub fn ticket(&self, txn: TxnId) -> Ticket {
        Ticket::new(Arc::clone(&self.0), txn.min(self.newest_txn()))
    }

    /// Starts the write transaction; waits while another is active, in this process or another.
    pub fn write(&self) -> Result<WriteTxn> {
        self.begin(true)
    }

    /// As [`Database::write`], but [`Error::Busy`] instead of waiting. A background thread that
    /// makes a steady point, or waits to make one, counts as a writer.
    pub fn try_write(&self) -> Result<WriteTxn> {
        self.begin(false)
    }

    fn begin(&self, wait: bool) -> Result<WriteTxn> {
        /// Releases the writer's lock in any case: a callback for slow readers may panic.
        struct Writing<'a>(&'a Core, Option<WorkspaceGuard>);

        impl Drop for Writing<'_> {
            fn drop(&mut self) {
                if let Some(guard) = self.1.take() {
                    self.0.unlock_writer(guard);
                }
            }
        }

        let core = &*self.0.core;
        loop {
            let mut writing = Writing(core, Some(core.lock_writer(wait)?));
            let guard = writing.1.as_mut().expect("the lock was just taken");
            if let Begin::Now = core.reclaim_for_writing(guard)?
                && let Some(guard) = writing.1.take()
            {
                return WriteTxn::new(Arc::clone(&self.0), guard);
            }
            drop(writing);
            if !wait {
                return Err(Error::Busy);
            }
            // Sleeps without the writer's lock, which steady points need.
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Makes a steady point: everything committed so far is on disk when this returns.
    pub fn sync(&self) -> Result<()> {
        self.0.core.sync()
    }

    /// Live snapshots of all processes.
    #[must_use]
    pub fn readers(&self) -> Vec<ReaderInfo> {
        let core = &self.0.core;
        core.shared.release_dead_readers();
        match core.workspace().try_lock() {
            Some(work) if core.shared.is_last_writer() => core.readers_with(&work),
            _ => core.shared.reader_infos(),
        }
    }

    /// Releases the snapshots of processes that have ended: how many there were. Writers do it by
    /// themselves when such a snapshot holds back space.
    pub fn release_dead_readers(&self) -> usize {
        let shared = &self.0.core.shared;
        let before = shared.reader_infos().len();
        if shared.release_dead_readers() { before.saturating_sub(shared.reader_infos().len()) } else { 0 }
    }

    /// The bytes that a snapshot of any process holds back: the pages that it sees and that the
    /// newest visible state does not, as of this call. `None` if the snapshot is gone, or if there
    /// is no reader slot behind its own for another reader.
    ///
    /// A page that several snapshots see counts for each of them. So this is the most that can
    /// become free when this snapshot is dropped: pages that other snapshots see stay, and pages of
    /// the last steady point stay until the next one.
    ///
    /// Costs one bit of memory per page, and reading the branches in which the two states differ;
    /// leaves are read only of tables with large values. Writers are not disturbed. While this runs
    /// there is one more snapshot of that state.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use colibri_storage::{Database, Options, TableKind};
    /// # let db = Database::open(dir.path(), &Options::new())?;
    /// let old = db.read()?;
    /// let mut txn = db.write()?;
    /// txn.create_table("birds", TableKind::Plain)?;
    /// txn.commit()?;
    /// let other = Database::open(dir.path(), &Options::new().read_only(true))?;
    /// for reader in other.readers() {
    ///     println!("{} holds {:?} bytes", reader.process, other.bytes_held(&reader)?);
    /// }
    /// # drop(old);
    /// # Ok::<(), colibri_storage::Error>(())
    /// ```
    pub fn bytes_held(&self, reader: &ReaderInfo) -> Result<Option<u64>> {
        let newest = Snapshot::borrowed(self.0.main())?;
        let Some(old) = Snapshot::beside(self.0.main(), reader)? else { return Ok(None) };
        if old.txn() >= newest.txn() {
            return Ok(Some(0));
        }
        let state = |snapshot: &Snapshot<'_>| (snapshot.bounds(), snapshot.root());
        let pages = crate::walk::pages_gone(&self.0.core.pager, state(&old), state(&newest))?;
        Ok(Some(pages * self.0.core.pager.page_size() as u64))
    }

    /// Whether it was opened only to be read.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.0.core.read_only
    }

    /// Whether the database is encrypted: see [`Options::encryption_key`].
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.0.core.cipher.is_some()
    }

    /// Replaces the key of an encrypted database. From then on it is opened with the new key only.
    /// Nothing is encrypted anew: the key that the data are encrypted with stays, and only how it is
    /// kept in the file changes. So copies and backups that were made before still have the old key.
    pub fn set_encryption_key(&self, key: &EncryptionKey) -> Result<()> {
        let core = &self.0.core;
        if core.read_only {
            return Err(Error::ReadOnly);
        }
        core.ensure_usable()?;
        let cipher = core.cipher.as_ref().ok_or_else(|| Error::NotEncrypted { path: core.path.clone() })?;
        let mut last = core.last_meta.lock();
        cipher.rewrap(key)?;
        core.rewrite_meta_pages(&mut last)
    }

    /// Page size in bytes.
    #[must_use]
    pub fn page_size(&self) -> u32 {
        self.0.core.pager.page_size() as u32
    }

    /// The longest key in bytes. In tables with many values a key, key and value count together.
    #[must_use]
    pub fn key_bytes_max(&self) -> usize {
        crate::node::key_bytes_max(self.0.core.pager.page_size())
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.core.path
    }

    /// Makes a final steady point and reports how that went. Dropping does the same without a
    /// report. Snapshots and clones that are still there, and handles of branches, keep the files open.
    /// Of a branch only the handle goes.
    pub fn close(self) -> Result<()> {
        match Arc::try_unwrap(self.0) {
            Ok(mut handle) => handle.finish(),
            Err(handle) if handle.core.read_only || handle.branch.is_some() => Ok(()),
            Err(handle) => handle.core.sync(),
        }
    }
}

#[cfg(any(test, feature = "simulation"))]
impl Database {
    /// A database on another disk than a file. Processes that share its lock file share the disk.
    pub(crate) fn on_disk(
        disk: Box<dyn crate::disk::Disk>,
        log: [Box<dyn LogFile>; 2],
        lock: &Path,
        options: &Options,
        page_size: u32,
        metas: &[Vec<u8>],
    ) -> Result<Self> {
        let cipher = files::cipher_of(metas, &options.encryption, disk.path())?;
        let identity = Identity { boot_id: [0; 2], inode: 0, device: 0 };
        let mode = Some(mode_of(options.durability));
        let (shared, attached) = Shared::attach(lock, identity, options.readers_max, mode)?;
        let disk = over(disk, cipher.as_ref(), page_size)?;
        let pager = Pager::new(disk, page_size, options.checksums);
        pager.cold.pretend(options.seems_cold);
        let (core, first) = Core::start(pager, log, cipher, shared, attached, Path::new("simulated"), options)?;
        Self::with_core(core, first)
    }

    pub(crate) fn image_of_new(page_size: u32, key: Option<&EncryptionKey>) -> Result<Vec<u8>> {
        let cipher = key.map(Cipher::create).transpose()?;
        Ok(files::new_image(page_size, cipher.as_ref()))
    }
}

#[cfg(test)]
impl Database {
    /// Plays the death of the process: nothing is flushed, and nothing is written any more.
    pub(crate) fn die(self) {
        self.0.core.give_up();
        if let Some(agreement) = &self.0.core.agreement {
            agreement.fail();
        }
        // Other threads still run, and would wait for what this one holds.
        self.0.core.shared.release_of_this_thread();
        if let Some(reaper) = self.0.main().reaper.lock().take() {
            reaper.stop();
        }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.0.core.path)
            .field("durability", &self.0.core.durability)
            .finish()
    }
}

impl Handle {
    pub(crate) fn new(core: Arc<Core>, branch: Option<OpenBranch>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            core,
            opening: OPENINGS.fetch_add(1, Ordering::Relaxed),
            branch,
            flusher: OnceLock::new(),
            log_flusher: Mutex::default(),
            reaper: Mutex::default(),
            this: this.clone(),
            recovery: OnceLock::new(),
            closed: false,
        })
    }

    /// The handle of the main branch, which has the threads.
    #[inline]
    pub(crate) fn main(&self) -> &Self {
        self.branch.as_ref().map_or(self, OpenBranch::main)
    }

    /// Tells the flusher of a commit, and whether it has reached a bound of the mode.
    pub(crate) fn committed(&self, over: bool) {
        if let Some(flusher) = self.main().flusher.get() {
            flusher.committed(over);
        }
    }
}

impl Handle {
    /// The handle as its owners hold it. The caller borrows it from one of them.
    pub(crate) fn to_arc(&self) -> Arc<Self> {
        self.this.upgrade().expect("somebody owns a handle that is borrowed")
    }

    /// Has the log flushed in the background.
    pub(crate) fn ask_for_flush(&self) -> Result<()> {
        let mut flusher = self.main().log_flusher.lock();
        if flusher.is_none() {
            *flusher = Some(LogFlusher::start(&self.core)?);
        }
        if let Some(flusher) = &*flusher {
            flusher.ask();
        }
        Ok(())
    }

    /// Has what was dropped reaped in the background.
    pub(crate) fn ask_for_reaping(&self) -> Result<()> {
        let main = self.main();
        let mut reaper = main.reaper.lock();
        match &*reaper {
            Some(reaper) => reaper.ask(),
            None => {
                let started = Reaper::start(&self.core, main.flusher.get().map(Flusher::signal))?;
                _ = self.core.past.reaper.set(started.signal());
                *reaper = Some(started);
            }
        }
        Ok(())
    }
}

impl Handle {
    /// Closes the database, once.
    fn finish(&mut self) -> Result<()> {
        if self.branch.is_some() {
            return Ok(());
        }
        if self.core.agreement.is_some() && self.core.shared.visible() < self.core.shared.newest() {
            // Nobody is left who could say that others have agreed on the newest commits.
            self.core.poison();
        }
        // Only one of several threads that ask comes here, and nobody asks any more.
        if let Some(reaper) = self.reaper.get_mut().take() {
            reaper.stop();
        }
        if let Some(flusher) = self.log_flusher.get_mut().take() {
            flusher.stop();
        }
        if let Some(flusher) = self.flusher.take() {
            flusher.stop();
        }
        if self.core.read_only || std::mem::replace(&mut self.closed, true) { Ok(()) } else { self.core.close() }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // There is nobody to report an error to. `Database::close` reports it, and the next opening
        // finds what is durable.
        let _ = self.finish();
    }
}

impl Core {
    fn open(dir: &Path, options: &Options) -> Result<(Self, bool)> {
        let data_path = dir.join(&options.file_names.data);
        let found = files::find_or_create(dir, &data_path, options)?;
        let identity = Identity::of(&found.file).map_err(|e| Error::io("cannot look at", &data_path, e))?;
        let lock_path = dir.join(&options.file_names.lock);
        let mode = (!options.read_only).then_some(mode_of(options.durability));
        let (shared, attached) = match Shared::attach(&lock_path, identity, options.readers_max, mode) {
            Err(Error::Io { ref source, .. }) if options.read_only && is_refusal(source) => {
                Shared::ensure_nobody_writes(&lock_path, dir, identity)?;
                (Shared::private(&lock_path, identity, options.readers_max)?, Attached::First(None))
            }
            // Said of the durability, where there can be no second process anyway.
            Err(Error::DurabilityDiffers { .. }) if found.cipher.is_some() => {
                return Err(Error::EncryptedInUse { path: dir.into() });
            }
            attached => attached?,
        };
        let length = found.file.metadata().map_err(|e| Error::io("cannot read the size of", &data_path, e))?.len();
        let fair = if options.is_size_given { u64::MAX } else { crate::disk::fair_share(length) };
        let disk = FileDisk::new(found.file, data_path, options.size_max.min(fair), found.writable)?;
        let disk = over(Box::new(disk.temporary(options.temporary)), found.cipher.as_ref(), found.page_size)?;
        let pager = Pager::new(disk, found.page_size, options.checksums);
        pager.cold.pretend(options.seems_cold);
        let log = FileLog::pair(dir, &options.file_names.log)?;
        let started = Self::start(pager, log, found.cipher, shared, attached, dir, options)?;
        if options.temporary {
            std::fs::remove_dir_all(dir).map_err(|e| Error::io("cannot remove", dir, e))?;
        }
        Ok(started)
    }

    /// Puts the parts together, and finds the newest state if no other process has. The gate stays
    /// closed.
    fn start(
        pager: Pager,
        log: [Box<dyn LogFile>; 2],
        cipher: Option<Arc<Cipher>>,
        shared: Shared,
        attached: Attached,
        dir: &Path,
        options: &Options,
    ) -> Result<(Self, bool)> {
        if cipher.is_some() && matches!(attached, Attached::Joined) {
            return Err(Error::EncryptedInUse { path: dir.into() });
        }
        let core = Self {
            pager,
            shared,
            durability: options.durability,
            free_space: options.free_space,
            path: dir.to_owned(),
            read_only: options.read_only,
            writers: Writers::new(Workspace::new(Space::empty()), options.durability),
            log: Log::new(log, cipher.clone()),
            cipher,
            agreement: options.proposer.clone().map(Agreement::new),
            log_bytes: options.log_bytes,
            log_period: options.log_period,
            weak_reads: options.weak_reads,
            makers: Makers::default(),
            tracer: options.tracer.clone(),
            slow_readers: options.slow_readers.clone(),
            temporary: options.temporary,
            past: Past::new(options.retention.filter(|_| !options.read_only), options.clock.clone()),
            poisoned: AtomicBool::new(false),
            last_meta: Mutex::new((Meta::default(), 0)),
        };
        let first = match attached {
            Attached::First(left) => {
                core.recover(left)?;
                true
            }
            Attached::Joined => {
                core.ensure_long_enough()?;
                false
            }
        };
        Ok((core, first))
    }

    /// For a process that joins others: refuses a file that somebody made shorter while it was
    /// open. Touching a missing page would end the process.
    fn ensure_long_enough(&self) -> Result<()> {
        let mut root = self.shared.root();
        loop {
            self.pager.disk().refresh()?;
            if u64::from(root.page_count) * self.pager.page_size() as u64 <= self.pager.disk().allocated() {
                return Ok(());
            }
            // The writer may have made the file shorter since the root was read.
            let newer = self.shared.root();
            if newer.txn == root.txn {
                return Err(Error::Corrupted {
                    page: PageId(root.page_count - 1),
                    reason: "the file ends before it, and others have it open",
                });
            }
            root = newer;
        }
    }

    /// Whether commits go to the log beside the data.
    pub(crate) fn logged(&self) -> bool {
        self.durability == Durability::Sync
    }

    /// Whether the mode's bound in bytes makes a steady point due, with `new_pages` new pages.
    pub(crate) fn is_over(&self, root: &Root, new_pages: u64) -> bool {
        match self.durability {
            Durability::Lazy { bytes, .. } => new_pages * self.pager.page_size() as u64 >= bytes,
            Durability::Sync | Durability::Agreed => root.log.offset >= self.log_bytes(root),
            Durability::SyncNoLog | Durability::NoSync => false,
        }
    }

    /// Whether so much is unsteady that a commit has to make the steady point itself.
    pub(crate) fn is_overdue(&self, root: &Root, new_pages: u64) -> bool {
        match self.durability {
            Durability::Lazy { bytes, .. } => {
                new_pages * self.pager.page_size() as u64 >= bytes.saturating_mul(OVERDUE)
            }
            Durability::Sync => root.log.offset >= OVERDUE * self.log_bytes(root),
            Durability::SyncNoLog | Durability::NoSync | Durability::Agreed => false,
        }
    }

    fn log_bytes(&self, root: &Root) -> u64 {
        let data = u64::from(root.page_count) * self.pager.page_size() as u64;
        self.log_bytes.unwrap_or((data / 2).clamp(*LOG_BYTES.start(), *LOG_BYTES.end()))
    }

    /// Waits until a committed transaction is durable, flushing the log if nobody else does.
    pub(crate) fn wait_durable(&self, txn: TxnId) -> Result<()> {
        if let Some(agreement) = &self.agreement {
            return agreement.wait(|| self.shared.visible() >= txn);
        }
        self.log
            .wait(
                || self.shared.visible() >= txn,
                || {
                    // Bug: the newest transaction was taken for one of this process. Consequence: a
                    // commit of another process counted as durable after a flush that left its
                    // record out. Fix: unless this process wrote last, and so has flushed what came
                    // before, everything is flushed.
                    let newest = self.shared.root().txn;
                    (newest, !self.shared.is_last_writer())
                },
                // A flush that failed elsewhere meanwhile may have been for these bytes.
                |covered| {
                    self.ensure_usable()?;
                    self.shared.raise_visible(covered);
                    Ok(())
                },
            )
            .inspect_err(|_| self.poison())
    }

    /// Refuses a state that is larger than this process can map, because another process had more
    /// room.
    #[inline]
    pub(crate) fn ensure_mapped(&self, page_count: u32) -> Result<()> {
        if page_count > self.pager.pages_max() {
            let size_max = u64::from(self.pager.pages_max()) * self.pager.page_size() as u64;
            return Err(Error::DatabaseFull { size_max });
        }
        Ok(())
    }

    pub(crate) fn ensure_usable(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) || self.shared.is_poisoned() {
            return Err(Error::Poisoned);
        }
        Ok(())
    }

    pub(crate) fn poison(&self) {
        self.give_up();
        self.shared.poison();
        self.log.notify(true);
        if let Some(agreement) = &self.agreement {
            agreement.fail();
        }
    }

    /// Becomes the writer: no other transaction is active, and the workspace is up to date.
    pub(crate) fn lock_writer(&self, wait: bool) -> Result<WorkspaceGuard> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.ensure_usable()?;
        let mut guard = if wait { self.writers.lock() } else { self.writers.try_lock().ok_or(Error::Busy)? };
        let current = self.shared.lock_writer(wait)?;
        let ready = self.ensure_usable().and_then(|()| if current { Ok(()) } else { self.take_over(&mut guard) });
        match ready {
            Ok(()) => Ok(guard),
            Err(e) => {
                self.shared.unlock_writer();
                Err(e)
            }
        }
    }

    /// Ends being the writer.
    pub(crate) fn unlock_writer(&self, guard: WorkspaceGuard) {
        self.shared.unlock_writer();
        self.writers.unlock(guard);
    }

    /// Updates free space by the snapshots that are alive, before a transaction. Gives whether the
    /// file may be cut off as far as snapshots are concerned.
    pub(crate) fn reclaim(&self, work: &mut Workspace) -> bool {
        let mut snapshots = std::mem::take(&mut work.snapshots);
        snapshots.clear();
        // The order matters: see the head of `lock_file`, protocol 2, and `Shared::pin_steady`.
        let visible = self.shared.visible();
        work.space.note_steady(self.shared.steady());
        self.shared.pinned(&mut snapshots);
        let pinned = !snapshots.is_empty();
        let mut oldest = snapshots.iter().min().copied();
        work.space.reclaim(&mut snapshots, visible);
        // Only readers keep the file from being cut off, or ever more pages wait: are those readers
        // alive?
        let asks = pinned && (work.space.is_cut_blocked_by_reader(visible, oldest) | work.space.pending_has_grown());
        if asks && self.shared.release_dead_readers() {
            snapshots.clear();
            self.shared.pinned(&mut snapshots);
            oldest = snapshots.iter().min().copied();
            work.space.reclaim(&mut snapshots, visible);
        }
        work.snapshots = snapshots;
        work.space.can_cut(visible, oldest)
    }

    /// Reports pages that were written, if the user asked for that.
    pub(crate) fn trace(
        &self,
        kind: WriteKind,
        txn: TxnId,
        log: Option<(u32, Range<u64>)>,
        runs: impl FnOnce() -> Vec<(PageId, u32)>,
    ) {
        if let Some(Tracer(trace)) = &self.tracer {
            let kind_of = |page| crate::page::kind_of(self.pager.raw(page, 1));
            let page_size = self.pager.page_size() as u32;
            trace(&WriteTrace { log, ..WriteTrace::of(kind, txn, page_size, runs(), kind_of) });
        }
    }

    /// Stops this process from writing, even when it closes the database. Other processes go on.
    fn give_up(&self) {
        self.poisoned.store(true, Ordering::Release);
    }

    /// Flushes the disk. After a failed flush nobody knows what is on disk, and a second flush
    /// would not tell, so nothing is written any more.
    pub(crate) fn flush(&self) -> Result<()> {
        self.pager.disk().sync().inspect_err(|_| self.poison())
    }

    /// Makes a final steady point. The last process to leave also marks the database as closed and
    /// cuts the file off.
    fn close(&self) -> Result<()> {
        if self.temporary {
            self.give_up();
            self.shared.leave();
            return Ok(());
        }
        self.sync()?;
        self.return_disk_space(Trim::Idle);
        let gate = self.shared.close_gate()?;
        let result = if self.shared.others_attached() { Ok(()) } else { self.close_as_last() };
        // A process that attaches after this finds nobody here, so nothing may be written any more.
        self.give_up();
        self.shared.leave();
        drop(gate);
        result
    }

    fn close_as_last(&self) -> Result<()> {
        let mut last = self.last_meta.lock();
        // Another process may have committed since the final steady point, and died. Then there is
        // something to recover.
        if last.0.clean || last.0.txn != self.shared.steady() || last.0.txn != self.shared.root().txn {
            return Ok(());
        }
        // Both meta pages get the same content, so that damage to one of them cannot look like a
        // torn write.
        last.0.clean = true;
        // The log files are deleted, so the log begins anew. Old records do not fit its chain.
        last.0.log.offset = 0;
        self.rewrite_meta_pages(&mut last)?;
        self.pager.disk().shrink(u64::from(last.0.page_count) * self.pager.page_size() as u64)?;
        self.log.remove();
        Ok(())
    }

    /// The workspace, for reports. Waits for a writer of this process only.
    pub(crate) fn workspace(&self) -> &Mutex<Workspace> {
        self.writers.workspace()
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }
}

/// The disk itself, or one over it that encrypts.
fn over(disk: Box<dyn Disk>, cipher: Option<&Arc<Cipher>>, page_size: u32) -> Result<Box<dyn Disk>> {
    match cipher {
        Some(cipher) => Ok(Box::new(EncryptedDisk::new(disk, Arc::clone(cipher), page_size)?)),
        None => Ok(disk),
    }
}

fn mode_of(durability: Durability) -> Mode {
    match durability {
        Durability::Sync => Mode::Logged,
        Durability::Agreed => Mode::Agreed,
        Durability::SyncNoLog | Durability::Lazy { .. } | Durability::NoSync => Mode::NotLogged,
    }
}

fn is_refusal(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotFound)
}

#[cfg(test)]
mod tests;

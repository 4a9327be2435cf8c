//! Opening, committing, closing: the life of a database in one process.
//!
//! Order of locks: the steady lock, then the workspace, then the writer's lock between processes.
//!
//! A commit publishes a root; a steady point makes a published root survive the system's crash:
//! 1. with the workspace held: plan ([`Space::begin_steady`]); from here on the root's pages are pinned;
//! 2. seal the planned pages with their checksums;
//! 3. flush them, write the meta page, flush that; or, with few pages, list them in the meta page and flush once;
//! 4. with the workspace held again: the new point replaces the old one ([`Space::end_steady`]).
//!
//! In `Sync` mode a commit does all of it before it publishes; else the [`crate::flusher`] does, by need.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{ArcMutexGuard, Mutex, RawMutex};

use crate::disk::FileDisk;
use crate::flusher::Flusher;
use crate::meta::{MANIFEST_MAX, META_BYTES, Meta, MetaFault};
use crate::options::{Durability, Options, PAGE_SIZE_MAX, PAGE_SIZE_MIN};
use crate::page::{PageId, TxnId};
use crate::pager::{Bounds, Pager};
use crate::shared::{Attached, Identity, ReaderInfo, Root, Shared};
use crate::snapshot::Snapshot;
use crate::space::{Space, SteadyPlan};
use crate::txn::WriteTxn;
use crate::workspace::Workspace;
use crate::{Error, FORMAT_VERSION, Result, walk};

/// The file with the pages.
const DATA_FILE: &str = "data";
/// The file with the shared state.
const LOCK_FILE: &str = "lock";
/// How many times this process has opened a database, and one more.
static OPENINGS: AtomicU64 = AtomicU64::new(1);

pub(crate) type WorkspaceGuard = ArcMutexGuard<RawMutex, Workspace>;

/// An open database. Clones refer to the same; the last one to go makes a final steady point and closes.
#[derive(Clone)]
pub struct Database(pub(crate) Arc<Handle>);

/// The open database and the thread that works for it: dropping it closes the database.
pub(crate) struct Handle {
    pub(crate) core: Arc<Core>,
    flusher: Option<Flusher>,
}

/// What transactions, snapshots and the flusher share.
pub(crate) struct Core {
    pub(crate) pager: Pager,
    pub(crate) shared: Shared,
    pub(crate) durability: Durability,
    /// Tells this opening from all others of this process.
    pub(crate) opening: u64,
    path: PathBuf,
    read_only: bool,
    /// What the writer knows. In a read-only database it is never used.
    workspace: Arc<Mutex<Workspace>>,
    /// Held while a steady point is made without the workspace.
    steady_lock: Mutex<()>,
    /// A flush failed, or the files are not what this process thinks.
    poisoned: AtomicBool,
    /// The last steady point known to this process, and which meta page holds it.
    last_meta: Mutex<(Meta, u32)>,
}

impl Database {
    /// Opens the database in a directory, creating it if the options allow.
    ///
    /// Opening takes the same few page reads whatever the size. After a crash of the system the database is at its last
    /// steady point; after a crash of a process alone, at its last commit.
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
        let core = Arc::new(Core::open(dir.as_ref(), options)?);
        let flusher = match core.durability {
            Durability::Lazy { bytes, period } if !core.read_only => Some(Flusher::start(&core, bytes, period)?),
            _ => None,
        };
        let db = Self(Arc::new(Handle { core, flusher }));
        if matches!(options.durability, Durability::Sync) && !options.read_only {
            db.sync()?;
        }
        Ok(db)
    }

    /// The newest committed state, for reading. Never waits; take as many as there are reader slots.
    #[inline]
    pub fn read(&self) -> Result<Snapshot<'_>> {
        Snapshot::borrowed(&self.0)
    }

    /// As [`Database::read`], for snapshots that outlive this handle: to send to another thread, say.
    pub fn read_owned(&self) -> Result<Snapshot<'static>> {
        Snapshot::owned(Arc::clone(&self.0))
    }

    /// Starts the write transaction; waits while another is active, in this process or another.
    pub fn write(&self) -> Result<WriteTxn> {
        self.begin(true)
    }

    /// As [`Database::write`], but [`Error::Busy`] instead of waiting.
    pub fn try_write(&self) -> Result<WriteTxn> {
        self.begin(false)
    }

    fn begin(&self, wait: bool) -> Result<WriteTxn> {
        let guard = self.0.core.lock_writer(wait)?;
        Ok(WriteTxn::new(Arc::clone(&self.0), guard))
    }

    /// Makes a steady point: everything committed so far is on disk when this returns.
    pub fn sync(&self) -> Result<()> {
        self.0.core.sync()
    }

    /// Live snapshots of all processes.
    #[must_use]
    pub fn readers(&self) -> Vec<ReaderInfo> {
        let shared = &self.0.core.shared;
        shared.release_dead_readers();
        shared.reader_infos()
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

    /// Makes a final steady point and says how it went. Dropping does the same and keeps quiet. Snapshots and clones
    /// that are still around keep the files open.
    pub fn close(self) -> Result<()> {
        let core = Arc::clone(&self.0.core);
        drop(self);
        match core.read_only {
            true => Ok(()),
            false => core.sync(),
        }
    }
}

#[cfg(test)]
impl Database {
    /// A database on another disk than a file, in this process alone.
    pub(crate) fn on_disk(disk: Box<dyn crate::disk::Disk>, options: &Options, page_size: u32) -> Result<Self> {
        let identity = Identity { boot_id: [0; 2], inode: 0, device: 0 };
        let shared = Shared::private(disk.path(), identity, options.readers_max)?;
        let pager = Pager::new(disk, page_size, options.checksums);
        let core = Arc::new(Core::start(pager, shared, Attached::First(None), Path::new("simulated"), options)?);
        Ok(Self(Arc::new(Handle { core, flusher: None })))
    }

    pub(crate) fn image_of_new(page_size: u32) -> Vec<u8> {
        new_image(page_size)
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
    /// Tells the flusher of a commit.
    pub(crate) fn committed(&self, dirty_bytes: u64) {
        if let Some(flusher) = &self.flusher {
            flusher.committed(dirty_bytes);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(flusher) = self.flusher.take() {
            flusher.stop();
        }
        if !self.core.read_only {
            // An error here has no one to go to; `Database::close` reports it, and the next opening finds the last
            // steady point.
            let _ = self.core.close();
        }
    }
}

/// What `open` finds in the directory.
struct Found {
    file: File,
    writable: bool,
    page_size: u32,
}

impl Core {
    fn open(dir: &Path, options: &Options) -> Result<Self> {
        let data_path = dir.join(DATA_FILE);
        let found = find_or_create(dir, &data_path, options)?;
        let identity = Identity::of(&found.file).map_err(|e| Error::io("cannot look at", &data_path, e))?;
        let lock_path = dir.join(LOCK_FILE);
        let (shared, attached) = match Shared::attach(&lock_path, identity, options.readers_max) {
            Err(Error::Io { ref source, .. }) if options.read_only && is_refusal(source) => {
                (Shared::private(&lock_path, identity, options.readers_max)?, Attached::First(None))
            }
            attached => attached?,
        };
        let disk = FileDisk::new(found.file, data_path, options.size_max, found.writable)?;
        let pager = Pager::new(Box::new(disk), found.page_size, options.checksums);
        Self::start(pager, shared, attached, dir, options)
    }

    /// Puts the parts together, and finds the newest state if nobody else has.
    fn start(pager: Pager, shared: Shared, attached: Attached, dir: &Path, options: &Options) -> Result<Self> {
        let core = Self {
            pager,
            shared,
            durability: options.durability,
            opening: OPENINGS.fetch_add(1, Ordering::Relaxed),
            path: dir.to_owned(),
            read_only: options.read_only,
            workspace: Arc::new(Mutex::new(Workspace::new(Space::empty()))),
            steady_lock: Mutex::new(()),
            poisoned: AtomicBool::new(false),
            last_meta: Mutex::new((Meta::default(), 0)),
        };
        match attached {
            Attached::First(left) => core.recover(left)?,
            Attached::Joined => core.ensure_long_enough()?,
        }
        core.shared.open_gate();
        Ok(core)
    }

    /// As one of several processes: refuses a file that somebody cut off while it is open, since touching what is missing
    /// ends the process.
    fn ensure_long_enough(&self) -> Result<()> {
        let root = self.shared.root();
        self.pager.disk().refresh()?;
        if u64::from(root.page_count) * self.pager.page_size() as u64 > self.pager.disk().allocated() {
            return Err(Error::Corrupted {
                page: PageId(root.page_count - 1),
                reason: "the file ends before it, and others have it open",
            });
        }
        Ok(())
    }

    /// As the first process: finds the newest state.
    fn recover(&self, left: Option<Root>) -> Result<()> {
        if !self.read_only {
            // What a dead process wrote may be in memory only; what follows relies on it.
            self.flush()?;
        }
        let (mut meta, slot) = self.newest_meta()?;
        if !self.read_only {
            self.mend_other_meta(&mut meta, slot)?;
        }
        let mut root = Root { txn: meta.txn, catalog: meta.catalog, page_count: meta.page_count };
        if let Some(left) = left.filter(|left| left.txn > meta.txn) {
            let fits = u64::from(left.page_count) * self.pager.page_size() as u64 <= self.pager.disk().allocated();
            // Another file may have been copied over this one since: then the root's page is not there.
            let there = left.catalog.depth == 0
                || left.catalog.root.0 < left.page_count && self.pager.birth_and_pages(left.catalog.root).0 == left.txn;
            if fits && there {
                root = left;
            }
        }
        self.shared.set_steady(meta.txn);
        self.shared.publish(root);
        *self.last_meta.lock() = (meta, slot);
        Ok(())
    }

    /// If a crash tore the other meta page, or a steady point that did not make it is there, replaces it: damage found
    /// later is then damage, and not an old crash.
    fn mend_other_meta(&self, meta: &mut Meta, slot: u32) -> Result<()> {
        let other = Meta::decode(self.pager.raw(PageId(1 - slot), 1), 1 - slot);
        if other.is_ok_and(|other| other.txn <= meta.txn) {
            return Ok(());
        }
        // The pages of the manifest were found whole, and flushed just now.
        meta.manifest.clear();
        self.write_meta(meta, 1 - slot)?;
        self.flush()
    }

    /// The newest meta page that holds a whole steady point.
    fn newest_meta(&self) -> Result<(Meta, u32)> {
        let page_size = self.pager.page_size() as u64;
        let file_pages = self.pager.disk().allocated() / page_size;
        if file_pages < 2 {
            return Err(Error::Corrupted { page: PageId(1), reason: "the file ends before its second meta page" });
        }
        let mut metas: Vec<(Meta, u32)> = Vec::new();
        let mut fault = "both meta pages are damaged";
        for slot in 0..2 {
            match Meta::decode(self.pager.raw(PageId(slot), 1), slot) {
                Ok(meta) if u64::from(meta.page_count) <= file_pages => metas.push((meta, slot)),
                Ok(_) => fault = "the file is shorter than its meta page says",
                Err(MetaFault::Newer(found)) => {
                    return Err(Error::NewerFormat {
                        path: self.pager.disk().path().into(),
                        found,
                        supported: FORMAT_VERSION,
                    });
                }
                Err(_) => {}
            }
        }
        metas.retain(|(meta, _)| meta.page_size as usize == self.pager.page_size());
        for (meta, _) in &metas {
            self.ensure_mapped(meta.page_count)?;
        }
        metas.sort_by_key(|(meta, _)| std::cmp::Reverse(meta.txn));
        let whole = |meta: &Meta| {
            let bounds = Bounds { page_count: meta.page_count, newest: meta.txn, steady: meta.txn };
            meta.manifest.iter().all(|&(page, checksum)| self.pager.was_written(page, checksum, bounds))
        };
        metas.into_iter().find(|(meta, _)| whole(meta)).ok_or(Error::Corrupted { page: PageId(0), reason: fault })
    }

    /// Refuses a state that another process, with more room, made larger than this one can map.
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

    fn poison(&self) {
        self.poisoned.store(true, Ordering::Release);
        self.shared.poison();
    }

    /// Becomes the writer: no other transaction is active, and the workspace is up to date.
    pub(crate) fn lock_writer(&self, wait: bool) -> Result<WorkspaceGuard> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.ensure_usable()?;
        let mut guard =
            if wait { self.workspace.lock_arc() } else { self.workspace.try_lock_arc().ok_or(Error::Busy)? };
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
        drop(guard);
    }

    /// Learns what is free from the files, because another process wrote last.
    fn take_over(&self, work: &mut Workspace) -> Result<()> {
        self.shared.wait_for_steady();
        let disk = self.pager.disk();
        disk.refresh()?;
        self.flush()?;
        let (meta, slot) = self.newest_meta()?;
        let root = self.shared.root();
        self.ensure_mapped(root.page_count)?;
        let mut space = Space::load(&self.pager, &meta)?;
        let snapshots = self.snapshots_that_live(meta.txn);
        if root.txn > meta.txn {
            let page_count = root.page_count.max(meta.page_count);
            let bounds = Bounds { page_count, newest: root.txn, steady: meta.txn };
            let difference = walk::difference(&self.pager, bounds, meta.txn, &meta.catalog, &root.catalog)?;
            space.adopt(root.txn, page_count, &difference.live, &difference.freed, &snapshots);
        } else if snapshots.iter().any(|&pin| pin < meta.txn) {
            space.adopt(meta.txn, meta.page_count, &[], &[], &snapshots);
        }
        self.shared.set_steady(meta.txn);
        if root.txn < meta.txn {
            // The last writer died between making its commit durable and publishing it.
            self.shared.publish(Root { txn: meta.txn, catalog: meta.catalog, page_count: meta.page_count });
        }
        space.populate_ahead(self.durability != Durability::Sync);
        work.space = space;
        *self.last_meta.lock() = (meta, slot);
        self.shared.wrote();
        Ok(())
    }

    /// The transactions that live snapshots see; some may be older than `steady`, but not only because their
    /// processes died.
    fn snapshots_that_live(&self, steady: TxnId) -> Vec<TxnId> {
        let mut snapshots = Vec::new();
        self.shared.pinned(&mut snapshots);
        if snapshots.iter().any(|&pin| pin < steady) && self.shared.release_dead_readers() {
            snapshots.clear();
            self.shared.pinned(&mut snapshots);
        }
        snapshots
    }

    /// Brings `Workspace::space` up to date with the snapshots that live, before a transaction.
    pub(crate) fn reclaim(&self, work: &mut Workspace) {
        let mut snapshots = std::mem::take(&mut work.snapshots);
        snapshots.clear();
        self.shared.pinned(&mut snapshots);
        let pinned = !snapshots.is_empty();
        work.space.reclaim(&mut snapshots);
        // Ever more pages wait for readers: do those live?
        if pinned && work.space.waits_for_much() && self.shared.release_dead_readers() {
            snapshots.clear();
            self.shared.pinned(&mut snapshots);
            work.space.reclaim(&mut snapshots);
        }
        work.snapshots = snapshots;
    }

    /// Flushes the disk. After a failed flush nobody knows what is there, and trying again does not tell: nothing is
    /// written any more.
    fn flush(&self) -> Result<()> {
        self.pager.disk().sync().inspect_err(|_| self.poison())
    }

    // ---- steady points ----

    /// Makes everything committed durable.
    pub(crate) fn sync(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.ensure_usable()?;
        let _steady = self.steady_lock.lock();
        let mut guard = self.lock_writer(true)?;
        let root = self.shared.root();
        if root.txn == self.shared.steady() {
            self.unlock_writer(guard);
            return Ok(());
        }
        let plan = guard.space.begin_steady(&self.pager, root.txn);
        let plan = match plan {
            Ok(plan) => plan,
            Err(e) => {
                self.unlock_writer(guard);
                return Err(e);
            }
        };
        // The free map's own pages may have made the file longer; whoever takes over must see that.
        self.shared.begin_steady();
        self.unlock_writer(guard);
        let result = self.make_steady(plan, root.catalog, root.txn, false);
        if result.is_ok() {
            self.shared.raise_steady(root.txn);
        }
        // Before the workspace is asked for: who has it may wait for a process that waits for this steady point.
        self.shared.end_steady();
        result?;
        self.workspace.lock().space.end_steady();
        self.give_back_space();
        Ok(())
    }

    /// Gives back disk space that nothing uses, if nobody is writing: while somebody is, it will be used again soon.
    fn give_back_space(&self) {
        let Ok(mut guard) = self.lock_writer(false) else { return };
        if self.shared.root().txn == self.shared.steady() {
            self.reclaim(&mut guard);
            guard.space.give_back(&self.pager);
        }
        self.unlock_writer(guard);
    }

    /// Makes the transaction that is committing steady, before it is published. The workspace is held throughout.
    pub(crate) fn sync_commit(&self, work: &mut Workspace, root: &mut Root) -> Result<()> {
        let plan = work.space.begin_steady(&self.pager, root.txn).inspect_err(|_| self.poison())?;
        root.page_count = work.space.page_count();
        self.make_steady(plan, root.catalog, root.txn, true)?;
        work.space.end_steady();
        self.shared.raise_steady(root.txn);
        Ok(())
    }

    /// Seals, flushes, writes the meta page. `alone`: nothing else changes meanwhile, so that few pages can go out
    /// together with the meta page.
    fn make_steady(&self, plan: SteadyPlan, catalog: crate::tree::Tree, txn: TxnId, alone: bool) -> Result<()> {
        let mut last = self.last_meta.lock();
        let mut meta = Meta {
            txn,
            page_size: self.pager.page_size() as u32,
            database_id: last.0.database_id,
            catalog,
            ..plan.meta
        };
        let one_flush = alone && plan.born.len() <= MANIFEST_MAX;
        for (page, pages) in plan.born {
            let checksum = self.pager.seal(page, pages);
            if one_flush {
                meta.manifest.push((page, checksum as u32));
            }
        }
        let slot = 1 - last.1;
        if !one_flush {
            self.flush()?;
        }
        self.write_meta(&meta, slot).inspect_err(|_| self.poison())?;
        self.flush()?;
        *last = (meta, slot);
        Ok(())
    }

    fn write_meta(&self, meta: &Meta, slot: u32) -> Result<()> {
        self.pager.disk().write(u64::from(slot) * self.pager.page_size() as u64, &meta.encode(slot))
    }

    /// Final steady point; the last process to leave also marks the database as closed and trims the file.
    fn close(&self) -> Result<()> {
        self.sync()?;
        let _steady = self.steady_lock.lock();
        self.give_back_space();
        let gate = self.shared.close_gate()?;
        if self.shared.others_attached() {
            return Ok(());
        }
        let mut last = self.last_meta.lock();
        if last.0.clean || last.0.txn != self.shared.steady() {
            return Ok(());
        }
        // Both pages say the same, so that damage to either is told from a torn write.
        last.0.clean = true;
        last.0.manifest.clear();
        let slot = last.1;
        for slot in [1 - slot, slot] {
            self.write_meta(&last.0, slot)?;
            self.flush()?;
        }
        self.pager.disk().shrink(u64::from(last.0.page_count) * self.pager.page_size() as u64)?;
        drop(gate);
        Ok(())
    }

    /// Access to the workspace for reports; waits for a writer of this process only.
    pub(crate) fn workspace(&self) -> &Arc<Mutex<Workspace>> {
        &self.workspace
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) fn read_newest_meta(&self) -> Result<Meta> {
        self.newest_meta().map(|(meta, _)| meta)
    }
}

fn is_refusal(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotFound)
}

fn find_or_create(dir: &Path, data_path: &Path, options: &Options) -> Result<Found> {
    let opened = File::options().read(true).write(!options.read_only).open(data_path);
    let file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            if options.read_only || !options.create {
                return Err(Error::NotFound { path: dir.into() });
            }
            create(dir, data_path, options)?;
            File::options()
                .read(true)
                .write(true)
                .open(data_path)
                .map_err(|e| Error::io("cannot open", data_path, e))?
        }
        Err(e) if !options.read_only => return Err(Error::io("cannot open for writing", data_path, e)),
        Err(e) => return Err(Error::io("cannot open", data_path, e)),
    };
    let page_size = read_page_size(&file, data_path)?;
    if let Some(wanted) = options.page_size
        && wanted != page_size
    {
        return Err(Error::PageSizeMismatch { found: page_size, wanted });
    }
    Ok(Found { file, writable: !options.read_only, page_size })
}

/// The page size, from whichever meta page is whole.
fn read_page_size(file: &File, path: &Path) -> Result<u32> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; META_BYTES];
    let mut damaged = None;
    let mut read = false;
    let second_pages = (PAGE_SIZE_MIN.trailing_zeros()..=PAGE_SIZE_MAX.trailing_zeros()).map(|shift| 1 << shift);
    for offset in std::iter::once(0).chain(second_pages) {
        match file.read_exact_at(&mut bytes, offset) {
            Ok(()) => read = true,
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => continue,
            Err(e) => return Err(Error::io("cannot read", path, e)),
        }
        match Meta::decode(&bytes, u32::from(offset > 0)) {
            Ok(meta) if offset == 0 || u64::from(meta.page_size) == offset => return Ok(meta.page_size),
            Ok(_) | Err(MetaFault::NotColibri) => {}
            Err(MetaFault::Newer(found)) => {
                return Err(Error::NewerFormat { path: path.into(), found, supported: FORMAT_VERSION });
            }
            Err(MetaFault::Damaged(reason)) => damaged = Some(reason),
        }
    }
    match damaged {
        Some(reason) => Err(Error::Corrupted { page: PageId(0), reason }),
        None => {
            let reason = if read { "it has no meta page" } else { "it is empty, or too short for a meta page" };
            Err(Error::NotADatabase { path: path.into(), reason })
        }
    }
}

/// Makes a database: under another name first, so that a crash leaves none rather than half of one.
fn create(dir: &Path, data_path: &Path, options: &Options) -> Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    let result = fs::create_dir_all(dir).map_err(|e| Error::io("cannot create", dir, e)).and_then(|()| {
        // A name that no other opening uses, of this process or another: it would write to a file that is in use.
        let id = u128::from_le_bytes(random_id());
        let new_path = dir.join(format!("{DATA_FILE}.new.{id:032x}"));
        let result = write_new(&new_path, dir, data_path, options).and_then(|()| {
            // If another process was faster, its database is as good.
            match fs::hard_link(&new_path, data_path) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                    Err(Error::io("cannot create", data_path, e))
                }
                _ => Ok(()),
            }
        });
        let _ = fs::remove_file(&new_path);
        result?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| Error::io("cannot flush", dir, e))
    });
    if result.is_err() {
        // Those that have come to hold something since stay.
        missing.iter().for_each(|dir| _ = fs::remove_dir(dir));
    }
    result
}

/// Writes an empty database to a new file that is to become `data_path` in `dir`.
fn write_new(path: &Path, dir: &Path, data_path: &Path, options: &Options) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let page_size = options.page_size.unwrap_or(PAGE_SIZE_MIN);
    let bytes = options.size_initial.max(2 * u64::from(page_size)).next_multiple_of(u64::from(page_size));
    let no_room = |action| move |e| crate::disk::no_room(action, data_path, bytes, e);
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| crate::disk::no_room("cannot create a database in", dir, bytes, e))?;
    crate::disk::allocate(&file, 0, bytes).map_err(no_room("cannot allocate"))?;
    file.write_all_at(&new_image(page_size), 0).map_err(no_room("cannot write"))?;
    file.sync_all().map_err(no_room("cannot flush"))
}

/// The two meta pages of a database with nothing in it.
fn new_image(page_size: u32) -> Vec<u8> {
    let meta = Meta { page_size, page_count: 2, database_id: random_id(), clean: true, ..Meta::default() };
    let mut image = vec![0; 2 * page_size as usize];
    for slot in 0..2 {
        let at = slot as usize * page_size as usize;
        image[at..at + META_BYTES].copy_from_slice(&meta.encode(slot));
    }
    image
}

pub(crate) fn random_id() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    let half = || RandomState::new().hash_one(std::time::SystemTime::now()).to_le_bytes();
    let mut id = [0; 16];
    id[..8].copy_from_slice(&half());
    id[8..].copy_from_slice(&half());
    id
}

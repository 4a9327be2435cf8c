//! The lock file: what the processes that have a database open share in memory.
//!
//! ```text
//! | header: newest root, writer's lock | process slots (128) | reader slots … |
//! ```
//! It holds no durable state. The first process to open the database resets it. But until the
//! system is restarted it also remembers the newest root, so that the death of a process loses no
//! commit.
//!
//! Fields of the header:
//!
//! | field | meaning | who writes it |
//! | --- | --- | --- |
//! | `current` | the newest committed transaction | the holder of the writer's lock |
//! | `roots` | a ring with the roots of the last transactions | the same, before `current` |
//! | `visible` | the transaction that new snapshots see | who publishes, or has flushed |
//! | `steady` | the last steady point | who made it |
//! | `writer` | the holder of the writer's lock (see `writer`) | who takes or releases the lock |
//!
//! Where commits wait for the log, `visible` is the newest durable transaction; elsewhere it is
//! `current`.
//!
//! Values of a reader slot's `txn`:
//!
//! | value | meaning |
//! | --- | --- |
//! | `SLOT_IDLE` | no snapshot |
//! | `claim_by(process)` | a process has the slot and has pinned nothing yet |
//! | `n` | transaction `n` is pinned |
//! | `n` with `UNSETTLED` | as `n`, but the pin may have come too late: its owner will check |
//! | `n` with `PARKED` | as `n`, for a snapshot that may be evicted |
//! | `EVICTED` | a parked snapshot was evicted; its owner does not know yet |
//!
//! Protocols:
//! 1. *Reading a root.* A reader loads `visible`, reads that root, and loads `visible` again. The
//!    writer never gets so far ahead of `visible` that it would overwrite its root. So a reader
//!    that finds the same `visible` twice has read the root whole.
//! 2. *Pinning.* A reader stores the pin and then loads `visible` (or `current`) again. The writer
//!    stores that word and then loads the slots. Both are sequentially consistent: either the
//!    writer sees the pin, or the reader sees the newer root and starts over. The same holds for
//!    `steady` and a reader that pins the last steady point (`pin_steady`).
//! 3. *Owning a slot.* The process that turns a slot from idle to its claim has it until it is idle
//!    again, and notes itself in `owner`. The owner stays noted in idle slots, so that a process
//!    finds its own slots again. Others take such a slot only when no slot is free.
//! 4. *Pinning what another snapshot sees* (`pin_beside`). The reader pins the same state in a slot
//!    behind the other, and then checks that the other pin is settled and still there. The writer
//!    loads the slots in their order, and after each loads how many there are. If it finds the
//!    other slot released, it has yet to come to the slot behind it. Who has the other snapshot
//!    itself (`pin_also`) need not check.
//! 5. *Naming the root.* A slot says which root its pin is of (`ReaderSlot::name_root`), because a
//!    process that takes over the writing has to know which pages the snapshot reaches. While a
//!    reader of a steady point looks at the free map, the slot names no root; the reader is then
//!    taken to see every free page.
//! 6. *Detecting dead processes.* A process holds an open-file-description lock on the byte that
//!    goes with its process slot. The kernel releases it when the process dies. Process slots
//!    change hands only under the *gate*, a lock on byte 0.

#![allow(unsafe_code)]

mod readers;
mod writer;

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::page::{PageId, TxnId};
use crate::root::{Root, Tree};
use crate::{Error, Result};

const MAGIC: u64 = 0x314b_434f_4c49_4c43;
const LAYOUT_VERSION: u32 = 5;
/// How many processes can have a database open at once.
pub(crate) const PROCESSES_MAX: u32 = 128;
/// How far the newest root can be ahead of the visible one.
pub(crate) const ROOTS: u64 = 256;
/// What commits wait for, as far as processes have to agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Mode {
    /// The log.
    Logged = 1,
    /// Their pages, or nothing.
    NotLogged = 2,
    /// Others, who agree on them. No other process may write.
    Agreed = 3,
}
const WAITERS: u32 = 1 << 31;
const GATE_BYTE: i64 = 0;
const FIRST_PROCESS_BYTE: i64 = 1;

/// No snapshot in this slot.
const SLOT_IDLE: u64 = u64::MAX;
/// Set beside the transaction of a parked snapshot: nobody looks at it until it is unparked.
const PARKED: u64 = 1 << 63;
/// Set beside a transaction whose pin may have come too late.
const UNSETTLED: u64 = 1 << 62;
/// A parked snapshot was evicted.
const EVICTED: u64 = SLOT_IDLE - 1 - PROCESSES_MAX as u64;

/// The mark of a slot that a process has claimed. It pins nothing.
const fn claim_by(process: u32) -> u64 {
    SLOT_IDLE - 1 - process as u64
}

/// The process that has claimed a slot with this `txn`, if it is a claim.
fn claimant(txn: u64) -> Option<u32> {
    (SLOT_IDLE - 1).checked_sub(txn).filter(|&process| process < u64::from(PROCESSES_MAX)).map(|process| process as u32)
}

#[repr(C, align(64))]
struct Header {
    magic: AtomicU64,
    layout_version: AtomicU32,
    readers_max: AtomicU32,
    boot_id: [AtomicU64; 2],
    data_inode: AtomicU64,
    data_device: AtomicU64,
    next_incarnation: AtomicU64,
    poisoned: AtomicU32,
    readers_used: AtomicU32,
    writer: AtomicU32,
    /// Process slot + 1 of the process that flushes a steady point without the writer's lock, or 0.
    steady_maker: AtomicU32,
    last_writer: AtomicU64,
    /// A [`Mode`]; 0 as long as only readers have opened the database.
    mode: AtomicU32,
    _pad2: [u32; 11],
    current: AtomicU64,
    steady: AtomicU64,
    visible: AtomicU64,
    /// The transaction after which the log went on in its other file.
    turned: AtomicU64,
    /// Whether the file is longer than it has to be and is to be cut off. A hint for the next
    /// writer.
    cut_pending: AtomicU32,
    _pad3: [u32; 7],
    roots: [[AtomicU64; Root::WORDS]; ROOTS as usize],
    processes: [ProcessSlot; PROCESSES_MAX as usize],
}

#[repr(C)]
struct ProcessSlot {
    incarnation: AtomicU64,
    pid: AtomicU32,
    _pad: u32,
}

#[repr(C, align(64))]
struct ReaderSlot {
    txn: AtomicU64,
    /// Process slot + 1, or 0 if the slot never had an owner.
    owner: AtomicU32,
    thread: AtomicU32,
    /// By [`now_ms`].
    since_ms: AtomicU64,
    /// The pinned root, for [`Shared::pins`] and [`Shared::pin_beside`]: the catalogue's root page,
    /// and 32 bits of the transaction.
    root: AtomicU64,
    /// The rest of it: the page count, the catalogue's depth, and 24 bits of the transaction.
    shape: AtomicU64,
    /// Where the forest is described, and 32 bits of the transaction.
    forest: AtomicU64,
}

impl ReaderSlot {
    /// Names the root that is pinned, or about to be. Only the slot's owner calls this. Release: a
    /// thread that reads it sees everything its owner did before.
    #[inline]
    fn name_root(&self, root: &Root) {
        let (catalog, txn) = (&root.catalog, root.txn.0);
        self.root.store(u64::from(catalog.root.0) | txn << 32, Ordering::Release);
        let shape = u64::from(root.page_count) | u64::from(catalog.depth & 0xff) << 32 | txn << 40;
        self.shape.store(shape, Ordering::Release);
        self.forest.store(u64::from(root.forest.0) | txn << 32, Ordering::Release);
    }

    /// Names the root that another slot names. Only the slot's owner calls this.
    fn name_root_of(&self, other: &Self) {
        let words = [(&self.root, &other.root), (&self.shape, &other.shape), (&self.forest, &other.forest)];
        words.into_iter().for_each(|(to, from)| to.store(from.load(Ordering::Acquire), Ordering::Release));
    }

    /// Names no root, for a pin of this transaction. Only the slot's owner calls this.
    fn name_no_root(&self, txn: TxnId) {
        self.root.store(!txn.0 << 32, Ordering::Release);
    }

    /// The root of a pinned transaction, with as much as walking it takes, if the slot names it.
    fn named_root(&self, txn: TxnId) -> Option<Root> {
        let (root, shape) = (self.root.load(Ordering::Acquire), self.shape.load(Ordering::Acquire));
        let forest = self.forest.load(Ordering::Acquire);
        let txn_low = txn.0 & 0xffff_ffff;
        let same = root >> 32 == txn_low && shape >> 40 == txn.0 & 0xff_ffff && forest >> 32 == txn_low;
        let catalog = Tree { root: PageId(root as u32), depth: (shape >> 32) as u32 & 0xff, ..Tree::default() };
        let (page_count, forest) = (shape as u32, PageId(forest as u32));
        same.then(|| Root { txn, catalog, forest, page_count, ..Root::default() })
    }

    /// The process that has claimed the slot, or else its owner.
    fn holder(&self) -> Option<u32> {
        claimant(self.txn.load(Ordering::Acquire)).or_else(|| self.owner.load(Ordering::Acquire).checked_sub(1))
    }

    /// Frees the slot of a process that does not use it any more; `false` if it has another owner
    /// by now.
    fn release(&self, process: u32) -> bool {
        let txn = self.txn.load(Ordering::Acquire);
        if claimant(txn).is_some_and(|claimant| claimant != process)
            || self.txn.compare_exchange(txn, SLOT_IDLE, Ordering::AcqRel, Ordering::Relaxed).is_err()
        {
            return false;
        }
        // A process that claims it from here on becomes its owner, before or after this.
        let _ = self.owner.compare_exchange(process + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
        true
    }
}

const _: () = assert!(size_of::<ReaderSlot>() == 64);
const _: () = assert!(std::mem::offset_of!(Header, current) % 64 == 0);

/// A live snapshot, as [`crate::Database::readers`] lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderInfo {
    /// Its reader slot.
    pub(crate) slot: u32,
    /// The process.
    pub process: u32,
    /// The thread that took the snapshot, as the operating system numbers it.
    pub thread: u32,
    /// The newest transaction the snapshot sees.
    pub txn: TxnId,
    /// How long ago the snapshot was taken.
    pub age: Duration,
    /// How many transactions it is behind the newest.
    pub lag: u64,
    /// Whether it is parked, and so can be evicted.
    pub parked: bool,
    /// Bytes of pages that this snapshot still needs and the newest state does not. Known to the
    /// process that wrote last, while none of its transactions is active;
    /// [`crate::Database::bytes_held`] finds it out for any other.
    pub bytes_held: Option<u64>,
}

/// A pinned state, as a process finds it that takes over the writing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pin {
    pub(crate) txn: TxnId,
    /// The root, with as much as walking it takes. The pin may have come too late, so the root's
    /// pages may hold anything by now. `None` if the slot names no root.
    pub(crate) root: Option<Root>,
}

/// Names a reader slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReaderId(u32);

/// The mapped lock file.
pub(crate) struct Shared {
    base: NonNull<u8>,
    bytes: usize,
    /// `None` where the directory is not writable: then the state is private memory of this
    /// process.
    file: Option<File>,
    path: PathBuf,
    slot: u32,
    incarnation: u64,
    /// This process has released its process slot, which may have another owner by now.
    left: AtomicBool,
    /// Taken before the gate. The gate is a lock of the file, and threads that share the file pass
    /// it.
    threads: Mutex<()>,
    #[cfg(test)]
    holders: Mutex<Holders>,
}

/// Which threads of this process hold what one process at a time can hold. A thread that plays the
/// death of its process releases what is its own and leaves the rest to the other threads.
#[cfg(test)]
#[derive(Default)]
struct Holders {
    writer: Option<std::thread::ThreadId>,
    steady: Option<std::thread::ThreadId>,
}

// SAFETY: everything behind `base` is atomics; the mapping lives until drop.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// Held while a process attaches or leaves, and while slots of dead processes are released.
pub(crate) struct Gate<'a> {
    shared: &'a Shared,
    _threads: MutexGuard<'a, ()>,
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.shared.open_gate();
    }
}

/// Which data file the shared state belongs to, on which boot of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) boot_id: [u64; 2],
    pub(crate) inode: u64,
    pub(crate) device: u64,
}

impl Identity {
    pub(crate) fn of(data: &File) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let meta = data.metadata()?;
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let hash = xxhash_rust::xxh3::xxh3_128(text.trim().as_bytes());
        Ok(Self { boot_id: [hash as u64, (hash >> 64) as u64], inode: meta.ino(), device: meta.dev() })
    }
}

/// What was found when attaching.
pub(crate) enum Attached {
    /// Nobody else has the database open. With the newest root that a process of this boot left, if
    /// any.
    First(Option<Root>),
    /// Others have it open, and the newest root is in the file.
    Joined,
}

impl Shared {
    /// Opens the lock file and takes a process slot. The gate is held until the caller has set the
    /// first root. All writers must agree in `mode`; `None` for a reader.
    pub(crate) fn attach(
        path: &Path,
        identity: Identity,
        readers_max: u32,
        mode: Option<Mode>,
    ) -> Result<(Self, Attached)> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|e| Error::io("cannot open", path, e))?;
        range_lock(&file, libc::F_WRLCK, GATE_BYTE, 1, true).map_err(|e| Error::io("cannot lock", path, e))?;
        let alone = !range_is_locked(&file, FIRST_PROCESS_BYTE, i64::from(PROCESSES_MAX))
            .map_err(|e| Error::io("cannot lock", path, e))?;
        let mut readers_max = readers_max;
        let length = file.metadata().map_err(|e| Error::io("cannot read the size of", path, e))?.len();
        let existing = existing_readers_max(&file, length);
        match existing {
            Some(existing) if !alone => readers_max = existing,
            None if !alone => {
                return Err(Error::OtherVersionRunning { path: path.into() });
            }
            Some(_) => {}
            None => file.set_len(0).map_err(|e| Error::io("cannot reset", path, e))?,
        }
        let bytes = size_of::<Header>() + readers_max as usize * size_of::<ReaderSlot>();
        crate::disk::allocate(&file, 0, bytes as u64)
            .map_err(|e| crate::disk::no_room("cannot grow", path, bytes as u64, e))?;
        // SAFETY: a new shared mapping of the file, which is at least as long as the mapping.
        let base = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)
        }
        .map_err(|e| Error::io("cannot map", path, e))?;
        let mut shared = Self::on_map(base, bytes, Some(file), path);
        let attached = if alone { Attached::First(shared.reset(identity, readers_max)) } else { Attached::Joined };
        let header = shared.header();
        if let Some(mode) = mode {
            let found = header.mode.load(Ordering::Relaxed);
            if found != 0 && found != mode as u32 || mode == Mode::Agreed && !alone {
                return Err(Error::DurabilityDiffers { path: path.into() });
            }
            header.mode.store(mode as u32, Ordering::Relaxed);
        }
        shared.take_process_slot()?;
        Ok((shared, attached))
    }

    /// For a process that may not write to the lock file. Refuses a database that others have open:
    /// they would not see this reader, and would reuse its pages. Refuses one whose newest commits
    /// are known to the lock file only.
    pub(crate) fn ensure_nobody_writes(path: &Path, dir: &Path, identity: Identity) -> Result<()> {
        use std::os::unix::fs::FileExt;
        let Ok(file) = File::open(path) else { return Ok(()) };
        let locked = range_is_locked(&file, FIRST_PROCESS_BYTE, i64::from(PROCESSES_MAX));
        if locked.map_err(|e| Error::io("cannot look at the locks of", path, e))? {
            return Err(Error::LockNotWritable { path: path.into() });
        }
        let word = |at: usize| {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, at as u64).map(|()| u64::from_le_bytes(bytes)).unwrap_or(0)
        };
        use std::mem::offset_of;
        let same = word(offset_of!(Header, magic)) == MAGIC
            && word(offset_of!(Header, boot_id)) == identity.boot_id[0]
            && word(offset_of!(Header, boot_id) + 8) == identity.boot_id[1]
            && word(offset_of!(Header, data_inode)) == identity.inode;
        if same && word(offset_of!(Header, current)) > word(offset_of!(Header, steady)) {
            return Err(Error::NeedsRecovery { path: dir.into() });
        }
        Ok(())
    }

    /// State for this process alone, for reading where nothing can be written.
    pub(crate) fn private(path: &Path, identity: Identity, readers_max: u32) -> Result<Self> {
        let bytes = size_of::<Header>() + readers_max as usize * size_of::<ReaderSlot>();
        // SAFETY: a new anonymous mapping.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }
        .map_err(|e| Error::io("cannot map", path, e))?;
        let mut shared = Self::on_map(base, bytes, None, path);
        shared.incarnation = 1;
        shared.reset(identity, readers_max);
        Ok(shared)
    }

    /// State on a mapping, without a process slot yet.
    fn on_map(base: *mut c_void, bytes: usize, file: Option<File>, path: &Path) -> Self {
        Self {
            base: NonNull::new(base.cast()).expect("mmap does not return null"),
            bytes,
            file,
            path: path.into(),
            slot: 0,
            incarnation: 0,
            left: AtomicBool::new(false),
            threads: Mutex::default(),
            #[cfg(test)]
            holders: Mutex::default(),
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is page-aligned, long enough, and all of `Header` is atomics, valid
        // for any bytes.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    fn readers(&self) -> &[ReaderSlot] {
        let count = (self.bytes - size_of::<Header>()) / size_of::<ReaderSlot>();
        // SAFETY: `bytes` was computed from this count; the slots start at a multiple of 64; all
        // fields are atomics.
        unsafe { std::slice::from_raw_parts(self.base.add(size_of::<Header>()).cast().as_ptr(), count) }
    }

    /// Resets everything, for the first process. Gives the newest root that was known on this boot
    /// of the system for this data file.
    fn reset(&self, identity: Identity, readers_max: u32) -> Option<Root> {
        let header = self.header();
        let same = header.magic.load(Ordering::Relaxed) == MAGIC
            && header.layout_version.load(Ordering::Relaxed) == LAYOUT_VERSION
            && header.poisoned.load(Ordering::Relaxed) == 0
            && header.boot_id[0].load(Ordering::Relaxed) == identity.boot_id[0]
            && header.boot_id[1].load(Ordering::Relaxed) == identity.boot_id[1]
            && header.data_inode.load(Ordering::Relaxed) == identity.inode
            && header.data_device.load(Ordering::Relaxed) == identity.device;
        // Nobody may have agreed on what a process left whose commits need that.
        let is_agreed = header.mode.load(Ordering::Relaxed) == Mode::Agreed as u32;
        let left = (same && !is_agreed).then(|| self.root()).filter(|root| root.txn.0 > 0);
        header.layout_version.store(LAYOUT_VERSION, Ordering::Relaxed);
        header.readers_max.store(readers_max, Ordering::Relaxed);
        for i in 0..2 {
            header.boot_id[i].store(identity.boot_id[i], Ordering::Relaxed);
        }
        header.data_inode.store(identity.inode, Ordering::Relaxed);
        header.data_device.store(identity.device, Ordering::Relaxed);
        header.poisoned.store(0, Ordering::Relaxed);
        header.mode.store(0, Ordering::Relaxed);
        header.turned.store(u64::MAX, Ordering::Relaxed);
        header.cut_pending.store(0, Ordering::Relaxed);
        header.writer.store(0, Ordering::Relaxed);
        header.steady_maker.store(0, Ordering::Relaxed);
        header.last_writer.store(0, Ordering::Relaxed);
        header.readers_used.store(0, Ordering::Relaxed);
        for slot in &header.processes {
            slot.incarnation.store(0, Ordering::Relaxed);
        }
        for slot in self.readers() {
            slot.owner.store(0, Ordering::Relaxed);
            slot.txn.store(SLOT_IDLE, Ordering::Relaxed);
        }
        header.magic.store(MAGIC, Ordering::Release);
        left
    }

    fn take_process_slot(&mut self) -> Result<()> {
        let file = self.file.as_ref().expect("attached state has a file");
        for slot in 0..PROCESSES_MAX {
            match range_lock(file, libc::F_WRLCK, FIRST_PROCESS_BYTE + i64::from(slot), 1, false) {
                Ok(()) => {
                    self.slot = slot;
                    self.release_readers_of(slot);
                    let header = self.header();
                    let incarnation = header.next_incarnation.fetch_add(1, Ordering::Relaxed) + 1;
                    header.processes[slot as usize].incarnation.store(incarnation, Ordering::Relaxed);
                    header.processes[slot as usize].pid.store(std::process::id(), Ordering::Relaxed);
                    // A process that died with the writer's lock does not hold it any more.
                    let _ = header.writer.compare_exchange(slot + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
                    let _ =
                        header.writer.compare_exchange((slot + 1) | WAITERS, 0, Ordering::AcqRel, Ordering::Relaxed);
                    // Nor will it finish a steady point.
                    let _ = header.steady_maker.compare_exchange(slot + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
                    self.incarnation = incarnation;
                    return Ok(());
                }
                Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {}
                Err(e) => return Err(Error::io("cannot lock", &self.path, e)),
            }
        }
        Err(Error::ProcessesFull { processes_max: PROCESSES_MAX })
    }

    /// Opens the gate: lets others attach.
    pub(crate) fn open_gate(&self) {
        if let Some(file) = &self.file {
            let _ = range_lock(file, libc::F_UNLCK, GATE_BYTE, 1, false);
        }
    }

    /// Closes the gate: keeps others from attaching, until the guard is dropped.
    pub(crate) fn close_gate(&self) -> Result<Gate<'_>> {
        let threads = self.threads.lock();
        if let Some(file) = &self.file {
            range_lock(file, libc::F_WRLCK, GATE_BYTE, 1, true).map_err(|e| Error::io("cannot lock", &self.path, e))?;
        }
        Ok(Gate { shared: self, _threads: threads })
    }

    /// Whether another process, or another handle of this one, has the database open.
    pub(crate) fn others_attached(&self) -> bool {
        (0..PROCESSES_MAX).any(|slot| slot != self.slot && self.is_alive(slot))
    }

    fn is_alive(&self, slot: u32) -> bool {
        if slot == self.slot {
            return true;
        }
        let Some(file) = &self.file else { return false };
        range_is_locked(file, FIRST_PROCESS_BYTE + i64::from(slot), 1).unwrap_or(true)
    }

    /// Releases the process slot. The caller does nothing with the database after that.
    pub(crate) fn leave(&self) {
        // Without an incarnation no process slot was taken, and its readers are another process's.
        if let Some(file) =
            self.file.as_ref().filter(|_| self.incarnation > 0 && !self.left.swap(true, Ordering::AcqRel))
        {
            self.release_readers_of(self.slot);
            // Closing the file would not do: a process that another thread is just starting has a
            // copy.
            let _ = range_lock(file, libc::F_UNLCK, FIRST_PROCESS_BYTE + i64::from(self.slot), 1, false);
        }
    }

    /// Whether other processes can open the database at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        self.file.is_some()
    }

    // ---- roots ----

    /// The newest committed root.
    #[inline]
    pub(crate) fn root(&self) -> Root {
        let mut root = self.read_root(&self.header().current);
        if self.header().turned.load(Ordering::Acquire) == root.txn.0 {
            root.log = root.log.turned();
        }
        root
    }

    /// Notes that after the newest root the log goes on in its other file. It is one word, so that
    /// a process that dies leaves it whole.
    pub(crate) fn turn_log(&self, txn: TxnId) {
        self.header().turned.store(txn.0, Ordering::Release);
    }

    /// The root that `newest`, which is `current` or `visible`, names.
    #[inline]
    fn read_root(&self, newest: &AtomicU64) -> Root {
        loop {
            let txn = newest.load(Ordering::Acquire);
            let words = &self.header().roots[(txn % ROOTS) as usize];
            let root = Root::from_words(std::array::from_fn(|i| words[i].load(Ordering::Relaxed)));
            std::sync::atomic::fence(Ordering::Acquire);
            if newest.load(Ordering::Relaxed) == txn {
                return root;
            }
        }
    }

    /// Makes a root the newest: for everybody, or, until it is durable, for writers only. Only the
    /// holder of the writer's lock calls this, or of the gate if it is the first.
    pub(crate) fn publish(&self, root: Root, visible: bool) {
        let header = self.header();
        // Pairs with `read_root`: a reader that reads any of the new words finds another `visible`
        // afterwards.
        std::sync::atomic::fence(Ordering::Release);
        for (word, value) in header.roots[(root.txn.0 % ROOTS) as usize].iter().zip(root.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        header.current.store(root.txn.0, Ordering::SeqCst);
        if visible {
            header.visible.store(root.txn.0, Ordering::SeqCst);
        }
    }

    /// The newest committed transaction. Pairs with the store in `publish`.
    #[inline]
    pub(crate) fn newest(&self) -> TxnId {
        TxnId(self.header().current.load(Ordering::SeqCst))
    }

    /// The newest transaction that readers see.
    #[inline]
    pub(crate) fn visible(&self) -> TxnId {
        TxnId(self.header().visible.load(Ordering::SeqCst))
    }

    /// Whether the processes that write have their commits go to the log.
    pub(crate) fn is_logged(&self) -> bool {
        let mode = self.header().mode.load(Ordering::Relaxed);
        mode == Mode::Logged as u32 || mode == Mode::Agreed as u32
    }

    /// This transaction, and all before it, have become durable.
    pub(crate) fn raise_visible(&self, txn: TxnId) {
        self.header().visible.fetch_max(txn.0, Ordering::SeqCst);
    }

    /// The last steady point.
    #[inline]
    pub(crate) fn steady(&self) -> TxnId {
        TxnId(self.header().steady.load(Ordering::SeqCst))
    }

    /// Sets the last steady point to what the files say.
    pub(crate) fn set_steady(&self, txn: TxnId) {
        self.header().steady.store(txn.0, Ordering::SeqCst);
    }

    /// A steady point is on disk. Another one that was begun later may have been faster.
    pub(crate) fn raise_steady(&self, txn: TxnId) {
        self.header().steady.fetch_max(txn.0, Ordering::SeqCst);
    }

    /// Notes for the next writer whether the file is to be cut off. Only the holder of the writer's
    /// lock calls this.
    pub(crate) fn set_cut_pending(&self, pending: bool) {
        self.header().cut_pending.store(u32::from(pending), Ordering::Relaxed);
    }

    pub(crate) fn is_cut_pending(&self) -> bool {
        self.header().cut_pending.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.header().poisoned.load(Ordering::Acquire) != 0
    }

    /// Marks that a flush failed: nobody commits until every process has opened the database anew.
    pub(crate) fn poison(&self) {
        self.header().poisoned.store(1, Ordering::Release);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.leave();
        // SAFETY: the mapping was made by `attach` or `private` with this length, and nobody refers
        // to it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Milliseconds of a clock that cannot be set and is the same for all processes. Reading it is a
/// read of memory, not a system call. It starts anew with the system, but so do the slots: the
/// first process resets them. It stands still while the system sleeps, when nobody can drop a
/// snapshot.
#[inline]
fn now_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

fn existing_readers_max(file: &File, length: u64) -> Option<u32> {
    use std::os::unix::fs::FileExt;
    if length < size_of::<Header>() as u64 {
        return None;
    }
    let mut bytes = [0; 16];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let magic = u64::from(word(0)) | u64::from(word(4)) << 32;
    let readers_max = word(12);
    let fits = length >= size_of::<Header>() as u64 + u64::from(readers_max) * size_of::<ReaderSlot>() as u64;
    (magic == MAGIC && word(8) == LAYOUT_VERSION && fits).then_some(readers_max)
}

fn lock_request(kind: libc::c_int, start: i64, len: i64) -> libc::flock {
    // SAFETY: `flock` is plain integers, for which zero is a value.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = kind as libc::c_short;
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_start = start;
    request.l_len = len;
    request
}

/// Takes or releases an open-file-description lock on a range of bytes.
fn range_lock(file: &File, kind: libc::c_int, start: i64, len: i64, wait: bool) -> io::Result<()> {
    let request = lock_request(kind, start, len);
    let command = if wait { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
    loop {
        // SAFETY: the descriptor is open for the length of the call and the request is a valid
        // `flock`.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const request) } == 0 {
            return Ok(());
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}

/// Whether another process or handle holds a lock on any byte of a range.
fn range_is_locked(file: &File, start: i64, len: i64) -> io::Result<bool> {
    let mut request = lock_request(libc::F_WRLCK, start, len);
    // SAFETY: as in `range_lock`; the kernel writes the answer into the request.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(request.l_type != libc::F_UNLCK as libc::c_short)
}

#[cfg(test)]
mod tests;

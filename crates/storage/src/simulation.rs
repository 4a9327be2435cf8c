//! The simulated disk, for tests here and above: what a crash may leave, and a disk that fails, is
//! full, cannot be read or lies.
//!
//! The disk keeps two images: memory, which the engine maps, and what is durable. A flush brings
//! one to the other. A crash keeps, of all sectors of 512 bytes that differ, any subset. Crashes
//! happen in front of, during and behind every write beside the map and every flush, at one in so
//! many occasions; each leaves a [`Wreck`], and the history goes on.
//!
//! ```
//! use colibri_storage::simulation::SimDisk;
//! use colibri_storage::{Options, TableKind};
//!
//! # fn main() -> colibri_storage::Result<()> {
//! let disk = SimDisk::of_new(1, 1);
//! let db = disk.open(&Options::new())?;
//! for number in 1..=3_u64 {
//!     let mut txn = db.write()?;
//!     let table = txn.create_table("table", TableKind::Plain)?;
//!     txn.put(&table, &number.to_be_bytes(), b"")?;
//!     txn.commit()?;
//!     disk.acknowledge(number);
//! }
//! for wreck in disk.take_wrecks() {
//!     let db = SimDisk::of_wreck(&wreck, 1).open(&Options::new())?;
//!     let snapshot = db.read()?;
//!     let count = snapshot.table("table").and_then(|table| snapshot.view(&table)?.count(..)).unwrap_or(0);
//!     assert!(count >= wreck.acknowledged());
//! }
//! # Ok(())
//! # }
//! ```

#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::disk::Disk;
use crate::log::{LogFile, growth};
use crate::{Database, EncryptionKey, Error, Options, Result};

const SECTOR_BYTES: usize = 512;
const RESERVED_BYTES: u64 = 32 << 20;
const PAGE_BYTES: u32 = 4096;
/// Of the two meta pages, which are written beside the map.
const META_BYTES: u64 = 2 * PAGE_BYTES as u64;

/// What a crash left on the disk, and which commits had been acknowledged as durable by then.
pub struct Wreck {
    image: Vec<u8>,
    logs: [Vec<u8>; 2],
    pub(crate) acknowledged: u64,
}

impl Wreck {
    /// The highest number that had been given to [`SimDisk::acknowledge`].
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }
}

#[cfg(test)]
impl Wreck {
    /// How many sectors the pages have.
    pub(crate) fn sectors(&self, sector_bytes: usize) -> usize {
        self.image.len() / sector_bytes
    }

    /// With one sector of the pages as another wreck has it.
    pub(crate) fn with_sector_of(&self, other: &Self, sector: usize, sector_bytes: usize) -> Self {
        let mut bytes = vec![0; sector_bytes];
        if let Some(old) = other.image.get(sector * sector_bytes..(sector + 1) * sector_bytes) {
            bytes.copy_from_slice(old);
        }
        self.with_bytes(sector * sector_bytes, &bytes)
    }

    /// With one sector of the pages that was never written.
    pub(crate) fn with_zeros(&self, sector: usize, sector_bytes: usize) -> Self {
        self.with_bytes(sector * sector_bytes, &vec![0; sector_bytes])
    }

    fn with_bytes(&self, offset: usize, bytes: &[u8]) -> Self {
        let mut image = self.image.clone();
        image[offset..offset + bytes.len()].copy_from_slice(bytes);
        Self { image, logs: self.logs.clone(), acknowledged: self.acknowledged }
    }

    /// Whether bytes are anywhere in it.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        let mut files = std::iter::once(&self.image).chain(&self.logs);
        files.any(|file| file.windows(bytes.len()).any(|window| window == bytes))
    }
}

impl std::fmt::Debug for Wreck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let logs = self.logs.each_ref().map(Vec::len);
        write!(f, "Wreck {{ bytes: {}, logs: {logs:?}, acknowledged: {} }}", self.image.len(), self.acknowledged)
    }
}

/// The end of a process, as its thread sees it.
struct Killed;

/// A flush that the disk leaves out while it says it was done: what an engine would be that forgot
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// Of the log, by who has written to it since the last one.
    Log,
    /// Of the log, by who has not, and so flushes for another.
    LogOfOthers,
    /// Of the pages, before the meta page is written.
    Pages,
    /// Of the meta page.
    Meta,
}

/// A file of the log: what was written, and what of it was flushed.
#[derive(Default, Clone)]
struct LogState {
    memory: Vec<u8>,
    durable: Vec<u8>,
    /// Up to where it has space, if that is more than its length.
    ahead: u64,
}

impl LogState {
    fn occupied(&self) -> u64 {
        self.ahead.max(self.memory.len() as u64)
    }
}

pub(crate) struct State {
    durable: Vec<u8>,
    logs: [LogState; 2],
    rng: StdRng,
    pub(crate) wrecks: Vec<Wreck>,
    /// A wreck is kept at one in `rarity` occasions.
    rarity: u32,
    /// Flushes until one fails.
    pub(crate) flushes_left: u64,
    /// What the thread of the history asks of the disk until its process is killed in the middle of
    /// that.
    killed_in: u64,
    /// The thread of the history; others work for processes in the background.
    thread: std::thread::ThreadId,
    /// The next pages that are to be written before a flush are not.
    refuses_to_write_out: bool,
    /// Pages that were not, and never will be.
    lost: Vec<Range<u64>>,
    /// Reads of the log until one fails.
    pub(crate) reads_left: u64,
    /// Bytes that files may take, all together.
    pub(crate) room: u64,
    /// Sectors without disk space behind them: nothing may be written there.
    holes: BTreeSet<u64>,
    /// How many bytes are mapped, and written, as one.
    granule: u64,
    left_out: Option<LeftOut>,
    /// A meta page was written since the last flush of the pages.
    meta_written: bool,
    pub(crate) counts: Counts,
}

/// How often things happened, to show that the histories contain them.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    /// Crashes.
    pub wrecks: usize,
    /// Ranges whose space was given back.
    pub punches: u64,
    /// Files made shorter.
    pub shrinks: u64,
    /// Requests for space that were refused.
    pub refusals: u64,
    /// Processes that were killed.
    pub deaths: u64,
    /// Openings that failed because the disk did.
    pub in_vain: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.wrecks += other.wrecks;
        self.punches += other.punches;
        self.shrinks += other.shrinks;
        self.refusals += other.refusals;
        self.deaths += other.deaths;
        self.in_vain += other.in_vain;
    }
}

/// The disk, and the test's hold on it. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    memory: Arc<Memory>,
    pub(crate) state: Arc<Mutex<State>>,
    allocated: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
    /// Where its lock file is: unlike the disk, it does not survive a crash.
    lock: Arc<tempfile::TempDir>,
}

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimDisk {{ bytes: {} }}", self.allocated.load(Ordering::Relaxed))
    }
}

struct Memory(NonNull<u8>);

// SAFETY: plain memory, unmapped when the last owner goes. A background thread may look at it while
// another writes, as a kernel may write back a page at any time; what it sees is one of the states
// that a crash may leave.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `SimDisk::new` with this length.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), RESERVED_BYTES as usize) };
    }
}

fn failed(what: &'static str) -> Error {
    Error::io(what, "simulated", std::io::Error::other("the disk said no"))
}

impl State {
    fn occupied(&self, allocated: u64) -> u64 {
        let logs: u64 = self.logs.iter().map(LogState::occupied).sum();
        allocated + logs - (self.holes.len() * SECTOR_BYTES) as u64
    }

    /// Counts a flush down, and says whether it is the one that fails.
    fn flush_fails(&mut self) -> bool {
        self.flushes_left = self.flushes_left.saturating_sub(1);
        self.flushes_left == 0
    }

    fn ensure_room(&mut self, allocated: u64, more: u64) -> Result<()> {
        let wanted = self.occupied(allocated) + more;
        if wanted > self.room {
            self.counts.refusals += 1;
            return Err(Error::DiskFull { path: "simulated".into(), bytes_wanted: wanted });
        }
        Ok(())
    }
}

impl SimDisk {
    fn new(image: &[u8], logs: &[Vec<u8>; 2], seed: u64, rarity: u32) -> Self {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), RESERVED_BYTES as usize, protection, MapFlags::PRIVATE) };
        let base: NonNull<u8> = NonNull::new(base.expect("memory for a test").cast()).expect("mmap gives no null");
        // SAFETY: the image is shorter than the mapping, which nobody else knows yet.
        unsafe { base.as_ptr().copy_from_nonoverlapping(image.as_ptr(), image.len()) };
        let state = State {
            durable: image.to_vec(),
            logs: logs.clone().map(|bytes| LogState { memory: bytes.clone(), durable: bytes, ahead: 0 }),
            rng: StdRng::seed_from_u64(seed),
            wrecks: Vec::new(),
            rarity,
            flushes_left: u64::MAX,
            refuses_to_write_out: false,
            lost: Vec::new(),
            killed_in: u64::MAX,
            thread: std::thread::current().id(),
            reads_left: u64::MAX,
            room: u64::MAX,
            holes: BTreeSet::new(),
            granule: u64::from(PAGE_BYTES),
            left_out: None,
            meta_written: false,
            counts: Counts::default(),
        };
        Self {
            memory: Arc::new(Memory(base)),
            state: Arc::new(Mutex::new(state)),
            allocated: Arc::new(AtomicU64::new(image.len() as u64)),
            acknowledged: Arc::new(AtomicU64::new(0)),
            lock: Arc::new(tempfile::tempdir().expect("a directory")),
        }
    }

    /// With a new database. Crashes happen at one in `rarity` occasions: at each with 1, at
    /// practically none with [`u32::MAX`].
    pub fn of_new(seed: u64, rarity: u32) -> Self {
        Self::of_new_encrypted(seed, rarity, None)
    }

    /// As [`SimDisk::of_new`], with an encrypted database if there is a key.
    pub fn of_new_encrypted(seed: u64, rarity: u32, key: Option<&EncryptionKey>) -> Self {
        let image = Database::image_of_new(PAGE_BYTES, key).expect("random numbers");
        Self::new(&image, &Default::default(), seed, rarity)
    }

    /// What a crash left, on a disk that works.
    pub fn of_wreck(wreck: &Wreck, seed: u64) -> Self {
        Self::new(&wreck.image, &wreck.logs, seed, u32::MAX)
    }

    /// The disk lies about some flushes from now on.
    pub fn leave_out(&self, left_out: Option<LeftOut>) {
        self.state.lock().left_out = left_out;
    }

    /// Simulates a kernel whose pages are `granule` bytes long, from now on.
    pub fn map_in(&self, granule: u64) {
        assert!(granule.is_power_of_two() && granule >= u64::from(PAGE_BYTES));
        self.state.lock().granule = granule;
    }

    /// Opens the database as a process of its own would.
    ///
    /// # Errors
    /// Those of [`Database::open`].
    pub fn open(&self, options: &Options) -> Result<Database> {
        let logs = [0, 1].map(|file| {
            Box::new(SimLog { disk: self.clone(), file, written: AtomicBool::new(false) }) as Box<dyn LogFile>
        });
        let metas = [0, 1].map(|slot| self.memory()[slot * PAGE_BYTES as usize..][..PAGE_BYTES as usize].to_vec());
        let lock = self.lock.path().join("lock");
        Database::on_disk(Box::new(self.clone()), logs, &lock, options, PAGE_BYTES, &metas)
    }

    /// A commit is durable, as far as the engine says: all up to it have to survive.
    pub fn acknowledge(&self, commit: u64) {
        self.acknowledged.fetch_max(commit, Ordering::Relaxed);
    }

    /// The highest number that was acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Runs what one process does, and kills it in the middle, after its `operations`-th request to
    /// the disk. Gives what came out if it is done before that.
    pub fn kill_during<T>(&self, operations: u64, run: impl FnOnce() -> T) -> Option<T> {
        self.state.lock().killed_in = operations;
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        self.state.lock().killed_in = u64::MAX;
        match result {
            Ok(result) => Some(result),
            Err(cause) if cause.is::<Killed>() => None,
            Err(cause) => std::panic::resume_unwind(cause),
        }
    }

    /// Leaves room for `more` bytes beyond what is used now; `None` for no limit.
    pub fn limit_room(&self, more: Option<u64>) {
        let mut state = self.state.lock();
        state.room = more.map_or(u64::MAX, |more| state.occupied(self.allocated()) + more);
    }

    /// The next pages that are written before a flush are not, which the disk says once.
    #[cfg(test)]
    pub(crate) fn fail_to_write_out(&self) {
        self.state.lock().refuses_to_write_out = true;
    }

    /// How often things happened.
    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    /// Space that the log has and has not written to.
    pub fn log_bytes_ahead(&self) -> u64 {
        self.state.lock().logs.iter().map(|log| log.occupied() - log.memory.len() as u64).sum()
    }

    /// Bytes of the log's files.
    pub fn log_bytes(&self) -> u64 {
        self.state.lock().logs.iter().map(|log| log.memory.len() as u64).sum()
    }

    /// The disk works again.
    pub fn recover_from_faults(&self) {
        let mut state = self.state.lock();
        (state.room, state.flushes_left, state.reads_left) = (u64::MAX, u64::MAX, u64::MAX);
    }

    /// Keeps what a crash now might leave.
    pub fn crash(&self) {
        let mut state = self.state.lock();
        let wreck = self.wreck(&mut state);
        state.wrecks.push(wreck);
    }

    /// What crashes have left since this was asked last.
    pub fn take_wrecks(&self) -> Vec<Wreck> {
        std::mem::take(&mut self.state.lock().wrecks)
    }

    /// What is durable, and nothing else.
    pub fn durable(&self) -> Wreck {
        let state = self.state.lock();
        Wreck {
            image: state.durable.clone(),
            logs: state.logs.clone().map(|log| log.durable),
            acknowledged: self.acknowledged(),
        }
    }

    /// A granule has disk space as a whole, or none: the kernel writes a granule as a whole, also when
    /// only a part of it has changed.
    fn ensure_whole_granules(&self, state: &State) {
        let mut holes = state.holes.iter().peekable();
        while let Some(&first) = holes.next() {
            let start = first - first % state.granule;
            let end = (start + state.granule).min(self.allocated());
            let mut sectors = 1;
            while holes.next_if(|&&hole| hole < end).is_some() {
                sectors += 1;
            }
            let of_all = (end - start) / SECTOR_BYTES as u64;
            assert!(sectors == of_all, "{sectors} of {of_all} sectors from {start} on have no disk space");
        }
    }

    fn memory(&self) -> &[u8] {
        // SAFETY: below the mapping's length. Who writes meanwhile writes bytes that nobody here
        // relies on.
        unsafe { std::slice::from_raw_parts(self.memory.0.as_ptr(), self.allocated() as usize) }
    }

    /// What a crash now might leave.
    fn wreck(&self, state: &mut State) -> Wreck {
        let acknowledged = self.acknowledged();
        let memory = self.memory();
        let mut image = state.durable.clone();
        // The length of the file is metadata with a fate of its own.
        if image.len() < memory.len() && state.rng.random_bool(0.7) {
            image.resize(memory.len(), 0);
        }
        keep_some(&mut image, memory, &mut state.rng);
        let mut logs = state.logs.clone().map(|log| log.durable);
        for (log, kept) in state.logs.iter().zip(&mut logs) {
            if kept.len() < log.memory.len() && state.rng.random_bool(0.7) {
                kept.resize(log.memory.len(), 0);
            }
            keep_some(kept, &log.memory, &mut state.rng);
        }
        Wreck { image, logs, acknowledged }
    }

    /// Here the system may crash, or a process be killed.
    fn maybe_crash(&self, state: &mut State) {
        if std::thread::current().id() == state.thread {
            state.killed_in = state.killed_in.saturating_sub(1);
            if state.killed_in == 0 {
                state.killed_in = u64::MAX;
                std::panic::resume_unwind(Box::new(Killed));
            }
        }
        let rarity = state.rarity;
        if state.rng.random_ratio(1, rarity) {
            let wreck = self.wreck(state);
            state.wrecks.push(wreck);
        }
    }
}

/// Brings some sectors of what is durable to what is in memory.
fn keep_some(durable: &mut [u8], memory: &[u8], rng: &mut StdRng) {
    let chance = [0.0, 0.1, 0.5, 0.9, 0.99, 1.0][rng.random_range(0..6)];
    for (old, new) in durable.chunks_mut(SECTOR_BYTES).zip(memory.chunks(SECTOR_BYTES)) {
        if old != new && rng.random_bool(chance) {
            old.copy_from_slice(&new[..old.len()]);
        }
    }
}

/// A file of the log on the simulated disk, as one process has it open.
struct SimLog {
    disk: SimDisk,
    file: usize,
    /// By this process, since it last flushed.
    written: AtomicBool,
}

impl LogFile for SimLog {
    fn allocated(&self) -> u64 {
        self.disk.state.lock().logs[self.file].memory.len() as u64
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let mut state = self.disk.state.lock();
        let (length, occupied) = (state.logs[self.file].memory.len() as u64, state.logs[self.file].occupied());
        if bytes <= length {
            return Ok(());
        }
        let allocated = self.disk.allocated();
        let room = state.room.saturating_sub(state.occupied(allocated));
        let (until, ahead) = growth(length, bytes, room);
        // What it has ahead already takes no more.
        state.ensure_room(allocated, until.saturating_sub(occupied))?;
        let log = &mut state.logs[self.file];
        log.memory.resize(until as usize, 0);
        if ahead.saturating_sub(occupied) <= room {
            log.ahead = log.ahead.max(ahead);
        }
        Ok(())
    }

    fn refresh(&self) -> Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.disk.state.lock();
        self.disk.maybe_crash(&mut state);
        let (page, end) = (rustix::param::page_size() as u64, offset + bytes.len() as u64);
        let in_pages = end <= offset.next_multiple_of(page) || end.is_multiple_of(page);
        assert!(in_pages || end == state.logs[self.file].memory.len() as u64, "a new page is written in part");
        state.logs[self.file].memory[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        self.written.store(true, Ordering::Relaxed);
        self.disk.maybe_crash(&mut state);
        Ok(())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let mut state = self.disk.state.lock();
        state.reads_left = state.reads_left.saturating_sub(1);
        if state.reads_left == 0 {
            return Err(failed("cannot read"));
        }
        let rest = state.logs[self.file].memory.get(offset as usize..).unwrap_or_default();
        let got = rest.len().min(bytes.len());
        bytes[..got].copy_from_slice(&rest[..got]);
        Ok(got)
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.disk.state.lock();
        self.disk.maybe_crash(&mut state);
        let own = self.written.swap(false, Ordering::Relaxed);
        if state.flush_fails() {
            let wreck = self.disk.wreck(&mut state);
            for (log, kept) in state.logs.iter_mut().zip(wreck.logs) {
                log.durable = kept;
            }
            return Err(failed("cannot flush"));
        }
        if state.left_out != Some(if own { LeftOut::Log } else { LeftOut::LogOfOthers }) {
            let log = &mut state.logs[self.file];
            log.durable.clone_from(&log.memory);
        }
        self.disk.maybe_crash(&mut state);
        Ok(())
    }

    fn remove(&self) {
        let mut state = self.disk.state.lock();
        state.logs[self.file].memory.clear();
        state.logs[self.file].ahead = 0;
        // Unless the directory is flushed, a crash may bring the file back as it was.
        if state.rng.random_bool(0.5) {
            state.logs[self.file].durable.clear();
        }
    }
}

impl Disk for SimDisk {
    fn map(&self) -> (NonNull<u8>, u64) {
        (self.memory.0, RESERVED_BYTES)
    }

    fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Relaxed)
    }

    fn occupied(&self) -> Result<u64> {
        Ok(self.allocated() - (self.state.lock().holes.len() * SECTOR_BYTES) as u64)
    }

    fn refresh(&self) -> Result<()> {
        Ok(())
    }

    fn granule(&self) -> u64 {
        self.state.lock().granule
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let old = self.allocated();
        self.state.lock().ensure_room(old, bytes.saturating_sub(old))?;
        if bytes > RESERVED_BYTES {
            return Err(Error::DiskFull { path: "simulated".into(), bytes_wanted: bytes });
        }
        self.allocated.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn back(&self, offset: u64, bytes: u64) -> Result<()> {
        let mut state = self.state.lock();
        assert!(offset + bytes <= self.allocated());
        let filled = state.holes.range(offset..offset + bytes).count() * SECTOR_BYTES;
        state.ensure_room(self.allocated(), filled as u64)?;
        state.holes.retain(|hole| !(offset..offset + bytes).contains(hole));
        Ok(())
    }

    fn punch(&self, offset: u64, bytes: u64) -> Result<()> {
        let mut state = self.state.lock();
        self.maybe_crash(&mut state);
        let range = offset as usize..(offset + bytes) as usize;
        // SAFETY: the range lies within the mapping, and nobody refers to free pages.
        unsafe { self.memory.0.as_ptr().add(range.start).write_bytes(0, range.len()) };
        // It takes effect at once or with the next flush.
        if state.rng.random_bool(0.5) {
            // A flush that was left out may have left it short.
            let end = range.end.min(state.durable.len());
            state.durable[range.start.min(end)..end].fill(0);
        }
        state.counts.punches += 1;
        state.holes.extend((offset..offset + bytes).step_by(SECTOR_BYTES));
        self.maybe_crash(&mut state);
        Ok(())
    }

    fn populate(&self, _offset: u64, _bytes: u64) {}

    fn write_out(&self, ranges: &[Range<u64>]) -> Result<()> {
        let ascend = ranges.windows(2).all(|pair| pair[0].end <= pair[1].start);
        let within = ranges.last().is_none_or(|last| last.end <= self.allocated());
        assert!(ascend && within && ranges.iter().all(|range| range.start >= META_BYTES), "{ranges:?}");
        let mut state = self.state.lock();
        self.maybe_crash(&mut state);
        if state.flush_fails() || std::mem::take(&mut state.refuses_to_write_out) {
            // Some of it has been written. The kernel takes all of it for written, and no flush
            // will tell otherwise.
            state.durable = self.wreck(&mut state).image;
            state.lost.extend(ranges.iter().cloned());
            return Err(failed("cannot write to"));
        }
        Ok(())
    }

    fn shrink(&self, bytes: u64) -> Result<()> {
        let mut state = self.state.lock();
        self.maybe_crash(&mut state);
        let old = self.allocated.swap(bytes, Ordering::Relaxed);
        // SAFETY: the range lies within the mapping, and the engine refers to nothing behind its
        // page count.
        unsafe { self.memory.0.as_ptr().add(bytes as usize).write_bytes(0, (old - bytes) as usize) };
        // It takes effect at once or with the next flush.
        if state.rng.random_bool(0.5) {
            state.durable.truncate(bytes as usize);
        }
        state.holes.retain(|&hole| hole < bytes);
        state.counts.shrinks += u64::from(bytes < old);
        self.maybe_crash(&mut state);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        self.maybe_crash(&mut state);
        // SAFETY: meta pages lie within the mapping, and nobody holds a reference to them
        // meanwhile.
        unsafe { self.memory.0.as_ptr().add(offset as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        state.meta_written = true;
        self.maybe_crash(&mut state);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.maybe_crash(&mut state);
        let meta = std::mem::take(&mut state.meta_written);
        if state.flush_fails() {
            // A failed flush has written some of it.
            let wreck = self.wreck(&mut state);
            state.durable = wreck.image;
            return Err(failed("cannot flush"));
        }
        for &hole in &state.holes {
            let sector = &self.memory()[hole as usize..][..SECTOR_BYTES];
            assert!(sector.iter().all(|&byte| byte == 0), "written without disk space at {hole}");
        }
        self.ensure_whole_granules(&state);
        if state.left_out != Some(if meta { LeftOut::Meta } else { LeftOut::Pages }) {
            let mut before = std::mem::replace(&mut state.durable, self.memory().to_vec());
            before.resize(state.durable.len(), 0);
            for lost in state.lost.clone() {
                let range = lost.start as usize..lost.end as usize;
                state.durable[range.clone()].copy_from_slice(&before[range]);
            }
        }
        self.maybe_crash(&mut state);
        Ok(())
    }

    fn path(&self) -> &Path {
        Path::new("simulated")
    }
}

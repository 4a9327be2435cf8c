//! The redo log: what committed since the last steady point, as operations, in two files that take
//! turns.
//!
//! A commit appends one record and is durable once the file is flushed. Several commits share a
//! flush. A steady point makes the records before it superfluous. When one begins, records go on at
//! the start of the other file, so that no record is overwritten that may still be needed. Files
//! keep their length, so that flushing them writes data and no metadata.
//!
//! ```text
//! record:   0  8  checksum of what follows, seeded with the checksum of the record before
//!           8  4  length of the whole record, a multiple of 8
//!          12  4  zero
//!          16  8  transaction
//!          24     operations, then zeros; in an encrypted database sealed, and a tag of 16 bytes behind
//! ```
//! The chain of checksums starts from a number in the meta page. So a record counts only if all the
//! records before it are there that were before it when it was written. Neither records that an
//! earlier turn left in the file nor those of commits that a crash took are mistaken for valid
//! ones.
//!
//! Invariants:
//! 1. Records behind a position have ascending transaction numbers without gaps.
//! 2. The files hold every record between the last steady point on disk and the newest commit.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, fstatvfs};
use rustix::param::page_size;
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zeroize::Zeroizing;

use crate::encryption::{Cipher, Place, TAG_BYTES};
use crate::page::{TxnId, get_u32, get_u64};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::{Error, Result, disk};

pub(crate) mod difference;
pub(crate) mod record;

/// Bytes before the operations of a record.
pub(crate) const RECORD_HEADER_BYTES: usize = 24;
/// A log file grows by this number of bytes, which are written as zeros: flushing over written
/// bytes is twice as fast as flushing over bytes that are only allocated, since the file system has
/// no metadata to write. The number is small because one commit waits for it.
pub(crate) const FILL_BYTES: u64 = if cfg!(test) { 16 << 10 } else { 256 << 10 };
/// Between this many and twice as many bytes that were written last stay in the page cache.
const KEEP_BYTES: u64 = 256 << 10;
/// Disk space ahead of that is asked for in one piece if the file system has this many times as
/// much left: the data cannot have what the log takes and does not use.
const AHEAD_PART: u64 = 8;

/// The leader of a group waits for others for this fraction of the time that a flush takes.
const GATHER_PART: u32 = 2;
/// After a flush for one commit during which another commit came, this many commits are left to the
/// background thread, which flushes for all that wait.
const CROWDED_FOR: u32 = 32;
/// How often the thread that flushes for tasks yields first.
const YIELDS_MAX: u32 = 3;
/// A yield shorter than this means that no other thread was runnable.
const YIELD_IDLE: Duration = Duration::from_micros(10);
/// After this number of yields in a row that brought no task, yielding is left out for some
/// flushes. That number doubles each time, up to two to the power of `YIELD_PAUSE_BITS`.
const YIELDS_VAIN: u32 = 4;
const YIELD_PAUSE_BITS: u32 = 10;

/// A file of the log, or the simulation of one.
pub(crate) trait LogFile: Send + Sync {
    /// Bytes that can be written without growing.
    fn allocated(&self) -> u64;
    /// Makes room for at least `bytes` bytes. If there is none, takes none.
    fn grow(&self, bytes: u64) -> Result<()>;
    /// Learns how long the file is, which another process may have written.
    fn refresh(&self) -> Result<()>;
    /// Writes below `allocated`. A write that covers a part of a page that is not in memory may
    /// wait for the disk to read the page.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Reads what is there, up to the length of `bytes`.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize>;
    /// Returns once everything written is on disk.
    fn sync(&self) -> Result<()>;
    /// Deletes the file, if it can.
    fn remove(&self);
}

/// A log file in a directory. It is made when it is first written to.
pub(crate) struct FileLog {
    path: PathBuf,
    file: OnceLock<File>,
    /// The directory was flushed, so that the file is found after a crash.
    dir_flushed: AtomicBool,
    allocated: AtomicU64,
    /// The end of what this process has written last.
    written: AtomicU64,
    /// Up to here pages were dropped from the page cache, since the writing last began at the
    /// start.
    dropped: AtomicU64,
}

impl FileLog {
    /// The two files of the database in a directory.
    pub(crate) fn pair(dir: &Path, names: &[OsString; 2]) -> Result<[Box<dyn LogFile>; 2]> {
        let [first, second] = names;
        Ok([Box::new(Self::new(dir.join(first))?), Box::new(Self::new(dir.join(second))?)])
    }

    fn new(path: PathBuf) -> Result<Self> {
        let [allocated, written, dropped] = [const { AtomicU64::new(0) }; 3];
        let log =
            Self { file: OnceLock::new(), dir_flushed: AtomicBool::new(false), allocated, written, dropped, path };
        match log.existing() {
            Ok(_) => {}
            // Where the file cannot be written, it is only read.
            Err(Error::Io { source, .. })
                if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
            {
                log.hold(File::open(&log.path).map_err(|e| Error::io("cannot open", &log.path, e))?)?;
            }
            Err(e) => return Err(e),
        }
        Ok(log)
    }

    fn hold(&self, file: File) -> Result<&File> {
        let length = file.metadata().map_err(|e| Error::io("cannot read the size of", &self.path, e))?.len();
        self.allocated.store(length, Ordering::Release);
        Ok(self.file.get_or_init(|| file))
    }

    /// The file, if there is one; another process may have made it.
    fn existing(&self) -> Result<Option<&File>> {
        if let Some(file) = self.file.get() {
            return Ok(Some(file));
        }
        match File::options().read(true).write(true).open(&self.path) {
            Ok(file) => self.hold(file).map(Some),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("cannot open", &self.path, e)),
        }
    }

    /// The file, which is made if there is none.
    fn file(&self) -> Result<&File> {
        let failed = |e| Error::io("cannot create", &self.path, e);
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let file = File::options().read(true).write(true).create(true).truncate(false).open(&self.path);
                self.hold(file.map_err(failed)?)?
            }
        };
        // The process that made the file may have died before it flushed the directory.
        if !self.dir_flushed.load(Ordering::Acquire) {
            let dir = self.path.parent().unwrap_or(Path::new("."));
            File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
            self.dir_flushed.store(true, Ordering::Release);
        }
        Ok(file)
    }
}

/// How a file grows from `from` to at least `bytes` if the file system has `room` left: the end of
/// the zeros to write, and the end of the space to ask for.
pub(crate) fn growth(from: u64, bytes: u64, room: u64) -> (u64, u64) {
    let until = bytes.next_multiple_of(FILL_BYTES);
    let ahead = until.next_power_of_two();
    (until, if ahead - from <= room / AHEAD_PART { ahead } else { until })
}

/// Writes zeros behind a file's end. If there is no room for all of them, takes back the others: a
/// steady point is made instead of the log record, and needs room, too.
fn fill(file: &File, range: Range<u64>, write: impl Fn(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
    // One page at a time. The system counts what one larger write left in the page cache as written
    // whole each time that a part of it is written (27 KB per transaction of TPC-C instead of 9).
    let zeros = [0; 4096];
    let mut places = range.clone().step_by(zeros.len());
    places.try_for_each(|at| write(&zeros, at)).inspect_err(|_| _ = file.set_len(range.start))
}

/// How many zeros to write behind a record, so that each page it begins is written whole. Writing a
/// part of a page that is not in memory waits for the disk to read it.
fn padding(record: Range<u64>, page_bytes: u64, allocated: u64) -> usize {
    let begun = record.start.next_multiple_of(page_bytes);
    let end = if begun < record.end { record.end.next_multiple_of(page_bytes).min(allocated) } else { record.end };
    end.saturating_sub(record.end) as usize
}

/// What can be dropped from the page cache if everything up to `flushed` is on disk and everything
/// up to `dropped` was dropped before. Grows in steps that are worth a system call.
fn droppable(dropped: u64, flushed: u64) -> Range<u64> {
    let until = (flushed / KEEP_BYTES).saturating_sub(1) * KEEP_BYTES;
    // The writing has begun at the start again.
    let from = if dropped > until { 0 } else { dropped };
    from..until
}

impl LogFile for FileLog {
    fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Acquire)
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let file = self.file()?;
        // Another process may have made the file longer, and written there.
        self.refresh()?;
        let from = self.allocated();
        if from >= bytes {
            return Ok(());
        }
        let room = fstatvfs(file).map_or(0, |fs| fs.f_bavail.saturating_mul(fs.f_frsize));
        let (until, ahead) = growth(from, bytes, room);
        if ahead > until && fallocate(file, FallocateFlags::KEEP_SIZE, from, ahead - from).is_err() {
            // Some file systems have taken a part of the space by then.
            let _ = file.set_len(from);
        }
        fill(file, from..until, |zeros, at| file.write_all_at(zeros, at))
            .map_err(|e| disk::no_room("cannot grow", &self.path, until, e))?;
        self.allocated.store(until, Ordering::Release);
        Ok(())
    }

    fn refresh(&self) -> Result<()> {
        if let Some(file) = self.existing()? {
            let length = file.metadata().map_err(|e| Error::io("cannot read the size of", &self.path, e))?.len();
            self.allocated.store(length, Ordering::Release);
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = self.file()?;
        let page = page_size() as u64;
        let end = offset + bytes.len() as u64;
        // The last of several new pages is written by itself. The system counts what one call left
        // in the page cache as written whole each time that a part of it is, as the next record
        // will.
        let (first, last) = (offset.next_multiple_of(page), end.saturating_sub(1) / page * page);
        let (front, back) = bytes.split_at(if last > first { (last - offset) as usize } else { 0 });
        let written =
            file.write_all_at(front, offset).and_then(|()| file.write_all_at(back, offset + front.len() as u64));
        written.map_err(|e| Error::io("cannot write", &self.path, e))?;
        self.written.store(end, Ordering::Release);
        Ok(())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let Some(file) = self.file.get() else { return Ok(0) };
        let mut got = 0;
        while got < bytes.len() {
            match file.read_at(&mut bytes[got..], offset + got as u64) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("cannot read", &self.path, e)),
            }
        }
        Ok(got)
    }

    fn sync(&self) -> Result<()> {
        let Some(file) = self.existing()? else { return Ok(()) };
        let written = self.written.load(Ordering::Acquire);
        disk::flush(file, &self.path)?;
        // The log is read after a crash only, so its pages can be dropped for its next ones. What
        // is not on disk stays in the cache anyway.
        let range = droppable(self.dropped.load(Ordering::Relaxed), written);
        if let Some(bytes) = NonZeroU64::new(range.end - range.start) {
            let _ = fadvise(file, range.start, Some(bytes), Advice::DontNeed);
        }
        self.dropped.store(range.end, Ordering::Relaxed);
        Ok(())
    }

    fn remove(&self) {
        if self.file.get().is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A place between two records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// Which of the two files.
    pub(crate) file: u32,
    pub(crate) offset: u64,
    /// The checksum of the record before, or what the chain starts from.
    pub(crate) chain: u64,
}

impl Position {
    /// The start of the other file, going on with the chain.
    pub(crate) fn turned(self) -> Self {
        Self { file: 1 - self.file, offset: 0, chain: self.chain }
    }
}

/// The transaction and the checksum of a whole record, if that follows one with the checksum
/// `chain`.
pub(crate) fn record_of(bytes: &[u8], chain: u64) -> Option<(TxnId, u64)> {
    let fits = bytes.len() >= RECORD_HEADER_BYTES && get_u32(bytes, 8) as usize == bytes.len();
    let checksum = fits.then(|| xxh3_64_with_seed(&bytes[8..], chain))?;
    (checksum == get_u64(bytes, 0)).then(|| (TxnId(get_u64(bytes, 16)), checksum))
}

/// The two files, and who waits for them.
pub(crate) struct Log {
    files: [Box<dyn LogFile>; 2],
    /// Seals records, if the database is encrypted.
    cipher: Option<Arc<Cipher>>,
    /// Written since the last flush by this process.
    dirty: [AtomicBool; 2],
    group: Mutex<Group>,
    flushed: Condvar,
    /// As many threads wait as the leader hopes for.
    gathered: Condvar,
    flushes: AtomicU64,
}

/// The threads and tasks that wait for a flush.
///
/// A thread that finds no leader becomes the leader: it flushes for all whose records are written
/// by then. Those whom the last flush has released are likely to commit again at once. So the
/// leader waits for them for a fraction of a flush's time. Otherwise it would flush for itself
/// alone, and all others would wait twice as long.
#[derive(Default)]
struct Group {
    /// A leader flushes, or is about to. The flush may not cover a thread that comes now; it waits
    /// for the next one.
    led: bool,
    failed: bool,
    /// How many flushes have begun.
    round: u64,
    /// Threads that came since the last flush began.
    waiting: u32,
    /// How many will wait if all that the last flush has released come again.
    expected: u32,
    /// How long the leader waits for them.
    gather_until: Option<Instant>,
    wakers: Vec<std::task::Waker>,
    /// Threads and tasks that waited when the last flush ended, among them those whom it served.
    came: usize,
    yield_back_off: BackOff,
    /// How many further commits are left to the background thread: see [`Log::was_alone`].
    crowded: u32,
}

/// Whether yielding before a flush is worth it. The runtime has the like for its own purpose
/// (`worker::BackOff`); the two crates know nothing of each other.
#[derive(Default)]
struct BackOff {
    /// How often in a row a yield brought no task.
    vain: u32,
    /// For how many flushes yielding is left out.
    pause: u32,
}

impl BackOff {
    /// Whether to leave it out this time.
    fn is_paused(&mut self) -> bool {
        let is_paused = self.pause > 0;
        self.pause = self.pause.saturating_sub(1);
        is_paused
    }

    /// Notes whether a yield brought a task (`came`), and whether another thread ran meanwhile.
    fn tried(&mut self, came: bool, took_time: bool) {
        if came {
            self.vain = 0;
        } else if took_time {
            self.vain += 1;
            if self.vain > YIELDS_VAIN {
                self.pause = 1 << self.vain.min(YIELD_PAUSE_BITS);
            }
        }
    }
}

impl Log {
    pub(crate) fn new(files: [Box<dyn LogFile>; 2], cipher: Option<Arc<Cipher>>) -> Self {
        Self {
            files,
            cipher,
            dirty: [AtomicBool::new(false), AtomicBool::new(false)],
            group: Mutex::default(),
            flushed: Condvar::new(),
            gathered: Condvar::new(),
            flushes: AtomicU64::new(0),
        }
    }

    /// How long a record is in the log that has `bytes` bytes with its header and operations.
    pub(crate) fn written_bytes(&self, bytes: usize) -> usize {
        bytes + if self.cipher.is_some() { TAG_BYTES } else { 0 }
    }

    /// Makes sure that a record of `bytes` bytes, header and operations, can be written, so that a
    /// commit cannot fail half way.
    pub(crate) fn reserve(&self, at: Position, bytes: usize) -> Result<()> {
        self.make_room(at, self.written_bytes(bytes))
    }

    fn make_room(&self, at: Position, bytes: usize) -> Result<()> {
        let file = &self.files[at.file as usize];
        let needed = at.offset + bytes as u64;
        if needed <= file.allocated() {
            return Ok(());
        }
        file.grow(needed)
    }

    /// Writes the record of a transaction. Gives the position behind it. Only the writer calls
    /// this.
    pub(crate) fn append(&self, at: Position, record: &mut record::Builder, txn: TxnId) -> Result<Position> {
        if let Some(cipher) = &self.cipher {
            record.encrypt(|operations| cipher.seal(Place::Record { txn, chain: at.chain }, operations));
        }
        let bytes = record.seal(txn, at.chain);
        let (length, chain) = (bytes.len(), get_u64(bytes, 0));
        self.make_room(at, length)?;
        let file = &self.files[at.file as usize];
        let end = at.offset + length as u64;
        let zeros = padding(at.offset..end, page_size() as u64, file.allocated());
        file.write(at.offset, record.pad(zeros))?;
        // Bug: this came before the write. Consequence: a flush in between cleared the mark without
        // covering the record, the next flush found nothing to do, and the commit was acknowledged
        // without being on disk. Fix: the mark is set after the write. The model below finds the
        // bug.
        self.dirty[at.file as usize].store(true, Ordering::Release);
        Ok(Position { file: at.file, offset: end, chain })
    }

    /// Learns how long the files are, which another process may have written.
    pub(crate) fn refresh(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| file.refresh())
    }

    /// Flushes what this process has written, and, if `all`, what other processes may have written.
    pub(crate) fn flush(&self, all: bool) -> Result<()> {
        for (file, dirty) in self.files.iter().zip(&self.dirty) {
            // The mark is cleared before the flush: a write during the flush sets it again.
            if dirty.swap(false, Ordering::AcqRel) || all {
                self.flushes.fetch_add(1, Ordering::Relaxed);
                file.sync()?;
            }
        }
        Ok(())
    }

    /// Waits until `is_durable` is true. The leader calls `cover` before the flush: it tells up to
    /// where records are written, and whether another process may have written some of them. It
    /// calls `durable` with the former after the flush; that may fail.
    pub(crate) fn wait<T>(
        &self,
        is_durable: impl Fn() -> bool,
        cover: impl Fn() -> (T, bool),
        durable: impl Fn(T) -> Result<()>,
    ) -> Result<()> {
        let mut group = self.group.lock();
        group.waiting += 1;
        let round = group.round;
        if group.led && group.waiting >= group.expected {
            self.gathered.notify_all();
        }
        loop {
            let done = is_durable();
            if done || group.failed {
                if group.round == round {
                    group.waiting -= 1;
                }
                return if done { Ok(()) } else { Err(Error::Poisoned) };
            }
            if group.led {
                self.flushed.wait(&mut group);
                continue;
            }
            group.led = true;
            self.gather(&mut group);
            group.round += 1;
            let covers = std::mem::take(&mut group.waiting);
            drop(group);
            let begun = Instant::now();
            let (covered, others) = cover();
            let result = self.flush(others).and_then(|()| durable(covered));
            let took = begun.elapsed();
            group = self.group.lock();
            group.led = false;
            group.expected = group.waiting + covers;
            group.came = group.waiting as usize + group.wakers.len();
            group.gather_until = Instant::now().checked_add(took / GATHER_PART);
            group.failed |= result.is_err();
            self.wake(&mut group);
            result?;
        }
    }

    /// Waits for those whom the last flush has released.
    fn gather(&self, group: &mut MutexGuard<'_, Group>) {
        let Some(until) = group.gather_until else { return };
        while group.waiting < group.expected && !group.failed && Instant::now() < until {
            if self.gathered.wait_until(group, until).timed_out() {
                return;
            }
        }
    }

    /// Yields before a flush, so that more tasks come to wait for it.
    ///
    /// While the CPUs are busy, tasks are on their way to their commits, and a flush costs as much
    /// as some statements: on a machine of two cores the flushing thread would interrupt them for
    /// every other commit. While a CPU is idle, yielding returns at once. Where yielding takes time
    /// and brings no task, because tasks wait for something else or another program uses the CPU,
    /// it is tried more and more rarely.
    pub(crate) fn gather_tasks(&self) {
        let mut group = self.group.lock();
        if group.yield_back_off.is_paused() {
            return;
        }
        let before = group.wakers.len();
        drop(group);
        let begun = Instant::now();
        let mut at = begun;
        for _ in 0..YIELDS_MAX {
            std::thread::yield_now();
            let now = Instant::now();
            if now - at < YIELD_IDLE {
                break;
            }
            at = now;
        }
        group = self.group.lock();
        let came = group.wakers.len() > before;
        group.yield_back_off.tried(came, at > begun);
    }

    fn wake(&self, group: &mut Group) {
        self.flushed.notify_all();
        for waker in group.wakers.drain(..) {
            waker.wake();
        }
    }

    /// Wakes all who wait, to check again: a steady point has made commits durable, or (`failed`)
    /// nothing will become durable any more.
    pub(crate) fn notify(&self, failed: bool) {
        let mut group = self.group.lock();
        group.failed |= failed;
        self.wake(&mut group);
    }

    /// How many flushes there were.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Whether a flush is for one commit only, as far as can be told: no flush is under way, nobody
    /// waits for one, and nobody came during the last flushes of that kind.
    pub(crate) fn is_alone(&self) -> bool {
        let mut group = self.group.lock();
        let is_crowded = group.crowded > 0;
        group.crowded = group.crowded.saturating_sub(1);
        !is_crowded && !group.led && group.waiting == 0 && group.wakers.is_empty()
    }

    /// After a flush for one commit: notes whether others came meanwhile, who now need another one.
    /// Together they would be served by one.
    pub(crate) fn was_alone(&self) {
        let mut group = self.group.lock();
        if group.came > 0 {
            group.crowded = CROWDED_FOR;
        }
    }

    /// Calls `waker` after the next flush; `false` if there will be none.
    pub(crate) fn wake_later(&self, waker: &std::task::Waker) -> bool {
        let mut group = self.group.lock();
        group.wakers.push(waker.clone());
        !group.failed
    }

    /// Whether there is no log. Files of zeros are a log: their first record may have been lost,
    /// and later ones not.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.iter().all(|file| file.allocated() == 0)
    }

    /// Deletes the files. Nobody needs their records any more.
    pub(crate) fn remove(&self) {
        for file in &self.files {
            file.remove();
        }
    }

    /// Calls `visit` with each record behind a position, in order: its transaction, the position
    /// behind it, and its operations. Gives the position behind the last record, and its
    /// transaction.
    pub(crate) fn read(
        &self,
        mut at: Position,
        mut after: TxnId,
        mut visit: impl FnMut(TxnId, Position, &[u8]) -> Result<()>,
    ) -> Result<(Position, TxnId)> {
        let mut windows = [Window::default(), Window::default()];
        let bytes_max = self.written_bytes(record::BYTES_MAX);
        loop {
            // A steady point that was begun and not finished has turned the log to the other file.
            let found = [at, at.turned()].into_iter().find_map(|at| {
                let index = at.file as usize;
                let length = windows[index].record_length(&*self.files[index], at, after, bytes_max);
                length.transpose().map(|length| (at, length))
            });
            let Some((place, length)) = found else { return Ok((at, after)) };
            let length = length?;
            let record = windows[place.file as usize].bytes(place.offset, length);
            at = Position { file: place.file, offset: place.offset + length as u64, chain: get_u64(record, 0) };
            after = after.next();
            match &self.cipher {
                None => visit(after, at, &record[RECORD_HEADER_BYTES..])?,
                Some(cipher) => visit(after, at, &open(cipher, record, after, place.chain)?)?,
            }
        }
    }
}

/// The operations of a sealed record.
fn open(cipher: &Cipher, record: &[u8], txn: TxnId, chain: u64) -> Result<Zeroizing<Vec<u8>>> {
    let sealed = &record[RECORD_HEADER_BYTES..];
    let opened = sealed.split_last_chunk().and_then(|(operations, tag)| {
        let mut operations = Zeroizing::new(operations.to_vec());
        cipher.open(Place::Record { txn, chain }, &mut operations, tag).ok().map(|()| operations)
    });
    opened.ok_or(Error::CorruptedLog { reason: "a record is not what was encrypted for its place" })
}

/// A part of a file in memory.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    const BYTES: usize = 1 << 20;

    fn bytes(&self, offset: u64, length: usize) -> &[u8] {
        let at = (offset - self.start) as usize;
        &self.bytes[at..at + length]
    }

    /// Makes sure that `length` bytes from `offset` on are in memory; `false` if the file has no
    /// more.
    fn reach(&mut self, file: &dyn LogFile, offset: u64, length: usize) -> Result<bool> {
        let end = self.start + self.bytes.len() as u64;
        if offset >= self.start && offset + length as u64 <= end {
            return Ok(true);
        }
        self.bytes.resize(length.max(Self::BYTES), 0);
        self.start = offset;
        let got = file.read(offset, &mut self.bytes)?;
        self.bytes.truncate(got);
        Ok(got >= length)
    }

    /// The length of the record of the transaction after `after`, if the record is complete.
    fn record_length(
        &mut self,
        file: &dyn LogFile,
        at: Position,
        after: TxnId,
        bytes_max: usize,
    ) -> Result<Option<usize>> {
        if !self.reach(file, at.offset, RECORD_HEADER_BYTES)? {
            return Ok(None);
        }
        let header = self.bytes(at.offset, RECORD_HEADER_BYTES);
        let (checksum, length) = (get_u64(header, 0), get_u32(header, 8) as usize);
        let plausible = length >= RECORD_HEADER_BYTES && length.is_multiple_of(8) && length <= bytes_max;
        if !plausible || TxnId(get_u64(header, 16)) != after.next() || !self.reach(file, at.offset, length)? {
            return Ok(None);
        }
        let whole = xxh3_64_with_seed(&self.bytes(at.offset, length)[8..], at.chain) == checksum;
        Ok(whole.then_some(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, Options, TableKind};

    /// Bug: a process that had opened the database before there was a log did not flush the one
    /// that another had made. Consequence: at a handover, commits that were not durable were shown.
    /// Fix: flushing looks for the file.
    ///
    /// Bug: a file that another process had made longer was made longer again from its old end.
    /// Consequence: on file systems that cannot allocate, zeros went over its records. Fix: growing
    /// asks for the length.
    #[test]
    fn a_file_that_another_process_made_is_flushed_and_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.0");
        let [early, maker] = [0, 1].map(|_| FileLog::new(path.clone()).unwrap());
        early.sync().unwrap();
        assert!(early.file.get().is_none());
        maker.grow(4096).unwrap();
        early.sync().unwrap();
        assert!(early.file.get().is_some(), "it was not flushed");
        maker.grow(FILL_BYTES + 1).unwrap();
        maker.write(FILL_BYTES, b"record").unwrap();
        assert_eq!(early.allocated(), FILL_BYTES);
        early.grow(FILL_BYTES + 100).unwrap();
        assert_eq!(early.allocated(), 2 * FILL_BYTES);
        let mut bytes = [0; 6];
        early.read(FILL_BYTES, &mut bytes).unwrap();
        assert_eq!(&bytes, b"record");
    }

    /// Bug: a file that could not grow as far as asked kept what it had got, the last of the room.
    /// Consequence: the steady point that was to take the log's place had none. Fix: it gives back
    /// what it has got.
    #[test]
    fn a_file_that_finds_no_room_leaves_what_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.0");
        let log = FileLog::new(path.clone()).unwrap();
        log.grow(1).unwrap();
        log.write(0, b"record").unwrap();
        let file = log.file().unwrap();
        let written = |zeros: &[u8], at| match at < FILL_BYTES + 8192 {
            true => file.write_all_at(zeros, at),
            false => Err(io::Error::from(ErrorKind::StorageFull)),
        };
        fill(file, FILL_BYTES..2 * FILL_BYTES, written).unwrap_err();
        let length = || std::fs::metadata(&path).unwrap().len();
        assert_eq!(length(), FILL_BYTES);
        let mut bytes = [0; 6];
        log.read(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"record");
        // A process that saw it while it was longer checks again before it writes.
        let other = FileLog::new(path.clone()).unwrap();
        other.allocated.store(2 * FILL_BYTES, Ordering::Release);
        other.refresh().unwrap();
        assert_eq!(other.allocated(), FILL_BYTES);
        log.grow(FILL_BYTES + 1).unwrap();
        assert_eq!(length(), 2 * FILL_BYTES);
    }

    #[test]
    fn no_page_that_a_record_begins_is_written_in_part() {
        let page = 4096;
        for (record, zeros) in [
            (0..24, page - 24),
            (24..96, 0),
            (24..page, 0),
            (24..page + 8, page - 8),
            (page..2 * page, 0),
            (page - 8..3 * page - 8, 8),
        ] {
            assert_eq!(padding(record.clone(), page, 16 * page), zeros as usize, "{record:?}");
        }
        // A file of another's making may end within a page.
        assert_eq!(padding(0..24, page, 100), 76);
        assert_eq!(padding(0..24, page, 24), 0);
    }

    #[test]
    fn what_is_not_needed_is_dropped_from_the_page_cache_once_and_never_the_last() {
        let keep = KEEP_BYTES;
        assert_eq!(droppable(0, 2 * keep - 8), 0..0);
        assert_eq!(droppable(0, 2 * keep), 0..keep);
        assert_eq!(droppable(keep, 6 * keep + 8), keep..5 * keep);
        assert_eq!(droppable(5 * keep, 6 * keep + 16), 5 * keep..5 * keep);
        // At the start again.
        assert_eq!(droppable(5 * keep, 8), 0..0);
        assert_eq!(droppable(5 * keep, 3 * keep), 0..2 * keep);
    }

    /// Which pages of a file are in memory; `None` on a file system that does not tell.
    fn pages_in_memory(file: &File, length: u64) -> Option<Vec<bool>> {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};
        let in_memory = |at| {
            let mut byte = [0];
            match preadv2(file, &mut [io::IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) {
                Ok(_) => Some(true),
                Err(Errno::AGAIN) => Some(false),
                Err(Errno::OPNOTSUPP) => None,
                Err(e) => panic!("{e}"),
            }
        };
        (0..length).step_by(page_size()).map(in_memory).collect()
    }

    #[test]
    fn what_is_flushed_is_dropped_from_the_page_cache_and_the_last_is_not() {
        // Beside this program: temporary files may be in memory altogether.
        let beside = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(beside.parent().unwrap()).unwrap();
        const TMPFS: i64 = 0x0102_1994;
        if rustix::fs::statfs(dir.path()).unwrap().f_type == TMPFS {
            return;
        }
        let log = FileLog::new(dir.path().join("log.0")).unwrap();
        let end = 6 * KEEP_BYTES;
        log.grow(end).unwrap();
        // The system keeps pages that it is busy with: on a busy machine more in some turns.
        const TURNS_MAX: usize = 10;
        let mut good_turns = 0;
        for _turn in 0..TURNS_MAX {
            for at in (0..end).step_by(KEEP_BYTES as usize / 4) {
                log.write(at, &vec![1; KEEP_BYTES as usize / 4]).unwrap();
                log.sync().unwrap();
            }
            let Some(pages) = pages_in_memory(log.file().unwrap(), end) else {
                eprintln!("not run: {} is on a file system without RWF_NOWAIT", dir.path().display());
                return;
            };
            let kept = pages.iter().rev().take_while(|&&is_in_memory| is_in_memory).count() as u64 * page_size() as u64;
            assert!((KEEP_BYTES..=2 * KEEP_BYTES).contains(&kept), "{kept}");
            let others = pages.iter().filter(|&&is_in_memory| is_in_memory).count() as u64 * page_size() as u64 - kept;
            good_turns += usize::from(others <= KEEP_BYTES);
            if good_turns == 2 {
                return;
            }
        }
        panic!("{good_turns} of {TURNS_MAX} turns kept little");
    }

    /// Records of an earlier turn may lie where the next are written.
    #[test]
    fn padding_touches_nothing_but_what_is_behind_a_record() {
        let dir = tempfile::tempdir().unwrap();
        let (log, page) =
            (Log::new(FileLog::pair(dir.path(), &crate::FileNames::default().log).unwrap(), None), page_size());
        log.files[0].grow(16 * page as u64).unwrap();
        let mut bytes = vec![7; log.files[0].allocated() as usize];
        log.files[0].write(0, &bytes).unwrap();
        let mut record = record::Builder::default();
        let mut ends = vec![Position::default()];
        for txn in 1..=10 {
            record.clear();
            record.push("t", record::Operation::Put(b"key", &vec![1; page * txn / 4]));
            ends.push(log.append(ends[txn - 1], &mut record, TxnId(txn as u64)).unwrap());
        }
        let end = ends[10].offset as usize;
        assert_eq!(log.files[0].read(0, &mut bytes).unwrap(), bytes.len());
        let padded = end.next_multiple_of(page);
        assert!(bytes[end..padded].iter().all(|&byte| byte == 0));
        assert!(bytes[padded..].iter().all(|&byte| byte == 7));
        let mut read = Vec::new();
        log.read(ends[0], TxnId(0), |txn, at, _| {
            read.push((txn.0 as usize, at));
            Ok(())
        })
        .unwrap();
        assert_eq!(read, ends.iter().copied().enumerate().skip(1).collect::<Vec<_>>());
    }

    #[test]
    fn space_ahead_is_asked_for_only_where_there_is_much() {
        let (fill, full) = (FILL_BYTES, 4 * FILL_BYTES);
        // What is written is what is needed, whatever the room.
        for room in [0, fill, u64::MAX] {
            assert_eq!(growth(fill, 2 * fill + 1, room).0, 3 * fill);
        }
        assert_eq!(growth(fill, 2 * fill + 1, u64::MAX).1, full);
        assert_eq!(growth(fill, 2 * fill + 1, 3 * fill * AHEAD_PART).1, full);
        assert_eq!(growth(fill, 2 * fill + 1, 3 * fill * AHEAD_PART - 1).1, 3 * fill);
    }

    #[test]
    fn yielding_that_brings_nobody_becomes_rare_and_what_costs_nothing_does_not() {
        let mut back_off = BackOff::default();
        let mut tried_after = |came, took_time| {
            let skipped = std::iter::repeat_with(|| back_off.is_paused()).take_while(|&is_paused| is_paused).count();
            back_off.tried(came, took_time);
            skipped
        };
        assert!((0..100).all(|_| tried_after(false, false) == 0), "nobody else wants the CPU");
        assert!((0..=YIELDS_VAIN).all(|_| tried_after(false, true) == 0));
        let skipped: Vec<_> = (0..8).map(|_| tried_after(false, true)).collect();
        assert_eq!(skipped, [32, 64, 128, 256, 512, 1024, 1024, 1024]);
        assert_eq!(tried_after(true, true), 1024);
        assert!((0..=YIELDS_VAIN).all(|_| tried_after(false, true) == 0), "it was worth while");
        assert_eq!(tried_after(true, true), 32);
        assert_eq!(tried_after(true, true), 0);
    }

    /// Bug: see `Core::wait_durable`. Here one handle waits for what another wrote.
    #[test]
    fn who_flushes_for_another_process_flushes_what_that_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().log_bytes(1 << 30);
        let (one, other) =
            (Database::open(dir.path(), &options).unwrap(), Database::open(dir.path(), &options).unwrap());
        let mut txn = other.write().unwrap();
        txn.create_table("table", TableKind::Plain).unwrap();
        let ticket = txn.commit_ticket().unwrap();
        assert!(!ticket.is_durable());
        let log = &one.0.core.log;
        let before = log.flushes();
        one.0.core.wait_durable(ticket.txn()).unwrap();
        assert!(ticket.is_durable());
        assert!(log.flushes() > before, "nothing was flushed");
    }
}

#[cfg(all(test, feature = "shuttle"))]
pub(crate) mod models {
    //! The queue of those who wait for a flush, under every schedule that a random scheduler comes
    //! upon: `cargo test -p colibri-storage --features shuttle --lib models`.

    use std::sync::Arc;

    use shuttle::sync::atomic::AtomicU64 as ScheduledU64;
    use shuttle::{sync, thread};

    use super::*;

    /// A file whose flush takes a while, covers what was written when it began, and may fail.
    #[derive(Default)]
    pub(crate) struct Slow {
        written: ScheduledU64,
        pub(crate) durable: ScheduledU64,
        /// Flushes until one fails; 0 for none that does.
        fails_at: ScheduledU64,
    }

    pub(crate) struct SlowFile(pub(crate) Arc<Slow>);

    impl LogFile for SlowFile {
        fn allocated(&self) -> u64 {
            u64::MAX
        }

        fn grow(&self, _bytes: u64) -> Result<()> {
            Ok(())
        }

        fn refresh(&self) -> Result<()> {
            Ok(())
        }

        fn write(&self, _offset: u64, bytes: &[u8]) -> Result<()> {
            self.0.written.store(get_u64(bytes, 16), Ordering::SeqCst);
            Ok(())
        }

        fn read(&self, _offset: u64, _bytes: &mut [u8]) -> Result<usize> {
            Ok(0)
        }

        fn sync(&self) -> Result<()> {
            let covered = self.0.written.load(Ordering::SeqCst);
            thread::yield_now();
            if self.0.fails_at.load(Ordering::SeqCst) > 0 && self.0.fails_at.fetch_sub(1, Ordering::SeqCst) == 1 {
                return Err(Error::io("cannot flush", "model", std::io::Error::other("no")));
            }
            self.0.durable.fetch_max(covered, Ordering::SeqCst);
            Ok(())
        }

        fn remove(&self) {}
    }

    fn commit_from_several_threads(fails_at: u64) {
        let files = [Arc::new(Slow::default()), Arc::new(Slow::default())];
        files[0].fails_at.store(fails_at, Ordering::SeqCst);
        let log = Arc::new(Log::new(
            [Box::new(SlowFile(Arc::clone(&files[0]))), Box::new(SlowFile(Arc::clone(&files[1])))],
            None,
        ));
        let writer = Arc::new(sync::Mutex::new(Position::default()));
        let (current, visible) = (Arc::new(ScheduledU64::new(0)), Arc::new(ScheduledU64::new(0)));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (log, writer, file) = (Arc::clone(&log), Arc::clone(&writer), Arc::clone(&files[0]));
                let (current, visible) = (Arc::clone(&current), Arc::clone(&visible));
                thread::spawn(move || {
                    for _ in 0..2 {
                        let mut position = writer.lock().unwrap();
                        let txn = current.load(Ordering::SeqCst) + 1;
                        let mut record = record::Builder::default();
                        record.clear();
                        *position = log.append(*position, &mut record, TxnId(txn)).unwrap();
                        current.store(txn, Ordering::SeqCst);
                        drop(position);
                        let result = log.wait(
                            || visible.load(Ordering::SeqCst) >= txn,
                            || (current.load(Ordering::SeqCst), false),
                            |covered| {
                                visible.fetch_max(covered, Ordering::SeqCst);
                                Ok(())
                            },
                        );
                        match result {
                            Ok(()) => {
                                assert!(file.durable.load(Ordering::SeqCst) >= txn, "acknowledged and not durable")
                            }
                            Err(_) => assert!(fails_at > 0, "nothing failed"),
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        // What is seen is durable, whatever failed.
        assert!(files[0].durable.load(Ordering::SeqCst) >= visible.load(Ordering::SeqCst));
        if fails_at == 0 {
            assert_eq!(visible.load(Ordering::SeqCst), 6);
        }
    }

    #[test]
    fn a_commit_that_returns_is_durable() {
        shuttle::check_random(|| commit_from_several_threads(0), 3_000);
        shuttle::check_pct(|| commit_from_several_threads(0), 2_000, 3);
    }

    #[test]
    fn after_a_failed_flush_nothing_is_acknowledged_that_is_not_durable() {
        for fails_at in 1..4 {
            shuttle::check_random(move || commit_from_several_threads(fails_at), 1_000);
        }
    }
}

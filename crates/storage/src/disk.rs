//! The data file: allocated before it is mapped, written through the map, flushed on request.
//!
//! [`Disk`] is the seam between the engine and the world: [`FileDisk`] is a file, tests put other
//! disks in its place, and `encrypted_disk` puts itself between. Everything but the meta
//! pages is written through the map; meta pages are written by [`Disk::write`], so that the kernel
//! cannot put them on disk before the pages they refer to.
//!
//! The map of a file is the file. The map of an encrypted one is memory beside it: its pages are
//! fetched before they are read, and stored before they are flushed. So the pager calls
//! [`Disk::fetch`], [`Disk::take`] and [`Disk::store`], which a file does not need.
//!
//! Invariants:
//! 1. Bytes below `allocated` are backed by disk space, except for free pages whose space was given
//!    back. So writing to pages in use through the map cannot fault for lack of room.
//!    The kernel writes whole pages of its own, which may be larger than those of the database: so
//!    space is given back and backed in whole granules ([`Disk::granule`]), by the pager.
//! 2. Nothing above `allocated` is ever touched.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FallocateFlags, StatxFlags, fallocate, statx};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use smallvec::SmallVec;

use crate::page::{PageId, TxnId};
use crate::{Error, Result};

/// What the engine asks of the place that holds its pages.
pub(crate) trait Disk: Send + Sync {
    /// The mapped bytes, and how many bytes of address space are reserved.
    fn map(&self) -> (NonNull<u8>, u64);
    /// The length of the file in bytes. All of it but free pages is backed by disk space.
    fn allocated(&self) -> u64;
    /// Disk space behind the file, in bytes.
    fn occupied(&self) -> Result<u64>;
    /// Learns how long the file is, which another process may have made longer.
    fn refresh(&self) -> Result<()>;
    /// How many bytes the kernel maps, and writes, as one; a power of two. With larger pages of the
    /// kernel a page of the database shares them with its neighbours: once one of these is written,
    /// all of them need disk space.
    fn granule(&self) -> u64;
    /// Backs at least the first `bytes` bytes with disk space.
    fn grow(&self, bytes: u64) -> Result<()>;
    /// Backs a range below `allocated` with disk space, where that may have been given back. Its
    /// bytes may become zero.
    fn back(&self, offset: u64, bytes: u64) -> Result<()>;
    /// Gives the disk space behind a range back; its bytes become zero, and it must not be written
    /// to until it is backed again.
    fn punch(&self, offset: u64, bytes: u64) -> Result<()>;
    /// Brings a range that is backed by disk space into memory, ready for writing. A hint.
    fn populate(&self, offset: u64, bytes: u64);
    /// Starts reading what is not in memory of a range, without waiting for it. Tells whether
    /// anything was missing. A hint.
    fn read_ahead(&self, _offset: u64, _bytes: u64) -> bool {
        false
    }
    /// Has a range in memory whose bytes nobody needs, without reading it; they may become zero. Tells
    /// whether anything was missing. A hint.
    fn claim(&self, _offset: u64, _bytes: u64) -> bool {
        false
    }
    /// Returns once a range that was asked for is in memory. A hint: it may be gone again.
    fn await_read(&self, _offset: u64, _bytes: u64) {}
    /// Starts writing changed pages in ascending ranges, so that the next flush has less to do. A
    /// crash before that flush may take any of them. An error is not reported twice: the next flush
    /// may succeed although bytes are missing.
    fn write_out(&self, ranges: &[Range<u64>]) -> Result<()>;
    /// Gives back the space behind the first `bytes` bytes.
    fn shrink(&self, bytes: u64) -> Result<()>;
    /// Writes without the map: for meta pages.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Returns once everything written so far is on disk: without the map, and through it. Where
    /// pages have to be stored, only those count that were.
    fn sync(&self) -> Result<()>;
    /// The file, for messages.
    fn path(&self) -> &Path;

    /// Whether the map is memory beside the file. Then no other process may have the file open.
    fn is_fetched(&self) -> bool {
        false
    }
    /// Brings a run of pages into the map, unless it is there. Not for pages that somebody may be
    /// taking.
    fn fetch(&self, _page: PageId, _pages: u32) -> std::result::Result<Fetched, &'static str> {
        Ok(Fetched::Before)
    }
    /// A run of free pages is about to be written anew, so what the file has of it is not needed.
    fn take(&self, _page: PageId, _pages: u32) {}
    /// Writes runs of pages from the map to the file, if they are not the same: all that has changed
    /// since the last steady point and belongs to this one.
    fn store(&self, _runs: &[(PageId, u32)], _steady: TxnId) -> Result<()> {
        Ok(())
    }
    /// Whether the file has a run of pages as the map has it. For pages of a steady point.
    fn compare(&self, _page: PageId, _pages: u32) -> std::result::Result<(), &'static str> {
        Ok(())
    }
}

/// When a page came into the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// It was there.
    Before,
    /// The file was read for it.
    Now,
}

/// A data file in a directory.
pub(crate) struct FileDisk {
    file: File,
    path: PathBuf,
    base: NonNull<u8>,
    reserved: u64,
    _counted: Reserved,
    allocated: AtomicU64,
    writable: bool,
    /// Nothing of it has to outlive the process.
    temporary: bool,
}

// SAFETY: the map is plain memory that stays where it is until drop; who may touch which bytes when
// is decided by `space` (one writer, pages that no snapshot sees) and not by which thread does it.
unsafe impl Send for FileDisk {}
// SAFETY: as above; the other fields are a file handle and an atomic.
unsafe impl Sync for FileDisk {}

/// Bytes of address space that this process has reserved for all its databases.
static RESERVED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Address space that counts as reserved until this is dropped.
pub(crate) struct Reserved(u64);

impl Reserved {
    pub(crate) fn new(bytes: u64) -> Self {
        RESERVED_BYTES.fetch_add(bytes, Ordering::Relaxed);
        Self(bytes)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        RESERVED_BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// The address space of a process, less some for everything else.
const ADDRESS_BYTES: u64 = 120 << 40;

/// The same, or what `ulimit -v` leaves of it.
fn address_bytes() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a pointer to what lives here. If the call fails, there is no limit.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    ADDRESS_BYTES.min(limit.rlim_cur)
}

/// How much address space a database of this length may reserve without keeping others from being
/// opened. The first databases get much. The more there are, the less the next one gets, but it
/// always has room to grow.
pub(crate) fn fair_share(length: u64) -> u64 {
    let left = address_bytes().saturating_sub(RESERVED_BYTES.load(Ordering::Relaxed));
    (left / 128).max(length.saturating_mul(16)).max(1 << 30)
}

impl FileDisk {
    /// Maps a file, reserving `size_max` bytes of address space, or less where there is no more.
    pub(crate) fn new(file: File, path: PathBuf, size_max: u64, writable: bool) -> Result<Self> {
        let length = file.metadata().map_err(|e| Error::io("cannot read the size of", &path, e))?.len();
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let mut reserved = size_max.max(length).next_multiple_of(1 << 16);
        let base = loop {
            let bytes = usize::try_from(reserved).unwrap_or(usize::MAX);
            // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
            let mapped = unsafe {
                mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED | MapFlags::NORESERVE, &file, 0)
            };
            match mapped {
                Ok(base) => break base,
                // valgrind answers INVAL.
                Err(Errno::NOMEM | Errno::INVAL) if reserved / 2 >= length.max(1 << 30) => reserved /= 2,
                Err(e) => return Err(Error::io("cannot map", path, e)),
            }
        };
        // Reading ahead around a fault makes large folios, and a large folio is written back whole
        // when one of its pages changes: measured at 475 times the bytes. Cursors ask for what they
        // need ahead themselves ([`crate::ahead`]). SAFETY: the range is the mapping just made; the advice does not
        // change its contents.
        let _ = unsafe { madvise(base, reserved as usize, Advice::Random) };
        let base = NonNull::new(base.cast()).expect("mmap does not return null");
        let _counted = Reserved::new(reserved);
        let allocated = AtomicU64::new(length);
        Ok(Self { file, path, base, reserved, _counted, allocated, writable, temporary: false })
    }

    /// The same for a file that nobody needs after the process.
    pub(crate) fn temporary(mut self, temporary: bool) -> Self {
        self.temporary = temporary;
        self
    }

    /// The kernel's pages of a range, as an address and a length; `None` if it is not in the file.
    fn granules(&self, offset: u64, bytes: u64) -> Option<(*mut libc::c_void, usize)> {
        let granule = self.granule();
        let start = offset - offset % granule;
        let end = (offset + bytes).next_multiple_of(granule).min(self.allocated().min(self.reserved));
        let at = self.base.as_ptr().wrapping_add(start as usize).cast();
        (start < end).then(|| (at, (end - start) as usize))
    }

    /// Whether all of a range that [`Self::granules`] gave is in memory.
    fn is_in_memory(&self, (at, length): (*mut libc::c_void, usize)) -> bool {
        let mut pages = SmallVec::<[u8; 64]>::from_elem(0, length.div_ceil(self.granule() as usize));
        // SAFETY: the range lies within the mapping, and there is a byte for each of its pages.
        let asked = unsafe { libc::mincore(at, length, pages.as_mut_ptr().cast()) };
        asked == 0 && pages.iter().all(|page| page & 1 == 1)
    }

    fn sync_range(&self, range: Range<u64>, flags: libc::c_uint) -> io::Result<()> {
        let bytes = (range.end - range.start) as i64;
        // SAFETY: the descriptor is open for the length of the call, which touches no memory.
        match unsafe { libc::sync_file_range(self.file.as_raw_fd(), range.start as i64, bytes, flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for FileDisk {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length; whoever used it held a reference
        // to `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.reserved as usize) };
    }
}

impl Disk for FileDisk {
    fn map(&self) -> (NonNull<u8>, u64) {
        (self.base, self.reserved)
    }

    fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Acquire)
    }

    fn occupied(&self) -> Result<u64> {
        use std::os::unix::fs::MetadataExt;
        let metadata = self.file.metadata().map_err(|e| Error::io("cannot read the size of", &self.path, e))?;
        Ok(metadata.blocks() * 512)
    }

    fn refresh(&self) -> Result<()> {
        let length = self.file.metadata().map_err(|e| Error::io("cannot read the size of", &self.path, e))?.len();
        self.allocated.store(length, Ordering::Release);
        Ok(())
    }

    fn granule(&self) -> u64 {
        rustix::param::page_size() as u64
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let from = self.allocated();
        if bytes <= from {
            return Ok(());
        }
        self.back(from, bytes - from)?;
        self.allocated.store(bytes, Ordering::Release);
        Ok(())
    }

    fn back(&self, offset: u64, bytes: u64) -> Result<()> {
        allocate(&self.file, offset, bytes).map_err(|e| no_room("cannot grow", &self.path, offset + bytes, e))
    }

    fn punch(&self, offset: u64, bytes: u64) -> Result<()> {
        fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes)
            .map_err(|e| Error::io("cannot give back space of", &self.path, e))
    }

    fn populate(&self, offset: u64, bytes: u64) {
        // Advice is for whole pages of the kernel.
        let (start, end) = (offset.next_multiple_of(self.granule()), offset + bytes);
        if start < end && end <= self.allocated().min(self.reserved) {
            // SAFETY: the range lies within the mapping and the file; populating it does not change
            // its contents.
            let _ = unsafe {
                madvise(
                    self.base.add(start as usize).as_ptr().cast(),
                    (end - start) as usize,
                    Advice::LinuxPopulateWrite,
                )
            };
        }
    }

    fn read_ahead(&self, offset: u64, bytes: u64) -> bool {
        let Some((at, length)) = self.granules(offset, bytes).filter(|&range| !self.is_in_memory(range)) else {
            return false;
        };
        // SAFETY: the range lies within the mapping; reading it does not change its contents.
        unsafe { madvise(at, length, Advice::WillNeed) }.is_ok()
    }

    fn claim(&self, offset: u64, bytes: u64) -> bool {
        let in_memory = self.granules(offset, bytes).is_none_or(|range| self.is_in_memory(range));
        // Only whole pages of the kernel's are written without being read.
        if in_memory || !offset.is_multiple_of(self.granule()) || !bytes.is_multiple_of(self.granule()) {
            return false;
        }
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let mut at = offset;
        while at < offset + bytes {
            let length = (offset + bytes - at).min(ZEROS.len() as u64);
            // Whoever writes to the range does so through the map, whatever becomes of this.
            match self.file.write_at(&ZEROS[..length as usize], at) {
                Ok(written) if written > 0 => at += written as u64,
                _ => break,
            }
        }
        true
    }

    fn await_read(&self, offset: u64, bytes: u64) {
        let mut scratch = [0; 16 << 10];
        let mut at = offset;
        while at < offset + bytes {
            let length = (offset + bytes - at).min(scratch.len() as u64) as usize;
            // Whoever needs the bytes reads them through the map, and is told of an error there.
            match self.file.read_at(&mut scratch[..length], at) {
                Ok(read) if read > 0 => at += read as u64,
                _ => return,
            }
        }
    }

    fn write_out(&self, ranges: &[Range<u64>]) -> Result<()> {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(()) };
        let refused = |e| Error::io("cannot write to", &self.path, e);
        for range in ranges {
            // Before the kernel writes a page that is mapped for writing, it interrupts all
            // processors to say so. A page that is not mapped needs no interrupt, and comes back
            // with the next touch. SAFETY: the range lies within the mapping, which is shared: the
            // bytes are the file's, and stay there.
            let _ = unsafe {
                let start = range.start - range.start % self.granule();
                madvise(
                    self.base.add(start as usize).as_ptr().cast(),
                    (range.end - start) as usize,
                    Advice::LinuxDontNeed,
                )
            };
            match self.sync_range(range.clone(), libc::SYNC_FILE_RANGE_WRITE) {
                Ok(()) => {}
                // The call does not exist here, or nothing could be started: the flush does the
                // rest.
                Err(e)
                    if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM | libc::EAGAIN | libc::ENOMEM)) =>
                {
                    return Ok(());
                }
                Err(e) => return Err(refused(e)),
            }
        }
        // Little is left between the ranges. An error here is not reported again by the flush.
        self.sync_range(first.start..last.end, libc::SYNC_FILE_RANGE_WAIT_BEFORE).or_else(|e| match e.raw_os_error() {
            Some(libc::ENOSYS) => Ok(()),
            _ => Err(refused(e)),
        })
    }

    fn shrink(&self, bytes: u64) -> Result<()> {
        if self.writable && bytes < self.allocated() {
            self.file.set_len(bytes).map_err(|e| Error::io("cannot shrink", &self.path, e))?;
            self.allocated.store(bytes, Ordering::Release);
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|e| Error::io("cannot write a meta page of", &self.path, e))
    }

    fn sync(&self) -> Result<()> {
        if self.temporary {
            return Ok(());
        }
        flush(&self.file, &self.path)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Flushes a file that still has its name. What is flushed to a removed file is lost with its last
/// user.
pub(crate) fn flush(file: &File, path: &Path) -> Result<()> {
    file.sync_data().map_err(|e| Error::io("cannot flush", path, e))?;
    // Asks for nothing else. After a request for the file's times the kernel would note a new time
    // with the next write, which makes the next flush half as expensive again.
    let links = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::NLINK);
    let links = links.map_err(|e| Error::io("cannot look at", path, io::Error::from(e)))?;
    if links.stx_nlink == 0 {
        return Err(Error::Removed { path: path.into() });
    }
    Ok(())
}

/// The error for a file that could not grow to `bytes_wanted` bytes.
pub(crate) fn no_room(action: &'static str, path: &Path, bytes_wanted: u64, source: io::Error) -> Error {
    match Errno::from_io_error(&source) {
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Error::DiskFull { path: path.into(), bytes_wanted },
        _ => Error::io(action, path, source),
    }
}

/// A directory, with those of its parents that had to be made.
pub(crate) struct MadeDirs {
    dir: PathBuf,
    missing: Vec<PathBuf>,
}

impl MadeDirs {
    /// Makes a directory if it is not there.
    pub(crate) fn make(dir: &Path) -> Result<Self> {
        let missing = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists());
        let made = Self { dir: dir.to_owned(), missing: missing.map(Path::to_owned).collect() };
        match std::fs::create_dir_all(dir) {
            Ok(()) => Ok(made),
            Err(e) => {
                made.remove();
                Err(Error::io("cannot create", dir, e))
            }
        }
    }

    /// Flushes the directory, so that what is in it now is found after a crash.
    pub(crate) fn flush(&self) -> Result<()> {
        let above = self.missing.iter().filter_map(|dir| dir.parent());
        for dir in std::iter::once(self.dir.as_path()).chain(above) {
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| Error::io("cannot flush", dir, e))?;
        }
        Ok(())
    }

    /// Removes the directories that were made, as far as they are empty.
    pub(crate) fn remove(&self) {
        self.missing.iter().for_each(|dir| _ = std::fs::remove_dir(dir));
    }
}

/// Backs a range of a file with disk space. Where the file system cannot, zeros are written.
pub(crate) fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), offset, bytes) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let zeros = [0; 4096];
            let mut at = offset;
            while at < offset + bytes {
                let take = zeros.len().min((offset + bytes - at) as usize);
                file.write_all_at(&zeros[..take], at)?;
                at += take as u64;
            }
            Ok(())
        }
        Err(e) => Err(e.into()),
    }
}

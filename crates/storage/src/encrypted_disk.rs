//! The disk of an encrypted database: plain pages in memory, sealed ones in the file.
//!
//! ```text
//! pager ── map: anonymous memory, pages that were fetched or are new ── this ── sealed pages ── inner disk
//! ```
//! A page comes into memory when it is first touched ([`Disk::fetch`]), or when it is written anew
//! ([`Disk::take`]). A steady point seals what has changed and writes it to the inner disk
//! ([`Disk::store`]), which may be a file or a simulated one. The two meta pages are in memory from
//! the beginning.
//!
//! Invariants:
//! 1. A page is in `present` from its fetching or taking on until its disk space is given back. The
//!    pager makes references only to pages that are present.
//! 2. Bytes of a page that is not present are written by [`EncryptedDisk::fetch`] alone, with the
//!    page's lock held.
//! 3. The inner disk is given sealed bytes only: the kernel may write them to the medium at any
//!    moment.
//! 4. One process has the database open. So what is present is never older than the file.

#![allow(unsafe_code)]

use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use zeroize::Zeroize;

use crate::disk::{Disk, Fetched, Reserved};
use crate::encryption::{Cipher, Place};
use crate::meta::META_BYTES;
use crate::page::{PageId, TxnId};
use crate::page_bits::PageBits;
use crate::{Error, Result};

pub(crate) mod layout;
pub(crate) mod sealed_meta;

use layout::{Entry, Layout, Piece};

const NOT_AUTHENTIC: &str = "it is not what was encrypted for its place";
const DIFFERS: &str = "what is in the file differs from what is in memory";
const OUTSIDE: &str = "it lies beyond the end of the file";
/// Threads that fetch different pages wait for each other only if these agree modulo this number.
const LOCKS: usize = 64;

/// A disk on another disk, which sees sealed bytes only.
pub(crate) struct EncryptedDisk {
    inner: Box<dyn Disk>,
    /// The map of the inner disk.
    sealed: NonNull<u8>,
    plain: Plain,
    present: PageBits,
    /// Of the fetching of pages, by their numbers.
    locks: [Mutex<()>; LOCKS],
    cipher: Arc<Cipher>,
    layout: Layout,
    page_bytes: u64,
}

// SAFETY: `sealed` points into the map that `inner` keeps alive, which is `Send` and `Sync` itself.
unsafe impl Send for EncryptedDisk {}
// SAFETY: as above. Sealed bytes of a page are written by the one maker of steady points, for pages
// that nobody fetches meanwhile because no state that anybody sees has them.
unsafe impl Sync for EncryptedDisk {}

/// Memory for all pages that the database could have. It exists from the first touch on.
struct Plain {
    base: NonNull<u8>,
    bytes: usize,
    _counted: Reserved,
}

// SAFETY: plain memory that stays where it is until drop; who may touch which bytes is decided by
// the invariants of the pager and of this module.
unsafe impl Send for Plain {}
// SAFETY: as above.
unsafe impl Sync for Plain {}

impl Plain {
    fn new(bytes: u64, path: &Path) -> Result<Self> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE | MapFlags::NORESERVE) }
                .map_err(|e| Error::io("cannot reserve memory for the pages of", path, e))?;
        // Large pages would take 2 MiB of memory for each page that is touched alone.
        for advice in [Advice::LinuxDontDump, Advice::LinuxNoHugepage] {
            // SAFETY: the range is the mapping just made; the advice does not change its contents.
            let _ = unsafe { madvise(base, bytes, advice) };
        }
        let base = NonNull::new(base.cast()).expect("mmap does not return null");
        Ok(Self { base, bytes, _counted: Reserved::new(bytes as u64) })
    }

    fn at(&self, offset: u64) -> *mut u8 {
        assert!(offset <= self.bytes as u64);
        // SAFETY: within the mapping, or one behind it.
        unsafe { self.base.as_ptr().add(offset as usize) }
    }

    /// Gives memory back, whose bytes become zero, as far as it is made of whole pages of the kernel.
    fn give_back(&self, range: Range<u64>) {
        let granule = rustix::param::page_size() as u64;
        let (start, end) = (range.start.next_multiple_of(granule), range.end - range.end % granule);
        if start < end {
            // SAFETY: the range lies within the mapping, and nobody refers to it: its pages are free.
            let _ = unsafe { madvise(self.at(start).cast(), (end - start) as usize, Advice::LinuxDontNeed) };
        }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // The kernel clears the memory before anybody else gets it. SAFETY: the mapping of `new`, of
        // the same length; whoever used it held a reference to `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

impl EncryptedDisk {
    /// On a disk with an encrypted database. A meta page that is not authentic is taken for none.
    pub(crate) fn new(inner: Box<dyn Disk>, cipher: Arc<Cipher>, page_bytes: u32) -> Result<Self> {
        let (sealed, reserved) = inner.map();
        let page_bytes = u64::from(page_bytes);
        let layout = Layout::new(page_bytes);
        let pages_max = layout.pages(reserved).min(u64::from(u32::MAX));
        let plain = Plain::new(pages_max * page_bytes, inner.path())?;
        let present = PageBits::new(pages_max as u32);
        let locks = [const { Mutex::new(()) }; LOCKS];
        let disk = Self { inner, sealed, plain, present, locks, cipher, layout, page_bytes };
        for slot in 0..2 {
            let offset = u64::from(slot) * page_bytes;
            if offset + META_BYTES as u64 <= disk.inner.allocated() {
                let mut bytes = [0; META_BYTES];
                bytes.copy_from_slice(disk.sealed(offset..offset + META_BYTES as u64));
                if sealed_meta::is_authentic(&disk.cipher, slot, &bytes) {
                    disk.keep_meta(offset, &bytes);
                }
            }
            disk.present.insert(PageId(slot));
        }
        Ok(disk)
    }

    /// Bytes of the inner disk's map.
    fn sealed(&self, range: Range<u64>) -> &[u8] {
        assert!(range.end <= self.inner.allocated());
        let length = (range.end - range.start) as usize;
        // SAFETY: below the length of the inner disk. Nobody writes to these bytes meanwhile: pages
        // and their entries are written when no state has them that anybody sees.
        unsafe { std::slice::from_raw_parts(self.sealed.as_ptr().add(range.start as usize), length) }
    }

    /// Writes to the inner disk's map. The caller makes the steady point under way.
    fn write_sealed(&self, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= self.inner.allocated());
        // SAFETY: below the length of the inner disk, and not read by anybody meanwhile: see
        // `sealed`.
        unsafe { self.sealed.as_ptr().add(offset as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Has a meta page in memory as it is in the file.
    fn keep_meta(&self, offset: u64, bytes: &[u8; META_BYTES]) {
        // SAFETY: meta pages lie within the mapping; who reads one meanwhile verifies its checksum.
        unsafe { self.plain.at(offset).copy_from_nonoverlapping(bytes.as_ptr(), META_BYTES) };
    }

    fn entry(&self, page: u32) -> (Piece, Entry) {
        let piece = self.layout.pieces(page, 1).next().expect("a run of one page has a piece");
        let bytes = self.sealed(piece.entries.clone()).try_into().expect("an entry has as many bytes");
        let entry = Entry::decode(bytes);
        (piece, entry)
    }

    /// Whether the file is long enough to have a run of pages.
    fn has(&self, page: u32, pages: u32) -> bool {
        (u64::from(page) + u64::from(pages)) * self.page_bytes <= self.allocated()
    }

    /// Brings one page into memory.
    fn fetch_page(&self, page: u32) -> std::result::Result<(), &'static str> {
        let _fetching = self.locks[page as usize % LOCKS].lock();
        if self.present.contains(PageId(page)) {
            return Ok(());
        }
        let (piece, entry) = self.entry(page);
        let offset = u64::from(page) * self.page_bytes;
        // SAFETY: the page lies within the mapping, is not present, and its lock is held: nobody else
        // refers to it (invariants 1 and 2).
        let plain = unsafe { std::slice::from_raw_parts_mut(self.plain.at(offset), self.page_bytes as usize) };
        plain.copy_from_slice(self.sealed(piece.bytes));
        match self.cipher.open(Place::Page { page, steady: entry.steady }, plain, &entry.tag) {
            Ok(()) => {
                self.present.insert(PageId(page));
                Ok(())
            }
            Err(_) => {
                plain.fill(0);
                Err(NOT_AUTHENTIC)
            }
        }
    }

    /// The pieces of a range of bytes that is made of whole pages.
    fn pieces(&self, offset: u64, bytes: u64) -> impl Iterator<Item = Piece> {
        self.layout.pieces((offset / self.page_bytes) as u32, bytes.div_ceil(self.page_bytes) as u32)
    }

    /// Backs a range of the inner disk, and what the kernel writes together with it.
    fn back_inner(&self, range: Range<u64>) -> Result<()> {
        let granule = self.inner.granule();
        let start = range.start - range.start % granule;
        let end = range.end.next_multiple_of(granule).min(self.inner.allocated()).max(range.end);
        self.inner.back(start, end - start)
    }
}

impl Disk for EncryptedDisk {
    fn map(&self) -> (NonNull<u8>, u64) {
        (self.plain.base, self.plain.bytes as u64)
    }

    fn allocated(&self) -> u64 {
        (self.layout.pages(self.inner.allocated()) * self.page_bytes).min(self.plain.bytes as u64)
    }

    fn occupied(&self) -> Result<u64> {
        let holes = self.inner.allocated().saturating_sub(self.inner.occupied()?);
        Ok(self.allocated().saturating_sub(holes))
    }

    fn refresh(&self) -> Result<()> {
        self.inner.refresh()
    }

    fn granule(&self) -> u64 {
        // Rounding is up to this disk: neighbours here may be none in the file.
        self.page_bytes
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let (wanted, before) = (self.layout.file_bytes(bytes.div_ceil(self.page_bytes)), self.inner.allocated());
        let shared = before % self.inner.granule();
        if wanted > before && shared > 0 {
            self.inner.back(before - shared, shared)?;
        }
        self.inner.grow(wanted)
    }

    fn back(&self, offset: u64, bytes: u64) -> Result<()> {
        for piece in self.pieces(offset, bytes) {
            self.back_inner(piece.tags)?;
            self.back_inner(piece.bytes)?;
        }
        Ok(())
    }

    fn punch(&self, offset: u64, bytes: u64) -> Result<()> {
        let pages = (offset / self.page_bytes) as u32..((offset + bytes) / self.page_bytes) as u32;
        pages.for_each(|page| self.present.remove(PageId(page)));
        self.plain.give_back(offset..offset + bytes);
        let granule = self.inner.granule();
        for piece in self.pieces(offset, bytes) {
            let (start, end) =
                (piece.bytes.start.next_multiple_of(granule), piece.bytes.end - piece.bytes.end % granule);
            if start < end {
                self.inner.punch(start, end - start)?;
            }
        }
        Ok(())
    }

    fn populate(&self, offset: u64, bytes: u64) {
        let granule = rustix::param::page_size() as u64;
        let (start, end) = (offset.next_multiple_of(granule), offset + bytes);
        if start < end && end <= self.allocated() {
            // SAFETY: the range lies within the mapping; populating it does not change its contents.
            let _ = unsafe { madvise(self.plain.at(start).cast(), (end - start) as usize, Advice::LinuxPopulateWrite) };
        }
    }

    fn is_fetched(&self) -> bool {
        true
    }

    fn fetch(&self, page: PageId, pages: u32) -> std::result::Result<Fetched, &'static str> {
        if !self.has(page.0, pages) {
            return Err(OUTSIDE);
        }
        let mut fetched = Fetched::Before;
        for page in page.0..page.0 + pages {
            if !self.present.contains(PageId(page)) {
                self.fetch_page(page)?;
                fetched = Fetched::Now;
            }
        }
        Ok(fetched)
    }

    fn take(&self, page: PageId, pages: u32) {
        (page.0..page.0 + pages).for_each(|page| self.present.insert(PageId(page)));
    }

    fn compare(&self, page: PageId, pages: u32) -> std::result::Result<(), &'static str> {
        if !self.has(page.0, pages) {
            return Err(OUTSIDE);
        }
        let mut opened = vec![0; self.page_bytes as usize];
        let mut result = Ok(());
        for page in page.0..page.0 + pages {
            let (piece, entry) = self.entry(page);
            opened.copy_from_slice(self.sealed(piece.bytes));
            result = match self.cipher.open(Place::Page { page, steady: entry.steady }, &mut opened, &entry.tag) {
                Ok(()) => {
                    let offset = u64::from(page) * self.page_bytes;
                    // SAFETY: the page is present, and a steady point has it: nobody writes to it.
                    let plain = unsafe { std::slice::from_raw_parts(self.plain.at(offset), opened.len()) };
                    if plain == opened { Ok(()) } else { Err(DIFFERS) }
                }
                Err(_) => Err(NOT_AUTHENTIC),
            };
            if result.is_err() {
                break;
            }
        }
        opened.zeroize();
        result
    }

    fn store(&self, runs: &[(PageId, u32)], steady: TxnId) -> Result<()> {
        let mut sealed = vec![0; self.page_bytes as usize];
        for &(first, pages) in runs {
            for page in first.0..first.0 + pages {
                debug_assert!(self.present.contains(PageId(page)), "page {page} is stored and was never taken");
                let piece = self.layout.pieces(page, 1).next().expect("a run of one page has a piece");
                let offset = u64::from(page) * self.page_bytes;
                // SAFETY: the page is present, and is not changed any more: it is of a committed
                // state.
                sealed.copy_from_slice(unsafe {
                    std::slice::from_raw_parts(self.plain.at(offset), self.page_bytes as usize)
                });
                let tag = self.cipher.seal(Place::Page { page, steady }, &mut sealed);
                self.write_sealed(piece.bytes.start, &sealed);
                self.write_sealed(piece.entries.start, &Entry { steady, tag }.encode());
            }
        }
        Ok(())
    }

    fn write_out(&self, ranges: &[Range<u64>]) -> Result<()> {
        let mut inner: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            for piece in self.pieces(range.start, range.end - range.start) {
                for part in [piece.tags, piece.bytes] {
                    match inner.last_mut() {
                        Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
                        _ => inner.push(part),
                    }
                }
            }
        }
        self.inner.write_out(&inner)
    }

    fn shrink(&self, bytes: u64) -> Result<()> {
        let (before, pages) = (self.allocated(), bytes.div_ceil(self.page_bytes));
        self.inner.shrink(self.layout.file_bytes(pages))?;
        let after = pages * self.page_bytes;
        if after < before && self.allocated() <= after {
            (pages as u32..(before / self.page_bytes) as u32).for_each(|page| self.present.remove(PageId(page)));
            self.plain.give_back(after..before);
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut sealed: [u8; META_BYTES] = bytes.try_into().expect("only meta pages are written beside the map");
        sealed_meta::seal(&self.cipher, (offset / self.page_bytes) as u32, &mut sealed);
        self.inner.write(offset, &sealed)?;
        self.keep_meta(offset, &sealed);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

//! Pages by number: bounds, verification on first touch, and the one place that turns the memory
//! map into references.
//!
//! Invariants that make the references sound:
//! 1. A reader gets only pages below the page count of its snapshot. These are allocated and
//!    mapped.
//! 2. A page that a pinned state reaches is not written: `space` does not allocate it. The one
//!    exception is its checksum, which is written before the number of the steady point admits the
//!    page to verification.
//! 3. There is one writer: `page_mut` is called by the holder of the writer's lock, for pages of
//!    its own transaction. Tree code holds no reference to a page while it has the page mutably.
//!
//! Not here: which pages are free, what pages mean.

#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cold::{Cold, Moment};
use crate::disk::{Disk, Fetched};
use crate::node::{Node, Payload, leaf_pages_max};
use crate::options::{Checksums, PAGE_SIZE_MIN};
use crate::page::{self, PageId, PageKind, TxnId};
use crate::page_bits::PageBits;
use crate::{Error, Result};

/// So many cache lines of a large value are loaded at once. Behind them the processor has
/// recognized the sequence.
const LARGE_LINES_AHEAD: usize = 18;

/// Which pages a snapshot may touch, and which of them are sealed by checksums.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Pages below this number belong to the snapshot's file.
    pub(crate) page_count: u32,
    /// The transaction that the snapshot sees, or the one under way. No page of it is newer.
    pub(crate) newest: TxnId,
    /// Pages of transactions up to this one are sealed.
    pub(crate) steady: TxnId,
}

/// Kept out of the usual path, so that it costs that path nothing.
#[cold]
#[inline(never)]
pub(crate) fn corrupted(page: PageId, reason: &'static str) -> Error {
    Error::Corrupted { page, reason }
}

/// The kind of page that the caller expects.
#[derive(Clone, Copy)]
enum Expected {
    /// A leaf or a branch.
    Node,
    /// The head of a large value.
    Large,
}

/// The mapped pages of one database in one process.
pub(crate) struct Pager {
    base: *mut u8,
    page_size: usize,
    page_shift: u32,
    pages_max: u32,
    checksums: Checksums,
    /// Tree pages that passed verification since the database was opened.
    nodes: PageBits,
    /// The same for heads of large values. The sets are apart, because a well-formed page of one
    /// kind is no page of the other.
    large: PageBits,
    /// Pages have to be fetched before they are read.
    fetches: bool,
    pub(crate) cold: Cold,
    /// Whether pages that are used again come from the disk.
    cold_reuse: Cold,
    disk: Box<dyn Disk>,
}

// SAFETY: `base` points into the map that `disk` keeps alive and that is `Send` and `Sync` itself.
unsafe impl Send for Pager {}
// SAFETY: as above; concurrent access to page contents follows the invariants in the module's head.
unsafe impl Sync for Pager {}

impl Pager {
    pub(crate) fn new(disk: Box<dyn Disk>, page_size: u32, checksums: Checksums) -> Self {
        let (base, reserved) = disk.map();
        let pages_max = u32::try_from(reserved / u64::from(page_size)).unwrap_or(u32::MAX);
        Self {
            base: base.as_ptr(),
            page_size: page_size as usize,
            page_shift: page_size.trailing_zeros(),
            pages_max,
            checksums,
            nodes: PageBits::new(pages_max),
            large: PageBits::new(pages_max),
            fetches: disk.is_fetched(),
            cold: Cold::default(),
            cold_reuse: Cold::default(),
            disk,
        }
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(crate) fn page_size(&self) -> usize {
        self.page_size
    }

    /// The bytes of a run of pages in the file.
    fn span(&self, page: u32, pages: u32) -> Range<u64> {
        let start = u64::from(page) << self.page_shift;
        start..start + (u64::from(pages) << self.page_shift)
    }

    /// Backs a run of pages with disk space, and what the kernel writes together with them.
    pub(crate) fn back(&self, page: u32, pages: u32) -> Result<()> {
        let (span, granule) = (self.span(page, pages), self.disk.granule());
        let start = span.start - span.start % granule;
        let end = span.end.next_multiple_of(granule).min(self.disk.allocated()).max(span.end);
        self.disk.back(start, end - start)
    }

    /// Gives the disk space behind a run of free pages back, as far as the kernel writes nothing else
    /// together with them. They must not be written to until they are backed again.
    pub(crate) fn punch(&self, page: u32, pages: u32) -> Result<()> {
        let (span, granule) = (self.span(page, pages), self.disk.granule());
        let (start, end) = (span.start.next_multiple_of(granule), span.end - span.end % granule);
        if start < end { self.disk.punch(start, end - start) } else { Ok(()) }
    }

    /// Backs at least the first `bytes` bytes of the file with disk space, but for free pages that
    /// the kernel writes together with none of the new ones.
    pub(crate) fn grow(&self, bytes: u64) -> Result<()> {
        let allocated = self.disk.allocated();
        let shared = allocated % self.disk.granule();
        if bytes > allocated && shared > 0 {
            self.disk.back(allocated - shared, shared)?;
        }
        self.disk.grow(bytes)
    }

    /// How many pages the reserved address space takes.
    pub(crate) fn pages_max(&self) -> u32 {
        self.pages_max
    }

    /// Brings a run of pages into the map, where the map is not the file. All that is verified, or
    /// was written by this process, is there.
    #[inline]
    fn fetch(&self, id: PageId, pages: u32) -> std::result::Result<Fetched, &'static str> {
        if self.fetches { self.disk.fetch(id, pages) } else { Ok(Fetched::Before) }
    }

    /// Compares a run of a steady point that is verified again with what the file has of it by now.
    fn compare(&self, fetched: Fetched, id: PageId, pages: u32) -> std::result::Result<(), &'static str> {
        match fetched {
            Fetched::Before if self.fetches => self.disk.compare(id, pages),
            _ => Ok(()),
        }
    }

    /// The first page of a run, unverified. If it cannot be fetched, it is all zeros.
    #[inline]
    fn head(&self, id: PageId) -> &[u8] {
        let _ = self.fetch(id, 1);
        self.bytes(id, 1)
    }

    /// The bytes of a run of pages that is in the map, unverified.
    fn bytes(&self, id: PageId, pages: u32) -> &[u8] {
        debug_assert!(u64::from(id.0) + u64::from(pages) <= u64::from(self.pages_max));
        // SAFETY: callers keep the run below a page count that is allocated and mapped (invariant
        // 1), and its contents do not change while a snapshot pins them (invariant 2).
        unsafe {
            std::slice::from_raw_parts(
                self.base.add(id.index() << self.page_shift),
                (pages as usize) << self.page_shift,
            )
        }
    }

    /// The page, or the first page of a run, of an expected kind, verified on first touch.
    #[inline]
    fn page(&self, id: PageId, expected: Expected, bounds: Bounds) -> Result<&[u8]> {
        if id.0 >= bounds.page_count {
            return Err(corrupted(id, "a page number lies beyond the end of the file"));
        }
        let verified = match expected {
            Expected::Node => &self.nodes,
            Expected::Large => &self.large,
        };
        if !verified.contains(id) || self.checksums == Checksums::Always {
            self.verify(id, expected, verified, bounds)?;
        }
        Ok(self.bytes(id, 1))
    }

    /// A tree page.
    #[inline(always)]
    pub(crate) fn node(&self, id: PageId, bounds: Bounds) -> Result<Node<'_>> {
        let head = self.page(id, Expected::Node, bounds)?;
        match page::more_pages_of(head) {
            0 => Ok(Node::new(head)),
            _ => self.wide(id, head, bounds),
        }
    }

    /// The leaf of several pages that a page heads.
    #[inline(never)]
    fn wide(&self, id: PageId, head: &[u8], bounds: Bounds) -> Result<Node<'_>> {
        let pages = page::more_pages_of(head) as u32 + 1;
        // It was verified, and is looked at again because nothing but this keeps the run in the
        // map.
        if u64::from(id.0) + u64::from(pages) > u64::from(bounds.page_count) {
            return Err(corrupted(id, "its run lies beyond the end of the file"));
        }
        Ok(Node::new(self.bytes(id, pages)))
    }

    /// A tree page of an old state. It may have no checksum, and the page may have been reused
    /// since. So its form is verified each time, its checksum never, and the result is not kept.
    /// Nobody writes to it meanwhile.
    pub(crate) fn node_of_old(&self, id: PageId, bounds: Bounds) -> Result<Node<'_>> {
        if id.0 >= bounds.page_count {
            return Err(corrupted(id, "a page number lies beyond the end of the file"));
        }
        self.verify_bytes(id, bounds, false).map_err(|reason| corrupted(id, reason))?;
        let page = self.bytes(id, 1);
        match page::kind_of(page) {
            Some(PageKind::Leaf | PageKind::Branch) => Ok(Node::new(page)),
            Some(PageKind::WideLeaf) => self.wide(id, page, bounds),
            _ => Err(corrupted(id, "it is not a tree page")),
        }
    }

    /// Starts loading the part of a page that a search touches first.
    #[inline]
    pub(crate) fn prefetch(&self, id: PageId, bounds: Bounds) {
        self.prefetch_lines(id, bounds, 6);
    }

    /// Starts loading a whole page.
    #[inline]
    pub(crate) fn prefetch_whole(&self, id: PageId, bounds: Bounds) {
        self.prefetch_lines(id, bounds, self.page_size.min(PAGE_SIZE_MIN as usize) / 64);
    }

    /// Starts loading what a search in a leaf touches before it comes to an entry.
    #[inline]
    pub(crate) fn prefetch_search(&self, id: PageId, bounds: Bounds) {
        self.prefetch_lines(id, bounds, 16.min(self.page_size / 64));
    }

    /// Starts loading a part of a page.
    #[inline]
    pub(crate) fn prefetch_at(&self, id: PageId, bounds: Bounds, offset: usize) {
        #[cfg(target_arch = "x86_64")]
        if (id.index() << self.page_shift) + offset < (bounds.page_count as usize) << self.page_shift {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: prefetching has no effect on memory, and the address lies within the map.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.base.add((id.index() << self.page_shift) + offset).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (id, bounds, offset);
    }

    #[inline]
    fn prefetch_lines(&self, id: PageId, bounds: Bounds, lines: usize) {
        #[cfg(target_arch = "x86_64")]
        if id.0 < bounds.page_count {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            for line in 0..lines {
                // SAFETY: prefetching has no effect on memory, and the address lies within the map.
                unsafe {
                    _mm_prefetch::<_MM_HINT_T0>(self.base.add((id.index() << self.page_shift) + line * 64).cast())
                };
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (id, bounds, lines);
    }

    /// Whether the disk can be asked for pages beforehand. One whose pages have to be fetched cannot.
    #[inline]
    pub(crate) fn reads_ahead(&self) -> bool {
        !self.fetches
    }

    /// Whether lookups have lately waited for the disk, and could have asked beforehand.
    #[inline]
    pub(crate) fn is_cold(&self) -> bool {
        self.cold.is_cold() && self.reads_ahead()
    }

    /// Starts reading a run of pages from the disk, unless it is in memory. Tells whether any of it was not.
    pub(crate) fn read_ahead(&self, id: PageId, pages: u32, bounds: Bounds) -> bool {
        let end = id.0.saturating_add(pages).min(bounds.page_count);
        if id.0 >= end {
            return false;
        }
        let span = self.span(id.0, end - id.0);
        self.disk.read_ahead(span.start, span.end - span.start) || self.cold.pretends()
    }

    /// Has free pages, which are going to be written anew, in memory without reading what they were.
    /// A first write through the map reads a page that is not there.
    #[inline]
    pub(crate) fn claim(&self, id: PageId, pages: u32) {
        if self.fetches {
            return;
        }
        if self.cold_reuse.is_cold() {
            let span = self.span(id.0, pages);
            self.cold_reuse.looked(self.disk.claim(span.start, span.end - span.start));
            return;
        }
        let started = Moment::now();
        std::hint::black_box(self.bytes(id, 1)[0]);
        self.cold_reuse.note(started);
    }

    /// Returns once pages that were asked for are in memory.
    pub(crate) fn await_read(&self, id: PageId, pages: u32) {
        let span = self.span(id.0, pages);
        self.disk.await_read(span.start, span.end - span.start);
    }

    /// The pages of a leaf, of which the first is in memory.
    pub(crate) fn leaf_pages(&self, id: PageId, bounds: Bounds) -> u32 {
        if id.0 >= bounds.page_count { 1 } else { page::more_pages_of(self.bytes(id, 1)) as u32 + 1 }
    }

    /// The bytes of an entry's value, wherever they are.
    #[inline]
    pub(crate) fn value<'a>(&'a self, bounds: Bounds, payload: Payload<'a>) -> Result<&'a [u8]> {
        match payload {
            Payload::Inline(value) => Ok(value),
            Payload::Large { page, bytes } => self.large(page, bytes, bounds),
            Payload::Child { page, .. } => Err(Error::Corrupted { page, reason: "a leaf was expected" }),
        }
    }

    /// The content of a large value.
    pub(crate) fn large(&self, id: PageId, len: u32, bounds: Bounds) -> Result<&[u8]> {
        // The caller is about to read the value, so its lines are loaded together and not one after
        // the other.
        self.prefetch_lines(id, bounds, (page::HEADER_BYTES + len as usize).div_ceil(64).min(LARGE_LINES_AHEAD));
        let head = self.page(id, Expected::Large, bounds)?;
        if page::run_bytes_of(head) != len {
            return Err(Error::Corrupted { page: id, reason: "it is not the large value that a leaf refers to" });
        }
        let pages = page::run_pages_for(u64::from(len), self.page_size) as u32;
        if u64::from(id.0) + u64::from(pages) > u64::from(bounds.page_count) {
            return Err(Error::Corrupted { page: id, reason: "a large value lies beyond the end of the file" });
        }
        Ok(&self.bytes(id, pages)[page::HEADER_BYTES..page::HEADER_BYTES + len as usize])
    }

    /// Verifies a page as a tree page or as a large value, whichever it is.
    pub(crate) fn verified_run(&self, id: PageId, bounds: Bounds) -> Result<()> {
        let large = id.0 < bounds.page_count && page::kind_of(self.head(id)) == Some(PageKind::Overflow);
        self.page(id, if large { Expected::Large } else { Expected::Node }, bounds).map(|_| ())
    }

    /// A run of the free map. It is read once, so it is verified each time. Its checksum is
    /// verified whatever the policy, because everything depends on it.
    pub(crate) fn free_map_run(&self, id: PageId, kind: PageKind, bounds: Bounds) -> Result<&[u8]> {
        if id.0 >= bounds.page_count {
            return Err(Error::Corrupted { page: id, reason: "the free map lies beyond the end of the file" });
        }
        let damaged = |reason| Error::Corrupted { page: id, reason };
        let fetched = self.fetch(id, 1).map_err(damaged)?;
        self.verify_bytes(id, bounds, true).map_err(damaged)?;
        let head = self.bytes(id, 1);
        if page::kind_of(head) != Some(kind) {
            return Err(Error::Corrupted { page: id, reason: "it is not part of the free map" });
        }
        self.compare(fetched, id, page::run_pages_of(head)).map_err(damaged)?;
        Ok(self.bytes(id, page::run_pages_of(head)))
    }

    #[cold]
    fn verify(&self, id: PageId, expected: Expected, verified: &PageBits, bounds: Bounds) -> Result<()> {
        let fetched = self.fetch(id, 1).map_err(|reason| Error::Corrupted { page: id, reason })?;
        let head = self.bytes(id, 1);
        // The page was verified before and is verified again, because the policy says so. A page
        // that is newer than the steady point has no checksum, and may be in the middle of a
        // change.
        if verified.contains(id) && page::txn_of(head) > bounds.steady {
            return Ok(());
        }
        let result = match (expected, page::kind_of(head)) {
            (Expected::Node, Some(PageKind::Overflow | PageKind::FreeBase | PageKind::FreeLog | PageKind::Meta)) => {
                Err("it is not a tree page")
            }
            (Expected::Large, Some(kind)) if kind != PageKind::Overflow => {
                Err("it is not the large value that a leaf refers to")
            }
            _ => self.verify_bytes(id, bounds, self.checksums != Checksums::Never),
        };
        let result = match page::txn_of(head) <= bounds.steady {
            true => result.and_then(|()| self.compare(fetched, id, page::run_pages_of(head))),
            false => result,
        };
        result.map_err(|reason| Error::Corrupted { page: id, reason })?;
        verified.insert(id);
        Ok(())
    }

    fn verify_bytes(&self, id: PageId, bounds: Bounds, checksum: bool) -> std::result::Result<(), &'static str> {
        self.fetch(id, 1)?;
        let head = self.bytes(id, 1);
        let pages = self.verify_header(id, head, bounds)?;
        self.fetch(id, pages)?;
        let checksum = checksum && page::txn_of(head) <= bounds.steady;
        // Of a large value without a checksum, the header is all there is to verify.
        let pages = if checksum || page::kind_of(head) == Some(PageKind::WideLeaf) { pages } else { 1 };
        self.verify_content(self.bytes(id, pages), checksum, bounds)
    }

    /// The length of a run, from its first page.
    fn verify_header(&self, id: PageId, head: &[u8], bounds: Bounds) -> std::result::Result<u32, &'static str> {
        if page::number_of(head) != id {
            return Err("it carries another page's number");
        }
        let kind = page::kind_of(head).ok_or("it is of no known kind")?;
        let pages = page::run_pages_of(head);
        if pages == 0 || u64::from(id.0) + u64::from(pages) > u64::from(bounds.page_count) {
            return Err("its run lies beyond the end of the file");
        }
        if kind == PageKind::WideLeaf && pages > leaf_pages_max(self.page_size) {
            return Err("its run is longer than a leaf can be");
        }
        if kind.heads_content()
            && page::run_pages_for(u64::from(page::run_bytes_of(head)), self.page_size) != u64::from(pages)
        {
            return Err("its run has another length than its content");
        }
        if page::txn_of(head) > bounds.newest {
            return Err("it is newer than the state that refers to it");
        }
        Ok(pages)
    }

    /// The bytes of a run. Where the checksum is not verified, of large values the first page is
    /// enough.
    fn verify_content(&self, run: &[u8], checksum: bool, bounds: Bounds) -> std::result::Result<(), &'static str> {
        if checksum && page::compute_checksum(run) != page::checksum_of(run) {
            return Err("its checksum does not match");
        }
        match page::kind_of(run) {
            Some(PageKind::Leaf | PageKind::Branch | PageKind::WideLeaf) => {
                Node::new(run).validate(bounds.page_count, self.page_size)
            }
            _ => Ok(()),
        }
    }

    /// Whether a page has this transaction or an older one in its header, and the checksum of its
    /// content. For commits whose single flush may not have finished. Done whatever the policy: the
    /// question is what was written, and not what decayed.
    ///
    /// Bug: the page was verified in place. Consequence: a read-only handle that found the page
    /// while another process was writing it panicked, because what it had verified had changed.
    /// Fix: a copy is verified.
    pub(crate) fn was_written(&self, id: PageId, checksum_low: u32, bounds: Bounds) -> bool {
        if id.0 >= bounds.page_count || page::checksum_of(self.head(id)) as u32 != checksum_low {
            return false;
        }
        let head = self.bytes(id, 1).to_vec();
        let Ok(pages) = self.verify_header(id, &head, bounds) else { return false };
        if self.fetch(id, pages).is_err() {
            return false;
        }
        let whole = if pages == 1 { head } else { self.bytes(id, pages).to_vec() };
        page::checksum_of(&whole) as u32 == checksum_low
            && self.verify_header(id, &whole, bounds) == Ok(pages)
            && self.verify_content(&whole, true, bounds).is_ok()
    }

    /// Has pages that this process writes anew in the map, without what the file has of them.
    #[inline]
    fn take(&self, id: PageId, pages: u32) {
        if self.fetches {
            self.disk.take(id, pages);
        }
    }

    /// Marks a tree page that this process writes as verified.
    #[inline]
    pub(crate) fn mark_page(&self, id: PageId) {
        self.take(id, 1);
        self.nodes.insert(id);
        self.large.remove(id);
    }

    /// Marks a leaf of `pages` pages that this process writes as verified.
    pub(crate) fn mark_node(&self, id: PageId, pages: u32) {
        self.mark_neither(id, pages);
        self.nodes.insert(id);
    }

    /// Marks a large value that this process writes as verified.
    pub(crate) fn mark_large(&self, id: PageId, pages: u32) {
        self.mark_neither(id, pages);
        self.large.insert(id);
    }

    /// Marks pages of the free map as neither a tree page nor a large value.
    pub(crate) fn mark_neither(&self, id: PageId, pages: u32) {
        self.take(id, pages);
        for page in (id.0..id.0 + pages).map(PageId) {
            self.nodes.remove(page);
            self.large.remove(page);
        }
    }

    /// Forgets all marks: every page is verified again at its next touch.
    pub(crate) fn forget_verified(&self, page_count: u32) {
        self.nodes.forget(page_count);
        self.large.forget(page_count);
    }

    /// The transaction in the header of a page that this process trusts.
    #[inline]
    pub(crate) fn birth(&self, id: PageId) -> TxnId {
        page::txn_of(self.head(id))
    }

    /// The header of a page that this process trusts: its transaction and the length of its run.
    pub(crate) fn birth_and_pages(&self, id: PageId) -> (TxnId, u32) {
        let head = self.head(id);
        (page::txn_of(head), page::run_pages_of(head))
    }

    /// Writes the checksum of a committed page or run. Snapshots may be reading it: they look at
    /// the checksum only once the steady transaction number, stored afterwards, admits it.
    pub(crate) fn seal(&self, id: PageId, pages: u32) -> u64 {
        let checksum = page::compute_checksum(self.bytes(id, pages));
        // SAFETY: the header's first eight bytes are aligned, within the map, and not read by
        // anybody else before the steady point that this is part of (invariant 2).
        unsafe { &*self.base.add(id.index() << self.page_shift).cast::<AtomicU64>() }
            .store(checksum.to_le(), Ordering::Release);
        checksum
    }

    /// A run of pages for writing.
    ///
    /// The caller holds the writer's lock, owns the run (born in its transaction, or being sealed
    /// by the one steady point under way) and holds no other reference into it: invariant 3.
    #[expect(clippy::mut_from_ref, reason = "the map is shared memory; exclusiveness is invariant 3 of this module")]
    pub(crate) fn bytes_mut(&self, id: PageId, pages: u32) -> &mut [u8] {
        assert!(u64::from(id.0) + u64::from(pages) <= u64::from(self.pages_max));
        // SAFETY: the run lies within the map and below the allocated length; nobody else refers to
        // it (see above).
        unsafe {
            std::slice::from_raw_parts_mut(
                self.base.add(id.index() << self.page_shift),
                (pages as usize) << self.page_shift,
            )
        }
    }

    /// A tree page for writing; see [`Self::bytes_mut`].
    pub(crate) fn page_mut(&self, id: PageId) -> &mut [u8] {
        self.bytes_mut(id, 1)
    }

    /// A tree page that the caller owns, all of it if it is a wide leaf; see [`Self::bytes_mut`].
    #[inline]
    pub(crate) fn node_mut(&self, id: PageId) -> &mut [u8] {
        self.bytes_mut(id, page::more_pages_of(self.bytes(id, 1)) as u32 + 1)
    }

    /// Copies what a tree page holds to another page that the caller owns; the gap in between keeps
    /// what was there. Not for wide leaves.
    #[inline]
    pub(crate) fn copy_page(&self, from: Node<'_>, to: PageId) {
        let to = self.page_mut(to);
        let (start, end) = from.parts();
        to[..start].copy_from_slice(&from.bytes()[..start]);
        to[end..].copy_from_slice(&from.bytes()[end..]);
    }

    /// Copies a leaf to a run of `pages` pages that the caller owns and that its entries fit; what is
    /// not used keeps what was there.
    pub(crate) fn copy_leaf(&self, from: Node<'_>, to: PageId, pages: u32) {
        let bytes = self.bytes_mut(to, pages);
        from.copy_to(bytes);
        page::set_leaf_pages(bytes, pages);
    }

    /// Raw bytes of a range of pages, for copying a file whose snapshot is pinned.
    pub(crate) fn raw(&self, id: PageId, pages: u32) -> &[u8] {
        let _ = self.fetch(id, pages);
        self.bytes(id, pages)
    }
}

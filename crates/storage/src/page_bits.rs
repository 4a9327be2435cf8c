//! A bit for each page that a database could have, in memory.
//!
//! Invariant: who finds a bit set sees all that was written to memory before it was set.

#![allow(unsafe_code)]

use std::alloc::Layout;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::page::PageId;

/// Words that are zero until they are written, in a mapping of their own. Memory for them exists
/// from their first use on. An allocator might hand out memory that was used before and has to be
/// cleared, and a bit for each page that a database could have is tens of megabytes.
struct LazyWords {
    base: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the mapping belongs to this value alone, and what is in it is shared as atomics.
unsafe impl Send for LazyWords {}
// SAFETY: as above.
unsafe impl Sync for LazyWords {}

impl LazyWords {
    fn new(count: usize) -> Self {
        let layout =
            Layout::array::<AtomicU64>(count.max(1)).expect("bits of 32-bit page numbers fit an address space");
        // SAFETY: a new anonymous mapping.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                layout.size(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        match base.ok().and_then(|base| NonNull::new(base.cast())) {
            Some(base) => Self { base, count },
            None => std::alloc::handle_alloc_error(layout),
        }
    }
}

impl Drop for LazyWords {
    fn drop(&mut self) {
        let bytes = self.count.max(1) * size_of::<AtomicU64>();
        // SAFETY: the mapping of `new`, of the same length, to which there are no references any
        // more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), bytes) };
    }
}

impl Deref for LazyWords {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is readable, zeroed at first, page-aligned, of this many words, and
        // lives as long as `self`; any bits are a valid `AtomicU64`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.count) }
    }
}

/// A set of pages. Untouched words cost nothing.
pub(crate) struct PageBits(LazyWords);

impl PageBits {
    pub(crate) fn new(pages_max: u32) -> Self {
        Self(LazyWords::new((pages_max as usize).div_ceil(64)))
    }

    /// Pairs with [`PageBits::insert`].
    #[inline]
    pub(crate) fn contains(&self, id: PageId) -> bool {
        self.0[id.index() / 64].load(Ordering::Acquire) >> (id.0 % 64) & 1 == 1
    }

    #[inline]
    pub(crate) fn insert(&self, id: PageId) {
        // Checked without writing first: most bits are set already.
        if !self.contains(id) {
            self.0[id.index() / 64].fetch_or(1 << (id.0 % 64), Ordering::Release);
        }
    }

    #[inline]
    pub(crate) fn remove(&self, id: PageId) {
        if self.contains(id) {
            self.0[id.index() / 64].fetch_and(!(1 << (id.0 % 64)), Ordering::Relaxed);
        }
    }

    /// Removes all pages below a number.
    pub(crate) fn forget(&self, page_count: u32) {
        for word in &self.0[..(page_count as usize).div_ceil(64)] {
            word.store(0, Ordering::Relaxed);
        }
    }
}

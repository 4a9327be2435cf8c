//! The free map: what the last steady point says on disk about which pages are free.
//!
//! ```text
//! base      a bitmap of all pages, one run                written anew when the chain has grown as long
//! chain     links that each list pages                    one more when the meta page is full
//! toggles   pages listed in the meta page                 written with every steady point
//! ```
//!
//! Listing a page turns it from free to used, or back: the free pages are the base, changed by the
//! chain, changed by the toggles. Most steady points change a few pages back and forth, so the
//! toggles hold the whole change and nothing else is written. Therefore the cost of a steady point
//! does not depend on how many pages are free.
//!
//! Invariants:
//! 1. `free` is exactly what the last steady point, or the one being planned, says of the pages
//!    below `page_count`, which is its page count, or the least that the file's page count has been
//!    since.
//! 2. `toggles` are the pages whose state in `free` differs from base plus chain.
//! 3. The map's own runs are in use.

use std::collections::HashSet;

use crate::meta::{Meta, TOGGLES_MAX};
use crate::page::{self, HEADER_BYTES, PageId, PageKind, TxnId, get_u32, put_u32};
use crate::page_set::PageSet;
use crate::pager::{Bounds, Pager};
use crate::{Error, Result};

/// The free pages as stored on disk.
pub(super) struct FreeMap {
    free: PageSet,
    page_count: u32,
    /// The base has to be written anew with the next steady point.
    base_outdated: bool,
    toggles: HashSet<PageId>,
    base: PageId,
    base_pages: u32,
    /// The chain's links, oldest first.
    chain: Vec<PageId>,
}

impl FreeMap {
    /// The map of a database that has just its meta pages.
    pub(super) fn empty() -> Self {
        Self {
            free: PageSet::default(),
            page_count: 2,
            base_outdated: false,
            toggles: HashSet::new(),
            base: PageId::NONE,
            base_pages: 0,
            chain: Vec::new(),
        }
    }

    /// Reads the map of a steady point.
    pub(super) fn load(pager: &Pager, meta: &Meta) -> Result<Self> {
        let bounds = Bounds { page_count: meta.page_count, newest: meta.txn, steady: meta.txn };
        let mut map = Self {
            page_count: meta.page_count,
            base: meta.free_base,
            base_pages: meta.free_base_pages,
            ..Self::empty()
        };
        map.load_base(pager, meta, bounds)?;
        map.load_chain(pager, meta, bounds)?;
        for &page in &meta.toggles {
            if is_outside(meta, page.0) {
                return Err(lists_outside(PageId::NONE));
            }
            map.free.toggle(page.0);
            map.toggles.insert(page);
        }
        let outside = |page| is_outside(meta, page);
        if map.free.iter().next().is_some_and(outside) || map.free.end() > meta.page_count {
            return Err(lists_outside(meta.free_base));
        }
        let is_free = |(page, pages): (PageId, u32)| (page.0..page.0 + pages).any(|page| map.free.contains(page));
        if map.runs().into_iter().any(is_free) {
            return Err(Error::Corrupted { page: meta.free_base, reason: "the free map lists its own pages as free" });
        }
        Ok(map)
    }

    fn load_base(&mut self, pager: &Pager, meta: &Meta, bounds: Bounds) -> Result<()> {
        if meta.free_base == PageId::NONE {
            return Ok(());
        }
        let run = pager.free_map_run(meta.free_base, PageKind::FreeBase, bounds)?;
        if page::run_pages_of(run) != meta.free_base_pages {
            let reason = "the free map's base has another length than the meta page says";
            return Err(Error::Corrupted { page: meta.free_base, reason });
        }
        let bytes = page::run_bytes_of(run) as usize;
        self.free = PageSet::from_bytes(&run[HEADER_BYTES..HEADER_BYTES + bytes]);
        Ok(())
    }

    fn load_chain(&mut self, pager: &Pager, meta: &Meta, bounds: Bounds) -> Result<()> {
        let mut link = meta.free_log;
        // More links than pages would be a circle.
        let links_max = meta.free_log_pages.min(meta.page_count);
        while link != PageId::NONE {
            if self.chain.len() as u32 >= links_max {
                let reason = "the free map's chain is longer than the meta page says";
                return Err(Error::Corrupted { page: link, reason });
            }
            let bytes = pager.free_map_run(link, PageKind::FreeLog, bounds)?;
            let count = get_u32(bytes, HEADER_BYTES + 4) as usize;
            if count > link_capacity(pager) {
                return Err(Error::Corrupted { page: link, reason: "a link of the free map's chain is too full" });
            }
            for i in 0..count {
                let page = get_u32(bytes, HEADER_BYTES + 8 + 4 * i);
                if is_outside(meta, page) {
                    return Err(lists_outside(link));
                }
                self.free.toggle(page);
            }
            self.chain.push(link);
            link = PageId(get_u32(bytes, HEADER_BYTES));
        }
        if self.chain.len() as u32 != meta.free_log_pages {
            let reason = "the free map's chain is shorter than the meta page says";
            return Err(Error::Corrupted { page: meta.free_log, reason });
        }
        // The chain leads from the newest link to the oldest.
        self.chain.reverse();
        Ok(())
    }

    /// The free pages of the steady point.
    pub(super) fn free(&self) -> &PageSet {
        &self.free
    }

    /// The runs that the map itself is stored in.
    pub(super) fn runs(&self) -> Vec<(PageId, u32)> {
        let base = (self.base != PageId::NONE).then_some((self.base, self.base_pages));
        base.into_iter().chain(self.chain.iter().map(|&page| (page, 1))).collect()
    }

    /// How many toggles the next steady point has if `changed_pages` change and the file has
    /// `page_count` pages.
    pub(super) fn toggles_after(&self, changed_pages: u64, page_count: u32) -> u64 {
        self.toggles.len() as u64 + changed_pages + u64::from(page_count - self.page_count)
    }

    /// Whether the toggles fit the meta page, and the base can stay.
    pub(super) fn fits_meta_page(&self, toggles: u64) -> bool {
        !self.base_outdated && toggles <= TOGGLES_MAX as u64
    }

    /// Whether the next steady point has to write more of the map than the meta page.
    pub(super) fn has_to_spill(&self) -> bool {
        !self.fits_meta_page(self.toggles.len() as u64)
    }

    /// Has the base written anew with the next steady point.
    pub(super) fn rewrite_base(&mut self) {
        self.base_outdated = true;
    }

    /// Forgets the pages from `end` on. What is on disk lists them, so the base is written anew.
    pub(super) fn truncate(&mut self, end: u32) {
        if self.page_count > end {
            self.free.truncate(end);
            self.page_count = end;
            self.base_outdated = true;
        }
    }

    // ---- planning a steady point ----

    /// Takes in the pages by which the file has grown: free, unless [`FreeMap::record`] says
    /// otherwise.
    pub(super) fn grow(&mut self, page_count: u32) {
        self.record(PageId(self.page_count), page_count - self.page_count, true);
        self.page_count = page_count;
    }

    /// Brings a run to its state at the steady point being planned.
    pub(super) fn record(&mut self, page: PageId, pages: u32, free: bool) {
        for page in page.0..page.0 + pages {
            if self.free.set(page, free) && !self.toggles.remove(&PageId(page)) {
                self.toggles.insert(PageId(page));
            }
        }
    }

    /// How many links take the toggles, or `None` if the chain would become longer than a base for
    /// `page_count` pages.
    pub(super) fn links_needed(&self, pager: &Pager, page_count: u32) -> Option<usize> {
        // The pages of the new links are toggles, too.
        let links = self.toggles.len().div_ceil(link_capacity(pager)) + 1;
        let fits = self.chain.len() + links <= base_pages_for(page_count, pager) as usize;
        (fits && !self.base_outdated).then_some(links)
    }

    /// Moves as many toggles as fit into a new link on `page`.
    pub(super) fn write_link(&mut self, pager: &Pager, page: PageId, txn: TxnId) {
        let previous = self.chain.last().copied().unwrap_or(PageId::NONE);
        let batch: Vec<PageId> = self.toggles.iter().take(link_capacity(pager)).copied().collect();
        for page in &batch {
            self.toggles.remove(page);
        }
        let bytes = pager.page_mut(page);
        page::init(bytes, page, txn, PageKind::FreeLog, 0);
        bytes[HEADER_BYTES..].fill(0);
        put_u32(bytes, HEADER_BYTES, previous.0);
        put_u32(bytes, HEADER_BYTES + 4, batch.len() as u32);
        for (i, page) in batch.iter().enumerate() {
            put_u32(bytes, HEADER_BYTES + 8 + 4 * i, page.0);
        }
        self.chain.push(page);
    }

    /// Writes a new base into a run, in place of the old base, the chain and the toggles.
    pub(super) fn write_base(&mut self, pager: &Pager, page: PageId, pages: u32, txn: TxnId) {
        let run = pager.bytes_mut(page, pages);
        let bytes = run.len() - HEADER_BYTES;
        page::init_run(run, page, txn, PageKind::FreeBase, pages, bytes as u32);
        self.free.to_bytes(&mut run[HEADER_BYTES..]);
        self.base_outdated = false;
        self.toggles.clear();
        self.chain.clear();
        self.base = page;
        self.base_pages = pages;
    }

    /// Ends the planning: the part of the meta page that the map owns; the rest is default. If the
    /// file has grown since [`FreeMap::grow`], the pages there are the map's own.
    pub(super) fn finish(&mut self, page_count: u32) -> Meta {
        self.page_count = page_count;
        let mut toggles: Vec<PageId> = self.toggles.iter().copied().collect();
        toggles.sort_unstable();
        Meta {
            page_count: self.page_count,
            free_base: self.base,
            free_base_pages: self.base_pages,
            free_log: self.chain.last().copied().unwrap_or(PageId::NONE),
            free_log_pages: self.chain.len() as u32,
            toggles,
            ..Meta::default()
        }
    }
}

#[cfg(test)]
impl FreeMap {
    /// A map that is not on disk yet.
    pub(super) fn unwritten(page_count: u32, free: PageSet) -> Self {
        Self { page_count, free, base_outdated: true, ..Self::empty() }
    }
}

fn is_outside(meta: &Meta, page: u32) -> bool {
    page < 2 || page >= meta.page_count
}

fn lists_outside(page: PageId) -> Error {
    Error::Corrupted { page, reason: "the free map lists pages outside the file" }
}

/// The pages of a base for a file of `page_count` pages, and some to spare.
pub(super) fn base_pages_for(page_count: u32, pager: &Pager) -> u32 {
    page::run_pages_for(u64::from(page_count) / 8 + 64, pager.page_size()) as u32 + 1
}

/// How many pages a link of the chain lists.
fn link_capacity(pager: &Pager) -> usize {
    (pager.page_size() - HEADER_BYTES - 8) / 4
}

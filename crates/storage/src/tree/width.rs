//! How many pages a leaf has.
//!
//! A leaf has as many pages as its entries need. Small entries fill one page, as they always did;
//! larger ones would leave too much of it empty. So a leaf of larger entries grows page by page,
//! until it has so many pages that the loss at its end is small, and only then becomes two. The
//! fewer pages that takes, the better: a change of one entry copies the leaf.
//!
//! | entries of | pages when loaded in order | at most |
//! | --- | --- | --- |
//! | less than a twentieth of a page | 1 | 1 |
//! | 300 bytes | 2 | 3 |
//! | 1,100 bytes | 3 | 3 |
//! | 2,300 bytes | 4 | 4 |
//! | 5,000 bytes | 5 | 5 |
//!
//! A leaf that is copied gets the number of pages that its entries need then. So leaves also become
//! shorter.
//!
//! Invariant: `leaf_pages` of a tree counts pages and not leaves.

use super::*;
use crate::node::{LEAF_BYTES_MAX, leaf_pages_max};

/// Entries of which so many fit a page are small: leaves with them have one page.
const SMALL_PER_PAGE: usize = 20;
/// Half full on average after a split, leaves of fewer pages than these would lose too much at
/// their ends.
const PAGES_ROOMY: u32 = 3;
/// What a leaf loses is counted in parts of its bytes.
const PARTS: usize = 10_000;
/// What a further page of a leaf costs, in parts of the bytes that it may save.
const PAGE_COST: usize = 230;
/// So many parts may be lost. What is above that costs [`LOSS_COST`] times as much.
const LOSS_MAX: usize = 1_500;
const LOSS_COST: usize = 4;

/// The pages that hold so many bytes.
pub(super) fn pages_for(bytes: usize, page_size: usize) -> u32 {
    bytes.div_ceil(page_size) as u32
}

/// The number of pages that loses the least at the end of a full leaf, counting what each page
/// costs.
fn pages_full(entry_bytes: usize, page_size: usize) -> u32 {
    let cost = |&pages: &u32| {
        let bytes = pages as usize * page_size;
        let used = (bytes - HEADER_BYTES) / entry_bytes * entry_bytes;
        let lost = (bytes - used) * PARTS / bytes;
        lost + lost.saturating_sub(LOSS_MAX) * LOSS_COST + pages as usize * PAGE_COST
    };
    (1..=leaf_pages_max(page_size)).min_by_key(cost).unwrap_or(1)
}

/// The bytes of a node that counts as full: what is far below that is merged with a neighbour.
pub(super) fn bytes_full(bytes: usize, count: usize, is_leaf: bool, page_size: usize) -> usize {
    let pages = if is_leaf { pages_max(bytes / count.max(1), page_size, false) } else { 1 };
    pages as usize * page_size
}

/// The most pages that a leaf with entries of this mean length gets. `last`: it is filled in order,
/// and stays full.
pub(super) fn pages_max(entry_bytes: usize, page_size: usize, last: bool) -> u32 {
    if entry_bytes < page_size / SMALL_PER_PAGE {
        return 1;
    }
    let full = pages_full(entry_bytes, page_size);
    if last { full } else { full.max(PAGES_ROOMY.min(leaf_pages_max(page_size))) }
}

impl<'a> TreeMut<'a> {
    /// Allocates a leaf of `pages` pages.
    pub(super) fn allocate_leaf(&mut self, pages: u32) -> Result<PageId> {
        let id = self.work.allocate_leaf(self.pager, pages)?;
        self.tree.leaf_pages += u64::from(pages);
        Ok(id)
    }

    /// The pages that a change of a leaf by one entry, whose cell and slot have `added` bytes, may
    /// allocate in runs: none if all fits the one page that it has.
    #[inline]
    pub(super) fn run_pages(&self, node: Node<'_>, added: usize) -> u32 {
        let page_size = self.pager.page_size();
        let used = node.used_bytes() + added;
        // A copy, and then a longer one in its place, or two that each lose a part of a page.
        if node.pages() == 1 && used <= page_size { 0 } else { 2 * pages_for(used, page_size) + 4 }
    }

    /// The pages that a copy of a leaf takes in a run: none if it has one page.
    pub(super) fn copied_run(&self, leaf: PageId) -> Result<u32> {
        let pages = self.node(leaf)?.pages();
        Ok(if pages > 1 { pages } else { 0 })
    }

    /// Makes a leaf the transaction's own. A copy has the pages that its entries need together with
    /// `added` bytes more, if it may have so many.
    pub(super) fn own_leaf(&mut self, id: PageId, added: usize) -> Result<PageId> {
        let node = self.node(id)?;
        let (used, page_size) = (node.used_bytes(), self.pager.page_size());
        let (needed, wanted) = (pages_for(used, page_size), pages_for(used + added, page_size));
        let may_grow = wanted <= needed || wanted <= pages_max(node.entry_bytes_mean(), page_size, false);
        let (before, after) = (node.pages(), if may_grow { wanted } else { needed });
        let owned = self.work.own_sized(self.pager, id, node, after)?;
        if owned != id {
            self.note_pages(before, after);
        }
        Ok(owned)
    }

    fn note_pages(&mut self, before: u32, after: u32) {
        // If the description is wrong, `check` reports it.
        self.tree.leaf_pages = (self.tree.leaf_pages + u64::from(after)).saturating_sub(before.into());
    }

    /// Makes an owned leaf one of more pages, with its entries: where it is, or elsewhere. Gives its
    /// page.
    pub(super) fn widen(&mut self, id: PageId, pages: u32) -> Result<PageId> {
        let node = self.node(id)?;
        let before = node.pages();
        debug_assert!(before < pages);
        let (from, to) = (self.pager.page_size() * before as usize, self.pager.page_size() * pages as usize);
        if self.work.extend(self.pager, id, before, pages - before) {
            crate::page::set_leaf_pages(self.pager.page_mut(id), pages);
            self.node_mut(id).move_heap(from, to);
            self.note_pages(before, pages);
            return Ok(id);
        }
        let wide = self.allocate_leaf(pages)?;
        if wide == id {
            return Err(corrupted(id, "it is in use and was free"));
        }
        self.pager.copy_leaf(self.node(id)?, wide, pages);
        crate::page::set_owner(self.pager.page_mut(wide), wide, self.work.txn());
        self.free_node(id, 0);
        Ok(wide)
    }

    /// Gives up the pages that an owned leaf does not need.
    pub(super) fn narrow(&mut self, id: PageId) -> Result<()> {
        let node = self.node(id)?;
        let (before, page_size) = (node.pages(), self.pager.page_size());
        if before == 1 || node.count() == 0 {
            return Ok(());
        }
        let pages = pages_for(node.used_bytes(), page_size);
        if pages >= before {
            return Ok(());
        }
        let (from, to) = (page_size * before as usize, page_size * pages as usize);
        let mut scratch = std::mem::take(&mut self.work.scratch[1]);
        self.node_mut(id).gather(&mut scratch);
        self.work.scratch[1] = scratch;
        self.node_mut(id).move_heap(from, to);
        crate::page::set_leaf_pages(self.pager.page_mut(id), pages);
        self.work.cut(id, pages, before);
        self.note_pages(before, pages);
        Ok(())
    }

    /// A leaf of `pages` pages to be written anew, instead of one that is owned and whose contents
    /// are elsewhere: the same pages, or others.
    pub(super) fn replace_leaf(&mut self, id: PageId, pages: u32) -> Result<PageId> {
        let before = self.node(id)?.pages();
        if pages > before {
            let other = self.allocate_leaf(pages)?;
            self.free_node(id, 0);
            return Ok(other);
        }
        self.work.init_leaf(self.pager, id, pages);
        if pages < before {
            self.work.cut(id, pages, before);
        }
        self.note_pages(before, pages);
        Ok(id)
    }
}

const _: () = assert!(LEAF_BYTES_MAX == crate::options::PAGE_SIZE_MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_as_wide_as_their_entries_ask_for() {
        let widths = |entry_bytes| (pages_max(entry_bytes, 4096, true), pages_max(entry_bytes, 4096, false));
        assert_eq!(widths(60), (1, 1));
        assert_eq!(widths(203), (1, 1));
        assert_eq!(widths(320), (2, 3));
        assert_eq!(widths(1_085), (3, 3));
        assert_eq!(widths(2_300), (4, 4));
        assert_eq!(widths(5_025), (5, 5));
        // However long entries are, a full leaf of them loses little.
        for entry_bytes in 204..21_000 {
            let bytes = 4096 * pages_max(entry_bytes, 4096, true) as usize;
            let used = (bytes - HEADER_BYTES) / entry_bytes * entry_bytes;
            assert!(bytes * 1000 <= used * 1195, "{entry_bytes}: {used} of {bytes}");
        }
        for shift in 12..=16 {
            let page_size = 1 << shift;
            for entry_bytes in [1, 100, 1_000, 10_000, 24 << 10] {
                let pages = pages_max(entry_bytes, page_size, false);
                assert!(pages >= 1 && pages as usize * page_size <= LEAF_BYTES_MAX);
            }
        }
    }
}

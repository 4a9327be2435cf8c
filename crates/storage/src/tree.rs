//! The B+tree: reading, and changing by copying the path.
//!
//! [`Tree`] is where a tree starts; its methods here read. [`TreeMut`] is a tree inside the write
//! transaction; its methods change. A change runs in three steps:
//! 1. It looks where the change belongs, reading only, and makes sure that there is room.
//! 2. It makes the path from the root to the leaf the transaction's own, copying pages of older
//!    states.
//! 3. It changes the leaf and what follows from that upwards: counts, splits, merges.
//!
//! Everything that can fail for lack of room is in the first step, so an error leaves the tree as
//! it was.
//!
//! | file | holds |
//! | --- | --- |
//! | `put` | inserting and replacing |
//! | `delete` | removing entries and ranges, and merging underfull pages |
//! | `append` | loading sorted entries |
//! | `split` | one page becoming two, and two becoming one |
//! | `width` | leaves of several pages |
//! | `relocate` | moving pages to lower places |
//!
//! Invariants, all checked by `check`:
//! 1. All leaves are at the same depth.
//! 2. Separators satisfy left < separator ≤ right.
//! 3. A branch's counts are the numbers of entries below each child.
//! 4. No leaf or branch is empty. The empty tree has no page.

use std::ops::{Bound, ControlFlow};

use smallvec::SmallVec;

use crate::ahead;
use crate::cold::Moment;
use crate::log::difference;
use crate::node::{self, Builder, Fit, Node, NodeMut, Payload, common_prefix};
use crate::page::{HEADER_BYTES, PageId};
use crate::pager::{Bounds, Pager, corrupted};
use crate::root::{DEPTH_MAX, Tree};
use crate::workspace::{Path, Workspace};
use crate::{Error, Result};

mod append;
mod delete;
mod put;
mod relocate;
mod split;
mod width;
pub(crate) use append::Appender;
pub(crate) use put::{Put, PutMode};
pub(crate) use relocate::Relocation;

/// Inserting leaves this number of pages for what makes room again: without free pages nothing
/// could be deleted or committed.
const PAGES_SPARE: u32 = 32;
/// The same for a leaf of several pages: so many in a row.
const RUN_PAGES_SPARE: u32 = 16;

/// Keys that are loaded together: a processor has so many loads under way.
const LOADED_AT_ONCE: usize = 16;

impl Tree {
    /// The leaf that covers a key.
    #[inline]
    fn leaf<'p>(&self, pager: &'p Pager, bounds: Bounds, key: &[u8]) -> Result<(PageId, Node<'p>)> {
        let mut id = self.root;
        let mut node = pager.node(id, bounds)?;
        let mut levels = self.depth;
        while !node.is_leaf() {
            id = node.child(node.child_index(key));
            pager.prefetch(id, bounds);
            levels = below(levels, id)?;
            node = pager.node(id, bounds)?;
        }
        self.at_bottom(levels)?;
        Ok((id, node))
    }

    /// The payloads under some keys, told to `visit` in turn until it breaks off. First the leaves
    /// of several keys are loaded together, then their entries; lookups one after the other wait
    /// for each load by itself.
    pub(crate) fn get_many<'p>(
        &self,
        pager: &'p Pager,
        bounds: Bounds,
        keys: &[&[u8]],
        mut visit: impl FnMut(usize, Option<Payload<'p>>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut branch = None;
        // What was met came from the disk.
        let mut is_cold = false;
        for (chunk, keys) in keys.chunks(LOADED_AT_ONCE).enumerate() {
            let mut ids = [PageId::NONE; LOADED_AT_ONCE];
            let mut before = PageId::NONE;
            for (key, id) in keys.iter().zip(&mut ids).filter(|_| self.depth > 0) {
                *id = self.leaf_id(pager, bounds, &mut branch, key)?;
                if *id != before {
                    pager.prefetch_search(*id, bounds);
                }
                before = *id;
            }
            if is_cold && self.depth > 0 {
                is_cold = ahead::leaves(&ids[..keys.len()], pager, bounds);
            }
            let mut places: [Option<(Node<'p>, usize)>; LOADED_AT_ONCE] = [None; LOADED_AT_ONCE];
            let (mut leaf, mut near): (Option<(PageId, Node<'p>)>, usize) = (None, 0);
            let started = Moment::now();
            for (at, ((key, &id), place)) in
                keys.iter().zip(&ids).zip(&mut places).enumerate().filter(|_| self.depth > 0)
            {
                let node = match leaf {
                    Some((same, node)) if same == id => node,
                    _ => {
                        near = usize::MAX;
                        pager.node(id, bounds)?
                    }
                };
                if at == 0 && !is_cold && started.was_slow() {
                    is_cold = ahead::leaves(&ids[1..keys.len()], pager, bounds);
                }
                if !node.is_leaf() {
                    return Err(corrupted(id, "it is at another level than its tree says"));
                }
                leaf = Some((id, node));
                if let Some(index) = node.candidate(key, near) {
                    if let Some(offset) = node.offset(index) {
                        pager.prefetch_at(id, bounds, offset);
                    }
                    (*place, near) = (Some((node, index)), index);
                }
            }
            pager.cold.note(started);
            is_cold |= started.was_slow();
            if is_cold {
                let found = keys.iter().zip(&places).filter_map(|(key, place)| {
                    let (leaf, candidate) = (*place)?;
                    Some(leaf.payload(leaf.find_from(candidate, key)?))
                });
                ahead::values(found, pager, bounds);
            }
            for (at, (key, &place)) in keys.iter().zip(&places).enumerate() {
                let found = place.and_then(|(leaf, candidate)| Some((leaf, leaf.find_from(candidate, key)?)));
                if visit(chunk * LOADED_AT_ONCE + at, found.map(|(leaf, index)| leaf.payload(index)))?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The leaf that covers a key, which is not looked at. `branch` is the lowest branch on the way
    /// to the key before, and which child it was: keys that are near each other are below the same
    /// one.
    fn leaf_id<'p>(
        &self,
        pager: &'p Pager,
        bounds: Bounds,
        branch: &mut Option<(Node<'p>, usize)>,
        key: &[u8],
    ) -> Result<PageId> {
        if let Some((node, child)) = branch
            && let Some(index) = node.child_near(key, *child)
        {
            *child = index;
            return Ok(node.child(index));
        }
        let (mut id, mut levels) = (self.root, self.depth);
        while levels > 1 {
            let node = pager.node(id, bounds)?;
            if node.is_leaf() {
                break;
            }
            let index = node.child_index(key);
            *branch = Some((node, index));
            id = node.child(index);
            levels = below(levels, id)?;
        }
        Ok(id)
    }

    /// Starts reading what a lookup of a key would touch and is not in memory, as far as that is
    /// known: of a leaf that is not there nobody knows what it refers to. Gives the run of pages
    /// that is on its way. `branch` is as in [`Self::leaf_id`].
    pub(crate) fn read_ahead<'p>(
        &self,
        pager: &'p Pager,
        bounds: Bounds,
        key: &[u8],
        branch: &mut Option<(Node<'p>, usize)>,
    ) -> Result<Option<(PageId, u32)>> {
        if self.depth == 0 {
            return Ok(None);
        }
        let id = self.leaf_id(pager, bounds, branch, key)?;
        if pager.read_ahead(id, 1, bounds) {
            return Ok(Some((id, 1)));
        }
        let pages = pager.leaf_pages(id, bounds);
        if pages > 1 && pager.read_ahead(id, pages, bounds) {
            return Ok(Some((id, pages)));
        }
        let leaf = pager.node(id, bounds)?;
        match leaf.is_leaf().then(|| leaf.search(key).ok().map(|index| leaf.payload(index))).flatten() {
            Some(Payload::Large { page, bytes }) => {
                let pages = large_pages(pager, bytes) as u32;
                Ok(pager.read_ahead(page, pages, bounds).then_some((page, pages)))
            }
            _ => Ok(None),
        }
    }

    /// Checks that a path has ended at the level of the leaves. Otherwise it has gone through pages
    /// of another tree.
    #[inline]
    fn at_bottom(&self, levels: u32) -> Result<()> {
        if levels != 1 {
            return Err(corrupted(self.root, "a leaf below it is at another level than it says"));
        }
        Ok(())
    }

    /// The payload under a key.
    #[inline]
    pub(crate) fn get<'p>(&self, pager: &'p Pager, bounds: Bounds, key: &[u8]) -> Result<Option<Payload<'p>>> {
        Ok(self.get_from(pager, bounds, key)?.1)
    }

    /// The payload under a key, and the leaf where it is or would be: [`PageId::NONE`] in an empty
    /// tree.
    #[inline]
    pub(crate) fn get_from<'p>(
        &self,
        pager: &'p Pager,
        bounds: Bounds,
        key: &[u8],
    ) -> Result<(PageId, Option<Payload<'p>>)> {
        if self.depth == 0 {
            return Ok((PageId::NONE, None));
        }
        let (id, leaf) = self.leaf(pager, bounds, key)?;
        Ok((id, leaf.search(key).ok().map(|index| leaf.payload(index))))
    }

    /// How many entries have a smaller key (or, `inclusive`, one that is not greater).
    pub(crate) fn rank(&self, pager: &Pager, bounds: Bounds, key: &[u8], inclusive: bool) -> Result<u64> {
        if self.depth == 0 {
            return Ok(0);
        }
        let mut rank = 0;
        let mut node = pager.node(self.root, bounds)?;
        let mut levels = self.depth;
        while !node.is_leaf() {
            let index = node.child_index(key);
            rank += node.entries_before(index);
            let child = node.child(index);
            levels = below(levels, child)?;
            node = pager.node(child, bounds)?;
        }
        self.at_bottom(levels)?;
        Ok(rank
            + match node.search(key) {
                Ok(index) => index as u64 + u64::from(inclusive),
                Err(index) => index as u64,
            })
    }

    /// How many entries lie between two bounds.
    pub(crate) fn count(&self, pager: &Pager, bounds: Bounds, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<u64> {
        let from = match low {
            Bound::Included(key) => self.rank(pager, bounds, key, false)?,
            Bound::Excluded(key) => self.rank(pager, bounds, key, true)?,
            Bound::Unbounded => 0,
        };
        let to = match high {
            Bound::Included(key) => self.rank(pager, bounds, key, true)?,
            Bound::Excluded(key) => self.rank(pager, bounds, key, false)?,
            Bound::Unbounded => self.entries,
        };
        Ok(to.saturating_sub(from))
    }

    /// The path to a key, and whether the key is there.
    fn descend(&self, pager: &Pager, bounds: Bounds, key: &[u8]) -> Result<(Path, bool)> {
        let mut path = Path::new();
        let mut id = self.root;
        let mut levels = self.depth;
        loop {
            let node = pager.node(id, bounds)?;
            if node.is_leaf() {
                self.at_bottom(levels)?;
                let found = node.search(key);
                path.push((id, found.unwrap_or_else(|index| index)));
                return Ok((path, found.is_ok()));
            }
            let index = node.child_index(key);
            path.push((id, index));
            id = node.child(index);
            // The page is about to be copied, so all of it is loaded at once.
            pager.prefetch_whole(id, bounds);
            levels = below(levels, id)?;
        }
    }

    /// The tree as part of the write transaction that `work` belongs to.
    pub(crate) fn edit<'a>(&'a mut self, pager: &'a Pager, work: &'a mut Workspace) -> TreeMut<'a> {
        TreeMut { tree: self, pager, work }
    }
}

/// A tree that is being changed, and what changing it takes.
pub(crate) struct TreeMut<'a> {
    pub(crate) tree: &'a mut Tree,
    pub(crate) pager: &'a Pager,
    pub(crate) work: &'a mut Workspace,
}

impl<'a> TreeMut<'a> {
    #[inline]
    fn node(&self, id: PageId) -> Result<Node<'a>> {
        self.pager.node(id, self.work.bounds())
    }

    /// A page that the transaction owns.
    #[inline]
    fn node_mut(&mut self, id: PageId) -> NodeMut<'a> {
        NodeMut::new(self.pager.node_mut(id))
    }

    /// A branch that the transaction owns.
    #[inline]
    fn branch_mut(&mut self, id: PageId) -> NodeMut<'a> {
        NodeMut::new(self.pager.page_mut(id))
    }

    /// Makes every page of a path the transaction's own. If `added` is given, the leaf gets the pages
    /// that it needs with so many bytes more.
    fn own_path(&mut self, path: &mut Path, added: Option<usize>) -> Result<()> {
        for level in 0..path.len() {
            let id = match added {
                Some(added) if level + 1 == path.len() => self.own_leaf(path[level].0, added)?,
                _ => self.work.own(self.pager, path[level].0)?,
            };
            if id != path[level].0 {
                self.refer(path, level, id);
                path[level].0 = id;
            }
        }
        Ok(())
    }

    /// Has the page above, or the tree, refer to `id` as the page at this level of an owned path.
    #[inline]
    fn refer(&mut self, path: &Path, level: usize, id: PageId) {
        match level.checked_sub(1) {
            None => self.tree.root = id,
            Some(above) => self.branch_mut(path[above].0).set_child(path[above].1, id),
        }
    }

    /// Makes the root page the transaction's own, because the root page of a state carries the
    /// state's number. It mostly is; but a deletion may have made an older page the root.
    pub(crate) fn own_root(&mut self) -> Result<()> {
        if self.tree.depth > 0 {
            self.tree.root = self.work.own(self.pager, self.tree.root)?;
        }
        Ok(())
    }

    /// Adds to the counts along a path.
    fn add_to_counts(&mut self, path: &Path, added: i64) -> Result<()> {
        self.tree.entries = self.tree.entries.checked_add_signed(added).ok_or_else(|| miscounted(self.tree.root))?;
        for &(id, index) in &path[..path.len() - 1] {
            let count = self.node(id)?.child_count(index);
            let count = count.checked_add_signed(added).ok_or_else(|| miscounted(id))?;
            self.branch_mut(id).set_child_count(index, count);
        }
        Ok(())
    }

    /// Frees a large value.
    fn free_large(&mut self, page: PageId, bytes: u32) {
        let pages = large_pages(self.pager, bytes);
        // If the description is wrong, `check` reports it.
        self.tree.overflow_pages = self.tree.overflow_pages.saturating_sub(pages);
        self.work.free_large(self.pager, page, pages as u32, bytes);
    }

    /// Frees a tree page that was verified.
    fn free_node(&mut self, id: PageId, level: u8) {
        let pages = self.pager.birth_and_pages(id).1;
        let counter = if level == 0 { &mut self.tree.leaf_pages } else { &mut self.tree.branch_pages };
        *counter = counter.saturating_sub(pages.into());
        self.work.free(self.pager, id);
    }
}

/// One level down: how many levels are left below `child`, or an error if the tree has no bottom.
#[inline]
fn below(levels: u32, child: PageId) -> Result<u32> {
    if levels <= 1 || levels > DEPTH_MAX {
        return Err(corrupted(child, "the tree is deeper than its root says"));
    }
    Ok(levels - 1)
}

fn miscounted(page: PageId) -> Error {
    corrupted(page, "it counts other entries than are below it")
}

/// Pages of a large value.
pub(crate) fn large_pages(pager: &Pager, bytes: u32) -> u64 {
    crate::page::run_pages_for(u64::from(bytes), pager.page_size())
}

/// The entries of a leaf between two bounds, or the children that may have some.
fn covered(node: Node<'_>, low: Bound<&[u8]>, high: Bound<&[u8]>) -> std::ops::Range<usize> {
    if !node.is_leaf() {
        let first = match low {
            Bound::Included(key) | Bound::Excluded(key) => node.child_index(key),
            Bound::Unbounded => 0,
        };
        let last = match high {
            Bound::Included(key) | Bound::Excluded(key) => node.child_index(key),
            Bound::Unbounded => node.count() - 1,
        };
        return first..last + 1;
    }
    let first = match low {
        Bound::Included(key) => node.search(key).unwrap_or_else(|index| index),
        Bound::Excluded(key) => node.search(key).map_or_else(|index| index, |index| index + 1),
        Bound::Unbounded => 0,
    };
    let last = match high {
        Bound::Included(key) => node.search(key).map_or_else(|index| index, |index| index + 1),
        Bound::Excluded(key) => node.search(key).unwrap_or_else(|index| index),
        Bound::Unbounded => node.count(),
    };
    first..last.max(first)
}

//! The B+tree: reading, and changing by copying the path.
//!
//! A change first looks (reading only), then makes the path from the root to the leaf its own, then changes the leaf and
//! what follows from that upwards: counts, splits, merges. Everything that can fail for lack of room happens before the
//! first page changes, so an error leaves the tree as it was.
//!
//! Invariants, all checked by `check`: leaves at the same depth; separators satisfy left < sep ≤ right; a branch's counts
//! are the entries below each child; no empty leaf or branch but for the empty tree, which has no page.

use std::ops::Bound;

use smallvec::SmallVec;

use crate::log::difference;
use crate::node::{self, Builder, Fit, Node, NodeMut, Payload, common_prefix};
use crate::page::{PageId, get_u64, put_u64};
use crate::pager::{Bounds, Pager, corrupted};
use crate::workspace::Workspace;
use crate::{Error, Result};

mod append;
mod split;
pub(crate) use append::Appender;
use split::{Pair, insert_or_split};

/// No tree is deeper: with at least two children a branch, 2^48 entries fit.
const DEPTH_MAX: u32 = 48;
/// New entries leave so many pages to what makes room: without free pages nothing could be deleted, or committed.
const PAGES_SPARE: u32 = 32;

/// Where a tree starts and how big it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tree {
    pub(crate) root: PageId,
    /// Levels, 0 for the empty tree.
    pub(crate) depth: u32,
    pub(crate) entries: u64,
    pub(crate) leaf_pages: u64,
    pub(crate) branch_pages: u64,
    pub(crate) overflow_pages: u64,
}

/// A page on the way to an entry, and which child or entry of it.
pub(crate) type Step = (PageId, usize);
/// The way from the root to a leaf.
pub(crate) type Path = SmallVec<[Step; 8]>;

/// What a put found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    Inserted,
    Replaced,
    Exists,
}

/// What a put may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutMode {
    /// Insert or replace.
    Upsert,
    /// Leave an existing entry alone.
    InsertOnly,
    /// Only behind the last entry.
    Append,
}

impl Tree {
    /// Bytes of a tree in the meta page and in the catalogue.
    pub(crate) const BYTES: usize = 40;

    /// ```text
    /// 0      4       8         16           24             32               40
    /// | root | depth | entries | leaf pages | branch pages | overflow pages |
    /// ```
    pub(crate) fn to_words(self) -> [u64; Self::BYTES / 8] {
        let start = u64::from(self.root.0) | u64::from(self.depth) << 32;
        [start, self.entries, self.leaf_pages, self.branch_pages, self.overflow_pages]
    }

    pub(crate) fn from_words(words: [u64; Self::BYTES / 8]) -> Self {
        let [start, entries, leaf_pages, branch_pages, overflow_pages] = words;
        Self {
            root: PageId(start as u32),
            depth: (start >> 32) as u32,
            entries,
            leaf_pages,
            branch_pages,
            overflow_pages,
        }
    }

    /// Whether a description that was read can be one: it is empty in every respect or in none, and not too deep.
    pub(crate) fn is_plausible(&self) -> bool {
        let empty = self.depth == 0;
        let pages = self.leaf_pages.max(self.branch_pages).max(self.overflow_pages);
        empty == (self.root == PageId::NONE)
            && empty == (self.entries == 0)
            && self.depth <= DEPTH_MAX
            && self.entries < 1 << 48
            && pages <= u64::from(u32::MAX)
    }

    pub(crate) fn encode(&self, out: &mut [u8]) {
        for (i, word) in self.to_words().into_iter().enumerate() {
            put_u64(out, 8 * i, word);
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        Self::from_words(std::array::from_fn(|i| get_u64(bytes, 8 * i)))
    }

    // ---- reading ----

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

    /// A path that ends above or below where leaves are has gone through pages of another tree.
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

    /// The payload under a key, and the leaf where it is or would be: [`PageId::NONE`] in an empty tree.
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

    // ---- changing ----

    /// The way to a key, and whether it is there.
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
            // The page is about to be copied: better to wait for all of it at once.
            pager.prefetch_whole(id, bounds);
            levels = below(levels, id)?;
        }
    }

    /// The way to a key that belongs between two entries of the leaf written to last, and whether it is there: what is
    /// written comes in the order of the keys, so that often enough it goes where the one before went.
    fn near(&self, pager: &Pager, work: &mut Workspace, key: &[u8]) -> Result<Option<(Path, bool)>> {
        if work.finger.first().is_none_or(|&(root, _)| root != self.root) {
            return Ok(None);
        }
        let Some(&(leaf, _)) = work.finger.last() else { return Ok(None) };
        let node = pager.node(leaf, work.bounds())?;
        let (index, exists) = match node.search(key) {
            Ok(index) => (index, true),
            Err(index) if index > 0 && index < node.count() => (index, false),
            // The leaf beside it may be the one.
            Err(_) => return Ok(None),
        };
        let mut path = std::mem::take(&mut work.finger);
        if let Some(last) = path.last_mut() {
            last.1 = index;
        }
        Ok(Some((path, exists)))
    }

    /// Makes every page of a path the transaction's own.
    fn own_path(&mut self, pager: &Pager, work: &mut Workspace, path: &mut Path) -> Result<()> {
        for level in 0..path.len() {
            let id = work.own(pager, path[level].0)?;
            if id != path[level].0 {
                match level.checked_sub(1) {
                    None => self.root = id,
                    Some(above) => NodeMut::new(pager.page_mut(path[above].0)).set_child(path[above].1, id),
                }
                path[level].0 = id;
            }
        }
        Ok(())
    }

    /// Makes the root page the transaction's own, which it is unless the last change only took a page from above it:
    /// the root page of a state carries the state's number.
    pub(crate) fn own_root(&mut self, pager: &Pager, work: &mut Workspace) -> Result<()> {
        if self.depth > 0 {
            self.root = work.own(pager, self.root)?;
        }
        Ok(())
    }

    /// Adds to the counts along a path.
    fn add_to_counts(&mut self, pager: &Pager, work: &Workspace, path: &Path, added: i64) -> Result<()> {
        self.entries = self.entries.checked_add_signed(added).ok_or_else(|| miscounted(self.root))?;
        for &(id, index) in &path[..path.len() - 1] {
            let count = pager.node(id, work.bounds())?.child_count(index);
            let count = count.checked_add_signed(added).ok_or_else(|| miscounted(id))?;
            NodeMut::new(pager.page_mut(id)).set_child_count(index, count);
        }
        Ok(())
    }

    /// Puts an entry. The value is inline if it fits, else in pages of its own.
    pub(crate) fn put(
        &mut self,
        pager: &Pager,
        work: &mut Workspace,
        key: &[u8],
        value: &[u8],
        mode: PutMode,
    ) -> Result<Put> {
        if self.depth == 0 {
            let payload = self.store(pager, work, key, value, 1 + PAGES_SPARE)?;
            let id = work.take_node(pager, 0)?;
            build(pager, id, 1, key, |builder, _| builder.push(key, payload), key);
            *self = Self { root: id, depth: 1, entries: 1, leaf_pages: 1, ..*self };
            return Ok(Put::Inserted);
        }
        let near = self.near(pager, work, key)?;
        let is_near = near.is_some();
        let (mut path, exists) = match near {
            Some(found) => found,
            None => self.descend(pager, work.bounds(), key)?,
        };
        let (leaf, index) = path[path.len() - 1];
        match mode {
            PutMode::InsertOnly if exists => return Ok(Put::Exists),
            PutMode::Append => {
                let last = index == pager.node(leaf, work.bounds())?.count() && self.is_last(pager, work, &path)?;
                if exists || !last {
                    return Err(Error::KeyNotInOrder);
                }
            }
            _ => {}
        }
        let spare = if exists { 0 } else { PAGES_SPARE };
        let payload = self.store(pager, work, key, value, 2 * self.depth + 2 + spare)?;
        if !is_near {
            self.own_path(pager, work, &mut path)?;
        }
        work.finger.clone_from(&path);
        let leaf = path[path.len() - 1].0;
        if exists {
            work.difference.clear();
            match pager.node(leaf, work.bounds())?.payload(index) {
                Payload::Large { page, bytes } => self.free_large(pager, work, page, bytes),
                Payload::Inline(old) if !work.record.is_too_long() => {
                    difference::between(old, value, &mut work.difference);
                }
                _ => {}
            }
            if NodeMut::new(pager.page_mut(leaf)).replace_value(index, payload) {
                return Ok(Put::Replaced);
            }
            NodeMut::new(pager.page_mut(leaf)).remove(index);
        } else {
            self.add_to_counts(pager, work, &path, 1)?;
        }
        self.insert_at(pager, work, &path, key, payload)?;
        Ok(if exists { Put::Replaced } else { Put::Inserted })
    }

    fn is_last(&self, pager: &Pager, work: &Workspace, path: &Path) -> Result<bool> {
        for &(id, index) in &path[..path.len() - 1] {
            if index + 1 != pager.node(id, work.bounds())?.count() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Brings a value where it belongs, and makes sure that `room` more pages can be taken.
    fn store<'v>(
        &mut self,
        pager: &Pager,
        work: &mut Workspace,
        key: &[u8],
        value: &'v [u8],
        room: u32,
    ) -> Result<Payload<'v>> {
        if node::fits_inline(key.len(), value.len(), pager.page_size()) {
            work.reserve(pager, room)?;
            return Ok(Payload::Inline(value));
        }
        let page = work.take_large(pager, value)?;
        if let Err(e) = work.reserve(pager, room) {
            work.free(pager, page);
            return Err(e);
        }
        self.overflow_pages += large_pages(pager, value.len() as u32);
        Ok(Payload::Large { page, bytes: value.len() as u32 })
    }

    fn free_large(&mut self, pager: &Pager, work: &mut Workspace, page: PageId, bytes: u32) {
        let pages = large_pages(pager, bytes);
        // Were the description wrong, `check` would tell.
        self.overflow_pages = self.overflow_pages.saturating_sub(pages);
        work.free_large(pager, page, pages as u32);
    }

    /// Inserts at the end of a path that the transaction owns, splitting upwards as needed.
    fn insert_at(
        &mut self,
        pager: &Pager,
        work: &mut Workspace,
        path: &Path,
        key: &[u8],
        payload: Payload<'_>,
    ) -> Result<()> {
        let mut separator: Vec<u8> = Vec::new();
        let mut child = PageId::NONE;
        for (level, &(id, index)) in path.iter().enumerate().rev() {
            let at_leaf = level + 1 == path.len();
            let split = if at_leaf {
                let last = self.is_last(pager, work, path)?;
                insert_or_split(pager, work, id, index, key, payload, last)?
            } else {
                let (below, _) = path[level + 1];
                let left_count = pager.node(below, work.bounds())?.entries();
                let right_count = pager.node(child, work.bounds())?.entries();
                NodeMut::new(pager.page_mut(id)).set_child_count(index, left_count);
                let payload = Payload::Child { page: child, count: right_count };
                insert_or_split(pager, work, id, index + 1, &separator, payload, false)?
            };
            let Some((up, right)) = split else { return Ok(()) };
            if at_leaf {
                self.leaf_pages += 1;
            } else {
                self.branch_pages += 1;
            }
            separator = up;
            child = right;
        }
        self.grow_root(pager, work, &separator, child)
    }

    fn grow_root(&mut self, pager: &Pager, work: &mut Workspace, separator: &[u8], right: PageId) -> Result<()> {
        let left = self.root;
        let left_count = pager.node(left, work.bounds())?.entries();
        let right_count = pager.node(right, work.bounds())?.entries();
        let root = work.take_node(pager, self.depth as u8)?;
        let mut builder = Builder::new(pager.page_mut(root), separator, 2);
        builder.push(&[], Payload::Child { page: left, count: left_count });
        builder.push(separator, Payload::Child { page: right, count: right_count });
        builder.finish();
        self.root = root;
        self.depth += 1;
        self.branch_pages += 1;
        Ok(())
    }

    /// Removes an entry; `false` if there is none.
    pub(crate) fn delete(&mut self, pager: &Pager, work: &mut Workspace, key: &[u8]) -> Result<bool> {
        if self.depth == 0 {
            return Ok(false);
        }
        let (mut path, exists) = self.descend(pager, work.bounds(), key)?;
        if !exists {
            return Ok(false);
        }
        work.reserve(pager, 2 * self.depth + 2)?;
        self.own_path(pager, work, &mut path)?;
        let (leaf, index) = path[path.len() - 1];
        if let Payload::Large { page, bytes } = pager.node(leaf, work.bounds())?.payload(index) {
            self.free_large(pager, work, page, bytes);
        }
        NodeMut::new(pager.page_mut(leaf)).remove(index);
        self.add_to_counts(pager, work, &path, -1)?;
        self.mend(pager, work, &mut path, false)?;
        Ok(true)
    }

    /// Removes empty pages and merges underfull ones along an owned path, from the leaf up: until nothing is left to do,
    /// or, if `whole`, at every level.
    fn mend(&mut self, pager: &Pager, work: &mut Workspace, path: &mut Path, whole: bool) -> Result<()> {
        while path.len() > 1 {
            let (id, _) = path[path.len() - 1];
            let (parent, index) = path[path.len() - 2];
            let node = pager.node(id, work.bounds())?;
            let level = node.level();
            if node.count() == 0 {
                NodeMut::new(pager.page_mut(parent)).remove(index);
                self.drop_page(pager, work, id, level);
            } else if node.is_underfull() {
                if !self.merge_with_neighbour(pager, work, parent, index)? && !whole {
                    break;
                }
            } else if !whole {
                break;
            }
            path.pop();
        }
        // The root: empty, or a branch with one child.
        loop {
            let root = pager.node(self.root, work.bounds())?;
            let level = root.level();
            match root.count() {
                0 => {
                    self.drop_page(pager, work, self.root, level);
                    self.root = PageId::NONE;
                    self.depth = 0;
                    return Ok(());
                }
                1 if level > 0 => {
                    let child = root.child(0);
                    self.drop_page(pager, work, self.root, level);
                    self.root = child;
                    self.depth -= 1;
                }
                _ => return Ok(()),
            }
        }
    }

    fn drop_page(&mut self, pager: &Pager, work: &mut Workspace, id: PageId, level: u8) {
        let pages = if level == 0 { &mut self.leaf_pages } else { &mut self.branch_pages };
        *pages = pages.saturating_sub(1);
        work.free(pager, id);
    }

    /// Merges child `index` of an owned branch with a neighbour if both fit one page comfortably.
    fn merge_with_neighbour(
        &mut self,
        pager: &Pager,
        work: &mut Workspace,
        parent: PageId,
        index: usize,
    ) -> Result<bool> {
        let count = pager.node(parent, work.bounds())?.count();
        let pairs = [(index + 1 < count).then_some((index, index + 1)), index.checked_sub(1).map(|left| (left, index))];
        for (left_index, right_index) in pairs.into_iter().flatten() {
            let node = pager.node(parent, work.bounds())?;
            let (left, right) = (node.child(left_index), node.child(right_index));
            let (left_node, right_node) = (pager.node(left, work.bounds())?, pager.node(right, work.bounds())?);
            let level = left_node.level();
            if level != right_node.level() {
                return Err(Error::Corrupted { page: right, reason: "it is at another level than its neighbour" });
            }
            if left_node.used_bytes() + right_node.used_bytes() > pager.page_size() * 3 / 2 {
                continue;
            }
            node.key_into(right_index, &mut work.key);
            let separator = std::mem::take(&mut work.key);
            let pair = Pair { left: left_node, right: right_node, separator: &separator };
            let bytes_max = pager.page_size() * 9 / 10;
            let fits = pair.bytes_merged(bytes_max) <= bytes_max;
            if fits {
                if !pair.is_ordered() {
                    return Err(Error::Corrupted { page: right, reason: "its keys are not above its neighbour's" });
                }
                let merged = work.take_node(pager, level)?;
                if merged == left || merged == right {
                    return Err(Error::Corrupted { page: merged, reason: "it is in use and was free" });
                }
                pair.write(pager.page_mut(merged));
                let entries = pager.node(merged, work.bounds())?.entries();
                let mut parent = NodeMut::new(pager.page_mut(parent));
                parent.set_child(left_index, merged);
                parent.set_child_count(left_index, entries);
                parent.remove(right_index);
                work.free(pager, left);
                self.drop_page(pager, work, right, level);
            }
            work.key = separator;
            if fits {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes everything between two bounds; how many entries that were.
    pub(crate) fn delete_range(
        &mut self,
        pager: &Pager,
        work: &mut Workspace,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
    ) -> Result<u64> {
        let count = self.count(pager, work.bounds(), low, high)?;
        if count == 0 {
            return Ok(0);
        }
        if count > self.entries {
            return Err(miscounted(self.root));
        }
        if count == self.entries {
            let entries = self.entries;
            self.clear(pager, work)?;
            return Ok(entries);
        }
        // For two edges to trim and to mend below, two pages a level each: nothing may be done if not all can.
        work.reserve(pager, 6 * self.depth + 2)?;
        // Reading what goes first: a damaged page is found before anything has changed.
        self.verify_range(pager, work, low, high)?;
        self.root = self.trim(pager, work, self.root, low, high)?;
        self.entries -= count;
        for bound in [low, high] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound
                && self.depth > 0
            {
                let (mut path, _) = self.descend(pager, work.bounds(), key)?;
                self.own_path(pager, work, &mut path)?;
                self.mend(pager, work, &mut path, true)?;
            }
        }
        Ok(count)
    }

    /// Verifies the pages that a range touches, and that they are a tree whose counts are right.
    fn verify_range(&self, pager: &Pager, work: &Workspace, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<()> {
        let mut pages_left = work.bounds().page_count;
        verify_subtree(pager, work.bounds(), self.root, self.depth, self.entries, low, high, &mut pages_left)
    }

    /// Cuts a range out of a subtree that keeps at least one entry; returns the page that takes its place.
    fn trim(
        &mut self,
        pager: &Pager,
        work: &mut Workspace,
        id: PageId,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
    ) -> Result<PageId> {
        let id = work.own(pager, id)?;
        let node = pager.node(id, work.bounds())?;
        let range = covered(node, low, high);
        for index in range.rev() {
            let node = pager.node(id, work.bounds())?;
            if node.is_leaf() {
                if let Payload::Large { page, bytes } = node.payload(index) {
                    self.free_large(pager, work, page, bytes);
                }
                NodeMut::new(pager.page_mut(id)).remove(index);
                continue;
            }
            let child = node.child(index);
            let subtree = Self {
                root: child,
                entries: node.child_count(index),
                depth: u32::from(node.level()),
                ..Self::default()
            };
            let gone = subtree.count(pager, work.bounds(), low, high)?;
            if gone > subtree.entries {
                return Err(miscounted(child));
            }
            if gone == subtree.entries {
                self.free_subtree(pager, work, child)?;
                NodeMut::new(pager.page_mut(id)).remove(index);
            } else if gone > 0 {
                let child = self.trim(pager, work, child, low, high)?;
                let mut node = NodeMut::new(pager.page_mut(id));
                node.set_child(index, child);
                node.set_child_count(index, subtree.entries - gone);
            }
        }
        Ok(id)
    }

    /// Gives up a subtree with everything in it.
    fn free_subtree(&mut self, pager: &Pager, work: &mut Workspace, id: PageId) -> Result<()> {
        let node = pager.node(id, work.bounds())?;
        let level = node.level();
        for index in 0..node.count() {
            match node.payload(index) {
                Payload::Child { page, .. } => self.free_subtree(pager, work, page)?,
                Payload::Large { page, bytes } => self.free_large(pager, work, page, bytes),
                Payload::Inline(_) => {}
            }
        }
        self.drop_page(pager, work, id, level);
        Ok(())
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self, pager: &Pager, work: &mut Workspace) -> Result<()> {
        if self.depth > 0 {
            self.verify_range(pager, work, Bound::Unbounded, Bound::Unbounded)?;
            self.free_subtree(pager, work, self.root)?;
        }
        *self = Self::default();
        Ok(())
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

/// Verifies what a range touches below a page: levels, counts, and that no page is below itself or below two others, which
/// would lead to more pages than the file has.
#[expect(clippy::too_many_arguments, reason = "the state of one recursion")]
fn verify_subtree(
    pager: &Pager,
    bounds: Bounds,
    id: PageId,
    levels: u32,
    entries: u64,
    low: Bound<&[u8]>,
    high: Bound<&[u8]>,
    pages_left: &mut u32,
) -> Result<()> {
    let node = pager.node(id, bounds)?;
    if u32::from(node.level()) + 1 != levels || *pages_left == 0 {
        return Err(Error::Corrupted { page: id, reason: "it is at another level than its tree says" });
    }
    *pages_left -= 1;
    if node.entries() != entries {
        return Err(miscounted(id));
    }
    if !node.is_leaf() {
        for index in covered(node, low, high) {
            let (child, count) = (node.child(index), node.child_count(index));
            verify_subtree(pager, bounds, child, levels - 1, count, low, high, pages_left)?;
        }
    }
    Ok(())
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

/// Builds a node over a fresh page from `count` entries; `first` and `last` are its outermost keys.
fn build(
    pager: &Pager,
    id: PageId,
    count: usize,
    first: &[u8],
    mut fill: impl FnMut(&mut Builder<'_>, usize),
    last: &[u8],
) {
    let prefix = &first[..common_prefix(first, last)];
    let mut builder = Builder::new(pager.page_mut(id), prefix, count);
    for index in 0..count {
        fill(&mut builder, index);
    }
    builder.finish();
}

//! Removing entries and ranges, and merging the pages that get too empty.

use smallvec::SmallVec;

use super::split::Pair;
use super::*;
use crate::log::record::Operation;

impl TreeMut<'_> {
    /// Removes an entry; `false` if there is none.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool> {
        if self.tree.depth == 0 {
            return Ok(false);
        }
        let (mut path, exists) = self.tree.descend(self.pager, self.work.bounds(), key)?;
        if !exists {
            return Ok(false);
        }
        let run_pages = self.copied_run(path[path.len() - 1].0)?;
        self.work.reserve_runs(self.pager, 2 * self.tree.depth + 2, run_pages)?;
        self.own_path(&mut path, (run_pages > 0).then_some(0))?;
        let (leaf, index) = path[path.len() - 1];
        if let Payload::Large { page, bytes } = self.node(leaf)?.payload(index) {
            self.free_large(page, bytes);
        }
        self.node_mut(leaf).remove(index);
        self.add_to_counts(&path, -1)?;
        self.rebalance(&mut path, false)?;
        Ok(true)
    }

    /// Removes those of some ascending keys that are there, and notes them in the log's record under
    /// the table's name. Gives how many there were. The entries of a leaf are removed together: one
    /// descent, one move of the slots, one change of the counts above.
    ///
    /// After an error the entries of some leaves may be gone.
    pub(crate) fn delete_sorted(&mut self, keys: &[&[u8]], name: &str) -> Result<u64> {
        let (mut rest, mut deleted) = (keys, 0);
        let mut places: SmallVec<[usize; 32]> = SmallVec::new();
        while let Some(first) = rest.first()
            && self.tree.depth > 0
        {
            let (mut path, _) = self.tree.descend(self.pager, self.work.bounds(), first)?;
            let (leaf, from) = path[path.len() - 1];
            let here;
            (here, rest) = rest.split_at(self.covered_by(&path, rest)?);
            let node = self.node(leaf)?;
            let mut from = from;
            places.clear();
            for key in here {
                match node.search_from(from, key) {
                    Ok(index) => {
                        places.push(index);
                        from = index + 1;
                        self.work.record.push(name, Operation::Delete(key));
                    }
                    Err(index) => from = index,
                }
            }
            if places.is_empty() {
                continue;
            }
            let run_pages = self.copied_run(leaf)?;
            self.work.reserve_runs(self.pager, 2 * self.tree.depth + 2, run_pages)?;
            self.own_path(&mut path, (run_pages > 0).then_some(0))?;
            let leaf = path[path.len() - 1].0;
            for &index in &places {
                if let Payload::Large { page, bytes } = self.node(leaf)?.payload(index) {
                    self.free_large(page, bytes);
                }
            }
            self.node_mut(leaf).remove_from_leaf(&places);
            self.add_to_counts(&path, -(places.len() as i64))?;
            self.rebalance(&mut path, false)?;
            deleted += places.len() as u64;
        }
        Ok(deleted)
    }

    /// How many of some ascending keys belong into the leaf at the end of a path to the first of
    /// them.
    fn covered_by(&mut self, path: &Path, keys: &[&[u8]]) -> Result<usize> {
        for &(id, index) in path[..path.len() - 1].iter().rev() {
            let node = self.node(id)?;
            if index + 1 < node.count() {
                node.key_into(index + 1, &mut self.work.key);
                let end = self.work.key.as_slice();
                return Ok(keys.iter().take_while(|key| **key < end).count().max(1));
            }
        }
        Ok(keys.len())
    }

    /// Removes empty pages and merges underfull ones along an owned path, from the leaf up: until a
    /// level needs no change, or, if `whole`, at every level.
    fn rebalance(&mut self, path: &mut Path, whole: bool) -> Result<()> {
        while path.len() > 1 {
            let (id, _) = path[path.len() - 1];
            let (parent, index) = path[path.len() - 2];
            self.narrow(id)?;
            let node = self.node(id)?;
            let level = node.level();
            if node.count() == 0 {
                self.node_mut(parent).remove(index);
                self.free_node(id, level);
            } else if self.is_underfull(node) {
                if !self.merge_with_neighbour(parent, index)? && !whole {
                    break;
                }
            } else if !whole {
                break;
            }
            path.pop();
        }
        // The root is empty, or a branch with one child.
        loop {
            let root = self.node(self.tree.root)?;
            let level = root.level();
            match root.count() {
                0 => {
                    self.free_node(self.tree.root, level);
                    self.tree.root = PageId::NONE;
                    self.tree.depth = 0;
                    return Ok(());
                }
                1 if level > 0 => {
                    let child = root.child(0);
                    self.free_node(self.tree.root, level);
                    self.tree.root = child;
                    self.tree.depth -= 1;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Whether a page is so empty that merging it with a neighbour is worth trying.
    fn is_underfull(&self, node: Node<'_>) -> bool {
        let used = node.used_bytes();
        used < width::bytes_full(used, node.count(), node.is_leaf(), self.pager.page_size()) / 3
    }

    /// Merges child `index` of an owned branch with a neighbour if both fit one page comfortably, or
    /// one leaf.
    fn merge_with_neighbour(&mut self, parent: PageId, index: usize) -> Result<bool> {
        let count = self.node(parent)?.count();
        let pairs = [(index + 1 < count).then_some((index, index + 1)), index.checked_sub(1).map(|left| (left, index))];
        for (left_index, right_index) in pairs.into_iter().flatten() {
            let node = self.node(parent)?;
            let (left, right) = (node.child(left_index), node.child(right_index));
            let (left_node, right_node) = (self.node(left)?, self.node(right)?);
            let level = left_node.level();
            if level != right_node.level() {
                return Err(Error::Corrupted { page: right, reason: "it is at another level than its neighbour" });
            }
            let (used, entries) =
                (left_node.used_bytes() + right_node.used_bytes(), left_node.count() + right_node.count());
            let full = width::bytes_full(used, entries, level == 0, self.pager.page_size());
            if used > full * 3 / 2 {
                continue;
            }
            node.key_into(right_index, &mut self.work.key);
            let separator = std::mem::take(&mut self.work.key);
            let pair = Pair { left: left_node, right: right_node, separator: &separator };
            let bytes_max = full * 9 / 10;
            let bytes = pair.bytes_merged(bytes_max);
            let mut fits = bytes <= bytes_max;
            if fits {
                if !pair.is_ordered() {
                    return Err(Error::Corrupted { page: right, reason: "its keys are not above its neighbour's" });
                }
                let pages = width::pages_for(bytes, self.pager.page_size());
                match self.allocate_merged(level, pages) {
                    Ok(merged) => {
                        let is_apart =
                            |node: Node<'_>, id: PageId| merged.0 >= id.0 + node.pages() || id.0 >= merged.0 + pages;
                        if !is_apart(left_node, left) || !is_apart(right_node, right) {
                            return Err(Error::Corrupted { page: merged, reason: "it is in use and was free" });
                        }
                        pair.write(self.pager.node_mut(merged));
                        let entries = self.node(merged)?.entries();
                        let mut parent = self.node_mut(parent);
                        parent.set_child(left_index, merged);
                        parent.set_child_count(left_index, entries);
                        parent.remove(right_index);
                        self.free_node(left, level);
                        self.free_node(right, level);
                    }
                    // There is no run. The leaves stay as they are, which is no error.
                    Err(Error::DiskFull { .. } | Error::DatabaseFull { .. }) if pages > 1 => fits = false,
                    Err(e) => return Err(e),
                }
            }
            self.work.key = separator;
            if fits {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn allocate_merged(&mut self, level: u8, pages: u32) -> Result<PageId> {
        if level == 0 {
            return self.allocate_leaf(pages);
        }
        let id = self.work.allocate_branch(self.pager, level)?;
        self.tree.branch_pages += 1;
        Ok(id)
    }

    /// Removes everything between two bounds; how many entries there were.
    pub(crate) fn delete_range(&mut self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<u64> {
        let count = self.tree.count(self.pager, self.work.bounds(), low, high)?;
        if count == 0 {
            return Ok(0);
        }
        if count > self.tree.entries {
            return Err(miscounted(self.tree.root));
        }
        if count == self.tree.entries {
            let entries = self.tree.entries;
            self.clear()?;
            return Ok(entries);
        }
        // For trimming and rebalancing at both edges, two pages per level each. If not all can be
        // allocated, nothing is done.
        let mut run_pages = 0;
        for bound in [low, high] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound {
                let (leaf, _) = self.tree.leaf(self.pager, self.work.bounds(), key)?;
                run_pages += self.copied_run(leaf)?;
            }
        }
        self.work.reserve_runs(self.pager, 6 * self.tree.depth + 2, run_pages)?;
        // Reads what will be removed, so that a damaged page is found before anything has changed.
        self.verify_range(low, high)?;
        self.tree.root = self.trim(self.tree.root, low, high)?;
        self.tree.entries -= count;
        for bound in [low, high] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound
                && self.tree.depth > 0
            {
                let (mut path, _) = self.tree.descend(self.pager, self.work.bounds(), key)?;
                let leaf = path[path.len() - 1].0;
                let run_pages = if self.work.is_owned(self.pager, leaf) { 0 } else { self.copied_run(leaf)? };
                // The leaf may be the neighbour of one that went. All is deleted by now, so if there
                // is no room for a copy, pages stay as empty as they are.
                if run_pages > 0 && self.work.reserve_runs(self.pager, 2 * self.tree.depth + 2, run_pages).is_err() {
                    continue;
                }
                self.own_path(&mut path, (run_pages > 0).then_some(0))?;
                self.rebalance(&mut path, true)?;
            }
        }
        Ok(count)
    }

    /// Verifies the pages that a range touches, and that they are a tree whose counts are right.
    fn verify_range(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<()> {
        let mut pages_left = self.work.bounds().page_count;
        verify_subtree(
            self.pager,
            self.work.bounds(),
            self.tree.root,
            self.tree.depth,
            self.tree.entries,
            low,
            high,
            &mut pages_left,
        )
    }

    /// Cuts a range out of a subtree that keeps at least one entry. Gives the page that takes its
    /// place.
    fn trim(&mut self, id: PageId, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<PageId> {
        let id = self.work.own(self.pager, id)?;
        let node = self.node(id)?;
        let range = covered(node, low, high);
        for index in range.rev() {
            let node = self.node(id)?;
            if node.is_leaf() {
                if let Payload::Large { page, bytes } = node.payload(index) {
                    self.free_large(page, bytes);
                }
                self.node_mut(id).remove(index);
                continue;
            }
            let child = node.child(index);
            let subtree = Tree {
                root: child,
                entries: node.child_count(index),
                depth: u32::from(node.level()),
                ..Tree::default()
            };
            let gone = subtree.count(self.pager, self.work.bounds(), low, high)?;
            if gone > subtree.entries {
                return Err(miscounted(child));
            }
            if gone == subtree.entries {
                self.free_subtree(child)?;
                self.node_mut(id).remove(index);
            } else if gone > 0 {
                let child = self.trim(child, low, high)?;
                let mut node = self.node_mut(id);
                node.set_child(index, child);
                node.set_child_count(index, subtree.entries - gone);
            }
        }
        self.narrow(id)?;
        Ok(id)
    }

    /// Frees a subtree with everything in it.
    fn free_subtree(&mut self, id: PageId) -> Result<()> {
        let node = self.node(id)?;
        let level = node.level();
        for index in 0..node.count() {
            match node.payload(index) {
                Payload::Child { page, .. } => self.free_subtree(page)?,
                Payload::Large { page, bytes } => self.free_large(page, bytes),
                Payload::Inline(_) => {}
            }
        }
        self.free_node(id, level);
        Ok(())
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) -> Result<()> {
        if self.tree.depth > 0 {
            self.verify_range(Bound::Unbounded, Bound::Unbounded)?;
            self.free_subtree(self.tree.root)?;
        }
        *self.tree = Tree::default();
        Ok(())
    }
}

/// Verifies what a range touches below a page: levels, counts, and that no page is reached twice,
/// which would lead to more pages than the file has.
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

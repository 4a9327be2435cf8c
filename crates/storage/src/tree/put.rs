//! Inserting and replacing entries.

use super::*;

/// What a put did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    Inserted,
    Replaced,
    /// Nothing: the entry exists, and the mode leaves it alone.
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

impl TreeMut<'_> {
    /// Puts an entry. The value is inline if it fits, else in pages of its own.
    ///
    /// If `difference` is given, it receives how the value differs from the one it replaces. It is
    /// left empty where the difference is not shorter than the value.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        mode: PutMode,
        mut difference: Option<&mut Vec<u8>>,
    ) -> Result<Put> {
        if let Some(difference) = &mut difference {
            difference.clear();
        }
        if self.tree.depth == 0 {
            let page_size = self.pager.page_size();
            let bytes_max = HEADER_BYTES + node::entry_bytes_max(key.len(), value.len(), page_size);
            let run_pages = if bytes_max > page_size { width::pages_for(bytes_max, page_size) } else { 0 };
            let payload = self.store(key, value, 1 + PAGES_SPARE, run_pages)?;
            let cell = node::cell_bytes(key.len(), key.len(), payload);
            let pages = width::pages_for(node::node_bytes(true, key.len(), 1, cell), page_size);
            let id = self.allocate_leaf(pages)?;
            let mut builder = Builder::new(self.pager.node_mut(id), key, 1);
            builder.push(key, payload);
            builder.finish();
            *self.tree = Tree { root: id, depth: 1, entries: 1, ..*self.tree };
            return Ok(Put::Inserted);
        }
        let near = self.near(key)?;
        let is_near = near.is_some();
        let (mut path, exists) = match near {
            Some(found) => found,
            None => self.tree.descend(self.pager, self.work.bounds(), key)?,
        };
        let (leaf, index) = path[path.len() - 1];
        match mode {
            PutMode::InsertOnly if exists => return Ok(Put::Exists),
            PutMode::Append => {
                let last = index == self.node(leaf)?.count() && self.is_last(&path)?;
                if exists || !last {
                    return Err(Error::KeyNotInOrder);
                }
            }
            _ => {}
        }
        let spare = if exists { 0 } else { PAGES_SPARE };
        let node = self.node(leaf)?;
        let mut added = node::entry_bytes_max(key.len(), value.len(), self.pager.page_size());
        let mut run_pages = self.run_pages(node, added);
        if run_pages > 0 {
            match exists {
                true => added = added.saturating_sub(node.cell_bytes(index, 0) + node.slot_bytes()),
                false => run_pages += RUN_PAGES_SPARE,
            }
        }
        let payload = self.store(key, value, 2 * self.tree.depth + 2 + spare, run_pages)?;
        if !is_near && let Err(e) = self.own_path(&mut path, (run_pages > 0).then_some(added)) {
            self.drop_payload(payload);
            return Err(e);
        }
        self.work.finger.clone_from(&path);
        let leaf = path[path.len() - 1].0;
        if exists {
            match self.node(leaf)?.payload(index) {
                Payload::Large { page, bytes } => self.free_large(page, bytes),
                Payload::Inline(old) => {
                    if let Some(difference) = difference {
                        difference::between(old, value, difference);
                    }
                }
                _ => {}
            }
            if self.node_mut(leaf).replace_value(index, payload) {
                return Ok(Put::Replaced);
            }
            self.node_mut(leaf).remove(index);
        } else {
            self.add_to_counts(&path, 1)?;
        }
        self.insert_at(&path, key, payload)?;
        Ok(if exists { Put::Replaced } else { Put::Inserted })
    }

    fn is_last(&self, path: &Path) -> Result<bool> {
        for &(id, index) in &path[..path.len() - 1] {
            if index + 1 != self.node(id)?.count() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Stores a value, and makes sure that `room` more pages can be allocated, and `run_pages` pages
    /// in runs.
    pub(super) fn store<'v>(&mut self, key: &[u8], value: &'v [u8], room: u32, run_pages: u32) -> Result<Payload<'v>> {
        if node::fits_inline(key.len(), value.len(), self.pager.page_size()) {
            self.work.reserve_runs(self.pager, room, run_pages)?;
            return Ok(Payload::Inline(value));
        }
        let page = self.work.allocate_large(self.pager, value)?;
        if let Err(e) = self.work.reserve_runs(self.pager, room, run_pages) {
            self.work.free(self.pager, page);
            return Err(e);
        }
        self.tree.overflow_pages += large_pages(self.pager, value.len() as u32);
        Ok(Payload::Large { page, bytes: value.len() as u32 })
    }

    /// Takes back what `store` stored.
    pub(super) fn drop_payload(&mut self, payload: Payload<'_>) {
        if let Payload::Large { page, bytes } = payload {
            self.free_large(page, bytes);
        }
    }

    /// Inserts at the end of a path that the transaction owns, splitting upwards as needed.
    fn insert_at(&mut self, path: &Path, key: &[u8], payload: Payload<'_>) -> Result<()> {
        let mut separator: Vec<u8> = Vec::new();
        let (mut left, mut right) = (PageId::NONE, PageId::NONE);
        for (level, &(id, index)) in path.iter().enumerate().rev() {
            let split = if level + 1 == path.len() {
                let last = self.is_last(path)?;
                let (leaf, split) = self.insert_into_leaf(id, index, key, payload, last)?;
                if leaf != id {
                    self.refer(path, level, leaf);
                }
                left = leaf;
                split
            } else {
                let left_count = self.node(left)?.entries();
                let right_count = self.node(right)?.entries();
                self.branch_mut(id).set_child_count(index, left_count);
                let payload = Payload::Child { page: right, count: right_count };
                left = id;
                self.insert_into_branch(id, index + 1, &separator, payload, false)?
            };
            let Some((up, beside)) = split else { return Ok(()) };
            separator = up;
            right = beside;
        }
        self.grow_root(&separator, right)
    }

    pub(super) fn grow_root(&mut self, separator: &[u8], right: PageId) -> Result<()> {
        let left = self.tree.root;
        let left_count = self.node(left)?.entries();
        let right_count = self.node(right)?.entries();
        let root = self.work.allocate_branch(self.pager, self.tree.depth as u8)?;
        let mut builder = Builder::new(self.pager.page_mut(root), separator, 2);
        builder.push(&[], Payload::Child { page: left, count: left_count });
        builder.push(separator, Payload::Child { page: right, count: right_count });
        builder.finish();
        self.tree.root = root;
        self.tree.depth += 1;
        self.tree.branch_pages += 1;
        Ok(())
    }

    /// The path to a key that belongs between two entries of the leaf written to last, and whether
    /// it is there. Keys are often written in ascending order, so the next one often goes into the
    /// same leaf.
    fn near(&mut self, key: &[u8]) -> Result<Option<(Path, bool)>> {
        if self.work.finger.first().is_none_or(|&(root, _)| root != self.tree.root) {
            return Ok(None);
        }
        let Some(&(leaf, _)) = self.work.finger.last() else { return Ok(None) };
        let node = self.node(leaf)?;
        let (index, exists) = match node.search(key) {
            Ok(index) => (index, true),
            Err(index) if index > 0 && index < node.count() => (index, false),
            // It may belong into the leaf beside this one.
            Err(_) => return Ok(None),
        };
        let mut path = std::mem::take(&mut self.work.finger);
        if let Some(last) = path.last_mut() {
            last.1 = index;
        }
        Ok(Some((path, exists)))
    }
}

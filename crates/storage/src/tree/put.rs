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
            let payload = self.store(key, value, 1 + PAGES_SPARE)?;
            let id = self.work.allocate_node(self.pager, 0)?;
            build(self.pager, id, 1, key, |builder, _| builder.push(key, payload), key);
            *self.tree = Tree { root: id, depth: 1, entries: 1, leaf_pages: 1, ..*self.tree };
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
        let payload = self.store(key, value, 2 * self.tree.depth + 2 + spare)?;
        if !is_near {
            self.own_path(&mut path)?;
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

    /// Stores a value, and makes sure that `room` more pages can be allocated.
    pub(super) fn store<'v>(&mut self, key: &[u8], value: &'v [u8], room: u32) -> Result<Payload<'v>> {
        if node::fits_inline(key.len(), value.len(), self.pager.page_size()) {
            self.work.reserve(self.pager, room)?;
            return Ok(Payload::Inline(value));
        }
        let page = self.work.allocate_large(self.pager, value)?;
        if let Err(e) = self.work.reserve(self.pager, room) {
            self.work.free(self.pager, page);
            return Err(e);
        }
        self.tree.overflow_pages += large_pages(self.pager, value.len() as u32);
        Ok(Payload::Large { page, bytes: value.len() as u32 })
    }

    /// Inserts at the end of a path that the transaction owns, splitting upwards as needed.
    fn insert_at(&mut self, path: &Path, key: &[u8], payload: Payload<'_>) -> Result<()> {
        let mut separator: Vec<u8> = Vec::new();
        let mut child = PageId::NONE;
        for (level, &(id, index)) in path.iter().enumerate().rev() {
            let at_leaf = level + 1 == path.len();
            let split = if at_leaf {
                let last = self.is_last(path)?;
                self.insert_or_split(id, index, key, payload, last)?
            } else {
                let (below, _) = path[level + 1];
                let left_count = self.node(below)?.entries();
                let right_count = self.node(child)?.entries();
                self.node_mut(id).set_child_count(index, left_count);
                let payload = Payload::Child { page: child, count: right_count };
                self.insert_or_split(id, index + 1, &separator, payload, false)?
            };
            let Some((up, right)) = split else { return Ok(()) };
            if at_leaf {
                self.tree.leaf_pages += 1;
            } else {
                self.tree.branch_pages += 1;
            }
            separator = up;
            child = right;
        }
        self.grow_root(&separator, child)
    }

    pub(super) fn grow_root(&mut self, separator: &[u8], right: PageId) -> Result<()> {
        let left = self.tree.root;
        let left_count = self.node(left)?.entries();
        let right_count = self.node(right)?.entries();
        let root = self.work.allocate_node(self.pager, self.tree.depth as u8)?;
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

//! Appending in order: what loads sorted entries.

use super::*;

/// Appends ascending entries. Keeps the rightmost page of every level at hand and leaves full pages
/// behind.
pub(crate) struct Appender<'t> {
    edit: TreeMut<'t>,
    /// The rightmost pages, leaf first; the transaction owns all of them.
    spine: Vec<PageId>,
    last_key: Vec<u8>,
}

impl<'t> Appender<'t> {
    pub(crate) fn new(mut edit: TreeMut<'t>) -> Result<Self> {
        let mut spine = Vec::new();
        let mut last_key = Vec::new();
        if edit.tree.depth > 0 {
            let mut path = Path::new();
            let mut id = edit.tree.root;
            let mut levels = edit.tree.depth;
            loop {
                let node = edit.node(id)?;
                path.push((id, node.count() - 1));
                if node.is_leaf() {
                    edit.tree.at_bottom(levels)?;
                    node.key_into(node.count() - 1, &mut last_key);
                    break;
                }
                id = node.child(node.count() - 1);
                levels = below(levels, id)?;
            }
            let run_pages = edit.copied_run(path[path.len() - 1].0)?;
            edit.work.reserve_runs(edit.pager, edit.tree.depth + 2, run_pages)?;
            edit.own_path(&mut path, (run_pages > 0).then_some(0))?;
            spine.extend(path.iter().rev().map(|step| step.0));
        }
        Ok(Self { edit, spine, last_key })
    }

    /// The transaction's workspace.
    pub(crate) fn work(&mut self) -> &mut Workspace {
        self.edit.work
    }

    /// Appends one entry.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.edit.tree.depth == 0 {
            self.edit.put(key, value, PutMode::Append, None)?;
            self.spine.push(self.edit.tree.root);
            self.last_key.extend_from_slice(key);
            return Ok(());
        }
        if key <= self.last_key.as_slice() {
            return Err(Error::KeyNotInOrder);
        }
        let room = 2 * self.edit.tree.depth + 2 + PAGES_SPARE;
        let leaf = self.spine[0];
        let node = self.edit.node(leaf)?;
        let index = node.count();
        let added = node::entry_bytes_max(key.len(), value.len(), self.edit.pager.page_size());
        let mut run_pages = self.edit.run_pages(node, added);
        if run_pages > 0 {
            run_pages += RUN_PAGES_SPARE;
        }
        let payload = self.edit.store(key, value, room, run_pages)?;
        let (wide, split) = self.edit.insert_into_leaf(leaf, index, key, payload, true)?;
        if wide != leaf {
            self.spine[0] = wide;
            match self.spine.get(1) {
                Some(&parent) => {
                    let last = self.edit.node(parent)?.count() - 1;
                    self.edit.node_mut(parent).set_child(last, wide);
                }
                None => self.edit.tree.root = wide,
            }
        }
        self.edit.tree.entries += 1;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        if let Some((separator, right)) = split {
            self.grow(0, separator, right)?;
        }
        Ok(())
    }

    /// Hangs a new rightmost page of a level into the level above.
    fn grow(&mut self, level: usize, separator: Vec<u8>, right: PageId) -> Result<()> {
        let left = std::mem::replace(&mut self.spine[level], right);
        let right_count = self.edit.node(right)?.entries();
        if level + 1 == self.spine.len() {
            self.edit.tree.root = left;
            self.edit.grow_root(&separator, right)?;
            self.spine.push(self.edit.tree.root);
            return Ok(());
        }
        let parent = self.spine[level + 1];
        let index = self.edit.node(parent)?.count();
        let left_count = self.edit.node(left)?.entries();
        self.edit.node_mut(parent).set_child_count(index - 1, left_count);
        let payload = Payload::Child { page: right, count: right_count };
        if let Some((separator, right)) = self.edit.insert_into_branch(parent, index, &separator, payload, true)? {
            self.grow(level + 1, separator, right)?;
        }
        Ok(())
    }

    /// Brings the counts along the right edge up to date; how many entries the tree has. Must be
    /// called, also after an error of `push`.
    pub(crate) fn finish(mut self) -> Result<u64> {
        for pair in self.spine.windows(2) {
            let entries = self.edit.node(pair[0])?.entries();
            let last = self.edit.node(pair[1])?.count() - 1;
            self.edit.node_mut(pair[1]).set_child_count(last, entries);
        }
        Ok(self.edit.tree.entries)
    }
}

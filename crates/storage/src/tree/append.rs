//! Appending in order: what loads sorted entries.

use super::*;

/// Appends ascending entries, keeping the rightmost page of every level at hand and leaving full pages behind.
pub(crate) struct Appender<'t> {
    tree: &'t mut Tree,
    /// The rightmost pages, leaf first; all owned.
    spine: Vec<PageId>,
    last_key: Vec<u8>,
}

impl<'t> Appender<'t> {
    pub(crate) fn new(tree: &'t mut Tree, pager: &Pager, work: &mut Workspace) -> Result<Self> {
        let mut spine = Vec::new();
        let mut last_key = Vec::new();
        if tree.depth > 0 {
            work.reserve(pager, tree.depth + 2)?;
            let mut path = Path::new();
            let mut id = tree.root;
            let mut levels = tree.depth;
            loop {
                let node = pager.node(id, work.bounds())?;
                path.push((id, node.count() - 1));
                if node.is_leaf() {
                    tree.at_bottom(levels)?;
                    node.key_into(node.count() - 1, &mut last_key);
                    break;
                }
                id = node.child(node.count() - 1);
                levels = below(levels, id)?;
            }
            tree.own_path(pager, work, &mut path)?;
            spine.extend(path.iter().rev().map(|step| step.0));
        }
        Ok(Self { tree, spine, last_key })
    }

    /// Appends one entry.
    pub(crate) fn push(&mut self, pager: &Pager, work: &mut Workspace, key: &[u8], value: &[u8]) -> Result<()> {
        if self.tree.depth == 0 {
            self.tree.put(pager, work, key, value, PutMode::Append)?;
            self.spine.push(self.tree.root);
            self.last_key.extend_from_slice(key);
            return Ok(());
        }
        if key <= self.last_key.as_slice() {
            return Err(Error::KeyNotInOrder);
        }
        let room = 2 * self.tree.depth + 2 + PAGES_SPARE;
        let payload = self.tree.store(pager, work, key, value, room)?;
        let leaf = self.spine[0];
        let index = pager.node(leaf, work.bounds())?.count();
        let split = insert_or_split(pager, work, leaf, index, key, payload, true)?;
        self.tree.entries += 1;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        if let Some((separator, right)) = split {
            self.tree.leaf_pages += 1;
            self.grow(pager, work, 0, separator, right)?;
        }
        Ok(())
    }

    /// Hangs a new rightmost page of a level into the level above.
    fn grow(
        &mut self,
        pager: &Pager,
        work: &mut Workspace,
        level: usize,
        separator: Vec<u8>,
        right: PageId,
    ) -> Result<()> {
        let left = std::mem::replace(&mut self.spine[level], right);
        let right_count = pager.node(right, work.bounds())?.entries();
        if level + 1 == self.spine.len() {
            self.tree.root = left;
            self.tree.grow_root(pager, work, &separator, right)?;
            self.spine.push(self.tree.root);
            return Ok(());
        }
        let parent = self.spine[level + 1];
        let index = pager.node(parent, work.bounds())?.count();
        let left_count = pager.node(left, work.bounds())?.entries();
        NodeMut::new(pager.page_mut(parent)).set_child_count(index - 1, left_count);
        let payload = Payload::Child { page: right, count: right_count };
        if let Some((separator, right)) = insert_or_split(pager, work, parent, index, &separator, payload, true)? {
            self.tree.branch_pages += 1;
            self.grow(pager, work, level + 1, separator, right)?;
        }
        Ok(())
    }

    /// Brings the counts along the right edge up to date. Must be called, also after an error of `push`.
    pub(crate) fn finish(self, pager: &Pager, work: &mut Workspace) -> Result<()> {
        for pair in self.spine.windows(2) {
            let entries = pager.node(pair[0], work.bounds())?.entries();
            let last = pager.node(pair[1], work.bounds())?.count() - 1;
            NodeMut::new(pager.page_mut(pair[1])).set_child_count(last, entries);
        }
        Ok(())
    }
}

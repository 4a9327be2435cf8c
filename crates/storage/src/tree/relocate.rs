//! Moving pages to lower places of the file, for compaction: a change that changes no entry.

use super::*;

/// What is to be moved, and what was.
pub(crate) struct Relocation {
    /// Pages from here on are to be moved.
    pub(crate) limit: u32,
    /// About so many pages may still be copied in this transaction.
    pub(crate) budget: u64,
    /// Pages that were copied to a lower place.
    pub(crate) moved: u64,
    /// Nothing lower is free any more.
    pub(crate) out_of_room: bool,
}

impl Relocation {
    pub(crate) fn is_over(&self) -> bool {
        self.budget == 0 || self.out_of_room
    }

    /// Notes that a run was copied from one place to another.
    fn note(&mut self, from: PageId, to: PageId, pages: u64) {
        self.budget = self.budget.saturating_sub(pages);
        // What is copied only because a page below it is may go to and fro.
        if from.0 >= self.limit && to < from {
            self.moved += pages;
        }
    }
}

impl TreeMut<'_> {
    /// Moves pages of the tree, from the leaf of a key on, until the relocation is over. Gives the
    /// key to go on at, or `None` at the tree's end.
    ///
    /// Pages that a fork reaches stay where they are: a copy would free nothing. So does what has
    /// no free run of its length before it.
    pub(crate) fn relocate(&mut self, from: &[u8], relocation: &mut Relocation) -> Result<Option<Vec<u8>>> {
        let mut key = from.to_vec();
        while self.tree.depth > 0 {
            let (mut path, next) = self.branches_to(&key)?;
            if !self.relocate_below(&mut path, relocation)? {
                return Ok(Some(key));
            }
            let Some(next) = next else { break };
            if relocation.is_over() {
                return Ok(Some(next));
            }
            key = next;
        }
        Ok(None)
    }

    /// The branches on the way to the leaf of a key, and the first key behind the lowest of them.
    fn branches_to(&self, key: &[u8]) -> Result<(Path, Option<Vec<u8>>)> {
        let (mut path, mut next) = (Path::new(), None);
        let (mut id, mut levels) = (self.tree.root, self.tree.depth);
        while levels > 1 {
            let node = self.node(id)?;
            if u32::from(node.level()) + 1 != levels {
                return Err(corrupted(id, "it is at another level than its tree says"));
            }
            let index = node.child_index(key);
            path.push((id, index));
            if levels > 2 && index + 1 < node.count() {
                let mut separator = Vec::new();
                node.key_into(index + 1, &mut separator);
                next = Some(separator);
            }
            id = node.child(index);
            levels = below(levels, id)?;
        }
        Ok((path, next))
    }

    /// Moves branches, the leaves below the last of them, and the large values of these. `false`
    /// if the relocation was over before the last leaf.
    fn relocate_below(&mut self, path: &mut Path, relocation: &mut Relocation) -> Result<bool> {
        let limit = relocation.limit;
        let leaves: SmallVec<[PageId; 64]> = match path.last() {
            None => SmallVec::from_slice(&[self.tree.root]),
            Some(&(branch, _)) => {
                let node = self.node(branch)?;
                (0..node.count()).map(|index| node.child(index)).collect()
            }
        };
        let has_large = self.tree.overflow_pages > 0;
        let far_branches = path.iter().filter(|(id, _)| self.is_far(*id, 1, limit)).count();
        let any = |id: &PageId| Ok(self.is_far(*id, 1, limit) || has_large && !self.far_values(*id, limit)?.is_empty());
        let far: Result<SmallVec<[bool; 64]>> = leaves.iter().map(any).collect();
        let far = far?;
        if far_branches == 0 && !far.contains(&true) {
            return Ok(true);
        }
        self.work.reserve(self.pager, 2 * self.tree.depth + 2)?;
        if !self.work.space.has_room_before(1, limit) {
            relocation.out_of_room = true;
            return Ok(false);
        }
        let before = path.clone();
        self.own_path(path, None)?;
        for (&(from, _), &(to, _)) in before.iter().zip(path.iter()).filter(|((from, _), (to, _))| from != to) {
            relocation.note(from, to, 1);
        }
        for index in (0..leaves.len()).filter(|&index| far[index]) {
            if let Some(last) = path.last_mut() {
                last.1 = index;
            }
            if relocation.is_over() {
                return Ok(false);
            }
            self.relocate_leaf(path, leaves[index], relocation)?;
        }
        Ok(true)
    }

    /// Moves a leaf below an owned path, and its large values.
    fn relocate_leaf(&mut self, path: &Path, leaf: PageId, relocation: &mut Relocation) -> Result<()> {
        let limit = relocation.limit;
        let pages = self.node(leaf)?.pages();
        let values = match self.tree.overflow_pages {
            0 => Vec::new(),
            _ => self.far_values(leaf, limit)?,
        };
        let has_room = self.work.space.has_room_before(pages, leaf.0);
        if !has_room && pages == 1 && values.is_empty() {
            relocation.out_of_room = true;
        }
        // A leaf is copied where there is room, or for the values that it refers to.
        let movable = values.iter().any(|&(_, page, bytes)| self.has_room_for(page, bytes));
        if !(has_room && self.is_far(leaf, pages, limit) || movable) {
            return Ok(());
        }
        self.work.reserve_runs(self.pager, 1, if pages > 1 { pages } else { 0 })?;
        let copy = self.work.own(self.pager, leaf)?;
        if copy != leaf {
            self.refer(path, path.len(), copy);
            relocation.note(leaf, copy, pages.into());
        }
        for (index, page, bytes) in values {
            if !self.has_room_for(page, bytes) {
                continue;
            }
            let value = self.pager.large(page, bytes, self.work.bounds())?;
            let moved = self.work.allocate_large(self.pager, value)?;
            if !self.node_mut(copy).replace_value(index, Payload::Large { page: moved, bytes }) {
                return Err(corrupted(copy, "a reference to a large value has no room in its own place"));
            }
            let pages = large_pages(self.pager, bytes);
            self.work.free_large(self.pager, page, pages as u32, bytes);
            // A long one may begin before the limit.
            relocation.note(page.max(PageId(limit)), moved, pages);
        }
        Ok(())
    }

    /// Whether a run is to be moved, and may be.
    fn is_far(&self, id: PageId, pages: u32, limit: u32) -> bool {
        u64::from(id.0) + u64::from(pages) > u64::from(limit)
            && id.0 < self.work.bounds().page_count
            && self.work.is_freed_when_given_up(self.pager.birth(id))
    }

    /// The large values of a leaf that are to be moved: which entry, where, and how many bytes.
    fn far_values(&self, leaf: PageId, limit: u32) -> Result<Vec<(usize, PageId, u32)>> {
        let node = self.node(leaf)?;
        let value = |index| match node.payload(index) {
            Payload::Large { page, bytes } => Some((index, page, bytes)),
            _ => None,
        };
        let is_far = |page, bytes| self.is_far(page, large_pages(self.pager, bytes) as u32, limit);
        Ok((0..node.count()).filter_map(value).filter(|&(_, page, bytes)| is_far(page, bytes)).collect())
    }

    fn has_room_for(&mut self, page: PageId, bytes: u32) -> bool {
        let pages = large_pages(self.pager, bytes) as u32;
        self.work.space.has_room_before(pages, page.0)
    }
}

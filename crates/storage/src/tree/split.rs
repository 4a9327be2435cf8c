//! One page becoming two, and two becoming one: which entries go where, and what separates them.
//!
//! ```text
//! | a b c d |  + x   ─►  | a b | c x d |     separator: the shortest that is above b and not above c
//! | a b |  | d |     ─►  | a b d |           of branches, the separator comes down as the key of d
//! ```
//!
//! Not here: which pages are split and merged, and what follows from that further up (`tree`).

use super::*;

/// A prefix that becomes longer is padded, and shortens no cell whose key has no more bytes: so many
/// bytes more may a node take.
const PREFIX_SLACK: usize = 8;

/// What separates a page from the new one on its right, and that one.
type Split = Option<(Vec<u8>, PageId)>;

impl TreeMut<'_> {
    /// Inserts into an owned leaf, widens it, or splits it. Gives the page that it begins with now. A
    /// split gives the separator and the new right neighbour. `last`: the leaf is at the tree's right
    /// edge, so that an entry behind all others leaves it full.
    pub(super) fn insert_into_leaf(
        &mut self,
        id: PageId,
        index: usize,
        key: &[u8],
        payload: Payload<'_>,
        last: bool,
    ) -> Result<(PageId, Split)> {
        let mut node = self.node_mut(id);
        let mut fit = node.insert(index, key, payload);
        if fit == Fit::Done && !node.is_wide() {
            return Ok((id, None));
        }
        if fit == Fit::Gather {
            fit = self.insert_or_gather(id, index, key, payload);
        }
        if fit == Fit::Done {
            // The entry may be in place of a longer one.
            self.narrow(id)?;
            return Ok((id, None));
        }
        let page_size = self.pager.page_size();
        let node = self.node(id)?;
        let last = last && index == node.count();
        if fit == Fit::Full {
            let cell = node::cell_bytes(key.len(), node.prefix().len(), payload);
            let bytes = node.used_bytes() + cell + node.slot_bytes();
            let pages = width::pages_for(bytes, page_size);
            if pages <= widest(node, bytes, page_size, last) {
                let id = self.widen(id, pages)?;
                let fit = self.insert_or_gather(id, index, key, payload);
                assert_eq!(fit, Fit::Done, "a leaf was widened for this entry");
                return Ok((id, None));
            }
        }
        let mut scratch = std::mem::take(&mut self.work.scratch[0]);
        scratch.clear();
        scratch.extend_from_slice(node.bytes());
        let grown = Grown { node: Node::new(&scratch), index, key, payload };
        let (cut, [left, right]) = match fit {
            Fit::Rebuild => {
                let bytes = grown.bytes(0..grown.count());
                let pages = width::pages_for(bytes, page_size);
                // Cells get longer with a shorter prefix. More pages than were reserved for this
                // change are not to be had.
                let value_len = match payload {
                    Payload::Inline(value) => value.len(),
                    Payload::Large { bytes, .. } => bytes as usize,
                    Payload::Child { .. } => 0,
                };
                let added = node::entry_bytes_max(key.len(), value_len, page_size);
                let fits = pages <= grown.node.pages()
                    || pages <= widest(grown.node, bytes, page_size, last)
                        && 2 * pages <= self.run_pages(grown.node, added);
                // Only a key at either end can shorten the prefix. Alone on its side, it leaves the
                // others their prefix.
                let alone = if index + 1 == grown.count() { index } else { index + 1 };
                if fits { (None, [bytes, 0]) } else { (Some(alone), grown.sides(alone)) }
            }
            _ if last => (Some(index), grown.sides(index)),
            _ => match grown.cut() {
                (cut, Some(sides)) if sides.iter().all(|side| side + PREFIX_SLACK <= page_size) => (Some(cut), sides),
                (cut, _) => (Some(cut), grown.sides(cut)),
            },
        };
        let pages = [left, right].map(|bytes| width::pages_for(bytes, page_size));
        let result = self.write_leaves(id, &grown, cut, pages);
        self.work.scratch[0] = scratch;
        result
    }

    /// Writes the entries of a leaf that is about to grow, to it or to it and a new one, which have
    /// `pages` pages.
    fn write_leaves(
        &mut self,
        id: PageId,
        grown: &Grown<'_>,
        cut: Option<usize>,
        pages: [u32; 2],
    ) -> Result<(PageId, Split)> {
        let end = cut.unwrap_or(grown.count());
        let mut split = None;
        if let Some(cut) = cut {
            let mut separator = Vec::new();
            grown.key_into(cut, &mut separator);
            let mut left_last = Vec::new();
            grown.key_into(cut - 1, &mut left_last);
            let shared = common_prefix(&left_last, &separator);
            separator.truncate(shared + 1);
            let right = self.allocate_leaf(pages[1])?;
            grown.write(self.pager.node_mut(right), cut..grown.count());
            split = Some((separator, right));
        }
        if end == grown.node.count() && grown.index == end {
            // The left one keeps its entries as they are.
            self.narrow(id)?;
            return Ok((id, split));
        }
        let id = self.replace_leaf(id, pages[0])?;
        grown.write(self.pager.node_mut(id), 0..end);
        Ok((id, split))
    }

    /// Inserts into an owned branch, or splits it.
    pub(super) fn insert_into_branch(
        &mut self,
        id: PageId,
        index: usize,
        key: &[u8],
        payload: Payload<'_>,
        last: bool,
    ) -> Result<Split> {
        let fit = self.insert_or_gather(id, index, key, payload);
        if fit == Fit::Done {
            return Ok(None);
        }
        let mut scratch = std::mem::take(&mut self.work.scratch[0]);
        scratch.clear();
        scratch.extend_from_slice(self.node(id)?.bytes());
        let node = Node::new(&scratch);
        let grown = Grown { node, index, key, payload };
        let all = 0..grown.count();
        let cut = if fit == Fit::Rebuild {
            // Only a key at either end can shorten the prefix. Alone on its side, it leaves the
            // others their prefix.
            let alone = if index + 1 == grown.count() { index } else { index + 1 };
            (grown.bytes(all.clone()) > self.pager.page_size()).then_some(alone)
        } else {
            Some(if last && index + 1 == grown.count() { index } else { grown.cut().0 })
        };
        let result = match cut {
            None => {
                grown.write(self.pager.page_mut(id), all);
                None
            }
            Some(cut) => {
                let right = self.work.allocate_branch(self.pager, node.level())?;
                self.tree.branch_pages += 1;
                let mut separator = Vec::new();
                grown.key_into(cut, &mut separator);
                grown.write(self.pager.page_mut(right), cut..grown.count());
                if cut < node.count() || index < cut {
                    grown.write(self.pager.page_mut(id), 0..cut);
                }
                Some((separator, right))
            }
        };
        self.work.scratch[0] = scratch;
        Ok(result)
    }

    /// Inserts into an owned page if there is room for it, gathering dead bytes if need be.
    fn insert_or_gather(&mut self, id: PageId, index: usize, key: &[u8], payload: Payload<'_>) -> Fit {
        let fit = self.node_mut(id).insert(index, key, payload);
        if fit != Fit::Gather {
            return fit;
        }
        self.node_mut(id).gather(&mut self.work.scratch[0]);
        self.node_mut(id).insert(index, key, payload)
    }
}

/// The most pages that a leaf may have once it has one more entry, and `bytes` bytes. An only entry
/// has as many as it needs.
fn widest(node: Node<'_>, bytes: usize, page_size: usize, last: bool) -> u32 {
    if node.count() == 0 {
        return u32::MAX;
    }
    width::pages_max(bytes / (node.count() + 1), page_size, last).max(node.pages())
}

/// A node with one more entry than it has.
struct Grown<'a> {
    node: Node<'a>,
    index: usize,
    key: &'a [u8],
    payload: Payload<'a>,
}

impl Grown<'_> {
    fn count(&self) -> usize {
        self.node.count() + 1
    }

    fn key_into(&self, index: usize, out: &mut Vec<u8>) {
        match index.cmp(&self.index) {
            std::cmp::Ordering::Less => self.node.key_into(index, out),
            std::cmp::Ordering::Equal => {
                out.clear();
                out.extend_from_slice(self.key);
            }
            std::cmp::Ordering::Greater => self.node.key_into(index - 1, out),
        }
    }

    fn payload(&self, index: usize) -> Payload<'_> {
        match index.cmp(&self.index) {
            std::cmp::Ordering::Less => self.node.payload(index),
            std::cmp::Ordering::Equal => self.payload,
            std::cmp::Ordering::Greater => self.node.payload(index - 1),
        }
    }

    /// The common prefix of the entries in a range, into `out`.
    fn prefix_into(&self, range: std::ops::Range<usize>, out: &mut Vec<u8>) {
        out.clear();
        if range.start < range.end {
            let mut last = Vec::new();
            self.key_into(range.start, out);
            self.key_into(range.end - 1, &mut last);
            out.truncate(common_prefix(out, &last));
        }
    }

    fn cell_bytes(&self, index: usize, prefix_len: usize) -> usize {
        match index.cmp(&self.index) {
            std::cmp::Ordering::Less => self.node.cell_bytes(index, prefix_len),
            std::cmp::Ordering::Equal => node::cell_bytes(self.key.len(), prefix_len, self.payload),
            std::cmp::Ordering::Greater => self.node.cell_bytes(index - 1, prefix_len),
        }
    }

    /// Bytes of a node with the entries of a range.
    fn bytes(&self, range: std::ops::Range<usize>) -> usize {
        let is_headless = !self.node.is_leaf();
        let mut prefix = Vec::new();
        self.prefix_into(range.start + usize::from(is_headless)..range.end, &mut prefix);
        let count = range.len();
        let with_cells = range.start + usize::from(is_headless && range.start > 0)..range.end;
        let cells = with_cells.map(|index| self.cell_bytes(index, prefix.len())).sum();
        node::node_bytes(self.node.is_leaf(), prefix.len(), count, cells)
    }

    /// Writes the entries of a range to a page, the first without its key if the node is a branch.
    fn write(&self, page: &mut [u8], range: std::ops::Range<usize>) {
        let headless = !self.node.is_leaf();
        let mut prefix = Vec::new();
        self.prefix_into(range.start + usize::from(headless)..range.end, &mut prefix);
        let mut key = Vec::new();
        let mut builder = Builder::new(page, &prefix, range.len());
        for index in range.clone() {
            self.key_into(index, &mut key);
            if headless && index == range.start {
                key.clear();
            }
            builder.push(&key, self.payload(index));
        }
        builder.finish();
    }

    /// Where to cut: in the middle. But where keys are written in ascending order at the end of the
    /// page or near it, before the new entry: the left page is full then and stays so, while a cut
    /// in the middle would leave it half empty for good.
    /// Gives also the bytes on both sides, as far as they are known: see [`Grown::middle`].
    fn cut(&self) -> (usize, Option<[usize; 2]>) {
        let (middle, sides) = self.middle();
        let is_run = self.node.is_leaf() && self.index > middle && self.node.ends_run(self.index - 1);
        if is_run { (self.index, None) } else { (middle, Some(sides)) }
    }

    /// Bytes of the nodes on both sides of a cut.
    fn sides(&self, cut: usize) -> [usize; 2] {
        [self.bytes(0..cut), self.bytes(cut..self.count())]
    }

    /// Where to cut so that both sides hold about the same bytes; and the bytes on both sides with
    /// the prefix of all, which a longer prefix hardly makes more ([`PREFIX_SLACK`]).
    fn middle(&self) -> (usize, [usize; 2]) {
        let prefix_len = self.node.prefix().len();
        let cells: usize = (0..self.count()).map(|index| self.cell_bytes(index, prefix_len)).sum();
        let total = node::node_bytes(self.node.is_leaf(), prefix_len, self.count(), cells);
        let fixed = total - cells - self.count() * self.node.slot_bytes();
        let (mut left, mut index) = (0, 0);
        while index + 1 < self.count() {
            let size = self.cell_bytes(index, prefix_len) + self.node.slot_bytes();
            // The entry that crosses the middle goes to the side that is smaller with it.
            if left + size / 2 >= total / 2 && index > 0 {
                break;
            }
            left += size;
            index += 1;
        }
        (index, [fixed + left, total - left])
    }
}

/// Two neighbours and the separator between them.
pub(super) struct Pair<'a> {
    pub(super) left: Node<'a>,
    pub(super) right: Node<'a>,
    pub(super) separator: &'a [u8],
}

impl Pair<'_> {
    fn count(&self) -> usize {
        self.left.count() + self.right.count()
    }

    fn key_into(&self, index: usize, out: &mut Vec<u8>) {
        let headless = !self.left.is_leaf();
        match index.checked_sub(self.left.count()) {
            None if headless && index == 0 => out.clear(),
            None => self.left.key_into(index, out),
            Some(0) if headless => {
                out.clear();
                out.extend_from_slice(self.separator);
            }
            Some(index) => self.right.key_into(index, out),
        }
    }

    fn payload(&self, index: usize) -> Payload<'_> {
        match index.checked_sub(self.left.count()) {
            None => self.left.payload(index),
            Some(index) => self.right.payload(index),
        }
    }

    /// Whether the separator is above all keys of the left node and not above any of the right one.
    pub(super) fn is_ordered(&self) -> bool {
        let first_with_key = usize::from(!self.left.is_leaf());
        let (mut last, mut first) = (Vec::new(), Vec::new());
        let left = (self.left.count() > first_with_key).then(|| self.left.key_into(self.left.count() - 1, &mut last));
        let right = (self.right.count() > first_with_key).then(|| self.right.key_into(first_with_key, &mut first));
        left.is_none_or(|()| last.as_slice() < self.separator)
            && right.is_none_or(|()| first.as_slice() >= self.separator)
    }

    fn prefix(&self) -> Vec<u8> {
        let first_with_key = usize::from(!self.left.is_leaf());
        let (mut first, mut last) = (Vec::new(), Vec::new());
        self.key_into(first_with_key, &mut first);
        self.key_into(self.count() - 1, &mut last);
        first.truncate(common_prefix(&first, &last));
        first
    }

    /// Bytes of a node with the entries of both. If that is more than `bytes_max`, the result may
    /// be too small, but is more than `bytes_max`.
    pub(super) fn bytes_merged(&self, bytes_max: usize) -> usize {
        let prefix_len = self.prefix().len();
        // With a shorter prefix no cell gets smaller. This estimate mostly shows that there is no
        // room, which matters to a caller that deletes entry by entry.
        if self.left.prefix().len() >= prefix_len && self.right.prefix().len() >= prefix_len {
            let cells = self.left.cells_bytes() + self.right.cells_bytes();
            let least = node::node_bytes(self.left.is_leaf(), prefix_len, self.count(), cells);
            if least > bytes_max {
                return least;
            }
        }
        let left: usize = (0..self.left.count()).map(|index| self.left.cell_bytes(index, prefix_len)).sum();
        let right: usize = (0..self.right.count()).map(|index| self.right.cell_bytes(index, prefix_len)).sum();
        // The separator comes down as the key of the right branch's first child.
        let cells = left + right + if self.left.is_leaf() { 0 } else { self.separator.len() + 2 };
        node::node_bytes(self.left.is_leaf(), prefix_len, self.count(), cells)
    }

    pub(super) fn write(&self, page: &mut [u8]) {
        let prefix = self.prefix();
        let mut key = Vec::new();
        let mut builder = Builder::new(page, &prefix, self.count());
        for index in 0..self.count() {
            self.key_into(index, &mut key);
            builder.push(&key, self.payload(index));
        }
        builder.finish();
    }
}

//! Reading a table: point reads, ranges, counts and ranks, as of one snapshot or inside a write
//! transaction.

use std::borrow::Cow;
use std::ops::{Bound, Deref, RangeBounds};

use crate::catalog::{Table, TableKind};
use crate::composite;
use crate::cursor::{Cursor, RawCursor};
use crate::node::Key;
use crate::page::PageId;
use crate::pager::{Bounds, Pager};
use crate::root::Tree;
use crate::{Error, Result};

/// A value as iterators give it: a reference into the map, or, in tables with many values a key, a
/// copy.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// Bytes in the map.
    Mapped(&'a [u8]),
    /// Bytes put together from a tree key.
    Copied(Key),
}

impl Deref for Value<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Value<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq<[u8]> for Value<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for Value<'_> {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

/// Size and shape of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStat {
    /// What the entries are.
    pub kind: TableKind,
    /// Entries: keys, or pairs of key and value where a key has many.
    pub entries: u64,
    /// Levels of the tree, 0 when empty.
    pub depth: u32,
    /// Pages with entries.
    pub leaf_pages: u64,
    /// Pages above the leaves.
    pub branch_pages: u64,
    /// Pages with large values.
    pub overflow_pages: u64,
}

/// A table as one snapshot, or one write transaction, sees it.
#[derive(Clone)]
pub struct View<'a> {
    pub(crate) pager: &'a Pager,
    pub(crate) bounds: Bounds,
    pub(crate) tree: Tree,
    pub(crate) table: Table,
}

impl<'a> View<'a> {
    /// The table.
    #[inline]
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// How many entries the table has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.tree.entries
    }

    /// Whether the table has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key, in place. Not for tables with many values a key: they have
    /// [`View::values`].
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<&'a [u8]>> {
        get(self.pager, self.bounds, &self.tree, &self.table, key)
    }

    /// Whether the key is there.
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        if self.table.kind() == TableKind::Multi {
            return Ok(self.count((Bound::Included(key), Bound::Included(key)))? > 0);
        }
        Ok(self.tree.get(self.pager, self.bounds, key)?.is_some())
    }

    /// Whether the key has this value, in a table with many values a key.
    pub fn contains_value(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.table.expect_kind(&[TableKind::Multi], "contains_value")?;
        Ok(self.tree.get(self.pager, self.bounds, &composite::encode(key, value))?.is_some())
    }

    /// A cursor, not yet on an entry.
    #[must_use]
    pub fn cursor(&self) -> Cursor<'a> {
        Cursor::new(self.raw_cursor(), self.table.kind())
    }

    fn raw_cursor(&self) -> RawCursor<'a> {
        RawCursor::new(self.pager, self.bounds, self.tree)
    }

    /// The entries whose keys lie in a range, from either end.
    pub fn range<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<Range<'a>> {
        let (low, high) = tree_bounds(self.table.kind(), &range);
        self.tree_range(low.as_ref().map(|key| &**key), high.as_ref().map(|key| &**key))
    }

    fn tree_range(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<Range<'a>> {
        let left = self.tree.count(self.pager, self.bounds, low, high)?;
        let mut front = self.raw_cursor();
        let mut back = self.raw_cursor();
        if left > 0 {
            match low {
                Bound::Unbounded => front.first()?,
                Bound::Included(key) => front.seek(key)?,
                Bound::Excluded(key) => front.seek_after(key)?,
            };
            match high {
                Bound::Unbounded => back.last()?,
                Bound::Included(key) => back.seek_at_or_before(key)?,
                Bound::Excluded(key) => back.seek_before(key)?,
            };
        }
        Ok(Range { front, back, left, started: (false, false), kind: self.table.kind(), key: Vec::new() })
    }

    /// All values of a key, in order, in a table with many values a key.
    pub fn values(&self, key: &[u8]) -> Result<Range<'a>> {
        self.table.expect_kind(&[TableKind::Multi], "values")?;
        self.tree_range(Bound::Included(&composite::first_of(key)), Bound::Excluded(&composite::after(key)))
    }

    /// How many entries lie in a range of keys, exactly, in O(log n).
    pub fn count<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<u64> {
        let (low, high) = tree_bounds(self.table.kind(), &range);
        self.tree.count(self.pager, self.bounds, low.as_ref().map(|key| &**key), high.as_ref().map(|key| &**key))
    }

    /// How many entries have a smaller key, in O(log n).
    pub fn rank(&self, key: &[u8]) -> Result<u64> {
        self.count((Bound::Unbounded, Bound::Excluded(key)))
    }

    /// The entry with `index` entries before it, in O(log n).
    pub fn nth(&self, index: u64) -> Result<Option<(Key, Value<'a>)>> {
        let mut cursor = self.raw_cursor();
        if !cursor.nth(index)? {
            return Ok(None);
        }
        item(&mut cursor, self.table.kind(), &mut Vec::new()).map(Some)
    }

    /// Size and shape of the table.
    #[must_use]
    pub fn stat(&self) -> TableStat {
        TableStat {
            kind: self.table.kind(),
            entries: self.tree.entries,
            depth: self.tree.depth,
            leaf_pages: self.tree.leaf_pages,
            branch_pages: self.tree.branch_pages,
            overflow_pages: self.tree.overflow_pages,
        }
    }
}

/// The value of a key.
#[inline]
pub(crate) fn get<'a>(
    pager: &'a Pager,
    bounds: Bounds,
    tree: &Tree,
    table: &Table,
    key: &[u8],
) -> Result<Option<&'a [u8]>> {
    table.expect_kind(&[TableKind::Plain, TableKind::Integer], "get")?;
    match tree.get(pager, bounds, key)? {
        None => Ok(None),
        Some(payload) => pager.value(bounds, payload).map(Some),
    }
}

/// The value of a key that is in this leaf. `None` does not mean that the tree lacks the key.
#[inline]
pub(crate) fn get_in<'a>(pager: &'a Pager, bounds: Bounds, leaf: PageId, key: &[u8]) -> Result<Option<&'a [u8]>> {
    let node = pager.node(leaf, bounds)?;
    match node.search(key) {
        Ok(index) => pager.value(bounds, node.payload(index)).map(Some),
        Err(_) => Ok(None),
    }
}

type TreeBound<'k> = Bound<Cow<'k, [u8]>>;

/// The bounds in the tree that stand for bounds on keys.
pub(crate) fn tree_bounds<'k>(kind: TableKind, range: &impl RangeBounds<&'k [u8]>) -> (TreeBound<'k>, TreeBound<'k>) {
    let (low, high) = (range.start_bound().cloned(), range.end_bound().cloned());
    if kind != TableKind::Multi {
        return (low.map(Cow::Borrowed), high.map(Cow::Borrowed));
    }
    let low = match low {
        Bound::Included(key) => Bound::Included(Cow::Owned(composite::first_of(key))),
        Bound::Excluded(key) => Bound::Included(Cow::Owned(composite::after(key))),
        Bound::Unbounded => Bound::Unbounded,
    };
    let high = match high {
        Bound::Included(key) => Bound::Excluded(Cow::Owned(composite::after(key))),
        Bound::Excluded(key) => Bound::Excluded(Cow::Owned(composite::first_of(key))),
        Bound::Unbounded => Bound::Unbounded,
    };
    (low, high)
}

fn item<'a>(cursor: &mut RawCursor<'a>, kind: TableKind, scratch: &mut Vec<u8>) -> Result<(Key, Value<'a>)> {
    if kind == TableKind::Multi {
        let at = cursor.split_composite(scratch)?;
        return Ok((Key::from_slice(scratch), Value::Copied(Key::from_slice(&cursor.key()[at..]))));
    }
    Ok((Key::from_slice(cursor.key()), Value::Mapped(cursor.value()?)))
}

/// The entries of a range, in order; reversible.
pub struct Range<'a> {
    front: RawCursor<'a>,
    back: RawCursor<'a>,
    /// Entries not given yet, counted when the range was made, so that the two ends never cross.
    left: u64,
    started: (bool, bool),
    kind: TableKind,
    key: Vec<u8>,
}

impl<'a> Range<'a> {
    fn step(&mut self, forward: bool) -> Option<Result<(Key, Value<'a>)>> {
        if self.left == 0 {
            return None;
        }
        let (cursor, started) =
            if forward { (&mut self.front, &mut self.started.0) } else { (&mut self.back, &mut self.started.1) };
        let moved = match std::mem::replace(started, true) {
            false => Ok(cursor.is_valid()),
            true if forward => cursor.next(),
            true => cursor.prev(),
        };
        self.left -= 1;
        let result = match moved {
            Ok(true) => item(cursor, self.kind, &mut self.key),
            Ok(false) => Err(Error::Corrupted {
                page: self.front.page(),
                reason: "a subtree has fewer entries than its branch says",
            }),
            Err(e) => Err(e),
        };
        if result.is_err() {
            self.left = 0;
        }
        Some(result)
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = Result<(Key, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(true)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, usize::try_from(self.left).ok())
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(false)
    }
}

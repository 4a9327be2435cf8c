//! What a transaction has read: keys and ranges, with the columns that mattered.
//!
//! Reads stand in one list in their order, so that taking back a statement cuts off the end of the
//! list. Three things keep the list short: a read that repeats the last one in its space is merged
//! with it, a range that touches the last one extends it, and very many reads in a space become one
//! range that covers them.
//!
//! Invariants:
//! 1. What was read is covered, with at least the columns read, until it is cut off.
//! 2. Nothing is merged across the *barrier*, the length of the list at the last savepoint. So
//!    cutting off there leaves exactly what was read before the savepoint.

use std::cell::Cell;
use std::ops::Bound;

use smallvec::SmallVec;

use crate::columns::ColumnSet;
use crate::store::{Key, KeyRange, Space, SpaceId};

/// When the list gets this long, spaces with very many reads are merged.
const READS_MAX: usize = 4096;
/// A space has very many reads if it has this many in a list of that length.
const SPACE_READS_MAX: usize = READS_MAX / 2;

/// A key or range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Covered {
    Point(Key),
    Range(Box<KeyRange>),
}

/// Something read.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    /// Index into [`ReadSet::spaces`].
    pub(crate) space: u32,
    pub(crate) columns: ColumnSet,
    pub(crate) covered: Covered,
}

struct SpaceReads {
    space: Space,
    /// One more than the index of the space's last read; 0 if that may not be changed.
    last: usize,
}

/// What a fork of a transaction has read: see [`crate::Transaction::fork`].
pub struct ForkReads {
    pub(crate) reads: ReadSet,
    pub(crate) blind: Option<SpaceId>,
}

/// Everything read.
#[derive(Default)]
pub(crate) struct ReadSet {
    reads: Vec<Read>,
    spaces: SmallVec<[SpaceReads; 4]>,
    /// The length of the list at the last savepoint: as [`ReadSet::mark`] gave it, and as it is now
    /// that reads before the savepoint were merged.
    barrier: Cell<(usize, usize)>,
    /// The length of the list at which spaces are merged again, if that is more than [`READS_MAX`].
    merge_at: usize,
}

impl ReadSet {
    pub(crate) fn reads(&self) -> &[Read] {
        &self.reads
    }

    pub(crate) fn space(&self, index: u32) -> &Space {
        &self.spaces[index as usize].space
    }

    pub(crate) fn spaces_count(&self) -> usize {
        self.spaces.len()
    }

    /// The length of the list, for [`ReadSet::cut`]. Sets the barrier.
    pub(crate) fn mark(&self) -> usize {
        self.barrier.set((self.reads.len(), self.reads.len()));
        self.reads.len()
    }

    /// Forgets what was read since a mark. If spaces were merged since an older mark than the last,
    /// some of what was read since that mark may stay.
    pub(crate) fn cut(&mut self, mark: usize) {
        let (told, is) = self.barrier.get();
        let len = if mark == told { is } else { mark };
        self.reads.truncate(len);
        let len = self.reads.len();
        for space in &mut self.spaces {
            if space.last > len {
                space.last = 0;
            }
        }
        if is > len {
            self.barrier.set((len, len));
        }
    }

    /// Empties the set for the next transaction, and gives its memory back.
    pub(crate) fn renew(&mut self) {
        if self.reads.capacity() > 0 || !self.spaces.is_empty() {
            *self = Self::default();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.reads.clear();
        self.spaces.clear();
        self.barrier.set((0, 0));
    }

    /// Adds what another set has.
    pub(crate) fn add(&mut self, other: Self) {
        for read in other.reads {
            let space = &other.spaces[read.space as usize].space;
            match read.covered {
                Covered::Point(key) => self.point(space, &key, read.columns),
                Covered::Range(range) => self.range(space, *range, read.columns),
            }
        }
    }

    fn space_index(&mut self, space: &Space) -> usize {
        if let Some(index) = self.spaces.iter().position(|known| known.space.id == space.id) {
            return index;
        }
        self.spaces.push(SpaceReads { space: space.clone(), last: 0 });
        self.spaces.len() - 1
    }

    /// The last read in a space, if it lies behind the barrier.
    fn last_of(&mut self, index: usize) -> Option<&mut Read> {
        let last = self.spaces[index].last.checked_sub(1)?;
        if last < self.barrier.get().1 { None } else { self.reads.get_mut(last) }
    }

    pub(crate) fn point(&mut self, space: &Space, key: &[u8], columns: ColumnSet) {
        let index = self.space_index(space);
        if let Some(last) = self.last_of(index) {
            match &last.covered {
                Covered::Point(known) if known.as_slice() == key => {
                    last.columns = last.columns.union(columns);
                    return;
                }
                Covered::Range(range) if last.columns.contains(columns) && range.contains(key) => return,
                _ => {}
            }
        }
        self.push(index, columns, Covered::Point(Key::from_slice(key)));
    }

    pub(crate) fn range(&mut self, space: &Space, range: KeyRange, columns: ColumnSet) {
        if range.is_empty() {
            return;
        }
        if let (Bound::Included(low), Bound::Included(high)) = (&range.low, &range.high)
            && low == high
        {
            return self.point(space, low, columns);
        }
        let index = self.space_index(space);
        if let Some(Read { columns: known, covered: Covered::Range(last), .. }) = self.last_of(index) {
            if **last == range {
                *known = known.union(columns);
                return;
            }
            if *known == columns && last.touches(&range) {
                last.extend(&range);
                return;
            }
        }
        self.push(index, columns, Covered::Range(Box::new(range)));
    }

    fn push(&mut self, index: usize, columns: ColumnSet, covered: Covered) {
        self.reads.push(Read { space: index as u32, columns, covered });
        self.spaces[index].last = self.reads.len();
        if self.reads.len() >= self.merge_at.max(READS_MAX) {
            self.merge();
        }
    }

    /// Makes one range of the reads of each space that has very many, before the barrier and behind
    /// it.
    fn merge(&mut self) {
        let (told, is) = self.barrier.get();
        let mut before = std::mem::take(&mut self.reads);
        let behind = before.split_off(is.min(before.len()));
        self.reads = self.merged(before);
        self.barrier.set((told, self.reads.len()));
        let behind = self.merged(behind);
        self.reads.extend(behind);
        self.merge_at = 2 * self.reads.len();
        for space in &mut self.spaces {
            space.last = 0;
        }
    }

    fn merged(&self, reads: Vec<Read>) -> Vec<Read> {
        let mut counts = vec![0; self.spaces.len()];
        for read in &reads {
            counts[read.space as usize] += 1;
        }
        let mut covers: Vec<Option<(KeyRange, ColumnSet)>> = vec![None; self.spaces.len()];
        let mut kept = Vec::new();
        for read in reads {
            if counts[read.space as usize] < SPACE_READS_MAX {
                kept.push(read);
                continue;
            }
            let range = match read.covered {
                Covered::Point(key) => KeyRange { low: Bound::Included(key.clone()), high: Bound::Included(key) },
                Covered::Range(range) => *range,
            };
            match &mut covers[read.space as usize] {
                Some((cover, columns)) => {
                    cover.extend(&range);
                    *columns = columns.union(read.columns);
                }
                cover => *cover = Some((range, read.columns)),
            }
        }
        let cover = |(space, cover): (usize, Option<(KeyRange, ColumnSet)>)| {
            let (range, columns) = cover?;
            Some(Read { space: space as u32, columns, covered: Covered::Range(Box::new(range)) })
        };
        kept.extend(covers.into_iter().enumerate().filter_map(cover));
        kept
    }

    /// The columns of a key that were read; `None` if the key was not read at all.
    pub(crate) fn columns_of(&self, space: SpaceId, key: &[u8]) -> Option<ColumnSet> {
        let index = self.spaces.iter().position(|known| known.space.id == space)? as u32;
        let of_key = |read: &&Read| {
            read.space == index
                && match &read.covered {
                    Covered::Point(known) => known.as_slice() == key,
                    Covered::Range(range) => range.contains(key),
                }
        };
        self.reads.iter().filter(of_key).map(|read| read.columns).reduce(ColumnSet::union)
    }
}

impl KeyRange {
    /// All keys.
    #[must_use]
    pub fn all() -> Self {
        Self { low: Bound::Unbounded, high: Bound::Unbounded }
    }

    /// Whether a key lies in the range.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        let above = match &self.low {
            Bound::Unbounded => true,
            Bound::Included(low) => key >= low.as_slice(),
            Bound::Excluded(low) => key > low.as_slice(),
        };
        above
            && match &self.high {
                Bound::Unbounded => true,
                Bound::Included(high) => key <= high.as_slice(),
                Bound::Excluded(high) => key < high.as_slice(),
            }
    }

    /// Whether no key can lie in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match (&self.low, &self.high) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(low), Bound::Included(high)) => low > high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
        }
    }

    /// The bounds as slices.
    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.low.as_ref().map(Key::as_slice), self.high.as_ref().map(Key::as_slice))
    }

    /// Whether both ranges have keys in common, or no key lies between them.
    pub(crate) fn touches(&self, other: &Self) -> bool {
        reaches(&self.high, &other.low) && reaches(&other.high, &self.low)
    }

    /// Makes the range the smallest one that also covers `other`.
    fn extend(&mut self, other: &Self) {
        if starts_before(&other.low, &self.low) {
            self.low = other.low.clone();
        }
        if ends_behind(&other.high, &self.high) {
            self.high = other.high.clone();
        }
    }
}

/// Whether no key lies behind one range's end and before another's start.
fn reaches(high: &Bound<Key>, low: &Bound<Key>) -> bool {
    match (high, low) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Excluded(high), Bound::Excluded(low)) => low < high,
        (Bound::Included(high) | Bound::Excluded(high), Bound::Included(low) | Bound::Excluded(low)) => low <= high,
    }
}

fn starts_before(a: &Bound<Key>, b: &Bound<Key>) -> bool {
    match (a, b) {
        (_, Bound::Unbounded) => false,
        (Bound::Unbounded, _) => true,
        (Bound::Included(a), Bound::Excluded(b)) => a <= b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a < b,
    }
}

fn ends_behind(a: &Bound<Key>, b: &Bound<Key>) -> bool {
    match (a, b) {
        (_, Bound::Unbounded) => false,
        (Bound::Unbounded, _) => true,
        (Bound::Included(a), Bound::Excluded(b)) => a >= b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a > b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Key {
        Key::from_slice(&n.to_be_bytes())
    }

    fn span(low: u32, high: u32) -> KeyRange {
        KeyRange { low: Bound::Included(key(low)), high: Bound::Excluded(key(high)) }
    }

    #[test]
    fn pages_of_a_scan_are_one_range() {
        let (mut reads, space) = (ReadSet::default(), Space::new(SpaceId(1)));
        for page in 0..100 {
            let (low, high) = (Bound::Excluded(key(page)), Bound::Included(key(page + 1)));
            reads.range(&space, KeyRange { low, high }, ColumnSet::ALL);
        }
        assert_eq!(reads.reads().len(), 1);
        assert!(reads.columns_of(space.id, &key(50)).is_some());
        assert!(reads.columns_of(space.id, &key(0)).is_none());
        assert!(reads.columns_of(space.id, &key(101)).is_none());
    }

    #[test]
    fn ranges_with_a_key_between_them_stay_two() {
        let (mut reads, space) = (ReadSet::default(), Space::new(SpaceId(1)));
        let low = KeyRange { low: Bound::Unbounded, high: Bound::Excluded(key(5)) };
        let high = KeyRange { low: Bound::Excluded(key(5)), high: Bound::Unbounded };
        reads.range(&space, low, ColumnSet::NONE);
        reads.range(&space, high, ColumnSet::NONE);
        assert_eq!(reads.reads().len(), 2);
        assert!(reads.columns_of(space.id, &key(5)).is_none());
    }

    #[test]
    fn many_points_become_one_range_and_a_savepoint_still_holds() {
        let (mut reads, space, other) = (ReadSet::default(), Space::new(SpaceId(1)), Space::new(SpaceId(2)));
        for n in 0..3000 {
            reads.point(&space, &key(2 * n), ColumnSet::one(1));
        }
        reads.point(&other, &key(7), ColumnSet::one(2));
        let mark = reads.mark();
        for n in 0..20_000 {
            reads.point(&other, &key(10 + 2 * n), ColumnSet::one(3));
        }
        assert!(reads.reads().len() < READS_MAX + 10, "{} reads", reads.reads().len());
        assert_eq!(reads.columns_of(space.id, &key(1)), Some(ColumnSet::one(1)), "between two points of many");
        reads.cut(mark);
        assert_eq!(reads.columns_of(other.id, &key(10)), None);
        assert_eq!(reads.columns_of(other.id, &key(7)), Some(ColumnSet::one(2)));
        assert_eq!(reads.columns_of(space.id, &key(5998)), Some(ColumnSet::one(1)));
    }

    #[test]
    fn nothing_is_merged_across_a_savepoint() {
        let (mut reads, space) = (ReadSet::default(), Space::new(SpaceId(1)));
        reads.range(&space, span(0, 10), ColumnSet::NONE);
        reads.point(&space, &key(20), ColumnSet::one(1));
        let mark = reads.mark();
        reads.point(&space, &key(20), ColumnSet::one(2));
        reads.range(&space, span(10, 20), ColumnSet::NONE);
        reads.cut(mark);
        assert_eq!(reads.columns_of(space.id, &key(20)), Some(ColumnSet::one(1)));
        assert_eq!(reads.columns_of(space.id, &key(15)), None);
    }
}

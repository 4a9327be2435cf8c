//! Scans that merge stored entries with a transaction's own changes, in either direction.
//!
//! Invariant: of two entries with the same key, the transaction's own is seen.

use std::cmp::Ordering;
use std::ops::Bound;

use colibri_storage::{Cursor, View};

use crate::error::Result;
use crate::store::{Direction, Key, KeyRange, Visit};
use crate::writes::{SpaceWrites, Write};

/// A place among entries in the order of a scan.
pub(crate) trait Entries {
    /// The key, unless there are no more entries.
    fn key(&self) -> Option<&[u8]>;
    fn value(&self) -> Result<&[u8]>;
    fn advance(&mut self) -> Result<()>;
}

/// A copy of the entry at the place.
pub(crate) fn first_entry(entries: &impl Entries) -> Result<Option<(Key, Vec<u8>)>> {
    let Some(key) = entries.key() else { return Ok(None) };
    Ok(Some((Key::from_slice(key), entries.value()?.to_vec())))
}

/// Entries in the storage.
pub(crate) struct Stored<'a> {
    cursor: Cursor<'a>,
    range: &'a KeyRange,
    direction: Direction,
    valid: bool,
}

impl<'a> Stored<'a> {
    pub(crate) fn new(view: &View<'a>, range: &'a KeyRange, direction: Direction) -> Result<Self> {
        let mut cursor = view.cursor();
        let valid = match direction {
            Direction::Forward => match &range.low {
                Bound::Unbounded => cursor.first()?,
                Bound::Included(low) => cursor.seek(low)?,
                Bound::Excluded(low) => {
                    if cursor.seek(low)? && cursor.key() == low.as_slice() {
                        cursor.next()?
                    } else {
                        cursor.is_valid()
                    }
                }
            },
            Direction::Backward => match &range.high {
                Bound::Unbounded => cursor.last()?,
                Bound::Excluded(high) => cursor.seek_before(high)?,
                Bound::Included(high) => {
                    if cursor.seek(high)? && cursor.key() == high.as_slice() {
                        true
                    } else {
                        cursor.seek_before(high)?
                    }
                }
            },
        };
        let mut stored = Self { cursor, range, direction, valid };
        stored.arrive(valid);
        Ok(stored)
    }

    fn arrive(&mut self, valid: bool) {
        self.valid = valid && {
            let key = self.cursor.key();
            match (self.direction, &self.range.low, &self.range.high) {
                (Direction::Forward, _, Bound::Unbounded) | (Direction::Backward, Bound::Unbounded, _) => true,
                (Direction::Forward, _, Bound::Included(high)) => key <= high.as_slice(),
                (Direction::Forward, _, Bound::Excluded(high)) => key < high.as_slice(),
                (Direction::Backward, Bound::Included(low), _) => key >= low.as_slice(),
                (Direction::Backward, Bound::Excluded(low), _) => key > low.as_slice(),
            }
        };
    }
}

impl Entries for Stored<'_> {
    fn key(&self) -> Option<&[u8]> {
        self.valid.then(|| self.cursor.key())
    }

    fn value(&self) -> Result<&[u8]> {
        Ok(self.cursor.value()?)
    }

    fn advance(&mut self) -> Result<()> {
        let valid = match self.direction {
            Direction::Forward => self.cursor.next()?,
            Direction::Backward => self.cursor.prev()?,
        };
        self.arrive(valid);
        Ok(())
    }
}

/// The entries that a space made by the transaction was filled with.
pub(crate) struct Loaded<'a> {
    /// The remaining ones.
    entries: &'a [(Key, Vec<u8>)],
    direction: Direction,
}

impl<'a> Loaded<'a> {
    pub(crate) fn new(entries: &'a [(Key, Vec<u8>)], range: &KeyRange, direction: Direction) -> Self {
        Self { entries: slice_of(entries, range), direction }
    }

    fn entry(&self) -> Option<&'a (Key, Vec<u8>)> {
        match self.direction {
            Direction::Forward => self.entries.first(),
            Direction::Backward => self.entries.last(),
        }
    }
}

/// The part of sorted entries that lies in a range.
pub(crate) fn slice_of<'a>(entries: &'a [(Key, Vec<u8>)], range: &KeyRange) -> &'a [(Key, Vec<u8>)] {
    let from = match &range.low {
        Bound::Unbounded => 0,
        Bound::Included(low) => entries.partition_point(|(key, _)| key < low),
        Bound::Excluded(low) => entries.partition_point(|(key, _)| key <= low),
    };
    let to = match &range.high {
        Bound::Unbounded => entries.len(),
        Bound::Included(high) => entries.partition_point(|(key, _)| key <= high),
        Bound::Excluded(high) => entries.partition_point(|(key, _)| key < high),
    };
    entries.get(from..to).unwrap_or_default()
}

impl Entries for Loaded<'_> {
    fn key(&self) -> Option<&[u8]> {
        self.entry().map(|(key, _)| key.as_slice())
    }

    fn value(&self) -> Result<&[u8]> {
        Ok(self.entry().map_or(&[], |(_, value)| value))
    }

    fn advance(&mut self) -> Result<()> {
        self.entries = match self.direction {
            Direction::Forward => self.entries.split_first().map_or(&[], |(_, rest)| rest),
            Direction::Backward => self.entries.split_last().map_or(&[], |(_, rest)| rest),
        };
        Ok(())
    }
}

/// Visits the entries of a range with a transaction's own changes. Gives the key at which the
/// visitor broke off.
pub(crate) fn scan(
    mut base: impl Entries,
    own: Option<&SpaceWrites>,
    range: &KeyRange,
    direction: Direction,
    visit: &mut Visit<'_>,
) -> Result<Option<Key>> {
    let mut own = own.map(|own| own.in_range(range)).into_iter().flatten();
    let mut next = || match direction {
        Direction::Forward => own.next(),
        Direction::Backward => own.next_back(),
    };
    let mut change: Option<(&[u8], &Write)> = next();
    loop {
        let order = match (base.key(), change) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(stored), Some((key, _))) => match direction {
                Direction::Forward => stored.cmp(key),
                Direction::Backward => key.cmp(stored),
            },
        };
        if order == Ordering::Less {
            let key = base.key().unwrap_or_default();
            if visit(key, base.value()?).is_break() {
                return Ok(Some(Key::from_slice(key)));
            }
            base.advance()?;
            continue;
        }
        if order == Ordering::Equal {
            base.advance()?;
        }
        if let Some((key, write)) = change {
            if let Some(value) = write.value()
                && visit(key, value).is_break()
            {
                return Ok(Some(Key::from_slice(key)));
            }
            change = next();
        }
    }
}

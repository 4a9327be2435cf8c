//! Rows that are found by indexes and looked up in the order of their own keys: by any of several
//! (`a = 1 OR b = 2`) or by all of them (`a = 1 AND b = 2`).
//!
//! The keys of the rows are gathered from the indexes first, sorted, and each kept once; then the
//! rows are looked up. Those that are near each other are looked up one after the other, so that
//! each page is visited once. The condition is asked again of each row, so what is gathered may be
//! too much, never too little: if the keys outgrow the statement's memory, all of the table is read
//! instead. Where all indexes have to find a row, those that are left are not asked then.

use std::ops::ControlFlow;

use colibri_catalog::{Index, Table, record, store_error::InSql as _};
use colibri_txn::{ColumnSet, Direction, Key};
use colibri_types::{Error, Result, pulse};
use smallvec::SmallVec;

use super::inverted::{Asked, Search};
use super::memory::{Reservation, Use};
use super::ranges::{Ranges, key_ranges, rest};
use super::{Exec, merge_sort};
use crate::plan::Access;

/// The most entries that one call of [`colibri_txn::Transaction::scan`] visits.
pub(super) const VISITED_MAX: usize = 4096;

/// Keys that are being gathered.
#[derive(Default)]
pub(super) struct Gather {
    /// Which of the accesses is at work.
    part: usize,
    ranges: Option<Ranges>,
    /// How many ranges of it were visited to their ends.
    done: usize,
    /// The last entry visited of the range at hand.
    last: Option<Key>,
    keys: Keys,
    /// Where all indexes have to find a row: the keys that those before have found, sorted.
    found: Option<Keys>,
    /// The tokens that are being looked for.
    search: Option<Search>,
    /// For the keys, as long as they are looked up.
    memory: Reservation,
}

impl Gather {
    /// Goes on. Nothing while the budget is used up; in the end the keys.
    ///
    /// # Errors
    /// Of the transaction, and of evaluating what keys are compared with.
    pub(super) fn step(
        &mut self,
        table: &Table,
        (parts, by_all): (&[Access], bool),
        ex: &mut Exec<'_, '_>,
    ) -> Result<Option<Ranges>> {
        while let Some(part) = parts.get(self.part) {
            if ex.cx.budget_rows <= 0 {
                return Ok(None);
            }
            match self.go_on(table, part, ex)? {
                Progress::Some => {}
                Progress::Over => {
                    self.next_part();
                    if by_all {
                        self.keep_common()?;
                    }
                }
                // It says nothing, and so leaves what the others find.
                Progress::Useless if by_all => self.next_part(),
                Progress::Useless => return Ok(Some(self.everything())),
            }
            if self.found.as_ref().is_some_and(Keys::is_empty) {
                break;
            }
            let bytes = self.keys.bytes()
                + self.found.as_ref().map_or(0, Keys::bytes)
                + self.search.as_ref().map_or(0, Search::bytes);
            if !self.memory.hold(ex.cx.memory, bytes, Use::Rows) {
                (self.keys, self.search) = (Keys::default(), None);
                if self.found.is_some() {
                    break;
                }
                return Ok(Some(self.everything()));
            }
            ex.check_cancel()?;
        }
        let keys = match self.found.take() {
            Some(found) => found,
            None if by_all => return Ok(Some(self.everything())),
            None => std::mem::take(&mut self.keys).sorted()?,
        };
        Ok(Some(Ranges::Points(keys.unpacked())))
    }

    fn next_part(&mut self) {
        self.part += 1;
        (self.ranges, self.done) = (None, 0);
    }

    /// All of the table instead.
    fn everything(&mut self) -> Ranges {
        (self.keys, self.search) = (Keys::default(), None);
        self.memory.release();
        Ranges::Spans(SmallVec::from_iter([record::whole_range()]))
    }

    /// Takes some keys of a part.
    fn go_on(&mut self, table: &Table, part: &Access, ex: &mut Exec<'_, '_>) -> Result<Progress> {
        if let Access::Inverted { index, conditions } = part {
            let search = match &mut self.search {
                Some(search) => search,
                None => match Search::begin((table, index), conditions, ex)? {
                    Asked::Everything => return Ok(Progress::Useless),
                    Asked::Nothing => return Ok(Progress::Over),
                    Asked::Search(search) => self.search.insert(search),
                },
            };
            let Some(keys) = search.step((table, index), ex)? else { return Ok(Progress::Some) };
            self.search = None;
            self.keys.append(keys);
            return Ok(Progress::Over);
        }
        if self.ranges.is_none() {
            self.ranges = Some(key_ranges(table, part, &mut ex.scope())?);
        }
        Ok(if self.part_is_over(table, part, ex)? { Progress::Over } else { Progress::Some })
    }

    /// Keeps those of the keys found before that were gathered now as well.
    fn keep_common(&mut self) -> Result<()> {
        let keys = std::mem::take(&mut self.keys).sorted()?;
        self.found = Some(match self.found.take() {
            Some(found) => found.common(keys),
            None => keys,
        });
        Ok(())
    }

    /// Takes the keys of the next range, or of a piece of it.
    fn part_is_over(&mut self, table: &Table, part: &Access, ex: &mut Exec<'_, '_>) -> Result<bool> {
        let (ranges, index) = match (&self.ranges, part) {
            (Some(Ranges::Points(keys)), _) => {
                keys.iter().for_each(|key| self.keys.push(key));
                return Ok(true);
            }
            (Some(Ranges::Spans(ranges)), Access::Key { .. }) => (ranges, None),
            (Some(Ranges::Spans(ranges)), Access::Index { index, .. }) => (ranges, Some(index)),
            _ => return Err(Error::internal("keys are gathered by ranges of a table or an index")),
        };
        let Some(range) = ranges.get(self.done) else { return Ok(true) };
        let space = index.map_or_else(|| table.space(), |index| index.space());
        let left = rest(range, self.last.as_ref(), Direction::Forward);
        let visited_max = VISITED_MAX.min(ex.cx.budget_rows.max(1) as usize);
        let (mut visited, mut failed) = (0, None);
        let (keys, mut last) = (&mut self.keys, None);
        ex.txn
            .scan(&space, &left, Direction::Forward, ColumnSet::NONE, visited_max, &mut |entry, _| {
                match key_of(table, index.map(|index| &**index), entry) {
                    Ok(key) => keys.push(key),
                    Err(error) => failed = Some(error),
                }
                visited += 1;
                if visited < visited_max && failed.is_none() {
                    return ControlFlow::Continue(());
                }
                last = Some(Key::from_slice(entry));
                ControlFlow::Break(())
            })
            .in_sql()?;
        self.last = last;
        if let Some(error) = failed {
            return Err(error);
        }
        ex.cx.budget_rows -= visited as i64;
        if self.last.is_none() {
            self.done += 1;
        }
        Ok(self.done == ranges.len())
    }
}

/// What came of going on with a part.
enum Progress {
    Some,
    Over,
    /// All rows may be meant.
    Useless,
}

/// The key of the row that an entry of an index leads to, or that is the table's own.
fn key_of<'e>(table: &Table, index: Option<&Index>, entry: &'e [u8]) -> Result<&'e [u8]> {
    match index {
        Some(index) => record::split_index_entry(table, index, entry),
        None => Ok(entry),
    }
}

/// Keys of rows. As long as they are short, each is a number: its bytes, and how many these are. The
/// order of the numbers is that of the keys, and they are sorted in a fraction of the time.
pub(super) enum Keys {
    /// Integers, dates, and pairs of small ones.
    Short(Vec<u128>),
    /// UUIDs.
    Middle(Vec<[u64; 3]>),
    Any(Vec<Key>),
}

/// A key as a number.
trait Packed: Ord + Copy + Default {
    /// `None` if the key is too long.
    fn pack(key: &[u8]) -> Option<Self>;
    fn unpack(self) -> Key;
}

impl Packed for u128 {
    fn pack(key: &[u8]) -> Option<Self> {
        packed::<16>(key).map(Self::from_be_bytes)
    }

    fn unpack(self) -> Key {
        unpacked(&self.to_be_bytes())
    }
}

impl Packed for [u64; 3] {
    fn pack(key: &[u8]) -> Option<Self> {
        let bytes: [u8; 24] = packed(key)?;
        let mut words = [0; 3];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_be_bytes(*bytes);
        }
        Some(words)
    }

    fn unpack(self) -> Key {
        let mut bytes = [0; 24];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(self) {
            *bytes = word.to_be_bytes();
        }
        unpacked(&bytes)
    }
}

/// A key, and its length in the last byte.
fn packed<const BYTES: usize>(key: &[u8]) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    bytes.get_mut(..key.len()).filter(|_| key.len() < BYTES)?.copy_from_slice(key);
    bytes[BYTES - 1] = key.len() as u8;
    Some(bytes)
}

fn unpacked(bytes: &[u8]) -> Key {
    let length = bytes.last().map_or(0, |&length| usize::from(length));
    Key::from_slice(&bytes[..length])
}

impl Default for Keys {
    fn default() -> Self {
        Self::Short(Vec::new())
    }
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Short(keys) => keys.len(),
            Self::Middle(keys) => keys.len(),
            Self::Any(keys) => keys.len(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn bytes(&self) -> usize {
        // They become keys in the end.
        let packed = match self {
            Self::Short(_) => size_of::<u128>(),
            Self::Middle(_) => size_of::<[u64; 3]>(),
            Self::Any(_) => 0,
        };
        self.len() * (packed + size_of::<Key>())
    }

    pub(super) fn push(&mut self, key: &[u8]) {
        loop {
            match self {
                Self::Short(keys) => match Packed::pack(key) {
                    Some(key) => return keys.push(key),
                    None => *self = Self::Middle(keys.iter().filter_map(|key| Packed::pack(&key.unpack())).collect()),
                },
                Self::Middle(keys) => match Packed::pack(key) {
                    Some(key) => return keys.push(key),
                    None => *self = Self::Any(keys.iter().map(|key| key.unpack()).collect()),
                },
                Self::Any(keys) => return keys.push(Key::from_slice(key)),
            }
        }
    }

    /// In order, each once.
    pub(super) fn sorted(mut self) -> Result<Self> {
        match &mut self {
            Self::Short(keys) => sort(keys)?,
            Self::Middle(keys) => sort(keys)?,
            Self::Any(keys) => sort(keys)?,
        }
        Ok(self)
    }

    /// In order, each once, those that were there so many times.
    pub(super) fn sorted_at_least(mut self, count: usize) -> Result<Self> {
        if count <= 1 {
            return self.sorted();
        }
        match &mut self {
            Self::Short(keys) => keep_repeated(keys, count)?,
            Self::Middle(keys) => keep_repeated(keys, count)?,
            Self::Any(keys) => keep_repeated(keys, count)?,
        }
        Ok(self)
    }

    /// Adds others.
    pub(super) fn append(&mut self, other: Self) {
        match (&mut *self, other) {
            (this, other) if this.is_empty() => *this = other,
            (Self::Short(keys), Self::Short(others)) => keys.extend(others),
            (Self::Middle(keys), Self::Middle(others)) => keys.extend(others),
            (this, others) => others.unpacked().iter().for_each(|key| this.push(key)),
        }
    }

    /// Those that are in both of two that are in order.
    pub(super) fn common(self, other: Self) -> Self {
        match (self, other) {
            (Self::Short(keys), Self::Short(other)) => Self::Short(common(keys, &other)),
            (Self::Middle(keys), Self::Middle(other)) => Self::Middle(common(keys, &other)),
            (keys, other) => Self::Any(common(keys.unpacked().into_vec(), &other.unpacked())),
        }
    }

    pub(super) fn unpacked(self) -> SmallVec<[Key; 1]> {
        match self {
            Self::Short(keys) => keys.into_iter().map(Packed::unpack).collect(),
            Self::Middle(keys) => keys.into_iter().map(Packed::unpack).collect(),
            Self::Any(keys) => keys.into(),
        }
    }
}

/// Sorts keys, and leaves each of them once.
fn sort<T: Ord + Default>(keys: &mut Vec<T>) -> Result<()> {
    merge_sort::sort(keys, merge_sort::PIECE, |one, other| one.cmp(other))?;
    keys.dedup();
    Ok(())
}

/// Sorts keys, and leaves each of them once that is there as often as `count`.
fn keep_repeated<T: Ord + Default>(keys: &mut Vec<T>, count: usize) -> Result<()> {
    merge_sort::sort(keys, merge_sort::PIECE, |one, other| one.cmp(other))?;
    let (mut kept, mut start) = (0, 0);
    while start < keys.len() {
        pulse::work(1)?;
        let same = keys[start..].iter().take_while(|key| **key == keys[start]).count();
        if same >= count {
            keys.swap(kept, start);
            kept += 1;
        }
        start += same;
    }
    keys.truncate(kept);
    Ok(())
}

fn common<T: Ord>(mut keys: Vec<T>, other: &[T]) -> Vec<T> {
    let mut at = 0;
    keys.retain(|key| {
        while other.get(at).is_some_and(|other| other < key) {
            at += 1;
        }
        other.get(at) == Some(key)
    });
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_all_lengths_keep_their_order() {
        let texts: &[&[u8]] = &[
            b"",
            b"\0",
            b"\0\0",
            b"a",
            b"a\0",
            b"a\0b",
            b"ab",
            b"0123456789abcde",
            b"0123456789abcdef",
            b"0123456789abcdef0123456",
            b"0123456789abcdef01234567",
        ];
        for longest in 0..=24 {
            let mut keys = Keys::default();
            let mut expected: Vec<Key> = Vec::new();
            for text in texts.iter().filter(|text| text.len() <= longest).chain([&&b"a"[..]]) {
                keys.push(text);
                expected.push(Key::from_slice(text));
            }
            expected.sort();
            expected.dedup();
            assert_eq!(matches!(keys, Keys::Short(_)), longest < 16);
            assert_eq!(matches!(keys, Keys::Any(_)), longest == 24);
            let mut others = Keys::default();
            expected.iter().step_by(2).for_each(|key| others.push(key));
            let sorted = keys.sorted().unwrap();
            let common = others.sorted().unwrap().common(sorted);
            let half: Vec<Key> = expected.into_iter().step_by(2).collect();
            assert_eq!(common.unpacked().into_vec(), half);
        }
    }
}

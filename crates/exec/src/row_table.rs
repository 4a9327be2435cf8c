//! Rows with keys, found by these: what a hash join keeps of its right side.
//!
//! ```text
//! places (open addressing, linear probing)         links[row]: the row's word, the next row with the same key
//! | key's hash | first row + 1 or 0 |  ...
//! ```
//! Rows are taken in first, and linked when all are there: the places are as many as it takes, and
//! are filled once, both in steps, as new memory alone takes a while if there is much of it. A
//! single key that is an integer (or a date, a time, a timestamp) takes the place of its hash and
//! needs no second look. Many of these that lie close together have an array in place of the
//! places: see [`direct`](crate::direct). Keys that are columns of their row are not kept again.
//!
//! Invariants: at most two thirds of the places are taken; rows with the same key are found in the
//! order they came; a row without a key is never found; all keys of a column are of one variant, or
//! NULL in a table made for that.

use colibri_types::{Datum, Error, Result};
use smallvec::SmallVec;

use super::direct::{Bounds, Direct};
use super::group::{as_word, equal_key, equal_keys, hash_values, hash_word};
use super::row_store::RowStore;
use crate::expr::Expr;

/// No row.
pub(super) const NONE: u32 = u32::MAX;
/// In place of the next row: this one has no key.
const UNKEYED: u32 = u32::MAX - 1;

/// A place of the table: empty if `first` is 0.
#[derive(Clone, Copy, Default)]
struct Place {
    word: u64,
    first: u32,
}

/// What a row is found by.
#[derive(Clone, Copy)]
struct Link {
    /// Its key, if keys are integers, or its key's hash.
    word: u64,
    /// The next row with the same key, [`NONE`] or [`UNKEYED`].
    next: u32,
}

/// Where rows' keys are.
enum Keys {
    /// These columns of the row.
    Columns(SmallVec<[usize; 4]>),
    /// Kept apart; NULL for rows without one.
    Kept(RowStore<Datum>),
}

/// Of places.
const DROPPED_AT_ONCE: usize = 64 << 10;

/// Rows whose places are fetched at once when they are linked.
const TOUCHED_AT_ONCE: usize = 32;

/// Rows and where to find them.
pub(super) struct RowTable {
    rows: RowStore<Datum>,
    links: RowStore<Link>,
    keys: Keys,
    ints: bool,
    /// Of the keys, if they are integers.
    bounds: Bounds,
    places: Vec<Place>,
    /// In place of `places`.
    direct: Option<Direct>,
    /// Rows from here on are linked.
    linked: usize,
}

impl RowTable {
    /// For rows of some width with such keys.
    pub(super) fn new(width: usize, keys: &[Expr]) -> Self {
        let column = |key: &Expr| if let Expr::Column(column) = key { Some(*column) } else { None };
        let columns: Option<SmallVec<[usize; 4]>> = keys.iter().map(column).collect();
        Self {
            rows: RowStore::new(width),
            links: RowStore::new(1),
            keys: columns.map_or_else(|| Keys::Kept(RowStore::new(keys.len())), Keys::Columns),
            ints: keys.len() == 1,
            bounds: Bounds::default(),
            places: Vec::new(),
            direct: None,
            linked: 0,
        }
    }

    /// The same, where NULL is a key as any other.
    pub(super) fn with_nulls(width: usize, keys: &[Expr]) -> Self {
        Self { ints: false, ..Self::new(width, keys) }
    }

    /// How many rows there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes that it takes, or will take once linked; what texts need elsewhere apart.
    pub(super) fn bytes(&self) -> usize {
        let kept = if let Keys::Kept(keys) = &self.keys { keys.bytes() } else { 0 };
        let places = match self.array_wanted() {
            Some(places) => places * size_of::<u32>(),
            None => self.places_wanted() * size_of::<Place>(),
        };
        self.rows.bytes() + self.links.bytes() + kept + places
    }

    /// How many places there are to find rows at.
    pub(super) fn places(&self) -> usize {
        self.direct.as_ref().map_or(self.places.len(), Direct::len)
    }

    /// The places of an array, if one is better than a hash table.
    fn array_wanted(&self) -> Option<usize> {
        if self.ints { self.bounds.places(self.len()) } else { None }
    }

    fn places_wanted(&self) -> usize {
        (self.len() + self.len() / 2 + 1).next_power_of_two()
    }

    /// Takes a row in, moving its values out; `None` for a row without a key.
    #[inline]
    pub(super) fn push(&mut self, key: Option<Key>, row: &mut [Datum]) -> Result<()> {
        if self.len() >= UNKEYED as usize {
            return Err(Error::internal("a hash table of 2^32 rows"));
        }
        let link = match &key {
            Some(key) => Link { word: key.word, next: NONE },
            None => Link { word: 0, next: UNKEYED },
        };
        if let Keys::Kept(keys) = &mut self.keys {
            match key {
                Some(key) => keys.push(key.values),
                None => keys.push(std::iter::repeat_n(Datum::Null, keys.width())),
            }
        }
        self.links.push([link]);
        self.rows.push(row.iter_mut().map(std::mem::take));
        Ok(())
    }

    /// What a row is found by.
    #[inline]
    pub(super) fn key(&mut self, values: &[Datum]) -> Key {
        if self.ints {
            if let Some(word) = as_word(&values[0]) {
                self.bounds.add(word as i64);
                return Key { word, values: self.to_keep(values) };
            }
            // The first key that is not NULL: no row has one so far.
            self.ints = false;
        }
        Key { word: hash_values(values.iter()), values: self.to_keep(values) }
    }

    #[inline]
    fn to_keep(&self, values: &[Datum]) -> SmallVec<[Datum; 1]> {
        match &self.keys {
            Keys::Columns(_) => SmallVec::new(),
            Keys::Kept(..) => values.iter().cloned().collect(),
        }
    }

    /// Links a bounded number of rows, or makes places for about as many. Gives whether all are
    /// linked.
    pub(super) fn link(&mut self, rows: usize) -> bool {
        if self.ints && self.direct.is_none() && self.places.is_empty() {
            self.direct = Direct::fixed(self.bounds, self.len());
            self.linked = self.len();
        }
        if let Some(direct) = &mut self.direct {
            let (start, end) = (self.linked.saturating_sub(rows), self.linked);
            // The last row first: each becomes the first of its key.
            for row in (start..end).rev() {
                let Link { word, next } = self.links.row(row)[0];
                if next == UNKEYED {
                    continue;
                }
                let place = direct.place(word as i64).expect("the array has places for all keys");
                if *place != 0 {
                    self.links.row_mut(row)[0].next = *place - 1;
                }
                *place = row as u32 + 1;
            }
            self.linked = start;
            return start == 0;
        }
        let wanted = self.places_wanted();
        if self.places.len() < wanted {
            self.places.reserve_exact(wanted - self.places.len());
            self.places.resize(wanted.min(self.places.len() + 2 * rows), Place::default());
            self.linked = self.len();
            if wanted > rows {
                return false;
            }
        }
        let (start, end) = (self.linked.saturating_sub(rows), self.linked);
        let mask = self.places.len() - 1;
        // The last row first: each becomes the first of its key.
        let mut touched = end;
        for row in (start..end).rev() {
            if row < touched {
                // The places of some rows are fetched side by side: the cache misses overlap.
                touched = row.saturating_sub(TOUCHED_AT_ONCE - 1).max(start);
                let first = |row: usize| {
                    let word = self.links.row(row)[0].word;
                    self.places[(if self.ints { hash_word(word) } else { word }) as usize & mask].first
                };
                std::hint::black_box((touched..=row).fold(0_u32, |sum, row| sum.wrapping_add(first(row))));
            }
            let Link { word, next } = self.links.row(row)[0];
            if next == UNKEYED {
                continue;
            }
            let mut at = (if self.ints { hash_word(word) } else { word }) as usize & mask;
            loop {
                let place = self.places[at];
                if place.first == 0 {
                    break;
                }
                if place.word == word && (self.ints || self.equal_rows(place.first as usize - 1, row)) {
                    self.links.row_mut(row)[0].next = place.first - 1;
                    break;
                }
                at = (at + 1) & mask;
            }
            self.places[at] = Place { word, first: row as u32 + 1 };
        }
        self.linked = start;
        start == 0
    }

    fn equal_rows(&self, a: usize, b: usize) -> bool {
        match &self.keys {
            Keys::Columns(columns) => {
                let (a, b) = (self.row(a), self.row(b));
                columns.iter().all(|&column| equal_key(&a[column], &b[column]))
            }
            Keys::Kept(keys) => equal_keys(keys.row(a), keys.row(b)),
        }
    }

    /// Looks at where a key would be found, for many keys one after the other: the cache misses
    /// overlap. What it gives means nothing.
    #[inline]
    pub(super) fn touch_place(&self, key: &[Datum]) -> u32 {
        match self.ints.then(|| as_word(&key[0])).flatten() {
            Some(word) if self.direct.is_some() => self.direct.as_ref().map_or(0, |direct| direct.get(word as i64)),
            Some(word) => self.places[hash_word(word) as usize & (self.places.len() - 1)].first,
            None => 0,
        }
    }

    /// The first row with a key, or [`NONE`].
    #[inline]
    pub(super) fn find(&self, key: &[Datum]) -> u32 {
        if !self.ints {
            return self.find_hashed(key);
        }
        let Some(word) = as_word(&key[0]) else { return NONE };
        if let Some(direct) = &self.direct {
            // Without a row, 0 becomes `NONE`.
            return direct.get(word as i64).wrapping_sub(1);
        }
        let mask = self.places.len() - 1;
        let mut at = hash_word(word) as usize & mask;
        loop {
            let place = self.places[at];
            if place.first == 0 {
                return NONE;
            }
            if place.word == word {
                return place.first - 1;
            }
            at = (at + 1) & mask;
        }
    }

    fn find_hashed(&self, key: &[Datum]) -> u32 {
        let word = hash_values(key.iter());
        let mask = self.places.len() - 1;
        let mut at = word as usize & mask;
        loop {
            let place = self.places[at];
            if place.first == 0 {
                return NONE;
            }
            if place.word == word && self.has_key(place.first as usize - 1, key) {
                return place.first - 1;
            }
            at = (at + 1) & mask;
        }
    }

    fn has_key(&self, row: usize, key: &[Datum]) -> bool {
        match &self.keys {
            Keys::Columns(columns) => {
                let row = self.row(row);
                columns.iter().zip(key).all(|(&column, key)| equal_key(&row[column], key))
            }
            Keys::Kept(keys) => equal_keys(keys.row(row), key),
        }
    }

    /// The next row with the same key, or [`NONE`].
    #[inline]
    pub(super) fn next(&self, row: usize) -> u32 {
        self.links.row(row)[0].next
    }

    /// The key that is kept for a row besides it, if any.
    pub(super) fn kept_key(&self, row: usize) -> &[Datum] {
        if let Keys::Kept(keys) = &self.keys { keys.row(row) } else { &[] }
    }

    /// Lets go of some of it, from the end; `false` if nothing is left. No row is to be found any
    /// more.
    pub(super) fn drop_some(&mut self) -> bool {
        if let Some(direct) = &mut self.direct
            && direct.len() > 0
        {
            direct.truncate(direct.len().saturating_sub(DROPPED_AT_ONCE));
            return true;
        }
        let left = self.places.len().saturating_sub(DROPPED_AT_ONCE);
        if self.places.len() > left {
            self.places.truncate(left);
            // Memory of this size goes back to the system, the end of it by itself.
            self.places.shrink_to_fit();
            return true;
        }
        let kept = if let Keys::Kept(keys) = &mut self.keys { keys.drop_block() } else { false };
        self.links.drop_block() | self.rows.drop_block() | kept
    }

    /// A row.
    #[inline]
    pub(super) fn row(&self, row: usize) -> &[Datum] {
        self.rows.row(row)
    }

    /// A row whose values may be taken: it is not to be found any more.
    pub(super) fn row_mut(&mut self, row: usize) -> &mut [Datum] {
        self.rows.row_mut(row)
    }

    /// Has rows fetched into the cache, all at once.
    #[inline]
    pub(super) fn touch(&self, rows: &[u32]) {
        let mut nulls = 0_usize;
        for &row in rows.iter().filter(|row| **row != NONE) {
            nulls ^= usize::from(self.row(row as usize).first().is_some_and(Datum::is_null));
            nulls ^= self.next(row as usize) as usize;
        }
        std::hint::black_box(nulls);
    }
}

/// A row's key, ready to be taken in.
pub(super) struct Key {
    word: u64,
    /// Empty where the row has them.
    values: SmallVec<[Datum; 1]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(table: &RowTable, key: &[Datum]) -> Vec<i64> {
        let mut rows = Vec::new();
        let mut row = table.find(key);
        while row != NONE {
            rows.push(if let Datum::Int(value) = table.row(row as usize)[0] { value } else { panic!("not a number") });
            row = table.next(row as usize);
        }
        rows
    }

    #[test]
    fn rows_with_the_same_key_come_in_their_order() {
        let text = |value: i64| Datum::text(&format!("key {}", value % 700));
        let int = |value: i64| Datum::Int(value % 700);
        for key_of in [text, int] {
            for keys in [vec![Expr::Column(1)], vec![Expr::Coalesce(vec![Expr::Column(1)])]] {
                let mut table = RowTable::new(2, &keys);
                for value in 0..2_000 {
                    let mut row = [Datum::Int(value), if value % 3 == 0 { Datum::Null } else { key_of(value) }];
                    let key = (value % 3 != 0).then(|| table.key(&row[1..]));
                    table.push(key, &mut row).unwrap();
                }
                assert_eq!(table.len(), 2_000);
                while !table.link(300) {}
                for value in 0..700 {
                    let expected: Vec<i64> =
                        (0..2_000).filter(|other| other % 3 != 0 && other % 700 == value).collect();
                    assert_eq!(found(&table, &[key_of(value)]), expected);
                }
                assert!(found(&table, &[Datum::text("other")]).is_empty());
                assert!(found(&table, &[Datum::Int(-1)]).is_empty());
            }
        }
    }

    #[test]
    fn rows_of_close_integers_are_found_in_an_array() {
        for (gap, is_array) in [(1, true), (20, true), (40, false), (1_000_003, false)] {
            for base in [0, i64::MIN, i64::MAX - 599 * gap] {
                let of = |value: i64| (value % 5 != 0).then(|| base + value * 7 % 600 * gap);
                let mut table = RowTable::new(2, &[Expr::Column(1)]);
                for value in 0..2_000 {
                    let mut row = [Datum::Int(value), of(value).map_or(Datum::Null, Datum::Int)];
                    let key = of(value).map(|_| table.key(&row[1..]));
                    table.push(key, &mut row).unwrap();
                }
                let bytes = table.bytes();
                while !table.link(300) {}
                assert_eq!((table.direct.is_some(), table.bytes()), (is_array, bytes), "{gap}");
                for key in (0..600).map(|at| base + at * gap) {
                    let expected: Vec<i64> = (0..2_000).filter(|value| of(*value) == Some(key)).collect();
                    assert_eq!(found(&table, &[Datum::Int(key)]), expected);
                }
                for other in [base.wrapping_sub(1), base.wrapping_add(600 * gap)] {
                    assert!(found(&table, &[Datum::Int(other)]).is_empty());
                }
                while table.drop_some() {}
                assert_eq!(table.len(), 0);
            }
        }
    }

    #[test]
    fn without_keys_all_rows_are_found() {
        let mut table = RowTable::new(1, &[]);
        for value in 0..5 {
            let key = Some(table.key(&[]));
            table.push(key, &mut [Datum::Int(value)]).unwrap();
        }
        while !table.link(5) {}
        assert_eq!(found(&table, &[]), [0, 1, 2, 3, 4]);
        let mut empty = RowTable::new(1, &[]);
        while !empty.link(5) {}
        assert!(found(&empty, &[]).is_empty());
        while table.drop_some() {}
        assert_eq!(table.len(), 0);
    }
}

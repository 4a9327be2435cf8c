//! Hash tables from keys of one or more values to the numbers 0, 1, 2, … in the order the keys
//! came: what grouping, joining, DISTINCT, set operations and IN (SELECT …) have in common.
//!
//! ```text
//! numbers (open addressing, linear probing)      keys: width values each
//! | key's hash | number + 1 or 0 |  ...          | key 0 | key 1 | key 2 | ...
//! ```
//! A single key that is an integer (or a date, a time, a timestamp) takes the place of its hash and
//! needs no second look. Many of these that lie close together have an array in place of a hash
//! table: see [`direct`](crate::direct).
//!
//! A table that is half full gets a successor of twice the size, into which each new key moves a
//! few of the old places; so does an array that has no place for an integer. Until all are moved,
//! what is not in the new table is looked for in the old one. So no key waits for all others to be
//! moved, however many there are.
//!
//! Invariants: at most half of the places are taken; there are either places or an array, of the
//! old table too; an array has places for all integers among the keys; the old table stays as it
//! is, its places moved or not; equality is [`operators::equal`], with NULL equal to NULL; all keys
//! of a column are of one variant or NULL.

use std::hash::Hasher;

use colibri_types::{Datum, operators, pulse};

use super::direct::{Bounds, Direct};
use super::row_store::RowStore;

/// Places that are moved to a larger table with each new key: more than are filled meanwhile.
const MOVED_PER_KEY: usize = 8;

/// The same of an array, which may have as many more places than keys.
const MOVED_OF_ARRAY_PER_KEY: usize = 64;

/// Bytes of a value from which on hashing it counts as work.
const LONG_BYTES: usize = 4096;

/// Bytes of a value that are hashed in a unit of work.
const HASHED_PER_UNIT: usize = 32;

/// Of the first table, in places; a power of two.
const PLACES_FIRST: usize = 16;

/// A hasher of two multiplications a word. Not proof against somebody who chooses keys to collide,
/// which costs them their own statement's time.
#[derive(Default)]
pub(super) struct Fold(u64);

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

const FIRST_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
const SECOND_FACTOR: u64 = 0xD6E8_FEB8_6659_FD93;

#[inline]
pub(super) fn hash_word(word: u64) -> u64 {
    fold(word ^ SECOND_FACTOR, FIRST_FACTOR)
}

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        if bytes.len() > LONG_BYTES {
            pulse::note(bytes.len() / HASHED_PER_UNIT);
        }
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.write_u64(u64::from_le_bytes(chunk.try_into().expect("chunks have 8 bytes")));
        }
        let mut last = [0; 8];
        last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
        self.write_u64(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.write_u64(u64::from(byte));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word ^ SECOND_FACTOR, FIRST_FACTOR);
    }

    #[inline]
    fn write_i64(&mut self, word: i64) {
        self.write_u64(word as u64);
    }
}

/// The hash of a row's values.
pub(super) fn hash_values<'a>(values: impl Iterator<Item = &'a Datum>) -> u64 {
    let mut hasher = Fold::default();
    values.for_each(|value| operators::hash_datum(value, &mut hasher));
    hasher.finish()
}

/// Whether keys are equal, NULLs too.
pub(super) fn equal_keys(a: &[Datum], b: &[Datum]) -> bool {
    a.iter().zip(b).all(|(a, b)| equal_key(a, b))
}

/// The same of one value.
#[inline]
pub(super) fn equal_key(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Null, Datum::Null) => true,
        (Datum::Null, _) | (_, Datum::Null) => false,
        _ => operators::equal(a, b),
    }
}

/// A place of the table: a key's hash, and its number plus one; empty if that is 0. An array of
/// integers, since memory of zeros for a large table is there at once.
type Place = [u64; 2];

/// The number plus one of the key that `is_it`, from a place on; or where the first empty place is.
#[inline]
fn probe(places: &[Place], start: u64, hash: u64, is_it: impl Fn(usize) -> bool) -> Result<usize, usize> {
    let mask = places.len() - 1;
    let mut at = start as usize & mask;
    loop {
        let [found, number] = places[at];
        if number == 0 {
            return Err(at);
        }
        if found == hash && is_it(number as usize - 1) {
            return Ok(number as usize - 1);
        }
        at = (at + 1) & mask;
    }
}

/// Keys and their numbers.
pub(super) struct Groups {
    places: Vec<Place>,
    direct: Option<Direct>,
    /// The table before, while its places are moved, and the next one to move.
    old: Vec<Place>,
    old_direct: Option<Direct>,
    moved: usize,
    keys: RowStore<Datum>,
    /// Of the keys, if places hold integers.
    bounds: Bounds,
    /// Whether places hold integers in place of hashes.
    ints: bool,
    /// The number of the key NULL, plus one, if places hold integers.
    null: u32,
    #[cfg(test)]
    moves: usize,
}

/// What stands for a value in place of a hash.
#[inline]
pub(super) fn as_word(value: &Datum) -> Option<u64> {
    match value {
        Datum::Int(value) | Datum::Time(value) | Datum::Timestamp(value) => Some(*value as u64),
        Datum::Date(value) => Some(i64::from(*value) as u64),
        _ => None,
    }
}

impl Groups {
    /// Without keys; those to come have `width` values.
    pub(super) fn new(width: usize) -> Self {
        Self {
            places: Vec::new(),
            direct: None,
            old: Vec::new(),
            old_direct: None,
            moved: 0,
            keys: RowStore::new(width),
            bounds: Bounds::default(),
            ints: width == 1,
            null: 0,
            #[cfg(test)]
            moves: 0,
        }
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes that it takes, what its texts need elsewhere apart.
    pub(super) fn bytes(&self) -> usize {
        let arrays = [&self.direct, &self.old_direct].into_iter().flatten().map(Direct::bytes).sum::<usize>();
        (self.places.len() + self.old.len()) * size_of::<Place>() + arrays + self.keys.bytes()
    }

    /// Places of smaller tables that were looked at so far.
    #[cfg(test)]
    pub(super) fn moves(&self) -> usize {
        self.moves
    }

    /// The key with a number.
    pub(super) fn key(&self, number: usize) -> &[Datum] {
        self.keys.row(number)
    }

    /// The number of a key, if it is there.
    #[inline]
    pub(super) fn find(&self, key: &[Datum]) -> Option<usize> {
        if self.ints {
            return match &key[0] {
                Datum::Null => self.null.checked_sub(1).map(|number| number as usize),
                value => self.find_word(as_word(value)?),
            };
        }
        let hash = hash_values(key.iter());
        self.look_up(hash, hash, |number| equal_keys(self.keys.row(number), key)).ok()
    }

    #[inline]
    fn find_word(&self, word: u64) -> Option<usize> {
        let Some(direct) = &self.direct else {
            return match &self.old_direct {
                None => self.look_up(hash_word(word), word, |_| true).ok(),
                Some(_) => probe(&self.places, hash_word(word), word, |_| true).ok().or_else(|| self.find_old(word)),
            };
        };
        match direct.get(word as i64) {
            0 => self.find_old(word),
            number => Some(number as usize - 1),
        }
    }

    /// The number of an integer that is not in the new table.
    #[inline]
    fn find_old(&self, word: u64) -> Option<usize> {
        if let Some(old) = &self.old_direct {
            return old.get(word as i64).checked_sub(1).map(|number| number as usize);
        }
        if self.old.is_empty() { None } else { probe(&self.old, hash_word(word), word, |_| true).ok() }
    }

    /// The number of a key; or the place that it would take in the new table.
    #[inline]
    fn look_up(&self, start: u64, hash: u64, is_it: impl Fn(usize) -> bool) -> Result<usize, usize> {
        if self.places.is_empty() {
            return Err(0);
        }
        let found = probe(&self.places, start, hash, &is_it);
        if found.is_err()
            && !self.old.is_empty()
            && let Ok(number) = probe(&self.old, start, hash, is_it)
        {
            return Ok(number);
        }
        found
    }

    /// The number of a key, and whether it is new.
    #[inline]
    pub(super) fn find_or_add(&mut self, key: &[Datum]) -> (usize, bool) {
        if self.ints {
            match &key[0] {
                Datum::Null => {
                    let new = self.null == 0;
                    if new {
                        self.null = self.add(key);
                    }
                    return (self.null as usize - 1, new);
                }
                value => match as_word(value) {
                    Some(word) => return self.find_or_add_word(word, key),
                    None => self.give_up_ints(),
                },
            }
        }
        if self.is_half_full() {
            self.grow();
        }
        let hash = hash_values(key.iter());
        match self.look_up(hash, hash, |number| equal_keys(self.keys.row(number), key)) {
            Ok(number) => (number, false),
            Err(place) => self.added_at(place, hash, key),
        }
    }

    #[inline]
    fn find_or_add_word(&mut self, word: u64, key: &[Datum]) -> (usize, bool) {
        loop {
            if let Some(direct) = &self.direct {
                match direct.get(word as i64) {
                    0 => {}
                    number => return (number as usize - 1, false),
                }
                if let Some(number) = self.find_old(word) {
                    return (number, false);
                }
                if let Some(added) = self.added_to_array(word, key) {
                    return added;
                }
            } else if !self.is_half_full() {
                return match probe(&self.places, hash_word(word), word, |_| true) {
                    Ok(number) => (number, false),
                    Err(place) => match self.find_old(word) {
                        Some(number) => (number, false),
                        None => self.added_at(place, word, key),
                    },
                };
            }
            self.grow_for(word as i64);
        }
    }

    /// Adds an integer if the array has a place for it.
    #[inline]
    fn added_to_array(&mut self, word: u64, key: &[Datum]) -> Option<(usize, bool)> {
        self.direct.as_mut()?.place(word as i64)?;
        let number = self.add(key);
        *self.direct.as_mut()?.place(word as i64)? = number;
        self.bounds.add(word as i64);
        self.move_some();
        Some((number as usize - 1, true))
    }

    /// Adds a key at an empty place.
    #[inline]
    fn added_at(&mut self, place: usize, hash: u64, key: &[Datum]) -> (usize, bool) {
        let number = self.add(key);
        self.places[place] = [hash, number.into()];
        if self.ints {
            self.bounds.add(hash as i64);
        }
        self.move_some();
        (number as usize - 1, true)
    }

    #[inline]
    fn is_half_full(&self) -> bool {
        self.keys.len() * 2 >= self.places.len()
    }

    /// Keeps a key; gives its number plus one. The memory limit ends a statement long before 2^32
    /// keys.
    fn add(&mut self, key: &[Datum]) -> u32 {
        self.keys.push(key.iter().cloned());
        u32::try_from(self.keys.len()).expect("a statement's memory does not hold 2^32 keys")
    }

    /// Integers were expected, something else came: either there are no keys yet, or only NULL.
    #[cold]
    fn give_up_ints(&mut self) {
        self.ints = false;
        self.places = vec![[0; 2]; PLACES_FIRST];
        for number in 0..self.keys.len() {
            let hash = hash_values(self.keys.row(number).iter());
            put(&mut self.places, hash, [hash, number as u64 + 1]);
        }
    }

    /// A table of twice the size.
    #[cold]
    fn grow(&mut self) {
        self.move_all();
        let count = (self.keys.len() * 4).next_power_of_two().max(PLACES_FIRST);
        self.old = std::mem::replace(&mut self.places, vec![[0; 2]; count]);
        self.old_direct = self.direct.take();
        self.moved = 0;
        pulse::note(1);
    }

    /// A table that has room for an integer: an array if that pays.
    #[cold]
    fn grow_for(&mut self, integer: i64) {
        let Some(direct) = Direct::growing(self.bounds, integer, self.keys.len()) else { return self.grow() };
        self.move_all();
        self.old_direct = self.direct.replace(direct);
        self.old = std::mem::take(&mut self.places);
        self.moved = 0;
        pulse::note(1);
    }

    #[inline]
    fn is_moving(&self) -> bool {
        !self.old.is_empty() || self.old_direct.is_some()
    }

    fn move_all(&mut self) {
        while self.is_moving() {
            self.move_some();
        }
    }

    /// Moves a few places of the old table to the new one.
    #[inline]
    fn move_some(&mut self) {
        if self.is_moving() {
            self.move_next();
        }
    }

    fn move_next(&mut self) {
        let (places, per_key) = match &self.old_direct {
            Some(old) => (old.len(), MOVED_OF_ARRAY_PER_KEY),
            None => (self.old.len(), MOVED_PER_KEY),
        };
        let (start, end) = (self.moved, places.min(self.moved + per_key));
        #[cfg(test)]
        {
            self.moves += end - start;
        }
        let of_array = self.old_direct.iter().flat_map(|old| old.some(start, end));
        let of_places = self.old.get(start..end).unwrap_or_default().iter().filter(|place| place[1] != 0);
        let moved = of_array.map(|(integer, number)| [integer as u64, number.into()]).chain(of_places.copied());
        for place @ [word, number] in moved {
            match &mut self.direct {
                Some(direct) => {
                    *direct.place(word as i64).expect("the new array has places for all") = number as u32;
                }
                None => put(&mut self.places, if self.ints { hash_word(word) } else { word }, place),
            }
        }
        self.moved = end;
        if end == places {
            self.old = Vec::new();
            self.old_direct = None;
        }
    }
}

/// Fills the first empty place from one on.
#[inline]
fn put(places: &mut [Place], start: u64, place: Place) {
    let mask = places.len() - 1;
    let mut at = start as usize & mask;
    while places[at][1] != 0 {
        at = (at + 1) & mask;
    }
    places[at] = place;
}

#[cfg(test)]
mod tests {
    use super::*;
    use colibri_types::Numeric;

    #[test]
    fn keys_get_numbers_in_the_order_they_come() {
        let mut groups = Groups::new(1);
        for round in 0..2 {
            for value in 0..1000i64 {
                let key = if value == 500 { Datum::Null } else { Datum::Int(value * 1_000_003) };
                assert_eq!(groups.find_or_add(std::slice::from_ref(&key)), (value as usize, round == 0));
                assert_eq!(groups.find(&[key]), Some(value as usize));
            }
        }
        assert_eq!(groups.find(&[Datum::Int(1)]), None);
        assert_eq!(groups.len(), 1000);
    }

    /// Against a map, with all kinds of distances between keys, so that arrays and hash tables
    /// follow each other.
    #[test]
    fn integers_have_numbers_in_arrays_as_in_hash_tables() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = hash_word(state);
            state % below
        };
        let mut arrays = 0;
        for round in 0..60 {
            let (mut groups, mut expected) = (Groups::new(1), std::collections::HashMap::new());
            let (mut base, mut spread) = (0_i64, 1);
            for step in 0..6_000 {
                if step % 500 == 0 {
                    spread =
                        [1, 3, 100, 2_000, 40_000, u64::MAX >> 1][draw(if round % 2 == 0 { 3 } else { 6 }) as usize];
                    base = if draw(3) == 0 { [i64::MIN, i64::MAX, 0][draw(3) as usize] } else { base };
                }
                base = match round % 3 {
                    0 => base.saturating_add(draw(spread.min(5)) as i64),
                    1 => base.saturating_sub(draw(spread.min(5)) as i64),
                    _ => base,
                };
                let key = [match draw(200) {
                    0 => Datum::Null,
                    _ => Datum::Int(base.wrapping_add(draw(spread) as i64)),
                }];
                let count = expected.len();
                let known = as_word(&key[0]);
                assert_eq!(groups.find(&key), expected.get(&known).copied(), "round {round}, step {step}");
                let number = *expected.entry(known).or_insert(count);
                assert_eq!(groups.find_or_add(&key), (number, number == count), "round {round}, step {step}");
                arrays += usize::from(groups.direct.is_some());
            }
            for (word, number) in expected {
                let key = word.map_or(Datum::Null, |word| Datum::Int(word as i64));
                assert_eq!(groups.find(std::slice::from_ref(&key)), Some(number));
                assert!(equal_keys(groups.key(number), &[key]));
            }
        }
        assert!((40_000..340_000).contains(&arrays), "{arrays} of 360,000 steps had an array");
    }

    #[test]
    fn an_array_takes_no_more_memory_than_a_hash_table() {
        for gap in [1, 2, 7, 8, 9, 100] {
            let mut groups = Groups::new(1);
            for value in 0..20_000 {
                groups.find_or_add(&[Datum::Int(value * gap)]);
                let places = groups.bytes() - groups.keys.bytes();
                // A hash table has up to four places for each key, and half as many in the old one.
                assert!(places <= 6 * size_of::<Place>() * groups.len().max(8), "{places} at {value} by {gap}");
            }
        }
    }

    #[test]
    fn null_first_and_texts_afterwards() {
        let mut groups = Groups::new(1);
        assert_eq!(groups.find_or_add(&[Datum::Null]), (0, true));
        for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
            assert_eq!(groups.find_or_add(&[Datum::text(name)]), (number + 1, true));
        }
        for value in 0..100 {
            groups.find_or_add(&[Datum::text(&value.to_string())]);
        }
        assert_eq!(groups.find_or_add(&[Datum::Null]), (0, false));
        assert_eq!(groups.find(&[Datum::text("b")]), Some(2));
    }

    #[test]
    fn numbers_of_different_form_are_one_key() {
        let mut groups = Groups::new(2);
        groups.find_or_add(&[Datum::Numeric(Numeric::new(10, 1)), Datum::Null]);
        assert_eq!(groups.find(&[Datum::Numeric(Numeric::new(100, 2)), Datum::Null]), Some(0));
        assert_eq!(groups.find(&[Datum::Numeric(Numeric::new(101, 2)), Datum::Null]), None);
    }
}

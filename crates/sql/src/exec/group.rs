//! Hash tables from keys of one or more values to the numbers 0, 1, 2, … in the order the keys came: what grouping,
//! joining, DISTINCT, set operations and IN (SELECT …) have in common.
//!
//! ```text
//! numbers (open addressing, linear probing)      keys: width values each
//! | key's hash | number + 1 or 0 |  ...          | key 0 | key 1 | key 2 | ...
//! ```
//! A single key that is an integer (or a date, a time, a timestamp) takes the place of its hash and needs no second look.
//!
//! Invariants: at most half of the places are taken; equality is [`operators::equal`], with NULL equal to NULL; all keys
//! of a column are of one variant or NULL.

use std::hash::Hasher;

use colibri_types::{Datum, operators, pulse};

use super::row_store::RowStore;

/// Places that are made, or moved to a larger table, between two polls; see
/// [`colibri_types::pulse`].
const MOVED_AT_ONCE: usize = 4096;

/// Bytes of a value that are hashed in a unit of work.
const HASHED_PER_UNIT: usize = 32;

/// Of the first table, in places; a power of two.
const PLACES_FIRST: usize = 16;

/// A hasher of two multiplications a word. Not proof against somebody who chooses keys to collide, which costs them their
/// own statement's time.
#[derive(Default)]
struct Fold(u64);

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
        if bytes.len() > MOVED_AT_ONCE {
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
    a.iter().zip(b).all(|(a, b)| match (a, b) {
        (Datum::Null, Datum::Null) => true,
        (Datum::Null, _) | (_, Datum::Null) => false,
        _ => operators::equal(a, b),
    })
}

/// A place of the table: empty if `number` is 0.
#[derive(Clone, Copy, Default)]
struct Place {
    hash: u64,
    number: u32,
}

/// Keys and their numbers.
pub(super) struct Groups {
    places: Vec<Place>,
    keys: RowStore<Datum>,
    /// Whether places hold integers in place of hashes.
    ints: bool,
    /// The number of the key NULL, plus one, if places hold integers.
    null: u32,
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
        Self { places: Vec::new(), keys: RowStore::new(width), ints: width == 1, null: 0 }
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes that it takes, what its texts need elsewhere apart.
    pub(super) fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place>() + self.keys.bytes()
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
        if self.places.is_empty() {
            return None;
        }
        let hash = hash_values(key.iter());
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let place = self.places[at];
            let number = place.number.checked_sub(1)? as usize;
            if place.hash == hash && equal_keys(self.key(number), key) {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    fn find_word(&self, word: u64) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mask = self.places.len() - 1;
        let mut at = hash_word(word) as usize & mask;
        loop {
            let place = self.places[at];
            let number = place.number.checked_sub(1)? as usize;
            if place.hash == word {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
    }

    /// The number of a key, and whether it is new.
    #[inline]
    pub(super) fn find_or_add(&mut self, key: &[Datum]) -> (usize, bool) {
        if self.keys.len() * 2 >= self.places.len() {
            self.grow();
        }
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
        let hash = hash_values(key.iter());
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let place = self.places[at];
            if place.number == 0 {
                let number = self.add(key);
                self.places[at] = Place { hash, number };
                return (number as usize - 1, true);
            }
            let number = place.number as usize - 1;
            if place.hash == hash && equal_keys(self.key(number), key) {
                return (number, false);
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    fn find_or_add_word(&mut self, word: u64, key: &[Datum]) -> (usize, bool) {
        let mask = self.places.len() - 1;
        let mut at = hash_word(word) as usize & mask;
        loop {
            let place = self.places[at];
            if place.number == 0 {
                let number = self.add(key);
                self.places[at] = Place { hash: word, number };
                return (number as usize - 1, true);
            }
            if place.hash == word {
                return (place.number as usize - 1, false);
            }
            at = (at + 1) & mask;
        }
    }

    /// Keeps a key; gives its number plus one. The memory limit ends a statement long before 2^32 keys.
    fn add(&mut self, key: &[Datum]) -> u32 {
        self.keys.push(key.iter().cloned());
        u32::try_from(self.keys.len()).expect("a statement's memory does not hold 2^32 keys")
    }

    /// Integers were expected, something else came: either there are no keys yet, or only NULL.
    #[cold]
    fn give_up_ints(&mut self) {
        self.ints = false;
        self.fill(self.places.len());
    }

    #[cold]
    fn grow(&mut self) {
        self.fill((self.places.len() * 2).max(PLACES_FIRST));
    }

    fn fill(&mut self, count: usize) {
        // A large table takes a while to make and to fill: others get their chance in between.
        let mut places = Vec::with_capacity(count);
        while places.len() < count {
            places.resize(count.min(places.len() + MOVED_AT_ONCE), Place::default());
            pulse::note(MOVED_AT_ONCE / 4);
        }
        let old = std::mem::replace(&mut self.places, places);
        let mask = count - 1;
        let mut put = |start: u64, place: Place| {
            let mut at = start as usize & mask;
            while self.places[at].number != 0 {
                at = (at + 1) & mask;
            }
            self.places[at] = place;
        };
        if self.ints || self.null == 0 {
            for places in old.chunks(MOVED_AT_ONCE) {
                for &place in places.iter().filter(|place| place.number != 0) {
                    put(if self.ints { hash_word(place.hash) } else { place.hash }, place);
                }
                pulse::note(MOVED_AT_ONCE);
            }
            return;
        }
        // The key NULL was kept apart while integers were expected.
        for number in 0..self.keys.len() {
            let hash = hash_values(self.keys.row(number).iter());
            put(hash, Place { hash, number: number as u32 + 1 });
        }
    }
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

//! Groups of rows in vectors: keys to the numbers 0, 1, 2, … in the order in which they first come.
//!
//! ```text
//! places (open addressing, linear probing)     keys: a vector for each, hashes
//! | upper half of the hash | number + 1 or 0 |  …
//! ```
//! There are few: the owner hands them on long before they are many. So a table that is half full
//! is made anew at once.
//!
//! Invariants: at most half of the places are taken; NULL is equal to NULL; equality is that of
//! `operators::equal`, since floats are no keys, and numerics of one vector have one scale.

use colibri_types::Datum;
use colibri_types::column_vector::{ColumnVector, Lanes};

use crate::group::{Fold, hash_word};

/// Of the first table; a power of two.
const PLACES_FIRST: usize = 256;
/// What stands for NULL in a hash.
const NULL_WORD: u64 = 0x5bd1_e995_97f4_a7c5;
/// The most bytes of keys, with those of a batch.
const KEY_BYTES_MAX: usize = 1 << 30;

/// Keys and their numbers.
pub(super) struct ColumnGroups {
    keys: Vec<ColumnVector>,
    hashes: Vec<u64>,
    places: Vec<[u32; 2]>,
    /// Of the batch at hand: each row's hash, and its group.
    row_hashes: Vec<u64>,
    numbers: Vec<u32>,
}

impl ColumnGroups {
    pub(super) fn new() -> Self {
        Self { keys: Vec::new(), hashes: Vec::new(), places: Vec::new(), row_hashes: Vec::new(), numbers: Vec::new() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(ColumnVector::bytes).sum();
        keys + self.hashes.capacity() * 8 + self.places.capacity() * 8
    }

    /// The key of a group.
    pub(super) fn key(&self, number: usize, out: &mut Vec<Datum>) {
        out.clear();
        out.extend(self.keys.iter().map(|key| key.datum(number)));
    }

    /// Each row's group, of the batch at hand.
    pub(super) fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// Without groups, and with the memory.
    pub(super) fn clear(&mut self) {
        self.keys.iter_mut().for_each(ColumnVector::clear);
        self.hashes.clear();
        self.places.fill([0; 2]);
    }

    /// Whether all rows of a batch can be grouped: their keys go into vectors with those that are
    /// there.
    fn takes(&self, keys: &[&ColumnVector]) -> bool {
        let bytes: usize = keys.iter().map(|key| key.bytes()).sum();
        let fits = |(known, key): (&ColumnVector, &&ColumnVector)| match (known.lanes(), key.lanes()) {
            (Lanes::Decimals(known_scale, _), Lanes::Decimals(scale, _)) => known.is_empty() || known_scale == scale,
            _ => true,
        };
        bytes + self.bytes() <= KEY_BYTES_MAX && self.keys.iter().zip(keys).all(fits)
    }

    /// Finds the group of each row of a batch, or makes one; `false` if rows cannot be grouped
    /// here.
    pub(super) fn assign(&mut self, keys: &[&ColumnVector], rows: usize) -> bool {
        self.numbers.clear();
        if keys.is_empty() {
            if self.hashes.is_empty() {
                self.hashes.push(0);
            }
            self.numbers.resize(rows, 0);
            return true;
        }
        if self.hashes.is_empty() && self.keys.len() != keys.len() {
            self.keys = keys.iter().map(|key| key.empty()).collect();
        }
        if !self.takes(keys) {
            return false;
        }
        self.row_hashes.clear();
        self.row_hashes.resize(rows, 0);
        for key in keys {
            hash(key, &mut self.row_hashes);
        }
        for row in 0..rows {
            if self.hashes.len() * 2 >= self.places.len() {
                self.grow();
            }
            let hash = self.row_hashes[row];
            let (mask, tag) = (self.places.len() - 1, (hash >> 32) as u32);
            let mut at = hash as usize & mask;
            let number = loop {
                let [found, number] = self.places[at];
                if number == 0 {
                    break None;
                }
                if found == tag && self.is_key(number as usize - 1, keys, row) {
                    break Some(number - 1);
                }
                at = (at + 1) & mask;
            };
            let number = match number {
                Some(number) => number,
                None => {
                    let number = self.hashes.len() as u32;
                    for (known, key) in self.keys.iter_mut().zip(keys) {
                        let is_taken = known.push_of(key, row);
                        debug_assert!(is_taken, "a key that the groups take");
                    }
                    self.hashes.push(hash);
                    self.places[at] = [tag, number + 1];
                    number
                }
            };
            self.numbers.push(number);
        }
        true
    }

    #[inline]
    fn is_key(&self, number: usize, keys: &[&ColumnVector], row: usize) -> bool {
        self.keys.iter().zip(keys).all(|(known, key)| {
            let (null, other_null) = (known.is_null(number), key.is_null(row));
            if null || other_null {
                return null == other_null;
            }
            match (known.lanes(), key.lanes()) {
                (Lanes::Words(_, a), Lanes::Words(_, b)) | (Lanes::Decimals(_, a), Lanes::Decimals(_, b)) => {
                    a[number] == b[row]
                }
                (Lanes::Truths(a), Lanes::Truths(b)) => a[number] == b[row],
                (Lanes::Texts(a), Lanes::Texts(b)) => a.get(number) == b.get(row),
                _ => false,
            }
        })
    }

    #[cold]
    fn grow(&mut self) {
        let count = (self.places.len() * 2).max(PLACES_FIRST);
        self.places.clear();
        self.places.resize(count, [0; 2]);
        for (number, hash) in self.hashes.iter().enumerate() {
            let mut at = *hash as usize & (count - 1);
            while self.places[at][1] != 0 {
                at = (at + 1) & (count - 1);
            }
            self.places[at] = [(hash >> 32) as u32, number as u32 + 1];
        }
    }
}

/// Takes a key into the hashes of all rows.
fn hash(key: &ColumnVector, hashes: &mut [u64]) {
    let nulls = key.nulls();
    let mix = |hashes: &mut [u64], word_of: &dyn Fn(usize) -> u64| {
        for (row, hash) in hashes.iter_mut().enumerate() {
            let word = if nulls.is_empty() || !nulls[row] { word_of(row) } else { NULL_WORD };
            *hash = hash_word(*hash ^ word);
        }
    };
    match key.lanes() {
        Lanes::Words(_, words) | Lanes::Decimals(_, words) if nulls.is_empty() => {
            for (hash, word) in hashes.iter_mut().zip(words) {
                *hash = hash_word(*hash ^ *word as u64);
            }
        }
        Lanes::Words(_, words) | Lanes::Decimals(_, words) => mix(hashes, &|row| words[row] as u64),
        Lanes::Truths(truths) => mix(hashes, &|row| u64::from(truths[row])),
        Lanes::Floats(floats) => mix(hashes, &|row| floats[row].to_bits()),
        Lanes::Texts(texts) => mix(hashes, &|row| text_word(texts.get(row))),
    }
}

/// What stands for a text in a hash.
#[inline]
fn text_word(text: &[u8]) -> u64 {
    use std::hash::Hasher;
    if text.len() <= 7 {
        // The texts of flags and codes: their bytes and their length.
        let mut bytes = [0; 8];
        bytes[..text.len()].copy_from_slice(text);
        bytes[7] = text.len() as u8 + 1;
        return u64::from_le_bytes(bytes);
    }
    let mut hasher = Fold::default();
    hasher.write(text);
    hasher.finish()
}

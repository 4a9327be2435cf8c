//! Column vectors: the values of one column for some rows, side by side.
//!
//! ```text
//! words      i64 …            integers, dates, times, timestamps
//! decimals   i64 … + scale    numerics of one scale: value = word / 10^scale
//! floats     f64 …
//! truths     bool …
//! texts      bytes …, end of each text
//! nulls      bool …, or nothing where no value is NULL
//! ```
//! Whether a value is NULL takes a byte, not a bit: loops over bytes become vector instructions as
//! they are, and a batch is small.
//!
//! Invariants: all parts have a place for each value; the place of a NULL holds zero, or an empty
//! text. A vector that does not take a value as it is says so, and stays as it was: a numeric of
//! another scale or of more digits than a word has, and NaN and the infinities of numerics.

use compact_str::CompactString;

use crate::numeric::{LARGE_SCALE, Numeric};
use crate::types::Type;
use crate::value::Datum;

/// What a word stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// [`Datum::Int`]
    Int,
    /// [`Datum::Date`]
    Date,
    /// [`Datum::Time`]
    Time,
    /// [`Datum::Timestamp`]
    Timestamp,
}

impl Word {
    /// The value that a word stands for.
    #[inline]
    #[must_use]
    pub fn datum(self, word: i64) -> Datum {
        match self {
            Self::Int => Datum::Int(word),
            // Only days come in.
            Self::Date => Datum::Date(word as i32),
            Self::Time => Datum::Time(word),
            Self::Timestamp => Datum::Timestamp(word),
        }
    }
}

/// Texts, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Texts {
    /// The bytes of a text.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[start..self.ends[index] as usize]
    }

    /// Adds a text, whose bytes are UTF-8; `false` if there is no room in 4 GiB.
    #[inline]
    fn push(&mut self, text: &[u8]) -> bool {
        let Ok(end) = u32::try_from(self.bytes.len() + text.len()) else { return false };
        self.bytes.extend_from_slice(text);
        self.ends.push(end);
        true
    }
}

/// Values that are not NULL.
#[derive(Debug, Clone)]
pub enum Lanes {
    /// Integers and what is counted in them.
    Words(Word, Vec<i64>),
    /// Numerics that all have this many digits behind the point.
    Decimals(u8, Vec<i64>),
    /// Floating-point numbers.
    Floats(Vec<f64>),
    /// Booleans.
    Truths(Vec<bool>),
    /// Texts.
    Texts(Texts),
}

/// Values of one column.
#[derive(Debug, Clone)]
pub struct ColumnVector {
    lanes: Lanes,
    /// Of each value; empty if none is NULL.
    nulls: Vec<bool>,
    /// A value that is not NULL has come: the scale of decimals is known.
    has_scale: bool,
}

/// The most bytes of a stored numeric's digits that surely fit a word.
const WORD_DIGIT_BYTES: usize = 7;

impl ColumnVector {
    /// Without values, for those of a type; `None` if such values have no vectors. Types that users
    /// define have none.
    #[must_use]
    pub fn of_type(ty: Type) -> Option<Self> {
        Some(Self::new(match ty {
            Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid => Lanes::Words(Word::Int, Vec::new()),
            Type::Date => Lanes::Words(Word::Date, Vec::new()),
            Type::Time => Lanes::Words(Word::Time, Vec::new()),
            Type::Timestamp | Type::TimestampTz => Lanes::Words(Word::Timestamp, Vec::new()),
            Type::Numeric => Lanes::Decimals(0, Vec::new()),
            Type::Float8 | Type::Float4 => Lanes::Floats(Vec::new()),
            Type::Bool => Lanes::Truths(Vec::new()),
            Type::Text | Type::Varchar | Type::Char | Type::Name => Lanes::Texts(Texts::default()),
            _ => return None,
        }))
    }

    fn new(lanes: Lanes) -> Self {
        Self { lanes, nulls: Vec::new(), has_scale: false }
    }

    /// Of values that were computed. `nulls` is empty if none is NULL.
    #[must_use]
    pub fn of_lanes(lanes: Lanes, nulls: Vec<bool>) -> Self {
        let vector = Self { lanes, nulls, has_scale: true };
        debug_assert!(vector.nulls.is_empty() || vector.nulls.len() == vector.len(), "a mark for each value");
        vector
    }

    /// How many values there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.lanes {
            Lanes::Words(_, words) | Lanes::Decimals(_, words) => words.len(),
            Lanes::Floats(floats) => floats.len(),
            Lanes::Truths(truths) => truths.len(),
            Lanes::Texts(texts) => texts.ends.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values; in the place of a NULL stands zero, or an empty text.
    #[inline]
    #[must_use]
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Whether each value is NULL; empty if none is.
    #[inline]
    #[must_use]
    pub fn nulls(&self) -> &[bool] {
        &self.nulls
    }

    /// Whether a value is NULL.
    #[inline]
    #[must_use]
    pub fn is_null(&self, index: usize) -> bool {
        !self.nulls.is_empty() && self.nulls[index]
    }

    /// A value.
    #[must_use]
    pub fn datum(&self, index: usize) -> Datum {
        if self.is_null(index) {
            return Datum::Null;
        }
        match &self.lanes {
            Lanes::Words(word, words) => word.datum(words[index]),
            Lanes::Decimals(scale, words) => Datum::Numeric(Numeric::new(i128::from(words[index]), *scale)),
            Lanes::Floats(floats) => Datum::Float(floats[index]),
            Lanes::Truths(truths) => Datum::Bool(truths[index]),
            Lanes::Texts(texts) => Datum::Text(CompactString::from_utf8_lossy(texts.get(index))),
        }
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let lanes = match &self.lanes {
            Lanes::Words(_, words) | Lanes::Decimals(_, words) => words.capacity() * size_of::<i64>(),
            Lanes::Floats(floats) => floats.capacity() * size_of::<f64>(),
            Lanes::Truths(truths) => truths.capacity(),
            Lanes::Texts(texts) => texts.bytes.capacity() + texts.ends.capacity() * size_of::<u32>(),
        };
        lanes + self.nulls.capacity()
    }

    /// Takes all values out, and keeps the memory.
    pub fn clear(&mut self) {
        match &mut self.lanes {
            Lanes::Words(_, words) | Lanes::Decimals(_, words) => words.clear(),
            Lanes::Floats(floats) => floats.clear(),
            Lanes::Truths(truths) => truths.clear(),
            Lanes::Texts(texts) => {
                texts.bytes.clear();
                texts.ends.clear();
            }
        }
        self.nulls.clear();
        self.has_scale = false;
    }

    /// Keeps the first values only.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.lanes {
            Lanes::Words(_, words) | Lanes::Decimals(_, words) => words.truncate(len),
            Lanes::Floats(floats) => floats.truncate(len),
            Lanes::Truths(truths) => truths.truncate(len),
            Lanes::Texts(texts) => {
                texts.ends.truncate(len);
                texts.bytes.truncate(texts.ends.last().map_or(0, |&end| end as usize));
            }
        }
        self.nulls.truncate(len);
    }

    /// Notes that a value that is not NULL has come behind the others.
    #[inline]
    fn note_value(&mut self) {
        if !self.nulls.is_empty() {
            self.nulls.push(false);
        }
    }

    /// Adds a NULL.
    pub fn push_null(&mut self) {
        if self.nulls.is_empty() {
            self.nulls.resize(self.len(), false);
        }
        match &mut self.lanes {
            Lanes::Words(_, words) | Lanes::Decimals(_, words) => words.push(0),
            Lanes::Floats(floats) => floats.push(0.0),
            Lanes::Truths(truths) => truths.push(false),
            Lanes::Texts(texts) => texts.ends.push(texts.bytes.len() as u32),
        }
        self.nulls.push(true);
    }

    /// Adds an integer, a date, a time or a timestamp; `false` if it holds others.
    #[inline]
    pub fn push_word(&mut self, word: i64) -> bool {
        let Lanes::Words(_, words) = &mut self.lanes else { return false };
        words.push(word);
        self.note_value();
        true
    }

    /// Adds a floating-point number; `false` if it holds others.
    #[inline]
    pub fn push_float(&mut self, float: f64) -> bool {
        let Lanes::Floats(floats) = &mut self.lanes else { return false };
        floats.push(float);
        self.note_value();
        true
    }

    /// Adds a boolean; `false` if it holds others.
    #[inline]
    pub fn push_truth(&mut self, truth: bool) -> bool {
        let Lanes::Truths(truths) = &mut self.lanes else { return false };
        truths.push(truth);
        self.note_value();
        true
    }

    /// Adds a text, whose bytes are UTF-8; `false` if it holds others.
    #[inline]
    pub fn push_text(&mut self, text: &[u8]) -> bool {
        let Lanes::Texts(texts) = &mut self.lanes else { return false };
        let fits = texts.push(text);
        if fits {
            self.note_value();
        }
        fits
    }

    /// Adds a numeric; `false` if it has another scale than those that are there, or holds others.
    #[inline]
    pub fn push_decimal(&mut self, word: i64, scale: u8) -> bool {
        let Lanes::Decimals(known, words) = &mut self.lanes else { return false };
        if *known != scale {
            if self.has_scale {
                return false;
            }
            *known = scale;
        }
        self.has_scale = true;
        words.push(word);
        self.note_value();
        true
    }

    /// Adds a numeric from its bytes in a row (see `catalog::row`); `false` if the vector does not
    /// take it, or the bytes are damaged.
    #[inline]
    pub fn push_stored_decimal(&mut self, bytes: &[u8]) -> bool {
        let Some((&head, digits)) = bytes.split_first() else { return false };
        if head == LARGE_SCALE || digits.len() > WORD_DIGIT_BYTES {
            return false;
        }
        let magnitude = digits.iter().fold(0i64, |sum, &byte| sum << 8 | i64::from(byte));
        self.push_decimal(if head & 0x80 != 0 { -magnitude } else { magnitude }, head & 0x7f)
    }

    /// Adds any value; `false` if the vector does not take it.
    pub fn push(&mut self, value: &Datum) -> bool {
        match (value, &self.lanes) {
            (Datum::Null, _) => {
                self.push_null();
                true
            }
            (Datum::Int(word), Lanes::Words(Word::Int, _))
            | (Datum::Time(word), Lanes::Words(Word::Time, _))
            | (Datum::Timestamp(word), Lanes::Words(Word::Timestamp, _)) => self.push_word(*word),
            (Datum::Date(days), Lanes::Words(Word::Date, _)) => self.push_word(i64::from(*days)),
            (Datum::Float(float), _) => self.push_float(*float),
            (Datum::Bool(truth), _) => self.push_truth(*truth),
            (Datum::Text(text), _) => self.push_text(text.as_bytes()),
            (Datum::Numeric(value), _) => match value.small() {
                Some((mantissa, scale)) => i64::try_from(mantissa).is_ok_and(|word| self.push_decimal(word, scale)),
                None => false,
            },
            _ => false,
        }
    }

    /// Adds a value of another vector of the same kind; `false` if this one does not take it.
    #[inline]
    pub fn push_of(&mut self, other: &Self, index: usize) -> bool {
        if other.is_null(index) {
            self.push_null();
            return true;
        }
        match &other.lanes {
            Lanes::Words(_, words) => self.push_word(words[index]),
            Lanes::Decimals(scale, words) => self.push_decimal(words[index], *scale),
            Lanes::Floats(floats) => self.push_float(floats[index]),
            Lanes::Truths(truths) => self.push_truth(truths[index]),
            Lanes::Texts(texts) => self.push_text(texts.get(index)),
        }
    }

    /// The values at some places, in their order, in a vector that is emptied for them.
    pub fn pick(&self, places: &[u32], out: &mut Self) {
        fn picked<T: Copy>(from: &[T], places: &[u32], to: &mut Vec<T>) {
            to.clear();
            to.extend(places.iter().map(|&place| from[place as usize]));
        }
        out.clear();
        match (&self.lanes, &mut out.lanes) {
            (Lanes::Words(word, from), Lanes::Words(known, to)) => {
                *known = *word;
                picked(from, places, to);
            }
            (Lanes::Decimals(scale, from), Lanes::Decimals(known, to)) => {
                *known = *scale;
                picked(from, places, to);
            }
            (Lanes::Floats(from), Lanes::Floats(to)) => picked(from, places, to),
            (Lanes::Truths(from), Lanes::Truths(to)) => picked(from, places, to),
            (Lanes::Texts(from), Lanes::Texts(to)) => {
                for &place in places {
                    to.push(from.get(place as usize));
                }
            }
            _ => {
                *out = self.empty();
                return self.pick(places, out);
            }
        }
        out.has_scale = self.has_scale;
        if !self.nulls.is_empty() {
            picked(&self.nulls, places, &mut out.nulls);
        }
    }

    /// Without values, for those of the same kind.
    #[must_use]
    pub fn empty(&self) -> Self {
        Self::new(match &self.lanes {
            Lanes::Words(word, _) => Lanes::Words(*word, Vec::new()),
            Lanes::Decimals(..) => Lanes::Decimals(0, Vec::new()),
            Lanes::Floats(_) => Lanes::Floats(Vec::new()),
            Lanes::Truths(_) => Lanes::Truths(Vec::new()),
            Lanes::Texts(_) => Lanes::Texts(Texts::default()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [Type; 9] = [
        Type::Int4,
        Type::Int8,
        Type::Date,
        Type::Time,
        Type::TimestampTz,
        Type::Numeric,
        Type::Float8,
        Type::Bool,
        Type::Text,
    ];

    fn value(random: &mut fastrand::Rng, ty: Type) -> Datum {
        let word = random.i64(-3..4);
        match ty {
            _ if random.u8(0..5) == 0 => Datum::Null,
            Type::Int4 | Type::Int8 => Datum::Int(word),
            Type::Date => Datum::Date(word as i32),
            Type::Time => Datum::Time(word + 3),
            Type::TimestampTz => Datum::Timestamp(word),
            Type::Numeric => Datum::Numeric(Numeric::new(i128::from(word), 2)),
            Type::Float8 => Datum::Float(word as f64 / 2.0),
            Type::Bool => Datum::Bool(word > 0),
            _ => Datum::text(&"é".repeat((word + 3) as usize)),
        }
    }

    #[test]
    fn values_come_back_as_they_were_put_in_and_picked() {
        let mut random = fastrand::Rng::with_seed(1);
        for ty in TYPES {
            let (mut vector, mut again) = (ColumnVector::of_type(ty).unwrap(), ColumnVector::of_type(ty).unwrap());
            for round in 0..50 {
                vector.clear();
                let count = random.usize(0..40);
                let values: Vec<Datum> = (0..count).map(|_| value(&mut random, ty)).collect();
                assert!(values.iter().all(|value| vector.push(value)), "{ty:?} {values:?}");
                let given = |vector: &ColumnVector| (0..vector.len()).map(|at| vector.datum(at)).collect::<Vec<_>>();
                assert_eq!(given(&vector), values);
                let places: Vec<u32> = (0..count as u32).filter(|_| random.bool()).collect();
                vector.pick(&places, &mut again);
                let wanted: Vec<Datum> = places.iter().map(|&place| values[place as usize].clone()).collect();
                assert_eq!(given(&again), wanted, "round {round}");
                let mut one_by_one = vector.empty();
                assert!((0..count).all(|at| one_by_one.push_of(&vector, at)));
                assert_eq!(given(&one_by_one), values);
                vector.truncate(count / 2);
                assert_eq!(given(&vector), values[..count / 2]);
            }
        }
    }

    /// Bug: a vector that had held integers took picked timestamps for integers. Consequence:
    /// groups had numbers for keys. Fix: what the words stand for is taken along.
    #[test]
    fn picked_words_stand_for_what_they_did() {
        let mut out = ColumnVector::of_type(Type::Int8).unwrap();
        for (ty, value) in [(Type::Timestamp, Datum::Timestamp(7)), (Type::Date, Datum::Date(8))] {
            let mut vector = ColumnVector::of_type(ty).unwrap();
            assert!(vector.push(&value));
            vector.pick(&[0], &mut out);
            assert_eq!(out.datum(0), value);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_leaves_the_vector_as_it_was() {
        let mut vector = ColumnVector::of_type(Type::Numeric).unwrap();
        let numeric = |text: &str| Datum::Numeric(Numeric::parse(text).unwrap());
        assert!(vector.push(&Datum::Null) && vector.push(&numeric("1.50")));
        for refused in ["1.5", "NaN", "Infinity", "123456789012345678901234567890.00"] {
            assert!(!vector.push(&numeric(refused)), "{refused}");
        }
        assert!(!vector.push(&Datum::Int(1)) && !vector.push(&Datum::text("1")));
        assert_eq!((vector.len(), vector.datum(1)), (2, numeric("1.50")));
        vector.clear();
        assert!(vector.push(&numeric("1.5")));
        assert!(ColumnVector::of_type(Type::Jsonb).is_none());
    }
}

//! Order, equality and hash of values: what indexes, joins, grouping and sorting go by.
//!
//! Invariants: [`compare`] is a total order on the values of one variant (text bytewise, that is
//! collation "C"; NaN above all floats and equal to itself; -0 equal to 0; numerics and intervals
//! by value, not by form), and values that compare as equal hash alike. [`crate::key`] encodes the
//! same order.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::citext;
use crate::jsonb;
use crate::pulse;
use crate::ranges;
use crate::text_search::Query;
use crate::value::Datum;

/// The order of two values of the same variant, neither of them NULL.
///
/// Values of different variants have an order too, so that sorting cannot go wrong, but it means
/// nothing.
#[inline]
#[must_use]
pub fn compare(a: &Datum, b: &Datum) -> Ordering {
    match (a, b) {
        (Datum::Int(a), Datum::Int(b))
        | (Datum::Time(a), Datum::Time(b))
        | (Datum::Timestamp(a), Datum::Timestamp(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) => compare_bytes(a.as_bytes(), b.as_bytes()),
        (Datum::TimeTz(a), Datum::TimeTz(b)) => a.cmp(b),
        (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (Datum::Float(a), Datum::Float(b)) => compare_floats(*a, *b),
        (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
        (Datum::Bytes(a), Datum::Bytes(b)) => compare_bytes(a, b),
        (Datum::Interval(a), Datum::Interval(b)) => a.cmp(b),
        (Datum::Array(a), Datum::Array(b)) => a.compare(b),
        (Datum::Row(a), Datum::Row(b)) => a.compare(b),
        (Datum::Jsonb(a), Datum::Jsonb(b)) => jsonb::compare(a, b),
        (Datum::Query(a), Datum::Query(b)) => compare_bytes(Query::compared(a), Query::compared(b)),
        (Datum::Range(a), Datum::Range(b)) => compare_bytes(ranges::compared(a), ranges::compared(b)),
        (Datum::Citext(a), Datum::Citext(b)) => {
            note_length(a.len().min(b.len()));
            citext::compare(a, b)
        }
        _ => variant(a).cmp(&variant(b)),
    }
}

/// Whether two values of the same variant are equal, as `=` has it; neither may be NULL.
#[inline]
#[must_use]
pub fn equal(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Int(a), Datum::Int(b)) => a == b,
        (Datum::Text(a), Datum::Text(b)) => {
            a.len() == b.len() && {
                note_length(a.len());
                a.as_bytes() == b.as_bytes()
            }
        }
        _ => compare(a, b) == Ordering::Equal,
    }
}

/// The order of byte strings. Long ones take long, and poll: see [`crate::pulse`].
#[inline]
fn compare_bytes(a: &[u8], b: &[u8]) -> Ordering {
    note_length(a.len().min(b.len()));
    a.cmp(b)
}

/// Bytes that are compared without counting them as work.
const BYTES_UNCOUNTED: usize = 1024;
/// Bytes that are compared in a unit of work.
const BYTES_PER_UNIT: usize = 64;

#[inline]
fn note_length(bytes: usize) {
    if bytes > BYTES_UNCOUNTED {
        pulse::note(bytes / BYTES_PER_UNIT);
    }
}

/// The order of floats: NaN is above everything and equal to NaN, -0 equals 0.
#[inline]
#[must_use]
pub fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Feeds a value to a hasher so that equal values (NULLs among them) hash alike.
#[inline]
pub fn hash_datum(value: &Datum, hasher: &mut impl Hasher) {
    match value {
        Datum::Null => hasher.write_u8(0),
        Datum::Bool(value) => hasher.write_u8(1 + u8::from(*value)),
        Datum::Int(value) | Datum::Time(value) | Datum::Timestamp(value) => hasher.write_i64(*value),
        Datum::Float(value) => {
            let value = if value.is_nan() {
                f64::NAN
            } else if *value == 0.0 {
                0.0
            } else {
                *value
            };
            hasher.write_u64(value.to_bits());
        }
        Datum::Numeric(value) => value.hash(hasher),
        Datum::Text(value) => value.as_str().hash(hasher),
        Datum::Bytes(value) => value.hash(hasher),
        Datum::Date(value) => hasher.write_i64(i64::from(*value)),
        Datum::TimeTz(value) => value.hash(hasher),
        Datum::Interval(value) => value.hash(hasher),
        Datum::Uuid(value) => value.hash(hasher),
        Datum::Array(array) => array.values().iter().for_each(|value| hash_datum(value, hasher)),
        Datum::Row(row) => row.values().iter().for_each(|value| hash_datum(value, hasher)),
        Datum::Jsonb(bytes) => jsonb::hash(bytes, hasher),
        Datum::Query(bytes) => Query::compared(bytes).hash(hasher),
        Datum::Range(bytes) => ranges::compared(bytes).hash(hasher),
        Datum::Citext(text) => citext::hash(text, hasher),
    }
}

fn variant(value: &Datum) -> u8 {
    match value {
        Datum::Bool(_) => 0,
        Datum::Int(_) => 1,
        Datum::Float(_) => 2,
        Datum::Numeric(_) => 3,
        Datum::Text(_) => 4,
        Datum::Bytes(_) => 5,
        Datum::Date(_) => 6,
        Datum::Time(_) => 7,
        Datum::Timestamp(_) => 8,
        Datum::Interval(_) => 9,
        Datum::Uuid(_) => 10,
        Datum::Null => 11,
        Datum::Array(_) => 12,
        Datum::Row(_) => 13,
        Datum::Jsonb(_) => 14,
        Datum::TimeTz(_) => 15,
        Datum::Query(_) => 16,
        Datum::Range(_) => 17,
        Datum::Citext(_) => 18,
    }
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use super::*;
    use crate::interval::Interval;
    use crate::numeric::Numeric;

    fn hash(value: &Datum) -> u64 {
        let mut hasher = DefaultHasher::new();
        hash_datum(value, &mut hasher);
        hasher.finish()
    }

    #[test]
    fn equal_values_of_different_form_hash_alike() {
        let pairs = [
            (Datum::Float(0.0), Datum::Float(-0.0)),
            (Datum::Float(f64::NAN), Datum::Float(-f64::NAN)),
            (Datum::Numeric(Numeric::new(10, 1)), Datum::Numeric(Numeric::new(1000, 3))),
            (Datum::Numeric(Numeric::new(0, 0)), Datum::Numeric(Numeric::new(0, 9))),
            (
                Datum::Interval(Interval { months: 1, days: 0, micros: 0 }),
                Datum::Interval(Interval { months: 0, days: 29, micros: 86_400_000_000 }),
            ),
        ];
        for (a, b) in pairs {
            assert_eq!(compare(&a, &b), Ordering::Equal, "{a:?} {b:?}");
            assert_eq!(hash(&a), hash(&b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn nan_is_above_infinity() {
        assert_eq!(compare(&Datum::Float(f64::NAN), &Datum::Float(f64::INFINITY)), Ordering::Greater);
        assert_eq!(compare(&Datum::Float(1.0), &Datum::Float(f64::NAN)), Ordering::Less);
    }
}

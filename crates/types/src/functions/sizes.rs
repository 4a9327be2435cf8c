//! `pg_column_size`: how many bytes a value takes.

use super::{Function, f, int};
use crate::types::Type::{AnyElement, Int4};
use crate::value::Datum;

/// The most bytes of a value whose length takes one byte in a row.
const SHORT_MAX: usize = 126;
/// What stands in front of an array's values, and of a row's.
const HEADER: usize = 24;

fn with_length(bytes: usize) -> usize {
    bytes + if bytes <= SHORT_MAX { 1 } else { 4 }
}

/// The bytes of a value without a fixed length, about as PostgreSQL's rows have it.
fn bytes_of(value: &Datum) -> usize {
    match value {
        Datum::Null => 0,
        Datum::Bool(_) => 1,
        Datum::Date(_) => 4,
        Datum::Int(_) | Datum::Float(_) | Datum::Time(_) | Datum::Timestamp(_) => 8,
        Datum::TimeTz(_) => 12,
        Datum::Interval(_) | Datum::Uuid(_) => 16,
        // Four digits in two bytes, and what says where the point is.
        Datum::Numeric(value) => with_length(2 + value.to_string().len().div_ceil(4) * 2),
        Datum::Text(text) | Datum::Citext(text) => with_length(text.len()),
        Datum::Bytes(bytes) | Datum::Query(bytes) | Datum::Range(bytes) => with_length(bytes.len()),
        Datum::Jsonb(bytes) => with_length(bytes.len()),
        Datum::Array(array) => HEADER + array.values().iter().map(bytes_of).sum::<usize>(),
        Datum::Row(row) => HEADER + row.values().iter().map(bytes_of).sum::<usize>(),
    }
}

/// `pg_column_size` of a value, behind the length of its type, which is not above 0 if its values
/// differ in it.
pub static COLUMN_SIZE: Function = f("pg_column_size", &[Int4, AnyElement], Int4, |a, _| {
    let fixed = int(a[0])?;
    Ok(Datum::Int(if fixed > 0 { fixed } else { bytes_of(a[1]) as i64 }))
});

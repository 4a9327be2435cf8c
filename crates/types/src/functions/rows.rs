//! Rows: making them, taking them apart, asking whether there is one.

use std::sync::Arc;

use super::{Function, f, int};
use crate::binary_io;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::pieces::{self, Pace};
use crate::row::{Row, RowType};
use crate::types::Modifier;
use crate::types::Type::{self, AnyElement, Bool, Int4, Record, Void};
use crate::value::Datum;

fn type_of(template: &Datum) -> Result<&Arc<RowType>> {
    match template {
        Datum::Row(row) => Ok(row.ty()),
        other => Err(Error::internal(format_args!("the type of a row is {other:?}"))),
    }
}

fn row_of(template: &Datum, values: &[&Datum]) -> Result<Datum> {
    let values = values.iter().map(|value| (*value).clone()).collect();
    Ok(Datum::Row(Arc::new(Row::new(Arc::clone(type_of(template)?), values))))
}

/// A row: behind one of its type, whose values do not matter, the values.
pub static ROW: Function = f("row", &[Record, Void], Record, |a, _| row_of(a[0], &a[1..])).variadic().called_on_null();

/// A row, or NULL where the value in front of its values is: that is one which no row has as NULL.
pub static ROW_IF_THERE: Function = f("row_if_there", &[Record, Void, Void], Record, |a, _| match a[1] {
    Datum::Null => Ok(Datum::Null),
    _ => row_of(a[0], &a[2..]),
})
.variadic()
.called_on_null();

/// A row, or NULL where all its values are.
pub static ROW_UNLESS_EMPTY: Function = f("row_unless_empty", &[Record, Void], Record, |a, _| {
    if a[1..].iter().all(|value| value.is_null()) { Ok(Datum::Null) } else { row_of(a[0], &a[1..]) }
})
.variadic()
.called_on_null();

/// Bits of a place of a row: 32 of a block and 16 of an offset.
const PLACE_BITS: u32 = 48;

/// `ctid` of a row whose key is one integer.
fn place(key: i64) -> Result<Datum> {
    if (0..1 << PLACE_BITS).contains(&key) {
        return Ok(Datum::Int(key));
    }
    let message =
        format!("the row with the key {key} has no ctid: those with keys from 0 to 2^{PLACE_BITS} - 1 have one");
    Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
}

/// `xmin` of a row: a hash of its values, by FNV-1a. Arguments are the codes of types and values by
/// turns.
fn version(args: &[&Datum]) -> Result<Datum> {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    /// PostgreSQL's first numbers mean something else.
    const RESERVED: u32 = 3;
    let (mut hash, mut bytes) = (BASIS, Vec::new());
    for pair in args.chunks_exact(2) {
        let ty = u32::try_from(int(pair[0])?).ok().and_then(Type::from_code).unwrap_or(Type::Text);
        bytes.clear();
        bytes.push(pair[1].is_null().into());
        binary_io::write_binary(ty, Modifier::NONE, pair[1], &mut bytes);
        bytes.extend_from_slice(&bytes.len().to_be_bytes());
        for piece in pieces::of_bytes(&bytes, Pace::Computed) {
            hash = piece?.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
        }
    }
    let folded = (hash ^ hash >> 32) as u32;
    Ok(Datum::Int(folded.max(RESERVED).into()))
}

/// The columns that tables have and nobody has declared.
pub(super) const SYSTEM_COLUMNS: &[Function] = &[
    f(".row_place", &[Type::Int8], Type::Tid, |a, _| place(int(a[0])?)),
    f(".row_version", &[Void], Type::Xid, |a, _| version(a)).variadic().called_on_null(),
];

/// The value at a place of a row, counted from 0.
pub static FIELD: Function = f("field", &[Record, Int4], AnyElement, |a, _| match a[0] {
    Datum::Row(row) => Ok(row.values().get(int(a[1])? as usize).cloned().unwrap_or_default()),
    other => Err(Error::internal(format_args!("a row is {other:?}"))),
});

/// A row of the type of a template, or NULL, with another value at a place. Behind the row come the
/// value and the place, counted from 0; further places are those within a row that is there.
pub static WITH_FIELD: Function = f("with_field", &[Record, Record, AnyElement, Int4], Record, |a, _| {
    let places = a[3..].iter().map(|place| int(place)).collect::<Result<Vec<i64>>>()?;
    with_value(type_of(a[0])?, a[1], &places, a[2])
})
.variadic()
.called_on_null();

fn with_value(ty: &Arc<RowType>, row: &Datum, places: &[i64], value: &Datum) -> Result<Datum> {
    let Some((&place, further)) = places.split_first() else { return Ok(value.clone()) };
    let mut values = match row {
        Datum::Row(row) => row.values().to_vec(),
        _ => vec![Datum::Null; ty.fields.len()],
    };
    if let (Some(field), Some((_, of))) = (values.get_mut(place as usize), ty.fields.get(place as usize)) {
        *field = match of.ty {
            Type::Composite(inner) if !further.is_empty() => with_value(inner.row_type(), field, further, value)?,
            _ => value.clone(),
        };
    }
    Ok(Datum::Row(Arc::new(Row::new(Arc::clone(ty), values))))
}

fn each(value: &Datum, is: fn(&Datum) -> bool) -> bool {
    match value {
        Datum::Row(row) => row.values().iter().all(is),
        value => is(value),
    }
}

/// `row IS NULL`: all its values are, or there is no row.
pub static ROW_IS_NULL: Function =
    f("row_is_null", &[Record], Bool, |a, _| Ok(Datum::Bool(each(a[0], Datum::is_null)))).called_on_null();

/// `row IS NOT NULL`: none of its values is, and there is a row.
pub static ROW_IS_NOT_NULL: Function =
    f("row_is_not_null", &[Record], Bool, |a, _: &Env| Ok(Datum::Bool(each(a[0], |value| !value.is_null()))))
        .called_on_null();

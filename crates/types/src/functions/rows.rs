//! Rows: making them, taking them apart, asking whether there is one.

use std::sync::Arc;

use super::{Function, f, int};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::row::{Row, RowType};
use crate::types::Type::{AnyElement, Bool, Int4, Record, Void};
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

/// The value at a place of a row, counted from 0.
pub static FIELD: Function = f("field", &[Record, Int4], AnyElement, |a, _| match a[0] {
    Datum::Row(row) => Ok(row.values().get(int(a[1])? as usize).cloned().unwrap_or_default()),
    other => Err(Error::internal(format_args!("a row is {other:?}"))),
});

/// A row of a type, or NULL, with another value at a place, counted from 0.
pub static WITH_FIELD: Function = f("with_field", &[Record, Record, Int4, AnyElement], Record, |a, _| {
    let ty = type_of(a[0])?;
    let mut values = match a[1] {
        Datum::Row(row) => row.values().to_vec(),
        _ => vec![Datum::Null; ty.fields.len()],
    };
    if let Some(value) = values.get_mut(int(a[2])? as usize) {
        *value = a[3].clone();
    }
    Ok(Datum::Row(Arc::new(Row::new(Arc::clone(ty), values))))
})
.called_on_null();

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

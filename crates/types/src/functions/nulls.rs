//! `num_nulls` and `num_nonnulls`: how many of some values are NULL.

use super::{Function, f, int};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::types::Type::{AnyArray, Bool, Int4};
use crate::value::Datum;

/// How many are true of those that say of each value whether it is to be counted.
fn count_true(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Int(a.iter().filter(|value| value.is_true()).count() as i64))
}

/// How many values of an array are NULL, or are not.
fn count_within(a: &[&Datum], _: &Env) -> Result<Datum> {
    let Datum::Array(array) = a[0] else { return Err(Error::internal("an array was expected")) };
    let (nulls, all) = (array.values().iter().filter(|value| value.is_null()).count(), array.values().len());
    Ok(Datum::Int(if int(a[1])? == 1 { nulls } else { all - nulls } as i64))
}

pub(super) const TABLE: &[Function] =
    &[f(".count_true", &[Bool], Int4, count_true).variadic(), f(".count_nulls", &[AnyArray, Int4], Int4, count_within)];

//! The functions that PostgreSQL's operators of comparison call, of types whose applications call them
//! by name, too: what such a type is compared by, is in `crate::operators`.

use std::cmp::Ordering;

use super::{Function, f};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::operators::compare;
use crate::types::Type::{Bool, Inet, Int4, MacAddr, MacAddr8, TsQuery, TsVector};
use crate::value::Datum;

fn order(args: &[&Datum]) -> Result<Ordering> {
    match args {
        [left, right] => Ok(compare(left, right)),
        _ => Err(Error::internal("a comparison of other than two values")),
    }
}

fn is(args: &[&Datum], holds: fn(Ordering) -> bool) -> Result<Datum> {
    order(args).map(|order| Datum::Bool(holds(order)))
}

/// The left value if it is on this side of the right one, otherwise the right one.
fn either(args: &[&Datum], side: Ordering) -> Result<Datum> {
    Ok(args[usize::from(order(args)? != side)].clone())
}

fn larger(args: &[&Datum], _: &Env) -> Result<Datum> {
    either(args, Ordering::Greater)
}

fn smaller(args: &[&Datum], _: &Env) -> Result<Datum> {
    either(args, Ordering::Less)
}

macro_rules! comparisons {
    ($($ty:ident $name:literal;)*) => {
        pub(super) const TABLE: &[Function] = &[
            $(
                f(concat!($name, "_eq"), &[$ty, $ty], Bool, |args, _| is(args, Ordering::is_eq)),
                f(concat!($name, "_ne"), &[$ty, $ty], Bool, |args, _| is(args, Ordering::is_ne)),
                f(concat!($name, "_lt"), &[$ty, $ty], Bool, |args, _| is(args, Ordering::is_lt)),
                f(concat!($name, "_le"), &[$ty, $ty], Bool, |args, _| is(args, Ordering::is_le)),
                f(concat!($name, "_gt"), &[$ty, $ty], Bool, |args, _| is(args, Ordering::is_gt)),
                f(concat!($name, "_ge"), &[$ty, $ty], Bool, |args, _| is(args, Ordering::is_ge)),
                f(concat!($name, "_cmp"), &[$ty, $ty], Int4, |args, _| {
                    order(args).map(|order| Datum::Int(order as i64))
                }),
            )*
            f("network_larger", &[Inet, Inet], Inet, larger),
            f("network_smaller", &[Inet, Inet], Inet, smaller),
        ];
    };
}

comparisons! {
    Inet "network";
    MacAddr "macaddr";
    MacAddr8 "macaddr8";
    TsVector "tsvector";
    TsQuery "tsquery";
}

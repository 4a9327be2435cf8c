//! Arrays: their parts, their shape, putting them together and taking them apart.
//!
//! A function of `anyarray` takes any array; the binder gives its result the type of the array at hand.

use std::sync::Arc;

use compact_str::CompactString;

use super::{Function, f, int, text};
use crate::array::Array;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::operators;
use crate::pieces::{self, Pace};
use crate::pulse;
use crate::text_io;
use crate::types::Type::{self, AnyArray, AnyElement, Bool, Int4, Record, Text};
use crate::value::Datum;

/// What dealing with a value of an array takes, in units of work.
const UNITS_PER_VALUE: usize = 8;

fn array(value: &Datum) -> Result<&Array> {
    match value {
        Datum::Array(array) => Ok(array),
        other => Err(Error::internal(format_args!("a function of arrays was called with {other:?}"))),
    }
}

fn made(array: Array) -> Datum {
    Datum::Array(Arc::new(array))
}

fn dimension(args: &[&Datum], of: fn(&crate::array::Dimension) -> i64) -> Result<Datum> {
    let at = usize::try_from(int(args[1])? - 1).ok();
    let found = at.and_then(|at| array(args[0]).map(|array| array.dimensions().get(at)).transpose());
    Ok(found.transpose()?.map_or(Datum::Null, |dimension| Datum::Int(of(dimension))))
}

fn subscript(args: &[&Datum], _: &Env) -> Result<Datum> {
    let subscripts = args[1..].iter().map(|arg| int(arg)).collect::<Result<Vec<_>>>()?;
    Ok(array(args[0])?.get(&subscripts).cloned().unwrap_or_default())
}

/// `array_to_string`: NULLs are left out unless there is a text for them.
fn joined(args: &[&Datum], env: &Env) -> Result<Datum> {
    if args[0].is_null() || args[1].is_null() {
        return Ok(Datum::Null);
    }
    let (values, separator) = (array(args[0])?, text(args[1])?);
    let mut out = String::new();
    let mut first = true;
    for value in values.values() {
        pulse::work(UNITS_PER_VALUE)?;
        let for_null = match args.get(2) {
            Some(Datum::Text(text)) if value.is_null() => Some(text),
            _ if value.is_null() => continue,
            _ => None,
        };
        if !std::mem::take(&mut first) {
            super::check_length(out.len() + separator.len())?;
            pieces::pass(separator.len(), Pace::Copied)?;
            out.push_str(separator);
        }
        match for_null {
            Some(text) => out.push_str(text),
            None => text_io::write(values.element(), value, env, &mut out),
        }
        super::check_length(out.len())?;
    }
    pulse::check()?;
    Ok(Datum::Text(CompactString::from(out)))
}

/// `string_to_array`: without a separator each character is a value; an empty one leaves the text whole.
fn split(args: &[&Datum], _: &Env) -> Result<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let whole = text(args[0])?;
    let null = match args.get(2) {
        Some(Datum::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let value = |part: &str| {
        pulse::work(UNITS_PER_VALUE)?;
        if null == Some(part) { Ok(Datum::Null) } else { pieces::copy(part) }
    };
    let parts: Vec<Datum> = match args[1] {
        _ if whole.is_empty() => Vec::new(),
        Datum::Null => whole.chars().map(|c| value(c.encode_utf8(&mut [0; 4]))).collect::<Result<_>>()?,
        Datum::Text(separator) if separator.is_empty() => vec![value(whole)?],
        separator => {
            let separator = text(separator)?;
            let needle = pieces::Needle::new(separator);
            let (mut parts, mut at) = (Vec::new(), 0);
            while let Some(found) = needle.find(whole.as_bytes(), at)? {
                parts.push(value(&whole[at..found])?);
                at = found + separator.len();
            }
            parts.push(value(&whole[at..])?);
            parts
        }
    };
    Ok(made(Array::new(Type::Text, parts)))
}

/// One dimension's values, and what they are counted from.
fn flat(array: &Array) -> Result<(Vec<Datum>, i32)> {
    match array.dimensions() {
        [] => Ok((Vec::new(), 1)),
        [one] => {
            let mut values = Vec::with_capacity(array.values().len() + 1);
            pieces::extend(&mut values, array.values())?;
            Ok((values, one.lower))
        }
        _ => Err(Error::new(SqlState("22000"), "argument must be empty or one-dimensional array")),
    }
}

fn append(args: &[&Datum], _: &Env) -> Result<Datum> {
    let Datum::Array(whole) = args[0] else {
        // NULL is an array without values here.
        return Ok(made(Array::new(Type::Unknown, vec![args[1].clone()])));
    };
    let (mut values, lower) = flat(whole)?;
    values.push(args[1].clone());
    Ok(made(Array::counted_from(whole.element(), values, lower)))
}

fn prepend(args: &[&Datum], _: &Env) -> Result<Datum> {
    let Datum::Array(whole) = args[1] else {
        return Ok(made(Array::new(Type::Unknown, vec![args[0].clone()])));
    };
    let (mut values, lower) = flat(whole)?;
    values.insert(0, args[0].clone());
    Ok(made(Array::counted_from(whole.element(), values, lower)))
}

fn concatenated(args: &[&Datum], _: &Env) -> Result<Datum> {
    let (left, right) = match (args[0], args[1]) {
        (Datum::Null, other) | (other, Datum::Null) => return Ok(other.clone()),
        (left, right) => (array(left)?, array(right)?),
    };
    if left.dimensions().is_empty() || right.dimensions().is_empty() {
        return Ok(if left.dimensions().is_empty() { args[1].clone() } else { args[0].clone() });
    }
    Ok(made(left.followed_by(right)?))
}

fn same(a: &Datum, b: &Datum) -> bool {
    match (a.is_null(), b.is_null()) {
        (false, false) => operators::equal(a, b),
        (a, b) => a && b,
    }
}

fn position(args: &[&Datum], _: &Env) -> Result<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let (values, lower) = flat(array(args[0])?)?;
    for (at, value) in values.iter().enumerate() {
        pulse::work(1)?;
        if same(value, args[1]) {
            return Ok(Datum::Int(at as i64 + i64::from(lower)));
        }
    }
    Ok(Datum::Null)
}

fn removed(args: &[&Datum], _: &Env) -> Result<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let whole = array(args[0])?;
    let (all, lower) = flat(whole)?;
    let mut values = Vec::with_capacity(all.len());
    for value in all {
        pulse::work(1)?;
        if !same(&value, args[1]) {
            values.push(value);
        }
    }
    Ok(made(Array::counted_from(whole.element(), values, lower)))
}

/// Whether a value is in an array, NULL in none.
fn has(array: &Array, wanted: &Datum) -> Result<bool> {
    for value in array.values() {
        pulse::work(1)?;
        if !value.is_null() && !wanted.is_null() && same(value, wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether all values of one array are in another, NULLs in none.
fn holds(whole: &Array, parts: &Array) -> Result<Datum> {
    for part in parts.values() {
        if !has(whole, part)? {
            return Ok(Datum::Bool(false));
        }
    }
    Ok(Datum::Bool(true))
}

fn overlaps(args: &[&Datum], _: &Env) -> Result<Datum> {
    let (left, right) = (array(args[0])?, array(args[1])?);
    for value in left.values() {
        if has(right, value)? {
            return Ok(Datum::Bool(true));
        }
    }
    Ok(Datum::Bool(false))
}

fn shape(args: &[&Datum], _: &Env) -> Result<Datum> {
    let bounds = array(args[0])?.dimensions().iter().map(|one| format!("[{}:{}]", one.lower, one.upper()));
    let bounds: String = bounds.collect();
    Ok(if bounds.is_empty() { Datum::Null } else { Datum::text(&bounds) })
}

pub(super) const TABLE: &[Function] = &[
    f("[]", &[AnyArray, Int4], AnyElement, subscript).variadic(),
    // The parts of what _pg_expandarray gives.
    f(".x", &[Record], Int4, |a, _| Ok(array(a[0])?.get(&[1]).cloned().unwrap_or_default())),
    f(".n", &[Record], Int4, |a, _| Ok(array(a[0])?.get(&[2]).cloned().unwrap_or_default())),
    f("array_length", &[AnyArray, Int4], Int4, |a, _| dimension(a, |one| one.length as i64)),
    f("array_lower", &[AnyArray, Int4], Int4, |a, _| dimension(a, |one| one.lower.into())),
    f("array_upper", &[AnyArray, Int4], Int4, |a, _| dimension(a, |one| one.upper())),
    f("array_ndims", &[AnyArray], Int4, |a, _| match array(a[0])?.dimensions().len() {
        0 => Ok(Datum::Null),
        count => Ok(Datum::Int(count as i64)),
    }),
    f("array_dims", &[AnyArray], Text, shape),
    f("cardinality", &[AnyArray], Int4, |a, _| Ok(Datum::Int(array(a[0])?.values().len() as i64))),
    f("array_to_string", &[AnyArray, Text], Text, joined).stable(),
    f("array_to_string", &[AnyArray, Text, Text], Text, joined).stable().called_on_null(),
    f("string_to_array", &[Text, Text], Type::Text.array_of(), split).called_on_null(),
    f("string_to_array", &[Text, Text, Text], Type::Text.array_of(), split).called_on_null(),
    f("array_append", &[AnyArray, AnyElement], AnyArray, append).called_on_null(),
    f("array_prepend", &[AnyElement, AnyArray], AnyArray, prepend).called_on_null(),
    f("array_cat", &[AnyArray, AnyArray], AnyArray, concatenated).called_on_null(),
    f("array_position", &[AnyArray, AnyElement], Int4, position).called_on_null(),
    f("array_remove", &[AnyArray, AnyElement], AnyArray, removed).called_on_null(),
    f("@>", &[AnyArray, AnyArray], Bool, |a, _| holds(array(a[0])?, array(a[1])?)),
    f("<@", &[AnyArray, AnyArray], Bool, |a, _| holds(array(a[1])?, array(a[0])?)),
    f("&&", &[AnyArray, AnyArray], Bool, overlaps),
];

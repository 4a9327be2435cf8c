//! Arrays: their parts, their shape, putting them together and taking them apart.
//!
//! A function of `anyarray` takes any array; the binder gives its result the type of the array at
//! hand.

use std::borrow::Cow;
use std::sync::Arc;

use compact_str::CompactString;

use super::{Function, f, int, text};
use crate::array::{Array, Dimension};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::operators;
use crate::pieces::{self, Pace};
use crate::pulse;
use crate::text_io;
use crate::types::Type::{self, AnyArray, AnyElement, Bool, Int4, Oid, Text};
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

/// `string_to_array`: without a separator each character is a value; an empty one leaves the text
/// whole.
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
        if null == Some(part) { Ok(Datum::Null) } else { crate::copies::copy(part) }
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
            crate::copies::extend(&mut values, array.values())?;
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

/// The values of an array of one dimension, and what they are counted from.
fn row_of<'a>(array: &'a Array, doing: &str) -> Result<(&'a [Datum], i32)> {
    match array.dimensions() {
        [] => Ok((&[], 1)),
        [one] => Ok((array.values(), one.lower)),
        _ => Err(Error::unsupported(format_args!("{doing} multidimensional arrays"))),
    }
}

/// `array_position(array, wanted [, start])`
fn position(args: &[&Datum], _: &Env) -> Result<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let (values, lower) = row_of(array(args[0])?, "searching for elements in")?;
    let start = match args.get(2) {
        None => 0,
        Some(Datum::Null) => {
            return Err(Error::new(SqlState::NULL_NOT_ALLOWED, "initial position must not be null"));
        }
        Some(start) => usize::try_from(int(start)? - i64::from(lower)).unwrap_or(0),
    };
    for (at, value) in values.iter().enumerate().skip(start) {
        pulse::work(1)?;
        if same(value, args[1]) {
            return Ok(Datum::Int(at as i64 + i64::from(lower)));
        }
    }
    Ok(Datum::Null)
}

fn positions(args: &[&Datum], _: &Env) -> Result<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let (values, lower) = row_of(array(args[0])?, "searching for elements in")?;
    let mut found = Vec::new();
    for (at, value) in values.iter().enumerate() {
        pulse::work(1)?;
        if same(value, args[1]) {
            found.push(Datum::Int(at as i64 + i64::from(lower)));
        }
    }
    Ok(made(Array::new(Int4, found)))
}

fn removed(args: &[&Datum], _: &Env) -> Result<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let whole = array(args[0])?;
    let (all, lower) = row_of(whole, "removing elements from")?;
    let mut values = Vec::with_capacity(all.len());
    for value in all {
        pulse::work(1)?;
        if !same(value, args[1]) {
            values.push(value.clone());
        }
    }
    Ok(made(Array::counted_from(whole.element(), values, lower)))
}

/// `array_replace(array, from, to)`
fn replaced(args: &[&Datum], _: &Env) -> Result<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let other = |value: &Datum| Ok(if same(value, args[1]) { args[2].clone() } else { value.clone() });
    Ok(made(array(args[0])?.map(other)?))
}

/// `array_fill(value, lengths [, lower bounds])`
fn filled(args: &[&Datum], _: &Env) -> Result<Datum> {
    let null = |message| Error::new(SqlState::NULL_NOT_ALLOWED, message);
    let wrong_shape = |detail| Error::new(SqlState("2202E"), "wrong number of array subscripts").detail(detail);
    if args[1..].iter().any(|arg| arg.is_null()) {
        return Err(null("dimension array or low bound array cannot be null"));
    }
    let numbers = |arg: &Datum, detail| {
        let numbers = array(arg)?;
        if numbers.dimensions().len() > 1 {
            return Err(wrong_shape(detail));
        }
        let number = |value: &Datum| match value {
            Datum::Null => Err(null("dimension values cannot be null")),
            value => int(value),
        };
        numbers.values().iter().map(number).collect::<Result<Vec<i64>>>()
    };
    let lengths = numbers(args[1], "Dimension array must be one dimensional.")?;
    let lowers = match args.get(2) {
        Some(lowers) => numbers(lowers, "Dimension array must be one dimensional.")?,
        None => vec![1; lengths.len()],
    };
    if lowers.len() != lengths.len() {
        return Err(wrong_shape("Low bound array has different size than dimensions array."));
    }
    let dimension = |(length, lower): (&i64, &i64)| Dimension {
        // A negative number is too large, as it is there.
        length: usize::try_from(*length).unwrap_or(usize::MAX),
        lower: *lower as i32,
    };
    let dimensions = lengths.iter().zip(&lowers).map(dimension).collect();
    Ok(made(Array::filled(Type::Unknown, args[0], dimensions)?))
}

/// `trim_array(array, count)`: without its last parts.
fn trimmed(args: &[&Datum], _: &Env) -> Result<Datum> {
    let (whole, count) = (array(args[0])?, int(args[1])?);
    let first = whole.dimensions().first();
    let length = first.map_or(0, |first| first.length as i64);
    if !(0..=length).contains(&count) {
        let message = format!("number of elements to trim must be between 0 and {length}");
        return Err(Error::new(SqlState("2202E"), message));
    }
    Ok(made(whole.slice(&[(None, first.map(|first| first.upper() - count))])?))
}

/// `array[lower:upper]…`: behind the array, which of the bounds are missing, a bit for each, and
/// the bounds.
fn sliced(args: &[&Datum], _: &Env) -> Result<Datum> {
    let (whole, missing) = (array(args[0])?, int(args[1])?);
    let bound = |at: usize| match missing >> at & 1 {
        0 => int(args[2 + at]).map(Some),
        _ => Ok(None),
    };
    let pairs = (0..(args.len() - 2) / 2).map(|at| Ok((bound(2 * at)?, bound(2 * at + 1)?)));
    Ok(made(whole.slice(&pairs.collect::<Result<Vec<_>>>()?)?))
}

/// `width_bucket(value, thresholds)`: how many of the thresholds, which ascend, are not above the
/// value.
fn bucket(args: &[&Datum], _: &Env) -> Result<Datum> {
    let thresholds = array(args[1])?;
    if thresholds.dimensions().len() > 1 {
        return Err(Error::new(SqlState("2202E"), "thresholds must be one-dimensional array"));
    }
    pulse::work(thresholds.values().len() / UNITS_PER_VALUE)?;
    if thresholds.values().iter().any(Datum::is_null) {
        return Err(Error::new(SqlState::NULL_NOT_ALLOWED, "thresholds array must not contain NULLs"));
    }
    let below = thresholds.values().partition_point(|value| operators::compare(value, args[0]).is_le());
    Ok(Datum::Int(below as i64))
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

/// `enum_range`: all labels of an enum, of which those between two others are asked for. NULL bounds
/// nothing. No statement calls it by this name.
pub static ENUM_RANGE: Function = f("enum_range_of", &[AnyArray, AnyElement, AnyElement], AnyArray, |a, _| {
    let all = array(a[0])?;
    let is_within = |value: &&Datum| {
        let not_below = |bound: &Datum| bound.is_null() || operators::compare(value, bound).is_ge();
        let not_above = |bound: &Datum| bound.is_null() || operators::compare(value, bound).is_le();
        not_below(a[1]) && not_above(a[2])
    };
    let values = all.values().iter().filter(is_within).cloned().collect();
    Ok(Datum::Array(Arc::new(Array::new(all.element(), values))))
})
.called_on_null();

/// `a[1][2] = value`: the array, the number of the type of its values, the value, the subscripts.
pub static WITH_VALUE: Function = f("[]=", &[AnyArray, Oid, AnyElement, Int4], AnyArray, |a, _| {
    let mut subscripts = Vec::with_capacity(a.len() - 3);
    for subscript in &a[3..] {
        subscripts.push(written_subscript(subscript)?);
    }
    Ok(made(written(a)?.with_value(&subscripts, a[2].clone())?))
})
.variadic()
.called_on_null();

/// `a[1:2][3:4] = values`: the array, the number of the type of its values, the values, which of
/// the bounds are missing, a bit for each, and the bounds.
pub static WITH_SLICE: Function = f("[:]=", &[AnyArray, Oid, AnyArray, Int4, Int4], AnyArray, |a, _| {
    let missing = int(a[3])?;
    let bound = |at: usize| match missing >> at & 1 {
        0 => written_subscript(a[4 + at]).map(Some),
        _ => Ok(None),
    };
    let pairs = (0..(a.len() - 4) / 2).map(|at| Ok((bound(2 * at)?, bound(2 * at + 1)?)));
    let pairs = pairs.collect::<Result<Vec<_>>>()?;
    let whole = written(a)?;
    match a[2] {
        Datum::Null => Ok(made(whole.into_owned())),
        source => Ok(made(whole.with_slice(&pairs, array(source)?)?)),
    }
})
.variadic()
.called_on_null();

/// The array that is written to; NULL is an empty one.
fn written<'a>(args: &[&'a Datum]) -> Result<Cow<'a, Array>> {
    match args[0] {
        Datum::Null => {
            let element = u32::try_from(int(args[1])?).ok().and_then(Type::from_code);
            Ok(Cow::Owned(Array::new(element.unwrap_or(Type::Unknown), Vec::new())))
        }
        whole => array(whole).map(Cow::Borrowed),
    }
}

fn written_subscript(subscript: &Datum) -> Result<i64> {
    match subscript {
        Datum::Null => Err(Error::new(SqlState::NULL_NOT_ALLOWED, "array subscript in assignment must not be null")),
        subscript => int(subscript),
    }
}

pub(super) const TABLE: &[Function] = &[
    f("[]", &[AnyArray, Int4], AnyElement, subscript).variadic(),
    f("[:]", &[AnyArray, Int4, Int4], AnyArray, sliced).variadic(),
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
    f("array_position", &[AnyArray, AnyElement, Int4], Int4, position).called_on_null(),
    f("array_positions", &[AnyArray, AnyElement], Int4.array_of(), positions).called_on_null(),
    f("array_replace", &[AnyArray, AnyElement, AnyElement], AnyArray, replaced).called_on_null(),
    f("array_fill", &[AnyElement, Int4.array_of()], AnyArray, filled).called_on_null(),
    f("array_fill", &[AnyElement, Int4.array_of(), Int4.array_of()], AnyArray, filled).called_on_null(),
    f("trim_array", &[AnyArray, Int4], AnyArray, trimmed),
    f("width_bucket", &[AnyElement, AnyArray], Int4, bucket),
    f("array_remove", &[AnyArray, AnyElement], AnyArray, removed).called_on_null(),
    f("@>", &[AnyArray, AnyArray], Bool, |a, _| holds(array(a[0])?, array(a[1])?)),
    f("<@", &[AnyArray, AnyArray], Bool, |a, _| holds(array(a[1])?, array(a[0])?)),
    f("&&", &[AnyArray, AnyArray], Bool, overlaps),
];

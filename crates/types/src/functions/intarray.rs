//! The functions and operators of the extension `intarray`: arrays of integers as lists and as sets.
//!
//! None of the arrays may have NULLs. What is made of several values is a list counted from 1; what
//! only leaves values out keeps what the array was counted from.

use std::sync::Arc;

use super::{Function, f, int, text};
use crate::array::{Array, Dimension};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::int_query::IntQuery;
use crate::pulse;
use crate::types::Type;
use crate::types::Type::{Bool, Int4, IntQuery as Q, Text};
use crate::value::Datum;

const A: Type = Int4.array_of();

/// So many integers are sorted at once.
const PIECE: usize = 1 << 14;

fn array(value: &Datum) -> Result<&Arc<Array>> {
    match value {
        Datum::Array(array) => Ok(array),
        other => Err(Error::internal(format_args!("a function of arrays was called with {other:?}"))),
    }
}

/// The integers of an array.
fn list(value: &Datum) -> Result<Vec<i32>> {
    let values = array(value)?.values();
    pulse::work(values.len())?;
    let number = |value: &Datum| match value {
        Datum::Null => Err(Error::new(SqlState("22004"), "array must not contain nulls")),
        value => int(value).map(|value| value as i32),
    };
    values.iter().map(number).collect()
}

fn sorted(value: &Datum) -> Result<Vec<i32>> {
    let mut list = list(value)?;
    sort(&mut list)?;
    Ok(list)
}

/// Sorts, with chances for others in between: pieces first, then pieces of twice the size out of two.
fn sort(list: &mut Vec<i32>) -> Result<()> {
    for piece in list.chunks_mut(PIECE) {
        pulse::work(7 * piece.len())?;
        piece.sort_unstable();
    }
    let mut width = PIECE;
    while width < list.len() {
        let mut merged = Vec::with_capacity(list.len());
        for pair in list.chunks(2 * width) {
            let (mut one, mut other) = pair.split_at(width.min(pair.len()));
            while let ([first, rest @ ..], [second, others @ ..]) = (one, other) {
                if merged.len() % PIECE == 0 {
                    pulse::work(PIECE)?;
                }
                if second < first {
                    merged.push(*second);
                    other = others;
                } else {
                    merged.push(*first);
                    one = rest;
                }
            }
            merged.extend_from_slice(one);
            merged.extend_from_slice(other);
        }
        *list = merged;
        width *= 2;
    }
    Ok(())
}

/// The integers of an array in their order, each once.
fn set(value: &Datum) -> Result<Vec<i32>> {
    let mut list = sorted(value)?;
    list.dedup();
    Ok(list)
}

fn datums(list: Vec<i32>) -> Vec<Datum> {
    list.into_iter().map(|value| Datum::Int(i64::from(value))).collect()
}

/// A list.
fn made(list: Vec<i32>) -> Datum {
    Datum::Array(Arc::new(Array::new(Int4, datums(list))))
}

/// An array with fewer values, or others.
fn kept(of: &Datum, list: Vec<i32>) -> Result<Datum> {
    let of = array(of)?;
    if list.len() == of.values().len() {
        return Ok(Datum::Array(Arc::new(of.with_values(Int4, datums(list)))));
    }
    let mut count = list.len();
    let mut dimensions = of.dimensions().to_vec();
    for dimension in &mut dimensions {
        *dimension = Dimension { length: std::mem::replace(&mut count, 1), ..*dimension };
    }
    if list.is_empty() {
        return Ok(made(list));
    }
    let shaped = Array::of_parts(Int4, &dimensions, datums(list));
    shaped.map(|array| Datum::Array(Arc::new(array))).ok_or_else(|| Error::internal("an array has lost its shape"))
}

fn in_order(a: &[&Datum], falls: bool) -> Result<Datum> {
    let mut list = sorted(a[0])?;
    if falls {
        list.reverse();
    }
    kept(a[0], list)
}

fn rising(a: &[&Datum], _: &Env) -> Result<Datum> {
    in_order(a, false)
}

fn falling(a: &[&Datum], _: &Env) -> Result<Datum> {
    in_order(a, true)
}

fn sort_as_said(a: &[&Datum], _: &Env) -> Result<Datum> {
    if list(a[0])?.len() < 2 {
        return Ok(a[0].clone());
    }
    let order = text(a[1])?;
    if order.eq_ignore_ascii_case("asc") {
        return in_order(a, false);
    }
    if order.eq_ignore_ascii_case("desc") {
        return in_order(a, true);
    }
    Err(Error::new(SqlState::BAD_PARAMETER, "second parameter must be \"ASC\" or \"DESC\""))
}

fn uniq(a: &[&Datum], _: &Env) -> Result<Datum> {
    let mut list = list(a[0])?;
    list.dedup();
    kept(a[0], list)
}

fn count(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::Int(array(a[0])?.values().len() as i64))
}

fn index(a: &[&Datum], _: &Env) -> Result<Datum> {
    let wanted = int(a[1])? as i32;
    let place = list(a[0])?.into_iter().position(|value| value == wanted);
    Ok(Datum::Int(place.map_or(0, |place| place as i64 + 1)))
}

fn part(a: &[&Datum], _: &Env) -> Result<Datum> {
    let list = list(a[0])?;
    let (start, length) = (int(a[1])?, a.get(2).map_or(Ok(0), |length| int(length))?);
    let count = list.len() as i64;
    let start = match start {
        1.. => start - 1,
        0 => 0,
        _ => start + count,
    };
    let end = match length {
        1.. => start + length,
        0 => count,
        _ => count + length,
    };
    let (start, end) = (start.max(0), end.min(count));
    if start >= end {
        return Ok(made(Vec::new()));
    }
    Ok(made(list[start as usize..end as usize].to_vec()))
}

fn push(a: &[&Datum], _: &Env) -> Result<Datum> {
    let mut list = list(a[0])?;
    list.push(int(a[1])? as i32);
    Ok(made(list))
}

fn join(a: &[&Datum], _: &Env) -> Result<Datum> {
    let mut joined = list(a[0])?;
    joined.extend(list(a[1])?);
    Ok(made(joined))
}

fn without(a: &[&Datum], _: &Env) -> Result<Datum> {
    let gone = int(a[1])? as i32;
    let list = list(a[0])?.into_iter().filter(|value| *value != gone).collect();
    kept(a[0], list)
}

fn with(a: &[&Datum], _: &Env) -> Result<Datum> {
    let mut list = list(a[0])?;
    list.push(int(a[1])? as i32);
    sort(&mut list)?;
    list.dedup();
    Ok(made(list))
}

fn union(a: &[&Datum], _: &Env) -> Result<Datum> {
    let mut union = list(a[0])?;
    union.extend(list(a[1])?);
    sort(&mut union)?;
    union.dedup();
    Ok(made(union))
}

/// The integers of one set that are, or are not, in another one.
fn shared(a: &[&Datum], are: bool) -> Result<Datum> {
    let (one, other) = (set(a[0])?, set(a[1])?);
    let (mut kept, mut left) = (Vec::new(), &other[..]);
    for piece in one.chunks(PIECE) {
        pulse::work(4 * piece.len())?;
        for value in piece {
            left = &left[left.partition_point(|before| before < value)..];
            if (left.first() == Some(value)) == are {
                kept.push(*value);
            }
        }
    }
    Ok(made(kept))
}

fn intersection(a: &[&Datum], _: &Env) -> Result<Datum> {
    shared(a, true)
}

fn difference(a: &[&Datum], _: &Env) -> Result<Datum> {
    shared(a, false)
}

fn contains(a: &[&Datum], _: &Env) -> Result<Datum> {
    let (one, other) = (set(a[0])?, set(a[1])?);
    pulse::work(4 * other.len())?;
    Ok(Datum::Bool(other.iter().all(|value| one.binary_search(value).is_ok())))
}

fn is_contained(a: &[&Datum], env: &Env) -> Result<Datum> {
    contains(&[a[1], a[0]], env)
}

fn overlaps(a: &[&Datum], _: &Env) -> Result<Datum> {
    let (one, other) = (set(a[0])?, set(a[1])?);
    pulse::work(4 * other.len())?;
    Ok(Datum::Bool(other.iter().any(|value| one.binary_search(value).is_ok())))
}

fn holds(a: &[&Datum], _: &Env) -> Result<Datum> {
    IntQuery::parse(text(a[1])?)?.holds(&set(a[0])?).map(Datum::Bool)
}

fn holds_of(a: &[&Datum], env: &Env) -> Result<Datum> {
    holds(&[a[1], a[0]], env)
}

const TWO: &[Type] = &[A, A];
const WITH_ONE: &[Type] = &[A, Int4];

const fn i(name: &'static str, args: &'static [Type], result: Type, eval: super::Eval) -> Function {
    f(name, args, result, eval).of_extension("intarray")
}

pub(super) const TABLE: &[Function] = &[
    i("#", &[A], Int4, count),
    i("#", WITH_ONE, Int4, index),
    i("&", TWO, A, intersection),
    i("&&", TWO, Bool, overlaps),
    i("+", WITH_ONE, A, push),
    i("+", TWO, A, join),
    i("-", WITH_ONE, A, without),
    i("-", TWO, A, difference),
    i("<@", TWO, Bool, is_contained),
    i("@>", TWO, Bool, contains),
    i("@@", &[A, Q], Bool, holds),
    i("~~", &[Q, A], Bool, holds_of),
    i("|", WITH_ONE, A, with),
    i("|", TWO, A, union),
    i("_int_contained", TWO, Bool, is_contained),
    i("_int_contains", TWO, Bool, contains),
    i("_int_different", TWO, Bool, |a, _| Ok(Datum::Bool(sorted(a[0])? != sorted(a[1])?))),
    i("_int_inter", TWO, A, intersection),
    i("_int_overlap", TWO, Bool, overlaps),
    i("_int_same", TWO, Bool, |a, _| Ok(Datum::Bool(sorted(a[0])? == sorted(a[1])?))),
    i("_int_union", TWO, A, union),
    i("boolop", &[A, Q], Bool, holds),
    i("icount", &[A], Int4, count),
    i("idx", WITH_ONE, Int4, index),
    i("intarray_del_elem", WITH_ONE, A, without),
    i("intarray_push_array", TWO, A, join),
    i("intarray_push_elem", WITH_ONE, A, push),
    i("intset", &[Int4], A, |a, _| Ok(made(vec![int(a[0])? as i32]))),
    i("intset_subtract", TWO, A, difference),
    i("intset_union_elem", WITH_ONE, A, with),
    i("querytree", &[Q], Text, |_, _| {
        Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "querytree is no longer implemented"))
    }),
    i("rboolop", &[Q, A], Bool, holds_of),
    i("sort", &[A], A, rising),
    i("sort", &[A, Text], A, sort_as_said),
    i("sort_asc", &[A], A, rising),
    i("sort_desc", &[A], A, falling),
    i("subarray", WITH_ONE, A, part),
    i("subarray", &[A, Int4, Int4], A, part),
    i("uniq", &[A], A, uniq),
];

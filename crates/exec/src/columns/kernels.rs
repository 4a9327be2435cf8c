//! The steps of a program on whole vectors.
//!
//! Invariants: a kernel gives for each row what evaluating the expression gives, NULLs included, or
//! nothing at all: where a value overflows, a divisor is zero, numerics of several scales would
//! come, or operands are of kinds that it does not know. It never fails by itself. What stands in
//! the places of NULLs is of no account.

use std::cmp::Ordering;

use colibri_types::column_vector::{ColumnVector, Lanes, Texts, Word};
use colibri_types::interval::DAY_US;
use colibri_types::like::Pattern;
use colibri_types::numeric::SMALL_SCALE_MAX;
use colibri_types::{Datum, Result, Type, datetime, operators};

use crate::expr::CompareOp;
use crate::plan::columns::Arithmetic;

/// What a step works on.
#[derive(Clone, Copy)]
pub(super) enum Operand<'a> {
    /// A value for each row.
    Vector(&'a ColumnVector),
    /// The same for all rows.
    Fixed(&'a Datum),
}

impl<'a> Operand<'a> {
    fn nulls(self) -> &'a [bool] {
        match self {
            Self::Vector(vector) => vector.nulls(),
            Self::Fixed(_) => &[],
        }
    }

    fn is_null(self, row: usize) -> bool {
        match self {
            Self::Vector(vector) => vector.is_null(row),
            Self::Fixed(value) => value.is_null(),
        }
    }
}

/// One side of what is computed of two.
#[derive(Clone, Copy)]
enum Side<'a, T> {
    Each(&'a [T]),
    One(T),
}

/// Integers, and what else is counted in words.
fn words(operand: Operand<'_>) -> Option<(Word, Side<'_, i64>)> {
    Some(match operand {
        Operand::Vector(vector) => match vector.lanes() {
            Lanes::Words(word, words) => (*word, Side::Each(words)),
            _ => return None,
        },
        Operand::Fixed(value) => match value {
            Datum::Int(word) => (Word::Int, Side::One(*word)),
            Datum::Date(days) => (Word::Date, Side::One(i64::from(*days))),
            Datum::Time(word) => (Word::Time, Side::One(*word)),
            Datum::Timestamp(word) => (Word::Timestamp, Side::One(*word)),
            _ => return None,
        },
    })
}

/// Numerics, and how many of their digits are behind the point.
fn decimals(operand: Operand<'_>) -> Option<(u8, Side<'_, i64>)> {
    match operand {
        Operand::Vector(vector) => match vector.lanes() {
            Lanes::Decimals(scale, words) => Some((*scale, Side::Each(words))),
            _ => None,
        },
        Operand::Fixed(Datum::Numeric(value)) => {
            let (mantissa, scale) = value.small()?;
            Some((scale, Side::One(i64::try_from(mantissa).ok()?)))
        }
        Operand::Fixed(_) => None,
    }
}

/// Which rows are NULL if those of either side are.
fn nulls_of(left: &[bool], right: &[bool]) -> Vec<bool> {
    match (left, right) {
        ([], nulls) | (nulls, []) => nulls.to_vec(),
        (left, right) => left.iter().zip(right).map(|(left, right)| left | right).collect(),
    }
}

/// Computes something of each pair; also whether it went wrong for any.
#[inline]
fn each_pair<T: Copy, R>(left: Side<'_, T>, right: Side<'_, T>, compute: impl Fn(T, T) -> (R, bool)) -> Option<Vec<R>> {
    let mut is_wrong = false;
    let mut checked = |left: T, right: T| {
        let (value, wrong) = compute(left, right);
        is_wrong |= wrong;
        value
    };
    let all = match (left, right) {
        (Side::Each(left), Side::Each(right)) => left.iter().zip(right).map(|(&a, &b)| checked(a, b)).collect(),
        (Side::Each(left), Side::One(right)) => left.iter().map(|&a| checked(a, right)).collect(),
        (Side::One(left), Side::Each(right)) => right.iter().map(|&b| checked(left, b)).collect(),
        (Side::One(_), Side::One(_)) => return None,
    };
    (!is_wrong).then_some(all)
}

/// Arithmetic of two operands, of which one is a vector.
pub(super) fn arithmetic(op: Arithmetic, ty: Type, left: Operand<'_>, right: Operand<'_>) -> Option<ColumnVector> {
    let nulls = nulls_of(left.nulls(), right.nulls());
    let lanes = if ty == Type::Numeric { of_decimals(op, left, right)? } else { of_integers(op, ty, left, right)? };
    Some(ColumnVector::of_lanes(lanes, nulls))
}

fn of_integers(op: Arithmetic, ty: Type, left: Operand<'_>, right: Operand<'_>) -> Option<Lanes> {
    let ((Word::Int, a), (Word::Int, b)) = (words(left)?, words(right)?) else { return None };
    let (least, most) = match ty {
        Type::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Type::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Type::Int8 => (i64::MIN, i64::MAX),
        _ => return None,
    };
    let bounded = |(value, is_wrong): (i64, bool)| (value, is_wrong | (value < least) | (value > most));
    let all = match op {
        Arithmetic::Add => each_pair(a, b, |a, b| bounded(a.overflowing_add(b))),
        Arithmetic::Subtract => each_pair(a, b, |a, b| bounded(a.overflowing_sub(b))),
        Arithmetic::Multiply => each_pair(a, b, |a, b| bounded(a.overflowing_mul(b))),
        // A NULL's place holds zero: then rows are evaluated one by one, if need be in vain.
        Arithmetic::Divide => each_pair(a, b, |a, b| match a.checked_div(b) {
            Some(quotient) => bounded((quotient, false)),
            None => (0, true),
        }),
        Arithmetic::Remainder => each_pair(a, b, |a, b| match a.checked_rem(b) {
            Some(rest) => (rest, false),
            None => (0, true),
        }),
    };
    Some(Lanes::Words(Word::Int, all?))
}

fn of_decimals(op: Arithmetic, left: Operand<'_>, right: Operand<'_>) -> Option<Lanes> {
    let ((a_scale, a), (b_scale, b)) = (decimals(left)?, decimals(right)?);
    if op == Arithmetic::Multiply {
        let scale = a_scale.checked_add(b_scale).filter(|scale| u32::from(*scale) <= SMALL_SCALE_MAX)?;
        return Some(Lanes::Decimals(scale, each_pair(a, b, i64::overflowing_mul)?));
    }
    let scale = a_scale.max(b_scale);
    let factor = |of: u8| 10i64.checked_pow(u32::from(scale - of));
    let (a_factor, b_factor) = (factor(a_scale)?, factor(b_scale)?);
    // One of both factors is 1: the compiler does not know, and both sides are vectors seldom.
    let (a, b) = (scaled(a, a_factor)?, scaled(b, b_factor)?);
    let (a, b) = (a.side(), b.side());
    let all = match op {
        Arithmetic::Add => each_pair(a, b, i64::overflowing_add),
        Arithmetic::Subtract => each_pair(a, b, i64::overflowing_sub),
        _ => None,
    };
    Some(Lanes::Decimals(scale, all?))
}

/// A side that was multiplied, or is as it was.
enum Scaled<'a> {
    Same(Side<'a, i64>),
    Made(Vec<i64>),
}

impl Scaled<'_> {
    fn side(&self) -> Side<'_, i64> {
        match self {
            Self::Same(side) => *side,
            Self::Made(words) => Side::Each(words),
        }
    }
}

fn scaled(side: Side<'_, i64>, factor: i64) -> Option<Scaled<'_>> {
    Some(match side {
        _ if factor == 1 => Scaled::Same(side),
        Side::One(word) => Scaled::Same(Side::One(word.checked_mul(factor)?)),
        Side::Each(_) => Scaled::Made(each_pair(side, Side::One(factor), i64::overflowing_mul)?),
    })
}

/// Integers as numerics.
pub(super) fn to_numeric(operand: Operand<'_>) -> Option<ColumnVector> {
    let Operand::Vector(vector) = operand else { return None };
    match vector.lanes() {
        Lanes::Words(Word::Int, words) => {
            Some(ColumnVector::of_lanes(Lanes::Decimals(0, words.clone()), vector.nulls().to_vec()))
        }
        _ => None,
    }
}

/// Dates whose midnights are surely timestamps.
const PLAIN_DAYS: std::ops::Range<i64> = -2_000_000..100_000_000;

/// Dates as the timestamps of their midnights.
pub(super) fn to_timestamp(operand: Operand<'_>) -> Option<ColumnVector> {
    let Operand::Vector(vector) = operand else { return None };
    let Lanes::Words(Word::Date, days) = vector.lanes() else { return None };
    let midnight = |&days: &i64| match days {
        days if PLAIN_DAYS.contains(&days) => Some(days * DAY_US),
        days => datetime::date_to_timestamp(days as i32).ok(),
    };
    let midnights = days.iter().map(midnight).collect::<Option<_>>()?;
    Some(ColumnVector::of_lanes(Lanes::Words(Word::Timestamp, midnights), vector.nulls().to_vec()))
}

/// Compares each pair.
#[inline]
fn compared<T: Copy>(
    op: CompareOp,
    (left, right): (Side<'_, T>, Side<'_, T>),
    order: impl Fn(T, T) -> Ordering,
) -> Option<Vec<bool>> {
    match op {
        CompareOp::Eq => each_pair(left, right, |a, b| (order(a, b).is_eq(), false)),
        CompareOp::Ne => each_pair(left, right, |a, b| (order(a, b).is_ne(), false)),
        CompareOp::Lt => each_pair(left, right, |a, b| (order(a, b).is_lt(), false)),
        CompareOp::Le => each_pair(left, right, |a, b| (order(a, b).is_le(), false)),
        CompareOp::Gt => each_pair(left, right, |a, b| (order(a, b).is_gt(), false)),
        CompareOp::Ge => each_pair(left, right, |a, b| (order(a, b).is_ge(), false)),
    }
}

/// A comparison of two operands, of which one is a vector.
pub(super) fn compare(op: CompareOp, left: Operand<'_>, right: Operand<'_>) -> Option<ColumnVector> {
    let rows = match (left, right) {
        (Operand::Vector(vector), _) | (_, Operand::Vector(vector)) => vector.len(),
        _ => return None,
    };
    let truths = if let (Some((a_word, a)), Some((b_word, b))) = (words(left), words(right)) {
        if a_word != b_word {
            return None;
        }
        compared(op, (a, b), |a, b| a.cmp(&b))?
    } else if let (Some((a_scale, a)), Some((b_scale, b))) = (decimals(left), decimals(right)) {
        if a_scale == b_scale {
            compared(op, (a, b), |a, b| a.cmp(&b))?
        } else {
            let scale = a_scale.max(b_scale);
            let factor = |of: u8| 10i128.checked_pow(u32::from(scale - of)).filter(|power| *power <= 1 << 63);
            let (a_factor, b_factor) = (factor(a_scale)?, factor(b_scale)?);
            compared(op, (a, b), |a, b| (i128::from(a) * a_factor).cmp(&(i128::from(b) * b_factor)))?
        }
    } else if let (Some(a), Some(b)) = (texts(left), texts(right)) {
        (0..rows).map(|row| op.holds(a.get(row).cmp(b.get(row)))).collect()
    } else {
        (0..rows).map(|row| Some(op.holds(order_of_others(left, right, row)?))).collect::<Option<_>>()?
    };
    if matches!(left, Operand::Fixed(Datum::Null)) || matches!(right, Operand::Fixed(Datum::Null)) {
        return None;
    }
    Some(ColumnVector::of_lanes(Lanes::Truths(truths), nulls_of(left.nulls(), right.nulls())))
}

/// Texts of rows.
#[derive(Clone, Copy)]
enum TextSide<'a> {
    Each(&'a Texts),
    One(&'a [u8]),
}

impl<'a> TextSide<'a> {
    #[inline]
    fn get(self, row: usize) -> &'a [u8] {
        match self {
            Self::Each(texts) => texts.get(row),
            Self::One(text) => text,
        }
    }
}

fn texts(operand: Operand<'_>) -> Option<TextSide<'_>> {
    match operand {
        Operand::Vector(vector) => match vector.lanes() {
            Lanes::Texts(texts) => Some(TextSide::Each(texts)),
            _ => None,
        },
        Operand::Fixed(Datum::Text(text)) => Some(TextSide::One(text.as_bytes())),
        Operand::Fixed(_) => None,
    }
}

/// The order of floats and of booleans.
fn order_of_others(left: Operand<'_>, right: Operand<'_>, row: usize) -> Option<Ordering> {
    let value = |operand: Operand<'_>| match operand {
        Operand::Vector(vector) => match vector.lanes() {
            Lanes::Floats(floats) => Some(Datum::Float(floats[row])),
            Lanes::Truths(truths) => Some(Datum::Bool(truths[row])),
            _ => None,
        },
        Operand::Fixed(Datum::Float(float)) => Some(Datum::Float(*float)),
        Operand::Fixed(Datum::Bool(truth)) => Some(Datum::Bool(*truth)),
        Operand::Fixed(_) => None,
    };
    match (value(left)?, value(right)?) {
        (a @ Datum::Float(_), b @ Datum::Float(_)) | (a @ Datum::Bool(_), b @ Datum::Bool(_)) => {
            Some(operators::compare(&a, &b))
        }
        _ => None,
    }
}

/// A row's part of a condition, by three-valued logic.
fn truth(operand: Operand<'_>, row: usize) -> Option<Option<bool>> {
    if operand.is_null(row) {
        return Some(None);
    }
    match operand {
        Operand::Vector(vector) => match vector.lanes() {
            Lanes::Truths(truths) => Some(Some(truths[row])),
            _ => None,
        },
        Operand::Fixed(Datum::Bool(truth)) => Some(Some(*truth)),
        Operand::Fixed(_) => None,
    }
}

fn of_truths(rows: usize, compute: impl Fn(usize) -> Option<Option<bool>>) -> Option<ColumnVector> {
    let (mut truths, mut nulls, mut has_nulls) = (Vec::with_capacity(rows), Vec::with_capacity(rows), false);
    for row in 0..rows {
        let truth = compute(row)?;
        truths.push(truth == Some(true));
        nulls.push(truth.is_none());
        has_nulls |= truth.is_none();
    }
    if !has_nulls {
        nulls.clear();
    }
    Some(ColumnVector::of_lanes(Lanes::Truths(truths), nulls))
}

/// AND and OR: `decisive` is what one operand makes of the whole.
pub(super) fn junction(decisive: bool, operands: &[Operand<'_>], rows: usize) -> Option<ColumnVector> {
    // Without NULLs these are loops over bytes.
    let plain: Option<Vec<&[bool]>> = operands
        .iter()
        .map(|operand| match operand {
            Operand::Vector(vector) if vector.nulls().is_empty() => match vector.lanes() {
                Lanes::Truths(truths) => Some(&truths[..]),
                _ => None,
            },
            _ => None,
        })
        .collect();
    if let Some((first, others)) = plain.as_ref().and_then(|plain| plain.split_first()) {
        let mut truths = first.to_vec();
        for other in others {
            for (truth, other) in truths.iter_mut().zip(*other) {
                *truth = if decisive { *truth | other } else { *truth & other };
            }
        }
        return Some(ColumnVector::of_lanes(Lanes::Truths(truths), Vec::new()));
    }
    of_truths(rows, |row| {
        let mut is_unknown = false;
        for operand in operands {
            match truth(*operand, row)? {
                Some(truth) if truth == decisive => return Some(Some(decisive)),
                Some(_) => {}
                None => is_unknown = true,
            }
        }
        Some((!is_unknown).then_some(!decisive))
    })
}

/// NOT.
pub(super) fn negated(operand: Operand<'_>, rows: usize) -> Option<ColumnVector> {
    of_truths(rows, |row| Some(truth(operand, row)?.map(|truth| !truth)))
}

/// `IS [NOT] NULL`
pub(super) fn is_null(operand: Operand<'_>, negated: bool, rows: usize) -> ColumnVector {
    let truths = (0..rows).map(|row| operand.is_null(row) != negated).collect();
    ColumnVector::of_lanes(Lanes::Truths(truths), Vec::new())
}

/// `IS [NOT] TRUE`, `FALSE`, `UNKNOWN`
pub(super) fn is_bool(operand: Operand<'_>, value: Option<bool>, negated: bool, rows: usize) -> Option<ColumnVector> {
    of_truths(rows, |row| Some(Some((truth(operand, row)? == value) != negated)))
}

/// `[NOT] IN` a list of what is fixed.
pub(super) fn in_list(input: Operand<'_>, list: &[&Datum], negated: bool) -> Option<ColumnVector> {
    let Operand::Vector(vector) = input else { return None };
    let has_null = list.iter().any(|value| value.is_null());
    let mut found = vec![false; vector.len()];
    for value in list.iter().filter(|value| !value.is_null()) {
        let equal = compare(CompareOp::Eq, input, Operand::Fixed(value))?;
        let Lanes::Truths(truths) = equal.lanes() else { return None };
        for (found, truth) in found.iter_mut().zip(truths) {
            *found |= truth;
        }
    }
    let mut nulls = vector.nulls().to_vec();
    if has_null {
        // Not found among the others is not known.
        nulls.resize(found.len(), false);
        for (null, found) in nulls.iter_mut().zip(&found) {
            *null |= !found;
        }
    }
    if negated {
        found.iter_mut().for_each(|found| *found = !*found);
    }
    Some(ColumnVector::of_lanes(Lanes::Truths(found), nulls))
}

/// `[NOT] LIKE`
///
/// # Errors
/// The statement was cancelled.
pub(super) fn like(input: Operand<'_>, pattern: &Datum, negated: bool) -> Result<Option<ColumnVector>> {
    let (Operand::Vector(vector), Datum::Text(pattern)) = (input, pattern) else { return Ok(None) };
    let Lanes::Texts(texts) = vector.lanes() else { return Ok(None) };
    let pattern = Pattern::new(pattern);
    if !pattern.is_sound() {
        return Ok(None);
    }
    let truths = (0..vector.len()).map(|row| Ok(pattern.matches(texts.get(row))? != negated)).collect::<Result<_>>()?;
    Ok(Some(ColumnVector::of_lanes(Lanes::Truths(truths), vector.nulls().to_vec())))
}

/// The first arm whose condition is true, or what is otherwise.
pub(super) fn case(arms: &[(Operand<'_>, Operand<'_>)], otherwise: Operand<'_>, rows: usize) -> Option<ColumnVector> {
    let results = || arms.iter().map(|arm| arm.1).chain(std::iter::once(otherwise));
    let mut out = results().find_map(|result| match result {
        Operand::Vector(vector) => Some(vector.empty()),
        Operand::Fixed(value) => ColumnVector::of_type(type_of(value)?),
    })?;
    for row in 0..rows {
        let mut chosen = otherwise;
        for (condition, result) in arms {
            if truth(*condition, row)? == Some(true) {
                chosen = *result;
                break;
            }
        }
        let is_taken = match chosen {
            Operand::Vector(vector) => out.push_of(vector, row),
            Operand::Fixed(value) => out.push(value),
        };
        if !is_taken {
            return None;
        }
    }
    Some(out)
}

/// A type whose vectors hold a value.
fn type_of(value: &Datum) -> Option<Type> {
    Some(match value {
        Datum::Int(_) => Type::Int8,
        Datum::Numeric(_) => Type::Numeric,
        Datum::Text(_) => Type::Text,
        Datum::Bool(_) => Type::Bool,
        Datum::Float(_) => Type::Float8,
        Datum::Date(_) => Type::Date,
        Datum::Timestamp(_) => Type::Timestamp,
        Datum::Time(_) => Type::Time,
        _ => return None,
    })
}

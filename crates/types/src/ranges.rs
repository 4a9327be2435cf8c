//! Ranges and multiranges: values between two bounds, and ordered lists of such ranges.
//!
//! A value is bytes ([`Datum::Range`]):
//! ```text
//! value      := order form
//! order      := range | multirange            by these bytes values are compared and hashed
//! multirange := { range } 00
//! range      := 00 (empty) | 01 lower upper
//! lower      := 00 (none) | 01 key (00 inclusive | 01 exclusive)
//! upper      := 01 key (00 exclusive | 01 inclusive) | 02 (none)
//! key        := the bound as a key has it: see `key`
//! form       := 00 | { digits: u16 } bytes: u32 01     little-endian
//! ```
//! A key of a numeric does not say how many digits its fraction has. So the form has them, of each
//! bound that there is, and `bytes` is how many bytes they are. Other types have a form of one byte.
//!
//! Invariants: the order of `order` as bytes is PostgreSQL's order of the values. A range of
//! integers or dates includes its lower bound and excludes its upper one. The ranges of a
//! multirange are not empty, are in order, and neither overlap nor touch.
//! ON DISK: none of this may change.

mod text;

use std::cmp::Ordering;

use crate::binary_io;
use crate::error::{Error, Result, SqlState, too_short};
use crate::key::{self, Key};
use crate::operators;
use crate::pulse;
use crate::types::{Modifier, Type};
use crate::value::Datum;

pub(crate) use text::{parse, write};

/// A range type: its values are between values of `subtype`, and lists of them are of `multirange`.
#[derive(Clone, Copy)]
struct Known {
    range: Type,
    multirange: Type,
    subtype: Type,
    /// The number of the type's operator class, and those of PostgreSQL's functions that make a
    /// canonical form and subtract two bounds.
    class: u32,
    canonical: u32,
    difference: u32,
}

const KNOWN: [Known; 6] = [
    known(Type::Int4Range, Type::Int4Multirange, Type::Int4, [1978, 3914, 3922]),
    known(Type::NumRange, Type::NumMultirange, Type::Numeric, [3125, 0, 3924]),
    known(Type::TsRange, Type::TsMultirange, Type::Timestamp, [3128, 0, 3929]),
    known(Type::TsTzRange, Type::TsTzMultirange, Type::TimestampTz, [3127, 0, 3930]),
    known(Type::DateRange, Type::DateMultirange, Type::Date, [3122, 3915, 3925]),
    known(Type::Int8Range, Type::Int8Multirange, Type::Int8, [3124, 3928, 3923]),
];

const fn known(range: Type, multirange: Type, subtype: Type, numbers: [u32; 3]) -> Known {
    let [class, canonical, difference] = numbers;
    Known { range, multirange, subtype, class, canonical, difference }
}

fn of(ty: Type) -> Option<Known> {
    if let Type::Range(of) = ty {
        let (range, multirange) = (Type::Range(of.range()), Type::Range(of.multirange()));
        return Some(known(range, multirange, of.subtype(), [0; 3]));
    }
    KNOWN.iter().find(|known| known.range == ty || known.multirange == ty).copied()
}

/// What `pg_range` says of a range type: the numbers of the type, of its bounds' type, of its
/// multirange, of the operator class of the bounds, and of two functions.
pub fn catalogued() -> impl Iterator<Item = [u32; 6]> {
    KNOWN.iter().map(|known| {
        [known.range.oid(), known.subtype.oid(), known.multirange.oid(), known.class, known.canonical, known.difference]
    })
}

impl Type {
    /// Whether it is a range.
    #[must_use]
    pub fn is_range(self) -> bool {
        of(self).is_some_and(|known| known.range == self)
    }

    /// Whether it is a multirange.
    #[must_use]
    pub fn is_multirange(self) -> bool {
        of(self).is_some_and(|known| known.multirange == self)
    }

    /// The type of the bounds of a range or a multirange.
    #[must_use]
    pub fn bounds(self) -> Option<Self> {
        of(self).map(|known| known.subtype)
    }

    /// The range that a multirange is of.
    #[must_use]
    pub fn range_within(self) -> Option<Self> {
        of(self).filter(|known| known.multirange == self).map(|known| known.range)
    }

    /// The multirange of ranges of this type.
    #[must_use]
    pub fn multirange(self) -> Option<Self> {
        of(self).filter(|known| known.range == self).map(|known| known.multirange)
    }
}

/// A bound of a range.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// Where it is; `None`: nowhere.
    pub value: Option<Datum>,
    /// Whether the range includes it.
    pub inclusive: bool,
}

/// A range that is not empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Where it begins.
    pub lower: Bound,
    /// Where it ends.
    pub upper: Bound,
}

/// Which end of a range a bound is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Lower,
    Upper,
}

/// The order of two bounds as places between values.
fn compare_bounds((a, a_end): (&Bound, End), (b, b_end): (&Bound, End)) -> Ordering {
    let outside = |end| if end == End::Lower { Ordering::Less } else { Ordering::Greater };
    let (a_value, b_value) = match (&a.value, &b.value) {
        (None, None) if a_end == b_end => return Ordering::Equal,
        (None, _) => return outside(a_end),
        (_, None) => return outside(b_end).reverse(),
        (Some(a), Some(b)) => (a, b),
    };
    let order = operators::compare(a_value, b_value);
    if order.is_ne() {
        return order;
    }
    // An exclusive lower bound is just above its value, an exclusive upper one just below.
    let side = |bound: &Bound, end| match (bound.inclusive, end) {
        (true, _) => 0,
        (false, End::Lower) => 1,
        (false, End::Upper) => -1,
    };
    side(a, a_end).cmp(&side(b, b_end))
}

impl Span {
    fn compare_lower(&self, other: &Self) -> Ordering {
        compare_bounds((&self.lower, End::Lower), (&other.lower, End::Lower))
    }

    fn compare_upper(&self, other: &Self) -> Ordering {
        compare_bounds((&self.upper, End::Upper), (&other.upper, End::Upper))
    }

    fn is_before(&self, other: &Self) -> bool {
        compare_bounds((&self.upper, End::Upper), (&other.lower, End::Lower)).is_lt()
    }

    fn contains(&self, other: &Self) -> bool {
        self.compare_lower(other).is_le() && self.compare_upper(other).is_ge()
    }

    /// Whether nothing is between the end of this one and the beginning of the other, and nothing
    /// in both.
    fn touches(&self, other: &Self) -> bool {
        match (&self.upper.value, &other.lower.value) {
            (Some(upper), Some(lower)) => {
                operators::compare(upper, lower).is_eq() && self.upper.inclusive != other.lower.inclusive
            }
            _ => false,
        }
    }

    fn has(&self, value: &Datum) -> bool {
        let bound = Bound { value: Some(value.clone()), inclusive: true };
        compare_bounds((&self.lower, End::Lower), (&bound, End::Lower)).is_le()
            && compare_bounds((&self.upper, End::Upper), (&bound, End::Upper)).is_ge()
    }
}

#[cold]
fn damaged() -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "malformed range")
}

/// The next whole value of a type that has such; `None` of types that have none, and of infinities.
fn next(ty: Type, value: &Datum) -> Result<Option<Datum>> {
    let out_of_range = || Error::new(SqlState::OUT_OF_RANGE, format!("{ty} out of range"));
    Ok(match (ty, value) {
        (Type::Int4, Datum::Int(value)) => {
            Some(Datum::Int(i64::from(i32::try_from(value + 1).map_err(|_| out_of_range())?)))
        }
        (Type::Int8, Datum::Int(value)) => Some(Datum::Int(value.checked_add(1).ok_or_else(out_of_range)?)),
        (Type::Date, Datum::Date(i32::MIN | i32::MAX)) => None,
        (Type::Date, Datum::Date(date)) => Some(Datum::Date(crate::datetime::checked_date(i64::from(*date) + 1)?)),
        _ => None,
    })
}

/// The range between two bounds in its canonical form; `None` if it is empty. `subtype` is that of
/// the bounds.
///
/// # Errors
/// 22000 if the lower bound is above the upper one, 22003 and 22008 if the canonical form has a
/// bound that is out of range.
pub fn span(subtype: Type, mut lower: Bound, mut upper: Bound) -> Result<Option<Span>> {
    let is_empty = |lower: &Bound, upper: &Bound| -> Option<bool> {
        let (Some(from), Some(to)) = (&lower.value, &upper.value) else { return Some(false) };
        match operators::compare(from, to) {
            Ordering::Less => Some(false),
            Ordering::Equal => Some(!(lower.inclusive && upper.inclusive)),
            Ordering::Greater => None,
        }
    };
    lower.inclusive &= lower.value.is_some();
    upper.inclusive &= upper.value.is_some();
    let wrong_order = || {
        let message = "range lower bound must be less than or equal to range upper bound";
        Error::new(SqlState::DATA_EXCEPTION, message)
    };
    if is_empty(&lower, &upper).ok_or_else(wrong_order)? {
        return Ok(None);
    }
    if let (Some(value), false) = (&lower.value, lower.inclusive)
        && let Some(next) = next(subtype, value)?
    {
        lower = Bound { value: Some(next), inclusive: true };
    }
    if let (Some(value), true) = (&upper.value, upper.inclusive)
        && let Some(next) = next(subtype, value)?
    {
        upper = Bound { value: Some(next), inclusive: false };
    }
    Ok(if is_empty(&lower, &upper).unwrap_or(true) { None } else { Some(Span { lower, upper }) })
}

/// Whether a value is an empty range; of a multirange, whether it has no range.
#[must_use]
pub fn is_empty(bytes: &[u8]) -> bool {
    matches!(bytes, [0, ..])
}

/// What is compared of a value.
#[must_use]
pub fn compared(bytes: &[u8]) -> &[u8] {
    parts(bytes).map_or(bytes, |(order, _)| order)
}

/// What is compared, and the digits of numerics.
fn parts(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match bytes {
        [order @ .., 0] => Some((order, &[])),
        [rest @ .., 1] => {
            let (rest, length) = rest.split_last_chunk::<4>()?;
            rest.split_at_checked(rest.len().checked_sub(u32::from_le_bytes(*length) as usize)?)
        }
        _ => None,
    }
}

/// A value from its ranges, which are as a value of the type has them.
#[must_use]
pub fn value(ty: Type, spans: &[Span]) -> Datum {
    let mut order = Key::new();
    let mut form: Vec<u8> = Vec::new();
    let Some(subtype) = ty.bounds() else { return Datum::Null };
    let mut put = |value: &Datum, order: &mut Key| {
        order.push(1);
        key::encode(subtype, value, false, false, true, order);
        if let Datum::Numeric(number) = value {
            form.extend_from_slice(&number.scale().to_le_bytes());
        }
    };
    for Span { lower, upper } in spans {
        pulse::note(1);
        order.push(1);
        match &lower.value {
            None => order.push(0),
            Some(value) => {
                put(value, &mut order);
                order.push(u8::from(!lower.inclusive));
            }
        }
        match &upper.value {
            None => order.push(2),
            Some(value) => {
                put(value, &mut order);
                order.push(u8::from(upper.inclusive));
            }
        }
    }
    if ty.is_multirange() || spans.is_empty() {
        order.push(0);
    }
    let mut bytes = order.into_vec();
    if form.is_empty() {
        bytes.push(0);
    } else {
        bytes.extend_from_slice(&form);
        bytes.extend_from_slice(&(form.len() as u32).to_le_bytes());
        bytes.push(1);
    }
    Datum::Range(bytes.into())
}

/// What a key has of a value, as a value: a numeric's zeros at the end are gone.
pub(crate) fn of_key(order: &[u8]) -> Datum {
    let mut bytes = Vec::with_capacity(order.len() + 1);
    bytes.extend_from_slice(order);
    bytes.push(0);
    Datum::Range(bytes.into())
}

/// The ranges of a value: one at most of a range, any number of a multirange.
///
/// # Errors
/// XX001 if the bytes are no value of the type.
pub fn spans(ty: Type, bytes: &[u8]) -> Result<Vec<Span>> {
    let subtype = ty.bounds().ok_or_else(damaged)?;
    let (mut order, mut form) = parts(bytes).ok_or_else(damaged)?;
    let mut spans = Vec::new();
    let take = |input: &mut &[u8]| {
        let (&first, rest) = input.split_first().ok_or_else(damaged)?;
        *input = rest;
        Ok::<u8, Error>(first)
    };
    let mut bound = |input: &mut &[u8], none: u8, inclusive: u8| {
        let first = take(input)?;
        if first == none {
            return Ok(Bound { value: None, inclusive: false });
        }
        if first != 1 {
            return Err(damaged());
        }
        let mut value = key::decode(subtype, false, false, true, input)?;
        if let (Datum::Numeric(number), Some((digits, rest))) = (&value, form.split_first_chunk::<2>()) {
            form = rest;
            let digits = u16::from_le_bytes(*digits);
            if number.is_finite() && number.scale() != digits {
                value = Datum::Numeric(number.round(i32::from(digits))?);
            }
        }
        Ok(Bound { value: Some(value), inclusive: take(input)? == inclusive })
    };
    while let Some((&first, rest)) = order.split_first() {
        pulse::work(1)?;
        order = rest;
        if first == 0 {
            break;
        }
        let lower = bound(&mut order, 0, 0)?;
        let upper = bound(&mut order, 2, 1)?;
        spans.push(Span { lower, upper });
    }
    if order.is_empty() { Ok(spans) } else { Err(damaged()) }
}

/// In order, with those that overlap or touch made one.
pub(crate) fn normalized(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by(|a, b| {
        pulse::note(1);
        a.compare_lower(b).then_with(|| a.compare_upper(b))
    });
    let mut kept: Vec<Span> = Vec::with_capacity(spans.len());
    for next in spans {
        match kept.last_mut() {
            Some(last) if !last.is_before(&next) || last.touches(&next) => {
                if last.compare_upper(&next).is_lt() {
                    last.upper = next.upper;
                }
            }
            _ => kept.push(next),
        }
    }
    kept
}

/// What is in both.
pub(crate) fn intersection(a: &[Span], b: &[Span]) -> Vec<Span> {
    let (mut i, mut j) = (0, 0);
    let mut common = Vec::new();
    while let (Some(one), Some(other)) = (a.get(i), b.get(j)) {
        pulse::note(1);
        if !one.is_before(other) && !other.is_before(one) {
            let lower = if one.compare_lower(other).is_ge() { &one.lower } else { &other.lower };
            let upper = if one.compare_upper(other).is_le() { &one.upper } else { &other.upper };
            common.push(Span { lower: lower.clone(), upper: upper.clone() });
        }
        if one.compare_upper(other).is_lt() { i += 1 } else { j += 1 }
    }
    common
}

/// What is in the first and not in the second.
pub(crate) fn difference(a: &[Span], b: &[Span]) -> Vec<Span> {
    let mut left = Vec::new();
    let mut from = 0;
    let turned = |bound: &Bound| Bound { value: bound.value.clone(), inclusive: !bound.inclusive };
    for span in a {
        pulse::note(1);
        while b.get(from).is_some_and(|other| other.is_before(span)) {
            from += 1;
        }
        let mut rest = Some(span.clone());
        for other in &b[from..] {
            pulse::note(1);
            let Some(span) = rest.take() else { break };
            if span.is_before(other) {
                rest = Some(span);
                break;
            }
            if span.compare_lower(other).is_lt() {
                left.push(Span { lower: span.lower.clone(), upper: turned(&other.lower) });
            }
            if span.compare_upper(other).is_gt() {
                rest = Some(Span { lower: turned(&other.upper), upper: span.upper });
            }
        }
        left.extend(rest);
    }
    left
}

/// How two values stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Contains,
    Overlaps,
    Before,
    NotBeyond,
    NotBefore,
    Touches,
}

impl Relation {
    /// Whether it holds.
    pub(crate) fn holds(self, a: &[Span], b: &[Span]) -> bool {
        if self == Self::Contains {
            let mut i = 0;
            return b.iter().all(|inner| {
                pulse::note(1);
                while a.get(i).is_some_and(|outer| outer.is_before(inner)) {
                    i += 1;
                }
                a.get(i).is_some_and(|outer| outer.contains(inner))
            });
        }
        let ([a_first, ..], [.., a_last], [b_first, ..], [.., b_last]) = (a, a, b, b) else { return false };
        match self {
            Self::Before => a_last.is_before(b_first),
            Self::NotBeyond => a_last.compare_upper(b_last).is_le(),
            Self::NotBefore => a_first.compare_lower(b_first).is_ge(),
            Self::Touches => a_last.touches(b_first) || b_last.touches(a_first),
            _ => {
                let (mut i, mut j) = (0, 0);
                while let (Some(one), Some(other)) = (a.get(i), b.get(j)) {
                    pulse::note(1);
                    if one.is_before(other) {
                        i += 1;
                    } else if other.is_before(one) {
                        j += 1;
                    } else {
                        return true;
                    }
                }
                false
            }
        }
    }
}

/// Whether two values of a type have something in common.
///
/// # Errors
/// As [`spans`].
pub fn overlap(ty: Type, a: &[u8], b: &[u8]) -> Result<bool> {
    Ok(Relation::Overlaps.holds(&spans(ty, a)?, &spans(ty, b)?))
}

/// Whether a value is in one of the ranges.
pub(crate) fn has(spans: &[Span], value: &Datum) -> bool {
    let at = spans.partition_point(|span| {
        let bound = Bound { value: Some(value.clone()), inclusive: true };
        compare_bounds((&span.upper, End::Upper), (&bound, End::Upper)).is_lt()
    });
    spans.get(at).is_some_and(|span| span.has(value))
}

const EMPTY: u8 = 1;
const LOWER_INCLUSIVE: u8 = 2;
const UPPER_INCLUSIVE: u8 = 4;
const NO_LOWER: u8 = 8;
const NO_UPPER: u8 = 16;

fn write_length(from: usize, out: &mut [u8]) {
    let bytes = (out.len() - from - 4) as u32;
    out[from..from + 4].copy_from_slice(&bytes.to_be_bytes());
}

fn write_span(subtype: Type, span: Option<&Span>, out: &mut Vec<u8>) {
    let Some(Span { lower, upper }) = span else { return out.push(EMPTY) };
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    out.push(
        flag(lower.inclusive, LOWER_INCLUSIVE)
            | flag(upper.inclusive, UPPER_INCLUSIVE)
            | flag(lower.value.is_none(), NO_LOWER)
            | flag(upper.value.is_none(), NO_UPPER),
    );
    for value in [&lower.value, &upper.value].into_iter().flatten() {
        let from = out.len();
        out.extend_from_slice(&[0; 4]);
        binary_io::write_binary(subtype, Modifier::NONE, value, out);
        write_length(from, out);
    }
}

/// Appends a value's bytes for clients; of what is malformed, nothing.
pub(crate) fn write_binary(ty: Type, bytes: &[u8], out: &mut Vec<u8>) {
    let (Some(subtype), Ok(spans)) = (ty.bounds(), spans(ty, bytes)) else { return };
    if ty.is_range() {
        return write_span(subtype, spans.first(), out);
    }
    out.extend_from_slice(&(spans.len() as u32).to_be_bytes());
    for span in &spans {
        pulse::note(1);
        let from = out.len();
        out.extend_from_slice(&[0; 4]);
        write_span(subtype, Some(span), out);
        write_length(from, out);
    }
}

fn wrong_length() -> Error {
    Error::new(SqlState::BAD_BINARY, "incorrect binary data format")
}

/// The next part of bytes from a client, in front of which its length stands.
fn part<'a>(input: &mut &'a [u8]) -> Result<&'a [u8]> {
    let (length, rest) = input.split_first_chunk::<4>().ok_or_else(too_short)?;
    let (part, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or_else(too_short)?;
    *input = rest;
    Ok(part)
}

fn parse_span(subtype: Type, mut input: &[u8]) -> Result<Option<Span>> {
    let (&flags, rest) = input.split_first().ok_or_else(too_short)?;
    input = rest;
    let mut bound = |none: u8, inclusive: u8| -> Result<Bound> {
        let there = flags & (EMPTY | none) == 0;
        let value = if there { Some(binary_io::parse_binary(subtype, part(&mut input)?)?) } else { None };
        Ok(Bound { value, inclusive: flags & inclusive != 0 })
    };
    let (lower, upper) = (bound(NO_LOWER, LOWER_INCLUSIVE)?, bound(NO_UPPER, UPPER_INCLUSIVE)?);
    if !input.is_empty() {
        return Err(wrong_length());
    }
    if flags & EMPTY != 0 { Ok(None) } else { span(subtype, lower, upper) }
}

/// Reads a value from a client.
pub(crate) fn parse_binary(ty: Type, mut input: &[u8]) -> Result<Datum> {
    let subtype = ty.bounds().ok_or_else(damaged)?;
    if ty.is_range() {
        return Ok(value(ty, parse_span(subtype, input)?.as_slice()));
    }
    let (count, rest) = input.split_first_chunk::<4>().ok_or_else(too_short)?;
    input = rest;
    let mut spans = Vec::new();
    for _ in 0..u32::from_be_bytes(*count) {
        pulse::work(1)?;
        spans.extend(parse_span(subtype, part(&mut input)?)?);
    }
    if !input.is_empty() {
        return Err(wrong_length());
    }
    Ok(value(ty, &normalized(spans)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;
    use crate::value::random::random_datum;

    fn read(ty: Type, text: &str) -> Datum {
        crate::text_io::parse(ty, Modifier::NONE, text, &Env::default()).unwrap()
    }

    fn shown(ty: Type, value: &Datum) -> String {
        let mut out = String::new();
        crate::text_io::write(ty, value, &Env::default(), &mut out);
        out
    }

    #[test]
    fn digits_of_numerics_stay_and_do_not_count() {
        let (one, other) = (read(Type::NumRange, "[1.50,2.0)"), read(Type::NumRange, "[1.5,2)"));
        assert_eq!(shown(Type::NumRange, &one), "[1.50,2.0)");
        assert!(operators::compare(&one, &other).is_eq() && one != other);
    }

    #[test]
    fn operations_agree_with_those_on_each_number() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let has = |spans: &[Span], number: i64| {
            spans.iter().any(|span| {
                let number = Datum::Int(number);
                let at = |bound: &Bound| bound.value.as_ref().map(|value| operators::compare(value, &number));
                let above = at(&span.lower).is_none_or(Ordering::is_le);
                let below = at(&span.upper).is_none_or(Ordering::is_gt);
                above && below
            })
        };
        for _ in 0..20_000 {
            let mut some = || -> Vec<Span> {
                let mut spans = Vec::new();
                for _ in 0..random.usize(..4) {
                    let (from, to) = (random.i64(0..12), random.i64(0..12));
                    let bound = |random: &mut fastrand::Rng, at: i64| Bound {
                        value: (random.u8(..8) > 0).then_some(Datum::Int(at)),
                        inclusive: random.bool(),
                    };
                    let (lower, upper) = (bound(&mut random, from.min(to)), bound(&mut random, from.max(to)));
                    spans.extend(span(Type::Int4, lower, upper).unwrap());
                }
                normalized(spans)
            };
            let (a, b) = (some(), some());
            let both = intersection(&a, &b);
            let without = difference(&a, &b);
            let any = normalized([a.clone(), b.clone()].concat());
            for number in -2..15 {
                let (in_a, in_b) = (has(&a, number), has(&b, number));
                assert_eq!(has(&both, number), in_a && in_b, "{a:?} * {b:?}");
                assert_eq!(has(&without, number), in_a && !in_b, "{a:?} - {b:?}");
                assert_eq!(has(&any, number), in_a || in_b, "{a:?} + {b:?}");
                assert_eq!(super::has(&a, &Datum::Int(number)), in_a);
            }
            assert_eq!(Relation::Overlaps.holds(&a, &b), !both.is_empty());
            assert_eq!(Relation::Contains.holds(&a, &b), difference(&b, &a).is_empty());
            for list in [&a, &both, &without, &any] {
                assert_eq!(**list, normalized(list.clone()));
                let Datum::Range(bytes) = value(Type::Int4Multirange, list) else { panic!("a range") };
                assert_eq!(**list, spans(Type::Int4Multirange, &bytes).unwrap());
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for known in &KNOWN {
            for ty in [known.range, known.multirange] {
                for _ in 0..5_000 {
                    let Datum::Range(mut bytes) = random_datum(ty, &mut random) else { panic!("a range") };
                    for _ in 0..random.usize(1..3) {
                        let at = random.usize(..bytes.len());
                        bytes[at] = random.u8(..);
                    }
                    let _ = spans(ty, &bytes);
                    let _ = shown(ty, &Datum::Range(bytes.clone()));
                    let _ = parse_binary(ty, &bytes);
                }
            }
        }
    }
}

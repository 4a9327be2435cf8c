//! Functions and operators of ranges and multiranges.
//!
//! PostgreSQL declares them over `anyrange` and `anymultirange`; here each range type of the system
//! has its own. Those of users' range types are declared over these, and are given the type's code
//! in front of their arguments: see [`of_user_range`]. Most look at a value as a list of ranges, of
//! which a range has one at most.

use super::{Function, f, text};
use crate::array::Array;
use crate::error::{Error, Result, SqlState};
use crate::ranges::{self, Bound, Relation, Span, difference, intersection, normalized};
use crate::types::Type;
use crate::types::Type::{AnyArray, AnyElement, AnyMultirange, AnyRange, Bool, Int8, Text};
use crate::value::Datum;

/// The bytes of a range.
fn raw(value: &Datum) -> Result<&[u8]> {
    match value {
        Datum::Range(bytes) => Ok(bytes),
        other => Err(Error::internal(format_args!("a range is {other:?}"))),
    }
}

fn spans(ty: Type, value: &Datum) -> Result<Vec<Span>> {
    ranges::spans(ty, raw(value)?)
}

fn both(types: [Type; 2], args: &[&Datum]) -> Result<(Vec<Span>, Vec<Span>)> {
    Ok((spans(types[0], args[0])?, spans(types[1], args[1])?))
}

fn holds(relation: Relation, types: [Type; 2], args: &[&Datum]) -> Result<Datum> {
    let (a, b) = both(types, args)?;
    Ok(Datum::Bool(relation.holds(&a, &b)))
}

fn has(ty: Type, range: &Datum, value: &Datum) -> Result<Datum> {
    Ok(Datum::Bool(ranges::has(&spans(ty, range)?, value)))
}

#[cold]
fn not_contiguous(what: &str) -> Error {
    Error::new(SqlState::DATA_EXCEPTION, format!("result of range {what} would not be contiguous"))
}

fn union(ty: Type, args: &[&Datum]) -> Result<Datum> {
    let (a, b) = both([ty; 2], args)?;
    let spans = normalized([a, b].concat());
    if ty.is_range() && spans.len() > 1 {
        return Err(not_contiguous("union"));
    }
    Ok(ranges::value(ty, &spans))
}

fn minus(ty: Type, args: &[&Datum]) -> Result<Datum> {
    let (a, b) = both([ty; 2], args)?;
    let spans = difference(&a, &b);
    if ty.is_range() && spans.len() > 1 {
        return Err(not_contiguous("difference"));
    }
    Ok(ranges::value(ty, &spans))
}

fn common(ty: Type, args: &[&Datum]) -> Result<Datum> {
    let (a, b) = both([ty; 2], args)?;
    Ok(ranges::value(ty, &intersection(&a, &b)))
}

/// The smallest range that has all of some.
fn hull(range: Type, spans: &[Span]) -> Datum {
    match spans {
        [] => ranges::value(range, &[]),
        [first, ..] => {
            let upper = spans.last().unwrap_or(first).upper.clone();
            ranges::value(range, &[Span { lower: first.lower.clone(), upper }])
        }
    }
}

fn merged(ty: Type, args: &[&Datum]) -> Result<Datum> {
    let (a, b) = both([ty; 2], args)?;
    Ok(hull(ty, &normalized([a, b].concat())))
}

/// What a bound at an end says, NULL if there is no such bound.
fn bound(ty: Type, value: &Datum, is_lower: bool) -> Result<Option<Bound>> {
    let spans = spans(ty, value)?;
    Ok(if is_lower {
        spans.into_iter().next().map(|span| span.lower)
    } else {
        spans.into_iter().last().map(|span| span.upper)
    })
}

fn end(ty: Type, value: &Datum, is_lower: bool) -> Result<Datum> {
    Ok(bound(ty, value, is_lower)?.and_then(|bound| bound.value).unwrap_or_default())
}

fn is_inclusive(ty: Type, value: &Datum, is_lower: bool) -> Result<Datum> {
    Ok(Datum::Bool(bound(ty, value, is_lower)?.is_some_and(|bound| bound.inclusive)))
}

fn is_open(ty: Type, value: &Datum, is_lower: bool) -> Result<Datum> {
    Ok(Datum::Bool(bound(ty, value, is_lower)?.is_some_and(|bound| bound.value.is_none())))
}

fn is_empty(value: &Datum) -> Result<Datum> {
    Ok(Datum::Bool(ranges::is_empty(raw(value)?)))
}

/// `int4range(lower, upper)`, with the bounds' kind or without.
fn made(ty: Type, args: &[&Datum]) -> Result<Datum> {
    let (from_inclusive, to_inclusive) = match args.get(2) {
        None => (true, false),
        Some(Datum::Null) => {
            let message = "range constructor flags argument must not be null";
            return Err(Error::new(SqlState::DATA_EXCEPTION, message));
        }
        Some(flags) => match text(flags)? {
            "[]" => (true, true),
            "[)" => (true, false),
            "(]" => (false, true),
            "()" => (false, false),
            _ => {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid range bound flags")
                    .hint("Valid values are \"[]\", \"[)\", \"(]\", and \"()\"."));
            }
        },
    };
    let bound = |value: &Datum, inclusive| Bound { value: (!value.is_null()).then(|| value.clone()), inclusive };
    let subtype = ty.bounds().ok_or_else(|| Error::internal("a range without bounds"))?;
    let span = ranges::span(subtype, bound(args[0], from_inclusive), bound(args[1], to_inclusive))?;
    Ok(ranges::value(ty, span.as_slice()))
}

/// A multirange of ranges.
fn collected(range: Type, multirange: Type, args: &[&Datum]) -> Result<Datum> {
    let mut all = Vec::new();
    for arg in args {
        if arg.is_null() {
            let message = "multirange values cannot contain null members";
            return Err(Error::new(SqlState::NULL_NOT_ALLOWED, message));
        }
        all.extend(spans(range, arg)?);
    }
    Ok(ranges::value(multirange, &normalized(all)))
}

/// The ranges of a multirange as an array.
fn listed(multirange: Type, value: &Datum) -> Result<Datum> {
    let range = multirange.range_within().ok_or_else(|| Error::internal("a multirange without a range"))?;
    let each = |span: Span| ranges::value(range, &[span]);
    let values = spans(multirange, value)?.into_iter().map(each).collect();
    Ok(Datum::Array(std::sync::Arc::new(Array::of_values(range, values)?)))
}

macro_rules! of_range {
    ($table:ident $listed:ident $name:literal $multi_name:literal $range:ident $multi:ident $bound:ident) => {
        /// The ranges of a multirange as an array, for `unnest`.
        static $listed: Function =
            f("unnest", &[Type::$multi], Type::Array(crate::types::Scalar::$range), |a, _| listed(Type::$multi, a[0]));

        pub(super) const $table: &[Function] = {
            use Type::{$bound as E, $multi as M, $range as R};
            &[
                f("@>", &[R, R], Bool, |a, _| holds(Relation::Contains, [R, R], a)),
                f("@>", &[R, M], Bool, |a, _| holds(Relation::Contains, [R, M], a)),
                f("@>", &[M, R], Bool, |a, _| holds(Relation::Contains, [M, R], a)),
                f("@>", &[M, M], Bool, |a, _| holds(Relation::Contains, [M, M], a)),
                f("@>", &[R, E], Bool, |a, _| has(R, a[0], a[1])),
                f("@>", &[M, E], Bool, |a, _| has(M, a[0], a[1])),
                f("<@", &[R, R], Bool, |a, _| holds(Relation::Contains, [R, R], &[a[1], a[0]])),
                f("<@", &[R, M], Bool, |a, _| holds(Relation::Contains, [M, R], &[a[1], a[0]])),
                f("<@", &[M, R], Bool, |a, _| holds(Relation::Contains, [R, M], &[a[1], a[0]])),
                f("<@", &[M, M], Bool, |a, _| holds(Relation::Contains, [M, M], &[a[1], a[0]])),
                f("<@", &[E, R], Bool, |a, _| has(R, a[1], a[0])),
                f("<@", &[E, M], Bool, |a, _| has(M, a[1], a[0])),
                f("&&", &[R, R], Bool, |a, _| holds(Relation::Overlaps, [R, R], a)),
                f("&&", &[R, M], Bool, |a, _| holds(Relation::Overlaps, [R, M], a)),
                f("&&", &[M, R], Bool, |a, _| holds(Relation::Overlaps, [M, R], a)),
                f("&&", &[M, M], Bool, |a, _| holds(Relation::Overlaps, [M, M], a)),
                f("<<", &[R, R], Bool, |a, _| holds(Relation::Before, [R, R], a)),
                f("<<", &[R, M], Bool, |a, _| holds(Relation::Before, [R, M], a)),
                f("<<", &[M, R], Bool, |a, _| holds(Relation::Before, [M, R], a)),
                f("<<", &[M, M], Bool, |a, _| holds(Relation::Before, [M, M], a)),
                f(">>", &[R, R], Bool, |a, _| holds(Relation::Before, [R, R], &[a[1], a[0]])),
                f(">>", &[R, M], Bool, |a, _| holds(Relation::Before, [M, R], &[a[1], a[0]])),
                f(">>", &[M, R], Bool, |a, _| holds(Relation::Before, [R, M], &[a[1], a[0]])),
                f(">>", &[M, M], Bool, |a, _| holds(Relation::Before, [M, M], &[a[1], a[0]])),
                f("&<", &[R, R], Bool, |a, _| holds(Relation::NotBeyond, [R, R], a)),
                f("&<", &[R, M], Bool, |a, _| holds(Relation::NotBeyond, [R, M], a)),
                f("&<", &[M, R], Bool, |a, _| holds(Relation::NotBeyond, [M, R], a)),
                f("&<", &[M, M], Bool, |a, _| holds(Relation::NotBeyond, [M, M], a)),
                f("&>", &[R, R], Bool, |a, _| holds(Relation::NotBefore, [R, R], a)),
                f("&>", &[R, M], Bool, |a, _| holds(Relation::NotBefore, [R, M], a)),
                f("&>", &[M, R], Bool, |a, _| holds(Relation::NotBefore, [M, R], a)),
                f("&>", &[M, M], Bool, |a, _| holds(Relation::NotBefore, [M, M], a)),
                f("-|-", &[R, R], Bool, |a, _| holds(Relation::Touches, [R, R], a)),
                f("-|-", &[R, M], Bool, |a, _| holds(Relation::Touches, [R, M], a)),
                f("-|-", &[M, R], Bool, |a, _| holds(Relation::Touches, [M, R], a)),
                f("-|-", &[M, M], Bool, |a, _| holds(Relation::Touches, [M, M], a)),
                f("+", &[R, R], R, |a, _| union(R, a)),
                f("+", &[M, M], M, |a, _| union(M, a)),
                f("-", &[R, R], R, |a, _| minus(R, a)),
                f("-", &[M, M], M, |a, _| minus(M, a)),
                f("*", &[R, R], R, |a, _| common(R, a)),
                f("*", &[M, M], M, |a, _| common(M, a)),
                f("lower", &[R], E, |a, _| end(R, a[0], true)),
                f("lower", &[M], E, |a, _| end(M, a[0], true)),
                f("upper", &[R], E, |a, _| end(R, a[0], false)),
                f("upper", &[M], E, |a, _| end(M, a[0], false)),
                f("isempty", &[R], Bool, |a, _| is_empty(a[0])),
                f("isempty", &[M], Bool, |a, _| is_empty(a[0])),
                f("lower_inc", &[R], Bool, |a, _| is_inclusive(R, a[0], true)),
                f("lower_inc", &[M], Bool, |a, _| is_inclusive(M, a[0], true)),
                f("upper_inc", &[R], Bool, |a, _| is_inclusive(R, a[0], false)),
                f("upper_inc", &[M], Bool, |a, _| is_inclusive(M, a[0], false)),
                f("lower_inf", &[R], Bool, |a, _| is_open(R, a[0], true)),
                f("lower_inf", &[M], Bool, |a, _| is_open(M, a[0], true)),
                f("upper_inf", &[R], Bool, |a, _| is_open(R, a[0], false)),
                f("upper_inf", &[M], Bool, |a, _| is_open(M, a[0], false)),
                f("range_merge", &[R, R], R, |a, _| merged(R, a)),
                f("range_merge", &[M], R, |a, _| Ok(hull(R, &spans(M, a[0])?))),
                f("multirange", &[R], M, |a, _| collected(R, M, a)),
                f($name, &[E, E], R, |a, _| made(R, a)).called_on_null(),
                f($name, &[E, E, Text], R, |a, _| made(R, a)).called_on_null(),
                f($multi_name, &[], M, |a, _| collected(R, M, a)),
                f($multi_name, &[R], M, |a, _| collected(R, M, a)),
                f($multi_name, &[R, R], M, |a, _| collected(R, M, a)).variadic().called_on_null(),
            ]
        };
    };
}

of_range!(INT4 LISTED_INT4 "int4range" "int4multirange" Int4Range Int4Multirange Int4);
of_range!(INT8 LISTED_INT8 "int8range" "int8multirange" Int8Range Int8Multirange Int8);
of_range!(NUMERIC LISTED_NUMERIC "numrange" "nummultirange" NumRange NumMultirange Numeric);
of_range!(DATE LISTED_DATE "daterange" "datemultirange" DateRange DateMultirange Date);
of_range!(TIMESTAMP LISTED_TIMESTAMP "tsrange" "tsmultirange" TsRange TsMultirange Timestamp);
of_range!(TIMESTAMP_TZ LISTED_TIMESTAMP_TZ "tstzrange" "tstzmultirange" TsTzRange TsTzMultirange TimestampTz);

/// What makes an array of a multirange's ranges; `None` if a type is no multirange.
#[must_use]
pub fn ranges_as_array(multirange: Type) -> Option<&'static Function> {
    Some(match multirange {
        Type::Int4Multirange => &LISTED_INT4,
        Type::Int8Multirange => &LISTED_INT8,
        Type::NumMultirange => &LISTED_NUMERIC,
        Type::DateMultirange => &LISTED_DATE,
        Type::TsMultirange => &LISTED_TIMESTAMP,
        Type::TsTzMultirange => &LISTED_TIMESTAMP_TZ,
        _ => return None,
    })
}

/// A computation on values of a range type, its multirange, and their bounds.
type OfTypes = fn(Type, Type, &[&Datum]) -> Result<Datum>;

/// The range type and the multirange that a code is of, and the arguments behind it.
fn with_types(args: &[&Datum], of: OfTypes) -> Result<Datum> {
    let [Datum::Int(code), args @ ..] = args else { return Err(Error::internal("a range of no type")) };
    let range = u32::try_from(*code).ok().and_then(Type::from_code);
    let (Some(range), Some(multirange)) = (range, range.and_then(Type::multirange)) else {
        return Err(Error::internal(format_args!("no range type has the code {code}")));
    };
    of(range, multirange, args)
}

/// The ranges of an array of ranges or multiranges, without NULLs; `None` if there are none.
fn gathered(range: Type, multirange: Type, values: &Datum) -> Result<Option<Vec<Vec<Span>>>> {
    let Datum::Array(array) = values else { return Ok(None) };
    let of = if array.element() == multirange { multirange } else { range };
    let there = array.values().iter().filter(|value| !value.is_null());
    let all = there.map(|value| spans(of, value)).collect::<Result<Vec<_>>>()?;
    Ok(if all.is_empty() { None } else { Some(all) })
}

macro_rules! of_user {
    ($(($name:literal [$($arg:ident),*] $result:ident $eval:expr))*) => {
        &[$(f($name, &[Int8, $($arg),*], $result, |a, _| with_types(a, $eval))),*]
    };
}

/// The functions and operators of users' range types. Each is given the code of the range type
/// first.
static OF_USERS: &[Function] = of_user! {
    ("@>" [AnyRange, AnyRange] Bool |r, _, a| holds(Relation::Contains, [r, r], a))
    ("@>" [AnyRange, AnyMultirange] Bool |r, m, a| holds(Relation::Contains, [r, m], a))
    ("@>" [AnyMultirange, AnyRange] Bool |r, m, a| holds(Relation::Contains, [m, r], a))
    ("@>" [AnyMultirange, AnyMultirange] Bool |_, m, a| holds(Relation::Contains, [m, m], a))
    ("@>" [AnyRange, AnyElement] Bool |r, _, a| has(r, a[0], a[1]))
    ("@>" [AnyMultirange, AnyElement] Bool |_, m, a| has(m, a[0], a[1]))
    ("<@" [AnyRange, AnyRange] Bool |r, _, a| holds(Relation::Contains, [r, r], &[a[1], a[0]]))
    ("<@" [AnyRange, AnyMultirange] Bool |r, m, a| holds(Relation::Contains, [m, r], &[a[1], a[0]]))
    ("<@" [AnyMultirange, AnyRange] Bool |r, m, a| holds(Relation::Contains, [r, m], &[a[1], a[0]]))
    ("<@" [AnyMultirange, AnyMultirange] Bool |_, m, a| holds(Relation::Contains, [m, m], &[a[1], a[0]]))
    ("<@" [AnyElement, AnyRange] Bool |r, _, a| has(r, a[1], a[0]))
    ("<@" [AnyElement, AnyMultirange] Bool |_, m, a| has(m, a[1], a[0]))
    ("&&" [AnyRange, AnyRange] Bool |r, _, a| holds(Relation::Overlaps, [r, r], a))
    ("&&" [AnyRange, AnyMultirange] Bool |r, m, a| holds(Relation::Overlaps, [r, m], a))
    ("&&" [AnyMultirange, AnyRange] Bool |r, m, a| holds(Relation::Overlaps, [m, r], a))
    ("&&" [AnyMultirange, AnyMultirange] Bool |_, m, a| holds(Relation::Overlaps, [m, m], a))
    ("<<" [AnyRange, AnyRange] Bool |r, _, a| holds(Relation::Before, [r, r], a))
    ("<<" [AnyRange, AnyMultirange] Bool |r, m, a| holds(Relation::Before, [r, m], a))
    ("<<" [AnyMultirange, AnyRange] Bool |r, m, a| holds(Relation::Before, [m, r], a))
    ("<<" [AnyMultirange, AnyMultirange] Bool |_, m, a| holds(Relation::Before, [m, m], a))
    (">>" [AnyRange, AnyRange] Bool |r, _, a| holds(Relation::Before, [r, r], &[a[1], a[0]]))
    (">>" [AnyRange, AnyMultirange] Bool |r, m, a| holds(Relation::Before, [m, r], &[a[1], a[0]]))
    (">>" [AnyMultirange, AnyRange] Bool |r, m, a| holds(Relation::Before, [r, m], &[a[1], a[0]]))
    (">>" [AnyMultirange, AnyMultirange] Bool |_, m, a| holds(Relation::Before, [m, m], &[a[1], a[0]]))
    ("&<" [AnyRange, AnyRange] Bool |r, _, a| holds(Relation::NotBeyond, [r, r], a))
    ("&<" [AnyRange, AnyMultirange] Bool |r, m, a| holds(Relation::NotBeyond, [r, m], a))
    ("&<" [AnyMultirange, AnyRange] Bool |r, m, a| holds(Relation::NotBeyond, [m, r], a))
    ("&<" [AnyMultirange, AnyMultirange] Bool |_, m, a| holds(Relation::NotBeyond, [m, m], a))
    ("&>" [AnyRange, AnyRange] Bool |r, _, a| holds(Relation::NotBefore, [r, r], a))
    ("&>" [AnyRange, AnyMultirange] Bool |r, m, a| holds(Relation::NotBefore, [r, m], a))
    ("&>" [AnyMultirange, AnyRange] Bool |r, m, a| holds(Relation::NotBefore, [m, r], a))
    ("&>" [AnyMultirange, AnyMultirange] Bool |_, m, a| holds(Relation::NotBefore, [m, m], a))
    ("-|-" [AnyRange, AnyRange] Bool |r, _, a| holds(Relation::Touches, [r, r], a))
    ("-|-" [AnyRange, AnyMultirange] Bool |r, m, a| holds(Relation::Touches, [r, m], a))
    ("-|-" [AnyMultirange, AnyRange] Bool |r, m, a| holds(Relation::Touches, [m, r], a))
    ("-|-" [AnyMultirange, AnyMultirange] Bool |_, m, a| holds(Relation::Touches, [m, m], a))
    ("+" [AnyRange, AnyRange] AnyRange |r, _, a| union(r, a))
    ("+" [AnyMultirange, AnyMultirange] AnyMultirange |_, m, a| union(m, a))
    ("-" [AnyRange, AnyRange] AnyRange |r, _, a| minus(r, a))
    ("-" [AnyMultirange, AnyMultirange] AnyMultirange |_, m, a| minus(m, a))
    ("*" [AnyRange, AnyRange] AnyRange |r, _, a| common(r, a))
    ("*" [AnyMultirange, AnyMultirange] AnyMultirange |_, m, a| common(m, a))
    ("lower" [AnyRange] AnyElement |r, _, a| end(r, a[0], true))
    ("lower" [AnyMultirange] AnyElement |_, m, a| end(m, a[0], true))
    ("upper" [AnyRange] AnyElement |r, _, a| end(r, a[0], false))
    ("upper" [AnyMultirange] AnyElement |_, m, a| end(m, a[0], false))
    ("isempty" [AnyRange] Bool |_, _, a| is_empty(a[0]))
    ("isempty" [AnyMultirange] Bool |_, _, a| is_empty(a[0]))
    ("lower_inc" [AnyRange] Bool |r, _, a| is_inclusive(r, a[0], true))
    ("lower_inc" [AnyMultirange] Bool |_, m, a| is_inclusive(m, a[0], true))
    ("upper_inc" [AnyRange] Bool |r, _, a| is_inclusive(r, a[0], false))
    ("upper_inc" [AnyMultirange] Bool |_, m, a| is_inclusive(m, a[0], false))
    ("lower_inf" [AnyRange] Bool |r, _, a| is_open(r, a[0], true))
    ("lower_inf" [AnyMultirange] Bool |_, m, a| is_open(m, a[0], true))
    ("upper_inf" [AnyRange] Bool |r, _, a| is_open(r, a[0], false))
    ("upper_inf" [AnyMultirange] Bool |_, m, a| is_open(m, a[0], false))
    ("range_merge" [AnyRange, AnyRange] AnyRange |r, _, a| merged(r, a))
    ("range_merge" [AnyMultirange] AnyRange |r, m, a| Ok(hull(r, &spans(m, a[0])?)))
    ("multirange" [AnyRange] AnyMultirange collected)
};

/// What makes a range of two bounds, and of their kinds.
static MADE: [Function; 2] = [
    f(".range", &[Int8, AnyElement, AnyElement], AnyRange, |a, _| with_types(a, |r, _, a| made(r, a))).called_on_null(),
    f(".range", &[Int8, AnyElement, AnyElement, Text], AnyRange, |a, _| with_types(a, |r, _, a| made(r, a)))
        .called_on_null(),
];

/// What makes a multirange of any number of ranges.
static COLLECTED: Function =
    f(".multirange", &[Int8, AnyRange], AnyMultirange, |a, _| with_types(a, collected)).variadic().called_on_null();

/// What makes an array of a multirange's ranges, for `unnest`.
static LISTED: Function =
    f(".ranges", &[Int8, AnyMultirange], AnyArray, |a, _| with_types(a, |_, m, a| listed(m, a[0])));

/// The aggregates of an array of ranges or multiranges, which is what the aggregate was called on.
static GATHERED: [Function; 2] = [
    f("range_agg", &[Int8, AnyArray], AnyMultirange, |a, _| {
        with_types(a, |r, m, a| {
            let all = gathered(r, m, a[0])?;
            Ok(all.map_or(Datum::Null, |all| ranges::value(m, &normalized(all.concat()))))
        })
    }),
    f("range_intersect_agg", &[Int8, AnyArray], AnyElement, |a, _| {
        with_types(a, |r, m, a| {
            let Datum::Array(array) = a[0] else { return Ok(Datum::Null) };
            let of = if array.element() == m { m } else { r };
            let all = gathered(r, m, a[0])?.unwrap_or_default().into_iter();
            Ok(all.reduce(|a, b| intersection(&a, &b)).map_or(Datum::Null, |common| ranges::value(of, &common)))
        })
    }),
];

/// How a call is one of a users' range type.
#[derive(Debug, Clone, Copy)]
pub struct OfUserRange {
    /// What is called, with the code of `range` in front of the arguments.
    pub function: &'static Function,
    /// The range type.
    pub range: Type,
    /// The multirange type.
    pub multirange: Type,
}

impl OfUserRange {
    /// The type that a declared one stands for.
    #[must_use]
    pub fn actual(&self, declared: Type) -> Type {
        match declared {
            AnyRange => self.range,
            AnyMultirange => self.multirange,
            AnyElement => self.range.bounds().unwrap_or(declared),
            other => other,
        }
    }

    /// The type of an argument of the call, counted from 0.
    #[must_use]
    pub fn arg(&self, at: usize) -> Type {
        self.actual(self.function.arg_type(at + 1))
    }

    /// What the call gives.
    #[must_use]
    pub fn result(&self) -> Type {
        self.actual(self.function.result)
    }
}

/// The range type of a user's that a type belongs to.
fn user_range(ty: Type) -> Option<(Type, Type)> {
    match ty {
        Type::Range(of) => Some((Type::Range(of.range()), Type::Range(of.multirange()))),
        _ => None,
    }
}

/// The function or operator that a call with a user's range among its arguments means; `None` if it
/// means none of these. A literal is taken for what the other side of an operator is, if it may be.
#[must_use]
pub fn of_user_range(name: &str, args: &[Type]) -> Option<OfUserRange> {
    let (range, multirange) = args.iter().find_map(|ty| user_range(*ty))?;
    let meant = |function| OfUserRange { function, range, multirange };
    let candidates = OF_USERS.iter().filter(|function| function.name == name && function.args.len() == args.len() + 1);
    let scored = candidates.filter_map(|function| {
        let call = meant(function);
        let mut score = 0;
        for (at, &ty) in args.iter().enumerate() {
            let wanted = call.arg(at);
            match ty {
                Type::Unknown => score += usize::from(args.contains(&wanted)),
                ty if ty == wanted => {}
                _ => return None,
            }
        }
        Some((score, call))
    });
    scored.max_by_key(|(score, _)| *score).map(|(_, call)| call)
}

/// The call that makes a value of a user's range type of as many arguments; `None` if none does.
#[must_use]
pub fn user_range_made(ty: Type, args: usize) -> Option<OfUserRange> {
    let (range, multirange) = user_range(ty)?;
    let function = match args {
        _ if ty == multirange => &COLLECTED,
        2 => &MADE[0],
        3 => &MADE[1],
        _ => return None,
    };
    Some(OfUserRange { function, range, multirange })
}

/// What makes an array of the ranges of a user's multirange; `None` of other types.
#[must_use]
pub fn user_ranges_as_array(ty: Type) -> Option<OfUserRange> {
    let (range, multirange) = user_range(ty).filter(|(_, multirange)| *multirange == ty)?;
    Some(OfUserRange { function: &LISTED, range, multirange })
}

/// What an aggregate over a user's ranges makes of the array of them; `None` of other types and
/// aggregates.
#[must_use]
pub fn user_ranges_gathered(name: &str, ty: Type) -> Option<OfUserRange> {
    let (range, multirange) = user_range(ty)?;
    let function = GATHERED.iter().find(|function| function.name == name)?;
    Some(OfUserRange { function, range, multirange })
}

//! Ranges: found by what they overlap, contain, are contained in, or stand beside.
//!
//! ```text
//! token of a range:   class: 1 byte | where it begins: 8 bytes, in order
//!                     the class tells how long it is at the most, in powers of two
//!
//! `range && [a, b]`   for each class: begins between a - length and b
//! ```
//! So a question is some thirty ranges of tokens, of which most are empty, and finds about twice as
//! many ranges as it asks for, however many there are. A tree over the rectangles of ranges, as
//! PostgreSQL's GiST has, needs no classes, but nodes that overlap.
//!
//! Numbers without a bound are measured as floats. What these cannot measure is in a class by itself
//! that every question finds.
//!
//! ON DISK: tokens may not change.

use super::{Query, Tokens};
use crate::env::Env;
use crate::error::Result;
use crate::key::Key;
use crate::ranges::{self, Bound, Span};
use crate::types::Type;
use crate::value::Datum;

pub(super) struct Ranges;

/// The operators that are answered, the column being on the left.
pub(super) const OPERATORS: &[&str] = &["&&", "@>", "<@", "=", "<<", ">>"];

/// Empty ranges.
const EMPTY: u8 = 0xff;
/// Without bounds.
const UNBOUNDED: u8 = 0xfe;
/// Without a lower bound: by their upper ones.
const NO_LOWER: u8 = 0xfd;
/// Without an upper bound.
const NO_UPPER: u8 = 0xfc;
/// What cannot be measured.
const ANY: u8 = 0xfb;

/// How lengths are told apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// Whole numbers. Class `n`: less than 4ⁿ.
    Whole,
    /// Floats. Class `n`: less than 2 to the power of `4n - 40`.
    Float,
}

/// Classes of whole lengths: those of 64 bits, and of a length of nothing.
const WHOLE_CLASSES: u8 = 33;
/// Classes of lengths that are floats: up to 2 to the power of 100.
const FLOAT_CLASSES: u8 = 36;

/// A place of a bound, by its measure.
#[derive(Clone, Copy)]
enum Place {
    Whole(i64),
    Float(f64),
}

pub(super) fn takes(ty: Type) -> bool {
    ty.is_range() && measure(ty).is_some()
}

fn measure(ty: Type) -> Option<Measure> {
    match ty.bounds()? {
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Date | Type::Timestamp | Type::TimestampTz => Some(Measure::Whole),
        Type::Numeric | Type::Float4 | Type::Float8 => Some(Measure::Float),
        _ => None,
    }
}

/// Where a value is; `None` if that cannot be told.
fn place(value: &Datum) -> Option<Place> {
    match value {
        Datum::Int(value) | Datum::Timestamp(value) => Some(Place::Whole(*value)),
        Datum::Date(value) => Some(Place::Whole(i64::from(*value))),
        Datum::Float(value) => Some(*value).filter(|value| value.is_finite()).map(Place::Float),
        Datum::Numeric(value) => Some(value.to_f64()).filter(|value| value.is_finite()).map(Place::Float),
        _ => None,
    }
}

impl Place {
    /// In order as bytes.
    fn bytes(self) -> [u8; 8] {
        let bits = match self {
            Self::Whole(value) => (value as u64) ^ (1 << 63),
            // Zero has one place.
            Self::Float(value) => match (value + 0.0).to_bits() {
                bits if bits >> 63 == 1 => !bits,
                bits => bits | 1 << 63,
            },
        };
        bits.to_be_bytes()
    }

    /// A little less: what rounding may have added.
    fn rounded_down(self) -> Self {
        if let Self::Float(value) = self { Self::Float(value.next_down().next_down()) } else { self }
    }

    /// A little more.
    fn rounded_up(self) -> Self {
        if let Self::Float(value) = self { Self::Float(value.next_up().next_up()) } else { self }
    }

    /// Before it by what ranges of a class are long at the most; `None`: before everything.
    fn before(self, class: u8) -> Option<Self> {
        match self {
            Self::Whole(value) => {
                let length = 1_i128 << (2 * u32::from(class));
                i64::try_from(i128::from(value) - length).ok().map(Self::Whole)
            }
            Self::Float(value) => {
                let length = f64::from(4 * i32::from(class) - 40).exp2();
                Some(Self::Float((value - length).next_down().next_down())).filter(|place| place.is_finite())
            }
        }
    }

    fn is_finite(self) -> bool {
        if let Self::Float(value) = self { value.is_finite() } else { true }
    }
}

/// The class of a length; `None` if there is none.
fn class_of(from: Place, to: Place) -> Option<u8> {
    match (from, to) {
        (Place::Whole(from), Place::Whole(to)) => {
            let bits = u64::BITS - (to.wrapping_sub(from) as u64).leading_zeros();
            Some(bits.div_ceil(2) as u8)
        }
        (Place::Float(from), Place::Float(to)) => {
            // As bounds are rounded, it may be a little longer.
            let length = (to - from).next_up() + (from.abs().max(to.abs()) * 4.0 * f64::EPSILON);
            (0..FLOAT_CLASSES).find(|&class| length < f64::from(4 * i32::from(class) - 40).exp2())
        }
        _ => None,
    }
}

fn token(class: u8, place: Option<Place>) -> Key {
    let mut token = Key::from_slice(&[class]);
    if let Some(place) = place {
        token.extend_from_slice(&place.bytes());
    }
    token
}

/// The token of a range; `None` is the empty one.
fn token_of(span: Option<&Span>) -> Key {
    let Some(Span { lower, upper }) = span else { return token(EMPTY, None) };
    let place = |bound: &Bound| bound.value.as_ref().map(place);
    match (place(lower), place(upper)) {
        (None, None) => token(UNBOUNDED, None),
        (None, Some(Some(upper))) => token(NO_LOWER, Some(upper)),
        (Some(Some(lower)), None) => token(NO_UPPER, Some(lower)),
        (Some(Some(from)), Some(Some(to))) => match class_of(from, to) {
            Some(class) => token(class, Some(from)),
            None => token(ANY, None),
        },
        _ => token(ANY, None),
    }
}

/// Tokens of a class with places between two, the ends among them; `None` is no bound.
fn between(class: u8, from: Option<Place>, to: Option<Place>) -> Query {
    let low = from.map_or_else(|| token(class, None), |from| token(class, Some(from)));
    let high = match to {
        Some(to) => token(class, Some(to)),
        None => {
            let mut last = token(class, None);
            last.extend_from_slice(&[u8::MAX; 8]);
            last
        }
    };
    if low > high { Query::Nothing } else { Query::Between(low, high) }
}

/// What is asked of ranges.
struct Asked {
    /// Where a range of a class begins. The class tells how far before the first place that is.
    begins: (From, Option<Place>),
    /// Where the end of one without a lower bound may be; `None`: there is none such.
    ends_open: Option<(Option<Place>, Option<Place>)>,
    /// Where the beginning of one without an upper bound may be.
    begins_open: Option<(Option<Place>, Option<Place>)>,
    unbounded: bool,
    empty: bool,
}

/// The first place where a range may begin.
enum From {
    /// Anywhere.
    Anywhere,
    At(Place),
    /// As far before it as the range may be long.
    Before(Place),
    /// No range with both bounds.
    Never,
}

impl Asked {
    fn query(self, measure: Measure) -> Query {
        let classes = if measure == Measure::Whole { WHOLE_CLASSES } else { FLOAT_CLASSES };
        let (from, to) = &self.begins;
        let of_class = |class: u8| match from {
            From::Never => Query::Nothing,
            From::Anywhere => between(class, None, *to),
            From::At(place) => between(class, Some(*place), *to),
            From::Before(place) => between(class, place.before(class), *to),
        };
        let alone =
            |class: u8, is_asked: bool| if is_asked { Query::Token(token(class, None)) } else { Query::Nothing };
        let open = |class: u8, asked: Option<(Option<Place>, Option<Place>)>| {
            asked.map_or(Query::Nothing, |(from, to)| between(class, from, to))
        };
        let others = [
            open(NO_LOWER, self.ends_open),
            open(NO_UPPER, self.begins_open),
            alone(UNBOUNDED, self.unbounded),
            alone(EMPTY, self.empty),
            alone(ANY, true),
        ];
        Query::any_of((0..classes).map(of_class).chain(others))
    }
}

impl Tokens for Ranges {
    fn of_value(&self, ty: Type, value: &Datum, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Datum::Range(bytes) = value {
            out(&token_of(ranges::spans(ty, bytes)?.first()));
        }
        Ok(())
    }

    fn query(&self, ty: Type, operator: &str, operand: &Datum, _: &Env) -> Result<Query> {
        let Some(measure) = measure(ty) else { return Ok(Query::All) };
        let spans;
        let (lower, upper) = match (operator, operand) {
            // A multirange begins with its own bytes as a range does: those of several are not read.
            ("=", Datum::Range(bytes)) => {
                return Ok(match &ranges::spans(ty, bytes)?[..] {
                    [] => Query::Token(token(EMPTY, None)),
                    [span] => Query::Token(token_of(Some(span))),
                    _ => Query::All,
                });
            }
            (_, Datum::Range(bytes)) => {
                spans = match ranges::is_empty(bytes) {
                    true => Vec::new(),
                    false => ranges::spans(ty, bytes)?,
                };
                match (&spans[..], operator) {
                    // All contain it, and nothing else has to do with it.
                    ([], "@>") => return Ok(Query::All),
                    ([], "<@") => return Ok(Query::Token(token(EMPTY, None))),
                    ([], _) => return Ok(Query::Nothing),
                    ([first, .., last], _) => (first.lower.value.as_ref(), last.upper.value.as_ref()),
                    ([one], _) => (one.lower.value.as_ref(), one.upper.value.as_ref()),
                }
            }
            ("@>", element) => (Some(element), Some(element)),
            _ => return Ok(Query::All),
        };
        let measured = |bound: Option<&Datum>| match bound {
            None => Some(None),
            Some(value) => place(value).map(Some),
        };
        let (Some(lower), Some(upper)) = (measured(lower), measured(upper)) else { return Ok(Query::All) };
        let (from, to) = (lower.map(Place::rounded_down), upper.map(Place::rounded_up));
        Ok(match operator {
            "&&" => Asked {
                begins: (from.map_or(From::Anywhere, From::Before), to),
                ends_open: Some((from, None)),
                begins_open: Some((None, to)),
                unbounded: true,
                empty: false,
            },
            "@>" => {
                // It begins before the first place, and ends behind the last one.
                let first = lower.map(Place::rounded_up);
                let last = upper.map(Place::rounded_down);
                Asked {
                    begins: match (first, last) {
                        (Some(_), Some(last)) => (From::Before(last), first),
                        _ => (From::Never, None),
                    },
                    ends_open: last.map(|last| (Some(last), None)),
                    begins_open: first.map(|first| (None, Some(first))),
                    unbounded: true,
                    empty: false,
                }
            }
            "<@" => Asked {
                begins: (from.map_or(From::Anywhere, From::At), to),
                ends_open: from.is_none().then_some((None, to)),
                begins_open: to.is_none().then_some((from, None)),
                unbounded: from.is_none() && to.is_none(),
                empty: true,
            },
            "<<" => Asked {
                begins: (if lower.is_some() { From::Anywhere } else { From::Never }, lower.map(Place::rounded_up)),
                ends_open: lower.map(|lower| (None, Some(lower.rounded_up()))),
                begins_open: None,
                unbounded: false,
                empty: false,
            },
            ">>" => Asked {
                begins: (upper.map_or(From::Never, |upper| From::At(upper.rounded_down())), None),
                ends_open: None,
                begins_open: upper.map(|upper| (Some(upper.rounded_down()), None)),
                unbounded: false,
                empty: false,
            },
            _ => return Ok(Query::All),
        }
        .query(measure))
    }
}

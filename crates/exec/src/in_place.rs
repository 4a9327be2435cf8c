//! Conditions that are looked at in the bytes of a row: no values are made for them.
//!
//! ```text
//! city <> 'Berlin' AND name LIKE '%ab%'      columns of the row's value, and constants: in place
//! length(city) = 3                           anything else is evaluated
//! ```
//! A condition becomes a [`Test`] if it compares columns with constants and every comparison is one
//! that bytes can answer. A test says whether its condition is true: in a filter false and NULL are
//! the same.
//!
//! Invariants: a test answers as evaluating the condition would, errors included, or does not
//! answer at all; then the condition is evaluated.

use colibri_catalog::Table;
use colibri_catalog::record::InRow;
use colibri_catalog::row::Peeked;
use colibri_types::like::Pattern;
use colibri_types::{Datum, Numeric, Result, Type, cast};

use crate::expr::{CompareOp, Expr};

/// Lists of IN up to this length are gone through value by value.
const LIST_MAX: usize = 16;
/// Texts up to this length are folded to one case in place.
const FOLDED_BYTES_MAX: usize = 256;

/// A condition that is looked at in a row's bytes.
pub(super) enum Test {
    Of(InRow, Is),
    All(Box<[Self]>),
    Any(Box<[Self]>),
}

/// What is asked of a column.
pub(super) enum Is {
    Null,
    NotNull,
    Bool(bool),
    Int(CompareOp, i64),
    IntIn(Box<[i64]>, bool),
    Numeric(CompareOp, Numeric),
    Bytes(CompareOp, Box<[u8]>),
    BytesIn(Box<[Box<[u8]>]>, bool),
    Like { case: Case, pattern: Box<Pattern>, negated: bool },
}

/// What letters become before a pattern is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Kept,
    Lower,
    Upper,
}

impl Test {
    /// The test of a condition over a row of these columns of a table.
    pub(super) fn new(condition: &Expr, table: &Table, columns: &[usize]) -> Option<Self> {
        let all = |conditions: &[Expr]| {
            conditions.iter().map(|one| Self::new(one, table, columns)).collect::<Option<Box<[Self]>>>()
        };
        let of = |input: &Expr, is: &dyn Fn(Type) -> Option<Is>| {
            let Expr::Column(place) = without_casts(input) else { return None };
            let &column = columns.get(*place)?;
            let ty = table.columns.get(column)?.ty.ty;
            Some(Self::Of(InRow::new(table, column)?, is(ty)?))
        };
        match condition {
            Expr::And(conditions) => Some(Self::All(all(conditions)?)),
            Expr::Or(conditions) => Some(Self::Any(all(conditions)?)),
            Expr::Column(_) => of(condition, &|_| Some(Is::Bool(true))),
            Expr::Not(input) if matches!(**input, Expr::Column(_)) => of(input, &|_| Some(Is::Bool(false))),
            Expr::IsBool { input, value: Some(value), negated: false } => of(input, &|_| Some(Is::Bool(*value))),
            Expr::IsNull { input, negated } => of(input, &|_| Some(if *negated { Is::NotNull } else { Is::Null })),
            Expr::Compare { op, left, right } => match (&**left, &**right) {
                (column, Expr::Const(value)) => of(column, &|ty| compared(*op, ty, value)),
                (Expr::Const(value), column) => of(column, &|ty| compared(op.flipped(), ty, value)),
                _ => None,
            },
            Expr::Distinct { left, right, negated } => {
                let (column, value) = match (&**left, &**right) {
                    (column, Expr::Const(value)) | (Expr::Const(value), column) if !value.is_null() => (column, value),
                    _ => return None,
                };
                if *negated {
                    return of(column, &|ty| compared(CompareOp::Eq, ty, value));
                }
                let other = of(column, &|ty| compared(CompareOp::Ne, ty, value))?;
                Some(Self::Any(Box::new([of(column, &|_| Some(Is::Null))?, other])))
            }
            Expr::InList { input, list, negated, .. } if list.len() <= LIST_MAX => {
                of(input, &|ty| one_of(ty, list, *negated))
            }
            Expr::Call { function, args } => {
                let (folds, negated) = match function.name {
                    "~~" | "like" => (false, false),
                    "!~~" | "notlike" => (false, true),
                    "~~*" => (true, false),
                    "!~~*" => (true, true),
                    _ => return None,
                };
                let [input, Expr::Const(Datum::Text(pattern))] = &args[..] else { return None };
                let (input, case) = match without_casts(input) {
                    Expr::Call { function, args } if args.len() == 1 && !folds => match function.name {
                        "lower" => (&args[0], Case::Lower),
                        "upper" => (&args[0], Case::Upper),
                        _ => return None,
                    },
                    input if folds => (input, Case::Lower),
                    input => (input, Case::Kept),
                };
                let pattern = match folds {
                    true if pattern.is_ascii() => Pattern::new(&pattern.to_ascii_lowercase()),
                    true => return None,
                    false => Pattern::new(pattern),
                };
                of(input, &|ty| is_text(ty).then(|| Is::Like { case, pattern: Box::new(pattern.clone()), negated }))
            }
            _ => None,
        }
    }

    /// Whether the condition is true for a row, given its value; `None`: the bytes do not tell.
    ///
    /// # Errors
    /// As evaluating the condition.
    #[inline]
    pub(super) fn holds(&self, value: &[u8]) -> Result<Option<bool>> {
        match self {
            Self::Of(column, is) => match column.peek(value)? {
                Some(peeked) => is.true_of(peeked),
                None => Ok(None),
            },
            Self::All(tests) => each(tests, value, false),
            Self::Any(tests) => each(tests, value, true),
        }
    }
}

/// Asks one test after the other until one gives `decisive`.
fn each(tests: &[Test], value: &[u8], decisive: bool) -> Result<Option<bool>> {
    for test in tests {
        match test.holds(value)? {
            Some(holds) if holds != decisive => {}
            told => return Ok(told),
        }
    }
    Ok(Some(!decisive))
}

impl Is {
    #[inline]
    fn true_of(&self, value: Peeked<'_>) -> Result<Option<bool>> {
        let negated_unless_null = |found: bool, negated: bool| Ok(Some(found != negated));
        match (self, value) {
            (Self::Null, value) => Ok(Some(matches!(value, Peeked::Null))),
            (Self::NotNull, value) => Ok(Some(!matches!(value, Peeked::Null))),
            (_, Peeked::Null) => Ok(Some(false)),
            (Self::Bool(wanted), Peeked::Bool(value)) => Ok(Some(value == *wanted)),
            (Self::Int(op, with), Peeked::Int(value)) => Ok(Some(op.holds(value.cmp(with)))),
            (Self::IntIn(list, negated), Peeked::Int(value)) => negated_unless_null(list.contains(&value), *negated),
            (Self::Numeric(op, with), Peeked::Numeric(value)) => Ok(Some(op.holds(value.cmp(with)))),
            (Self::Bytes(CompareOp::Eq, with), Peeked::Bytes(value)) => Ok(Some(*value == **with)),
            (Self::Bytes(CompareOp::Ne, with), Peeked::Bytes(value)) => Ok(Some(*value != **with)),
            (Self::Bytes(op, with), Peeked::Bytes(value)) => Ok(Some(op.holds(value.cmp(with)))),
            (Self::BytesIn(list, negated), Peeked::Bytes(value)) => {
                negated_unless_null(list.iter().any(|one| **one == *value), *negated)
            }
            (Self::Like { case: Case::Kept, pattern, negated }, Peeked::Bytes(value)) => {
                Ok(Some(pattern.matches(value)? != *negated))
            }
            (Self::Like { case, pattern, negated }, Peeked::Bytes(value)) => {
                let mut folded = [0; FOLDED_BYTES_MAX];
                let Some(folded) = folded.get_mut(..value.len()).filter(|_| value.is_ascii()) else { return Ok(None) };
                folded.copy_from_slice(value);
                match case {
                    Case::Upper => folded.make_ascii_uppercase(),
                    _ => folded.make_ascii_lowercase(),
                }
                Ok(Some(pattern.matches(folded)? != *negated))
            }
            _ => Ok(None),
        }
    }
}

/// What a comparison with a constant asks.
fn compared(op: CompareOp, ty: Type, with: &Datum) -> Option<Is> {
    match with {
        Datum::Numeric(with) if ty == Type::Numeric => Some(Is::Numeric(op, with.clone())),
        Datum::Bool(with) if ty == Type::Bool => match op {
            CompareOp::Eq => Some(Is::Bool(*with)),
            CompareOp::Ne => Some(Is::Bool(!*with)),
            _ => None,
        },
        _ => match (integer(ty, with), bytes(ty, with)) {
            (Some(with), _) => Some(Is::Int(op, with)),
            (_, Some(with)) => Some(Is::Bytes(op, with.into())),
            _ => None,
        },
    }
}

/// What `IN` asks. A NULL in the list makes NULL of what would be false.
fn one_of(ty: Type, list: &[Expr], negated: bool) -> Option<Is> {
    let values = list.iter().map(|one| match one {
        Expr::Const(value) => Some(value),
        _ => None,
    });
    let values: Vec<&Datum> = values.collect::<Option<_>>()?;
    if negated && values.iter().any(|value| value.is_null()) {
        return None;
    }
    let values = || values.iter().filter(|value| !value.is_null());
    if let Some(list) = values().map(|value| integer(ty, value)).collect::<Option<_>>() {
        return Some(Is::IntIn(list, negated));
    }
    let list = values().map(|value| bytes(ty, value).map(Box::from)).collect::<Option<_>>()?;
    Some(Is::BytesIn(list, negated))
}

/// A constant as [`Peeked::Int`] has a column's values.
fn integer(ty: Type, value: &Datum) -> Option<i64> {
    match (ty, value) {
        (Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid, Datum::Int(value))
        | (Type::Time, Datum::Time(value))
        | (Type::Timestamp | Type::TimestampTz, Datum::Timestamp(value)) => Some(*value),
        (Type::Date, Datum::Date(value)) => Some(i64::from(*value)),
        _ => None,
    }
}

/// A constant as [`Peeked::Bytes`] has a column's values.
fn bytes(ty: Type, value: &Datum) -> Option<&[u8]> {
    match (ty, value) {
        (Type::Uuid, Datum::Uuid(value)) => Some(value),
        (Type::Bytea, Datum::Bytes(value)) => Some(value),
        (_, Datum::Text(value)) if is_text(ty) => Some(value.as_bytes()),
        _ => None,
    }
}

fn is_text(ty: Type) -> bool {
    matches!(ty, Type::Text | Type::Varchar | Type::Char | Type::Name)
}

/// What stands inside casts that leave every value as it is.
fn without_casts(mut expr: &Expr) -> &Expr {
    while let Expr::Cast { input, from, to, .. } = expr
        && cast::keeps_values(*from, to.ty, to.modifier)
    {
        expr = input;
    }
    expr
}

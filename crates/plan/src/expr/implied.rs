//! Which conditions imply another one: an index that has entries for some rows only is of use when a
//! query's conditions say that no other row is wanted.
//!
//! Invariants: a condition implies another one only if that is true for every row for which it is
//! true itself. What is not certain is not implied.

use colibri_types::{Datum, operators};

use super::walk::{conjuncts, same};
use super::{CompareOp, Expr, Test};

/// Which of a query's conditions, all of which have to be true, imply a condition.
#[derive(Debug, Default)]
pub struct Implied {
    /// They say what it says: all rows with entries fulfil them.
    pub same: Vec<usize>,
    /// They say more.
    pub stronger: Vec<usize>,
}

/// Whether conditions imply another one, and which of them do.
pub fn implied(conditions: &[Expr], wanted: &Expr) -> Option<Implied> {
    let mut found = Implied::default();
    for part in conjuncts(wanted.clone()) {
        let is_same = |condition: &Expr| same(condition, &part) || same_truth(condition, &part);
        if let Some(at) = conditions.iter().position(is_same) {
            found.same.push(at);
        } else {
            found.stronger.push(conditions.iter().position(|condition| implies(condition, &part))?);
        }
    }
    Some(found)
}

/// What a condition says of one expression.
enum Says<'e> {
    Compared(CompareOp, &'e Datum),
    OneOf(Vec<&'e Datum>),
}

fn constant(expr: &Expr) -> Option<&Datum> {
    match expr {
        Expr::Const(value) if !value.is_null() => Some(value),
        _ => None,
    }
}

/// An expression that a condition compares with constants, and what it says of it.
fn says(condition: &Expr) -> Option<(&Expr, Says<'_>)> {
    const TRUE: &Datum = &Datum::Bool(true);
    const FALSE: &Datum = &Datum::Bool(false);
    match condition {
        Expr::Compare { op, left, right } => match (constant(left), constant(right)) {
            (None, Some(value)) => Some((&**left, Says::Compared(*op, value))),
            (Some(value), None) => Some((&**right, Says::Compared(op.flipped(), value))),
            _ => None,
        },
        Expr::InList { input, list, negated: false, .. } => {
            Some((&**input, Says::OneOf(list.iter().map(constant).collect::<Option<_>>()?)))
        }
        Expr::AnyOf { test: Test::Compare(CompareOp::Eq), left, array, all: false } => match &**array {
            Expr::Const(Datum::Array(array)) => {
                Some((&**left, Says::OneOf(array.values().iter().filter(|value| !value.is_null()).collect())))
            }
            _ => None,
        },
        Expr::IsBool { input, value: Some(value), negated: false } => {
            Some((&**input, Says::Compared(CompareOp::Eq, if *value { TRUE } else { FALSE })))
        }
        Expr::Not(input) if matches!(**input, Expr::Column(_)) => {
            Some((&**input, Says::Compared(CompareOp::Eq, FALSE)))
        }
        Expr::Column(_) => Some((condition, Says::Compared(CompareOp::Eq, TRUE))),
        _ => None,
    }
}

/// Whether two conditions are the same equality, however it is written.
fn same_truth(one: &Expr, other: &Expr) -> bool {
    match (says(one), says(other)) {
        (Some((a, Says::Compared(a_op, a_value))), Some((b, Says::Compared(b_op, b_value)))) => {
            a_op == b_op && same(a, b) && a_value == b_value
        }
        _ => false,
    }
}

/// Whether a condition that is true implies another one.
fn implies(condition: &Expr, wanted: &Expr) -> bool {
    match (condition, wanted) {
        _ if same(condition, wanted) => true,
        (Expr::And(all), _) => all.iter().any(|condition| implies(condition, wanted)),
        (Expr::Or(any), _) => any.iter().all(|condition| implies(condition, wanted)),
        (_, Expr::And(all)) => all.iter().all(|wanted| implies(condition, wanted)),
        (_, Expr::Or(any)) => any.iter().any(|wanted| implies(condition, wanted)),
        (_, Expr::IsNull { input, negated: true }) => fails_for_null(condition, input),
        _ => match (says(condition), says(wanted)) {
            (Some((a, given)), Some((b, wanted))) => same(a, b) && follows(&given, &wanted),
            _ => false,
        },
    }
}

/// Whether a condition is not true where an expression is NULL.
fn fails_for_null(condition: &Expr, of: &Expr) -> bool {
    let is_strict_in = |expr: &Expr| null_if_null(expr, of);
    match condition {
        Expr::Compare { left, right, .. } => is_strict_in(left) || is_strict_in(right),
        Expr::InList { input, negated: false, .. } => is_strict_in(input),
        Expr::AnyOf { left, all: false, .. } => is_strict_in(left),
        Expr::IsBool { input, value: Some(_), negated: false } | Expr::IsNull { input, negated: true } => {
            is_strict_in(input)
        }
        Expr::Not(input) => is_strict_in(input),
        _ => is_strict_in(condition),
    }
}

/// Whether an expression is NULL where another one is.
fn null_if_null(expr: &Expr, of: &Expr) -> bool {
    match expr {
        _ if same(expr, of) => true,
        Expr::Call { function, args } => function.strict && args.iter().any(|arg| null_if_null(arg, of)),
        Expr::Cast { input, .. } => null_if_null(input, of),
        _ => false,
    }
}

/// Whether what is said of a value follows from what else is said of it.
fn follows(given: &Says<'_>, wanted: &Says<'_>) -> bool {
    match (given, wanted) {
        (Says::OneOf(values), _) => {
            !values.is_empty() && values.iter().all(|value| follows(&Says::Compared(CompareOp::Eq, value), wanted))
        }
        (Says::Compared(CompareOp::Eq, value), Says::Compared(op, bound)) => holds(*op, value, bound),
        (Says::Compared(CompareOp::Eq, value), Says::OneOf(values)) => {
            values.iter().any(|one| holds(CompareOp::Eq, value, one))
        }
        (Says::Compared(given, value), Says::Compared(wanted, bound)) => match (given, wanted) {
            (CompareOp::Ne, CompareOp::Ne) => holds(CompareOp::Eq, value, bound),
            (CompareOp::Lt, CompareOp::Lt | CompareOp::Le) | (CompareOp::Le, CompareOp::Le) => {
                holds(CompareOp::Le, value, bound)
            }
            (CompareOp::Le, CompareOp::Lt) => holds(CompareOp::Lt, value, bound),
            (CompareOp::Gt, CompareOp::Gt | CompareOp::Ge) | (CompareOp::Ge, CompareOp::Ge) => {
                holds(CompareOp::Ge, value, bound)
            }
            (CompareOp::Ge, CompareOp::Gt) => holds(CompareOp::Gt, value, bound),
            (CompareOp::Lt, CompareOp::Ne) => holds(CompareOp::Le, value, bound),
            (CompareOp::Le, CompareOp::Ne) => holds(CompareOp::Lt, value, bound),
            (CompareOp::Gt, CompareOp::Ne) => holds(CompareOp::Ge, value, bound),
            (CompareOp::Ge, CompareOp::Ne) => holds(CompareOp::Gt, value, bound),
            _ => false,
        },
        (Says::Compared(..), Says::OneOf(_)) => false,
    }
}

/// Whether two constants compare so. Those of different kinds are not compared.
fn holds(op: CompareOp, left: &Datum, right: &Datum) -> bool {
    if std::mem::discriminant(left) != std::mem::discriminant(right) {
        return false;
    }
    match op {
        CompareOp::Eq => operators::equal(left, right),
        CompareOp::Ne => !operators::equal(left, right),
        _ => op.holds(operators::compare(left, right)),
    }
}

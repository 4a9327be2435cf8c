//! Evaluating expressions on a row.
//!
//! A value that is there already (a column, a constant, a parameter, a slot) is handed out as a
//! reference; what has to be computed goes to a place that the caller lends. Conditions are
//! computed as `Option<bool>`, NULL being `None`.
//!
//! What may take long polls (see [`colibri_types::pulse`]): calls of functions, long lists and
//! arrays, queries. Other nodes need not, since whoever evaluates counts rows.
//!
//! Invariants: operands are evaluated from left to right, and not at all where the result is known
//! without; the pure part needs no transaction, so that filters can run while one is being read.
//! Depth is the binder's business: it bounds how deep expressions nest, and the frames here are
//! kept small (what needs room is in functions of its own).

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use colibri_catalog::RoutineVolatility;
use colibri_txn::Transaction;
use colibri_types::{Array, Datum, Env, Error, Result, Type, cast, functions::Function, operators, pulse};
use smallvec::SmallVec;

use super::group::{Fold, Groups};
use super::{Context, Exec, Statement, subquery};
use crate::expr::{CaseArm, CompareOp, Expr, Fold as AggregateFold, RoutineCall, SessionFunction, Test};

/// What calling a function takes at the least, in units of work.
const UNITS_PER_CALL: usize = 4;
/// What calling a function of a user's takes at the least.
const UNITS_PER_ROUTINE: usize = 40;
/// What comparing with a value of a list takes.
const UNITS_PER_ITEM: usize = 2;

/// Lists of constants longer than this are searched by a hash.
const LIST_SEARCHED_MIN: usize = 9;

/// What an expression is evaluated in.
pub struct Scope<'s> {
    pub env: &'s Env,
    pub params: &'s [Datum],
    pub slots: &'s [Datum],
    lists: Option<&'s RefCell<Lists>>,
    outside: Option<Outside<'s>>,
}

/// What queries inside expressions and session functions need besides.
struct Outside<'s> {
    txn: &'s mut dyn Transaction,
    statement: &'s mut Statement,
    cx: Context<'s>,
}

/// Long lists of constants by their numbers (see [`crate::expr::ListId`]).
pub(crate) type Lists = HashMap<u64, HashedList, BuildHasherDefault<Fold>>;

/// A list of constants that is searched by a hash.
pub(crate) struct HashedList {
    values: Groups,
    has_null: bool,
}

impl<'s> Scope<'s> {
    /// For expressions without queries and session functions.
    #[inline]
    pub fn pure(env: &'s Env, params: &'s [Datum], slots: &'s [Datum]) -> Self {
        Self { env, params, slots, lists: None, outside: None }
    }

    /// For expressions without queries and session functions that are evaluated again and again.
    #[inline]
    pub(super) fn repeated(env: &'s Env, params: &'s [Datum], slots: &'s [Datum], lists: &'s RefCell<Lists>) -> Self {
        Self { env, params, slots, lists: Some(lists), outside: None }
    }

    /// For any expression.
    #[inline]
    pub(super) fn full(
        txn: &'s mut dyn Transaction,
        cx: &'s mut Context<'_>,
        slots: &'s [Datum],
        statement: &'s mut Statement,
        lists: &'s RefCell<Lists>,
    ) -> Self {
        let Context { env, params, session, cancel, memory, budget_rows: _ } = cx;
        let (env, params) = (*env, *params);
        let cx = Context { env, params, session: &mut **session, cancel, memory, budget_rows: 0 };
        Self { env, params, slots, lists: Some(lists), outside: Some(Outside { txn, statement, cx }) }
    }

    /// Runs something that needs the transaction, with slots of its own.
    pub(super) fn outside<T>(
        &mut self,
        slots: &mut [Datum],
        run: impl FnOnce(&mut Exec<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        match (&mut self.outside, self.lists) {
            (Some(outside), Some(lists)) => {
                let Outside { txn, statement, cx } = outside;
                let mut cx = Context {
                    env: cx.env,
                    params: cx.params,
                    session: &mut *cx.session,
                    cancel: cx.cancel,
                    memory: cx.memory,
                    budget_rows: pulse::ROWS_AT_ONCE,
                };
                let done = run(&mut Exec { txn: &mut **txn, cx: &mut cx, slots, statement, lists })?;
                pulse::rows_done(pulse::ROWS_AT_ONCE - cx.budget_rows)?;
                Ok(done)
            }
            _ => Err(Error::internal("a query in an expression that has to do without a transaction")),
        }
    }

    pub(super) fn statement(&mut self) -> Result<&mut Statement> {
        match &mut self.outside {
            Some(outside) => Ok(outside.statement),
            None => Err(Error::internal("a query in an expression that has to do without a transaction")),
        }
    }
}

/// A condition's value as a value.
#[inline]
fn from_truth(truth: Option<bool>) -> Datum {
    truth.map_or(Datum::Null, Datum::Bool)
}

/// A value as a condition's.
#[inline]
fn to_truth(value: &Datum) -> Option<bool> {
    match value {
        Datum::Bool(value) => Some(*value),
        _ => None,
    }
}

/// Compares two values, either of which may be NULL.
#[inline]
pub(super) fn compare_values(op: CompareOp, left: &Datum, right: &Datum) -> Option<bool> {
    match (left, right) {
        (Datum::Int(left), Datum::Int(right)) => Some(op.holds(left.cmp(right))),
        (Datum::Null, _) | (_, Datum::Null) => None,
        _ => Some(match op {
            CompareOp::Eq => operators::equal(left, right),
            CompareOp::Ne => !operators::equal(left, right),
            _ => op.holds(operators::compare(left, right)),
        }),
    }
}

/// Compares two rows, whose values are given one pair after the other.
pub(super) fn compare_rows<'a>(
    op: CompareOp,
    pairs: impl Iterator<Item = Result<(&'a Datum, &'a Datum)>>,
) -> Result<Option<bool>> {
    let mut unknown = false;
    for pair in pairs {
        let (left, right) = pair?;
        if left.is_null() || right.is_null() {
            if !matches!(op, CompareOp::Eq | CompareOp::Ne) {
                return Ok(None);
            }
            unknown = true;
            continue;
        }
        let ordering = operators::compare(left, right);
        if ordering.is_ne() {
            return Ok(Some(op.holds(ordering)));
        }
    }
    Ok(if unknown { None } else { Some(op.holds(Ordering::Equal)) })
}

/// The value of an expression of constants.
///
/// # Errors
/// It has none.
pub fn value_of(constant: &Expr, env: &Env) -> Result<Datum> {
    constant.eval_owned(&mut Scope::pure(env, &[], &[]), &[])
}

/// Evaluating expressions.
pub trait Evaluate {
    /// Its value: a reference into the row, the scope or the expression, or to `scratch`, where it
    /// was computed.
    fn eval<'a, 's: 'a>(&'a self, scope: &mut Scope<'s>, row: &'a [Datum], scratch: &'a mut Datum)
    -> Result<&'a Datum>;

    /// Its value, to be kept.
    fn eval_owned(&self, scope: &mut Scope<'_>, row: &[Datum]) -> Result<Datum>;

    /// Whether it is true; not if it is NULL.
    fn eval_condition(&self, scope: &mut Scope<'_>, row: &[Datum]) -> Result<bool>;

    /// Whether it is true, false or NULL: for expressions that are boolean.
    fn truth(&self, scope: &mut Scope<'_>, row: &[Datum]) -> Result<Option<bool>>;
}

impl Evaluate for Expr {
    #[inline]
    fn eval<'a, 's: 'a>(
        &'a self,
        scope: &mut Scope<'s>,
        row: &'a [Datum],
        scratch: &'a mut Datum,
    ) -> Result<&'a Datum> {
        match self {
            Self::Column(column) => Ok(&row[*column]),
            Self::Const(value) => Ok(value),
            Self::Param(param) => Ok(&scope.params[*param]),
            Self::Arg(slot) => Ok(&scope.slots[*slot]),
            Self::Cast { input, from, to, .. } if cast::keeps_values(*from, to.ty, to.modifier) => {
                input.eval(scope, row, scratch)
            }
            _ => {
                *scratch = compute(self, scope, row)?;
                Ok(scratch)
            }
        }
    }

    #[inline]
    fn eval_owned(&self, scope: &mut Scope<'_>, row: &[Datum]) -> Result<Datum> {
        match self {
            Self::Column(column) => Ok(row[*column].clone()),
            Self::Const(value) => Ok(value.clone()),
            Self::Param(param) => Ok(scope.params[*param].clone()),
            Self::Arg(slot) => Ok(scope.slots[*slot].clone()),
            _ => compute(self, scope, row),
        }
    }

    #[inline]
    fn eval_condition(&self, scope: &mut Scope<'_>, row: &[Datum]) -> Result<bool> {
        // Whether the whole is false or NULL does not matter: what follows the first that is not
        // true is not looked at.
        if let Self::And(conditions) = self {
            for condition in conditions {
                if condition.truth(scope, row)? != Some(true) {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        Ok(self.truth(scope, row)? == Some(true))
    }

    fn truth(&self, scope: &mut Scope<'_>, row: &[Datum]) -> Result<Option<bool>> {
        match self {
            Self::Compare { op, left, right } => {
                let (mut left_scratch, mut right_scratch) = (Datum::Null, Datum::Null);
                let left = left.eval(scope, row, &mut left_scratch)?;
                let right = right.eval(scope, row, &mut right_scratch)?;
                Ok(compare_values(*op, left, right))
            }
            Self::And(conditions) => {
                count_parts(conditions.len())?;
                let mut unknown = false;
                for condition in conditions {
                    match condition.truth(scope, row)? {
                        Some(true) => {}
                        Some(false) => return Ok(Some(false)),
                        None => unknown = true,
                    }
                }
                Ok(if unknown { None } else { Some(true) })
            }
            Self::Or(conditions) => {
                count_parts(conditions.len())?;
                let mut unknown = false;
                for condition in conditions {
                    match condition.truth(scope, row)? {
                        Some(false) => {}
                        Some(true) => return Ok(Some(true)),
                        None => unknown = true,
                    }
                }
                Ok(if unknown { None } else { Some(false) })
            }
            Self::Not(condition) => Ok(condition.truth(scope, row)?.map(|value| !value)),
            Self::IsNull { input, negated } => {
                let mut scratch = Datum::Null;
                Ok(Some(input.eval(scope, row, &mut scratch)?.is_null() != *negated))
            }
            Self::IsBool { input, value, negated } => Ok(Some((input.truth(scope, row)? == *value) != *negated)),
            Self::Distinct { left, right, negated } => distinct(left, right, *negated, scope, row),
            Self::CompareRows { op, left, right } => compare_expr_rows(*op, left, right, scope, row),
            Self::InList { input, list, negated, id } => in_list(input, (list, id.get()), *negated, scope, row),
            Self::AnyOf { test, left, array, all } => any_of(*test, left, array, *all, scope, row),
            Self::Column(column) => Ok(to_truth(&row[*column])),
            _ => Ok(to_truth(&self.eval_owned(scope, row)?)),
        }
    }
}

fn compute(expr: &Expr, scope: &mut Scope<'_>, row: &[Datum]) -> Result<Datum> {
    match expr {
        Expr::Const(_) | Expr::Column(_) | Expr::Param(_) | Expr::Arg(_) => expr.eval_owned(scope, row),
        Expr::Aggregate(_) | Expr::Extra(_) => {
            Err(Error::internal("a value of several rows was not put into a column"))
        }
        Expr::Compare { .. }
        | Expr::Distinct { .. }
        | Expr::CompareRows { .. }
        | Expr::And(_)
        | Expr::Or(_)
        | Expr::Not(_)
        | Expr::IsNull { .. }
        | Expr::IsBool { .. }
        | Expr::AnyOf { .. }
        | Expr::InList { .. } => Ok(from_truth(expr.truth(scope, row)?)),
        Expr::Array { element, values } => make_array(*element, values, scope, row),
        Expr::Call { function, args } => match args.as_slice() {
            [left, right] => call_two(function, left, right, scope, row),
            [arg] => call_one(function, arg, scope, row),
            _ => call_many(function, args, scope, row),
        },
        Expr::Chain { first, links } => call_chain(first, links, scope, row),
        Expr::Cast { input, from, to, context } => {
            let mut scratch = Datum::Null;
            let value = input.eval(scope, row, &mut scratch)?;
            match value {
                Datum::Null => Ok(Datum::Null),
                Datum::Int(value) if to.ty == Type::Int8 && from.is_integer() => Ok(Datum::Int(*value)),
                value => cast::cast(value, *from, to.ty, to.modifier, *context, scope.env),
            }
        }
        Expr::Domain { input, rules } => {
            let value = input.eval_owned(scope, row)?;
            crate::domains::check_value(rules, &value, scope)?;
            Ok(value)
        }
        Expr::Case { arms, otherwise } => {
            for (condition, value) in arms {
                if condition.eval_condition(scope, row)? {
                    return value.eval_owned(scope, row);
                }
            }
            otherwise.eval_owned(scope, row)
        }
        Expr::CaseOf { operand, arms, otherwise } => {
            let operand = operand.eval_owned(scope, row)?;
            for arm in arms {
                if is_case(arm, &operand, scope, row)? {
                    return arm.result.eval_owned(scope, row);
                }
            }
            otherwise.eval_owned(scope, row)
        }
        Expr::Coalesce(args) => {
            for arg in args {
                let value = arg.eval_owned(scope, row)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            Ok(Datum::Null)
        }
        Expr::NullIf { left, left_as, right } => {
            let value = left.eval_owned(scope, row)?;
            let equal = {
                let mut scratch = Datum::Null;
                let right = right.eval(scope, row, &mut scratch)?;
                match left_as {
                    Some((from, to)) if !value.is_null() => {
                        let context = cast::CastContext::Implicit;
                        let value = cast::cast(&value, *from, to.ty, to.modifier, context, scope.env)?;
                        compare_values(CompareOp::Eq, &value, right)
                    }
                    _ => compare_values(CompareOp::Eq, &value, right),
                }
            };
            Ok(if equal == Some(true) { Datum::Null } else { value })
        }
        Expr::Extreme { greatest, args } => {
            count_parts(args.len())?;
            let wanted = if *greatest { Ordering::Greater } else { Ordering::Less };
            let mut best = Datum::Null;
            for arg in args {
                let value = arg.eval_owned(scope, row)?;
                if !value.is_null() && (best.is_null() || operators::compare(&value, &best) == wanted) {
                    best = value;
                }
            }
            Ok(best)
        }
        Expr::Subquery(subquery) => subquery::evaluate(subquery, scope, row),
        Expr::Session { function, args } => call_session(function, args, scope, row),
    }
}

/// Parts of an expression from which they are counted as work; fewer are little beside what looks
/// at the row.
const PARTS_COUNTED: usize = 64;

/// Counts the parts of a long expression, many of which count nothing by themselves: arithmetic of
/// integers, comparisons.
#[inline]
fn count_parts(parts: usize) -> Result<()> {
    if parts < PARTS_COUNTED { Ok(()) } else { pulse::work(parts * UNITS_PER_CALL) }
}

#[inline(never)]
fn make_array(element: Type, values: &[Expr], scope: &mut Scope<'_>, row: &[Datum]) -> Result<Datum> {
    count_parts(values.len())?;
    let values = values.iter().map(|value| value.eval_owned(scope, row)).collect::<Result<Vec<_>>>()?;
    Ok(Datum::Array(std::sync::Arc::new(Array::of_values(element, values)?)))
}

/// Tries a value with each of an array's.
#[inline(never)]
fn any_of(
    test: Test,
    left: &Expr,
    array: &Expr,
    all: bool,
    scope: &mut Scope<'_>,
    row: &[Datum],
) -> Result<Option<bool>> {
    let (mut left_scratch, mut array_scratch) = (Datum::Null, Datum::Null);
    let left = left.eval(scope, row, &mut left_scratch)?;
    let Datum::Array(array) = array.eval(scope, row, &mut array_scratch)? else { return Ok(None) };
    let mut unknown = false;
    for value in array.values() {
        pulse::work(UNITS_PER_ITEM)?;
        let truth = match test {
            Test::Compare(op) => compare_values(op, left, value),
            Test::Call(function) => to_truth(&function.call(&[left, value], scope.env)?),
        };
        match truth {
            Some(truth) if truth != all => return Ok(Some(truth)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { None } else { Some(all) })
}

#[inline(never)]
fn distinct(left: &Expr, right: &Expr, negated: bool, scope: &mut Scope<'_>, row: &[Datum]) -> Result<Option<bool>> {
    let (mut left_scratch, mut right_scratch) = (Datum::Null, Datum::Null);
    let left = left.eval(scope, row, &mut left_scratch)?;
    let right = right.eval(scope, row, &mut right_scratch)?;
    let distinct = match (left.is_null(), right.is_null()) {
        (true, true) => false,
        (false, false) => !operators::equal(left, right),
        _ => true,
    };
    Ok(Some(distinct != negated))
}

#[inline(never)]
fn compare_expr_rows(
    op: CompareOp,
    left: &[Expr],
    right: &[Expr],
    scope: &mut Scope<'_>,
    row: &[Datum],
) -> Result<Option<bool>> {
    let mut unknown = false;
    for (left, right) in left.iter().zip(right) {
        let (mut left_scratch, mut right_scratch) = (Datum::Null, Datum::Null);
        let left = left.eval(scope, row, &mut left_scratch)?;
        let right = right.eval(scope, row, &mut right_scratch)?;
        // One pair: what it says is final unless the pair is equal, or is NULL and others may still
        // differ.
        match compare_rows(op, std::iter::once(Ok((left, right))))? {
            None if matches!(op, CompareOp::Eq | CompareOp::Ne) => unknown = true,
            None => return Ok(None),
            Some(holds) if operators::compare(left, right).is_ne() => return Ok(Some(holds)),
            Some(_) => {}
        }
    }
    Ok(if unknown { None } else { Some(op.holds(Ordering::Equal)) })
}

#[inline(never)]
fn in_list(
    input: &Expr,
    (list, id): (&[Expr], u64),
    negated: bool,
    scope: &mut Scope<'_>,
    row: &[Datum],
) -> Result<Option<bool>> {
    let mut scratch = Datum::Null;
    let value = input.eval(scope, row, &mut scratch)?;
    if value.is_null() && !list.is_empty() {
        return Ok(None);
    }
    let (mut found, mut unknown) = (false, false);
    if list.len() >= LIST_SEARCHED_MIN
        && let Some(lists) = scope.lists
        && let Some((hit, has_null)) = search_list((list, id), value, scope, lists)?
    {
        (found, unknown) = (hit, has_null);
    } else {
        for item in list {
            pulse::work(UNITS_PER_ITEM)?;
            let mut scratch = Datum::Null;
            match compare_values(CompareOp::Eq, value, item.eval(scope, row, &mut scratch)?) {
                Some(true) => {
                    found = true;
                    break;
                }
                Some(false) => {}
                None => unknown = true,
            }
        }
    }
    Ok(if found {
        Some(!negated)
    } else if unknown {
        None
    } else {
        Some(negated)
    })
}

/// Whether a list of constants has a value, and whether it has NULLs; `None` if it is not one of
/// constants.
fn search_list(
    (list, id): (&[Expr], u64),
    value: &Datum,
    scope: &Scope<'_>,
    lists: &RefCell<Lists>,
) -> Result<Option<(bool, bool)>> {
    let mut lists = lists.borrow_mut();
    let hashed = match lists.entry(id) {
        std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
        std::collections::hash_map::Entry::Vacant(entry) => {
            let mut values = Groups::new(1);
            let mut has_null = false;
            for item in list {
                let value = match item {
                    Expr::Const(value) => value,
                    Expr::Param(param) => &scope.params[*param],
                    _ => return Ok(None),
                };
                match value {
                    Datum::Null => has_null = true,
                    value => {
                        pulse::work(UNITS_PER_CALL)?;
                        values.find_or_add(std::slice::from_ref(value));
                    }
                }
            }
            entry.insert(HashedList { values, has_null })
        }
    };
    let hit = hashed.values.find(std::slice::from_ref(value)).is_some();
    Ok(Some((hit, hashed.has_null)))
}

#[inline(never)]
fn call_one(function: &Function, arg: &Expr, scope: &mut Scope<'_>, row: &[Datum]) -> Result<Datum> {
    let mut scratch = Datum::Null;
    let value = arg.eval(scope, row, &mut scratch)?;
    if function.strict && value.is_null() {
        return Ok(Datum::Null);
    }
    pulse::work(UNITS_PER_CALL)?;
    (function.eval)(&[value], scope.env)
}

#[inline(never)]
fn call_two(function: &Function, left: &Expr, right: &Expr, scope: &mut Scope<'_>, row: &[Datum]) -> Result<Datum> {
    let (mut left_scratch, mut right_scratch) = (Datum::Null, Datum::Null);
    let left = left.eval(scope, row, &mut left_scratch)?;
    let right = right.eval(scope, row, &mut right_scratch)?;
    if let (Datum::Int(left), Datum::Int(right)) = (left, right)
        && let Some(value) = int_arithmetic(function, *left, *right)
    {
        return Ok(Datum::Int(value));
    }
    if function.strict && (left.is_null() || right.is_null()) {
        return Ok(Datum::Null);
    }
    pulse::work(UNITS_PER_CALL)?;
    (function.eval)(&[left, right], scope.env)
}

#[inline(never)]
fn call_chain(
    first: &Expr,
    links: &[(&'static Function, Expr)],
    scope: &mut Scope<'_>,
    row: &[Datum],
) -> Result<Datum> {
    let mut value = Expr::Const(first.eval_owned(scope, row)?);
    for (function, operand) in links {
        value = Expr::Const(call_two(function, &value, operand, scope, row)?);
    }
    Ok(if let Expr::Const(value) = value { value } else { Datum::Null })
}

/// `+`, `-` and `*` of integers, if the result fits; the function itself says what is wrong
/// otherwise.
#[inline]
fn int_arithmetic(function: &Function, left: i64, right: i64) -> Option<i64> {
    let value = match function.name {
        "+" => left.checked_add(right)?,
        "-" => left.checked_sub(right)?,
        "*" => left.checked_mul(right)?,
        _ => return None,
    };
    match function.result {
        Type::Int8 => Some(value),
        Type::Int4 => i32::try_from(value).is_ok().then_some(value),
        Type::Int2 => i16::try_from(value).is_ok().then_some(value),
        _ => None,
    }
}

#[inline(never)]
fn call_many(function: &Function, args: &[Expr], scope: &mut Scope<'_>, row: &[Datum]) -> Result<Datum> {
    let mut scratch: SmallVec<[Datum; 4]> = SmallVec::from_elem(Datum::Null, args.len());
    let mut values: SmallVec<[&Datum; 4]> = SmallVec::new();
    for (arg, scratch) in args.iter().zip(&mut scratch) {
        values.push(arg.eval(scope, row, scratch)?);
    }
    if function.strict && values.iter().any(|value| value.is_null()) {
        return Ok(Datum::Null);
    }
    pulse::work(UNITS_PER_CALL)?;
    (function.eval)(&values, scope.env)
}

#[inline(never)]
fn call_session(function: &SessionFunction, args: &[Expr], scope: &mut Scope<'_>, row: &[Datum]) -> Result<Datum> {
    let values = args.iter().map(|arg| arg.eval_owned(scope, row)).collect::<Result<Vec<Datum>>>()?;
    if let SessionFunction::Fold(fold) = function {
        return folded(fold, values.first(), scope);
    }
    if let SessionFunction::Routine(call) = function
        && let Some(body) = &call.body
    {
        if call.routine.strict && values.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        pulse::work(UNITS_PER_CALL)?;
        return body.eval_owned(scope, &values);
    }
    let Some(outside) = &mut scope.outside else {
        return Err(Error::internal("a session function in an expression that has to do without a session"));
    };
    match function {
        SessionFunction::NextVal(sequence) => Ok(Datum::Int(outside.cx.session.next_value(sequence)?)),
        SessionFunction::Routine(call) => {
            if call.routine.strict && values.iter().any(Datum::is_null) {
                return Ok(Datum::Null);
            }
            // PostgreSQL calls one that is IMMUTABLE on constants when it plans: once, too.
            let is_fixed = call.routine.volatility == RoutineVolatility::Immutable
                && args.iter().all(|arg| matches!(arg, Expr::Const(_) | Expr::Param(_)));
            let known = |(of, _): &&(Arc<RoutineCall>, Datum)| Arc::ptr_eq(of, call);
            if is_fixed && let Some((_, value)) = outside.statement.fixed_calls.iter().find(known) {
                return Ok(value.clone());
            }
            pulse::work(UNITS_PER_ROUTINE)?;
            // What is called sees all that was written, unless it says that it gives the same to the whole
            // statement: then it sees what that one does.
            // Bug: all saw what was written. Consequence: a STABLE function that counts rows gave another
            // number for each row that the statement had written. Fix: as in PostgreSQL.
            let is_volatile = call.routine.volatility == RoutineVolatility::Volatile;
            let before = is_volatile.then(|| outside.txn.see_old(false));
            let given = outside.cx.session.call_routine(&mut *outside.txn, outside.cx.env, call, values);
            if let Some(before) = before {
                outside.txn.see_old(before);
            }
            if is_fixed && let Ok(value) = &given {
                outside.statement.fixed_calls.push((Arc::clone(call), value.clone()));
            }
            given
        }
        SessionFunction::Fold(_) => Err(Error::internal("an aggregate is called as a function")),
        SessionFunction::Named(name) => outside.cx.session.call(&mut *outside.txn, name, &values),
    }
}

/// The value of an aggregate of a user's over what was gathered.
fn folded(fold: &AggregateFold, gathered: Option<&Datum>, scope: &mut Scope<'_>) -> Result<Datum> {
    let mut row = vec![Datum::Null; fold.values + 1];
    // A strict transition without a state at the beginning takes the first value for it.
    let mut takes_first = fold.is_strict && fold.initial.is_none();
    row[0] = fold.initial.clone().unwrap_or_default();
    let all = match gathered {
        Some(Datum::Array(all)) => all.values(),
        _ => &[],
    };
    for one in all {
        pulse::work(UNITS_PER_CALL)?;
        match one {
            Datum::Row(values) if fold.values > 1 => row[1..].clone_from_slice(&values.values()[..fold.values]),
            one if fold.values == 1 => row[1] = one.clone(),
            _ => {}
        }
        if fold.is_strict && row[1..].iter().any(Datum::is_null) {
            continue;
        }
        if std::mem::take(&mut takes_first) {
            row[0] = row.get(1).cloned().unwrap_or_default();
            continue;
        }
        if fold.is_strict && row[0].is_null() {
            continue;
        }
        row[0] = fold.transition.eval_owned(scope, &row)?;
    }
    match &fold.finish {
        None => Ok(row.swap_remove(0)),
        Some((_, true)) if row[0].is_null() => Ok(Datum::Null),
        Some((finish, _)) => {
            row[1..].fill(Datum::Null);
            finish.eval_owned(scope, &row)
        }
    }
}

/// Whether the operand of CASE is what an arm says. Values are evaluated for NULL too, as in
/// PostgreSQL.
fn is_case(arm: &CaseArm, operand: &Datum, scope: &mut Scope<'_>, row: &[Datum]) -> Result<bool> {
    let mut scratch = Datum::Null;
    let cast_operand;
    let operand = match arm.operand_as {
        Some((from, to)) if !operand.is_null() => {
            cast_operand = cast::cast(operand, from, to.ty, to.modifier, cast::CastContext::Implicit, scope.env)?;
            &cast_operand
        }
        _ => operand,
    };
    let value = arm.value.eval(scope, row, &mut scratch)?;
    Ok(compare_values(CompareOp::Eq, operand, value) == Some(true))
}

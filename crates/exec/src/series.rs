//! Rows out of nothing: VALUES, functions that give rows; and rows with such rows behind them.
//!
//! Invariants: a series whose start, stop or step is NULL is empty; one that would leave its type's
//! range ends there.

use std::sync::Arc;

use colibri_types::{
    Array, Datum, Env, Error, Numeric, Result, Row, RowType, SqlState, Type, functions,
    functions::ON_VALUES,
    functions::{Function, JsonRows},
    operators, pulse,
};

use super::domains::check_value;
use super::operator::{Operator, Run};
use super::pass_through::{put_aside, take_up};
use super::{Batch, Exec, Scope, Step};
use crate::eval::Evaluate as _;
use crate::expr::Expr;
use crate::plan::{Exprs, Series};

/// VALUES at work.
pub(super) struct ValuesRun {
    rows: Arc<[Vec<Expr>]>,
    done: usize,
    /// Values of the next row, if the statement could not go on in the middle of it.
    begun: Vec<Datum>,
}

impl ValuesRun {
    pub(super) fn new(rows: &Arc<[Vec<Expr>]>) -> Self {
        Self { rows: Arc::clone(rows), done: 0, begun: Vec::new() }
    }
}

impl Operator for ValuesRun {
    fn reset(&mut self) {
        self.done = 0;
        self.begun = Vec::new();
    }

    fn rewind(&mut self, _: &mut Exec<'_, '_>) {
        self.reset();
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let sets = ex.statement.param_sets.max(1);
        let count = self.rows.len() * sets;
        if self.done >= count {
            return Ok(Step::Done);
        }
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        let params = ex.cx.params;
        let set_width = params.len() / sets;
        out.reset(self.rows[0].len());
        let mut scope = ex.scope();
        while self.done < count && !out.is_full() {
            let values = out.push();
            let begun = take_up(&mut self.begun, values);
            let (set, row) = (self.done / self.rows.len(), self.done % self.rows.len());
            if sets > 1 {
                scope.params = &params[set * set_width..][..set_width];
            }
            for (place, expr) in self.rows[row].iter().enumerate().skip(begun) {
                match expr.eval_owned(&mut scope, &[]) {
                    Ok(value) => values[place] = value,
                    Err(error) => {
                        put_aside(&mut self.begun, place, out);
                        return ex.interrupted(error, out);
                    }
                }
                if pulse::is_to_sleep() {
                    return Ok(put_aside(&mut self.begun, place + 1, out));
                }
            }
            self.done += 1;
        }
        ex.spend(out.rows());
        Ok(Step::Rows)
    }
}

/// A series at work.
pub(super) struct SeriesRun {
    series: Series,
    args: Exprs,
    numbered: bool,
    state: Option<State>,
    /// Rows so far.
    count: i64,
}

enum State {
    Ints {
        next: Option<i64>,
        stop: i64,
        step: i64,
    },
    /// Values that a function adds the step to.
    Added {
        next: Option<Datum>,
        stop: Datum,
        step: Datum,
        rising: bool,
        add: &'static Function,
    },
    /// An array's values.
    Values {
        array: Arc<Array>,
        next: usize,
    },
    /// Rows of full text search.
    Search(functions::SearchRun),
    /// Values that are there already.
    Listed(std::vec::IntoIter<Datum>),
    /// An array's values with their places.
    Expanded {
        array: Arc<Array>,
        next: usize,
        ty: Arc<RowType>,
    },
    Empty,
}

fn zero_step() -> Error {
    Error::new(SqlState::BAD_PARAMETER, "step size cannot equal zero")
}

/// The values of a call's arguments.
fn arguments(args: &[Expr], scope: &mut Scope<'_>, row: &[Datum]) -> Result<Vec<Datum>> {
    args.iter().map(|arg| arg.eval_owned(scope, row)).collect()
}

/// What a function of the registry makes of texts.
fn called(name: &str, values: &[Datum], env: &Env) -> Result<Datum> {
    let function = ON_VALUES.function(name, &vec![Type::Text; values.len()])?;
    function.call(&values.iter().collect::<Vec<_>>(), env)
}

impl State {
    fn new(series: Series, values: Vec<Datum>, env: &Env) -> Result<Self> {
        match series {
            Series::One => return Ok(Self::Listed(values.into_iter())),
            Series::Routine => {
                return Ok(match values.into_iter().next() {
                    Some(Datum::Array(array)) => Self::Listed(array.values().to_vec().into_iter()),
                    _ => Self::Empty,
                });
            }
            Series::Pieces => return Self::of_array(Series::Unnest, &called("string_to_array", &values, env)?, &[]),
            _ => {}
        }
        if let Series::Json(rows) = series {
            let may_be_null = |at: usize| rows == JsonRows::Records && at == 1;
            if values.iter().enumerate().any(|(at, value)| value.is_null() && !may_be_null(at)) {
                return Ok(Self::Empty);
            }
            return Ok(Self::Listed(functions::json_rows(rows, &values, env)?.into_iter()));
        }
        if values.iter().any(Datum::is_null) {
            return Ok(Self::Empty);
        }
        if let Series::Search(rows) = series {
            return functions::SearchRun::new(rows, &values, env).map(Self::Search);
        }
        if let (Series::Unnest | Series::Subscripts | Series::Expanded, [first, rest @ ..]) = (series, &values[..]) {
            return Self::of_array(series, first, rest);
        }
        if let (Series::Matches | Series::Split, [Datum::Text(text), Datum::Text(pattern), rest @ ..]) =
            (series, &values[..])
        {
            let flags = if let Some(Datum::Text(flags)) = rest.first() { flags } else { "" };
            let listed = match series {
                Series::Matches => functions::all_matches(text, pattern, flags)?,
                _ => functions::split(text, pattern, flags, "regexp_split_to_table")?,
            };
            return Ok(Self::Listed(listed.into_iter()));
        }
        let mut values = values.into_iter();
        let (Some(start), Some(stop)) = (values.next(), values.next()) else {
            return Err(Error::internal("a series without start or stop"));
        };
        let step = values.next();
        let (ty, step_ty, step, zero) = match series {
            Series::Ints => {
                let (Datum::Int(start), Datum::Int(stop), Datum::Int(step)) =
                    (start, stop, step.unwrap_or(Datum::Int(1)))
                else {
                    return Err(Error::internal("a series of integers of something else"));
                };
                return if step == 0 { Err(zero_step()) } else { Ok(Self::Ints { next: Some(start), stop, step }) };
            }
            Series::Numerics => {
                for (what, value) in
                    [("start value", Some(&start)), ("stop value", Some(&stop)), ("step size", step.as_ref())]
                {
                    if let Some(Datum::Numeric(number)) = value
                        && !number.is_finite()
                    {
                        let found = if number.is_nan() { "NaN" } else { "infinity" };
                        return Err(Error::new(SqlState::BAD_PARAMETER, format!("{what} cannot be {found}")));
                    }
                }
                let step = step.unwrap_or(Datum::Numeric(Numeric::ONE));
                (Type::Numeric, Type::Numeric, step, Datum::Numeric(Numeric::ZERO))
            }
            Series::Timestamps | Series::TimestampTzs => {
                let step = step.ok_or_else(|| Error::internal("a series of timestamps without a step"))?;
                let ty = if series == Series::Timestamps { Type::Timestamp } else { Type::TimestampTz };
                (ty, Type::Interval, step, Datum::Interval(colibri_types::Interval::default()))
            }
            _ => return Err(Error::internal("a series of what is none")),
        };
        let order = operators::compare(&step, &zero);
        if order.is_eq() {
            return Err(zero_step());
        }
        let add = ON_VALUES.operator("+", Some(ty), step_ty)?;
        Ok(Self::Added { next: Some(start), stop, step, rising: order.is_gt(), add })
    }

    /// Fails if a row that is made of JSON has a field that does not obey the field's domain,
    /// whether anybody asks for the field or not: the row of no values in front of the call's
    /// arguments says what the domains demand.
    fn check_fields(&self, series: Series, args: &[Expr], scope: &mut Scope<'_>) -> Result<()> {
        match (series, args.first(), self) {
            (Series::Json(JsonRows::Records), Some(Expr::Domain { rules, .. }), Self::Listed(rows)) => {
                rows.as_slice().iter().try_for_each(|row| check_value(rules, row, scope))
            }
            _ => Ok(()),
        }
    }

    fn of_array(series: Series, array: &Datum, rest: &[Datum]) -> Result<Self> {
        let Datum::Array(array) = array else { return Ok(Self::Empty) };
        Ok(match series {
            Series::Unnest => Self::Values { array: Arc::clone(array), next: 0 },
            Series::Expanded => {
                let ty = Arc::new(RowType::expanded(array.element()));
                Self::Expanded { array: Arc::clone(array), next: 0, ty }
            }
            Series::Subscripts => {
                let (Some(Datum::Int(dimension)), reverse) = (rest.first(), rest.get(1)) else {
                    return Ok(Self::Empty);
                };
                let at = usize::try_from(dimension - 1).ok();
                let Some(found) = at.and_then(|at| array.dimensions().get(at)) else { return Ok(Self::Empty) };
                let (low, high) = (i64::from(found.lower), found.upper());
                if reverse == Some(&Datum::Bool(true)) {
                    Self::Ints { next: Some(high), stop: low, step: -1 }
                } else {
                    Self::Ints { next: Some(low), stop: high, step: 1 }
                }
            }
            _ => Self::Empty,
        })
    }

    fn next(&mut self, env: &Env) -> Result<Option<Datum>> {
        Ok(match self {
            Self::Search(run) => run.next_row()?,
            other => other.next_value(env),
        })
    }

    /// The next one of values that are known.
    fn next_value(&mut self, env: &Env) -> Option<Datum> {
        match self {
            Self::Empty | Self::Search(_) => None,
            Self::Ints { next, stop, step } => {
                let value = (*next)?;
                let inside = if *step > 0 { value <= *stop } else { value >= *stop };
                *next = if inside { value.checked_add(*step) } else { None };
                inside.then_some(Datum::Int(value))
            }
            Self::Added { next, stop, step, rising, add } => {
                let value = next.take()?;
                let order = operators::compare(&value, stop);
                if if *rising { order.is_gt() } else { order.is_lt() } {
                    return None;
                }
                // What lies beyond the type's range lies beyond the stop.
                *next = (add.eval)(&[&value, step], env).ok();
                Some(value)
            }
            Self::Listed(values) => values.next(),
            Self::Values { array, next } => {
                let value = array.values().get(*next)?.clone();
                *next += 1;
                Some(value)
            }
            Self::Expanded { array, next, ty } => {
                let value = array.values().get(*next)?.clone();
                *next += 1;
                let pair = vec![value, Datum::Int(*next as i64)];
                Some(Datum::Row(Arc::new(Row::new(Arc::clone(ty), pair))))
            }
        }
    }
}

impl SeriesRun {
    pub(super) fn new(series: Series, args: &Exprs, numbered: bool) -> Self {
        Self { series, args: Arc::clone(args), numbered, state: None, count: 0 }
    }
}

impl Operator for SeriesRun {
    fn reset(&mut self) {
        (self.state, self.count) = (None, 0);
    }

    fn rewind(&mut self, _: &mut Exec<'_, '_>) {
        self.reset();
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let numbered = self.numbered;
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        let state = match &mut self.state {
            Some(state) => state,
            none => {
                let values = match arguments(&self.args, &mut ex.scope(), &[]) {
                    Ok(values) => values,
                    Err(error) => return ex.interrupted(error, out),
                };
                let state = State::new(self.series, values, ex.cx.env)?;
                if let Err(error) = state.check_fields(self.series, &self.args, &mut ex.scope()) {
                    return ex.interrupted(error, out);
                }
                none.insert(state)
            }
        };
        out.reset(1 + usize::from(numbered));
        let rows_max = out.rows_max().min(ex.cx.budget_rows as usize);
        while out.rows() < rows_max
            && let Some(value) = state.next(ex.cx.env)?
        {
            self.count += 1;
            let row = out.push();
            row[0] = value;
            if numbered {
                row[1] = Datum::Int(self.count);
            }
        }
        ex.spend(out.rows());
        Ok(if out.is_empty() { Step::Done } else { Step::Rows })
    }
}

/// Rows with what functions give behind them, at work.
pub(super) struct ExpandRun {
    input: Run,
    calls: Arc<[(Series, Vec<Expr>)]>,
    rows: Batch,
    /// The row at hand, and how far its calls are.
    at: usize,
    states: Vec<State>,
}

impl ExpandRun {
    pub(super) fn new(input: Run, calls: &Arc<[(Series, Vec<Expr>)]>) -> Self {
        Self { input, calls: Arc::clone(calls), rows: Batch::new(), at: 0, states: Vec::new() }
    }
}

impl Operator for ExpandRun {
    fn reset(&mut self) {
        self.rows = std::mem::take(&mut self.rows).kept();
        self.at = 0;
        self.states = Vec::new();
        self.input.reset();
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.rows.reset(0);
        self.at = 0;
        self.states.clear();
        self.input.rewind(ex);
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.input.give_back(ex);
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        loop {
            if ex.is_used_up() {
                return Ok(Step::Yield);
            }
            let width = self.rows.width();
            out.reset(width + self.calls.len());
            while self.at < self.rows.rows() && !out.is_full() {
                if self.states.is_empty() {
                    let mut scope = ex.scope();
                    for (series, args) in self.calls.iter() {
                        let values = match arguments(args, &mut scope, self.rows.row(self.at)) {
                            Ok(values) => values,
                            Err(error) => {
                                self.states.clear();
                                return ex.interrupted(error, out);
                            }
                        };
                        let state = State::new(*series, values, scope.env)?;
                        if let Err(error) = state.check_fields(*series, args, &mut scope) {
                            self.states.clear();
                            return ex.interrupted(error, out);
                        }
                        self.states.push(state);
                    }
                }
                let mut any = false;
                let row = out.push();
                for (value, state) in row[width..].iter_mut().zip(&mut self.states) {
                    let next = state.next(ex.cx.env)?;
                    any |= next.is_some();
                    *value = next.unwrap_or_default();
                }
                if any {
                    row[..width].clone_from_slice(self.rows.row(self.at));
                } else {
                    out.pop();
                    self.states.clear();
                    self.at += 1;
                }
            }
            ex.spend(out.rows());
            if !out.is_empty() {
                return Ok(Step::Rows);
            }
            self.at = 0;
            match self.input.step(ex, &mut self.rows)? {
                Step::Rows => {}
                other => {
                    self.rows.reset(width);
                    return Ok(other);
                }
            }
        }
    }
}

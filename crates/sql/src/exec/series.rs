//! Rows out of nothing: VALUES and `generate_series`.
//!
//! Invariants: a series whose start, stop or step is NULL is empty; one that would leave its type's range ends there.

use super::{Batch, Exec, Step};
use crate::error::{Error, Result, SqlState};
use crate::expr::Expr;
use crate::functions::Function;
use crate::numeric::Numeric;
use crate::operators;
use crate::plan::Series;
use crate::resolve;
use crate::types::Type;
use crate::value::Datum;

/// VALUES at work.
#[derive(Default)]
pub(crate) struct ValuesRun {
    done: usize,
}

impl ValuesRun {
    pub(super) fn step(&mut self, rows: &[Vec<Expr>], ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let Some(first) = rows.get(self.done) else { return Ok(Step::Done) };
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        out.reset(first.len());
        let mut scope = ex.scope();
        while self.done < rows.len() && !out.is_full() {
            for (value, expr) in out.push().iter_mut().zip(&rows[self.done]) {
                *value = expr.eval_owned(&mut scope, &[])?;
            }
            self.done += 1;
        }
        ex.spend(out.rows());
        Ok(Step::Rows)
    }
}

/// A series at work.
#[derive(Default)]
pub(crate) struct SeriesRun {
    state: Option<State>,
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
    Empty,
}

fn zero_step() -> Error {
    Error::new(SqlState::BAD_PARAMETER, "step size cannot equal zero")
}

impl State {
    fn new(series: Series, args: &[Expr], ex: &mut Exec<'_, '_>) -> Result<Self> {
        let mut scope = ex.scope();
        let mut values = Vec::with_capacity(3);
        for arg in args {
            values.push(arg.eval_owned(&mut scope, &[])?);
        }
        if values.iter().any(Datum::is_null) {
            return Ok(Self::Empty);
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
                let step = step.unwrap_or(Datum::Numeric(Numeric::new(1, 0)));
                (Type::Numeric, Type::Numeric, step, Datum::Numeric(Numeric::new(0, 0)))
            }
            Series::Timestamps | Series::TimestampTzs => {
                let step = step.ok_or_else(|| Error::internal("a series of timestamps without a step"))?;
                let ty = if series == Series::Timestamps { Type::Timestamp } else { Type::TimestampTz };
                (ty, Type::Interval, step, Datum::Interval(crate::interval::Interval::default()))
            }
        };
        let order = operators::compare(&step, &zero);
        if order.is_eq() {
            return Err(zero_step());
        }
        let add = resolve::resolve_operator("+", Some(ty), step_ty)?;
        Ok(Self::Added { next: Some(start), stop, step, rising: order.is_gt(), add })
    }
}

impl SeriesRun {
    pub(super) fn step(
        &mut self,
        series: Series,
        args: &[Expr],
        ex: &mut Exec<'_, '_>,
        out: &mut Batch,
    ) -> Result<Step> {
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        let state = match &mut self.state {
            Some(state) => state,
            none => none.insert(State::new(series, args, ex)?),
        };
        out.reset(1);
        let rows_max = out.rows_max().min(ex.cx.budget_rows as usize);
        match state {
            State::Empty => {}
            State::Ints { next, stop, step } => {
                while out.rows() < rows_max
                    && let Some(value) = *next
                    && (if *step > 0 { value <= *stop } else { value >= *stop })
                {
                    out.push()[0] = Datum::Int(value);
                    *next = value.checked_add(*step);
                }
            }
            State::Added { next, stop, step, rising, add } => {
                while out.rows() < rows_max
                    && let Some(value) = next.take()
                    && (if *rising {
                        operators::compare(&value, stop).is_le()
                    } else {
                        operators::compare(&value, stop).is_ge()
                    })
                {
                    // What lies beyond the type's range lies beyond the stop.
                    *next = (add.eval)(&[&value, step], ex.cx.env).ok();
                    out.push()[0] = value;
                }
            }
        }
        ex.spend(out.rows());
        Ok(if out.is_empty() { Step::Done } else { Step::Rows })
    }
}

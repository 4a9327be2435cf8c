//! Running a program over a batch of vectors.

use colibri_types::column_vector::{ColumnVector, Lanes};
use colibri_types::{Datum, Result};

use super::kernels::{self, Operand};
use crate::Scope;
use crate::eval::Evaluate as _;
use crate::plan::columns::{Program, Register, Step};

/// What the steps of a program have computed.
#[derive(Default)]
pub(super) struct Registers(Vec<Value>);

enum Value {
    /// A vector that was read, by its place.
    Column(usize),
    Fixed(Datum),
    Made(ColumnVector),
    /// Not computed yet.
    Missing,
}

impl Registers {
    /// Computes what is the same for all rows of a run; `false` if that fails: then it is evaluated
    /// where it is reached, if it is.
    pub(super) fn settle(&mut self, program: &Program, scope: &mut Scope<'_>) -> bool {
        self.0.clear();
        for step in &program.steps {
            self.0.push(match step {
                Step::Column(place) => Value::Column(*place),
                Step::Fixed(expr) => match expr.eval_owned(scope, &[]) {
                    Ok(value) => Value::Fixed(value),
                    Err(_) => return false,
                },
                _ => Value::Missing,
            });
        }
        true
    }

    /// What a step has computed.
    pub(super) fn get<'a>(&'a self, register: Register, columns: &'a [ColumnVector]) -> Option<Operand<'a>> {
        match &self.0[register] {
            Value::Column(place) => Some(Operand::Vector(&columns[*place])),
            Value::Fixed(value) => Some(Operand::Fixed(value)),
            Value::Made(vector) => Some(Operand::Vector(vector)),
            Value::Missing => None,
        }
    }

    /// The same, where it is a vector.
    pub(super) fn vector<'a>(&'a self, register: Register, columns: &'a [ColumnVector]) -> Option<&'a ColumnVector> {
        match self.get(register, columns)? {
            Operand::Vector(vector) => Some(vector),
            Operand::Fixed(_) => None,
        }
    }

    /// Runs all steps over some rows; `false` if one gives up.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub(super) fn run(&mut self, program: &Program, columns: &[ColumnVector], rows: usize) -> Result<bool> {
        for (at, step) in program.steps.iter().enumerate() {
            if matches!(step, Step::Column(_) | Step::Fixed(_)) {
                continue;
            }
            match self.step(step, columns, rows)? {
                Some(vector) => self.0[at] = Value::Made(vector),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn step(&self, step: &Step, columns: &[ColumnVector], rows: usize) -> Result<Option<ColumnVector>> {
        let get = |register: &Register| self.get(*register, columns);
        let all = |registers: &[Register]| registers.iter().map(get).collect::<Option<Vec<_>>>();
        let made = match step {
            Step::Column(_) | Step::Fixed(_) => None,
            Step::Arithmetic { op, ty, left, right } => {
                get(left).zip(get(right)).and_then(|(left, right)| kernels::arithmetic(*op, *ty, left, right))
            }
            Step::ToNumeric(input) => get(input).and_then(kernels::to_numeric),
            Step::ToTimestamp(input) => get(input).and_then(kernels::to_timestamp),
            Step::Compare { op, left, right } => {
                get(left).zip(get(right)).and_then(|(left, right)| kernels::compare(*op, left, right))
            }
            Step::And(inputs) => all(inputs).and_then(|inputs| kernels::junction(false, &inputs, rows)),
            Step::Or(inputs) => all(inputs).and_then(|inputs| kernels::junction(true, &inputs, rows)),
            Step::Not(input) => get(input).and_then(|input| kernels::negated(input, rows)),
            Step::IsNull { input, negated } => get(input).map(|input| kernels::is_null(input, *negated, rows)),
            Step::IsBool { input, value, negated } => {
                get(input).and_then(|input| kernels::is_bool(input, *value, *negated, rows))
            }
            Step::InList { input, list, negated } => {
                let fixed = |register: &Register| match get(register)? {
                    Operand::Fixed(value) => Some(value),
                    Operand::Vector(_) => None,
                };
                let list: Option<Vec<&Datum>> = list.iter().map(fixed).collect();
                get(input).zip(list).and_then(|(input, list)| kernels::in_list(input, &list, *negated))
            }
            Step::Like { input, pattern, negated } => match (get(input), get(pattern)) {
                (Some(input), Some(Operand::Fixed(pattern))) => kernels::like(input, pattern, *negated)?,
                _ => None,
            },
            Step::Case { arms, otherwise } => {
                let arms: Option<Vec<_>> = arms.iter().map(|(when, then)| get(when).zip(get(then))).collect();
                arms.zip(get(otherwise)).and_then(|(arms, otherwise)| kernels::case(&arms, otherwise, rows))
            }
        };
        Ok(made)
    }

    /// The rows for which all of some conditions are true, into `out`; `false` if one is none.
    pub(super) fn select(
        &self,
        conditions: &[Register],
        columns: &[ColumnVector],
        rows: usize,
        out: &mut Vec<u32>,
    ) -> bool {
        let mut keeps = vec![true; rows];
        for &condition in conditions {
            let Some(vector) = self.vector(condition, columns) else { return false };
            let Lanes::Truths(truths) = vector.lanes() else { return false };
            for (keep, truth) in keeps.iter_mut().zip(truths) {
                *keep &= truth;
            }
            for (keep, null) in keeps.iter_mut().zip(vector.nulls()) {
                *keep &= !null;
            }
        }
        out.clear();
        out.extend((0..rows as u32).filter(|&row| keeps[row as usize]));
        true
    }
}

//! Bodies in SQL, and CALL.
//!
//! The statements run one after the other; the rows of the last one are what the function gives.
//! Arguments are known by their names and by their numbers; a column of the same name comes first. A
//! body that is `SELECT` of one expression without queries is evaluated, and runs no statement.

use std::sync::Arc;

use colibri_catalog::{ArgumentMode, Routine};
use colibri_syntax::plpgsql::{Expr, Stmt, StmtKind};
use colibri_syntax::tree::Call;
use colibri_types::{Datum, Error, Result, SqlState, Type};

use super::super::{Rows, Session};
use super::compile::{Asked, Known, Program, What, in_statement};
use super::nested::Ran;
use super::values::{Frame, InSight, Record, Value};
use crate::bind::routine_bodies::behind_select;
use crate::exec::{Evaluate as _, Scope};
use crate::expr::RoutineCall;

impl Session {
    /// Runs a function in SQL.
    pub(super) fn run_sql(&mut self, call: &RoutineCall, args: Vec<Datum>) -> Result<Vec<Datum>> {
        let routine = Arc::clone(&call.routine);
        let program = self.program_of_sql(&routine)?;
        let frame = self.frame_of_sql(call, args)?;
        if let Some(value) = self.value_of_sql(call, &program, &frame)? {
            return Ok(vec![value]);
        }
        let title = format!("SQL function \"{}\" statement", routine.name);
        let mut last = Ran::default();
        let count = program.body.block.body.len();
        for (at, statement) in program.body.block.body.iter().enumerate() {
            let StmtKind::Perform(text) = &statement.kind else { continue };
            let rows_max = match at + 1 == count {
                true if routine.set => usize::MAX,
                true => 1,
                false => usize::MAX,
            };
            let ran = self.known_query(&program, &frame, text, &text.text);
            let ran = ran.and_then(|known| {
                let is_change = matches!(&known.what, What::Plan(prepared) if prepared.writes);
                let rows_max = if is_change { usize::MAX } else { rows_max };
                self.run_known_plain(&program, &known, &frame, rows_max)
            });
            last = ran.map_err(|error| {
                let shown = error.without_position();
                shown.within(format!("{title} {}", at + 1))
            })?;
        }
        if call.result.ty == Type::Void && call.row.is_none() {
            // Rows of nothing are none.
            return Ok(if routine.set { Vec::new() } else { vec![Datum::Null] });
        }
        if routine.is_procedure && call.row.is_none() {
            return Ok(Vec::new());
        }
        if !last.gives_rows {
            let message = format!("return type mismatch in function declared to return {}", call.result.sql_name());
            return Err(Error::new(SqlState("42P13"), message)
                .detail("Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING."));
        }
        let mut given = Vec::with_capacity(last.rows.len());
        for row in last.rows.iter() {
            given.push(self.row_of_sql(call, &last, row)?);
        }
        if !routine.set {
            given.truncate(1);
        }
        Ok(given)
    }

    /// What a function gives whose body is nothing but an expression; `None` for any other.
    fn value_of_sql(&mut self, call: &RoutineCall, program: &Program, frame: &Frame) -> Result<Option<Datum>> {
        let [Stmt { kind: StmtKind::Perform(statement), .. }] = &program.body.block.body[..] else { return Ok(None) };
        let gives_value = !call.routine.set
            && !call.routine.is_procedure
            && call.row.is_none()
            && !matches!(call.result.ty, Type::Void | Type::Record);
        let Some(expr) = behind_select(&statement.text).filter(|_| gives_value) else { return Ok(None) };
        // What is wrong with it is told of the statement.
        let Ok(known) = self.known_of(program, frame, statement, expr, Asked::Value) else { return Ok(None) };
        let What::Value(value, ty) = &known.what else { return Ok(None) };
        let params = self.params_of(&known, frame);
        let value = value.eval_owned(&mut Scope::pure(&self.env, &params, &[]), &[]);
        let value = value.and_then(|value| self.assigned_value(value, *ty, call.result)).map_err(|error| {
            error.without_position().within(format!("SQL function \"{}\" statement 1", call.routine.name))
        })?;
        Ok(Some(value))
    }

    /// A row as one of those that a function in SQL gives.
    fn row_of_sql(&mut self, call: &RoutineCall, ran: &Ran, row: &[Datum]) -> Result<Datum> {
        if let (Some(shape), [column]) = (&call.row, &ran.columns[..])
            && column.ty.ty.is_row()
            && (shape.fields.len() != 1 || shape.fields[0].1.ty != column.ty.ty)
        {
            return self.row_as(call, row.first().cloned().unwrap_or_default());
        }
        if call.row.is_none()
            && call.result.ty == Type::Record
            && let ([column], [value]) = (&ran.columns[..], row)
            && column.ty.ty == Type::Record
        {
            return Ok(value.clone());
        }
        match (&call.row, &ran.columns[..]) {
            (None, [column]) if call.result.ty != Type::Record => {
                self.assigned_value(row.first().cloned().unwrap_or_default(), column.ty, call.result)
            }
            (Some(shape), columns) if columns.len() == shape.fields.len() => {
                let mut values = Vec::with_capacity(row.len());
                for ((column, value), (_, to)) in columns.iter().zip(row).zip(&shape.fields) {
                    values.push(self.assigned_value(value.clone(), column.ty, *to)?);
                }
                Ok(Datum::Row(Arc::new(colibri_types::Row::new(Arc::clone(shape), values))))
            }
            _ => self.row_of_columns(call, &ran.columns, row),
        }
    }

    fn frame_of_sql(&mut self, call: &RoutineCall, args: Vec<Datum>) -> Result<Frame> {
        let mut frame = Frame::default();
        frame.enter(Some(call.routine.name.clone()));
        let is_given = |arg: &&colibri_catalog::Argument| {
            arg.is_given() || call.routine.is_procedure && arg.mode == ArgumentMode::Out
        };
        let mut number = 0;
        for ((arg, value), ty) in call.routine.args.iter().filter(is_given).zip(args).zip(&call.arg_types) {
            let value = match (&value, ty.ty) {
                (Datum::Row(row), Type::Record) => {
                    let (shape, values) = (Arc::clone(row.ty()), row.values().to_vec());
                    Value::Row(Record { shape, values, is_null: false })
                }
                _ => Value::Scalar(*ty, value),
            };
            let slot = frame.push(&arg.name, value);
            if arg.mode != ArgumentMode::Out {
                number += 1;
                if let Some(block) = frame.blocks.last_mut() {
                    block.names.push((compact_str::format_compact!("${number}"), slot));
                }
            }
        }
        Ok(frame)
    }

    fn program_of_sql(&mut self, routine: &Arc<Routine>) -> Result<Arc<Program>> {
        if let Some(program) = self.known_program(routine) {
            return Ok(program);
        }
        let parts = crate::statement::scan(&routine.body)?.parse_parts().map_err(Error::without_position)?;
        let texts: Vec<String> = parts.into_iter().map(str::to_owned).collect();
        let program = Arc::new(Program::of_sql(routine, texts));
        self.keep_program(routine, &program);
        Ok(program)
    }

    /// A query as it is run, whose text is not what stands in the body.
    pub(super) fn known_query(
        &mut self,
        program: &Program,
        frame: &Frame,
        expr: &Expr,
        text: &str,
    ) -> Result<Arc<Known>> {
        self.known_text(program, frame, expr, text)
    }

    pub(super) fn run_known(
        &mut self,
        (program, known): (&Program, &Arc<Known>),
        frame: &Frame,
        rows_max: usize,
        text: &str,
    ) -> Result<Ran> {
        self.run_known_plain(program, known, frame, rows_max).map_err(|error| in_statement(error, text))
    }

    fn run_known_plain(
        &mut self,
        program: &Program,
        known: &Arc<Known>,
        frame: &Frame,
        rows_max: usize,
    ) -> Result<Ran> {
        let params = self.params_of(known, frame);
        let What::Plan(prepared) = &known.what else { return Err(Error::internal("a statement is no plan")) };
        let in_sight = InSight::new(frame, program.ambiguous);
        let prepared = self.prepared_for(prepared, &params, &in_sight)?;
        self.run_nested(&prepared, params, rows_max)
    }

    /// `CALL name (…)`
    pub(in super::super) fn run_call(&mut self, call: &Call, params: &[Datum]) -> Result<Rows> {
        let (meant, args) = self.with_binder_of(params.len(), |binder| binder.procedure(&call.function))?;
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.evaluate_with(arg, params)?);
        }
        self.own.calls.depth += 1;
        let given = self.run_with_settings(&meant, values);
        self.own.calls.depth -= 1;
        let given = given?;
        let mut rows = Rows::default();
        if let (Some(_), Some(Datum::Row(row))) = (&meant.row, given.first()) {
            rows.push(row.values().iter().cloned());
        }
        Ok(rows)
    }
}

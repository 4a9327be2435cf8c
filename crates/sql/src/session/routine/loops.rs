//! Loops of PL/pgSQL.

use std::sync::Arc;

use colibri_syntax::plpgsql::{Expr, Stmt, StmtKind, Target};
use colibri_types::{Array, Datum, Error, Result, SqlState, Type, pulse};
use compact_str::CompactString;

use super::nested::Ran;
use super::run::{Activation, Flow};
use super::values::Value;

/// What a round of a loop takes at the least, in units of work.
const UNITS_PER_ROUND: usize = 10;

/// What becomes of a loop behind one of its rounds.
enum Round {
    Next,
    /// It ends here.
    Ends,
    /// It ends, and something around it goes on like this.
    Leaves(Flow),
}

/// What a loop does with how a round ended.
fn round(flow: Flow, label: Option<&CompactString>) -> Round {
    match flow {
        Flow::Next | Flow::Continue(None) => Round::Next,
        Flow::Exit(None) => Round::Ends,
        Flow::Continue(named) if named.as_ref() == label => Round::Next,
        Flow::Exit(named) if named.as_ref() == label => Round::Ends,
        flow => Round::Leaves(flow),
    }
}

impl Activation<'_> {
    pub(super) fn any_loop(&mut self, statement: &StmtKind) -> Result<Flow> {
        let slots = self.frame.slots.len();
        let label = match statement {
            StmtKind::Loop { label, .. }
            | StmtKind::While { label, .. }
            | StmtKind::ForInteger { label, .. }
            | StmtKind::ForQuery { label, .. }
            | StmtKind::ForExecute { label, .. }
            | StmtKind::ForCursor { label, .. }
            | StmtKind::Foreach { label, .. } => label.clone(),
            _ => None,
        };
        let at = self.at;
        self.frame.enter(label);
        let flow = self.loop_entered(statement, at);
        self.frame.leave(slots);
        flow
    }

    fn loop_entered(&mut self, statement: &StmtKind, at: (u32, &'static str)) -> Result<Flow> {
        match statement {
            StmtKind::Loop { label, body } => loop {
                if let Some(flow) = self.round(label.as_ref(), body)? {
                    return Ok(flow);
                }
            },
            StmtKind::While { label, condition, body } => loop {
                self.at = at;
                if !self.condition(condition)? {
                    return Ok(Flow::Next);
                }
                if let Some(flow) = self.round(label.as_ref(), body)? {
                    return Ok(flow);
                }
            },
            StmtKind::ForInteger { label, var, low, high, step, reverse, body } => {
                self.for_integer((label.as_ref(), var), (low, high, step.as_ref()), *reverse, body)
            }
            StmtKind::ForQuery { label, targets, query, body } => {
                let program = Arc::clone(&self.program);
                let ran = self.session.run_text(&program, &self.frame, query, usize::MAX)?;
                self.for_rows(label.as_ref(), targets, &ran, body)
            }
            StmtKind::ForExecute { label, targets, query, params, body } => {
                let text = self.text_to_execute(query)?;
                let (types, values) = self.using_values(params)?;
                let ran = self.session.run_dynamic(&self.frame, &text, &types, values, usize::MAX)?;
                self.for_rows(label.as_ref(), targets, &ran, body)
            }
            StmtKind::ForCursor { label, var, cursor, args, body } => {
                let ran = self.rows_of_cursor(cursor, args)?;
                self.frame.push(var, Value::Record(None));
                let targets = [Target { parts: vec![var.clone()], subscripts: Vec::new() }];
                self.for_rows(label.as_ref(), &targets, &ran, body)
            }
            StmtKind::Foreach { label, targets, slice, array, body } => {
                self.foreach(label.as_ref(), targets, *slice, array, body)
            }
            _ => Err(Error::internal("what is no loop is run as one")),
        }
    }

    /// Runs the body once; how the loop ends, if it does.
    fn round(&mut self, label: Option<&CompactString>, body: &[Stmt]) -> Result<Option<Flow>> {
        pulse::work(UNITS_PER_ROUND)?;
        let flow = self.statements(body)?;
        Ok(match round(flow, label) {
            Round::Next => None,
            Round::Ends => Some(Flow::Next),
            Round::Leaves(flow) => Some(flow),
        })
    }

    fn for_integer(
        &mut self,
        (label, var): (Option<&CompactString>, &CompactString),
        (low, high, step): (&Expr, &Expr, Option<&Expr>),
        reverse: bool,
        body: &[Stmt],
    ) -> Result<Flow> {
        let int = Some(Type::Int4.into());
        let bound = |this: &mut Self, expr: &Expr, what: &str| match this.value(expr, int)?.0 {
            Datum::Int(value) => Ok(value),
            _ => {
                let message = format!("{what} of FOR loop cannot be null");
                Err(Error::new(SqlState::NULL_NOT_ALLOWED, message))
            }
        };
        let mut at = bound(self, low, "lower bound")?;
        let end = bound(self, high, "upper bound")?;
        let step = match step {
            Some(step) => bound(self, step, "BY value")?,
            None => 1,
        };
        if step <= 0 {
            let message = "BY value of FOR loop must be greater than zero";
            return Err(Error::new(SqlState::BAD_PARAMETER, message));
        }
        let slot = self.frame.push(var, Value::Scalar(Type::Int4.into(), Datum::Null));
        let mut found = false;
        let mut ended = Flow::Next;
        loop {
            if if reverse { at < end } else { at > end } {
                break;
            }
            found = true;
            if let Value::Scalar(_, value) = &mut self.frame.slots[slot].value {
                *value = Datum::Int(at);
            }
            if let Some(flow) = self.round(label, body)? {
                ended = flow;
                break;
            }
            at = if reverse { at - step } else { at + step };
            if i32::try_from(at).is_err() {
                break;
            }
        }
        self.set_found(found);
        Ok(ended)
    }

    fn for_rows(
        &mut self,
        label: Option<&CompactString>,
        targets: &[Target],
        ran: &Ran,
        body: &[Stmt],
    ) -> Result<Flow> {
        if !ran.gives_rows {
            let message = format!("cannot open {} query as cursor", ran.tag);
            return Err(Error::new(SqlState("42P11"), message));
        }
        let mut ended = Flow::Next;
        let mut found = false;
        for row in ran.rows.iter() {
            found = true;
            self.assign_columns(targets, &ran.columns, Some(row))?;
            if let Some(flow) = self.round(label, body)? {
                ended = flow;
                break;
            }
        }
        if !found {
            self.assign_columns(targets, &ran.columns, None)?;
        }
        self.set_found(found);
        Ok(ended)
    }

    fn foreach(
        &mut self,
        label: Option<&CompactString>,
        targets: &[Target],
        slice: usize,
        array: &Expr,
        body: &[Stmt],
    ) -> Result<Flow> {
        let (value, ty) = self.value(array, None)?;
        let Some(element) = ty.ty.element() else {
            let message = format!("FOREACH expression must yield an array, not type {}", ty.sql_name());
            return Err(Error::new(SqlState::TYPE_MISMATCH, message));
        };
        let Datum::Array(array) = value else {
            return Err(Error::new(SqlState::NULL_NOT_ALLOWED, "FOREACH expression must not be null"));
        };
        let dimensions = array.dimensions().len();
        if slice > dimensions {
            let message = format!("slice dimension ({slice}) is out of the valid range 0..{dimensions}");
            return Err(Error::new(SqlState("2202E"), message));
        }
        let (mut found, mut ended) = (false, Flow::Next);
        let count: usize = array.dimensions().iter().rev().take(slice).map(|dimension| dimension.length).product();
        for values in array.values().chunks(if slice == 0 { 1 } else { count.max(1) }) {
            found = true;
            let (value, from) = if slice == 0 {
                (values[0].clone(), element)
            } else {
                let inner = &array.dimensions()[dimensions - slice..];
                let part = Array::of_parts(array.element(), inner, values.to_vec())
                    .ok_or_else(|| Error::internal("a slice of an array is none"))?;
                (Datum::Array(Arc::new(part)), ty.ty)
            };
            match targets {
                [target] => self.assign(target, value, from.into())?,
                _ => {
                    return Err(Error::new(
                        SqlState::TYPE_MISMATCH,
                        "FOREACH loop variable must not be of type record",
                    ));
                }
            }
            if let Some(flow) = self.round(label, body)? {
                ended = flow;
                break;
            }
        }
        self.set_found(found);
        Ok(ended)
    }
}

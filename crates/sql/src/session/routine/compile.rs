//! Expressions and statements of a body, prepared when they first run and kept.
//!
//! What a text means follows from the variables in sight, which are the same each time, from the
//! shapes of the rows that some of them hold, and from the catalogue. While these are as they were,
//! what was prepared is used again. An expression that asks nothing of the database is evaluated by
//! itself, without a plan.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use colibri_catalog::Routine;
use colibri_syntax::plpgsql::{Block, Body, Conflict, Expr, Stmt, StmtKind};
use colibri_types::{ColumnType, Datum, Error, Result, RowType, SqlState, Type, cast::CastContext};
use parking_lot::Mutex;
use smallvec::SmallVec;
use sqlparser::ast;

use super::super::{Prepared, Session};
use super::nested::Ran;
use super::values::{Frame, InSight, Source, Value};
use crate::bind::Binder;
use crate::bind::routines::{Ambiguous, signature};
use crate::exec::{Evaluate as _, Scope};
use crate::expr;

/// What was prepared of texts, by their places and what is asked of them.
type KnownTexts = std::collections::HashMap<(usize, u8), Vec<Arc<Known>>, BuildHasherDefault<ByPlace>>;

/// Hashes addresses, which nobody chooses.
#[derive(Default)]
struct ByPlace(u64);

impl Hasher for ByPlace {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(usize::from(byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_usize(usize::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        // The high bits of a product depend on all bits of its factors: they are brought down.
        self.0 = (self.0 ^ value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

/// A body and what is known of its texts.
pub(in super::super) struct Program {
    pub(super) body: Body,
    /// What CONTEXT calls it.
    pub(super) title: String,
    pub(super) ambiguous: Ambiguous,
    /// Its text may name variables that tell of a trigger.
    pub(super) names_trigger: bool,
    /// By their places, each for the types that it was prepared for.
    known: Mutex<KnownTexts>,
}

/// A text as it was prepared.
pub(super) struct Known {
    stamp: Stamp,
    shapes: Vec<(usize, Arc<RowType>)>,
    /// The shapes of rows that it sees as tables.
    tables: Vec<(usize, Arc<RowType>)>,
    /// The types of variables that are no rows: those of a polymorphic function differ by call.
    types: Vec<(usize, ColumnType)>,
    sources: Vec<Source>,
    pub(super) what: What,
    runs: std::sync::atomic::AtomicU32,
    text: String,
    /// The text is the whole of what stands at the place in the body.
    is_whole: bool,
    asked: Asked,
}

/// How a text is run.
pub(super) enum What {
    /// An expression by itself, and its type.
    Value(expr::Expr, ColumnType),
    /// A statement.
    Plan(Arc<Prepared>),
}

/// What something was prepared for.
#[derive(Clone, PartialEq)]
struct Stamp {
    version: u64,
    serial: u64,
    search_path: crate::surroundings::SearchPath,
    authority: usize,
    role: u32,
}

/// Values of the variables that an expression names.
type Params = SmallVec<[Datum; 4]>;

/// For how many types a text is kept at most.
const TYPES_MAX: usize = 8;
/// How often a plan runs before the sizes of its tables are looked at again.
const RUNS_BETWEEN_LOOKS: u32 = 16;

/// What is asked of a text, beside its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The value of an expression in its own type.
    Value,
    /// The value as that of a variable.
    As(ColumnType),
    /// What a statement gives.
    Rows,
}

impl Asked {
    fn number(self) -> u8 {
        match self {
            Self::Value => 0,
            Self::As(_) => 1,
            Self::Rows => 2,
        }
    }
}

impl Program {
    fn new(body: Body, title: String) -> Self {
        let ambiguous = match body.conflict {
            None | Some(Conflict::Error) => Ambiguous::Error,
            Some(Conflict::Variable) => Ambiguous::Variable,
            Some(Conflict::Column) => Ambiguous::Column,
        };
        Self { body, title, ambiguous, names_trigger: true, known: Mutex::default() }
    }

    /// A body in SQL, as statements whose rows are told.
    pub(super) fn of_sql(routine: &Routine, texts: Vec<String>) -> Self {
        let statement = |text| Stmt { line: 1, kind: StmtKind::Perform(Expr { text, line: 1 }) };
        let body = texts.into_iter().map(statement).collect();
        let block = Block { label: None, declared: Vec::new(), body, handlers: None };
        let body = Body { block, conflict: Some(Conflict::Column) };
        Self::new(body, format!("SQL function \"{}\"", routine.name))
    }

    pub(super) fn of_block(body: Body) -> Self {
        Self::new(body, "PL/pgSQL function inline_code_block".to_owned())
    }

    pub(super) fn of_routine(routine: &Routine, body: Body) -> Self {
        let mut program = Self::new(body, format!("PL/pgSQL function {}", signature(routine)));
        // Names may be written in other letters, or by their numbers.
        let marks: [&[u8]; 2] = [b"tg_", b"u&"];
        let text = routine.body.as_bytes();
        program.names_trigger =
            marks.iter().any(|mark| text.windows(mark.len()).any(|part| part.eq_ignore_ascii_case(mark)));
        program
    }
}

impl Session {
    fn stamp(&self) -> Stamp {
        Stamp {
            version: self.own.catalog.version,
            serial: self.own.calls.serial,
            search_path: Arc::clone(&self.own.search_path),
            authority: Arc::as_ptr(&self.own.authority).addr(),
            role: self.own.authority.role,
        }
    }

    /// Whether the catalogue and the surroundings are what something was prepared for.
    fn is_stamp_right(&self, known: &Known) -> bool {
        known.stamp.version == self.own.catalog.version
            && known.stamp.serial == self.own.calls.serial
            && known.stamp.authority == Arc::as_ptr(&self.own.authority).addr()
            && (Arc::ptr_eq(&known.stamp.search_path, &self.own.search_path)
                || known.stamp.search_path == self.own.search_path)
    }

    /// Whether what was prepared is still right.
    fn is_known_right(&self, known: &Known, frame: &Frame) -> bool {
        self.is_stamp_right(known)
            && known.tables.iter().all(|(at, shape)| {
                let table = frame.tables.get(*at);
                table.is_some_and(|table| Arc::ptr_eq(&table.shape, shape) || *table.shape == **shape)
            })
            && known.types.iter().all(|(slot, ty)| {
                let value = frame.slots.get(*slot).map(|slot| &slot.value);
                matches!(value, Some(Value::Scalar(given, _)) if given == ty)
            })
            && known.shapes.iter().all(|(slot, shape)| {
                let value = frame.slots.get(*slot).map(|slot| &slot.value);
                value
                    .and_then(|value| value.record())
                    .is_some_and(|record| Arc::ptr_eq(&record.shape, shape) || *record.shape == **shape)
            })
    }

    /// A text as it is run, prepared if it is not.
    pub(super) fn known(&mut self, program: &Program, frame: &Frame, expr: &Expr, asked: Asked) -> Result<Arc<Known>> {
        self.known_of(program, frame, expr, &expr.text, asked)
    }

    /// The same of a statement whose text is not what stands in the body.
    pub(super) fn known_text(
        &mut self,
        program: &Program,
        frame: &Frame,
        expr: &Expr,
        text: &str,
    ) -> Result<Arc<Known>> {
        self.known_of(program, frame, expr, text, Asked::Rows)
    }

    /// A text as it is run for what is asked of it.
    pub(super) fn known_of(
        &mut self,
        program: &Program,
        frame: &Frame,
        expr: &Expr,
        text: &str,
        asked: Asked,
    ) -> Result<Arc<Known>> {
        let key = (std::ptr::from_ref(expr).addr(), asked.number());
        let is_whole = std::ptr::eq(text, expr.text.as_str());
        let is_it = |known: &Known| is_whole && known.is_whole || known.text == text;
        let is_right = |known: &Known| known.asked == asked && is_it(known) && self.is_known_right(known, frame);
        let found = program.known.lock().get(&key).and_then(|kept| kept.iter().find(|known| is_right(known)).cloned());
        if let Some(known) = &found {
            let known = Arc::clone(known);
            let What::Plan(prepared) = &known.what else { return Ok(known) };
            let runs = known.runs.load(std::sync::atomic::Ordering::Relaxed).wrapping_add(1);
            known.runs.store(runs, std::sync::atomic::Ordering::Relaxed);
            if !runs.is_multiple_of(RUNS_BETWEEN_LOOKS) || !self.is_outgrown(prepared) {
                return Ok(known);
            }
        }
        let known = Arc::new(Known { is_whole, ..self.make_known(program, frame, text, asked)? });
        let mut programs = program.known.lock();
        let kept = programs.entry(key).or_default();
        kept.retain(|other| {
            let is_outgrown = found.as_ref().is_some_and(|found| Arc::ptr_eq(found, other));
            !is_outgrown && self.is_stamp_right(other)
        });
        if kept.len() >= TYPES_MAX {
            kept.remove(0);
        }
        kept.push(Arc::clone(&known));
        Ok(known)
    }

    fn make_known(&mut self, program: &Program, frame: &Frame, text: &str, asked: Asked) -> Result<Known> {
        let stamp = self.stamp();
        let in_sight = InSight::new(frame, program.ambiguous);
        let what = match asked {
            Asked::Rows => {
                let prepared = self.prepare_in_body(text, &[], &in_sight);
                What::Plan(prepared.map_err(|error| in_statement(error, text))?)
            }
            Asked::Value | Asked::As(_) => {
                let to = if let Asked::As(to) = asked { Some(to) } else { None };
                // What cannot be bound by itself may be a query, or has a mistake that this tells.
                match self.bind_value(text, to, &in_sight) {
                    Ok(Some((value, ty))) => What::Value(value, ty),
                    Ok(None) | Err(_) => {
                        in_sight.named.borrow_mut().clear();
                        let text = format!("SELECT {text}");
                        What::Plan(self.prepare_in_body(&text, &[], &in_sight)?)
                    }
                }
            }
        };
        let sources = in_sight.named.into_inner();
        let mut shapes: Vec<(usize, Arc<RowType>)> = Vec::new();
        let mut types: Vec<(usize, ColumnType)> = Vec::new();
        let mut tables = Vec::new();
        for source in &sources {
            let slot = match source {
                Source::Slot(slot) | Source::Field(slot, _) => slot,
                Source::Rows(at) => {
                    tables.push((*at, Arc::clone(&frame.tables[*at].shape)));
                    continue;
                }
                Source::Given => continue,
            };
            if let Value::Scalar(ty, _) = frame.slots[*slot].value {
                types.push((*slot, ty));
            }
            if let Some(record) = frame.slots[*slot].value.record()
                && !shapes.iter().any(|(known, _)| known == slot)
            {
                shapes.push((*slot, Arc::clone(&record.shape)));
            }
        }
        Ok(Known {
            stamp,
            shapes,
            tables,
            types,
            sources,
            what,
            runs: std::sync::atomic::AtomicU32::new(0),
            text: text.to_owned(),
            is_whole: false,
            asked,
        })
    }

    /// An expression that asks nothing of the database; `None` if it does.
    fn bind_value(
        &mut self,
        text: &str,
        to: Option<ColumnType>,
        in_sight: &InSight<'_>,
    ) -> Result<Option<(expr::Expr, ColumnType)>> {
        let whole = format!("SELECT {text}");
        let mut statements = crate::statement::parse(&whole)?;
        let Some(colibri_syntax::Statement::Relational(statement)) = statements.pop() else { return Ok(None) };
        let Some(expr) = only_expression(&statement) else { return Ok(None) };
        self.surround();
        let bound = self.with_variables(&whole, in_sight, |binder| {
            let bound = binder.body_expression(expr)?;
            let given = if bound.ty.ty == Type::Unknown { Type::Text.into() } else { bound.ty };
            match to {
                None => {
                    let expr =
                        binder.coerce(bound, given, CastContext::Implicit, sqlparser::tokenizer::Span::empty())?;
                    Ok(Some((expr, given)))
                }
                Some(to) if to.ty == Type::Record || given.ty == Type::Record => Ok(Some((bound.expr, given))),
                Some(to) => assigned(binder, bound, given, to).map(|expr| Some((expr, to))),
            }
        })?;
        Ok(bound.filter(|(expr, _)| !asks_database(expr)))
    }

    /// The values of a statement's parameters.
    pub(super) fn params_of(&self, known: &Known, frame: &Frame) -> Vec<Datum> {
        known.sources.iter().map(|source| value_of_source(source, frame)).collect()
    }

    /// The value of an expression, and its type.
    pub(super) fn value_of(
        &mut self,
        program: &Program,
        frame: &Frame,
        expr: &Expr,
        to: Option<ColumnType>,
    ) -> Result<(Datum, ColumnType)> {
        let asked = to.map_or(Asked::Value, Asked::As);
        let known = self.known(program, frame, expr, asked)?;
        match &known.what {
            What::Value(value, ty) => {
                let params: Params = known.sources.iter().map(|source| value_of_source(source, frame)).collect();
                let value = value.eval_owned(&mut Scope::pure(&self.env, &params, &[]), &[])?;
                Ok((value, *ty))
            }
            What::Plan(prepared) => {
                let params = self.params_of(&known, frame);
                let in_sight = InSight::new(frame, program.ambiguous);
                let prepared = self.prepared_for(prepared, &params, &in_sight)?;
                let ran = self.run_nested(&prepared, params, 2)?;
                let (value, ty) = only_value(ran, &expr.text)?;
                match to {
                    Some(to) if to.ty != Type::Record && ty.ty != Type::Record => {
                        Ok((self.assigned_value(value, ty, to)?, to))
                    }
                    _ => Ok((value, ty)),
                }
            }
        }
    }

    /// Runs a statement of a body.
    pub(super) fn run_text(&mut self, program: &Program, frame: &Frame, expr: &Expr, rows_max: usize) -> Result<Ran> {
        let known = self.known(program, frame, expr, Asked::Rows)?;
        let params = self.params_of(&known, frame);
        let What::Plan(prepared) = &known.what else { return Err(Error::internal("a statement is no plan")) };
        let in_sight = InSight::new(frame, program.ambiguous);
        let prepared = self.prepared_for(prepared, &params, &in_sight)?;
        self.run_nested(&prepared, params, rows_max).map_err(|error| in_statement(error, &expr.text))
    }

    /// A value as it is assigned to a variable of a type.
    pub(super) fn assigned_value(&mut self, value: Datum, from: ColumnType, to: ColumnType) -> Result<Datum> {
        let is_same = from.ty == to.ty && from.domain == to.domain;
        if is_same && (from.modifier == to.modifier || to.modifier == colibri_types::Modifier::NONE) {
            return Ok(value);
        }
        if value.is_null() && to.domain.is_none() {
            return Ok(value);
        }
        let from = if from.ty == Type::Unknown { Type::Text.into() } else { from };
        let expr = self.with_binder("", |binder| {
            let bound = crate::bind::Bound::new(expr::Expr::Const(value), from);
            assigned(binder, bound, from, to)
        })?;
        if asks_database(&expr) {
            return self.evaluate(expr);
        }
        expr.eval_owned(&mut Scope::pure(&self.env, &[], &[]), &[])
    }
}

/// A value in the type of a variable: by a cast of assignments, or by its text.
fn assigned(
    binder: &mut Binder<'_>,
    bound: crate::bind::Bound,
    from: ColumnType,
    to: ColumnType,
) -> Result<expr::Expr> {
    let span = sqlparser::tokenizer::Span::empty();
    match binder.coerce(bound.clone(), to, CastContext::Assignment, span) {
        Err(error)
            if matches!(error.state(), SqlState::CANNOT_COERCE | SqlState::TYPE_MISMATCH)
                && colibri_types::cast::cast_context(from.ty, to.ty) != Some(CastContext::Assignment) =>
        {
            // What has no cast goes by its text.
            let text = binder.coerce(bound, Type::Text.into(), CastContext::Explicit, span)?;
            let text = crate::bind::Bound::new(text, Type::Text);
            binder.coerce(text, to, CastContext::Explicit, span)
        }
        coerced => coerced,
    }
}

/// The value of a parameter.
fn value_of_source(source: &Source, frame: &Frame) -> Datum {
    match source {
        Source::Rows(at) => frame.tables.get(*at).map(|table| table.rows.clone()).unwrap_or_default(),
        Source::Given => Datum::Null,
        Source::Slot(slot) => frame.slots.get(*slot).map(|slot| slot.value.datum()).unwrap_or_default(),
        Source::Field(slot, field) => {
            let record = frame.slots.get(*slot).and_then(|slot| slot.value.record());
            record.and_then(|record| record.values.get(*field).cloned()).unwrap_or_default()
        }
    }
}

/// The only value that a query gives.
fn only_value(ran: Ran, text: &str) -> Result<(Datum, ColumnType)> {
    if ran.columns.len() != 1 {
        let message = format!("query \"{text}\" returned {} columns", ran.columns.len());
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    if ran.rows.len() > 1 {
        let message = format!("query \"{text}\" returned more than one row");
        return Err(Error::new(SqlState::CARDINALITY_VIOLATION, message));
    }
    let value = ran.rows.iter().next().and_then(|row| row.first().cloned()).unwrap_or_default();
    Ok((value, ran.columns[0].ty))
}

/// The expression that a query consists of, if it is nothing else.
fn only_expression(statement: &ast::Statement) -> Option<&ast::Expr> {
    let ast::Statement::Query(query) = statement else { return None };
    let is_plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty();
    let ast::SetExpr::Select(select) = &*query.body else { return None };
    let has_no_groups = matches!(&select.group_by, ast::GroupByExpr::Expressions(by, modifiers) if by.is_empty() && modifiers.is_empty());
    let is_plain = is_plain
        && select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && select.named_window.is_empty()
        && has_no_groups;
    match &select.projection[..] {
        [ast::SelectItem::UnnamedExpr(expr)] if is_plain => Some(expr),
        _ => None,
    }
}

/// Whether an expression needs a transaction, or the session.
fn asks_database(expr: &expr::Expr) -> bool {
    crate::bind::rewrite::any(expr, &|part| {
        matches!(part, expr::Expr::Subquery(_) | expr::Expr::Session { .. })
            || matches!(part, expr::Expr::Domain { rules, .. } if rules.asks_session)
            || matches!(part, expr::Expr::Extra(_) | expr::Expr::Aggregate(_))
    })
}

/// An error in a statement of SQL that a body runs.
pub(super) fn in_statement(error: Error, text: &str) -> Error {
    error
        .without_position()
        .within(format!("SQL statement \"{}\"", text.trim_matches(|c: char| c.is_ascii_whitespace())))
}

//! Cursors of PL/pgSQL, and the end of transactions in procedures.
//!
//! A cursor here is read to its end when it is opened, and keeps its rows: it sees the database as
//! of then. Its name is that of its portal, which a caller may hand on.

use std::sync::Arc;

use colibri_syntax::plpgsql::{CursorArg, Expr, Goal, Into, Open};
use colibri_types::{Datum, Error, Result, SqlState, Type};
use compact_str::CompactString;

use super::super::{Rows, Session};
use super::nested::Ran;
use super::run::Activation;
use super::values::{DeclaredCursor, Value};

/// A cursor that a body has opened.
pub(super) struct BodyCursor {
    ran: Ran,
    /// The row that it is on, from 1; 0 is in front of the first.
    at: usize,
    /// The number among the session's cursors: what is taken back to an earlier one closes it.
    pub(super) serial: u64,
}

impl Activation<'_> {
    fn cursor_slot(&self, cursor: &CompactString) -> Result<usize> {
        let slot = self.variable(cursor)?;
        match self.slot_value(slot) {
            Value::Cursor(..) => Ok(slot),
            Value::Scalar(ty, _) if ty.ty == Type::Text => Ok(slot),
            _ => {
                let message = format!("variable \"{cursor}\" must be of type cursor or refcursor");
                Err(Error::new(SqlState::TYPE_MISMATCH, message))
            }
        }
    }

    /// The name of the portal that a variable names, if it is open.
    fn portal_name(&self, slot: usize, cursor: &str) -> Result<CompactString> {
        match self.slot_value(slot).datum() {
            Datum::Text(name) => Ok(name),
            _ => {
                let message = format!("cursor variable \"{cursor}\" is null");
                Err(Error::new(SqlState::NULL_NOT_ALLOWED, message))
            }
        }
    }

    /// Values of a cursor's arguments become variables in sight of its query.
    fn push_cursor_args(&mut self, cursor: &str, declared: &DeclaredCursor, args: &[CursorArg]) -> Result<()> {
        if args.len() != declared.args.len() {
            let message = match declared.args.len() {
                0 => format!("cursor \"{cursor}\" has no arguments"),
                _ if args.is_empty() => format!("cursor \"{cursor}\" has arguments"),
                wanted if args.len() < wanted => format!("not enough arguments for cursor \"{cursor}\""),
                _ => format!("too many arguments for cursor \"{cursor}\""),
            };
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut values: Vec<Option<Datum>> = vec![None; declared.args.len()];
        for (at, arg) in args.iter().enumerate() {
            let place = match &arg.name {
                Some(name) => declared.args.iter().position(|(known, _)| known == name).ok_or_else(|| {
                    let message = format!("cursor \"{cursor}\" has no argument named \"{name}\"");
                    Error::new(SqlState::SYNTAX_ERROR, message)
                })?,
                None => at,
            };
            let value = self.value(&arg.value, Some(declared.args[place].1))?.0;
            if values[place].replace(value).is_some() {
                let message = format!(
                    "value for parameter \"{}\" of cursor \"{cursor}\" specified more than once",
                    declared.args[place].0
                );
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
        }
        self.frame.enter(None);
        for ((name, ty), value) in declared.args.iter().zip(values) {
            self.frame.push(name, Value::Scalar(*ty, value.unwrap_or_default()));
        }
        Ok(())
    }

    /// The rows of a cursor that was declared with its query.
    pub(super) fn rows_of_cursor(&mut self, cursor: &CompactString, args: &[CursorArg]) -> Result<Ran> {
        let slot = self.cursor_slot(cursor)?;
        let Value::Cursor(_, Some(declared)) = self.slot_value(slot) else {
            let message = "cursor FOR loop must use a bound cursor variable";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        };
        let declared = Arc::clone(declared);
        let slots = self.frame.slots.len();
        self.push_cursor_args(cursor, &declared, args)?;
        let program = Arc::clone(&self.program);
        let ran = self.session.run_text(&program, &self.frame, &declared.query, usize::MAX);
        self.frame.leave(slots);
        ran
    }

    pub(super) fn open_cursor(&mut self, cursor: &CompactString, how: &Open) -> Result<()> {
        let slot = self.cursor_slot(cursor)?;
        let program = Arc::clone(&self.program);
        let ran = match how {
            Open::Declared(args) => self.rows_of_cursor(cursor, args)?,
            Open::Query { query, .. } => self.session.run_text(&program, &self.frame, query, usize::MAX)?,
            Open::Execute { query, params, .. } => {
                let text = self.text_to_execute(query)?;
                let (types, values) = self.using_values(params)?;
                self.session.run_dynamic(&self.frame, &text, &types, values, usize::MAX)?
            }
        };
        if !ran.gives_rows {
            let message = format!("cannot open {} query as cursor", ran.tag);
            return Err(Error::new(SqlState("42P11"), message));
        }
        let is_bound = matches!(self.slot_value(slot), Value::Cursor(_, Some(_)));
        let name: CompactString = match self.slot_value(slot).datum() {
            Datum::Text(name) => name,
            _ if is_bound => cursor.clone(),
            _ => self.session.new_portal_name(),
        };
        if self.session.own.calls.cursors.contains_key(&name) {
            return Err(Error::new(SqlState("42P03"), format!("cursor \"{name}\" already in use")));
        }
        self.session.cursor_serial += 1;
        let serial = self.session.cursor_serial;
        self.session.own.calls.cursors.insert(name.clone(), BodyCursor { ran, at: 0, serial });
        match &mut self.frame.slots[slot].value {
            Value::Cursor(known, _) | Value::Scalar(_, known) => *known = Datum::Text(name),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn fetch_cursor(&mut self, cursor: &CompactString, goal: &Goal, into: Option<&Into>) -> Result<()> {
        let slot = self.cursor_slot(cursor)?;
        let name = self.portal_name(slot, cursor)?;
        let number = |this: &mut Self, expr: &Expr| match this.value(expr, Some(Type::Int8.into()))?.0 {
            Datum::Int(number) => Ok(number),
            _ => Err(Error::new(SqlState::NULL_NOT_ALLOWED, "relative or absolute cursor position is null")),
        };
        enum To {
            By(i64),
            At(i64),
            End,
            Start,
        }
        let to = match goal {
            Goal::Next => To::By(1),
            Goal::Prior => To::By(-1),
            Goal::First => To::At(1),
            Goal::Last => To::At(-1),
            Goal::Absolute(expr) => To::At(number(self, expr)?),
            Goal::Relative(expr) => To::By(number(self, expr)?),
            Goal::Forward(Some(expr)) => To::By(number(self, expr)?),
            Goal::Backward(Some(expr)) => To::By(-number(self, expr)?),
            Goal::Forward(None) => To::End,
            Goal::Backward(None) => To::Start,
        };
        let Some(open) = self.session.own.calls.cursors.get_mut(&name) else { return Err(no_such_cursor(&name)) };
        let rows = open.ran.rows.len() as i64;
        let before = open.at as i64;
        let at = match to {
            To::By(by) => before.saturating_add(by),
            To::At(at) if at < 0 => (rows + 1 + at).max(0),
            To::At(at) => at,
            To::End => rows + 1,
            To::Start => 0,
        };
        let at = at.clamp(0, rows + 1);
        open.at = at as usize;
        let row = (1..=rows).contains(&at).then(|| open.ran.rows.row(at as usize - 1).to_vec());
        let columns = open.ran.columns.clone();
        let Some(into) = into else {
            let moved = match to {
                To::End => rows - before.min(rows),
                To::Start => before.clamp(1, rows + 1) - 1,
                _ => (at - before).abs().min(rows),
            };
            let count = if row.is_some() || matches!(to, To::End | To::Start) {
                moved.max(i64::from(row.is_some()))
            } else {
                0
            };
            self.row_count = count as u64;
            self.set_found(count > 0);
            return Ok(());
        };
        self.row_count = u64::from(row.is_some());
        self.set_found(row.is_some());
        self.assign_columns(&into.targets, &columns, row.as_deref())
    }

    pub(super) fn close_cursor(&mut self, cursor: &CompactString) -> Result<()> {
        let slot = self.cursor_slot(cursor)?;
        let name = self.portal_name(slot, cursor)?;
        match self.session.own.calls.cursors.remove(&name) {
            Some(_) => Ok(()),
            None => Err(no_such_cursor(&name)),
        }
    }
}

fn no_such_cursor(name: &str) -> Error {
    Error::new(SqlState("34000"), format!("cursor \"{name}\" does not exist"))
}

impl Session {
    fn new_portal_name(&mut self) -> CompactString {
        self.own.calls.portals += 1;
        compact_str::format_compact!("<unnamed portal {}>", self.own.calls.portals)
    }

    /// COMMIT in a body.
    pub(super) fn commit_in_body(&mut self, _chain: bool) -> Result<()> {
        self.end_transaction_in_body(true)
    }

    /// ROLLBACK in a body.
    pub(super) fn rollback_in_body(&mut self, _chain: bool) -> Result<()> {
        self.end_transaction_in_body(false)
    }

    /// The rows of a cursor that a function has opened and handed on.
    #[expect(dead_code, reason = "FETCH of such a cursor outside of bodies")]
    pub(super) fn rows_of_body_cursor(&self, name: &str) -> Option<&Rows> {
        self.own.calls.cursors.get(name).map(|cursor| &cursor.ran.rows)
    }
}

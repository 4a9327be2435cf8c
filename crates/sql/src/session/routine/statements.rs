//! Statements of SQL in PL/pgSQL, and what a function returns.

use std::sync::Arc;

use colibri_syntax::plpgsql::{Expr, Into};
use colibri_types::{ColumnType, Datum, Error, Result, Row, RowType, SqlState, Type};

use super::super::{ResultColumn, Session};
use super::compile::in_statement;
use super::nested::Ran;
use super::run::{Activation, Returns};
use super::values::{Frame, InSight, Source, Value};
use crate::bind::routines::Ambiguous;
use crate::expr::RoutineCall;

/// All rows.
const ALL: usize = usize::MAX;

impl Activation<'_> {
    /// A statement of SQL.
    pub(super) fn sql(&mut self, text: &Expr, into: Option<&Into>) -> Result<()> {
        let program = Arc::clone(&self.program);
        // One row too many tells that there are several.
        let rows_max = match into {
            Some(_) => 2,
            None => 1,
        };
        let ran = self.session.run_text(&program, &self.frame, text, if into.is_some() { rows_max } else { ALL })?;
        let is_change = matches!(ran.tag.as_str(), "INSERT" | "UPDATE" | "DELETE" | "MERGE");
        if into.is_none() && ran.gives_rows && !is_change && ran.tag == "SELECT" {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "query has no destination for result data")
                .hint("If you want to discard the results of a SELECT, use PERFORM instead."));
        }
        self.take_result(ran, into, is_change)
    }

    /// `PERFORM query`
    pub(super) fn perform(&mut self, query: &Expr) -> Result<()> {
        let program = Arc::clone(&self.program);
        let text = format!("SELECT {}", query.text);
        let known = self.session.known_query(&program, &self.frame, query, &text)?;
        let ran = self.session.run_known((&program, &known), &self.frame, ALL, &text)?;
        self.row_count = ran.count;
        self.set_found(ran.count > 0);
        Ok(())
    }

    /// Assigns what a statement has given, and notes how many rows that were.
    fn take_result(&mut self, ran: Ran, into: Option<&Into>, is_change: bool) -> Result<()> {
        let count = ran.count;
        let Some(into) = into else {
            self.row_count = count;
            if is_change || ran.gives_rows {
                self.set_found(count > 0);
            }
            return Ok(());
        };
        if !ran.gives_rows {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "INTO used with a command that cannot return data"));
        }
        match ran.rows.len() {
            0 if into.strict => return Err(Error::new(SqlState("P0002"), "query returned no rows")),
            0 | 1 => {}
            _ if into.strict || is_change => {
                return Err(Error::new(SqlState("P0003"), "query returned more than one row")
                    .hint("Make sure the query returns a single row, or use LIMIT 1."));
            }
            _ => {}
        }
        let row = ran.rows.iter().next().map(<[Datum]>::to_vec);
        self.row_count = u64::from(row.is_some());
        self.set_found(row.is_some());
        self.assign_columns(&into.targets, &ran.columns, row.as_deref())
    }

    /// The values of USING.
    pub(super) fn using_values(&mut self, params: &[Expr]) -> Result<(Vec<Option<Type>>, Vec<Datum>)> {
        let (mut types, mut values) = (Vec::with_capacity(params.len()), Vec::with_capacity(params.len()));
        for param in params {
            let (value, ty) = self.value(param, None)?;
            types.push(Some(ty.ty));
            values.push(value);
        }
        Ok((types, values))
    }

    /// The text that EXECUTE is given.
    pub(super) fn text_to_execute(&mut self, query: &Expr) -> Result<String> {
        self.text_of(query)?
            .ok_or_else(|| Error::new(SqlState::NULL_NOT_ALLOWED, "query string argument of EXECUTE is null"))
    }

    /// `EXECUTE text INTO … USING …`
    pub(super) fn execute(&mut self, query: &Expr, into: Option<&Into>, params: &[Expr]) -> Result<()> {
        let text = self.text_to_execute(query)?;
        let (types, values) = self.using_values(params)?;
        let rows_max = if into.is_some() { 2 } else { ALL };
        let ran = self.session.run_dynamic(&self.frame, &text, &types, values, rows_max)?;
        let Some(_) = into else {
            // FOUND stays what it was.
            self.row_count = ran.count;
            return Ok(());
        };
        let is_change = false;
        let found = self.frame.slots.first().cloned();
        self.take_result(ran, into, is_change)?;
        if let (Some(found), Some(slot)) = (found, self.frame.slots.first_mut()) {
            *slot = found;
        }
        Ok(())
    }

    // ---- what is returned ----

    pub(super) fn return_value(&mut self, value: Option<&Expr>) -> Result<()> {
        let Some(value) = value else {
            if let Returns::Call(call) = &self.returns {
                let is_value = self.results.is_empty() && !call.routine.set && call.result.ty != Type::Void;
                if is_value && !call.routine.is_procedure {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "missing expression at or near \";\""));
                }
            }
            return Ok(());
        };
        match &self.returns {
            Returns::Nothing => {
                Err(Error::new(SqlState::TYPE_MISMATCH, "RETURN cannot have a parameter in function returning void"))
            }
            Returns::Trigger => {
                let (value, _) = self.row_value(value)?;
                self.returned = Some(value);
                Ok(())
            }
            Returns::Call(call) => {
                let call = Arc::clone(call);
                let wrong = |message: &str| Err(Error::new(SqlState::TYPE_MISMATCH, message));
                if call.routine.is_procedure {
                    return wrong("RETURN cannot have a parameter in a procedure");
                }
                if call.routine.set {
                    return Err(Error::new(
                        SqlState::TYPE_MISMATCH,
                        "RETURN cannot have a parameter in function returning set",
                    )
                    .hint("Use RETURN NEXT or RETURN QUERY."));
                }
                if !self.results.is_empty() {
                    return wrong("RETURN cannot have a parameter in function with OUT parameters");
                }
                if call.result.ty == Type::Void {
                    return wrong("RETURN cannot have a parameter in function returning void");
                }
                let value = if call.result.ty == Type::Record {
                    let (value, ty) = self.row_value(value)?;
                    if !matches!(value, Datum::Row(_) | Datum::Null) || ty.ty != Type::Record && !value.is_null() {
                        return wrong("cannot return non-composite value from function returning composite type");
                    }
                    self.session.row_as(&call, value)?
                } else {
                    self.value(value, Some(call.result))?.0
                };
                self.returned = Some(value);
                Ok(())
            }
        }
    }

    /// A row: that of a variable, which may have no shape yet, or that of an expression.
    fn row_value(&mut self, expr: &Expr) -> Result<(Datum, ColumnType)> {
        let name = expr.text.to_ascii_lowercase();
        if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && let Some((slot, 1)) = self.frame.slot(&[name.as_str().into()])
            && self.frame.slots[slot].value.is_row()
        {
            return Ok((self.frame.slots[slot].value.datum(), Type::Record.into()));
        }
        self.value(expr, None)
    }

    pub(super) fn return_next(&mut self, value: Option<&Expr>) -> Result<()> {
        let call = self.set_call("RETURN NEXT")?;
        let value = match value {
            None if self.results.is_empty() => {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "RETURN NEXT must have a parameter"));
            }
            None => self.results_as_value(&call),
            Some(_) if !self.results.is_empty() => {
                let message = "RETURN NEXT cannot have a parameter in function with OUT parameters";
                return Err(Error::new(SqlState::TYPE_MISMATCH, message));
            }
            Some(value) if call.result.ty == Type::Record => {
                let (value, _) = self.row_value(value)?;
                let value = self.session.row_as(&call, value)?;
                match (&value, &call.row) {
                    (Datum::Null, Some(row)) => Datum::Row(Arc::new(Row::new(Arc::clone(row), Vec::new()))),
                    _ => value,
                }
            }
            Some(value) => self.value(value, Some(call.result))?.0,
        };
        self.keep_row(value)
    }

    /// Keeps a row of the result.
    fn keep_row(&mut self, value: Datum) -> Result<()> {
        colibri_types::pulse::work(4)?;
        self.held.add(self.session.memory_of_statements(), std::slice::from_ref(&value))?;
        self.rows.push(value);
        Ok(())
    }

    fn set_call(&self, what: &str) -> Result<Arc<RoutineCall>> {
        match &self.returns {
            Returns::Call(call) if call.routine.set => Ok(Arc::clone(call)),
            _ => {
                let message = format!("cannot use {what} in a non-SETOF function");
                Err(Error::new(SqlState::TYPE_MISMATCH, message))
            }
        }
    }

    pub(super) fn return_query(&mut self, query: &Expr) -> Result<()> {
        let call = self.set_call("RETURN QUERY")?;
        let program = Arc::clone(&self.program);
        let ran = self.session.run_text(&program, &self.frame, query, ALL)?;
        self.return_rows(&call, ran)
    }

    pub(super) fn return_execute(&mut self, query: &Expr, params: &[Expr]) -> Result<()> {
        let call = self.set_call("RETURN QUERY")?;
        let text = self.text_to_execute(query)?;
        let (types, values) = self.using_values(params)?;
        let ran = self.session.run_dynamic(&self.frame, &text, &types, values, ALL)?;
        self.return_rows(&call, ran)
    }

    fn return_rows(&mut self, call: &RoutineCall, ran: Ran) -> Result<()> {
        if !ran.gives_rows {
            let message = format!("cannot open {} query as cursor", ran.tag);
            return Err(Error::new(SqlState::INVALID_CURSOR_STATE, message));
        }
        let count = ran.rows.len() as u64;
        for row in ran.rows.iter() {
            let value = self.session.row_of_columns(call, &ran.columns, row)?;
            self.keep_row(value)?;
        }
        self.row_count = count;
        self.set_found(count > 0);
        Ok(())
    }

    /// The values of the arguments that are the result.
    fn results_as_value(&self, call: &RoutineCall) -> Datum {
        let values: Vec<Datum> = self.results.iter().map(|&slot| self.frame.slots[slot].value.datum()).collect();
        match &call.row {
            Some(row) => Datum::Row(Arc::new(Row::new(Arc::clone(row), values))),
            None => values.into_iter().next().unwrap_or_default(),
        }
    }

    /// What a function has given, when its body is over.
    pub(super) fn results_of_function(mut self) -> Result<Vec<Datum>> {
        let Returns::Call(call) = &self.returns else { return Ok(Vec::new()) };
        let call = Arc::clone(call);
        if call.routine.set {
            return Ok(std::mem::take(&mut self.rows));
        }
        if !self.results.is_empty() {
            return Ok(vec![self.results_as_value(&call)]);
        }
        if call.routine.is_procedure {
            return Ok(Vec::new());
        }
        if call.result.ty == Type::Void {
            return Ok(vec![Datum::text("")]);
        }
        match self.returned.take() {
            Some(value) => Ok(vec![value]),
            None => {
                let error = Error::new(SqlState("2F005"), "control reached end of function without RETURN");
                Err(error.within(self.program.title.clone()))
            }
        }
    }

    /// What a trigger's function has given.
    pub(super) fn result_of_trigger(mut self) -> Result<Datum> {
        match self.returned.take() {
            Some(value) => Ok(value),
            None => {
                let error = Error::new(SqlState("2F005"), "control reached end of trigger procedure without RETURN");
                Err(error.within(self.program.title.clone()))
            }
        }
    }

    /// The value of a variable, for cursors.
    pub(super) fn slot_value(&self, slot: usize) -> &Value {
        &self.frame.slots[slot].value
    }
}

impl Session {
    /// Runs a text that is made while the body runs.
    pub(super) fn run_dynamic(
        &mut self,
        frame: &Frame,
        text: &str,
        types: &[Option<Type>],
        mut values: Vec<Datum>,
        rows_max: usize,
    ) -> Result<Ran> {
        let ran = (|| {
            let statements = crate::statement::parse(text)?;
            if statements.len() > 1 {
                // Several statements are run one after the other.
                let parts = crate::statement::scan(text)?.parse_parts()?;
                let mut last = Ran::default();
                for part in parts {
                    let prepared = self.prepare_in_txn(part, types)?;
                    last = self.run_nested(&prepared, values.clone(), rows_max)?;
                }
                return Ok(last);
            }
            if matches!(statements.first(), Some(colibri_syntax::Statement::Transaction(_))) {
                let message = "EXECUTE of transaction commands is not implemented";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            let prepared = if frame.tables.is_empty() {
                let prepared = self.prepare_in_txn(text, types)?;
                match self.block.catalog_changed || prepared.params.len() > values.len() {
                    true => prepared,
                    false => self.variant(&prepared, &values, None)?.unwrap_or(prepared),
                }
            } else {
                // It sees the tables of a trigger, but no variables.
                let tables = Frame { slots: Vec::new(), blocks: Vec::new(), tables: frame.tables.clone() };
                let in_sight = InSight::new(&tables, Ambiguous::Column);
                in_sight.named.borrow_mut().resize(types.len(), Source::Given);
                let prepared = self.prepare_in_body(text, types, &in_sight)?;
                for source in &in_sight.named.into_inner()[types.len()..] {
                    if let Source::Rows(at) = source {
                        values.push(tables.tables[*at].rows.clone());
                    }
                }
                prepared
            };
            if prepared.params.len() > values.len() {
                let message = format!("there is no parameter ${}", values.len() + 1);
                return Err(Error::new(SqlState::NO_SUCH_PARAMETER, message));
            }
            self.run_nested(&prepared, values, rows_max)
        })();
        ran.map_err(|error| in_statement(error, text))
    }

    /// A row as one of those that a function gives.
    pub(super) fn row_as(&mut self, call: &RoutineCall, value: Datum) -> Result<Datum> {
        let (Some(shape), Datum::Row(row)) = (&call.row, &value) else { return Ok(value) };
        if **row.ty() == **shape {
            return Ok(value);
        }
        let given: Vec<(Datum, ColumnType)> = row.fields().map(|(_, ty, value)| (value.clone(), ty)).collect();
        if given.len() != shape.fields.len() {
            let (state, message) =
                (SqlState::TYPE_MISMATCH, "returned record type does not match expected record type");
            return Err(Error::new(state, message).detail(format!(
                "Number of returned columns ({}) does not match expected column count ({}).",
                given.len(),
                shape.fields.len()
            )));
        }
        let mut values = Vec::with_capacity(given.len());
        for ((value, from), (_, to)) in given.into_iter().zip(&shape.fields) {
            values.push(self.assigned_value(value, from, *to)?);
        }
        Ok(Datum::Row(Arc::new(Row::new(Arc::clone(shape), values))))
    }

    /// A row of a query as one of those that a function gives.
    pub(super) fn row_of_columns(
        &mut self,
        call: &RoutineCall,
        columns: &[ResultColumn],
        row: &[Datum],
    ) -> Result<Datum> {
        let wrong = |detail: String| {
            let message = "structure of query does not match function result type";
            Err(Error::new(SqlState::TYPE_MISMATCH, message).detail(detail))
        };
        let shape = match &call.row {
            Some(shape) => Arc::clone(shape),
            None if call.result.ty == Type::Record => {
                let fields = columns.iter().map(|column| (column.name.clone(), column.ty)).collect();
                Arc::new(RowType { oid: Type::Record.oid(), name: "record".into(), fields })
            }
            None => {
                let [column] = columns else {
                    return wrong(format!(
                        "Number of returned columns ({}) does not match expected column count (1).",
                        columns.len()
                    ));
                };
                if column.ty.ty != call.result.ty && column.ty.ty != Type::Unknown {
                    return wrong(mismatch(column.ty, call.result, 1));
                }
                return self.assigned_value(row.first().cloned().unwrap_or_default(), column.ty, call.result);
            }
        };
        if columns.len() != shape.fields.len() {
            return wrong(format!(
                "Number of returned columns ({}) does not match expected column count ({}).",
                columns.len(),
                shape.fields.len()
            ));
        }
        let mut values = Vec::with_capacity(columns.len());
        for (at, ((column, value), (_, to))) in columns.iter().zip(row).zip(&shape.fields).enumerate() {
            if column.ty.ty != to.ty && column.ty.ty != Type::Unknown {
                return wrong(mismatch(column.ty, *to, at + 1));
            }
            values.push(self.assigned_value(value.clone(), column.ty, *to)?);
        }
        Ok(Datum::Row(Arc::new(Row::new(shape, values))))
    }
}

fn mismatch(given: ColumnType, wanted: ColumnType, at: usize) -> String {
    format!("Returned type {} does not match expected type {} in column {at}.", given.sql_name(), wanted.sql_name())
}

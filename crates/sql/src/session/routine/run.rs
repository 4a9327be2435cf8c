//! PL/pgSQL at work: blocks, variables, conditions, what is returned.

use std::sync::Arc;

use colibri_catalog::{ArgumentMode, Relation, RoutineType};
use colibri_syntax::ast;
use colibri_syntax::plpgsql::{Block, Condition, Declared, DeclaredAs, Expr, Handler, Stmt, StmtKind, Target};
use colibri_syntax::tree::TypeGiven;
use colibri_types::functions::{WITH_SLICE, WITH_VALUE};
use colibri_types::{ColumnType, Datum, Error, Result, Row, RowType, SqlState, Type, pulse};
use compact_str::CompactString;

use super::super::Session;
use super::compile::Program;
use super::conditions;
use super::values::{DeclaredCursor, Frame, Record, Value, no_field};
use crate::exec::RowsHeld;
use crate::expr::RoutineCall;

/// What a statement takes at the least, in units of work.
const UNITS_PER_STATEMENT: usize = 20;

/// Where a body goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Exit(Option<CompactString>),
    Continue(Option<CompactString>),
    Return,
}

/// What a body is to return.
pub(super) enum Returns {
    /// Nothing: DO.
    Nothing,
    /// What the call says.
    Call(Arc<RoutineCall>),
    /// A row of a table, or NULL.
    Trigger,
}

/// A body at work.
pub(super) struct Activation<'s> {
    pub(super) session: &'s mut Session,
    pub(super) program: Arc<Program>,
    pub(super) frame: Frame,
    pub(super) returns: Returns,
    /// What it returned.
    pub(super) returned: Option<Datum>,
    /// What RETURN NEXT and RETURN QUERY have given.
    pub(super) rows: Vec<Datum>,
    /// The memory of these rows.
    pub(super) held: RowsHeld,
    /// The slots of arguments that are part of the result, in their order.
    pub(super) results: Vec<usize>,
    /// Rows of the last statement.
    pub(super) row_count: u64,
    /// Errors that are being handled, the innermost last.
    pub(super) handled: Vec<Error>,
    /// The statement at hand: its line, and what it is called.
    pub(super) at: (u32, &'static str),
}

/// The slot of FOUND.
const FOUND: usize = 0;

impl Session {
    /// Runs the body of DO.
    pub(super) fn run_block(&mut self, program: &Arc<Program>) -> Result<()> {
        let mut activation = Activation::new(self, program, Returns::Nothing);
        activation.frame.enter(None);
        activation.push_found();
        let done = activation.run();
        done.map(drop)
    }

    /// Runs a function in PL/pgSQL.
    pub(super) fn run_plpgsql_function(&mut self, call: &RoutineCall, args: Vec<Datum>) -> Result<Vec<Datum>> {
        let program = self.program_of(&call.routine)?;
        let routine = Arc::clone(&call.routine);
        let mut activation = Activation::new(self, &program, Returns::Call(Arc::new(call.clone())));
        activation.frame.enter(Some(routine.name.clone()));
        activation.push_found();
        activation.push_arguments(call, args)?;
        activation.run()?;
        activation.results_of_function()
    }
}

impl<'s> Activation<'s> {
    pub(super) fn new(session: &'s mut Session, program: &Arc<Program>, returns: Returns) -> Self {
        Self {
            session,
            program: Arc::clone(program),
            frame: Frame::default(),
            returns,
            returned: None,
            rows: Vec::new(),
            held: RowsHeld::default(),
            results: Vec::new(),
            row_count: 0,
            handled: Vec::new(),
            at: (0, ""),
        }
    }

    pub(super) fn push_found(&mut self) {
        self.frame.push("found", Value::Scalar(Type::Bool.into(), Datum::Bool(false)));
    }

    pub(super) fn set_found(&mut self, found: bool) {
        if let Value::Scalar(_, value) = &mut self.frame.slots[FOUND].value {
            *value = Datum::Bool(found);
        }
    }

    /// A variable without a value, for an argument or a declaration.
    fn empty(&mut self, ty: ColumnType, relation: Option<u32>) -> Result<Value> {
        if let Some(relation) = relation {
            let shape = self.session.with_binder("", |binder| binder.row_of_relation(relation))?;
            return Ok(Value::Row(Record::null(shape)));
        }
        Ok(match ty.ty {
            Type::Record => Value::Record(None),
            _ => Value::Scalar(ty, Datum::Null),
        })
    }

    fn push_arguments(&mut self, call: &RoutineCall, args: Vec<Datum>) -> Result<()> {
        let routine = Arc::clone(&call.routine);
        let mut given = args.into_iter();
        let mut given_types = call.arg_types.iter();
        let mut result_types = call.row.iter().flat_map(|row| row.fields.iter().map(|(_, ty)| *ty));
        let mut numbered = 0;
        for arg in &routine.args {
            let is_given = arg.is_given() || routine.is_procedure && arg.mode == ArgumentMode::Out;
            let relation = if let RoutineType::RowOf(relation) = arg.ty { Some(relation) } else { None };
            let result_type = if arg.is_result() {
                result_types.next().or(Some(call.result)).filter(|_| matches!(arg.ty, RoutineType::Value(_)))
            } else {
                None
            };
            let (ty, value) = if is_given {
                let ty = given_types.next().copied().unwrap_or(Type::Text.into());
                let value = given.next().unwrap_or_default();
                (if arg.is_given() { ty } else { result_type.unwrap_or(ty) }, value)
            } else {
                (result_type.unwrap_or(Type::Text.into()), Datum::Null)
            };
            let mut variable = self.empty(ty, relation)?;
            if is_given && arg.is_given() {
                put(&mut variable, value);
            }
            let slot = self.frame.push(&arg.name, variable);
            numbered += 1;
            if let Some(block) = self.frame.blocks.last_mut() {
                block.names.push((compact_str::format_compact!("${numbered}"), slot));
            }
            if arg.is_result() {
                self.results.push(slot);
            }
        }
        Ok(())
    }

    /// Runs the body.
    pub(super) fn run(&mut self) -> Result<()> {
        let program = Arc::clone(&self.program);
        let flow = self.block(&program.body.block);
        match flow {
            Ok(Flow::Exit(label)) => Err(misplaced("EXIT", label.as_ref())),
            Ok(Flow::Continue(label)) => Err(misplaced("CONTINUE", label.as_ref())),
            Ok(_) => Ok(()),
            Err(error) => {
                let context = self.context_here();
                Err(error.within(context))
            }
        }
    }

    /// What CONTEXT says of the statement at hand.
    pub(super) fn context_here(&self) -> String {
        let (line, word) = self.at;
        match word {
            "" => self.program.title.clone(),
            "\u{1}declare" => {
                format!("{} line {line} during statement block local variable initialization", self.program.title)
            }
            _ => format!("{} line {line} at {word}", self.program.title),
        }
    }

    pub(super) fn routine_number(&self) -> u32 {
        match &self.returns {
            Returns::Call(call) => call.routine.id,
            _ => 0,
        }
    }

    // ---- blocks ----

    pub(super) fn block(&mut self, block: &Block) -> Result<Flow> {
        let slots = self.frame.slots.len();
        self.frame.enter(block.label.clone());
        let flow = self.block_entered(block);
        self.frame.leave(slots);
        match flow? {
            Flow::Exit(Some(label)) if block.label.as_ref() == Some(&label) => Ok(Flow::Next),
            flow => Ok(flow),
        }
    }

    fn block_entered(&mut self, block: &Block) -> Result<Flow> {
        for declared in &block.declared {
            self.at = (declared.line, "\u{1}declare");
            self.declare(declared)?;
        }
        let Some(handlers) = &block.handlers else { return self.statements(&block.body) };
        let (slots, blocks, handled) = (self.frame.slots.len(), self.frame.blocks.len(), self.handled.len());
        let mark = self.session.mark_here()?;
        self.session.own.calls.subtransactions += 1;
        let done = self.statements(&block.body);
        self.session.own.calls.subtransactions -= 1;
        let error = match done {
            Ok(flow) => return Ok(flow),
            Err(error) => error,
        };
        let Some(handler) = handler_of(handlers, &error) else { return Err(error) };
        let context = self.context_here();
        let error = error.within(context);
        self.frame.blocks.truncate(blocks);
        self.frame.slots.truncate(slots);
        self.handled.truncate(handled);
        self.session.go_back_to_mark(mark)?;
        self.frame.enter(None);
        let text = |text: &str| Value::Scalar(Type::Text.into(), Datum::text(text));
        self.frame.push("sqlstate", text(error.state().0));
        self.frame.push("sqlerrm", text(&error.report().message));
        self.handled.push(error);
        let flow = self.statements(&handler.body);
        self.handled.truncate(handled);
        self.frame.leave(slots);
        flow
    }

    fn declare(&mut self, declared: &Declared) -> Result<()> {
        let Declared { name, what, .. } = declared;
        match what {
            DeclaredAs::Alias(of) => {
                let Some((slot, _)) = self.frame.slot(of) else {
                    let message = format!("variable \"{}\" does not exist", of.join("."));
                    return Err(Error::new(SqlState::NO_SUCH_COLUMN, message));
                };
                if let Some(block) = self.frame.blocks.last_mut() {
                    block.names.push((name.clone(), slot));
                }
            }
            DeclaredAs::Cursor { args, query, .. } => {
                let mut types = Vec::with_capacity(args.len());
                for (name, ty) in args {
                    let (ty, _) = self.type_given(ty)?;
                    types.push((name.clone(), ty));
                }
                let declared = DeclaredCursor { args: types, query: query.clone() };
                self.frame.push(name, Value::Cursor(Datum::Null, Some(Arc::new(declared))));
            }
            DeclaredAs::Variable { constant, ty, not_null, default } => {
                let is_cursor = matches!(ty, TypeGiven::Named(ast::DataType::Custom(name, _))
                    if name.to_string().eq_ignore_ascii_case("refcursor"));
                let mut value = if is_cursor {
                    Value::Cursor(Datum::Null, None)
                } else {
                    let (ty, relation) = self.type_given(ty)?;
                    self.empty(ty, relation)?
                };
                let mut null_allowed = true;
                if let Value::Scalar(ty, of) = &mut value {
                    let ty = *ty;
                    if default.is_some() || ty.domain.is_some() {
                        let given = match default {
                            Some(default) => self.value(default, Some(ty))?.0,
                            None => self.session.assigned_value(Datum::Null, Type::Unknown.into(), ty)?,
                        };
                        null_allowed = !given.is_null();
                        *of = given;
                    }
                } else if let Some(default) = default {
                    let (given, _) = self.value(default, None)?;
                    null_allowed = !given.is_null();
                    self.put_row(&mut value, given)?;
                }
                if *not_null && !null_allowed {
                    return Err(not_null_error(name));
                }
                let slot = self.frame.push(name, value);
                let slot = &mut self.frame.slots[slot];
                (slot.constant, slot.not_null) = (*constant, *not_null);
            }
        }
        Ok(())
    }

    /// A type of a declaration; of a row, the relation that it is of.
    pub(super) fn type_given(&mut self, given: &TypeGiven) -> Result<(ColumnType, Option<u32>)> {
        match given {
            TypeGiven::Named(named) => {
                if let ast::DataType::Custom(name, modifiers) = named
                    && modifiers.is_empty()
                {
                    let parts: Vec<CompactString> =
                        name.0.iter().filter_map(|part| part.as_ident()).map(crate::bind::fold).collect();
                    if parts.len() == 1 && parts[0] == "record" {
                        return Ok((Type::Record.into(), None));
                    }
                    let found = self.session.type_named(named);
                    return match found {
                        Ok(ty) => {
                            match self.session.catalog().relation_of_rows(ty.ty).filter(|_| ty.domain.is_none()) {
                                Some(relation) => Ok((Type::Record.into(), Some(relation))),
                                None => Ok((ty, None)),
                            }
                        }
                        Err(error) => match self.session.relation_named(&parts)? {
                            Some(relation) => {
                                let number = self.session.catalog().number_of(relation);
                                Ok((Type::Record.into(), number))
                            }
                            None => Err(error),
                        },
                    };
                }
                self.session.type_named(named).map(|ty| (ty, None))
            }
            TypeGiven::RowOf(name) => match self.session.relation_named(name)? {
                Some(relation) => Ok((Type::Record.into(), self.session.catalog().number_of(relation))),
                None => {
                    let message = format!("relation \"{}\" does not exist", name.join("."));
                    Err(Error::new(SqlState::NO_SUCH_TABLE, message))
                }
            },
            TypeGiven::Of(name) => self.type_of_other(name),
        }
    }

    /// `name%TYPE`: that of a variable, or of a column.
    fn type_of_other(&mut self, name: &[CompactString]) -> Result<(ColumnType, Option<u32>)> {
        if let Some((slot, used)) = self.frame.slot(name) {
            match (&self.frame.slots[slot].value, &name[used..]) {
                (Value::Scalar(ty, _), []) => return Ok((*ty, None)),
                (value, [field]) => {
                    if let Some(place) = value.record().and_then(|record| record.shape.field(field)) {
                        return Ok((value.record().map_or(Type::Text.into(), |r| r.shape.fields[place].1), None));
                    }
                }
                _ => {}
            }
        }
        self.session.type_of_column(name).map(|ty| (ty, None))
    }

    // ---- values ----

    /// The value of an expression, in the type of a variable if one is given.
    pub(super) fn value(&mut self, expr: &Expr, to: Option<ColumnType>) -> Result<(Datum, ColumnType)> {
        let program = Arc::clone(&self.program);
        self.session.value_of(&program, &self.frame, expr, to).map_err(Error::without_position)
    }

    /// Whether a condition is true.
    pub(super) fn condition(&mut self, expr: &Expr) -> Result<bool> {
        let (value, _) = self.value(expr, Some(Type::Bool.into()))?;
        Ok(matches!(value, Datum::Bool(true)))
    }

    /// The slot of a variable that a statement names.
    pub(super) fn variable(&self, name: &CompactString) -> Result<usize> {
        match self.frame.slot(std::slice::from_ref(name)) {
            Some((slot, _)) => Ok(slot),
            None => Err(not_a_variable(name)),
        }
    }

    /// Assigns the value of an expression.
    pub(super) fn assign_expr(&mut self, target: &Target, expr: &Expr) -> Result<()> {
        let Some((slot, used)) = self.frame.slot(&target.parts) else {
            return Err(not_a_variable(&target.parts.join(".")));
        };
        if used == target.parts.len()
            && target.subscripts.is_empty()
            && let Value::Scalar(ty, _) = self.frame.slots[slot].value
        {
            self.expect_assignable(slot)?;
            let (value, _) = self.value(expr, Some(ty))?;
            if self.frame.slots[slot].not_null && value.is_null() {
                return Err(not_null_error(&self.frame.slots[slot].name));
            }
            if let Value::Scalar(_, known) = &mut self.frame.slots[slot].value {
                *known = value;
            }
            return Ok(());
        }
        let (value, ty) = self.value(expr, None)?;
        self.assign(target, value, ty)
    }

    fn expect_assignable(&self, slot: usize) -> Result<()> {
        let slot = &self.frame.slots[slot];
        if slot.constant {
            let message = format!("variable \"{}\" is declared CONSTANT", slot.name);
            return Err(Error::new(SqlState("22005"), message));
        }
        Ok(())
    }

    /// Assigns a value of a type.
    pub(super) fn assign(&mut self, target: &Target, value: Datum, from: ColumnType) -> Result<()> {
        let Some((slot, used)) = self.frame.slot(&target.parts) else {
            return Err(not_a_variable(&target.parts.join(".")));
        };
        self.expect_assignable(slot)?;
        if self.frame.slots[slot].not_null && value.is_null() {
            return Err(not_null_error(&self.frame.slots[slot].name));
        }
        let rest: Vec<CompactString> = target.parts[used..].to_vec();
        if !target.subscripts.is_empty() {
            return self.assign_part(slot, &rest, target, value, from);
        }
        match rest.as_slice() {
            [] => self.assign_slot(slot, value, from),
            [field] => {
                let (place, ty) = self.field(slot, field)?;
                let value = self.session.assigned_value(value, from, ty)?;
                self.put_field(slot, place, value);
                Ok(())
            }
            [field, inner @ ..] => {
                let (place, ty) = self.field(slot, field)?;
                let known = self.frame.slots[slot].value.record().map(|record| record.values[place].clone());
                let value = self.with_field(known.unwrap_or_default(), ty, (field, inner), value, from)?;
                self.put_field(slot, place, value);
                Ok(())
            }
        }
    }

    /// A row of a composite type with another value of a field, or of a field of a field.
    fn with_field(
        &mut self,
        row: Datum,
        ty: ColumnType,
        (name, path): (&str, &[CompactString]),
        value: Datum,
        from: ColumnType,
    ) -> Result<Datum> {
        let Some((field, inner)) = path.split_first() else { return self.session.assigned_value(value, from, ty) };
        let Type::Composite(of) = ty.ty else {
            let message = format!(
                "cannot assign to field \"{field}\" of column \"{name}\" because its type {} is not a composite type",
                ty.sql_name()
            );
            return Err(Error::new(SqlState::TYPE_MISMATCH, message));
        };
        let fields: Vec<(CompactString, ColumnType)> =
            of.fields().iter().map(|field| (field.name.clone(), field.ty)).collect();
        let Some(place) = fields.iter().position(|(known, _)| known == field) else {
            let message = format!(
                "cannot assign to field \"{field}\" of column \"{name}\" because there is no such column in data type {}",
                ty.sql_name()
            );
            return Err(Error::new(SqlState::NO_SUCH_COLUMN, message));
        };
        let (shape, mut values) = match &row {
            Datum::Row(row) => (Arc::clone(row.ty()), row.values().to_vec()),
            _ => {
                let width = fields.len();
                let shape =
                    RowType { oid: ty.ty.oid(), name: ty.sql_name().to_string().into(), fields: fields.clone() };
                (Arc::new(shape), vec![Datum::Null; width])
            }
        };
        let known = std::mem::take(&mut values[place]);
        values[place] = self.with_field(known, fields[place].1, (field, inner), value, from)?;
        Ok(Datum::Row(Arc::new(Row::new(shape, values))))
    }

    /// Assigns a value to a whole variable.
    pub(super) fn assign_slot(&mut self, slot: usize, value: Datum, from: ColumnType) -> Result<()> {
        match self.frame.slots[slot].value.clone() {
            Value::Scalar(ty, _) => {
                let value = self.session.assigned_value(value, from, ty)?;
                self.frame.slots[slot].value = Value::Scalar(ty, value);
            }
            Value::Cursor(_, declared) => {
                let value = self.session.assigned_value(value, from, Type::Text.into())?;
                self.frame.slots[slot].value = Value::Cursor(value, declared);
            }
            mut row => {
                if !matches!(value, Datum::Row(_) | Datum::Null) {
                    let message = "cannot assign non-composite value to a record variable";
                    return Err(Error::new(SqlState::TYPE_MISMATCH, message));
                }
                self.put_row(&mut row, value)?;
                self.frame.slots[slot].value = row;
            }
        }
        Ok(())
    }

    /// Puts a row into a variable for rows: into one of a fixed shape field by field.
    fn put_row(&mut self, variable: &mut Value, given: Datum) -> Result<()> {
        match (variable, given) {
            (Value::Record(record), Datum::Row(row)) => {
                let (shape, values) = (Arc::clone(row.ty()), row.values().to_vec());
                *record = Some(Record { shape, values, is_null: false });
            }
            (Value::Record(record), _) => {
                if let Some(record) = record {
                    *record = Record::null(Arc::clone(&record.shape));
                }
            }
            (Value::Row(record), Datum::Row(row)) => {
                let shape = Arc::clone(&record.shape);
                let mut values = Vec::with_capacity(shape.fields.len());
                let given: Vec<(Datum, ColumnType)> = row.fields().map(|(_, ty, value)| (value.clone(), ty)).collect();
                let mut given = given.into_iter();
                for (_, to) in &shape.fields {
                    let (value, from) = given.next().unwrap_or((Datum::Null, Type::Unknown.into()));
                    values.push(self.session.assigned_value(value, from, *to)?);
                }
                *record = Record { shape, values, is_null: false };
            }
            (Value::Row(record), _) => *record = Record::null(Arc::clone(&record.shape)),
            (other, given) => put(other, given),
        }
        Ok(())
    }

    fn field(&self, slot: usize, field: &str) -> Result<(usize, ColumnType)> {
        let variable = &self.frame.slots[slot];
        match &variable.value {
            Value::Record(None) => Err(super::values::not_assigned(&variable.name)),
            value => match value.record().and_then(|record| Some((record.shape.field(field)?, record))) {
                Some((place, record)) => Ok((place, record.shape.fields[place].1)),
                None => Err(no_field(&variable.name, field)),
            },
        }
    }

    fn put_field(&mut self, slot: usize, place: usize, value: Datum) {
        if let Value::Record(Some(record)) | Value::Row(record) = &mut self.frame.slots[slot].value {
            record.values[place] = value;
            record.is_null = false;
        }
    }

    /// Assigns to a part of an array, or of JSON.
    fn assign_part(
        &mut self,
        slot: usize,
        fields: &[CompactString],
        target: &Target,
        value: Datum,
        from: ColumnType,
    ) -> Result<()> {
        let (place, ty, known) = match fields {
            [] => match &self.frame.slots[slot].value {
                Value::Scalar(ty, value) => (None, *ty, value.clone()),
                _ => return Err(Error::new(SqlState::TYPE_MISMATCH, "cannot subscript a record")),
            },
            [field] => {
                let (place, ty) = self.field(slot, field)?;
                let known = self.frame.slots[slot].value.record().map(|record| record.values[place].clone());
                (Some(place), ty, known.unwrap_or_default())
            }
            _ => return Err(not_a_variable(&target.parts.join("."))),
        };
        let is_slice = target.subscripts.iter().any(|(_, high)| high.is_some());
        let to = match (ty.ty.element(), is_slice) {
            (Some(_), true) => ty.base(),
            (Some(element), false) => ColumnType::new(element, ty.modifier),
            (None, _) if ty.ty == Type::Jsonb => Type::Jsonb.into(),
            (None, _) => {
                let message =
                    format!("cannot subscript type {} because it does not support subscripting", ty.sql_name());
                return Err(Error::new(SqlState::TYPE_MISMATCH, message));
            }
        };
        let value = self.session.assigned_value(value, from, to)?;
        let mut args = vec![known];
        if let Some(element) = ty.ty.element() {
            args.push(Datum::Int(element.code().into()));
        }
        args.push(value);
        if is_slice {
            // No bound is missing.
            args.push(Datum::Int(0));
        }
        let wanted = if ty.ty == Type::Jsonb { Type::Text } else { Type::Int4 };
        let wanted = Some(ColumnType::from(wanted));
        for (low, high) in &target.subscripts {
            let low_value = self.value(low, wanted)?.0;
            if low_value.is_null() {
                let message = "array subscript in assignment must not be null";
                return Err(Error::new(SqlState::NULL_NOT_ALLOWED, message));
            }
            match (high, is_slice) {
                (Some(high), _) => {
                    let high = self.value(high, wanted)?.0;
                    args.extend([low_value, high]);
                }
                (None, true) => args.extend([Datum::Int(1), low_value]),
                (None, false) => args.push(low_value),
            }
        }
        let written = if ty.ty == Type::Jsonb {
            let mut types = vec![Type::Jsonb; 2];
            types.resize(args.len(), Type::Text);
            let function = crate::registry::builtin().functions.function(".jsonb_assign", &types)?;
            function.call(&args.iter().collect::<Vec<_>>(), self.session.env())?
        } else {
            let function = if is_slice { &WITH_SLICE } else { &WITH_VALUE };
            function.call(&args.iter().collect::<Vec<_>>(), self.session.env())?
        };
        match place {
            Some(place) => self.put_field(slot, place, written),
            None => {
                let written = self.session.assigned_value(written, ty.base(), ty)?;
                if let Value::Scalar(_, known) = &mut self.frame.slots[slot].value {
                    *known = written;
                }
            }
        }
        Ok(())
    }

    /// Assigns the columns of a row to targets; without a row NULLs.
    pub(super) fn assign_columns(
        &mut self,
        targets: &[Target],
        columns: &[super::super::ResultColumn],
        row: Option<&[Datum]>,
    ) -> Result<()> {
        if let [target] = targets
            && target.subscripts.is_empty()
            && let Some((slot, used)) = self.frame.slot(&target.parts)
            && used == target.parts.len()
            && self.frame.slots[slot].value.is_row()
        {
            self.expect_assignable(slot)?;
            // A row by itself is the row.
            let only_row = match (row, columns) {
                (Some([Datum::Row(row)]), [column]) if column.ty.ty == Type::Record => {
                    Some(Datum::Row(Arc::clone(row)))
                }
                _ => None,
            };
            let fields = columns.iter().map(|column| (column.name.clone(), column.ty)).collect();
            let shape = Arc::new(RowType { oid: Type::Record.oid(), name: "record".into(), fields });
            let mut variable = self.frame.slots[slot].value.clone();
            match (only_row, row) {
                (Some(row), _) => self.put_row(&mut variable, row)?,
                (None, Some(values)) => {
                    let row = Row::new(Arc::clone(&shape), values.to_vec());
                    let known = variable.record().filter(|known| *known.shape == *shape).map(|r| Arc::clone(&r.shape));
                    match (&mut variable, known) {
                        // The shape stays the same one, so that what was prepared for it holds.
                        (Value::Record(record), Some(shape)) => {
                            *record = Some(Record { shape, values: values.to_vec(), is_null: false });
                        }
                        (variable, _) => self.put_row(variable, Datum::Row(Arc::new(row)))?,
                    }
                }
                (None, None) => match &mut variable {
                    Value::Record(record) => *record = Some(Record::null(shape)),
                    Value::Row(record) => *record = Record::null(Arc::clone(&record.shape)),
                    _ => {}
                },
            }
            self.frame.slots[slot].value = variable;
            return Ok(());
        }
        for (at, target) in targets.iter().enumerate() {
            let value = row.and_then(|row| row.get(at).cloned()).unwrap_or_default();
            let from = columns.get(at).map_or(Type::Unknown.into(), |column| column.ty);
            self.assign(target, value, from)?;
        }
        Ok(())
    }

    // ---- statements ----

    pub(super) fn statements(&mut self, statements: &[Stmt]) -> Result<Flow> {
        for statement in statements {
            pulse::work(UNITS_PER_STATEMENT)?;
            self.at = (statement.line, statement.kind.word());
            match self.statement(&statement.kind)? {
                Flow::Next => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &StmtKind) -> Result<Flow> {
        match statement {
            StmtKind::Block(block) => return self.block(block),
            StmtKind::Assign { target, value } => self.assign_expr(target, value).map_err(|error| {
                let shown = format!("{} := {}", target.parts.join("."), value.text);
                error.within(format!("PL/pgSQL assignment \"{shown}\""))
            })?,
            StmtKind::If { arms, otherwise } => {
                for (condition, body) in arms {
                    if self.condition(condition)? {
                        return self.statements(body);
                    }
                }
                return self.statements(otherwise);
            }
            StmtKind::Case { operand, arms, otherwise } => {
                return self.case(operand.as_ref(), arms, otherwise.as_deref());
            }
            StmtKind::Loop { .. }
            | StmtKind::While { .. }
            | StmtKind::ForInteger { .. }
            | StmtKind::ForQuery { .. }
            | StmtKind::ForExecute { .. }
            | StmtKind::ForCursor { .. }
            | StmtKind::Foreach { .. } => return self.any_loop(statement),
            StmtKind::Exit { is_continue, label, when } => {
                if let Some(when) = when
                    && !self.condition(when)?
                {
                    return Ok(Flow::Next);
                }
                let label = label.clone();
                return Ok(if *is_continue { Flow::Continue(label) } else { Flow::Exit(label) });
            }
            StmtKind::Return(value) => {
                self.return_value(value.as_ref())?;
                return Ok(Flow::Return);
            }
            StmtKind::ReturnNext(value) => self.return_next(value.as_ref())?,
            StmtKind::ReturnQuery(query) => self.return_query(query)?,
            StmtKind::ReturnExecute { query, params } => self.return_execute(query, params)?,
            StmtKind::Raise(raise) => self.raise(raise)?,
            StmtKind::Assert { condition, message } => self.assert(condition, message.as_ref())?,
            StmtKind::Perform(query) => self.perform(query)?,
            StmtKind::Sql { text, into } => self.sql(text, into.as_ref())?,
            StmtKind::Execute { query, into, params } => self.execute(query, into.as_ref(), params)?,
            StmtKind::GetDiagnostics { stacked, items } => self.get_diagnostics(*stacked, items)?,
            StmtKind::Open { cursor, how } => self.open_cursor(cursor, how)?,
            StmtKind::Fetch { cursor, goal, into } => self.fetch_cursor(cursor, goal, into.as_ref())?,
            StmtKind::Close(cursor) => self.close_cursor(cursor)?,
            StmtKind::Null => {}
            StmtKind::Commit { chain } => self.session.commit_in_body(*chain)?,
            StmtKind::Rollback { chain } => self.session.rollback_in_body(*chain)?,
        }
        Ok(Flow::Next)
    }

    fn case(&mut self, operand: Option<&Expr>, arms: &[(Expr, Vec<Stmt>)], otherwise: Option<&[Stmt]>) -> Result<Flow> {
        let slots = self.frame.slots.len();
        if let Some(operand) = operand {
            let (value, ty) = self.value(operand, None)?;
            self.frame.enter(None);
            self.frame.push("__case__variable__", Value::Scalar(ty, value));
        }
        let mut chosen = None;
        for (condition, body) in arms {
            let holds = if operand.is_some() {
                let text = format!("\"__case__variable__\" IN ({})", condition.text);
                let expr = Expr { text, line: condition.line };
                let (value, _) = self.value(&expr, Some(Type::Bool.into()))?;
                matches!(value, Datum::Bool(true))
            } else {
                self.condition(condition)?
            };
            if holds {
                chosen = Some(body.as_slice());
                break;
            }
        }
        if operand.is_some() {
            self.frame.leave(slots);
        }
        match chosen.or(otherwise) {
            Some(body) => self.statements(body),
            None => Err(Error::new(SqlState("20000"), "case not found").hint("CASE statement is missing ELSE part.")),
        }
    }
}

/// Puts a value into a variable as it is.
fn put(variable: &mut Value, value: Datum) {
    match variable {
        Value::Scalar(_, known) | Value::Cursor(known, _) => *known = value,
        Value::Record(record) => {
            if let Datum::Row(row) = value {
                let (shape, values) = (Arc::clone(row.ty()), row.values().to_vec());
                *record = Some(Record { shape, values, is_null: false });
            }
        }
        Value::Row(record) => {
            if let Datum::Row(row) = value {
                let mut values = row.values().to_vec();
                values.resize(record.shape.fields.len(), Datum::Null);
                *record = Record { shape: Arc::clone(&record.shape), values, is_null: false };
            }
        }
    }
}

/// The handler that is meant for an error.
fn handler_of<'h>(handlers: &'h [Handler], error: &Error) -> Option<&'h Handler> {
    if error.is_interruption() {
        return None;
    }
    let code = error.state().0;
    let is_meant = |condition: &Condition| match condition {
        Condition::State(state) => conditions::is_of(code, state),
        // What ends a statement from outside, and failed assertions, are not among them.
        Condition::Named(name) if name == "others" => code != "57014" && code != "P0004",
        Condition::Named(name) => conditions::codes(name).any(|condition| conditions::is_of(code, condition)),
    };
    handlers.iter().find(|handler| handler.conditions.iter().any(is_meant))
}

fn not_null_error(name: &str) -> Error {
    let message = format!("null value cannot be assigned to variable \"{name}\" declared NOT NULL");
    Error::new(SqlState::NULL_NOT_ALLOWED, message)
}

fn not_a_variable(name: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, format!("\"{name}\" is not a known variable"))
}

fn misplaced(word: &str, label: Option<&CompactString>) -> Error {
    match label {
        Some(label) => {
            let message =
                format!("there is no label \"{label}\" attached to any block or loop enclosing this statement");
            Error::new(SqlState::SYNTAX_ERROR, message)
        }
        None if word == "EXIT" => {
            let message = "EXIT cannot be used outside a loop, unless it has a label";
            Error::new(SqlState::SYNTAX_ERROR, message)
        }
        None => Error::new(SqlState::SYNTAX_ERROR, "CONTINUE cannot be used outside a loop"),
    }
}

impl Session {
    /// The type of a column that is named with its relation.
    pub(crate) fn type_of_column(&self, name: &[CompactString]) -> Result<ColumnType> {
        let shown = name.join(".");
        let Some((column, relation)) = name.split_last().filter(|(_, relation)| !relation.is_empty()) else {
            let message = format!("variable \"{shown}\" does not exist");
            return Err(Error::new(SqlState::NO_SUCH_COLUMN, message));
        };
        let found = self.relation_named(relation)?.cloned();
        let number = found.as_ref().and_then(|relation| self.catalog().number_of(relation));
        let (Some(_), Some(number)) =
            (found.filter(|relation| matches!(relation, Relation::Table(_) | Relation::View(_))), number)
        else {
            let message = format!("relation \"{}\" does not exist", relation.join("."));
            return Err(Error::new(SqlState::NO_SUCH_TABLE, message));
        };
        let row = self.with_binder("", |binder| binder.row_of_relation(number))?;
        match row.field(column) {
            Some(place) => Ok(row.fields[place].1),
            None => {
                let message = format!("column \"{column}\" of relation \"{}\" does not exist", relation.join("."));
                Err(Error::new(SqlState::NO_SUCH_COLUMN, message))
            }
        }
    }
}

//! The variables of a body: their values, which names mean them, and the parameters that stand for
//! them in statements.
//!
//! Variables lie in slots, one behind the other, as blocks are entered. Blocks lie inside each other
//! as they do in the text, so that a variable has the same slot whenever its block is entered, and
//! what was found out about a statement's names holds the next time.

use std::cell::RefCell;
use std::sync::Arc;

use colibri_syntax::plpgsql::Expr;
use colibri_types::{ColumnType, Datum, Error, Result, Row, RowType, SqlState, Type};
use compact_str::CompactString;

use crate::bind::routines::{Ambiguous, Variable, Variables};

/// A variable.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) name: CompactString,
    pub(super) value: Value,
    pub(super) constant: bool,
    pub(super) not_null: bool,
}

/// What a variable holds.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// A value of a type.
    Scalar(ColumnType, Datum),
    /// A row; of no shape until one is assigned.
    Record(Option<Record>),
    /// A row of a fixed shape.
    Row(Record),
    /// A cursor: the name of its portal, and what it was declared with.
    Cursor(Datum, Option<Arc<DeclaredCursor>>),
}

/// A cursor's query as it was declared.
#[derive(Debug)]
pub(super) struct DeclaredCursor {
    pub(super) args: Vec<(CompactString, ColumnType)>,
    pub(super) query: Expr,
}

/// A row that a variable holds.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) shape: Arc<RowType>,
    pub(super) values: Vec<Datum>,
    /// The whole row is NULL.
    pub(super) is_null: bool,
}

impl Record {
    pub(super) fn null(shape: Arc<RowType>) -> Self {
        let values = vec![Datum::Null; shape.fields.len()];
        Self { shape, values, is_null: true }
    }

    /// As a value.
    pub(super) fn datum(&self) -> Datum {
        if self.is_null {
            return Datum::Null;
        }
        Datum::Row(Arc::new(Row::new(Arc::clone(&self.shape), self.values.clone())))
    }
}

impl Value {
    /// As a value.
    pub(super) fn datum(&self) -> Datum {
        match self {
            Self::Scalar(_, value) | Self::Cursor(value, _) => value.clone(),
            Self::Record(None) => Datum::Null,
            Self::Record(Some(record)) | Self::Row(record) => record.datum(),
        }
    }

    pub(super) fn record(&self) -> Option<&Record> {
        match self {
            Self::Record(Some(record)) | Self::Row(record) => Some(record),
            _ => None,
        }
    }

    pub(super) fn is_row(&self) -> bool {
        matches!(self, Self::Record(_) | Self::Row(_))
    }
}

/// The names of a block.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) label: Option<CompactString>,
    /// Names and their slots, later ones before earlier ones of the same name.
    pub(super) names: Vec<(CompactString, usize)>,
}

/// The variables of a body at work.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) slots: Vec<Slot>,
    pub(super) blocks: Vec<Names>,
    /// Rows that statements see as tables.
    pub(super) tables: Vec<TableRows>,
}

/// Rows that statements of a body see as a table.
#[derive(Debug, Clone)]
pub(super) struct TableRows {
    pub(super) name: CompactString,
    pub(super) shape: Arc<RowType>,
    /// An array of rows.
    pub(super) rows: Datum,
}

/// Where a parameter of a statement comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// A variable.
    Slot(usize),
    /// A field of a row, by its place.
    Field(usize, usize),
    /// The rows of a table.
    Rows(usize),
    /// What is given when the statement runs: of a text that is made then.
    Given,
}

/// The slot that a name means, and how many of its parts name it.
pub(super) type Found = Option<(usize, usize)>;

impl Frame {
    /// A new variable.
    pub(super) fn push(&mut self, name: &str, value: Value) -> usize {
        let at = self.slots.len();
        self.slots.push(Slot { name: name.into(), value, constant: false, not_null: false });
        if let Some(block) = self.blocks.last_mut() {
            block.names.push((name.into(), at));
        }
        at
    }

    /// Enters a block.
    pub(super) fn enter(&mut self, label: Option<CompactString>) {
        self.blocks.push(Names { label, names: Vec::new() });
    }

    /// Leaves a block that was entered with so many slots.
    pub(super) fn leave(&mut self, slots: usize) {
        self.blocks.pop();
        self.slots.truncate(slots);
    }

    /// The slot of a name: with a block's label in front, or without.
    pub(super) fn slot(&self, parts: &[CompactString]) -> Found {
        let of = |block: &Names, name: &str| {
            block.names.iter().rev().find(|(known, _)| known == name).map(|(_, slot)| *slot)
        };
        let first = parts.first()?;
        for block in self.blocks.iter().rev() {
            if let Some(slot) = of(block, first) {
                return Some((slot, 1));
            }
            if block.label.as_ref() == Some(first)
                && let Some(name) = parts.get(1)
                && let Some(slot) = of(block, name)
            {
                return Some((slot, 2));
            }
        }
        None
    }
}

/// The variables in sight of a statement, and those that it has named.
pub(super) struct InSight<'f> {
    pub(super) frame: &'f Frame,
    pub(super) ambiguous: Ambiguous,
    pub(super) named: RefCell<Vec<Source>>,
}

impl<'f> InSight<'f> {
    pub(super) fn new(frame: &'f Frame, ambiguous: Ambiguous) -> Self {
        Self { frame, ambiguous, named: RefCell::default() }
    }

    fn named(&self, source: Source, ty: ColumnType, row: Option<Arc<RowType>>) -> Variable {
        let mut named = self.named.borrow_mut();
        let param = named.iter().position(|known| *known == source).unwrap_or_else(|| {
            named.push(source);
            named.len() - 1
        });
        Variable { param, ty, row }
    }
}

/// The error for a record that has no shape yet.
pub(super) fn not_assigned(name: &str) -> Error {
    Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, format!("record \"{name}\" is not assigned yet"))
        .detail("The tuple structure of a not-yet-assigned record is indeterminate.")
}

impl Variables for InSight<'_> {
    fn find(&self, parts: &[CompactString]) -> Result<Option<Variable>> {
        let Some((at, used)) = self.frame.slot(parts) else { return Ok(None) };
        let slot = &self.frame.slots[at];
        let rest = &parts[used..];
        match (&slot.value, rest) {
            (Value::Scalar(ty, _), []) => Ok(Some(self.named(Source::Slot(at), *ty, None))),
            (Value::Cursor(..), []) => Ok(Some(self.named(Source::Slot(at), Type::Text.into(), None))),
            (Value::Scalar(..) | Value::Cursor(..), _) => Ok(None),
            (value, []) => {
                let Some(record) = value.record() else { return Err(not_assigned(&slot.name)) };
                let shape = Arc::clone(&record.shape);
                Ok(Some(self.named(Source::Slot(at), Type::Record.into(), Some(shape))))
            }
            (value, [field]) => {
                let Some(record) = value.record() else { return Err(not_assigned(&slot.name)) };
                match record.shape.field(field) {
                    Some(place) => {
                        let ty = record.shape.fields[place].1;
                        Ok(Some(self.named(Source::Field(at, place), ty, None)))
                    }
                    None => Err(no_field(&slot.name, field)),
                }
            }
            _ => Ok(None),
        }
    }

    fn fields(&self, parts: &[CompactString]) -> Result<Option<Vec<(CompactString, Variable)>>> {
        let Some((at, used)) = self.frame.slot(parts) else { return Ok(None) };
        let slot = &self.frame.slots[at];
        if used != parts.len() || !slot.value.is_row() {
            return Ok(None);
        }
        let Some(record) = slot.value.record() else { return Err(not_assigned(&slot.name)) };
        let field = |(place, (name, ty)): (usize, &(CompactString, ColumnType))| {
            (name.clone(), self.named(Source::Field(at, place), *ty, None))
        };
        Ok(Some(record.shape.fields.iter().enumerate().map(field).collect()))
    }

    fn rows(&self, name: &str) -> Option<Variable> {
        let at = self.frame.tables.iter().position(|table| table.name == name)?;
        let shape = Arc::clone(&self.frame.tables[at].shape);
        Some(self.named(Source::Rows(at), Type::Record.into(), Some(shape)))
    }

    fn ambiguous(&self) -> Ambiguous {
        self.ambiguous
    }
}

/// The error for a field that a record does not have.
pub(super) fn no_field(record: &str, field: &str) -> Error {
    Error::new(SqlState::NO_SUCH_COLUMN, format!("record \"{record}\" has no field \"{field}\""))
}

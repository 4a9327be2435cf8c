//! The change that UPDATE makes to a row's bytes: only to the columns assigned.
//!
//! Invariants: columns that are neither set nor added to come out as they went in, whatever they
//! are by then. A row of the newest generation is copied with the new values in place; one of an
//! older generation is written anew.

use std::sync::Arc;

use colibri_catalog::{Table, TableLayout, record::RowReader, row::RowFormat};
use colibri_txn::{Patch, PatchError};
use colibri_types::{Datum, Env, Error, Result, SqlState, cast, cast::CastContext, functions::Function};
use smallvec::SmallVec;

/// Something added to a column, whatever it is when the transaction commits.
pub(super) struct Addition {
    /// The table's column.
    pub(super) column: usize,
    /// Of the column's type.
    pub(super) amount: Datum,
    /// The `+` or `-` of the column's type.
    pub(super) function: &'static Function,
}

/// A change of some columns of a row.
pub(super) struct RowPatch {
    pub(super) table: Arc<Table>,
    /// Places in the newest format, and their new values.
    pub(super) sets: SmallVec<[(usize, Datum); 2]>,
    /// Places in the newest format, and what is added.
    pub(super) adds: SmallVec<[(usize, Addition); 3]>,
}

impl Addition {
    /// The sum, as the column takes it.
    ///
    /// # Errors
    /// It is out of range, or NULL where the column may not be.
    pub(super) fn apply(&self, table: &Table, value: &Datum) -> Result<Datum> {
        let column = &table.columns[self.column];
        let sum = if self.function.strict && (value.is_null() || self.amount.is_null()) {
            Datum::Null
        } else {
            (self.function.eval)(&[value, &self.amount], &Env::default())?
        };
        if sum.is_null() {
            return if column.not_null { Err(null_sum(table, self.column)) } else { Ok(sum) };
        }
        let ty = column.ty;
        if self.function.result == ty.ty && cast::is_noop(ty.ty, ty.ty, ty.modifier) {
            return Ok(sum);
        }
        cast::cast(&sum, self.function.result, ty.ty, ty.modifier, CastContext::Assignment, &Env::default())
    }
}

#[cold]
fn null_sum(table: &Table, column: usize) -> Error {
    let name = &table.columns[column].name;
    let message =
        format!("null value in column \"{name}\" of relation \"{}\" violates not-null constraint", table.name);
    Error::new(SqlState::NOT_NULL_VIOLATION, message).about(&table.schema, &table.name, Some(name), None)
}

impl RowPatch {
    fn apply_to(&self, row: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let TableLayout { formats, stored, .. } = self.table.layout();
        let (Some(format), Some(stored)) = (formats.last(), stored.last()) else {
            return Err(Error::internal("a table has no format of rows"));
        };
        if RowFormat::generation_of(row)? != format.generation() {
            return self.rewrite(format, stored, row, out);
        }
        if self.adds.is_empty() {
            return format.patch(row, &self.sets, out);
        }
        let mut changes: SmallVec<[(usize, Datum); 8]> = self.sets.iter().cloned().collect();
        for (place, addition) in &self.adds {
            changes.push((*place, addition.apply(&self.table, &format.get(row, *place)?)?));
        }
        format.patch(row, &changes, out)
    }

    #[cold]
    fn rewrite(&self, format: &RowFormat, stored: &[usize], row: &[u8], out: &mut Vec<u8>) -> Result<()> {
        // What the key gives back exactly is not stored, so the key is not needed.
        let mut values = vec![Datum::Null; stored.len()];
        RowReader::new(&self.table, stored).read(&[], row, &mut values)?;
        for (place, value) in &self.sets {
            values[*place] = value.clone();
        }
        for (place, addition) in &self.adds {
            values[*place] = addition.apply(&self.table, &values[*place])?;
        }
        format.encode(&values, out)
    }
}

impl Patch for RowPatch {
    fn apply(&self, row: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), PatchError> {
        self.apply_to(row, out).map_err(|error| Box::new(error) as PatchError)
    }
}

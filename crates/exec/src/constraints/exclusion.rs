//! Exclusion constraints: no two rows have equal values in some columns and overlapping ranges in
//! another one.
//!
//! The constraint's index has the columns that are compared as equal in front, and the ranges behind
//! them, by their lower bounds. The ranges of rows with the same values in front do not overlap. So a
//! new range overlaps one of them only if it overlaps the last one before it or the first one behind
//! it: two looks into the index say whether there is a conflict.
//!
//! Invariants: a transaction that writes an entry first locks the values in front of the range
//! exclusively, so of two transactions that write ranges beside the same values one waits for the
//! other. It depends on what it has looked at. Empty ranges, and rows with a NULL, are in conflict
//! with nothing.

use std::ops::{Bound, ControlFlow};

use colibri_catalog::{Index, Table, record, store_error::InSql as _};
use colibri_txn::{ColumnSet, Direction, IfLocked, Key, KeyRange, LockMode};
use colibri_types::{Datum, Env, Error, Result, SqlState, Type, key, ranges};

use super::deferred::{Deferred, is_deferred};
use super::{duplicate, duplicate_in_old_rows, find_entry, key_text};
use crate::Exec;

/// What compares overlapping ranges.
const OVERLAPS: &str = "&&";

/// The type of the ranges that must not overlap; `None` if all columns are compared as equal.
fn range_type(table: &Table, index: &Index) -> Option<Type> {
    let has_range = index.exclusion.iter().any(|part| part.operator == OVERLAPS);
    index.columns.last().filter(|_| has_range).map(|part| table.columns[part.column].ty.ty)
}

/// The values in front of the range.
fn values_in_front(table: &Table, index: &Index, row: &[Datum]) -> Result<Key> {
    let columns = &index.columns[..index.columns.len() - 1];
    record::index_prefix(table, index, columns.iter().map(|part| &row[part.column]))
}

/// The range that an entry has behind the values in front; `None` for NULL.
fn range_in(index: &Index, ty: Type, rest: &[u8]) -> Result<Option<Box<[u8]>>> {
    let Some(part) = index.columns.last() else { return Ok(None) };
    match key::decode(ty, part.descending, part.nulls_first, false, &mut &*rest)? {
        Datum::Range(bytes) => Ok(Some(bytes)),
        _ => Ok(None),
    }
}

/// The entry of a row that a row is in conflict with, if there is one. The row has an entry of its
/// own, without NULLs. `locks`: whether it is to be written.
pub(crate) fn conflicting(
    ex: &mut Exec<'_, '_>,
    table: &Table,
    index: &Index,
    row: &[Datum],
    locks: bool,
) -> Result<Option<Key>> {
    let space = index.space();
    let values = record::index_values(table, index, row)?;
    let Some(ty) = range_type(table, index) else {
        if locks {
            ex.txn.lock(&space, &values, LockMode::Exclusive, IfLocked::Wait).in_sql()?;
        }
        return find_entry(ex.txn, &space, &values);
    };
    let range = match index.columns.last().map(|part| &row[part.column]) {
        Some(Datum::Range(range)) if !ranges::is_empty(range) => range,
        _ => return Ok(None),
    };
    let front = values_in_front(table, index, row)?;
    if locks {
        ex.txn.lock(&space, &front, LockMode::Exclusive, IfLocked::Wait).in_sql()?;
    }
    let all = record::prefix_range(front.clone());
    let behind = KeyRange { low: Bound::Included(values.clone()), high: all.high };
    let before = KeyRange { low: all.low, high: Bound::Excluded(values) };
    for (part, direction) in [(behind, Direction::Forward), (before, Direction::Backward)] {
        let mut found = None;
        ex.txn
            .scan(&space, &part, direction, ColumnSet::NONE, 1, &mut |key, _| {
                found = Some(Key::from_slice(key));
                ControlFlow::Break(())
            })
            .in_sql()?;
        if let Some(entry) = found
            && let Some(other) = range_in(index, ty, &entry[front.len()..])?
            && ranges::overlap(ty, range, &other)?
        {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// Locks what a row of an exclusion constraint is compared with, and fails if it is in conflict.
pub(super) fn claim(ex: &mut Exec<'_, '_>, table: &Table, index: &Index, row: &[Datum]) -> Result<()> {
    match conflicting(ex, table, index, row, true)? {
        None => Ok(()),
        Some(_) if is_deferred(ex.cx.session, index.id, index.timing) => {
            let values = record::index_values(table, index, row)?;
            let check = Deferred::key(ex, table, index, values)?;
            ex.cx.session.defer(vec![check]);
            Ok(())
        }
        Some(_) if index.deferrable_key => Err(duplicate(table, Some(index), row, ex.cx.env)),
        Some(entry) => {
            let message = format!("conflicting key value violates exclusion constraint \"{}\"", index.name);
            Err(violation(table, index, message, "conflicts with existing key", row, &entry, ex.cx.env))
        }
    }
}

/// The check of a deferrable key that was put off: no two rows have some values.
pub(super) fn expect_single(ex: &mut Exec<'_, '_>, table: &Table, index: &Index, values: &Key) -> Result<()> {
    let mut count = 0;
    let range = record::prefix_range(values.clone());
    ex.txn
        .scan(&index.space(), &range, Direction::Forward, ColumnSet::NONE, 2, &mut |_, _| {
            count += 1;
            if count < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .in_sql()?;
    if count < 2 {
        return Ok(());
    }
    let mut row = vec![Datum::Null; table.columns.len()];
    record::decode_values(table, index, values, &mut row);
    Err(duplicate(table, Some(index), &row, ex.cx.env))
}

/// An entry, where its range begins, and the range if the index has one.
type Seen<'a> = (&'a Key, usize, Option<Box<[u8]>>);

/// Fails if two rows that were there before the constraint are in conflict. `entries` are those of
/// its index, in order.
pub(super) fn check_entries(table: &Table, index: &Index, entries: &[Key], env: &Env) -> Result<()> {
    let ty = range_type(table, index);
    let mut previous: Option<Seen<'_>> = None;
    for entry in entries {
        colibri_types::pulse::work(colibri_types::pulse::UNITS_PER_ROW)?;
        let row_key = record::split_index_entry(table, index, entry)?;
        let values = &entry[..entry.len() - row_key.len()];
        if record::has_null_marker(table, index, values)? {
            continue;
        }
        let (front, range) = match ty {
            None => (values.len(), None),
            Some(ty) => {
                let front = record::prefix_bytes(table, Some(index), index.columns.len() - 1, entry)?;
                match range_in(index, ty, &entry[front..])?.filter(|range| !ranges::is_empty(range)) {
                    Some(range) => (front, Some(range)),
                    None => continue,
                }
            }
        };
        if let Some((other, other_front, other_range)) = &previous
            && other[..*other_front] == entry[..front]
        {
            let overlap = match (ty, &range, other_range) {
                (Some(ty), Some(range), Some(other)) => ranges::overlap(ty, range, other)?,
                _ => true,
            };
            if overlap {
                let mut row = vec![Datum::Null; table.columns.len()];
                record::decode_values(table, index, &other[..], &mut row);
                if index.deferrable_key {
                    return Err(duplicate_in_old_rows(table, Some(index), &row, env));
                }
                let message = format!("could not create exclusion constraint \"{}\"", index.name);
                return Err(violation(table, index, message, "conflicts with key", &row, entry, env));
            }
        }
        previous = Some((entry, front, range));
    }
    Ok(())
}

#[cold]
fn violation(
    table: &Table,
    index: &Index,
    message: String,
    conflicts: &str,
    row: &[Datum],
    entry: &[u8],
    env: &Env,
) -> Error {
    let mut other = vec![Datum::Null; table.columns.len()];
    record::decode_values(table, index, entry, &mut other);
    let shown = |row: &[Datum]| {
        let columns = index.exclusion.iter().map(|part| part.column);
        key_text(table, columns.clone(), columns.map(|column| &row[column]), env)
    };
    let other = shown(&other);
    Error::new(SqlState::EXCLUSION_VIOLATION, message)
        .detail(format!("{} {conflicts} {}.", shown(row), other.strip_prefix("Key ").unwrap_or(&other)))
        .about(&table.schema, &table.name, None, Some(&index.name))
}

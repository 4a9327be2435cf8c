//! What changes of the catalogue need of the rows that are there: new constraints checked, new
//! indexes filled, tables written anew, and the check of a table against its indexes.
//!
//! Everything here goes through a table a batch at a time. It cannot be put aside, so it polls with
//! every row, and can be cancelled there: see [`colibri_types::pulse`]. What is filled is sorted
//! first and loaded into a space of its own, which costs a fraction of as many single writes.
//!
//! Invariants: the transaction comes to depend on all it has looked at, so that a row written
//! meanwhile by another makes one of the two fail.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use colibri_catalog::{Index, Table, inverted, record, record::RowReader, row::RowFormat, store_error::InSql as _};
use colibri_txn::{ColumnSet, Direction, Key, KeyRange, Space, Transaction};
use colibri_types::{Datum, Env, Error, Result, SqlState, key, pulse};
use smallvec::SmallVec;

use super::duplicate_in_old_rows;
use super::exclusion;
use super::expressions::{Alone, Computes, Expressions, asks_routines, row_for};
use super::references::{Nulls, target_exists};
use crate::eval::Evaluate as _;
use crate::expr::{Expr, walk};
use crate::plan::ForeignKeyRule;
use crate::plan::partitions::Router;
use crate::{Context, Exec, Statement, merge_sort};

/// Entries looked at in one go.
const BATCH_ENTRIES: usize = 1024;
/// The most references that are remembered to lead to a row, while a foreign key is validated.
const REFERENCES_MAX: usize = 65_536;
/// Inconsistencies after which a check of a table stops.
const FINDINGS_MAX: usize = 100;

/// The next entries of a space behind a key.
fn next_entries(
    txn: &mut dyn Transaction,
    space: &Space,
    after: Option<&Key>,
    columns: ColumnSet,
) -> Result<Vec<(Key, Vec<u8>)>> {
    let low = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.clone()));
    let range = KeyRange { low, high: Bound::Unbounded };
    let mut entries = Vec::new();
    txn.scan(space, &range, Direction::Forward, columns, BATCH_ENTRIES, &mut |key, value| {
        entries.push((Key::from_slice(key), value.to_vec()));
        if entries.len() < BATCH_ENTRIES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .in_sql()?;
    Ok(entries)
}

/// All columns of a table, the hidden number last.
fn all_columns(table: &Table) -> Vec<usize> {
    (0..table.columns.len() + usize::from(table.primary_key.is_none())).collect()
}

/// The columns that an index' entries are made of, in the order of their places.
fn columns_of_entries(index: &Index, expressions: &Expressions) -> Vec<usize> {
    let parts = index.columns.iter().map(|part| part.column);
    let mut columns: Vec<usize> = parts.chain(index.include.iter().copied()).chain(index.predicate).collect();
    for (stands_for, expression) in expressions {
        if columns.contains(stands_for) {
            columns.retain(|column| column != stands_for);
            walk::for_each_column(expression, &mut |column| columns.push(column));
        }
    }
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Calls `visit` with each row of a table: its key, and a place for each of its columns, the hidden
/// number last, of which those that are `read` are filled.
fn for_each_row(
    ex: &mut Exec<'_, '_>,
    table: &Table,
    read: &[usize],
    mut visit: impl FnMut(&mut Exec<'_, '_>, &Key, &[Datum]) -> Result<()>,
) -> Result<()> {
    let reader = RowReader::new(table, read);
    let mut values = vec![Datum::Null; read.len()];
    let mut row = vec![Datum::Null; table.columns.len() + usize::from(table.primary_key.is_none())];
    let space = table.space();
    let mut last = None;
    loop {
        ex.check_cancel()?;
        let entries = next_entries(ex.txn, &space, last.as_ref(), ColumnSet::ALL)?;
        for (key, value) in &entries {
            pulse::work(pulse::UNITS_PER_WRITE)?;
            reader.read(key, value, &mut values)?;
            read.iter().zip(&mut values).for_each(|(&column, value)| std::mem::swap(&mut row[column], value));
            visit(ex, key, &row)?;
        }
        let is_last = entries.len() < BATCH_ENTRIES;
        match entries.into_iter().next_back() {
            Some((key, _)) if !is_last => last = Some(key),
            _ => return Ok(()),
        }
    }
}

/// Runs something outside any plan.
pub fn with_exec<T>(
    txn: &mut dyn Transaction,
    cx: &mut Context<'_>,
    run: impl FnOnce(&mut Exec<'_, '_>) -> Result<T>,
) -> Result<T> {
    let (mut statement, lists) = (Statement::default(), RefCell::default());
    run(&mut Exec { txn, cx, slots: &mut [], statement: &mut statement, lists: &lists })
}

/// Makes an index' space and fills it from the table's rows.
///
/// # Errors
/// Two rows are equal in a unique index (23505); an entry is too long.
pub fn backfill_index(
    txn: &mut dyn Transaction,
    cx: &mut Context<'_>,
    (table, index): (&Table, &Index),
    expressions: &Expressions,
) -> Result<()> {
    with_exec(txn, cx, |ex| {
        let mut entries: Vec<Key> = Vec::new();
        let read = columns_of_entries(index, expressions);
        for_each_row(ex, table, &read, |ex, key, row| {
            entries.extend(entries_of(ex, (table, index), expressions, row, key)?);
            Ok(())
        })?;
        load_index(ex, table, index, entries)
    })
}

/// The entries of a row in an index: one at most, or one for each token.
fn entries_of(
    by: &mut dyn Computes,
    (table, index): (&Table, &Index),
    expressions: &Expressions,
    row: &[Datum],
    key: &Key,
) -> Result<SmallVec<[Key; 1]>> {
    let row = row_for(by, (table, index), expressions, row)?;
    if index.is_inverted() {
        return inverted::entries(table, index, &row, key).map(SmallVec::from_vec);
    }
    let entry = record::has_entry(index, &row).then(|| record::index_entry(table, index, &row, key)).transpose()?;
    Ok(entry.into_iter().collect())
}

/// Makes an index' space and fills it with entries in any order.
fn load_index(ex: &mut Exec<'_, '_>, table: &Table, index: &Index, mut entries: Vec<Key>) -> Result<()> {
    merge_sort::sort(&mut entries, merge_sort::PIECE, Ord::cmp)?;
    if index.unique {
        let mut previous: Option<&[u8]> = None;
        for entry in &entries {
            pulse::work(pulse::UNITS_PER_ROW)?;
            let values = values_part(table, index, entry)?;
            if previous == Some(values) && !record::has_null_marker(table, index, values)? {
                let mut row = vec![Datum::Null; table.columns.len()];
                record::decode_values(table, index, values, &mut row);
                return Err(duplicate_in_old_rows(table, Some(index), &row, ex.cx.env));
            }
            previous = Some(values);
        }
    }
    if index.is_exclusion() {
        exclusion::check_entries(table, index, &entries, ex.cx.env)?;
    }
    let space = index.space();
    ex.txn.create_space(space.id).in_sql()?;
    let loaded = entries.into_iter().map(|entry| {
        pulse::work(pulse::UNITS_PER_ROW)?;
        Ok((entry, Vec::new()))
    });
    ex.txn.load(&space, loaded.collect::<Result<_>>()?).in_sql()?;
    Ok(())
}

/// The encoded columns of an entry.
fn values_part<'a>(table: &Table, index: &Index, entry: &'a [u8]) -> Result<&'a [u8]> {
    let row_key = record::split_index_entry(table, index, entry)?;
    Ok(&entry[..entry.len() - row_key.len()])
}

/// Writes a table's rows anew into the space of `new`, and fills its indexes. `map` gives each
/// column of the new table over the old row (all its columns), `expressions` are those of the new
/// one.
///
/// # Errors
/// Two rows have the same new key (23505), a column is NULL that may not be (23502), or a value
/// cannot be computed.
pub fn rewrite_table(
    txn: &mut dyn Transaction,
    cx: &mut Context<'_>,
    old: &Table,
    new: &Table,
    (map, expressions): (&[Expr], &Expressions),
) -> Result<()> {
    let keeps_numbers = old.primary_key.is_none() && new.primary_key.is_none();
    with_exec(txn, cx, |ex| {
        let mut rows: Vec<(Key, Vec<u8>)> = Vec::new();
        let mut entries: Vec<Vec<Key>> = new.indexes.iter().map(|_| Vec::new()).collect();
        let mut row: Vec<Datum> = Vec::new();
        for_each_row(ex, old, &all_columns(old), |ex, _, old_row| {
            row.clear();
            for expr in map {
                row.push(expr.eval_owned(&mut ex.scope(), old_row)?);
            }
            if let Some(column) = first_null(new, &row) {
                return Err(has_nulls(new, column));
            }
            if keeps_numbers {
                row.extend_from_slice(&old_row[old.columns.len()..]);
            } else if new.primary_key.is_none() {
                row.push(Datum::Int(ex.cx.session.next_row_number(ex.txn, new)?));
            }
            let key = record::row_key(new, &row)?;
            for (index, entries) in new.indexes.iter().zip(&mut entries) {
                entries.extend(entries_of(ex, (new, index), expressions, &row, &key)?);
            }
            let mut value = Vec::new();
            record::encode_row(new, &row, &mut value)?;
            rows.push((key, value));
            Ok(())
        })?;
        merge_sort::sort(&mut rows, merge_sort::PIECE, |(a, _), (b, _)| a.cmp(b))?;
        for pair in rows.windows(2) {
            pulse::work(1)?;
            if pair[0].0 != pair[1].0 {
                continue;
            }
            let mut row = vec![Datum::Null; new.columns.len()];
            let columns: Vec<usize> = (0..new.columns.len()).collect();
            record::read_row(new, &pair[1].0, &pair[1].1, &columns, &mut row)?;
            return Err(duplicate_in_old_rows(new, None, &row, ex.cx.env));
        }
        let space = new.space();
        ex.txn.create_space(space.id).in_sql()?;
        ex.txn.load(&space, rows).in_sql()?;
        new.indexes.iter().zip(entries).try_for_each(|(index, entries)| load_index(ex, new, index, entries))
    })
}

/// A column that is NULL and may not be.
fn first_null(table: &Table, row: &[Datum]) -> Option<usize> {
    let may_not = |column: usize| table.columns[column].not_null || table.key_columns().contains(&column);
    table.live_columns().map(|(column, _)| column).find(|&column| may_not(column) && row[column].is_null())
}

#[cold]
fn has_nulls(table: &Table, column: usize) -> Error {
    let name = &table.columns[column].name;
    let message = format!("column \"{name}\" of relation \"{}\" contains null values", table.name);
    Error::new(SqlState::NOT_NULL_VIOLATION, message).about(&table.schema, &table.name, Some(name), None)
}

/// Fails if a row has NULL in a column.
///
/// # Errors
/// It has (23502).
pub fn validate_not_null(txn: &mut dyn Transaction, cx: &mut Context<'_>, table: &Table, column: usize) -> Result<()> {
    with_exec(txn, cx, |ex| {
        for_each_row(ex, table, &[column], |_, _, row| match row[column].is_null() {
            true => Err(has_nulls(table, column)),
            false => Ok(()),
        })
    })
}

/// Fails if a row violates a condition over all the table's columns.
///
/// # Errors
/// It does (23514).
pub fn validate_check(
    txn: &mut dyn Transaction,
    cx: &mut Context<'_>,
    table: &Table,
    name: &str,
    condition: &Expr,
) -> Result<()> {
    let mut read = Vec::new();
    walk::for_each_column(condition, &mut |column| read.push(column));
    read.sort_unstable();
    read.dedup();
    with_exec(txn, cx, |ex| {
        for_each_row(ex, table, &read, |ex, _, row| {
            if condition.truth(&mut ex.scope(), row)? != Some(false) {
                return Ok(());
            }
            let message = format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name);
            Err(Error::new(SqlState::CHECK_VIOLATION, message).about(&table.schema, &table.name, None, Some(name)))
        })
    })
}

/// Fails if a row of a partition belongs elsewhere, by what divides the rows of the tables above.
///
/// # Errors
/// It does (23514): `is_default` says of which partition that is told.
pub fn validate_partition(
    txn: &mut dyn Transaction,
    cx: &mut Context<'_>,
    table: &Table,
    levels: &[(Arc<Router>, usize)],
    is_default: bool,
) -> Result<()> {
    with_exec(txn, cx, |ex| {
        for_each_row(ex, table, &all_columns(table), |ex, _, row| {
            for (router, child) in levels {
                if super::find_partition(ex, router, row)? != Some(*child) {
                    let name = &table.name;
                    let message = match is_default {
                        true => format!(
                            "updated partition constraint for default partition \"{name}\" would be violated by some row"
                        ),
                        false => format!("partition constraint of relation \"{name}\" is violated by some row"),
                    };
                    let error = Error::new(SqlState::CHECK_VIOLATION, message);
                    return Err(error.about(&table.schema, name, None, None));
                }
            }
            Ok(())
        })
    })
}

/// What values of a column have to obey after a change of the domain that the column is of.
#[derive(Clone, Copy)]
pub enum InDomain<'e> {
    /// None is NULL.
    NotNull,
    /// A condition, over a row that has the value as its only column.
    Check(&'e Expr),
}

/// Fails if a row has a value in a column that does not obey.
///
/// # Errors
/// It has (23502, 23514).
pub fn validate_domain(
    txn: &mut dyn Transaction,
    cx: &mut Context<'_>,
    table: &Table,
    column: usize,
    demand: InDomain<'_>,
) -> Result<()> {
    with_exec(txn, cx, |ex| {
        for_each_row(ex, table, &[column], |ex, _, row| {
            let value = &row[column];
            let (state, what) = match demand {
                InDomain::NotNull if value.is_null() => (SqlState::NOT_NULL_VIOLATION, "contains null values"),
                InDomain::NotNull => return Ok(()),
                InDomain::Check(condition) => {
                    if condition.truth(&mut ex.scope(), std::slice::from_ref(value))? != Some(false) {
                        return Ok(());
                    }
                    (SqlState::CHECK_VIOLATION, "contains values that violate the new constraint")
                }
            };
            let name = &table.columns[column].name;
            let message = format!("column \"{name}\" of table \"{}\" {what}", table.name);
            Err(Error::new(state, message).about(&table.schema, &table.name, Some(name), None))
        })
    })
}

/// Fails if a row refers to one that is not there.
///
/// # Errors
/// It does (23503).
pub fn validate_foreign_key(
    txn: &mut dyn Transaction,
    cx: &mut Context<'_>,
    table: &Table,
    rule: &ForeignKeyRule,
) -> Result<()> {
    let mut read = rule.columns.to_vec();
    read.sort_unstable();
    read.dedup();
    // Many rows refer to the same one, which is looked up once.
    let mut there: HashSet<Key> = HashSet::new();
    with_exec(txn, cx, |ex| {
        for_each_row(ex, table, &read, |ex, _, row| {
            let values = rule.columns.iter().map(|&column| &row[column]);
            match Nulls::of(rule, values.clone()) {
                Nulls::ReferToNothing => return Ok(()),
                Nulls::AreMixed => return Err(super::references::mixed_nulls(table, rule)),
                Nulls::None => {}
            }
            let mut known = Key::new();
            for (&column, value) in rule.columns.iter().zip(values.clone()) {
                key::encode(table.columns[column].ty.ty, value, false, false, true, &mut known);
            }
            if there.contains(&known) {
                return Ok(());
            }
            if target_exists(ex, table, rule, values.clone())? {
                if there.len() == REFERENCES_MAX {
                    there.clear();
                }
                there.insert(known);
                return Ok(());
            }
            Err(super::references::not_present(table, rule, values, ex.cx.env))
        })
    })
}

/// Walks a table's rows and indexes, and says what does not fit together. Empty: all does.
///
/// # Errors
/// Of the transaction. Damaged bytes are findings.
pub fn check_table(
    txn: &mut dyn Transaction,
    table: &Arc<Table>,
    expressions: &Expressions,
    env: &Env,
) -> Result<Vec<String>> {
    let columns = all_columns(table);
    let reader = RowReader::new(table, &columns);
    let mut row = vec![Datum::Null; columns.len()];
    let mut findings = Vec::new();
    let mut counts = vec![0u64; table.indexes.len()];
    let (space, mut last) = (table.space(), None);
    let name = &table.name;
    loop {
        let entries = next_entries(txn, &space, last.as_ref(), ColumnSet::ALL)?;
        for (key, value) in &entries {
            pulse::work(pulse::UNITS_PER_WRITE)?;
            let place = format!("table \"{name}\", row {}", hex(key));
            let format =
                RowFormat::generation_of(value).map(|generation| table.layout().formats.get(usize::from(generation)));
            let well_formed = match format {
                Ok(Some(format)) => format.check(value),
                Ok(None) => Err(Error::internal("it has a generation that the table does not know")),
                Err(error) => Err(error),
            };
            if let Err(error) = well_formed.and_then(|()| reader.read(key, value, &mut row)) {
                findings.push(format!("{place}: {error}"));
                continue;
            }
            if let Some(column) = first_null(table, &row) {
                findings.push(format!("{place}: column \"{}\" is NULL", table.columns[column].name));
                continue;
            }
            match record::row_key(table, &row) {
                Ok(expected) if expected == *key => {}
                _ => findings.push(format!("{place}: its key is not that of its columns")),
            }
            for (index, count) in table.indexes.iter().zip(&mut counts) {
                if asks_routines(index, expressions) {
                    continue;
                }
                for entry in entries_of(&mut Alone(env), (table, index), expressions, &row, key)? {
                    *count += 1;
                    if txn.peek(&index.space(), &entry).in_sql()?.is_none() {
                        findings.push(format!("{place}: index \"{}\" has no entry {}", index.name, hex(&entry)));
                    }
                }
            }
        }
        if findings.len() > FINDINGS_MAX {
            return Ok(findings);
        }
        let is_last = entries.len() < BATCH_ENTRIES;
        match entries.into_iter().next_back() {
            Some((key, _)) if !is_last => last = Some(key),
            _ => break,
        }
    }
    // What functions of users give is not known here.
    for (index, count) in table.indexes.iter().zip(counts).filter(|(index, _)| !asks_routines(index, expressions)) {
        check_index(txn, table, index, count, &mut findings)?;
    }
    Ok(findings)
}

/// An index has an entry for each of `count` rows, or tokens, that are to have one already: looks for others, and for what is twice
/// in a unique index.
fn check_index(
    txn: &mut dyn Transaction,
    table: &Table,
    index: &Index,
    count: u64,
    findings: &mut Vec<String>,
) -> Result<()> {
    let (space, table_space) = (index.space(), table.space());
    let all = record::whole_range();
    let entries_count = txn.count(&space, &all).in_sql()?;
    if entries_count != count {
        let of = if index.is_inverted() { "tokens" } else { "rows" };
        findings.push(format!("index \"{}\" has {entries_count} entries for {count} {of}", index.name));
    } else if !index.unique {
        return Ok(());
    }
    let mut last: Option<Key> = None;
    let mut previous: Option<Key> = None;
    loop {
        let entries = next_entries(txn, &space, last.as_ref(), ColumnSet::NONE)?;
        for (entry, _) in &entries {
            pulse::work(pulse::UNITS_PER_WRITE)?;
            let place = format!("index \"{}\", entry {}", index.name, hex(entry));
            let Ok(row_key) = record::split_whole_entry(table, index, entry) else {
                findings.push(format!("{place}: it is malformed"));
                continue;
            };
            if txn.peek(&table_space, row_key).in_sql()?.is_none() {
                findings.push(format!("{place}: there is no row {}", hex(row_key)));
            }
            let values = &entry[..entry.len() - row_key.len()];
            if index.unique && previous.as_deref() == Some(values) && !record::has_null_marker(table, index, values)? {
                findings.push(format!("{place}: the index is unique and has these values twice"));
            }
            previous = Some(Key::from_slice(values));
        }
        if findings.len() > FINDINGS_MAX {
            return Ok(());
        }
        let is_last = entries.len() < BATCH_ENTRIES;
        match entries.into_iter().next_back() {
            Some((key, _)) if !is_last => last = Some(key),
            _ => return Ok(()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

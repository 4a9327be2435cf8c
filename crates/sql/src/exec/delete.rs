//! DELETE.
//!
//! As with UPDATE, rows are collected first unless they come from a plain scan of the table; each is locked, then it goes
//! with its entries. What refers to it is dealt with at the end of the statement.

use std::sync::Arc;

use colibri_catalog::{Table, record, store_error::InSql as _};
use colibri_txn::{IfLocked, Key, LockMode, Space};
use colibri_types::{Datum, Result, pulse};

use super::constraints::references::Effects;
use super::constraints::{has_query, is_plain_scan};
use super::key_set::KeySet;
use super::writing::{Changes, Course, Outcome};
use super::{Batch, Exec, Step};
use crate::plan::{Delete, TableRules};

/// Deletes a row whose lock is held. `row` has the columns of all indexes and of foreign keys that refer to the table.
#[inline]
pub(super) fn delete_row(
    ex: &mut Exec<'_, '_>,
    effects: &mut Effects,
    table: &Arc<Table>,
    space: &Space,
    rules: &Arc<TableRules>,
    key: &Key,
    row: &[Datum],
) -> Result<()> {
    ex.txn.delete(space, key).in_sql()?;
    for index in &table.indexes {
        let entry = record::index_entry(table, index, row, key)?;
        let space = index.space();
        debug_assert!(ex.txn.peek(&space, &entry).in_sql()?.is_some(), "the source reads the columns of all indexes");
        ex.txn.delete(&space, &entry).in_sql()?;
    }
    if !rules.referenced_by.is_empty() {
        effects.note_deleted(ex, table, rules, row)?;
    }
    Ok(())
}

/// DELETE at work.
pub(crate) struct DeleteRun {
    course: Course,
    deletions: Deletions,
}

/// What deleting rows needs from one to the next.
struct Deletions {
    /// Keys of rows deleted, if a row may come more than once.
    seen: Option<KeySet>,
    space: Space,
    effects: Effects,
}

impl DeleteRun {
    pub(super) fn new(delete: &Delete) -> Self {
        let Delete { table, source, returning, .. } = delete;
        let is_plain = is_plain_scan(source, table, &|_| false);
        Self {
            course: Course::new(source, is_plain && !returning.iter().flatten().any(has_query)),
            deletions: Deletions {
                seen: (!is_plain).then(KeySet::default),
                space: table.space(),
                effects: Effects::default(),
            },
        }
    }

    pub(super) fn again(&mut self, delete: &Delete) -> bool {
        let Deletions { seen, space: _, effects } = &mut self.deletions;
        if let Some(seen) = seen {
            *seen = KeySet::default();
        }
        effects.again();
        self.course.again(&delete.source)
    }

    /// Rows deleted so far, those by actions of foreign keys not counted.
    pub(super) fn affected(&self) -> u64 {
        self.course.outcome.affected
    }

    pub(super) fn step(&mut self, delete: &Delete, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        self.course.step(&delete.source, &mut (delete, &mut self.deletions), ex, out)
    }
}

impl Changes for (&Delete, &mut Deletions) {
    fn change(&mut self, ex: &mut Exec<'_, '_>, rows: &mut Batch, outcome: &mut Outcome) -> Result<()> {
        rows.iter().try_for_each(|row| self.1.delete(self.0, ex, row, outcome))
    }

    fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        self.1.effects.finish(ex)
    }
}

impl Deletions {
    fn delete(&mut self, delete: &Delete, ex: &mut Exec<'_, '_>, row: &[Datum], outcome: &mut Outcome) -> Result<()> {
        pulse::work(pulse::UNITS_PER_WRITE)?;
        let Delete { table, returning, rules, .. } = delete;
        let key = record::row_key(table, row)?;
        if let Some(seen) = &mut self.seen
            && !seen.insert(key.clone())
        {
            return Ok(());
        }
        ex.txn.lock(&self.space, &key, LockMode::Exclusive, IfLocked::Wait).in_sql()?;
        delete_row(ex, &mut self.effects, table, &self.space, rules, &key, row)?;
        outcome.affected += 1;
        match returning {
            Some(exprs) => outcome.returned.push(ex, exprs, row),
            None => Ok(()),
        }
    }
}

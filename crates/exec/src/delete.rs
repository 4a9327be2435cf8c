//! DELETE.
//!
//! As with UPDATE, rows are collected first unless they come from a plain scan of the table; each
//! is locked, then it goes with its entries. What refers to it is dealt with at the end of the
//! statement.

use std::sync::Arc;

use colibri_catalog::{Table, Trigger, inverted, record, store_error::InSql as _};
use colibri_txn::{IfLocked, Key, LockMode, Space};
use colibri_types::{Datum, Result, pulse};

use super::constraints::expressions::{asks_routines, row_for};
use super::constraints::references::{Effects, Mark};
use super::constraints::{has_query, is_plain_scan};
use super::key_set::KeySet;
use super::operator::Run;
use super::triggers::{
    Fired, after_statement, before_row, before_statement, expect_untouched, instead_of_row, note_row,
};
use super::writing::{ChangeRun, Changes, Outcome};
use super::{Batch, Exec};
use crate::plan::{Delete, TableRules};

/// Deletes a row whose lock is held. `row` has the columns of all indexes and of foreign keys that
/// refer to the table.
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
    take_row(ex, table, space, rules, key, row)?;
    if !rules.referenced_by.is_empty() {
        effects.note_deleted(ex, table, rules, row)?;
    }
    Ok(())
}

/// Deletes a row whose lock is held, whatever refers to it.
pub(super) fn take_row(
    ex: &mut Exec<'_, '_>,
    table: &Arc<Table>,
    space: &Space,
    rules: &Arc<TableRules>,
    key: &Key,
    row: &[Datum],
) -> Result<()> {
    ex.txn.delete(space, key).in_sql()?;
    for index in &table.indexes {
        let row = row_for(ex, (table, index), &rules.expressions, row)?;
        if !record::has_entry(index, &row) {
            continue;
        }
        let space = index.space();
        if index.is_inverted() {
            for entry in inverted::entries(table, index, &row, key)? {
                ex.txn.delete(&space, &entry).in_sql()?;
            }
            continue;
        }
        let entry = record::index_entry(table, index, &row, key)?;
        debug_assert!(
            asks_routines(index, &rules.expressions) || ex.txn.peek(&space, &entry).in_sql()?.is_some(),
            "the source reads the columns of all indexes"
        );
        ex.txn.delete(&space, &entry).in_sql()?;
    }
    Ok(())
}

/// DELETE at work.
pub(super) type DeleteRun = ChangeRun<(Arc<Delete>, Deletions)>;

/// What deleting rows needs from one to the next.
pub(super) struct Deletions {
    /// Keys of rows deleted, if a row may come more than once.
    seen: Option<KeySet>,
    space: Space,
    effects: Effects,
    fired: Fired,
}

impl DeleteRun {
    pub(super) fn new(delete: &Arc<Delete>, input: Run) -> Self {
        let Delete { table, source, returning, .. } = &**delete;
        let is_plain = is_plain_scan(source, table, &|_| false);
        let deletions = Deletions {
            seen: (!is_plain).then(KeySet::default),
            space: table.space(),
            effects: Effects::default(),
            fired: Fired::new(&delete.rules, [(Trigger::DELETE, None)]),
        };
        let streams = is_plain && delete.rules.triggers.is_none() && !returning.iter().flatten().any(has_query);
        Self::over(input, streams, (Arc::clone(delete), deletions))
    }
}

impl Changes for (Arc<Delete>, Deletions) {
    #[inline]
    fn change(&mut self, ex: &mut Exec<'_, '_>, rows: &mut Batch, at: usize, outcome: &mut Outcome) -> Result<()> {
        self.1.delete(&self.0, ex, rows.row(at), outcome)
    }

    fn mark(&self) -> Mark {
        self.1.effects.mark()
    }

    fn take_back(&mut self, mark: Mark) {
        self.1.effects.take_back(mark);
    }

    fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        if !self.1.effects.finish(ex)? {
            return Ok(false);
        }
        let Delete { table, rules, .. } = &*self.0;
        self.1.fired.take_in_front(self.1.effects.fired_mut());
        after_statement(ex, table, rules, &mut self.1.fired)?;
        Ok(true)
    }

    fn forget(&mut self) {
        let Deletions { seen, space: _, effects, fired } = &mut self.1;
        fired.again();
        if let Some(seen) = seen {
            *seen = KeySet::default();
        }
        effects.again();
    }
}

impl Deletions {
    /// For rows of a partition, of which all columns are there.
    pub(super) fn of_partition(delete: &Delete) -> Self {
        Self {
            seen: Some(KeySet::default()),
            space: delete.table.space(),
            effects: Effects::default(),
            fired: Fired::default(),
        }
    }

    pub(super) fn effects_mut(&mut self) -> &mut Effects {
        &mut self.effects
    }

    /// Exchanges what is noted for triggers.
    pub(super) fn exchange_fired(&mut self, fired: &mut Fired) {
        std::mem::swap(&mut self.fired, fired);
    }

    pub(super) fn delete(
        &mut self,
        delete: &Delete,
        ex: &mut Exec<'_, '_>,
        row: &[Datum],
        outcome: &mut Outcome,
    ) -> Result<()> {
        pulse::work(pulse::UNITS_PER_WRITE)?;
        let Delete { table, returning, rules, .. } = delete;
        if rules.is_view {
            before_statement(ex, table, rules, &mut self.fired)?;
            if instead_of_row(ex, table, rules, Trigger::DELETE, Some(row), None)? {
                if let Some(exprs) = returning {
                    outcome.returned.push(ex, exprs, row)?;
                }
                outcome.affected += 1;
            }
            return Ok(());
        }
        let key = record::row_key(table, row)?;
        if self.seen.as_ref().is_some_and(|seen| seen.contains(&key)) || ex.is_changed(&self.space, &key) {
            return Ok(());
        }
        if rules.triggers.is_some() {
            before_statement(ex, table, rules, &mut self.fired)?;
            if !before_row(ex, table, rules, Trigger::DELETE, Some(row), None, None)? {
                return Ok(());
            }
            if rules.has_before_row(Trigger::DELETE) {
                expect_untouched(ex, table, (&self.space, &key), row, "deleted")?;
            }
        }
        ex.txn.lock(&self.space, &key, LockMode::Exclusive, IfLocked::Wait).in_sql()?;
        delete_row(ex, &mut self.effects, table, &self.space, rules, &key, row)?;
        note_row(ex, (table, rules), &mut self.fired, Trigger::DELETE, Some(row), None, None)?;
        if let Some(exprs) = returning {
            outcome.returned.push(ex, exprs, row)?;
        }
        if let Some(seen) = &mut self.seen {
            seen.insert(key);
        }
        outcome.affected += 1;
        Ok(())
    }
}

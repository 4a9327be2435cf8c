//! DELETE.
//!
//! As with UPDATE, rows are collected first unless they come from a plain scan of the table; each is locked, then it goes
//! with its entries. What refers to it is dealt with at the end of the statement.

use std::collections::HashSet;
use std::sync::Arc;

use colibri_txn::{IfLocked, Key, LockMode, Space};

use super::constraints::references::Effects;
use super::constraints::{has_query, is_plain_scan};
use super::insert::Returned;
use super::update::Phase;
use super::{Batch, Exec, Run, Step, row_bytes};
use crate::catalog::Table;
use crate::error::Result;
use crate::plan::{Delete, TableRules};
use crate::record;
use crate::value::Datum;

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
    ex.txn.delete(space, key)?;
    for index in &table.indexes {
        let entry = record::index_entry(table, index, row, key)?;
        let space = index.space();
        debug_assert!(ex.txn.peek(&space, &entry)?.is_some(), "the source reads the columns of all indexes");
        ex.txn.delete(&space, &entry)?;
    }
    if !rules.referenced_by.is_empty() {
        effects.note_deleted(ex, table, rules, row)?;
    }
    Ok(())
}

/// DELETE at work.
pub(crate) struct DeleteRun {
    source: Run,
    input: Batch,
    batches: Vec<Batch>,
    done: usize,
    bytes: usize,
    phase: Phase,
    streams: bool,
    /// Keys of rows deleted, if a row may come more than once.
    seen: Option<HashSet<Key>>,
    space: Space,
    effects: Effects,
    returned: Returned,
    affected: u64,
}

impl DeleteRun {
    pub(super) fn new(delete: &Delete) -> Self {
        let Delete { table, source, returning, .. } = delete;
        let is_plain = is_plain_scan(source, table, &|_| false);
        Self {
            source: Run::new(source),
            input: Batch::new(),
            batches: Vec::new(),
            done: 0,
            bytes: 0,
            phase: Phase::Reading,
            streams: is_plain && !returning.iter().flatten().any(has_query),
            seen: (!is_plain).then(HashSet::new),
            space: table.space(),
            effects: Effects::default(),
            returned: Returned::default(),
            affected: 0,
        }
    }

    /// Rows deleted so far, those by actions of foreign keys not counted.
    pub(super) fn affected(&self) -> u64 {
        self.affected
    }

    pub(super) fn step(&mut self, delete: &Delete, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        loop {
            match self.phase {
                Phase::Reading => match self.source.step(&delete.source, ex, &mut self.input)? {
                    Step::Yield => return Ok(Step::Yield),
                    Step::Done => self.phase = Phase::Writing,
                    Step::Rows => {
                        let batch = std::mem::take(&mut self.input);
                        if self.streams {
                            batch.iter().try_for_each(|row| self.delete(delete, ex, row))?;
                            ex.spend(batch.rows());
                            self.input = batch;
                        } else {
                            let bytes = batch.iter().map(row_bytes).sum();
                            self.bytes += bytes;
                            ex.take_memory(bytes)?;
                            self.batches.push(batch);
                        }
                    }
                },
                Phase::Writing => {
                    if let Some(batch) = self.batches.get_mut(self.done) {
                        let batch = std::mem::take(batch);
                        batch.iter().try_for_each(|row| self.delete(delete, ex, row))?;
                        ex.spend(batch.rows());
                        self.done += 1;
                    }
                    if self.done >= self.batches.len() {
                        ex.give_memory(std::mem::take(&mut self.bytes));
                        self.phase = Phase::Finishing;
                    }
                }
                Phase::Finishing => {
                    if !self.effects.finish(ex)? {
                        return Ok(Step::Yield);
                    }
                    self.phase = Phase::Returning;
                }
                Phase::Returning => return Ok(self.returned.give(ex, out)),
            }
            ex.check_cancel()?;
            if ex.is_used_up() && self.phase != Phase::Returning {
                return Ok(Step::Yield);
            }
        }
    }

    fn delete(&mut self, delete: &Delete, ex: &mut Exec<'_, '_>, row: &[Datum]) -> Result<()> {
        let Delete { table, returning, rules, .. } = delete;
        let key = record::row_key(table, row)?;
        if let Some(seen) = &mut self.seen
            && !seen.insert(key.clone())
        {
            return Ok(());
        }
        ex.txn.lock(&self.space, &key, LockMode::Exclusive, IfLocked::Wait)?;
        delete_row(ex, &mut self.effects, table, &self.space, rules, &key, row)?;
        self.affected += 1;
        match returning {
            Some(exprs) => self.returned.push(ex, exprs, row),
            None => Ok(()),
        }
    }
}

//! `SELECT … FOR UPDATE` and `FOR SHARE`: locking the rows that come through.
//!
//! Invariants: only rows that are asked for are locked, so that a LIMIT above stops in time; a row
//! is given on when all of its tables' rows are locked. A table that an outer join found no row of
//! has none to lock.

use std::sync::Arc;

use colibri_catalog::{record, store_error::in_sql};
use colibri_txn::{IfLocked, LockMode};
use colibri_types::{Datum, Error, Result, SqlState, pulse};

use super::operator::{Operator, Run};
use super::{Batch, Exec, Step};
use crate::plan::{IfRowLocked, LockTarget, RowLock};

/// Locking at work.
pub(super) struct LockRowsRun {
    input: Run,
    rows: Batch,
    /// How many of them are done.
    at: usize,
    targets: Arc<[LockTarget]>,
    mode: RowLock,
    if_locked: IfRowLocked,
}

impl LockRowsRun {
    pub(super) fn new(input: Run, targets: &Arc<[LockTarget]>, mode: RowLock, if_locked: IfRowLocked) -> Self {
        Self { input, rows: Batch::new(), at: 0, targets: Arc::clone(targets), mode, if_locked }
    }
}

impl Operator for LockRowsRun {
    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.rows.reset(0);
        self.at = 0;
        self.input.rewind(ex);
    }

    fn reset(&mut self) {
        self.rows = std::mem::take(&mut self.rows).kept();
        self.at = 0;
        self.input.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.input.give_back(ex);
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        loop {
            if self.at >= self.rows.rows() {
                self.at = 0;
                self.rows.want(out.rows_max());
                match self.input.step(ex, &mut self.rows)? {
                    Step::Rows => {}
                    other => {
                        self.rows.reset(0);
                        return Ok(other);
                    }
                }
            }
            out.reset(self.rows.width());
            while self.at < self.rows.rows() && !out.is_full() {
                let row = self.rows.row_mut(self.at);
                match lock_row(row, &self.targets, self.mode, self.if_locked, ex) {
                    Ok(true) => out.push_taken(row),
                    Ok(false) => {}
                    Err(error) => return ex.interrupted(error, out),
                }
                self.at += 1;
            }
            if !out.is_empty() {
                return Ok(Step::Rows);
            }
        }
    }
}

/// Whether the row is given on.
fn lock_row(
    row: &[Datum],
    targets: &[LockTarget],
    mode: RowLock,
    if_locked: IfRowLocked,
    ex: &mut Exec<'_, '_>,
) -> Result<bool> {
    let mode = match mode {
        RowLock::Update => LockMode::Exclusive,
        RowLock::NoKeyUpdate => LockMode::NoKeyUpdate,
        RowLock::Share => LockMode::Share,
        RowLock::KeyShare => LockMode::KeyShare,
    };
    let how = if if_locked == IfRowLocked::Wait { IfLocked::Wait } else { IfLocked::Refuse };
    pulse::work(pulse::UNITS_PER_WRITE)?;
    for target in targets {
        if target.only.is_some_and(|(column, id)| row[column] != Datum::Int(id.into())) {
            continue;
        }
        if target.key.iter().any(|&column| row[column].is_null()) {
            continue;
        }
        let key = record::key_from_values(&target.table, target.key.iter().map(|&column| &row[column]))?;
        // Another part of the statement has changed it: there is nothing left to be locked.
        if ex.is_changed(&target.table.space(), &key) {
            return Ok(false);
        }
        match ex.txn.lock(&target.table.space(), &key, mode, how) {
            Ok(()) => {}
            Err(colibri_txn::Error::NotAvailable) if if_locked == IfRowLocked::Skip => return Ok(false),
            Err(colibri_txn::Error::NotAvailable) => return Err(not_available(&target.table.name)),
            Err(error) => return Err(in_sql(error)),
        }
    }
    Ok(true)
}

#[cold]
fn not_available(table: &str) -> Error {
    Error::new(SqlState::LOCK_NOT_AVAILABLE, format!("could not obtain lock on row in relation \"{table}\""))
}

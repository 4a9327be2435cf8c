//! `SELECT … FOR UPDATE` and `FOR SHARE`: locking the rows that come through.
//!
//! Invariants: only rows that are asked for are locked, so that a LIMIT above stops in time; a row is given on when all of
//! its tables' rows are locked. A table that an outer join found no row of has none to lock.

use colibri_catalog::{record, store_error::in_sql};
use colibri_txn::{IfLocked, LockMode};
use colibri_types::{Datum, Error, Result, SqlState, pulse};

use super::{Batch, Exec, Run, Step};
use crate::plan::{IfRowLocked, LockTarget, Node, RowLock};

/// Locking at work.
pub(crate) struct LockRowsRun {
    pub(super) input: Run,
}

impl LockRowsRun {
    pub(super) fn new(input: &Node) -> Self {
        Self { input: Run::new(input) }
    }

    pub(super) fn step(
        &mut self,
        input: &Node,
        targets: &[LockTarget],
        mode: RowLock,
        if_locked: IfRowLocked,
        ex: &mut Exec<'_, '_>,
        out: &mut Batch,
    ) -> Result<Step> {
        loop {
            match self.input.step(input, ex, out)? {
                Step::Rows => {}
                other => return Ok(other),
            }
            out.retain(|row| lock_row(row, targets, mode, if_locked, ex))?;
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
        if target.key.iter().any(|&column| row[column].is_null()) {
            continue;
        }
        let key = record::key_from_values(&target.table, target.key.iter().map(|&column| &row[column]))?;
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

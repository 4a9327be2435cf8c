//! Checks of constraints that a transaction has put off: which are, what is left of them, and when
//! they are made.
//!
//! Invariants: nothing commits with a check left. Checks that SAVEPOINTs take the cause of back stay,
//! and find nothing wrong. A check is made again when what made it pass may have been taken back:
//! with the state at a SAVEPOINT that of the checks and of SET CONSTRAINTS comes back.
//!
//! Bug: a check that was made after a SAVEPOINT was forgotten, and ROLLBACK TO took back the row that
//! it had found. Consequence: a reference to nothing was committed. Fix: checks that were made are
//! kept while there are SAVEPOINTs.

use std::collections::{HashMap, VecDeque};

use colibri_catalog::{ObjectId, Timing, store_error, store_error::InSql as _, store_error::Pause};
use colibri_types::{Error, Result, SqlState, pulse};

use super::plans::Command;
use super::step::{Progress, Running};
use super::{Session, TransactionState};
use crate::exec::{Deferred, constraints::validate::with_exec};
use colibri_syntax::tree::Setting;

/// What SET CONSTRAINTS has said in a transaction, and the checks that are left.
#[derive(Default)]
pub(super) struct Deferral {
    /// A block is open: what is by itself ends with its statement.
    pub(super) is_in_block: bool,
    all: Option<bool>,
    named: HashMap<ObjectId, bool>,
    /// In the order of what they are about, with their numbers.
    checks: VecDeque<(u64, Deferred)>,
    /// Those that were made and found nothing wrong, since the block has SAVEPOINTs.
    made: Vec<(u64, Deferred)>,
    /// The number of the last one.
    serial: u64,
}

/// What ROLLBACK TO brings back.
#[derive(Clone)]
pub(super) struct DeferralMark {
    all: Option<bool>,
    named: HashMap<ObjectId, bool>,
    made: usize,
    serial: u64,
}

impl Deferral {
    /// Whether a constraint waits for the end of the transaction, which is that of a block, or that
    /// of the statement that has called a body.
    pub(super) fn is_deferred(&self, constraint: ObjectId, timing: Timing, is_in_body: bool) -> bool {
        let said = self.named.get(&constraint).copied().or(self.all);
        (self.is_in_block || is_in_body) && !timing.is_fixed() && said.unwrap_or(timing == Timing::Deferred)
    }

    pub(super) fn defer(&mut self, checks: Vec<Deferred>) {
        for check in checks {
            self.serial += 1;
            self.checks.push_back((self.serial, check));
        }
    }

    /// The number of the last check.
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    /// Forgets the triggers that were put off behind a number: what they were to fire for was taken
    /// back.
    pub(super) fn forget_triggers_after(&mut self, serial: u64) {
        self.checks.retain(|(number, check)| *number <= serial || !check.calls_routine());
    }

    /// Where it is at a SAVEPOINT.
    pub(super) fn mark(&self) -> DeferralMark {
        DeferralMark { all: self.all, named: self.named.clone(), made: self.made.len(), serial: self.serial }
    }

    /// Goes back to a SAVEPOINT.
    pub(super) fn go_back_to(&mut self, mark: DeferralMark) {
        (self.all, self.named) = (mark.all, mark.named);
        self.checks.extend(self.made.drain(mark.made.min(self.made.len())..));
        self.forget_triggers_after(mark.serial);
    }

    /// `None`: all constraints.
    pub(super) fn set(&mut self, constraints: Option<&[ObjectId]>, deferred: bool) {
        match constraints {
            None => {
                self.named.clear();
                self.all = Some(deferred);
            }
            Some(constraints) => self.named.extend(constraints.iter().map(|&constraint| (constraint, deferred))),
        }
    }
}

impl Session {
    /// Makes the checks of some constraints. Those that fail stay.
    fn settle_some(&mut self, is_meant: &dyn Fn(ObjectId) -> bool) -> Result<Option<Progress>> {
        loop {
            let (mut left, kept): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.own.deferral.checks)
                .into_iter()
                .partition(|(_, check)| is_meant(check.constraint()));
            let is_over = left.is_empty();
            let settled = self.make_checks(&mut left);
            left.extend(kept);
            // Triggers may have left more.
            left.append(&mut self.own.deferral.checks);
            self.own.deferral.checks = left;
            if is_over || !matches!(settled, Ok(None)) {
                return settled;
            }
        }
    }

    /// Makes all checks at the end of a statement that is a transaction by itself: those that bodies
    /// have put off.
    pub(super) fn settle_all(&mut self) -> Result<Option<Progress>> {
        self.settle_some(&|_| true)
    }

    /// Makes checks, the first one first, and takes those away that find nothing wrong.
    fn make_checks(&mut self, checks: &mut VecDeque<(u64, Deferred)>) -> Result<Option<Progress>> {
        while let Some((_, check)) = checks.front() {
            pulse::work(pulse::UNITS_PER_WRITE)?;
            let Some(txn) = &mut self.txn else { return Err(Error::internal("checks are left without a transaction")) };
            let savepoint = txn.begin_statement().in_sql()?;
            let made = self.with_context(|txn, cx| with_exec(txn, cx, |ex| check.check(ex)));
            let Err(error) = made else {
                let check = checks.pop_front();
                if !self.block.savepoints.is_empty() {
                    self.own.deferral.made.extend(check);
                }
                continue;
            };
            let Some(pause) = store_error::pause(&error).cloned() else { return Err(error) };
            match pause {
                Pause::Stale => self.take_back_to(savepoint)?,
                Pause::Wait(wait) => {
                    self.take_back_to(savepoint)?;
                    if let Some(wait) = wait.lock().take() {
                        return Ok(Some(Progress::Wait(wait)));
                    }
                }
                Pause::Fetch(wait) | Pause::FetchAnew(wait) => return Ok(Some(Progress::Fetch(wait))),
            }
        }
        Ok(None)
    }

    /// Whether checks are left.
    pub(super) fn has_deferred(&self) -> bool {
        !self.own.deferral.checks.is_empty()
    }

    /// Refuses to change a table of whose rows checks are left.
    ///
    /// # Errors
    /// 55006.
    pub(super) fn expect_checked(&self, table: &colibri_catalog::Table, what: &str) -> Result<()> {
        if !self.own.deferral.checks.iter().any(|(_, check)| check.is_about(table.id)) {
            return Ok(());
        }
        let message = format!("cannot {what} \"{}\" because it has pending trigger events", table.name);
        Err(Error::new(SqlState("55006"), message))
    }

    /// What SET CONSTRAINTS says: the constraints that it names, if it names some.
    pub(super) fn defer_constraints(&mut self, constraints: Option<&[ObjectId]>, deferred: bool) {
        if self.state != TransactionState::Idle {
            self.own.deferral.set(constraints, deferred);
        }
    }

    /// Makes the checks that have to be made before a statement: COMMIT, or SET CONSTRAINTS …
    /// IMMEDIATE. `None` when none is left of these; otherwise to be called again after this.
    ///
    /// # Errors
    /// 23503 and others of the checks. A COMMIT that fails ends the block all the same.
    pub(super) fn settle_before(&mut self, running: &Running) -> Result<Option<Progress>> {
        if self.state != TransactionState::Open {
            return Ok(None);
        }
        if running.prepared.commits() {
            let settled = self.settle_some(&|_| true);
            if settled.is_err() {
                self.abort_txn();
                self.end_block(false);
            }
            return settled;
        }
        match &running.prepared.command {
            Command::Set(setting) => match &**setting {
                Setting::Constraints { names, deferred: false } => {
                    match self.constraints_named(names.as_deref(), false)? {
                        None => self.settle_some(&|_| true),
                        Some(named) => self.settle_some(&|constraint| named.contains(&constraint)),
                    }
                }
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }
}

//! A statement of a body: prepared with the variables in sight, and run to its end in the
//! transaction at hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use colibri_catalog::store_error::{self, InSql as _, Pause};
use colibri_syntax::Statement;
use colibri_syntax::tree::Transaction as TransactionStatement;
use colibri_txn::LockWait;
use colibri_types::{Datum, Error, Result, SqlState, Type, pulse};

use super::super::block::{Block, NamedSavepoint};
use super::super::deferral::Deferral;
use super::super::plans::Command;
use super::super::{Prepared, Progress, ResultColumn, Rows, Session, TransactionState};
use crate::bind::routines::Variables;
use crate::exec::{Batch, Context, Execution, Outcome, RowsHeld};

/// What a statement of a body came to.
#[derive(Default)]
pub(in super::super) struct Ran {
    /// Its rows, as many as were asked for.
    pub(in super::super) rows: Rows,
    /// The memory of its rows.
    held: RowsHeld,
    /// How many rows it gave or changed.
    pub(in super::super) count: u64,
    /// Whether it gives rows.
    pub(super) gives_rows: bool,
    /// The columns of its rows.
    pub(super) columns: Vec<ResultColumn>,
    /// Its command tag.
    pub(super) tag: String,
}

impl Session {
    /// Prepares a statement of a body.
    pub(super) fn prepare_in_body(
        &mut self,
        text: &str,
        types: &[Option<Type>],
        variables: &dyn Variables,
    ) -> Result<Arc<Prepared>> {
        self.surround();
        let recipe = self.recipe_in_body(text, types, variables)?;
        Ok(Arc::new(self.adopt_uncounted(Arc::new(recipe))))
    }

    /// The plan of a statement for the values that its parameters have at hand.
    pub(super) fn prepared_for(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &[Datum],
        variables: &dyn Variables,
    ) -> Result<Arc<Prepared>> {
        // What a block's own changes of the catalogue led to is not kept.
        if self.block.catalog_changed || prepared.guesses.is_empty() && prepared.decisions.is_empty() {
            return Ok(Arc::clone(prepared));
        }
        self.surround();
        Ok(self.variant(prepared, params, Some(variables))?.unwrap_or_else(|| Arc::clone(prepared)))
    }

    /// Runs a statement to its end, or until there are so many rows.
    ///
    /// What has to wait takes the whole calling statement back, as long as that can be: after a
    /// transaction of it was committed, the statement at hand waits here and runs again.
    pub(super) fn run_nested(&mut self, prepared: &Arc<Prepared>, params: Vec<Datum>, rows_max: usize) -> Result<Ran> {
        if !self.own.calls.has_ended_transaction() || self.is_within_plan() {
            return self.run_nested_once(prepared, params, rows_max);
        }
        loop {
            let txn = self.txn.as_mut().ok_or_else(|| Error::internal("a statement has no transaction"))?;
            let savepoint = txn.begin_statement().in_sql()?;
            let error = match self.run_nested_once(prepared, params.clone(), rows_max) {
                Err(error) if store_error::pause(&error).is_some() => error,
                ran => return ran,
            };
            let Some(pause) = store_error::pause(&error).cloned() else { return Err(error) };
            self.take_back_to(savepoint)?;
            match pause {
                Pause::Stale => {}
                Pause::Wait(wait) => {
                    if let Some(wait) = wait.lock().take() {
                        self.wait_here(wait)?;
                    }
                }
                Pause::Fetch(wait) | Pause::FetchAnew(wait) => wait.wait(),
            }
        }
    }

    /// Waits for a lock in the middle of a body.
    fn wait_here(&self, wait: LockWait) -> Result<()> {
        const LOOK_AGAIN: Duration = Duration::from_millis(10);
        let deadline = self.own.settings.duration("lock_timeout").map(|limit| Instant::now() + limit);
        loop {
            // Lets others go on elsewhere, and looks whether it was cancelled.
            pulse::work(usize::MAX)?;
            if wait.wait_for(LOOK_AGAIN) {
                return Ok(());
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"));
            }
        }
    }

    /// COMMIT and ROLLBACK in a body, which begin another transaction of the same kind.
    ///
    /// # Errors
    /// 2D000 unless nothing but procedures and DO are at work, outside of a block.
    pub(super) fn end_transaction_in_body(&mut self, commits: bool) -> Result<()> {
        if self.state != TransactionState::Idle || self.is_within_plan() || self.own.calls.is_atomic() {
            return Err(Error::new(SqlState("2D000"), "invalid transaction termination"));
        }
        if self.own.calls.has_subtransaction() {
            let what = if commits { "commit" } else { "roll back" };
            let message = format!("cannot {what} while a subtransaction is active");
            return Err(Error::new(SqlState("2D000"), message));
        }
        let begin = self.txn.as_ref().map(|txn| txn.begun()).unwrap_or_default();
        if commits {
            while let Some(progress) = self.settle_all()? {
                match progress {
                    Progress::Wait(wait) => self.wait_here(wait)?,
                    Progress::Fetch(wait) => wait.wait(),
                    _ => {}
                }
            }
            pulse::work(usize::MAX)?;
            self.commit_now()?;
        } else {
            self.abort_txn();
        }
        self.own.calls.end_transaction();
        self.end_settings(None, commits);
        self.block = Block::default();
        self.block.used = true;
        self.own.deferral = Deferral::default();
        self.end_advisory_statement();
        self.begin_txn(begin, colibri_types::clock_us())?;
        self.see_catalog()?;
        self.surround();
        Ok(())
    }

    fn run_nested_once(&mut self, prepared: &Arc<Prepared>, mut params: Vec<Datum>, rows_max: usize) -> Result<Ran> {
        let mut ran = Ran {
            columns: prepared.columns.clone(),
            gives_rows: prepared.columns().is_some(),
            tag: prepared.tag().to_owned(),
            ..Ran::default()
        };
        if prepared.writes && self.own.calls.only_reads {
            let message = format!("{} is not allowed in a non-volatile function", prepared.tag());
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if prepared.writes && self.txn.as_ref().is_some_and(|txn| txn.begun().read_only) {
            let message = format!("cannot execute {} in a read-only transaction", prepared.tag());
            return Err(self.own.refusal(message));
        }
        if let Some(current_of) = &prepared.current_of {
            params.truncate(prepared.params.len());
            params.extend(self.current_row(current_of)?);
        }
        match &prepared.command {
            Command::Empty => Ok(ran),
            Command::Plan { fragment, .. } => {
                self.depend(prepared)?;
                let mut execution = Execution::new(fragment);
                execution.add_alone();
                if self.is_within_plan() {
                    execution.runs_within();
                } else if prepared.calls_routines && prepared.has_side_effects {
                    execution.sees_nothing_of_calls();
                }
                let is_done = self.run_plan(prepared, &mut execution, &params, rows_max, &mut ran)?;
                if let Some(affected) = execution.affected() {
                    ran.count = affected;
                }
                if is_done {
                    execution.retire();
                }
                self.note_read_back();
                if self.own.settings_changed {
                    self.heed_settings();
                }
                Ok(ran)
            }
            Command::Utility(statement) => {
                let (rows, tag) = self.utility(prepared, statement, &params)?;
                ran.count = rows.len() as u64;
                (ran.rows, ran.tag) = (rows, tag.to_string());
                Ok(ran)
            }
            Command::Admin(statement) => {
                self.administer(statement)?;
                Ok(ran)
            }
            Command::Set(statement) => {
                if self.own.settings_before.is_none() {
                    self.own.settings_before = Some(self.own.settings.clone());
                }
                let set = self.set_statement(statement);
                self.heed_settings();
                ran.rows = set?.0;
                ran.count = ran.rows.len() as u64;
                Ok(ran)
            }
            Command::Control(statement) => match &**statement {
                Statement::Transaction(TransactionStatement::Commit { .. }) => {
                    self.end_transaction_in_body(true)?;
                    Ok(ran)
                }
                Statement::Transaction(TransactionStatement::Rollback { .. }) => {
                    self.end_transaction_in_body(false)?;
                    Ok(ran)
                }
                Statement::Transaction(_) => {
                    Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "unsupported transaction command in PL/pgSQL"))
                }
                _ => Err(Error::unsupported(format_args!("{} in a function", prepared.tag()))),
            },
            Command::Cursor(_) => Err(Error::unsupported("a cursor of SQL in a function")),
            Command::Copy => {
                let statement = crate::statement::parse(&prepared.text)?.pop();
                let has_file = matches!(&statement, Some(Statement::Copy(copy)) if copy.file.is_some());
                if has_file {
                    return Err(Error::unsupported("COPY with a file in a function"));
                }
                Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot COPY to/from client in PL/pgSQL"))
            }
        }
    }

    /// Takes on settings that a body has changed. The session whose plan has called it does so as
    /// well, when the plan is done.
    pub(super) fn heed_settings(&mut self) {
        self.settings_set();
        self.own.settings_changed = self.is_within_plan();
        self.surround();
    }

    /// Steps on with a plan until there are so many rows. It may go on afterwards.
    pub(super) fn run_plan(
        &mut self,
        prepared: &Prepared,
        execution: &mut Execution,
        params: &[Datum],
        rows_max: usize,
        ran: &mut Ran,
    ) -> Result<bool> {
        let mut batch = Batch::default();
        self.memory.set_limits(self.own.settings.hot().memory);
        loop {
            if prepared.calls_routines {
                self.own.calls.uses(Some(prepared.tables_in_use()));
            }
            let mut lent = if prepared.calls_routines { Some(self.lend()?) } else { None };
            let stepped = {
                let txn = match (&mut lent, self.txn.as_deref_mut()) {
                    (Some(lent), _) => lent,
                    (None, Some(txn)) => txn,
                    (None, None) => return Err(Error::internal("a statement has no transaction")),
                };
                let mut cx = Context {
                    env: &self.env,
                    params,
                    session: &mut self.own,
                    cancel: &self.cancel,
                    memory: &self.memory,
                    budget_rows: pulse::ROWS_AT_ONCE,
                };
                execution.step(txn, &mut cx, &mut batch).map(|outcome| (outcome, cx.budget_rows))
            };
            if let Some(lent) = lent.take() {
                self.take_back_lent(lent);
                self.own.calls.uses(None);
            }
            let (outcome, budget_rows) = stepped?;
            pulse::rows_done(pulse::ROWS_AT_ONCE - budget_rows)?;
            if pulse::is_to_sleep() {
                pulse::sleep_here()?;
            }
            match outcome {
                Outcome::Interrupted(pause) => {
                    return Err(store_error::from_the_start(Error::interruption(pause)));
                }
                Outcome::Rows => {
                    let width = match &prepared.cursor_rows {
                        // The keys as well.
                        Some(_) => usize::MAX,
                        None => prepared.columns.len(),
                    };
                    for index in 0..batch.rows() {
                        let row = batch.row_mut(index);
                        let width = width.min(row.len());
                        ran.held.add(&self.memory, &row[..width])?;
                        ran.rows.push_exchanged(&mut row[..width]);
                    }
                    ran.count += batch.rows() as u64;
                    if ran.rows.len() >= rows_max {
                        return Ok(false);
                    }
                }
                Outcome::Yield => {}
                Outcome::Done => return Ok(true),
            }
        }
    }

    /// The state of the transaction, to go back to.
    pub(super) fn mark_here(&self) -> Result<NamedSavepoint> {
        self.savepoint_here("".into()).ok_or_else(|| Error::internal("a statement has no transaction"))
    }

    /// Goes back to an earlier state of the transaction.
    pub(super) fn go_back_to_mark(&mut self, mark: NamedSavepoint) -> Result<()> {
        let NamedSavepoint { savepoint, catalog, catalog_changed, own_sequences, settings, deferral, advisory, .. } =
            mark;
        let txn = self.txn.as_mut().ok_or_else(|| Error::internal("a statement has no transaction"))?;
        txn.rollback_to(savepoint).in_sql()?;
        self.drop_cursors_after(mark.cursor_serial);
        self.own.advisory.set_transaction_counts(&advisory);
        if !Arc::ptr_eq(&self.own.catalog, &catalog) {
            self.own.calls.serial += 1;
            self.own.catalog = catalog;
        }
        self.own.deferral.go_back_to(deferral);
        self.own.notifications.go_back_to(mark.notifications);
        self.own.take_back_sequences(own_sequences)?;
        self.block.catalog_changed = catalog_changed;
        if !self.own.settings.are_still(&settings) {
            self.own.settings.go_back_to(settings);
            self.settings_set();
        }
        self.surround();
        Ok(())
    }
}

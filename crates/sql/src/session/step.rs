//! A statement at work: begun, stepped on with, broken off and run again, and what it gives.
//!
//! ```text
//! Begin ─► Running ─► Committing ─► Giving ─► Over          FETCH:  Begin ─► Fetch ─► Giving ─► Over
//!   ▲        │ a lock, a newer catalogue                    COMMIT: Begin ─► Committing ─► Giving ─► Over
//!   │        ▼
//!   │     Restart ─► Running      a conflict at the commit of a statement by itself: back to Begin
//! ```
//!
//! What a store cannot answer now is no failure of a statement. One that waits for a lock, or whose
//! snapshot is too old, is taken back ([`Session::pause`]) and runs again. One that has to fetch
//! goes on where it was. Three kinds of work cannot, and run again from their start as well:
//! statements that are carried out within one step (definitions, administration, EXPLAIN ANALYZE,
//! parameters of EXECUTE), actions of foreign keys, and queries in the middle of what an operator
//! cannot stop ([`Execution::may_fetch_anew`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use colibri_catalog::{
    Catalog, catalog_space, store_error,
    store_error::{InSql as _, Pause},
    table_key,
};
use colibri_txn::{
    Begin, ColumnSet, CommitTicket, CommitTurn, IfLocked, Isolation, LockMode, LockWait, Savepoint, StoreWait,
};
use colibri_types::wire::{self, Format};
use colibri_types::{Datum, Error, Result, SqlState, Type, client_values, env, pulse};
use compact_str::CompactString;

use super::block::{Block, CommitStep, in_failed_block};
use super::named_cursor::Fetch;
use super::plans::Command;
use super::rows::{KEPT_AT_HAND, KeptBehind};
use super::sequences::OwnSequences;
use super::two_phase::TwoPhaseBegun;
use super::{Prepared, Rows, Session, Severity, TransactionState, advisory, control, notifications};
use crate::exec::{self, Batch, Context, Execution, Outcome};

/// What a step came to.
pub enum Progress {
    /// There are rows; take them, and step on.
    Rows,
    /// The budget is used up.
    Yield,
    /// Wait for this, then step on.
    Wait(LockWait),
    /// What the statement reads is on its way: wait for this, then step on.
    Fetch(StoreWait),
    /// Step on at this instant.
    Sleep(Instant),
    /// The statement commits behind others: wait for this, then step on. It can no more be
    /// cancelled.
    Commits(CommitTurn),
    /// The statement is done. What it did, and what it gave, may be told outside when the ticket
    /// says so.
    Done(Completion),
}

/// How a statement ended.
pub struct Completion {
    /// As PostgreSQL's command tags: `SELECT 3`, `INSERT 0 1`.
    pub tag: CompactString,
    /// For what ended a transaction; `None` within a block.
    pub ticket: Option<CommitTicket>,
}

/// The catalogue before a statement; whether it, and the session's part, were changed; sequences;
/// the numbers of the last cursor and of the last check that was put off.
type CatalogBefore = (Arc<Catalog>, (bool, bool), OwnSequences, [u64; 2]);

/// A statement at work.
pub struct Running {
    pub(super) prepared: Arc<Prepared>,
    pub(super) params: Vec<Datum>,
    /// The number of parameter sets in `params`; 0 means that it is one set.
    param_sets: usize,
    /// Its calls are not interrupted to fetch pages of this machine's disk.
    waits_on_thread: bool,
    /// Begun outside a transaction block: it commits at its end.
    pub(super) implicit: bool,
    pub(super) stage: Stage,
    /// Its rows are kept until its end.
    pub(super) keeps: bool,
    pub(super) kept: Rows,
    /// Those behind the first [`KEPT_AT_HAND`].
    kept_behind: Option<Box<KeptBehind>>,
    pub(super) rows: u64,
    /// When it began, if it is timed.
    pub(super) begun: Option<Instant>,
    pub(super) batch: Batch,
    /// It has given rows and slept since: they may be told.
    pub(super) owes_rows: bool,
    /// How long it has slept, and how long before it was run again from its start: it need not
    /// sleep as long once more.
    pub(super) slept: Duration,
    pub(super) slept_before: Duration,
    /// The catalogue as the statement found it, whether the block had changed it, the session's
    /// sequences, and the number of the last cursor: for taking back a statement that may change
    /// them.
    pub(super) catalog_before: Option<CatalogBefore>,
    /// How many notices there were before it: those of a run that is taken back are not told.
    notices: usize,
    /// What its transaction had gathered for others before it.
    notified: notifications::Mark,
}

impl Running {
    fn forget_kept(&mut self) {
        self.kept.clear();
        self.kept_behind = None;
    }

    /// The parameters of a statement that is over.
    #[must_use]
    pub fn take_params(&mut self) -> Vec<Datum> {
        std::mem::take(&mut self.params)
    }
}

/// What beginning a statement came to.
enum Begun {
    /// It was all there was to do.
    Done(Completion),
    /// It is to be stepped on with.
    Runs,
    /// It waits for what this says, and is then to be stepped on with.
    Waits(Progress),
}

pub(super) enum Stage {
    Begin,
    Running {
        execution: Execution,
        savepoint: Savepoint,
    },
    /// It has broken off: its transaction is to go back to here.
    Restart(Savepoint),
    /// It has fetched before it began: it begins, with its transaction as it is.
    Again(Savepoint),
    /// With the command tag.
    Committing {
        what: Ends,
        tag: CompactString,
    },
    Giving(Option<Completion>),
    /// It takes rows from a cursor.
    Fetch(Fetch),
    /// It has declared a cursor WITH HOLD, without a block: the cursor runs to its end.
    Hold,
    Over,
}

/// What ends with a statement.
#[derive(Clone, Copy)]
pub(super) enum Ends {
    /// The statement, and its transaction if it is one by itself.
    Statement,
    /// The block; another of its kind follows `AND CHAIN`.
    Block { chain: bool },
    /// The block, whose transaction is prepared.
    Prepared,
    /// A prepared transaction.
    Finished,
}

/// Until when a statement is to sleep now. What it has slept before it was run again counts.
#[inline]
fn sleep_of(running: &mut Running) -> Option<Instant> {
    let until = pulse::take_sleep()?;
    let time = until.saturating_duration_since(Instant::now());
    let is_over = running.slept_before.min(time);
    running.slept_before -= is_over;
    running.slept += time;
    let until = until.checked_sub(is_over).unwrap_or(until);
    (time > is_over).then_some(until)
}

fn catalog_conflict() -> Error {
    Error::new(
        SqlState::SERIALIZATION_FAILURE,
        "could not serialize access due to a concurrent change of the catalogue",
    )
    .hint("The transaction might succeed if retried.")
}

impl Session {
    /// Prepares a statement; its text holds no more than one. Types of parameters may be given, or
    /// left to be found.
    ///
    /// # Errors
    /// Syntax, names, types: whatever can be said of a statement before it runs.
    pub fn prepare(&mut self, text: &str, types: &[Option<Type>]) -> Result<Arc<Prepared>> {
        // Set before, the flag is meant for an earlier statement.
        if !std::mem::take(&mut self.canceled_early) {
            self.cancel.store(false, Ordering::Relaxed);
        }
        self.at_work(|session| session.prepare_plain(text, types))
    }

    fn prepare_plain(&mut self, text: &str, types: &[Option<Type>]) -> Result<Arc<Prepared>> {
        if self.state == TransactionState::Failed {
            let ends = self.by_depth(text, |_, scanned| {
                let statements = scanned.parse()?;
                if statements.len() > 1 {
                    return Err(super::plans::several_statements());
                }
                Ok(statements.iter().all(control::ends_block))
            });
            if !ends? {
                return Err(in_failed_block());
            }
        }
        let preparing = self.begin_preparing()?;
        let prepared = self.prepare_in_txn(text, types);
        self.end_preparing(preparing);
        if prepared.is_err() {
            self.fail_block();
        }
        prepared
    }

    /// Begins to run a statement.
    ///
    /// # Errors
    /// If a failed block has to be ended first, or the parameters do not fit.
    pub fn start(&mut self, prepared: &Arc<Prepared>, params: Vec<Datum>) -> Result<Running> {
        self.start_at(prepared, params, env::clock_us())
    }

    /// As [`Session::start`], for a statement that came at a time: [`crate::clock_us`].
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn start_at(&mut self, prepared: &Arc<Prepared>, params: Vec<Datum>, came_us: i64) -> Result<Running> {
        self.begins_at(prepared, came_us)?;
        if params.is_empty() && !prepared.params.is_empty() {
            // Without values, the plan for any values is told.
            if prepared.only_explains() {
                return Ok(self.at_start(prepared, params));
            }
            return Err(Error::new(SqlState::NO_SUCH_PARAMETER, "there is no parameter $1"));
        }
        if params.len() != prepared.params.len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement requires {}",
                params.len(),
                prepared.params.len()
            );
            return Err(Error::new(SqlState("08P01"), message));
        }
        Ok(self.at_start(prepared, params))
    }

    /// As [`Session::start`], for several parameter sets at once. `params` holds `param_sets` sets of equal
    /// length. The statement inserts one row for each set. If one row fails, none is inserted. The
    /// result is `None`, and `params` stays as it was, if the statement does anything but insert one
    /// row of its parameters, or if no transaction block is open.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn start_for_each(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &mut Vec<Datum>,
        param_sets: usize,
    ) -> Result<Option<Running>> {
        let Command::Plan { fragment, .. } = &prepared.command else { return Ok(None) };
        let is_of_kind = !prepared.params.is_empty() && !prepared.calls_routines && exec::inserts_for_each(fragment);
        if !is_of_kind || self.state != TransactionState::Open || params.len() != param_sets * prepared.params.len() {
            return Ok(None);
        }
        if !self.is_current(prepared) {
            return Ok(None);
        }
        self.begins_at(prepared, env::clock_us())?;
        Ok(Some(Running { param_sets, ..self.at_start(prepared, std::mem::take(params)) }))
    }

    /// A statement that came at a time is about to begin.
    pub(super) fn begins_at(&mut self, prepared: &Prepared, came_us: i64) -> Result<()> {
        self.cancel.store(false, Ordering::Relaxed);
        if let Some(cluster) = &self.own.cluster
            && cluster.version() != self.own.cluster_version
        {
            self.renew_authority(self.own.authority.role);
        }
        self.check_failed(prepared)?;
        self.env.statement_us = came_us;
        self.own.settings_before = None;
        Ok(())
    }

    /// Refuses in a block that has failed whatever does not end it.
    ///
    /// # Errors
    /// 25P02.
    pub fn check_failed(&self, prepared: &Prepared) -> Result<()> {
        if prepared.ends_block() { Ok(()) } else { self.check_not_failed() }
    }

    /// Refuses in a block that has failed.
    ///
    /// # Errors
    /// 25P02.
    pub fn check_not_failed(&self) -> Result<()> {
        if self.state == TransactionState::Failed { Err(in_failed_block()) } else { Ok(()) }
    }

    /// No rows, perhaps with memory for a few: see [`Session::keep_rows`].
    #[must_use]
    pub fn spare_rows(&mut self) -> Rows {
        std::mem::take(&mut self.rows)
    }

    /// Takes back rows that were told, for the memory of the next ones: not more than a few
    /// kilobytes of it is kept.
    pub fn keep_rows(&mut self, rows: Rows) {
        self.rows = rows.emptied();
    }

    pub(super) fn at_start(&mut self, prepared: &Arc<Prepared>, params: Vec<Datum>) -> Running {
        Running {
            prepared: Arc::clone(prepared),
            params,
            param_sets: 0,
            waits_on_thread: false,
            implicit: self.state == TransactionState::Idle,
            stage: Stage::Begin,
            keeps: false,
            kept: Rows::default(),
            kept_behind: None,
            rows: 0,
            begun: prepared.counter.as_ref().and_then(|counter| counter.begin()),
            batch: match &prepared.command {
                Command::Plan { .. } => std::mem::take(&mut self.batch),
                _ => Batch::default(),
            },
            owes_rows: false,
            slept: Duration::ZERO,
            slept_before: Duration::ZERO,
            catalog_before: None,
            notices: self.notices.len(),
            notified: self.own.notifications.mark(),
        }
    }

    /// Goes on with a statement, for about as many rows looked at as the budget says. Puts rows
    /// into `out`.
    ///
    /// # Errors
    /// The statement's. It is over then, and taken back.
    pub fn step(&mut self, running: &mut Running, out: &mut Rows, budget_rows: i64) -> Result<Progress> {
        match self.at_work(|session| session.advance(running, out, budget_rows)).map_err(store_error::as_failure) {
            Ok(progress) => Ok(progress),
            Err(error) if self.runs_again_after(running, &error) => {
                self.own.advisory.take_statement_back();
                self.abort_txn();
                self.end_block(false);
                running.forget_kept();
                self.notices.truncate(running.notices);
                running.rows = 0;
                running.slept_before = std::mem::take(&mut running.slept);
                running.stage = Stage::Begin;
                if let Some(counter) = &running.prepared.counter {
                    counter.conflicted();
                }
                Ok(Progress::Yield)
            }
            Err(error) => {
                // What is let go of may be much.
                self.at_work(|session| session.statement_failed(running));
                Err(error)
            }
        }
    }

    /// Whether a statement that is a transaction by itself has failed for others' sake only, and
    /// nobody has seen anything of it: then it runs again, unseen.
    fn runs_again_after(&self, running: &Running, error: &Error) -> bool {
        let repeats = match &running.prepared.command {
            Command::Plan { .. } | Command::Utility(_) => true,
            Command::Admin(statement) => crate::admin::runs_body(statement),
            _ => false,
        };
        error.is_retryable()
            && running.implicit
            && self.state == TransactionState::Idle
            && repeats
            && (running.keeps || running.rows == 0)
            && !self.deadlock_stays(error)
            && !store_error::is_held_by_prepared(error)
            && !self.own.calls.has_ended_transaction()
            && !self.cancel.load(Ordering::Relaxed)
    }

    pub(super) fn statement_failed(&mut self, running: &mut Running) {
        running.stage = Stage::Over;
        self.finishing = None;
        if running.implicit || running.prepared.prepares().is_some() {
            self.abort_txn();
            self.end_block(false);
        } else if self.state != TransactionState::Idle {
            self.block_has_failed();
        }
        self.end_advisory_statement();
    }

    /// Whether a circle of those who wait would be the same again: what the session holds in it
    /// does not end with the transaction.
    #[must_use]
    pub fn deadlock_stays(&self, error: &Error) -> bool {
        store_error::is_deadlock(error) && self.own.advisory.outlives_transactions()
    }

    /// A number that is another one when something has changed that no transaction takes back:
    /// nothing that it happened in may run again unseen.
    #[must_use]
    pub fn lasting_changes(&self) -> u64 {
        self.own.advisory.changes().wrapping_add(self.own.calls.transactions_ended())
    }

    pub(super) fn end_advisory_statement(&mut self) {
        if !self.own.advisory.has_changed() {
            return;
        }
        for mode in self.own.advisory.end_statement() {
            self.notice(Severity::Warning, SqlState::WARNING, advisory::unowned_message(mode));
        }
    }

    pub(super) fn advance(&mut self, running: &mut Running, out: &mut Rows, mut budget_rows: i64) -> Result<Progress> {
        if std::mem::take(&mut running.owes_rows) {
            return Ok(Progress::Rows);
        }
        loop {
            if let Some(until) = sleep_of(running) {
                return Ok(Progress::Sleep(until));
            }
            if matches!(running.stage, Stage::Begin)
                && !self.cursors.is_empty()
                && self.disturbs_cursors(running)
                && let Some(progress) = self.settle_cursors(budget_rows)?
            {
                return Ok(progress);
            }
            if let Stage::Begin = running.stage
                && !self.cursors.is_empty()
                && running.prepared.commits()
                && self.state == TransactionState::Open
            {
                if running.prepared.prepares().is_some() {
                    self.expect_no_held_cursor()?;
                }
                match self.settle_held(budget_rows) {
                    Ok(None) => {}
                    Ok(Some(progress)) => return Ok(progress),
                    Err(error) => {
                        // It is COMMIT that fails, and ends the block all the same.
                        self.abort_txn();
                        self.end_block(false);
                        return Err(error);
                    }
                }
            }
            if matches!(running.stage, Stage::Begin)
                && self.has_deferred()
                && let Some(progress) = self.settle_before(running)?
            {
                return Ok(progress);
            }
            match &mut running.stage {
                Stage::Begin => match self.begin_statement(running)? {
                    Begun::Done(completion) => {
                        running.stage = Stage::Over;
                        return Ok(Progress::Done(completion));
                    }
                    Begun::Waits(wait) => return Ok(wait),
                    Begun::Runs => {}
                },
                Stage::Restart(savepoint) => {
                    let savepoint = *savepoint;
                    if let Err(error) = self.take_back(running, savepoint) {
                        return Err(self.judged(running, savepoint, error));
                    }
                    if let Begun::Waits(wait) = self.begin_again(running, savepoint)? {
                        return Ok(wait);
                    }
                }
                Stage::Again(savepoint) => {
                    let savepoint = *savepoint;
                    if let Begun::Waits(wait) = self.begin_again(running, savepoint)? {
                        return Ok(wait);
                    }
                }
                Stage::Running { .. } => match self.run_statement(running, out, &mut budget_rows) {
                    Ok(Some(progress)) => {
                        let Some(until) = sleep_of(running) else { return Ok(progress) };
                        running.owes_rows = matches!(progress, Progress::Rows);
                        return Ok(Progress::Sleep(until));
                    }
                    Ok(None) => {}
                    Err(error) => {
                        if let Some(wait) = self.pause(running, error)? {
                            return Ok(wait);
                        }
                    }
                },
                Stage::Committing { what: Ends::Statement, .. }
                    if running.implicit && self.state == TransactionState::Idle && self.has_deferred() =>
                {
                    if let Some(progress) = self.settle_all()? {
                        return Ok(progress);
                    }
                }
                Stage::Committing { what, tag } => {
                    let step = match *what {
                        Ends::Statement if !running.implicit || self.state != TransactionState::Idle => {
                            CommitStep::Ended(None)
                        }
                        Ends::Statement => self.commit_statement()?,
                        Ends::Block { chain } => self.commit_block(chain)?,
                        Ends::Prepared => self.prepare_step(running.prepared.prepares().unwrap_or_default())?,
                        Ends::Finished => self.finish_step(&running.prepared)?,
                    };
                    match step {
                        CommitStep::Waits(turn) => return Ok(Progress::Commits(turn)),
                        CommitStep::Ended(ticket) => {
                            let tag = std::mem::take(tag);
                            running.stage = Stage::Giving(Some(Completion { tag, ticket }));
                            self.end_advisory_statement();
                        }
                    }
                }
                Stage::Giving(_) => {
                    if !running.kept.is_empty() {
                        out.append(&mut running.kept);
                        return Ok(Progress::Rows);
                    }
                    if let Some(behind) = &mut running.kept_behind
                        && behind.give(out)?
                    {
                        return Ok(Progress::Rows);
                    }
                    let completion = match std::mem::replace(&mut running.stage, Stage::Over) {
                        Stage::Giving(completion) => completion,
                        _ => None,
                    };
                    return Ok(Progress::Done(completion.ok_or_else(|| Error::internal("a statement ended twice"))?));
                }
                Stage::Fetch(fetch) => match self.fetch_on(fetch, out, budget_rows)? {
                    Some(progress) => return Ok(progress),
                    None => {
                        let tag = self.tag_of(fetch);
                        running.stage = Stage::Giving(Some(Completion { tag, ticket: None }));
                    }
                },
                Stage::Hold => match self.settle_held(budget_rows)? {
                    Some(progress) => return Ok(progress),
                    None => {
                        let completion = self.held_alone(running);
                        running.stage = Stage::Giving(Some(completion));
                    }
                },
                Stage::Over => return Err(Error::internal("the statement is over")),
            }
        }
    }

    /// Remembers of statements that added to rows that one of those rows was read in the same
    /// transaction.
    pub(super) fn note_read_back(&mut self) {
        if self.block.added.is_empty() {
            return;
        }
        let Some(space) = self.txn.as_mut().and_then(|txn| txn.take_read_back()) else { return };
        for (_, counter) in self.block.added.iter().filter(|(added_to, _)| *added_to == space) {
            counter.note_read_back();
        }
    }

    /// What an error that says to wait or to run again leads to. Others are handed on.
    pub(super) fn pause(&mut self, running: &mut Running, error: Error) -> Result<Option<Progress>> {
        self.note_read_back();
        let savepoint = match &running.stage {
            Stage::Running { savepoint, .. } | Stage::Restart(savepoint) | Stage::Again(savepoint) => *savepoint,
            _ => return Err(error),
        };
        let pause = match store_error::pause(&error) {
            // A body has ended a transaction: the statement cannot run again.
            Some(_) if self.own.calls.has_ended_transaction() => return Err(store_error::not_serializable()),
            Some(pause) if running.rows == 0 || running.keeps => pause.clone(),
            // Rows are out already: the statement cannot run again.
            Some(_) => {
                return Err(store_error::not_serializable());
            }
            None => {
                // What failed is taken back, so that a block can go on behind a savepoint. What
                // wrote nothing (a cursor may have begun a while ago) takes nothing with it that
                // others did meanwhile.
                if let (Some(txn), false, true) = (&mut self.txn, running.implicit, running.prepared.writes) {
                    txn.rollback_to(savepoint).in_sql()?;
                }
                return Err(error);
            }
        };
        running.forget_kept();
        self.notices.truncate(running.notices);
        running.rows = 0;
        running.slept_before = std::mem::take(&mut running.slept);
        running.stage = Stage::Restart(savepoint);
        // It will ask for the sleep again that has not begun.
        pulse::take_sleep();
        if let Some(counter) = &running.prepared.counter {
            counter.conflicted();
        }
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Error::new(SqlState::CANCELED, "canceling statement due to user request"));
        }
        // What runs again from its start does so once: then it waits on its thread.
        running.waits_on_thread |= matches!(pause, Pause::FetchAnew(_));
        match pause {
            Pause::Stale => Ok(None),
            Pause::Wait(wait) => Ok(wait.lock().take().map(Progress::Wait)),
            Pause::Fetch(wait) | Pause::FetchAnew(wait) => Ok(Some(Progress::Fetch(wait))),
        }
    }

    /// What is said of a statement that cannot go on, since what its transaction has read is
    /// another by now. A row that it makes may be there by now, too: that comes first, as in
    /// PostgreSQL, for a program may know what to do then. It is found out by a look at what the
    /// statement meets now, which changes nothing. A program that has asked for SERIALIZABLE is
    /// told of the conflict, as by PostgreSQL: it knows that it has to run the transaction again.
    fn judged(&mut self, running: &Running, savepoint: Savepoint, conflict: Error) -> Error {
        let Command::Plan { fragment, .. } = &running.prepared.command else { return conflict };
        let modes = self.block.modes;
        let knows = modes.level.is_serializable() && modes.level_is_asked;
        if knows || running.implicit || !running.prepared.writes || !conflict.is_retryable() {
            return conflict;
        }
        let Some(txn) = self.txn.as_deref_mut() else { return conflict };
        if txn.look_ahead().is_err() {
            return conflict;
        }
        // The plan is of the catalogue that it was made for.
        let is_right = store_error::fetched_now(|| Catalog::version_seen_by(txn))
            .is_ok_and(|version| version == running.prepared.version);
        let is_violated = if is_right { self.violation(fragment, &running.params) } else { None };
        let Some(txn) = &mut self.txn else { return conflict };
        match txn.rollback_to(savepoint).and_then(|()| txn.look_back()) {
            Ok(()) => is_violated.unwrap_or(conflict),
            Err(error) => store_error::in_sql(error),
        }
    }

    /// The unique constraint that a statement violates, if it does so within its first rows.
    fn violation(&mut self, fragment: &crate::plan::Fragment, params: &[Datum]) -> Option<Error> {
        const ROWS_MAX: i64 = 10_000;
        self.memory.set_limits(self.own.settings.hot().memory);
        let mut execution = Execution::new(fragment);
        let mut batch = Batch::default();
        let mut cx = Context {
            env: &self.env,
            params,
            session: &mut self.own,
            cancel: &self.cancel,
            memory: &self.memory,
            budget_rows: ROWS_MAX,
        };
        let txn = self.txn.as_deref_mut()?;
        loop {
            match execution.step(txn, &mut cx, &mut batch) {
                Ok(Outcome::Rows) if cx.budget_rows > 0 => {}
                Ok(Outcome::Interrupted(Pause::Fetch(wait))) => wait.wait(),
                Err(error) if error.state() == SqlState::UNIQUE_VIOLATION => return Some(error),
                _ => return None,
            }
        }
    }

    fn take_back(&mut self, running: &Running, savepoint: Savepoint) -> Result<()> {
        self.own.advisory.take_statement_back();
        self.own.notifications.go_back_to(running.notified);
        if let Some((catalog, changed, own_sequences, [cursor_serial, check_serial])) = &running.catalog_before {
            self.own.deferral.forget_triggers_after(*check_serial);
            if !Arc::ptr_eq(&self.own.catalog, catalog) {
                self.own.calls.serial += 1;
                self.own.catalog = Arc::clone(catalog);
            }
            self.own.calls.close_cursors_after(*cursor_serial);
            self.own.take_back_sequences(own_sequences.clone())?;
            (self.block.catalog_changed, self.block.temporary_changed) = *changed;
        }
        if let Some(before) = self.own.settings_before.take() {
            self.own.settings.go_back_to(before);
        }
        self.take_back_to(savepoint)
    }

    pub(super) fn take_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.block.depends.clear();
        if let Some(txn) = &mut self.txn {
            txn.restart(savepoint).in_sql()?;
        }
        self.see_catalog()
    }

    /// Begins a statement, which may be all there is to do.
    fn begin_statement(&mut self, running: &mut Running) -> Result<Begun> {
        self.own.calls.begins();
        let is_asked = if running.implicit { self.own.settings.hot().is_read_only } else { self.block.modes.read_only };
        let read_only = is_asked || self.own.engine.is_standby();
        self.own.read_only = read_only;
        if let Command::Control(statement) = &running.prepared.command {
            if let Some(what) = self.ends_open_block(statement) {
                running.stage = Stage::Committing { what, tag: running.prepared.tag().into() };
                return Ok(Begun::Runs);
            }
            match self.begin_two_phase(running)? {
                Some(TwoPhaseBegun::Locks(savepoint)) => return self.begin_again(running, savepoint),
                Some(TwoPhaseBegun::Finishes) => {
                    let tag = running.prepared.tag().into();
                    running.stage = Stage::Committing { what: Ends::Finished, tag };
                    return Ok(Begun::Runs);
                }
                None => {}
            }
            let prepared = Arc::clone(&running.prepared);
            let Command::Control(statement) = &prepared.command else {
                return Err(Error::internal("a statement has become another one"));
            };
            return self.control(statement).map(Begun::Done);
        }
        if let Command::Set(statement) = &running.prepared.command {
            let (rows, completion) = self.set_statement(statement)?;
            running.kept = rows;
            running.stage = Stage::Giving(Some(completion));
            return Ok(Begun::Runs);
        }
        if let Command::Cursor(_) = &running.prepared.command {
            return Ok(self.cursor_statement(running)?.map_or(Begun::Runs, Begun::Done));
        }
        let prepared = &running.prepared;
        // Bug: EXECUTE counted as a statement that writes, whatever it runs. Consequence: a
        // transaction that only reads refused prepared queries. Fix: what counts is the statement
        // that it runs.
        let executed = self.executed(prepared)?;
        let does = executed.as_ref().unwrap_or(prepared);
        let begin = if running.implicit {
            let writes = does.writes || does.locks || prepared.locks;
            Begin {
                isolation: self.own.settings.hot().isolation,
                // What only reads is serializable as of its snapshot: nothing needs to be
                // remembered.
                read_only: read_only || !writes,
                newest: writes,
            }
        } else {
            self.begin_of_block()
        };
        self.block.used = true;
        if self.txn.is_none() {
            self.begin_txn(begin, self.env.statement_us)?;
        }
        self.check_age()?;
        // What belongs to the server and not to the database can be changed on a standby as well.
        if begin.read_only && does.writes_to_database() && (is_asked || !does.is_of_server()) {
            return Err(self.own.refusal(format!("cannot execute {} in a read-only transaction", does.tag())));
        }
        if let (true, Some(clause), false) = (begin.read_only, does.row_lock, does.is_of_session()) {
            return Err(self.own.refusal(format!("cannot execute SELECT {clause} in a read-only transaction")));
        }
        if does.writes_to_database() {
            self.own.expect_room()?;
        }
        let Some(txn) = &mut self.txn else { return Err(Error::internal("a statement has no transaction")) };
        let savepoint = txn.begin_statement().in_sql()?;
        running.notified = self.own.notifications.mark();
        self.see_catalog()?;
        if !matches!(prepared.command, Command::Plan { .. }) || prepared.calls_routines {
            let own_sequences = self.own.own_sequences.clone();
            let changed = (self.block.catalog_changed, self.block.temporary_changed);
            let serials = [self.cursor_serial, self.own.deferral.serial()];
            running.catalog_before = Some((Arc::clone(&self.own.catalog), changed, own_sequences, serials));
        }
        self.begin_again(running, savepoint)
    }

    fn begin_again(&mut self, running: &mut Running, savepoint: Savepoint) -> Result<Begun> {
        running.stage = Stage::Restart(savepoint);
        self.surround();
        match self.renewed(&running.prepared, &running.params) {
            Ok(Some(renewed)) => running.prepared = renewed,
            Ok(None) => {}
            Err(_) if self.is_behind()? => return Err(catalog_conflict()),
            Err(error) => return Err(error),
        }
        match self.begin_command(running, savepoint) {
            Ok(()) => Ok(Begun::Runs),
            Err(error) => {
                // A plan has done nothing yet.
                if let (Command::Plan { .. }, Some(Pause::Fetch(wait))) =
                    (&running.prepared.command, store_error::pause(&error))
                {
                    running.stage = Stage::Again(savepoint);
                    return Ok(Begun::Waits(Progress::Fetch(wait.clone())));
                }
                // A lock that could not be had at the very start, or a newer catalogue.
                Ok(self.pause(running, error)?.map_or(Begun::Runs, Begun::Waits))
            }
        }
    }

    fn begin_command(&mut self, running: &mut Running, savepoint: Savepoint) -> Result<()> {
        let mut depth = 0;
        while let Some((executed, params)) = self.executed_with(&running.prepared)? {
            depth += 1;
            // An EXECUTE of itself would not end.
            if depth > control::EXECUTE_DEPTH_MAX {
                return Err(crate::statement::too_deep());
            }
            running.begun = executed.counter.as_ref().and_then(|counter| counter.begin());
            (running.prepared, running.params) = (executed, params);
        }
        if let Some(txn) = &mut self.txn {
            txn.let_fetch(false);
        }
        let prepared = &running.prepared;
        if let Some(current_of) = &prepared.current_of {
            running.params.truncate(prepared.params.len());
            running.params.extend(self.current_row(current_of)?);
        }
        if prepared.prepares().is_some() {
            return self.lock_to_prepare(running);
        }
        match &prepared.command {
            Command::Plan { fragment, .. } => {
                self.depend(prepared)?;
                let txn = self.txn.as_mut().ok_or_else(|| Error::internal("a statement has no transaction"))?;
                let capabilities = self.own.capabilities;
                let mut execution = Execution::new(fragment);
                if running.param_sets > 0 {
                    // The plan may have been made anew since.
                    if prepared.calls_routines || !exec::inserts_for_each(fragment) {
                        let message = "could not insert several rows: the table has been altered meanwhile";
                        return Err(Error::new(SqlState::SERIALIZATION_FAILURE, message));
                    }
                    execution.runs_for_each(running.param_sets);
                }
                let gives_way = execution.yields_to_fetches() && !prepared.calls_routines;
                txn.let_fetch(gives_way && !running.waits_on_thread);
                let may_run_again = prepared.locks
                    || prepared.calls_routines
                    || txn.has_writes()
                    || capabilities.fetches && execution.may_fetch_anew();
                running.keeps = prepared.writes || may_run_again;
                // What it has read of a row must not have changed when it adds to the row.
                if prepared.calls_routines && prepared.has_side_effects {
                    execution.sees_nothing_of_calls();
                }
                if txn.begun().isolation == Isolation::Snapshot || !capabilities.patches_at_commit {
                    execution.add_alone();
                }
                if let (Some(space), Some(counter), false) = (prepared.adds_to, &prepared.counter, running.implicit) {
                    match counter.is_read_back() {
                        true => execution.add_alone(),
                        false => self.block.note_added(space, counter),
                    }
                }
                running.stage = Stage::Running { execution, savepoint };
                Ok(())
            }
            Command::Utility(statement) => {
                let (rows, tag) = self.utility(prepared, statement, &running.params)?;
                running.kept = rows;
                running.rows = 0;
                running.stage = Stage::Committing { what: Ends::Statement, tag };
                Ok(())
            }
            Command::Admin(statement) => {
                self.administer(statement)?;
                let tag = statement.tag().into();
                running.stage = Stage::Committing { what: Ends::Statement, tag };
                Ok(())
            }
            Command::Empty => {
                running.stage = Stage::Committing { what: Ends::Statement, tag: CompactString::default() };
                Ok(())
            }
            Command::Control(_) | Command::Set(_) | Command::Cursor(_) => {
                Err(Error::internal("what ends a transaction runs within one"))
            }
            Command::Copy => Err(Error::unsupported("COPY where no client gives or takes its rows")),
        }
    }

    /// Makes the transaction depend on the tables of a plan being what the plan takes them for.
    /// Once is enough, until a part of what it has read is forgotten: a restart does that, a
    /// savepoint does not.
    pub(super) fn depend(&mut self, prepared: &Prepared) -> Result<()> {
        let Some(txn) = &mut self.txn else { return Ok(()) };
        if txn.begun().read_only {
            return Ok(());
        }
        let space = catalog_space();
        // What is read is not validated then, and a foreign key's action may write to any of the
        // tables.
        let locks_all = prepared.writes && !txn.begun().isolation.validates_reads();
        let is_remembered = txn.begun().isolation != Isolation::ReadCommitted;
        for &id in &prepared.used {
            let locks = locks_all || prepared.targets.contains(&id);
            // Where reads are not remembered, nothing is to be had by reading; a lock holds until
            // the end.
            let is_nothing = !is_remembered && !locks;
            if is_nothing || self.block.depends.iter().any(|&(other, locked)| other == id && (locked || !locks)) {
                continue;
            }
            // Before the lock, which is had only if what was read of the table is as it was. What
            // that is the plan says, which is of the catalogue that the transaction sees.
            let key = table_key(id);
            txn.depend(&space, &key, ColumnSet::ALL).in_sql()?;
            if locks {
                // Changes of the table wait until this transaction has ended.
                txn.lock(&space, &key, LockMode::Add, IfLocked::Wait).in_sql()?;
            }
            self.block.depends.push((id, locks));
        }
        Ok(())
    }

    fn run_statement(
        &mut self,
        running: &mut Running,
        out: &mut Rows,
        budget_rows: &mut i64,
    ) -> Result<Option<Progress>> {
        self.check_age()?;
        let Stage::Running { execution, .. } = &mut running.stage else { return Ok(None) };
        self.memory.set_limits(self.own.settings.hot().memory);
        if running.prepared.calls_routines {
            self.own.calls.uses(Some(running.prepared.tables_in_use()));
        }
        let mut lent = if running.prepared.calls_routines { Some(self.lend()?) } else { None };
        let txn = match (&mut lent, self.txn.as_deref_mut()) {
            (Some(lent), _) => lent,
            (None, Some(txn)) => txn,
            (None, None) => return Err(Error::internal("a statement has no transaction")),
        };
        let mut cx = Context {
            env: &self.env,
            params: &running.params,
            session: &mut self.own,
            cancel: &self.cancel,
            memory: &self.memory,
            budget_rows: *budget_rows,
        };
        let outcome = execution.step(txn, &mut cx, &mut running.batch);
        *budget_rows = cx.budget_rows;
        if let Some(lent) = lent {
            self.take_back_lent(lent);
            self.own.calls.uses(None);
        }
        let outcome = outcome?;
        match outcome {
            Outcome::Interrupted(Pause::Fetch(wait)) => Ok(Some(Progress::Fetch(wait))),
            // The statement has to be taken back.
            Outcome::Interrupted(pause) => Err(Error::interruption(pause)),
            Outcome::Rows => {
                // Once it has committed, it cannot fail because the client cannot be told.
                if running.keeps && !self.env.client_encoding.is_as_here() {
                    self.expect_told(running)?;
                }
                let width = match &running.prepared.cursor_rows {
                    // The keys as well.
                    Some(_) => usize::MAX,
                    None => running.prepared.columns.len(),
                };
                let rows = if running.keeps { &mut running.kept } else { out };
                for index in 0..running.batch.rows() {
                    let row = running.batch.row_mut(index);
                    let width = width.min(row.len());
                    if running.keeps && rows.len() >= KEPT_AT_HAND {
                        let behind = running.kept_behind.get_or_insert_default();
                        behind.push(&self.memory, &mut row[..width])?;
                        continue;
                    }
                    rows.push_exchanged(&mut row[..width]);
                }
                running.rows += running.batch.rows() as u64;
                Ok(if running.keeps { None } else { Some(Progress::Rows) })
            }
            Outcome::Yield => Ok(Some(Progress::Yield)),
            Outcome::Done => {
                let affected = execution.affected().unwrap_or(running.rows);
                let tag = running.prepared.completed(affected);
                if let Some(counter) = &running.prepared.counter {
                    counter.end(running.begun.take(), affected);
                }
                self.note_read_back();
                self.batch = std::mem::take(&mut running.batch).emptied();
                if self.own.settings_changed {
                    self.settings_set();
                }
                // What is checked at the commit may call routines, which no interruption may break.
                if let Some(txn) = &mut self.txn {
                    txn.let_fetch(false);
                }
                let next = Stage::Committing { what: Ends::Statement, tag };
                if let Stage::Running { execution, .. } = std::mem::replace(&mut running.stage, next) {
                    execution.retire();
                }
                Ok(None)
            }
        }
    }

    /// Fails if the client's encoding lacks a character of the rows at hand.
    fn expect_told(&self, running: &Running) -> Result<()> {
        let (mut scratch, mut text) = (String::new(), Vec::new());
        for index in 0..running.batch.rows() {
            for (value, column) in running.batch.row(index).iter().zip(&running.prepared.columns) {
                text.clear();
                if !value.is_null() {
                    wire::write(column.ty, Format::Text, value, &self.env, &mut scratch, &mut text);
                }
                client_values::encode_value(self.env.client_encoding, column.ty.ty, Format::Text, &text)?;
            }
        }
        Ok(())
    }

    /// Commits what was begun for one statement.
    fn commit_statement(&mut self) -> Result<CommitStep> {
        let step = self.commit_step()?;
        if matches!(step, CommitStep::Ended(_)) {
            if self.own.settings.has_local() {
                self.end_settings(None, true);
            }
            self.block = Block::default();
        }
        Ok(step)
    }
}

//! Blocking drivers: statements from a thread that may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use colibri_catalog::store_error::InSql as _;
use colibri_txn::{LockWait, StoreWait};
use colibri_types::{Datum, Error, Result, SqlState};
use compact_str::CompactString;

use super::serve::in_text;
use super::{BUDGET_ROWS, Lifting, Prepared, Progress, ResultColumn, Rows, Running, Session, Settings};

/// The complete result of a statement.
#[derive(Debug)]
pub struct Answer {
    /// Names and types of the columns; empty for a statement without rows.
    pub columns: Vec<ResultColumn>,
    /// The rows.
    pub rows: Rows,
    /// As PostgreSQL's command tags.
    pub tag: CompactString,
}

/// How many rows a command tag says: 3 of `INSERT 0 3`, none of `BEGIN`.
#[must_use]
pub fn rows_of_tag(tag: &str) -> u64 {
    let digits = tag.bytes().rev().take_while(u8::is_ascii_digit).count();
    tag[tag.len() - digits..].parse().unwrap_or(0)
}

impl Session {
    /// Runs a prepared statement to its end, and waits until it is durable.
    ///
    /// # Errors
    /// The statement's; `55P03` after `lock_timeout`, `57014` after `statement_timeout`.
    pub fn execute(&mut self, prepared: &Arc<Prepared>, params: Vec<Datum>) -> Result<Answer> {
        let mut rows = Rows::default();
        let (columns, tag) = self.drive(prepared, params, &mut rows, &mut |_| Ok(()))?;
        Ok(Answer { columns, rows, tag })
    }

    /// As [`Session::execute`], but passes rows on as they come.
    ///
    /// # Errors
    /// As [`Session::execute`].
    pub fn drive(
        &mut self,
        prepared: &Arc<Prepared>,
        params: Vec<Datum>,
        rows: &mut Rows,
        take: &mut dyn FnMut(&mut Rows) -> Result<()>,
    ) -> Result<(Vec<ResultColumn>, CompactString)> {
        let deadline = self.own.settings.hot().statement_timeout.map(|limit| Instant::now() + limit);
        let mut running = self.start(prepared, params)?;
        loop {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.statement_failed(&mut running);
                return Err(Error::new(SqlState::CANCELED, "canceling statement due to statement timeout"));
            }
            match self.step_until(deadline, &mut running, rows)? {
                Progress::Rows => take(rows)?,
                Progress::Yield => {}
                Progress::Wait(wait) => {
                    if let Err(error) = wait_now(wait, &self.own.settings, &self.cancel) {
                        self.statement_failed(&mut running);
                        return Err(error);
                    }
                }
                Progress::Fetch(wait) => {
                    if let Err(error) = fetch_now(&wait, &self.cancel) {
                        self.statement_failed(&mut running);
                        return Err(error);
                    }
                }
                Progress::Sleep(until) => {
                    if let Err(error) = sleep_now(until, deadline, &self.cancel) {
                        self.statement_failed(&mut running);
                        return Err(error);
                    }
                }
                Progress::Commits(turn) => turn.wait(),
                Progress::Done(completion) => {
                    if let Some(ticket) = completion.ticket {
                        self.seen = self.seen.max(ticket.wait().in_sql()?);
                    }
                    return Ok((self.renewed_columns(&running.prepared.columns).into_owned(), completion.tag));
                }
            }
        }
    }

    /// A step of a blocking driver. At the deadline it is cancelled, also in the middle of work
    /// that cannot be suspended.
    pub(super) fn step_until(
        &mut self,
        deadline: Option<Instant>,
        running: &mut Running,
        rows: &mut Rows,
    ) -> Result<Progress> {
        let Some(deadline) = deadline else { return self.step(running, rows, BUDGET_ROWS) };
        let (hook, cancel) = (self.long_work_hook.clone(), Arc::clone(&self.cancel));
        let inner = hook.clone();
        self.set_long_work_hook(Some(Arc::new(move || {
            if let Some(inner) = &inner {
                inner();
            }
            if Instant::now() >= deadline {
                cancel.store(true, Ordering::Relaxed);
            }
        })));
        let stepped = self.step(running, rows, BUDGET_ROWS >> 4);
        self.set_long_work_hook(hook);
        match stepped {
            Err(error) if error.state() == SqlState::CANCELED && Instant::now() >= deadline => {
                Err(Error::new(SqlState::CANCELED, "canceling statement due to statement timeout"))
            }
            other => other,
        }
    }

    /// For tests: when literals are lifted out of texts.
    #[doc(hidden)]
    pub fn set_lifting(&mut self, lifting: Lifting) {
        self.plans.lifting = lifting;
    }

    /// Runs all statements of a text, one after the other, each in a transaction of its own unless
    /// the text says otherwise. None of them runs if one cannot be read.
    ///
    /// # Errors
    /// The first that fails; those before it stay.
    pub fn run(&mut self, text: &str) -> Result<Vec<Answer>> {
        if let Some((prepared, values)) = self.prepare_lifted(text) {
            return Ok(vec![self.execute(&prepared, values)?]);
        }
        let mut answers = Vec::new();
        for part in Self::split(text)? {
            let prepared = self.prepare(part, &[]).map_err(|error| in_text(error, text, part))?;
            let answer = self.execute(&prepared, Vec::new()).map_err(|error| in_text(error, text, part))?;
            answers.push(answer);
        }
        Ok(answers)
    }
}

/// The interval at which a waiting thread checks whether it was cancelled.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Sleeps until an instant, or until the statement's deadline, which the next step notices.
pub(super) fn sleep_now(until: Instant, deadline: Option<Instant>, cancel: &AtomicBool) -> Result<()> {
    let until = deadline.map_or(until, |deadline| deadline.min(until));
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK_AGAIN));
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::new(SqlState::CANCELED, "canceling statement due to user request"));
        }
    }
}

/// Waits for what a store fetches.
pub(super) fn fetch_now(wait: &StoreWait, cancel: &AtomicBool) -> Result<()> {
    while !wait.wait_for(LOOK_AGAIN) {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::new(SqlState::CANCELED, "canceling statement due to user request"));
        }
    }
    Ok(())
}

/// Waits for a lock, at most as long as `lock_timeout` and `statement_timeout` allow.
pub(super) fn wait_now(wait: LockWait, settings: &Settings, cancel: &AtomicBool) -> Result<()> {
    let deadline = settings.duration("lock_timeout").map(|limit| Instant::now() + limit);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if wait.wait_for(left.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN)) {
            return Ok(());
        }
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::new(SqlState::CANCELED, "canceling statement due to user request"));
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"));
        }
    }
}

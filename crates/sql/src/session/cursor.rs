//! Statements whose rows a thread fetches piece by piece, waiting where needed, and ending a
//! statement early.

use std::sync::Arc;
use std::time::Instant;

use colibri_catalog::store_error::InSql as _;
use colibri_txn::CommitTicket;
use colibri_types::{Datum, Error, Result, SqlState};
use compact_str::CompactString;

use super::drive::{fetch_now, sleep_now, wait_now};
use super::step::{Ends, Stage};
use super::{Prepared, Progress, Rows, Running, Session, TransactionState};

/// A running statement, with its time limit.
pub struct Cursor {
    running: Running,
    deadline: Option<Instant>,
}

impl Session {
    /// Begins to run a statement whose rows are to be fetched.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn open_cursor(&mut self, prepared: &Arc<Prepared>, params: Vec<Datum>) -> Result<Cursor> {
        let running = self.start(prepared, params)?;
        Ok(self.cursor_of(running))
    }

    /// A statement that was started to be stepped, to be fetched instead.
    #[must_use]
    pub fn cursor_of(&self, running: Running) -> Cursor {
        let deadline = self.own.settings.hot().statement_timeout.map(|limit| Instant::now() + limit);
        Cursor { running, deadline }
    }

    /// The reverse: a statement that was fetched from, to be stepped.
    #[must_use]
    pub fn running_of(&self, cursor: Cursor) -> Running {
        cursor.running
    }

    /// Waits for the next rows, and adds them to `rows`. At the end gives the command tag, once
    /// what the statement did is durable.
    ///
    /// # Errors
    /// As [`Session::execute`].
    pub fn fetch(&mut self, cursor: &mut Cursor, rows: &mut Rows) -> Result<Option<CompactString>> {
        let Cursor { running, deadline } = cursor;
        loop {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.statement_failed(running);
                return Err(Error::new(SqlState::CANCELED, "canceling statement due to statement timeout"));
            }
            match self.step_until(*deadline, running, rows)? {
                Progress::Rows => return Ok(None),
                Progress::Yield => {}
                Progress::Wait(wait) => {
                    if let Err(error) = wait_now(wait, &self.own.settings, &self.cancel) {
                        self.statement_failed(running);
                        return Err(error);
                    }
                }
                Progress::Fetch(wait) => {
                    if let Err(error) = fetch_now(&wait, &self.cancel) {
                        self.statement_failed(running);
                        return Err(error);
                    }
                }
                Progress::Sleep(until) => {
                    if let Err(error) = sleep_now(until, *deadline, &self.cancel) {
                        self.statement_failed(running);
                        return Err(error);
                    }
                }
                Progress::Commits(turn) => turn.wait(),
                Progress::Done(completion) => {
                    if let Some(ticket) = completion.ticket {
                        self.wait_durable(ticket)?;
                    }
                    return Ok(Some(completion.tag));
                }
            }
        }
    }

    /// Ends a cursor early, as [`Session::abandon`] does, and waits until a commit is durable.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn close_cursor(&mut self, cursor: &mut Cursor) -> Result<()> {
        match self.abandon(&mut cursor.running)? {
            Some(ticket) => self.wait_durable(ticket),
            None => Ok(()),
        }
    }

    /// Ends a statement before [`super::Progress::Done`]. Without a transaction block it is rolled
    /// back, unless it has committed already or waits in the commit queue: then the ticket says
    /// when that is durable. Within a block its changes are rolled back, and the block goes on.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn abandon(&mut self, running: &mut Running) -> Result<Option<CommitTicket>> {
        match std::mem::replace(&mut running.stage, Stage::Over) {
            Stage::Giving(completion) => Ok(completion.and_then(|completion| completion.ticket)),
            Stage::Committing { what: Ends::Statement, .. } if !running.implicit => Ok(None),
            Stage::Committing { .. } => {
                // Another thread is committing it, which takes microseconds.
                let committed = self.commit_now();
                self.end_block(committed.is_ok());
                committed
            }
            Stage::Begin | Stage::Fetch(_) | Stage::Hold | Stage::Over => Ok(None),
            Stage::Restart(savepoint) | Stage::Again(savepoint) | Stage::Running { savepoint, .. } => {
                if running.implicit {
                    drop(self.abort_txn());
                    self.end_block(false);
                } else if let (Some(txn), true) = (&mut self.txn, running.keeps) {
                    txn.rollback_to(savepoint).inspect_err(|_| self.state = TransactionState::Failed).in_sql()?;
                }
                Ok(None)
            }
        }
    }

    /// Waits for a ticket: rows may be shown when all that the statements saw is durable. Remembers
    /// that state, so that the session's next statement sees at least it.
    ///
    /// # Errors
    /// 40003 if the flush fails.
    pub fn wait_durable(&mut self, ticket: CommitTicket) -> Result<()> {
        self.seen = self.seen.max(ticket.wait().in_sql()?);
        Ok(())
    }
}

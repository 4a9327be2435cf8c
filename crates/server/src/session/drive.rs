//! Running a statement from a task: step by step, waiting without a thread, within limits.
//!
//! A statement begins in the session's pool. After some time of work (`colibri.batch_after`) it
//! goes on in the pool for long work, and its session returns to the first pool when it is done.
//! Statements without steps (a change of the catalogue, EXPLAIN ANALYZE) run on a thread of their
//! own.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use colibri_runtime::{Pool, Sleep, budget, sleep_until, spawn_blocking};
use colibri_sql::cluster::Waits;
use colibri_sql::{CompactString, Error, Progress, Rows, Running, Session, SqlState};
use colibri_txn::{CommitTurn, LockWait, StoreWait};

use super::{Client, End, Failure, ending};
use crate::link::Link;
use crate::registry::{Member, Stop};

/// The budget of the first step, in rows. Later steps have as many rows as take about [`STEP`]: a
/// statement that joins and groups takes longer for a row than one that counts rows.
const BUDGET_ROWS: i64 = 1_024;
const BUDGET_ROWS_MIN: i64 = 128;
const BUDGET_ROWS_MAX: i64 = 8_192;
/// The time that a step of a long statement should take. It keeps its thread meanwhile.
const STEP: Duration = Duration::from_micros(50);
/// The most bytes that are read ahead from a client while a statement runs, to notice if the client
/// goes away.
const AHEAD_BYTES_MAX: usize = 64 << 10;

/// Settings that the server uses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits {
    pub(super) statement: Option<Duration>,
    pub(super) lock: Option<Duration>,
    pub(super) idle_in_transaction: Option<Duration>,
    pub(super) idle: Option<Duration>,
    pub(super) batch_after: Option<Duration>,
    pub(super) is_batch: bool,
    /// Writes go to the leader of the database, where another node is.
    pub(super) is_forwarded: bool,
    /// Of the settings from which these are.
    version: u32,
}

impl Limits {
    pub(super) fn of(session: &Session) -> Self {
        Self {
            statement: session.time_limit("statement_timeout"),
            lock: session.time_limit("lock_timeout"),
            idle_in_transaction: session.time_limit("idle_in_transaction_session_timeout"),
            idle: session.time_limit("idle_session_timeout"),
            batch_after: session.time_limit("colibri.batch_after"),
            is_batch: session.setting("colibri.priority").is_ok_and(|priority| priority == "batch"),
            is_forwarded: session.setting("colibri.forward").is_ok_and(|forward| forward == "on"),
            version: session.settings_version(),
        }
    }

    /// The pool in which the session's statements begin.
    pub(super) fn pool(&self) -> Pool {
        if self.is_batch { Pool::Batch } else { Pool::User }
    }
}

/// The time accounts of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    deadline: Option<Instant>,
    /// How long it has worked, up to when it was resumed.
    worked: Duration,
    resumed: Instant,
    steps: u32,
    /// The start of the current step, except for the first.
    stepped: Instant,
    /// The budget of a step, in rows.
    pub(super) budget_rows: i64,
}

impl Turn {
    /// Chooses the length of the next step by how long the last one took, up to now.
    fn adapt(&mut self) {
        let took = self.stepped.elapsed();
        if took > STEP {
            self.budget_rows = (self.budget_rows / 2).max(BUDGET_ROWS_MIN);
        } else if took < STEP / 2 {
            self.budget_rows = (self.budget_rows * 2).min(BUDGET_ROWS_MAX);
        }
    }
}

fn canceled(why: &str) -> Error {
    Error::new(SqlState::CANCELED, format!("canceling statement due to {why}"))
}

impl Client {
    /// Begins the first step of a statement.
    pub(super) fn turn(&mut self, began: Instant) -> Turn {
        // A statement in front of this one, of the same text or pipeline, may have set others.
        if let Some(session) = &self.session
            && session.settings_version() != self.limits.version
        {
            self.limits = Limits::of(session);
        }
        let deadline = self.limits.statement.map(|limit| began + limit);
        Turn { deadline, worked: Duration::ZERO, resumed: began, steps: 0, stepped: began, budget_rows: BUDGET_ROWS }
    }

    /// A cancellation that came before the session's flag was cleared is still valid.
    pub(super) fn heed_cancel(&self) {
        if self.member().is_cancelled() {
            self.member().raise_flag();
        }
    }

    /// Continues a statement until it has rows that may be sent (`None`) or is done: its command
    /// tag.
    ///
    /// A failed statement has ended, and is rolled back.
    pub(super) async fn advance(
        &mut self,
        running: &mut Option<Running>,
        rows: &mut Rows,
        turn: &mut Turn,
    ) -> Result<Option<CompactString>, Failure> {
        let at_work = |running: &Option<Running>| running.as_ref().expect("a statement is at work").holds_rows();
        loop {
            match self.step(running, rows, turn).await? {
                // The rows are complete; the outcome of the statement comes next.
                Progress::Rows if at_work(running) => {}
                Progress::Rows => {
                    self.between_steps(running, turn).await?;
                    return Ok(None);
                }
                Progress::Yield => self.between_steps(running, turn).await?,
                Progress::Wait(wait) => {
                    if let Err(failure) = self.wait_for(wait, turn).await {
                        self.fail(running);
                        return Err(failure);
                    }
                }
                Progress::Fetch(wait) => {
                    if let Err(failure) = self.wait_fetched(wait, turn).await {
                        self.fail(running);
                        return Err(failure);
                    }
                }
                Progress::Sleep(until) => {
                    if let Err(failure) = self.sleep_until(until, turn).await {
                        self.fail(running);
                        return Err(failure);
                    }
                }
                Progress::Commits(turn) => self.wait_to_commit(turn).await,
                Progress::Done(completion) => {
                    self.owe(completion.ticket);
                    return Ok(Some(completion.tag));
                }
            }
        }
    }

    fn fail(&mut self, running: &mut Option<Running>) {
        if let Some(running) = running {
            self.session().fail(running);
        }
    }

    async fn step(&mut self, running: &mut Option<Running>, rows: &mut Rows, turn: &Turn) -> Result<Progress, Failure> {
        let Some(at_work) = running else { return Err(Error::internal("no statement is at work").into()) };
        let stepped = if at_work.prepared().ignores_budget() {
            let (Some(mut moved), mut filled) = (running.take(), std::mem::take(rows)) else {
                return Err(Error::internal("no statement is at work").into());
            };
            let deadline = turn.deadline;
            let (moved, filled, stepped) = self
                .elsewhere(deadline, move |session| {
                    let stepped = session.step(&mut moved, &mut filled, i64::MAX);
                    (moved, filled, stepped)
                })
                .await?;
            (*running, *rows) = (Some(moved), filled);
            stepped
        } else if turn.deadline.is_some() {
            self.member().set_due(turn.deadline);
            let stepped = self.session().step(at_work, rows, turn.budget_rows);
            self.member().set_due(None);
            stepped
        } else {
            self.session().step(at_work, rows, turn.budget_rows)
        };
        stepped.map_err(|error| self.why_canceled(error, turn))
    }

    /// Parses or plans within the time limit of a statement.
    pub(super) fn within_limit<T>(
        &mut self,
        began: Instant,
        work: impl FnOnce(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let turn = self.turn(began);
        self.member().set_due(turn.deadline);
        let done = work(self.session());
        self.member().set_due(None);
        done.map_err(|error| self.why_canceled(error, &turn))
    }

    /// Makes a statement or a portal within the time that a statement has.
    pub(super) fn within_time(&mut self, make: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Failure> {
        if self.limits.statement.is_none() {
            return Ok(make(self)?);
        }
        let turn = self.turn(Instant::now());
        self.member().set_due(turn.deadline);
        let done = make(self);
        self.member().set_due(None);
        done.map_err(|error| self.why_canceled(error, &turn))
    }

    /// The reason of a cancellation, which the operators do not know.
    pub(super) fn why_canceled(&self, error: Error, turn: &Turn) -> Failure {
        if error.state() != SqlState::CANCELED {
            return error.into();
        }
        if self.member().stopping() == Stop::Now {
            return End::Fatal(ending(self.member())).into();
        }
        let is_late = turn.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_late && !self.member().is_cancelled() {
            return canceled("statement timeout").into();
        }
        error.into()
    }

    /// Runs something on a thread that may wait. At the deadline it is cancelled, and ends when it
    /// notices that.
    pub(super) async fn elsewhere<T: Send + 'static>(
        &mut self,
        deadline: Option<Instant>,
        run: impl FnOnce(&mut Session) -> T + Send + 'static,
    ) -> Result<T, End> {
        let mut session = self.session.take().expect("it is away only while its task waits for it");
        let mut away = spawn_blocking(move || {
            let done = run(&mut session);
            (session, done)
        });
        let mut timer = pin!(deadline.map(sleep_until));
        let member = &self.membership.member;
        let mut is_late = false;
        let back = poll_fn(|cx| {
            if let (Some(timer), false) = (timer.as_mut().as_pin_mut(), is_late)
                && timer.poll(cx).is_ready()
            {
                is_late = true;
                member.raise_flag();
            }
            Pin::new(&mut away).poll(cx)
        })
        .await;
        match back {
            Ok((session, done)) => {
                self.session = Some(session);
                Ok(done)
            }
            Err(error) => Err(End::Fatal(Error::internal(format_args!("a statement ended: {error}")))),
        }
    }

    /// Between two steps: others may have to run, and the statement may have to end.
    pub(super) async fn between_steps(
        &mut self,
        running: &mut Option<Running>,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let rested = self.rest(turn).await;
        if rested.is_err() {
            self.fail(running);
        }
        rested
    }

    /// Lets others run, if it is time, and checks whether the current statement may go on.
    pub(super) async fn rest(&mut self, turn: &mut Turn) -> Result<(), Failure> {
        turn.steps += 1;
        // Most statements have one step.
        if turn.steps == 1 {
            turn.stepped = Instant::now();
            return Ok(());
        }
        turn.adapt();
        if budget::is_over() {
            self.tell_held_back().await?;
            let now = Instant::now();
            turn.worked += now - turn.resumed;
            if self.limits.batch_after.is_some_and(|limit| turn.worked >= limit) && self.pool != Pool::Batch {
                self.shared.counts.sunk.add(1);
                self.be_in(Pool::Batch).await;
            } else if self.pool == Pool::System {
                // The statement was sent after a commit that is still going on.
                self.be_in(self.limits.pool()).await;
            } else {
                budget::yield_now().await;
            }
            turn.resumed = Instant::now();
        }
        if self.member().stopping() == Stop::Now {
            return Err(End::Fatal(ending(self.member())).into());
        }
        if turn.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(canceled("statement timeout").into());
        }
        let link = &mut self.link;
        if poll_fn(|cx| Poll::Ready(is_gone(link, cx))).await {
            return Err(End::Gone.into());
        }
        turn.stepped = Instant::now();
        Ok(())
    }

    /// Waits for commits of others. This cannot be interrupted: it takes microseconds, and
    /// afterwards the outcome of the transaction is known.
    pub(super) async fn wait_to_commit(&mut self, turn: CommitTurn) {
        self.be_in(Pool::System).await;
        self.member().waits_for(Some(Waits::Commits));
        turn.await;
        self.member().waits_for(None);
    }

    /// Commits the block that the protocol has begun, if there is one.
    pub(super) async fn end_implicit_block(&mut self) -> Result<(), Failure> {
        let Some(commit) = self.session().end_implicit_block()? else { return Ok(()) };
        let mut turn = self.turn(Instant::now());
        self.advance(&mut Some(commit), &mut Rows::default(), &mut turn).await?;
        Ok(())
    }

    /// Waits for a lock.
    pub(super) async fn wait_for(&mut self, wait: LockWait, turn: &mut Turn) -> Result<(), Failure> {
        let lock_limit = self.limits.lock.map(|limit| Instant::now() + limit);
        self.wait_within(wait, Waits::Lock, lock_limit, turn).await
    }

    /// Waits for what a store fetches.
    pub(super) async fn wait_fetched(&mut self, wait: StoreWait, turn: &mut Turn) -> Result<(), Failure> {
        let what = if wait.deadline().is_some() { Waits::Message } else { Waits::Fetch };
        self.wait_within(until_over(wait), what, None, turn).await
    }

    /// Sleeps for a statement.
    pub(super) async fn sleep_until(&mut self, until: Instant, turn: &mut Turn) -> Result<(), Failure> {
        self.wait_within(sleep_until(until), Waits::Sleep, None, turn).await
    }

    /// Waits for something that a statement needs to continue.
    async fn wait_within(
        &mut self,
        wait: impl Future<Output = ()>,
        what: Waits,
        lock_limit: Option<Instant>,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        self.tell_held_back().await?;
        let mut lock_timer = pin!(lock_limit.map(sleep_until));
        let mut statement_timer = pin!(turn.deadline.map(sleep_until));
        let mut wait = pin!(wait);
        let (link, member): (&mut Link, &Member) = (&mut self.link, &self.membership.member);
        member.waits_for(Some(what));
        let waited = poll_fn(|cx| {
            if wait.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if member.stopping() == Stop::Now {
                return Poll::Ready(Err(End::Fatal(ending(member)).into()));
            }
            if member.is_cancelled() {
                return Poll::Ready(Err(canceled("user request").into()));
            }
            if is_due(lock_timer.as_mut().as_pin_mut(), cx) {
                let message = "canceling statement due to lock timeout";
                return Poll::Ready(Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, message).into()));
            }
            if is_due(statement_timer.as_mut().as_pin_mut(), cx) {
                return Poll::Ready(Err(canceled("statement timeout").into()));
            }
            if is_gone(link, cx) {
                return Poll::Ready(Err(End::Gone.into()));
            }
            Poll::Pending
        })
        .await;
        self.member().waits_for(None);
        turn.resumed = Instant::now();
        waited
    }
}

/// Waits until a wait is over, or its deadline has come.
pub(super) async fn until_over(wait: StoreWait) {
    let mut timer = pin!(wait.deadline().map(sleep_until));
    let mut wait = pin!(wait);
    poll_fn(|cx| match wait.as_mut().poll(cx).is_ready() || is_due(timer.as_mut().as_pin_mut(), cx) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

fn is_due(timer: Option<Pin<&mut Sleep>>, cx: &mut std::task::Context<'_>) -> bool {
    timer.is_some_and(|timer| timer.poll(cx).is_ready())
}

/// Whether the client has gone. Bytes that it sends ahead are read, up to a limit.
pub(super) fn is_gone(link: &mut Link, cx: &mut std::task::Context<'_>) -> bool {
    while link.inbox.unread().len() < AHEAD_BYTES_MAX {
        match link.poll_fill(cx) {
            Poll::Ready(Ok(true)) => {}
            Poll::Ready(_) => return true,
            Poll::Pending => return false,
        }
    }
    false
}

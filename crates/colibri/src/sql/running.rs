//! Statements whose rows are taken in blocks, without borrowing the connection: for what cannot
//! hold a borrow, such as handles of other languages and event loops.
//!
//! A connection has at most one such statement. It goes on by [`Connection::next_block`], which
//! waits, or by [`Connection::poll_next_block`], which a waker calls back; both may be mixed. Other
//! statements are refused until it has ended, by itself or by [`Connection::stop`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use colibri_sql::{
    CompactString, Completion, Cursor, Datum, Env, InSql as _, Progress, Running, SqlState, rows_of_tag,
};
use colibri_txn::CommitTicket;

use super::asynchronous::{Alarm, BUDGET_ROWS};
use super::connection::Link;
use super::processes::{Reply, Run};
use super::row::{Block, Column, Row, columns_of, renew_columns};
use super::value::{Params, Value, bind};
use super::{Connection, Error, Result, Statement};

/// What a polled statement waits for, with the error that ends it if the wait fails.
type Wait = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// The statement of [`Connection::start`].
pub(super) struct Started {
    work: Work,
    columns: Arc<[Column]>,
    /// Known before the last rows are handed over.
    tag: Option<CompactString>,
}

enum Work {
    /// Nothing has been done yet: whether it will be waited for or polled is not known.
    New(Running),
    Blocking(Cursor),
    Polled(Running, Option<Awaited>),
    /// It runs in another process.
    There(Run),
}

struct Awaited {
    wait: Wait,
    is_cancelable: bool,
    /// The statement is done, and may be told of when the wait is over.
    done: Option<(CompactString, CommitTicket)>,
}

/// What a statement in another process gives next, with its columns if these were told.
type NextThere = (Next, Option<Arc<[Column]>>);

/// What a running statement gives next.
#[derive(Debug, Clone)]
pub enum Next {
    /// Rows; there is at least one.
    Rows(RowBlock),
    /// Its end, with PostgreSQL's command tag: `SELECT 3`, `CREATE TABLE`.
    End(String),
}

/// How many rows a command tag counts: 3 for `INSERT 0 3`, 0 for `BEGIN`.
#[must_use]
pub fn rows_affected(tag: &str) -> u64 {
    rows_of_tag(tag)
}

/// Rows that came together. Clones share them; they may be read by any thread.
#[derive(Clone)]
pub struct RowBlock {
    pub(super) block: Arc<Block>,
    /// The first row of the engine's block that is one of this.
    from: usize,
}

impl RowBlock {
    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.block.columns
    }

    /// How many rows there are; at least one.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "there is at least one row")]
    pub fn len(&self) -> usize {
        self.block.rows.len() - self.from
    }

    /// The rows from one on, by its place from 0; `None` if there are none.
    #[must_use]
    pub fn rows_from(&self, row: usize) -> Option<Self> {
        (row < self.len()).then(|| Self { block: Arc::clone(&self.block), from: self.from + row })
    }

    /// A row, by its place from 0; `None` behind the last.
    #[must_use]
    pub fn row(&self, row: usize) -> Option<Row> {
        (row < self.len()).then(|| Row::new(&self.block, self.from + row))
    }

    /// A value, by the places of its row and its column, both from 0; `None` if there is none.
    #[must_use]
    pub fn value(&self, row: usize, column: usize) -> Option<Value<'_>> {
        self.datum(row, column).map(|datum| Value::of(datum, self.block.columns[column].column.ty.ty))
    }

    /// Whether a value is NULL; `None` if there is no such value.
    #[must_use]
    pub fn is_null(&self, row: usize, column: usize) -> Option<bool> {
        self.datum(row, column).map(|datum| matches!(datum, Datum::Null))
    }

    /// Appends a value as a client of PostgreSQL gets it as text, as the connection's settings
    /// (`DateStyle`, `TimeZone` and others) have it. `false`, and nothing is appended, if it is
    /// NULL or there is no such value.
    pub fn write_text(&self, row: usize, column: usize, connection: &Connection, out: &mut Vec<u8>) -> bool {
        self.write_in(row, column, connection.env(), out)
    }

    pub(crate) fn write_in(&self, row: usize, column: usize, env: &Env, out: &mut Vec<u8>) -> bool {
        let Some(datum) = self.datum(row, column).filter(|datum| !matches!(datum, Datum::Null)) else { return false };
        let ty = self.block.columns[column].column.ty;
        colibri_sql::wire::write(ty, colibri_sql::wire::Format::Text, datum, env, &mut String::new(), out);
        true
    }

    /// Appends the rows for another process.
    pub(super) fn write_portable(&self, env: &Env, out: &mut Vec<u8>) -> Result<()> {
        let types: Vec<_> = self.block.columns.iter().map(|column| column.column.ty).collect();
        colibri_sql::portable::write_rows(&self.block.rows, self.from, &types, env, out)
    }

    pub(crate) fn datum(&self, row: usize, column: usize) -> Option<&Datum> {
        if row < self.len() { self.block.rows.row(self.from + row).get(column) } else { None }
    }
}

impl std::fmt::Debug for RowBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries((0..self.len()).filter_map(|row| self.row(row))).finish()
    }
}

pub(super) fn one_at_a_time() -> Error {
    Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, "the rows of another statement of this connection are being read")
        .hint("Read its rows to the end, or stop it.")
}

impl Connection {
    /// Begins a statement, whose rows [`Connection::next_block`] gives. Nothing happens before the
    /// first call of that.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let db = colibri::sql::Database::open(dir.path())?;
    /// # let mut conn = db.connect();
    /// use colibri::sql::Next;
    /// let squares = conn.prepare("SELECT n * n FROM generate_series(1, $1) AS s (n)")?;
    /// conn.start(&squares, (10_000,))?;
    /// let mut sum = 0;
    /// while let Next::Rows(block) = conn.next_block()? {
    ///     for row in 0..block.len() {
    ///         sum += block.row(row).expect("one of the block").get::<_, i64>(0)?;
    ///     }
    /// }
    /// assert_eq!(sum, 333_383_335_000);
    /// # Ok::<(), colibri::sql::Error>(())
    /// ```
    ///
    /// # Errors
    /// The parameters do not fit; 55000 if another statement was started and has not ended.
    pub fn start(&mut self, statement: &Statement, params: impl Params) -> Result<()> {
        self.at_rest()?;
        let session = match &mut self.link {
            Link::Here(session) => session,
            Link::There(_) => return self.start_there(statement.text(), &params, Arc::clone(&statement.columns)),
            Link::Lost(error) => return Err(error.clone()),
        };
        let prepared = statement.prepared_on(session)?;
        let types = session.current_types(prepared.params())?;
        let params = bind(&params, &types, session.env())?;
        let running = session.start(&prepared, params);
        let running = self.noted(running)?;
        let columns = columns_of(&prepared);
        self.started = Some(Box::new(Started { work: Work::New(running), columns, tag: None }));
        Ok(())
    }

    /// The same in the process that has the database open. The columns are those that are known.
    pub(super) fn start_there(&mut self, sql: &str, params: &impl Params, columns: Arc<[Column]>) -> Result<()> {
        let run = Run::new(sql, params)?;
        self.started = Some(Box::new(Started { work: Work::There(run), columns, tag: None }));
        Ok(())
    }

    /// Whether all rows of the started statement have been given, and its end comes next.
    pub(super) fn has_ended(&self) -> bool {
        self.started.as_ref().is_some_and(|started| started.tag.is_some())
    }

    /// What a statement in another process gives next, with its columns if these were told; polled
    /// if there is a context.
    pub(super) fn next_there(&mut self, context: Option<&Context<'_>>) -> Poll<Result<NextThere>> {
        let Some(mut started) = self.started.take() else { return Poll::Ready(Err(nothing_started())) };
        if let Some(tag) = started.tag {
            return Poll::Ready(Ok((Next::End(tag.into()), None)));
        }
        let polled = match (&mut self.link, &mut started.work, context) {
            (Link::There(guest), Work::There(run), None) => Poll::Ready(guest.next(run, &self.cancel.flag)),
            (Link::There(guest), Work::There(run), Some(context)) => guest.poll_next(run, &self.cancel.flag, context),
            _ => Poll::Ready(Err(nothing_started())),
        };
        let Poll::Ready(reply) = polled else {
            self.started = Some(started);
            return Poll::Pending;
        };
        Poll::Ready(match self.noted(reply)? {
            Reply::End { columns, tag } => Ok((Next::End(tag), columns)),
            Reply::Rows { columns, rows, tag } => {
                if let Some(columns) = &columns {
                    started.columns = Arc::clone(columns);
                }
                started.tag = tag.map(Into::into);
                let block = Arc::new(Block { columns: Arc::clone(&started.columns), rows });
                self.started = Some(started);
                Ok((Next::Rows(RowBlock { block, from: 0 }), columns))
            }
            _ => Err(self.confused()),
        })
    }

    /// Whether a started statement has not ended yet.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.started.is_some()
    }

    /// Waits for what the started statement gives next. After its end, and after an error, the
    /// connection is free for others.
    ///
    /// # Errors
    /// The statement's; 55000 if none was started.
    pub fn next_block(&mut self) -> Result<Next> {
        loop {
            let Link::Here(session) = &mut self.link else {
                let Poll::Ready(next) = self.next_there(None) else { continue };
                return next.map(|(next, _)| next);
            };
            let Some(mut started) = self.started.take() else { return Err(nothing_started()) };
            if let Some(tag) = started.tag {
                return Ok(Next::End(tag.into()));
            }
            let mut rows = colibri_sql::Rows::default();
            started.work = match started.work {
                Work::New(running) => Work::Blocking(session.cursor_of(running)),
                other => other,
            };
            let fetched = match &mut started.work {
                Work::Blocking(cursor) => session.fetch(cursor, &mut rows),
                // It was polled before: go on as that does, and wait on this thread.
                _ => {
                    self.started = Some(started);
                    return block_on(|context| self.poll_next_block(context));
                }
            };
            started.tag = self.noted(fetched)?;
            if let Some(next) = self.took(started, rows) {
                return Ok(next);
            }
        }
    }

    /// As [`Connection::next_block`], without waiting: when there is nothing yet, the waker is
    /// called when it is time to ask again. A call works for about a millisecond at most, unless a
    /// single step of the statement takes longer.
    ///
    /// Settings that limit time (`statement_timeout`, `lock_timeout`) have no effect here.
    ///
    /// # Errors
    /// As [`Connection::next_block`].
    pub fn poll_next_block(&mut self, context: &mut Context<'_>) -> Poll<Result<Next>> {
        loop {
            let Link::Here(session) = &mut self.link else {
                return self.next_there(Some(context)).map_ok(|(next, _)| next);
            };
            let Some(mut started) = self.started.take() else { return Poll::Ready(Err(nothing_started())) };
            if let Some(tag) = started.tag {
                return Poll::Ready(Ok(Next::End(tag.into())));
            }
            let (mut running, awaited) = match started.work {
                Work::New(running) => (running, None),
                Work::Polled(running, awaited) => (running, awaited),
                Work::Blocking(cursor) => (session.running_of(cursor), None),
                Work::There(_) => return Poll::Ready(Err(nothing_started())),
            };
            if let Some(mut awaited) = awaited {
                if awaited.is_cancelable {
                    *self.cancel.waker.lock() = Some(context.waker().clone());
                    if self.cancel.is_canceled() {
                        session.fail(&mut running);
                        return Poll::Ready(Err(canceled()));
                    }
                }
                match awaited.wait.as_mut().poll(context) {
                    Poll::Pending => {
                        started.work = Work::Polled(running, Some(awaited));
                        self.started = Some(started);
                        return Poll::Pending;
                    }
                    Poll::Ready(waited) => {
                        waited.inspect_err(|error| self.conflicted |= error.is_retryable())?;
                        if let Some((tag, ticket)) = awaited.done {
                            // It is durable, so this only remembers the state.
                            session.wait_durable(ticket)?;
                            return Poll::Ready(Ok(Next::End(tag.into())));
                        }
                    }
                }
            }
            let mut rows = colibri_sql::Rows::default();
            let stepped = session.step(&mut running, &mut rows, BUDGET_ROWS);
            let mut yields = false;
            let awaited = match stepped.inspect_err(|error| self.conflicted |= error.is_retryable())? {
                Progress::Rows => None,
                Progress::Yield => {
                    yields = true;
                    None
                }
                Progress::Wait(wait) => Some(cancelable(wait)),
                Progress::Fetch(wait) => Some(cancelable(wait)),
                Progress::Sleep(until) => Some(cancelable(Alarm::at(until))),
                Progress::Commits(turn) => {
                    let wait: Wait = Box::pin(async {
                        turn.await;
                        Ok(())
                    });
                    Some(Awaited { wait, is_cancelable: false, done: None })
                }
                Progress::Done(Completion { tag, ticket: None }) => {
                    started.tag = Some(tag);
                    None
                }
                Progress::Done(Completion { tag, ticket: Some(ticket) }) if ticket.is_durable() => {
                    session.wait_durable(ticket)?;
                    started.tag = Some(tag);
                    None
                }
                Progress::Done(Completion { tag, ticket: Some(ticket) }) => {
                    let mut flushed = ticket.clone();
                    let wait: Wait = Box::pin(async move { Pin::new(&mut flushed).await.in_sql().map(drop) });
                    Some(Awaited { wait, is_cancelable: false, done: Some((tag, ticket)) })
                }
            };
            started.work = Work::Polled(running, awaited);
            if let Some(next) = self.took(started, rows) {
                return Poll::Ready(Ok(next));
            }
            if yields {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    /// Puts a statement back that has given rows or none; gives the rows, if there are any.
    fn took(&mut self, mut started: Box<Started>, rows: colibri_sql::Rows) -> Option<Next> {
        let next = (!rows.is_empty()).then(|| {
            if let Link::Here(session) = &self.link {
                renew_columns(&mut started.columns, session);
            }
            let block = Arc::new(Block { columns: Arc::clone(&started.columns), rows });
            Next::Rows(RowBlock { block, from: 0 })
        });
        self.started = Some(started);
        next
    }

    /// Ends the started statement early, if there is one. What it has changed is rolled back,
    /// unless it has committed already.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn stop(&mut self) -> Result<()> {
        let Some(started) = self.started.take() else { return Ok(()) };
        let is_over = started.tag.is_some();
        match (&mut self.link, started.work) {
            (Link::Here(session), Work::Blocking(mut cursor)) => session.close_cursor(&mut cursor),
            (Link::Here(session), Work::New(mut running) | Work::Polled(mut running, _)) => {
                match session.abandon(&mut running)? {
                    Some(ticket) => session.wait_durable(ticket),
                    None => Ok(()),
                }
            }
            (Link::There(guest), Work::There(run)) if !is_over => guest.stop(&run, &self.cancel.flag),
            _ => Ok(()),
        }
    }
}

fn cancelable(wait: impl Future<Output = ()> + Send + 'static) -> Awaited {
    let wait: Wait = Box::pin(async {
        wait.await;
        Ok(())
    });
    Awaited { wait, is_cancelable: true, done: None }
}

fn canceled() -> Error {
    Error::new(SqlState::CANCELED, "canceling statement due to user request")
}

fn nothing_started() -> Error {
    Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, "no statement is running on this connection")
}

/// Polls on this thread until there is a result.
fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

//! Connections whose calls are futures, for any runtime: they wait for locks and for the disk
//! without a thread, and let others run when a statement takes long.
//!
//! A call that is dropped before its end is rolled back, so a time limit of the runtime also limits
//! the statement. (The settings `statement_timeout` and `lock_timeout` would need a clock, and do
//! nothing here.)

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use colibri_sql::{CompactString, Completion, InSql as _, Progress, Running, SqlState, TransactionState, rows_of_tag};
use colibri_txn::StoreWait;
use parking_lot::Mutex;

use super::connection::{Link, only_row};
use super::row::{Block, Row};
use super::transaction::{already_open, failed_inside};
use super::value::{Params, bind};
use super::{CancelHandle, Connection, Error, Next, Result, Statement, ToStatement, TransactionOptions};

/// Rows that a statement looks at before it lets others run.
pub(super) const BUDGET_ROWS: i64 = 10_000;

/// A session whose calls are futures. It is `Send`, and so are its futures.
///
/// ```
/// # fn block_on<F: Future>(future: F) -> F::Output {
/// #     struct Unpark(std::thread::Thread);
/// #     impl std::task::Wake for Unpark {
/// #         fn wake(self: std::sync::Arc<Self>) { self.0.unpark() }
/// #     }
/// #     let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
/// #     let mut future = std::pin::pin!(future);
/// #     loop {
/// #         match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
/// #             std::task::Poll::Ready(output) => return output,
/// #             std::task::Poll::Pending => std::thread::park(),
/// #         }
/// #     }
/// # }
/// # let dir = tempfile::tempdir().expect("a directory");
/// # let db = colibri::sql::Database::open(dir.path())?;
/// let mut conn = db.connect_async();
/// block_on(async {
///     conn.execute("CREATE TABLE birds (name text PRIMARY KEY, beats int)", ()).await?;
///     conn.transaction(async |tx| {
///         tx.execute("INSERT INTO birds VALUES ($1, $2)", ("bee hummingbird", 80)).await?;
///         tx.execute("INSERT INTO birds VALUES ($1, $2)", ("giant hummingbird", 15)).await
///     })
///     .await?;
///     let row = conn.query_row("SELECT sum(beats) FROM birds", ()).await?;
///     assert_eq!(row.get::<_, i64>(0)?, 95);
///     Ok::<(), colibri::sql::Error>(())
/// })?;
/// # Ok::<(), colibri::sql::Error>(())
/// ```
pub struct AsyncConnection {
    connection: Connection,
}

/// A running statement, which is rolled back if it is dropped.
struct AtWork<'c> {
    connection: &'c mut Connection,
    running: Running,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        // This has no effect on a statement that has ended.
        if let Ok(session) = self.connection.session() {
            drop(session.abandon(&mut self.running));
        }
    }
}

impl AtWork<'_> {
    /// Waits for what comes next: rows, or the end.
    async fn advance(&mut self, rows: &mut colibri_sql::Rows) -> Result<Option<CompactString>> {
        loop {
            match self.connection.session()?.step(&mut self.running, rows, BUDGET_ROWS)? {
                Progress::Rows => return Ok(None),
                Progress::Yield => let_others_run().await,
                Progress::Wait(wait) => unless_canceled(&self.connection.cancel_handle(), wait).await?,
                Progress::Fetch(wait) => unless_canceled(&self.connection.cancel_handle(), until_over(wait)).await?,
                Progress::Sleep(until) => unless_canceled(&self.connection.cancel_handle(), Alarm::at(until)).await?,
                // A commit is not cancelled any more.
                Progress::Commits(turn) => turn.await,
                Progress::Done(Completion { tag, ticket }) => {
                    if let Some(mut ticket) = ticket {
                        Pin::new(&mut ticket).await.in_sql()?;
                        self.connection.session()?.wait_durable(ticket)?;
                    }
                    return Ok(Some(tag));
                }
            }
        }
    }
}

/// A statement in another process, which is ended if it is dropped.
struct AtWorkThere<'c>(&'c mut Connection);

impl Drop for AtWorkThere<'_> {
    fn drop(&mut self) {
        // This has no effect on a statement that has ended.
        _ = self.0.stop();
    }
}

async fn drive_there(
    connection: &mut Connection,
    statement: impl ToStatement,
    params: impl Params,
    mut take: impl FnMut(Row) -> Result<()>,
) -> Result<CompactString> {
    connection.at_rest()?;
    match statement.text() {
        Some(sql) => connection.start_there(sql, &params, Arc::default())?,
        None => {
            let statement = statement.to_statement(connection)?;
            connection.start(&statement, params)?;
        }
    }
    let work = AtWorkThere(connection);
    loop {
        match poll_fn(|context| work.0.poll_next_block(context)).await? {
            Next::End(tag) => return Ok(tag.into()),
            Next::Rows(block) => (0..block.len()).filter_map(|row| block.row(row)).try_for_each(&mut take)?,
        }
    }
}

async fn let_others_run() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn unless_canceled(cancel: &CancelHandle, wait: impl Future<Output = ()>) -> Result<()> {
    let mut wait = pin!(wait);
    poll_fn(|context| {
        *cancel.waker.lock() = Some(context.waker().clone());
        if cancel.is_canceled() {
            let message = "canceling statement due to user request";
            return Poll::Ready(Err(Error::new(SqlState::CANCELED, message)));
        }
        wait.as_mut().poll(context).map(Ok)
    })
    .await
}

/// Waits until a wait is over, or its deadline has come.
async fn until_over(wait: StoreWait) {
    let mut alarm = pin!(wait.deadline().map(Alarm::at));
    let mut wait = pin!(wait);
    poll_fn(|context| {
        let is_late = alarm.as_mut().as_pin_mut().is_some_and(|alarm| alarm.poll(context).is_ready());
        if wait.as_mut().poll(context).is_ready() || is_late { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Ends at an instant: for statements that sleep, whatever runtime they are in. A thread waits for
/// it, since a connection knows no timers; it ends with the alarm.
pub(super) struct Alarm {
    until: Instant,
    waker: Arc<Mutex<Option<Waker>>>,
    thread: Option<std::thread::Thread>,
}

impl Alarm {
    pub(super) fn at(until: Instant) -> Self {
        Self { until, waker: Arc::default(), thread: None }
    }

    fn begin(&mut self, first: Waker) -> std::io::Result<()> {
        *self.waker.lock() = Some(first);
        let (until, waker) = (self.until, Arc::downgrade(&self.waker));
        let sleep = move || {
            while let (left @ 1.., Some(_)) = (micros_until(until), waker.upgrade()) {
                std::thread::park_timeout(Duration::from_micros(left));
            }
            if let Some(waker) = waker.upgrade().and_then(|waker| waker.lock().take()) {
                waker.wake();
            }
        };
        let thread = std::thread::Builder::new().name("colibri-sleep".to_owned()).spawn(sleep)?;
        self.thread = Some(thread.thread().clone());
        Ok(())
    }
}

fn micros_until(until: Instant) -> u64 {
    let left = until.saturating_duration_since(Instant::now());
    u64::try_from(left.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

impl Future for Alarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if micros_until(self.until) == 0 {
            return Poll::Ready(());
        }
        if self.thread.is_some() {
            *self.waker.lock() = Some(context.waker().clone());
            // It may have ended before this waker was registered.
            return if micros_until(self.until) == 0 { Poll::Ready(()) } else { Poll::Pending };
        }
        match self.begin(context.waker().clone()) {
            Ok(()) => {}
            // If there is no thread for it, the runtime polls repeatedly.
            Err(_) => context.waker().wake_by_ref(),
        }
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // The thread notices that the future was dropped.
        self.waker = Arc::default();
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}

impl AsyncConnection {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Prepares a statement. This is fast, so it is not a future.
    ///
    /// # Errors
    /// As [`Connection::prepare`].
    pub fn prepare(&mut self, sql: &str) -> Result<Statement> {
        self.connection.prepare(sql)
    }

    /// Runs a statement, and passes its rows on as they come; gives its command tag.
    async fn drive(
        &mut self,
        statement: impl ToStatement,
        params: impl Params,
        mut take: impl FnMut(Row) -> Result<()>,
    ) -> Result<CompactString> {
        let connection = &mut self.connection;
        if !matches!(connection.link, Link::Here(_)) {
            return drive_there(connection, statement, params, take).await;
        }
        let statement = statement.to_statement(connection)?;
        let session = connection.session()?;
        let prepared = statement.prepared_on(session)?;
        let types = session.current_types(prepared.params())?;
        let params = bind(&params, &types, session.env())?;
        let running = session.start(&prepared, params)?;
        let mut work = AtWork { connection, running };
        let mut columns = super::row::columns_of(&prepared);
        loop {
            let mut rows = colibri_sql::Rows::default();
            let advanced = work.advance(&mut rows).await;
            let tag = work.connection.noted(advanced)?;
            if !rows.is_empty() {
                super::row::renew_columns(&mut columns, work.connection.session()?);
                let block = Arc::new(Block { columns: Arc::clone(&columns), rows });
                (0..block.rows.len()).try_for_each(|index| take(Row::new(&block, index)))?;
            }
            if let Some(tag) = tag {
                return Ok(tag);
            }
        }
    }

    /// As [`Connection::execute`].
    ///
    /// # Errors
    /// The statement's.
    pub async fn execute(&mut self, statement: impl ToStatement, params: impl Params) -> Result<u64> {
        let tag = self.drive(statement, params, |_| Ok(())).await?;
        Ok(rows_of_tag(&tag))
    }

    /// As [`Connection::query`].
    ///
    /// # Errors
    /// The statement's.
    pub async fn query(&mut self, statement: impl ToStatement, params: impl Params) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.drive(statement, params, |row| {
            rows.push(row);
            Ok(())
        })
        .await?;
        Ok(rows)
    }

    /// As [`Connection::query_row`].
    ///
    /// # Errors
    /// As [`Connection::query_row`].
    pub async fn query_row(&mut self, statement: impl ToStatement, params: impl Params) -> Result<Row> {
        let row = self.query_opt(statement, params).await?;
        row.ok_or_else(|| Error::new(SqlState("P0002"), "query returned no rows"))
    }

    /// As [`Connection::query_opt`].
    ///
    /// # Errors
    /// As [`Connection::query_opt`].
    pub async fn query_opt(&mut self, statement: impl ToStatement, params: impl Params) -> Result<Option<Row>> {
        only_row(self.query(statement, params).await?)
    }

    /// Passes a statement's rows to a closure one by one, without keeping all of them in memory;
    /// gives their number. An error of the closure ends the statement.
    ///
    /// # Errors
    /// The statement's, and the closure's.
    pub async fn for_each(
        &mut self,
        statement: impl ToStatement,
        params: impl Params,
        take: impl FnMut(Row) -> Result<()>,
    ) -> Result<u64> {
        let tag = self.drive(statement, params, take).await?;
        Ok(rows_of_tag(&tag))
    }

    /// Runs a closure in a transaction, as [`Connection::transaction`] does.
    ///
    /// # Errors
    /// As [`Connection::transaction`].
    pub async fn transaction<T, E: From<Error>>(
        &mut self,
        run: impl AsyncFnMut(&mut Self) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.transaction_with(&TransactionOptions::new(), run).await
    }

    /// As [`AsyncConnection::transaction`], with options.
    ///
    /// # Errors
    /// As [`Connection::transaction`].
    pub async fn transaction_with<T, E: From<Error>>(
        &mut self,
        options: &TransactionOptions,
        mut run: impl AsyncFnMut(&mut Self) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if self.connection.transaction_state() != TransactionState::Idle {
            return Err(already_open().into());
        }
        let begin = options.begin();
        let mut attempt = 1;
        loop {
            let open = Open(self);
            open.0.execute(begin.as_str(), ()).await?;
            open.0.connection.conflicted = false;
            let result = match run(open.0).await {
                Ok(value) => open.0.commit().await.map(|()| value).map_err(E::from),
                Err(error) => Err(error),
            };
            let conflicted = open.0.connection.conflicted;
            drop(open);
            if result.is_ok() || !conflicted || options.is_last(attempt) {
                return result;
            }
            // A connection knows no timers, so it yields instead of sleeping, more often after each
            // attempt.
            for _ in 0..fastrand::u32(1..=(1 << attempt.min(8))) {
                let_others_run().await;
            }
            attempt += 1;
        }
    }

    async fn commit(&mut self) -> Result<()> {
        let failed = self.connection.transaction_state() != TransactionState::Open;
        self.execute("COMMIT", ()).await?;
        if failed { Err(failed_inside()) } else { Ok(()) }
    }

    /// The connection's transaction state.
    #[must_use]
    pub fn transaction_state(&self) -> TransactionState {
        self.connection.transaction_state()
    }

    /// A handle that cancels this connection's statements from elsewhere.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        self.connection.cancel_handle()
    }

    /// Turns it into a blocking connection.
    #[must_use]
    pub fn into_blocking(self) -> Connection {
        self.connection
    }
}

/// Rolls the transaction back unless it was ended, also when the future is dropped.
struct Open<'c>(&'c mut AsyncConnection);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.0.connection.transaction_state() != TransactionState::Idle {
            // A rollback neither waits nor writes.
            _ = self.0.connection.execute("ROLLBACK", ());
        }
    }
}

//! Targets: the seam between workloads and databases.
//!
//! ```text
//! Target ─ connect ─→ Session { Batch, Connection }
//!
//! session.call(BEGIN);  session.call(READ).int(7);  session.run().await?;  session.answer(1).int(0, 0)
//! ```
//!
//! A workload fills the batch of its session with calls of prepared statements, and runs all of
//! them in one exchange. Values and answers live in buffers of the session, which keep their
//! memory.
//!
//! Invariants
//! - After a batch has failed, its transaction is rolled back, and the connection can be used again
//!   or [`Connection::is_broken`].
//! - Whether a commit happened is known, or the failure says [`Kind::Unknown`].
//!
//! Not here: when something is asked, and how long it took (`driver`).

pub(crate) mod batch;
pub(crate) mod colibri;
mod failure;
pub(crate) mod null;
pub(crate) mod outer;
pub(crate) mod postgres;
#[cfg(feature = "rivals")]
pub(crate) mod sqlite;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

pub(crate) use batch::{Answer, Batch, Call, Cell, StatementId, Table, Values};
pub(crate) use failure::{Failure, Kind};

/// A future of a trait object, for what is not done often.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The statements that every connection has, before those of the workload.
pub(crate) const BEGIN: StatementId = StatementId(0);
pub(crate) const BEGIN_READ_ONLY: StatementId = StatementId(1);
pub(crate) const COMMIT: StatementId = StatementId(2);
pub(crate) const ROLLBACK: StatementId = StatementId(3);
/// The first one of the workload.
pub(crate) const FIRST: u16 = 4;

/// The isolation level of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Isolation {
    /// The target's default.
    Default,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

impl Isolation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }

    /// The texts of [`BEGIN`], [`BEGIN_READ_ONLY`], [`COMMIT`] and [`ROLLBACK`].
    pub(crate) fn control(self) -> [String; FIRST as usize] {
        let level = match self {
            Self::Default => String::new(),
            other => format!(" ISOLATION LEVEL {}", other.name().to_uppercase()),
        };
        [format!("BEGIN{level}"), format!("BEGIN{level} READ ONLY"), "COMMIT".to_owned(), "ROLLBACK".to_owned()]
    }
}

/// The texts of all statements of a run, by number.
pub(crate) fn texts(isolation: Isolation, of_workload: impl IntoIterator<Item = String>) -> Arc<[String]> {
    isolation.control().into_iter().chain(of_workload).collect()
}

/// Which statements write rows: what they are given is what a database has to keep.
pub(crate) fn writes(texts: &[String]) -> Arc<[bool]> {
    let writes = |text: &String| {
        let word = text.split_whitespace().next().unwrap_or_default();
        ["insert", "update", "delete"].iter().any(|writes| word.eq_ignore_ascii_case(writes))
    };
    texts.iter().map(writes).collect()
}

/// Where the target's processes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Here: costs of target and generator come as one.
    InProcess,
    /// Elsewhere.
    Outside,
    /// The target costs nothing.
    Nowhere,
}

/// What a target counts itself, since some moment. A figure that it does not report is `None`,
/// never zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Flushes of the log: those that commits wait for.
    pub(crate) log_flushes: Option<u64>,
    /// Bytes that it gave to the kernel to write: log and pages.
    pub(crate) written_bytes: Option<u64>,
    /// Bytes that it asked the kernel for, which may have had them in memory.
    pub(crate) read_bytes: Option<u64>,
    /// Disk space of data and log now.
    pub(crate) disk_bytes: Option<u64>,
}

impl Counts {
    /// The difference since `earlier`; disk space is the present one.
    pub(crate) fn since(self, earlier: Self) -> Self {
        let more = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            log_flushes: more(self.log_flushes, earlier.log_flushes),
            written_bytes: more(self.written_bytes, earlier.written_bytes),
            read_bytes: more(self.read_bytes, earlier.read_bytes),
            disk_bytes: self.disk_bytes,
        }
    }
}

/// A database, or the control group.
pub(crate) trait Target: Send + Sync {
    /// As the command line has it, without passwords.
    fn name(&self) -> String;

    /// Version, durability and whatever else a reader of the result has to know.
    fn about(&self) -> Boxed<'_, String>;

    fn place(&self) -> Place;

    /// A session whose connection has these statements prepared, at the places that they have in
    /// the list.
    fn connect<'a>(&'a self, statements: &'a [String]) -> Boxed<'a, Result<Session, Failure>>;

    /// The directory of the database, if it is on this machine and known.
    fn dir(&self) -> Option<&std::path::Path> {
        None
    }

    /// Its process, if it is one that this process has started.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// Sessions that it can have at once.
    fn sessions_max(&self) -> u32 {
        u32::MAX
    }

    /// What it counts, now.
    fn counts(&self) -> Boxed<'_, Counts> {
        Box::pin(async { Counts::default() })
    }

    /// Whether it stores data. Otherwise there is nothing to load and to check.
    fn keeps_data(&self) -> bool {
        true
    }
}

/// One connection. Everything but [`Connection::poll_run`] is for setting up and checking.
pub(crate) trait Connection: Send {
    /// Goes on with all calls of a batch, which stays the same until this is ready, and puts their
    /// answers into it.
    ///
    /// # Errors
    /// The first call that fails; those after it are not made.
    fn poll_run(&mut self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<(), Failure>>;

    /// Whether the connection is unusable. It is, too, if the last run was dropped before its end.
    fn is_broken(&self) -> bool;

    /// Runs one statement, and gives all its rows; not within a transaction of a batch.
    fn query<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, Result<Table, Failure>>;

    /// Begins `COPY … FROM STDIN`.
    fn copy_begin<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, Result<(), Failure>>;

    /// Sends a piece of the rows, in PostgreSQL's text format.
    fn copy_data<'a>(&'a mut self, bytes: &'a [u8]) -> Boxed<'a, Result<(), Failure>>;

    /// Ends the COPY; gives the number of rows.
    fn copy_end(&mut self) -> Boxed<'_, Result<u64, Failure>>;
}

/// A connection with buffers for calls and answers.
pub(crate) struct Session {
    connection: Box<dyn Connection>,
    batch: Batch,
    /// The answers in the batch are those of the last run: the next call begins a new batch.
    is_answered: bool,
    is_given_up: bool,
    /// How long runs took since [`Session::take_wire`].
    wire: Duration,
    /// When the last run was over.
    answered: Option<Instant>,
    /// Which statements write rows, by number.
    writes: Arc<[bool]>,
    /// Bytes of rows that were written since [`Session::take_row_bytes`].
    row_bytes: u64,
    /// Attempts that a transaction has repeated by itself since [`Session::take_repeated`].
    repeated: u32,
}

impl Session {
    pub(crate) fn new(connection: impl Connection + 'static) -> Self {
        Self {
            connection: Box::new(connection),
            batch: Batch::default(),
            is_answered: false,
            is_given_up: false,
            wire: Duration::ZERO,
            answered: None,
            writes: Arc::default(),
            row_bytes: 0,
            repeated: 0,
        }
    }

    /// Makes it count the bytes of rows that these statements write; [`writes`] says which
    /// statements do.
    pub(crate) fn count_writes(&mut self, writes: &Arc<[bool]>) {
        self.writes = Arc::clone(writes);
    }

    /// Adds a call to the batch; its parameters follow.
    pub(crate) fn call(&mut self, statement: StatementId) -> Call<'_> {
        if std::mem::take(&mut self.is_answered) {
            self.batch.clear();
        }
        self.batch.call(statement)
    }

    /// Runs the batch.
    ///
    /// # Errors
    /// The first call that failed. The transaction is rolled back.
    pub(crate) async fn run(&mut self) -> Result<(), Failure> {
        let begun = Instant::now();
        let Self { connection, batch, .. } = self;
        let done = poll_fn(|cx| connection.poll_run(cx, batch)).await;
        self.is_answered = true;
        let answered = Instant::now();
        self.wire += answered - begun;
        self.answered = Some(answered);
        if done.is_ok() && !self.writes.is_empty() {
            let writes = &self.writes;
            self.row_bytes += batch.params_bytes(|statement| writes.get(usize::from(statement.0)) == Some(&true));
        }
        done
    }

    /// The answer to a call of the last batch, by its place there.
    pub(crate) fn answer(&self, call: usize) -> Answer<'_> {
        self.batch.answer(call)
    }

    /// How long runs have taken since the last time this was asked.
    pub(crate) fn take_wire(&mut self) -> Duration {
        std::mem::take(&mut self.wire)
    }

    /// When the last run was over, if there was one since the last time this was asked.
    pub(crate) fn take_answered(&mut self) -> Option<Instant> {
        self.answered.take()
    }

    /// Bytes of rows that were written since the last time this was asked: of the parameters of
    /// statements that insert, update or delete, eight for a number or a time, and its length for a
    /// text.
    pub(crate) fn take_row_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.row_bytes)
    }

    /// Counts that a transaction repeats a part of itself after a conflict.
    pub(crate) fn repeats(&mut self) {
        self.repeated += 1;
    }

    /// How many repetitions were counted since the last call.
    pub(crate) fn take_repeated(&mut self) -> u32 {
        std::mem::take(&mut self.repeated)
    }

    /// Forgets a batch that was filled and not run.
    pub(crate) fn reset(&mut self) {
        self.batch.clear();
        self.is_answered = false;
    }

    /// Whether its connection is unusable.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_given_up || self.connection.is_broken()
    }

    /// Marks it as unusable, whatever the state of its connection.
    pub(crate) fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// See [`Connection::query`].
    pub(crate) async fn query(&mut self, sql: &str) -> Result<Table, Failure> {
        self.connection.query(sql).await
    }

    /// Runs a query whose result is one number.
    ///
    /// # Errors
    /// The target's, or that there is none.
    pub(crate) async fn count(&mut self, sql: &str) -> Result<i64, Failure> {
        let table = self.connection.query(sql).await.map_err(|failure| failure.doing(sql))?;
        table.answer().decimal(0, 0, 0).ok_or_else(|| Failure::answer("a count is missing").doing(sql))
    }

    /// Runs statements one after the other.
    pub(crate) async fn execute_all(&mut self, statements: &[&str]) -> Result<(), Failure> {
        for sql in statements {
            self.connection.query(sql).await.map_err(|failure| failure.doing(sql))?;
        }
        Ok(())
    }

    /// See [`Connection::copy_begin`].
    pub(crate) async fn copy_begin(&mut self, sql: &str) -> Result<(), Failure> {
        self.connection.copy_begin(sql).await.map_err(|failure| failure.doing(sql))
    }

    /// See [`Connection::copy_data`].
    pub(crate) async fn copy_data(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.connection.copy_data(bytes).await
    }

    /// See [`Connection::copy_end`].
    pub(crate) async fn copy_end(&mut self) -> Result<u64, Failure> {
        self.connection.copy_end().await
    }
}

//! Sessions driven by hand in one thread: a statement that has to wait says so, and goes on when it
//! is told to.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "tests, each of which uses some of it")]

use std::sync::Arc;
use std::time::Instant;

use colibri_sql::{Answer, Engine, Error, Progress, ResultColumn, Rows, Running, Session};
use colibri_storage::{Durability, TxnId};
use colibri_txn::{LockWait, MemoryOptions, MemoryStore};

#[path = "../stores/mod.rs"]
pub mod stores;

pub const SERIALIZABLE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";
pub const READ_COMMITTED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
pub const BOTH: [&str; 2] = [SERIALIZABLE, READ_COMMITTED];

/// What a fetch takes off a budget of rows: each step has one of its own.
const FETCH_ROWS: i64 = 8;

/// A database in a directory that goes away with it.
pub struct TestDatabase {
    pub engine: Arc<Engine>,
    pub dir: tempfile::TempDir,
    memory: Option<MemoryStore>,
}

impl TestDatabase {
    pub fn with(durability: Durability) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (engine, memory) = stores::open(dir.path(), durability);
        Self { engine, dir, memory }
    }

    /// On a store in memory, with what statements made of it.
    pub fn in_memory(options: MemoryOptions, setup: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (engine, memory) = stores::open_in_memory(dir.path(), options);
        let database = Self { engine, dir, memory: Some(memory) };
        database.session().run(setup).unwrap();
        database
    }

    /// With what statements made of it.
    pub fn new(setup: &str) -> Self {
        let database = Self::with(Durability::NoSync);
        database.session().run(setup).unwrap();
        database
    }

    /// Sets the percentage of commits that the store in memory refuses. The storage engine refuses
    /// none.
    pub fn refuse_commits(&self, percent: u32) {
        if let Some(memory) = &self.memory {
            memory.refuse_commits(percent);
        }
    }

    pub fn session(&self) -> Session {
        Session::new(&self.engine, "postgres")
    }

    pub fn client(&self) -> Client {
        Client {
            session: self.session(),
            columns: Vec::new(),
            running: None,
            texts: Vec::new(),
            wait: None,
            place: (TxnId(0), 0),
        }
    }

    /// A client in a transaction block.
    pub fn begun(&self, begin: &str) -> Client {
        let mut client = self.client();
        client.ok(begin);
        client
    }

    /// What a query gives outside of all transactions.
    pub fn now(&self, query: &str) -> Vec<String> {
        self.client().ok(query)
    }
}

/// What came of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Its rows, columns side by side, and its tag.
    Done(Vec<String>, String),
    /// The error's code and message.
    Failed(&'static str, String),
    Waits,
    /// Its budget of rows is used up.
    Yields,
}

/// A session, and the statement it is at.
pub struct Client {
    pub session: Session,
    columns: Vec<ResultColumn>,
    running: Option<Running>,
    texts: Vec<String>,
    wait: Option<LockWait>,
    /// Where the transaction that ended last stands among all: the storage's transaction, and the
    /// order among those of one; who has only read comes last.
    pub place: (TxnId, u64),
}

impl Client {
    /// Starts a statement, and runs it until it ends or waits.
    pub fn send(&mut self, text: &str) -> Reply {
        self.send_slice(text, i64::MAX)
    }

    /// Starts a statement, for so many rows looked at.
    pub fn send_slice(&mut self, text: &str, budget_rows: i64) -> Reply {
        assert!(self.running.is_none(), "{text}: the statement before has not ended");
        let started = self.session.prepare(text, &[]).and_then(|prepared| {
            self.columns = prepared.columns().unwrap_or_default().to_vec();
            self.session.start(&prepared, Vec::new())
        });
        match started {
            Ok(running) => self.running = Some(running),
            Err(error) => return Reply::failed(&error),
        }
        self.texts.clear();
        self.step(budget_rows)
    }

    pub fn is_parked(&self) -> bool {
        self.wait.as_ref().is_some_and(|wait| !wait.is_over())
    }

    pub fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// Goes on with the statement.
    pub fn step(&mut self, mut budget_rows: i64) -> Reply {
        if let Some(wait) = self.wait.take_if(|wait| wait.is_over()) {
            drop(wait);
        }
        if self.wait.is_some() {
            return Reply::Waits;
        }
        let running = self.running.as_mut().expect("there is a statement to go on with");
        let mut rows = Rows::default();
        let reply = loop {
            match self.session.step(running, &mut rows, budget_rows) {
                Ok(Progress::Rows) => {
                    let rows = std::mem::take(&mut rows);
                    let answer = Answer { columns: self.columns.clone(), rows, tag: String::new().into() };
                    let shown = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
                    let line = |row: Vec<Option<String>>| row.into_iter().map(shown).collect::<Vec<_>>().join(" ");
                    self.texts.extend(answer.text_rows(&self.session).into_iter().map(line));
                }
                Ok(Progress::Yield) => return Reply::Yields,
                Ok(Progress::Wait(wait)) => {
                    if !wait.is_over() {
                        self.wait = Some(wait);
                        return Reply::Waits;
                    }
                }
                Ok(Progress::Fetch(wait)) => {
                    wait.wait();
                    if budget_rows < i64::MAX {
                        budget_rows -= FETCH_ROWS;
                    }
                    if budget_rows <= 0 {
                        return Reply::Yields;
                    }
                }
                Ok(Progress::Sleep(until)) => std::thread::sleep(until.saturating_duration_since(Instant::now())),
                Ok(Progress::Commits(turn)) => turn.wait(),
                Ok(Progress::Done(completion)) => {
                    if let Some(ticket) = completion.ticket {
                        let place = ticket.committed().map(|committed| (committed.txn, committed.sequence));
                        self.place = place.unwrap_or((ticket.seen(), u64::MAX));
                        ticket.wait().unwrap();
                    }
                    break Ok(completion.tag);
                }
                Err(error) => break Err(error),
            }
        };
        self.running = None;
        let texts = std::mem::take(&mut self.texts);
        match reply {
            Ok(tag) => Reply::Done(texts, tag.into()),
            Err(error) => Reply::failed(&error),
        }
    }

    /// Runs a statement that neither waits nor fails; its rows.
    #[track_caller]
    pub fn ok(&mut self, text: &str) -> Vec<String> {
        let reply = self.send(text);
        reply.rows(text)
    }

    /// Runs a statement that fails; its error's code.
    #[track_caller]
    pub fn fails(&mut self, text: &str) -> &'static str {
        let reply = self.send(text);
        reply.code(text)
    }

    /// Starts a statement that has to wait.
    #[track_caller]
    pub fn waits(&mut self, text: &str) {
        assert_eq!(self.send(text), Reply::Waits, "{text}");
    }

    /// Goes on with a statement that has to wait no more.
    #[track_caller]
    pub fn then_ok(&mut self) -> Vec<String> {
        let reply = self.step(i64::MAX);
        reply.rows("what waited")
    }

    /// Goes on with a statement that will fail.
    #[track_caller]
    pub fn then_fails(&mut self) -> &'static str {
        let reply = self.step(i64::MAX);
        reply.code("what waited")
    }
}

impl Reply {
    fn failed(error: &Error) -> Self {
        Self::Failed(error.state().0, error.to_string())
    }

    #[track_caller]
    pub fn rows(self, text: &str) -> Vec<String> {
        match self {
            Self::Done(rows, _) => rows,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[track_caller]
    pub fn code(self, text: &str) -> &'static str {
        match self {
            Self::Failed(code, _) => code,
            other => panic!("{text}: {other:?}"),
        }
    }
}

//! SQLite in process: the most widespread embedded SQL database.
//!
//! | module | holds |
//! | --- | --- |
//! | `dialect` | PostgreSQL's statements, types and values as SQLite takes them |
//! | `turns` | writers, one after the other |
//!
//! It is set up for speed and durability: a write-ahead log, a connection per session, statements
//! prepared once, mapped reads, a checkpoint every 10,000 pages instead of 1,000. SQLite has one
//! writer at a time. Others sleep for longer and longer, and the one that wakes at the right moment
//! is next. So writers queue up here before they call SQLite, as they would in a program that has
//! several: SQLite is then never busy, and no writer starves.
//!
//! Calls block, mostly for a flush. They are made on the thread of the task: handing each to
//! another thread would cost more than most calls. Since only one writer is under way, one thread
//! more than there are CPUs keeps all CPUs at work.
//!
//! Invariants
//! - A connection that has begun a writing transaction has the turn until the transaction has
//!   ended.
//! - A connection waits for the turn before it does anything. So a transaction that has begun waits
//!   for nothing, except for what its workload waits for.
//!
//! Not here: other processes with the same file, for which SQLite waits itself.

mod dialect;
mod turns;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use colibri::Durability;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{CachedStatement, ErrorCode};

use crate::sql::SQLITE_FILE;
use crate::sql::target::batch::AnswerWriter;
use crate::sql::target::{
    BEGIN, BEGIN_READ_ONLY, Batch, Boxed, COMMIT, Cell, Connection, Failure, Place, ROLLBACK, Session, StatementId,
    Table, Target, Values,
};
use dialect::{Fields, Kind, Schema};
use turns::{Turn, Turns};

/// How long SQLite itself waits for a lock: only another process can have it.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);
const CACHE_MIB: u32 = 64;
const CHECKPOINT_PAGES: u32 = 10_000;
/// Statements that a connection keeps prepared: more than any workload has.
const STATEMENTS_MAX: usize = 256;

/// A database of this process.
pub(crate) struct Sqlite {
    dir: PathBuf,
    path: PathBuf,
    durability: Durability,
    turns: Arc<Turns>,
}

fn failure(error: &rusqlite::Error) -> Failure {
    let state = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "40001",
        Some(ErrorCode::ConstraintViolation) => "23000",
        Some(ErrorCode::DiskFull) => "53100",
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => "58030",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => "XX001",
        _ => "XX000",
    };
    Failure::sql(state, error.to_string())
}

impl Sqlite {
    /// Opens the database in a directory, or makes one there.
    pub(crate) fn open(dir: &Path, durability: Durability) -> Result<Self, Failure> {
        std::fs::create_dir_all(dir).map_err(|e| Failure::sql("58030", format!("{}: {e}", dir.display())))?;
        let path = dir.join(SQLITE_FILE);
        let sqlite = Self { dir: dir.to_owned(), path, durability, turns: Arc::default() };
        // The journal's mode is a property of the file: it is set before there are several
        // connections.
        sqlite.open_connection()?.execute_batch("PRAGMA journal_mode = WAL").map_err(|e| failure(&e))?;
        Ok(sqlite)
    }

    fn synchronous(&self) -> &'static str {
        match self.durability {
            Durability::NoSync => "OFF",
            Durability::Lazy { .. } => "NORMAL",
            _ => "FULL",
        }
    }

    fn open_connection(&self) -> Result<rusqlite::Connection, Failure> {
        let connection = rusqlite::Connection::open(&self.path).map_err(|e| failure(&e))?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(|e| failure(&e))?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        let settings = format!(
            "PRAGMA synchronous = {}; PRAGMA cache_size = -{}; PRAGMA mmap_size = 2147418112; PRAGMA wal_autocheckpoint = \
             {CHECKPOINT_PAGES};",
            self.synchronous(),
            CACHE_MIB << 10
        );
        connection.execute_batch(&settings).map_err(|e| failure(&e))?;
        Ok(connection)
    }
}

impl Target for Sqlite {
    fn name(&self) -> String {
        "sqlite".to_owned()
    }

    fn about(&self) -> Boxed<'_, String> {
        let about = format!(
            "SQLite {} in process, WAL, synchronous={}, a checkpoint every {CHECKPOINT_PAGES} pages, cache of {CACHE_MIB} MiB a \
             connection, mapped reads, BEGIN IMMEDIATE for writers, who wait for each other in a queue; serializable",
            rusqlite::version(),
            self.synchronous()
        );
        Box::pin(async move { about })
    }

    fn place(&self) -> Place {
        Place::InProcess
    }

    fn connect<'a>(&'a self, statements: &'a [String]) -> Boxed<'a, Result<Session, Failure>> {
        Box::pin(async move {
            let connection = self.open_connection()?;
            let schema = Schema::read(&connection).map_err(|e| failure(&e))?;
            let prepare = |(number, text): (usize, &String)| {
                let prepared = Prepared::control(StatementId(number as u16))
                    .map_or_else(|| Prepared::new(&connection, &schema, text), Ok);
                prepared.map_err(|e| failure(&e).doing(text))
            };
            let prepared = statements.iter().enumerate().map(prepare).collect::<Result<_, _>>()?;
            let turns = Arc::clone(&self.turns);
            Ok(Session::new(InProcess { connection, prepared, turns, turn: None, is_waiting: false, copy: None }))
        })
    }

    fn dir(&self) -> Option<&Path> {
        Some(&self.dir)
    }
}

/// What a statement does to the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Begins one that will write.
    Begins,
    /// Ends it.
    Ends,
    Reads,
    Writes,
}

/// A statement in SQLite's words, and what its columns are.
#[derive(Debug)]
struct Prepared {
    text: String,
    effect: Effect,
    columns: Vec<Kind>,
}

impl Prepared {
    /// The statements that every connection has. They name no isolation level, as SQLite has one
    /// only.
    fn control(statement: StatementId) -> Option<Self> {
        let (text, effect) = match statement {
            BEGIN => ("BEGIN IMMEDIATE", Effect::Begins),
            BEGIN_READ_ONLY => ("BEGIN", Effect::Reads),
            COMMIT => ("COMMIT", Effect::Ends),
            ROLLBACK => ("ROLLBACK", Effect::Ends),
            _ => return None,
        };
        Some(Self { text: text.to_owned(), effect, columns: Vec::new() })
    }

    fn new(connection: &rusqlite::Connection, schema: &Schema, text: &str) -> rusqlite::Result<Self> {
        let text = dialect::statement(text);
        let statement = connection.prepare_cached(&text)?;
        let effect = if statement.readonly() { Effect::Reads } else { Effect::Writes };
        let columns = statement.columns().map(|column| schema.kind(column.decl_type(), column.name())).collect();
        drop(statement);
        Ok(Self { text, effect, columns })
    }

    /// One that is run once.
    fn once(connection: &rusqlite::Connection, sql: &str) -> rusqlite::Result<Self> {
        let control = match sql {
            "BEGIN" => Some(BEGIN),
            "COMMIT" => Some(COMMIT),
            "ROLLBACK" => Some(ROLLBACK),
            _ => None,
        };
        match control.and_then(Self::control) {
            Some(control) => Ok(control),
            None => Self::new(connection, &Schema::default(), sql),
        }
    }
}

/// Rows of a COPY that are coming.
struct Copy {
    insert: String,
    columns: Vec<Kind>,
    /// A row whose end has not come yet.
    rest: Vec<u8>,
    rows: u64,
}

struct InProcess {
    connection: rusqlite::Connection,
    prepared: Vec<Prepared>,
    turns: Arc<Turns>,
    turn: Option<Turn>,
    /// The turn has been asked for, and not been given yet.
    is_waiting: bool,
    copy: Option<Copy>,
}

fn bind(statement: &mut CachedStatement<'_>, cells: &[Cell], values: &Values) -> rusqlite::Result<()> {
    for (place, &cell) in cells.iter().enumerate() {
        let value = match cell {
            Cell::Null => ToSqlOutput::Owned(Value::Null),
            // A value with a scale is stored as a whole number of the column's smallest unit.
            Cell::Int(value) | Cell::Decimal { mantissa: value, .. } | Cell::Time(value) => {
                ToSqlOutput::Owned(Value::Integer(value))
            }
            Cell::Text { start, bytes } => ToSqlOutput::Borrowed(ValueRef::Text(values.bytes(start, bytes))),
        };
        statement.raw_bind_parameter(place + 1, value)?;
    }
    Ok(())
}

fn write(value: ValueRef<'_>, kind: Kind, out: &mut AnswerWriter<'_>) {
    match (value, kind) {
        (ValueRef::Null, _) => out.cell(Cell::Null),
        (ValueRef::Integer(value), Kind::Plain) => out.cell(Cell::Int(value)),
        (ValueRef::Integer(mantissa), Kind::Decimal(scale)) => out.cell(Cell::Decimal { mantissa, scale }),
        (ValueRef::Integer(micros), Kind::Time) => out.cell(Cell::Time(micros)),
        (ValueRef::Text(text) | ValueRef::Blob(text), _) => out.text(text),
        // A float is not exact, so it cannot be compared.
        (ValueRef::Real(value), _) => out.text(value.to_string().as_bytes()),
    }
}

/// Runs a statement to its end.
fn run(
    connection: &rusqlite::Connection,
    prepared: &Prepared,
    params: (&[Cell], &Values),
    out: &mut AnswerWriter<'_>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(&prepared.text)?;
    bind(&mut statement, params.0, params.1)?;
    let width = statement.column_count();
    let mut rows = statement.raw_query();
    let mut count = 0;
    while let Some(row) = rows.next()? {
        for column in 0..width {
            let kind = prepared.columns.get(column).copied().unwrap_or(Kind::Plain);
            write(row.get_ref(column)?, kind, out);
        }
        out.end_row(width);
        count += 1;
    }
    out.affected(if prepared.effect == Effect::Writes { connection.changes() } else { count });
    Ok(())
}

impl InProcess {
    /// Waits for the turn to write, if this statement begins a writing transaction.
    fn poll_turn(&mut self, cx: &mut Context<'_>, effect: Effect) -> Poll<()> {
        let is_in_transaction = !self.connection.is_autocommit();
        let wants = match effect {
            Effect::Begins => true,
            Effect::Writes => !is_in_transaction,
            Effect::Ends | Effect::Reads => false,
        };
        if wants {
            let turns = &self.turns;
            let turn = self.turn.get_or_insert_with(|| turns.ask());
            self.is_waiting = true;
            ready!(turn.poll_come(cx));
            self.is_waiting = false;
        }
        Poll::Ready(())
    }

    /// Gives the turn to the next writer if this transaction has ended.
    fn pass_turn(&mut self) {
        if self.connection.is_autocommit() {
            self.turn = None;
        }
    }

    fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            // It fails only if SQLite has rolled back by itself.
            _ = self.connection.execute_batch("ROLLBACK");
        }
        self.pass_turn();
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<(), Failure>> {
        while let Some(call) = batch.calls().get(batch.answers()) {
            let number = usize::from(call.statement.0);
            let Some(effect) = self.prepared.get(number).map(|prepared| prepared.effect) else {
                return Poll::Ready(Err(Failure::answer("a statement that was not prepared")));
            };
            ready!(self.poll_turn(cx, effect));
            let prepared = &self.prepared[number];
            let done = batch.answer_next(|params, out| run(&self.connection, prepared, params, out));
            done.map_err(|e| failure(&e).doing(&prepared.text))?;
            self.pass_turn();
        }
        Poll::Ready(Ok(()))
    }

    async fn run_once(&mut self, sql: &str) -> Result<Table, Failure> {
        let Some(text) = dialect::once(sql) else { return Ok(Table::default()) };
        let prepared = Prepared::once(&self.connection, &text).map_err(|e| failure(&e))?;
        std::future::poll_fn(|cx| self.poll_turn(cx, prepared.effect)).await;
        let mut batch = Batch::default();
        let done = run(&self.connection, &prepared, (&[], &Values::default()), &mut batch.begin_answer());
        self.pass_turn();
        done.map_err(|e| failure(&e))?;
        Ok(Table::new(batch))
    }

    fn copy_rows(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(copy) = &mut self.copy else { return Err(Failure::answer("no COPY is under way")) };
        copy.rest.extend_from_slice(bytes);
        let end = copy.rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let mut statement = self.connection.prepare_cached(&copy.insert).map_err(|e| failure(&e))?;
        for line in copy.rest[..end].split_inclusive(|&byte| byte == b'\n') {
            let line = &line[..line.len() - 1];
            for (place, field) in Fields::new(line, &copy.columns).enumerate() {
                let value = field.map_err(|reason| Failure::sql("22P04", reason))?;
                statement.raw_bind_parameter(place + 1, value).map_err(|e| failure(&e))?;
            }
            statement.raw_execute().map_err(|e| failure(&e))?;
            copy.rows += 1;
        }
        copy.rest.drain(..end);
        Ok(())
    }
}

impl Connection for InProcess {
    fn poll_run(&mut self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<(), Failure>> {
        let done = ready!(self.poll_batch(cx, batch));
        if done.is_err() {
            self.roll_back();
        }
        Poll::Ready(done)
    }

    fn is_broken(&self) -> bool {
        self.is_waiting
    }

    fn query<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, Result<Table, Failure>> {
        Box::pin(self.run_once(sql))
    }

    fn copy_begin<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async move {
            let schema = Schema::read(&self.connection).map_err(|e| failure(&e))?;
            let Some((insert, columns)) = dialect::copy(sql, &schema) else {
                return Err(Failure::answer("a COPY of another form than COPY table (columns) FROM STDIN"));
            };
            self.copy = Some(Copy { insert, columns, rest: Vec::new(), rows: 0 });
            Ok(())
        })
    }

    fn copy_data<'a>(&'a mut self, bytes: &'a [u8]) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async move { self.copy_rows(bytes) })
    }

    fn copy_end(&mut self) -> Boxed<'_, Result<u64, Failure>> {
        Box::pin(async move {
            match self.copy.take() {
                Some(copy) if copy.rest.is_empty() => Ok(copy.rows),
                Some(_) => Err(Failure::sql("22P04", "a COPY ends within a row")),
                None => Err(Failure::answer("no COPY is under way")),
            }
        })
    }
}

#[cfg(test)]
mod tests;

//! Colibri in process: sessions of its SQL engine, stepped by the tasks of the driver.
//!
//! Statements are prepared once a connection. A commit is answered when its ticket says that it may
//! be told, as a server would.

use std::future::poll_fn;
use std::mem;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use colibri::sql::engine::{
    Awaited, Completion, Copy, CopyFrom, Datum, Env, Numeric, Prepared, Progress, Rows, Running, Type, in_sql,
    rows_of_tag, wire,
};
use colibri::sql::{self, Database};
use colibri::{Durability, Options};
use colibri_txn::{CommitTicket, StoreWait};

use crate::sql::target::batch::AnswerWriter;
use crate::sql::target::{Batch, Boxed, Cell, Connection, Counts, Failure, Place, Session, Table, Target, Values};

/// Rows that a statement looks at before other tasks go on.
const BUDGET_ROWS: i64 = 4_096;

/// A database of this process.
pub(crate) struct Colibri {
    database: Database,
    dir: PathBuf,
    durability: Durability,
}

impl Colibri {
    /// Opens a directory, or makes a database there.
    pub(crate) fn open(dir: &Path, durability: Durability) -> Result<Self, Failure> {
        let database = Database::open_with(dir, &Options::new().durability(durability)).map_err(|e| failure(&e))?;
        Ok(Self { database, dir: dir.to_owned(), durability })
    }
}

impl Target for Colibri {
    fn name(&self) -> String {
        "colibri".to_owned()
    }

    fn about(&self) -> Boxed<'_, String> {
        let durability = match self.durability {
            Durability::NoSync => "commits are not flushed: not durable".to_owned(),
            Durability::Lazy { .. } => "commits are flushed later: durable with a delay".to_owned(),
            _ => "a commit is answered when it is on disk".to_owned(),
        };
        Box::pin(async move { format!("Colibri {} in process; {durability}", env!("CARGO_PKG_VERSION")) })
    }

    fn place(&self) -> Place {
        Place::InProcess
    }

    fn connect<'a>(&'a self, statements: &'a [String]) -> Boxed<'a, Result<Session, Failure>> {
        Box::pin(async move {
            let mut connection = self.database.connect();
            let session = session_of(&mut connection)?;
            let prepare = |text: &String| session.prepare(text, &[]).map_err(|e| failure(&e).doing(text));
            let prepared = statements.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
            Ok(Session::new(InProcess { connection, prepared, step: Step::Idle, rows: Rows::default(), copy: None }))
        })
    }

    fn dir(&self) -> Option<&Path> {
        Some(&self.dir)
    }

    fn counts(&self) -> Boxed<'_, Counts> {
        let log_flushes =
            self.database.storage().ok().and_then(|storage| storage.stat().ok()).map(|stat| stat.log_flushes);
        // Bytes are on the account of this process; without a log none of it is flushed for a
        // commit alone.
        Box::pin(async move { Counts { log_flushes, ..Counts::default() } })
    }
}

/// The state of the current call.
enum Step {
    Idle,
    Running(Running),
    /// Waits for a lock, or for commits of others.
    Waiting(Running, Boxed<'static, ()>),
    /// It is done. Holds the number of rows, and the ticket that says when it may be told of.
    Telling(u64, CommitTicket),
}

struct InProcess {
    connection: sql::Connection,
    prepared: Vec<Arc<Prepared>>,
    step: Step,
    rows: Rows,
    copy: Option<CopyFrom>,
}

fn failure(error: &sql::Error) -> Failure {
    Failure::sql(error.state().0, error.to_string())
}

/// The session of a connection: what is measured is in this process.
fn session_of(connection: &mut sql::Connection) -> Result<&mut sql::engine::Session, Failure> {
    connection.session().map_err(|e| failure(&e))
}

/// A parameter as the statement wants it.
///
/// # Errors
/// A text that is no value of that type.
fn datum(cell: Cell, values: &Values, ty: Type) -> Result<Datum, Failure> {
    Ok(match cell {
        Cell::Null => Datum::Null,
        Cell::Int(value) if ty == Type::Numeric => Datum::Numeric(Numeric::new(value.into(), 0)),
        Cell::Int(value) => Datum::Int(value),
        Cell::Decimal { mantissa, scale } => Datum::Numeric(Numeric::new(mantissa.into(), scale)),
        Cell::Time(micros) => Datum::Timestamp(micros),
        Cell::Text { start, bytes } => {
            let text = values.bytes(start, bytes);
            wire::read(ty, wire::Format::Text, text, &Env::default()).map_err(|e| failure(&e))?
        }
    })
}

fn write(datum: &Datum, out: &mut AnswerWriter<'_>) {
    out.cell(match datum {
        Datum::Null => Cell::Null,
        Datum::Bool(value) => Cell::Int(i64::from(*value)),
        Datum::Int(value) => Cell::Int(*value),
        Datum::Numeric(value) => match value.small().map(|(mantissa, scale)| (i64::try_from(mantissa), scale)) {
            Some((Ok(mantissa), scale)) => Cell::Decimal { mantissa, scale },
            _ => return out.text(format!("{value:?}").as_bytes()),
        },
        Datum::Timestamp(micros) => Cell::Time(*micros),
        Datum::Text(text) => return out.text(text.as_bytes()),
        other => return out.text(&text(other)),
    });
}

/// A value as a server would write it.
fn text(datum: &Datum) -> Vec<u8> {
    let ty = match datum {
        Datum::Float(_) => Type::Float8,
        Datum::Date(_) => Type::Date,
        Datum::Time(_) => Type::Time,
        Datum::Interval(_) => Type::Interval,
        Datum::Uuid(_) => Type::Uuid,
        Datum::Bytes(_) => Type::Bytea,
        other => return format!("{other:?}").into_bytes(),
    };
    let (mut scratch, mut out) = (String::new(), Vec::new());
    wire::write(ty.into(), wire::Format::Text, datum, &Env::default(), &mut scratch, &mut out);
    out
}

impl InProcess {
    fn start(&mut self, prepared: &Arc<Prepared>, params: Vec<Datum>) -> Result<(), Failure> {
        let running = session_of(&mut self.connection)?.start(prepared, params).map_err(|e| failure(&e))?;
        self.step = Step::Running(running);
        Ok(())
    }

    /// Goes on with the call that was started, to its end.
    fn poll_step(&mut self, cx: &mut Context<'_>, out: &mut AnswerWriter<'_>) -> Poll<Result<(), Failure>> {
        loop {
            match &mut self.step {
                Step::Idle => return Poll::Ready(Ok(())),
                Step::Running(_) => ready!(self.poll_running(cx, out))?,
                Step::Waiting(_, wait) => {
                    ready!(wait.as_mut().poll(cx));
                    let Step::Waiting(running, _) = mem::replace(&mut self.step, Step::Idle) else { continue };
                    self.step = Step::Running(running);
                }
                Step::Telling(_, ticket) => {
                    let told = ready!(Pin::new(ticket).poll(cx));
                    let Step::Telling(rows, ticket) = mem::replace(&mut self.step, Step::Idle) else { continue };
                    told.map_err(|e| failure(&in_sql(e)))?;
                    session_of(&mut self.connection)?.wait_durable(ticket).map_err(|e| failure(&e))?;
                    out.affected(rows);
                }
            }
        }
    }

    /// Goes on with a statement that runs, until it runs no more.
    fn poll_running(&mut self, cx: &mut Context<'_>, out: &mut AnswerWriter<'_>) -> Poll<Result<(), Failure>> {
        // In its place: moving a statement would cost more than a step of a short one.
        while let Step::Running(running) = &mut self.step {
            let progress = session_of(&mut self.connection)?.step(running, &mut self.rows, BUDGET_ROWS);
            for row in self.rows.iter() {
                row.iter().for_each(|datum| write(datum, out));
                out.end_row(row.len());
            }
            self.rows.clear();
            match progress {
                Ok(Progress::Rows) => {}
                Ok(Progress::Wait(wait)) => {
                    let Step::Running(running) = mem::replace(&mut self.step, Step::Idle) else { break };
                    self.step = Step::Waiting(running, Box::pin(wait));
                }
                Ok(Progress::Fetch(wait)) => {
                    let Step::Running(running) = mem::replace(&mut self.step, Step::Idle) else { break };
                    self.step = Step::Waiting(running, Box::pin(until_over(wait)));
                }
                Ok(Progress::Sleep(until)) => {
                    let Step::Running(running) = mem::replace(&mut self.step, Step::Idle) else { break };
                    self.step = Step::Waiting(running, Box::pin(colibri_runtime::sleep_until(until)));
                }
                Ok(Progress::Commits(turn)) => {
                    let Step::Running(running) = mem::replace(&mut self.step, Step::Idle) else { break };
                    self.step = Step::Waiting(running, Box::pin(turn));
                }
                Ok(Progress::Yield) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(Progress::Done(Completion { tag, ticket: None })) => {
                    self.step = Step::Idle;
                    out.affected(rows_of_tag(&tag));
                }
                Ok(Progress::Done(Completion { tag, ticket: Some(ticket) })) => {
                    self.step = Step::Telling(rows_of_tag(&tag), ticket);
                }
                Err(error) => {
                    self.step = Step::Idle;
                    return Poll::Ready(Err(failure(&error)));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<(), Failure>> {
        loop {
            if !matches!(self.step, Step::Idle) {
                ready!(self.poll_step(cx, &mut batch.last_answer()))?;
            }
            let Some(call) = batch.calls().get(batch.answers()) else { return Poll::Ready(Ok(())) };
            let prepared = Arc::clone(&self.prepared[usize::from(call.statement.0)]);
            let cells = batch.params(batch.answers());
            // With too few or too many parameters the statement says so.
            let types = prepared.params().iter().copied().chain(std::iter::repeat(Type::Text));
            let params = cells.iter().zip(types).map(|(&cell, ty)| datum(cell, batch.values(), ty));
            let params = params.collect::<Result<Vec<_>, _>>()?;
            batch.begin_answer();
            self.start(&prepared, params)?;
        }
    }

    /// Takes back what is open. This waits for nothing.
    fn roll_back(&mut self) {
        self.step = Step::Idle;
        if self.connection.transaction_state() != sql::TransactionState::Idle {
            _ = self.connection.execute("ROLLBACK", ());
        }
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
        !matches!(self.step, Step::Idle)
    }

    fn query<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, Result<Table, Failure>> {
        Box::pin(async move {
            let prepared = session_of(&mut self.connection)?.prepare(sql, &[]).map_err(|e| failure(&e))?;
            self.start(&prepared, Vec::new())?;
            let mut batch = Batch::default();
            batch.begin_answer();
            std::future::poll_fn(|cx| self.poll_step(cx, &mut batch.last_answer())).await?;
            Ok(Table::new(batch))
        })
    }

    fn copy_begin<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async move {
            match session_of(&mut self.connection)?.copy(sql).map_err(|e| failure(&e))? {
                Copy::From(copy) => self.copy = Some(copy),
                Copy::To(_) => return Err(Failure::answer("a COPY in the wrong direction")),
            }
            Ok(())
        })
    }

    fn copy_data<'a>(&'a mut self, bytes: &'a [u8]) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async move {
            let Some(copy) = &mut self.copy else { return Err(Failure::answer("no COPY is under way")) };
            let mut bytes = bytes;
            while let Some(wait) =
                session_of(&mut self.connection)?.copy_push(copy, mem::take(&mut bytes)).map_err(|e| failure(&e))?
            {
                match wait {
                    Awaited::Lock(lock) => lock.await,
                    Awaited::Fetch(fetch) => fetch.await,
                }
            }
            Ok(())
        })
    }

    fn copy_end(&mut self) -> Boxed<'_, Result<u64, Failure>> {
        Box::pin(async move {
            let Some(mut copy) = self.copy.take() else { return Err(Failure::answer("no COPY is under way")) };
            loop {
                match session_of(&mut self.connection)?.copy_finish(&mut copy).map_err(|e| failure(&e))? {
                    Progress::Wait(wait) => wait.await,
                    Progress::Fetch(wait) => wait.await,
                    Progress::Sleep(until) => colibri_runtime::sleep_until(until).await,
                    Progress::Commits(turn) => turn.await,
                    Progress::Rows | Progress::Yield => {}
                    Progress::Done(Completion { tag, ticket }) => {
                        if let Some(mut ticket) = ticket {
                            Pin::new(&mut ticket).await.map_err(|e| failure(&in_sql(e)))?;
                            session_of(&mut self.connection)?.wait_durable(ticket).map_err(|e| failure(&e))?;
                        }
                        return Ok(rows_of_tag(&tag));
                    }
                }
            }
        })
    }
}

/// Waits until a wait is over, or its deadline has come.
async fn until_over(wait: StoreWait) {
    let mut timer = pin!(wait.deadline().map(colibri_runtime::sleep_until));
    let mut wait = pin!(wait);
    poll_fn(|cx| {
        let is_late = timer.as_mut().as_pin_mut().is_some_and(|timer| timer.poll(cx).is_ready());
        if wait.as_mut().poll(cx).is_ready() || is_late { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

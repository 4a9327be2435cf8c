//! A database and its connections: transactions, statements, COPY, notifications.

use std::io::{Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use colibri::sql::{self, CancelHandle, CopyDirection, Error, Next, Result, SqlState, TransactionState};
use colibri::{Durability, Options};
use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::arrow::ArrowStream;
use crate::cursor::{Cursor, bound};
use crate::failure::{OrRaise, exception, interface_error, report};
use crate::placeholders::convert;

/// Something that only the process may use, and end, that has made it.
pub(crate) struct OfProcess<T> {
    inner: ManuallyDrop<Option<T>>,
    pid: u32,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner: ManuallyDrop::new(Some(inner)), pid: std::process::id() }
    }

    pub(crate) fn get(&mut self) -> Result<&mut T> {
        if self.pid != std::process::id() {
            return Err(interface_error("the process was forked after the database was opened")
                .hint("Open it in the child, after the parent has closed it."));
        }
        self.inner.as_mut().ok_or_else(|| interface_error("it is closed"))
    }

    /// What a parent process has made.
    fn of_parent(&self) -> Option<&T> {
        self.inner.as_ref().filter(|_| self.pid != std::process::id())
    }

    /// Ends it, if it is this process's.
    pub(crate) fn end(&mut self) -> Option<T> {
        if self.pid == std::process::id() { self.inner.take() } else { None }
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// A directory that is open for SQL.
#[pyclass(frozen, weakref, module = "colibri._colibri")]
pub(crate) struct Database {
    database: Mutex<OfProcess<sql::Database>>,
}

/// What a name of a durability stands for.
pub(crate) fn durability(name: &str) -> Result<Durability> {
    match name {
        "sync" => Ok(Durability::Sync),
        "lazy" => Ok(Durability::LAZY),
        "nosync" => Ok(Durability::NoSync),
        _ => Err(interface_error(format!("durability is \"sync\", \"lazy\" or \"nosync\", not \"{name}\""))),
    }
}

#[pymethods]
impl Database {
    #[new]
    #[pyo3(signature = (path, durability = "sync", create = true))]
    fn open(py: Python<'_>, path: std::path::PathBuf, durability: &str, create: bool) -> PyResult<Self> {
        let options = Options::new().durability(self::durability(durability).or_raise()?).create(create);
        let database = py.detach(|| sql::Database::open_with(path, &options)).or_raise()?;
        Ok(Self { database: Mutex::new(OfProcess::new(database)) })
    }

    /// A session of a user.
    #[pyo3(signature = (user = None))]
    fn connect(&self, py: Python<'_>, user: Option<&str>) -> PyResult<Connection> {
        let connected = py.detach(|| -> Result<sql::Connection> {
            let database = self.database.lock().get()?.clone();
            database.try_connect_as(user.unwrap_or("colibri"))
        });
        let connection = connected.or_raise()?;
        let cancel = connection.cancel_handle();
        let state = State {
            connection: OfProcess::new(connection),
            autocommit: false,
            copying: None,
            signal: None,
            begin: "BEGIN".to_owned(),
        };
        Ok(Connection { state: Arc::new(Mutex::new(state)), cancel })
    }

    /// A database of its own that begins as what is committed here, and goes with its last connection.
    fn fresh(&self, py: Python<'_>) -> PyResult<Self> {
        let database = py.detach(|| {
            let database = self.database.lock().get()?.clone();
            database.fresh()
        });
        Ok(Self { database: Mutex::new(OfProcess::new(database.or_raise()?)) })
    }

    /// In a process that was forked: lets go of the lock that keeps other processes out.
    fn leave_to_parent(&self) {
        // A thread of the parent's may have had the mutex; it is not in this process.
        if let Some(database) = self.database.try_lock()
            && let Some(database) = database.of_parent()
        {
            database.leave_to_parent();
        }
    }

    /// Writes a full backup to a file.
    fn backup(&self, py: Python<'_>, path: std::path::PathBuf) -> PyResult<()> {
        let done = py.detach(|| {
            let storage = self.database.lock().get()?.storage()?;
            let failed = |error: std::io::Error| Error::new(SqlState::IO_ERROR, format!("{}: {error}", path.display()));
            let mut out = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(&path).map_err(failed)?);
            storage.backup(None, &mut out).map_err(sql::engine::in_sql)?;
            out.flush().map_err(failed)
        });
        done.or_raise()
    }
}

/// What a connection has, under its mutex.
pub(crate) struct State {
    pub(crate) connection: OfProcess<sql::Connection>,
    pub(crate) autocommit: bool,
    copying: Option<Copying>,
    signal: Option<Arc<Signal>>,
    /// The statement that begins a transaction.
    begin: String,
}

/// The COPY that is open.
#[derive(Clone, Copy, PartialEq)]
enum Copying {
    In,
    Out,
    /// All data were given.
    Over,
}

/// A descriptor that is readable when it is time to go on.
struct Signal {
    reader: UnixStream,
    writer: UnixStream,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // If it is full, it is readable already.
        _ = (&self.writer).write(&[1]);
    }
}

impl State {
    /// The connection, with nothing open on it.
    pub(crate) fn at_rest(&mut self) -> Result<&mut sql::Connection> {
        if self.copying.is_some() {
            return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, "a COPY of this connection is open"));
        }
        self.connection.get()
    }

    /// Begins a transaction if there is none, and one is to be open.
    pub(crate) fn begin(&mut self) -> Result<()> {
        let (begins, begin) = (!self.autocommit, self.begin.clone());
        let connection = self.at_rest()?;
        if begins && connection.transaction_state() == TransactionState::Idle {
            connection.execute(begin.as_str(), ())?;
        }
        Ok(())
    }

    fn signal(&mut self) -> Result<Arc<Signal>> {
        if let Some(signal) = &self.signal {
            return Ok(Arc::clone(signal));
        }
        let pair = || -> std::io::Result<Signal> {
            let (reader, writer) = UnixStream::pair()?;
            reader.set_nonblocking(true)?;
            writer.set_nonblocking(true)?;
            Ok(Signal { reader, writer })
        };
        let signal = Arc::new(
            pair()
                .map_err(|error| Error::new(SqlState::IO_ERROR, format!("there is no descriptor to poll: {error}")))?,
        );
        let rung = Arc::clone(&signal);
        self.connection.get()?.on_notification(move || rung.wake_by_ref());
        self.signal = Some(Arc::clone(&signal));
        Ok(signal)
    }

    /// A waker that makes the descriptor readable, which it is no more.
    pub(crate) fn waker(&mut self) -> Result<Waker> {
        let signal = self.signal()?;
        let mut bytes = [0; 64];
        while (&signal.reader).read(&mut bytes).is_ok_and(|count| count == bytes.len()) {}
        Ok(signal.into())
    }
}

/// A session.
#[pyclass(frozen, weakref, subclass, module = "colibri._colibri")]
pub(crate) struct Connection {
    pub(crate) state: Arc<Mutex<State>>,
    cancel: CancelHandle,
}

impl Connection {
    /// Runs a function on the connection, without the interpreter's lock.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&mut MutexGuard<'_, State>) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| run(&mut self.state.lock())).or_raise()
    }
}

#[pymethods]
impl Connection {
    /// Ends the session; an open transaction is rolled back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            state.copying = None;
            if let Some(mut connection) = state.connection.end() {
                connection.copy_cancel()?;
                connection.stop()?;
            }
            Ok(())
        })
    }

    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.state.lock().connection.get().is_err())
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            let connection = state.at_rest()?;
            let before = connection.transaction_state();
            if before != TransactionState::Idle {
                connection.execute("COMMIT", ())?;
            }
            if before == TransactionState::Failed {
                return Err(Error::new(
                    SqlState::FAILED_TRANSACTION,
                    "the transaction was rolled back, since a statement in it failed",
                ));
            }
            Ok(())
        })
    }

    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            state.copying = None;
            let connection = state.connection.get()?;
            connection.copy_cancel()?;
            connection.stop()?;
            if connection.transaction_state() != TransactionState::Idle {
                connection.execute("ROLLBACK", ())?;
            }
            Ok(())
        })
    }

    /// A cursor.
    #[pyo3(signature = ())]
    fn cursor(slf: Py<Self>) -> Cursor {
        Cursor::of(slf)
    }

    /// Runs a statement; gives a cursor with its rows.
    #[pyo3(signature = (sql, params = None))]
    fn execute(slf: Py<Self>, py: Python<'_>, sql: &str, params: Option<&Bound<'_, PyAny>>) -> PyResult<Py<Cursor>> {
        let cursor = Bound::new(py, Cursor::of(slf))?;
        Cursor::execute(cursor.clone(), sql, params)?;
        Ok(cursor.unbind())
    }

    /// Runs all statements of a text, one after the other.
    fn executescript(&self, py: Python<'_>, sql: &str) -> PyResult<()> {
        self.with(py, |state| state.at_rest()?.batch(sql))
    }

    #[getter]
    fn autocommit(&self, py: Python<'_>) -> bool {
        py.detach(|| self.state.lock().autocommit)
    }

    #[setter]
    fn set_autocommit(&self, py: Python<'_>, autocommit: bool) -> PyResult<()> {
        self.with(py, |state| {
            if state.connection.get()?.transaction_state() != TransactionState::Idle {
                return Err(Error::new(SqlState::ACTIVE_TRANSACTION, "a transaction is open")
                    .hint("Commit it, or roll it back."));
            }
            state.autocommit = autocommit;
            Ok(())
        })
    }

    /// What begins a transaction: "BEGIN", with an isolation level and others behind it.
    #[getter]
    fn begin_statement(&self, py: Python<'_>) -> String {
        py.detach(|| self.state.lock().begin.clone())
    }

    #[setter]
    fn set_begin_statement(&self, py: Python<'_>, begin: String) {
        py.detach(|| self.state.lock().begin = begin);
    }

    /// "idle", "open" or "failed".
    #[getter]
    fn transaction_status(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |state| {
            Ok(match state.connection.get()?.transaction_state() {
                TransactionState::Idle => "idle",
                TransactionState::Open => "open",
                TransactionState::Failed => "failed",
            })
        })
    }

    /// A setting, as SHOW gives it.
    fn setting(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        self.with(py, |state| state.connection.get()?.setting(name))
    }

    /// Ends what the connection is running, from another thread.
    fn cancel(&self) {
        self.cancel.cancel();
    }

    /// A descriptor that is readable when a polled statement is to be polled again, or
    /// notifications have arrived.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.with(py, |state| Ok(state.signal()?.reader.as_raw_fd()))
    }

    /// Ends a polled statement.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| state.connection.get()?.stop())
    }

    // ---- COPY ----

    fn copy_in(&self, py: Python<'_>, sql: &str) -> PyResult<()> {
        self.copy(py, sql, true)
    }

    fn copy_out(&self, py: Python<'_>, sql: &str) -> PyResult<()> {
        self.copy(py, sql, false)
    }

    fn copy_send(&self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        self.with(py, |state| {
            if state.copying != Some(Copying::In) {
                return Err(interface_error("no COPY FROM is open"));
            }
            let sent = state.connection.get()?.copy_send(data);
            if sent.is_err() {
                state.copying = None;
            }
            sent
        })
    }

    /// Ends the data; gives the number of rows.
    fn copy_done(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |state| {
            if state.copying != Some(Copying::In) {
                return Err(interface_error("no COPY FROM is open"));
            }
            state.copying = None;
            state.connection.get()?.copy_end()
        })
    }

    /// The next bytes; None at the end.
    fn copy_receive<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let received = self.with(py, |state| {
            let mut bytes = Vec::new();
            match state.copying {
                Some(Copying::Out) => match state.connection.get()?.copy_next(&mut bytes) {
                    Ok(None) => {}
                    Ok(Some(_)) => state.copying = Some(Copying::Over),
                    Err(error) => {
                        state.copying = None;
                        return Err(error);
                    }
                },
                Some(Copying::Over) => {}
                _ => return Err(interface_error("no COPY TO is open")),
            }
            if bytes.is_empty() {
                state.copying = None;
                return Ok(None);
            }
            Ok(Some(bytes))
        })?;
        Ok(received.map(|bytes| PyBytes::new(py, &bytes)))
    }

    fn copy_cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            state.copying = None;
            state.connection.get()?.copy_cancel()
        })
    }

    // ---- what others say ----

    /// Notifications: session, channel and payload of each. Waits for the first, if there is none,
    /// as many seconds as `timeout` says.
    #[pyo3(signature = (timeout = 0.0))]
    fn take_notifications<'py>(&self, py: Python<'py>, timeout: f64) -> PyResult<Bound<'py, PyList>> {
        let patience = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::from_secs(1 << 30));
        let told = self.with(py, |state| {
            if patience.is_zero() {
                return state.connection.get()?.notifications();
            }
            let told = state.connection.get()?.wait_for_notifications(patience);
            // It has set a hook of its own.
            if let Some(signal) = &state.signal {
                let rung = Arc::clone(signal);
                state.connection.get()?.on_notification(move || rung.wake_by_ref());
            }
            told
        })?;
        let told = told.iter().map(|told| (told.session, told.channel.as_str(), told.payload.as_str()));
        PyList::new(py, told.collect::<Vec<_>>())
    }

    /// Notices since the last call: severity, and what an error has, of each.
    fn take_notices<'py>(&self, py: Python<'py>) -> PyResult<Vec<(&'static str, Bound<'py, PyDict>)>> {
        let notices = self.with(py, |state| Ok(state.connection.get()?.take_notices()))?;
        notices.iter().map(|notice| Ok((notice.severity.name(), report(py, &notice.report)?))).collect()
    }

    /// Runs a statement whose rows a stream of Arrow gives as they come. Nothing else runs on the
    /// connection until it ends.
    #[pyo3(signature = (sql, params = None))]
    fn arrow(&self, py: Python<'_>, sql: &str, params: Option<&Bound<'_, PyAny>>) -> PyResult<ArrowStream> {
        let (sql, params) = bound(sql, params)?;
        let shared = Arc::clone(&self.state);
        self.with(py, |state| {
            state.begin()?;
            let connection = state.at_rest()?;
            let statement = connection.prepare(&sql)?;
            connection.start(&statement, params)?;
            let rows = Running(shared);
            let next = move || match rows.0.lock().connection.get()?.next_block()? {
                Next::Rows(block) => Ok(Some(block)),
                Next::End(_) => Ok(None),
            };
            Ok(ArrowStream::new(sql::arrow::stream(statement.columns(), connection, next, |_| {})))
        })
    }
}

/// The rows of what runs on a connection; it ends with this.
struct Running(Arc<Mutex<State>>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(connection) = self.0.lock().connection.get() {
            // Nobody could be told.
            _ = connection.stop();
        }
    }
}

impl Connection {
    fn copy(&self, py: Python<'_>, sql: &str, is_in: bool) -> PyResult<()> {
        self.with(py, |state| {
            state.begin()?;
            let connection = state.at_rest()?;
            if connection.is_running() {
                return Err(interface_error("a statement of this connection is running"));
            }
            let copying = match (connection.start_copy(sql)?, is_in) {
                (CopyDirection::In, true) => Copying::In,
                (CopyDirection::Out, false) => Copying::Out,
                (direction, _) => {
                    connection.copy_cancel()?;
                    let wanted = match direction {
                        CopyDirection::In => "COPY … TO STDOUT was expected",
                        CopyDirection::Out => "COPY … FROM STDIN was expected",
                    };
                    return Err(Error::new(SqlState::SYNTAX_ERROR, wanted));
                }
            };
            state.copying = Some(copying);
            Ok(())
        })
    }
}

/// A statement as the engine takes it, and its parameters.
pub(crate) type Statement = (String, Vec<sql::Value<'static>>);

/// Raises an error of converting a text.
pub(crate) fn converted(sql: &str) -> PyResult<crate::placeholders::Converted> {
    convert(sql).map_err(|error| exception(&error))
}

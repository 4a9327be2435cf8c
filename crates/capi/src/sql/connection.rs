//! Sessions of C: whose rows are being read, COPY, notifications, notices, the descriptor to poll.
//!
//! Invariant: at most one of a statement's rows and a COPY is open at a time; whatever else begins
//! meanwhile is refused.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use embedded::sql::{CancelHandle, Connection, CopyDirection, Error, Notice, Notification, SqlState, TransactionState};
use parking_lot::Mutex;

use super::database::{Db, database_of};
use super::statement::{STATEMENTS, Stmt};
use crate::fault::{Fault, Result};
use crate::fork::OfProcess;
use crate::handles::{Handle, Handles};

/// `colibri_conn`
pub(crate) struct Conn {
    connection: OfProcess<Connection>,
    statements: Vec<Handle<Stmt>>,
    /// Who reads the rows of what runs.
    reading: Option<Reader>,
    copying: Option<Copying>,
    signal: Option<Arc<Signal>>,
    notifications: VecDeque<Arc<Notification>>,
    /// What the program was told last: it may look at it until the next call.
    told_notification: Option<(CString, CString)>,
    notices: VecDeque<Notice>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Reader {
    Statement(Handle<Stmt>),
    /// A stream of Arrow, by its number.
    Stream(u64),
}

enum Copying {
    In,
    /// The data that were given last, and whether nothing follows.
    Out(Vec<u8>, bool),
}

pub(crate) static CONNECTIONS: Handles<Conn> = Handles::new(2);

/// For those who cancel: they must not wait until the connection is free.
static CANCELS: Mutex<BTreeMap<u64, CancelHandle>> = Mutex::new(BTreeMap::new());

/// A descriptor that is readable when it is time to go on.
pub(crate) struct Signal {
    reader: UnixStream,
    writer: UnixStream,
}

impl Signal {
    fn new() -> std::io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Self { reader, writer })
    }

    fn ring(&self) {
        // If it is full, it is readable already.
        _ = (&self.writer).write(&[1]);
    }

    fn quiet(&self) {
        let mut bytes = [0; 64];
        while (&self.reader).read(&mut bytes).is_ok_and(|count| count == bytes.len()) {}
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

fn copy_is_open() -> Fault {
    Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, "a COPY of this connection is open")
        .hint("End it, or cancel it.")
        .into()
}

fn no_copy_is_open() -> Fault {
    Fault::Misuse("no such COPY of this connection is open")
}

/// Makes a connection of a user.
pub(crate) fn connect(db: Handle<Db>, user: Option<&str>) -> Result<Handle<Conn>> {
    let connection = database_of(db)?.try_connect_as(user.unwrap_or("colibri"))?;
    let cancel = connection.cancel_handle();
    let conn = Conn {
        connection: OfProcess::new(connection),
        statements: Vec::new(),
        reading: None,
        copying: None,
        signal: None,
        notifications: VecDeque::new(),
        told_notification: None,
        notices: VecDeque::new(),
    };
    let handle = CONNECTIONS.add(conn)?;
    CANCELS.lock().insert(handle.number(), cancel);
    Ok(handle)
}

/// Closes a connection and its statements. An open transaction is rolled back.
pub(crate) fn disconnect(handle: Handle<Conn>) -> Result<()> {
    let mut conn = CONNECTIONS.remove(handle)?;
    CANCELS.lock().remove(&handle.number());
    for statement in std::mem::take(&mut conn.statements) {
        // One that a call is using now goes with its own end: its connection is gone.
        _ = STATEMENTS.remove(statement);
    }
    let Ok(connection) = conn.connection.get() else { return Ok(()) };
    connection.copy_cancel()?;
    Ok(connection.stop()?)
}

/// Ends what a connection is running, from any thread.
pub(crate) fn cancel(handle: Handle<Conn>) -> Result<()> {
    let cancel = CANCELS.lock().get(&handle.number()).cloned();
    cancel.ok_or(Fault::Closed).map(|cancel| cancel.cancel())
}

impl Conn {
    /// The connection, with nothing running on it.
    pub(crate) fn at_rest(&mut self) -> Result<&mut Connection> {
        if self.copying.is_some() {
            return Err(copy_is_open());
        }
        // The library refuses what may not begin while rows are being read.
        self.connection.get()
    }

    pub(crate) fn connection(&mut self) -> Result<&mut Connection> {
        self.connection.get()
    }

    // ---- statements ----

    pub(crate) fn adopt(&mut self, statement: Handle<Stmt>) {
        self.statements.push(statement);
    }

    pub(crate) fn disown(&mut self, statement: Handle<Stmt>) {
        self.statements.retain(|known| *known != statement);
    }

    pub(crate) fn is_read_by(&self, reader: Reader) -> bool {
        self.reading == Some(reader)
    }

    pub(crate) fn read_by(&mut self, reader: Option<Reader>) {
        self.reading = reader;
    }

    /// Ends what a reader reads, unless that has ended or another one reads now.
    pub(crate) fn stop_for(&mut self, reader: Reader) -> Result<()> {
        if self.is_read_by(reader) {
            self.reading = None;
            self.connection.get()?.stop()?;
        }
        Ok(())
    }

    pub(crate) fn batch(&mut self, sql: &str) -> Result<()> {
        Ok(self.at_rest()?.batch(sql)?)
    }

    /// 0: none, 1: open, 2: failed.
    pub(crate) fn transaction_state(&mut self) -> Result<i32> {
        Ok(match self.connection.get()?.transaction_state() {
            TransactionState::Idle => 0,
            TransactionState::Open => 1,
            TransactionState::Failed => 2,
        })
    }

    // ---- the descriptor ----

    pub(crate) fn signal(&mut self) -> Result<Arc<Signal>> {
        if let Some(signal) = &self.signal {
            return Ok(Arc::clone(signal));
        }
        let signal = Signal::new()
            .map_err(|error| Error::new(SqlState::IO_ERROR, format!("there is no descriptor to poll: {error}")))?;
        let signal = Arc::new(signal);
        let rung = Arc::clone(&signal);
        self.connection.get()?.on_notification(move || rung.ring());
        self.signal = Some(Arc::clone(&signal));
        Ok(signal)
    }

    pub(crate) fn descriptor(&mut self) -> Result<RawFd> {
        Ok(self.signal()?.reader.as_raw_fd())
    }

    /// A waker that makes the descriptor readable, which it is no more.
    pub(crate) fn waker(&mut self) -> Result<Waker> {
        let signal = self.signal()?;
        signal.quiet();
        Ok(signal.into())
    }

    // ---- COPY ----

    pub(crate) fn copy(&mut self, sql: &str, is_in: bool) -> Result<()> {
        let connection = self.at_rest()?;
        if connection.is_running() {
            return Err(Error::new(
                SqlState::NOT_IN_PREREQUISITE_STATE,
                "the rows of another statement of this connection are being read",
            )
            .into());
        }
        let direction = connection.start_copy(sql)?;
        if (direction == CopyDirection::In) != is_in {
            connection.copy_cancel()?;
            let wanted = if is_in { "COPY … FROM STDIN" } else { "COPY … TO STDOUT" };
            return Err(Error::new(SqlState::SYNTAX_ERROR, format!("{wanted} was expected")).into());
        }
        self.copying = Some(if is_in { Copying::In } else { Copying::Out(Vec::new(), false) });
        Ok(())
    }

    pub(crate) fn copy_send(&mut self, bytes: &[u8]) -> Result<()> {
        let connection = self.connection.get()?;
        let Some(Copying::In) = self.copying else { return Err(no_copy_is_open()) };
        let sent = connection.copy_send(bytes);
        if sent.is_err() {
            self.copying = None;
        }
        Ok(sent?)
    }

    pub(crate) fn copy_done(&mut self) -> Result<u64> {
        let connection = self.connection.get()?;
        let Some(Copying::In) = self.copying else { return Err(no_copy_is_open()) };
        self.copying = None;
        Ok(connection.copy_end()?)
    }

    /// The next bytes; `None` at the end.
    pub(crate) fn copy_receive(&mut self) -> Result<Option<&[u8]>> {
        let connection = self.connection.get()?;
        let Some(Copying::Out(bytes, is_over)) = &mut self.copying else { return Err(no_copy_is_open()) };
        bytes.clear();
        let received = if *is_over { Ok(Some(0)) } else { connection.copy_next(bytes) };
        match received {
            Ok(rows) => *is_over = rows.is_some(),
            Err(error) => {
                self.copying = None;
                return Err(error.into());
            }
        }
        if *is_over && bytes.is_empty() {
            self.copying = None;
        }
        match &self.copying {
            Some(Copying::Out(bytes, _)) => Ok(Some(bytes)),
            _ => Ok(None),
        }
    }

    pub(crate) fn copy_cancel(&mut self) -> Result<()> {
        let connection = self.connection.get()?;
        if self.copying.take().is_none() {
            return Err(no_copy_is_open());
        }
        Ok(connection.copy_cancel()?)
    }

    // ---- what others say ----

    /// The next notification: its session, channel and payload. Waits for one as long as
    /// `patience`; `None` if none has come.
    pub(crate) fn notification(&mut self, patience: Duration) -> Result<Option<(i32, &CString, &CString)>> {
        let until = Instant::now().checked_add(patience);
        let signal = self.signal()?;
        while self.notifications.is_empty() {
            signal.quiet();
            let connection = self.connection.get()?;
            self.notifications.extend(connection.notifications()?);
            // Within a transaction nothing arrives, so there is nothing to wait for.
            if !self.notifications.is_empty() || connection.transaction_state() != TransactionState::Idle {
                break;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) || connection.is_running() {
                break;
            }
            wait_readable(&signal, left)?;
        }
        let Some(next) = self.notifications.pop_front() else { return Ok(None) };
        let text = |text: &str| CString::new(text).unwrap_or_default();
        let told = self.told_notification.insert((text(&next.channel), text(&next.payload)));
        Ok(Some((next.session, &told.0, &told.1)))
    }

    /// The next notice.
    pub(crate) fn notice(&mut self) -> Result<Option<Notice>> {
        let connection = self.connection.get()?;
        self.notices.extend(connection.take_notices());
        Ok(self.notices.pop_front())
    }
}

fn wait_readable(signal: &Signal, patience: Option<Duration>) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(&signal.reader, PollFlags::IN)];
    let timeout = patience.map(|left| Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Error::new(SqlState::IO_ERROR, format!("could not wait: {error}")).into()),
    }
}

//! The owner's side of a guest: a session, on a thread of its own.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use colibri_sql::portable::ShownSettings;
use parking_lot::Mutex;
use rustix::net::{SendFlags, send};

use super::frame::{self, Incoming, Writer};
use super::reply::{self, RING, Status, Told};
use super::request::Request;
use crate::sql::{Column, Connection, CopyDirection, Next, Result};

/// So few rows are mostly all: the end is looked for before they are told.
const FEW_ROWS: usize = 64;

/// The end of the socket that is written to: by the session's thread, and by others who ring.
struct Outgoing {
    stream: Arc<UnixStream>,
    /// A frame is not divided by another.
    is_writing: Mutex<()>,
    /// Somebody wanted to ring while a reply was written.
    has_to_ring: AtomicBool,
}

impl Outgoing {
    /// Says that notifications have arrived. It does not wait: what cannot be sent now goes behind
    /// the next reply.
    fn ring(&self) {
        self.has_to_ring.store(true, Ordering::SeqCst);
        self.ring_if_free();
    }

    fn ring_if_free(&self) {
        let Some(_free) = self.is_writing.try_lock() else { return };
        if !self.has_to_ring.swap(false, Ordering::SeqCst) {
            return;
        }
        let Ok(bytes) = Writer::new(RING).finish() else { return };
        // So few bytes go as one, or not at all.
        if send(&*self.stream, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_err() {
            self.has_to_ring.store(true, Ordering::SeqCst);
        }
    }

    fn send(&self, bytes: &[u8]) -> std::io::Result<()> {
        {
            let _writing = self.is_writing.lock();
            frame::send(&self.stream, bytes)?;
        }
        self.ring_if_free();
        Ok(())
    }
}

struct Host {
    connection: Connection,
    /// What the guest knows of the settings.
    told: Option<(u32, ShownSettings)>,
    /// The columns of what runs, until they are told.
    columns: Option<Arc<[Column]>>,
    /// What comes next of what runs, if that was looked for already.
    ahead: Option<Result<Next>>,
}

/// Answers a guest's requests until its socket closes.
pub(super) fn attend(connection: Connection, stream: &Arc<UnixStream>) {
    let outgoing = Arc::new(Outgoing {
        stream: Arc::clone(stream),
        is_writing: Mutex::new(()),
        has_to_ring: AtomicBool::new(false),
    });
    let mut host = Host { connection, told: None, columns: None, ahead: None };
    let bell = Arc::clone(&outgoing);
    host.connection.on_notification(move || bell.ring());
    let mut incoming = Incoming::default();
    while let Ok(Some(frame)) = incoming.wait(stream) {
        let Ok(answer) = host.answer(&frame) else { return };
        if outgoing.send(&answer).is_err() {
            return;
        }
    }
}

impl Host {
    /// The frame that answers a frame.
    fn answer(&mut self, frame: &[u8]) -> Result<Vec<u8>> {
        let told = Request::read(frame).and_then(|request| self.carry_out(request)).unwrap_or_else(Told::Failed);
        let status = self.status();
        reply::frame(&told, &status, self.connection.env()).or_else(|error| {
            // What runs has no reader any more; if it cannot be ended, its own end says so.
            _ = self.connection.stop();
            reply::frame(&Told::Failed(error), &self.status(), self.connection.env())
        })
    }

    fn status(&mut self) -> Status {
        let notices = self.connection.take_notices();
        let state = self.connection.transaction_state();
        let settings = self.connection.here().and_then(|session| {
            let version = session.settings_version();
            if self.told.as_ref().is_some_and(|(told, _)| *told == version) {
                return None;
            }
            let settings = ShownSettings::of(session);
            let known = self.told.replace((version, settings.clone()));
            (known.map(|(_, known)| known).as_ref() != Some(&settings)).then_some(settings)
        });
        Status { state, settings, notices }
    }

    fn carry_out(&mut self, request: Request<'_>) -> Result<Told> {
        let connection = &mut self.connection;
        Ok(match request {
            Request::Prepare(sql) => Told::Prepared(connection.prepare(sql)?),
            Request::Run(sql, params) => {
                let statement = connection.prepare(sql)?;
                connection.start(&statement, params)?;
                (self.columns, self.ahead) = (Some(statement.columns().into()), None);
                self.next()?
            }
            Request::Many(sql, rows) => {
                let statement = connection.prepare(sql)?;
                Told::Count(connection.execute_many(&statement, &rows)?)
            }
            Request::More => self.next()?,
            Request::Stop => {
                self.ahead = None;
                connection.stop()?;
                Told::Done
            }
            Request::Batch(sql) => {
                connection.batch(sql)?;
                Told::Done
            }
            Request::Setting(name) => Told::Text(connection.setting(name)?),
            Request::Notifications => Told::Notifications(connection.notifications()?),
            Request::Copy(sql) => Told::Copy(connection.start_copy(sql)? == CopyDirection::In),
            Request::CopyData(data) => {
                connection.copy_send(data)?;
                Told::Done
            }
            Request::CopyEnd => Told::Count(connection.copy_end()?),
            Request::CopyNext => {
                let mut bytes = Vec::new();
                let rows = connection.copy_next(&mut bytes)?;
                Told::Data(bytes, rows)
            }
            Request::CopyCancel => {
                connection.copy_cancel()?;
                Told::Done
            }
        })
    }

    /// What the statement gives next. With the last rows goes the end, so that a small result takes
    /// one reply.
    fn next(&mut self) -> Result<Told> {
        let block = match self.ahead.take().unwrap_or_else(|| self.connection.next_block())? {
            Next::End(tag) => return Ok(Told::End { columns: self.columns.take(), tag }),
            Next::Rows(block) => block,
        };
        let mut tag = None;
        if block.len() <= FEW_ROWS || self.connection.has_ended() {
            match self.connection.next_block() {
                Ok(Next::End(end)) => tag = Some(end),
                // Rows that were given are told before an error behind them.
                other => self.ahead = Some(other),
            }
        }
        let has_columns = self.columns.take().is_some();
        Ok(Told::Rows { block, has_columns, tag })
    }
}

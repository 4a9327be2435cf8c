//! Sessions: statements, COPY, notifications.
//!
//! Each call is a job of the connection's lane. `lib/connection.js` asks for one thing at a time, and
//! so decides what a cancel is about.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use colibri::sql::{
    self, CancelHandle, CopyDirection, Error, Next, Result, RowBlock, SqlState, TransactionState, Value,
};
use napi::bindgen_prelude::{Buffer, Either};
use napi_derive::napi;
use parking_lot::Mutex;

use crate::database::Held;
use crate::failure::{interface_error, write_report};
use crate::hub::{Hub, Outcome};
use crate::rows::{Form, Writer, write_columns, write_string};
use crate::workers::Lane;

/// A value of a parameter: NULL, text as the type's input takes it, bytes of a `bytea`.
type Param = Option<Either<String, Buffer>>;

/// A session.
#[napi]
pub struct Connection {
    lane: Arc<Lane>,
    state: Arc<Mutex<Option<State>>>,
    cancel: Arc<OnceLock<CancelHandle>>,
}

/// What an open connection has. Only jobs of its lane lock it.
pub(crate) struct State {
    session: sql::Connection,
    /// The rows that are being read.
    reading: Option<Reading>,
    /// A COPY … TO has given its last bytes.
    is_copied: bool,
    /// Keeps the database open, and is dropped behind the session.
    _held: Arc<Held<sql::Database>>,
}

/// The rows of a started statement.
struct Reading {
    writer: Writer,
    /// Rows that were given and not written yet, and how many of them were.
    block: Option<(RowBlock, usize)>,
}

type Open = Box<dyn FnOnce(sql::Connection, Arc<Held<sql::Database>>) -> Result<()> + Send>;

impl Connection {
    pub(crate) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// What makes it ready.
    pub(crate) fn opener(&self) -> Open {
        let (state, cancel) = (Arc::clone(&self.state), Arc::clone(&self.cancel));
        Box::new(move |session, held| {
            let mut state = state.lock();
            if state.is_some() {
                return Err(interface_error("the connection is open already"));
            }
            _ = cancel.set(session.cancel_handle());
            *state = Some(State { session, reading: None, is_copied: false, _held: held });
            Ok(())
        })
    }

    fn run(&self, hub: &Hub, id: u32, job: impl FnOnce(&mut State) -> Result<Outcome> + Send + 'static) {
        let shared = Arc::clone(&self.state);
        hub.run(&self.lane, id, move || {
            let mut state = shared.lock();
            job(state.as_mut().ok_or_else(|| interface_error("the connection is closed"))?)
        });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.get() {
            cancel.cancel();
        }
        if self.state.try_lock().is_some_and(|state| state.is_none()) {
            return;
        }
        // Ending a session may wait, and JavaScript's thread must not.
        let state = Arc::clone(&self.state);
        self.lane.push(Box::new(move |_| drop(state.lock().take())));
    }
}

fn value_of(param: Param) -> Value<'static> {
    match param {
        None => Value::Null,
        Some(Either::A(text)) => Value::Text(text.into()),
        Some(Either::B(bytes)) => Value::Bytes(bytes.to_vec().into()),
    }
}

fn letter(state: TransactionState) -> char {
    match state {
        TransactionState::Idle => 'I',
        TransactionState::Open => 'T',
        TransactionState::Failed => 'E',
    }
}

impl State {
    /// Appends what each answer ends with.
    fn write_state(&mut self, out: &mut String) {
        let notices = self.session.take_notices();
        if !notices.is_empty() {
            out.push_str("\"notices\":[");
            for (place, notice) in notices.iter().enumerate() {
                out.push_str(if place > 0 { ",{" } else { "{" });
                write_report(out, notice.report.report(), notice.severity.name());
                out.push('}');
            }
            out.push_str("],");
        }
        _ = write!(out, "\"state\":\"{}\"", letter(self.session.transaction_state()));
    }

    /// Begins a statement.
    fn begin(&mut self, sql: &str, params: Vec<Value<'static>>, form: Form, out: &mut String) -> Result<()> {
        let statement = self.session.prepare(sql)?;
        self.session.start(&statement, params)?;
        if statement.gives_rows() {
            out.push_str("\"columns\":");
            write_columns(out, statement.columns());
            out.push(',');
        }
        self.reading = Some(Reading { writer: Writer::new(form, statement.columns()), block: None });
        Ok(())
    }

    /// Appends rows until there are about `bytes_max` of them, and the tag if that is all.
    fn read(&mut self, bytes_max: usize, out: &mut String) -> Result<()> {
        let Some(mut reading) = self.reading.take() else {
            return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, "no rows are being read"));
        };
        out.push_str("\"rows\":[");
        let (start, mut is_first) = (out.len(), true);
        let tag = loop {
            if let Some((block, row)) = &mut reading.block {
                while *row < block.len() && out.len() - start < bytes_max {
                    if !std::mem::take(&mut is_first) {
                        out.push(',');
                    }
                    reading.writer.write_row(out, block, *row, &self.session);
                    *row += 1;
                }
                if *row < block.len() {
                    break None;
                }
                reading.block = None;
            }
            match self.session.next_block()? {
                Next::Rows(block) => reading.block = Some((block, 0)),
                Next::End(tag) => break Some(tag),
            }
        };
        out.push_str("],");
        match tag {
            Some(tag) => {
                out.push_str("\"tag\":");
                write_string(out, &tag);
                out.push(',');
            }
            None => self.reading = Some(reading),
        }
        Ok(())
    }

    fn query(&mut self, sql: &str, params: Vec<Value<'static>>, form: Form, bytes_max: usize) -> Result<Outcome> {
        let mut out = String::from("{");
        self.begin(sql, params, form, &mut out)?;
        self.read(bytes_max, &mut out)?;
        self.write_state(&mut out);
        out.push('}');
        Ok(Outcome::json(out))
    }

    /// Runs several statements, as one transaction unless they say otherwise.
    fn script(&mut self, statements: &[&str], form: Form) -> Result<Outcome> {
        let is_own = self.session.transaction_state() == TransactionState::Idle
            && !statements.iter().any(|statement| controls_transactions(statement));
        if is_own {
            self.session.execute("BEGIN", ())?;
        }
        let mut out = String::from("{\"results\":[");
        for (place, statement) in statements.iter().enumerate() {
            out.push_str(if place > 0 { ",{" } else { "{" });
            let done = self.begin(statement, Vec::new(), form, &mut out).and_then(|()| self.read(usize::MAX, &mut out));
            if let Err(error) = done {
                if is_own {
                    self.session.execute("ROLLBACK", ())?;
                }
                return Err(error);
            }
            // The last of its members ends with a comma.
            out.pop();
            out.push('}');
        }
        if is_own {
            self.session.execute("COMMIT", ())?;
        }
        out.push_str("],");
        self.write_state(&mut out);
        out.push('}');
        Ok(Outcome::json(out))
    }
}

/// Whether a statement begins or ends a transaction, by its first word.
fn controls_transactions(statement: &str) -> bool {
    const WORDS: [&str; 9] =
        ["begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare"];
    let mut rest = statement.trim_ascii_start();
    // Comments before it.
    loop {
        let after = match (rest.strip_prefix("--"), rest.strip_prefix("/*")) {
            (Some(comment), _) => comment.split_once('\n').map(|(_, after)| after),
            (_, Some(comment)) => comment.split_once("*/").map(|(_, after)| after),
            _ => break,
        };
        let Some(after) = after else { return false };
        rest = after.trim_ascii_start();
    }
    let end = rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
    WORDS.iter().any(|word| rest[..end].eq_ignore_ascii_case(word))
}

#[napi]
impl Connection {
    /// A connection that `Database.connect` makes ready.
    #[napi(constructor)]
    #[allow(clippy::new_without_default, reason = "only JavaScript makes them")]
    pub fn new() -> Self {
        Self { lane: Arc::default(), state: Arc::default(), cancel: Arc::default() }
    }

    /// Runs a statement: gives its columns, the first rows, and the tag if those are all. With
    /// `several` the text may have more than one; all their rows are given then.
    #[napi]
    #[allow(clippy::too_many_arguments, reason = "what a statement is made of")]
    pub fn query(&self, hub: &Hub, id: u32, sql: String, params: Vec<Param>, form: u32, bytes_max: u32, several: bool) {
        let params: Vec<_> = params.into_iter().map(value_of).collect();
        self.run(hub, id, move |state| {
            let form = Form::of(form);
            if several && sql.contains(';') {
                let statements = sql::engine::Session::split(&sql)?;
                if statements.len() > 1 {
                    let statements: Vec<String> = statements.into_iter().map(str::to_owned).collect();
                    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
                    return state.script(&statements, form);
                }
            }
            state.query(&sql, params, form, bytes_max as usize)
        });
    }

    /// The next rows, and the tag if those are all.
    #[napi]
    pub fn next(&self, hub: &Hub, id: u32, bytes_max: u32) {
        self.run(hub, id, move |state| {
            let mut out = String::from("{");
            state.read(bytes_max as usize, &mut out)?;
            state.write_state(&mut out);
            out.push('}');
            Ok(Outcome::json(out))
        });
    }

    /// Ends the statement whose rows are being read.
    #[napi]
    pub fn stop(&self, hub: &Hub, id: u32) {
        self.run(hub, id, |state| {
            state.reading = None;
            state.session.stop()?;
            let mut out = String::from("{");
            state.write_state(&mut out);
            out.push('}');
            Ok(Outcome::json(out))
        });
    }

    /// Finds the errors that can be found before a statement runs; gives its columns, and the
    /// numbers of its parameters' types.
    #[napi]
    pub fn prepare(&self, hub: &Hub, id: u32, sql: String) {
        self.run(hub, id, move |state| {
            let statement = state.session.prepare(&sql)?;
            let mut out = String::from("{\"columns\":");
            write_columns(&mut out, statement.columns());
            out.push_str(",\"params\":[");
            for place in 0..statement.params() {
                let oid = statement.param_oid(place).unwrap_or(0);
                _ = write!(out, "{}{oid}", if place > 0 { "," } else { "" });
            }
            out.push_str("],");
            state.write_state(&mut out);
            out.push('}');
            Ok(Outcome::json(out))
        });
    }

    /// Runs a statement once for each `width` of the parameters; gives the number of rows that all
    /// of them have inserted, changed, deleted or returned.
    #[napi]
    pub fn many(&self, hub: &Hub, id: u32, sql: String, params: Vec<Param>, width: u32) {
        let mut values = params.into_iter().map(value_of);
        let mut rows: Vec<Vec<_>> = Vec::new();
        while values.len() > 0 {
            rows.push(values.by_ref().take(width.max(1) as usize).collect());
        }
        self.run(hub, id, move |state| {
            let affected = state.session.execute_many(&sql, &rows)?;
            let mut out = format!("{{\"affected\":{affected},");
            state.write_state(&mut out);
            out.push('}');
            Ok(Outcome::json(out))
        });
    }

    /// Ends what the connection is running. Without that it has no effect.
    #[napi]
    pub fn cancel(&self) {
        if let Some(cancel) = self.cancel.get() {
            cancel.cancel();
        }
    }

    /// Ends the session; an open transaction is rolled back.
    #[napi]
    pub fn close(&self, hub: &Hub, id: u32) {
        let shared = Arc::clone(&self.state);
        hub.run(&self.lane, id, move || {
            let last = shared.lock().take();
            drop(last);
            Ok(Outcome::default())
        });
    }

    // ---- COPY ----

    /// Begins a COPY … FROM STDIN (`is_in`) or a COPY … TO STDOUT.
    #[napi]
    pub fn copy(&self, hub: &Hub, id: u32, sql: String, is_in: bool) {
        self.run(hub, id, move |state| {
            match (state.session.start_copy(&sql)?, is_in) {
                (CopyDirection::In, true) | (CopyDirection::Out, false) => state.is_copied = false,
                (direction, _) => {
                    state.session.copy_cancel()?;
                    let wanted = match direction {
                        CopyDirection::In => "COPY … TO STDOUT was expected",
                        CopyDirection::Out => "COPY … FROM STDIN was expected",
                    };
                    return Err(Error::new(SqlState::SYNTAX_ERROR, wanted));
                }
            }
            Ok(Outcome::default())
        });
    }

    #[napi]
    pub fn copy_send(&self, hub: &Hub, id: u32, data: Buffer) {
        let data = data.to_vec();
        self.run(hub, id, move |state| {
            state.session.copy_send(&data)?;
            Ok(Outcome::default())
        });
    }

    /// Ends the data; gives the number of rows.
    #[napi]
    pub fn copy_end(&self, hub: &Hub, id: u32) {
        self.run(hub, id, |state| {
            let rows = state.session.copy_end()?;
            let mut out = format!("{{\"affected\":{rows},");
            state.write_state(&mut out);
            out.push('}');
            Ok(Outcome::json(out))
        });
    }

    /// The next bytes, at least `bytes_min` unless they are the last; none at the end.
    #[napi]
    pub fn copy_next(&self, hub: &Hub, id: u32, bytes_min: u32) {
        self.run(hub, id, move |state| {
            let mut bytes = Vec::new();
            while !state.is_copied && bytes.len() < bytes_min as usize {
                state.is_copied = state.session.copy_next(&mut bytes)?.is_some();
            }
            Ok(Outcome { text: String::new(), bytes: (!bytes.is_empty()).then_some(bytes) })
        });
    }

    /// Ends a COPY early.
    #[napi]
    pub fn copy_cancel(&self, hub: &Hub, id: u32) {
        self.run(hub, id, |state| {
            state.session.copy_cancel()?;
            Ok(Outcome::default())
        });
    }

    // ---- what others say ----

    /// From now on the hub is told with this number when notifications have arrived.
    #[napi]
    pub fn on_notification(&self, hub: &Hub, id: u32, number: u32) {
        let teller = hub.teller();
        self.run(hub, id, move |state| {
            state.session.on_notification(move || teller.tell(number, Ok(Outcome::default())));
            Ok(Outcome::default())
        });
    }

    /// The notifications that have arrived: session, channel and payload of each.
    #[napi]
    pub fn notifications(&self, hub: &Hub, id: u32) {
        self.run(hub, id, |state| {
            let mut out = String::from("[");
            for (place, told) in state.session.notifications()?.iter().enumerate() {
                _ = write!(out, "{}[{},", if place > 0 { "," } else { "" }, told.session);
                write_string(&mut out, &told.channel);
                out.push(',');
                write_string(&mut out, &told.payload);
                out.push(']');
            }
            out.push(']');
            Ok(Outcome::json(out))
        });
    }
}

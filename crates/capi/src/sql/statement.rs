//! Prepared statements of C: parameters, rows, the value of a column.

use std::collections::VecDeque;
use std::ffi::CString;
use std::task::{Context, Poll};

use embedded::sql::{Column, Error, FromSql, Next, RowBlock, SqlState, Statement, Value};

use super::connection::{CONNECTIONS, Conn, Reader};
use crate::fault::{self, Fault, Result};
use crate::handles::{Handle, Handles};

/// `colibri_stmt`
pub(crate) struct Stmt {
    conn: Handle<Conn>,
    statement: Statement,
    /// NULL where nothing was bound.
    params: Vec<Value<'static>>,
    state: State,
    block: Option<RowBlock>,
    row: usize,
    /// Rows that were taken into memory, before those that are still to come.
    stored: VecDeque<RowBlock>,
    names: Vec<CString>,
    type_names: Vec<CString>,
    tag: CString,
    /// Texts of the current row that the program looks at, by column.
    texts: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not run since it was prepared or reset.
    Ready,
    /// Its connection gives its rows.
    Reading,
    /// All rows have been read, or are stored.
    Over,
    /// It has failed.
    Failed,
}

pub(crate) static STATEMENTS: Handles<Stmt> = Handles::new(3);

fn c_text(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// Prepares a statement.
pub(crate) fn prepare(conn: Handle<Conn>, sql: &str) -> Result<Handle<Stmt>> {
    CONNECTIONS.with(conn, |session| {
        let statement = session.at_rest()?.prepare(sql)?;
        let texts = |text: fn(&Column) -> &str| statement.columns().iter().map(|column| c_text(text(column))).collect();
        let handle = STATEMENTS.add(Stmt {
            conn,
            params: vec![Value::Null; statement.params()],
            state: State::Ready,
            block: None,
            row: 0,
            stored: VecDeque::new(),
            names: texts(Column::name),
            type_names: texts(Column::type_name),
            tag: CString::default(),
            texts: vec![Vec::new(); statement.columns().len()],
            statement,
        })?;
        session.adopt(handle);
        Ok(handle)
    })
}

/// Closes a statement.
pub(crate) fn finalize(handle: Handle<Stmt>) -> Result<()> {
    let removed = STATEMENTS.remove_if(handle, |statement| match statement.reset(handle) {
        // With the connection everything of it has ended.
        Err(Fault::Closed | Fault::Forked) => Ok(()),
        other => other,
    })?;
    match CONNECTIONS.with(removed.conn, |conn| {
        conn.disown(handle);
        Ok(())
    }) {
        Err(Fault::Closed) => Ok(()),
        other => other,
    }
}

impl Stmt {
    pub(crate) fn conn(&self) -> Handle<Conn> {
        self.conn
    }

    pub(crate) fn statement(&self) -> &Statement {
        &self.statement
    }

    pub(crate) fn bind(&mut self, number: u32, value: Value<'static>) -> Result<()> {
        if self.state != State::Ready {
            return Err(Fault::Misuse("the statement has run: reset it before parameters are bound"));
        }
        let place = (number as usize).checked_sub(1).and_then(|place| self.params.get_mut(place));
        *place.ok_or(Fault::Misuse("the statement has no such parameter; the first is number 1"))? = value;
        Ok(())
    }

    pub(crate) fn clear_bindings(&mut self) {
        self.params.fill(Value::Null);
    }

    /// Goes to the next row. `is_polled`: without waiting.
    pub(crate) fn step(&mut self, me: Handle<Self>, is_polled: bool) -> Result<i32> {
        self.texts.iter_mut().for_each(Vec::clear);
        if let Some(block) = &self.block
            && self.row + 1 < block.len()
        {
            self.row += 1;
            return Ok(fault::ROW);
        }
        self.block = None;
        self.row = 0;
        if let Some(block) = self.stored.pop_front() {
            self.block = Some(block);
            return Ok(fault::ROW);
        }
        match self.state {
            State::Over => return Ok(fault::DONE),
            State::Failed => return Err(Fault::Misuse("the statement has failed: reset it before it runs again")),
            State::Ready | State::Reading => {}
        }
        match self.next_block(me, is_polled)? {
            Poll::Pending => Ok(fault::PENDING),
            Poll::Ready(None) => Ok(fault::DONE),
            Poll::Ready(Some(block)) => {
                self.block = Some(block);
                Ok(fault::ROW)
            }
        }
    }

    /// Starts if it has not, and takes what comes next from the connection.
    fn next_block(&mut self, me: Handle<Self>, is_polled: bool) -> Result<Poll<Option<RowBlock>>> {
        let conn = self.conn;
        let next = CONNECTIONS.with(conn, |conn| {
            self.begin(me, conn)?;
            let waker = if is_polled { Some(conn.waker()?) } else { None };
            let connection = conn.connection()?;
            let next = match waker {
                None => Poll::Ready(connection.next_block()),
                Some(waker) => connection.poll_next_block(&mut Context::from_waker(&waker)),
            };
            if matches!(next, Poll::Ready(Ok(Next::End(_)) | Err(_))) {
                conn.read_by(None);
            }
            match next {
                Poll::Pending => Ok(Poll::Pending),
                Poll::Ready(next) => Ok(Poll::Ready(next?)),
            }
        });
        match next {
            Ok(Poll::Pending) => Ok(Poll::Pending),
            Ok(Poll::Ready(Next::Rows(block))) => Ok(Poll::Ready(Some(block))),
            Ok(Poll::Ready(Next::End(tag))) => {
                self.state = State::Over;
                self.tag = c_text(&tag);
                Ok(Poll::Ready(None))
            }
            Err(fault) => {
                if matches!(fault, Fault::Error(_)) && self.state == State::Reading {
                    self.state = State::Failed;
                }
                Err(fault)
            }
        }
    }

    /// Starts the statement on its connection, unless it runs there already.
    fn begin(&mut self, me: Handle<Self>, conn: &mut Conn) -> Result<()> {
        if self.state == State::Reading {
            return if conn.is_read_by(Reader::Statement(me)) { Ok(()) } else { Err(Fault::Closed) };
        }
        conn.at_rest()?.start(&self.statement, self.params.clone())?;
        conn.read_by(Some(Reader::Statement(me)));
        self.state = State::Reading;
        Ok(())
    }

    /// Takes all rows that are still to come into memory, so that the connection is free.
    pub(crate) fn store(&mut self, me: Handle<Self>) -> Result<()> {
        let mut blocks = VecDeque::new();
        while matches!(self.state, State::Ready | State::Reading) {
            match self.next_block(me, false)? {
                Poll::Ready(Some(block)) => blocks.push_back(block),
                _ => break,
            }
        }
        self.stored.append(&mut blocks);
        Ok(())
    }

    /// Makes it ready to run again; its parameters stay.
    pub(crate) fn reset(&mut self, me: Handle<Self>) -> Result<()> {
        self.block = None;
        self.row = 0;
        self.stored.clear();
        let was_reading = self.state == State::Reading;
        if was_reading {
            CONNECTIONS.with(self.conn, |conn| conn.stop_for(Reader::Statement(me)))?;
        }
        self.state = State::Ready;
        self.tag = CString::default();
        Ok(())
    }

    /// Runs it for another reader, who gets all its rows.
    pub(crate) fn begin_for(&mut self, reader: Reader) -> Result<()> {
        if self.state != State::Ready {
            return Err(Fault::Misuse("the statement has run: reset it before its rows are handed over"));
        }
        CONNECTIONS.with(self.conn, |conn| {
            conn.at_rest()?.start(&self.statement, self.params.clone())?;
            conn.read_by(Some(reader));
            Ok(())
        })
    }

    // ---- what is known of it ----

    pub(crate) fn names(&self, column: u32) -> Result<(&CString, &CString, u32)> {
        let known = self.statement.columns().get(column as usize).ok_or_else(no_such_column)?;
        Ok((&self.names[column as usize], &self.type_names[column as usize], known.type_oid()))
    }

    /// The command tag, if it has run to its end.
    pub(crate) fn tag(&self) -> Option<&CString> {
        (self.state == State::Over).then_some(&self.tag)
    }

    // ---- the current row ----

    pub(crate) fn value(&self, column: u32) -> Result<Value<'_>> {
        let block = self.block.as_ref().ok_or(Fault::Misuse("the statement is not on a row"))?;
        block.value(self.row, column as usize).ok_or_else(no_such_column)
    }

    /// A value as a type of this library; `None` for NULL.
    pub(crate) fn get<'a, T: FromSql<'a>>(&'a self, column: u32) -> Result<Option<T>> {
        match self.value(column)? {
            Value::Null => Ok(None),
            value => T::from_sql(value).map(Some).map_err(|_| {
                let known = &self.statement.columns()[column as usize];
                let message = format!(
                    "column \"{}\" of type {} has a value that the function does not give",
                    known.name(),
                    known.type_name()
                );
                Error::new(SqlState::TYPE_MISMATCH, message).hint("colibri_get_text gives any value as text.").into()
            }),
        }
    }

    /// A value as text, with a zero byte behind it; `None` for NULL.
    pub(crate) fn text(&mut self, column: u32) -> Result<Option<&[u8]>> {
        let block = self.block.as_ref().ok_or(Fault::Misuse("the statement is not on a row"))?;
        let place = column as usize;
        if block.is_null(self.row, place).ok_or_else(no_such_column)? {
            return Ok(None);
        }
        if self.texts[place].is_empty() {
            let (texts, row) = (&mut self.texts, self.row);
            match block.value(row, place) {
                Some(Value::Text(text)) if !is_padded(block, place) => texts[place].extend_from_slice(text.as_bytes()),
                _ => CONNECTIONS.with(self.conn, |conn| {
                    block.write_text(row, place, conn.connection()?, &mut texts[place]);
                    Ok(())
                })?,
            }
            self.texts[place].push(0);
        }
        Ok(Some(&self.texts[place]))
    }
}

/// `char(n)`, whose values are kept without the blanks at their ends.
fn is_padded(block: &RowBlock, column: usize) -> bool {
    const BPCHAR_OID: u32 = 1042;
    block.columns()[column].type_oid() == BPCHAR_OID
}

fn no_such_column() -> Fault {
    Fault::Misuse("the statement has no such column; the first is number 0")
}

//! COPY: files of rows, into tables and out of queries.

use std::io;

use colibri_sql::{Copy, CopyFrom, CopyTo, SqlState, rows_of_tag};

use super::connection::Link;
use super::processes::{Reply, Request};
use super::{Connection, Error, Result};

/// Data that are gathered before they go to another process.
const PIECE_BYTES: usize = 64 << 10;

/// Which way data go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyDirection {
    /// Into a table: [`Connection::copy_send`] takes them.
    In,
    /// Out: [`Connection::copy_next`] gives them.
    Out,
}

/// The COPY that is open on a connection.
pub(super) enum Copying {
    In(Box<CopyFrom>),
    Out(Box<CopyTo>),
    /// In another process, with data that were not sent yet.
    InThere(Vec<u8>),
    OutThere,
}

pub(super) fn copy_is_open() -> Error {
    Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, "a COPY of this connection is open").hint("End it, or cancel it.")
}

#[cold]
fn no_copy_is_open() -> Error {
    Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, "no such COPY of this connection is open")
}

/// A running `COPY … FROM STDIN`: write the data, then call [`CopyIn::finish`]. Dropping it without
/// that rolls it back.
pub struct CopyIn<'c> {
    connection: &'c mut Connection,
}

impl Connection {
    /// Begins `COPY … FROM STDIN`: what is written to the result becomes rows.
    ///
    /// ```
    /// use std::io::Write;
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let db = colibri::sql::Database::open(dir.path())?;
    /// # let mut conn = db.connect();
    /// conn.batch("CREATE TABLE birds (name text, grams int)")?;
    /// let mut copy = conn.copy_in("COPY birds FROM STDIN (FORMAT csv)")?;
    /// copy.write_all(b"giant hummingbird,20\nbee hummingbird,2\n")?;
    /// assert_eq!(copy.finish()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of a statement.
    pub fn copy_in(&mut self, sql: &str) -> Result<CopyIn<'_>> {
        self.start_copy_as(sql, CopyDirection::In, "COPY FROM was expected, and this is COPY TO")?;
        Ok(CopyIn { connection: self })
    }

    /// Runs `COPY … TO STDOUT`, and writes to `out`; gives the number of rows.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let db = colibri::sql::Database::open(dir.path())?;
    /// let mut out = Vec::new();
    /// db.connect().copy_out("COPY (VALUES (1, 'a,b'), (2, NULL)) TO STDOUT (FORMAT csv)", &mut out)?;
    /// assert_eq!(String::from_utf8_lossy(&out), "1,\"a,b\"\n2,\n");
    /// # Ok::<(), colibri::sql::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the query; 58030 with the error of `out`.
    pub fn copy_out(&mut self, sql: &str, out: &mut dyn io::Write) -> Result<u64> {
        self.start_copy_as(sql, CopyDirection::Out, "COPY TO was expected, and this is COPY FROM")?;
        let mut bytes = Vec::new();
        loop {
            let rows = self.copy_next(&mut bytes)?;
            if let Err(error) = out.write_all(&bytes) {
                if rows.is_none() {
                    self.copy_cancel()?;
                }
                return Err(Error::new(SqlState::IO_ERROR, format!("could not write COPY data: {error}")));
            }
            bytes.clear();
            if let Some(rows) = rows {
                return Ok(rows);
            }
        }
    }

    fn start_copy_as(&mut self, sql: &str, wanted: CopyDirection, other: &str) -> Result<()> {
        if self.start_copy(sql)? == wanted {
            return Ok(());
        }
        self.copy_cancel()?;
        Err(Error::new(SqlState::SYNTAX_ERROR, other))
    }

    /// Begins a COPY without borrowing the connection, for what cannot hold a borrow; the calls
    /// below go on with it. Nothing else runs on the connection until it ends.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let db = colibri::sql::Database::open(dir.path())?;
    /// # let mut conn = db.connect();
    /// use colibri::sql::CopyDirection;
    /// conn.batch("CREATE TABLE birds (name text)")?;
    /// assert_eq!(conn.start_copy("COPY birds FROM STDIN")?, CopyDirection::In);
    /// conn.copy_send(b"anna\nbee\n")?;
    /// assert_eq!(conn.copy_end()?, 2);
    /// # Ok::<(), colibri::sql::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of a statement; 55000 if another statement or COPY has not ended.
    pub fn start_copy(&mut self, sql: &str) -> Result<CopyDirection> {
        self.at_rest()?;
        let (copying, direction) = if let Link::Here(session) = &mut self.link {
            let copy = session.copy(sql);
            match self.noted(copy)? {
                Copy::From(copy) => (Copying::In(Box::new(copy)), CopyDirection::In),
                Copy::To(copy) => (Copying::Out(Box::new(copy)), CopyDirection::Out),
            }
        } else {
            match self.ask(&Request::Copy(sql))? {
                Reply::Copy(true) => (Copying::InThere(Vec::new()), CopyDirection::In),
                Reply::Copy(false) => (Copying::OutThere, CopyDirection::Out),
                _ => return Err(self.confused()),
            }
        };
        self.copying = Some(copying);
        Ok(direction)
    }

    /// Takes a piece of the data of a COPY FROM.
    ///
    /// # Errors
    /// The data are malformed, or a row cannot be inserted: the COPY has ended then, and is rolled
    /// back. 55000 if none is open.
    pub fn copy_send(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = match (&mut self.copying, &mut self.link) {
            (Some(Copying::In(copy)), Link::Here(session)) => session.copy_data(copy, bytes),
            (Some(Copying::InThere(gathered)), _) => {
                gathered.extend_from_slice(bytes);
                if gathered.len() >= PIECE_BYTES { self.send_gathered() } else { return Ok(()) }
            }
            _ => return Err(no_copy_is_open()),
        };
        if sent.is_err() {
            self.copying = None;
        }
        self.noted(sent)
    }

    /// Sends what was gathered for another process.
    fn send_gathered(&mut self) -> Result<()> {
        let Some(Copying::InThere(gathered)) = &mut self.copying else { return Ok(()) };
        let mut data = std::mem::take(gathered);
        if data.is_empty() {
            return Ok(());
        }
        match self.ask(&Request::CopyData(&data))? {
            Reply::Done => {
                data.clear();
                self.copying = Some(Copying::InThere(data));
                Ok(())
            }
            _ => Err(self.confused()),
        }
    }

    /// Ends the data of a COPY FROM, and waits until they are durable; gives the number of rows.
    ///
    /// # Errors
    /// As [`Connection::copy_send`], and those of a commit.
    pub fn copy_end(&mut self) -> Result<u64> {
        if !matches!(self.copying, Some(Copying::In(_) | Copying::InThere(_))) {
            return Err(no_copy_is_open());
        }
        let sent = self.send_gathered();
        let copying = self.copying.take();
        sent?;
        if let (Some(Copying::In(mut copy)), Link::Here(session)) = (copying, &mut self.link) {
            let tag = session.copy_end(&mut copy);
            return self.noted(tag).map(|tag| rows_of_tag(&tag));
        }
        match self.ask(&Request::CopyEnd)? {
            Reply::Count(rows) => Ok(rows),
            _ => Err(self.confused()),
        }
    }

    /// Appends the next data of a COPY TO; at the end gives the number of rows. There may be data
    /// with it.
    ///
    /// # Errors
    /// Those of the query: the COPY has ended then. 55000 if none is open.
    pub fn copy_next(&mut self, out: &mut Vec<u8>) -> Result<Option<u64>> {
        let next = match (&mut self.copying, &mut self.link) {
            (Some(Copying::Out(copy)), Link::Here(session)) => {
                session.copy_fetch(copy, out).map(|tag| tag.map(|tag| rows_of_tag(&tag)))
            }
            (Some(Copying::OutThere), _) => match self.ask(&Request::CopyNext) {
                Ok(Reply::Data(bytes, rows)) => {
                    out.extend_from_slice(&bytes);
                    Ok(rows)
                }
                Ok(_) => Err(self.confused()),
                Err(error) => Err(error),
            },
            _ => return Err(no_copy_is_open()),
        };
        if !matches!(next, Ok(None)) {
            self.copying = None;
        }
        self.noted(next)
    }

    /// Ends a COPY early; without one it has no effect. Rows that a COPY FROM has inserted are rolled
    /// back.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn copy_cancel(&mut self) -> Result<()> {
        match (self.copying.take(), &mut self.link) {
            (None, _) => Ok(()),
            (Some(Copying::In(mut copy)), Link::Here(session)) => {
                session.copy_cancel(&mut copy);
                Ok(())
            }
            (Some(Copying::Out(mut copy)), Link::Here(session)) => session.abandon_copy(&mut copy).map(drop),
            _ => match self.ask(&Request::CopyCancel)? {
                Reply::Done => Ok(()),
                _ => Err(self.confused()),
            },
        }
    }
}

impl CopyIn<'_> {
    /// Takes a piece of the data.
    ///
    /// # Errors
    /// The data are malformed, or a row cannot be inserted. The COPY has ended then.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.connection.copy_send(bytes)
    }

    /// Ends the data; gives the number of rows.
    ///
    /// # Errors
    /// As [`CopyIn::send`], and those of a commit.
    pub fn finish(self) -> Result<u64> {
        self.connection.copy_end()
    }
}

impl io::Write for CopyIn<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for CopyIn<'_> {
    fn drop(&mut self) {
        // After its end this does nothing. If the rollback cannot be asked for, the session is gone.
        _ = self.connection.copy_cancel();
    }
}

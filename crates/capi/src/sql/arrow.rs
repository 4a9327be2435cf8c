//! Rows as a stream of Arrow, for C.

use std::sync::atomic::{AtomicU64, Ordering};

use embedded::sql::arrow::{ArrowArrayStream, stream};
use embedded::sql::{Error, Next, RowBlock};

use super::connection::{CONNECTIONS, Conn, Reader};
use super::statement::Stmt;
use crate::fault::{self, Fault, Result};
use crate::handles::Handle;

static STREAMS: AtomicU64 = AtomicU64::new(0);

/// The rows of what runs on a connection, as long as the stream lives.
struct Rows {
    conn: Handle<Conn>,
    reader: Reader,
}

impl Rows {
    fn next_block(&self) -> std::result::Result<Option<RowBlock>, Error> {
        let next = CONNECTIONS.with(self.conn, |conn| {
            if !conn.is_read_by(self.reader) {
                return Err(Fault::Misuse("the statement of the stream was ended"));
            }
            Ok(conn.connection()?.next_block()?)
        });
        match next.map_err(Fault::into_error)? {
            Next::Rows(block) => Ok(Some(block)),
            Next::End(_) => Ok(None),
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // Nobody could be told; if the connection is gone, so is what ran on it.
        _ = CONNECTIONS.with(self.conn, |conn| conn.stop_for(self.reader));
    }
}

/// Runs a statement, whose rows the stream gives.
pub(crate) fn stream_of(statement: &mut Stmt) -> Result<ArrowArrayStream> {
    let reader = Reader::Stream(STREAMS.fetch_add(1, Ordering::Relaxed));
    statement.begin_for(reader)?;
    let rows = Rows { conn: statement.conn(), reader };
    let columns = statement.statement().columns();
    CONNECTIONS.with(statement.conn(), |conn| {
        // What consumers hand on is the text alone; the rest can be asked for on the same thread.
        let failed = |error: &Error| _ = fault::failed(error.clone().into());
        Ok(stream(columns, conn.connection()?, move || rows.next_block(), failed))
    })
}

//! Blocking connections: statements one after the other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use colibri_sql::{CompactString, Copy, CopyFrom, Cursor, Prepared, Session, SqlState, TransactionState, rows_of_tag};
use parking_lot::Mutex;

use super::database::Shared;
use super::row::{Block, Column, Row, columns_of, renew_columns};
use super::value::{Params, bind};
use super::{Error, Result};

/// A session: one statement at a time. Dropping it ends it, and rolls an open transaction back.
///
/// ```
/// # let dir = tempfile::tempdir().expect("a directory");
/// # let db = colibri::sql::Database::open(dir.path())?;
/// let mut conn = db.connect();
/// conn.batch("CREATE TABLE birds (id serial PRIMARY KEY, name text NOT NULL, grams float8)")?;
/// let inserted = conn.execute("INSERT INTO birds (name, grams) VALUES ($1, $2)", ("bee hummingbird", 1.95))?;
/// assert_eq!(inserted, 1);
/// for row in conn.query("SELECT name, grams FROM birds WHERE grams < $1", (5.0,))? {
///     println!("{} weighs {} g", row.get::<_, &str>("name")?, row.get::<_, f64>("grams")?);
/// }
/// # Ok::<(), colibri::sql::Error>(())
/// ```
pub struct Connection {
    pub(crate) session: Session,
    cancel: CancelHandle,
    /// Whether a statement of the current transaction had a conflict, so that another attempt may
    /// succeed.
    pub(crate) conflicted: bool,
    /// The statement of [`Connection::start`], until it ends.
    pub(super) started: Option<Box<super::running::Started>>,
    _shared: Arc<Shared>,
}

/// A statement, ready to run again and again, on any connection to its database.
#[derive(Clone)]
pub struct Statement {
    pub(crate) prepared: Arc<Prepared>,
    columns: Arc<[Column]>,
}

impl Statement {
    fn new(prepared: Arc<Prepared>) -> Self {
        Self { columns: columns_of(&prepared), prepared }
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.prepared.text()
    }

    /// The columns of its rows; none if it gives no rows.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How many parameters it has.
    #[must_use]
    pub fn params(&self) -> usize {
        self.prepared.params().len()
    }

    /// PostgreSQL's number of the type of a parameter, by its place from 0; `None` behind the last.
    #[must_use]
    pub fn param_oid(&self, place: usize) -> Option<u32> {
        self.prepared.params().get(place).map(|ty| ty.oid())
    }
}

impl std::fmt::Debug for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Statement").field(&self.text()).finish()
    }
}

/// A statement's text, or a prepared [`Statement`].
pub trait ToStatement {
    /// The statement, prepared.
    ///
    /// # Errors
    /// Those of preparing it.
    fn to_statement(&self, connection: &mut Connection) -> Result<Statement>;
}

impl ToStatement for str {
    fn to_statement(&self, connection: &mut Connection) -> Result<Statement> {
        connection.prepare(self)
    }
}

impl ToStatement for String {
    fn to_statement(&self, connection: &mut Connection) -> Result<Statement> {
        connection.prepare(self)
    }
}

impl ToStatement for Statement {
    fn to_statement(&self, _connection: &mut Connection) -> Result<Statement> {
        Ok(self.clone())
    }
}

impl<S: ToStatement + ?Sized> ToStatement for &S {
    fn to_statement(&self, connection: &mut Connection) -> Result<Statement> {
        (**self).to_statement(connection)
    }
}

/// Ends the statement that a connection is running, from another thread.
///
/// ```
/// # let dir = tempfile::tempdir().expect("a directory");
/// # let db = colibri::sql::Database::open(dir.path())?;
/// let mut conn = db.connect();
/// let cancel = conn.cancel_handle();
/// let canceled = std::thread::scope(|scope| {
///     let endless = scope.spawn(move || conn.query("SELECT count(*) FROM generate_series(1, 1000000000000)", ()));
///     while !endless.is_finished() {
///         cancel.cancel();
///         std::thread::sleep(std::time::Duration::from_millis(5));
///     }
///     endless.join().expect("no panic")
/// });
/// assert_eq!(canceled.unwrap_err().state().0, "57014");
/// # Ok::<(), colibri::sql::Error>(())
/// ```
#[derive(Clone)]
pub struct CancelHandle {
    flag: Arc<AtomicBool>,
    /// The waker of a future that waits for a lock.
    pub(crate) waker: Arc<Mutex<Option<Waker>>>,
}

impl CancelHandle {
    /// Ends the running statement with the error 57014. Without a running statement it has no
    /// effect.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
        if let Some(waker) = self.waker.lock().take() {
            waker.wake();
        }
    }

    pub(crate) fn is_canceled(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

impl Connection {
    pub(crate) fn new(shared: &Arc<Shared>, user: &str) -> Self {
        let session = Session::new(&shared.engine, user);
        let cancel = CancelHandle { flag: session.cancel_flag(), waker: Arc::default() };
        Self { session, cancel, conflicted: false, started: None, _shared: Arc::clone(shared) }
    }

    /// Remembers whether an error is a conflict that another attempt of the transaction may avoid.
    pub(crate) fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.conflicted |= error.is_retryable();
        }
        result
    }

    /// Prepares a statement. Its plan is kept with the connection as well, so that running the same
    /// text again costs little.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let db = colibri::sql::Database::open(dir.path())?;
    /// # let mut conn = db.connect();
    /// let add = conn.prepare("SELECT $1::int + $2")?;
    /// assert_eq!(conn.query_row(&add, (1, 2))?.get::<_, i32>(0)?, 3);
    /// let error = conn.prepare("SELECT 1 + nothing").unwrap_err();
    /// assert_eq!((error.state().0, error.report().position), ("42703", Some(12)));
    /// # Ok::<(), colibri::sql::Error>(())
    /// ```
    ///
    /// # Errors
    /// Syntax, names, types: all errors that can be found before a statement runs.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement> {
        self.at_rest()?;
        let prepared = self.session.prepare(sql, &[]);
        self.noted(prepared).map(Statement::new)
    }

    /// Runs a statement; gives the number of rows that it has inserted, changed, deleted or
    /// returned.
    ///
    /// # Errors
    /// The statement's.
    pub fn execute(&mut self, statement: impl ToStatement, params: impl Params) -> Result<u64> {
        let mut rows = self.query_iter(statement, params)?;
        while rows.next_block()? {}
        Ok(rows.affected())
    }

    /// Runs a statement; gives all its rows.
    ///
    /// # Errors
    /// The statement's.
    pub fn query(&mut self, statement: impl ToStatement, params: impl Params) -> Result<Vec<Row>> {
        self.query_iter(statement, params)?.collect()
    }

    /// Runs a statement; gives its only row.
    ///
    /// # Errors
    /// The statement's; P0002 if there is no row, P0003 if there are several.
    pub fn query_row(&mut self, statement: impl ToStatement, params: impl Params) -> Result<Row> {
        self.query_opt(statement, params)?.ok_or_else(|| Error::new(SqlState("P0002"), "query returned no rows"))
    }

    /// Runs a statement; gives its only row, if there is one.
    ///
    /// # Errors
    /// The statement's; P0003 if there are several rows.
    pub fn query_opt(&mut self, statement: impl ToStatement, params: impl Params) -> Result<Option<Row>> {
        only_row(self.query(statement, params)?)
    }

    /// Runs a statement whose rows are taken one by one, without keeping all of them in memory.
    /// (The rows of a statement that changes or locks something are kept, so that it can run again
    /// after a conflict.)
    ///
    /// ```
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let db = colibri::sql::Database::open(dir.path())?;
    /// # let mut conn = db.connect();
    /// let mut sum = 0;
    /// for row in conn.query_iter("SELECT n FROM generate_series(1, 100000) AS s (n)", ())? {
    ///     sum += row?.get::<_, i64>(0)?;
    ///     if sum > 1_000_000 {
    ///         break; // the rest is not computed
    ///     }
    /// }
    /// # Ok::<(), colibri::sql::Error>(())
    /// ```
    ///
    /// # Errors
    /// The statement's. Errors of later rows come with them.
    pub fn query_iter(&mut self, statement: impl ToStatement, params: impl Params) -> Result<Rows<'_>> {
        self.at_rest()?;
        let Statement { prepared, columns } = statement.to_statement(self)?;
        let types = self.session.current_types(prepared.params())?;
        let params = bind(&params, &types, self.session.env())?;
        let cursor = self.session.open_cursor(&prepared, params);
        let cursor = self.noted(cursor)?;
        let mut rows = Rows { connection: self, cursor, columns, block: None, next: 0, tag: None, is_over: false };
        // A statement that changes something does so now, whether or not its rows are taken.
        rows.next_block()?;
        Ok(rows)
    }

    /// Runs all statements of a text, one after the other, each in a transaction of its own unless
    /// the text says otherwise. Their rows are dropped.
    ///
    /// # Errors
    /// The first that fails. Changes of the statements before it stay, unless the text has begun a
    /// transaction.
    pub fn batch(&mut self, sql: &str) -> Result<()> {
        self.at_rest()?;
        let done = self.session.run(sql);
        self.noted(done).map(drop)
    }

    /// Where the connection stands.
    #[must_use]
    pub fn transaction_state(&self) -> TransactionState {
        self.session.state()
    }

    /// A setting's value, as SHOW gives it.
    ///
    /// # Errors
    /// 42704 if there is no such setting.
    pub fn setting(&self, name: &str) -> Result<String> {
        self.session.setting(name)
    }

    /// A handle that cancels this connection's statements from another thread.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// The session underneath, for features that this interface lacks. It is not part of this
    /// crate's promise of compatibility.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

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
        self.at_rest()?;
        let copy = self.session.copy(sql);
        match self.noted(copy)? {
            Copy::From(copy) => Ok(CopyIn { connection: self, copy }),
            Copy::To(mut copy) => {
                self.session.abandon_copy(&mut copy)?;
                Err(Error::new(SqlState::SYNTAX_ERROR, "COPY FROM was expected, and this is COPY TO"))
            }
        }
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
        self.at_rest()?;
        let copy = self.session.copy(sql);
        match self.noted(copy)? {
            Copy::To(mut copy) => {
                let tag = self.session.copy_drive(&mut copy, &mut |bytes| {
                    out.write_all(bytes)
                        .map_err(|error| Error::new(SqlState::IO_ERROR, format!("could not write COPY data: {error}")))
                });
                self.noted(tag).map(|tag| rows_of_tag(&tag))
            }
            Copy::From(mut copy) => {
                self.session.copy_cancel(&mut copy);
                Err(Error::new(SqlState::SYNTAX_ERROR, "COPY TO was expected, and this is COPY FROM"))
            }
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("number", &self.session.number())
            .field("state", &self.session.state())
            .finish_non_exhaustive()
    }
}

pub(crate) fn only_row(mut rows: Vec<Row>) -> Result<Option<Row>> {
    match rows.len() {
        0 | 1 => Ok(rows.pop()),
        _ => Err(Error::new(SqlState("P0003"), "query returned more than one row")),
    }
}

/// Rows as they come. Dropping it early ends a query; changes that a statement has made by then
/// stay.
pub struct Rows<'c> {
    connection: &'c mut Connection,
    cursor: Cursor,
    columns: Arc<[Column]>,
    block: Option<Arc<Block>>,
    /// The place of the next row in the block.
    next: usize,
    tag: Option<CompactString>,
    is_over: bool,
}

impl Rows<'_> {
    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// PostgreSQL's command tag: `SELECT 3`, `CREATE TABLE`. Known once all rows are taken.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Rows inserted, changed, deleted or returned. Known once all rows are taken.
    #[must_use]
    pub fn affected(&self) -> u64 {
        self.tag.as_deref().map_or(0, rows_of_tag)
    }

    /// Waits for more rows; `false` if there are none.
    fn next_block(&mut self) -> Result<bool> {
        self.block = None;
        self.next = 0;
        if self.is_over {
            return Ok(false);
        }
        let mut rows = colibri_sql::Rows::default();
        let fetched = self.connection.session.fetch(&mut self.cursor, &mut rows);
        match self.connection.noted(fetched) {
            Ok(tag) => {
                self.is_over = tag.is_some();
                self.tag = tag;
            }
            Err(error) => {
                self.is_over = true;
                return Err(error);
            }
        }
        if rows.is_empty() {
            return Ok(!self.is_over);
        }
        renew_columns(&mut self.columns, &self.connection.session);
        self.block = Some(Arc::new(Block { columns: Arc::clone(&self.columns), rows }));
        Ok(true)
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        loop {
            if let Some(block) = self.block.as_ref().filter(|block| self.next < block.rows.len()) {
                let row = Row::new(block, self.next);
                self.next += 1;
                return Some(Ok(row));
            }
            match self.next_block() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // An error cannot be returned here; the next statement reports it.
            _ = self.connection.session.close_cursor(&mut self.cursor);
        }
    }
}

/// A running `COPY … FROM STDIN`: write the data, then call [`CopyIn::finish`]. Dropping it without
/// that rolls it back.
pub struct CopyIn<'c> {
    connection: &'c mut Connection,
    copy: CopyFrom,
}

impl CopyIn<'_> {
    /// Takes a piece of the data.
    ///
    /// # Errors
    /// The data are malformed, or a row cannot be inserted. The COPY has ended then.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = self.connection.session.copy_data(&mut self.copy, bytes);
        self.connection.noted(sent)
    }

    /// Ends the data; gives the number of rows.
    ///
    /// # Errors
    /// As [`CopyIn::send`], and those of a commit.
    pub fn finish(mut self) -> Result<u64> {
        let tag = self.connection.session.copy_end(&mut self.copy);
        self.connection.noted(tag).map(|tag| rows_of_tag(&tag))
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
        // After its end this does nothing.
        self.connection.session.copy_cancel(&mut self.copy);
    }
}

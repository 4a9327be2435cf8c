//! Blocking connections: statements one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use colibri_sql::catalog::Catalog;
use colibri_sql::{Cursor, Engine, Env, Prepared, Session, SqlState, TransactionState, rows_of_tag};
use parking_lot::Mutex;

use super::copy::Copying;
use super::database::Shared;
use super::processes::{Guest, Place, Reply, Request};
use super::row::{Block, Column, Row, columns_of, renew_columns};
use super::running::one_at_a_time;
use super::value::{Params, bind};
use super::{Error, Next, Result};

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
    pub(super) link: Link,
    pub(super) cancel: CancelHandle,
    /// Whether a statement of the current transaction had a conflict, so that another attempt may
    /// succeed.
    pub(crate) conflicted: bool,
    /// The statement of [`Connection::start`], until it ends.
    pub(super) started: Option<Box<super::running::Started>>,
    /// The COPY that is open.
    pub(super) copying: Option<Copying>,
    /// Of a guest's session, which the owner ends, nothing.
    shared: Option<Arc<Shared>>,
}

/// Where the session of a connection is.
pub(super) enum Link {
    /// In this process.
    Here(Box<Session>),
    /// In the process that has the database open.
    There(Box<Guest>),
    /// Nowhere: connecting has failed so.
    Lost(Error),
}

/// So many rows of [`Connection::execute_many`] are inserted together, if they can be.
const ROWS_AT_ONCE: usize = 1_000;

/// A statement, ready to run again and again, on any connection to its database.
#[derive(Clone)]
pub struct Statement {
    form: Form,
    pub(super) columns: Arc<[Column]>,
    gives_rows: bool,
}

#[derive(Clone)]
enum Form {
    /// Planned in this process.
    Here(Arc<Prepared>),
    /// Known to the process that has the database open: the text, and the parameters' types.
    There(Arc<(String, Vec<u32>)>),
}

impl Statement {
    fn new(prepared: Arc<Prepared>) -> Self {
        Self { columns: columns_of(&prepared), gives_rows: prepared.columns().is_some(), form: Form::Here(prepared) }
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        match &self.form {
            Form::Here(prepared) => prepared.text(),
            Form::There(known) => &known.0,
        }
    }

    /// The columns of its rows; none if it gives no rows.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Whether it gives rows, be it rows without columns.
    #[must_use]
    pub fn gives_rows(&self) -> bool {
        self.gives_rows
    }

    /// How many parameters it has.
    #[must_use]
    pub fn params(&self) -> usize {
        match &self.form {
            Form::Here(prepared) => prepared.params().len(),
            Form::There(known) => known.1.len(),
        }
    }

    /// PostgreSQL's number of the type of a parameter, by its place from 0; `None` behind the last.
    #[must_use]
    pub fn param_oid(&self, place: usize) -> Option<u32> {
        match &self.form {
            Form::Here(prepared) => prepared.params().get(place).map(|ty| ty.oid()),
            Form::There(known) => known.1.get(place).copied(),
        }
    }

    /// As a session of this process runs it.
    pub(super) fn prepared_on(&self, session: &mut Session) -> Result<Arc<Prepared>> {
        match &self.form {
            Form::Here(prepared) => Ok(Arc::clone(prepared)),
            Form::There(known) => session.prepare(&known.0, &[]),
        }
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

    /// The statement's text, if that is at hand: it is sent to another process without being
    /// prepared first.
    #[doc(hidden)]
    fn text(&self) -> Option<&str> {
        None
    }
}

impl ToStatement for str {
    fn to_statement(&self, connection: &mut Connection) -> Result<Statement> {
        connection.prepare(self)
    }

    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl ToStatement for String {
    fn to_statement(&self, connection: &mut Connection) -> Result<Statement> {
        connection.prepare(self)
    }

    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl ToStatement for Statement {
    fn to_statement(&self, _connection: &mut Connection) -> Result<Statement> {
        Ok(self.clone())
    }

    fn text(&self) -> Option<&str> {
        Some(Self::text(self))
    }
}

impl<S: ToStatement + ?Sized> ToStatement for &S {
    fn to_statement(&self, connection: &mut Connection) -> Result<Statement> {
        (**self).to_statement(connection)
    }

    fn text(&self) -> Option<&str> {
        (**self).text()
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
    pub(super) flag: Arc<AtomicBool>,
    /// The waker of a future that waits for a lock.
    pub(crate) waker: Arc<Mutex<Option<Waker>>>,
    /// The session in another process.
    there: Option<Arc<Place>>,
}

impl CancelHandle {
    /// Ends the running statement with the error 57014. Without a running statement it has no
    /// effect.
    pub fn cancel(&self) {
        if let Some(place) = &self.there {
            return place.cancel();
        }
        self.flag.store(true, Ordering::Relaxed);
        if let Some(waker) = self.waker.lock().take() {
            waker.wake();
        }
    }

    /// A flag that has the same effect within a tenth of a second once it is set, for handlers of
    /// signals, which may do little else.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    pub(crate) fn is_canceled(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

impl Connection {
    /// A session of this process.
    pub(super) fn here_for(engine: &Arc<Engine>, user: &str, shared: Option<Arc<Shared>>) -> Self {
        let session = Session::new(engine, user);
        let cancel = CancelHandle { flag: session.cancel_flag(), waker: Arc::default(), there: None };
        Self::of(Link::Here(Box::new(session)), cancel, shared)
    }

    /// A session in another process.
    pub(super) fn there_for(guest: Box<Guest>, shared: Arc<Shared>) -> Self {
        let there = Some(Arc::clone(guest.place()));
        let cancel = CancelHandle { flag: Arc::default(), waker: Arc::default(), there };
        Self::of(Link::There(guest), cancel, Some(shared))
    }

    /// What every call of answers with an error.
    pub(super) fn lost(error: Error, shared: Arc<Shared>) -> Self {
        let cancel = CancelHandle { flag: Arc::default(), waker: Arc::default(), there: None };
        Self::of(Link::Lost(error), cancel, Some(shared))
    }

    fn of(link: Link, cancel: CancelHandle, shared: Option<Arc<Shared>>) -> Self {
        Self { link, cancel, conflicted: false, started: None, copying: None, shared }
    }

    /// Refuses to begin anything while the rows of a started statement are being read, or a COPY is
    /// open.
    pub(super) fn at_rest(&self) -> Result<()> {
        match (&self.started, &self.copying) {
            (None, None) => Ok(()),
            (Some(_), _) => Err(one_at_a_time()),
            (None, Some(_)) => Err(super::copy::copy_is_open()),
        }
    }

    /// The session, if it is in this process.
    pub(super) fn here(&self) -> Option<&Session> {
        match &self.link {
            Link::Here(session) => Some(session),
            _ => None,
        }
    }

    pub(super) fn env(&self) -> &Env {
        static NONE: std::sync::LazyLock<Env> = std::sync::LazyLock::new(Env::default);
        match &self.link {
            Link::Here(session) => session.env(),
            Link::There(guest) => guest.env(),
            Link::Lost(_) => &NONE,
        }
    }

    /// The session's number, which `pg_backend_pid` gives; 0 if connecting has failed.
    #[must_use]
    pub fn number(&self) -> i32 {
        match &self.link {
            Link::Here(session) => session.number(),
            Link::There(guest) => guest.number,
            Link::Lost(_) => 0,
        }
    }

    /// The process that has the database open, by its number; `None` if it is this one.
    #[must_use]
    pub fn owner(&self) -> Option<u32> {
        match &self.link {
            Link::There(guest) => Some(guest.place().owner()),
            _ => None,
        }
    }

    /// Asks the process that has the database open.
    pub(super) fn ask(&mut self, request: &Request<'_>) -> Result<Reply> {
        let asked = match &mut self.link {
            Link::There(guest) => guest.ask(request, &self.cancel.flag),
            Link::Lost(error) => Err(error.clone()),
            Link::Here(_) => Err(Error::internal("a session of this process is asked as one of another")),
        };
        self.noted(asked)
    }

    /// The error of an answer that does not belong to what was asked.
    #[cold]
    pub(super) fn confused(&mut self) -> Error {
        match &mut self.link {
            Link::There(guest) => guest.confused(),
            _ => Error::internal("an answer without a question"),
        }
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
        if let Link::Here(session) = &mut self.link {
            let prepared = session.prepare(sql, &[]);
            return self.noted(prepared).map(Statement::new);
        }
        match self.ask(&Request::Prepare(sql))? {
            Reply::Prepared { params, columns, gives_rows } => {
                Ok(Statement { form: Form::There(Arc::new((sql.to_owned(), params))), columns, gives_rows })
            }
            _ => Err(self.confused()),
        }
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

    /// Runs a statement once for each of these parameters; gives the rows that all of them have
    /// inserted, changed, deleted or returned. Within a transaction this is the fast way to insert
    /// many rows whose values are at hand; [`Connection::copy_in`] is faster for text.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let db = colibri::sql::Database::open(dir.path())?;
    /// # let mut conn = db.connect();
    /// conn.batch("CREATE TABLE birds (name text, grams float8)")?;
    /// let birds = [("bee hummingbird", 1.95), ("giant hummingbird", 20.2)];
    /// let inserted = conn.transaction(|tx| tx.execute_many("INSERT INTO birds VALUES ($1, $2)", &birds))?;
    /// assert_eq!(inserted, 2);
    /// # Ok::<(), colibri::sql::Error>(())
    /// ```
    ///
    /// # Errors
    /// The statement's, the first time that it fails. What was done before stays, unless a
    /// transaction is open.
    pub fn execute_many<P: Params>(&mut self, statement: impl ToStatement, rows: &[P]) -> Result<u64> {
        self.at_rest()?;
        if let Link::There(guest) = &mut self.link
            && let Some(sql) = statement.text()
        {
            let done = guest.run_many(sql, rows, &self.cancel.flag);
            return self.noted(done);
        }
        let statement = statement.to_statement(self)?;
        let mut affected = 0;
        let mut left = rows;
        let mut is_at_once = true;
        while let Some((first, others)) = left.split_first() {
            if is_at_once && !others.is_empty() {
                let (some, others) = left.split_at(left.len().min(ROWS_AT_ONCE));
                if let Some(inserted) = self.insert_at_once(&statement, some)? {
                    affected += inserted;
                    left = others;
                    continue;
                }
                is_at_once = false;
            }
            let mut given = self.iterate(&statement, first)?;
            while given.next_block()? {}
            affected += given.affected();
            left = others;
        }
        Ok(affected)
    }

    /// Inserts rows together, if the statement inserts one and cannot tell the difference.
    fn insert_at_once<P: Params>(&mut self, statement: &Statement, rows: &[P]) -> Result<Option<u64>> {
        let Link::Here(session) = &mut self.link else { return Ok(None) };
        let prepared = statement.prepared_on(session)?;
        let types = session.current_types(prepared.params())?;
        let mut params = Vec::with_capacity(rows.len() * types.len());
        for row in rows {
            match bind(row, &types, session.env()) {
                Ok(values) if values.len() == types.len() => params.extend(values),
                // The rows in front of the one that is wrong are inserted before that is told.
                _ => return Ok(None),
            }
        }
        let Some(running) = session.start_for_each(&prepared, &mut params, rows.len())? else { return Ok(None) };
        let cursor = Some(session.cursor_of(running));
        let columns = Arc::clone(&statement.columns);
        let mut rows = Rows { connection: self, cursor, columns, block: None, next: 0, tag: None, is_over: false };
        while rows.next_block()? {}
        Ok(Some(rows.affected()))
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
        if !matches!(self.link, Link::Here(_))
            && let Some(sql) = statement.text()
        {
            self.start_there(sql, &params, Arc::default())?;
            let columns = Arc::default();
            let mut rows =
                Rows { connection: self, cursor: None, columns, block: None, next: 0, tag: None, is_over: false };
            rows.next_block()?;
            return Ok(rows);
        }
        let statement = statement.to_statement(self)?;
        self.iterate(&statement, &params)
    }

    fn iterate(&mut self, statement: &Statement, params: &impl Params) -> Result<Rows<'_>> {
        let cursor = match &mut self.link {
            Link::Here(session) => {
                let prepared = statement.prepared_on(session)?;
                let types = session.current_types(prepared.params())?;
                let params = bind(params, &types, session.env())?;
                let cursor = session.open_cursor(&prepared, params);
                Some(self.noted(cursor)?)
            }
            _ => {
                self.start_there(statement.text(), params, Arc::clone(&statement.columns))?;
                None
            }
        };
        let columns = Arc::clone(&statement.columns);
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
        if let Link::Here(session) = &mut self.link {
            let done = session.run(sql);
            return self.noted(done).map(drop);
        }
        match self.ask(&Request::Batch(sql))? {
            Reply::Done => Ok(()),
            _ => Err(self.confused()),
        }
    }

    /// Where the connection stands.
    #[must_use]
    pub fn transaction_state(&self) -> TransactionState {
        match &self.link {
            Link::Here(session) => session.state(),
            Link::There(guest) => guest.state(),
            Link::Lost(_) => TransactionState::Idle,
        }
    }

    /// A setting's value, as SHOW gives it.
    ///
    /// # Errors
    /// 42704 if there is no such setting.
    pub fn setting(&mut self, name: &str) -> Result<String> {
        if let Link::Here(session) = &self.link {
            return session.setting(name);
        }
        match self.ask(&Request::Setting(name))? {
            Reply::Text(text) => Ok(text),
            _ => Err(self.confused()),
        }
    }

    /// A handle that cancels this connection's statements from another thread.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// The catalogue as the connection's next statement sees it; from another process, what is
    /// committed. It is not part of this crate's promise of compatibility.
    ///
    /// # Errors
    /// 25P02 in a failed transaction; those of reading the files.
    pub fn catalog(&mut self) -> Result<Catalog> {
        match &mut self.link {
            Link::Here(session) => {
                // A statement that does nothing, so that the session sees the newest catalogue.
                let prepared = session.prepare("SELECT 1", &[])?;
                session.execute(&prepared, Vec::new())?;
                Ok(session.catalog().clone())
            }
            Link::There(_) => match &self.shared {
                Some(shared) => shared.catalog(),
                None => Err(Error::internal("a connection without a database")),
            },
            Link::Lost(error) => Err(error.clone()),
        }
    }

    /// The session underneath, for features that this interface lacks. It is not part of this
    /// crate's promise of compatibility.
    ///
    /// # Errors
    /// 0A000 if another process has the database open: the session is there.
    pub fn session(&mut self) -> Result<&mut Session> {
        match &mut self.link {
            Link::Here(session) => Ok(session),
            Link::There(guest) => {
                let owner = guest.place().owner();
                Err(Error::unsupported(format_args!("this on a database that another process, {owner}, has open")))
            }
            Link::Lost(error) => Err(error.clone()),
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("number", &self.number())
            .field("state", &self.transaction_state())
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
    /// `None`: the rows are those of the statement that the connection has started in another
    /// process.
    cursor: Option<Cursor>,
    columns: Arc<[Column]>,
    block: Option<Arc<Block>>,
    /// The place of the next row in the block.
    next: usize,
    tag: Option<String>,
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
        let (Some(cursor), Link::Here(session)) = (&mut self.cursor, &mut self.connection.link) else {
            return self.next_block_there();
        };
        let mut rows = colibri_sql::Rows::default();
        let fetched = session.fetch(cursor, &mut rows);
        match self.connection.noted(fetched) {
            Ok(tag) => {
                self.is_over = tag.is_some();
                self.tag = tag.map(Into::into);
            }
            Err(error) => {
                self.is_over = true;
                return Err(error);
            }
        }
        if rows.is_empty() {
            return Ok(!self.is_over);
        }
        if let Link::Here(session) = &self.connection.link {
            renew_columns(&mut self.columns, session);
        }
        self.block = Some(Arc::new(Block { columns: Arc::clone(&self.columns), rows }));
        Ok(true)
    }

    fn next_block_there(&mut self) -> Result<bool> {
        // Without a context this waits.
        let Poll::Ready(next) = self.connection.next_there(None) else { return Ok(true) };
        let (next, columns) = next.inspect_err(|_| self.is_over = true)?;
        if let Some(columns) = columns {
            self.columns = columns;
        }
        match next {
            Next::Rows(block) => self.block = Some(block.block),
            Next::End(tag) => {
                self.tag = Some(tag);
                self.is_over = true;
            }
        }
        Ok(!self.is_over)
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
            _ = match (&mut self.cursor, &mut self.connection.link) {
                (Some(cursor), Link::Here(session)) => session.close_cursor(cursor),
                _ => self.connection.stop(),
            };
        }
    }
}

//! SQL in process: PostgreSQL's dialect, serializable transactions, no server.
//!
//! A [`Database`] is a directory, which several processes may have open: the first runs the
//! statements of all. A [`Connection`] runs statements one after the other, and there may be as many
//! connections as there are threads, or [`AsyncConnection`]s as there are tasks.
//!
//! ```
//! # let dir = tempfile::tempdir().expect("a directory");
//! use colibri::sql::Database;
//! let db = Database::open(dir.path())?; // or any path
//! let mut conn = db.connect();
//! conn.batch("CREATE TABLE birds (id serial PRIMARY KEY, name text UNIQUE, seen timestamptz DEFAULT now())")?;
//! conn.execute("INSERT INTO birds (name) VALUES ($1), ($2)", ("Allen's", "Anna's"))?;
//! let names: Vec<String> = conn
//!     .query("SELECT name FROM birds WHERE seen <= now() ORDER BY name", ())?
//!     .iter()
//!     .map(|row| row.get("name"))
//!     .collect::<Result<_, _>>()?;
//! assert_eq!(names, ["Allen's", "Anna's"]);
//! # Ok::<(), colibri::sql::Error>(())
//! ```
//!
//! | to | use |
//! | --- | --- |
//! | run a statement | [`Connection::execute`], [`Connection::query`], [`Connection::query_row`], [`Connection::query_opt`] |
//! | take rows one by one | [`Connection::query_iter`] |
//! | run several, or one that nothing is asked of | [`Connection::batch`] |
//! | run one many times | [`Connection::prepare`], [`Connection::execute_many`] |
//! | change several things or none | [`Connection::transaction`] |
//! | read and write files of rows | [`Connection::copy_in`], [`Connection::copy_out`] |
//! | hear of what others do | [`Connection::notifications`], [`Connection::wait_for_notifications`] |
//! | take rows where nothing can be borrowed | [`Connection::start`], [`Connection::next_block`], [`Connection::poll_next_block`]; for COPY [`Connection::start_copy`] |
//! | end a statement from elsewhere | [`Connection::cancel_handle`] |
//! | wait without a thread | [`Database::connect_async`] |
//!
//! Errors are PostgreSQL's: [`Error::state`] gives the code that programs decide by,
//! [`Error::report`] the rest: position, detail, hint, and the table, column and constraint that it
//! is about. The feature `jiff` makes that crate's dates and times parameters and columns.

pub mod arrow;
mod asynchronous;
mod connection;
mod copy;
mod database;
mod notifications;
mod processes;
mod row;
mod running;
mod time;
mod transaction;
mod value;

pub use colibri_sql::{
    Error, Interval, Notice, Notification, Numeric, Report, Result, Severity, SqlState, TransactionState,
};

pub use asynchronous::AsyncConnection;
pub use connection::{CancelHandle, Connection, Rows, Statement, ToStatement};
pub use copy::{CopyDirection, CopyIn};
pub use database::Database;
pub use row::{Column, ColumnIndex, Row};
pub use running::{Next, RowBlock, rows_affected};
pub use time::{Date, OutOfRange, Time, Timestamp, TimestampTz};
pub use transaction::{Isolation, Transaction, TransactionOptions};
pub use value::{FromSql, Params, ToSql, Value};

/// The SQL engine itself, for tools that need more than this module has: the catalogue, statements
/// in steps. Items that are reachable only through here may change with every version.
pub use colibri_sql as engine;

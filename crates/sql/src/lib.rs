//! PostgreSQL's SQL over the transactions of `colibri-txn`.
//!
//! The life of a statement: `session` takes a text and finds its plan in the cache, or has it made:
//! `colibri-syntax` reads it, `colibri-plan` binds it to the catalogue, rewrites it and chooses its
//! operators. `colibri-exec` runs the operators on a transaction, a slice at a time, until the rows
//! are out. What has to wait for a lock breaks off, and `session` runs it again when the lock is
//! there.
//!
//! This crate is the facade of the crates below it: users of SQL depend on this one alone.
//!
//! | module | holds |
//! | --- | --- |
//! | `statement` | the stack for deep statements; texts become trees in `colibri-syntax` |
//! | `ddl` | changing the catalogue |
//! | `admin` | roles, databases, privileges, owners, upkeep |
//! | `copy` | rows as files: COPY |
//! | `system` | `pg_catalog` and `information_schema`, made from the catalogue when asked for, and the catalogue's functions |
//! | `registry`, `surroundings` | what every database has; the catalogue and the server around a session |
//! | `directory_lock` | which process has a database open |
//! | [`portable`] | rows for another process |
//! | `session` | statements, transactions, settings, the plan cache |
//!
//! Values are in `colibri-types`, the grammar in `colibri-syntax`, the catalogue and the rows'
//! layout in `colibri-catalog`, binding and planning in `colibri-plan`, operators in
//! `colibri-exec`.

mod admin;
mod copy;
mod ddl;
mod directory_lock;
pub mod portable;
mod registry;
mod session;
mod statement;
mod surroundings;
mod system;

use colibri_exec as exec;
use colibri_plan::{bind, explain, expr, plan, planner};

pub use colibri_catalog as catalog;
pub use colibri_catalog::cluster::DefaultBy;
pub use colibri_catalog::store_error::{InSql, in_sql};
pub use colibri_catalog::{cluster, row};
pub use colibri_exec::parallel;
pub use colibri_exec::{MemoryTotal, TempFileCounts, ValueBytes, write_value};
pub use colibri_types::{
    Array, Category, ColumnType, CompactString, Datum, Dimension, Env, Error, Interval, Modifier, Numeric, Report,
    Result, Scalar, SqlState, Type, aggregates, cast, client_values, clock_us, encoding, functions, key, wire,
};
pub use directory_lock::DirectoryLock;
pub use session::{
    Access, Answer, Arrived, Awaited, Carried, CarriedStatement, Completion, Copy, CopyFrom, CopyTo, Cursor, Engine,
    Inbox, Lifting, Notice, Notification, Prepared, Progress, ResultColumn, Rows, Running, Session, Severity, Stays,
    TransactionState, rows_of_tag, with_count,
};

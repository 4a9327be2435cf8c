//! PostgreSQL's SQL over the transactions of `colibri-txn`.
//!
//! The life of a statement: `session` takes a text and finds its plan in the cache, or has it made:
//! the parser's tree is bound to the catalogue (`bind`: names, types, casts), rewritten by the
//! planner's passes and turned into operators (`plan`). `exec` runs the operators on a transaction,
//! a slice at a time, until the rows are out. What has to wait for a lock breaks off, and `session`
//! runs it again when the lock is there.
//!
//! | module | holds |
//! | --- | --- |
//! | `statement` | texts to the parser's trees |
//! | `lift` | literals lifted out of texts, so that these share plans |
//! | `bind`, `expr` | names and types resolved |
//! | `logical` | what binding yields: queries before operators are chosen |
//! | `plan`, `planner`, `explain` | operators, how they are chosen, and what is told of them |
//! | `exec` | running them |
//! | `ddl` | changing the catalogue |
//! | `admin` | roles, databases, privileges, owners, upkeep |
//! | `copy` | rows as files: COPY |
//! | `system` | `pg_catalog` and `information_schema`, made from the catalogue when asked for, and the catalogue's functions |
//! | `registry`, `surroundings` | what every database has; the catalogue and the server around a session |
//! | `directory_lock` | which process has a database open |
//! | `session` | statements, transactions, settings, the plan cache |
//!
//! Values are in `colibri-types`, the catalogue and the rows' layout in `colibri-catalog`.

mod admin;
mod bind;
mod copy;
mod ddl;
mod directory_lock;
mod exec;
mod explain;
mod expr;
mod lift;
mod logical;
mod plan;
mod planner;
mod registry;
mod session;
mod statement;
mod surroundings;
mod system;

pub use colibri_catalog as catalog;
pub use colibri_catalog::cluster::DefaultBy;
pub use colibri_catalog::store_error::{InSql, in_sql};
pub use colibri_catalog::{cluster, row};
pub use colibri_types::{
    Array, Category, ColumnType, CompactString, Datum, Dimension, Env, Error, Interval, Modifier, Numeric, Report,
    Result, Scalar, SqlState, Type, aggregates, cast, clock_us, functions, key, wire,
};
pub use directory_lock::DirectoryLock;
pub use exec::{MemoryTotal, TempFileCounts};
pub use session::{
    Answer, Completion, Copy, CopyFrom, CopyTo, Cursor, Engine, Lifting, Notice, Prepared, Progress, ResultColumn,
    Rows, Running, Session, Severity, TransactionState, rows_of_tag,
};

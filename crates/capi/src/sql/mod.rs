//! SQL in process, for `colibri.h`.
//!
//! | file | what |
//! | --- | --- |
//! | `database` | a directory that is open for SQL |
//! | `connection` | sessions: whose rows are being read, COPY, notifications, notices, the descriptor to poll |
//! | `statement` | prepared statements: parameters, rows, the value of a column |
//! | `arrow` | rows as a stream of Arrow |
//! | `exports`, `exports_values` | the functions of C: pointers in, pointers out |
//!
//! Statements belong to a connection, and are closed with it. A statement is locked before its
//! connection, never after.

mod arrow;
mod connection;
mod database;
mod exports;
mod exports_values;
mod statement;

pub(crate) use database::{ColibriOptions, Db, database_of};

//! Colibri in Node.js: the native module, over which `lib` puts promises, streams, node-postgres's
//! interface and the rest.
//!
//! | file | what |
//! | --- | --- |
//! | `workers` | threads on which everything runs that may wait |
//! | `hub` | how what has ended is told to JavaScript's thread |
//! | `database` | databases that the process has open |
//! | `connection` | sessions: statements, COPY, notifications |
//! | `rows` | rows as JSON, which V8 reads faster than it makes objects one by one |
//! | `failure` | errors as JSON |
//! | `keys` | the key-value interface |
//!
//! Invariants:
//! 1. JavaScript's thread never waits: what may wait is a job with a number, and its end is told to
//!    the hub of the thread of JavaScript that has asked for it.
//! 2. Jobs of a connection run one after the other, in the order in which they were asked for.
//! 3. Objects of JavaScript are handles. What they stand for lives until its last job has ended.

mod connection;
mod database;
mod failure;
mod hub;
mod keys;
mod rows;
mod workers;

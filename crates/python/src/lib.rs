//! Colibri in Python: the native module `colibri._colibri`, over which `python/colibri` puts
//! DB-API, asyncio and the rest.
//!
//! | file | what |
//! | --- | --- |
//! | `connection` | a database and its connections: transactions, statements, COPY, notifications |
//! | `cursor` | DB-API's cursors: statements, rows |
//! | `placeholders` | `%s` and `%(name)s` as `$1` |
//! | `values` | values between SQL and Python |
//! | `failure` | errors of SQL as exceptions |
//! | `arrow` | rows as a stream of Arrow, in a capsule |
//! | `keys` | the key-value interface |
//! | `module` | what the module has |
//!
//! A connection has a mutex. Whatever may wait runs without the interpreter's lock, which is never
//! taken while the mutex is held: so threads that use one connection take turns, and none of them
//! blocks the others. A process that was forked refuses connections of its parent.

mod arrow;
mod connection;
mod cursor;
mod failure;
mod keys;
mod module;
mod placeholders;
mod values;

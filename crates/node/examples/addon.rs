//! The native module as tests use it: the same modules as those of `src/lib.rs`. Cargo builds
//! examples for tests, with what it has compiled for them already.

#[path = "../src/connection.rs"]
mod connection;
#[path = "../src/database.rs"]
mod database;
#[path = "../src/failure.rs"]
mod failure;
#[path = "../src/hub.rs"]
mod hub;
#[path = "../src/keys.rs"]
mod keys;
#[path = "../src/rows.rs"]
mod rows;
#[path = "../src/workers.rs"]
mod workers;

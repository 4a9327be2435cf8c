//! The native module as tests use it: the same modules as those of `src/lib.rs`. Cargo builds
//! examples for tests, with what it has compiled for them already.

#[path = "../src/arrow.rs"]
mod arrow;
#[path = "../src/connection.rs"]
mod connection;
#[path = "../src/cursor.rs"]
mod cursor;
#[path = "../src/failure.rs"]
mod failure;
#[path = "../src/keys.rs"]
mod keys;
#[path = "../src/module.rs"]
mod module;
#[path = "../src/placeholders.rs"]
mod placeholders;
#[path = "../src/values.rs"]
mod values;

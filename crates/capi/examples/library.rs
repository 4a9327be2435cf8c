//! The shared library as tests use it: the same modules as those of `src/lib.rs`.
//!
//! Cargo builds no shared library for tests, but examples; and building it by another call of cargo
//! would compile all it depends on a second time, with the features that tests do not ask for.

#[path = "../src/engine/mod.rs"]
mod engine;
#[path = "../src/fault.rs"]
mod fault;
#[path = "../src/fork.rs"]
mod fork;
#[path = "../src/handles.rs"]
mod handles;
#[path = "../src/lmdb/mod.rs"]
mod lmdb;
#[path = "../src/pointers.rs"]
mod pointers;
#[path = "../src/sql/mod.rs"]
mod sql;

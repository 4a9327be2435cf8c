//! The tests of `row_locks.rs` on a store in memory that has to fetch what it is asked for.

#[path = "row_locks.rs"]
mod row_locks;

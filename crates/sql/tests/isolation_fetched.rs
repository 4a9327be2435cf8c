//! The tests of `isolation.rs` on a store in memory that has to fetch what it is asked for:
//! statements go on where they were.

#[path = "isolation.rs"]
mod isolation;

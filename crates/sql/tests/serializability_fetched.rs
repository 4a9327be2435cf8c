//! The tests of `serializability.rs` on a store in memory that has to fetch what it is asked for,
//! and refuses some commits.

#[path = "serializability.rs"]
mod serializability;

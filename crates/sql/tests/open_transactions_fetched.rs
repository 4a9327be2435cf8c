//! The tests of `open_transactions.rs` on a store in memory that has to fetch what it is asked for.

#[path = "open_transactions.rs"]
mod open_transactions;

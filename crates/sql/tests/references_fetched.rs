//! The tests of `references.rs` on a store in memory that has to fetch what it is asked for.

#[path = "references.rs"]
mod references;

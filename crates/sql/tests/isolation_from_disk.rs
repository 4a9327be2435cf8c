//! The tests of `isolation.rs` on the storage engine when pages come from the disk: statements go on
//! where they were.

#[path = "isolation.rs"]
mod isolation;

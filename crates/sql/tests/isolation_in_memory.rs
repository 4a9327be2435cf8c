//! The tests of `isolation.rs` on a store in memory: the seam below sessions lets nothing of the
//! storage engine through.

#[path = "isolation.rs"]
mod isolation;

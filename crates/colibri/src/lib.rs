#![doc = include_str!("../../../README.md")]
//!
//! # This crate
//!
//! The library that programs depend on. Compatibility is promised only for what is reachable from
//! here, not for other crates of this workspace. [`sql`] is SQL in process; everything else is the
//! storage engine's key-value interface, unchanged.

pub mod sql;

pub use colibri_storage::*;

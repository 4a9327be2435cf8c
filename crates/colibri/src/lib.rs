#![doc = include_str!("../../../README.md")]
//!
//! # This crate
//!
//! The library that programs depend on, and the only promise of compatibility in this workspace: what is reachable
//! from here. [`sql`] is SQL in process; everything else is the storage engine's key-value interface, as it is.

pub mod sql;

pub use colibri_storage::*;

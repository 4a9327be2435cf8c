#![doc = include_str!("../../../README.md")]
//!
//! # This crate
//!
//! The library that programs depend on, and the only promise of compatibility in this workspace: what is reachable
//! from here. So far that is the storage engine, as it is; SQL in process comes later.

pub use colibri_storage::*;

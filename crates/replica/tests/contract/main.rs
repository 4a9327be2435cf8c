//! What the log promises, as tests that run on each implementation of the coordination service.
//!
//! A test is a function over a [`Bed`], which makes connections, cuts them and lets time pass. The
//! simulation runs it in virtual time. etcd runs it in real time behind a relay that can be cut.

#![allow(clippy::unwrap_used, reason = "tests")]

mod on_etcd;
mod servers;
mod simulated;
mod suite;
mod support;

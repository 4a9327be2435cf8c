//! Benchmarks for Colibri and its rivals, for the `colibri bench` command.
//!
//! [`kv`] measures embedded key-value engines with the workloads of ioarena, so that its numbers stand beside
//! those that the LMDB and MDBX authors publish. [`freespace`] compares the orders in which Colibri takes free pages,
//! and [`lifo`] what a write-back cache below makes of two of them. [`idle`] measures what any process costs while
//! nothing is asked of it.
//!
//! Invariants
//! - Every engine gets the same keys, values and operations, through the same code, in the same process.
//! - Without the features `rivals` and `rivals-rocksdb` nothing here compiles C.
//!
//! Not here: regressions from one commit to the next (they need a quiet machine and a history), and crash tests
//! (they need the simulator).

mod bootstrap;
mod comparable;
pub mod compare;
mod driver;
pub mod freespace;
pub mod history;
pub mod idle;
pub mod kv;
mod latency;
pub mod lifo;
pub mod matrix;
pub mod merge;
pub mod mounts;
pub mod oltp;
mod plot;
mod random;
mod results;
pub mod shapes;
mod target;
pub mod threads;
mod trace;
mod workload;
mod workplace;

use std::sync::OnceLock;

/// What [`name_commit`] was told.
static COMMIT: OnceLock<&str> = OnceLock::new();

/// Says which commit the running program is built of (and how, if that matters), for results to name; before the first benchmark, and once: later calls
/// change nothing. Whoever has `main` says it, so that this crate is not built again for each commit.
pub fn name_commit(commit: &'static str) {
    _ = COMMIT.set(commit);
}

/// What kept results from being printed to standard output since this was asked last. Runs go on and write their files then, so
/// whoever has `main` asks when a benchmark is over.
pub fn output_failure() -> Option<std::io::Error> {
    results::unsaid()
}

/// The flags of a benchmark, as the command line would have them.
#[cfg(test)]
fn parse<A: clap::Args>(flags: &str) -> Result<A, clap::Error> {
    let command = A::augment_args(clap::Command::new("bench"));
    let words = std::iter::once("bench").chain(flags.split_whitespace());
    A::from_arg_matches(&command.try_get_matches_from(words)?)
}

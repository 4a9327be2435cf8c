//! Benchmarks for Colibri and its rivals, for the `colibri bench` command.
//!
//! | folder | holds | knows |
//! | --- | --- | --- |
//! | `measure` | the ground: errors, environment, costs, charts, output | no engine |
//! | `engine` | `bench kv`: embedded key-value engines under the workloads of ioarena | `measure` |
//! | `sql` | `bench tpcc`, `ycsb`, `stock`, `queue`, `script`, `shapes`, `ch`, `tpch`, `clickbench`: databases over SQL sessions | `measure` |
//! | `experiments` | `bench freespace`, `lifo`, `threads`, `idle` | `measure`, `engine` |
//! | `results` | `bench compare`, `history`, `matrix`, `merge`: work on files of results | `measure`, `sql` |
//!
//! Invariants
//! - Every target gets the same keys, values and operations, through the same code.
//! - Without the features `rivals` and `rivals-rocksdb` nothing here compiles C.
//!
//! Not here: crash tests, which need the simulated disk (`colibri-storage`).

pub mod engine;
pub mod experiments;
pub mod measure;
pub mod results;
pub mod sql;

use std::sync::OnceLock;

/// Set by [`name_commit`].
static COMMIT: OnceLock<&str> = OnceLock::new();

/// Sets the commit that the running program is built of (and how, if that matters), for results to
/// name. To be called before the first benchmark; later calls change nothing. The program with
/// `main` calls it, so that this crate need not be built again for each commit.
pub fn name_commit(commit: &'static str) {
    _ = COMMIT.set(commit);
}

/// The first error of printing results to standard output since the last call. Runs go on after
/// such an error and write their files, so the program with `main` calls this when a benchmark is
/// over.
pub fn output_failure() -> Option<std::io::Error> {
    measure::output::unsaid()
}

/// The flags of a benchmark, as the command line would have them.
#[cfg(test)]
fn parse<A: clap::Args>(flags: &str) -> Result<A, clap::Error> {
    let command = A::augment_args(clap::Command::new("bench"));
    let words = std::iter::once("bench").chain(flags.split_whitespace());
    A::from_arg_matches(&command.try_get_matches_from(words)?)
}

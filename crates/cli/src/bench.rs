//! `colibri bench`: the benchmarks, each a command of its own.

use clap::{Args, Subcommand};
use colibri_bench::kv::{self, KvArgs};

use crate::failure::Result;

/// Measure Colibri beside its rivals
///
/// Results are a table on standard output and, with --json, a file.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  colibri bench kv --n 100000 --modes lazy,sync --rounds 3 --json results.json")]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    #[command(after_help = "Examples:\n  colibri bench kv --n 100000 --modes lazy,sync --json results.json\n  \
                            colibri bench kv --targets colibri,null --workloads get,crud --readers 1 --writers 1\n\n\
                            Rivals need a build with --features rivals (or rivals-rocksdb).")]
    Kv(KvArgs),
}

pub(crate) fn run(args: BenchArgs) -> Result<()> {
    match args.bench {
        Bench::Kv(args) => Ok(kv::run(args)?),
    }
}

//! `colibri bench`: the benchmarks, each a command of its own.

use clap::{Args, Subcommand};
use colibri_bench::freespace::{self, FreespaceArgs};
use colibri_bench::kv::{self, KvArgs};
use colibri_bench::lifo::{self, LifoArgs};

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
                            colibri bench kv --targets colibri,null --workloads get,crud --readers 1 --writers 1\n  \
                            colibri bench kv --targets colibri,flush --modes sync --workloads crud --load 0.5\n\n\
                            Rivals need a build with --features rivals (or rivals-rocksdb).")]
    Kv(KvArgs),
    #[command(after_help = "Example:\n  colibri bench freespace --rounds 3 --results freespace-results\n\n\
                      With random keys the control group's file takes about 7 GB at the default size.")]
    Freespace(FreespaceArgs),
    #[command(after_help = "Examples:\n  colibri bench lifo --records 42,1764\n  \
                            colibri bench lifo --json lifo.json --svg lifo.svg")]
    Lifo(LifoArgs),
}

pub(crate) fn run(args: BenchArgs) -> Result<()> {
    match args.bench {
        Bench::Kv(args) => Ok(kv::run(args)?),
        Bench::Freespace(args) => Ok(freespace::run(&args)?),
        Bench::Lifo(args) => Ok(lifo::run(&args)?),
    }
}

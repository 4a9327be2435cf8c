//! The flags of `colibri bench kv`, and the checks that turn them into a [`Plan`].
//!
//! Invariants
//! - A [`Plan`] can run: its numbers are in range, its targets compiled in, its passes not empty,
//!   and its key space large enough for all records.
//!
//! Not here: anything that touches the disk.

use std::path::PathBuf;

use clap::Args;

use crate::engine::keys::{KEY_BYTES_MAX, KEY_BYTES_MIN, KeySpace};
use crate::engine::targets::{self, TargetName};
use crate::engine::workload::{self, Mode, Pass, Step, Workload};
use crate::measure::flags::{DIR_DEFAULT, check_range, without_repeats};
use crate::measure::{Error, Result, memory_limit};

/// Commits per writer in sync mode unless `--sync-n` says otherwise.
const SYNC_N_DEFAULT: u64 = 10_000;
/// Longest value, in bytes: four of them are held in memory by each thread.
const VALUE_BYTES_MAX: usize = 64 << 20;
/// Most threads of a kind: LMDB's table of readers has 126 slots unless told otherwise, and no
/// machine that this is for has more cores.
const THREADS_MAX: u32 = 120;
/// Rates of operations that make sense, a second: beyond, waiting takes days or clocks do not tell
/// the difference.
const RATE_MIN: f64 = 0.001;
const RATE_MAX: f64 = 1e9;

/// Measure key-value engines with the workloads of ioarena.
///
/// Every (target, mode, round) starts in a fresh directory; rivals alternate round by round; a row
/// is the round with the median throughput. A lost or wrong record, or a problem that the engine's
/// own check finds, makes the result invalid and the exit code non-zero.
#[derive(Debug, Clone, Args)]
pub struct KvArgs {
    /// Engines to measure, the first of which is what the others are compared with
    #[arg(long, value_enum, value_delimiter = ',', default_value = "colibri")]
    pub targets: Vec<TargetName>,
    /// Workloads to run [default: all that the threads can run; crud and get for readers with
    /// writers]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub workloads: Vec<Workload>,
    /// What a commit waits for
    #[arg(long, value_enum, value_delimiter = ',', default_value = "lazy")]
    pub modes: Vec<Mode>,
    /// Operations per thread, and records in a prefilled key space
    #[arg(long, default_value_t = 1_000_000)]
    pub n: u64,
    /// Commits per writer in sync mode [default: 10,000, but at most n]
    #[arg(long)]
    pub sync_n: Option<u64>,
    /// Length of a key in bytes
    #[arg(long, default_value_t = 16)]
    pub key_size: usize,
    /// Length of a value in bytes
    #[arg(long, default_value_t = 32)]
    pub value_size: usize,
    /// Threads that read; without readers and writers one thread runs each workload
    #[arg(long, default_value_t = 0)]
    pub readers: u32,
    /// Threads that write, each in a key space of its own; with readers, both run at the same time
    #[arg(long, default_value_t = 0)]
    pub writers: u32,
    /// Times everything is run
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
    /// Quads in a transaction of the batch workload
    #[arg(long, default_value_t = 500)]
    pub batch: u32,
    /// Then repeat each write workload in open loop, at this part of the throughput it had:
    /// transactions are due at a fixed rate, and latency counts from when they were
    #[arg(long, value_name = "PART", conflicts_with = "rate")]
    pub load: Option<f64>,
    /// Run write workloads in open loop only, at this rate in operations a second of all writers
    /// together
    #[arg(long, value_name = "OPS")]
    pub rate: Option<f64>,
    /// Page size in bytes, for the engines that let it be chosen
    #[arg(long, default_value_t = 4096)]
    pub page_size: u32,
    /// Records to fill the database with before batch, crud or delete is measured, beside those
    /// they make or delete themselves; null and flush keep none
    #[arg(long, default_value_t = 0)]
    pub prefill: u64,
    /// Seed of the key order
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Directory to make databases in; they are removed afterwards, and so is the directory if it
    /// is new
    #[arg(long, default_value = DIR_DEFAULT)]
    pub dir: PathBuf,
    /// Print what each commit and each steady point of the Colibri targets writes, and a summary
    /// for each database. Printing takes time: not for comparing speed
    #[arg(long)]
    pub trace_flush: bool,
    /// Memory that this process may have, pages of files among it: 512M, 2G. For data larger than
    /// memory; takes a control group, which root may make
    #[arg(long, value_name = "SIZE", value_parser = memory_limit::size)]
    pub memory_limit: Option<u64>,
    /// Leave the databases of the last round where they are
    #[arg(long)]
    pub keep: bool,
    /// File to write the results to, as a JSON array
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// When writers do the next operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Arrivals {
    /// As soon as the one before is done.
    Closed,
    /// First so; then once more in open loop, at this part of the throughput that was found.
    Load(f64),
    /// In open loop, at this rate in operations a second of all writers together.
    Rate(f64),
}

/// What is going to be run, checked.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) targets: Vec<TargetName>,
    pub(crate) modes: Vec<Mode>,
    pub(crate) passes: Vec<Pass>,
    pub(crate) n: u64,
    pub(crate) sync_n: u64,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) page_bytes: u32,
    pub(crate) rounds: u32,
    pub(crate) batch: u32,
    /// Records that are there before a write workload which builds on some; see
    /// [`Step::builds_on_records`].
    pub(crate) prefill: u64,
    pub(crate) seed: u64,
    pub(crate) arrivals: Arrivals,
    pub(crate) keys: KeySpace,
    pub(crate) dir: PathBuf,
    pub(crate) keep: bool,
    pub(crate) trace_flush: bool,
}

impl Plan {
    pub(crate) fn new(args: &KvArgs) -> Result<Self> {
        let sync_n = args.sync_n.unwrap_or(SYNC_N_DEFAULT.min(args.n));
        check_range("--n", args.n, 1, 1 << 40)?;
        check_range("--sync-n", sync_n, 1, 1 << 40)?;
        check_range("--prefill", args.prefill, 0, 1 << 40)?;
        check_range("--key-size", args.key_size as u64, KEY_BYTES_MIN as u64, KEY_BYTES_MAX as u64)?;
        check_range("--value-size", args.value_size as u64, 0, VALUE_BYTES_MAX as u64)?;
        check_range("--rounds", args.rounds.into(), 1, 1_000)?;
        check_range("--batch", args.batch.into(), 1, 1_000_000)?;
        check_range("--readers", args.readers.into(), 0, THREADS_MAX.into())?;
        check_range("--writers", args.writers.into(), 0, THREADS_MAX.into())?;
        check_range("--page-size", args.page_size.into(), 4096, 65_536)?;
        if !args.page_size.is_power_of_two() {
            return Err(Error::usage("--page-size must be a power of two"));
        }

        let keys = KeySpace::new(args.key_size, args.seed);
        let spaces = 1 + 2 * u128::from(args.writers.max(1));
        if spaces * u128::from(args.n) + u128::from(args.prefill) > keys.serials_max() {
            return Err(Error::usage(format!(
                "keys of {} bytes are too short for {spaces} key spaces of {} records and {} more before them",
                args.key_size, args.n, args.prefill
            )));
        }

        let targets = without_repeats(&args.targets);
        let modes = without_repeats(&args.modes);
        if targets.is_empty() || modes.is_empty() {
            return Err(Error::usage("--targets and --modes need at least one name each"));
        }
        for name in &targets {
            targets::require_compiled_in(*name)?;
        }
        if args.trace_flush && !targets.iter().any(|name| name.is_colibri()) {
            return Err(Error::usage(
                "--trace-flush shows what Colibri writes: add colibri or colibri-nolog to --targets",
            ));
        }
        let passes = passes(args)?;
        if args.prefill > 0 && !passes.iter().flatten().any(Step::builds_on_records) {
            return Err(Error::usage(
                "--prefill is for the workloads batch, crud and delete, and none is run: add one to --workloads",
            ));
        }
        let arrivals = arrivals(args, &passes)?;
        Ok(Self {
            targets,
            modes,
            passes,
            n: args.n,
            sync_n,
            key_bytes: args.key_size,
            value_bytes: args.value_size,
            page_bytes: args.page_size,
            rounds: args.rounds,
            batch: args.batch,
            prefill: args.prefill,
            seed: args.seed,
            arrivals,
            keys,
            dir: args.dir.clone(),
            keep: args.keep,
            trace_flush: args.trace_flush,
        })
    }
}

/// The passes asked for; workloads that were named but that no thread would run are an error.
fn passes(args: &KvArgs) -> Result<Vec<Pass>> {
    let mixed = args.readers > 0 && args.writers > 0;
    let workloads = match (args.workloads.as_slice(), mixed) {
        ([], false) => Workload::ALL.to_vec(),
        ([], true) => vec![Workload::Crud, Workload::Get],
        (named, _) => named.to_vec(),
    };
    let passes = workload::passes(&workloads, args.readers, args.writers);
    for named in &args.workloads {
        let runs = passes.iter().flatten().any(|step| step.read == Some(*named) || step.write == Some(*named));
        if !runs {
            return Err(Error::usage(match mixed {
                true => "with --readers and --writers, --workloads needs a read (iterate, get) and a write workload"
                    .to_owned(),
                false if named.is_read() => {
                    format!("workload {named} reads, but there are --writers only: add --readers")
                }
                false => format!("workload {named} writes, but there are --readers only: add --writers"),
            }));
        }
    }
    Ok(passes)
}

fn arrivals(args: &KvArgs, passes: &[Pass]) -> Result<Arrivals> {
    let (flag, arrivals) = match (args.load, args.rate) {
        (None, None) => return Ok(Arrivals::Closed),
        (Some(load), _) if load > 0.0 && load < 1.0 => ("--load", Arrivals::Load(load)),
        (Some(load), _) => {
            return Err(Error::usage(format!("--load is {load}, but must be more than 0 and less than 1")));
        }
        (None, Some(rate)) if (RATE_MIN..=RATE_MAX).contains(&rate) => ("--rate", Arrivals::Rate(rate)),
        (None, Some(rate)) => {
            return Err(Error::usage(format!("--rate is {rate}, but must be from {RATE_MIN} to {RATE_MAX}")));
        }
    };
    if passes.iter().flatten().all(|step| step.write.is_none()) {
        return Err(Error::usage(format!("{flag} is for write workloads, and none is run: add one to --workloads")));
    }
    Ok(arrivals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(flags: &str) -> std::result::Result<Plan, String> {
        let args = crate::parse(flags).map_err(|error| error.to_string())?;
        Plan::new(&args).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_error(flags: &str, expect: &str) {
        let error = plan(flags).expect_err("these flags are wrong");
        assert!(error.contains(expect), "{flags}: {error}");
    }

    #[test]
    fn the_defaults_are_those_of_ioarena() {
        let plan = plan("").unwrap();
        assert_eq!(
            (plan.n, plan.sync_n, plan.batch, plan.key_bytes, plan.value_bytes),
            (1_000_000, 10_000, 500, 16, 32)
        );
        assert_eq!(plan.targets, [TargetName::Colibri]);
        assert_eq!(plan.modes, [Mode::Lazy]);
        assert_eq!(plan.passes.concat().len(), 6);
    }

    #[test]
    fn lists_are_split_and_repeats_dropped() {
        let plan = plan("--targets null,colibri,null --modes sync,nosync --workloads get,crud --n 100").unwrap();
        assert_eq!(plan.targets, [TargetName::Null, TargetName::Colibri]);
        assert_eq!(plan.modes, [Mode::Sync, Mode::Nosync]);
        assert_eq!(plan.passes.concat().len(), 2);
        assert_eq!(plan.sync_n, 100);
    }

    #[test]
    fn wrong_flags_say_what_would_be_right() {
        check_error("--workloads nonsense", "crud");
        check_error("--targets oracle", "colibri");
        check_error("--modes maybe", "lazy");
        check_error("--n 0", "--n is 0");
        check_error("--key-size 3", "from 4 to 511");
        check_error("--key-size 4 --n 10000000", "too short");
        check_error("--key-size 4 --n 1000 --prefill 20000000", "too short");
        check_error("--workloads set,get --prefill 5", "--prefill is for the workloads batch, crud and delete");
        check_error("--page-size 5000", "power of two");
        check_error("--readers 2 --workloads crud", "--writers");
        check_error("--writers 2 --workloads get", "--readers");
        check_error("--readers 2 --writers 2 --workloads get", "a write workload");
        check_error("--readers 1000", "--readers is 1000");
        check_error("--targets null --trace-flush", "add colibri");
        check_error("--load 0", "--load is 0, but must be more than 0 and less than 1");
        check_error("--load 1", "less than 1");
        check_error("--load NaN", "less than 1");
        check_error("--rate 0", "--rate is 0, but must be from 0.001");
        check_error("--rate inf", "--rate is inf");
        check_error("--rate 5 --load 0.5", "cannot be used with");
        check_error("--workloads get --load 0.5", "--load is for write workloads");
    }

    #[cfg(not(feature = "rivals"))]
    #[test]
    fn a_target_that_is_not_compiled_in_names_its_feature() {
        check_error("--targets colibri,lmdb", "--features rivals");
    }

    #[cfg(not(feature = "rivals-rocksdb"))]
    #[test]
    fn rocksdb_names_a_feature_of_its_own() {
        check_error("--targets rocksdb", "--features rivals-rocksdb");
    }
}

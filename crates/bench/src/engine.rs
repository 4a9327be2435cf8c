//! `colibri bench kv`: embedded key-value engines under the workloads of ioarena.
//!
//! Read it in this order: `workload` (what is run), `targets` (the seam to the engines), `drive`
//! (threads and clocks), `schedule` (open loop), `cost` (what else is counted), `runner` (rounds
//! and directories), `report` (what is published).
//!
//! # Traps
//!
//! Numbers from here are comparable only with these in mind.
//!
//! - **Lazy is not one guarantee.** After a power loss LMDB's lazy mode may leave a corrupt
//!   database, MDBX and Colibri roll back to their last steady point, SQLite and RocksDB replay the
//!   log as far as it got, and redb goes back to its last immediate commit. Each result's notes say
//!   which.
//! - **Lazy needs a bound to be comparable.** Colibri and MDBX make a steady point at least per 64
//!   MiB of changes or second; redb commits durably once a second; LMDB has no bound, so its writes
//!   are put off until the kernel or the final sync.
//! - **The kernel counts a page that is written again before it reached the disk once**, and drops
//!   what a deleted file had dirty. `written_bytes_per_op` runs to the end of a final sync, which
//!   makes all engines pay for what they put off, but it is still not what the application wrote.
//! - **Engines hide work in background threads.** Processor time and bytes are those of the whole
//!   process until the engine is quiet; throughput is not. `sync_seconds` says how long becoming
//!   quiet took.
//! - **Memory means different things.** It is the peak resident set. Mapped pages count in it
//!   (LMDB, MDBX, Colibri); pages that are read through the kernel's cache do not, nor does their
//!   second copy there. What an engine's allocator keeps after closing counts for the next one in
//!   the same process: to compare memory, run one target at a time.
//! - **Data fits memory, and reads are warm**: what is read was just written. With `--memory-limit`
//!   below the size of the data most of it has gone to the disk again, and reads fetch it from
//!   there. The harness' own memory counts as well.
//! - **A `get` opens a read transaction each.** LMDB and MDBX renew one, which is their fastest
//!   way; the others have no such thing.
//! - **A sync is as good as the disk below it.** The file system is in every result; on tmpfs a
//!   sync is free.
//! - **`null` is the ceiling.** A result close to `null`'s measures the harness. Key generation and
//!   verification are inside the clock, for all engines alike.
//! - **`flush` is the ceiling of one durable writer**: a write and a flush a commit, and nothing
//!   else. It has no group commit, so engines may pass it with several writers.
//! - **Latency in closed loop flatters.** A writer that waits for a slow commit asks for nothing
//!   meanwhile. For the latency that users would see, `--load 0.5` repeats each write workload at
//!   half of the throughput it just had, and counts from when a transaction was due. Waiting for
//!   that moment spins for its last 50 µs, which is in the processor time.
//! - **Rust engines and C engines are built by different compilers**, each as its own package
//!   builds it. Debug builds say so in their notes and are for tests only.
//!
//! Each pass starts in a fresh directory, prefilled where its workload needs records, so that a
//! result does not depend on which other workloads were asked for; `iterate` and `get` change
//! nothing and share one.
//!
//! `--prefill` fills the database with more records before `batch`, `crud` or `delete`, in
//! transactions of 10,000 in the mode that is measured, and one sync at the end; neither times nor
//! costs have it in them. A walk over all records after each write workload counts these, too.
//!
//! Not here: throughput by the second, and page faults.

pub(crate) mod args;
mod drive;
pub(crate) mod keys;
mod report;
mod runner;
mod targets;
pub(crate) mod trace;
mod workload;

pub use args::KvArgs;
pub use targets::TargetName;
pub use workload::{Mode, Workload};

use args::Plan;
use report::Row;
use runner::Measured;

use crate::measure::environment::Environment;
use crate::measure::memory_limit::MemoryLimit;
use crate::measure::output::{self, say};
use crate::measure::progress::Progress;
use crate::measure::workplace::Workplace;
use crate::measure::{Error, Result};

/// Runs the benchmark: progress to standard error, results to standard output and, if asked for, to
/// a JSON file.
///
/// # Errors
///
/// Wrong flags and engines that are not compiled in are refused before anything is run. Once
/// everything has been run and printed, [`Error::InvalidResults`] says that some results must not
/// be believed.
pub fn run(args: KvArgs) -> Result<()> {
    let plan = Plan::new(&args)?;
    output::ensure_writable(&args.json)?;
    let progress = Progress::new(runner::run_count(&plan));
    // Databases are made within the limit, so that all they read counts.
    let limit = MemoryLimit::of_self(args.memory_limit)?;
    let workplace = Workplace::new(&plan.dir, plan.keep)?;
    let environment = Environment::observe(workplace.dir());
    let measured = runner::run(&plan, &workplace, &progress);
    progress.finish();
    let measured = measured?;

    let mut rows = report::rows(&measured.measurements, &plan, &environment);
    rows.iter_mut().for_each(|row| row.memory_limit_bytes = args.memory_limit);
    drop(limit);
    print(&plan, &environment, &measured, &rows);
    if plan.keep {
        say!("databases: {}", workplace.dir().display());
    }
    if let Some(path) = &args.json {
        output::write_json(path, &rows)?;
    }
    match rows.iter().filter(|row| !row.valid).count() {
        0 => Ok(()),
        invalid => Err(Error::InvalidResults { invalid, total: rows.len() }),
    }
}

fn print(plan: &Plan, environment: &Environment, measured: &Measured, rows: &[Row]) {
    output::print_heading(environment);
    say!(
        "data:    {} records or operations a thread ({} commits a writer in sync mode), keys of {} and values of {} bytes, median of {} rounds",
        plan.n,
        plan.sync_n,
        plan.key_bytes,
        plan.value_bytes,
        plan.rounds
    );
    if let Some(bytes) = rows.first().and_then(|row| row.memory_limit_bytes) {
        say!("memory:  at most {} MiB, pages of files among it", bytes >> 20);
    }
    if plan.prefill > 0 {
        say!("prefill: {} records before batch, crud and delete", plan.prefill);
    }
    say!("\n{}", report::table(rows, &plan.targets));
    for check in &measured.checks {
        say!("{} {} {}: check: {}", check.target, check.mode, check.what, check.verdict());
    }
    for note in report::footnotes(&measured.measurements, plan, environment) {
        say!("note: {note}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// Runs the benchmark at a small size. Returns the rows, all of which must be valid.
    #[track_caller]
    fn check(flags: &str, rows_expected: usize) -> Vec<Row> {
        let outer = tempfile::tempdir().unwrap();
        let mut args: KvArgs = parse(&format!("--sync-n 50 --batch 100 {flags}")).unwrap();
        args.n = args.n.min(1000);
        args.dir = outer.path().join("data");
        let plan = Plan::new(&args).unwrap();
        let workplace = Workplace::new(&plan.dir, false).unwrap();
        let measured = runner::run(&plan, &workplace, &Progress::silent()).unwrap();
        let rows = report::rows(&measured.measurements, &plan, &Environment::observe(workplace.dir()));
        assert_eq!(rows.len(), rows_expected);
        for row in &rows {
            assert!(row.valid, "{} {} {}: {}", row.target, row.mode, row.workload, row.notes);
            assert!(row.ops_per_s > 0.0 && row.seconds > 0.0 && row.latency_us.max > 0.0, "{row:?}");
            assert_eq!(row.rounds.len(), plan.rounds as usize);
        }
        drop(workplace);
        assert!(!args.dir.exists(), "the databases are removed");
        rows
    }

    fn check_everything(target: &str) {
        let rows = check(&format!("--targets {target} --modes sync,lazy,nosync --rounds 2"), 18);
        let ops = |workload: &str, mode: &str| {
            rows.iter().find(|row| row.workload == workload && row.mode == mode).unwrap().ops
        };
        assert_eq!((ops("set", "sync"), ops("set", "lazy"), ops("batch", "sync")), (50, 1000, 1000));
        assert_eq!((ops("get", "sync"), ops("iterate", "lazy")), (1000, 1000));
        assert!(rows.iter().all(|row| row.n == row.ops && row.prefill == 0));
        check(&format!("--targets {target} --readers 2"), 2);
        check(&format!("--targets {target} --writers 2"), 4);
        check(&format!("--targets {target} --readers 1 --writers 2 --workloads iterate,get,crud"), 4);
        check(&format!("--targets {target} --key-size 8 --value-size 0"), 6);
        check(&format!("--targets {target} --key-size 200 --value-size 5000 --n 200"), 6);
    }

    #[test]
    fn the_null_target_runs_every_workload() {
        check_everything("null");
    }

    #[test]
    fn the_flush_target_runs_every_workload() {
        check_everything("flush");
    }

    #[test]
    fn colibri_runs_every_workload() {
        check_everything("colibri");
        check_everything("colibri-nolog");
        check_everything("colibri-encrypted");
    }

    #[cfg(feature = "rivals")]
    #[test]
    fn lmdb_runs_every_workload() {
        check_everything("lmdb");
    }

    #[cfg(feature = "rivals")]
    #[test]
    fn mdbx_runs_every_workload() {
        check_everything("mdbx");
    }

    #[cfg(feature = "rivals")]
    #[test]
    fn redb_runs_every_workload() {
        check_everything("redb");
    }

    #[cfg(feature = "rivals")]
    #[test]
    fn sqlite_runs_every_workload() {
        check_everything("sqlite");
    }

    #[cfg(feature = "rivals-rocksdb")]
    #[test]
    fn rocksdb_runs_every_workload() {
        check_everything("rocksdb");
    }

    #[test]
    fn rivals_alternate_and_share_the_table() {
        let rows = check("--targets null,colibri --workloads set,get --rounds 3", 4);
        let table = report::table(&rows, &[TargetName::Null, TargetName::Colibri]);
        assert_eq!(table.lines().count(), 5);
    }

    #[test]
    fn a_load_repeats_each_write_workload_at_a_part_of_its_throughput() {
        for writers in [1, 8] {
            let flags = format!("--targets null,colibri --modes sync --writers {writers} --load 0.5");
            let rows = check(&format!("{flags} --workloads crud,batch --rounds 2"), 8);
            for pair in rows.chunks(2) {
                let [closed, open] = pair else { panic!("rows come in pairs") };
                assert_eq!((closed.rate, &closed.workload, &closed.target), (None, &open.workload, &open.target));
                let rate = open.rate.unwrap();
                assert!(rate <= 0.5 * closed.ops_per_s_max && rate >= 0.5 * closed.ops_per_s_min, "{open:?}");
                assert!(open.notes.contains("open loop"), "{}", open.notes);
            }
            let table = report::table(&rows, &[TargetName::Null, TargetName::Colibri]);
            assert!(table.contains("p99.9/p50"), "{table}");
        }
        // Reads stay in closed loop, and there is nothing to repeat.
        check("--targets null --load 0.5 --workloads get,set --n 100", 3);
        check("--targets colibri --readers 1 --writers 2 --load 0.5 --n 200", 4);
    }

    #[test]
    fn a_rate_is_kept_and_latency_runs_from_when_a_write_was_due() {
        let rows = check("--targets null --workloads set,get --rate 2000 --n 400", 2);
        assert_eq!((rows[0].rate, rows[1].rate), (Some(2000.0), None));
        // No transaction starts early: the last of 400 was due after 399 intervals.
        assert!(rows[0].seconds >= 399.0 / 2000.0, "{:?}", rows[0]);
        // No target reaches such a rate. The waiting counts as latency.
        let rows = check("--targets flush --modes sync --workloads set --rate 1e8", 1);
        assert!(rows[0].latency_us.max / 1e6 > 0.9 * rows[0].seconds, "{:?}", rows[0]);
        assert!(rows[0].notes.contains("fell behind"), "{}", rows[0].notes);
    }

    #[test]
    fn records_before_a_write_workload_are_kept_and_not_paid_for() {
        const PREFILL: u64 = 100_000;
        let flags = format!("--targets colibri --modes sync --workloads batch,crud,delete,set,get --prefill {PREFILL}");
        for row in check(&flags, 5) {
            let filled = matches!(row.workload.as_str(), "batch" | "crud" | "delete");
            assert_eq!(row.prefill, if filled { PREFILL } else { 0 }, "{row:?}");
            if row.workload == "crud" {
                // The file holds all prefilled records and a few pages more.
                assert!(row.cost.disk_bytes.unwrap() > PREFILL * 48, "{row:?}");
            }
        }
        let rows = check("--targets null,flush --workloads crud --prefill 1000", 2);
        assert!(rows.iter().all(|row| row.prefill == 0));
        let rows = check("--targets colibri --readers 1 --writers 2 --workloads crud,iterate --prefill 1000", 2);
        assert!(rows.iter().all(|row| row.prefill == 1000));
        assert_eq!((rows[0].n, rows[0].ops), (1000, 2000));
    }

    #[test]
    fn readers_beside_writers_pay_for_themselves_alone() {
        let rows = check("--targets colibri --readers 1 --writers 1", 2);
        let [writers, readers] = &rows[..] else { panic!("two rows") };
        assert_eq!((writers.workload.as_str(), readers.workload.as_str()), ("crud", "get"));
        assert!(writers.cost.cpu_us_per_op.unwrap() > 0.0 && readers.cost.cpu_us_per_op.unwrap() > 0.0);
        assert!(readers.cost.cpu_us_per_op.unwrap() <= readers.seconds * 1e6 / readers.ops as f64 * 1.1, "{readers:?}");
        assert_eq!((readers.cost.written_bytes_per_op, readers.cost.read_bytes_per_op), (None, None));
        assert!(readers.notes.contains("in the row of crud"), "{}", readers.notes);
    }

    #[test]
    fn the_json_file_is_an_array_of_results() {
        let outer = tempfile::tempdir().unwrap();
        let mut args: KvArgs = parse("--targets null --n 1000 --workloads get").unwrap();
        args.dir = outer.path().join("data");
        args.json = Some(outer.path().join("results.json"));
        run(args.clone()).unwrap();
        let text = std::fs::read_to_string(args.json.unwrap()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json.as_array().map(Vec::len), Some(1));
        assert_eq!(json[0]["workload"], "get");
    }
}

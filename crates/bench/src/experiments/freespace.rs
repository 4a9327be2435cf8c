//! `colibri bench freespace`: what the order in which free pages are taken costs or gains, after
//! the experiment of Voron's author: many small transactions of new records under every policy,
//! with one that never takes a free page as the control group.
//!
//! ```text
//! for keys ── for round ── for policy, the next one first each round
//!                            └─ fresh directory: open, transactions under a write trace, check, remove
//! ```
//!
//! # Traps
//!
//! - **The control group is not free of costs.** It writes in one range a commit, but to blocks
//!   never written before, which a file system has to note with every flush, and its free map
//!   grows.
//! - **A range is not a seek.** On a solid-state disk writing many ranges costs little more than
//!   one; on a rotating disk, or behind storage with large blocks, it does.
//! - The meta page that ends a commit is in no sum: one page and one range more for every policy
//!   alike.
//!
//! Not here: what a write-back cache makes of it (`lifo`).

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::{Args, ValueEnum};
use colibri::{Database, Durability, FreeSpace, Options, TableKind, WriteKind};
use serde::Serialize;

use crate::engine::TargetName;
use crate::engine::keys::{self, KeySpace};
use crate::engine::trace::Totals;
use crate::measure::environment::{Environment, doubts};
use crate::measure::flags::{DIR_DEFAULT, check_range, without_repeats};
use crate::measure::format::{align, significant, whole};
use crate::measure::output::{self, ResultArgs, ResultFiles, say};
use crate::measure::plot::{Panel, Plot, Shape};
use crate::measure::progress::Progress;
use crate::measure::workplace::Workplace;
use crate::measure::{Error, Result};

const KEY_BYTES: usize = 16;
/// Places of the plotted lines.
const POINTS: u64 = 40;
/// The control group comes first in lists.
const POLICIES: [FreeSpace; 4] = [FreeSpace::Append, FreeSpace::Lifo, FreeSpace::Fifo, FreeSpace::Lowest];

/// Measure the order in which free pages are taken, after Voron's experiment.
///
/// Every (keys, round, policy) starts in a fresh directory; policies alternate round by round; a
/// row is the round with the median throughput. The policy append never takes a free page: it is
/// the control group that the others are compared with. Pages and ranges are those of the engine's
/// write trace.
#[derive(Debug, Clone, Args)]
pub struct FreespaceArgs {
    /// Transactions
    #[arg(long, default_value_t = 10_000)]
    pub txns: u64,
    /// New records in each transaction
    #[arg(long, default_value_t = 100)]
    pub values: u64,
    /// Length of a value in bytes
    #[arg(long, default_value_t = 128)]
    pub value_size: usize,
    /// Orders in which keys are inserted
    #[arg(long, value_enum, value_delimiter = ',', default_value = "random,sequential")]
    pub keys: Vec<KeyOrder>,
    /// What a transaction waits for
    #[arg(long, value_enum, default_value = "sync")]
    pub mode: CommitMode,
    /// Times everything is run
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
    /// Seed of the random keys
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Directory to make databases in; they are removed afterwards, and so is the directory if it
    /// is new
    #[arg(long, default_value = DIR_DEFAULT)]
    pub dir: PathBuf,
    /// Where the results go.
    #[command(flatten)]
    pub output: ResultArgs,
}

/// The order in which keys are inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum KeyOrder {
    /// Random: each key is anywhere among the existing ones.
    Random,
    /// Ascending: each key is greater than all existing ones.
    Sequential,
}

/// What a transaction waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CommitMode {
    /// Until all its pages are on disk. There is no log.
    Sync,
    /// Nothing. Pages that no steady point needs are reused at once.
    Nosync,
}

impl fmt::Display for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Random => "random",
            Self::Sequential => "sequential",
        })
    }
}

impl CommitMode {
    fn durability(self) -> Durability {
        match self {
            Self::Sync => Durability::SyncNoLog,
            Self::Nosync => Durability::NoSync,
        }
    }

    /// Which lines of the write trace belong to a transaction.
    fn traced(self) -> WriteKind {
        match self {
            Self::Sync => WriteKind::Steady,
            Self::Nosync => WriteKind::Commit,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync without log",
            Self::Nosync => "nosync",
        }
    }
}

/// A policy's name, as in the documentation.
pub(crate) fn policy_name(policy: FreeSpace) -> &'static str {
    match policy {
        FreeSpace::Lifo => "lifo",
        FreeSpace::Fifo => "fifo",
        FreeSpace::Lowest => "lowest",
        FreeSpace::Append => "append",
    }
}

/// What one run measured.
struct Measurement {
    keys: KeyOrder,
    policy: FreeSpace,
    seconds: f64,
    /// What each transaction wrote.
    txns: Vec<Totals>,
    file_bytes: u64,
    problems: Vec<String>,
}

/// One result, as published.
#[derive(Debug, Clone, Serialize)]
struct Row {
    bench: &'static str,
    keys: String,
    policy: &'static str,
    mode: &'static str,
    txns: u64,
    values: u64,
    key_bytes: usize,
    value_bytes: usize,
    seconds: f64,
    values_per_s: f64,
    /// Throughput of every round, in the order in which they ran.
    rounds: Vec<f64>,
    /// Throughput relative to `append`.
    vs_append: f64,
    per_txn: PerTxn,
    /// Means over consecutive transactions, which end with the one named.
    over_time: Vec<Point>,
    file_bytes: u64,
    valid: bool,
    notes: String,
    env: Environment,
}

/// Means over transactions.
#[derive(Debug, Clone, Copy, Serialize)]
struct PerTxn {
    pages: f64,
    kilobytes: f64,
    ranges: f64,
    leaves: f64,
    branches: f64,
    overflow: f64,
    free_map: f64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Point {
    txn: u64,
    #[serde(flatten)]
    mean: PerTxn,
}

impl PerTxn {
    fn of(txns: &[Totals]) -> Self {
        let mean = |of: fn(&Totals) -> u64| txns.iter().map(of).sum::<u64>() as f64 / txns.len().max(1) as f64;
        Self {
            pages: mean(|t| t.pages),
            kilobytes: mean(|t| t.bytes) / 1024.0,
            ranges: mean(|t| t.ranges),
            leaves: mean(|t| t.leaves),
            branches: mean(|t| t.branches),
            overflow: mean(|t| t.overflow),
            free_map: mean(|t| t.free_map),
        }
    }
}

/// Runs the experiment: progress to standard error, results to standard output and to files.
///
/// # Errors
///
/// Wrong flags are refused before anything is run. Once everything has been printed,
/// [`Error::InvalidResults`] says that some results must not be believed.
pub fn run(args: &FreespaceArgs) -> Result<()> {
    check(args)?;
    let orders = without_repeats(&args.keys);
    let files = ResultFiles::new(&args.output, "freespace")?;
    let progress = Progress::new(orders.len() as u64 * u64::from(args.rounds) * POLICIES.len() as u64);
    let workplace = Workplace::new(&args.dir, false)?;
    let environment = Environment::observe(workplace.dir());
    let measured = measure_all(args, &orders, &workplace, &progress);
    progress.finish();
    let rows = rows(args, &orders, &measured?, &environment);
    print(args, &environment, &rows);
    files.write(&rows, &plot(args, &orders, &rows))?;
    match rows.iter().filter(|row| !row.valid).count() {
        0 => Ok(()),
        invalid => Err(Error::InvalidResults { invalid, total: rows.len() }),
    }
}

fn check(args: &FreespaceArgs) -> Result<()> {
    check_range("--txns", args.txns, 1, 1 << 30)?;
    check_range("--values", args.values, 1, 1 << 20)?;
    check_range("--value-size", args.value_size as u64, 0, 64 << 20)?;
    check_range("--rounds", args.rounds.into(), 1, 1000)?;
    if args.keys.is_empty() {
        return Err(Error::usage("--keys needs at least one name"));
    }
    Ok(())
}

fn measure_all(
    args: &FreespaceArgs,
    orders: &[KeyOrder],
    workplace: &Workplace,
    progress: &Progress,
) -> Result<Vec<Measurement>> {
    let mut measured = Vec::new();
    for &keys in orders {
        for round in 0..args.rounds as usize {
            for turn in 0..POLICIES.len() {
                let policy = POLICIES[(turn + round) % POLICIES.len()];
                let what = format!("{keys} {}, round {}", policy_name(policy), round + 1);
                progress.begin(&what);
                let dir = workplace.make(&format!("{keys}-{}-{round}", policy_name(policy)))?;
                quiet(&dir)?;
                let measurement = measure(args, keys, policy, &dir)?;
                workplace.remove(&dir)?;
                let per_second = whole(measurement.values_per_s(args));
                progress.line(&format!("{what}: {per_second} values/s in {:.1} s", measurement.seconds));
                progress.advance();
                measured.push(measurement);
            }
        }
    }
    Ok(measured)
}

/// Makes the file system write its dirty pages, so that a run does not pay for the files of the run
/// before.
fn quiet(dir: &Path) -> Result<()> {
    let flushed = std::fs::File::open(dir).and_then(|dir| rustix::fs::syncfs(dir).map_err(Into::into));
    flushed.map_err(|error| Error::io("cannot flush the file system of", dir, error))
}

fn failed(error: colibri::Error) -> Error {
    Error::engine(TargetName::Colibri, error)
}

fn measure(args: &FreespaceArgs, keys: KeyOrder, policy: FreeSpace, dir: &Path) -> Result<Measurement> {
    let traced: Arc<Mutex<Vec<Totals>>> = Arc::default();
    let (sink, kind) = (Arc::clone(&traced), args.mode.traced());
    let options = Options::new().durability(args.mode.durability()).free_space(policy).trace_writes(move |trace| {
        if trace.kind == kind {
            let mut txn = Totals::default();
            txn.add(trace);
            sink.lock().unwrap_or_else(PoisonError::into_inner).push(txn);
        }
    });
    let database = Database::open(dir, &options).map_err(failed)?;
    let mut txn = database.write().map_err(failed)?;
    let table = txn.create_table("values", TableKind::Plain).map_err(failed)?;
    txn.commit().map_err(failed)?;
    database.sync().map_err(failed)?;
    traced.lock().unwrap_or_else(PoisonError::into_inner).clear();

    let space = KeySpace::new(KEY_BYTES, args.seed);
    let mut key = [0; KEY_BYTES];
    let mut value = vec![0; args.value_size];
    let started = Instant::now();
    for first in (0..args.txns).map(|txn| txn * args.values) {
        let mut txn = database.write().map_err(failed)?;
        for serial in first..first + args.values {
            match keys {
                KeyOrder::Random => space.write_key(serial, &mut key),
                KeyOrder::Sequential => key.copy_from_slice(&u128::from(serial).to_be_bytes()),
            }
            keys::write_value(&key, &mut value);
            txn.put(&table, &key, &value).map_err(failed)?;
        }
        txn.commit().map_err(failed)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let txns = std::mem::take(&mut *traced.lock().unwrap_or_else(PoisonError::into_inner));

    let mut problems = Vec::new();
    let report = database.check().map_err(failed)?;
    problems.extend(report.problems.first().map(|problem| format!("check: {problem}")));
    if report.entries != args.txns * args.values {
        problems.push(format!("{} records of {} are there", report.entries, args.txns * args.values));
    }
    if txns.len() as u64 != args.txns {
        problems.push(format!("{} transactions of {} were traced", txns.len(), args.txns));
    }
    let stat = database.stat().map_err(failed)?;
    let file_bytes = stat.pages * u64::from(stat.page_size);
    Ok(Measurement { keys, policy, seconds, txns, file_bytes, problems })
}

impl Measurement {
    fn values_per_s(&self, args: &FreespaceArgs) -> f64 {
        (args.txns * args.values) as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}

fn rows(args: &FreespaceArgs, orders: &[KeyOrder], measured: &[Measurement], environment: &Environment) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut control = HashMap::new();
    for &keys in orders {
        for policy in POLICIES {
            let rounds: Vec<&Measurement> = measured.iter().filter(|m| m.keys == keys && m.policy == policy).collect();
            let row = row(args, &rounds, environment);
            let append = *control.entry(keys).or_insert(row.values_per_s);
            rows.push(Row { vs_append: row.values_per_s / append, ..row });
        }
    }
    rows
}

fn row(args: &FreespaceArgs, rounds: &[&Measurement], environment: &Environment) -> Row {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    // Of two, the slower one.
    let median = sorted[sorted.len() / 2];
    let bucket = args.txns.div_ceil(POINTS).max(1) as usize;
    let ends = (1..).map(|index| (index * bucket as u64).min(args.txns));
    let over_time =
        median.txns.chunks(bucket).zip(ends).map(|(txns, txn)| Point { txn, mean: PerTxn::of(txns) }).collect();
    let problems: Vec<String> =
        rounds.iter().flat_map(|round| &round.problems).map(|problem| format!("INVALID: {problem}")).collect();
    let doubts = doubts(environment).map(str::to_owned);
    Row {
        bench: "freespace",
        keys: median.keys.to_string(),
        policy: policy_name(median.policy),
        mode: args.mode.name(),
        txns: args.txns,
        values: args.values,
        key_bytes: KEY_BYTES,
        value_bytes: args.value_size,
        seconds: median.seconds,
        values_per_s: median.values_per_s(args),
        rounds: rounds.iter().map(|round| round.values_per_s(args)).collect(),
        vs_append: 1.0,
        per_txn: PerTxn::of(&median.txns),
        over_time,
        file_bytes: median.file_bytes,
        valid: problems.is_empty(),
        notes: problems
            .into_iter()
            .chain([mode_note(args.mode).to_owned()])
            .chain(doubts)
            .collect::<Vec<_>>()
            .join("; "),
        env: environment.clone(),
    }
}

fn mode_note(mode: CommitMode) -> &'static str {
    match mode {
        CommitMode::Sync => {
            "sync without log: every transaction is a steady point, and its pages are what went to disk before it \
             returned, the meta page not counted"
        }
        CommitMode::Nosync => {
            "nosync: nothing waits for the disk, and there is one steady point at the start and none after it; pages \
             are what transactions wrote to memory"
        }
    }
}

fn print(args: &FreespaceArgs, environment: &Environment, rows: &[Row]) {
    output::print_heading(environment);
    say!(
        "data:    {} transactions of {} values, keys of {KEY_BYTES} and values of {} bytes, {}, median of {} rounds\n",
        args.txns,
        args.values,
        args.value_size,
        args.mode.name(),
        args.rounds
    );
    say!("{}", table(rows));
    for row in rows.iter().filter(|row| !row.valid) {
        say!("note: {} {}: {}", row.keys, row.policy, row.notes);
    }
    say!("note: {}", mode_note(args.mode));
    say!("note: append never takes a free page: the control group");
    for doubt in doubts(environment) {
        say!("note: {doubt}");
    }
}

fn table(rows: &[Row]) -> String {
    let headings = [
        "keys",
        "policy",
        "values/s",
        "vs append",
        "pages/txn",
        "KB/txn",
        "ranges/txn",
        "leaves",
        "branches",
        "free map",
        "file MB",
        "",
    ];
    let mut cells = vec![headings.map(str::to_owned).to_vec()];
    for row in rows {
        let PerTxn { pages, kilobytes, ranges, leaves, branches, free_map, .. } = row.per_txn;
        let mut line = vec![row.keys.clone(), row.policy.to_owned(), whole(row.values_per_s)];
        line.push(format!("{:.2}x", row.vs_append));
        line.extend([pages, kilobytes, ranges, leaves, branches, free_map].map(significant));
        line.push(significant(row.file_bytes as f64 / 1e6));
        line.push(if row.valid { String::new() } else { "INVALID".to_owned() });
        cells.push(line);
    }
    align(&cells, 2)
}

fn plot(args: &FreespaceArgs, orders: &[KeyOrder], rows: &[Row]) -> Plot {
    let groups: Vec<String> = orders.iter().map(|keys| format!("{keys} keys")).collect();
    let of_policy = |policy: FreeSpace| rows.iter().filter(move |row| row.policy == policy_name(policy));
    let bars = |title: &str, of: fn(&Row) -> f64| Panel {
        title: title.to_owned(),
        shape: Shape::Bars(groups.clone()),
        logarithmic: false,
        series: POLICIES.iter().map(|&p| (policy_name(p).to_owned(), of_policy(p).map(of).collect())).collect(),
    };
    let mut panels = vec![
        bars("throughput relative to append", |row| row.vs_append),
        bars("kilobytes a transaction", |row| row.per_txn.kilobytes),
        bars("contiguous ranges a transaction", |row| row.per_txn.ranges),
    ];
    for keys in orders {
        let of_keys = |policy| of_policy(policy).filter(|row| row.keys == keys.to_string());
        let Some(first) = of_keys(POLICIES[0]).next() else { continue };
        let places = first.over_time.iter().map(|point| point.txn as f64).collect();
        let ranges = |row: &Row| row.over_time.iter().map(|point| point.mean.ranges).collect::<Vec<_>>();
        panels.push(Panel {
            title: format!("contiguous ranges a transaction as the file grows, {keys} keys"),
            shape: Shape::Lines(places, "transactions".to_owned()),
            logarithmic: false,
            series: POLICIES
                .iter()
                .map(|&p| (policy_name(p).to_owned(), of_keys(p).flat_map(ranges).collect()))
                .collect(),
        });
    }
    let title = format!(
        "{} transactions of {} values of {} bytes, {}",
        args.txns,
        args.values,
        args.value_size,
        args.mode.name()
    );
    Plot { title, panels }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn every_policy_keeps_all_records_and_only_append_writes_in_one_range() {
        let outer = tempfile::tempdir().unwrap();
        let mut args: FreespaceArgs = parse("--txns 150 --values 20").unwrap();
        args.dir = outer.path().join("data");
        args.output.json = Some(outer.path().join("results.json"));
        args.output.svg = Some(outer.path().join("results.svg"));
        for mode in [CommitMode::Sync, CommitMode::Nosync] {
            args.mode = mode;
            run(&args).unwrap();
            assert!(!args.dir.exists(), "the databases are removed");
            let json = std::fs::read_to_string(args.output.json.as_ref().unwrap()).unwrap();
            let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
            assert_eq!(rows.len(), 8);
            for row in &rows {
                let ranges = row["per_txn"]["ranges"].as_f64().unwrap();
                assert!(row["per_txn"]["pages"].as_f64().unwrap() >= 2.0, "{row}");
                assert!(ranges == 1.0 || row["policy"] != "append", "{row}");
                assert!(row["over_time"].as_array().unwrap().len() <= POINTS as usize);
            }
            assert_eq!(rows[0]["vs_append"], 1.0);
            let svg = std::fs::read_to_string(args.output.svg.as_ref().unwrap()).unwrap();
            assert!(svg.contains("lowest") && !svg.contains("NaN"));
        }
    }

    #[test]
    fn wrong_flags_say_what_would_be_right() {
        let error = |flags: &str| check(&parse(flags).unwrap()).unwrap_err().to_string();
        assert!(error("--txns 0").contains("--txns is 0, but must be from 1"));
        assert!(error("--values 0").contains("--values"));
        assert!(error("--rounds 0").contains("--rounds"));
    }
}

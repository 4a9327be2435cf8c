//! `colibri bench tpch | clickbench`: suites of analytical queries, on one database or on several
//! side by side.
//!
//! | module | holds |
//! | --- | --- |
//! | `suite` | what a suite is: tables, rows, queries, answers that are known |
//! | `tpch`, `clickbench` | the suites: their tables and queries are files of SQL |
//! | `side` | a database that a suite runs on |
//! | `measure` | query by query in rounds, streams at once, and again behind changes |
//! | `answer` | rows, and whether two answers are alike |
//! | `report` | the result as data, table and page |
//!
//! # Traps
//!
//! - A median of rounds is of a database that has everything in memory. The first run is told
//!   beside it; of a database that was just loaded it says what filling caches costs.
//! - In process there is no way over a socket, which is a tenth of a millisecond a query.
//! - Databases use as many threads for a query as their settings say.

pub(crate) mod answer;
mod clickbench;
mod measure;
pub(crate) mod report;
mod side;
pub(crate) mod suite;
mod tpch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;

use crate::measure::cost::disk_bytes;
use crate::measure::environment::{Environment, doubts};
use crate::measure::flags::check_range;
use crate::measure::output::{self, say, tell};
use crate::measure::{Error, Result};
use crate::sql::args::duration;
use crate::sql::driver;
use crate::sql::progress::LoadBar;
use crate::sql::result::LoadResult;
use crate::sql::target::null::Null;
use crate::sql::target::{Place, Target as _};
use crate::sql::workload::load::{self, LoadProgress};
use crate::sql::workload::queue::Jobs;
use crate::sql::workload::{Finding, Workload};
use clickbench::ClickBench;
use measure::Outcome;
use report::{FreshReport, QueryReport, Report, SCHEMA, SideReport, StreamsReport, ms, total};
use side::Side;
use suite::{Query, Suite};
use tpch::Tpch;

/// Times that all queries are asked of nobody, for the control group.
const CONTROL_ROUNDS: u32 = 50;
/// Connections that load a server.
const LOADERS: u32 = 2;

/// Flags of all suites.
#[derive(Debug, Clone, Args)]
pub struct AnalyticsArgs {
    /// Who answers: colibri (in process), postgres://USER:PASSWORD@HOST:PORT/DATABASE, or duckdb or
    /// sqlite (by their packages for python3)
    #[arg(long, default_value = "colibri")]
    pub target: String,
    /// Whose answers and times are compared with it, as --target says; may be given again
    #[arg(long)]
    pub beside: Vec<String>,
    /// Rounds, in which the databases take turns
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// Only these queries, with commas between them: q1,q6
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Also run all queries in N streams at the same time, each stream in its own order
    #[arg(long, default_value_t = 0)]
    pub streams: u32,
    /// What one query may take
    #[arg(long, default_value = "10m", allow_hyphen_values = true, value_parser = duration)]
    pub limit: Duration,
    /// A setting of sessions of Colibri and of servers, such as work_mem=256MB; may be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<String>,
    /// Fail if all queries together take more than this multiple of what they take on the first
    /// database beside
    #[arg(long, requires = "beside")]
    pub max_ratio: Option<f64>,
    /// Directory of the target's database, if it is not a server; it stays. Without it, one is made
    /// and removed in the end
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// The target's process, if it is a server on this machine: what it costs, with all its
    /// children, becomes part of the result
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Likewise, those of the servers beside, in their order
    #[arg(long, value_name = "PID")]
    pub beside_pid: Vec<u32>,
    /// Seed of the orders of streams, and of data that are not given by a specification
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// File to write the target's answers to
    #[arg(long)]
    pub answers: Option<PathBuf>,
    /// File to write the result to, as a JSON array
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// File to write the result to, as a page that needs nothing else
    #[arg(long)]
    pub html: Option<PathBuf>,
}

/// Measure TPC-H: 22 analytical queries over eight tables, on databases side by side
///
/// Loads the rows of the specification's generator, asks each query in rounds, and compares the
/// answers: with those of the databases beside, with PostgreSQL's at scale 0.01, and at scale 1, in
/// builds with the feature `rivals`, with the specification's. Results are not audited by TPC.
#[derive(Debug, Clone, Args)]
pub struct TpchArgs {
    /// How much data: about 1 GB at scale 1
    #[arg(long, default_value_t = 0.1)]
    pub scale: f64,
    /// Run the queries again directly after transactions have changed this part of `orders` and
    /// `lineitem`. The changes are undone in the end
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub fresh: Option<u32>,
    /// Flags of all suites.
    #[command(flatten)]
    pub common: AnalyticsArgs,
}

/// Measure ClickBench's shape: 43 queries over one wide table of page views
///
/// Makes the rows from a seed, asks each query in rounds, and compares the answers with those of
/// the databases beside. The rows and their 25 columns are a sample of ClickBench's shape, so
/// figures are not those of ClickBench.
#[derive(Debug, Clone, Args)]
pub struct ClickBenchArgs {
    /// Rows: about 220 bytes each
    #[arg(long, default_value_t = 1_000_000)]
    pub rows: u64,
    /// Flags of all suites.
    #[command(flatten)]
    pub common: AnalyticsArgs,
}

/// Runs ClickBench's queries.
///
/// # Errors
/// As [`tpch`].
pub fn clickbench(args: &ClickBenchArgs) -> Result<()> {
    check_range("--rows", args.rows, 1, 1_000_000_000)?;
    run(&args.common, &ClickBench { rows: args.rows, seed: args.common.seed }, None)
}

/// A setting as `SET` takes it: its value in quotes, as `256MB` has to have them.
fn setting(text: &str) -> std::result::Result<String, String> {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    match text.split_once('=') {
        Some((name, value)) if is_name(name) => Ok(format!("{name} = '{}'", value.replace('\'', "''"))),
        _ => Err("give a name and a value: work_mem=256MB".to_owned()),
    }
}

fn percent(text: &str) -> std::result::Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|percent| (1..=100).contains(percent)).ok_or_else(|| "1% to 100%".to_owned())
}

/// Runs TPC-H.
///
/// # Errors
/// Wrong flags, a target that cannot be reached or holds other data, a file that cannot be written;
/// and [`Error::InvalidResults`] once everything has been printed, if a query failed, gave another
/// answer, or all were too slow.
pub fn tpch(args: &TpchArgs) -> Result<()> {
    if !(0.001..=1000.0).contains(&args.scale) {
        return Err(Error::usage(format!("--scale is 0.001 to 1000, not {}", args.scale)));
    }
    run(&args.common, &Tpch { scale: args.scale }, args.fresh)
}

/// Loads and measures a suite, as the flags say.
fn run(args: &AnalyticsArgs, suite: &dyn Suite, fresh: Option<u32>) -> Result<()> {
    check_range("--rounds", args.rounds.into(), 1, 1_000)?;
    check_range("--streams", args.streams.into(), 0, 1_000)?;
    if args.max_ratio.is_some_and(|ratio| ratio.is_nan() || ratio <= 0.0) {
        return Err(Error::usage("--max-ratio is above 0"));
    }
    if args.limit.is_zero() {
        return Err(Error::usage("--limit is above 0: nothing takes no time"));
    }
    if args.dir.is_some() && args.target.contains("://") {
        return Err(Error::usage("--dir is for a database of this machine: --target colibri, duckdb or sqlite"));
    }
    let servers = args.beside.iter().filter(|name| name.contains("://")).count();
    if args.beside_pid.len() > servers {
        return Err(Error::usage("there are more --beside-pid than servers beside"));
    }
    let queries = suite::selected(suite, &args.only)?;
    output::ensure_writable(args.json.iter().chain(&args.html).chain(&args.answers))?;
    let (mut sides, mut reports) = open(args)?;
    let environment = Environment::observe(args.dir.as_deref().unwrap_or(Path::new(".")));
    output::print_heading(&environment);
    let runtime = driver::runtime(2).map_err(|e| Error::io("cannot start threads", "", e))?;
    let measured = runtime.block_on(all(args, suite, &queries, fresh, &mut sides, &mut reports))?;
    let report = Report {
        schema: SCHEMA,
        suite: suite.name().to_owned(),
        about: suite.about(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        ended_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        notes: doubts(&environment).map(str::to_owned).chain(measured.notes).collect(),
        env: environment,
        rounds: args.rounds,
        sides: reports,
        queries: measured.queries,
        checks: measured.checks,
        control_cpu_us_per_query: measured.control_us,
    };
    say!("\n{}", report.text());
    if let Some(path) = &args.json {
        output::write_json(path, std::slice::from_ref(&report))?;
    }
    if let Some(path) = &args.html {
        output::write(path, report.page())?;
    }
    if let Some(path) = &args.answers {
        let answers = queries.iter().zip(&measured.answers);
        output::write(path, answer::write(answers.map(|(query, rows)| (query.name.as_str(), rows))))?;
    }
    for path in args.html.iter().chain(&args.json).chain(&args.answers) {
        tell!("written: {}", path.display());
    }
    match report.bad() {
        0 => Ok(()),
        invalid => Err(Error::InvalidResults { invalid, total: report.queries.len() + report.checks.len() }),
    }
}

/// The databases that can be opened, and what is known of each that was asked for. A rival that is
/// not installed is told of, and left out.
fn open(args: &AnalyticsArgs) -> Result<(Vec<Side>, Vec<SideReport>)> {
    let target = Side::open(&args.target, args.dir.as_ref(), args.server_pid, args)?;
    let name = target.target.name();
    let (mut sides, mut reports) = (vec![target], vec![SideReport { name, ..SideReport::default() }]);
    let mut pids = args.beside_pid.iter().copied();
    for name in &args.beside {
        let pid = if name.contains("://") { pids.next() } else { None };
        match Side::open(name, None, pid, args) {
            Ok(side) => {
                reports.push(SideReport { name: side.target.name(), ..SideReport::default() });
                sides.push(side);
            }
            Err(Error::Target { message, .. }) if !name.contains("://") => {
                tell!("{name} is not run: {message}");
                reports.push(SideReport { name: name.clone(), not_run: Some(message), ..SideReport::default() });
            }
            Err(error) => return Err(error),
        }
    }
    Ok((sides, reports))
}

/// What all phases came to.
struct Measured {
    queries: Vec<QueryReport>,
    checks: Vec<Finding>,
    notes: Vec<String>,
    control_us: f64,
    /// The target's.
    answers: Vec<answer::Rows>,
}

async fn all(
    args: &AnalyticsArgs,
    suite: &dyn Suite,
    queries: &[Query],
    fresh: Option<u32>,
    sides: &mut [Side],
    reports: &mut [SideReport],
) -> Result<Measured> {
    let mut run: Vec<&mut SideReport> = reports.iter_mut().filter(|report| report.not_run.is_none()).collect();
    for (side, report) in sides.iter_mut().zip(&mut run) {
        report.load = Some(fill(side, suite).await?);
        report.about = side.target.about().await;
        report.round_trip_ms = measure::round_trip(side).await?.map(ms);
    }
    let outcomes = measure::power(sides, queries, args.rounds).await?;
    let mut measured = Measured {
        queries: queries.iter().zip(&outcomes).map(|(query, outcomes)| QueryReport::new(query, outcomes)).collect(),
        checks: check(suite, queries, &outcomes),
        notes: Vec::new(),
        control_us: control(queries).await?,
        answers: outcomes.iter().map(|on| on[0].rows.clone().unwrap_or_default()).collect(),
    };
    for (at, (side, report)) in sides.iter().zip(&mut run).enumerate() {
        report.total_ms = total(&measured.queries, at, |on| on.ms);
        report.total_first_ms = total(&measured.queries, at, |on| on.first_ms);
        report.total_cpu_ms = total(&measured.queries, at, |on| on.cpu_ms);
        report.rss_bytes = side.account(None).and_then(|look| look.memory().rss_bytes);
        let counted = side.target.counts().await.disk_bytes;
        report.disk_bytes = side.target.dir().and_then(|dir| disk_bytes(dir).ok()).or(counted);
        if args.streams > side.target.sessions_max() {
            measured.notes.push(format!("{}: streams at once are NOT RUN: it has one session", side.target.name()));
        } else if args.streams > 0 {
            let streams = measure::streams(side, queries, args.streams, args.seed).await?;
            report.streams = Some(StreamsReport::new(args.streams, &streams));
        }
    }
    if let Some(percent) = fresh {
        ask_again(args, suite, queries, percent, sides, &mut run, &mut measured.queries).await?;
    }
    measured.checks.extend(too_slow(args, &run));
    let in_process = sides.iter().any(|side| side.target.place() == Place::InProcess);
    if in_process && sides.len() > 1 {
        measured.notes.push("colibri is in process: its memory and CPU include the generator's".to_owned());
    }
    Ok(measured)
}

/// Brings the rows to a database, unless they are there.
async fn fill(side: &Side, suite: &dyn Suite) -> Result<LoadResult> {
    let (data, progress) = (suite.dataset(), Arc::new(LoadProgress::default()));
    let bar = LoadBar::new(data.data().rows());
    let begun = Instant::now();
    let loaders = LOADERS.min(side.target.sessions_max());
    let loaded = bar.watch(&progress, load::load(&side.target, &data, loaders, &progress)).await?;
    Ok(LoadResult { rows: loaded.rows, bytes: loaded.bytes, seconds: begun.elapsed().as_secs_f64() })
}

/// What this process spends on a query that nobody works on.
async fn control(queries: &[Query]) -> Result<f64> {
    // Its answers to queries are empty, whatever its workload is.
    let workload: Arc<dyn Workload> = Arc::new(Jobs::new(0, 20, 0));
    let null = Null::new(&workload);
    let failed = |failure| Error::target("null", failure);
    let mut session = null.connect(&[]).await.map_err(failed)?;
    let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let before = cpu();
    for _ in 0..CONTROL_ROUNDS {
        for query in queries {
            let table = session.query(&query.sql).await.map_err(failed)?;
            std::hint::black_box(answer::rows(table.answer()));
        }
    }
    let after = cpu();
    let ns = (after.tv_sec - before.tv_sec) as f64 * 1e9 + (after.tv_nsec - before.tv_nsec) as f64;
    Ok(ns / 1e3 / f64::from(CONTROL_ROUNDS) / queries.len().max(1) as f64)
}

/// Compares the target's answers with those that are known.
fn check(suite: &dyn Suite, queries: &[Query], outcomes: &[Vec<Outcome>]) -> Vec<Finding> {
    let Some(known) = suite.known() else { return Vec::new() };
    let unlike = measure::unlike(&known, queries, outcomes);
    let found = match unlike.first() {
        None => format!("all {} are", queries.len()),
        Some(first) => format!("{} are not: {first}", unlike.len()),
    };
    vec![Finding::fact("answers", found, format!("those of {}", known.of), unlike.is_empty())]
}

/// Whether all queries together keep the ratio that they have to.
fn too_slow(args: &AnalyticsArgs, reports: &[&mut SideReport]) -> Option<Finding> {
    let most = args.max_ratio?;
    let ratio = reports[0].total_ms? / reports.get(1)?.total_ms?;
    let wanted = format!("at most {most} times");
    Some(Finding::fact("time of all queries", format!("{ratio:.2} times"), wanted, ratio <= most))
}

/// Changes rows on all databases alike, asks all queries again, and changes the rows back.
async fn ask_again(
    args: &AnalyticsArgs,
    suite: &dyn Suite,
    queries: &[Query],
    percent: u32,
    sides: &mut [Side],
    reports: &mut [&mut SideReport],
    all: &mut [QueryReport],
) -> Result<()> {
    let [there, back] = suite.changes(percent).ok_or_else(|| Error::usage("--fresh: this suite changes nothing"))?;
    let mut changes = Vec::new();
    for side in sides.iter_mut() {
        changes.push(measure::change(side, &there).await?);
    }
    let outcomes = measure::power(sides, queries, args.rounds).await;
    for side in sides.iter_mut() {
        measure::change(side, &back).await?;
    }
    for (query, outcomes) in all.iter_mut().zip(&outcomes?) {
        query.add_fresh(outcomes);
    }
    for (at, (report, (took, rows))) in reports.iter_mut().zip(changes).enumerate() {
        let first = total(all, at, |on| on.fresh_first_ms);
        report.fresh = Some(FreshReport {
            percent,
            transactions: there.len(),
            changed_rows: rows,
            changing_s: took.as_secs_f64(),
            total_first_ms: first,
            total_ms: total(all, at, |on| on.fresh_ms),
            first_ratio: first.zip(report.total_ms).map(|(first, undisturbed)| first / undisturbed),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;

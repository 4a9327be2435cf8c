//! `colibri bench ch`: TPC-C's terminals and analysts on the same tables, at the same time.
//!
//! ```text
//! load → check the queries → analysts alone → terminals alone → both → check the conditions
//! ```
//!
//! What counts is how much of its throughput TPC-C keeps beside analysts, and how much longer they
//! take beside it. A result is that of the run with both; that of the terminals alone is kept with
//! it, so the usual commands compare the two.
//!
//! Invariants
//! - Both runs have the same plan, one after the other on the same data: the second has more rows,
//!   by what the first has added.
//! - An analyst asks all queries again and again, each analyst in an order of its own. Only a query
//!   that ended before the terminals did counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use colibri_runtime::{Pool, spawn};

use super::analysts::{AnalystQuery, Analysts, people};
use super::args::{CommonArgs, Step};
use super::bench::Bench;
use super::files::Files;
use super::open::{ensure_there, open};
use super::{NULL, SQLITE, ledger, limit_memory, table};
use crate::measure::environment::Environment;
use crate::measure::flags::check_range;
use crate::measure::output::{self, say, tell};
use crate::measure::random::Random;
use crate::measure::{Error, Result};
use crate::sql::analytics::answer;
use crate::sql::analytics::suite::{Query, queries};
use crate::sql::driver;
use crate::sql::target::{Failure, Target};
use crate::sql::workload::tpcc::{Scale, Tpcc};
use crate::sql::workload::{Finding, Workload};

/// The questions of analysts.
const QUERIES: &str = include_str!("analytics/ch/queries.sql");
/// PostgreSQL's answers for [`KNOWN_SCALE`] and [`KNOWN_SEED`], before any transaction.
const ANSWERS: &str = include_str!("analytics/ch/answers-miniature.txt");
const KNOWN_SEED: u64 = 42;
const KNOWN_WAREHOUSES: u32 = 1;
/// How far numbers may be from the known ones.
const TOLERANCE: f64 = 1e-6;

/// Measure TPC-C beside analysts who ask the questions of TPC-H, on the same tables
///
/// CH-benCHmark: loads, asks the 22 queries alone, runs TPC-C alone, runs both, and checks the
/// conditions of TPC-C. Closed loop unless --rate is given. Results are not audited by TPC.
#[derive(Debug, Clone, Args)]
pub struct ChArgs {
    /// Warehouses: about 100 MB each
    #[arg(long, default_value_t = 1)]
    pub warehouses: u32,
    /// A hundredth of the items and customers, to try things out in seconds
    #[arg(long)]
    pub miniature: bool,
    /// Analysts, each of whom asks without a pause
    #[arg(long, default_value_t = 1)]
    pub analysts: u32,
    /// What one query may take
    #[arg(long, default_value = "10m", value_parser = super::args::duration)]
    pub limit: Duration,
    /// File to write the answers to that the queries have before any transaction
    #[arg(long)]
    pub answers: Option<std::path::PathBuf>,
    /// Flags of all workloads.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Runs TPC-C beside analysts.
///
/// # Errors
/// As [`super::tpcc`].
pub fn ch(args: &ChArgs) -> Result<()> {
    check_range("--warehouses", args.warehouses.into(), 1, 1_000_000)?;
    check_range("--analysts", args.analysts.into(), 1, 1_000)?;
    let scale = if args.miniature { Scale::miniature(args.warehouses) } else { Scale::new(args.warehouses) };
    let workload: Arc<dyn Workload> = Arc::new(Tpcc::with_suppliers(scale, args.common.seed));
    let common = CommonArgs { no_wait: args.common.rate.is_none(), ..args.common.clone() };
    if [NULL, SQLITE].contains(&common.target.as_str()) {
        return Err(Error::usage("bench ch takes Colibri and servers: null and SQLite do not know its queries"));
    }
    if common.find_max || common.shard.1 > 1 {
        return Err(Error::usage("bench ch runs at one load, in one process: without --find-max and --shard"));
    }
    let plan = common.plan(&*workload)?;
    let queries = queries(QUERIES).map_err(Error::usage)?;
    ensure_there(&common, &*workload)?;
    let files = Files::of(&common, workload.name());
    files.ensure_writable()?;
    output::ensure_writable(&args.answers)?;
    let _limit = limit_memory(&common)?;
    let opened = open(&common, &workload)?;
    if let Some(pid) = common.server_pid {
        ledger::ensure_server(pid, opened.target.place())?;
    }
    let dir = opened.target.dir().unwrap_or(std::path::Path::new("."));
    let environment = Environment::observe(dir);
    output::print_heading(&environment);
    let step = |step| CommonArgs { step, ..common.clone() };
    let (load, run, check) = (step(Step::Load), step(Step::Run), step(Step::Check));
    let bench = |args| Bench::new(args, &workload, Arc::clone(&opened.target), plan.clone(), environment.clone());

    let mut result = None;
    if common.step.loads() {
        let mut bench = bench(&load);
        bench.steps()?;
        result = Some(bench.finish(Ok(()))?);
    }
    let mut results = Vec::new();
    if common.step.runs() {
        let analysts = AnalystPlan { queries: &queries, count: args.analysts, limit: args.limit, seed: common.seed };
        let first = block_on(first_answers(&opened.target, &analysts))?;
        // What is there is what was loaded just now: the answers are known.
        let is_new = result.as_ref().is_some_and(|loaded| loaded.load.is_some_and(|load| load.rows > 0));
        let checks = known(args, is_new).map(|known| compare(&queries, &first, &known));
        if let Some(path) = &args.answers {
            let answers = queries.iter().map(|query| query.name.as_str()).zip(&first);
            output::write(path, answer::write(answers))?;
        }
        tell!("analysts alone");
        let alone = beside(&opened.target, &analysts, || {
            std::thread::sleep(plan.warmup + plan.duration);
            Ok(())
        })?;
        tell!("TPC-C alone");
        let mut without = bench(&run);
        let outcome = without.steps();
        let without = without.finish(outcome)?;
        tell!("both");
        let mut with = bench(&run);
        let together = beside(&opened.target, &analysts, || Ok(with.steps()))?;
        let outcome = together.of_main;
        let checked = if common.step.checks() && outcome.is_ok() { with.check() } else { Ok(()) };
        let asked = analysts.result(&alone.asked, &together.asked);
        with.add_checks(checks.into_iter().chain([none_failed(&asked.failures)]));
        let mut with = with.finish(outcome.and(checked))?;
        with.load = result.and_then(|loaded| loaded.load);
        with.workload_about.push_str(&format!(", beside {} that ask without a pause", people(args.analysts)));
        with.analysts = Some(Analysts {
            throughput_alone_per_s: without.throughput_per_s,
            p99_alone_us: without.scheduled_us.p99,
            ..asked
        });
        results.extend([without, with]);
    } else {
        if common.step.checks() {
            let mut bench = bench(&check);
            let outcome = bench.steps();
            result = Some(bench.finish(outcome)?);
        }
        results.extend(result);
    }
    for result in &results {
        say!("{}\n", table::text(result));
    }
    files.write(&results)?;
    match results.iter().filter(|result| result.is_bad()).count() {
        0 => Ok(()),
        invalid => Err(Error::InvalidResults { invalid, total: results.len() }),
    }
}

fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    driver::runtime(1).map_err(|e| Error::io("cannot start threads", "", e))?.block_on(future)
}

/// The known answers, if the data are those that they are of.
fn known(args: &ChArgs, is_new: bool) -> Option<Vec<(String, answer::Rows)>> {
    let is_known = is_new && args.miniature && args.warehouses == KNOWN_WAREHOUSES && args.common.seed == KNOWN_SEED;
    is_known.then(|| answer::read(ANSWERS))
}

fn compare(queries: &[Query], found: &[answer::Rows], known: &[(String, answer::Rows)]) -> Finding {
    let unlike = |(query, rows): (&Query, &answer::Rows)| {
        let wanted = known.iter().find(|(name, _)| *name == query.name);
        let why = match wanted {
            Some((_, wanted)) => answer::difference(rows, wanted, TOLERANCE)?,
            None => "no answer is known".to_owned(),
        };
        Some(format!("{}: {why}", query.name))
    };
    let unlike: Vec<String> = queries.iter().zip(found).filter_map(unlike).collect();
    let shown = if unlike.is_empty() { "they are".to_owned() } else { unlike.join("; ") };
    Finding::fact("answers of analysts before any transaction", shown, "those of PostgreSQL 15", unlike.is_empty())
}

fn none_failed(failures: &[String]) -> Finding {
    let found = match failures.first() {
        None => "none failed".to_owned(),
        Some(first) => format!("{} failed: {first}", failures.len()),
    };
    Finding::fact("queries of analysts", found, "none failed", failures.is_empty())
}

/// What analysts do.
#[derive(Clone, Copy)]
struct AnalystPlan<'a> {
    queries: &'a [Query],
    count: u32,
    /// What a query may take.
    limit: Duration,
    seed: u64,
}

/// What the queries took, by query; and failures.
#[derive(Debug, Default)]
struct Asked {
    took: Vec<Vec<Duration>>,
    failures: Vec<String>,
}

/// What analysts and the main thread came to.
struct Together<T> {
    asked: Asked,
    of_main: T,
}

async fn first_answers(target: &Arc<dyn Target>, plan: &AnalystPlan<'_>) -> Result<Vec<answer::Rows>> {
    let failed = |failure| Error::target(target.name(), failure);
    let mut session = target.connect(&[]).await.map_err(failed)?;
    let mut all = Vec::new();
    for query in plan.queries {
        let table = session.query(&query.sql).await.map_err(|failure| failed(failure.doing(&query.name)))?;
        all.push(answer::rows(table.answer()));
    }
    Ok(all)
}

/// Lets analysts ask on a thread of their own while `main` runs.
fn beside<T>(
    target: &Arc<dyn Target>,
    plan: &AnalystPlan<'_>,
    main: impl FnOnce() -> Result<T>,
) -> Result<Together<T>> {
    let is_over = Arc::new(AtomicBool::new(false));
    let (queries, plan): (Arc<[Query]>, _) = (plan.queries.into(), *plan);
    let (count, limit, seed) = (plan.count, plan.limit, plan.seed);
    let analysts = {
        let (target, is_over) = (Arc::clone(target), Arc::clone(&is_over));
        std::thread::spawn(move || {
            block_on(async move {
                let ask = |number: u32| {
                    let (target, queries, is_over) = (Arc::clone(&target), Arc::clone(&queries), Arc::clone(&is_over));
                    spawn(Pool::User, async move { analyst(&*target, &queries, limit, seed, number, &is_over).await })
                };
                let tasks: Vec<_> = (0..count).map(ask).collect();
                let mut asked = Asked { took: vec![Vec::new(); queries.len()], failures: Vec::new() };
                for task in tasks {
                    let one = task.await.map_err(|panic| Error::usage(format!("an analyst has ended: {panic}")))?;
                    asked.took.iter_mut().zip(one.took).for_each(|(sum, more)| sum.extend(more));
                    asked.failures.extend(one.failures);
                }
                Ok(asked)
            })
        })
    };
    let of_main = main();
    is_over.store(true, Ordering::Release);
    let asked = analysts.join().map_err(|_| Error::usage("the thread of the analysts has ended"))??;
    Ok(Together { asked, of_main: of_main? })
}

/// Asks all queries again and again until the run is over. A query that fails is not asked again.
async fn analyst(
    target: &dyn Target,
    queries: &[Query],
    limit: Duration,
    seed: u64,
    number: u32,
    is_over: &AtomicBool,
) -> Asked {
    let mut asked = Asked { took: vec![Vec::new(); queries.len()], failures: Vec::new() };
    let mut order: Vec<usize> = (0..queries.len()).collect();
    Random::new(seed ^ 0xA11A, number.into()).shuffle(&mut order);
    let connecting = async {
        let mut session = target.connect(&[]).await?;
        session.query(&format!("SET statement_timeout = {}", limit.as_millis())).await?;
        Ok::<_, Failure>(session)
    };
    let mut session = match connecting.await {
        Ok(session) => session,
        Err(failure) => {
            asked.failures.push(failure.to_string());
            return asked;
        }
    };
    while !order.is_empty() {
        let mut failed = Vec::new();
        for &at in &order {
            let begun = Instant::now();
            let done = session.query(&queries[at].sql).await;
            if is_over.load(Ordering::Acquire) {
                return asked;
            }
            match done {
                Ok(_) => asked.took[at].push(begun.elapsed()),
                // Another transaction was in its way: it is asked again with the next round.
                Err(failure) if failure.kind() == crate::sql::target::Kind::Conflict => {}
                Err(failure) => {
                    asked.failures.push(format!("{}: {failure}", queries[at].name));
                    failed.push(at);
                }
            }
            if session.is_broken() {
                return asked;
            }
        }
        order.retain(|at| !failed.contains(at));
    }
    asked
}

impl AnalystPlan<'_> {
    /// Both cases side by side; what is known of TPC-C alone is added by the caller.
    fn result(&self, alone: &Asked, beside: &Asked) -> Analysts {
        let ms = |took: &[Duration]| {
            let mut sorted = took.to_vec();
            sorted.sort_unstable();
            sorted.get(sorted.len() / 2).map(|took| took.as_secs_f64() * 1e3)
        };
        let query = |(query, (alone, beside)): (&Query, (&Vec<Duration>, &Vec<Duration>))| AnalystQuery {
            name: query.name.clone(),
            alone_count: alone.len(),
            beside_count: beside.len(),
            alone_ms: ms(alone),
            beside_ms: ms(beside),
        };
        let all: Vec<_> = self.queries.iter().zip(alone.took.iter().zip(&beside.took)).map(query).collect();
        let both = || all.iter().filter_map(|query| query.alone_ms.zip(query.beside_ms));
        Analysts {
            count: self.count,
            alone_ms: both().map(|(alone, _)| alone).sum(),
            beside_ms: both().map(|(_, beside)| beside).sum(),
            queries: all,
            throughput_alone_per_s: 0.0,
            p99_alone_us: 0.0,
            failures: alone.failures.iter().chain(&beside.failures).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(flags: &str) -> std::result::Result<Vec<serde_json::Value>, String> {
        let dir = tempfile::tempdir().unwrap();
        let json = dir.path().join("ch.json");
        let page = dir.path().join("ch.html");
        let flags = format!("{flags} --json {} --html {}", json.display(), page.display());
        let outcome = ch(&crate::parse::<ChArgs>(&flags).map_err(|e| e.to_string())?);
        outcome.map_err(|e| e.to_string())?;
        assert!(std::fs::read_to_string(page).unwrap().contains("query of analysts"));
        Ok(serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap())
    }

    /// The answers before any transaction are PostgreSQL's, written by `colibri bench ch --miniature
    /// --answers FILE --target postgres://…`; the conditions of TPC-C hold behind both runs.
    #[test]
    fn analysts_get_the_known_answers_and_tpcc_stays_consistent_beside_them() {
        // A debug build may find the generator to be the limit, which says nothing about answers.
        let dir = tempfile::tempdir().unwrap();
        let json = dir.path().join("ch.json");
        let flags = format!(
            "--miniature --analysts 2 --clients 4 --warmup 100ms --duration 2s --no-control --durability nosync --json {}",
            json.display()
        );
        _ = ch(&crate::parse::<ChArgs>(&flags).unwrap());
        let results: Vec<serde_json::Value> = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        let [without, with] = &results[..] else { panic!("two results, and not {}", results.len()) };
        assert!(without["analysts"].is_null());
        let broken = |check: &&serde_json::Value| check["verdict"] == "broken";
        let checks = with["checks"].as_array().unwrap();
        assert_eq!(checks.iter().filter(broken).collect::<Vec<_>>(), Vec::<&serde_json::Value>::new());
        assert!(checks.iter().any(|check| check["what"] == "answers of analysts before any transaction"));
        assert!(checks.len() > 14, "the conditions of TPC-C are among them");
        let analysts = &with["analysts"];
        assert_eq!(analysts["failures"].as_array().unwrap().len(), 0, "{}", analysts["failures"]);
        assert_eq!(analysts["queries"].as_array().unwrap().len(), 22);
        let counts: u64 =
            analysts["queries"].as_array().unwrap().iter().map(|query| query["alone_count"].as_u64().unwrap()).sum();
        assert!(counts > 0);
        assert!(analysts["throughput_alone_per_s"].as_f64().unwrap() > 0.0);
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let refused = |flags: &str| results(flags).unwrap_err();
        assert!(refused("--target null").contains("bench ch takes Colibri"));
        assert!(refused("--target sqlite").contains("bench ch takes Colibri"));
        assert!(refused("--analysts 0").contains("--analysts"));
        assert!(refused("--find-max --p99 25ms").contains("--find-max"));
        assert!(refused("--shard 0/2").contains("--shard"));
    }

    #[test]
    fn what_analysts_lose_is_told_of_queries_that_ended_in_both_cases() {
        let query = |name: &str| Query {
            name: name.to_owned(),
            sql: String::new(),
            check: crate::sql::analytics::suite::Check::Rows,
        };
        let queries = [query("q1"), query("q2")];
        let plan = AnalystPlan { queries: &queries, count: 1, limit: Duration::from_secs(1), seed: 0 };
        let ms = |ms: &[u64]| ms.iter().map(|&ms| Duration::from_millis(ms)).collect();
        let alone = Asked { took: vec![ms(&[10, 30, 20]), ms(&[5])], failures: Vec::new() };
        let beside = Asked { took: vec![ms(&[40]), Vec::new()], failures: vec!["q2: too slow".to_owned()] };
        let found = Analysts { throughput_alone_per_s: 200.0, p99_alone_us: 5e3, ..plan.result(&alone, &beside) };
        assert_eq!((found.alone_ms, found.beside_ms), (20.0, 40.0));
        let text = found.text(150.0, 10e3);
        assert!(text.contains("keeps 75.0 %"), "{text}");
        assert!(text.contains("q2: too slow"), "{text}");
    }
}

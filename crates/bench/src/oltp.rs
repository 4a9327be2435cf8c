//! `colibri bench tpcc | ycsb | stock | script`: databases as their users meet them, over SQL sessions.
//!
//! The design, and why, is `docs/design/0008-benchmark.md`. Read it in this order: `workload` (what is asked), `target` (who
//! answers), `driver` (when, and what it took), and here `args`, `ledger` (what it cost), `result` (all of it as data), `table`.
//!
//! # Traps
//!
//! - **Closed loop flatters.** Without think times and without `--rate` whoever waits for a slow answer asks for nothing meanwhile. The report
//!   says so; for latency that users would see, give a rate.
//! - **The generator needs CPU, too.** On a machine with no CPU to spare it takes what it needs from the target. The control run says how
//!   much that is, and `cost` has it beside the target's.
//! - **Equal durability.** Colibri answers a commit when it is on disk unless `--durability` says otherwise; what a server does is a
//!   matter of its settings, and those that matter are part of the result.
//! - **Isolation differs.** Colibri is serializable by default, PostgreSQL is not. The result names what was asked for.
//!
//! Not here: `kv`, which measures engines and not SQL.

pub(crate) mod args;
mod find_max;
pub(crate) mod html;
pub(crate) mod ledger;
pub(crate) mod result;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use colibri::Durability;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::driver::{self, Measured, Pacing, RunPlan, Watch};
use crate::kv::args::{DIR_DEFAULT, check_range};
use crate::kv::environment::Environment;
use crate::kv::report::{doubts, significant, whole};
use crate::kv::{Error, Result};
use crate::random::mix;
use crate::target::colibri::Colibri;
use crate::target::null::Null;
use crate::target::postgres::Postgres;
#[cfg(feature = "rivals")]
use crate::target::sqlite::Sqlite;
use crate::target::{self, Failure, Place, Target};
use crate::workload::load::{LoadProgress, Loaded};
pub use crate::workload::stock::Mix;
use crate::workload::stock::Stock;
use crate::workload::tpcc::{Scale, TPMC_MAX, Tpcc};
use crate::workload::ycsb::Ycsb;
pub use crate::workload::ycsb::{Distribution, Letter};
use crate::workload::{Finding, Workload, load};
use crate::workplace::Workplace;
use crate::{plot, results};

pub use args::{CommonArgs, Durable, Knob, Step};
use ledger::Ledger;
use result::{Control, FindMax, LoadResult, Probe, RunResult, SCHEMA, Settings};

/// The target of that name.
pub(crate) const SQLITE: &str = "sqlite";
/// The control run takes as long as the run, but no longer than this.
const CONTROL_MAX: Duration = Duration::from_secs(2);
/// A probe of a search is this part of a run, and not shorter than so long.
const PROBE_PART: u32 = 4;
const PROBE_MIN: Duration = Duration::from_secs(2);
/// Seconds whose rates are shown while a run goes on.
const RATES_SHOWN: usize = 20;
/// Clients of the control run at the most.
const CONTROL_CLIENTS_MAX: u32 = 256;

/// Measure TPC-C: five transactions of a wholesale supplier
///
/// Loads, runs and checks; terminals key and think unless --no-wait or --rate is given. With each run comes an audit of what the
/// specification demands, and after it the twelve consistency conditions. Results are not audited by TPC.
#[derive(Debug, Clone, Args)]
pub struct TpccArgs {
    /// Warehouses: about 100 MB each
    #[arg(long, default_value_t = 1)]
    pub warehouses: u32,
    /// A hundredth of the items and customers, to try things out in seconds; figures are then not those of TPC-C
    #[arg(long)]
    pub miniature: bool,
    /// Flags of all workloads.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Runs TPC-C.
///
/// # Errors
/// Wrong flags, a target that cannot be reached or holds other data, files that cannot be written; and
/// [`Error::InvalidResults`] once everything has been printed, if the result must not be believed.
pub fn tpcc(args: &TpccArgs) -> Result<()> {
    check_range("--warehouses", args.warehouses.into(), 1, 1_000_000)?;
    let scale = if args.miniature { Scale::miniature(args.warehouses) } else { Scale::new(args.warehouses) };
    let workload = Tpcc::new(scale, args.common.seed);
    run(&args.common, &(Arc::new(workload) as Arc<dyn Workload>))
}

/// Measure YCSB: reads, updates, inserts and scans of one table
///
/// Loads, runs and checks the core workloads A to F; closed loop unless --rate is given.
#[derive(Debug, Clone, Args)]
pub struct YcsbArgs {
    /// The core workload
    #[arg(long, value_enum, default_value = "a")]
    pub workload: Letter,
    /// Records that are loaded: about 1.1 KB each
    #[arg(long, default_value_t = 100_000)]
    pub records: u64,
    /// Which keys are asked for [default: what the workload says: zipfian, and latest for D]
    #[arg(long, value_enum)]
    pub distribution: Option<Distribution>,
    /// Flags of all workloads.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Runs YCSB.
///
/// # Errors
/// As [`tpcc`].
pub fn ycsb(args: &YcsbArgs) -> Result<()> {
    check_range("--records", args.records, 1, 1 << 40)?;
    let CommonArgs { seed, shard, .. } = args.common;
    let workload = Ycsb::new(args.workload, args.distribution, args.records, seed, shard);
    run(&args.common, &(Arc::new(workload) as Arc<dyn Workload>))
}

/// Measure YDB's stock workload: orders on a stock of products
///
/// Loads, runs and checks; closed loop unless --rate is given. The published figure is that of --find-max --p99 25ms.
#[derive(Debug, Clone, Args)]
pub struct StockArgs {
    /// Which transactions
    #[arg(long, value_enum, default_value = "add-rand-order")]
    pub workload: Mix,
    /// Products in stock
    #[arg(long, default_value_t = 100)]
    pub products: u32,
    /// Of each product
    #[arg(long, default_value_t = 1_000)]
    pub quantity: u32,
    /// Orders that are loaded
    #[arg(long, default_value_t = 100)]
    pub orders: u32,
    /// Flags of all workloads.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Runs the stock workload.
///
/// # Errors
/// As [`tpcc`].
pub fn stock(args: &StockArgs) -> Result<()> {
    check_range("--products", args.products.into(), 1, 1 << 20)?;
    let workload = Stock::new(args.workload, args.products, args.quantity, args.orders, args.common.seed);
    run(&args.common, &(Arc::new(workload) as Arc<dyn Workload>))
}

/// Run statements of a file as a workload
///
/// `\set NAME EXPRESSION` gives a variable a value, `:NAME` in a statement is a parameter; expressions have numbers, variables,
/// `client`, `random(low, high)`, `random_zipfian(low, high)` and arithmetic. One run of the file is one transaction of the
/// statistics, sent in one exchange.
#[derive(Debug, Clone, Args)]
pub struct ScriptArgs {
    /// The script
    #[arg(long)]
    pub file: std::path::PathBuf,
    /// Statements that make the data, run once by `load`
    #[arg(long)]
    pub setup: Option<std::path::PathBuf>,
    /// Flags of all workloads.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Runs a script.
///
/// # Errors
/// As [`tpcc`].
pub fn script(args: &ScriptArgs) -> Result<()> {
    run(&args.common, &crate::workload::script::open(&args.file, args.setup.as_deref())?)
}

/// A target, and what has to go away with it.
struct Opened {
    target: Arc<dyn Target>,
    _workplace: Option<Workplace>,
}

fn open(args: &CommonArgs, workload: &Arc<dyn Workload>) -> Result<Opened> {
    let refused = |failure: Failure| Error::target(&args.target, failure);
    let target: Arc<dyn Target> = match args.target.as_str() {
        "null" => Arc::new(Null::new(workload)),
        "colibri" => {
            let (dir, workplace) = place(args)?;
            let target = Arc::new(Colibri::open(&dir, durability(args)).map_err(refused)?);
            return Ok(Opened { target, _workplace: workplace });
        }
        SQLITE => return open_sqlite(args, workload),
        url if url.contains("://") => Arc::new(Postgres::new(url).map_err(Error::usage)?),
        other => {
            return Err(Error::usage(format!(
                "there is no target {other:?}: colibri, sqlite, null, or an address as postgres://localhost/bench"
            )));
        }
    };
    Ok(Opened { target, _workplace: None })
}

fn durability(args: &CommonArgs) -> Durability {
    match args.durability {
        Durable::Sync => Durability::Sync,
        Durable::Lazy => Durability::LAZY,
        Durable::Nosync => Durability::NoSync,
    }
}

#[cfg(feature = "rivals")]
fn open_sqlite(args: &CommonArgs, workload: &Arc<dyn Workload>) -> Result<Opened> {
    if workload.name() == crate::workload::script::NAME {
        return Err(Error::usage(
            "statements of a script are not put into SQLite's words: it takes tpcc, ycsb and stock",
        ));
    }
    let (dir, workplace) = place(args)?;
    let target = Sqlite::open(&dir, durability(args)).map_err(|failure| Error::target(&args.target, failure))?;
    Ok(Opened { target: Arc::new(target), _workplace: workplace })
}

#[cfg(not(feature = "rivals"))]
fn open_sqlite(_args: &CommonArgs, _workload: &Arc<dyn Workload>) -> Result<Opened> {
    Err(Error::usage("target sqlite is not in this build: build with --features rivals"))
}

/// Where the database of a target in process is.
fn place(args: &CommonArgs) -> Result<(std::path::PathBuf, Option<Workplace>)> {
    if let Some(dir) = &args.dir {
        return Ok((dir.clone(), None));
    }
    if args.step != Step::All {
        return Err(Error::usage(
            "which database? Without --dir there is one for the step `all` only, which is removed after it",
        ));
    }
    let workplace = Workplace::new(Path::new(DIR_DEFAULT), false)?;
    let dir = workplace.make("database")?;
    Ok((dir, Some(workplace)))
}

/// Loads, runs and checks, as the flags say.
pub(crate) fn run(args: &CommonArgs, workload: &Arc<dyn Workload>) -> Result<()> {
    let plan = args.plan(&**workload)?;
    let files = Files::of(args, workload.name());
    files.ensure_writable()?;
    let opened = open(args, workload)?;
    let environment = Environment::observe(opened.target.dir().unwrap_or(Path::new(".")));
    results::print_heading(&environment);
    let mut bench = Bench::new(args, workload, Arc::clone(&opened.target), plan, environment);
    let outcome = bench.steps();
    // What was measured before something failed is worth a look.
    let result = bench.finish(outcome)?;
    println!("{}", table::text(&result));
    files.write(&result)?;
    match result.valid {
        true => Ok(()),
        false => Err(Error::InvalidResults { invalid: 1, total: 1 }),
    }
}

/// The files that a result goes to.
struct Files {
    folder: Option<PathBuf>,
    json: Option<PathBuf>,
    html: Option<PathBuf>,
}

impl Files {
    /// Those of the flags. If there are none, a result of all steps goes to a folder: it is worth a look, and a comparison.
    fn of(args: &CommonArgs, workload: &str) -> Self {
        let (json, html) = (args.json.clone(), args.html.clone());
        if json.is_some() || html.is_some() || args.step != Step::All {
            return Self { folder: None, json, html };
        }
        let folder = PathBuf::from(results::RESULTS_DEFAULT);
        let file = |ending: &str| Some(folder.join(format!("{workload}.{ending}")));
        Self { json: file("json"), html: file("html"), folder: Some(folder) }
    }

    fn make_folder(&self) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        std::fs::create_dir_all(folder).map_err(|error| Error::io("cannot create", folder, error))
    }

    fn ensure_writable(&self) -> Result<()> {
        self.make_folder()?;
        let outcome = results::ensure_writable(self.json.iter().chain(&self.html));
        // Until there is a result; one that has older results in it stays.
        self.folder.iter().for_each(|folder| _ = std::fs::remove_dir(folder));
        outcome
    }

    fn write(&self, result: &RunResult) -> Result<()> {
        self.make_folder()?;
        let result = std::slice::from_ref(result);
        if let Some(path) = &self.json {
            results::write_json(path, result)?;
        }
        if let Some(path) = &self.html {
            let title = format!("{} on {}", result[0].workload, result[0].target);
            results::write(path, html::page(&title, result))?;
        }
        for path in self.html.iter().chain(&self.json) {
            eprintln!("written: {}", path.display());
        }
        Ok(())
    }
}

/// One execution of the command.
pub(crate) struct Bench<'a> {
    args: &'a CommonArgs,
    workload: &'a Arc<dyn Workload>,
    target: Arc<dyn Target>,
    statements: Arc<[String]>,
    plan: RunPlan,
    result: RunResult,
    /// A run was made, or at least tried.
    has_run: bool,
    /// It has not come to its planned end.
    ended_early: bool,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(
        args: &'a CommonArgs,
        workload: &'a Arc<dyn Workload>,
        target: Arc<dyn Target>,
        plan: RunPlan,
        environment: Environment,
    ) -> Self {
        let statements = target::texts(args.isolation, workload.statements());
        let durability = match target.place() {
            Place::InProcess => format!("{:?}", args.durability).to_lowercase(),
            Place::Outside => "the server's".to_owned(),
            Place::Nowhere => "none".to_owned(),
        };
        let settings = Settings::of(&plan, 0, args.isolation.name(), &durability);
        let command: Vec<_> = std::env::args().collect();
        let mut notes: Vec<_> = doubts(&environment).map(str::to_owned).collect();
        if matches!(plan.pacing, Pacing::Terminals) {
            notes.push(format!(
                "terminals that key and think ask for at most {TPMC_MAX} new orders a minute and warehouse: --no-wait shows what the \
                 target can do"
            ));
        }
        let result = RunResult {
            schema: SCHEMA,
            workload: workload.name().to_owned(),
            workload_about: workload.about(),
            target: target.name(),
            target_about: String::new(),
            command: command.join(" "),
            ended_unix_s: 0,
            notes,
            env: environment,
            settings,
            valid: false,
            reasons: Vec::new(),
            seconds: 0.0,
            throughput_per_s: 0.0,
            figures: BTreeMap::new(),
            kinds: Vec::new(),
            scheduled_us: Default::default(),
            lag_us: Default::default(),
            timeline: Vec::new(),
            failures: BTreeMap::new(),
            tallies: BTreeMap::new(),
            audit: Vec::new(),
            checks: Vec::new(),
            cost: Default::default(),
            control: None,
            load: None,
            find_max: None,
        };
        Self { args, workload, target, statements, plan, result, has_run: false, ended_early: false }
    }

    fn target_failed(&self, failure: Failure) -> Error {
        Error::target(self.target.name(), failure)
    }

    /// Everything that was asked for.
    pub(crate) fn steps(&mut self) -> Result<()> {
        let step = self.args.step;
        self.result.target_about = self.block_on(self.target.about())?;
        if step.loads() && self.target.keeps_data() {
            self.load()?;
        }
        if step.runs() {
            self.run()?;
        }
        if step.checks() && self.target.keeps_data() {
            match self.ended_early {
                // Whoever has died or hangs would not answer, either.
                true => self.result.notes.push("the data were not checked, as the run has ended early".to_owned()),
                false => self.check()?,
            }
        }
        Ok(())
    }

    fn block_on<F: Future>(&self, future: F) -> Result<F::Output> {
        let runtime = driver::runtime(2).map_err(|e| Error::io("cannot start threads", "", e))?;
        Ok(runtime.block_on(future))
    }

    fn load(&mut self) -> Result<()> {
        let progress = Arc::new(LoadProgress::default());
        let bar = LoadBar::new(self.workload.data().rows());
        let (target, workload) = (&self.target, self.workload);
        let loading = load::load(target, workload, self.args.loaders, &progress);
        let Loaded { rows, bytes, parts_before, took } = self.block_on(bar.watch(&progress, loading))??;
        if parts_before > 0 {
            self.result.notes.push(format!("{parts_before} parts of the data were there before"));
        }
        self.result.load = Some(LoadResult { rows, bytes, seconds: took.as_secs_f64() });
        Ok(())
    }

    /// Checks that the data are there, and finds out what the workload has to know of them.
    fn prepare(&self) -> Result<Option<i64>> {
        self.block_on(async {
            load::ensure_loaded(&*self.target, &**self.workload).await?;
            let failed = |failure| self.target_failed(failure);
            self.workload.prepare(&*self.target).await.map_err(failed)?;
            self.workload.mark(&*self.target).await.map_err(failed)
        })?
    }

    fn run(&mut self) -> Result<()> {
        let before = self.prepare()?;
        let (measured, watch) = if self.args.find_max {
            self.find_max()?
        } else {
            let mut watch = RunWatch::new(self.args.server_pid, &self.plan);
            let measured = self.measure(&self.plan.clone(), &mut watch)?;
            watch.finish();
            (measured, watch)
        };
        self.has_run = true;
        self.result.fill(&**self.workload, &measured, self.plan.pacing);
        self.result.settings.connections = measured.connections;
        if !self.args.no_control {
            self.control()?;
        }
        let in_process = self.target.place() == Place::InProcess;
        let generator_us = self.result.control.and_then(|control| control.cpu_us_per_txn);
        self.result.cost = watch.ledger.cost(&measured, in_process, generator_us, self.target.dir());
        self.remark(&measured);
        if let Some(reason) = &measured.ended_early {
            self.result.reasons.push(reason.clone());
            self.ended_early = true;
            return Ok(());
        }
        if let Some(before) = before {
            self.reconcile(before, &measured)?;
        }
        Ok(())
    }

    /// Whether what was acknowledged is there.
    fn reconcile(&mut self, before: i64, measured: &Measured) -> Result<()> {
        let after = self.block_on(self.workload.mark(&*self.target))?.map_err(|e| self.target_failed(e))?;
        let after = after.unwrap_or(before);
        // Other processes ran their shares at the same time, or there were runs before: what those acknowledged is not known here.
        if self.plan.shard.1 == 1 && !self.args.find_max {
            self.result.checks.extend(self.workload.reconcile(before, after, &measured.acknowledged));
        }
        Ok(())
    }

    fn measure(&self, plan: &RunPlan, watch: &mut dyn Watch) -> Result<Measured> {
        driver::run(self.workload, &self.target, &self.statements, plan, watch).map_err(|e| self.target_failed(e))
    }

    /// Searches for the highest load; the run of the result is the last that was held out.
    fn find_max(&mut self) -> Result<(Measured, RunWatch)> {
        let knob = self.args.find;
        let limit_us = self.args.p99.map_or(f64::INFINITY, |limit| limit.as_secs_f64() * 1e6);
        let (mut probes, mut last) = (Vec::new(), None);
        let loaded = self.workload.warehouses().unwrap_or(1);
        let range = find_max::Range::of(knob, loaded);
        let found = find_max::find_max(range, limit_us, self.args.rounds, |value, held_out| {
            let plan = self.plan_at(value, held_out, probes.len() as u64);
            let mut watch = RunWatch::new(self.args.server_pid, &plan);
            let measured = self.measure(&plan, &mut watch)?;
            watch.finish();
            let outcome = outcome(&measured, &plan, self.workload.cycle());
            let find_max::Outcome { throughput_per_s, p99_us, is_sound } = outcome;
            eprintln!(
                "{} {}: {} a second, p99 {} ms{}{}",
                knob.name(),
                significant(value),
                significant(throughput_per_s),
                significant(p99_us / 1e3),
                if held_out { ", held out" } else { "" },
                if is_sound { "" } else { ", with failures or overloaded" }
            );
            probes.push(Probe { knob: value, throughput_per_s, p99_us, held_out });
            last = Some((measured, watch, plan));
            Ok(outcome)
        })?;
        let cores = self.result.env.cores.max(1) as f64;
        self.result.find_max = Some(FindMax {
            knob: knob.name().to_owned(),
            p99_limit_us: limit_us,
            found: found.knob,
            throughput_per_s: found.throughput_per_s,
            low_per_s: found.interval.0,
            high_per_s: found.interval.1,
            throughput_per_s_core: found.throughput_per_s / cores,
            probes,
        });
        match found.knob {
            None => self.result.reasons.push("find-max: no load holds the limit".to_owned()),
            Some(most) if knob == Knob::Warehouses && most >= f64::from(loaded) => {
                let note = format!("find-max: all {loaded} warehouses that are loaded hold the limit; more might");
                self.result.notes.push(note);
            }
            Some(_) => {}
        }
        let (measured, watch, plan) = last.ok_or_else(|| Error::usage("--find-max made no run"))?;
        self.result.settings = Settings {
            connections: measured.connections,
            isolation: self.result.settings.isolation.clone(),
            durability: self.result.settings.durability.clone(),
            ..Settings::of(&plan, 0, "", "")
        };
        self.plan = plan;
        Ok((measured, watch))
    }

    /// The plan of a probe: shorter than a run unless it is held out.
    fn plan_at(&self, value: f64, held_out: bool, number: u64) -> RunPlan {
        let mut plan = self.plan.clone();
        // No two probes ask the same: what one inserted would be in the way of the other.
        plan.seed = mix(plan.seed ^ number);
        match self.args.find {
            Knob::InFlight => {
                plan.pacing = Pacing::Closed;
                (plan.clients, plan.in_flight) = (value as u32, value as u32);
            }
            Knob::Rate => plan.pacing = Pacing::Open(value, self.args.arrivals),
            Knob::Warehouses => {
                plan.pacing = Pacing::Terminals;
                plan.clients = self.workload.set_warehouses(value as u32).unwrap_or(plan.clients);
            }
        }
        if !held_out {
            plan.duration = (plan.duration / PROBE_PART).max(PROBE_MIN).min(plan.duration);
            plan.warmup = plan.warmup.min(plan.duration);
        }
        plan
    }

    /// The same against a target that does nothing, as fast as it goes.
    fn control(&mut self) -> Result<()> {
        let target: Arc<dyn Target> = Arc::new(Null::new(self.workload));
        let clients = self.plan.in_flight.min(CONTROL_CLIENTS_MAX);
        let duration = self.plan.duration.min(CONTROL_MAX);
        let plan = RunPlan {
            pacing: Pacing::Closed,
            clients,
            in_flight: clients,
            shard: (0, 1),
            warmup: duration / 10,
            duration,
            ..self.plan.clone()
        };
        let mut watch = RunWatch::new(None, &plan);
        let measured = driver::run(self.workload, &target, &self.statements, &plan, &mut watch)
            .map_err(|failure| Error::target("null", failure))?;
        watch.finish();
        let cost = watch.ledger.cost(&measured, true, None, None);
        self.result.control = Some(Control {
            throughput_per_s: measured.throughput(),
            cpu_us_per_txn: cost.own_cpu_us_per_txn,
            p99_us: measured.scheduled().value_at_quantile(0.99) as f64 / 1e3,
        });
        Ok(())
    }

    /// What a reader should know that makes nothing invalid.
    fn remark(&mut self, measured: &Measured) {
        let notes = &mut self.result.notes;
        if self.plan.pacing == Pacing::Closed {
            notes.push(
                "closed loop: who waits for a slow answer asks for nothing meanwhile, which flatters latency"
                    .to_owned(),
            );
        }
        if let Pacing::Open(rate, _) = self.plan.pacing {
            let rate = rate / f64::from(self.plan.shard.1);
            if measured.throughput() < 0.97 * rate {
                notes.push(format!(
                    "overloaded: {} a second of the {} that were due; {} were left over, and latencies grow with the length of \
                     the run",
                    significant(measured.throughput()),
                    significant(rate),
                    whole(measured.outstanding as f64)
                ));
            }
        }
        let cost = &self.result.cost;
        if let (Some(target), Some(generator)) = (cost.cpu_us_per_txn, cost.generator_cpu_us_per_txn)
            && generator > target / 4.0
        {
            notes.push(format!(
                "the generator's CPU is {} % of the target's",
                significant(generator / target.max(1e-9) * 100.0)
            ));
        }
        let unknown: u64 = measured.acknowledged.unknown.iter().sum();
        if unknown > 0 {
            notes.push(format!("of {unknown} commits nobody knows whether they happened; they are not counted"));
        }
    }

    fn check(&mut self) -> Result<()> {
        let mut findings = Vec::new();
        self.block_on(async {
            load::ensure_loaded(&*self.target, &**self.workload).await?;
            let mut each = |finding: &Finding| eprintln!("{}", table::finding(finding));
            findings = self.workload.check(&*self.target, &mut each).await.map_err(|e| self.target_failed(e))?;
            Ok::<(), Error>(())
        })??;
        self.result.checks.extend(findings);
        Ok(())
    }

    /// The result. If a step failed after something was measured, the failure is a reason not to believe it.
    pub(crate) fn finish(mut self, outcome: Result<()>) -> Result<RunResult> {
        if let Err(error) = outcome {
            if !self.has_run {
                return Err(error);
            }
            self.result.reasons.push(error.to_string());
        }
        self.result.ended_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if self.has_run || !self.result.checks.is_empty() {
            self.result.judge();
        } else {
            self.result.valid = true;
        }
        Ok(self.result)
    }
}

/// What a search wants to know of a run. `cycle` is how long a client with think times takes from one transaction to the next.
fn outcome(measured: &Measured, plan: &RunPlan, cycle: Option<Duration>) -> find_max::Outcome {
    let (ended, failed) = (measured.ended(), measured.failed());
    let keeps_rate = match (plan.pacing, cycle) {
        (Pacing::Open(rate, _), _) => measured.throughput() >= 0.95 * rate / f64::from(plan.shard.1),
        (Pacing::Terminals, Some(cycle)) => {
            // Few transactions in a short run are few by chance, too: four standard deviations of a Poisson process.
            let due = f64::from(plan.clients / plan.shard.1) * measured.seconds / cycle.as_secs_f64();
            ended as f64 >= 0.95 * due - 4.0 * due.sqrt()
        }
        _ => true,
    };
    find_max::Outcome {
        throughput_per_s: measured.throughput(),
        p99_us: measured.scheduled().value_at_quantile(0.99) as f64 / 1e3,
        is_sound: (ended > 0 || plan.pacing == Pacing::Terminals)
            && failed * 100 <= ended + failed
            && measured.ended_early.is_none()
            && keeps_rate,
    }
}

/// A line on the terminal while a run goes on, and the ledger.
struct RunWatch {
    ledger: Ledger,
    bar: Option<ProgressBar>,
    warmup: Duration,
    last: (Instant, u64),
    /// Transactions a second, of each second so far.
    rates: Vec<f64>,
}

/// Shows nothing if there is no terminal.
fn bar(length: u64, template: &str) -> Option<ProgressBar> {
    use std::io::IsTerminal;
    std::io::stderr().is_terminal().then(|| {
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template(template).expect("a template that is right at compile time"));
        bar
    })
}

impl RunWatch {
    fn new(server_pid: Option<u32>, plan: &RunPlan) -> Self {
        let whole = (plan.warmup + plan.duration).as_secs();
        Self {
            ledger: Ledger::new(server_pid),
            bar: bar(whole.max(1), "[{pos}/{len} s] {bar:12} {wide_msg}"),
            warmup: plan.warmup,
            last: (Instant::now(), 0),
            rates: Vec::new(),
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Watch for RunWatch {
    fn measuring_begins(&mut self) {
        self.ledger.begin();
    }

    fn measuring_ends(&mut self) {
        self.ledger.end();
    }

    fn tick(&mut self, elapsed: Duration, run: &driver::Run) {
        let Some(bar) = &self.bar else { return };
        let (at, before) = self.last;
        let since = at.elapsed();
        if since < Duration::from_secs(1) {
            return;
        }
        let (ended, failed) = run.recorder.so_far();
        let rate = significant((ended - before) as f64 / since.as_secs_f64());
        bar.set_position(elapsed.as_secs());
        bar.set_message(match run.recorder.latest(Instant::now()) {
            None if elapsed < self.warmup => "warming up".to_owned(),
            None => "measuring".to_owned(),
            Some(latest) => {
                let has_ended = latest.ended > 0;
                let p99 = if has_ended { significant(latest.quantile_ns(0.99) as f64 / 1e6) } else { "–".to_owned() };
                self.rates.push((ended - before) as f64 / since.as_secs_f64());
                let first = self.rates.len().saturating_sub(RATES_SHOWN);
                let shown = plot::sparks(&self.rates[first..]);
                format!("{rate} a second {shown} p99 {p99} ms, {} ended, {failed} failed", whole(ended as f64))
            }
        });
        self.last = (Instant::now(), ended);
    }
}

/// How far a load is, for a terminal.
struct LoadBar {
    bar: Option<ProgressBar>,
}

impl LoadBar {
    fn new(rows: u64) -> Self {
        Self { bar: bar(rows, "loading [{pos}/{len} rows] {per_sec} {eta} left") }
    }

    /// Drives a load, and shows how far it is.
    async fn watch<F: Future>(&self, progress: &LoadProgress, load: F) -> F::Output {
        let mut load = std::pin::pin!(load);
        loop {
            match colibri_runtime::timeout(Duration::from_millis(500), load.as_mut()).await {
                Ok(output) => {
                    if let Some(bar) = &self.bar {
                        bar.finish_and_clear();
                    }
                    return output;
                }
                Err(_not_yet) => {
                    if let Some(bar) = &self.bar {
                        bar.set_position(progress.rows.load(Ordering::Relaxed));
                    }
                }
            }
        }
    }
}

//! A run from its first step to its result: load, run or search, control run, checks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::args::{CommonArgs, Knob};
use super::progress::{LoadBar, RunWatch};
use super::result::{
    Control, FindMax, LoadResult, Probe, RunResult, SCHEMA, Settings, late_us, too_busy, too_late, too_silent,
};
use super::{find_max, table};
use crate::measure::environment::{Environment, doubts};
use crate::measure::format::{significant, whole};
use crate::measure::output::tell;
use crate::measure::random::mix;
use crate::measure::{Error, Result};
use crate::sql::driver::silence::Silence;
use crate::sql::driver::{self, Measured, Pacing, RunPlan, Watch};
use crate::sql::target::null::Null;
use crate::sql::target::{self, Failure, Place, Target};
use crate::sql::workload::load::{self, LoadProgress, Loaded};
use crate::sql::workload::tpcc::TPMC_MAX;
use crate::sql::workload::{Acknowledged, Finding, Workload};

/// The control run takes as long as the run, but no longer than this.
const CONTROL_MAX: Duration = Duration::from_secs(2);
/// A probe of a search takes this part of a run, and at least so long.
const PROBE_PART: u32 = 4;
const PROBE_MIN: Duration = Duration::from_secs(2);
/// The most clients of a control run.
const CONTROL_CLIENTS_MAX: u32 = 256;

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
    /// It has not reached its planned end.
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
            Place::InProcess => format!("{:?}", args.durability()).to_lowercase(),
            Place::Outside => "the server's".to_owned(),
            Place::Nowhere => "none".to_owned(),
        };
        let settings = Settings {
            memory_limit_bytes: args.memory_limit,
            ..Settings::of(&plan, 0, args.isolation.name(), &durability)
        };
        let command: Vec<_> = std::env::args().collect();
        let notes: Vec<_> = doubts(&environment).map(str::to_owned).collect();
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
            due: None,
            silent_s: 0.0,
            unreachable_s: 0.0,
            figures: BTreeMap::new(),
            kinds: Vec::new(),
            scheduled_us: Default::default(),
            lag_us: Default::default(),
            late_us: 0.0,
            timeline: Vec::new(),
            failures: BTreeMap::new(),
            tallies: BTreeMap::new(),
            audit: Vec::new(),
            checks: Vec::new(),
            cost: Default::default(),
            control: None,
            load: None,
            find_max: None,
            analysts: None,
        };
        Self { args, workload, target, statements, plan, result, has_run: false, ended_early: false }
    }

    fn target_failed(&self, failure: Failure) -> Error {
        Error::target(self.target.name(), failure)
    }

    /// Carries out everything that was asked for.
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
                // A target that has died or hangs would not answer this either.
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

    /// Checks that the data are there, and reads what the workload has to know of them.
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
        self.result.settings.is_patient = measured.is_patient;
        if !self.args.no_control {
            self.control()?;
        }
        let in_process = self.target.place() == Place::InProcess;
        let generator_us = self.result.control.and_then(|control| control.cpu_us_per_txn);
        self.result.cost = watch.ledger.cost(&measured, in_process, generator_us, self.target.dir());
        self.result.reasons.extend(watch.ledger.server_lost());
        self.remark(&measured);
        if let Some(reason) = &measured.ended_early {
            self.result.reasons.push(reason.clone());
            if before.is_some() {
                let note = "acknowledged commits were not looked for, as the run has ended early";
                self.result.notes.push(note.to_owned());
            }
            self.ended_early = true;
            return Ok(());
        }
        if let Some(before) = before {
            self.reconcile(before, &measured)?;
        }
        Ok(())
    }

    /// Checks that what was acknowledged is there.
    fn reconcile(&mut self, before: i64, measured: &Measured) -> Result<()> {
        let after = self.block_on(self.workload.mark(&*self.target))?.map_err(|e| self.target_failed(e))?;
        let after = after.unwrap_or(before);
        // Other processes ran their shares at the same time, and what those acknowledged is not
        // known here.
        if self.plan.shard.1 == 1 {
            self.result.checks.extend(self.workload.reconcile(before, after, &measured.acknowledged));
        } else {
            let note = "acknowledged commits were not looked for: other shards have commits of their own";
            self.result.notes.push(note.to_owned());
        }
        Ok(())
    }

    fn measure(&self, plan: &RunPlan, watch: &mut dyn Watch) -> Result<Measured> {
        driver::run(self.workload, &self.target, &self.statements, plan, watch).map_err(|e| self.target_failed(e))
    }

    /// Searches for the highest load. The result is that of the final run whose throughput is the
    /// median or next to it, which is the figure: so costs and latencies belong to the figure.
    /// Acknowledged transactions are those of all runs of the search.
    fn find_max(&mut self) -> Result<(Measured, RunWatch)> {
        let knob = self.args.find;
        let limit_us = self.args.p99.map_or(f64::INFINITY, |limit| limit.as_secs_f64() * 1e6);
        let (mut probes, mut runs, mut limited) = (Vec::<Probe>::new(), Vec::new(), None);
        let mut acknowledged = Acknowledged::default();
        let loaded = self.workload.warehouses().unwrap_or(1);
        let range = find_max::Range::of(knob, loaded);
        let found = find_max::find_max(range, limit_us, self.args.rounds, |value, held_out| {
            let plan = self.plan_at(value, held_out, probes.len() as u64);
            let mut watch = RunWatch::new(self.args.server_pid, &plan);
            let measured = self.measure(&plan, &mut watch)?;
            watch.finish();
            acknowledged.add(&measured.acknowledged);
            let mut outcome = outcome(&measured, &plan, self.workload.cycle());
            let doubt = self.limit_of_generator(&measured, &watch);
            outcome.is_sound &= doubt.is_none();
            let find_max::Outcome { throughput_per_s, p99_us, is_sound } = outcome;
            tell!(
                "{} {}: {} a second, p99 {} ms{}{}{}",
                knob.name(),
                significant(value),
                significant(throughput_per_s),
                significant(p99_us / 1e3),
                if held_out { ", held out" } else { "" },
                match (is_sound, &doubt) {
                    (true, _) => String::new(),
                    (false, Some(doubt)) => format!(", {doubt}"),
                    (false, None) => ", with failures or overloaded".to_owned(),
                },
                few_connections(&measured, &plan).map_or(String::new(), |few| format!(", {few}"))
            );
            if limited.is_none() {
                limited = few_connections(&measured, &plan);
            }
            // Final runs at one load are kept together.
            if !held_out || probes.last().is_none_or(|last| !last.held_out || last.knob != value) {
                runs.clear();
            }
            probes.push(Probe { knob: value, throughput_per_s, p99_us, held_out });
            runs.push((throughput_per_s, (measured, watch, plan)));
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
        // More transactions cannot be under way than there are connections, so the search has
        // stopped there.
        self.result.notes.extend(limited.map(|few| format!("find-max: {few}")));
        match found.knob {
            None => self.result.reasons.push("find-max: no load holds the limit".to_owned()),
            Some(most) if knob == Knob::Warehouses && most >= f64::from(loaded) => {
                let note = format!("find-max: all {loaded} warehouses that are loaded hold the limit; more might");
                self.result.notes.push(note);
            }
            Some(_) => {}
        }
        let off = |throughput_per_s: f64| (throughput_per_s - found.throughput_per_s).abs();
        let run = runs.into_iter().min_by(|a, b| off(a.0).total_cmp(&off(b.0)));
        let (_, (mut measured, watch, plan)) = run.ok_or_else(|| Error::usage("--find-max made no run"))?;
        measured.acknowledged = acknowledged;
        self.result.settings = Settings {
            connections: measured.connections,
            is_patient: measured.is_patient,
            isolation: self.result.settings.isolation.clone(),
            durability: self.result.settings.durability.clone(),
            memory_limit_bytes: self.args.memory_limit,
            ..Settings::of(&plan, 0, "", "")
        };
        self.plan = plan;
        Ok((measured, watch))
    }

    /// Why a run shows a limit of the generator and not of the target, if it does.
    fn limit_of_generator(&self, measured: &Measured, watch: &RunWatch) -> Option<String> {
        let p99_us = measured.scheduled().value_at_quantile(0.99) as f64 / 1e3;
        let own_us = match self.target.place() {
            Place::Outside => watch.ledger.cost(measured, false, None, None).own_cpu_us_per_txn,
            // The database works on the same threads. The control run tells more.
            Place::InProcess => None,
            // The generator itself is measured.
            Place::Nowhere => return None,
        };
        let busy = || too_busy(own_us, measured.throughput(), self.plan.threads);
        too_late(late_us(&measured.lag), p99_us).or_else(busy)
    }

    /// The plan of a probe: shorter than a run, unless it is a final run.
    fn plan_at(&self, value: f64, held_out: bool, number: u64) -> RunPlan {
        let mut plan = self.plan.clone();
        // No two probes insert the same records, which would collide.
        plan.seed = mix(plan.seed ^ number);
        match self.args.find {
            Knob::InFlight => {
                plan.pacing = Pacing::Closed;
                (plan.clients, plan.in_flight) = (value as u32, value as u32);
            }
            Knob::Rate => plan.pacing = Pacing::Open(value, self.args.spread()),
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

    /// The same run against a target that does nothing, as fast as possible.
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

    /// Notes for the reader that do not make the result invalid.
    fn remark(&mut self, measured: &Measured) {
        let notes = &mut self.result.notes;
        if self.plan.pacing == Pacing::Terminals {
            notes.push(format!(
                "terminals that key and think ask for at most {TPMC_MAX} new orders a minute and warehouse: --no-wait shows what the \
                 target can do"
            ));
        }
        if self.plan.pacing == Pacing::Closed {
            notes.push(
                "closed loop: who waits for a slow answer asks for nothing meanwhile, which flatters latency"
                    .to_owned(),
            );
        }
        if let Some(due) = measured.due.filter(|&due| !keeps_up(measured.ended(), due as f64, 0.97)) {
            notes.push(format!(
                "overloaded: of {} transactions that were due {} ended; {} were left over at the end, and latencies grow with \
                 the length of the run",
                whole(due as f64),
                whole(measured.ended() as f64),
                whole(measured.unfinished() as f64)
            ));
        }
        // A search notes this for the load at which it happened.
        if !self.args.find_max {
            notes.extend(few_connections(measured, &self.plan));
        }
        let cost = &self.result.cost;
        if let (Some(target), Some(generator)) = (cost.cpu_us_per_txn, cost.generator_cpu_us_per_txn)
            && generator > target / 4.0
        {
            notes.push(if target > 0.0 {
                format!("the generator's CPU is {} % of the target's", significant(generator / target * 100.0))
            } else {
                // The machine was slower, or shared, during the control run.
                "against null the generator took more CPU than generator and target together: the target's is unknown"
                    .to_owned()
            });
        }
        let unknown: u64 = measured.acknowledged.unknown.iter().sum();
        if unknown > 0 {
            notes.push(format!("of {unknown} commits nobody knows whether they happened; they are not counted"));
        }
    }

    pub(super) fn check(&mut self) -> Result<()> {
        let mut findings = Vec::new();
        self.block_on(async {
            load::ensure_loaded(&*self.target, &**self.workload).await?;
            let mut each = |finding: &Finding| tell!("{}", table::finding(finding));
            findings = self.workload.check(&*self.target, &mut each).await.map_err(|e| self.target_failed(e))?;
            Ok::<(), Error>(())
        })??;
        self.result.checks.extend(findings);
        Ok(())
    }

    /// Adds what was checked elsewhere.
    pub(super) fn add_checks(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.result.checks.extend(findings);
    }

    /// The result. If a step failed after something was measured, the failure is a reason not to
    /// believe it.
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
        }
        // A finding of a check is one of the reasons. Without a run there is nothing to believe.
        self.result.valid &= self.has_run;
        Ok(self.result)
    }
}

/// Whether `part` is too large a share of the transactions that were due. Few transactions in a
/// short run vary by chance: four standard deviations of a Poisson process are allowed.
fn keeps_up(ended: u64, due: f64, part: f64) -> bool {
    ended as f64 >= part * due - 4.0 * due.sqrt()
}

/// A note that the target took fewer connections than there should have been.
fn few_connections(measured: &Measured, plan: &RunPlan) -> Option<String> {
    let wanted = plan.clients.div_ceil(plan.shard.1).min(plan.in_flight);
    let most = measured.connections_max.filter(|&most| most < wanted)?;
    let clients = whole(f64::from(plan.clients.div_ceil(plan.shard.1)));
    Some(format!("{} connections of {clients} clients: the server takes no more", whole(f64::from(most))))
}

/// What a search needs of a run. `cycle` is the average time of a client with think times from one
/// transaction to the next.
fn outcome(measured: &Measured, plan: &RunPlan, cycle: Option<Duration>) -> find_max::Outcome {
    let (ended, failed) = (measured.ended(), measured.failed());
    let due = match (plan.pacing, cycle) {
        (Pacing::Open(..), _) => measured.due.map(|due| due as f64),
        (Pacing::Terminals, Some(cycle)) => {
            Some(f64::from(plan.clients / plan.shard.1) * measured.seconds / cycle.as_secs_f64())
        }
        _ => None,
    };
    let Silence { length, unreachable } = measured.silence;
    let is_answered = too_silent(length.as_secs_f64(), unreachable.as_secs_f64(), measured.seconds).is_none();
    let keeps_rate = due.is_none_or(|due| keeps_up(ended, due, 0.95));
    find_max::Outcome {
        throughput_per_s: measured.throughput(),
        p99_us: measured.scheduled().value_at_quantile(0.99) as f64 / 1e3,
        is_sound: (ended > 0 || plan.pacing == Pacing::Terminals)
            && failed * 100 <= ended + failed
            && measured.ended_early.is_none()
            && is_answered
            && keeps_rate
            // A run that did not have the load it names holds no limit.
            && (plan.pacing != Pacing::Closed || few_connections(measured, plan).is_none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::driver::Unwatched;
    use crate::sql::driver::schedule::Arrivals;
    use crate::sql::target::Isolation;
    use crate::sql::workload::tpcc::{Scale, Tpcc};

    fn run(pacing: Pacing, seed: u64, ms: u64) -> (Measured, RunPlan) {
        let workload: Arc<dyn Workload> = Arc::new(Tpcc::new(Scale::new(1), seed));
        let target: Arc<dyn Target> = Arc::new(Null::new(&workload));
        let plan = RunPlan {
            pacing,
            clients: 16,
            shard: (0, 1),
            in_flight: 16,
            warmup: Duration::ZERO,
            duration: Duration::from_millis(ms),
            timeout: Duration::from_secs(5),
            retries_max: 3,
            threads: 2,
            seed,
        };
        let statements = target::texts(Isolation::Default, workload.statements());
        (driver::run(&workload, &target, &statements, &plan, &mut Unwatched).unwrap(), plan)
    }

    /// Bug: a search wanted 95 % of the rate that it had set, and arrivals are random. Consequence:
    /// a small rate broke by chance, and nothing was found. Fix: what ended is held against what
    /// was due, and allowed to be less by chance.
    #[test]
    fn a_small_rate_is_kept_whatever_chance_makes_of_it() {
        for seed in 0..12 {
            let (measured, plan) = run(Pacing::Open(40.0, Arrivals::Random), seed, 500);
            assert!(measured.due.unwrap() > 0, "seed {seed}");
            assert!(
                outcome(&measured, &plan, None).is_sound,
                "seed {seed}: {:?}, {} ended",
                measured.due,
                measured.ended()
            );
        }
    }

    #[test]
    fn a_rate_that_is_not_kept_is_not_sound() {
        let (mut measured, plan) = run(Pacing::Open(2_000.0, Arrivals::Random), 42, 300);
        assert!(outcome(&measured, &plan, None).is_sound);
        measured.due = Some(measured.ended() * 3 / 2);
        assert!(!outcome(&measured, &plan, None).is_sound);
        measured.due = Some(measured.ended());
        measured.silence.length = Duration::from_secs(2);
        assert!(!outcome(&measured, &plan, None).is_sound, "nobody was answered for long");
    }

    #[test]
    fn so_many_transactions_are_not_under_way_where_there_are_fewer_connections() {
        let (mut measured, plan) = run(Pacing::Closed, 42, 50);
        assert!(outcome(&measured, &plan, None).is_sound);
        measured.connections_max = Some(7);
        assert!(!outcome(&measured, &plan, None).is_sound);
        let few = few_connections(&measured, &RunPlan { clients: 8_000, ..plan }).unwrap();
        assert_eq!(few, "7 connections of 8,000 clients: the server takes no more");
    }
}

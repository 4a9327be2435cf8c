//! Runs a plan: modes, then passes, then rounds, then targets, each in a directory of its own.
//!
//! ```text
//! for mode ── for pass ── for round ── for target, the next one first each round
//!                                        ├─ fresh directory: open, steps, check, close, remove
//!                                        └─ with --load, if the pass writes: once more, at a part of that throughput
//! ```
//!
//! Invariants
//! - Rivals alternate within a round, and each goes first in turn, so that a machine that slows
//!   down or warms up does it to all of them.
//! - An engine that fails loses its own results, not those of the others.
//!
//! Not here: threads and clocks (`drive`), and what is printed at the end (`report`).

use std::path::Path;
use std::time::Instant;

use crate::engine::args::{Arrivals, Plan};
use crate::engine::drive;
use crate::engine::report::{Measurement, RowKey};
use crate::engine::targets::{self, CheckSummary, Config, Target, TargetName};
use crate::engine::workload::{Mode, Step};
use crate::measure::format;
use crate::measure::progress::Progress;
use crate::measure::workplace::Workplace;
use crate::measure::{Error, Result, cost};

/// A structural check that an engine made of its database after a pass.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) target: TargetName,
    pub(crate) mode: Mode,
    pub(crate) what: String,
    pub(crate) summary: CheckSummary,
}

impl Checked {
    /// "clean", or what is wrong.
    pub(crate) fn verdict(&self) -> String {
        let CheckSummary { entries, pages, problems } = &self.summary;
        match problems.first() {
            None => format!("clean, {entries} entries in {pages} pages"),
            Some(first) => format!("{} problems, the first: {first}", problems.len()),
        }
    }
}

/// All that a plan measured.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) measurements: Vec<Measurement>,
    pub(crate) checks: Vec<Checked>,
}

/// How many runs [`run`] makes.
pub(crate) fn run_count(plan: &Plan) -> u64 {
    let repeated = match plan.arrivals {
        Arrivals::Load(_) => plan.passes.iter().filter(|pass| writes(pass)).count(),
        Arrivals::Closed | Arrivals::Rate(_) => 0,
    };
    let passes = (plan.passes.len() + repeated) as u64;
    plan.modes.len() as u64 * passes * u64::from(plan.rounds) * plan.targets.len() as u64
}

/// Runs everything in `plan`.
pub(crate) fn run(plan: &Plan, workplace: &Workplace, progress: &Progress) -> Result<Measured> {
    let mut measured = Measured::default();
    for mode in &plan.modes {
        for pass in &plan.passes {
            for round in 0..plan.rounds {
                for turn in 0..plan.targets.len() {
                    let name = plan.targets[(turn + round as usize) % plan.targets.len()];
                    let run = Run { plan, name, mode: *mode, round, workplace, progress };
                    run.arrivals(pass, &mut measured)?;
                }
            }
        }
    }
    Ok(measured)
}

fn writes(pass: &[Step]) -> bool {
    pass.iter().any(|step| step.write.is_some())
}

/// The pass in open loop; steps that only read stay as they are.
fn at_rate(pass: &[Step], rate: f64) -> Vec<Step> {
    pass.iter().map(|step| Step { rate: step.write.map(|_| rate), ..*step }).collect()
}

/// One engine's turn.
struct Run<'a> {
    plan: &'a Plan,
    name: TargetName,
    mode: Mode,
    round: u32,
    workplace: &'a Workplace,
    progress: &'a Progress,
}

impl Run<'_> {
    /// Runs a pass in closed loop, in open loop, or in both, each in a directory of its own.
    fn arrivals(&self, pass: &[Step], measured: &mut Measured) -> Result<()> {
        let load = match self.plan.arrivals {
            Arrivals::Closed => return self.in_fresh_directory(pass, measured),
            Arrivals::Rate(rate) => return self.in_fresh_directory(&at_rate(pass, rate), measured),
            Arrivals::Load(load) => load,
        };
        let done = measured.measurements.len();
        self.in_fresh_directory(pass, measured)?;
        if !writes(pass) {
            return Ok(());
        }
        let closed = measured.measurements[done..].iter().find(|measurement| !measurement.key.workload.is_read());
        let rate = load * closed.map_or(0.0, Measurement::ops_per_s);
        let pass = at_rate(pass, rate);
        if rate > 0.0 {
            return self.in_fresh_directory(&pass, measured);
        }
        let problem = "there is no throughput of which --load would be a part".to_owned();
        let keys = pass.iter().flat_map(|step| RowKey::of_step(self.name, self.mode, step));
        measured.measurements.extend(keys.map(|key| Measurement::failed(key, problem.clone())));
        self.progress.advance();
        Ok(())
    }

    fn in_fresh_directory(&self, pass: &[Step], measured: &mut Measured) -> Result<()> {
        let Self { workplace, progress, .. } = self;
        let what: Vec<_> =
            pass.iter().flat_map(|step| step.write.into_iter().chain(step.read)).map(|w| w.to_string()).collect();
        let mut what = what.join("+");
        if pass.iter().any(|step| step.rate.is_some()) {
            what.push_str("-open-loop");
        }
        let dir = workplace.make(&format!("{}-{}-{what}-{}", self.name, self.mode, self.round + 1))?;
        let started = Instant::now();
        progress.begin(&format!("{} {} {what}, round {}", self.name, self.mode, self.round + 1));

        let done = measured.measurements.len();
        let checked = self.steps(pass, &dir, measured);
        match checked {
            Ok(None) => {}
            Ok(Some(summary)) => {
                let checked = Checked { target: self.name, mode: self.mode, what, summary };
                progress.line(&format!("{} {} {}: check: {}", self.name, self.mode, checked.what, checked.verdict()));
                if !checked.summary.problems.is_empty() {
                    for measurement in &mut measured.measurements[done..] {
                        measurement.problems.push(format!("check: {}", checked.verdict()));
                    }
                }
                measured.checks.push(checked);
            }
            Err(error) => {
                progress.line(&format!(
                    "{} {} {what}: failed after {}: {error}",
                    self.name,
                    self.mode,
                    format::seconds(started.elapsed())
                ));
                self.give_up(pass, &error, done, measured);
            }
        }
        progress.advance();
        let last_round = self.round + 1 == self.plan.rounds;
        if self.plan.keep && last_round { Ok(()) } else { workplace.remove(&dir) }
    }

    /// Adds an invalid result for each result that this run should have given.
    fn give_up(&self, pass: &[Step], error: &Error, done: usize, measured: &mut Measured) {
        for measurement in &mut measured.measurements[done..] {
            measurement.problems.push(error.to_string());
        }
        let reported: Vec<RowKey> = measured.measurements[done..].iter().map(|measurement| measurement.key).collect();
        for step in pass {
            let missing = RowKey::of_step(self.name, self.mode, step).filter(|key| !reported.contains(key));
            measured.measurements.extend(missing.map(|key| Measurement::failed(key, error.to_string())));
        }
    }

    fn steps(&self, pass: &[Step], dir: &Path, measured: &mut Measured) -> Result<Option<CheckSummary>> {
        let plan = self.plan;
        let config = Config {
            mode: self.mode,
            key_bytes: plan.key_bytes,
            value_bytes: plan.value_bytes,
            page_bytes: plan.page_bytes,
            trace_flush: plan.trace_flush,
        };
        let target: Box<dyn Target> = targets::open(self.name, dir, &config)?;
        let mut readers_loaded = false;
        for step in pass {
            let outcome = drive::run_step(target.as_ref(), plan, self.mode, step, &mut readers_loaded)?;
            let disk_bytes = cost::disk_bytes(dir).ok();
            for key in RowKey::of_step(self.name, self.mode, step) {
                let side = if key.workload.is_read() { &outcome.read } else { &outcome.write };
                let side = side.as_ref().expect("a step measures what it runs");
                let measurement = Measurement::new(key, step.rate, side, &outcome, disk_bytes, &target.notes());
                self.progress.line(&format!(
                    "{} {} {}{}, round {}: {} ops/s in {}",
                    self.name,
                    self.mode,
                    key.workload,
                    if key.open_loop { " in open loop" } else { "" },
                    self.round + 1,
                    format::whole(measurement.ops_per_s()),
                    format::seconds(side.elapsed)
                ));
                measured.measurements.push(measurement);
            }
        }
        target.check()
    }
}

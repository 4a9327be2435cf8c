//! Runs a plan: modes, then passes, then rounds, then targets, each in a directory of its own.
//!
//! ```text
//! for mode ── for pass ── for round ── for target, the next one first each round
//!                                        └─ fresh directory: open, steps, check, close, remove
//! ```
//!
//! Invariants
//! - Rivals alternate within a round, and each goes first in turn, so that a machine that slows down or warms up
//!   does it to all of them.
//! - Only directories that this run made are removed.
//! - An engine that fails loses its own results, not those of the others.
//!
//! Not here: threads and clocks (`drive`), and what is printed at the end (`report`).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::kv::args::Plan;
use crate::kv::cost;
use crate::kv::drive;
use crate::kv::progress::Progress;
use crate::kv::report::{self, Measurement, RowKey};
use crate::kv::targets::{self, CheckSummary, Config, Target, TargetName};
use crate::kv::workload::{Mode, Step};
use crate::kv::{Error, Result};

/// The directory that holds this run's databases.
#[derive(Debug)]
pub(crate) struct Workplace {
    dir: PathBuf,
    /// Outer directory, if this run made it.
    made: Option<PathBuf>,
    keep: bool,
}

impl Workplace {
    /// Makes `outer` if it is not there, and a directory inside it that no other run uses.
    pub(crate) fn new(outer: &Path, keep: bool) -> Result<Self> {
        let made = match fs::create_dir(outer) {
            Ok(()) => Some(outer.to_owned()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && outer.is_dir() => None,
            Err(error) => return Err(Error::io("cannot create", outer, error)),
        };
        for attempt in 0.. {
            let dir = outer.join(format!("kv-{}-{attempt}", std::process::id()));
            match fs::create_dir(&dir) {
                Ok(()) => return Ok(Self { dir, made, keep }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("cannot create", dir, error)),
            }
        }
        unreachable!("some number is free")
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn make(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        fs::create_dir(&dir).map_err(|error| Error::io("cannot create", &dir, error))?;
        Ok(dir)
    }

    pub(crate) fn remove(&self, dir: &Path) -> Result<()> {
        fs::remove_dir_all(dir).map_err(|error| Error::io("cannot remove", dir, error))
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        let _leftovers_harm_nobody = fs::remove_dir_all(&self.dir);
        if let Some(made) = &self.made {
            let _not_empty_means_not_only_ours = fs::remove_dir(made);
        }
    }
}

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
    plan.modes.len() as u64 * plan.passes.len() as u64 * u64::from(plan.rounds) * plan.targets.len() as u64
}

/// Runs everything in `plan`.
pub(crate) fn run(plan: &Plan, workplace: &Workplace, progress: &Progress) -> Result<Measured> {
    let mut measured = Measured::default();
    for mode in &plan.modes {
        for pass in &plan.passes {
            for round in 0..plan.rounds {
                for turn in 0..plan.targets.len() {
                    let name = plan.targets[(turn + round as usize) % plan.targets.len()];
                    let run = Run { plan, name, mode: *mode, pass, round };
                    run.in_fresh_directory(workplace, progress, &mut measured)?;
                    progress.advance();
                }
            }
        }
    }
    Ok(measured)
}

/// One engine's turn.
struct Run<'a> {
    plan: &'a Plan,
    name: TargetName,
    mode: Mode,
    pass: &'a [Step],
    round: u32,
}

impl Run<'_> {
    fn in_fresh_directory(&self, workplace: &Workplace, progress: &Progress, measured: &mut Measured) -> Result<()> {
        let what: Vec<_> =
            self.pass.iter().flat_map(|step| step.write.into_iter().chain(step.read)).map(|w| w.to_string()).collect();
        let what = what.join("+");
        let dir = workplace.make(&format!("{}-{}-{what}-{}", self.name, self.mode, self.round + 1))?;
        let started = Instant::now();
        progress.begin(&format!("{} {} {what}, round {}", self.name, self.mode, self.round + 1));

        let done = measured.measurements.len();
        let checked = self.steps(&dir, progress, measured);
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
                    report::seconds(started.elapsed())
                ));
                self.give_up(&error, done, measured);
            }
        }
        let last_round = self.round + 1 == self.plan.rounds;
        if self.plan.keep && last_round { Ok(()) } else { workplace.remove(&dir) }
    }

    /// Every result that this run owes becomes an invalid one.
    fn give_up(&self, error: &Error, done: usize, measured: &mut Measured) {
        for measurement in &mut measured.measurements[done..] {
            measurement.problems.push(error.to_string());
        }
        let reported: Vec<RowKey> = measured.measurements[done..].iter().map(|measurement| measurement.key).collect();
        for step in self.pass {
            let missing = RowKey::of_step(self.name, self.mode, step).filter(|key| !reported.contains(key));
            measured.measurements.extend(missing.map(|key| Measurement::failed(key, error.to_string())));
        }
    }

    fn steps(&self, dir: &Path, progress: &Progress, measured: &mut Measured) -> Result<Option<CheckSummary>> {
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
        for step in self.pass {
            let outcome = drive::run_step(target.as_ref(), plan, self.mode, step, &mut readers_loaded)?;
            let disk_bytes = cost::disk_bytes(dir).ok();
            for key in RowKey::of_step(self.name, self.mode, step) {
                let side = if key.workload.is_read() { &outcome.read } else { &outcome.write };
                let side = side.as_ref().expect("a step measures what it runs");
                let measurement = Measurement::new(key, side, &outcome, disk_bytes, &target.notes());
                progress.line(&format!(
                    "{} {} {}, round {}: {} ops/s in {}",
                    self.name,
                    self.mode,
                    key.workload,
                    self.round + 1,
                    report::whole(measurement.ops_per_s()),
                    report::seconds(side.elapsed)
                ));
                measured.measurements.push(measurement);
            }
        }
        target.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_run_made_is_removed() {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("mine"), "precious").unwrap();
        let inner = {
            let workplace = Workplace::new(outer.path(), false).unwrap();
            let second = Workplace::new(outer.path(), false).unwrap();
            assert_ne!(workplace.dir(), second.dir());
            fs::write(workplace.dir().join("data"), "x").unwrap();
            workplace.dir().to_owned()
        };
        assert!(!inner.exists());
        assert!(outer.path().join("mine").exists());

        let new = outer.path().join("new");
        drop(Workplace::new(&new, false).unwrap());
        assert!(!new.exists());
        drop(Workplace::new(&new, true).unwrap());
        assert!(new.exists());
    }

    #[test]
    fn a_file_in_the_way_is_an_error() {
        let outer = tempfile::tempdir().unwrap();
        let file = outer.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Workplace::new(&file, false).unwrap_err().to_string().contains("cannot create"));
    }
}

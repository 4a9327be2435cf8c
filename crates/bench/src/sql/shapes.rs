//! `colibri bench shapes`: the statements that applications send, each by itself, on one server or
//! on two side by side.
//!
//! Workloads such as TPC-C repeat five transactions; applications send hundreds of shapes of
//! statements, and a planner that is quick on the five can be a thousand times too slow on one of
//! the hundreds. This benchmark runs each shape with values drawn anew, compares the answers of
//! both servers, and lists the worst ratio first.
//!
//! | module | holds |
//! | --- | --- |
//! | `set` | what shapes run on: one of three sets of tables, rows and statements |
//! | `service`, `helpdesk`, `introspection` | the sets: each has its statements, and mostly its tables, as files of SQL |
//! | `file` | reading the shapes of a set |
//! | `draw` | the values that stand in a shape |
//! | `measure` | running a shape, and what its answer hashes to |
//! | `report` | the table |
//!
//! # Traps
//!
//! - A ratio of two round trips that do nothing says something of sockets alone: see the shape that
//!   selects a constant.
//! - One client at a time: what many at once do to each other is what the other SQL workloads are
//!   for.

mod draw;
mod file;
mod helpdesk;
mod introspection;
mod measure;
mod report;
mod service;
mod set;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::measure::environment::Environment;
use crate::measure::flags::check_range;
use crate::measure::output::{self, say, tell};
use crate::measure::{Error, Result};
use crate::sql::args::duration;
use crate::sql::driver;
use crate::sql::open_named;
use crate::sql::progress::LoadBar;
use crate::sql::target::Target;
use crate::sql::workload::load::{self, LoadProgress};
use file::Shape;
use measure::Plan;
use report::Row;
use set::{Scale, Set};

/// How statements are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// Prepared once a connection, then run with parameters.
    Prepared,
    /// As text, with the values in it.
    Simple,
}

/// Measure the statements that applications send, one by one, on two servers side by side
///
/// Each of the shapes is what an object-relational mapper, a query builder or a person writes;
/// values are drawn anew for each run, answers are compared, and what is changed is taken back. The
/// first run loads the data.
#[derive(Debug, Clone, Args)]
pub struct ShapesArgs {
    /// Who answers: colibri (in process) or postgres://USER:PASSWORD@HOST:PORT/DATABASE
    #[arg(long, default_value = "colibri")]
    pub target: String,
    /// Whose answers and times are compared with it, as --target says
    #[arg(long)]
    pub beside: Option<String>,
    /// What the statements run on
    #[arg(long, value_enum, default_value = "service")]
    pub set: Set,
    /// How much data: at 1 the largest tables have 300,000 to 500,000 rows
    #[arg(long, default_value_t = 1)]
    pub scale: u32,
    /// A hundredth of the data, to try things out in seconds; ratios then say little
    #[arg(long, conflicts_with = "scale")]
    pub miniature: bool,
    /// How statements are sent
    #[arg(long, value_enum, default_value = "prepared")]
    pub protocol: Protocol,
    /// How long each shape runs in a round on each server; at least once
    #[arg(long, default_value = "200ms", allow_hyphen_values = true, value_parser = duration)]
    pub time: Duration,
    /// Rounds, in which the servers take turns
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// What one statement may take
    #[arg(long, default_value = "30s", allow_hyphen_values = true, value_parser = duration)]
    pub limit: Duration,
    /// Only the shapes whose source or name contains this
    #[arg(long)]
    pub select: Option<String>,
    /// Fail if a shape takes more than this multiple of what it takes beside
    #[arg(long, requires = "beside")]
    pub max_ratio: Option<f64>,
    /// Directory of the database in process; it stays. Without it, one is made and removed in the
    /// end
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Seed of the values
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// File to write the results to, as a JSON array
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// Runs the shapes.
///
/// # Errors
/// Wrong flags, a server that cannot be reached or holds other data, a file that cannot be written;
/// and [`Error::InvalidResults`] once everything has been printed, if a shape failed, gave other
/// answers, or was too slow.
pub fn run(args: &ShapesArgs) -> Result<()> {
    check_range("--scale", args.scale.into(), 1, 1_000)?;
    check_range("--rounds", args.rounds.into(), 1, 1_000)?;
    if args.max_ratio.is_some_and(|ratio| ratio.is_nan() || ratio <= 0.0) {
        return Err(Error::usage("--max-ratio is above 0"));
    }
    let shapes = selected(args.set, args.select.as_deref())?;
    output::ensure_writable(&args.json)?;
    let opened = [Some(&args.target), args.beside.as_ref()]
        .into_iter()
        .flatten()
        .map(|name| open_named(name, args.dir.as_deref()))
        .collect::<Result<Vec<_>>>()?;
    let targets: Vec<Arc<dyn Target>> = opened.iter().map(|opened| Arc::clone(&opened.target)).collect();
    output::print_heading(&Environment::observe(args.dir.as_deref().unwrap_or(Path::new("."))));
    let runtime = driver::runtime(2).map_err(|e| Error::io("cannot start threads", "", e))?;
    let rows = runtime.block_on(run_all(args, &shapes, &targets))?;
    let abouts: Vec<String> = targets.iter().map(|target| runtime.block_on(target.about())).collect();
    report::print(&rows, &abouts, args.max_ratio);
    if let Some(floor) = report::floor(&rows) {
        say!("a round trip that does nothing takes {:.3} ms", floor.as_secs_f64() * 1e3);
    }
    if let Some(path) = &args.json {
        output::write_json(path, &rows)?;
    }
    match report::bad(&rows, args.max_ratio) {
        0 => Ok(()),
        invalid => Err(Error::InvalidResults { invalid, total: rows.len() }),
    }
}

/// The shapes whose title contains a text.
fn selected(set: Set, select: Option<&str>) -> Result<Vec<Shape>> {
    let all = file::shapes(set.shapes()).map_err(Error::usage)?;
    let shapes: Vec<Shape> =
        all.into_iter().filter(|shape| select.is_none_or(|select| shape.title().contains(select))).collect();
    match shapes.is_empty() {
        true => Err(Error::usage("no shape's source or name contains what --select says")),
        false => Ok(shapes),
    }
}

async fn run_all(args: &ShapesArgs, shapes: &[Shape], targets: &[Arc<dyn Target>]) -> Result<Vec<Row>> {
    let scale = if args.miniature { Scale::miniature() } else { Scale::new(args.scale) };
    for target in targets {
        let (data, progress) = (args.set.dataset(scale), Arc::new(LoadProgress::default()));
        let bar = LoadBar::new(data.data().rows());
        bar.watch(&progress, load::load(target, &data, 1, &progress)).await?;
    }
    let &ShapesArgs { protocol, time, rounds, limit, seed, .. } = args;
    let plan = Plan { protocol, scale, time, rounds, limit, seed };
    let mut rows = Vec::new();
    for (count, shape) in shapes.iter().enumerate() {
        if count % 25 == 24 {
            tell!("{} of {} shapes", count + 1, shapes.len());
        }
        rows.push(Row::new(shape, &measure::measure(shape, targets, &plan).await?));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_runs_in_both_protocols() {
        let dir = tempfile::tempdir().unwrap();
        let results = |set: &str, protocol: &str| {
            let json = dir.path().join(protocol);
            let (dir, path) = (dir.path().join(set), json.display());
            let flags = format!(
                "--set {set} --miniature --rounds 1 --time 0s --protocol {protocol} --dir {} --json {path}",
                dir.display()
            );
            run(&crate::parse::<ShapesArgs>(&flags).unwrap()).unwrap();
            let rows: Vec<serde_json::Value> = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
            assert!(rows.iter().all(|row| row["ms"].is_number()), "{rows:#?}");
            rows.len()
        };
        for set in ["service", "helpdesk", "introspection"] {
            assert_eq!(results(set, "prepared"), results(set, "simple"));
        }
    }

    #[test]
    fn other_data_and_unknown_shapes_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let run = |flags: &str| run(&crate::parse::<ShapesArgs>(flags).unwrap()).unwrap_err().to_string();
        assert!(run("--select nothing-like-this").contains("--select"));
        assert!(run("--target sqlite").contains("there is no target"));
        assert!(run(&format!("--json {}", dir.path().display())).contains("cannot write"));
    }
}

//! `colibri bench matrix FILE`: a described set of workloads on targets, interleaved, in one report.
//!
//! ```toml
//! rounds = 3
//!
//! [[workload]]
//! name = "TPC-C, 1 warehouse"
//! command = "tpcc --warehouses 1 --no-wait --duration 30s"
//!
//! [[target]]
//! name = "colibri"
//! flags = "--target colibri"
//!
//! [[target]]
//! name = "postgres"
//! flags = "--target postgres://postgres@/bench?host=/run/postgresql"
//! before = "pg_ctl -D data -w start"
//! after = "pg_ctl -D data -w stop"
//! ```
//!
//! Each round runs every workload on every target, the targets next to each other in time, so that what changes on the machine
//! changes for all. Each run is a process of its own, so none finds what another left in memory. `before` and `after` are commands
//! of the shell around the runs on a target; in flags, `$PID` of the environment and the like are not expanded, but words may be quoted.
//!
//! A run that fails is told of and left out; the others go on, and the exit code says so in the end.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde::Deserialize;

use crate::kv::args::check_range;
use crate::kv::report::{align, significant};
use crate::kv::{Error, Result};
use crate::oltp::html;
use crate::oltp::result::{RunResult, read};
use crate::{bootstrap, results};

/// Run a described set of workloads on targets, interleaved
///
/// The description is a TOML file with `rounds`, `[[workload]]` (name, command) and `[[target]]` (name, flags, before, after).
#[derive(Debug, Clone, Args)]
pub struct MatrixArgs {
    /// The description
    pub file: PathBuf,
    /// File to write all results to, as a JSON array
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// File to write all results to, as a page with charts
    #[arg(long)]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    #[serde(default = "one")]
    rounds: u32,
    workload: Vec<WorkloadEntry>,
    target: Vec<TargetEntry>,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadEntry {
    name: String,
    /// As behind `colibri bench`.
    command: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetEntry {
    name: String,
    flags: String,
    before: Option<String>,
    after: Option<String>,
}

impl Description {
    fn parse(text: &str, path: &Path) -> Result<Self> {
        let described: Self = toml::from_str(text).map_err(|e| Error::usage(format!("{}: {e}", path.display())))?;
        check_range("rounds", described.rounds.into(), 1, 1_000)?;
        if described.workload.is_empty() || described.target.is_empty() {
            return Err(Error::usage(format!("{} needs a [[workload]] and a [[target]]", path.display())));
        }
        for command in described.workload.iter().map(|workload| &workload.command) {
            words(command)?;
        }
        for flags in described.target.iter().map(|target| &target.flags) {
            words(flags)?;
        }
        Ok(described)
    }

    /// Round, workload and target of all runs, in their order.
    fn runs(&self) -> Vec<(u32, usize, usize)> {
        let mut runs = Vec::new();
        for round in 0..self.rounds {
            for workload in 0..self.workload.len() {
                // Whoever is first finds a machine that has just been doing something else: they take turns.
                let count = self.target.len();
                runs.extend((0..count).map(|at| (round, workload, (at + round as usize) % count)));
            }
        }
        runs
    }
}

/// The words of a line; those in quotes may have blanks.
fn words(line: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    for character in line.chars() {
        match (quote, character) {
            (Some(open), character) if character == open => quote = None,
            (None, '\'' | '"') => (quote, is_word) = (Some(character), true),
            (None, character) if character.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (_, character) => {
                word.push(character);
                is_word = true;
            }
        }
    }
    if quote.is_some() {
        return Err(Error::usage(format!("a quote is not closed: {line}")));
    }
    if is_word {
        words.push(word);
    }
    Ok(words)
}

fn shell(command: Option<&String>) -> Result<()> {
    let Some(command) = command else { return Ok(()) };
    eprintln!("$ {command}");
    let status = Command::new("sh").args(["-c", command]).status();
    let status = status.map_err(|e| Error::io("cannot run", "sh", e))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::usage(format!("{command}: {status}"))),
    }
}

/// One run, as a process of its own. Results that are not valid are results.
fn run_one(workload: &WorkloadEntry, target: &TargetEntry, round: u32) -> Result<Vec<RunResult>> {
    let program = std::env::current_exe().map_err(|e| Error::io("cannot find", "this program", e))?;
    let file = std::env::temp_dir().join(format!("colibri-bench-{}.json", std::process::id()));
    shell(target.before.as_ref())?;
    eprintln!("round {}: {} on {}", round + 1, workload.name, target.name);
    let status = Command::new(program)
        .arg("bench")
        .args(words(&workload.command)?)
        .args(words(&target.flags)?)
        .arg("--json")
        .arg(&file)
        .stdout(std::process::Stdio::null())
        .status();
    shell(target.after.as_ref())?;
    let status = status.map_err(|e| Error::io("cannot run", "this program", e))?;
    let found = read(&file);
    let _may_not_be_there = std::fs::remove_file(&file);
    let mut found = found.map_err(|_| Error::usage(format!("{} on {}: {status}", workload.name, target.name)))?;
    for result in &mut found {
        result.workload_about.clone_from(&workload.name);
        result.target.clone_from(&target.name);
    }
    Ok(found)
}

/// A line for each workload and target, the medians of its rounds.
fn summary(description: &Description, all: &[RunResult]) -> String {
    let heading = ["workload", "target", "rounds", "transactions/s", "p50 ms", "p99 ms", "CPU µs", "of the first", ""];
    let mut cells = vec![heading.map(str::to_owned).to_vec()];
    for workload in &description.workload {
        let mut first = None;
        for target in &description.target {
            let of: Vec<&RunResult> =
                all.iter().filter(|r| r.workload_about == workload.name && r.target == target.name).collect();
            let median = |figure: &dyn Fn(&RunResult) -> Option<f64>| {
                bootstrap::median(&of.iter().filter_map(|result| figure(result)).collect::<Vec<_>>())
            };
            let throughput = median(&|result| {
                Some(result.find_max.as_ref().map_or(result.throughput_per_s, |found| found.throughput_per_s))
            });
            let first = *first.get_or_insert(throughput);
            let shown = |value: f64| if value.is_finite() { significant(value) } else { "–".to_owned() };
            cells.push(vec![
                workload.name.clone(),
                target.name.clone(),
                of.len().to_string(),
                shown(throughput),
                shown(median(&|result| Some(result.scheduled_us.p50 / 1e3))),
                shown(median(&|result| Some(result.scheduled_us.p99 / 1e3))),
                shown(median(&|result| result.cost.cpu_us_per_txn)),
                shown(throughput / first),
                if of.iter().all(|result| result.valid) { String::new() } else { "NOT VALID".to_owned() },
            ]);
        }
    }
    align(&cells, 2)
}

/// Runs what a file describes.
///
/// # Errors
/// If the description is wrong or files cannot be written; [`Error::InvalidResults`] if runs failed or are not valid.
pub fn run(args: &MatrixArgs) -> Result<()> {
    let text = std::fs::read_to_string(&args.file).map_err(|e| Error::io("cannot read", &args.file, e))?;
    let description = Description::parse(&text, &args.file)?;
    results::ensure_writable(args.json.iter().chain(&args.html))?;
    let runs = description.runs();
    let (mut all, mut failed) = (Vec::new(), 0);
    for &(round, workload, target) in &runs {
        match run_one(&description.workload[workload], &description.target[target], round) {
            Ok(found) => all.extend(found),
            Err(error) => {
                failed += 1;
                eprintln!("failed: {error}");
            }
        }
    }
    println!("{}", summary(&description, &all));
    if let Some(path) = &args.json {
        results::write_json(path, &all)?;
    }
    if let Some(path) = &args.html {
        results::write(path, html::page("matrix", &all))?;
    }
    match failed + all.iter().filter(|result| !result.valid).count() {
        0 => Ok(()),
        invalid => Err(Error::InvalidResults { invalid, total: runs.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oltp::result::tests::example;

    const TEXT: &str = "rounds = 2\n[[workload]]\nname = 'A'\ncommand = 'ycsb --workload a'\n[[workload]]\nname = 'T'\n\
                        command = 'tpcc'\n[[target]]\nname = 'x'\nflags = '--target \"a b\"'\n[[target]]\nname = 'y'\nflags = ''\n";

    #[test]
    fn rounds_are_interleaved_and_targets_take_turns_in_being_first() {
        let description = Description::parse(TEXT, Path::new("m.toml")).unwrap();
        let runs = description.runs();
        assert_eq!(runs, [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 1), (1, 0, 0), (1, 1, 1), (1, 1, 0)]);
    }

    #[test]
    fn a_wrong_description_is_refused_before_anything_runs() {
        for (from, to) in [
            ("rounds = 2", "rounds = 0"),
            ("name = 'A'", "nome = 'A'"),
            ("'tpcc'", "'tpcc \"'"),
            ("[[target]]", "[[x]]"),
        ] {
            assert!(Description::parse(&TEXT.replace(from, to), Path::new("m.toml")).is_err(), "{to}");
        }
    }

    #[test]
    fn words_may_be_quoted() {
        assert_eq!(words("a  'b c' d\"e f\"g ''").unwrap(), ["a", "b c", "de fg", ""]);
        assert!(words("'open").is_err());
        assert_eq!(words("  ").unwrap().len(), 0);
    }

    #[test]
    fn the_summary_has_medians_and_ratios() {
        let description = Description::parse(TEXT, Path::new("m.toml")).unwrap();
        let result = |workload: &str, target: &str, throughput: f64| {
            let mut result = example("ycsb", target);
            (result.workload_about, result.throughput_per_s) = (workload.to_owned(), throughput);
            result
        };
        let all = [result("A", "x", 100.0), result("A", "x", 300.0), result("A", "y", 600.0)];
        let text = summary(&description, &all);
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        assert!(line("A         x").contains("200"), "{text}");
        assert!(line("A         y").contains("3.00"), "{text}");
        assert!(line("T         x").contains('–'), "{text}");
    }
}

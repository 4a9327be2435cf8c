//! `colibri bench history DIR`: each figure over commits, and where it changed.
//!
//! Results of one workload, target, machine and set of conditions (`comparable`) make a line;
//! results without a run make none. All files of results in a directory are put in the order of
//! their time. A point is flagged if it is further from the median of the five before it than the
//! threshold, and than three times their own spread (the median deviation from the median): so a
//! figure that always wanders needs more than one that never does.

use std::path::PathBuf;

use clap::Args;

use crate::measure::bootstrap::median;
use crate::measure::format::{align, significant};
use crate::measure::output::{self, say, tell};
use crate::measure::plot::{Panel, Plot, Shape, escaped};
use crate::measure::{Error, Result};
use crate::results::comparable;
use crate::sql::html;
use crate::sql::result::{RunResult, read};

/// Points before one that it is compared with.
const BEFORE: usize = 5;
/// So many deviations from the median are chance.
const SPREADS: f64 = 3.0;

/// Plot figures over commits, and flag changes
///
/// Reads all files of results (--json) in a directory.
#[derive(Debug, Clone, Args)]
pub struct HistoryArgs {
    /// Directory with files of results
    pub dir: PathBuf,
    /// Changes up to this percentage are none
    #[arg(long, default_value_t = 5.0)]
    pub threshold: f64,
    /// File to write the plots to, as a page that needs nothing else
    #[arg(long)]
    pub html: Option<PathBuf>,
}

type Figure = (&'static str, fn(&RunResult) -> Option<f64>);

const FIGURES: [Figure; 4] = [
    ("transactions/s", |result| Some(result.throughput_per_s)),
    ("p99 ms", |result| Some(result.scheduled_us.p99 / 1e3)),
    ("CPU µs/transaction", |result| result.cost.cpu_us_per_txn),
    ("bytes/transaction", |result| result.cost.written_bytes_per_txn),
];

/// Whether each value is a change from those before it: its ratio to their median.
fn changes(values: &[f64], threshold: f64) -> Vec<Option<f64>> {
    let change = |at: usize| {
        let before = &values[at.saturating_sub(BEFORE)..at];
        let middle = median(before);
        let deviations: Vec<f64> = before.iter().map(|value| (value - middle).abs()).collect();
        let off = (values[at] - middle).abs();
        let is_change = before.len() >= 2 && off > threshold * middle && off > SPREADS * median(&deviations);
        is_change.then(|| values[at] / middle)
    };
    (0..values.len()).map(change).collect()
}

/// Comparable results over time: one for each commit, of several the median.
struct Line {
    name: String,
    commits: Vec<String>,
    /// A value for each commit, for each figure.
    figures: Vec<Vec<f64>>,
}

fn lines(mut results: Vec<RunResult>) -> Vec<Line> {
    results.retain(|result| result.valid && result.has_run());
    results.sort_by_key(|result| result.ended_unix_s);
    let name = |result: &RunResult| {
        let (about, target, env) = (&result.workload_about, &result.target, &result.env);
        let conditions = comparable::line(&comparable::conditions(result, false));
        format!("{about}, on {target}: {conditions}; {}, {} CPUs", env.cpu, env.cores)
    };
    let mut names: Vec<String> = Vec::new();
    for result in &results {
        if !names.contains(&name(result)) {
            names.push(name(result));
        }
    }
    let line = |wanted: String| {
        let of: Vec<&RunResult> = results.iter().filter(|result| name(result) == wanted).collect();
        let mut commits: Vec<String> = of.iter().map(|result| result.env.commit.clone()).collect();
        commits.dedup();
        let figures = FIGURES.iter().map(|(_, figure)| {
            let of_commit = |commit: &String| {
                let values: Vec<f64> = of
                    .iter()
                    .filter(|result| result.env.commit == *commit)
                    .filter_map(|result| figure(result))
                    .collect();
                median(&values)
            };
            commits.iter().map(of_commit).collect()
        });
        let figures = figures.collect();
        Line { name: wanted, commits, figures }
    };
    names.into_iter().map(line).collect()
}

/// A table of a line's figures, with what changed.
fn table(line: &Line, threshold: f64) -> String {
    let mut cells = vec![vec!["commit".to_owned()]];
    cells[0].extend(FIGURES.iter().map(|(name, _)| (*name).to_owned()));
    let changes: Vec<Vec<Option<f64>>> = line.figures.iter().map(|values| changes(values, threshold)).collect();
    for (at, commit) in line.commits.iter().enumerate() {
        let mut row = vec![commit.clone()];
        for (values, changes) in line.figures.iter().zip(&changes) {
            let mark = changes[at].map_or(String::new(), |ratio| format!(" CHANGED {:+.1} %", (ratio - 1.0) * 100.0));
            row.push(if values[at].is_finite() { significant(values[at]) + &mark } else { "–".to_owned() });
        }
        cells.push(row);
    }
    align(&cells, 1)
}

fn plot(line: &Line) -> Plot {
    let panel = |(values, (name, _)): (&Vec<f64>, &Figure)| Panel {
        title: (*name).to_owned(),
        shape: Shape::Bars(line.commits.iter().map(|commit| commit.chars().take(10).collect()).collect()),
        logarithmic: false,
        series: vec![(String::new(), values.clone())],
    };
    let shown = line.figures.iter().zip(&FIGURES).filter(|(values, _)| values.iter().any(|value| value.is_finite()));
    Plot { title: "by commit, in the order of time".to_owned(), panels: shown.map(panel).collect() }
}

/// Prints the history of a directory.
///
/// # Errors
/// If the directory or its files cannot be read, or hold no results.
pub fn run(args: &HistoryArgs) -> Result<()> {
    let entries = std::fs::read_dir(&args.dir).map_err(|e| Error::io("cannot read", &args.dir, e))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut results = Vec::new();
    for file in &files {
        match read(file) {
            Ok(found) => results.extend(found),
            // Others keep results of their own kind beside these.
            Err(error) => tell!("skipped: {error}"),
        }
    }
    let lines = lines(results);
    if lines.is_empty() {
        return Err(Error::usage(format!("{} holds no valid results of SQL workloads", args.dir.display())));
    }
    let mut html = html::head("history");
    for line in &lines {
        let table = table(line, args.threshold / 100.0);
        say!("{}\n{table}", line.name);
        html.push_str(&format!("<h2>{}</h2>\n", escaped(&line.name)));
        html.push_str(&plot(line).render());
        html.push_str(&format!("<pre>{}</pre>\n", escaped(&table)));
    }
    html.push_str(html::TAIL);
    match &args.html {
        Some(path) => output::write(path, html),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::result::tests::example;

    #[test]
    fn a_step_is_flagged_once_and_wandering_is_not() {
        let flagged = |values: &[f64]| {
            let changes = changes(values, 0.05);
            (0..values.len()).filter(|&at| changes[at].is_some()).collect::<Vec<_>>()
        };
        assert_eq!(flagged(&[100.0, 101.0, 99.0, 100.0, 80.0, 80.0, 81.0, 80.0, 80.0]), [4, 5, 6]);
        assert_eq!(flagged(&[100.0, 80.0, 120.0, 90.0, 110.0, 85.0, 118.0]), [0_usize; 0]);
        assert_eq!(flagged(&[100.0, 100.0, 104.0, 100.0]), [0_usize; 0], "within the threshold");
        assert_eq!(flagged(&[100.0, 50.0]), [0_usize; 0], "one point is no history");
    }

    #[test]
    fn only_what_is_comparable_is_one_line() {
        let of = |change: fn(&mut RunResult)| {
            let mut other = example("tpcc", "colibri");
            change(&mut other);
            lines(vec![example("tpcc", "colibri"), other])
        };
        assert_eq!(of(|_| {}).len(), 1);
        for (what, change) in comparable::tests::UNLIKE {
            assert_eq!(of(change).len(), 2, "{what}");
        }
        assert_eq!(of(|other| other.env.cores = 64).len(), 2, "another machine");
        assert_eq!(of(|other| other.workload_about = "scale 10".to_owned()).len(), 2);
        let loaded = of(|other| {
            other.kinds.clear();
            other.throughput_per_s = 0.0;
        });
        assert_eq!(
            (loaded.len(), loaded[0].figures[0].as_slice()),
            (1, [2_000.0].as_slice()),
            "a load is no run of nothing"
        );
    }

    #[test]
    fn commits_are_in_the_order_of_time_and_rounds_are_one_point() {
        let result = |commit: &str, time: u64, throughput: f64| {
            let mut result = example("tpcc", "colibri");
            (result.env.commit, result.ended_unix_s, result.throughput_per_s) = (commit.to_owned(), time, throughput);
            result
        };
        let mut results =
            vec![result("c", 30, 70.0), result("a", 10, 100.0), result("b", 20, 100.0), result("b", 21, 102.0)];
        results.push(result("b", 22, 104.0));
        let mut other = example("ycsb", "colibri");
        other.valid = false;
        results.push(other);
        let lines = lines(results);
        assert_eq!(lines.len(), 1, "what is not valid is no history");
        assert_eq!(lines[0].commits, ["a", "b", "c"]);
        assert_eq!(lines[0].figures[0], [100.0, 102.0, 70.0]);
        let table = table(&lines[0], 0.05);
        assert!(table.contains("70.0 CHANGED -30.7 %"), "{table}");
        assert!(plot(&lines[0]).render().contains("transactions/s"));
    }
}

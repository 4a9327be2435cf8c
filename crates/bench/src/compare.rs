//! `colibri bench compare A.json B.json`: what changed from one file of results to another, and whether chance explains it.
//!
//! Results of the same workload, pacing and target are put together; if a file has several, they are rounds, and resampled as such.
//! Of a single run the seconds of its timeline are, in blocks; figures that a run has one of (CPU, bytes) then have no interval, and
//! are judged by the threshold alone.
//!
//! Something is worse if its whole interval is beyond the threshold. Then the exit code is 1, for CI.

use std::path::PathBuf;

use clap::Args;

use crate::bootstrap::{Samples, median, ratio_interval};
use crate::kv::report::{align, significant};
use crate::kv::{Error, Result};
use crate::oltp::result::{RunResult, read};
use crate::results::say;

/// Compare two files of results
///
/// Prints each figure with its change and a 95 % interval by bootstrap. The exit code is 1 if something became worse.
#[derive(Debug, Clone, Args)]
pub struct CompareArgs {
    /// Results before
    pub a: PathBuf,
    /// Results after
    pub b: PathBuf,
    /// Changes up to so many percent are none
    #[arg(long, default_value_t = 5.0)]
    pub threshold: f64,
    /// Compare results of the same workload on different targets
    #[arg(long)]
    pub across_targets: bool,
}

/// A figure of results, and which way is up.
struct Figure {
    name: &'static str,
    more_is_better: bool,
    of_run: fn(&RunResult) -> Option<f64>,
    /// A value for each second, if there is such a thing.
    of_timeline: Option<fn(&RunResult) -> Vec<f64>>,
}

const FIGURES: [Figure; 5] = [
    Figure {
        name: "transactions/s",
        more_is_better: true,
        of_run: |result| Some(result.throughput_per_s),
        of_timeline: Some(|result| result.timeline.iter().map(|point| point.per_s).collect()),
    },
    Figure {
        name: "p50 µs",
        more_is_better: false,
        of_run: |result| Some(result.scheduled_us.p50),
        of_timeline: Some(|result| result.timeline.iter().filter_map(|point| point.p50_us).collect()),
    },
    Figure {
        name: "p99 µs",
        more_is_better: false,
        of_run: |result| Some(result.scheduled_us.p99),
        of_timeline: Some(|result| result.timeline.iter().filter_map(|point| point.p99_us).collect()),
    },
    Figure {
        name: "CPU µs/transaction",
        more_is_better: false,
        of_run: |result| result.cost.cpu_us_per_txn,
        of_timeline: None,
    },
    Figure {
        name: "bytes/transaction",
        more_is_better: false,
        of_run: |result| result.cost.written_bytes_per_txn,
        of_timeline: None,
    },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Same,
    Better,
    Worse,
}

struct Change {
    a: f64,
    b: f64,
    /// Ends of the interval of b/a.
    interval: Option<(f64, f64)>,
    verdict: Verdict,
}

impl Figure {
    fn change(&self, a: &[&RunResult], b: &[&RunResult], threshold: f64) -> Option<Change> {
        let values =
            |results: &[&RunResult]| results.iter().filter_map(|result| (self.of_run)(result)).collect::<Vec<_>>();
        let (of_a, of_b) = (values(a), values(b));
        if of_a.is_empty() || of_b.is_empty() {
            return None;
        }
        let interval = match (a, b, self.of_timeline) {
            ([a], [b], Some(timeline)) => {
                Some(ratio_interval(&Samples::timeline(timeline(a)), &Samples::timeline(timeline(b)), median))
            }
            _ if of_a.len() > 1 && of_b.len() > 1 => {
                Some(ratio_interval(&Samples::runs(of_a.clone()), &Samples::runs(of_b.clone()), median))
            }
            _ => None,
        };
        let (of_a, of_b) = (median(&of_a), median(&of_b));
        let interval = interval.filter(|(low, high)| low.is_finite() && high.is_finite());
        let (low, high) = interval.unwrap_or((of_b / of_a, of_b / of_a));
        let grew = low > 1.0 + threshold;
        let shrank = high < 1.0 / (1.0 + threshold);
        let verdict = match (grew, shrank, self.more_is_better) {
            (true, _, true) | (_, true, false) => Verdict::Better,
            (true, _, false) | (_, true, true) => Verdict::Worse,
            _ => Verdict::Same,
        };
        Some(Change { a: of_a, b: of_b, interval, verdict })
    }
}

/// What has to be the same for two results to be comparable.
fn key(result: &RunResult, with_target: bool) -> String {
    let settings = &result.settings;
    let target = if with_target { result.target.as_str() } else { "any target" };
    let rate = settings.rate_per_s.map_or(String::new(), |rate| format!(" at {rate}/s"));
    let find_max = if result.find_max.is_some() { ", find-max" } else { "" };
    format!("{}, {}{rate}{find_max}, {target}", result.workload_about, settings.pacing)
}

/// The table, and how many figures became worse, of how many.
fn compare(a: &[RunResult], b: &[RunResult], threshold: f64, across_targets: bool) -> (String, usize, usize) {
    let mut keys: Vec<String> = Vec::new();
    for result in a {
        let key = key(result, !across_targets);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let (mut text, mut worse, mut total) = (String::new(), 0, 0);
    for wanted in &keys {
        let of = |results: &'_ [RunResult]| {
            let found = results.iter().enumerate().filter(|(_, result)| key(result, !across_targets) == *wanted);
            found.map(|(index, _)| index).collect::<Vec<_>>()
        };
        let of_a: Vec<&RunResult> = of(a).into_iter().map(|index| &a[index]).collect();
        let of_b: Vec<&RunResult> = of(b).into_iter().map(|index| &b[index]).collect();
        if of_b.is_empty() {
            text.push_str(&format!("{wanted}: only in the first file\n\n"));
            continue;
        }
        let mut cells = vec![["", "before", "after", "change", "95 % interval", ""].map(str::to_owned).to_vec()];
        for figure in &FIGURES {
            let Some(change) = figure.change(&of_a, &of_b, threshold) else { continue };
            let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
            let word = match change.verdict {
                Verdict::Same => "",
                Verdict::Better => "better",
                Verdict::Worse => "WORSE",
            };
            total += 1;
            worse += usize::from(change.verdict == Verdict::Worse);
            cells.push(vec![
                figure.name.to_owned(),
                significant(change.a),
                significant(change.b),
                percent(change.b / change.a),
                change
                    .interval
                    .map_or("one run".to_owned(), |(low, high)| format!("{} to {}", percent(low), percent(high))),
                word.to_owned(),
            ]);
        }
        let invalid = of_a.iter().chain(&of_b).filter(|result| !result.valid).count();
        let doubt = if invalid > 0 { format!(" ({invalid} of these results are not valid)") } else { String::new() };
        text.push_str(&format!("{wanted}{doubt}\n{}\n", align(&cells, 1)));
    }
    (text, worse, total)
}

/// Compares two files.
///
/// # Errors
/// If they cannot be read, or have nothing in common; [`Error::Regression`] if something became worse.
pub fn run(args: &CompareArgs) -> Result<()> {
    if !(0.0..1000.0).contains(&args.threshold) {
        return Err(Error::usage(format!("--threshold is 0 to 1000 percent, not {}", args.threshold)));
    }
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let (text, worse, total) = compare(&a, &b, args.threshold / 100.0, args.across_targets);
    say!("{text}");
    match (worse, total) {
        (_, 0) => Err(Error::usage("the files have no workload in common")),
        (0, _) => Ok(()),
        (worse, total) => Err(Error::Regression { worse, total }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oltp::result::tests::example;
    use crate::random::Random;

    /// Some rounds, around a throughput and a tail.
    fn rounds(throughput: f64, p99: f64, seed: u64) -> Vec<RunResult> {
        let mut random = Random::new(seed, 0);
        let mut round = || {
            let mut result = example("tpcc", "colibri");
            result.throughput_per_s = throughput * (0.98 + 0.04 * random.unit());
            result.scheduled_us.p99 = p99 * (0.95 + 0.1 * random.unit());
            result
        };
        (0..7).map(|_| round()).collect()
    }

    #[test]
    fn what_became_worse_is_told_and_what_did_not_is_not() {
        let before = rounds(1_000.0, 5_000.0, 1);
        let worse = |after: &[RunResult]| compare(&before, after, 0.05, false).1;
        assert_eq!(worse(&rounds(1_000.0, 5_000.0, 2)), 0);
        assert_eq!(worse(&rounds(850.0, 5_000.0, 3)), 1);
        assert_eq!(worse(&rounds(850.0, 9_000.0, 4)), 2);
        assert_eq!(worse(&rounds(2_000.0, 1_000.0, 5)), 0);
        let (text, ..) = compare(&before, &rounds(2_000.0, 1_000.0, 5), 0.05, false);
        assert_eq!(text.matches("better").count(), 2, "{text}");
    }

    #[test]
    fn within_the_threshold_or_within_chance_nothing_is_worse() {
        let before = rounds(1_000.0, 5_000.0, 1);
        assert_eq!(compare(&before, &rounds(930.0, 5_000.0, 2), 0.10, false).1, 0, "7 % of 10 %");
        let mut wild = rounds(1_000.0, 5_000.0, 3);
        for (number, result) in wild.iter_mut().enumerate() {
            result.throughput_per_s = if number % 2 == 0 { 500.0 } else { 1_500.0 };
        }
        assert_eq!(compare(&before, &wild, 0.05, false).1, 0);
    }

    #[test]
    fn single_runs_are_compared_by_their_seconds() {
        let before = [example("tpcc", "colibri")];
        let mut after = before.clone();
        assert_eq!(compare(&before, &after, 0.05, false).1, 0);
        after[0].timeline.iter_mut().for_each(|point| point.per_s /= 2.0);
        after[0].throughput_per_s /= 2.0;
        assert_eq!(compare(&before, &after, 0.05, false).1, 1);
        // A figure that there is one of has no interval.
        after = before.clone();
        after[0].cost.cpu_us_per_txn = Some(300.0);
        let (text, worse, _) = compare(&before, &after, 0.05, false);
        assert!(worse == 1 && text.contains("one run"), "{text}");
    }

    #[test]
    fn only_what_is_the_same_is_compared() {
        let (before, other) = ([example("tpcc", "colibri")], [example("ycsb", "colibri")]);
        assert_eq!(compare(&before, &other, 0.05, false).2, 0);
        let elsewhere = [example("tpcc", "postgres://h/d")];
        assert_eq!(compare(&before, &elsewhere, 0.05, false).2, 0);
        assert_eq!(compare(&before, &elsewhere, 0.05, true).2, 5);
        let mut faster_clients = before.clone();
        faster_clients[0].settings.pacing = "open".to_owned();
        assert_eq!(compare(&before, &faster_clients, 0.05, false).2, 0);
    }
}

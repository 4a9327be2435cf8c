//! `colibri bench compare A.json B.json`: what changed from one file of results to another, and
//! whether chance explains it.
//!
//! Results of the same workload and target are compared if their conditions are the same
//! (`comparable`); otherwise the differences are printed, and they are compared only with a flag.
//! Several results in a file are rounds. Three or more rounds are resampled; an interval of fewer
//! says nothing. A single run is resampled by the seconds of its timeline, in blocks. Figures that
//! a run has only once (CPU, bytes) then have no interval, and are judged by the threshold alone.
//!
//! Something is worse if its whole interval is beyond the threshold. A change is undecided if a
//! figure has no interval (of one second, of one round beside several), or if it has changed by
//! more than its seconds explain: the median latency of seconds does not show a stall of a few of
//! them. Figures that are worse make the exit code 1, for CI; it is 2 if something could not be
//! compared, or a change for the worse is undecided.

use std::path::PathBuf;

use clap::Args;

use crate::measure::bootstrap::{Samples, Statistic, mean, median, ratio_interval};
use crate::measure::format::{align, significant};
use crate::measure::output::say;
use crate::measure::{Error, Result};
use crate::results::comparable::{self, Condition};
use crate::sql::result::{Point, RunResult, read};

/// Compare two files of results
///
/// Prints each figure with its change and a 95 % interval by bootstrap. The exit code is 1 if
/// something became worse, and 2 if something could not be compared: a workload without a valid run
/// after, or with other settings, or a figure that may be worse and nobody can tell.
#[derive(Debug, Clone, Args)]
pub struct CompareArgs {
    /// Results before
    pub a: PathBuf,
    /// Results after
    pub b: PathBuf,
    /// Changes up to this percentage are none
    #[arg(long, default_value_t = 5.0)]
    pub threshold: f64,
    /// Compare results of the same workload on different targets
    #[arg(long)]
    pub across_targets: bool,
    /// Compare results of the same workload with different settings: clients, durability, isolation
    #[arg(long)]
    pub across_settings: bool,
}

/// Rounds of each file from which on they have an interval: of two and two, one in six orders is
/// beyond the other by chance.
const ROUNDS_MIN: usize = 3;

/// A figure of results, and which way is up.
struct Figure {
    name: &'static str,
    more_is_better: bool,
    of_run: fn(&RunResult) -> Option<f64>,
    /// A value for each second in which there is one, and what makes the figure of them, if there
    /// is such a thing.
    of_timeline: Option<(Seconds, Statistic)>,
}

type Seconds = fn(&RunResult) -> Vec<f64>;

/// Latencies of those seconds in which something ended: in the others there were none.
fn latencies(result: &RunResult, of: fn(&Point) -> Option<f64>) -> Vec<f64> {
    result.timeline.iter().filter_map(of).collect()
}

const FIGURES: [Figure; 5] = [
    Figure {
        name: "transactions/s",
        more_is_better: true,
        of_run: |result| Some(result.throughput_per_s),
        of_timeline: Some((|result| result.timeline.iter().map(|point| point.per_s).collect(), mean)),
    },
    Figure {
        name: "p50 µs",
        more_is_better: false,
        of_run: |result| Some(result.scheduled_us.p50),
        of_timeline: Some((|result| latencies(result, |point| point.p50_us), median)),
    },
    Figure {
        name: "p99 µs",
        more_is_better: false,
        of_run: |result| Some(result.scheduled_us.p99),
        of_timeline: Some((|result| latencies(result, |point| point.p99_us), median)),
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
    /// Undecided: beyond the threshold, but without an interval that explains it.
    MaybeBetter,
    MaybeWorse,
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
        let rounds = of_a.len().min(of_b.len());
        let interval = match (a, b, self.of_timeline) {
            ([a], [b], Some((seconds, statistic))) => {
                Some(ratio_interval(&Samples::timeline(seconds(a)), &Samples::timeline(seconds(b)), statistic))
            }
            _ if rounds >= ROUNDS_MIN => {
                Some(ratio_interval(&Samples::runs(of_a.clone()), &Samples::runs(of_b.clone()), median))
            }
            _ => None,
        };
        let (of_a, of_b) = (median(&of_a), median(&of_b));
        let interval = interval.filter(|(low, high)| low.is_finite() && high.is_finite());
        let ratio = of_b / of_a;
        let (grown, shrunk) = (1.0 + threshold, 1.0 / (1.0 + threshold));
        let judged = |grew: bool| if grew == self.more_is_better { Verdict::Better } else { Verdict::Worse };
        let doubtful =
            |grew: bool| if grew == self.more_is_better { Verdict::MaybeBetter } else { Verdict::MaybeWorse };
        let alone = |grew: bool| if self.of_timeline.is_some() { doubtful(grew) } else { judged(grew) };
        let verdict = match interval {
            Some((low, _)) if low > grown => judged(true),
            Some((_, high)) if high < shrunk => judged(false),
            // The figure is of the whole run, and the interval of its seconds.
            Some((_, high)) if ratio > grown.max(high) => doubtful(true),
            Some((low, _)) if ratio < shrunk.min(low) => doubtful(false),
            None if ratio > grown => alone(true),
            None if ratio < shrunk => alone(false),
            _ => Verdict::Same,
        };
        Some(Change { a: of_a, b: of_b, interval, verdict })
    }
}

/// What came of a comparison.
#[derive(Debug, Default)]
struct Compared {
    text: String,
    worse: usize,
    /// Figures that were compared.
    total: usize,
    /// Figures whose change for the worse is undecided.
    maybe_worse: usize,
    /// Workloads that both files have, and that were not compared, as their settings are not the
    /// same.
    unlike: usize,
    /// Workloads of the first file that the second has no run of.
    missing: usize,
    /// Those with runs in the second that are not valid.
    invalid: usize,
}

/// Results of one workload on one target that were asked in the same way.
struct Group<'r> {
    name: String,
    conditions: Vec<Condition>,
    runs: Vec<&'r RunResult>,
}

/// In the order in which they are met. Results without a run are in none.
fn groups(results: &[RunResult], across_targets: bool) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for result in results.iter().filter(|result| result.has_run()) {
        let target = if across_targets { "any target" } else { result.target.as_str() };
        let name = format!("{}, {target}", result.workload_about);
        let conditions = comparable::conditions(result, across_targets);
        match groups.iter_mut().find(|group| group.name == name && group.conditions == conditions) {
            Some(group) => group.runs.push(result),
            None => groups.push(Group { name, conditions, runs: vec![result] }),
        }
    }
    groups
}

fn compare(a: &[RunResult], b: &[RunResult], threshold: f64, args: &CompareArgs) -> Compared {
    let (of_a, of_b) = (groups(a, args.across_targets), groups(b, args.across_targets));
    let mut compared = Compared::default();
    for before in &of_a {
        let named: Vec<&Group<'_>> = of_b.iter().filter(|after| after.name == before.name).collect();
        if let Some(after) = named.iter().find(|after| after.conditions == before.conditions) {
            compared.add(before, after, threshold);
            continue;
        }
        // One that has its like in the first file is not the other side of this one.
        let others = named
            .iter()
            .filter(|after| !of_a.iter().any(|group| group.name == after.name && group.conditions == after.conditions));
        let mut is_alone = true;
        for after in others {
            is_alone = false;
            let differences = comparable::differences(&before.conditions, &after.conditions).join("; ");
            compared.text.push_str(&format!("{}: not the same settings: {differences}\n", before.name));
            match args.across_settings {
                true => compared.add(before, after, threshold),
                false => {
                    compared.unlike += 1;
                    compared.text.push_str("not compared: --across-settings does\n\n");
                }
            }
        }
        if is_alone {
            compared.missing += 1;
            compared.text.push_str(&format!("{}: only in the first file\n\n", before.title()));
        }
    }
    for after in &of_b {
        if !of_a.iter().any(|before| before.name == after.name) {
            compared.text.push_str(&format!("{}: only in the second file\n\n", after.title()));
        }
    }
    for (results, which) in [(a, "first"), (b, "second")] {
        for result in results.iter().filter(|result| !result.has_run()) {
            let about = &result.workload_about;
            compared
                .text
                .push_str(&format!("{about}: the {which} file has a result without a run, of load or check\n\n"));
        }
    }
    compared
}

impl Group<'_> {
    fn title(&self) -> String {
        format!("{}: {}", self.name, comparable::line(&self.conditions))
    }
}

impl Compared {
    /// The table of two groups.
    fn add(&mut self, before: &Group<'_>, after: &Group<'_>, threshold: f64) {
        let mut cells = vec![["", "before", "after", "change", "95 % interval", ""].map(str::to_owned).to_vec()];
        let mut has_unknown = false;
        for figure in &FIGURES {
            let Some(change) = figure.change(&before.runs, &after.runs, threshold) else { continue };
            let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
            let word = match change.verdict {
                Verdict::Same => "",
                Verdict::Better => "better",
                Verdict::Worse => "WORSE",
                Verdict::MaybeBetter | Verdict::MaybeWorse => "cannot tell",
            };
            self.total += 1;
            self.worse += usize::from(change.verdict == Verdict::Worse);
            self.maybe_worse += usize::from(change.verdict == Verdict::MaybeWorse);
            has_unknown |= matches!(change.verdict, Verdict::MaybeBetter | Verdict::MaybeWorse);
            let alone = match (before.runs.len().max(after.runs.len()), figure.of_timeline.is_some()) {
                (1, true) => "one point",
                (1, false) => "one run",
                _ => "too few rounds",
            };
            cells.push(vec![
                figure.name.to_owned(),
                significant(change.a),
                significant(change.b),
                match change.a {
                    same if same == change.b => percent(1.0),
                    0.0 => "from 0".to_owned(),
                    a => percent(change.b / a),
                },
                change
                    .interval
                    .map_or(alone.to_owned(), |(low, high)| format!("{} to {}", percent(low), percent(high))),
                word.to_owned(),
            ]);
        }
        self.invalid += usize::from(after.runs.iter().any(|result| !result.valid));
        let all = || before.runs.iter().chain(&after.runs);
        let invalid = all().filter(|result| !result.valid).count();
        let doubt = if invalid > 0 { format!(" ({invalid} of these results are not valid)") } else { String::new() };
        self.text.push_str(&format!("{}{doubt}\n{}", before.title(), align(&cells, 1)));
        if has_unknown {
            self.text.push_str("cannot tell: the interval does not explain the change, or there is none: run for longer, or three rounds\n");
        }
        let of = |group: &Group<'_>| comparable::circumstances(group.runs[0]);
        let circumstances = comparable::differences(&of(before), &of(after));
        if !circumstances.is_empty() {
            self.text.push_str(&format!("differs as well: {}\n", circumstances.join("; ")));
        }
        self.text.push('\n');
    }
}

impl Compared {
    /// What a program has to know of it.
    fn outcome(&self) -> Result<()> {
        let Self { worse, total, unlike, .. } = *self;
        if worse > 0 {
            return Err(Error::Regression { worse, total });
        }
        if total == 0 && unlike == 0 {
            return Err(Error::usage("the files have no workload in common"));
        }
        let counted = [
            (
                unlike,
                "workloads that were not compared, as their settings are not the same (--across-settings compares them)",
            ),
            (self.missing, "workloads of the first file that the second has no run of"),
            (self.invalid, "workloads with results in the second file that are not valid"),
            (self.maybe_worse, "figures that may be worse, of which nobody can tell"),
        ];
        let told: Vec<String> =
            counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{what}: {count}")).collect();
        if told.is_empty() { Ok(()) } else { Err(Error::usage(told.join("; "))) }
    }
}

/// Compares two files.
///
/// # Errors
/// If they cannot be read, have nothing in common or were not run in the same way;
/// [`Error::Regression`] if something became worse.
pub fn run(args: &CompareArgs) -> Result<()> {
    if !(0.0..1000.0).contains(&args.threshold) {
        return Err(Error::usage(format!("--threshold is 0 to 1000 percent, not {}", args.threshold)));
    }
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    for (path, results) in [(&args.a, &a), (&args.b, &b)] {
        if !results.iter().any(RunResult::has_run) {
            return Err(Error::usage(format!(
                "{} holds no run, but what load or check came to: there is nothing to compare",
                path.display()
            )));
        }
    }
    let compared = compare(&a, &b, args.threshold / 100.0, args);
    say!("{}", compared.text.trim_end());
    compared.outcome()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::random::Random;
    use crate::sql::result::tests::example;

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

    fn compared(a: &[RunResult], b: &[RunResult], threshold: f64, flags: &str) -> Compared {
        super::compare(a, b, threshold, &crate::parse(&format!("a b {flags}")).unwrap())
    }

    #[test]
    fn what_became_worse_is_told_and_what_did_not_is_not() {
        let before = rounds(1_000.0, 5_000.0, 1);
        let worse = |after: &[RunResult]| compared(&before, after, 0.05, "").worse;
        assert_eq!(worse(&rounds(1_000.0, 5_000.0, 2)), 0);
        assert_eq!(worse(&rounds(850.0, 5_000.0, 3)), 1);
        assert_eq!(worse(&rounds(850.0, 9_000.0, 4)), 2);
        assert_eq!(worse(&rounds(2_000.0, 1_000.0, 5)), 0);
        let text = compared(&before, &rounds(2_000.0, 1_000.0, 5), 0.05, "").text;
        assert_eq!(text.matches("better").count(), 2, "{text}");
    }

    #[test]
    fn within_the_threshold_or_within_chance_nothing_is_worse() {
        let before = rounds(1_000.0, 5_000.0, 1);
        assert_eq!(compared(&before, &rounds(930.0, 5_000.0, 2), 0.10, "").worse, 0, "7 % of 10 %");
        let mut wild = rounds(1_000.0, 5_000.0, 3);
        for (number, result) in wild.iter_mut().enumerate() {
            result.throughput_per_s = if number % 2 == 0 { 500.0 } else { 1_500.0 };
        }
        assert_eq!(compared(&before, &wild, 0.05, "").worse, 0);
    }

    #[test]
    fn single_runs_are_compared_by_their_seconds() {
        let before = [example("tpcc", "colibri")];
        let mut after = before.clone();
        assert_eq!(compared(&before, &after, 0.05, "").worse, 0);
        after[0].timeline.iter_mut().for_each(|point| point.per_s /= 2.0);
        after[0].throughput_per_s /= 2.0;
        assert_eq!(compared(&before, &after, 0.05, "").worse, 1);
        // A figure that there is one of has no interval.
        after = before.clone();
        after[0].cost.cpu_us_per_txn = Some(300.0);
        let Compared { text, worse, .. } = compared(&before, &after, 0.05, "");
        assert!(worse == 1 && text.contains("one run"), "{text}");
    }

    #[test]
    fn only_what_is_the_same_is_compared() {
        let (before, other) = ([example("tpcc", "colibri")], [example("ycsb", "colibri")]);
        assert_eq!(compared(&before, &other, 0.05, "").total, 0);
        let elsewhere = [example("tpcc", "postgres://h/d")];
        assert_eq!(compared(&before, &elsewhere, 0.05, "").total, 0);
        assert_eq!(compared(&before, &elsewhere, 0.05, "--across-targets").total, 5);
        let mut faster_clients = before.clone();
        faster_clients[0].settings.pacing = "open".to_owned();
        assert_eq!(compared(&before, &faster_clients, 0.05, "").total, 0);
    }

    #[test]
    fn other_settings_are_told_and_not_compared_unless_a_flag_says_so() {
        let before = [example("tpcc", "colibri")];
        for (told, change) in comparable::tests::UNLIKE {
            let mut after = before.clone();
            change(&mut after[0]);
            after[0].throughput_per_s /= 2.0;
            after[0].timeline.iter_mut().for_each(|point| point.per_s /= 2.0);
            let refused = compared(&before, &after, 0.05, "");
            assert_eq!((refused.total, refused.worse, refused.unlike), (0, 0, 1), "{told}");
            assert!(refused.outcome().unwrap_err().to_string().contains("not the same"), "{told}");
            let line = refused.text.lines().find(|line| line.contains("not the same settings")).unwrap();
            assert!(line.contains(told), "{told}: {line}");
            let forced = compared(&before, &after, 0.05, "--across-settings");
            assert_eq!((forced.worse, forced.unlike), (1, 0), "{told}");
            assert!(forced.text.contains("not the same settings"), "{}", forced.text);
        }
        // Two settings in each file: each has its like.
        let mut many = example("tpcc", "colibri");
        many.settings.clients = 32;
        let both = [before[0].clone(), many];
        assert_eq!(compared(&both, &both, 0.05, "").total, 10);
        let mut longer = before.clone();
        longer[0].settings.duration_s = 60.0;
        let told = compared(&before, &longer, 0.05, "");
        assert!(told.total == 5 && told.text.contains("differs as well: measured 10 s / 60 s"), "{}", told.text);
    }

    #[test]
    fn nothing_that_stays_nothing_has_not_changed() {
        let mut before = [example("tpcc", "colibri")];
        before[0].cost.written_bytes_per_txn = Some(0.0);
        let mut after = before.clone();
        let told = compared(&before, &after, 0.05, "");
        assert!(!told.text.contains("NaN"), "{}", told.text);
        after[0].cost.written_bytes_per_txn = Some(10.0);
        let told = compared(&before, &after, 0.05, "");
        assert!(told.text.contains("from 0") && told.worse == 1, "{}", told.text);
    }

    #[test]
    fn one_point_is_no_interval_and_nobody_can_tell() {
        let mut before = [example("tpcc", "colibri")];
        before[0].timeline.truncate(1);
        let mut after = before.clone();
        after[0].timeline[0].per_s *= 0.8;
        after[0].throughput_per_s *= 0.8;
        let told = compared(&before, &after, 0.05, "");
        assert_eq!(told.worse, 0, "{}", told.text);
        assert!(told.text.contains("cannot tell") && told.text.contains("one point"), "{}", told.text);
        assert!(told.outcome().unwrap_err().to_string().contains("may be worse"));
        // If it is anything, it is better.
        let told = compared(&after, &before, 0.05, "");
        assert!(told.text.contains("cannot tell") && told.outcome().is_ok(), "{}", told.text);
    }

    /// Bug: the median of seconds stood for their mean, and for the tail of the whole run.
    /// Consequence: a target that stood still for four seconds of ten seemed unchanged. Fix:
    /// throughput is a mean, and a change of a latency that its seconds do not explain is reported.
    #[test]
    fn seconds_that_stand_still_are_not_the_same() {
        let before = [example("tpcc", "colibri")];
        let mut after = before.clone();
        after[0].throughput_per_s *= 0.6;
        after[0].timeline[3..7].iter_mut().for_each(|point| point.per_s = 0.0);
        let told = compared(&before, &after, 0.05, "");
        assert_eq!(told.worse, 1, "{}", told.text);
        let mut after = before.clone();
        after[0].scheduled_us.p99 *= 3.0;
        after[0].timeline[3].p99_us = Some(2e6);
        let told = compared(&before, &after, 0.05, "");
        assert_eq!((told.worse, told.maybe_worse), (0, 1), "{}", told.text);
        assert!(told.outcome().is_err());
    }

    #[test]
    fn fewer_rounds_than_three_have_no_interval() {
        let (before, after) = (rounds(1_000.0, 5_000.0, 1), rounds(500.0, 5_000.0, 2));
        for (count, worse, maybe_worse) in [(2, 0, 1), (3, 1, 0)] {
            let told = compared(&before[..count], &after[..count], 0.05, "");
            assert_eq!((told.worse, told.maybe_worse), (worse, maybe_worse), "{}", told.text);
        }
        let told = compared(&before, &after[..1], 0.05, "");
        assert!(told.maybe_worse == 1 && told.text.contains("too few rounds"), "{}", told.text);
    }

    #[test]
    fn what_is_gone_or_not_valid_is_not_well() {
        let before = [example("tpcc", "colibri"), example("ycsb", "colibri")];
        let told = |after: &[RunResult]| compared(&before, after, 0.05, "").outcome().map_err(|e| e.to_string());
        assert_eq!(told(&before), Ok(()));
        assert!(told(&before[..1]).unwrap_err().contains("has no run of: 1"));
        let mut after = before.clone();
        after[1].valid = false;
        assert!(told(&after).unwrap_err().contains("not valid: 1"));
        // More than before is well.
        assert!(compared(&before[..1], &before, 0.05, "").outcome().is_ok());
    }

    #[test]
    fn seconds_in_which_nothing_ended_have_no_latency() {
        let before = [example("tpcc", "colibri")];
        let mut after = before.clone();
        // As slow as before, but for six seconds in which nothing ended.
        for point in &mut after[0].timeline[2..8] {
            (point.per_s, point.p50_us, point.p99_us) = (0.0, None, None);
        }
        let told = compared(&before, &after, 0.05, "");
        assert!(!told.text.contains("better"), "{}", told.text);
    }

    #[test]
    fn results_without_a_run_are_not_compared() {
        let before = [example("tpcc", "colibri"), example("ycsb", "colibri")];
        let mut after = before.clone();
        after[1].kinds.clear();
        after[1].throughput_per_s = 0.0;
        let told = compared(&before, &after, 0.05, "");
        assert_eq!((told.total, told.worse), (5, 0));
        assert!(told.text.contains("the second file has a result without a run"), "{}", told.text);
        assert!(told.missing == 1 && told.outcome().is_err(), "{}", told.text);
        assert!(!told.text.contains("inf"), "{}", told.text);
    }
}

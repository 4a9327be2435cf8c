//! The result of a run, as data: what is printed, written, compared and merged.
//!
//! Invariants
//! - The JSON is an array of [`RunResult`], whichever program writes it. Fields are added, never
//!   renamed; a missing one means that the value is not known.
//! - Histograms are exact, so those of several results can be added up.

use std::collections::BTreeMap;
use std::path::Path;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::measure::bootstrap::RUNS_MIN;
use crate::measure::environment::Environment;
use crate::measure::format::whole;
use crate::measure::latency::Latency;
use crate::measure::{Error, Result};
use crate::sql::analysts::Analysts;
use crate::sql::driver::record::{KindRecord, histogram};
use crate::sql::driver::{Measured, Pacing, RunPlan};
use crate::sql::ledger::Cost;
use crate::sql::workload::{Finding, Totals, Verdict, Workload};

/// Version of the fields below.
pub(crate) const SCHEMA: u32 = 1;

/// The beginning of a reason that comes from the audit.
pub(crate) const AUDIT: &str = "audit: ";

/// In a valid run the target may be silent for the first part of the time, and without any
/// connection for the second; or for so long.
const SILENT_PART: f64 = 10.0;
const UNREACHABLE_PART: f64 = 50.0;
const SILENCE_MIN_S: f64 = 1.0;

/// The generator may be late by so much, and by this part of the p99.
const LATE_US: f64 = 5_000.0;
const LATE_PART: f64 = 5.0;
/// A generator may be at work for this part of its threads' time.
const BUSY_MAX: f64 = 0.9;

/// A run, with everything that is known of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunResult {
    pub(crate) schema: u32,
    pub(crate) workload: String,
    pub(crate) workload_about: String,
    pub(crate) target: String,
    pub(crate) target_about: String,
    pub(crate) command: String,
    /// Seconds since 1970, at the end.
    pub(crate) ended_unix_s: u64,
    pub(crate) env: Environment,
    pub(crate) settings: Settings,
    /// Whether the whole run may be believed, and if not, why. Always `false` without a run.
    pub(crate) valid: bool,
    pub(crate) reasons: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) seconds: f64,
    /// Transactions a second that ended well, rolled-back ones included.
    pub(crate) throughput_per_s: f64,
    /// Transactions that were due in the measured time, in open loop.
    #[serde(default)]
    pub(crate) due: Option<u64>,
    /// Seconds in which clients waited and none was answered, without short stops; and those of
    /// them without a connection.
    #[serde(default)]
    pub(crate) silent_s: f64,
    #[serde(default)]
    pub(crate) unreachable_s: f64,
    pub(crate) figures: BTreeMap<String, f64>,
    pub(crate) kinds: Vec<KindResult>,
    /// All kinds together, from when transactions were due.
    pub(crate) scheduled_us: Latency,
    /// How late the generator was.
    pub(crate) lag_us: Latency,
    /// The lag that one transaction in a hundred, and at least three, reached or exceeded: see
    /// [`late_us`].
    #[serde(default)]
    pub(crate) late_us: f64,
    pub(crate) timeline: Vec<Point>,
    pub(crate) failures: BTreeMap<String, FailureResult>,
    pub(crate) tallies: BTreeMap<String, u64>,
    pub(crate) audit: Vec<Finding>,
    pub(crate) checks: Vec<Finding>,
    pub(crate) cost: Cost,
    pub(crate) control: Option<Control>,
    pub(crate) load: Option<LoadResult>,
    pub(crate) find_max: Option<FindMax>,
    /// Who asked long queries meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) analysts: Option<Analysts>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// `closed`, `terminals`, `open`.
    pub(crate) pacing: String,
    pub(crate) rate_per_s: Option<f64>,
    pub(crate) clients: u32,
    pub(crate) in_flight: u32,
    pub(crate) connections: u32,
    pub(crate) threads: usize,
    /// Whether the generator's threads interrupt no server when they wake.
    #[serde(default)]
    pub(crate) is_patient: bool,
    pub(crate) isolation: String,
    pub(crate) durability: String,
    /// For an open loop: `random` or `even`. Empty otherwise, and in results from before this
    /// field.
    #[serde(default)]
    pub(crate) arrivals: String,
    #[serde(default)]
    pub(crate) timeout_s: f64,
    /// Conflicts after which a transaction has failed.
    #[serde(default)]
    pub(crate) retries_max: u32,
    pub(crate) warmup_s: f64,
    pub(crate) duration_s: f64,
    pub(crate) seed: u64,
    /// Memory that the database might use, if it was limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory_limit_bytes: Option<u64>,
    /// Which part of the run this is, from 0; `None` if it is the sum of all.
    pub(crate) shard: Option<u32>,
    pub(crate) shards: u32,
}

/// Of one kind of transaction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KindResult {
    pub(crate) name: String,
    pub(crate) committed: u64,
    /// Taken back because the workload wanted it.
    pub(crate) rolled_back: u64,
    pub(crate) failed: u64,
    pub(crate) retries: u64,
    /// Due, and not ended at the end of the measured time. Latencies include them with the time
    /// they had waited by then.
    #[serde(default)]
    pub(crate) unfinished: u64,
    pub(crate) per_s: f64,
    pub(crate) scheduled_us: Latency,
    pub(crate) admitted_us: Latency,
    pub(crate) wire_us: Latency,
    pub(crate) scheduled: Counts,
    pub(crate) admitted: Counts,
    pub(crate) wire: Counts,
}

impl KindResult {
    /// Transactions that ended well.
    pub(crate) fn ended(&self) -> u64 {
        self.committed + self.rolled_back
    }

    /// Whether there is anything to report. Most workloads have kinds that they do not run.
    pub(crate) fn was_run(&self) -> bool {
        self.ended() + self.failed + self.unfinished > 0
    }
}

/// A histogram, as `nanoseconds:count` separated by blanks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Counts(String);

impl Counts {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        use std::fmt::Write as _;
        let mut text = String::new();
        for value in histogram.iter_recorded() {
            let _infallible = write!(text, "{}:{} ", value.value_iterated_to(), value.count_at_value());
        }
        text.truncate(text.trim_end().len());
        Self(text)
    }

    /// The histogram again; `None` if the text is no histogram.
    pub(crate) fn histogram(&self) -> Option<Histogram<u64>> {
        let mut counts = histogram();
        for part in self.0.split_whitespace() {
            let (value, count) = part.split_once(':')?;
            counts.saturating_record_n(value.parse().ok()?, count.parse().ok()?);
        }
        Some(counts)
    }
}

/// A part of the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Where it begins, in seconds.
    pub(crate) at_s: f64,
    pub(crate) per_s: f64,
    pub(crate) failed: u64,
    /// For the transactions that ended in it; `None` if none did.
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FailureResult {
    pub(crate) count: u64,
    /// The first message with this code.
    pub(crate) message: String,
}

/// The same run against a target that does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Control {
    /// The generator's ceiling, in closed loop.
    pub(crate) throughput_per_s: f64,
    pub(crate) cpu_us_per_txn: Option<f64>,
    pub(crate) p99_us: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadResult {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
}

/// The result of a search for the highest load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FindMax {
    pub(crate) knob: String,
    pub(crate) p99_limit_us: f64,
    /// The highest load that held; `None` if even the lowest did not.
    pub(crate) found: Option<f64>,
    /// Transactions per second at it: the median of the final runs, and a 95 % interval, or the
    /// range if there are fewer than six.
    pub(crate) throughput_per_s: f64,
    pub(crate) low_per_s: f64,
    pub(crate) high_per_s: f64,
    /// Of all CPUs of the machine together.
    pub(crate) throughput_per_s_core: f64,
    /// The load, transactions per second, p99 in microseconds, and whether it was a final run.
    pub(crate) probes: Vec<Probe>,
}

impl FindMax {
    /// What the interval is.
    pub(crate) fn interval_name(&self) -> String {
        let is_at_it = |probe: &&Probe| probe.held_out && Some(probe.knob) == self.found;
        match self.probes.iter().filter(is_at_it).count() {
            few if few < RUNS_MIN => format!("{few} runs,"),
            _ => "95 % interval".to_owned(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Probe {
    pub(crate) knob: f64,
    pub(crate) throughput_per_s: f64,
    pub(crate) p99_us: f64,
    pub(crate) held_out: bool,
}

pub(crate) fn kind_result(name: &str, record: &KindRecord, seconds: f64) -> KindResult {
    KindResult {
        name: name.to_owned(),
        committed: record.committed,
        rolled_back: record.rolled_back,
        failed: record.failed,
        retries: record.retries,
        unfinished: record.unfinished,
        per_s: record.ended() as f64 / seconds.max(1e-9),
        scheduled_us: Latency::of(&record.scheduled),
        admitted_us: Latency::of(&record.admitted),
        wire_us: Latency::of(&record.wire),
        scheduled: Counts::of(&record.scheduled),
        admitted: Counts::of(&record.admitted),
        wire: Counts::of(&record.wire),
    }
}

/// What the audit of a workload looks at.
pub(crate) fn totals(measured: &Measured, pacing: Pacing) -> Totals {
    let p90 = |kind: &KindRecord| std::time::Duration::from_nanos(kind.scheduled.value_at_quantile(0.9));
    Totals {
        committed: measured.kinds.iter().map(|kind| kind.committed).collect(),
        rolled_back: measured.kinds.iter().map(|kind| kind.rolled_back).collect(),
        p90: measured.kinds.iter().map(p90).collect(),
        tally: measured.tally,
        has_think_times: pacing == Pacing::Terminals,
    }
}

impl Settings {
    pub(crate) fn of(plan: &RunPlan, connections: u32, isolation: &str, durability: &str) -> Self {
        Self {
            pacing: match plan.pacing {
                Pacing::Closed => "closed",
                Pacing::Terminals => "terminals",
                Pacing::Open(..) => "open",
            }
            .to_owned(),
            rate_per_s: match plan.pacing {
                Pacing::Open(rate, _) => Some(rate),
                _ => None,
            },
            clients: plan.clients,
            in_flight: plan.in_flight,
            connections,
            threads: plan.threads,
            is_patient: false,
            isolation: isolation.to_owned(),
            durability: durability.to_owned(),
            arrivals: match plan.pacing {
                Pacing::Open(_, arrivals) => arrivals.name(),
                _ => "",
            }
            .to_owned(),
            timeout_s: plan.timeout.as_secs_f64(),
            retries_max: plan.retries_max,
            warmup_s: plan.warmup.as_secs_f64(),
            duration_s: plan.duration.as_secs_f64(),
            seed: plan.seed,
            memory_limit_bytes: None,
            shard: Some(plan.shard.0),
            shards: plan.shard.1,
        }
    }
}

/// The lag that one transaction in a hundred had, and at least three: one or two in a short run say
/// nothing about the generator.
pub(crate) fn late_us(lag_ns: &Histogram<u64>) -> f64 {
    let third = 1.0 - 2.0 / lag_ns.len().max(2) as f64;
    if third <= 0.0 { 0.0 } else { lag_ns.value_at_quantile(third.min(0.99)) as f64 / 1e3 }
}

impl RunResult {
    /// Whether there was a run. Results of `load` and `check` alone have none.
    pub(crate) fn has_run(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// Whether a finding is broken: of the run, or of the data if there was no run.
    pub(crate) fn is_bad(&self) -> bool {
        !self.valid && (self.has_run() || !self.reasons.is_empty())
    }

    /// Puts what was measured into a result.
    pub(crate) fn fill(&mut self, workload: &dyn Workload, measured: &Measured, pacing: Pacing) {
        self.seconds = measured.seconds;
        self.throughput_per_s = measured.throughput();
        self.due = measured.due;
        self.silent_s = measured.silence.length.as_secs_f64();
        self.unreachable_s = measured.silence.unreachable.as_secs_f64();
        let named = workload.kinds().iter().zip(&measured.kinds);
        self.kinds = named.map(|(kind, record)| kind_result(kind.name, record, measured.seconds)).collect();
        self.scheduled_us = Latency::of(&measured.scheduled());
        self.lag_us = Latency::of(&measured.lag);
        self.late_us = late_us(&measured.lag);
        let length = measured.interval_seconds;
        self.timeline = measured
            .intervals
            .iter()
            .enumerate()
            .map(|(index, interval)| {
                let at_s = index as f64 * length;
                let lasts = length.min(measured.seconds - at_s).max(1e-9);
                let us = |quantile| (interval.ended > 0).then(|| interval.quantile_ns(quantile) as f64 / 1e3);
                Point {
                    at_s,
                    per_s: interval.ended as f64 / lasts,
                    failed: interval.failed,
                    p50_us: us(0.5),
                    p99_us: us(0.99),
                }
            })
            .filter(|point| point.at_s < measured.seconds)
            .collect();
        self.failures = measured
            .failures
            .iter()
            .map(|(state, (count, message))| (state.clone(), FailureResult { count: *count, message: message.clone() }))
            .collect();
        self.tallies =
            workload.tallies().iter().zip(measured.tally).map(|(&name, count)| (name.to_owned(), count)).collect();
        let totals = totals(measured, pacing);
        self.audit = workload.audit(&totals);
        let figures = workload.figures(&totals, measured.seconds);
        self.figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    }

    /// Decides whether the result may be believed, when everything else is in it.
    pub(crate) fn judge(&mut self) {
        let mut reasons = Vec::new();
        reasons.extend(too_late(self.late_us, self.scheduled_us.p99));
        if self.target != "null" {
            reasons.extend(too_busy(self.cost.generator_cpu_us_per_txn, self.throughput_per_s, self.settings.threads));
        }
        if let Some(control) = &self.control
            && self.target != "null"
            && control.throughput_per_s < 2.0 * self.throughput_per_s
        {
            reasons.push(format!(
                "the generator was the limit: against null it makes {:.0} a second, which is not twice {:.0}",
                control.throughput_per_s, self.throughput_per_s
            ));
        }
        let failed: u64 = self.kinds.iter().map(|kind| kind.failed).sum();
        let ended: u64 = self.kinds.iter().map(|kind| kind.committed + kind.rolled_back).sum();
        if failed * 100 > ended + failed {
            reasons.push(format!("{failed} of {} transactions failed", ended + failed));
        }
        if ended == 0 && self.seconds > 0.0 {
            reasons.push("no transaction ended".to_owned());
        }
        reasons.extend(too_silent(self.silent_s, self.unreachable_s, self.seconds));
        // What ends differs by chance as much as what arrives: four standard deviations of a
        // Poisson process are allowed.
        if let Some(due) = self.due.map(|due| due as f64).filter(|due| (ended as f64) < 0.9 * due - 4.0 * due.sqrt()) {
            reasons.push(format!(
                "overloaded: of {} transactions that were due {} ended, and latencies grow with the length of the run",
                whole(due),
                whole(ended as f64)
            ));
        }
        let broken = |findings: &[Finding]| {
            findings
                .iter()
                .filter(|finding| finding.verdict == Verdict::Broken)
                .map(|finding| finding.what.clone())
                .collect::<Vec<_>>()
        };
        reasons.extend(broken(&self.audit).into_iter().map(|what| format!("{AUDIT}{what}")));
        reasons.extend(broken(&self.checks).into_iter().map(|what| format!("check: {what}")));
        self.reasons.extend(reasons);
        self.valid = self.reasons.is_empty();
    }
}

/// The reason if the generator's timers were late. If its threads were too busy to be in time,
/// [`too_busy`] gives the reason.
pub(crate) fn too_late(late_us: f64, p99_us: f64) -> Option<String> {
    let is_late = late_us > LATE_US && late_us > p99_us / LATE_PART;
    is_late.then(|| format!("the generator was late: by {:.1} ms or more for one in a hundred", late_us / 1e3))
}

/// The reason if the generator's threads had hardly any time left: then the run measured the
/// generator. The control run does not show this where there are sockets, which it does not have.
pub(crate) fn too_busy(cpu_us_per_txn: Option<f64>, throughput_per_s: f64, threads: usize) -> Option<String> {
    let busy = cpu_us_per_txn? * throughput_per_s / 1e6 / threads.max(1) as f64;
    (busy > BUSY_MAX).then(|| {
        let whole = if threads == 1 { "its thread".to_owned() } else { format!("its {threads} threads") };
        format!(
            "the generator was the limit: {whole} worked for {:.0} % of the time (see --threads and --shard)",
            busy * 100.0
        )
    })
}

/// The reason, if no client got an answer for a good part of the time. Short stops of a target are
/// part of its figures. A target that cannot be reached for long makes the figures meaningless, and
/// does so sooner than one that is only busy.
pub(crate) fn too_silent(silent_s: f64, unreachable_s: f64, seconds: f64) -> Option<String> {
    let limit = |part: f64| (seconds / part).max(SILENCE_MIN_S);
    if unreachable_s > limit(UNREACHABLE_PART) {
        return Some(format!("the target was not reachable for {unreachable_s:.1} s of {seconds:.1} s"));
    }
    let is_long = silent_s > limit(SILENT_PART);
    is_long.then(|| format!("the target answered nothing for {silent_s:.1} s of {seconds:.1} s"))
}

/// Reads the results of a file.
///
/// # Errors
/// If it cannot be read, or is not an array of results.
pub(crate) fn read(path: &Path) -> Result<Vec<RunResult>> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io("cannot read", path, e))?;
    let not_results = |e: String| Error::usage(format!("{} holds no results of SQL workloads: {e}", path.display()));
    let results: Vec<RunResult> = serde_json::from_str(&text).map_err(|e| not_results(e.to_string()))?;
    match results.iter().find(|result| result.schema != SCHEMA) {
        Some(other) => Err(not_results(format!("their schema is {}, and not {SCHEMA}", other.schema))),
        None => Ok(results),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sql::workload::tpcc::{Scale, Tpcc};

    /// A result with something of everything, as of a run of ten seconds.
    pub(crate) fn example(workload: &str, target: &str) -> RunResult {
        let (mut record, mut quick) = (KindRecord::new(), KindRecord::new());
        for value in 1..=10_000_u64 {
            record.scheduled.saturating_record(value * 1_000);
            record.admitted.saturating_record(value * 900);
            record.wire.saturating_record(value * 800);
            quick.scheduled.saturating_record(value * 100);
        }
        (record.committed, record.rolled_back, quick.committed) = (9_900, 100, 10_000);
        let mut all = record.scheduled.clone();
        all.add(&quick.scheduled).unwrap();
        let point = |second: usize| Point {
            at_s: second as f64,
            per_s: 2_000.0 + 7.0 * (second % 3) as f64,
            failed: 0,
            p50_us: Some(500.0),
            p99_us: Some(9_000.0 + second as f64),
        };
        let env = Environment {
            commit: "c0ffee".into(),
            cpu: "a CPU".into(),
            cores: 2,
            kernel: "Linux".into(),
            fs: "ext4".into(),
        };
        let settings = Settings {
            pacing: "closed".into(),
            rate_per_s: None,
            clients: 8,
            in_flight: 8,
            connections: 8,
            threads: 2,
            is_patient: true,
            isolation: "default".into(),
            durability: "sync".into(),
            arrivals: String::new(),
            timeout_s: 30.0,
            retries_max: 50,
            warmup_s: 1.0,
            duration_s: 10.0,
            seed: 42,
            memory_limit_bytes: None,
            shard: Some(0),
            shards: 1,
        };
        RunResult {
            schema: SCHEMA,
            workload: workload.to_owned(),
            workload_about: format!("{workload} of a test, small"),
            target: target.to_owned(),
            target_about: "for tests".to_owned(),
            command: "colibri bench".to_owned(),
            ended_unix_s: 1_700_000_000,
            env,
            settings,
            valid: true,
            reasons: Vec::new(),
            notes: vec!["a note".to_owned()],
            seconds: 10.0,
            throughput_per_s: 2_000.0,
            due: None,
            silent_s: 0.0,
            unreachable_s: 0.0,
            figures: BTreeMap::from([("tpmC".to_owned(), 59_400.0)]),
            kinds: vec![kind_result("NewOrder", &record, 10.0), kind_result("Payment", &quick, 10.0)],
            scheduled_us: Latency::of(&all),
            lag_us: Latency::default(),
            late_us: 0.0,
            timeline: (0..10).map(point).collect(),
            failures: BTreeMap::new(),
            tallies: BTreeMap::from([("order lines".to_owned(), 100_000)]),
            audit: vec![Finding::share("orders rolled back", 100, 10_000, 0.01, 0.009, 0.011)],
            checks: vec![Finding::fact("condition 1", "none broken", "none broken", true)],
            cost: Cost {
                of: "process".into(),
                cpu_us_per_txn: Some(200.0),
                generator_cpu_us_per_txn: Some(10.0),
                written_bytes_per_txn: Some(4_000.0),
                row_bytes_per_txn: Some(1_000.0),
                write_amplification: Some(4.0),
                log_flushes_per_txn: Some(0.25),
                pools_us_per_txn: BTreeMap::from([("user".to_owned(), 190.0), ("batch".to_owned(), 0.0)]),
                ..Cost::default()
            },
            control: Some(Control { throughput_per_s: 100_000.0, cpu_us_per_txn: Some(10.0), p99_us: 20.0 }),
            load: None,
            find_max: None,
            analysts: None,
        }
    }

    /// Bug: with some twenty transactions the 99th percentile of the lag is its maximum.
    /// Consequence: a single late wake-up of a busy machine made the result of one warehouse with
    /// think times invalid. Fix: it takes three, however few there are.
    #[test]
    fn a_generator_is_late_if_it_is_so_for_some_and_one_in_a_hundred() {
        let late_ms = |late: u64, of: u64| {
            let mut lag = hdrhistogram::Histogram::<u64>::new(3).unwrap();
            (0..of).for_each(|number| lag.record(if number < late { 8_000_000 } else { 50_000 }).unwrap());
            (late_us(&lag) / 1e3).round()
        };
        assert_eq!(
            [late_ms(2, 23), late_ms(3, 23), late_ms(2, 2), late_ms(3, 3), late_ms(0, 0)],
            [0.0, 8.0, 0.0, 8.0, 0.0]
        );
        assert_eq!([late_ms(2, 299), late_ms(3, 299), late_ms(9, 1_000), late_ms(11, 1_000)], [0.0, 8.0, 0.0, 8.0]);
    }

    #[test]
    fn a_result_is_judged_by_everything_that_can_make_it_worthless() {
        let judged = |change: &dyn Fn(&mut RunResult)| {
            let mut result = example("tpcc", "colibri");
            change(&mut result);
            result.judge();
            (result.valid, result.reasons.join("; "))
        };
        assert_eq!(judged(&|_| {}), (true, String::new()));
        type Case<'a> = (&'a str, &'a dyn Fn(&mut RunResult));
        let cases: [Case<'_>; 11] = [
            ("generator was late", &|result| result.late_us = 8_000.0),
            ("its 2 threads worked for 92 % of the time", &|result| {
                // Of 2,000 a second.
                result.cost.generator_cpu_us_per_txn = Some(920.0);
            }),
            ("generator was the limit", &|result| {
                result.control.as_mut().unwrap().throughput_per_s = 3_000.0;
            }),
            ("transactions failed", &|result| result.kinds[0].failed = 300),
            ("no transaction ended", &|result| result.kinds.clear()),
            ("answered nothing for 3.4 s of 10.0 s", &|result| result.silent_s = 3.4),
            ("not reachable for 1.5 s of 10.0 s", &|result| (result.silent_s, result.unreachable_s) = (1.6, 1.5)),
            ("of 30,000 transactions that were due 20,000 ended", &|result| result.due = Some(30_000)),
            ("audit: orders", &|result| result.audit[0].verdict = Verdict::Broken),
            ("check: condition 1", &|result| result.checks[0].verdict = Verdict::Broken),
            ("it died", &|result| result.reasons.push("it died".to_owned())),
        ];
        for (needle, change) in cases {
            let (valid, reasons) = judged(change);
            assert!(!valid && reasons.contains(needle), "{needle}: {reasons}");
        }
        assert!(judged(&|result| result.kinds[0].failed = 100).0, "one in two hundred is not the end of the world");
        assert!(judged(&|result| result.audit[0].verdict = Verdict::TooFew).0);
        assert!(judged(&|result| (result.silent_s, result.unreachable_s) = (1.0, 1.0)).0);
        assert!(judged(&|result| (result.seconds, result.silent_s) = (60.0, 6.0)).0, "a tenth of the time");
        assert!(judged(&|result| result.due = Some(21_000)).0);
    }

    #[test]
    fn seconds_in_which_nothing_ended_have_no_latency() {
        let tpcc = Tpcc::new(Scale::new(1), 42);
        let from = std::time::Instant::now();
        let seconds = |seconds| from + std::time::Duration::from_secs(seconds);
        let recorder = crate::sql::driver::Recorder::new(&tpcc, from, seconds(3) - from);
        let took = std::time::Duration::from_millis(5);
        let sample = crate::sql::driver::record::Sample {
            kind: 0,
            scheduled: took,
            admitted: took,
            wire: took,
            retries: 0,
            row_bytes: 0,
        };
        let done = || crate::sql::driver::record::Ended::Done { rolled_back: false, tally: Default::default() };
        recorder.record(seconds(1), &sample, done());
        let mut result = example("tpcc", "colibri");
        result.fill(&tpcc, &recorder.finish(seconds(3)), Pacing::Closed);
        let p99: Vec<bool> = result.timeline.iter().map(|point| point.p99_us.is_some()).collect();
        assert_eq!(p99, [false, true, false]);
        let written = serde_json::to_value(&result).unwrap();
        assert!(written["timeline"][0]["p99_us"].is_null() && written["timeline"][0]["per_s"] == 0.0);
    }

    #[test]
    fn results_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.json");
        let written = vec![example("tpcc", "colibri"), example("ycsb", "null")];
        crate::measure::output::write_json(&path, &written).unwrap();
        let found = read(&path).unwrap();
        assert_eq!(serde_json::to_string(&found).unwrap(), serde_json::to_string(&written).unwrap());
        std::fs::write(&path, "[{\"schema\": 1}]").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("holds no results"));
    }

    #[test]
    fn figures_of_tpcc_are_by_the_minute() {
        let tpcc = Tpcc::new(Scale::new(10), 42);
        let totals = Totals {
            committed: vec![990, 0, 0, 0, 0],
            rolled_back: vec![10, 0, 0, 0, 0],
            has_think_times: true,
            ..Totals::default()
        };
        let figures: BTreeMap<_, _> = tpcc.figures(&totals, 600.0).into_iter().collect();
        assert_eq!((figures["tpmC"], figures["tpmC with rolled-back orders"]), (99.0, 100.0));
        assert!((figures["efficiency %"] - 99.0 / 128.6 * 100.0).abs() < 1e-9);
    }

    #[test]
    fn histograms_survive_being_written_down() {
        let mut counts = histogram();
        for value in 1..5_000_u64 {
            counts.saturating_record(value * value * 31);
        }
        let again = Counts::of(&counts).histogram().unwrap();
        assert_eq!(again, counts);
        assert_eq!(Counts::of(&histogram()).histogram().unwrap().len(), 0);
        assert!(Counts("1:2 x".to_owned()).histogram().is_none());
    }
}

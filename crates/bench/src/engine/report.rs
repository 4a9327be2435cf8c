//! Results: what one round measured, the median over rounds, the JSON and the table.
//!
//! Invariants
//! - A row's numbers all come from one round, the one with the median throughput (the lower one of
//!   two); the throughput of every round stands beside them.
//! - A row is valid only if all of its rounds are. Invalid rows are printed like any other, losses
//!   included.
//!
//! Not here: measuring.

use serde::Serialize;

use crate::engine::args::Plan;
use crate::engine::drive::{GET_SAMPLE_EVERY, ITERATE_BLOCK, Outcome, StepOutcome};
use crate::engine::targets::TargetName;
use crate::engine::workload::{Mode, Step, Workload};
use crate::measure::environment::{Environment, doubts};
use crate::measure::format::{align, significant, whole};
use crate::measure::latency::Latency;

/// The part of a rate below which it counts as missed.
const RATE_REACHED: f64 = 0.95;

/// One result, as published.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) bench: &'static str,
    pub(crate) target: String,
    pub(crate) workload: String,
    pub(crate) mode: String,
    /// Threads that read at the same time, whether this row is of readers or of writers.
    pub(crate) readers: u32,
    /// Threads that wrote at the same time.
    pub(crate) writers: u32,
    /// Operations a second that were due from all writers, in open loop; latencies then run from
    /// when they were due. `None` in closed loop.
    pub(crate) rate: Option<f64>,
    #[serde(skip)]
    open_loop: bool,
    /// Whether this row is of readers.
    #[serde(skip)]
    is_read: bool,
    /// Operations that each thread of this workload did; the mean, rounded down, of readers beside
    /// writers, which read until those are done.
    pub(crate) n: u64,
    /// Records that `--prefill` put into the database before.
    pub(crate) prefill: u64,
    /// Memory that the process might use, if it was limited.
    pub(crate) memory_limit_bytes: Option<u64>,
    /// Quads in a transaction of the batch workload.
    pub(crate) batch: u32,
    /// Operations done by all threads of this workload.
    pub(crate) ops: u64,
    /// From the first thread's start to the last one's end.
    pub(crate) seconds: f64,
    /// How long the sync after that took, until the engine was quiet. Not in `seconds`, but in the
    /// cost.
    pub(crate) sync_seconds: f64,
    pub(crate) ops_per_s: f64,
    pub(crate) ops_per_s_min: f64,
    pub(crate) ops_per_s_max: f64,
    /// Throughput of every round, in the order in which they ran.
    pub(crate) rounds: Vec<f64>,
    /// What a sample is depends on the workload.
    pub(crate) latency_us: Latency,
    pub(crate) cost: Cost,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    /// In bytes, as asked for; engines whose page size is fixed say so in the notes.
    pub(crate) page_size: u32,
    /// Of the key order.
    pub(crate) seed: u64,
    pub(crate) valid: bool,
    pub(crate) notes: String,
    pub(crate) env: Environment,
}

/// What an operation cost, and what the whole run held. `None` if the kernel does not tell it, or
/// if it cannot be divided among readers and the writers beside them.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Cost {
    pub(crate) cpu_us_per_op: Option<f64>,
    pub(crate) written_bytes_per_op: Option<f64>,
    pub(crate) read_bytes_per_op: Option<f64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) disk_bytes: Option<u64>,
}

/// What identifies a row: its rounds have this in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RowKey {
    pub(crate) target: TargetName,
    pub(crate) workload: Workload,
    pub(crate) mode: Mode,
    pub(crate) readers: u32,
    pub(crate) writers: u32,
    /// The workload that ran beside this one, if any.
    pub(crate) beside: Option<Workload>,
    /// Whether the writers at the time worked at a fixed rate.
    pub(crate) open_loop: bool,
}

/// What one round measured of one workload.
#[derive(Debug, Clone)]
pub(crate) struct Measurement {
    pub(crate) key: RowKey,
    rate: Option<f64>,
    /// Records that were put into the database before.
    prefill: u64,
    ops: u64,
    seconds: f64,
    sync_seconds: f64,
    latency_us: Latency,
    cost: Cost,
    /// Why the round does not count, if it does not.
    pub(crate) problems: Vec<String>,
    /// What the engine says about how it was set up.
    engine_notes: String,
}

impl RowKey {
    /// The rows that a step gives: one for the readers, one for the writers.
    pub(crate) fn of_step(target: TargetName, mode: Mode, step: &Step) -> impl Iterator<Item = Self> {
        let Step { read, readers, write, writers, rate } = *step;
        let open_loop = rate.is_some();
        let row = move |workload, beside| Self { target, workload, mode, readers, writers, beside, open_loop };
        write.map(|write| row(write, read)).into_iter().chain(read.map(|read| row(read, write)))
    }
}

impl Measurement {
    pub(crate) fn new(
        key: RowKey,
        rate: Option<f64>,
        outcome: &Outcome,
        step: &StepOutcome,
        disk_bytes: Option<u64>,
        engine_notes: &str,
    ) -> Self {
        let per_op = |amount: u64| amount as f64 / outcome.ops.max(1) as f64;
        // Readers beside writers are charged for what their threads used, writers for the rest.
        let (cpu_ns, has_rest) = match &step.read {
            Some(readers) if key.beside.is_some() => match key.workload.is_read() {
                true => (readers.cpu_ns, false),
                false => (step.usage.cpu_ns.saturating_sub(readers.cpu_ns), true),
            },
            _ => (step.usage.cpu_ns, true),
        };
        let bytes_per_op = |bytes: Option<u64>| bytes.filter(|_| has_rest).map(per_op);
        let mut problems = Vec::new();
        if outcome.faults > 0 {
            problems.push(format!("{} records missing or wrong", outcome.faults));
        }
        Self {
            key,
            rate,
            prefill: step.prefilled,
            ops: outcome.ops,
            seconds: outcome.elapsed.as_secs_f64(),
            sync_seconds: step.quieting.as_secs_f64(),
            latency_us: Latency::of(&outcome.latency_ns),
            cost: Cost {
                cpu_us_per_op: Some(per_op(cpu_ns) / 1e3),
                written_bytes_per_op: bytes_per_op(step.usage.written_bytes),
                read_bytes_per_op: bytes_per_op(step.usage.read_bytes),
                memory_bytes: step.memory_bytes,
                disk_bytes,
            },
            problems,
            engine_notes: engine_notes.to_owned(),
        }
    }

    /// A round that failed before it could measure anything.
    pub(crate) fn failed(key: RowKey, problem: String) -> Self {
        Self {
            key,
            rate: None,
            prefill: 0,
            ops: 0,
            seconds: 0.0,
            sync_seconds: 0.0,
            latency_us: Latency::default(),
            cost: Cost::default(),
            problems: vec![problem],
            engine_notes: String::new(),
        }
    }

    pub(crate) fn ops_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.ops as f64 / self.seconds } else { 0.0 }
    }

    /// Notes it if the writers did fewer operations than were due.
    fn fell_behind(&self) -> Option<String> {
        let rate = self.rate.filter(|_| !self.key.workload.is_read())?;
        (self.ops_per_s() < RATE_REACHED * rate).then(|| {
            format!(
                "fell behind: {} of {} ops/s, so latencies grow with the length of the run",
                whole(self.ops_per_s()),
                whole(rate)
            )
        })
    }
}

/// Puts the rounds of each row together, in the order in which rows first appeared.
pub(crate) fn rows(measurements: &[Measurement], plan: &Plan, environment: &Environment) -> Vec<Row> {
    let mut keys: Vec<RowKey> = Vec::new();
    for measurement in measurements {
        if !keys.contains(&measurement.key) {
            keys.push(measurement.key);
        }
    }
    keys.iter()
        .map(|key| {
            let rounds: Vec<_> = measurements.iter().filter(|measurement| measurement.key == *key).collect();
            row(&rounds, plan, environment)
        })
        .collect()
}

fn row(rounds: &[&Measurement], plan: &Plan, environment: &Environment) -> Row {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(|a, b| a.ops_per_s().total_cmp(&b.ops_per_s()));
    let median = sorted[(sorted.len() - 1) / 2];
    let key = median.key;
    let valid = rounds.iter().all(|round| round.problems.is_empty());
    Row {
        bench: "kv",
        target: key.target.to_string(),
        workload: key.workload.to_string(),
        mode: key.mode.to_string(),
        readers: key.readers,
        writers: key.writers,
        rate: median.rate,
        open_loop: key.open_loop,
        is_read: key.workload.is_read(),
        n: median.ops / u64::from(if key.workload.is_read() { key.readers } else { key.writers }).max(1),
        prefill: median.prefill,
        memory_limit_bytes: None,
        batch: plan.batch,
        ops: median.ops,
        seconds: median.seconds,
        sync_seconds: median.sync_seconds,
        ops_per_s: median.ops_per_s(),
        ops_per_s_min: sorted[0].ops_per_s(),
        ops_per_s_max: sorted[sorted.len() - 1].ops_per_s(),
        rounds: rounds.iter().map(|round| round.ops_per_s()).collect(),
        latency_us: median.latency_us,
        cost: median.cost,
        key_bytes: plan.key_bytes,
        value_bytes: plan.value_bytes,
        page_size: plan.page_bytes,
        seed: plan.seed,
        valid,
        notes: notes(rounds, plan, environment),
        env: environment.clone(),
    }
}

/// Problems first, then how the engine was set up, then how to read the numbers.
fn notes(rounds: &[&Measurement], plan: &Plan, environment: &Environment) -> String {
    let key = rounds[0].key;
    let mut notes: Vec<String> = Vec::new();
    for (round, measurement) in rounds.iter().enumerate() {
        notes.extend(measurement.problems.iter().map(|problem| format!("INVALID, round {}: {problem}", round + 1)));
    }
    notes.extend(rounds.iter().map(|round| round.engine_notes.clone()).find(|text| !text.is_empty()));
    for (round, measurement) in rounds.iter().enumerate() {
        notes.extend(measurement.fell_behind().map(|text| format!("round {}: {text}", round + 1)));
    }
    notes.extend(key.beside.map(|beside| match key.workload.is_read() {
        true => format!("ran beside {beside}: processor time of the readers alone, bytes are in the row of {beside}"),
        false => format!("ran beside {beside}: processor time without the readers', bytes of the whole process"),
    }));
    notes.extend(key.open_loop.then(|| OPEN_LOOP.to_owned()));
    notes.extend(how_to_read(key.workload, plan));
    notes.extend(doubts(environment).map(str::to_owned));
    notes.join("; ")
}

const OPEN_LOOP: &str = "open loop: writes were due at a fixed rate, their latency runs from then, and the processor \
                         time has the last 50 µs of waiting in it";
const MIXED: &str = "readers beside writers: the writers' cost is all of the process but the readers' processor time";

/// What the numbers of a workload count, where that is not one operation timed by itself.
fn how_to_read(workload: Workload, plan: &Plan) -> Option<String> {
    match workload {
        Workload::Batch => {
            Some(format!("a latency sample is a transaction of {} quads, an operation is a quad", plan.batch))
        }
        Workload::Get => Some(format!("latency of every {GET_SAMPLE_EVERY}th operation")),
        Workload::Iterate => Some(format!("latency over blocks of {ITERATE_BLOCK} entries")),
        Workload::Set | Workload::Crud | Workload::Delete => None,
    }
}

/// The notes of all rows for people: what several rows share is said once.
pub(crate) fn footnotes(measurements: &[Measurement], plan: &Plan, environment: &Environment) -> Vec<String> {
    let problems = measurements.iter().flat_map(|measurement| {
        let RowKey { target, mode, workload, .. } = measurement.key;
        measurement.problems.iter().map(move |problem| format!("INVALID {target} {mode} {workload}: {problem}"))
    });
    let engines = measurements.iter().filter(|measurement| !measurement.engine_notes.is_empty()).map(|measurement| {
        format!("{} {}: {}", measurement.key.target, measurement.key.mode, measurement.engine_notes)
    });
    let workloads = measurements.iter().filter_map(|measurement| {
        let workload = measurement.key.workload;
        how_to_read(workload, plan).map(|text| format!("{workload}: {text}"))
    });
    let behind = measurements.iter().filter_map(|measurement| {
        let RowKey { target, mode, workload, .. } = measurement.key;
        measurement.fell_behind().map(|text| format!("{target} {mode} {workload}: {text}"))
    });
    let any = |of: fn(&RowKey) -> bool| measurements.iter().any(|measurement| of(&measurement.key));
    let mixed = any(|key| key.beside.is_some()).then_some(MIXED);
    let open_loop = any(|key| key.open_loop).then_some(OPEN_LOOP);
    let general = mixed.into_iter().chain(open_loop).chain(doubts(environment)).map(str::to_owned);
    let mut notes = Vec::new();
    for note in problems.chain(behind).chain(engines).chain(workloads).chain(general) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// The table for people: grouped by mode and workload, rivals below each other.
pub(crate) fn table(rows: &[Row], targets: &[TargetName]) -> String {
    let compared = targets.len() > 1;
    let first = targets.first().map(ToString::to_string).unwrap_or_default();
    let ratio_heading = format!("vs {first}");
    let mut headings = vec!["mode", "workload", "target", "R+W", "ops/s"];
    if compared {
        headings.push(&ratio_heading);
    }
    let open_loop = rows.iter().any(|row| row.open_loop);
    if open_loop {
        headings.push("due/s");
    }
    headings.extend(["p50 µs", "p99 µs", "p99.9 µs"]);
    if open_loop {
        headings.push("p99.9/p50");
    }
    headings.extend(["max µs", "cpu µs/op", "written B/op", "memory MB", "disk MB", ""]);

    let mut cells: Vec<Vec<String>> = vec![headings.into_iter().map(str::to_owned).collect()];
    let mut order: Vec<&Row> = rows.iter().collect();
    order.sort_by_key(|row| rows.iter().position(|first| is_rival(first, row)));
    for row in order {
        let reference = rows.iter().find(|other| other.target == first && is_rival(other, row));
        let mut line = vec![
            row.mode.clone(),
            row.workload.clone(),
            row.target.clone(),
            format!("{}+{}", row.readers, row.writers),
        ];
        line.push(whole(row.ops_per_s));
        if compared {
            line.push(match reference {
                // In open loop the rate is given, so it says nothing of the largest throughput.
                Some(reference) if reference.ops_per_s > 0.0 && !row.open_loop => {
                    format!("{:.2}x", row.ops_per_s / reference.ops_per_s)
                }
                _ => "-".to_owned(),
            });
        }
        let or_dash = |value: Option<f64>| value.map_or("-".to_owned(), significant);
        if open_loop {
            line.push(row.rate.map_or("-".to_owned(), whole));
        }
        let Latency { p50, p99, p999, max, .. } = row.latency_us;
        line.extend([p50, p99, p999].map(significant));
        if open_loop {
            let is_due = row.open_loop && p50 > 0.0 && !row.is_read;
            line.push(if is_due { format!("{:.1}x", p999 / p50) } else { "-".to_owned() });
        }
        line.push(significant(max));
        line.extend([row.cost.cpu_us_per_op, row.cost.written_bytes_per_op].map(or_dash));
        let megabytes = |bytes: Option<u64>| or_dash(bytes.map(|bytes| bytes as f64 / 1e6));
        line.extend([row.cost.memory_bytes, row.cost.disk_bytes].map(megabytes));
        line.push(if row.valid { String::new() } else { "INVALID".to_owned() });
        cells.push(line);
    }
    align(&cells, 4)
}

/// Whether two rows differ in nothing but the target.
fn is_rival(a: &Row, b: &Row) -> bool {
    let what = |row: &Row| (row.workload.clone(), row.mode.clone(), row.readers, row.writers, row.open_loop);
    what(a) == what(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(target: TargetName, ops: u64, problem: Option<&str>) -> Measurement {
        let key = RowKey {
            target,
            workload: Workload::Set,
            mode: Mode::Lazy,
            readers: 0,
            writers: 1,
            beside: None,
            open_loop: false,
        };
        let mut measurement = Measurement::failed(key, String::new());
        measurement.problems = problem.map(str::to_owned).into_iter().collect();
        measurement.ops = ops;
        measurement.seconds = 1.0;
        measurement
    }

    fn plan() -> Plan {
        Plan::new(&crate::parse("").unwrap()).unwrap()
    }

    fn environment() -> Environment {
        Environment::observe(std::path::Path::new("."))
    }

    fn report(measurements: &[Measurement]) -> Vec<Row> {
        rows(measurements, &plan(), &environment())
    }

    #[test]
    fn footnotes_say_what_rows_share_once() {
        let mut rounds = [1, 2].map(|ops| measurement(TargetName::Null, ops, None));
        rounds.iter_mut().for_each(|round| round.engine_notes = "no engine".to_owned());
        let notes = footnotes(&rounds, &plan(), &environment());
        let engine = notes.iter().filter(|note| note.contains("no engine"));
        assert_eq!(engine.count(), 1, "{notes:?}");
    }

    #[test]
    fn a_row_is_the_median_round_and_keeps_all_rounds() {
        let rounds = [30, 10, 20].map(|ops| measurement(TargetName::Null, ops, None));
        let rows = report(&rounds);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].ops_per_s, rows[0].ops_per_s_min, rows[0].ops_per_s_max), (20.0, 10.0, 30.0));
        assert_eq!(rows[0].rounds, [30.0, 10.0, 20.0]);
        assert!(rows[0].valid);
    }

    #[test]
    fn one_bad_round_makes_the_row_invalid() {
        let rounds = [
            measurement(TargetName::Null, 1, None),
            measurement(TargetName::Null, 2, Some("3 records missing or wrong")),
        ];
        let rows = report(&rounds);
        assert!(!rows[0].valid);
        assert!(rows[0].notes.contains("round 2: 3 records missing"), "{}", rows[0].notes);
        assert!(table(&rows, &[TargetName::Null]).contains("INVALID"));
    }

    #[test]
    fn rivals_are_compared_with_the_first_target() {
        let rounds = [measurement(TargetName::Colibri, 200, None), measurement(TargetName::Null, 500, None)];
        let table = table(&report(&rounds), &[TargetName::Colibri, TargetName::Null]);
        assert!(table.contains("vs colibri") && table.contains("2.50x"), "{table}");
    }

    #[test]
    fn the_json_has_every_field_of_the_format() {
        let rows = report(&[measurement(TargetName::Colibri, 200, None)]);
        let json = serde_json::to_value(&rows).unwrap();
        let row = &json[0];
        let check = |value: &serde_json::Value, names: &str| {
            for name in names.split_whitespace() {
                assert!(value.get(name).is_some(), "{name} is missing in {value}");
            }
        };
        check(
            row,
            "bench target workload mode readers writers rate n ops prefill batch seconds ops_per_s latency_us cost \
             key_bytes value_bytes page_size seed valid notes env",
        );
        check(&row["latency_us"], "count mean p50 p90 p99 p999 max");
        check(&row["cost"], "cpu_us_per_op written_bytes_per_op read_bytes_per_op memory_bytes disk_bytes");
        check(&row["env"], "commit cpu cores kernel fs");
        assert_eq!(row["bench"], "kv");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(whole(1_234_567.0), "1,234,567");
        assert_eq!(whole(999.0), "999");
        assert_eq!(significant(0.0123), "0.012");
        assert_eq!(significant(12.34), "12.3");
    }
}

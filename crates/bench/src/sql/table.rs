//! A result as text for a terminal.

use crate::measure::format::{align, significant, whole};
use crate::measure::latency::Latency;
use crate::sql::result::RunResult;
use crate::sql::workload::{Finding, Verdict};

fn ms(us: f64) -> String {
    significant(us / 1e3)
}

/// Transactions and their latencies, a kind a line.
fn kinds(result: &RunResult) -> String {
    let heading = [
        "transaction",
        "count",
        "a second",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "admitted p99",
        "wire p99",
        "rolled back",
        "retries",
        "failed",
    ];
    let mut cells = vec![heading.map(str::to_owned).to_vec()];
    let latency = |latency: &Latency| [latency.p50, latency.p90, latency.p99, latency.p999, latency.max].map(ms);
    let ran: Vec<_> = result.kinds.iter().filter(|kind| kind.was_run()).collect();
    for kind in &ran {
        let mut line =
            vec![kind.name.clone(), whole((kind.committed + kind.rolled_back) as f64), significant(kind.per_s)];
        line.extend(latency(&kind.scheduled_us));
        line.extend([ms(kind.admitted_us.p99), ms(kind.wire_us.p99)]);
        line.extend([kind.rolled_back, kind.retries, kind.failed].map(|count| whole(count as f64)));
        cells.push(line);
    }
    if ran.len() > 1 {
        let sum =
            |of: fn(&crate::sql::result::KindResult) -> u64| whole(result.kinds.iter().map(of).sum::<u64>() as f64);
        let mut line =
            vec!["all".to_owned(), sum(|kind| kind.committed + kind.rolled_back), significant(result.throughput_per_s)];
        line.extend(latency(&result.scheduled_us));
        line.extend([String::new(), String::new()]);
        line.extend([sum(|kind| kind.rolled_back), sum(|kind| kind.retries), sum(|kind| kind.failed)]);
        cells.push(line);
    }
    align(&cells, 1)
}

pub(crate) fn findings(title: &str, findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let line = |finding: &Finding| {
        vec![
            format!("  {}", finding.what),
            finding.found.clone(),
            format!("(wanted: {})", finding.wanted),
            finding.verdict.word().to_owned(),
        ]
    };
    format!("{title}\n{}", align(&findings.iter().map(line).collect::<Vec<_>>(), 4))
}

/// One line of a finding, for while checks run.
pub(crate) fn finding(finding: &Finding) -> String {
    match finding.verdict {
        Verdict::Holds => format!("{}: holds", finding.what),
        _ => {
            format!("{}: {} (found {}, wanted {})", finding.what, finding.verdict.word(), finding.found, finding.wanted)
        }
    }
}

fn costs(result: &RunResult) -> Vec<String> {
    let cost = &result.cost;
    let mut parts = Vec::new();
    let mut add = |what: &str, value: Option<f64>, unit: &str| {
        if let Some(value) = value {
            parts.push(format!("{what} {}{unit}", significant(value)));
        }
    };
    add("CPU of the target", cost.cpu_us_per_txn, " µs");
    add("of the generator", cost.generator_cpu_us_per_txn, " µs");
    add("of this process", cost.own_cpu_us_per_txn, " µs");
    add("written", cost.written_bytes_per_txn, " bytes");
    add("of rows", cost.row_bytes_per_txn, " bytes");
    add("write amplification", cost.write_amplification, "");
    add("read from disk", cost.read_bytes_per_txn, " bytes");
    add("flushes of the log", cost.log_flushes_per_txn, "");
    add("context switches", cost.switches_per_txn, "");
    add("energy", cost.joules_per_txn, " J");
    let mut lines = Vec::new();
    if !parts.is_empty() {
        lines.push(format!("cost a transaction ({}): {}", cost.of, parts.join(", ")));
    }
    let mib = |bytes: u64| format!("{} MiB", significant(bytes as f64 / f64::from(1 << 20)));
    let mut parts = Vec::new();
    parts.extend(cost.cpus.map(|cpus| format!("CPUs busy {}", significant(cpus))));
    parts.extend(cost.rss_bytes.map(|bytes| format!("resident {}", mib(bytes))));
    // Resident memory of several processes counts shared pages for each of them; proportional
    // memory divides these pages among them.
    parts.extend(cost.pss_bytes.map(|bytes| format!("with shared memory divided {}", mib(bytes))));
    parts.extend(cost.disk_bytes.map(|bytes| format!("disk {}", mib(bytes))));
    if !parts.is_empty() {
        lines.push(format!("cost in all: {}", parts.join(", ")));
    }
    lines
}

/// The whole result as text.
pub(crate) fn text(result: &RunResult) -> String {
    let mut lines = Vec::new();
    let settings = &result.settings;
    let pacing = match (settings.pacing.as_str(), settings.rate_per_s) {
        (_, Some(rate)) => format!("open loop at {} a second", significant(rate)),
        ("terminals", _) => "terminals with keying and think times".to_owned(),
        _ => "closed loop, no think times".to_owned(),
    };
    lines.push(format!("workload: {}", result.workload_about));
    lines.push(format!("target:   {}: {}", result.target, result.target_about));
    if result.has_run() {
        lines.push(format!(
            "run:      {pacing}; {} clients, at most {} transactions under way, {} connections; isolation {}; {:.1} s after {:.1} s \
             of warm-up; latency in ms, from when a transaction was due",
            settings.clients,
            settings.in_flight,
            settings.connections,
            settings.isolation,
            result.seconds,
            settings.warmup_s
        ));
    }
    if let Some(bytes) = settings.memory_limit_bytes {
        lines.push(format!("memory:   at most {} MiB, pages of files among it", bytes >> 20));
    }
    if let Some(load) = result.load.filter(|load| load.rows > 0) {
        lines.push(format!(
            "load:     {} rows, {} MiB in {:.1} s: {} rows a second",
            whole(load.rows as f64),
            whole(load.bytes as f64 / f64::from(1 << 20)),
            load.seconds,
            whole(load.rows as f64 / load.seconds.max(1e-9))
        ));
    }
    if result.has_run() {
        lines.extend([String::new(), kinds(result)]);
    }
    for (name, value) in &result.figures {
        lines.push(format!("{name}: {}", significant(*value)));
    }
    lines.extend(costs(result));
    if let Some(control) = &result.control {
        lines.push(format!("control: against null {} a second", whole(control.throughput_per_s)));
    }
    if let Some(found) = &result.find_max {
        lines.push(find_max(found));
    }
    for (state, failure) in &result.failures {
        lines.push(format!("failures {state}: {}, the first: {}", failure.count, failure.message));
    }
    if let Some(analysts) = &result.analysts {
        lines.extend([String::new(), analysts.text(result.throughput_per_s, result.scheduled_us.p99)]);
    }
    let tables = [findings("audit:", &result.audit), findings("check:", &result.checks)];
    lines.extend(tables.into_iter().filter(|table| !table.is_empty()));
    lines.extend(result.notes.iter().map(|note| format!("note: {note}")));
    match (result.valid, result.has_run()) {
        (true, _) => lines.push("valid".to_owned()),
        (false, true) => lines.extend(result.reasons.iter().map(|reason| format!("NOT VALID: {reason}"))),
        // Without a run there is no valid or invalid result: findings are about the data.
        (false, false) => lines.extend(result.reasons.iter().map(|reason| format!("WRONG: {reason}"))),
    }
    lines.join("\n")
}

fn find_max(found: &crate::sql::result::FindMax) -> String {
    let limit = format!("p99 of {} ms", ms(found.p99_limit_us));
    match found.found {
        None => format!("find-max: nothing holds a {limit}"),
        Some(knob) => format!(
            "find-max: {} {} holds a {limit}: {} a second ({} {} to {}), {} a CPU",
            found.knob,
            significant(knob),
            significant(found.throughput_per_s),
            found.interval_name(),
            significant(found.low_per_s),
            significant(found.high_per_s),
            significant(found.throughput_per_s_core)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::result::LoadResult;
    use crate::sql::result::tests::example;

    #[test]
    fn what_was_not_done_is_not_told() {
        let ran = text(&example("tpcc", "colibri"));
        assert!(ran.contains("\nrun: ") && ran.ends_with("\nvalid"), "{ran}");
        let mut loaded = example("tpcc", "colibri");
        loaded.kinds.clear();
        loaded.figures.clear();
        loaded.audit.clear();
        loaded.checks.clear();
        (loaded.valid, loaded.control, loaded.cost) = (false, None, crate::sql::ledger::Cost::default());
        loaded.load = Some(LoadResult { rows: 1_000, bytes: 1 << 20, seconds: 1.0 });
        let told = text(&loaded);
        assert!(told.contains("load:     1,000 rows"), "{told}");
        assert!(!told.contains("run: ") && !told.to_lowercase().contains("valid"), "{told}");
        loaded.reasons.push("check: condition 3".to_owned());
        assert!(text(&loaded).ends_with("WRONG: check: condition 3"));
    }
}

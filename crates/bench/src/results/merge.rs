//! `colibri bench merge`: the results of shards, which ran at the same time on several machines, as
//! one.
//!
//! Counts, histograms and timelines add up exactly; percentiles are those of the sum, and it is
//! audited as a whole. The costs of generators add up; a server that all shards have measured
//! counts once.
//!
//! Invariants
//! - A sum consists of all shards of a run, each once. It is not a shard itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::measure::latency::Latency;
use crate::measure::output::{self, say};
use crate::measure::{Error, Result};
use crate::sql::html;
use crate::sql::ledger::Cost;
use crate::sql::result::{AUDIT, Control, Counts, KindResult, LoadResult, RunResult, Settings, read};
use crate::sql::workload::{Basis, Finding, Verdict};

/// Add up the results of shards
///
/// Each file holds the result of one shard of the same run: --shard 0/2 and --shard 1/2.
#[derive(Debug, Clone, Args)]
pub struct MergeArgs {
    /// Results of all shards
    #[arg(required = true, num_args = 2..)]
    pub files: Vec<PathBuf>,
    /// File to write the sum to, as a JSON array
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// File to write the sum to, as a page with charts
    #[arg(long)]
    pub html: Option<PathBuf>,
}

fn added(a: &Counts, b: &Counts) -> Result<(Counts, Latency)> {
    let damaged = || Error::usage("a histogram in the files is damaged");
    let mut sum = a.histogram().ok_or_else(damaged)?;
    sum.add(b.histogram().ok_or_else(damaged)?).map_err(|e| Error::usage(e.to_string()))?;
    Ok((Counts::of(&sum), Latency::of(&sum)))
}

fn add_kind(to: &mut KindResult, from: &KindResult) -> Result<()> {
    to.committed += from.committed;
    to.rolled_back += from.rolled_back;
    to.failed += from.failed;
    to.retries += from.retries;
    to.unfinished += from.unfinished;
    to.per_s += from.per_s;
    (to.scheduled, to.scheduled_us) = added(&to.scheduled, &from.scheduled)?;
    (to.admitted, to.admitted_us) = added(&to.admitted, &from.admitted)?;
    (to.wire, to.wire_us) = added(&to.wire, &from.wire)?;
    Ok(())
}

fn ended(result: &RunResult) -> u64 {
    result.kinds.iter().map(KindResult::ended).sum()
}

fn larger<T: PartialOrd>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

fn add(to: &mut RunResult, from: &RunResult) -> Result<()> {
    for kind in &from.kinds {
        match to.kinds.iter_mut().find(|other| other.name == kind.name) {
            Some(other) => add_kind(other, kind)?,
            None => to.kinds.push(kind.clone()),
        }
    }
    to.throughput_per_s += from.throughput_per_s;
    to.due = to.due.zip(from.due).map(|(to, from)| to + from);
    to.silent_s = to.silent_s.max(from.silent_s);
    to.unreachable_s = to.unreachable_s.max(from.unreachable_s);
    for (at, point) in from.timeline.iter().enumerate() {
        match to.timeline.get_mut(at) {
            Some(sum) => {
                // A percentile of a sum lies between the two; the larger one is the safe one to
                // show.
                sum.per_s += point.per_s;
                sum.failed += point.failed;
                sum.p50_us = larger(sum.p50_us, point.p50_us);
                sum.p99_us = larger(sum.p99_us, point.p99_us);
            }
            None => to.timeline.push(*point),
        }
    }
    for (name, value) in &from.figures {
        *to.figures.entry(name.clone()).or_default() += value;
    }
    for (name, count) in &from.tallies {
        *to.tallies.entry(name.clone()).or_default() += count;
    }
    for (state, failure) in &from.failures {
        match to.failures.get_mut(state) {
            Some(sum) => sum.count += failure.count,
            None => drop(to.failures.insert(state.clone(), failure.clone())),
        }
    }
    to.late_us = to.late_us.max(from.late_us);
    if from.lag_us.p99 > to.lag_us.p99 {
        to.lag_us = from.lag_us;
    }
    to.control = to.control.zip(from.control).map(|(to, from)| Control {
        throughput_per_s: to.throughput_per_s + from.throughput_per_s,
        cpu_us_per_txn: to.cpu_us_per_txn.zip(from.cpu_us_per_txn).map(|(to, from)| larger(to, from)),
        p99_us: larger(to.p99_us, from.p99_us),
    });
    let (settings, others) = (&mut to.settings, &from.settings);
    settings.connections += others.connections;
    settings.in_flight += others.in_flight;
    settings.threads += others.threads;
    to.load = match (to.load, from.load) {
        (Some(to), Some(from)) => Some(LoadResult {
            rows: to.rows + from.rows,
            bytes: to.bytes + from.bytes,
            seconds: larger(to.seconds, from.seconds),
        }),
        (to, from) => to.or(from),
    };
    to.checks.extend(from.checks.iter().cloned());
    to.notes.extend(from.notes.iter().filter(|note| !to.notes.contains(note)).cloned().collect::<Vec<_>>());
    to.ended_unix_s = to.ended_unix_s.max(from.ended_unix_s);
    Ok(())
}

/// Costs of the sum.
///
/// Each shard charges all of a server to its own part of the transactions, and all shards see the
/// same server for nearly the same time: what it used in all is the mean of what they say, over the
/// transactions of all. The same holds for the server's own counts. The costs of generators add up,
/// and so do those of targets in process.
fn costs(shards: &[RunResult]) -> Cost {
    let all: f64 = shards.iter().map(|shard| ended(shard) as f64).sum();
    let each = |sum: f64| (all > 0.0).then(|| sum / all);
    let total = |shard: &RunResult, of: fn(&Cost) -> Option<f64>| Some(of(&shard.cost)? * ended(shard) as f64);
    // Costs that each shard has for itself: unknown if one shard does not know them.
    let own =
        |of: fn(&Cost) -> Option<f64>| shards.iter().map(|shard| total(shard, of)).sum::<Option<f64>>().and_then(each);
    let of_server: Vec<&RunResult> = shards.iter().filter(|shard| shard.cost.of == "server").collect();
    let in_process = shards.iter().all(|shard| shard.cost.of == "process");
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    // Costs of the processes that the accounts belong to.
    let of_accounts = |of: fn(&Cost) -> Option<f64>| match of_server.is_empty() {
        true => own(of),
        false => mean(of_server.iter().filter_map(|shard| total(shard, of)).collect()).and_then(each),
    };
    // What a target reports of itself is the same for every process, unless it is in the process.
    let told = |of: fn(&Cost) -> Option<f64>| match in_process {
        true => own(of),
        false => mean(shards.iter().filter_map(|shard| total(shard, of)).collect()).and_then(each),
    };
    // Bytes: from the kernel, or from the target if its processes cannot be seen.
    let bytes = |of: fn(&Cost) -> Option<f64>| if of_server.is_empty() { told(of) } else { of_accounts(of) };
    let at_once = |of: fn(&Cost) -> Option<f64>| match of_server.is_empty() {
        true => shards.iter().map(|shard| of(&shard.cost)).sum(),
        false => mean(of_server.iter().filter_map(|shard| of(&shard.cost)).collect()),
    };
    let written_bytes_per_txn = bytes(|cost| cost.written_bytes_per_txn);
    let row_bytes_per_txn = own(|cost| cost.row_bytes_per_txn);
    let pools = shards.iter().flat_map(|shard| shard.cost.pools_us_per_txn.iter().map(move |pool| (shard, pool)));
    let mut pools_us_per_txn = BTreeMap::new();
    for (shard, (pool, us)) in pools {
        *pools_us_per_txn.entry(pool.clone()).or_default() += us * ended(shard) as f64 / all.max(1.0);
    }
    Cost {
        of: of_server.first().copied().unwrap_or(&shards[0]).cost.of.clone(),
        cpu_us_per_txn: of_accounts(|cost| cost.cpu_us_per_txn),
        own_cpu_us_per_txn: own(|cost| cost.own_cpu_us_per_txn),
        generator_cpu_us_per_txn: own(|cost| cost.generator_cpu_us_per_txn),
        cpus: at_once(|cost| cost.cpus),
        pools_us_per_txn,
        written_bytes_per_txn,
        write_calls_per_txn: bytes(|cost| cost.write_calls_per_txn),
        read_bytes_per_txn: bytes(|cost| cost.read_bytes_per_txn),
        log_flushes_per_txn: told(|cost| cost.log_flushes_per_txn),
        row_bytes_per_txn,
        write_amplification: written_bytes_per_txn.zip(row_bytes_per_txn).map(|(written, rows)| written / rows),
        switches_per_txn: of_accounts(|cost| cost.switches_per_txn),
        rss_bytes: at_once(|cost| Some(cost.rss_bytes? as f64)).map(|bytes| bytes as u64),
        pss_bytes: at_once(|cost| Some(cost.pss_bytes? as f64)).map(|bytes| bytes as u64),
        // There is one database, so every process reads the same disk space.
        disk_bytes: shards.iter().filter_map(|shard| shard.cost.disk_bytes).max(),
        // It is unknown whether generators that are not on the server's machine share a machine.
        joules_per_txn: if of_server.is_empty() { None } else { of_accounts(|cost| cost.joules_per_txn) },
    }
}

/// The audit of the sum uses the counts of all shards, not the findings of each. Findings without
/// counts are listed by shard.
fn audit(shards: &[RunResult], kinds: &[KindResult]) -> Vec<Finding> {
    let mut whole: Vec<Finding> = Vec::new();
    for shard in shards {
        for finding in &shard.audit {
            let of_shard = || {
                let what = format!("shard {}: {}", shard.settings.shard.unwrap_or_default(), finding.what);
                Finding { what, ..finding.clone() }
            };
            match whole.iter_mut().find(|other| other.what == finding.what) {
                None if finding.basis.is_none() => whole.push(of_shard()),
                None => whole.push(finding.clone()),
                Some(other) if matches!(other.basis, Some(Basis::P90 { .. })) => {}
                Some(other) => match other.added(finding) {
                    Some(sum) => *other = sum,
                    None => whole.push(of_shard()),
                },
            }
        }
    }
    for finding in &mut whole {
        if let Some(Basis::P90 { kind, most_s }) = &finding.basis
            && let Some(counts) = kinds.iter().find(|of| of.name == *kind).and_then(|of| of.scheduled.histogram())
        {
            let p90 = Duration::from_nanos(counts.value_at_quantile(0.9));
            *finding = Finding::p90(kind, p90, Duration::from_secs_f64(*most_s));
        }
    }
    whole
}

/// Whether these are all shards of one run, each once.
fn ensure_whole(shards: &[RunResult]) -> Result<()> {
    let Some((first, others)) = shards.split_first() else { return Err(Error::usage("there is no result")) };
    let count = first.settings.shards;
    let mut seen = Vec::new();
    for shard in shards {
        let number = match shard.settings.shard {
            _ if !shard.has_run() => return Err(Error::usage("one of the results has no run: only runs are added up")),
            _ if shard.find_max.is_some() => {
                return Err(Error::usage("each shard has searched for a highest load of its own: they do not add up"));
            }
            None => return Err(Error::usage("one of the results is a sum of shards already: give the shards alone")),
            Some(_) if shard.settings.shards == 1 => {
                return Err(Error::usage("one of the results is of a whole run, and no shard"));
            }
            Some(number) => number,
        };
        if seen.contains(&number) {
            return Err(Error::usage(format!("shard {number} is there twice")));
        }
        seen.push(number);
    }
    // Settings that each shard has for itself: connections, transactions under way, threads, and
    // the limits of its machine.
    let of_run = |result: &RunResult| Settings {
        connections: 0,
        in_flight: 0,
        threads: 0,
        is_patient: false,
        shard: None,
        ..result.settings.clone()
    };
    let is_of_run = |other: &RunResult| {
        other.workload_about == first.workload_about && other.target == first.target && of_run(other) == of_run(first)
    };
    if !others.iter().all(is_of_run) {
        return Err(Error::usage("these are not shards of one run: workload, target and flags have to be the same"));
    }
    let missing: Vec<String> =
        (0..count).filter(|number| !seen.contains(number)).map(|number| format!("{number}/{count}")).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::usage(format!("shards are missing, and a part is not the run: {}", missing.join(", ")))),
    }
}

/// The sum of all shards of one run.
fn merge(shards: &[RunResult]) -> Result<RunResult> {
    ensure_whole(shards)?;
    let mut sum = shards[0].clone();
    for other in &shards[1..] {
        add(&mut sum, other)?;
    }
    let mut all = Counts::default();
    for kind in &sum.kinds {
        (all, sum.scheduled_us) = added(&all, &kind.scheduled)?;
    }
    sum.settings.shard = None;
    sum.seconds = shards.iter().map(|shard| shard.seconds).fold(0.0, f64::max);
    sum.cost = costs(shards);
    sum.audit = audit(shards, &sum.kinds);
    sum.reasons = reasons(shards, &sum.audit);
    sum.valid = sum.reasons.is_empty();
    Ok(sum)
}

/// Why the sum must not be believed: the faults of each shard, without its audit, which is made
/// anew for the sum.
fn reasons(shards: &[RunResult], audit: &[Finding]) -> Vec<String> {
    let mut reasons = Vec::new();
    for shard in shards {
        let number = shard.settings.shard.unwrap_or_default();
        if !shard.valid && shard.reasons.is_empty() {
            reasons.push(format!("shard {number}: it is not valid"));
        }
        let of_shard = shard.reasons.iter().filter(|reason| !reason.starts_with(AUDIT));
        reasons.extend(of_shard.map(|reason| format!("shard {number}: {reason}")));
    }
    let broken = audit.iter().filter(|finding| finding.verdict == Verdict::Broken);
    reasons.extend(broken.map(|finding| format!("{AUDIT}{}", finding.what)));
    reasons
}

/// Merges files.
///
/// # Errors
/// If they cannot be read, or are not shards of one run.
pub fn run(args: &MergeArgs) -> Result<()> {
    output::ensure_writable(args.json.iter().chain(&args.html))?;
    let mut shards = Vec::new();
    for file in &args.files {
        shards.extend(read(file)?);
    }
    let sum = merge(&shards)?;
    say!("{}", crate::sql::table::text(&sum));
    let sum = [sum];
    if let Some(path) = &args.json {
        output::write_json(path, &sum)?;
    }
    if let Some(path) = &args.html {
        output::write(path, html::page("merged shards", &sum))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::driver::record::histogram;
    use crate::sql::result::tests::example;

    fn shard(number: u32, values: impl Iterator<Item = u64>) -> RunResult {
        let mut result = example("tpcc", "colibri");
        (result.settings.shard, result.settings.shards) = (Some(number), 2);
        let mut counts = histogram();
        values.for_each(|value| counts.saturating_record(value * 1_000));
        result.kinds.truncate(1);
        let kind = &mut result.kinds[0];
        (kind.committed, kind.rolled_back) = (counts.len(), 0);
        (kind.scheduled, kind.scheduled_us) = (Counts::of(&counts), Latency::of(&counts));
        result.scheduled_us = kind.scheduled_us;
        result
    }

    #[test]
    fn percentiles_of_the_sum_are_those_of_all_samples_together() {
        let merged = merge(&[shard(0, 1..=9_900), shard(1, 100_000..=100_099)]).unwrap();
        let whole = shard(0, (1..=9_900).chain(100_000..=100_099));
        assert_eq!(merged.scheduled_us, whole.scheduled_us);
        assert_eq!(merged.kinds[0].scheduled, whole.kinds[0].scheduled);
        assert_eq!(merged.kinds[0].committed, 10_000);
        assert_eq!((merged.throughput_per_s, merged.timeline[0].per_s), (4_000.0, 4_000.0));
        assert_eq!(merged.figures["tpmC"], 2.0 * 59_400.0);
        assert!(merged.valid && merged.notes == ["a note"]);
    }

    #[test]
    fn only_shards_of_one_run_are_added() {
        let first = shard(0, 1..=10);
        assert!(merge(&[first.clone(), first.clone()]).unwrap_err().to_string().contains("twice"));
        let mut other = shard(1, 1..=10);
        other.settings.clients += 1;
        assert!(merge(&[first.clone(), other]).unwrap_err().to_string().contains("not shards of one run"));
        let mut invalid = shard(1, 1..=10);
        invalid.valid = false;
        invalid.reasons.push("late".to_owned());
        let merged = merge(&[first.clone(), invalid]).unwrap();
        assert!(!merged.valid && merged.reasons == ["shard 1: late"]);
        let refused = |shards: &[RunResult]| merge(shards).unwrap_err().to_string();
        assert!(refused(std::slice::from_ref(&first)).contains("missing, and a part is not the run: 1/2"));
        let mut other = shard(1, 1..=10);
        other.settings.durability = "nosync".to_owned();
        assert!(refused(&[first.clone(), other]).contains("not shards of one run"));
        let mut loaded = shard(1, 1..=10);
        loaded.kinds.clear();
        assert!(refused(&[first.clone(), loaded]).contains("no run"));
        let whole = example("tpcc", "colibri");
        assert!(refused(&[whole.clone(), whole]).contains("of a whole run"));
    }

    #[test]
    fn a_sum_is_no_shard_and_is_not_added_again() {
        let shards = [shard(0, 1..=10), shard(1, 1..=20)];
        let sum = merge(&shards).unwrap();
        assert_eq!((sum.settings.shard, sum.settings.shards, sum.settings.in_flight), (None, 2, 16));
        for of in [[sum.clone(), shards[0].clone()], [shards[1].clone(), sum.clone()], [sum.clone(), sum]] {
            assert!(merge(&of).unwrap_err().to_string().contains("a sum of shards already"));
        }
    }

    #[test]
    fn a_server_is_there_once_and_generators_add_up() {
        // The server took 8,000,000 µs and wrote 40,000 KB meanwhile, for 3,000 transactions of one
        // shard and 1,000 of the other.
        let of_server = |number, transactions: u64| {
            let mut result = shard(number, 1..=transactions);
            let each = |total: f64| Some(total / transactions as f64);
            result.cost = Cost {
                of: "server".into(),
                cpu_us_per_txn: each(8e6),
                written_bytes_per_txn: each(4e7),
                read_bytes_per_txn: each(4e5),
                write_calls_per_txn: each(4e3),
                switches_per_txn: each(2e4),
                log_flushes_per_txn: each(1e3),
                joules_per_txn: each(40.0),
                own_cpu_us_per_txn: Some(100.0 * f64::from(number + 1)),
                generator_cpu_us_per_txn: Some(100.0 * f64::from(number + 1)),
                row_bytes_per_txn: Some(1_000.0),
                write_amplification: each(4e4),
                cpus: Some(0.8),
                rss_bytes: Some(1 << 30),
                pss_bytes: Some(1 << 29),
                disk_bytes: Some(1 << 31),
                ..Cost::default()
            };
            result
        };
        let shards = [of_server(0, 3_000), of_server(1, 1_000)];
        let of_both = Cost {
            of: "server".into(),
            cpu_us_per_txn: Some(2_000.0),
            written_bytes_per_txn: Some(10_000.0),
            read_bytes_per_txn: Some(100.0),
            write_calls_per_txn: Some(1.0),
            switches_per_txn: Some(5.0),
            log_flushes_per_txn: Some(0.25),
            joules_per_txn: Some(0.01),
            own_cpu_us_per_txn: Some(125.0),
            generator_cpu_us_per_txn: Some(125.0),
            row_bytes_per_txn: Some(1_000.0),
            write_amplification: Some(10.0),
            cpus: Some(0.8),
            rss_bytes: Some(1 << 30),
            pss_bytes: Some(1 << 29),
            disk_bytes: Some(1 << 31),
            ..Cost::default()
        };
        assert_eq!(merge(&shards).unwrap().cost, of_both);

        // The other generator is on a machine of its own, so it only knows the server's own counts.
        let mut apart = shards.clone();
        let cost = &mut apart[1].cost;
        (cost.of, cost.cpu_us_per_txn, cost.cpus, cost.rss_bytes) = ("generator".into(), None, Some(0.3), Some(7));
        (cost.switches_per_txn, cost.written_bytes_per_txn) = (Some(99.0), None);
        assert_eq!(merge(&apart).unwrap().cost, of_both);

        // The server's processes cannot be seen, so only the generators are measured.
        apart[0].cost = apart[1].cost.clone();
        let cost = merge(&apart).unwrap().cost;
        assert_eq!((cost.of.as_str(), cost.cpu_us_per_txn), ("generator", None));
        assert_eq!((cost.cpus, cost.rss_bytes, cost.switches_per_txn), (Some(0.6), Some(14), Some(99.0)));
    }

    #[test]
    fn the_sum_is_audited_as_a_whole() {
        let with = |number, part, of, p90_s: u64| {
            let mut result = shard(number, (1..=1_000).map(|_| p90_s * 1_000_000));
            let most = Duration::from_secs(5);
            result.audit = vec![
                Finding::share("orders rolled back", part, of, 0.01, 0.009, 0.011),
                Finding::p90("NewOrder", Duration::from_secs(p90_s), most),
            ];
            result.valid = true;
            result.judge();
            result
        };
        let merged = merge(&[with(0, 100, 10_000, 1), with(1, 139, 10_000, 2)]).unwrap();
        assert_eq!(merged.audit.len(), 2, "each band once: {:?}", merged.audit);
        assert!(merged.audit[0].found.contains("1.20 % of 20000"), "{:?}", merged.audit);
        assert!(merged.valid);
        // Each deviation alone may be chance; both together are not.
        let merged = merge(&[with(0, 139, 10_000, 1), with(1, 139, 10_000, 9)]).unwrap();
        assert_eq!(merged.reasons, ["audit: orders rolled back", "audit: p90 of NewOrder"]);
        // A finding of one shard alone does not make the sum invalid.
        let late = with(1, 100, 10_000, 9);
        assert_eq!((late.valid, late.reasons.len()), (false, 1));
        let quick = shard(0, (1..=100_000).map(|_| 1_000));
        let mut quick = RunResult { audit: with(0, 100, 10_000, 1).audit, ..quick };
        quick.settings.shard = Some(0);
        let merged = merge(&[quick, late]).unwrap();
        assert!(merged.valid, "{:?}", merged.reasons);
    }
}

//! `colibri bench merge`: the results of shards, which ran at the same time on several machines, as one.
//!
//! Counts, histograms and timelines add up exactly; percentiles are those of the sum. Costs of processes are averaged by transaction, as
//! each shard has its own generator.

use std::path::PathBuf;

use clap::Args;

use crate::kv::{Error, Result};
use crate::latency::Latency;
use crate::oltp::html;
use crate::oltp::result::{Counts, KindResult, RunResult, read};
use crate::results;
use crate::results::say;

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

/// Averages by transactions, where both are known.
fn averaged(to: Option<f64>, to_count: f64, from: Option<f64>, from_count: f64) -> Option<f64> {
    Some((to? * to_count + from? * from_count) / (to_count + from_count).max(1.0))
}

fn ended(result: &RunResult) -> f64 {
    result.kinds.iter().map(|kind| kind.committed + kind.rolled_back).sum::<u64>() as f64
}

fn add(to: &mut RunResult, from: &RunResult) -> Result<()> {
    let (to_count, from_count) = (ended(to), ended(from));
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
                // A percentile of a sum lies between the two; the larger one is the safe one to show.
                sum.per_s += point.per_s;
                sum.failed += point.failed;
                let larger = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a.max(b)).or(a).or(b);
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
    if from.lag_us.p99 > to.lag_us.p99 {
        to.lag_us = from.lag_us;
    }
    let cost = &mut to.cost;
    let average = |to: Option<f64>, from: Option<f64>| averaged(to, to_count, from, from_count);
    cost.own_cpu_us_per_txn = average(cost.own_cpu_us_per_txn, from.cost.own_cpu_us_per_txn);
    cost.generator_cpu_us_per_txn = average(cost.generator_cpu_us_per_txn, from.cost.generator_cpu_us_per_txn);
    if let (Some(to), Some(from)) = (&mut to.control, from.control) {
        to.throughput_per_s += from.throughput_per_s;
    }
    to.settings.connections += from.settings.connections;
    to.reasons.extend(from.reasons.iter().map(|reason| format!("shard {}: {reason}", from.settings.shard)));
    to.audit.extend(from.audit.iter().cloned());
    to.checks.extend(from.checks.iter().cloned());
    to.notes.extend(from.notes.iter().filter(|note| !to.notes.contains(note)).cloned().collect::<Vec<_>>());
    to.ended_unix_s = to.ended_unix_s.max(from.ended_unix_s);
    Ok(())
}

/// The sum of all shards of one run.
fn merge(shards: &[RunResult]) -> Result<RunResult> {
    let Some((first, others)) = shards.split_first() else { return Err(Error::usage("there is no result")) };
    let mut seen = vec![first.settings.shard];
    for other in others {
        let same = other.workload_about == first.workload_about
            && other.target == first.target
            && other.settings.pacing == first.settings.pacing
            && other.settings.rate_per_s == first.settings.rate_per_s
            && other.settings.clients == first.settings.clients
            && other.settings.shards == first.settings.shards;
        if !same {
            return Err(Error::usage(
                "these are not shards of one run: workload, target and flags have to be the same",
            ));
        }
        if seen.contains(&other.settings.shard) {
            return Err(Error::usage(format!("shard {} is there twice", other.settings.shard)));
        }
        seen.push(other.settings.shard);
    }
    let mut sum = first.clone();
    sum.reasons = first.reasons.iter().map(|reason| format!("shard {}: {reason}", first.settings.shard)).collect();
    for other in others {
        add(&mut sum, other)?;
    }
    let mut all = Counts::default();
    for kind in &sum.kinds {
        (all, sum.scheduled_us) = added(&all, &kind.scheduled)?;
    }
    if seen.len() < first.settings.shards as usize {
        sum.notes.push(format!("{} of {} shards only", seen.len(), first.settings.shards));
    }
    sum.seconds = shards.iter().map(|shard| shard.seconds).fold(0.0, f64::max);
    sum.valid = shards.iter().all(|shard| shard.valid);
    Ok(sum)
}

/// Merges files.
///
/// # Errors
/// If they cannot be read, or are not shards of one run.
pub fn run(args: &MergeArgs) -> Result<()> {
    results::ensure_writable(args.json.iter().chain(&args.html))?;
    let mut shards = Vec::new();
    for file in &args.files {
        shards.extend(read(file)?);
    }
    let sum = merge(&shards)?;
    say!("{}", crate::oltp::table::text(&sum));
    let sum = [sum];
    if let Some(path) = &args.json {
        results::write_json(path, &sum)?;
    }
    if let Some(path) = &args.html {
        results::write(path, html::page("merged shards", &sum))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::record::histogram;
    use crate::oltp::result::tests::example;

    fn shard(number: u32, values: impl Iterator<Item = u64>) -> RunResult {
        let mut result = example("tpcc", "colibri");
        (result.settings.shard, result.settings.shards) = (number, 2);
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
        assert!(merge(&[first]).unwrap().notes.iter().any(|note| note.contains("1 of 2 shards")));
    }
}

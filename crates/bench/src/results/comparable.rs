//! The conditions that two results must share, so that a difference between them comes from the
//! target and not from the load.
//!
//! Not here: how long was measured, and on which machine, which a reader may want to compare.

use crate::measure::format::significant;
use crate::sql::result::RunResult;

/// A condition of a run and its value, as a reader sees them.
pub(crate) type Condition = (&'static str, String);

/// The conditions of a run. Conditions that belong to one target are left out if results of
/// different targets are compared (`across_targets`).
pub(crate) fn conditions(result: &RunResult, across_targets: bool) -> Vec<Condition> {
    let settings = &result.settings;
    let mut conditions = vec![("pacing", settings.pacing.clone())];
    match &result.find_max {
        // A search has no load as a condition: the load is its result.
        Some(found) => {
            let limit = format!("{}, p99 of {} ms", found.knob, significant(found.p99_limit_us / 1e3));
            conditions.push(("highest load", limit));
            conditions.extend(arrivals(result));
        }
        None => {
            conditions.extend(settings.rate_per_s.map(|rate| ("rate", format!("{rate} a second"))));
            conditions.extend(arrivals(result));
            conditions.push(("clients", settings.clients.to_string()));
            conditions.push(("in flight", settings.in_flight.to_string()));
        }
    }
    conditions.push(("isolation", settings.isolation.clone()));
    conditions.extend(settings.memory_limit_bytes.map(|bytes| ("memory", format!("at most {} MiB", bytes >> 20))));
    if !across_targets {
        conditions.push(("durability", settings.durability.clone()));
        conditions.push(("threads", settings.threads.to_string()));
    }
    if let Some(shard) = settings.shard.filter(|_| settings.shards > 1) {
        conditions.push(("shard", format!("{shard} of {}", settings.shards)));
    }
    conditions
}

/// How arrivals of an open loop are spread: random arrivals make longer queues.
fn arrivals(result: &RunResult) -> Option<Condition> {
    let settings = &result.settings;
    let told = if settings.arrivals.is_empty() { "not told" } else { &settings.arrivals };
    (settings.pacing == "open").then(|| ("arrivals", told.to_owned()))
}

/// Conditions that may differ between comparable results, and may explain why these differ.
pub(crate) fn circumstances(result: &RunResult) -> Vec<Condition> {
    let (settings, env) = (&result.settings, &result.env);
    let mut circumstances = vec![
        ("measured", format!("{} s", settings.duration_s)),
        ("warm-up", format!("{} s", settings.warmup_s)),
        ("wake-ups of the generator", if settings.is_patient { "in turn" } else { "at once" }.to_owned()),
        ("machine", format!("{}, {} CPUs", env.cpu, env.cores)),
    ];
    // Older results lack these figures.
    if settings.timeout_s > 0.0 {
        circumstances.push(("timeout", format!("{} s", settings.timeout_s)));
        circumstances.push(("retries", format!("up to {}", settings.retries_max)));
    }
    circumstances
}

/// The differences between two results: `durability sync / nosync`.
pub(crate) fn differences(a: &[Condition], b: &[Condition]) -> Vec<String> {
    let value = |of: &[Condition], name: &str| {
        of.iter().find(|(other, _)| *other == name).map_or("none".to_owned(), |(_, value)| value.clone())
    };
    let mut names: Vec<&str> = a.iter().map(|(name, _)| *name).collect();
    names.extend(b.iter().map(|(name, _)| *name).filter(|name| !a.iter().any(|(other, _)| other == name)));
    let pairs = names.into_iter().map(|name| (name, value(a, name), value(b, name)));
    pairs.filter(|(_, a, b)| a != b).map(|(name, a, b)| format!("{name} {a} / {b}")).collect()
}

/// In one line.
pub(crate) fn line(conditions: &[Condition]) -> String {
    let said = conditions.iter().map(|(name, value)| match *name {
        "pacing" => value.clone(),
        name => format!("{name} {value}"),
    });
    said.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sql::result::FindMax;
    use crate::sql::result::tests::example;

    /// Changes of a result after which it is not comparable any more, each with what is said.
    pub(crate) type Unlike = (&'static str, fn(&mut RunResult));
    pub(crate) const UNLIKE: [Unlike; 9] = [
        ("memory none / at most 512 MiB", |result| result.settings.memory_limit_bytes = Some(512 << 20)),
        ("durability sync / nosync", |result| result.settings.durability = "nosync".to_owned()),
        ("clients 8 / 32", |result| result.settings.clients = 32),
        ("isolation default / serializable", |result| result.settings.isolation = "serializable".to_owned()),
        ("pacing closed / open", |result| result.settings.pacing = "open".to_owned()),
        ("arrivals none / even", |result| {
            (result.settings.pacing, result.settings.arrivals) = ("open".to_owned(), "even".to_owned());
        }),
        ("rate none / 50 a second", |result| result.settings.rate_per_s = Some(50.0)),
        ("shard none / 1 of 2", |result| (result.settings.shard, result.settings.shards) = (Some(1), 2)),
        ("highest load none / rate, p99 of 25.0 ms", |result| {
            result.find_max = Some(FindMax {
                knob: "rate".to_owned(),
                p99_limit_us: 25_000.0,
                found: None,
                throughput_per_s: 0.0,
                low_per_s: 0.0,
                high_per_s: 0.0,
                throughput_per_s_core: 0.0,
                probes: Vec::new(),
            });
        }),
    ];

    #[test]
    fn what_differs_is_told() {
        let a = example("tpcc", "colibri");
        let of = |result: &RunResult| conditions(result, false);
        assert_eq!(differences(&of(&a), &of(&a)).len(), 0);
        for (told, change) in UNLIKE {
            let mut b = a.clone();
            change(&mut b);
            let told_of = differences(&of(&a), &of(&b));
            assert!(told_of.iter().any(|one| one == told), "{told}: {told_of:?}");
        }
        let mut sum = a.clone();
        (sum.settings.shard, sum.settings.shards) = (None, 2);
        assert_eq!(of(&sum), of(&a), "a sum of all shards is a whole run");
        let mut server = a.clone();
        server.settings.durability = "the server's".to_owned();
        assert_eq!(conditions(&server, true), conditions(&a, true));
        assert_eq!(line(&of(&a)), "closed, clients 8, in flight 8, isolation default, durability sync, threads 2");
    }
}

//! `/status.json`: what the dashboard shows.

use std::fs;
use std::time::Duration;

use colibri_replica::Lag;
use colibri_runtime::{Handle, Pool};
use serde_json::{Value, json};

use crate::cluster::OpenDatabase;
use crate::replication::Replication;
use crate::replication::keeper::Keeper;
use crate::replication::wait::{Either, all, block_on, race};
use crate::shared::Shared;

/// The most sessions that are listed.
const SESSIONS_MAX: usize = 200;

/// A database that is open.
pub(super) struct DatabaseStatus {
    pub(super) name: String,
    pub(super) counters: colibri_txn::Counters,
    pub(super) log_flushes: u64,
    pub(super) file_bytes: u64,
    pub(super) disk_bytes: u64,
    pub(super) free_bytes: u64,
    /// Transactions since the last steady point.
    pub(super) unsteady: u64,
    pub(super) readers: usize,
    pub(super) oldest_s: f64,
    pub(super) held_bytes: u64,
    pub(super) temp_files: colibri_sql::TempFileCounts,
}

/// Resident memory.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) private_bytes: u64,
    /// Pages of databases, which the kernel takes back when it needs them.
    pub(super) mapped_bytes: u64,
}

pub(super) fn memory() -> Memory {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let read = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    let bytes = |name: &str| read(name).unwrap_or_default() << 10;
    Memory { private_bytes: bytes("RssAnon"), mapped_bytes: bytes("RssFile") + bytes("RssShmem") }
}

/// The databases that are open. Those that cannot be read are left out: their clients get the
/// error.
pub(super) fn databases(shared: &Shared) -> Vec<DatabaseStatus> {
    let open = shared.directory.open_databases();
    open.into_iter()
        .filter_map(|open| {
            let OpenDatabase { name, database, store, temp_files } = open;
            let stat = database.stat().ok()?;
            let readers = database.readers();
            Some(DatabaseStatus {
                name: name.to_string(),
                counters: store.counters(),
                log_flushes: stat.log_flushes,
                file_bytes: stat.file_bytes,
                disk_bytes: stat.disk_bytes,
                free_bytes: stat.free_pages * u64::from(stat.page_size),
                unsteady: stat.txn.0.saturating_sub(stat.steady_txn.0),
                readers: readers.len(),
                oldest_s: readers.iter().map(|reader| reader.age.as_secs_f64()).fold(0.0, f64::max),
                held_bytes: readers.iter().filter_map(|reader| reader.bytes_held).max().unwrap_or_default(),
                temp_files,
            })
        })
        .collect()
}

/// How long etcd may take to say how far the log goes.
const LAG_MAX: Duration = Duration::from_secs(1);

/// A database of a node of a cluster.
pub(super) struct Copy {
    pub(super) name: String,
    pub(super) standing: &'static str,
    pub(super) leads: bool,
    /// The node that leads it, and the term.
    pub(super) leader: Option<(String, u64)>,
    /// Of the log, up to which it is applied.
    pub(super) position: Option<u64>,
    /// How far it is behind, if it is open and etcd has answered.
    pub(super) lag: Option<Lag>,
    pub(super) under_way: Option<usize>,
}

/// A database as this node has it.
fn copy(node: &Replication, keeper: &Keeper) -> Copy {
    let standing = keeper.replica().map(|replica| replica.standing());
    let leader = node.leader(&keeper.db);
    Copy {
        name: keeper.name.to_string(),
        standing: keeper.standing().name(),
        leads: leader.as_ref().is_some_and(|leader| leader.node.id == node.node.id),
        leader: leader.map(|leader| (leader.node.id.to_string(), leader.epoch.0)),
        position: standing.and_then(|standing| standing.point).map(|point| point.next.0),
        lag: None,
        under_way: standing.map(|standing| standing.commits_under_way),
    }
}

/// The databases of a node of a cluster that it has used. Asks etcd about those that are open and
/// that it does not lead.
pub(super) async fn copies(node: &Replication) -> Vec<Copy> {
    let mut keepers = node.listener().map(|listener| listener.keepers()).unwrap_or_default();
    keepers.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let mut copies: Vec<Copy> = keepers.iter().map(|keeper| copy(node, keeper)).collect();
    let asked = keepers.iter().enumerate().filter_map(|(place, keeper)| Some((place, keeper.replica()?)));
    let (places, replicas): (Vec<usize>, Vec<_>) = asked.unzip();
    let lags = replicas.into_iter().map(|replica| async move { replica.lag().await });
    let asking = all(lags, |place, lag| copies[places[place]].lag = lag.unwrap_or_default());
    _ = race(asking, node.sleep(LAG_MAX)).await;
    copies
}

/// What a node of a cluster knows of one of its databases, in lines of a name and a value.
pub(super) async fn lines_of(node: &Replication, keeper: &Keeper) -> (Option<Lag>, String) {
    let mut copy = copy(node, keeper);
    if let Some(replica) = keeper.replica()
        && let Either::First(Ok(lag)) = race(replica.lag(), node.sleep(LAG_MAX)).await
    {
        copy.lag = lag;
    }
    let mut lines = format!("is {}\n", copy.standing);
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            lines.extend([name, " ", &value, "\n"]);
        }
    };
    line("leader", copy.leader.as_ref().map(|(id, _)| id.clone()));
    line("epoch", copy.leader.map(|(_, epoch)| epoch.to_string()));
    line("agreed", copy.lag.map(|lag| lag.end.0.to_string()));
    line("applied", copy.position.map(|position| position.to_string()));
    line("behind_entries", copy.lag.map(|lag| lag.entries.to_string()));
    line("behind_bytes", copy.lag.map(|lag| lag.bytes.to_string()));
    line("behind_s", copy.lag.and_then(|lag| Some(format!("{:.3}", lag.age?.as_secs_f64()))));
    (copy.lag, lines)
}

/// What the page shows of the cluster; null without one.
fn cluster(shared: &Shared) -> Value {
    let Some(node) = shared.directory.replication() else { return Value::Null };
    let copies: Vec<Value> = block_on(copies(node))
        .iter()
        .map(|copy| {
            json!({
                "name": copy.name,
                "standing": copy.standing,
                "leads": copy.leads,
                "leader": copy.leader.as_ref().map(|(id, _)| id),
                "epoch": copy.leader.as_ref().map(|(_, epoch)| epoch),
                "agreed": copy.lag.map(|lag| lag.end.0),
                "position": copy.position,
                "behind": copy.lag.map(|lag| lag.entries),
                "behind_bytes": copy.lag.map(|lag| lag.bytes),
                "behind_s": copy.lag.and_then(|lag| lag.age).map(|age| age.as_secs_f64()),
                "under_way": copy.under_way,
            })
        })
        .collect();
    json!({
        "name": node.cluster.name(),
        "node": node.node.id.as_str(),
        "members": node.members().iter().map(|member| member.id.to_string()).collect::<Vec<_>>(),
        "trouble": node.trouble(),
        "lease_s": node.membership().lease_left().as_secs_f64(),
        "etcd_level": node.level() as u8,
        "databases": copies,
    })
}

fn pools() -> Vec<Value> {
    let counters = Handle::current().counters();
    let pool = |(pool, counters): (&Pool, &colibri_runtime::PoolCounters)| {
        json!({
            "name": pool.name(),
            "tasks": counters.live,
            "queued": counters.queued,
            "polls": counters.polls,
            "cpu_s": counters.cpu.as_secs_f64(),
            "wait_p99_us": counters.activation.quantile(0.99).as_secs_f64() * 1e6,
        })
    };
    Pool::ALL.iter().zip(&counters.pools).map(pool).collect()
}

/// The answer. Only this machine sees what sessions do: texts of queries may hold secrets.
pub(super) fn json(shared: &Shared, is_local: bool) -> String {
    let (latency, sum_us) = shared.counts.latency();
    let ms = |quantile: f64| latency.quantile(quantile).as_secs_f64() * 1e3;
    let now_us = shared.clock.now_us();
    let text = |text: &str| if is_local { text.to_owned() } else { String::new() };
    let infos = shared.registry.infos();
    let sessions: Vec<Value> = infos
        .iter()
        .take(SESSIONS_MAX)
        .map(|session| {
            json!({
                "pid": session.pid,
                "user": session.user.as_str(),
                "database": session.database.as_str(),
                "application": session.application_name.as_str(),
                "state": session.state.name(),
                "waits_for": session.waits_for.map(|waits| waits.event().1),
                "for_s": (now_us - session.state_us) as f64 / 1e6,
                "query": text(&session.query),
            })
        })
        .collect();
    let slow: Vec<Value> = shared
        .counts
        .slowest()
        .iter()
        .map(|slow| {
            json!({
                "ms": slow.took.as_secs_f64() * 1e3,
                "database": slow.database,
                "at": slow.at.to_string(),
                "query": text(&slow.text),
            })
        })
        .collect();
    let databases: Vec<Value> = databases(shared)
        .iter()
        .map(|database| {
            json!({
                "name": database.name,
                "commits": database.counters.commits,
                "batches": database.counters.batches,
                "conflicts": database.counters.conflicts,
                "lock_waits": database.counters.lock_waits,
                "flushes": database.log_flushes,
                "file_bytes": database.file_bytes,
                "disk_bytes": database.disk_bytes,
                "free_bytes": database.free_bytes,
                "unsteady": database.unsteady,
                "readers": database.readers,
                "oldest_reader_s": database.oldest_s,
                "held_bytes": database.held_bytes,
            })
        })
        .collect();
    let memory = memory();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": shared.started.elapsed().as_secs_f64(),
        "connections_max": shared.options.connections_max,
        "sessions_count": infos.len(),
        "sessions": sessions,
        "statements": {
            "count": latency.count(),
            "sum_s": sum_us as f64 / 1e6,
            "p50_ms": ms(0.5),
            "p99_ms": ms(0.99),
            "p999_ms": ms(0.999),
            "errors": shared.counts.errors.get(),
            "conflicts": shared.counts.conflicts.get(),
            "sunk": shared.counts.sunk.get(),
        },
        "slow_limit_ms": shared.options.slow_statement.map(|limit| limit.as_secs_f64() * 1e3),
        "slow": slow,
        "pools": pools(),
        "cluster": cluster(shared),
        "databases": databases,
        "memory": { "private_bytes": memory.private_bytes, "mapped_bytes": memory.mapped_bytes },
    })
    .to_string()
}

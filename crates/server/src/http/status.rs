//! `/status.json`: what the dashboard shows.

use std::fs;

use colibri_runtime::{Handle, Pool};
use serde_json::{Value, json};

use crate::cluster::OpenDatabase;
use crate::replication::Replication;
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

/// A database of a node of a cluster.
pub(super) struct Copy {
    pub(super) name: String,
    pub(super) standing: &'static str,
    pub(super) leads: bool,
    /// Of the log, up to which it is applied.
    pub(super) position: Option<f64>,
    pub(super) under_way: Option<f64>,
}

/// The databases of a node of a cluster that it has used.
pub(super) fn copies(node: &Replication) -> Vec<Copy> {
    let keepers = node.listener().map(|listener| listener.keepers()).unwrap_or_default();
    let mut copies: Vec<Copy> = keepers
        .iter()
        .map(|keeper| {
            let standing = keeper.replica().map(|replica| replica.standing());
            Copy {
                name: keeper.name.to_string(),
                standing: keeper.standing().name(),
                leads: node.has_leadership(&keeper.db),
                position: standing.and_then(|standing| standing.point).map(|point| point.next.0 as f64),
                under_way: standing.map(|standing| standing.commits_under_way as f64),
            }
        })
        .collect();
    copies.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    copies
}

/// What the page shows of the cluster; null without one.
fn cluster(shared: &Shared) -> Value {
    let Some(node) = shared.directory.replication() else { return Value::Null };
    let copies: Vec<Value> = copies(node)
        .iter()
        .map(|copy| {
            json!({
                "name": copy.name,
                "standing": copy.standing,
                "leads": copy.leads,
                "position": copy.position,
                "under_way": copy.under_way,
            })
        })
        .collect();
    json!({
        "name": node.cluster.name(),
        "node": node.node.id.as_str(),
        "members": node.members().iter().map(|member| member.id.to_string()).collect::<Vec<_>>(),
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

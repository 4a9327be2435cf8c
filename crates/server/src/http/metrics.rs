//! `/metrics`: everything that is counted, in Prometheus' text format.

use std::fmt::Write as _;
use std::time::Duration;

use colibri_runtime::Handle;
use colibri_sql::cluster::SessionState;

use crate::replication::Replication;
use crate::replication::wait::block_on;
use crate::shared::Shared;

/// Buckets of statements' latencies: powers of two from 16 µs to 16 s.
const BUCKETS: std::ops::RangeInclusive<u32> = 4..=24;

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        _ = writeln!(self.0, "# HELP colibri_{name} {help}\n# TYPE colibri_{name} {kind}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        _ = writeln!(self.0, "colibri_{name} {value}");
    }

    fn sample(&mut self, name: &str, label: (&str, &str), value: f64) {
        self.sample_of(name, &[label], value);
    }

    fn sample_of(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        // As the format has it: backslashes, quotes and ends of lines.
        let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<_> = labels.iter().map(|(name, text)| format!("{name}=\"{}\"", escape(text))).collect();
        _ = writeln!(self.0, "colibri_{name}{{{}}} {value}", labels.join(","));
    }
}

/// The text.
pub(super) fn text(shared: &Shared, _is_local: bool) -> String {
    let mut text = Text(String::with_capacity(16 << 10));
    server(&mut text, shared);
    statements(&mut text, shared);
    databases(&mut text, shared);
    if let Some(node) = shared.directory.replication() {
        cluster(&mut text, node);
    }
    text.0.push_str(&Handle::current().counters().to_prometheus());
    text.0
}

fn server(text: &mut Text, shared: &Shared) {
    let (counts, (bytes_in, bytes_out)) = (&shared.counts, shared.counts.bytes());
    text.family("info", "gauge", "What this is.");
    text.sample("info", ("version", env!("CARGO_PKG_VERSION")), 1.0);
    text.one("uptime_seconds", "gauge", "Time since the start.", shared.started.elapsed().as_secs_f64());
    text.one("connections_max", "gauge", "Sessions at the same time, at most.", shared.options.connections_max as f64);
    for (name, help, value) in [
        ("connections_total", "Connections that were made.", counts.connections.get()),
        ("connections_refused_total", "Connections that got no session.", counts.refused.get()),
        ("logins_failed_total", "Wrong passwords.", counts.logins_failed.get()),
        ("cancels_total", "Cancellations by clients.", counts.cancels.get()),
        ("errors_total", "Errors that clients were told of.", counts.errors.get()),
        ("conflicts_total", "Of these, those worth another attempt (40001).", counts.conflicts.get()),
        (
            "transactions_repeated_total",
            "Conflicts after which a transaction ran again, unseen.",
            counts.repeated.get(),
        ),
        ("statements_sunk_total", "Statements that went on in the batch pool.", counts.sunk.get()),
        ("sessions_moved_total", "Sessions that went on at another node of the cluster.", counts.moved.get()),
        ("slow_reads_total", "Answers that waited for their client to read.", counts.slow_reads.get()),
        ("received_bytes_total", "Bytes from sessions that have ended.", bytes_in),
        ("sent_bytes_total", "Bytes to sessions that have ended.", bytes_out),
    ] {
        text.one(name, "counter", help, value as f64);
    }
    text.family("sessions", "gauge", "Sessions by what they do.");
    let sessions = shared.registry.infos();
    for state in [
        SessionState::Active,
        SessionState::Idle,
        SessionState::IdleInTransaction,
        SessionState::IdleInFailedTransaction,
    ] {
        let count = sessions.iter().filter(|session| session.state == state).count();
        text.sample("sessions", ("state", state.name()), count as f64);
    }
    let memory = super::status::memory();
    text.family("memory_bytes", "gauge", "Resident memory, by what it holds.");
    text.sample("memory_bytes", ("kind", "private"), memory.private_bytes as f64);
    text.sample("memory_bytes", ("kind", "pages"), memory.mapped_bytes as f64);
}

fn cluster(text: &mut Text, node: &Replication) {
    let lease_left = node.membership().lease_left().as_secs_f64();
    text.one("cluster_lease_seconds", "gauge", "How much longer the node's lease is certainly valid.", lease_left);
    let contact = node.membership().contact();
    let is_reached = f64::from(u8::from(node.is_reached()));
    text.one(
        "cluster_reached",
        "gauge",
        "Whether etcd has answered not long ago, so that the lease is valid.",
        is_reached,
    );
    let silent_s = contact.uncertain_for.as_secs_f64();
    text.one("cluster_unreached_seconds", "gauge", "For how long the lease has not been certainly valid.", silent_s);
    text.one("cluster_members", "gauge", "Nodes that are there.", node.members().len() as f64);
    let level = node.level() as u8;
    text.one("cluster_etcd_level", "gauge", "etcd: 0 ample, 1 half full, 2 full.", f64::from(level));
    let copies = block_on(super::status::copies(node));
    text.family("cluster_led_by", "gauge", "The node that leads the database.");
    for copy in &copies {
        if let Some((leader, _)) = &copy.leader {
            text.sample_of("cluster_led_by", &[("database", &copy.name), ("node", leader)], 1.0);
        }
    }
    type Value = fn(&super::status::Copy) -> Option<f64>;
    let families: [(&str, &str, Value); 9] = [
        ("leader", "Whether the node leads the database.", |copy| Some(f64::from(u8::from(copy.leads)))),
        ("epoch", "The term of the database's leader.", |copy| Some(copy.leader.as_ref()?.1 as f64)),
        ("open", "Whether the node has the database open.", |copy| Some(f64::from(u8::from(copy.position.is_some())))),
        ("agreed_position", "The position behind the last entry of the log.", |copy| Some(copy.lag?.end.0 as f64)),
        ("applied_position", "The position up to which the log is applied.", |copy| Some(copy.position? as f64)),
        ("lag_entries", "Entries of the log that are not applied.", |copy| Some(copy.lag?.entries as f64)),
        ("lag_bytes", "Their bytes.", |copy| Some(copy.lag?.bytes as f64)),
        ("lag_seconds", "Age of the oldest of them.", |copy| Some(copy.lag?.age?.as_secs_f64())),
        ("commits_under_way", "Commits that are not agreed on.", |copy| Some(copy.under_way? as f64)),
    ];
    for (name, help, value) in families {
        text.family(&format!("cluster_{name}"), "gauge", help);
        for copy in &copies {
            if let Some(value) = value(copy) {
                text.sample(&format!("cluster_{name}"), ("database", &copy.name), value);
            }
        }
    }
}

fn statements(text: &mut Text, shared: &Shared) {
    let (latency, sum_us) = shared.counts.latency();
    text.family("statement_seconds", "histogram", "How long statements took.");
    for exponent in BUCKETS {
        let limit = Duration::from_micros(1 << exponent);
        let label = limit.as_secs_f64().to_string();
        text.sample("statement_seconds_bucket", ("le", &label), latency.count_up_to(limit) as f64);
    }
    let count = latency.count();
    text.sample("statement_seconds_bucket", ("le", "+Inf"), count as f64);
    _ = writeln!(
        text.0,
        "colibri_statement_seconds_sum {}\ncolibri_statement_seconds_count {count}",
        sum_us as f64 / 1e6
    );
}

fn databases(text: &mut Text, shared: &Shared) {
    let open = super::status::databases(shared);
    type Value = fn(&super::status::DatabaseStatus) -> f64;
    let families: [(&str, &str, &str, Value); 17] = [
        ("commits_total", "counter", "Transactions that changed something and committed.", |d| {
            d.counters.commits as f64
        }),
        ("commit_batches_total", "counter", "Transactions of the storage that brought them.", |d| {
            d.counters.batches as f64
        }),
        ("txn_conflicts_total", "counter", "Times that something read did not hold.", |d| d.counters.conflicts as f64),
        ("lock_waits_total", "counter", "Times that a lock was waited for.", |d| d.counters.lock_waits as f64),
        ("deadlocks_total", "counter", "Circles of waiting that were broken.", |d| d.counters.deadlocks as f64),
        ("restarts_total", "counter", "Statements taken back to run again.", |d| d.counters.restarts as f64),
        ("log_flushes_total", "counter", "Flushes of the log.", |d| d.log_flushes as f64),
        ("file_bytes", "gauge", "Length of the data file.", |d| d.file_bytes as f64),
        ("disk_bytes", "gauge", "Disk space behind it.", |d| d.disk_bytes as f64),
        ("free_bytes", "gauge", "Free pages in it.", |d| d.free_bytes as f64),
        ("unsteady_transactions", "gauge", "Transactions since the last steady point.", |d| d.unsteady as f64),
        ("readers", "gauge", "Live snapshots.", |d| d.readers as f64),
        ("oldest_reader_seconds", "gauge", "Age of the oldest snapshot.", |d| d.oldest_s),
        ("held_bytes", "gauge", "What the snapshot holds back that holds back most.", |d| d.held_bytes as f64),
        ("temp_files_total", "counter", "Temporary files of statements.", |d| d.temp_files.files as f64),
        ("temp_bytes_total", "counter", "Room that was made in them.", |d| d.temp_files.bytes as f64),
        ("temp_files", "gauge", "Temporary files there are.", |d| d.temp_files.open as f64),
    ];
    for (name, kind, help, value) in families {
        text.family(&format!("database_{name}"), kind, help);
        for database in &open {
            text.sample(&format!("database_{name}"), ("database", &database.name), value(database));
        }
    }
}

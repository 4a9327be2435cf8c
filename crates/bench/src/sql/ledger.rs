//! The cost ledger: what a run costs besides time, from the accounts of processes at the beginning
//! and at the end of the measured time.
//!
//! Invariants
//! - A figure that the kernel does not give is `None`, never zero.
//! - A target in process shares its account with the generator, whose part is taken from the
//!   control run. For any other target this process is the generator.
//! - Bytes are the kernel's where the target's processes are known: pages of files that they made
//!   dirty, and bytes read from the disk for them. Otherwise they are what the target says it has
//!   written and read.
//!
//! **Write amplification** is bytes written divided by bytes of rows written. The former are as
//! above, in the measured time: log, pages, and pages again. The latter are what committed
//! transactions gave to statements that insert, update or delete: eight bytes for a number or a
//! time, the length of a text. So they are the same for all targets, however these store rows. A
//! page that becomes dirty twice before it goes to disk counts once. What is written after the run,
//! by a later checkpoint, does not count, so runs have to be long enough to have checkpoints in
//! them.
//!
//! Not here: how accounts of processes are read (`measure::process_tree`), and the disk's own
//! accounts.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::measure::cost::disk_bytes;
use crate::measure::energy::{Packages, Reading};
use crate::measure::process_tree::{Look, Machine, Used, stat, tick_ns};
use crate::measure::{Error, Result};
use crate::sql::driver::Measured;
use crate::sql::target::Place;

/// Costs of a run; those of a transaction are divided by all that ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Cost {
    /// Which processes they belong to: `process` (target and generator), `server`, `generator`.
    pub(crate) of: String,
    /// Microseconds of CPU of the target, a transaction; in process the generator's are taken off.
    pub(crate) cpu_us_per_txn: Option<f64>,
    /// Of this process, a transaction.
    pub(crate) own_cpu_us_per_txn: Option<f64>,
    /// The generator's, a transaction: in process what the control run cost, else all of this
    /// process.
    pub(crate) generator_cpu_us_per_txn: Option<f64>,
    /// CPUs that were busy on average.
    pub(crate) cpus: Option<f64>,
    /// CPU time of this process's runtime by pool, a transaction: in process only.
    pub(crate) pools_us_per_txn: BTreeMap<String, f64>,
    pub(crate) written_bytes_per_txn: Option<f64>,
    pub(crate) write_calls_per_txn: Option<f64>,
    pub(crate) read_bytes_per_txn: Option<f64>,
    /// Of the log, which commits wait for.
    pub(crate) log_flushes_per_txn: Option<f64>,
    /// Bytes of rows that were written, a transaction.
    pub(crate) row_bytes_per_txn: Option<f64>,
    /// Bytes written by bytes of rows.
    pub(crate) write_amplification: Option<f64>,
    pub(crate) switches_per_txn: Option<f64>,
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) pss_bytes: Option<u64>,
    pub(crate) disk_bytes: Option<u64>,
    /// Energy of the whole machine.
    pub(crate) joules_per_txn: Option<f64>,
}

/// Checks that the process exists whose costs become the server's.
///
/// # Errors
/// If it is not, or if there is no server: a target in process has the account of this one.
pub(crate) fn ensure_server(pid: u32, place: Place) -> Result<()> {
    if place == Place::InProcess {
        return Err(Error::usage(
            "--server-pid is for a server: what a target in process costs is taken from this process's account",
        ));
    }
    match stat(pid) {
        Some(stat) if !stat.is_dead() => Ok(()),
        _ => Err(Error::usage(format!("--server-pid {pid}: there is no such process on this machine"))),
    }
}

/// The accounts of this process, and of a server, at one moment.
struct Moment {
    own: Look,
    server: Option<Look>,
    /// When the server's process began.
    server_start: Option<u64>,
    energy: Option<Reading>,
}

/// Reads accounts at the begin and at the end.
pub(crate) struct Ledger {
    server_pid: Option<u32>,
    packages: Option<Packages>,
    first: Option<Moment>,
    used: Option<(Used, Option<Used>)>,
    /// The server's process was not there any more at the end, or not at the begin.
    is_server_lost: bool,
    memory: (Option<u64>, Option<u64>),
    joules: Option<f64>,
}

impl Ledger {
    pub(crate) fn new(server_pid: Option<u32>) -> Self {
        let packages = Packages::find().ok();
        Self {
            server_pid,
            packages,
            first: None,
            used: None,
            is_server_lost: false,
            memory: (None, None),
            joules: None,
        }
    }

    /// Why the costs of a server are not there, if its process has ended.
    pub(crate) fn server_lost(&self) -> Option<String> {
        let pid = self.server_pid.filter(|_| self.is_server_lost)?;
        Some(format!("process {pid} of --server-pid has ended: what the server costs is not known"))
    }

    fn look(&self, before: Option<&Moment>) -> Option<Moment> {
        let machine = Machine::look().ok()?;
        let take = |pid, before| Look::take(&machine, pid, None, before);
        Some(Moment {
            own: take(std::process::id(), before.map(|before| &before.own)),
            server_start: self.server_pid.and_then(|pid| Some(machine.get(pid)?.start_ticks)),
            server: self.server_pid.map(|pid| take(pid, before.and_then(|before| before.server.as_ref()))),
            energy: self.packages.as_ref().and_then(|packages| packages.read().ok()),
        })
    }

    pub(crate) fn begin(&mut self) {
        self.first = self.look(None);
    }

    pub(crate) fn end(&mut self) {
        let Some(first) = self.first.take() else { return };
        let Some(second) = self.look(Some(&first)) else { return };
        // Another process with the same number is another server.
        let lives = |pid, look: &Look| first.server_start.is_some_and(|start| look.has_living(pid, start));
        self.is_server_lost = self.server_pid.zip(second.server.as_ref()).is_some_and(|(pid, look)| !lives(pid, look));
        let server = first.server.as_ref().zip(second.server.as_ref()).filter(|_| !self.is_server_lost);
        let server = server.map(|(first, second)| Used::between(first, second, tick_ns()));
        if !self.is_server_lost {
            let memory = second.server.as_ref().unwrap_or(&second.own).memory();
            self.memory = (memory.rss_bytes, memory.pss_bytes);
        }
        self.joules = self
            .packages
            .as_ref()
            .zip(first.energy.as_ref().zip(second.energy.as_ref()))
            .map(|(packages, (first, second))| packages.between(first, second).joules);
        self.used = Some((Used::between(&first.own, &second.own, tick_ns()), server));
    }

    /// Costs of a run. `generator_us` is what the control run cost, a transaction.
    pub(crate) fn cost(
        &self,
        measured: &Measured,
        in_process: bool,
        generator_us: Option<f64>,
        dir: Option<&Path>,
    ) -> Cost {
        let mut cost = self.of_processes(measured.ended(), in_process, generator_us);
        let each = |sum: u64| (measured.ended() > 0).then(|| sum as f64 / measured.ended() as f64);
        let counts = measured.counts;
        cost.log_flushes_per_txn = counts.log_flushes.and_then(each);
        if cost.of == "generator" {
            // The generator's own bytes go to a socket.
            cost.written_bytes_per_txn = counts.written_bytes.and_then(each);
            cost.read_bytes_per_txn = counts.read_bytes.and_then(each);
            cost.write_calls_per_txn = None;
        }
        cost.row_bytes_per_txn = each(measured.row_bytes).filter(|&bytes| bytes > 0.0);
        let amplification = cost.written_bytes_per_txn.zip(cost.row_bytes_per_txn);
        cost.write_amplification = amplification.map(|(written, rows)| written / rows);
        cost.disk_bytes = dir.and_then(|dir| disk_bytes(dir).ok()).or(counts.disk_bytes);
        if in_process {
            let pools = measured.pools.iter();
            let us = |cpu: &Duration| u64::try_from(cpu.as_nanos()).ok().and_then(each).map(|ns| ns / 1e3);
            cost.pools_us_per_txn = pools.filter_map(|(pool, cpu)| Some((pool.clone(), us(cpu)?))).collect();
        }
        cost
    }

    fn of_processes(&self, ended: u64, in_process: bool, generator_us: Option<f64>) -> Cost {
        let mut cost = Cost { generator_cpu_us_per_txn: generator_us, ..Cost::default() };
        let Some((own, server)) = &self.used else { return cost };
        let each = |sum: f64| (ended > 0).then(|| sum / ended as f64);
        let own_us = each(own.cpu_ns as f64 / 1e3);
        cost.own_cpu_us_per_txn = own_us;
        if !in_process {
            // This process is the generator alone. The control run has no sockets, so its costs
            // would be too low.
            cost.generator_cpu_us_per_txn = own_us;
        }
        if self.is_server_lost {
            cost.of = "server".to_owned();
            return cost;
        }
        let used = server.as_ref().unwrap_or(own);
        cost.of = match (server.is_some(), in_process) {
            (true, _) => "server",
            (false, true) => "process",
            (false, false) => "generator",
        }
        .to_owned();
        cost.cpu_us_per_txn = match (server, in_process) {
            (Some(server), _) => each(server.cpu_ns as f64 / 1e3),
            (None, true) => own_us.map(|own| (own - generator_us.unwrap_or(0.0)).max(0.0)),
            (None, false) => None,
        };
        cost.cpus = Some(used.cpu_ns as f64 / 1e9 / used.seconds.max(1e-9));
        cost.written_bytes_per_txn = used.written.and_then(|written| each(written.bytes as f64));
        cost.write_calls_per_txn = used.written.and_then(|written| each(written.calls as f64));
        cost.read_bytes_per_txn = used.written.and_then(|written| each(written.read_bytes as f64));
        cost.switches_per_txn =
            used.switches.and_then(|switches| each((switches.voluntary + switches.involuntary) as f64));
        (cost.rss_bytes, cost.pss_bytes) = self.memory;
        cost.joules_per_txn = self.joules.and_then(each);
        cost
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::sql::driver::Recorder;
    use crate::sql::target::Counts;
    use crate::sql::workload::tpcc::{Scale, Tpcc};

    #[test]
    fn what_this_process_does_is_on_its_account() {
        let mut ledger = Ledger::new(None);
        ledger.begin();
        let begun = std::time::Instant::now();
        let mut sum = 0_u64;
        while begun.elapsed().as_millis() < 50 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        ledger.end();
        let cost = ledger.of_processes(10, true, Some(1.0));
        let own = cost.own_cpu_us_per_txn.unwrap();
        // Other processes may have the CPU for most of the time, and other tests run in this
        // process.
        assert!(own > 500.0, "{own}");
        assert!((cost.cpu_us_per_txn.unwrap() - (own - 1.0)).abs() < 1e-6);
        assert_eq!(cost.of, "process");
        assert!(cost.rss_bytes.unwrap() > 1 << 20);
        assert_eq!(ledger.of_processes(0, true, None).cpu_us_per_txn, None, "of no transaction nothing is known");
    }

    /// Of ten transactions, each of which gave 100 bytes of rows.
    fn measured() -> Measured {
        let tpcc = Tpcc::new(Scale::new(1), 42);
        let now = Instant::now();
        let mut measured = Recorder::new(&tpcc, now, Duration::from_secs(1)).finish(now + Duration::from_secs(1));
        (measured.kinds[0].committed, measured.row_bytes) = (10, 1_000);
        measured.pools = vec![("user".to_owned(), Duration::from_micros(50))];
        measured
    }

    #[test]
    fn a_server_that_nobody_sees_tells_of_its_bytes_itself() {
        let mut ledger = Ledger::new(None);
        ledger.begin();
        ledger.end();
        let mut measured = measured();
        let first = Counts { log_flushes: Some(3), written_bytes: Some(1_000), ..Counts::default() };
        let last =
            Counts { log_flushes: Some(8), written_bytes: Some(6_000), disk_bytes: Some(7), ..Counts::default() };
        measured.counts = last.since(first);
        let cost = ledger.cost(&measured, false, None, None);
        assert_eq!((cost.written_bytes_per_txn, cost.row_bytes_per_txn), (Some(500.0), Some(100.0)));
        assert_eq!((cost.write_amplification, cost.log_flushes_per_txn), (Some(5.0), Some(0.5)));
        assert_eq!((cost.read_bytes_per_txn, cost.disk_bytes), (None, Some(7)));
        assert_eq!(cost.pools_us_per_txn.len(), 0, "they are the generator's");

        measured.counts = Counts::default();
        let cost = ledger.cost(&measured, false, None, None);
        assert_eq!((cost.written_bytes_per_txn, cost.write_amplification), (None, None), "not told is not zero");
    }

    #[test]
    fn in_process_bytes_and_pools_are_those_of_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::new(None);
        ledger.begin();
        std::fs::write(dir.path().join("file"), vec![1; 100_000]).unwrap();
        ledger.end();
        let mut measured = measured();
        let cost = ledger.cost(&measured, true, None, Some(dir.path()));
        assert_eq!(cost.pools_us_per_txn["user"], 5.0);
        assert!(cost.disk_bytes.unwrap() >= 100_000);
        if let Some(written) = cost.written_bytes_per_txn {
            assert_eq!(cost.write_amplification, Some(written / 100.0));
        }
        measured.row_bytes = 0;
        assert_eq!(ledger.cost(&measured, true, None, None).write_amplification, None, "nothing was to be written");
    }

    #[test]
    fn a_server_has_an_account_of_its_own() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let mut ledger = Ledger::new(Some(child.id()));
        ledger.begin();
        ledger.end();
        let cost = ledger.of_processes(1, false, None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(cost.of, "server");
        assert_eq!(cost.generator_cpu_us_per_txn, cost.own_cpu_us_per_txn);
        assert!(cost.cpu_us_per_txn.unwrap() < 1e5);
        assert_eq!(ledger.server_lost(), None);
    }

    #[test]
    fn a_server_that_ends_meanwhile_costs_nobody_knows_what() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let mut ledger = Ledger::new(Some(child.id()));
        ledger.begin();
        // Until its parent waits for it, it exists as a zombie.
        child.kill().unwrap();
        while crate::measure::process_tree::stat(child.id()).is_some_and(|stat| !stat.is_dead()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        ledger.end();
        child.wait().unwrap();
        let cost = ledger.of_processes(1, false, None);
        assert_eq!((cost.of.as_str(), cost.cpu_us_per_txn, cost.cpus, cost.rss_bytes), ("server", None, None, None));
        assert!(ledger.server_lost().unwrap().contains(&child.id().to_string()));

        let mut ledger = Ledger::new(Some(child.id()));
        ledger.begin();
        ledger.end();
        assert!(ledger.server_lost().is_some(), "it was not there in the first place");
    }
}

//! What a run costs besides time: the accounts of processes at the begin and at the end of the measured time.
//!
//! Invariants
//! - What the kernel does not tell is `None`, never zero.
//! - In process, target and generator have one account: the generator's part is what the control run cost. Otherwise this process is
//!   the generator.
//!
//! Not here: how accounts of processes are read (`idle::tree`), and the disk's own accounts.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::idle::energy::{Packages, Reading};
use crate::idle::tree::{Look, Machine, Used, tick_ns};
use crate::kv::cost::disk_bytes;

/// Costs of a run; those of a transaction are divided by all that ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Cost {
    /// Whose they are: `process` (target and generator), `server`, `generator`.
    pub(crate) of: String,
    /// Microseconds of CPU of the target, a transaction; in process the generator's are taken off.
    pub(crate) cpu_us_per_txn: Option<f64>,
    /// Of this process, a transaction.
    pub(crate) own_cpu_us_per_txn: Option<f64>,
    /// The generator's, a transaction: in process what the control run cost, else all of this process.
    pub(crate) generator_cpu_us_per_txn: Option<f64>,
    /// CPUs that were busy on average.
    pub(crate) cpus: Option<f64>,
    pub(crate) written_bytes_per_txn: Option<f64>,
    pub(crate) write_calls_per_txn: Option<f64>,
    pub(crate) switches_per_txn: Option<f64>,
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) pss_bytes: Option<u64>,
    pub(crate) disk_bytes: Option<u64>,
    /// Of the whole machine.
    pub(crate) joules_per_txn: Option<f64>,
}

/// The accounts of this process, and of a server, at one moment.
struct Moment {
    own: Look,
    server: Option<Look>,
    energy: Option<Reading>,
}

/// Reads accounts at the begin and at the end.
pub(crate) struct Ledger {
    server_pid: Option<u32>,
    packages: Option<Packages>,
    first: Option<Moment>,
    used: Option<(Used, Option<Used>)>,
    memory: (Option<u64>, Option<u64>),
    joules: Option<f64>,
}

impl Ledger {
    pub(crate) fn new(server_pid: Option<u32>) -> Self {
        let packages = Packages::find().ok();
        Self { server_pid, packages, first: None, used: None, memory: (None, None), joules: None }
    }

    fn look(&self, before: Option<&Moment>) -> Option<Moment> {
        let machine = Machine::look().ok()?;
        let take = |pid, before| Look::take(&machine, pid, None, before);
        Some(Moment {
            own: take(std::process::id(), before.map(|before| &before.own)),
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
        let server = first.server.as_ref().zip(second.server.as_ref());
        let server = server.map(|(first, second)| Used::between(first, second, tick_ns()));
        let memory = second.server.as_ref().unwrap_or(&second.own).memory();
        self.memory = (memory.rss_bytes, memory.pss_bytes);
        self.joules = self
            .packages
            .as_ref()
            .zip(first.energy.as_ref().zip(second.energy.as_ref()))
            .map(|(packages, (first, second))| packages.between(first, second).joules);
        self.used = Some((Used::between(&first.own, &second.own, tick_ns()), server));
    }

    /// Costs of so many transactions. `generator_us` is what the control run cost, a transaction.
    pub(crate) fn cost(&self, ended: u64, in_process: bool, generator_us: Option<f64>, dir: Option<&Path>) -> Cost {
        let mut cost = Cost { generator_cpu_us_per_txn: generator_us, ..Cost::default() };
        let Some((own, server)) = &self.used else { return cost };
        let each = |sum: f64| (ended > 0).then(|| sum / ended as f64);
        let own_us = each(own.cpu_ns as f64 / 1e3);
        cost.own_cpu_us_per_txn = own_us;
        if !in_process {
            // Nothing else is in this process; the control run knows nothing of sockets.
            cost.generator_cpu_us_per_txn = own_us;
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
        cost.switches_per_txn =
            used.switches.and_then(|switches| each((switches.voluntary + switches.involuntary) as f64));
        (cost.rss_bytes, cost.pss_bytes) = self.memory;
        cost.disk_bytes = dir.and_then(|dir| disk_bytes(dir).ok());
        cost.joules_per_txn = self.joules.and_then(each);
        cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let cost = ledger.cost(10, true, Some(1.0), None);
        let own = cost.own_cpu_us_per_txn.unwrap();
        // Others may have the CPU for most of the time, and other tests run in this process.
        assert!(own > 500.0, "{own}");
        assert!((cost.cpu_us_per_txn.unwrap() - (own - 1.0)).abs() < 1e-6);
        assert_eq!((cost.of.as_str(), cost.disk_bytes), ("process", None));
        assert!(cost.rss_bytes.unwrap() > 1 << 20);
        assert_eq!(ledger.cost(0, true, None, None).cpu_us_per_txn, None, "of no transaction nothing is known");
    }

    #[test]
    fn a_server_has_an_account_of_its_own() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let mut ledger = Ledger::new(Some(child.id()));
        ledger.begin();
        ledger.end();
        let cost = ledger.cost(1, false, None, None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(cost.of, "server");
        assert_eq!(cost.generator_cpu_us_per_txn, cost.own_cpu_us_per_txn);
        assert!(cost.cpu_us_per_txn.unwrap() < 1e5);
    }
}

//! The flags that `tpcc`, `ycsb`, `stock`, `queue` and `script` have in common, and the checks that turn
//! them into a plan.
//!
//! Not here: flags of one workload, and anything that touches a target.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::measure::flags::check_range;
use crate::measure::{Error, Result, memory_limit};
use crate::sql::driver::schedule::Arrivals;
use crate::sql::driver::{Pacing, RunPlan};
use crate::sql::target::Isolation;
use crate::sql::workload::Workload;
use crate::sql::{NULL, SQLITE};

pub(crate) const DURATION_DEFAULT: &str = "60s";
pub(crate) const WARMUP_DEFAULT: &str = "10s";
/// The longest run, and the longest warm-up.
const TIME_MAX: Duration = Duration::from_secs(7 * 86_400);
const CLIENTS_MAX: u64 = 10_000_000;
const IN_FLIGHT_MAX: u64 = 100_000;
/// Transactions under way without think times, for each thread of the machine.
const CLOSED_PER_THREAD: u32 = 8;
/// Transactions under way with think times or in open loop, unless a flag says otherwise.
const IN_FLIGHT_DEFAULT: u32 = 128;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// Load the data, unless they are there; a load that was interrupted goes on.
    Load,
    /// Run the workload on data that are there.
    Run,
    /// Check the data.
    Check,
    /// All three, one after the other.
    All,
}

impl Step {
    pub(crate) fn loads(self) -> bool {
        matches!(self, Self::Load | Self::All)
    }

    pub(crate) fn runs(self) -> bool {
        matches!(self, Self::Run | Self::All)
    }

    pub(crate) fn checks(self) -> bool {
        matches!(self, Self::Check | Self::All)
    }
}

/// When a commit of Colibri in process is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Durable {
    /// When it is on disk.
    Sync,
    /// At once; it is on disk a little later.
    Lazy,
    /// At once; it may never be on disk.
    Nosync,
}

/// Flags of all workloads.
#[derive(Debug, Clone, Args)]
pub struct CommonArgs {
    /// What to do
    #[arg(value_enum, default_value = "all")]
    pub step: Step,
    /// Who answers: colibri (in process), sqlite (in process, in builds with the feature `rivals`),
    /// postgres://USER:PASSWORD@HOST:PORT/DATABASE (for a Unix socket: ?host=DIR), or null (nobody:
    /// the control group)
    #[arg(long, default_value = "colibri")]
    pub target: String,
    /// Clients, of whom each asks again as soon as it has an answer [default: eight a thread of the
    /// machine]; of TPC-C terminals, unless --no-wait or --rate is given [default: ten a warehouse]
    #[arg(long)]
    pub clients: Option<u32>,
    /// Transactions under way at the most, each on a connection of its own [default: as many as
    /// clients; with --rate, with --find rate and with the terminals of TPC-C, up to 128]
    #[arg(long)]
    pub in_flight: Option<u32>,
    /// So many transactions a second in open loop, whoever is busy: latency counts from when each
    /// was due
    #[arg(long)]
    pub rate: Option<f64>,
    /// How arrivals of --rate, or of --find rate, are spread [default: random]
    #[arg(long, value_enum)]
    pub arrivals: Option<Arrivals>,
    /// TPC-C only: without keying and think times, each terminal asks again as soon as it has an
    /// answer
    #[arg(long)]
    pub no_wait: bool,
    /// How long to measure: 60s, 500ms, 2m
    #[arg(long, default_value = DURATION_DEFAULT, allow_hyphen_values = true, value_parser = duration)]
    pub duration: Duration,
    /// How long to run before that
    #[arg(long, default_value = WARMUP_DEFAULT, allow_hyphen_values = true, value_parser = duration)]
    pub warmup: Duration,
    /// A transaction without an answer for so long has failed. A statement that loads or checks may
    /// take as long as it needs; if it is silent for so long, a second connection asks whether the
    /// server answers at all, and if that is not answered either, it hangs
    #[arg(long, default_value = "30s", allow_hyphen_values = true, value_parser = duration)]
    pub timeout: Duration,
    /// Conflicts after which a transaction has failed
    #[arg(long, default_value_t = 50)]
    pub retries: u32,
    /// Isolation of transactions
    #[arg(long, value_enum, default_value = "default")]
    pub isolation: Isolation,
    /// When commits are answered, in process [default: sync]
    #[arg(long, value_enum)]
    pub durability: Option<Durable>,
    /// Threads of the generator, and of a database in process [default: as many as CPUs in process
    /// and for null, one more for sqlite, as its calls block, else one]
    #[arg(long)]
    pub threads: Option<usize>,
    /// Connections that load
    #[arg(long, default_value_t = 2)]
    pub loaders: u32,
    /// Directory of the database, in process; it stays. Without it, a database is made in a
    /// directory of its own and removed in the end
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// The server's process, if it is on this machine: what it costs, with all its children,
    /// becomes part of the result
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Memory that the database may have, pages of files among it: 512M, 2G. For data larger than
    /// memory. In process the generator's counts, too; a server takes --server-pid. Takes a control
    /// group, which root may make
    #[arg(long, value_name = "SIZE", value_parser = memory_limit::size)]
    pub memory_limit: Option<u64>,
    /// This part of the clients only, as one of several processes, counted from 0: 0/4 (see `bench
    /// merge`)
    #[arg(long, value_name = "I/N", value_parser = shard, default_value = "0/1")]
    pub shard: (u32, u32),
    /// Seed of everything that is random
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Leave out the control run against `null`; then nobody knows whether the generator was the
    /// limit
    #[arg(long)]
    pub no_control: bool,
    /// Search for the highest load that holds --p99, instead of running at one
    #[arg(long, requires = "p99")]
    pub find_max: bool,
    /// What 99 of 100 transactions may take
    #[arg(long, value_name = "LIMIT", allow_hyphen_values = true, value_parser = duration, requires = "find_max")]
    pub p99: Option<Duration>,
    /// What --find-max turns: transactions under way, the rate of an open loop, or (TPC-C only) the
    /// warehouses whose terminals are at work, of those that are loaded
    #[arg(long, value_enum, default_value = "in-flight", requires = "find_max")]
    pub find: Knob,
    /// Runs that --find-max confirms its result with, two at least: of six and more there is a 95 %
    /// interval, of fewer their range
    #[arg(long, default_value_t = 6, requires = "find_max")]
    pub rounds: u32,
    /// File to write the result to, as a JSON array [default: for all steps,
    /// colibri-bench-results/WORKLOAD.json, unless there is --html]
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// File to write the result to, as a page with charts that needs nothing else [default:
    /// likewise, WORKLOAD.html]
    #[arg(long)]
    pub html: Option<PathBuf>,
}

/// What the search for the highest load turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Knob {
    /// Transactions under way, in closed loop.
    InFlight,
    /// Transactions a second, in open loop.
    Rate,
    /// Warehouses, with keying and think times; TPC-C only.
    Warehouses,
}

impl Knob {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InFlight => "in-flight",
            Self::Rate => "rate",
            Self::Warehouses => "warehouses",
        }
    }
}

/// A duration with its unit.
pub(crate) fn duration(text: &str) -> std::result::Result<Duration, String> {
    let split = text.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let bad = || "give a number with a unit (us, ms, s, m, h), such as 60s".to_owned();
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    let number: f64 = number.trim().parse().map_err(|_| bad())?;
    if number < 0.0 {
        return Err("a time is not negative".to_owned());
    }
    Duration::try_from_secs_f64(number * seconds).map_err(|e| e.to_string())
}

fn shard(text: &str) -> std::result::Result<(u32, u32), String> {
    let parts = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((part, of)) if part < of => Ok((part, of)),
        _ => Err("a shard is I/N with I from 0 and below N".to_owned()),
    }
}

impl CommonArgs {
    /// Whether clients key and think.
    pub(crate) fn has_think_times(&self, workload: &dyn Workload) -> bool {
        let has_terminals = workload.cycle().is_some() && !self.no_wait && self.rate.is_none();
        has_terminals && (!self.find_max || self.find == Knob::Warehouses)
    }

    /// How arrivals of an open loop are spread.
    pub(crate) fn spread(&self) -> Arrivals {
        self.arrivals.unwrap_or(Arrivals::Random)
    }

    /// Checked, for a workload.
    ///
    /// # Errors
    /// What is wrong with which flag.
    pub(crate) fn plan(&self, workload: &dyn Workload) -> Result<RunPlan> {
        if let Some(rate) = self.rate
            && !(rate > 0.0 && rate <= 1e8)
        {
            return Err(Error::usage(format!("--rate is above 0 and at most 100000000, not {rate}")));
        }
        if self.rate.is_some() && self.find_max {
            return Err(Error::usage("--find-max finds the load by itself: leave --rate out"));
        }
        let finds_rate = self.find_max && self.find == Knob::Rate;
        if self.arrivals.is_some() && self.rate.is_none() && !finds_rate {
            return Err(Error::usage("--arrivals says how those of --rate are spread: give a rate, or --find rate"));
        }
        let finds_warehouses = self.find_max && self.find == Knob::Warehouses;
        if finds_warehouses && (workload.warehouses().is_none() || self.no_wait || self.clients.is_some()) {
            return Err(Error::usage(
                "--find warehouses is for tpcc with its terminals, ten a warehouse: without --no-wait and --clients",
            ));
        }
        if self.duration < Duration::from_millis(10) || self.duration > TIME_MAX {
            return Err(Error::usage("--duration is 10ms to 168h"));
        }
        if self.p99 == Some(Duration::ZERO) {
            return Err(Error::usage("--p99 is above 0: nothing takes no time"));
        }
        if self.warmup > TIME_MAX {
            return Err(Error::usage("--warmup is at most 168h"));
        }
        self.ensure_in_process()?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.unwrap_or(match self.target.as_str() {
            _ if self.is_remote() => 1,
            SQLITE => cpus + 1,
            _ => cpus,
        });
        check_range("--threads", threads as u64, 1, 256)?;
        let closed = CLOSED_PER_THREAD * cpus as u32;
        let (pacing, clients, in_flight) = if self.has_think_times(workload) {
            let clients = self.clients.or(workload.clients()).unwrap_or(closed);
            (Pacing::Terminals, clients, self.in_flight.unwrap_or(clients.min(IN_FLIGHT_DEFAULT)))
        } else if self.rate.is_some() || finds_rate {
            let in_flight = self.in_flight.unwrap_or(IN_FLIGHT_DEFAULT);
            // A search sets each probe's rate.
            let rate = self.rate.unwrap_or_default();
            (Pacing::Open(rate, self.spread()), self.clients.unwrap_or(in_flight), in_flight)
        } else {
            let clients = self.clients.or(self.in_flight).unwrap_or(closed);
            (Pacing::Closed, clients, self.in_flight.unwrap_or(clients))
        };
        check_range("--clients", clients.into(), 1, CLIENTS_MAX)?;
        check_range("--in-flight", in_flight.into(), 1, IN_FLIGHT_MAX)?;
        check_range("--rounds", self.rounds.into(), 2, 1_000)?;
        check_range("--loaders", self.loaders.into(), 1, 256)?;
        Ok(RunPlan {
            pacing,
            clients,
            shard: self.shard,
            in_flight,
            warmup: self.warmup,
            duration: self.duration,
            timeout: self.timeout,
            retries_max: self.retries,
            threads,
            seed: self.seed,
        })
    }

    /// Refuses flags of a database in process for any other target: they would have no effect.
    fn ensure_in_process(&self) -> Result<()> {
        let target = &self.target;
        if self.dir.is_some() && (self.is_remote() || target == NULL) {
            return Err(Error::usage("--dir is for a database in process: --target colibri or sqlite"));
        }
        if self.memory_limit.is_some() && self.is_remote() && self.server_pid.is_none() {
            return Err(Error::usage(
                "--memory-limit limits a server of this machine whose process is told: add --server-pid",
            ));
        }
        if self.durability.is_some() && self.is_remote() {
            return Err(Error::usage(
                "--durability is for a database in process: when a server answers commits is a matter of its own settings",
            ));
        }
        Ok(())
    }

    /// The point at which a database in process answers commits.
    pub(crate) fn durability(&self) -> Durable {
        self.durability.unwrap_or(Durable::Sync)
    }

    /// Whether the target's work is done by other threads than those of the generator.
    fn is_remote(&self) -> bool {
        self.target.contains("://")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::sql::workload::tpcc::{Scale, Tpcc};

    fn plan(flags: &str) -> Result<RunPlan> {
        let args: CommonArgs = parse(flags).unwrap();
        args.plan(&Tpcc::new(Scale::new(3), 42))
    }

    #[test]
    fn durations_have_units() {
        let parsed = |text| duration(text).ok();
        assert_eq!(parsed("60s"), Some(Duration::from_secs(60)));
        assert_eq!((parsed("25ms"), parsed("2m")), (Some(Duration::from_millis(25)), Some(Duration::from_secs(120))));
        assert_eq!((parsed("1.5h"), parsed("0s")), (Some(Duration::from_secs(5400)), Some(Duration::ZERO)));
        assert_eq!((parsed("10y"), parsed("s"), parsed("-1s"), parsed("7")), (None, None, None, None));
        let refused = parse::<CommonArgs>("--duration -3s").unwrap_err().to_string();
        assert!(refused.contains("--duration") && refused.contains("not negative"), "{refused}");
    }

    #[test]
    fn who_asks_depends_on_the_pacing() {
        let terminals = plan("").unwrap();
        assert_eq!((terminals.pacing, terminals.clients, terminals.in_flight), (Pacing::Terminals, 30, 30));
        let closed = plan("--no-wait --clients 5").unwrap();
        assert_eq!((closed.pacing, closed.clients, closed.in_flight), (Pacing::Closed, 5, 5));
        let open = plan("--rate 100 --arrivals even").unwrap();
        assert_eq!((open.pacing, open.in_flight), (Pacing::Open(100.0, Arrivals::Even), 128));
        assert_eq!(plan("--target postgres://localhost/x").unwrap().threads, 1);
        assert_eq!(plan("--find-max --p99 1s").unwrap().pacing, Pacing::Closed);
        assert_eq!(plan("--find-max --p99 1s --find warehouses").unwrap().pacing, Pacing::Terminals);
        // Bug: a search for a rate had as few under way as a closed loop. Consequence: it found
        // what the generator let through, not what the target can do. Fix: it is an open loop, with
        // as many as any.
        let rate = plan("--find-max --p99 1s --find rate --arrivals even").unwrap();
        assert_eq!((rate.pacing, rate.in_flight), (Pacing::Open(0.0, Arrivals::Even), 128));
    }

    #[test]
    fn flags_out_of_range_are_refused() {
        for flags in [
            "--find-max --p99 1s --find warehouses --no-wait",
            "--rate 0",
            "--rate=-1",
            "--clients 0",
            "--duration 1us",
            "--rate 5 --find-max --p99 1s",
            "--arrivals even",
            "--arrivals even --find-max --p99 1s",
            "--find-max --p99 1s --rounds 1",
            "--find-max --p99 0ms",
            "--warmup 169h",
            "--target postgres://localhost/x --dir data",
            "--target postgres://localhost/x --durability sync",
            "--target null --dir data",
            "--target postgres://localhost/x --memory-limit 64M",
        ] {
            assert!(plan(flags).is_err(), "{flags}");
        }
        assert!(parse::<CommonArgs>("--shard 2/2").is_err());
        assert!(parse::<CommonArgs>("--find-max").is_err(), "a search needs a limit");
        for without_a_search in ["--p99 1s", "--find rate", "--rounds 3"] {
            assert!(parse::<CommonArgs>(without_a_search).is_err(), "{without_a_search}");
        }
        assert!(plan("--find-max --p99 1s --find rate --arrivals even --rounds 3 --warmup 168h").is_ok());
        // `null` accepts the flags of databases in process, so that it can be their control group.
        assert!(plan("--target null --durability nosync").is_ok());
        assert_eq!(plan("--shard 1/3").unwrap().shard, (1, 3));
    }
}

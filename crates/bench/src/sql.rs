//! `colibri bench tpcc | ycsb | stock | queue | script`: databases as applications use them, over SQL
//! sessions.
//!
//! The design, and why, is `docs/design/0008-benchmark.md`. Read it in this order: `workload` (what
//! is asked), `target` (who answers), `driver` (when, and what it took), and here `args`, `bench`
//! (a run, step by step), `ledger` (what it cost), `result` (all of it as data), `table`, `html`.
//! `shapes` is a benchmark of its own: single statements, on two servers side by side. So is
//! `analytics`: suites of long queries. `ch` is TPC-C beside analysts.
//!
//! # Traps
//!
//! - **Closed loop flatters.** Without think times and without `--rate`, a client that waits for a
//!   slow answer asks for nothing meanwhile. The report says so. For the latency that users would
//!   see, give a rate.
//! - **The generator needs CPU, too.** On a machine with no CPU to spare it takes what it needs
//!   from the target. The control run says how much that is, and `cost` has it beside the target's.
//! - **Equal durability.** Colibri answers a commit when it is on disk unless `--durability` says
//!   otherwise; what a server does is a matter of its settings, and those that matter are part of
//!   the result.
//! - **Isolation differs.** Colibri is serializable by default, PostgreSQL is not. The result names
//!   what was asked for.
//!
//! Not here: `engine`, which measures engines and not SQL.

mod analysts;
pub mod analytics;
pub(crate) mod args;
mod bench;
pub mod ch;
pub(crate) mod driver;
mod files;
mod find_max;
pub(crate) mod html;
pub(crate) mod ledger;
mod open;
mod progress;
pub(crate) mod result;
pub mod shapes;
pub(crate) mod table;
pub(crate) mod target;
pub(crate) mod workload;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use crate::measure::environment::Environment;
use crate::measure::flags::check_range;
use crate::measure::memory_limit::{self, MemoryLimit};
use crate::measure::output::{self, say};
use crate::measure::{Error, Result};
use crate::sql::workload::Workload;
pub use crate::sql::workload::queue::Pattern;
use crate::sql::workload::queue::{Jobs, Messages, Shape};
pub use crate::sql::workload::stock::Mix;
use crate::sql::workload::stock::Stock;
use crate::sql::workload::tpcc::{Scale, Tpcc};
use crate::sql::workload::ycsb::Ycsb;
pub use crate::sql::workload::ycsb::{Distribution, Letter};

pub use args::{CommonArgs, Durable, Knob, Step};
pub(crate) use bench::Bench;
use files::Files;
#[cfg(feature = "rivals")]
pub(crate) use open::SQLITE_FILE;
pub(crate) use open::{NULL, SQLITE, open_named};
use open::{ensure_there, open};

/// Measure TPC-C: five transactions of a wholesale supplier
///
/// Loads, runs and checks; terminals key and think unless --no-wait or --rate is given. With each
/// run comes an audit of what the specification demands, and after it the twelve consistency
/// conditions. Results are not audited by TPC.
#[derive(Debug, Clone, Args)]
pub struct TpccArgs {
    /// Warehouses: about 100 MB each
    #[arg(long, default_value_t = 1)]
    pub warehouses: u32,
    /// A hundredth of the items and customers, to try things out in seconds; figures are then not
    /// those of TPC-C
    #[arg(long)]
    pub miniature: bool,
    /// Flags of all workloads.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Runs TPC-C.
///
/// # Errors
/// Wrong flags, a target that cannot be reached or holds other data, files that cannot be written;
/// and [`Error::InvalidResults`] once everything has been printed, if the result must not be
/// believed.
pub fn tpcc(args: &TpccArgs) -> Result<()> {
    check_range("--warehouses", args.warehouses.into(), 1, 1_000_000)?;
    let scale = if args.miniature { Scale::miniature(args.warehouses) } else { Scale::new(args.warehouses) };
    let workload = Tpcc::new(scale, args.common.seed);
    run(&args.common, &(Arc::new(workload) as Arc<dyn Workload>))
}

/// Measure YCSB: reads, updates, inserts and scans of one table
///
/// Loads, runs and checks the core workloads A to F; closed loop unless --rate is given.
#[derive(Debug, Clone, Args)]
pub struct YcsbArgs {
    /// The core workload
    #[arg(long, value_enum, ignore_case = true, default_value = "a")]
    pub workload: Letter,
    /// Records that are loaded: about 1.1 KB each
    #[arg(long, default_value_t = 100_000)]
    pub records: u64,
    /// Which keys are asked for [default: what the workload says: zipfian, and latest for D]
    #[arg(long, value_enum)]
    pub distribution: Option<Distribution>,
    /// Flags of all workloads.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Runs YCSB.
///
/// # Errors
/// As [`tpcc`].
pub fn ycsb(args: &YcsbArgs) -> Result<()> {
    check_range("--records", args.records, 1, 1 << 40)?;
    let CommonArgs { seed, shard, .. } = args.common;
    let workload = Ycsb::new(args.workload, args.distribution, args.records, seed, shard);
    run(&args.common, &(Arc::new(workload) as Arc<dyn Workload>))
}

/// Measure YDB's stock workload: orders on a stock of products
///
/// Loads, runs and checks; closed loop unless --rate is given. The published figure is that of
/// --find-max --p99 25ms.
#[derive(Debug, Clone, Args)]
pub struct StockArgs {
    /// Which transactions
    #[arg(long, value_enum, default_value = "add-rand-order")]
    pub workload: Mix,
    /// Products in stock
    #[arg(long, default_value_t = 100)]
    pub products: u32,
    /// Of each product: what is ordered is not restocked, and a run whose orders are short is not
    /// valid
    #[arg(long, default_value_t = 1_000_000)]
    pub quantity: u32,
    /// Orders that are loaded
    #[arg(long, default_value_t = 100)]
    pub orders: u32,
    /// Flags of all workloads.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Runs the stock workload.
///
/// # Errors
/// As [`tpcc`].
pub fn stock(args: &StockArgs) -> Result<()> {
    check_range("--products", args.products.into(), 1, 1 << 20)?;
    let workload = Stock::new(args.workload, args.products, args.quantity, args.orders, args.common.seed);
    run(&args.common, &(Arc::new(workload) as Arc<dyn Workload>))
}

/// Measure queues: jobs put, taken and acknowledged one by one; messages that groups read
///
/// Loads, runs and checks; closed loop unless --rate is given. With `--part jobs` each client puts
/// a job and takes one, in turns; with `--part messages` it puts a batch of messages and then reads
/// some for each group. Transactions are READ COMMITTED, whatever --isolation says.
#[derive(Debug, Clone, Args)]
pub struct QueueArgs {
    /// What is in the queue
    #[arg(long, value_enum, default_value = "jobs")]
    pub part: QueuePart,
    /// Jobs that are loaded, and so about how many wait at any time
    #[arg(long, default_value_t = 100)]
    pub backlog: u32,
    /// How messages are numbered: by a topic of Colibri, or by rows of a table, on any database
    #[arg(long, value_enum, default_value = "topic")]
    pub pattern: Pattern,
    /// Partitions of the messages
    #[arg(long, default_value_t = 8)]
    pub partitions: u32,
    /// Messages that are put together
    #[arg(long, default_value_t = 100)]
    pub batch: u32,
    /// Messages that are read together, at the most
    #[arg(long, default_value_t = 500)]
    pub read: u32,
    /// Groups of consumers
    #[arg(long, default_value_t = 3)]
    pub groups: u32,
    /// Bytes of a job or a message
    #[arg(long, default_value_t = 200)]
    pub bytes: u32,
    /// Flags of all workloads.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What is in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum QueuePart {
    /// Jobs, each done once.
    Jobs,
    /// Messages, each read by all groups.
    Messages,
}

/// Runs a queue.
///
/// # Errors
/// As [`tpcc`].
pub fn queue(args: &QueueArgs) -> Result<()> {
    let &QueueArgs { part, backlog, pattern, partitions, batch, read, groups, bytes, .. } = args;
    check_range("--bytes", bytes.into(), 20, 1 << 20)?;
    check_range("--partitions", partitions.into(), 1, 1024)?;
    check_range("--batch", batch.into(), 1, 10_000)?;
    check_range("--read", read.into(), 1, 100_000)?;
    check_range("--groups", groups.into(), 1, Messages::GROUPS_MAX.into())?;
    let workload: Arc<dyn Workload> = match part {
        QueuePart::Jobs => Arc::new(Jobs::new(backlog, bytes, args.common.seed)),
        QueuePart::Messages => {
            Arc::new(Messages::new(Shape { pattern, partitions, batch, read, groups, bytes }, args.common.seed))
        }
    };
    run(&args.common, &workload)
}

/// Run statements of a file as a workload
///
/// `\set NAME EXPRESSION` gives a variable a value, `:NAME` in a statement is a parameter;
/// expressions have numbers, variables, `client`, `random(low, high)`, `random_zipfian(low, high)`
/// and arithmetic. One run of the file is one transaction of the statistics, sent in one exchange.
#[derive(Debug, Clone, Args)]
pub struct ScriptArgs {
    /// The script
    #[arg(long)]
    pub file: PathBuf,
    /// Statements that make the data, run once by `load`
    #[arg(long)]
    pub setup: Option<PathBuf>,
    /// Flags of all workloads.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Runs a script.
///
/// # Errors
/// As [`tpcc`].
pub fn script(args: &ScriptArgs) -> Result<()> {
    run(&args.common, &crate::sql::workload::script::open(&args.file, args.setup.as_deref())?)
}

/// Loads, runs and checks, as the flags say.
pub(crate) fn run(args: &CommonArgs, workload: &Arc<dyn Workload>) -> Result<()> {
    let plan = args.plan(&**workload)?;
    ensure_there(args, &**workload)?;
    let files = Files::of(args, workload.name());
    files.ensure_writable()?;
    let _limit = limit_memory(args)?;
    let opened = open(args, workload)?;
    if let Some(pid) = args.server_pid {
        ledger::ensure_server(pid, opened.target.place())?;
    }
    let environment = Environment::observe(opened.target.dir().unwrap_or(Path::new(".")));
    output::print_heading(&environment);
    let mut bench = Bench::new(args, workload, Arc::clone(&opened.target), plan, environment);
    let outcome = bench.steps();
    // A failed run still writes what was measured before.
    let result = bench.finish(outcome)?;
    say!("{}", table::text(&result));
    files.write(std::slice::from_ref(&result))?;
    match result.is_bad() {
        false => Ok(()),
        true => Err(Error::InvalidResults { invalid: 1, total: 1 }),
    }
}

/// Limits the memory of who is measured, until the result is dropped. Files that are there already
/// are put out of memory.
fn limit_memory(args: &CommonArgs) -> Result<Option<MemoryLimit>> {
    if let (Some(_), Some(dir)) = (args.memory_limit, &args.dir)
        && dir.is_dir()
    {
        memory_limit::forget_files(dir)?;
    }
    match args.server_pid.filter(|_| args.target.contains("://")) {
        Some(pid) => MemoryLimit::of(pid, args.memory_limit),
        None => MemoryLimit::of_self(args.memory_limit),
    }
}

//! `colibri bench lifo`: what taking the page freed last saves behind a write-back cache, after the
//! table of such an experiment in a talk about MDBX, which introduced that order ("the original"
//! below).
//!
//! ```text
//! for records ── without log, with log ── for policy
//!                  └─ open, load, load copies and drop them: much of the file is free
//!                     warm up, then measure: a random record a transaction, each block written goes to all caches
//! ```
//!
//! The blocks are those of the engine's own write trace, the caches are simulated, and the disk
//! below them does nothing, so the figures are counts, not times.
//!
//! - **Without log** each transaction is a steady point, whose pages and meta page are written
//!   before it returns.
//! - **With log** a transaction writes its record behind the one before it, in one of two files,
//!   and so the block of the file's end again and again. Pages and the meta page are written by
//!   steady points, each after as much log as the engine allows by itself or `--log-bytes` says,
//!   and the log goes on in the other file. What is measured begins and ends with a steady point.
//!
//! # Traps
//!
//! - **FIFO depends on how much is free.** It writes all free pages in turn: with few of them it
//!   does what LIFO does, and with more than the cache holds it finds none of them there. The
//!   original takes the latter for granted; here `--free` says how much is free.
//! - **The tree of the original has a record a page and 42 children a branch**, so that 74,088
//!   records take 300 MB. Records of one page stand beside small ones for that reason, as far as
//!   they fit memory.
//! - **With log, a steady point is made beside the transactions**, which go on. So the figures
//!   differ a little from run to run; without log they come out the same everywhere.
//! - **The kernel may write pages before a steady point does.** That is not in the trace.
//! - **What is in the cache costs nothing.** Where the whole file fits it, the disk writes nothing,
//!   in either order.
//!
//! Not here: what the disk makes of the order of writes (`freespace`), and reads.

mod cache;
mod extrapolation;
mod report;
mod sink;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{Args, ValueEnum};
use colibri::{Database, Durability, FreeSpace, Options, Table, TableKind, TableStat};

use crate::engine::{TargetName, keys};
use crate::experiments::freespace::policy_name;
use crate::measure::environment::Environment;
use crate::measure::flags::{DIR_DEFAULT, check_range, without_repeats};
use crate::measure::format::whole;
use crate::measure::output::{ResultArgs, ResultFiles};
use crate::measure::progress::Progress;
use crate::measure::workplace::Workplace;
use crate::measure::{Error, Result};

use extrapolation::{EXTRAPOLATED_RECORDS, extrapolated};
use report::{Row, plot, print, row};
use sink::Sink;

const KEY_BYTES: usize = 16;
const PAGE_BYTES: u64 = 4096;
/// A value of this size gets a page of its own, beside the leaf that refers to it.
const PAGE_VALUE_BYTES: usize = 4000;
const CACHE_MB: [u64; 2] = [128, 512];
const POLICIES: [FreeSpace; 2] = [FreeSpace::Fifo, FreeSpace::Lifo];
/// Where the pages are kept while they are of interest to the simulated caches only.
const MEMORY_DIR: &str = "/dev/shm";
/// Between these the engine chooses the bytes of log after which it makes a steady point: half of
/// the file.
const LOG_BYTES_MIN: u64 = 4 << 20;
const LOG_BYTES_MAX: u64 = 512 << 20;
/// Longer than any run.
const LOG_PERIOD: Duration = Duration::from_secs(86_400);

/// Measure what taking the page freed last saves behind a write-back cache.
///
/// Repeats an experiment on write-back caches and LIFO reuse, from a talk about MDBX: pages
/// rewritten by a transaction that changes one random record, and the blocks that the disk below a
/// battery-backed write-back cache of 128 MB and 512 MB has to write. The blocks are those of the
/// engine's write trace; the caches are simulated.
#[derive(Debug, Clone, Args)]
pub struct LifoArgs {
    /// Numbers of records
    #[arg(long, value_delimiter = ',', default_values_t = [42, 1_764, 74_088, 3_111_696])]
    pub records: Vec<u64>,
    /// Length of a value in bytes, for small records
    #[arg(long, default_value_t = 128)]
    pub value_size: usize,
    /// Free pages, as a multiple of those in use
    #[arg(long, default_value_t = 2)]
    pub free: u32,
    /// The most records that are also measured with a page each, as in that experiment
    #[arg(long, default_value_t = 74_088)]
    pub page_records_max: u64,
    /// Transactions to measure, after as many as it takes to fill the caches [default: by the
    /// number of pages]
    #[arg(long)]
    pub txns: Option<u64>,
    /// Whether transactions go to the redo log
    #[arg(long, value_enum, value_delimiter = ',', default_value = "without,with")]
    pub log: Vec<LogUse>,
    /// Bytes of log after which a steady point is made [default: the engine's own: half of the
    /// data, from 4 to 512 MiB]
    #[arg(long)]
    pub log_bytes: Option<u64>,
    /// Seed of the order in which records change
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Directory to make databases in; they are removed afterwards, and so is the directory if it
    /// is new [default: one in memory, if there is one]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Where the results go.
    #[command(flatten)]
    pub output: ResultArgs,
}

/// What makes a transaction durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogUse {
    /// Each transaction is a steady point.
    Without,
    /// Each transaction is a record of the log; steady points are made in the background.
    With,
}

/// What one policy did.
struct Measured {
    stat: TableStat,
    pages_per_txn: f64,
    log_blocks_per_txn: f64,
    txns_per_steady_point: f64,
    disk_per_txn: [f64; CACHE_MB.len()],
    warm_up_txns: u64,
    txns: u64,
}

/// Runs the benchmark: progress to standard error, results to standard output and to the files
/// asked for.
///
/// # Errors
///
/// Wrong flags are refused before anything is run.
pub fn run(args: &LifoArgs) -> Result<()> {
    let cases = cases(args)?;
    let files = ResultFiles::new(&args.output, "lifo")?;
    let progress = Progress::new(cases.len() as u64 * POLICIES.len() as u64);
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => dir_default(&cases, &progress),
    };
    let workplace = Workplace::new(&dir, false)?;
    let environment = Environment::observe(workplace.dir());
    let mut rows = Vec::new();
    let measured = cases.iter().try_for_each(|case| {
        rows.extend(measure_case(args, case, &workplace, &progress, &environment)?);
        Ok(())
    });
    progress.finish();
    measured?;
    print(&environment, &rows);
    files.write(&rows, &plot(&rows))
}

/// A directory in memory if the largest database has room there, and one in the current directory
/// if not.
fn dir_default(cases: &[Case], progress: &Progress) -> PathBuf {
    let needed = cases.iter().map(Case::file_bytes_max).max().unwrap_or(0);
    let room = rustix::fs::statvfs(MEMORY_DIR).map_or(0, |fs| fs.f_bavail.saturating_mul(fs.f_frsize));
    if fits(needed, room) {
        return Path::new(MEMORY_DIR).join(DIR_DEFAULT);
    }
    let [needed, room] = [needed, room].map(|bytes| whole((bytes >> 20) as f64));
    progress.line(&format!(
        "{MEMORY_DIR} has {room} MB left, a database may take {needed} MB: making them in {DIR_DEFAULT}"
    ));
    DIR_DEFAULT.into()
}

/// Whether files of `needed` bytes leave a quarter of the room to others.
fn fits(needed: u64, room: u64) -> bool {
    needed <= room / 4 * 3
}

/// Both policies, and what follows from them for the largest size.
fn measure_case(
    args: &LifoArgs,
    case: &Case,
    workplace: &Workplace,
    progress: &Progress,
    environment: &Environment,
) -> Result<Vec<Row>> {
    let [fifo, lifo] = POLICIES.map(|policy| measure_in(args, case, policy, workplace, progress));
    let (fifo, lifo) = (fifo?, lifo?);
    let measured = row(case, &fifo, &lifo, environment);
    let more = case.extrapolate.then(|| extrapolated(case, &lifo, environment));
    Ok(std::iter::once(measured).chain(more).collect())
}

/// A number of records of one size.
struct Case {
    record: &'static str,
    records: u64,
    value_bytes: usize,
    /// The largest of its size: what is larger is extrapolated from it.
    extrapolate: bool,
    free: u32,
    log: LogUse,
    /// Bytes of log after which a steady point is made; `None` is the engine's own choice.
    log_bytes: Option<u64>,
    /// Sizes of the simulated caches.
    cache_mb: [u64; 2],
}

impl Case {
    /// Bytes that the files of its database will not exceed: live records, free pages, half as much
    /// again, and logs.
    fn file_bytes_max(&self) -> u64 {
        let value_pages = if self.value_bytes > 1000 { (self.value_bytes as u64).div_ceil(PAGE_BYTES) + 1 } else { 0 };
        let in_leaf = if value_pages > 0 { 0 } else { self.value_bytes as u64 };
        let record = (KEY_BYTES + 16) as u64 + in_leaf + value_pages * PAGE_BYTES;
        let data = self.records * record * u64::from(1 + self.free);
        let files = data + data / 2;
        let log = self.log_bytes.unwrap_or((files / 2).clamp(LOG_BYTES_MIN, LOG_BYTES_MAX));
        files + 2 * log + (16 << 20)
    }

    /// Bytes of log after which the engine makes a steady point, by default or as configured, with
    /// `data_pages` pages in use.
    fn log_limit(&self, data_pages: f64) -> f64 {
        let file_bytes = data_pages * f64::from(1 + self.free) * PAGE_BYTES as f64;
        let own = (file_bytes / 2.0).clamp(LOG_BYTES_MIN as f64, LOG_BYTES_MAX as f64);
        self.log_bytes.map_or(own, |bytes| bytes as f64)
    }
}

fn cases(args: &LifoArgs) -> Result<Vec<Case>> {
    let mut records = without_repeats(&args.records);
    records.sort_unstable();
    if records.is_empty() {
        return Err(Error::usage("--records needs at least one number"));
    }
    for &count in &records {
        check_range("--records", count, 1, 1 << 31)?;
    }
    let logs = without_repeats(&args.log);
    if logs.is_empty() {
        return Err(Error::usage("--log needs at least one name"));
    }
    check_range("--value-size", args.value_size as u64, 1, 64 << 10)?;
    check_range("--free", args.free.into(), 0, 100)?;
    if let Some(bytes) = args.log_bytes {
        check_range("--log-bytes", bytes, 64 << 10, 1 << 30)?;
    }
    if let Some(txns) = args.txns {
        check_range("--txns", txns, 1, 1 << 30)?;
    }
    let last = *records.last().expect("there is at least one");
    let extrapolate = |count| count == last && (100_000..EXTRAPOLATED_RECORDS).contains(&count);
    let small = |log| {
        records.iter().map(move |&count| Case {
            record: "small",
            records: count,
            value_bytes: args.value_size,
            extrapolate: extrapolate(count),
            free: args.free,
            log,
            log_bytes: args.log_bytes,
            cache_mb: CACHE_MB,
        })
    };
    let page = |log| {
        records.iter().filter(|&&count| count <= args.page_records_max).map(move |&count| Case {
            record: "page",
            records: count,
            value_bytes: PAGE_VALUE_BYTES,
            extrapolate: false,
            free: args.free,
            log,
            log_bytes: args.log_bytes,
            cache_mb: CACHE_MB,
        })
    };
    Ok(logs.into_iter().flat_map(|log| small(log).chain(page(log))).collect())
}

fn failed(error: colibri::Error) -> Error {
    Error::engine(TargetName::Colibri, error)
}

fn measure_in(
    args: &LifoArgs,
    case: &Case,
    policy: FreeSpace,
    workplace: &Workplace,
    progress: &Progress,
) -> Result<Measured> {
    let policy_name = policy_name(policy);
    let what = format!("{} {} records {}, {policy_name}", whole(case.records as f64), case.record, case.log.name());
    progress.begin(&what);
    let dir = workplace.make(&format!("{}-{}-{policy_name}", case.records, case.record))?;
    let measured = measure(args, case, policy, &dir)?;
    workplace.remove(&dir)?;
    progress.line(&format!("{what}: {:.2} pages a transaction", measured.pages_per_txn));
    progress.advance();
    Ok(measured)
}

impl LogUse {
    fn name(self) -> &'static str {
        match self {
            Self::Without => "without log",
            Self::With => "with log",
        }
    }

    fn durability(self) -> Durability {
        match self {
            Self::Without => Durability::SyncNoLog,
            Self::With => Durability::Sync,
        }
    }
}

fn measure(args: &LifoArgs, case: &Case, policy: FreeSpace, dir: &Path) -> Result<Measured> {
    let sink = Arc::new(Mutex::new(Sink::new(case.cache_mb)));
    let lock = || sink.lock().unwrap_or_else(PoisonError::into_inner);
    let tracing = Arc::clone(&sink);
    let mut options = Options::new()
        .page_size(PAGE_BYTES as u32)
        .durability(case.log.durability())
        // Steady points come by the length of the log alone, so that the machine's speed does not
        // count.
        .log_period(LOG_PERIOD)
        .free_space(policy)
        .trace_writes(move |trace| tracing.lock().unwrap_or_else(PoisonError::into_inner).take(trace));
    if let Some(bytes) = case.log_bytes {
        options = options.log_bytes(bytes);
    }
    let database = Database::open(dir, &options).map_err(failed)?;
    let table = load(&database, case)?;
    let stat = table_stat(&database, &table)?;

    // Until every record's page has had its turn a few times, and so the caches hold what they hold
    // for good.
    let changing = stat.leaf_pages.max(stat.overflow_pages);
    let warm_up_txns = (3 * changing).clamp(1_000, 400_000);
    let txns = args.txns.unwrap_or(changing.clamp(2_000, 100_000));
    *lock() = Sink::new(case.cache_mb);
    let mut changes = Changes { random: args.seed, case, value: vec![0; case.value_bytes] };
    // So many, and with log on to the next steady point: a part of the way to one would be pages
    // without their price.
    let mut run = |txns: u64| -> Result<()> {
        for _ in 0..txns {
            changes.change(&database, &table)?;
        }
        let steady_points = lock().steady_points;
        while case.log == LogUse::With && lock().steady_points == steady_points {
            changes.change(&database, &table)?;
        }
        Ok(())
    };
    run(warm_up_txns)?;
    let warm_up_txns = lock().txns;
    lock().restart();
    run(txns)?;
    let sink = lock();
    let txns = sink.txns;
    let per_txn = |count: u64| count as f64 / sink.txns.max(1) as f64;
    let disk_per_txn = [0, 1].map(|index| per_txn(sink.caches[index].disk_writes));
    Ok(Measured {
        stat,
        pages_per_txn: per_txn(sink.pages),
        log_blocks_per_txn: per_txn(sink.log_blocks),
        txns_per_steady_point: txns as f64 / sink.steady_points.max(1) as f64,
        disk_per_txn,
        warm_up_txns,
        txns,
    })
}

/// Loads the records, and makes free pages by loading copies that it drops. The copies come first,
/// as the engine gives free pages at the end of the file back to the file system.
fn load(database: &Database, case: &Case) -> Result<Table> {
    let copies = (0..case.free).map(|copy| load_table(database, case, &format!("copy {copy}")));
    let copies = copies.collect::<Result<Vec<_>>>()?;
    let table = load_table(database, case, "records")?;
    for copy in copies {
        let mut txn = database.write().map_err(failed)?;
        txn.drop_table(&copy).map_err(failed)?;
        txn.commit().map_err(failed)?;
    }
    Ok(table)
}

fn load_table(database: &Database, case: &Case, name: &str) -> Result<Table> {
    let mut txn = database.write().map_err(failed)?;
    let table = txn.create_table(name, TableKind::Plain).map_err(failed)?;
    let mut value = vec![0; case.value_bytes];
    let entries = (0..case.records).map(|serial| {
        let key = key_of(serial);
        keys::write_value(&key, &mut value);
        (key, value.clone())
    });
    txn.load_sorted(&table, entries).map_err(failed)?;
    txn.commit().map_err(failed)?;
    Ok(table)
}

fn key_of(serial: u64) -> [u8; KEY_BYTES] {
    u128::from(serial).to_be_bytes()
}

fn table_stat(database: &Database, table: &Table) -> Result<TableStat> {
    let snapshot = database.read().map_err(failed)?;
    Ok(snapshot.view(table).map_err(failed)?.stat())
}

/// A random record after the other.
struct Changes<'a> {
    random: u64,
    case: &'a Case,
    value: Vec<u8>,
}

impl Changes<'_> {
    fn change(&mut self, database: &Database, table: &Table) -> Result<()> {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The high bits are the random ones.
        let serial = ((u128::from(self.random) * u128::from(self.case.records)) >> 64) as u64;
        let word = self.random.to_le_bytes();
        let length = self.value.len().min(word.len());
        self.value[..length].copy_from_slice(&word[..length]);
        let mut txn = database.write().map_err(failed)?;
        txn.put(table, &key_of(serial), &self.value).map_err(failed)?;
        txn.commit().map_err(failed)?;
        Ok(())
    }
}

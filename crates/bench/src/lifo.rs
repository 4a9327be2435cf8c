//! `colibri bench lifo`: what taking the page freed last saves behind a write-back cache, after the table of such an
//! experiment in a talk about MDBX, which introduced that order ("the original" below).
//!
//! ```text
//! for records ── without log, with log ── for policy
//!                  └─ open, load, load copies and drop them: much of the file is free
//!                     warm up, then measure: a random record a transaction, each block written goes to all caches
//! ```
//!
//! The blocks are those of the engine's own write trace, the caches are simulated, and the disk below them does nothing,
//! so the figures are counts, not times.
//!
//! - **Without log** each transaction is a steady point, whose pages and meta page are written before it returns.
//! - **With log** a transaction writes its record behind the one before it, in one of two files, and so the block of
//!   the file's end again and again. Pages and the meta page are written by steady points, each after as much log as
//!   the engine allows by itself or `--log-bytes` says, and the log goes on in the other file. What is measured begins and ends with a steady
//!   point.
//!
//! # Traps
//!
//! - **FIFO depends on how much is free.** It writes all free pages in turn: with few of them it does what LIFO does,
//!   and with more than the cache holds it finds none of them there. The original takes the latter for granted; here
//!   `--free` says how much is free.
//! - **The tree of the original has a record a page and 42 children a branch**, so that 74,088 records take 300 MB. Records of
//!   one page stand beside small ones for that reason, as far as they fit memory.
//! - **With log, a steady point is made beside the transactions**, which go on. So the figures differ a little from run
//!   to run; without log they come out the same everywhere.
//! - **The kernel may write pages before a steady point does.** That is not in the trace.
//! - **What is in the cache costs nothing.** Where the whole file fits it, the disk writes nothing, in either order.
//!
//! Not here: what the disk makes of the order of writes (`freespace`), and reads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use std::time::Duration;

use clap::{Args, ValueEnum};
use colibri::{Database, Durability, FreeSpace, Options, Table, TableKind, TableStat, WriteKind, WriteTrace};
use serde::Serialize;

use crate::freespace::policy_name;
use crate::kv::args::{DIR_DEFAULT, check_range, without_repeats};
use crate::kv::environment::Environment;
use crate::kv::keys;
use crate::kv::progress::Progress;
use crate::kv::report::{align, significant, whole};
use crate::kv::{Error, Result, TargetName};
use crate::plot::{Panel, Plot, Shape};
use crate::results::{self, ResultArgs, ResultFiles};
use crate::workplace::Workplace;

mod cache;

use cache::WriteBackCache;

const KEY_BYTES: usize = 16;
const PAGE_BYTES: u64 = 4096;
/// A value of this size gets a page of its own, beside the leaf that refers to it.
const PAGE_VALUE_BYTES: usize = 4000;
const CACHE_MB: [u64; 2] = [128, 512];
const POLICIES: [FreeSpace; 2] = [FreeSpace::Fifo, FreeSpace::Lifo];
/// The largest size of the original, 42 times its next.
const EXTRAPOLATED_RECORDS: u64 = 130_691_232;
/// Where the pages are kept while they are of interest to the simulated caches only.
const MEMORY_DIR: &str = "/dev/shm";
/// Between these the engine chooses the bytes of log after which it makes a steady point: an eighth of the file.
const LOG_BYTES_MIN: u64 = 4 << 20;
const LOG_BYTES_MAX: u64 = 64 << 20;
/// Longer than any run.
const LOG_PERIOD: Duration = Duration::from_secs(86_400);

/// Measure what taking the page freed last saves behind a write-back cache.
///
/// Repeats an experiment on write-back caches and LIFO reuse, from a talk about MDBX: pages rewritten by a transaction
/// that changes one random record, and the blocks that the disk below a battery-backed write-back cache of 128 MB and 512 MB has to write.
/// The blocks are those of the engine's write trace; the caches are simulated.
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
    /// Up to so many records are also measured with a page each, as in that experiment
    #[arg(long, default_value_t = 74_088)]
    pub page_records_max: u64,
    /// Transactions to measure, after as many as it takes to fill the caches [default: by the number of pages]
    #[arg(long)]
    pub txns: Option<u64>,
    /// Whether transactions go to the redo log
    #[arg(long, value_enum, value_delimiter = ',', default_value = "without,with")]
    pub log: Vec<LogUse>,
    /// Bytes of log after which a steady point is made [default: the engine's own: an eighth of the data, from 4 to 64 MiB]
    #[arg(long)]
    pub log_bytes: Option<u64>,
    /// Seed of the order in which records change
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Directory to make databases in; they are removed afterwards, and so is the directory if it is new
    /// [default: one in memory, if there is one]
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

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
struct Row {
    bench: &'static str,
    /// "small", or "page" for records with a page each.
    record: &'static str,
    records: u64,
    key_bytes: usize,
    value_bytes: usize,
    page_bytes: u64,
    /// Free pages, as a multiple of those in use.
    free: u32,
    /// Whether transactions went to the log.
    log: bool,
    extrapolated: bool,
    /// Pages of the table, all levels and values.
    data_pages: u64,
    depth: u32,
    /// Pages rewritten per transaction, meta page included; without log the same under both policies, with log those
    /// of LIFO.
    pages_per_txn: f64,
    /// Blocks of the log written per transaction, one written again counted again.
    log_blocks_per_txn: f64,
    txns_per_steady_point: f64,
    caches: Vec<CacheRow>,
    warm_up_txns: u64,
    txns: u64,
    notes: String,
    env: Environment,
}

/// Disk operations behind one cache.
#[derive(Debug, Clone, Copy, Serialize)]
struct CacheRow {
    cache_mb: u64,
    /// Blocks the disk wrote per transaction.
    fifo: f64,
    lifo: f64,
    /// How many times fewer they are with LIFO; `None` where it has none.
    fewer: Option<f64>,
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

/// Runs the benchmark: progress to standard error, results to standard output and to the files asked for.
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

/// A directory in memory if the largest database has room there, and one in the current directory if not.
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

/// Whether files of so many bytes leave a quarter of the room to others.
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
    /// Bytes that the files of its database will not exceed: live records, free pages, half as much again, and logs.
    fn file_bytes_max(&self) -> u64 {
        let value_pages = if self.value_bytes > 1000 { (self.value_bytes as u64).div_ceil(PAGE_BYTES) + 1 } else { 0 };
        let in_leaf = if value_pages > 0 { 0 } else { self.value_bytes as u64 };
        let record = (KEY_BYTES + 16) as u64 + in_leaf + value_pages * PAGE_BYTES;
        let data = self.records * record * u64::from(1 + self.free);
        data + data / 2 + 2 * self.log_bytes.unwrap_or(LOG_BYTES_MAX) + (16 << 20)
    }

    /// Bytes of log after which the engine makes a steady point, by itself or as it is told, with so many pages in use.
    fn log_limit(&self, data_pages: f64) -> f64 {
        let file_bytes = data_pages * f64::from(1 + self.free) * PAGE_BYTES as f64;
        let own = (file_bytes / 8.0).clamp(LOG_BYTES_MIN as f64, LOG_BYTES_MAX as f64);
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

/// Whose block it is. To the caches, blocks of different files are different blocks.
#[derive(Debug, Clone, Copy)]
enum Place {
    Data,
    /// One of the two files.
    Log(u32),
}

impl Place {
    const COUNT: u32 = 3;

    /// The caches' number of a block. The files take turns, so that numbers stay small.
    fn number(self, block: u32) -> u32 {
        let place = match self {
            Self::Data => 0,
            Self::Log(file) => 1 + file,
        };
        block * Self::COUNT + place
    }
}

/// What the engine writes goes here.
#[derive(Debug)]
struct Sink {
    caches: [WriteBackCache; CACHE_MB.len()],
    txns: u64,
    steady_points: u64,
    pages: u64,
    log_blocks: u64,
}

impl Sink {
    fn new(cache_mb: [u64; 2]) -> Self {
        let caches = cache_mb.map(|mb| WriteBackCache::new(mb << 20, PAGE_BYTES));
        Self { caches, txns: 0, steady_points: 0, pages: 0, log_blocks: 0 }
    }

    /// A commit reaches the disk as its record, if it has one; pages do with a steady point.
    fn take(&mut self, trace: &WriteTrace) {
        match trace.kind {
            WriteKind::Commit => {
                self.txns += 1;
                if let Some((file, bytes)) = &trace.log {
                    let blocks = bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES);
                    self.log_blocks += blocks.end - blocks.start;
                    blocks.for_each(|block| self.write(Place::Log(*file), block as u32));
                }
            }
            WriteKind::Steady => {
                let pages = trace.ranges.iter().flat_map(|&(start, pages)| start..start + pages);
                pages.for_each(|page| self.write(Place::Data, page));
                // The two meta pages in turn.
                self.write(Place::Data, (self.steady_points % 2) as u32);
                self.pages += trace.pages() + 1;
                self.steady_points += 1;
            }
        }
    }

    fn write(&mut self, place: Place, block: u32) {
        self.caches.iter_mut().for_each(|cache| cache.write(place.number(block)));
    }

    /// Forgets the counts and keeps what is in the caches.
    fn restart(&mut self) {
        (self.txns, self.steady_points, self.pages, self.log_blocks) = (0, 0, 0, 0);
        self.caches.iter_mut().for_each(|cache| cache.disk_writes = 0);
    }
}

fn measure(args: &LifoArgs, case: &Case, policy: FreeSpace, dir: &Path) -> Result<Measured> {
    let sink = Arc::new(Mutex::new(Sink::new(case.cache_mb)));
    let lock = || sink.lock().unwrap_or_else(PoisonError::into_inner);
    let tracing = Arc::clone(&sink);
    let mut options = Options::new()
        .page_size(PAGE_BYTES as u32)
        .durability(case.log.durability())
        // Steady points come by the length of the log alone, so that the machine's speed does not count.
        .log_period(LOG_PERIOD)
        .free_space(policy)
        .trace_writes(move |trace| tracing.lock().unwrap_or_else(PoisonError::into_inner).take(trace));
    if let Some(bytes) = case.log_bytes {
        options = options.log_bytes(bytes);
    }
    let database = Database::open(dir, &options).map_err(failed)?;
    let table = load(&database, case)?;
    let stat = table_stat(&database, &table)?;

    // Until every record's page has had its turn a few times, and so the caches hold what they hold for good.
    let changing = stat.leaf_pages.max(stat.overflow_pages);
    let warm_up_txns = (3 * changing).clamp(1_000, 400_000);
    let txns = args.txns.unwrap_or(changing.clamp(2_000, 100_000));
    *lock() = Sink::new(case.cache_mb);
    let mut changes = Changes { random: args.seed, case, value: vec![0; case.value_bytes] };
    // So many, and with log on to the next steady point: a part of the way to one would be pages without their price.
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

/// Loads the records, and makes free pages by loading copies that it drops. The copies come first, as the engine gives
/// free pages at the end of the file back to the file system.
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

fn fewer(fifo: f64, lifo: f64) -> Option<f64> {
    (lifo > 0.0).then(|| fifo / lifo)
}

fn row(case: &Case, fifo: &Measured, lifo: &Measured, environment: &Environment) -> Row {
    let caches = [0, 1].map(|index| {
        let (fifo, lifo) = (fifo.disk_per_txn[index], lifo.disk_per_txn[index]);
        CacheRow { cache_mb: case.cache_mb[index], fifo, lifo, fewer: fewer(fifo, lifo) }
    });
    Row {
        bench: "lifo",
        record: case.record,
        records: case.records,
        key_bytes: KEY_BYTES,
        value_bytes: case.value_bytes,
        page_bytes: PAGE_BYTES,
        free: case.free,
        log: case.log == LogUse::With,
        extrapolated: false,
        data_pages: lifo.stat.leaf_pages + lifo.stat.branch_pages + lifo.stat.overflow_pages,
        depth: lifo.stat.depth,
        pages_per_txn: lifo.pages_per_txn,
        log_blocks_per_txn: lifo.log_blocks_per_txn,
        txns_per_steady_point: lifo.txns_per_steady_point,
        caches: caches.to_vec(),
        warm_up_txns: lifo.warm_up_txns,
        txns: lifo.txns,
        notes: format!("{}; {NOTE}", note(case.log == LogUse::With)),
        env: environment.clone(),
    }
}

const NOTE: &str = "a disk operation is one block of 4 KiB that the simulated cache writes back, neighbours not joined";

fn note(log: bool) -> &'static str {
    match log {
        false => "without log: every transaction is a steady point that writes its pages and one meta page",
        true => {
            "with log: every transaction writes its record, steady points in the background write pages and one meta \
             page"
        }
    }
}

fn extrapolation(log: bool) -> &'static str {
    match log {
        false => {
            "without log, extrapolated from the line before it, not measured: the same number of records a leaf and of \
             children a branch; FIFO misses the cache with all but the meta page; LIFO misses it with the part of a \
             level of the tree that the cache does not hold beside the levels above"
        }
        true => {
            "with log, extrapolated from the line before it, not measured: the same tree, records in the log as long, \
             and of each level the pages that as many random changes touch as there are to a steady point; FIFO \
             misses the cache with all but the meta page; LIFO hits it with what was written so few steady points \
             ago that all written since fits the cache; a block of the log is missed where two steady points do not"
        }
    }
}

/// How many of the pages that a transaction rewrites, one on each level, the cache does not hold. The levels come from
/// the leaves upwards; what is higher is written more often, and so stays.
fn lifo_misses(levels: &[f64], cache_pages: f64) -> f64 {
    let mut left = cache_pages;
    let mut misses = 0.0;
    for pages in levels.iter().rev() {
        misses += (1.0 - left / pages).max(0.0);
        left = (left - pages).max(0.0);
    }
    misses
}

/// Pages on each level of a tree, from the leaves upwards.
fn levels(leaves: f64, children: f64) -> Vec<f64> {
    let mut levels = vec![leaves];
    while levels[levels.len() - 1] > 1.0 {
        levels.push((levels[levels.len() - 1] / children).ceil());
    }
    levels
}

/// How many pages of each level so many changes of random records touch.
fn touched(levels: &[f64], txns: f64) -> Vec<f64> {
    levels.iter().map(|pages| pages * (1.0 - (1.0 - 1.0 / pages).powf(txns))).collect()
}

/// A size that is not measured, with log.
struct WithLog {
    levels: Vec<f64>,
    txns_per_steady_point: f64,
    pages_per_txn: f64,
    /// Blocks of the log per transaction, those written several times counted once.
    new_log_blocks_per_txn: f64,
}

impl WithLog {
    fn new(case: &Case, lifo: &Measured, measured: &[f64], levels: Vec<f64>) -> Self {
        let sum = |levels: &[f64]| levels.iter().sum::<f64>();
        let growth = case.log_limit(sum(&levels)) / case.log_limit(sum(measured));
        let txns = lifo.txns_per_steady_point * growth;
        let touched_then = sum(&touched(measured, lifo.txns_per_steady_point)) / lifo.txns_per_steady_point;
        let touched_now = sum(&touched(&levels, txns)) / txns;
        Self {
            levels,
            txns_per_steady_point: txns,
            pages_per_txn: lifo.pages_per_txn * touched_now / touched_then,
            // A record that begins anywhere touches one block, and one more for each block of its length.
            new_log_blocks_per_txn: (lifo.log_blocks_per_txn - 1.0).max(0.0),
        }
    }

    /// Disk operations per transaction with FIFO and with LIFO.
    fn disk_per_txn(&self, cache_pages: f64) -> [f64; 2] {
        let txns = self.txns_per_steady_point;
        let blocks = (self.pages_per_txn + self.new_log_blocks_per_txn) * txns;
        // How many times all that one steady point and its log write fits the cache.
        let periods = cache_pages / blocks;
        // The two files of the log take turns.
        let log = if periods < 2.0 { self.new_log_blocks_per_txn } else { 0.0 };
        let pages = self.pages_per_txn - 1.0 / txns;
        let touched = touched(&self.levels, txns);
        let misses = self.levels.iter().zip(&touched).map(|(pages, touched)| {
            // A page that is freed now, and taken by the next steady point, was written by one of those before.
            let rests = (1.0 - touched / pages).max(0.0);
            if periods > 1.0 { touched * rests.powf(periods - 1.0) } else { *touched }
        });
        let share = misses.sum::<f64>() / touched.iter().sum::<f64>();
        [pages + log, pages * share + log]
    }
}

/// The largest size, from the tree of a smaller one.
fn extrapolated(case: &Case, lifo: &Measured, environment: &Environment) -> Row {
    let stat = &lifo.stat;
    let leaves_now = stat.leaf_pages as f64;
    let leaves = leaves_now * EXTRAPOLATED_RECORDS as f64 / case.records as f64;
    // Children of a branch: what makes the measured number of branches of the measured number of leaves.
    let children = 1.0 + (stat.leaf_pages.max(2) - 1) as f64 / stat.branch_pages.max(1) as f64;
    let levels = levels(leaves, children);
    // Beside the table's levels: the catalogue, the meta page, now and then the free map.
    let others = lifo.pages_per_txn - f64::from(stat.depth);
    let data_pages = levels.iter().sum::<f64>() as u64;
    let depth = levels.len() as u32;
    let log = case.log == LogUse::With;
    let with_log = log.then(|| WithLog::new(case, lifo, &self::levels(leaves_now, children), levels.clone()));
    let pages_per_txn = with_log.as_ref().map_or(levels.len() as f64 + others, |with_log| with_log.pages_per_txn);
    let caches = case.cache_mb.map(|cache_mb| {
        let cache_pages = (cache_mb << 20) as f64 / PAGE_BYTES as f64;
        let [fifo, lifo] = match &with_log {
            Some(with_log) => with_log.disk_per_txn(cache_pages),
            None => [pages_per_txn - 1.0, lifo_misses(&levels, cache_pages)],
        };
        CacheRow { cache_mb, fifo, lifo, fewer: fewer(fifo, lifo) }
    });
    Row {
        bench: "lifo",
        record: case.record,
        records: EXTRAPOLATED_RECORDS,
        key_bytes: KEY_BYTES,
        value_bytes: case.value_bytes,
        page_bytes: PAGE_BYTES,
        free: case.free,
        log,
        extrapolated: true,
        data_pages,
        depth,
        pages_per_txn,
        log_blocks_per_txn: lifo.log_blocks_per_txn,
        txns_per_steady_point: with_log.map_or(1.0, |with_log| with_log.txns_per_steady_point),
        caches: caches.to_vec(),
        warm_up_txns: 0,
        txns: 0,
        notes: format!("{}; {}; {NOTE}", extrapolation(log), note(log)),
        env: environment.clone(),
    }
}

fn print(environment: &Environment, rows: &[Row]) {
    results::print_heading(environment);
    println!("\n{}", table(rows));
    println!(
        "note: FIFO, LIFO: blocks a transaction that the disk below the cache writes; fewer: FIFO / LIFO, - without any"
    );
    for log in [false, true] {
        if rows.iter().any(|row| row.log == log) {
            println!("note: {}", note(log));
        }
    }
    println!("note: {NOTE}");
    println!("note: free pages: {} times those in use", rows.first().map_or(0, |row| row.free));
    for log in [false, true] {
        if rows.iter().any(|row| row.extrapolated && row.log == log) {
            println!("note: *: {}", extrapolation(log));
        }
    }
}

fn table(rows: &[Row]) -> String {
    let mut headings: Vec<String> =
        ["record", "log", "records", "data MB", "depth", "pages/txn", "log blocks/txn"].map(str::to_owned).to_vec();
    for mb in CACHE_MB {
        headings.extend([format!("{mb} MB: FIFO"), "LIFO".to_owned(), "fewer".to_owned()]);
    }
    let mut cells = vec![headings];
    for row in rows {
        let mark = if row.extrapolated { "*" } else { "" };
        let log = if row.log { "with" } else { "without" };
        let mut line = vec![row.record.to_owned(), log.to_owned(), format!("{}{mark}", whole(row.records as f64))];
        line.push(significant((row.data_pages * PAGE_BYTES) as f64 / 1e6));
        line.push(row.depth.to_string());
        line.extend([row.pages_per_txn, row.log_blocks_per_txn].map(significant));
        for cache in &row.caches {
            line.extend([format!("{:.3}", cache.fifo), format!("{:.3}", cache.lifo)]);
            line.push(cache.fewer.map_or("-".to_owned(), |times| format!("{times:.2}x")));
        }
        cells.push(line);
    }
    align(&cells, 2)
}

fn plot(rows: &[Row]) -> Plot {
    let name = |row: &Row| {
        let mark = if row.extrapolated { "*" } else { "" };
        let kind = if row.record == "page" { "\nof a page" } else { "" };
        format!("{}{mark}{kind}", whole(row.records as f64))
    };
    let mut panels = Vec::new();
    for log in [LogUse::Without, LogUse::With] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.log == (log == LogUse::With)).collect();
        if rows.is_empty() {
            continue;
        }
        let log_name = log.name();
        let mut panel = |title: String, series: Vec<(&str, Vec<f64>)>| {
            panels.push(Panel {
                title,
                shape: Shape::Bars(rows.iter().map(|row| name(row)).collect()),
                logarithmic: false,
                series: series.into_iter().map(|(name, values)| (name.to_owned(), values)).collect(),
            });
        };
        let of = |of: fn(&Row) -> f64| rows.iter().map(|row| of(row)).collect::<Vec<_>>();
        let mut blocks = vec![("pages", of(|row| row.pages_per_txn))];
        if log == LogUse::With {
            blocks.push(("log", of(|row| row.log_blocks_per_txn)));
        }
        panel(format!("{log_name}: blocks of 4 KiB written a transaction, by LIFO"), blocks);
        for (index, mb) in CACHE_MB.iter().enumerate() {
            let of = |of: fn(&CacheRow) -> f64| rows.iter().map(|row| of(&row.caches[index])).collect::<Vec<_>>();
            let series = vec![("FIFO", of(|cache| cache.fifo)), ("LIFO", of(|cache| cache.lifo))];
            panel(format!("{log_name}: disk operations a transaction behind a cache of {mb} MB"), series);
        }
    }
    Plot { title: "FIFO and LIFO behind a write-back cache (* extrapolated)".to_owned(), panels }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn a_file_that_fits_the_caches_costs_the_disk_nothing() {
        let outer = directory();
        let mut args: LifoArgs = parse("--records 42,1764 --txns 300 --log without").unwrap();
        args.dir = Some(outer.path().join("data"));
        args.output.json = Some(outer.path().join("results.json"));
        args.output.svg = Some(outer.path().join("results.svg"));
        run(&args).unwrap();
        let json = std::fs::read_to_string(args.output.json.unwrap()).unwrap();
        let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
        assert_eq!(rows.len(), 4);
        for row in &rows {
            // The leaf, the catalogue, the meta page at least.
            assert!(row["pages_per_txn"].as_f64().unwrap() >= 3.0, "{row}");
            assert_eq!(row["caches"][0]["lifo"], 0.0);
            assert_eq!(row["caches"][1]["fifo"], 0.0);
        }
        assert!(std::fs::read_to_string(args.output.svg.unwrap()).unwrap().contains("512 MB"));
    }

    /// In memory, where there is some to write to, and not shared: tests run at the same time.
    fn directory() -> tempfile::TempDir {
        tempfile::tempdir_in(MEMORY_DIR).or_else(|_| tempfile::tempdir()).unwrap()
    }

    fn one_case(flags: &str, outer: &Path) -> (LifoArgs, Case, Workplace) {
        let args: LifoArgs = parse(flags).unwrap();
        let mut cases = cases(&args).unwrap();
        let workplace = Workplace::new(outer, false).unwrap();
        assert_eq!(cases.len(), 1);
        (args, cases.remove(0), workplace)
    }

    #[test]
    fn data_larger_than_the_cache_costs_the_disk_less_with_lifo() {
        let outer = directory();
        let flags = "--records 20000 --log without --page-records-max 0 --txns 1000";
        let (args, mut case, workplace) = one_case(flags, outer.path());
        // Leaves take some 3 MB, free pages twice that.
        case.cache_mb = [1, 2];
        let environment = Environment::observe(workplace.dir());
        let rows = measure_case(&args, &case, &workplace, &Progress::silent(), &environment).unwrap();
        let [row] = &rows[..] else { panic!("one row") };
        for cache in &row.caches {
            // FIFO comes back to a page after all the free ones, and so never finds it in the cache.
            assert!(cache.fifo > row.pages_per_txn - 1.1, "{row:?}");
            assert!(cache.lifo < 0.6 * cache.fifo && cache.fewer.is_some_and(|times| times > 1.6), "{row:?}");
        }
        assert!(row.caches[0].lifo > row.caches[1].lifo, "a larger cache saves more: {row:?}");
    }

    #[test]
    fn with_log_each_transaction_writes_its_record_and_steady_points_write_pages() {
        let outer = directory();
        let flags = "--records 1764 --txns 300 --log with --log-bytes 65536 --page-records-max 0";
        let (args, case, workplace) = one_case(flags, outer.path());
        let case = &case;
        let measured = measure_in(&args, case, FreeSpace::Lifo, &workplace, &Progress::silent()).unwrap();
        // A record of some 200 bytes is in one block, sometimes in two.
        assert!((1.0..1.5).contains(&measured.log_blocks_per_txn), "{}", measured.log_blocks_per_txn);
        // Many transactions to a steady point, which writes each page that they changed once.
        assert!(measured.txns_per_steady_point >= 100.0, "{}", measured.txns_per_steady_point);
        assert!(measured.pages_per_txn > 0.0 && measured.pages_per_txn < 1.0, "{}", measured.pages_per_txn);
    }

    #[test]
    fn a_record_is_written_to_every_block_it_touches_and_the_files_are_apart() {
        let commit = |file, bytes| WriteTrace {
            kind: WriteKind::Commit,
            txn: colibri::TxnId(1),
            page_size: PAGE_BYTES as u32,
            ranges: vec![(2, 3)],
            leaves: 3,
            branches: 0,
            overflow: 0,
            free_map: 0,
            log: Some((file, bytes)),
        };
        let mut sink = Sink::new(CACHE_MB);
        sink.take(&commit(0, 4000..4200));
        sink.take(&commit(0, 4200..8192));
        sink.take(&commit(1, 0..100));
        assert_eq!((sink.txns, sink.log_blocks, sink.pages), (3, 4, 0));
        sink.take(&WriteTrace { kind: WriteKind::Steady, log: None, ..commit(0, 0..0) });
        assert_eq!((sink.txns, sink.pages, sink.steady_points), (3, 4, 1));
        let numbers = [Place::Data, Place::Log(0), Place::Log(1)].map(|place| place.number(5));
        assert_eq!(numbers, [15, 16, 17]);
    }

    #[test]
    fn wrong_flags_say_what_would_be_right() {
        let error = |flags: &str| cases(&parse(flags).unwrap()).err().unwrap().to_string();
        assert!(error("--records 0").contains("--records is 0, but must be from 1"));
        assert!(error("--value-size 0").contains("--value-size"));
        assert!(error("--txns 0").contains("--txns"));
        assert!(error("--free 101").contains("--free"));
        assert!(error("--log-bytes 5").contains("--log-bytes is 5, but must be from 65536"));
    }

    /// A tree of 1,000 leaves, from which the largest size would have 96,000.
    fn made_up(log: LogUse) -> (Case, Measured) {
        let case = Case {
            record: "small",
            records: EXTRAPOLATED_RECORDS / 96,
            value_bytes: 128,
            extrapolate: true,
            free: 2,
            log,
            log_bytes: Some(1 << 20),
            cache_mb: CACHE_MB,
        };
        let stat = TableStat {
            kind: TableKind::Plain,
            entries: case.records,
            depth: 3,
            leaf_pages: 1000,
            branch_pages: 11,
            overflow_pages: 0,
        };
        let measured = Measured {
            stat,
            pages_per_txn: 5.0,
            log_blocks_per_txn: 0.0,
            txns_per_steady_point: 1.0,
            disk_per_txn: [4.0, 1.0],
            warm_up_txns: 1,
            txns: 1,
        };
        (case, measured)
    }

    #[test]
    fn the_largest_size_has_the_levels_of_its_leaves_and_misses_where_they_exceed_the_cache() {
        let (case, measured) = made_up(LogUse::Without);
        let row = extrapolated(&case, &measured, &Environment::observe(Path::new(".")));
        // 91.8 children a branch: 96,000 leaves below 1,046, 12 and 1 branches; beside the path two pages, as before.
        assert_eq!((row.records, row.depth, row.data_pages), (EXTRAPOLATED_RECORDS, 4, 97_059));
        assert_eq!((row.pages_per_txn, row.txns_per_steady_point), (6.0, 1.0));
        let [small, large] = &row.caches[..] else { panic!("two caches") };
        // 128 MB are 32,768 pages: the branches and 31,709 leaves. 512 MB hold everything.
        assert_eq!((small.cache_mb, small.fifo), (128, 5.0));
        assert!((small.lifo - (1.0 - 31_709.0 / 96_000.0)).abs() < 1e-9, "{small:?}");
        assert!((small.fewer.unwrap() - 5.0 / small.lifo).abs() < 1e-9, "{small:?}");
        assert_eq!((large.fifo, large.lifo, large.fewer), (5.0, 0.0, None));
    }

    #[test]
    fn with_log_the_largest_size_touches_more_pages_and_misses_with_what_rests_too_long() {
        let (case, mut measured) = made_up(LogUse::With);
        // In 1,000 leaves, 1,000 changes touch 632, all 11 or 12 above and the root.
        let touched = 1000.0 * (1.0 - (0.999_f64).powi(1000)) + 12.0;
        measured.txns_per_steady_point = 1000.0;
        measured.pages_per_txn = touched / 1000.0;
        measured.log_blocks_per_txn = 1.05;
        let row = extrapolated(&case, &measured, &Environment::observe(Path::new(".")));
        assert!(row.log && row.extrapolated && row.txns_per_steady_point == 1000.0, "{row:?}");
        // In 96,000 leaves nearly each change has a leaf of its own (995), below 644 of the 1,046, 12 and 1 branches.
        assert!((row.pages_per_txn - 1.652).abs() < 0.005, "{row:?}");
        let [small, large] = &row.caches[..] else { panic!("two caches") };
        // Some 1,700 blocks a period: the caches hold 19 and 77 of them, and with that both files of the log.
        for cache in [small, large] {
            assert!((cache.fifo - (row.pages_per_txn - 0.001)).abs() < 1e-9, "{cache:?}");
        }
        // Leaves rest 96 periods in the mean, branches less than 2.
        assert!((small.lifo - 0.995 * (1.0 - 1.0 / 96.5_f64).powf(18.25)).abs() < 0.01, "{small:?}");
        assert!((large.lifo - 0.995 * (1.0 - 1.0 / 96.5_f64).powf(76.0)).abs() < 0.01, "{large:?}");

        // Where the cache does not hold what one steady point writes, the order makes no difference.
        measured.txns_per_steady_point = 1e6;
        measured.pages_per_txn = 0.001;
        let row = extrapolated(&case, &measured, &Environment::observe(Path::new(".")));
        let cache = row.caches[0];
        assert!(cache.fifo > 0.05 && (cache.fifo - cache.lifo).abs() < 1e-9, "{cache:?}");
    }

    #[test]
    fn a_database_is_made_in_memory_only_where_it_leaves_room() {
        let (case, _) = made_up(LogUse::Without);
        let large = Case { value_bytes: 4000, ..made_up(LogUse::Without).0 };
        let raw = |case: &Case| case.records * (KEY_BYTES + case.value_bytes) as u64 * 3;
        assert!(case.file_bytes_max() > raw(&case) && large.file_bytes_max() > raw(&large));
        assert!(fits(3 << 30, 4 << 30) && !fits(3 << 30, (4 << 30) - 4) && !fits(1, 0));
    }

    #[test]
    fn what_is_extrapolated_misses_on_the_lowest_levels() {
        assert_eq!(lifo_misses(&[1000.0, 10.0, 1.0], 511.0), 0.5);
        assert_eq!(lifo_misses(&[1000.0, 10.0, 1.0], 5000.0), 0.0);
        assert_eq!(lifo_misses(&[1000.0, 10.0, 1.0], 6.0), 1.5);
    }
}

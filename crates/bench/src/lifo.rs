//! `colibri bench lifo`: what taking the page freed last saves behind a write-back cache, after the table of the talk
//! that introduced it.
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
//!   and with more than the cache holds it finds none of them there. The talk takes the latter for granted; here
//!   `--free` says how much is free.
//! - **The talk's tree has a record a page and 42 children a branch**, so that 74,088 records take 300 MB. Records of
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
use crate::results;
use crate::workplace::Workplace;

mod cache;

use cache::WriteBackCache;

const KEY_BYTES: usize = 16;
const PAGE_BYTES: u64 = 4096;
/// A value of this size gets a page of its own, beside the leaf that refers to it.
const PAGE_VALUE_BYTES: usize = 4000;
const CACHE_MB: [u64; 2] = [128, 512];
const POLICIES: [FreeSpace; 2] = [FreeSpace::Fifo, FreeSpace::Lifo];
/// The talk's largest size, 42 times its next.
const EXTRAPOLATED_RECORDS: u64 = 130_691_232;
/// Where the pages are kept while they are of interest to the simulated caches only.
const MEMORY_DIR: &str = "/dev/shm";
/// Longer than any run.
const LOG_PERIOD: Duration = Duration::from_secs(86_400);

/// Measure what taking the page freed last saves behind a write-back cache.
///
/// Reproduces the table of the talk that introduced LIFO: pages rewritten by a transaction that changes one random
/// record, and the blocks that the disk below a battery-backed write-back cache of 128 MB and 512 MB has to write.
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
    /// Up to so many records are also measured with a page each, as in the talk
    #[arg(long, default_value_t = 74_088)]
    pub page_records_max: u64,
    /// Transactions to measure, after as many as it takes to fill the caches [default: by the number of pages]
    #[arg(long)]
    pub txns: Option<u64>,
    /// Whether transactions go to the redo log
    #[arg(long, value_enum, value_delimiter = ',', default_value = "without,with")]
    pub log: Vec<LogUse>,
    /// Bytes of log after which a steady point is made [default: the engine's own: half of the data, from 4 to 64 MiB]
    #[arg(long)]
    pub log_bytes: Option<u64>,
    /// Seed of the order in which records change
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Directory to make databases in; they are removed afterwards, and so is the directory if it is new
    /// [default: one in memory, if there is one]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// File to write the results to, as a JSON array
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// File to plot the results to, as an SVG picture
    #[arg(long)]
    pub svg: Option<PathBuf>,
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
    results::ensure_writable(args.json.iter().chain(&args.svg))?;
    let dir = args.dir.clone().unwrap_or_else(dir_default);
    let progress = Progress::new(cases.len() as u64 * POLICIES.len() as u64);
    let workplace = Workplace::new(&dir, false)?;
    let environment = Environment::observe(workplace.dir());
    let mut rows = Vec::new();
    let measured = cases.iter().try_for_each(|case| {
        let [fifo, lifo] = POLICIES.map(|policy| measure_in(args, case, policy, &workplace, &progress));
        let (fifo, lifo) = (fifo?, lifo?);
        rows.push(row(case, &fifo, &lifo, &environment));
        rows.extend(case.extrapolate.then(|| extrapolated(case, &lifo, &environment)));
        Ok(())
    });
    progress.finish();
    measured?;
    print(&environment, &rows);
    if let Some(path) = &args.json {
        results::write_json(path, &rows)?;
    }
    if let Some(path) = &args.svg {
        results::write_svg(path, &plot(&rows))?;
    }
    Ok(())
}

fn dir_default() -> PathBuf {
    let memory = Path::new(MEMORY_DIR);
    if memory.is_dir() { memory.join(DIR_DEFAULT) } else { DIR_DEFAULT.into() }
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
            extrapolate: log == LogUse::Without && extrapolate(count),
            free: args.free,
            log,
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
    fn new() -> Self {
        let caches = CACHE_MB.map(|mb| WriteBackCache::new(mb << 20, PAGE_BYTES));
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
    let sink = Arc::new(Mutex::new(Sink::new()));
    let lock = || sink.lock().unwrap_or_else(PoisonError::into_inner);
    let tracing = Arc::clone(&sink);
    let mut options = Options::new()
        .page_size(PAGE_BYTES as u32)
        .durability(case.log.durability())
        // Steady points come by the length of the log alone, so that the machine's speed does not count.
        .log_period(LOG_PERIOD)
        .free_space(policy)
        .trace_writes(move |trace| tracing.lock().unwrap_or_else(PoisonError::into_inner).take(trace));
    if let Some(bytes) = args.log_bytes {
        options = options.log_bytes(bytes);
    }
    let database = Database::open(dir, &options).map_err(failed)?;
    let table = load(&database, case)?;
    let stat = table_stat(&database, &table)?;

    // Until every record's page has had its turn a few times, and so the caches hold what they hold for good.
    let changing = stat.leaf_pages.max(stat.overflow_pages);
    let warm_up_txns = (3 * changing).clamp(1_000, 400_000);
    let txns = args.txns.unwrap_or(changing.clamp(2_000, 100_000));
    *lock() = Sink::new();
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

/// Loads the records, and makes free pages by loading copies that it drops.
fn load(database: &Database, case: &Case) -> Result<Table> {
    let table = load_table(database, case, "records")?;
    let copies = (0..case.free).map(|copy| load_table(database, case, &format!("copy {copy}")));
    for copy in copies.collect::<Result<Vec<_>>>()? {
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
        CacheRow { cache_mb: CACHE_MB[index], fifo, lifo, fewer: fewer(fifo, lifo) }
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

const EXTRAPOLATION: &str = "extrapolated from the line before it, not measured: the same number of records a leaf and \
                             of children a branch; FIFO misses the cache with all but the meta page; LIFO misses it \
                             with the part of a level of the tree that the cache does not hold beside the levels above";

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

/// The talk's largest size, from the tree of a smaller one.
fn extrapolated(case: &Case, lifo: &Measured, environment: &Environment) -> Row {
    let stat = &lifo.stat;
    let leaves = stat.leaf_pages as f64 * EXTRAPOLATED_RECORDS as f64 / case.records as f64;
    // Children of a branch: what makes the measured number of branches of the measured number of leaves.
    let children = 1.0 + (stat.leaf_pages.max(2) - 1) as f64 / stat.branch_pages.max(1) as f64;
    let mut levels = vec![leaves];
    while levels[levels.len() - 1] > 1.0 {
        levels.push((levels[levels.len() - 1] / children).ceil());
    }
    // Beside the table's levels: the catalogue, the meta page, now and then the free map.
    let others = lifo.pages_per_txn - f64::from(stat.depth);
    let pages_per_txn = levels.len() as f64 + others;
    let caches = CACHE_MB.map(|cache_mb| {
        let cache_pages = (cache_mb << 20) as f64 / PAGE_BYTES as f64;
        let fifo = pages_per_txn - 1.0;
        let lifo = lifo_misses(&levels, cache_pages);
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
        log: false,
        extrapolated: true,
        data_pages: levels.iter().sum::<f64>() as u64,
        depth: levels.len() as u32,
        pages_per_txn,
        log_blocks_per_txn: 0.0,
        txns_per_steady_point: 1.0,
        caches: caches.to_vec(),
        warm_up_txns: 0,
        txns: 0,
        notes: format!("{EXTRAPOLATION}; {}; {NOTE}", note(false)),
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
    if rows.iter().any(|row| row.extrapolated) {
        println!("note: *: {EXTRAPOLATION}");
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
        let outer = tempfile::tempdir().unwrap();
        let mut args: LifoArgs = parse("--records 42,1764 --txns 300 --log without").unwrap();
        args.json = Some(outer.path().join("results.json"));
        args.svg = Some(outer.path().join("results.svg"));
        run(&args).unwrap();
        let json = std::fs::read_to_string(args.json.unwrap()).unwrap();
        let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
        assert_eq!(rows.len(), 4);
        for row in &rows {
            // The leaf, the catalogue, the meta page at least.
            assert!(row["pages_per_txn"].as_f64().unwrap() >= 3.0, "{row}");
            assert_eq!(row["caches"][0]["lifo"], 0.0);
            assert_eq!(row["caches"][1]["fifo"], 0.0);
        }
        assert!(std::fs::read_to_string(args.svg.unwrap()).unwrap().contains("512 MB"));
    }

    #[test]
    fn with_log_each_transaction_writes_its_record_and_steady_points_write_pages() {
        let workplace = Workplace::new(&dir_default(), false).unwrap();
        let args: LifoArgs =
            parse("--records 1764 --txns 300 --log with --log-bytes 65536 --page-records-max 0").unwrap();
        let [case] = &cases(&args).unwrap()[..] else { panic!("one case") };
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
        let mut sink = Sink::new();
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

    #[test]
    fn what_is_extrapolated_misses_on_the_lowest_levels() {
        assert_eq!(lifo_misses(&[1000.0, 10.0, 1.0], 511.0), 0.5);
        assert_eq!(lifo_misses(&[1000.0, 10.0, 1.0], 5000.0), 0.0);
        assert_eq!(lifo_misses(&[1000.0, 10.0, 1.0], 6.0), 1.5);
    }
}

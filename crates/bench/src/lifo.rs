//! `colibri bench lifo`: what taking the page freed last saves behind a write-back cache, after the table of the talk
//! that introduced it.
//!
//! ```text
//! for records ── for policy
//!                  └─ open, load, load copies and drop them: much of the file is free
//!                     warm up, then measure: a random record a transaction, each page written goes to all caches
//! ```
//!
//! The pages are those of the engine's own write trace, the caches are simulated, and the disk below them does nothing,
//! so the figures are counts, not times, and come out the same everywhere. Each transaction is a steady point without
//! log, whose pages and meta page are written before it returns.
//!
//! # Traps
//!
//! - **FIFO depends on how much is free.** It writes all free pages in turn: with few of them it does what LIFO does,
//!   and with more than the cache holds it finds none of them there. The talk takes the latter for granted; here
//!   `--free` says how much is free.
//! - **The talk's tree has a record a page and 42 children a branch**, so that 74,088 records take 300 MB. Records of
//!   one page stand beside small ones for that reason, as far as they fit memory.
//! - **What is in the cache costs nothing.** Where the whole file fits it, the disk writes nothing, in either order.
//!
//! Not here: what the disk makes of the order of writes (`freespace`), and reads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use colibri::{Database, Durability, FreeSpace, Options, Table, TableKind, TableStat, WriteKind};
use serde::Serialize;

use crate::freespace::{policy_name, write_svg};
use crate::kv::args::{DIR_DEFAULT, check_range, without_repeats};
use crate::kv::environment::Environment;
use crate::kv::keys;
use crate::kv::progress::Progress;
use crate::kv::report::{align, significant, whole};
use crate::kv::runner::Workplace;
use crate::kv::{self, Error, Result, TargetName};
use crate::plot::{Panel, Plot, Shape};

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

/// Measure what taking the page freed last saves behind a write-back cache.
///
/// Reproduces the table of the talk that introduced LIFO: pages rewritten by a transaction that changes one random
/// record, and the pages that the disk below a battery-backed write-back cache of 128 MB and 512 MB has to write.
/// The pages are those of the engine's write trace; the caches are simulated.
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
    extrapolated: bool,
    /// Pages of the table, all levels and values.
    data_pages: u64,
    depth: u32,
    /// Pages rewritten per transaction, meta page included; the same under both policies.
    pages_per_txn: f64,
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
    /// Pages the disk wrote per transaction.
    fifo: f64,
    lifo: f64,
    /// How many times fewer they are with LIFO; `None` where it has none.
    fewer: Option<f64>,
}

/// What one policy did.
struct Measured {
    stat: TableStat,
    pages_per_txn: f64,
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
    for path in args.json.iter().chain(&args.svg) {
        kv::ensure_writable(path)?;
    }
    let memory = Path::new(MEMORY_DIR);
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None if memory.is_dir() => memory.join(DIR_DEFAULT),
        None => DIR_DEFAULT.into(),
    };
    let progress = Progress::new(cases.len() as u64 * POLICIES.len() as u64);
    let workplace = Workplace::new(&dir, false)?;
    let environment = Environment::observe(workplace.dir());
    let mut rows = Vec::new();
    for case in &cases {
        let [fifo, lifo] = [
            measure_in(args, case, POLICIES[0], &workplace, &progress)?,
            measure_in(args, case, POLICIES[1], &workplace, &progress)?,
        ];
        rows.push(row(case, &fifo, &lifo, &environment));
        if case.extrapolate {
            rows.push(extrapolated(case, &lifo, &environment));
        }
    }
    progress.finish();
    print(&environment, &rows);
    if let Some(path) = &args.json {
        kv::write_json(path, &rows)?;
    }
    if let Some(path) = &args.svg {
        write_svg(path, &plot(&rows))?;
    }
    Ok(())
}

/// A number of records of one size.
struct Case {
    record: &'static str,
    records: u64,
    value_bytes: usize,
    /// The largest of its size: what is larger is extrapolated from it.
    extrapolate: bool,
    free: u32,
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
    check_range("--value-size", args.value_size as u64, 1, 64 << 10)?;
    check_range("--free", args.free.into(), 0, 100)?;
    if let Some(txns) = args.txns {
        check_range("--txns", txns, 1, 1 << 30)?;
    }
    let last = *records.last().expect("there is at least one");
    let extrapolate = |count| count == last && (100_000..EXTRAPOLATED_RECORDS).contains(&count);
    let small = records.iter().map(|&count| Case {
        record: "small",
        records: count,
        value_bytes: args.value_size,
        extrapolate: extrapolate(count),
        free: args.free,
    });
    let page = records.iter().filter(|&&count| count <= args.page_records_max).map(|&count| Case {
        record: "page",
        records: count,
        value_bytes: PAGE_VALUE_BYTES,
        extrapolate: false,
        free: args.free,
    });
    Ok(small.chain(page).collect())
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
    let what = format!("{} {} records, {}", whole(case.records as f64), case.record, policy_name(policy));
    progress.begin(&what);
    let dir = workplace.make(&format!("{}-{}-{}", case.records, case.record, policy_name(policy)))?;
    let measured = measure(args, case, policy, &dir)?;
    workplace.remove(&dir)?;
    progress.line(&format!("{what}: {:.2} pages a transaction", measured.pages_per_txn));
    progress.advance();
    Ok(measured)
}

/// What the engine writes goes here.
struct Sink {
    caches: [WriteBackCache; CACHE_MB.len()],
    txns: u64,
    pages: u64,
}

impl Sink {
    fn new() -> Self {
        Self { caches: CACHE_MB.map(|mb| WriteBackCache::new(mb << 20, PAGE_BYTES)), txns: 0, pages: 0 }
    }

    fn write(&mut self, page: u32) {
        self.pages += 1;
        self.caches.iter_mut().for_each(|cache| cache.write(page));
    }

    /// Forgets the counts and keeps what is in the caches.
    fn restart(&mut self) {
        (self.txns, self.pages) = (0, 0);
        self.caches.iter_mut().for_each(|cache| cache.disk_writes = 0);
    }
}

fn measure(args: &LifoArgs, case: &Case, policy: FreeSpace, dir: &Path) -> Result<Measured> {
    let sink = Arc::new(Mutex::new(Sink::new()));
    let lock = || sink.lock().unwrap_or_else(PoisonError::into_inner);
    let tracing = Arc::clone(&sink);
    let options = Options::new()
        .page_size(PAGE_BYTES as u32)
        .durability(Durability::SyncNoLog)
        .free_space(policy)
        .trace_writes(move |trace| {
            if trace.kind == WriteKind::Steady {
                let mut sink = tracing.lock().unwrap_or_else(PoisonError::into_inner);
                trace.ranges.iter().flat_map(|&(start, pages)| start..start + pages).for_each(|page| sink.write(page));
                // The two meta pages in turn.
                sink.write((trace.txn.0 % 2) as u32);
                sink.txns += 1;
            }
        });
    let database = Database::open(dir, &options).map_err(failed)?;
    let table = load(&database, case)?;
    let stat = table_stat(&database, &table)?;

    // Until every record's page has had its turn a few times, and so the caches hold what they hold for good.
    let changing = stat.leaf_pages.max(stat.overflow_pages);
    let warm_up_txns = (3 * changing).clamp(1_000, 400_000);
    let txns = args.txns.unwrap_or(changing.clamp(2_000, 100_000));
    *lock() = Sink::new();
    let mut changes = Changes { random: args.seed, case, value: vec![0; case.value_bytes] };
    for _ in 0..warm_up_txns {
        changes.change(&database, &table)?;
    }
    lock().restart();
    for _ in 0..txns {
        changes.change(&database, &table)?;
    }
    let sink = lock();
    let per_txn = |count: u64| count as f64 / sink.txns.max(1) as f64;
    let disk_per_txn = [0, 1].map(|index| per_txn(sink.caches[index].disk_writes));
    Ok(Measured { stat, pages_per_txn: per_txn(sink.pages), disk_per_txn, warm_up_txns, txns })
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
        extrapolated: false,
        data_pages: lifo.stat.leaf_pages + lifo.stat.branch_pages + lifo.stat.overflow_pages,
        depth: lifo.stat.depth,
        pages_per_txn: lifo.pages_per_txn,
        caches: caches.to_vec(),
        warm_up_txns: lifo.warm_up_txns,
        txns: lifo.txns,
        notes: NOTE.to_owned(),
        env: environment.clone(),
    }
}

const NOTE: &str = "without log; every transaction is a steady point that writes its pages and one meta page; a disk \
                    operation is one page that the simulated cache writes back, neighbours not joined";
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
        extrapolated: true,
        data_pages: levels.iter().sum::<f64>() as u64,
        depth: levels.len() as u32,
        pages_per_txn,
        caches: caches.to_vec(),
        warm_up_txns: 0,
        txns: 0,
        notes: format!("{EXTRAPOLATION}; {NOTE}"),
        env: environment.clone(),
    }
}

fn print(environment: &Environment, rows: &[Row]) {
    let command: Vec<_> = std::env::args().collect();
    let Environment { commit, cpu, cores, kernel, fs } = environment;
    println!("command: {}", command.join(" "));
    println!("commit:  {commit}");
    println!("machine: {cpu}, {cores} cores, {kernel}, {fs}\n");
    println!("{}", table(rows));
    println!(
        "note: FIFO, LIFO: pages a transaction that the disk below the cache writes; fewer: FIFO / LIFO, - without any"
    );
    println!("note: {NOTE}");
    println!("note: free pages: {} times those in use", rows.first().map_or(0, |row| row.free));
    if rows.iter().any(|row| row.extrapolated) {
        println!("note: *: {EXTRAPOLATION}");
    }
}

fn table(rows: &[Row]) -> String {
    let mut headings: Vec<String> =
        ["record", "records", "data MB", "depth", "pages/txn"].into_iter().map(str::to_owned).collect();
    for mb in CACHE_MB {
        headings.extend([format!("{mb} MB: FIFO"), "LIFO".to_owned(), "fewer".to_owned()]);
    }
    let mut cells = vec![headings];
    for row in rows {
        let mark = if row.extrapolated { "*" } else { "" };
        let mut line = vec![row.record.to_owned(), format!("{}{mark}", whole(row.records as f64))];
        line.push(significant((row.data_pages * PAGE_BYTES) as f64 / 1e6));
        line.extend([row.depth.to_string(), format!("{:.2}", row.pages_per_txn)]);
        for cache in &row.caches {
            line.extend([format!("{:.3}", cache.fifo), format!("{:.3}", cache.lifo)]);
            line.push(cache.fewer.map_or("-".to_owned(), |times| format!("{times:.2}x")));
        }
        cells.push(line);
    }
    align(&cells, 1)
}

fn plot(rows: &[Row]) -> Plot {
    let name = |row: &Row| {
        let mark = if row.extrapolated { "*" } else { "" };
        let kind = if row.record == "page" { " of a page" } else { "" };
        format!("{}{kind}{mark}", whole(row.records as f64))
    };
    let groups: Vec<String> = rows.iter().map(name).collect();
    let panel = |title: String, series: Vec<(String, Vec<f64>)>| Panel {
        title,
        shape: Shape::Bars(groups.clone()),
        logarithmic: false,
        series,
    };
    let pages = rows.iter().map(|row| row.pages_per_txn).collect();
    let mut panels = vec![panel("pages rewritten a transaction".to_owned(), vec![("both".to_owned(), pages)])];
    for (index, mb) in CACHE_MB.iter().enumerate() {
        let of = |of: fn(&CacheRow) -> f64| rows.iter().map(|row| of(&row.caches[index])).collect::<Vec<_>>();
        let series = vec![("FIFO".to_owned(), of(|cache| cache.fifo)), ("LIFO".to_owned(), of(|cache| cache.lifo))];
        panels.push(panel(format!("disk operations a transaction behind a cache of {mb} MB"), series));
    }
    Plot { title: "FIFO and LIFO behind a write-back cache (* extrapolated)".to_owned(), panels }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: LifoArgs,
    }

    fn parse(flags: &str) -> LifoArgs {
        Command::parse_from(std::iter::once("lifo").chain(flags.split_whitespace())).args
    }

    #[test]
    fn a_file_that_fits_the_caches_costs_the_disk_nothing() {
        let outer = tempfile::tempdir().unwrap();
        let mut args = parse("--records 42,1764 --txns 300");
        args.dir = Some(outer.path().join("data"));
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
    fn wrong_flags_say_what_would_be_right() {
        let error = |flags: &str| cases(&parse(flags)).err().unwrap().to_string();
        assert!(error("--records 0").contains("--records is 0, but must be from 1"));
        assert!(error("--value-size 0").contains("--value-size"));
        assert!(error("--txns 0").contains("--txns"));
        assert!(error("--free 101").contains("--free"));
    }

    #[test]
    fn what_is_extrapolated_misses_on_the_lowest_levels() {
        assert_eq!(lifo_misses(&[1000.0, 10.0, 1.0], 511.0), 0.5);
        assert_eq!(lifo_misses(&[1000.0, 10.0, 1.0], 5000.0), 0.0);
        assert_eq!(lifo_misses(&[1000.0, 10.0, 1.0], 6.0), 1.5);
    }
}

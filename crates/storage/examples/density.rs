//! How densely rows of each size are stored, and what changing them writes.
//!
//! `cargo run --release -p colibri-storage --example density -- [changes=number] [megabytes] [sizes]`
//!
//! For each size of values a database is loaded in key order, read at random, scanned, and then
//! changed at random, twice as often as there are rows: of ten changes eight are updates with values of up to 30 % less or more, one is
//! an insertion and one a deletion, each a transaction of its own. Figures:
//!
//! | column | meaning |
//! | --- | --- |
//! | loaded, churned | pages in use, in bytes, over the bytes of keys and values |
//! | file | disk space of the closed database over the bytes of keys and values |
//! | open | the same before closing, at rest |
//! | copied | pages that a change copies or writes in its transaction |
//! | steady | bytes that steady points write, over the bytes of the changed rows |
//! | log | bytes of the log, over the bytes of the changed rows |
//! | get, scan, put | time in microseconds; scan for a row |

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use colibri_storage::{Database, Options, TableKind, WriteKind};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const SIZES: [usize; 18] = [
    100, 200, 300, 500, 1_000, 1_060, 2_000, 3_000, 4_000, 4_100, 5_000, 8_000, 10_000, 16_500, 20_000, 20_900, 50_000,
    100_000,
];

#[derive(Default)]
struct Written {
    copied_pages: AtomicU64,
    steady_bytes: AtomicU64,
    log_bytes: AtomicU64,
}

fn key(row: u64) -> [u8; 16] {
    let mut key = *b"user000000000000";
    key[8..].copy_from_slice(&row.to_be_bytes());
    key
}

fn fill(rng: &mut StdRng, value: &mut Vec<u8>, bytes: usize) {
    value.resize(bytes, 0);
    rng.fill(&mut value[..]);
}

fn measure(size: usize, megabytes: usize, changes: Option<usize>) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir_in(".")?;
    let rows = (megabytes << 20) / (size + 16);
    let written = Arc::new(Written::default());
    let options = |written: &Arc<Written>| {
        let written = Arc::clone(written);
        Options::new().trace_writes(move |trace| match trace.kind {
            WriteKind::Commit => {
                written.copied_pages.fetch_add(trace.pages(), Ordering::Relaxed);
                let log = trace.log.as_ref().map_or(0, |(_, range)| range.end - range.start);
                written.log_bytes.fetch_add(log, Ordering::Relaxed);
            }
            WriteKind::Steady => _ = written.steady_bytes.fetch_add(trace.bytes(), Ordering::Relaxed),
        })
    };
    let mut rng = StdRng::seed_from_u64(size as u64);
    let mut value = Vec::new();
    let db = Database::open(dir.path(), &options(&written))?;
    // Every other key is loaded; the rest are inserted later.
    for first in (0..rows).step_by(10_000) {
        let mut txn = db.write()?;
        let table = txn.create_table("table", TableKind::Plain)?;
        for row in first..rows.min(first + 10_000) {
            fill(&mut rng, &mut value, size);
            txn.append(&table, &key(2 * row as u64), &value)?;
        }
        txn.commit()?;
    }
    let mut data = rows * (size + 16);
    let used = |db: &Database| -> Result<f64, Box<dyn Error>> {
        let stat = db.stat()?;
        let pages: u64 =
            stat.tables.iter().map(|(_, table)| table.leaf_pages + table.branch_pages + table.overflow_pages).sum();
        Ok(pages as f64 * f64::from(stat.page_size))
    };
    let loaded = used(&db)? / data as f64;
    db.close()?;
    let db = Database::open(dir.path(), &options(&written))?;
    let loaded_file = db.stat()?.disk_bytes as f64 / data as f64;

    let snapshot = db.read()?;
    let table = snapshot.table("table")?;
    let mut get = Duration::MAX;
    let reads = (rows * 2).min(100_000);
    for _ in 0..3 {
        let started = Instant::now();
        for _ in 0..reads {
            let value = snapshot.get(&table, &key(2 * rng.random_range(0..rows) as u64))?.ok_or("a row is missing")?;
            std::hint::black_box(value[value.len() / 2]);
        }
        get = get.min(started.elapsed());
    }
    let mut scan = Duration::MAX;
    for _ in 0..3 {
        let started = Instant::now();
        let view = snapshot.view(&table)?;
        let mut cursor = view.cursor();
        let mut more = cursor.first()?;
        while more {
            let value = cursor.value()?;
            std::hint::black_box(value[value.len() / 2]);
            more = cursor.next()?;
        }
        scan = scan.min(started.elapsed());
    }
    drop(snapshot);

    for counter in [&written.copied_pages, &written.steady_bytes, &written.log_bytes] {
        counter.store(0, Ordering::Relaxed);
    }
    let changes = changes.unwrap_or((rows * 2).clamp(2_000, 400_000));
    let mut changed_bytes = 0;
    let started = Instant::now();
    for _ in 0..changes {
        let row = rng.random_range(0..2 * rows) as u64;
        let mut txn = db.write()?;
        let table = txn.table("table")?;
        let old = txn.get(&table, &key(row))?.map(<[u8]>::len);
        match (rng.random_range(0..10), old) {
            (0, Some(bytes)) => {
                txn.delete(&table, &key(row))?;
                data -= bytes + 16;
                changed_bytes += bytes + 16;
            }
            (0, None) => {}
            // Deletions find a row half of the time, and so insertions have to be as many.
            (1, None) | (2..10, Some(_)) => {
                let bytes = rng.random_range(size * 7 / 10..=size * 13 / 10);
                fill(&mut rng, &mut value, bytes);
                txn.put(&table, &key(row), &value)?;
                data = data + bytes + 16 - old.map_or(0, |bytes| bytes + 16);
                changed_bytes += bytes + 16;
            }
            _ => {}
        }
        drop(txn.commit_ticket()?);
    }
    let put = started.elapsed();
    db.sync()?;
    let changed = changes as f64 * 0.5;
    let churned = used(&db)? / data as f64;
    let open = db.stat()?.disk_bytes as f64 / data as f64;
    let report = db.check()?;
    assert!(report.is_clean(), "{:?}", report.problems);
    db.close()?;
    let db = Database::open(dir.path(), &options(&written))?;
    let churned_file = db.stat()?.disk_bytes as f64 / data as f64;
    let micros = |time: Duration, count: usize| time.as_secs_f64() * 1e6 / count as f64;
    println!(
        "| {size} | {loaded:.3} | {loaded_file:.3} | {churned:.3} | {open:.3} | {churned_file:.3} | {:.2} | {:.2} | {:.2} | {:.2} | {:.3} | {:.2} |",
        written.copied_pages.load(Ordering::Relaxed) as f64 / changed,
        written.steady_bytes.load(Ordering::Relaxed) as f64 / changed_bytes as f64,
        written.log_bytes.load(Ordering::Relaxed) as f64 / changed_bytes as f64,
        micros(get, reads),
        micros(scan, rows),
        micros(put, changes),
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let changes = arguments.next_if(|text| text.starts_with("changes="));
    let changes = changes.map(|text| text["changes=".len()..].parse()).transpose()?;
    let megabytes = arguments.next().map_or(Ok(32), |text| text.parse())?;
    let sizes: Vec<usize> = arguments.map(|text| text.parse()).collect::<Result<_, _>>()?;
    println!("| value | loaded | file | churned | open | file | copied | steady | log | get | scan | put |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for size in if sizes.is_empty() { SIZES.to_vec() } else { sizes } {
        measure(size, megabytes, changes)?;
    }
    Ok(())
}

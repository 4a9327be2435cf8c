//! What branches cost: making one in small and large files, keeping many open, and writing beside
//! them.
//!
//! ```sh
//! cargo run --release -p colibri-storage --example branches -- [megabytes of the large file]
//! ```
//! The files are made in the directory it is run in. Times are medians; *pages* are those that
//! making a branch writes.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use colibri_storage::{Database, Durability, Options, Table, TableKind, WriteKind};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

type Outcome<T> = Result<T, Box<dyn Error>>;

const VALUE_BYTES: usize = 100;

fn fill(db: &Database, megabytes: u64) -> Outcome<(Table, u64)> {
    let rows = (megabytes << 20) / (VALUE_BYTES as u64 + 8);
    let mut txn = db.write()?;
    let table = txn.create_table("rows", TableKind::Integer)?;
    txn.load_sorted(&table, (0..rows).map(|row| (row.to_be_bytes(), [row as u8; VALUE_BYTES])))?;
    txn.commit()?;
    db.sync()?;
    Ok((table, rows))
}

/// Changes random rows, a transaction each.
fn change(db: &Database, table: &Table, rows: u64, rng: &mut StdRng, commits: u64) -> Outcome<()> {
    for _ in 0..commits {
        let mut txn = db.write()?;
        txn.put(table, &rng.random_range(0..rows).to_be_bytes(), &[rng.random(); VALUE_BYTES])?;
        txn.commit()?;
    }
    Ok(())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn making(durability: Durability, megabytes: u64) -> Outcome<()> {
    let dir = tempfile::tempdir_in(".")?;
    let pages = Arc::new(AtomicU64::new(0));
    let options = Options::new().durability(durability).trace_writes({
        let pages = Arc::clone(&pages);
        move |trace| {
            if trace.kind == WriteKind::Commit {
                pages.store(trace.pages(), Ordering::Relaxed);
            }
        }
    });
    let db = Database::open(dir.path(), &options)?;
    let (table, rows) = fill(&db, megabytes)?;
    let mut rng = StdRng::seed_from_u64(1);
    let (mut unchanged, mut changed) = (Vec::new(), Vec::new());
    let mut most = 0;
    db.branch("first")?;
    for number in 0..400 {
        let is_changed = number % 2 == 1;
        if is_changed {
            change(&db, &table, rows, &mut rng, 1)?;
        }
        let started = Instant::now();
        let branch = db.branch(&format!("branch {number}"))?;
        let value = branch.read()?.get(&table, &7_u64.to_be_bytes())?.map(<[u8]>::len);
        let took = started.elapsed();
        assert_eq!(value, Some(VALUE_BYTES));
        if is_changed { &mut changed } else { &mut unchanged }.push(took);
        most = most.max(pages.load(Ordering::Relaxed));
    }
    let p99 = {
        let mut all: Vec<_> = unchanged.iter().chain(&changed).copied().collect();
        all.sort_unstable();
        all[all.len() * 99 / 100]
    };
    println!(
        "{durability:?}, {megabytes} MB: made and read in {:?} unchanged, {:?} changed since; p99 {p99:?}; {most} pages at most",
        median(&mut unchanged),
        median(&mut changed),
    );
    Ok(())
}

fn resident_bytes() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.split_ascii_whitespace().next().ok_or("no figure")?.parse::<u64>()? << 10)
}

fn keeping(count: u32) -> Outcome<()> {
    let dir = tempfile::tempdir_in(".")?;
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync))?;
    let (table, rows) = fill(&db, 1)?;
    let before = resident_bytes()?;
    let file_before = db.stat()?.pages;
    let started = Instant::now();
    let branches = (0..count).map(|number| db.branch(&format!("branch {number}"))).collect::<Result<Vec<_>, _>>()?;
    let made = started.elapsed();
    let bytes = resident_bytes()?.saturating_sub(before);
    println!(
        "{count} branches open: {} bytes each, {} pages of the file in all, made in {made:?}",
        bytes / u64::from(count),
        db.stat()?.pages - file_before,
    );
    // Each is changed, and dropped.
    let mut rng = StdRng::seed_from_u64(2);
    for branch in &branches {
        change(branch, &table, rows, &mut rng, 1)?;
    }
    println!("each changed: {} bytes each", resident_bytes()?.saturating_sub(before) / u64::from(count));
    let started = Instant::now();
    for number in 0..count {
        db.drop_branch(&format!("branch {number}"))?;
    }
    let dropped = started.elapsed();
    db.reap_branches()?;
    println!("dropped in {dropped:?}, reaped {:?} later", started.elapsed() - dropped);
    Ok(())
}

/// A writer beside no branch, beside many of an old state, and in one of them.
fn writing(count: u32) -> Outcome<()> {
    const COMMITS: u64 = 4_000;
    let dir = tempfile::tempdir_in(".")?;
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync))?;
    let (table, rows) = fill(&db, 64)?;
    let mut rng = StdRng::seed_from_u64(3);
    let mut time = |db: &Database| -> Outcome<Duration> {
        let started = Instant::now();
        change(db, &table, rows, &mut rng, COMMITS)?;
        Ok(started.elapsed() / COMMITS as u32)
    };
    time(&db)?;
    let alone: Vec<_> = (0..7).map(|_| time(&db)).collect::<Outcome<_>>()?;
    let branches = (0..count).map(|number| db.branch(&format!("branch {number}"))).collect::<Result<Vec<_>, _>>()?;
    let first = time(&db)?;
    let beside: Vec<_> = (0..7).map(|_| time(&db)).collect::<Outcome<_>>()?;
    let within: Vec<_> = (0..7).map(|_| time(&branches[0])).collect::<Outcome<_>>()?;
    let [mut alone, mut beside, mut within] = [alone, beside, within];
    println!(
        "a commit of one change: {:?} alone; beside {count} branches {first:?} at first, {:?} later; in one of them {:?}",
        median(&mut alone),
        median(&mut beside),
        median(&mut within),
    );
    Ok(())
}

fn main() -> Outcome<()> {
    let large = std::env::args().nth(1).map_or(Ok(1024), |text| text.parse())?;
    for durability in [Durability::NoSync, Durability::Sync] {
        for megabytes in [1, large] {
            making(durability, megabytes)?;
        }
    }
    keeping(10_000)?;
    writing(1_000)
}

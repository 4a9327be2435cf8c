//! What keeping states of the past costs, and what going back takes.
//!
//! `cargo run --release -p colibri-storage --example past -- [ROWS [COMMITS]]`: each commit changes one
//! row of 100 bytes at random, a millisecond of the clock apart, and every five seconds of the clock
//! there is a steady point.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use colibri_storage::{AsOf, Database, Options, Result, Retention, TableKind, TxnId};

const SECOND: i64 = 1_000_000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map_while(|text| text.parse::<u64>().ok());
    let rows = arguments.next().unwrap_or(200_000);
    let commits = arguments.next().unwrap_or(40_000);
    for seconds in [None, Some(1), Some(10), Some(60)] {
        run(rows, commits, seconds)?;
    }
    Ok(())
}

fn run(rows: u64, commits: u64, seconds: Option<u64>) -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(AtomicI64::new(0));
    let retention = seconds.map(|seconds| Retention::new(Duration::from_secs(seconds)));
    let options = Options::new().log_bytes(1 << 30).log_period(Duration::from_secs(3600)).retention(retention);
    let told = Arc::clone(&clock);
    let db = Database::open(dir.path(), &options.clock(move || told.load(Ordering::SeqCst)))?;
    let mut txn = db.write()?;
    let table = txn.create_table("table", TableKind::Integer)?;
    txn.load_sorted(&table, (0..rows).map(|key| (key.to_be_bytes(), [7; 100])))?;
    txn.commit()?;
    db.sync()?;
    let loaded = db.stat()?;
    let begun = Instant::now();
    let mut random = 1_u64;
    for commit in 1..=commits {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        clock.fetch_add(SECOND / 1000, Ordering::SeqCst);
        let mut txn = db.write()?;
        txn.put(&table, &((random >> 20) % rows).to_be_bytes(), &[commit as u8; 100])?;
        let ticket = txn.commit_ticket()?;
        if commit % 1_000 == 0 {
            ticket.wait()?;
        }
        if commit % 5_000 == 0 {
            db.sync()?;
        }
    }
    let took = begun.elapsed();
    db.reap_branches()?;
    let (stat, past) = (db.stat()?, db.past()?);
    let kept = seconds.map_or("nothing".to_owned(), |seconds| format!("{seconds} s"));
    println!(
        "kept {kept}: {} MB loaded, {} MB in use behind {commits} commits in {took:.1?}; {past:?}",
        ((loaded.pages - loaded.free_pages) * 4096) >> 20,
        ((stat.pages - stat.free_pages) * 4096) >> 20,
    );
    let Some((since, _)) = past.since else { return Ok(()) };
    let newest = db.newest_txn().0;
    let mut times = Vec::new();
    for step in 0..20 {
        let txn = TxnId(since.0 + (newest - since.0) * step / 20);
        let begun = Instant::now();
        drop(db.branch_as_of("then", AsOf::Transaction(txn))?);
        times.push(begun.elapsed());
        db.drop_branch("then")?;
    }
    times.sort_unstable();
    println!("a branch of one of 20 transactions: {:.1?} median, {:.1?} at most", times[10], times[19]);
    Ok(())
}

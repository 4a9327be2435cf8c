//! What encryption costs: the same work on a plain database and on an encrypted one, in turn.
//!
//! `cargo run --release -p colibri-storage --example encryption [DIR]`; a directory in memory (/dev/shm) leaves the disk
//! out. Each figure is the median of the rounds' ratios of time, encrypted to plain.

use std::path::Path;
use std::time::{Duration, Instant};

use colibri_storage::{Database, Durability, EncryptionKey, Options, Result, Table, TableKind};

const ROWS: u32 = 200_000;
const ROUNDS: usize = 7;

fn options(encrypted: bool, durability: Durability) -> Options {
    let key = encrypted.then(|| EncryptionKey::new([7; 32]));
    Options::new().durability(durability).encryption_key(key)
}

/// A sequence without order that comes to each number below `ROWS`.
fn scattered(n: u32) -> [u8; 4] {
    (n.wrapping_mul(48_271) % ROWS).to_be_bytes()
}

fn fill(db: &Database) -> Result<Table> {
    let mut txn = db.write()?;
    let table = txn.create_table("rows", TableKind::Plain)?;
    for n in 0..ROWS {
        txn.put(&table, &n.to_be_bytes(), &[n as u8; 100])?;
    }
    txn.commit()?;
    Ok(table)
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

/// What is measured, by name.
fn measure(dir: &Path, encrypted: bool) -> Result<Vec<(&'static str, Duration)>> {
    _ = std::fs::remove_dir_all(dir);
    let mut times = Vec::new();
    let db = Database::open(dir, &options(encrypted, Durability::NoSync))?;
    let mut table = None;
    times.push((
        "load 200,000 rows of 100 bytes and make them steady",
        timed(|| {
            table = Some(fill(&db)?);
            db.sync()
        })?,
    ));
    let table = table.expect("it was filled");
    times.push((
        "20,000 commits of one random row, no flush, one steady point",
        timed(|| {
            for n in 0..20_000 {
                let mut txn = db.write()?;
                txn.put(&table, &scattered(n), &[n as u8; 100])?;
                txn.commit()?;
            }
            db.sync()
        })?,
    ));
    times.push((
        "400,000 random reads of what is in memory",
        timed(|| {
            for n in 0..2 * ROWS {
                db.read()?.get(&table, &scattered(n))?;
            }
            Ok(())
        })?,
    ));
    db.close()?;
    times.push((
        "open, and read all rows once",
        timed(|| {
            let db = Database::open(dir, &options(encrypted, Durability::NoSync))?;
            let snapshot = db.read()?;
            let table = snapshot.table("rows")?;
            for entry in snapshot.view(&table)?.range(..)? {
                entry?;
            }
            drop(snapshot);
            db.close()
        })?,
    ));
    let db = Database::open(dir, &options(encrypted, Durability::Sync))?;
    let table = db.read()?.table("rows")?;
    times.push((
        "2,000 commits of one random row, each flushed with the log",
        timed(|| {
            for n in 0..2_000 {
                let mut txn = db.write()?;
                txn.put(&table, &scattered(n), &[n as u8; 100])?;
                txn.commit()?;
            }
            Ok(())
        })?,
    ));
    db.close()?;
    Ok(times)
}

fn main() -> Result<()> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "/tmp".to_owned());
    let dir = Path::new(&dir).join(format!("colibri-encryption-{}", std::process::id()));
    let mut rounds: Vec<Vec<(&str, f64, Duration)>> = Vec::new();
    let mut bytes = [0; 2];
    for _ in 0..ROUNDS {
        let mut both = Vec::new();
        for encrypted in [false, true] {
            both.push(measure(&dir, encrypted)?);
            let length = std::fs::metadata(dir.join("data")).map_or(0, |metadata| metadata.len());
            bytes[usize::from(encrypted)] = length;
        }
        let ratio = |(plain, sealed): (&(&'static str, Duration), &(&'static str, Duration))| {
            (plain.0, sealed.1.as_secs_f64() / plain.1.as_secs_f64(), plain.1)
        };
        rounds.push(both[0].iter().zip(&both[1]).map(ratio).collect());
    }
    _ = std::fs::remove_dir_all(&dir);
    for index in 0..rounds[0].len() {
        let mut ratios: Vec<f64> = rounds.iter().map(|round| round[index].1).collect();
        ratios.sort_by(f64::total_cmp);
        let mut plain: Vec<Duration> = rounds.iter().map(|round| round[index].2).collect();
        plain.sort();
        let (name, middle) = (rounds[0][index].0, ROUNDS / 2);
        println!(
            "{name}: {:.2} ({:.2} to {:.2}); plain {:?}",
            ratios[middle],
            ratios[0],
            ratios[ROUNDS - 1],
            plain[middle]
        );
    }
    println!("bytes of the file: {} plain, {} encrypted", bytes[0], bytes[1]);
    Ok(())
}

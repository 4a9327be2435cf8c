//! Reading ahead: what is not in memory comes from the disk together, and not page by page.
//!
//! What a thread waits for is counted by the kernel, as its major page faults. Where files cannot be
//! put out of memory, as on a file system in memory, there are none, and only the answers are
//! checked.

#![allow(unsafe_code)]

use std::error::Error;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::path::Path;

use colibri_storage::{Database, Durability, Options, TableKind};

type Outcome = std::result::Result<(), Box<dyn Error>>;

const ROWS: u32 = 30_000;
const VALUE_BYTES: usize = 1_000;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn value(number: u32, bytes: usize) -> Vec<u8> {
    let mut value = vec![number as u8; bytes];
    value[..4].copy_from_slice(&number.to_le_bytes());
    value
}

/// Makes a database of `rows` rows, and gives how many pages its leaves and large values take.
fn fill(dir: &Path, rows: u32, bytes: usize) -> std::result::Result<u64, Box<dyn Error>> {
    let db = Database::open(dir, &Options::default().durability(Durability::NoSync))?;
    let mut txn = db.write()?;
    let table = txn.create_table("rows", TableKind::Plain)?;
    for number in 0..rows {
        txn.put(&table, &key(number), &value(number, bytes))?;
    }
    txn.commit()?;
    db.sync()?;
    let snapshot = db.read()?;
    let stat = snapshot.view(&table)?.stat();
    Ok(stat.leaf_pages + stat.overflow_pages)
}

/// Puts a database that nobody has open out of memory.
fn forget(dir: &Path) -> Outcome {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_file() {
            let file = File::open(path)?;
            file.sync_all()?;
            // SAFETY: the descriptor is open; advice changes nothing.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        }
    }
    Ok(())
}

/// How often this thread has waited for a page from the disk.
fn waits() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: a pointer to what lives here, which the kernel fills.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init().ru_majflt as u64
    }
}

/// How often a thread waits that opens a database which is not in memory and does something there.
fn waits_of(dir: &Path, act: impl FnOnce(&Database) -> Outcome) -> std::result::Result<u64, Box<dyn Error>> {
    forget(dir)?;
    let db = Database::open(dir, &Options::default())?;
    let before = waits();
    act(&db)?;
    Ok(waits() - before)
}

/// One row after another, far from each other: nothing can be read ahead.
fn one_by_one(db: &Database, rows: u32) -> Outcome {
    let snapshot = db.read()?;
    let table = snapshot.table("rows")?;
    let view = snapshot.view(&table)?;
    for step in 0..rows {
        let number = step.wrapping_mul(7_919) % rows;
        assert_eq!(view.get(&key(number))?.map(|value| value[..4].to_vec()), Some(number.to_le_bytes().to_vec()));
    }
    Ok(())
}

fn scan(db: &Database, rows: u32, bytes: usize, forward: bool) -> Outcome {
    let snapshot = db.read()?;
    let table = snapshot.table("rows")?;
    let view = snapshot.view(&table)?;
    let mut cursor = view.cursor();
    let mut there = if forward { cursor.first()? } else { cursor.last()? };
    for step in 0..rows {
        let number = if forward { step } else { rows - 1 - step };
        assert!(there, "row {number} is missing");
        assert_eq!((cursor.key(), cursor.value()?), (&key(number)[..], &value(number, bytes)[..]));
        there = if forward { cursor.next()? } else { cursor.prev()? };
    }
    assert!(!there, "there are more rows");
    Ok(())
}

#[test]
fn scans_wait_for_few_of_the_pages_they_read() -> Outcome {
    for (rows, bytes) in [(ROWS, VALUE_BYTES), (300, 100_000)] {
        let outer = tempfile::tempdir()?;
        let dir = outer.path().join("birds");
        let pages = fill(&dir, rows, bytes)?;
        let alone = waits_of(&dir, |db| one_by_one(db, rows))?;
        for forward in [true, false] {
            let waited = waits_of(&dir, |db| scan(db, rows, bytes, forward))?;
            println!("{rows} rows of {bytes} bytes on {pages} pages: {alone} waits one by one, {waited} in order");
            if alone > pages / 2 {
                assert!(waited < pages / 5, "a scan of {pages} pages waited {waited} times");
            }
        }
    }
    Ok(())
}

#[test]
fn keys_of_a_batch_are_waited_for_together() -> Outcome {
    let outer = tempfile::tempdir()?;
    let dir = outer.path().join("birds");
    fill(&dir, ROWS, VALUE_BYTES)?;
    let wanted: Vec<u32> = (0..2_000).map(|step: u32| step.wrapping_mul(7_919) % ROWS).collect();
    let alone = waits_of(&dir, |db| {
        let snapshot = db.read()?;
        let view = snapshot.view(&snapshot.table("rows")?)?;
        wanted.iter().try_for_each(|&number| {
            assert_eq!(view.get(&key(number))?, Some(&value(number, VALUE_BYTES)[..]));
            Ok(())
        })
    })?;
    let together = waits_of(&dir, |db| {
        let snapshot = db.read()?;
        let table = snapshot.open(&snapshot.table("rows")?)?;
        let keys: Vec<[u8; 4]> = wanted.iter().map(|&number| key(number)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let mut met = 0;
        snapshot.get_many(&table, &keys, |at, found| {
            assert_eq!(found, Some(&value(wanted[at], VALUE_BYTES)[..]));
            met += 1;
            ControlFlow::Continue(())
        })?;
        assert_eq!(met, wanted.len());
        Ok(())
    })?;
    println!("{alone} waits one by one, {together} together");
    if alone > 1_000 {
        assert!(together < alone / 3, "{together} waits of a batch, {alone} one by one");
    }
    Ok(())
}

/// Bug: none; a guard. A scan of data in memory asks the system for nothing, or scans of data in memory
/// would be slower for those that are not.
#[test]
fn a_scan_in_memory_waits_for_nothing() -> Outcome {
    let outer = tempfile::tempdir()?;
    let dir = outer.path().join("birds");
    fill(&dir, 3_000, VALUE_BYTES)?;
    let db = Database::open(&dir, &Options::default())?;
    scan(&db, 3_000, VALUE_BYTES, true)?;
    let before = waits();
    scan(&db, 3_000, VALUE_BYTES, true)?;
    assert_eq!(waits(), before);
    Ok(())
}

/// Bug: none; a guard. Pages that are used again were written anew through the map, and so were read from
/// the disk first, under the writer's lock. With data larger than memory a writer waited for each of them.
#[test]
fn pages_that_are_used_again_are_not_read() -> Outcome {
    let outer = tempfile::tempdir()?;
    let dir = outer.path().join("birds");
    fill(&dir, ROWS, VALUE_BYTES)?;
    {
        let db = Database::open(&dir, &Options::default().durability(Durability::NoSync))?;
        let mut txn = db.write()?;
        let table = txn.table("rows")?;
        for number in 0..ROWS - 200 {
            txn.delete(&table, &key(number))?;
        }
        txn.commit()?;
        db.sync()?;
    }
    forget(&dir)?;
    let db = Database::open(&dir, &Options::default().durability(Durability::NoSync))?;
    let before = waits();
    let mut txn = db.write()?;
    let table = txn.table("rows")?;
    for number in 0..ROWS / 2 {
        txn.put(&table, &key(number), &value(number, VALUE_BYTES))?;
    }
    txn.commit()?;
    let waited = waits() - before;
    println!("{waited} waits for {} rows in pages that were free", ROWS / 2);
    assert!(waited < 400, "{waited} waits");
    let snapshot = db.read()?;
    let view = snapshot.view(&snapshot.table("rows")?)?;
    for number in (0..ROWS / 2).step_by(7) {
        assert_eq!(view.get(&key(number))?, Some(&value(number, VALUE_BYTES)[..]));
    }
    Ok(())
}

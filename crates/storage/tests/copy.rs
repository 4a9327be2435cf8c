//! Hot copies: whatever goes on beside it, a copy is one committed state and a sound database of
//! its own; what is damaged is not copied.

#![allow(clippy::unwrap_used)]

mod child;
mod ledger;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use child::Alarm;
use colibri_storage::{Database, Durability, Error, Options, TableKind};
use ledger::{advance, assert_clean, commit_next, verify};

/// Makes steady points all the time.
const RESTLESS: Durability = Durability::Lazy { bytes: 40_000, period: Duration::from_millis(2) };
/// How long the writer churns in each mode.
const CHURN: Duration = Duration::from_millis(1200);
const PAGE: usize = 4096;

/// Stops the writer when the copies are made or a test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn open(dir: &Path) -> Database {
    Database::open(dir, &Options::new().durability(Durability::NoSync).create(false)).unwrap()
}

#[test]
fn a_copy_made_while_a_writer_churns_is_one_committed_state() {
    let _alarm = Alarm::set("copies beside a writer", Duration::from_secs(60));
    for durability in [Durability::NoSync, RESTLESS] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path().join("original"), &Options::new().durability(durability)).unwrap();
        for _ in 0..30 {
            commit_next(&db).unwrap();
        }
        let done = AtomicBool::new(false);
        let mut copies = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    commit_next(&db).unwrap();
                }
            });
            let _done = Done(&done);
            let started = Instant::now();
            let mut newest = 0;
            while started.elapsed() < CHURN || copies < 8 {
                let compact = copies % 2 == 1;
                let dest = dir.path().join(format!("copy {copies}"));
                let (before, txn_before) = {
                    let snapshot = db.read().unwrap();
                    (verify(&snapshot), snapshot.txn())
                };
                let report = db.copy_to(&dest, compact).unwrap();
                let (after, txn_after) = {
                    let snapshot = db.read().unwrap();
                    (verify(&snapshot), snapshot.txn())
                };
                let bytes = std::fs::metadata(dest.join("data")).unwrap().len();
                assert_eq!((report.bytes, report.pages), (bytes, bytes / PAGE as u64));
                assert!((txn_before..=txn_after).contains(&report.txn), "{report:?}");

                let copy = open(&dest);
                let snapshot = copy.read().unwrap();
                let state = verify(&snapshot);
                assert!((before..=after).contains(&state) && state >= newest, "{before} ≤ {state} ≤ {after}");
                assert!(compact || snapshot.txn() == report.txn);
                drop(snapshot);
                assert_clean(&copy);
                // It goes on by itself.
                assert_eq!(commit_next(&copy).unwrap(), state + 1);
                copy.close().unwrap();
                let copy = open(&dest);
                assert_eq!(verify(&copy.read().unwrap()), state + 1);
                assert_clean(&copy);
                drop(copy);
                std::fs::remove_dir_all(&dest).unwrap();
                newest = state;
                copies += 1;
            }
        });
        println!("{durability:?}: {copies} copies of {} states", verify(&db.read().unwrap()));
        assert_clean(&db);
        db.close().unwrap();
        assert_clean(&open(&dir.path().join("original")));
    }
}

#[test]
fn a_copy_has_nothing_of_a_transaction_that_is_not_committed() {
    for durability in [Durability::NoSync, RESTLESS] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path().join("original"), &Options::new().durability(durability)).unwrap();
        for _ in 0..3 {
            commit_next(&db).unwrap();
        }
        let mut txn = db.write().unwrap();
        advance(&mut txn).unwrap();
        for compact in [false, true] {
            let dest = dir.path().join(format!("{compact}"));
            db.copy_to(&dest, compact).unwrap();
            let copy = open(&dest);
            assert_eq!(verify(&copy.read().unwrap()), 3);
            assert_clean(&copy);
        }
        txn.commit().unwrap();
        assert_eq!(verify(&db.read().unwrap()), 4);
    }
}

#[test]
fn a_copy_has_free_pages_as_its_original_unless_it_is_compact() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("original"), &Options::new().durability(Durability::NoSync)).unwrap();
    commit_next(&db).unwrap();
    let mut txn = db.write().unwrap();
    let table = txn.create_table("passing", TableKind::Plain).unwrap();
    txn.put(&table, b"key", &[1; 500 * PAGE]).unwrap();
    txn.commit().unwrap();
    let mut txn = db.write().unwrap();
    txn.drop_table(&table).unwrap();
    // What stands behind the free pages keeps them in the file.
    advance(&mut txn).unwrap();
    txn.commit().unwrap();
    let reached = |compact: bool| {
        let dest = dir.path().join(format!("{compact}"));
        db.copy_to(&dest, compact).unwrap();
        let copy = Database::open(&dest, &Options::new().read_only(true)).unwrap();
        let report = copy.check().unwrap();
        assert!(report.is_clean() && report.free_checked, "{report:#?}");
        assert_eq!(verify(&copy.read().unwrap()), 2);
        (report.pages_reached, report.pages_free)
    };
    let (used, free) = reached(false);
    assert!(free >= 500, "{free}");
    let (compact_used, compact_free) = reached(true);
    assert!(compact_used <= used && compact_free < 20, "{compact_used} of {used} pages, {compact_free} free");
}

#[test]
fn a_database_with_a_damaged_page_is_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    for _ in 0..5 {
        commit_next(&db).unwrap();
    }
    db.close().unwrap();
    let path = dir.path().join("data");
    let image = std::fs::read(&path).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let options = Options::new().create(false).read_only(true).size_max(1 << 30);
    let mut refused = 0;
    for page in 2..image.len() / PAGE {
        // Where only the checksum tells: bytes of values, of keys, or of neither.
        let at = page * PAGE + PAGE - 9;
        file.write_all_at(&[image[at] ^ 0x40], at as u64).unwrap();
        let db = Database::open(dir.path(), &options).unwrap();
        let report = db.check().unwrap();
        let in_use = report.problems.iter().any(|problem| !problem.starts_with("the free map"));
        drop(db);
        for compact in [false, true] {
            // Opened again, so that nothing is verified yet.
            let db = Database::open(dir.path(), &options).unwrap();
            let dest = dir.path().join("copy");
            let result = db.copy_to(&dest, compact);
            assert_eq!(matches!(result, Err(Error::Corrupted { .. })), in_use, "page {page}: {result:?}, {report:?}");
            // Nothing is left of a copy that failed.
            assert_eq!(dest.exists(), !in_use);
            if !in_use {
                assert_clean(&open(&dest));
                std::fs::remove_dir_all(&dest).unwrap();
            }
        }
        refused += u32::from(in_use);
        file.write_all_at(&image[at..=at], at as u64).unwrap();
    }
    assert!(refused > 10, "{refused} pages are in use");
}

#[test]
fn what_has_no_checksum_yet_gets_one_in_a_copy_through_another_opening() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    commit_next(&db).unwrap();
    let reader = Database::open(dir.path(), &Options::new().read_only(true)).unwrap();
    for compact in [false, true] {
        let dest = dir.path().join(format!("{compact}"));
        reader.copy_to(&dest, compact).unwrap();
        let copy = open(&dest);
        assert_eq!(verify(&copy.read().unwrap()), 1);
        assert_clean(&copy);
    }
}

//! Version 4: states of the past, in `tests/data/golden-v4`. The data file of a database that was cut
//! off behind a commit that only its log has. It was written by [`make_golden_past`], and is read by the
//! engine and by the document.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use colibri_storage::{AsOf, Database, Options, Retention, TableKind, TxnId};

use super::{ByDocument, PAGE, TreeFields, u16_at, u32_at, u64_at};

/// When the first commit was made: the first second of 2026.
const START: i64 = 1_767_225_600_000_000;
const SECOND: i64 = 1_000_000;
/// Commits, each a second behind the one before.
const COMMITS: u8 = 9;

fn golden() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden-v4/crashed")
}

/// What `birds` holds behind a commit.
fn behind(commit: u8) -> BTreeMap<Vec<u8>, Vec<u8>> {
    (0..=commit).map(|n| (vec![b'a' + n], vec![commit; 100])).collect()
}

fn open(dir: &Path, clock: &Arc<AtomicI64>) -> Database {
    let clock = Arc::clone(clock);
    // Steady points are made when the test says so.
    let options = Options::new().log_bytes(64 << 20).log_period(Duration::from_secs(3600));
    let options = options.retention(Retention::new(Duration::from_secs(3600)));
    Database::open(dir, &options.clock(move || clock.load(Ordering::SeqCst))).unwrap()
}

/// Writes a database whose past is [`behind`] each commit, and the transactions of the commits.
fn make_golden_past(dir: &Path) -> Vec<TxnId> {
    let clock = Arc::new(AtomicI64::new(START - SECOND));
    let db = open(&dir.join("source"), &clock);
    let mut txns = Vec::new();
    for commit in 0..COMMITS {
        clock.store(START + i64::from(commit) * SECOND, Ordering::SeqCst);
        let mut txn = db.write().unwrap();
        let birds = txn.create_table("birds", TableKind::Plain).unwrap();
        for (key, value) in behind(commit) {
            txn.put(&birds, &key, &value).unwrap();
        }
        txns.push(txn.commit().unwrap());
        if commit % 3 == 2 && commit + 1 < COMMITS {
            db.sync().unwrap();
        }
    }
    fs::create_dir_all(dir.join("crashed")).unwrap();
    for (name, bytes) in [("data", usize::MAX), ("log.0", 2 * PAGE), ("log.1", 2 * PAGE)] {
        let mut file = fs::read(dir.join("source").join(name)).unwrap();
        file.truncate(bytes);
        if name == "data" {
            let pages = (0..2).map(|slot| u32_at(&file, slot * PAGE + 48)).max().unwrap();
            file.truncate(pages as usize * PAGE);
        }
        fs::write(dir.join("crashed").join(name), file).unwrap();
    }
    db.close().unwrap();
    txns
}

#[test]
#[ignore = "writes tests/data/golden-v4 anew, which is right only before version 4 is released"]
fn write_the_golden_past_anew() {
    let dir = tempfile::tempdir().unwrap();
    make_golden_past(dir.path());
    fs::create_dir_all(golden()).unwrap();
    for name in ["data", "log.0", "log.1"] {
        fs::copy(dir.path().join("crashed").join(name), golden().join(name)).unwrap();
    }
}

fn check_past(dir: &Path) {
    let clock = Arc::new(AtomicI64::new(START + 100 * SECOND));
    let db = open(dir, &clock);
    assert_eq!(db.stat().unwrap().format_version, 4);
    assert_eq!(db.past().unwrap().since, Some((TxnId(0), START - SECOND)));
    for commit in 0..COMMITS {
        let time = START + i64::from(commit) * SECOND;
        for time in [time, time + SECOND - 1] {
            let then = db.branch_as_of("then", AsOf::Time(time)).unwrap();
            let snapshot = then.read().unwrap();
            let birds = snapshot.view(&snapshot.table("birds").unwrap()).unwrap();
            let found = birds.range(..).unwrap().map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())));
            assert_eq!(found.collect::<Result<BTreeMap<_, _>, _>>().unwrap(), behind(commit), "commit {commit}");
            drop(snapshot);
            db.drop_branch("then").unwrap();
        }
    }
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn a_golden_file_has_its_past() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["data", "log.0", "log.1"] {
        fs::copy(golden().join(name), dir.path().join(name)).unwrap();
    }
    check_past(dir.path());
}

/// The tables of the past, by the document: each point has its state, and the records between them the
/// commits that no point has.
fn check_by_document(bytes: &[u8]) {
    let slot = (0..2).max_by_key(|slot| u64_at(bytes, slot * PAGE + 8)).unwrap();
    let meta = &bytes[slot * PAGE..];
    assert_eq!(u32_at(meta, 40), 4, "the version");
    let (page, txn) = (u32_at(meta, 156), u64_at(meta, 8));
    let mut reader = ByDocument::of(4, bytes, txn);
    let count = u16_at(bytes, page as usize * PAGE + 24) as u64;
    let tables = reader.tree(TreeFields(page, 1, [count, 1, 0, 0]));
    let names: Vec<&[u8]> = tables.iter().map(|(name, _)| name.as_slice()).collect();
    let all: [&[u8]; 8] = [b"above", b"branches", b"forks", b"history", b"kept", b"names", b"points", b"reaping"];
    assert_eq!(names, all);
    let mut entries = |at: usize| reader.tree(TreeFields::at(&tables[at].1, 8));
    let [above, forks, history, kept, points] = [0, 2, 3, 4, 6].map(&mut entries);
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    let mut points_found = Vec::new();
    for (key, value) in &points {
        let (txn, last) = (number(key), u64_at(value, 0));
        assert!(value.len() == 24 && txn <= last);
        points_found.push((txn, u64_at(value, 8) as i64));
    }
    assert_eq!(
        points_found.iter().map(|point| point.1).collect::<Vec<_>>(),
        [-SECOND, 2 * SECOND, 5 * SECOND].map(|at| START + at)
    );
    assert_eq!(kept.len(), points.len());
    for ((key, value), (txn, _)) in kept.iter().zip(&points_found) {
        assert_eq!((number(&key[..8]), number(&key[8..])), (0, *txn));
        let fork = u64_at(value, 0);
        assert!(forks.iter().any(|(key, _)| number(key) == fork));
        let stem = [&fork.to_be_bytes()[..], &[2], key].concat();
        assert!(above.iter().any(|(key, value)| *key == stem && value.is_empty()));
    }
    let mut times = Vec::new();
    for (key, chunk) in &history {
        let (mut at, mut last) = (0, 0);
        while at < chunk.len() {
            last = u64_at(chunk, at);
            let length = u32_at(chunk, at + 16) as usize;
            // Those that keep a state have no operations.
            if chunk[at + 20..at + 20 + length].iter().any(|&byte| byte != 0) {
                times.push(u64_at(chunk, at + 8) as i64);
            }
            at += 20 + length;
        }
        assert_eq!((at, number(key)), (chunk.len(), last));
    }
    assert_eq!(times, (0..6).map(|commit| START + commit * SECOND).collect::<Vec<_>>());
}

#[test]
fn the_document_says_what_a_past_is() {
    check_by_document(&fs::read(golden().join("data")).unwrap());
    let dir = tempfile::tempdir().unwrap();
    make_golden_past(dir.path());
    check_by_document(&fs::read(dir.path().join("crashed/data")).unwrap());
    check_past(&dir.path().join("crashed"));
}

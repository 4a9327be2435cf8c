//! Opening takes a few page reads whatever the size.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use colibri_storage::{Database, Durability, Options, TableKind};

/// Fills a database to about `bytes` and returns the shortest of several openings, closings not
/// counted.
fn open_time(bytes: u64) -> Duration {
    let dir = tempfile::tempdir_in(".").unwrap();
    let options = Options::new().durability(Durability::NoSync);
    let db = Database::open(dir.path(), &options).unwrap();
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Integer).unwrap();
    let value = [7; 900];
    let records = bytes / 1024;
    txn.load_sorted(&table, (0..records).map(|n| (n.to_be_bytes(), value))).unwrap();
    txn.commit().unwrap();
    // Free pages all over the file, so that there is a free map to load.
    for chunk in 0..records / 5_000 {
        let mut txn = db.write().unwrap();
        let (low, high) = ((chunk * 5_000).to_be_bytes(), (chunk * 5_000 + 500).to_be_bytes());
        txn.delete_range(&table, low.as_slice()..high.as_slice()).unwrap();
        txn.commit().unwrap();
    }
    db.close().unwrap();
    let times = (0..5).map(|_| {
        let start = Instant::now();
        let db = Database::open(dir.path(), &options).unwrap();
        let snapshot = db.read().unwrap();
        let table = snapshot.table("table").unwrap();
        assert!(snapshot.get(&table, &(records - 1).to_be_bytes()).unwrap().is_some());
        let opened = start.elapsed();
        let start = Instant::now();
        let mut txn = db.write().unwrap();
        txn.put(&table, &0_u64.to_be_bytes(), b"first write").unwrap();
        txn.commit().unwrap();
        println!("{} bytes: opened and read in {opened:?}, first write after {:?}", bytes, start.elapsed());
        opened
    });
    times.min().unwrap()
}

#[test]
fn a_database_opens_in_milliseconds_whatever_its_size() {
    // Not a measurement, but a tree walk or a scan of the file would show.
    assert!(open_time(200 << 20) < Duration::from_millis(200));
}

#[test]
#[ignore = "writes 10 GB: cargo test --release -p colibri-storage --test open -- --ignored --nocapture"]
fn ten_gigabytes_open_in_under_ten_milliseconds() {
    assert!(open_time(10 << 30) < Duration::from_millis(10));
}

//! Rows of every size are stored densely, after a load in order and after random changes; and stay
//! what they are through changes of all kinds of sizes, full disks left out (`crash.rs` has those).

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use colibri_storage::{Checksums, Database, Durability, Options, Table, TableKind, WriteTxn};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn key(row: u64) -> [u8; 16] {
    let mut key = *b"row.............";
    key[8..].copy_from_slice(&row.to_be_bytes());
    key
}

/// Bytes of the pages in use, the catalogue's left out.
fn bytes_used(db: &Database) -> u64 {
    let stat = db.stat().unwrap();
    let pages = stat.tables.iter().map(|(_, table)| table.leaf_pages + table.branch_pages + table.overflow_pages);
    pages.sum::<u64>() * u64::from(stat.page_size)
}

/// Disk space of a database after a load in order, and of what was closed after random changes:
/// updates by other sizes, insertions and deletions. In 1/100 of the bytes of the values.
fn percents(size: usize) -> (u64, u64) {
    let dir = scratch();
    let options = Options::new().durability(Durability::NoSync);
    let db = Database::open(dir.path(), &options).unwrap();
    let mut rng = StdRng::seed_from_u64(size as u64);
    let rows = (6 << 20) / size as u64;
    let mut sizes: BTreeMap<u64, usize> = (0..rows).map(|row| (2 * row, size)).collect();
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Plain).unwrap();
    txn.load_sorted(&table, sizes.iter().map(|(&row, &size)| (key(row), vec![1; size]))).unwrap();
    txn.commit().unwrap();
    let loaded = bytes_used(&db) * 100 / (rows * size as u64);
    for _ in 0..rows.div_ceil(20) {
        let mut txn = db.write().unwrap();
        for _ in 0..40 {
            let row = rng.random_range(0..2 * rows);
            match (rng.random_range(0..10), sizes.contains_key(&row)) {
                (0, true) => {
                    assert!(txn.delete(&table, &key(row)).unwrap());
                    sizes.remove(&row);
                }
                (0, false) | (2.., false) => {}
                _ => {
                    let size = rng.random_range(size * 7 / 10..=size * 13 / 10);
                    txn.put(&table, &key(row), &vec![2; size]).unwrap();
                    sizes.insert(row, size);
                }
            }
        }
        txn.commit().unwrap();
    }
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{size}: {report:#?}");
    let data: u64 = sizes.values().map(|&size| size as u64).sum();
    let changed = bytes_used(&db) * 100 / data;
    for (&row, &size) in &sizes {
        assert_eq!(db.read().unwrap().get(&table, &key(row)).unwrap().map(<[u8]>::len), Some(size));
    }
    db.close().unwrap();
    let db = Database::open(dir.path(), &options).unwrap();
    // Free space below a few megabytes is kept, so the file counts where it is larger than that.
    let file = db.stat().unwrap().disk_bytes.saturating_sub(4 << 20) * 100 / data;
    (loaded, changed.max(file))
}

#[test]
fn rows_of_every_size_are_stored_densely() {
    for size in
        [300, 500, 1_000, 1_060, 2_000, 3_000, 4_000, 4_100, 5_000, 8_200, 10_000, 16_500, 20_900, 50_000, 100_000]
    {
        let (loaded, changed) = percents(size);
        assert!(loaded <= 120, "values of {size} bytes take {loaded} % after a load");
        assert!(changed <= 150, "values of {size} bytes take {changed} % after random changes");
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn change(rng: &mut StdRng, txn: &mut WriteTxn, table: &Table, model: &mut Model, size_max: usize) {
    let row = rng.random_range(0..400_u32);
    // Some keys share much with each other, some nothing: prefixes come and go.
    let key = match row % 5 {
        0 => row.to_be_bytes().to_vec(),
        1 => format!("a long beginning that many keys have {}/{row}", "-".repeat(300)).into_bytes(),
        _ => format!("a long beginning that many keys have {row}").into_bytes(),
    };
    match rng.random_range(0..20) {
        0..13 => {
            let size = match rng.random_range(0..4) {
                0 => rng.random_range(0..200),
                1 => rng.random_range(0..2_000),
                _ => rng.random_range(0..size_max),
            };
            let value = vec![rng.random(); size];
            txn.put(table, &key, &value).unwrap();
            model.insert(key, value);
        }
        13..19 => assert_eq!(txn.delete(table, &key).unwrap(), model.remove(&key).is_some()),
        _ => {
            let end = [&key[..], &[0xff]].concat();
            let before = model.len();
            model.retain(|other, _| *other < key || *other > end);
            let deleted = txn.delete_range(table, &key[..]..=&end[..]).unwrap();
            assert_eq!(deleted, (before - model.len()) as u64);
        }
    }
}

#[test]
fn random_changes_of_rows_of_all_sizes_match_a_model() {
    for seed in 0..24 {
        println!("COLIBRI_SEED={seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let dir = scratch();
        let page_size = [4096, 4096, 4096, 8192, 16_384, 65_536][rng.random_range(0..6)];
        let size_max = [3_000, 9_000, 26_000][rng.random_range(0..3)];
        let options = Options::new().durability(Durability::NoSync).page_size(page_size).checksums(Checksums::Always);
        let mut db = Database::open(dir.path(), &options).unwrap();
        let mut model = Model::new();
        for round in 0..12 {
            let mut txn = db.write().unwrap();
            let table = txn.create_table("table", TableKind::Plain).unwrap();
            for _ in 0..rng.random_range(1..200) {
                if rng.random_ratio(1, 30) {
                    let saved = model.clone();
                    let mut nested = txn.nested();
                    for _ in 0..rng.random_range(0..30) {
                        change(&mut rng, &mut nested, &table, &mut model, size_max);
                    }
                    if rng.random() {
                        nested.commit();
                    } else {
                        drop(nested);
                        model = saved;
                    }
                } else {
                    change(&mut rng, &mut txn, &table, &mut model, size_max);
                }
            }
            if rng.random_ratio(1, 4) {
                let saved: Model = entries(&db, "table");
                drop(txn);
                model = saved;
            } else {
                txn.commit().unwrap();
            }
            assert!(entries(&db, "table") == model, "seed {seed}, round {round}");
            let report = db.check().unwrap();
            assert!(report.is_clean(), "seed {seed}, round {round}: {report:#?}");
            if rng.random_ratio(1, 4) {
                db.close().unwrap();
                db = Database::open(dir.path(), &options).unwrap();
                assert!(entries(&db, "table") == model, "seed {seed}, round {round}");
            }
        }
    }
}

fn entries(db: &Database, table: &str) -> Model {
    let snapshot = db.read().unwrap();
    let Ok(table) = snapshot.table(table) else { return Model::new() };
    let range = snapshot.view(&table).unwrap().range(..).unwrap();
    range.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

/// What an entry is at both sides of the lengths at which its form changes.
#[test]
fn values_at_the_bounds_between_forms_are_what_they_were() {
    let dir = scratch();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Plain).unwrap();
    let mut lengths = Vec::new();
    for bound in [64, 984, 3_487, 4_064, 8_160, 12_256, 16_383, 16_384, 16_352, 17_430, 20_448, 20_916, 24_560, 24_576]
    {
        lengths.extend(bound - 20..bound + 3);
    }
    lengths.sort_unstable();
    lengths.dedup();
    for &length in &lengths {
        txn.put(&table, &(length as u32).to_be_bytes(), &vec![length as u8; length]).unwrap();
    }
    txn.commit().unwrap();
    let snapshot = db.read().unwrap();
    for length in lengths {
        let value = snapshot.get(&table, &(length as u32).to_be_bytes()).unwrap().unwrap();
        assert!(value.len() == length && value.iter().all(|&byte| byte == length as u8), "{length}");
    }
    drop(snapshot);
    assert!(db.check().unwrap().is_clean());
}

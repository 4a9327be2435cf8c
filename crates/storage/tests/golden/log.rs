//! The golden files of the log: beside the data file of the database that was closed, what a
//! process committed before it was cut off. Its first transactions are in one file, those behind a
//! steady point that did not reach the disk in the other.

use std::fs;
use std::ops::Bound;
use std::path::Path;

use colibri_storage::{Database, Options, TableKind};

use super::{Contents, check_entries, copy_of, expected, golden, u16_at, u32_at, u64_at};

const FILES: [&str; 2] = ["log.0", "log.1"];
/// Transactions in each.
const TRANSACTIONS: [u64; 2] = [2, 2];

/// An operation as the document has it: kind, key, value.
type Operation = (u8, &'static [u8], &'static [u8]);

/// A value, the one of the same length that replaces it, and the difference.
const SEEN: &[u8] = b"weighs 19.4 g, wing 72 mm, seen 04 times, ring 4711-8150";
const SEEN_LATER: &[u8] = b"weighs 20.1 g, wing 72 mm, seen 07 times, ring 4711-8150";
const SINCE: &[u8] = b"\x38\0\x07\0\x04\x0020.1\x16\0\x01\x007";

/// What the records say, each kind of operation among it.
fn operations() -> [Vec<Operation>; 4] {
    [
        vec![
            (1, b"finches", b""),
            (2, b"", b""),
            (7, b"a", b"ground"),
            (7, b"b", b""),
            (7, b"c", b"tree"),
            (7, b"f", b"cactus"),
            (7, b"g", b"warbler"),
            (1, b"pairs", b""),
            (3, b"", b""),
            (7, b"k", b"1"),
            (7, b"k", b"2"),
            (7, b"l\0", b"3"),
            (1, b"counts", b""),
            (4, b"", b""),
            (7, &[0, 0, 0, 0, 0, 0, 1, 2], b"258"),
            (7, &[0xff; 8], b"most"),
        ],
        vec![
            (1, b"birds", b""),
            (8, b"large", b""),
            (10, b"", b""),
            (11, b"birds/of/the/world/010", b""),
            (12, b"birds/of/the/world/020", b""),
            (1, b"pairs", b""),
            (9, b"k", b"1"),
        ],
        vec![
            (1, b"rings", b""),
            (6, b"", b""),
            (5, b"", b""),
            (1, b"flowers", b""),
            (6, b"", b""),
            (1, b"finches", b""),
            (10, b"", b""),
            (13, b"", b""),
            (11, b"b", b""),
            (10, b"", b""),
            (12, b"f", b""),
            (13, b"", b""),
        ],
        vec![(1, b"finches", b""), (7, b"late", b"in the other file"), (7, b"ring", SEEN), (14, b"ring", SINCE)],
    ]
}

/// The contents after so many of the transactions.
fn expected_after(transactions: u64) -> Contents {
    let mut contents = expected(1, "closed");
    let entries = |pairs: &[(&[u8], &[u8])]| pairs.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    if transactions >= 1 {
        let finches: &[(&[u8], &[u8])] =
            &[(b"a", b"ground"), (b"b", b""), (b"c", b"tree"), (b"f", b"cactus"), (b"g", b"warbler")];
        let counts: &[(&[u8], &[u8])] = &[(&[0, 0, 0, 0, 0, 0, 1, 2], b"258"), (&[0xff; 8], b"most")];
        contents.insert("finches".into(), (TableKind::Plain, entries(finches)));
        contents.insert("pairs".into(), (TableKind::Multi, entries(&[(b"k", b"1"), (b"k", b"2"), (b"l\0", b"3")])));
        contents.insert("counts".into(), (TableKind::Integer, entries(counts)));
    }
    if transactions >= 2 {
        let range = b"birds/of/the/world/010".to_vec()..b"birds/of/the/world/020".to_vec();
        contents.get_mut("birds").unwrap().1.retain(|(key, _)| key != b"large" && !range.contains(key));
        contents.get_mut("pairs").unwrap().1.remove(0);
    }
    if transactions >= 3 {
        contents.remove("rings");
        contents.get_mut("flowers").unwrap().1.clear();
        contents.get_mut("finches").unwrap().1.retain(|(key, _)| (&b"c"[..]..=b"f").contains(&&key[..]));
    }
    if transactions >= 4 {
        let more = entries(&[(b"late", b"in the other file"), (b"ring", SEEN_LATER)]);
        contents.get_mut("finches").unwrap().1.extend(more);
    }
    contents
}

fn bound(&(kind, key, _): &Operation) -> Bound<&'static [u8]> {
    match kind {
        11 => Bound::Included(key),
        12 => Bound::Excluded(key),
        13 => Bound::Unbounded,
        kind => panic!("{kind} is no bound"),
    }
}

/// Has the engine do in one transaction what a record is to say.
fn carry_out(db: &Database, operations: &[Operation]) {
    let mut txn = db.write().unwrap();
    let mut table = None;
    let mut operations = operations.iter().peekable();
    while let Some(&(kind, key, value)) = operations.next() {
        if kind == 1 {
            let name = std::str::from_utf8(key).unwrap();
            let made = match operations.peek().map(|operation| operation.0) {
                Some(2) => Some(TableKind::Plain),
                Some(3) => Some(TableKind::Multi),
                Some(4) => Some(TableKind::Integer),
                _ => None,
            };
            table = Some(match made {
                Some(kind) => txn.create_table(name, kind).unwrap(),
                None => txn.table(name).unwrap(),
            });
            continue;
        }
        let table = table.as_ref().unwrap();
        match kind {
            2..=4 => {}
            // To drop a table clears it first.
            6 if operations.peek().is_some_and(|operation| operation.0 == 5) => {}
            5 => txn.drop_table(table).unwrap(),
            6 => txn.clear_table(table).unwrap(),
            7 => txn.put(table, key, value).unwrap(),
            8 => assert!(txn.delete(table, key).unwrap()),
            9 => assert!(txn.delete_value(table, key, value).unwrap()),
            10 => {
                let (low, high) = (bound(operations.next().unwrap()), bound(operations.next().unwrap()));
                assert!(txn.delete_range(table, (low, high)).unwrap() > 0);
            }
            14 => txn.put(table, key, SEEN_LATER).unwrap(),
            kind => panic!("there is no kind {kind}"),
        }
    }
    txn.commit().unwrap();
}

/// Writes the files of the log, without the room that they have to grow into.
fn make(dir: &Path) -> [Vec<u8>; 2] {
    fs::copy(golden(1, "closed").join("data"), dir.join("data")).unwrap();
    let options = Options::new().create(false).log_bytes(1 << 30).log_period(std::time::Duration::MAX);
    let db = Database::open(dir, &options).unwrap();
    for (index, operations) in operations().iter().enumerate() {
        if index as u64 == TRANSACTIONS[0] {
            db.sync().unwrap();
        }
        carry_out(&db, operations);
    }
    let mut at = (u64::MAX, u64::MAX);
    FILES.map(|name| {
        let mut bytes = fs::read(dir.join(name)).unwrap();
        if at.0 == u64::MAX {
            at = start_in_meta();
        }
        let (records, end) = records(&bytes, &mut at);
        assert_eq!(records.len(), 2);
        bytes.truncate(end);
        bytes
    })
}

#[test]
#[ignore = "writes tests/data/golden-v1 anew, which is right only before version 1 is released"]
fn write_the_golden_logs_anew() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(golden(1, "logged")).unwrap();
    for (name, bytes) in FILES.iter().zip(make(dir.path())) {
        fs::write(golden(1, "logged").join(name), bytes).unwrap();
    }
}

fn logs() -> [Vec<u8>; 2] {
    FILES.map(|name| fs::read(golden(1, "logged").join(name)).unwrap())
}

/// The database that was closed, with logs beside it.
fn with_logs(logs: [&[u8]; 2]) -> tempfile::TempDir {
    let dir = copy_of(1, "closed");
    for (name, bytes) in FILES.iter().zip(logs) {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

#[track_caller]
fn check_recovers(logs: [&[u8]; 2], transactions: u64) {
    let dir = with_logs(logs);
    let db = Database::open(dir.path(), &Options::new().create(false)).unwrap();
    assert_eq!(db.recovery().transactions, transactions);
    check_entries(&db, &expected_after(transactions));
    drop(db);
    let db = Database::open(dir.path(), &Options::new().create(false)).unwrap();
    assert_eq!(db.recovery().transactions, 0);
    check_entries(&db, &expected_after(transactions));
}

#[test]
fn a_golden_log_is_carried_out_again() {
    let [first, second] = logs();
    check_recovers([&first, &second], 4);
    // Where a record is not whole, the log ends.
    check_recovers([&first, &second[..second.len() - 8]], 3);
    check_recovers([&first, b""], 2);
    check_recovers([&first[..first.len() - 1], &second], 1);
    check_recovers([b"", &second], 0);
    let mut damaged = first.clone();
    *damaged.last_mut().unwrap() ^= 1;
    check_recovers([&damaged, &second], 1);
}

#[test]
fn this_build_still_writes_the_golden_log() {
    let dir = tempfile::tempdir().unwrap();
    assert!(make(dir.path()) == logs());
}

// ---- what the document says ----

/// An operation as it was read.
type Found = (u8, Vec<u8>, Vec<u8>);

/// Where the log begins, by the newest meta page: the chain's start, and the transaction before its
/// first.
fn start_in_meta() -> (u64, u64) {
    let bytes = fs::read(golden(1, "closed").join("data")).unwrap();
    let meta = &bytes[..super::PAGE];
    assert_eq!(meta[24..4096], bytes[super::PAGE + 24..2 * super::PAGE], "closed: the same point in both");
    assert_eq!((u64_at(meta, 136), u32_at(meta, 152)), (0, 0), "from the start of the first file");
    (u64_at(meta, 144), u64_at(meta, 8))
}

/// The operations of the records at a file's start, and where they end. `at` is the checksum and
/// the transaction before.
fn records(bytes: &[u8], at: &mut (u64, u64)) -> (Vec<Vec<Found>>, usize) {
    let (mut found, mut start) = (Vec::new(), 0);
    while let Some(record) = bytes.get(start..).filter(|rest| rest.len() >= 24 && u32_at(rest, 8) > 0) {
        let length = u32_at(record, 8) as usize;
        let record = &record[..length];
        assert!(length.is_multiple_of(8) && (24..=1 << 20).contains(&length));
        assert_eq!(u64_at(record, 0), xxhash_rust::xxh3::xxh3_64_with_seed(&record[8..], at.0), "checksum");
        assert_eq!((u32_at(record, 12), u64_at(record, 16)), (0, at.1 + 1), "zero, transaction");
        *at = (u64_at(record, 0), at.1 + 1);
        found.push(operations_of(&record[24..]));
        start += length;
    }
    (found, start)
}

fn operations_of(bytes: &[u8]) -> Vec<Found> {
    let (mut found, mut at) = (Vec::new(), 0);
    while bytes.get(at).is_some_and(|&kind| kind != 0) {
        let kind = bytes[at];
        let has_key = [1, 7, 8, 9, 11, 12, 14].contains(&kind);
        let has_value = [7, 9, 14].contains(&kind);
        at += 1;
        let mut length = |has: bool, bytes_of_length: usize| {
            let length = match bytes_of_length {
                _ if !has => return 0,
                2 => u16_at(bytes, at),
                _ => u32_at(bytes, at) as usize,
            };
            at += bytes_of_length;
            length
        };
        let lengths = (length(has_key, 2), length(has_value, 4));
        let key = bytes[at..at + lengths.0].to_vec();
        let value = bytes[at + lengths.0..at + lengths.0 + lengths.1].to_vec();
        at += lengths.0 + lengths.1;
        found.push((kind, key, value));
    }
    assert!(bytes.len() - at < 8 && bytes[at..].iter().all(|&byte| byte == 0), "zeros at the end");
    found
}

#[test]
fn the_golden_log_is_as_the_document_has_it() {
    let mut at = start_in_meta();
    let mut found = Vec::new();
    for (bytes, transactions) in logs().iter().zip(TRANSACTIONS) {
        let (records, end) = records(bytes, &mut at);
        assert_eq!((records.len() as u64, end), (transactions, bytes.len()));
        assert!(bytes.len() < 4096);
        found.extend(records);
    }
    let owned = |operations: &Vec<Operation>| {
        operations.iter().map(|&(kind, key, value)| (kind, key.to_vec(), value.to_vec())).collect()
    };
    assert_eq!(found, operations().iter().map(owned).collect::<Vec<Vec<_>>>());
    let kinds: std::collections::BTreeSet<u8> = operations().iter().flatten().map(|operation| operation.0).collect();
    assert!(kinds.into_iter().eq(1..=14), "every kind belongs into it");
}

//! Bad input: what an application may get wrong, and what the system may refuse. Each time there is
//! a clear error, what was committed stays, a transaction can go on, and so can the database.

#![allow(clippy::unwrap_used)]

mod child;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use child::{Child, Role};
use colibri_storage::{
    Database, Durability, Error, FORMAT_VERSION, Options, Snapshot, Table, TableKind, VALUE_BYTES_MAX, WriteTxn,
};

const KINDS: [TableKind; 3] = [TableKind::Plain, TableKind::Multi, TableKind::Integer];
const MODES: [(&str, Durability); 4] = [
    ("sync", Durability::Sync),
    ("sync without log", Durability::SyncNoLog),
    ("lazy", Durability::Lazy { bytes: 1 << 20, period: Duration::from_millis(20) }),
    ("nosync", Durability::NoSync),
];

/// Written to while a child process starts. Until it runs its own program it has all files open
/// that this process has: a database that is closed meanwhile still looks open. Who minds reads
/// this.
static STARTING: RwLock<()> = RwLock::new(());

type IsRight = fn(&Error) -> bool;
/// Something to do in a transaction.
type Attempt<'t> = Box<dyn Fn(&mut WriteTxn) -> Result<(), Error> + 't>;

/// Small, so that many can be open at once.
fn options() -> Options {
    Options::new().durability(Durability::SyncNoLog).size_max(64 << 20)
}

fn name_of(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Plain => "plain",
        TableKind::Multi => "multi",
        TableKind::Integer => "integer",
    }
}

/// The handle of a table whether or not it is there.
fn table(txn: &mut WriteTxn, kind: TableKind) -> Table {
    txn.create_table(name_of(kind), kind).unwrap()
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Puts entry `n` into a table of each kind.
fn put_everywhere(txn: &mut WriteTxn, n: u64) {
    for kind in KINDS {
        let table = table(txn, kind);
        txn.put(&table, &key(n), format!("value {n}").as_bytes()).unwrap();
    }
}

/// A database with entries 1000 to 1099 in a table of each kind.
fn database(dir: &Path) -> Database {
    let db = Database::open(dir, &options()).unwrap();
    let mut txn = db.write().unwrap();
    (1000..1100).for_each(|n| put_everywhere(&mut txn, n));
    txn.commit().unwrap();
    db
}

/// Which entries the tables have; all three must have the same.
fn contents(snapshot: &Snapshot<'_>) -> BTreeSet<u64> {
    let of = |kind| -> BTreeSet<u64> {
        let view = snapshot.view(&snapshot.table(name_of(kind)).unwrap()).unwrap();
        let entries = view.range(..).unwrap().map(|entry| {
            let (found, value) = entry.unwrap();
            let n = u64::from_be_bytes(found.as_slice().try_into().unwrap());
            assert_eq!(&*value, format!("value {n}").as_bytes());
            n
        });
        entries.collect()
    };
    let plain = of(TableKind::Plain);
    assert_eq!(plain, of(TableKind::Multi));
    assert_eq!(plain, of(TableKind::Integer));
    plain
}

fn assert_clean(db: &Database) {
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

/// The database has these entries, is sound, and takes one more.
#[track_caller]
fn check_goes_on(db: &Database, expected: &BTreeSet<u64>) {
    assert_eq!(contents(&db.read().unwrap()), *expected);
    assert_clean(db);
    let mut txn = db.write().unwrap();
    put_everywhere(&mut txn, 9_999);
    txn.commit().unwrap();
    let mut expected = expected.clone();
    expected.insert(9_999);
    assert_eq!(contents(&db.read().unwrap()), expected);
}

/// An error whose text has all of these parts.
#[track_caller]
fn check_text(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    assert!(parts.iter().all(|part| text.contains(part)), "{text:?} does not say all of {parts:?}");
}

/// Runs what must fail: by itself, between changes, in nested transactions, before an abort. Each
/// time the changes around it are there, and nothing else.
#[track_caller]
fn check<T: Debug>(
    attempt: impl Fn(&mut WriteTxn) -> Result<T, Error>,
    is_right: impl Fn(&Error) -> bool,
    parts: &[&str],
) {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path());
    let mut expected: BTreeSet<u64> = (1000..1100).collect();
    let refused = |txn: &mut WriteTxn| {
        let error = attempt(txn).expect_err("it is refused");
        assert!(is_right(&error), "{error:?}");
        check_text(&error, parts);
    };

    let mut txn = db.write().unwrap();
    refused(&mut txn);
    txn.commit().unwrap();
    assert_eq!(contents(&db.read().unwrap()), expected);

    let mut txn = db.write().unwrap();
    put_everywhere(&mut txn, 1);
    refused(&mut txn);
    put_everywhere(&mut txn, 2);
    let mut nested = txn.nested();
    put_everywhere(&mut nested, 3);
    refused(&mut nested);
    put_everywhere(&mut nested, 4);
    nested.commit();
    let mut nested = txn.nested();
    put_everywhere(&mut nested, 5);
    refused(&mut nested);
    nested.abort();
    refused(&mut txn);
    txn.commit().unwrap();
    expected.extend(1..=4);
    assert_eq!(contents(&db.read().unwrap()), expected);

    let mut txn = db.write().unwrap();
    put_everywhere(&mut txn, 6);
    refused(&mut txn);
    drop(txn);
    check_goes_on(&db, &expected);

    expected.insert(9_999);
    db.close().unwrap();
    let db = Database::open(dir.path(), &options()).unwrap();
    check_goes_on(&db, &expected);
}

/// All ways to put an entry into the table of a kind.
fn check_entry_refused(
    kind: TableKind,
    key: &[u8],
    value: &[u8],
    is_right: impl Fn(&Error) -> bool + Copy,
    parts: &[&str],
) {
    check(
        |txn| {
            let table = table(txn, kind);
            txn.put(&table, key, value)
        },
        is_right,
        parts,
    );
    check(
        |txn| {
            let table = table(txn, kind);
            txn.insert(&table, key, value)
        },
        is_right,
        parts,
    );
    check(
        |txn| {
            let table = table(txn, kind);
            txn.append(&table, key, value)
        },
        is_right,
        parts,
    );
    check(
        |txn| {
            let table = table(txn, kind);
            txn.load_sorted(&table, [(key, value)])
        },
        is_right,
        parts,
    );
}

#[test]
fn a_child_process_plays_its_role() {
    let Some(role) = Role::of_this_process() else { return };
    let (play, mode) = role.name.split_once(' ').unwrap_or((&role.name, "sync"));
    let (_, durability) = MODES.into_iter().find(|(name, _)| *name == mode).expect("a mode's name");
    match play {
        "refused" => everything_that_writes_is_refused(&role.dir),
        "full" => a_full_file_system(&role.dir, durability),
        "make" => making_a_database_without_room(&role.dir),
        "limit" => a_limit_on_file_sizes(&role, durability),
        other => panic!("no such play: {other}"),
    }
    role.say("done");
}

// ---- entries ----

#[test]
fn an_empty_key_is_refused() {
    for kind in KINDS {
        check_entry_refused(kind, b"", b"value", |e| matches!(e, Error::KeyEmpty), &["a key cannot be empty"]);
    }
}

#[test]
fn a_key_that_is_too_long_is_refused_with_the_limit() {
    let max = 4096 / 4 - 64;
    let long = vec![b'k'; max + 1];
    let parts = ["the key has 961 bytes", "at most 960"];
    let is_right =
        |e: &Error| matches!(e, Error::KeyTooLong { bytes, bytes_max } if (*bytes, *bytes_max) == (961, 960));
    check_entry_refused(TableKind::Plain, &long, b"", is_right, &parts);
    check_entry_refused(TableKind::Multi, &long, b"", is_right, &parts);
    // In a table with many values a key, key and value count together, with two bytes between and
    // one for each zero.
    check_entry_refused(TableKind::Multi, &long[..900], &long[..59], is_right, &parts);
    check_entry_refused(TableKind::Multi, &[0; 450], &long[..59], is_right, &parts);
    check_entry_refused(TableKind::Integer, &long, b"", |e| matches!(e, Error::KeyTooLong { .. }), &parts);
}

#[test]
fn a_key_of_the_longest_length_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &options()).unwrap();
    let long = vec![b'k'; db.key_bytes_max()];
    let mut txn = db.write().unwrap();
    let (plain, multi) = (table(&mut txn, TableKind::Plain), table(&mut txn, TableKind::Multi));
    txn.put(&plain, &long, b"value").unwrap();
    txn.put(&multi, &long[..100], &long[102..]).unwrap();
    txn.commit().unwrap();
    assert_clean(&db);
    let snapshot = db.read().unwrap();
    assert_eq!(snapshot.get(&plain, &long).unwrap(), Some(&b"value"[..]));
    assert!(snapshot.view(&multi).unwrap().contains_value(&long[..100], &long[102..]).unwrap());
}

#[test]
fn an_integer_key_has_eight_bytes() {
    for bytes in [1, 4, 7, 9, 100] {
        let is_right = |e: &Error| matches!(e, Error::NotAnIntegerKey { bytes: found } if *found == bytes);
        let says = format!("this one has {bytes}");
        check_entry_refused(
            TableKind::Integer,
            &vec![1; bytes],
            b"v",
            is_right,
            &["exactly 8 bytes, big-endian", &says],
        );
    }
}

#[test]
fn a_value_over_the_limit_is_refused_before_anything_is_written() {
    // Zeros that nobody touches take no memory.
    let value = vec![0; VALUE_BYTES_MAX as usize + 1];
    let is_right = |e: &Error| matches!(e, Error::ValueTooLong { bytes_max: VALUE_BYTES_MAX, .. });
    for kind in KINDS {
        check_entry_refused(kind, &key(1), &value, is_right, &["the value has 4294901760 bytes", "at most 4294901759"]);
    }
}

#[test]
fn appending_out_of_order_is_refused() {
    let is_right = |e: &Error| matches!(e, Error::KeyNotInOrder);
    let parts = ["ascending order", "put takes any order"];
    for kind in KINDS {
        for n in [1050, 1099] {
            let value = format!("value {n}");
            check(
                |txn| {
                    let table = table(txn, kind);
                    txn.append(&table, &key(n), value.as_bytes())
                },
                is_right,
                &parts,
            );
            let entries = [(key(n), value.as_bytes())];
            check(
                |txn| {
                    let table = table(txn, kind);
                    txn.load_sorted(&table, entries)
                },
                is_right,
                &parts,
            );
        }
    }
    // In a table with many values a key, their values ascend as well.
    check(
        |txn| {
            let table = table(txn, TableKind::Multi);
            txn.append(&table, &key(1099), b"smaller")
        },
        is_right,
        &parts,
    );
}

#[test]
fn loading_keeps_what_came_before_the_entry_that_is_wrong() {
    let bad: [(&[u8], IsRight); 3] = [
        (&[0; 8], |e| matches!(e, Error::KeyNotInOrder)),
        (b"", |e| matches!(e, Error::KeyEmpty)),
        (&[9; 2000], |e| matches!(e, Error::KeyTooLong { .. })),
    ];
    for kind in KINDS {
        // Into an empty table, and behind entries.
        for start in [0, 5000] {
            for (wrong, is_right) in bad {
                let dir = tempfile::tempdir().unwrap();
                let db = Database::open(dir.path(), &options()).unwrap();
                let mut txn = db.write().unwrap();
                let table = table(&mut txn, kind);
                txn.load_sorted(&table, (0..start).map(|n| (key(n), b"before"))).unwrap();
                let good = (start..start + 3000).map(|n| (key(n).to_vec(), b"loaded"));
                let entries = good.chain([(wrong.to_vec(), b"wrong!")]).chain([(key(1 << 40).to_vec(), b"after!")]);
                let error = txn.load_sorted(&table, entries).unwrap_err();
                assert!(is_right(&error), "{kind}: {error:?}");
                txn.put(&table, &key(1 << 50), b"later").unwrap();
                txn.commit().unwrap();
                assert_clean(&db);
                let snapshot = db.read().unwrap();
                let view = snapshot.view(&table).unwrap();
                assert_eq!(view.len(), start + 3001, "{kind}");
                assert!(view.contains(&key(start + 2999)).unwrap() && !view.contains(&key(1 << 40)).unwrap());
            }
        }
    }
}

#[test]
fn looking_for_keys_that_cannot_be_finds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path());
    for kind in KINDS {
        for wrong in [vec![], vec![0; 3], vec![0xff; 961], vec![7; 100_000]] {
            let mut txn = db.write().unwrap();
            let table = table(&mut txn, kind);
            assert!(!txn.delete(&table, &wrong).unwrap());
            if kind == TableKind::Multi {
                assert!(!txn.delete_value(&table, &wrong, &wrong).unwrap());
            } else {
                assert_eq!(txn.get(&table, &wrong).unwrap(), None);
            }
            txn.commit().unwrap();
            let snapshot = db.read().unwrap();
            let view = snapshot.view(&table).unwrap();
            assert!(!view.contains(&wrong).unwrap());
            let rank = view.rank(&wrong).unwrap();
            assert!(rank == 0 || rank == 100);
            let mut cursor = view.cursor();
            assert_eq!(cursor.seek(&wrong).unwrap(), rank == 0);
            assert_eq!(cursor.seek_before(&wrong).unwrap(), rank == 100);
            assert!(!cursor.seek_exact(&wrong).unwrap() && !cursor.seek_value(&wrong, &wrong).unwrap());
            assert_eq!(view.range(wrong.as_slice()..wrong.as_slice()).unwrap().count(), 0);
        }
    }
    check_goes_on(&db, &(1000..1100).collect());
}

#[test]
fn a_range_that_ends_before_it_starts_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path());
    let (low, high) = (key(1020), key(1040));
    for kind in KINDS {
        let mut txn = db.write().unwrap();
        let table = table(&mut txn, kind);
        assert_eq!(txn.delete_range(&table, high.as_slice()..low.as_slice()).unwrap(), 0);
        txn.commit().unwrap();
        let snapshot = db.read().unwrap();
        let view = snapshot.view(&table).unwrap();
        assert_eq!(view.count(high.as_slice()..low.as_slice()).unwrap(), 0);
        assert_eq!(view.range(high.as_slice()..low.as_slice()).unwrap().rev().count(), 0);
        assert!(view.nth(100).unwrap().is_none() && view.nth(u64::MAX).unwrap().is_none());
    }
    check_goes_on(&db, &(1000..1100).collect());
}

// ---- tables ----

#[test]
fn an_operation_of_another_kind_of_table_is_refused() {
    let wrong = |operation: &'static str| move |e: &Error| matches!(e, Error::WrongTableKind { operation: found, .. } if *found == operation);
    let says = ["\"multi\" is a table with many values a key", "get"];
    check(
        |txn| {
            let table = table(txn, TableKind::Multi);
            txn.get(&table, &key(1000)).map(|_| ())
        },
        wrong("get"),
        &says,
    );
    for kind in [TableKind::Plain, TableKind::Integer] {
        let is = kind.to_string();
        check(
            |txn| {
                let table = table(txn, kind);
                txn.delete_value(&table, &key(1000), b"value 1000")
            },
            wrong("delete_value"),
            &[&is, name_of(kind), "delete_value"],
        );
        check(
            |txn| {
                let table = table(txn, kind);
                txn.view(&table)?.values(&key(1000)).map(|_| ())
            },
            wrong("values"),
            &[&is, name_of(kind), "values"],
        );
        check(
            |txn| {
                let table = table(txn, kind);
                txn.view(&table)?.contains_value(&key(1000), b"value 1000")
            },
            wrong("contains_value"),
            &[&is, name_of(kind), "contains_value"],
        );
    }
}

#[test]
fn a_table_keeps_its_kind() {
    for kind in KINDS {
        for other in KINDS.into_iter().filter(|&other| other != kind) {
            check(
                |txn| txn.create_table(name_of(kind), other),
                |e| matches!(e, Error::TableExists { kind: found, .. } if *found == kind),
                &[name_of(kind), &format!("is {kind}"), "choose another name"],
            );
        }
    }
}

/// Bug: a name could be so long that what the catalogue says of the table had no room beside it in
/// the leaf. Consequence: the table was made and called corrupted from then on. Fix: names are
/// bounded by what goes inside a leaf.
#[test]
fn the_longest_name_of_a_table_is_found_again() {
    for page_size in [4096, 65536] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), &Options::new().page_size(page_size)).unwrap();
        let name = "n".repeat(page_size as usize / 4 - 88);
        let mut txn = db.write().unwrap();
        txn.create_table(&name, TableKind::Plain).unwrap();
        txn.create_table(&(name.clone() + "n"), TableKind::Plain).unwrap_err();
        txn.commit().unwrap();
        assert_eq!(db.read().unwrap().table(&name).unwrap().name(), name);
    }
}

#[test]
fn a_name_of_a_table_has_bounds() {
    let long = "n".repeat(937);
    let is_right = |e: &Error| matches!(e, Error::TableName { bytes: 0 | 937, bytes_max: 936 });
    check(|txn| txn.create_table("", TableKind::Plain), is_right, &["from 1 to 936 bytes", "has 0"]);
    check(|txn| txn.create_table(&long, TableKind::Plain), is_right, &["from 1 to 936 bytes", "has 937"]);
    for name in ["", &long, "nests"] {
        let is_right = |e: &Error| matches!(e, Error::NoSuchTable { name: found } if found == name);
        check(|txn| txn.table(name), is_right, &["there is no table", name]);
    }
}

/// All that can be done with a table's handle.
fn every_use(table: &Table) -> Vec<Attempt<'_>> {
    vec![
        Box::new(|txn| txn.put(table, &key(1), b"v")),
        Box::new(|txn| txn.insert(table, &key(1), b"v").map(|_| ())),
        Box::new(|txn| txn.append(table, &key(1 << 40), b"v")),
        Box::new(|txn| txn.load_sorted(table, [(key(1 << 40), b"v")]).map(|_| ())),
        Box::new(|txn| txn.delete(table, &key(1000)).map(|_| ())),
        Box::new(|txn| txn.delete_range(table, ..).map(|_| ())),
        Box::new(|txn| txn.clear_table(table)),
        Box::new(|txn| txn.drop_table(table)),
        Box::new(|txn| txn.view(table).map(|_| ())),
        Box::new(|txn| match table.kind() {
            TableKind::Multi => txn.delete_value(table, &key(1000), b"v").map(|_| ()),
            _ => txn.get(table, &key(1000)).map(|_| ()),
        }),
    ]
}

#[test]
fn the_handle_of_a_dropped_table_is_refused() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let db = database(dir.path());
        let mut txn = db.write().unwrap();
        let gone = txn.create_table("gone", kind).unwrap();
        txn.put(&gone, &key(1), b"v").unwrap();
        txn.commit().unwrap();
        let before = db.read().unwrap();
        let mut txn = db.write().unwrap();
        txn.drop_table(&gone).unwrap();
        let is_right = |e: &Error| matches!(e, Error::NoSuchTable { name } if name == "gone");
        // In the transaction that dropped it, and later.
        for _ in 0..2 {
            for attempt in every_use(&gone) {
                let error = attempt(&mut txn).unwrap_err();
                assert!(is_right(&error), "{kind}: {error:?}");
                check_text(&error, &["there is no table \"gone\""]);
            }
            txn.commit().unwrap();
            txn = db.write().unwrap();
        }
        let after = db.read().unwrap();
        assert!(is_right(&after.view(&gone).map(|_| ()).unwrap_err()));
        assert!(is_right(&after.table("gone").unwrap_err()));
        // Who saw it goes on seeing it.
        assert_eq!(before.view(&gone).unwrap().len(), 1);
        // Its name as another kind of table: the old handle does not fit it.
        let other = KINDS.into_iter().find(|&other| other != kind).unwrap();
        let again = txn.create_table("gone", other).unwrap();
        txn.put(&again, &key(1), b"w").unwrap();
        txn.commit().unwrap();
        let mut txn = db.write().unwrap();
        for attempt in every_use(&gone) {
            let error = attempt(&mut txn).unwrap_err();
            assert!(matches!(&error, Error::TableExists { kind, .. } if *kind == other), "{kind}: {error:?}");
        }
        drop(txn);
        assert_eq!(db.read().unwrap().view(&again).unwrap().len(), 1);
        drop(before);
        check_goes_on(&db, &(1000..1100).collect());
    }
}

#[test]
fn a_handle_outlives_a_drop_that_is_undone() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path());
    let mut txn = db.write().unwrap();
    let plain = table(&mut txn, TableKind::Plain);
    let mut nested = txn.nested();
    nested.drop_table(&plain).unwrap();
    assert!(matches!(nested.get(&plain, &key(1000)), Err(Error::NoSuchTable { .. })));
    nested.abort();
    assert!(txn.get(&plain, &key(1000)).unwrap().is_some());
    txn.commit().unwrap();
    check_goes_on(&db, &(1000..1100).collect());
}

// ---- how a database is opened ----

#[test]
fn options_out_of_range_are_named_with_their_range() {
    let lazy = |bytes| Durability::Lazy { bytes, period: Duration::from_secs(1) };
    let cases: [(Options, &str, &str); 12] = [
        (Options::new().page_size(0), "page_size", "from 4096 to 65536"),
        (Options::new().page_size(2048), "page_size", "from 4096 to 65536"),
        (Options::new().page_size(5000), "page_size", "a power of two"),
        (Options::new().page_size(1 << 17), "page_size", "from 4096 to 65536"),
        (Options::new().size_max(0), "size_max", "from 262144 bytes"),
        (Options::new().size_max((256 << 10) - 1), "size_max", "from 262144 bytes"),
        (Options::new().size_max(u64::MAX), "size_max", "to 281474976710656 (256 TiB)"),
        (options().size_initial(65 << 20), "size_initial", "must not exceed size_max"),
        (Options::new().readers_max(0), "readers_max", "from 1 to 1048576"),
        (Options::new().readers_max((1 << 20) + 1), "readers_max", "from 1 to 1048576"),
        (Options::new().readers_max(u32::MAX), "readers_max", "from 1 to 1048576"),
        (Options::new().durability(lazy(0)), "durability", "at least 1 byte"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (options, named, range) in cases {
        let error = Database::open(dir.path().join("new"), &options).unwrap_err();
        assert!(matches!(error, Error::InvalidOption { option, .. } if option == named), "{error:?}");
        check_text(&error, &[named, range]);
    }
    assert!(!dir.path().join("new").exists(), "a refused option made a directory");
}

#[test]
fn options_at_the_ends_of_their_ranges_work() {
    let lazy = |bytes, period| Durability::Lazy { bytes, period };
    let cases = [
        options().size_max(256 << 10),
        options().size_max(256 << 40),
        options().size_max(1 << 20).size_initial(1 << 20),
        options().readers_max(1),
        options().readers_max(1 << 20),
        options().page_size(64 << 10),
        options().durability(lazy(1, Duration::MAX)),
        options().durability(lazy(u64::MAX, Duration::ZERO)),
    ];
    for (case, options) in cases.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), &options).unwrap_or_else(|e| panic!("case {case}: {e}"));
        let lazily = case >= 6;
        let mut txn = db.write().unwrap();
        put_everywhere(&mut txn, 1);
        let committed = txn.commit().unwrap();
        // Whether by bytes or by time, the flusher comes.
        for _ in 0..1000 {
            if !lazily || db.stat().unwrap().steady_txn == committed {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(db.stat().unwrap().steady_txn, committed, "case {case}");
        assert_eq!(contents(&db.read().unwrap()).len(), 1);
        db.close().unwrap();
    }
}

/// Bug: the flusher added its period to the time of the first commit. Consequence: a period without
/// end, to flush by bytes alone, ended the thread with a panic, and nothing was flushed any more.
/// Fix: a deadline that cannot be is none.
#[test]
fn a_period_without_end_leaves_flushing_to_the_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let endless = Durability::Lazy { bytes: 100_000, period: Duration::MAX };
    let db = Database::open(dir.path(), &options().durability(endless)).unwrap();
    for (n, steady) in [(1, false), (2, true)] {
        let mut txn = db.write().unwrap();
        put_everywhere(&mut txn, n);
        let filler = txn.create_table("filler", TableKind::Integer).unwrap();
        for n in 0..if steady { 1000_u64 } else { 1 } {
            txn.put(&filler, &key(n), &[1; 500]).unwrap();
        }
        let committed = txn.commit().unwrap();
        let is_steady = || db.stat().unwrap().steady_txn == committed;
        // If the flusher came, it came by now.
        for _ in 0..if steady { 1000 } else { 10 } {
            std::thread::sleep(Duration::from_millis(10));
            if is_steady() {
                break;
            }
        }
        assert_eq!(is_steady(), steady);
    }
}

#[test]
fn a_missing_database_is_not_made_unless_that_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    for missing in [dir.path().to_owned(), dir.path().join("missing")] {
        for options in [options().create(false), options().read_only(true), options().read_only(true).create(true)] {
            let error = Database::open(&missing, &options).unwrap_err();
            assert!(matches!(&error, Error::NotFound { path } if *path == missing), "{error:?}");
            check_text(&error, &["there is no database in", missing.to_str().unwrap()]);
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "something was made");
}

/// Puts something where the data file should be, and opens that for writing and for reading.
#[track_caller]
fn check_data_refused(make: impl Fn(&Path), is_right: impl Fn(&Error) -> bool, parts: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    make(&dir.path().join("data"));
    let before = fs::read(dir.path().join("data")).ok();
    for read_only in [false, true] {
        let error = Database::open(dir.path(), &options().read_only(read_only)).unwrap_err();
        assert!(is_right(&error), "{error:?}");
        check_text(&error, parts);
    }
    assert_eq!(fs::read(dir.path().join("data")).ok(), before, "a file that is no database was changed");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was left behind");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_stays_as_it_is() {
    let not_a_database = |e: &Error| matches!(e, Error::NotADatabase { .. });
    check_data_refused(|data| fs::write(data, "").unwrap(), not_a_database, &["data is not a Colibri", "it is empty"]);
    check_data_refused(|data| fs::write(data, "short").unwrap(), not_a_database, &["too short for a meta page"]);
    let text = "once upon a time ".repeat(10_000);
    check_data_refused(|data| fs::write(data, &text).unwrap(), not_a_database, &["it has no meta page"]);
    check_data_refused(|data| fs::write(data, vec![0; 1 << 20]).unwrap(), not_a_database, &["it has no meta page"]);
    let is_a_directory = |e: &Error| matches!(e, Error::Io { .. });
    check_data_refused(|data| fs::create_dir(data).unwrap(), is_a_directory, &["data", "Is a directory"]);
}

#[test]
fn a_file_cut_off_behind_its_first_page_is_refused() {
    let _calm = keep_from_starting();
    let dir = tempfile::tempdir().unwrap();
    database(dir.path()).close().unwrap();
    fs::File::options().write(true).open(dir.path().join("data")).unwrap().set_len(4096).unwrap();
    for read_only in [false, true] {
        let error = Database::open(dir.path(), &options().read_only(read_only)).unwrap_err();
        assert!(matches!(error, Error::Corrupted { .. }), "{error:?}");
        check_text(&error, &["page 1 is corrupted", "the file ends before its second meta page"]);
    }
}

#[test]
fn a_file_cut_off_while_it_is_open_is_refused_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path());
    let data = fs::File::options().write(true).open(dir.path().join("data")).unwrap();
    let length = data.metadata().unwrap().len();
    data.set_len(8192).unwrap();
    for read_only in [false, true] {
        let error = Database::open(dir.path(), &options().read_only(read_only)).unwrap_err();
        assert!(matches!(error, Error::Corrupted { .. }), "{error:?}");
        check_text(&error, &["the file ends before it, and others have it open"]);
    }
    // So that closing finds its meta pages, and what it trims.
    data.set_len(length).unwrap();
    drop(db);
}

#[test]
fn a_path_that_is_no_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "text").unwrap();
    for path in [file.clone(), file.join("below")] {
        for read_only in [false, true] {
            let error = Database::open(&path, &options().read_only(read_only)).unwrap_err();
            assert!(matches!(error, Error::Io { .. }), "{error:?}");
            check_text(&error, &["cannot open", path.to_str().unwrap(), "Not a directory"]);
        }
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "text");
}

/// Changes the two meta pages of a closed database with 4 KiB pages, and seals them again.
fn change_meta(dir: &Path, change: impl Fn(&mut [u8])) {
    let file = fs::File::options().read(true).write(true).open(dir.join("data")).unwrap();
    for slot in 0..2_u64 {
        let mut page = [0; 4096];
        file.read_exact_at(&mut page, slot * 4096).unwrap();
        change(&mut page);
        let checksum = xxhash_rust::xxh3::xxh3_64_with_seed(&page[8..], slot);
        page[..8].copy_from_slice(&checksum.to_le_bytes());
        file.write_all_at(&page, slot * 4096).unwrap();
    }
}

#[test]
fn a_newer_format_is_named_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    database(dir.path()).close().unwrap();
    change_meta(dir.path(), |page| page[40..44].copy_from_slice(&(FORMAT_VERSION + 6).to_le_bytes()));
    let before = fs::read(dir.path().join("data")).unwrap();
    for read_only in [false, true] {
        let error = Database::open(dir.path(), &options().read_only(read_only)).unwrap_err();
        assert!(matches!(error, Error::NewerFormat { found: 11, supported: 5, .. }), "{error:?}");
        check_text(&error, &["format version 11", "reads up to 5", "use a newer Colibri"]);
    }
    assert!(fs::read(dir.path().join("data")).unwrap() == before);
    change_meta(dir.path(), |page| page[40..44].copy_from_slice(&0_u32.to_le_bytes()));
    let error = Database::open(dir.path(), &options()).unwrap_err();
    assert!(matches!(error, Error::Corrupted { .. }), "there is no version 0: {error:?}");
    // The newest version of files that are not encrypted.
    change_meta(dir.path(), |page| page[40..44].copy_from_slice(&(FORMAT_VERSION - 1).to_le_bytes()));
    check_goes_on(&Database::open(dir.path(), &options()).unwrap(), &(1000..1100).collect());
}

#[test]
fn another_page_size_than_the_databases_is_refused_with_both() {
    let sizes = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
    for found in sizes {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), &options().page_size(found)).unwrap();
        let mut txn = db.write().unwrap();
        put_everywhere(&mut txn, 1);
        txn.commit().unwrap();
        // While it is open elsewhere, and when it is not.
        for _ in 0..2 {
            for wanted in sizes.into_iter().filter(|&wanted| wanted != found) {
                let error = Database::open(dir.path(), &options().page_size(wanted)).unwrap_err();
                let is_right =
                    matches!(error, Error::PageSizeMismatch { found: f, wanted: w } if (f, w) == (found, wanted));
                assert!(is_right, "{error:?}");
                let says = [format!("pages of {found} bytes"), format!("{wanted} were asked for")];
                check_text(&error, &[&says[0], &says[1], "leave Options::page_size out"]);
            }
        }
        db.close().unwrap();
        let db = Database::open(dir.path(), &options()).unwrap();
        assert_eq!(db.page_size(), found);
        check_goes_on(&db, &[1].into());
    }
}

// ---- sharing ----

#[test]
fn a_lock_file_of_another_layout_is_refused_in_use_and_replaced_otherwise() {
    let _calm = keep_from_starting();
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path());
    let lock = fs::File::options().write(true).open(dir.path().join("lock")).unwrap();
    // The layout's version stands behind the magic number.
    lock.write_all_at(&77_u32.to_le_bytes(), 8).unwrap();
    for read_only in [false, true] {
        let error = Database::open(dir.path(), &options().read_only(read_only)).unwrap_err();
        assert!(matches!(error, Error::OtherVersionRunning { .. }), "{error:?}");
        check_text(&error, &["lock is in use by another version", "close the database there"]);
    }
    check_goes_on(&db, &(1000..1100).collect());
    db.close().unwrap();
    let expected: BTreeSet<u64> = (1000..1100).chain([9_999]).collect();
    for garbage in [vec![], b"text".to_vec(), vec![0xff; 100_000], vec![0; 1 << 20]] {
        fs::write(dir.path().join("lock"), garbage).unwrap();
        check_goes_on(&Database::open(dir.path(), &options()).unwrap(), &expected);
    }
}

#[test]
fn a_lock_file_that_cannot_be_made_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    database(dir.path()).close().unwrap();
    fs::remove_file(dir.path().join("lock")).unwrap();
    fs::create_dir(dir.path().join("lock")).unwrap();
    for read_only in [false, true] {
        let error = Database::open(dir.path(), &options().read_only(read_only)).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error:?}");
        check_text(&error, &["cannot open", "lock", "Is a directory"]);
    }
    fs::remove_dir(dir.path().join("lock")).unwrap();
    check_goes_on(&Database::open(dir.path(), &options()).unwrap(), &(1000..1100).collect());
}

#[test]
fn a_database_whose_directory_is_removed_takes_no_more_commits() {
    for (durability, committed_before) in
        [(Durability::Sync, true), (Durability::Sync, false), (Durability::SyncNoLog, true), (Durability::NoSync, true)]
    {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("database");
        database(&dir).close().unwrap();
        let db = Database::open(&dir, &options().durability(durability)).unwrap();
        if committed_before {
            let mut txn = db.write().unwrap();
            put_everywhere(&mut txn, 1);
            txn.commit().unwrap();
        }
        let before = contents(&db.read().unwrap());
        fs::remove_dir_all(&dir).unwrap();
        let mut txn = db.write().unwrap();
        put_everywhere(&mut txn, 2);
        let error = txn.commit().and_then(|_| db.sync()).unwrap_err();
        assert!(matches!(error, Error::Removed { .. }), "{durability:?}: {error:?}");
        check_text(&error, &["database", "was removed", "nothing can be committed"]);
        assert!(matches!(db.write().err(), Some(Error::Poisoned)));
        assert!(contents(&db.read().unwrap()).is_superset(&before));
        db.close().unwrap_err();
        assert!(!dir.exists());
        assert!(matches!(Database::open(&dir, &options().create(false)), Err(Error::NotFound { .. })));
    }
}

#[test]
fn a_database_opened_for_reading_does_not_write() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path());
    let reader = Database::open(dir.path(), &options().read_only(true)).unwrap();
    for error in [reader.write().map(|_| ()), reader.try_write().map(|_| ()), reader.sync()].map(Result::unwrap_err) {
        assert!(matches!(error, Error::ReadOnly), "{error:?}");
        check_text(&error, &["opened read-only", "without Options::read_only"]);
    }
    assert_eq!(contents(&reader.read().unwrap()).len(), 100);
    check_goes_on(&db, &(1000..1100).collect());
    assert_eq!(contents(&reader.read().unwrap()).len(), 101);
}

#[test]
fn a_second_writer_that_does_not_wait_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path());
    let other = Database::open(dir.path(), &options()).unwrap();
    let txn = db.write().unwrap();
    for handle in [&db, &other] {
        let error = handle.try_write().map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Busy), "{error:?}");
        check_text(&error, &["another write transaction is active", "try again"]);
    }
    drop(txn);
    other.try_write().unwrap().abort();
    check_goes_on(&other, &(1000..1100).collect());
}

#[test]
fn snapshots_beyond_the_limit_are_refused_until_others_go() {
    let dir = tempfile::tempdir().unwrap();
    let few = options().readers_max(3);
    let db = Database::open(dir.path(), &few).unwrap();
    let mut txn = db.write().unwrap();
    put_everywhere(&mut txn, 1);
    txn.commit().unwrap();
    // Who joins gets the slots that are there, whatever it asks for.
    let other = Database::open(dir.path(), &options()).unwrap();
    let mut snapshots = vec![db.read().unwrap(), other.read().unwrap(), db.read().unwrap()];
    for handle in [&db, &other] {
        let error = handle.read().map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::ReadersFull { readers_max: 3 }), "{error:?}");
        check_text(&error, &["all 3 reader slots", "drop snapshots", "Options::readers_max"]);
        let error = handle.check().unwrap_err();
        assert!(matches!(error, Error::ReadersFull { .. }), "{error:?}");
    }
    // Writing needs none.
    let mut txn = db.write().unwrap();
    put_everywhere(&mut txn, 2);
    txn.commit().unwrap();
    for snapshot in &snapshots {
        assert_eq!(contents(snapshot), [1].into());
    }
    snapshots.remove(2);
    assert_eq!(contents(&db.read().unwrap()), [1, 2].into());
    snapshots.clear();
    check_goes_on(&other, &[1, 2].into());
}

/// Bug: a process that found no free process slot left as the owner of the first one. Consequence:
/// it gave up the snapshots of the process that was, whose pages were then written over. Fix: who
/// has no slot gives up nothing.
#[test]
fn more_processes_than_there_is_room_for_are_refused_and_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let first = database(dir.path());
    let snapshot = first.read().unwrap();
    let mut others: Vec<_> = (1..128).map(|_| Database::open(dir.path(), &options()).unwrap()).collect();
    for read_only in [false, true] {
        let error = Database::open(dir.path(), &options().read_only(read_only)).unwrap_err();
        assert!(matches!(error, Error::ProcessesFull { processes_max: 128 }), "{error:?}");
        check_text(&error, &["open 128 times", "close it elsewhere"]);
    }
    assert_eq!(first.readers().len(), 1, "the snapshot lost its slot");
    for other in &others[..20] {
        let mut txn = other.write().unwrap();
        for kind in KINDS {
            let table = table(&mut txn, kind);
            txn.clear_table(&table).unwrap();
        }
        put_everywhere(&mut txn, 5);
        txn.commit().unwrap();
        assert_eq!(contents(&snapshot), (1000..1100).collect());
    }
    drop(snapshot);
    others.pop();
    check_goes_on(&Database::open(dir.path(), &options()).unwrap(), &[5].into());
}

/// Bug: all openings of one process wrote a new database under the same name before they gave it
/// its own. Consequence: one could empty the file that another had just made and begun to use. Fix:
/// each uses a name of its own.
#[test]
fn threads_that_make_a_database_at_once_make_one() {
    for _ in 0..40 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    let db = Database::open(path, &options().durability(Durability::NoSync)).unwrap();
                    let mut txn = db.write().unwrap();
                    put_everywhere(&mut txn, thread);
                    txn.commit().unwrap();
                });
            }
        });
        check_goes_on(&Database::open(&path, &options()).unwrap(), &(0..8).collect());
        let names: BTreeSet<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["data", "lock"].map(Into::into).into());
    }
}

// ---- what the system refuses ----

/// Says in the test's output, captured or not, what was not tested.
fn notice(what: &str) {
    let _ = writeln!(std::io::stderr(), "NOT TESTED here: {what}");
}

fn succeeds(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    start(|| command.spawn()).is_ok_and(|mut child| child.wait().is_ok_and(|status| status.success()))
}

fn start<T>(child: impl FnOnce() -> T) -> T {
    let _starting = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    child()
}

fn keep_from_starting() -> RwLockReadGuard<'static, ()> {
    STARTING.read().unwrap_or_else(PoisonError::into_inner)
}

/// How to run a command with file systems mounted for it alone, by a shell script that ends in
/// `exec "$@"`.
fn private_mounts(script: &'static str) -> Option<Vec<&'static str>> {
    let as_root = vec!["unshare", "--mount", "sh", "-ec"];
    let as_user = vec!["unshare", "--map-root-user", "--mount", "sh", "-ec"];
    [as_root, as_user].into_iter().find_map(|mut wrapper| {
        wrapper.push("mount -t tmpfs -o size=64k none /tmp");
        succeeds(&wrapper).then(|| {
            wrapper.pop();
            wrapper.extend([script, "sh"]);
            wrapper
        })
    })
}

#[track_caller]
fn play(wrapper: &[&str], role: &str, dir: &Path) {
    let mut child = start(|| Child::start_under(wrapper, role, dir));
    assert_eq!(child.hear(), "done");
    child.finish();
}

/// In a directory with two databases that this process may read and not write, `closed` without its
/// lock file.
fn everything_that_writes_is_refused(dir: &Path) {
    for name in ["closed", "new", "new/below", "with lock"] {
        let path = dir.join(name);
        let error = Database::open(&path, &options()).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error:?}");
        check_text(&error, &["cannot ", path.to_str().unwrap()]);
        let text = error.to_string();
        assert!(text.contains("Permission denied") || text.contains("Read-only file system"), "{text}");
        if path.exists() {
            check_text(&error, &["cannot open"]);
        }
    }
    let error = Database::open(dir, &options()).unwrap_err();
    check_text(&error, &["cannot create a database in"]);
    assert!(!dir.join("new").exists());

    for name in ["closed", "with lock"] {
        let reader = Database::open(dir.join(name), &options().read_only(true)).unwrap();
        assert_eq!(contents(&reader.read().unwrap()), (1000..1100).collect());
        assert_clean(&reader);
        assert!(matches!(reader.write().map(|_| ()), Err(Error::ReadOnly)));
        reader.close().unwrap();
    }
}

/// The directory for [`everything_that_writes_is_refused`], and its bytes.
fn readable_databases(dir: &Path) -> Vec<Vec<u8>> {
    for name in ["closed", "with lock"] {
        database(&dir.join(name)).close().unwrap();
    }
    fs::remove_file(dir.join("closed/lock")).unwrap();
    bytes_of(dir)
}

fn bytes_of(dir: &Path) -> Vec<Vec<u8>> {
    assert!(!dir.join("closed/lock").exists());
    ["closed/data", "with lock/data", "with lock/lock"].map(|name| fs::read(dir.join(name)).unwrap()).into()
}

#[test]
fn a_read_only_file_system_is_read_and_not_written() {
    let script = r#"mount --bind "$COLIBRI_TEST_DIR" "$COLIBRI_TEST_DIR"
        mount -o remount,bind,ro "$COLIBRI_TEST_DIR"; exec "$@""#;
    let Some(wrapper) = private_mounts(script) else {
        return notice("a read-only file system: mounting one is not permitted");
    };
    let dir = tempfile::tempdir().unwrap();
    let before = readable_databases(dir.path());
    play(&wrapper, "refused", dir.path());
    assert!(bytes_of(dir.path()) == before);
    for name in ["closed", "with lock"] {
        check_goes_on(&Database::open(dir.path().join(name), &options()).unwrap(), &(1000..1100).collect());
    }
}

#[test]
fn a_directory_without_permission_to_write_is_read_and_not_written() {
    const NOBODY: u32 = 65534;
    let dir = tempfile::tempdir().unwrap();
    let before = readable_databases(dir.path());
    let set_mode = |dir_mode, file_mode| {
        for name in ["", "closed", "with lock"] {
            let path = dir.path().join(name);
            for file in ["data", "lock"].map(|file| path.join(file)).iter().filter(|file| file.exists()) {
                fs::set_permissions(file, Permissions::from_mode(file_mode)).unwrap();
            }
            fs::set_permissions(path, Permissions::from_mode(dir_mode)).unwrap();
        }
    };
    let executable = std::env::current_exe().unwrap();
    set_mode(0o555, 0o444);
    // Root may write whatever the mode says: then the child is another user, who must be able to
    // run this binary.
    let is_root = fs::write(dir.path().join("probe"), "").is_ok();
    let mut command = Command::new(&executable);
    let mut probe = Command::new(&executable);
    if is_root {
        fs::remove_file(dir.path().join("probe")).unwrap();
        command.uid(NOBODY).gid(NOBODY);
        probe.uid(NOBODY).gid(NOBODY);
    }
    let probed = start(|| probe.arg("--list").stdout(Stdio::null()).spawn());
    if !probed.is_ok_and(|mut child| child.wait().is_ok_and(|status| status.success())) {
        return notice("a directory without permission to write: another user cannot run the test");
    }
    let mut child = start(|| Child::start_by(&mut command, "refused", dir.path()));
    assert_eq!(child.hear(), "done");
    child.finish();
    assert!(bytes_of(dir.path()) == before);
    set_mode(0o755, 0o644);
    for name in ["closed", "with lock"] {
        check_goes_on(&Database::open(dir.path().join(name), &options()).unwrap(), &(1000..1100).collect());
    }
}

/// What takes room: the value of entry `n` of table `ballast`.
fn ballast(n: u64) -> Vec<u8> {
    let len = match n % 7 {
        0 => 30_000,
        1 => 5_000,
        _ => 400,
    };
    vec![n as u8; len]
}

/// Puts entry `n` everywhere, with something that takes room.
fn put_with_ballast(txn: &mut WriteTxn, n: u64) -> Result<(), Error> {
    for kind in KINDS {
        let table = txn.create_table(name_of(kind), kind)?;
        txn.put(&table, &key(n), format!("value {n}").as_bytes())?;
    }
    let table = txn.create_table("ballast", TableKind::Plain)?;
    txn.put(&table, &key(n), &ballast(n))
}

fn delete_with_ballast(txn: &mut WriteTxn, n: u64) -> Result<(), Error> {
    for name in ["plain", "multi", "integer", "ballast"] {
        let table = txn.table(name)?;
        assert!(txn.delete(&table, &key(n))?);
    }
    Ok(())
}

/// Exactly these entries are there, with their ballast.
#[track_caller]
fn check_ballast(db: &Database, expected: &BTreeSet<u64>) {
    let snapshot = db.read().unwrap();
    assert_eq!(contents(&snapshot), *expected);
    let view = snapshot.view(&snapshot.table("ballast").unwrap()).unwrap();
    assert_eq!(view.len(), expected.len() as u64);
    for &n in expected {
        assert!(view.get(&key(n)).unwrap() == Some(&ballast(n)));
    }
}

/// The database is sound. Looking at free space takes a steady point, which may find no room.
#[track_caller]
fn check_clean_or_full(db: &Database, is_full: IsRight) {
    match db.check() {
        Ok(report) => assert!(report.is_clean(), "{report:#?}"),
        Err(e) => assert!(is_full(&e), "{e:?}"),
    }
}

/// Fills a database until there is no more room, in all ways; what was committed stays and is
/// whole. Then `make_room` is asked for room, and all goes on.
fn run_out_of_room(
    open: impl Fn() -> Database,
    is_full: IsRight,
    parts: &[&str],
    make_room: impl FnOnce(Database) -> Database,
) {
    let db = open();
    let mut committed = BTreeSet::new();
    let transact = |change: &dyn Fn(&mut WriteTxn) -> Result<(), Error>| -> Result<(), Error> {
        let mut txn = db.write()?;
        change(&mut txn)?;
        txn.commit()?;
        Ok(())
    };
    let refused = |e: &Error| {
        assert!(is_full(e), "{e:?}");
        check_text(e, parts);
    };

    // Transaction after transaction, until one finds no room.
    let mut next = 0;
    loop {
        match transact(&|txn| put_with_ballast(txn, next)) {
            Ok(()) => _ = committed.insert(next),
            Err(e) => break refused(&e),
        }
        next += 1;
        assert!(next < 10_000, "there is always room");
    }
    assert!(committed.len() > 20, "only {next} transactions fitted");
    check_ballast(&db, &committed);
    check_clean_or_full(&db, is_full);

    // One large transaction, several times.
    for _ in 0..3 {
        let error = transact(&|txn| (0..10_000).try_for_each(|n| put_with_ballast(txn, next + n))).unwrap_err();
        refused(&error);
        let error = transact(&|txn| {
            let table = txn.table("ballast")?;
            txn.load_sorted(&table, (next..next + 10_000).map(|n| (key(n), ballast(n)))).map(|_| ())
        });
        refused(&error.unwrap_err());
        check_ballast(&db, &committed);
    }

    // A transaction that goes on after each refusal, and keeps in nested ones what fitted.
    let before = committed.clone();
    let mut kept = BTreeSet::new();
    let mut txn = db.write().unwrap();
    for n in next..next + 200 {
        let mut nested = txn.nested();
        match put_with_ballast(&mut nested, n) {
            Ok(()) => {
                nested.commit();
                kept.insert(n);
            }
            Err(e) => refused(&e),
        }
    }
    match txn.commit() {
        Ok(_) => committed.extend(kept),
        Err(e) => refused(&e),
    }
    check_ballast(&db, &committed);
    check_clean_or_full(&db, is_full);
    next += 200;

    // Deleting makes room in the file as well, if there is any to begin with; and what it makes is
    // used.
    let mut deleted = 0;
    for &n in &before {
        match transact(&|txn| delete_with_ballast(txn, n)) {
            Ok(()) => {
                deleted += 1;
                committed.remove(&n);
            }
            Err(e) => {
                refused(&e);
                // What was committed but is not on disk yet keeps its pages; it may be that a
                // steady point fits.
                match db.sync() {
                    Ok(()) => {}
                    Err(e) => refused(&e),
                }
            }
        }
        if deleted > before.len() / 2 {
            break;
        }
    }
    assert!(deleted > 0, "a full database cannot even be emptied");
    check_ballast(&db, &committed);
    check_clean_or_full(&db, is_full);
    let mut reused = 0;
    for n in next..next + 10 {
        match transact(&|txn| put_with_ballast(txn, n)) {
            Ok(()) => {
                reused += 1;
                committed.insert(n);
            }
            Err(e) => refused(&e),
        }
    }
    assert!(reused > 0, "what was deleted left no room");
    check_ballast(&db, &committed);

    // Dropping a table that takes much of it, while there is no room: whole or not at all.
    let mut txn = db.write().unwrap();
    let large = txn.table("ballast").unwrap();
    let mut nested = txn.nested();
    let dropped = nested.drop_table(&large);
    dropped.as_ref().err().inspect(|e| refused(e));
    assert_eq!(nested.view(&large).is_err(), dropped.is_ok());
    drop(nested);
    assert!(txn.view(&large).is_ok());
    drop(txn);

    let db = make_room(db);
    check_ballast(&db, &committed);
    assert_clean(&db);
    for n in next + 100..next + 110 {
        let mut txn = db.write().unwrap();
        put_with_ballast(&mut txn, n).unwrap();
        txn.commit().unwrap();
        committed.insert(n);
    }
    db.sync().unwrap();
    check_ballast(&db, &committed);
    assert_clean(&db);
    db.close().unwrap();
    let db = open();
    check_ballast(&db, &committed);
    assert_clean(&db);
}

fn disk_is_full(error: &Error) -> bool {
    matches!(error, Error::DiskFull { .. })
}

const DISK_FULL_SAYS: [&str; 2] = ["no room for ", "the disk is full, or a quota or a limit on file sizes is reached"];

/// The files of the log have grown by whole steps, or not at all: see `FileLog::grow`.
fn check_log_took_nothing_in_vain(path: &Path) {
    for name in ["log.0", "log.1"] {
        let length = fs::metadata(path.join(name)).map_or(0, |metadata| metadata.len());
        assert_eq!(length % (256 << 10), 0, "{name} has {length} bytes");
    }
}

/// In a directory with a file system of its own of 4 MiB.
fn a_full_file_system(dir: &Path, durability: Durability) {
    let spare = dir.join("spare");
    fs::write(&spare, vec![1; 1 << 20]).unwrap();
    let path = dir.join("db");
    let open = || Database::open(&path, &options().durability(durability)).unwrap();
    run_out_of_room(open, disk_is_full, &DISK_FULL_SAYS, |db| {
        check_log_took_nothing_in_vain(&path);
        fs::remove_file(&spare).unwrap();
        db
    });
}

/// As above: no database, or part of one, comes into being without room, and then one does.
fn making_a_database_without_room(dir: &Path) {
    let spare = dir.join("spare");
    let file = fs::File::create(&spare).unwrap();
    let mut left = 0;
    while file.write_all_at(&[1; 4096], left).is_ok() {
        left += 4096;
    }
    let path = dir.join("new/db");
    // With more and more room, until there is enough.
    let made = loop {
        match Database::open(&path, &options().size_initial(64 << 10)) {
            Ok(db) => break db,
            Err(e) => {
                assert!(disk_is_full(&e), "{e:?}");
                check_text(&e, &["no room for ", path.to_str().unwrap()]);
                // The lock file comes last: until then nothing is left, and after it a whole, empty
                // database.
                if !e.to_string().contains("lock") {
                    assert!(!dir.join("new").exists());
                }
            }
        }
        left = left.checked_sub(4096).expect("some room is enough");
        file.set_len(left).unwrap();
    };
    file.set_len(0).unwrap();
    let mut txn = made.write().unwrap();
    put_everywhere(&mut txn, 1);
    txn.commit().unwrap();
    check_goes_on(&made, &[1].into());
}

/// With a limit on the sizes of files that the parent raises when asked to.
fn a_limit_on_file_sizes(role: &Role, durability: Durability) {
    let path = role.dir.join("db");
    let open = || Database::open(&path, &options().durability(durability)).unwrap();
    run_out_of_room(open, disk_is_full, &DISK_FULL_SAYS, |db| {
        check_log_took_nothing_in_vain(&path);
        role.say("more");
        assert_eq!(role.hear().as_deref(), Some("more"));
        db
    });
}

#[test]
fn a_full_disk_takes_nothing_that_was_committed() {
    let script = r#"mount -t tmpfs -o size=4m none "$COLIBRI_TEST_DIR"; exec "$@""#;
    let Some(wrapper) = private_mounts(script) else {
        return notice("a full disk: mounting a small file system is not permitted");
    };
    let dir = tempfile::tempdir().unwrap();
    for (mode, _) in MODES {
        play(&wrapper, &format!("full {mode}"), dir.path());
    }
    play(&wrapper, "make", dir.path());
}

#[test]
fn a_limit_on_file_sizes_takes_nothing_that_was_committed() {
    // Without the signal the system tells of the limit by an error.
    let wrapper = ["prlimit", "--fsize=3000000:unlimited", "sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];
    if !succeeds(&[&wrapper[..], &["true"]].concat()) {
        return notice("a limit on file sizes: there is no prlimit");
    }
    for (mode, _) in MODES {
        let dir = tempfile::tempdir().unwrap();
        let mut child = start(|| Child::start_under(&wrapper, &format!("limit {mode}"), dir.path()));
        assert_eq!(child.hear(), "more");
        let pid = child.pid().to_string();
        assert!(succeeds(&["prlimit", "--fsize=unlimited", "--pid", &pid]));
        assert_eq!(child.ask("more"), "done");
        child.finish();
    }
}

#[test]
fn a_full_database_takes_nothing_that_was_committed() {
    let is_full = |e: &Error| matches!(e, Error::DatabaseFull { size_max: 2_097_152 });
    let says = ["the database is full", "2097152 bytes", "open it with a larger Options::size_max"];
    for (_, durability) in MODES {
        let dir = tempfile::tempdir().unwrap();
        let small = Options::new().size_max(2 << 20).durability(durability);
        let open = || Database::open(dir.path(), &small).unwrap();
        run_out_of_room(open, is_full, &says, |db| {
            drop(db);
            Database::open(dir.path(), &small.clone().size_max(8 << 20)).unwrap()
        });
    }
}

/// Bug: the room that a steady point may need was asked for behind the last page, even if most of
/// the file was free. Consequence: after a transaction that filled the file and was aborted, no
/// other could commit. Fix: free pages will do.
#[test]
fn a_transaction_that_fills_the_file_and_is_aborted_leaves_room_for_others() {
    for (_, durability) in MODES {
        let dir = tempfile::tempdir().unwrap();
        let small = Options::new().size_max(2 << 20).durability(durability);
        let db = Database::open(dir.path(), &small).unwrap();
        let mut txn = db.write().unwrap();
        put_everywhere(&mut txn, 1);
        txn.commit().unwrap();
        let mut txn = db.write().unwrap();
        let plain = table(&mut txn, TableKind::Plain);
        let filled = (2..).find_map(|n| txn.put(&plain, &key(n), &[1; 500]).err()).unwrap();
        assert!(matches!(filled, Error::DatabaseFull { .. }), "{filled:?}");
        // To the last page of the file: large values ask for their pages first.
        for pages in (1..60).rev() {
            let _ = txn.put(&plain, &key(0), &vec![1; pages * 4096 - 32]);
        }
        drop(txn);
        check_goes_on(&db, &[1].into());
    }
}

/// Bug: dropping a table without room for the catalogue's change forgot that the table's pages were
/// given up. Consequence: the transaction could go on and commit a table whose pages were then
/// given to others. Fix: room is asked for first.
#[test]
fn a_table_that_cannot_be_dropped_for_lack_of_room_stays_whole() {
    let dir = tempfile::tempdir().unwrap();
    let small = Options::new().size_max(2 << 20).durability(Durability::NoSync);
    let db = Database::open(dir.path(), &small).unwrap();
    let mut txn = db.write().unwrap();
    // So many tables that the catalogue has two levels, and changing it takes more room than
    // changing `eater`.
    for n in 0..200 {
        txn.create_table(&format!("table {n}"), TableKind::Plain).unwrap();
    }
    put_everywhere(&mut txn, 1);
    let eater = txn.create_table("eater", TableKind::Plain).unwrap();
    for n in 0..100 {
        txn.put(&eater, &key(n), b"").unwrap();
    }
    txn.commit().unwrap();

    let mut txn = db.write().unwrap();
    let plain = table(&mut txn, TableKind::Plain);
    // Until not one more page fits: what is new leaves room to delete, but what replaces takes it.
    for (bytes, keys) in [(300_000, 0..10), (30_000, 10..30), (4_000, 30..100)] {
        for n in keys {
            if let Err(e) = txn.put(&eater, &key(n), &vec![1; bytes]) {
                assert!(matches!(e, Error::DatabaseFull { .. }), "{e:?}");
            }
        }
    }
    let error = txn.drop_table(&plain).unwrap_err();
    assert!(matches!(error, Error::DatabaseFull { .. }), "{error:?}");
    assert_eq!(txn.view(&plain).unwrap().len(), 1);
    txn.clear_table(&eater).unwrap();
    txn.put(&eater, &key(1), b"").unwrap();
    txn.commit().unwrap();
    check_goes_on(&db, &[1].into());
}

/// Bug: deleting a range asked for room a second time when the range was gone already. Consequence:
/// a refusal in a transaction that went on, and committed what was refused. Fix: room for all of it
/// is asked for first.
#[test]
fn a_range_that_cannot_be_deleted_for_lack_of_room_stays_whole() {
    let dir = tempfile::tempdir().unwrap();
    let small = Options::new().size_max(2 << 20).durability(Durability::NoSync);
    let db = Database::open(dir.path(), &small).unwrap();
    let mut txn = db.write().unwrap();
    let numbers = txn.create_table("numbers", TableKind::Integer).unwrap();
    txn.load_sorted(&numbers, (0..20_000).map(|n| (key(n), b"number"))).unwrap();
    let eater = txn.create_table("eater", TableKind::Plain).unwrap();
    txn.put(&eater, b"large", b"").unwrap();
    for n in 0..40 {
        txn.put(&eater, &key(n), b"").unwrap();
    }
    txn.commit().unwrap();
    // With more and more room, until it is enough.
    for pages in 0..60 {
        let mut txn = db.write().unwrap();
        let mut large = 2 << 20;
        while txn.nested().put(&eater, b"large", &vec![1; large]).is_err() {
            large -= 4096;
        }
        txn.put(&eater, b"large", &vec![1; large - 4096 * pages]).unwrap();
        // What is left is just about `pages` and what putting asked for.
        let (low, high) = (key(5_000), key(15_000));
        let deleted = txn.delete_range(&numbers, low.as_slice()..high.as_slice());
        let left = txn.view(&numbers).unwrap().len();
        match deleted {
            Ok(deleted) => assert_eq!((deleted, left), (10_000, 10_000)),
            Err(e) => {
                assert!(matches!(e, Error::DatabaseFull { .. }), "{e:?}");
                assert_eq!(left, 20_000, "refused, and done");
            }
        }
        if left == 10_000 {
            txn.clear_table(&eater).unwrap();
            txn.commit().unwrap();
            assert_clean(&db);
            assert_eq!(db.read().unwrap().view(&numbers).unwrap().len(), 10_000);
            return;
        }
    }
    panic!("the range was never deleted");
}

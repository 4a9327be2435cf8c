//! Dumps against the engine: round trips, real dumps of LMDB, and inputs that a table cannot take.

use std::collections::BTreeMap;

use super::*;
use crate::Options;

const LMDB_ALL: &str = include_str!("../../tests/data/lmdb-0.9.24-all.dump");
const LMDB_ALL_PRINT: &str = include_str!("../../tests/data/lmdb-0.9.24-all-print.dump");
const LMDB_MAIN: &str = include_str!("../../tests/data/lmdb-0.9.24-main.dump");

/// A database in a directory that goes away with it.
struct Scratch {
    db: Database,
    _dir: tempfile::TempDir,
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

impl Scratch {
    fn new() -> Self {
        Self::with(&Options::new())
    }

    fn with(options: &Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { db: Database::open(dir.path().join("db"), options).unwrap(), _dir: dir }
    }

    fn loaded(text: &str) -> (Self, LoadReport) {
        let scratch = Self::new();
        let report = scratch.load(text, &LoadOptions::new()).unwrap();
        assert_eq!(scratch.db.check().unwrap().problems, Vec::<String>::new());
        (scratch, report)
    }

    fn load(&self, text: &str, options: &LoadOptions) -> Result<LoadReport> {
        load(&self.db, &mut text.as_bytes(), options)
    }

    fn dump(&self, tables: Option<&[&str]>) -> String {
        let mut text = Vec::new();
        dump(&self.db.read().unwrap(), tables, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Everything in the database: kind and entries by table name.
    fn content(&self) -> BTreeMap<String, (TableKind, Entries)> {
        let snapshot = self.db.read().unwrap();
        let tables = snapshot.tables().unwrap();
        tables.iter().map(|table| (table.name().to_owned(), (table.kind(), entries(&snapshot, table)))).collect()
    }
}

fn entries(snapshot: &Snapshot, table: &Table) -> Entries {
    let entry = |entry: Result<(crate::Key, crate::Value<'_>)>| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    };
    snapshot.view(table).unwrap().range(..).unwrap().map(entry).collect()
}

fn bytes(pairs: &[(&[u8], &[u8])]) -> Entries {
    pairs.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

#[track_caller]
fn check_refused(text: &str, line_expected: u64, reason_expected: &str) {
    let scratch = Scratch::new();
    match scratch.load(text, &LoadOptions::new()) {
        Err(Error::InvalidDump { line, reason }) => {
            assert_eq!(line, line_expected, "{reason}");
            assert!(reason.contains(reason_expected), "{reason:?} does not say {reason_expected:?}");
        }
        other => panic!("expected an error on line {line_expected}, got {other:?}"),
    }
    assert!(scratch.content().is_empty(), "a refused dump left something behind");
}

/// All table kinds, with names and bytes that need care.
fn every_kind() -> Scratch {
    let scratch = Scratch::new();
    let mut txn = scratch.db.write().unwrap();
    let plain = txn.create_table("plain \\ café=1\nline two", TableKind::Plain).unwrap();
    txn.put(&plain, b"\x00", b"").unwrap();
    txn.put(&plain, b"DATA=END", b"\nDATA=END\n").unwrap();
    txn.put(&plain, b"large", &[0xab; 100_000]).unwrap();
    txn.put(&plain, &[0xff; 900], b"long key").unwrap();
    let multi = txn.create_table("multi", TableKind::Multi).unwrap();
    for (key, value) in [("a", "1"), ("a", ""), ("a", "2"), ("a\0", "1"), ("b", "\0")] {
        txn.put(&multi, key.as_bytes(), value.as_bytes()).unwrap();
    }
    let integer = txn.create_table("integer", TableKind::Integer).unwrap();
    for number in [0, 1, 255, 256, 1 << 32, u64::MAX] {
        txn.put(&integer, &number.to_be_bytes(), number.to_string().as_bytes()).unwrap();
    }
    txn.create_table("empty", TableKind::Multi).unwrap();
    txn.commit().unwrap();
    scratch
}

#[test]
fn all_kinds_of_tables_survive_a_round_trip() {
    let original = every_kind();
    let text = original.dump(None);
    let (copy, report) = Scratch::loaded(&text);
    assert_eq!(copy.content(), original.content());
    assert_eq!(report, LoadReport { tables: 4, entries: 15, notes: Vec::new() });
    assert_eq!(copy.dump(None), text);
}

#[test]
fn chosen_tables_are_dumped_in_the_order_given() {
    let scratch = every_kind();
    let text = scratch.dump(Some(&["multi", "empty"]));
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("database=")).collect();
    assert_eq!(names, ["multi", "empty"]);
    let mut out = Vec::new();
    let outcome = dump(&scratch.db.read().unwrap(), Some(&["multi", "nobody"]), &mut out);
    assert!(matches!(outcome, Err(Error::NoSuchTable { name }) if name == "nobody"));
    assert!(out.is_empty());
}

#[test]
fn a_real_dump_of_lmdb_gives_its_tables() {
    let expected_large: Vec<u8> = (0..=255).filter(|byte| *byte != b'\\').cycle().take(5_100).collect();
    let big_endian = |numbers: &[u64]| -> Entries {
        numbers.iter().map(|number| (number.to_be_bytes().to_vec(), number.to_string().into_bytes())).collect()
    };
    for text in [LMDB_ALL, LMDB_ALL_PRINT] {
        let (scratch, report) = Scratch::loaded(text);
        assert_eq!(report, LoadReport { tables: 6, entries: 18, notes: Vec::new() });
        let content = scratch.content();
        let birds = bytes(&[
            (b"\x00\xff\n", b""),
            (b"Archilochus colubris", b"ruby-throated"),
            (b"Mellisuga helenae", "zunzuncito, 5 cm \u{2014} the smallest".as_bytes()),
            (b"large", &expected_large),
        ]);
        assert_eq!(content["birds"], (TableKind::Plain, birds));
        assert_eq!(content["empty"], (TableKind::Plain, Vec::new()));
        let flowers = bytes(&[(b"colubris", b"campsis"), (b"colubris", b"salvia"), (b"helenae", b"hamelia")]);
        assert_eq!(content["flowers by bird"], (TableKind::Multi, flowers));
        let (seven, three_hundred) = (7_u64.to_be_bytes(), 300_u64.to_be_bytes());
        let ringed = bytes(&[(&seven, b"aa"), (&seven, b"bb"), (&three_hundred, b"cc")]);
        assert_eq!(content["ringed"], (TableKind::Multi, ringed));
        assert_eq!(content["weights"], (TableKind::Integer, big_endian(&[1, 80, 256, (1 << 31) + 5])));
        assert_eq!(content["wingbeats"], (TableKind::Integer, big_endian(&[1, 80, 256, 1 << 40])));
    }
}

#[test]
fn the_unnamed_database_goes_to_a_table_and_its_records_of_others_are_pointed_out() {
    let (scratch, report) = Scratch::loaded(LMDB_MAIN);
    assert_eq!((report.tables, report.entries), (1, 7));
    assert!(matches!(&report.notes[..], [note] if note.starts_with("6 entries") && note.contains("mdb_dump -a")));
    assert_eq!(scratch.content().keys().collect::<Vec<_>>(), ["main"]);

    let scratch = Scratch::new();
    scratch.load(LMDB_MAIN, &LoadOptions::new().table("top")).unwrap();
    assert_eq!(scratch.content().keys().collect::<Vec<_>>(), ["top"]);
}

#[test]
fn orders_that_lmdb_alone_keeps_are_pointed_out() {
    let (_, report) = Scratch::loaded("VERSION=3\nreversekey=1\nHEADER=END\n 6261\n \n 6162\n \nDATA=END\n");
    assert!(report.notes[0].contains("reversekey"), "{:?}", report.notes);
    let (_, report) = Scratch::loaded("VERSION=3\nduplicates=1\nintegerdup=1\nHEADER=END\n 61\n 01\nDATA=END\n");
    assert!(report.notes[0].contains("values"), "{:?}", report.notes);
}

#[test]
fn loading_into_a_table_with_entries_replaces_and_adds() {
    let scratch = Scratch::new();
    let first = "VERSION=3\nformat=print\nHEADER=END\n a\n 1\n c\n 3\nDATA=END\n";
    let second = "VERSION=3\nformat=print\nHEADER=END\n d\n 4\n b\n 2\n a\n one\nDATA=END\n";
    scratch.load(first, &LoadOptions::new()).unwrap();
    scratch.load(second, &LoadOptions::new()).unwrap();
    let expected = bytes(&[(b"a", b"one"), (b"b", b"2"), (b"c", b"3"), (b"d", b"4")]);
    assert_eq!(scratch.content()["main"], (TableKind::Plain, expected));
}

#[test]
fn a_dump_that_breaks_off_changes_nothing() {
    let text = LMDB_ALL.strip_suffix("DATA=END\n").unwrap();
    let lines = text.lines().count() as u64;
    check_refused(text, lines, "DATA=END is missing");
    check_refused("", 1, "empty");
    check_refused("\n\n", 1, "empty");
}

#[test]
fn keys_that_no_table_takes_are_refused_with_their_line() {
    let long = "6b".repeat(961);
    check_refused(&format!("VERSION=3\nHEADER=END\n 61\n \n {long}\n \nDATA=END\n"), 5, "at most 960");
    check_refused("VERSION=3\nHEADER=END\n \n 76\nDATA=END\n", 3, "empty");
    check_refused("VERSION=3\nintegerkey=1\nHEADER=END\n 010203\n \nDATA=END\n", 4, "4 or 8 bytes");
    check_refused("VERSION=3\nintegerkey=1\nHEADER=END\n 00000001\n \n 00000100\n \nDATA=END\n", 6, "big-endian");
}

#[test]
fn a_long_key_fits_a_database_with_larger_pages() {
    let scratch = Scratch::with(&Options::new().page_size(16 << 10));
    let text = format!("VERSION=3\nHEADER=END\n {}\n \nDATA=END\n", "6b".repeat(961));
    assert_eq!(scratch.load(&text, &LoadOptions::new()).unwrap().entries, 1);
}

#[test]
fn a_table_of_another_kind_is_refused() {
    let scratch = every_kind();
    let text = "VERSION=3\ndatabase=multi\nHEADER=END\nDATA=END\n";
    match scratch.load(text, &LoadOptions::new()) {
        Err(Error::InvalidDump { line: 1, reason }) => {
            assert!(reason.ends_with("but is a plain table in the dump"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_output_is_an_error() {
    let mut room = [0_u8; 100];
    let outcome = dump(&every_kind().db.read().unwrap(), None, &mut &mut room[..]);
    assert!(matches!(outcome, Err(Error::Io { action: "cannot write", .. })), "{outcome:?}");
}

#[test]
fn values_that_only_resemble_a_record_of_lmdb_are_not_pointed_out() {
    let record = |numbers: [u64; 6]| -> Vec<u8> { numbers.iter().flat_map(|number| number.to_le_bytes()).collect() };
    let plausible = record([1 << 48, 0, 1, 0, 4, 3]);
    assert!(looks_like_sub_database(&plausible, Some(1 << 20)));
    assert!(looks_like_sub_database(&record([0, 0, 0, 0, 0, u64::MAX]), None));
    assert!(!looks_like_sub_database(&plausible[..47], None));
    assert!(!looks_like_sub_database(&[b'x'; 48], None));
    assert!(!looks_like_sub_database(&[0; 48], None));
    assert!(!looks_like_sub_database(&record([1 << 48, 0, 1, 0, 4, 1 << 40]), Some(1 << 20)));
}

/// Bug: backslashes and control characters in a table's name were escaped, which `mdb_load` does
/// not know. Consequence: it made a database of another name. Fix: the name is written as it is,
/// and again in hexadecimal for `load`.
#[test]
fn names_of_any_characters_come_back_and_are_written_as_they_are() {
    use rand::{Rng, SeedableRng};
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = rand::rngs::StdRng::seed_from_u64(seed);
    let scratch = Scratch::new();
    let mut txn = scratch.db.write().unwrap();
    let mut names = vec!["a\\b".to_owned(), "a\\5cb".to_owned(), "=".to_owned(), " x ".to_owned(), "\r".to_owned()];
    for _ in 0..200 {
        let length = random.random_range(1..12);
        let character = |_| match random.random_range(0..4) {
            0 => random.random_range('\0'..' '),
            1 => ['\\', '5', 'c', '=', '\n', '\0', '\x7f'][random.random_range(0..7)],
            2 => random.random_range('a'..='z'),
            _ => random.random_range('\u{80}'..'\u{2fff}'),
        };
        names.push((0..length).map(character).collect());
    }
    names.sort();
    names.dedup();
    for name in &names {
        let table = txn.create_table(name, TableKind::Plain).unwrap();
        txn.put(&table, b"name", name.as_bytes()).unwrap();
    }
    txn.commit().unwrap();
    let text = scratch.dump(None);
    let (copy, report) = Scratch::loaded(&text);
    assert_eq!(report.tables, names.len() as u64);
    assert_eq!(copy.content(), scratch.content());
    // What `mdb_load` takes for the name: all that is behind the sign up to the line's end.
    let written: Vec<&str> = text.split('\n').filter_map(|line| line.strip_prefix("database=")).collect();
    for name in names.iter().filter(|name| !name.contains(['\n', '\0'])) {
        assert!(written.contains(&name.as_str()), "{name:?}");
    }
}

/// Dumps of versions that escaped the name, and did not say it again.
#[test]
fn names_in_dumps_of_earlier_versions_are_read_as_they_were_meant() {
    let text =
        "VERSION=3\nformat=bytevalue\ndatabase=a\\5cb\\0a\ntype=btree\ncolibri=plain\nHEADER=END\n 61\n 62\nDATA=END\n";
    let (copy, _) = Scratch::loaded(text);
    assert_eq!(copy.content().keys().collect::<Vec<_>>(), ["a\\b\n"]);
}

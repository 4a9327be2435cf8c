//! Damaged files: whatever is wrong with a byte, a page or the length of the data file, each answer
//! is either the right one or an error that names the damage. Never a panic, a wrong value or an
//! endless loop.
//!
//! What is promised depends on the checksum policy (`Checksums`). With checksums verified, on first
//! touch or always, all of the above holds for any number of damaged bytes. Without them only the
//! form of pages is verified: values may then be wrong, but nothing leaves its bounds, and nothing
//! runs for ever.
//!
//! A page that was replaced by a whole older version of itself has a right checksum. The format
//! finds it where levels, counts or the order of keys do not match those of its neighbours; a test
//! here says how far that goes.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use colibri_storage::{
    Checksums, Database, Durability, Error, Key, Options, Result, Snapshot, TableKind, TxnId, Value, View, WriteTxn,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What a table should hold: pairs in order; the value is part of the key where a key has many.
type Entries = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;
type Model = BTreeMap<&'static str, Entries>;

const TABLES: [(&str, TableKind); 3] =
    [("plain", TableKind::Plain), ("multi", TableKind::Multi), ("integer", TableKind::Integer)];
/// Bytes of a meta page that count.
const META_BYTES: usize = 4096;
const HEADER_BYTES: usize = 32;
/// Where a page's header has the number of its transaction.
const AT_TXN: usize = 8;

/// A directory in memory if there is a file system for that: the tests open thousands of databases.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

// ---- small databases ----

/// The data file of a small database, and what it may hold when it is opened.
struct Sample {
    name: &'static str,
    page_size: usize,
    image: Vec<u8>,
    /// What is right, by the transaction that a snapshot sees.
    states: BTreeMap<TxnId, Model>,
}

fn put(txn: &mut WriteTxn, model: &mut Model, name: &'static str, key: &[u8], value: &[u8]) {
    let table = txn.table(name).unwrap();
    txn.put(&table, key, value).unwrap();
    let (pair, stored) = match table.kind() {
        TableKind::Multi => ((key.to_vec(), value.to_vec()), Vec::new()),
        _ => ((key.to_vec(), Vec::new()), value.to_vec()),
    };
    model.get_mut(name).unwrap().insert(pair, stored);
}

fn delete(txn: &mut WriteTxn, model: &mut Model, name: &'static str, key: &[u8]) {
    let table = txn.table(name).unwrap();
    assert!(txn.delete(&table, key).unwrap());
    model.get_mut(name).unwrap().retain(|pair, _| pair.0 != key);
}

/// Every kind of table, with values inside and outside leaves, and pages that were freed and used
/// again.
fn fill(db: &Database, model: &mut Model) {
    let page_size = db.page_size() as usize;
    let mut txn = db.write().unwrap();
    for (name, kind) in TABLES {
        txn.create_table(name, kind).unwrap();
        model.insert(name, Entries::new());
    }
    for n in 0..24_u32 {
        let key = match n % 3 {
            0 => format!("a prefix that many have/{n:04}").into_bytes(),
            1 => n.to_be_bytes().to_vec(),
            _ => vec![b'x'; 1 + 7 * n as usize],
        };
        put(&mut txn, model, "plain", &key, &vec![n as u8; page_size / 16 + 9 * n as usize]);
        put(&mut txn, model, "integer", &(u64::from(n) * 77).to_be_bytes(), &vec![!n as u8; page_size / 10]);
        for value in 0..4_u32 {
            put(&mut txn, model, "multi", format!("key\0{}", n % 5).as_bytes(), &[(n + value) as u8; 50]);
        }
    }
    put(&mut txn, model, "plain", b"large", &vec![0xa5; page_size * 3 / 2]);
    put(&mut txn, model, "integer", &5_u64.to_be_bytes(), &vec![0x5a; page_size / 2]);
    txn.commit().unwrap();
    let mut txn = db.write().unwrap();
    put(&mut txn, model, "plain", b"larger", &vec![0x77; page_size * 2]);
    for n in 10..14_u64 {
        delete(&mut txn, model, "integer", &(n * 77).to_be_bytes());
    }
    txn.commit().unwrap();
    let mut txn = db.write().unwrap();
    delete(&mut txn, model, "plain", b"larger");
    delete(&mut txn, model, "multi", b"key\x003");
    put(&mut txn, model, "plain", b"last", b"value");
    txn.commit().unwrap();
}

fn image_of(dir: &Path) -> Vec<u8> {
    std::fs::read(dir.join("data")).unwrap()
}

fn closed(name: &'static str, page_size: u32) -> Sample {
    let dir = scratch();
    let db =
        Database::open(dir.path(), &Options::new().durability(Durability::SyncNoLog).page_size(page_size)).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model);
    let txn = db.read().unwrap().txn();
    db.close().unwrap();
    Sample { name, page_size: page_size as usize, image: image_of(dir.path()), states: [(txn, model)].into() }
}

/// The file as it is while the database is open: the newest point lists its pages, and the one
/// before is whole.
fn open_while_copied() -> Sample {
    let dir = scratch();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::SyncNoLog)).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model);
    let mut states = BTreeMap::from([(db.read().unwrap().txn(), model.clone())]);
    let mut txn = db.write().unwrap();
    put(&mut txn, &mut model, "plain", b"last", b"another value");
    put(&mut txn, &mut model, "integer", &6_u64.to_be_bytes(), &[6; 100]);
    states.insert(txn.commit().unwrap(), model);
    let mut image = image_of(dir.path());
    // What the file has been given ahead is not of interest.
    let pages = db.stat().unwrap().pages as usize;
    image.truncate(pages * 4096);
    Sample { name: "not closed", page_size: 4096, image, states }
}

/// A database whose free map needs a base and a chain: more pages change between free and used than
/// a meta page lists.
fn fragmented() -> Sample {
    let dir = scratch();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model);
    // Three steady points change so many pages: what they list goes to a chain, to a base, and to a
    // chain again.
    for _ in 0..2 {
        let mut txn = db.write().unwrap();
        let table = txn.create_table("passing", TableKind::Plain).unwrap();
        txn.put(&table, b"value", &vec![1; 4096 * 700]).unwrap();
        txn.commit().unwrap();
        db.sync().unwrap();
        let mut txn = db.write().unwrap();
        txn.drop_table(&table).unwrap();
        txn.commit().unwrap();
        db.sync().unwrap();
    }
    let txn = db.read().unwrap().txn();
    db.close().unwrap();
    Sample { name: "fragmented", page_size: 4096, image: image_of(dir.path()), states: [(txn, model)].into() }
}

// ---- reading everything ----

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Passes on what was read, `None` if damage was found; panics at any other error, unless anything
/// goes.
fn read<T>(result: Result<T>, strict: bool) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::Corrupted { .. }) => None,
        Err(e) => {
            assert!(!strict, "{e}");
            None
        }
    }
}

/// Reads a table in every way there is. If `strict`, what is read must be what the model has, and
/// what cannot be read must be said to be corrupted. Gives whether all of it was read.
fn read_table(view: &View<'_>, entries: &Entries, strict: bool) -> bool {
    let kind = view.stat().kind;
    let multi = kind == TableKind::Multi;
    let mut whole = true;
    let expect = |ok: bool, what: &str| assert!(ok || !strict, "{what} is wrong");
    expect(view.len() == entries.len() as u64, "the number of entries");
    let right = |(key, value): &(Key, Value<'_>), (pair, stored): (&(Vec<u8>, Vec<u8>), &Vec<u8>)| {
        key.as_slice() == pair.0 && **value == **(if multi { &pair.1 } else { stored })
    };
    // Limits the work where counts are damaged and nothing is promised.
    let enough = entries.len() + 100;
    match read(view.range(..), strict) {
        None => whole = false,
        Some(range) => {
            let mut expected = entries.iter();
            let mut ended = false;
            for entry in range.take(enough) {
                match read(entry, strict) {
                    None => ended = true,
                    Some(entry) => expect(expected.next().is_some_and(|e| right(&entry, e)), "an entry of a range"),
                }
            }
            expect(ended || expected.next().is_none(), "the end of a range");
            whole &= !ended;
        }
    }
    if let Some(range) = read(view.range(..), strict) {
        let mut expected = entries.iter().rev();
        let mut ended = false;
        for entry in range.rev().take(enough) {
            match read(entry, strict) {
                None => ended = true,
                Some(entry) => {
                    expect(expected.next().is_some_and(|e| right(&entry, e)), "an entry of a reversed range")
                }
            }
        }
        expect(ended || expected.next().is_none(), "the end of a reversed range");
        whole &= !ended;
    }
    for (rank, (pair, stored)) in entries.iter().enumerate() {
        if multi {
            let found = read(view.contains_value(&pair.0, &pair.1), strict);
            expect(found != Some(false), "whether a value is there");
            whole &= found.is_some();
        } else {
            let found = read(view.get(&pair.0), strict);
            expect(found.is_none_or(|found| found == Some(stored.as_slice())), "a value");
            whole &= found.is_some();
        }
        if rank % 5 == 0 {
            let found = read(view.nth(rank as u64), strict);
            whole &= found.is_some();
            if let Some(found) = found {
                expect(found.is_some_and(|entry| right(&entry, (pair, stored))), "the nth entry");
            }
            let first = entries.range((pair.0.clone(), Vec::new())..).next().map(|(pair, _)| pair.clone());
            let before = entries.range(..(pair.0.clone(), Vec::new())).count() as u64;
            let found = read(view.rank(&pair.0), strict);
            expect(found.is_none_or(|found| found == before), "a rank");
            let bounds = (Bound::Excluded(pair.0.clone()), Bound::Unbounded);
            let after = entries.keys().filter(|other| other.0 > pair.0).count() as u64;
            let found = read(view.count((as_slice(&bounds.0), as_slice(&bounds.1))), strict);
            expect(found.is_none_or(|found| found == after), "a count");
            let mut cursor = view.cursor();
            if let Some(found) = read(cursor.seek(&pair.0), strict) {
                expect(found && first.is_some_and(|first| first.0 == cursor.key()), "where a cursor went");
            }
            if let Some(found) = read(cursor.prev(), strict) {
                expect(!cursor.is_valid() || found == (before > 0), "where a cursor came from");
            }
        }
        let absent = [&pair.0, &b"!"[..]].concat();
        if kind == TableKind::Plain {
            let found = read(view.get(&absent), strict);
            expect(found.is_none_or(|found| found.is_none()), "a value that is not there");
        }
    }
    whole
}

fn read_snapshot(snapshot: &Snapshot<'_>, model: &Model, strict: bool) -> bool {
    let mut whole = true;
    match read(snapshot.tables(), strict) {
        None => whole = false,
        Some(tables) => {
            let names: Vec<&str> = tables.iter().map(|table| table.name()).collect();
            assert!(!strict || names.iter().eq(model.keys()), "the tables are {names:?}");
        }
    }
    for (name, entries) in model {
        let table = read(snapshot.table(name), strict);
        let view = table.and_then(|table| read(snapshot.view(&table), strict));
        match view {
            None => whole = false,
            Some(view) => whole &= read_table(&view, entries, strict),
        }
    }
    whole
}

/// What came of opening and reading a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It was refused.
    Refused,
    /// Something was found damaged, by reading or by `check`.
    Damaged,
    /// Everything is right, says `check` as well.
    Right,
}

struct Reading {
    checksums: Checksums,
    /// Whether what is read must be right.
    strict: bool,
}

const STRICT: Reading = Reading { checksums: Checksums::FirstTouch, strict: true };

fn options(checksums: Checksums) -> Options {
    // Little is reserved, so that opening costs little.
    let options = Options::new().durability(Durability::SyncNoLog).create(false);
    options.checksums(checksums).size_max(1 << 30).readers_max(8)
}

/// Opens a file for reading and reads everything.
fn try_reading(dir: &Path, states: &BTreeMap<TxnId, Model>, reading: &Reading) -> Outcome {
    // The lock file remembers what earlier openings found.
    let _ = std::fs::remove_file(dir.join("lock"));
    let db = match Database::open(dir, &options(reading.checksums).read_only(true)) {
        Ok(db) => db,
        Err(Error::Corrupted { .. } | Error::NotADatabase { .. }) => return Outcome::Refused,
        Err(e) => panic!("opening fails with {e}"),
    };
    let snapshot = db.read().unwrap();
    let state = states.get(&snapshot.txn());
    assert!(state.is_some() || !reading.strict, "the database is at transaction {}", snapshot.txn());
    let model = state.or_else(|| states.values().next()).unwrap();
    let whole = read_snapshot(&snapshot, model, reading.strict);
    let stat = read(db.stat(), true);
    let clean = db.check().unwrap().is_clean();
    assert!(whole || !clean || !reading.strict, "a check finds nothing, but reading does");
    assert!(stat.is_some() || !clean, "a check finds nothing, but statistics do");
    if whole && clean { Outcome::Right } else { Outcome::Damaged }
}

/// A sample in a directory, to be damaged and mended.
struct Bench<'s> {
    sample: &'s Sample,
    dir: tempfile::TempDir,
    file: File,
}

impl<'s> Bench<'s> {
    fn new(sample: &'s Sample) -> Self {
        let dir = scratch();
        std::fs::write(dir.path().join("data"), &sample.image).unwrap();
        let file = File::options().write(true).open(dir.path().join("data")).unwrap();
        Self { sample, dir, file }
    }

    /// Reads the file with some bytes replaced; says which if it panics.
    fn with(&self, at: usize, bytes: &[u8], reading: &Reading) -> Outcome {
        self.file.write_all_at(bytes, at as u64).unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| try_reading(self.dir.path(), &self.sample.states, reading)));
        let page_size = self.sample.page_size;
        let outcome = outcome.unwrap_or_else(|_| {
            panic!(
                "{}, {:?}: {} bytes changed in page {} from byte {} on, the first to {:#04x}",
                self.sample.name,
                reading.checksums,
                bytes.len(),
                at / page_size,
                at % page_size,
                bytes[0]
            )
        });
        self.file.write_all_at(&self.sample.image[at..at + bytes.len()], at as u64).unwrap();
        outcome
    }

    fn flip(&self, at: usize, mask: u8, reading: &Reading) -> Outcome {
        self.with(at, &[self.sample.image[at] ^ mask], reading)
    }
}

/// The pages that a file uses: those whose damage `check` finds.
fn used_pages(sample: &Sample) -> Vec<bool> {
    let bench = Bench::new(sample);
    let pages = sample.image.len() / sample.page_size;
    (0..pages).map(|page| bench.flip(page * sample.page_size + AT_TXN, 0xff, &STRICT) != Outcome::Right).collect()
}

/// One of a few masks, by position: single bits high and low, and all bits.
fn mask_at(at: usize) -> u8 {
    [0x01, 0x80, 0xff, 0x10, 0x02][at % 5]
}

// ---- single bytes ----

/// Flips bytes of a sample: those of meta pages and headers at `fine`, others at `coarse`
/// distances.
fn flip_bytes(sample: &Sample, fine: usize, coarse: usize) {
    let (bench, used) = (Bench::new(sample), used_pages(sample));
    let mut damaged = 0;
    let mut at = 0;
    while at < sample.image.len() {
        let (page, offset) = (at / sample.page_size, at % sample.page_size);
        let outcome = bench.flip(at, mask_at(at / fine), &STRICT);
        let counts = if page < 2 { offset < META_BYTES } else { used[page] };
        assert_eq!(outcome != Outcome::Right, counts, "{}: byte {offset} of page {page}: {outcome:?}", sample.name);
        damaged += usize::from(counts);
        let near = if page < 2 { offset < META_BYTES } else { offset < 2 * HEADER_BYTES };
        at += if near { fine } else { coarse };
    }
    assert!(damaged > 500, "{}: only {damaged} flips were of bytes that count", sample.name);
}

#[test]
fn a_flipped_byte_is_found_or_does_not_matter() {
    flip_bytes(&closed("closed, 4 KiB", 4096), 1, 61);
}

#[test]
fn a_flipped_byte_in_larger_pages_is_found_or_does_not_matter() {
    flip_bytes(&closed("closed, 16 KiB", 16384), 5, 307);
}

#[test]
fn a_flipped_byte_in_a_database_that_was_not_closed_is_found_or_leads_to_the_point_before() {
    flip_bytes(&open_while_copied(), 5, 61);
}

#[test]
#[ignore = "minutes: cargo test --release -p colibri-storage --test corruption -- --ignored"]
fn each_flipped_byte_of_each_sample_is_found_or_does_not_matter() {
    for sample in [closed("closed, 4 KiB", 4096), closed("closed, 16 KiB", 16384), open_while_copied()] {
        flip_bytes(&sample, 1, 1);
    }
}

#[test]
fn a_flipped_byte_in_the_free_map_is_found_when_somebody_asks_what_is_free() {
    let sample = fragmented();
    let (bench, mut rng) = (Bench::new(&sample), StdRng::seed_from_u64(1));
    let pages = sample.image.len() / sample.page_size;
    let kind_of = |page: usize| sample.image[page * sample.page_size + 20];
    let (base, link) = (5, 6);
    for kind in [base, link] {
        let page = (2..pages).find(|&page| {
            kind_of(page) == kind && sample.image[page * sample.page_size + 16..][..4] == (page as u32).to_le_bytes()
        });
        let page = page.expect("the sample has a base and a chain");
        for _ in 0..60 {
            let at = page * sample.page_size + rng.random_range(0..sample.page_size);
            assert_eq!(bench.flip(at, 1 << rng.random_range(0..8), &STRICT), Outcome::Damaged, "byte {at}");
        }
    }
}

// ---- without checksums ----

#[test]
fn without_checksums_damage_leads_out_of_no_page_and_to_no_panic() {
    let reading = Reading { checksums: Checksums::Never, strict: false };
    for sample in [closed("closed, 4 KiB", 4096), closed("closed, 16 KiB", 16384)] {
        let (bench, used, mut rng) = (Bench::new(&sample), used_pages(&sample), StdRng::seed_from_u64(2));
        for page in (2..used.len()).filter(|&page| used[page]) {
            for offset in 0..120 {
                bench.flip(page * sample.page_size + offset, 1 << (offset % 8), &reading);
            }
            for _ in 0..60 {
                let at = page * sample.page_size + rng.random_range(0..sample.page_size);
                bench.flip(at, rng.random_range(1..=255), &reading);
            }
        }
    }
}

#[test]
fn checksums_that_are_always_verified_promise_the_same_as_on_first_touch() {
    let sample = closed("closed, 4 KiB", 4096);
    let (bench, used) = (Bench::new(&sample), used_pages(&sample));
    let reading = Reading { checksums: Checksums::Always, strict: true };
    for at in (0..sample.image.len()).step_by(509) {
        let (page, offset) = (at / sample.page_size, at % sample.page_size);
        let counts = if page < 2 { offset < META_BYTES } else { used[page] };
        assert_eq!(bench.flip(at, mask_at(at), &reading) != Outcome::Right, counts);
    }
}

// ---- whole pages ----

#[test]
fn a_page_of_zeros_or_garbage_is_found() {
    for sample in [closed("closed, 4 KiB", 4096), closed("closed, 16 KiB", 16384), open_while_copied()] {
        let (bench, used, mut rng) = (Bench::new(&sample), used_pages(&sample), StdRng::seed_from_u64(3));
        for (page, used) in used.into_iter().enumerate() {
            let at = page * sample.page_size;
            assert_eq!(bench.with(at, &vec![0; sample.page_size], &STRICT) != Outcome::Right, used, "page {page}");
            for _ in 0..4 {
                let start = rng.random_range(0..sample.page_size - 1);
                let len = rng.random_range(1..sample.page_size - start);
                let garbage: Vec<u8> = (0..len).map(|_| rng.random()).collect();
                let outcome = bench.with(at + start, &garbage, &STRICT);
                assert_eq!(outcome != Outcome::Right, used && (page > 1 || start < META_BYTES), "page {page}");
                let reading = Reading { checksums: Checksums::Never, strict: false };
                bench.with(at + start, &garbage, &reading);
            }
        }
    }
}

#[test]
fn swapped_pages_are_found() {
    let sample = closed("closed, 4 KiB", 4096);
    let (bench, used) = (Bench::new(&sample), used_pages(&sample));
    let page_of = |page: usize| &sample.image[page * 4096..(page + 1) * 4096];
    for a in 0..used.len() {
        for b in (a + 1..used.len()).step_by(3) {
            bench.file.write_all_at(page_of(b), a as u64 * 4096).unwrap();
            // A meta page is also told by its number.
            let outcome = bench.with(b * 4096, page_of(a), &STRICT);
            bench.file.write_all_at(page_of(a), a as u64 * 4096).unwrap();
            assert_eq!(outcome != Outcome::Right, used[a] || used[b], "pages {a} and {b}");
        }
    }
}

#[test]
fn a_file_cut_short_is_refused() {
    for sample in [closed("closed, 4 KiB", 4096), closed("closed, 16 KiB", 16384), open_while_copied()] {
        let bench = Bench::new(&sample);
        let pages = sample.image.len() / sample.page_size;
        let lengths = (0..pages).flat_map(|page| [0, 1, 31, 511, 3000].map(|more| page * sample.page_size + more));
        for length in lengths {
            bench.file.set_len(length as u64).unwrap();
            let outcome = try_reading(bench.dir.path(), &sample.states, &STRICT);
            // One that was not closed may be whole at the point before.
            let before = sample.states.len() > 1 && outcome == Outcome::Right;
            assert!(outcome == Outcome::Refused || before, "{} bytes of {}: {outcome:?}", length, sample.name);
            bench.file.write_all_at(&sample.image, 0).unwrap();
        }
    }
}

#[test]
fn a_closed_database_with_one_damaged_meta_page_loses_nothing_and_is_mended() {
    for page_size in [4096, 65536] {
        let sample = closed("closed", page_size);
        for slot in 0..2 {
            let bench = Bench::new(&sample);
            bench.file.write_all_at(&[0x55; META_BYTES], u64::from(slot * page_size)).unwrap();
            assert_eq!(try_reading(bench.dir.path(), &sample.states, &STRICT), Outcome::Damaged);
            let db = Database::open(bench.dir.path(), &options(Checksums::FirstTouch)).unwrap();
            db.close().unwrap();
            assert_eq!(try_reading(bench.dir.path(), &sample.states, &STRICT), Outcome::Right);
        }
    }
}

/// What a lost write leaves: the page is whole, and older than what refers to it. Only one with as
/// many entries and the same bounds passes: one in which only values were replaced, by others inside
/// the leaf.
#[test]
fn a_page_of_an_older_state_leads_to_no_panic_and_mostly_to_an_error() {
    let dir = scratch();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::SyncNoLog).size_max(1 << 26)).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model);
    let mut rng = StdRng::seed_from_u64(4);
    let mut older: Vec<Vec<u8>> = Vec::new();
    for _ in 0..30 {
        write_some(&db, &mut rng, &mut model, true).unwrap();
        older.push(image_of(dir.path()));
    }
    let txn = db.read().unwrap().txn();
    db.close().unwrap();
    let sample = Sample { name: "stale", page_size: 4096, image: image_of(dir.path()), states: [(txn, model)].into() };
    let (bench, used) = (Bench::new(&sample), used_pages(&sample));
    let lenient = Reading { checksums: Checksums::FirstTouch, strict: false };
    let (mut stale, mut found) = (0, 0);
    for image in &older {
        for page in (2..used.len()).filter(|&page| used[page] && (page + 1) * 4096 <= image.len()) {
            let at = page * 4096;
            let old = &image[at..at + 4096];
            let whole = old[16..20] == (page as u32).to_le_bytes() && old != &sample.image[at..at + 4096];
            if whole {
                stale += 1;
                found += u32::from(bench.with(at, old, &lenient) != Outcome::Right);
            }
        }
    }
    println!("{found} of {stale} older pages were found");
    assert!(stale > 50 && found * 3 > stale * 2);
}

// ---- writing ----

/// One transaction of changes all over the tables. An error gives up the transaction.
fn write_some(db: &Database, rng: &mut StdRng, model: &mut Model, strict: bool) -> Result<()> {
    let mut after = model.clone();
    let mut txn = db.write()?;
    for _ in 0..rng.random_range(1..8) {
        let (name, kind) = TABLES[rng.random_range(0..3)];
        let table = txn.table(name)?;
        let entries = after.get_mut(name).unwrap();
        let some = |rng: &mut StdRng, entries: &Entries| {
            entries
                .keys()
                .nth(rng.random_range(0..entries.len().max(1)))
                .map_or(b"somekey8".to_vec(), |pair| pair.0.clone())
        };
        let key = some(rng, entries);
        match rng.random_range(0..10) {
            0..5 => {
                let value = vec![rng.random(); if kind == TableKind::Multi { 9 } else { rng.random_range(0..3000) }];
                txn.put(&table, &key, &value)?;
                match kind {
                    TableKind::Multi => entries.insert((key, value), Vec::new()),
                    _ => entries.insert((key, Vec::new()), value),
                };
            }
            5..9 => {
                let before = entries.len();
                entries.retain(|pair, _| pair.0 != key);
                let deleted = txn.delete(&table, &key)?;
                assert!(!strict || deleted == (before > entries.len()), "whether a key was there is wrong");
            }
            _ => {
                let other = some(rng, entries);
                let (low, high) = if key < other { (key, other) } else { (other, key) };
                let before = entries.len();
                entries.retain(|pair, _| pair.0 < low || pair.0 >= high);
                let deleted = txn.delete_range(&table, low.as_slice()..high.as_slice())?;
                let expected = (before - entries.len()) as u64;
                assert!(!strict || deleted == expected, "how many entries were deleted is wrong");
            }
        }
    }
    txn.commit()?;
    *model = after;
    Ok(())
}

/// Writes to a damaged database; whatever could be committed must be there when it is opened again,
/// or be said to be damaged.
fn try_writing(dir: &Path, states: &BTreeMap<TxnId, Model>, seed: u64, checksums: Checksums) {
    let strict = checksums != Checksums::Never;
    let mut rng = StdRng::seed_from_u64(seed);
    let durability =
        [Durability::Sync, Durability::SyncNoLog, Durability::NoSync, Durability::LAZY][rng.random_range(0..4)];
    for leftover in ["lock", "log.0", "log.1"] {
        let _ = std::fs::remove_file(dir.join(leftover));
    }
    let Ok(db) = Database::open(dir, &options(checksums).durability(durability)) else { return };
    let opened = db.read().unwrap().txn();
    let Some(mut model) = states.get(&opened).cloned() else {
        assert!(!strict, "the database is at transaction {opened}");
        return;
    };
    for _ in 0..4 {
        match write_some(&db, &mut rng, &mut model, strict) {
            Ok(()) | Err(Error::Corrupted { .. }) => {}
            Err(e) => assert!(!strict, "writing fails with {e}"),
        }
        read_snapshot(&db.read().unwrap(), &model, strict);
        if rng.random_bool(0.3) {
            read(db.sync(), strict);
        }
    }
    read(db.check(), strict);
    read(db.close(), strict);
    let last = Database::open(dir, &options(checksums).read_only(true)).unwrap().read().unwrap().txn();
    assert!(last >= opened);
    try_reading(dir, &[(last, model)].into(), &Reading { checksums, strict });
}

fn write_after_damage(
    sample: &Sample,
    checksums: Checksums,
    step: usize,
    damage: impl Fn(&mut [u8], usize, &mut StdRng),
) {
    let dir = scratch();
    for at in (0..sample.image.len()).step_by(step) {
        let mut image = sample.image.clone();
        let mut rng = StdRng::seed_from_u64(at as u64);
        damage(&mut image, at, &mut rng);
        std::fs::write(dir.path().join("data"), &image).unwrap();
        let run = || try_writing(dir.path(), &sample.states, at as u64, checksums);
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            panic!("{}, {checksums:?}: byte {} of page {}", sample.name, at % sample.page_size, at / sample.page_size);
        }
    }
}

#[test]
fn writing_to_a_damaged_database_makes_no_wrong_value() {
    for sample in [closed("closed, 4 KiB", 4096), open_while_copied()] {
        write_after_damage(&sample, Checksums::FirstTouch, 379, |image, at, _| image[at] ^= mask_at(at));
        write_after_damage(&sample, Checksums::FirstTouch, 4096, |image, at, rng| {
            rng.fill(&mut image[at..at + 4096]);
        });
    }
}

#[test]
fn writing_without_checksums_to_a_damaged_database_does_not_panic() {
    let sample = closed("closed, 4 KiB", 4096);
    write_after_damage(&sample, Checksums::Never, 379, |image, at, _| image[at] ^= mask_at(at));
    write_after_damage(&sample, Checksums::Never, 1024, |image, at, rng| {
        for _ in 0..4 {
            let at = at / 4096 * 4096 + rng.random_range(0..600);
            image[at] ^= 1 << rng.random_range(0..8);
        }
    });
}

// ---- damage with a right checksum: what the form of pages and trees tells ----

const LEAF: u8 = 2;
const BRANCH: u8 = 3;
const OVERFLOW: u8 = 4;
const WIDE_LEAF: u8 = 7;

/// A data file of pages of 4 KiB, to be changed in ways that checksums do not tell.
struct Forged {
    image: Vec<u8>,
}

impl Forged {
    /// A table with integer keys from 0 on, as a file.
    fn integers(count: u64, value: &[u8]) -> Self {
        let dir = scratch();
        let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
        let mut txn = db.write().unwrap();
        let table = txn.create_table("integer", TableKind::Integer).unwrap();
        txn.load_sorted(&table, (0..count).map(|n| (n.to_be_bytes(), value))).unwrap();
        txn.commit().unwrap();
        db.close().unwrap();
        Self { image: image_of(dir.path()) }
    }

    fn page(&mut self, page: usize) -> &mut [u8] {
        &mut self.image[page * 4096..(page + 1) * 4096]
    }

    /// All pages of a leaf.
    fn leaf(&mut self, page: usize) -> &mut [u8] {
        let pages = 1 + (self.u32_at(page, 28) >> 16);
        &mut self.image[page * 4096..(page + pages) * 4096]
    }

    fn u32_at(&self, page: usize, at: usize) -> usize {
        let at = page * 4096 + at;
        u32::from_le_bytes(self.image[at..at + 4].try_into().unwrap()) as usize
    }

    fn set_u32(&mut self, page: usize, at: usize, value: u32) {
        self.page(page)[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self.seal(page);
    }

    fn seal(&mut self, page: usize) {
        let number = self.u32_at(page, 16) as u64;
        let is_wide = self.image[page * 4096 + 20] == WIDE_LEAF;
        let bytes = if is_wide { self.leaf(page) } else { self.page(page) };
        let checksum = xxh3_64_with_seed(&bytes[8..], number);
        bytes[..8].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The pages of a kind and level that head something.
    fn pages(&self, kind: u8, level: u8) -> Vec<usize> {
        let heads =
            |&page: &usize| self.u32_at(page, 16) == page && self.image[page * 4096 + 20..][..2] == [kind, level];
        (2..self.image.len() / 4096).filter(heads).collect()
    }

    /// The first leaf, where the table is more than one page.
    fn first_leaf(&self) -> usize {
        self.child(self.pages(BRANCH, 1)[0], 0).1
    }

    /// Where a branch has the number of a child, and the number.
    fn child(&self, branch: usize, index: usize) -> (usize, usize) {
        let count = self.u32_at(branch, 24) & 0xffff;
        let prefix = (self.u32_at(branch, 20) >> 16).next_multiple_of(4);
        let at = HEADER_BYTES + prefix + 6 * count + 4 * index;
        (at, self.u32_at(branch, at))
    }

    fn open(&self, checksums: Checksums) -> (tempfile::TempDir, Result<Database>) {
        let dir = scratch();
        std::fs::write(dir.path().join("data"), &self.image).unwrap();
        let db = Database::open(dir.path(), &options(checksums).durability(Durability::NoSync));
        (dir, db)
    }

    /// Does something with the table; expects it to find the damage, and a check to find it too.
    fn expect_found<T: std::fmt::Debug>(&self, run: impl FnOnce(&Database, &colibri_storage::Table) -> Result<T>) {
        let (_dir, db) = self.open(Checksums::FirstTouch);
        let db = db.unwrap();
        let table = db.read().unwrap().table("integer").unwrap();
        let result = run(&db, &table);
        assert!(matches!(result, Err(Error::Corrupted { .. })), "{result:?}");
        assert!(!db.check().unwrap().is_clean());
    }
}

/// Bug: whatever was well-formed as what it says it is passed for a tree page. Consequence: the
/// head of a large value was searched as a leaf, and keys were not found. Fix: pages are verified
/// as what they are asked for.
#[test]
fn a_page_of_another_kind_is_not_taken_for_a_tree_page() {
    let mut forged = Forged::integers(100, &[1; 100]);
    let leaf = forged.first_leaf();
    let page = forged.page(leaf);
    page[20..22].copy_from_slice(&[OVERFLOW, 0]);
    page[24..28].copy_from_slice(&1_u32.to_le_bytes());
    page[28..32].copy_from_slice(&4000_u32.to_le_bytes());
    forged.seal(leaf);
    forged.expect_found(|db, table| db.read()?.get(table, &[0; 8]).map(|value| value.map(<[u8]>::to_vec)));
    forged.expect_found(|db, table| db.write()?.delete(table, &[0; 8]));
}

/// Bug: that a path ended at a leaf was enough. Consequence: where a leaf stood for a branch, keys
/// that were there were not found. Fix: leaves are met at the depth that the tree has.
#[test]
fn a_leaf_in_place_of_a_branch_hides_no_keys() {
    let mut forged = Forged::integers(1500, &[1; 970]);
    let (root, leaf) = (forged.pages(BRANCH, 2)[0], forged.pages(LEAF, 0)[0]);
    let (_, branch) = forged.child(root, 0);
    let copy = forged.page(leaf).to_vec();
    forged.page(branch).copy_from_slice(&copy);
    forged.set_u32(branch, 16, branch as u32);
    let key = 300_u64.to_be_bytes();
    forged.expect_found(|db, table| db.read()?.get(table, &key).map(|value| value.map(<[u8]>::to_vec)));
    forged.expect_found(|db, table| db.read()?.view(table)?.rank(&key));
    forged.expect_found(|db, table| db.write()?.put(table, &key, b"value"));
}

/// Bug: a large value was given up without a look at where its leaf says it is. Consequence:
/// deleting it read beyond the end of the file. Fix: what a page refers to lies within the file, or
/// the page is not well-formed.
#[test]
fn a_large_value_beyond_the_end_of_the_file_is_not_touched() {
    for page in [1, 0x00ff_ffff] {
        let mut forged = Forged::integers(1, &[1; 8000]);
        let large = forged.pages(OVERFLOW, 0)[0] as u32;
        let leaf = forged
            .pages(LEAF, 0)
            .into_iter()
            .find(|&leaf| forged.page(leaf).windows(4).any(|bytes| bytes == 8000_u32.to_le_bytes()));
        let leaf = leaf.unwrap();
        let at = forged.page(leaf).windows(4).rposition(|bytes| bytes == large.to_le_bytes()).unwrap();
        forged.set_u32(leaf, at, page);
        forged.expect_found(|db, table| db.write()?.delete(table, &[0; 8]));
        forged.expect_found(|db, table| db.write()?.clear_table(table));
    }
}

/// Bug: looking for a table's end went down from page to page without counting. Consequence:
/// appending to a tree whose last branch is its own child never ended. Fix: no path is longer than
/// the tree is deep.
#[test]
fn a_branch_that_is_its_own_child_leads_nowhere() {
    for index in [0, 2] {
        let mut forged = Forged::integers(100, &[1; 100]);
        let branch = forged.pages(BRANCH, 1)[0];
        let (at, _) = forged.child(branch, index);
        forged.set_u32(branch, at, branch as u32);
        forged.expect_found(|db, table| db.write()?.clear_table(table));
        forged.expect_found(|db, _| db.copy_to(scratch().path().join("copy"), false));
        if index == 2 {
            forged.expect_found(|db, table| db.write()?.load_sorted(table, [([0xff; 8], b"value")]));
            forged.expect_found(|db, table| db.read()?.view(table)?.cursor().last());
        }
    }
}

/// Bug: a range delete took the counts in branches for right. Consequence: with wrong ones it
/// computed with numbers below zero, or left entries out. Fix: counts are compared with what is
/// there before anything changes.
#[test]
fn a_range_delete_finds_wrong_counts_before_it_changes_anything() {
    let mut forged = Forged::integers(200, &[1; 100]);
    let branch = forged.pages(BRANCH, 1)[0];
    let children = forged.u32_at(branch, 24) & 0xffff;
    let counts_at = forged.child(branch, children).0;
    for count in [1, 1000] {
        forged.set_u32(branch, counts_at + 6, count);
        let (low, high) = (3_u64.to_be_bytes(), 90_u64.to_be_bytes());
        forged.expect_found(|db, table| db.write()?.delete_range(table, low.as_slice()..high.as_slice()));
        forged.expect_found(|db, table| db.write()?.clear_table(table));
    }
}

/// Bug: the lengths of entries were not compared with what the format allows. Consequence: neither
/// use nor a check found such pages damaged, and cutting and joining pages relied on the bounds.
/// Fix: they are part of a page's form.
#[test]
fn a_leaf_with_an_entry_that_is_too_long_is_found() {
    let mut forged = Forged::integers(6, &[1; 4100]);
    let leaf = forged.pages(WIDE_LEAF, 0).into_iter().find(|&leaf| forged.u32_at(leaf, 24) & 0xffff == 6).unwrap();
    let prefix = forged.u32_at(leaf, 20) >> 16;
    let places = HEADER_BYTES + prefix.next_multiple_of(4) + 4 * 6;
    // The cell of the last entry takes all cells before it for its value.
    let heap_len = forged.u32_at(leaf, 26) & 0xffff;
    let page = forged.leaf(leaf);
    let place = usize::from(u16::from_le_bytes(page[places + 10..places + 12].try_into().unwrap()));
    assert_eq!(place, heap_len);
    let value_len = heap_len - 3;
    assert!(value_len + 8 > 24 << 10);
    let code = 2 * (value_len - 16_384) + 3;
    let cell = page.len() - place;
    page[cell + 1] = 0x80 | (code >> 8) as u8;
    page[cell + 2] = code as u8;
    page[24..26].copy_from_slice(&1_u16.to_le_bytes());
    let head: [u8; 4] = page[places - 4..places].try_into().unwrap();
    let slots = places - 4 * 6;
    page[slots..slots + 4].copy_from_slice(&head);
    page[slots + 4..slots + 6].copy_from_slice(&(place as u16).to_le_bytes());
    forged.seal(leaf);
    forged.expect_found(|db, table| db.write()?.put(table, &[9; 8], &[2; 900]));
}

/// Every byte of a wide leaf's header that says how long it is: none leads beyond the file or the
/// leaf, whether checksums are verified or right.
#[test]
fn a_wide_leaf_of_another_length_is_found() {
    for pages in (0..20).chain([0x100, 0x7fff, 0xffff]) {
        let mut forged = Forged::integers(40, &[1; 1500]);
        let leaf = forged.first_leaf();
        let before = forged.u32_at(leaf, 28) >> 16;
        if pages == before {
            continue;
        }
        forged.page(leaf)[30..32].copy_from_slice(&(pages as u16).to_le_bytes());
        forged.expect_found(|db, table| db.read()?.get(table, &[0; 8]).map(|value| value.map(<[u8]>::to_vec)));
        forged.expect_found(|db, table| db.write()?.put(table, &[0; 8], b"other"));
        forged.expect_found(|db, table| db.write()?.delete_range(table, ..));
        forged.expect_found(|db, table| db.write()?.clear_table(table));
        if leaf + pages >= forged.image.len() / 4096 {
            continue;
        }
        // With the right checksum it may be well-formed. It still has pages of others.
        forged.seal(leaf);
        let (_dir, db) = forged.open(Checksums::FirstTouch);
        let db = db.unwrap();
        assert!(!db.check().unwrap().is_clean(), "{pages} pages");
        let mut txn = db.write().unwrap();
        let table = txn.table("integer").unwrap();
        let changed = txn.put(&table, &[0; 8], b"other").and_then(|()| txn.delete(&table, &1_u64.to_be_bytes()));
        let committed = changed.and_then(|_| txn.commit());
        assert!(matches!(committed, Ok(_) | Err(Error::Corrupted { .. })), "{committed:?}");
    }
    // A leaf of one page that says it is wide, and a wide one that says it is not.
    for (value, kind) in [(100, WIDE_LEAF), (1500, LEAF)] {
        let mut forged = Forged::integers(100, &vec![1; value]);
        let leaf = forged.first_leaf();
        forged.page(leaf)[20] = kind;
        forged.seal(leaf);
        forged.expect_found(|db, table| db.read()?.get(table, &[0; 8]).map(|value| value.map(<[u8]>::to_vec)));
    }
}

/// Bug: what the meta page and the chain say about free pages was believed before it was compared
/// with the file. Consequence: half a gigabyte of memory for a page that is not there, and a chain
/// in a circle had no end. Fix: it is compared as it is read.
#[test]
fn a_free_map_that_lists_pages_outside_the_file_or_goes_in_a_circle_is_found() {
    let check = |forged: &Forged| {
        let (_dir, db) = forged.open(Checksums::FirstTouch);
        let db = db.unwrap();
        assert!(matches!(db.write().map(drop), Err(Error::Corrupted { .. })));
        assert!(!db.check().unwrap().is_clean());
        assert!(db.read().unwrap().tables().is_ok());
    };
    for page in [0, u32::MAX] {
        let mut forged = Forged::integers(10, &[1; 100]);
        for slot in 0..2 {
            forged.set_u32(slot, 68, 1);
            forged.set_u32(slot, 1536, page);
        }
        check(&forged);
    }
    let mut forged = Forged { image: fragmented().image };
    let link = forged.u32_at(0, 60);
    forged.set_u32(link, HEADER_BYTES, link as u32);
    for slot in 0..2 {
        forged.set_u32(slot, 64, u32::MAX);
    }
    check(&forged);
}

/// Bug: without checksums, a commit's single flush counted as finished if each page's head was
/// there. Consequence: after a crash, large values in parts. Fix: the pages that a meta page lists
/// are verified whole, whatever the policy.
#[test]
fn a_flush_cut_short_is_found_without_checksums_too() {
    let dir = scratch();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::SyncNoLog)).unwrap();
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Plain).unwrap();
    txn.put(&table, b"key", b"before").unwrap();
    txn.commit().unwrap();
    let mut txn = db.write().unwrap();
    txn.put(&table, b"key", &[7; 3 * 4096 - 100]).unwrap();
    txn.commit().unwrap();
    let mut forged = Forged { image: image_of(dir.path()) };
    let large = forged.pages(OVERFLOW, 0)[0];
    forged.page(large + 2).fill(0);
    for checksums in [Checksums::FirstTouch, Checksums::Never] {
        let (_dir, db) = forged.open(checksums);
        let db = db.unwrap();
        assert_eq!(db.read().unwrap().get(&table, b"key").unwrap(), Some(&b"before"[..]));
    }
}

/// Bug: with checksums always verified, so was the form of a page half way through a change.
/// Consequence: deleting the last entry below a branch failed. Fix: only pages that have a checksum
/// are verified again.
#[test]
fn a_change_under_way_is_no_damage() {
    let dir = scratch();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::SyncNoLog).checksums(Checksums::Always))
        .unwrap();
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Integer).unwrap();
    // Full branches but for the last, which is left with one child in the end.
    txn.load_sorted(&table, (0..2000_u64).map(|n| (n.to_be_bytes(), [1; 900]))).unwrap();
    for n in (0..2000_u64).rev() {
        assert!(txn.delete(&table, &n.to_be_bytes()).unwrap());
    }
    txn.commit().unwrap();
    assert!(db.check().unwrap().is_clean());
}

/// Bug: a change that came upon damage half way could be committed with the changes before it.
/// Consequence: pages that the tree still used were free. Fix: such a transaction commits nothing;
/// a nested one can be dropped instead.
#[test]
fn a_change_that_came_upon_damage_is_not_committed() {
    let mut forged = Forged::integers(40, &[1; 970]);
    let branch = forged.pages(BRANCH, 1)[0];
    let (_, leaf) = forged.child(branch, 1);
    forged.page(leaf)[200] ^= 1;
    let (dir, db) = forged.open(Checksums::FirstTouch);
    let db = db.unwrap();
    let key = |n: u64| n.to_be_bytes();
    let mut txn = db.write().unwrap();
    let table = txn.table("integer").unwrap();
    // The leaf is left with so little that its neighbour is looked at.
    let mut failed = 0;
    for n in 0..3 {
        failed += u32::from(txn.delete(&table, &key(n)).is_err());
    }
    assert!(failed > 0);
    assert!(matches!(txn.commit(), Err(Error::Corrupted { .. })));
    assert_eq!(db.read().unwrap().get(&table, &key(0)).unwrap(), Some(&[1; 970][..]));
    let mut txn = db.write().unwrap();
    let mut nested = txn.nested();
    nested.delete_range(&table, ..).unwrap_err();
    drop(nested);
    txn.put(&table, &key(0), b"other").unwrap();
    txn.commit().unwrap();
    db.close().unwrap();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::SyncNoLog)).unwrap();
    assert_eq!(db.read().unwrap().get(&table, &key(0)).unwrap(), Some(&b"other"[..]));
}

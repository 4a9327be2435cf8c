//! The files of each released format version are opened for ever, and say what `docs/FORMAT.md`
//! says.
//!
//! `tests/data/golden-v3` was written by [`make_golden`], the others by what it was at their
//! versions; what must be in them is computed here. Besides the engine a reader that knows nothing but the document reads it: what the engine takes
//! for granted cannot hide from both.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use colibri_storage::{Database, Durability, Options, Snapshot, TableKind};

#[path = "golden/backup.rs"]
mod backup;
#[path = "golden/encrypted.rs"]
mod encrypted;
#[path = "golden/forest.rs"]
mod forest;
#[path = "golden/log.rs"]
mod log;
#[path = "golden/past.rs"]
mod past;

const PAGE: usize = 4096;
/// The newest version of the format without states of the past, which this build writes; see `past`.
const NEWEST: u32 = 3;
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=NEWEST;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;
/// Tables by name; pairs of key and value in order.
type Contents = BTreeMap<String, (TableKind, Entries)>;

/// The two states there are files of: of a database that was closed, and of one that was cut off
/// after a commit.
const STATES: [&str; 2] = ["closed", "crashed"];

fn golden(version: u32, state: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/golden-v{version}")).join(state)
}

// ---- what is in it ----

fn bird(n: u32) -> (Vec<u8>, Vec<u8>) {
    let value = (0..20 + n % 13).map(|i| (n * 7 + i * 3) as u8).collect();
    (format!("birds/of/the/world/{:03}", n * 7 % 120).into_bytes(), value)
}

/// Rows that are too large for leaves of one page, among them one whose length needs the longer code.
fn shore(n: u32) -> (Vec<u8>, Vec<u8>) {
    let bytes = if n == 5 { 16_500 } else { 700 + n % 4 * 450 };
    (format!("shore {n:02}").into_bytes(), (0..bytes).map(|i| (n * 11 + (i >> 4)) as u8).collect())
}

fn expected(version: u32, state: &str) -> Contents {
    let mut birds: Vec<_> = (0..120).map(bird).collect();
    birds.push((b"large".to_vec(), (0..9_000_u32).map(|i| ((i * i) >> 3) as u8).collect()));
    birds.push((b"no value".to_vec(), Vec::new()));
    if state == "crashed" {
        birds.push((b"late".to_vec(), b"committed, and not closed".to_vec()));
    }
    birds.sort();
    let mut flowers = Vec::new();
    for key in [&b"colubris"[..], b"col", b"\0", b"a\0b", b"\xff\xff"] {
        for n in 0..key.len() as u8 {
            flowers.push((key.to_vec(), vec![n; n.into()]));
        }
    }
    flowers.sort();
    let rings = (0..60_u64).map(|n| (((n * n * n) << (n % 40)).to_be_bytes().to_vec(), vec![n as u8; 4]));
    let rings: BTreeMap<_, _> = rings.collect();
    let mut tables = vec![
        ("birds", (TableKind::Plain, birds)),
        ("empty", (TableKind::Plain, Vec::new())),
        ("flowers", (TableKind::Multi, flowers)),
        ("rings", (TableKind::Integer, rings.into_iter().collect())),
    ];
    if version >= 2 {
        let mut shores: Vec<_> = (0..13).map(shore).collect();
        shores.push((b"all of it".to_vec(), vec![9; 2 * PAGE - 32]));
        shores.sort();
        tables.push(("shores", (TableKind::Plain, shores)));
    }
    tables.into_iter().map(|(name, table)| (name.to_owned(), table)).collect()
}

/// What each branch holds.
fn expected_of(version: u32, state: &str) -> BTreeMap<String, Contents> {
    let mut branches = BTreeMap::from([("main".to_owned(), expected(version, state))]);
    if version >= 3 {
        // Both were made before the database was cut off.
        let mut nest = expected(version, "closed");
        nest.remove("empty");
        let birds = &mut nest.get_mut("birds").unwrap().1;
        birds.retain(|(key, _)| key != b"no value");
        birds.push((b"twig".to_vec(), b"only here".to_vec()));
        birds.sort();
        branches.insert("egg".to_owned(), nest.clone());
        branches.insert("nest".to_owned(), nest);
    }
    branches
}

/// Writes the database of [`expected_of`] so that as much of the format as fits a small file comes
/// into it.
fn make_golden(dir: &Path) {
    let options = Options::new().durability(Durability::SyncNoLog).page_size(PAGE as u32);
    let db = Database::open(dir.join("source"), &options).unwrap();
    let mut txn = db.write().unwrap();
    let gone = txn.create_table("gone", TableKind::Plain).unwrap();
    for n in 0..60_u32 {
        txn.put(&gone, &n.to_be_bytes(), &[1; 60]).unwrap();
    }
    for (name, (kind, entries)) in expected(NEWEST, "closed") {
        let table = txn.create_table(&name, kind).unwrap();
        // Neither forwards nor backwards.
        for i in 0..entries.len() {
            let (key, value) = &entries[i * 37 % entries.len()];
            txn.put(&table, key, value).unwrap();
        }
        assert_eq!(txn.view(&table).unwrap().len(), entries.len() as u64, "37 divides the length");
    }
    txn.commit().unwrap();
    let mut txn = db.write().unwrap();
    txn.drop_table(&gone).unwrap();
    txn.commit().unwrap();
    // A copy has its free pages in the free map's base; what changes afterwards are toggles.
    db.copy_to(dir.join("closed"), false).unwrap();
    db.close().unwrap();
    let db = Database::open(dir.join("closed"), &options).unwrap();
    for round in 0..3 {
        let mut txn = db.write().unwrap();
        let birds = txn.table("birds").unwrap();
        for n in 0..4 {
            let (key, value) = bird(n);
            txn.put(&birds, &key, if round < 2 { b"other" } else { &value }).unwrap();
        }
        txn.commit().unwrap();
    }
    let nest = db.branch("nest").unwrap();
    let mut txn = nest.write().unwrap();
    let birds = txn.table("birds").unwrap();
    txn.delete(&birds, b"no value").unwrap();
    txn.put(&birds, b"twig", b"only here").unwrap();
    let empty = txn.table("empty").unwrap();
    txn.drop_table(&empty).unwrap();
    txn.commit().unwrap();
    // What this copies, only the fork reaches any more.
    let mut txn = db.write().unwrap();
    let (key, value) = bird(0);
    txn.put(&birds, &key, &value).unwrap();
    txn.commit().unwrap();
    drop(nest.branch("egg").unwrap());
    drop(nest);
    db.close().unwrap();
    fs::remove_file(dir.join("closed/lock")).unwrap();

    fs::create_dir(dir.join("crashed")).unwrap();
    fs::copy(dir.join("closed/data"), dir.join("crashed/data")).unwrap();
    let db = Database::open(dir.join("crashed"), &options).unwrap();
    let mut txn = db.write().unwrap();
    let birds = txn.table("birds").unwrap();
    txn.put(&birds, b"late", b"committed, and not closed").unwrap();
    txn.commit().unwrap();
    let mut bytes = fs::read(dir.join("crashed/data")).unwrap();
    db.close().unwrap();
    // Without the room that the file has to grow into.
    let pages = (0..2).map(|slot| u32_at(&bytes, slot * PAGE + 48)).max().unwrap();
    bytes.truncate(pages as usize * PAGE);
    fs::write(dir.join("crashed/data"), bytes).unwrap();
    fs::remove_file(dir.join("crashed/lock")).unwrap();
}

#[test]
#[ignore = "writes tests/data/golden-v3 anew, which is right only before version 3 is released"]
fn write_the_golden_files_anew() {
    let dir = tempfile::tempdir().unwrap();
    make_golden(dir.path());
    for state in STATES {
        fs::create_dir_all(golden(NEWEST, state)).unwrap();
        fs::copy(dir.path().join(state).join("data"), golden(NEWEST, state).join("data")).unwrap();
    }
}

// ---- what the engine reads ----

fn contents(snapshot: &Snapshot<'_>) -> Contents {
    let tables = snapshot.tables().unwrap();
    let entries = tables.iter().map(|table| {
        let range = snapshot.view(table).unwrap().range(..).unwrap();
        let entries = range.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap());
        (table.name().to_owned(), (table.kind(), entries.collect()))
    });
    entries.collect()
}

#[track_caller]
fn check_contents(db: &Database, version: u32, state: &str) {
    check_entries(db, &expected(version, state));
    let branches = db.branches().unwrap().into_iter().map(|info| info.name);
    let found: BTreeMap<_, _> =
        branches.map(|name| (name.clone(), contents(&db.open_branch(&name).unwrap().read().unwrap()))).collect();
    assert!(found == expected_of(version, state), "the branches have other contents");
}

#[track_caller]
fn check_entries(db: &Database, expected: &Contents) {
    assert!(contents(&db.read().unwrap()) == *expected, "the database has other contents");
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{report:#?}");
    assert_eq!(report.entries, expected.values().map(|(_, entries)| entries.len() as u64).sum::<u64>());
}

/// A copy of a golden file, in a directory that goes away.
fn copy_of(version: u32, state: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(golden(version, state).join("data"), dir.path().join("data")).unwrap();
    dir
}

fn files() -> impl Iterator<Item = (u32, &'static str)> {
    VERSIONS.flat_map(|version| STATES.map(|state| (version, state)))
}

#[test]
fn a_golden_file_has_exactly_the_expected_contents() {
    for (version, state) in files() {
        let dir = copy_of(version, state);
        let db = Database::open(dir.path(), &Options::new().create(false)).unwrap();
        check_contents(&db, version, state);
        let stat = db.stat().unwrap();
        assert_eq!((stat.format_version, stat.page_size), (version, PAGE as u32));
        assert!(stat.free_pages > 0);
    }
}

#[test]
fn a_golden_file_is_read_in_place_and_stays_as_it_is() {
    for (version, state) in files() {
        let data = golden(version, state).join("data");
        let before = (fs::read(&data).unwrap(), fs::metadata(&data).unwrap().modified().unwrap());
        let db = Database::open(golden(version, state), &Options::new().read_only(true)).unwrap();
        check_contents(&db, version, state);
        db.close().unwrap();
        let after = (fs::read(&data).unwrap(), fs::metadata(&data).unwrap().modified().unwrap());
        assert!(before == after, "reading changed the {state} database");
        // Only for as long as somebody has it open.
        let _ = fs::remove_file(golden(version, state).join("lock"));
    }
}

#[test]
fn a_golden_file_can_be_written_to() {
    for (version, state) in files() {
        let dir = copy_of(version, state);
        let db = Database::open(dir.path(), &Options::new()).unwrap();
        for n in 0..50_u64 {
            let mut txn = db.write().unwrap();
            for table in txn.tables().unwrap() {
                txn.put(&table, &(n | 1 << 63).to_be_bytes(), &[n as u8; 300]).unwrap();
            }
            txn.commit().unwrap();
        }
        let mut txn = db.write().unwrap();
        for table in txn.tables().unwrap() {
            for n in 0..50_u64 {
                assert!(txn.delete(&table, &(n | 1 << 63).to_be_bytes()).unwrap());
            }
        }
        txn.commit().unwrap();
        check_contents(&db, version, state);
        db.close().unwrap();
        let db = Database::open(dir.path(), &Options::new()).unwrap();
        check_contents(&db, version, state);
        assert_eq!(db.stat().unwrap().format_version, NEWEST, "what was written has the newest version");
    }
}

/// Values that version 1 had in pages of their own go into leaves, one by one as they are written
/// again, or all of them with a compact copy.
#[test]
fn values_of_version_1_become_dense() {
    let dir = copy_of(1, "closed");
    let db = Database::open(dir.path().join("."), &Options::new()).unwrap();
    let overflow_pages = |db: &Database| {
        let snapshot = db.read().unwrap();
        snapshot.view(&snapshot.table("birds").unwrap()).unwrap().stat().overflow_pages
    };
    assert_eq!(overflow_pages(&db), 3);
    let copy = tempfile::tempdir().unwrap();
    db.copy_to(copy.path(), true).unwrap();
    let compact = Database::open(copy.path(), &Options::new()).unwrap();
    assert_eq!(overflow_pages(&compact), 0);
    check_contents(&compact, 1, "closed");

    let mut txn = db.write().unwrap();
    let birds = txn.table("birds").unwrap();
    let large = txn.get(&birds, b"large").unwrap().unwrap().to_vec();
    // A change of others leaves it where it is.
    txn.put(&birds, b"no value", b"").unwrap();
    assert_eq!(txn.view(&birds).unwrap().stat().overflow_pages, 3);
    txn.put(&birds, b"large", &large).unwrap();
    txn.commit().unwrap();
    assert_eq!(overflow_pages(&db), 0);
    check_contents(&db, 1, "closed");
}

#[test]
fn this_build_still_writes_what_the_golden_files_hold() {
    let dir = tempfile::tempdir().unwrap();
    make_golden(dir.path());
    for state in STATES {
        let fresh = fs::read(dir.path().join(state).join("data")).unwrap();
        check_document(&fresh, NEWEST, state);
        let db = Database::open(dir.path().join(state), &Options::new().create(false)).unwrap();
        check_contents(&db, NEWEST, state);
    }
}

// ---- what the document says ----

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(bytes[at]) | usize::from(bytes[at + 1]) << 8
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    (0..4).map(|i| u32::from(bytes[at + i]) << (8 * i)).sum()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// A tree's description: root, depth, entries, leaf pages, branch pages, overflow pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TreeFields(u32, u32, [u64; 4]);

impl TreeFields {
    fn at(bytes: &[u8], at: usize) -> Self {
        Self(u32_at(bytes, at), u32_at(bytes, at + 4), [8, 16, 24, 32].map(|offset| u64_at(bytes, at + offset)))
    }
}

/// Reads a data file by `docs/FORMAT.md` alone.
struct ByDocument<'a> {
    version: u32,
    bytes: &'a [u8],
    /// The newest transaction a page may have.
    txn: u64,
    used: BTreeSet<u32>,
    /// The fork that the tree being read starts from: older pages are used already.
    fork: u64,
    /// Leaf, branch and overflow pages of the tree being read.
    pages: [u64; 3],
    /// Leaves of several pages, in all trees.
    wide: usize,
}

impl<'a> ByDocument<'a> {
    fn of(version: u32, bytes: &'a [u8], txn: u64) -> Self {
        Self { version, bytes, txn, used: [0, 1].into(), fork: 0, pages: [0; 3], wide: 0 }
    }

    /// A page, or the run that it heads, whose header is right.
    fn page(&mut self, number: u32, kind: u8) -> &'a [u8] {
        let start = number as usize * PAGE;
        let head = &self.bytes[start..start + PAGE];
        let run_pages = match kind {
            4 | 5 => u32_at(head, 24),
            7 => u16_at(head, 30) as u32 + 1,
            _ => 1,
        };
        let run = &self.bytes[start..start + run_pages as usize * PAGE];
        if kind == 7 {
            assert!(self.version >= 2 && (2..=16).contains(&run_pages));
        } else if run_pages > 1 {
            assert_eq!(run_pages as usize, (u32_at(head, 28) as usize + 32).div_ceil(PAGE));
        }
        assert_eq!(u64_at(head, 0), xxhash_rust::xxh3::xxh3_64_with_seed(&run[8..], number.into()), "page {number}");
        assert!(u64_at(head, 8) <= self.txn && u64_at(head, 8) > 0, "page {number}");
        assert_eq!((u32_at(head, 16), head[20]), (number, kind));
        let shared = u64_at(head, 8) <= self.fork;
        for page in number..number + run_pages {
            assert_eq!(self.used.contains(&page), shared, "page {page}, of transaction {}", u64_at(head, 8));
            self.used.insert(page);
        }
        run
    }

    /// The entries of a table or of the catalogue.
    fn tree(&mut self, tree: TreeFields) -> Entries {
        let TreeFields(root, depth, [entries, pages @ ..]) = tree;
        assert_eq!(root == 0, depth == 0);
        self.pages = [0; 3];
        let mut found = Vec::new();
        if depth > 0 {
            self.subtree(root, depth - 1, &mut found);
        }
        assert_eq!((found.len() as u64, self.pages), (entries, pages));
        assert!(found.is_sorted_by(|a, b| a.0 < b.0));
        found
    }

    fn subtree(&mut self, number: u32, level: u32, found: &mut Entries) {
        let leaf_kind = self.bytes[number as usize * PAGE + 20];
        assert!(level > 0 || leaf_kind == 2 || leaf_kind == 7);
        let page = self.page(number, if level == 0 { leaf_kind } else { 3 });
        assert_eq!(u32::from(page[21]), level);
        let (prefix_len, count) = (u16_at(page, 22), u16_at(page, 24));
        assert_eq!(u16_at(page, 30), page.len() / PAGE - 1);
        self.wide += usize::from(page.len() > PAGE);
        let heads = (32 + prefix_len).next_multiple_of(4);
        let places = heads + 4 * count;
        let (children, counts) = (places + 2 * count, places + 6 * count);
        self.pages[usize::from(level > 0)] += (page.len() / PAGE) as u64;
        let mut separators = Vec::new();
        for index in 0..count {
            let place = u16_at(page, places + 2 * index);
            let head = u32_at(page, heads + 4 * index).to_be_bytes();
            let mut at = page.len() - place;
            let mut length = || {
                let first = usize::from(page[at]);
                at += 1;
                if first < 128 {
                    return first;
                }
                at += 1;
                (first - 128) * 256 + usize::from(page[at - 1])
            };
            let suffix_len = if level > 0 && place <= 4 { place } else { length() };
            let value_len = if level == 0 { length() } else { 0 };
            let mut key = page[32..32 + prefix_len].to_vec();
            if level > 0 && index == 0 {
                assert_eq!(suffix_len, 0);
                key.clear();
            }
            key.extend_from_slice(&head[..suffix_len.min(4)]);
            assert!(head[suffix_len.min(4)..].iter().all(|&byte| byte == 0));
            if suffix_len > 4 {
                key.extend_from_slice(&page[at..at + suffix_len - 4]);
                at += suffix_len - 4;
            }
            if level > 0 {
                let child = u32_at(page, children + 4 * index);
                let entries_before = found.len();
                self.subtree(child, level - 1, found);
                let entries = found.len() - entries_before;
                let count = u64::from(u32_at(page, counts + 6 * index));
                assert_eq!((count, u16_at(page, counts + 6 * index + 4)), (entries as u64, 0));
                if index > 0 {
                    assert!(found[entries_before - 1].0 < key && key <= found[entries_before].0);
                }
                separators.push(key);
            } else if value_len == 1 {
                let (first, bytes) = (u32_at(page, at), u32_at(page, at + 4));
                let run = self.page(first, 4);
                assert_eq!(u32_at(run, 28), bytes);
                assert!(key.len() + bytes as usize > PAGE / 4 - 40);
                self.pages[2] += (run.len() / PAGE) as u64;
                found.push((key, run[32..32 + bytes as usize].to_vec()));
            } else {
                let bytes = if value_len % 2 == 0 { value_len / 2 } else { 16_384 + (value_len - 3) / 2 };
                if key.len() + bytes > PAGE / 4 - 40 {
                    let run_pages = (bytes + 32).div_ceil(PAGE);
                    assert!(self.version >= 2 && key.len() + bytes <= 24_576);
                    assert!(run_pages * PAGE > bytes + bytes * 7 / 40);
                }
                found.push((key, page[at..at + bytes].to_vec()));
            }
        }
        assert!(separators.is_sorted());
    }

    /// The free pages as base, chain and toggles of a meta page say.
    fn free_pages(&mut self, meta: &[u8]) -> BTreeSet<u32> {
        let mut free = BTreeSet::new();
        let mut toggle = |page: u32| {
            if !free.remove(&page) {
                free.insert(page);
            }
        };
        let (base, base_pages, mut link) = (u32_at(meta, 52), u32_at(meta, 56), u32_at(meta, 60));
        if base != 0 {
            let run = self.page(base, 5);
            assert_eq!(run.len(), base_pages as usize * PAGE);
            for bit in 0..u32_at(run, 28) * 8 {
                if run[32 + bit as usize / 8] >> (bit % 8) & 1 == 1 {
                    toggle(bit);
                }
            }
        }
        let mut links = 0;
        while link != 0 {
            let page = self.page(link, 6);
            (0..u32_at(page, 36)).for_each(|i| toggle(u32_at(page, 40 + 4 * i as usize)));
            link = u32_at(page, 32);
            links += 1;
        }
        assert_eq!(links, u32_at(meta, 64));
        (0..u32_at(meta, 68)).for_each(|i| toggle(u32_at(meta, 1536 + 4 * i as usize)));
        free
    }
}

/// Key and value of a tree key of a table with many values a key.
fn split_pair(pair: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut key = Vec::new();
    let mut at = 0;
    loop {
        match (pair[at], pair.get(at + 1)) {
            (0, Some(0xff)) => (key.push(0), at += 2),
            (0, Some(0)) => return (key, pair[at + 2..].to_vec()),
            (byte, _) => (assert_ne!(byte, 0), (key.push(byte), at += 1).1),
        };
    }
}

/// A data file of 4 KiB pages is as `docs/FORMAT.md` has it, and holds what it should.
#[track_caller]
fn check_document(bytes: &[u8], version: u32, state: &str) {
    assert_eq!(bytes.len() % PAGE, 0);
    let metas = [&bytes[..PAGE], &bytes[PAGE..2 * PAGE]];
    for (slot, meta) in metas.into_iter().enumerate() {
        assert_eq!(u64_at(meta, 0), xxhash_rust::xxh3::xxh3_64_with_seed(&meta[8..4096], slot as u64), "checksum");
        assert_eq!((u32_at(meta, 16), meta[20], meta[21]), (slot as u32, 1, 0), "page number, kind, level");
        assert_eq!(&meta[32..40], b"COLIBRI\0");
        assert_eq!((u32_at(meta, 40), u32_at(meta, 44)), (version, 4096), "format version, page size");
        assert!(meta[120..136].iter().any(|&byte| byte != 0), "database id");
        assert_eq!(meta[120..136], metas[0][120..136]);
        assert!(meta[136..156].iter().chain(&meta[160..256]).all(|&byte| byte == 0), "no log, and reserved");
    }
    let newest = metas.into_iter().max_by_key(|meta| u64_at(meta, 8)).unwrap();
    let (manifest, flags) = (u32_at(newest, 72), u32_at(newest, 76));
    if state == "closed" {
        assert_eq!((manifest, flags), (0, 1), "closed cleanly");
        assert_eq!(metas[0][8..16], metas[1][8..16], "the same point in both");
        assert_eq!(metas[0][24..4096], metas[1][24..4096], "the same point in both");
    } else {
        assert!(manifest > 0 && flags == 0, "one flush for pages and meta page");
        assert_eq!(metas.map(|meta| u64_at(meta, 8)).into_iter().min(), Some(u64_at(newest, 8) - 1));
    }
    let page_count = u32_at(newest, 48);
    assert_eq!(page_count as usize * PAGE, bytes.len());
    for entry in (0..manifest as usize).map(|i| 256 + 8 * i) {
        let page = u32_at(newest, entry) as usize;
        assert_eq!(u32_at(newest, entry + 4), u32_at(bytes, page * PAGE), "low half of a checksum");
        assert_eq!(u64_at(bytes, page * PAGE + 8), u64_at(newest, 8), "a page of this point");
    }

    let mut reader = ByDocument::of(version, bytes, u64_at(newest, 8));
    let branches = forest::check_branches(&mut reader, TreeFields::at(newest, 80), u32_at(newest, 156), state);
    assert!(branches > 0, "a tree of two levels belongs into it");
    assert_eq!(reader.wide > 0, version >= 2, "wide leaves belong into it");
    let free = reader.free_pages(newest);
    assert!(u32_at(newest, 52) != 0 && u32_at(newest, 68) > 0, "a base and toggles belong into it");
    let others: BTreeSet<u32> = (0..page_count).filter(|page| !reader.used.contains(page)).collect();
    assert_eq!(free, others, "every page is in use or free");
}

/// A catalogue has the tables that it should, with the entries that they should have. How many
/// branch pages those take.
#[track_caller]
fn check_tables(reader: &mut ByDocument<'_>, catalog: &Entries, expected: &Contents) -> u64 {
    let names: Vec<&[u8]> = catalog.iter().map(|(name, _)| name.as_slice()).collect();
    assert_eq!(names, expected.keys().map(|name| name.as_bytes()).collect::<Vec<_>>());
    let mut branches = 0;
    for ((_, description), (name, (kind, entries))) in catalog.iter().zip(expected) {
        assert_eq!(description.len(), 48);
        let number = match kind {
            TableKind::Plain => 0,
            TableKind::Multi => 1,
            TableKind::Integer => 2,
        };
        assert_eq!(description[..8], [number, 0, 0, 0, 0, 0, 0, 0]);
        let mut found = reader.tree(TreeFields::at(description, 8));
        branches += reader.pages[1];
        if *kind == TableKind::Multi {
            assert!(found.iter().all(|(_, value)| value.is_empty()));
            found = found.iter().map(|(pair, _)| split_pair(pair)).collect();
        }
        assert!(found == *entries, "{name}");
    }
    branches
}

#[test]
fn the_golden_files_are_as_the_document_has_them() {
    for (version, state) in files() {
        let bytes = fs::read(golden(version, state).join("data")).unwrap();
        assert!(bytes.len() <= 192 << 10, "{} bytes", bytes.len());
        check_document(&bytes, version, state);
    }
}

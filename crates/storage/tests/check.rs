//! What `check` names, what a page's form refuses, and what reads say against a model.
//!
//! The files here are forged: their checksums are right, and something that checksums do not tell
//! is wrong. Where possible, all that `check` says is compared, so that it says no more than what
//! is wrong either.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use colibri_storage::{CheckReport, Checksums, Database, Durability, Error, Options, Result, TableKind, WriteTxn};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const PAGE: usize = 4096;
const HEADER: usize = 32;
const OVERFLOW: u8 = 4;
const FREE_BASE: u8 = 5;
/// So many of these values fill a leaf of one page.
const PER_LEAF: usize = 4;
const VALUE: [u8; 970] = [7; 970];

// Where a meta page has its fields.
const AT_PAGE_COUNT: usize = 48;
const AT_FREE_BASE: usize = 52;
const AT_FREE_LOG: usize = 60;
const AT_TOGGLES_LEN: usize = 68;
const AT_CATALOG: usize = 80;
const AT_TOGGLES: usize = 1536;

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// The data file of a database that was closed.
#[derive(Clone)]
struct Image(Vec<u8>);

impl Image {
    /// What one transaction makes, and some free pages.
    fn of(fill: impl FnOnce(&mut WriteTxn)) -> Self {
        Self::with_passing(fill, 1, 3)
    }

    /// What one transaction makes; a value of so many pages came and went so many times.
    fn with_passing(fill: impl FnOnce(&mut WriteTxn), times: u32, pages: usize) -> Self {
        let dir = scratch();
        let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
        let mut txn = db.write().unwrap();
        fill(&mut txn);
        txn.commit().unwrap();
        for _ in 0..times {
            let mut txn = db.write().unwrap();
            let table = txn.create_table("passing", TableKind::Plain).unwrap();
            txn.put(&table, b"value", &vec![1; PAGE * pages]).unwrap();
            txn.commit().unwrap();
            db.sync().unwrap();
            let mut txn = db.write().unwrap();
            txn.drop_table(&table).unwrap();
            txn.commit().unwrap();
            db.sync().unwrap();
        }
        db.close().unwrap();
        Self(std::fs::read(dir.path().join("data")).unwrap())
    }

    /// A plain table `letters` with keys of one byte from `a` on, four to a leaf.
    fn letters(count: u8) -> Self {
        Self::of(|txn| {
            let table = txn.create_table("letters", TableKind::Plain).unwrap();
            txn.load_sorted(&table, (b'a'..b'a' + count).map(|letter| ([letter], VALUE))).unwrap();
        })
    }

    /// A plain table `letters` with keys of two bytes and three levels.
    fn deep() -> Self {
        let image = Self::of(|txn| {
            let table = txn.create_table("letters", TableKind::Plain).unwrap();
            txn.load_sorted(&table, (1000..2200_u16).map(|n| ((2 * n).to_be_bytes(), VALUE))).unwrap();
        });
        assert_eq!(image.0[image.root("letters") * PAGE + 21], 2, "the root's level");
        image
    }

    fn get(&self, page: usize, at: usize) -> usize {
        u32::from_le_bytes(self.0[page * PAGE + at..][..4].try_into().unwrap()) as usize
    }

    fn get_u16(&self, page: usize, at: usize) -> usize {
        u16::from_le_bytes(self.0[page * PAGE + at..][..2].try_into().unwrap()).into()
    }

    fn set(&mut self, page: usize, at: usize, bytes: &[u8]) {
        self.0[page * PAGE + at..][..bytes.len()].copy_from_slice(bytes);
        self.seal(page);
    }

    /// Computes the checksum of a page or of the run it heads.
    fn seal(&mut self, page: usize) {
        let number = self.get(page, 16) as u64;
        let pages = if [OVERFLOW, FREE_BASE].contains(&self.0[page * PAGE + 20]) { self.get(page, 24) } else { 1 };
        let bytes = &mut self.0[page * PAGE..][..pages * PAGE];
        let checksum = xxh3_64_with_seed(&bytes[8..], number);
        bytes[..8].copy_from_slice(&checksum.to_le_bytes());
    }

    fn set_meta(&mut self, at: usize, bytes: &[u8]) {
        for slot in 0..2 {
            self.set(slot, at, bytes);
        }
    }

    // ---- free pages ----

    fn free_pages(&self) -> BTreeSet<usize> {
        let mut free = BTreeSet::new();
        let base = self.get(0, AT_FREE_BASE);
        if base > 0 {
            let bits = &self.0[base * PAGE + HEADER..][..self.get(base, 28)];
            free.extend((0..8 * bits.len()).filter(|page| bits[page / 8] >> (page % 8) & 1 == 1));
        }
        let mut toggles: Vec<usize> =
            (0..self.get(0, AT_TOGGLES_LEN)).map(|i| self.get(0, AT_TOGGLES + 4 * i)).collect();
        let mut link = self.get(0, AT_FREE_LOG);
        while link > 0 {
            toggles.extend((0..self.get(link, 36)).map(|i| self.get(link, 40 + 4 * i)));
            link = self.get(link, HEADER);
        }
        for page in toggles {
            if !free.remove(&page) {
                free.insert(page);
            }
        }
        free
    }

    /// Makes a free page no longer listed, or lists another one, in the meta pages.
    fn toggle(&mut self, page: usize) {
        let before = self.free_pages();
        let count = self.get(0, AT_TOGGLES_LEN);
        let found = (0..count).find(|i| self.get(0, AT_TOGGLES + 4 * i) == page);
        let count = match found {
            Some(i) => {
                let last = self.get(0, AT_TOGGLES + 4 * (count - 1)) as u32;
                self.set_meta(AT_TOGGLES + 4 * i, &last.to_le_bytes());
                count - 1
            }
            None => {
                self.set_meta(AT_TOGGLES + 4 * count, &(page as u32).to_le_bytes());
                count + 1
            }
        };
        self.set_meta(AT_TOGGLES_LEN, &(count as u32).to_le_bytes());
        assert_eq!(self.free_pages().symmetric_difference(&before).collect::<Vec<_>>(), [&page]);
    }

    // ---- trees ----

    fn catalog(&self) -> usize {
        self.get(0, AT_CATALOG)
    }

    /// Where the catalogue's only leaf has a table's kind, seven zeros and its tree.
    fn description(&self, name: &str) -> usize {
        let (_dir, db) = self.open();
        let snapshot = db.read().unwrap();
        let stat = snapshot.view(&snapshot.table(name).unwrap()).unwrap().stat();
        let sizes = [stat.entries, stat.leaf_pages, stat.branch_pages, stat.overflow_pages];
        let mut tree = stat.depth.to_le_bytes().to_vec();
        tree.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        let page = &self.0[self.catalog() * PAGE..][..PAGE];
        let mut found = (0..=PAGE - tree.len()).filter(|&at| page[at..].starts_with(&tree));
        let at = found.next().unwrap();
        assert_eq!(found.next(), None, "another table has the same sizes");
        at - 12
    }

    fn root(&self, name: &str) -> usize {
        self.get(self.catalog(), self.description(name) + 8)
    }

    fn count(&self, page: usize) -> usize {
        self.get_u16(page, 24)
    }

    /// Where the heads of a tree page begin; places, children and counts follow.
    fn heads(&self, page: usize) -> usize {
        HEADER + self.get_u16(page, 22).next_multiple_of(4)
    }

    fn places(&self, page: usize) -> usize {
        self.heads(page) + 4 * self.count(page)
    }

    fn child_at(&self, branch: usize, index: usize) -> usize {
        self.places(branch) + 2 * self.count(branch) + 4 * index
    }

    fn child(&self, branch: usize, index: usize) -> usize {
        self.get(branch, self.child_at(branch, index))
    }

    fn count_at(&self, branch: usize, index: usize) -> usize {
        self.child_at(branch, self.count(branch)) + 6 * index
    }

    /// Adds to the last byte of a key of at most four bytes behind the prefix.
    fn shift_key(&mut self, page: usize, index: usize, suffix_len: usize, by: i8) {
        let at = match suffix_len {
            0 => HEADER + self.get_u16(page, 22) - 1,
            len => self.heads(page) + 4 * index + 4 - len,
        };
        let byte = self.0[page * PAGE + at].wrapping_add_signed(by);
        self.set(page, at, &[byte]);
    }

    fn shift_separator(&mut self, branch: usize, index: usize, by: i8) {
        let len = self.get_u16(branch, self.places(branch) + 2 * index);
        assert!(len <= 4);
        self.shift_key(branch, index, len, by);
    }

    /// The heads of large values.
    fn large_values(&self) -> Vec<usize> {
        let heads = |&page: &usize| self.get(page, 16) == page && self.0[page * PAGE + 20] == OVERFLOW;
        let free = self.free_pages();
        (2..self.0.len() / PAGE).filter(heads).filter(|page| !free.contains(page)).collect()
    }

    // ---- verdicts ----

    fn open(&self) -> (tempfile::TempDir, Database) {
        let dir = scratch();
        std::fs::write(dir.path().join("data"), &self.0).unwrap();
        let options = Options::new().create(false).read_only(true).checksums(Checksums::FirstTouch);
        let db = Database::open(dir.path(), &options.size_max(1 << 30)).unwrap();
        (dir, db)
    }

    fn check(&self) -> CheckReport {
        let (_dir, db) = self.open();
        let report = db.check().unwrap();
        assert_eq!(report.is_clean(), report.problems.is_empty());
        report
    }

    fn problems(&self) -> Vec<String> {
        self.check().problems
    }
}

/// Fails unless the texts are among the problems.
#[track_caller]
fn assert_named(problems: &[String], texts: &[String]) {
    for text in texts {
        assert!(problems.contains(text), "nothing says {text:?} in {problems:#?}");
    }
}

// ---- pages: each is used once, or free ----

#[test]
fn a_check_accounts_for_every_page_of_a_database_without_faults() {
    let fill = |txn: &mut WriteTxn| {
        let table = txn.create_table("plain", TableKind::Plain).unwrap();
        txn.load_sorted(&table, (0..100_u32).map(|n| (n.to_be_bytes(), VALUE))).unwrap();
        txn.put(&table, b"large", &[1; 4 * PAGE - 100]).unwrap();
        let table = txn.create_table("multi", TableKind::Multi).unwrap();
        txn.put(&table, b"key", b"one").unwrap();
        txn.put(&table, b"key", b"two").unwrap();
        txn.create_table("nothing", TableKind::Integer).unwrap();
    };
    let few = Image::with_passing(fill, 1, 3);
    let many = Image::with_passing(fill, 2, 700);
    assert!(many.get(0, AT_FREE_BASE) > 0 && many.get(0, AT_FREE_LOG) > 0, "there is a base and a chain");
    for image in [few, many] {
        let report = image.check();
        assert_eq!(report.problems, [""; 0]);
        assert!(report.free_checked);
        assert_eq!((report.tables, report.entries), (3, 103));
        let (pages, free) = (image.get(0, AT_PAGE_COUNT), image.free_pages().len());
        assert!(free > 0);
        assert_eq!((report.pages_reached, report.pages_free), ((pages - free) as u64, free as u64));
    }
}

#[test]
fn a_page_that_is_neither_in_use_nor_free_is_named() {
    let image = Image::letters(20);
    let free = image.free_pages();
    assert!(!free.is_empty());
    for &page in &free {
        let mut forged = image.clone();
        forged.toggle(page);
        assert_eq!(forged.problems(), [format!("page {page} is neither in use nor free")]);
    }
    // A bit of the base says it as well as the meta page does.
    let mut forged = Image::with_passing(|_| (), 2, 700);
    let (base, free) = (forged.get(0, AT_FREE_BASE), forged.free_pages());
    let page = (2..).find(|page| free.contains(page)).unwrap();
    let byte = forged.0[base * PAGE + HEADER + page / 8];
    forged.set(base, HEADER + page / 8, &[byte ^ 1 << (page % 8)]);
    assert_eq!(forged.problems(), [format!("page {page} is neither in use nor free")]);
}

#[test]
fn a_page_in_use_that_is_listed_as_free_is_named() {
    let image = Image::with_passing(
        |txn| {
            let table = txn.create_table("letters", TableKind::Plain).unwrap();
            txn.load_sorted(&table, (b'a'..b'u').map(|letter| ([letter], VALUE))).unwrap();
            txn.put(&table, b"large", &[1; 4 * PAGE - 100]).unwrap();
        },
        2,
        700,
    );
    let root = image.root("letters");
    let large = image.large_values()[0];
    for page in [image.catalog(), root, image.child(root, 2), large, large + 3] {
        let mut forged = image.clone();
        forged.toggle(page);
        assert_eq!(forged.problems(), [format!("page {page} is in use and listed as free")]);
    }
    for page in [image.get(0, AT_FREE_BASE), image.get(0, AT_FREE_LOG)] {
        let mut forged = image.clone();
        forged.toggle(page);
        let problems = forged.problems();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].ends_with("the free map lists its own pages as free"), "{problems:?}");
    }
}

#[test]
fn a_page_that_is_used_twice_is_named() {
    // By two children of a branch.
    let mut forged = Image::letters(20);
    let root = forged.root("letters");
    let (first, second) = (forged.child(root, 1), forged.child(root, 2));
    forged.set(root, forged.child_at(root, 2), &(first as u32).to_le_bytes());
    let named = [format!("page {first} is used twice"), format!("page {second} is neither in use nor free")];
    assert_named(&forged.problems(), &named);

    // By two entries with large values.
    let mut forged = Image::of(|txn| {
        let table = txn.create_table("table", TableKind::Plain).unwrap();
        txn.put(&table, b"a", &[1; 8000]).unwrap();
        txn.put(&table, b"b", &[2; 8000]).unwrap();
    });
    let (leaf, large) = (forged.root("table"), forged.large_values());
    let reference: Vec<u8> = [large[1] as u32, 8000].iter().flat_map(|n| n.to_le_bytes()).collect();
    let at = forged.0[leaf * PAGE..][..PAGE].windows(8).position(|bytes| bytes == reference).unwrap();
    forged.set(leaf, at, &(large[0] as u32).to_le_bytes());
    let expected = [
        format!("page {} is used twice", large[0]),
        format!("page {} is neither in use nor free", large[1]),
        format!("page {} is neither in use nor free", large[1] + 1),
    ];
    assert_eq!(forged.problems(), expected);

    // By two tables.
    let mut forged = Image::of(|txn| {
        for (name, value) in [("one", &b"value"[..]), ("two", &[1; 8000])] {
            let table = txn.create_table(name, TableKind::Plain).unwrap();
            txn.put(&table, b"a", value).unwrap();
        }
    });
    let (one, two) = (forged.root("one"), forged.root("two"));
    forged.set(forged.catalog(), forged.description("two") + 8, &(one as u32).to_le_bytes());
    let named = [format!("page {one} is used twice"), format!("page {two} is neither in use nor free")];
    assert_named(&forged.problems(), &named);

    // By a tree and the free map.
    let mut forged = Image::with_passing(
        |txn| {
            let table = txn.create_table("letters", TableKind::Plain).unwrap();
            txn.load_sorted(&table, (b'a'..b'u').map(|letter| ([letter], VALUE))).unwrap();
        },
        2,
        700,
    );
    let (root, base) = (forged.root("letters"), forged.get(0, AT_FREE_BASE));
    forged.set(root, forged.child_at(root, 2), &(base as u32).to_le_bytes());
    assert_named(&forged.problems(), &[format!("page {base} is used twice")]);
}

// ---- order ----

#[test]
fn a_child_that_starts_below_its_separator_is_named() {
    let mut forged = Image::letters(20);
    let root = forged.root("letters");
    forged.shift_separator(root, 2, 1);
    let text = format!("table \"letters\": child 2 of page {root} starts below its separator");
    assert_eq!(forged.problems(), [text]);

    // The first key may be two levels below.
    let mut forged = Image::deep();
    let root = forged.root("letters");
    forged.shift_separator(root, 1, 1);
    let text = format!("table \"letters\": child 1 of page {root} starts below its separator");
    assert_eq!(forged.problems(), [text]);
}

#[test]
fn a_separator_that_is_not_above_the_keys_before_it_is_named() {
    let expect = |forged: &Image, root: usize, index: usize, leaf: usize| {
        let last = forged.count(leaf) - 1;
        let expected = [
            format!("table \"letters\": entry {last} of page {leaf} is out of order"),
            format!("table \"letters\": separator {index} of page {root} is not above the keys before it"),
        ];
        assert_eq!(forged.problems(), expected);
    };
    let mut forged = Image::letters(20);
    let root = forged.root("letters");
    forged.shift_separator(root, 2, -1);
    expect(&forged, root, 2, forged.child(root, 1));

    let mut forged = Image::deep();
    let root = forged.root("letters");
    forged.shift_separator(root, 1, -2);
    let branch = forged.child(root, 0);
    expect(&forged, root, 1, forged.child(branch, forged.count(branch) - 1));
}

#[test]
fn a_leaf_whose_keys_are_not_above_those_of_the_leaf_before_is_named() {
    let mut forged = Image::letters(20);
    let root = forged.root("letters");
    let leaf = forged.child(root, 1);
    assert_eq!((forged.count(leaf), forged.get_u16(leaf, 22)), (PER_LEAF, 0));
    // `e` becomes `d`, which the leaf before ends with.
    forged.shift_key(leaf, 0, 1, -1);
    let expected = [
        format!("table \"letters\": entry 0 of page {leaf} is out of order"),
        format!("table \"letters\": child 1 of page {root} starts below its separator"),
    ];
    assert_eq!(forged.problems(), expected);

    // Two leaves in each other's place.
    let mut forged = Image::letters(20);
    let root = forged.root("letters");
    let (low, high) = (forged.child(root, 1), forged.child(root, 2));
    forged.set(root, forged.child_at(root, 1), &(high as u32).to_le_bytes());
    forged.set(root, forged.child_at(root, 2), &(low as u32).to_le_bytes());
    let mut named: Vec<String> = (0..PER_LEAF)
        .flat_map(|entry| [low, high].map(|leaf| (entry, leaf)))
        .filter(|&(entry, leaf)| leaf == high || entry == 0)
        .map(|(entry, leaf)| format!("table \"letters\": entry {entry} of page {leaf} is out of order"))
        .collect();
    named.push(format!("table \"letters\": separator 2 of page {root} is not above the keys before it"));
    named.push(format!("table \"letters\": child 2 of page {root} starts below its separator"));
    assert_named(&forged.problems(), &named);
}

// ---- sizes ----

#[test]
fn sizes_that_a_tree_is_not_described_rightly_with_are_named() {
    let image = Image::of(|txn| {
        let table = txn.create_table("table", TableKind::Plain).unwrap();
        txn.load_sorted(&table, (b'a'..b'u').map(|letter| ([letter], VALUE))).unwrap();
        txn.put(&table, b"large", &[1; 4 * PAGE - 100]).unwrap();
    });
    let (catalog, at) = (image.catalog(), image.description("table"));
    let sizes = [(16, "entries"), (24, "leaf pages"), (32, "branch pages"), (40, "overflow pages")];
    for (field, unit) in sizes {
        let right = image.get(catalog, at + field) as u64;
        assert!(right > 0);
        for wrong in [right - 1, right + 1] {
            // A tree is not said to be without entries.
            if (unit, wrong) == ("entries", 0) {
                continue;
            }
            let mut forged = image.clone();
            forged.set(catalog, at + field, &wrong.to_le_bytes());
            let text = format!("table \"table\" is described with {wrong} {unit} and has {right}");
            assert_eq!(forged.problems(), [text]);
        }
    }
    for (field, unit) in sizes {
        let at = AT_CATALOG + field - 8;
        let right = image.get(0, at) as u64;
        let mut forged = image.clone();
        forged.set_meta(at, &(right + 1).to_le_bytes());
        let text = format!("the catalogue is described with {} {unit} and has {right}", right + 1);
        assert_eq!(forged.problems(), [text]);
    }
}

#[test]
fn a_wrong_count_below_a_child_is_named() {
    for (image, index) in [(Image::letters(20), 0), (Image::letters(20), 3), (Image::deep(), 1)] {
        let root = image.root("letters");
        let at = image.count_at(root, index);
        let right = image.get(root, at) as u32;
        for wrong in [right - 1, right + 1] {
            let mut forged = image.clone();
            forged.set(root, at, &wrong.to_le_bytes());
            let text = format!("table \"letters\": page {root} counts {wrong} below child {index}, which has {right}");
            assert_eq!(forged.problems(), [text]);
        }
    }
}

#[test]
fn a_tree_of_another_depth_than_described_is_named() {
    let image = Image::letters(20);
    let root = image.root("letters");
    for depth in [1_u32, 3] {
        let mut forged = image.clone();
        forged.set(image.catalog(), image.description("letters") + 12, &depth.to_le_bytes());
        assert_named(&forged.problems(), &[format!("table \"letters\": page {root} is at level 1 with 5 entries")]);
    }
}

// ---- tables ----

#[test]
fn keys_that_are_none_of_their_tables_kind_are_named() {
    for (kind, text) in [(1, "has a malformed pair"), (2, "has a key of 1 bytes")] {
        let mut forged = Image::letters(2);
        forged.set(forged.catalog(), forged.description("letters"), &[kind]);
        let text = format!("table \"letters\" {text}");
        assert_eq!(forged.problems(), [text.clone(), text]);
    }
}

#[test]
fn a_table_of_no_known_kind_or_without_a_proper_name_is_named() {
    let image = Image::letters(2);
    let catalog = image.catalog();
    let mut forged = image.clone();
    forged.set(catalog, image.description("letters"), &[3]);
    let problems = forged.problems();
    assert!(problems[0].starts_with("the catalogue's entry \"letters\": "), "{problems:?}");
    assert!(problems[0].contains("a table is of no known kind"), "{problems:?}");

    let mut forged = image;
    let name = forged.0[catalog * PAGE..][..PAGE].windows(3).position(|bytes| bytes == b"ett" || bytes == b"ers");
    forged.set(catalog, name.unwrap(), &[0xff]);
    let problems = forged.problems();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("the name of table") && problems[0].ends_with("is not text"), "{problems:?}");
}

#[test]
fn a_meta_page_that_is_none_or_damaged_is_named() {
    let image = Image::letters(2);
    for slot in 0..2 {
        let mut forged = image.clone();
        forged.0[slot * PAGE + 2000] ^= 1;
        assert_eq!(forged.problems(), [format!("meta page {slot}: the meta page's checksum does not match")]);
    }
    let mut forged = image.clone();
    forged.0[PAGE..2 * PAGE].fill(0);
    assert_eq!(forged.problems(), ["meta page 1 is none"]);
}

#[test]
fn a_check_stops_collecting_after_a_hundred_problems() {
    let image = Image::with_passing(|_| (), 1, 300);
    let mut forged = image.clone();
    for page in image.free_pages() {
        forged.toggle(page);
    }
    assert_eq!(forged.problems().len(), 100);
}

// ---- the form of tree pages ----

/// Reads the first key of a forged page's table; gives why that fails.
fn refusal(forged: &Image, page: usize) -> &'static str {
    let read = |forged: &Image| -> Result<()> {
        let (_dir, db) = forged.open();
        let snapshot = db.read()?;
        let table = snapshot.table("letters")?;
        snapshot.get(&table, &[0xff; 9]).map(|_| ())?;
        let mut cursor = snapshot.view(&table)?.cursor();
        cursor.first()?;
        cursor.last()?;
        Ok(())
    };
    match read(forged) {
        Err(Error::Corrupted { page: found, reason }) => {
            assert_eq!(found.0 as usize, page, "{reason}");
            reason
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_out_of_order_within_a_page_are_refused() {
    let image = Image::letters(20);
    let root = image.root("letters");
    let leaf = image.child(root, 0);
    // Into the place of another, and onto another.
    for by in [2, 1] {
        let mut forged = image.clone();
        forged.shift_key(leaf, 1, 1, by);
        assert_eq!(refusal(&forged, leaf), "keys are out of order");
        let mut forged = image.clone();
        forged.shift_separator(root, 2, 4 * by);
        assert_eq!(refusal(&forged, root), "keys are out of order");
    }
    // Where heads are equal, the rest of the key and its length decide.
    let keys: [(&[u8], &[u8]); 2] = [(b"headab", b"headac"), (b"he\0", b"he\0\0")];
    for (low, high) in keys {
        let image = Image::of(|txn| {
            let table = txn.create_table("letters", TableKind::Plain).unwrap();
            for key in [b"!", low, high, b"~"] {
                txn.put(&table, key, b"value").unwrap();
            }
        });
        assert_eq!(image.problems(), [""; 0]);
        let leaf = image.root("letters");
        let at = image.places(leaf) + 2;
        let places = [image.get_u16(leaf, at + 2), image.get_u16(leaf, at)];
        for places in [places, [places[0]; 2], [places[1]; 2]] {
            let mut forged = image.clone();
            let bytes: Vec<u8> = places.iter().flat_map(|&place| (place as u16).to_le_bytes()).collect();
            forged.set(leaf, at, &bytes);
            assert_eq!(refusal(&forged, leaf), "keys are out of order");
        }
    }
}

#[test]
fn a_heap_of_another_length_than_its_cells_is_refused() {
    let image = Image::letters(20);
    let root = image.root("letters");
    let leaf = image.child(root, 0);
    let wrong = "the heap's length does not match its cells";
    for page in [root, leaf] {
        // The length of the heap, and of what is dead in it.
        for at in [26, 28] {
            let mut forged = image.clone();
            let len = image.get_u16(page, at) as u16 + 1;
            forged.set(page, at, &len.to_le_bytes());
            assert_eq!(refusal(&forged, page), wrong);
        }
    }
    let mut forged = image.clone();
    let len = image.get_u16(leaf, 26) as u16;
    forged.set(leaf, 26, &(len - 1).to_le_bytes());
    assert_eq!(refusal(&forged, leaf), "a cell lies outside the heap");
    forged.set(leaf, 26, &(len + 2000).to_le_bytes());
    assert_eq!(refusal(&forged, leaf), "slots and cells overlap");
}

#[test]
fn a_head_with_bytes_that_its_key_has_not_is_refused() {
    let image = Image::letters(20);
    let root = image.root("letters");
    let leaf = image.child(root, 0);
    for page in [root, leaf] {
        // Each byte behind the key's only one; heads are stored with the last byte first.
        for byte in 0..3 {
            let mut forged = image.clone();
            let at = image.heads(page) + 4 + byte;
            assert_eq!(image.0[page * PAGE + at], 0);
            forged.set(page, at, &[1]);
            assert_eq!(refusal(&forged, page), "a key head has bytes that its key has not");
        }
    }
    // The first separator of a branch is empty in every respect.
    let mut forged = image.clone();
    forged.set(root, image.heads(root) + 3, &[1]);
    assert_eq!(refusal(&forged, root), "a key head has bytes that its key has not");
    let mut forged = image.clone();
    forged.set(root, image.heads(root) + 3, &[1]);
    forged.set(root, image.places(root), &[1]);
    assert_eq!(refusal(&forged, root), "the first separator is not empty");
}

#[test]
fn a_branch_with_impossible_children_or_counts_is_refused() {
    let image = Image::letters(20);
    let root = image.root("letters");
    let pages = image.get(0, AT_PAGE_COUNT) as u32;
    for child in [0, 1, pages] {
        let mut forged = image.clone();
        forged.set(root, image.child_at(root, 2), &child.to_le_bytes());
        assert_eq!(refusal(&forged, root), "a child lies beyond the end of the file");
    }
    for count in [0, u32::MAX] {
        let mut forged = image.clone();
        forged.set(root, image.count_at(root, 2), &count.to_le_bytes());
        let reason = "a branch counts more entries than the file can hold, or none below a child";
        assert_eq!(refusal(&forged, root), reason);
    }
    let mut forged = image;
    forged.set(root, 24, &[0; 2]);
    assert_eq!(refusal(&forged, root), "a tree page has no entries");
}

// ---- moves among the values of a key ----

type Pairs = BTreeSet<(Vec<u8>, Vec<u8>)>;

#[test]
fn moves_among_values_stay_with_their_key() {
    let mut rng = StdRng::seed_from_u64(7);
    // Keys that are the beginning of others, and contain what separates keys from values.
    let keys: [&[u8]; 7] = [b"a", b"a\0", b"a\0\0", b"a\0\xff", b"aa", b"b", b"\0"];
    let mut pairs = Pairs::new();
    for (i, key) in keys.iter().enumerate() {
        for _ in 0..[300, 1, 2, 40, 700, 3, 90][i] {
            let mut value = vec![0; rng.random_range(0..12)];
            rng.fill(&mut value[..]);
            pairs.insert((key.to_vec(), value));
        }
    }
    let dir = scratch();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    let mut txn = db.write().unwrap();
    let table = txn.create_table("multi", TableKind::Multi).unwrap();
    for (key, value) in &pairs {
        txn.put(&table, key, value).unwrap();
    }
    let view = txn.view(&table).unwrap();
    assert!(view.stat().leaf_pages > 3);
    let mut cursor = view.cursor();
    assert!(!cursor.next_value().unwrap() && !cursor.prev_value().unwrap(), "it is on no entry");
    assert!(!cursor.first_value().unwrap() && !cursor.last_value().unwrap());
    for key in keys {
        let values: Vec<&Vec<u8>> = pairs.iter().filter(|pair| pair.0 == key).map(|pair| &pair.1).collect();
        assert!(cursor.seek_value(key, b"").unwrap());
        for (i, value) in values.iter().enumerate() {
            assert_eq!((cursor.key(), cursor.value().unwrap()), (key, value.as_slice()));
            assert_eq!(cursor.next_value().unwrap(), i + 1 < values.len());
        }
        assert!(!cursor.is_valid());
        assert!(cursor.key().is_empty() && cursor.value().unwrap().is_empty());
        assert!(!cursor.next_value().unwrap());
        assert!(cursor.seek(key).unwrap() && cursor.last_value().unwrap());
        for (i, value) in values.iter().enumerate().rev() {
            assert_eq!((cursor.key(), cursor.value().unwrap()), (key, value.as_slice()));
            assert_eq!(cursor.prev_value().unwrap(), i > 0);
        }
        assert!(!cursor.is_valid());
        assert!(cursor.key().is_empty() && cursor.value().unwrap().is_empty());
        assert!(!cursor.prev_value().unwrap());

        for _ in 0..300 {
            let mut asked = vec![0; rng.random_range(0..12)];
            rng.fill(&mut asked[..]);
            if rng.random_bool(0.3) {
                asked = values[rng.random_range(0..values.len())].clone();
            }
            let expected = values.iter().find(|value| **value >= &asked);
            assert_eq!(cursor.seek_value(key, &asked).unwrap(), expected.is_some());
            assert_eq!(cursor.is_valid(), expected.is_some());
            if let Some(expected) = expected {
                assert_eq!((cursor.key(), cursor.value().unwrap()), (key, expected.as_slice()));
                // There and back, unless there is no such value.
                if cursor.prev_value().unwrap() {
                    assert!(cursor.value().unwrap() < asked.as_slice());
                    assert!(cursor.next_value().unwrap());
                    assert_eq!(cursor.value().unwrap(), expected.as_slice());
                } else {
                    assert_eq!(*expected, values[0]);
                }
                assert!(cursor.seek_value(key, expected).unwrap() && cursor.first_value().unwrap());
                assert_eq!(cursor.value().unwrap(), values[0]);
            }
        }
    }
    for absent in [&b"a\0\x01"[..], b"ab", b"", b"c", b"\0\0"] {
        assert!(!cursor.seek_value(absent, b"").unwrap());
        assert!(!cursor.is_valid());
    }
}

#[test]
fn where_a_key_has_one_value_there_is_none_to_move_to() {
    let dir = scratch();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    let mut txn = db.write().unwrap();
    for (name, kind) in [("plain", TableKind::Plain), ("integer", TableKind::Integer)] {
        let table = txn.create_table(name, kind).unwrap();
        let keys = [1_u64, 2, 3].map(u64::to_be_bytes);
        for key in keys {
            txn.put(&table, &key, b"value").unwrap();
        }
        let view = txn.view(&table).unwrap();
        let mut cursor = view.cursor();
        for key in keys {
            for (asked, found) in
                [(&b""[..], true), (b"val", true), (b"value", true), (b"value\0", false), (b"w", false)]
            {
                assert_eq!(cursor.seek_value(&key, asked).unwrap(), found);
                assert_eq!(cursor.key(), if found { &key[..] } else { b"" });
            }
            assert!(cursor.seek(&key).unwrap());
            assert!(cursor.first_value().unwrap() && cursor.last_value().unwrap());
            assert_eq!((cursor.key(), cursor.value().unwrap()), (&key[..], &b"value"[..]));
            assert!(!cursor.next_value().unwrap());
            assert!(!cursor.is_valid() && cursor.key().is_empty() && cursor.value().unwrap().is_empty());
            assert!(cursor.seek(&key).unwrap());
            assert!(!cursor.prev_value().unwrap());
            assert!(!cursor.is_valid() && cursor.key().is_empty() && cursor.value().unwrap().is_empty());
        }
        // No other key stands in for one that is not there.
        for absent in [0_u64, 4] {
            assert!(!cursor.seek_value(&absent.to_be_bytes(), b"").unwrap());
            assert!(!cursor.is_valid());
        }
    }
}

// ---- counts ----

#[test]
fn counts_in_a_deep_plain_table_stay_exact_through_random_changes() {
    let seed = 11;
    let mut rng = StdRng::seed_from_u64(seed);
    let dir = scratch();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    let mut model = BTreeMap::<Vec<u8>, usize>::new();
    let key = |rng: &mut StdRng| {
        let n = rng.random_range(0..8000_u32);
        // Some with a common prefix, some not.
        if n.is_multiple_of(3) {
            n.to_be_bytes().to_vec()
        } else {
            format!("key/{}", n.wrapping_mul(0x9e37_79b9)).into_bytes()
        }
    };
    for round in 0..12 {
        let mut txn = db.write().unwrap();
        let table = txn.create_table("plain", TableKind::Plain).unwrap();
        // It grows, shrinks, and grows again.
        let inserts = [0.95, 0.8, 0.5, 0.35][round % 4];
        for _ in 0..7000 {
            let key = key(&mut rng);
            if rng.random_bool(inserts) {
                let len = rng.random_range(500..970);
                txn.put(&table, &key, &vec![1; len]).unwrap();
                model.insert(key, len);
            } else {
                let there = model.remove(&key).is_some();
                assert_eq!(txn.delete(&table, &key).unwrap(), there);
            }
        }
        txn.commit().unwrap();
        let snapshot = db.read().unwrap();
        let view = snapshot.view(&table).unwrap();
        assert!(view.stat().depth >= 3, "round {round}: {:?}", view.stat());
        assert_eq!(view.len(), model.len() as u64);
        for (rank, (key, len)) in model.iter().enumerate() {
            assert_eq!(view.rank(key).unwrap(), rank as u64, "seed {seed}, round {round}");
            let (found, value) = view.nth(rank as u64).unwrap().unwrap();
            assert_eq!((found.as_slice(), value.len()), (key.as_slice(), *len), "seed {seed}, round {round}");
        }
        assert!(view.nth(model.len() as u64).unwrap().is_none());
        assert!(view.nth(u64::MAX).unwrap().is_none());
        let keys: Vec<&Vec<u8>> = model.keys().collect();
        for _ in 0..500 {
            let mut ends = [key(&mut rng), key(&mut rng)];
            ends.sort();
            let [low, high] = &ends;
            let below = |key: &Vec<u8>| keys.partition_point(|other| *other < key);
            let upto = |key: &Vec<u8>| keys.partition_point(|other| *other <= key);
            assert_eq!(view.rank(low).unwrap(), below(low) as u64);
            let (low, high) = (low.as_slice(), high.as_slice());
            let lows = [
                (Bound::Included(low), below(&ends[0])),
                (Bound::Excluded(low), upto(&ends[0])),
                (Bound::Unbounded, 0),
            ];
            let highs = [
                (Bound::Included(high), upto(&ends[1])),
                (Bound::Excluded(high), below(&ends[1])),
                (Bound::Unbounded, keys.len()),
            ];
            for (low, from) in lows {
                for (high, to) in highs {
                    assert_eq!(view.count((low, high)).unwrap(), to.saturating_sub(from) as u64, "{low:?} {high:?}");
                }
            }
        }
        let report = db.check().unwrap();
        assert!(report.is_clean(), "{report:#?}");
    }
}

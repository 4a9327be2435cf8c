//! Branches: what they see, what they share, and what comes back when they go.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use colibri_storage::{
    BackupInfo, Database, Durability, Error, FreeSpace, Options, Proposer, Snapshot, Table, TableKind, TxnId, restore,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const MODES: [Durability; 4] = [Durability::Sync, Durability::SyncNoLog, Durability::LAZY, Durability::NoSync];

fn fill(db: &Database, from: u32, to: u32, value: &[u8]) -> Table {
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Plain).unwrap();
    for key in from..to {
        txn.put(&table, &key.to_be_bytes(), value).unwrap();
    }
    txn.commit().unwrap();
    table
}

fn get(db: &Database, table: &Table, key: u32) -> Option<Vec<u8>> {
    db.read().unwrap().get(table, &key.to_be_bytes()).unwrap().map(<[u8]>::to_vec)
}

fn ensure_clean(db: &Database) {
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    assert!(report.free_checked);
}

#[test]
fn a_branch_starts_as_its_origin_is_and_goes_its_own_way() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().durability(mode);
        let db = Database::open(dir.path(), &options).unwrap();
        let table = fill(&db, 0, 5_000, b"main");
        let b = db.branch("b").unwrap();
        assert_eq!((db.branch_name(), b.branch_name()), ("main", "b"));
        assert_eq!(get(&b, &table, 7).unwrap(), b"main");
        fill(&b, 0, 100, b"b");
        fill(&db, 50, 150, b"main again");
        let c = b.branch("c").unwrap();
        fill(&c, 10, 20, b"c");
        let values = |db: &Database| [5, 15, 75, 120, 3_000].map(|key| get(db, &table, key).unwrap());
        let check = |db: &Database, b: &Database, c: &Database| {
            assert_eq!(values(db), [&b"main"[..], b"main", b"main again", b"main again", b"main"]);
            assert_eq!(values(b), [&b"b"[..], b"b", b"b", b"main", b"main"]);
            assert_eq!(values(c), [&b"b"[..], b"c", b"b", b"main", b"main"]);
        };
        check(&db, &b, &c);
        ensure_clean(&db);
        let names = |db: &Database| -> Vec<(String, Option<String>)> {
            db.branches().unwrap().into_iter().map(|info| (info.name, info.origin)).collect()
        };
        let expected = [("main", None), ("b", Some("main")), ("c", Some("b"))];
        let expected = expected.map(|(name, origin)| (name.to_owned(), origin.map(str::to_owned)));
        assert_eq!(names(&db), expected);
        drop((b, c));
        db.close().unwrap();

        let db = Database::open(dir.path(), &options).unwrap();
        assert_eq!(names(&db), expected);
        let (b, c) = (db.open_branch("b").unwrap(), db.open_branch("c").unwrap());
        check(&db, &b, &c);
        ensure_clean(&db);
    }
}

#[test]
fn what_was_dropped_is_gone_and_its_pages_are_free_again() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), &Options::new().durability(mode)).unwrap();
        let table = fill(&db, 0, 20_000, &[7; 60]);
        db.sync().unwrap();
        let used = || {
            db.sync().unwrap();
            let stat = db.stat().unwrap();
            stat.pages - stat.free_pages
        };
        let before = used();
        let b = db.branch("b").unwrap();
        fill(&b, 0, 20_000, &[8; 60]);
        let c = b.branch("c").unwrap();
        fill(&c, 5_000, 6_000, &[9; 60]);
        fill(&db, 0, 10_000, &[6; 60]);
        assert!(used() > before * 2);
        let snapshot = b.read_owned().unwrap();
        db.drop_branch("b").unwrap();
        db.reap_branches().unwrap();
        assert!(matches!(b.read(), Err(Error::NoSuchBranch { .. })));
        assert!(matches!(b.write(), Err(Error::NoSuchBranch { .. })));
        assert!(matches!(b.branch("d"), Err(Error::NoSuchBranch { .. })));
        assert!(matches!(db.open_branch("b"), Err(Error::NoSuchBranch { .. })));
        assert_eq!(snapshot.get(&table, &7_u32.to_be_bytes()).unwrap(), Some(&[8; 60][..]));
        drop(snapshot);
        ensure_clean(&db);
        assert_eq!(get(&c, &table, 5_500).unwrap(), [9; 60]);
        assert_eq!(get(&c, &table, 4_500).unwrap(), [8; 60]);
        // The name is free.
        let again = db.branch("b").unwrap();
        assert_eq!(get(&again, &table, 15_000).unwrap(), [7; 60]);
        for name in ["b", "c"] {
            db.drop_branch(name).unwrap();
        }
        db.reap_branches().unwrap();
        ensure_clean(&db);
        // The forest's own pages and the free map take a few.
        assert!(used() <= before + 12, "{} pages, {before} before", used());
        assert_eq!(db.branches().unwrap().len(), 1);
    }
}

#[test]
fn a_branch_can_be_reset_to_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new()).unwrap();
    let table = fill(&db, 0, 1_000, b"main");
    let b = db.branch("b").unwrap();
    fill(&b, 0, 1_000, b"b");
    fill(&db, 0, 10, b"later");
    db.reset_branch("b").unwrap();
    assert_eq!(get(&b, &table, 5).unwrap(), b"later");
    assert_eq!(get(&b, &table, 50).unwrap(), b"main");
    fill(&b, 0, 10, b"b again");
    assert_eq!(get(&db, &table, 5).unwrap(), b"later");
    db.reap_branches().unwrap();
    ensure_clean(&db);
    // The main branch, too.
    b.reset_branch("main").unwrap();
    assert_eq!(get(&db, &table, 5).unwrap(), b"b again");
    fill(&db, 0, 5, b"and on");
    assert_eq!(get(&b, &table, 3).unwrap(), b"b again");
    db.reset_branch("main").unwrap();
    assert_eq!(get(&db, &table, 3).unwrap(), b"and on");
    db.reap_branches().unwrap();
    ensure_clean(&db);
}

#[test]
fn names_that_cannot_be_are_errors_that_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new()).unwrap();
    assert!(matches!(db.branch(""), Err(Error::BranchName { bytes: 0, .. })));
    assert!(matches!(db.branch(&"n".repeat(256)), Err(Error::BranchName { bytes: 256, .. })));
    assert!(matches!(db.branch("main"), Err(Error::BranchExists { .. })));
    assert!(matches!(db.drop_branch("main"), Err(Error::MainBranch)));
    assert!(matches!(db.drop_branch("b"), Err(Error::NoSuchBranch { .. })));
    assert!(matches!(db.reset_branch("b"), Err(Error::NoSuchBranch { .. })));
    assert_eq!(db.branches().unwrap().len(), 1);
    let long = db.branch(&"n".repeat(255)).unwrap();
    assert!(matches!(long.branch(&"n".repeat(255)), Err(Error::BranchExists { .. })));
    assert_eq!(db.branches().unwrap().len(), 2);
    let read_only = Database::open(dir.path(), &Options::new().read_only(true)).unwrap();
    assert!(matches!(read_only.branch("b"), Err(Error::ReadOnly)));
    assert_eq!(read_only.branches().unwrap().len(), 2);
    ensure_clean(&db);
}

// ---- a forest of models ----

type Model = BTreeMap<u32, Vec<u8>>;
type Forest = BTreeMap<String, Model>;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn contents(snapshot: &Snapshot<'_>) -> Model {
    let Ok(table) = snapshot.table("table") else { return Model::new() };
    let entries = snapshot.view(&table).unwrap().range(..).unwrap().map(|entry| {
        let (key, value) = entry.unwrap();
        (u32::from_be_bytes(key[..4].try_into().unwrap()), value.to_vec())
    });
    entries.collect()
}

fn assert_holds(db: &Database, forest: &Forest) {
    let names: Vec<String> = db.branches().unwrap().into_iter().map(|info| info.name).collect();
    assert_eq!(names.len(), forest.len());
    for name in names {
        assert!(contents(&db.open_branch(&name).unwrap().read().unwrap()) == forest[&name], "branch {name}");
    }
}

/// A few changes to one branch, or many.
fn change(db: &Database, rng: &mut StdRng, model: &mut Model) {
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Plain).unwrap();
    let changes = if rng.random_ratio(1, 8) { 800 } else { 8 };
    for _ in 0..rng.random_range(1..changes) {
        let key: u32 = rng.random_range(0..2_000);
        if rng.random_bool(0.7) {
            let bytes = match rng.random_range(0..40) {
                0 => 9_000,
                1 => 50_000,
                2..6 => rng.random_range(300..3_000),
                _ => rng.random_range(0..60),
            };
            let value = vec![rng.random(); bytes];
            txn.put(&table, &key.to_be_bytes(), &value).unwrap();
            model.insert(key, value);
        } else {
            assert_eq!(txn.delete(&table, &key.to_be_bytes()).unwrap(), model.remove(&key).is_some());
        }
    }
    if rng.random_ratio(1, 20) {
        txn.clear_table(&table).unwrap();
        model.clear();
    }
    txn.commit().unwrap();
}

/// What differs between two branches is what differs between their models.
fn compare(db: &Database, forest: &Forest, one: &str, other: &str) {
    let (a, b) = (db.open_branch(one).unwrap(), db.open_branch(other).unwrap());
    let snapshots = db.read_branches(&[&a, &b]).unwrap();
    let tables = [0, 1].map(|side| snapshots[side].table("table"));
    let [Ok(before), Ok(after)] = &tables else { return };
    let mut found = BTreeMap::new();
    let (before, after) = (snapshots[0].view(before).unwrap(), snapshots[1].view(after).unwrap());
    let visit = &mut |key: &[u8], before: Option<&[u8]>, after: Option<&[u8]>| {
        let key = u32::from_be_bytes(key.try_into().unwrap());
        found.insert(key, (before.map(<[u8]>::to_vec), after.map(<[u8]>::to_vec)));
        ControlFlow::Continue(())
    };
    before.diff(&after, Bound::Unbounded, Bound::Unbounded, visit).unwrap();
    let keys: BTreeSet<_> = forest[one].keys().chain(forest[other].keys()).copied().collect();
    let expected: BTreeMap<_, _> = keys
        .into_iter()
        .map(|key| (key, (forest[one].get(&key).cloned(), forest[other].get(&key).cloned())))
        .filter(|(_, (before, after))| before != after)
        .collect();
    assert!(found == expected, "{one} and {other}");
}

/// A backup with all branches, and what it is of.
#[derive(Default)]
struct Backups {
    parts: Vec<Vec<u8>>,
    last: Option<BackupInfo>,
}

impl Backups {
    fn add(&mut self, db: &Database) {
        let mut bytes = Vec::new();
        self.last = Some(db.backup(self.last.as_ref(), &mut bytes).unwrap());
        self.parts.push(bytes);
    }

    fn assert_restores(&self, forest: &Forest) {
        let dir = tempfile::tempdir().unwrap();
        let inputs = self.parts.iter().map(|part| Box::new(Cursor::new(part.clone())) as Box<dyn Read>);
        restore(&mut inputs.collect::<Vec<_>>(), dir.path()).unwrap();
        let db = Database::open(dir.path(), &Options::new()).unwrap();
        assert_holds(&db, forest);
        ensure_clean(&db);
    }
}

fn assert_copies(db: &Database, forest: &Forest, compact: bool) {
    let dir = tempfile::tempdir().unwrap();
    db.copy_to(dir.path().join("all"), compact).unwrap();
    let copy = Database::open(dir.path().join("all"), &Options::new()).unwrap();
    assert_holds(&copy, forest);
    ensure_clean(&copy);
    // Through the handle of a branch, that alone.
    let name = forest.keys().next_back().unwrap();
    if name != "main" {
        db.open_branch(name).unwrap().copy_to(dir.path().join("one"), compact).unwrap();
        let copy = Database::open(dir.path().join("one"), &Options::new()).unwrap();
        assert_holds(&copy, &Forest::from([("main".to_owned(), forest[name].clone())]));
        ensure_clean(&copy);
    }
}

#[test]
fn a_forest_of_branches_agrees_with_maps() {
    let seeds = match std::env::var("COLIBRI_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..24_u64,
    };
    for seed in seeds {
        println!("COLIBRI_SEED={seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let dir = tempfile::tempdir().unwrap();
        let policies = [FreeSpace::Lifo, FreeSpace::Fifo, FreeSpace::Lowest];
        let options = Options::new().durability(MODES[seed as usize % 4]).free_space(policies[seed as usize % 3]);
        let mut db = Database::open(dir.path(), &options).unwrap();
        let mut forest = Forest::from([("main".to_owned(), Model::new())]);
        let mut snapshots: Vec<(Snapshot<'static>, Model)> = Vec::new();
        let mut backups = Backups::default();
        for _ in 0..rng.random_range(40..160) {
            let names: Vec<String> = forest.keys().cloned().collect();
            let name = names[rng.random_range(0..names.len())].clone();
            let other = names[rng.random_range(0..names.len())].clone();
            match rng.random_range(0..40) {
                0..5 => {
                    let Some(new) = NAMES.iter().find(|new| !forest.contains_key(**new)) else { continue };
                    db.open_branch(&name).unwrap().branch(new).unwrap();
                    forest.insert((*new).to_owned(), forest[&name].clone());
                }
                5..9 if name != "main" => {
                    db.drop_branch(&name).unwrap();
                    forest.remove(&name);
                }
                9..11 => {
                    db.open_branch(&name).unwrap().reset_branch(&other).unwrap();
                    forest.insert(other, forest[&name].clone());
                }
                11 => _ = db.reap_branches().unwrap(),
                12 => db.sync().unwrap(),
                39 => _ = db.compact(|_| std::ops::ControlFlow::Continue(())).unwrap(),
                13 => ensure_clean(&db),
                14 => compare(&db, &forest, &name, &other),
                15 => backups.add(&db),
                16 if snapshots.len() < 4 => {
                    snapshots
                        .push((db.open_branch(&name).unwrap().read_newest_owned().unwrap(), forest[&name].clone()));
                }
                17 => snapshots.drain(..).for_each(|(snapshot, model)| assert!(contents(&snapshot) == model)),
                18 => {
                    snapshots.clear();
                    db.close().unwrap();
                    db = Database::open(dir.path(), &options).unwrap();
                    assert_holds(&db, &forest);
                }
                19 if rng.random_bool(0.3) => assert_copies(&db, &forest, rng.random()),
                20 => {
                    // Another process takes the writing over.
                    let second = Database::open(dir.path(), &options).unwrap();
                    let branch = second.open_branch(&name).unwrap();
                    change(&branch, &mut rng, forest.get_mut(&name).unwrap());
                }
                _ => change(&db.open_branch(&name).unwrap(), &mut rng, forest.get_mut(&name).unwrap()),
            }
        }
        snapshots.drain(..).for_each(|(snapshot, model)| assert!(contents(&snapshot) == model));
        assert_holds(&db, &forest);
        ensure_clean(&db);
        backups.add(&db);
        backups.assert_restores(&forest);
        // What is left when all branches are gone is what the main one has.
        for name in forest.keys().filter(|name| *name != "main") {
            db.drop_branch(name).unwrap();
        }
        db.reap_branches().unwrap();
        ensure_clean(&db);
        let used = |db: &Database| {
            db.sync().unwrap();
            let stat = db.stat().unwrap();
            let tables: u64 = stat.tables.iter().map(|(_, t)| t.leaf_pages + t.branch_pages + t.overflow_pages).sum();
            (stat.pages - stat.free_pages, tables)
        };
        let (pages, tables) = used(&db);
        assert!(pages <= tables + 40 + stat_map_pages(&db), "{pages} pages in use, {tables} of tables");
    }
}

/// What the free map, the meta pages, the catalogue and the forest may take.
fn stat_map_pages(db: &Database) -> u64 {
    2 * (db.stat().unwrap().pages / (8 * 4096) + 2)
}

/// Bug, had the walk of a handover taken what a page shares for what it owns: after a fork was
/// reaped, the next writer would have taken pages for free that the state above the fork still had.
#[test]
fn a_writer_that_takes_over_knows_what_forks_that_are_gone_have_left() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync);
    let db = Database::open(dir.path(), &options).unwrap();
    fill(&db, 0, 5_000, &[1; 60]);
    // Two forks, one above the other, each with something of its own left in the main branch.
    drop(db.branch("a").unwrap());
    fill(&db, 0, 2_000, &[2; 60]);
    drop(db.branch("b").unwrap());
    fill(&db, 1_000, 1_500, &[3; 60]);
    db.sync().unwrap();
    for name in ["a", "b"] {
        db.drop_branch(name).unwrap();
    }
    db.reap_branches().unwrap();
    assert!(db.stat().unwrap().steady_txn < db.newest_txn());
    let heir = Database::open(dir.path(), &options).unwrap();
    for round in 0..20 {
        let table = fill(&heir, 4_000, 4_500, &[round; 60]);
        let values = [500, 1_200, 1_700, 3_000].map(|key| get(&heir, &table, key).unwrap()[0]);
        assert_eq!(values, [2, 3, 2, 1]);
        let db = Database::open(dir.path(), &options).unwrap();
        fill(&db, 4_500, 4_600, &[round; 60]);
    }
    ensure_clean(&heir);
}

const PAGE: usize = 4096;

/// A small file with two forks and three branches, one of them dropped.
fn small_file() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    fill(&db, 0, 300, &[1; 40]);
    let a = db.branch("a").unwrap();
    fill(&a, 0, 50, &[2; 40]);
    let b = a.branch("b").unwrap();
    fill(&b, 100, 150, &[3; 5_000]);
    fill(&db, 200, 250, &[4; 40]);
    drop(db.branch("c").unwrap());
    fill(&db, 0, 10, &[5; 40]);
    drop((a, b));
    db.close().unwrap();
    std::fs::read(dir.path().join("data")).unwrap()
}

/// Whatever the forest's pages say, with checksums that match: it is an answer or an error, and no
/// panic, no endless work, and nothing that `check` overlooks and that harms later.
#[test]
fn a_forest_that_makes_no_sense_is_no_panic() {
    let image = small_file();
    let word = |image: &[u8], at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
    let page_count = image.len() / PAGE;
    let forest = word(&image, 156) as usize;
    let mut rng = StdRng::seed_from_u64(5);
    let (mut refused, mut reported) = (0, 0);
    for round in 0..400 {
        let mut forged = image.clone();
        for _ in 0..rng.random_range(1..3) {
            // The forest's first page and the few behind it, which were written with it.
            let page = match rng.random_range(0..4) {
                0 => forest,
                1 => rng.random_range(2..page_count),
                _ => (forest + rng.random_range(0..8)).saturating_sub(4).clamp(2, page_count - 1),
            };
            let at = page * PAGE + rng.random_range(16..PAGE);
            match rng.random_range(0..3) {
                0 => forged[at] ^= 1 << rng.random_range(0..8),
                1 => forged[at] = rng.random(),
                _ => forged[at & !7..(at & !7) + 8].copy_from_slice(&rng.random_range(0..30_u64).to_le_bytes()),
            }
            let (start, number) = (page * PAGE, word(&forged, page * PAGE + 16));
            let checksum = xxhash_rust::xxh3::xxh3_64_with_seed(&forged[start + 8..start + PAGE], number.into());
            forged[start..start + 8].copy_from_slice(&checksum.to_le_bytes());
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("data"), &forged).unwrap();
        let Ok(db) = Database::open(dir.path(), &Options::new().durability(Durability::NoSync).size_max(1 << 26))
        else {
            refused += 1;
            continue;
        };
        reported += u32::from(db.check().is_ok_and(|report| !report.is_clean()));
        let _ = (db.branches(), db.branch_stats(), db.backup(None, &mut Vec::new()));
        let mut handles = vec![db.clone()];
        handles.extend(["a", "b", "c"].iter().filter_map(|name| db.open_branch(name).ok()));
        for branch in &handles {
            let read = || -> colibri_storage::Result<usize> {
                let snapshot = branch.read()?;
                let table = snapshot.table("table")?;
                snapshot.view(&table)?.range(..)?.take(500).try_fold(0, |sum, entry| Ok(sum + entry?.1.len()))
            };
            let _ = read();
            let write = || -> colibri_storage::Result<()> {
                let mut txn = branch.write()?;
                let table = txn.create_table("table", TableKind::Plain)?;
                for key in 0..20_u32 {
                    txn.put(&table, &key.to_be_bytes(), &[round as u8; 40])?;
                }
                txn.commit().map(drop)
            };
            let _ = write();
        }
        let _ = (db.branch("d"), db.reset_branch("a"), db.drop_branch("b"), db.drop_branch("c"), db.reap_branches());
        let _ = db.copy_to(dir.path().join("copy"), round % 2 == 0);
        drop(handles);
        let _ = (db.check(), db.close());
    }
    println!("{refused} were refused, {reported} reported");
    assert!(reported > 100, "what was changed is mostly not noticed: {reported}");
}

/// Keeps the records of commits.
#[derive(Default)]
struct Proposed(Mutex<Vec<Vec<u8>>>);

impl Proposer for Proposed {
    fn propose(&self, _: TxnId, record: &[u8]) {
        self.0.lock().unwrap().push(record.to_vec());
    }
}

#[test]
fn who_follows_an_agreed_log_has_the_same_branches() {
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let proposed: Arc<Proposed> = Arc::default();
    let open = |dir: &tempfile::TempDir, proposed: &Arc<Proposed>| {
        let proposer: Arc<dyn Proposer> = Arc::<Proposed>::clone(proposed);
        Database::open(dir.path(), &Options::new().durability(Durability::Agreed).proposer(proposer)).unwrap()
    };
    let leader = open(&dirs[0], &proposed);
    let done = AtomicBool::new(false);
    let mut rng = StdRng::seed_from_u64(9);
    let mut forest = Forest::from([("main".to_owned(), Model::new())]);
    std::thread::scope(|scope| {
        // All others agree at once.
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                leader.agree(leader.newest_txn()).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        for round in 0..60 {
            let names: Vec<String> = forest.keys().cloned().collect();
            let name = names[rng.random_range(0..names.len())].clone();
            let branch = leader.open_branch(&name).unwrap();
            match round % 6 {
                0 => {
                    let Some(new) = NAMES.iter().find(|new| !forest.contains_key(**new)) else { continue };
                    branch.branch(new).unwrap();
                    forest.insert((*new).to_owned(), forest[&name].clone());
                }
                1 if round > 20 && name != "main" => {
                    leader.drop_branch(&name).unwrap();
                    forest.remove(&name);
                }
                2 if round > 20 => {
                    branch.reset_branch(&names[0]).unwrap();
                    forest.insert(names[0].clone(), forest[&name].clone());
                }
                _ => change(&branch, &mut rng, forest.get_mut(&name).unwrap()),
            }
        }
        assert_holds(&leader, &forest);
        ensure_clean(&leader);
        done.store(true, Ordering::SeqCst);
    });
    let records = proposed.0.lock().unwrap().clone();
    let parts: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    for (dir, first) in [(&dirs[1], parts.len()), (&dirs[2], parts.len() / 2)] {
        let follower = open(dir, &Arc::default());
        follower.apply(parts[..first].iter().copied()).unwrap();
        follower.apply(parts[first..].iter().copied()).unwrap();
        assert_eq!(follower.chain(), leader.chain());
        assert_holds(&follower, &forest);
        ensure_clean(&follower);
    }
}

//! Any sequence of operations against a `BTreeMap`: all kinds of tables, nested transactions,
//! snapshots that stay what they were, range deletes, reopening, recovery from the log, branches; then
//! `check`. All durability modes and free-space policies.

#![no_main]

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use arbitrary::Arbitrary;
use colibri_storage::{Checksums, Database, Durability, Error, FreeSpace, Options, Snapshot, Table, TableKind, View, WriteTxn};
use libfuzzer_sys::fuzz_target;

/// What a table should hold: pairs in order; the value is part of the key where a key has many.
type Entries = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;
type Model = [Option<Entries>; 3];
/// What each branch should hold, the main one first.
type Models = [Option<Model>; BRANCHES.len()];

const BRANCHES: [&str; 4] = ["main", "a", "b", "c"];

const TABLES: [(&str, TableKind); 3] =
    [("plain", TableKind::Plain), ("multi", TableKind::Multi), ("integer", TableKind::Integer)];
/// More operations than this make inputs slow and no better.
const OPERATIONS_MAX: usize = 300;

#[derive(Arbitrary, Debug)]
struct Input {
    page_size: u8,
    durability: u8,
    free_space: u8,
    checksums: u8,
    operations: Vec<Operation>,
}

/// Few keys, so that operations meet: some long, some with much in common.
#[derive(Arbitrary, Debug, Clone, Copy)]
struct Keys {
    form: u8,
    number: u8,
}

#[derive(Arbitrary, Debug, Clone, Copy)]
struct Values {
    len: u16,
    byte: u8,
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Edge {
    Included(Keys),
    Excluded(Keys),
    Unbounded,
}

#[derive(Arbitrary, Debug)]
enum Operation {
    Put { table: u8, key: Keys, value: Values },
    PutMany { table: u8, key: Keys, count: u8, value: Values },
    Insert { table: u8, key: Keys, value: Values },
    Append { table: u8, key: Keys, value: Values },
    Delete { table: u8, key: Keys },
    DeleteValue { table: u8, key: Keys, value: Values },
    DeleteRange { table: u8, low: Edge, high: Edge },
    Load { table: u8, count: u16, value: Values },
    Clear { table: u8 },
    Drop { table: u8 },
    Begin,
    End { keep: bool },
    Commit,
    Abort,
    Sync,
    Reopen,
    Crash,
    Check,
    Pin,
    Unpin,
    /// Makes a branch of the one that is changed.
    Branch { to: u8 },
    /// Goes on with another branch.
    Switch { to: u8 },
    DropBranch { which: u8 },
    /// Gives a branch the state of the one that is changed.
    ResetBranch { which: u8 },
    Reap,
    Read { table: u8, key: Keys, low: Edge, high: Edge },
}

fn key_of(kind: TableKind, key: Keys) -> Vec<u8> {
    let n = key.number;
    if kind == TableKind::Integer {
        return u64::from_be_bytes([0, 0, key.form % 3, 0, 0, 0, n % 2, n]).to_be_bytes().to_vec();
    }
    match key.form % 6 {
        0 => vec![n],
        1 => vec![n; 1 + usize::from(n)],
        2 => format!("a prefix that many keys have in common/{n:03}").into_bytes(),
        3 => [&[b'p'; 700][..], &[n]].concat(),
        4 => vec![0, n, 0],
        _ => [&u32::from(n).to_be_bytes()[..], b"\0"].concat(),
    }
}

fn value_of(kind: TableKind, page_size: usize, value: Values) -> Vec<u8> {
    let max = match (kind, value.byte % 8) {
        (TableKind::Multi, _) => 30,
        (_, 0) => 4 * page_size,
        (_, 1) => page_size / 2,
        _ => 100,
    };
    vec![value.byte; usize::from(value.len) % max]
}

fn edge(kind: TableKind, edge: Edge) -> Bound<Vec<u8>> {
    match edge {
        Edge::Included(key) => Bound::Included(key_of(kind, key)),
        Edge::Excluded(key) => Bound::Excluded(key_of(kind, key)),
        Edge::Unbounded => Bound::Unbounded,
    }
}

type Edges = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The edges, the lower first.
fn edges(kind: TableKind, low: Edge, high: Edge) -> Edges {
    let (low, high) = (edge(kind, low), edge(kind, high));
    let key = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
        Bound::Unbounded => None,
    };
    match (key(&low), key(&high)) {
        (Some(a), Some(b)) if a > b => (high, low),
        _ => (low, high),
    }
}

fn slices(edges: &Edges) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (edges.0.as_ref().map(Vec::as_slice), edges.1.as_ref().map(Vec::as_slice))
}

/// Where a pair stands in the model.
fn place(kind: TableKind, key: &[u8], value: &[u8]) -> ((Vec<u8>, Vec<u8>), Vec<u8>) {
    match kind {
        TableKind::Multi => ((key.to_vec(), value.to_vec()), Vec::new()),
        _ => ((key.to_vec(), Vec::new()), value.to_vec()),
    }
}

fn compare(view: &View<'_>, kind: TableKind, entries: &Entries) {
    let multi = kind == TableKind::Multi;
    assert_eq!(view.len(), entries.len() as u64);
    let mut range = view.range(..).expect("a range");
    for (pair, stored) in entries {
        let (key, value) = range.next().expect("an entry").expect("it can be read");
        assert_eq!((key.as_slice(), &*value), (pair.0.as_slice(), if multi { &pair.1[..] } else { &stored[..] }));
    }
    assert!(range.next().is_none());
    let mut cursor = view.cursor();
    let mut valid = cursor.last().expect("the last entry");
    for pair in entries.keys().rev() {
        assert!(valid);
        assert_eq!(cursor.key(), pair.0);
        valid = cursor.prev().expect("the entry before");
    }
    assert!(!valid);
}

fn compare_at(view: &View<'_>, kind: TableKind, entries: &Entries, key: &[u8], edges: &Edges) {
    let multi = kind == TableKind::Multi;
    let rank = entries.keys().filter(|pair| pair.0.as_slice() < key).count();
    assert_eq!(view.rank(key).expect("a rank"), rank as u64);
    let nth = view.nth(rank as u64).expect("an entry").map(|(key, _)| key.to_vec());
    assert_eq!(nth.as_ref(), entries.keys().nth(rank).map(|pair| &pair.0));
    let values: Vec<_> = entries.range((key.to_vec(), Vec::new())..).take_while(|(pair, _)| pair.0 == key).collect();
    assert_eq!(view.contains(key).expect("an answer"), !values.is_empty());
    if multi {
        let found: Vec<_> = view.values(key).expect("values").map(|entry| entry.expect("one").1.to_vec()).collect();
        assert!(found.iter().eq(values.iter().map(|(pair, _)| &pair.1)));
    } else {
        assert_eq!(view.get(key).expect("an answer"), values.first().map(|(_, stored)| stored.as_slice()));
    }
    let expected: Vec<_> = entries.keys().filter(|pair| slices(edges).contains(&pair.0.as_slice())).collect();
    assert_eq!(view.count(slices(edges)).expect("a count"), expected.len() as u64);
    let mut range = view.range(slices(edges)).expect("a range");
    let (mut low, mut high) = (0, expected.len());
    while low < high {
        // From both ends in turn.
        let forward = (low + high) % 2 == 0;
        let entry = if forward { range.next() } else { range.next_back() };
        let (key, value) = entry.expect("an entry").expect("it can be read");
        let pair = expected[if forward { low } else { high - 1 }];
        assert_eq!(key.as_slice(), pair.0);
        assert!(!multi || *value == *pair.1);
        if forward { low += 1 } else { high -= 1 }
    }
    assert!(range.next().is_none() && range.next_back().is_none());
    let mut cursor = view.cursor();
    assert_eq!(cursor.seek(key).expect("a move"), rank < entries.len());
    assert_eq!(cursor.seek_before(key).expect("a move"), rank > 0);
    assert_eq!(cursor.seek_exact(key).expect("a move"), !values.is_empty());
    if !values.is_empty() {
        assert!(cursor.last_value().expect("a move"));
        let after = entries.keys().find(|pair| pair.0.as_slice() > key);
        assert_eq!(cursor.next_key().expect("a move"), after.is_some());
        assert_eq!(cursor.key(), after.map_or(&[][..], |pair| &pair.0));
    }
}

fn compare_all(snapshot: &Snapshot<'_>, model: &Model) {
    for (index, (name, kind)) in TABLES.into_iter().enumerate() {
        match (snapshot.table(name), &model[index]) {
            (Ok(table), Some(entries)) => compare(&snapshot.view(&table).expect("a view"), kind, entries),
            (Err(Error::NoSuchTable { .. }), None) => {}
            (found, _) => panic!("table {name}: {found:?}"),
        }
    }
}

/// The table that an operation is about, made if it is not there.
fn table_of(txn: &mut WriteTxn, model: &mut Model, table: u8) -> (Table, TableKind, usize) {
    let index = usize::from(table) % TABLES.len();
    let (name, kind) = TABLES[index];
    model[index].get_or_insert_default();
    (txn.create_table(name, kind).expect("a table"), kind, index)
}

fn change(txn: &mut WriteTxn, model: &mut Model, page_size: usize, operation: &Operation) {
    match *operation {
        Operation::Put { table, key, value } => {
            let (table, kind, index) = table_of(txn, model, table);
            let (key, value) = (key_of(kind, key), value_of(kind, page_size, value));
            txn.put(&table, &key, &value).expect("a put");
            let (pair, stored) = place(kind, &key, &value);
            model[index].as_mut().expect("made").insert(pair, stored);
        }
        Operation::PutMany { table, key, count, value } => {
            let (table, kind, index) = table_of(txn, model, table);
            for n in 0..count % 64 {
                let key = key_of(kind, Keys { number: key.number.wrapping_add(n), ..key });
                let value = value_of(kind, page_size, value);
                txn.put(&table, &key, &value).expect("a put");
                let (pair, stored) = place(kind, &key, &value);
                model[index].as_mut().expect("made").insert(pair, stored);
            }
        }
        Operation::Insert { table, key, value } => {
            let (table, kind, index) = table_of(txn, model, table);
            let (key, value) = (key_of(kind, key), value_of(kind, page_size, value));
            let (pair, stored) = place(kind, &key, &value);
            let entries = model[index].as_mut().expect("made");
            assert_eq!(txn.insert(&table, &key, &value).expect("an insert"), !entries.contains_key(&pair));
            entries.entry(pair).or_insert(stored);
        }
        Operation::Append { table, key, value } => {
            let (table, kind, index) = table_of(txn, model, table);
            let (key, value) = (key_of(kind, key), value_of(kind, page_size, value));
            let (pair, stored) = place(kind, &key, &value);
            let entries = model[index].as_mut().expect("made");
            let in_order = entries.last_key_value().is_none_or(|(last, _)| *last < pair);
            match txn.append(&table, &key, &value) {
                Ok(()) if in_order => _ = entries.insert(pair, stored),
                Err(Error::KeyNotInOrder) if !in_order => {}
                result => panic!("appending: {result:?}"),
            }
        }
        Operation::Delete { table, key } => {
            let (table, kind, index) = table_of(txn, model, table);
            let key = key_of(kind, key);
            let entries = model[index].as_mut().expect("made");
            let before = entries.len();
            entries.retain(|pair, _| pair.0 != key);
            assert_eq!(txn.delete(&table, &key).expect("a delete"), entries.len() < before);
        }
        Operation::DeleteValue { table, key, value } => {
            let (table, kind, index) = table_of(txn, model, table);
            let (key, value) = (key_of(kind, key), value_of(kind, page_size, value));
            let entries = model[index].as_mut().expect("made");
            match txn.delete_value(&table, &key, &value) {
                Ok(found) => assert_eq!(found, entries.remove(&(key, value)).is_some()),
                Err(Error::WrongTableKind { .. }) if kind != TableKind::Multi => {}
                Err(e) => panic!("{e}"),
            }
        }
        Operation::DeleteRange { table, low, high } => {
            let (table, kind, index) = table_of(txn, model, table);
            let edges = edges(kind, low, high);
            let entries = model[index].as_mut().expect("made");
            let before = entries.len();
            entries.retain(|pair, _| !slices(&edges).contains(&pair.0.as_slice()));
            let deleted = txn.delete_range(&table, slices(&edges)).expect("a range delete");
            assert_eq!(deleted, (before - entries.len()) as u64);
        }
        Operation::Load { table, count, value } => {
            let (table, kind, index) = table_of(txn, model, table);
            let value = value_of(kind, page_size, value);
            let count = u64::from(count % 700);
            // Behind all other keys, most of the time.
            let load = (0..count).map(|n| ((n | 0xff << 56).to_be_bytes(), value.as_slice()));
            let entries = model[index].as_mut().expect("made");
            let last = entries.last_key_value().map(|(pair, _)| pair.clone());
            let result = txn.load_sorted(&table, load.clone());
            for (key, value) in load {
                let (pair, stored) = place(kind, &key, value);
                if last.as_ref().is_some_and(|last| *last >= pair) {
                    assert!(matches!(result, Err(Error::KeyNotInOrder)));
                    return;
                }
                entries.insert(pair, stored);
            }
            assert_eq!(result.expect("a load"), count);
        }
        Operation::Clear { table } => {
            let (table, _, index) = table_of(txn, model, table);
            txn.clear_table(&table).expect("a table cleared");
            model[index] = Some(Entries::new());
        }
        Operation::Drop { table } => {
            let (table, _, index) = table_of(txn, model, table);
            txn.drop_table(&table).expect("a table dropped");
            model[index] = None;
        }
        Operation::Read { table, key, low, high } => {
            let (table, kind, index) = table_of(txn, model, table);
            let view = txn.view(&table).expect("a view");
            let edges = edges(kind, low, high);
            compare_at(&view, kind, model[index].as_ref().expect("made"), &key_of(kind, key), &edges);
        }
        _ => {}
    }
}

/// Runs operations up to the end of the transaction, or of the nested one, that `txn` is; gives
/// whether to keep it, and what ended it.
fn transaction<'o>(
    txn: &mut WriteTxn,
    model: &mut Model,
    page_size: usize,
    nested: bool,
    operations: &mut std::slice::Iter<'o, Operation>,
) -> (bool, Option<&'o Operation>) {
    while let Some(operation) = operations.next() {
        match operation {
            Operation::Begin => {
                let before = model.clone();
                let mut inner = txn.nested();
                let (keep, end) = transaction(&mut inner, model, page_size, true, operations);
                if keep {
                    inner.commit();
                } else {
                    drop(inner);
                    *model = before;
                }
                if !matches!(end, Some(Operation::End { .. })) {
                    return (keep, end);
                }
            }
            Operation::End { keep } if nested => return (*keep, Some(operation)),
            Operation::Commit
            | Operation::Sync
            | Operation::Reopen
            | Operation::Crash
            | Operation::Check
            | Operation::Pin
            | Operation::Unpin
            | Operation::Branch { .. }
            | Operation::Switch { .. }
            | Operation::DropBranch { .. }
            | Operation::ResetBranch { .. }
            | Operation::Reap => return (true, Some(operation)),
            Operation::Abort => return (false, Some(operation)),
            operation => change(txn, model, page_size, operation),
        }
    }
    (true, None)
}

fn check(db: &Database, models: &Models) {
    let report = db.check().expect("a check");
    assert!(report.is_clean(), "{:#?}", report.problems);
    let entries: usize = models[0].iter().flatten().flatten().map(BTreeMap::len).sum();
    assert_eq!(report.entries, entries as u64);
    assert_eq!(report.branches, models.iter().flatten().count() as u64);
}

fn compare_branches(db: &Database, models: &Models) {
    let names: Vec<_> = db.branches().expect("a list").into_iter().map(|info| info.name).collect();
    let expected = models.iter().zip(BRANCHES).filter_map(|(model, name)| model.as_ref().map(|_| name));
    assert!(names.iter().map(String::as_str).eq(expected));
    for (model, name) in models.iter().zip(BRANCHES) {
        if let Some(model) = model {
            let branch = db.open_branch(name).expect("a branch");
            compare_all(&branch.read().expect("a snapshot"), model);
        }
    }
}

const FILES: [&str; 3] = ["data", "log.0", "log.1"];

/// What a database is on disk while it is open, as a crash of the system leaves it that loses
/// nothing: the pages written since the last steady point may be there or not, so here they are;
/// what counts is the log.
fn copy_files(from: &Path, to: &Path) {
    let _ = std::fs::remove_file(to.join("lock"));
    for file in FILES {
        if std::fs::copy(from.join(file), to.join(file)).is_err() {
            let _ = std::fs::remove_file(to.join(file));
        }
    }
}

fn run(input: &Input) {
    static DIRS: OnceLock<[tempfile::TempDir; 2]> = OnceLock::new();
    let dirs = DIRS.get_or_init(|| [0, 1].map(|_| tempfile::tempdir().expect("a directory")));
    let mut dir = dirs[0].path();
    for file in FILES.iter().chain(&["lock"]) {
        let _ = std::fs::remove_file(dir.join(file));
    }
    let page_size = 4096_usize << (input.page_size % 3);
    let modes = [Durability::NoSync, Durability::Sync, Durability::LAZY, Durability::SyncNoLog];
    let durability = modes[usize::from(input.durability % 4)];
    let policies = [FreeSpace::Lifo, FreeSpace::Fifo, FreeSpace::Lowest, FreeSpace::Append];
    let options = Options::new()
        .page_size(page_size as u32)
        .durability(durability)
        .free_space(policies[usize::from(input.free_space % 4)])
        .checksums([Checksums::FirstTouch, Checksums::Always, Checksums::Never][usize::from(input.checksums % 3)])
        // No steady points by themselves: a copy of the files is then one of a moment.
        .log_bytes(1 << 40)
        .log_period(Duration::MAX)
        .size_max(1 << 30)
        .readers_max(16);
    let mut db = Database::open(dir, &options).expect("a new database");
    let mut models: Models = [Some(Model::default()), None, None, None];
    let mut at = 0;
    let mut pinned: Vec<(Snapshot<'static>, Model)> = Vec::new();
    let mut operations = input.operations[..input.operations.len().min(OPERATIONS_MAX)].iter();
    loop {
        let branch = db.open_branch(BRANCHES[at]).expect("the branch that is changed");
        let mut model = models[at].clone().expect("it is there");
        let mut txn = branch.write().expect("a transaction");
        let (keep, end) = transaction(&mut txn, &mut model, page_size, false, &mut operations);
        if keep {
            txn.commit().expect("a commit");
            models[at] = Some(model.clone());
        } else {
            drop(txn);
            model = models[at].clone().expect("it is there");
        }
        match end {
            None => break,
            Some(Operation::Sync) => db.sync().expect("a steady point"),
            Some(Operation::Check) => check(&db, &models),
            Some(Operation::Pin) if pinned.len() < 4 => {
                pinned.push((branch.read_owned().expect("a snapshot"), model.clone()));
            }
            Some(Operation::Unpin) if !pinned.is_empty() => {
                let (snapshot, model) = pinned.remove(0);
                compare_all(&snapshot, &model);
            }
            Some(Operation::Branch { to }) => {
                let to = usize::from(to % 4);
                match branch.branch(BRANCHES[to]) {
                    Ok(_) => assert!(models[to].replace(model.clone()).is_none()),
                    Err(Error::BranchExists { .. }) => assert!(models[to].is_some()),
                    Err(e) => panic!("{e}"),
                }
            }
            Some(Operation::Switch { to }) if models[usize::from(to % 4)].is_some() => at = usize::from(to % 4),
            Some(Operation::DropBranch { which }) => {
                let which = usize::from(which % 4);
                match db.drop_branch(BRANCHES[which]) {
                    Ok(()) => assert!(models[which].take().is_some()),
                    Err(Error::MainBranch) => assert_eq!(which, 0),
                    Err(Error::NoSuchBranch { .. }) => assert!(models[which].is_none()),
                    Err(e) => panic!("{e}"),
                }
                if models[at].is_none() {
                    at = 0;
                }
            }
            Some(Operation::ResetBranch { which }) => {
                let which = usize::from(which % 4);
                match branch.reset_branch(BRANCHES[which]) {
                    Ok(()) => assert!(models[which].replace(model.clone()).is_some()),
                    Err(Error::NoSuchBranch { .. }) => assert!(models[which].is_none()),
                    Err(e) => panic!("{e}"),
                }
            }
            Some(Operation::Reap) => _ = db.reap_branches().expect("dropped branches reaped"),
            Some(Operation::Crash) if matches!(durability, Durability::Sync | Durability::SyncNoLog) => {
                for (snapshot, model) in pinned.drain(..) {
                    compare_all(&snapshot, &model);
                }
                let other = if dir == dirs[0].path() { dirs[1].path() } else { dirs[0].path() };
                // Nothing is written beside the copy: nobody has anything to reap.
                db.reap_branches().expect("dropped branches reaped");
                copy_files(dir, other);
                drop(branch);
                drop(db);
                dir = other;
                db = Database::open(dir, &options).expect("the database after a crash");
                compare_branches(&db, &models);
            }
            Some(Operation::Reopen) => {
                for (snapshot, model) in pinned.drain(..) {
                    compare_all(&snapshot, &model);
                }
                drop(branch);
                db.close().expect("a database closed");
                db = Database::open(dir, &options).expect("the database again");
            }
            _ => {}
        }
    }
    for (snapshot, model) in pinned {
        compare_all(&snapshot, &model);
    }
    compare_branches(&db, &models);
    check(&db, &models);
    db.close().expect("a database closed");
    let db = Database::open(dir, &options).expect("the database again");
    compare_branches(&db, &models);
}

fuzz_target!(|input: Input| run(&input));

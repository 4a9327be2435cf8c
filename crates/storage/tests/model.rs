//! Random histories against a `BTreeMap`: every kind of table, several page sizes, every order of
//! taking free pages, nested transactions, aborts, reopenings, snapshots that stay what they were;
//! `check` after each round. A failure prints its seed; set `COLIBRI_SEED` to run just that one.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use colibri_storage::{Database, Durability, Error, FreeSpace, Options, Snapshot, Table, TableKind, View, WriteTxn};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// What a table should hold: pairs in order, whatever the kind.
type Entries = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;
type Model = BTreeMap<&'static str, Entries>;

const TABLES: [(&str, TableKind); 3] =
    [("plain", TableKind::Plain), ("multi", TableKind::Multi), ("integer", TableKind::Integer)];

struct History {
    rng: StdRng,
    page_size: u32,
    key_space: u32,
}

impl History {
    fn key(&mut self, kind: TableKind) -> Vec<u8> {
        let n = self.rng.random_range(0..self.key_space);
        if kind == TableKind::Integer {
            return u64::from(n)
                .wrapping_mul(if n.is_multiple_of(3) { 1 } else { 0x9e37_79b9_7f4a_7c15 })
                .to_be_bytes()
                .to_vec();
        }
        let mut key = format!("{}", n % 7).into_bytes();
        match n % 5 {
            0 => key.extend(n.to_be_bytes()),
            1 => key.extend(format!("a rather long common prefix for many keys/{n:08}").bytes()),
            2 => key.extend(std::iter::repeat_n(b'x', (n % 300) as usize)),
            3 => key.extend([0, 0, (n % 256) as u8, 0]),
            _ => key.extend(n.to_le_bytes()),
        }
        key
    }

    fn value(&mut self, kind: TableKind) -> Vec<u8> {
        let len = match (kind, self.rng.random_range(0..20)) {
            (TableKind::Multi, _) => self.rng.random_range(0..20),
            (_, 0) => self.rng.random_range(0..5 * self.page_size as usize),
            (_, 1..4) => self.rng.random_range(0..1000),
            // Leaves of several pages.
            (_, 4) => self.rng.random_range(300..2 * self.page_size as usize),
            _ => self.rng.random_range(0..50),
        };
        let fill = self.rng.random::<u8>();
        let mut value = vec![fill; len];
        if kind == TableKind::Multi && self.rng.random_bool(0.5) {
            value = self.rng.random_range(0..500_u32).to_be_bytes().to_vec();
        }
        value
    }

    fn bounds(&mut self, kind: TableKind) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let mut pair = [self.key(kind), self.key(kind)];
        pair.sort();
        let [low, high] = pair;
        let low = match self.rng.random_range(0..3) {
            0 => Bound::Included(low),
            1 => Bound::Excluded(low),
            _ => Bound::Unbounded,
        };
        let high = match self.rng.random_range(0..3) {
            0 => Bound::Included(high),
            1 => Bound::Excluded(high),
            _ => Bound::Unbounded,
        };
        (low, high)
    }
}

fn within(key: &[u8], bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> bool {
    use std::ops::RangeBounds;
    (as_slice(&bounds.0), as_slice(&bounds.1)).contains(&key)
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Where a pair stands in the model: the value is part of the key where a key has many.
fn place(kind: TableKind, key: &[u8], value: &[u8]) -> ((Vec<u8>, Vec<u8>), Vec<u8>) {
    match kind {
        TableKind::Multi => ((key.to_vec(), value.to_vec()), Vec::new()),
        _ => ((key.to_vec(), Vec::new()), value.to_vec()),
    }
}

fn change(history: &mut History, txn: &mut WriteTxn, model: &mut Model) {
    let (name, kind) = *TABLES.choose(&mut history.rng).unwrap();
    let table = txn.table(name).unwrap();
    let entries = model.get_mut(name).unwrap();
    let key = history.key(kind);
    let value = history.value(kind);
    let (pair, stored) = place(kind, &key, &value);
    match history.rng.random_range(0..1000) {
        0..450 => {
            txn.put(&table, &key, &value).unwrap();
            entries.insert(pair, stored);
        }
        450..550 => {
            let inserted = txn.insert(&table, &key, &value).unwrap();
            assert_eq!(inserted, !entries.contains_key(&pair));
            entries.entry(pair).or_insert(stored);
        }
        550..600 => {
            let last = entries.last_key_value().map(|(pair, _)| pair.clone());
            let result = txn.append(&table, &key, &value);
            if last.is_none_or(|last| last < pair) {
                result.unwrap();
                entries.insert(pair, stored);
            } else {
                assert!(matches!(result, Err(Error::KeyNotInOrder)));
            }
        }
        600..615 => {
            let share = history.rng.random::<f64>().powi(2);
            let mut keys: Vec<Vec<u8>> = (0..history.rng.random_range(0..30)).map(|_| history.key(kind)).collect();
            keys.extend(entries.keys().filter(|_| history.rng.random_bool(share)).map(|pair| pair.0.clone()));
            keys.sort();
            keys.dedup();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            if let [first, .., last] = keys[..] {
                assert!(matches!(txn.delete_sorted(&table, &[last, first]), Err(Error::KeyNotInOrder)));
            }
            let all: BTreeSet<&[u8]> = entries.keys().map(|pair| pair.0.as_slice()).collect();
            let there = keys.iter().filter(|key| all.contains(**key)).count();
            assert_eq!(txn.delete_sorted(&table, &keys).unwrap(), there as u64);
            entries.retain(|pair, _| keys.binary_search(&pair.0.as_slice()).is_err());
        }
        615..900 => {
            let key = if history.rng.random_bool(0.7) && !entries.is_empty() {
                let at = history.rng.random_range(0..entries.len());
                entries.keys().nth(at).unwrap().0.clone()
            } else {
                key
            };
            let before = entries.len();
            if kind == TableKind::Multi && history.rng.random_bool(0.8) {
                let value = entries.keys().find(|pair| pair.0 == key).map_or(value, |pair| pair.1.clone());
                let there = entries.remove(&(key.clone(), value.clone())).is_some();
                assert_eq!(txn.delete_value(&table, &key, &value).unwrap(), there);
            } else {
                entries.retain(|pair, _| pair.0 != key);
                assert_eq!(txn.delete(&table, &key).unwrap(), entries.len() < before);
            }
        }
        900..915 => {
            let bounds = history.bounds(kind);
            let before = entries.len();
            entries.retain(|pair, _| !within(&pair.0, &bounds));
            let deleted = txn.delete_range(&table, (as_slice(&bounds.0), as_slice(&bounds.1))).unwrap();
            assert_eq!(deleted, (before - entries.len()) as u64);
        }
        915..920 => {
            txn.clear_table(&table).unwrap();
            entries.clear();
            let count = history.rng.random_range(0..2000_u64);
            let load = (0..count).map(|n| (n.to_be_bytes(), n.to_le_bytes()));
            assert_eq!(txn.load_sorted(&table, load).unwrap(), count);
            for n in 0..count {
                let (pair, stored) = place(kind, &n.to_be_bytes(), &n.to_le_bytes());
                entries.insert(pair, stored);
            }
        }
        920..922 => {
            txn.drop_table(&table).unwrap();
            assert!(matches!(txn.table(name), Err(Error::NoSuchTable { .. })));
            txn.create_table(name, kind).unwrap();
            entries.clear();
        }
        _ => {
            let saved = model.clone();
            let mut nested = txn.nested();
            for _ in 0..history.rng.random_range(0..20) {
                change(history, &mut nested, model);
            }
            if history.rng.random_bool(0.5) {
                nested.commit();
            } else {
                drop(nested);
                *model = saved;
            }
        }
    }
}

fn compare(history: &mut History, view: &View<'_>, kind: TableKind, entries: &Entries) {
    assert_eq!(view.len(), entries.len() as u64);
    let all: Vec<_> = view.range(..).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(all.len(), entries.len());
    for ((key, value), (pair, stored)) in all.iter().zip(entries) {
        let expected = if kind == TableKind::Multi { &pair.1 } else { stored };
        assert_eq!((key.as_slice(), &**value), (pair.0.as_slice(), expected.as_slice()));
    }
    let mut backward: Vec<_> = view.range(..).unwrap().rev().map(|entry| entry.unwrap().0).collect();
    backward.reverse();
    assert!(backward.iter().eq(all.iter().map(|(key, _)| key)));
    for _ in 0..20 {
        let bounds = history.bounds(kind);
        let expected: Vec<_> = entries.iter().filter(|(pair, _)| within(&pair.0, &bounds)).collect();
        let slices = (as_slice(&bounds.0), as_slice(&bounds.1));
        assert_eq!(view.count(slices).unwrap(), expected.len() as u64, "{bounds:?}");
        let mut range = view.range(slices).unwrap();
        let (mut low, mut high) = (0, expected.len());
        while low < high {
            let forward = history.rng.random_bool(0.5);
            let (key, _) = if forward { range.next() } else { range.next_back() }.unwrap().unwrap();
            let index = if forward { low } else { high - 1 };
            assert_eq!(key.as_slice(), expected[index].0.0.as_slice());
            if forward { low += 1 } else { high -= 1 }
        }
        assert!(range.next().is_none() && range.next_back().is_none());
        let key = history.key(kind);
        let rank = entries.keys().filter(|pair| pair.0 < key).count() as u64;
        assert_eq!(view.rank(&key).unwrap(), rank);
        let nth = view.nth(rank).unwrap();
        let expected = entries.iter().nth(rank as usize);
        assert_eq!(nth.map(|(key, _)| key.to_vec()), expected.map(|(pair, _)| pair.0.clone()));
        compare_at(view, kind, entries, &key);
    }
}

/// Point reads and cursor moves around one key.
fn compare_at(view: &View<'_>, kind: TableKind, entries: &Entries, key: &[u8]) {
    let values: Vec<&Vec<u8>> = entries.keys().filter(|pair| pair.0 == key).map(|pair| &pair.1).collect();
    assert_eq!(view.contains(key).unwrap(), !values.is_empty());
    let mut cursor = view.cursor();
    let next = entries.range((key.to_vec(), Vec::new())..).next();
    assert_eq!(cursor.seek(key).unwrap(), next.is_some());
    assert_eq!(cursor.key(), next.map_or(&[][..], |(pair, _)| &pair.0));
    let before = entries.range(..(key.to_vec(), Vec::new())).next_back();
    assert_eq!(cursor.seek_before(key).unwrap(), before.is_some());
    assert_eq!(cursor.key(), before.map_or(&[][..], |(pair, _)| &pair.0));
    assert_eq!(cursor.seek_exact(key).unwrap(), !values.is_empty());
    if kind != TableKind::Multi {
        let expected = entries.get(&(key.to_vec(), Vec::new()));
        assert_eq!(view.get(key).unwrap(), expected.map(Vec::as_slice));
        return;
    }
    let found: Vec<_> = view.values(key).unwrap().map(|entry| entry.unwrap().1.to_vec()).collect();
    assert!(found.iter().eq(values.iter().copied()));
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return };
    assert_eq!(cursor.value().unwrap(), first.as_slice());
    assert!(cursor.last_value().unwrap());
    assert_eq!(cursor.value().unwrap(), last.as_slice());
    assert!(cursor.first_value().unwrap());
    let mut moved = 1;
    while cursor.next_value().unwrap() {
        assert_eq!(cursor.value().unwrap(), values[moved].as_slice());
        moved += 1;
    }
    assert_eq!(moved, values.len());
    let middle = values[values.len() / 2];
    assert!(view.contains_value(key, middle).unwrap());
    assert!(cursor.seek_value(key, middle).unwrap());
    assert_eq!(cursor.value().unwrap(), middle.as_slice());
    let after = entries.keys().find(|pair| pair.0.as_slice() > key);
    assert_eq!(cursor.next_key().unwrap(), after.is_some());
    assert_eq!(cursor.key(), after.map_or(&[][..], |pair| &pair.0));
    assert!(cursor.seek_exact(key).unwrap());
    let before = entries.keys().rfind(|pair| pair.0.as_slice() < key);
    assert_eq!(cursor.prev_key().unwrap(), before.is_some());
    assert_eq!(cursor.key(), before.map_or(&[][..], |pair| &pair.0));
}

fn compare_all(history: &mut History, snapshot: &Snapshot<'_>, model: &Model) {
    for (name, kind) in TABLES {
        let table: Table = snapshot.table(name).unwrap();
        compare(history, &snapshot.view(&table).unwrap(), kind, &model[name]);
    }
}

fn run(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let page_size = 4096 << rng.random_range(0..5);
    let durability = *[
        Durability::Sync,
        Durability::SyncNoLog,
        Durability::NoSync,
        Durability::LAZY,
        Durability::Lazy { bytes: 20_000, period: std::time::Duration::from_millis(2) },
    ]
    .choose(&mut rng)
    .unwrap();
    let free_space =
        *[FreeSpace::Lifo, FreeSpace::Fifo, FreeSpace::Lowest, FreeSpace::Append].choose(&mut rng).unwrap();
    let key_space = *[10, 300, 5_000].choose(&mut rng).unwrap();
    println!(
        "COLIBRI_SEED={seed} page_size={page_size} durability={durability:?} {free_space:?} key_space={key_space}"
    );
    let mut history = History { rng, page_size, key_space };
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().page_size(page_size).durability(durability).free_space(free_space);
    let mut db = Database::open(dir.path(), &options).unwrap();
    let mut model: Model = TABLES.iter().map(|(name, _)| (*name, Entries::new())).collect();
    let mut txn = db.write().unwrap();
    for (name, kind) in TABLES {
        txn.create_table(name, kind).unwrap();
    }
    txn.commit().unwrap();
    for _ in 0..4 {
        let mut kept: Vec<(Snapshot<'_>, Model)> = Vec::new();
        for _ in 0..history.rng.random_range(1..40) {
            let before = model.clone();
            let mut txn = db.write().unwrap();
            for _ in 0..history.rng.random_range(0..120) {
                change(&mut history, &mut txn, &mut model);
            }
            if history.rng.random_bool(0.2) {
                for (name, kind) in TABLES {
                    let table = txn.table(name).unwrap();
                    compare(&mut history, &txn.view(&table).unwrap(), kind, &model[name]);
                }
            }
            if history.rng.random_bool(0.85) {
                txn.commit().unwrap();
            } else {
                drop(txn);
                model = before;
            }
            if history.rng.random_bool(0.2) {
                kept.push((db.read().unwrap(), model.clone()));
            }
            if history.rng.random_bool(0.3) && !kept.is_empty() {
                let gone = history.rng.random_range(0..kept.len());
                let (snapshot, model) = kept.remove(gone);
                compare_all(&mut history, &snapshot, &model);
            }
            if history.rng.random_bool(0.05) {
                db.sync().unwrap();
            }
            if history.rng.random_bool(0.03) {
                db.compact(|_| std::ops::ControlFlow::Continue(())).unwrap();
            }
        }
        for (snapshot, model) in &kept {
            compare_all(&mut history, snapshot, model);
        }
        drop(kept);
        compare_all(&mut history, &db.read().unwrap(), &model);
        let report = db.check().unwrap();
        assert!(report.is_clean(), "{report:#?}");
        let entries: usize = model.values().map(BTreeMap::len).sum();
        assert_eq!(report.entries, entries as u64);
        db.close().unwrap();
        db = Database::open(dir.path(), &options).unwrap();
        compare_all(&mut history, &db.read().unwrap(), &model);
    }
}

#[test]
fn random_histories_match_the_model() {
    if let Some(seed) = std::env::var("COLIBRI_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return run(seed);
    }
    std::thread::scope(|scope| {
        for half in 0..2 {
            scope.spawn(move || (0..20).for_each(|seed| run(2 * seed + half)));
        }
    });
}

#[test]
#[ignore = "a long campaign: cargo test --release -p colibri-storage --test model -- --ignored"]
fn many_random_histories_match_the_model() {
    let start: u64 = rand::rng().random();
    for seed in 0..2_000 {
        run(start.wrapping_add(seed));
    }
}

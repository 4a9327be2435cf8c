//! One transaction against a simple model: own writes over stored ones, both directions,
//! savepoints, spaces made, filled and removed.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use colibri_txn::{
    ColumnSet, Direction, Error, Key, KeyRange, LocalTransaction, Savepoint, Skipped, Space, SpaceId, Store,
    Transaction,
};
use common::{begin, fill, key, open_with, read_only, rows, write};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;
/// Spaces that exist, with what is in them.
type Model = BTreeMap<u32, Entries>;

struct Append(u8);

impl colibri_txn::Patch for Append {
    fn apply(&self, row: &[u8], out: &mut Vec<u8>) -> Result<(), colibri_txn::PatchError> {
        if row.len() >= 12 {
            return Err("long enough".into());
        }
        out.extend_from_slice(row);
        out.push(self.0);
        Ok(())
    }
}

fn random_key(rng: &mut StdRng) -> Vec<u8> {
    let mut key = vec![rng.random_range(0..6), rng.random_range(0..6)];
    key.truncate(rng.random_range(1..=2));
    if rng.random_ratio(1, 10) {
        key.resize(50, 7);
    }
    key
}

fn random_range(rng: &mut StdRng) -> KeyRange {
    let mut bound = || {
        let key = Key::from_slice(&random_key(rng));
        match rng.random_range(0..5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    };
    KeyRange { low: bound(), high: bound() }
}

fn look(rng: &mut StdRng, txn: &mut LocalTransaction, model: &Model, seed: u64) {
    let Some((&id, entries)) = model.iter().collect::<Vec<_>>().choose(rng).copied() else { return };
    let space = Space::new(SpaceId(id));
    let key = random_key(rng);
    let expected = entries.get(&key).map(Vec::as_slice);
    assert_eq!(txn.get(&space, &key, ColumnSet::ALL).unwrap(), expected, "seed {seed}");
    assert_eq!(txn.peek(&space, &key).unwrap(), expected, "seed {seed}");
    let keys: Vec<Vec<u8>> = (0..rng.random_range(0..5)).map(|_| random_key(rng)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut found = Vec::new();
    txn.get_many(&space, &keys, ColumnSet::ALL, &mut |at, value| {
        assert_eq!(at, found.len(), "seed {seed}");
        found.push(value.map(<[u8]>::to_vec));
        if found.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    let expected: Vec<_> = keys.iter().take(3).map(|key| entries.get(*key).cloned()).collect();
    assert_eq!(found, expected, "seed {seed}");
    let range = random_range(rng);
    let mut expected: Vec<_> =
        entries.iter().filter(|(key, _)| range.contains(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
    assert_eq!(txn.count(&space, &range).unwrap(), expected.len() as u64, "seed {seed}: {range:?}");
    let direction = if rng.random() { Direction::Forward } else { Direction::Backward };
    if direction == Direction::Backward {
        expected.reverse();
    }
    let passed: usize = rng.random_range(0..8);
    if let Some(skipped) = txn.skip(&space, &range, direction, passed as u64).unwrap() {
        let is = match expected.get(passed.wrapping_sub(1)) {
            Some((last, _)) if passed < expected.len() => Skipped::Until(Key::from_slice(last)),
            _ => Skipped::All(expected.len() as u64),
        };
        assert_eq!(skipped, is, "seed {seed}: {passed} of {range:?} {direction:?}");
    }
    let limit = if rng.random() { usize::MAX } else { rng.random_range(1..6) };
    expected.truncate(limit);
    let mut found = Vec::new();
    txn.scan(&space, &range, direction, ColumnSet::ALL, usize::MAX, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        if found.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(found, expected, "seed {seed}: {range:?} {direction:?}");
}

fn change(rng: &mut StdRng, txn: &mut LocalTransaction, model: &mut Model, next: &mut u32, seed: u64) {
    let spaces: Vec<u32> = model.keys().copied().collect();
    if spaces.is_empty() || rng.random_ratio(1, 30) {
        *next += 1;
        txn.create_space(SpaceId(*next)).unwrap();
        model.insert(*next, Entries::new());
        if rng.random() {
            let entries: Entries = (0..rng.random_range(0..40)).map(|_| (random_key(rng), vec![9])).collect();
            let load = entries.iter().map(|(key, value)| (Key::from_slice(key), value.clone())).collect();
            txn.load(&Space::new(SpaceId(*next)), load).unwrap();
            model.insert(*next, entries);
        }
        return;
    }
    let id = *spaces.choose(rng).unwrap();
    let space = Space::new(SpaceId(id));
    if rng.random_ratio(1, 60) {
        txn.drop_space(space.id).unwrap();
        model.remove(&id);
        assert!(txn.put(&space, b"k", b"v").is_err());
        return;
    }
    let entries = model.get_mut(&id).unwrap();
    let key = random_key(rng);
    match rng.random_range(0..4) {
        0 => {
            txn.delete(&space, &key).unwrap();
            entries.remove(&key);
        }
        1 => {
            let byte = rng.random();
            let result = txn.patch(&space, &key, ColumnSet::NONE, std::sync::Arc::new(Append(byte)));
            match (result, entries.get_mut(&key)) {
                (Ok(()), Some(value)) => value.push(byte),
                (Err(Error::NoSuchKey { .. }), None) => {}
                (Err(Error::Patch(_)), Some(value)) => assert!(value.len() >= 12, "seed {seed}"),
                (result, value) => panic!("seed {seed}: {result:?} for {value:?}"),
            }
        }
        _ => {
            let value = vec![rng.random(); rng.random_range(0..10)];
            txn.put(&space, &key, &value).unwrap();
            entries.insert(key, value);
        }
    }
}

fn run(seed: u64) {
    let store = open_with(colibri_storage::Durability::NoSync);
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut committed, mut next) = (Model::new(), 0);
    for _ in 0..6 {
        let mut txn = begin(&store, write());
        let mut model = committed.clone();
        let mut savepoints: Vec<(Savepoint, Model)> = Vec::new();
        for _ in 0..rng.random_range(1..120) {
            match rng.random_range(0..20) {
                0 => savepoints.push((txn.savepoint(), model.clone())),
                1 if !savepoints.is_empty() => {
                    // To any of them; it may be gone back to again.
                    savepoints.truncate(rng.random_range(1..=savepoints.len()));
                    let (savepoint, then) = savepoints.last().unwrap();
                    if rng.random() { txn.rollback_to(*savepoint) } else { txn.restart(*savepoint) }.unwrap();
                    model.clone_from(then);
                }
                2..10 => change(&mut rng, &mut txn, &mut model, &mut next, seed),
                _ => look(&mut rng, &mut txn, &model, seed),
            }
        }
        if model == committed {
            assert!(!txn.has_writes() || txn.write_bytes() > 0, "seed {seed}");
        }
        if rng.random_ratio(1, 5) {
            drop(txn);
        } else {
            drop(txn.commit().unwrap());
            committed = model;
        }
        let mut after = begin(&store, read_only());
        for _ in 0..20 {
            look(&mut rng, &mut after, &committed, seed);
        }
    }
    store.database().check().unwrap();
}

#[test]
fn own_writes_lie_over_what_is_stored() {
    (0..150).for_each(run);
}

/// The same with old entries kept for a while: what there was is seen as it was, whatever is written
/// and taken back meanwhile.
fn run_with_old_entries(seed: u64) {
    let store = open_with(colibri_storage::Durability::NoSync);
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut committed, mut next) = (Model::new(), 0);
    for _ in 0..6 {
        let mut txn = begin(&store, write());
        let mut model = committed.clone();
        for _ in 0..rng.random_range(0..30) {
            change(&mut rng, &mut txn, &mut model, &mut next, seed);
        }
        txn.keep_old();
        let (old, bytes) = (model.clone(), txn.write_bytes());
        let mut savepoints: Vec<(Savepoint, Model)> = vec![(txn.savepoint(), model.clone())];
        for _ in 0..rng.random_range(1..60) {
            match rng.random_range(0..12) {
                0 => savepoints.push((txn.savepoint(), model.clone())),
                1 => {
                    savepoints.truncate(rng.random_range(1..=savepoints.len()));
                    let (savepoint, then) = savepoints.last().unwrap();
                    txn.rollback_to(*savepoint).unwrap();
                    model.clone_from(then);
                }
                2..6 => {
                    let before = model.clone();
                    change(&mut rng, &mut txn, &mut model, &mut next, seed);
                    if model.keys().ne(before.keys()) {
                        // No statement of several parts makes or drops spaces.
                        txn.forget_old();
                        break;
                    }
                    let written = |(id, entries): (&u32, &Entries)| {
                        let changed = entries.iter().find(|(key, value)| before[id].get(*key) != Some(value));
                        changed.map(|(key, _)| (*id, key.clone()))
                    };
                    if let Some((id, key)) = model.iter().find_map(written) {
                        assert!(txn.is_written(&Space::new(SpaceId(id)), &key), "seed {seed}");
                    }
                }
                6..9 => {
                    assert!(!txn.see_old(true));
                    look(&mut rng, &mut txn, &old, seed);
                    assert!(txn.see_old(false));
                }
                _ => look(&mut rng, &mut txn, &model, seed),
            }
        }
        txn.forget_old();
        assert!(!txn.see_old(true) && !txn.see_old(false), "seed {seed}: nothing is kept any more");
        if txn.savepoint() == savepoints[0].0 {
            assert_eq!(txn.write_bytes(), bytes, "seed {seed}: what was kept still counts");
        }
        look(&mut rng, &mut txn, &model, seed);
        drop(txn.commit().unwrap());
        committed = model;
    }
    store.database().check().unwrap();
}

#[test]
fn kept_entries_are_seen_as_they_were() {
    (0..150).for_each(run_with_old_entries);
}

#[test]
fn what_is_seen_of_kept_entries_is_read() {
    let store = common::open();
    fill(&store, &[(1, 10), (2, 20)]);
    for takes_away in [true, false] {
        let mut txn = begin(&store, write());
        txn.keep_old();
        match takes_away {
            true => txn.delete(&rows(), &key(1)).unwrap(),
            false => txn.put(&rows(), &key(1), &[7; 16]).unwrap(),
        }
        txn.see_old(true);
        // Written by itself, it would depend on nobody.
        assert!(txn.get(&rows(), &key(1), ColumnSet::ALL).unwrap().is_some());
        txn.see_old(false);
        let mut other = begin(&store, write());
        other.put(&rows(), &key(1), &[1 + u8::from(takes_away); 16]).unwrap();
        drop(other.commit().unwrap());
        assert!(matches!(txn.commit(), Err(Error::Conflict { .. })), "{takes_away}");
    }
}

#[test]
fn going_back_to_the_start_leaves_nothing_written() {
    let store = common::open();
    let mut txn = begin(&store, write());
    let start = txn.savepoint();
    assert!(!txn.has_writes());
    txn.put(&common::rows(), b"k", &[0; 16]).unwrap();
    txn.create_space(SpaceId(9)).unwrap();
    txn.load(&Space::new(SpaceId(9)), vec![(Key::from_slice(b"a"), vec![1; 100])]).unwrap();
    txn.put(&Space::new(SpaceId(9)), b"b", b"2").unwrap();
    txn.drop_space(SpaceId(9)).unwrap();
    txn.drop_space(common::rows().id).unwrap();
    assert!(txn.has_writes());
    txn.rollback_to(start).unwrap();
    assert!(!txn.has_writes());
    assert_eq!(txn.write_bytes(), 0);
    assert_eq!(txn.commit().unwrap().committed(), None);
}

#[test]
fn loading_takes_a_new_empty_space_and_ascending_keys() {
    let store = common::open();
    let mut txn = begin(&store, write());
    let entry = |key: &[u8]| (Key::from_slice(key), vec![0; 16]);
    assert!(matches!(txn.load(&common::rows(), vec![entry(b"a")]), Err(Error::NotEmpty { .. })));
    let space = Space::new(SpaceId(9));
    txn.create_space(space.id).unwrap();
    assert!(txn.load(&space, vec![entry(b"b"), entry(b"a")]).is_err());
    assert!(txn.load(&space, vec![entry(b"a"), entry(b"a")]).is_err());
    assert!(txn.load(&space, vec![entry(b"")]).is_err());
    txn.load(&space, vec![entry(b"a"), entry(b"b")]).unwrap();
    assert!(matches!(txn.load(&space, vec![entry(b"c")]), Err(Error::NotEmpty { .. })));
    drop(txn.commit().unwrap());
    assert_eq!(begin(&store, read_only()).count(&space, &KeyRange::all()).unwrap(), 2);
}

#[test]
fn keys_that_cannot_be_stored_are_refused_at_once() {
    let store = common::open();
    let mut txn = begin(&store, write());
    let too_long = vec![0; store.capabilities().key_bytes_max + 1];
    for key in [&b""[..], &too_long] {
        assert!(matches!(txn.put(&common::rows(), key, b""), Err(Error::KeyLength { .. })));
        assert!(matches!(txn.delete(&common::rows(), key), Err(Error::KeyLength { .. })));
        assert_eq!(txn.get(&common::rows(), key, ColumnSet::ALL).unwrap(), None);
    }
    txn.put(&common::rows(), &too_long[1..], &[0; 16]).unwrap();
    drop(txn.commit().unwrap());
}

#[test]
fn a_transaction_that_writes_too_much_is_refused_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let database = colibri_storage::Database::open(dir.path(), &Default::default()).unwrap();
    let store = colibri_txn::LocalStore::with_write_bytes_max(database, Some(2000));
    let mut txn = begin(&store, write());
    txn.create_space(SpaceId(1)).unwrap();
    let space = Space::new(SpaceId(1));
    txn.put(&space, b"a", &[1; 100]).unwrap();
    assert!(matches!(txn.put(&space, b"b", &[1; 3000]), Err(Error::TooLarge { bytes_max: 2000 })));
    assert_eq!(txn.count(&space, &KeyRange::all()).unwrap(), 1);
    let many = (0..100_u8).map(|n| (Key::from_slice(&[n]), vec![0; 10])).collect();
    txn.create_space(SpaceId(2)).unwrap();
    assert!(matches!(txn.load(&Space::new(SpaceId(2)), many), Err(Error::TooLarge { .. })));
    txn.commit().unwrap().wait().unwrap();
}

fn sampled(txn: &LocalTransaction, entries_max: usize) -> Vec<Key> {
    let mut keys = Vec::new();
    txn.sample(&rows(), entries_max, &mut |key, _| keys.push(Key::from_slice(key))).unwrap();
    keys
}

#[test]
fn a_sample_is_spread_over_all_keys_and_nothing_depends_on_it() {
    let store = common::open();
    assert_eq!(sampled(&begin(&store, read_only()), 8).len(), 0);
    let values: Vec<(u16, i64)> = (0..800).map(|number| (number, 0)).collect();
    fill(&store, &values);
    let wanted: Vec<_> = (0..8).map(|nth| key(50 + nth * 100)).collect();
    let mut txn = begin(&store, write());
    let found = sampled(&txn, 8);
    assert_eq!(
        found.iter().map(|key| &**key).collect::<Vec<_>>(),
        wanted.iter().map(|key| &key[..]).collect::<Vec<_>>()
    );
    assert_eq!(sampled(&txn, 1_000).len(), 800);
    // Others' writes to what was sampled are no conflict.
    txn.put(&rows(), &key(2_000), b"").unwrap();
    fill(&store, &[(50, 1), (150, 1)]);
    txn.commit().unwrap().wait().unwrap();
}

#[test]
fn what_is_passed_over_may_not_get_or_lose_keys() {
    let store = common::open();
    fill(&store, &(0..100).map(|number| (2 * number, 0)).collect::<Vec<_>>());
    // Ten rows from either end, and a change at a key: is it a conflict?
    for (direction, changed, conflicts) in [
        (Direction::Forward, 7, true),
        (Direction::Forward, 18, true),
        (Direction::Forward, 21, false),
        (Direction::Backward, 191, true),
        (Direction::Backward, 170, false),
    ] {
        let mut txn = begin(&store, write());
        let all = KeyRange { low: Bound::Unbounded, high: Bound::Unbounded };
        let skipped = txn.skip(&rows(), &all, direction, 10).unwrap();
        let last = if direction == Direction::Forward { 18 } else { 180 };
        assert_eq!(skipped, Some(Skipped::Until(Key::from_slice(&key(last)))));
        let mut other = begin(&store, write());
        if changed % 2 == 0 {
            other.delete(&rows(), &key(changed)).unwrap();
        } else {
            other.put(&rows(), &key(changed), b"").unwrap();
        }
        other.commit().unwrap().wait().unwrap();
        txn.put(&rows(), &key(1000), b"").unwrap();
        assert_eq!(txn.commit().is_err(), conflicts, "{direction:?} {changed}");
        // As it was.
        let mut back = begin(&store, write());
        if changed % 2 == 0 {
            back.put(&rows(), &key(changed), b"").unwrap();
        } else {
            back.delete(&rows(), &key(changed)).unwrap();
        }
        back.delete(&rows(), &key(1000)).unwrap();
        back.commit().unwrap().wait().unwrap();
    }
}

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::store::Key;

/// The changes in the order in which they were made: number, key, and value if it was put.
type Model = Vec<(u32, Vec<u8>, Option<Vec<u8>>)>;

fn newest(model: &Model) -> BTreeMap<&[u8], Option<&[u8]>> {
    model.iter().map(|(_, key, value)| (&key[..], value.as_deref())).collect()
}

/// Keys of which many share their first bytes, and some are beginnings of others.
fn random_key(rng: &mut StdRng, spread: u32) -> Vec<u8> {
    let number = rng.random_range(0..spread);
    match rng.random_range(0..4) {
        0 => number.to_be_bytes()[2..].to_vec(),
        1 => [b"the same begin".as_slice(), &number.to_be_bytes()].concat(),
        2 => [&number.to_be_bytes()[..], &[0; 3][..rng.random_range(0..4)]].concat(),
        _ => [b"the same begin".as_slice(), &vec![7; number as usize % 40]].concat(),
    }
}

fn random_range(rng: &mut StdRng, spread: u32) -> KeyRange {
    let mut bound = || {
        let key = Key::from_slice(&random_key(rng, spread));
        match rng.random_range(0..4) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    };
    KeyRange { low: bound(), high: bound() }
}

/// Everything that holds of the indexes, whatever was asked.
fn check(changes: &Changes, seed: u64) {
    let order = changes.order.borrow();
    assert!(order.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK_MAX), "seed {seed}");
    let ids: Vec<u32> = order.chunks.iter().flatten().copied().collect();
    assert_eq!(ids.len(), order.len, "seed {seed}");
    assert!(ids.windows(2).all(|pair| changes.key(pair[0]) < changes.key(pair[1])), "seed {seed}");
    let newest = |count: usize| -> BTreeMap<&[u8], u32> { (0..count as u32).map(|id| (changes.key(id), id)).collect() };
    assert_eq!(ids, newest(changes.sorted.get()).into_values().collect::<Vec<_>>(), "seed {seed}");
    let found = changes.found.borrow();
    let mut ids: Vec<u32> = found.slots.iter().map(|slot| slot.id).filter(|&id| id != NONE).collect();
    ids.sort_unstable();
    let mut expected: Vec<u32> = newest(changes.hashed.get()).into_values().collect();
    expected.sort_unstable();
    assert_eq!(ids, expected, "seed {seed}");
    assert_eq!(found.used, ids.len(), "seed {seed}");
}

fn look(rng: &mut StdRng, changes: &Changes, model: &Model, spread: u32, seed: u64) {
    let newest = newest(model);
    if rng.random() {
        let key = random_key(rng, spread);
        let found = changes.get(&key).map(Write::value);
        assert_eq!(found, newest.get(&key[..]).copied(), "seed {seed}: {key:?}");
        return;
    }
    let range = random_range(rng, spread);
    let mut expected: Vec<_> = newest.into_iter().filter(|(key, _)| range.contains(key)).collect();
    let mut all = changes.in_range(&range).map(|(key, write)| (key, write.value()));
    let mut found = (Vec::new(), Vec::new());
    let back = rng.random_range(0..=expected.len());
    for _ in 0..back {
        found.1.push(all.next_back().unwrap());
        // Another reader may come in between.
        if rng.random_ratio(1, 4) {
            changes.get(&random_key(rng, spread));
            assert!(changes.iter().count() > 0, "seed {seed}");
        }
    }
    found.0.extend(all.by_ref());
    assert!(all.next_back().is_none() && all.next().is_none(), "seed {seed}");
    found.1.reverse();
    found.0.append(&mut found.1);
    assert_eq!(found.0, std::mem::take(&mut expected), "seed {seed}: {range:?}, {back} from behind");
}

fn run(seed: u64) {
    let rng = &mut StdRng::seed_from_u64(seed);
    let (mut changes, mut model) = (Changes::default(), Model::new());
    let spread = *[3, 40, 5000].get(rng.random_range(0..3)).unwrap();
    let mut number = 1_u32;
    for _ in 0..rng.random_range(1..60) {
        let many = if rng.random_ratio(1, 4) { 300 } else { 6 };
        let in_order = rng.random_ratio(1, 4);
        for _ in 0..rng.random_range(0..many) {
            let key = match in_order {
                true => number.to_be_bytes().to_vec(),
                false => random_key(rng, spread),
            };
            let value = rng.random_ratio(2, 3).then(|| vec![rng.random(); 3]);
            changes.push(&key, value.clone().map_or(Write::Delete, Write::Put), number);
            model.push((number, key, value));
            number += rng.random_range(1..3);
        }
        if rng.random_ratio(1, 3) && !model.is_empty() {
            let back = if rng.random() { rng.random_range(0..5) } else { rng.random_range(0..2 * number) };
            let mark = number.saturating_sub(back);
            let gone = model.len() - model.partition_point(|(number, ..)| *number < mark);
            let mut undone = Vec::new();
            let first = changes.cut(mark, |key, write| undone.push((key.to_vec(), write.value().map(<[u8]>::to_vec))));
            let expected: Vec<_> = model.split_off(model.len() - gone);
            assert_eq!(first, expected.first().map(|(number, ..)| *number), "seed {seed}");
            assert_eq!(undone, expected.into_iter().rev().map(|(_, k, v)| (k, v)).collect::<Vec<_>>(), "seed {seed}");
        }
        for _ in 0..rng.random_range(0..4) {
            look(rng, &changes, &model, spread, seed);
        }
        check(&changes, seed);
        assert_eq!(changes.is_empty(), model.is_empty(), "seed {seed}");
    }
    let found: Vec<_> = changes.iter().map(|(key, write)| (key, write.value())).collect();
    assert_eq!(found, newest(&model).into_iter().collect::<Vec<_>>(), "seed {seed}");
}

#[test]
fn random_changes_are_seen_as_in_a_sorted_map() {
    for seed in 0..400 {
        run(seed);
    }
}

#[test]
fn a_change_between_two_reads_costs_little_whatever_there_is() {
    // 20,000 changes of one key each, read in order after each of them: were all of them sorted
    // again each time, this would take minutes.
    let mut changes = Changes::default();
    for number in 0..20_000_u32 {
        let key = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
        changes.push(&key, Write::Delete, number);
        let range = KeyRange { low: Bound::Included(Key::from_slice(&key)), high: Bound::Unbounded };
        assert_eq!(changes.in_range(&range).next().unwrap().0, key);
        assert_eq!(changes.get(&key).map(Write::value), Some(None));
    }
    assert_eq!(changes.iter().count(), 20_000);
}

#[test]
fn a_key_that_is_changed_again_and_again_is_found_at_once() {
    let mut changes = Changes::default();
    for number in 0..50_000_u32 {
        changes.push(b"counter", Write::Put(number.to_be_bytes().to_vec()), number);
        assert_eq!(changes.get(b"counter").unwrap().value(), Some(&number.to_be_bytes()[..]));
        assert_eq!(changes.iter().count(), 1);
    }
    for mark in (0..50_000).rev().step_by(7) {
        changes.cut(mark, |_, _| {});
        let newest = changes.get(b"counter").and_then(Write::value);
        assert_eq!(newest, mark.checked_sub(1).map(u32::to_be_bytes).as_ref().map(|value| &value[..]));
    }
}

//! A shard against locks that all lie in one map: where a lock lies is nobody's business.

use std::sync::atomic::AtomicBool;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::sync::{Condvar, Mutex};

const MODES: [LockMode; 5] =
    [LockMode::KeyShare, LockMode::Share, LockMode::Add, LockMode::NoKeyUpdate, LockMode::Exclusive];

fn waiter(wanted: &Wanted) -> Waiter {
    let Wanted { owner, name, mode, .. } = *wanted;
    Waiter { owner, name, mode, granted: AtomicBool::new(false), state: Mutex::default(), changed: Condvar::new() }
}

/// A shard whose locks all lie where they have room for others.
fn spread(shard: &mut Shard) {
    let mut alone: Vec<_> = shard.alone.iter().flatten().map(|alone| (alone.name, alone.owned.space)).collect();
    alone.extend(shard.more.iter().flat_map(|more| &more.alone).map(|(&name, owned)| (name, owned.space)));
    for (name, space) in alone {
        shard.shared(name, space);
    }
}

fn listed(shard: &Shard) -> Vec<(u64, u64, bool, String)> {
    let mut infos = Vec::new();
    shard.list(&mut infos);
    let mut listed: Vec<_> =
        infos.iter().map(|info| (info.name.0, info.owner.0, info.granted, format!("{:?}", info.mode))).collect();
    listed.sort();
    listed
}

fn owners(woken: &Woken) -> Vec<u64> {
    woken.iter().map(|waiter| waiter.owner.0).collect()
}

#[test]
fn where_a_lock_lies_makes_no_difference() {
    let (mut in_line, mut in_map, mut waited) = (0, 0, 0);
    for seed in 0..300 {
        let mut rng = StdRng::seed_from_u64(seed);
        let names = rng.random_range(1..6);
        let (mut shard, mut plain) = (Shard::default(), Shard::default());
        // What each owner holds, and its place in a queue, in both.
        let mut held: HashMap<(u64, u64), LockMode> = HashMap::new();
        let mut waiting: HashMap<u64, (Arc<Waiter>, Arc<Waiter>)> = HashMap::new();
        for step in 0..200 {
            let (owner, name) = (rng.random_range(1..5), rng.random_range(0..names));
            let context = format!("seed {seed}, step {step}, owner {owner}, lock {name}");
            let (mut woken, mut woken_plain) = (Woken::new(), Woken::new());
            if let Some((waits, waits_plain)) = waiting.get(&owner) {
                if rng.random_ratio(1, 4) {
                    shard.cancel(waits, &mut woken);
                    plain.cancel(waits_plain, &mut woken_plain);
                    waiting.remove(&owner);
                }
            } else if held.contains_key(&(owner, name)) && rng.random_ratio(1, 2) {
                held.remove(&(owner, name));
                shard.release(OwnerId(owner), LockName(name), &mut woken);
                plain.release(OwnerId(owner), LockName(name), &mut woken_plain);
            } else {
                let asked = MODES[rng.random_range(0..3)];
                let before = held.get(&(owner, name)).copied();
                let mode = before.map_or(asked, |before| join(before, asked));
                let (space, holds) = (SpaceId(name as u32), before.is_some());
                let wanted = Wanted { name: LockName(name), space, owner: OwnerId(owner), mode, holds };
                if rng.random_ratio(1, 3) {
                    let had = shard.try_hold(&wanted);
                    assert_eq!(had, plain.try_hold(&wanted), "{context}");
                    if had {
                        held.insert((owner, name), mode);
                    }
                } else {
                    let queued = shard.hold_or_queue(&wanted, || waiter(&wanted));
                    let queued_plain = plain.hold_or_queue(&wanted, || waiter(&wanted));
                    match (queued, queued_plain) {
                        (None, None) => _ = held.insert((owner, name), mode),
                        (Some(queued), Some(queued_plain)) => {
                            waited += 1;
                            waiting.insert(owner, (queued, queued_plain));
                        }
                        _ => panic!("only one of them had to wait: {context}"),
                    }
                }
            }
            in_line += shard.alone.iter().flatten().count();
            in_map += shard.more.as_ref().map_or(0, |more| more.alone.len());
            spread(&mut plain);
            assert_eq!(owners(&woken), owners(&woken_plain), "{context}");
            for got in woken {
                assert!(waiting.remove(&got.owner.0).is_some(), "{context}");
                held.insert((got.owner.0, got.name.0), got.mode);
            }
            assert_eq!(listed(&shard), listed(&plain), "{context}");
            // Each owner holds what it was given, and nothing else is held.
            let granted = listed(&shard).into_iter().filter(|(_, _, granted, _)| *granted);
            let mut expected: Vec<_> =
                held.iter().map(|((owner, name), mode)| (*name, *owner, true, format!("{mode:?}"))).collect();
            expected.sort();
            assert_eq!(granted.collect::<Vec<_>>(), expected, "{context}");
        }
    }
    let lay = format!("{in_line} locks lay in the line, {in_map} beside it, {waited} waited");
    assert!(in_line > 1_000 && in_map > 1_000 && waited > 1_000, "{lay}");
}

#[test]
fn a_shard_lets_go_of_much_memory_when_it_is_empty() {
    let mut shard = Shard::default();
    let name = |n: u64| LockName(n);
    for n in 0..1_000 {
        let wanted =
            Wanted { name: name(n), space: SpaceId(1), owner: OwnerId(1), mode: LockMode::Exclusive, holds: false };
        assert!(shard.try_hold(&wanted));
    }
    let mut woken = Woken::new();
    (0..1_000).for_each(|n| shard.release(OwnerId(1), name(n), &mut woken));
    assert!(shard.more.is_none() && listed(&shard).is_empty());
}

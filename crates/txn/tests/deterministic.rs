//! Every interleaving that a seed can think of, in one thread: a scheduler picks whose next call
//! runs, and a session that has to wait is not picked until what it waits for has come. Nothing
//! waits inside a call, so this is possible.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use colibri_txn::{Begin, Isolation, LocalStore, LockWait, Store};
use common::history::{Mix, Record, Session, Step, check, stored};
use common::{open, read_committed, write};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

struct Outcome {
    serial: Result<(), String>,
    trace: String,
    commits: usize,
    conflicts: u64,
    deadlocks: u64,
    waits: u64,
}

/// Runs sessions until so many transactions are over: by turns of one store and of others on the
/// same database, which do not know each other's row locks, nor what the others have written
/// lately.
fn run_on(stores: usize, seed: u64, how: Begin) -> Outcome {
    let store = open();
    let others: Vec<_> = (1..stores).map(|_| LocalStore::new(store.database().clone())).collect();
    let store_of = |index: usize| if index.is_multiple_of(stores) { &*store } else { &others[index % stores - 1] };
    let mut rng = StdRng::seed_from_u64(seed);
    let mix = Mix {
        keys: *[2, 6, 40].choose(&mut rng).unwrap(),
        statements_max: rng.random_range(1..6),
        ops_max: rng.random_range(1..6),
        locking: rng.random_range(0..=10),
    };
    let mut sessions: Vec<_> = (0..rng.random_range(2..6))
        .map(|index| (Session::new(store_of(index), rng.random(), mix, how), None::<LockWait>))
        .collect();
    let order = Arc::new(AtomicU64::new(0));
    for (session, _) in sessions.iter_mut().filter(|_| stores > 1) {
        session.order = Some(Arc::clone(&order));
    }
    let mut trace = String::new();
    let (mut left, mut waits) = (60, 0);
    while left > 0 {
        let ready = |wait: &Option<LockWait>| wait.as_ref().is_none_or(LockWait::is_over);
        let ready: Vec<_> = (0..sessions.len()).filter(|&index| ready(&sessions[index].1)).collect();
        let index =
            *ready.choose(&mut rng).unwrap_or_else(|| panic!("seed {seed}: everybody waits: {:?}", store.locks()));
        let (session, wait) = &mut sessions[index];
        // Now and then somebody does not wait any longer, and runs the statement again.
        *wait = None;
        match session.step() {
            Step::Running => trace.push_str(&format!("{index} ")),
            Step::Ended => left -= 1,
            Step::Parked(parked) => {
                waits += 1;
                trace.push_str(&format!("{index}w "));
                if !rng.random_ratio(1, 10) {
                    *wait = Some(parked);
                }
            }
        }
    }
    let records: Vec<Record> = sessions.iter().flat_map(|(session, _)| session.records.clone()).collect();
    let total = |of: fn(&Session) -> u64| sessions.iter().map(|(session, _)| of(session)).sum();
    let (conflicts, deadlocks) = (total(|session| session.conflicts), total(|session| session.deadlocks));
    let commits = records.len();
    for record in &records {
        trace.push_str(&format!("{:?} ", record.place));
    }
    drop(sessions);
    assert!(store.locks().is_empty(), "seed {seed}: locks of nobody: {:?}", store.locks());
    let serial = check(records).and_then(|model| {
        if model == stored(&store) { Ok(()) } else { Err("the rows at the end are others".to_owned()) }
    });
    Outcome { serial, trace, commits, conflicts, deadlocks, waits }
}

fn run(seed: u64, how: Begin) -> Outcome {
    run_on(1, seed, how)
}

fn run_many(seeds: std::ops::Range<u64>) {
    let (mut commits, mut conflicts, mut deadlocks, mut waits) = (0, 0, 0, 0);
    for seed in seeds {
        let outcome = run(seed, write());
        if let Err(what) = outcome.serial {
            panic!("seed {seed}: {what}");
        }
        commits += outcome.commits;
        conflicts += outcome.conflicts;
        deadlocks += outcome.deadlocks;
        waits += outcome.waits;
    }
    assert!(commits > 0 && conflicts > 0 && deadlocks > 0 && waits > 0, "everything has been met");
    println!("{commits} commits, {conflicts} conflicts, {deadlocks} deadlocks, {waits} waits");
}

#[test]
fn every_interleaving_is_as_if_one_after_the_other() {
    run_many(0..300);
}

#[test]
#[ignore = "many more seeds: minutes"]
fn every_interleaving_is_as_if_one_after_the_other_for_long() {
    run_many(1000..30_000);
}

#[test]
fn stores_beside_each_other_are_as_if_one_after_the_other() {
    let (mut commits, mut conflicts) = (0, 0);
    for (stores, seed) in (0..150).flat_map(|seed| [(2, seed), (3, 1_000 + seed)]) {
        let outcome = run_on(stores, seed, write());
        if let Err(what) = outcome.serial {
            panic!("{stores} stores, seed {seed}: {what}");
        }
        commits += outcome.commits;
        conflicts += outcome.conflicts;
    }
    assert!(commits > 0 && conflicts > 0, "{commits} commits, {conflicts} conflicts");
}

#[test]
fn a_seed_runs_the_same_every_time() {
    let outcomes = [run(7, write()), run(7, write())];
    assert_eq!(outcomes[0].trace, outcomes[1].trace);
}

#[test]
fn the_check_finds_what_read_committed_does_not_rule_out() {
    assert_eq!(read_committed().isolation, Isolation::ReadCommitted);
    let wrong = (0..60).filter(|&seed| run(seed, read_committed()).serial.is_err()).count();
    assert!(wrong > 20, "only {wrong} of 60 histories without validation were found to be wrong");
}

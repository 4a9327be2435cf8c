//! Random transactions in several threads, and whether what they saw could have been seen one after
//! the other.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use colibri_storage::Durability;
use colibri_txn::{Begin, Store, Transaction};
use common::history::{Mix, Record, Session, check, stored};
use common::{TestStore, open_with, read_committed, rows, write};

const THREADS: u64 = 6;

fn run(durability: Durability, seed: u64, mix: Mix, how: Begin, transactions: u64) -> (TestStore, Vec<Record>) {
    let store = open_with(durability);
    let mut txn = store.begin(write()).unwrap();
    txn.create_space(rows().id).unwrap();
    txn.commit().unwrap().wait().unwrap();
    let left = AtomicU64::new(transactions);
    let records = std::thread::scope(|scope| {
        let sessions: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mut session = Session::new(&store, seed * THREADS + thread, mix, how);
                let left = &left;
                scope.spawn(move || {
                    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                        session.run_one();
                    }
                    session.records
                })
            })
            .collect();
        sessions.into_iter().flat_map(|session| session.join().unwrap()).collect()
    });
    assert!(store.locks().is_empty());
    (store, records)
}

fn run_and_check(durability: Durability, seeds: std::ops::Range<u64>, transactions: u64) {
    for seed in seeds {
        for mix in [Mix::default(), Mix { keys: 3, ..Mix::default() }, Mix { keys: 60, ops_max: 8, ..Mix::default() }] {
            let (store, records) = run(durability, seed, mix, write(), transactions);
            let model = check(records).unwrap_or_else(|what| panic!("seed {seed}, {mix:?}: {what}"));
            assert_eq!(model, stored(&store), "seed {seed}, {mix:?}");
            store.database().check().unwrap();
        }
    }
}

#[test]
fn threads_see_what_they_could_have_seen_one_after_the_other() {
    run_and_check(Durability::NoSync, 0..4, 3000);
}

#[test]
fn threads_see_what_they_could_have_seen_one_after_the_other_with_a_log() {
    run_and_check(Durability::Sync, 0..1, 1000);
}

#[test]
#[ignore = "many more seeds: minutes"]
fn threads_see_what_they_could_have_seen_one_after_the_other_for_long() {
    run_and_check(Durability::NoSync, 100..200, 5000);
    run_and_check(Durability::Sync, 200..210, 3000);
}

#[test]
fn the_check_finds_what_read_committed_does_not_rule_out() {
    let mix = Mix { locking: 0, ..Mix::default() };
    let wrong = (0..4).any(|seed| check(run(Durability::NoSync, seed, mix, read_committed(), 3000).1).is_err());
    assert!(wrong, "histories without validation were not found to be wrong");
}

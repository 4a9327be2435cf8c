//! A process that commits is killed: what it acknowledged is there, and nothing is there by half.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use colibri_storage::{Database, Options};
use colibri_txn::{ColumnSet, Error, Interruption, LocalStore, LockMode, Space, SpaceId, Transaction};
use common::{Add, Short, begin, key, read_only, rows, write};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const DIR: &str = "COLIBRI_TXN_CRASH_DIR";
const THREADS: u32 = 3;

/// What has been done, a key for each commit.
fn ledger() -> Space {
    Space::new(SpaceId(2))
}

fn open(dir: &Path) -> LocalStore {
    LocalStore::new(Database::open(dir, &Options::new().log_bytes(256 << 10)).unwrap())
}

/// Adds to a row that all share, and writes into the ledger, until it is killed.
#[test]
#[ignore = "a process that another test kills"]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let store = open(Path::new(&dir));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let mut n = count_of(store, thread);
                loop {
                    commit(store, thread, n);
                    n += 1;
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "done {thread} {n}").unwrap();
                }
            });
        }
    });
}

fn commit(store: &LocalStore, thread: u32, n: u32) {
    let mut txn = begin(store, write());
    let statement = txn.begin_statement().unwrap();
    // Every other one by a delta.
    if n % 2 == 1 {
        txn.patch(&rows(), &key(1), ColumnSet::one(0), Arc::new(Add(0, 1))).unwrap();
    } else {
        loop {
            match txn.lock_row(1, LockMode::Exclusive) {
                Ok(()) => break,
                Err(Error::Interrupted(Interruption::Wait(wait))) => wait.wait(),
                Err(Error::Interrupted(Interruption::Stale)) => {}
                Err(e) => panic!("{e}"),
            }
            txn.restart(statement).unwrap();
        }
        let a = txn.a(1);
        txn.set(1, a + 1);
    }
    let mut entry = [0; 8];
    entry[..4].copy_from_slice(&thread.to_be_bytes());
    entry[4..].copy_from_slice(&n.to_be_bytes());
    txn.put(&ledger(), &entry, &[7; 100]).unwrap();
    match txn.commit() {
        Ok(ticket) => _ = ticket.wait().unwrap(),
        // Who adds without the lock gets between who reads and who writes.
        Err(Error::Conflict { .. }) => commit(store, thread, n),
        Err(e) => panic!("{e}"),
    }
}

fn count_of(store: &LocalStore, thread: u32) -> u32 {
    let range = colibri_txn::KeyRange {
        low: std::ops::Bound::Included(colibri_txn::Key::from_slice(&thread.to_be_bytes())),
        high: std::ops::Bound::Excluded(colibri_txn::Key::from_slice(&(thread + 1).to_be_bytes())),
    };
    begin(store, read_only()).count(&ledger(), &range).unwrap() as u32
}

fn kill_and_look(seed: u64, rounds: u32) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut txn = begin(&store, write());
    txn.create_space(rows().id).unwrap();
    txn.create_space(ledger().id).unwrap();
    txn.set(1, 0);
    txn.commit().unwrap().wait().unwrap();
    drop(store);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut acknowledged_ever = 0;
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            let mut acknowledged = [0; THREADS as usize];
            for line in out.lines().map_while(Result::ok) {
                let words: Vec<_> = line.split(' ').collect();
                if let ["done", thread, n] = words[..] {
                    acknowledged[thread.parse::<usize>().unwrap()] = n.parse().unwrap();
                }
            }
            acknowledged
        });
        std::thread::sleep(Duration::from_millis(rng.random_range(30..200)));
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged: [u32; THREADS as usize] = reader.join().unwrap();
        acknowledged_ever += acknowledged.iter().sum::<u32>();
        let store = open(dir.path());
        let mut done = 0;
        for (thread, &acknowledged) in (0..).zip(&acknowledged) {
            let there = count_of(&store, thread);
            done += there;
            assert!(there >= acknowledged, "seed {seed}, round {round}: {there} of {acknowledged} acknowledged");
        }
        assert_eq!(begin(&store, read_only()).a(1), i64::from(done), "seed {seed}, round {round}: half a transaction");
        store.database().check().unwrap();
    }
    assert!(acknowledged_ever > 0, "every child was killed before it had done anything");
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    kill_and_look(1, 5);
}

#[test]
#[ignore = "many kills: minutes"]
fn what_was_acknowledged_survives_many_kills() {
    for seed in 0..20 {
        kill_and_look(seed, 30);
    }
}

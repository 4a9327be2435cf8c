//! Writers in several processes and handles: they take turns, learn from the files what the others
//! did, and when one is killed, the next goes on from its last commit.
//!
//! Two handles in one process behave like two processes, and most of what is about handing over is
//! tested with them.

#![allow(clippy::unwrap_used)]

mod child;
mod ledger;

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use child::{Alarm, Child, Role};
use colibri_storage::{Database, Durability, Error, Options, Snapshot, TableKind};
use ledger::{advance, assert_clean, commit_next, mix, state_of, verify};

/// Makes steady points all the time.
const RESTLESS: Durability = Durability::Lazy { bytes: 40_000, period: Duration::from_millis(2) };
const MODES: [(&str, Durability); 5] = [
    ("sync", Durability::Sync),
    ("sync-no-log", Durability::SyncNoLog),
    ("nosync", Durability::NoSync),
    ("lazy", Durability::LAZY),
    ("restless", RESTLESS),
];

fn open(dir: &Path, durability: Durability) -> Database {
    Database::open(dir, &Options::new().durability(durability)).unwrap()
}

#[test]
fn a_child_process_plays_its_role() {
    let Some(role) = Role::of_this_process() else { return };
    let (play, mode) = role.name.split_once(' ').expect("a role is a play and a mode");
    let (_, durability) = MODES.into_iter().find(|(name, _)| *name == mode).expect("a mode's name");
    let db = open(&role.dir, durability);
    match play {
        "obey" => obey(&role, &db),
        "commit" => commit_without_end(&role, &db),
        "count" => count_up(&role, &db),
        other => panic!("no such play: {other}"),
    }
}

/// Nobody is passed for ever by those who come again as soon as they have committed.
#[test]
fn threads_that_commit_without_a_pause_get_equal_shares() {
    const THREADS: usize = 8;
    /// So many that they take a second or so, which the scheduler of a busy machine divides among
    /// the threads.
    const COMMITS: u64 = 200_000;
    let _alarm = Alarm::set("threads that commit", Duration::from_secs(120));
    for durability in [Durability::NoSync, Durability::SyncNoLog, Durability::Sync] {
        let commits = if durability == Durability::NoSync { COMMITS } else { COMMITS / 50 };
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), durability);
        let total = AtomicU64::new(0);
        let start = Barrier::new(THREADS);
        let shares: Vec<u64> = std::thread::scope(|scope| {
            let thread = |index: usize| {
                let (db, total, start) = (&db, &total, &start);
                move || {
                    start.wait();
                    let mut share = 0;
                    while total.fetch_add(1, Ordering::Relaxed) < commits {
                        let mut txn = db.write().unwrap();
                        let table = txn.create_table("table", TableKind::Plain).unwrap();
                        txn.put(&table, &[index as u8], &[share as u8; 20]).unwrap();
                        txn.commit().unwrap();
                        share += 1;
                    }
                    share
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|index| scope.spawn(thread(index))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        println!("{durability:?}: {shares:?}");
        assert_eq!(shares.iter().sum::<u64>(), commits);
        let least = commits / THREADS as u64 / 3;
        assert!(shares.iter().all(|&share| share >= least), "{durability:?}: {shares:?}");
    }
}

/// Does as the parent says, and tells the state it reached.
fn obey(role: &Role, db: &Database) {
    let mut unfinished = None;
    role.say("open");
    while let Some(command) = role.hear() {
        match command.as_str() {
            "commit" => _ = commit_next(db).unwrap(),
            "sync" => db.sync().unwrap(),
            "check" => assert_clean(db),
            "abort" => {
                let mut txn = db.write().unwrap();
                advance(&mut txn).unwrap();
            }
            "begin" => {
                let mut txn = db.write().unwrap();
                advance(&mut txn).unwrap();
                unfinished = Some(txn);
            }
            other => panic!("no such command: {other}"),
        }
        role.say(&verify(&db.read().unwrap()).to_string());
    }
    drop(unfinished);
}

/// Commits until it is killed, and tells each state.
fn commit_without_end(role: &Role, db: &Database) {
    role.say("open");
    loop {
        let state = commit_next(db).unwrap();
        role.say(&state.to_string());
        if mix(state).is_multiple_of(50) {
            db.sync().unwrap();
        }
    }
}

/// Adds one to a number, again and again, with others.
fn count_up(role: &Role, db: &Database) {
    let times: u64 = role.hear().unwrap().parse().unwrap();
    for _ in 0..times {
        increment(db);
    }
    role.say("done");
}

fn increment(db: &Database) {
    let mut txn = db.write().unwrap();
    let table = txn.create_table("counter", TableKind::Plain).unwrap();
    let old = txn.get(&table, b"n").unwrap().map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    txn.put(&table, b"n", &(old + 1).to_le_bytes()).unwrap();
    txn.put(&table, &mix(old).to_be_bytes(), &old.to_le_bytes()).unwrap();
    txn.commit().unwrap();
}

#[test]
fn two_processes_take_turns_in_every_mode() {
    for (name, durability) in MODES {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), durability);
        let mut other = Child::start(&format!("obey {name}"), dir.path());
        assert_eq!(other.hear(), "open");
        let mut state = 0;
        for turn in 0..60 {
            for _ in 0..mix(turn) % 4 {
                state += 1;
                assert_eq!(commit_next(&db).unwrap(), state);
            }
            for _ in 0..(mix(turn) >> 8) % 4 {
                state += 1;
                assert_eq!(other.ask("commit"), state.to_string());
            }
            match (mix(turn) >> 16) % 8 {
                0 => db.sync().unwrap(),
                1 => _ = other.ask("sync"),
                2 => assert_eq!(other.ask("abort"), state.to_string()),
                3 => drop(advance(&mut db.write().unwrap())),
                4 => assert_clean(&db),
                5 => assert_eq!(other.ask("check"), state.to_string()),
                _ => {}
            }
            assert_eq!(verify(&db.read().unwrap()), state, "{name}, turn {turn}");
        }
        assert_clean(&db);
        // What changes hands is not lost: a state takes some 15 pages of some 70.
        let pages = db.stat().unwrap().pages;
        assert!(pages < 2500, "{name}: {pages} pages");
        other.finish();
        db.close().unwrap();
        let db = open(dir.path(), durability);
        assert_eq!(verify(&db.read().unwrap()), state);
        assert_clean(&db);
    }
}

#[test]
fn processes_that_write_at_once_lose_no_update() {
    const TIMES: u64 = 150;
    for (name, durability) in MODES {
        let _alarm = Alarm::set("two processes and two threads that count", Duration::from_secs(60));
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), durability);
        let mut others: Vec<Child> = (0..2).map(|_| Child::start(&format!("count {name}"), dir.path())).collect();
        for other in &mut others {
            other.say(&TIMES.to_string());
        }
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..TIMES).for_each(|_| increment(&db)));
            }
        });
        for mut other in others {
            assert_eq!(other.hear(), "done");
            other.finish();
        }
        let snapshot = db.read().unwrap();
        let table = snapshot.table("counter").unwrap();
        assert_eq!(snapshot.get(&table, b"n").unwrap(), Some(&(4 * TIMES).to_le_bytes()[..]));
        let view = snapshot.view(&table).unwrap();
        assert_eq!(view.len(), 4 * TIMES + 1);
        for n in 0..4 * TIMES {
            assert_eq!(view.get(&mix(n).to_be_bytes()).unwrap(), Some(&n.to_le_bytes()[..]));
        }
        drop(snapshot);
        assert_clean(&db);
    }
}

#[test]
fn weak_commits_change_hands_over_and_over_between_two_steady_points() {
    let dir = tempfile::tempdir().unwrap();
    let handles = [open(dir.path(), Durability::NoSync), open(dir.path(), Durability::NoSync)];
    let mut kept: Vec<(Snapshot<'_>, u64)> = Vec::new();
    let mut state = 0;
    for turn in 0..400_u64 {
        let db = &handles[(mix(turn) % 2) as usize];
        for _ in 0..(mix(turn) >> 8) % 3 {
            state += 1;
            assert_eq!(commit_next(db).unwrap(), state);
        }
        let reader = &handles[(mix(turn) >> 16) as usize % 2];
        if mix(turn ^ 77).is_multiple_of(5) {
            kept.push((reader.read().unwrap(), state));
        }
        if kept.len() > 6 {
            let (snapshot, state) = kept.swap_remove((mix(turn) >> 24) as usize % kept.len());
            assert_eq!(verify(&snapshot), state, "turn {turn}");
        }
        if mix(turn ^ 99).is_multiple_of(40) {
            db.sync().unwrap();
        }
    }
    for (snapshot, state) in &kept {
        assert_eq!(verify(snapshot), *state);
    }
    drop(kept);
    for db in &handles {
        assert_eq!(verify(&db.read().unwrap()), state);
        assert_clean(db);
    }
}

/// Bug: whoever took over the writing made all free pages of the last steady point ready.
/// Consequence: pages that older snapshots still read were overwritten under them. Fix: while a
/// snapshot older than the steady point lives, they wait for it.
#[test]
fn a_snapshot_older_than_the_steady_point_survives_a_handover() {
    for weak in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (open(dir.path(), Durability::NoSync), open(dir.path(), Durability::NoSync));
        for _ in 0..5 {
            commit_next(&a).unwrap();
        }
        let old = a.read().unwrap();
        let state = verify(&old);
        for _ in 0..5 {
            commit_next(&a).unwrap();
        }
        let middle = a.read().unwrap();
        a.sync().unwrap();
        let pages = a.stat().unwrap().pages;
        for _ in 0..weak {
            commit_next(&a).unwrap();
        }
        let newer = a.read().unwrap();
        for _ in 0..10 {
            commit_next(&b).unwrap();
            commit_next(&b).unwrap();
            assert_eq!(verify(&old), state);
            assert_eq!(verify(&middle), state + 5);
            assert_eq!(verify(&newer), state + 5 + weak);
            commit_next(&a).unwrap();
            assert_eq!(verify(&old), state);
            assert_eq!(verify(&middle), state + 5);
            assert_eq!(verify(&newer), state + 5 + weak);
        }
        // With the last of them gone, what they held back is free again.
        drop((old, middle, newer));
        a.sync().unwrap();
        let grown = a.stat().unwrap().pages;
        for _ in 0..200 {
            commit_next(&a).unwrap();
            commit_next(&a).unwrap();
            a.sync().unwrap();
        }
        // The one leaf that is a run may find no gap that is long enough.
        let now = a.stat().unwrap().pages;
        assert!(now <= grown + 8, "{pages}, {grown}, {now} pages");
        assert_clean(&a);
    }
}

/// What the ledger's newest state, an old one and the copies that commits make of pages need at
/// most.
const LEDGER_PAGES_MAX: u64 = 110;

/// Bug: whoever took over the writing let all free pages wait while a snapshot older than the
/// steady point lived, since nothing told which of them it sees. Consequence: each handover beside
/// a snapshot, be it between processes that take turns or after a writer was killed, made the file
/// longer by what was written, without bound. Fix: what the snapshot reaches waits, and nothing
/// else.
#[test]
fn the_file_does_not_grow_with_the_handovers_beside_a_snapshot() {
    for (name, durability) in MODES {
        for syncs in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (a, b) = (open(dir.path(), durability), open(dir.path(), durability));
            for _ in 0..5 {
                commit_next(&a).unwrap();
            }
            let stuck = a.read().unwrap();
            // Another comes and goes, and there is always one.
            let mut passing = (b.read().unwrap(), 5);
            for turn in 0..60 {
                commit_next(&b).unwrap();
                commit_next(&b).unwrap();
                if syncs {
                    b.sync().unwrap();
                }
                if turn % 4 == 0 {
                    assert_eq!(verify(&passing.0), passing.1);
                    passing = (b.read().unwrap(), 5 + 3 * turn + 2);
                }
                commit_next(&a).unwrap();
                assert_eq!(verify(&stuck), 5, "{name}, turn {turn}");
            }
            let pages = a.stat().unwrap().pages;
            assert!(pages <= LEDGER_PAGES_MAX, "{name}, {syncs}: {pages} pages");
            assert_eq!(verify(&passing.0), passing.1);
            assert_clean(&a);
        }
    }
}

/// As above, with writers that are killed, some of them within a transaction.
#[test]
fn the_file_does_not_grow_with_the_killed_writers_beside_a_snapshot() {
    for (name, durability) in MODES {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), durability);
        for _ in 0..5 {
            commit_next(&db).unwrap();
        }
        let stuck = db.read().unwrap();
        let mut state = 5;
        for round in 0..12 {
            let mut writer = Child::start(&format!("obey {name}"), dir.path());
            assert_eq!(writer.hear(), "open");
            for _ in 0..3 {
                state += 1;
                assert_eq!(writer.ask("commit"), state.to_string());
            }
            if round % 2 == 0 {
                writer.ask("begin");
            }
            writer.kill();
            state += 1;
            assert_eq!(commit_next(&db).unwrap(), state);
            assert_eq!(verify(&stuck), 5, "{name}, round {round}");
        }
        let pages = db.stat().unwrap().pages;
        assert!(pages <= LEDGER_PAGES_MAX, "{name}: {pages} pages");
        assert_clean(&db);
    }
}

#[test]
fn two_handles_of_one_process_see_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (open(dir.path(), Durability::SyncNoLog), open(dir.path(), RESTLESS));
    let txn = a.write().unwrap();
    assert!(matches!(b.try_write(), Err(Error::Busy)));
    assert!(matches!(a.try_write(), Err(Error::Busy)));
    drop(txn);
    for state in 1..50 {
        let (writer, reader) = if mix(state).is_multiple_of(2) { (&a, &b) } else { (&b, &a) };
        assert_eq!(commit_next(writer).unwrap(), state);
        assert_eq!(verify(&reader.read().unwrap()), state);
    }
    let snapshot = b.read().unwrap();
    assert_eq!(a.readers().len(), 1);
    a.close().unwrap();
    assert_eq!(verify(&snapshot), 49);
    drop(snapshot);
    assert_eq!(commit_next(&b).unwrap(), 50);
    assert_clean(&b);
    b.close().unwrap();
    assert_eq!(verify(&open(dir.path(), Durability::Sync).read().unwrap()), 50);
}

/// Bug: `try_write` took the lock of a dead process for that of a live one. Consequence: it said
/// `Busy` for ever if nobody else waited for the lock. Fix: it looks whether the holder lives.
#[test]
fn a_writer_killed_within_a_transaction_leaves_its_last_commit_and_a_free_lock() {
    let _alarm = Alarm::set("writing after a killed writer", Duration::from_secs(60));
    for (name, durability) in MODES {
        for waits in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let db = open(dir.path(), durability);
            commit_next(&db).unwrap();
            let mut other = Child::start(&format!("obey {name}"), dir.path());
            assert_eq!(other.hear(), "open");
            assert_eq!(other.ask("commit"), "2");
            assert_eq!(other.ask("begin"), "2");
            assert!(matches!(db.try_write(), Err(Error::Busy)));
            other.kill();
            assert_eq!(verify(&db.read().unwrap()), 2);
            let txn = loop {
                match if waits { db.write() } else { db.try_write() } {
                    // The background thread makes a steady point, or waits to. The alarm ends this.
                    Err(Error::Busy) if durability == RESTLESS && !waits => {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    txn => break txn.unwrap_or_else(|e| panic!("{name}, {waits}: {e}")),
                }
            };
            assert_eq!(state_of(&txn).unwrap(), 2);
            drop(txn);
            assert_eq!(commit_next(&db).unwrap(), 3);
            assert_eq!(verify(&db.read().unwrap()), 3);
            assert_clean(&db);
        }
    }
}

/// Kills a writer at a random time, again and again; `stays` keeps a handle of this process open
/// meanwhile.
fn kill_writers(name: &str, durability: Durability, stays: bool, rounds: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut resident = stays.then(|| open(dir.path(), durability));
    let mut old: Option<(Snapshot<'static>, u64)> = None;
    let mut state = 0;
    for round in 0..rounds {
        let mut writer = Child::start(&format!("commit {name}"), dir.path());
        assert_eq!(writer.hear(), "open");
        if !mix(round).is_multiple_of(3) {
            state = writer.hear().parse().unwrap();
        }
        let delay = Duration::from_micros(mix(round ^ 0xabcd) % 12_000);
        let started = Instant::now();
        while started.elapsed() < delay {
            std::hint::spin_loop();
        }
        for line in writer.kill() {
            state = line.parse().unwrap();
        }
        let _alarm = Alarm::set("going on after a killed writer", Duration::from_secs(30));
        let db = resident.take().unwrap_or_else(|| open(dir.path(), durability));
        // A commit that was on disk and not yet published when its writer died becomes visible with
        // the next writer.
        drop(db.write().unwrap());
        let found = verify(&db.read().unwrap());
        // The writer may have died between committing and saying so.
        assert!(found == state || found == state + 1, "{name}, round {round}: {found} after {state}");
        state = found;
        if let Some((snapshot, state)) = old.take_if(|_| mix(round).is_multiple_of(4)) {
            assert_eq!(verify(&snapshot), state, "{name}, round {round}");
        }
        if !mix(round ^ 5).is_multiple_of(4) {
            state += 1;
            assert_eq!(commit_next(&db).unwrap(), state);
        }
        if mix(round ^ 6).is_multiple_of(3) {
            assert_clean(&db);
        }
        if stays {
            if old.is_none() {
                old = Some((db.read_owned().unwrap(), state));
            }
            resident = Some(db);
        }
    }
    drop(old);
    let db = resident.take().unwrap_or_else(|| open(dir.path(), durability));
    assert_eq!(verify(&db.read().unwrap()), state);
    assert_clean(&db);
    let pages = db.stat().unwrap().pages;
    println!("{name}, a handle stays: {stays}: {state} commits, {pages} pages");
    assert!(pages <= LEDGER_PAGES_MAX, "{name}: {pages} pages");
}

#[test]
fn killed_writers_lose_no_commit_that_the_next_opener_could_miss() {
    for (name, durability) in MODES {
        kill_writers(name, durability, false, 12);
    }
}

#[test]
fn killed_writers_lose_no_commit_that_others_could_miss() {
    for (name, durability) in MODES {
        kill_writers(name, durability, true, 12);
    }
}

#[test]
#[ignore = "a long campaign: cargo test --release -p colibri-storage --test writers -- --ignored"]
fn many_killed_writers_lose_no_commit() {
    for (name, durability) in MODES {
        for stays in [false, true] {
            kill_writers(name, durability, stays, 500);
        }
    }
}

/// Bug: the newest root that the lock file remembered was taken for that of whatever data file lay
/// beside it. Consequence: after a backup was copied over the data file without a restart of the
/// system, the pages of one state were read as another's. Fix: the root page must carry the root's
/// transaction.
#[test]
fn a_backup_copied_over_the_data_file_is_what_the_next_opener_sees() {
    let dir = tempfile::tempdir().unwrap();
    let backup = dir.path().join("backup");
    let data = dir.path().join("data");
    let db = open(dir.path(), Durability::NoSync);
    // Room in the backup for the pages of the states that follow.
    let mut txn = db.write().unwrap();
    let ballast = txn.create_table("ballast", TableKind::Plain).unwrap();
    txn.put(&ballast, b"key", &vec![1; 2 << 20]).unwrap();
    txn.commit().unwrap();
    let mut txn = db.write().unwrap();
    txn.drop_table(&ballast).unwrap();
    txn.commit().unwrap();
    for _ in 0..20 {
        commit_next(&db).unwrap();
    }
    db.close().unwrap();
    std::fs::copy(&data, &backup).unwrap();
    let mut writer = Child::start("commit nosync", dir.path());
    for _ in 0..30 {
        writer.hear();
    }
    writer.kill();
    // Copying writes into the file that is there: it stays the same file to the system.
    std::fs::copy(&backup, &data).unwrap();
    let db = open(dir.path(), Durability::NoSync);
    assert_eq!(verify(&db.read().unwrap()), 20);
    assert_eq!(commit_next(&db).unwrap(), 21);
    assert_clean(&db);
}

#[test]
fn writers_wait_for_each_other_without_giving_up_their_turn() {
    let _alarm = Alarm::set("waiting for a writer", Duration::from_secs(30));
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (open(dir.path(), Durability::NoSync), open(dir.path(), Durability::NoSync));
    commit_next(&a).unwrap();
    let entered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut txn = a.write().unwrap();
        scope.spawn(|| {
            let state = commit_next(&b).unwrap();
            entered.store(true, Ordering::Release);
            assert_eq!(state, 3);
        });
        std::thread::sleep(Duration::from_millis(250));
        assert!(!entered.load(Ordering::Acquire));
        assert_eq!(advance(&mut txn).unwrap(), 2);
        txn.commit().unwrap();
    });
    assert_eq!(verify(&a.read().unwrap()), 3);
}

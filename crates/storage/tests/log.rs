//! The redo log: commits that are durable after one flush, shared by those that come together, and
//! carried out again when the system has forgotten everything else.

#![allow(clippy::unwrap_used)]

mod child;
mod ledger;

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use child::{Alarm, Child, Role};
use colibri_storage::{Database, Durability, Error, Options, TableKind, Ticket, dump};
use ledger::{advance, assert_clean, commit_next, mix, verify};

/// No steady point but those that are asked for.
fn options() -> Options {
    Options::new().log_bytes(1 << 30).log_period(Duration::MAX)
}

fn open(dir: &Path) -> Database {
    Database::open(dir, &options()).unwrap()
}

/// Makes the next opener take the processes before it for ones from before a crash of the system:
/// what it knows is what the data file and the log say.
fn forget_shared_state(dir: &Path) {
    std::fs::remove_file(dir.join("lock")).unwrap();
}

#[test]
fn a_child_process_plays_its_role() {
    let Some(role) = Role::of_this_process() else { return };
    let options = match role.name.as_str() {
        "commit" => options(),
        // Steady points all the time, in the middle of everything.
        "commit restlessly" => Options::new().log_bytes(64 << 10).log_period(Duration::from_millis(3)),
        other => panic!("no such role: {other}"),
    };
    let db = Database::open(&role.dir, &options).unwrap();
    role.say("open");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    role.say(&commit_next(&db).unwrap().to_string());
                }
            });
        }
    });
}

/// Copies a database as it stands on disk.
fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in ["data", "log.0", "log.1"] {
        if from.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

#[test]
fn what_was_committed_is_carried_out_again() {
    for turns in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let crashed = tempfile::tempdir().unwrap();
        let db = open(dir.path());
        for _ in 0..turns {
            (0..40).for_each(|_| _ = commit_next(&db).unwrap());
            db.sync().unwrap();
        }
        (0..60).for_each(|_| _ = commit_next(&db).unwrap());
        let state = 40 * turns + 60;
        copy_files(dir.path(), crashed.path());
        // What the living does afterwards is nothing to the copy.
        commit_next(&db).unwrap();

        let db = open(crashed.path());
        assert_eq!(db.recovery().transactions, 60, "{turns} turns");
        assert_eq!(verify(&db.read().unwrap()), state);
        assert_clean(&db);
        assert_eq!(commit_next(&db).unwrap(), state + 1);
        db.close().unwrap();
        let db = open(crashed.path());
        assert_eq!(db.recovery().transactions, 0);
        assert_eq!(verify(&db.read().unwrap()), state + 1);
    }
}

#[test]
fn every_operation_is_carried_out_again() {
    let dir = tempfile::tempdir().unwrap();
    let crashed = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let dump_of = |db: &Database| {
        let mut text = Vec::new();
        dump::dump(&db.read().unwrap(), None, &mut text).unwrap();
        text
    };
    let kinds = [("plain", TableKind::Plain), ("multi", TableKind::Multi), ("integer", TableKind::Integer)];
    for round in 0..40_u64 {
        let mut txn = db.write().unwrap();
        for (name, kind) in kinds {
            let table = txn.create_table(name, kind).unwrap();
            let key = |n: u64| (mix(n) % 500).to_be_bytes();
            for n in round * 20..round * 20 + 20 {
                let value = vec![n as u8; if n % 97 == 0 { 9000 } else { (n % 50) as usize }];
                let value = if kind == TableKind::Multi { &value[..value.len().min(40)] } else { &value };
                match mix(n) >> 32 & 7 {
                    0 => _ = txn.delete(&table, &key(n)).unwrap(),
                    1 => _ = txn.insert(&table, &key(n), value).unwrap(),
                    2 if kind == TableKind::Multi => _ = txn.delete_value(&table, &key(n), value).unwrap(),
                    _ => txn.put(&table, &key(n), value).unwrap(),
                }
            }
            if round % 9 == 3 {
                txn.delete_range(&table, &key(round)[..]..).unwrap();
            }
            if round % 13 == 5 {
                let last = 1000 + round;
                txn.load_sorted(&table, (last..last + 5).map(|n| (n.to_be_bytes(), b"loaded"))).unwrap();
            }
            let mut nested = txn.nested();
            nested.put(&table, &key(round), b"nested").unwrap();
            if round % 2 == 0 {
                nested.commit()
            } else {
                nested.abort()
            }
            match round {
                17 => txn.clear_table(&table).unwrap(),
                23 => txn.drop_table(&table).unwrap(),
                _ => {}
            }
        }
        txn.commit().unwrap();
    }
    let expected = dump_of(&db);
    copy_files(dir.path(), crashed.path());
    let db = open(crashed.path());
    assert_eq!(db.recovery().transactions, 40);
    assert!(dump_of(&db) == expected, "the two differ");
    assert_clean(&db);
}

#[test]
fn a_transaction_too_long_for_the_log_is_durable_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let crashed = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    commit_next(&db).unwrap();
    let mut txn = db.write().unwrap();
    advance(&mut txn).unwrap();
    let ballast = txn.create_table("ballast", TableKind::Plain).unwrap();
    txn.put(&ballast, b"key", &vec![7; 3 << 20]).unwrap();
    txn.commit().unwrap();
    commit_next(&db).unwrap();
    copy_files(dir.path(), crashed.path());
    let db = open(crashed.path());
    // The one behind the long one.
    assert_eq!(db.recovery().transactions, 1);
    assert_eq!(verify(&db.read().unwrap()), 3);
    let snapshot = db.read().unwrap();
    assert_eq!(snapshot.get(&ballast, b"key").unwrap().map(<[u8]>::len), Some(3 << 20));
}

#[test]
fn a_log_that_breaks_off_anywhere_gives_the_commits_before() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    commit_next(&db).unwrap();
    db.sync().unwrap();
    for _ in 0..6 {
        commit_next(&db).unwrap();
    }
    let crashed = tempfile::tempdir().unwrap();
    copy_files(dir.path(), crashed.path());
    let data = std::fs::read(crashed.path().join("data")).unwrap();
    let used_of = |log: &[u8]| log.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let read = |name: &&str| std::fs::read(crashed.path().join(name)).unwrap_or_default();
    // The six are in one file, the first commit is in the other.
    let name = ["log.0", "log.1"].into_iter().max_by_key(|name| used_of(&read(name))).unwrap();
    let mut found = [0; 8];
    let log = std::fs::read(crashed.path().join(name)).unwrap();
    let used = used_of(&log);
    for cut in (0..used + 100).step_by(331) {
        std::fs::write(crashed.path().join("data"), &data).unwrap();
        let mut damaged = log.clone();
        // What is lost is what was there before, zeros or garbage.
        damaged[cut.min(log.len())..].iter_mut().for_each(|byte| *byte = if cut % 2 == 0 { 0 } else { 0xa5 });
        std::fs::write(crashed.path().join(name), &damaged).unwrap();
        let _ = std::fs::remove_file(crashed.path().join("lock"));
        let db = open(crashed.path());
        let state = verify(&db.read().unwrap());
        found[state as usize] += 1;
        assert_clean(&db);
        // And it goes on from there, without the rest coming back.
        assert_eq!(commit_next(&db).unwrap(), state + 1);
        drop(db);
        assert_eq!(verify(&open(crashed.path()).read().unwrap()), state + 1);
    }
    assert!(found[1..].iter().filter(|&&times| times > 0).count() > 3, "{found:?}");
}

/// The records behind a lost one were written behind it, and do not fit behind the one that takes
/// its place, even if that says the same.
#[test]
fn commits_that_a_crash_took_do_not_come_back_behind_a_repeated_one() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    commit_next(&db).unwrap();
    db.sync().unwrap();
    let before = tempfile::tempdir().unwrap();
    copy_files(dir.path(), before.path());
    let put = |db: &Database, key: &[u8]| {
        let mut txn = db.write().unwrap();
        let table = txn.create_table("repeated", TableKind::Plain).unwrap();
        txn.put(&table, key, b"value").unwrap();
        txn.commit().unwrap();
    };
    put(&db, b"first");
    put(&db, b"second");
    // The second reached the disk and the first did not.
    let crashed = tempfile::tempdir().unwrap();
    copy_files(dir.path(), crashed.path());
    std::fs::copy(before.path().join("data"), crashed.path().join("data")).unwrap();
    for name in ["log.0", "log.1"] {
        let Ok(mut log) = std::fs::read(crashed.path().join(name)) else { continue };
        let start = log.iter().position(|&byte| byte != 0).unwrap_or(0);
        if log[start..].windows(5).any(|bytes| bytes == b"first") {
            let at = log.windows(5).position(|bytes| bytes == b"first").unwrap();
            log[at..at + 5].fill(0);
            std::fs::write(crashed.path().join(name), &log).unwrap();
        }
    }
    let db = open(crashed.path());
    assert!(db.read().unwrap().table("repeated").is_err(), "neither is there");
    put(&db, b"first");
    let again = tempfile::tempdir().unwrap();
    copy_files(crashed.path(), again.path());
    let db = open(again.path());
    let snapshot = db.read().unwrap();
    let table = snapshot.table("repeated").unwrap();
    assert_eq!(snapshot.get(&table, b"first").unwrap(), Some(&b"value"[..]));
    assert_eq!(snapshot.get(&table, b"second").unwrap(), None);
}

/// Kills writers of several threads at random times. With the lock file gone, the next opener
/// recovers from the disk.
fn kill_writers(role: &str, rounds: u64) {
    let dir = tempfile::tempdir().unwrap();
    let (mut state, mut replayed) = (0, 0);
    for round in 0..rounds {
        let mut writer = Child::start(role, dir.path());
        assert_eq!(writer.hear(), "open");
        if !mix(round).is_multiple_of(3) {
            state = state.max(writer.hear().parse().unwrap());
        }
        let delay = Duration::from_micros(mix(round ^ 0xabcd) % 20_000);
        let started = Instant::now();
        while started.elapsed() < delay {
            std::hint::spin_loop();
        }
        for line in writer.kill() {
            state = state.max(line.parse().unwrap());
        }
        if !mix(round).is_multiple_of(5) {
            forget_shared_state(dir.path());
        }
        let _alarm = Alarm::set("recovering after a killed writer", Duration::from_secs(30));
        let db = open(dir.path());
        replayed += db.recovery().transactions;
        let found = verify(&db.read().unwrap());
        // Each thread may have died between committing and saying so.
        assert!((state..=state + 3).contains(&found), "{role}, round {round}: {found} after {state}");
        state = found;
        if mix(round ^ 6).is_multiple_of(3) {
            assert_clean(&db);
        }
        if !mix(round ^ 5).is_multiple_of(4) {
            state += 1;
            assert_eq!(commit_next(&db).unwrap(), state);
        }
    }
    println!("{role}: {state} commits, {replayed} carried out again");
    assert!(replayed > 0);
}

#[test]
fn killed_writers_lose_no_acknowledged_commit() {
    kill_writers("commit", 15);
    kill_writers("commit restlessly", 15);
}

#[test]
#[ignore = "a long campaign: cargo test --release -p colibri-storage --test log -- --ignored"]
fn many_killed_writers_lose_no_acknowledged_commit() {
    kill_writers("commit", 300);
    kill_writers("commit restlessly", 300);
}

#[test]
fn commits_that_come_together_share_flushes() {
    const WRITERS: u64 = 8;
    const COMMITS: u64 = 100;
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    commit_next(&db).unwrap();
    let before = db.stat().unwrap().log_flushes;
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| (0..COMMITS).for_each(|_| _ = commit_next(&db).unwrap()));
        }
    });
    let flushes = db.stat().unwrap().log_flushes - before;
    println!("{} commits, {flushes} flushes", WRITERS * COMMITS);
    assert!(flushes < WRITERS * COMMITS * 3 / 4, "{flushes} flushes");
    assert_eq!(verify(&db.read().unwrap()), 1 + WRITERS * COMMITS);
    assert_clean(&db);
}

/// Bug: the ticket of a transaction that had changed nothing was for a number that no transaction
/// ever got. Consequence: waiting for it never ended. Fix: it is for the state that the transaction
/// saw.
#[test]
fn the_ticket_of_a_transaction_that_changed_nothing_is_due_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mut txn = db.write().unwrap();
    let table = txn.create_table("t", TableKind::Plain).unwrap();
    txn.put(&table, b"k", b"v").unwrap();
    let last = txn.commit().unwrap();
    let ticket = db.write().unwrap().commit_ticket().unwrap();
    assert!(ticket.is_durable());
    assert_eq!(ticket.wait().unwrap(), last);
}

#[test]
fn snapshots_see_durable_commits_only_unless_they_want_more() {
    for weak_reads in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), &options().weak_reads(weak_reads)).unwrap();
        commit_next(&db).unwrap();
        let mut txn = db.write().unwrap();
        advance(&mut txn).unwrap();
        let ticket = txn.commit_ticket().unwrap();
        assert!(!ticket.is_durable());
        assert_eq!(verify(&db.read().unwrap()), if weak_reads { 2 } else { 1 });
        // The next writer goes on from there all the same.
        let mut txn = db.write().unwrap();
        assert_eq!(advance(&mut txn).unwrap(), 3);
        drop(txn);
        ticket.wait().unwrap();
        assert_eq!(verify(&db.read().unwrap()), 2);
    }
}

#[test]
fn more_commits_can_be_on_their_way_than_there_is_room_for() {
    let _alarm = Alarm::set("tickets that nobody waits for", Duration::from_secs(30));
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mut tickets: Vec<Ticket> = Vec::new();
    for _ in 0..700 {
        let mut txn = db.write().unwrap();
        advance(&mut txn).unwrap();
        tickets.push(txn.commit_ticket().unwrap());
    }
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    assert_eq!(verify(&db.read().unwrap()), 700);
    assert_clean(&db);
}

struct Unpark(std::thread::Thread, AtomicBool);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::Release);
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let unpark = Arc::new(Unpark(std::thread::current(), AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        while !unpark.1.swap(false, Ordering::AcqRel) {
            std::thread::park();
        }
    }
}

#[test]
fn tickets_complete_without_a_thread_that_waits() {
    let _alarm = Alarm::set("tickets as futures", Duration::from_secs(30));
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    for _ in 0..50 {
        let mut txn = db.write().unwrap();
        advance(&mut txn).unwrap();
        let ticket = txn.commit_ticket().unwrap();
        let txn = ticket.txn();
        assert_eq!(block_on(ticket).unwrap(), txn);
        assert!(db.read().unwrap().txn() >= txn);
    }
    assert_eq!(verify(&db.read().unwrap()), 50);
}

#[test]
fn the_log_stays_within_its_bound() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new().log_bytes(256 << 10)).unwrap();
    for _ in 0..600 {
        commit_next(&db).unwrap();
    }
    let bytes: u64 =
        ["log.0", "log.1"].iter().filter_map(|name| dir.path().join(name).metadata().ok()).map(|log| log.len()).sum();
    assert!(bytes <= 2 * 5 * (256 << 10), "{bytes} bytes");
    assert_eq!(verify(&db.read().unwrap()), 600);
    db.close().unwrap();
    assert!(!dir.path().join("log.0").exists() && !dir.path().join("log.1").exists(), "a closed database has no log");
    assert_eq!(verify(&open(dir.path()).read().unwrap()), 600);
}

#[test]
#[ignore = "writes 3 GB: cargo test --release -p colibri-storage --test log -- --ignored --nocapture a_gigabyte"]
fn a_gigabyte_of_log_is_carried_out_again_in_seconds() {
    const LOG_BYTES: u64 = 1_000_000_000;
    const RECORDS: u64 = 1_000_000;
    const PUTS: u64 = 8;
    const VALUE_BYTES: u64 = 110;
    let dir = tempfile::tempdir().unwrap();
    let crashed = tempfile::tempdir().unwrap();
    let options = options().log_bytes(2 * LOG_BYTES);
    let db = Database::open(dir.path(), &options).unwrap();
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Integer).unwrap();
    txn.load_sorted(&table, (0..RECORDS).map(|n| (n.to_be_bytes(), [0; VALUE_BYTES as usize]))).unwrap();
    txn.commit().unwrap();
    db.sync().unwrap();
    let transactions = LOG_BYTES / (PUTS * (8 + VALUE_BYTES));
    let mut last = None;
    for n in 0..transactions {
        let mut txn = db.write().unwrap();
        for put in 0..PUTS {
            let key = mix(n * PUTS + put) % RECORDS;
            // Another one throughout: the log tells all of it.
            let mut value = [(n * PUTS + put) as u8; VALUE_BYTES as usize];
            value[..8].copy_from_slice(&n.to_le_bytes());
            txn.put(&table, &key.to_be_bytes(), &value).unwrap();
        }
        last = Some(txn.commit_ticket().unwrap());
    }
    last.expect("there are transactions").wait().unwrap();
    copy_files(dir.path(), crashed.path());
    let started = Instant::now();
    let reopened = Database::open(crashed.path(), &options).unwrap();
    let (took, recovery) = (started.elapsed(), reopened.recovery());
    println!("{} transactions from {} bytes of log in {took:.1?}", recovery.transactions, recovery.log_bytes);
    assert!(took < Duration::from_secs(100), "{took:?}");
    assert_eq!(recovery.transactions, transactions);
    assert!(recovery.log_bytes >= LOG_BYTES);
    assert_clean(&reopened);
    let (old, new) = (db.read().unwrap(), reopened.read().unwrap());
    let entries = |snapshot: &colibri_storage::Snapshot<'_>| snapshot.view(&table).unwrap().len();
    assert_eq!(entries(&old), entries(&new));
    let (old, new) = (old.view(&table).unwrap(), new.view(&table).unwrap());
    for (old, new) in old.range(..).unwrap().zip(new.range(..).unwrap()) {
        let ((old_key, old_value), (new_key, new_value)) = (old.unwrap(), new.unwrap());
        assert!(old_key.as_slice() == new_key.as_slice() && *old_value == *new_value);
    }
}

#[test]
fn those_who_write_at_once_agree_on_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let other = Options::new().durability(Durability::NoSync);
    let e = Database::open(dir.path(), &other).unwrap_err();
    assert!(matches!(e, Error::DurabilityDiffers { .. }), "{e}");
    assert!(e.to_string().contains("Durability::Sync"), "{e}");
    commit_next(&db).unwrap();
    // Who only reads may come, and sees what is durable.
    let reader = Database::open(dir.path(), &other.clone().read_only(true)).unwrap();
    assert_eq!(verify(&reader.read().unwrap()), 1);
    drop(reader);
    db.close().unwrap();
    assert_eq!(commit_next(&Database::open(dir.path(), &other).unwrap()).unwrap(), 2);
}

#[test]
fn a_database_that_must_recover_is_opened_for_reading_where_it_can_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let crashed = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    (0..5).for_each(|_| _ = commit_next(&db).unwrap());
    copy_files(dir.path(), crashed.path());
    let reader = Database::open(crashed.path(), &Options::new().read_only(true)).unwrap();
    assert_eq!(verify(&reader.read().unwrap()), 5);
    assert!(matches!(reader.write(), Err(Error::ReadOnly)));
}

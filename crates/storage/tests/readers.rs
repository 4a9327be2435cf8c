//! Readers in threads and processes while a writer churns: a snapshot stays exactly what it was,
//! whatever happens beside it, and a reader that dies holds nothing back.

#![allow(clippy::unwrap_used)]

mod child;
mod ledger;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use child::{Alarm, Child, Role};
use colibri_storage::{Database, Durability, Error, Options, Snapshot, TableKind};
use ledger::{assert_clean, commit_next, mix, verify};

/// Makes steady points all the time.
const RESTLESS: Durability = Durability::Lazy { bytes: 40_000, period: Duration::from_millis(2) };
/// How long the writer churns in each mode.
const CHURN: Duration = Duration::from_millis(1200);

#[test]
fn a_child_process_plays_its_role() {
    let Some(role) = Role::of_this_process() else { return };
    match role.name.as_str() {
        "reader" => read_and_read_again(&role, 1024, true),
        "only reader" => read_and_read_again(&role, 1, false),
        other => panic!("no such role: {other}"),
    }
}

/// Holds snapshots as the parent says: `pin` takes one, `check` verifies it and the newest, `drop`
/// lets go.
fn read_and_read_again(role: &Role, readers_max: u32, read_only: bool) {
    let options = Options::new().durability(Durability::NoSync).create(false).readers_max(readers_max);
    let options = options.read_only(read_only);
    let db = Database::open(&role.dir, &options).unwrap();
    let mut pinned: Option<(Snapshot<'_>, u64)> = None;
    role.say("open");
    while let Some(command) = role.hear() {
        match command.as_str() {
            "pin" => {
                let snapshot = db.read().unwrap();
                let state = verify(&snapshot);
                pinned = Some((snapshot, state));
            }
            "check" => {
                let (snapshot, state) = pinned.as_ref().expect("something is pinned");
                assert_eq!(verify(snapshot), *state);
                assert!(verify(&db.read().unwrap()) >= *state);
            }
            "drop" => pinned = None,
            other => panic!("no such command: {other}"),
        }
        role.say(&format!("{}", pinned.as_ref().map_or(0, |(_, state)| *state)));
    }
}

fn database(dir: &std::path::Path, durability: Durability) -> Database {
    let db = Database::open(dir, &Options::new().durability(durability)).unwrap();
    commit_next(&db).unwrap();
    db
}

/// Pages of the file, in use or not.
fn pages(db: &Database) -> u64 {
    db.stat().unwrap().pages
}

#[test]
fn snapshots_of_threads_stay_what_they_were_while_a_writer_churns() {
    let _alarm = Alarm::set("threads that read", Duration::from_secs(60));
    for durability in [Durability::Sync, Durability::SyncNoLog, Durability::NoSync, RESTLESS] {
        let dir = tempfile::tempdir().unwrap();
        let db = database(dir.path(), durability);
        let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..3_u64 {
                let (db, done, reads) = (&db, &done, &reads);
                scope.spawn(move || {
                    let mut kept: Vec<(Snapshot<'_>, u64)> = Vec::new();
                    let mut newest = 0;
                    let mut turn = thread << 32;
                    while !done.load(Ordering::Relaxed) {
                        turn += 1;
                        let snapshot = db.read().unwrap();
                        let state = verify(&snapshot);
                        assert!(state >= newest, "time went back from {newest} to {state}");
                        newest = state;
                        if mix(turn).is_multiple_of(4) {
                            kept.push((snapshot, state));
                        }
                        if kept.len() > 4 {
                            let (snapshot, state) = kept.swap_remove((mix(turn) >> 8) as usize % kept.len());
                            assert_eq!(verify(&snapshot), state);
                        }
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                    for (snapshot, state) in &kept {
                        assert_eq!(verify(snapshot), *state);
                    }
                });
            }
            let started = Instant::now();
            while started.elapsed() < CHURN {
                commit_next(&db).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        let state = verify(&db.read().unwrap());
        println!("{durability:?}: {state} commits, {} reads", reads.into_inner());
        assert_clean(&db);
        assert!(db.readers().is_empty());
    }
}

#[test]
fn owned_snapshots_travel_between_threads_and_outlive_their_handle() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path(), Durability::NoSync);
    let (send, receive) = std::sync::mpsc::channel::<(Snapshot<'static>, u64)>();
    let checker = std::thread::spawn(move || {
        receive.iter().map(|(snapshot, state)| assert_eq!(verify(&snapshot), state)).count()
    });
    for _ in 0..100 {
        commit_next(&db).unwrap();
        let snapshot = db.read_owned().unwrap();
        let state = verify(&snapshot);
        send.send((snapshot, state)).unwrap();
    }
    let last = db.read_owned().unwrap();
    drop(db);
    drop(send);
    assert_eq!(checker.join().unwrap(), 100);
    assert_eq!(verify(&last), 101);
}

#[test]
fn snapshots_of_processes_stay_what_they_were_while_a_writer_churns() {
    for durability in [Durability::Sync, Durability::SyncNoLog, Durability::NoSync, RESTLESS] {
        let dir = tempfile::tempdir().unwrap();
        let db = database(dir.path(), durability);
        let mut readers: Vec<Child> = (0..2).map(|_| Child::start("reader", dir.path())).collect();
        for reader in &mut readers {
            assert_eq!(reader.hear(), "open");
        }
        let mut pinned = vec![String::from("0"); readers.len()];
        let started = Instant::now();
        let mut turn = 0;
        while started.elapsed() < CHURN {
            let state = commit_next(&db).unwrap();
            turn += 1;
            let at = turn as usize % readers.len();
            match mix(turn) % 8 {
                0 if pinned[at] == "0" => {
                    pinned[at] = readers[at].ask("pin");
                    assert_eq!(pinned[at], state.to_string());
                }
                1 if turn % 40 == 0 && pinned[at] != "0" => pinned[at] = readers[at].ask("drop"),
                2 if pinned[at] != "0" => assert_eq!(readers[at].ask("check"), pinned[at]),
                _ => {}
            }
        }
        let listed: Vec<u32> = db.readers().iter().map(|reader| reader.process).collect();
        for (reader, pinned) in readers.iter_mut().zip(&pinned) {
            assert_eq!(listed.contains(&reader.pid()), pinned != "0");
            if pinned != "0" {
                assert_eq!(reader.ask("check"), *pinned);
            }
        }
        readers.into_iter().for_each(Child::finish);
        assert!(db.readers().is_empty());
        assert_clean(&db);
    }
}

#[test]
fn pages_that_an_old_snapshot_does_not_see_are_reused_while_it_lives() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path(), RESTLESS);
    for _ in 0..100 {
        commit_next(&db).unwrap();
    }
    let old = db.read().unwrap();
    let state = verify(&old);
    for _ in 0..100 {
        commit_next(&db).unwrap();
    }
    db.sync().unwrap();
    let before = pages(&db);
    for _ in 0..1000 {
        commit_next(&db).unwrap();
    }
    db.sync().unwrap();
    let grown = pages(&db) - before;
    // Each state takes more than ten pages.
    assert!(grown < 200, "one old reader held back {grown} pages");
    assert_eq!(verify(&old), state);
}

/// Bug: only a reader in want of a slot looked for dead ones; a writer never did. Consequence: the
/// snapshot of a killed process held its pages back for ever, and the file grew with every commit.
/// Fix: a writer with ever more pages waiting for readers looks whether those are alive.
#[test]
fn a_killed_reader_holds_nothing_back() {
    for durability in [Durability::NoSync, RESTLESS] {
        let dir = tempfile::tempdir().unwrap();
        let db = database(dir.path(), durability);
        let mut reader = Child::start("reader", dir.path());
        assert_eq!(reader.hear(), "open");
        assert_eq!(reader.ask("pin"), "1");
        let pid = reader.pid();
        assert!(db.readers().iter().any(|reader| reader.process == pid && reader.txn == colibri_storage::TxnId(1)));
        for _ in 0..50 {
            commit_next(&db).unwrap();
        }
        assert_eq!(reader.ask("check"), "1");
        reader.kill();
        for _ in 0..300 {
            commit_next(&db).unwrap();
        }
        db.sync().unwrap();
        assert!(db.readers().is_empty(), "{:?}", db.readers());
        let before = pages(&db);
        for _ in 0..600 {
            commit_next(&db).unwrap();
        }
        db.sync().unwrap();
        let grown = pages(&db) - before;
        assert!(durability == Durability::NoSync || grown < 100, "the file still grows: by {grown} pages");
        assert_clean(&db);
    }
}

#[test]
fn the_slot_of_a_killed_reader_is_free_again() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync).readers_max(1);
    let db = Database::open(dir.path(), &options).unwrap();
    commit_next(&db).unwrap();
    let mut reader = Child::start("only reader", dir.path());
    assert_eq!(reader.hear(), "open");
    assert_eq!(reader.ask("pin"), "1");
    assert!(matches!(db.read(), Err(Error::ReadersFull { readers_max: 1 })));
    reader.kill();
    assert_eq!(verify(&db.read().unwrap()), 1);
    assert_eq!(db.readers(), []);
}

#[test]
fn many_readers_that_die_one_after_another_leave_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path(), RESTLESS);
    let mut most = 0;
    for round in 0..12 {
        let mut reader = Child::start("reader", dir.path());
        assert_eq!(reader.hear(), "open");
        reader.ask("pin");
        for _ in 0..20 {
            commit_next(&db).unwrap();
        }
        reader.kill();
        for _ in 0..60 {
            commit_next(&db).unwrap();
        }
        if round == 3 {
            most = pages(&db);
        }
    }
    assert!(pages(&db) < most + most / 2, "from {most} to {} pages", pages(&db));
    assert_clean(&db);
}

/// Bug: a process that had opened the database with a smaller largest size took snapshots of states
/// beyond its map. Consequence: a panic, or a fault in a release build. Fix: such a snapshot is
/// refused with `DatabaseFull`.
#[test]
fn a_snapshot_beyond_the_address_space_of_a_handle_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let large = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    let size_max = 1 << 20;
    let small = Database::open(dir.path(), &Options::new().durability(Durability::NoSync).size_max(size_max)).unwrap();
    let mut txn = large.write().unwrap();
    let table = txn.create_table("t", TableKind::Plain).unwrap();
    txn.put(&table, b"small", b"1").unwrap();
    txn.commit().unwrap();
    assert_eq!(small.read().unwrap().get(&table, b"small").unwrap(), Some(&b"1"[..]));
    let mut txn = large.write().unwrap();
    for n in 0..100_u32 {
        txn.put(&table, &n.to_be_bytes(), &vec![1; 50_000]).unwrap();
    }
    txn.commit().unwrap();
    assert!(matches!(small.read(), Err(Error::DatabaseFull { size_max: found }) if found == size_max));
    assert!(matches!(small.write(), Err(Error::DatabaseFull { size_max: found }) if found == size_max));
    assert_eq!(small.readers(), []);
    assert_eq!(large.read().unwrap().view(&table).unwrap().len(), 101);
    drop(small);
    large.write().unwrap().commit().unwrap();
    assert_clean(&large);
}

/// Bug: a table handle remembered where a transaction number had found it, not in which database.
/// Consequence: used with another database, or with the same one reopened after losing its unsteady
/// tail, it read other pages than the table's. Fix: it remembers the opening, too.
#[test]
fn a_table_handle_of_another_database_finds_the_table_of_its_name() {
    let (dir_a, dir_b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut handles = Vec::new();
    for (dir, value) in [(&dir_a, b"a"), (&dir_b, b"b")] {
        let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
        let mut txn = db.write().unwrap();
        if value == b"b" {
            txn.create_table("another", TableKind::Multi).unwrap();
            let ballast = txn.create_table("ballast", TableKind::Plain).unwrap();
            txn.put(&ballast, b"key", &[0; 9000]).unwrap();
        }
        let table = txn.create_table("t", TableKind::Plain).unwrap();
        txn.put(&table, b"key", value).unwrap();
        txn.commit().unwrap();
        let table = db.read().unwrap().table("t").unwrap();
        handles.push((db, table));
    }
    let [(db_a, table_a), (db_b, table_b)] = &handles[..] else { unreachable!() };
    assert_eq!(db_a.read().unwrap().txn(), db_b.read().unwrap().txn());
    for table in [table_a, table_b] {
        assert_eq!(db_a.read().unwrap().get(table, b"key").unwrap(), Some(&b"a"[..]));
        assert_eq!(db_b.read().unwrap().get(table, b"key").unwrap(), Some(&b"b"[..]));
    }
}

/// The writer's own books, and what another process finds in the pages, come to the same.
#[test]
fn what_a_snapshot_holds_back_is_the_same_for_the_writer_and_for_any_other_process() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path(), Durability::NoSync);
    let other = Database::open(dir.path(), &Options::new().read_only(true)).unwrap();
    let mut snapshots = Vec::new();
    let mut most = Some(0);
    for turn in 0..120_u64 {
        match mix(turn) % 3 {
            0 if snapshots.len() < 6 => snapshots.push(db.read().unwrap()),
            1 if snapshots.len() > 4 => drop(snapshots.swap_remove(mix(turn ^ 5) as usize % 5)),
            _ => _ = commit_next(&db).unwrap(),
        }
        if turn == 60 {
            // A tree of several levels, with values in pages of their own, comes and goes.
            let mut txn = db.write().unwrap();
            let table = txn.create_table("passing", TableKind::Integer).unwrap();
            let value = |n: u64| vec![n as u8; if n.is_multiple_of(100) { 20_000 } else { 300 }];
            txn.load_sorted(&table, (0..5000_u64).map(|n| (n.to_be_bytes(), value(n)))).unwrap();
            txn.commit().unwrap();
            snapshots.push(db.read().unwrap());
            let mut txn = db.write().unwrap();
            txn.delete_range(&table, &100_u64.to_be_bytes()[..]..&2000_u64.to_be_bytes()[..]).unwrap();
            txn.commit().unwrap();
            snapshots.push(db.read().unwrap());
            let mut txn = db.write().unwrap();
            txn.drop_table(&table).unwrap();
            txn.commit().unwrap();
        }
        for reader in db.readers() {
            assert!(reader.bytes_held.is_some());
            assert_eq!(other.bytes_held(&reader).unwrap(), reader.bytes_held, "turn {turn}: {reader:?}");
            most = most.max(reader.bytes_held);
        }
    }
    assert!(most > Some(1 << 20), "{most:?}");
    // The free map's pages, which the writer counts as well, are no snapshot's.
    db.sync().unwrap();
    for reader in db.readers() {
        assert!(other.bytes_held(&reader).unwrap() <= reader.bytes_held);
    }
    let readers = db.readers();
    drop(snapshots);
    assert!(readers.iter().all(|reader| other.bytes_held(reader).unwrap().is_none()));
    assert_clean(&db);
}

/// Bug: all pages of a snapshot older than the steady point were taken to have a checksum.
/// Consequence: of those that were free again by then, and so have none, another process said that
/// they were damaged. Fix: their form alone is verified.
#[test]
fn what_a_snapshot_held_before_the_steady_point_is_no_damage_to_who_comes_after() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path(), Durability::NoSync);
    let weak = commit_next(&db).unwrap();
    let snapshot = db.read().unwrap();
    commit_next(&db).unwrap();
    let held = db.readers()[0].bytes_held;
    db.sync().unwrap();
    let other = Database::open(dir.path(), &Options::new().read_only(true)).unwrap();
    assert_eq!(other.bytes_held(&other.readers()[0]).unwrap(), held);
    assert_eq!(verify(&snapshot), weak);
}

/// Asking keeps nothing from anybody, finds no damage where there is none, and never takes what it
/// cannot have.
#[test]
fn what_snapshots_hold_back_can_be_asked_while_they_come_and_go() {
    let _alarm = Alarm::set("asking what snapshots hold back", Duration::from_secs(60));
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path(), RESTLESS);
    let other = Database::open(dir.path(), &Options::new().read_only(true)).unwrap();
    let (done, found, gone) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                for turn in 0.. {
                    let snapshot = db.read().unwrap();
                    let state = verify(&snapshot);
                    if mix(turn ^ thread).is_multiple_of(3) {
                        std::thread::sleep(Duration::from_micros(mix(turn) % 2000));
                        assert_eq!(verify(&snapshot), state);
                    }
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for reader in other.readers() {
                    match other.bytes_held(&reader).unwrap() {
                        Some(bytes) => _ = found.fetch_max(bytes + 1, Ordering::Relaxed),
                        None => _ = gone.fetch_add(1, Ordering::Relaxed),
                    }
                }
            }
        });
        let started = Instant::now();
        while started.elapsed() < CHURN {
            commit_next(&db).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(found.load(Ordering::Relaxed) > 1, "{gone:?} were gone");
    assert_clean(&db);
}

#[test]
fn what_is_asked_for_again_is_what_was_found_or_what_would_be() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    let key = |number: u64| (number * 2).to_be_bytes();
    let write = |numbers: &mut dyn Iterator<Item = u64>, bytes: usize| {
        let mut txn = db.write().unwrap();
        let table = txn.create_table("table", TableKind::Plain).unwrap();
        numbers.for_each(|number| txn.put(&table, &key(number), &vec![number as u8; bytes]).unwrap());
        txn.commit().unwrap();
    };
    write(&mut std::iter::empty(), 0);
    let empty = db.read().unwrap();
    let mut open = empty.open(&empty.table("table").unwrap()).unwrap();
    assert!(empty.get_again(&open, &key(1)).unwrap().is_none());
    // Some in leaves, some in pages of their own.
    for (state, bytes) in [(1, 100), (2, 90), (3, 3000)] {
        write(&mut (0..3000).filter(|number| number % state == 0), bytes);
        let snapshot = db.read().unwrap();
        snapshot.reopen(&mut open).unwrap();
        let view = snapshot.view(&snapshot.table("table").unwrap()).unwrap();
        let mut random = 42_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // Every other is not there, nor are some at either end.
            let key = (random >> 33).wrapping_rem(6010).to_be_bytes();
            let expected = view.get(&key).unwrap().map(<[u8]>::to_vec);
            if random >> 32 & 1 == 0 {
                assert_eq!(snapshot.get_open(&open, &key).unwrap(), expected.as_deref());
            }
            assert_eq!(snapshot.get_again(&open, &key).unwrap(), expected.as_deref());
        }
    }
}

#[test]
fn keys_looked_up_together_are_found_as_each_is_alone() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    let mut random = 7_u64;
    let mut next = || {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        random >> 33
    };
    // Trees of no page, of one and of three levels, and values in pages of their own.
    for (round, (entries, bytes)) in [(0, 0), (20, 30), (40_000, 40), (1_000, 3_000)].into_iter().enumerate() {
        let mut txn = db.write().unwrap();
        let table = txn.create_table(&format!("table {round}"), TableKind::Plain).unwrap();
        for number in 0..entries {
            txn.put(&table, &(2 * number as u64).to_be_bytes(), &vec![number as u8; bytes]).unwrap();
        }
        txn.commit().unwrap();
        let snapshot = db.read().unwrap();
        let table = snapshot.table(&format!("table {round}")).unwrap();
        let (open, view) = (snapshot.open(&table).unwrap(), snapshot.view(&table).unwrap());
        for _ in 0..300 {
            // Anywhere or near each other, in order or not, there or not, some beyond both ends.
            let (count, start, reach) = (next() % 100, next() % 80_000, 1 << (next() % 20));
            let mut keys: Vec<[u8; 8]> = (0..count).map(|_| (start + next() % reach).to_be_bytes()).collect();
            if next() % 2 == 0 {
                keys.sort_unstable();
            }
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let wanted = (next() % 120) as usize;
            let mut found = Vec::new();
            let take = |at: usize, value: Option<&[u8]>| {
                assert_eq!(at, found.len());
                found.push(value.map(<[u8]>::to_vec));
                if found.len() >= wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            snapshot.get_many(&open, &keys, take).unwrap();
            assert_eq!(found.len(), keys.len().min(wanted.max(1)));
            for (key, found) in keys.iter().zip(found) {
                assert_eq!(found.as_deref(), view.get(key).unwrap());
            }
        }
    }
}

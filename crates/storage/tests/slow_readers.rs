//! Snapshots that live long: what they hold back and what the listing says of it, what each policy
//! does about it, and that a parked snapshot is what it was or is an error.

#![allow(clippy::unwrap_used)]

mod child;
mod ledger;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use child::{Alarm, Child, Role};
use colibri_storage::{
    Database, Durability, Error, Options, ParkedSnapshot, ReaderInfo, ReaderLimits, SlowReaderAnswer, SlowReaders,
    TableKind,
};
use ledger::{advance, assert_clean, commit_next, mix, verify};

/// Makes steady points all the time.
const RESTLESS: Durability = Durability::Lazy { bytes: 40_000, period: Duration::from_millis(2) };
const MODES: [Durability; 4] = [Durability::Sync, Durability::SyncNoLog, Durability::NoSync, RESTLESS];
/// Less than one old state of the ledger holds back.
const LITTLE: u64 = 16 << 10;

#[test]
fn a_child_process_plays_its_role() {
    let Some(role) = Role::of_this_process() else { return };
    assert_eq!(role.name, "park");
    let db = Database::open(&role.dir, &Options::new().read_only(true)).unwrap();
    let mut parked = db.read().unwrap().park();
    role.say("parked");
    while let Some(command) = role.hear() {
        assert_eq!(command, "look");
        match parked.resume() {
            Ok(snapshot) => {
                let state = verify(&snapshot);
                parked = snapshot.park();
                role.say(&state.to_string());
            }
            Err(Error::Evicted { txn }) => {
                parked = db.read().unwrap().park();
                role.say(&format!("evicted {txn}"));
            }
            Err(e) => panic!("{e}"),
        }
    }
}

fn database(dir: &Path, durability: Durability, policy: SlowReaders) -> Database {
    let db = Database::open(dir, &Options::new().durability(durability).slow_readers(policy)).unwrap();
    commit_next(&db).unwrap();
    db
}

fn commit_many(db: &Database, count: u64) {
    (0..count).for_each(|_| _ = commit_next(db).unwrap());
}

fn asking(bytes: u64, ask: impl Fn(&ReaderInfo) -> SlowReaderAnswer + Send + Sync + 'static) -> SlowReaders {
    SlowReaders::Ask { limits: ReaderLimits::new().bytes(bytes), ask: Arc::new(ask) }
}

/// The state of a parked snapshot, or `None` if it was evicted.
fn look(parked: ParkedSnapshot) -> Option<u64> {
    let txn = parked.txn();
    match parked.resume() {
        Ok(snapshot) => {
            assert_eq!(snapshot.txn(), txn);
            Some(verify(&snapshot))
        }
        Err(Error::Evicted { txn: evicted }) => {
            assert_eq!(evicted, txn);
            None
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn a_parked_snapshot_is_exactly_what_it_was_where_nobody_evicts() {
    let never = |_: &ReaderInfo| SlowReaderAnswer::Grow;
    for durability in MODES {
        for policy in
            [SlowReaders::Grow, SlowReaders::Evict { limits: ReaderLimits::new().bytes(1 << 30) }, asking(0, never)]
        {
            let dir = tempfile::tempdir().unwrap();
            let db = database(dir.path(), durability, policy);
            let mut parked: Vec<(ParkedSnapshot, u64)> = Vec::new();
            for turn in 0..30 {
                let snapshot = db.read().unwrap();
                let state = verify(&snapshot);
                parked.push((snapshot.park(), state));
                commit_many(&db, mix(turn) % 10);
            }
            assert!(db.readers().iter().all(|reader| reader.parked));
            for (parked, state) in parked {
                assert_eq!(look(parked), Some(state));
            }
            assert_eq!(db.readers(), []);
            assert_clean(&db);
        }
    }
}

#[test]
fn an_evicted_snapshot_is_an_error_and_those_that_are_kept_are_what_they_were() {
    for durability in MODES {
        let dir = tempfile::tempdir().unwrap();
        let db = database(dir.path(), durability, SlowReaders::Evict { limits: ReaderLimits::new().bytes(400 << 10) });
        let mut parked: Vec<(ParkedSnapshot, u64)> = Vec::new();
        for _ in 0..40 {
            let snapshot = db.read().unwrap();
            let state = verify(&snapshot);
            parked.push((snapshot.park(), state));
            commit_many(&db, 5);
        }
        let found: Vec<bool> = parked
            .into_iter()
            .map(|(parked, state)| match look(parked) {
                Some(found) => {
                    assert_eq!(found, state);
                    true
                }
                None => false,
            })
            .collect();
        // Those furthest behind go first, and no more than have to.
        let evicted = found.iter().filter(|&&kept| !kept).count();
        assert!(found.is_sorted(), "{durability:?}: {found:?}");
        assert!((5..=35).contains(&evicted), "{durability:?}: {evicted} of 40 evicted");
        assert_eq!(db.readers(), []);
        commit_many(&db, 20);
        assert_clean(&db);
    }
}

/// Bug: the limit was compared with what each snapshot holds back by itself. Consequence: many
/// snapshots, each a little below it, made the file grow as if there were none. Fix: it is compared
/// with what all of them hold back.
#[test]
fn snapshots_that_hold_back_little_each_and_much_together_are_evicted() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = 300 << 10;
    let db = database(dir.path(), RESTLESS, SlowReaders::Evict { limits: ReaderLimits::new().bytes(bytes) });
    let mut parked = Vec::new();
    for _ in 0..60 {
        parked.push(db.read().unwrap().park());
        commit_many(&db, 3);
    }
    // While a steady point is being begun, nobody knows what is held back.
    let known = || {
        let readers = db.readers();
        readers.iter().all(|reader| reader.bytes_held.is_some()).then_some(readers)
    };
    let readers = std::iter::repeat_with(known).flatten().next().unwrap();
    assert!(readers.iter().all(|reader| reader.bytes_held < Some(bytes)), "{readers:?}");
    assert!(readers.len() < 30, "{} are left", readers.len());
    assert!(parked.into_iter().filter_map(look).count() >= 2);
}

/// What a snapshot holds back is little, and it goes by how far it is behind, or by its age.
#[test]
fn a_snapshot_is_slow_by_its_lag_or_its_age_as_well() {
    let _alarm = Alarm::set("limits of lag and age", Duration::from_secs(60));
    for durability in MODES {
        let dir = tempfile::tempdir().unwrap();
        let limits = ReaderLimits::new().lag(20);
        let db = database(dir.path(), durability, SlowReaders::Evict { limits });
        let parked = db.read().unwrap().park();
        commit_many(&db, 20);
        let kept = parked.resume().unwrap();
        assert_eq!(verify(&kept), 1);
        let parked = kept.park();
        commit_many(&db, 2);
        assert_eq!(look(parked), None, "{durability:?}");

        // One that holds nothing back is not slow, however far behind: nothing has been written
        // since.
        let newest = db.read().unwrap();
        let state = verify(&newest);
        let newest = newest.park();
        (0..30).for_each(|_| _ = db.write().unwrap().commit().unwrap());
        assert_eq!(look(newest), Some(state));
        drop(db);

        let limits = ReaderLimits::new().age(Duration::from_millis(150)).bytes(1 << 40);
        let db = database(dir.path(), durability, SlowReaders::Evict { limits });
        let (active, parked) = (db.read().unwrap(), db.read().unwrap().park());
        let state = verify(&active);
        commit_many(&db, 3);
        std::thread::sleep(Duration::from_millis(400));
        commit_many(&db, 2);
        assert_eq!(look(parked), None, "{durability:?}");
        let young = db.read().unwrap().park();
        commit_many(&db, 3);
        assert!(look(young).is_some());
        assert_eq!(verify(&active), state);
        drop(active);
        assert_clean(&db);
    }

    // Waiting by lag ends when the snapshot does.
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path(), Durability::NoSync, SlowReaders::Wait { limits: ReaderLimits::new().lag(3) });
    let reader = db.read().unwrap();
    commit_many(&db, 4);
    assert!(matches!(db.try_write(), Err(Error::Busy)));
    drop(reader);
    commit_many(&db, 10);
}

#[test]
fn an_active_snapshot_is_never_evicted() {
    for durability in MODES {
        let dir = tempfile::tempdir().unwrap();
        let db = database(dir.path(), durability, SlowReaders::Evict { limits: ReaderLimits::new().bytes(LITTLE) });
        let active = db.read().unwrap();
        let resumed = db.read().unwrap().park().resume().unwrap();
        commit_many(&db, 200);
        assert_eq!((verify(&active), verify(&resumed)), (1, 1));
        let parked = active.park();
        commit_many(&db, 50);
        assert_eq!(look(parked), None, "{durability:?}");
        assert_eq!(verify(&resumed), 1);
        drop(resumed);
        assert_eq!(db.readers(), []);
        assert_clean(&db);
    }
}

#[test]
fn snapshots_that_are_parked_and_resumed_while_a_writer_evicts_are_what_they_were_or_an_error() {
    let _alarm = Alarm::set("parking and evicting", Duration::from_secs(60));
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path(), RESTLESS, SlowReaders::Evict { limits: ReaderLimits::new().bytes(LITTLE) });
    let done = std::sync::atomic::AtomicBool::new(false);
    let (kept, evicted) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut held: Option<(ParkedSnapshot, u64)> = None;
                while !done.load(Ordering::Relaxed) {
                    let snapshot = match held.take() {
                        None => db.read_owned().unwrap(),
                        Some((parked, state)) => match parked.resume() {
                            Ok(snapshot) => {
                                kept.fetch_add(1, Ordering::Relaxed);
                                assert_eq!(verify(&snapshot), state);
                                snapshot
                            }
                            Err(e) => {
                                assert!(matches!(e, Error::Evicted { .. }), "{e}");
                                evicted.fetch_add(1, Ordering::Relaxed);
                                continue;
                            }
                        },
                    };
                    let state = verify(&snapshot);
                    held = Some((snapshot.park(), state));
                    std::thread::yield_now();
                }
            });
        }
        commit_many(&db, 3000);
        done.store(true, Ordering::Relaxed);
    });
    println!("{kept:?} kept, {evicted:?} evicted");
    assert!(evicted.into_inner() > 0);
    assert_eq!(db.readers(), []);
    assert_clean(&db);
}

/// Bug: a writer that waited for readers kept the writer's lock. Consequence: no steady point was
/// made meanwhile, so that a commit was at risk for longer than its mode promises, and `try_write`
/// waited. Fix: it waits without the lock.
#[test]
fn a_writer_that_waits_for_a_reader_goes_on_when_that_ends_and_holds_nobody_up() {
    let _alarm = Alarm::set("a writer that waits", Duration::from_secs(60));
    for durability in MODES {
        let dir = tempfile::tempdir().unwrap();
        let db = database(dir.path(), durability, SlowReaders::Wait { limits: ReaderLimits::new().bytes(LITTLE) });
        let reader = db.read().unwrap();
        let refused = (0..100).find_map(|_| match db.try_write() {
            Ok(mut txn) => {
                advance(&mut txn).unwrap();
                txn.commit().unwrap();
                None
            }
            Err(e) => Some(e),
        });
        assert!(matches!(refused, Some(Error::Busy)), "{durability:?}: {refused:?}");
        let newest = verify(&db.read().unwrap());
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| commit_next(&db).unwrap());
            db.sync().unwrap();
            assert_clean(&db);
            std::thread::sleep(Duration::from_millis(30));
            assert!(!writer.is_finished(), "{durability:?}");
            assert_eq!(verify(&db.read().unwrap()), newest);
            assert_eq!(verify(&reader), 1);
            drop(reader);
            assert_eq!(writer.join().unwrap(), newest + 1);
        });
        commit_many(&db, 50);
    }
}

#[test]
fn who_is_asked_is_told_who_is_slow_and_is_obeyed() {
    let _alarm = Alarm::set("asking about a slow reader", Duration::from_secs(60));
    let answer_with = |answers: &'static [SlowReaderAnswer]| {
        let asked = Arc::new(AtomicU32::new(0));
        let policy = asking(LITTLE, {
            let asked = Arc::clone(&asked);
            let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            move |info| {
                assert_eq!((info.process, info.thread, info.txn.0), (std::process::id(), thread, 1));
                assert!(info.bytes_held > Some(LITTLE) && info.lag > 0, "{info:?}");
                let turn = asked.fetch_add(1, Ordering::Relaxed) as usize;
                answers[turn.min(answers.len() - 1)]
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let db = database(dir.path(), RESTLESS, policy);
        (dir, db, asked)
    };
    use SlowReaderAnswer::{Evict, Fail, Grow, Wait};

    // Waiting, and growing in the end.
    let (_dir, db, asked) = answer_with(&[Wait, Wait, Wait, Grow]);
    let reader = db.read().unwrap();
    commit_many(&db, 50);
    assert!(asked.load(Ordering::Relaxed) > 4);
    assert_eq!(verify(&reader), 1);

    // Evicting an active one lets the file grow, evicting a parked one frees its pages.
    let (_dir, db, asked) = answer_with(&[Evict]);
    let reader = db.read().unwrap();
    commit_many(&db, 50);
    assert_eq!(verify(&reader), 1);
    let parked = reader.park();
    commit_many(&db, 1);
    let before = asked.load(Ordering::Relaxed);
    commit_many(&db, 50);
    assert_eq!(asked.load(Ordering::Relaxed), before);
    assert_eq!(look(parked), None);

    // Failing, until the reader ends.
    let (_dir, db, _) = answer_with(&[Fail]);
    let reader = db.read().unwrap();
    let refused = (0..100).find_map(|_| commit_next(&db).err());
    let Some(Error::SlowReader { process, bytes_held, .. }) = refused else { panic!("{refused:?}") };
    assert!(process == std::process::id() && bytes_held > LITTLE);
    assert!(matches!(db.write(), Err(Error::SlowReader { .. })));
    let newest = verify(&db.read().unwrap());
    assert_eq!(verify(&reader), 1);
    drop(reader);
    assert_eq!(commit_next(&db).unwrap(), newest + 1);
    assert_clean(&db);
}

#[test]
fn the_snapshot_of_another_process_is_evicted_when_it_is_parked() {
    for durability in MODES {
        let dir = tempfile::tempdir().unwrap();
        let db = database(dir.path(), durability, SlowReaders::Evict { limits: ReaderLimits::new().bytes(LITTLE) });
        let mut child = Child::start("park", dir.path());
        assert_eq!(child.hear(), "parked");
        assert_eq!(child.ask("look"), "1");
        let listed = db.readers();
        assert!(matches!(&listed[..], [reader] if reader.process == child.pid() && reader.parked), "{listed:?}");
        let evicted = format!("evicted {}", listed[0].txn);
        commit_many(&db, 100);
        assert_eq!(db.readers(), []);
        assert_eq!(child.ask("look"), evicted, "{durability:?}");
        assert_eq!(child.ask("look"), "101");
        child.finish();
        assert_clean(&db);
    }
}

/// Bug: a writer asked about a reader before it looked whether that reader's process is alive.
/// Consequence: transactions failed, or waited, because of a snapshot that nobody has any more.
/// Fix: it looks first.
#[test]
fn a_process_killed_with_a_parked_snapshot_holds_nothing_back() {
    for durability in MODES {
        let dir = tempfile::tempdir().unwrap();
        let db = database(dir.path(), durability, asking(LITTLE, |_| SlowReaderAnswer::Fail));
        let mut child = Child::start("park", dir.path());
        assert_eq!(child.hear(), "parked");
        assert!(matches!((0..100).find_map(|_| commit_next(&db).err()), Some(Error::SlowReader { .. })));
        assert_eq!(child.ask("look"), "1");
        child.kill();
        commit_many(&db, 100);
        assert_eq!(db.readers(), []);
        assert_clean(&db);
    }
}

/// Bug: a thread that took over the slot of another was listed as that one. Consequence: the
/// listing blamed a thread that had no snapshot. Fix: whoever takes a snapshot says which thread it
/// is.
#[test]
fn the_listing_names_the_thread_that_took_the_snapshot() {
    let thread_id = || rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path(), Durability::NoSync, SlowReaders::Grow);
    drop(db.read().unwrap());
    let (snapshot, theirs) =
        std::thread::scope(|scope| scope.spawn(|| (db.read_owned().unwrap(), thread_id())).join().unwrap());
    let mine = db.read().unwrap();
    let mut listed: Vec<u32> = db.readers().iter().map(|reader| reader.thread).collect();
    listed.sort_unstable();
    let mut expected = vec![theirs, thread_id()];
    expected.sort_unstable();
    assert_eq!(listed, expected);
    drop((snapshot, mine));
    assert_eq!(db.readers(), []);
}

#[test]
fn the_listing_tells_how_far_behind_a_snapshot_is_and_what_it_holds_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Integer).unwrap();
    txn.load_sorted(&table, (0..20_000_u64).map(|n| (n.to_be_bytes(), [7; 100]))).unwrap();
    txn.put(&table, &5_u64.to_be_bytes(), &[1; 40_000]).unwrap();
    txn.commit().unwrap();
    db.sync().unwrap();
    let snapshot = db.read().unwrap();
    let stat = snapshot.view(&table).unwrap().stat();
    let one = |db: &Database| {
        let listed = db.readers();
        assert_eq!(listed.len(), 1, "{listed:?}");
        listed[0]
    };
    let reader = one(&db);
    assert_eq!((reader.process, reader.txn, reader.lag), (std::process::id(), snapshot.txn(), 0));
    assert_eq!((reader.parked, reader.bytes_held), (false, Some(0)));

    // Another that holds nothing back does not change what this one does.
    let mut txn = db.write().unwrap();
    txn.clear_table(&table).unwrap();
    txn.commit().unwrap();
    std::thread::sleep(Duration::from_millis(30));
    let mut txn = db.write().unwrap();
    txn.put(&table, &1_u64.to_be_bytes(), b"new").unwrap();
    // What a transaction is about to free is not known yet.
    assert_eq!(one(&db).bytes_held, None);
    txn.commit().unwrap();
    let reader = one(&db);
    // The table, and the one page of the catalogue.
    let pages = stat.leaf_pages + stat.branch_pages + stat.overflow_pages + 1;
    assert_eq!(reader.bytes_held, Some(pages * u64::from(db.page_size())));
    assert_eq!(reader.lag, 2);
    assert!((20..60_000).contains(&reader.age.as_millis()), "{reader:?}");
    let parked = snapshot.park();
    let told = one(&db);
    assert!(told.parked);
    assert_eq!((told.txn, told.lag, told.bytes_held), (reader.txn, 2, reader.bytes_held));

    // Who did not write last cannot tell.
    let other = Database::open(dir.path(), &Options::new().read_only(true)).unwrap();
    let told = one(&other);
    assert_eq!((told.txn, told.lag, told.parked, told.bytes_held), (reader.txn, 2, true, None));
    let other = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    other.write().unwrap().commit().unwrap();
    assert_eq!(one(&db).bytes_held, None);
    assert!(one(&other).bytes_held.unwrap() >= pages * u64::from(db.page_size()));
    assert_eq!(parked.resume().unwrap().view(&table).unwrap().len(), 20_000);
}

#[test]
fn the_file_grows_by_what_a_stuck_reader_needs_and_hardly_more() {
    get_stuck_while(20_000, 50_000, 200_000);
}

#[test]
#[ignore = "takes minutes: cargo test --release -p colibri-storage --test slow_readers -- --ignored --nocapture"]
fn the_file_grows_by_what_a_stuck_reader_needs_and_hardly_more_in_a_million_transactions() {
    get_stuck_while(200_000, 500_000, 1_000_000);
}

/// What a stuck reader needs are the pages of its snapshot that the newest state has no more.
fn get_stuck_while(records: u64, warm_up: u64, transactions: u64) {
    for durability in [Durability::NoSync, Durability::Sync] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), &Options::new().durability(durability).log_bytes(4 << 20)).unwrap();
        let mut txn = db.write().unwrap();
        let table = txn.create_table("table", TableKind::Integer).unwrap();
        txn.load_sorted(&table, (0..records).map(|n| (n.to_be_bytes(), [0; 100]))).unwrap();
        txn.commit().unwrap();
        // Puts a record, changes another, and deletes a third.
        let crud = |turn: u64| {
            let mut txn = db.write().unwrap();
            let key = |salt: u64| (mix(turn * 3 + salt) % (records * 2)).to_be_bytes();
            txn.put(&table, &key(0), &[turn as u8; 100]).unwrap();
            txn.put(&table, &key(1), &[turn as u8; 100]).unwrap();
            txn.delete(&table, &key(2)).unwrap();
            // Nobody waits for it to be durable.
            _ = txn.commit_ticket().unwrap();
        };
        (0..warm_up).for_each(crud);
        db.sync().unwrap();
        (warm_up..2 * warm_up).for_each(crud);
        let before = db.stat().unwrap();
        let snapshot = db.read().unwrap();
        let view = snapshot.view(&table).unwrap();
        let sum = |view: &colibri_storage::View<'_>| {
            let range = view.range(..).unwrap();
            range.fold((0_u64, 0_u64), |(count, sum), entry| {
                let (key, value) = entry.unwrap();
                (count + 1, mix(sum ^ u64::from_be_bytes(key.as_slice().try_into().unwrap()) ^ u64::from(value[0])))
            })
        };
        let expected = sum(&view);
        (2 * warm_up..2 * warm_up + transactions).for_each(crud);
        let after = db.stat().unwrap();
        assert_eq!(sum(&view), expected);
        let needed = db.readers()[0].bytes_held.unwrap() / u64::from(db.page_size());
        let grown = after.pages - before.pages;
        println!("{durability:?}: from {} to {} pages, the reader needs {needed}", before.pages, after.pages);
        let stat = view.stat();
        let snapshot_pages = stat.leaf_pages + stat.branch_pages + stat.overflow_pages + 1;
        // The free map of its time waits for it, too.
        assert!(needed <= snapshot_pages + 8, "{needed} of {snapshot_pages} pages are needed");
        assert!(grown * 10 <= needed * 12, "{durability:?}: {grown} pages for {needed}");
    }
}

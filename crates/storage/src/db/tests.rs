//! Opening and closing beside others that commit, die, or find something damaged.

use std::fs::{self, File};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use super::*;
use crate::log::record::Operation;
use crate::snapshot::Owner;
use crate::{AskSlowReader, ReaderLimits, TableKind, Ticket};

/// The file with the pages.
const DATA_FILE: &str = "data";

/// No steady point but those that are asked for.
fn options() -> Options {
    Options::new().log_bytes(1 << 30).log_period(Duration::MAX)
}

fn open(dir: &Path) -> Database {
    Database::open(dir, &options()).unwrap()
}

fn put(db: &Database, key: &[u8], value: &[u8]) -> Ticket {
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Plain).unwrap();
    txn.put(&table, key, value).unwrap();
    txn.commit_ticket().unwrap()
}

fn commit(db: &Database, key: &[u8], value: &[u8]) {
    put(db, key, value).wait().unwrap();
}

fn has(db: &Database, key: &[u8]) -> bool {
    let snapshot = db.read().unwrap();
    snapshot.table("table").is_ok_and(|table| snapshot.get(&table, key).unwrap().is_some())
}

/// Copies a database as a crash of the system may leave it.
fn crash(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for name in ["data", "log.0", "log.1"] {
        let _ = fs::copy(from.join(name), to.path().join(name));
    }
    to
}

/// Bug: who closed last looked only at its own steady point. Consequence: what another had
/// committed since, before it was killed, went with the log that closing deletes. Fix: a newer root
/// means that there is something to recover.
#[test]
fn the_last_to_close_keeps_the_log_of_one_that_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (closing, killed) = (open(dir.path()), open(dir.path()));
    commit(&closing, b"before", b"");
    closing.sync().unwrap();
    commit(&killed, b"acknowledged", b"");
    killed.die();
    // The rest of closing, behind the final steady point.
    closing.0.core.close_as_last().unwrap();
    closing.die();
    assert!(has(&open(crash(dir.path()).path()), b"acknowledged"));
    assert!(has(&open(dir.path()), b"acknowledged"));
}

/// Bug: a database that had been closed was still attached for a moment, and synced once more.
/// Consequence: who opened it in that moment joined a closed one, whose log had been removed, and
/// was poisoned. Fix: closing ends with leaving.
#[test]
fn who_opens_what_is_being_closed_is_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let closing = open(dir.path());
    commit(&closing, b"before", b"");
    let mut closing = Arc::try_unwrap(closing.0).ok().unwrap();
    closing.finish().unwrap();
    let opened = open(dir.path());
    commit(&opened, b"after", b"");
    assert!(!opened.0.core.shared.others_attached());
    drop(closing);
    commit(&opened, b"and again", b"");
    opened.close().unwrap();
    let db = open(dir.path());
    assert!(has(&db, b"before") && has(&db, b"after") && has(&db, b"and again"));
}

/// Bug: the root that a dead process left was looked at before it was known to be within the file.
/// Consequence: where a shorter file had been put in the data file's place, opening ended the
/// process. Fix: the length comes first.
#[test]
fn a_shorter_file_put_in_place_of_the_data_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    commit(&db, b"in the copy", b"");
    let copy = tempfile::tempdir().unwrap();
    db.copy_to(copy.path(), true).unwrap();
    for key in 0..2000_u32 {
        drop(put(&db, &key.to_be_bytes(), &[0; 500]));
    }
    db.die();
    fs::copy(copy.path().join(DATA_FILE), dir.path().join(DATA_FILE)).unwrap();
    let _ = [fs::remove_file(dir.path().join("log.0")), fs::remove_file(dir.path().join("log.1"))];
    let db = open(dir.path());
    assert!(has(&db, b"in the copy") && !has(&db, &7_u32.to_be_bytes()));
}

/// Bug: looking for the last steady point went on until it was found. Consequence: with its meta
/// page damaged, `stat`, `check` and `backup` never returned, and writers waited. Fix: an older
/// point than the last is damage.
#[test]
fn a_damaged_newest_meta_page_is_reported_and_not_waited_for() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    for key in 0..4_u8 {
        commit(&db, &[key], b"");
        db.sync().unwrap();
    }
    let slot = db.0.core.last_meta.lock().1;
    let file = File::options().write(true).open(dir.path().join(DATA_FILE)).unwrap();
    file.write_all_at(b"damage", u64::from(slot) * u64::from(db.page_size()) + 100).unwrap();
    assert!(matches!(db.backup(None, &mut Vec::new()), Err(Error::Corrupted { .. })));
    assert!(!db.check().unwrap().is_clean());
    assert!(db.try_write().is_ok());
}

/// Bug: a log whose first bytes are zeros was taken for none, and one that a reader had found
/// before any writer came was left as it was. Consequence: a commit that a crash had taken came
/// back behind one that repeated the commit before it. Fix: recovery always gives such a log a new
/// start, and it takes a writer.
#[test]
fn a_commit_that_a_crash_took_stays_away_whoever_opens_first() {
    for reader_first in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path());
        let before = crash(dir.path());
        commit(&db, b"first", &[1; 600]);
        let length = db.0.core.shared.root().log.offset as usize;
        commit(&db, b"second", &[2; 600]);
        let crashed = crash(dir.path());
        fs::copy(before.path().join(DATA_FILE), crashed.path().join(DATA_FILE)).unwrap();
        let path = crashed.path().join("log.0");
        let mut log = fs::read(&path).unwrap();
        if reader_first {
            log[length - 100] ^= 1;
        } else {
            // The sectors that the second record has no part in.
            log[..length / 512 * 512].fill(0);
        }
        fs::write(&path, &log).unwrap();
        let reader =
            reader_first.then(|| Database::open(crashed.path(), &options().read_only(true).create(false)).unwrap());
        let db = open(crashed.path());
        assert!(!has(&db, b"first") && !has(&db, b"second"));
        commit(&db, b"first", &[1; 600]);
        let again = open(crash(crashed.path()).path());
        assert!(has(&again, b"first") && !has(&again, b"second"), "reader first: {reader_first}");
        drop(reader);
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Bug: the thread that flushes for futures woke them only if it had to flush. Consequence: one
/// whose commit another process had made durable slept until the next commit. Fix: it wakes them in
/// any case.
#[test]
fn a_future_is_woken_when_another_process_makes_its_commit_durable() {
    let dir = tempfile::tempdir().unwrap();
    let (db, other) = (open(dir.path()), open(dir.path()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                drop(other.write());
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        for round in 0..2_000_u32 {
            let mut ticket = put(&db, b"key", &round.to_be_bytes());
            let woken = Arc::new(Woken(AtomicBool::new(false)));
            let waker = Waker::from(Arc::clone(&woken));
            let Poll::Pending = Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)) else { continue };
            let since = Instant::now();
            while !woken.0.load(Ordering::SeqCst) {
                if since.elapsed() > Duration::from_secs(10) {
                    stop.store(true, Ordering::SeqCst);
                    panic!("round {round}: nobody woke a commit that is durable: {}", ticket.is_durable());
                }
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
}

/// Bug: only commits of its own gave the background a deadline. Consequence: what a dead process
/// had left in `Lazy` mode stayed at risk until the next commit. Fix: so does opening.
#[test]
fn what_a_dead_process_left_becomes_steady_within_the_period() {
    let dir = tempfile::tempdir().unwrap();
    let durability = Durability::Lazy { bytes: 1 << 30, period: Duration::from_millis(100) };
    let options = Options::new().durability(durability);
    let dying = Database::open(dir.path(), &options).unwrap();
    drop(put(&dying, b"key", b""));
    dying.die();
    let db = Database::open(dir.path(), &options).unwrap();
    let newest = db.stat().unwrap().txn;
    let since = Instant::now();
    while db.stat().unwrap().steady_txn < newest {
        assert!(since.elapsed() < Duration::from_secs(20), "{:?}", db.stat());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Bug: a callback that panicked left the writer's lock behind. Consequence: nobody could write any
/// more, in any process. Fix: it is let go of however beginning ends.
#[test]
fn a_callback_for_slow_readers_that_panics_leaves_the_lock_free() {
    let dir = tempfile::tempdir().unwrap();
    let ask: AskSlowReader = Arc::new(|_| std::panic::resume_unwind(Box::new("asked")));
    let limits = ReaderLimits::new().lag(1);
    let db = Database::open(dir.path(), &options().slow_readers(SlowReaders::Ask { limits, ask })).unwrap();
    commit(&db, b"key", b"");
    let snapshot = db.read_owned().unwrap();
    let commits = || (0..10_u8).for_each(|key| commit(&db, &[key], b""));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(commits)).is_err(), "nobody was asked");
    drop(snapshot);
    let other = open(dir.path());
    assert!(other.try_write().is_ok());
}

/// A database that has just lost nearly all of its records, a snapshot since then, taken by another
/// handle, and how long the file was.
fn emptied(dir: &Path, options: &Options) -> (Database, Database, Snapshot<'static>, u64) {
    let (db, other) = (Database::open(dir, options).unwrap(), Database::open(dir, options).unwrap());
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Plain).unwrap();
    txn.load_sorted(&table, (0..4000_u32).map(|key| (key.to_be_bytes(), [1; 500]))).unwrap();
    txn.commit().unwrap();
    db.sync().unwrap();
    let length = data_bytes(dir);
    let mut txn = db.write().unwrap();
    txn.delete_range(&table, &20_u32.to_be_bytes()[..]..).unwrap();
    txn.commit().unwrap();
    db.sync().unwrap();
    // What is left goes to the start of the file.
    let mut txn = db.write().unwrap();
    for key in 0..20_u32 {
        txn.put(&table, &key.to_be_bytes(), &[2; 500]).unwrap();
    }
    txn.commit().unwrap();
    let snapshot = other.read_owned().unwrap();
    (db, other, snapshot, length)
}

fn data_bytes(dir: &Path) -> u64 {
    fs::metadata(dir.join(DATA_FILE)).unwrap().len()
}

/// Bug: see `Core::take_over`.
#[test]
fn who_takes_over_cuts_off_the_file_that_another_has_trimmed() {
    let dir = tempfile::tempdir().unwrap();
    let (db, other, snapshot, length) =
        emptied(dir.path(), &Options::new().durability(Durability::NoSync).free_space(FreeSpace::Lowest));
    db.sync().unwrap();
    assert!(db.stat().unwrap().pages * 4096 < length / 2, "{:#?}", db.stat().unwrap());
    commit(&other, b"taken over", b"");
    // It knows of more pages.
    assert!(data_bytes(dir.path()) >= length);
    drop(snapshot);
    other.sync().unwrap();
    assert!(data_bytes(dir.path()) < length / 2, "{} bytes of {length}", data_bytes(dir.path()));
    assert!(has(&other, b"taken over") && other.check().unwrap().is_clean());
}

/// Bug: only pages that wait made a writer look whether readers live. Consequence: a dead one that
/// nothing much waited for kept the file from being cut off. Fix: the writer looks, too, before it
/// gives up cutting.
#[test]
fn a_dead_reader_does_not_keep_the_file_as_long_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (db, dying, snapshot, length) =
        emptied(dir.path(), &Options::new().durability(Durability::NoSync).free_space(FreeSpace::Lowest));
    dying.0.core.shared.lose_process_slot();
    db.sync().unwrap();
    assert!(data_bytes(dir.path()) < length / 2, "{} bytes of {length}", data_bytes(dir.path()));
    assert!(db.readers().is_empty());
    std::mem::forget((dying, snapshot));
}

/// As above, for who goes on writing: each commit is a steady point, so that nobody comes by in the
/// background.
#[test]
fn a_reader_that_dies_does_not_keep_the_file_as_long_as_it_is_while_somebody_writes() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::SyncNoLog).free_space(FreeSpace::Lowest);
    let (db, dying, mut snapshot, length) = emptied(dir.path(), &options);
    for key in 0.. {
        commit(&db, &[key as u8], b"");
        // Always one that is older than the state from which on there are fewer pages.
        if key % 4 == 0 {
            if db.stat().unwrap().pages * 4096 < length / 2 {
                break;
            }
            snapshot = dying.read_owned().unwrap();
        }
        assert!(key < 2000, "{:#?}", db.stat().unwrap());
    }
    assert!(data_bytes(dir.path()) >= length);
    dying.0.core.shared.lose_process_slot();
    // So few that what waits for it gives no reason to look.
    for key in 0..4 {
        commit(&db, &[key], b"once more");
    }
    assert!(data_bytes(dir.path()) < length / 2, "{} bytes of {length}", data_bytes(dir.path()));
    assert!(db.check().unwrap().is_clean());
    std::mem::forget((dying, snapshot));
}

/// Who looks at the free map of a steady point finds it whole, though what is taken over meanwhile
/// no longer uses it: the snapshot alone does not tell that somebody reads the map.
#[test]
fn the_free_map_of_a_steady_point_stays_for_who_reads_it_while_the_writing_changes_hands() {
    let dir = tempfile::tempdir().unwrap();
    let (db, other) = (open(dir.path()), open(dir.path()));
    let write = |db: &Database, name: &str, keys: u32, value: u8| {
        let mut txn = db.write().unwrap();
        let table = txn.create_table(name, TableKind::Plain).unwrap();
        for key in 0..keys {
            txn.put(&table, &key.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[value; 900]).unwrap();
        }
        txn.commit().unwrap();
    };
    // Takes all pages that are free, and makes a steady point that has them free again.
    let churn = |db: &Database| {
        write(db, "passing", 20_000, 0);
        let mut txn = db.write().unwrap();
        let table = txn.table("passing").unwrap();
        txn.drop_table(&table).unwrap();
        txn.commit().unwrap();
        db.sync().unwrap();
    };
    // More changes than the meta page lists: the free map has pages of its own.
    for value in 0..2 {
        write(&db, "table", 6000, value);
        db.sync().unwrap();
    }
    let free = |core: &Core, meta: &Meta| {
        let space = crate::space::Space::load(&core.pager, meta).unwrap();
        (space.free_map_runs(), space.free_at_steady().iter().collect::<Vec<_>>())
    };
    let core = &db.0.core;
    let (snapshot, meta, (before, after)) = Snapshot::steady(&db.0, |meta| {
        let before = free(core, meta);
        for handle in [&other, &db, &other] {
            churn(handle);
        }
        (before, free(core, meta))
    })
    .unwrap();
    assert!(before == after && before.1.len() > 1000, "{:?}, {:?}", before.0, after.0);
    // Its catalogue stays for as long as the snapshot does; the map was let go of.
    for handle in [&db, &other, &db] {
        churn(handle);
    }
    let view = snapshot.view(&snapshot.table("table").unwrap()).unwrap();
    let values: Vec<u8> = view.range(..).unwrap().map(|entry| entry.unwrap().1[0]).collect();
    assert!(values == [1; 6000] && snapshot.txn() == meta.txn);
    drop(snapshot);
    assert!(db.check().unwrap().is_clean());
}

/// A handover cannot ask a snapshot with a damaged catalogue what it sees. So everything waits for
/// it, and for older ones that share pages with it.
#[test]
fn a_snapshot_that_cannot_be_asked_what_it_sees_keeps_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (db, other) = (open(dir.path()), open(dir.path()));
    let txn = |db: &Database, keys: std::ops::Range<u32>, value: u8| {
        let mut txn = db.write().unwrap();
        let table = txn.create_table("table", TableKind::Plain).unwrap();
        keys.for_each(|key| txn.put(&table, &key.to_be_bytes(), &[value; 900]).unwrap());
        txn.commit().unwrap();
    };
    txn(&db, 0..400, 1);
    let older = db.read().unwrap();
    txn(&db, 0..200, 2);
    let newer = db.read().unwrap();
    let table = newer.table("table").unwrap();
    let (older_view, newer_view) = (older.view(&table).unwrap(), newer.view(&table).unwrap());
    txn(&db, 0..400, 3);
    db.sync().unwrap();
    db.0.core.pager.page_mut(newer.root().catalog.root)[20] = 0;
    for turn in 10..20 {
        txn(&other, 0..400, turn);
        txn(&db, 0..400, turn);
        let values =
            |view: &crate::View<'_>| -> Vec<u8> { view.range(..).unwrap().map(|entry| entry.unwrap().1[0]).collect() };
        assert!(values(&older_view) == [1; 400], "turn {turn}");
        assert!(values(&newer_view) == [[2; 200], [1; 200]].concat(), "turn {turn}");
    }
    drop((older, newer));
    txn(&other, 0..400, 0);
    assert!(db.check().unwrap().is_clean());
}

/// Bug: a reader learned which pages have checksums after it had pinned its state. Consequence: if
/// a commit and a steady point passed in between, pages that only the pinned state has, and that
/// were never given a checksum, were taken for damaged by another process than the writer's. Fix:
/// it learns that before.
#[test]
fn a_steady_point_that_passes_a_reader_by_makes_it_find_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (db, other) = (open(dir.path()), open(dir.path()));
    let write = |value: u8| {
        let mut txn = db.write().unwrap();
        let table = txn.create_table("table", TableKind::Plain).unwrap();
        (0..400_u32).for_each(|key| txn.put(&table, &key.to_be_bytes(), &[value; 900]).unwrap());
        txn.commit().unwrap();
    };
    write(1);
    db.sync().unwrap();
    write(2);
    let snapshot = Snapshot::take(Owner::Borrowed(&other.0), |core, place| {
        let pinned = core.shared.pin(place.hint, place.thread, true)?;
        write(3);
        db.sync()?;
        Ok(pinned)
    })
    .unwrap();
    let view = snapshot.view(&snapshot.table("table").unwrap()).unwrap();
    let values: Vec<u8> = view.range(..).unwrap().map(|entry| entry.unwrap().1[0]).collect();
    assert!(values == [2; 400]);
}

#[test]
fn a_change_of_another_value_is_no_record_of_this_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let (old, new) = ([7; 40], [[7; 39].as_slice(), &[8]].concat());
    let mut difference = Vec::new();
    crate::log::difference::between(&old, &new, &mut difference);
    let mut txn = db.write().unwrap();
    let table = txn.create_table("table", TableKind::Plain).unwrap();
    txn.put(&table, b"same", &old).unwrap();
    txn.put(&table, b"longer", &[7; 41]).unwrap();
    txn.replay("table", Operation::Change(b"same", &difference)).unwrap();
    assert_eq!(txn.get(&table, b"same").unwrap(), Some(&new[..]));
    for key in [&b"longer"[..], b"none"] {
        let error = txn.replay("table", Operation::Change(key, &difference)).unwrap_err();
        assert!(matches!(error, Error::CorruptedLog { .. }), "{error}");
    }
}

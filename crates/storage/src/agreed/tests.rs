use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rand::prelude::*;
use rand::rngs::StdRng;

use super::*;
use crate::simulation::SimDisk;
use crate::{Durability, Options, Proposer, TableKind};

/// The records that were proposed, in memory.
#[derive(Default)]
struct Proposed(Mutex<Vec<(TxnId, Vec<u8>)>>);

impl Proposer for Proposed {
    fn propose(&self, txn: TxnId, record: &[u8]) {
        self.0.lock().push((txn, record.to_vec()));
    }
}

impl Proposed {
    fn records(&self) -> Vec<Vec<u8>> {
        self.0.lock().iter().map(|(_, record)| record.clone()).collect()
    }
}

fn options(proposer: &Arc<Proposed>) -> Options {
    let proposer: Arc<Proposed> = Arc::clone(proposer);
    Options::new().durability(Durability::Agreed).proposer(proposer)
}

fn open(dir: &std::path::Path) -> (Database, Arc<Proposed>) {
    let proposed = Arc::default();
    (Database::open(dir, &options(&proposed)).unwrap(), proposed)
}

/// Puts a row, in a table that is made if it is missing.
fn put(db: &Database, key: &str, value: &str) -> crate::Ticket {
    let mut txn = db.write().unwrap();
    let table = txn.create_table("t", TableKind::Plain).unwrap();
    txn.put(&table, key.as_bytes(), value.as_bytes()).unwrap();
    txn.commit_ticket().unwrap()
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a snapshot sees.
fn rows(snapshot: &crate::Snapshot<'_>) -> Rows {
    let Ok(table) = snapshot.table("t") else { return Rows::new() };
    let rows = snapshot.view(&table).unwrap().range(..).unwrap();
    rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

fn seen(db: &Database) -> Rows {
    rows(&db.read().unwrap())
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn nothing_is_seen_before_it_is_agreed_on() {
    let dir = tempfile::tempdir().unwrap();
    let (db, proposed) = open(dir.path());
    let mut first = put(&db, "a", "1");
    let second = put(&db, "b", "2");
    assert_eq!(proposed.0.lock().iter().map(|(txn, _)| *txn).collect::<Vec<_>>(), [first.txn(), second.txn()]);
    assert!(!first.is_durable() && seen(&db).is_empty());
    assert_eq!(rows(&db.read_newest_owned().unwrap()).len(), 2);
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    assert!(std::pin::Pin::new(&mut first).poll(&mut context).is_pending());
    db.agree(first.txn()).unwrap();
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert!(matches!(std::pin::Pin::new(&mut first).poll(&mut context), Poll::Ready(Ok(_))));
    assert_eq!(seen(&db).len(), 1);
    assert!(!second.is_durable());
    let waiting = thread::spawn(move || second.wait());
    thread::sleep(Duration::from_millis(20));
    assert!(!waiting.is_finished());
    // A number that nobody has used yet is no promise.
    db.agree(TxnId(u64::MAX)).unwrap();
    waiting.join().unwrap().unwrap();
    let third = put(&db, "c", "3");
    assert!(!third.is_durable());
    assert_eq!(seen(&db).len(), 2);
}

/// Bug: an agreement woke up all who wait. Consequence: with many clients those of the next group
/// looked each time, and waited again. Fix: who waits says for which commit.
#[test]
fn an_agreement_wakes_up_those_whose_commits_are_agreed_on() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = open(dir.path());
    let mut waiting: Vec<_> = (0..4)
        .map(|at| {
            let count = Arc::new(Count(AtomicUsize::new(0)));
            (put(&db, &at.to_string(), ""), Waker::from(Arc::clone(&count)), count)
        })
        .collect();
    for (ticket, waker, _) in &mut waiting {
        assert!(std::pin::Pin::new(ticket).poll(&mut Context::from_waker(waker)).is_pending());
    }
    let second = TxnId(db.newest_txn().0 - 2);
    db.agree(second).unwrap();
    let woken = |waiting: &[(crate::Ticket, Waker, Arc<Count>)]| -> Vec<usize> {
        waiting.iter().map(|(_, _, count)| count.0.load(Ordering::SeqCst)).collect()
    };
    assert_eq!(woken(&waiting), [1, 1, 0, 0]);
    db.agree(db.newest_txn()).unwrap();
    assert_eq!(woken(&waiting), [1, 1, 1, 1]);
    // Nothing will be agreed on any more: all are told.
    let mut last = put(&db, "last", "");
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    assert!(std::pin::Pin::new(&mut last).poll(&mut Context::from_waker(&waker)).is_pending());
    db.abandon().unwrap();
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
}

/// Agrees before the commit has published its root, as a log can that is faster than the thread.
#[derive(Default)]
struct AtOnce(std::sync::OnceLock<Database>);

impl Proposer for AtOnce {
    fn propose(&self, txn: TxnId, _: &[u8]) {
        self.0.get().unwrap().agree(txn).unwrap();
    }
}

#[test]
fn an_agreement_that_comes_before_the_commit_is_published_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let proposer = Arc::<AtOnce>::default();
    let options = Options::new().durability(Durability::Agreed).proposer(Arc::clone(&proposer) as Arc<dyn Proposer>);
    let db = Database::open(dir.path(), &options).unwrap();
    _ = proposer.0.set(db.clone());
    for key in ["a", "b"] {
        let ticket = put(&db, key, "1");
        assert!(ticket.is_durable());
    }
    assert_eq!(seen(&db).len(), 2);
}

#[test]
fn no_steady_point_is_beyond_what_was_agreed_on() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = open(dir.path());
    let before = db.steady_txn();
    let ticket = put(&db, "a", "1");
    let syncing = thread::spawn({
        let db = db.clone();
        move || db.sync()
    });
    thread::sleep(Duration::from_millis(50));
    assert!(!syncing.is_finished());
    assert_eq!(db.steady_txn(), before);
    db.agree(ticket.txn()).unwrap();
    syncing.join().unwrap().unwrap();
    assert_eq!(db.steady_txn(), ticket.txn());
}

#[test]
fn a_follower_has_the_history_of_its_leader() {
    let [leading, following] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (leader, proposed) = open(leading.path());
    let (follower, _) = open(following.path());
    // Both are new, and their chains have to begin alike.
    for number in 0..50 {
        drop(put(&leader, &format!("key {}", number % 17), &format!("value {number}")));
    }
    let mut txn = leader.write().unwrap();
    let long = txn.create_table("t", TableKind::Plain).unwrap();
    for number in 0..3_000 {
        txn.put(&long, format!("long {number}").as_bytes(), &[7; 1_000]).unwrap();
    }
    let last = txn.commit_ticket().unwrap();
    leader.agree(last.txn()).unwrap();
    let records = proposed.records();
    assert!(records.last().unwrap().len() > 1 << 20, "longer than a record of the log may be");
    let parts: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    follower.apply(parts[..20].iter().copied()).unwrap();
    assert!(matches!(follower.apply([parts[19]]), Err(Error::Diverged { .. })), "twice");
    assert!(matches!(follower.apply([parts[21]]), Err(Error::Diverged { .. })), "a gap");
    let mut damaged = parts[20].to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(matches!(follower.apply([&damaged[..]]), Err(Error::Diverged { .. })), "damage");
    assert!(matches!(follower.apply([parts[20], parts[22]]), Err(Error::Diverged { .. })));
    follower.apply(parts[20..].iter().copied()).unwrap();
    follower.apply([]).unwrap();
    assert_eq!(follower.chain(), leader.chain());
    assert_eq!(seen(&follower), seen(&leader));
    follower.sync().unwrap();
    drop(follower);
    // It goes on where it was.
    let (follower, proposed_there) = open(following.path());
    assert_eq!(follower.chain(), leader.chain());
    let ticket = put(&follower, "own", "1");
    follower.agree(ticket.txn()).unwrap();
    assert_eq!(proposed_there.0.lock().len(), 1);
    leader.apply(proposed_there.records().iter().map(Vec::as_slice)).unwrap();
    assert_eq!(follower.chain(), leader.chain());
    // A commit that nobody has agreed on does not mix with the records of others.
    let own = put(&leader, "x", "1");
    let other = put(&follower, "x", "2");
    assert!(!own.is_durable() && !other.is_durable());
    let records = proposed_there.records();
    assert!(matches!(leader.apply([&records[1][..]]), Err(Error::Diverged { .. })));
    assert!(!own.is_durable());
    follower.agree(other.txn()).unwrap();
    follower.check().unwrap();
}

#[test]
fn records_one_behind_the_other_come_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (db, proposed) = open(dir.path());
    let txns = ["a", "b", "c"].map(|key| put(&db, key, "1").txn());
    let bytes = proposed.records().concat();
    let records = split_records(&bytes).unwrap();
    assert_eq!(records.iter().map(|record| record.txn).collect::<Vec<_>>(), txns);
    assert_eq!(records.iter().map(|record| record.bytes).collect::<Vec<_>>(), proposed.records());
    assert_eq!(records.last().map(|record| (record.txn, record.chain)), Some(db.chain()));
    assert_eq!(split_records(&[]).unwrap(), []);
    for cut in [1, 10, bytes.len() - 1] {
        assert!(matches!(split_records(&bytes[..cut]), Err(Error::CorruptedLog { .. })));
    }
    let mut endless = bytes;
    endless[8..12].fill(0);
    assert!(split_records(&endless).is_err(), "a length of zero");
}

#[test]
fn what_is_given_up_is_gone_and_its_callers_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = open(dir.path());
    let agreed = put(&db, "a", "1").txn();
    db.agree(agreed).unwrap();
    db.sync().unwrap();
    let lost = put(&db, "b", "2");
    let waiting = thread::spawn(move || lost.wait());
    thread::sleep(Duration::from_millis(20));
    db.abandon().unwrap();
    assert!(matches!(waiting.join().unwrap(), Err(Error::Poisoned)));
    assert!(matches!(db.write(), Err(Error::Poisoned)));
    drop(db);
    // The lock file knows the newest root, and it does not count. Neither does it for others, who
    // open the database by another mode.
    for options in [options(&Arc::default()), Options::new()] {
        let db = Database::open(dir.path(), &options).unwrap();
        assert_eq!(seen(&db).len(), 1);
        assert_eq!(db.newest_txn(), agreed);
    }
}

#[test]
fn dropping_the_last_handle_waits_for_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = open(dir.path());
    let syncing = thread::spawn({
        let db = db.clone();
        move || {
            drop(put(&db, "a", "1"));
            drop(db);
        }
    });
    drop(db);
    syncing.join().unwrap();
    assert!(seen(&open(dir.path()).0).is_empty());
}

#[test]
fn agreement_is_for_databases_that_ask_for_it_and_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), &Options::new()).unwrap();
    assert!(matches!(db.agree(TxnId(1)), Err(Error::NotAgreed)));
    assert!(matches!(db.apply([]), Err(Error::NotAgreed)));
    assert!(matches!(db.abandon(), Err(Error::NotAgreed)));
    assert!(matches!(Database::open(dir.path(), &options(&Arc::default())), Err(Error::DurabilityDiffers { .. })));
    drop(db);
    let (_db, _) = open(dir.path());
    for options in [options(&Arc::default()), Options::new()] {
        assert!(matches!(Database::open(dir.path(), &options), Err(Error::DurabilityDiffers { .. })));
    }
    let other = tempfile::tempdir().unwrap();
    let lacks = Options::new().durability(Durability::Agreed);
    assert!(matches!(Database::open(other.path(), &lacks), Err(Error::InvalidOption { .. })));
    let proposer: Arc<Proposed> = Arc::default();
    let superfluous = Options::new().proposer(proposer);
    assert!(matches!(Database::open(other.path(), &superfluous), Err(Error::InvalidOption { .. })));
}

/// A leader on a disk that crashes, whose records are agreed on late. Gives how many wrecks were
/// looked at. `hasty`: the database is told of an agreement that there is not, as if it did not wait
/// for any.
fn history(seed: u64, hasty: bool) -> usize {
    let mut rng = StdRng::seed_from_u64(seed);
    let disk = SimDisk::of_new(rng.random(), 12);
    let proposed: Arc<Proposed> = Arc::default();
    let options = options(&proposed).log_bytes(64 << 10).checksums(crate::Checksums::Always);
    let db = disk.open(&options).unwrap();
    let base = db.newest_txn();
    // The rows after each record.
    let mut states = vec![Rows::new()];
    let mut agreed = 0;
    let mut looked_at = 0;
    for _ in 0..rng.random_range(20..120) {
        match rng.random_range(0..10) {
            0..6 => {
                let mut next = states.last().unwrap().clone();
                let mut txn = db.write().unwrap();
                let table = txn.create_table("t", TableKind::Plain).unwrap();
                for _ in 0..rng.random_range(1..30) {
                    let key = rng.random_range(0..200_u32).to_be_bytes().to_vec();
                    if rng.random_bool(0.2) {
                        let _ = txn.delete(&table, &key).unwrap();
                        next.remove(&key);
                    } else {
                        let value = vec![rng.random(); rng.random_range(1..400)];
                        txn.put(&table, &key, &value).unwrap();
                        next.insert(key, value);
                    }
                }
                drop(txn.commit_ticket().unwrap());
                // One that changes nothing has no record.
                states.resize(proposed.0.lock().len() + 1, next);
            }
            6..9 => {
                agreed = rng.random_range(agreed..states.len());
                // Whoever tells the database of it has it from the log.
                disk.acknowledge(agreed as u64);
                db.agree(TxnId(base.0 + agreed as u64)).unwrap();
            }
            _ => disk.crash(),
        }
        if hasty {
            db.agree(db.newest_txn()).unwrap();
        }
        // Making a steady point of what is not agreed on would wait.
        if db.readable_txn() == db.newest_txn() && rng.random_bool(0.3) {
            db.sync().unwrap();
        }
        assert_eq!(seen(&db), states[agreed], "seed {seed}: what is seen was agreed on");
    }
    let records = proposed.records();
    for wreck in disk.take_wrecks() {
        looked_at += 1;
        let agreed = wreck.acknowledged() as usize;
        let crashed = SimDisk::of_wreck(&wreck, rng.random()).open(&options).unwrap();
        let found = (crashed.newest_txn().0 - base.0) as usize;
        assert!(found <= agreed, "seed {seed}: a crash leaves what was agreed on");
        assert_eq!(seen(&crashed), states[found], "seed {seed}");
        crashed.apply(records[found..].iter().map(Vec::as_slice)).unwrap();
        assert_eq!(seen(&crashed), *states.last().unwrap(), "seed {seed}");
        crashed.check().unwrap();
    }
    looked_at
}

#[test]
fn a_crash_leaves_what_was_agreed_on_and_the_log_has_the_rest() {
    let first: u64 = rand::rng().random_range(0..1 << 40);
    let histories = if std::env::var_os("COLIBRI_LONG").is_some() { 20_000 } else { 150 };
    let wrecks: usize = (first..first + histories).map(|seed| history(seed, false)).sum();
    println!("{wrecks} wrecks of histories from {first}");
    assert!(wrecks as u64 > histories, "{wrecks} wrecks");
}

/// The test above can fail.
#[test]
fn a_database_that_waits_for_no_agreement_is_noticed() {
    let is_noticed = |bound: &str| {
        (0..50).any(|seed| {
            let Err(cause) = std::panic::catch_unwind(|| history(seed, true)) else { return false };
            cause.downcast_ref::<String>().is_some_and(|message| message.contains(bound))
        })
    };
    assert!(is_noticed("what is seen was agreed on"));
}

#[test]
fn a_copy_goes_on_with_the_log_and_a_plain_backup_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let (db, proposed) = open(&dir.path().join("leader"));
    let ticket = put(&db, "a", "1");
    db.agree(ticket.txn()).unwrap();
    let (mut copy, mut plain) = (Vec::new(), Vec::new());
    db.backup_replica(&mut copy).unwrap();
    db.backup(None, &mut plain).unwrap();
    let ticket = put(&db, "b", "2");
    db.agree(ticket.txn()).unwrap();
    let next = proposed.records().pop().unwrap();
    let at = dir.path().join("copy");
    crate::restore_replica(Box::new(std::io::Cursor::new(copy.clone())), &at).unwrap();
    let (follower, _) = open(&at);
    follower.apply([&next[..]]).unwrap();
    assert_eq!((seen(&follower), follower.chain()), (seen(&db), db.chain()));
    let at = dir.path().join("plain");
    crate::restore(&mut [Box::new(std::io::Cursor::new(plain))], &at).unwrap();
    let (follower, _) = open(&at);
    assert!(matches!(follower.apply([&next[..]]), Err(Error::Diverged { .. })));
    // A copy that was cut short is none.
    let at = dir.path().join("cut");
    let cut = copy[..copy.len() - 9].to_vec();
    assert!(crate::restore_replica(Box::new(std::io::Cursor::new(cut)), &at).is_err());
    assert!(!at.join("data").exists());
}

//! Lookups whose pages come from the disk are interrupted, if that is allowed, and go on afterwards.

#![allow(unsafe_code, clippy::unwrap_used)]

use std::fs::File;
use std::ops::{Bound, ControlFlow};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use colibri_storage::{Database, Durability, Options};
use colibri_txn::{
    Begin, ColumnSet, Direction, Error, Interruption, KeyRange, LocalStore, Result, Space, SpaceId, Transaction,
};

const ROWS: u32 = 20_000;

fn space() -> Space {
    Space::of_keys(SpaceId(7))
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 1_000]
}

fn fill(store: &LocalStore) {
    let mut txn = store.begin(Begin::default()).unwrap();
    txn.create_space(space().id).unwrap();
    for number in 0..ROWS {
        txn.put(&space(), &key(number), &value(number)).unwrap();
    }
    drop(txn.commit().unwrap());
}

fn open(dir: &Path, seems_cold: bool) -> LocalStore {
    let options = Options::new().durability(Durability::NoSync).seems_cold(seems_cold);
    LocalStore::new(Database::open(dir, &options).unwrap())
}

/// Makes the call until it is not interrupted any more; how often it was.
fn insist<T>(mut call: impl FnMut() -> Result<T>) -> (T, usize) {
    for times in 0.. {
        match call() {
            Err(Error::Interrupted(Interruption::Fetch(wait))) => wait.wait(),
            done => return (done.unwrap(), times),
        }
    }
    unreachable!("a call is not interrupted forever")
}

/// Reads some keys one by one, many at once and in order; how many calls were interrupted.
fn read(txn: &mut dyn Transaction) -> usize {
    let mut interrupted = 0;
    for number in (0..ROWS).step_by(97) {
        let (found, times) =
            insist(|| txn.get(&space(), &key(number), ColumnSet::ALL).map(|row| row.map(<[u8]>::to_vec)));
        assert_eq!(found, Some(value(number)));
        interrupted += times;
    }
    let wanted: Vec<[u8; 4]> = (0..ROWS).step_by(131).map(key).collect();
    let keys: Vec<&[u8]> = wanted.iter().map(|key| &key[..]).collect();
    let (met, times) = insist(|| {
        let mut met = 0;
        txn.get_many(&space(), &keys, ColumnSet::ALL, &mut |_, row| {
            met += usize::from(row.is_some_and(|row| row.len() == 1_000));
            ControlFlow::Continue(())
        })?;
        Ok(met)
    });
    assert_eq!(met, keys.len());
    interrupted += times;
    for direction in [Direction::Forward, Direction::Backward] {
        let range = KeyRange {
            low: Bound::Included(colibri_txn::Key::from_slice(&key(500))),
            high: Bound::Excluded(colibri_txn::Key::from_slice(&key(900))),
        };
        let (met, times) = insist(|| {
            let mut met = 0;
            txn.scan(&space(), &range, direction, ColumnSet::ALL, usize::MAX, &mut |_, _| {
                met += 1;
                ControlFlow::Continue(())
            })?;
            Ok(met)
        });
        assert_eq!(met, 400);
        interrupted += times;
    }
    interrupted
}

#[test]
fn what_is_in_memory_interrupts_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("birds"), false);
    fill(&store);
    let mut txn = store.begin(Begin::default()).unwrap();
    txn.let_fetch(true);
    // A first touch may have taken as long as a read takes, so lookups may look first.
    assert_eq!(read(&mut txn), 0);
}

#[test]
fn whoever_may_not_be_interrupted_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("birds"), true);
    fill(&store);
    let mut txn = store.begin(Begin::default()).unwrap();
    assert!(!txn.fetches());
    assert_eq!(read(&mut txn), 0);
    txn.let_fetch(true);
    assert!(txn.fetches());
    assert!(read(&mut txn) > 20);
    txn.let_fetch(false);
    assert_eq!(read(&mut txn), 0);
}

/// What is read is depended on only once it was read: a call that was interrupted has changed nothing.
#[test]
fn an_interrupted_call_is_no_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("birds"), true);
    fill(&store);
    for _ in 0..9 {
        let mut txn = store.begin(Begin::default()).unwrap();
        txn.let_fetch(true);
        let is_read = txn.get(&space(), &key(3), ColumnSet::ALL).is_ok();
        txn.put(&space(), b"mine", b"").unwrap();
        let mut other = store.begin(Begin::default()).unwrap();
        other.put(&space(), &key(3), &value(3 + 1)).unwrap();
        drop(other.commit().unwrap());
        assert_eq!(txn.commit().is_err(), is_read, "a conflict only with what was read");
        let mut other = store.begin(Begin::default()).unwrap();
        other.put(&space(), &key(3), &value(3)).unwrap();
        drop(other.commit().unwrap());
    }
}

/// Pages that really are on the disk: where the file system has one, lookups wait beside the thread, and
/// nobody waits for anything any more once all is in memory.
#[test]
fn a_database_comes_from_the_disk_and_the_thread_goes() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("birds");
    {
        let store = open(&dir, false);
        fill(&store);
        store.database().sync().unwrap();
    }
    for entry in std::fs::read_dir(&dir).unwrap() {
        let file = File::open(entry.unwrap().path()).unwrap();
        file.sync_all().unwrap();
        // SAFETY: the descriptor is open; advice changes nothing.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
    let store = open(&dir, false);
    let mut txn = store.begin(Begin::default()).unwrap();
    for number in (0..ROWS).step_by(1_000) {
        assert!(txn.get(&space(), &key(number), ColumnSet::ALL).unwrap().is_some());
    }
    txn.let_fetch(true);
    let is_cold = txn.fetches();
    let interrupted = read(&mut txn);
    println!("cold: {is_cold}, interrupted: {interrupted}");
    assert!(!is_cold || interrupted > 50);
    // All of it was read now; lookups stop looking first.
    let started = Instant::now();
    while txn.fetches() {
        assert!(started.elapsed() < Duration::from_secs(30), "lookups in memory look first");
        read(&mut txn);
        txn.let_fetch(true);
    }
    let threads = || {
        let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok()).any(|name| name == "pages\n")
    };
    let started = Instant::now();
    while threads() {
        assert!(started.elapsed() < Duration::from_secs(10), "the thread has nothing to do and stays");
        std::thread::sleep(Duration::from_millis(50));
    }
}

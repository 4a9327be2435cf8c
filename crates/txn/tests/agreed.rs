//! Commits of a database whose log others agree on: who may begin, and what became of a commit.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use colibri_storage::{Admission, Database, Durability, Fate, Options, Proposer, TxnId};
use colibri_txn::{Begin, CommitTicket, Error, LocalStore, Space, SpaceId};
use parking_lot::{Condvar, Mutex};

struct Judge {
    admission: Mutex<Admission>,
    changed: Condvar,
    fate: Mutex<Fate>,
}

impl Judge {
    fn set(&self, admission: Admission) {
        *self.admission.lock() = admission;
        self.changed.notify_all();
    }
}

impl Proposer for Judge {
    fn propose(&self, _: TxnId, _: &[u8]) {}

    fn admission(&self) -> Admission {
        *self.admission.lock()
    }

    fn wait_for_room(&self) -> Admission {
        let mut admission = self.admission.lock();
        while *admission == Admission::Full {
            self.changed.wait(&mut admission);
        }
        *admission
    }

    fn fate(&self, _: TxnId) -> Fate {
        *self.fate.lock()
    }
}

fn open(dir: &std::path::Path) -> (LocalStore, Arc<Judge>) {
    let judge = Arc::new(Judge {
        admission: Mutex::new(Admission::Yes),
        changed: Condvar::new(),
        fate: Mutex::new(Fate::Unknown),
    });
    let proposer: Arc<Judge> = Arc::clone(&judge);
    let options = Options::new().durability(Durability::Agreed).proposer(proposer);
    (LocalStore::new(Database::open(dir, &options).unwrap()), judge)
}

fn put(store: &LocalStore, key: &[u8]) -> colibri_txn::Result<CommitTicket> {
    use colibri_txn::Transaction as _;
    let mut txn = store.begin(Begin { newest: true, ..Begin::default() })?;
    let space = Space::new(SpaceId(1));
    txn.put(&space, key, b"")?;
    txn.commit()
}

fn with_space(store: &LocalStore) {
    use colibri_txn::Transaction as _;
    let mut txn = store.begin(Begin { newest: true, ..Begin::default() }).unwrap();
    txn.create_space(SpaceId(1)).unwrap();
    let ticket = txn.commit().unwrap();
    store.database().agree(ticket.seen()).unwrap();
}

#[test]
fn a_commit_waits_for_room_and_is_refused_when_nobody_will_agree() {
    let dir = tempfile::tempdir().unwrap();
    let (store, judge) = open(dir.path());
    with_space(&store);
    judge.set(Admission::Full);
    let (waiting, begun) = (store.clone(), store.database().newest_txn());
    let thread = std::thread::spawn(move || put(&waiting, b"a").map(|ticket| ticket.seen()));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(store.database().newest_txn(), begun, "it waits");
    judge.set(Admission::Yes);
    assert!(thread.join().unwrap().unwrap() > begun);
    judge.set(Admission::Closed);
    assert!(matches!(put(&store, b"b"), Err(Error::NotLeading)));
    // One that waited for room is refused as well.
    judge.set(Admission::Full);
    let waiting = store.clone();
    let thread = std::thread::spawn(move || put(&waiting, b"c").map(|ticket| ticket.seen()));
    std::thread::sleep(Duration::from_millis(50));
    judge.set(Admission::Closed);
    assert!(matches!(thread.join().unwrap(), Err(Error::NotLeading)));
}

#[test]
fn a_commit_that_is_given_up_is_told_what_became_of_it() {
    for (fate, is_expected) in [
        (Fate::Agreed, (|result| result.is_ok()) as fn(&colibri_txn::Result<TxnId>) -> bool),
        (Fate::NotCommitted, |result| matches!(result, Err(Error::NotLeading))),
        (Fate::Unknown, |result| matches!(result, Err(Error::Unknown { .. }))),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (store, judge) = open(dir.path());
        with_space(&store);
        let ticket = put(&store, b"a").unwrap();
        *judge.fate.lock() = fate;
        store.database().abandon().unwrap();
        let result = ticket.wait();
        assert!(is_expected(&result), "{fate:?}: {result:?}");
    }
}

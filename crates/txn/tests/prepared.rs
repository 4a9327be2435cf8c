//! Prepared transactions: what they keep others from, and that they can always commit.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::sync::Arc;

use colibri_storage::{Durability, TableKind};
use colibri_txn::{ColumnSet, Error, IfLocked, LocalStore, LocalTransaction, LockMode, Result, Store, Transaction};
use common::{A, Add, TestStore, begin, fill, key, now, open_with, rows, write};

fn with_rows(values: &[(u16, i64)]) -> TestStore {
    let store = open_with(Durability::NoSync);
    store.set_prepared_max(3);
    let mut txn = begin(&store, write());
    txn.create_space(rows().id).unwrap();
    txn.commit().unwrap().wait().unwrap();
    fill(&store, values);
    store
}

fn prepare(mut txn: LocalTransaction, name: &str) -> Result<()> {
    txn.begin_to_prepare()?;
    Box::new(txn).prepare(name, b"about".to_vec())?.wait()?.wait().map(drop)
}

fn finish(store: &LocalStore, name: &str, commits: bool) -> Result<()> {
    store.finish_prepared(name, commits)?.wait()?.wait().map(drop)
}

fn read(txn: &mut LocalTransaction, n: u16) {
    txn.get(&rows(), &key(n), ColumnSet::ALL).unwrap();
}

fn add(txn: &mut LocalTransaction, n: u16, more: i64) -> Result<()> {
    txn.patch(&rows(), &key(n), A, Arc::new(Add(0, more)))
}

/// Each reads what the other writes: had both been prepared, no order of them would be right.
#[test]
fn of_two_that_read_what_the_other_writes_only_one_is_prepared() {
    let store = with_rows(&[(1, 10), (2, 20)]);
    let (mut one, mut two) = (begin(&store, write()), begin(&store, write()));
    read(&mut one, 1);
    read(&mut two, 2);
    add(&mut one, 2, 1).unwrap();
    add(&mut two, 1, 1).unwrap();
    prepare(one, "one").unwrap();
    assert!(matches!(prepare(two, "two"), Err(Error::HeldByPrepared { .. })));
    finish(&store, "one", true).unwrap();
    assert_eq!(now(&store), [(1, 10), (2, 21)]);
}

#[test]
fn nobody_changes_what_a_prepared_transaction_has_read() {
    let store = with_rows(&[(1, 10), (2, 20)]);
    let mut one = begin(&store, write());
    read(&mut one, 1);
    add(&mut one, 2, 1).unwrap();
    prepare(one, "one").unwrap();
    let mut two = begin(&store, write());
    add(&mut two, 1, 5).unwrap();
    assert!(matches!(two.commit().map(drop), Err(Error::HeldByPrepared { .. })));
    finish(&store, "one", false).unwrap();
    let mut two = begin(&store, write());
    add(&mut two, 1, 5).unwrap();
    two.commit().unwrap().wait().unwrap();
    assert_eq!(now(&store), [(1, 15), (2, 20)]);
}

/// Additions that others make are no reads: the row is what it is at PREPARE, and nobody changes it
/// from then on.
#[test]
fn an_addition_is_prepared_with_the_row_as_it_is_then() {
    let store = with_rows(&[(1, 10)]);
    let mut one = begin(&store, write());
    add(&mut one, 1, 1).unwrap();
    let mut two = begin(&store, write());
    add(&mut two, 1, 100).unwrap();
    two.commit().unwrap().wait().unwrap();
    let begun = one.savepoint();
    let mut one = match one.begin_to_prepare() {
        Err(Error::Interrupted(_)) => {
            one.restart(begun).unwrap();
            one
        }
        done => done.map(|()| one).unwrap(),
    };
    one.begin_to_prepare().unwrap();
    prepare(one, "one").unwrap();
    let mut three = begin(&store, write());
    assert!(matches!(three.lock(&rows(), &key(1), LockMode::Add, IfLocked::Refuse), Err(Error::NotAvailable)));
    add(&mut three, 1, 1000).unwrap();
    assert!(matches!(three.commit().map(drop), Err(Error::HeldByPrepared { .. })));
    finish(&store, "one", true).unwrap();
    assert_eq!(now(&store), [(1, 111)]);
}

#[test]
fn another_store_on_the_same_database_is_kept_out_as_well() {
    let store = with_rows(&[(1, 10)]);
    let mut one = begin(&store, write());
    add(&mut one, 1, 1).unwrap();
    prepare(one, "one").unwrap();
    let other = LocalStore::new(store.database().clone());
    other.set_prepared_max(3);
    let mut two = begin(&other, write());
    add(&mut two, 1, 5).unwrap();
    assert!(matches!(two.commit().map(drop), Err(Error::HeldByPrepared { .. })));
    finish(&other, "one", true).unwrap();
    // The first store learns of the end with its next commit, and releases the locks.
    let mut three = begin(&store, write());
    add(&mut three, 1, 100).unwrap();
    three.commit().unwrap().wait().unwrap();
    let mut four = begin(&store, write());
    four.lock(&rows(), &key(1), LockMode::Exclusive, IfLocked::Refuse).unwrap();
    assert_eq!(now(&store), [(1, 111)]);
}

#[test]
fn names_and_their_number_are_limited() {
    let store = with_rows(&[(1, 10)]);
    for name in ["a", "b", "c"] {
        prepare(begin(&store, write()), name).unwrap();
    }
    assert!(matches!(prepare(begin(&store, write()), "a"), Err(Error::PreparedExists)));
    assert!(matches!(prepare(begin(&store, write()), "d"), Err(Error::TooManyPrepared { max: 3 })));
    assert!(matches!(finish(&store, "d", true), Err(Error::NoSuchPrepared)));
    let names: Vec<_> = store.prepared().unwrap().into_iter().map(|known| (known.name, known.about)).collect();
    assert_eq!(names, ["a", "b", "c"].map(|name| (name.to_owned(), b"about".to_vec())));
    finish(&store, "b", true).unwrap();
    prepare(begin(&store, write()), "d").unwrap();
}

/// Each prefix of a record, and a record with any one byte changed, is read or is an error.
#[test]
fn a_damaged_record_is_an_error() {
    let store = with_rows(&[(1, 10), (2, 20)]);
    let mut one = begin(&store, write());
    read(&mut one, 1);
    add(&mut one, 2, 1).unwrap();
    one.delete(&rows(), &key(1)).unwrap();
    prepare(one, "one").unwrap();
    let database = store.database();
    let snapshot = database.read_newest_owned().unwrap();
    let table = snapshot.table("prepared").unwrap();
    let record = snapshot.get(&table, b"pone").unwrap().unwrap().to_vec();
    drop(snapshot);
    let mut errors = 0;
    let mut changed: Vec<Vec<u8>> = (0..record.len()).map(|bytes| record[..bytes].to_vec()).collect();
    changed.extend((0..record.len()).map(|at| {
        let mut changed = record.clone();
        changed[at] ^= 0x81;
        changed
    }));
    for bytes in changed {
        let mut txn = database.write().unwrap();
        let table = txn.create_table("prepared", TableKind::Plain).unwrap();
        txn.put(&table, b"pone", &bytes).unwrap();
        txn.commit().unwrap();
        let other = LocalStore::new(database.clone());
        errors += u32::from(other.load_prepared().is_err());
        if other.prepared().is_err() {
            assert!(finish(&other, "one", true).is_err());
        }
    }
    assert!(errors as usize >= record.len());
}

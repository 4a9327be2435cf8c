//! Transactions that begin with what the last one of their session has left.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use colibri_storage::{Durability, TxnId};
use colibri_txn::{IfLocked, LocalRemains, LockMode, Store, Transaction};
use common::{A, Short, TestStore, begin, fill, key, open, open_with, read_only, rows, write};

/// Reads a row in a transaction of its own, beginning with what is left, if anything is.
fn read(store: &TestStore, remains: &mut Option<LocalRemains>, seen: TxnId, n: u16) -> Option<i64> {
    let mut txn = match remains.take() {
        Some(remains) => remains.begin_after(read_only(), seen).unwrap(),
        None => store.begin_after(read_only(), seen).unwrap(),
    };
    let found = txn.row(n, A).unwrap().map(|row| row.a);
    txn.commit_leaving(remains).unwrap().wait().unwrap().wait().unwrap();
    found
}

#[test]
fn a_transaction_that_begins_with_remains_sees_what_was_committed_since() {
    let store = open();
    fill(&store, &[(1, 10)]);
    let mut remains = None;
    assert_eq!(read(&store, &mut remains, TxnId(0), 1), Some(10));
    for value in 11..20 {
        let mut writer = begin(&store, write());
        writer.set(1, value);
        writer.commit().unwrap().wait().unwrap();
        assert!(remains.is_some());
        assert_eq!(read(&store, &mut remains, TxnId(0), 1), Some(value));
        assert_eq!(read(&store, &mut remains, TxnId(0), 2), None);
    }
}

#[test]
fn a_session_sees_its_own_commit_before_that_is_durable() {
    let store = open_with(Durability::Sync);
    let mut txn = store.begin(write()).unwrap();
    txn.create_space(rows().id).unwrap();
    txn.commit().unwrap().wait().unwrap();
    fill(&store, &[(1, 10)]);
    let mut remains = None;
    assert_eq!(read(&store, &mut remains, TxnId(0), 1), Some(10));
    let mut writer = begin(&store, write());
    writer.set(1, 11);
    let ticket = writer.commit().unwrap();
    assert_eq!(read(&store, &mut remains, ticket.seen(), 1), Some(11));
    ticket.wait().unwrap();
}

#[test]
fn remains_hold_no_snapshot_and_no_lock() {
    let store = open();
    fill(&store, &[(1, 10)]);
    let mut remains = None;
    let mut holder = begin(&store, write());
    holder.lock(&rows(), &key(1), LockMode::Exclusive, IfLocked::Refuse).unwrap();
    let number = holder.id();
    holder.commit_leaving(&mut remains).unwrap().wait().unwrap().wait().unwrap();
    assert!(remains.is_some() && store.database().readers().is_empty() && store.locks().is_empty());
    let mut next = remains.take().unwrap().begin_after(write(), TxnId(0)).unwrap();
    assert_ne!(next.id(), number, "numbers are never used twice");
    next.lock(&rows(), &key(1), LockMode::Exclusive, IfLocked::Refuse).unwrap();
    let other = begin(&store, write()).lock(&rows(), &key(1), LockMode::Exclusive, IfLocked::Refuse);
    assert!(matches!(other, Err(colibri_txn::Error::NotAvailable)));
}

#[test]
fn who_has_written_leaves_nothing_and_commits_all_the_same() {
    let store = open();
    let mut remains = None;
    let mut writer = begin(&store, write());
    writer.set(1, 5);
    writer.commit_leaving(&mut remains).unwrap().wait().unwrap().wait().unwrap();
    assert!(remains.is_none());
    assert_eq!(read(&store, &mut remains, TxnId(0), 1), Some(5));
}

#[test]
fn a_space_that_was_dropped_meanwhile_is_gone_for_who_had_it_open() {
    let store = open();
    fill(&store, &[(1, 10)]);
    let mut remains = None;
    assert_eq!(read(&store, &mut remains, TxnId(0), 1), Some(10));
    let mut dropper = begin(&store, write());
    dropper.drop_space(rows().id).unwrap();
    dropper.commit().unwrap().wait().unwrap();
    let mut late = remains.take().unwrap().begin_after(read_only(), TxnId(0)).unwrap();
    assert!(late.row(1, A).is_err());
    assert!(late.row(1, A).is_err(), "and stays so");
}

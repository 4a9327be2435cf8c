//! Snapshots that move between statements: forward where what was read holds, and ahead for a look
//! that changes nothing.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use colibri_txn::{ColumnSet, Error, LocalTransaction, Transaction};
use common::{Row, TestStore, begin, fill, key, open, read_committed, read_only, rows, write};

/// The first column of a row, as a transaction sees it.
fn see(txn: &mut LocalTransaction, row: u16) -> Option<i64> {
    txn.get(&rows(), &key(row), ColumnSet::ALL).unwrap().map(|bytes| Row::decode(bytes).a)
}

fn with_two() -> TestStore {
    let store = open();
    fill(&store, &[(1, 10), (2, 20)]);
    store
}

#[test]
fn a_transaction_moves_to_the_newest_state_in_which_what_it_has_read_holds() {
    let store = with_two();
    let mut txn = begin(&store, write());
    assert_eq!(see(&mut txn, 1), Some(10));
    assert_eq!(txn.catch_up().unwrap(), None, "there is nothing newer");
    fill(&store, &[(3, 30)]);
    assert_eq!(see(&mut txn, 3), None);
    // That the row was not there is read as well.
    assert_eq!(txn.catch_up().unwrap(), Some(false));
    let mut txn = begin(&store, write());
    assert_eq!(see(&mut txn, 1), Some(10));
    fill(&store, &[(2, 21)]);
    assert_eq!(txn.catch_up().unwrap(), Some(true));
    assert_eq!(see(&mut txn, 2), Some(21));
    fill(&store, &[(1, 11)]);
    assert_eq!(txn.catch_up().unwrap(), Some(false));
    assert_eq!(see(&mut txn, 1), Some(10), "it goes on seeing what it saw");
}

#[test]
fn what_only_reads_stays_and_read_committed_moves_always() {
    let store = with_two();
    let (mut reads, mut moves) = (begin(&store, read_only()), begin(&store, read_committed()));
    for txn in [&mut reads, &mut moves] {
        assert_eq!(see(txn, 1), Some(10));
    }
    fill(&store, &[(1, 11)]);
    assert_eq!(reads.catch_up().unwrap(), Some(false));
    assert_eq!(see(&mut reads, 1), Some(10));
    assert_eq!(moves.catch_up().unwrap(), Some(true));
    assert_eq!(see(&mut moves, 1), Some(11));
}

#[test]
fn who_has_looked_ahead_sees_what_it_saw_and_writes_nothing() {
    let store = with_two();
    let mut txn = begin(&store, write());
    assert_eq!(see(&mut txn, 1), Some(10));
    txn.put(&rows(), &key(5), &Row { a: 50, b: 0 }.encode()).unwrap();
    fill(&store, &[(1, 11), (4, 40)]);
    txn.look_ahead().unwrap();
    assert_eq!((see(&mut txn, 1), see(&mut txn, 4), see(&mut txn, 5)), (Some(11), Some(40), Some(50)));
    txn.look_back().unwrap();
    assert_eq!((see(&mut txn, 1), see(&mut txn, 4), see(&mut txn, 5)), (Some(10), None, Some(50)));
    assert!(matches!(txn.commit(), Err(Error::Conflict { .. })));
    let mut after = begin(&store, read_only());
    assert_eq!((see(&mut after, 1), see(&mut after, 5)), (Some(11), None));
}

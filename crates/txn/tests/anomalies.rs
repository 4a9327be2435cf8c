//! The anomalies of the literature, by name: what SERIALIZABLE rules out, and what READ COMMITTED
//! allows.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use colibri_txn::{Error, Interruption, KeyRange, LockMode, Transaction};
use common::{B, Short, begin, fill, now, open, read_committed, read_only, rows, span, write};

fn is_conflict<T>(result: Result<T, Error>) -> bool {
    match result {
        Err(Error::Conflict { space }) => space == rows().id,
        _ => false,
    }
}

#[test]
fn dirty_write_never_mixes_two_transactions() {
    for how in [write(), read_committed()] {
        let store = open();
        fill(&store, &[(1, 0), (2, 0)]);
        let (mut t1, mut t2) = (begin(&store, how), begin(&store, how));
        t1.set(1, 1);
        t2.set(1, 2);
        t2.set(2, 2);
        t1.set(2, 1);
        drop(t1.commit().unwrap());
        drop(t2.commit().unwrap());
        assert_eq!(now(&store), [(1, 2), (2, 2)], "all of one, then all of the other");
    }
}

#[test]
fn dirty_read_shows_nothing_uncommitted() {
    for how in [write(), read_committed()] {
        let store = open();
        fill(&store, &[(1, 0)]);
        let (mut t1, mut t2) = (begin(&store, how), begin(&store, how));
        t1.set(1, 1);
        assert_eq!(t2.a(1), 0);
        drop(t1);
        t2.begin_statement().unwrap();
        assert_eq!(t2.a(1), 0);
    }
}

#[test]
fn intermediate_read_shows_only_what_was_committed_last() {
    let store = open();
    fill(&store, &[(1, 0)]);
    let mut t1 = begin(&store, write());
    t1.set(1, 1);
    t1.set(1, 2);
    drop(t1.commit().unwrap());
    assert_eq!(now(&store), [(1, 2)]);
}

#[test]
fn lost_update_is_a_conflict() {
    let store = open();
    fill(&store, &[(1, 10)]);
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    let (v1, v2) = (t1.a(1), t2.a(1));
    t1.set(1, v1 + 1);
    t2.set(1, v2 + 1);
    drop(t1.commit().unwrap());
    assert!(is_conflict(t2.commit()));
    assert_eq!(now(&store), [(1, 11)]);
}

#[test]
fn lost_update_is_ruled_out_in_read_committed_by_the_lock_and_a_restart() {
    let store = open();
    fill(&store, &[(1, 10)]);
    let (mut t1, mut t2) = (begin(&store, read_committed()), begin(&store, read_committed()));
    t1.begin_statement().unwrap();
    t1.lock_row(1, LockMode::Exclusive).unwrap();
    let v1 = t1.a(1);
    t1.set(1, v1 + 1);
    let statement = t2.begin_statement().unwrap();
    assert_eq!(t2.a(1), 10);
    let Err(Error::Interrupted(Interruption::Wait(wait))) = t2.lock_row(1, LockMode::Exclusive) else {
        panic!("the row is locked")
    };
    drop(t1.commit().unwrap());
    wait.wait();
    assert!(matches!(t2.lock_row(1, LockMode::Exclusive), Err(Error::Interrupted(Interruption::Stale))));
    t2.restart(statement).unwrap();
    t2.lock_row(1, LockMode::Exclusive).unwrap();
    let v2 = t2.a(1);
    t2.set(1, v2 + 1);
    drop(t2.commit().unwrap());
    assert_eq!(now(&store), [(1, 12)]);
}

#[test]
fn fuzzy_read_sees_the_same_twice_and_cannot_write_on_it() {
    let store = open();
    fill(&store, &[(1, 1), (2, 0)]);
    let mut t1 = begin(&store, write());
    assert_eq!(t1.a(1), 1);
    fill(&store, &[(1, 2)]);
    t1.begin_statement().unwrap();
    assert_eq!(t1.a(1), 1, "the snapshot stands still");
    t1.set(2, 1);
    assert!(is_conflict(t1.commit()));
}

#[test]
fn fuzzy_read_happens_between_statements_of_read_committed_and_not_within_one() {
    let store = open();
    fill(&store, &[(1, 1), (2, 0)]);
    let mut t1 = begin(&store, read_committed());
    t1.begin_statement().unwrap();
    assert_eq!(t1.a(1), 1);
    fill(&store, &[(1, 2)]);
    assert_eq!(t1.a(1), 1, "within a statement");
    t1.begin_statement().unwrap();
    assert_eq!(t1.a(1), 2, "in the next one");
    t1.set(2, 1);
    drop(t1.commit().unwrap());
}

#[test]
fn read_skew_shows_no_half_of_a_transfer() {
    let store = open();
    fill(&store, &[(1, 50), (2, 50)]);
    let mut t1 = begin(&store, write());
    assert_eq!(t1.a(1), 50);
    fill(&store, &[(1, 25), (2, 75)]);
    assert_eq!(t1.a(2), 50);
    // It read one state, so it may end well if it wrote nothing.
    drop(t1.commit().unwrap());
}

#[test]
fn read_skew_happens_between_statements_of_read_committed() {
    let store = open();
    fill(&store, &[(1, 50), (2, 50)]);
    let mut t1 = begin(&store, read_committed());
    t1.begin_statement().unwrap();
    assert_eq!(t1.a(1), 50);
    fill(&store, &[(1, 25), (2, 75)]);
    t1.begin_statement().unwrap();
    assert_eq!(t1.a(2), 75);
}

#[test]
fn phantom_in_a_range_that_was_read_is_a_conflict() {
    // A row that comes, and one that goes.
    for change in [3, 5] {
        let store = open();
        fill(&store, &[(1, 1), (5, 5), (9, 9)]);
        let mut t1 = begin(&store, write());
        assert_eq!(t1.list(&span(2, 8)).unwrap(), [(5, 5)]);
        let mut t2 = begin(&store, write());
        match change {
            3 => t2.set(3, 3),
            _ => t2.delete(&rows(), &common::key(5)).unwrap(),
        }
        drop(t2.commit().unwrap());
        assert_eq!(t1.list(&span(2, 8)).unwrap(), [(5, 5)]);
        t1.set(1, 0);
        assert!(is_conflict(t1.commit()));
    }
}

#[test]
fn phantom_behind_where_a_scan_broke_off_is_none() {
    let store = open();
    fill(&store, &[(1, 1), (5, 5), (9, 9)]);
    let mut t1 = begin(&store, write());
    let first = &mut |_: &[u8], _: &[u8]| std::ops::ControlFlow::Break(());
    let columns = colibri_txn::ColumnSet::ALL;
    t1.scan(&rows(), &span(2, 100), colibri_txn::Direction::Forward, columns, usize::MAX, first).unwrap();
    t1.scan(&rows(), &span(6, 100), colibri_txn::Direction::Backward, columns, usize::MAX, first).unwrap();
    fill(&store, &[(6, 6), (8, 8)]);
    t1.set(1, 0);
    drop(t1.commit().unwrap());
    // And one in front of it is.
    let mut t1 = begin(&store, write());
    t1.scan(&rows(), &span(2, 100), colibri_txn::Direction::Forward, columns, usize::MAX, first).unwrap();
    fill(&store, &[(4, 4)]);
    t1.set(1, 0);
    assert!(is_conflict(t1.commit()));
}

#[test]
fn phantom_in_a_count_is_a_conflict_and_a_changed_row_is_not() {
    let store = open();
    fill(&store, &[(1, 1), (5, 5)]);
    let mut t1 = begin(&store, write());
    assert_eq!(t1.count(&rows(), &span(0, 100)).unwrap(), 2);
    fill(&store, &[(5, 6)]);
    t1.set(200, 0);
    drop(t1.commit().unwrap());
    let mut t1 = begin(&store, write());
    assert_eq!(t1.count(&rows(), &span(0, 100)).unwrap(), 2);
    fill(&store, &[(6, 6)]);
    t1.set(200, 1);
    assert!(is_conflict(t1.commit()));
}

#[test]
fn phantom_happens_between_statements_of_read_committed() {
    let store = open();
    fill(&store, &[(1, 1)]);
    let mut t1 = begin(&store, read_committed());
    t1.begin_statement().unwrap();
    assert_eq!(t1.count(&rows(), &KeyRange::all()).unwrap(), 1);
    fill(&store, &[(2, 2)]);
    t1.begin_statement().unwrap();
    assert_eq!(t1.count(&rows(), &KeyRange::all()).unwrap(), 2);
}

#[test]
fn write_skew_of_two_who_read_both_is_a_conflict() {
    let store = open();
    // Two doctors on call, each of whom may go if the other stays.
    fill(&store, &[(1, 1), (2, 1)]);
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    assert_eq!((t1.a(1) + t1.a(2), t2.a(1) + t2.a(2)), (2, 2));
    t1.set(1, 0);
    t2.set(2, 0);
    drop(t1.commit().unwrap());
    assert!(is_conflict(t2.commit()));
    assert_eq!(now(&store), [(1, 0), (2, 1)]);
}

#[test]
fn write_skew_happens_in_read_committed_unless_rows_are_locked() {
    let store = open();
    fill(&store, &[(1, 1), (2, 1)]);
    let (mut t1, mut t2) = (begin(&store, read_committed()), begin(&store, read_committed()));
    assert_eq!((t1.a(1) + t1.a(2), t2.a(1) + t2.a(2)), (2, 2));
    t1.set(1, 0);
    t2.set(2, 0);
    drop(t1.commit().unwrap());
    drop(t2.commit().unwrap());
    assert_eq!(now(&store), [(1, 0), (2, 0)]);
}

#[test]
fn write_skew_over_a_predicate_is_a_conflict() {
    let store = open();
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    // Each sees an empty range and puts something into it.
    assert_eq!((t1.list(&span(0, 10)).unwrap(), t2.list(&span(0, 10)).unwrap()), (vec![], vec![]));
    t1.set(1, 1);
    t2.set(2, 2);
    drop(t1.commit().unwrap());
    assert!(is_conflict(t2.commit()));
}

#[test]
fn read_only_anomaly_does_not_happen() {
    // Fekete, O'Neil, O'Neil: a report sees the deposit and not the withdrawal, which saw neither.
    let store = open();
    fill(&store, &[(1, 0), (2, 0)]);
    let mut withdrawal = begin(&store, write());
    assert_eq!(withdrawal.a(1) + withdrawal.a(2), 0);
    let mut deposit = begin(&store, write());
    assert_eq!(deposit.a(2), 0);
    deposit.set(2, 20);
    let _ = deposit.commit().unwrap().wait().unwrap();
    let mut report = begin(&store, read_only());
    assert_eq!((report.a(1), report.a(2)), (0, 20));
    drop(report.commit().unwrap());
    withdrawal.set(1, -11);
    assert!(is_conflict(withdrawal.commit()));
}

#[test]
fn a_read_only_transaction_never_conflicts() {
    let store = open();
    fill(&store, &[(1, 1)]);
    let mut report = begin(&store, read_only());
    assert_eq!(report.a(1), 1);
    fill(&store, &[(1, 2)]);
    assert_eq!(report.a(1), 1);
    assert!(matches!(report.put(&rows(), b"k", b"v"), Err(Error::ReadOnly)));
    assert!(matches!(report.lock_row(1, LockMode::Share), Err(Error::ReadOnly)));
    assert!(report.commit().unwrap().is_durable());
}

#[test]
fn what_was_read_while_read_only_counts_when_writing_after_all() {
    let store = open();
    fill(&store, &[(1, 1), (2, 2)]);
    for disturbed in [false, true] {
        let mut t1 = begin(&store, read_only());
        t1.a(1);
        t1.set_read_only(false);
        t1.set(2, 3);
        if disturbed {
            fill(&store, &[(9, 9)]);
            assert!(is_conflict(t1.commit()));
        } else {
            drop(t1.commit().unwrap());
        }
    }
}

#[test]
fn columns_that_were_not_looked_at_may_change() {
    let store = open();
    fill(&store, &[(1, 1)]);
    let mut t1 = begin(&store, write());
    assert_eq!(t1.row(1, B).unwrap().unwrap().b, 0);
    assert!(t1.row(1, colibri_txn::ColumnSet::NONE).unwrap().is_some());
    fill(&store, &[(1, 2)]);
    t1.set(5, 5);
    drop(t1.commit().unwrap());
    let mut t1 = begin(&store, write());
    assert_eq!(t1.a(1), 2);
    fill(&store, &[(1, 3)]);
    t1.set(5, 6);
    assert!(is_conflict(t1.commit()));
}

#[test]
fn a_row_that_appears_where_none_was_seen_is_a_conflict() {
    let store = open();
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    for txn in [&mut t1, &mut t2] {
        assert!(txn.row(1, colibri_txn::ColumnSet::NONE).unwrap().is_none());
        txn.set(1, 1);
    }
    drop(t1.commit().unwrap());
    assert!(is_conflict(t2.commit()));
}

#[test]
fn a_space_dropped_by_others_is_a_conflict() {
    let store = open();
    fill(&store, &[(1, 1)]);
    let (mut reader, mut writer) = (begin(&store, write()), begin(&store, write()));
    reader.a(1);
    reader.create_space(colibri_txn::SpaceId(7)).unwrap();
    writer.set(1, 2);
    let mut t3 = begin(&store, write());
    t3.drop_space(rows().id).unwrap();
    drop(t3.commit().unwrap());
    assert_eq!(reader.a(1), 1, "the snapshot has it still");
    assert!(is_conflict(reader.commit()));
    assert!(is_conflict(writer.commit()));
    assert!(store.begin(write()).unwrap().row(1, B).is_err());
}

#[test]
fn a_space_made_twice_is_a_conflict() {
    let store = open();
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    t1.create_space(colibri_txn::SpaceId(7)).unwrap();
    t2.create_space(colibri_txn::SpaceId(7)).unwrap();
    drop(t1.commit().unwrap());
    assert!(matches!(t2.commit(), Err(Error::Conflict { .. })));
}

/// Bug: going back to a savepoint gave a row that the transaction adds to as it was when the
/// savepoint was made, though the snapshot had moved since. Consequence: the transaction saw its
/// addition without those that others had committed, and committed. Fix: such rows are made anew.
#[test]
fn back_at_a_savepoint_a_row_that_is_added_to_is_that_of_the_snapshot() {
    for how in [write(), read_committed()] {
        for drops_space in [false, true] {
            let store = open();
            fill(&store, &[(1, 0)]);
            let mut txn = begin(&store, how);
            _ = txn.begin_statement().unwrap();
            txn.add(1, 0, 1).unwrap();
            let savepoint = txn.savepoint();
            _ = txn.begin_statement().unwrap();
            txn.add(1, 0, 9).unwrap();
            if drops_space {
                txn.drop_space(rows().id).unwrap();
            }
            let mut other = begin(&store, write());
            other.add(1, 0, 100).unwrap();
            drop(other.commit().unwrap());
            // As a statement does that finds a row changed.
            let statement = txn.begin_statement().unwrap();
            txn.restart(statement).unwrap();
            txn.rollback_to(savepoint).unwrap();
            assert_eq!(txn.a(1), 101, "{how:?}, {drops_space}");
            drop(txn.commit().unwrap());
            assert_eq!(begin(&store, write()).a(1), 101);
        }
    }
}

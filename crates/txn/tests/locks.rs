//! Row locks: who gets them when.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use colibri_txn::{Error, IfLocked, Interruption, LocalTransaction, LockMode, LockWait, Result, Store, Transaction};
use common::{B, Short, begin, fill, key, now, open, rows, write};

use LockMode::{Add, Exclusive, KeyShare, NoKeyUpdate, Share};

const MODES: [LockMode; 5] = [KeyShare, Share, Add, NoKeyUpdate, Exclusive];

/// PostgreSQL's table of the four modes of SELECT … FOR, with Add among them.
fn go_together(a: LockMode, b: LockMode) -> bool {
    let row = |mode| match mode {
        KeyShare => [true, true, true, true, false],
        Share => [true, true, false, false, false],
        Add => [true, false, true, false, false],
        NoKeyUpdate => [true, false, false, false, false],
        Exclusive => [false; 5],
    };
    MODES.iter().position(|&mode| mode == b).is_some_and(|at| row(a)[at])
}

fn must_wait(result: Result<()>) -> LockWait {
    match result {
        Err(Error::Interrupted(Interruption::Wait(wait))) => wait,
        other => panic!("it should have to wait: {other:?}"),
    }
}

fn holds(txn: &mut LocalTransaction, n: u16, mode: LockMode) -> bool {
    match txn.lock_row(n, mode) {
        Ok(()) => true,
        Err(Error::Interrupted(Interruption::Wait(_))) => false,
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn modes_go_together_as_the_table_says() {
    for held in MODES {
        for wanted in MODES {
            let store = open();
            let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
            t1.lock_row(1, held).unwrap();
            assert_eq!(go_together(held, wanted), go_together(wanted, held));
            assert_eq!(holds(&mut t2, 1, wanted), go_together(held, wanted), "{wanted:?} while {held:?} is held");
            assert!(holds(&mut t2, 2, wanted), "another row");
        }
    }
}

#[test]
fn locks_come_in_the_order_of_arrival() {
    let store = open();
    let mut holder = begin(&store, write());
    holder.lock_row(1, Share).unwrap();
    let mut others: Vec<_> = (0..5).map(|_| begin(&store, write())).collect();
    // The second Share would go with the holder, but not past those before it.
    let modes = [Exclusive, Share, Share, Add, Share];
    let waits: Vec<_> = others.iter_mut().zip(modes).map(|(txn, mode)| must_wait(txn.lock_row(1, mode))).collect();
    let over = || waits.iter().map(LockWait::is_over).collect::<Vec<_>>();
    assert_eq!(over(), [false; 5]);
    drop(holder);
    assert_eq!(over(), [true, false, false, false, false]);
    drop(others.remove(0));
    assert_eq!(over(), [true, true, true, false, false]);
    drop(others.remove(0));
    assert_eq!(over(), [true, true, true, false, false]);
    drop(others.remove(0));
    assert_eq!(over(), [true, true, true, true, false]);
    drop(others.remove(0));
    assert_eq!(over(), [true; 5]);
    others[0].lock_row(1, Share).unwrap();
    drop(others);
    assert!(store.locks().is_empty());
}

#[test]
fn who_does_not_want_to_wait_is_told_so_and_leaves_no_trace() {
    let store = open();
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    t1.lock_row(1, Exclusive).unwrap();
    let refused = t2.lock(&rows(), &key(1), Share, IfLocked::Refuse);
    assert!(matches!(refused, Err(Error::NotAvailable)));
    t2.lock(&rows(), &key(2), Share, IfLocked::Refuse).unwrap();
    assert_eq!(store.locks().len(), 2);
    drop(t1.commit().unwrap());
    t2.lock(&rows(), &key(1), Share, IfLocked::Refuse).unwrap();
}

#[test]
fn a_lock_held_in_a_stronger_mode_is_held_in_a_weaker_one() {
    let store = open();
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    t1.lock_row(1, Exclusive).unwrap();
    for mode in [Share, Add, Exclusive] {
        t1.lock_row(1, mode).unwrap();
    }
    // Share and Add together are Exclusive.
    t2.lock_row(2, Share).unwrap();
    t2.lock_row(2, Add).unwrap();
    assert!(!holds(&mut t1, 2, Share) && !holds(&mut t1, 2, Add));
    assert_eq!(store.locks().iter().filter(|lock| lock.granted).count(), 2);
}

#[test]
fn two_who_wait_for_each_other_are_told_apart_by_a_deadlock() {
    let store = open();
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    t1.lock_row(1, Exclusive).unwrap();
    t2.lock_row(2, Exclusive).unwrap();
    let wait = must_wait(t1.lock_row(2, Exclusive));
    assert!(matches!(t2.lock_row(1, Exclusive), Err(Error::Deadlock)));
    assert!(!wait.is_over());
    drop(t2);
    wait.wait();
    t1.lock_row(2, Exclusive).unwrap();
    assert_eq!((store.counters().deadlocks, store.counters().lock_waits), (1, 1));
}

#[test]
fn a_long_circle_is_found_by_the_one_who_closes_it() {
    let store = open();
    let mut txns: Vec<_> = (0..20).map(|_| begin(&store, write())).collect();
    for (n, txn) in txns.iter_mut().enumerate() {
        txn.lock_row(n as u16, Exclusive).unwrap();
    }
    let mut waits = Vec::new();
    for (n, txn) in txns.iter_mut().enumerate().take(19) {
        waits.push(must_wait(txn.lock_row(n as u16 + 1, Exclusive)));
    }
    assert!(matches!(txns[19].lock_row(0, Exclusive), Err(Error::Deadlock)));
    while let Some(txn) = txns.pop() {
        drop(txn);
        assert!(waits.pop().is_none_or(|wait| wait.is_over()));
    }
}

#[test]
fn waiting_behind_somebody_who_waits_can_close_a_circle() {
    let store = open();
    let (mut t1, mut t2, mut t3) = (begin(&store, write()), begin(&store, write()), begin(&store, write()));
    t1.lock_row(1, Share).unwrap();
    t3.lock_row(2, Exclusive).unwrap();
    let _queued = must_wait(t2.lock_row(1, Exclusive));
    // t3 would go with the holder of row 1, but stands behind t2.
    let _behind = must_wait(t3.lock_row(1, Share));
    assert!(matches!(t1.lock_row(2, Share), Err(Error::Deadlock)));
    let mut t4 = begin(&store, write());
    t4.lock_row(4, Exclusive).unwrap();
    let _waits = must_wait(t2.lock_row(4, Share));
    assert!(!matches!(t4.lock_row(1, Share), Err(Error::Deadlock)), "t2 does not wait for row 1 any more");
}

#[test]
fn two_holders_who_both_want_more_are_a_deadlock() {
    let store = open();
    let (mut t1, mut t2, mut t3) = (begin(&store, write()), begin(&store, write()), begin(&store, write()));
    t1.lock_row(1, Share).unwrap();
    t2.lock_row(1, Share).unwrap();
    let behind = must_wait(t3.lock_row(1, Exclusive));
    let wait = must_wait(t1.lock_row(1, Exclusive));
    assert!(matches!(t2.lock_row(1, Exclusive), Err(Error::Deadlock)));
    drop(t2);
    // A holder that wants more passes those who hold nothing.
    assert!(wait.is_over() && !behind.is_over());
    t1.lock_row(1, Exclusive).unwrap();
    drop(t1);
    assert!(behind.is_over());
}

#[test]
fn a_sole_holder_gets_more_at_once_though_others_wait() {
    let store = open();
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    t1.lock_row(1, Share).unwrap();
    let wait = must_wait(t2.lock_row(1, Exclusive));
    t1.lock_row(1, Exclusive).unwrap();
    assert!(!wait.is_over());
    drop(t1);
    assert!(wait.is_over());
}

#[test]
fn who_stops_waiting_leaves_the_queue_to_those_behind() {
    let store = open();
    let (mut t1, mut t2, mut t3) = (begin(&store, write()), begin(&store, write()), begin(&store, write()));
    t1.lock_row(1, Share).unwrap();
    let cancelled = must_wait(t2.lock_row(1, Exclusive));
    let behind = must_wait(t3.lock_row(1, Share));
    assert!(!cancelled.wait_for(Duration::from_millis(5)));
    drop(cancelled);
    assert!(behind.is_over());
    t3.lock_row(1, Share).unwrap();
    // It may stand in the queue again.
    let again = must_wait(t2.lock_row(1, Exclusive));
    drop((t1, t3));
    assert!(again.wait_for(Duration::from_secs(10)));
}

#[test]
fn a_lock_that_came_while_nobody_waited_is_the_transactions() {
    let store = open();
    let (mut t1, mut t2, mut t3) = (begin(&store, write()), begin(&store, write()), begin(&store, write()));
    t1.lock_row(1, Exclusive).unwrap();
    let wait = must_wait(t2.lock_row(1, Exclusive));
    drop(t1);
    drop(wait);
    assert!(!holds(&mut t3, 1, Exclusive));
    t2.lock_row(1, Exclusive).unwrap();
    let wait = must_wait(t3.lock_row(1, Exclusive));
    drop(t2);
    assert!(wait.is_over());
}

#[test]
fn asking_again_keeps_the_place_in_the_queue() {
    let store = open();
    let (mut t1, mut t2, mut t3) = (begin(&store, write()), begin(&store, write()), begin(&store, write()));
    t1.lock_row(1, Exclusive).unwrap();
    let first = must_wait(t2.lock_row(1, Exclusive));
    let second = must_wait(t3.lock_row(1, Exclusive));
    let again = must_wait(t2.lock_row(1, Exclusive));
    drop(first);
    drop(t1);
    assert!(again.is_over() && !second.is_over());
}

#[test]
fn a_transaction_that_ends_while_it_waits_waits_no_more() {
    let store = open();
    let (mut t1, mut t2, mut t3) = (begin(&store, write()), begin(&store, write()), begin(&store, write()));
    t1.lock_row(1, Exclusive).unwrap();
    let wait = must_wait(t2.lock_row(1, Exclusive));
    let behind = must_wait(t3.lock_row(1, Exclusive));
    drop(t2);
    assert!(wait.is_over());
    drop(t1);
    assert!(behind.is_over());
    t3.lock_row(1, Exclusive).unwrap();
}

struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_task_is_woken_when_its_lock_comes() {
    let store = open();
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    t1.lock_row(1, Exclusive).unwrap();
    let mut wait = must_wait(t2.lock_row(1, Exclusive));
    let wakes = Arc::new(Wakes(AtomicU32::new(0)));
    let waker = Waker::from(Arc::clone(&wakes));
    let mut context = Context::from_waker(&waker);
    assert_eq!(Pin::new(&mut wait).poll(&mut context), Poll::Pending);
    drop(t1.commit().unwrap());
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert_eq!(Pin::new(&mut wait).poll(&mut context), Poll::Ready(()));
}

#[test]
fn a_row_changed_before_its_lock_came_is_stale_until_the_statement_runs_again() {
    for mode in [Share, Exclusive] {
        let store = open();
        fill(&store, &[(1, 1), (2, 0)]);
        let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
        t1.lock_row(1, Exclusive).unwrap();
        t1.set(1, 2);
        let statement = t2.begin_statement().unwrap();
        let wait = must_wait(t2.lock_row(1, mode));
        drop(t1.commit().unwrap());
        wait.wait();
        assert!(matches!(t2.lock_row(1, mode), Err(Error::Interrupted(Interruption::Stale))));
        assert!(matches!(t2.lock_row(1, mode), Err(Error::Interrupted(Interruption::Stale))), "it is not forgotten");
        t2.restart(statement).unwrap();
        t2.lock_row(1, mode).unwrap();
        assert_eq!(t2.a(1), 2);
        drop(t2.commit().unwrap());
    }
}

#[test]
fn restarting_is_a_conflict_if_what_was_read_before_has_changed() {
    let store = open();
    fill(&store, &[(1, 1), (2, 2)]);
    let mut t1 = begin(&store, write());
    t1.begin_statement().unwrap();
    assert_eq!(t1.a(1), 1);
    let statement = t1.begin_statement().unwrap();
    assert_eq!(t1.a(2), 2);
    fill(&store, &[(2, 3)]);
    assert!(matches!(t1.lock_row(2, Exclusive), Err(Error::Interrupted(Interruption::Stale))));
    t1.restart(statement).unwrap();
    assert_eq!(t1.a(2), 3, "what the statement itself had read does not matter");
    let statement = t1.begin_statement().unwrap();
    fill(&store, &[(1, 0)]);
    assert!(matches!(t1.restart(statement), Err(Error::Conflict { .. })));
}

#[test]
fn an_add_lock_looks_at_the_columns_that_were_read_only() {
    let store = open();
    fill(&store, &[(1, 1)]);
    let mut t1 = begin(&store, write());
    t1.begin_statement().unwrap();
    assert_eq!(t1.row(1, B).unwrap().unwrap().b, 0);
    fill(&store, &[(1, 2)]);
    t1.lock_row(1, Add).unwrap();
    t1.add(1, 0, 10).unwrap();
    drop(t1.commit().unwrap());
    assert_eq!(now(&store), [(1, 12)]);
    // With the lock held already it is no different.
    let mut t1 = begin(&store, write());
    t1.lock_row(1, Add).unwrap();
    let statement_2 = t1.begin_statement().unwrap();
    assert_eq!(t1.a(1), 12);
    let mut t2 = begin(&store, write());
    t2.lock_row(1, Add).unwrap();
    t2.add(1, 0, 1).unwrap();
    drop(t2.commit().unwrap());
    assert!(matches!(t1.lock_row(1, Add), Err(Error::Interrupted(Interruption::Stale))));
    t1.restart(statement_2).unwrap();
    t1.lock_row(1, Add).unwrap();
    assert_eq!(t1.a(1), 13);
    drop(t1);
    // The column in its condition has changed.
    let mut t1 = begin(&store, write());
    assert_eq!(t1.a(1), 13);
    fill(&store, &[(1, 2)]);
    assert!(matches!(t1.lock_row(1, Add), Err(Error::Interrupted(Interruption::Stale))));
}

#[test]
fn reading_a_column_that_was_added_to_waits_for_others_who_add() {
    let store = open();
    fill(&store, &[(1, 100)]);
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    for txn in [&mut t1, &mut t2] {
        txn.lock_row(1, Add).unwrap();
        txn.add(1, 0, 5).unwrap();
        assert_eq!(txn.row(1, B).unwrap().unwrap().b, 0, "another column can be read");
    }
    let statement = t1.begin_statement().unwrap();
    let Err(Error::Interrupted(Interruption::Wait(_))) = t1.list(&common::span(0, 9)) else {
        panic!("the other one adds")
    };
    t1.list(&common::span(2, 9)).unwrap();
    let Err(Error::Interrupted(Interruption::Wait(wait))) = t1.row(1, common::A) else { panic!("the other one adds") };
    drop(t2.commit().unwrap());
    wait.wait();
    assert!(matches!(t1.row(1, common::A), Err(Error::Interrupted(Interruption::Stale))));
    t1.restart(statement).unwrap();
    assert_eq!(t1.a(1), 110);
    // A scan as well.
    assert_eq!(t1.list(&common::span(0, 9)).unwrap(), [(1, 110)]);
    drop(t1.commit().unwrap());
    assert_eq!(now(&store), [(1, 110)]);
}

#[test]
fn locks_are_listed_with_who_holds_and_who_waits() {
    let store = open();
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    t1.lock_row(1, Add).unwrap();
    let _wait = must_wait(t2.lock_row(1, Share));
    let locks = store.locks();
    let find = |txn: &LocalTransaction| *locks.iter().find(|lock| lock.owner == txn.id()).unwrap();
    assert_eq!((find(&t1).mode, find(&t1).granted, find(&t1).space), (Add, true, rows().id));
    assert_eq!((find(&t2).mode, find(&t2).granted), (Share, false));
    assert_eq!(find(&t1).name, find(&t2).name);
}

#[test]
fn a_lock_need_not_be_a_rows() {
    let store = open();
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    let advisory = colibri_txn::Space::new(colibri_txn::SpaceId(u32::MAX));
    t1.lock(&advisory, b"backup", Exclusive, IfLocked::Wait).unwrap();
    fill(&store, &[(1, 1)]);
    assert!(matches!(t2.lock(&advisory, b"backup", Exclusive, IfLocked::Refuse), Err(Error::NotAvailable)));
    t2.lock(&advisory, b"", Share, IfLocked::Refuse).unwrap();
}

/// Notes how many hold a lock in each mode, and that these go together.
#[derive(Default)]
struct Watch(std::sync::Mutex<[u32; MODES.len()]>);

impl Watch {
    fn enter(&self, mode: LockMode) {
        let mut held = self.0.lock().unwrap();
        for (&other, count) in MODES.iter().zip(held.iter()) {
            assert!(*count == 0 || go_together(mode, other), "{mode:?} beside {other:?}");
        }
        held[mode as usize] += 1;
    }

    fn leave(&self, mode: LockMode) {
        self.0.lock().unwrap()[mode as usize] -= 1;
    }
}

/// A lock that is held is as strong as all that were asked for: Share and Add together keep out
/// what either does.
#[test]
fn modes_of_one_owner_add_up() {
    for first in MODES {
        for second in MODES {
            let store = open();
            let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
            t1.lock_row(1, first).unwrap();
            t1.lock_row(1, second).unwrap();
            for wanted in MODES {
                let free = go_together(first, wanted) && go_together(second, wanted);
                assert_eq!(holds(&mut t2, 1, wanted), free, "{wanted:?} while {first:?} and {second:?} are held");
            }
        }
    }
}

#[test]
fn threads_never_hold_what_does_not_go_together() {
    use rand::seq::{IndexedRandom, SliceRandom};
    use rand::{Rng, SeedableRng};

    const ROWS: u16 = 5;
    let store = open();
    let watches: Vec<Watch> = (0..ROWS).map(|_| Watch::default()).collect();
    let deadlocks = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let (store, watches, deadlocks) = (&store, &watches, &deadlocks);
            scope.spawn(move || {
                let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
                for _ in 0..2000 {
                    let mut txn = begin(store, write());
                    let mut order: Vec<_> = (0..ROWS).collect();
                    order.shuffle(&mut rng);
                    let mut held = Vec::new();
                    for &row in &order[..rng.random_range(1..=3)] {
                        let mode = *MODES.choose(&mut rng).unwrap();
                        let got = loop {
                            match txn.lock_row(row, mode) {
                                Ok(()) => break true,
                                Err(Error::Deadlock) => {
                                    deadlocks.fetch_add(1, Ordering::Relaxed);
                                    break false;
                                }
                                Err(Error::Interrupted(Interruption::Wait(wait))) if rng.random_ratio(1, 5) => {
                                    _ = wait.wait_for(Duration::from_micros(rng.random_range(0..50)));
                                }
                                Err(Error::Interrupted(Interruption::Wait(wait))) => wait.wait(),
                                Err(e) => panic!("{e}"),
                            }
                        };
                        if !got {
                            break;
                        }
                        watches[usize::from(row)].enter(mode);
                        held.push((row, mode));
                        if rng.random_ratio(1, 4) {
                            std::thread::yield_now();
                        }
                    }
                    for (row, mode) in held {
                        watches[usize::from(row)].leave(mode);
                    }
                }
            });
        }
    });
    assert!(store.locks().is_empty());
    println!("{:?}", store.counters());
}

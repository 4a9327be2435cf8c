//! Commits of many at a time: hot rows, who is told what, and what is durable when.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use colibri_storage::{Database, Durability, Options};
use colibri_txn::{
    Begin, ColumnSet, Commit, CommitTurn, Error, Interruption, LocalStore, LockMode, Patch, PatchError, QueuedCommit,
    Result, Space, SpaceId, Store, Transaction,
};
use common::{
    A, Add, B, LIMIT, Set, Short, TestStore, begin, fill, key, now, open, open_with, read_only, rows, span, write,
};

fn with_rows(durability: Durability, values: &[(u16, i64)]) -> TestStore {
    let store = open_with(durability);
    let mut txn = begin(&store, write());
    txn.create_space(rows().id).unwrap();
    txn.commit().unwrap().wait().unwrap();
    fill(&store, values);
    store
}

/// Runs a statement until it need not wait or run again; gives the conflict, if there is one.
fn statement<T: Transaction>(txn: &mut T, mut run: impl FnMut(&mut T) -> Result<()>) -> Result<()> {
    let begun = txn.begin_statement()?;
    loop {
        match run(txn) {
            Err(Error::Interrupted(Interruption::Wait(wait))) => {
                wait.wait();
                txn.restart(begun)?;
            }
            Err(Error::Interrupted(Interruption::Stale)) => txn.restart(begun)?,
            result => return result,
        }
    }
}

fn hot_row(durability: Durability, each: usize, run: impl Fn(&mut colibri_txn::LocalTransaction) -> Result<()> + Sync) {
    const THREADS: usize = 8;
    let store = with_rows(durability, &[(1, 0)]);
    let before = store.counters();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..each {
                    let mut txn = begin(&store, write());
                    statement(&mut txn, &run).unwrap();
                    txn.commit().unwrap().wait().unwrap();
                }
            });
        }
    });
    assert_eq!(now(&store), [(1, (THREADS * each) as i64)]);
    let after = store.counters();
    let (commits, batches) = (after.commits - before.commits, after.batches - before.batches);
    assert_eq!(commits, (THREADS * each) as u64);
    assert_eq!(after.conflicts, 0, "no transaction failed");
    println!("{durability:?}: {commits} commits in {batches} batches, {after:?}");
}

#[test]
fn eight_who_add_to_one_row_do_not_fail() {
    for durability in [Durability::Sync, Durability::NoSync] {
        hot_row(durability, 500, |txn| {
            txn.lock_row(1, LockMode::Add)?;
            txn.add(1, 0, 1)
        });
    }
}

#[test]
fn eight_who_add_to_one_row_without_a_lock_do_not_fail() {
    hot_row(Durability::Sync, 200, |txn| txn.add(1, 0, 1));
}

#[test]
fn eight_who_read_and_write_one_row_under_its_lock_do_not_fail() {
    for durability in [Durability::Sync, Durability::NoSync] {
        hot_row(durability, 200, |txn| {
            txn.lock_row(1, LockMode::Exclusive)?;
            let a = txn.row(1, A)?.unwrap().a;
            txn.set(1, a + 1);
            Ok(())
        });
    }
}

/// A patch that takes until it is told to go on: meanwhile others queue up behind its commit.
struct Held(Arc<AtomicBool>, Arc<AtomicBool>);

impl Patch for Held {
    fn apply(&self, row: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), PatchError> {
        self.0.store(true, Ordering::SeqCst);
        while !self.1.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        out.extend_from_slice(row);
        Ok(())
    }
}

/// Has somebody commit who takes until `queued` have begun to commit as well.
fn behind_a_slow_commit<'s, 'e>(
    scope: &'s std::thread::Scope<'s, 'e>,
    store: &'e LocalStore,
    slow_key: u16,
) -> (impl FnOnce() + use<'s, 'e>, Arc<AtomicBool>) {
    let (at_work, go_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    let mut txn = begin(store, write());
    txn.patch(&rows(), &key(slow_key), ColumnSet::NONE, Arc::new(Held(Arc::clone(&at_work), Arc::clone(&go_on))))
        .unwrap();
    // Or the commit would have nothing to ask the patch.
    let mut other = begin(store, write());
    other.add(slow_key, 1, 1).unwrap();
    drop(other.commit().unwrap());
    at_work.store(false, Ordering::SeqCst);
    go_on.store(false, Ordering::SeqCst);
    let slow = scope.spawn(move || txn.commit().unwrap().wait().unwrap());
    while !at_work.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let end = move || {
        slow.join().unwrap();
    };
    (end, go_on)
}

#[test]
fn commits_that_queue_up_become_one() {
    for durability in [Durability::Sync, Durability::NoSync] {
        let store = with_rows(durability, &[(1, 0), (2, 0)]);
        let before = store.counters();
        std::thread::scope(|scope| {
            let (end, go_on) = behind_a_slow_commit(scope, &store, 2);
            let others: Vec<_> = (0..10)
                .map(|_| {
                    let mut txn = begin(&store, write());
                    txn.add(1, 0, 1).unwrap();
                    scope.spawn(move || txn.commit().unwrap().committed().unwrap())
                })
                .collect();
            std::thread::sleep(std::time::Duration::from_millis(200));
            go_on.store(true, Ordering::SeqCst);
            end();
            let mut places: Vec<_> = others.into_iter().map(|other| other.join().unwrap()).collect();
            places.sort();
            places.dedup();
            assert_eq!(places.len(), 10, "each has a place of its own");
        });
        let after = store.counters();
        assert_eq!(now(&store)[0], (1, 10));
        // With the one that changed the slow one's row.
        assert_eq!((after.commits - before.commits, after.batches - before.batches), (12, 3));
    }
}

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Woken {
    fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// One more in a row, committed or in the queue.
fn add_one(store: &LocalStore, row: u16) -> Commit {
    let mut txn = begin(store, write());
    txn.add(row, 0, 1).unwrap();
    txn.commit_leaving(&mut None).unwrap()
}

fn queued(commit: Commit) -> QueuedCommit {
    match commit {
        Commit::Queued(queued) => queued,
        Commit::Ended(_) => panic!("somebody else is at it"),
    }
}

fn poll(turn: &mut CommitTurn, woken: &Arc<Woken>) -> Poll<()> {
    Pin::new(turn).poll(&mut Context::from_waker(&Waker::from(Arc::clone(woken))))
}

#[test]
fn a_task_in_the_queue_needs_no_thread() {
    let store = with_rows(Durability::Sync, &[(1, 0), (2, 0)]);
    std::thread::scope(|scope| {
        let (end, go_on) = behind_a_slow_commit(scope, &store, 2);
        // One that waits, one that has not looked yet, and one that goes away.
        let (waits, late) = (queued(add_one(&store, 1)), queued(add_one(&store, 1)));
        let gone = queued(add_one(&store, 1));
        let woken = Arc::new(Woken::default());
        let (mut turn, mut turn_of_gone) = (waits.turn(), gone.turn());
        assert!(poll(&mut turn, &woken).is_pending() && poll(&mut turn_of_gone, &woken).is_pending());
        let Ok(Commit::Queued(waits)) = waits.go_on() else { panic!("the leader is busy") };
        drop(gone);
        assert_eq!(woken.times(), 0);
        go_on.store(true, Ordering::SeqCst);
        end();
        assert_eq!(woken.times(), 1, "who has gone is not woken");
        assert!(poll(&mut turn, &woken).is_ready());
        for commit in [waits.go_on(), late.go_on()] {
            let Ok(Commit::Ended(ticket)) = commit else { panic!("the leader has ended") };
            ticket.wait().unwrap();
        }
    });
    assert_eq!(now(&store)[0], (1, 2), "who goes away while it is queued takes its transaction back");
    assert!(store.locks().is_empty());
}

/// Puts another two into the queue whenever the leader has answered, so many times.
struct KeepsTheLeaderBusy {
    store: LocalStore,
    times: AtomicUsize,
    queued: Mutex<Vec<(QueuedCommit, CommitTurn)>>,
}

impl Wake for KeepsTheLeaderBusy {
    fn wake(self: Arc<Self>) {
        if self.times.load(Ordering::SeqCst) == 0 {
            return;
        }
        self.times.fetch_sub(1, Ordering::SeqCst);
        // The leader is about to look whether there are more.
        for _ in 0..2 {
            self.put();
        }
    }
}

impl KeepsTheLeaderBusy {
    fn put(self: &Arc<Self>) {
        let queued = queued(add_one(&self.store, 1));
        let mut turn = queued.turn();
        // Only the first of two wakes anybody.
        if self.queued.lock().unwrap().len().is_multiple_of(2) {
            let polled = Pin::new(&mut turn).poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))));
            assert!(polled.is_pending());
        }
        self.queued.lock().unwrap().push((queued, turn));
    }
}

#[test]
fn a_leader_that_has_worked_enough_leaves_it_to_those_who_come() {
    let store = with_rows(Durability::NoSync, &[(1, 0), (2, 0)]);
    let (before, busy) = std::thread::scope(|scope| {
        let (end, go_on) = behind_a_slow_commit(scope, &store, 2);
        let before = store.counters();
        let (shared, times) = (LocalStore::clone(&store), AtomicUsize::new(15));
        let busy = Arc::new(KeepsTheLeaderBusy { store: shared, times, queued: Mutex::default() });
        busy.put();
        busy.put();
        go_on.store(true, Ordering::SeqCst);
        // This ends although there is still more to do.
        end();
        (before, busy)
    });
    let after = store.counters();
    assert_eq!(after.batches - before.batches, 16);
    let mut all = std::mem::take(&mut *busy.queued.lock().unwrap());
    assert_eq!(all.len(), 32);
    let left = all.split_off(30);
    for (queued, _) in all {
        assert!(matches!(queued.go_on(), Ok(Commit::Ended(_))));
    }
    // There is no leader now. The one that was woken goes away, so the other one is; it leads.
    let woken = Arc::new(Woken::default());
    let [(first, _), (second, mut turn)] = left.try_into().ok().unwrap();
    assert!(poll(&mut turn, &woken).is_ready(), "nobody leads");
    drop(first);
    assert_eq!(woken.times(), 1);
    assert!(matches!(second.go_on(), Ok(Commit::Ended(_))));
    assert_eq!(store.counters().batches - before.batches, 17);
    assert_eq!(now(&store)[0], (1, 31));
}

#[test]
fn one_that_fails_in_a_batch_fails_alone() {
    let store = with_rows(Durability::Sync, &[(1, 0), (2, 0), (3, LIMIT - 1), (4, 0)]);
    std::thread::scope(|scope| {
        // Everyone sees that there is room for one more in row 3, and that row 4 is 0.
        let mut txns: Vec<_> = (0..12_usize).map(|n| (n, begin(&store, write()))).collect();
        for (n, txn) in &mut txns {
            match *n % 3 {
                0 => {}
                1 => txn.add(3, 0, 1).unwrap(),
                _ => assert_eq!(txn.a(4), 0),
            }
            if *n % 3 == 2 {
                txn.set(4, *n as i64);
            }
            // Must not stay if the rest fails.
            txn.add(1, 0, 1).unwrap();
        }
        let (end, go_on) = behind_a_slow_commit(scope, &store, 2);
        let results: Vec<_> = txns.into_iter().map(|(n, txn)| (n, scope.spawn(move || txn.commit()))).collect();
        std::thread::sleep(std::time::Duration::from_millis(200));
        go_on.store(true, Ordering::SeqCst);
        end();
        let mut good = [0; 3];
        for (n, result) in results {
            match (n % 3, result.join().unwrap()) {
                (kind, Ok(_)) => good[kind] += 1,
                (1, Err(Error::Patch(e))) => assert_eq!(e.to_string(), "too large"),
                (2, Err(Error::Conflict { .. })) => {}
                (kind, Err(e)) => panic!("{kind}: {e:?}"),
            }
        }
        assert_eq!(good, [4, 1, 1]);
        let values = now(&store);
        assert_eq!(values[0], (1, 6), "of those that failed nothing is left");
        assert_eq!(values[2], (3, LIMIT));
    });
}

/// Fine when it is made; at commit it panics.
struct Panics(AtomicBool);

impl Patch for Panics {
    fn apply(&self, row: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), PatchError> {
        assert!(!self.0.swap(true, Ordering::SeqCst), "as it should");
        out.extend_from_slice(row);
        Ok(())
    }
}

#[test]
fn a_patch_that_panics_does_so_in_the_thread_of_its_transaction() {
    let store = with_rows(Durability::NoSync, &[(1, 0), (2, 0)]);
    let panics = || {
        let mut txn = begin(&store, write());
        txn.patch(&rows(), &key(1), ColumnSet::NONE, Arc::new(Panics(AtomicBool::new(false)))).unwrap();
        txn.lock_row(7, LockMode::Share).unwrap();
        txn
    };
    let adds = || {
        let mut txn = begin(&store, write());
        txn.add(1, 0, 1).unwrap();
        txn
    };
    // In a batch of others, and alone. As long as the row is what the transaction has seen, the
    // patch is not asked again: another one has changed it before, so that the patch is asked
    // wherever in the batch it comes.
    let mut first = Some(panics());
    drop(adds().commit().unwrap());
    std::thread::scope(|scope| {
        let (end, go_on) = behind_a_slow_commit(scope, &store, 2);
        let txns: Vec<_> = (0..6).map(|n| first.take_if(|_| n == 3).unwrap_or_else(adds)).collect();
        let results: Vec<_> = txns.into_iter().map(|txn| scope.spawn(move || txn.commit().unwrap())).collect();
        std::thread::sleep(std::time::Duration::from_millis(200));
        go_on.store(true, Ordering::SeqCst);
        end();
        let results: Vec<_> = results.into_iter().map(|result| result.join().is_ok()).collect();
        assert_eq!(results, [true, true, true, false, true, true]);
    });
    let alone = panics();
    drop(adds().commit().unwrap());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| alone.commit().map(|_| ()))).is_err());
    fill(&store, &[(9, 9)]);
    assert_eq!(now(&store), [(1, 7), (2, 0), (9, 9)]);
    assert!(store.locks().is_empty());
}

/// Adds one, and counts how often it is asked to.
struct Counted(Arc<AtomicU64>);

impl Patch for Counted {
    fn apply(&self, row: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), PatchError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Add(0, 1).apply(row, out)
    }
}

#[test]
fn a_patch_is_asked_again_only_if_its_row_may_have_changed() {
    let store = with_rows(Durability::NoSync, &[(1, 0), (2, 0)]);
    let asked = Arc::new(AtomicU64::new(0));
    let patched = || {
        asked.store(0, Ordering::SeqCst);
        let mut txn = begin(&store, write());
        txn.patch(&rows(), &key(1), ColumnSet::one(0), Arc::new(Counted(Arc::clone(&asked)))).unwrap();
        txn
    };
    drop(patched().commit().unwrap());
    assert_eq!((asked.load(Ordering::SeqCst), now(&store)), (1, vec![(1, 1), (2, 0)]));
    // Its row has changed; only its neighbour on the page, which moves it (that both share a group
    // of recent writes happens once in 32,768 times); or the neighbour, by somebody whose writes
    // are not noted: then it may have been the row itself.
    for (row, is_noted, times, is) in
        [(1, true, 2, [(1, 12), (2, 0)]), (2, true, 1, [(1, 13), (2, 10)]), (2, false, 2, [(1, 14), (2, 20)])]
    {
        let txn = patched();
        let other_store = LocalStore::new(store.database().clone());
        let mut other = begin(if is_noted { &store } else { &other_store }, write());
        other.add(row, 0, 10).unwrap();
        drop(other.commit().unwrap());
        drop(txn.commit().unwrap());
        assert_eq!((asked.load(Ordering::SeqCst), now(&store)), (times, is.to_vec()));
    }
    // Twice in one transaction: what the first has made is what the second is made of.
    let mut txn = patched();
    txn.add(1, 0, 100).unwrap();
    drop(txn.commit().unwrap());
    assert_eq!((asked.load(Ordering::SeqCst), now(&store)[0]), (1, (1, 115)));
    // It has read much, which is checked in the newest state first: its row is on a page that
    // nobody has changed meanwhile.
    fill(&store, &(10..1_000).map(|n| (n, 0)).collect::<Vec<_>>());
    let mut txn = patched();
    assert_eq!(txn.list(&span(3, 20)).unwrap().len(), 10);
    let mut other = begin(&store, write());
    other.add(999, 0, 1).unwrap();
    drop(other.commit().unwrap());
    drop(txn.commit().unwrap());
    assert_eq!((asked.load(Ordering::SeqCst), now(&store)[0]), (1, (1, 116)));
    // Another snapshot, another image.
    let mut txn = patched();
    let statement = txn.begin_statement().unwrap();
    fill(&store, &[(1, 200)]);
    txn.restart(statement).unwrap();
    drop(txn.commit().unwrap());
    assert_eq!((asked.load(Ordering::SeqCst), now(&store)[0]), (2, (1, 201)));
}

#[test]
fn columns_changed_by_different_transactions_both_stay() {
    let store = with_rows(Durability::NoSync, &[(1, 1)]);
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    // One reads and changes the first column, the other the second.
    let a = t1.row(1, A).unwrap().unwrap().a;
    t1.patch(&rows(), &key(1), ColumnSet::NONE, Arc::new(Set(0, a + 10))).unwrap();
    let b = t2.row(1, B).unwrap().unwrap().b;
    t2.patch(&rows(), &key(1), ColumnSet::NONE, Arc::new(Set(1, b + 20))).unwrap();
    drop(t1.commit().unwrap());
    drop(t2.commit().unwrap());
    assert_eq!(begin(&store, read_only()).row(1, ColumnSet::ALL).unwrap(), Some(common::Row { a: 11, b: 20 }));
}

#[test]
fn a_patch_of_a_row_that_is_gone_is_a_conflict_in_either_isolation() {
    for how in [write(), common::read_committed()] {
        let store = with_rows(Durability::NoSync, &[(1, 1)]);
        let mut t1 = begin(&store, how);
        t1.add(1, 0, 1).unwrap();
        let mut t2 = begin(&store, how);
        t2.delete(&rows(), &key(1)).unwrap();
        drop(t2.commit().unwrap());
        assert!(matches!(t1.commit(), Err(Error::Conflict { .. })));
        assert_eq!(now(&store), []);
    }
}

#[test]
fn a_patch_that_no_longer_applies_is_told_to_its_maker() {
    let store = with_rows(Durability::NoSync, &[(1, LIMIT - 1)]);
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    t1.add(1, 0, 1).unwrap();
    t2.add(1, 0, 1).unwrap();
    assert!(matches!(t2.add(1, 0, 1), Err(Error::Patch(_))));
    let seen = t2.peek(&rows(), &key(1)).unwrap().map(common::Row::decode);
    assert_eq!(seen.unwrap().a, LIMIT, "the first of the two stays");
    drop(t1.commit().unwrap());
    assert!(matches!(t2.commit(), Err(Error::Patch(_))));
}

#[test]
fn a_patched_row_is_seen_anew_when_the_snapshot_moves() {
    let store = with_rows(Durability::NoSync, &[(1, 1), (2, 0)]);
    let mut t1 = begin(&store, write());
    t1.begin_statement().unwrap();
    t1.add(1, 0, 5).unwrap();
    let statement = t1.begin_statement().unwrap();
    fill(&store, &[(1, 100)]);
    t1.restart(statement).unwrap();
    assert_eq!(t1.a(1), 105);
    assert_eq!(t1.list(&common::span(0, 2)).unwrap(), [(1, 105)]);
    drop(t1.commit().unwrap());
    assert_eq!(now(&store)[0], (1, 105));
}

#[test]
fn a_transaction_that_has_read_nothing_sees_what_is_new_when_a_statement_begins() {
    let store = with_rows(Durability::NoSync, &[(1, 1)]);
    for how in [write(), read_only()] {
        let mut txn = begin(&store, how);
        fill(&store, &[(1, 2)]);
        txn.begin_statement().unwrap();
        assert_eq!(txn.a(1), 2);
        fill(&store, &[(1, 1)]);
        txn.begin_statement().unwrap();
        assert_eq!(txn.a(1), 2);
    }
}

#[test]
fn a_weak_snapshot_sees_what_is_not_durable_and_its_end_waits() {
    let store = with_rows(Durability::Sync, &[(1, 1)]);
    let mut writer = begin(&store, write());
    writer.set(1, 2);
    let written = writer.commit().unwrap();
    assert!(!written.is_durable(), "nobody has flushed");
    assert_eq!(begin(&store, read_only()).a(1), 1, "a durable state");
    let mut weak = begin(&store, Begin { newest: true, ..read_only() });
    assert_eq!(weak.a(1), 2);
    let end = weak.commit().unwrap();
    assert!(!end.is_durable());
    let mut after = store.begin_after(read_only(), written.seen()).unwrap();
    assert_eq!(after.a(1), 2);
    assert!(!after.ticket_of_reads().is_durable());
    let end_after = after.commit().unwrap();
    assert!(!end_after.is_durable());
    written.wait().unwrap();
    assert!(end.is_durable() && end_after.is_durable());
    assert_eq!(begin(&store, read_only()).a(1), 2);
}

#[test]
fn locks_are_let_go_of_before_the_flush() {
    let store = with_rows(Durability::Sync, &[(1, 1)]);
    let (mut t1, mut t2) = (begin(&store, write()), begin(&store, write()));
    t1.lock_row(1, LockMode::Exclusive).unwrap();
    t1.set(1, 2);
    let statement = t2.begin_statement().unwrap();
    let Err(Error::Interrupted(Interruption::Wait(wait))) = t2.lock_row(1, LockMode::Exclusive) else {
        panic!("it is locked")
    };
    let first = t1.commit().unwrap();
    wait.wait();
    assert!(!first.is_durable());
    t2.restart(statement).unwrap();
    t2.lock_row(1, LockMode::Exclusive).unwrap();
    assert_eq!(t2.a(1), 2);
    t2.set(1, 3);
    let second = t2.commit().unwrap();
    assert_eq!(second.wait().unwrap(), store.newest_txn());
    assert!(first.is_durable(), "one flush for both");
}

#[test]
fn a_ticket_is_a_future() {
    use std::future::Future;
    use std::task::{Context, Poll, Wake, Waker};

    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let store = with_rows(Durability::Sync, &[(1, 1)]);
    let mut txn = begin(&store, write());
    txn.set(1, 2);
    let mut ticket = Box::pin(txn.commit().unwrap());
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let seen = loop {
        match ticket.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(seen) => break seen.unwrap(),
            Poll::Pending => std::thread::park(),
        }
    };
    assert_eq!(seen, store.newest_txn());
}

#[test]
fn a_commit_that_changes_nothing_after_all_is_durable_at_once() {
    let store = with_rows(Durability::Sync, &[(1, 1)]);
    let mut txn = begin(&store, write());
    txn.delete(&rows(), &key(77)).unwrap();
    let ticket = txn.commit().unwrap();
    assert!(ticket.committed().is_some());
    assert_eq!(ticket.wait().unwrap(), store.newest_txn());
}

#[test]
fn a_full_database_refuses_what_does_not_fit_and_takes_what_does() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync).size_max(1 << 20);
    let store = LocalStore::new(Database::open(dir.path(), &options).unwrap());
    let mut txn = begin(&store, write());
    txn.create_space(rows().id).unwrap();
    txn.set(1, 0);
    txn.set(2, 0);
    drop(txn.commit().unwrap());
    let big = Space::new(SpaceId(2));
    std::thread::scope(|scope| {
        let mut txns: Vec<_> = (0..9).map(|n| (n, begin(&store, write()))).collect();
        for (n, txn) in &mut txns {
            txn.add(1, 0, 1).unwrap();
            if *n == 4 {
                txn.create_space(big.id).unwrap();
                txn.put(&big, b"k", &vec![1; 2 << 20]).unwrap();
            }
        }
        let (end, go_on) = behind_a_slow_commit(scope, &store, 2);
        let results: Vec<_> = txns.into_iter().map(|(n, txn)| (n, scope.spawn(move || txn.commit()))).collect();
        std::thread::sleep(std::time::Duration::from_millis(200));
        go_on.store(true, Ordering::SeqCst);
        end();
        for (n, result) in results {
            match result.join().unwrap() {
                Ok(_) => assert_ne!(n, 4),
                Err(Error::Storage(colibri_storage::Error::DatabaseFull { .. })) => assert_eq!(n, 4),
                Err(e) => panic!("{e:?}"),
            }
        }
    });
    assert_eq!(now(&store), [(1, 8), (2, 0)]);
    store.database().check().unwrap();
}

#[test]
fn a_transaction_that_read_very_much_still_commits_and_still_conflicts() {
    let values: Vec<_> = (0..20_000).map(|n| (n, i64::from(n))).collect();
    let store = with_rows(Durability::NoSync, &values);
    for disturbed in [false, true] {
        let mut txn = begin(&store, write());
        for n in 0..10_000 {
            txn.a(n);
        }
        txn.set(15_000, 1);
        fill(&store, &[(if disturbed { 5000 } else { 12_000 }, 1)]);
        assert_eq!(txn.commit().is_err(), disturbed);
    }
}

#[test]
fn two_stores_on_one_database_are_serializable_together() {
    let store = with_rows(Durability::NoSync, &[(1, 1)]);
    let other = LocalStore::new(store.database().clone());
    let (mut t1, mut t2) = (begin(&store, write()), begin(&other, write()));
    t1.lock_row(1, LockMode::Exclusive).unwrap();
    t2.lock_row(1, LockMode::Exclusive).unwrap();
    let (a, b) = (t1.a(1), t2.a(1));
    t1.set(1, a + 1);
    t2.set(1, b + 1);
    drop(t1.commit().unwrap());
    assert!(matches!(t2.commit(), Err(Error::Conflict { .. })));
    let _ = open();
}

/// Bug: a commit or a rollback of many changes said nothing to the thread that carried it out.
/// Consequence: a server of one thread answered nobody for its time. Fix: the store calls a hook
/// before.
#[test]
fn a_hook_is_called_before_work_on_many_changes_and_not_on_few() {
    let store = with_rows(Durability::NoSync, &[]);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    store.set_long_work_hook(Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    let changed = |many: u16| {
        let mut txn = begin(&store, write());
        let begun = txn.begin_statement().unwrap();
        for row in 0..many {
            txn.put(&rows(), &key(row), b"changed").unwrap();
        }
        (txn, begun)
    };
    let called = || calls.swap(0, Ordering::Relaxed);

    changed(100).0.commit().unwrap().wait().unwrap();
    drop(changed(100));
    let (mut txn, begun) = changed(100);
    txn.rollback_to(begun).unwrap();
    drop(txn);
    assert_eq!(called(), 0);

    drop(changed(5_000));
    assert_eq!(called(), 1, "a rollback");
    let (mut txn, begun) = changed(5_000);
    txn.rollback_to(begun).unwrap();
    assert_eq!(called(), 1, "a rollback to a savepoint");
    drop(txn);
    assert_eq!(called(), 0, "of what was taken back");
    changed(5_000).0.commit().unwrap().wait().unwrap();
    assert_eq!(called(), 3, "sorting for a commit, the commit, and the end of what it gathered");
}

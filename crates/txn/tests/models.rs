//! Threads under every schedule that a random scheduler comes upon: row locks, the queue of
//! commits, whole transactions. `cargo test -p colibri-txn --features shuttle --test models`.
//!
//! The storage underneath is the real one. Nothing in it waits here: only a leader writes, and
//! nothing is flushed.

#![cfg(feature = "shuttle")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use colibri_txn::{Commit, Error, Interruption, LockMode, Store};
use common::history::{Mix, Session, check, stored};
use common::{Short, TestStore, begin, fill, now, open, write};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::{Condvar, Mutex};
use shuttle::{Config, Runner, thread};

fn explore(iterations: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    let model = Arc::new(model);
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let model = Arc::clone(&model);
        Runner::new(scheduler, config.clone()).run(move || model());
    };
    run(Box::new(RandomScheduler::new(iterations)));
    run(Box::new(PctScheduler::new(3, iterations)));
}

/// Runs in so many threads, and waits for all.
fn together(threads: u64, store: &Arc<TestStore>, run: impl Fn(&TestStore, u64) + Send + Sync + 'static) {
    let run = Arc::new(run);
    let threads: Vec<_> = (0..threads)
        .map(|n| {
            let (store, run) = (Arc::clone(store), Arc::clone(&run));
            thread::spawn(move || run(&store, n))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn commits_are_answered_once_and_none_is_left_out() {
    explore(300, || {
        let store = Arc::new(open());
        fill(&store, &[(1, 0)]);
        together(4, &store, |store, _| {
            for _ in 0..2 {
                let mut txn = begin(store, write());
                txn.add(1, 0, 1).unwrap();
                drop(txn.commit().unwrap());
            }
        });
        assert_eq!(now(&store), [(1, 8)]);
        assert_eq!(store.counters().commits, 10);
    });
}

/// Wakes one of the tasks of a thread, as a runtime with this one thread would.
struct Woken {
    tasks: Mutex<VecDeque<usize>>,
    some: Condvar,
}

struct WakesTask(Arc<Woken>, usize);

impl Wake for WakesTask {
    fn wake(self: Arc<Self>) {
        self.0.tasks.lock().unwrap().push_back(self.1);
        self.0.some.notify_one();
    }
}

/// A runtime of one thread commits for several tasks, one of which goes away in the queue, and then
/// waits for a commit with its only thread; other threads commit with theirs, and leaders work for
/// two batches only. Nobody waits for ever, everybody who is answered is right, and what was taken
/// back is not there.
#[test]
fn tasks_and_threads_in_the_queue_are_all_answered() {
    explore(400, || {
        const TASKS: usize = 3;
        let store = Arc::new(open());
        fill(&store, &[(1, 0)]);
        let gone = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&gone);
        let add = |store: &TestStore| {
            let mut txn = begin(store, write());
            txn.add(1, 0, 1).unwrap();
            txn.commit_leaving(&mut None).unwrap()
        };
        together(3, &store, move |store, n| {
            if n > 0 {
                for _ in 0..2 {
                    drop(add(store).wait().unwrap());
                }
                return;
            }
            let woken = Arc::new(Woken { tasks: Mutex::new(VecDeque::new()), some: Condvar::new() });
            let mut tasks: Vec<_> = (0..TASKS)
                .map(|task| match add(store) {
                    Commit::Ended(_) => None,
                    Commit::Queued(queued) => {
                        woken.tasks.lock().unwrap().push_back(task);
                        Some((queued.turn(), queued))
                    }
                })
                .collect();
            if let Some((_, queued)) = tasks[0].take() {
                drop(queued);
                gone.fetch_add(1, Ordering::SeqCst);
            }
            // Holds the only thread.
            drop(add(store).wait().unwrap());
            while tasks.iter().any(Option::is_some) {
                let task = {
                    let mut ready = woken.tasks.lock().unwrap();
                    loop {
                        match ready.pop_front() {
                            Some(task) => break task,
                            None => ready = woken.some.wait(ready).unwrap(),
                        }
                    }
                };
                let Some((mut turn, queued)) = tasks[task].take() else { continue };
                let waker = Waker::from(Arc::new(WakesTask(Arc::clone(&woken), task)));
                tasks[task] = match Pin::new(&mut turn).poll(&mut Context::from_waker(&waker)) {
                    Poll::Pending => Some((turn, queued)),
                    Poll::Ready(()) => match queued.go_on().unwrap() {
                        Commit::Ended(_) => None,
                        Commit::Queued(queued) => {
                            // Somebody else was faster to lead.
                            woken.tasks.lock().unwrap().push_back(task);
                            Some((queued.turn(), queued))
                        }
                    },
                };
            }
        });
        let all = (TASKS + 1 + 4) as i64;
        let sum = now(&store)[0].1;
        let unknown = i64::from(told.load(Ordering::SeqCst));
        assert!((all - unknown..=all).contains(&sum), "{sum} of {all}, {unknown} unknown");
        assert!(store.locks().is_empty());
    });
}

#[test]
fn locks_that_go_wrong_ways_round_end_in_deadlocks_and_never_in_waiting() {
    explore(500, || {
        let store = Arc::new(open());
        let alone = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        together(3, &store, move |store, n| {
            for round in 0..2 {
                let mut txn = begin(store, write());
                let order = if (n + round) % 2 == 0 { [0, 1] } else { [1, 0] };
                let mut held = Vec::new();
                for (place, row) in order.into_iter().enumerate() {
                    // Sometimes by way of a weaker mode.
                    let modes: &[LockMode] =
                        if n == 2 { &[LockMode::Share, LockMode::Exclusive] } else { &[LockMode::Exclusive] };
                    let got = modes.iter().all(|&mode| {
                        loop {
                            match txn.lock_row(row, mode) {
                                Ok(()) => break true,
                                Err(Error::Deadlock) => break false,
                                // One of them loses patience and asks again.
                                Err(Error::Interrupted(Interruption::Wait(wait))) if n == 1 && place == 1 => {
                                    _ = wait.wait_for(std::time::Duration::ZERO);
                                }
                                Err(Error::Interrupted(Interruption::Wait(wait))) => wait.wait(),
                                Err(e) => panic!("{e}"),
                            }
                        }
                    });
                    if !got {
                        break;
                    }
                    assert_eq!(alone[usize::from(row)].fetch_add(1, Ordering::SeqCst), 0, "two hold it");
                    held.push(row);
                    thread::yield_now();
                }
                for row in held {
                    alone[usize::from(row)].fetch_sub(1, Ordering::SeqCst);
                }
            }
        });
        assert!(store.locks().is_empty());
    });
}

/// Bug: who closed a circle left the queue a moment after it had been found, in which somebody else
/// of the circle could give up and hand on the lock; the transaction was told of a deadlock, and
/// did not know that it had the lock. Consequence: nobody ever let go of it, and all who wanted the
/// row waited for ever. Fix: who has got the lock meanwhile has it, and there is no circle.
#[test]
fn a_lock_that_comes_while_its_deadlock_is_found_is_not_lost() {
    explore(2_000, || {
        let store = Arc::new(open());
        let have_first = Arc::new(AtomicU32::new(0));
        together(2, &store, move |store, n| {
            let mut txn = begin(store, write());
            let first = u16::from(n == 1);
            txn.lock_row(first, LockMode::Exclusive).unwrap();
            have_first.fetch_add(1, Ordering::SeqCst);
            while have_first.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
            match txn.lock_row(1 - first, LockMode::Exclusive) {
                Ok(()) | Err(Error::Deadlock) => {}
                // Has no patience.
                Err(Error::Interrupted(Interruption::Wait(wait))) => drop(wait),
                Err(e) => panic!("{e}"),
            }
        });
        assert!(store.locks().is_empty(), "{:?}", store.locks());
    });
}

#[test]
fn transactions_are_as_if_one_after_the_other() {
    let seed = Arc::new(AtomicU32::new(0));
    explore(200, move || {
        let seed = u64::from(seed.fetch_add(1, Ordering::SeqCst));
        let store = Arc::new(open());
        let records = Arc::new(std::sync::Mutex::new(Vec::new()));
        let all = Arc::clone(&records);
        together(3, &store, move |store, n| {
            let mix = Mix { keys: 3, statements_max: 3, ops_max: 2, locking: 6 };
            let mut session = Session::new(store, seed * 3 + n, mix, write());
            for _ in 0..4 {
                session.run_one();
            }
            all.lock().unwrap().append(&mut session.records);
        });
        let records = std::mem::take(&mut *records.lock().unwrap());
        let model = check(records).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        assert_eq!(model, stored(&store));
        assert!(store.locks().is_empty());
    });
}

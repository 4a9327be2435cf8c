//! Tasks: what comes out of them, panics, cancelling, budgets, blocking calls, actors.

#![allow(clippy::unwrap_used)]

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use colibri_runtime::{
    ActorOptions, Builder, Handle, Inbox, JoinError, Pool, Runtime, WhenFull, budget, mailbox, sleep, spawn,
    spawn_blocking,
};

fn runtime(threads: usize) -> Runtime {
    Builder::new().threads(threads).build().unwrap()
}

/// One where only the order of pools counts.
fn without_shares(threads: usize) -> Runtime {
    let builder = Builder::new().threads(threads).ping(None);
    Pool::ALL.into_iter().fold(builder, |builder, pool| builder.share(pool, 0.0)).build().unwrap()
}

/// Keeps a thread busy.
fn work(duration: Duration) {
    let until = Instant::now() + duration;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Waits until something is so.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn tasks_of_all_pools_give_what_they_compute() {
    for threads in [1, 2, 5] {
        let runtime = runtime(threads);
        let sum = runtime.block_on(async {
            let tasks: Vec<_> = (0..1_000_u64)
                .map(|n| {
                    spawn(Pool::ALL[n as usize % 4], async move {
                        let deeper = spawn(Pool::ALL[(n as usize + 1) % 4], async move { n });
                        budget::yield_now().await;
                        deeper.await.unwrap() * 2
                    })
                })
                .collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!(sum, 999_000);
        eventually("a task is left", || runtime.counters().pools.iter().all(|pool| pool.live == 0));
    }
}

#[test]
fn a_panic_ends_its_task_and_is_reported_and_nothing_else() {
    let reports = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let noted = Arc::clone(&reports);
    let runtime = Builder::new()
        .threads(1)
        .on_panic(move |report| noted.lock().push((report.pool, report.message.to_owned())))
        .build()
        .unwrap();
    let task = runtime.spawn(Pool::System, async { panic!("the number is {}", 7) });
    let error = runtime.block_on(task).unwrap_err();
    assert_eq!(error.to_string(), "the task panicked: the number is 7");
    let error = runtime.block_on(runtime.handle().spawn_blocking(|| panic!("a call"))).unwrap_err();
    assert!(matches!(error, JoinError::Panicked(_)));
    assert_eq!(runtime.block_on(runtime.spawn(Pool::System, async { 8 })).unwrap(), 8);
    assert_eq!(runtime.counters().pools[Pool::System as usize].panics, 1);
    let reports = reports.lock().clone();
    assert_eq!(reports, [(Some(Pool::System), "the number is 7".to_owned()), (None, "a call".to_owned())]);
}

/// Bug: what was told of panics could panic, too. Consequence: the thread died, with what it held.
/// Fix: that ends there.
#[test]
fn a_panic_while_being_told_of_a_panic_harms_nobody() {
    let runtime = Builder::new().threads(1).blocking(1, Duration::MAX).on_panic(|_| panic!("again")).build().unwrap();
    for _ in 0..3 {
        assert!(runtime.block_on(runtime.spawn(Pool::Batch, async { panic!("a task") })).is_err());
        assert!(runtime.block_on(runtime.handle().spawn_blocking(|| panic!("a call"))).is_err());
    }
    assert_eq!(runtime.block_on(runtime.spawn(Pool::Batch, async { 1 })).unwrap(), 1);
    assert_eq!(runtime.block_on(runtime.handle().spawn_blocking(|| 2)).unwrap(), 2);
    let report = runtime.shutdown(Duration::from_secs(20));
    assert_eq!((report.abandoned, report.calls_abandoned), (0, 0));
}

#[test]
fn a_cancelled_task_is_dropped_where_it_waits_and_one_let_go_runs_on() {
    let runtime = runtime(1);
    let (told, tell) = mpsc::channel();
    let on_drop = OnDrop(move || told.send(()).unwrap());
    let task = runtime.spawn(Pool::User, async move {
        let _on_drop = on_drop;
        pending::<()>().await;
    });
    task.cancel();
    tell.recv_timeout(Duration::from_secs(20)).unwrap();

    let (told, tell) = mpsc::channel();
    drop(runtime.spawn(Pool::User, async move {
        budget::yield_now().await;
        told.send(()).unwrap();
    }));
    tell.recv_timeout(Duration::from_secs(20)).unwrap();
}

#[test]
fn tasks_dropped_while_they_wait_in_a_lane_are_cancelled() {
    let runtime = runtime(1);
    let (begun, has_begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    drop(runtime.spawn(Pool::Interconnect, async move {
        begun.send(()).unwrap();
        let _ = may_go.recv();
    }));
    has_begun.recv().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let ran = Arc::clone(&ran);
            runtime.spawn(Pool::User, async move { ran.fetch_add(1, Ordering::Relaxed) })
        })
        .collect();
    tasks.into_iter().for_each(|task| task.cancel());
    go.send(()).unwrap();
    eventually("a task is left", || runtime.counters().pools.iter().all(|pool| pool.live == 0));
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

#[test]
fn a_higher_pool_goes_first_at_the_next_task_boundary() {
    let runtime = without_shares(1);
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (begun, has_begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    drop(runtime.spawn(Pool::Interconnect, async move {
        begun.send(()).unwrap();
        let _ = may_go.recv();
    }));
    has_begun.recv().unwrap();
    let tasks: Vec<_> = [Pool::Batch, Pool::User, Pool::System, Pool::Interconnect, Pool::User]
        .into_iter()
        .map(|pool| {
            let order = Arc::clone(&order);
            runtime.spawn(pool, async move { order.lock().push(pool) })
        })
        .collect();
    go.send(()).unwrap();
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    assert_eq!(*order.lock(), [Pool::Interconnect, Pool::System, Pool::User, Pool::User, Pool::Batch]);
}

#[test]
fn batch_tasks_leave_a_thread_to_others() {
    let runtime = runtime(2);
    let at_once = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let (at_once, most) = (Arc::clone(&at_once), Arc::clone(&most));
            runtime.spawn(Pool::Batch, async move {
                most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                work(Duration::from_micros(200));
                at_once.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[test]
fn every_pool_gets_its_share_while_a_higher_one_saturates() {
    for threads in [1, 2] {
        let runtime = Builder::new().threads(threads).ping(None).build().unwrap();
        let is_over = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = Pool::ALL
            .into_iter()
            .flat_map(|pool| std::iter::repeat_n(pool, 2 * threads))
            .map(|pool| {
                let is_over = Arc::clone(&is_over);
                runtime.spawn(pool, async move {
                    while is_over.load(Ordering::Relaxed) == 0 {
                        work(Duration::from_micros(50));
                        budget::yield_now().await;
                    }
                })
            })
            .collect();
        // By CPU time: until all of them together have used half a second.
        let cpu = || runtime.counters().pools.map(|pool| pool.cpu.as_secs_f64());
        eventually("half a second of CPU time", || cpu().iter().sum::<f64>() > 0.5);
        let cpu = cpu();
        is_over.store(1, Ordering::Relaxed);
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        let all: f64 = cpu.iter().sum();
        for (pool, cpu) in Pool::ALL.iter().zip(cpu).skip(1) {
            let part = cpu / all;
            assert!((0.04..0.09).contains(&part), "{pool} got {part} with {threads} threads");
        }
        assert!(runtime.counters().pools[Pool::Batch as usize].out_of_turn > 0);
    }
}

#[test]
fn a_budget_is_over_after_a_slice_or_when_something_higher_waits() {
    let runtime = Builder::new().threads(1).slice(Duration::from_millis(20)).ping(None).build().unwrap();
    assert!(!budget::is_over(), "outside of tasks it is never over");
    let asked = runtime.spawn(Pool::User, async {
        // The slice begins with the first question, so it is over this long after it at the
        // earliest.
        let begun = Instant::now();
        assert!(!budget::is_over());
        while !budget::is_over() {}
        begun.elapsed()
    });
    assert!(runtime.block_on(asked).unwrap() >= Duration::from_millis(20));
    let asked = runtime.spawn(Pool::User, async {
        assert!(!budget::is_over());
        drop(spawn(Pool::Batch, async {}));
        assert!(!budget::is_over(), "what is lower can wait");
        drop(spawn(Pool::System, async {}));
        let is_over = budget::is_over();
        budget::yield_if_over().await;
        is_over && !budget::is_over()
    });
    assert!(runtime.block_on(asked).unwrap());
    assert!(runtime.counters().pools[Pool::User as usize].preempted >= 2);
}

#[test]
fn a_batch_task_offers_its_cpu_and_looks_for_events_that_nobody_waits_for() {
    // Its slice would never be over, but the only thread has to hear of what comes.
    let runtime = Builder::new().threads(1).slice(Duration::from_secs(3_600)).ping(None).build().unwrap();
    let asks = |pool| {
        let asked = runtime.spawn(pool, async {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(50) {
                if budget::is_over() {
                    return true;
                }
            }
            false
        });
        runtime.block_on(asked).unwrap()
    };
    assert!(!asks(Pool::User));
    assert_eq!(runtime.counters().gave_way, 0, "who is waited for keeps what it has");
    assert!(asks(Pool::Batch));
    assert!(runtime.counters().gave_way > 0);

    // With a second thread that listens there is no hurry.
    let runtime = Builder::new().threads(2).slice(Duration::from_secs(3_600)).ping(None).build().unwrap();
    let asked = runtime.spawn(Pool::Batch, async {
        let begun = Instant::now();
        let mut over = 0;
        while begun.elapsed() < Duration::from_millis(100) {
            if budget::is_over() {
                over += 1;
                budget::yield_now().await;
            }
        }
        over
    });
    // The other thread may take a while to fall asleep.
    let (over, slices) = (runtime.block_on(asked).unwrap(), 100_000 / 50);
    assert!(over < slices / 2, "{over}");
}

#[test]
fn a_task_moves_to_another_pool_and_stays_there() {
    let runtime = Builder::new().threads(1).ping(None).build().unwrap();
    let polls = || runtime.counters().pools.map(|pool| pool.polls);
    runtime
        .block_on(runtime.spawn(Pool::User, async {
            budget::move_to(Pool::Batch).await;
            for _ in 0..9 {
                budget::yield_now().await;
            }
        }))
        .unwrap();
    eventually("ten polls of the batch pool", || polls() == [0, 0, 1, 10]);
}

#[test]
fn blocking_calls_run_beside_each_other_and_their_threads_go_away() {
    let runtime = Builder::new().threads(1).blocking(8, Duration::from_millis(50)).build().unwrap();
    let barrier = Arc::new(std::sync::Barrier::new(8));
    let calls: Vec<_> = (0..8)
        .map(|n| {
            let barrier = Arc::clone(&barrier);
            runtime.handle().spawn_blocking(move || {
                barrier.wait();
                assert!(Handle::try_current().is_some());
                n
            })
        })
        .collect();
    let sum: i32 = calls.into_iter().map(|call| runtime.block_on(call).unwrap()).sum();
    assert_eq!(sum, 28);
    // More calls than threads wait for one.
    let calls: Vec<_> = (0..100).map(|n| runtime.handle().spawn_blocking(move || n)).collect();
    let sum: i32 = runtime.block_on(async {
        let mut sum = 0;
        for call in calls {
            sum += call.await.unwrap() + spawn_blocking(|| 1).await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 5_050);
    eventually("a thread stays", || runtime.counters().blocking_threads == 0);
    assert_eq!(runtime.counters().blocking_calls, 208);
}

#[test]
#[should_panic(expected = "await the future instead")]
fn waiting_for_a_future_in_a_task_is_refused() {
    let runtime = runtime(1);
    let handle = runtime.handle().clone();
    let task = runtime.spawn(Pool::User, async move { handle.block_on(async {}) });
    match runtime.block_on(task) {
        Err(JoinError::Panicked(panic)) => std::panic::resume_unwind(panic.into_cause()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_actor_begins_again_after_a_panic_with_the_messages_that_are_left() {
    let runtime = runtime(2);
    let (told, tell) = mpsc::channel();
    let options = ActorOptions { restarts_max: 2, capacity: 2, ..ActorOptions::default() };
    let actor = runtime.handle().spawn_actor(options, move |mut inbox| {
        let told = told.clone();
        async move {
            while let Some(message) = inbox.recv().await {
                assert!(message != 13, "unlucky");
                told.send(message).unwrap();
            }
        }
    });
    runtime.block_on(async {
        for message in [1, 13, 2, 13, 3] {
            actor.mailbox.send(message).await.unwrap();
        }
    });
    let seen: Vec<i32> = (0..3).map(|_| tell.recv_timeout(Duration::from_secs(20)).unwrap()).collect();
    assert_eq!(seen, [1, 2, 3]);
    // Once more than it may.
    runtime.block_on(actor.mailbox.send(13)).unwrap();
    let given_up = runtime.block_on(actor.end).unwrap().unwrap_err();
    assert!(given_up.to_string().contains("unlucky"), "{given_up}");
    assert!(runtime.block_on(actor.mailbox.send(4)).is_err());
    assert_eq!(runtime.counters().pools[Pool::System as usize].panics, 3);
}

#[test]
fn an_actor_is_over_when_nobody_can_send_to_it() {
    let runtime = runtime(1);
    let actor = runtime.handle().spawn_actor(ActorOptions::default(), |mut inbox| async move {
        while let Some(reply) = inbox.recv().await {
            let reply: mpsc::Sender<u8> = reply;
            reply.send(1).unwrap();
        }
    });
    let (told, tell) = mpsc::channel();
    actor.mailbox.try_send(told).unwrap();
    assert_eq!(tell.recv_timeout(Duration::from_secs(20)), Ok(1));
    drop(actor.mailbox);
    runtime.block_on(actor.end).unwrap().unwrap();
}

#[test]
fn messages_of_many_senders_all_arrive_once() {
    let runtime = runtime(2);
    let (mailbox, mut inbox) = mailbox(4, WhenFull::Wait);
    for sender in 0..8_u64 {
        let mailbox = mailbox.clone();
        drop(runtime.spawn(Pool::ALL[sender as usize % 4], async move {
            for n in 0..1_000 {
                mailbox.send(sender * 1_000 + n).await.unwrap();
            }
        }));
    }
    drop(mailbox);
    let seen = runtime.block_on(async {
        let mut seen = Vec::new();
        while let Some(message) = inbox.recv().await {
            seen.push(message);
        }
        seen
    });
    for sender in 0..8 {
        let of_sender: Vec<_> = seen.iter().filter(|&message| message / 1_000 == sender).map(|n| n % 1_000).collect();
        assert!(of_sender.iter().copied().eq(0..1_000), "those of one sender are in order");
    }
}

#[test]
fn a_sleeping_thread_is_called_for_work_that_a_busy_one_spawned() {
    let runtime = runtime(2);
    let (told, tell) = mpsc::channel();
    drop(runtime.spawn(Pool::User, async move {
        // Two: one is next on this thread, the other is for the other thread.
        let others: Vec<_> = (0..2).map(|_| spawn(Pool::User, async {})).collect();
        let begun = Instant::now();
        while !others.iter().any(|other| other.is_finished()) && begun.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        // And when this one asks for its budget, the first goes as well.
        while !others.iter().all(|other| other.is_finished()) && begun.elapsed() < Duration::from_secs(20) {
            let _ = budget::is_over();
        }
        told.send(others.iter().all(|other| other.is_finished())).unwrap();
    }));
    assert_eq!(tell.recv_timeout(Duration::from_secs(60)), Ok(true));
}

/// Bug: threads were pinned to a CPU each. Consequence: a client on the same CPU, or another
/// process there, made a server two to six times slower. Fix: threads run where the kernel finds
/// room.
#[test]
fn threads_may_run_on_any_cpu_at_rest_and_after_work() {
    let threads = std::thread::available_parallelism().unwrap().get();
    let runtime = Builder::new().threads(threads).name("roam").build().unwrap();
    let allowed = |status: &str| {
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).map(str::to_owned).unwrap()
    };
    let mine = allowed(&std::fs::read_to_string("/proc/thread-self/status").unwrap());
    let work_for_all = || {
        let short = Duration::from_micros(20);
        let tasks: Vec<_> = (0..2_000).map(|_| runtime.spawn(Pool::User, async move { work(short) })).collect();
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    };
    work_for_all();
    eventually("all threads may run anywhere", || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        let read = |task: &std::path::Path, file: &str| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        let own: Vec<_> = tasks.filter(|task| read(task, "comm").starts_with("roam")).collect();
        // One that sleeps may have been kept off a CPU until it wakes.
        if !own.iter().all(|task| allowed(&read(task, "status")) == mine) {
            work_for_all();
            return false;
        }
        own.len() == threads
    });
}

#[test]
fn a_thread_can_be_one_of_its_runtime_until_a_future_is_over() {
    for threads in [1, 3] {
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&dropped);
        let here = std::thread::current().id();
        let (sum, was_here) = Builder::new()
            .threads(threads)
            .run(Pool::User, async move {
                for _ in 0..10 {
                    let counted = Arc::clone(&counted);
                    let on_drop = OnDrop(move || {
                        counted.fetch_add(1, Ordering::SeqCst);
                    });
                    drop(spawn(Pool::Batch, async move {
                        let _on_drop = on_drop;
                        pending::<()>().await;
                    }));
                }
                let mut was_here = false;
                let mut sum = 0;
                for n in 0..200 {
                    let (number, thread) = spawn(Pool::ALL[n % 4], async move {
                        sleep(Duration::from_micros(50)).await;
                        (n, std::thread::current().id())
                    })
                    .await
                    .unwrap();
                    sum += number;
                    was_here |= thread == here;
                }
                (sum, was_here)
            })
            .unwrap();
        assert_eq!((sum, was_here || threads > 1), (19_900, true));
        assert_eq!(dropped.load(Ordering::SeqCst), 10, "the others are cancelled");
        assert!(Handle::try_current().is_none());
    }
    let panicked = std::panic::catch_unwind(|| Builder::new().threads(2).run(Pool::User, async { panic!("over") }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"over"));
}

#[test]
fn pings_are_sent_while_there_is_work_and_only_then() {
    let runtime = Builder::new().threads(1).ping(Some(Duration::from_millis(1))).build().unwrap();
    runtime
        .block_on(runtime.spawn(Pool::User, async {
            for _ in 0..100 {
                work(Duration::from_micros(100));
                budget::yield_now().await;
            }
        }))
        .unwrap();
    let pings = || runtime.counters().pools.map(|pool| pool.ping.count());
    eventually("pings of all pools", || pings().iter().all(|&count| count >= 5));
    // A thread that was stopped in the middle of its work owes up to one ping per pool, sent one
    // after the other.
    let mut before = pings();
    eventually("pings are sent without end, while nobody works", || {
        runtime.block_on(sleep(Duration::from_millis(100)));
        let now = pings();
        std::mem::replace(&mut before, now) == now
    });
    assert_eq!(runtime.counters().ping_work.count(), before.iter().sum::<u64>());
}

/// Bug: no restart lies within no time, and the next beginning was in the same turn. Consequence:
/// an actor without a limit in time that panicked at once had its thread for ever, and could not be
/// cancelled. Fix: zero stands for no such limit, and tasks that wait have their turn in between.
#[test]
fn an_actor_that_panics_at_once_is_given_up_and_until_then_keeps_nobody_out() {
    let begun = Arc::new(AtomicUsize::new(0));
    let actor = |runtime: &Runtime, options| {
        let begun = Arc::clone(&begun);
        let begin = move |_: Inbox<()>| -> std::future::Ready<()> {
            begun.fetch_add(1, Ordering::SeqCst);
            panic!("at once");
        };
        runtime.handle().spawn_actor(options, begin)
    };
    let runtime = Builder::new().threads(1).ping(None).build().unwrap();
    let options = ActorOptions { restarts_max: 3, restarts_within: Duration::ZERO, ..ActorOptions::default() };
    let end = actor(&runtime, options).end;
    eventually("it goes on for ever", || end.is_finished());
    assert_eq!(runtime.block_on(end).unwrap().unwrap_err().message, "at once");
    assert_eq!(begun.load(Ordering::SeqCst), 4);

    // One that goes on without end.
    let options = ActorOptions { restarts_within: Duration::from_nanos(1), ..options };
    let end = actor(&runtime, options).end;
    let (told, tell) = mpsc::channel();
    drop(runtime.spawn(Pool::System, async move { told.send(()).unwrap() }));
    tell.recv_timeout(Duration::from_secs(20)).expect("others have their turn");
    assert!(!end.is_finished());
    end.cancel();
    eventually("it goes on for ever", || runtime.counters().pools.iter().all(|pool| pool.live == 0));
    // And one that the end of the runtime ends.
    drop(actor(&runtime, options));
    let report = runtime.shutdown(Duration::ZERO);
    assert_eq!((report.cancelled, report.abandoned), (1, 0));
}

/// Bug: a task that came after the end of the runtime was dropped while the thread looked at what
/// it is. Consequence: a destructor that waited for something ended the process. Fix: it is dropped
/// afterwards, where its destructors may do what the thread may do.
#[test]
fn destructors_of_what_is_spawned_after_the_end_may_wait() {
    let runtime = runtime(1);
    let handle = runtime.handle().clone();
    drop(runtime);
    let (told, tell) = mpsc::channel();
    let waiting = handle.clone();
    let on_drop = OnDrop(move || {
        let seven = waiting.block_on(async {
            sleep(Duration::from_millis(1)).await;
            7
        });
        told.send(seven).unwrap();
    });
    let task = handle.spawn(Pool::User, async move {
        let _on_drop = on_drop;
    });
    assert_eq!(tell.try_recv(), Ok(7));
    assert!(task.is_finished());
}

/// Bug: a panic in the destructor of a cancelled future ended the process; `block_on` there is one.
/// Fix: it is reported.
#[test]
fn a_panic_in_the_destructor_of_what_is_cancelled_is_reported_and_nothing_else() {
    let reports = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let noted = Arc::clone(&reports);
    let runtime = Builder::new()
        .threads(1)
        .blocking(1, Duration::MAX)
        .on_panic(move |report| noted.lock().push((report.pool, report.message.to_owned())))
        .build()
        .unwrap();
    let handle = runtime.handle().clone();
    let on_drop = OnDrop(move || handle.block_on(async {}));
    let task = runtime.spawn(Pool::User, async move {
        let _on_drop = on_drop;
        pending::<()>().await;
    });
    task.cancel();
    eventually("it is reported", || reports.lock().len() == 1);
    assert_eq!(reports.lock()[0].0, Some(Pool::User));
    assert!(reports.lock()[0].1.contains("await the future instead"), "{:?}", reports.lock());
    assert_eq!(runtime.block_on(runtime.spawn(Pool::User, async { 1 })).unwrap(), 1, "the thread goes on");

    // A blocking call that has not begun when the end comes.
    let (begun, has_begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    drop(runtime.handle().spawn_blocking(move || {
        begun.send(()).unwrap();
        let _ = may_go.recv();
    }));
    has_begun.recv().unwrap();
    let on_drop = OnDrop(|| panic!("a call"));
    let call = runtime.handle().spawn_blocking(move || drop(on_drop));
    let counters = runtime.handle().clone();
    let ending = std::thread::spawn(move || runtime.shutdown(Duration::from_secs(20)));
    eventually("it is dropped", || call.is_finished());
    drop(go);
    assert_eq!(ending.join().unwrap().calls_abandoned, 0);
    assert_eq!(reports.lock()[1], (None, "a call".to_owned()));
    assert_eq!(counters.counters().pools[Pool::User as usize].live, 0);
}

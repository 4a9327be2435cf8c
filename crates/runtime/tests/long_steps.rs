//! Steps that cannot yield: others run all the same.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use colibri_runtime::{Builder, Pool, Runtime, budget, sleep, spawn};

/// Far more than a task waits for a thread, and far less than the long steps take.
const SOON: Duration = Duration::from_millis(100);

fn runtime(threads: usize) -> Runtime {
    Builder::new().threads(threads).build().unwrap()
}

/// Works, and says every 50 µs that it does, until told to end.
fn long_step(is_over: &AtomicBool) {
    let begun = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        assert!(begun.elapsed() < Duration::from_secs(30), "nobody has ended it");
        let piece = Instant::now();
        while piece.elapsed() < Duration::from_micros(50) {
            std::hint::spin_loop();
        }
        budget::in_long_step();
    }
}

/// Spawns tasks with a long step each, and ends them when dropped.
struct LongSteps {
    is_over: Arc<AtomicBool>,
    tasks: Vec<colibri_runtime::JoinHandle<()>>,
}

impl LongSteps {
    fn spawn(runtime: &Runtime, pool: Pool, count: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(AtomicUsize::new(0));
        let spawn_one = |_| {
            let (is_over, begun) = (Arc::clone(&is_over), Arc::clone(&begun));
            runtime.spawn(pool, async move {
                begun.fetch_add(1, Ordering::Relaxed);
                long_step(&is_over);
            })
        };
        let tasks = (0..count).map(spawn_one).collect();
        let from = Instant::now();
        while begun.load(Ordering::Relaxed) < count {
            assert!(from.elapsed() < Duration::from_secs(20), "not all of them have begun");
            std::thread::sleep(Duration::from_millis(1));
        }
        Self { is_over, tasks }
    }

    fn end(self, runtime: &Runtime) {
        self.is_over.store(true, Ordering::Relaxed);
        self.tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    }
}

/// Bug: a step that did not yield kept its thread from everything else. Consequence: one query of
/// one client stopped a server of one thread. Fix: another thread takes over what the thread does
/// for the runtime.
#[test]
fn tasks_timers_and_sockets_are_served_beside_more_long_steps_than_threads() {
    for (threads, steps) in [(1, 1), (1, 5), (2, 6)] {
        let runtime = runtime(threads);
        let long = LongSteps::spawn(&runtime, Pool::User, steps);
        for _ in 0..20 {
            let begun = Instant::now();
            runtime.block_on(runtime.spawn(Pool::User, async { sleep(Duration::from_millis(1)).await })).unwrap();
            assert!(begun.elapsed() < SOON, "{threads} threads, {steps} steps: {:?}", begun.elapsed());
        }
        assert!(runtime.counters().handed_over as usize > steps - threads, "{}", runtime.counters().handed_over);
        long.end(&runtime);
        let report = runtime.shutdown(Duration::from_secs(5));
        assert_eq!((report.cancelled, report.abandoned), (0, 0));
    }
}

#[test]
fn batch_tasks_get_on_beside_a_long_step_in_the_batch_pool() {
    let runtime = runtime(1);
    let long = LongSteps::spawn(&runtime, Pool::Batch, 1);
    let begun = Instant::now();
    for _ in 0..10 {
        runtime.block_on(runtime.spawn(Pool::Batch, async {})).unwrap();
    }
    assert!(begun.elapsed() < SOON * 10, "{:?}", begun.elapsed());
    long.end(&runtime);
}

#[test]
fn after_a_long_step_the_budget_is_over_and_the_task_goes_on_as_any_other() {
    let runtime = runtime(1);
    let task = runtime.spawn(Pool::User, async {
        let mut was_over = 0;
        for _ in 0..20 {
            let until = Instant::now() + Duration::from_millis(3);
            while Instant::now() < until {
                budget::in_long_step();
            }
            // The thread may have been without a CPU for all of that.
            budget::in_long_step();
            was_over += usize::from(budget::is_over());
            // By turns in another pool, which takes effect where the task goes on.
            budget::move_to(if was_over % 2 == 0 { Pool::User } else { Pool::Batch }).await;
        }
        // It is a task among others: what it spawns runs.
        (was_over, spawn(Pool::User, async { 7 }).await.unwrap())
    });
    assert_eq!(runtime.block_on(task).unwrap(), (20, 7));
    assert!(runtime.counters().handed_over >= 20);
    // Threads that no role needs end after a while, and the runtime has its threads.
    assert_eq!(runtime.counters().threads, 1);
    let report = runtime.shutdown(Duration::from_secs(5));
    assert_eq!(report.abandoned, 0);
}

#[test]
fn long_steps_are_not_handed_over_while_another_thread_is_free() {
    const STEPS: u64 = 30;
    let runtime = Builder::new().threads(2).ping(None).build().unwrap();
    for _ in 0..STEPS {
        let step = runtime.spawn(Pool::User, async {
            let until = Instant::now() + Duration::from_millis(5);
            while Instant::now() < until {
                budget::in_long_step();
            }
        });
        runtime.block_on(step).unwrap();
        // So that the other thread has come to rest.
        std::thread::sleep(Duration::from_millis(2));
    }
    // On a busy machine the other thread may be on its way to sleep just when a slice is over.
    let handed_over = runtime.counters().handed_over;
    assert!(handed_over < STEPS / 2, "{handed_over}");
}

#[test]
fn a_panic_in_a_long_step_ends_its_task_alone() {
    let runtime = runtime(1);
    let task = runtime.spawn(Pool::User, async {
        let until = Instant::now() + Duration::from_millis(3);
        while Instant::now() < until {
            budget::in_long_step();
        }
        panic!("in the middle");
    });
    assert!(runtime.block_on(task).is_err());
    assert_eq!(runtime.block_on(runtime.spawn(Pool::User, async { 1 })).unwrap(), 1);
    assert_eq!(runtime.counters().pools.iter().map(|pool| pool.panics).sum::<u64>(), 1);
}

#[test]
fn a_runtime_on_the_main_thread_ends_with_its_task_though_the_thread_has_handed_over_its_role() {
    let ended = Builder::new().threads(1).run(Pool::User, async {
        let until = Instant::now() + Duration::from_millis(5);
        while Instant::now() < until {
            budget::in_long_step();
        }
        sleep(Duration::from_millis(5)).await;
        42
    });
    assert_eq!(ended.unwrap(), 42);
}

#[test]
fn shutdown_waits_for_a_long_step_that_ends_and_tells_of_one_that_does_not() {
    let first = runtime(1);
    let long = LongSteps::spawn(&first, Pool::User, 2);
    long.is_over.store(true, Ordering::Relaxed);
    let report = first.shutdown(Duration::from_secs(5));
    assert_eq!((report.cancelled, report.abandoned), (0, 0));

    let second = runtime(1);
    let long = LongSteps::spawn(&second, Pool::User, 1);
    let report = second.shutdown(Duration::from_millis(10));
    assert_eq!(report.abandoned, 1);
    long.is_over.store(true, Ordering::Relaxed);
}

#[test]
fn outside_of_tasks_it_does_nothing() {
    budget::in_long_step();
    let runtime = runtime(1);
    runtime.block_on(async { budget::in_long_step() });
    runtime.block_on(runtime.handle().spawn_blocking(budget::in_long_step)).unwrap();
    budget::before_long_call();
    runtime.block_on(async { budget::before_long_call() });
    assert_eq!(runtime.counters().handed_over, 0);
}

/// Bug: a call that says nothing along the way kept its thread from everything else for as long as
/// it took. Consequence: a server of one thread answered nobody during a long commit. Fix: the step
/// says before that the call begins.
#[test]
fn before_a_long_call_another_thread_takes_over_at_once_unless_one_is_free() {
    for (threads, handed_over) in [(1, 1), (2, 0)] {
        let runtime = runtime(threads);
        // So that the other thread has come to rest.
        std::thread::sleep(Duration::from_millis(20));
        let (is_over, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let task = {
            let (is_over, begun) = (Arc::clone(&is_over), Arc::clone(&begun));
            runtime.spawn(Pool::User, async move {
                budget::before_long_call();
                begun.store(true, Ordering::Relaxed);
                let from = Instant::now();
                while !is_over.load(Ordering::Relaxed) {
                    assert!(from.elapsed() < Duration::from_secs(30), "nobody has ended it");
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
        };
        while !begun.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let from = Instant::now();
        runtime.block_on(runtime.spawn(Pool::User, async { sleep(Duration::from_millis(1)).await })).unwrap();
        assert!(from.elapsed() < SOON, "{:?}", from.elapsed());
        is_over.store(true, Ordering::Relaxed);
        runtime.block_on(task).unwrap();
        assert_eq!(runtime.counters().handed_over, handed_over, "{threads} threads");
    }
}

/// Bug: a blocking call yielded its CPU every 50 µs, whatever that cost. Consequence: beside busy
/// processes CREATE INDEX was at work for 80 µs of each turn of them all, a fiftieth of its share
/// or less. Fix: who has lost the CPU for a whole slice works as long before it yields again.
#[test]
fn a_blocking_call_beside_busy_threads_gets_its_share_of_the_cpu() {
    fn work(mut between: impl FnMut()) -> Duration {
        let begun = Instant::now();
        for _ in 0..400 {
            (0..30_000_u32).for_each(|i| {
                std::hint::black_box(i);
            });
            between();
        }
        begun.elapsed()
    }
    let runtime = runtime(1);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cpus = std::thread::available_parallelism().unwrap().get();
        for _ in 0..2 * cpus {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let plain = work(|| {});
        let call = runtime.handle().spawn_blocking(|| work(budget::in_long_step));
        let yielding = runtime.block_on(call).unwrap();
        is_over.store(true, Ordering::Relaxed);
        assert!(yielding < 8 * plain.max(Duration::from_millis(20)), "{yielding:?} instead of {plain:?}");
    });
}

//! Timers: when they fire, what they cost, and that they cost nothing until then.

#![allow(clippy::unwrap_used)]

use std::future::pending;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use colibri_runtime::{Builder, Pool, Runtime, TimedOut, sleep, sleep_until, spawn, timeout};

fn runtime(threads: usize) -> Runtime {
    Builder::new().threads(threads).build().unwrap()
}

#[test]
fn a_sleep_takes_at_least_so_long_wherever_it_is_awaited() {
    let runtime = runtime(2);
    let nap = Duration::from_millis(20);
    let begun = Instant::now();
    runtime.block_on(sleep(nap));
    assert!(begun.elapsed() >= nap);
    let begun = Instant::now();
    runtime.block_on(runtime.spawn(Pool::User, async move { sleep_until(begun + nap).await })).unwrap();
    assert!(begun.elapsed() >= nap);
    runtime.block_on(sleep_until(begun));
    runtime.block_on(timeout(nap, sleep(Duration::ZERO))).unwrap();
}

#[test]
fn a_limit_ends_what_takes_longer() {
    let runtime = runtime(1);
    assert_eq!(runtime.block_on(timeout(Duration::from_millis(5), pending::<()>())), Err(TimedOut));
    assert_eq!(runtime.block_on(timeout(Duration::from_secs(1_000), async { 5 })), Ok(5));
    assert_eq!(runtime.block_on(timeout(Duration::MAX, async { 5 })), Ok(5));
    assert_eq!(runtime.counters().timers, 0, "those that are dropped are gone");
}

#[test]
fn an_earlier_timer_fires_before_a_later_one_that_everybody_sleeps_for() {
    let runtime = runtime(2);
    let late = runtime.spawn(Pool::User, sleep_in(Duration::from_secs(1_000)));
    std::thread::sleep(Duration::from_millis(20));
    // From outside, and from a task.
    runtime.block_on(sleep(Duration::from_millis(5)));
    runtime.block_on(runtime.spawn(Pool::User, sleep_in(Duration::from_millis(5)))).unwrap();
    assert!(!late.is_finished());
}

async fn sleep_in(duration: Duration) {
    sleep(duration).await;
}

#[test]
fn a_million_timers_are_armed_and_cancelled_without_a_system_call_each() {
    let runtime = runtime(1);
    let alarms = runtime
        .block_on(runtime.spawn(Pool::User, async {
            let mut timers = Vec::new();
            for n in 0..1_000_000_u64 {
                // In no order.
                let seconds = 1_000 + n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000;
                let mut timer = Box::pin(sleep(Duration::from_secs(seconds)));
                std::future::poll_fn(|cx| {
                    assert!(timer.as_mut().poll(cx).is_pending());
                    std::task::Poll::Ready(())
                })
                .await;
                timers.push(timer);
            }
            timers.len()
        }))
        .unwrap();
    assert_eq!(alarms, 1_000_000);
    let counters = runtime.counters();
    assert_eq!((counters.timers_armed, counters.timers), (1_000_000, 0));
    assert!(counters.alarms_set <= 2, "the alarm was set {} times", counters.alarms_set);
}

#[test]
fn a_limit_that_was_lifted_wakes_nobody() {
    let runtime = runtime(1);
    let lifted = |after: Duration| {
        let task = runtime.spawn(Pool::User, async move {
            let mut limit = Box::pin(sleep(after));
            // Waits, so that the alarm is set.
            let first = std::future::poll_fn(|cx| std::task::Poll::Ready(limit.as_mut().poll(cx).is_pending())).await;
            sleep(Duration::from_micros(100)).await;
            first
        });
        assert!(runtime.block_on(task).unwrap());
    };
    lifted(Duration::from_millis(1_500));
    std::thread::sleep(Duration::from_millis(100));
    let before = runtime.counters();
    assert_eq!(before.timers, 0);
    std::thread::sleep(Duration::from_millis(2_000));
    assert_eq!(runtime.counters().wake_ups, before.wake_ups, "nobody waits for anything");

    // Many in a moment put the alarm off a few times only; and one that stays is heard.
    let before = runtime.counters().alarms_set;
    let begun = Instant::now();
    for _ in 0..1_000 {
        lifted(Duration::from_secs(60));
    }
    let (set, moments) = (runtime.counters().alarms_set - before, begun.elapsed().as_millis() as u64 / 10 + 1);
    // For each the short one, and then the long one.
    assert!(set <= 2 * 1_000 + 2 * moments + 2, "the alarm was set {set} times in {moments} times 10 ms");
    let begun = Instant::now();
    runtime.block_on(runtime.spawn(Pool::User, sleep(Duration::from_millis(1_200)))).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(1_200));
}

#[test]
fn timers_with_slack_share_their_wake_ups() {
    let runtime = runtime(1);
    let before = runtime.counters().wake_ups;
    runtime.block_on(async {
        let tasks: Vec<_> = (0..1_000)
            .map(|n| {
                spawn(Pool::User, async move {
                    sleep(Duration::from_micros(50_000 + n * 50)).slack(Duration::from_millis(30)).await;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let wake_ups = runtime.counters().wake_ups - before;
    assert!(wake_ups < 60, "{wake_ups} wake-ups for timers of 50 ms with 30 ms of slack");
}

#[test]
fn many_timers_of_many_tasks_all_fire() {
    let runtime = runtime(2);
    runtime.block_on(async {
        let tasks: Vec<_> = (0..5_000_u64)
            .map(|n| {
                spawn(Pool::ALL[n as usize % 4], async move {
                    for step in 0..3 {
                        sleep(Duration::from_micros((n * 7_919 + step * 104_729) % 5_000)).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(runtime.counters().timers, 0);
}

/// What `f` gives, if it comes to its end.
fn in_time<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (told, tell) = mpsc::channel();
    std::thread::spawn(move || told.send(f()));
    tell.recv_timeout(Duration::from_secs(20)).expect("it does not wait for ever")
}

/// Bug: nobody was left to hear the alarm. Consequence: who slept outside of the runtime's tasks
/// when it shut down, or later, never woke up. Fix: `block_on` looks after timers itself then.
#[test]
fn sleeping_takes_its_time_after_the_end_as_well() {
    let nap = Duration::from_millis(30);
    let runtime = Builder::new().threads(2).build().unwrap();
    let handle = runtime.handle().clone();
    let begun = Instant::now();
    // The end comes while these sleep; one of them has a timer for later, too.
    let sleepers: Vec<_> = (0..3)
        .map(|n| {
            let handle = handle.clone();
            std::thread::spawn(move || {
                handle.block_on(async {
                    timeout(Duration::from_secs(1_000), sleep(nap * 10 + nap * n)).await.unwrap();
                });
                begun.elapsed()
            })
        })
        .collect();
    while runtime.counters().timers < 6 {
        std::thread::yield_now();
    }
    drop(runtime);
    for sleeper in sleepers {
        let took = in_time(move || sleeper.join().unwrap());
        assert!(took >= nap * 10, "{took:?}");
    }
    in_time(move || {
        let begun = Instant::now();
        handle.block_on(sleep(nap));
        assert!(begun.elapsed() >= nap);
        assert_eq!(handle.block_on(timeout(nap, pending::<()>())), Err(TimedOut));
        assert!(begun.elapsed() >= nap * 2);
        assert_eq!(handle.counters().timers, 0);
    });
}

#[test]
fn a_sleep_goes_on_in_another_runtime_when_its_own_has_ended() {
    let nap = Duration::from_millis(50);
    let first = Builder::new().threads(1).build().unwrap();
    let second = Builder::new().threads(1).build().unwrap();
    let begun = Instant::now();
    let [mut a, mut b] = [(); 2].map(|()| Box::pin(sleep(nap)));
    first.block_on(std::future::poll_fn(|cx| {
        assert!(a.as_mut().poll(cx).is_pending() && b.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    }));
    let a = second.spawn(Pool::User, a);
    drop(first);
    in_time(move || {
        second.block_on(a).unwrap();
        assert!(begun.elapsed() >= nap);
        second.block_on(b);
        assert_eq!(second.counters().timers, 0);
    });
}

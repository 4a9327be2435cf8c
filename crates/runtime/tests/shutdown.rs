//! The end of a runtime: tasks that come to their end, tasks that do not, and what is left of them.

#![allow(clippy::unwrap_used)]

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use colibri_runtime::net::UnixStream;
use colibri_runtime::{Builder, Handle, JoinError, Pool, WhenFull, budget, mailbox, sleep, stopping};

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn tasks_that_listen_come_to_their_end_before_it() {
    let runtime = Builder::new().threads(2).build().unwrap();
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let ended = Arc::clone(&ended);
        drop(runtime.spawn(Pool::User, async move {
            stopping().await;
            sleep(Duration::from_millis(5)).await;
            ended.fetch_add(1, Ordering::SeqCst);
        }));
    }
    let report = runtime.shutdown(Duration::from_secs(20));
    assert_eq!((report.cancelled, report.abandoned), (0, 0));
    assert_eq!(ended.load(Ordering::SeqCst), 10);
}

#[test]
fn whatever_tasks_wait_for_they_are_cancelled_and_dropped() {
    for threads in [1, 3] {
        let runtime = Builder::new().threads(threads).ping(None).build().unwrap();
        let dropped = Arc::new(AtomicUsize::new(0));
        let handle = runtime.handle().clone();
        let (mailbox, mut inbox) = mailbox::<u8>(1, WhenFull::Wait);
        let one = || Counted(Arc::clone(&dropped));
        let counted = one();
        drop(handle.spawn(Pool::Interconnect, async move {
            let _counted = counted;
            inbox.recv().await
        }));
        let counted = one();
        drop(handle.spawn(Pool::System, async move {
            let _counted = counted;
            sleep(Duration::from_secs(1_000)).await;
        }));
        let counted = one();
        drop(handle.spawn(Pool::User, async move {
            let _counted = counted;
            let (a, _b) = UnixStream::pair().unwrap();
            let _ = a.read(&mut [0; 8]).await;
        }));
        let counted = one();
        drop(handle.spawn(Pool::Batch, async move {
            let _counted = counted;
            loop {
                budget::yield_now().await;
            }
        }));
        let counted = one();
        let joined = handle.spawn(Pool::User, async move {
            let _counted = counted;
            pending::<()>().await;
        });
        while runtime.counters().pools.iter().map(|pool| pool.live).sum::<usize>() < 5 {}
        let report = runtime.shutdown(Duration::from_millis(20));
        assert_eq!((report.cancelled, report.abandoned), (5, 0));
        assert_eq!(dropped.load(Ordering::SeqCst), 5);
        drop(mailbox);
        // Afterwards nothing is accepted, and nobody waits for ever.
        let late = handle.spawn(Pool::User, async {});
        assert!(late.is_finished());
        let results = (block(joined), block(late), block(handle.spawn_blocking(|| ())));
        assert!(matches!(results, (Err(JoinError::Cancelled), Err(JoinError::Cancelled), Err(JoinError::Cancelled))));
    }
}

/// Waits without a runtime.
fn block<F: Future>(future: F) -> F::Output {
    let (told, tell) = mpsc::channel::<()>();
    struct Tell(mpsc::Sender<()>);
    impl std::task::Wake for Tell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }
    let waker = Arc::new(Tell(told)).into();
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            return value;
        }
        tell.recv_timeout(Duration::from_secs(20)).expect("it is woken");
    }
}

/// Bug: tasks were cancelled by the pool they were in, but woken by the one they were spawned into.
/// Consequence: those that had moved were not dropped until a second attempt. Fix: both go by the
/// pool they were spawned into.
#[test]
fn tasks_that_have_moved_to_another_pool_are_cancelled_as_well() {
    let runtime = Builder::new().threads(2).ping(None).build().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    for (from, to) in [(Pool::Batch, Pool::User), (Pool::User, Pool::Batch), (Pool::Interconnect, Pool::Batch)] {
        let counted = Counted(Arc::clone(&dropped));
        drop(runtime.spawn(from, async move {
            let _counted = counted;
            budget::move_to(to).await;
            pending::<()>().await;
        }));
    }
    std::thread::sleep(Duration::from_millis(20));
    let begun = Instant::now();
    let report = runtime.shutdown(Duration::ZERO);
    assert_eq!((report.cancelled, report.abandoned), (3, 0));
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
    assert!(begun.elapsed() < Duration::from_millis(900), "nobody was waited for in vain");
}

#[test]
fn a_task_that_never_waits_does_not_keep_the_end_from_coming() {
    let runtime = Builder::new().threads(1).build().unwrap();
    let (stop, stopped) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    drop(runtime.spawn(Pool::User, async move {
        begun.send(()).unwrap();
        let _ = stopped.recv();
    }));
    has_begun.recv().unwrap();
    let asked = Instant::now();
    let report = runtime.shutdown(Duration::ZERO);
    assert_eq!(report.abandoned, 1);
    assert!(asked.elapsed() < Duration::from_secs(20));
    drop(stop);
}

#[test]
fn blocking_calls_under_way_are_waited_for_and_others_dropped() {
    let runtime = Builder::new().threads(1).blocking(1, Duration::from_secs(1)).build().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&done);
    let (begun, has_begun) = mpsc::channel();
    drop(runtime.handle().spawn_blocking(move || {
        begun.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    has_begun.recv().unwrap();
    let counted = Arc::clone(&done);
    let second = runtime.handle().spawn_blocking(move || counted.fetch_add(100, Ordering::SeqCst));
    let report = runtime.shutdown(Duration::from_secs(20));
    assert_eq!(report.calls_abandoned, 0);
    assert_eq!(done.load(Ordering::SeqCst), 1);
    assert!(matches!(block(second), Err(JoinError::Cancelled)));
}

#[test]
fn dropping_a_runtime_leaves_nothing_behind() {
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let dropped = Arc::new(AtomicUsize::new(0));
    let make = || {
        let runtime = Builder::new().threads(2).build().unwrap();
        let handle = runtime.handle().clone();
        let counted = Counted(Arc::clone(&dropped));
        // A task that holds on to its own runtime.
        drop(runtime.spawn(Pool::User, async move {
            let _held: (Counted, Handle) = (counted, handle);
            pending::<()>().await;
        }));
        drop(runtime);
    };
    make();
    let before = count();
    (0..5).for_each(|_| make());
    assert_eq!(dropped.load(Ordering::SeqCst), 6);
    assert_eq!(count(), before, "descriptors are left open");
}

//! Waiting without a runtime: threads of the cluster run futures of `colibri-replica`, and tasks
//! wait for what these threads do.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use parking_lot::Mutex;

/// Runs a future in this thread, which sleeps while the future waits.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark {
        thread: Thread,
        /// What the future calls may park the thread as well, and take its token.
        is_woken: AtomicBool,
    }
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.is_woken.store(true, Ordering::SeqCst);
            self.thread.unpark();
        }
    }
    let unpark = Arc::new(Unpark { thread: std::thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Arc::clone(&unpark).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        while !unpark.is_woken.swap(false, Ordering::SeqCst) {
            std::thread::park();
        }
    }
}

/// Which of two futures was first.
pub(crate) enum Either<A, B> {
    First(A),
    Second(B),
}

/// Runs two futures until one has ended. The other one is dropped.
pub(crate) async fn race<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> Either<A, B> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| {
        if let Poll::Ready(value) = first.as_mut().poll(context) {
            return Poll::Ready(Either::First(value));
        }
        second.as_mut().poll(context).map(Either::Second)
    })
    .await
}

/// Runs several futures together. What each of them gives, and its place among them, goes to `take`
/// as it comes.
pub(crate) async fn all<F: Future>(futures: impl IntoIterator<Item = F>, mut take: impl FnMut(usize, F::Output)) {
    let mut running: Vec<_> = futures.into_iter().map(|future| Some(Box::pin(future))).collect();
    poll_fn(|context| {
        let mut is_over = true;
        for (place, slot) in running.iter_mut().enumerate() {
            let Some(future) = slot else { continue };
            match future.as_mut().poll(context) {
                Poll::Ready(value) => {
                    *slot = None;
                    take(place, value);
                }
                Poll::Pending => is_over = false,
            }
        }
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Lets what runs beside this go on before this does.
pub(crate) async fn give_way() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// An event that can happen many times, and any number of tasks that wait for the next time.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    given: AtomicU64,
    wakers: Mutex<Vec<Waker>>,
}

impl Signal {
    pub(crate) fn give(&self) {
        // Pairs with the load after the waker is stored.
        self.given.fetch_add(1, Ordering::SeqCst);
        let wakers = std::mem::take(&mut *self.wakers.lock());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// How often the event has happened.
    pub(crate) fn count(&self) -> u64 {
        self.given.load(Ordering::SeqCst)
    }

    /// Waits until the event has happened more often than that.
    pub(crate) async fn wait(&self, seen: u64) {
        poll_fn(|context| {
            if self.count() != seen {
                return Poll::Ready(());
            }
            let mut wakers = self.wakers.lock();
            if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                wakers.push(context.waker().clone());
            }
            drop(wakers);
            if self.count() != seen { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_gives_way_lets_the_other_go_on_however_often_it_is_woken() {
        let signal = Signal::default();
        let rounds = std::cell::Cell::new(0);
        let other = async {
            for _ in 0..10 {
                give_way().await;
            }
        };
        let disturbed = async {
            loop {
                give_way().await;
                let seen = signal.count();
                rounds.set(rounds.get() + 1);
                signal.give();
                signal.wait(seen).await;
            }
        };
        assert!(matches!(block_on(race(other, disturbed)), Either::First(())));
        assert!(rounds.get() <= 11, "{rounds:?}");
    }

    #[test]
    fn what_runs_together_is_given_as_it_comes() {
        let mut given = Vec::new();
        let turns = [2, 0, 1].map(|turns| async move {
            for _ in 0..turns {
                give_way().await;
            }
            turns * 10
        });
        block_on(all(turns, |place, value| given.push((place, value))));
        assert_eq!(given, [(1, 0), (2, 10), (0, 20)]);
    }

    #[test]
    fn all_who_wait_are_woken_and_what_came_before_is_not_waited_for() {
        let signal = Arc::new(Signal::default());
        let seen = signal.count();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let signal = Arc::clone(&signal);
                std::thread::spawn(move || block_on(signal.wait(seen)))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(20));
        signal.give();
        waiting.into_iter().for_each(|thread| thread.join().expect("it was woken"));
        block_on(signal.wait(seen));
        let later = block_on(race(signal.wait(seen + 1), async {}));
        assert!(matches!(later, Either::Second(())));
    }
}

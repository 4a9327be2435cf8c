//! Work that its owner lends to the thread for etcd, and can take back.
//!
//! ```text
//! owner ── Lent ──► | the work, until it has ended or was taken back | ◄── Work ── thread "etcd"
//! ```
//! Invariant: the work is polled with the slot's lock held, and dropping [`Lent`] empties the slot.
//! So once [`Lent`] is dropped the work runs no more, and waits for nothing but the poll under way.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::coordinator::Answer;

type Slot = Arc<Mutex<Option<Answer<()>>>>;

/// The owner's end: ready when the work has ended, or when nobody runs it any more.
pub(super) struct Lent {
    slot: Slot,
    ended: oneshot::Receiver<()>,
}

/// The end of the thread that runs it.
pub(super) struct Work {
    slot: Slot,
    ended: oneshot::Sender<()>,
}

pub(super) fn lend(work: Answer<()>) -> (Lent, Work) {
    let slot = Arc::new(Mutex::new(Some(work)));
    let (told, ended) = oneshot::channel();
    (Lent { slot: Arc::clone(&slot), ended }, Work { slot, ended: told })
}

impl Future for Work {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        {
            let mut slot = self.slot.lock();
            if let Some(work) = slot.as_mut()
                && work.as_mut().poll(context).is_ready()
            {
                *slot = None;
                return Poll::Ready(());
            }
        }
        // Taken back: the receiver is gone.
        self.ended.poll_closed(context)
    }
}

impl Future for Lent {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        _ = ready!(Pin::new(&mut self.ended).poll(context));
        Poll::Ready(())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // What the work owns is dropped without the lock.
        let work = self.slot.lock().take();
        drop(work);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Waker;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::address::Address;
    use crate::coordinator::Coordinator;
    use crate::etcd::{Etcd, EtcdOptions};

    fn poll(work: &mut Answer<()>) -> Poll<()> {
        work.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn until(is_so: impl Fn() -> bool) {
        while !is_so() {
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// Nobody listens there, and nothing here asks.
    fn etcd() -> Arc<Etcd> {
        Etcd::new(&Address::parse("etcd://127.0.0.1:1/none").unwrap(), EtcdOptions::default()).unwrap()
    }

    #[test]
    fn work_runs_in_the_thread_for_etcd_and_tells_its_end() {
        let etcd = etcd();
        let name = Arc::new(Mutex::new(None));
        let told = Arc::clone(&name);
        let pause = etcd.sleep(Duration::from_millis(1));
        let mut lent = etcd.beside_answers(Box::pin(async move {
            pause.await;
            *told.lock() = thread::current().name().map(str::to_owned);
        }));
        until(|| name.lock().is_some());
        until(|| Arc::strong_count(&name) == 1);
        assert_eq!(poll(&mut lent), Poll::Ready(()));
        assert_eq!(name.lock().as_deref(), Some("etcd"));
    }

    #[test]
    fn work_that_was_taken_back_runs_no_more() {
        let etcd = etcd();
        let steps = Arc::new(AtomicU64::new(0));
        for round in 0..200_u64 {
            let seen = Arc::clone(&steps);
            let lent = etcd.beside_answers(Box::pin(async move {
                loop {
                    seen.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            }));
            let before = steps.load(Ordering::SeqCst);
            if round % 2 == 0 {
                until(|| steps.load(Ordering::SeqCst) > before);
            }
            drop(lent);
            let then = steps.load(Ordering::SeqCst);
            assert_eq!(Arc::strong_count(&steps), 1, "the work is gone");
            thread::sleep(Duration::from_micros(100));
            assert_eq!(steps.load(Ordering::SeqCst), then);
        }
    }

    #[test]
    fn work_that_nobody_runs_is_over() {
        let (lent, work) = lend(Box::pin(std::future::pending()));
        let mut lent: Answer<()> = Box::pin(lent);
        assert_eq!(poll(&mut lent), Poll::Pending);
        drop(work);
        assert_eq!(poll(&mut lent), Poll::Ready(()));
    }
}

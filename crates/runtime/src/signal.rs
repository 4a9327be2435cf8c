//! A signal: an event that happens once, and the tasks that wait for it.
//!
//! Invariant: no waker is cloned, dropped or woken while the lock is held: it is foreign code,
//! which may end up here again.
//!
//! Not here: anything that is said with the signal.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use slab::Slab;

use crate::sync::{AtomicBool, Mutex};

#[derive(Debug, Default)]
pub(crate) struct Signal {
    is_set: AtomicBool,
    waiting: Mutex<Slab<Waker>>,
}

impl Signal {
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self) {
        let waiting = {
            let mut waiting = self.waiting.lock();
            self.is_set.store(true, Ordering::Release);
            std::mem::take(&mut *waiting)
        };
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub(crate) fn wait(&self) -> Wait<'_> {
        Wait { signal: self, place: None }
    }
}

/// Waits until the signal is set.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    signal: &'a Signal,
    place: Option<usize>,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let signal = self.signal;
        // Cloned before the lock is taken, so that what is left of it is dropped without the lock.
        let mut waker = cx.waker().clone();
        let mut waiting = signal.waiting.lock();
        if signal.is_set() {
            return Poll::Ready(());
        }
        match self.place {
            Some(place) => std::mem::swap(&mut waiting[place], &mut waker),
            None => self.place = Some(waiting.insert(waker)),
        }
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let mut waiting = self.signal.waiting.lock();
        // The thread that sets the signal takes all wakers.
        let waker = if self.signal.is_set() { None } else { Some(waiting.remove(place)) };
        drop(waiting);
        drop(waker);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;

    use super::*;
    use crate::sync::tests::{OnDrop, within_seconds};

    /// Bug: the waker of the poll before was dropped with the lock held. Consequence: one that held
    /// something that waits for the same signal stopped its thread for ever. Fix: wakers are
    /// dropped when the lock is not held.
    #[test]
    fn a_waker_that_is_replaced_may_give_up_waiting_for_the_same_signal() {
        within_seconds(|| {
            let signal: &'static Signal = Box::leak(Box::default());
            let mut other = Box::pin(signal.wait());
            assert!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            let mut wait = pin!(signal.wait());
            let waker = Waker::from(Arc::new(OnDrop::new(move || drop(other))));
            assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(signal.waiting.lock().len(), 1);
        });
    }
}

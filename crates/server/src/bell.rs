//! An event that can happen many times, and one task that waits for the next time.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// Counts the event, and wakes the waiting task.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        // Pairs with the load after the waker is stored.
        self.rung.fetch_add(1, Ordering::SeqCst);
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// How often the event has happened.
    pub(crate) fn count(&self) -> u64 {
        self.rung.load(Ordering::SeqCst)
    }

    /// Waits until the event has happened more often than that. One task at a time.
    pub(crate) async fn wait(&self, heard: u64) {
        poll_fn(|cx| {
            if self.count() != heard {
                return Poll::Ready(());
            }
            let waker = cx.waker().clone();
            let before = self.waker.lock().replace(waker);
            drop(before);
            if self.count() != heard { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

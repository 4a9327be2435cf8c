//! Something that happens once, and whoever waits for it.
//!
//! Not here: anything that is said with it.

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
        let mut waiting = self.signal.waiting.lock();
        if self.signal.is_set() {
            return Poll::Ready(());
        }
        match self.place {
            Some(place) => waiting[place].clone_from(cx.waker()),
            None => {
                let place = waiting.insert(cx.waker().clone());
                drop(waiting);
                self.place = Some(place);
            }
        }
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let mut waiting = self.signal.waiting.lock();
        // Whoever sets it takes all wakers out.
        let waker = if self.signal.is_set() { None } else { Some(waiting.remove(place)) };
        drop(waiting);
        drop(waker);
    }
}

//! What a step of a statement may come to instead of going on, and what its session waits for then.
//!
//! An [`Interruption`] is no failure: nothing is wrong, and the statement goes on later. It travels
//! through the layers in the place of an error, so that `?` carries it, and is taken apart in one
//! place: where the step of a statement ends. No message, no code and no log is made of it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::locks::LockWait;
use crate::sync::{Condvar, Mutex};

/// Why a call could not go on. It has changed nothing.
#[derive(Debug)]
pub enum Interruption {
    /// Another transaction holds a lock: take the statement back, wait for this, and run it again.
    Wait(LockWait),
    /// A row that the statement locks has changed since its snapshot: take the statement back and
    /// run it again.
    Stale,
    /// What the call asks for is not here yet, and is on its way: wait for this, and make the same
    /// call again. The statement is not taken back; it has not gone on, and that is all.
    Fetch(StoreWait),
}

/// Something that a store has begun and that ends by itself: entries on their way, a commit on its
/// way. Clones wait for the same.
///
/// As a future it needs no particular runtime. Whether what was begun went well is told by the call
/// that comes after it.
///
/// A wait may have a deadline. Threads do not wait longer. A future has no clock: whoever awaits
/// one sees to that ([`StoreWait::deadline`]).
#[derive(Clone)]
pub struct StoreWait {
    waited: Arc<Waited>,
    deadline: Option<Instant>,
}

/// The store's side of a [`StoreWait`]. Dropping it ends the wait.
pub struct StoreDone(Arc<Waited>);

struct Waited {
    state: Mutex<WaitState>,
    changed: Condvar,
}

struct WaitState {
    over: bool,
    wakers: Vec<Waker>,
}

impl StoreWait {
    /// A wait, and what ends it.
    #[must_use]
    pub fn new() -> (Self, StoreDone) {
        let state = Mutex::new(WaitState { over: false, wakers: Vec::new() });
        let waited = Arc::new(Waited { state, changed: Condvar::new() });
        (Self { waited: Arc::clone(&waited), deadline: None }, StoreDone(waited))
    }

    /// The same wait, which is over at an instant at the latest.
    #[must_use]
    pub fn until(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// When it is over at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Waits until it is over.
    pub fn wait(&self) {
        let mut state = self.waited.state.lock();
        while !state.over {
            match self.deadline {
                Some(deadline) if self.waited.changed.wait_until(&mut state, deadline).timed_out() => return,
                Some(_) => {}
                None => self.waited.changed.wait(&mut state),
            }
        }
    }

    /// Waits at most so long. Gives whether it is over.
    #[must_use]
    pub fn wait_for(&self, timeout: Duration) -> bool {
        let timeout = Instant::now().checked_add(timeout);
        let until = [timeout, self.deadline].into_iter().flatten().min();
        let mut state = self.waited.state.lock();
        while !state.over {
            match until {
                Some(until) if self.waited.changed.wait_until(&mut state, until).timed_out() => break,
                Some(_) => {}
                None => self.waited.changed.wait(&mut state),
            }
        }
        state.over || self.is_late()
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.waited.state.lock().over || self.is_late()
    }
}

impl StoreDone {
    /// Whether anybody still waits, or may begin to.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl Drop for StoreDone {
    fn drop(&mut self) {
        let wakers = {
            let mut state = self.0.state.lock();
            state.over = true;
            std::mem::take(&mut state.wakers)
        };
        self.0.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Future for StoreWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.waited.state.lock();
        if state.over {
            return Poll::Ready(());
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl fmt::Debug for StoreWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreWait").field("is_over", &self.is_over()).finish()
    }
}

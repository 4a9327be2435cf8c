//! Sessions, and who waits for one: first come, first served.
//!
//! Invariants
//! - There are never more sessions than the limit. They are made when they are needed first.
//! - A session that is given back goes to who has waited longest.
//! - A ticket that is dropped leaves nothing behind: what it was given goes to the next.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::target::{Failure, Session, Target};

/// The sessions of a run.
pub(crate) struct SessionPool {
    target: Arc<dyn Target>,
    statements: Arc<[String]>,
    state: Mutex<State>,
}

struct State {
    idle: Vec<Session>,
    /// Sessions there may yet be.
    room: u32,
    connections: u32,
    waiting: VecDeque<Arc<Mutex<Waiter>>>,
    is_closed: bool,
}

struct Waiter {
    waker: Waker,
    given: Option<Given>,
}

/// What somebody gets who has waited.
pub(crate) enum Given {
    Session(Session),
    /// Leave to make one.
    Room,
    /// The run is over.
    Closed,
}

impl SessionPool {
    pub(crate) fn new(target: &Arc<dyn Target>, statements: &Arc<[String]>, limit: u32, first: Session) -> Self {
        let state = State {
            idle: vec![first],
            room: limit.max(1) - 1,
            connections: 1,
            waiting: VecDeque::new(),
            is_closed: false,
        };
        Self { target: Arc::clone(target), statements: Arc::clone(statements), state: Mutex::new(state) }
    }

    /// A session, or leave to make one, when it is this one's turn.
    pub(crate) fn take(&self) -> Take<'_> {
        Take { pool: self, waiter: None }
    }

    /// Makes a session, for somebody who has leave to.
    pub(crate) async fn connect(&self) -> Result<Session, Failure> {
        let session = self.target.connect(&self.statements).await?;
        self.state.lock().connections += 1;
        Ok(session)
    }

    /// Gives a session back.
    pub(crate) fn put(&self, session: Session) {
        self.give(Given::Session(session));
    }

    /// Gives back leave to make a session: it is broken, or could not be made.
    pub(crate) fn put_room(&self) {
        self.give(Given::Room);
    }

    fn give(&self, given: Given) {
        let mut state = self.state.lock();
        let Some(next) = state.waiting.pop_front() else {
            match given {
                Given::Session(session) => state.idle.push(session),
                Given::Room => state.room += 1,
                Given::Closed => {}
            }
            return;
        };
        drop(state);
        let waker = {
            let mut waiter = next.lock();
            waiter.given = Some(given);
            waiter.waker.clone()
        };
        waker.wake();
    }

    /// Nobody gets a session any more.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut state = self.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.waiting)
        };
        for waiter in waiting {
            let waker = {
                let mut waiter = waiter.lock();
                waiter.given = Some(Given::Closed);
                waiter.waker.clone()
            };
            waker.wake();
        }
    }

    /// How many sessions have been made.
    pub(crate) fn connections(&self) -> u32 {
        self.state.lock().connections
    }
}

/// Waits for a session. See [`SessionPool::take`].
pub(crate) struct Take<'p> {
    pool: &'p SessionPool,
    waiter: Option<Arc<Mutex<Waiter>>>,
}

impl Future for Take<'_> {
    type Output = Given;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Given> {
        if let Some(waiter) = &self.waiter {
            let mut waiter = waiter.lock();
            if let Some(given) = waiter.given.take() {
                drop(waiter);
                self.waiter = None;
                return Poll::Ready(given);
            }
            waiter.waker.clone_from(cx.waker());
            return Poll::Pending;
        }
        let mut state = self.pool.state.lock();
        if state.is_closed {
            return Poll::Ready(Given::Closed);
        }
        if let Some(session) = state.idle.pop() {
            return Poll::Ready(Given::Session(session));
        }
        if state.room > 0 {
            state.room -= 1;
            return Poll::Ready(Given::Room);
        }
        let waiter = Arc::new(Mutex::new(Waiter { waker: cx.waker().clone(), given: None }));
        state.waiting.push_back(Arc::clone(&waiter));
        drop(state);
        self.waiter = Some(waiter);
        Poll::Pending
    }
}

impl Drop for Take<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        self.pool.state.lock().waiting.retain(|other| !Arc::ptr_eq(other, &waiter));
        let given = waiter.lock().given.take();
        if let Some(given) = given {
            self.pool.give(given);
        }
    }
}

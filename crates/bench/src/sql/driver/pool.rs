//! The pool of sessions, and the queue for them: first come, first served.
//!
//! Invariants
//! 1. There are never more sessions than the limit. Each is made when it is first needed.
//! 2. Once the target takes no more connections, clients share those that there are. About once a
//!    second one client, and not all that wait, tries to open another.
//! 3. A session that is given back goes to the client that has waited longest.
//! 4. The order of locks: the pool's, then a waiter's.
//! 5. A ticket that is dropped leaves nothing behind: what it was given goes to the next one.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::record::thread_number;
use crate::sql::target::{self, Failure, Session, Target};

/// The sessions of a run.
pub(crate) struct SessionPool {
    target: Arc<dyn Target>,
    statements: Arc<[String]>,
    writes: Arc<[bool]>,
    limit: u32,
    /// The target has taken fewer connections than the limit. A hint for those that do not lock the
    /// state.
    is_scarce: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// Each with the thread that had it last. That thread prefers it, because its caches know it.
    idle: Vec<(usize, Session)>,
    /// So many more sessions may be made.
    permits: u32,
    /// So many more sessions would be allowed, but the target has refused them; when it last did,
    /// and when to try again.
    withheld: u32,
    refused_at: Option<Instant>,
    ask_at: Instant,
    /// Sessions that are open, the most that ever were, and all that were made.
    open: u32,
    open_max: u32,
    connections: u32,
    waiting: VecDeque<Arc<Mutex<Waiter>>>,
    is_closed: bool,
}

struct Waiter {
    waker: Waker,
    given: Option<Given>,
}

/// What a waiting client is given.
#[allow(
    clippy::large_enum_variant,
    reason = "it is a session nearly always, and a box would be one more place to look at"
)]
pub(crate) enum Given {
    Session(Session),
    /// Permission to make a session.
    Permit,
    /// The run is over.
    Closed,
}

/// The time between two attempts to connect to a target that takes no more connections.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The number of idle sessions among which a thread looks for its own.
const LOOKED_AT_MAX: usize = 16;

impl State {
    /// The session that this thread had last, or else the one that was given back last.
    fn take_idle(&mut self) -> Option<Session> {
        let thread = thread_number();
        let last = self.idle.len().checked_sub(1)?;
        let own = (last.saturating_sub(LOOKED_AT_MAX)..=last).rev().find(|&place| self.idle[place].0 == thread);
        let place = own.unwrap_or(last);
        Some(self.idle.swap_remove(place).1)
    }

    /// Takes permission to make a session, if there is any.
    fn take_permit(&mut self) -> bool {
        if self.permits > 0 {
            self.permits -= 1;
            return true;
        }
        if self.withheld == 0 {
            return false;
        }
        let now = Instant::now();
        let is_time = now >= self.ask_at;
        if is_time {
            self.withheld -= 1;
            self.ask_at = now + ASK_AGAIN;
        }
        is_time
    }
}

impl SessionPool {
    pub(crate) fn new(target: &Arc<dyn Target>, statements: &Arc<[String]>, limit: u32, mut first: Session) -> Self {
        let writes = target::writes(statements);
        first.count_writes(&writes);
        let state = State {
            idle: vec![(thread_number(), first)],
            permits: limit.max(1) - 1,
            withheld: 0,
            refused_at: None,
            ask_at: Instant::now(),
            open: 1,
            open_max: 1,
            connections: 1,
            waiting: VecDeque::new(),
            is_closed: false,
        };
        Self {
            target: Arc::clone(target),
            statements: Arc::clone(statements),
            writes,
            limit,
            is_scarce: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Whether each of the clients may keep a session.
    pub(crate) fn has_one_for_each(&self, clients: u32) -> bool {
        clients <= self.limit
    }

    /// Waits for a session, or for permission to make one.
    pub(crate) fn take(&self) -> Take<'_> {
        Take { pool: self, waiter: None }
    }

    /// Makes a session. The caller has permission.
    pub(crate) async fn connect(&self) -> Result<Session, Failure> {
        let begun = Instant::now();
        let mut session = self.target.connect(&self.statements).await?;
        session.count_writes(&self.writes);
        let mut state = self.state.lock();
        state.connections += 1;
        state.open += 1;
        state.open_max = state.open_max.max(state.open);
        if state.refused_at.is_some_and(|refused| begun > refused) {
            // The target takes connections again: for example, it has noticed that those of another
            // run are gone.
            state.permits += std::mem::take(&mut state.withheld);
        }
        drop(state);
        Ok(session)
    }

    /// Whether clients have to share sessions although each should have had one.
    pub(crate) fn is_scarce(&self) -> bool {
        self.is_scarce.load(Ordering::Relaxed)
    }

    /// The target takes no more connections: the client that had permission waits for a session
    /// like all others. `false` if there is no session; then the connections belong to others, and
    /// may become free.
    pub(crate) fn withhold_permit(&self) -> bool {
        let mut state = self.state.lock();
        if state.open == 0 {
            return false;
        }
        state.withheld += 1 + std::mem::take(&mut state.permits);
        let now = Instant::now();
        (state.refused_at, state.ask_at) = (Some(now), now + ASK_AGAIN);
        self.is_scarce.store(true, Ordering::Relaxed);
        true
    }

    /// Gives a session back.
    pub(crate) fn put(&self, session: Session) {
        self.give(Given::Session(session));
    }

    /// Gives back a broken session, and with it the permission to make another.
    pub(crate) fn put_broken(&self) {
        self.state.lock().open -= 1;
        self.return_permit();
    }

    /// Gives back permission for a session that could not be made.
    pub(crate) fn return_permit(&self) {
        self.give(Given::Permit);
    }

    fn give(&self, given: Given) {
        let waker = {
            // Locked until it is given: a client that stops waiting at this moment either finds it,
            // or is not given it.
            let mut state = self.state.lock();
            let Some(next) = state.waiting.pop_front() else {
                match given {
                    Given::Session(session) => state.idle.push((thread_number(), session)),
                    Given::Permit => state.permits += 1,
                    Given::Closed => {}
                }
                return;
            };
            let mut waiter = next.lock();
            waiter.given = Some(given);
            waiter.waker.clone()
        };
        waker.wake();
    }

    /// From now on no client gets a session.
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

    /// How many sessions there are.
    pub(crate) fn open(&self) -> u32 {
        self.state.lock().open
    }

    /// How many sessions there were at the most, if the target has refused to take more.
    pub(crate) fn connections_max(&self) -> Option<u32> {
        let state = self.state.lock();
        state.refused_at.map(|_| state.open_max)
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
        if let Some(session) = state.take_idle() {
            return Poll::Ready(Given::Session(session));
        }
        if state.take_permit() {
            return Poll::Ready(Given::Permit);
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
        let given = {
            let mut state = self.pool.state.lock();
            state.waiting.retain(|other| !Arc::ptr_eq(other, &waiter));
            waiter.lock().given.take()
        };
        if let Some(given) = given {
            self.pool.give(given);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::target::null::Null;
    use crate::sql::workload::Workload;
    use crate::sql::workload::tpcc::{Scale, Tpcc};

    fn pool(limit: u32) -> SessionPool {
        let workload: Arc<dyn Workload> = Arc::new(Tpcc::new(Scale::new(1), 42));
        let target: Arc<dyn Target> = Arc::new(Null::new(&workload));
        let statements: Arc<[String]> = Arc::from(Vec::new());
        let first = crate::sql::driver::runtime(1).unwrap().block_on(async { target.connect(&[]).await }).unwrap();
        SessionPool::new(&target, &statements, limit, first)
    }

    fn poll(take: &mut Take<'_>) -> Poll<Given> {
        Pin::new(take).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn there_are_as_many_sessions_as_may_be_and_who_waits_longest_is_next() {
        let pool = pool(2);
        let Poll::Ready(Given::Session(session)) = poll(&mut pool.take()) else { panic!("the first is there") };
        assert!(matches!(poll(&mut pool.take()), Poll::Ready(Given::Permit)));
        let (mut one, mut other) = (pool.take(), pool.take());
        assert!(poll(&mut one).is_pending() && poll(&mut other).is_pending());
        pool.put(session);
        assert!(poll(&mut other).is_pending());
        assert!(matches!(poll(&mut one), Poll::Ready(Given::Session(_))));
        pool.return_permit();
        assert!(matches!(poll(&mut other), Poll::Ready(Given::Permit)));
    }

    #[test]
    fn who_stops_waiting_leaves_nothing_behind() {
        let pool = pool(1);
        let Poll::Ready(Given::Session(session)) = poll(&mut pool.take()) else { panic!("the first is there") };
        let (mut gone, mut given, mut last) = (pool.take(), pool.take(), pool.take());
        for take in [&mut gone, &mut given, &mut last] {
            assert!(poll(take).is_pending());
        }
        drop(gone);
        pool.put(session);
        // It was given the session, and never looked.
        drop(given);
        assert!(matches!(poll(&mut last), Poll::Ready(Given::Session(_))));
    }

    #[test]
    fn a_target_that_takes_no_more_is_asked_by_one_and_then() {
        let pool = pool(100);
        let Poll::Ready(Given::Session(session)) = poll(&mut pool.take()) else { panic!("the first is there") };
        assert!(matches!(poll(&mut pool.take()), Poll::Ready(Given::Permit)));
        assert!(pool.withhold_permit() && pool.is_scarce());
        assert_eq!((pool.connections_max(), pool.open()), (Some(1), 1));
        let mut waiting = pool.take();
        assert!(poll(&mut waiting).is_pending());
        pool.put(session);
        assert!(matches!(poll(&mut waiting), Poll::Ready(Given::Session(_))));
        pool.state.lock().ask_at = Instant::now();
        assert!(matches!(poll(&mut pool.take()), Poll::Ready(Given::Permit)), "it may take more by now");
        assert!(poll(&mut pool.take()).is_pending());
        // It does, so the next client need not wait for a second.
        let made = crate::sql::driver::runtime(1).unwrap().block_on(pool.connect());
        assert_eq!((made.is_ok(), pool.connections_max(), pool.open()), (true, Some(2), 2));
        assert!(matches!(poll(&mut pool.take()), Poll::Ready(Given::Permit)));
        assert!(pool.withhold_permit() && poll(&mut pool.take()).is_pending());
        pool.put_broken();
        assert!(matches!(poll(&mut pool.take()), Poll::Ready(Given::Permit)) && pool.withhold_permit());
        // A broken connection may be made again at once. Without any connection, waiting clients go
        // on asking.
        pool.put_broken();
        assert!(matches!(poll(&mut pool.take()), Poll::Ready(Given::Permit)) && !pool.withhold_permit());
    }

    #[test]
    fn nobody_waits_for_a_pool_that_is_closed() {
        let pool = pool(1);
        let taken = poll(&mut pool.take());
        let mut waiting = pool.take();
        assert!(taken.is_ready() && poll(&mut waiting).is_pending());
        pool.close();
        assert!(matches!(poll(&mut waiting), Poll::Ready(Given::Closed)));
        assert!(matches!(poll(&mut pool.take()), Poll::Ready(Given::Closed)));
    }
}

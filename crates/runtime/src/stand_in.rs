//! Stand-ins: threads that take over the role of a thread whose task cannot yield for a long time.
//!
//! ```text
//! thread A: worker 0 ─ task: long step … hand over ─ aside: turns of 5 ms ─ task yields ─ waits for a role, then ends
//!                                            │                                 └► lanes, as any task
//! thread B:                                  └► worker 0: tasks, events, timers, and so on
//! ```
//!
//! A *role* is what makes a thread a worker: its number and its lanes. There are as many roles as
//! the runtime has threads, so the number of workers never changes. A thread without a role is
//! *aside*: it runs one task until that yields, and nothing else. Threads that are aside take turns
//! on as many CPUs as batch tasks may use. A thread gives up its turn after [`TURN_NS`] if another
//! one waits for it, and yields its CPU to all other threads and processes now and then
//! ([`GiveWay`]).
//!
//! Invariants
//! 1. A role is held by one thread, or it is in `roles` and a thread is on its way to take it.
//! 2. A role is handed over only if a thread waits for one or a new thread could be made. Otherwise
//!    the holder keeps it.
//! 3. A thread that is aside touches neither lanes nor counters of the role that it had.
//! 4. Waiting for a turn ends after [`TURN_WAIT_MAX`] in any case, so that the thread notices when
//!    its task is to end.
//!
//! Not here: when a role is handed over (`budget`), and what a thread does with it (`worker`).

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::give_way::GiveWay;
use crate::lanes::OwnLanes;
use crate::pool::Pool;
use crate::shared::Shared;
use crate::worker;

/// How long a thread waits for a role before it ends.
const KEEP: Duration = Duration::from_secs(1);
/// How long a thread that is aside works before another one has its turn.
const TURN_NS: u64 = 5_000_000;
/// How long a thread waits for its turn before it checks whether its task is to end.
const TURN_WAIT_MAX: Duration = Duration::from_millis(20);

/// Roles on their way from one thread to another, and the threads that wait for one.
#[derive(Debug, Default)]
pub(crate) struct StandIns {
    state: Mutex<State>,
    /// A role has come, or the end.
    is_news: Condvar,
    turns: Turns,
}

#[derive(Debug, Default)]
struct State {
    roles: VecDeque<OwnLanes>,
    /// Waiting threads for which no role is on its way.
    idle: usize,
    /// Threads made here that have not ended.
    threads: usize,
    is_closed: bool,
}

impl StandIns {
    /// Hands a role to a waiting thread, or to a new one. If no thread can be made, gives the role
    /// back.
    #[must_use]
    pub(crate) fn hand_over(&self, shared: &Arc<Shared>, role: OwnLanes) -> Option<OwnLanes> {
        let mut state = self.state.lock();
        state.roles.push_back(role);
        if state.roles.len() <= state.idle {
            drop(state);
            self.is_news.notify_one();
            return None;
        }
        let for_thread = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("colibri-stand-in".to_owned());
        // The lock is held, so that no other thread takes the role that is given back on failure.
        match thread.spawn(move || serve(&for_thread)) {
            Ok(_) => {
                state.threads += 1;
                None
            }
            Err(_) => state.roles.pop_back(),
        }
    }

    /// Waits for a role. `None` if none came for a while, or the runtime ends.
    pub(crate) fn wait(&self) -> Option<OwnLanes> {
        let mut state = self.state.lock();
        if state.roles.is_empty() && !state.is_closed {
            state.idle += 1;
            let until = Instant::now() + KEEP;
            let is_quiet = |state: &mut State| state.roles.is_empty() && !state.is_closed;
            self.is_news.wait_while_until(&mut state, is_quiet, until);
            state.idle -= 1;
        }
        state.roles.pop_front()
    }

    /// Ends the threads that wait for a role.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.is_news.notify_all();
    }

    /// Threads made here that have not ended.
    pub(crate) fn threads(&self) -> usize {
        self.state.lock().threads
    }
}

/// A thread that was made to take over a role.
fn serve(shared: &Arc<Shared>) {
    if let Some(role) = shared.stand_ins.wait() {
        worker::serve(shared, role);
    }
    shared.stand_ins.state.lock().threads -= 1;
}

/// Which of the threads that are aside may work now.
#[derive(Debug, Default)]
struct Turns {
    state: Mutex<TurnsState>,
    is_free: Condvar,
}

#[derive(Debug, Default)]
struct TurnsState {
    taken: usize,
    waiting: usize,
}

impl Turns {
    /// Takes a turn, one of `turns_max`. Gives up after a while.
    fn acquire(&self, turns_max: usize) -> bool {
        let mut state = self.state.lock();
        if state.taken >= turns_max {
            state.waiting += 1;
            let until = Instant::now() + TURN_WAIT_MAX;
            self.is_free.wait_while_until(&mut state, |state| state.taken >= turns_max, until);
            state.waiting -= 1;
            if state.taken >= turns_max {
                return false;
            }
        }
        state.taken += 1;
        true
    }

    fn release(&self) {
        self.state.lock().taken -= 1;
        self.is_free.notify_one();
    }

    fn are_wanted(&self) -> bool {
        self.state.lock().waiting > 0
    }
}

/// A thread that runs one task and has no role.
pub(crate) struct Aside {
    pub(crate) shared: Arc<Shared>,
    /// Where the task wants to go on.
    pub(crate) move_to: Cell<Option<Pool>>,
    has_turn: Cell<bool>,
    /// When its turn is over.
    turn_until_ns: Cell<u64>,
    give_way: GiveWay,
}

impl Aside {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let (has_turn, turn_until_ns, give_way) = Default::default();
        Self { shared, move_to: Cell::default(), has_turn, turn_until_ns, give_way }
    }

    /// In the middle of the long step: lets others have the CPU, and waits for a turn.
    pub(crate) fn yield_cpu(&self) {
        let turns = &self.shared.stand_ins.turns;
        let now_ns = self.shared.clock.now_ns();
        if self.has_turn.get() && now_ns >= self.turn_until_ns.get() {
            self.turn_until_ns.set(now_ns + TURN_NS);
            if turns.are_wanted() {
                self.has_turn.set(false);
                turns.release();
            }
        }
        if !self.has_turn.get() {
            self.has_turn.set(turns.acquire(self.shared.batch.max()));
            self.turn_until_ns.set(self.shared.clock.now_ns() + TURN_NS);
        } else if self.give_way.is_due(now_ns) {
            self.give_way.yield_cpu(&self.shared, now_ns);
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if self.has_turn.get() {
            self.shared.stand_ins.turns.release();
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_is_taken_is_waited_for_a_while_and_had_when_it_is_given_back() {
        let turns = Turns::default();
        assert!(turns.acquire(1));
        let begun = Instant::now();
        assert!(!turns.acquire(1));
        assert!(begun.elapsed() >= TURN_WAIT_MAX);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| (0..100).any(|_| turns.acquire(1)));
            while !turns.are_wanted() {
                std::thread::yield_now();
            }
            turns.release();
            assert!(waiting.join().unwrap());
        });
        assert_eq!(turns.state.lock().taken, 1);
    }
}

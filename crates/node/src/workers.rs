//! Threads on which everything runs that may wait: for a lock, for the disk, for a computation.
//!
//! The pool of libuv has four threads, and four statements that wait for a lock would keep the one
//! that is to release it from running. Here there are as many threads as there are lanes with
//! something to do; a thread that has had nothing to do for a while ends.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How long a thread without work stays.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// What is to be done; told whether it can be, which it cannot if the system has no thread left.
pub(crate) type Job = Box<dyn FnOnce(bool) + Send>;

/// Jobs that run one after the other, such as those of a connection.
#[derive(Default)]
pub(crate) struct Lane {
    state: Mutex<LaneState>,
}

#[derive(Default)]
struct LaneState {
    jobs: VecDeque<Job>,
    /// A thread has this lane, or will take it from the pool's queue.
    is_taken: bool,
}

impl Lane {
    /// Adds a job, which runs after those that are here already.
    pub(crate) fn push(self: &Arc<Self>, job: Job) {
        let mut state = self.state.lock();
        state.jobs.push_back(job);
        if std::mem::replace(&mut state.is_taken, true) {
            return;
        }
        drop(state);
        if !POOL.take_on(Arc::clone(self)) {
            self.run(false);
        }
    }

    fn run(&self, has_thread: bool) {
        loop {
            let mut state = self.state.lock();
            let Some(job) = state.jobs.pop_front() else {
                state.is_taken = false;
                return;
            };
            drop(state);
            // A job tells of its panic by itself; the thread goes on with the next one.
            _ = catch_unwind(AssertUnwindSafe(|| job(has_thread)));
        }
    }
}

static POOL: Pool = Pool { state: Mutex::new(PoolState { lanes: VecDeque::new(), idle: 0 }), signal: Condvar::new() };

struct Pool {
    state: Mutex<PoolState>,
    signal: Condvar,
}

struct PoolState {
    /// Lanes that no thread has taken yet.
    lanes: VecDeque<Arc<Lane>>,
    /// Threads that wait for a lane.
    idle: usize,
}

impl Pool {
    /// Gives a lane to a thread; `false` if there is none, and none can be made.
    fn take_on(&'static self, lane: Arc<Lane>) -> bool {
        let mut state = self.state.lock();
        if state.idle > state.lanes.len() {
            state.lanes.push_back(lane);
            drop(state);
            self.signal.notify_one();
            return true;
        }
        drop(state);
        let first = Arc::clone(&lane);
        let thread = std::thread::Builder::new().name("colibri".to_owned());
        thread.spawn(move || self.work(&first)).is_ok()
    }

    fn work(&self, first: &Lane) {
        first.run(true);
        let mut state = self.state.lock();
        loop {
            if let Some(lane) = state.lanes.pop_front() {
                drop(state);
                lane.run(true);
                drop(lane);
                state = self.state.lock();
                continue;
            }
            state.idle += 1;
            let waited = self.signal.wait_for(&mut state, IDLE_MAX);
            state.idle -= 1;
            if waited.timed_out() && state.lanes.is_empty() {
                return;
            }
        }
    }
}

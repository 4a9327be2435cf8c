//! Blocking calls, on threads of their own, which are made when needed and end when not.
//!
//! Invariants
//! 1. A call waits only if as many threads as allowed are at work.
//! 2. A thread that has had nothing to do for a while ends.
//!
//! Not here: stopping a call that is under way. Nothing can.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_task::Builder;
use parking_lot::{Condvar, Mutex};

use crate::pool::Pool;
use crate::shared::Shared;
use crate::task::{JoinHandle, Meta, Task};
use crate::worker::{Context, set_context};

/// A longer time to keep threads counts as this one.
const KEEP_MAX: Duration = Duration::from_secs(86_400 * 365);

#[derive(Debug)]
pub(crate) struct BlockingThreads {
    state: Mutex<State>,
    /// A call has come, or the end.
    is_news: Condvar,
    /// A thread has ended.
    is_gone: Condvar,
    threads_max: usize,
    keep: Duration,
}

#[derive(Debug, Default)]
struct State {
    calls: VecDeque<Task>,
    threads: usize,
    /// Waiting threads for which no call is on its way.
    idle: usize,
    calls_total: u64,
    is_closed: bool,
}

impl BlockingThreads {
    pub(crate) fn new(threads_max: usize, keep: Duration) -> Self {
        let keep = keep.min(KEEP_MAX);
        Self { state: Mutex::default(), is_news: Condvar::new(), is_gone: Condvar::new(), threads_max, keep }
    }

    fn push(self: &Arc<Self>, call: Task) {
        let mut state = self.state.lock();
        if state.is_closed {
            drop(state);
            drop(call);
            return;
        }
        state.calls_total += 1;
        state.calls.push_back(call);
        if state.calls.len() <= state.idle {
            self.is_news.notify_one();
        } else if state.threads < self.threads_max {
            state.threads += 1;
            drop(state);
            let threads = Arc::clone(self);
            let name = "colibri-blocking".to_owned();
            if std::thread::Builder::new().name(name).spawn(move || threads.serve()).is_err() {
                self.thread_missing();
            }
        }
    }

    /// A thread could not be made. Those that there are take the call. If there are none, the call
    /// is dropped, and its join handle reports that.
    fn thread_missing(&self) {
        let mut state = self.state.lock();
        state.threads -= 1;
        if state.threads == 0 {
            let calls = std::mem::take(&mut state.calls);
            drop(state);
            drop(calls);
        }
    }

    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(call) = state.calls.pop_front() {
                drop(state);
                call.run();
                state = self.state.lock();
                continue;
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let until = Instant::now() + self.keep;
            let is_quiet = |state: &mut State| state.calls.is_empty() && !state.is_closed;
            let waited = self.is_news.wait_while_until(&mut state, is_quiet, until);
            state.idle -= 1;
            if waited.timed_out() && state.calls.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        self.is_gone.notify_all();
    }

    /// Drops calls that have not begun, and waits for those that have. Gives the number of those
    /// that did not end in time.
    pub(crate) fn close(&self, deadline: Instant) -> usize {
        let calls = {
            let mut state = self.state.lock();
            state.is_closed = true;
            self.is_news.notify_all();
            std::mem::take(&mut state.calls)
        };
        drop(calls);
        let mut state = self.state.lock();
        let _ = self.is_gone.wait_while_until(&mut state, |state| state.threads > 0, deadline);
        state.threads
    }

    /// Threads now, and calls so far.
    pub(crate) fn counts(&self) -> (usize, u64) {
        let state = self.state.lock();
        (state.threads, state.calls_total)
    }
}

/// A call that has not begun. A panic of its destructor is reported, and goes no further.
struct Call<C> {
    call: Option<C>,
    shared: Arc<Shared>,
}

impl<C> Drop for Call<C> {
    fn drop(&mut self) {
        let call = self.call.take();
        if let Err(cause) = catch_unwind(AssertUnwindSafe(|| drop(call))) {
            self.shared.report_panic(None, &*cause);
        }
    }
}

/// Runs `call` on a thread that may block.
pub(crate) fn spawn<T: Send + 'static>(
    shared: &Arc<Shared>,
    call: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let threads = Arc::clone(&shared.blocking);
    let mut call = Call { call: Some(call), shared: Arc::clone(shared) };
    let call = async move {
        let before = set_context(Some(Context::Entered(Arc::clone(&call.shared))));
        let begun = call.call.take().expect("it begins once");
        let outcome = catch_unwind(AssertUnwindSafe(begun));
        set_context(before);
        outcome.inspect_err(|cause| call.shared.report_panic(None, &**cause))
    };
    let schedule = move |call: Task| threads.push(call);
    let (task, handle) = Builder::new().metadata(Meta::new(Pool::Batch)).spawn(move |_| call, schedule);
    task.schedule();
    JoinHandle::new(handle.fallible())
}

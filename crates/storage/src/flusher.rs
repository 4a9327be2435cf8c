//! The background threads. One makes the steady points of the modes whose commits are none; another, started by need,
//! flushes the log for those who wait for a commit without a thread. Both sleep while there is nothing to do.
//!
//! The first sleeps without a time limit while nothing is unsteady. The first unsteady commit gives it a deadline; passing
//! the mode's bound in bytes wakes it at once. After a steady point with nothing committed since, it sleeps for ever again.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::db::Core;
use crate::{Error, Result};

fn spawn(name: &str, core: &Core, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .map_err(|e| Error::io("cannot start a background thread for", core.pager.disk().path(), e))
}

/// The thread that flushes the log when asked.
pub(crate) struct LogFlusher {
    signal: Arc<(Mutex<Asked>, Condvar)>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Asked {
    flush: bool,
    stop: bool,
}

impl LogFlusher {
    pub(crate) fn start(core: &Arc<Core>) -> Result<Self> {
        let signal: Arc<(Mutex<Asked>, Condvar)> = Arc::default();
        let thread = spawn("colibri-log", core, {
            let (signal, core) = (Arc::clone(&signal), Arc::clone(core));
            move || {
                let mut asked = signal.0.lock();
                while !asked.stop {
                    if std::mem::take(&mut asked.flush) {
                        drop(asked);
                        // Those who wait learn of a failure from the log.
                        let _ = core.wait_durable(core.shared.root().txn);
                        // If another process had made it durable, nothing was flushed here that would have woken them.
                        core.log.notify(false);
                        asked = signal.0.lock();
                    } else {
                        signal.1.wait(&mut asked);
                    }
                }
            }
        })?;
        Ok(Self { signal, thread })
    }

    /// Asks for a flush of what is written by now.
    pub(crate) fn ask(&self) {
        self.signal.0.lock().flush = true;
        self.signal.1.notify_one();
    }

    pub(crate) fn stop(self) {
        self.signal.0.lock().stop = true;
        self.signal.1.notify_one();
        let _ = self.thread.join();
    }
}

#[derive(Default)]
struct State {
    /// When the first commit since the last steady point came.
    dirty_since: Option<Instant>,
    over_bound: bool,
    stop: bool,
}

struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

/// The thread and the way to reach it.
pub(crate) struct Flusher {
    signal: Arc<Signal>,
    thread: JoinHandle<()>,
}

impl Flusher {
    pub(crate) fn start(core: &Arc<Core>, period: Duration) -> Result<Self> {
        let signal = Arc::new(Signal { state: Mutex::new(State::default()), changed: Condvar::new() });
        let thread = spawn("colibri-steady", core, {
            let (signal, core) = (Arc::clone(&signal), Arc::clone(core));
            move || run(&core, &signal, period)
        })?;
        Ok(Self { signal, thread })
    }

    /// A transaction has committed; `over`: so much has changed since the last steady point that there should be one.
    pub(crate) fn committed(&self, over: bool) {
        let mut state = self.signal.state.lock();
        let over = over && !state.over_bound;
        state.over_bound |= over;
        if state.dirty_since.is_none() {
            state.dirty_since = Some(Instant::now());
            self.signal.changed.notify_one();
        } else if over {
            self.signal.changed.notify_one();
        }
    }

    pub(crate) fn stop(self) {
        self.signal.state.lock().stop = true;
        self.signal.changed.notify_one();
        // A panic of the flusher has been reported by the panic hook; closing goes on.
        let _ = self.thread.join();
    }
}

fn run(core: &Core, signal: &Signal, period: Duration) {
    let mut state = signal.state.lock();
    while !state.stop {
        match state.dirty_since {
            None => signal.changed.wait(&mut state),
            Some(since) if !state.over_bound && since.elapsed() < period => {
                match since.checked_add(period) {
                    Some(deadline) => _ = signal.changed.wait_until(&mut state, deadline),
                    // A period that never ends: by bytes alone.
                    None => signal.changed.wait(&mut state),
                }
            }
            Some(_) => {
                state.dirty_since = None;
                state.over_bound = false;
                drop(state);
                let result = core.sync();
                state = signal.state.lock();
                match result {
                    Ok(()) => {}
                    // Nothing more to do here: commits say so to whoever asks.
                    Err(Error::Poisoned) => return,
                    // No room for the free map, say: try again after a period, if nothing else happens.
                    Err(_) => {
                        state.dirty_since.get_or_insert_with(Instant::now);
                    }
                }
            }
        }
    }
}

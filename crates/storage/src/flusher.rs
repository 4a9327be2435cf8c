//! The background thread of `Lazy` mode: makes steady points by need and sleeps otherwise.
//!
//! It sleeps without a time limit while nothing is unsteady. The first unsteady commit gives it a deadline; passing
//! the bound in bytes wakes it at once. After a steady point with nothing committed since, it sleeps for ever again.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::db::Core;
use crate::{Error, Result};

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
    bytes_max: u64,
    thread: JoinHandle<()>,
}

impl Flusher {
    pub(crate) fn start(core: &Arc<Core>, bytes_max: u64, period: Duration) -> Result<Self> {
        let signal = Arc::new(Signal { state: Mutex::new(State::default()), changed: Condvar::new() });
        let thread = std::thread::Builder::new()
            .name("colibri-flusher".into())
            .spawn({
                let (signal, core) = (Arc::clone(&signal), Arc::clone(core));
                move || run(&core, &signal, period)
            })
            .map_err(|e| Error::io("cannot start the flusher for", core.pager.disk().path(), e))?;
        Ok(Self { signal, bytes_max, thread })
    }

    /// A transaction has committed; `dirty_bytes` have changed since the last steady point was begun.
    pub(crate) fn committed(&self, dirty_bytes: u64) {
        let mut state = self.signal.state.lock();
        let over = dirty_bytes >= self.bytes_max && !state.over_bound;
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

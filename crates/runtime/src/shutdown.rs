//! The end of a runtime, in numbered steps: see [`Runtime::shutdown`](crate::Runtime::shutdown).
//!
//! Not here: saving anything. Tasks that have to end in order wait for
//! [`stopping`](crate::stopping).

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::pool::Pool;
use crate::shared::Shared;

/// How long a task may take to end that does not wait for anything.
const BUSY_MAX: Duration = Duration::from_secs(1);

/// What became of tasks and calls at the end of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Tasks that were cancelled.
    pub cancelled: usize,
    /// Tasks that ran on without ever waiting for anything, and their threads with them.
    pub abandoned: usize,
    /// Blocking calls that had not ended.
    pub calls_abandoned: usize,
}

/// The threads of a runtime, until it has ended.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    handles: Vec<JoinHandle<()>>,
    are_ended: bool,
}

impl Threads {
    pub(crate) fn push(&mut self, thread: JoinHandle<()>) {
        self.handles.push(thread);
    }
}

pub(crate) fn run(shared: &Arc<Shared>, threads: &mut Threads, grace: Duration) -> ShutdownReport {
    if std::mem::replace(&mut threads.are_ended, true) {
        return ShutdownReport::default();
    }
    let threads = std::mem::take(&mut threads.handles);
    let mut report = ShutdownReport::default();
    let live = || Pool::ALL.into_iter().map(|pool| shared.registry.live(pool)).sum::<usize>();
    let until = Instant::now().checked_add(grace);
    // 1
    shared.stopping.set();
    // 2
    let are_over = shared.wait_empty(&Pool::ALL, until.unwrap_or_else(|| Instant::now() + BUSY_MAX * 86_400));
    // 3
    if !are_over {
        report.cancelled = live();
        for pool in Pool::ALL.into_iter().rev() {
            shared.cancel(pool);
            shared.wait_empty(&[pool], Instant::now() + BUSY_MAX);
        }
    }
    Pool::ALL.into_iter().for_each(|pool| shared.cancel(pool));
    // 4
    report.calls_abandoned = shared.blocking.close(until.unwrap_or_else(Instant::now).max(Instant::now()) + BUSY_MAX);
    // 5
    shared.leave();
    let until = Instant::now() + BUSY_MAX;
    let mut are_gone = true;
    while (shared.is_anyone_in() || shared.stand_ins.threads() > 0) && Instant::now() < until {
        std::thread::sleep(Duration::from_micros(200));
    }
    are_gone &= !shared.is_anyone_in();
    for thread in threads {
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(200));
        }
        match thread.is_finished() {
            true => are_gone &= thread.join().is_ok(),
            false => are_gone = false,
        }
    }
    report.abandoned = live();
    report.cancelled -= report.abandoned.min(report.cancelled);
    if are_gone {
        shared.end();
    }
    report
}

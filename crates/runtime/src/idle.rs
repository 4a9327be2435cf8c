//! Who sleeps, where, and how work finds a thread that is awake.
//!
//! ```text
//! a thread with nothing to do         whoever has brought work
//! ───────────────────────────         ────────────────────────
//! sleeping += 1                       put the task where all threads look
//! fence                               fence
//! look everywhere once more           if sleeping > 0 and nobody is called yet:
//! sleep until called                     called = true
//! sleeping -= 1                          wake one that is parked, or else ring the bell
//! if it was called: called = false
//! look everywhere
//! ```
//!
//! There are two ways to sleep. A thread that **listens** waits for sockets, the alarm of timers, and the bell. A thread that is
//! **parked** waits to be called. Nobody is called by name: any thread can run any task.
//!
//! While tasks are short, one thread listens and the others are parked: the listener runs what an event brings, and is back before
//! another thread would have woken up for the next. While tasks are long, all of them listen, and an event wakes one of those that have nothing
//! to do. A listener that begins something long while nobody else listens calls one of those that are parked.
//!
//! Invariants
//! - Work that is put somewhere is seen by a thread on its way to sleep, or its bringer sees that thread: one of the two
//!   fences comes first.
//! - `called` is true from before somebody is woken for work until that thread is about to look for it. So at most one call is under
//!   way, a bringer that finds one need not make another, and rings cannot merge into one that wakes one of two.
//! - A thread is parked only while another listens or is awake. So if all sleep, one listens.
//! - A call goes to a parked thread, or to the bell if none is parked; a thread does not park while a call is under way.
//! - Whoever takes a task while there is more that a sleeper could do calls the next: see `worker`.
//!
//! Not here: what there is to do, and who may do it.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};

use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, fence};

/// What a thread is to do that has entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Wait for events, and say so when it has.
    Listen,
    /// Look for work: it was called, and has left.
    Called,
}

/// Who sleeps, and whether one of them is called.
#[derive(Debug)]
pub(crate) struct Idle {
    sleeping: AtomicUsize,
    called: AtomicBool,
    sleepers: Mutex<Sleepers>,
    is_called: Condvar,
    /// As in `sleepers`, to be read without the lock.
    listening: AtomicUsize,
}

#[derive(Debug, Default)]
struct Sleepers {
    listening: usize,
    /// Those who are parked and have not been called.
    parked: usize,
    /// Calls that those who were parked have not noticed yet.
    calls: usize,
    /// Nobody parks any more.
    is_over: bool,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Self {
            sleeping: AtomicUsize::new(0),
            called: AtomicBool::new(false),
            sleepers: Mutex::default(),
            is_called: Condvar::new(),
            listening: AtomicUsize::new(0),
        }
    }

    /// Before the last look for work; after it, `leave` or `rest`.
    pub(crate) fn enter(&self) {
        self.sleeping.fetch_add(1, Relaxed);
        fence(SeqCst);
    }

    pub(crate) fn leave(&self) {
        self.sleeping.fetch_sub(1, Relaxed);
    }

    /// Sleeps until called, if somebody else listens and it `may_park`; otherwise says that it is to listen.
    pub(crate) fn rest(&self, may_park: bool) -> Rest {
        let mut sleepers = self.sleepers.lock();
        if sleepers.listening == 0 || !may_park || sleepers.is_over || self.called.load(Relaxed) {
            sleepers.listening += 1;
            self.listening.store(sleepers.listening, Relaxed);
            return Rest::Listen;
        }
        sleepers.parked += 1;
        while sleepers.calls == 0 {
            self.is_called.wait(&mut sleepers);
        }
        sleepers.calls -= 1;
        drop(sleepers);
        self.leave();
        self.heard();
        Rest::Called
    }

    /// It has listened, and leaves.
    pub(crate) fn has_listened(&self) {
        let mut sleepers = self.sleepers.lock();
        sleepers.listening -= 1;
        self.listening.store(sleepers.listening, Relaxed);
        drop(sleepers);
        self.leave();
    }

    /// Whether somebody sleeps, as far as one can tell without a fence.
    pub(crate) fn is_anyone(&self) -> bool {
        self.sleeping.load(Relaxed) > 0
    }

    /// Whether somebody was called who has not come yet.
    pub(crate) fn is_called(&self) -> bool {
        self.called.load(Relaxed)
    }

    /// Whether somebody listens, as far as one can tell without the lock.
    pub(crate) fn is_listened(&self) -> bool {
        self.listening.load(Relaxed) > 0
    }

    /// After work was put where others see it: wakes a thread for it if one sleeps and none is called yet. Answers whether it
    /// did.
    pub(crate) fn call(&self, ring: impl FnOnce()) -> bool {
        fence(SeqCst);
        // An exchange in any case: a later `heard` sees what was put before it.
        if self.sleeping.load(Relaxed) == 0 || self.called.swap(true, AcqRel) {
            return false;
        }
        let mut sleepers = self.sleepers.lock();
        if sleepers.parked == 0 {
            drop(sleepers);
            ring();
        } else {
            sleepers.parked -= 1;
            sleepers.calls += 1;
            drop(sleepers);
            self.is_called.notify_one();
        }
        true
    }

    /// It was called, and looks for work from here on.
    pub(crate) fn heard(&self) {
        // An exchange: it sees what was put by those who found somebody called already.
        self.called.swap(false, AcqRel);
    }

    /// Wakes all who are parked, and lets nobody park from now on.
    pub(crate) fn end(&self) {
        let mut sleepers = self.sleepers.lock();
        sleepers.is_over = true;
        sleepers.calls += std::mem::take(&mut sleepers.parked);
        drop(sleepers);
        self.is_called.notify_all();
    }
}

//! How threads with nothing to do sleep, and how new work wakes one of them.
//!
//! ```text
//! a thread with nothing to do         a thread that has brought work
//! ───────────────────────────         ──────────────────────────────
//! sleeping += 1                       put the task where all threads look
//! fence                               fence
//! look everywhere once more           if sleeping > 0 and no wake-up is pending:
//! sleep until woken                      wake_pending = true
//! sleeping -= 1                          unpark a parked thread, or else ring the bell
//! if it was woken for work:
//!     wake_pending = false
//! look everywhere
//! ```
//!
//! There are two ways to sleep:
//!
//! | state | the thread waits for | how many |
//! | --- | --- | --- |
//! | listening | sockets, the alarm of timers and the bell, on the `epoll` descriptor | at least one while all sleep |
//! | parked | being unparked, on a condition variable | any number |
//!
//! No thread is woken by name, because any thread can run any task.
//!
//! While tasks are short, one thread listens and the others are parked: the listener runs what an
//! event brings, and is back before another thread would have woken up for the next event. While
//! tasks are long, all threads listen, and an event wakes one that has nothing to do. A listener
//! that begins a long task while nobody else listens wakes a parked thread.
//!
//! Invariants
//! 1. Either a thread on its way to sleep sees new work, or the thread that brings the work sees
//!    that thread, because one of the two fences comes first.
//! 2. `wake_pending` is true from before a thread is woken for work until that thread is about to
//!    look for it. So one wake-up at most is under way, others need not make another one, and two
//!    rings of the bell cannot merge into one that wakes one thread.
//! 3. A thread is parked only while another listens or is awake. So if all threads sleep, one
//!    listens.
//! 4. A wake-up goes to a parked thread, or to the bell if none is parked. No thread parks while a
//!    wake-up is pending.
//! 5. A thread that takes a task and leaves another that a sleeping thread could run wakes the next
//!    one: see `worker`.
//!
//! Not here: which work there is, and which thread may do it.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};

use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, fence};

/// What a thread does after [`Idle::sleep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slept {
    /// It waits for events, and calls [`Idle::stop_listening`] afterwards.
    Listen,
    /// It looks for work: it was parked, and was unparked for work.
    Unparked,
}

/// Which threads sleep, and whether one of them is being woken.
#[derive(Debug)]
pub(crate) struct Idle {
    sleeping: AtomicUsize,
    wake_pending: AtomicBool,
    sleepers: Mutex<Sleepers>,
    unpark: Condvar,
    /// As in `sleepers`, for reading without the lock.
    listening: AtomicUsize,
}

#[derive(Debug, Default)]
struct Sleepers {
    listening: usize,
    /// Parked threads that nobody has unparked yet.
    parked: usize,
    /// Unparked threads that have not noticed it yet.
    unparked: usize,
    /// No thread parks any more.
    is_over: bool,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Self {
            sleeping: AtomicUsize::new(0),
            wake_pending: AtomicBool::new(false),
            sleepers: Mutex::default(),
            unpark: Condvar::new(),
            listening: AtomicUsize::new(0),
        }
    }

    /// Announces that the thread is about to sleep. After a last look for work it calls `cancel` or
    /// `sleep`.
    pub(crate) fn announce(&self) {
        self.sleeping.fetch_add(1, Relaxed);
        fence(SeqCst);
    }

    pub(crate) fn cancel(&self) {
        self.sleeping.fetch_sub(1, Relaxed);
    }

    /// Parks if another thread listens and it `may_park`. Otherwise the thread is to listen.
    pub(crate) fn sleep(&self, may_park: bool) -> Slept {
        let mut sleepers = self.sleepers.lock();
        if sleepers.listening == 0 || !may_park || sleepers.is_over || self.wake_pending.load(Relaxed) {
            sleepers.listening += 1;
            self.listening.store(sleepers.listening, Relaxed);
            return Slept::Listen;
        }
        sleepers.parked += 1;
        while sleepers.unparked == 0 {
            self.unpark.wait(&mut sleepers);
        }
        sleepers.unparked -= 1;
        drop(sleepers);
        self.cancel();
        self.woke();
        Slept::Unparked
    }

    /// The thread has listened, and is awake.
    pub(crate) fn stop_listening(&self) {
        let mut sleepers = self.sleepers.lock();
        sleepers.listening -= 1;
        self.listening.store(sleepers.listening, Relaxed);
        drop(sleepers);
        self.cancel();
    }

    /// Whether a thread sleeps. Without a fence the answer may be late.
    pub(crate) fn has_sleeper(&self) -> bool {
        self.sleeping.load(Relaxed) > 0
    }

    /// Whether a thread was woken for work and has not begun to look for it.
    pub(crate) fn is_wake_pending(&self) -> bool {
        self.wake_pending.load(Relaxed)
    }

    /// Whether a thread listens. Without the lock the answer may be late.
    pub(crate) fn has_listener(&self) -> bool {
        self.listening.load(Relaxed) > 0
    }

    /// Wakes a sleeping thread for work that was put where all threads look, unless a wake-up is
    /// pending. Gives whether it did.
    pub(crate) fn wake_one(&self, ring: impl FnOnce()) -> bool {
        fence(SeqCst);
        // An exchange even if it changes nothing: a later `woke` then sees what was put before it.
        if self.sleeping.load(Relaxed) == 0 || self.wake_pending.swap(true, AcqRel) {
            return false;
        }
        let mut sleepers = self.sleepers.lock();
        if sleepers.parked == 0 {
            drop(sleepers);
            ring();
        } else {
            sleepers.parked -= 1;
            sleepers.unparked += 1;
            drop(sleepers);
            self.unpark.notify_one();
        }
        true
    }

    /// The thread was woken for work, and looks for it from here on.
    pub(crate) fn woke(&self) {
        // An exchange: it sees the work of all who found a wake-up pending.
        self.wake_pending.swap(false, AcqRel);
    }

    /// Unparks all threads, and lets none park from now on.
    pub(crate) fn end(&self) {
        let mut sleepers = self.sleepers.lock();
        sleepers.is_over = true;
        sleepers.unparked += std::mem::take(&mut sleepers.parked);
        drop(sleepers);
        self.unpark.notify_all();
    }
}

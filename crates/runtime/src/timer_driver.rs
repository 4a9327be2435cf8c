//! The timer driver: one alarm for all timers, which is set only when it has to ring earlier.
//!
//! ```text
//! arm ─ lock: into the heap ─┐                         alarm: rings once, wakes one sleeping thread
//!                            ├─ next < alarm? set it ──►   └ fire: what is due; set it to what is next
//! a thread's task boundary ──┘
//! ```
//!
//! A thread of the runtime that arms timers sets the alarm at its next task boundary. So a million
//! timers that are armed and cancelled in one task cost no system call, and neither does
//! cancelling.
//!
//! A thread that falls asleep puts off an alarm that would ring for nothing, if that was not done a
//! moment ago. So an idle server is not woken by the timeouts of requests that are done, and a
//! server that sets and lifts a timeout for each request does not pay for it.
//!
//! Invariants
//! 1. While no thread is between arming a timer and its task boundary, the alarm is set to the next
//!    deadline or earlier.
//! 2. The alarm is set with the lock held, so that the last setting belongs to the last state.
//! 3. Without a timer there is no alarm.
//! 4. No waker is cloned, dropped or woken while the lock is held: it is foreign code, which may
//!    end up here again.
//!
//! Not here: what the alarm is (`reactor`), and who hears it (`worker`).

use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;

use crate::sync::{AtomicU64, Mutex};
use crate::timers::{TimerKey, Timers};

/// The alarm does not ring.
pub(crate) const NEVER: u64 = u64::MAX;
/// So many timers are fired at most each time the lock is held.
const FIRED_AT_ONCE: usize = 64;
/// An alarm is put off if it rings earlier than needed by this much ...
const EARLY_NS: u64 = 1_000_000_000;
/// ... and not more often than this.
const POSTPONE_EVERY_NS: u64 = 10_000_000;

/// All timers, and what the alarm is set to.
#[derive(Debug)]
pub(crate) struct TimerDriver {
    timers: Mutex<Timers>,
    next_ns: AtomicU64,
    alarm_ns: AtomicU64,
    /// From when on the alarm may be put off again.
    postpone_from_ns: AtomicU64,
}

impl TimerDriver {
    pub(crate) fn new() -> Self {
        Self {
            timers: Mutex::default(),
            next_ns: AtomicU64::new(NEVER),
            alarm_ns: AtomicU64::new(NEVER),
            postpone_from_ns: AtomicU64::new(0),
        }
    }

    /// Arms a timer. The caller calls `settle` before the thread sleeps.
    pub(crate) fn arm(&self, at_ns: u64, slack_ns: u64, waker: Waker) -> TimerKey {
        let mut timers = self.timers.lock();
        let key = timers.arm(at_ns, slack_ns, waker);
        self.note_next(&timers);
        key
    }

    /// Whether the timer has fired. If not, it will wake `waker`.
    pub(crate) fn poll(&self, key: TimerKey, waker: &Waker) -> bool {
        {
            let timers = self.timers.lock();
            if timers.has_fired(key) || timers.will_wake(key, waker) {
                return timers.has_fired(key);
            }
        }
        let waker = waker.clone();
        let mut timers = self.timers.lock();
        let other = timers.set_waker(key, waker);
        let has_fired = timers.has_fired(key);
        drop(timers);
        drop(other);
        has_fired
    }

    pub(crate) fn remove(&self, key: TimerKey) {
        let mut timers = self.timers.lock();
        let waker = timers.remove(key);
        self.note_next(&timers);
        drop(timers);
        drop(waker);
    }

    /// The next deadline.
    pub(crate) fn next(&self) -> Option<u64> {
        Some(self.next_ns.load(Relaxed)).filter(|&next_ns| next_ns != NEVER)
    }

    /// Nobody hears the alarm any more. Wakes all who wait for a timer, so that they watch the time
    /// themselves.
    pub(crate) fn end(&self) {
        let wakers = self.timers.lock().take_wakers();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn note_next(&self, timers: &Timers) {
        self.next_ns.store(timers.next().unwrap_or(NEVER), Relaxed);
    }

    /// Sets the alarm if it would ring too late.
    pub(crate) fn settle(&self, set_alarm: impl FnOnce(u64)) {
        if self.next_ns.load(Relaxed) < self.alarm_ns.load(Relaxed) {
            let timers = self.timers.lock();
            self.settle_locked(&timers, set_alarm);
        }
    }

    fn settle_locked(&self, timers: &Timers, set_alarm: impl FnOnce(u64)) {
        let next = timers.next().unwrap_or(NEVER);
        if next < self.alarm_ns.load(Relaxed) {
            self.alarm_ns.store(next, Relaxed);
            set_alarm(next);
        }
    }

    /// Before a thread sleeps: sets the alarm to the next deadline if it would ring much earlier,
    /// or to [`NEVER`] if there is no timer.
    pub(crate) fn postpone(&self, now_ns: u64, set_alarm: impl FnOnce(u64)) {
        let is_early = |next_ns: u64| {
            let alarm_ns = self.alarm_ns.load(Relaxed);
            alarm_ns != NEVER && next_ns.saturating_sub(alarm_ns) >= EARLY_NS
        };
        if !is_early(self.next_ns.load(Relaxed)) || now_ns < self.postpone_from_ns.load(Relaxed) {
            return;
        }
        let timers = self.timers.lock();
        let next_ns = timers.next().unwrap_or(NEVER);
        if is_early(next_ns) {
            self.postpone_from_ns.store(now_ns.saturating_add(POSTPONE_EVERY_NS), Relaxed);
            self.alarm_ns.store(next_ns, Relaxed);
            set_alarm(next_ns);
        }
    }

    /// The alarm has rung: wakes all whose timers are due, and sets the alarm for the others.
    pub(crate) fn fire(&self, now_ns: u64, set_alarm: impl FnOnce(u64)) {
        let mut due = Vec::with_capacity(FIRED_AT_ONCE);
        loop {
            let mut timers = self.timers.lock();
            timers.fire(now_ns, &mut due);
            self.note_next(&timers);
            let are_more = due.len() == due.capacity();
            if !are_more {
                // It may have been set anew since it rang; setting it to the same time once more
                // does no harm.
                self.alarm_ns.store(NEVER, Relaxed);
                self.settle_locked(&timers, set_alarm);
                drop(timers);
                due.into_iter().for_each(Waker::wake);
                return;
            }
            drop(timers);
            due.drain(..).for_each(Waker::wake);
        }
    }

    /// Timers armed now, armed so far, and fired so far.
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        let timers = self.timers.lock();
        (timers.len(), timers.armed_total, timers.fired_total)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sync::tests::{OnDrop, within_seconds};

    /// Bug: the waker of the poll before was dropped with the lock held. Consequence: one that held
    /// the last reference to another timer stopped its thread for ever, and with it all that armed
    /// one. Fix: wakers are dropped when the lock is not held.
    #[test]
    fn a_waker_that_is_replaced_may_cancel_another_timer() {
        within_seconds(|| {
            let timer_driver = Arc::new(TimerDriver::new());
            let other = timer_driver.arm(2_000, 0, Waker::noop().clone());
            let removing = Arc::clone(&timer_driver);
            let waker = Waker::from(Arc::new(OnDrop::new(move || removing.remove(other))));
            let key = timer_driver.arm(1_000, 0, waker);
            assert!(!timer_driver.poll(key, Waker::noop()));
            assert_eq!(timer_driver.counts().0, 1);
            timer_driver.fire(1_000, |_| {});
            assert!(timer_driver.poll(key, Waker::noop()));
        });
    }
}

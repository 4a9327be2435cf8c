//! Giving others a chance in the middle of work that cannot be put aside.
//!
//! Operators stop between two rows when their budget is used up. An expression, a query inside one,
//! a function over a long text or a change of the catalogue cannot: they *poll*. Code that may take
//! long counts what it does in units ([`work`]); about every 50 µs the count is used up, and then
//! the session's hook is called (it lets others run, and may raise the cancel flag at a deadline)
//! and the cancel flag is looked at.
//!
//! ```text
//! Session::step ── at_work ──► the pulse is this thread's ──► operators, expressions, functions: work(units)?
//!                                                                        │ every UNITS_BETWEEN_POLLS
//!                                                                        ▼
//!                                                             hook(); cancelled? 57014
//! ```
//!
//! The pulse belongs to the thread for as long as a session is at work on it, since a step never
//! changes threads. So what compares, hashes or formats values needs no argument for it, and the
//! count is a word that nobody else looks at.
//!
//! A statement that is to sleep ([`sleep`]) goes on at once, with its clock ahead by as much
//! ([`time_ahead`]). Its session finds that out at the end of the operators' step ([`take_sleep`])
//! and waits then, without a thread, before anything is told of what the step gave. Operators that
//! give rows stop early for it, so that what follows in a row comes later.
//!
//! Invariants: nobody who polls holds a lock, or a borrow of what the hook could want: the hook may
//! take any time. What was cancelled stays so until the next statement: every later poll fails as
//! well, so that one whose failure cannot be told loses nothing.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result, SqlState};

/// What is called at every poll.
pub type Hook = Arc<dyn Fn() + Send + Sync>;

/// Work between two polls, in units of about 10 ns: 50 µs.
pub const UNITS_BETWEEN_POLLS: i64 = 5_000;

/// What looking at a row takes, in units: the least that any operator does with one.
pub const UNITS_PER_ROW: usize = 20;

/// What writing a row, or looking one up for its sake, takes, in units.
pub const UNITS_PER_WRITE: usize = 200;

/// Rows that operators look at in one go where nothing can be put aside. See [`rows_done`].
pub const ROWS_AT_ONCE: i64 = 256;

thread_local! {
    static LEFT: Cell<i64> = const { Cell::new(UNITS_BETWEEN_POLLS) };
    static AT_WORK: RefCell<Option<Pulse>> = const { RefCell::new(None) };
    static SLEEPS_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A sleep that is longer, or has no end, ends after so long: 100 years.
const SLEEP_MAX: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Whom a session's work gives a chance, and who may end it.
#[derive(Clone)]
pub struct Pulse {
    hook: Option<Hook>,
    cancel: Arc<AtomicBool>,
}

/// A pulse that is the thread's, until this is dropped or [`AtWork::end`] gives it back.
pub struct AtWork {
    outer: Option<Pulse>,
    outer_left: i64,
    outer_sleep: Option<Instant>,
    is_over: bool,
}

impl Pulse {
    /// Of a session whose hook is called at every poll, and which the flag ends.
    pub fn new(hook: Option<Hook>, cancel: &Arc<AtomicBool>) -> Self {
        Self { hook, cancel: Arc::clone(cancel) }
    }

    /// Makes it the thread's. It is moved and not shared: that costs no counting of references.
    #[inline]
    pub fn begin(self) -> AtWork {
        let outer_left = LEFT.replace(UNITS_BETWEEN_POLLS);
        let outer_sleep = SLEEPS_UNTIL.take();
        AtWork { outer: AT_WORK.replace(Some(self)), outer_left, outer_sleep, is_over: false }
    }
}

impl AtWork {
    /// Gives the pulse back; the thread's is what it was before.
    #[inline]
    pub fn end(mut self) -> Option<Pulse> {
        self.is_over = true;
        AT_WORK.replace(self.outer.take())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        LEFT.set(self.outer_left);
        SLEEPS_UNTIL.set(self.outer_sleep);
        // After a panic.
        if !self.is_over {
            AT_WORK.set(self.outer.take());
        }
    }
}

/// Counts work, and polls when it is time.
///
/// # Errors
/// The statement was cancelled (57014).
#[inline]
pub fn work(units: usize) -> Result<()> {
    if is_due(units) { poll() } else { Ok(()) }
}

/// As [`work`], where nothing can fail: if the statement was cancelled, a later [`work`] or
/// [`check`] will say so. Gives whether it was, so that a loop can end whose result is of no use
/// then.
#[inline]
pub fn note(units: usize) -> bool {
    is_due(units) && poll().is_err()
}

/// Counts an object of the catalogue that was looked at in search of another.
#[inline]
pub fn look() {
    note(4);
}

/// Polls at once: to be called behind what may have ended early because of [`note`].
///
/// # Errors
/// As [`work`].
pub fn check() -> Result<()> {
    poll()
}

/// Has the statement at work sleep, behind what it is to sleep already.
pub fn sleep(time: Duration) {
    let from = SLEEPS_UNTIL.get().unwrap_or_else(Instant::now);
    let end = from.checked_add(time.min(SLEEP_MAX));
    SLEEPS_UNTIL.set(end.or_else(|| Instant::now().checked_add(SLEEP_MAX)));
}

/// Whether the statement at work is to sleep before it goes on.
#[inline]
pub fn is_to_sleep() -> bool {
    SLEEPS_UNTIL.get().is_some()
}

/// Until when the statement at work is to sleep; whoever asks sees to that.
#[inline]
pub fn take_sleep() -> Option<Instant> {
    if is_to_sleep() { SLEEPS_UNTIL.take() } else { None }
}

/// By how much the statement's clock is ahead, since it has not slept yet.
pub fn time_ahead() -> Duration {
    SLEEPS_UNTIL.get().map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
}

/// Sleeps on this thread, if the statement at work is to sleep: for work that can neither be put
/// aside nor wait.
///
/// # Errors
/// As [`work`].
pub fn sleep_here() -> Result<()> {
    /// How often it polls.
    const LOOK_AGAIN: Duration = Duration::from_millis(10);
    let Some(until) = take_sleep() else { return Ok(()) };
    loop {
        poll()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK_AGAIN));
    }
}

/// Counts rows that operators have looked at within an expression or a statement that cannot be put
/// aside.
///
/// # Errors
/// As [`work`].
#[inline]
pub fn rows_done(rows: i64) -> Result<()> {
    work(usize::try_from(rows).unwrap_or(0).saturating_mul(UNITS_PER_ROW))
}

/// The thread's pulse for another thread, which works while this one waits and polls: the hook is
/// not called from there.
pub fn elsewhere() -> Option<Pulse> {
    AT_WORK.with_borrow(|pulse| pulse.as_ref().map(|pulse| Pulse { hook: None, cancel: Arc::clone(&pulse.cancel) }))
}

#[inline]
fn is_due(units: usize) -> bool {
    let left = LEFT.get().saturating_sub_unsigned(units as u64);
    LEFT.set(left);
    left < 0
}

#[cold]
#[inline(never)]
fn poll() -> Result<()> {
    LEFT.set(UNITS_BETWEEN_POLLS);
    // What a thread lets go of when it ends finds no pulse any more.
    let pulse = AT_WORK.try_with(|pulse| pulse.borrow().clone()).ok().flatten();
    let Some(Pulse { hook, cancel }) = pulse else { return Ok(()) };
    if let Some(hook) = hook {
        hook();
    }
    if cancel.load(Ordering::Relaxed) {
        return Err(Error::new(SqlState::CANCELED, "canceling statement due to user request"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn polls_come_once_per_so_much_work_and_end_what_is_cancelled() {
        let calls = Arc::new(AtomicUsize::new(0));
        let (counted, cancel) = (Arc::clone(&calls), Arc::new(AtomicBool::new(false)));
        let hook: Hook = Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let at_work = Pulse::new(Some(hook), &cancel).begin();
        for _ in 0..10 * UNITS_BETWEEN_POLLS {
            work(1).unwrap();
        }
        assert_eq!(calls.load(Ordering::Relaxed), 9);
        work(usize::MAX).unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 10);
        cancel.store(true, Ordering::Relaxed);
        work(1).unwrap();
        note(UNITS_BETWEEN_POLLS as usize);
        work(1).unwrap();
        let error = work(UNITS_BETWEEN_POLLS as usize).unwrap_err();
        assert_eq!(error.state(), SqlState::CANCELED);
        assert!(work(usize::MAX).is_err(), "what was cancelled stays so");
        assert_eq!(calls.load(Ordering::Relaxed), 13);
        assert!(at_work.end().is_some());
        work(2 * UNITS_BETWEEN_POLLS as usize).unwrap();
    }

    #[test]
    fn a_session_at_work_within_another_leaves_it_its_pulse() {
        let flags = [true, false].map(|flag| Arc::new(AtomicBool::new(flag)));
        let outer = Pulse::new(None, &flags[0]).begin();
        let inner = Pulse::new(None, &flags[1]).begin();
        work(usize::MAX).unwrap();
        assert!(inner.end().is_some());
        assert!(work(usize::MAX).is_err());
        let panicked = std::panic::catch_unwind(|| {
            let _inner = Pulse::new(None, &Arc::new(AtomicBool::new(false))).begin();
            panic!("on purpose");
        });
        assert!(panicked.is_err());
        assert!(work(usize::MAX).is_err(), "the outer pulse is the thread's again");
        assert!(outer.end().is_some());
        assert!(AT_WORK.with_borrow(Option::is_none));
    }
}

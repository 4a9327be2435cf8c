//! Waiting for a time: sleeping, and giving up on something.
//!
//! Not here: where timers are kept (`timers`) and who wakes up for them (`timer_driver`).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;

use crate::runtime::Handle;
use crate::shared::Shared;
use crate::timers::TimerKey;
use crate::worker;

/// A wait may take longer by this part of it, unless its slack is set.
const SLACK_PART: u32 = 32;
const SLACK_MIN: Duration = Duration::from_micros(50);
const SLACK_MAX: Duration = Duration::from_millis(50);

/// Waits for a time. See [`sleep`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Sleep {
    at: Instant,
    slack: Duration,
    timer: Option<(Arc<Shared>, TimerKey)>,
    is_over: bool,
}

/// Waits at least so long, and at most a thirty-second of it longer (50 µs to 50 ms), so that
/// timers share wake-ups.
///
/// The timer belongs to the runtime in which it is first awaited, whoever awaits it later. Once
/// that runtime has shut down, it belongs to the one in which it is awaited then. Awaiting it
/// outside of all runtimes panics. In [`Handle::block_on`] of a runtime that has shut down it takes
/// as long as elsewhere.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now().checked_add(duration).unwrap_or_else(far_away))
}

/// Waits until then at least; see [`sleep`].
pub fn sleep_until(at: Instant) -> Sleep {
    let wait = at.saturating_duration_since(Instant::now());
    Sleep { at, slack: (wait / SLACK_PART).clamp(SLACK_MIN, SLACK_MAX), timer: None, is_over: false }
}

fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(86_400 * 365 * 30)
}

impl Sleep {
    /// How much longer it may take. It has to be set before the first wait.
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = slack;
        self
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_over {
            return Poll::Ready(());
        }
        // `None` if it is armed nowhere, or in a runtime that no longer fires timers.
        let has_fired = match &self.timer {
            Some((shared, timer)) if !shared.is_leaving() || is_here(shared) => {
                Some(shared.timer_driver.poll(*timer, cx.waker()))
            }
            _ => None,
        };
        match has_fired {
            Some(false) => return Poll::Pending,
            None if self.at > Instant::now() => {
                self.disarm();
                let shared = Handle::current().shared;
                let slack_ns = u64::try_from(self.slack.as_nanos()).unwrap_or(u64::MAX);
                let timer = shared.timer_driver.arm(shared.clock.ns_of(self.at), slack_ns, cx.waker().clone());
                worker::timer_armed(&shared);
                self.timer = Some((shared, timer));
                return Poll::Pending;
            }
            _ => {}
        }
        self.is_over = true;
        Poll::Ready(())
    }
}

/// Whether this thread belongs to that runtime, or waits for one of its futures.
fn is_here(shared: &Arc<Shared>) -> bool {
    Handle::try_current().is_some_and(|current| Arc::ptr_eq(&current.shared, shared))
}

impl Sleep {
    fn disarm(&mut self) {
        if let Some((shared, timer)) = self.timer.take() {
            shared.timer_driver.remove(timer);
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// The time limit is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut;

impl std::fmt::Display for TimedOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it took longer than it may")
    }
}

impl std::error::Error for TimedOut {}

pin_project! {
    /// A future with a time limit. See [`timeout`].
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        #[pin]
        sleep: Sleep,
    }
}

/// Gives what `future` gives, unless that takes longer than `limit` from now. Then the future is
/// not polled any more.
pub fn timeout<F: Future>(limit: Duration, future: F) -> Timeout<F> {
    Timeout { future, sleep: sleep(limit) }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, TimedOut>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(value) = this.future.poll(cx) {
            return Poll::Ready(Ok(value));
        }
        this.sleep.poll(cx).map(|()| Err(TimedOut))
    }
}

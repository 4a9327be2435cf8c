//! Cooperation: long tasks ask whether they should let others run.
//!
//! Not here: interrupting those that do not ask.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::pool::Pool;
use crate::worker::{self, Context as Thread};

/// A batch task runs so long while nobody listens to events: all other threads are at work, or have lost their CPU.
const UNHEARD_NS: u64 = 50_000;

/// Whether the running task should let others run: its slice of time is over, or a task of a higher pool waits and no thread is
/// free for it. The slice begins with the first question after the task has waited. Outside of tasks it is never over.
///
/// Asking costs about as much as reading the clock: once in 10 µs of work is often enough.
#[must_use]
pub fn is_over() -> bool {
    worker::with_context(|context| {
        let Some(Thread::Worker(local)) = context else { return false };
        let Some(pool) = local.running() else { return false };
        local.take_longer();
        let shared = &local.shared;
        let now_ns = shared.clock.now_ns();
        let from_ns = match local.slice_from_ns.get() {
            0 => {
                local.slice_from_ns.set(now_ns);
                now_ns
            }
            from_ns => from_ns,
        };
        let mut ran_ns = now_ns - from_ns;
        if pool == Pool::Batch || ran_ns >= shared.settings.slice_ns {
            ran_ns += local.give_way(now_ns);
        }
        let is_over = ran_ns >= shared.settings.slice_ns
            || pool == Pool::Batch && ran_ns >= UNHEARD_NS && !shared.idle.is_listened()
            || local.waits_above(pool) && {
                let is_free = shared.idle.is_anyone();
                if is_free {
                    shared.call();
                }
                !is_free
            };
        if is_over {
            local.counts().pools[pool.index()].yields.add(1);
        }
        is_over
    })
}

/// Lets others run if [`is_over`].
pub async fn yield_if_over() {
    if is_over() {
        yield_now().await;
    }
}

/// Lets tasks run that wait, of the same pool too.
pub fn yield_now() -> Yield {
    Yield { has_yielded: false, move_to: None }
}

/// Goes on in another pool: a request that turns out to be long moves to [`Pool::Batch`] by itself.
pub fn move_to(pool: Pool) -> Yield {
    Yield { has_yielded: false, move_to: Some(pool) }
}

/// See [`yield_now`] and [`move_to`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Yield {
    has_yielded: bool,
    move_to: Option<Pool>,
}

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        if self.move_to.is_some() {
            worker::with_context(|context| {
                if let Some(Thread::Worker(local)) = context {
                    local.move_to.set(self.move_to);
                }
            });
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

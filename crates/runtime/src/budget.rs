//! Cooperation: long tasks ask whether they should let others run, and say when they cannot.
//!
//! Not here: interrupting those that do neither.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::pool::Pool;
use crate::worker::{self, Context as Thread};

/// So long a batch task runs while nobody listens for events: all other threads are at work, or
/// have lost their CPU.
const UNWATCHED_NS: u64 = 50_000;

/// Whether the running task should let others run: its slice is over, or a task of a higher pool
/// waits and no thread is free for it. The slice begins with the first call after the task has
/// waited. Outside of tasks the answer is no.
///
/// A call costs about as much as reading the clock. Once in 10 µs of work is often enough.
#[must_use]
pub fn is_over() -> bool {
    worker::with_context(|context| {
        let local = match context {
            Some(Thread::Worker(local)) => local,
            // Its step was too long already.
            Some(Thread::Aside(_)) => return true,
            _ => return false,
        };
        let Some(pool) = local.running() else { return false };
        local.leave_work_to_others();
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
            ran_ns += local.yield_cpu(now_ns);
        }
        let is_over = ran_ns >= shared.settings.slice_ns
            || pool == Pool::Batch && ran_ns >= UNWATCHED_NS && !shared.idle.has_listener()
            || local.waits_above(pool) && {
                let is_free = shared.idle.has_sleeper();
                if is_free {
                    shared.wake_one();
                }
                !is_free
            };
        if is_over {
            local.counts().pools[pool.index()].yields.add(1);
        }
        is_over
    })
}

/// To be called about every 50 µs in the middle of a step that cannot yield. Other tasks run
/// meanwhile.
///
/// When the task's slice is over and no other thread is free, another thread takes over this
/// thread's role, and this thread runs the task alone until it yields; [`is_over`] is then true at
/// once. Meanwhile each call may wait up to 20 ms for this thread's turn: as many such steps run at
/// the same time as batch tasks may. On a thread for a blocking call the CPU is yielded to others.
pub fn in_long_step() {
    worker::in_long_step();
}

/// To be called before a call that can take long and does not call [`in_long_step`] on the way.
/// Unless another thread is free, another thread takes over this thread's role at once, as in
/// [`in_long_step`].
pub fn before_long_call() {
    worker::before_long_call();
}

/// Whether the running task may block its thread for about as long as a flush of a disk takes: no
/// other task waits, and another thread of the runtime sleeps. One of those listens for events from
/// here on. Waiting without a thread would take longer then, since two threads have to be woken.
#[must_use]
pub fn may_block_briefly() -> bool {
    worker::with_context(|context| match context {
        Some(Thread::Worker(local)) => local.may_block_briefly(),
        _ => false,
    })
}

/// About how many tasks of a pool, and of those above, wait for a thread.
#[must_use]
pub fn waiting(pool: Pool) -> usize {
    worker::with_context(|context| match context {
        Some(Thread::Worker(local)) => {
            let lanes = &local.shared.lanes;
            Pool::ALL[..=pool.index()].iter().map(|&pool| lanes.len(pool)).sum()
        }
        _ => 0,
    })
}

/// Lets others run if [`is_over`].
pub async fn yield_if_over() {
    if is_over() {
        yield_now().await;
    }
}

/// Lets waiting tasks run, of the same pool too.
pub fn yield_now() -> Yield {
    Yield { has_yielded: false, move_to: None }
}

/// Goes on in another pool: a request that turns out to be long moves itself to [`Pool::Batch`].
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
            worker::with_context(|context| match context {
                Some(Thread::Worker(local)) => local.move_to.set(self.move_to),
                Some(Thread::Aside(aside)) => aside.move_to.set(self.move_to),
                _ => {}
            });
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

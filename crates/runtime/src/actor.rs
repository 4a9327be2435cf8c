//! Actors: a task that reads a mailbox, and what happens when it panics.
//!
//! ```text
//! Mailbox ─► Inbox ─► the actor's future ── over ──► done
//!                         │ panics
//!                         └─► reported; begun again with the same mailbox, or given up
//! ```
//!
//! Invariants
//! - The message that an actor panicked over is gone; those behind it are not.
//! - An actor that is given up closes its mailbox: its senders notice.
//! - Between a panic and the next beginning lies a task boundary: one that panics at once keeps
//!   neither others from running nor the end from coming.
//!
//! Not here: a tree of supervisors. A task that waits for the actor's end can be one.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::budget;
use crate::mailbox::{Inbox, Mailbox, WhenFull, mailbox};
use crate::pool::Pool;
use crate::runtime::Handle;
use crate::task::{JoinHandle, panic_message};

/// How an actor runs.
#[derive(Debug, Clone, Copy)]
pub struct ActorOptions {
    /// The pool of its task.
    pub pool: Pool,
    /// Messages that its mailbox holds.
    pub capacity: usize,
    /// What happens to a message for which there is no room.
    pub when_full: WhenFull,
    /// How often it begins again after a panic within `restarts_within`. Before it does, tasks
    /// that wait have their turn, and it can be cancelled.
    pub restarts_max: u32,
    /// See `restarts_max`. Zero stands for no limit in time: then it is the number of restarts in
    /// all. An actor that panics more slowly than that begins again without end.
    pub restarts_within: Duration,
}

impl Default for ActorOptions {
    /// In the system pool, with room for 1,024 messages, for which senders wait; begun again three
    /// times in ten seconds.
    fn default() -> Self {
        Self {
            pool: Pool::System,
            capacity: 1_024,
            when_full: WhenFull::Wait,
            restarts_max: 3,
            restarts_within: Duration::from_secs(10),
        }
    }
}

/// An actor has panicked too often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// What the last panic said.
    pub message: String,
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the actor panicked too often, the last time: {}", self.message)
    }
}

impl std::error::Error for GivenUp {}

/// A running actor.
#[derive(Debug)]
pub struct Actor<M> {
    /// Where its messages go.
    pub mailbox: Mailbox<M>,
    /// Its end.
    pub end: JoinHandle<Result<(), GivenUp>>,
}

impl Handle {
    /// Runs an actor: `begin` makes its future, of an inbox to read from, now and after each panic.
    /// It is over when its future is: mostly when all mailboxes are gone and the inbox gives
    /// `None`.
    pub fn spawn_actor<M, F>(
        &self,
        options: ActorOptions,
        mut begin: impl FnMut(Inbox<M>) -> F + std::marker::Send + 'static,
    ) -> Actor<M>
    where
        M: std::marker::Send + 'static,
        F: Future<Output = ()> + std::marker::Send + 'static,
    {
        let (mailbox, inbox) = mailbox(options.capacity, options.when_full);
        let shared = std::sync::Arc::downgrade(&self.shared);
        let end = self.spawn(options.pool, async move {
            let within = options.restarts_within;
            // Those within that time, the oldest first.
            let mut restarts: VecDeque<Instant> = VecDeque::new();
            let mut restarts_total = 0;
            loop {
                let Err(cause) = survive(|| begin(inbox.lend())).await else { return Ok(()) };
                if let Some(shared) = shared.upgrade() {
                    shared.report_panic(Some(options.pool), &*cause);
                }
                let now = Instant::now();
                while restarts.front().is_some_and(|&restart| now.duration_since(restart) >= within) {
                    restarts.pop_front();
                }
                let counted = if within.is_zero() { restarts_total } else { restarts.len() };
                if counted >= options.restarts_max as usize {
                    return Err(GivenUp { message: panic_message(&*cause).to_owned() });
                }
                restarts_total += 1;
                restarts.push_back(now);
                drop(cause);
                budget::yield_now().await;
            }
        });
        Actor { mailbox, end }
    }
}

/// What comes out of a future, or what it panicked with, while it was made or ran.
async fn survive<F: Future>(begin: impl FnOnce() -> F) -> std::thread::Result<F::Output> {
    let mut future = Box::pin(catch_unwind(AssertUnwindSafe(begin))?);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(cause) => std::task::Poll::Ready(Err(cause)),
    })
    .await
}

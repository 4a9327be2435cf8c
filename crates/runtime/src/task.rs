//! Tasks: a future, the pool it runs in, and who waits for what comes out of it.
//!
//! ```text
//! spawn ─ Runnable ─► lane ─► thread: run ─► waits (a waker somewhere) ─► wake: lane ─► …
//!            │                   └ panics: reported, the thread goes on
//!            └ JoinHandle: what came out, or that it panicked, or was cancelled
//! ```
//!
//! Invariants
//! 1. Every task that is not over has a waker in the registry, so that a shutdown finds those that
//!    wait.
//! 2. A panic ends its task and nothing else, and is reported, even in the destructor of a
//!    cancelled future. Two panics end the process: one in the destructor of a result that nobody
//!    waits for, and one in a waker.
//! 3. Destructors run where the future is dropped: on a thread of the runtime, which may not wait,
//!    or, after the runtime has ended, on the thread that spawns or wakes the task.
//!
//! Not here: where tasks wait (`lanes`) and when they run (`worker`).

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use async_task::{Builder, FallibleTask, Runnable};
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use slab::Slab;

use crate::pool::Pool;
use crate::shared::Shared;

/// A runnable task.
pub(crate) type Task = Runnable<Meta>;

/// What is known of a task without running it.
#[derive(Debug)]
pub(crate) struct Meta {
    /// The pool in which it is counted, wherever it moves.
    spawned_in: Pool,
    pool: AtomicU8,
    /// When it was last put into a lane; 0 if this time is not measured.
    queued_ns: AtomicU64,
    /// It takes no time, whatever its pool, so no thread has to be woken because it runs.
    is_brief: bool,
}

impl Meta {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { spawned_in: pool, pool: AtomicU8::new(pool as u8), queued_ns: AtomicU64::new(0), is_brief: false }
    }

    pub(crate) fn brief(pool: Pool) -> Self {
        Self { is_brief: true, ..Self::new(pool) }
    }

    pub(crate) fn is_brief(&self) -> bool {
        self.is_brief
    }

    pub(crate) fn spawned_in(&self) -> Pool {
        self.spawned_in
    }

    pub(crate) fn pool(&self) -> Pool {
        Pool::from_index(self.pool.load(Ordering::Relaxed).into())
    }

    pub(crate) fn move_to(&self, pool: Pool) {
        self.pool.store(pool as u8, Ordering::Relaxed);
    }

    pub(crate) fn queued_at(&self, ns: u64) {
        self.queued_ns.store(ns, Ordering::Relaxed);
    }

    pub(crate) fn take_queued(&self) -> Option<u64> {
        match self.queued_ns.load(Ordering::Relaxed) {
            0 => None,
            ns => {
                self.queued_ns.store(0, Ordering::Relaxed);
                Some(ns)
            }
        }
    }
}

/// What a panic said.
pub(crate) fn panic_message(cause: &(dyn Any + Send)) -> &str {
    match (cause.downcast_ref::<&str>(), cause.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (_, Some(message)) => message,
        _ => "a panic that says nothing",
    }
}

/// A panic that ended a task.
pub struct Panic {
    message: String,
    /// Only ever taken out. The lock makes the type `Sync`, which the payload need not be.
    cause: Mutex<Box<dyn Any + Send>>,
}

impl Panic {
    fn new(cause: Box<dyn Any + Send>) -> Self {
        Self { message: panic_message(&*cause).to_owned(), cause: Mutex::new(cause) }
    }

    /// What it said.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What it was raised with, for [`resume_unwind`](std::panic::resume_unwind).
    #[must_use]
    pub fn into_cause(self) -> Box<dyn Any + Send> {
        self.cause.into_inner()
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Panic").field("message", &self.message).finish_non_exhaustive()
    }
}

/// Why there is no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The task panicked.
    Panicked(Panic),
    /// The task was cancelled, or its runtime has shut down.
    Cancelled,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(panic) => write!(f, "the task panicked: {}", panic.message),
            Self::Cancelled => f.write_str("the task was cancelled"),
        }
    }
}

impl std::error::Error for JoinError {}

pub(crate) type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// Waits for the result of a task. Dropping it lets the task go on.
#[must_use = "await it, or drop it to let the task run by itself"]
pub struct JoinHandle<T> {
    task: Option<FallibleTask<Outcome<T>, Meta>>,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_finished", &self.is_finished()).finish()
    }
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(task: FallibleTask<Outcome<T>, Meta>) -> Self {
        Self { task: Some(task) }
    }

    /// Whether there is a result, or never will be.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(FallibleTask::is_finished)
    }

    /// Ends the task where it waits: now, or, if it is running, as soon as it waits. Its future is
    /// dropped.
    pub fn cancel(mut self) {
        drop(self.task.take());
    }

    /// As [`JoinHandle::cancel`], and waits until the task has stopped running: whatever it did is
    /// done.
    pub async fn stop(mut self) {
        if let Some(task) = self.task.take() {
            _ = task.cancel().await;
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let task = self.task.as_mut().expect("it is not polled after it is done");
        let outcome = std::task::ready!(Pin::new(task).poll(cx));
        self.task = None;
        Poll::Ready(match outcome {
            Some(Ok(value)) => Ok(value),
            Some(Err(cause)) => Err(JoinError::Panicked(Panic::new(cause))),
            None => Err(JoinError::Cancelled),
        })
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}

/// The tasks that are not over.
#[derive(Debug)]
pub(crate) struct Registry {
    /// A part for each thread and one for others, so that threads do not wait for one another.
    parts: Box<[CachePadded<Mutex<Slab<Registered>>>]>,
    /// How many tasks of each pool are alive, by the pool they were spawned in.
    live: [CachePadded<AtomicUsize>; Pool::COUNT],
}

#[derive(Debug)]
struct Registered {
    waker: Waker,
    pool: Pool,
}

impl Registry {
    pub(crate) fn new(threads: usize) -> Self {
        Self { parts: (0..=threads).map(|_| CachePadded::default()).collect(), live: Default::default() }
    }

    /// Tasks of this pool that are not over.
    pub(crate) fn live(&self, pool: Pool) -> usize {
        self.live[pool.index()].load(Ordering::Acquire)
    }

    /// Makes all tasks that were spawned into this pool runnable.
    pub(crate) fn wake(&self, pool: Pool) {
        for part in &self.parts {
            let wakers: Vec<Waker> = {
                let part = part.lock();
                part.iter().filter(|(_, task)| task.pool == pool).map(|(_, task)| task.waker.clone()).collect()
            };
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// A task's place in the registry.
struct Place {
    shared: Arc<Shared>,
    part: u32,
    pool: Pool,
    key: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        let registry = &self.shared.registry;
        let registered = registry.parts[self.part as usize].lock().remove(self.key);
        drop(registered);
        if registry.live[self.pool.index()].fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.pool_is_empty();
        }
    }
}

pin_project! {
    /// A future that does not panic, nor does its destructor.
    struct Supervised<F> {
        // There until it is dropped.
        #[pin]
        future: Option<F>,
        place: Place,
    }

    impl<F> PinnedDrop for Supervised<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if let Err(cause) = catch_unwind(AssertUnwindSafe(|| this.future.set(None))) {
                this.place.shared.report_panic(Some(this.place.pool), &*cause);
            }
        }
    }
}

impl<F: Future> Future for Supervised<F> {
    type Output = Outcome<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let future = this.future.as_pin_mut().expect("it is there until it is dropped");
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => {
                if this.place.shared.cancelled().contains(this.place.pool) {
                    // It was cancelled while it ran, so it becomes runnable once more, to be
                    // dropped.
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(cause) => {
                this.place.shared.report_panic(Some(this.place.pool), &*cause);
                Poll::Ready(Err(cause))
            }
        }
    }
}

/// Makes a task and puts it into a lane of `pool`; `part` is where the spawning thread registers
/// its tasks.
pub(crate) fn spawn<F>(shared: &Arc<Shared>, part: usize, meta: Meta, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let pool = meta.spawned_in();
    let registry = &shared.registry;
    registry.live[pool.index()].fetch_add(1, Ordering::Relaxed);
    let scheduling = Arc::clone(shared);
    let schedule = async_task::WithInfo(move |task: Task, info: async_task::ScheduleInfo| {
        crate::worker::schedule(&scheduling, task, info.woken_while_running);
    });
    let mut tasks = registry.parts[part].lock();
    let entry = tasks.vacant_entry();
    let place = Place { shared: Arc::clone(shared), part: part as u32, pool, key: entry.key() };
    let (task, handle) =
        Builder::new().metadata(meta).spawn(move |_| Supervised { future: Some(future), place }, schedule);
    entry.insert(Registered { waker: task.waker(), pool });
    drop(tasks);
    crate::worker::schedule(shared, task, false);
    JoinHandle::new(handle.fallible())
}

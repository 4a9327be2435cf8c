//! Making a runtime, and what users do with one.
//!
//! Not here: how the end goes (`shutdown`).

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::Mutex;

use crate::blocking::{self, BlockingThreads};
use crate::counters::Counters;
use crate::cpus::Cpus;
use crate::lanes::OwnLanes;
use crate::pool::Pool;
use crate::shared::{PanicReport, Settings, Shared};
use crate::shutdown::{self, ShutdownReport, Threads};
use crate::task::{self, JoinError, JoinHandle, Meta};
use crate::worker::{self, Context};

const SHARE_DEFAULT: f64 = 0.05;
const SLICE_DEFAULT: Duration = Duration::from_micros(500);
const PING_DEFAULT: Duration = Duration::from_millis(10);
const BLOCKING_MAX_DEFAULT: usize = 64;
const BLOCKING_KEEP_DEFAULT: Duration = Duration::from_secs(1);

/// Settings of a runtime.
pub struct Builder {
    settings: Settings,
    name: String,
    blocking_max: usize,
    blocking_keep: Duration,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("threads", &self.settings.threads).finish_non_exhaustive()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            settings: Settings {
                threads: Cpus::available().threads(),
                share: [SHARE_DEFAULT; Pool::COUNT],
                slice_ns: SLICE_DEFAULT.as_nanos() as u64,
                ping_ns: Some(PING_DEFAULT.as_nanos() as u64),
                on_panic: None,
            },
            name: "colibri".to_owned(),
            blocking_max: BLOCKING_MAX_DEFAULT,
            blocking_keep: BLOCKING_KEEP_DEFAULT,
        }
    }
}

impl Builder {
    /// A runtime with as many threads as this process may use CPUs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// So much CPU; see [`Cpus::threads`].
    #[must_use]
    pub fn cpus(mut self, cpus: Cpus) -> Self {
        self.settings.threads = cpus.threads();
        self
    }

    /// So many threads, at least one.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.settings.threads = threads.clamp(1, Cpus::MAX as usize);
        self
    }

    /// The part of the CPU time that a pool gets at least while its tasks wait, from 0 to 0.2; the
    /// default is 0.05.
    ///
    /// # Panics
    /// If it is another number.
    #[must_use]
    pub fn share(mut self, pool: Pool, share: f64) -> Self {
        assert!((0.0..=0.2).contains(&share), "the share of a pool is 0 to 0.2, not {share}");
        self.settings.share[pool.index()] = share;
        self
    }

    /// The time after which [`budget::is_over`](crate::budget::is_over) is true; the default is 500
    /// µs.
    #[must_use]
    pub fn slice(mut self, slice: Duration) -> Self {
        self.settings.slice_ns = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
        self
    }

    /// How much work of a thread lies between two pings to a pool; `None` for no pings. The default
    /// is 10 ms.
    #[must_use]
    pub fn ping(mut self, every: Option<Duration>) -> Self {
        self.settings.ping_ns = every.map(|every| u64::try_from(every.as_nanos()).unwrap_or(u64::MAX));
        self
    }

    /// The name of the threads, before their numbers.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// How many threads run blocking calls, at least one, and how long each waits for the next
    /// call; the defaults are 64 and a second.
    #[must_use]
    pub fn blocking(mut self, threads_max: usize, keep: Duration) -> Self {
        (self.blocking_max, self.blocking_keep) = (threads_max.max(1), keep);
        self
    }

    /// Called for each task that panics, on the thread where it did, and for destructors of
    /// cancelled tasks that panic.
    #[must_use]
    pub fn on_panic(mut self, on_panic: impl Fn(&PanicReport<'_>) + Send + Sync + 'static) -> Self {
        self.settings.on_panic = Some(Box::new(on_panic));
        self
    }

    fn make_shared(self) -> io::Result<(Arc<Shared>, Vec<OwnLanes>)> {
        Shared::new(self.settings, BlockingThreads::new(self.blocking_max, self.blocking_keep))
    }

    /// Makes the runtime and its threads.
    ///
    /// # Errors
    /// If the system does not give descriptors or threads.
    pub fn build(self) -> io::Result<Runtime> {
        let name = self.name.clone();
        let (shared, own) = self.make_shared()?;
        let mut runtime = Runtime { handle: Handle { shared }, threads: Threads::default() };
        for own in own {
            // If one cannot be made, dropping the runtime ends the others.
            runtime.start_thread(&name, own)?;
        }
        Ok(runtime)
    }

    /// Makes a runtime of which this thread is one, runs a future as its task, and ends the runtime
    /// when the task is over; other tasks are cancelled. A program whose main thread has nothing
    /// else to do saves a thread. With one thread the process has no other at all, which makes
    /// system calls cheaper.
    ///
    /// # Errors
    /// If the system does not give descriptors or threads.
    ///
    /// # Panics
    /// If the future does, or if this thread belongs to a runtime already.
    pub fn run<F>(self, pool: Pool, future: F) -> io::Result<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        /// Ends the runtime with the task, in whichever way that ends.
        struct End(Handle);
        impl Drop for End {
            fn drop(&mut self) {
                let shared = &self.0.shared;
                shared.stopping.set();
                Pool::ALL.into_iter().rev().for_each(|pool| shared.cancel(pool));
                shared.leave();
            }
        }
        assert!(Handle::try_current().is_none(), "`run` on a thread that belongs to a runtime");
        let name = self.name.clone();
        let (shared, own) = self.make_shared()?;
        let mut runtime = Runtime { handle: Handle { shared: Arc::clone(&shared) }, threads: Threads::default() };
        let mut own = own.into_iter();
        let own_lanes = own.next().expect("a runtime has a thread");
        for own in own {
            runtime.start_thread(&name, own)?;
        }
        let end = End(runtime.handle.clone());
        let task = runtime.spawn(pool, async move {
            let _end = end;
            future.await
        });
        // If this thread's role was handed over, the task may still run on another thread.
        worker::run(Arc::clone(&shared), own_lanes);
        let outcome = runtime.block_on(task);
        drop(runtime);
        match outcome {
            Ok(output) => Ok(output),
            Err(JoinError::Panicked(panic)) => std::panic::resume_unwind(panic.into_cause()),
            Err(JoinError::Cancelled) => unreachable!("nobody cancels it before it is over"),
        }
    }
}

/// A runtime: threads, and the tasks they run. Dropping it cancels all tasks.
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    threads: Threads,
}

impl Runtime {
    /// One with as many threads as this process may use CPUs.
    ///
    /// # Errors
    /// See [`Builder::build`].
    pub fn new() -> io::Result<Self> {
        Builder::new().build()
    }

    /// A handle for reaching this runtime from elsewhere.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    fn start_thread(&mut self, name: &str, own: OwnLanes) -> io::Result<()> {
        let shared = Arc::clone(&self.handle.shared);
        let thread = thread::Builder::new().name(format!("{name}-{}", own.thread()));
        self.threads.push(thread.spawn(move || worker::serve(&shared, own))?);
        Ok(())
    }

    /// See [`Handle::spawn`].
    pub fn spawn<F>(&self, pool: Pool, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(pool, future)
    }

    /// See [`Handle::block_on`].
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }

    /// See [`Handle::counters`].
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.handle.counters()
    }

    /// Ends the runtime in steps, and says what became of its tasks:
    ///
    /// 1. [`stopping`] tells tasks that the end has come, so that they take no new work.
    /// 2. Tasks have `grace` to come to their end.
    /// 3. What is left is cancelled, pool by pool, the least important first.
    /// 4. Blocking calls that have not begun are dropped; those under way have what is left of
    ///    `grace`, and a second.
    /// 5. The threads end, unless a task keeps one busy for more than a second after that.
    ///
    /// Threads that wait elsewhere, in [`Handle::block_on`], go on.
    pub fn shutdown(mut self, grace: Duration) -> ShutdownReport {
        shutdown::run(&self.handle.shared, &mut self.threads, grace)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let _ = shutdown::run(&self.handle.shared, &mut self.threads, Duration::ZERO);
    }
}

/// A handle of a runtime. It does not keep the runtime from ending.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// The runtime that this thread belongs to, or for one of whose futures it waits.
    #[must_use]
    pub fn try_current() -> Option<Self> {
        worker::with_context(|context| match context? {
            Context::Worker(local) => Some(Self { shared: Arc::clone(&local.shared) }),
            Context::Aside(aside) => Some(Self { shared: Arc::clone(&aside.shared) }),
            Context::Entered(shared) => Some(Self { shared: Arc::clone(shared) }),
        })
    }

    /// See [`Handle::try_current`].
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn current() -> Self {
        Self::try_current().expect("a thread of a runtime, or one in `block_on`")
    }

    /// Runs a future as a task. After the runtime has ended it is dropped.
    pub fn spawn<F>(&self, pool: Pool, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let part = worker::with_context(|context| match context {
            Some(Context::Worker(local)) if Arc::ptr_eq(&local.shared, &self.shared) => local.thread,
            _ => self.shared.settings.threads,
        });
        task::spawn(&self.shared, part, Meta::new(pool), future)
    }

    /// How many threads run tasks.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.shared.settings.threads
    }

    /// Runs a call that may block on a thread of its own. If the handle given back is dropped it
    /// runs all the same.
    pub fn spawn_blocking<T: Send + 'static>(&self, call: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        blocking::spawn(&self.shared, call)
    }

    /// Waits for a future on this thread.
    ///
    /// It may be called after the runtime has shut down, and goes on when that happens. Then this
    /// thread fires timers itself, so that sleeps and timeouts take as long as they should. Tasks
    /// are cancelled, and whatever would have to wait for a socket fails.
    ///
    /// # Panics
    /// If this thread belongs to a runtime: the task would keep other tasks from running. The same
    /// holds in destructors that a thread of the runtime runs.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        struct Leave(Option<Context>);
        impl Drop for Leave {
            fn drop(&mut self) {
                worker::set_context(self.0.take());
            }
        }
        let before = worker::set_context(Some(Context::Entered(Arc::clone(&self.shared))));
        if matches!(before, Some(Context::Worker(_) | Context::Aside(_))) {
            worker::set_context(before);
            panic!("`block_on` in a task: await the future instead");
        }
        let _leave = Leave(before);
        let parker = Arc::new(Parker { thread: thread::current(), is_called: Mutex::new(false) });
        let waker = Waker::from(Arc::clone(&parker));
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
                return value;
            }
            while !std::mem::take(&mut *parker.is_called.lock()) {
                match self.shared.unwatched_timer() {
                    None => thread::park(),
                    Some(wait) => {
                        thread::park_timeout(wait);
                        self.shared.fire_timers();
                    }
                }
            }
        }
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }
}

struct Parker {
    thread: Thread,
    is_called: Mutex<bool>,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.is_called.lock() = true;
        self.thread.unpark();
    }
}

/// Runs a future as a task of this thread's runtime.
///
/// # Panics
/// If this thread neither belongs to a runtime nor waits for one of its futures.
pub fn spawn<F>(pool: Pool, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Handle::current().spawn(pool, future)
}

/// Runs a call that may block on a thread of its own.
///
/// # Panics
/// If this thread neither belongs to a runtime nor waits for one of its futures.
pub fn spawn_blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Handle::current().spawn_blocking(call)
}

/// Waits until this thread's runtime is told to shut down.
///
/// # Panics
/// If this thread neither belongs to a runtime nor waits for one of its futures.
pub async fn stopping() {
    let shared = Handle::current().shared;
    shared.stopping.wait().await;
}

//! What all threads of a runtime share.
//!
//! Not here: what one thread has for itself (`worker`).

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::blocking::BlockingThreads;
use crate::counters::{Counters, SharedCounts, ThreadCounts};
use crate::idle::Idle;
use crate::lanes::{Lanes, OwnLanes};
use crate::placement::Placement;
use crate::pool::{Pool, PoolSet};
use crate::reactor::Reactor;
use crate::signal::Signal;
use crate::stand_in::StandIns;
use crate::task::{Registry, Task, panic_message};
use crate::timer_driver::{self, TimerDriver};

/// A task panicked and has ended, or the destructor of a cancelled task panicked.
#[derive(Debug)]
#[non_exhaustive]
pub struct PanicReport<'a> {
    /// The pool that the task was spawned into; none for a blocking call.
    pub pool: Option<Pool>,
    /// What the panic said.
    pub message: &'a str,
}

/// Called with each panic.
pub(crate) type OnPanic = Box<dyn Fn(&PanicReport<'_>) + Send + Sync>;

/// What users chose.
pub(crate) struct Settings {
    pub(crate) threads: usize,
    pub(crate) share: [f64; Pool::COUNT],
    pub(crate) slice_ns: u64,
    pub(crate) ping_ns: Option<u64>,
    pub(crate) on_panic: Option<OnPanic>,
}

/// Monotonic time, in nanoseconds since the runtime was made.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    /// The same instant on the kernel's clock.
    origin_ns: u64,
}

impl Clock {
    fn new() -> Self {
        // In this order, the time between the two calls makes alarms late, not early.
        let origin = Instant::now();
        let at = clock_gettime(ClockId::Monotonic);
        Self { origin, origin_ns: at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64 }
    }

    /// Never 0.
    pub(crate) fn now_ns(&self) -> u64 {
        self.ns_of(Instant::now())
    }

    pub(crate) fn ns_of(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    fn to_timespec(&self, ns: u64) -> Timespec {
        let ns = ns.saturating_add(self.origin_ns);
        Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
    }
}

/// How many threads may run batch tasks at the same time, and how many do.
#[derive(Debug)]
pub(crate) struct BatchPermits {
    taken: AtomicUsize,
    max: usize,
}

impl BatchPermits {
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn is_free(&self) -> bool {
        self.taken.load(Ordering::Relaxed) < self.max
    }

    pub(crate) fn acquire(&self) -> bool {
        let more = |taken| (taken < self.max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Releases a permit. The caller looks for sleeping threads afterwards, of which one may be
    /// able to use it.
    pub(crate) fn release(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) lanes: Lanes,
    pub(crate) idle: Idle,
    pub(crate) reactor: Arc<Reactor>,
    pub(crate) timer_driver: TimerDriver,
    pub(crate) registry: Registry,
    pub(crate) batch: BatchPermits,
    pub(crate) blocking: Arc<BlockingThreads>,
    pub(crate) stand_ins: StandIns,
    pub(crate) placement: Placement,
    pub(crate) threads: Vec<CachePadded<ThreadCounts>>,
    pub(crate) counts: SharedCounts,
    /// Set when the runtime is asked to end.
    pub(crate) stopping: Signal,
    /// The pools whose tasks are dropped instead of run.
    cancelled: AtomicU8,
    /// Threads leave when they find nothing to do.
    leaving: AtomicBool,
    /// All threads have left.
    over: AtomicBool,
    threads_in: AtomicUsize,
    emptied: Mutex<()>,
    is_emptied: Condvar,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(settings: Settings, blocking: BlockingThreads) -> io::Result<(Arc<Self>, Vec<OwnLanes>)> {
        let threads = settings.threads;
        assert!(threads > 0, "a runtime has a thread");
        let (lanes, own) = Lanes::new(threads);
        let shared = Self {
            settings,
            clock: Clock::new(),
            lanes,
            idle: Idle::new(),
            reactor: Arc::new(Reactor::new()?),
            timer_driver: TimerDriver::new(),
            registry: Registry::new(threads),
            batch: BatchPermits { taken: AtomicUsize::new(0), max: (threads - 1).max(1) },
            blocking: Arc::new(blocking),
            stand_ins: StandIns::default(),
            placement: Placement::new(threads),
            threads: (0..threads).map(|_| CachePadded::default()).collect(),
            counts: SharedCounts::default(),
            stopping: Signal::default(),
            cancelled: AtomicU8::new(0),
            leaving: AtomicBool::new(false),
            over: AtomicBool::new(false),
            threads_in: AtomicUsize::new(threads),
            emptied: Mutex::new(()),
            is_emptied: Condvar::new(),
        };
        Ok((Arc::new(shared), own))
    }

    /// Puts a task where all threads look, and makes sure that one does.
    pub(crate) fn inject(&self, pool: Pool, task: Task) {
        self.lanes.inject(pool, task);
        self.wake_one();
    }

    /// Wakes a sleeping thread, unless a wake-up is pending.
    pub(crate) fn wake_one(&self) {
        self.idle.wake_one(|| self.reactor.ring());
    }

    /// Sets the alarm of timers if a timer is due before it rings.
    pub(crate) fn settle_timers(&self) {
        self.timer_driver.settle(|at_ns| self.set_alarm(at_ns));
    }

    pub(crate) fn fire_timers(&self) {
        self.timer_driver.fire(self.clock.now_ns(), |at_ns| self.set_alarm(at_ns));
    }

    /// Before a thread sleeps: puts off an alarm that would wake it for timers that are no more.
    pub(crate) fn postpone_alarm(&self, now_ns: u64) {
        self.timer_driver.postpone(now_ns, |at_ns| self.set_alarm(at_ns));
    }

    fn set_alarm(&self, at_ns: u64) {
        self.counts.alarms_set.add_shared(1);
        self.reactor.set_alarm((at_ns != timer_driver::NEVER).then(|| self.clock.to_timespec(at_ns)));
    }

    pub(crate) fn cancelled(&self) -> PoolSet {
        PoolSet::from_bits(self.cancelled.load(Ordering::Acquire))
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Makes threads leave when they find nothing to do. Threads that wait elsewhere for
    /// events are woken.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        self.idle.end();
        self.reactor.ring();
        // A timer armed before this is woken. A thread that arms one afterwards sees, by the lock
        // of timers, that threads leave.
        self.timer_driver.end();
        self.reactor.end();
        self.stand_ins.close();
    }

    /// How long until a timer is due that no thread of the runtime will fire.
    pub(crate) fn unwatched_timer(&self) -> Option<Duration> {
        if !self.is_leaving() {
            return None;
        }
        let next_ns = self.timer_driver.next()?;
        Some(Duration::from_nanos(next_ns.saturating_sub(self.clock.now_ns())))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// All threads have left. Tasks that still come are dropped.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        while self.lanes.drop_all() {}
    }

    /// Whether a thread still has its role.
    pub(crate) fn is_anyone_in(&self) -> bool {
        self.threads_in.load(Ordering::Acquire) > 0
    }

    /// A thread has left its role. The last one ends the runtime.
    pub(crate) fn thread_left(&self) {
        if self.threads_in.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end();
        }
    }

    /// From now on tasks of this pool are dropped instead of run. Those that wait for something are
    /// made runnable for that.
    pub(crate) fn cancel(&self, pool: Pool) {
        self.cancelled.fetch_or(PoolSet::EMPTY.with(pool).bits(), Ordering::AcqRel);
        self.registry.wake(pool);
    }

    /// The last task of a pool is over.
    pub(crate) fn pool_is_empty(&self) {
        if self.stopping.is_set() {
            let _held = self.emptied.lock();
            self.is_emptied.notify_all();
        }
    }

    /// Waits until no task of these pools is left; `false` if the deadline came first.
    pub(crate) fn wait_empty(&self, pools: &[Pool], deadline: Instant) -> bool {
        let mut held = self.emptied.lock();
        let are_left = |_: &mut ()| pools.iter().any(|&pool| self.registry.live(pool) > 0);
        !self.is_emptied.wait_while_until(&mut held, are_left, deadline).timed_out()
    }

    /// `pool` is `None` for a blocking call.
    pub(crate) fn report_panic(&self, pool: Option<Pool>, cause: &(dyn Any + Send)) {
        if let Some(pool) = pool {
            self.counts.panics[pool.index()].add_shared(1);
        }
        if let Some(on_panic) = &self.settings.on_panic {
            // A panic inside `on_panic` is not reported again.
            let report = PanicReport { pool, message: panic_message(cause) };
            let _ = catch_unwind(AssertUnwindSafe(|| on_panic(&report)));
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.threads.iter().for_each(|thread| counters.add_thread(thread));
        counters.add_shared(&self.counts);
        for pool in Pool::ALL {
            let of_pool = &mut counters.pools[pool.index()];
            of_pool.live = self.registry.live(pool);
            of_pool.queued = self.lanes.len(pool);
        }
        (counters.timers, counters.timers_armed, counters.timers_fired) = self.timer_driver.counts();
        counters.sockets = self.reactor.sources();
        (counters.blocking_threads, counters.blocking_calls) = self.blocking.counts();
        counters
    }
}

//! A thread of the runtime: it takes a task, runs it, and does what is due between two tasks.
//!
//! ```text
//!  ┌─► task boundary ──────────────────────────────────────────────┐
//!  │     charge what the last tasks took; is a pool owed its share? │
//!  │     if all threads are busy: take events                      │
//!  │     choose: a pool that is owed > the first pool with a task:  │
//!  │        just woken here > own lane > from outside > of others  │
//!  │     if more tasks wait and a thread sleeps: wake one          │
//!  │   ├─ a task: run it ──────────────────────────────────────────┤
//!  │   └─ none: set the alarm, announce, look once more, sleep ────┘
//!  │        events: sockets, alarm, bell
//!  └────────┘
//! ```
//!
//! **Just woken here.** A task that is woken by the running one is next on this thread if its pool
//! permits. It takes no detour over a lane and wakes no thread, since the running task is mostly
//! about to wait for it. This happens a few times in a row at most, so that two tasks that wake
//! each other do not keep out others of their pool.
//!
//! **Watching.** A client that asks again as soon as it is answered does so some tens of
//! microseconds later. Waking a sleeping thread on another CPU takes most of a round trip, so the
//! client would wait twice as long. Therefore a thread with nothing to do polls for events for up
//! to 80 µs before it sleeps, if the last events came as soon, and yields its CPU after each poll.
//! To the other threads it counts as sleeping and listening: what they do to wake it is an event.
//!
//! **Clock.** Reading it costs as much as running a small task. So it is read when the pool
//! changes, and after as many tasks as take about 20 µs. The time between two readings is charged
//! to the pool that ran. Time in which the thread had no CPU is not charged: the thread's CPU clock
//! is read every 10 ms and tells which part that is.
//!
//! Invariants
//! 1. A thread that has taken a task while a sleeping thread could run another has woken one, or a
//!    wake-up was pending. The same holds for a thread that takes a long task while nobody listens
//!    for events.
//! 2. `next` is empty while a thread sleeps. What it holds when a thread begins a task was woken by
//!    the task before.
//! 3. A thread sleeps only after it has announced it and found no work after that: see `idle`.
//! 4. A thread that runs a batch task, or looks for the task after one, has a batch permit.
//!
//! Not here: the order of pools (`shares`), and how sleeping works (`idle`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use rustix::time::{ClockId, clock_gettime};

use crate::counters::{ACTIVATIONS_A_SAMPLE, ThreadCounts};
use crate::give_way::{self, GiveWay};
use crate::idle::Slept;
use crate::lanes::OwnLanes;
use crate::ping;
use crate::pool::{Pool, PoolSet};
use crate::reactor::Events;
use crate::shared::Shared;
use crate::shares::Shares;
use crate::stand_in::Aside;
use crate::task::Task;

/// So many tasks that are woken by one another run in a row before others of their pool.
const NEXT_IN_A_ROW_MAX: u32 = 3;
/// The clock is read about this often.
const CLOCK_EVERY_NS: u64 = 20_000;
/// Tasks between two readings of the clock.
const CLOCK_TASKS_MAX: u64 = 32;
/// Events are taken this often while nobody sleeps.
const EVENTS_EVERY_NS: u64 = 50_000;
/// The CPU clock is read after so much time at work.
const CPU_EVERY_NS: u64 = 10_000_000;
/// A task is long if it takes more than this: others listen for events meanwhile. Waking a thread
/// on another CPU takes about as long, and the time of the wake-ups that a task causes is part of
/// the task's time.
const LONG_NS: u64 = 100_000;
/// No task counts for more than this in the average: a task that lost its CPU for a while says
/// nothing about the next one.
const LONGEST_NS: u64 = 2 * LONG_NS;
/// A thread with nothing to do polls for events for so long before it sleeps, if the last ones came
/// as soon. Sleeping and being woken takes about as long, on two CPUs.
const WATCH_NS: u64 = 80_000;
/// A poll with a yield that takes longer than this means that another thread wanted the CPU.
const WATCH_ALONE_NS: u64 = 10_000;
/// What watching saves each time that it helps. It has to make up for what it costs in vain: a time
/// slice of some 4 ms where another process wants the CPU, a few µs where an interrupt came between.
///
/// Bug: helping once was enough. Consequence: a client with short pauses beside a busy process lost
/// a time slice every twentieth time. Then helping 128 times was asked for whatever was lost.
/// Consequence: on a machine that stands still for 20 µs now and then, which is nobody's time slice,
/// a single client had a third fewer answers.
const WATCH_SAVES_NS: u64 = 30_000;
/// Something that was in vain is left out twice, and twice as often each further time, up to two to
/// the power of this.
const BACK_OFF_BITS: u32 = 10;
/// A woken thread that has not come after so long may wait for a CPU behind this one.
const WAKE_LATE_NS: u64 = 50_000;
/// A thread that was moved to an idle CPU has come within this time. One behind another process has
/// not.
const MOVED_WITHIN_NS: u64 = 1_000_000;
/// So often, tasks from outside come before the thread's own, because tasks that wake each other
/// may never end.
const OUTSIDE_EVERY_NS: u64 = 100_000;

/// What a thread is, if it belongs to a runtime.
pub(crate) enum Context {
    /// It serves the pools.
    Worker(Rc<Local>),
    /// It has handed over its role, and runs one task until that yields.
    Aside(Rc<Aside>),
    /// It waits for one future in `block_on`.
    Entered(Arc<Shared>),
}

thread_local! {
    static CONTEXT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// Calls `f` with what this thread is. `f` must neither call nor drop anything of users, which
/// could end up here again.
pub(crate) fn with_context<R>(f: impl FnOnce(Option<&Context>) -> R) -> R {
    let mut f = Some(f);
    let called = CONTEXT.try_with(|context| {
        let f = f.take().expect("it is called once");
        f(context.borrow().as_ref())
    });
    match (called, f) {
        (Ok(result), _) => result,
        // The thread is ending, and its thread-local variables are gone.
        (Err(_), Some(f)) => f(None),
        (Err(_), None) => unreachable!("it was not called"),
    }
}

/// Sets what this thread is. Gives what it was.
pub(crate) fn set_context(context: Option<Context>) -> Option<Context> {
    CONTEXT.with(|current| current.replace(context))
}

/// Called when a timer was armed: the alarm is set at the next task boundary, or now if this thread
/// has none.
pub(crate) fn timer_armed(shared: &Arc<Shared>) {
    with_context(|context| match context {
        Some(Context::Worker(local)) if Arc::ptr_eq(&local.shared, shared) && local.running.get().is_some() => {
            local.has_armed.set(true);
        }
        _ => shared.settle_timers(),
    });
}

/// Puts a runnable task where it will be run.
pub(crate) fn schedule(shared: &Arc<Shared>, task: Task, has_yielded: bool) {
    let from_outside = with_context(|context| match context {
        Some(Context::Worker(local)) if Arc::ptr_eq(&local.shared, shared) => {
            local.schedule(task, has_yielded);
            None
        }
        Some(Context::Aside(aside)) if has_yielded && Arc::ptr_eq(&aside.shared, shared) => {
            if let Some(pool) = aside.move_to.take() {
                task.metadata().move_to(pool);
            }
            Some(task)
        }
        _ => Some(task),
    });
    let Some(task) = from_outside else { return };
    if shared.is_over() {
        // Nobody will run it. Dropping it drops its future.
        drop(task);
        return;
    }
    task.metadata().queued_at(shared.clock.now_ns());
    shared.inject(task.metadata().pool(), task);
    fence(Ordering::SeqCst);
    if shared.is_over() {
        // All threads have left meanwhile: drops the task.
        shared.end();
    }
}

/// The state of one thread, which tasks that run on it can reach.
pub(crate) struct Local {
    pub(crate) shared: Arc<Shared>,
    pub(crate) thread: usize,
    /// The lanes of its role; given away when the role is handed over.
    own: RefCell<OwnLanes>,
    /// It has handed over its role, and is no worker any more.
    is_aside: Cell<bool>,
    has_batch_permit: Cell<bool>,
    /// The next task: woken by the running one.
    next: Cell<Option<Task>>,
    /// The pool of the running task.
    running: Cell<Option<Pool>>,
    /// When the running task first asked for its budget; 0 if it has not.
    pub(crate) slice_from_ns: Cell<u64>,
    /// The pool that the running task wants to move to.
    pub(crate) move_to: Cell<Option<Pool>>,
    /// A timer was armed since the alarm was last set.
    pub(crate) has_armed: Cell<bool>,
    /// When a long task yields its CPU next.
    give_way: GiveWay,
    until_sample: Cell<u32>,
}

impl Local {
    fn new(shared: Arc<Shared>, thread: usize, own: OwnLanes) -> Self {
        Self {
            shared,
            thread,
            own: RefCell::new(own),
            is_aside: Cell::default(),
            has_batch_permit: Cell::default(),
            next: Cell::default(),
            running: Cell::default(),
            slice_from_ns: Cell::default(),
            move_to: Cell::default(),
            has_armed: Cell::default(),
            give_way: GiveWay::default(),
            until_sample: Cell::default(),
        }
    }

    pub(crate) fn counts(&self) -> &ThreadCounts {
        &self.shared.threads[self.thread]
    }

    /// The pool of the running task.
    pub(crate) fn running(&self) -> Option<Pool> {
        self.running.get()
    }

    fn schedule(&self, task: Task, has_yielded: bool) {
        if has_yielded && let Some(pool) = self.move_to.take() {
            task.metadata().move_to(pool);
        }
        let pool = task.metadata().pool();
        self.sample(&task);
        let is_short = |pool| pool != Pool::Batch;
        match self.running.get() {
            // No task runs: this thread takes events, and the first task that an event wakes is
            // next. Others are woken at the task boundary, if there is enough for them.
            None => match self.next.take() {
                None => self.next.set(Some(task)),
                first => {
                    self.next.set(first);
                    self.push(task);
                }
            },
            _ if has_yielded => self.push(task),
            Some(running) if is_short(running) && is_short(pool) => {
                if let Some(displaced) = self.next.replace(Some(task)) {
                    self.push(displaced);
                    self.wake_one();
                }
            }
            Some(_) => {
                self.push(task);
                // The running task may be long, so a thread that falls asleep at this moment must
                // be seen.
                self.shared.wake_one();
            }
        }
    }

    fn push(&self, task: Task) {
        self.shared.lanes.push(&self.own.borrow(), task.metadata().pool(), task);
    }

    /// Wakes a thread if one sleeps, to take what this one has put into its lanes. Otherwise this
    /// thread takes it itself, so checking for sleepers without a fence is enough.
    fn wake_one(&self) {
        if self.shared.idle.has_sleeper() {
            self.shared.wake_one();
        }
    }

    /// The running task takes long: leaves to other threads what would be next here, and the
    /// events.
    pub(crate) fn leave_work_to_others(&self) {
        let idle = &self.shared.idle;
        if !idle.has_sleeper() {
            return;
        }
        let next = self.next.take();
        if next.is_some() || !idle.has_listener() {
            next.into_iter().for_each(|task| self.push(task));
            self.wake_one();
        }
    }

    /// Whether no task waits and another thread sleeps, which then listens for events.
    pub(crate) fn may_block_briefly(&self) -> bool {
        let is_free = self.running.get().is_some()
            && self.shared.idle.has_sleeper()
            && self.next_pool().is_none()
            && self.shared.lanes.waiting().is_empty();
        if is_free {
            self.leave_work_to_others();
        }
        is_free
    }

    /// Hands over this thread's role in the middle of a task that does not yield, so that another
    /// thread is the worker. `false` if no thread can be had.
    fn hand_over(self: &Rc<Self>) -> bool {
        let shared = &self.shared;
        self.next.take().into_iter().for_each(|task| self.push(task));
        if self.has_armed.take() {
            shared.settle_timers();
        }
        let role = self.own.replace(OwnLanes::none());
        if let Some(role) = shared.stand_ins.hand_over(shared, role) {
            self.own.replace(role);
            return false;
        }
        self.is_aside.set(true);
        if self.has_batch_permit.take() {
            shared.batch.release();
            shared.wake_one();
        }
        shared.counts.handed_over.add_shared(1);
        true
    }

    /// Puts the next task where other threads see it, as this thread may run something else first,
    /// or sleep.
    fn publish_next(&self) {
        if let Some(task) = self.next.take() {
            self.push(task);
            self.wake_one();
        }
    }

    /// Yields the CPU to threads of any process, if that is due. Gives for how long the CPU was
    /// lost, in ns.
    pub(crate) fn yield_cpu(&self, now_ns: u64) -> u64 {
        if !self.give_way.is_due(now_ns) {
            return 0;
        }
        self.counts().gave_way.add(1);
        self.give_way.yield_cpu(&self.shared, now_ns)
    }

    /// Whether a task of a pool above `pool` waits.
    pub(crate) fn waits_above(&self, pool: Pool) -> bool {
        Pool::ALL[..pool.index()].iter().any(|&above| self.shared.lanes.waits(above))
            || self.next_pool().is_some_and(|next| next < pool)
    }

    /// Whether the current step has used up the task's slice while all other threads are at work,
    /// so that nobody takes events and other tasks.
    fn is_slice_over(&self) -> bool {
        self.leave_work_to_others();
        let now_ns = self.shared.clock.now_ns();
        if self.slice_from_ns.get() == 0 {
            self.slice_from_ns.set(now_ns);
        }
        let ran_ns = now_ns - self.slice_from_ns.get();
        if self.running.get() == Some(Pool::Batch) || ran_ns >= self.shared.settings.slice_ns {
            self.yield_cpu(now_ns);
        }
        ran_ns >= self.shared.settings.slice_ns && !self.shared.idle.has_sleeper()
    }

    fn next_pool(&self) -> Option<Pool> {
        let task = self.next.take()?;
        let pool = task.metadata().pool();
        self.next.set(Some(task));
        Some(pool)
    }

    fn sample(&self, task: &Task) {
        match self.until_sample.get().checked_sub(1) {
            Some(left) => self.until_sample.set(left),
            None => {
                self.until_sample.set(ACTIVATIONS_A_SAMPLE - 1);
                task.metadata().queued_at(self.shared.clock.now_ns());
            }
        }
    }
}

/// For a task in the middle of a long step that cannot yield: lets others run, by yielding the CPU
/// or by handing over this thread's role.
pub(crate) fn in_long_step() {
    in_running_task(Local::is_slice_over);
}

/// For a task before a call that takes long: as [`in_long_step`], but at once and not at the end of
/// the slice.
pub(crate) fn before_long_call() {
    in_running_task(|local| !local.shared.idle.has_sleeper());
}

fn in_running_task(hands_over: impl FnOnce(&Local) -> bool) {
    enum Then {
        Nothing,
        HandOver(Rc<Local>),
        YieldCpu(Rc<Aside>),
        Yield(Arc<Shared>),
    }
    // These steps may replace the context, so they are done outside of it.
    let then = with_context(|context| match context {
        Some(Context::Worker(local)) if local.running.get().is_some() => match hands_over(local) {
            true => Then::HandOver(Rc::clone(local)),
            false => Then::Nothing,
        },
        Some(Context::Aside(aside)) => Then::YieldCpu(Rc::clone(aside)),
        Some(Context::Entered(shared)) => Then::Yield(Arc::clone(shared)),
        _ => Then::Nothing,
    });
    match then {
        Then::Nothing => {}
        Then::HandOver(local) => {
            if local.hand_over() {
                set_context(Some(Context::Aside(Rc::new(Aside::new(Arc::clone(&local.shared))))));
            }
        }
        Then::YieldCpu(aside) => aside.yield_cpu(),
        Then::Yield(shared) => give_way::without_role(&shared),
    }
}

/// How a thread's work in a role ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The runtime ended.
    Left,
    /// Another thread has the role.
    HandedOver,
}

/// Runs a thread of the runtime: in this role, and in other roles after it has handed over the last
/// one.
pub(crate) fn serve(shared: &Arc<Shared>, role: OwnLanes) {
    let mut role = Some(role);
    while let Some(own) = role {
        match run(Arc::clone(shared), own) {
            Ended::Left => return,
            Ended::HandedOver => role = shared.stand_ins.wait(),
        }
    }
}

/// Runs one role, until it is handed over or the runtime ends.
pub(crate) fn run(shared: Arc<Shared>, own: OwnLanes) -> Ended {
    let thread = own.thread();
    shared.placement.begins(thread);
    let local = Rc::new(Local::new(shared, thread, own));
    set_context(Some(Context::Worker(Rc::clone(&local))));
    let ended = Worker::new(Rc::clone(&local)).work();
    set_context(None);
    if ended == Ended::Left {
        local.shared.thread_left();
    }
    ended
}

/// Which tasks ran since the clock was last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    pool: Pool,
    out_of_turn: bool,
}

struct Worker {
    local: Rc<Local>,
    events: Events,
    shares: Shares,
    turn: Turn,
    /// Tasks run since the clock was last read.
    tasks: u64,
    /// Tasks until it is read again.
    tasks_left: u64,
    now_ns: u64,
    events_ns: u64,
    /// Since when a wake-up is pending; 0 if none is.
    wake_pending_since_ns: u64,
    /// When other threads were moved to other CPUs; 0 once it is known whether that helped.
    moved_ns: u64,
    move_back_off: BackOff,
    /// What a task has taken lately, on average.
    apiece_ns: u64,
    cpu: CpuClock,
    /// How long this thread waited for the last events.
    waited_ns: u64,
    watch_back_off: BackOff,
    owes: bool,
    next_in_a_row: u32,
    /// When tasks from outside were last preferred, and whether they are now.
    outside_ns: u64,
    outside_first: bool,
    /// Time at work since the last ping.
    unpinged_ns: u64,
    /// Pings sent.
    pinged: usize,
}

impl Worker {
    fn new(local: Rc<Local>) -> Self {
        let (now_ns, share) = (local.shared.clock.now_ns(), local.shared.settings.share);
        Self {
            local,
            events: Events::new(),
            shares: Shares::new(share),
            turn: Turn { pool: Pool::User, out_of_turn: false },
            tasks: 0,
            tasks_left: 1,
            now_ns,
            events_ns: now_ns,
            wake_pending_since_ns: 0,
            moved_ns: 0,
            move_back_off: BackOff::default(),
            apiece_ns: 0,
            cpu: CpuClock::new(),
            waited_ns: u64::MAX,
            watch_back_off: BackOff::default(),
            owes: false,
            next_in_a_row: 0,
            outside_ns: now_ns,
            outside_first: false,
            unpinged_ns: 0,
            pinged: 0,
        }
    }

    fn shared(&self) -> &Shared {
        &self.local.shared
    }

    fn work(&mut self) -> Ended {
        loop {
            // Read before looking for a task: tasks that were put before the end are run.
            let is_leaving = self.shared().is_leaving();
            match self.choose() {
                Some((task, out_of_turn)) => {
                    self.run(task, out_of_turn);
                    if self.local.is_aside.get() {
                        self.charge_aside();
                        return Ended::HandedOver;
                    }
                }
                None if is_leaving => break,
                None => self.sleep(),
            }
        }
        // Wakes the next thread, so that it leaves, too.
        self.shared().reactor.ring();
        Ended::Left
    }

    /// Counts what ran since the clock was last read as work of a thread without a role.
    fn charge_aside(&mut self) {
        let wall_ns = self.shared().clock.now_ns().saturating_sub(self.now_ns);
        let cpu_ns = self.cpu.since_ns().min(wall_ns);
        let counts = &self.shared().counts.aside[self.turn.pool.index()];
        counts.polls.add_shared(self.tasks);
        counts.cpu_ns.add_shared(cpu_ns);
    }

    /// The task boundary: does what is due, and chooses the next task.
    fn choose(&mut self) -> Option<(Task, bool)> {
        if self.tasks_left == 0 {
            self.read_clock();
        }
        self.look_around();
        if self.local.has_armed.take() {
            self.shared().settle_timers();
        }
        let outside_first = std::mem::take(&mut self.outside_first);
        let chosen = match self.owes.then(|| self.choose_owed(outside_first)).flatten() {
            Some(task) => {
                // The task that is owed may take long, and another thread can run the next one.
                self.local.publish_next();
                Some((task, true))
            }
            None => self.choose_first(outside_first).map(|task| (task, false)),
        };
        let keeps_permit = chosen.as_ref().is_some_and(|(task, _)| task.metadata().pool() == Pool::Batch);
        if self.local.has_batch_permit.get() && !keeps_permit {
            self.local.has_batch_permit.set(false);
            self.shared().batch.release();
        }
        if let Some((task, _)) = &chosen {
            let meta = task.metadata();
            let is_long = !meta.is_brief() && (self.apiece_ns > LONG_NS || meta.pool() == Pool::Batch);
            if is_long {
                // This thread will not look for a while, so a thread that falls asleep now must be
                // seen.
                fence(Ordering::SeqCst);
            }
            let idle = &self.shared().idle;
            if idle.has_sleeper() && (is_long && !idle.has_listener() || !self.for_sleepers().is_empty()) {
                self.shared().wake_one();
            }
        }
        chosen
    }

    /// The pools with a task that a sleeping thread could run.
    fn for_sleepers(&self) -> PoolSet {
        self.with_permits(self.shared().batch.is_free())
    }

    /// The pools with a task that this thread could run.
    fn for_this(&self) -> PoolSet {
        self.with_permits(self.local.has_batch_permit.get() || self.shared().batch.is_free())
    }

    fn with_permits(&self, batch_may: bool) -> PoolSet {
        let waiting = self.shared().lanes.waiting();
        // Dropping a cancelled task takes no permit.
        match batch_may || self.shared().cancelled().contains(Pool::Batch) {
            true => waiting,
            false => waiting.without(Pool::Batch),
        }
    }

    /// A task of the pool that is owed most.
    fn choose_owed(&mut self, outside_first: bool) -> Option<Task> {
        let pool = self.shares.most_owed(self.for_this())?;
        self.take(pool, outside_first)
    }

    fn choose_first(&mut self, outside_first: bool) -> Option<Task> {
        let next = self.local.next.take();
        let next = match self.next_in_a_row {
            NEXT_IN_A_ROW_MAX => {
                self.next_in_a_row = 0;
                if let Some(next) = next {
                    self.local.push(next);
                }
                None
            }
            _ => next,
        };
        // A batch task needs a permit like any other, and tasks from outside may have to come
        // first.
        let next = match next {
            Some(next) if next.metadata().pool() == Pool::Batch || outside_first => {
                self.local.push(next);
                None
            }
            next => next,
        };
        let next_pool = next.as_ref().map(|task| task.metadata().pool());
        for pool in Pool::ALL {
            if next_pool == Some(pool) {
                self.next_in_a_row += 1;
                return next;
            }
            if let Some(task) = self.take(pool, outside_first) {
                self.next_in_a_row = 0;
                // There, other threads can take it.
                next.into_iter().for_each(|next| self.local.push(next));
                return Some(task);
            }
        }
        None
    }

    fn take(&mut self, pool: Pool, outside_first: bool) -> Option<Task> {
        let shared = &self.local.shared;
        let own = self.local.own.borrow();
        if pool != Pool::Batch || self.local.has_batch_permit.get() || shared.cancelled().contains(pool) {
            return shared.lanes.take(&own, pool, outside_first);
        }
        if !shared.lanes.waits(pool) || !shared.batch.acquire() {
            return None;
        }
        let task = shared.lanes.take(&own, pool, outside_first);
        match task {
            Some(_) => self.local.has_batch_permit.set(true),
            None => shared.batch.release(),
        }
        task
    }

    fn run(&mut self, task: Task, out_of_turn: bool) {
        let pool = task.metadata().pool();
        let turn = Turn { pool, out_of_turn };
        if turn != self.turn {
            if self.tasks > 0 {
                self.read_clock();
            }
            self.turn = turn;
        }
        let local = &self.local;
        if let Some(queued_ns) = task.metadata().take_queued() {
            let waited_ns = local.shared.clock.now_ns().saturating_sub(queued_ns);
            local.counts().pools[pool.index()].activation.record(waited_ns);
        }
        if local.shared.cancelled().contains(task.metadata().spawned_in()) {
            drop(task);
        } else {
            local.running.set(Some(pool));
            local.slice_from_ns.set(0);
            local.move_to.set(None);
            task.run();
            local.running.set(None);
        }
        self.tasks += 1;
        self.tasks_left = self.tasks_left.saturating_sub(1);
    }

    /// Reads the clock, charges what ran, and notes what is due by time.
    fn read_clock(&mut self) {
        let now_ns = self.shared().clock.now_ns();
        let wall_ns = now_ns.saturating_sub(self.now_ns);
        let Turn { pool, out_of_turn } = self.turn;
        let cpu_ns = self.cpu.part_of(wall_ns);
        let waiting = self.shared().lanes.waiting();
        self.shares.charge(pool, out_of_turn, cpu_ns, waiting);
        self.owes = self.shares.most_owed(self.for_this()).is_some();
        let counts = &self.local.counts().pools[pool.index()];
        counts.polls.add(self.tasks);
        counts.cpu_ns.add(cpu_ns);
        if out_of_turn {
            counts.out_of_turn.add(self.tasks);
        }
        // A pool that is behind must be noticed at the next task, and batch tasks are long.
        let is_alone = waiting.without(pool).is_empty();
        let apiece_ns = wall_ns / self.tasks.max(1) + 1;
        self.apiece_ns = (self.apiece_ns * 7 + apiece_ns.min(LONGEST_NS)) / 8;
        self.tasks_left = match pool == Pool::Batch || out_of_turn {
            true => 1,
            false if is_alone => (CLOCK_EVERY_NS / apiece_ns).clamp(1, CLOCK_TASKS_MAX),
            false => (CLOCK_EVERY_NS / 2 / apiece_ns).clamp(1, CLOCK_TASKS_MAX),
        };
        self.tasks = 0;
        self.now_ns = now_ns;
        self.unpinged_ns += wall_ns;
        if now_ns.saturating_sub(self.outside_ns) >= OUTSIDE_EVERY_NS {
            self.outside_ns = now_ns;
            self.outside_first = true;
        }
    }

    /// Takes events if that was not done lately and nobody waits for them, and sends a ping if it
    /// is time. This comes before the choice of a task, because it may bring more tasks than this
    /// thread can run, for which another has to be woken.
    fn look_around(&mut self) {
        if self.now_ns.saturating_sub(self.events_ns) >= EVENTS_EVERY_NS {
            self.events_ns = self.now_ns;
            if !self.shared().idle.has_listener() {
                self.listen(false);
            }
        }
        self.move_late_thread();
        if let Some(every_ns) = self.shared().settings.ping_ns {
            let pools = Pool::ALL.len();
            let apart_ns = every_ns / pools as u64;
            if self.unpinged_ns >= apart_ns {
                // After a long task each pool gets one ping, and no more.
                self.unpinged_ns = (self.unpinged_ns - apart_ns).min(every_ns);
                self.pinged += 1;
                ping::send(&self.local.shared, self.local.thread, Pool::ALL[self.pinged % pools]);
            }
        }
    }

    /// Moves a woken thread that does not come: it may have been woken on this CPU while another
    /// CPU is idle. If it does not come from there at once either, the other CPUs are busy, and
    /// moving is left out for a while.
    fn move_late_thread(&mut self) {
        let is_pending = self.shared().idle.is_wake_pending();
        if self.moved_ns != 0 {
            let is_soon = self.now_ns.saturating_sub(self.moved_ns) <= MOVED_WITHIN_NS;
            if is_pending && is_soon {
                return;
            }
            match is_soon {
                true => self.move_back_off.helped(),
                false => self.move_back_off.was_in_vain(1),
            }
            (self.moved_ns, self.wake_pending_since_ns) = (0, 0);
        }
        if !is_pending {
            self.wake_pending_since_ns = 0;
        } else if self.wake_pending_since_ns == 0 {
            self.wake_pending_since_ns = self.now_ns;
        } else if self.now_ns.saturating_sub(self.wake_pending_since_ns) >= WAKE_LATE_NS {
            self.wake_pending_since_ns = 0;
            if !self.move_back_off.skip() {
                let moved = self.shared().placement.move_others_away();
                self.local.counts().moved.add(moved as u64);
                self.moved_ns = if moved > 0 { self.now_ns } else { 0 };
            }
        }
    }

    /// Takes events and handles them, but runs no task. To `sleep` until there are some, the thread
    /// has announced itself to `idle`, and is awake afterwards.
    fn listen(&mut self, sleep: bool) {
        let watched = sleep && self.watch();
        let shared = &self.local.shared;
        if !watched {
            shared.reactor.wait(&mut self.events, sleep);
        }
        if sleep {
            shared.idle.stop_listening();
        }
        let heard = shared.reactor.dispatch(&mut self.events);
        if heard.bell {
            shared.idle.woke();
            self.local.counts().called.add(1);
        }
        if heard.alarm {
            shared.fire_timers();
        }
    }

    /// Polls for events until there are some. Gives up if the last events did not come soon either,
    /// after as long as sleeping would take, and when another thread wants the CPU. Gives whether
    /// there are events.
    fn watch(&mut self) -> bool {
        if self.waited_ns > WATCH_NS || self.shared().settings.threads == 1 || self.watch_back_off.skip() {
            return false;
        }
        let begun_ns = self.shared().clock.now_ns();
        let mut looked_ns = begun_ns;
        loop {
            self.local.shared.reactor.wait(&mut self.events, false);
            if !self.events.is_empty() {
                self.watch_back_off.helped();
                self.local.counts().watched.add(1);
                return true;
            }
            std::thread::yield_now();
            let now_ns = self.shared().clock.now_ns();
            let away_ns = now_ns - looked_ns;
            if away_ns > WATCH_ALONE_NS {
                self.watch_back_off.was_in_vain(away_ns / WATCH_SAVES_NS);
                return false;
            }
            if now_ns - begun_ns > WATCH_NS {
                return false;
            }
            looked_ns = now_ns;
        }
    }

    fn sleep(&mut self) {
        if self.tasks > 0 {
            self.read_clock();
        }
        self.shared().postpone_alarm(self.now_ns);
        self.shared().idle.announce();
        if self.for_sleepers().is_empty() && !self.shared().is_leaving() {
            self.shared().placement.sleeps(self.local.thread);
            let slept = self.shared().idle.sleep(self.apiece_ns <= LONG_NS);
            match slept {
                Slept::Listen => self.listen(true),
                Slept::Unparked => self.local.counts().called.add(1),
            }
            self.shared().placement.wakes(self.local.thread);
            let counts = self.local.counts();
            let now_ns = self.shared().clock.now_ns();
            let slept_ns = now_ns.saturating_sub(self.now_ns);
            counts.parked_ns.add(slept_ns);
            if slept == Slept::Listen {
                self.waited_ns = slept_ns;
            }
            counts.wake_ups.add(1);
            self.now_ns = now_ns;
            self.events_ns = now_ns;
        } else {
            self.shared().idle.cancel();
        }
        self.tasks_left = self.tasks_left.max(1);
    }
}

/// How often something is left out that was in vain. The storage has the like for its own purpose
/// (`log::BackOff`); the two crates know nothing of each other.
#[derive(Debug, Default)]
struct BackOff {
    left: u32,
    bits: u32,
    /// How often it still has to help until that is made up for.
    owed: u64,
}

impl BackOff {
    /// Whether to leave it out this time.
    fn skip(&mut self) -> bool {
        let skip = self.left > 0;
        self.left = self.left.saturating_sub(1);
        skip
    }

    /// It was in vain, and cost as much as helping so many times saves.
    fn was_in_vain(&mut self, costs: u64) {
        self.bits = (self.bits + 1).min(BACK_OFF_BITS);
        self.left = 1 << self.bits;
        self.owed = self.owed.max(costs);
    }

    /// It helped. When that has made up for what was in vain, this is forgotten.
    fn helped(&mut self) {
        self.owed = self.owed.saturating_sub(1);
        if self.owed == 0 {
            self.bits = 0;
        }
    }
}

/// For which part of its time at work this thread had a CPU.
#[derive(Debug)]
struct CpuClock {
    wall_ns: u64,
    cpu_from_ns: u64,
    /// In parts of 1024, over the last 10 ms at work.
    part: u64,
}

impl CpuClock {
    fn new() -> Self {
        Self { wall_ns: 0, cpu_from_ns: thread_cpu_ns(), part: 1024 }
    }

    /// The CPU time since the clock was last read.
    fn since_ns(&self) -> u64 {
        thread_cpu_ns().saturating_sub(self.cpu_from_ns)
    }

    /// The CPU time of the last `wall_ns` at work.
    fn part_of(&mut self, wall_ns: u64) -> u64 {
        self.wall_ns += wall_ns;
        if self.wall_ns >= CPU_EVERY_NS {
            let cpu_ns = thread_cpu_ns();
            self.part = (cpu_ns.saturating_sub(self.cpu_from_ns) * 1024 / self.wall_ns).min(1024);
            self.cpu_from_ns = cpu_ns;
            self.wall_ns = 0;
        }
        wall_ns.saturating_mul(self.part) / 1024
    }
}

fn thread_cpu_ns() -> u64 {
    let at = clock_gettime(ClockId::ThreadCPUTime);
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::BackOff;

    /// What a time slice costs, in what watching saves.
    const TIME_SLICE: u64 = 128;

    /// Tries what helps but for each `vain`-th time; how often it was tried, and how often in vain.
    fn tries(back_off: &mut BackOff, vain: u32, costs: u64) -> (u32, u32) {
        let (mut tried, mut in_vain) = (0, 0);
        for _ in 0..100_000 {
            if back_off.skip() {
                continue;
            }
            tried += 1;
            if tried % vain == 0 {
                in_vain += 1;
                back_off.was_in_vain(costs);
            } else {
                back_off.helped();
            }
        }
        (tried, in_vain)
    }

    #[test]
    fn watching_that_is_in_vain_now_and_then_is_left_out_until_it_helps_again() {
        for vain in [1, 4, 20, 100] {
            let mut back_off = BackOff::default();
            let (_, in_vain) = tries(&mut back_off, vain, TIME_SLICE);
            assert!(in_vain < 120, "one in {vain} is in vain: {in_vain}");
            let (tried, _) = tries(&mut back_off, u32::MAX, TIME_SLICE);
            assert!(tried > 95_000, "it helps again: {tried}");
        }
        let (tried, in_vain) = tries(&mut BackOff::default(), 10_000, TIME_SLICE);
        assert!(tried > 99_000 && in_vain <= 10, "a rare exception changes little: {tried}, {in_vain}");
    }

    #[test]
    fn watching_goes_on_where_it_costs_next_to_nothing_in_vain() {
        let (tried, in_vain) = tries(&mut BackOff::default(), 20, 0);
        assert!(tried > 85_000 && in_vain > 4_000, "tried {tried} times, {in_vain} of them in vain");
    }
}

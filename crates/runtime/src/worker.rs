//! A thread of the runtime: it takes a task, runs it, and looks around.
//!
//! ```text
//!  ┌─► task boundary ──────────────────────────────────────────────┐
//!  │     what did the last tasks take? whom is a share owed?       │
//!  │     all threads busy: are there events?                       │
//!  │     a pool that is owed > the first pool of which a task waits: │
//!  │        just woken here > own lane > from outside > of others  │
//!  │     more waits, and somebody sleeps: call                     │
//!  │   ├─ a task: run it ──────────────────────────────────────────┤
//!  │   └─ none: set the alarm, say so, look once more, sleep ──────┘
//!  │        events: sockets, alarm, bell
//!  └────────┘
//! ```
//!
//! **Just woken here.** A task woken by the one that runs is next on this thread if its pool permits, without a detour over a
//! lane and without waking anybody: most of the time the running one is about to wait for it. At most so many times in a row, so
//! that two tasks that wake each other do not keep out others of their pool.
//!
//! **Watching.** A client that asks again as soon as it is answered does so some tens of microseconds later. If a thread slept meanwhile, the
//! client would wait twice as long as it takes to answer, since waking a thread on another CPU is most of a round trip. So who has
//! nothing to do goes on looking for a while, if the last wait was as short, and offers its CPU to others with each look. To all
//! others it sleeps: what they do to wake it is an event.
//!
//! **Clock.** Reading it costs as much as running a small task, so it is read when the pool changes and after so many tasks as
//! about 20 µs take; the time between two readings goes to the pool that ran. What the thread did not get of the CPU is left out:
//! the thread's CPU clock is asked every 10 ms for the part it got.
//!
//! Invariants
//! - A thread that has taken a task while another could be run by a sleeper has called one, or one was called already; and so has
//!   one that takes a long task while nobody listens to events.
//! - `next` is empty while a thread sleeps, and what it holds when a thread begins a task was woken by the one before.
//! - A thread sleeps only after it has said so and found nothing after that: see `idle`.
//! - While a thread runs a batch task, or looks for the task after one, it has a permit.
//!
//! Not here: the order of pools (`shares`), and how sleeping works (`idle`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use rustix::time::{ClockId, clock_gettime};

use crate::counters::{ACTIVATIONS_A_SAMPLE, ThreadCounts};
use crate::idle::Rest;
use crate::lanes::OwnLanes;
use crate::ping;
use crate::pool::{Pool, PoolSet};
use crate::reactor::Events;
use crate::shared::Shared;
use crate::shares::Shares;
use crate::stand_in::Aside;
use crate::task::Task;

/// Tasks woken by one another that are run before others of their pool.
const NEXT_IN_A_ROW_MAX: u32 = 3;
/// The clock is read about so often.
const CLOCK_EVERY_NS: u64 = 20_000;
/// Tasks between two readings of the clock.
const CLOCK_TASKS_MAX: u64 = 32;
/// Events are asked for so often while nobody sleeps.
const EVENTS_EVERY_NS: u64 = 50_000;
/// The CPU clock is read after so much time at work.
const CPU_EVERY_NS: u64 = 10_000_000;
/// A task of more than this is long: others listen to events meanwhile. Waking a thread on another CPU takes about as long,
/// and what a task's own wake-ups cost is in its time.
const LONG_NS: u64 = 100_000;
/// A long task gives way to other threads so often, if not less.
const GIVE_WAY_EVERY_NS: u64 = 50_000;
/// No task counts for more among those lately: one that has lost its CPU for a while says nothing of the next.
const LONGEST_NS: u64 = 2 * LONG_NS;
/// Who has nothing to do watches for events for so long before it sleeps, if the last ones came as soon. To sleep and be woken
/// takes about as long, on two CPUs.
const WATCH_NS: u64 = 80_000;
/// If a look for events takes longer, with an offer of the CPU to others, then these wanted it.
const WATCH_ALONE_NS: u64 = 10_000;
/// What was of no use is left out twice, and twice as often each time, up to two to this power.
const PAUSE_BITS: u32 = 10;
/// A thread that was called and has not come after so long may wait for a CPU behind this one.
const UNHEARD_NS: u64 = 50_000;
/// One that was moved to an idle CPU has come by then, as far as this thread sees; one behind another process has not.
const COMES_WITHIN_NS: u64 = 1_000_000;
/// Tasks from outside come before a thread's own so often: own ones that follow each other may have no end.
const OUTSIDE_EVERY_NS: u64 = 100_000;

/// What a thread is, while it is one of a runtime.
pub(crate) enum Context {
    /// It serves the pools.
    Worker(Rc<Local>),
    /// It has handed over its role, and runs one task until that yields.
    Aside(Rc<Aside>),
    /// It waits for one future.
    Entered(Arc<Shared>),
}

thread_local! {
    static CONTEXT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// Calls `f` with what this thread is. `f` runs no code of users, and drops nothing of theirs: it could ask to be something else.
pub(crate) fn with_context<R>(f: impl FnOnce(Option<&Context>) -> R) -> R {
    let mut f = Some(f);
    let called = CONTEXT.try_with(|context| {
        let f = f.take().expect("it is called once");
        f(context.borrow().as_ref())
    });
    match (called, f) {
        (Ok(result), _) => result,
        // The thread is about to end, and its variables have.
        (Err(_), Some(f)) => f(None),
        (Err(_), None) => unreachable!("it was not called"),
    }
}

/// Makes this thread something else, and gives what it was.
pub(crate) fn set_context(context: Option<Context>) -> Option<Context> {
    CONTEXT.with(|current| current.replace(context))
}

/// A timer was armed: the alarm is set at the task boundary, or now if this thread has none.
pub(crate) fn timer_armed(shared: &Arc<Shared>) {
    with_context(|context| match context {
        Some(Context::Worker(local)) if Arc::ptr_eq(&local.shared, shared) && local.running.get().is_some() => {
            local.has_armed.set(true);
        }
        _ => shared.settle_timers(),
    });
}

/// Puts a task that can go on where it will be run.
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
        // Nobody will run it; without its future it holds on to nothing.
        drop(task);
        return;
    }
    task.metadata().queued_at(shared.clock.now_ns());
    shared.inject(task.metadata().pool(), task);
    fence(Ordering::SeqCst);
    if shared.is_over() {
        // All threads have left meanwhile.
        shared.end();
    }
}

/// What a thread has for itself, and what tasks that run on it reach.
pub(crate) struct Local {
    pub(crate) shared: Arc<Shared>,
    pub(crate) thread: usize,
    /// Taken away when the role is handed over.
    own: RefCell<OwnLanes>,
    /// It has handed over its role, and is no worker any more.
    is_aside: Cell<bool>,
    has_batch_permit: Cell<bool>,
    /// Woken by the task that runs, and next.
    next: Cell<Option<Task>>,
    /// The pool of the task that runs.
    running: Cell<Option<Pool>>,
    /// When the running task first asked for its budget; 0 if it has not.
    pub(crate) slice_from_ns: Cell<u64>,
    /// Where the running task wants to go on.
    pub(crate) move_to: Cell<Option<Pool>>,
    /// A timer was armed since the alarm was last looked at.
    pub(crate) has_armed: Cell<bool>,
    /// When a long task is to give way next.
    give_way_ns: Cell<u64>,
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
            give_way_ns: Cell::default(),
            until_sample: Cell::default(),
        }
    }

    pub(crate) fn counts(&self) -> &ThreadCounts {
        &self.shared.threads[self.thread]
    }

    /// The pool of the task that runs.
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
            // Nothing runs: this thread takes events, and the first that one wakes is next. It calls others at the task boundary,
            // if there is enough for them.
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
                    self.call();
                }
            }
            Some(_) => {
                self.push(task);
                // What runs here may be long: who falls asleep at this moment has to be seen.
                self.shared.call();
            }
        }
    }

    fn push(&self, task: Task) {
        self.shared.lanes.push(&self.own.borrow(), task.metadata().pool(), task);
    }

    /// Wakes a thread if one sleeps, to take what this one has put into its lanes. This one takes it otherwise, so it is enough
    /// to look whether somebody sleeps without a fence.
    fn call(&self) {
        if self.shared.idle.is_anyone() {
            self.shared.call();
        }
    }

    /// The running task takes longer: what would be next here is for others now, and so are events.
    pub(crate) fn take_longer(&self) {
        let idle = &self.shared.idle;
        if !idle.is_anyone() {
            return;
        }
        let next = self.next.take();
        if next.is_some() || !idle.is_listened() {
            next.into_iter().for_each(|task| self.push(task));
            self.call();
        }
    }

    /// Lets another thread be the worker that this one is, in the middle of a task that does not yield. Answers whether it
    /// is so now: it is not if no thread can be had.
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
            shared.batch.give_back();
            shared.call();
        }
        shared.counts.handed_over.add_shared(1);
        true
    }

    /// What came while no task ran is where others see it, as this thread may run something else first, or sleep.
    fn show_next(&self) {
        if let Some(task) = self.next.take() {
            self.push(task);
            self.call();
        }
    }

    /// Lets whoever else wants this CPU have it, of all processes, if that was some time ago. To the kernel, a thread at work on
    /// something long is as good as one that owes an answer, and would keep it waiting for the rest of its slice. Gives for how
    /// long, in ns.
    pub(crate) fn give_way(&self, now_ns: u64) -> u64 {
        if now_ns < self.give_way_ns.get() {
            return 0;
        }
        self.counts().gave_way.add(1);
        std::thread::yield_now();
        let back_ns = self.shared.clock.now_ns();
        // Those who never sleep get four times of what this thread has, and not all there is.
        self.give_way_ns.set(back_ns + GIVE_WAY_EVERY_NS.max((back_ns - now_ns) / 4));
        back_ns - now_ns
    }

    /// Whether a task of a pool above `pool` waits.
    pub(crate) fn waits_above(&self, pool: Pool) -> bool {
        Pool::ALL[..pool.index()].iter().any(|&above| self.shared.lanes.waits(above))
            || self.next_pool().is_some_and(|next| next < pool)
    }

    /// Whether the step at hand has used up the task's slice while all other threads are at work, so that nobody serves events and
    /// other tasks.
    fn is_long_step_over(&self) -> bool {
        self.take_longer();
        let now_ns = self.shared.clock.now_ns();
        if self.slice_from_ns.get() == 0 {
            self.slice_from_ns.set(now_ns);
        }
        let ran_ns = now_ns - self.slice_from_ns.get();
        if self.running.get() == Some(Pool::Batch) || ran_ns >= self.shared.settings.slice_ns {
            self.give_way(now_ns);
        }
        ran_ns >= self.shared.settings.slice_ns && !self.shared.idle.is_anyone()
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

/// In the middle of a long step of a task, which cannot yield: lets others run, on this thread's CPU or as the worker that this
/// thread is.
pub(crate) fn in_long_step() {
    goes_on(Local::is_long_step_over);
}

/// Before a part of a task's step that takes long: as [`in_long_step`], but does not wait for the
/// end of the slice.
pub(crate) fn before_long_call() {
    goes_on(|local| !local.shared.idle.is_anyone());
}

fn goes_on(hands_over: impl FnOnce(&Local) -> bool) {
    enum Then {
        Nothing,
        HandOver(Rc<Local>),
        GiveWay(Rc<Aside>),
        Yield,
    }
    // What is next may replace the context, so it is done outside of it.
    let then = with_context(|context| match context {
        Some(Context::Worker(local)) if local.running.get().is_some() => match hands_over(local) {
            true => Then::HandOver(Rc::clone(local)),
            false => Then::Nothing,
        },
        Some(Context::Aside(aside)) => Then::GiveWay(Rc::clone(aside)),
        Some(Context::Entered(_)) => Then::Yield,
        _ => Then::Nothing,
    });
    match then {
        Then::Nothing => {}
        Then::HandOver(local) => {
            if local.hand_over() {
                set_context(Some(Context::Aside(Rc::new(Aside::new(Arc::clone(&local.shared))))));
            }
        }
        Then::GiveWay(aside) => aside.give_way(),
        Then::Yield => std::thread::yield_now(),
    }
}

/// How a thread ended its work in a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The runtime ends.
    Left,
    /// Another thread has the role.
    HandedOver,
}

/// A thread of the runtime: in this role, and in others when it has handed over the last one.
pub(crate) fn serve(shared: &Arc<Shared>, role: OwnLanes) {
    let mut role = Some(role);
    while let Some(own) = role {
        match run(Arc::clone(shared), own) {
            Ended::Left => return,
            Ended::HandedOver => role = shared.stand_ins.wait(),
        }
    }
}

/// One role, until it is handed over or the runtime ends.
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

/// What ran since the clock was last read.
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
    /// Since when somebody is called and has not come; 0 if nobody is.
    unheard_from_ns: u64,
    /// When others were moved to other CPUs; 0 if it is known whether that was of use.
    moved_ns: u64,
    move_pause: Pause,
    /// What a task took lately.
    apiece_ns: u64,
    cpu: CpuClock,
    /// For how long this thread last waited for events.
    waited_ns: u64,
    watch_pause: Pause,
    owes: bool,
    next_in_a_row: u32,
    /// When tasks from outside were last first, and whether they are now.
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
            unheard_from_ns: 0,
            moved_ns: 0,
            move_pause: Pause::default(),
            apiece_ns: 0,
            cpu: CpuClock::new(),
            waited_ns: u64::MAX,
            watch_pause: Pause::default(),
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
            // Before looking: what was put before the end is done.
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
        // The next one leaves, too.
        self.shared().reactor.ring();
        Ended::Left
    }

    /// Counts what ran since the clock was last read, where threads that have no role count.
    fn charge_aside(&mut self) {
        let wall_ns = self.shared().clock.now_ns().saturating_sub(self.now_ns);
        let cpu_ns = self.cpu.since_ns().min(wall_ns);
        let counts = &self.shared().counts.aside[self.turn.pool.index()];
        counts.polls.add_shared(self.tasks);
        counts.cpu_ns.add_shared(cpu_ns);
    }

    /// The task boundary.
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
                // It may take long, and others can run what would have been next.
                self.local.show_next();
                Some((task, true))
            }
            None => self.choose_first(outside_first).map(|task| (task, false)),
        };
        let keeps_permit = chosen.as_ref().is_some_and(|(task, _)| task.metadata().pool() == Pool::Batch);
        if self.local.has_batch_permit.get() && !keeps_permit {
            self.local.has_batch_permit.set(false);
            self.shared().batch.give_back();
        }
        if let Some((task, _)) = &chosen {
            let meta = task.metadata();
            let is_long = !meta.is_brief() && (self.apiece_ns > LONG_NS || meta.pool() == Pool::Batch);
            if is_long {
                // Nobody looks here for some time: who falls asleep at this moment has to be seen.
                fence(Ordering::SeqCst);
            }
            let idle = &self.shared().idle;
            if idle.is_anyone() && (is_long && !idle.is_listened() || !self.for_sleepers().is_empty()) {
                self.shared().call();
            }
        }
        chosen
    }

    /// The pools of which a task waits that a thread that sleeps could run.
    fn for_sleepers(&self) -> PoolSet {
        self.with_permits(self.shared().batch.is_free())
    }

    /// The pools of which a task waits that this thread could run.
    fn for_this(&self) -> PoolSet {
        self.with_permits(self.local.has_batch_permit.get() || self.shared().batch.is_free())
    }

    fn with_permits(&self, batch_may: bool) -> PoolSet {
        let waiting = self.shared().lanes.waiting();
        // To drop a task takes no permit.
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
        // A batch task woken by an event needs a permit like any other; and what comes from outside is first now.
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
                // Others can see it there.
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
        if !shared.lanes.waits(pool) || !shared.batch.take() {
            return None;
        }
        let task = shared.lanes.take(&own, pool, outside_first);
        match task {
            Some(_) => self.local.has_batch_permit.set(true),
            None => shared.batch.give_back(),
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

    /// Reads the clock, charges what ran, and does what is due by time.
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
        // A pool that is behind has to be noticed at the next task, and batch tasks are long.
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

    /// Takes events if none were taken lately and nobody waits for them, and sends a ping if it is time. All this is for this
    /// thread to choose from at once: whether there is more than one task, and a thread to call for it, shows after the choice.
    fn look_around(&mut self) {
        if self.now_ns.saturating_sub(self.events_ns) >= EVENTS_EVERY_NS {
            self.events_ns = self.now_ns;
            if !self.shared().idle.is_listened() {
                self.listen(false);
            }
        }
        self.look_after_called();
        if let Some(every_ns) = self.shared().settings.ping_ns {
            let pools = Pool::ALL.len();
            let apart_ns = every_ns / pools as u64;
            if self.unpinged_ns >= apart_ns {
                // After a long task each pool has its ping, and not more than that.
                self.unpinged_ns = (self.unpinged_ns - apart_ns).min(every_ns);
                self.pinged += 1;
                ping::send(&self.local.shared, self.local.thread, Pool::ALL[self.pinged % pools]);
            }
        }
    }

    /// If a thread that was called does not come, it may have been woken behind this one while another CPU is idle: then it is
    /// moved. If it does not come from there at once either, the other CPUs are busy, and moving is left out for a while.
    fn look_after_called(&mut self) {
        let is_called = self.shared().idle.is_called();
        if self.moved_ns != 0 {
            let is_soon = self.now_ns.saturating_sub(self.moved_ns) <= COMES_WITHIN_NS;
            if is_called && is_soon {
                return;
            }
            match is_soon {
                true => self.move_pause.end(),
                false => self.move_pause.lengthen(),
            }
            (self.moved_ns, self.unheard_from_ns) = (0, 0);
        }
        if !is_called {
            self.unheard_from_ns = 0;
        } else if self.unheard_from_ns == 0 {
            self.unheard_from_ns = self.now_ns;
        } else if self.now_ns.saturating_sub(self.unheard_from_ns) >= UNHEARD_NS {
            self.unheard_from_ns = 0;
            if !self.move_pause.skip() {
                let moved = self.shared().placement.move_others_away();
                self.local.counts().moved.add(moved as u64);
                self.moved_ns = if moved > 0 { self.now_ns } else { 0 };
            }
        }
    }

    /// Takes events, and does what they ask for but for running tasks. To `sleep` until there are some, one has to have entered
    /// for that, and has left afterwards.
    fn listen(&mut self, sleep: bool) {
        let watched = sleep && self.watch();
        let shared = &self.local.shared;
        if !watched {
            shared.reactor.wait(&mut self.events, sleep);
        }
        if sleep {
            shared.idle.has_listened();
        }
        let heard = shared.reactor.dispatch(&mut self.events);
        if heard.bell {
            shared.idle.heard();
            self.local.counts().called.add(1);
        }
        if heard.alarm {
            shared.fire_timers();
        }
    }

    /// Looks for events until there are some; whether there are. Gives up if the last ones did not come soon either, when it has
    /// taken as long as sleeping would, and when somebody else wants the CPU.
    fn watch(&mut self) -> bool {
        if self.waited_ns > WATCH_NS || self.shared().settings.threads == 1 || self.watch_pause.skip() {
            return false;
        }
        let begun_ns = self.shared().clock.now_ns();
        let mut looked_ns = begun_ns;
        loop {
            self.local.shared.reactor.wait(&mut self.events, false);
            if !self.events.is_empty() {
                self.watch_pause.end();
                self.local.counts().watched.add(1);
                return true;
            }
            std::thread::yield_now();
            let now_ns = self.shared().clock.now_ns();
            if now_ns - looked_ns > WATCH_ALONE_NS {
                self.watch_pause.lengthen();
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
        self.shared().put_off_alarm(self.now_ns);
        self.shared().idle.enter();
        if self.for_sleepers().is_empty() && !self.shared().is_leaving() {
            self.shared().placement.sleeps(self.local.thread);
            let rest = self.shared().idle.rest(self.apiece_ns <= LONG_NS);
            match rest {
                Rest::Listen => self.listen(true),
                Rest::Called => self.local.counts().called.add(1),
            }
            self.shared().placement.wakes(self.local.thread);
            let counts = self.local.counts();
            let now_ns = self.shared().clock.now_ns();
            let rested_ns = now_ns.saturating_sub(self.now_ns);
            counts.parked_ns.add(rested_ns);
            if rest == Rest::Listen {
                self.waited_ns = rested_ns;
            }
            counts.wake_ups.add(1);
            self.now_ns = now_ns;
            self.events_ns = now_ns;
        } else {
            self.shared().idle.leave();
        }
        self.tasks_left = self.tasks_left.max(1);
    }
}

/// How often something is left out that was of no use.
#[derive(Debug, Default)]
struct Pause {
    left: u32,
    bits: u32,
}

impl Pause {
    /// Whether to leave it out this time.
    fn skip(&mut self) -> bool {
        let skip = self.left > 0;
        self.left = self.left.saturating_sub(1);
        skip
    }

    /// It was of no use.
    fn lengthen(&mut self) {
        self.bits = (self.bits + 1).min(PAUSE_BITS);
        self.left = 1 << self.bits;
    }

    /// It was of use.
    fn end(&mut self) {
        self.bits = 0;
    }
}

/// Which part of the time at work this thread had a CPU.
#[derive(Debug)]
struct CpuClock {
    wall_ns: u64,
    cpu_from_ns: u64,
    /// In parts of 1024, as it was over the last 10 ms at work.
    part: u64,
}

impl CpuClock {
    fn new() -> Self {
        Self { wall_ns: 0, cpu_from_ns: thread_cpu_ns(), part: 1024 }
    }

    /// The CPU time since the clock was last asked.
    fn since_ns(&self) -> u64 {
        thread_cpu_ns().saturating_sub(self.cpu_from_ns)
    }

    /// The CPU time in `wall_ns` at work that have just gone by.
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

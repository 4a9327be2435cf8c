//! Lanes: the queues of tasks. For each pool, each thread has a lane, and there is one for tasks
//! from outside.
//!
//! ```text
//!               thread 0     thread 1     from outside
//! interconnect  ▢            ▢            ▢
//! system        ▢▢▢          ▢            ▢
//! user          ▢            ▢▢▢▢         ▢▢
//! batch         ▢▢           ▢            ▢▢▢▢▢▢▢
//! filled        .12.         ..2.
//! ```
//!
//! Invariants
//! 1. A thread puts tasks into its own lanes only, at the end. Every thread takes tasks from the
//!    front.
//! 2. `filled` of a thread says which of its lanes may hold tasks. The thread sets it before it
//!    wakes another, and clears it when it finds the lane empty. So at each task boundary, others
//!    read one word per thread instead of four lanes.
//! 3. A task that `waits` sees can be taken by every thread.
//!
//! Not here: which pool is next.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};

use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use crossbeam_utils::CachePadded;

use crate::pool::{Pool, PoolSet};
use crate::task::Task;

/// All lanes, for everybody.
#[derive(Debug)]
pub(crate) struct Lanes {
    outside: [Injector<Task>; Pool::COUNT],
    of_threads: Vec<CachePadded<ThreadLanes>>,
}

/// The lanes of one thread, for others.
#[derive(Debug)]
struct ThreadLanes {
    filled: AtomicU8,
    stealers: [Stealer<Task>; Pool::COUNT],
}

/// The lanes of one thread, for itself.
#[derive(Debug)]
pub(crate) struct OwnLanes {
    thread: usize,
    /// Copy of what others see.
    filled: Cell<PoolSet>,
    lanes: [Worker<Task>; Pool::COUNT],
}

impl OwnLanes {
    /// Lanes without tasks, for a thread that has handed over its own.
    pub(crate) fn none() -> Self {
        Self { thread: usize::MAX, filled: Cell::default(), lanes: [(); Pool::COUNT].map(|()| Worker::new_fifo()) }
    }

    /// The thread's number.
    pub(crate) fn thread(&self) -> usize {
        self.thread
    }
}

impl Lanes {
    pub(crate) fn new(threads: usize) -> (Self, Vec<OwnLanes>) {
        let of_one = |thread| {
            let lanes = [(); Pool::COUNT].map(|()| Worker::new_fifo());
            OwnLanes { thread, filled: Cell::default(), lanes }
        };
        let own: Vec<_> = (0..threads).map(of_one).collect();
        let for_others = |own: &OwnLanes| ThreadLanes {
            filled: AtomicU8::default(),
            stealers: own.lanes.each_ref().map(Worker::stealer),
        };
        let of_threads = own.iter().map(|own| CachePadded::new(for_others(own))).collect();
        (Self { outside: Default::default(), of_threads }, own)
    }

    /// Adds a task from outside.
    pub(crate) fn inject(&self, pool: Pool, task: Task) {
        self.outside[pool.index()].push(task);
    }

    pub(crate) fn push(&self, own: &OwnLanes, pool: Pool, task: Task) {
        own.lanes[pool.index()].push(task);
        if !own.filled.get().contains(pool) {
            self.set_filled(own, own.filled.get().with(pool));
        }
    }

    fn set_filled(&self, own: &OwnLanes, filled: PoolSet) {
        own.filled.set(filled);
        self.of_threads[own.thread].filled.store(filled.bits(), Ordering::Release);
    }

    /// Takes a task, and moves some more, which this thread would take next, into its own lane.
    pub(crate) fn take(&self, own: &OwnLanes, pool: Pool, outside_first: bool) -> Option<Task> {
        if outside_first && let Some(task) = self.take_outside(own, pool) {
            return Some(task);
        }
        self.take_own(own, pool).or_else(|| self.take_outside(own, pool)).or_else(|| self.steal(own, pool))
    }

    fn take_own(&self, own: &OwnLanes, pool: Pool) -> Option<Task> {
        if !own.filled.get().contains(pool) {
            return None;
        }
        let task = own.lanes[pool.index()].pop();
        if task.is_none() {
            self.set_filled(own, own.filled.get().without(pool));
        }
        task
    }

    fn take_outside(&self, own: &OwnLanes, pool: Pool) -> Option<Task> {
        let outside = &self.outside[pool.index()];
        if outside.is_empty() {
            return None;
        }
        self.take_batch(own, pool, |lane| outside.steal_batch_and_pop(lane))
    }

    fn steal(&self, own: &OwnLanes, pool: Pool) -> Option<Task> {
        let threads = self.of_threads.len();
        (1..threads).map(|step| &self.of_threads[(own.thread + step) % threads]).find_map(|other| {
            if !other.may_have(pool) {
                return None;
            }
            self.take_batch(own, pool, |lane| other.stealers[pool.index()].steal_batch_and_pop(lane))
        })
    }

    fn take_batch(&self, own: &OwnLanes, pool: Pool, steal: impl Fn(&Worker<Task>) -> Steal<Task>) -> Option<Task> {
        let lane = &own.lanes[pool.index()];
        let task = decided(|| steal(lane))?;
        if !lane.is_empty() && !own.filled.get().contains(pool) {
            self.set_filled(own, own.filled.get().with(pool));
        }
        Some(task)
    }

    /// Whether a task of this pool waits anywhere.
    pub(crate) fn waits(&self, pool: Pool) -> bool {
        let index = pool.index();
        !self.outside[index].is_empty()
            || self.of_threads.iter().any(|lanes| lanes.may_have(pool) && !lanes.stealers[index].is_empty())
    }

    /// The pools of which tasks wait anywhere.
    pub(crate) fn waiting(&self) -> PoolSet {
        Pool::ALL.into_iter().filter(|&pool| self.waits(pool)).fold(PoolSet::EMPTY, PoolSet::with)
    }

    /// Drops all tasks when no thread takes any more. Gives whether there were any.
    pub(crate) fn drop_all(&self) -> bool {
        let of_pool = |pool: usize| {
            let outside = std::iter::from_fn(|| decided(|| self.outside[pool].steal()));
            let of_threads = self
                .of_threads
                .iter()
                .flat_map(move |lanes| std::iter::from_fn(move || decided(|| lanes.stealers[pool].steal())));
            outside.chain(of_threads).map(drop).count()
        };
        (0..Pool::COUNT).map(of_pool).sum::<usize>() > 0
    }

    /// How many tasks of this pool wait, about.
    pub(crate) fn len(&self, pool: Pool) -> usize {
        let index = pool.index();
        self.outside[index].len() + self.of_threads.iter().map(|lanes| lanes.stealers[index].len()).sum::<usize>()
    }
}

impl ThreadLanes {
    fn may_have(&self, pool: Pool) -> bool {
        PoolSet::from_bits(self.filled.load(Ordering::Acquire)).contains(pool)
    }
}

fn decided(mut steal: impl FnMut() -> Steal<Task>) -> Option<Task> {
    loop {
        match steal() {
            Steal::Success(task) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

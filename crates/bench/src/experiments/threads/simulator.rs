//! The published model of threads and pools, to the tick: tasks of fixed length, threads that take
//! them, nothing else.
//!
//! ```text
//! user task 170 ─┬─ system 119 ─ interconnect 100
//!                ├─ system 119 ─ interconnect 100      sequence time: from the user task's arrival
//!                ├─ system 119 ─ interconnect 100      to the end of the last interconnect task
//!                └─ system 119 ─ interconnect 100
//! ```
//!
//! The publication gives seven sequence times and no lengths of tasks. With these lengths the model
//! gives all seven times.
//!
//! Invariants
//! - The same input gives the same output: events at the same tick are handled in the order in
//!   which they were made.
//!
//! Not here: what threads cost besides running tasks, which is measured.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use colibri_runtime::Pool;

/// Ticks of the tasks of a sequence.
pub(super) const USER: u64 = 170;
pub(super) const SYSTEM: u64 = 119;
pub(super) const INTERCONNECT: u64 = 100;
/// System tasks of a sequence.
pub(super) const FAN_OUT: usize = 4;
/// Ticks of a batch task.
pub(super) const BATCH: u64 = 200;
/// The share of a pool that waits, in parts of a hundred.
const SHARE_PERCENT: i64 = 5;

/// Ticks of all tasks of a sequence.
pub(super) const SEQUENCE: u64 = USER + FAN_OUT as u64 * (SYSTEM + INTERCONNECT);

/// Which threads serve which pools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Threads {
    /// All threads serve all pools. The first pool goes first, except for the shares of the others;
    /// batch runs on all threads but one.
    Shared(usize),
    /// Groups of threads, each with pools of its own whose tasks it takes in the order of their
    /// arrival.
    Dedicated(Vec<(usize, Vec<Pool>)>),
}

#[derive(Debug, Clone, Copy)]
struct Task {
    pool: Pool,
    sequence: usize,
}

/// What came out.
#[derive(Debug, Clone, Default)]
pub(super) struct Simulated {
    /// Of each sequence, in ticks.
    pub(super) sequence: Vec<u64>,
    /// Batch tasks that ended before the last sequence did.
    pub(super) batch_tasks: u64,
    /// Ticks until the last sequence was over.
    pub(super) ticks: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive(usize),
    End { thread: usize },
}

struct Simulation<'a> {
    threads: &'a Threads,
    arrivals: &'a [u64],
    /// Of each group; shared threads are one group with a queue for each pool.
    queues: Vec<[VecDeque<Task>; Pool::COUNT]>,
    /// In the order of arrival, of each group of dedicated threads.
    lines: Vec<VecDeque<Task>>,
    group_of: Vec<usize>,
    running: Vec<Option<Task>>,
    owed_batch: Vec<i64>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    events_made: u64,
    left: Vec<usize>,
    open: usize,
    result: Simulated,
}

/// Runs sequences that arrive at these ticks, beside batch tasks of which there is always one more
/// if `batch`.
pub(super) fn simulate(threads: &Threads, arrivals: &[u64], batch: bool) -> Simulated {
    let groups: Vec<usize> = match threads {
        Threads::Shared(count) => vec![*count],
        Threads::Dedicated(groups) => groups.iter().map(|(count, _)| *count).collect(),
    };
    let group_of: Vec<usize> =
        groups.iter().enumerate().flat_map(|(group, &count)| std::iter::repeat_n(group, count)).collect();
    let mut simulation = Simulation {
        threads,
        arrivals,
        queues: groups.iter().map(|_| Default::default()).collect(),
        lines: groups.iter().map(|_| VecDeque::new()).collect(),
        running: vec![None; group_of.len()],
        owed_batch: vec![0; group_of.len()],
        group_of,
        events: BinaryHeap::new(),
        events_made: 0,
        left: vec![FAN_OUT; arrivals.len()],
        open: arrivals.len(),
        result: Simulated { sequence: vec![0; arrivals.len()], ..Simulated::default() },
    };
    for (sequence, &at) in arrivals.iter().enumerate() {
        simulation.at(at, Event::Arrive(sequence));
    }
    if batch {
        // One batch task for each thread; each is followed by another one.
        for _ in 0..simulation.running.len() {
            simulation.put(Task { pool: Pool::Batch, sequence: 0 });
        }
    }
    simulation.run();
    simulation.result
}

impl Simulation<'_> {
    fn at(&mut self, tick: u64, event: Event) {
        self.events.push(Reverse((tick, self.events_made, event)));
        self.events_made += 1;
    }

    fn group(&self, pool: Pool) -> usize {
        match self.threads {
            Threads::Shared(_) => 0,
            Threads::Dedicated(groups) => {
                groups.iter().position(|(_, pools)| pools.contains(&pool)).expect("every pool has threads")
            }
        }
    }

    fn put(&mut self, task: Task) {
        let group = self.group(task.pool);
        match self.threads {
            Threads::Shared(_) => self.queues[group][task.pool as usize].push_back(task),
            Threads::Dedicated(_) => self.lines[group].push_back(task),
        }
    }

    fn take(&mut self, thread: usize) -> Option<Task> {
        let group = self.group_of[thread];
        if matches!(self.threads, Threads::Dedicated(_)) {
            return self.lines[group].pop_front();
        }
        let threads = self.running.len();
        let batch_runs = self.running.iter().flatten().filter(|task| task.pool == Pool::Batch).count();
        let batch_may = batch_runs < (threads - 1).max(1);
        let queues = &mut self.queues[group];
        if batch_may && self.owed_batch[thread] > 0 && !queues[Pool::Batch as usize].is_empty() {
            self.owed_batch[thread] -= BATCH as i64 * (100 - SHARE_PERCENT);
            return queues[Pool::Batch as usize].pop_front();
        }
        let may = |pool: &Pool| *pool != Pool::Batch || batch_may;
        Pool::ALL.into_iter().filter(may).find_map(|pool| queues[pool as usize].pop_front())
    }

    fn run(&mut self) {
        let mut now = 0;
        while self.open > 0 {
            for thread in 0..self.running.len() {
                if self.running[thread].is_none()
                    && let Some(task) = self.take(thread)
                {
                    self.running[thread] = Some(task);
                    let ticks = match task.pool {
                        Pool::Interconnect => INTERCONNECT,
                        Pool::System => SYSTEM,
                        Pool::User => USER,
                        Pool::Batch => BATCH,
                    };
                    if task.pool != Pool::Batch && !self.queues[0][Pool::Batch as usize].is_empty() {
                        self.owed_batch[thread] += ticks as i64 * SHARE_PERCENT;
                    }
                    self.at(now + ticks, Event::End { thread });
                }
            }
            let Some(Reverse((tick, _, event))) = self.events.pop() else { return };
            now = tick;
            self.handle(now, event);
            // All events of this tick come before any thread takes a task.
            while let Some(Reverse((tick, ..))) = self.events.peek()
                && *tick == now
                && let Some(Reverse((_, _, event))) = self.events.pop()
            {
                self.handle(now, event);
            }
        }
        self.result.ticks = now;
    }

    fn handle(&mut self, now: u64, event: Event) {
        match event {
            Event::Arrive(sequence) => self.put(Task { pool: Pool::User, sequence }),
            Event::End { thread } => {
                let task = self.running[thread].take().expect("it ran");
                self.follow(now, task);
            }
        }
    }

    fn follow(&mut self, now: u64, Task { pool, sequence }: Task) {
        match pool {
            Pool::User => (0..FAN_OUT).for_each(|_| self.put(Task { pool: Pool::System, sequence })),
            Pool::System => self.put(Task { pool: Pool::Interconnect, sequence }),
            Pool::Interconnect => {
                self.left[sequence] -= 1;
                if self.left[sequence] == 0 {
                    self.result.sequence[sequence] = now - self.arrivals[sequence];
                    self.open -= 1;
                }
            }
            Pool::Batch => {
                self.result.batch_tasks += 1;
                self.put(Task { pool, sequence });
            }
        }
    }
}

/// The published configurations, and their sequence times.
pub(super) fn published() -> Vec<(&'static str, Threads, u64)> {
    let dedicated = |counts: [usize; Pool::COUNT]| {
        Threads::Dedicated(Pool::ALL.iter().zip(counts).map(|(&pool, count)| (count, vec![pool])).collect())
    };
    vec![
        ("dedicated 6", dedicated([2, 2, 1, 1]), 508),
        ("dedicated 4", dedicated([1, 1, 1, 1]), 746),
        ("shared 4", Threads::Shared(4), 389),
        ("shared 1", Threads::Shared(1), 1046),
        ("shared 2", Threads::Shared(2), 608),
        ("shared 3", Threads::Shared(3), 608),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_gives_the_published_figures() {
        for (name, threads, published) in published() {
            assert_eq!(simulate(&threads, &[0], false).sequence, [published], "{name}");
        }
    }

    #[test]
    fn batch_tasks_have_their_share_and_leave_a_thread_to_others() {
        // Sequences that saturate two threads.
        let arrivals: Vec<u64> = (0..2_000).map(|n| n * SEQUENCE / 2).collect();
        let result = simulate(&Threads::Shared(2), &arrivals, true);
        let part = (result.batch_tasks * BATCH) as f64 / (2 * result.ticks) as f64;
        assert!((0.045..0.055).contains(&part), "{part}");
        // Almost without load: batch has one of the two threads.
        let result = simulate(&Threads::Shared(2), &[0, 1_000_000], true);
        let part = (result.batch_tasks * BATCH) as f64 / result.ticks as f64;
        assert!((0.99..1.01).contains(&part), "{part}");
    }

    #[test]
    fn first_come_first_served_lets_batch_stand_in_the_way() {
        let arrivals: Vec<u64> = (0..200).map(|n| n * 5_000).collect();
        let mean = |threads: &Threads| {
            let result = simulate(threads, &arrivals, true);
            result.sequence.iter().sum::<u64>() as f64 / 200.0
        };
        let common = Threads::Dedicated(vec![(2, Pool::ALL.to_vec())]);
        let (shared, common) = (mean(&Threads::Shared(2)), mean(&common));
        assert!(shared * 1.25 < common, "{shared} {common}");
    }
}

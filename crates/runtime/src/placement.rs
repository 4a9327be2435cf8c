//! The CPUs on which threads sleep, and moving a thread that was woken behind another one.
//!
//! Threads are not pinned: next to a client or another process, the kernel knows better where there
//! is room. But now and then it wakes a thread on a CPU where another thread of the runtime is
//! running, and leaves it waiting there for up to 4 ms, while another CPU is idle. The running
//! thread notices that the one it has woken does not come. It then forbids its own CPU, for a
//! moment, to all threads that went to sleep there. The kernel moves a waiting thread to another
//! CPU at once. Where the thread runs after that is the kernel's choice again.
//!
//! Invariants
//! 1. A thread that narrows another's affinity widens it again at once, to the affinity it has
//!    itself. So an affinity that is set for all threads from outside stays in force.
//! 2. An affinity is never narrowed to nothing: with one CPU no thread is moved.
//!
//! Not here: when a woken thread counts as late (`worker`).

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32};

use crossbeam_utils::CachePadded;
use rustix::thread::{Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The value of `cpu` for a thread that does not sleep.
const AWAKE: u32 = u32::MAX;

/// Where one thread sleeps.
#[derive(Debug)]
struct Place {
    /// The kernel's number of the thread that has the role; 0 before it has begun.
    tid: AtomicI32,
    /// The CPU on which it went to sleep, or [`AWAKE`].
    cpu: AtomicU32,
}

/// Where all threads sleep.
#[derive(Debug)]
pub(crate) struct Placement {
    places: Box<[CachePadded<Place>]>,
}

impl Placement {
    pub(crate) fn new(threads: usize) -> Self {
        let place = |_| CachePadded::new(Place { tid: AtomicI32::new(0), cpu: AtomicU32::new(AWAKE) });
        Self { places: (0..threads).map(place).collect() }
    }

    /// This thread has this role from now on.
    pub(crate) fn begins(&self, thread: usize) {
        let place = &self.places[thread];
        place.cpu.store(AWAKE, Relaxed);
        place.tid.store(gettid().as_raw_nonzero().get(), Release);
    }

    /// Before this thread sleeps.
    pub(crate) fn sleeps(&self, thread: usize) {
        if self.places.len() > 1 {
            self.places[thread].cpu.store(sched_getcpu() as u32, Relaxed);
        }
    }

    /// After this thread has slept.
    pub(crate) fn wakes(&self, thread: usize) {
        if self.places.len() > 1 {
            self.places[thread].cpu.store(AWAKE, Relaxed);
        }
    }

    /// Moves threads that wait for this thread's CPU to other CPUs. Gives how many were moved.
    pub(crate) fn move_others_away(&self) -> usize {
        let Ok(mine) = sched_getaffinity(None) else { return 0 };
        if mine.count() < 2 {
            return 0;
        }
        let here = sched_getcpu();
        let mut others = mine;
        others.unset(here);
        let is_moved = |place: &&CachePadded<Place>| {
            place.cpu.load(Relaxed) == here as u32
                && Pid::from_raw(place.tid.load(Acquire)).is_some_and(|tid| {
                    let is_narrowed = sched_setaffinity(Some(tid), &others).is_ok();
                    // The thread may have ended by now.
                    let _ = sched_setaffinity(Some(tid), &mine);
                    is_narrowed
                })
        };
        self.places.iter().filter(is_moved).count()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_that_sleeps_here_is_told_to_go_and_may_run_anywhere_afterwards() {
        if sched_getaffinity(None).unwrap().count() < 2 {
            println!("NOT TESTED here: there is one CPU");
            return;
        }
        let placement = Arc::new(Placement::new(2));
        placement.begins(0);
        let (sleeps, is_asleep) = channel();
        let (wake, is_woken) = channel::<()>();
        let other = Arc::clone(&placement);
        let sleeper = std::thread::spawn(move || {
            let before = sched_getaffinity(None).unwrap();
            other.begins(1);
            other.sleeps(1);
            sleeps.send(()).unwrap();
            is_woken.recv().unwrap();
            other.wakes(1);
            (before, sched_getaffinity(None).unwrap())
        });
        is_asleep.recv().unwrap();
        // As if it had gone to sleep where the test runs, which may itself move between two lines.
        let moved = (0..1_000_000).any(|_| {
            placement.places[1].cpu.store(sched_getcpu() as u32, Relaxed);
            placement.move_others_away() == 1
        });
        assert!(moved);
        wake.send(()).unwrap();
        let (before, after) = sleeper.join().unwrap();
        assert_eq!(before, after);
        placement.places[1].cpu.store(AWAKE, Relaxed);
        assert_eq!(placement.move_others_away(), 0, "it is awake");
    }

    #[test]
    fn a_thread_that_is_awake_is_not_moved() {
        let placement = Placement::new(2);
        placement.begins(0);
        placement.begins(1);
        assert_eq!(placement.move_others_away(), 0);
    }
}

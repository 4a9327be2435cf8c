//! On which CPUs the threads sleep, and how one that was woken behind another is moved away.
//!
//! Threads are not pinned: next to a client or another process, the kernel knows better where there is room. But now and then it
//! wakes a thread on the CPU where another thread of the runtime runs, and leaves it waiting there until its next tick, for up to
//! 4 ms, while another CPU is idle. The thread that runs notices that the one it has called does not come. It then forbids its
//! own CPU to all threads that went to sleep there; the kernel moves one that waits to another CPU at once. Whoever was moved
//! may run anywhere again as soon as it runs.
//!
//! Invariants
//! - A thread's affinity is narrowed only while it sleeps or waits for a CPU, and by another thread, which holds the lock `allowed`.
//!   It is widened by the thread itself, with the same lock, before it looks for work.
//! - It is widened to what the other thread may use: so whoever changes the affinity of all threads from outside has his way.
//! - It is never narrowed to nothing: with one CPU nobody is moved.
//!
//! Not here: when a call counts as unheard (`worker`).

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Added to `cpu` when the thread was moved away from there.
const MOVED: u32 = 1 << 31;
/// In place of `cpu`, of a thread that does not sleep.
const AWAKE: u32 = MOVED - 1;

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
    /// The CPUs that a thread may use that is not moved.
    allowed: Mutex<CpuSet>,
    places: Box<[CachePadded<Place>]>,
}

impl Placement {
    pub(crate) fn new(threads: usize) -> Self {
        let place = || CachePadded::new(Place { tid: AtomicI32::new(0), cpu: AtomicU32::new(AWAKE) });
        Self { allowed: Mutex::new(CpuSet::new()), places: (0..threads).map(|_| place()).collect() }
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
            self.places[thread].cpu.store(sched_getcpu() as u32, Release);
        }
    }

    /// After this thread has slept.
    pub(crate) fn wakes(&self, thread: usize) {
        if self.places.len() > 1 && self.places[thread].cpu.swap(AWAKE, AcqRel) & MOVED != 0 {
            // If that may not be, it stays where it is.
            let _ = sched_setaffinity(None, &self.allowed.lock());
        }
    }

    /// Moves those who wait for a CPU behind this thread to other ones. Answers how many.
    pub(crate) fn move_others_away(&self) -> usize {
        let Ok(mine) = sched_getaffinity(None) else { return 0 };
        if mine.count() < 2 {
            return 0;
        }
        let cpu = sched_getcpu();
        let mut others = mine;
        others.unset(cpu);
        let here = cpu as u32;
        let mut allowed = self.allowed.lock();
        *allowed = mine;
        let is_moved = |place: &&CachePadded<Place>| {
            // It is awake, or sleeps elsewhere, or was moved before.
            place.cpu.compare_exchange(here, here | MOVED, AcqRel, Relaxed).is_ok()
                && Pid::from_raw(place.tid.load(Acquire))
                    .is_some_and(|tid| sched_setaffinity(Some(tid), &others).is_ok())
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
    fn a_thread_that_sleeps_here_is_moved_and_may_come_back_when_it_wakes() {
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
            // As if it had gone to sleep where the test runs.
            sleeps.send(()).unwrap();
            is_woken.recv().unwrap();
            let narrowed = sched_getaffinity(None).unwrap();
            other.wakes(1);
            (before, narrowed, sched_getaffinity(None).unwrap())
        });
        is_asleep.recv().unwrap();
        // Until this thread is found on the CPU where the other one sleeps.
        let moved = (0..1_000_000).any(|_| {
            placement.places[1].cpu.store(sched_getcpu() as u32, Release);
            placement.move_others_away() == 1
        });
        assert!(moved);
        assert_eq!(placement.move_others_away(), 0, "it is moved once");
        wake.send(()).unwrap();
        let (before, narrowed, after) = sleeper.join().unwrap();
        assert_eq!((before.count() - 1, before.count()), (narrowed.count(), after.count()));
    }

    #[test]
    fn a_thread_that_is_awake_is_not_moved() {
        let placement = Placement::new(2);
        placement.begins(0);
        placement.begins(1);
        assert_eq!(placement.move_others_away(), 0);
    }
}

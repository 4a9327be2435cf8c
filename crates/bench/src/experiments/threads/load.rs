//! The pipeline on real threads: sequences that arrive in open loop, of tasks that keep a thread
//! busy, beside batch tasks.
//!
//! Invariants
//! - A task does a fixed amount of work, not work for a fixed time: what a thread loses to others
//!   is not part of it.
//! - Arrivals do not wait for the threads. The same seed gives the same arrivals to every executor.
//!   A sequence's time begins when the threads get it. The lag of the generator is reported beside
//!   it: on a machine whose CPUs are all busy the kernel lets the generator wait, which is not the
//!   fault of the threads.
//! - Every sequence counts: those that are not over at the end of the run are waited for, and if
//!   they do not end the run has failed.
//!
//! Not here: what runs the tasks (`executor`).

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use colibri_runtime::Pool;
use hdrhistogram::Histogram;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use crate::experiments::threads::executor::{Executor, Spawner};
use crate::experiments::threads::simulator::{BATCH, FAN_OUT, INTERCONNECT, SYSTEM, USER};
use crate::measure::schedule::wake_up_punctually;

/// The part of a run that is a warm-up and does not count.
const WARM_UP: f64 = 0.1;
/// The longest wait for late sequences.
const LATE_MAX: Duration = Duration::from_secs(5);
/// With more unfinished sequences than this the system is overloaded.
const OPEN_MAX: usize = 20_000;

/// How to keep a thread busy for a given time, measured once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    rounds_per_us: f64,
}

fn rounds(count: u64) {
    let mut state = black_box(0x9E37_79B9_7F4A_7C15_u64);
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}

impl Work {
    /// Measures the speed of this machine: the best of several attempts, in which no other process
    /// had the CPU.
    pub(super) fn calibrate() -> Self {
        const ROUNDS: u64 = 1_000_000;
        let attempt = || {
            let begun = Instant::now();
            rounds(ROUNDS);
            begun.elapsed().as_secs_f64() * 1e6
        };
        let best_us = (0..20).map(|_| attempt()).fold(f64::INFINITY, f64::min);
        Self { rounds_per_us: ROUNDS as f64 / best_us }
    }

    /// Works for `us` microseconds of CPU time.
    fn run(self, us: u64) {
        rounds((self.rounds_per_us * us as f64) as u64);
    }
}

/// When sequences arrive: at random, at an average rate a second.
pub(super) fn arrivals(rate: f64, duration: Duration, seed: u64) -> Vec<Duration> {
    let mut state = seed;
    let mut at = 0.0;
    let mut arrivals = Vec::new();
    loop {
        // SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        let uniform = ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64;
        at -= (1.0 - uniform).ln() / rate;
        if at >= duration.as_secs_f64() {
            return arrivals;
        }
        arrivals.push(Duration::from_secs_f64(at));
    }
}

/// What came out of a run.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// Sequence times in nanoseconds.
    pub(super) sequence_ns: Histogram<u64>,
    /// How late sequences were handed over, in nanoseconds.
    pub(super) late_ns: Histogram<u64>,
    /// Sequences that were over, a second.
    pub(super) rate: f64,
    /// Batch tasks of [`BATCH`] µs a second.
    pub(super) batch_rate: f64,
    /// Sequences that were not over in the end: the threads could not keep up.
    pub(super) left: usize,
}

/// What the tasks of a run share.
struct Run {
    work: Work,
    spawner: Spawner,
    counted_from: Instant,
    sequence_ns: Mutex<Histogram<u64>>,
    open: AtomicUsize,
    batch_tasks: AtomicU64,
    is_over: AtomicBool,
}

/// Histograms that hold a nanosecond to minutes, to a thousandth.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("bounds that are right at compile time")
}

/// Offers sequences at these times, beside batch tasks of which there is always one more if
/// `batch`.
pub(super) fn run(executor: &Executor, work: Work, arrivals: &[Duration], duration: Duration, batch: bool) -> Outcome {
    let threads = executor.threads();
    let begun = Instant::now();
    let run = Arc::new(Run {
        work,
        spawner: executor.spawner(),
        counted_from: begun + duration.mul_f64(WARM_UP),
        sequence_ns: Mutex::new(histogram()),
        open: AtomicUsize::new(0),
        batch_tasks: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    });
    if batch {
        (0..threads).for_each(|_| run.spawner.spawn(Pool::Batch, batch_stream(Arc::clone(&run))));
    }
    let (late_ns, batch_before) = std::thread::scope(|scope| {
        // A thread of its own: the priority goes with it.
        scope.spawn(|| generate(&run, begun, arrivals)).join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    });

    let (batch_before, batch_from) = batch_before.unwrap_or((0, begun));
    let batch_tasks = run.batch_tasks.load(Ordering::Relaxed) - batch_before;
    let batch_rate = batch_tasks as f64 / batch_from.elapsed().as_secs_f64().max(1e-9);
    let until = Instant::now() + LATE_MAX;
    while run.open.load(Ordering::Acquire) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    let ended = Instant::now();
    run.is_over.store(true, Ordering::Release);
    let sequence_ns = run.sequence_ns.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let counted = ended.min(begun + duration).saturating_duration_since(run.counted_from);
    Outcome {
        rate: sequence_ns.len() as f64 / counted.max(ended.saturating_duration_since(begun + duration)).as_secs_f64(),
        sequence_ns,
        late_ns,
        batch_rate,
        left: run.open.load(Ordering::Acquire),
    }
}

/// Hands over sequences when they are due. Gives how late that was, and how many batch tasks there
/// had been when counting began.
fn generate(run: &Arc<Run>, begun: Instant, arrivals: &[Duration]) -> (Histogram<u64>, Option<(u64, Instant)>) {
    be_punctual();
    let mut batch_before = None;
    let mut late_ns = histogram();
    for &arrival in arrivals {
        let due = begun + arrival;
        if let Some(left) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(left);
        }
        if due >= run.counted_from {
            batch_before.get_or_insert_with(|| (run.batch_tasks.load(Ordering::Relaxed), Instant::now()));
        }
        run.open.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        late_ns.saturating_record(u64::try_from((now - due).as_nanos()).unwrap_or(u64::MAX));
        run.spawner.spawn(Pool::User, sequence(Arc::clone(run), now));
        if run.open.load(Ordering::Relaxed) > OPEN_MAX {
            break;
        }
    }
    (late_ns, batch_before)
}

/// Lets this thread go before those under test, where that is permitted: a generator that is late
/// brings bursts.
fn be_punctual() {
    wake_up_punctually();
    let real_time = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let least = ThreadPriorityValue::try_from(1_u8).map(ThreadPriority::Crossplatform);
    // Where it is not, the table says how late it was.
    if let Ok(least) = least {
        let _may_be_late = set_thread_priority_and_policy(thread_native_id(), least, real_time);
    }
}

async fn batch_stream(run: Arc<Run>) {
    while !run.is_over.load(Ordering::Relaxed) {
        run.work.run(BATCH);
        run.batch_tasks.fetch_add(1, Ordering::Relaxed);
        run.spawner.yield_now().await;
    }
}

async fn sequence(run: Arc<Run>, begun: Instant) {
    run.work.run(USER);
    let left = Arc::new(AtomicUsize::new(FAN_OUT));
    for _ in 0..FAN_OUT {
        let (run, left) = (Arc::clone(&run), Arc::clone(&left));
        let spawner = run.spawner.clone();
        spawner.spawn(Pool::System, async move {
            run.work.run(SYSTEM);
            let spawner = run.spawner.clone();
            spawner.spawn(Pool::Interconnect, async move {
                run.work.run(INTERCONNECT);
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    run.end_sequence(begun);
                }
            });
        });
    }
}

impl Run {
    fn end_sequence(&self, begun: Instant) {
        if begun >= self.counted_from {
            let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.sequence_ns.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(ns);
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_at_the_rate_asked_for_and_again_with_the_same_seed() {
        let of = |seed| arrivals(1_000.0, Duration::from_secs(20), seed);
        let found = of(1);
        assert!((19_000..21_000).contains(&found.len()), "{}", found.len());
        assert!(found.is_sorted());
        assert_eq!(found, of(1));
        assert_ne!(found, of(2));
    }
}

//! Runs one step against an open database: prefill, start all threads at once, time them, wait
//! until the engine is quiet, and check the records.
//!
//! How time is taken
//! - Throughput is all operations over the time from the first thread's start to the last one's
//!   end; the clock is read for it twice a thread.
//! - Writes: one clock read an operation, each sample running from the end of the one before. In
//!   open loop, each runs from the moment at which the transaction was due (see `schedule`).
//! - `get`: every 16th operation is timed by itself, so that reading the clock (about 25 ns) is not
//!   what is measured.
//! - `iterate`: blocks of 64 entries are timed, and count as 64 samples of the block's mean.
//!
//! Invariants
//! - Threads only share the target: keys, values, buffers and histograms are each thread's own.
//! - All threads have their sessions before the first operation of any.
//! - A prefill is part of no time and no cost: it is on disk before the first operation.
//! - Costs run from that start to the end of a sync after the last operation: work that an engine
//!   puts off is in them. Throughput does not wait for that sync.
//!
//! Not here: rounds, directories, and reports.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::engine::args::Plan;
use crate::engine::keys::{self, KeySpace, Stride};
use crate::engine::targets::{Session, Target, WriteOps};
use crate::engine::workload::{Mode, Step, Workload};
use crate::measure::cost::{self, Meter, Usage};
use crate::measure::schedule::{self, Schedule};
use crate::measure::{Error, Result};

/// Operations of `get` of which one is timed by itself.
pub(crate) const GET_SAMPLE_EVERY: u64 = 16;
/// Entries of `iterate` that are timed together.
pub(crate) const ITERATE_BLOCK: u64 = 64;
/// Records in a transaction of the prefill.
const PREFILL_BATCH: u64 = 10_000;
/// Records of each writer that are looked up after a write workload.
const AUDIT_RECORDS_MAX: u64 = 10_000;
/// Longest latency told apart, in nanoseconds: ten minutes. Longer ones count as this.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// What one workload did in one step, over all of its threads.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) workload: Workload,
    pub(crate) ops: u64,
    /// From the first thread's start to the last one's end.
    pub(crate) elapsed: Duration,
    pub(crate) latency_ns: Histogram<u64>,
    /// Processor time of these threads themselves.
    pub(crate) cpu_ns: u64,
    /// Reads that found nothing or the wrong value, and deletes that found nothing.
    pub(crate) faults: u64,
}

/// What a step did and what it cost.
#[derive(Debug)]
pub(crate) struct StepOutcome {
    pub(crate) read: Option<Outcome>,
    pub(crate) write: Option<Outcome>,
    /// How long the sync after the last operation took.
    pub(crate) quieting: Duration,
    pub(crate) usage: Usage,
    pub(crate) memory_bytes: Option<u64>,
    /// Records that `--prefill` put there before.
    pub(crate) prefilled: u64,
}

/// Where a writer's serial numbers begin: each writer has two key spaces, after the one for
/// readers. Behind those of all writers come the records of `--prefill`.
#[derive(Debug, Clone, Copy)]
struct Spaces {
    a_first: u64,
    b_first: u64,
}

impl Spaces {
    fn of_writer(writer: u32, n: u64) -> Self {
        let a = 1 + 2 * u64::from(writer);
        Self { a_first: a * n, b_first: (a + 1) * n }
    }
}

/// Runs `step`. `readers_loaded` says whether the readers' key space is there already, and is set
/// once it is.
pub(crate) fn run_step(
    target: &dyn Target,
    plan: &Plan,
    mode: Mode,
    step: &Step,
    readers_loaded: &mut bool,
) -> Result<StepOutcome> {
    if step.read.is_some() && !*readers_loaded && target.keeps_records() {
        prefill(target, plan, 0, plan.n)?;
        *readers_loaded = true;
    }
    let prefilled = if step.builds_on_records() && target.keeps_records() { plan.prefill } else { 0 };
    let prefill_first = Spaces::of_writer(step.writers, plan.n).a_first;
    prefill(target, plan, prefill_first, prefilled)?;
    if step.write == Some(Workload::Delete) && target.keeps_records() {
        for writer in 0..step.writers {
            prefill(target, plan, Spaces::of_writer(writer, plan.n).a_first, plan.n)?;
        }
    }
    target.sync()?;

    let mut outcome = run_threads(target, plan, mode, step)?;
    outcome.prefilled = prefilled;
    if let Some(write) = outcome.write.as_mut()
        && target.keeps_records()
    {
        let mut faults = 0;
        for writer in 0..step.writers {
            faults += audit(target, plan, mode, write.workload, Spaces::of_writer(writer, plan.n))?;
        }
        faults += missing(target, plan, prefill_first, prefilled)?;
        let written = write_ops(plan, mode, write.workload);
        let of_writer = if write.workload == Workload::Delete { plan.n - written } else { written };
        let of_readers = if *readers_loaded { plan.n } else { 0 };
        let expected = of_readers + prefilled + u64::from(step.writers) * of_writer;
        // A record that a look-up does not find is missing in the count, too.
        write.faults += faults.max(count(target, plan)?.abs_diff(expected));
    }
    Ok(outcome)
}

/// Inserts `records` records from serial number `first` on. Their keys are in no order.
fn prefill(target: &dyn Target, plan: &Plan, first: u64, records: u64) -> Result<()> {
    let mut session = target.session()?;
    let (mut key, mut value) = (vec![0; plan.key_bytes], vec![0; plan.value_bytes]);
    for batch in (0..records).step_by(PREFILL_BATCH as usize) {
        session.transact(&mut |txn| {
            for serial in batch..(batch + PREFILL_BATCH).min(records) {
                plan.keys.write_key(first + serial, &mut key);
                keys::write_value(&key, &mut value);
                txn.set(&key, &value)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// How many operations each writer does.
fn write_ops(plan: &Plan, mode: Mode, workload: Workload) -> u64 {
    match (mode, workload) {
        (Mode::Sync, Workload::Batch) => plan.n.min(plan.sync_n.saturating_mul(plan.batch.into())),
        (Mode::Sync, _) => plan.n.min(plan.sync_n),
        _ => plan.n,
    }
}

/// What one thread returns at its end.
struct Tally {
    ops: u64,
    faults: u64,
    latency_ns: Histogram<u64>,
    cpu_ns: u64,
    start: Instant,
    end: Instant,
}

/// What one thread counts while it works.
struct Counts {
    ops: u64,
    faults: u64,
    latency_ns: Histogram<u64>,
}

impl Counts {
    fn new() -> Self {
        Self { ops: 0, faults: 0, latency_ns: latency_histogram() }
    }
}

fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("these bounds are allowed")
}

fn run_threads(target: &dyn Target, plan: &Plan, mode: Mode, step: &Step) -> Result<StepOutcome> {
    let threads = step.readers + step.writers;
    let barrier = Barrier::new(threads as usize + 1);
    let writers_left = AtomicU32::new(step.writers);
    let (barrier, writers_left) = (&barrier, &writers_left);

    let (before, reads, writes) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..step.readers)
            .map(|reader| {
                scope.spawn(move || {
                    let workload = step.read.expect("readers have a read workload");
                    let until = match step.writers {
                        0 => Until::Ops(plan.n),
                        _ => Until::WritersEnd(writers_left),
                    };
                    let first = plan.n / u64::from(step.readers) * u64::from(reader);
                    timed(target, barrier, |session, counts| match workload {
                        Workload::Iterate => iterate(session, plan, until, counts, target.keeps_records()),
                        _ => get(session, plan, until, first, counts),
                    })
                })
            })
            .collect();
        let writers: Vec<_> = (0..step.writers)
            .map(|writer| {
                scope.spawn(move || {
                    let _leave = Leave(writers_left);
                    let workload = step.write.expect("writers have a write workload");
                    let ops = write_ops(plan, mode, workload);
                    let per_txn = if workload == Workload::Batch { u64::from(plan.batch) } else { 1 };
                    let schedule = step.rate.map(|rate| {
                        schedule::wake_up_punctually();
                        Schedule::new(rate / per_txn as f64, writer, step.writers)
                    });
                    let quad = Quad::new(plan, Spaces::of_writer(writer, plan.n));
                    timed(target, barrier, |session, counts| {
                        write(session, workload, (ops, per_txn), schedule, quad, counts)
                    })
                })
            })
            .collect();

        barrier.wait();
        cost::reset_memory_peak();
        let before = Meter::now();
        barrier.wait();
        let join = |threads: Vec<std::thread::ScopedJoinHandle<'_, Result<Tally>>>| -> Result<Vec<Tally>> {
            let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            results.into_iter().map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        };
        let writes = join(writers);
        (before, join(readers), writes)
    });
    let (reads, writes) = (reads?, writes?);

    let quieting = Instant::now();
    target.sync()?;
    let quieting = quieting.elapsed();
    let usage = Meter::now().since(&before);
    Ok(StepOutcome {
        read: step.read.map(|workload| combine(workload, &reads)),
        write: step.write.map(|workload| combine(workload, &writes)),
        quieting,
        usage,
        memory_bytes: cost::memory_peak_bytes(),
        prefilled: 0,
    })
}

/// Counts a writer as ended, however its thread ends: readers beside it wait for that.
struct Leave<'a>(&'a AtomicU32);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Opens a session, waits for the others, works.
fn timed(
    target: &dyn Target,
    barrier: &Barrier,
    work: impl FnOnce(&mut dyn Session, &mut Counts) -> Result<()>,
) -> Result<Tally> {
    let session = target.session();
    let mut counts = Counts::new();
    barrier.wait();
    barrier.wait();
    let mut session = session?;
    let cpu_ns = cost::thread_cpu_ns();
    let start = Instant::now();
    work(session.as_mut(), &mut counts)?;
    let end = Instant::now();
    let cpu_ns = cost::thread_cpu_ns() - cpu_ns;
    let Counts { ops, faults, latency_ns } = counts;
    Ok(Tally { ops, faults, latency_ns, cpu_ns, start, end })
}

fn combine(workload: Workload, tallies: &[Tally]) -> Outcome {
    let mut latency_ns = latency_histogram();
    for tally in tallies {
        latency_ns.add(&tally.latency_ns).expect("all histograms have the same bounds");
    }
    let start = tallies.iter().map(|tally| tally.start).min();
    let end = tallies.iter().map(|tally| tally.end).max();
    Outcome {
        workload,
        ops: tallies.iter().map(|tally| tally.ops).sum(),
        elapsed: start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start),
        latency_ns,
        cpu_ns: tallies.iter().map(|tally| tally.cpu_ns).sum(),
        faults: tallies.iter().map(|tally| tally.faults).sum(),
    }
}

/// How long a reader reads.
#[derive(Clone, Copy)]
enum Until<'a> {
    /// A fixed number of operations.
    Ops(u64),
    /// While this many writers are at work beside it, and at least one sample.
    WritersEnd(&'a AtomicU32),
}

impl Until<'_> {
    /// How many operations come next, given how many are done: none at the end, at most `most`.
    fn next(self, done: u64, most: u64) -> u64 {
        match self {
            Self::Ops(ops) => most.min(ops.saturating_sub(done)),
            Self::WritersEnd(writers_left) if done > 0 && writers_left.load(Ordering::Relaxed) == 0 => 0,
            Self::WritersEnd(_) => most,
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn get(session: &mut dyn Session, plan: &Plan, until: Until<'_>, first: u64, counts: &mut Counts) -> Result<()> {
    let mut serials = Stride::new(plan.n, first);
    let mut key = vec![0; plan.key_bytes];
    let mut get_one = |session: &mut dyn Session, counts: &mut Counts| -> Result<()> {
        plan.keys.write_key(serials.next(), &mut key);
        let mut right = false;
        session.get(&key, &mut |value| right = keys::is_value_of(&key, value, plan.value_bytes))?;
        counts.faults += u64::from(!right);
        counts.ops += 1;
        Ok(())
    };
    loop {
        let ops = until.next(counts.ops, GET_SAMPLE_EVERY);
        if ops == 0 {
            return Ok(());
        }
        let start = Instant::now();
        get_one(session, counts)?;
        counts.latency_ns.saturating_record(nanoseconds(start.elapsed()));
        for _ in 1..ops {
            get_one(session, counts)?;
        }
    }
}

fn iterate(session: &mut dyn Session, plan: &Plan, until: Until<'_>, counts: &mut Counts, ordered: bool) -> Result<()> {
    let mut restarts = 0_u64;
    let mut last_key = Vec::with_capacity(plan.key_bytes);
    let mut left = until.next(0, ITERATE_BLOCK);
    let mut block = left;
    let mut start = Instant::now();
    session.walk(&mut |key, value| {
        counts.faults += u64::from(!keys::is_value_of(key, value, plan.value_bytes));
        counts.ops += 1;
        left -= 1;
        if left > 0 {
            return true;
        }
        let now = Instant::now();
        counts.latency_ns.saturating_record_n(nanoseconds(now - start) / block, block);
        start = now;
        restarts += u64::from(key < last_key.as_slice());
        last_key.clear();
        last_key.extend_from_slice(key);
        left = until.next(counts.ops, ITERATE_BLOCK);
        block = left;
        left > 0
    })?;
    if let Until::Ops(ops) = until {
        // The n records were visited once each: a walk that started over has lost some.
        counts.faults += ops - counts.ops + if ordered { restarts } else { 0 };
    }
    Ok(())
}

/// The buffers of a writer, and the quad of operations that `crud` and `batch` are made of.
struct Quad<'a> {
    keys: &'a KeySpace,
    spaces: Spaces,
    key_a: Vec<u8>,
    key_b: Vec<u8>,
    value: Vec<u8>,
    faults: u64,
}

impl<'a> Quad<'a> {
    fn new(plan: &'a Plan, spaces: Spaces) -> Self {
        let key = vec![0; plan.key_bytes];
        Self { keys: &plan.keys, spaces, key_a: key.clone(), key_b: key, value: vec![0; plan.value_bytes], faults: 0 }
    }

    /// SET b, SET a, DELETE b, GET a.
    fn apply(&mut self, serial: u64, txn: &mut dyn WriteOps) -> Result<()> {
        self.keys.write_key(self.spaces.b_first + serial, &mut self.key_b);
        keys::write_value(&self.key_b, &mut self.value);
        txn.set(&self.key_b, &self.value)?;
        self.prepare_a(serial);
        txn.set(&self.key_a, &self.value)?;
        let deleted = txn.delete(&self.key_b)?;
        let mut right = false;
        txn.get(&self.key_a, &mut |value| right = keys::is_value_of(&self.key_a, value, self.value.len()))?;
        self.faults += u64::from(!deleted) + u64::from(!right);
        Ok(())
    }

    fn prepare_a(&mut self, serial: u64) {
        self.keys.write_key(self.spaces.a_first + serial, &mut self.key_a);
        keys::write_value(&self.key_a, &mut self.value);
    }
}

fn write(
    session: &mut dyn Session,
    workload: Workload,
    (ops, per_txn): (u64, u64),
    schedule: Option<Schedule>,
    mut quad: Quad<'_>,
    counts: &mut Counts,
) -> Result<()> {
    let start = Instant::now();
    let mut previous = start;
    for first in (0..ops).step_by(usize::try_from(per_txn).expect("a batch fits memory")) {
        if let Some(schedule) = &schedule {
            previous = schedule.wait(start, first / per_txn);
        }
        let last = (first + per_txn).min(ops);
        match workload {
            Workload::Set => {
                quad.prepare_a(first);
                session.set(&quad.key_a, &quad.value)?;
            }
            Workload::Delete => {
                quad.keys.write_key(quad.spaces.a_first + first, &mut quad.key_a);
                counts.faults += u64::from(!session.delete(&quad.key_a)?);
            }
            Workload::Crud => session.transact(&mut |txn| quad.apply(first, txn))?,
            Workload::Batch => {
                session.transact(&mut |txn| (first..last).try_for_each(|serial| quad.apply(serial, txn)))?
            }
            Workload::Get | Workload::Iterate => return Err(Error::usage("writers do not read")),
        }
        counts.ops += last - first;
        let now = Instant::now();
        counts.latency_ns.saturating_record(nanoseconds(now - previous));
        previous = now;
    }
    counts.faults += quad.faults;
    Ok(())
}

/// Looks up some of a writer's records after its workload. Returns how many are missing, wrong, or
/// there though they were deleted.
fn audit(target: &dyn Target, plan: &Plan, mode: Mode, workload: Workload, spaces: Spaces) -> Result<u64> {
    let mut session = target.session()?;
    let ops = write_ops(plan, mode, workload);
    let mut serials = Stride::new(ops, 0);
    let mut key = vec![0; plan.key_bytes];
    let mut faults = 0;
    let mut look_up = |serial: u64, expected: bool| -> Result<()> {
        plan.keys.write_key(serial, &mut key);
        let mut right = false;
        let found = session.get(&key, &mut |value| right = keys::is_value_of(&key, value, plan.value_bytes))?;
        faults += u64::from(found != expected || found && !right);
        Ok(())
    };
    for _ in 0..ops.min(AUDIT_RECORDS_MAX) {
        let serial = serials.next();
        look_up(spaces.a_first + serial, workload != Workload::Delete)?;
        if matches!(workload, Workload::Crud | Workload::Batch) {
            look_up(spaces.b_first + serial, false)?;
        }
    }
    Ok(faults)
}

/// Looks up some of the `records` records from serial number `first` on. Returns how many are
/// missing or wrong.
fn missing(target: &dyn Target, plan: &Plan, first: u64, records: u64) -> Result<u64> {
    if records == 0 {
        return Ok(0);
    }
    let mut session = target.session()?;
    let mut serials = Stride::new(records, 0);
    let mut key = vec![0; plan.key_bytes];
    let mut faults = 0;
    for _ in 0..records.min(AUDIT_RECORDS_MAX) {
        plan.keys.write_key(first + serials.next(), &mut key);
        let mut right = false;
        session.get(&key, &mut |value| right = keys::is_value_of(&key, value, plan.value_bytes))?;
        faults += u64::from(!right);
    }
    Ok(faults)
}

/// The number of records with the right value that a walk over all of them finds.
fn count(target: &dyn Target, plan: &Plan) -> Result<u64> {
    let mut records = 0;
    let mut last_key = Vec::with_capacity(plan.key_bytes);
    target.session()?.walk(&mut |key, value| {
        if key <= last_key.as_slice() {
            return false;
        }
        last_key.clear();
        last_key.extend_from_slice(key);
        records += u64::from(keys::is_value_of(key, value, plan.value_bytes));
        true
    })?;
    Ok(records)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::*;
    use crate::engine::targets::{EntryVisitor, TxnBody, ValueVisitor};

    /// Keeps records in memory, but forgets the one record that was the `loses`th to be set.
    struct Forgetful {
        records: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
        sets: Mutex<u64>,
        loses: u64,
    }

    impl Target for Forgetful {
        fn session(&self) -> Result<Box<dyn Session + '_>> {
            Ok(Box::new(self))
        }

        fn sync(&self) -> Result<()> {
            Ok(())
        }

        fn notes(&self) -> String {
            String::new()
        }
    }

    impl Session for &Forgetful {
        fn transact(&mut self, body: TxnBody<'_>) -> Result<()> {
            body(self)
        }

        fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
            Ok(self.records.lock().unwrap().get(key).map(|value| visit(value)).is_some())
        }

        fn walk(&mut self, visit: EntryVisitor<'_>) -> Result<()> {
            let records = self.records.lock().unwrap();
            while records.iter().all(|(key, value)| visit(key, value)) && !records.is_empty() {}
            Ok(())
        }
    }

    impl WriteOps for &Forgetful {
        fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
            let mut sets = self.sets.lock().unwrap();
            *sets += 1;
            if *sets != self.loses {
                self.records.lock().unwrap().insert(key.to_vec(), value.to_vec());
            }
            Ok(())
        }

        fn delete(&mut self, key: &[u8]) -> Result<bool> {
            Ok(self.records.lock().unwrap().remove(key).is_some())
        }

        fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
            Session::get(self, key, visit)
        }
    }

    #[test]
    fn a_record_lost_from_the_prefill_is_missed() {
        // More records than are looked up, so that only the count notices most of the missing ones.
        const PREFILL: u64 = 2 * AUDIT_RECORDS_MAX;
        let args = crate::parse(&format!("--n 100 --prefill {PREFILL}")).unwrap();
        let plan = Plan::new(&args).unwrap();
        for workload in [Workload::Batch, Workload::Crud, Workload::Delete] {
            let step = Step { read: None, readers: 0, write: Some(workload), writers: 1, rate: None };
            for (loses, faults) in [(0, 0), (1, 1), (2, 1), (PREFILL, 1)] {
                let target = Forgetful { records: Mutex::default(), sets: Mutex::default(), loses };
                let outcome = run_step(&target, &plan, Mode::Lazy, &step, &mut false).unwrap();
                assert_eq!(outcome.prefilled, PREFILL);
                assert_eq!(outcome.write.unwrap().faults, faults, "{workload}, losing {loses}");
            }
        }
    }

    fn tally(latencies_ns: &[u64], start: Instant, end: Instant) -> Tally {
        let mut latency_ns = latency_histogram();
        for latency in latencies_ns {
            latency_ns.saturating_record(*latency);
        }
        Tally { ops: latencies_ns.len() as u64, faults: 1, latency_ns, cpu_ns: 5, start, end }
    }

    #[test]
    fn threads_are_combined_over_the_whole_time_and_all_samples() {
        let zero = Instant::now();
        let at = |seconds| zero + Duration::from_secs(seconds);
        let outcome = combine(Workload::Set, &[tally(&[10, 20], at(1), at(3)), tally(&[5_000], at(2), at(6))]);
        assert_eq!((outcome.ops, outcome.faults, outcome.cpu_ns), (3, 2, 10));
        assert_eq!(outcome.elapsed, Duration::from_secs(5));
        assert_eq!(outcome.latency_ns.len(), 3);
        assert_eq!(outcome.latency_ns.value_at_quantile(0.5), 20);
        assert!(outcome.latency_ns.max() >= 5_000);
    }

    #[test]
    fn a_latency_beyond_the_bounds_counts_as_the_longest() {
        let mut histogram = latency_histogram();
        histogram.saturating_record(u64::MAX);
        assert!(histogram.max() >= LATENCY_NS_MAX);
    }
}

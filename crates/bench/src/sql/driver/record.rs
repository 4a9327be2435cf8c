//! What was measured: histograms and counts, of each thread by itself, added up at the end.
//!
//! ```text
//! kind       committed, rolled back, retries, failed, unfinished; scheduled, admitted, wire (histograms of nanoseconds)
//! interval   transactions that ended in it, and how long they took, to a sixteenth
//! ```
//!
//! Invariants
//! 1. Adding two records adds all their counts, so it does not matter which thread, process or
//!    machine counted.
//! 2. Acknowledged transactions are counted from the first to the last one. Everything else is
//!    counted in the measured time only.
//! 3. Latency covers all transactions that were due: those that ended well, those that had no
//!    answer in time (with the time they waited), and those that had not ended at the end of the
//!    measured time (`unfinished`). Other failures have no latency: they answer something else.

use std::cell::Cell as ThreadCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use crate::sql::driver::Failures;
use crate::sql::driver::silence::Silence;
use crate::sql::target::{Counts, Failure, Kind};
use crate::sql::workload::{Acknowledged, TALLIES, Tally, Workload};

/// The shortest time in a histogram. Below it, clocks are measured and not databases.
const SHORTEST_NS: u64 = 100;
const LONGEST_NS: u64 = 600_000_000_000;
/// Significant digits.
const DIGITS: u8 = 3;
/// So many threads have counts of their own; more threads share them.
const PARTS: usize = 16;
/// The most intervals of a timeline. Each is a second long, or longer.
const INTERVALS_MAX: u64 = 600;

/// A histogram of nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, DIGITS).expect("bounds that are right at compile time")
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How one transaction ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Done { rolled_back: bool, tally: Tally },
    Failed(Failure),
}

/// How long one transaction took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) kind: u8,
    /// From when it was due; from when it had a session; with the target.
    pub(crate) scheduled: Duration,
    pub(crate) admitted: Duration,
    pub(crate) wire: Duration,
    pub(crate) retries: u32,
    /// Bytes of rows that the attempt which ended it has written.
    pub(crate) row_bytes: u64,
}

/// Of one kind of transaction.
#[derive(Debug, Clone)]
pub(crate) struct KindRecord {
    pub(crate) committed: u64,
    pub(crate) rolled_back: u64,
    pub(crate) failed: u64,
    pub(crate) retries: u64,
    /// Due, and not ended at the end of the measured time.
    pub(crate) unfinished: u64,
    pub(crate) scheduled: Histogram<u64>,
    pub(crate) admitted: Histogram<u64>,
    pub(crate) wire: Histogram<u64>,
}

impl KindRecord {
    pub(crate) fn new() -> Self {
        Self {
            committed: 0,
            rolled_back: 0,
            failed: 0,
            retries: 0,
            unfinished: 0,
            scheduled: histogram(),
            admitted: histogram(),
            wire: histogram(),
        }
    }

    pub(crate) fn ended(&self) -> u64 {
        self.committed + self.rolled_back
    }

    fn record(&mut self, sample: &Sample) {
        self.scheduled.saturating_record(nanoseconds(sample.scheduled));
        self.admitted.saturating_record(nanoseconds(sample.admitted));
        self.wire.saturating_record(nanoseconds(sample.wire));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.failed += other.failed;
        self.retries += other.retries;
        self.unfinished += other.unfinished;
        for (to, from) in [
            (&mut self.scheduled, &other.scheduled),
            (&mut self.admitted, &other.admitted),
            (&mut self.wire, &other.wire),
        ] {
            to.add(from).expect("histograms of the same bounds");
        }
    }
}

/// Parts of a power of two that the histogram of an interval tells apart.
const PARTS_LOG2: u32 = 4;
const BUCKETS: usize = (64 - PARTS_LOG2 as usize + 1) << PARTS_LOG2;

/// Transactions that ended within a part of the measured time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interval {
    pub(crate) ended: u64,
    pub(crate) failed: u64,
    /// Of scheduled latency; empty before the first.
    counts: Vec<u32>,
}

impl Interval {
    fn record(&mut self, ns: u64) {
        if self.counts.is_empty() {
            self.counts.resize(BUCKETS, 0);
        }
        self.ended += 1;
        self.counts[Self::bucket(ns)] += 1;
    }

    fn bucket(ns: u64) -> usize {
        if ns < 1 << PARTS_LOG2 {
            return ns as usize;
        }
        let shift = ns.ilog2() - PARTS_LOG2;
        ((shift as usize + 1) << PARTS_LOG2) + (ns >> shift) as usize - (1 << PARTS_LOG2)
    }

    /// What a share of all did not exceed, to a sixteenth, in nanoseconds.
    pub(crate) fn quantile_ns(&self, quantile: f64) -> u64 {
        let wanted = ((quantile * self.ended as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= wanted {
                if bucket < 1 << PARTS_LOG2 {
                    return bucket as u64;
                }
                let shift = (bucket >> PARTS_LOG2) as u32 - 1;
                let first = ((bucket & ((1 << PARTS_LOG2) - 1)) + (1 << PARTS_LOG2)) as u64;
                return ((first << shift) + ((1 << shift) - 1)).max(1);
            }
        }
        0
    }

    fn add(&mut self, other: &Self) {
        self.ended += other.ended;
        self.failed += other.failed;
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
        } else {
            self.counts.iter_mut().zip(&other.counts).for_each(|(to, from)| *to += from);
        }
    }
}

/// What one thread has counted.
#[derive(Debug)]
struct Part {
    kinds: Vec<KindRecord>,
    intervals: Vec<Interval>,
    tally: [u64; TALLIES],
    row_bytes: u64,
    lag: Histogram<u64>,
    failures: Failures,
    acknowledged: Acknowledged,
}

/// Counts for all threads.
#[derive(Debug)]
pub(crate) struct Recorder {
    parts: Vec<Mutex<Part>>,
    measured_from: Instant,
    measured_until: Instant,
    interval: Duration,
}

/// A number for each thread that records.
pub(super) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: ThreadCell<usize> = const { ThreadCell::new(usize::MAX) };
    }
    NUMBER.with(|number| {
        if number.get() == usize::MAX {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

impl Recorder {
    pub(crate) fn new(workload: &dyn Workload, measured_from: Instant, duration: Duration) -> Self {
        let kinds = workload.kinds().len();
        let interval = Duration::from_secs((duration.as_secs() / INTERVALS_MAX).max(1));
        let intervals = (duration.as_secs_f64() / interval.as_secs_f64()).ceil().max(1.0) as usize;
        let threads = std::thread::available_parallelism().map_or(4, usize::from) * 2;
        let part = || {
            Mutex::new(Part {
                kinds: vec![KindRecord::new(); kinds],
                intervals: vec![Interval::default(); intervals],
                tally: [0; TALLIES],
                row_bytes: 0,
                lag: histogram(),
                failures: BTreeMap::new(),
                acknowledged: Acknowledged { committed: vec![0; kinds], unknown: vec![0; kinds] },
            })
        };
        Self {
            parts: (0..threads.min(PARTS)).map(|_| part()).collect(),
            measured_from,
            measured_until: measured_from + duration,
            interval,
        }
    }

    fn part(&self) -> &Mutex<Part> {
        &self.parts[thread_number() % self.parts.len()]
    }

    fn is_measured(&self, now: Instant) -> bool {
        now >= self.measured_from && now < self.measured_until
    }

    /// How late the generator was with something that it waited for.
    pub(crate) fn lag(&self, lag: Duration) {
        if self.is_measured(Instant::now()) {
            self.part().lock().lag.saturating_record(nanoseconds(lag));
        }
    }

    pub(crate) fn record(&self, now: Instant, sample: &Sample, ended: Ended) {
        let kind = usize::from(sample.kind);
        let mut part = self.part().lock();
        match &ended {
            Ended::Done { rolled_back: false, .. } => part.acknowledged.committed[kind] += 1,
            Ended::Failed(failure) if failure.kind() == Kind::Unknown => part.acknowledged.unknown[kind] += 1,
            _ => {}
        }
        if !self.is_measured(now) {
            let is_unfinished = now.checked_sub(sample.scheduled).is_some_and(|due| due < self.measured_until)
                && now >= self.measured_until;
            if is_unfinished {
                part.kinds[kind].unfinished += 1;
                part.kinds[kind].retries += u64::from(sample.retries);
                part.kinds[kind].record(sample);
            }
            if let Ended::Failed(failure) = ended {
                part.kinds[kind].failed += u64::from(is_unfinished);
                note(&mut part.failures, &failure, u64::from(is_unfinished));
            }
            return;
        }
        let place = ((now - self.measured_from).as_secs_f64() / self.interval.as_secs_f64()) as usize;
        let place = place.min(part.intervals.len() - 1);
        let record = &mut part.kinds[kind];
        record.retries += u64::from(sample.retries);
        match ended {
            Ended::Done { rolled_back, tally } => {
                record.committed += u64::from(!rolled_back);
                record.rolled_back += u64::from(rolled_back);
                record.record(sample);
                part.intervals[place].record(nanoseconds(sample.scheduled));
                part.tally.iter_mut().zip(tally).for_each(|(sum, more)| *sum += u64::from(more));
                // The changes of a transaction that was rolled back are not recorded.
                part.row_bytes += if rolled_back { 0 } else { sample.row_bytes };
            }
            Ended::Failed(failure) => {
                record.failed += 1;
                if failure.is_timeout() {
                    record.record(sample);
                }
                part.intervals[place].failed += 1;
                note(&mut part.failures, &failure, 1);
            }
        }
    }

    /// How long ago something was due when the measured time ended, or the run did before; nothing
    /// if it was due later.
    pub(crate) fn age_at_end(&self, due: Instant, over_at: Instant) -> Option<Duration> {
        over_at.min(self.measured_until).checked_duration_since(due)
    }

    /// Counts transactions that were due so long before the end, and have not begun, or not ended
    /// by now.
    pub(crate) fn leave(&self, kind: u8, age: Duration, count: u64) {
        let mut part = self.part().lock();
        let record = &mut part.kinds[usize::from(kind)];
        record.unfinished += count;
        record.scheduled.saturating_record_n(nanoseconds(age), count);
    }

    /// Transactions that have ended in the measured time so far, and those that failed.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        let mut sums = (0, 0);
        for part in &self.parts {
            let part = part.lock();
            sums.0 += part.kinds.iter().map(KindRecord::ended).sum::<u64>();
            sums.1 += part.kinds.iter().map(|kind| kind.failed).sum::<u64>();
        }
        sums
    }

    /// The last interval that is over, if there is one.
    pub(crate) fn latest(&self, now: Instant) -> Option<Interval> {
        let at = now.checked_duration_since(self.measured_from)?.as_secs_f64() / self.interval.as_secs_f64();
        let place = (at as usize).checked_sub(1)?;
        let mut sum = Interval::default();
        for part in &self.parts {
            sum.add(part.lock().intervals.get(place)?);
        }
        Some(sum)
    }

    /// Adds everything up.
    pub(crate) fn finish(&self, ended_at: Instant) -> Measured {
        let mut parts = self.parts.iter().map(Mutex::lock);
        let first = parts.next().expect("there is at least one part");
        let mut measured = Measured {
            seconds: ended_at.min(self.measured_until).saturating_duration_since(self.measured_from).as_secs_f64(),
            interval_seconds: self.interval.as_secs_f64(),
            kinds: first.kinds.clone(),
            intervals: first.intervals.clone(),
            tally: first.tally,
            row_bytes: first.row_bytes,
            lag: first.lag.clone(),
            failures: first.failures.clone(),
            acknowledged: first.acknowledged.clone(),
            ended_early: None,
            due: None,
            silence: Silence::default(),
            connections: 0,
            connections_max: None,
            is_patient: false,
            counts: Counts::default(),
            pools: Vec::new(),
        };
        for part in parts {
            measured.row_bytes += part.row_bytes;
            measured.kinds.iter_mut().zip(&part.kinds).for_each(|(to, from)| to.add(from));
            measured.intervals.iter_mut().zip(&part.intervals).for_each(|(to, from)| to.add(from));
            measured.tally.iter_mut().zip(&part.tally).for_each(|(to, from)| *to += from);
            measured.lag.add(&part.lag).expect("histograms of the same bounds");
            for (state, (count, message)) in &part.failures {
                measured.failures.entry(state.clone()).or_insert((0, message.clone())).0 += count;
            }
            measured.acknowledged.add(&part.acknowledged);
        }
        measured
    }
}

fn note(failures: &mut Failures, failure: &Failure, count: u64) {
    let entry = failures.entry(failure.state().to_owned()).or_insert_with(|| (0, failure.message().to_owned()));
    entry.0 += count;
}

/// What a run came to.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// As long as was measured; shorter than planned if the run ended early.
    pub(crate) seconds: f64,
    pub(crate) interval_seconds: f64,
    pub(crate) kinds: Vec<KindRecord>,
    pub(crate) intervals: Vec<Interval>,
    pub(crate) tally: [u64; TALLIES],
    /// Bytes of rows that committed transactions have written.
    pub(crate) row_bytes: u64,
    /// How late the generator was, of what it waited for.
    pub(crate) lag: Histogram<u64>,
    pub(crate) failures: Failures,
    pub(crate) acknowledged: Acknowledged,
    /// Why the run did not come to its planned end.
    pub(crate) ended_early: Option<String>,
    /// Transactions that were due in the measured time, in open loop.
    pub(crate) due: Option<u64>,
    /// For how long clients waited and none was answered, in all.
    pub(crate) silence: Silence,
    /// Whether the threads interrupted no server when they woke.
    pub(crate) is_patient: bool,
    /// Connections that were made.
    pub(crate) connections: u32,
    /// Connections that there were at the most, if the target refused to take more.
    pub(crate) connections_max: Option<u32>,
    /// What the target counted.
    pub(crate) counts: Counts,
    /// CPU time of the generator's runtime by pool; of a database in process as well.
    pub(crate) pools: Vec<(String, Duration)>,
}

impl Measured {
    pub(crate) fn ended(&self) -> u64 {
        self.kinds.iter().map(KindRecord::ended).sum()
    }

    pub(crate) fn failed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.failed).sum()
    }

    pub(crate) fn unfinished(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.unfinished).sum()
    }

    /// What a share of those that ended well did not exceed, to a sixteenth.
    pub(crate) fn quantile_of_ended(&self, quantile: f64) -> Duration {
        let mut all = Interval::default();
        self.intervals.iter().for_each(|interval| all.add(interval));
        Duration::from_nanos(all.quantile_ns(quantile))
    }

    /// A second.
    pub(crate) fn throughput(&self) -> f64 {
        self.ended() as f64 / self.seconds.max(1e-9)
    }

    /// Of all kinds, from when transactions were due.
    pub(crate) fn scheduled(&self) -> Histogram<u64> {
        let mut sum = histogram();
        self.kinds.iter().for_each(|kind| sum.add(&kind.scheduled).expect("histograms of the same bounds"));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_tell_latencies_to_a_sixteenth() {
        for ns in [1_u64, 15, 16, 17, 999, 12_345, 1_000_000, 77_777_777_777] {
            let mut interval = Interval::default();
            interval.record(ns);
            let told = interval.quantile_ns(0.99);
            assert!(told >= ns && told as f64 <= ns as f64 * (1.0 + 1.0 / 16.0), "{ns}: {told}");
        }
        let mut interval = Interval::default();
        (1..=1000).for_each(|us| interval.record(us * 1000));
        let p99 = interval.quantile_ns(0.99) as f64;
        assert!((990_000.0..=990_000.0 * 1.07).contains(&p99), "{p99}");
        let mut sum = Interval::default();
        sum.add(&interval);
        sum.add(&interval);
        assert_eq!((sum.ended, sum.quantile_ns(0.99)), (2000, interval.quantile_ns(0.99)));
    }

    #[test]
    fn the_latest_interval_is_the_one_that_is_over() {
        let tpcc = crate::sql::workload::tpcc::Tpcc::new(crate::sql::workload::tpcc::Scale::new(1), 42);
        let from = Instant::now();
        let recorder = Recorder::new(&tpcc, from, Duration::from_secs(3));
        let at = |ms: u64| from + Duration::from_millis(ms);
        let took = Duration::from_millis(7);
        let sample = Sample { kind: 0, scheduled: took, admitted: took, wire: took, retries: 0, row_bytes: 0 };
        for ms in [100, 200, 1_500] {
            recorder.record(at(ms), &sample, Ended::Done { rolled_back: false, tally: [0; TALLIES] });
        }
        let ended = |ms| recorder.latest(at(ms)).map(|interval| interval.ended);
        assert_eq!([ended(900), ended(1_100), ended(2_100), ended(3_100)], [None, Some(2), Some(1), Some(0)]);
        assert_eq!([ended(4_100), recorder.latest(from - took).map(|_| 0)], [None; 2]);
        assert!(recorder.latest(at(1_100)).unwrap().quantile_ns(0.99) >= 7_000_000);
    }

    #[test]
    fn histograms_add_up_to_what_one_would_have_counted() {
        let (mut one, mut other, mut both) = (KindRecord::new(), KindRecord::new(), KindRecord::new());
        for value in 1..10_000_u64 {
            let ns = value * value;
            if value % 3 == 0 { &mut one } else { &mut other }.scheduled.saturating_record(ns);
            both.scheduled.saturating_record(ns);
        }
        one.add(&other);
        assert_eq!(one.scheduled, both.scheduled);
    }
}

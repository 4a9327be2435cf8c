//! What happened so far: counted where it happens, added up when somebody asks.
//!
//! Invariants
//! 1. A thread counts in words of its own, which no other thread writes. Adding up reads the words
//!    of all.
//! 2. No gauge has to be kept up to date, so nothing has to wake up for one.
//!
//! Not here: averages and rates, which follow from two readings.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::pool::Pool;

/// Parts of a power of two that a histogram tells apart, as a power of two.
const PARTS_LOG2: u32 = 3;
const PARTS: usize = 1 << PARTS_LOG2;
const BUCKETS: usize = (64 - PARTS_LOG2 as usize + 1) * PARTS;

/// One of this number of activations is timed.
pub(crate) const ACTIVATIONS_A_SAMPLE: u32 = 64;

/// A word that one thread adds to and all may read.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// By the one thread that writes.
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// By any thread.
    pub(crate) fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Durations, to an eighth of their size, that any thread adds to: 4 KB.
#[derive(Debug)]
pub struct AtomicHistogram(Box<[AtomicU64]>);

impl Default for AtomicHistogram {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

fn bucket(ns: u64) -> usize {
    if ns < PARTS as u64 {
        return ns as usize;
    }
    let shift = ns.ilog2() - PARTS_LOG2;
    (shift as usize + 1) * PARTS + (ns >> shift) as usize - PARTS
}

/// The largest duration of a bucket.
fn upper_ns(bucket: usize) -> u64 {
    if bucket < PARTS {
        return bucket as u64;
    }
    let shift = (bucket / PARTS - 1) as u32;
    let first = ((bucket % PARTS + PARTS) as u64) << shift;
    first + ((1 << shift) - 1)
}

impl AtomicHistogram {
    /// Counts a duration, in nanoseconds.
    pub fn record(&self, ns: u64) {
        self.0[bucket(ns)].fetch_add(1, Relaxed);
    }

    /// Adds what was counted so far to a sum.
    pub fn add_to(&self, sum: &mut Histogram) {
        for (to, from) in sum.counts.iter_mut().zip(&self.0) {
            *to += from.load(Relaxed);
        }
    }
}

/// Durations as they were at one time, to an eighth of their size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }
}

impl Histogram {
    /// How many durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The duration that a part `quantile` of all, from 0 to 1, does not exceed by more than an
    /// eighth; zero if there are none.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Duration {
        let wanted = (quantile.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(upper_ns(bucket));
            }
        }
        Duration::ZERO
    }

    /// How many durations were at most this long, to an eighth.
    #[must_use]
    pub fn count_up_to(&self, limit: Duration) -> u64 {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.counts.iter().enumerate().filter(|&(bucket, _)| upper_ns(bucket) <= limit_ns).map(|(_, count)| count).sum()
    }
}

/// What a thread counts of one pool.
#[derive(Debug, Default)]
pub(crate) struct PoolCounts {
    pub(crate) polls: Count,
    pub(crate) cpu_ns: Count,
    pub(crate) out_of_turn: Count,
    pub(crate) yields: Count,
    pub(crate) activation: AtomicHistogram,
}

/// What a thread counts.
#[derive(Debug, Default)]
pub(crate) struct ThreadCounts {
    pub(crate) pools: [PoolCounts; Pool::COUNT],
    pub(crate) parked_ns: Count,
    pub(crate) wake_ups: Count,
    pub(crate) called: Count,
    pub(crate) gave_way: Count,
    pub(crate) watched: Count,
    pub(crate) moved: Count,
}

/// What any thread counts.
#[derive(Debug, Default)]
pub(crate) struct SharedCounts {
    pub(crate) panics: [Count; Pool::COUNT],
    pub(crate) ping: [AtomicHistogram; Pool::COUNT],
    pub(crate) ping_work: AtomicHistogram,
    pub(crate) alarms_set: Count,
    /// Times a thread's role was handed over.
    pub(crate) handed_over: Count,
    /// What threads did that had no role.
    pub(crate) aside: [AsideCounts; Pool::COUNT],
}

/// What threads without a role count of one pool, all together.
#[derive(Debug, Default)]
pub(crate) struct AsideCounts {
    pub(crate) polls: Count,
    pub(crate) cpu_ns: Count,
}

/// What happened in a pool so far.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PoolCounters {
    /// Tasks that are not over.
    pub live: usize,
    /// Tasks that wait for a thread now, about.
    pub queued: usize,
    /// Times a task was run until it waited, yielded or was over.
    pub polls: u64,
    /// CPU time.
    pub cpu: Duration,
    /// Polls that came before those of a higher pool, because the pool was owed its share.
    pub out_of_turn: u64,
    /// Times a task was told that its slice is over.
    pub preempted: u64,
    /// Tasks that panicked.
    pub panics: u64,
    /// From the moment a task could run until it did; one of 64 is measured.
    pub activation: Histogram,
    /// The same for the runtime's own pings.
    pub ping: Histogram,
}

/// What happened in a runtime so far.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Counters {
    /// By pool, in the order of [`Pool::ALL`].
    pub pools: [PoolCounters; Pool::COUNT],
    /// Threads that serve the pools.
    pub threads: usize,
    /// Time that threads slept, all together, up to the last time each of them woke up.
    pub parked: Duration,
    /// Times a thread woke up, for whatever reason.
    pub wake_ups: u64,
    /// Of these, because another thread had work for it.
    pub called: u64,
    /// Of these, because events came so soon that it had not slept.
    pub watched: u64,
    /// Times a thread that had been woken behind another was moved to another CPU.
    pub moved: u64,
    /// Times a long task yielded its CPU to threads of any process.
    pub gave_way: u64,
    /// Times a thread went on with a step that was too long, and another thread took over its role.
    pub handed_over: u64,
    /// Times the alarm of timers was set.
    pub alarms_set: u64,
    /// Timers that wait for their time.
    pub timers: usize,
    /// Timers armed so far.
    pub timers_armed: u64,
    /// Timers fired so far.
    pub timers_fired: u64,
    /// Open sockets.
    pub sockets: usize,
    /// Threads that run blocking calls, or wait for one.
    pub blocking_threads: usize,
    /// Blocking calls so far.
    pub blocking_calls: u64,
    /// How long the work of a ping takes: longer than usual means that the machine is shared.
    pub ping_work: Histogram,
}

impl Counters {
    pub(crate) fn add_thread(&mut self, thread: &ThreadCounts) {
        for (sum, counts) in self.pools.iter_mut().zip(&thread.pools) {
            sum.polls += counts.polls.get();
            sum.cpu += Duration::from_nanos(counts.cpu_ns.get());
            sum.out_of_turn += counts.out_of_turn.get();
            sum.preempted += counts.yields.get();
            counts.activation.add_to(&mut sum.activation);
        }
        self.threads += 1;
        self.parked += Duration::from_nanos(thread.parked_ns.get());
        self.wake_ups += thread.wake_ups.get();
        self.called += thread.called.get();
        self.watched += thread.watched.get();
        self.moved += thread.moved.get();
        self.gave_way += thread.gave_way.get();
    }

    pub(crate) fn add_shared(&mut self, shared: &SharedCounts) {
        for pool in Pool::ALL {
            let sum = &mut self.pools[pool.index()];
            sum.panics = shared.panics[pool.index()].get();
            let aside = &shared.aside[pool.index()];
            sum.polls += aside.polls.get();
            sum.cpu += Duration::from_nanos(aside.cpu_ns.get());
            shared.ping[pool.index()].add_to(&mut sum.ping);
        }
        shared.ping_work.add_to(&mut self.ping_work);
        self.alarms_set = shared.alarms_set.get();
        self.handed_over = shared.handed_over.get();
    }

    /// The counters in the text format of Prometheus.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        let seconds = |duration: &Duration| duration.as_secs_f64();
        let mut by_pool = |name: &str, kind: &str, help: &str, value: &dyn Fn(&PoolCounters) -> f64| {
            let _ = writeln!(text, "# HELP colibri_runtime_{name} {help}\n# TYPE colibri_runtime_{name} {kind}");
            for (pool, counters) in Pool::ALL.iter().zip(&self.pools) {
                let _ = writeln!(text, "colibri_runtime_{name}{{pool=\"{pool}\"}} {}", value(counters));
            }
        };
        by_pool("tasks", "gauge", "Tasks that are not over.", &|pool| pool.live as f64);
        by_pool("queue_length", "gauge", "Tasks that wait for a thread.", &|pool| pool.queued as f64);
        by_pool("polls_total", "counter", "Times a task was run.", &|pool| pool.polls as f64);
        by_pool("cpu_seconds_total", "counter", "CPU time of tasks.", &|pool| seconds(&pool.cpu));
        by_pool("out_of_turn_total", "counter", "Polls before those of a higher pool.", &|pool| {
            pool.out_of_turn as f64
        });
        by_pool("preempted_total", "counter", "Slices that were over.", &|pool| pool.preempted as f64);
        by_pool("panics_total", "counter", "Tasks that panicked.", &|pool| pool.panics as f64);
        for (name, help, of) in [
            (
                "activation",
                "From being able to run to running, one of 64.",
                (|pool| &pool.activation) as fn(&PoolCounters) -> &Histogram,
            ),
            ("ping", "The same for the runtime's own pings.", |pool| &pool.ping),
        ] {
            let _ = writeln!(
                text,
                "# HELP colibri_runtime_{name}_seconds {help}\n# TYPE colibri_runtime_{name}_seconds histogram"
            );
            for (pool, counters) in Pool::ALL.iter().zip(&self.pools) {
                write_histogram(&mut text, &format!("{name}_seconds"), &format!("pool=\"{pool}\","), of(counters));
            }
        }
        let _ = writeln!(text, "# HELP colibri_runtime_ping_work_seconds How long the work of a ping takes.");
        let _ = writeln!(text, "# TYPE colibri_runtime_ping_work_seconds histogram");
        write_histogram(&mut text, "ping_work_seconds", "", &self.ping_work);
        for (name, kind, help, value) in [
            ("threads", "gauge", "Threads that serve the pools.", self.threads as f64),
            ("parked_seconds_total", "counter", "Time that threads slept.", seconds(&self.parked)),
            ("wake_ups_total", "counter", "Times a thread woke up.", self.wake_ups as f64),
            ("called_total", "counter", "Times a thread was woken by another.", self.called as f64),
            ("watched_total", "counter", "Times events came before a thread slept.", self.watched as f64),
            ("moved_total", "counter", "Times a thread woken behind another was moved away.", self.moved as f64),
            (
                "gave_way_total",
                "counter",
                "Times a long task offered its CPU to other processes.",
                self.gave_way as f64,
            ),
            (
                "handed_over_total",
                "counter",
                "Times a step was too long, and another thread took over.",
                self.handed_over as f64,
            ),
            ("alarms_set_total", "counter", "Times the alarm of timers was set.", self.alarms_set as f64),
            ("timers", "gauge", "Timers that wait.", self.timers as f64),
            ("timers_armed_total", "counter", "Timers armed.", self.timers_armed as f64),
            ("timers_fired_total", "counter", "Timers fired.", self.timers_fired as f64),
            ("sockets", "gauge", "Open sockets.", self.sockets as f64),
            ("blocking_threads", "gauge", "Threads for blocking calls.", self.blocking_threads as f64),
            ("blocking_calls_total", "counter", "Blocking calls.", self.blocking_calls as f64),
        ] {
            let _ = writeln!(text, "# HELP colibri_runtime_{name} {help}\n# TYPE colibri_runtime_{name} {kind}");
            let _ = writeln!(text, "colibri_runtime_{name} {value}");
        }
        text
    }
}

/// Powers of four from a microsecond to a second.
fn write_histogram(text: &mut String, name: &str, labels: &str, histogram: &Histogram) {
    for exponent in 0..=10 {
        let limit = Duration::from_nanos(1_000 << (2 * exponent));
        let count = histogram.count_up_to(limit);
        let _ = writeln!(text, "colibri_runtime_{name}_bucket{{{labels}le=\"{}\"}} {count}", limit.as_secs_f64());
    }
    let count = histogram.count();
    let _ = writeln!(text, "colibri_runtime_{name}_bucket{{{labels}le=\"+Inf\"}} {count}");
    let braced = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.trim_end_matches(',')) };
    // The middle of each bucket stands for what is in it.
    let middle = |bucket: usize| (upper_ns(bucket) as f64 + bucket.checked_sub(1).map_or(0, upper_ns) as f64) / 2e9;
    let sum: f64 = histogram.counts.iter().enumerate().map(|(bucket, &count)| count as f64 * middle(bucket)).sum();
    let _ = writeln!(text, "colibri_runtime_{name}_sum{braced} {sum}\ncolibri_runtime_{name}_count{braced} {count}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_without_gaps() {
        let mut last = None;
        for bucket_index in 0..BUCKETS {
            let upper = upper_ns(bucket_index);
            assert_eq!(bucket(upper), bucket_index);
            if let Some(last) = last {
                assert_eq!(bucket(last + 1), bucket_index);
            }
            last = upper.checked_add(0).filter(|&upper| upper < u64::MAX);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_right_to_an_eighth() {
        let recorded = AtomicHistogram::default();
        (1..=10_000_u64).for_each(|us| recorded.record(us * 1_000));
        let mut histogram = Histogram::default();
        recorded.add_to(&mut histogram);
        assert_eq!(histogram.count(), 10_000);
        for (quantile, us) in [(0.5, 5_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let found = histogram.quantile(quantile).as_secs_f64() * 1e6;
            assert!((us..us * 1.126).contains(&found), "{quantile}: {found}");
        }
        assert_eq!(Histogram::default().quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let text = Counters::default().to_prometheus();
        for line in text.lines() {
            let is_comment = line.starts_with("# HELP colibri_runtime_") || line.starts_with("# TYPE colibri_runtime_");
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(is_comment || name.starts_with("colibri_runtime_") && value.parse::<f64>().is_ok(), "{line}");
        }
        assert!(text.contains("colibri_runtime_activation_seconds_bucket{pool=\"user\",le=\"+Inf\"} 0\n"));
        assert!(text.contains("colibri_runtime_ping_work_seconds_count 0\n"));
    }
}

//! When something is asked, and what it took.
//!
//! ```text
//! client (a task) ── due ──→ pool of sessions ── admitted ──→ transaction, tried again after conflicts ──→ recorded
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | `schedule` | arrivals in open loop |
//! | `pool` | sessions, and who waits for one |
//! | `client` | the life of a client |
//! | `patience` | threads that interrupt no server |
//! | `record` | histograms and counts, a thread at a time |
//! | `silence` | when nobody was answered |
//!
//! Invariants
//! - A transaction counts if it ends within the measured time, and its latency is from when it was due.
//! - What was due and has not ended at the end of the measured time is *unfinished*: it adds to no count of transactions, but to
//!   latency. What is under way then is waited for, so that it is known what was acknowledged, and has the latency that it came to; what had
//!   not begun, or never ends, has the one that it had reached, which is less than the true one.
//! - A target that does not answer ends the run with a reason: nobody waits for ever. If it goes on before that, what is measured says
//!   for how long nobody was answered.
//!
//! Not here: what the figures mean (`report`).

mod client;
mod patience;
pub(crate) mod pool;
pub(crate) mod record;
pub(crate) mod schedule;
pub(crate) mod silence;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use colibri_runtime::{Builder, Pool as TaskPool, PoolCounters, Runtime, sleep_until, timeout};
use parking_lot::Mutex;

use crate::target::{Counts, Failure, Place, Session, Target};
use crate::workload::Workload;

pub(crate) use record::{Measured, Recorder};
use schedule::{Arrivals, Schedule};
use silence::{Silence, Silences};

/// How long a target may take to say what it has counted.
const COUNTS_LIMIT: Duration = Duration::from_secs(2);

/// A target that takes no more connections is asked for the first one for so long.
const FULL_LIMIT: Duration = Duration::from_secs(5);
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// When clients ask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pacing {
    /// Again as soon as there is an answer.
    Closed,
    /// After keying, and thinking afterwards.
    Terminals,
    /// So many transactions a second of all clients together, whoever is busy.
    Open(f64, Arrivals),
}

/// How a workload is to be run.
#[derive(Debug, Clone)]
pub(crate) struct RunPlan {
    pub(crate) pacing: Pacing,
    /// All clients, of all shards.
    pub(crate) clients: u32,
    /// This shard, from 0, and how many there are.
    pub(crate) shard: (u32, u32),
    /// Transactions under way at the most.
    pub(crate) in_flight: u32,
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    /// A transaction without an answer for so long has failed.
    pub(crate) timeout: Duration,
    /// Conflicts after which a transaction is given up.
    pub(crate) retries_max: u32,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
}

/// What all clients of a run share.
pub(crate) struct Run {
    pub(crate) workload: Arc<dyn Workload>,
    pub(crate) plan: RunPlan,
    pub(crate) pool: pool::SessionPool,
    pub(crate) recorder: Recorder,
    schedule: Option<Schedule>,
    started: Instant,
    is_over: AtomicBool,
    /// When it was found to be over, or not to go on.
    over_at: OnceLock<Instant>,
    /// Why the run cannot go on.
    fatal: Mutex<Option<String>>,
    progress: Progress,
}

/// Transactions that were begun and that have ended, however: for seeing that the target hangs, and for waiting for what is
/// under way. Each thread counts in a place of its own, so that counting costs the same with any number of threads.
#[derive(Default)]
struct Progress {
    parts: [ProgressPart; PROGRESS_PARTS],
}

/// Threads that count by themselves; more share.
const PROGRESS_PARTS: usize = 16;

/// As large as the lines that caches fetch together.
#[derive(Default)]
#[repr(align(128))]
struct ProgressPart {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Of those that have ended: without a word of the target.
    unanswered: AtomicU64,
    /// Answers that did not end anything: conflicts, after which a transaction is tried again.
    conflicts: AtomicU64,
}

impl Progress {
    fn part(&self) -> &ProgressPart {
        &self.parts[record::thread_number() % PROGRESS_PARTS]
    }

    /// In one order with the end of the run: a client that has begun and then finds the run not over is seen by who ends it.
    fn begin(&self) {
        self.part().begun.fetch_add(1, Ordering::SeqCst);
    }

    /// Not always in the thread that has begun.
    fn end(&self) {
        // Pairs with the load in `ended`: what the client has recorded is seen by who sees that it has ended.
        self.part().ended.fetch_add(1, Ordering::Release);
    }

    /// Before its end is counted, so that it is never taken for an answer.
    fn give_up(&self) {
        self.part().unanswered.fetch_add(1, Ordering::Relaxed);
    }

    fn conflict(&self) {
        self.part().conflicts.fetch_add(1, Ordering::Relaxed);
    }

    /// What the target has answered: perhaps less, if a transaction is being given up at this moment, and never more.
    fn answers(&self) -> u64 {
        let ended = self.ended();
        let sum = |count: fn(&ProgressPart) -> &AtomicU64| -> u64 {
            self.parts.iter().map(|part| count(part).load(Ordering::Relaxed)).sum()
        };
        (ended + sum(|part| &part.conflicts)).saturating_sub(sum(|part| &part.unanswered))
    }

    fn ended(&self) -> u64 {
        self.parts.iter().map(|part| part.ended.load(Ordering::Acquire)).sum()
    }

    /// Clients within a transaction: perhaps more, if one begins at this moment, and never less.
    fn at_work(&self) -> u64 {
        let ended = self.ended();
        let begun: u64 = self.parts.iter().map(|part| part.begun.load(Ordering::SeqCst)).sum();
        begun - ended
    }
}

impl Run {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn end(&self) {
        self.over_at.get_or_init(Instant::now);
        self.is_over.store(true, Ordering::SeqCst);
        self.pool.close();
    }

    /// Counts a transaction that will not begin any more, if it was due before the run was over.
    fn leave(&self, kind: u8, due: Instant) {
        let over_at = self.over_at.get().copied().unwrap_or_else(Instant::now);
        if let Some(age) = self.recorder.age_at_end(due, over_at) {
            self.recorder.leave(kind, age, 1);
        }
    }

    fn fail(&self, reason: String) {
        let mut fatal = self.fatal.lock();
        if fatal.is_none() && !self.is_over() {
            let after = self.started.elapsed().as_secs_f64();
            *fatal = Some(format!("{reason}, {after:.1} s after the start"));
            drop(fatal);
            self.end();
        }
    }
}

/// Called at the begin and at the end of the measured time, and about once a second: what has been measured so far.
pub(crate) trait Watch {
    fn measuring_begins(&mut self) {}
    fn measuring_ends(&mut self) {}
    fn tick(&mut self, _elapsed: Duration, _run: &Run) {}
}

/// Nobody watches.
#[cfg(test)]
pub(crate) struct Unwatched;

#[cfg(test)]
impl Watch for Unwatched {}

/// A runtime for a run, or for what is around it.
pub(crate) fn runtime(threads: usize) -> std::io::Result<Runtime> {
    Builder::new().threads(threads).name("bench").build()
}

/// Runs a workload, on a runtime of its own, and waits for its end.
///
/// # Errors
/// If not even the first session can be had.
pub(crate) fn run(
    workload: &Arc<dyn Workload>,
    target: &Arc<dyn Target>,
    statements: &Arc<[String]>,
    plan: &RunPlan,
    watch: &mut dyn Watch,
) -> Result<Measured, Failure> {
    let start = || runtime(plan.threads);
    // A target in process works in these very threads.
    let may_wait = plan.pacing == Pacing::Closed && target.place() == Place::Outside;
    let (runtime, is_patient) = if may_wait { patience::patiently(start) } else { (start(), false) };
    let runtime = runtime.map_err(|e| Failure::connection(false, format!("cannot start threads: {e}")))?;
    let measured = runtime.block_on(async {
        let first = connect_first(&**target, statements).await?;
        let started = Instant::now();
        let measured_from = started + plan.warmup;
        let schedule = match plan.pacing {
            Pacing::Open(rate, arrivals) => {
                let rate = rate / f64::from(plan.shard.1);
                let measured = (plan.warmup, plan.warmup + plan.duration);
                Some(Schedule::new(rate, arrivals, started, measured, plan.seed ^ u64::from(plan.shard.0)))
            }
            _ => None,
        };
        let recorder = Recorder::new(&**workload, measured_from, plan.duration);
        let pool = pool::SessionPool::new(target, statements, plan.in_flight, first);
        let run = Arc::new(Run {
            workload: Arc::clone(workload),
            plan: plan.clone(),
            pool,
            recorder,
            schedule,
            started,
            is_over: AtomicBool::new(false),
            over_at: OnceLock::new(),
            fatal: Mutex::new(None),
            progress: Progress::default(),
        });
        let (shard, shards) = plan.shard;
        for number in (shard..plan.clients).step_by(shards as usize) {
            drop(runtime.spawn(TaskPool::User, client::live(Arc::clone(&run), number)));
        }
        watch_until(&run, measured_from, watch).await;
        watch.measuring_begins();
        let (counts, pools) = (counts(&**target).await, runtime.counters().pools);
        let silences = watch_until(&run, measured_from + plan.duration, watch).await;
        let ended_at = Instant::now();
        watch.measuring_ends();
        let pools = pools_since(&runtime.counters().pools, &pools);
        // Over before the target is asked: one that is slow to tell would be measured for longer than was planned.
        run.end();
        let counts = self::counts(&**target).await.since(counts);
        drain(&run).await;
        let due = leave_the_rest(&run, ended_at);
        let fatal = run.fatal.lock().take();
        let mut measured = run.recorder.finish(ended_at);
        measured.ended_early = fatal;
        measured.is_patient = is_patient;
        measured.due = due;
        measured.connections = run.pool.connections();
        measured.connections_max = run.pool.connections_max();
        measured.silence = Silence::of(&silences, measured.quantile_of_ended(0.5));
        (measured.counts, measured.pools) = (counts, pools);
        Ok(measured)
    });
    // Clients that think are not waited for.
    runtime.shutdown(Duration::ZERO);
    measured
}

/// A server may have yet to notice that the connections of another run are gone.
async fn connect_first(target: &dyn Target, statements: &[String]) -> Result<Session, Failure> {
    let begun = Instant::now();
    loop {
        match target.connect(statements).await {
            Err(failure) if failure.is_full() && begun.elapsed() < FULL_LIMIT => {
                sleep_until(Instant::now() + FULL_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// What the target counts; nothing if it does not tell at once.
async fn counts(target: &dyn Target) -> Counts {
    timeout(COUNTS_LIMIT, target.counts()).await.unwrap_or_default()
}

/// CPU time by pool.
fn pools_since(now: &[PoolCounters], then: &[PoolCounters]) -> Vec<(String, Duration)> {
    let pairs = TaskPool::ALL.iter().zip(now.iter().zip(then));
    pairs.map(|(pool, (now, then))| (pool.to_string(), now.cpu.saturating_sub(then.cpu))).collect()
}

/// Waits until then, or until the run has ended before. Tells when nobody was answered.
async fn watch_until(run: &Run, until: Instant, watch: &mut dyn Watch) -> Silences {
    // Whoever waits for longer than a transaction may take will not be answered; the result is told of shorter silences.
    let patience = run.plan.timeout + Duration::from_secs(5);
    // Short steps, so that a run that has failed is over at once.
    let step = Duration::from_millis(if run.plan.duration < Duration::from_secs(5) { 20 } else { 200 });
    let mut silences = Silences::new(Instant::now(), run.progress.answers(), step);
    loop {
        let now = Instant::now();
        let is_waited_for = run.progress.at_work() > 0;
        let silent = silences.look(now, run.progress.answers(), is_waited_for, run.pool.open() > 0);
        if run.is_over() || now >= until {
            return silences;
        }
        if silent > patience {
            run.fail(format!("the target hangs: it has answered nothing for {:.0} s", silent.as_secs_f64()));
            return silences;
        }
        watch.tick(now - run.started, run);
        sleep_until(until.min(now + step)).slack(Duration::from_micros(50)).await;
    }
}

/// Waits for what is under way: it has an answer or a limit.
async fn drain(run: &Run) {
    let until = Instant::now() + run.plan.timeout + Duration::from_secs(1);
    while run.progress.at_work() > 0 && Instant::now() < until {
        sleep_until(Instant::now() + Duration::from_millis(2)).await;
    }
}

/// Latencies that stand for those of all arrivals that nobody has taken.
const ARRIVALS_SHOWN_MAX: u64 = 10_000;

/// Counts what no client has counted: arrivals that nobody has taken, and transactions that have not ended by now. Tells how many
/// transactions were due in the measured time, in open loop.
fn leave_the_rest(run: &Run, ended_at: Instant) -> Option<u64> {
    let (shard, _) = run.plan.shard;
    // Kinds as a client would choose them that does nothing else.
    let mut client = run.workload.client(shard, run.plan.seed);
    let mut leave = |age, count| run.recorder.leave(run.workload.choose(&mut client).kind, age, count);
    for _ in 0..run.progress.at_work().min(ARRIVALS_SHOWN_MAX) {
        leave(ended_at.elapsed(), 1);
    }
    let schedule = run.schedule.as_ref()?;
    let (untaken, oldest) = schedule.outstanding(ended_at);
    // They are spread evenly, or at random, which comes to the same if they are many.
    let shown = untaken.min(ARRIVALS_SHOWN_MAX);
    for place in 0..shown {
        let age = oldest.mul_f64((place as f64 + 0.5) / shown as f64);
        leave(age, untaken * (place + 1) / shown - untaken * place / shown);
    }
    Some(schedule.due_in_measured_time(ended_at))
}

/// Messages of failures, by their code: how many, and the first of each.
pub(crate) type Failures = BTreeMap<String, (u64, String)>;

#[cfg(test)]
mod tests;

//! The driver: when each transaction is asked for, and how long it took.
//!
//! ```text
//! client (a task) ── due ──→ pool of sessions ── admitted ──→ transaction, tried again after conflicts ──→ recorded
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | `schedule` | arrivals in open loop |
//! | `pool` | sessions, and the queue for them |
//! | `client` | the life of a client |
//! | `patience` | a scheduling policy under which the generator's threads interrupt no server |
//! | `record` | histograms and counts, per thread |
//! | `silence` | times in which no client got an answer |
//!
//! Invariants
//! 1. A transaction counts if it ends within the measured time. Its latency is from when it was
//!    due.
//! 2. A transaction that was due and has not ended at the end of the measured time is *unfinished*.
//!    It adds to no count of transactions, but to latency. If it has begun, its end is waited for,
//!    so that it is known what was acknowledged, and its latency is the final one. If it has not
//!    begun, or never ends, its latency is the time it has waited so far, which is less than the
//!    true one.
//! 3. A target that does not answer ends the run with a reason. If it answers again before that,
//!    the result says how long no client got an answer.
//!
//! Not here: what the figures mean (`result`).

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

use crate::sql::target::{Counts, Failure, Place, Session, Target};
use crate::sql::workload::Workload;

pub(crate) use record::{Measured, Recorder};
use schedule::{Arrivals, Schedule};
use silence::{Silence, Silences};

/// How long a target may take to report what it has counted.
const COUNTS_LIMIT: Duration = Duration::from_secs(2);

/// For so long a target that takes no more connections is asked for the first one.
const FULL_LIMIT: Duration = Duration::from_secs(5);
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// When clients ask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pacing {
    /// Again as soon as there is an answer.
    Closed,
    /// After keying; thinks afterwards.
    Terminals,
    /// So many transactions per second from all clients together, whether they are busy or not.
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
    /// When the run was found to be over, or not to go on.
    over_at: OnceLock<Instant>,
    /// Why the run cannot go on.
    fatal: Mutex<Option<String>>,
    progress: Progress,
}

/// Counts of transactions that have begun and that have ended in any way. They show that the target
/// hangs, and let the end of the run wait for what is under way. Each thread has counts of its own,
/// so that counting costs the same with any number of threads.
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
    /// Of those that have ended: those that the target never answered.
    unanswered: AtomicU64,
    /// Answers that did not end anything: conflicts, after which a transaction is tried again.
    conflicts: AtomicU64,
}

impl Progress {
    fn part(&self) -> &ProgressPart {
        &self.parts[record::thread_number() % PROGRESS_PARTS]
    }

    /// In one order with the end of the run: either a client that begins finds the run over, or the
    /// thread that ends the run sees the client.
    fn begin(&self) {
        self.part().begun.fetch_add(1, Ordering::SeqCst);
    }

    /// May be called on another thread than `begin`.
    fn end(&self) {
        // Pairs with the load in `ended`: a thread that sees the end also sees what the client has
        // recorded.
        self.part().ended.fetch_add(1, Ordering::Release);
    }

    /// Called before the end is counted, so that the end is never taken for an answer.
    fn give_up(&self) {
        self.part().unanswered.fetch_add(1, Ordering::Relaxed);
    }

    fn conflict(&self) {
        self.part().conflicts.fetch_add(1, Ordering::Relaxed);
    }

    /// How many answers the target has given. While a transaction is being given up this may be too
    /// few, but never too many.
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

    /// How many clients are within a transaction. While one begins this may be too many, but never
    /// too few.
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

/// Called at the begin and at the end of the measured time, and about once a second: what has been
/// measured so far.
pub(crate) trait Watch {
    fn measuring_begins(&mut self) {}
    fn measuring_ends(&mut self) {}
    fn tick(&mut self, _elapsed: Duration, _run: &Run) {}
}

/// Watches nothing.
#[cfg(test)]
pub(crate) struct Unwatched;

#[cfg(test)]
impl Watch for Unwatched {}

/// Makes a runtime for a run, or for what is around it.
pub(crate) fn runtime(threads: usize) -> std::io::Result<Runtime> {
    Builder::new().threads(threads).name("bench").build()
}

/// Runs a workload, on a runtime of its own, and waits for its end.
///
/// # Errors
/// If not even the first session can be opened.
pub(crate) fn run(
    workload: &Arc<dyn Workload>,
    target: &Arc<dyn Target>,
    statements: &Arc<[String]>,
    plan: &RunPlan,
    watch: &mut dyn Watch,
) -> Result<Measured, Failure> {
    let start = || runtime(plan.threads);
    // A target in process works on these very threads.
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
        // The run is over before the target is asked. A slow answer must not prolong the measured
        // time.
        run.end();
        let counts = self::counts(&**target).await.since(counts);
        drain(&run).await;
        let due = count_the_rest(&run, ended_at);
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

/// Opens the first session. A server may not have noticed yet that the connections of another run
/// are gone.
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

/// What the target has counted; nothing if it does not answer soon.
async fn counts(target: &dyn Target) -> Counts {
    timeout(COUNTS_LIMIT, target.counts()).await.unwrap_or_default()
}

/// CPU time by pool.
fn pools_since(now: &[PoolCounters], then: &[PoolCounters]) -> Vec<(String, Duration)> {
    let pairs = TaskPool::ALL.iter().zip(now.iter().zip(then));
    pairs.map(|(pool, (now, then))| (pool.to_string(), now.cpu.saturating_sub(then.cpu))).collect()
}

/// Waits until then, or until the run has ended before. Gives the times in which no client got an
/// answer.
async fn watch_until(run: &Run, until: Instant, watch: &mut dyn Watch) -> Silences {
    // A client that waits longer than the timeout of a transaction gets no answer any more. Shorter
    // silences go into the result.
    let patience = run.plan.timeout + Duration::from_secs(5);
    // In short steps, so that a run that has failed ends at once.
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

/// Waits for what is under way: it ends with an answer or by its time limit.
async fn drain(run: &Run) {
    let until = Instant::now() + run.plan.timeout + Duration::from_secs(1);
    while run.progress.at_work() > 0 && Instant::now() < until {
        sleep_until(Instant::now() + Duration::from_millis(2)).await;
    }
}

/// So many latencies at most stand for those of all arrivals that no client has taken.
const ARRIVALS_SHOWN_MAX: u64 = 10_000;

/// Counts what no client has counted: arrivals that none has taken, and transactions that have not
/// ended yet. Gives how many transactions were due in the measured time, in open loop.
fn count_the_rest(run: &Run, ended_at: Instant) -> Option<u64> {
    let (shard, _) = run.plan.shard;
    // The kinds that a client would choose that does nothing else.
    let mut client = run.workload.client(shard, run.plan.seed);
    let mut leave = |age, count| run.recorder.leave(run.workload.choose(&mut client).kind, age, count);
    for _ in 0..run.progress.at_work().min(ARRIVALS_SHOWN_MAX) {
        leave(ended_at.elapsed(), 1);
    }
    let schedule = run.schedule.as_ref()?;
    let (untaken, oldest) = schedule.outstanding(ended_at);
    // Evenly spread. For many arrivals that comes to the same as spread at random.
    let shown = untaken.min(ARRIVALS_SHOWN_MAX);
    for place in 0..shown {
        let age = oldest.mul_f64((place as f64 + 0.5) / shown as f64);
        leave(age, untaken * (place + 1) / shown - untaken * place / shown);
    }
    Some(schedule.due_in_measured_time(ended_at))
}

/// Failures by their code: how many, and the message of the first.
pub(crate) type Failures = BTreeMap<String, (u64, String)>;

#[cfg(test)]
mod tests;

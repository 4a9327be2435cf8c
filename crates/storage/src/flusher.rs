//! The background threads. All sleep while there is nothing to do.
//!
//! - `Flusher` makes steady points in the modes whose commits are not steady points themselves.
//!   While nothing is unsteady it sleeps without a time limit. The first unsteady commit sets a
//!   deadline, and an earlier one if no commit follows. A commit that exceeds the mode's bound in
//!   bytes wakes it at once. If nothing was committed since its steady point, it compacts a file of
//!   which much is free, and sleeps without a limit again.
//! - `LogFlusher`, started when it is first needed, flushes the log for those who wait for a commit
//!   without a thread.
//! - `Reaper`, started when it is first needed, gives back the pages of branches that were dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::compact::Compaction;
use crate::db::Core;
use crate::sync::sleep::{Condvar, Mutex};
use crate::{Error, Result};

fn spawn(name: &str, core: &Core, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .map_err(|e| Error::io("cannot start a background thread for", core.pager.disk().path(), e))
}

/// The thread that flushes the log when asked.
pub(crate) struct LogFlusher {
    signal: Arc<(Mutex<Asked>, Condvar)>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Asked {
    flush: bool,
    stop: bool,
}

impl LogFlusher {
    pub(crate) fn start(core: &Arc<Core>) -> Result<Self> {
        let signal: Arc<(Mutex<Asked>, Condvar)> = Arc::default();
        let thread = spawn("colibri-log", core, {
            let (signal, core) = (Arc::clone(&signal), Arc::clone(core));
            move || {
                run_when_asked(&signal, || {
                    core.log.gather_tasks();
                    // The waiting tasks learn of a failure from the log.
                    let _ = core.wait_durable(core.shared.root().txn);
                    // If another process has made the transaction durable, no flush here has woken
                    // the tasks.
                    core.log.notify(false);
                });
            }
        })?;
        Ok(Self { signal, thread })
    }

    /// Asks for a flush of everything written by now.
    pub(crate) fn ask(&self) {
        ask(&self.signal);
    }

    pub(crate) fn stop(self) {
        self.signal.0.lock().stop = true;
        self.signal.1.notify_one();
        let _ = self.thread.join();
    }
}

/// Asks a thread that runs [`run_when_asked`] to do what it does.
fn ask(signal: &(Mutex<Asked>, Condvar)) {
    signal.0.lock().flush = true;
    signal.1.notify_one();
}

fn run_when_asked(signal: &(Mutex<Asked>, Condvar), flush: impl Fn()) {
    let mut asked = signal.0.lock();
    while !asked.stop {
        // Cleared before the flush: a request that comes during the flush needs another one.
        if std::mem::take(&mut asked.flush) {
            drop(asked);
            flush();
            asked = signal.0.lock();
        } else {
            signal.1.wait(&mut asked);
        }
    }
}

/// A way to ask the thread that gives back what was dropped.
pub(crate) struct ReaperSignal(Arc<(Mutex<Asked>, Condvar)>);

impl ReaperSignal {
    pub(crate) fn ask(&self) {
        ask(&self.0);
    }
}

/// The thread that gives back what was dropped.
pub(crate) struct Reaper {
    signal: Arc<(Mutex<Asked>, Condvar)>,
    /// Set before the thread is asked to stop: it does not go on to the next.
    stops: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Reaper {
    /// Starts it, with something to do.
    pub(crate) fn start(core: &Arc<Core>, steady: Option<Arc<Signal>>) -> Result<Self> {
        let signal: Arc<(Mutex<Asked>, Condvar)> = Arc::default();
        ask(&signal);
        let stops: Arc<AtomicBool> = Arc::default();
        let thread = spawn("colibri-reaper", core, {
            let (signal, core, stops) = (Arc::clone(&signal), Arc::clone(core), Arc::clone(&stops));
            move || {
                run_when_asked(&signal, || {
                    // Damage and lack of room stay, and are told to those who come upon them. What
                    // was not reaped is found again at the next opening, and when more is dropped.
                    let done = core.reap_all(true, &|| stops.load(Ordering::Acquire));
                    if let (Ok(1..), Some(steady)) = (done, &steady) {
                        steady.committed(false);
                    }
                });
            }
        })?;
        Ok(Self { signal, stops, thread })
    }

    pub(crate) fn ask(&self) {
        ask(&self.signal);
    }

    /// How those that do not have the thread ask it.
    pub(crate) fn signal(&self) -> ReaperSignal {
        ReaperSignal(Arc::clone(&self.signal))
    }

    pub(crate) fn stop(self) {
        self.stops.store(true, Ordering::Release);
        self.signal.0.lock().stop = true;
        self.signal.1.notify_one();
        let _ = self.thread.join();
    }
}

/// When a steady point is due.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// This long after the first commit since the last steady point, at the latest.
    pub(crate) longest: Duration,
    /// This long, or twice that, after the last commit. A page that changes again and again is
    /// copied and written once per steady point, so a steady writer is served better by few of
    /// them.
    pub(crate) quiet: Duration,
}

#[derive(Default)]
struct State {
    /// When the first commit since the last steady point came.
    dirty_since: Option<Instant>,
    /// How long after `dirty_since` it was last checked whether other commits came.
    looked: Duration,
    /// Whether another commit came since that check.
    again: bool,
    over_bound: bool,
    stop: bool,
}

enum Due {
    Now,
    At(Instant),
    /// Not until something happens.
    Unknown,
}

impl State {
    /// Notes that a transaction has committed. Gives whether the thread has to be woken now.
    fn committed(&mut self, over: bool, now: impl FnOnce() -> Instant) -> bool {
        let passed = over && !self.over_bound;
        self.over_bound |= over;
        let first = self.dirty_since.is_none();
        self.again |= !first;
        self.dirty_since.get_or_insert_with(now);
        first || passed
    }

    /// When the next steady point is due, as seen at `now`. Checks for other commits if it is time
    /// to.
    fn due(&mut self, pace: Pace, now: Instant) -> Due {
        let Some(since) = self.dirty_since else { return Due::Unknown };
        let waited = now.saturating_duration_since(since);
        if self.over_bound || waited >= pace.longest {
            return Due::Now;
        }
        if waited >= self.looked.saturating_add(pace.quiet) {
            if !std::mem::take(&mut self.again) {
                return Due::Now;
            }
            self.looked = waited;
        }
        // A sum beyond the clock's range never comes: then only bytes make a steady point due.
        since.checked_add(self.looked.saturating_add(pace.quiet).min(pace.longest)).map_or(Due::Unknown, Due::At)
    }
}

#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

impl Signal {
    fn committed(&self, over: bool) {
        if self.state.lock().committed(over, Instant::now) {
            self.changed.notify_one();
        }
    }

    fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_one();
    }

    /// Whether something was committed since the last steady point, or the thread is to stop.
    fn is_busy(&self) -> bool {
        let state = self.state.lock();
        state.stop || state.dirty_since.is_some()
    }
}

/// The thread that makes steady points, and the way to reach it.
pub(crate) struct Flusher {
    signal: Arc<Signal>,
    thread: JoinHandle<()>,
}

impl Flusher {
    pub(crate) fn start(core: &Arc<Core>, pace: Pace) -> Result<Self> {
        let signal: Arc<Signal> = Arc::default();
        let thread = spawn("colibri-steady", core, {
            let (signal, core) = (Arc::clone(&signal), Arc::clone(core));
            move || {
                let mut last = Compaction::default();
                let stops = || signal.is_busy();
                run(&signal, pace, || core.sync(), || core.compact_if_loose(&mut last, &stops));
            }
        })?;
        Ok(Self { signal, thread })
    }

    /// Notes that a transaction has committed. `over`: the mode's bound in bytes is exceeded.
    pub(crate) fn committed(&self, over: bool) {
        self.signal.committed(over);
    }

    /// How others tell it of commits.
    pub(crate) fn signal(&self) -> Arc<Signal> {
        Arc::clone(&self.signal)
    }

    pub(crate) fn stop(self) {
        self.signal.stop();
        // The panic hook has reported a panic of the thread; closing goes on.
        let _ = self.thread.join();
    }
}

/// `tidy` is called behind a steady point after which nothing was committed yet.
fn run(signal: &Signal, pace: Pace, sync: impl Fn() -> Result<()>, mut tidy: impl FnMut() -> Result<()>) {
    let mut state = signal.state.lock();
    while !state.stop {
        match state.due(pace, Instant::now()) {
            Due::Unknown => signal.changed.wait(&mut state),
            Due::At(deadline) => _ = signal.changed.wait_until(&mut state, deadline),
            Due::Now => {
                *state = State { stop: state.stop, ..State::default() };
                drop(state);
                let result = sync();
                state = signal.state.lock();
                match result {
                    Ok(()) if state.dirty_since.is_none() && !state.stop => {
                        drop(state);
                        // For lack of room, or for damage, the file stays as it is.
                        let tidied = tidy();
                        state = signal.state.lock();
                        if let Err(Error::Poisoned) = tidied {
                            return;
                        }
                    }
                    Ok(()) => {}
                    // Commits report this to their callers.
                    Err(Error::Poisoned) => return,
                    // For lack of room, for example: tries again after a while unless something
                    // else happens first.
                    Err(_) => {
                        state.dirty_since.get_or_insert_with(Instant::now);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { longest: Duration::from_secs(30), quiet: Duration::from_secs(5) };

    /// The seconds at which a flusher that is never late makes steady points, if commits come at
    /// others.
    fn points(commits: &[u64], over_at: Option<u64>) -> Vec<u64> {
        let start = Instant::now();
        let mut state = State::default();
        let mut points = Vec::new();
        for second in 0..200 {
            let now = start + Duration::from_secs(second);
            if commits.contains(&second) {
                state.committed(over_at == Some(second), || now);
            }
            if let Due::Now = state.due(PACE, now) {
                points.push(second);
                state = State::default();
            }
        }
        points
    }

    #[test]
    fn steady_points_are_few_while_commits_go_on_and_come_soon_when_they_end() {
        assert_eq!(points(&[], None), []);
        assert_eq!(points(&[7], None), [12]);
        // The commit of second 9 was seen at 12, when there might have been more to come.
        assert_eq!(points(&[7, 9], None), [17]);
        assert_eq!(points(&[7, 9, 12, 16], None), [22]);
        let busy: Vec<u64> = (0..100).collect();
        assert_eq!(points(&busy, None), [30, 61, 92, 108]);
        assert_eq!(points(&busy, Some(40)), [30, 40, 71, 102]);
        // Less often than it is looked: each is the first.
        assert_eq!(points(&[0, 8, 16, 24], None), [5, 13, 21, 29]);
    }

    #[test]
    fn what_is_lazy_is_never_steady_later_than_its_period() {
        let pace = Pace { quiet: PACE.longest, ..PACE };
        let start = Instant::now();
        let mut state = State::default();
        state.committed(false, || start);
        state.committed(false, || unreachable!());
        assert!(matches!(state.due(pace, start + Duration::from_secs(29)), Due::At(at) if at == start + PACE.longest));
        assert!(matches!(state.due(pace, start + PACE.longest), Due::Now));
    }

    #[test]
    fn a_time_that_never_comes_is_not_waited_for() {
        let pace = Pace { longest: Duration::MAX, quiet: Duration::MAX };
        let mut state = State::default();
        state.committed(false, Instant::now);
        assert!(matches!(state.due(pace, Instant::now()), Due::Unknown));
        state.committed(true, Instant::now);
        assert!(matches!(state.due(pace, Instant::now()), Due::Now));
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod models {
    //! The decision of each of the two threads to sleep, beside requests that come at any moment:
    //! one that is slept through is a wait for ever, which the scheduler finds.

    use std::sync::atomic::Ordering;
    use std::task::{Wake, Waker};

    use shuttle::sync::atomic::AtomicU64;
    use shuttle::{sync, thread};

    use super::*;
    use crate::log::models::{Slow, SlowFile};
    use crate::log::{Log, Position, record};
    use crate::page::TxnId;

    /// What is steady, and who waits for that.
    #[derive(Default)]
    struct Steady {
        txn: sync::Mutex<u64>,
        raised: sync::Condvar,
    }

    /// Commits from several threads, each of which waits until its own is steady, which it is if
    /// nobody sleeps through it. `over`: the second of two passes the bound; else the period is
    /// over at once. The first `failures` steady points find no room.
    fn commit_and_wait(over: bool, failures: u64) {
        const COMMITS: u64 = 2;
        let (signal, steady) = (Arc::new(Signal::default()), Arc::new(Steady::default()));
        let (current, points) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let flusher = thread::spawn({
            let (signal, steady) = (Arc::clone(&signal), Arc::clone(&steady));
            let (current, points) = (Arc::clone(&current), Arc::clone(&points));
            move || {
                let longest = if over { Duration::MAX } else { Duration::ZERO };
                let sync = || {
                    if points.fetch_add(1, Ordering::SeqCst) < failures {
                        return Err(Error::DiskFull { path: "model".into(), bytes_wanted: 1 });
                    }
                    let covered = current.load(Ordering::SeqCst);
                    thread::yield_now();
                    *steady.txn.lock().unwrap() = covered;
                    steady.raised.notify_all();
                    Ok(())
                };
                let tidy = || {
                    signal.is_busy();
                    thread::yield_now();
                    Ok(())
                };
                run(&signal, Pace { longest, quiet: longest }, sync, tidy);
            }
        });
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (signal, steady, current) = (Arc::clone(&signal), Arc::clone(&steady), Arc::clone(&current));
                thread::spawn(move || {
                    for _ in 0..COMMITS {
                        if over {
                            current.fetch_add(1, Ordering::SeqCst);
                            signal.committed(false);
                        }
                        let txn = current.fetch_add(1, Ordering::SeqCst) + 1;
                        signal.committed(over);
                        let mut reached = steady.txn.lock().unwrap();
                        while *reached < txn {
                            reached = steady.raised.wait(reached).unwrap();
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        signal.stop();
        flusher.join().unwrap();
        // It worked for commits, and not for itself.
        let (points, commits) = (points.load(Ordering::SeqCst), current.load(Ordering::SeqCst));
        assert!(points <= commits + failures, "{points} steady points for {commits} commits");
    }

    #[test]
    fn no_commit_is_slept_through_by_who_makes_steady_points() {
        for (over, failures) in [(true, 0), (false, 0), (false, 2)] {
            shuttle::check_random(move || commit_and_wait(over, failures), 2_000);
            shuttle::check_pct(move || commit_and_wait(over, failures), 2_000, 3);
        }
    }

    /// A task that waits, and the thread it runs on.
    #[derive(Default)]
    struct Task {
        woken: sync::Mutex<bool>,
        wakes: sync::Condvar,
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            *self.woken.lock().unwrap() = true;
            self.wakes.notify_all();
        }
    }

    /// Tasks commit, and wait as [`crate::Ticket`] does, while another process makes commits
    /// durable now and then and tells nobody.
    fn tasks_wait_for_flushes() {
        let slow = [Arc::new(Slow::default()), Arc::new(Slow::default())];
        let log = Arc::new(Log::new(slow.clone().map(|slow| Box::new(SlowFile(slow)) as _), None));
        let signal: Arc<(Mutex<Asked>, Condvar)> = Arc::default();
        let writer = Arc::new(sync::Mutex::new(Position::default()));
        let (current, visible) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let flusher = thread::spawn({
            let (log, signal) = (Arc::clone(&log), Arc::clone(&signal));
            let (current, visible) = (Arc::clone(&current), Arc::clone(&visible));
            move || {
                run_when_asked(&signal, || {
                    let txn = current.load(Ordering::SeqCst);
                    let flushed = log.wait(
                        || visible.load(Ordering::SeqCst) >= txn,
                        || (current.load(Ordering::SeqCst), false),
                        |covered| {
                            visible.fetch_max(covered, Ordering::SeqCst);
                            Ok(())
                        },
                    );
                    flushed.unwrap();
                    log.notify(false);
                });
            }
        });
        let mut threads: Vec<_> = (0..2)
            .map(|_| {
                let (log, signal, writer) = (Arc::clone(&log), Arc::clone(&signal), Arc::clone(&writer));
                let (current, visible, slow) = (Arc::clone(&current), Arc::clone(&visible), Arc::clone(&slow[0]));
                thread::spawn(move || {
                    for _ in 0..2 {
                        let mut position = writer.lock().unwrap();
                        let txn = current.load(Ordering::SeqCst) + 1;
                        let mut record = record::Builder::default();
                        record.clear();
                        *position = log.append(*position, &mut record, TxnId(txn)).unwrap();
                        current.store(txn, Ordering::SeqCst);
                        drop(position);
                        let task = Arc::new(Task::default());
                        let is_durable = || visible.load(Ordering::SeqCst) >= txn;
                        while !is_durable() {
                            assert!(log.wake_later(&Waker::from(Arc::clone(&task))));
                            if is_durable() {
                                break;
                            }
                            ask(&signal);
                            let mut woken = task.woken.lock().unwrap();
                            while !*woken {
                                woken = task.wakes.wait(woken).unwrap();
                            }
                            *woken = false;
                        }
                        assert!(slow.durable.load(Ordering::SeqCst) >= txn, "acknowledged and not durable");
                    }
                })
            })
            .collect();
        threads.push(thread::spawn({
            let (current, visible, slow) = (Arc::clone(&current), Arc::clone(&visible), Arc::clone(&slow[0]));
            move || {
                for _ in 0..2 {
                    let covered = current.load(Ordering::SeqCst);
                    thread::yield_now();
                    slow.durable.fetch_max(covered, Ordering::SeqCst);
                    visible.fetch_max(covered, Ordering::SeqCst);
                }
            }
        }));
        for thread in threads {
            thread.join().unwrap();
        }
        signal.0.lock().stop = true;
        signal.1.notify_one();
        flusher.join().unwrap();
    }

    #[test]
    fn no_request_is_slept_through_by_who_flushes_the_log() {
        shuttle::check_random(tasks_wait_for_flushes, 3_000);
        shuttle::check_pct(tasks_wait_for_flushes, 2_000, 3);
    }
}

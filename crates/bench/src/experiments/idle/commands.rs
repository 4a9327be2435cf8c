//! Processes that this one starts to measure them, and their end: at the end of their window, on an
//! error, on a signal.
//!
//! ```text
//! SIGTERM to each process group and to what left it ── up to 5 s ── SIGKILL to what is left ── all are waited for
//! ```
//!
//! Invariants
//! - Each is in a process group of its own. Its leader is waited for only when all processes of the
//!   group have ended. So the group's number is not used again, and no signal goes to another
//!   process.
//! - A descendant that lost its parent becomes a child of this process, and ends with the others.
//!   It follows that this process has no other children while it measures.
//! - SIGINT and SIGTERM end all of them, and then this process with 128 and the signal's number.
//!
//! Not here: SIGKILL, which cannot be handled. The control group then ends by itself; commands do
//! not.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, set_child_subreaper, waitid,
};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::measure::output::tell;
use crate::measure::process_tree::Machine;
use crate::measure::{Error, Result};

/// The processes that have to end with this process.
static STARTED: Mutex<Vec<Child>> = Mutex::new(Vec::new());
/// How long they may take to end after SIGTERM.
const END_WAIT: Duration = Duration::from_secs(5);
/// How long the kernel may take to end them.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// The pause between two looks for processes that are left.
const END_PAUSE: Duration = Duration::from_millis(10);

/// The processes that were started. They end with it, at the latest.
#[derive(Debug)]
pub(super) struct Commands {
    _private: (),
}

impl Commands {
    pub(super) fn new() -> Result<Self> {
        handle_signals()?;
        let _orphans_that_left_their_group_stay_then = set_child_subreaper(Some(rustix::process::getpid()));
        Ok(Self { _private: () })
    }

    /// Answers the number of the process, which is that of its group, too.
    pub(super) fn start(&self, command: &mut Command, name: &str) -> Result<u32> {
        let mut started = lock();
        let child = command.process_group(0).spawn().map_err(|error| Error::io("cannot start", name, error))?;
        let pid = child.id();
        started.push(child);
        Ok(pid)
    }

    /// Returns once all are ended.
    pub(super) fn end(&self) {
        end_all(&mut lock());
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.end();
    }
}

/// How a process that was started ended, if it has.
pub(super) fn outcome(pid: u32) -> Option<String> {
    // While a signal handler ends all processes, the end of one is not reported.
    let _no_signal = lock();
    // The process is not waited for, so that its number stays reserved.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(number(pid)?), options).ok()??;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => Some(format!("with exit status {status}")),
        (None, Some(signal)) => Some(format!("by signal {signal}")),
        (None, None) => None,
    }
}

fn lock() -> MutexGuard<'static, Vec<Child>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process number in the type that system calls take.
pub(super) fn number(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

fn end_all(started: &mut Vec<Child>) {
    if started.is_empty() {
        return;
    }
    let groups: Vec<u32> = started.iter().map(Child::id).collect();
    for group in groups.iter().filter_map(|&group| number(group)) {
        let _ended_already = kill_process_group(group, Signal::TERM);
    }
    for (pid, _) in living().into_iter().filter(|(_, group)| !groups.contains(group)) {
        signal(pid, Signal::TERM);
    }
    if !all_end_within(END_WAIT) {
        living().into_iter().for_each(|(pid, _)| signal(pid, Signal::KILL));
        if !all_end_within(KILL_WAIT) {
            let left: Vec<String> = living().into_iter().map(|(pid, _)| pid.to_string()).collect();
            tell!("these processes could not be ended: {}", left.join(", "));
        }
    }
    let left = living();
    for mut child in started.drain(..) {
        if !left.iter().any(|&(pid, _)| pid == child.id()) {
            let _all_that_it_used_is_known = child.wait();
        }
    }
    // Descendants that were adopted because their parent ended.
    while let Ok(Some(_)) = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {}
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = number(pid) {
        let _ended_already = kill_process(pid, signal);
    }
}

/// All descendants of this process that have not ended, with their groups.
fn living() -> Vec<(u32, u32)> {
    let own = std::process::id();
    let Ok(machine) = Machine::look() else { return Vec::new() };
    let stats = machine.tree(&[own], None).into_iter().filter_map(|pid| machine.get(pid));
    stats.filter(|stat| stat.pid != own && !stat.is_dead()).map(|stat| (stat.pid, stat.group)).collect()
}

fn all_end_within(wait: Duration) -> bool {
    let begun = Instant::now();
    loop {
        if living().is_empty() {
            return true;
        }
        if begun.elapsed() >= wait {
            return false;
        }
        std::thread::sleep(END_PAUSE);
    }
}

/// Starts the thread that waits for signals, once a process.
fn handle_signals() -> Result<()> {
    static STARTED_ONCE: OnceLock<std::result::Result<(), io::ErrorKind>> = OnceLock::new();
    let started = STARTED_ONCE.get_or_init(|| {
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| error.kind())?;
        let wait = move || {
            if let Some(signal) = signals.forever().next() {
                // From here on no process is started, and the end of a process is not reported.
                let mut started = lock();
                tell!("interrupted");
                end_all(&mut started);
                low_level::exit(128 + signal);
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop).map_err(|error| error.kind())
    });
    started.map_err(|kind| Error::usage(format!("cannot handle signals: {kind}")))
}

//! The time in which targets are measured, all at once: settle, look, wait, look.
//!
//! Invariants
//! - The accounts are read twice only. In between the benchmark sleeps, unless a target ends.
//! - A target that ends before its window does is an error that says how, never a figure.
//!
//! Not here: what a look sees (`measure::process_tree`), and which targets share a window (the
//! parent module).

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};

use super::commands::{self, number};
use crate::measure::energy::{Energy, Packages};
use crate::measure::process_tree::{self, Census, Look, Machine, Memory, Used};
use crate::measure::{Error, Result};

/// A process tree to measure.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) pid: u32,
    start_ticks: u64,
    /// Readable once the process ends; `None` on kernels that have no such thing, where the looks
    /// find that out.
    end: Option<OwnedFd>,
}

/// How a target came to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It was running before.
    Pid,
    /// It was started to be measured.
    Command,
    /// It was started as a member of the control group.
    Control,
}

/// What a target did in a window.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) used: Used,
    pub(super) census: Census,
    pub(super) memory: Memory,
    /// Energy of the whole machine in the whole window.
    pub(super) energy: Option<Energy>,
}

impl Target {
    /// A process that is there, under its own name if it has no other.
    pub(super) fn new(kind: Kind, name: Option<String>, pid: u32) -> Result<Self> {
        let name_or = |command: &str| name.clone().unwrap_or_else(|| format!("{command} [{pid}]"));
        let Some(stat) = process_tree::stat(pid) else {
            let missing = io::Error::new(io::ErrorKind::NotFound, "there is no such process");
            return Err(Error::io("cannot measure", format!("process {pid}"), missing));
        };
        let end = number(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let target = Self { kind, name: name_or(&stat.command), pid, start_ticks: stat.start_ticks, end };
        // A process that was started just now and has ended already is reported as one that ended
        // while it settled.
        if stat.is_dead() && kind == Kind::Pid {
            return Err(target.ended("before it was looked at"));
        }
        Ok(target)
    }

    fn group(&self) -> Option<u32> {
        (self.kind != Kind::Pid).then_some(self.pid)
    }

    fn look(&self, machine: &Machine, before: Option<&Look>, when: &str) -> Result<Look> {
        let look = Look::take(machine, self.pid, self.group(), before);
        if look.has_living(self.pid, self.start_ticks) { Ok(look) } else { Err(self.ended(when)) }
    }

    fn ended(&self, when: &str) -> Error {
        let outcome = match self.kind {
            Kind::Pid => None,
            Kind::Command | Kind::Control => commands::outcome(self.pid),
        };
        let how = outcome.map(|outcome| format!(" {outcome}")).unwrap_or_default();
        let advice = match self.kind {
            Kind::Command => "; it has to stay in the foreground, and --show-output shows what it says",
            Kind::Pid | Kind::Control => "",
        };
        Error::io("cannot measure", &self.name, io::Error::other(format!("it ended{how} {when}{advice}")))
    }
}

/// Measures targets side by side.
pub(super) fn measure(
    targets: &[Target],
    settle: Duration,
    window: Duration,
    packages: Option<&Packages>,
) -> Result<Vec<Measured>> {
    wait(targets, settle, "while it settled")?;
    let energy_first = packages.and_then(|packages| packages.read().ok());
    let machine = machine()?;
    let firsts = looks(targets, &machine, &[], "while it settled")?;
    wait(targets, window, "within the window")?;
    let machine = self::machine()?;
    let seconds = looks(targets, &machine, &firsts, "within the window")?;
    let energy = packages.zip(energy_first).and_then(|(packages, first)| {
        let second = packages.read().ok()?;
        Some(packages.between(&first, &second))
    });
    let pairs = firsts.iter().zip(&seconds);
    Ok(pairs
        .map(|(first, second)| Measured {
            used: Used::between(first, second, process_tree::tick_ns()),
            census: second.census(),
            memory: second.memory(),
            energy,
        })
        .collect())
}

fn machine() -> Result<Machine> {
    Machine::look().map_err(|error| Error::io("cannot read", "/proc", error))
}

fn looks(targets: &[Target], machine: &Machine, before: &[Look], when: &str) -> Result<Vec<Look>> {
    targets.iter().enumerate().map(|(index, target)| target.look(machine, before.get(index), when)).collect()
}

/// Sleeps for this time, or until a target ends.
fn wait(targets: &[Target], time: Duration, when: &str) -> Result<()> {
    let begun = Instant::now();
    let watched: Vec<(&Target, &OwnedFd)> = targets.iter().filter_map(|t| Some((t, t.end.as_ref()?))).collect();
    let mut ends: Vec<PollFd<'_>> = watched.iter().map(|(_, end)| PollFd::new(end, PollFlags::IN)).collect();
    loop {
        let left = time.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut ends, Some(&limit)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => {
                let ended = ends.iter().zip(&watched).find(|(end, _)| !end.revents().is_empty());
                return ended.map_or(Ok(()), |(_, (target, _))| Err(target.ended(when)));
            }
            // The next look finds out which target ended.
            Err(_) => std::thread::sleep(left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_process_is_an_error_that_names_it() {
        // Beyond the largest process number of Linux.
        let error = Target::new(Kind::Pid, None, 1 << 23).unwrap_err().to_string();
        assert_eq!(error, "cannot measure process 8388608: there is no such process");
    }

    #[test]
    fn an_end_is_noticed_at_once_and_time_passes_without() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let target = [Target::new(Kind::Pid, None, child.id()).unwrap()];
        let begun = Instant::now();
        wait(&target, Duration::from_millis(50), "").unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(50));
        child.kill().unwrap();
        let error = wait(&target, Duration::from_secs(600), "within the window").unwrap_err().to_string();
        assert!(error.contains("it ended within the window"), "{error}");
        let error = target[0].look(&Machine::look().unwrap(), None, "meanwhile").unwrap_err().to_string();
        assert!(error.contains("it ended meanwhile"), "{error}");
        let error = Target::new(Kind::Pid, None, child.id()).unwrap_err().to_string();
        assert!(error.contains("before it was looked at"), "{error}");
        child.wait().unwrap();
    }
}

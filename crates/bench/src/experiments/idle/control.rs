//! The control group: a process whose one thread wakes up by the clock, or never.
//!
//! ```text
//! colibri bench idle                          measures, by the code that measures everything else
//!   └ colibri bench idle --control tick64     main thread: reads a pipe that nobody writes to
//!       └ thread: asleep until the next multiple of 64 µs, and again
//! ```
//!
//! Invariants
//! - It ends with the process that started it, in whichever way that ends, because the pipe is
//!   closed then.
//! - Wake-ups come at multiples of the period from the first one on. A missed wake-up is left out
//!   and not made up for, so there are never more than the period allows.
//!
//! Not here: work. What a real scheduler does at each tick comes on top.

use std::io::{Read, stdin};
use std::num::NonZeroU64;
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::measure::{Error, Result};

/// How often a process of the control group wakes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Control {
    /// Every 64 µs.
    Tick64,
    /// Every 1,024 µs.
    Tick1024,
    /// Never.
    Tickless,
}

pub(super) const CONTROLS: [Control; 3] = [Control::Tick64, Control::Tick1024, Control::Tickless];

impl Control {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tick64 => "tick 64 µs",
            Self::Tick1024 => "tick 1,024 µs",
            Self::Tickless => "tickless",
        }
    }

    fn period(self) -> Option<Duration> {
        match self {
            Self::Tick64 => Some(Duration::from_micros(64)),
            Self::Tick1024 => Some(Duration::from_micros(1024)),
            Self::Tickless => None,
        }
    }

    /// This program again, as this member of the group. It needs a pipe as its standard input.
    pub(super) fn command(self) -> Result<Command> {
        let program =
            std::env::current_exe().map_err(|error| Error::io("cannot find", "the running program", error))?;
        let flag = self.to_possible_value().expect("no value is skipped");
        let mut command = Command::new(program);
        command.args(["bench", "idle", "--control", flag.get_name()]);
        Ok(command)
    }

    /// Runs as this member of the group until standard input ends.
    pub(super) fn run(self) -> Result<()> {
        let failed = |error| Error::io("cannot start", self.name(), error);
        let thread = std::thread::Builder::new().name("control".into());
        match self.period() {
            Some(period) => thread.spawn(move || tick(period)),
            None => thread.spawn(|| {
                loop {
                    std::thread::park();
                }
            }),
        }
        .map_err(failed)?;
        // Data on standard input are ignored; its end is the end.
        while !matches!(stdin().lock().read(&mut [0; 64]), Ok(0) | Err(_)) {}
        Ok(())
    }
}

fn tick(period: Duration) -> ! {
    // By default the kernel may wake a thread 50 µs late, which is most of 64 µs.
    let _fewer_ticks_then = set_current_timer_slack(NonZeroU64::new(1));
    let period_ns = u64::try_from(period.as_nanos()).expect("less than centuries");
    let mut due_ns = now_ns();
    loop {
        due_ns = next_tick_ns(due_ns, now_ns(), period_ns);
        let due = Timespec { tv_sec: (due_ns / 1_000_000_000) as i64, tv_nsec: (due_ns % 1_000_000_000) as i64 };
        // A signal may interrupt the sleep. The thread then sleeps again until the same deadline.
        let _interrupted = clock_nanosleep_absolute(ClockId::Monotonic, &due);
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).expect("a clock that starts at zero")
}

/// The first tick after `now`, in multiples of the period from `due`; `due` itself if it is in the
/// future.
fn next_tick_ns(due_ns: u64, now_ns: u64, period_ns: u64) -> u64 {
    match now_ns.checked_sub(due_ns) {
        None => due_ns,
        Some(late_ns) => due_ns + (late_ns / period_ns + 1) * period_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_ticks_are_left_out_and_the_rhythm_stays() {
        let next = |due, now| next_tick_ns(due, now, 64);
        assert_eq!(next(1000, 999), 1000, "an interruption does not skip it");
        assert_eq!(next(1000, 1000), 1064);
        assert_eq!(next(1000, 1063), 1064);
        assert_eq!(next(1000, 1064), 1128);
        assert_eq!(next(1000, 1000 + 10 * 64 + 5), 1000 + 11 * 64);
    }

    #[test]
    fn the_periods_are_those_of_the_published_rates() {
        let rates = CONTROLS.map(|control| control.period().map(|period| (1.0 / period.as_secs_f64()).round()));
        assert_eq!(rates, [Some(15_625.0), Some(977.0), None]);
    }
}

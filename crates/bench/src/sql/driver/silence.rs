//! Silences: times in which clients waited and none got an answer, because the target stood still
//! or was not there.
//!
//! Invariants
//! 1. Only time in which the generator checked counts: a generator without CPU knows nothing about
//!    the target.
//! 2. How long a silence has to be depends on how long answers take. If each takes seconds, seconds
//!    between answers are no silence.

use std::time::{Duration, Instant};

/// The shortest silence that is recorded.
const KEPT_MIN: Duration = Duration::from_secs(1);
/// A silence is long if it lasts for this multiple of the median transaction.
const TYPICAL: u32 = 4;

/// The times of a run in which no client got an answer.
#[derive(Debug)]
pub(super) struct Silences {
    /// The longest time between two checks that counts as silence.
    step_max: Duration,
    looked: Instant,
    answers: u64,
    /// The current silence.
    now: Silence,
    kept: Vec<Silence>,
}

/// How long clients waited and none was answered.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Silence {
    pub(crate) length: Duration,
    /// The part of it in which there was no connection.
    pub(crate) unreachable: Duration,
}

impl Silences {
    /// Begins now; checks will come at this distance.
    pub(super) fn new(now: Instant, answers: u64, step: Duration) -> Self {
        Self { step_max: step * 2, looked: now, answers, now: Silence::default(), kept: Vec::new() }
    }

    /// Checks: how many answers there were so far, whether a client waits for one, and whether
    /// there is a connection. Gives how long the current silence is.
    pub(super) fn look(&mut self, now: Instant, answers: u64, is_waited_for: bool, is_connected: bool) -> Duration {
        let passed = (now - self.looked).min(self.step_max);
        self.looked = now;
        if answers > self.answers || !is_waited_for {
            self.answers = self.answers.max(answers);
            self.end();
        } else {
            self.now.length += passed;
            self.now.unreachable += if is_connected { Duration::ZERO } else { passed };
        }
        self.now.length
    }

    fn end(&mut self) {
        let ended = std::mem::take(&mut self.now);
        if ended.length >= KEPT_MIN {
            self.kept.push(ended);
        }
    }
}

impl Silence {
    /// The sum of the silences that are long for a target where half of the transactions take no
    /// longer than `typical`.
    pub(super) fn of(silences: &Silences, typical: Duration) -> Self {
        let long = |silence: &&Self| silence.length >= KEPT_MIN.max(typical * TYPICAL);
        silences.kept.iter().chain([&silences.now]).filter(long).fold(Self::default(), |sum, silence| Self {
            length: sum.length + silence.length,
            unreachable: sum.unreachable + silence.unreachable,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(100);

    /// Looks at equal distances; each is answers so far, whether somebody waits, and whether there
    /// is a connection.
    fn silences(looks: impl IntoIterator<Item = (u64, bool, bool)>) -> Silences {
        let start = Instant::now();
        let mut silences = Silences::new(start, 0, STEP);
        for (number, (answers, is_waited_for, is_connected)) in looks.into_iter().enumerate() {
            silences.look(start + STEP * (number as u32 + 1), answers, is_waited_for, is_connected);
        }
        silences
    }

    fn of(looks: impl IntoIterator<Item = (u64, bool, bool)>) -> Silence {
        Silence::of(&silences(looks), Duration::from_millis(1))
    }

    #[test]
    fn silence_is_time_in_which_somebody_waits_and_nobody_is_answered() {
        assert_eq!(of((0..100).map(|look| (look, true, true))), Silence::default());
        assert_eq!(of((0..100).map(|_| (7, false, true))), Silence::default(), "nobody waits");
        let stuck = of((0..100).map(|look: u64| (look.min(60), true, look < 90)));
        let seconds = |tenths| STEP * tenths;
        assert_eq!(stuck, Silence { length: seconds(39), unreachable: seconds(10) });
        let twice = of((0..100).map(|look: u64| (look - look % 20, true, true)));
        assert_eq!(twice.length, seconds(19 * 5 + 1), "the first answer comes after the first twenty looks");
    }

    #[test]
    fn short_stops_and_long_transactions_are_no_silence() {
        assert_eq!(of((0..100).map(|look: u64| (1 + look / 5, true, true))), Silence::default());
        let slow = silences((0..300).map(|look: u64| (1 + look / 30, true, true)));
        assert_eq!(Silence::of(&slow, Duration::from_secs(3)), Silence::default());
        assert!(Silence::of(&slow, STEP).length > Duration::from_secs(20));
    }

    #[test]
    fn a_generator_that_stood_still_itself_says_nothing_of_the_target() {
        let start = Instant::now();
        let mut silences = Silences::new(start, 0, STEP);
        silences.look(start + Duration::from_secs(60), 0, true, true);
        assert_eq!(Silence::of(&silences, Duration::ZERO), Silence::default());
    }
}

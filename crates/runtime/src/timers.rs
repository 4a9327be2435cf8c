//! Deadlines: a heap of timers.
//!
//! ```text
//! heap   deadline slot │ deadline slot │ …    four children each; the first is the next
//! slots  armed at(place in the heap), waker │ fired │ free …
//! ```
//!
//! Arming a timer that is later than all others, as timeouts mostly are, takes constant time.
//! Everything else takes O(log n).
//!
//! **Slack.** A timer is due in an interval and not at an instant: from its deadline on, for as
//! long as its slack. It fires at the roundest instant in the interval, so that timers with
//! overlapping intervals mostly share an instant, and a wake-up.
//!
//! Invariants
//! - `heap[i]` is not before `heap[(i - 1) / 4]`, and the slot of each knows its place.
//! - A timer fires at the roundest instant of its interval or later, never earlier than its
//!   deadline.
//!
//! Not here: clocks and threads. Instants are nanoseconds since some origin.

use std::task::Waker;

use slab::Slab;

/// An armed timer. It has to be removed, whether it has fired or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimerKey(usize);

#[derive(Debug)]
enum State {
    Armed { place: usize, waker: Waker },
    Fired,
}

/// All timers of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: Vec<(u64, TimerKey)>,
    slots: Slab<State>,
    pub(crate) armed_total: u64,
    pub(crate) fired_total: u64,
}

const CHILDREN: usize = 4;

/// The instant from `at` to `at + slack` with the most zeros at its end.
pub(crate) fn roundest(at_ns: u64, slack_ns: u64) -> u64 {
    let last = at_ns.saturating_add(slack_ns);
    if at_ns == 0 || at_ns == last {
        return at_ns;
    }
    // Below the first bit in which the instant before the first and the last one differ, any bits
    // are possible.
    let differ = (at_ns - 1) ^ last;
    let free = u64::BITS - 1 - differ.leading_zeros();
    last >> free << free
}

impl Timers {
    /// The next instant at which one is due.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.first().map(|&(at, _)| at)
    }

    /// How many are armed.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn arm(&mut self, at_ns: u64, slack_ns: u64, waker: Waker) -> TimerKey {
        let place = self.heap.len();
        let key = TimerKey(self.slots.insert(State::Armed { place, waker }));
        self.heap.push((roundest(at_ns, slack_ns), key));
        self.rise(place);
        self.armed_total += 1;
        key
    }

    pub(crate) fn has_fired(&self, key: TimerKey) -> bool {
        matches!(self.slots[key.0], State::Fired)
    }

    /// Whether it would wake the same task.
    pub(crate) fn will_wake(&self, key: TimerKey, waker: &Waker) -> bool {
        matches!(&self.slots[key.0], State::Armed { waker: known, .. } if known.will_wake(waker))
    }

    /// Makes `waker` the one to wake, if the timer has not fired. Gives back the other one, to be
    /// dropped without the lock.
    pub(crate) fn set_waker(&mut self, key: TimerKey, waker: Waker) -> Waker {
        match &mut self.slots[key.0] {
            State::Fired => waker,
            State::Armed { waker: known, .. } => std::mem::replace(known, waker),
        }
    }

    /// The wakers of all armed timers, which wake nobody until they get others.
    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        let nobody = || Waker::noop().clone();
        let take = |state: &mut State| match state {
            State::Fired => None,
            State::Armed { waker, .. } => Some(std::mem::replace(waker, nobody())),
        };
        self.slots.iter_mut().filter_map(|(_, state)| take(state)).collect()
    }

    /// Removes a timer. Gives the waker of one that has not fired, to be dropped without the lock.
    pub(crate) fn remove(&mut self, key: TimerKey) -> Option<Waker> {
        match self.slots.remove(key.0) {
            State::Fired => None,
            State::Armed { place, waker } => {
                self.take(place);
                Some(waker)
            }
        }
    }

    /// Moves the wakers of timers that are due to `due`, as many as it has room for.
    pub(crate) fn fire(&mut self, now_ns: u64, due: &mut Vec<Waker>) {
        while due.len() < due.capacity()
            && let Some(&(at, key)) = self.heap.first()
            && at <= now_ns
        {
            self.take(0);
            if let State::Armed { waker, .. } = std::mem::replace(&mut self.slots[key.0], State::Fired) {
                due.push(waker);
            }
            self.fired_total += 1;
        }
    }

    /// Removes from the heap what is at `place`.
    fn take(&mut self, place: usize) {
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.settle(place);
            let risen = self.rise(place);
            if risen == place {
                self.sink(place);
            }
        }
    }

    /// Tells the slot of the timer at `place` that it is there.
    fn settle(&mut self, place: usize) {
        let (_, key) = self.heap[place];
        if let State::Armed { place: of_slot, .. } = &mut self.slots[key.0] {
            *of_slot = place;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.settle(a);
        self.settle(b);
    }

    fn rise(&mut self, mut place: usize) -> usize {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent].0 <= self.heap[place].0 {
                break;
            }
            self.swap(parent, place);
            place = parent;
        }
        place
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let children = place * CHILDREN + 1..(place * CHILDREN + 1 + CHILDREN).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child].0) else { return };
            if self.heap[place].0 <= self.heap[least].0 {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    /// Walks all invariants.
    #[cfg(all(test, not(feature = "loom")))]
    fn check(&self) {
        for (place, &(at, key)) in self.heap.iter().enumerate() {
            assert!(place == 0 || self.heap[(place - 1) / CHILDREN].0 <= at);
            assert!(matches!(&self.slots[key.0], State::Armed { place: of_slot, .. } if *of_slot == place));
        }
        let armed = self.slots.iter().filter(|(_, state)| matches!(state, State::Armed { .. })).count();
        assert_eq!(armed, self.heap.len());
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn the_roundest_instant_is_in_the_interval_and_none_is_rounder() {
        let mut rng = StdRng::seed_from_u64(1);
        assert_eq!(
            (roundest(1_000, 0), roundest(1_000, 24), roundest(1_025, 1_100), roundest(0, 5)),
            (1_000, 1_024, 2_048, 0)
        );
        assert_eq!(roundest(u64::MAX - 3, 10), u64::MAX - 3);
        for _ in 0..2_000 {
            let (at, slack) = (rng.random_range(1..5_000_u64), rng.random_range(0..200_u64));
            let chosen = roundest(at, slack);
            assert!((at..=at + slack).contains(&chosen), "{at} {slack} {chosen}");
            let most = (at..=at + slack).map(u64::trailing_zeros).max().unwrap();
            assert_eq!(chosen.trailing_zeros(), most, "{at} {slack}");
        }
    }

    #[test]
    fn timers_fire_in_order_and_not_before_their_time() {
        for seed in 0..50 {
            println!("seed {seed}");
            let mut rng = StdRng::seed_from_u64(seed);
            let mut timers = Timers::default();
            // By key: the earliest instant, or none if it has fired.
            let mut model: BTreeMap<usize, Option<u64>> = BTreeMap::new();
            let mut now = 0;
            for _ in 0..2_000 {
                match rng.random_range(0..10) {
                    0..5 => {
                        let at = now + rng.random_range(0..10_000);
                        let key = timers.arm(at, 0, Waker::noop().clone());
                        assert_eq!(model.insert(key.0, Some(at)), None);
                    }
                    5..8 => {
                        let Some(&key) = model.keys().nth(rng.random_range(0..=model.len())) else { continue };
                        let at = model.remove(&key).unwrap();
                        assert_eq!(timers.remove(TimerKey(key)).is_some(), at.is_some());
                    }
                    _ => {
                        now += rng.random_range(0..3_000);
                        let mut due = Vec::with_capacity(rng.random_range(1..20));
                        timers.fire(now, &mut due);
                        for (&key, at) in &mut model {
                            if timers.has_fired(TimerKey(key)) {
                                assert!(at.is_none_or(|at| at <= now));
                                *at = None;
                            }
                        }
                        if due.len() < due.capacity() {
                            assert!(model.values().flatten().all(|&at| at > now), "one is due and has not fired");
                        }
                    }
                }
                timers.check();
                assert_eq!(timers.next(), model.values().flatten().min().copied());
                assert_eq!(timers.len(), model.values().flatten().count());
            }
        }
    }

    #[test]
    fn timers_that_overlap_share_an_instant() {
        let mut timers = Timers::default();
        let mut rng = StdRng::seed_from_u64(2);
        for _ in 0..10_000 {
            timers.arm(rng.random_range(1_000_000_000..1_100_000_000), 4_000_000, Waker::noop().clone());
        }
        let mut instants: Vec<_> = timers.heap.iter().map(|&(at, _)| at).collect();
        instants.sort_unstable();
        instants.dedup();
        assert!(instants.len() < 60, "{} wake-ups for 100 ms of timers with 4 ms of slack", instants.len());
    }
}

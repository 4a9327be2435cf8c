//! Shares: which pool is next. It is the first pool that waits, unless another waiting pool is owed
//! time.
//!
//! ```text
//!             owed by a thread to the batch pool, of which a task waits
//! enough ┈┈┈┈┈┈┈┈┈╱╲┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈╱┈┈      share × time while others run
//!      0      ╱    ╲            ╱            − time while it runs, out of its turn
//!         ╱         ╲       ╱
//!     ╱              ╲  ╱
//! ```
//!
//! Each thread keeps accounts of its own. If each thread gives a pool its share of that thread's
//! time, the pool has its share of all, and threads need not exchange anything for it.
//!
//! Invariants
//! 1. A waiting pool is owed its share of the time of what runs meanwhile. As soon as it is owed
//!    enough it is next, and then waits until it is owed enough again. In the long run it gets its
//!    share. A burst of a higher pool that is over before that is not interrupted.
//! 2. A pool that runs because it is first owes nothing for that.
//! 3. A pool without waiting tasks is owed nothing: time it did not want is not saved up.
//!
//! Not here: which pools wait, and clocks. So all of this can be replayed in tests.

use crate::pool::{Pool, PoolSet};

/// So much is enough: a share of 5 % of 2 ms.
const ENOUGH_NS: i64 = 100_000;
/// A pool is owed at most this: a share of 5 % of a task that ran for 200 ms.
const OWED_MAX_NS: i64 = 10_000_000;
/// A pool owes at most this after a task that ran out of turn.
const DEBT_MAX_NS: i64 = 20_000_000;

/// The accounts of one thread.
#[derive(Debug, Clone)]
pub(crate) struct Shares {
    /// In parts of 1024.
    share: [i64; Pool::COUNT],
    owed_ns: [i64; Pool::COUNT],
}

impl Shares {
    /// `share` of each pool, from 0 to 1.
    pub(crate) fn new(share: [f64; Pool::COUNT]) -> Self {
        Self { share: share.map(|share| (share * 1024.0).round() as i64), owed_ns: [0; Pool::COUNT] }
    }

    /// Charges that `ran` had the thread for `ns`, while tasks of the pools in `waiting` waited.
    pub(crate) fn charge(&mut self, ran: Pool, out_of_turn: bool, ns: u64, waiting: PoolSet) {
        let ns = i64::try_from(ns).unwrap_or(i64::MAX / 2048);
        for pool in Pool::ALL {
            let owed = &mut self.owed_ns[pool.index()];
            let earned = self.share[pool.index()].saturating_mul(ns) / 1024;
            if pool == ran && out_of_turn {
                *owed = (*owed + earned - ns).max(-DEBT_MAX_NS);
            } else if waiting.contains(pool) && pool != ran {
                *owed = (*owed + earned).min(OWED_MAX_NS);
            } else {
                *owed = (*owed + earned).min(0);
            }
        }
    }

    /// The pool of `waiting` that is owed most, if one is owed enough.
    pub(crate) fn most_owed(&self, waiting: PoolSet) -> Option<Pool> {
        let owed = |pool: &Pool| self.owed_ns[pool.index()];
        waiting.iter().filter(|pool| owed(pool) >= ENOUGH_NS).max_by_key(owed)
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Runs `tasks_ns` long tasks of pools that always have one more waiting, and gives each pool's
    /// part of the time.
    fn saturate(share: [f64; 4], tasks_ns: [Option<u64>; 4], rng: &mut StdRng) -> [f64; 4] {
        let waits = |pool: &Pool| tasks_ns[pool.index()].is_some();
        let waiting = Pool::ALL.into_iter().filter(waits).fold(PoolSet::EMPTY, PoolSet::with);
        let first = waiting.iter().next().expect("a pool");
        let mut shares = Shares::new(share);
        let mut ran_ns = [0_u64; 4];
        for _ in 0..400_000 {
            let owed = shares.most_owed(waiting);
            let next = owed.unwrap_or(first);
            let ns = tasks_ns[next.index()].expect("it waits");
            let ns = rng.random_range(ns / 2..=ns + ns / 2);
            shares.charge(next, next != first, ns, waiting);
            ran_ns[next.index()] += ns;
        }
        let all: u64 = ran_ns.iter().sum();
        ran_ns.map(|ns| ns as f64 / all as f64)
    }

    #[test]
    fn no_pool_starves_and_the_first_has_the_rest() {
        for seed in 0..100 {
            println!("seed {seed}");
            let mut rng = StdRng::seed_from_u64(seed);
            let share = [0; 4].map(|_| rng.random_range(0.01..0.15));
            let tasks_ns = [0; 4].map(|_| rng.random_bool(0.7).then(|| rng.random_range(200..1_000_000)));
            let Some(first) = tasks_ns.iter().position(Option::is_some) else { continue };
            let got = saturate(share, tasks_ns, &mut rng);
            for pool in first + 1..4 {
                if tasks_ns[pool].is_some() {
                    assert!((got[pool] - share[pool]).abs() < 0.005, "{share:?} of {tasks_ns:?}: {got:?}");
                }
            }
        }
    }

    #[test]
    fn a_task_out_of_turn_is_followed_by_as_much_of_others_as_it_took() {
        let mut shares = Shares::new([0.05; 4]);
        let waiting = PoolSet::EMPTY.with(Pool::Batch);
        shares.charge(Pool::User, false, 1_900_000, waiting);
        assert_eq!(shares.most_owed(waiting), None, "2 ms may go by");
        shares.charge(Pool::User, false, 200_000, waiting);
        assert_eq!(shares.most_owed(waiting), Some(Pool::Batch));
        shares.charge(Pool::Batch, true, 200_000, waiting);
        let mut user_ns = 0;
        while shares.most_owed(waiting).is_none() {
            shares.charge(Pool::User, false, 10_000, waiting);
            user_ns += 10_000;
        }
        assert!((3_500_000..4_100_000).contains(&user_ns), "{user_ns}");
    }

    #[test]
    fn nothing_is_saved_up_by_who_does_not_wait() {
        let mut shares = Shares::new([0.05; 4]);
        shares.charge(Pool::User, false, 1_000_000_000, PoolSet::EMPTY);
        let waiting = PoolSet::EMPTY.with(Pool::Batch);
        assert_eq!(shares.most_owed(waiting), None);
        // And running alone is no debt.
        shares.charge(Pool::Batch, false, 1_000_000_000, PoolSet::EMPTY);
        shares.charge(Pool::User, false, 2_100_000, waiting);
        assert_eq!(shares.most_owed(waiting), Some(Pool::Batch));
    }
}

//! How long a leader waits for commits that join its next group.
//!
//! An append costs etcd about as much whether it holds one commit or fifty. Clients whose commits
//! were acknowledged together come back at about the same time. Without a wait the first of them
//! takes the next append for itself, and the others wait for its end: the clients fall into groups
//! that take turns. So the leader waits until as many commits are there as were under way when the
//! last append was agreed on, less an eighth, which are stragglers. It waits as long as an append
//! takes, at most. A client that is alone never waits: its commit is all that is expected.
//!
//! A wait that few commits joined was in vain. After it the next group does not wait, after a
//! second one in a row the next three do not, and so on up to 63. So clients that come at times of
//! their own lose next to nothing.

use std::time::Duration;

/// The most groups that do not wait after one that has waited in vain: 2 to this power, less one.
const PASSES_LOG_MAX: u32 = 6;

/// What is known of the last appends.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// How long appends took lately.
    took: Duration,
    /// Waits in vain, one after the other.
    in_vain: u32,
    /// Groups that do not wait.
    passes: u32,
}

impl Gathering {
    /// Gives how many commits the next group waits for, and for how long. `None`: the group does not
    /// wait. `under_way` is the number of commits that were under way when the last append was agreed
    /// on.
    pub(crate) fn aim(&mut self, under_way: usize) -> Option<(usize, Duration)> {
        let wanted = under_way - under_way / 8;
        if wanted < 2 {
            return None;
        }
        if self.passes > 0 {
            self.passes -= 1;
            return None;
        }
        Some((wanted, self.took))
    }

    /// Notes how a wait ended: `missing` commits were waited for, and `came` of them have come.
    pub(crate) fn waited(&mut self, came: usize, missing: usize) {
        self.in_vain = if came * 2 >= missing { 0 } else { (self.in_vain + 1).min(PASSES_LOG_MAX) };
        self.passes = (1 << self.in_vain) - 1;
    }

    /// An append has taken so long.
    pub(crate) fn appended(&mut self, took: Duration) {
        self.took = if self.took.is_zero() { took } else { (self.took * 7 + took) / 8 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_client_alone_never_waits_and_many_wait_for_each_other() {
        let mut gathering = Gathering::default();
        gathering.appended(2 * MS);
        assert_eq!([0, 1].map(|under_way| gathering.aim(under_way)), [None, None]);
        assert_eq!(
            [2, 8, 128].map(|under_way| gathering.aim(under_way)),
            [2, 7, 112].map(|wanted| Some((wanted, 2 * MS)))
        );
        (0..100).for_each(|_| gathering.appended(10 * MS));
        let (_, pause) = gathering.aim(8).unwrap();
        assert!((9 * MS..10 * MS).contains(&pause), "it follows what appends take: {pause:?}");
    }

    #[test]
    fn waits_in_vain_become_rare_and_one_that_helps_brings_them_back() {
        let mut gathering = Gathering::default();
        gathering.appended(2 * MS);
        let groups_until_it_waits =
            |gathering: &mut Gathering| (0..1_000).take_while(|_| gathering.aim(8).is_none()).count();
        let mut passes = Vec::new();
        for _ in 0..8 {
            passes.push(groups_until_it_waits(&mut gathering));
            gathering.waited(1, 6);
        }
        assert_eq!(passes, [0, 1, 3, 7, 15, 31, 63, 63]);
        groups_until_it_waits(&mut gathering);
        gathering.waited(3, 6);
        assert_eq!(groups_until_it_waits(&mut gathering), 0);
    }
}

//! What `check` verifies of branches: that each page in use has one owner, that a branch shares
//! nothing but what its fork reaches, and that the tables of the forest agree with each other.

use std::collections::{BTreeMap, BTreeSet};

use super::Check;
use crate::catalog::Description;
use crate::cursor::RawCursor;
use crate::forest::{BranchId, Forest, MAIN_NAME, State, Stem, states};
use crate::node::Payload;
use crate::page::{PageId, TxnId};
use crate::past::PastOf;
use crate::root::Root;
use crate::space::Freed;
use crate::walk;
use crate::{Error, Result};

/// A step of going through the states, forks before what starts from them.
enum Step {
    Enter(usize),
    /// Nothing is left above a fork: `reachable` becomes again what it was.
    Leave {
        removed: Vec<Freed>,
        added: Vec<Freed>,
    },
}

impl Check<'_> {
    /// Checks every state of a root. `false` if not all are known, so that what is in use is not
    /// known either.
    pub(super) fn states(&mut self, root: &Root) -> bool {
        let pager = &self.core.pager;
        let (found, complete) = match states(pager, self.bounds, root, false) {
            Ok(found) => (found, true),
            Err(e) => {
                self.report.problem(format!("the forest: {e}"));
                let main = State { stem: Some(Stem::Branch(BranchId::MAIN)), catalog: root.catalog, fork: TxnId(0) };
                (vec![main], false)
            }
        };
        self.shares = root.forest != PageId::NONE;
        self.report.branches = 1;
        if self.shares && complete {
            let forest = Forest::of(pager, self.bounds, root.forest);
            if let Err(e) = forest.and_then(|forest| self.forest(&forest, &found)) {
                self.report.problem(format!("the forest: {e}"));
            }
        }
        if let Err(e) = self.count_tables(&found[0]) {
            self.report.problem(format!("the catalogue: {e}"));
        }
        let mut above: BTreeMap<TxnId, Vec<usize>> = BTreeMap::new();
        for (index, state) in found.iter().enumerate() {
            above.entry(state.fork).or_default().push(index);
        }
        let mut steps: Vec<Step> = above.remove(&TxnId(0)).unwrap_or_default().into_iter().map(Step::Enter).collect();
        while let Some(step) = steps.pop() {
            match step {
                Step::Leave { removed, added } => {
                    self.set_reachable(&added, false);
                    self.set_reachable(&removed, true);
                }
                Step::Enter(index) => {
                    let state = found[index];
                    self.state(&state);
                    let Some(starting) = state.as_fork().and_then(|fork| above.remove(&fork)) else { continue };
                    let below = found.iter().find(|below| below.as_fork() == Some(state.fork));
                    let (removed, added) = self.changes_between(below.filter(|_| state.fork > TxnId(0)), &state);
                    self.set_reachable(&removed, false);
                    self.set_reachable(&added, true);
                    steps.push(Step::Leave { removed, added });
                    steps.extend(starting.into_iter().map(Step::Enter));
                }
            }
        }
        for (fork, _) in above {
            self.report.problem(format!("a state starts from fork {}, which is not there", fork.0));
        }
        complete
    }

    fn state(&mut self, state: &State) {
        self.fork = state.fork;
        let what = match state.stem {
            Some(Stem::Branch(BranchId::MAIN)) => String::new(),
            Some(Stem::Branch(id)) => format!(" of branch {}", id.0),
            Some(Stem::Fork(txn)) => format!(" of fork {}", txn.0),
            Some(Stem::Kept(id, txn)) => format!(" of branch {} at {}", id.0, txn.0),
            None => " of the forest".to_owned(),
        };
        self.catalog(&what, &state.catalog);
    }

    fn set_reachable(&mut self, runs: &[Freed], reachable: bool) {
        for run in runs {
            for page in run.page.0..run.page.0.saturating_add(run.pages) {
                self.reachable.set(page, reachable);
            }
        }
    }

    /// What a fork does not reach of the pages of the one below, and what it has besides.
    fn changes_between(&mut self, below: Option<&State>, fork: &State) -> (Vec<Freed>, Vec<Freed>) {
        let (pager, bounds, pace) = (&self.core.pager, self.bounds, &mut || Ok(()));
        let removed = below.map_or(Ok(Vec::new()), |below| {
            let all = State { fork: TxnId(0), ..*below };
            walk::owned_but_for(pager, bounds, &all, (&fork.catalog, fork.fork), pace)
        });
        let both = removed.and_then(|removed| Ok((removed, walk::owned(pager, bounds, fork, pace)?)));
        // Damage was reported where it is. What comes of it may be reported as well.
        both.unwrap_or_default()
    }

    fn count_tables(&mut self, main: &State) -> Result<()> {
        let mut cursor = RawCursor::new(&self.core.pager, self.bounds, main.catalog);
        let mut valid = cursor.first()?;
        while valid {
            self.report.tables += 1;
            let found = Description::decode(Payload::Inline(cursor.value()?));
            self.report.entries = self.report.entries.saturating_add(found.map_or(0, |found| found.tree.entries));
            valid = cursor.next()?;
        }
        Ok(())
    }

    /// Compares the tables of the forest.
    fn forest(&mut self, forest: &Forest, states: &[State]) -> Result<()> {
        let (pager, bounds) = (&self.core.pager, self.bounds);
        let mut problems = Vec::new();
        let mut listed = BTreeSet::new();
        forest.each_above(pager, bounds, &mut |fork, stem| {
            listed.insert((fork, stem));
            Ok(())
        })?;
        let starts = states.iter().filter(|state| state.fork > TxnId(0));
        let mut expected: BTreeSet<_> = starts.filter_map(|state| Some((state.fork, state.stem?))).collect();
        let kept = PastOf::new(pager, bounds, forest)?.kept()?;
        expected.extend(kept.into_iter().map(|(branch, txn, fork)| (fork, Stem::Kept(branch, txn))));
        for (fork, stem) in listed.symmetric_difference(&expected) {
            problems.push(format!("whether {stem:?} starts from fork {} is said in two ways", fork.0));
        }
        let names: BTreeMap<BranchId, String> =
            forest.names(pager, bounds)?.into_iter().map(|(name, id)| (id, name)).collect();
        let mut named = 0;
        let mut to_reap = BTreeSet::new();
        for stem in states.iter().filter_map(|state| state.stem) {
            match stem {
                Stem::Branch(BranchId::MAIN) => {}
                Stem::Branch(id) => {
                    let reason = "a branch is not found by its number";
                    let missing = Error::Corrupted { page: forest.page(), reason };
                    let branch = forest.branch(pager, bounds, id)?.ok_or(missing)?;
                    if branch.dropped {
                        to_reap.insert(stem);
                        continue;
                    }
                    named += 1;
                    if names.get(&id) != Some(&branch.name) || branch.name == MAIN_NAME {
                        problems.push(format!("branch {} is not found by its name {:?}", id.0, branch.name));
                    }
                }
                Stem::Kept(..) => {}
                Stem::Fork(txn) => {
                    let first = |txn| (txn, Stem::Branch(BranchId(0)));
                    let mut above = expected.range(first(txn)..first(TxnId(txn.0 + 1)));
                    let is_needed = match (above.next(), above.next()) {
                        (Some((_, only)), None) => matches!(only, Stem::Kept(..)),
                        (_, second) => second.is_some(),
                    };
                    if !is_needed {
                        to_reap.insert(stem);
                    }
                }
            }
        }
        self.report.branches += named;
        if names.len() as u64 != named {
            problems.push(format!("{} branches have names, of {named}", names.len()));
        }
        let mut after = None;
        while let Some(stem) = forest.next_to_reap(pager, bounds, after)? {
            // A fork stays listed if others have come to start from it since.
            let there = states.iter().any(|state| state.stem == Some(stem));
            if !to_reap.remove(&stem) && (!there || matches!(stem, Stem::Branch(_))) {
                problems.push(format!("{stem:?} is to be reaped, and is in use or not there"));
            }
            after = Some(stem);
        }
        problems.extend(to_reap.iter().map(|stem| format!("{stem:?} is of no use, and is not listed to be reaped")));
        problems.into_iter().for_each(|text| self.report.problem(format!("the forest: {text}")));
        Ok(())
    }
}

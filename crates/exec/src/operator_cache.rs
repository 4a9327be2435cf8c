//! Trees of operators between two runs of their plans.
//!
//! Point queries, changes by key, small scans: making the operators and letting go of them costs
//! such a statement more than what it does with a row. So each thread keeps the tree of a plan's
//! last run when that has come to its end, and the next run begins with it, whichever session it is
//! for: see [`Execution::retire`](super::Execution::retire). A thread's own are in its processor's
//! caches, where those of many sessions would not be.
//!
//! A tree keeps its plan's expressions. So that of a large plan is not kept before the plan has run
//! twice: most large statements never come again.
//!
//! Invariants: what is kept is as if new ([`Operator::reset`](super::operator::Operator::reset)):
//! no row, no key and no value of the run before is seen by the next; and beside the plan it is
//! small, whatever the run before has read: a few kilobytes. It may keep the plan's parts, and what
//! the catalogue said of its tables, after the plan is gone, until another takes its place.

use std::cell::RefCell;

use super::Lowered;
use crate::plan::FragmentId;

/// Elements and bytes that a list of a kept tree may have room for.
const KEPT_BYTES_MAX: usize = 512;
/// Values in a batch of a kept tree, and bytes of a text among them.
pub(super) const KEPT_CELLS_MAX: usize = 32;
pub(super) const KEPT_TEXT_BYTES_MAX: usize = 64;
/// Trees that a thread keeps at the most.
const TREES_MAX: usize = 256;

/// Whose place it is, and its tree, if that is kept and not at work.
type Kept = (FragmentId, Option<Lowered>);

thread_local! {
    /// By the plan's number, of which there is one place for many.
    static TREES: RefCell<Vec<Option<Kept>>> = const { RefCell::new(Vec::new()) };
}

fn place(id: FragmentId) -> usize {
    id.0 as usize % TREES_MAX
}

/// The tree of a plan's last run on this thread, if it is still there.
pub(super) fn take(id: FragmentId) -> Option<Lowered> {
    let take = |trees: &RefCell<Vec<Option<Kept>>>| {
        let mut trees = trees.borrow_mut();
        let (whose, tree) = trees.get_mut(place(id))?.as_mut()?;
        if *whose == id { tree.take() } else { None }
    };
    // A thread that ends has none any more.
    TREES.try_with(take).ok().flatten()
}

/// Keeps a tree for the next run, in place of one that may be there. That of a large plan only if
/// the place was this plan's already.
pub(super) fn put(id: FragmentId, tree: Lowered, is_large: bool) {
    let before = TREES.try_with(|trees| {
        let mut trees = trees.borrow_mut();
        if trees.is_empty() {
            trees.resize_with(TREES_MAX, || None);
        }
        let kept = &mut trees[place(id)];
        let is_known = kept.as_ref().is_some_and(|(whose, _)| *whose == id);
        match is_large && !is_known {
            true => (kept.replace((id, None)), Some(tree)),
            false => (kept.replace((id, Some(tree))), None),
        }
    });
    // Not while it is borrowed: it is not known what dropping values leads to.
    drop(before);
}

/// Empties a list, and lets go of its memory if that is much.
pub(super) fn empty<T>(list: &mut Vec<T>) {
    list.clear();
    if list.capacity() * size_of::<T>() > KEPT_BYTES_MAX {
        *list = Vec::new();
    }
}

//! Trees of operators between two runs of their plans.
//!
//! Point queries, changes by key, small scans: making the operators and letting go of them costs such a statement more
//! than what it does with a row. So each thread keeps the tree of a plan's last run when that has come to its end, and the next run
//! begins with it, whichever session it is for: see [`Execution::retire`](super::Execution::retire). A thread's own are in its
//! processor's caches, where those of many sessions would not be.
//!
//! Invariants: what is kept is as if new ([`Run::again`]): no row, no key and no value of the run before is seen by the
//! next; and it is small, whatever the run before has read: a few kilobytes at most. It may keep what the catalogue said of its tables
//! after the plan is gone, until another takes its place.

use std::cell::RefCell;

use super::{Run, Tree};
use crate::plan::{FragmentId, Node};

/// Elements and bytes that a list of a kept tree may have room for.
const KEPT_BYTES_MAX: usize = 512;
/// Values in a batch of a kept tree, and bytes of a text among them.
pub(super) const KEPT_CELLS_MAX: usize = 32;
pub(super) const KEPT_TEXT_BYTES_MAX: usize = 64;
/// Trees that a thread keeps at the most.
const TREES_MAX: usize = 128;

/// A tree, and whose it is.
type Kept = (FragmentId, Box<Tree>);

thread_local! {
    /// By the plan's number, of which there is one place for many.
    static TREES: RefCell<Vec<Option<Kept>>> = const { RefCell::new(Vec::new()) };
}

fn place(id: FragmentId) -> usize {
    id.0 as usize % TREES_MAX
}

/// The tree of a plan's last run on this thread, if it is still there.
pub(super) fn take(id: FragmentId) -> Option<Box<Tree>> {
    let take = |trees: &RefCell<Vec<Option<Kept>>>| {
        let mut trees = trees.borrow_mut();
        let kept = trees.get_mut(place(id))?;
        kept.take_if(|(whose, _)| *whose == id).map(|(_, tree)| tree)
    };
    // A thread that ends has none any more.
    TREES.try_with(take).ok().flatten()
}

/// Keeps a tree for the next run, in place of one that may be there.
pub(super) fn put(id: FragmentId, tree: Box<Tree>) {
    let before = TREES.try_with(|trees| {
        let mut trees = trees.borrow_mut();
        if trees.is_empty() {
            trees.resize_with(TREES_MAX, || None);
        }
        trees[place(id)].replace((id, tree))
    });
    // Not while it is borrowed: nobody knows what letting go of values leads to.
    drop(before);
}

/// Empties a list, and lets go of its memory if that is much.
pub(super) fn empty<T>(list: &mut Vec<T>) {
    list.clear();
    if list.capacity() * size_of::<T>() > KEPT_BYTES_MAX {
        *list = Vec::new();
    }
}

impl Run {
    /// Back to where [`Run::new`] begins, with little memory; `false` if this operator, or one below it, does not know how:
    /// then a new one is to be made.
    pub(super) fn again(&mut self, node: &Node) -> bool {
        match (self, node) {
            (Self::Values(run), _) => run.again(),
            (Self::Scan(run), _) => run.again(),
            (Self::Filter(run), Node::Filter { input, .. }) => run.again(input),
            (Self::Project(run), Node::Project { input, .. }) => run.again(input),
            (Self::Limit(run), Node::Limit { input, .. }) => run.again(input),
            (Self::LockRows(run), Node::LockRows { input, .. }) => run.input.again(input),
            (Self::Insert(run), Node::Insert(insert)) => run.again(insert),
            (Self::Update(run), Node::Update(update)) => run.again(update),
            (Self::Delete(run), Node::Delete(delete)) => run.again(delete),
            _ => false,
        }
    }
}

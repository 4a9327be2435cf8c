//! A tree of operators between two runs of its plan.
//!
//! Point queries, changes by key, small scans: making the operators and letting go of them costs such a statement more
//! than what it does with a row. So the plan keeps one tree when a run has come to its end, and the next run begins with
//! it: see [`Execution::retire`](super::Execution::retire).
//!
//! Invariants: what is kept is as if new ([`Run::again`]): no row, no key and no value of the run before is seen by the
//! next; and it is small, whatever the run before has read: a few kilobytes at most.

use std::fmt;
use std::sync::Mutex;

use super::{Run, Tree};
use crate::plan::Node;

/// Elements and bytes that a list of a kept tree may have room for.
const KEPT_BYTES_MAX: usize = 512;
/// Values in a batch of a kept tree, and bytes of a text among them.
pub(super) const KEPT_CELLS_MAX: usize = 32;
pub(super) const KEPT_TEXT_BYTES_MAX: usize = 64;

/// Room for one tree.
#[derive(Default)]
pub(crate) struct Idle(Mutex<Option<Box<Tree>>>);

impl fmt::Debug for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Idle")
    }
}

impl Idle {
    /// The tree, if one is there and nobody else is at it.
    pub(super) fn take(&self) -> Option<Box<Tree>> {
        self.0.try_lock().ok()?.take()
    }

    /// Keeps a tree in place of the one that may be there.
    pub(super) fn put(&self, tree: Box<Tree>) {
        if let Ok(mut place) = self.0.try_lock() {
            *place = Some(tree);
        }
    }
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

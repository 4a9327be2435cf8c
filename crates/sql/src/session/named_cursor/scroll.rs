//! Scrolling: cursors that can move backwards, and those that cannot.
//!
//! Without SCROLL and NO SCROLL a cursor can go back if its plan could be run backwards, as in
//! PostgreSQL. Here its rows are kept for that, until they take too much memory.

use colibri_types::{Error, Result, SqlState};

use super::{Goal, OpenCursor};
use crate::expr::Expr;
use crate::plan::Node;

/// Whether a cursor can move backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Scroll {
    No,
    /// Neither SCROLL nor NO SCROLL was given.
    Offered,
    Asked,
}

impl Scroll {
    /// The scrolling of a declaration.
    pub(super) fn of(asked: Option<bool>, locks: bool, plan: &Node) -> Self {
        match asked {
            Some(true) => Self::Asked,
            None if !locks && runs_backwards(plan) => Self::Offered,
            _ => Self::No,
        }
    }

    /// Whether rows are kept.
    pub(super) fn keeps(self) -> bool {
        self != Self::No
    }
}

/// Whether PostgreSQL could run such a plan backwards.
fn runs_backwards(node: &Node) -> bool {
    match node {
        Node::Scan(_) | Node::System { .. } | Node::Series { .. } | Node::Shared { .. } | Node::Sort { .. } => true,
        // One row is computed, not read.
        Node::Values { rows } => rows.len() > 1,
        Node::Filter { condition, .. } if matches!(**condition, Expr::Const(_)) => false,
        Node::Filter { input, .. } | Node::Project { input, .. } | Node::Limit { input, .. } => runs_backwards(input),
        Node::Parallel { input } => runs_backwards(input),
        Node::Append { inputs } => inputs.iter().all(runs_backwards),
        _ => false,
    }
}

/// Refuses options that a cursor that locks rows cannot have.
pub(super) fn check_locks(hold: bool, scroll: Scroll, insensitive: bool) -> Result<()> {
    let refuse = |state, message: &str, detail: &str| Err(Error::new(state, message).detail(detail));
    let unsupported = SqlState::FEATURE_NOT_SUPPORTED;
    if hold {
        let message = "DECLARE CURSOR WITH HOLD ... FOR UPDATE/SHARE is not supported";
        return refuse(unsupported, message, "Holdable cursors must be READ ONLY.");
    }
    if scroll == Scroll::Asked {
        let message = "DECLARE SCROLL CURSOR ... FOR UPDATE/SHARE is not supported";
        return refuse(unsupported, message, "Scrollable cursors must be READ ONLY.");
    }
    if insensitive {
        let message = "DECLARE INSENSITIVE CURSOR ... FOR UPDATE/SHARE is not valid";
        return refuse(SqlState("42P11"), message, "Insensitive cursors must be READ ONLY.");
    }
    Ok(())
}

impl OpenCursor {
    /// The target position, relative to the present one. A cursor without scrolling is refused all
    /// moves for which PostgreSQL would move backwards.
    pub(super) fn reachable(&self, goal: Goal, moves: bool) -> Result<Goal> {
        let at = self.at as i64;
        let is_on_row = self.at > 0 && self.at <= self.count();
        let (goal, goes_back) = match goal {
            // MOVE only says whether there is a row; FETCH goes back to it to read it again.
            Goal::Relative(0) | Goal::Forward(0) => (Goal::Relative(0), is_on_row && !moves),
            Goal::Backward(0) => (Goal::Relative(0), !moves),
            Goal::Relative(by) => (Goal::Absolute(at.saturating_add(by).max(0)), by < 0),
            Goal::Absolute(number) => (goal, number < 0 || number <= at && at > 0),
            Goal::Backward(u64::MAX) => (goal, !moves || at > 0),
            Goal::Backward(_) => (goal, true),
            Goal::Forward(_) => (goal, false),
        };
        if goes_back && !self.scroll.keeps() {
            return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
                .hint("Declare it with SCROLL option to enable backward scan."));
        }
        Ok(goal)
    }
}

//! Which parts of a plan several threads can work on together.
//!
//! A grouping, or a sort that keeps some rows, is divided by the rows that its *driving scan* reads: the scan at the end of the way
//! down through filters, projections and the outer sides of joins. Each thread runs all of that way
//! for some ranges of keys, and groups or sorts what it gets. What the inner sides of joins give is made by
//! each thread for itself.
//!
//! Invariant: no expression on the way asks the session, runs a query, or gives another value each
//! time. So whichever thread looks at a row makes the same of it.

use std::sync::Arc;

use super::{Access, JoinKind, Node, Scan};
use crate::expr::Expr;
use crate::expr::walk::{is_pure, is_volatile};

/// The scan that a grouping or a sort can be divided by; `None` if it has to stay whole.
pub fn divided_by(node: &Node) -> Option<&Arc<Scan>> {
    let (input, keys, calls, presorted) = match node {
        Node::Aggregate { input, keys, calls, presorted, .. } => (input, keys, calls, presorted),
        Node::Sort { input, top: Some(_), presorted: 0, .. } if has_plain_exprs(node) => return driving_scan(input),
        _ => return None,
    };
    let can_combine = calls.iter().all(|call| {
        let is_plain = !call.distinct && call.order.is_empty();
        is_plain && (call.aggregate.start)().combines() && call.args.iter().chain(&call.filter).all(is_plain_expr)
    });
    if !presorted.is_empty() || !can_combine || !keys.iter().all(is_plain_expr) {
        return None;
    }
    driving_scan(input)
}

/// What each thread makes for itself when a node is divided: the inner sides of its joins.
pub fn repeated(divided: &Node) -> Vec<&Node> {
    let mut found = Vec::new();
    let mut at = divided;
    loop {
        at = match at {
            Node::Aggregate { input, .. } | Node::Sort { input, .. } => input,
            Node::Filter { input, .. } | Node::Project { input, .. } => input,
            Node::NestedLoop { outer, .. } => outer,
            Node::HashJoin { left, right, .. } => {
                found.push(&**right);
                left
            }
            _ => return found,
        };
    }
}

fn is_plain_expr(expr: &Expr) -> bool {
    is_pure(expr) && !is_volatile(expr)
}

fn has_plain_exprs(node: &Node) -> bool {
    let mut all = true;
    node.for_each_expr(&mut |expr| all = all && is_plain_expr(expr));
    all
}

/// The scan at the end of the way down; `None` if something on the way cannot be divided.
pub fn driving_scan(node: &Node) -> Option<&Arc<Scan>> {
    if !has_plain_exprs(node) {
        return None;
    }
    match node {
        Node::Scan(scan) => (!matches!(scan.access, Access::Inverted { .. }) && !scan.access.skips()).then_some(scan),
        Node::Filter { input, .. } | Node::Project { input, .. } => driving_scan(input),
        Node::NestedLoop { outer, inner, .. } => driving_scan(outer).filter(|_| is_plain(inner)),
        Node::HashJoin {
            kind: JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti,
            left,
            right,
            ..
        } => driving_scan(left).filter(|_| is_plain(right)),
        _ => None,
    }
}

/// Whether a part of a plan can be run by several threads, each for itself.
fn is_plain(node: &Node) -> bool {
    let is_known = matches!(
        node,
        Node::Values { .. }
            | Node::Scan(_)
            | Node::CountRange { .. }
            | Node::Filter { .. }
            | Node::Project { .. }
            | Node::NestedLoop { .. }
            | Node::HashJoin { .. }
            | Node::Aggregate { .. }
            | Node::Limit { .. }
            | Node::Distinct { .. }
    );
    let mut all = is_known && has_plain_exprs(node);
    node.for_each_input(&mut |input| all = all && is_plain(input));
    all
}

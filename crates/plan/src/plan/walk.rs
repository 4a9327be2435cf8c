//! Walks through plans: what belongs to an operator, and all operators of a plan in its order.
//!
//! The order is what numbers of operators mean: an operator comes first, then the queries inside
//! its expressions, then its inputs. An input that several operators read, and a query of which
//! there are copies, comes where it is met first.

use super::{AssignedValue, Assignment, ConflictAction, KeyedId, Node};
use crate::expr::walk::for_each_subquery;
use crate::expr::{Expr, Subquery};

impl Node {
    /// Calls `visit` with each expression of the operator itself.
    pub fn for_each_expr<'n>(&'n self, visit: &mut dyn FnMut(&'n Expr)) {
        match self {
            Self::Values { rows } => rows.iter().flatten().for_each(visit),
            Self::Series { args, .. } => args.iter().for_each(visit),
            Self::Expand { calls, .. } => calls.iter().flat_map(|(_, args)| args).for_each(visit),
            Self::Window { order, calls, .. } => {
                order.iter().for_each(|key| visit(&key.expr));
                calls.iter().flat_map(|call| call.exprs()).for_each(visit);
            }
            Self::Scan(scan) => {
                scan.access.for_each_value(visit);
                scan.filter.iter().for_each(visit);
            }
            Self::CountRange { access, .. } => access.for_each_value(visit),
            Self::GroupScan(_) => {}
            Self::Filter { condition, .. } => visit(condition),
            Self::Project { exprs, .. } => exprs.iter().for_each(visit),
            Self::MergeJoin { on, .. } => on.as_deref().into_iter().for_each(visit),
            Self::NestedLoop { args, on, .. } => args.iter().chain(on.as_deref()).for_each(visit),
            Self::HashJoin { left_keys, right_keys, on, .. } => {
                left_keys.iter().chain(right_keys.iter()).chain(on.as_deref()).for_each(visit);
            }
            Self::Aggregate { keys, calls, .. } => {
                keys.iter().for_each(&mut *visit);
                for call in calls.iter() {
                    call.args.iter().chain(&call.filter).for_each(&mut *visit);
                    call.order.iter().for_each(|key| visit(&key.expr));
                }
            }
            Self::FirstRows { top, .. } => visit(top),
            Self::Sort { keys, top, .. } => keys.iter().map(|key| &key.expr).chain(top).for_each(visit),
            Self::Limit { limit, offset, .. } => limit.iter().chain(offset).for_each(visit),
            Self::Keyed { keys, .. } => keys.iter().for_each(|key| visit(&key.value)),
            Self::Insert(insert) => {
                if let Some(conflict) = &insert.on_conflict
                    && let ConflictAction::Update { assignments, condition } = &conflict.action
                {
                    of_assignments(assignments, visit);
                    condition.iter().for_each(&mut *visit);
                }
                insert.security.exprs().for_each(&mut *visit);
                insert.returning.iter().flatten().for_each(visit);
            }
            Self::Update(update) => {
                of_assignments(&update.assignments, visit);
                update.security.exprs().for_each(&mut *visit);
                update.returning.iter().flatten().for_each(visit);
            }
            Self::Delete(delete) => delete.returning.iter().flatten().for_each(visit),
            Self::Merge(merge) => merge.for_each_expr(visit),
            Self::System { lookup, .. } => lookup.iter().for_each(|lookup| lookup.for_each_value(visit)),
            Self::Parallel { .. }
            | Self::Distinct { .. }
            | Self::GroupingSets { .. }
            | Self::Append { .. }
            | Self::SetOp { .. }
            | Self::Shared { .. }
            | Self::Recursive { .. }
            | Self::Working { .. }
            | Self::Switch { .. }
            | Self::Choice { .. }
            | Self::AdaptiveJoin { .. }
            | Self::Rest { .. }
            | Self::Parts { .. }
            | Self::LockRows { .. } => {}
        }
    }

    /// Calls `visit` with each operator right below, in their order.
    pub fn for_each_input<'n>(&'n self, visit: &mut dyn FnMut(&'n Self)) {
        match self {
            Self::Values { .. }
            | Self::Series { .. }
            | Self::System { .. }
            | Self::Scan(_)
            | Self::CountRange { .. }
            | Self::GroupScan(_)
            | Self::Working { .. }
            | Self::Rest { .. } => {}
            Self::Expand { input, .. }
            | Self::Window { input, .. }
            | Self::Filter { input, .. }
            | Self::Project { input, .. }
            | Self::GroupingSets { input, .. }
            | Self::Aggregate { input, .. }
            | Self::Distinct { input, .. }
            | Self::Sort { input, .. }
            | Self::Limit { input, .. }
            | Self::LockRows { input, .. } => visit(input),
            Self::Shared { input, .. } | Self::Keyed { input, .. } | Self::Parallel { input } => visit(input),
            Self::NestedLoop { outer: first, inner: second, .. }
            | Self::HashJoin { left: first, right: second, .. }
            | Self::MergeJoin { left: first, right: second, .. }
            | Self::SetOp { left: first, right: second, .. }
            | Self::Recursive { first, again: second, .. }
            | Self::Switch { plain: first, by_key: second, .. }
            | Self::FirstRows { in_order: first, sorted: second, .. } => {
                visit(first);
                visit(second);
            }
            Self::Choice { kept, few, many, .. } => {
                visit(kept);
                visit(few);
                visit(many);
            }
            Self::AdaptiveJoin { outer, few, many, .. } => {
                visit(outer);
                visit(few);
                visit(many);
            }
            Self::Append { inputs } => inputs.iter().for_each(visit),
            Self::Parts { main, parts } => {
                visit(main);
                parts.iter().for_each(visit);
            }
            Self::Insert(insert) => visit(&insert.source),
            Self::Update(update) => visit(&update.source),
            Self::Delete(delete) => visit(&delete.source),
            Self::Merge(merge) => visit(&merge.source),
        }
    }

    /// Calls `visit` with this operator and all that belong to it, in the plan's order.
    pub fn for_each_operator<'n>(&'n self, visit: &mut dyn FnMut(&'n Self)) {
        Walk::default().node(self, visit);
    }
}

pub(super) fn of_assignments<'n>(assignments: &'n [Assignment], visit: &mut dyn FnMut(&'n Expr)) {
    for assignment in assignments {
        let (AssignedValue::Expr(expr) | AssignedValue::Generated(expr) | AssignedValue::Add { amount: expr, .. }) =
            &assignment.value;
        visit(expr);
    }
}

/// What was met on the way that is not to be visited twice.
#[derive(Default)]
struct Walk {
    shared: Vec<usize>,
    keyed: Vec<KeyedId>,
    queries: Vec<usize>,
}

/// Notes something that was met; `false` if it was met before.
fn is_new<T: PartialEq>(known: &mut Vec<T>, one: T) -> bool {
    let is_new = !known.contains(&one);
    if is_new {
        known.push(one);
    }
    is_new
}

impl Walk {
    fn node<'n>(&mut self, node: &'n Node, visit: &mut dyn FnMut(&'n Node)) {
        visit(node);
        node.for_each_expr(&mut |expr| {
            for_each_subquery(expr, &mut |subquery: &'n Subquery| {
                if is_new(&mut self.queries, subquery.id)
                    && let Ok(fragment) = subquery.fragment()
                {
                    self.node(&fragment.root, visit);
                }
            });
        });
        let is_met = match node {
            Node::Shared { id, .. } => !is_new(&mut self.shared, *id),
            Node::Keyed { id, .. } => !is_new(&mut self.keyed, *id),
            _ => false,
        };
        if !is_met {
            node.for_each_input(&mut |input| self.node(input, visit));
        }
    }
}

//! What a part of a plan needs from outside: slots that operators further up fill, and whether it
//! may give something else when it is run again.
//!
//! Invariants: nothing is left out; what is not known counts as needed.

use colibri_types::functions::Volatility;

use crate::expr::{Expr, walk};
use crate::plan::{Access, AssignedValue, Assignment, ConflictAction, Node, RestId};

/// What a part of a plan needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// It reads slots that it does not fill itself.
    pub(super) slots: bool,
    /// It reads rows of a query that refers to itself and stands around it.
    pub(super) working: bool,
    /// It calls functions that give something else each time, or do something.
    pub(super) volatile: bool,
    /// Slots it reads or fills lie below this.
    pub(super) slots_end: usize,
}

/// A list of the slots that nested loops on the way down fill.
struct Filled<'f> {
    start: usize,
    end: usize,
    outer: Option<&'f Filled<'f>>,
}

impl Filled<'_> {
    fn has(&self, slot: usize) -> bool {
        (self.start..self.end).contains(&slot) || self.outer.is_some_and(|outer| outer.has(slot))
    }
}

/// A walk through a part of a plan. What many places refer to is walked once.
#[derive(Default)]
struct Search {
    needs: Needs,
    /// Shared queries that were met.
    seen: Vec<usize>,
    /// Those that were met inside queries of expressions, of which it only counts whether they are
    /// volatile.
    seen_inside: Vec<usize>,
    inside: bool,
    /// Queries that refer to themselves, around the place at hand.
    recursive: Vec<usize>,
    /// Adaptive joins around the place at hand.
    joins: Vec<RestId>,
    /// Expressions around the place at hand, and at the deepest place so far.
    depth: usize,
    deepest: usize,
    /// Of shared queries that were met.
    depths: Vec<(usize, usize)>,
}

impl Needs {
    /// Of an operator and those below.
    pub(super) fn of(node: &Node) -> Self {
        let mut search = Search::default();
        search.node(node, None);
        search.needs
    }

    /// Of expressions.
    pub(super) fn of_exprs(exprs: &[Expr]) -> Self {
        let mut search = Search::default();
        search.exprs(exprs, None);
        search.needs
    }
}

/// How many expressions are inside each other at the deepest place of a plan, those of queries
/// inside expressions and of WITH queries included: evaluating takes stack for each.
pub fn expressions_deep(root: &Node) -> usize {
    let mut search = Search::default();
    search.node(root, None);
    search.deepest
}

impl Search {
    fn exprs<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>, filled: Option<&Filled<'_>>) {
        exprs.into_iter().for_each(|expr| self.expr(expr, filled));
    }

    fn expr(&mut self, expr: &Expr, filled: Option<&Filled<'_>>) {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        self.expr_inside(expr, filled);
        self.depth -= 1;
    }

    fn expr_inside(&mut self, expr: &Expr, filled: Option<&Filled<'_>>) {
        match expr {
            Expr::Arg(slot) => {
                self.needs.slots |= !filled.is_some_and(|filled| filled.has(*slot));
                self.needs.slots_end = self.needs.slots_end.max(slot + 1);
            }
            Expr::Call { function, .. } => self.needs.volatile |= function.volatility == Volatility::Volatile,
            Expr::Chain { links, .. } => {
                self.needs.volatile |= links.iter().any(|(function, _)| function.volatility == Volatility::Volatile);
            }
            Expr::Session { function, .. } => self.needs.volatile |= function.is_volatile(),
            Expr::Domain { rules, .. } => {
                self.needs.volatile |= rules.is_volatile;
                self.deepest = self.deepest.max(self.depth + rules.depth);
            }
            Expr::Subquery(subquery) => {
                // Its slots are its own.
                let around = (std::mem::take(&mut self.needs), std::mem::replace(&mut self.inside, true));
                match subquery.fragment() {
                    Ok(fragment) => self.node(&fragment.root, None),
                    Err(_) => self.needs.volatile = true,
                }
                let inner = std::mem::replace(&mut self.needs, around.0);
                self.inside = around.1;
                self.needs.volatile |= inner.volatile;
                self.needs.working |= inner.working;
            }
            _ => {}
        }
        walk::for_each_child(expr, &mut |child| self.expr(child, filled));
    }

    fn assignments(&mut self, assignments: &[Assignment], filled: Option<&Filled<'_>>) {
        for assignment in assignments {
            let (AssignedValue::Expr(expr) | AssignedValue::Generated(expr) | AssignedValue::Add { amount: expr, .. }) =
                &assignment.value;
            self.expr(expr, filled);
        }
    }

    fn access(&mut self, access: &Access, filled: Option<&Filled<'_>>) {
        access.for_each_value(&mut |value| self.expr(value, filled));
    }

    fn node(&mut self, node: &Node, filled: Option<&Filled<'_>>) {
        match node {
            Node::Values { rows } => self.exprs(rows.iter().flatten(), filled),
            Node::Series { args, .. } => self.exprs(args.iter(), filled),
            Node::System { .. } => node.for_each_expr(&mut |value| self.expr(value, filled)),
            Node::Working { id, .. } => self.needs.working |= !self.recursive.contains(id),
            Node::Recursive { id, first, again, .. } => {
                self.node(first, filled);
                self.recursive.push(*id);
                self.node(again, filled);
                self.recursive.pop();
            }
            Node::Expand { input, calls } => {
                self.exprs(calls.iter().flat_map(|(_, args)| args), filled);
                self.node(input, filled);
            }
            Node::Window { input, calls, .. } => {
                self.exprs(calls.iter().flat_map(|call| call.exprs()), filled);
                self.node(input, filled);
            }
            Node::Scan(scan) => {
                self.access(&scan.access, filled);
                self.exprs(&scan.filter, filled);
            }
            Node::CountRange { access, .. } => self.access(access, filled),
            Node::GroupScan(_) => {}
            Node::Filter { input, condition } => {
                self.expr(condition, filled);
                self.node(input, filled);
            }
            Node::Project { input, exprs } => {
                self.exprs(exprs.iter(), filled);
                self.node(input, filled);
            }
            Node::NestedLoop { outer, inner, first_slot, args, on, .. } => {
                self.exprs(args.iter().chain(on.as_deref()), filled);
                self.node(outer, filled);
                let end = first_slot + args.len();
                self.needs.slots_end = self.needs.slots_end.max(end);
                self.node(inner, Some(&Filled { start: *first_slot, end, outer: filled }));
            }
            Node::HashJoin { left, right, left_keys, right_keys, on, .. } => {
                self.exprs(left_keys.iter().chain(right_keys.iter()).chain(on.as_deref()), filled);
                self.node(left, filled);
                self.node(right, filled);
            }
            Node::MergeJoin { left, right, on, .. } => {
                self.exprs(on.as_deref(), filled);
                self.node(left, filled);
                self.node(right, filled);
            }
            Node::Aggregate { input, keys, calls, .. } => {
                self.exprs(keys.iter(), filled);
                for call in calls.iter() {
                    self.exprs(call.args.iter().chain(&call.filter), filled);
                    self.exprs(call.order.iter().map(|key| &key.expr), filled);
                }
                self.node(input, filled);
            }
            Node::Parallel { input } => self.node(input, filled),
            Node::Distinct { input, .. } => self.node(input, filled),
            Node::Sort { input, keys, top, .. } => {
                self.exprs(keys.iter().map(|key| &key.expr).chain(top), filled);
                self.node(input, filled);
            }
            Node::Limit { input, limit, offset, .. } => {
                self.exprs(limit.iter().chain(offset), filled);
                self.node(input, filled);
            }
            Node::GroupingSets { input, .. } => self.node(input, filled),
            Node::Append { inputs } => inputs.iter().for_each(|input| self.node(input, filled)),
            Node::SetOp { left, right, .. } => {
                self.node(left, filled);
                self.node(right, filled);
            }
            Node::Shared { id, input } => {
                let seen = if self.inside { &mut self.seen_inside } else { &mut self.seen };
                if !seen.contains(id) {
                    seen.push(*id);
                    let around = std::mem::replace(&mut self.deepest, self.depth);
                    self.node(input, filled);
                    let deepest = std::mem::replace(&mut self.deepest, around);
                    self.depths.push((*id, deepest - self.depth));
                }
                let own = self.depths.iter().filter(|(known, _)| known == id).map(|(_, depth)| *depth).max();
                self.deepest = self.deepest.max(self.depth + own.unwrap_or(0));
            }
            Node::Parts { main, parts } => {
                self.node(main, filled);
                parts.iter().for_each(|part| self.node(part, filled));
            }
            Node::Keyed { input, keys, .. } => {
                self.exprs(keys.iter().map(|key| &key.value), filled);
                self.node(input, filled);
            }
            Node::Choice { kept, few, many, .. } => {
                self.node(kept, filled);
                self.node(few, filled);
                self.node(many, filled);
            }
            Node::AdaptiveJoin { rest, outer, few, many, .. } => {
                self.node(outer, filled);
                self.joins.push(*rest);
                self.node(few, filled);
                self.node(many, filled);
                self.joins.pop();
            }
            Node::Rest { id, .. } => self.needs.working |= !self.joins.contains(id),
            Node::Switch { plain, by_key, .. } => {
                self.node(plain, filled);
                self.node(by_key, filled);
            }
            Node::FirstRows { in_order, sorted, .. } => {
                self.node(in_order, filled);
                self.node(sorted, filled);
            }
            Node::LockRows { input, .. } => {
                self.needs.volatile = true;
                self.node(input, filled);
            }
            Node::Insert(insert) => {
                self.needs.volatile = true;
                self.node(&insert.source, filled);
                self.exprs(insert.returning.iter().flatten(), filled);
                self.exprs(insert.security.exprs(), filled);
                if let Some(conflict) = &insert.on_conflict
                    && let ConflictAction::Update { assignments, condition } = &conflict.action
                {
                    self.assignments(assignments, filled);
                    self.exprs(condition, filled);
                }
            }
            Node::Update(update) => {
                self.needs.volatile = true;
                self.assignments(&update.assignments, filled);
                self.exprs(update.returning.iter().flatten(), filled);
                self.exprs(update.security.exprs(), filled);
                self.node(&update.source, filled);
            }
            Node::Merge(merge) => {
                self.needs.volatile = true;
                merge.for_each_expr(&mut |expr| self.expr(expr, filled));
                self.node(&merge.source, filled);
            }
            Node::Delete(delete) => {
                self.needs.volatile = true;
                self.exprs(delete.returning.iter().flatten(), filled);
                self.node(&delete.source, filled);
            }
        }
    }
}

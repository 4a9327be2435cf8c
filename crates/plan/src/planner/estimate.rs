//! About how many rows queries give, and how many rows plans look at to give them.

use super::access::{LOOKUP_COST, SEEK_COST, Wanted};
use super::joins::{HASH_COST, PROBE_COST};
use super::lateral::rows_of_calls;
use super::order::Order;
use super::system::SystemWanted;
use super::{Planner, joins::columns_of};
use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr};
use crate::logical::walk::uses_slots;
use crate::logical::{Body, Query, Relation, Select, SetOperation, Source};
use crate::plan::{Access, JoinKind, Node, Scan, SetOp};

/// What part of the rows a condition on several tables leaves that is no equality.
const ACROSS_SELECTIVITY: f64 = 0.3;
/// Queries so deep inside each other are not looked into.
const DEPTH_MAX: usize = 4;
/// What a query that is not looked into is guessed to give.
const UNKNOWN_ROWS: f64 = 1_000.0;
/// What looking at a row costs that is kept in memory.
const KEPT_COST: f64 = 0.5;
/// How many rows make a group.
const ROWS_PER_GROUP: f64 = 10.0;

impl Planner<'_> {
    /// About how many rows a query gives.
    pub(super) fn rows_of_query(&self, query: &Query) -> f64 {
        let depth = self.estimated.get();
        if depth >= DEPTH_MAX {
            return UNKNOWN_ROWS;
        }
        self.estimated.set(depth + 1);
        let rows = self.rows_of_body(query);
        self.estimated.set(depth);
        super::query::constant_limit(query).map_or(rows, |limit| rows.min(limit)).max(1.0)
    }

    fn rows_of_body(&self, query: &Query) -> f64 {
        match &query.body {
            Body::Values(rows) => rows.len() as f64,
            Body::Recursive(_) => UNKNOWN_ROWS,
            Body::GroupingSets(sets) => self.rows_of_query(&sets.input) * sets.sets.len() as f64,
            Body::Set { op, left, right, .. } => {
                let (left, right) = (self.rows_of_query(left), self.rows_of_query(right));
                match op {
                    SetOperation::Union => left + right,
                    SetOperation::Intersect => left.min(right),
                    SetOperation::Except => left,
                }
            }
            Body::Select(select) => {
                let rows = self.rows_of_from(select);
                match &select.group {
                    Some(group) if group.keys.is_empty() => 1.0,
                    Some(_) => (rows / ROWS_PER_GROUP).max(1.0),
                    None => rows,
                }
            }
        }
    }

    fn rows_of_from(&self, select: &Select) -> f64 {
        let Some(from) = &select.from else { return 1.0 };
        let mut conditions: Vec<Expr> = select.filter.iter().cloned().flat_map(rewrite::conjuncts).collect();
        from.for_each_condition(&mut |condition| conditions.extend(rewrite::conjuncts(condition.clone())));
        let sees = |relation: &Relation, expr: &Expr| {
            let (mut any, mut all) = (false, true);
            rewrite::for_each_column(expr, &mut |column| {
                let inside = (relation.base..relation.base + relation.width).contains(&column);
                (any, all) = (any || inside, all && inside);
            });
            any && all
        };
        let columns = columns_of(from, &select.relations);
        let mut rows = 1.0;
        for relation in select.relations.iter().filter(|relation| relation.width == 0 || columns.has(relation.base)) {
            let (own, rest) = conditions.into_iter().partition(|condition| sees(relation, condition));
            conditions = rest;
            rows *= self.rows_of_relation(relation, own);
        }
        for condition in conditions {
            rows *= match &condition {
                Expr::Compare { op: CompareOp::Eq, left, right } => {
                    // One side is taken for the key of its table.
                    let sides = select.relations.iter().filter(|one| sees(one, left) || sees(one, right));
                    let pairs = sides.map(|relation| self.all_rows_of(relation)).fold(1.0, f64::max);
                    1.0 / pairs
                }
                _ => ACROSS_SELECTIVITY,
            };
        }
        rows.max(1.0)
    }

    fn rows_of_relation(&self, relation: &Relation, conditions: Vec<Expr>) -> f64 {
        let rows = match &relation.source {
            Source::Table(table) => {
                let wanted = Wanted::alone((table, relation.base), &[], &conditions, self.sizes);
                let path = self.cheapest(&wanted, &Order::ANY, None).path;
                return (path.rows * self.left_of(&wanted, &path)).max(1.0);
            }
            Source::Tree(tree) => return self.rows_of_tree((tree, relation.base), &conditions),
            Source::System { table, .. } => {
                return SystemWanted::alone(self, (table, relation.base), &conditions).rows_left();
            }
            _ => self.all_rows_of(relation),
        };
        (rows * super::judge::left_by(conditions.len())).max(1.0)
    }

    /// About how many rows a relation has without any condition.
    pub(super) fn all_rows_of(&self, relation: &Relation) -> f64 {
        match &relation.source {
            Source::Table(table) => self.sizes.rows(table).max(1.0),
            Source::Tree(tree) => self.all_rows_of_tree(tree),
            Source::Query(query) => self.rows_of_query(query),
            // WITH queries that read each other more than once are not followed.
            Source::Shared { query, .. } if self.estimated.get() == 0 => self.rows_of_query(query),
            Source::Shared { .. } => UNKNOWN_ROWS,
            Source::Functions { calls, .. } => rows_of_calls(calls),
            Source::System { table, .. } => table.rows_expected,
            Source::Lateral { .. } | Source::Working { .. } | Source::Keyed { .. } => 10.0,
            Source::Part { .. } => UNKNOWN_ROWS,
        }
    }

    /// About how many rows an operator gives, and how many it and those below look at.
    pub(super) fn work(&self, node: &Node) -> (f64, f64) {
        match node {
            Node::Scan(scan) => self.work_of_scan(scan),
            Node::CountRange { .. } => (1.0, SEEK_COST),
            Node::GroupScan(scan) => {
                let groups = self.groups_of_key(&scan.table, scan.index.as_deref(), scan.columns);
                (groups, groups * super::group_scan::cost_of_group(scan.calls.len()))
            }
            Node::Values { rows } => (rows.len() as f64, rows.len() as f64),
            Node::Series { .. } => (100.0, 100.0),
            Node::System { table, lookup, .. } => {
                let rows = lookup.as_ref().map_or(table.rows_expected, |lookup| lookup.rows);
                (rows, rows)
            }
            Node::Working { .. } => (10.0, 10.0),
            Node::Keyed { keys, input, .. } if keys.is_empty() => {
                let (rows, _) = self.work(input);
                (rows, rows * KEPT_COST)
            }
            Node::Keyed { .. } => (10.0, 10.0 + SEEK_COST),
            Node::Switch { plain, .. } => self.work(plain),
            Node::FirstRows { sorted, .. } => self.work(sorted),
            Node::Choice { many, .. } => self.work(many),
            Node::AdaptiveJoin { outer, few, many, expects_more, .. } => {
                let (given, work) = self.work(if *expects_more { many } else { few });
                (given, work + self.work(outer).1)
            }
            Node::Rest { rows, .. } => (*rows, 0.0),
            Node::Filter { input, .. } => {
                let (rows, work) = self.work(input);
                ((rows * super::judge::left_by(1)).max(1.0), work + rows)
            }
            Node::NestedLoop { outer, inner, kind, .. } => {
                let ((outer, outer_work), (inner, inner_work)) = (self.work(outer), self.work(inner));
                let rows = if matches!(kind, JoinKind::Semi | JoinKind::Anti) { outer } else { outer * inner };
                (rows.max(1.0), outer_work + outer * (SEEK_COST + inner_work))
            }
            Node::HashJoin { left, right, left_keys, kind, .. } => {
                let ((left, left_work), (right, right_work)) = (self.work(left), self.work(right));
                let rows = match kind {
                    JoinKind::Semi | JoinKind::Anti => left,
                    _ if left_keys.is_empty() => left * right,
                    _ => left.max(right),
                };
                let pairs = if left_keys.is_empty() { left * right } else { 0.0 };
                (rows, left_work + right_work + (left + right) * HASH_COST + pairs)
            }
            Node::MergeJoin { left, right, kind, .. } => {
                let ((left, left_work), (right, right_work)) = (self.work(left), self.work(right));
                let rows = if matches!(kind, JoinKind::Semi | JoinKind::Anti) { left } else { left.max(right) };
                (rows, left_work + right_work + (left + right) * PROBE_COST)
            }
            Node::Parallel { input } => self.work(input),
            Node::Aggregate { input, keys, .. } => {
                let (rows, work) = self.work(input);
                (if keys.is_empty() { 1.0 } else { (rows / ROWS_PER_GROUP).max(1.0) }, work + rows)
            }
            Node::Limit { input, limit, .. } => {
                let (rows, work) = self.work(input);
                match limit {
                    Some(Expr::Const(colibri_types::Datum::Int(limit))) if (*limit as f64) < rows => {
                        let share = *limit as f64 / rows;
                        (*limit as f64, if streams(input) { work * share } else { work })
                    }
                    _ => (rows, work),
                }
            }
            Node::GroupingSets { input, sets } => {
                let (rows, work) = self.work(input);
                (rows * sets.len() as f64, work + rows * sets.len() as f64)
            }
            Node::Append { inputs } => {
                inputs.iter().map(|input| self.work(input)).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))
            }
            Node::SetOp { op, left, right, .. } => {
                let ((left, left_work), (right, right_work)) = (self.work(left), self.work(right));
                (if *op == SetOp::Except { left } else { left.min(right) }, left_work + right_work + left + right)
            }
            Node::Recursive { first, again, .. } => {
                let ((first, first_work), (again, again_work)) = (self.work(first), self.work(again));
                (first + 10.0 * again, first_work + 10.0 * again_work)
            }
            Node::Shared { id, input } => {
                let known = self.shared_rows.borrow().get(id).copied();
                let rows = known.unwrap_or_else(|| self.work(input).0);
                self.shared_rows.borrow_mut().insert(*id, rows);
                (rows, rows)
            }
            Node::Sort { input, .. }
            | Node::Distinct { input, .. }
            | Node::Project { input, .. }
            | Node::Expand { input, .. }
            | Node::Window { input, .. }
            | Node::LockRows { input, .. } => self.work(input),
            Node::Insert(_) | Node::Update(_) | Node::Delete(_) | Node::Merge(_) => (1.0, 1.0),
            Node::Parts { main, .. } => self.work(main),
        }
    }

    fn work_of_scan(&self, scan: &Scan) -> (f64, f64) {
        let (ranges, lookup) = match &scan.access {
            Access::Gathered { .. } | Access::Inverted { .. } => {
                return (scan.rows, SEEK_COST + scan.rows.max(1.0) * (2.0 + LOOKUP_COST));
            }
            Access::Key { ranges } => (ranges, 0.0),
            Access::Index { ranges, covering, .. } => (ranges, if *covering { 0.0 } else { LOOKUP_COST }),
        };
        let found = if ranges.is_everything() { self.sizes.rows(&scan.table).max(1.0) } else { scan.rows.max(1.0) };
        (scan.rows, SEEK_COST + found * (1.0 + lookup))
    }
}

/// Whether an operator's first rows come before it has seen all of its input. How soon, nobody
/// knows of a scan that looks for what values outside say.
fn streams(node: &Node) -> bool {
    match node {
        Node::Filter { input, .. } | Node::Project { input, .. } | Node::Limit { input, .. } => streams(input),
        Node::Scan(scan) => !scan.filter.as_ref().is_some_and(uses_slots),
        Node::Append { .. } => true,
        Node::NestedLoop { outer, .. } => streams(outer),
        _ => false,
    }
}

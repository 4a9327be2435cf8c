//! Groups that a key tells without the rows between its ends.
//!
//! `GROUP BY` of the first columns of an index, or of the primary key, takes a seek for each group: the
//! number of rows is counted in O(log n), `min` and `max` of the column behind are at the ends.
//! `DISTINCT` of such columns, and aggregates of different values, are the same without calls. That
//! pays where groups are few for the rows that they have.

use std::sync::Arc;

use colibri_catalog::{Index, Table, record};
use colibri_types::key::is_exact;

use super::access::{SKIPPED_ROWS_MIN, Wanted};
use super::order::{Order, Ordered, order_of_key};
use super::{Planner, Rewrites, filtered};
use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::{Distinct, From, Group, Select, Source};
use crate::plan::{AggregateCall, GroupScan, KeyCall, Node};

/// What a seek costs, in rows looked at.
const COST_OF_SEEK: f64 = 12.0;

/// What finding a group and answering calls about it costs, in rows looked at.
pub(super) fn cost_of_group(calls: usize) -> f64 {
    COST_OF_SEEK * (1 + calls) as f64
}

impl Planner<'_> {
    /// About how many different values the first columns of a key have.
    pub(super) fn groups_of_key(&self, table: &Table, index: Option<&Index>, columns: usize) -> f64 {
        let rows = self.sizes.rows(table).max(1.0);
        let alike = self.sizes.rows_alike(table, index, columns);
        alike.map_or(rows, |alike| (rows / alike.per_value.max(1.0)).max(1.0))
    }

    /// Rows of groups, their keys first, if it is cheaper to ask a key for them; and what they are
    /// ordered by.
    pub(super) fn groups_from_key(&self, select: &Select, group: &Group) -> Option<(Node, Vec<Ordered>)> {
        if !select.grouped_rows.is_empty() {
            return None;
        }
        if group.keys.is_empty() {
            return Some((self.of_different_values(select, group)?, Vec::new()));
        }
        self.by_key_ends(select, &columns_of(&group.keys)?, &group.calls)
    }

    /// The different rows of a SELECT's output, if it is cheaper to ask a key for them; and what they
    /// are ordered by.
    pub(super) fn different_from_key(&self, select: &Select) -> Option<(Node, Vec<Ordered>)> {
        let is_plain = select.group.is_none() && select.extras.is_empty();
        if !is_plain || select.distinct != Distinct::All(select.output.len()) {
            return None;
        }
        let output = columns_of(&select.output)?;
        let mut keys = output.clone();
        keys.sort_unstable();
        keys.dedup();
        let (node, order) = self.by_key_ends(select, &keys, &[])?;
        let place = |column| keys.iter().position(|&key| key == column).map(Expr::Column);
        let exprs: Vec<Expr> = output.into_iter().map(place).collect::<Option<_>>()?;
        Some((Node::Project { input: Box::new(node), exprs: exprs.into() }, order))
    }

    /// `count(DISTINCT k)` and its like: aggregates of the different values of one column.
    fn of_different_values(&self, select: &Select, group: &Group) -> Option<Node> {
        let first = group.calls.first()?.args.first()?;
        let is_of_it = |call: &AggregateCall| {
            let of_one = matches!(&call.args[..], [arg] if rewrite::same(arg, first));
            call.distinct && of_one && call.filter.is_none() && call.order.is_empty()
        };
        if !group.calls.iter().all(is_of_it) {
            return None;
        }
        let (input, _) = self.by_key_ends(select, &columns_of(std::slice::from_ref(first))?, &[])?;
        let input = Box::new(input);
        let plain = |call: &AggregateCall| AggregateCall {
            aggregate: call.aggregate,
            args: vec![Expr::Column(0)],
            distinct: false,
            filter: None,
            order: Vec::new(),
        };
        let calls = group.calls.iter().map(plain).collect();
        Some(Node::Aggregate { input, keys: [].into(), calls, presorted: [].into(), always: [].into() })
    }

    /// Groups by columns of a table, places in the wide row, in the order asked for; and what they
    /// are ordered by.
    fn by_key_ends(&self, select: &Select, keys: &[usize], calls: &[AggregateCall]) -> Option<(Node, Vec<Ordered>)> {
        let ([relation], Some(From::Relation(0))) = (&select.relations[..], &select.from) else { return None };
        let Source::Table(table) = &relation.source else { return None };
        let rewrites = self.sizes.rewrites();
        let rows = self.sizes.rows(table);
        if rewrites == Rewrites::None || (rewrites == Rewrites::Paying && rows < SKIPPED_ROWS_MIN) {
            return None;
        }
        let all = select.filter.iter().chain(&relation.filter);
        let conditions: Vec<Expr> = all.cloned().flat_map(rewrite::conjuncts).collect();
        let is_of_keys = |condition: &Expr| {
            let (mut any, mut all) = (false, true);
            rewrite::for_each_column(condition, &mut |place| (any, all) = (true, all && keys.contains(&place)));
            any && all && rewrite::is_pure(condition) && !rewrite::is_volatile(condition)
        };
        if !conditions.iter().all(is_of_keys) {
            return None;
        }
        let keys: Vec<usize> = keys.iter().map(|place| place - relation.base).collect();
        let mut candidates = std::iter::once(None).chain(table.plain_indexes().map(Some));
        let scan = candidates.find_map(|index| scan_of(table, index, &keys, calls, relation.base))?;
        if rewrites == Rewrites::Paying {
            let wanted = Wanted::alone((table, relation.base), &keys, &conditions, self.sizes);
            let groups = self.groups_of_key(table, scan.index.as_deref(), scan.columns);
            if groups * cost_of_group(calls.len()) >= self.cheapest(&wanted, &Order::ANY, None).cost {
                return None;
            }
        }
        let order: Vec<usize> = scan.key().into_iter().take(scan.columns).map(|(column, _)| column).collect();
        let place = |column: usize| order.iter().position(|&other| other == column).unwrap_or_default();
        let bound = conditions.into_iter().map(|mut condition| {
            rewrite::map_columns(&mut condition, &|column| place(column - relation.base));
            condition
        });
        let columns = scan.columns;
        let given = order_of_key(table, scan.index.as_deref(), columns, relation.base);
        let node = filtered(Node::GroupScan(Arc::new(scan)), bound.collect());
        if order == keys {
            return Some((node, given));
        }
        let calls = (columns..columns + calls.len()).map(Expr::Column);
        let exprs: Vec<Expr> = keys.iter().map(|&key| Expr::Column(place(key))).chain(calls).collect();
        Some((Node::Project { input: Box::new(node), exprs: exprs.into() }, given))
    }
}

/// Expressions that are columns, each of them.
fn columns_of(exprs: &[Expr]) -> Option<Vec<usize>> {
    let column = |expr: &Expr| if let Expr::Column(column) = expr { Some(*column) } else { None };
    exprs.iter().map(column).collect()
}

/// The scan of a key for groups by some of a table's columns, if these are the first ones of it and
/// the column behind them is all that calls ask for.
fn scan_of(
    table: &Arc<Table>,
    index: Option<&Arc<Index>>,
    keys: &[usize],
    calls: &[AggregateCall],
    base: usize,
) -> Option<GroupScan> {
    let columns = keys.len();
    let mut scan = GroupScan { table: Arc::clone(table), index: index.cloned(), columns, calls: Vec::new() };
    let key: Vec<usize> = scan.key().into_iter().map(|(column, _)| column).collect();
    let is_given = |column: usize| match index {
        Some(index) => record::is_covered(table, index, column),
        None => is_exact(table.columns[column].ty.ty),
    };
    let first = key.get(..columns).filter(|first| first.iter().all(|column| keys.contains(column)))?;
    // A group of the whole primary key is one row.
    let are_different = keys.iter().all(|key| first.contains(key)) && (index.is_some() || key.len() > columns);
    if !are_different || !first.iter().all(|&column| is_given(column)) {
        return None;
    }
    let next = key.get(columns).copied();
    let key_call = |call: &AggregateCall| {
        if call.filter.is_some() || !call.order.is_empty() {
            return None;
        }
        let column = match &call.args[..] {
            [] => None,
            [Expr::Column(place)] => Some(place.checked_sub(base).filter(|&column| column < table.columns.len())?),
            _ => return None,
        };
        match (call.aggregate.name, column) {
            ("count", None) => Some(KeyCall::Rows),
            ("count", Some(column)) if !call.distinct && table.columns[column].not_null => Some(KeyCall::Rows),
            ("count", Some(_)) if !call.distinct && column == next => Some(KeyCall::NotNull),
            ("min", Some(column)) if Some(column) == next && is_given(column) => Some(KeyCall::Least),
            ("max", Some(column)) if Some(column) == next && is_given(column) => Some(KeyCall::Greatest),
            _ => None,
        }
    };
    scan.calls = calls.iter().map(key_call).collect::<Option<_>>()?;
    Some(scan)
}

//! Merge joins: of two sides that come in the order of the columns that are to be equal, as tables
//! do in the order of their keys. Neither side is kept then.
//!
//! A side is not sorted for that: a hash table is cheaper.

use std::sync::Arc;

use colibri_types::{Error, Result};

use super::cost::ordered;
use super::joins::{Columns, HASH_COST, Item, Tables, by_itself, equality};
use super::order::{Fit, Order, Ordered};
use super::{Planned, Planner, Rewrites};
use crate::expr::Expr;
use crate::logical::{From, Source};
use crate::plan::{JoinKind, MergeKey, Node};

/// A side of fewer rows is put into a hash table: it fits into the processor's cache.
const ROWS_MIN: f64 = 1_000.0;

/// Columns of the two sides that are to be equal, the second one with how both are ordered.
pub(super) type Pairs = Vec<(usize, Ordered)>;

impl Planner<'_> {
    /// The columns by which two sides can be merged, if both come in their order and it is cheaper
    /// than a hash table.
    pub(super) fn merge_keys(
        &self,
        kind: JoinKind,
        (outer, columns): (&Planned, &Columns),
        inner: &Item<'_>,
        on: &[Expr],
        tables: &Tables<'_>,
    ) -> Option<Pairs> {
        let rewrites = self.sizes.rewrites();
        let From::Relation(index) = inner.from else { return None };
        let Source::Table(table) = &tables.relations[*index].source else { return None };
        let is_other_kind = matches!(kind, JoinKind::Right | JoinKind::Full);
        if rewrites == Rewrites::None || is_other_kind || !inner.keys.is_empty() || outer.order.is_empty() {
            return None;
        }
        let of_outer = |expr: &Expr| matches!(expr, Expr::Column(column) if columns.has(*column));
        let of_inner = |expr: &Expr| matches!(expr, Expr::Column(column) if inner.columns.has(*column));
        let any_of = |columns: &Columns, expr: &Expr| columns.has_any(expr) && columns.has_all(expr);
        let mut equal = Vec::new();
        for condition in on {
            match equality(condition, &of_outer, &of_inner) {
                Some((Expr::Column(left), Expr::Column(right))) => equal.push((left, right)),
                // Of expressions, whose order is not known.
                _ if equality(condition, &|expr| any_of(columns, expr), &|expr| any_of(&inner.columns, expr))
                    .is_some() =>
                {
                    return None;
                }
                _ => {}
            }
        }
        let mut pairs: Pairs = Vec::new();
        for given in &outer.order {
            let Some(&(left, right)) = equal.iter().find(|(left, _)| *left == given.column) else { break };
            pairs.push((left, Ordered { column: right, not_null: false, ..*given }));
        }
        if pairs.is_empty() || pairs.len() != equal.len() {
            return None;
        }
        let wanted: Vec<Ordered> = pairs.iter().map(|(_, right)| *right).collect();
        let wanted = Order { columns: &wanted, ..Order::ANY };
        let columns = wanted.of_relation(&tables.relations[*index]);
        let alone = by_itself(table, *index, inner, (tables, self.sizes));
        let in_order = self.cheapest(&alone, &wanted.over(&columns), None);
        if wanted.over(&columns).fit_either_way(&in_order.path.order).0 != Fit::Whole {
            return None;
        }
        if rewrites == Rewrites::Paying {
            let any_order = self.cheapest(&alone, &Order::ANY, None).cost;
            let rows = self.estimate(inner, tables);
            let kept = rows.min(outer.rows);
            if kept < ROWS_MIN || in_order.cost > any_order + kept * HASH_COST {
                return None;
            }
        }
        Some(pairs)
    }

    /// Joins two sides by columns in whose order both come.
    pub(super) fn merge_join(
        &mut self,
        kind: JoinKind,
        outer: Planned,
        inner: &Item<'_>,
        on: Vec<Expr>,
        pairs: &Pairs,
        tables: &Tables<'_>,
    ) -> Result<Planned> {
        let wanted: Vec<Ordered> = pairs.iter().map(|(_, right)| *right).collect();
        let order = Order { columns: &wanted, ..Order::ANY };
        let right = self.part(inner, &Tables { order, limit: None, ..*tables })?;
        if order.fit(&right.order) != Fit::Whole {
            return Err(Error::internal("a side of a merge join does not come in its order"));
        }
        let share = self.left_of_pairs(&on.iter().collect::<Vec<_>>(), inner, right.rows, tables);
        let layout = outer.layout.joined(&right.layout);
        let all = on.clone();
        let is_key = |condition: &Expr| {
            let is_pair = |(left, right): &(usize, Ordered)| {
                let sides = equality(
                    condition,
                    &|expr| matches!(expr, Expr::Column(column) if column == left),
                    &|expr| matches!(expr, Expr::Column(column) if *column == right.column),
                );
                sides.is_some()
            };
            pairs.iter().any(is_pair)
        };
        let rest = on.into_iter().filter(|condition| !is_key(condition)).map(|condition| layout.bind(condition));
        let on = ordered(rest.collect()).map(Arc::new);
        let key = |(left, key): &(usize, Ordered)| {
            Some(MergeKey {
                left: outer.layout.place(*left)?,
                right: right.layout.place(key.column)?,
                descending: key.descending,
                nulls_first: key.nulls_first,
            })
        };
        let keys = pairs.iter().map(key).collect::<Option<Vec<_>>>();
        let keys = keys.ok_or_else(|| Error::internal("a side of a join has lost a key"))?;
        let rows = outer.rows * right.rows * share;
        let (rows, layout) = match kind {
            JoinKind::Inner => (rows.max(1.0), layout),
            JoinKind::Left => (rows.max(outer.rows), layout),
            _ => ((outer.rows * self.left_by_partners(kind, &all, right.rows, tables)).max(1.0), outer.layout),
        };
        let right_width = right.layout.0.len();
        let (left, right) = (Box::new(outer.node), Box::new(right.node));
        let node = Node::MergeJoin { kind, left, right, keys: keys.into(), on, right_width };
        Ok(Planned { node, layout, rows, order: outer.order })
    }
}

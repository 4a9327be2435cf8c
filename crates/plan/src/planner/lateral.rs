//! What is LATERAL: functions in FROM and queries that look at what stands before them.
//!
//! A nested loop puts the columns of the outer row that the inner side takes into slots, and runs
//! it anew for each row. While the inner side is planned, the planner knows which columns are in
//! which slots.

use std::sync::Arc;

use colibri_types::{Error, Result};

use super::cost::ordered;
use super::joins::{Tables, columns_of};
use super::{Planned, Planner};
use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::{From, Relation};
use crate::plan::{JoinKind, Node, Series};

impl Planner<'_> {
    /// Columns that functions and LATERAL queries in a part of FROM take from outside of it, and
    /// nothing further up gives.
    pub(super) fn taken(&self, from: &From, relations: &[Relation]) -> Vec<usize> {
        let own = columns_of(from, relations);
        let mut taken = Vec::new();
        from.for_each_relation(&mut |index| {
            for expr in relations[index].source.taken() {
                rewrite::for_each_column(expr, &mut |column| {
                    let known = own.has(column) || self.slot_of(column).is_some() || taken.contains(&column);
                    if !known {
                        taken.push(column);
                    }
                });
            }
        });
        taken
    }

    fn slot_of(&self, column: usize) -> Option<usize> {
        self.provided.iter().find(|(provided, _)| *provided == column).map(|(_, slot)| *slot)
    }

    /// What a LATERAL source takes, as slots.
    pub(super) fn over_slots(&self, expr: &Expr) -> Result<Expr> {
        let mut expr = expr.clone();
        let missing = std::cell::Cell::new(false);
        rewrite::substitute(&mut expr, &|column| match self.slot_of(column) {
            Some(slot) => Expr::Arg(slot),
            None => {
                missing.set(true);
                Expr::Column(column)
            }
        });
        if missing.get() { Err(Error::internal("a LATERAL source looks at what is not there")) } else { Ok(expr) }
    }

    /// A nested loop whose inner side takes values of the outer row.
    pub(super) fn lateral_join(
        &mut self,
        kind: JoinKind,
        outer: Planned,
        inner: &From,
        inner_conditions: Vec<Expr>,
        on: Vec<Expr>,
        tables: &Tables<'_>,
    ) -> Result<Planned> {
        let taken = self.taken(inner, tables.relations);
        let first_slot = self.slots;
        self.slots += taken.len();
        let mut args = Vec::with_capacity(taken.len());
        for &column in &taken {
            let place = outer.layout.place(column);
            args.push(Expr::Column(place.ok_or_else(|| Error::internal("a LATERAL source comes before its row"))?));
        }
        let provided = self.provided.len();
        self.provided.extend(taken.iter().copied().zip(first_slot..));
        let planned = self.item(inner, inner_conditions, tables);
        self.provided.truncate(provided);
        let inner = planned?;
        let layout = outer.layout.joined(&inner.layout);
        let on = on.into_iter().map(|condition| layout.bind(condition)).collect();
        let node = Node::NestedLoop {
            kind,
            outer: Box::new(outer.node),
            inner_width: inner.layout.0.len(),
            inner: Box::new(inner.node),
            first_slot,
            args: args.into(),
            on: ordered(on).map(Arc::new),
        };
        Ok(Planned { node, layout, rows: (outer.rows * inner.rows).max(1.0), order: outer.order })
    }

    /// Functions in FROM: one alone, or several side by side, of which the shorter ones give NULLs
    /// in the end.
    pub(super) fn functions(&self, calls: &[(Series, Vec<Expr>)], numbered: bool) -> Result<Node> {
        let mut list = Vec::with_capacity(calls.len());
        for (series, args) in calls {
            let args = args.iter().map(|arg| self.over_slots(arg)).collect::<Result<Vec<_>>>()?;
            list.push((*series, args));
        }
        if let [_] = &list[..]
            && let Some((series, args)) = list.pop()
        {
            return Ok(Node::Series { series, args: args.into(), numbered });
        }
        let one = Node::Values { rows: [Vec::new()].into() };
        let node = Node::Expand { input: Box::new(one), calls: list.into() };
        Ok(if numbered { Node::RowNumber { input: Box::new(node), partition: [].into() } } else { node })
    }
}

/// About how many rows functions in FROM give.
pub(super) fn rows_of_calls(calls: &[(Series, Vec<Expr>)]) -> f64 {
    if calls.iter().all(|(series, _)| *series == Series::One) { 1.0 } else { 100.0 }
}

//! What is LATERAL: functions in FROM and queries that look at what stands before them. And what is
//! run as if it were: queries and joins that are asked for the partners of few rows.
//!
//! A nested loop puts the columns of the outer row that the inner side takes into slots, and runs
//! it anew for each row. While the inner side is planned, the planner knows which columns are in
//! which slots.

use std::cell::RefCell;
use std::sync::Arc;

use colibri_types::{Error, Result};

use super::access::SEEK_COST;
use super::cost::ordered;
use super::joins::{Columns, HASH_COST, Item, PARTNER_SHARE, Tables, columns_of, equality};
use super::order::Order;
use super::push_filters::push_down;
use super::{Layout, Planned, Planner, Rewrites};
use crate::bind::rewrite;
use crate::expr::Expr;
use crate::logical::{From, Join, Relation, Source};
use crate::plan::{Frame, JoinKind, Node, Series, WindowCall, WindowFunction};

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
        if !numbered {
            return Ok(node);
        }
        let (function, frame) = (WindowFunction::RowNumber, Frame::default());
        let calls = [WindowCall { function, args: Vec::new(), filter: None, frame, most: None }].into();
        Ok(Node::Window { input: Box::new(node), partition: [].into(), order: [].into(), calls })
    }
}

/// So many times as many outer rows as expected cost no more than the other way does.
const ASKED_SLACK: f64 = 4.0;

/// Values of the outer row that the inner side of a nested loop looks at, in slots.
pub(super) struct OuterValues<'o> {
    columns: &'o Columns,
    layout: &'o Layout,
    first_slot: usize,
    args: RefCell<Vec<Expr>>,
}

impl<'o> OuterValues<'o> {
    /// Of columns of the outer row, in slots from `first_slot` on.
    pub(super) fn new(columns: &'o Columns, layout: &'o Layout, first_slot: usize) -> Self {
        Self { columns, layout, first_slot, args: RefCell::default() }
    }

    /// An expression with slots in the place of the outer row's columns.
    pub(super) fn in_slots(&self, mut expr: Expr) -> Expr {
        rewrite::substitute(&mut expr, &|column| {
            if !self.columns.has(column) {
                return Expr::Column(column);
            }
            let place = self.layout.place(column).unwrap_or_default();
            let mut args = self.args.borrow_mut();
            let same = args.iter().position(|arg| matches!(arg, Expr::Column(other) if *other == place));
            let slot = same.unwrap_or_else(|| {
                args.push(Expr::Column(place));
                args.len() - 1
            });
            Expr::Arg(self.first_slot + slot)
        });
        expr
    }

    /// What fills the slots, over the outer row.
    pub(super) fn into_args(self) -> Vec<Expr> {
        self.args.into_inner()
    }
}

/// Of which outer rows a part is asked for the partners.
pub(super) enum AskedRows {
    All,
    /// Of as many from the first on.
    First(u64),
}

/// A part of FROM that is asked for the partners of each outer row.
pub(super) struct PerRow {
    inner: Planned,
    first_slot: usize,
    args: Vec<Expr>,
    /// Conditions that it does not look at.
    on: Vec<Expr>,
}

impl PerRow {
    pub(super) fn join(self, kind: JoinKind, outer: Planned) -> Planned {
        let layout = outer.layout.joined(&self.inner.layout);
        let on = self.on.into_iter().map(|condition| layout.bind(condition)).collect();
        let (rows, layout) = match kind {
            JoinKind::Semi | JoinKind::Anti => (outer.rows * PARTNER_SHARE, outer.layout),
            _ => (outer.rows * self.inner.rows, layout),
        };
        let node = Node::NestedLoop {
            kind,
            outer: Box::new(outer.node),
            inner_width: self.inner.layout.0.len(),
            inner: Box::new(self.inner.node),
            first_slot: self.first_slot,
            args: self.args.into(),
            on: ordered(on).map(Arc::new),
        };
        Planned { node, layout, rows: rows.max(1.0), order: outer.order }
    }
}

/// Lets the joins of a part come in any order again.
fn forget_order(from: &mut From) {
    if let From::Join { kind, left, right, .. } = from {
        if *kind == Join::InnerInOrder {
            *kind = Join::Inner;
        }
        forget_order(left);
        forget_order(right);
    }
}

impl Planner<'_> {
    /// A part that is a query or joins several tables, run for each outer row with the conditions of
    /// the join inside of it, if that looks at far fewer rows than `all` of it does; or for the first
    /// ones, if these may be all that there are.
    pub(super) fn asked_per_row(
        &mut self,
        (outer, columns): (&Planned, &Columns),
        (inner, all): (&Item<'_>, &Planned),
        on: &[Expr],
        tables: &Tables<'_>,
    ) -> Result<Option<(PerRow, AskedRows)>> {
        let can_be_asked = match inner.from {
            From::Relation(index) => match &tables.relations[*index].source {
                Source::Query(_) => true,
                source => source.is_read_once(),
            },
            From::Join { .. } => true,
        };
        let rewrites = self.sizes.rewrites();
        if !can_be_asked || rewrites == Rewrites::None || !inner.keys.is_empty() || !self.may_have_two_ways() {
            return Ok(None);
        }
        let is_outer = |expr: &Expr| columns.has_any(expr) && columns.has_all(expr);
        let is_own = |expr: &Expr| inner.columns.has_any(expr) && inner.columns.has_all(expr);
        let (asked, on): (Vec<Expr>, Vec<Expr>) = on.iter().cloned().partition(|condition| {
            inner.columns.has_any(condition) && rewrite::is_pure(condition) && !rewrite::is_volatile(condition)
        });
        if !asked.iter().any(|condition| equality(condition, &is_outer, &is_own).is_some()) {
            return Ok(None);
        }
        let first_slot = self.slots;
        let values = OuterValues::new(columns, &outer.layout, first_slot);
        let all_on: Vec<Expr> = asked.iter().chain(&on).cloned().collect();
        let mut conditions = inner.conditions.clone();
        conditions.extend(asked.into_iter().map(|condition| values.in_slots(condition)));
        let args = values.into_args();
        self.slots += args.len();
        let (mut from, mut relations) = (inner.from.clone(), tables.relations.to_vec());
        forget_order(&mut from);
        if let From::Relation(index) = from {
            // They are among the part's.
            relations[index].filter.clear();
        }
        let all_conditions = conditions.len();
        let mut left_over = push_down(&mut from, &mut relations, conditions);
        if let From::Relation(index) = from {
            left_over.append(&mut relations[index].filter);
        }
        if left_over.len() == all_conditions {
            return Ok(None);
        }
        let tables = Tables { relations: &relations, order: Order::ANY, limit: None, ..*tables };
        let asked = self.in_two_ways(|planner| planner.item(&from, left_over, &tables))?;
        let (each, once) = (self.work(&asked.node).1, self.work(&all.node).1 + all.rows * HASH_COST);
        let each = SEEK_COST + each;
        let rows = match outer.rows * each * ASKED_SLACK < once {
            true => Some(AskedRows::All),
            false => self.asked_first((outer, &all_on), (each, once), tables.ends_early).map(AskedRows::First),
        };
        let rows = rows.or((rewrites == Rewrites::All).then_some(AskedRows::All));
        Ok(rows.map(|rows| (PerRow { inner: asked, first_slot, args, on }, rows)))
    }
}

/// About how many rows functions in FROM give.
pub(super) fn rows_of_calls(calls: &[(Series, Vec<Expr>)]) -> f64 {
    if calls.iter().all(|(series, _)| *series == Series::One) { 1.0 } else { 100.0 }
}

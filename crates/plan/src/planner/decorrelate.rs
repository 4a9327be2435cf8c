//! Queries inside conditions that become joins.
//!
//! `EXISTS`, `NOT EXISTS` and `IN` as conditions of WHERE (or of ON of an inner join) are semi and
//! anti joins: the rows of FROM that have a partner among the query's rows, or none. Which way such
//! a join is carried out (a hash table, look-ups for each row, or look-ups of FROM's rows for the
//! query's distinct values) is chosen with all other joins, by cost: see `joins`.
//!
//! | condition | becomes |
//! | --- | --- |
//! | `EXISTS` that looks at the row outside and reads one table | semi join with that table |
//! | `NOT EXISTS` of the same kind | anti join with that table |
//! | `x IN (SELECT …)` of one table | semi join with that table, also where it looks at the row outside |
//! | `x IN (SELECT …)` that looks at no row outside | semi join with the query |
//! | `x NOT IN (SELECT …)` of one table, with no NULLs on either side | anti join with that table |
//! | the same of several tables joined, with values of the row outside | the same with the query of all of these |
//! | `EXISTS`, `NOT EXISTS` of groups with values of the row outside | semi, anti join with all groups |
//! | `x IN (SELECT … FOR UPDATE)` that looks at no row outside | `x = ANY (ARRAY(SELECT … FOR UPDATE))` |
//!
//! A query that looks at no row of this SELECT, but outside of it, stays an expression: it is asked
//! once for all rows.
//!
//! Everything else stays an expression: it is evaluated only where and when its value is needed, so
//! it can raise no error that PostgreSQL would not raise. What of it is run for many rows finds its
//! own rows by keys: see `by_key`. `NOT IN` where there may be NULLs stays as well; a set that
//! knows about them answers it.
//!
//! Invariant: nothing is moved that gives another value each time, does something, or locks rows.

use colibri_types::Result;

use super::distinct_values::Values;
use super::grouped_values::GroupedValues;
use super::pull_up::pull_up;
use super::{Asked, Planner, Rewrites};
use crate::bind::{is_leakproof, rewrite};
use crate::expr::{CompareOp, Expr, Inner, Subquery, SubqueryKind, Test};
use crate::logical::walk::{join_kind, uses_slots, varies};
use crate::logical::{Body, From, Join, Query, Relation, Select, Source};

/// The pass.
pub(super) fn decorrelate(planner: &mut Planner<'_>, select: &mut Select, _asked: &Asked<'_>) -> Result<()> {
    if planner.sizes.rewrites() == Rewrites::None {
        return Ok(());
    }
    let Some(from) = &mut select.from else { return Ok(()) };
    from.lift_of_inner(&|condition| join_kind(condition).is_some(), &mut select.filter);
    for condition in std::mem::take(&mut select.filter) {
        // Those that look outside are run for few rows where rows are found by keys.
        if planner.way.is_by_key && asks_outside(&condition) || !planner.join_of(select, &condition) {
            select.filter.push(asked_as_list(condition));
        }
    }
    Ok(())
}

/// `x IN (SELECT …)` of a query that has to be run as it stands, once, as `x = ANY (ARRAY(SELECT
/// …))`: a list that is known before the first row, so an index finds the rows with its values.
///
/// Bug: a query that locks rows is no join, so each row of the table was looked for in what it
/// gave. Consequence: `UPDATE jobs … WHERE id IN (SELECT id FROM jobs … LIMIT 10 FOR UPDATE SKIP
/// LOCKED)`, by which workers take jobs from a queue, read all of the table. Fix: this.
fn asked_as_list(condition: Expr) -> Expr {
    let list = match join_kind(&condition) {
        Some((Join::Semi, subquery)) => list_of(subquery),
        _ => None,
    };
    list.unwrap_or(condition)
}

fn list_of(subquery: &Subquery) -> Option<Expr> {
    let SubqueryKind::Quantified { left, .. } = &subquery.kind else { return None };
    let Inner::Logical(query) = &subquery.query else { return None };
    let ([left @ Expr::Column(_)], [column, ..]) = (&left[..], &query.columns[..]) else { return None };
    let element = column.ty.ty;
    let is_element = element.array().is_some() && element.item() == element;
    if !subquery.args.is_empty() || !query.has_effects() || !is_element {
        return None;
    }
    let array = Subquery { kind: SubqueryKind::Array(element), ..subquery.clone() };
    Some(Expr::AnyOf {
        test: Test::Compare(CompareOp::Eq),
        left: Box::new(left.clone()),
        array: Box::new(Expr::Subquery(array.into())),
        all: false,
    })
}

/// Whether a condition is a query that could be joined, and looks at the row as well as outside.
pub(super) fn asks_outside(condition: &Expr) -> bool {
    join_kind(condition).is_some() && uses_slots(condition) && rewrite::uses_row(condition)
}

impl Planner<'_> {
    /// Joins FROM with the query of a condition, which has no more to say then; `false` if it cannot
    /// be.
    fn join_of(&mut self, select: &mut Select, condition: &Expr) -> bool {
        let Some((kind, subquery)) = join_kind(condition) else { return false };
        let Inner::Logical(query) = &subquery.query else { return false };
        let left: &[Expr] = match &subquery.kind {
            SubqueryKind::Quantified { left, .. } => left,
            _ => &[],
        };
        let is_plain = |expr: &Expr| rewrite::is_pure(expr) && !rewrite::is_volatile(expr);
        let asks_no_row = !left.iter().chain(&subquery.args).any(rewrite::uses_row);
        if asks_no_row && subquery.args.iter().any(uses_slots) {
            return false;
        }
        if !left.iter().chain(&subquery.args).all(is_plain) || query.has_effects() || query.reads_working() {
            return false;
        }
        if kind == Join::Anti && !left.is_empty() && !are_never_null(select, query, left) {
            return false;
        }
        let base = select.relations.iter().map(|relation| relation.base + relation.width).max().unwrap_or(0);
        let joined = match of_table(query, &subquery.args, left, base) {
            Some(joined) => Some(joined),
            None if subquery.args.is_empty() && kind == Join::Semi && !left.is_empty() => {
                Some(of_query(query, left, base))
            }
            // A query that asks for groups has them for all values at once, as has one that joins tables.
            None => {
                let groups = if left.is_empty() { self.grouped_values(subquery) } else { None };
                let groups = groups.map(|GroupedValues { groups, outside }| (groups, outside));
                let all = groups.or_else(|| Values::of_joined(query, &subquery.args, left));
                all.map(|(all, outside)| of_all(all, outside, base))
            }
        };
        let Some((relation, on)) = joined else { return false };
        let Some(from) = select.from.take() else { return false };
        let right = Box::new(From::Relation(select.relations.len()));
        select.relations.push(relation);
        select.from = Some(From::Join { kind, left: Box::new(from), right, on });
        true
    }
}

/// Whether neither what `NOT IN` compares nor what the query gives, which reads one table, can be
/// NULL. Then it asks for nothing but that there is no partner.
fn are_never_null(select: &Select, query: &Query, left: &[Expr]) -> bool {
    let Body::Select(inner) = &query.body else { return false };
    let Some(from) = &select.from else { return false };
    left.iter().all(|value| is_never_null(value, &select.relations, from, &select.filter))
        && inner.from.as_ref().is_some_and(|from| {
            inner.output[..left.len()].iter().all(|value| is_never_null(value, &inner.relations, from, &inner.filter))
        })
}

pub(super) fn is_never_null(value: &Expr, relations: &[Relation], from: &From, filter: &[Expr]) -> bool {
    let Expr::Column(place) = value else { return false };
    let is_tested = |condition: &Expr| matches!(condition, Expr::IsNull { input, negated: true } if matches!(**input, Expr::Column(column) if column == *place));
    if filter.iter().cloned().flat_map(rewrite::conjuncts).any(|condition| is_tested(&condition)) {
        return true;
    }
    relations.iter().enumerate().any(|(at, relation)| {
        let column = place.checked_sub(relation.base).filter(|&column| column < relation.width);
        let is_not_null = |column: usize| match &relation.source {
            Source::Table(table) => table.columns.get(column).is_some_and(|column| column.not_null),
            Source::Tree(tree) => tree.root.columns.get(column).is_some_and(|column| column.not_null),
            _ => false,
        };
        column.is_some_and(is_not_null) && from.keeps(at)
    })
}

/// The table that a query reads, and the query's conditions over the joined row: with `args` in the
/// place of its slots, and its first columns equal to `left`.
pub(super) fn of_table(query: &Query, args: &[Expr], left: &[Expr], base: usize) -> Option<(Relation, Vec<Expr>)> {
    // A query that depends on nothing and is only asked for a row is asked once.
    if args.is_empty() && left.is_empty() {
        return None;
    }
    let mut inner = query.select_of_all_rows()?.clone();
    let is_barrier = |relation: &Relation| matches!(&relation.source, Source::Query(query) if query.barrier.is_some());
    if inner.relations.iter().any(is_barrier) && !inner.output[..left.len()].iter().all(is_leakproof) {
        return None;
    }
    pull_up(&mut inner, &[]);
    let ([relation], Some(From::Relation(0))) = (&inner.relations[..], &inner.from) else { return None };
    if !matches!(relation.source, Source::Table(_) | Source::Tree(_)) {
        return None;
    }
    let mut on: Vec<Expr> = inner.filter.iter().cloned().flat_map(rewrite::conjuncts).collect();
    let output = &inner.output[..left.len()];
    if !on.iter().chain(output).all(|expr| rewrite::is_pure(expr) && !varies(expr)) {
        return None;
    }
    let outside = |expr: &mut Expr| {
        rewrite::map_columns(expr, &|column| base + column);
        rewrite::substitute_slots(expr, &|slot| args[slot].clone());
    };
    on.iter_mut().for_each(outside);
    for (left, output) in left.iter().zip(output) {
        let mut output = output.clone();
        outside(&mut output);
        on.push(Expr::equals(left.clone(), output));
    }
    let relation = Relation { base: base + relation.base, ..relation.clone() };
    Some((relation, on))
}

/// All rows or groups of a query, as what is joined: its columns are to be equal to values outside.
fn of_all(all: Query, outside: Vec<Expr>, base: usize) -> (Relation, Vec<Expr>) {
    let equal = |(place, value): (usize, Expr)| Expr::equals(value, Expr::Column(base + place));
    let on = outside.into_iter().enumerate().map(equal).collect();
    let width = all.columns.len();
    (Relation::new(base, width, Source::Query(Box::new(all)), "any".into()), on)
}

/// A query that depends on nothing, as what is joined.
fn of_query(query: &Query, left: &[Expr], base: usize) -> (Relation, Vec<Expr>) {
    let equal = |(place, left): (usize, &Expr)| Expr::equals(left.clone(), Expr::Column(base + place));
    let on = left.iter().enumerate().map(equal).collect();
    let source = Source::Query(Box::new(query.clone()));
    (Relation::new(base, query.columns.len(), source, "any".into()), on)
}

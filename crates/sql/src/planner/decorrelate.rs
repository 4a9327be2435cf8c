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
//!
//! Everything else stays an expression: it is evaluated only where and when its value is needed, so
//! it can raise no error that PostgreSQL would not raise. What of it is run for many rows finds its
//! own rows by keys: see `by_key`. `NOT IN` stays as well; a set that knows about NULLs answers it.
//!
//! Invariant: nothing is moved that gives another value each time, does something, or locks rows.

use colibri_types::Result;

use super::{Planner, Rewrites};
use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr, Inner, Subquery, SubqueryKind};
use crate::logical::walk::varies;
use crate::logical::{Body, Distinct, From, Join, Query, Relation, Select, Source};

/// The pass.
pub(super) fn decorrelate(planner: &mut Planner<'_>, select: &mut Select) -> Result<()> {
    if planner.sizes.rewrites() == Rewrites::None {
        return Ok(());
    }
    let Some(from) = &mut select.from else { return Ok(()) };
    lift_conditions(from, &mut select.filter);
    for condition in std::mem::take(&mut select.filter) {
        if !join_of(select, &condition) {
            select.filter.push(condition);
        }
    }
    Ok(())
}

/// Takes queries out of the conditions of inner joins, where they mean what they mean in WHERE.
fn lift_conditions(from: &mut From, filter: &mut Vec<Expr>) {
    let From::Join { kind: Join::Inner, left, right, on } = from else { return };
    let all = std::mem::take(on).into_iter().flat_map(rewrite::conjuncts);
    let (lifted, kept): (Vec<Expr>, Vec<Expr>) = all.partition(|condition| join_kind(condition).is_some());
    filter.extend(lifted);
    *on = kept;
    lift_conditions(left, filter);
    lift_conditions(right, filter);
}

/// The query in a condition that asks whether one of its rows is a partner, and what it asks.
fn join_kind(condition: &Expr) -> Option<(Join, &Subquery)> {
    let (inner, exists) = match condition {
        Expr::Not(inner) => (&**inner, Join::Anti),
        other => (other, Join::Semi),
    };
    let Expr::Subquery(subquery) = inner else { return None };
    match (&subquery.kind, exists) {
        (SubqueryKind::Exists, kind) => Some((kind, subquery)),
        (SubqueryKind::Quantified { op: CompareOp::Eq, all: false, .. }, Join::Semi) => Some((Join::Semi, subquery)),
        _ => None,
    }
}

/// Joins FROM with the query of a condition, which has no more to say then; `false` if it cannot
/// be.
fn join_of(select: &mut Select, condition: &Expr) -> bool {
    let Some((kind, subquery)) = join_kind(condition) else { return false };
    let Inner::Logical(query) = &subquery.query else { return false };
    let left: &[Expr] = match &subquery.kind {
        SubqueryKind::Quantified { left, .. } => left,
        _ => &[],
    };
    let is_plain = |expr: &Expr| rewrite::is_pure(expr) && !rewrite::is_volatile(expr);
    if !left.iter().chain(&subquery.args).all(is_plain) || query.has_effects() || query.reads_working() {
        return false;
    }
    let base = select.relations.iter().map(|relation| relation.base + relation.width).max().unwrap_or(0);
    let joined = match of_table(query, subquery, left, base) {
        Some(joined) => Some(joined),
        None if subquery.args.is_empty() && !left.is_empty() => Some(of_query(query, left, base)),
        None => None,
    };
    let Some((relation, on)) = joined else { return false };
    let Some(from) = select.from.take() else { return false };
    let right = Box::new(From::Relation(select.relations.len()));
    select.relations.push(relation);
    select.from = Some(From::Join { kind, left: Box::new(from), right, on });
    true
}

/// The table that a query reads, and the query's conditions over the joined row.
fn of_table(query: &Query, subquery: &Subquery, left: &[Expr], base: usize) -> Option<(Relation, Vec<Expr>)> {
    // A query that depends on nothing and is only asked for a row is asked once.
    if subquery.args.is_empty() && left.is_empty() {
        return None;
    }
    let Body::Select(inner) = &query.body else { return None };
    let has_all_rows = query.limit.is_none()
        && query.offset.is_none()
        && inner.group.is_none()
        && inner.extras.is_empty()
        && !matches!(inner.distinct, Distinct::On(_));
    let ([relation], Some(From::Relation(0)), true) = (&inner.relations[..], &inner.from, has_all_rows) else {
        return None;
    };
    if !matches!(relation.source, Source::Table(_)) {
        return None;
    }
    let mut on: Vec<Expr> = inner.filter.iter().cloned().flat_map(rewrite::conjuncts).collect();
    let output = &inner.output[..left.len()];
    if !on.iter().chain(output).all(|expr| rewrite::is_pure(expr) && !varies(expr)) {
        return None;
    }
    let outside = |expr: &mut Expr| {
        rewrite::map_columns(expr, &|column| base + column);
        rewrite::substitute_slots(expr, &|slot| subquery.args[slot].clone());
    };
    on.iter_mut().for_each(outside);
    for (left, output) in left.iter().zip(output) {
        let mut output = output.clone();
        outside(&mut output);
        on.push(Expr::Compare { op: CompareOp::Eq, left: Box::new(left.clone()), right: Box::new(output) });
    }
    let relation = Relation { base: base + relation.base, ..relation.clone() };
    Some((relation, on))
}

/// A query that depends on nothing, as what is joined.
fn of_query(query: &Query, left: &[Expr], base: usize) -> (Relation, Vec<Expr>) {
    let equal = |(place, left): (usize, &Expr)| {
        let right = Box::new(Expr::Column(base + place));
        Expr::Compare { op: CompareOp::Eq, left: Box::new(left.clone()), right }
    };
    let on = left.iter().enumerate().map(equal).collect();
    let source = Source::Query(Box::new(query.clone()));
    (Relation { base, width: query.columns.len(), source, name: "any".into() }, on)
}

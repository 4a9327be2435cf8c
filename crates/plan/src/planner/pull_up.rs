//! Queries in FROM that are no more than joins and conditions become part of the SELECT around them.
//!
//! ```text
//! SELECT v.x FROM (SELECT a.x, b.id FROM a JOIN b ON b.a = a.id WHERE b.open) AS v JOIN c ON c.b = v.id
//!
//! SELECT a.x FROM a JOIN b ON b.a = a.id JOIN c ON c.b = b.id WHERE b.open
//! ```
//! So views, WITH queries that are read once, and LATERAL queries are joined with the rest of FROM
//! in the order that costs least, by whatever leads to their tables' rows.
//!
//! | the query stands | its conditions go to | its columns may be |
//! | --- | --- | --- |
//! | where no outer join adds NULLs to it | WHERE | any expressions |
//! | on the side of an outer join that gets NULLs | ON of that join | columns |
//!
//! A query stays by itself if it groups, sorts, limits, or gives rows once; if it has functions that
//! give rows; if what is read of it has a query inside, gives another value each time, or would be
//! computed much more often; or if it takes too many relations to look for the order of the joins.
//!
//! Invariant: the columns of the first relation stay where they are, if it is a table.

use colibri_types::Result;

use super::joins::columns_of;
use super::{Asked, Planner, Rewrites};
use crate::bind::{is_leakproof, rewrite};
use crate::expr::Expr;
use crate::logical::walk::{join_kind, uses_slots, varies};
use crate::logical::{Body, Distinct, From, Join, Query, Relation, Select, Source};

/// A SELECT never gets more relations by this pass. Queries in conditions count as relations. The
/// planner looks at all orders of this many joins, and only at some orders of more joins.
const RELATIONS_MAX: usize = 8;
/// Parts of expressions that may be computed where columns were read.
const PARTS_MAX: usize = 100;

/// The pass.
pub(super) fn pull_up_queries(planner: &mut Planner<'_>, select: &mut Select, asked: &Asked<'_>) -> Result<()> {
    // Whose rows are locked or marked is found by the relations of the query as it was bound.
    let is_locked = asked.query.is_some_and(|query| query.is_marked || !query.locks.is_empty());
    if planner.sizes.rewrites() != Rewrites::None && !is_locked {
        pull_up(select, asked.columns);
    }
    Ok(())
}

/// Makes queries in FROM part of a SELECT, as far as they can be. One whose first column is asked for
/// as a row to be changed stays: it is the view that a statement writes to.
pub(super) fn pull_up(select: &mut Select, asked: &[usize]) {
    let Some(mut from) = select.from.take() else { return };
    let mut at = 0;
    let mut has_pulled = false;
    while at < select.relations.len() {
        let pulled = match asked.contains(&select.relations[at].base) {
            true => None,
            false => Pulled::of(select, &from, at),
        };
        match pulled {
            // What comes into its place may be a query as well.
            Some(pulled) => {
                pulled.put_into(select, &mut from, at);
                has_pulled = true;
            }
            None => at += 1,
        }
    }
    if has_pulled {
        close_up(select, &mut from);
    }
    select.from = Some(from);
}

/// Bug: the columns of a table that came out of a query began where those of the query had ended.
/// Consequence: `max` of a view of one table ended the session, since the planner takes the columns
/// of a table that stands alone to be the first of the wide row. Fix: columns move up.
fn close_up(select: &mut Select, from: &mut From) {
    let mut moved: Vec<(usize, usize, usize)> = Vec::new();
    let mut next = 0;
    for relation in &mut select.relations {
        moved.push((relation.base, relation.width, next));
        relation.base = next;
        next += relation.width;
    }
    let place = |column: usize| {
        let of = moved.iter().find(|(base, width, _)| (*base..base + width).contains(&column));
        of.map_or(column, |(base, _, to)| column - base + to)
    };
    let map = |expr: &mut Expr| rewrite::map_columns(expr, &place);
    select.for_each_over_rows_mut(&mut |expr| map(expr));
    from.for_each_condition_mut(&mut |condition| map(condition));
    select.relations.iter_mut().flat_map(|relation| relation.source.taken_mut()).for_each(map);
}

/// A query that is to become part of the SELECT around it, over that one's wide row.
struct Pulled {
    relations: Vec<Relation>,
    from: From,
    conditions: Vec<Expr>,
    /// What its columns are.
    output: Vec<Expr>,
    /// Where the conditions go.
    is_kept: bool,
}

impl Pulled {
    #[inline(never)]
    fn of(select: &Select, from: &From, at: usize) -> Option<Self> {
        let relation = &select.relations[at];
        let (query, args): (&Query, &[Expr]) = match &relation.source {
            Source::Query(query) => (query, &[]),
            Source::Lateral { query, args } => (query, args),
            Source::Shared { query, .. } if relation.source.is_read_once() => (query, &[]),
            _ => return None,
        };
        let is_lateral = matches!(relation.source, Source::Lateral { .. });
        if query.barrier.is_some() && tells_of_hidden_rows(select, from, relation) {
            return None;
        }
        let inner = joins_and_conditions(query)?;
        let is_kept = from.keeps(at);
        let mut place = from.clone();
        let adding = if is_kept { None } else { Some(adding_join(&mut place, at)?) };
        if relations_of(select) - 1 + relations_of(inner) > RELATIONS_MAX {
            return None;
        }
        let base = select.relations.iter().map(|relation| relation.base + relation.width).max().unwrap_or(0);
        let mut pulled = Self {
            relations: inner.relations.clone(),
            from: inner.from.clone()?,
            conditions: inner.filter.clone(),
            output: inner.output.clone(),
            is_kept,
        };
        if is_lateral {
            pulled.from.lift_of_inner(&uses_slots, &mut pulled.conditions);
            if must_be_lateral(&pulled.from, &pulled.relations) {
                return None;
            }
            let columns = adding.map(|join| columns_of(join, &select.relations));
            if columns.is_some_and(|columns| !args.iter().all(|arg| columns.has_all(arg))) {
                return None;
            }
        }
        let outside = |expr: &mut Expr| {
            rewrite::map_columns(expr, &|column| base + column);
            if is_lateral {
                rewrite::substitute_slots(expr, &|slot| args[slot].clone());
            }
        };
        pulled.from.for_each_condition_mut(&mut |condition| outside(condition));
        pulled.conditions.iter_mut().chain(&mut pulled.output).for_each(outside);
        for relation in &mut pulled.relations {
            relation.base += base;
            relation.source.taken_mut().for_each(outside);
        }
        pulled.can_be_read(select, from, relation).then_some(pulled)
    }

    /// Whether its columns may be computed where they are read.
    fn can_be_read(&self, select: &Select, from: &From, relation: &Relation) -> bool {
        let mut reads = vec![0; relation.width];
        let mut read = |expr: &Expr| {
            rewrite::for_each_column(expr, &mut |column| {
                if let Some(reads) = column.checked_sub(relation.base).and_then(|place| reads.get_mut(place)) {
                    *reads += 1;
                }
            });
        };
        select.for_each_over_rows(&mut read);
        from.for_each_condition(&mut read);
        select.relations.iter().flat_map(|relation| relation.source.taken()).for_each(read);
        let mut parts = 0;
        reads.iter().zip(&self.output).filter(|(reads, _)| **reads > 0).all(|(reads, output)| {
            // Bug: a column of another relation counted as one of the query's. Consequence: where an outer
            // join found no partner, what a LATERAL query gives of the row outside was there, and not NULL.
            // Fix: such a column is an expression like any other.
            if let Expr::Column(column) = output
                && self.relations.iter().any(|own| (own.base..own.base + own.width).contains(column))
            {
                return true;
            }
            parts += reads * parts_of(output);
            self.is_kept && rewrite::is_pure(output) && parts <= PARTS_MAX
        })
    }

    fn put_into(self, select: &mut Select, from: &mut From, at: usize) {
        let (base, width) = (select.relations[at].base, select.relations[at].width);
        let read = |expr: &mut Expr| {
            rewrite::substitute(expr, &|column| match column.checked_sub(base).filter(|place| *place < width) {
                Some(place) => self.output[place].clone(),
                None => Expr::Column(column),
            });
        };
        select.for_each_over_rows_mut(&mut |expr| read(expr));
        from.for_each_condition_mut(&mut |condition| read(condition));
        select.relations.iter_mut().flat_map(|relation| relation.source.taken_mut()).for_each(read);
        // The first of its relations takes its place, the others come last.
        let next = select.relations.len();
        let mut inner = self.from;
        inner.renumber(&|relation| if relation == 0 { at } else { next - 1 + relation });
        let mut relations = self.relations.into_iter();
        select.relations[at] = relations.next().expect("FROM has a relation");
        select.relations.extend(relations);
        match adding_join(from, at) {
            Some(From::Join { on, .. }) if !self.is_kept => on.extend(self.conditions),
            _ => select.filter.extend(self.conditions),
        }
        put_in_place(from, at, &inner);
    }
}

/// Whether a condition on a relation, or what is given a value of it, could tell of rows that
/// policies hide, if it was looked at before the policies' conditions.
fn tells_of_hidden_rows(select: &Select, from: &From, relation: &Relation) -> bool {
    let mut tells = false;
    let mut look = |expr: &Expr| {
        let mut is_of_it = false;
        rewrite::for_each_column(expr, &mut |column| {
            is_of_it |= (relation.base..relation.base + relation.width).contains(&column);
        });
        tells |= is_of_it && !is_leakproof(expr);
    };
    select.filter.iter().cloned().flat_map(rewrite::conjuncts).for_each(|condition| look(&condition));
    from.for_each_condition(&mut look);
    select.relations.iter().flat_map(|other| other.source.taken()).for_each(look);
    tells
}

/// The SELECT that a query is, if it does nothing but join and filter.
fn joins_and_conditions(query: &Query) -> Option<&Select> {
    let Body::Select(select) = &query.body else { return None };
    let is_plain = query.order.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.locks.is_empty()
        && !query.is_marked
        && select.group.is_none()
        && select.extras.is_empty()
        && select.distinct == Distinct::No
        && !select.relations.is_empty();
    let varies = |select: &Select| {
        let mut found = false;
        select.for_each_expr(&mut |expr| found = found || varies(expr));
        found
    };
    (is_plain && select.from.is_some() && !query.reads_working() && !varies(select)).then_some(select)
}

/// How many relations a SELECT joins, queries in conditions that may become such counted.
fn relations_of(select: &Select) -> usize {
    let asked = select.filter.iter().cloned().flat_map(rewrite::conjuncts);
    select.relations.len() + asked.filter(|condition| join_kind(condition).is_some()).count()
}

fn parts_of(expr: &Expr) -> usize {
    let mut parts = 1;
    rewrite::for_each_child(expr, &mut |child| parts += parts_of(child));
    parts
}

/// Whether conditions of joins look outside, or queries in FROM, which have no other way to do so
/// than to be LATERAL.
fn must_be_lateral(from: &From, relations: &[Relation]) -> bool {
    let mut looks = relations.iter().any(|relation| match &relation.source {
        Source::Query(query) => rewrite::query_uses_args(query),
        Source::Shared { uses_args, .. } => *uses_args,
        _ => false,
    });
    from.for_each_condition(&mut |condition| looks |= uses_slots(condition));
    looks
}

/// The join that adds NULLs to a relation, if conditions of its ON tell which rows are partners.
fn adding_join(from: &mut From, at: usize) -> Option<&mut From> {
    let adds = match from {
        From::Relation(_) => return None,
        From::Join { kind: Join::Left, right, .. } => right.keeps(at),
        From::Join { kind: Join::Right, left, .. } => left.keeps(at),
        From::Join { .. } => false,
    };
    if adds {
        return Some(from);
    }
    let From::Join { left, right, .. } = from else { return None };
    adding_join(left, at).or_else(|| adding_join(right, at))
}

/// Puts joins in the place of a relation.
fn put_in_place(from: &mut From, at: usize, joins: &From) {
    match from {
        From::Relation(relation) if *relation == at => *from = joins.clone(),
        From::Relation(_) => {}
        From::Join { left, right, .. } => {
            put_in_place(left, at, joins);
            put_in_place(right, at, joins);
        }
    }
}

//! Columns that are not read are not computed.
//!
//! - A query in FROM computes NULL in the place of a column that is not read, if its rows stay the
//!   same. DISTINCT, UNION and the like read all columns. A function that gives several rows is
//!   kept, since it decides how many rows there are. A volatile function is kept as well. Aggregates
//!   and windows that only such columns read are not computed.
//! - A left join is left out if no column of its right table is read, and a row has one partner at
//!   most.
//!
//! Columns keep their places. Which columns a scan reads is found where operators are chosen, since
//! it depends on them.

use colibri_catalog::Table;
use colibri_types::{Datum, Result};

use super::{Asked, Planner, Rewrites};
use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr};
use crate::logical::walk::varies;
use crate::logical::{Body, Distinct, Extra, From, Group, Join, Query, Relation, Select, SetOperation, Source};

/// The pass.
pub(super) fn prune_columns(planner: &mut Planner<'_>, select: &mut Select, asked: &Asked<'_>) -> Result<()> {
    if planner.sizes.rewrites() == Rewrites::None {
        return Ok(());
    }
    let mut reads = Reads::of(select, asked.columns);
    if let Some(mut from) = select.from.take() {
        remove_joins(&mut from, &select.relations, &mut reads);
        select.from = Some(from);
    }
    for relation in &mut select.relations {
        let (base, reads) = (relation.base, &reads);
        let used: Vec<bool> = (base..base + relation.width).map(|column| reads.has(column)).collect();
        match &mut relation.source {
            Source::Query(query) | Source::Lateral { query, .. } => forget_unused(query, used),
            source @ Source::Shared { .. } if source.is_read_once() => {
                if let Source::Shared { query, .. } = source {
                    forget_unused(std::sync::Arc::make_mut(query), used);
                }
            }
            Source::Table(_) | Source::Tree(_) | Source::Shared { .. } | Source::Functions { .. } => {}
            Source::Keyed { .. } | Source::Working { .. } | Source::Part { .. } | Source::System { .. } => {}
        }
    }
    Ok(())
}

/// How often the columns of the wide row are read.
struct Reads(Vec<usize>);

impl Reads {
    fn of(select: &Select, besides: &[usize]) -> Self {
        let width = select.relations.iter().map(|relation| relation.base + relation.width).max().unwrap_or(0);
        let mut reads = Self(vec![0; width]);
        besides.iter().for_each(|&column| reads.add(column));
        select.for_each_over_rows(&mut |expr| reads.add_all(expr));
        if let Some(from) = &select.from {
            from.for_each_condition(&mut |condition| reads.add_all(condition));
        }
        for relation in &select.relations {
            relation.source.taken().chain(&relation.filter).for_each(|expr| reads.add_all(expr));
        }
        reads
    }

    fn add(&mut self, column: usize) {
        if let Some(reads) = self.0.get_mut(column) {
            *reads += 1;
        }
    }

    fn add_all(&mut self, expr: &Expr) {
        rewrite::for_each_column(expr, &mut |column| self.add(column));
    }

    fn take_all(&mut self, expr: &Expr) {
        rewrite::for_each_column(expr, &mut |column| {
            if let Some(reads) = self.0.get_mut(column) {
                *reads -= 1;
            }
        });
    }

    fn has(&self, column: usize) -> bool {
        self.0.get(column).is_none_or(|reads| *reads > 0)
    }
}

/// Takes left joins away that neither add a row nor give a column that anybody reads. Those further
/// up come first: what their conditions read nobody reads then.
fn remove_joins(from: &mut From, relations: &[Relation], reads: &mut Reads) {
    while let From::Join { kind: Join::Left, left, right, on } = from
        && is_idle(right, on, relations, reads)
    {
        on.iter().for_each(|condition| reads.take_all(condition));
        let kept = std::mem::replace(&mut **left, From::Relation(0));
        *from = kept;
    }
    if let From::Join { left, right, .. } = from {
        remove_joins(left, relations, reads);
        remove_joins(right, relations, reads);
    }
}

/// Whether a left join gives each row of its left side once, and nobody asks with what.
fn is_idle(right: &From, on: &[Expr], relations: &[Relation], reads: &Reads) -> bool {
    let From::Relation(place) = right else { return false };
    let relation = &relations[*place];
    let Source::Table(table) = &relation.source else { return false };
    let is_plain = |expr: &Expr| rewrite::is_pure(expr) && !rewrite::is_volatile(expr);
    if !on.iter().chain(&relation.filter).all(is_plain) {
        return false;
    }
    let mut own = Reads(vec![0; reads.0.len()]);
    on.iter().chain(&relation.filter).for_each(|condition| own.add_all(condition));
    let columns = relation.base..relation.base + relation.width;
    columns.clone().all(|column| reads.0[column] == own.0[column]) && has_one_partner(table, relation, on)
}

/// Whether equalities find one row of a table at most.
fn has_one_partner(table: &Table, relation: &Relation, on: &[Expr]) -> bool {
    let inside = |expr: &Expr| {
        let mut any = false;
        rewrite::for_each_column(expr, &mut |column| {
            any |= (relation.base..relation.base + relation.width).contains(&column);
        });
        any
    };
    let found = |condition: &Expr| {
        let Expr::Compare { op: CompareOp::Eq, left, right } = condition else { return None };
        match (&**left, &**right) {
            (Expr::Column(column), other) | (other, Expr::Column(column))
                if (relation.base..relation.base + relation.width).contains(column) && !inside(other) =>
            {
                Some(column - relation.base)
            }
            _ => None,
        }
    };
    let known: Vec<usize> = on.iter().chain(&relation.filter).filter_map(found).collect();
    let by_key = table.primary_key.is_some() && table.key_columns().iter().all(|column| known.contains(column));
    let is_found = |index: &std::sync::Arc<colibri_catalog::Index>| {
        index.unique && index.columns.iter().all(|one| known.contains(&one.column))
    };
    by_key || table.plain_indexes().any(is_found)
}

/// Puts NULL in the place of what a query gives that nobody looks at.
fn forget_unused(query: &mut Query, mut used: Vec<bool>) {
    for key in &query.order {
        rewrite::for_each_column(&key.expr, &mut |column| {
            used.resize(used.len().max(column + 1), false);
            used[column] = true;
        });
    }
    let is_used = |column: usize| used.get(column).is_some_and(|used| *used);
    match &mut query.body {
        Body::Set { op: SetOperation::Union, all: true, left, right } => {
            forget_unused(left, used.clone());
            forget_unused(right, used);
        }
        Body::Select(select) => forget_unused_output(select, &is_used),
        Body::Values(rows) => {
            if let [row] = &mut rows[..] {
                for (place, expr) in row.iter_mut().enumerate() {
                    if !is_used(place) && !varies(expr) {
                        *expr = Expr::Const(Datum::Null);
                    }
                }
            }
        }
        Body::Set { .. } | Body::Recursive(_) | Body::GroupingSets(_) => {}
    }
}

fn forget_unused_output(select: &mut Select, is_used: &dyn Fn(usize) -> bool) {
    let tells_apart = |column: usize| match &select.distinct {
        Distinct::No => false,
        Distinct::All(columns) => column < *columns,
        Distinct::On(columns) => columns.contains(&column),
    };
    let extras = &select.extras;
    // A column that is read as it is takes no computing, but may keep a join.
    let is_grouped = select.group.is_some();
    let optional = select.from.as_ref().map_or_else(Vec::new, |from| optional_columns(from, &select.relations));
    let is_read_anyway = |expr: &Expr| match expr {
        Expr::Const(_) => true,
        Expr::Column(column) => is_grouped || !optional.iter().any(|columns| columns.contains(column)),
        _ => false,
    };
    for (place, expr) in select.output.iter_mut().enumerate() {
        if !is_read_anyway(expr) && !is_used(place) && !tells_apart(place) && !varies(expr) && !gives_rows(expr, extras)
        {
            *expr = Expr::Const(Datum::Null);
        }
    }
    if let Some(group) = &mut select.group {
        let mut used = vec![false; group.calls.len()];
        let of_extras = select.extras.iter().flat_map(Extra::exprs);
        for expr in select.output.iter().chain(of_extras).chain(&group.having) {
            rewrite::aggregates_in(expr).into_iter().for_each(|call| used[call] = true);
        }
        forget_unused_calls(group, &used);
    }
}

/// Columns of tables that are the right sides of left joins.
fn optional_columns(from: &From, relations: &[Relation]) -> Vec<std::ops::Range<usize>> {
    let From::Join { kind, left, right, .. } = from else { return Vec::new() };
    let mut columns = optional_columns(left, relations);
    match &**right {
        From::Relation(place) if *kind == Join::Left => {
            let relation = &relations[*place];
            columns.push(relation.base..relation.base + relation.width);
        }
        right => columns.extend(optional_columns(right, relations)),
    }
    columns
}

/// Whether a function that gives rows, or what may give another value each time, is among the
/// extras that an expression looks at.
fn gives_rows(expr: &Expr, extras: &[Extra]) -> bool {
    rewrite::extras_in(expr).into_iter().any(|at| match &extras[at] {
        Extra::Rows(..) => true,
        extra @ Extra::Window(_) => {
            extra.exprs().into_iter().any(|inside| varies(inside) || gives_rows(inside, extras))
        }
    })
}

/// Has aggregates that nobody looks at aggregate nothing. They keep their places.
fn forget_unused_calls(group: &mut Group, used: &[bool]) {
    for (call, _) in group.calls.iter_mut().zip(used).filter(|(_, used)| !**used) {
        if !call.args.iter().chain(&call.filter).any(varies) {
            call.args.fill(Expr::Const(Datum::Null));
            call.filter = None;
            call.order.clear();
        }
    }
}

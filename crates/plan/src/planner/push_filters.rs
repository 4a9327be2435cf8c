//! Conditions go down to the rows that they speak of.
//!
//! | condition | of | goes to |
//! | --- | --- | --- |
//! | on one relation | WHERE, ON of an inner join | the relation |
//! | on the side whose rows an outer join keeps | WHERE | that side |
//! | on the other side | ON of an outer join | that side |
//! | on a query's columns | a relation that is a query, a view, LATERAL, a WITH query read once | the query |
//! | on its columns | a query that is UNION or INTERSECT | both sides |
//! | on what it groups by | HAVING | WHERE |
//! | `b = 1`, since `a = 1 AND a = b` | WHERE, ON | the relation of `b` |
//!
//! Conditions stay where they are if they speak of the side that an outer join adds NULLs to, or of
//! several relations at once, or of none: those are asked before the first row is read.
//!
//! A query looks at a condition itself only if that leaves its other rows what they are: it has no
//! LIMIT and is no EXCEPT; the condition speaks of columns that DISTINCT ON, or every window, tells
//! rows apart by; what the columns are computed of does not give another value each time, gives no
//! rows of its own, and has no query inside, as the condition itself has not.
//!
//! Whatever is pushed is what PostgreSQL pushes, so that errors of conditions show where they do
//! there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use colibri_types::Result;

use super::{Asked, Planner, Rewrites};
use crate::bind::{is_leakproof, rewrite};
use crate::expr::{CompareOp, Expr};
use crate::logical::walk::uses_slots;
use crate::logical::{Body, Distinct, Extra, From, Join, Query, Relation, Select, SetOperation, Source};

/// A condition that has more parts once it is over what a query computes its columns of stays
/// above: queries inside each other may double it at each level.
const PARTS_MAX: usize = 200;

/// The pass.
pub(super) fn push_filters(planner: &mut Planner<'_>, select: &mut Select, _asked: &Asked<'_>) -> Result<()> {
    if planner.sizes.rewrites() == Rewrites::None {
        return Ok(());
    }
    having_to_where(select);
    let Some(mut from) = select.from.take() else { return Ok(()) };
    let places = Places::new(&from, &select.relations);
    places.lift_of_semi_joins(&mut from, &mut select.filter);
    for condition in std::mem::take(&mut select.filter).into_iter().flat_map(rewrite::conjuncts) {
        let left_over = places.push(&mut from, &mut select.relations, condition, true);
        select.filter.extend(left_over);
    }
    places.push_conditions(&mut from, &mut select.relations);
    places.spread(&mut from, &mut select.relations, &select.filter, Vec::new());
    select.from = Some(from);
    select.relations.iter_mut().for_each(push_into_source);
    Ok(())
}

/// Has conditions go down into a part of FROM, and into the queries that it reads; gives those that
/// have to stay above.
pub(super) fn push_down(from: &mut From, relations: &mut [Relation], conditions: Vec<Expr>) -> Vec<Expr> {
    let places = Places::new(from, relations);
    let mut left_over = Vec::new();
    for condition in conditions {
        left_over.extend(places.push(from, relations, condition, true));
    }
    let mut read = Vec::new();
    from.for_each_relation(&mut |relation| read.push(relation));
    read.into_iter().for_each(|relation| push_into_source(&mut relations[relation]));
    left_over
}

/// Has the source of a relation look at the conditions on it, as far as it can.
fn push_into_source(relation: &mut Relation) {
    for condition in std::mem::take(&mut relation.filter) {
        if !push_into(&mut relation.source, relation.base, &condition) {
            relation.filter.push(condition);
        }
    }
}

/// The relation of each column of the wide row.
pub(super) fn owners(relations: &[Relation]) -> Vec<usize> {
    let mut owners = Vec::new();
    for (place, relation) in relations.iter().enumerate() {
        let end = relation.base + relation.width;
        owners.resize(owners.len().max(end), usize::default());
        owners[relation.base..end].fill(place);
    }
    owners
}

/// Whether no semi or anti join takes its turn with the inner joins of a part of FROM.
fn is_inner(from: &From) -> bool {
    match from {
        From::Join { kind: Join::Semi | Join::Anti, .. } => false,
        From::Join { kind: Join::Inner | Join::InnerInOrder, left, right, .. } => is_inner(left) && is_inner(right),
        _ => true,
    }
}

/// HAVING on what a group has in common is asked of the rows.
pub(super) fn having_to_where(select: &mut Select) {
    let Some(group) = &mut select.group else { return };
    // Groups that are there without rows are asked by nobody else.
    if group.keys.is_empty() || !group.always.is_empty() {
        return;
    }
    let keys = &group.keys;
    let is_of_rows = |condition: &Expr| is_movable(condition) && speaks_of_keys(condition, keys);
    let all = group.having.take().into_iter().flat_map(rewrite::conjuncts);
    let (of_rows, of_groups): (Vec<Expr>, Vec<Expr>) = all.partition(is_of_rows);
    group.having = rewrite::conjunction(of_groups);
    for mut condition in of_rows {
        rewrite::substitute(&mut condition, &|key| keys[key].clone());
        select.filter.push(condition);
    }
}

/// Whether a condition over a group's row looks at nothing but keys that are the same for all of
/// the group's rows, and that asking for early gives the same.
fn speaks_of_keys(condition: &Expr, keys: &[Expr]) -> bool {
    !rewrite::any(condition, &|part| match part {
        Expr::Aggregate(_) | Expr::Extra(_) => true,
        Expr::Column(key) => keys.get(*key).is_none_or(|key| !is_movable(key) || !rewrite::extras_in(key).is_empty()),
        _ => false,
    })
}

/// Whether it is the same wherever it is computed: no query inside, nothing that gives another
/// value each time.
fn is_movable(expr: &Expr) -> bool {
    rewrite::is_pure(expr) && !rewrite::is_volatile(expr)
}

/// Where conditions belong in FROM.
struct Places {
    /// The relation of each column of the wide row.
    owners: Vec<usize>,
    /// For each relation, how many stand before it in FROM.
    order: Vec<usize>,
    /// A query for each row is asked of those rows that semi and anti joins leave.
    has_filters: bool,
}

/// The side of a join that a condition looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
    Both,
}

impl Places {
    fn new(from: &From, relations: &[Relation]) -> Self {
        let mut order = vec![0; relations.len()];
        let mut next = 0;
        from.for_each_relation(&mut |relation| {
            order[relation] = next;
            next += 1;
        });
        Self { owners: owners(relations), order, has_filters: !is_inner(from) }
    }

    /// The first and the last one of the relations that a condition looks at, in the order of FROM.
    fn span(&self, condition: &Expr) -> Option<(usize, usize)> {
        let mut span = None;
        rewrite::for_each_column(condition, &mut |column| {
            let Some(&relation) = self.owners.get(column) else { return };
            let at = self.order[relation];
            span = Some(span.map_or((at, at), |(first, last): (usize, usize)| (first.min(at), last.max(at))));
        });
        span
    }

    /// The side of a join that a condition on one of its relations looks at.
    fn side(&self, right: &From, (first, last): (usize, usize)) -> Side {
        let border = self.order_of_first(right);
        if last < border {
            Side::Left
        } else if first >= border {
            Side::Right
        } else {
            Side::Both
        }
    }

    fn order_of_first(&self, from: &From) -> usize {
        match from {
            From::Relation(relation) => self.order[*relation],
            From::Join { left, .. } => self.order_of_first(left),
        }
    }

    fn order_of_last(&self, from: &From) -> usize {
        match from {
            From::Relation(relation) => self.order[*relation],
            From::Join { right, .. } => self.order_of_last(right),
        }
    }

    /// Takes what does not look at the other side out of the conditions of semi joins: a row for
    /// which it is not true has no partner.
    fn lift_of_semi_joins(&self, from: &mut From, filter: &mut Vec<Expr>) {
        match from {
            From::Join { kind: Join::Inner, left, right, .. } => {
                self.lift_of_semi_joins(left, filter);
                self.lift_of_semi_joins(right, filter);
            }
            From::Join { kind: kind @ (Join::Semi | Join::Anti), left, right, on } => {
                self.lift_of_semi_joins(left, filter);
                if *kind == Join::Semi {
                    let looks = |condition: &Expr| {
                        self.span(condition).is_some_and(|span| self.side(right, span) != Side::Left)
                    };
                    let all = std::mem::take(on).into_iter().flat_map(rewrite::conjuncts);
                    let (kept, lifted): (Vec<Expr>, Vec<Expr>) = all.partition(looks);
                    filter.extend(lifted);
                    *on = kept;
                }
            }
            _ => {}
        }
    }

    /// Has the conditions of joins go down.
    fn push_conditions(&self, from: &mut From, relations: &mut [Relation]) {
        let From::Join { kind, left, right, on } = from else { return };
        for condition in std::mem::take(on).into_iter().flat_map(rewrite::conjuncts) {
            let side = self.span(&condition).map(|span| self.side(right, span));
            let left_over = match (*kind, side) {
                (Join::Inner | Join::Right, Some(Side::Left)) => self.push(left, relations, condition, false),
                (Join::Inner | Join::Semi | Join::Anti | Join::Left, Some(Side::Right)) => {
                    self.push(right, relations, condition, false)
                }
                _ => Some(condition),
            };
            on.extend(left_over);
        }
        self.push_conditions(left, relations);
        self.push_conditions(right, relations);
    }

    /// Has a condition go down into a part of FROM; gives it back if it has to stay above. `on_top`
    /// says that WHERE is asked together with the part's inner joins.
    fn push(&self, from: &mut From, relations: &mut [Relation], condition: Expr, on_top: bool) -> Option<Expr> {
        let Some(span) = self.span(&condition) else { return Some(condition) };
        if self.has_filters && super::cost::is_query_per_row(&condition) {
            return Some(condition);
        }
        match from {
            From::Relation(relation) => {
                relations[*relation].filter.push(condition);
                None
            }
            From::Join { kind, left, right, on } => {
                let side = self.side(right, span);
                let left_over = match (*kind, side) {
                    (Join::Inner, Side::Left) => self.push(left, relations, condition, on_top)?,
                    (Join::Inner, Side::Right) => self.push(right, relations, condition, on_top)?,
                    (Join::Semi | Join::Anti, Side::Left) => return self.push(left, relations, condition, on_top),
                    (Join::Left, Side::Left) => return self.push(left, relations, condition, false),
                    (Join::Right, Side::Right) => return self.push(right, relations, condition, false),
                    _ => condition,
                };
                if *kind == Join::Inner && !on_top {
                    on.push(left_over);
                    return None;
                }
                Some(left_over)
            }
        }
    }

    /// Spreads values that columns have in all rows that matter to the columns that have to be
    /// equal to them: then each relation can be asked by itself. `known` are such columns of other
    /// parts, with their values; `above` conditions on the part's rows.
    fn spread(&self, from: &mut From, relations: &mut [Relation], above: &[Expr], known: Vec<(usize, Expr)>) {
        let mut equalities = Equalities { values: known, ..Equalities::default() };
        above.iter().for_each(|condition| equalities.note(condition));
        equalities.note_kept(from, relations);
        let (first, last) = (self.order_of_first(from), self.order_of_last(from));
        for (column, value) in equalities.spread() {
            let at = self.owners.get(column).map(|&relation| self.order[relation]);
            if at.is_some_and(|at| (first..=last).contains(&at)) {
                // On a side that may be all NULL it says nothing of the rows that are joined.
                _ = self.push(from, relations, Expr::equals(Expr::Column(column), value), false);
            }
        }
        self.spread_sides(from, relations, &equalities);
    }

    /// Spreads to the sides of joins whose rows are looked for as partners.
    fn spread_sides(&self, from: &mut From, relations: &mut [Relation], equalities: &Equalities) {
        let From::Join { kind, left, right, on } = from else { return };
        let (kept, partner) = match kind {
            Join::Inner | Join::InnerInOrder => {
                self.spread_sides(left, relations, equalities);
                return self.spread_sides(right, relations, equalities);
            }
            Join::Left | Join::Semi | Join::Anti => (left, right),
            Join::Right => (right, left),
            Join::Full => {
                self.spread(left, relations, &[], Vec::new());
                return self.spread(right, relations, &[], Vec::new());
            }
        };
        self.spread_sides(kept, relations, equalities);
        self.spread(partner, relations, on, equalities.values.clone());
    }
}

/// What columns have to be equal to.
#[derive(Default)]
struct Equalities {
    /// Columns that have one value in all rows.
    values: Vec<(usize, Expr)>,
    /// Columns that are equal to each other in all rows.
    pairs: Vec<(usize, usize)>,
}

impl Equalities {
    /// Notes what a condition that is true for all rows says.
    fn note(&mut self, condition: &Expr) {
        let is_value = |expr: &Expr| {
            matches!(expr, Expr::Const(value) if !value.is_null()) || matches!(expr, Expr::Param(_) | Expr::Arg(_))
        };
        let Expr::Compare { op: CompareOp::Eq, left, right } = condition else { return };
        match (&**left, &**right) {
            (Expr::Column(a), Expr::Column(b)) => self.pairs.push((*a, *b)),
            (Expr::Column(column), value) | (value, Expr::Column(column)) if is_value(value) => {
                self.values.push((*column, value.clone()));
            }
            _ => {}
        }
    }

    /// Notes what the conditions say that all rows of a part of FROM fulfil.
    fn note_kept(&mut self, from: &From, relations: &[Relation]) {
        from.for_each_kept(&mut |relation| {
            relations[relation].filter.iter().for_each(|condition| self.note(condition));
        });
        from.for_each_kept_condition(&mut |condition| self.note(condition));
    }

    /// Spreads values to all columns that are equal to those that have them; gives what is new.
    fn spread(&mut self) -> Vec<(usize, Expr)> {
        let mut equal_to: HashMap<usize, Vec<usize>> = HashMap::new();
        for &(a, b) in &self.pairs {
            equal_to.entry(a).or_default().push(b);
            equal_to.entry(b).or_default().push(a);
        }
        let mut known: HashSet<usize> = self.values.iter().map(|(column, _)| *column).collect();
        let written = self.values.len();
        let mut next = 0;
        while let Some((column, value)) = self.values.get(next).cloned() {
            next += 1;
            for &other in equal_to.get(&column).into_iter().flatten() {
                if known.insert(other) {
                    self.values.push((other, value.clone()));
                }
            }
        }
        self.values[written..].to_vec()
    }
}

/// Has what stands in FROM look at a condition on it; `false` if it cannot. The condition is over
/// the wide row, where the source's columns begin at `base`.
pub(super) fn push_into(source: &mut Source, base: usize, condition: &Expr) -> bool {
    if !is_movable(condition) {
        return false;
    }
    let mut own = condition.clone();
    rewrite::map_columns(&mut own, &|column| column - base);
    match source {
        Source::Query(query) => push_into_query(query, &own),
        Source::Lateral { query, args } => {
            // Its slots are its own.
            let known = std::cell::RefCell::new(args.clone());
            rewrite::substitute_slots(&mut own, &|slot| {
                let mut known = known.borrow_mut();
                let place = known.iter().position(|arg| matches!(arg, Expr::Arg(other) if *other == slot));
                Expr::Arg(place.unwrap_or_else(|| {
                    known.push(Expr::Arg(slot));
                    known.len() - 1
                }))
            });
            let is_pushed = push_into_query(query, &own);
            if is_pushed {
                *args = known.into_inner();
            }
            is_pushed
        }
        Source::Shared { .. } if source.is_read_once() => {
            let Source::Shared { query, uses_args, .. } = source else { return false };
            let is_pushed = push_into_query(Arc::make_mut(query), &own);
            // Bug: a WITH query inside LATERAL went on as one that is the same for all rows
            // outside. Consequence: later rows outside were joined with what the first one had
            // asked for. Fix: with a condition on a value from outside it depends on that.
            *uses_args |= is_pushed && uses_slots(&own);
            is_pushed
        }
        Source::Table(_) | Source::Tree(_) | Source::Shared { .. } | Source::Functions { .. } => false,
        Source::Keyed { .. } | Source::Working { .. } | Source::Part { .. } | Source::System { .. } => false,
    }
}

/// Has a query look at a condition on its columns; `false` if some of its rows have not been asked.
fn push_into_query(query: &mut Query, condition: &Expr) -> bool {
    if query.limit.is_some() || query.offset.is_some() {
        return false;
    }
    // What could tell of rows that policies hide is asked of those that they show.
    if query.barrier.is_some() && !is_leakproof(condition) {
        return false;
    }
    match &mut query.body {
        Body::Select(select) => push_into_select(select, condition),
        Body::Set { op: SetOperation::Union | SetOperation::Intersect, left, right, .. } => {
            // What the other side gives is asked above, if one cannot ask by itself.
            let asked = push_into_query(left, condition);
            push_into_query(right, condition) && asked
        }
        Body::Set { op: SetOperation::Except, .. } | Body::Values(_) | Body::Recursive(_) | Body::GroupingSets(_) => {
            false
        }
    }
}

fn push_into_select(select: &mut Select, condition: &Expr) -> bool {
    let mut parts = count_parts(condition);
    let mut may_go = true;
    rewrite::for_each_column(condition, &mut |column| match select.output.get(column) {
        Some(given) => {
            parts += count_parts(given);
            may_go &= is_movable(given) && rewrite::extras_in(given).is_empty() && tells_apart(select, column, given);
        }
        None => may_go = false,
    });
    if !may_go || parts > PARTS_MAX {
        super::windows::note_most(select, condition);
        return false;
    }
    let mut condition = condition.clone();
    rewrite::substitute(&mut condition, &|column| select.output[column].clone());
    match &mut select.group {
        None => select.filter.extend(rewrite::conjuncts(condition)),
        Some(group) => {
            let all = group.having.take().into_iter().flat_map(rewrite::conjuncts);
            group.having = rewrite::conjunction(all.chain(rewrite::conjuncts(condition)).collect());
        }
    }
    true
}

/// Whether all rows that a query compares with each other, to number them or to choose among them,
/// have the same in a column.
fn tells_apart(select: &Select, column: usize, given: &Expr) -> bool {
    let by_windows = select.extras.iter().all(|extra| match extra {
        Extra::Window(window) => window.partition.iter().any(|by| rewrite::same(by, given)),
        Extra::Rows(..) => true,
    });
    let by_distinct = match &select.distinct {
        Distinct::No => true,
        Distinct::All(columns) => column < *columns,
        Distinct::On(columns) => columns.contains(&column),
    };
    by_windows && by_distinct
}

fn count_parts(expr: &Expr) -> usize {
    let mut parts = 1;
    rewrite::for_each_child(expr, &mut |child| parts += count_parts(child));
    parts
}

//! What binding asks of expressions: which aggregates and which calls that give rows are in them,
//! which are the same, and how an expression over a wide row becomes one over a group's.

use colibri_types::{Error, Result, SqlState};

use super::Binder;
use super::logical::{Body, Query, Source};
use crate::expr::Expr;
pub use crate::expr::walk::{
    any, conjunction, conjuncts, depends_on_no_row, for_each_child, for_each_child_mut, for_each_column, is_pure,
    is_volatile, map_columns, queries_depend_on_no_row, same, substitute, substitute_slots, uses_row,
};
use crate::plan::{AggregateCall, FrameBound, SortKey, WindowCall, WindowFunction};

pub fn has_aggregates(expr: &Expr) -> bool {
    any(expr, &|expr| matches!(expr, Expr::Aggregate(_)))
}

/// Whether two calls that give rows, or two of windows, are the same.
pub(super) fn same_extra(a: &super::logical::Extra, b: &super::logical::Extra) -> bool {
    use super::logical::Extra::{Rows, Window};
    match (a, b) {
        (Rows(a, a_args), Rows(b, b_args)) => a == b && same_list(a_args, b_args),
        (Window(a), Window(b)) => {
            same_window_call(&a.call, &b.call)
                && same_list(&a.partition, &b.partition)
                && same_order(&a.order, &b.order)
                && !a.call.exprs().any(is_volatile)
        }
        _ => false,
    }
}

fn same_list(a: &[Expr], b: &[Expr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

fn same_window_call(a: &WindowCall, b: &WindowCall) -> bool {
    let same_function = match (a.function, b.function) {
        (WindowFunction::Aggregate(a), WindowFunction::Aggregate(b)) => std::ptr::eq(a, b),
        (a, b) => a.name() == b.name() && !matches!(b, WindowFunction::Aggregate(_)),
    };
    let same_bound = |a: &FrameBound, b: &FrameBound| match (a.offset(), b.offset()) {
        (Some(offset), Some(other)) => std::mem::discriminant(a) == std::mem::discriminant(b) && same(offset, other),
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    };
    let same_filter = match (&a.filter, &b.filter) {
        (None, None) => true,
        (Some(a), Some(b)) => same(a, b),
        _ => false,
    };
    same_function
        && same_list(&a.args, &b.args)
        && same_filter
        && a.frame.units == b.frame.units
        && a.frame.exclude == b.frame.exclude
        && same_bound(&a.frame.start, &b.frame.start)
        && same_bound(&a.frame.end, &b.frame.end)
}

/// The places of what a SELECT list gives rows of, or computes of several, in an expression.
pub fn extras_in(expr: &Expr) -> Vec<usize> {
    fn find(expr: &Expr, places: &mut Vec<usize>) {
        if let Expr::Extra(place) = expr {
            places.push(*place);
        }
        for_each_child(expr, &mut |child| find(child, places));
    }
    let mut places = Vec::new();
    find(expr, &mut places);
    places
}

/// The places of the aggregates whose results an expression looks at.
pub(crate) fn aggregates_in(expr: &Expr) -> Vec<usize> {
    fn find(expr: &Expr, places: &mut Vec<usize>) {
        if let Expr::Aggregate(place) = expr {
            places.push(*place);
        }
        for_each_child(expr, &mut |child| find(child, places));
    }
    let mut places = Vec::new();
    find(expr, &mut places);
    places
}

pub(crate) fn same_order(a: &[SortKey], b: &[SortKey]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| a.descending == b.descending && a.nulls_first == b.nulls_first && same(&a.expr, &b.expr))
}

/// Whether two calls of aggregates are the same.
pub fn same_call(a: &AggregateCall, b: &AggregateCall) -> bool {
    let same_filter = match (&a.filter, &b.filter) {
        (None, None) => true,
        (Some(a), Some(b)) => same(a, b),
        _ => false,
    };
    std::ptr::eq(a.aggregate, b.aggregate)
        && a.distinct == b.distinct
        && same_filter
        && a.args.len() == b.args.len()
        && a.args.iter().zip(&b.args).all(|(a, b)| same(a, b))
        && same_order(&a.order, &b.order)
}

/// Turns expressions over the wide row into expressions over the group's row.
pub(super) struct Grouping<'g, 'b> {
    pub(super) keys: &'g [Expr],
    pub(super) binder: &'g Binder<'b>,
}

impl Grouping<'_, '_> {
    pub(super) fn rewrite(&self, expr: &mut Expr) -> Result<()> {
        if let Some(key) = self.keys.iter().position(|key| same(key, expr)) {
            *expr = Expr::Column(key);
            return Ok(());
        }
        match expr {
            Expr::Aggregate(_) | Expr::Extra(_) => Ok(()),
            Expr::Column(column) => Err(self.ungrouped(*column)),
            _ => {
                let mut result = Ok(());
                for_each_child_mut(expr, &mut |child| {
                    if result.is_ok() {
                        result = self.rewrite(child);
                    }
                });
                result
            }
        }
    }

    /// A column that depends on the keys, since they hold its table's primary key, would be right
    /// as well; PostgreSQL takes it. Here the binder adds such columns to the keys first, see
    /// [`Binder::add_dependent_keys`].
    fn ungrouped(&self, place: usize) -> Error {
        let scope = self.binder.frames.last().and_then(|frame| frame.scopes.last());
        let name = scope.and_then(|scope| {
            scope.tables.iter().find_map(|table| {
                let column = table.columns.get(place.checked_sub(table.base)?)?;
                Some(format!("{}.{}", table.name, column.name))
            })
        });
        let name = name.unwrap_or_else(|| "?".to_owned());
        let message =
            format!("column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function");
        let error = Error::new(SqlState::GROUPING_ERROR, message);
        let named = scope.and_then(|scope| scope.references.iter().find(|(column, _)| *column == place));
        match named {
            Some((_, span)) => self.binder.place(*span, error),
            None => error,
        }
    }
}

/// Whether a column of a query gives another value each time, as far as its text says so by itself.
pub fn gives_volatile(query: &Query) -> bool {
    match &query.body {
        Body::Values(rows) => rows.iter().flatten().any(is_volatile),
        Body::Set { left, right, .. } => gives_volatile(left) || gives_volatile(right),
        Body::Recursive(terms) => gives_volatile(&terms.first) || gives_volatile(&terms.again),
        Body::GroupingSets(grouping) => gives_volatile(&grouping.input),
        Body::Select(select) => {
            let inner = |relation: &super::logical::Relation| match &relation.source {
                Source::Query(query) | Source::Lateral { query, .. } | Source::Keyed { query, .. } => {
                    gives_volatile(query)
                }
                Source::Functions { calls, .. } => calls.iter().flat_map(|(_, args)| args).any(is_volatile),
                Source::Shared { .. } | Source::Working { .. } | Source::Part { .. } => false,
                Source::Table(_) | Source::Tree(_) | Source::System { .. } => false,
            };
            select.output.iter().chain(&select.filter).any(is_volatile) || select.relations.iter().any(inner)
        }
    }
}

/// Whether a query takes values from outside.
pub fn query_uses_args(query: &Query) -> bool {
    let uses = |expr: &Expr| any(expr, &|expr| matches!(expr, Expr::Arg(_)));
    let order = query.order.iter().map(|key| &key.expr).chain(&query.limit).chain(&query.offset).any(uses);
    let body = match &query.body {
        Body::Values(rows) => rows.iter().flatten().any(uses),
        Body::Set { left, right, .. } => query_uses_args(left) || query_uses_args(right),
        Body::Recursive(terms) => query_uses_args(&terms.first) || query_uses_args(&terms.again),
        Body::GroupingSets(grouping) => query_uses_args(&grouping.input),
        Body::Select(select) => {
            let group = select.group.iter().any(|group| {
                group.keys.iter().any(uses)
                    || group.having.iter().any(uses)
                    || group.calls.iter().any(|call| {
                        let order = call.order.iter().map(|key| &key.expr);
                        call.args.iter().chain(&call.filter).chain(order).any(uses)
                    })
            });
            group
                || select.filter.iter().chain(&select.output).any(uses)
                || select.extras.iter().any(|extra| extra.exprs().into_iter().any(uses))
                || select.grouped_rows.iter().any(|(_, extra)| extra.exprs().into_iter().any(uses))
                || select.from.iter().any(|from| from_uses(from, &uses))
                || select.relations.iter().any(|relation| relation.filter.iter().any(uses))
                || select.relations.iter().any(|relation| source_uses_args(&relation.source))
        }
    };
    order || body
}

/// Whether what stands in FROM takes values from outside of the SELECT.
pub fn source_uses_args(source: &Source) -> bool {
    let uses = |expr: &Expr| any(expr, &|expr| matches!(expr, Expr::Arg(_)));
    match source {
        Source::Query(query) => query_uses_args(query),
        Source::Shared { uses_args, .. } => *uses_args,
        source @ (Source::Functions { .. } | Source::Lateral { .. }) => source.taken().any(uses),
        Source::Keyed { keys, .. } => keys.iter().any(|key| uses(&key.value)),
        Source::Table(_) | Source::Tree(_) | Source::Working { .. } | Source::Part { .. } | Source::System { .. } => {
            false
        }
    }
}

/// Puts expressions in the place of the slots of a query that are filled from outside. What is
/// inside its own queries in expressions, and inside LATERAL queries, has slots of its own, and
/// arguments for them, which are looked at.
pub fn fill_slots(query: &mut Query, with: &dyn Fn(usize) -> Expr) {
    let fill = substitute_slots;
    fn fill_from(from: &mut super::logical::From, with: &dyn Fn(usize) -> Expr) {
        if let super::logical::From::Join { left, right, on, .. } = from {
            on.iter_mut().for_each(|condition| substitute_slots(condition, with));
            fill_from(left, with);
            fill_from(right, with);
        }
    }
    query.order.iter_mut().for_each(|key| fill(&mut key.expr, with));
    query.limit.iter_mut().chain(&mut query.offset).for_each(|expr| fill(expr, with));
    let select = match &mut query.body {
        Body::Values(rows) => return rows.iter_mut().flatten().for_each(|expr| fill(expr, with)),
        Body::Set { left, right, .. } => {
            fill_slots(left, with);
            return fill_slots(right, with);
        }
        Body::Recursive(terms) => {
            fill_slots(&mut terms.first, with);
            return fill_slots(&mut terms.again, with);
        }
        Body::GroupingSets(grouping) => return fill_slots(&mut grouping.input, with),
        Body::Select(select) => select,
    };
    if let Some(group) = &mut select.group {
        group.keys.iter_mut().chain(&mut group.having).for_each(|expr| fill(expr, with));
        for call in &mut group.calls {
            call.args.iter_mut().chain(&mut call.filter).for_each(|expr| fill(expr, with));
            call.order.iter_mut().for_each(|key| fill(&mut key.expr, with));
        }
    }
    select.filter.iter_mut().chain(&mut select.output).for_each(|expr| fill(expr, with));
    let grouped = select.grouped_rows.iter_mut().map(|(_, extra)| extra);
    let extras = select.extras.iter_mut().chain(grouped);
    extras.flat_map(super::logical::Extra::exprs_mut).for_each(|expr| fill(expr, with));
    select.from.iter_mut().for_each(|from| fill_from(from, with));
    for relation in &mut select.relations {
        relation.filter.iter_mut().for_each(|expr| fill(expr, with));
        match &mut relation.source {
            Source::Query(query) => fill_slots(query, with),
            Source::Shared { query, uses_args: true, .. } => {
                let mut own = Query::clone(query);
                fill_slots(&mut own, with);
                relation.source = Source::Query(Box::new(own));
            }
            Source::Functions { calls, .. } => {
                calls.iter_mut().flat_map(|(_, args)| args).for_each(|expr| fill(expr, with));
            }
            Source::Lateral { args, .. } => args.iter_mut().for_each(|expr| fill(expr, with)),
            Source::Keyed { keys, .. } => keys.iter_mut().for_each(|key| fill(&mut key.value, with)),
            Source::Shared { .. } | Source::Working { .. } | Source::Part { .. } => {}
            Source::Table(_) | Source::Tree(_) | Source::System { .. } => {}
        }
    }
}

fn from_uses(from: &super::logical::From, uses: &dyn Fn(&Expr) -> bool) -> bool {
    match from {
        super::logical::From::Relation(_) => false,
        super::logical::From::Join { left, right, on, .. } => {
            on.iter().any(uses) || from_uses(left, uses) || from_uses(right, uses)
        }
    }
}

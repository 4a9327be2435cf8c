//! Walking and comparing expressions.

use super::logical::{Body, Call, Query, Source};
use super::{AGGREGATES, Binder, EXTRAS};
use crate::error::{Error, Result, SqlState};
use crate::expr::{Expr, SessionFunction, SubqueryKind};
use crate::plan::SortKey;

/// Calls something for each expression directly inside.
pub(crate) fn for_each_child<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
    match expr {
        Expr::Const(_) | Expr::Column(_) | Expr::Param(_) | Expr::Arg(_) => {}
        Expr::Call { args, .. } | Expr::Session { args, .. } | Expr::Extreme { args, .. } => {
            args.iter().for_each(visit);
        }
        Expr::And(all) | Expr::Or(all) | Expr::Coalesce(all) | Expr::Array { values: all, .. } => {
            all.iter().for_each(visit)
        }
        Expr::Compare { left, right, .. }
        | Expr::Distinct { left, right, .. }
        | Expr::NullIf { left, right, .. }
        | Expr::AnyOf { left, array: right, .. } => {
            visit(left);
            visit(right);
        }
        Expr::CompareRows { left, right, .. } => left.iter().chain(right).for_each(visit),
        Expr::Not(input) | Expr::IsNull { input, .. } | Expr::IsBool { input, .. } | Expr::Cast { input, .. } => {
            visit(input)
        }
        Expr::Case { arms, otherwise } => {
            for (condition, result) in arms {
                visit(condition);
                visit(result);
            }
            visit(otherwise);
        }
        Expr::CaseOf { operand, arms, otherwise } => {
            visit(operand);
            for arm in arms {
                visit(&arm.value);
                visit(&arm.result);
            }
            visit(otherwise);
        }
        Expr::InList { input, list, .. } => {
            visit(input);
            list.iter().for_each(visit);
        }
        Expr::Subquery(subquery) => {
            subquery.args.iter().for_each(&mut *visit);
            if let SubqueryKind::Quantified { left, .. } = &subquery.kind {
                left.iter().for_each(visit);
            }
        }
    }
}

/// As [`for_each_child`], to change them.
pub(crate) fn for_each_child_mut(expr: &mut Expr, visit: &mut dyn FnMut(&mut Expr)) {
    match expr {
        Expr::Const(_) | Expr::Column(_) | Expr::Param(_) | Expr::Arg(_) => {}
        Expr::Call { args, .. } | Expr::Session { args, .. } | Expr::Extreme { args, .. } => {
            args.iter_mut().for_each(visit);
        }
        Expr::And(all) | Expr::Or(all) | Expr::Coalesce(all) | Expr::Array { values: all, .. } => {
            all.iter_mut().for_each(visit);
        }
        Expr::Compare { left, right, .. }
        | Expr::Distinct { left, right, .. }
        | Expr::NullIf { left, right, .. }
        | Expr::AnyOf { left, array: right, .. } => {
            visit(left);
            visit(right);
        }
        Expr::CompareRows { left, right, .. } => left.iter_mut().chain(right).for_each(visit),
        Expr::Not(input) | Expr::IsNull { input, .. } | Expr::IsBool { input, .. } | Expr::Cast { input, .. } => {
            visit(input)
        }
        Expr::Case { arms, otherwise } => {
            for (condition, result) in arms {
                visit(condition);
                visit(result);
            }
            visit(otherwise);
        }
        Expr::CaseOf { operand, arms, otherwise } => {
            visit(operand);
            for arm in arms {
                visit(&mut arm.value);
                visit(&mut arm.result);
            }
            visit(otherwise);
        }
        Expr::InList { input, list, .. } => {
            visit(input);
            list.iter_mut().for_each(visit);
        }
        Expr::Subquery(subquery) => {
            subquery.args.iter_mut().for_each(&mut *visit);
            if let SubqueryKind::Quantified { left, .. } = &mut subquery.kind {
                left.iter_mut().for_each(visit);
            }
        }
    }
}

/// Whether something holds for an expression or one inside it.
pub(crate) fn any(expr: &Expr, holds: &dyn Fn(&Expr) -> bool) -> bool {
    if holds(expr) {
        return true;
    }
    let mut found = false;
    for_each_child(expr, &mut |child| found = found || any(child, holds));
    found
}

/// Calls something for each column that an expression takes from its row.
pub(crate) fn for_each_column(expr: &Expr, visit: &mut dyn FnMut(usize)) {
    if let Expr::Column(column) = expr {
        visit(*column);
    }
    for_each_child(expr, &mut |child| for_each_column(child, visit));
}

/// Puts other columns in the place of those that an expression takes from its row.
pub(crate) fn map_columns(expr: &mut Expr, map: &dyn Fn(usize) -> usize) {
    if let Expr::Column(column) = expr {
        *column = map(*column);
    }
    for_each_child_mut(expr, &mut |child| map_columns(child, map));
}

/// Puts expressions in the place of columns.
pub(crate) fn substitute(expr: &mut Expr, with: &dyn Fn(usize) -> Expr) {
    if let Expr::Column(column) = expr {
        *expr = with(*column);
        return;
    }
    for_each_child_mut(expr, &mut |child| substitute(child, with));
}

/// Puts expressions in the place of slots.
pub(crate) fn substitute_slots(expr: &mut Expr, with: &dyn Fn(usize) -> Expr) {
    if let Expr::Arg(slot) = expr {
        *expr = with(*slot);
        return;
    }
    for_each_child_mut(expr, &mut |child| substitute_slots(child, with));
}

/// The conditions that all have to be true.
pub(crate) fn conjuncts(expr: Expr) -> Vec<Expr> {
    match expr {
        Expr::And(all) => all.into_iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

/// One condition for many.
pub(crate) fn conjunction(mut all: Vec<Expr>) -> Option<Expr> {
    match all.len() {
        0 | 1 => all.pop(),
        _ => Some(Expr::And(all)),
    }
}

pub(crate) fn has_aggregates(expr: &Expr) -> bool {
    any(expr, &|expr| matches!(expr, Expr::Column(column) if (AGGREGATES..EXTRAS).contains(column)))
}

/// Whether nothing but the row, parameters and slots matter: no query, nothing that the session has to do.
pub(crate) fn is_pure(expr: &Expr) -> bool {
    !any(expr, &|expr| matches!(expr, Expr::Subquery(_) | Expr::Session { .. }))
}

/// Whether it gives another value each time.
pub(crate) fn is_volatile(expr: &Expr) -> bool {
    any(expr, &|expr| match expr {
        Expr::Call { function, .. } => function.volatility == crate::functions::Volatility::Volatile,
        Expr::Session { .. } => true,
        _ => false,
    })
}

/// Whether it is the same for all rows of a run: it looks at no column and gives the same each time.
pub(crate) fn depends_on_no_row(expr: &Expr) -> bool {
    !any(expr, &|part| matches!(part, Expr::Column(_))) && !is_volatile(expr)
}

/// Whether two expressions are the same. May say no of some that are.
pub(crate) fn same(a: &Expr, b: &Expr) -> bool {
    fn all(a: &[Expr], b: &[Expr]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
    }
    match (a, b) {
        (Expr::Const(a), Expr::Const(b)) => a == b,
        (Expr::Column(a), Expr::Column(b)) | (Expr::Param(a), Expr::Param(b)) | (Expr::Arg(a), Expr::Arg(b)) => a == b,
        (Expr::Call { function: a, args: a_args }, Expr::Call { function: b, args: b_args }) => {
            std::ptr::eq(*a, *b) && a.volatility != crate::functions::Volatility::Volatile && all(a_args, b_args)
        }
        (
            Expr::Compare { op: a, left: a_left, right: a_right },
            Expr::Compare { op: b, left: b_left, right: b_right },
        ) => a == b && same(a_left, b_left) && same(a_right, b_right),
        (
            Expr::CompareRows { op: a, left: a_left, right: a_right },
            Expr::CompareRows { op: b, left: b_left, right: b_right },
        ) => a == b && all(a_left, b_left) && all(a_right, b_right),
        (
            Expr::Distinct { left: a_left, right: a_right, negated: a },
            Expr::Distinct { left: b_left, right: b_right, negated: b },
        ) => a == b && same(a_left, b_left) && same(a_right, b_right),
        (Expr::And(a), Expr::And(b)) | (Expr::Or(a), Expr::Or(b)) | (Expr::Coalesce(a), Expr::Coalesce(b)) => all(a, b),
        (Expr::Array { element: a, values: a_values }, Expr::Array { element: b, values: b_values }) => {
            a == b && all(a_values, b_values)
        }
        (Expr::Not(a), Expr::Not(b)) => same(a, b),
        (Expr::IsNull { input: a, negated: a_not }, Expr::IsNull { input: b, negated: b_not }) => {
            a_not == b_not && same(a, b)
        }
        (
            Expr::IsBool { input: a, value: a_value, negated: a_not },
            Expr::IsBool { input: b, value: b_value, negated: b_not },
        ) => a_value == b_value && a_not == b_not && same(a, b),
        (Expr::Cast { input: a, from: a_from, to: a_to, .. }, Expr::Cast { input: b, from: b_from, to: b_to, .. }) => {
            a_from == b_from && a_to == b_to && same(a, b)
        }
        (Expr::Case { arms: a, otherwise: a_else }, Expr::Case { arms: b, otherwise: b_else }) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| same(&a.0, &b.0) && same(&a.1, &b.1))
                && same(a_else, b_else)
        }
        (Expr::NullIf { left: a_left, right: a_right, .. }, Expr::NullIf { left: b_left, right: b_right, .. }) => {
            same(a_left, b_left) && same(a_right, b_right)
        }
        (Expr::Extreme { greatest: a, args: a_args }, Expr::Extreme { greatest: b, args: b_args }) => {
            a == b && all(a_args, b_args)
        }
        (
            Expr::InList { input: a, list: a_list, negated: a_not },
            Expr::InList { input: b, list: b_list, negated: b_not },
        ) => a_not == b_not && same(a, b) && all(a_list, b_list),
        (Expr::Subquery(a), Expr::Subquery(b)) => {
            a.id == b.id || (a.text == b.text && all(&a.args, &b.args) && same_kind(&a.kind, &b.kind))
        }
        (
            Expr::Session { function: SessionFunction::Named(a), args: a_args },
            Expr::Session { function: SessionFunction::Named(b), args: b_args },
        ) => a == b && a_args.is_empty() && b_args.is_empty(),
        _ => false,
    }
}

fn same_kind(a: &SubqueryKind, b: &SubqueryKind) -> bool {
    match (a, b) {
        (SubqueryKind::Exists, SubqueryKind::Exists) | (SubqueryKind::Scalar, SubqueryKind::Scalar) => true,
        (SubqueryKind::Array(a), SubqueryKind::Array(b)) => a == b,
        (
            SubqueryKind::Quantified { left: a_left, op: a, all: a_all },
            SubqueryKind::Quantified { left: b_left, op: b, all: b_all },
        ) => {
            a == b
                && a_all == b_all
                && a_left.len() == b_left.len()
                && a_left.iter().zip(b_left).all(|(a, b)| same(a, b))
        }
        _ => false,
    }
}

/// Whether two calls that give rows are the same.
pub(super) fn same_extra(a: &super::logical::Extra, b: &super::logical::Extra) -> bool {
    use super::logical::Extra::Rows;
    let (Rows(a, a_args), Rows(b, b_args)) = (a, b) else { return false };
    a == b && a_args.len() == b_args.len() && a_args.iter().zip(b_args).all(|(a, b)| same(a, b))
}

/// The places of what a SELECT list gives rows of, or computes of several, in an expression.
pub(crate) fn extras_in(expr: &Expr) -> Vec<usize> {
    let mut places = Vec::new();
    for_each_column(expr, &mut |column| places.extend(column.checked_sub(EXTRAS)));
    places
}

fn same_order(a: &[SortKey], b: &[SortKey]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| a.descending == b.descending && a.nulls_first == b.nulls_first && same(&a.expr, &b.expr))
}

/// Whether two calls of aggregates are the same.
pub(crate) fn same_call(a: &Call, b: &Call) -> bool {
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
            Expr::Column(column) if *column >= EXTRAS => Ok(()),
            Expr::Column(column) if *column >= AGGREGATES => {
                *column = self.keys.len() + (*column - AGGREGATES);
                Ok(())
            }
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

    /// A column that depends on the keys, since they hold its table's primary key, would be right as well; PostgreSQL
    /// takes it. Here the binder adds such columns to the keys first, see [`Binder::add_dependent_keys`].
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
        Error::new(SqlState::GROUPING_ERROR, message)
    }
}

/// Whether a column of a query gives another value each time, as far as its text says so by itself.
pub(crate) fn gives_volatile(query: &Query) -> bool {
    match &query.body {
        Body::Values(rows) => rows.iter().flatten().any(is_volatile),
        Body::Set { left, right, .. } => gives_volatile(left) || gives_volatile(right),
        Body::Select(select) => {
            let inner = |relation: &super::logical::Relation| match &relation.source {
                Source::Query(query) | Source::Lateral { query, .. } => gives_volatile(query),
                Source::Functions { calls, .. } => calls.iter().flat_map(|(_, args)| args).any(is_volatile),
                Source::Shared { .. } | Source::Table(_) | Source::System { .. } => false,
            };
            select.output.iter().chain(&select.filter).any(is_volatile) || select.relations.iter().any(inner)
        }
    }
}

/// Whether a query takes values from outside.
pub(crate) fn query_uses_args(query: &Query) -> bool {
    let uses = |expr: &Expr| any(expr, &|expr| matches!(expr, Expr::Arg(_)));
    let order = query.order.iter().map(|key| &key.expr).chain(&query.limit).chain(&query.offset).any(uses);
    let body = match &query.body {
        Body::Values(rows) => rows.iter().flatten().any(uses),
        Body::Set { left, right, .. } => query_uses_args(left) || query_uses_args(right),
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
                || select.relations.iter().any(|relation| match &relation.source {
                    Source::Query(query) => query_uses_args(query),
                    Source::Shared { uses_args, .. } => *uses_args,
                    source @ (Source::Functions { .. } | Source::Lateral { .. }) => source.taken().any(uses),
                    Source::Table(_) | Source::System { .. } => false,
                })
        }
    };
    order || body
}

/// Puts expressions in the place of the slots of a query that are filled from outside. What is inside its own queries in
/// expressions, and inside LATERAL queries, has slots of its own, and arguments for them, which are looked at.
pub(crate) fn fill_slots(query: &mut Query, with: &dyn Fn(usize) -> Expr) {
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
            Source::Shared { .. } | Source::Table(_) | Source::System { .. } => {}
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

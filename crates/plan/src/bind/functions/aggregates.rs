//! Calls of aggregates: which query one belongs to, what it is called on, and how its value reaches
//! the place where it was written.

use colibri_types::aggregates::Aggregate;
use colibri_types::functions::ROW;
use colibri_types::{ColumnType, Datum, Error, Result, SqlState, Type, cast::CastContext, resolve};
use sqlparser::ast;
use sqlparser::ast::Spanned;
use sqlparser::tokenizer::Span;

use super::{Args, no_such_function};
use crate::bind::expr::{Bound, known};
use crate::bind::query::sort_key_options;
use crate::bind::types::expect_comparable;
use crate::bind::{Binder, collation, rewrite};
use crate::expr::Expr;
use crate::plan::{AggregateCall, SortKey};

impl Binder<'_> {
    /// A call of an aggregate, which belongs to the innermost query that its arguments take columns
    /// from, or to the one at hand if they take none.
    pub(in crate::bind) fn aggregate(
        &mut self,
        name: &str,
        args: &Args<'_>,
        filter: Option<&ast::Expr>,
        span: Span,
    ) -> Result<Bound> {
        self.aggregate_of(name, span, |binder| binder.aggregate_call(name, args, filter, span))
    }

    /// The same for a call that `bind` makes: with what it is called on first, and whether its
    /// collation is open.
    pub(super) fn aggregate_of(
        &mut self,
        name: &str,
        span: Span,
        bind: impl FnOnce(&mut Self) -> Result<(AggregateCall, Option<ColumnType>, bool)>,
    ) -> Result<Bound> {
        let gathers = std::mem::take(&mut self.gathers);
        self.gathers_row = gathers;
        if self.frames.last().is_none_or(|frame| frame.scopes.is_empty()) {
            let message = "aggregate functions are not allowed here";
            return Err(self.place(span, Error::new(SqlState::GROUPING_ERROR, message)));
        }
        if self.scope().in_call {
            let error = match self.scope().no_calls {
                "FILTER" => not_allowed_in("FILTER"),
                _ => nested_aggregate(),
            };
            return Err(self.place(span, error));
        }
        let args_before: Vec<usize> = self.frames.iter().map(|frame| frame.args.len()).collect();
        let rows_calls = self.rows_calls();
        self.scope().in_call = true;
        let bound = bind(self);
        self.scope().in_call = false;
        let (mut call, first, is_open) = bound?;
        let message = "aggregate function calls cannot contain set-returning function calls";
        self.refuse_rows(rows_calls, message, span)?;
        if exprs_of_call(&call).any(|expr| !rewrite::extras_in(expr).is_empty()) {
            let message = "aggregate function calls cannot contain window function calls";
            return Err(self.place(span, Error::new(SqlState::GROUPING_ERROR, message)));
        }
        let here = self.frames.len() - 1;
        let level = exprs_of_call(&call).filter_map(|expr| self.level_of(expr, here)).max().unwrap_or(here);
        self.lift_call(&mut call, level, &args_before);
        let Some(scope) = self.frames[level].scopes.last_mut() else {
            return Err(self.place(span, Error::internal("an aggregate of a query without names")));
        };
        if scope.in_call {
            return Err(self.place(span, nested_aggregate()));
        }
        let no_calls = scope.no_calls;
        let aggregate = call.aggregate;
        let Some(calls) = &mut scope.calls else {
            let error = match no_calls {
                "FROM" => not_allowed_in("FROM clause of their own query level"),
                place => not_allowed_in(place),
            };
            return Err(self.place(span, error));
        };
        let mut place = |call: AggregateCall| {
            let same = calls.iter().position(|other| super::rewrite::same_call(other, &call));
            same.unwrap_or_else(|| {
                calls.push(call);
                calls.len() - 1
            })
        };
        let count = match resolve::resolve_aggregate("count", &[Type::Text]) {
            Some(Ok(count)) if is_open && matches!(name, "min" | "max") => {
                Some(place(AggregateCall { aggregate: count, ..call.clone() }))
            }
            _ => None,
        };
        let args = call.args.clone();
        let index = place(call);
        let mut value = self.handed_down(Expr::Aggregate(index), level);
        value = collation::text_of_extreme(value, aggregate.name, &args);
        if let Some(count) = count {
            let count = self.handed_down(Expr::Aggregate(count), level);
            value = collation::open_extreme(value, count);
        }
        if gathers {
            return Ok(Bound::new(value, Type::Record));
        }
        self.aggregate_value(value, aggregate, first, span)
    }

    /// What an aggregate gives, in the type that it has for what it was called on first.
    pub(super) fn aggregate_value(
        &self,
        value: Expr,
        aggregate: &Aggregate,
        first: Option<ColumnType>,
        span: Span,
    ) -> Result<Bound> {
        match (aggregate.result, aggregate.name, first) {
            (Type::AnyArray, ..) => {
                // Arrays become one with a dimension more.
                let of_values = |ty: Type| if matches!(ty, Type::Array(_)) { Some(ty) } else { ty.array() };
                let Some(to) = first.and_then(|first| of_values(known(first.ty))) else {
                    return Err(self.place(span, Error::unsupported("array_agg of such values")));
                };
                let (input, context) = (Box::new(value), CastContext::Implicit);
                let array = Expr::Cast { input, from: Type::AnyArray, to: to.into(), context };
                let domain = first.and_then(crate::bind::domains::arrays_of);
                Ok(Bound::new(array, ColumnType { domain, ..to.into() }))
            }
            // The blanks of character(n) are told by the length.
            (Type::Char, "min" | "max", Some(first)) => Ok(Bound::new(value, first.base())),
            (Type::AnyElement, _, Some(first)) => Ok(Bound::new(value, first.ty)),
            (result, ..) => Ok(Bound::new(value, result)),
        }
    }

    /// The frame of the innermost query that an expression of the frame `at` takes columns from.
    pub(super) fn level_of(&self, expr: &Expr, at: usize) -> Option<usize> {
        match expr {
            Expr::Column(_) | Expr::Aggregate(_) | Expr::Extra(_) => Some(at),
            Expr::Arg(slot) => self.level_of(self.frames[at].args.get(*slot)?, at.checked_sub(1)?),
            _ => {
                let mut level = None;
                rewrite::for_each_child(expr, &mut |child| level = level.max(self.level_of(child, at)));
                level
            }
        }
    }

    /// Turns a call over the row at hand into one over the row of the frame `level`. What it alone
    /// took from outside is not taken any more: it is looked at there.
    pub(super) fn lift_call(&mut self, call: &mut AggregateCall, level: usize, args_before: &[usize]) {
        for at in (level + 1..self.frames.len()).rev() {
            let args = std::mem::take(&mut self.frames[at].args);
            for expr in exprs_of_call_mut(call) {
                rewrite::substitute_slots(expr, &|slot| args[slot].clone());
            }
            self.frames[at].args = args;
            self.frames[at].args.truncate(args_before[at]);
        }
    }

    /// An expression of the frame `from` as one of the frame at hand.
    pub(in crate::bind) fn handed_down(&mut self, expr: Expr, from: usize) -> Expr {
        let mut expr = expr;
        for frame in &mut self.frames[from + 1..] {
            let same = frame.args.iter().position(|arg| super::rewrite::same(arg, &expr));
            let slot = same.unwrap_or_else(|| {
                frame.args.push(expr);
                frame.args.len() - 1
            });
            expr = Expr::Arg(slot);
        }
        expr
    }

    /// FILTER of a call.
    pub(super) fn call_filter(&mut self, filter: &ast::Expr) -> Result<Expr> {
        let scope = self.scope();
        let (extras, calls) = (scope.extras.take(), scope.calls.take());
        let no_calls = std::mem::replace(&mut scope.no_calls, "FILTER");
        let in_window = std::mem::take(&mut scope.in_window);
        let bound = self.condition(filter, "FILTER");
        let scope = self.scope();
        (scope.extras, scope.calls) = (extras, calls);
        (scope.no_calls, scope.in_window) = (no_calls, in_window);
        bound
    }

    pub(super) fn aggregate_call(
        &mut self,
        name: &str,
        args: &Args<'_>,
        filter: Option<&ast::Expr>,
        span: Span,
    ) -> Result<(AggregateCall, Option<ColumnType>, bool)> {
        if args.star && args.distinct {
            return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"*\"")));
        }
        if args.star && name != "count" {
            return Err(self.place(span, no_such_function(&format!("{name}(*)"))));
        }
        if args.exprs.is_empty() && !args.star {
            let error = match name {
                "count" => Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    "count(*) must be used to call a parameterless aggregate function",
                ),
                _ => no_such_function(&format!("{name}()")),
            };
            return Err(self.place(span, error));
        }
        let mut bounds = Vec::with_capacity(args.exprs.len());
        let mut is_open = false;
        for expr in &args.exprs {
            self.take_collation();
            let bound = self.apart(|binder| binder.expr(expr))?;
            let own = self.take_collation();
            is_open |= own.is_open() && collation::is_collatable(bound.ty.ty);
            bounds.push(bound);
            self.meet(own, expr.span())?;
        }
        let at_hand = self.collation.clone().unwrap_or_default();
        if args.distinct {
            self.at(span, at_hand.expect_one())?;
            for bound in &bounds {
                self.at(span, expect_comparable(bound.ty.ty, false))?;
            }
        }
        // As they were written: what ORDER BY says is compared with these.
        let written: Vec<Expr> = bounds.iter().map(|bound| bound.expr.clone()).collect();
        let types: Vec<Type> = bounds.iter().map(|bound| bound.ty.ty).collect();
        let written_types = types.clone();
        let Some(found) = resolve::resolve_aggregate(name, &types) else {
            return Err(self.place(span, no_such_function(name)));
        };
        let aggregate = self.at(span, found)?;
        if let ("min" | "max", [ty @ Type::Array(_)]) = (name, &types[..])
            && let Some(element @ (Type::Json | Type::JsonPath | Type::Xml)) = ty.element()
        {
            let message = format!("could not identify a comparison function for type {element}");
            return Err(self.place(span, Error::new(SqlState::NO_SUCH_FUNCTION, message)));
        }
        let first = bounds.first().map(|bound| bound.ty);
        let mut typed = Vec::with_capacity(bounds.len());
        for (bound, &ty) in bounds.into_iter().zip(aggregate.args) {
            // An argument of any type keeps its own.
            // The blanks of character(n) are a part of what JSON shows.
            let bound = if super::json::AGGREGATES.contains(&name) { super::with_blanks(bound) } else { bound };
            typed.push(self.argument(bound, ty, span)?);
        }
        if name == "xmlagg" {
            self.without_declarations(&mut typed, span)?;
        }
        if matches!(name, "json_agg" | "jsonb_agg") && types[0] == Type::Unknown {
            let message = "could not determine polymorphic type because input has type unknown";
            return Err(self.place(span, Error::new(SqlState::TYPE_MISMATCH, message)));
        }
        if super::json::AGGREGATES.contains(&name) {
            for ty in types {
                typed.push(Expr::Const(Datum::Int(known(ty).code().into())));
            }
        }
        // Several arguments of a user's aggregate are one row: each of them may be ordered by.
        let gathered: Vec<Expr> = match &written[..] {
            [Expr::Call { function, args }] if self.gathers_row && std::ptr::eq(*function, &ROW) => {
                args.get(1..).unwrap_or_default().to_vec()
            }
            _ => Vec::new(),
        };
        let mut aggregate = aggregate;
        if !is_open && let (Some(first), [_]) = (first, &typed[..]) {
            aggregate = self.extreme_of(aggregate, &mut typed, known(first.ty));
            if args.distinct && first.ty != Type::Unknown && matches!(aggregate.name, "count") {
                let key = self.equality_key(&typed[0], first.ty, &at_hand);
                typed[0] = key.unwrap_or_else(|| typed[0].clone());
            }
        }
        if args.distinct && !matches!(aggregate.name, "count" | "min" | "max") {
            for arg in &written_types {
                self.expect_deterministic(*arg, &at_hand, "DISTINCT in aggregates")?;
            }
        }
        let filter = filter.map(|filter| self.call_filter(filter)).transpose()?;
        let mut order = Vec::with_capacity(args.order.len());
        for key in args.order {
            let (bound, collation) = self.ordered_by(&key.expr)?;
            let ty = known(bound.ty.ty);
            // An argument that was converted by itself is sorted by as it is then.
            let argument =
                written.iter().position(|arg| bound.ty.ty != Type::Unknown && rewrite::same(arg, &bound.expr));
            let expr = match argument.and_then(|at| typed.get(at)) {
                Some(argument) => argument.clone(),
                None if args.distinct && !gathered.iter().any(|part| rewrite::same(part, &bound.expr)) => {
                    let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
                    return Err(self.place(key.expr.span(), Error::new(SqlState::BAD_COLUMN_REFERENCE, message)));
                }
                None => self.coerce(bound, ty.into(), CastContext::Implicit, span)?,
            };
            let expr = self.sort_key(expr, ty, &collation);
            let (descending, nulls_first) = sort_key_options(&key.options)?;
            order.push(SortKey { expr, descending, nulls_first });
        }
        // Values that are distinct come in their order, as from PostgreSQL, which sorts to find
        // them.
        if args.distinct
            && order.is_empty()
            && matches!(
                aggregate.name,
                "array_agg" | "string_agg" | "json_agg" | "jsonb_agg" | "json_object_agg" | "jsonb_object_agg"
            )
        {
            for (place, expr) in typed.iter().enumerate() {
                let ty = written_types.get(place).map_or(Type::Bool, |ty| known(*ty));
                let expr = self.sort_key(expr.clone(), ty, &at_hand);
                order.push(SortKey { expr, descending: false, nulls_first: false });
            }
        }
        Ok((AggregateCall { aggregate, args: typed, distinct: args.distinct, filter, order }, first, is_open))
    }
}

fn not_allowed_in(place: &str) -> Error {
    Error::new(SqlState::GROUPING_ERROR, format!("aggregate functions are not allowed in {place}"))
}

fn nested_aggregate() -> Error {
    Error::new(SqlState::GROUPING_ERROR, "aggregate function calls cannot be nested")
}

fn exprs_of_call(call: &AggregateCall) -> impl Iterator<Item = &Expr> {
    call.args.iter().chain(&call.filter).chain(call.order.iter().map(|key| &key.expr))
}

fn exprs_of_call_mut(call: &mut AggregateCall) -> impl Iterator<Item = &mut Expr> {
    call.args.iter_mut().chain(&mut call.filter).chain(call.order.iter_mut().map(|key| &mut key.expr))
}

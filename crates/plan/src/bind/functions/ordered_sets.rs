//! Calls of aggregates with WITHIN GROUP: percentiles, the most frequent value, and the place that a
//! hypothetical row would have.

use colibri_types::aggregates::ordered;
use colibri_types::{ColumnType, Datum, Error, Result, SqlState, Type, cast, cast::CastContext};
use sqlparser::ast;
use sqlparser::ast::Spanned;
use sqlparser::tokenizer::Span;

use super::{Args, args, no_such_function};
use crate::bind::Binder;
use crate::bind::collation::{Collation, has_order, keyed, with_text};
use crate::bind::expr::{Bound, known};
use crate::bind::query::sort_key_options;
use crate::expr::Expr;
use crate::plan::{AggregateCall, SortKey};

/// A value of WITHIN GROUP, and how it is ordered.
struct Key {
    bound: Bound,
    collation: Collation,
    span: Span,
    descending: bool,
    nulls_first: bool,
}

impl Key {
    fn sort_key(&self, expr: &Expr) -> SortKey {
        SortKey { expr: expr.clone(), descending: self.descending, nulls_first: self.nulls_first }
    }
}

impl Binder<'_> {
    pub(super) fn within_group(&mut self, name: &str, function: &ast::Function, span: Span) -> Result<Bound> {
        let args = self.at(span, args(function))?;
        let message = match (args.distinct, args.order) {
            (true, _) => "cannot use DISTINCT with WITHIN GROUP",
            (_, [_, ..]) => "cannot use multiple ORDER BY clauses with WITHIN GROUP",
            _ => "",
        };
        if !message.is_empty() {
            return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, message)));
        }
        let filter = function.filter.as_deref();
        self.aggregate_of(name, span, |binder| {
            binder.within_group_call(name, &args, &function.within_group, filter, span)
        })
    }

    /// Of a call with WITHIN GROUP over a window.
    pub(super) fn no_within_group_over(&self, name: &str, span: Span) -> Error {
        let error = match ordered::is_ordered_set(name) || ordered::is_hypothetical(name) {
            true => Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("OVER is not supported for ordered-set aggregate {name}"),
            ),
            false => Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP"),
            ),
        };
        self.place(span, error)
    }

    fn within_group_call(
        &mut self,
        name: &str,
        args: &Args<'_>,
        within_group: &[ast::OrderByExpr],
        filter: Option<&ast::Expr>,
        span: Span,
    ) -> Result<(AggregateCall, Option<ColumnType>, bool)> {
        let mut direct = Vec::with_capacity(args.exprs.len());
        for expr in &args.exprs {
            direct.push((self.expr(expr)?, expr.span()));
        }
        let mut keys = Vec::with_capacity(within_group.len());
        for key in within_group {
            let (descending, nulls_first) = sort_key_options(&key.options)?;
            let (bound, collation) = self.ordered_by(&key.expr)?;
            keys.push(Key { bound, collation, span: key.expr.span(), descending, nulls_first });
        }
        let filter = filter.map(|filter| self.call_filter(filter)).transpose()?;
        let types = direct.iter().map(|(bound, _)| bound.ty.ty).chain(keys.iter().map(|key| key.bound.ty.ty));
        let no_such = || {
            let types = types.map(|ty| ty.sql_name().to_string()).collect::<Vec<_>>().join(", ");
            no_such_function(&format!("{name}({types})"))
        };
        let found = match ordered::is_hypothetical(name) {
            true if direct.len() == keys.len() && !keys.is_empty() && keys.len() <= ordered::KEYS_MAX => {
                self.hypothetical(name, &direct, &keys)?
            }
            false if ordered::is_ordered_set(name) => self.ordered_set(name, &direct, &keys)?,
            _ => None,
        };
        let Some((call, first)) = found else { return Err(self.place(span, no_such())) };
        for (bound, span) in direct {
            self.scope().direct_args.push((bound.expr, span));
        }
        Ok((AggregateCall { filter, ..call }, first, false))
    }

    fn ordered_set(
        &mut self,
        name: &str,
        direct: &[(Bound, Span)],
        keys: &[Key],
    ) -> Result<Option<(AggregateCall, Option<ColumnType>)>> {
        let [key] = keys else { return Ok(None) };
        let is_continuous = name == "percentile_cont";
        let ty = known(key.bound.ty.ty);
        let of_interval = ty == Type::Interval;
        let becomes = |from: Type, to: Type| {
            from == to || from == Type::Unknown || cast::cast_context(from, to) == Some(CastContext::Implicit)
        };
        let first: ColumnType = match is_continuous {
            true if of_interval => Type::Interval.into(),
            true if becomes(key.bound.ty.ty, Type::Float8) => Type::Float8.into(),
            true => return Ok(None),
            false => ty.into(),
        };
        let mut args = vec![self.coerce(key.bound.clone(), first, CastContext::Implicit, key.span)?];
        let many = match (name, direct) {
            ("mode", []) => false,
            ("percentile_cont" | "percentile_disc", [(fraction, span)]) => {
                let many = fraction.ty.ty.element().is_some();
                let to = if many { Type::Float8.array().unwrap_or(Type::AnyArray) } else { Type::Float8 };
                if !many && !becomes(fraction.ty.ty, to) {
                    return Ok(None);
                }
                args.push(self.coerce(fraction.clone(), to.into(), CastContext::Implicit, *span)?);
                many
            }
            _ => return Ok(None),
        };
        let by_collation = self.order_by(&key.collation).filter(|_| has_order(ty));
        // Values that are compared as they are may come in any order.
        let is_ascending = !key.descending && by_collation.is_none() && name != "mode";
        let Some(aggregate) = ordered::ordered_set(name, of_interval, many, is_ascending) else { return Ok(None) };
        if is_ascending {
            let call = AggregateCall { aggregate, args, distinct: false, filter: None, order: Vec::new() };
            return Ok(Some((call, Some(first))));
        }
        if let Some(order) = by_collation {
            if many {
                return Err(Error::unsupported("percentiles of texts by a collation but C"));
            }
            let text = std::mem::replace(&mut args[0], Expr::Const(Datum::Null));
            args[0] = with_text(&order, text);
        }
        let order = vec![key.sort_key(&args[0])];
        Ok(Some((AggregateCall { aggregate, args, distinct: false, filter: None, order }, Some(first))))
    }

    fn hypothetical(
        &mut self,
        name: &str,
        direct: &[(Bound, Span)],
        keys: &[Key],
    ) -> Result<Option<(AggregateCall, Option<ColumnType>)>> {
        let Some(aggregate) = ordered::hypothetical(name) else { return Ok(None) };
        let (mut of_rows, mut of_row, mut order, mut flags) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for (at, (key, (value, span))) in keys.iter().zip(direct).enumerate() {
            let ty: ColumnType = self.common_type("WITHIN GROUP", &[value.ty.ty, key.bound.ty.ty], *span)?.into();
            let by = self.order_by(&key.collation).filter(|_| has_order(ty.ty));
            let sorted_by = |expr: Expr| by.as_ref().map_or_else(|| expr.clone(), |by| keyed(by, expr.clone(), ty.ty));
            let expr = sorted_by(self.coerce(key.bound.clone(), ty, CastContext::Implicit, key.span)?);
            order.push(key.sort_key(&expr));
            of_rows.push(expr);
            of_row.push(sorted_by(self.coerce(value.clone(), ty, CastContext::Implicit, *span)?));
            let flag = |is_set: bool, flag: i64| if is_set { flag << (at * ordered::KEY_BITS) } else { 0 };
            flags |= flag(key.descending, ordered::DESCENDING) | flag(key.nulls_first, ordered::NULLS_FIRST);
        }
        // Different rows are told apart in their order.
        if name != "dense_rank" {
            order.clear();
        }
        let args = of_rows.into_iter().chain(of_row).chain([Expr::Const(Datum::Int(flags))]).collect();
        Ok(Some((AggregateCall { aggregate, args, distinct: false, filter: None, order }, None)))
    }
}

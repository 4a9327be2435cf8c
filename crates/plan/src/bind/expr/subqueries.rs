//! Queries inside expressions, and ANY and ALL of queries and arrays.

use std::borrow::Cow;

use colibri_types::{Error, Result, SqlState, Type, cast::CastContext, resolve};
use sqlparser::ast::Spanned;
use sqlparser::ast::{self, BinaryOperator};
use sqlparser::tokenizer::Span;

use super::{Bound, as_tuple, known, operators::Operator, operators::operator};
use crate::bind::collation;
use crate::bind::logical::Column;
use crate::bind::recursive::Barrier;
use crate::bind::{Binder, Frame, logical};
use crate::expr::{CompareOp, Expr, Inner, Subquery, SubqueryKind, Test};

/// Whether a query on the right of a comparison stands for its rows or for its only row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SubqueryUse {
    Set,
    Row,
}

impl Binder<'_> {
    pub(super) fn any_all(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        all: bool,
        span: Span,
    ) -> Result<Bound> {
        let op = match self.at(span, operator(op))? {
            Operator::Compare(op) => op,
            Operator::Call(symbol) => return self.any_all_call(left, symbol, right, all, span),
            _ => return Err(self.place(span, Error::unsupported("ANY and ALL of conditions"))),
        };
        match right {
            ast::Expr::Subquery(query) => self.quantified(left, op, all, query, span),
            ast::Expr::Nested(inner) => self.any_all_nested(left, op, inner, all, span),
            ast::Expr::Array(array) if are_compared_singly(&array.elem) => {
                self.any_all_list(left, op, &array.elem, all)
            }
            right => self.any_all_array(left, Test::Compare(op), right, all),
        }
    }

    fn any_all_nested(
        &mut self,
        left: &ast::Expr,
        op: CompareOp,
        right: &ast::Expr,
        all: bool,
        span: Span,
    ) -> Result<Bound> {
        match right {
            ast::Expr::Subquery(query) => self.quantified(left, op, all, query, span),
            ast::Expr::Array(array) if are_compared_singly(&array.elem) => {
                self.any_all_list(left, op, &array.elem, all)
            }
            right => self.any_all_array(left, Test::Compare(op), right, all),
        }
    }

    /// `left op ANY (array)` with an array that is computed.
    fn any_all_array(&mut self, left: &ast::Expr, test: Test, right: &ast::Expr, all: bool) -> Result<Bound> {
        let (left_span, span) = (left.span(), right.span());
        let left = self.expr(left)?;
        let array = self.expr(right)?;
        self.any_all_values((left, left_span), test, (array, span), all)
    }

    /// The same of both sides as they were bound.
    fn any_all_values(
        &mut self,
        (left, left_span): (Bound, Span),
        test: Test,
        (array, span): (Bound, Span),
        all: bool,
    ) -> Result<Bound> {
        let element = match array.ty.ty {
            Type::Unknown => known(left.ty.ty),
            ty => match ty.element() {
                Some(element) => element,
                None => {
                    let error =
                        Error::new(SqlState::WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires array on right side");
                    return Err(self.place(span, error));
                }
            },
        };
        let common = resolve::comparison_type(left.ty.ty, element);
        // The operators that give a boolean besides comparisons are those of texts.
        let is_text = |ty: &Type| ty.is_text() || *ty == Type::Unknown;
        let Some(common) = common.filter(|common| matches!(test, Test::Compare(_)) || is_text(common)) else {
            let symbol = match &test {
                Test::Compare(op) => op.symbol(),
                Test::Call(function) => function.name,
            };
            let error = resolve::no_operator(&format!("{} {symbol} {element}", left.ty.ty), false);
            return Err(self.place_between(symbol, left_span, span, error));
        };
        let common = if matches!(test, Test::Call(_)) { Type::Text } else { known(common) };
        let Some(of_common) = common.array() else {
            return Err(self.place(span, Error::unsupported(format_args!("an array of {common}"))));
        };
        let left = self.coerce(left, common.into(), CastContext::Implicit, left_span)?;
        let array = self.coerce(array, of_common.into(), CastContext::Assignment, span)?;
        let is_open = self.is_collation_open() && collation::is_collatable(common);
        let mut left = if is_open { collation::open(left, &array) } else { left };
        let mut array = array;
        match &test {
            Test::Compare(op) => {
                let is_equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
                if let Some(order) = self.order_at_hand(common).filter(|order| !is_equality || !order.deterministic) {
                    left = collation::keyed(&order, left, common);
                    array = collation::keyed(&order, array, of_common);
                }
            }
            // Looks at the collation only.
            Test::Call(function) => _ = self.at(span, self.collated(function, Vec::new()))?,
        }
        Ok(Bound::bool(Expr::AnyOf { test, left: Box::new(left), array: Box::new(array), all }))
    }

    /// `left LIKE ANY (array)` and its like.
    pub(super) fn any_all_call(
        &mut self,
        left: &ast::Expr,
        symbol: &'static str,
        right: &ast::Expr,
        all: bool,
        span: Span,
    ) -> Result<Bound> {
        let function = self.at(span, self.builtin.functions.operator(symbol, Some(Type::Text), Type::Text))?;
        if function.result != Type::Bool {
            let error =
                Error::new(SqlState::WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires operator to yield boolean");
            return Err(self.place(span, error));
        }
        match right {
            ast::Expr::Subquery(query) => {
                let (values, columns) = self.subquery(query, SubqueryKind::Array(Type::Text))?;
                let [column] = &columns[..] else {
                    let error = Error::new(SqlState::SYNTAX_ERROR, "subquery has too many columns");
                    return Err(self.place_between(symbol, left.span(), right.span(), error));
                };
                let Some(ty) = column.ty.ty.item().array() else {
                    return Err(self.place(span, Error::unsupported(format_args!("an array of {}", column.ty.ty))));
                };
                let values = Bound::new(values, ty);
                let (left_span, bound) = (left.span(), self.expr(left)?);
                self.any_all_values((bound, left_span), Test::Call(function), (values, right.span()), all)
            }
            ast::Expr::Nested(inner) => self.any_all_call(left, symbol, inner, all, span),
            right => self.any_all_array(left, Test::Call(function), right, all),
        }
    }

    fn any_all_list(&mut self, left: &ast::Expr, op: CompareOp, list: &[ast::Expr], all: bool) -> Result<Bound> {
        match (op, all) {
            (CompareOp::Eq, false) => return self.in_list(left, list, false),
            (CompareOp::Ne, true) => return self.in_list(left, list, true),
            _ => {}
        }
        let left_span = left.span();
        let left = self.expr(left)?;
        let mut sides = Vec::with_capacity(list.len());
        for right in list {
            let bound = self.expr(right)?;
            let (left, right) = {
                let left = self.copy_of(&left)?;
                self.comparable(op.symbol(), left, left_span, bound, right.span())?
            };
            sides.push(Expr::Compare { op, left: Box::new(left), right: Box::new(right) });
        }
        Ok(Bound::bool(if all { Expr::And(sides) } else { Expr::Or(sides) }))
    }

    pub(super) fn quantified(
        &mut self,
        left: &ast::Expr,
        op: CompareOp,
        all: bool,
        query: &ast::Query,
        span: Span,
    ) -> Result<Bound> {
        let left = as_tuple(left).unwrap_or(Cow::Borrowed(std::slice::from_ref(left)));
        self.quantified_rows(&left, op, all, query, span, SubqueryUse::Set)
    }

    pub(super) fn quantified_rows(
        &mut self,
        left: &[ast::Expr],
        op: CompareOp,
        all: bool,
        query: &ast::Query,
        span: Span,
        used: SubqueryUse,
    ) -> Result<Bound> {
        // The query first, as PostgreSQL does: see `select_in_scope`.
        let mut query_bound = self.behind(Barrier::Subquery, |binder| binder.subquery_query(query))?;
        let mut lefts = Vec::with_capacity(left.len());
        for left in left {
            self.forget_collation(Type::Bool);
            let bound = self.expr(left)?;
            let collation = self.collation.clone().unwrap_or_default();
            lefts.push((bound, left.span(), collation));
        }
        self.forget_collation(Type::Bool);
        if query_bound.0.columns.len() != lefts.len() {
            let message = if query_bound.0.columns.len() > lefts.len() {
                "subquery has too many columns"
            } else {
                "subquery has too few columns"
            };
            return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, message)));
        }
        let mut left = Vec::with_capacity(lefts.len());
        let mut types = Vec::with_capacity(lefts.len());
        let mut orders = Vec::with_capacity(lefts.len());
        for ((bound, left_span, collation), column) in lefts.into_iter().zip(&query_bound.0.columns) {
            // Literals that a query gives are texts, whatever they are compared with.
            let ty = resolve::comparison_type(bound.ty.ty, known(column.ty.ty));
            let Some(ty) = ty else {
                let written = format!("{} {} {}", bound.ty.ty, op.symbol(), known(column.ty.ty));
                let right = query.body.span();
                let error = resolve::no_operator(&written, false);
                return Err(self.place_between(op.symbol(), left_span, right, error));
            };
            let ty = if ty == Type::Unknown { Type::Text } else { ty };
            let expr = self.coerce(bound, ty.into(), CastContext::Implicit, left_span)?;
            let both = self.both_collations(collation, column.collation.clone(), left_span)?;
            let is_open = both.is_open() && collation::is_collatable(ty);
            let is_equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
            let order =
                self.order_by(&both).filter(|order| collation::has_order(ty) && (!is_equality || !order.deterministic));
            left.push(match &order {
                _ if is_open => collation::open(expr.clone(), &expr),
                Some(order) => collation::keyed(order, expr, ty),
                None => expr,
            });
            types.push(ty);
            orders.push(order);
        }
        self.retype(&mut query_bound.0, &types)?;
        if orders.iter().any(Option::is_some) {
            collation::key_output(&mut query_bound.0, &orders);
        }
        let all = all || (used == SubqueryUse::Row && op == CompareOp::Ne);
        let kind = SubqueryKind::Quantified { left, op, all };
        Ok(Bound::bool(self.finish_subquery(query, query_bound, kind)))
    }

    /// A query inside an expression, with slots of its own for what it takes from outside.
    pub(in crate::bind) fn subquery(&mut self, query: &ast::Query, kind: SubqueryKind) -> Result<(Expr, Vec<Column>)> {
        let mut bound = self.behind(Barrier::Subquery, |binder| binder.subquery_query(query))?;
        if !matches!(kind, SubqueryKind::Exists) {
            let types: Vec<Type> = bound.0.columns.iter().map(|column| known(column.ty.ty)).collect();
            self.retype(&mut bound.0, &types)?;
        }
        if matches!(kind, SubqueryKind::Exists) {
            forget_output(&mut bound.0);
        }
        let columns = bound.0.columns.clone();
        let kind = match kind {
            SubqueryKind::Array(_) => {
                let ty = columns.first().map_or(Type::Text, |column| column.ty.ty);
                SubqueryKind::Array(ty.item())
            }
            kind => kind,
        };
        Ok((self.finish_subquery(query, bound, kind), columns))
    }

    pub(in crate::bind) fn subquery_query(&mut self, query: &ast::Query) -> Result<(logical::Query, Vec<Expr>)> {
        self.frames.push(Frame::default());
        let bound = self.apart(|binder| binder.levels_down(2, |binder| binder.query(query)));
        let frame = self.frames.pop().expect("the frame was pushed above");
        Ok((bound?, frame.args))
    }

    fn finish_subquery(
        &mut self,
        written: &ast::Query,
        bound: (logical::Query, Vec<Expr>),
        kind: SubqueryKind,
    ) -> Expr {
        let (query, args) = bound;
        let (id, text) = (self.new_id(), written.to_string().into_boxed_str());
        let query = Inner::Logical(std::sync::Arc::new(query));
        Expr::Subquery(Box::new(Subquery { id, query, args, kind, text }))
    }
}

/// Whether values of ARRAY[…] can be compared one by one: they need no computing, and one of them
/// tells a type. Strings and NULLs alone make an array of texts, whatever it is compared with.
fn are_compared_singly(values: &[ast::Expr]) -> bool {
    fn is_untyped(value: &ast::Expr) -> bool {
        use ast::Value as V;
        match value {
            ast::Expr::Value(value) => !matches!(value.value, V::Number(..) | V::Boolean(_) | V::Placeholder(_)),
            ast::Expr::Nested(inner) => is_untyped(inner),
            _ => false,
        }
    }
    are_plain(values) && !values.iter().all(is_untyped)
}

/// Whether values are there without computing anything. Others are all computed, whichever of them
/// decides.
fn are_plain(values: &[ast::Expr]) -> bool {
    values.iter().all(|value| match value {
        ast::Expr::Value(_) | ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) => true,
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus | ast::UnaryOperator::Plus, expr }
        | ast::Expr::Cast { expr, .. }
        | ast::Expr::Nested(expr) => are_plain(std::slice::from_ref(expr)),
        _ => false,
    })
}

/// EXISTS asks for rows, not for what is in them: that is not computed, and neither are groups of
/// which nothing is asked, duplicates and an order.
fn forget_output(query: &mut logical::Query) {
    let keeps_some = |limit: &Expr| match limit {
        Expr::Const(colibri_types::Datum::Int(count)) => *count > 0,
        Expr::Const(colibri_types::Datum::Null) => true,
        _ => false,
    };
    if !query.locks.is_empty() || query.offset.is_some() || !query.limit.iter().all(keeps_some) {
        return;
    }
    let select = match &mut query.body {
        logical::Body::Select(select) => select,
        logical::Body::Values(rows) => {
            if let [row] = &mut rows[..] {
                row.fill(Expr::Const(colibri_types::Datum::Null));
            }
            return;
        }
        logical::Body::Set { .. } | logical::Body::Recursive(_) | logical::Body::GroupingSets(_) => return,
    };
    let asks_nothing = |group: &logical::Group| {
        !group.keys.is_empty() && group.calls.is_empty() && group.having.is_none() && select.grouped_rows.is_empty()
    };
    if !select.group.iter().all(asks_nothing) || !select.extras.is_empty() {
        return;
    }
    select.group = None;
    select.distinct = logical::Distinct::No;
    select.output.fill(Expr::Const(colibri_types::Datum::Null));
    query.order.clear();
    query.limit = None;
}

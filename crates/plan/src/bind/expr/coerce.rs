//! Types of expressions: casts, the common type of several, queries whose columns are to have
//! others.

use colibri_types::functions::ROW;
use colibri_types::{
    Category, ColumnType, Datum, Error, Modifier, Result, SqlState, Type, cast, cast::CastContext, resolve, text_io,
};
use sqlparser::ast::Spanned;
use sqlparser::ast::{self, Value};
use sqlparser::tokenizer::Span;

use super::Bound;
use crate::bind::logical::Column;
use crate::bind::{Binder, logical};
use crate::expr::Expr;

/// A type with the modifier that all of the types it was chosen for have.
pub(in crate::bind) fn common_modifier(types: impl Iterator<Item = ColumnType>, ty: Type) -> ColumnType {
    // What literals say of `character(n)` is left out: values know their blanks by the type only.
    // Of rows NULL says nothing.
    let mut types = types.filter(|other| !(matches!(ty, Type::Char | Type::Record) && other.ty == Type::Unknown));
    let Some(first) = types.next() else { return ty.into() };
    if first.ty == ty && types.all(|other| other == first) { first } else { ty.into() }
}

/// Text, where nothing else told the type.
pub(in crate::bind) fn known(ty: Type) -> Type {
    if ty == Type::Unknown { Type::Text } else { ty }
}

/// Whether what a text means as a value of a type may depend on when it is read, on settings, roles
/// or the search path. Types of which nobody has made sure count as such.
fn depends_on_session(text: &str, ty: Type) -> bool {
    match ty {
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Float4 | Type::Float8 | Type::Numeric => false,
        Type::Bool | Type::Bytea | Type::Uuid => false,
        // What a sign before all of it is of.
        Type::Interval => text.contains('-'),
        Type::Bit | Type::VarBit | Type::Money | Type::Xid8 | Type::PgLsn | Type::Tid => false,
        Type::Json | Type::Jsonb | Type::JsonPath | Type::Enum(_) => false,
        Type::Range(of) => {
            !(of.subtype().is_text() || of.subtype().is_enum() || of.subtype().category() == Category::Number)
        }
        Type::Int4Range | Type::Int8Range | Type::NumRange => false,
        Type::Int4Multirange | Type::Int8Multirange | Type::NumMultirange => false,
        Type::Citext | Type::Hstore | Type::Ltree | Type::Lquery | Type::Ltxtquery | Type::IntQuery => false,
        Type::Vector => false,
        Type::TsVector | Type::TsQuery | Type::Inet | Type::Cidr | Type::MacAddr | Type::MacAddr8 => false,
        ty if ty.is_geometric() => false,
        // Every database has the same ones.
        Type::RegConfig | Type::RegDictionary => false,
        // Words (now, epoch), zones and the order of a date's numbers may.
        Type::Date | Type::Time | Type::Timestamp => {
            let begins_with_year =
                matches!(text.as_bytes(), [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b'-', ..]);
            let is_plain = |byte: u8| byte.is_ascii_digit() || b"-:. ".contains(&byte);
            !(begins_with_year || ty == Type::Time) || !text.bytes().all(is_plain)
        }
        ty if ty.is_text() => false,
        ty => ty.element().is_none_or(|element| depends_on_session(text, element)),
    }
}

impl Binder<'_> {
    /// The type that all can be cast to, text if none has a type.
    pub(in crate::bind) fn common_type(&mut self, construct: &str, types: &[Type], span: Span) -> Result<Type> {
        match resolve::common_type(types) {
            Some(Type::Unknown) => Ok(Type::Text),
            Some(ty) => Ok(ty),
            None => {
                let first = types.iter().copied().find(|&ty| ty != Type::Unknown).unwrap_or(Type::Unknown);
                let other = types.iter().copied().find(|&ty| ty != Type::Unknown && ty.category() != first.category());
                let message =
                    format!("{construct} types {first} and {} cannot be matched", other.unwrap_or(Type::Unknown));
                let state = if other.is_some() { SqlState::TYPE_MISMATCH } else { SqlState::CANNOT_COERCE };
                Err(self.place(span, Error::new(state, message)))
            }
        }
    }

    pub(super) fn cast(&mut self, input: &ast::Expr, to: ColumnType) -> Result<Bound> {
        // An array's values become the domain's one by one. (A number is read as it is wanted.)
        let is_param = matches!(input, ast::Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
        if to.domain.is_some() && !is_param && matches!(input, ast::Expr::Array(_) | ast::Expr::Value(_)) {
            let bound = self.cast(input, to.base())?;
            let expr = self.coerce(bound, to, CastContext::Explicit, input.span())?;
            return Ok(Bound::new(expr, to));
        }
        // A number too long for us is read as the type that it is wanted in.
        if let (ast::Expr::Value(value), Type::Float4 | Type::Float8) = (input, to.ty)
            && let Value::Number(text, _) = &value.value
        {
            let value = self.at(value.span, text_io::parse(to.ty, Modifier::NONE, text, self.env))?;
            return Ok(Bound::new(Expr::Const(value), to));
        }
        if let (ast::Expr::Array(array), Type::Array(element)) = (input, to.ty) {
            let element = element.ty();
            return self.array_as(&array.elem, to, element);
        }
        if to.ty.is_composite()
            && let Some(row) = self.row_in(input, to)?
        {
            // Bug: the row was one of the type that a domain is over. Consequence: it had to obey nothing.
            // Fix: it becomes one of the domain.
            let row = match to.domain {
                Some(domain) => self.in_domain(row, domain)?,
                None => row,
            };
            return Ok(Bound::new(row, to));
        }
        let mut bound = self.expr(input)?;
        if to.ty == Type::Bytea && cast::cast_context(bound.ty.ty, to.ty).is_some() {
            bound = crate::bind::functions::with_blanks(bound);
        }
        let expr = self.coerce(bound, to, CastContext::Explicit, input.span())?;
        Ok(Bound::new(expr, to))
    }

    /// `ARRAY[…]::type[]`: each value in the type.
    fn array_as(&mut self, elements: &[ast::Expr], to: ColumnType, element: Type) -> Result<Bound> {
        let mut values = Vec::with_capacity(elements.len());
        for value in elements {
            values.push(match value {
                ast::Expr::Array(inner) => self.array_as(&inner.elem, to, element)?.expr,
                value => {
                    let bound = self.expr(value)?;
                    let target = if matches!(bound.ty.ty, Type::Array(_)) { to.ty } else { element };
                    self.coerce(bound, target.into(), CastContext::Explicit, value.span())?
                }
            });
        }
        Ok(Bound::new(Expr::Array { element, values }, to))
    }

    /// Casts to a type, if the context allows it. Literals are read, parameters get the type. What
    /// becomes a value of a domain has to obey it.
    pub fn coerce(&mut self, bound: Bound, to: ColumnType, context: CastContext, span: Span) -> Result<Expr> {
        let Some(domain) = to.domain else { return self.coerce_value(bound, to, context, span) };
        if bound.ty.domain == Some(domain) {
            return Ok(bound.expr);
        }
        let value = self.coerce_value(bound, to, context, span)?;
        self.in_domain(value, domain)
    }

    /// The same, but for what a domain demands.
    fn coerce_value(&mut self, bound: Bound, to: ColumnType, context: CastContext, span: Span) -> Result<Expr> {
        let from_name = bound.ty.sql_name();
        let to_name = to.sql_name();
        let wanted = to;
        let to = to.base();
        let from = bound.ty.ty;
        let span = bound.place_in(span);
        match (from, bound.expr) {
            (Type::Unknown, Expr::Param(index)) => {
                let is_new = self.params[index].is_none();
                let ty = *self.params[index].get_or_insert(to.ty);
                // A value of a domain comes as one: what is too long for its type is an error.
                let is_of_domain = is_new && wanted.domain.is_some();
                if is_of_domain {
                    if self.param_domains.len() <= index {
                        self.param_domains.resize(index + 1, None);
                    }
                    self.param_domains[index] = Some(wanted);
                }
                let context = if is_of_domain { CastContext::Assignment } else { context };
                if ty == to.ty && to.modifier == Modifier::NONE {
                    return self.with_rules_within(Expr::Param(index), ty);
                }
                self.coerce(Bound::new(Expr::Param(index), ty), to, context, span)
            }
            (Type::Unknown, Expr::Const(Datum::Null)) => Ok(Expr::Const(Datum::Null)),
            (Type::Unknown, Expr::Const(Datum::Text(text))) => {
                // What these mean depends on when and where the statement runs.
                let lower = text.to_ascii_lowercase();
                let relative = ["now", "today", "tomorrow", "yesterday"].iter().any(|word| lower.contains(word));
                let hangs_on_zone = matches!(to.ty, Type::TimestampTz | Type::TimeTz);
                if hangs_on_zone {
                    self.at(span, text_io::parse(to.ty, Modifier::NONE, &text, self.env))?;
                }
                if hangs_on_zone || (relative && to.ty.category() == Category::DateTime) {
                    let input = Box::new(Expr::Const(Datum::Text(text)));
                    return Ok(Expr::Cast { input, from: Type::Text, to, context: CastContext::Explicit });
                }
                self.is_personal |= depends_on_session(&text, to.ty);
                // What a number of an interval is, its type's fields say.
                let reads_modifier = context != CastContext::Assignment || to.ty == Type::Interval;
                let modifier = if reads_modifier { to.modifier } else { Modifier::NONE };
                let value = if context == CastContext::Explicit
                    && to.modifier != Modifier::NONE
                    && (to.ty.is_text() || to.ty.category() == Category::BitString)
                {
                    // An explicit cast cuts, input would refuse.
                    let text = Datum::Text(text);
                    self.at(span, cast::cast(&text, Type::Text, to.ty, to.modifier, context, self.env))?
                } else {
                    self.at(span, text_io::parse(to.ty, modifier, &text, self.env))?
                };
                if modifier == to.modifier {
                    return self.with_rules_within(Expr::Const(value), to.ty);
                }
                let input = Box::new(Expr::Const(value));
                Ok(Expr::Cast { input, from: to.ty, to, context })
            }
            (Type::Unknown, Expr::Array { .. }) => {
                let message = "cannot determine type of empty array";
                let error = Error::new(SqlState::INDETERMINATE_TYPE, message)
                    .hint("Explicitly cast to the desired type, for example ARRAY[]::integer[].");
                Err(self.place(span, error))
            }
            (Type::Record, Expr::Call { function, args }) if to.ty.is_composite() && std::ptr::eq(function, &ROW) => {
                self.row_as(args, bound.ty, to.ty, context, span)
            }
            (_, expr) if from == to.ty => {
                if to.modifier == Modifier::NONE || to.modifier == bound.ty.modifier {
                    return Ok(expr);
                }
                Ok(Expr::Cast { input: Box::new(expr), from, to, context })
            }
            (_, expr) => {
                let allowed =
                    if from == Type::Unknown { Some(CastContext::Implicit) } else { cast::cast_context(from, to.ty) };
                match allowed {
                    Some(weakest) if weakest <= context => {
                        let from = if from == Type::Unknown { Type::Text } else { from };
                        self.with_rules_within(Expr::Cast { input: Box::new(expr), from, to, context }, to.ty)
                    }
                    _ => {
                        if let Some(cast) = self.user_cast(from, wanted, context) {
                            return self.cast_by(&cast, Bound::new(expr, bound.ty), wanted, span);
                        }
                        let message = format!("cannot cast type {from_name} to {to_name}");
                        Err(self.place(span, Error::new(SqlState::CANNOT_COERCE, message)))
                    }
                }
            }
        }
    }

    /// Gives a query's columns other types.
    pub fn retype(&mut self, query: &mut logical::Query, types: &[Type]) -> Result<()> {
        if query.columns.iter().zip(types).all(|(column, &ty)| column.ty.ty == ty) {
            return Ok(());
        }
        if let logical::Body::Select(select) = &mut query.body
            && query.order.is_empty()
            && select.distinct == logical::Distinct::No
        {
            for ((output, column), &ty) in select.output.iter_mut().zip(&mut query.columns).zip(types) {
                let expr = std::mem::replace(output, Expr::Const(Datum::Null));
                let bound = Bound::new(expr, column.ty);
                *output = self.coerce(bound, ty.into(), CastContext::Implicit, Span::empty())?;
                if column.ty.ty != ty {
                    column.ty = ty.into();
                }
            }
            return Ok(());
        }
        if let logical::Body::Values(rows) = &mut query.body {
            for row in rows {
                for ((value, column), &ty) in row.iter_mut().zip(&query.columns).zip(types) {
                    let expr = std::mem::replace(value, Expr::Const(Datum::Null));
                    let bound = Bound::new(expr, column.ty);
                    *value = self.coerce(bound, ty.into(), CastContext::Implicit, Span::empty())?;
                }
            }
            for (column, &ty) in query.columns.iter_mut().zip(types) {
                if column.ty.ty != ty {
                    column.ty = ty.into();
                }
            }
            return Ok(());
        }
        self.wrap(query, types)
    }

    /// Puts a query into FROM of another, whose output casts its columns.
    fn wrap(&mut self, query: &mut logical::Query, types: &[Type]) -> Result<()> {
        let width = query.columns.len();
        let mut output = Vec::with_capacity(width);
        let mut columns = query.columns.clone();
        for (index, (column, &ty)) in columns.iter_mut().zip(types).enumerate() {
            let bound = Bound::new(Expr::Column(index), column.ty);
            output.push(self.coerce(bound, ty.into(), CastContext::Implicit, Span::empty())?);
            if column.ty.ty != ty {
                *column = Column { ty: ty.into(), origin: None, ..column.clone() };
            }
        }
        let empty = logical::Query::plain(logical::Body::Values(Vec::new()), Vec::new());
        let inner = std::mem::replace(query, empty);
        let relation = logical::Relation::new(0, width, logical::Source::Query(Box::new(inner)), "cast".into());
        query.columns = columns;
        query.body = logical::Body::Select(Box::new(logical::Select {
            relations: vec![relation],
            from: Some(logical::From::Relation(0)),
            filter: Vec::new(),
            group: None,
            grouped_rows: Vec::new(),
            extras: Vec::new(),
            output,
            distinct: logical::Distinct::No,
        }));
        Ok(())
    }
}

//! Binding expressions: names, literals, calls in SQL's own syntax; `operators`, `subqueries` and
//! what `coerce`s types.

mod coerce;
mod operators;
mod subqueries;

use std::borrow::Cow;

use sqlparser::ast::Spanned;
use sqlparser::ast::{self, UnaryOperator, Value};
use sqlparser::tokenizer::{Location, Span};

pub(super) use coerce::{common_modifier, known};

use super::{Binder, collation, fold, start_of};
use crate::expr::{CaseArm, CompareOp, Expr, SubqueryKind};
use colibri_types::{
    Category, ColumnType, Datum, Error, Numeric, Result, SqlState, Type, cast::CastContext, interval::IntervalFields,
    pulse,
};

/// What binding an expression takes, those in it apart, in units of work.
const UNITS_PER_EXPRESSION: usize = 50;

/// An expression with its type.
#[derive(Debug, Clone)]
pub struct Bound {
    pub expr: Expr,
    pub ty: ColumnType,
    /// Where a literal stands whose type is still open: what it cannot be is told there. Line 0: it
    /// is none, or that is not known.
    literal: Location,
}

impl Bound {
    pub fn new(expr: Expr, ty: impl Into<ColumnType>) -> Self {
        Self { expr, ty: ty.into(), literal: Location::empty() }
    }

    /// A string whose type is still open.
    pub(super) fn literal(text: &str, span: Span) -> Self {
        Self { literal: span.start, ..Self::new(Expr::Const(Datum::text(text)), Type::Unknown) }
    }

    /// Where an error about its value is told, which has a part in what stands at a span.
    fn place_in(&self, span: Span) -> Span {
        if self.literal.line == 0 { span } else { Span::new(self.literal, self.literal) }
    }

    fn bool(expr: Expr) -> Self {
        Self::new(expr, Type::Bool)
    }

    pub fn null() -> Self {
        Self::new(Expr::Const(Datum::Null), Type::Unknown)
    }
}

impl Binder<'_> {
    /// Binds an expression.
    pub fn expr(&mut self, expr: &ast::Expr) -> Result<Bound> {
        self.levels_down(0, |binder| match expr {
            // These have none: most expressions are leaves.
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) | ast::Expr::Value(_) => {
                binder.expr_inner(expr)
            }
            _ => binder.with_collation(start_of(expr), |binder| binder.expr_inner(expr)),
        })
    }

    /// Binds a condition: of type boolean.
    pub fn condition(&mut self, expr: &ast::Expr, clause: &str) -> Result<Expr> {
        let bound = self.expr(expr)?;
        self.condition_of(bound, clause, start_of(expr))
    }

    pub(super) fn condition_of(&mut self, bound: Bound, clause: &str, span: Span) -> Result<Expr> {
        if self.gives_rows(&bound.expr) {
            let error = Error::new(SqlState::TYPE_MISMATCH, format!("argument of {clause} must not return a set"));
            return Err(self.place(span, error));
        }
        match bound.ty.ty {
            Type::Bool => Ok(bound.expr),
            Type::Unknown => self.coerce(bound, Type::Bool.into(), CastContext::Implicit, span),
            other => {
                let message = format!("argument of {clause} must be type boolean, not type {other}");
                Err(self.place(span, Error::new(SqlState::TYPE_MISMATCH, message)))
            }
        }
    }

    /// Whether an expression has a function in it that gives rows.
    pub(super) fn gives_rows(&self, expr: &Expr) -> bool {
        let extras = self.frames.last().and_then(|frame| frame.scopes.last()).and_then(|scope| scope.extras.as_ref());
        let Some(extras) = extras.filter(|extras| !extras.is_empty()) else { return false };
        super::rewrite::extras_in(expr)
            .iter()
            .any(|&at| matches!(extras.get(at), Some(super::logical::Extra::Rows(..))))
    }

    fn expr_inner(&mut self, expr: &ast::Expr) -> Result<Bound> {
        pulse::work(UNITS_PER_EXPRESSION)?;
        use ast::Expr as E;
        let span = start_of(expr);
        match expr {
            E::Identifier(ident) => {
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") {
                    let error = Error::new(SqlState::SYNTAX_ERROR, "DEFAULT is not allowed in this context");
                    return Err(self.place(span, error));
                }
                super::check_name(self.text, ident)?;
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("current_schema") {
                    return self.current_schema();
                }
                self.column(None, ident)
            }
            E::CompoundIdentifier(parts) => match &parts[..] {
                [mark, _] if mark.value == colibri_syntax::CURRENT_OF_MARK => {
                    Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"OF\""))
                }
                [table, column] => match self.column_at(Some((None, fold(table))), column, table.span) {
                    Err(error) if error.state() == SqlState::NO_SUCH_COLUMN => {
                        let row = E::Identifier(table.clone());
                        self.function_of_row(&row, column, table.span)?.ok_or(error)
                    }
                    found => found,
                },
                [schema, table, column] => self.column_at(Some((Some(fold(schema)), fold(table))), column, schema.span),
                [database, schema, table, column] => {
                    let whole = || parts.iter().map(fold).collect::<Vec<_>>().join(".");
                    if fold(database) != self.env.database {
                        let message = format!("cross-database references are not implemented: {}", whole());
                        let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, message);
                        return Err(self.place(span, error));
                    }
                    self.column_at(Some((Some(fold(schema)), fold(table))), column, database.span)
                }
                _ => Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "improper qualified name"))),
            },
            E::Nested(inner) => self.expr(inner),
            E::Value(value) => self.value(value),
            E::UnaryOp { op, expr: operand } => self.unary(*op, operand, span),
            E::BinaryOp { .. } => self.chain(expr),
            E::IsNull(input) => self.is_null(input, false),
            E::IsNotNull(input) => self.is_null(input, true),
            E::IsTrue(input) => self.is_bool(input, Some(true), false, "IS TRUE"),
            E::IsNotTrue(input) => self.is_bool(input, Some(true), true, "IS NOT TRUE"),
            E::IsFalse(input) => self.is_bool(input, Some(false), false, "IS FALSE"),
            E::IsNotFalse(input) => self.is_bool(input, Some(false), true, "IS NOT FALSE"),
            E::IsUnknown(input) => self.is_bool(input, None, false, "IS UNKNOWN"),
            E::IsNotUnknown(input) => self.is_bool(input, None, true, "IS NOT UNKNOWN"),
            E::IsNormalized { expr, form, negated } => {
                let form = form.map_or_else(|| "NFC".to_owned(), |form| form.to_string());
                let input = self.expr(expr)?;
                let test = self.call("is_normalized", vec![input, text_literal(&form)], span)?;
                Ok(if *negated { Bound::bool(Expr::Not(Box::new(test.expr))) } else { test })
            }
            E::IsDistinctFrom(left, right) => self.distinct(left, right, false),
            E::IsNotDistinctFrom(left, right) => self.distinct(left, right, true),
            E::InList { expr: input, list, negated } => self.in_list(input, list, *negated),
            E::InSubquery { expr: input, subquery, negated } => {
                let op = if *negated { CompareOp::Ne } else { CompareOp::Eq };
                self.quantified(input, op, *negated, subquery, span)
            }
            E::Between { expr: input, negated, low, high } => self.between(input, low, high, *negated),
            E::Like { negated, expr: input, pattern, escape_char: None, any: true } => {
                self.any_all_call(input, if *negated { "!~~" } else { "~~" }, pattern, false, span)
            }
            E::ILike { negated, expr: input, pattern, escape_char: None, any: true } => {
                self.any_all_call(input, if *negated { "!~~*" } else { "~~*" }, pattern, false, span)
            }
            E::Like { negated, expr: input, pattern, escape_char, any: false } => {
                self.like(if *negated { "!~~" } else { "~~" }, input, pattern, escape_char.as_deref())
            }
            E::ILike { negated, expr: input, pattern, escape_char, any: false } => {
                self.like(if *negated { "!~~*" } else { "~~*" }, input, pattern, escape_char.as_deref())
            }
            E::SimilarTo { negated, expr: input, pattern, escape_char } => {
                let symbol = if *negated { "!~" } else { "~" };
                self.similar(symbol, input, pattern, escape_char.as_deref(), span)
            }
            E::AnyOp { left, compare_op, right, .. } => self.any_all(left, compare_op, right, false, span),
            E::AllOp { left, compare_op, right } => self.any_all(left, compare_op, right, true, span),
            E::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr: input,
                data_type,
                format: None,
            } => {
                let to = self.at(span, self.type_named(data_type))?;
                self.cast(input, to)
            }
            E::TypedString(typed) => {
                let mut to = self.at(span, self.type_named(&typed.data_type))?;
                // `character 'abc'` is as long as it is, whereas a cast to `character` keeps one
                // letter.
                if matches!(typed.data_type, ast::DataType::Char(None) | ast::DataType::Character(None)) {
                    to = Type::Char.into();
                }
                let literal = self.value(&typed.value)?;
                let expr = self.coerce(literal, to, CastContext::Explicit, typed.value.span)?;
                Ok(Bound::new(expr, to))
            }
            E::Interval(interval) => self.interval(interval),
            E::AtTimeZone { timestamp, time_zone } => {
                let (zone, timestamp) = (self.expr(time_zone)?, self.expr(timestamp)?);
                self.call("timezone", vec![zone, timestamp], span)
            }
            E::Extract { field, expr: input, .. } => {
                let field = match field {
                    ast::DateTimeField::Custom(field) => field.value.to_ascii_lowercase(),
                    field => field.to_string().to_ascii_lowercase(),
                };
                let field = text_literal(&field);
                let input = self.expr(input)?;
                self.call("extract", vec![field, input], span)
            }
            E::Ceil { expr: input, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                let input = self.expr(input)?;
                self.call("ceil", vec![input], span)
            }
            E::Floor { expr: input, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                let input = self.expr(input)?;
                self.call("floor", vec![input], span)
            }
            E::Position { expr: part, r#in: whole } => {
                let args = vec![self.expr(whole)?, self.expr(part)?];
                let is_of_bits = args.iter().any(|arg| arg.ty.ty.category() == Category::BitString);
                self.call(if is_of_bits { "position" } else { "strpos" }, args, span)
            }
            E::Substring { expr: input, substring_from, substring_for, shorthand, .. } => {
                let mut args = vec![self.expr(input)?];
                match (substring_from, substring_for) {
                    (Some(from), _) => args.push(self.expr(from)?),
                    (None, Some(_)) => args.push(Bound::new(Expr::Const(Datum::Int(1)), Type::Int4)),
                    (None, None) => {}
                }
                if let Some(length) = substring_for {
                    args.push(self.expr(length)?);
                }
                // Only the one of that name takes a pattern.
                self.call(if *shorthand { "substr" } else { "substring" }, args, span)
            }
            E::Trim { trim_where, trim_what, expr: input, trim_characters } => {
                let name = match trim_where {
                    None | Some(ast::TrimWhereField::Both) => "btrim",
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                };
                let mut args = vec![self.expr(input)?];
                let what = trim_what.as_deref().into_iter().chain(trim_characters.iter().flatten());
                for what in what {
                    args.push(self.expr(what)?);
                }
                self.call(name, args, span)
            }
            E::Overlay { expr: input, overlay_what, overlay_from, overlay_for } => {
                let mut args = vec![self.expr(input)?, self.expr(overlay_what)?, self.expr(overlay_from)?];
                if let Some(length) = overlay_for {
                    args.push(self.expr(length)?);
                }
                self.call("overlay", args, span)
            }
            E::Collate { expr: input, collation } => self.collate(input, collation, span),
            E::Function(function) => match as_tuple(expr) {
                Some(parts) => self.row_value(&parts, span),
                None => self.function(function, span),
            },
            E::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            E::Exists { subquery, negated } => {
                let exists = self.subquery(subquery, SubqueryKind::Exists)?.0;
                let exists = if *negated { Expr::Not(Box::new(exists)) } else { exists };
                Ok(Bound::bool(exists))
            }
            E::Subquery(query) => {
                let (expr, columns) = self.subquery(query, SubqueryKind::Scalar)?;
                match &columns[..] {
                    [column] => {
                        self.meet_column(column.collation.clone(), span)?;
                        Ok(Bound::new(expr, column.ty))
                    }
                    _ => Err(self.place(span, too_many_columns())),
                }
            }
            E::Array(array) => self.array(&array.elem, span),
            E::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain, span),
            E::Tuple(parts) => self.row_value(parts, span),
            E::QualifiedWildcard(name, _) => self.row_of_star(name, span),
            other => Err(self.place(span, Error::unsupported(format_args!("the expression {other}")))),
        }
    }

    fn value(&mut self, value: &ast::ValueWithSpan) -> Result<Bound> {
        let literal = |text: &str| Ok(Bound::literal(text, value.span));
        match &value.value {
            Value::Number(text, _) => self.at(value.span, number(text)),
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => literal(text),
            Value::DollarQuotedString(text) => literal(&text.value),
            Value::SingleQuotedByteStringLiteral(digits) => self.at(value.span, bit_string('b', digits)),
            Value::HexStringLiteral(digits) => self.at(value.span, bit_string('x', digits)),
            Value::Boolean(value) => Ok(Bound::bool(Expr::Const(Datum::Bool(*value)))),
            Value::Null => Ok(Bound::null()),
            Value::Placeholder(name) => {
                if let Some(bound) = self.variable(&[name.as_str().into()], value.span)? {
                    return Ok(bound);
                }
                let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
                let Some(index) = number.filter(|number| (1..=65_535).contains(number)) else {
                    let error = Error::new(SqlState::NO_SUCH_PARAMETER, format!("there is no parameter {name}"));
                    return Err(self.place(value.span, error));
                };
                if self.params.len() < index {
                    self.params.resize(index, None);
                }
                if self.params_named.len() < index {
                    self.params_named.resize(index, false);
                }
                self.params_named[index - 1] = true;
                let param = Bound::new(Expr::Param(index - 1), self.params[index - 1].unwrap_or(Type::Unknown));
                match self.param_domains.get(index - 1).copied().flatten() {
                    Some(ty) => Ok(Bound::new(self.coerce(param, ty, CastContext::Assignment, value.span)?, ty)),
                    None => Ok(param),
                }
            }
            other => Err(self.place(value.span, Error::unsupported(format_args!("the literal {other}")))),
        }
    }

    fn interval(&mut self, interval: &ast::Interval) -> Result<Bound> {
        use ast::DateTimeField as F;
        let span = interval.value.span();
        let wrong = || Error::new(SqlState::SYNTAX_ERROR, "wrong fields of an interval");
        let literal = self.expr(&interval.value)?;
        let fields = match (&interval.leading_field, &interval.last_field) {
            (None, None) => IntervalFields::ALL,
            (Some(F::Year), None) => IntervalFields::YEAR,
            (Some(F::Month), None) => IntervalFields::MONTH,
            (Some(F::Day), None) => IntervalFields::DAY,
            (Some(F::Hour), None) => IntervalFields::HOUR,
            (Some(F::Minute), None) => IntervalFields::MINUTE,
            (Some(F::Second), None) => IntervalFields::SECOND,
            (Some(F::Year), Some(F::Month)) => IntervalFields::YEAR_TO_MONTH,
            (Some(F::Day), Some(F::Hour)) => IntervalFields::DAY_TO_HOUR,
            (Some(F::Day), Some(F::Minute)) => IntervalFields::DAY_TO_MINUTE,
            (Some(F::Day), Some(F::Second)) => IntervalFields::DAY_TO_SECOND,
            (Some(F::Hour), Some(F::Minute)) => IntervalFields::HOUR_TO_MINUTE,
            (Some(F::Hour), Some(F::Second)) => IntervalFields::HOUR_TO_SECOND,
            (Some(F::Minute), Some(F::Second)) => IntervalFields::MINUTE_TO_SECOND,
            _ => return Err(self.place(span, wrong())),
        };
        // The parser takes SECOND(2) for a leading precision, and digits behind any other field
        // too.
        let digits = match (interval.leading_precision, interval.fractional_seconds_precision) {
            (digits, None) if fields == IntervalFields::SECOND => digits,
            (None, digits) => digits,
            _ => return Err(self.place(span, wrong())),
        };
        let modifier = self.at(span, super::types::interval_modifier(fields, digits))?;
        let ty = ColumnType::new(Type::Interval, modifier);
        let expr = self.coerce(literal, ty, CastContext::Explicit, span)?;
        Ok(Bound::new(expr, ty))
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Bound> {
        let rows_calls = self.rows_calls();
        let mut operand_collation = collation::Collation::default();
        let operand = match operand {
            Some(operand) => {
                let span = operand.span();
                self.take_collation();
                let mut bound = self.apart(|binder| binder.expr(operand))?;
                // The place that stands for the operand names none itself.
                operand_collation = match self.take_collation() {
                    collation::Collation::Explicit(name, _) => collation::Collation::Implicit(name),
                    other => other,
                };
                // What it is compared with does not tell its type.
                if bound.ty.ty == Type::Unknown {
                    bound = Bound::new(self.coerce(bound, Type::Text.into(), CastContext::Implicit, span)?, Type::Text);
                }
                Some((bound, span))
            }
            None => None,
        };
        // One that gives another value each time is evaluated once: it is compared through a place
        // that stands for it, of which the type alone matters here.
        const OPERAND: Expr = Expr::Const(Datum::Null);
        let once = operand.as_ref().is_some_and(|(operand, _)| super::rewrite::is_volatile(&operand.expr));
        let mut compared_as = Vec::new();
        let mut arms = Vec::with_capacity(conditions.len());
        for arm in conditions {
            let condition = match &operand {
                Some((operand, span)) if once => {
                    let value = self.apart(|binder| binder.expr(&arm.condition))?;
                    let operand = Bound::new(OPERAND, operand.ty);
                    self.expect_deterministic(operand.ty.ty, &operand_collation, "CASE of a value that may change")?;
                    let (left, right) = self.comparable("=", operand, *span, value, arm.condition.span())?;
                    compared_as.push(match left {
                        Expr::Cast { from, to, .. } => Some((from, to)),
                        _ => None,
                    });
                    right
                }
                None => self.condition(&arm.condition, "CASE/WHEN")?,
                Some((operand, span)) => {
                    self.take_collation();
                    let value = self.apart(|binder| binder.expr(&arm.condition))?;
                    let operand = self.copy_of(operand)?;
                    let is_text = collation::is_collatable(operand.ty.ty) && collation::is_collatable(value.ty.ty);
                    let of_value = self.take_collation();
                    let both = match is_text {
                        true => self.both_collations(operand_collation.clone(), of_value, arm.condition.span())?,
                        false => Default::default(),
                    };
                    let is_open = both.is_open();
                    let (mut left, mut right) = self.apart(|binder| {
                        binder.collation = Some(collation::Collation::Explicit("C".into(), Span::empty()));
                        binder.comparable("=", operand, *span, value, arm.condition.span())
                    })?;
                    for side in [&mut left, &mut right].into_iter().filter(|_| is_text) {
                        if let Some(key) = self.equality_key(side, Type::Text, &both) {
                            *side = key;
                        }
                    }
                    let left = if is_open { collation::open(left, &right) } else { left };
                    Expr::Compare { op: CompareOp::Eq, left: Box::new(left), right: Box::new(right) }
                }
            };
            arms.push((condition, self.expr(&arm.result)?, start_of(&arm.result)));
        }
        let otherwise = match otherwise {
            Some(otherwise) => (self.expr(otherwise)?, start_of(otherwise)),
            None => (Bound::null(), Span::empty()),
        };
        self.refuse_rows(rows_calls, "set-returning functions are not allowed in CASE", otherwise.1)?;
        // PostgreSQL looks at ELSE first.
        let types: Vec<Type> =
            std::iter::once(otherwise.0.ty.ty).chain(arms.iter().map(|(_, result, _)| result.ty.ty)).collect();
        let ty = self.common_type("CASE", &types, otherwise.1)?;
        let all = std::iter::once(otherwise.0.ty).chain(arms.iter().map(|(_, result, _)| result.ty));
        let result_type = common_modifier(all, ty);
        let mut typed = Vec::with_capacity(arms.len());
        for (condition, result, span) in arms {
            typed.push((condition, self.coerce(result, ty.into(), CastContext::Implicit, span)?));
        }
        let otherwise = self.coerce(otherwise.0, ty.into(), CastContext::Implicit, otherwise.1)?;
        let otherwise = Box::new(otherwise);
        if let (Some((operand, _)), true) = (operand, once) {
            let arms = typed.into_iter().zip(compared_as);
            // NULL equals nothing, and where there is nothing else the operand is not evaluated, as
            // in PostgreSQL.
            let arms = arms.filter(|((value, _), _)| !matches!(value, Expr::Const(Datum::Null)));
            let arms: Vec<CaseArm> =
                arms.map(|((value, result), operand_as)| CaseArm { operand_as, value, result }).collect();
            if arms.is_empty() {
                return Ok(Bound::new(*otherwise, result_type));
            }
            return Ok(Bound::new(Expr::CaseOf { operand: Box::new(operand.expr), arms, otherwise }, result_type));
        }
        Ok(Bound::new(Expr::Case { arms: typed, otherwise }, result_type))
    }
}

pub(super) fn too_many_columns() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "subquery must return only one column")
}

pub(super) fn text_literal(text: &str) -> Bound {
    Bound::new(Expr::Const(Datum::text(text)), Type::Text)
}

/// The parts of a row, written `(a, b)` or `ROW(a, b)`.
pub(super) fn as_tuple(expr: &ast::Expr) -> Option<Cow<'_, [ast::Expr]>> {
    match expr {
        ast::Expr::Tuple(items) => Some(Cow::Borrowed(items)),
        ast::Expr::Nested(inner) => as_tuple(inner),
        ast::Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let ast::FunctionArguments::List(list) = &function.args else { return None };
            let items = list.args.iter().map(|arg| match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            });
            items.collect::<Option<Vec<_>>>().map(Cow::Owned)
        }
        _ => None,
    }
}

/// A number as it is written, with its signs and the parentheses around it.
fn number_text(expr: &ast::Expr) -> Option<Cow<'_, str>> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Some(Cow::Borrowed(text)),
            _ => None,
        },
        ast::Expr::Nested(inner) => number_text(inner),
        ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number_text(expr).map(|text| negated(text).into()),
        _ => None,
    }
}

fn negated(number: Cow<'_, str>) -> String {
    match number.strip_prefix('-') {
        Some(number) => number.to_owned(),
        None => format!("-{number}"),
    }
}

/// A string of bits: its digits, and what they are.
fn bit_string(kind: char, digits: &str) -> Result<Bound> {
    let value = colibri_types::bits::parse(Type::Bit, colibri_types::Modifier::NONE, &format!("{kind}{digits}"))?;
    Ok(Bound::new(Expr::Const(value), Type::Bit))
}

/// A number: the narrowest of integer, bigint and numeric that holds it.
fn number(text: &str) -> Result<Bound> {
    if let Ok(value) = text.parse::<i64>() {
        let ty = if i32::try_from(value).is_ok() { Type::Int4 } else { Type::Int8 };
        return Ok(Bound::new(Expr::Const(Datum::Int(value)), ty));
    }
    let value = Numeric::parse(text)?;
    Ok(Bound::new(Expr::Const(Datum::Numeric(value)), Type::Numeric))
}

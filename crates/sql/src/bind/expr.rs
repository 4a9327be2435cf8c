//! Binding expressions.

use std::borrow::Cow;

use sqlparser::ast::Spanned;
use sqlparser::ast::{self, BinaryOperator, UnaryOperator, Value};
use sqlparser::tokenizer::Span;

use super::logical::Column;
use super::types::bind_type;
use super::{Binder, Frame, fold, logical, name_parts};
use crate::cast::{self, CastContext};
use crate::error::{Error, Result, SqlState};
use crate::expr::{CompareOp, Expr, Subquery, SubqueryKind, Test};
use crate::numeric::Numeric;
use crate::plan::Fragment;
use crate::resolve;
use crate::text_io;
use crate::types::{Category, ColumnType, Modifier, Type};
use crate::value::Datum;

/// Operators in a row, as in `a + b + c`, those of the rows around it included: evaluating them takes stack for each. The
/// conditions of AND and OR do not count, they lie side by side.
const LINKS_MAX: usize = 3_000;

/// An expression with its type.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(crate) expr: Expr,
    pub(crate) ty: ColumnType,
}

impl Bound {
    pub(crate) fn new(expr: Expr, ty: impl Into<ColumnType>) -> Self {
        Self { expr, ty: ty.into() }
    }

    fn bool(expr: Expr) -> Self {
        Self::new(expr, Type::Bool)
    }

    pub(crate) fn null() -> Self {
        Self::new(Expr::Const(Datum::Null), Type::Unknown)
    }
}

/// What a binary operator is.
enum Operator {
    And,
    Or,
    Compare(CompareOp),
    /// By its symbol in the registry of functions.
    Call(&'static str),
}

fn operator(op: &BinaryOperator) -> Result<Operator> {
    use BinaryOperator as B;
    Ok(match op {
        B::And => Operator::And,
        B::Or => Operator::Or,
        B::Eq => Operator::Compare(CompareOp::Eq),
        B::NotEq => Operator::Compare(CompareOp::Ne),
        B::Lt => Operator::Compare(CompareOp::Lt),
        B::LtEq => Operator::Compare(CompareOp::Le),
        B::Gt => Operator::Compare(CompareOp::Gt),
        B::GtEq => Operator::Compare(CompareOp::Ge),
        B::Plus => Operator::Call("+"),
        B::Minus => Operator::Call("-"),
        B::Multiply => Operator::Call("*"),
        B::Divide => Operator::Call("/"),
        B::Modulo => Operator::Call("%"),
        B::PGExp | B::BitwiseXor => Operator::Call("^"),
        B::StringConcat => Operator::Call("||"),
        B::BitwiseAnd => Operator::Call("&"),
        B::BitwiseOr => Operator::Call("|"),
        B::PGBitwiseXor => Operator::Call("#"),
        B::PGBitwiseShiftLeft => Operator::Call("<<"),
        B::PGBitwiseShiftRight => Operator::Call(">>"),
        B::PGRegexMatch => Operator::Call("~"),
        B::PGRegexIMatch => Operator::Call("~*"),
        B::PGRegexNotMatch => Operator::Call("!~"),
        B::PGRegexNotIMatch => Operator::Call("!~*"),
        B::PGLikeMatch => Operator::Call("~~"),
        B::PGILikeMatch => Operator::Call("~~*"),
        B::PGNotLikeMatch => Operator::Call("!~~"),
        B::PGNotILikeMatch => Operator::Call("!~~*"),
        B::PGStartsWith => Operator::Call("^@"),
        B::AtArrow => Operator::Call("@>"),
        B::ArrowAt => Operator::Call("<@"),
        B::PGOverlap => Operator::Call("&&"),
        B::Overlaps => return Err(Error::unsupported("OVERLAPS")),
        B::PGCustomBinaryOperator(parts) => match parts.last().map(String::as_str) {
            Some("=") => Operator::Compare(CompareOp::Eq),
            Some("<>") => Operator::Compare(CompareOp::Ne),
            Some("<") => Operator::Compare(CompareOp::Lt),
            Some("<=") => Operator::Compare(CompareOp::Le),
            Some(">") => Operator::Compare(CompareOp::Gt),
            Some(">=") => Operator::Compare(CompareOp::Ge),
            Some("~") => Operator::Call("~"),
            Some("!~") => Operator::Call("!~"),
            Some("~~") => Operator::Call("~~"),
            Some("+") => Operator::Call("+"),
            Some("-") => Operator::Call("-"),
            Some("||") => Operator::Call("||"),
            Some("!~~") => Operator::Call("!~~"),
            Some("~*") => Operator::Call("~*"),
            Some("!~*") => Operator::Call("!~*"),
            Some("@>") => Operator::Call("@>"),
            Some("<@") => Operator::Call("<@"),
            Some("&&") => Operator::Call("&&"),
            _ => return Err(Error::unsupported(format_args!("operator {op}"))),
        },
        other => {
            return Err(Error::new(SqlState::NO_SUCH_FUNCTION, format!("operator does not exist: {other}")));
        }
    })
}

impl Binder<'_> {
    /// Binds an expression.
    pub(crate) fn expr(&mut self, expr: &ast::Expr) -> Result<Bound> {
        self.deeper(|binder| binder.expr_inner(expr))
    }

    /// Binds a condition: of type boolean.
    pub(crate) fn condition(&mut self, expr: &ast::Expr, clause: &str) -> Result<Expr> {
        let bound = self.expr(expr)?;
        self.condition_of(bound, clause, expr.span())
    }

    pub(super) fn condition_of(&mut self, bound: Bound, clause: &str, span: Span) -> Result<Expr> {
        match bound.ty.ty {
            Type::Bool => Ok(bound.expr),
            Type::Unknown => self.coerce(bound, Type::Bool.into(), CastContext::Implicit, span),
            other => {
                let message = format!("argument of {clause} must be type boolean, not type {other}");
                Err(self.place(span, Error::new(SqlState::TYPE_MISMATCH, message)))
            }
        }
    }

    fn expr_inner(&mut self, expr: &ast::Expr) -> Result<Bound> {
        use ast::Expr as E;
        let span = expr.span();
        match expr {
            E::Identifier(ident) => {
                super::check_name(self.text, ident)?;
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("current_schema") {
                    return self.current_schema();
                }
                self.column(None, ident)
            }
            E::CompoundIdentifier(parts) => match &parts[..] {
                [table, column] => self.column(Some((None, fold(table))), column),
                [schema, table, column] | [_, schema, table, column] => {
                    self.column(Some((Some(fold(schema)), fold(table))), column)
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
            E::AnyOp { left, compare_op, right, .. } => self.any_all(left, compare_op, right, false, span),
            E::AllOp { left, compare_op, right } => self.any_all(left, compare_op, right, true, span),
            E::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr: input,
                data_type,
                format: None,
            } => {
                let to = self.at(span, bind_type(data_type))?;
                self.cast(input, to)
            }
            E::TypedString(typed) => {
                let to = self.at(span, bind_type(&typed.data_type))?;
                let literal = self.value(&typed.value)?;
                let expr = self.coerce(literal, to, CastContext::Explicit, typed.value.span)?;
                Ok(Bound { expr, ty: to })
            }
            E::Interval(interval) => self.interval(interval),
            E::AtTimeZone { timestamp, time_zone } => {
                let (zone, timestamp) = (self.expr(time_zone)?, self.expr(timestamp)?);
                self.call("timezone", vec![zone, timestamp], span)
            }
            E::Extract { field, expr: input, .. } => {
                let field = text_literal(field.to_string().to_ascii_lowercase().trim_matches('\''));
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
                self.call("strpos", args, span)
            }
            E::Substring { expr: input, substring_from, substring_for, .. } => {
                let mut args = vec![self.expr(input)?];
                match (substring_from, substring_for) {
                    (Some(from), _) => args.push(self.expr(from)?),
                    (None, Some(_)) => args.push(Bound::new(Expr::Const(Datum::Int(1)), Type::Int4)),
                    (None, None) => {}
                }
                if let Some(length) = substring_for {
                    args.push(self.expr(length)?);
                }
                self.call("substring", args, span)
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
            E::Collate { expr: input, collation } => {
                let name = name_parts(collation)?.last().map(|ident| fold(ident)).unwrap_or_default();
                if !["C", "POSIX", "default", "ucs_basic"].contains(&name.as_str()) {
                    let message = format!("collation \"{name}\" for encoding \"UTF8\" does not exist");
                    return Err(self.place(span, Error::new(SqlState::NO_SUCH_OBJECT, message)));
                }
                let input = self.expr(input)?;
                if !matches!(input.ty.ty.category(), Category::String | Category::Unknown) {
                    let message = format!("collations are not supported by type {}", input.ty.ty);
                    return Err(self.place(span, Error::new(SqlState::TYPE_MISMATCH, message)));
                }
                Ok(input)
            }
            E::Function(function) => self.function(function, span),
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
                    [column] => Ok(Bound { expr, ty: column.ty }),
                    _ => Err(self.place(span, too_many_columns())),
                }
            }
            E::Array(array) => self.array(&array.elem, span),
            E::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain, span),
            E::Tuple(_) => Err(self.place(span, Error::unsupported("a row as a value"))),
            other => Err(self.place(span, Error::unsupported(format_args!("the expression {other}")))),
        }
    }

    fn value(&mut self, value: &ast::ValueWithSpan) -> Result<Bound> {
        let literal = |text: &str| Ok(Bound::new(Expr::Const(Datum::text(text)), Type::Unknown));
        match &value.value {
            Value::Number(text, _) => self.at(value.span, number(text)),
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => literal(text),
            Value::DollarQuotedString(text) => literal(&text.value),
            Value::Boolean(value) => Ok(Bound::bool(Expr::Const(Datum::Bool(*value)))),
            Value::Null => Ok(Bound::null()),
            Value::Placeholder(name) => {
                let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
                let Some(index) = number.filter(|number| (1..=65_535).contains(number)) else {
                    let error = Error::new(SqlState::NO_SUCH_PARAMETER, format!("there is no parameter {name}"));
                    return Err(self.place(value.span, error));
                };
                if self.params.len() < index {
                    self.params.resize(index, None);
                }
                Ok(Bound::new(Expr::Param(index - 1), self.params[index - 1].unwrap_or(Type::Unknown)))
            }
            other => Err(self.place(value.span, Error::unsupported(format_args!("the literal {other}")))),
        }
    }

    fn interval(&mut self, interval: &ast::Interval) -> Result<Bound> {
        if interval.last_field.is_some()
            || interval.leading_precision.is_some()
            || interval.fractional_seconds_precision.is_some()
        {
            return Err(self.place(interval.value.span(), Error::unsupported("an interval of some fields only")));
        }
        let mut literal = self.expr(&interval.value)?;
        let span = interval.value.span();
        if let Some(field) = &interval.leading_field {
            let Expr::Const(Datum::Text(text)) = &literal.expr else {
                return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "an interval's value is a string")));
            };
            let plain_number = text.trim().parse::<f64>().is_ok();
            if plain_number && interval.last_field.is_none() {
                literal = text_literal(&format!("{} {}", text.trim(), field.to_string().to_ascii_lowercase()));
            }
        }
        let expr = self.coerce(literal, Type::Interval.into(), CastContext::Explicit, span)?;
        Ok(Bound::new(expr, Type::Interval))
    }

    fn unary(&mut self, op: UnaryOperator, operand: &ast::Expr, span: Span) -> Result<Bound> {
        if let (UnaryOperator::Minus, Some(text)) = (op, number_text(operand)) {
            return self.at(span, number(&negated(text)));
        }
        if let UnaryOperator::Not = op {
            let input = self.condition(operand, "NOT")?;
            return Ok(Bound::bool(Expr::Not(Box::new(input))));
        }
        // A sign binds closer than `^`: `-2 ^ 2` is 4.
        if let (
            UnaryOperator::Minus | UnaryOperator::Plus,
            ast::Expr::BinaryOp { left, op: BinaryOperator::PGExp, right },
        ) = (op, operand)
        {
            let signed = ast::Expr::UnaryOp { op, expr: left.clone() };
            let power = ast::Expr::BinaryOp { left: Box::new(signed), op: BinaryOperator::PGExp, right: right.clone() };
            return self.expr(&power);
        }
        let symbol = match op {
            UnaryOperator::PGPostfixFactorial => {
                return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"!\"")));
            }
            UnaryOperator::Plus => "+",
            UnaryOperator::Minus => "-",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGAbs => "@",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            other => return Err(self.place(span, Error::unsupported(format_args!("operator {other}")))),
        };
        let input = self.expr(operand)?;
        let function = self.at(span, resolve::resolve_operator(symbol, None, input.ty.ty))?;
        let arg = self.argument(input, function.arg_type(0), operand.span())?;
        Ok(Bound::new(Expr::Call { function, args: vec![arg] }, function.result))
    }

    /// Binds operators in a row without recursion along the row: `a AND b AND …` may be thousands long.
    fn chain(&mut self, expr: &ast::Expr) -> Result<Bound> {
        let mut links = Vec::new();
        let mut first = expr;
        while let ast::Expr::BinaryOp { left, op, right } = first {
            links.push((op, &**right));
            first = left;
        }
        let calls = links.iter().filter(|(op, _)| !matches!(op, BinaryOperator::And | BinaryOperator::Or)).count();
        if self.links + calls > LINKS_MAX {
            return Err(crate::statement::too_deep());
        }
        self.links += calls;
        let bound = self.links_of(first, links);
        self.links -= calls;
        bound
    }

    /// Binds operators in a row: the first operand, and the others with the operators before them, the last one first.
    fn links_of(&mut self, first: &ast::Expr, links: Vec<(&BinaryOperator, &ast::Expr)>) -> Result<Bound> {
        let mut span = first.span();
        let mut left_tree = Some(first);
        let mut left = Bound::null();
        let mut after_comparison = false;
        for (op, right) in links.into_iter().rev() {
            let op_span = right.span();
            let op = self.at(op_span, operator(op))?;
            let compares = matches!(op, Operator::Compare(_));
            if compares && std::mem::replace(&mut after_comparison, compares) {
                let message = "syntax error: comparisons in a row need parentheses";
                return Err(self.place(op_span, Error::new(SqlState::SYNTAX_ERROR, message)));
            }
            after_comparison = compares;
            // A row on the left is no value: it is bound together with the right side.
            if let (Some(tree), Operator::Compare(compare)) = (left_tree, &op)
                && let Some(tuple) = as_tuple(tree)
            {
                left = self.compare_rows(*compare, &tuple, right, span)?;
                left_tree = None;
                continue;
            }
            if let Some(tree) = left_tree.take() {
                left = self.expr(tree)?;
            }
            left = self.binary(op, left, span, right)?;
            span = Span { start: span.start, end: op_span.end };
        }
        Ok(left)
    }

    fn binary(&mut self, op: Operator, left: Bound, left_span: Span, right: &ast::Expr) -> Result<Bound> {
        let bound = self.expr(right)?;
        let span = right.span();
        match op {
            Operator::And | Operator::Or => {
                let is_and = matches!(op, Operator::And);
                let name = if is_and { "AND" } else { "OR" };
                let left = self.condition_of(left, name, left_span)?;
                let right = self.condition_of(bound, name, span)?;
                let expr = match (is_and, left) {
                    (true, Expr::And(mut all)) => {
                        all.push(right);
                        Expr::And(all)
                    }
                    (true, left) => Expr::And(vec![left, right]),
                    (false, Expr::Or(mut any)) => {
                        any.push(right);
                        Expr::Or(any)
                    }
                    (false, left) => Expr::Or(vec![left, right]),
                };
                Ok(Bound::bool(expr))
            }
            Operator::Compare(op) => {
                let (left, right) = self.comparable(op.symbol(), left, left_span, bound, span)?;
                Ok(Bound::bool(Expr::Compare { op, left: Box::new(left), right: Box::new(right) }))
            }
            Operator::Call(symbol) => self.call_operator(symbol, left, left_span, bound, span),
        }
    }

    pub(super) fn call_operator(
        &mut self,
        symbol: &'static str,
        left: Bound,
        left_span: Span,
        right: Bound,
        right_span: Span,
    ) -> Result<Bound> {
        let span = if left_span.start.line > 0 { left_span } else { right_span };
        if left.ty.ty.is_array() || right.ty.ty.is_array() {
            return self.array_operator(symbol, left, right, span);
        }
        let function = self.at(span, resolve::resolve_operator(symbol, Some(left.ty.ty), right.ty.ty))?;
        let matches_blanks = symbol.contains('~') && left.ty.ty == Type::Char;
        let left = if matches_blanks { super::functions::with_blanks(left) } else { left };
        let left = self.argument(left, function.arg_type(0), left_span)?;
        let right = self.argument(right, function.arg_type(1), right_span)?;
        Ok(Bound::new(Expr::Call { function, args: vec![left, right] }, function.result))
    }

    /// Both sides in the type that they are compared in.
    pub(super) fn comparable(
        &mut self,
        symbol: &str,
        left: Bound,
        left_span: Span,
        right: Bound,
        right_span: Span,
    ) -> Result<(Expr, Expr)> {
        let Some(ty) = resolve::comparison_type(left.ty.ty, right.ty.ty) else {
            let message = format!("operator does not exist: {} {symbol} {}", left.ty.ty, right.ty.ty);
            let error = Error::new(SqlState::NO_SUCH_FUNCTION, message).hint(
                "No operator matches the given name and argument types. You might need to add explicit type casts.",
            );
            return Err(self.place(left_span, error));
        };
        let ty = if ty == Type::Unknown { Type::Text } else { ty };
        let left = self.coerce(left, ty.into(), CastContext::Implicit, left_span)?;
        let right = self.coerce(right, ty.into(), CastContext::Implicit, right_span)?;
        Ok((left, right))
    }

    fn is_null(&mut self, input: &ast::Expr, negated: bool) -> Result<Bound> {
        if let Some(tuple) = as_tuple(input) {
            let mut all = Vec::with_capacity(tuple.len());
            for input in tuple.iter() {
                all.push(Expr::IsNull { input: Box::new(self.expr(input)?.expr), negated });
            }
            return Ok(Bound::bool(Expr::And(all)));
        }
        let input = self.expr(input)?;
        if let (Type::Unknown, &Expr::Param(index)) = (input.ty.ty, &input.expr) {
            self.params_tested.push(index);
        }
        Ok(Bound::bool(Expr::IsNull { input: Box::new(input.expr), negated }))
    }

    fn is_bool(&mut self, input: &ast::Expr, value: Option<bool>, negated: bool, clause: &str) -> Result<Bound> {
        let input = self.condition(input, clause)?;
        Ok(Bound::bool(Expr::IsBool { input: Box::new(input), value, negated }))
    }

    fn distinct(&mut self, left: &ast::Expr, right: &ast::Expr, negated: bool) -> Result<Bound> {
        if let (Some(lefts), Some(rights)) = (as_tuple(left), as_tuple(right)) {
            if lefts.len() != rights.len() {
                return Err(self.place(left.span(), unequal_rows()));
            }
            let mut all = Vec::with_capacity(lefts.len());
            for (left, right) in lefts.iter().zip(rights.iter()) {
                all.push(self.distinct(left, right, negated)?.expr);
            }
            return Ok(Bound::bool(if negated { Expr::And(all) } else { Expr::Or(all) }));
        }
        let (left_span, right_span) = (left.span(), right.span());
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let (left, right) = self.comparable("=", left, left_span, right, right_span)?;
        Ok(Bound::bool(Expr::Distinct { left: Box::new(left), right: Box::new(right), negated }))
    }

    fn compare_rows(&mut self, op: CompareOp, left: &[ast::Expr], right: &ast::Expr, span: Span) -> Result<Bound> {
        if let ast::Expr::Subquery(query) = right
            && self.subquery_query(query)?.0.columns.len() == left.len()
        {
            // Each part of the only row there is; more of them are an error.
            let parts = ast::Expr::Tuple(self.parts_of_row(query, left.len())?);
            return self.compare_rows(op, left, &parts, span);
        }
        if let ast::Expr::Subquery(query) = right {
            return self.quantified_rows(left, op, false, query, span, SubqueryUse::Row);
        }
        let Some(right) = as_tuple(right) else {
            return Err(self.place(span, Error::unsupported("comparing a row with a single value")));
        };
        if left.len() != right.len() {
            return Err(self.place(span, unequal_rows()));
        }
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        for (left, right) in left.iter().zip(right.iter()) {
            let (left_span, right_span) = (left.span(), right.span());
            let (left, right) = (self.expr(left)?, self.expr(right)?);
            let (left, right) = self.comparable(op.symbol(), left, left_span, right, right_span)?;
            lefts.push(left);
            rights.push(right);
        }
        // Equality of rows is equality of each column: the planner finds keys in it.
        if op == CompareOp::Eq {
            let all = lefts.into_iter().zip(rights);
            let all = all.map(|(left, right)| Expr::Compare { op, left: Box::new(left), right: Box::new(right) });
            return Ok(Bound::bool(Expr::And(all.collect())));
        }
        Ok(Bound::bool(Expr::CompareRows { op, left: lefts, right: rights }))
    }

    fn in_list(&mut self, input: &ast::Expr, list: &[ast::Expr], negated: bool) -> Result<Bound> {
        if let Some(tuple) = as_tuple(input) {
            let mut any = Vec::with_capacity(list.len());
            for item in list {
                any.push(self.compare_rows(CompareOp::Eq, &tuple, item, input.span())?.expr);
            }
            let any = Expr::Or(any);
            return Ok(Bound::bool(if negated { Expr::Not(Box::new(any)) } else { any }));
        }
        if let [ast::Expr::Subquery(query)] = list {
            let op = if negated { CompareOp::Ne } else { CompareOp::Eq };
            return self.quantified(input, op, negated, query, input.span());
        }
        let span = input.span();
        let input = self.expr(input)?;
        let mut types = vec![input.ty.ty];
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            let bound = self.expr(item)?;
            types.push(bound.ty.ty);
            items.push((bound, item.span()));
        }
        let mut ty = types[0];
        for &other in &types[1..] {
            ty = match resolve::comparison_type(ty, other) {
                Some(ty) => ty,
                None => {
                    let message = format!("operator does not exist: {} = {other}", types[0]);
                    let error = Error::new(SqlState::NO_SUCH_FUNCTION, message).hint(
                        "No operator matches the given name and argument types. You might need to add explicit type casts.",
                    );
                    return Err(self.place(span, error));
                }
            };
        }
        let ty = if ty == Type::Unknown { Type::Text } else { ty };
        let input = self.coerce(input, ty.into(), CastContext::Implicit, span)?;
        let mut list = Vec::with_capacity(items.len());
        for (item, span) in items {
            list.push(self.coerce(item, ty.into(), CastContext::Implicit, span)?);
        }
        Ok(Bound::bool(Expr::InList { input: Box::new(input), list, negated }))
    }

    fn between(&mut self, input: &ast::Expr, low: &ast::Expr, high: &ast::Expr, negated: bool) -> Result<Bound> {
        let (low_op, high_op) = if negated { (CompareOp::Lt, CompareOp::Gt) } else { (CompareOp::Ge, CompareOp::Le) };
        if let Some(low) = without_symmetric(low) {
            let one = self.between(input, &low, high, negated)?.expr;
            let other = self.between(input, high, &low, negated)?.expr;
            return Ok(Bound::bool(if negated { Expr::And(vec![one, other]) } else { Expr::Or(vec![one, other]) }));
        }
        if let Some(tuple) = as_tuple(input) {
            let low = self.compare_rows(low_op, &tuple, low, input.span())?.expr;
            let high = self.compare_rows(high_op, &tuple, high, input.span())?.expr;
            return Ok(Bound::bool(if negated { Expr::Or(vec![low, high]) } else { Expr::And(vec![low, high]) }));
        }
        let spans = (input.span(), low.span(), high.span());
        let input = self.expr(input)?;
        let (low, high) = (self.expr(low)?, self.expr(high)?);
        let mut sides = Vec::with_capacity(2);
        for (op, bound, span) in [(low_op, low, spans.1), (high_op, high, spans.2)] {
            let (left, right) = self.comparable(op.symbol(), input.clone(), spans.0, bound, span)?;
            sides.push(Expr::Compare { op, left: Box::new(left), right: Box::new(right) });
        }
        Ok(Bound::bool(if negated { Expr::Or(sides) } else { Expr::And(sides) }))
    }

    fn like(
        &mut self,
        symbol: &'static str,
        input: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
    ) -> Result<Bound> {
        let (input_span, pattern_span) = (input.span(), pattern.span());
        let input = self.expr(input)?;
        let mut pattern = self.expr(pattern)?;
        if let Some(escape) = escape {
            let escape = self.expr(escape)?;
            pattern = self.call("like_escape", vec![pattern, escape], pattern_span)?;
        }
        self.call_operator(symbol, input, input_span, pattern, pattern_span)
    }

    fn any_all(
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
            ast::Expr::Array(array) => self.any_all_list(left, op, &array.elem, all),
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
            ast::Expr::Array(array) => self.any_all_list(left, op, &array.elem, all),
            right => self.any_all_array(left, Test::Compare(op), right, all),
        }
    }

    /// `left op ANY (array)` with an array that is computed.
    fn any_all_array(&mut self, left: &ast::Expr, test: Test, right: &ast::Expr, all: bool) -> Result<Bound> {
        let (left_span, span) = (left.span(), right.span());
        let left = self.expr(left)?;
        let array = self.expr(right)?;
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
        let Some(common) = resolve::comparison_type(left.ty.ty, element) else {
            let error = resolve::no_operator(&format!("{} = {element}", left.ty.ty), false);
            return Err(self.place(left_span, error));
        };
        let common = if matches!(test, Test::Call(_)) { Type::Text } else { known(common) };
        let Some(of_common) = common.array() else {
            return Err(self.place(span, Error::unsupported(format_args!("an array of {common}"))));
        };
        let left = self.coerce(left, common.into(), CastContext::Implicit, left_span)?;
        let array = self.coerce(array, of_common.into(), CastContext::Assignment, span)?;
        Ok(Bound::bool(Expr::AnyOf { test, left: Box::new(left), array: Box::new(array), all }))
    }

    /// `left LIKE ANY (array)` and its like.
    fn any_all_call(
        &mut self,
        left: &ast::Expr,
        symbol: &'static str,
        right: &ast::Expr,
        all: bool,
        span: Span,
    ) -> Result<Bound> {
        let function = self.at(span, resolve::resolve_operator(symbol, Some(Type::Text), Type::Text))?;
        if function.result != Type::Bool {
            let error =
                Error::new(SqlState::WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires operator to yield boolean");
            return Err(self.place(span, error));
        }
        match right {
            ast::Expr::Subquery(_) => {
                Err(self.place(span, Error::unsupported("ANY and ALL of a query with a function")))
            }
            ast::Expr::Nested(inner) => self.any_all_call(left, symbol, inner, all, span),
            right => self.any_all_array(left, Test::Call(function), right, all),
        }
    }

    /// `ARRAY[…]`
    fn array(&mut self, elements: &[ast::Expr], span: Span) -> Result<Bound> {
        let mut bounds = Vec::with_capacity(elements.len());
        for element in elements {
            bounds.push((self.expr(element)?, element.span()));
        }
        let types: Vec<Type> = bounds.iter().map(|(bound, _)| bound.ty.ty).collect();
        if types.is_empty() {
            // What it is of, a cast around it tells.
            return Ok(Bound::new(Expr::Array { element: Type::Text, values: Vec::new() }, Type::Unknown));
        }
        let ty = self.common_type("ARRAY", &types, span)?;
        let element = ty.element().unwrap_or(ty);
        let Some(of_type) = element.array() else {
            let message = format!("could not find array type for data type {ty}");
            return Err(self.place(span, Error::new(SqlState::NO_SUCH_OBJECT, message)));
        };
        let mut values = Vec::with_capacity(bounds.len());
        for (bound, span) in bounds {
            values.push(self.coerce(bound, ty.into(), CastContext::Implicit, span)?);
        }
        Ok(Bound::new(Expr::Array { element, values }, of_type))
    }

    /// `array[1]`, `(record).field`
    fn access(&mut self, root: &ast::Expr, chain: &[ast::AccessExpr], span: Span) -> Result<Bound> {
        // `alias.column[1]` comes as `alias` with a chain behind it.
        let (mut value, mut chain) = match (root, chain) {
            (ast::Expr::Identifier(table), [ast::AccessExpr::Dot(ast::Expr::Identifier(column)), rest @ ..]) => {
                (self.column(Some((None, fold(table))), column)?, rest)
            }
            _ => (self.expr(root)?, chain),
        };
        while let Some((first, rest)) = chain.split_first() {
            let mut args = vec![];
            value = match first {
                ast::AccessExpr::Dot(ast::Expr::Identifier(field)) => {
                    chain = rest;
                    let name = format!(".{}", fold(field));
                    if value.ty.ty != Type::Record || crate::functions::named(&name).is_empty() {
                        let message = format!("column \"{}\" not found in data type {}", fold(field), value.ty.ty);
                        return Err(self.place(span, Error::new(SqlState::NO_SUCH_COLUMN, message)));
                    }
                    args.push(value);
                    self.call(&name, args, span)?
                }
                ast::AccessExpr::Subscript(_) => {
                    let end = chain.iter().position(|access| !matches!(access, ast::AccessExpr::Subscript(_)));
                    let (subscripts, rest) = chain.split_at(end.unwrap_or(chain.len()));
                    chain = rest;
                    if value.ty.ty.element().is_none() {
                        let message =
                            format!("cannot subscript type {} because it does not support subscripting", value.ty.ty);
                        return Err(self.place(span, Error::new(SqlState::TYPE_MISMATCH, message)));
                    }
                    args.push(value);
                    for access in subscripts {
                        let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = access else {
                            return Err(self.place(span, Error::unsupported("a slice of an array")));
                        };
                        let index_span = index.span();
                        let index = self.expr(index)?;
                        let context = CastContext::Assignment;
                        args.push(Bound::new(self.coerce(index, Type::Int4.into(), context, index_span)?, Type::Int4));
                    }
                    self.call("[]", args, span)?
                }
                ast::AccessExpr::Dot(other) => {
                    return Err(self.place(span, Error::unsupported(format_args!("the field {other}"))));
                }
            };
        }
        Ok(value)
    }

    /// An operator beside an array: what it does not take as an array is taken for a value.
    fn array_operator(&mut self, symbol: &'static str, left: Bound, right: Bound, span: Span) -> Result<Bound> {
        let name = match (symbol, left.ty.ty.is_array(), right.ty.ty.is_array()) {
            ("||", true, true) => "array_cat",
            ("||", true, false)
                if matches!(right.expr, Expr::Const(Datum::Text(_))) && right.ty.ty == Type::Unknown =>
            {
                "array_cat"
            }
            ("||", false, true) if matches!(left.expr, Expr::Const(Datum::Text(_))) && left.ty.ty == Type::Unknown => {
                "array_cat"
            }
            ("||", true, false) => "array_append",
            ("||", false, true) => "array_prepend",
            _ => symbol,
        };
        self.call(name, vec![left, right], span)
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
            let (left, right) = self.comparable(op.symbol(), left.clone(), left_span, bound, right.span())?;
            sides.push(Expr::Compare { op, left: Box::new(left), right: Box::new(right) });
        }
        Ok(Bound::bool(if all { Expr::And(sides) } else { Expr::Or(sides) }))
    }

    fn quantified(
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

    fn quantified_rows(
        &mut self,
        left: &[ast::Expr],
        op: CompareOp,
        all: bool,
        query: &ast::Query,
        span: Span,
        used: SubqueryUse,
    ) -> Result<Bound> {
        let mut lefts = Vec::with_capacity(left.len());
        for left in left {
            lefts.push((self.expr(left)?, left.span()));
        }
        let mut query_bound = self.subquery_query(query)?;
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
        for ((bound, left_span), column) in lefts.into_iter().zip(&query_bound.0.columns) {
            // Literals that a query gives are texts, whatever they are compared with.
            let ty = resolve::comparison_type(bound.ty.ty, known(column.ty.ty));
            let Some(ty) = ty else {
                let message = format!("operator does not exist: {} {} {}", bound.ty.ty, op.symbol(), column.ty.ty);
                return Err(self.place(left_span, Error::new(SqlState::NO_SUCH_FUNCTION, message)));
            };
            let ty = if ty == Type::Unknown { Type::Text } else { ty };
            left.push(self.coerce(bound, ty.into(), CastContext::Implicit, left_span)?);
            types.push(ty);
        }
        self.retype(&mut query_bound.0, &types)?;
        if left.len() > 1 && !matches!(op, CompareOp::Eq | CompareOp::Ne) {
            return Err(self.place(span, Error::unsupported("comparing rows by order with a query's")));
        }
        let all = all || (used == SubqueryUse::Row && op == CompareOp::Ne);
        let kind = SubqueryKind::Quantified { left, op, all };
        Ok(Bound::bool(self.finish_subquery(query_bound, kind)?))
    }

    /// A query inside an expression, as a fragment of its own.
    pub(super) fn subquery(&mut self, query: &ast::Query, kind: SubqueryKind) -> Result<(Expr, Vec<Column>)> {
        let mut bound = self.subquery_query(query)?;
        if !matches!(kind, SubqueryKind::Exists) {
            let types: Vec<Type> = bound.0.columns.iter().map(|column| known(column.ty.ty)).collect();
            self.retype(&mut bound.0, &types)?;
        }
        let columns = bound.0.columns.clone();
        let kind = match kind {
            SubqueryKind::Array(_) => {
                let ty = columns.first().map_or(Type::Text, |column| column.ty.ty);
                SubqueryKind::Array(ty.element().unwrap_or(ty))
            }
            kind => kind,
        };
        Ok((self.finish_subquery(bound, kind)?, columns))
    }

    fn subquery_query(&mut self, query: &ast::Query) -> Result<(logical::Query, Vec<Expr>)> {
        self.frames.push(Frame::default());
        let bound = self.deeper(|binder| binder.query(query));
        let frame = self.frames.pop().expect("the frame was pushed above");
        Ok((bound?, frame.args))
    }

    fn finish_subquery(&mut self, bound: (logical::Query, Vec<Expr>), kind: SubqueryKind) -> Result<Expr> {
        let (query, args) = bound;
        let fragment: Fragment = crate::planner::plan_query(&query, args.len(), self.sizes)?;
        let id = self.new_id();
        Ok(Expr::Subquery(Box::new(Subquery { id, fragment: std::sync::Arc::new(fragment), args, kind })))
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Bound> {
        let operand = match operand {
            Some(operand) => {
                let span = operand.span();
                let mut bound = self.expr(operand)?;
                // What it is compared with does not tell its type.
                if bound.ty.ty == Type::Unknown {
                    bound = Bound::new(self.coerce(bound, Type::Text.into(), CastContext::Implicit, span)?, Type::Text);
                }
                Some((bound, span))
            }
            None => None,
        };
        let mut arms = Vec::with_capacity(conditions.len());
        for arm in conditions {
            let condition = match &operand {
                None => self.condition(&arm.condition, "CASE/WHEN")?,
                Some((operand, span)) => {
                    let value = self.expr(&arm.condition)?;
                    let (left, right) = self.comparable("=", operand.clone(), *span, value, arm.condition.span())?;
                    Expr::Compare { op: CompareOp::Eq, left: Box::new(left), right: Box::new(right) }
                }
            };
            arms.push((condition, self.expr(&arm.result)?, arm.result.span()));
        }
        let otherwise = match otherwise {
            Some(otherwise) => (self.expr(otherwise)?, otherwise.span()),
            None => (Bound::null(), Span::empty()),
        };
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
        Ok(Bound::new(Expr::Case { arms: typed, otherwise: Box::new(otherwise) }, result_type))
    }

    /// The type that all can be cast to, text if none has a type.
    pub(super) fn common_type(&mut self, construct: &str, types: &[Type], span: Span) -> Result<Type> {
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

    fn cast(&mut self, input: &ast::Expr, to: ColumnType) -> Result<Bound> {
        // A number too long for us is read as the type that it is wanted in.
        if let (ast::Expr::Value(value), Type::Float4 | Type::Float8) = (input, to.ty)
            && let Value::Number(text, _) = &value.value
        {
            let value = self.at(value.span, text_io::parse(to.ty, Modifier::NONE, text, self.env))?;
            return Ok(Bound { expr: Expr::Const(value), ty: to });
        }
        if let (ast::Expr::Array(array), Some(element)) = (input, to.ty.element()) {
            return self.array_as(&array.elem, to, element);
        }
        let mut bound = self.expr(input)?;
        if to.ty == Type::Bytea && cast::cast_context(bound.ty.ty, to.ty).is_some() {
            bound = super::functions::with_blanks(bound);
        }
        let expr = self.coerce(bound, to, CastContext::Explicit, input.span())?;
        Ok(Bound { expr, ty: to })
    }

    /// `ARRAY[…]::type[]`: each value in the type.
    fn array_as(&mut self, elements: &[ast::Expr], to: ColumnType, element: Type) -> Result<Bound> {
        let mut values = Vec::with_capacity(elements.len());
        for value in elements {
            values.push(match value {
                ast::Expr::Array(inner) => self.array_as(&inner.elem, to, element)?.expr,
                value => {
                    let bound = self.expr(value)?;
                    let target = if bound.ty.ty.is_array() { to.ty } else { element };
                    self.coerce(bound, target.into(), CastContext::Explicit, value.span())?
                }
            });
        }
        Ok(Bound { expr: Expr::Array { element, values }, ty: to })
    }

    /// Casts to a type, if the context allows it. Literals are read, parameters get the type.
    pub(crate) fn coerce(&mut self, bound: Bound, to: ColumnType, context: CastContext, span: Span) -> Result<Expr> {
        let from = bound.ty.ty;
        match (from, bound.expr) {
            (Type::Unknown, Expr::Param(index)) => {
                let ty = *self.params[index].get_or_insert(to.ty);
                if ty == to.ty && to.modifier == Modifier::NONE {
                    return Ok(Expr::Param(index));
                }
                self.coerce(Bound::new(Expr::Param(index), ty), to, context, span)
            }
            (Type::Unknown, Expr::Const(Datum::Null)) => Ok(Expr::Const(Datum::Null)),
            (Type::Unknown, Expr::Const(Datum::Text(text))) => {
                // What these mean depends on when and where the statement runs.
                let lower = text.trim().to_ascii_lowercase();
                let relative = ["now", "today", "tomorrow", "yesterday"].iter().any(|word| lower.starts_with(word));
                if to.ty == Type::TimestampTz {
                    self.at(span, text_io::parse(to.ty, Modifier::NONE, &text, self.env))?;
                }
                if to.ty == Type::TimestampTz || (relative && to.ty.category() == Category::DateTime) {
                    let input = Box::new(Expr::Const(Datum::Text(text)));
                    return Ok(Expr::Cast { input, from: Type::Text, to, context: CastContext::Explicit });
                }
                let modifier = if context == CastContext::Assignment { Modifier::NONE } else { to.modifier };
                let value = if context == CastContext::Explicit && to.modifier != Modifier::NONE && to.ty.is_text() {
                    // An explicit cast cuts, input would refuse.
                    let text = Datum::Text(text);
                    self.at(span, cast::cast(&text, Type::Text, to.ty, to.modifier, context, self.env))?
                } else {
                    self.at(span, text_io::parse(to.ty, modifier, &text, self.env))?
                };
                if modifier == to.modifier {
                    return Ok(Expr::Const(value));
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
                        Ok(Expr::Cast { input: Box::new(expr), from, to, context })
                    }
                    _ => {
                        let message = format!("cannot cast type {from} to {}", to.ty);
                        Err(self.place(span, Error::new(SqlState::CANNOT_COERCE, message)))
                    }
                }
            }
        }
    }

    /// Gives a query's columns other types.
    pub(crate) fn retype(&mut self, query: &mut logical::Query, types: &[Type]) -> Result<()> {
        if query.columns.iter().zip(types).all(|(column, &ty)| column.ty.ty == ty) {
            return Ok(());
        }
        if let logical::Body::Select(select) = &mut query.body
            && query.order.is_empty()
            && select.distinct == logical::Distinct::No
        {
            for ((output, column), &ty) in select.output.iter_mut().zip(&mut query.columns).zip(types) {
                let expr = std::mem::replace(output, Expr::Const(Datum::Null));
                let bound = Bound { expr, ty: column.ty };
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
                    let bound = Bound { expr, ty: column.ty };
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
            let bound = Bound { expr: Expr::Column(index), ty: column.ty };
            output.push(self.coerce(bound, ty.into(), CastContext::Implicit, Span::empty())?);
            if column.ty.ty != ty {
                *column = Column { ty: ty.into(), origin: None, ..column.clone() };
            }
        }
        let empty = logical::Query {
            body: logical::Body::Values(Vec::new()),
            columns: Vec::new(),
            order: Vec::new(),
            limit: None,
            offset: None,
            locks: Vec::new(),
        };
        let inner = std::mem::replace(query, empty);
        let relation =
            logical::Relation { base: 0, width, source: logical::Source::Query(Box::new(inner)), name: "cast".into() };
        query.columns = columns;
        query.body = logical::Body::Select(Box::new(logical::Select {
            relations: vec![relation],
            from: Some(logical::From::Relation(0)),
            filter: Vec::new(),
            group: None,
            extras: Vec::new(),
            output,
            distinct: logical::Distinct::No,
        }));
        Ok(())
    }
}

/// Whether a query on the right of a comparison stands for its rows or for its only row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SubqueryUse {
    Set,
    Row,
}

/// A type with the modifier that all of the types it was chosen for have.
pub(super) fn common_modifier(types: impl Iterator<Item = ColumnType>, ty: Type) -> ColumnType {
    // What literals say of `character(n)` is left out: values know their blanks by the type only.
    let mut types = types.filter(|other| !(ty == Type::Char && other.ty == Type::Unknown));
    let Some(first) = types.next() else { return ty.into() };
    if first.ty == ty && types.all(|other| other == first) { first } else { ty.into() }
}

fn unequal_rows() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "unequal number of entries in row expressions")
}

pub(super) fn too_many_columns() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "subquery must return only one column")
}

/// Text, where nothing else told the type.
pub(super) fn known(ty: Type) -> Type {
    if ty == Type::Unknown { Type::Text } else { ty }
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

/// Takes the mark of BETWEEN SYMMETRIC off the leftmost leaf of the low side.
fn without_symmetric(low: &ast::Expr) -> Option<ast::Expr> {
    let marked = |expr: &ast::Expr| without_symmetric(expr).map(Box::new);
    Some(match low {
        ast::Expr::UnaryOp { op: UnaryOperator::PGPrefixFactorial, expr } => (**expr).clone(),
        ast::Expr::BinaryOp { left, op, right } => {
            ast::Expr::BinaryOp { left: marked(left)?, op: op.clone(), right: right.clone() }
        }
        ast::Expr::AtTimeZone { timestamp, time_zone } => {
            ast::Expr::AtTimeZone { timestamp: marked(timestamp)?, time_zone: time_zone.clone() }
        }
        ast::Expr::Collate { expr, collation } => {
            ast::Expr::Collate { expr: marked(expr)?, collation: collation.clone() }
        }
        _ => return None,
    })
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

/// A number: the narrowest of integer, bigint and numeric that holds it.
fn number(text: &str) -> Result<Bound> {
    if let Ok(value) = text.parse::<i64>() {
        let ty = if i32::try_from(value).is_ok() { Type::Int4 } else { Type::Int8 };
        return Ok(Bound::new(Expr::Const(Datum::Int(value)), ty));
    }
    let value = Numeric::parse(text)?;
    Ok(Bound::new(Expr::Const(Datum::Numeric(value)), Type::Numeric))
}

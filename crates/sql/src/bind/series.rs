//! Functions in FROM: calls that give rows.

use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;

use super::expr::Bound;
use super::logical::{Column, From, Relation, Source};
use super::{Binder, Scope, fold, name_span, qualified};
use crate::cast::CastContext;
use crate::error::{Error, Result, SqlState};
use crate::expr::Expr;
use crate::plan::Series;
use crate::system;
use crate::types::{ColumnType, Type};

impl Binder<'_> {
    pub(super) fn series(
        &mut self,
        name: &ast::ObjectName,
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        numbered: bool,
        relations: &mut Vec<Relation>,
    ) -> Result<From> {
        let (_, function) = qualified(name)?;
        let span = name_span(name);
        if let Some(table) = system::function(&function).filter(|_| args.is_empty()) {
            return self.system(table, name, alias, relations);
        }
        if !gives_rows(&function) {
            return Err(self.place(span, Error::unsupported(format_args!("{function} in FROM"))));
        }
        let mut bounds = Vec::with_capacity(args.len());
        for arg in args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = arg else {
                return Err(self.place(span, Error::unsupported("named arguments")));
            };
            // It does not see the names beside it.
            let beside = std::mem::take(&mut self.frame().scopes);
            self.frame().scopes.push(Scope { no_calls: "functions in FROM", ..Scope::default() });
            let bound = self.expr(expr);
            self.frame().scopes = beside;
            bounds.push((bound?, expr.span()));
        }
        let (series, exprs, ty) = self.rows_of(&function, bounds, span)?;
        let visible_as = alias.map_or(function, |alias| fold(&alias.name));
        let mut columns = vec![Column { name: visible_as.clone(), ty: ColumnType::from(ty), origin: None }];
        if numbered {
            columns.push(Column { name: "ordinality".into(), ty: Type::Int8.into(), origin: None });
        }
        self.add(visible_as, None, columns, &[], Source::Series(series, exprs, numbered), alias, relations)
    }

    /// A call of a function that gives rows: its arguments in the types that it takes, and the type of what it gives.
    pub(super) fn rows_of(
        &mut self,
        function: &str,
        bounds: Vec<(Bound, Span)>,
        span: Span,
    ) -> Result<(Series, Vec<Expr>, Type)> {
        match function {
            "generate_series" => self.series_of(bounds, span),
            "regexp_matches" => self.rows_of_texts(Series::Matches, function, Type::Text.array_of(), bounds, span),
            "regexp_split_to_table" => self.rows_of_texts(Series::Split, function, Type::Text, bounds, span),
            "pg_partition_ancestors" => {
                let [(bound, at)] = <[_; 1]>::try_from(bounds).map_err(|_| self.place(span, wrong_call(function)))?;
                let arg = self.coerce(bound, Type::RegClass.into(), CastContext::Implicit, at)?;
                Ok((Series::Nothing, vec![arg], Type::RegClass))
            }
            _ => self.rows_of_array(function, bounds, span),
        }
    }

    /// A call that takes a text, a pattern and perhaps flags.
    fn rows_of_texts(
        &mut self,
        series: Series,
        function: &str,
        ty: Type,
        bounds: Vec<(Bound, Span)>,
        span: Span,
    ) -> Result<(Series, Vec<Expr>, Type)> {
        if !(2..=3).contains(&bounds.len()) {
            return Err(self.place(span, wrong_call(function)));
        }
        let mut args = Vec::with_capacity(bounds.len());
        for (bound, at) in bounds {
            if bound.ty.ty != Type::Unknown && !bound.ty.ty.is_text() {
                return Err(self.place(span, wrong_call(function)));
            }
            args.push(self.coerce(bound, Type::Text.into(), CastContext::Implicit, at)?);
        }
        Ok((series, args, ty))
    }

    fn rows_of_array(
        &mut self,
        function: &str,
        bounds: Vec<(Bound, Span)>,
        span: Span,
    ) -> Result<(Series, Vec<Expr>, Type)> {
        let mut bounds = bounds.into_iter();
        let Some((array, _)) = bounds.next() else { return Err(self.place(span, wrong_call(function))) };
        let Some(element) = array.ty.ty.element() else {
            let message = format!("function {function}({}) does not exist", array.ty.ty);
            return Err(self.place(span, Error::new(SqlState::NO_SUCH_FUNCTION, message)));
        };
        let mut args = vec![array.expr];
        let (series, ty, rest): (_, _, &[Type]) = match function {
            "unnest" => (Series::Unnest, element, &[]),
            "_pg_expandarray" if element.is_integer() => (Series::Expanded, Type::Record, &[]),
            "_pg_expandarray" => {
                return Err(self.place(span, Error::unsupported("_pg_expandarray of anything but integers")));
            }
            _ => (Series::Subscripts, Type::Int4, &[Type::Int4, Type::Bool]),
        };
        for (&ty, (bound, at)) in rest.iter().zip(&mut bounds) {
            args.push(self.coerce(bound, ty.into(), CastContext::Implicit, at)?);
        }
        if bounds.next().is_some() || (series == Series::Subscripts && args.len() < 2) {
            return Err(self.place(span, wrong_call(function)));
        }
        Ok((series, args, ty))
    }

    fn series_of(&mut self, bounds: Vec<(Bound, Span)>, span: Span) -> Result<(Series, Vec<Expr>, Type)> {
        if !(2..=3).contains(&bounds.len()) {
            let error = Error::new(SqlState::NO_SUCH_FUNCTION, "function generate_series takes two or three arguments");
            return Err(self.place(span, error));
        }
        let types: Vec<Type> = bounds.iter().take(2).map(|(bound, _)| bound.ty.ty).collect();
        let common = crate::resolve::common_type(&types).unwrap_or(Type::Int4);
        let (series, ty, step) = match common {
            Type::Int2 | Type::Int4 | Type::Unknown => match bounds.get(2).map(|(step, _)| step.ty.ty) {
                Some(Type::Int8) => (Series::Ints, Type::Int8, Type::Int8),
                Some(Type::Numeric) => (Series::Numerics, Type::Numeric, Type::Numeric),
                _ => (Series::Ints, Type::Int4, Type::Int4),
            },
            Type::Int8 => (Series::Ints, Type::Int8, Type::Int8),
            Type::Numeric => (Series::Numerics, Type::Numeric, Type::Numeric),
            Type::Date | Type::Timestamp => (Series::Timestamps, Type::Timestamp, Type::Interval),
            Type::TimestampTz => (Series::TimestampTzs, Type::TimestampTz, Type::Interval),
            other => {
                let message = format!("function generate_series({other}, {other}) does not exist");
                return Err(self.place(span, Error::new(SqlState::NO_SUCH_FUNCTION, message)));
            }
        };
        if step == Type::Interval && bounds.len() < 3 {
            let message = format!("function generate_series({ty}, {ty}) does not exist");
            return Err(self.place(span, Error::new(SqlState::NO_SUCH_FUNCTION, message)));
        }
        let mut exprs = Vec::with_capacity(bounds.len());
        for (index, (bound, span)) in bounds.into_iter().enumerate() {
            let ty = if index == 2 { step } else { ty };
            exprs.push(self.coerce(bound, ty.into(), CastContext::Implicit, span)?);
        }
        Ok((series, exprs, ty))
    }
}

/// Whether a function gives rows.
pub(super) fn gives_rows(name: &str) -> bool {
    matches!(
        name,
        "generate_series"
            | "unnest"
            | "generate_subscripts"
            | "_pg_expandarray"
            | "pg_partition_ancestors"
            | "regexp_matches"
            | "regexp_split_to_table"
    )
}

fn wrong_call(function: &str) -> Error {
    Error::new(SqlState::NO_SUCH_FUNCTION, format!("function {function} does not take these arguments"))
}

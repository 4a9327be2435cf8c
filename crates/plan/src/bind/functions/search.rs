//! Calls that give rows of several columns for full text search: `ts_debug` and its kin, and
//! `unnest` of a document.

use std::sync::Arc;

use colibri_types::cast::{CastContext, cast_context};
use colibri_types::functions::SearchRows;
use colibri_types::{ColumnType, Error, Result, Type};
use compact_str::CompactString;
use sqlparser::ast;
use sqlparser::tokenizer::Span;

use super::super::expr::Bound;
use super::super::logical::{Body, From, Relation as Joined, Source};
use super::super::{Binder, fold};
use super::json::{INNER, rows_query, visible_as};
use super::no_such_function;
use crate::expr::Expr;
use crate::plan::Series;

/// What a function of such a name gives rows of.
fn rows_named(name: &str) -> Option<SearchRows> {
    match name.strip_prefix(INNER) {
        Some("unnest") => Some(SearchRows::Lexemes),
        Some(inner) => SearchRows::named(inner),
        None => SearchRows::named(name),
    }
}

/// Whether a function gives such rows, whatever its arguments are.
pub(in crate::bind) fn gives_rows(name: &str) -> bool {
    rows_named(name).is_some()
}

impl Binder<'_> {
    /// A call that gives such rows: how it is run, with what, and what it gives. `None` if it gives
    /// others.
    pub(in crate::bind) fn search_rows_of(
        &mut self,
        name: &str,
        bounds: &mut Vec<(Bound, Span)>,
        span: Span,
    ) -> Result<Option<(Series, Vec<Expr>, ColumnType)>> {
        let of_document = name == "unnest" && matches!(&bounds[..], [(bound, _)] if bound.ty.ty == Type::TsVector);
        let Some(rows) = rows_named(name).or(of_document.then_some(SearchRows::Lexemes)) else { return Ok(None) };
        let fits = |types: &&&[Type]| {
            types.len() == bounds.len()
                && types
                    .iter()
                    .zip(&*bounds)
                    .all(|(ty, (bound, _))| cast_context(bound.ty.ty, *ty) == Some(CastContext::Implicit))
        };
        let Some(types) = rows.signatures().iter().find(fits) else {
            let types: Vec<&str> = bounds.iter().map(|(bound, _)| bound.ty.ty.sql_name()).collect();
            let name = name.trim_start_matches(INNER);
            return Err(self.place(span, no_such_function(&format!("{name}({})", types.join(", ")))));
        };
        let mut args = Vec::with_capacity(types.len());
        for ((bound, at), &ty) in bounds.drain(..).zip(*types) {
            args.push(self.coerce(bound, ty.into(), CastContext::Implicit, at)?);
        }
        let ty = self.type_of_rows(Arc::new(rows.row_type()));
        Ok(Some((Series::Search(rows), args, ty)))
    }

    /// A function of such rows in FROM; `None` if it is none. Whether `unnest` is one, its argument
    /// tells: see [`Self::lexemes_in_from`].
    pub(in crate::bind) fn search_in_from(
        &mut self,
        function: &str,
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        numbered: bool,
        relations: &mut Vec<Joined>,
    ) -> Result<Option<From>> {
        let Some(rows) = SearchRows::named(function) else { return Ok(None) };
        let query = rows_query(function, &field_names(rows), args.to_vec(), numbered)?;
        self.lateral(&query, &visible_as(function, alias), relations).map(Some)
    }

    /// `unnest` of a document in FROM, as the query that takes its rows apart. The document is an
    /// argument of that query, since it is bound already.
    pub(in crate::bind) fn lexemes_in_from(
        &mut self,
        document: Expr,
        alias: Option<&ast::TableAlias>,
        numbered: bool,
        relations: &mut Vec<Joined>,
    ) -> Result<From> {
        let not_other_form = || Error::internal("the query of a function has another form");
        let null = ast::Expr::Cast {
            kind: ast::CastKind::DoubleColon,
            expr: Box::new(ast::Expr::Value(ast::Value::with_empty_span(ast::Value::Null))),
            data_type: ast::DataType::TsVector,
            format: None,
        };
        let args = vec![ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(null))];
        let query = rows_query("unnest", &field_names(SearchRows::Lexemes), args, numbered)?;
        let (mut query, args) = self.subquery_query(&query)?;
        let Body::Select(select) = &mut query.body else { return Err(not_other_form()) };
        let [Joined { source: Source::Functions { calls, .. }, .. }] = &mut select.relations[..] else {
            return Err(not_other_form());
        };
        let ([(_, inner)], []) = (&mut calls[..], &args[..]) else { return Err(not_other_form()) };
        let is_constant = matches!(document, Expr::Const(_));
        *inner = vec![if is_constant { document.clone() } else { Expr::Arg(0) }];
        let columns = query.columns.clone();
        let query = Box::new(query);
        let source = if is_constant { Source::Query(query) } else { Source::Lateral { query, args: vec![document] } };
        let alias = visible_as("unnest", alias);
        self.add(fold(&alias.name), None, columns, &[], source, Some(&alias), relations)
    }
}

fn field_names(rows: SearchRows) -> Vec<CompactString> {
    rows.row_type().fields.into_iter().map(|(name, _)| name).collect()
}

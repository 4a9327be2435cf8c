//! Calls that give rows of several columns for full text search: `ts_debug` and its kin, and
//! `unnest` of a document.

use std::sync::Arc;

use colibri_types::cast::{CastContext, cast_context};
use colibri_types::functions::SearchRows;
use colibri_types::{ColumnType, Result, Type};
use compact_str::CompactString;
use sqlparser::ast;
use sqlparser::tokenizer::Span;

use super::super::Binder;
use super::super::expr::Bound;
use super::super::logical::{From, Relation as Joined};
use super::json::INNER;
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

    /// A function of such rows in FROM; `None` if it is none.
    pub(in crate::bind) fn search_in_from(
        &mut self,
        function: &str,
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        numbered: bool,
        relations: &mut Vec<Joined>,
    ) -> Result<Option<From>> {
        let rows = match (function, args) {
            _ if function.starts_with(INNER) => None,
            ("unnest", [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg))]) if may_be_document(arg) => {
                // Once to know its type, once more inside of the query.
                let no_calls = std::mem::replace(&mut self.scope().no_calls, "functions in FROM");
                let bound = self.expr(arg);
                self.scope().no_calls = no_calls;
                (bound?.ty.ty == Type::TsVector).then_some(SearchRows::Lexemes)
            }
            _ => rows_named(function),
        };
        let Some(rows) = rows else { return Ok(None) };
        let fields: Vec<CompactString> = rows.row_type().fields.into_iter().map(|(name, _)| name).collect();
        self.record_in_from(function, &fields, args.to_vec(), alias, numbered, relations).map(Some)
    }
}

/// Whether an expression may be a document: others need not be looked at twice.
fn may_be_document(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) | ast::Expr::Function(_) => true,
        ast::Expr::Cast { data_type, .. } => matches!(data_type, ast::DataType::Custom(..) | ast::DataType::TsVector),
        ast::Expr::BinaryOp { op: ast::BinaryOperator::StringConcat, left, right } => {
            may_be_document(left) || may_be_document(right)
        }
        ast::Expr::Nested(inner) => may_be_document(inner),
        _ => false,
    }
}

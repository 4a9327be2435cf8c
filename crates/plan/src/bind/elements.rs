//! Assignments to a part of an array, a row or `jsonb`: `SET a[2] = 5`, `SET r.f = 5`, `INSERT INTO t
//! (a[1], a[2])`.
//!
//! What is assigned becomes a call that takes the array as it is and gives it with the part
//! written. Several assignments to one column are calls inside each other.

use colibri_catalog::Table;
use colibri_types::cast::CastContext;
use colibri_types::functions::{WITH_FIELD, WITH_SLICE, WITH_VALUE};
use colibri_types::{ColumnType, Datum, Error, Result, SqlState, Type};
use sqlparser::ast;
use sqlparser::tokenizer::Span;

use super::expr::Bound;
use super::rows::template;
use super::{Binder, fold};
use crate::expr::Expr;

/// A column that is written to, as it is named.
pub(super) struct Target<'a> {
    pub(super) column: &'a ast::Ident,
    /// Names behind it: fields within fields.
    fields: Vec<&'a ast::Ident>,
    /// Subscripts behind it; none if all of the column is written.
    subscripts: &'a [ast::AccessExpr],
}

impl<'a> Target<'a> {
    pub(super) fn of(name: &'a ast::ObjectName) -> Result<Self> {
        let (mut names, mut subscripts) = (Vec::with_capacity(name.0.len()), &[][..]);
        for part in &name.0 {
            match part {
                ast::ObjectNamePart::Identifier(ident) => names.push(ident),
                ast::ObjectNamePart::Function(function) => {
                    if let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(access))] = &function.args[..]
                        && let ast::Expr::CompoundFieldAccess { access_chain, .. } = access
                    {
                        subscripts = access_chain;
                    }
                }
            }
        }
        if names.is_empty() {
            return Err(Error::internal("a target has no name"));
        }
        Ok(Self { column: names.remove(0), fields: names, subscripts })
    }

    pub(super) fn is_part(&self) -> bool {
        !self.subscripts.is_empty() || !self.fields.is_empty()
    }

    fn is_slice(&self) -> bool {
        let is_slice =
            |access: &ast::AccessExpr| matches!(access, ast::AccessExpr::Subscript(ast::Subscript::Slice { .. }));
        self.subscripts.iter().any(is_slice)
    }
}

impl Binder<'_> {
    /// Refuses to write to a field that a column has not, and to a part of what is no array.
    ///
    /// Bug: what stood behind the first name was dropped. Consequence: `UPDATE t SET a.b = 1` wrote
    /// to all of `a`. Fix: 42804.
    pub(super) fn expect_parts(&self, table: &Table, column: usize, target: &Target<'_>) -> Result<()> {
        let of = &table.columns[column];
        let mut within = of.ty.ty;
        if let (Some(element), false) = (within.element(), target.subscripts.is_empty()) {
            within = element;
        }
        for field in &target.fields {
            let name = fold(field);
            let wrong = |state, why: &str| {
                let message = format!("cannot assign to field \"{name}\" of column \"{}\" because {why}", of.name);
                self.place(target.column.span, Error::new(state, message))
            };
            let Type::Composite(row) = within else {
                return Err(wrong(SqlState::TYPE_MISMATCH, &format!("its type {within} is not a composite type")));
            };
            let Some(at) = row.row_type().field(&name) else {
                let why = format!("there is no such column in data type {}", row.sql_name());
                return Err(wrong(SqlState::NO_SUCH_COLUMN, &why));
            };
            if !target.subscripts.is_empty() {
                return Err(
                    self.place(target.column.span, Error::unsupported("assigning to a field beside subscripts"))
                );
            }
            within = row.fields()[at].ty.ty;
        }
        if !target.subscripts.is_empty()
            && of.ty.ty.element().is_none()
            && !matches!(of.ty.ty, Type::Jsonb | Type::Hstore)
        {
            let message = format!("cannot subscript type {} because it does not support subscripting", of.ty.ty);
            return Err(self.place(target.column.span, Error::new(SqlState::TYPE_MISMATCH, message)));
        }
        Ok(())
    }

    /// The type of what is assigned to a target.
    pub(super) fn type_of_target(&self, table: &Table, column: usize, target: &Target<'_>) -> ColumnType {
        let whole = table.columns[column].ty;
        if let Some((_, ty)) = places_of(whole.ty, &target.fields).last() {
            return *ty;
        }
        match whole.ty.element() {
            Some(element) if target.is_part() && !target.is_slice() => ColumnType::new(element, whole.modifier),
            _ if target.is_part() && whole.ty == Type::Hstore => Type::Text.into(),
            _ if target.is_part() => whole.base(),
            _ => whole,
        }
    }

    /// Casts a value to what a target takes.
    pub(super) fn value_for_target(
        &mut self,
        table: &Table,
        column: usize,
        target: &Target<'_>,
        bound: Bound,
        span: Span,
    ) -> Result<Expr> {
        if !target.is_part() {
            return self.assign(table, column, bound, span);
        }
        let (from, to) = (bound.ty.ty, self.type_of_target(table, column, target));
        let allowed = from == Type::Unknown
            || from == to.ty
            || colibri_types::cast::cast_context(from, to.ty).is_some_and(|weakest| weakest <= CastContext::Assignment);
        if !allowed {
            let name = &table.columns[column].name;
            if let Some(field) = target.fields.last() {
                let message =
                    format!("subfield \"{}\" is of type {} but expression is of type {from}", fold(field), to.ty);
                let error = Error::new(SqlState::TYPE_MISMATCH, message)
                    .hint("You will need to rewrite or cast the expression.");
                return Err(self.place(target.column.span, error));
            }
            let message = format!(
                "subscripted assignment to \"{name}\" requires type {} but expression is of type {from}",
                to.ty
            );
            let error =
                Error::new(SqlState::TYPE_MISMATCH, message).hint("You will need to rewrite or cast the expression.");
            return Err(self.place(target.column.span, error));
        }
        self.coerce(bound, to, CastContext::Assignment, span)
    }

    /// An array or a row with a part of it written.
    pub(super) fn with_part(&mut self, whole: Expr, ty: Type, target: &Target<'_>, value: Expr) -> Result<Expr> {
        if !target.fields.is_empty() {
            return Ok(with_field(whole, ty, &target.fields, value));
        }
        if ty == Type::Jsonb {
            let mut args = vec![Bound::new(whole, ty), Bound::new(value, ty)];
            args.extend(self.json_subscripts(target.subscripts, target.column.span)?);
            return Ok(self.call(".jsonb_assign", args, target.column.span)?.expr);
        }
        if ty == Type::Hstore {
            let key = self.hstore_subscript(target.subscripts, target.column.span)?;
            let function = &colibri_types::functions::WITH_KEY;
            return Ok(Expr::Call { function, args: vec![whole, key.expr, value] });
        }
        let element = Expr::Const(Datum::Int(ty.element().unwrap_or(Type::Unknown).code().into()));
        let mut args = vec![whole, element, value];
        if target.is_slice() {
            let (missing, bounds) = self.bounds_of_slice(target.subscripts, target.column.span)?;
            args.push(Expr::Const(Datum::Int(missing)));
            args.extend(bounds.into_iter().map(|bound| bound.expr));
            return Ok(Expr::Call { function: &WITH_SLICE, args });
        }
        for access in target.subscripts {
            let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = access else { continue };
            args.push(self.subscript(index)?.expr);
        }
        Ok(Expr::Call { function: &WITH_VALUE, args })
    }

    /// Refuses DEFAULT for a part of an array.
    pub(super) fn default_of_part(&self, target: &Target<'_>) -> Error {
        let is_field = !target.fields.is_empty();
        let message =
            if is_field { "cannot set a subfield to DEFAULT" } else { "cannot set an array element to DEFAULT" };
        self.place(target.column.span, Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    }
}

/// The places of fields within fields, and their types, as far as there are such.
fn places_of(ty: Type, fields: &[&ast::Ident]) -> Vec<(usize, ColumnType)> {
    let mut within = ty;
    let place = |field: &&ast::Ident| {
        let Type::Composite(row) = within else { return None };
        let at = row.row_type().field(&fold(field))?;
        within = row.fields()[at].ty.ty;
        Some((at, row.fields()[at].ty))
    };
    fields.iter().map_while(place).collect()
}

/// A row with a field of it written, which may be within a row that is a field itself.
fn with_field(whole: Expr, ty: Type, fields: &[&ast::Ident], value: Expr) -> Expr {
    let Type::Composite(row) = ty else { return value };
    let mut args = vec![template(row.row_type()), whole, value];
    args.extend(places_of(ty, fields).into_iter().map(|(at, _)| Expr::Const(Datum::Int(at as i64))));
    Expr::Call { function: &WITH_FIELD, args }
}

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
    /// Which part of it, from the outside inwards; none if all of the column is written.
    path: Vec<Step<'a>>,
}

/// A part of a value.
#[derive(Clone, Copy)]
enum Step<'a> {
    /// A field of a row.
    Field(&'a ast::Ident),
    /// An element or a slice of an array, or a part of a document.
    Subscripts(&'a [ast::AccessExpr]),
}

impl<'a> Target<'a> {
    pub(super) fn of(name: &'a ast::ObjectName) -> Result<Self> {
        let mut parts = name.0.iter();
        let Some(ast::ObjectNamePart::Identifier(column)) = parts.next() else {
            return Err(Error::internal("a target has no name"));
        };
        let mut path = Vec::new();
        for part in parts {
            match part {
                ast::ObjectNamePart::Identifier(ident) => path.push(Step::Field(ident)),
                ast::ObjectNamePart::Function(function) => {
                    if let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(access))] = &function.args[..]
                        && let ast::Expr::CompoundFieldAccess { access_chain, .. } = access
                    {
                        path.push(Step::Subscripts(access_chain));
                    }
                }
            }
        }
        Ok(Self { column, path })
    }

    pub(super) fn is_part(&self) -> bool {
        !self.path.is_empty()
    }

    /// The field that is written, if the target is one.
    fn field(&self) -> Option<&'a ast::Ident> {
        match self.path.last() {
            Some(Step::Field(field)) => Some(field),
            _ => None,
        }
    }
}

fn is_slice(subscripts: &[ast::AccessExpr]) -> bool {
    let is_slice =
        |access: &ast::AccessExpr| matches!(access, ast::AccessExpr::Subscript(ast::Subscript::Slice { .. }));
    subscripts.iter().any(is_slice)
}

/// The type of a part of a value; `None` where the value has no such part.
fn type_of_part(whole: ColumnType, step: Step<'_>) -> Option<ColumnType> {
    match (step, whole.ty) {
        (Step::Field(_), _) => places_of(whole.ty, &[step]).pop().map(|(_, ty)| ty),
        (Step::Subscripts(_), Type::Hstore) => Some(Type::Text.into()),
        (Step::Subscripts(_), Type::Jsonb) => Some(whole.base()),
        (Step::Subscripts(subscripts), ty) => {
            let element = ty.element()?;
            Some(if is_slice(subscripts) { whole.base() } else { ColumnType::new(element, whole.modifier) })
        }
    }
}

impl Binder<'_> {
    /// Refuses to write to a field that a column has not, and to a part of what is no array.
    ///
    /// Bug: what stood behind the first name was dropped. Consequence: `UPDATE t SET a.b = 1` wrote
    /// to all of `a`. Fix: 42804.
    pub(super) fn expect_parts(&self, table: &Table, column: usize, target: &Target<'_>) -> Result<()> {
        let of = &table.columns[column];
        let mut within = of.ty;
        for step in &target.path {
            within = match (type_of_part(within, *step), step) {
                (Some(part), _) => part,
                (None, Step::Field(field)) => {
                    let (name, ty) = (fold(field), within.ty);
                    let (state, why) = match ty {
                        Type::Composite(row) => {
                            let why = format!("there is no such column in data type {}", row.sql_name());
                            (SqlState::NO_SUCH_COLUMN, why)
                        }
                        _ => (SqlState::TYPE_MISMATCH, format!("its type {ty} is not a composite type")),
                    };
                    let message = format!("cannot assign to field \"{name}\" of column \"{}\" because {why}", of.name);
                    return Err(self.place(target.column.span, Error::new(state, message)));
                }
                (None, Step::Subscripts(_)) => {
                    let ty = within.ty;
                    let message = format!("cannot subscript type {ty} because it does not support subscripting");
                    return Err(self.place(target.column.span, Error::new(SqlState::TYPE_MISMATCH, message)));
                }
            };
        }
        Ok(())
    }

    /// The type of what is assigned to a target.
    pub(super) fn type_of_target(&self, table: &Table, column: usize, target: &Target<'_>) -> ColumnType {
        let whole = table.columns[column].ty;
        target.path.iter().fold(whole, |within, step| type_of_part(within, *step).unwrap_or(within))
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
            if let Some(field) = target.field() {
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
        self.with_part_at(whole, ty, &target.path, value, target.column.span)
    }

    fn with_part_at(&mut self, whole: Expr, ty: Type, path: &[Step<'_>], value: Expr, span: Span) -> Result<Expr> {
        let Some((first, rest)) = path.split_first() else { return Ok(value) };
        if path.iter().all(|step| matches!(step, Step::Field(_))) {
            return Ok(with_field(whole, ty, path, value));
        }
        // What stands further inside is written to the part, and the part to the whole.
        let value = if rest.is_empty() {
            value
        } else {
            let chain = match first {
                Step::Field(field) => vec![ast::AccessExpr::Dot(ast::Expr::Identifier((*field).clone()))],
                Step::Subscripts(subscripts) => subscripts.to_vec(),
            };
            let part = self.part_of_value(Bound::new(whole.clone(), ty), &chain, span)?;
            self.with_part_at(part.expr, part.ty.ty, rest, value, span)?
        };
        let Step::Subscripts(subscripts) = *first else {
            return Ok(with_field(whole, ty, &path[..1], value));
        };
        if ty == Type::Jsonb {
            let mut args = vec![Bound::new(whole, ty), Bound::new(value, ty)];
            args.extend(self.json_subscripts(subscripts, span)?);
            return Ok(self.call(".jsonb_assign", args, span)?.expr);
        }
        if ty == Type::Hstore {
            let key = self.hstore_subscript(subscripts, span)?;
            let function = &colibri_types::functions::WITH_KEY;
            return Ok(Expr::Call { function, args: vec![whole, key.expr, value] });
        }
        let element = Expr::Const(Datum::Int(ty.element().unwrap_or(Type::Unknown).code().into()));
        let mut args = vec![whole, element, value];
        if is_slice(subscripts) {
            let (missing, bounds) = self.bounds_of_slice(subscripts, span)?;
            args.push(Expr::Const(Datum::Int(missing)));
            args.extend(bounds.into_iter().map(|bound| bound.expr));
            return Ok(Expr::Call { function: &WITH_SLICE, args });
        }
        for access in subscripts {
            let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = access else { continue };
            args.push(self.subscript(index)?.expr);
        }
        Ok(Expr::Call { function: &WITH_VALUE, args })
    }

    /// Refuses DEFAULT for a part of an array.
    pub(super) fn default_of_part(&self, target: &Target<'_>) -> Error {
        let is_field = target.field().is_some();
        let message =
            if is_field { "cannot set a subfield to DEFAULT" } else { "cannot set an array element to DEFAULT" };
        self.place(target.column.span, Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    }
}

/// The places of fields within fields, and their types, as far as there are such.
fn places_of(ty: Type, path: &[Step<'_>]) -> Vec<(usize, ColumnType)> {
    let mut within = ty;
    let place = |step: &Step<'_>| {
        let (Type::Composite(row), Step::Field(field)) = (within, step) else { return None };
        let at = row.row_type().field(&fold(field))?;
        within = row.fields()[at].ty.ty;
        Some((at, row.fields()[at].ty))
    };
    path.iter().map_while(place).collect()
}

/// A row with a field of it written, which may be within a row that is a field itself.
fn with_field(whole: Expr, ty: Type, path: &[Step<'_>], value: Expr) -> Expr {
    let Type::Composite(row) = ty else { return value };
    let mut args = vec![template(row.row_type()), whole, value];
    args.extend(places_of(ty, path).into_iter().map(|(at, _)| Expr::Const(Datum::Int(at as i64))));
    Expr::Call { function: &WITH_FIELD, args }
}

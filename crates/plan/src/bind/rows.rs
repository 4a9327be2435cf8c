//! Rows as values: `ROW (a, b)`, the whole row of what FROM names, and the fields of both.
//!
//! A row's type is known to the binder by the modifier of `record`: that of a relation's rows is
//! its number in the catalogue, that of others tells its place in a list.

use std::sync::Arc;

use colibri_types::cast::CastContext;
use colibri_types::functions::{FIELD, ROW, ROW_IF_THERE, ROW_IS_NOT_NULL, ROW_IS_NULL, ROW_UNLESS_EMPTY};
use colibri_types::row::row_type;
use colibri_types::{ColumnType, Datum, Error, Modifier, Result, Row, RowType, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;

use super::expr::Bound;
use super::logical::Column;
use super::query::OUTPUT_MAX;
use super::{Binder, Scope, fold, in_database};
use crate::expr::Expr;

impl Binder<'_> {
    /// The type of rows, as that of an expression.
    pub(super) fn type_of_rows(&mut self, ty: Arc<RowType>) -> ColumnType {
        // Numbers of rows of temporary tables do not fit.
        let modifier = |at: usize| match i32::try_from(ty.oid) {
            Ok(oid) if ty.oid != Type::Record.oid() => Modifier(oid),
            _ => Modifier(-2 - at as i32),
        };
        let at = self.row_types.iter().position(|known| *known == ty).unwrap_or_else(|| {
            self.row_types.push(Arc::clone(&ty));
            self.row_types.len() - 1
        });
        ColumnType::new(Type::Record, modifier(at))
    }

    /// What rows of a type are made of, if that is known.
    pub(super) fn row_type_of(&self, ty: ColumnType) -> Option<Arc<RowType>> {
        if let Type::Composite(of) = ty.ty {
            return Some(Arc::clone(of.row_type()));
        }
        if ty.ty != Type::Record {
            return None;
        }
        match ty.modifier {
            Modifier(oid @ 0..) => self.row_types.iter().find(|known| known.oid == oid as u32).cloned(),
            Modifier(at) => self.row_types.get(usize::try_from(-2 - i64::from(at)).ok()?).cloned(),
        }
    }

    /// The type of what `_pg_expandarray` gives.
    pub(super) fn type_of_expanded(&mut self, element: Type) -> ColumnType {
        self.type_of_rows(Arc::new(RowType::expanded(element)))
    }

    /// `ROW (a, b)` where a value is asked for.
    pub(super) fn row_value(&mut self, parts: &[ast::Expr], span: Span) -> Result<Bound> {
        let (mut types, mut args) = (Vec::with_capacity(parts.len()), vec![Expr::Const(Datum::Null)]);
        for part in parts {
            if let ast::Expr::QualifiedWildcard(name, _) = part {
                let parts: Vec<CompactString> = super::name_parts(name)?.into_iter().map(fold).collect();
                if let Some(fields) = self.fields_of_variable(&parts, part.span())? {
                    for (_, bound) in fields {
                        types.push(bound.ty);
                        args.push(bound.expr);
                    }
                    continue;
                }
                for (column, expr) in self.columns_of(name, part.span())? {
                    types.push(column.ty);
                    args.push(expr);
                }
                continue;
            }
            let bound = self.expr(part)?;
            let bound = match bound.ty.ty {
                Type::Unknown => {
                    let to = Type::Text.into();
                    Bound::new(self.coerce(bound, to, CastContext::Implicit, part.span())?, to)
                }
                _ => bound,
            };
            types.push(bound.ty);
            args.push(bound.expr);
        }
        if types.len() > OUTPUT_MAX {
            let message = format!("ROW expressions can have at most {OUTPUT_MAX} entries");
            return Err(self.place(span, Error::new(SqlState::TOO_MANY_COLUMNS, message)));
        }
        let ty = Arc::new(RowType::of_values(types.into_iter()));
        args[0] = template(&ty);
        Ok(Bound::new(Expr::Call { function: &ROW, args }, self.type_of_rows(ty)))
    }

    /// The columns of `name.*`.
    fn columns_of(&mut self, name: &ast::ObjectName, span: Span) -> Result<Vec<(Column, Expr)>> {
        let table = self.at(span, in_database(&self.env.database, name))?;
        self.scope().all(Some(&table)).ok_or_else(|| {
            let message = format!("missing FROM-clause entry for table \"{}\"", table.1);
            self.place(span, Error::new(SqlState::NO_SUCH_TABLE, message))
        })
    }

    /// `name.*` where a value is asked for: the whole row.
    pub(super) fn row_of_star(&mut self, name: &ast::ObjectName, span: Span) -> Result<Bound> {
        let table = self.at(span, in_database(&self.env.database, name))?;
        if let Some(row) = self.whole_row(&table)? {
            return Ok(row);
        }
        let parts: Vec<CompactString> = super::name_parts(name)?.into_iter().map(fold).collect();
        match self.variable(&parts, span)? {
            Some(row) if row.ty.ty.is_row() => Ok(row),
            _ => {
                let message = format!("missing FROM-clause entry for table \"{}\"", table.1);
                Err(self.place(span, Error::new(SqlState::NO_SUCH_TABLE, message)))
            }
        }
    }

    /// The whole row of what a name in FROM stands for, from the innermost query outwards.
    pub(super) fn whole_row(&mut self, name: &(Option<CompactString>, CompactString)) -> Result<Option<Bound>> {
        for depth in (0..self.frames.len()).rev() {
            let Some(scope) = self.frames[depth].scopes.last() else { continue };
            let Some((kind, mut ty, mut args)) = scope.whole_row(name) else { continue };
            if let WholeRow::Scalar(ty) = kind {
                let value = args.pop().unwrap_or(Expr::Const(Datum::Null));
                return Ok(Some(Bound::new(self.handed_down(value, depth), ty)));
            }
            // A table's rows have fields by the names of its columns, whatever these are called in FROM.
            if let Some(own) = scope.relation_of(name).and_then(|relation| self.row_of_relation(relation).ok())
                && own.oid == ty.oid
                && own.fields.len() == ty.fields.len()
            {
                ty.fields.clone_from(&own.fields);
            }
            let ty = Arc::new(ty);
            let mut args: Vec<Expr> = args.into_iter().map(|arg| self.handed_down(arg, depth)).collect();
            args.insert(0, template(&ty));
            let function = match kind {
                WholeRow::Marked => &ROW_IF_THERE,
                WholeRow::Unmarked => &ROW_UNLESS_EMPTY,
                _ => &ROW,
            };
            return Ok(Some(Bound::new(Expr::Call { function, args }, self.type_of_rows(ty))));
        }
        Ok(None)
    }

    /// The name in FROM that an expression is, if it is no column's.
    pub(super) fn table_meant(&self, expr: &ast::Expr) -> Option<CompactString> {
        let ident = match expr {
            ast::Expr::Identifier(ident) => ident,
            ast::Expr::Nested(inner) => return self.table_meant(inner),
            _ => return None,
        };
        let name = fold(ident);
        let mut scopes = self.frames.iter().rev().filter_map(|frame| frame.scopes.last());
        let is_column = |scope: &Scope| !matches!(scope.find(None, &name), Ok(None));
        let is_table = |scope: &&Scope| scope.tables.iter().any(|table| table.visible && table.name == name);
        if self.frames.iter().filter_map(|frame| frame.scopes.last()).any(is_column) {
            return None;
        }
        scopes.find(is_table).map(|_| name.clone())
    }

    /// A field of a row.
    pub(super) fn field(&mut self, row: Bound, field: &ast::Ident, span: Span) -> Result<Bound> {
        let name = fold(field);
        if !row.ty.ty.is_row() {
            let message =
                format!("column notation .{name} applied to type {}, which is not a composite type", row.ty.ty);
            return Err(self.place(span, Error::new(SqlState::WRONG_OBJECT_TYPE, message)));
        }
        let ty = self.row_type_of(row.ty);
        let Some(at) = ty.as_ref().and_then(|ty| ty.field(&name)) else {
            let message = match ty.filter(|ty| ty.oid != Type::Record.oid()) {
                Some(ty) => format!("column \"{name}\" not found in data type {}", ty.name),
                None => format!("could not identify column \"{name}\" in record data type"),
            };
            return Err(self.place(span, Error::new(SqlState::NO_SUCH_COLUMN, message)));
        };
        Ok(field_at(row.expr, at, ty.map_or(Type::Unknown.into(), |ty| ty.fields[at].1)))
    }

    /// The fields of a row, for `(row).*`: names and values.
    pub(super) fn fields(&mut self, row: &Bound, span: Span) -> Result<Vec<(CompactString, Bound)>> {
        let Some(ty) = self.row_type_of(row.ty) else {
            let (state, message) = match row.ty.ty {
                Type::Record => (SqlState::FEATURE_NOT_SUPPORTED, "record type has not been registered".to_owned()),
                ty => (SqlState::WRONG_OBJECT_TYPE, format!("type {ty} is not composite")),
            };
            return Err(self.place(span, Error::new(state, message)));
        };
        let field = |(at, (name, ty)): (usize, &(CompactString, ColumnType))| {
            (name.clone(), field_at(row.expr.clone(), at, *ty))
        };
        Ok(ty.fields.iter().enumerate().map(field).collect())
    }

    /// A row that is made where it stands, as one of a composite type: each value becomes what its
    /// field is of. `args`: behind one that says the type, the values.
    pub(super) fn row_as(
        &mut self,
        args: Vec<Expr>,
        from: ColumnType,
        to: Type,
        context: CastContext,
        span: Span,
    ) -> Result<Expr> {
        let types =
            self.row_type_of(from).map_or_else(Vec::new, |row| row.fields.iter().map(|field| field.1).collect());
        let bound = |(value, ty): (Expr, &ColumnType)| match (&value, ty.ty) {
            // A literal without a type of its own.
            (Expr::Const(Datum::Text(_) | Datum::Null), Type::Text) => Bound::new(value, Type::Unknown),
            _ => Bound::new(value, *ty),
        };
        let values = args.into_iter().skip(1).zip(&types).map(bound).map(|bound| (bound, span)).collect();
        self.row_of_values(values, to, context, span)
    }

    /// `ROW (a, b)` as a value of a composite type; `None` for what is no such row, or lists all
    /// columns of a table.
    pub(super) fn row_in(&mut self, row: &ast::Expr, to: ColumnType) -> Result<Option<Expr>> {
        let Some(parts) = super::expr::as_tuple(row) else { return Ok(None) };
        if parts.iter().any(|part| matches!(part, ast::Expr::QualifiedWildcard(..))) {
            return Ok(None);
        }
        let mut values = Vec::with_capacity(parts.len());
        for part in parts.iter() {
            values.push((self.expr(part)?, part.span()));
        }
        self.row_of_values(values, to.ty, CastContext::Explicit, row.span()).map(Some)
    }

    fn row_of_values(
        &mut self,
        values: Vec<(Bound, Span)>,
        to: Type,
        context: CastContext,
        span: Span,
    ) -> Result<Expr> {
        let Type::Composite(of) = to else { return Err(Error::internal("a row of no type")) };
        let wrong = |detail: String| {
            let message = format!("cannot cast type record to {}", of.sql_name());
            Error::new(SqlState::CANNOT_COERCE, message).detail(detail)
        };
        match values.len().cmp(&of.fields().len()) {
            std::cmp::Ordering::Less => return Err(self.place(span, wrong("Input has too few columns.".into()))),
            std::cmp::Ordering::Greater => return Err(self.place(span, wrong("Input has too many columns.".into()))),
            std::cmp::Ordering::Equal => {}
        }
        let mut args = vec![template(of.row_type())];
        for (at, ((value, span), field)) in values.into_iter().zip(of.fields()).enumerate() {
            let from = value.ty.sql_name();
            let typed = self.coerce(value, field.ty, context, span);
            args.push(typed.map_err(|error| match error.state() {
                SqlState::CANNOT_COERCE => self.place(
                    span,
                    wrong(format!("Cannot cast type {from} to {} in column {}.", field.ty.sql_name(), at + 1)),
                ),
                _ => error,
            })?);
        }
        Ok(Expr::Call { function: &ROW, args })
    }

    /// `row IS NULL` and `row IS NOT NULL`, which ask each of its values.
    pub(super) fn row_is_null(&mut self, row: Expr, negated: bool) -> Bound {
        let function = if negated { &ROW_IS_NOT_NULL } else { &ROW_IS_NULL };
        Bound::new(Expr::Call { function, args: vec![row] }, Type::Bool)
    }

    /// Refuses to compare rows of which it is known that they cannot be.
    pub(super) fn expect_similar_rows(&self, left: ColumnType, right: ColumnType, span: Span) -> Result<()> {
        let (Some(left), Some(right)) = (self.row_type_of(left), self.row_type_of(right)) else { return Ok(()) };
        let wrong = |message| self.place(span, Error::new(SqlState::TYPE_MISMATCH, message));
        for (at, ((_, left), (_, right))) in left.fields.iter().zip(&right.fields).enumerate() {
            if left.ty != right.ty {
                return Err(wrong(format!(
                    "cannot compare dissimilar column types {} and {} at record column {}",
                    left.ty,
                    right.ty,
                    at + 1
                )));
            }
        }
        if left.fields.len() != right.fields.len() {
            return Err(wrong("cannot compare record types with different numbers of columns".to_owned()));
        }
        Ok(())
    }
}

pub(super) fn template(ty: &Arc<RowType>) -> Expr {
    Expr::Const(Datum::Row(Arc::new(Row::new(Arc::clone(ty), Vec::new()))))
}

/// A field of a row; of one that is made there, the value that it is made of.
fn field_at(row: Expr, at: usize, ty: ColumnType) -> Bound {
    match row {
        Expr::Call { function, mut args } if std::ptr::eq(function, &ROW) && at + 1 < args.len() => {
            Bound::new(args.swap_remove(at + 1), ty)
        }
        row => Bound::new(Expr::Call { function: &FIELD, args: vec![row, Expr::Const(Datum::Int(at as i64))] }, ty),
    }
}

/// How a whole row is known to be missing, where an outer join found none.
enum WholeRow {
    /// By a column in front of the others, which is NULL in no row.
    Marked,
    /// By having nothing but NULLs.
    Unmarked,
    /// It never is.
    Plain,
    /// It is no row, but what a function gives.
    Scalar(ColumnType),
}

impl Scope {
    /// The relation that a name in FROM stands for.
    fn relation_of(&self, (schema, name): &(Option<CompactString>, CompactString)) -> Option<u32> {
        let is_meant = |table: &&super::ScopeTable| {
            table.visible && table.name == *name && (schema.is_none() || table.schema == *schema)
        };
        self.tables.iter().find(is_meant)?.oid
    }

    fn whole_row(
        &self,
        (schema, name): &(Option<CompactString>, CompactString),
    ) -> Option<(WholeRow, RowType, Vec<Expr>)> {
        let is_meant = |table: &&super::ScopeTable| {
            table.visible && table.name == *name && (schema.is_none() || table.schema == *schema)
        };
        let mut tables = self.tables.iter().filter(is_meant);
        let first = tables.next()?;
        let (mut fields, mut args) = (Vec::new(), Vec::new());
        let mut kind = if first.is_nullable { WholeRow::Unmarked } else { WholeRow::Plain };
        if let (Some(marker), WholeRow::Unmarked) = (first.marker, &kind) {
            kind = WholeRow::Marked;
            args.push(Expr::Column(marker));
        }
        if let (true, [column]) = (first.is_scalar, &first.columns[..]) {
            kind = WholeRow::Scalar(column.ty);
        }
        // A join's name stands for several.
        for table in std::iter::once(first).chain(tables) {
            for (index, column) in table.columns.iter().enumerate().filter(|(index, _)| !table.hidden[*index]) {
                fields.push((column.name.clone(), column.ty));
                args.push(table.column(index));
            }
        }
        let oid = first.oid.map(row_type).filter(|&oid| oid != 0);
        let row_name = match oid {
            Some(_) => first.row_name.clone(),
            None => "record".into(),
        };
        Some((kind, RowType { oid: oid.unwrap_or(Type::Record.oid()), name: row_name, fields }, args))
    }
}

//! `pg_column_compression` and `pg_column_size`: how a value is stored.
//!
//! Values do not say how they were stored once they are read. So of a column of a table the session is
//! asked, which looks at the row again, by its key.

use colibri_types::{Datum, Error, Result, Type};
use sqlparser::ast;

use super::Binder;
use super::expr::Bound;
use crate::expr::{Expr, SessionFunction};

impl Binder<'_> {
    /// `pg_column_compression(value)`
    pub(super) fn column_compression(&mut self, arg: &ast::Expr) -> Result<Bound> {
        let bound = self.expr(arg)?;
        let is_read_elsewhere =
            matches!(arg, ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) | ast::Expr::Subquery(_));
        let found = match self.stored_form("pg_column_compression", &bound.expr)? {
            Some(found) => found,
            None if is_read_elsewhere => {
                return Err(Error::unsupported("pg_column_compression of a column that is not one of a table in FROM"));
            }
            // What is computed is not compressed. It is computed all the same: it may fail.
            None => {
                let null = Expr::Const(Datum::Null);
                let is_null = Expr::IsNull { input: Box::new(bound.expr), negated: false };
                Expr::Case { arms: vec![(is_null, null.clone())], otherwise: Box::new(null) }
            }
        };
        Ok(Bound::new(found, Type::Text))
    }

    /// `pg_column_size(value)`
    pub(super) fn column_size(&mut self, arg: &ast::Expr) -> Result<Bound> {
        let bound = self.expr(arg)?;
        let stored = self.stored_form("pg_column_size", &bound.expr)?;
        let fixed = Expr::Const(Datum::Int(bound.ty.ty.length().into()));
        let function = &colibri_types::functions::COLUMN_SIZE;
        let read = Expr::Call { function, args: vec![fixed, bound.expr] };
        let size = match stored {
            Some(stored) => Expr::Coalesce(vec![stored, read]),
            None => read,
        };
        Ok(Bound::new(size, Type::Int4))
    }

    /// What the session says of how the value of a column of a table is stored; `None` of anything
    /// else.
    fn stored_form(&mut self, name: &'static str, value: &Expr) -> Result<Option<Expr>> {
        let Expr::Column(place) = *value else { return Ok(None) };
        let catalog = self.catalog;
        for candidate in &self.scope().tables {
            let Some(table) = candidate.oid.and_then(|oid| catalog.table(oid)) else { continue };
            let Some(column) = place.checked_sub(candidate.base).filter(|&column| column < table.columns.len()) else {
                continue;
            };
            // The size of what is never compressed follows from the value alone.
            if name == "pg_column_size" && !table.is_tree() && !table.generations.has_compression() {
                return Ok(None);
            }
            let key = match &table.primary_key {
                Some(key) => key.columns.clone(),
                None => vec![table.columns.len()],
            };
            let constant = |number: usize| Expr::Const(Datum::Int(number as i64));
            let of_rows =
                if table.is_tree() { candidate.column(table.columns.len() + 1) } else { constant(table.id as usize) };
            let mut args = vec![of_rows, constant(table.id as usize), constant(column)];
            args.extend(key.into_iter().map(|column| candidate.column(column)));
            return Ok(Some(Expr::Session { function: SessionFunction::Named(name), args }));
        }
        Ok(None)
    }
}

//! COLLATE: there is one order of texts, but what is said of it must not contradict itself.
//!
//! A collation that an expression names goes over to what is made of it, as long as that is a text. Two different ones that
//! meet in one operation are an error.

use compact_str::CompactString;
use sqlparser::ast;
use sqlparser::tokenizer::Span;

use super::expr::Bound;
use super::{Binder, fold, name_parts};
use crate::error::{Error, Result, SqlState};
use crate::types::{Category, Type};

/// The names that there are.
const NAMES: [&str; 4] = ["C", "POSIX", "default", "ucs_basic"];

/// The collation that the parts bound so far of an expression name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Named(Option<CompactString>);

fn is_collatable(ty: Type) -> bool {
    let ty = ty.element().unwrap_or(ty);
    matches!(ty.category(), Category::String | Category::Unknown)
}

impl Binder<'_> {
    /// Binds an expression whose collation is told to the one around it, if there is one.
    pub(super) fn with_collation(
        &mut self,
        span: Span,
        bind: impl FnOnce(&mut Self) -> Result<Bound>,
    ) -> Result<Bound> {
        let around = self.collation.replace(Named::default());
        let bound = bind(self);
        let mut own = std::mem::replace(&mut self.collation, around).unwrap_or_default();
        let bound = bound?;
        if !is_collatable(bound.ty.ty) {
            own = Named::default();
        }
        self.meet(own, span)?;
        Ok(bound)
    }

    /// Binds what has no part in the collation of the expression at hand: a query, a condition of CASE.
    pub(super) fn apart<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let around = self.collation.take();
        let bound = bind(self);
        self.collation = around;
        bound
    }

    /// What was bound so far has become something else than a text.
    pub(super) fn forget_collation(&mut self, ty: Type) {
        if let (Some(named), false) = (&mut self.collation, is_collatable(ty)) {
            *named = Named::default();
        }
    }

    fn meet(&mut self, part: Named, span: Span) -> Result<()> {
        let Some(whole) = &mut self.collation else { return Ok(()) };
        match (&whole.0, part.0) {
            (_, None) => Ok(()),
            (None, part) => {
                whole.0 = part;
                Ok(())
            }
            (Some(whole), Some(part)) if *whole == part => Ok(()),
            (Some(whole), Some(part)) => {
                let message = format!("collation mismatch between explicit collations \"{whole}\" and \"{part}\"");
                Err(self.place(span, Error::new(SqlState("42P21"), message)))
            }
        }
    }

    /// `input COLLATE name`
    pub(super) fn collate(&mut self, input: &ast::Expr, collation: &ast::ObjectName, span: Span) -> Result<Bound> {
        let parts = name_parts(collation)?;
        let name = parts.last().map(|ident| fold(ident)).unwrap_or_default();
        if let [.., schema, _] = parts[..]
            && !crate::system::is_system_schema(&fold(schema))
        {
            let schema = fold(schema);
            let error = if self.catalog.schema(&schema).is_none() {
                Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist"))
            } else {
                no_such_collation(&name)
            };
            return Err(self.place(span, error));
        }
        if !NAMES.contains(&name.as_str()) {
            return Err(self.place(span, no_such_collation(&name)));
        }
        // What it says of its operand's collation is over here.
        let input = self.apart(|binder| binder.expr(input))?;
        if !matches!(input.ty.ty.category(), Category::String | Category::Unknown) {
            let message = format!("collations are not supported by type {}", input.ty.ty);
            return Err(self.place(span, Error::new(SqlState::TYPE_MISMATCH, message)));
        }
        self.meet(Named(Some(name)), span)?;
        Ok(input)
    }
}

fn no_such_collation(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("collation \"{name}\" for encoding \"UTF8\" does not exist"))
}

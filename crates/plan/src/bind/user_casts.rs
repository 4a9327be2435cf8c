//! Casts that users have defined: they are looked for where the system has none.

use std::sync::Arc;

use colibri_catalog::{CastMethod, UserCast};
use colibri_types::{ColumnType, Error, Result, Type, cast::CastContext};
use sqlparser::tokenizer::Span;

use super::Binder;
use super::expr::Bound;
use crate::expr::Expr;

impl Binder<'_> {
    /// The cast of a user's from one type to another that a context allows.
    pub(super) fn user_cast(&self, from: Type, to: ColumnType, context: CastContext) -> Option<Arc<UserCast>> {
        let to_number = to.domain.map_or(to.ty.oid(), |domain| domain.oid());
        let cast = self.catalog.cast_between(from.oid(), to_number)?;
        let is_allowed = match cast.context {
            'i' => true,
            'a' => context >= CastContext::Assignment,
            _ => context >= CastContext::Explicit,
        };
        is_allowed.then(|| Arc::clone(cast))
    }

    /// A value cast by such a cast.
    pub(super) fn cast_by(&mut self, cast: &UserCast, bound: Bound, to: ColumnType, span: Span) -> Result<Expr> {
        let from = bound.ty;
        let given = match &cast.method {
            CastMethod::Routine(id) => {
                let routine = self.catalog.routine(*id).cloned();
                let routine = routine.ok_or_else(|| Error::internal("a cast has no function"))?;
                self.call_for_cast(routine, bound, span)?
            }
            CastMethod::Builtin(name) => {
                let function = self.builtin.functions.function(name, &[from.ty])?;
                Bound::new(Expr::Call { function, args: vec![bound.expr] }, function.result)
            }
            CastMethod::Text | CastMethod::Same => {
                let text = self.coerce(bound, Type::Text.into(), CastContext::Explicit, span)?;
                Bound::new(text, Type::Text)
            }
        };
        if given.ty.ty == to.ty && given.ty.domain == to.domain {
            return Ok(given.expr);
        }
        self.coerce(given, to, CastContext::Explicit, span)
    }
}

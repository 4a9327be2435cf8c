//! Functions, operators and aggregates over range types that users have defined.
//!
//! They are those of the system's ranges, which are told the type by its code: see
//! [`colibri_types::functions::of_user_range`]. A name of such a type is called to make a value of
//! it.

use colibri_types::cast::CastContext;
use colibri_types::functions::{OfUserRange, user_range_made, user_ranges_as_array, user_ranges_gathered};
use colibri_types::{Datum, Result, Type};
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;

use super::expr::Bound;
use super::{Binder, types};
use crate::expr::Expr;

impl Binder<'_> {
    /// The call of a function that is told a user's range type.
    pub(super) fn user_range_call(&mut self, call: OfUserRange, args: Vec<(Bound, Span)>) -> Result<Bound> {
        let code = Expr::Const(Datum::Int(call.range.code().into()));
        let mut typed = vec![code];
        for (at, (bound, span)) in args.into_iter().enumerate() {
            typed.push(self.coerce(bound, call.arg(at).into(), CastContext::Implicit, span)?);
        }
        Ok(Bound::new(Expr::Call { function: call.function, args: typed }, call.result()))
    }

    /// The function that makes a value of a user's range type, if a name is that of one; `None`
    /// where the call is a cast, or no such call.
    pub(super) fn user_range_maker(&self, schema: Option<&str>, name: &str, args: &[Type]) -> Option<OfUserRange> {
        let (found, is_array) = types::find_user_type(self.catalog, schema, name, self.types_path())?;
        let ty = found.ty();
        let is_cast = args.len() == 1 && (!found.is_multirange() || Some(args[0]) != ty.range_within());
        if is_array || is_cast { None } else { user_range_made(ty, args.len()) }
    }

    /// The ranges of a user's multirange as an array of them; gives other values back.
    pub(super) fn user_ranges_listed(&mut self, multirange: Bound) -> Result<Bound> {
        let Some(call) = user_ranges_as_array(multirange.ty.ty) else { return Ok(multirange) };
        let bound = self.user_range_call(call, vec![(multirange, Span::empty())])?;
        Ok(Bound::new(bound.expr, call.range.array_of()))
    }

    /// `range_agg` and `range_intersect_agg` of a user's ranges: what is made of the array of all.
    /// `None` of other types.
    pub(super) fn user_ranges_gathered(
        &mut self,
        name: &str,
        args: &super::functions::Args<'_>,
        filter: Option<&ast::Expr>,
        span: Span,
    ) -> Result<Option<Bound>> {
        let [expr] = args.exprs[..] else { return Ok(None) };
        if self.catalog.types().all(|ty| ty.range().is_none()) {
            return Ok(None);
        }
        let ty = self.apart(|binder| binder.expr(expr))?.ty.ty;
        let Some(call) = user_ranges_gathered(name, ty) else { return Ok(None) };
        let array = self.aggregate("array_agg", args, filter, span)?;
        let code = Expr::Const(Datum::Int(call.range.code().into()));
        let of = if name == "range_agg" { call.multirange } else { ty };
        Ok(Some(Bound::new(Expr::Call { function: call.function, args: vec![code, array.expr] }, of)))
    }

    /// A call of the name of a user's range type, with its schema, that makes a value of it.
    pub(super) fn user_range_in_schema(
        &mut self,
        schema: &str,
        name: &str,
        exprs: &[&ast::Expr],
    ) -> Result<Option<Bound>> {
        let mut args = Vec::with_capacity(exprs.len());
        for expr in exprs {
            args.push((self.expr(expr)?, expr.span()));
        }
        let given: Vec<Type> = args.iter().map(|(bound, _)| bound.ty.ty).collect();
        match self.user_range_maker(Some(schema), name, &given) {
            Some(call) => self.user_range_call(call, args).map(Some),
            None => Ok(None),
        }
    }
}

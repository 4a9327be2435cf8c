//! Calls of aggregates that users have defined.
//!
//! What such an aggregate is called on is gathered as `array_agg` gathers it, with DISTINCT, ORDER BY,
//! FILTER and OVER as they stand at the call. Several arguments are gathered as rows. A [`Fold`]
//! makes the value of that: it calls the transition for one after the other, and then the final
//! function.

use std::sync::Arc;

use colibri_catalog::{AggregateParts, Routine, RoutineType};
use colibri_types::{ColumnType, Datum, Error, Result, SqlState, Type, cast::CastContext};
use sqlparser::ast;
use sqlparser::tokenizer::Span;

use super::expr::{Bound, known};
use super::polymorphic::Meaning;
use super::{Binder, Scope, ScopeTable, logical};
use crate::expr::{Expr, Fold, SessionFunction};

/// What functions behind operators do, of which aggregates are often made: `s` is the state, `a1`
/// the value.
fn of_operator(name: &str) -> Option<&'static str> {
    Some(match name {
        "int2pl" | "int4pl" | "int8pl" | "int24pl" | "int42pl" | "int48pl" | "int84pl" | "int28pl" | "int82pl"
        | "float4pl" | "float8pl" | "float48pl" | "float84pl" | "numeric_add" | "interval_pl" | "cash_pl" => "s + a1",
        "int2mi" | "int4mi" | "int8mi" | "float4mi" | "float8mi" | "numeric_sub" => "s - a1",
        "int2mul" | "int4mul" | "int8mul" | "float4mul" | "float8mul" | "numeric_mul" => "s * a1",
        "textcat" | "jsonb_concat" | "byteacat" | "textanycat" | "tsvector_concat" => "s || a1",
        "int2larger" | "int4larger" | "int8larger" | "float4larger" | "float8larger" | "numeric_larger"
        | "text_larger" | "date_larger" | "timestamp_larger" | "timestamptz_larger" | "interval_larger" => {
            "greatest(s, a1)"
        }
        "int2smaller"
        | "int4smaller"
        | "int8smaller"
        | "float4smaller"
        | "float8smaller"
        | "numeric_smaller"
        | "text_smaller"
        | "date_smaller"
        | "timestamp_smaller"
        | "timestamptz_smaller"
        | "interval_smaller" => "least(s, a1)",
        "int2and" | "int4and" | "int8and" | "bitand" => "s & a1",
        "int2or" | "int4or" | "int8or" | "bitor" => "s | a1",
        "booland_statefunc" => "s AND a1",
        "boolor_statefunc" => "s OR a1",
        "int4inc" | "int8inc" => "s + 1",
        _ => return None,
    })
}

impl Binder<'_> {
    /// A call of such an aggregate, for arguments of some types.
    pub(super) fn user_aggregate(
        &mut self,
        function: &ast::Function,
        routine: &Arc<Routine>,
        given: &[ColumnType],
        span: Span,
    ) -> Result<Bound> {
        let Some(parts) = routine.aggregate.as_deref() else {
            return Err(Error::internal("a function is called as an aggregate"));
        };
        let fold = self.apart_from_all(|binder| binder.fold(routine, parts, given));
        let (fold, ty) = self.at(span, fold)?;
        let mut gathering = function.clone();
        gathering.name = ast::ObjectName::from(vec![ast::Ident::new("pg_catalog"), ast::Ident::new("array_agg")]);
        let one = |expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr));
        if let ast::FunctionArguments::List(list) = &mut gathering.args {
            let mut exprs = Vec::new();
            for arg in &list.args {
                match arg {
                    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))
                    | ast::FunctionArg::Named { arg: ast::FunctionArgExpr::Expr(expr), .. } => exprs.push(expr.clone()),
                    _ => {}
                }
            }
            list.args = match exprs.len() {
                0 => vec![one(ast::Expr::value(ast::Value::Boolean(true)))],
                1 => exprs.into_iter().map(one).collect(),
                _ => vec![one(ast::Expr::Tuple(exprs))],
            };
        }
        let raw = std::mem::replace(&mut self.gathers, true);
        let gathered = self.expr(&ast::Expr::Function(gathering));
        self.gathers = raw;
        let function = SessionFunction::Fold(Arc::new(fold));
        Ok(Bound::new(Expr::Session { function, args: vec![gathered?.expr] }, ty))
    }

    /// Binds something where no names are in sight.
    fn apart_from_all<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let frames = std::mem::replace(&mut self.frames, vec![super::Frame::default()]);
        let variables = self.variables.take();
        let text = std::mem::take(&mut self.text);
        let bound = self.stored(bind);
        self.text = text;
        self.variables = variables;
        self.frames = frames;
        bound
    }

    /// How an aggregate's value is made of arguments of some types, and its type.
    ///
    /// # Errors
    /// Its functions are not there, or do not fit.
    pub fn fold_of(&mut self, routine: &Routine, given: &[ColumnType]) -> Result<(Fold, ColumnType)> {
        let parts = routine.aggregate.as_deref().ok_or_else(|| Error::internal("a function is no aggregate"))?;
        self.apart_from_all(|binder| binder.fold(routine, parts, given))
    }

    fn fold(&mut self, routine: &Routine, parts: &AggregateParts, given: &[ColumnType]) -> Result<(Fold, ColumnType)> {
        let declared: Vec<ColumnType> = routine.given().filter_map(|arg| arg.ty.value()).collect();
        let mut pairs = Vec::with_capacity(given.len());
        let mut types = Vec::with_capacity(given.len());
        for (at, ty) in given.iter().enumerate() {
            let wanted = declared.get(at.min(declared.len().saturating_sub(1))).copied();
            let ty = ColumnType { ty: known(ty.ty), ..*ty };
            // Of the values that are left, each is given by itself.
            pairs.extend(wanted.map(|wanted| match wanted.ty {
                Type::AnyArray if !ty.ty.is_array() => (Type::AnyElement, ty.ty),
                Type::AnyCompatibleArray if !ty.ty.is_array() => (Type::AnyCompatible, ty.ty),
                other => (other, ty.ty),
            }));
            types.push(ty);
        }
        let no_function = || {
            let shown: Vec<&str> = types.iter().map(|ty| ty.sql_name()).collect();
            let message = format!("function {}({}) does not exist", routine.name, shown.join(", "));
            Error::new(SqlState::NO_SUCH_FUNCTION, message)
        };
        let meaning = Meaning::of(&pairs).map_err(|misfit| misfit.error(no_function))?;
        let actual = |ty: &RoutineType| -> ColumnType {
            match ty.value() {
                Some(ty) if ty.ty.is_polymorphic() => meaning.actual(ty.ty).into(),
                Some(ty) => ty,
                None => Type::Void.into(),
            }
        };
        let state = actual(&parts.state);
        let (transition, is_strict) = self.part_of_aggregate(&parts.transition, state, &types, types.len())?;
        if transition.ty.ty != state.ty && transition.ty.ty != Type::Unknown {
            let message =
                format!("return type of transition function {} is not {}", short(&parts.transition), state.sql_name());
            return Err(Error::new(SqlState::TYPE_MISMATCH, message));
        }
        let transition = self.coerce(transition, state, CastContext::Assignment, Span::empty())?;
        let initial = match &parts.initial {
            None => None,
            Some(text) => Some(self.initial(text, state)?),
        };
        if is_strict && initial.is_none() {
            let fits =
                types.first().is_some_and(|first| first.ty == state.ty || first.ty.is_text() && state.ty.is_text());
            if !fits && !given.is_empty() {
                let message = "must not omit initial value when transition function is strict and transition type is not compatible with input type";
                return Err(Error::new(SqlState("42P13"), message));
            }
        }
        let (finish, ty) = match &parts.finish {
            None => (None, state),
            Some(finish) => {
                let extra = if parts.finish_extra { types.len() } else { 0 };
                let (bound, is_strict) = self.part_of_aggregate(finish, state, &types, extra)?;
                let ty = bound.ty;
                (Some((bound.expr, is_strict)), ty)
            }
        };
        let (name, values) = (routine.name.clone(), types.len());
        Ok((Fold { name, initial, transition, is_strict, values, finish }, ty))
    }

    fn initial(&mut self, text: &str, state: ColumnType) -> Result<Datum> {
        let bound = Bound::literal(text, Span::empty());
        match self.coerce(bound, state, CastContext::Explicit, Span::empty())? {
            Expr::Const(value) => Ok(value),
            _ => colibri_types::text_io::parse(state.ty, state.modifier, text, self.env),
        }
    }

    /// A call of one of an aggregate's functions with the state and so many of the arguments, and
    /// whether it is strict.
    fn part_of_aggregate(
        &mut self,
        name: &str,
        state: ColumnType,
        types: &[ColumnType],
        values: usize,
    ) -> Result<(Bound, bool)> {
        let operator = name.strip_prefix("pg_catalog.").and_then(of_operator);
        let text = match operator {
            Some(text) => text.to_owned(),
            None => {
                let args: String = (1..=values).map(|at| format!(", a{at}")).collect();
                format!("{name}(s{args})")
            }
        };
        let parsed = colibri_syntax::parse_expr(&text)?;
        let column = |(name, ty): (String, ColumnType)| logical::Column {
            name: name.into(),
            ty,
            origin: None,
            collation: super::collation::Collation::Default,
        };
        let values = types.iter().enumerate().map(|(at, ty)| (format!("a{}", at + 1), *ty));
        let columns: Vec<logical::Column> =
            std::iter::once(("s".to_owned(), state)).chain(values).map(column).collect();
        let width = columns.len();
        let mut scope = Scope { no_calls: "an aggregate", width, ..Scope::default() };
        scope.tables.push(ScopeTable {
            name: "values".into(),
            schema: None,
            base: 0,
            hidden: vec![false; columns.len()],
            columns,
            visible: true,
            oid: None,
            marker: None,
            row_name: Default::default(),
            is_scalar: false,
            is_nullable: false,
            computed: None,
            read: None,
        });
        self.frame().scopes.push(scope);
        let bound = self.expr(&parsed);
        self.frame().scopes.pop();
        let bound = bound?;
        let is_strict = operator.is_some_and(|text| !text.contains("AND") && !text.contains("OR"))
            || strictness(&bound.expr).unwrap_or(false);
        Ok((bound, is_strict))
    }
}

fn strictness(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Session { function: SessionFunction::Routine(call), .. } => Some(call.routine.strict),
        Expr::Call { function, .. } => Some(function.strict),
        Expr::Cast { input, .. } | Expr::Domain { input, .. } => strictness(input),
        _ => None,
    }
}

/// The name of a function without that of the system's schema.
fn short(name: &str) -> &str {
    name.strip_prefix("pg_catalog.").unwrap_or_else(|| name.strip_prefix("public.").unwrap_or(name))
}

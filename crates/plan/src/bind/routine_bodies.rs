//! Bodies of functions in SQL that are nothing but an expression.
//!
//! ```text
//! CREATE FUNCTION f(a int, b int) … AS 'SELECT a + 2 * $2'
//! f(x, 7)  ──►  a call with the body  #0 + 2 * #1  over the row (x, 7)
//! ```
//! Such a call is evaluated as an expression, where any other one runs statements in a session of its
//! own. PostgreSQL puts the body in the place of the call; here it stays a call, so that each argument
//! is evaluated once, and an index on the function is still one on a function that may be replaced.
//!
//! Invariants: a body is never more volatile than its function says it is. What cannot be bound here
//! is run as a statement, which tells what is wrong with it.

use colibri_catalog::{Argument, Routine, RoutineLanguage, RoutineVolatility};
use colibri_types::{ColumnType, Result, Type, cast::CastContext};
use compact_str::CompactString;
use sqlparser::tokenizer::Span;

use super::write::is_repeatable;
use super::{Binder, Frame, Scope, ScopeTable, collation, logical, rewrite};
use crate::expr::{Expr, SessionFunction, walk};

/// Functions inside each other whose bodies become expressions.
const BODIES_MAX: usize = 8;
/// Expressions inside each other in a body that becomes one.
const DEPTH_MAX: usize = 40;

/// What stands behind the word SELECT at the beginning of a statement.
pub fn behind_select(text: &str) -> Option<&str> {
    const SELECT: &str = "select";
    let text = text.trim_ascii_start();
    let (word, rest) = text.split_at_checked(SELECT.len())?;
    (word.eq_ignore_ascii_case(SELECT) && rest.starts_with(|c: char| c.is_ascii_whitespace())).then_some(rest)
}

impl Binder<'_> {
    /// The body of a function as an expression over what it is given, if it can be one.
    pub(super) fn body_of(
        &mut self,
        routine: &Routine,
        takes: &[Argument],
        types: &[ColumnType],
        result: ColumnType,
    ) -> Option<Expr> {
        let gives_value = !routine.set
            && !routine.is_procedure
            && routine.aggregate.is_none()
            && !result.ty.is_row()
            && !matches!(result.ty, Type::Void | Type::Record);
        let is_plain = routine.language == RoutineLanguage::Sql
            && routine.settings.is_empty()
            && !routine.security_definer
            && types.iter().all(|ty| !ty.ty.is_row() && ty.ty != Type::Record);
        let is_open = self.bodies.contains(&routine.id) || self.bodies.len() >= BODIES_MAX;
        if !gives_value || !is_plain || is_open || self.rule.is_some() || self.meanings.is_some() {
            return None;
        }
        let text = behind_select(&routine.body)?.trim_ascii_end();
        let text = text.strip_suffix(';').unwrap_or(text);
        let expr = colibri_syntax::parse_expr(text).ok()?;
        let needs = self.needs.len();
        let (used, effects, calls) = (self.used.clone(), self.has_side_effects, self.calls_routines);
        self.bodies.push(routine.id);
        let bound = self.over_arguments(routine, takes, types, |binder| {
            let bound = binder.expr(&expr)?;
            binder.coerce(bound, result, CastContext::Assignment, Span::empty())
        });
        self.bodies.pop();
        (self.has_side_effects, self.calls_routines) = (effects, calls);
        let body = bound.ok().filter(|body| is_of_arguments(body) && is_as_steady(body, routine.volatility));
        match &body {
            // What its names mean depends on the search path, also within a view.
            Some(_) => self.is_personal |= self.is_stored,
            None => {
                self.needs.truncate(needs);
                self.used = used;
            }
        }
        body
    }

    /// Binds something that sees what a function is given, as columns and by number, and nothing else.
    fn over_arguments(
        &mut self,
        routine: &Routine,
        takes: &[Argument],
        types: &[ColumnType],
        bind: impl FnOnce(&mut Self) -> Result<Expr>,
    ) -> Result<Expr> {
        let column = |(arg, ty): (&Argument, &ColumnType)| logical::Column {
            name: arg.name.clone(),
            ty: *ty,
            origin: None,
            collation: collation::Collation::Default,
        };
        let columns: Vec<logical::Column> = takes.iter().zip(types).map(column).collect();
        let mut scope = Scope { no_calls: "functions", width: columns.len(), ..Scope::default() };
        scope.tables.push(ScopeTable {
            name: routine.name.clone(),
            schema: None,
            base: 0,
            hidden: columns.iter().map(|column| column.name.is_empty()).collect(),
            columns,
            visible: true,
            oid: None,
            marker: None,
            row_name: CompactString::default(),
            is_scalar: false,
            is_nullable: false,
            computed: None,
            read: None,
        });
        let numbered: Vec<Option<Type>> = types.iter().map(|ty| Some(ty.ty)).collect();
        let params = std::mem::replace(&mut self.params, numbered);
        let named = std::mem::take(&mut self.params_named);
        let tested = std::mem::take(&mut self.params_tested);
        let domains = std::mem::take(&mut self.param_domains);
        let with = std::mem::take(&mut self.with);
        let frames = std::mem::replace(&mut self.frames, vec![Frame::default()]);
        let (variables, collation) = (self.variables.take(), self.collation.take());
        let (by, is_stored) = (self.by.take(), std::mem::replace(&mut self.is_stored, false));
        let text = std::mem::take(&mut self.text);
        self.frame().scopes.push(scope);
        let mut bound = bind(self);
        let asked = self.params.len();
        self.text = text;
        (self.by, self.is_stored) = (by, is_stored);
        (self.variables, self.collation) = (variables, collation);
        (self.frames, self.with) = (frames, with);
        (self.params, self.params_named) = (params, named);
        (self.params_tested, self.param_domains) = (tested, domains);
        if asked > types.len() {
            return Err(colibri_types::Error::internal("a body asks for an argument that there is not"));
        }
        if let Ok(body) = &mut bound {
            numbers_to_columns(body);
        }
        bound
    }
}

/// Arguments that are named by number become columns.
fn numbers_to_columns(expr: &mut Expr) {
    if let Expr::Param(number) = expr {
        *expr = Expr::Column(*number);
        return;
    }
    walk::for_each_child_mut(expr, &mut numbers_to_columns);
}

/// Whether a body needs nothing but its arguments: no query, and nothing of the session but functions
/// with such bodies. And it does not go too deep.
fn is_of_arguments(body: &Expr) -> bool {
    let is_other = |part: &Expr| match part {
        Expr::Subquery(_) | Expr::Aggregate(_) | Expr::Extra(_) | Expr::Arg(_) | Expr::Domain { .. } => true,
        Expr::Session { function: SessionFunction::Routine(call), .. } => call.body.is_none(),
        Expr::Session { .. } => true,
        _ => false,
    };
    !rewrite::any(body, &is_other) && depth(body) <= DEPTH_MAX
}

fn depth(expr: &Expr) -> usize {
    let mut deepest = 0;
    if let Expr::Session { function: SessionFunction::Routine(call), .. } = expr {
        deepest = call.body.as_ref().map_or(0, depth);
    }
    rewrite::for_each_child(expr, &mut |child| deepest = deepest.max(depth(child)));
    deepest + 1
}

/// Whether a body gives the same as often as its function says.
fn is_as_steady(body: &Expr, volatility: RoutineVolatility) -> bool {
    match volatility {
        RoutineVolatility::Immutable => is_repeatable(body),
        RoutineVolatility::Stable => !rewrite::is_volatile(body),
        RoutineVolatility::Volatile => true,
    }
}

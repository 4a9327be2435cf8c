//! Binding calls: functions, what has a syntax of its own, what only the session can do.

mod aggregates;
pub(super) mod json;
mod of_operators;
mod ordered_sets;
pub(super) mod search;
mod windows;
mod xml;

use std::sync::Arc;

use colibri_catalog::Relation;
use colibri_types::{
    Category, ColumnType, Datum, EnumType, Error, Result, SqlState, Type,
    cast::CastContext,
    functions::{ENUM_RANGE, Volatility, is_of_extension, of_user_range},
    resolve,
};
use sqlparser::ast;
use sqlparser::ast::Spanned;
use sqlparser::tokenizer::Span;

pub(super) use self::windows::{NamedWindows, WINDOWS_PER_LEVEL};
use super::collation;
use super::expr::Bound;
use super::{Binder, fold, logical, name_parts, rewrite, start_of, whole};
use crate::expr::{Expr, SessionFunction, SubqueryKind};
use crate::plan::WindowFunction;

type SessionFunctionEntry = (&'static str, &'static [Type], usize, Type, bool);

/// Functions that only the session can compute: name, arguments at least and at most, result, and
/// whether calling it changes anything.
const SESSION_FUNCTIONS: &[SessionFunctionEntry] = &[
    ("nextval", &[Type::Text], 1, Type::Int8, true),
    ("currval", &[Type::Text], 1, Type::Int8, false),
    ("lastval", &[], 0, Type::Int8, false),
    ("setval", &[Type::Text, Type::Int8, Type::Bool], 2, Type::Int8, true),
    ("current_setting", &[Type::Text, Type::Bool], 1, Type::Text, false),
    ("set_config", &[Type::Text, Type::Text, Type::Bool], 3, Type::Text, true),
    ("set_limit", &[Type::Float4], 1, Type::Float4, true),
    ("pg_get_serial_sequence", &[Type::Text, Type::Text], 2, Type::Text, false),
    ("pg_trigger_depth", &[], 0, Type::Int4, false),
    ("txid_current", &[], 0, Type::Int8, false),
    ("pg_current_xact_id", &[], 0, Type::Int8, false),
    ("colibri_commit_token", &[], 0, Type::Text, false),
    ("colibri_topic_partitions", &[Type::Oid], 1, Type::Int4, false),
    ("colibri_topic_first", &[Type::Oid, Type::Int4], 2, Type::Int8, false),
    ("colibri_topic_last", &[Type::Oid, Type::Int4], 2, Type::Int8, false),
    ("colibri_topic_channel", &[Type::Oid], 1, Type::Text, false),
    ("colibri_topic_trim", &[Type::Oid], 1, Type::Void, true),
    ("colibri_topic_trim", &[Type::Oid, Type::Int4, Type::Int8], 3, Type::Void, true),
    ("colibri_topic_wait", &[Type::Oid, Type::TimestampTz], 2, Type::Void, true),
    ("pg_advisory_lock", BY_ONE, 1, Type::Void, true),
    ("pg_advisory_lock", BY_TWO, 2, Type::Void, true),
    ("pg_advisory_lock_shared", BY_ONE, 1, Type::Void, true),
    ("pg_advisory_lock_shared", BY_TWO, 2, Type::Void, true),
    ("pg_advisory_xact_lock", BY_ONE, 1, Type::Void, true),
    ("pg_advisory_xact_lock", BY_TWO, 2, Type::Void, true),
    ("pg_advisory_xact_lock_shared", BY_ONE, 1, Type::Void, true),
    ("pg_advisory_xact_lock_shared", BY_TWO, 2, Type::Void, true),
    ("pg_try_advisory_lock", BY_ONE, 1, Type::Bool, true),
    ("pg_try_advisory_lock", BY_TWO, 2, Type::Bool, true),
    ("pg_try_advisory_lock_shared", BY_ONE, 1, Type::Bool, true),
    ("pg_try_advisory_lock_shared", BY_TWO, 2, Type::Bool, true),
    ("pg_try_advisory_xact_lock", BY_ONE, 1, Type::Bool, true),
    ("pg_try_advisory_xact_lock", BY_TWO, 2, Type::Bool, true),
    ("pg_try_advisory_xact_lock_shared", BY_ONE, 1, Type::Bool, true),
    ("pg_try_advisory_xact_lock_shared", BY_TWO, 2, Type::Bool, true),
    ("pg_advisory_unlock", BY_ONE, 1, Type::Bool, true),
    ("pg_advisory_unlock", BY_TWO, 2, Type::Bool, true),
    ("pg_advisory_unlock_shared", BY_ONE, 1, Type::Bool, true),
    ("pg_advisory_unlock_shared", BY_TWO, 2, Type::Bool, true),
    ("pg_advisory_unlock_all", &[], 0, Type::Void, true),
    ("pg_notify", &[Type::Text, Type::Text], 2, Type::Void, true),
    ("pg_notification_queue_usage", &[], 0, Type::Float8, true),
];

/// Functions of arrays and of what is put into them, whose types become a common one.
pub const COMPATIBLE_FUNCTIONS: [&str; 8] = [
    "array_append",
    "array_cat",
    "array_position",
    "array_positions",
    "array_prepend",
    "array_remove",
    "array_replace",
    "width_bucket",
];

/// What looks like a call of one argument and has rules of its own: see [`Binder::special`].
const WORDS: [&str; 22] = [
    "array",
    "cast",
    "coalesce",
    "enum_first",
    "enum_last",
    "enum_range",
    "extract",
    "greatest",
    "grouping",
    "json_build_array",
    "json_build_object",
    "jsonb_build_array",
    "jsonb_build_object",
    "least",
    "nullif",
    "pg_column_compression",
    "pg_column_size",
    "pg_typeof",
    "position",
    "row",
    "to_json",
    "to_jsonb",
];

/// What advisory locks are named by.
const BY_ONE: &[Type] = &[Type::Int8];
const BY_TWO: &[Type] = &[Type::Int4, Type::Int4];

/// Whether one of them can be called with this number of arguments.
fn takes(&(_, types, args_min, ..): &SessionFunctionEntry, args: usize) -> bool {
    (args_min..=types.len()).contains(&args)
}

/// Names that are written without parentheses, or may be.
fn session_value(name: &str) -> Option<&'static str> {
    Some(match name {
        "current_user" | "user" | "current_role" => "current_user",
        "session_user" => "session_user",
        "current_catalog" | "current_database" => "current_database",
        "current_schema" => "current_schema",
        "version" => "version",
        _ => return None,
    })
}

/// Whether a word is a call without parentheses.
pub(super) fn is_value(name: &str) -> bool {
    matches!(
        name,
        "current_date"
            | "current_time"
            | "current_timestamp"
            | "localtime"
            | "localtimestamp"
            | "current_user"
            | "session_user"
            | "current_role"
            | "current_catalog"
            | "user"
    )
}

pub(super) struct Args<'a> {
    pub(super) exprs: Vec<&'a ast::Expr>,
    star: bool,
    distinct: bool,
    order: &'a [ast::OrderByExpr],
}

impl Args<'_> {
    /// Takes VARIADIC away, which says nothing of an aggregate: none takes a list of arguments.
    fn forget_variadic(&mut self) {
        if let Some(last) = self.exprs.last_mut()
            && let ast::Expr::Prefixed { prefix, value } = *last
            && prefix.value == colibri_syntax::VARIADIC_MARK
        {
            *last = value;
        }
    }
}

fn args(function: &ast::Function) -> Result<Args<'_>> {
    let mut args = Args { exprs: Vec::new(), star: false, distinct: false, order: &[] };
    let list = match &function.args {
        ast::FunctionArguments::None => return Ok(args),
        ast::FunctionArguments::Subquery(_) => {
            return Err(Error::unsupported(format_args!("a query as the arguments of {}", function.name)));
        }
        ast::FunctionArguments::List(list) => list,
    };
    args.distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
    for arg in &list.args {
        match arg {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => args.exprs.push(expr),
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard) => args.star = true,
            other => return Err(Error::unsupported(format_args!("the argument {other}"))),
        }
    }
    for clause in &list.clauses {
        match clause {
            ast::FunctionArgumentClause::OrderBy(order) => args.order = order,
            other => return Err(Error::unsupported(format_args!("{other} in a call"))),
        }
    }
    Ok(args)
}

/// The name and the argument of a call that may be a field of a row.
fn projected(function: &ast::Function) -> Option<(&ast::Ident, &ast::Expr)> {
    let [ast::ObjectNamePart::Identifier(name)] = &function.name.0[..] else { return None };
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg))] = &list.args[..] else { return None };
    let is_plain = function.over.is_none()
        && function.filter.is_none()
        && function.within_group.is_empty()
        && list.clauses.is_empty()
        && list.duplicate_treatment.is_none();
    is_plain.then_some((name, arg))
}

impl Binder<'_> {
    /// A call as the parser gives it.
    pub(super) fn function(&mut self, function: &ast::Function, span: Span) -> Result<Bound> {
        // `name(row)` is the row's field, if there is no such function; a row is not cast so.
        if let Some((field, _)) = projected(function)
            && matches!(fold(field).as_str(), "name" | "text" | "varchar" | "bpchar")
            && self.catalog.routines_named(&fold(field)).next().is_none()
            && self.may_be_row(function, &fold(field))
            && let Some(bound) = self.projection(function, span)?
        {
            return Ok(bound);
        }
        match self.function_called(function, span) {
            // What is within calls is bound once: a text of calls without end would take as long to
            // bind as it has calls to the power of two.
            Err(error)
                if error.state() == SqlState::NO_SUCH_FUNCTION
                    && matches!(
                        projected(function),
                        Some((_, ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_)))
                    ) =>
            {
                self.projection(function, span)?.ok_or(error)
            }
            bound => bound,
        }
    }

    /// Whether the argument of a call may be a row that has a field of this name: a name, or a call
    /// of functions that all give such rows.
    fn may_be_row(&self, function: &ast::Function, field: &str) -> bool {
        match projected(function) {
            Some((_, ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_))) => true,
            Some((_, ast::Expr::Function(inner))) => {
                let Some(ast::ObjectNamePart::Identifier(name)) = inner.name.0.last() else { return false };
                let gives = |routine: &std::sync::Arc<colibri_catalog::Routine>| match routine.result {
                    colibri_catalog::RoutineType::Value(ty) => {
                        matches!(ty.ty, Type::Composite(_))
                            && self.row_type_of(ty).is_some_and(|row| row.field(field).is_some())
                    }
                    colibri_catalog::RoutineType::RowOf(id) => {
                        self.catalog.table(id).is_some_and(|table| table.column(field).is_some())
                    }
                    _ => false,
                };
                let name = fold(name);
                let mut routines = self.catalog.routines_named(&name).peekable();
                routines.peek().is_some() && routines.all(gives)
            }
            _ => false,
        }
    }

    /// A field of a row, written as a call.
    fn projection(&mut self, function: &ast::Function, span: Span) -> Result<Option<Bound>> {
        let Some((field, arg)) = projected(function) else { return Ok(None) };
        let row = self.expr(arg)?;
        if !row.ty.ty.is_row() || self.row_type_of(row.ty).is_none_or(|ty| ty.field(&fold(field)).is_none()) {
            return Ok(None);
        }
        self.field(row, field, span).map(Some)
    }

    /// `row.name` as a call of a function, if there is one of that name that takes such rows.
    pub(super) fn function_of_row(&mut self, row: &ast::Expr, name: &ast::Ident, span: Span) -> Result<Option<Bound>> {
        if self.catalog.routines_named(&fold(name)).next().is_none() {
            return Ok(None);
        }
        let arg = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(row.clone()));
        let call = super::series::call_of(&ast::ObjectName::from(vec![name.clone()]), vec![arg]);
        let ast::Expr::Function(function) = &call else { return Ok(None) };
        match self.routine(function, span) {
            Err(error) if error.state() == SqlState::NO_SUCH_FUNCTION => Ok(None),
            bound => bound,
        }
    }

    fn function_called(&mut self, function: &ast::Function, span: Span) -> Result<Bound> {
        self.at(span, whole::function(function))?;
        let parts = name_parts(&function.name)?;
        self.at(span, self.expect_here(&function.name, 3))?;
        if let Some(bound) = self.routine(function, span)? {
            return Ok(bound);
        }
        if let [schema, name] = parts[parts.len().saturating_sub(2)..]
            && let Some(bound) = self.cast_as_call(&fold(schema), &fold(name), function, span)?
        {
            return Ok(bound);
        }
        let name = match parts[parts.len().saturating_sub(2)..] {
            [name] => fold(name),
            [schema, name] if colibri_catalog::system_tables::is_system_schema(&fold(schema)) => fold(name),
            [schema, _] if self.catalog.schema(&fold(schema)).is_none() => {
                let message = format!("schema \"{}\" does not exist", fold(schema));
                return Err(self.place(span, Error::new(SqlState::NO_SUCH_SCHEMA, message)));
            }
            [_, name] if is_of_extension(&fold(name)) => fold(name),
            _ => return Err(self.place(span, no_such_function(&function.name.to_string()))),
        };
        if let Some(over) = &function.over {
            return self.window(&name, function, over, span);
        }
        if let ("array", ast::FunctionArguments::Subquery(query)) = (name.as_str(), &function.args) {
            return self.array_of_query(query, span);
        }
        if !function.within_group.is_empty() {
            return self.within_group(&name, function, span);
        }
        let mut args = self.at(span, args(function))?;
        let is_aggregate = resolve::resolve_aggregate(&name, &[]).is_some();
        if is_aggregate {
            args.forget_variadic();
        }
        // `current_timestamp(3)` and the like have a precision; `current_schema()` is a function as
        // well.
        let is_value =
            is_value(&name) && !matches!(&*name, "current_timestamp" | "localtimestamp" | "localtime" | "current_time");
        if is_value && matches!(function.args, ast::FunctionArguments::List(_)) {
            return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"(\"")));
        }
        if !is_aggregate && let Some(bound) = self.variadic(&name, function, &args, span)? {
            return Ok(bound);
        }
        if let Some(bound) = self.special(&name, &args, span)? {
            // These are words of the grammar, which has no such clauses there.
            if args.star || args.distinct || function.filter.is_some() || !args.order.is_empty() {
                let message = format!("syntax error: {name} takes expressions only");
                return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, message)));
            }
            return Ok(bound);
        }
        let mut types = Vec::with_capacity(args.exprs.len());
        // Whether it is an aggregate is asked by name first: its arguments are bound under other
        // rules.
        if is_aggregate {
            if matches!(name.as_str(), "range_agg" | "range_intersect_agg")
                && let Some(bound) = self.user_ranges_gathered(&name, &args, function.filter.as_deref(), span)?
            {
                return Ok(bound);
            }
            return self.aggregate(&name, &args, function.filter.as_deref(), span);
        }
        if args.star || args.distinct || function.filter.is_some() || !args.order.is_empty() {
            let clause = match (args.star, args.distinct) {
                (true, _) => "(*)",
                (_, true) => "DISTINCT",
                _ if !args.order.is_empty() => "ORDER BY",
                _ => "FILTER",
            };
            let message = match args.star {
                true => format!("{name}(*) specified, but {name} is not an aggregate function"),
                false => format!("{clause} specified, but {name} is not an aggregate function"),
            };
            return Err(self.place(span, Error::new(SqlState::WRONG_OBJECT_TYPE, message)));
        }
        if WindowFunction::named(&name).is_some() {
            let message = format!("window function {name} requires an OVER clause");
            return Err(self.place(span, Error::new(SqlState::WRONG_OBJECT_TYPE, message)));
        }
        let mut bounds = Vec::with_capacity(args.exprs.len());
        for expr in &args.exprs {
            let bound = self.json_argument(&name, bounds.len(), expr)?;
            types.push(bound.ty.ty);
            bounds.push(bound);
        }
        if super::series::gives_rows(&name) {
            let spans = args.exprs.iter().map(|expr| start_of(expr));
            return self.rows_in_list(&name, bounds.into_iter().zip(spans).collect(), span);
        }
        let mut named = SESSION_FUNCTIONS.iter().filter(|found| found.0 == name);
        if let Some(first) = named.next() {
            let fits = |found: &&_| takes(found, bounds.len());
            let found = std::iter::once(first).chain(named).find(fits).unwrap_or(first);
            return self.session_function(found, bounds, span);
        }
        if name == "!!" {
            // An operator that the parser takes for a call.
            let types: Vec<Type> = bounds.iter().map(|bound| bound.ty.ty).collect();
            if let [ty] = types[..] {
                self.at(span, self.builtin.functions.operator(&name, None, ty))?;
            }
        }
        self.call(&name, bounds, span)
    }

    /// `schema.type(value)`: a cast to a type that a user has defined.
    fn cast_as_call(
        &mut self,
        schema: &str,
        name: &str,
        function: &ast::Function,
        span: Span,
    ) -> Result<Option<Bound>> {
        let to = match super::types::extension_type(self.catalog, Some(schema), name, &[]) {
            // A function of that name may take the argument.
            Some(_) if self.is_function(name) => None,
            Some((ty, _)) => Some(ty.into()),
            None => match super::types::find_user_type(self.catalog, Some(schema), name, &[]) {
                Some((found, true)) => found.array_column_type(),
                Some((found, false)) => Some(found.column_type()),
                None => None,
            },
        };
        let Some(to) = to else { return Ok(None) };
        let args = self.at(span, args(function))?;
        if matches!(to.ty, Type::Range(_))
            && let Some(bound) = self.user_range_in_schema(schema, name, &args.exprs)?
        {
            return Ok(Some(bound));
        }
        let [arg] = args.exprs[..] else { return Ok(None) };
        if args.star || args.distinct || function.over.is_some() || function.filter.is_some() {
            return Ok(None);
        }
        let bound = self.expr(arg)?;
        let expr = self.coerce(bound, to, CastContext::Explicit, arg.span())?;
        Ok(Some(Bound::new(expr, to)))
    }

    /// The type that a call without a schema is a cast to, if no function has that name.
    fn type_of_call(&self, name: &str) -> Option<ColumnType> {
        if let Ok(ty) = type_by_name(name) {
            return Some(ty.into());
        }
        if let Some((ty, _)) = super::types::extension_type(self.catalog, None, name, self.types_path()) {
            return Some(ty.into());
        }
        if self.is_function(name) {
            return None;
        }
        let (found, is_array) = super::types::find_user_type(self.catalog, None, name, self.types_path())?;
        if is_array { found.array_column_type() } else { Some(found.column_type()) }
    }

    /// Whether a function that the database has is called so.
    pub(super) fn is_function(&self, name: &str) -> bool {
        !self.builtin.functions.named(name).is_empty()
            || resolve::resolve_aggregate(name, &[]).is_some()
            || WindowFunction::named(name).is_some()
            || super::series::gives_rows(name)
            || SESSION_FUNCTIONS.iter().any(|found| found.0 == name)
            || is_value(name)
            || session_value(name).is_some()
            || WORDS.contains(&name)
            || json::is_record(name)
    }

    /// A call whose last argument is an array of the others: `VARIADIC array`.
    fn variadic(&mut self, name: &str, function: &ast::Function, args: &Args<'_>, span: Span) -> Result<Option<Bound>> {
        if name == "pg_collation_for"
            && let [expr] = args.exprs[..]
        {
            return self.collation_for(expr).map(Some);
        }
        let is_variadic = |arg: &ast::FunctionArg| {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Prefixed { prefix, .. })) = arg else {
                return false;
            };
            prefix.value == colibri_syntax::VARIADIC_MARK
        };
        let ast::FunctionArguments::List(list) = &function.args else { return Ok(None) };
        if !list.args.iter().any(is_variadic) {
            return Ok(None);
        }
        if args.star || args.distinct || function.filter.is_some() || !args.order.is_empty() {
            return Err(self.place(span, Error::unsupported("VARIADIC with DISTINCT, FILTER or ORDER BY")));
        }
        let mut bounds = Vec::with_capacity(args.exprs.len());
        for expr in &args.exprs {
            let expr = if let ast::Expr::Prefixed { value, .. } = expr { &**value } else { *expr };
            bounds.push((self.expr(expr)?, start_of(expr)));
        }
        let types = bounds.iter().map(|(bound, _)| bound.ty.ty.to_string()).collect::<Vec<_>>().join(", ");
        let Some((array, array_span)) = bounds.pop() else { return Ok(None) };
        if matches!(name, "num_nulls" | "num_nonnulls") && bounds.is_empty() {
            if array.ty.ty.element().is_none() {
                let error = Error::new(SqlState::TYPE_MISMATCH, "VARIADIC argument must be an array");
                return Err(self.place(array_span, error));
            }
            let which = Bound::new(Expr::Const(Datum::Int((name == "num_nulls").into())), Type::Int4);
            return self.call(".count_nulls", vec![array, which], span).map(Some);
        }
        let takes_any = matches!((name, bounds.len()), ("concat", 0) | ("concat_ws" | "format", 1));
        if !takes_any
            && array.ty.ty.element().is_some()
            && let Some(bound) = self.json_of_array(name, bounds.clone(), array.clone(), span)?
        {
            return Ok(Some(bound));
        }
        if !takes_any {
            return Err(self.place(span, no_such_function(&format!("{name}({types})"))));
        }
        let Some(element) = array.ty.ty.element() else {
            let error = Error::new(SqlState::TYPE_MISMATCH, "VARIADIC argument must be an array");
            return Err(self.place(array_span, error));
        };
        // These write the values of the array, but for NULLs, with a text between them.
        Ok(Some(match bounds.pop() {
            None => self.call("array_to_string", vec![array, super::expr::text_literal("")], span)?,
            Some((first, _)) if name == "concat_ws" => self.call("array_to_string", vec![array, first], span)?,
            // As texts, truth has another form than clients see.
            Some(_) if element == Type::Bool => {
                return Err(self.place(array_span, Error::unsupported("format() of an array of booleans")));
            }
            Some((first, first_span)) => {
                let first = self.coerce(first, Type::Text.into(), CastContext::Implicit, first_span)?;
                let array = self.coerce(array, Type::Text.array_of().into(), CastContext::Explicit, array_span)?;
                let function = &colibri_types::functions::FORMAT_OF_ARRAY;
                Bound::new(Expr::Call { function, args: vec![first, array] }, Type::Text)
            }
        }))
    }

    /// `COLLATION FOR (expr)`: the name as it would be written, or NULL of what has none.
    fn collation_for(&mut self, expr: &ast::Expr) -> Result<Bound> {
        self.take_collation();
        let bound = self.apart(|binder| binder.expr(expr))?;
        let collation = self.take_collation();
        if !collation::is_collatable(bound.ty.ty) {
            return Err(collation::not_collatable(bound.ty.ty));
        }
        let name = match &collation {
            collation::Collation::Explicit(name, _) | collation::Collation::Implicit(name) => name.as_str(),
            collation::Collation::Default if bound.ty.ty != Type::Unknown => "default",
            _ => return Ok(Bound::new(Expr::Const(Datum::Null), Type::Text)),
        };
        let name = colibri_types::functions::quote_identifier(&logical::bare_collation(name));
        Ok(Bound::new(Expr::Const(Datum::text(&name)), Type::Text))
    }

    /// The function of the registry that a call means: one of an extension is there with it only.
    fn function_named(&self, name: &str, types: &[Type]) -> Result<&'static colibri_types::functions::Function> {
        self.builtin.functions.function_among(name, types, &|function| self.is_there(function))
    }

    /// Whether the extension is there that a function belongs to.
    pub(super) fn is_there(&self, function: &colibri_types::functions::Function) -> bool {
        function.extension().is_none_or(|extension| self.has_extension(extension))
    }

    /// Whether an extension was made.
    pub(super) fn has_extension(&self, extension: &str) -> bool {
        self.catalog.extensions().any(|known| known.name == extension)
    }

    /// A function of the registry.
    pub(super) fn call(&mut self, name: &str, args: Vec<Bound>, span: Span) -> Result<Bound> {
        let types: Vec<Type> = args.iter().map(|arg| arg.ty.ty).collect();
        // `text('x')`, `float8(1)`: a cast written as a call.
        if let ([from], Some(to)) = (&types[..], self.type_of_call(name))
            && (*from == Type::Unknown || self.function_named(name, &types).is_err())
            && (to.domain.is_some() && *from == to.ty || colibri_types::cast::cast_context(*from, to.ty).is_some())
        {
            let arg = args.into_iter().next().expect("there is one argument");
            let expr = self.coerce(arg, to, CastContext::Explicit, span)?;
            return Ok(Bound::new(expr, to));
        }
        let of_range = of_user_range(name, &types)
            .or_else(|| if self.is_function(name) { None } else { self.user_range_maker(None, name, &types) });
        if let Some(call) = of_range {
            return self.user_range_call(call, args.into_iter().map(|arg| (arg, span)).collect());
        }
        if self.builtin.functions.named(name).is_empty()
            && let Some(bound) = self.function_of_operator(name, &args, span)?
        {
            return Ok(bound);
        }
        let function = self.at(span, self.function_named(name, &types))?;
        if function.name == "concat_ws" && !matches!(types[0].category(), Category::String | Category::Unknown) {
            return Err(self.place(span, no_such_function(name)));
        }
        if function.volatility == Volatility::Volatile {
            self.has_side_effects = true;
        }
        if function.args.iter().chain([&function.result]).any(|ty| matches!(ty, Type::AnyArray | Type::AnyElement)) {
            return self.polymorphic(function, args, span);
        }
        let takes_text_rather = matches!(function.name, "quote_literal" | "quote_nullable");
        let keeps_blanks = (function.takes_any_as_text() && !takes_text_rather) || function.name == "octet_length";
        let mut typed = Vec::with_capacity(args.len());
        for (index, arg) in args.into_iter().enumerate() {
            // The separator is a text already.
            let is_separator = index == 0 && function.name == "concat_ws";
            let arg = if keeps_blanks && !is_separator { with_blanks(arg) } else { arg };
            // These write values as a client sees them.
            if arg.ty.ty == Type::Bool && matches!(function.name, "concat" | "concat_ws" | "format") {
                let to = ColumnType::new(Type::Varchar, colibri_types::Modifier::length(1));
                typed.push(self.coerce(arg, to, CastContext::Explicit, span)?);
                continue;
            }
            typed.push(self.argument(arg, function.arg_type(index), span)?);
        }
        self.checked_for_collation(function.name, &mut typed);
        let call = self.at(span, self.collated(function, typed))?;
        Ok(Bound::new(call, function.result))
    }

    /// A call of a function of `anyarray`: all of its arguments and what it gives go by the array
    /// at hand.
    fn polymorphic(
        &mut self,
        function: &'static colibri_types::functions::Function,
        args: Vec<Bound>,
        span: Span,
    ) -> Result<Bound> {
        let declared = |at: usize| function.arg_type(at);
        let of_array = args.iter().enumerate().find_map(|(at, arg)| {
            let is_array = declared(at) == Type::AnyArray;
            if is_array { arg.ty.ty.element().map(|element| (element, arg.ty.ty)) } else { None }
        });
        let of_element = || {
            let known = |(at, arg): (usize, &Bound)| {
                (declared(at) == Type::AnyElement && arg.ty.ty != Type::Unknown).then_some(arg.ty.ty)
            };
            let element = args.iter().enumerate().find_map(known)?;
            Some((element, element.array()?))
        };
        let kinds = args.iter().enumerate().filter_map(|(at, arg)| match declared(at) {
            Type::AnyArray => arg.ty.ty.element(),
            Type::AnyElement => Some(arg.ty.ty),
            _ => None,
        });
        let kinds: Vec<Type> = kinds.filter(|ty| *ty != Type::Unknown).collect();
        let differ = kinds.iter().any(|kind| *kind != kinds[0]);
        let no_such = |binder: &Self| binder.place(span, no_such_call(function, &args));
        let of_all = match differ {
            false => None,
            // Arrays, and what is put into them or looked for there, become arrays of a common
            // type.
            true if COMPATIBLE_FUNCTIONS.contains(&function.name) => {
                let common = resolve::common_type(&kinds).ok_or_else(|| no_such(self))?;
                Some((common, common.array().ok_or_else(|| no_such(self))?))
            }
            true => return Err(no_such(self)),
        };
        let Some((element, array)) = of_all.or(of_array).or_else(of_element) else {
            let message = "could not determine polymorphic type because input has type unknown";
            return Err(self.place(span, Error::new(SqlState::TYPE_MISMATCH, message)));
        };
        let plain = element.array().unwrap_or(array);
        let mut typed = Vec::with_capacity(args.len());
        for (at, arg) in args.into_iter().enumerate() {
            let ty = match declared(at) {
                Type::AnyArray if arg.ty.ty == array => array,
                Type::AnyArray => plain,
                Type::AnyElement => element,
                other => other,
            };
            typed.push(self.coerce(arg, ty.into(), CastContext::Implicit, span)?);
        }
        let call = if collation::is_collatable(element) {
            self.checked_for_collation(function.name, &mut typed);
            self.at(span, self.collated(function, typed))?
        } else {
            Expr::Call { function, args: typed }
        };
        Ok(match function.result {
            // What is made of no array at all knows its type only from here.
            Type::AnyArray => {
                let to = plain.into();
                Bound::new(
                    Expr::Cast { input: Box::new(call), from: Type::AnyArray, to, context: CastContext::Implicit },
                    plain,
                )
            }
            Type::AnyElement => Bound::new(call, element),
            other => Bound::new(call, other),
        })
    }

    /// The enum that all arguments of a function are of, cast to it.
    fn enum_arguments(&mut self, name: &str, exprs: &[&ast::Expr], span: Span) -> Result<(EnumType, Vec<Expr>)> {
        let mut bounds = Vec::with_capacity(exprs.len());
        for expr in exprs {
            bounds.push((self.expr(expr)?, start_of(expr)));
        }
        let types: Vec<Type> = bounds.iter().map(|(bound, _)| bound.ty.ty).collect();
        let mut known = types.iter().copied().filter(|ty| *ty != Type::Unknown);
        let Some(ty) = known.next() else {
            let message = "could not determine polymorphic type because input has type unknown";
            return Err(self.place(span, Error::new(SqlState::TYPE_MISMATCH, message)));
        };
        match ty {
            Type::Enum(of) if known.all(|other| other == ty) => {
                let mut args = Vec::with_capacity(bounds.len());
                for (bound, span) in bounds {
                    args.push(self.coerce(bound, ty.into(), CastContext::Implicit, span)?);
                }
                Ok((of, args))
            }
            _ => {
                let types: Vec<&str> = types.iter().map(|ty| ty.sql_name()).collect();
                Err(self.place(span, no_such_function(&format!("{name}({})", types.join(", ")))))
            }
        }
    }

    /// `enum_first` and `enum_last`: they look at nothing but the type.
    fn enum_end(&mut self, name: &str, expr: &ast::Expr, span: Span) -> Result<Bound> {
        let (of, _) = self.enum_arguments(name, &[expr], span)?;
        let labels = of.labels();
        let label = if name == "enum_first" { labels.first() } else { labels.last() };
        match label {
            Some(label) => Ok(Bound::new(Expr::Const(Datum::Int(label.place)), Type::Enum(of))),
            None => {
                let message = format!("enum {} contains no values", of.sql_name());
                Err(self.place(span, Error::new(SqlState("55000"), message)))
            }
        }
    }

    /// `enum_range(NULL::type)`, and that between two labels.
    fn enum_range(&mut self, exprs: &[&ast::Expr], span: Span) -> Result<Bound> {
        let (of, mut args) = self.enum_arguments("enum_range", exprs, span)?;
        let places = of.labels().iter().map(|label| Datum::Int(label.place)).collect();
        let all = Expr::Const(Datum::Array(Arc::new(colibri_types::Array::new(Type::Enum(of), places))));
        let ty = Type::Enum(of).array_of();
        if args.len() == 1 {
            return Ok(Bound::new(all, ty));
        }
        args.insert(0, all);
        Ok(Bound::new(Expr::Call { function: &ENUM_RANGE, args }, ty))
    }

    /// `ARRAY(SELECT …)`
    fn array_of_query(&mut self, query: &ast::Query, span: Span) -> Result<Bound> {
        let (expr, columns) = self.subquery(query, SubqueryKind::Array(Type::Text))?;
        let [column] = &columns[..] else { return Err(self.place(span, super::expr::too_many_columns())) };
        let ty = column.ty.ty;
        match ty.item().array() {
            Some(array) => Ok(Bound::new(expr, array)),
            None => Err(self.place(span, Error::unsupported(format_args!("an array of {ty}")))),
        }
    }

    /// A function that gives rows, in a SELECT list.
    fn rows_in_list(&mut self, name: &str, bounds: Vec<(Bound, Span)>, span: Span) -> Result<Bound> {
        let (series, args, ty) = self.rows_of(name, bounds, span)?;
        let bound = self.extra(logical::Extra::Rows(series, args), ty, "set-returning functions", span)?;
        self.scope().rows_calls += 1;
        Ok(bound)
    }

    /// Rows of a call in a SELECT list.
    pub(super) fn rows_of_call(&mut self, extra: logical::Extra, ty: ColumnType, span: Span) -> Result<Bound> {
        let bound = self.extra(extra, ty, "set-returning functions", span)?;
        self.scope().rows_calls += 1;
        Ok(bound)
    }

    fn extra(&mut self, extra: logical::Extra, ty: ColumnType, what: &str, span: Span) -> Result<Bound> {
        let no_scope = self.frames.last().is_none_or(|frame| frame.scopes.is_empty());
        let (place, in_window) =
            if no_scope { ("here", false) } else { (self.scope().no_calls, !self.scope().in_window.is_empty()) };
        match self.frames.last_mut().and_then(|frame| frame.scopes.last_mut()).and_then(|scope| scope.extras.as_mut()) {
            Some(extras) => {
                // The same call twice gives its rows side by side.
                let same = extras.iter().position(|other| rewrite::same_extra(other, &extra));
                let place = same.unwrap_or_else(|| {
                    extras.push(extra);
                    extras.len() - 1
                });
                Ok(Bound::new(Expr::Extra(place), ty))
            }
            None => {
                let message = match in_window {
                    true => "window function calls cannot contain set-returning function calls".to_owned(),
                    false => format!("{what} are not allowed in {place}"),
                };
                Err(self.place(span, Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)))
            }
        }
    }

    /// How many calls of functions that give rows the scope at hand has met.
    pub(super) fn rows_calls(&self) -> usize {
        self.frames.last().and_then(|frame| frame.scopes.last()).map_or(0, |scope| scope.rows_calls)
    }

    /// Refuses functions that give rows if some were met since an earlier count of them.
    pub(super) fn refuse_rows(&self, before: usize, message: &str, span: Span) -> Result<()> {
        if self.rows_calls() == before {
            return Ok(());
        }
        Err(self.place(
            span,
            Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .hint("You might be able to move the set-returning function into a LATERAL FROM item."),
        ))
    }

    /// An expression that rows are put in order by.
    fn ordered_by(&mut self, expr: &ast::Expr) -> Result<(Bound, collation::Collation)> {
        self.take_collation();
        let bound = self.apart(|binder| binder.expr(expr))?;
        let collation = self.take_collation();
        self.at(expr.span(), collation.expect_one())?;
        self.at(expr.span(), super::types::expect_comparable(bound.ty.ty, true))?;
        Ok((bound, collation))
    }

    /// An argument in the type that a function takes; `Void` stands for any.
    pub(super) fn argument(&mut self, arg: Bound, ty: Type, span: Span) -> Result<Expr> {
        let ty = if ty == Type::Void { super::expr::known(arg.ty.ty) } else { ty };
        self.coerce(arg, ty.into(), CastContext::Explicit, span)
    }

    /// What looks like a call but has rules of its own.
    fn special(&mut self, name: &str, args: &Args<'_>, span: Span) -> Result<Option<Bound>> {
        let bound = match name {
            "coalesce" => {
                let rows_calls = self.rows_calls();
                let (list, ty) = self.same_type("COALESCE", &args.exprs, span)?;
                self.refuse_rows(rows_calls, "set-returning functions are not allowed in COALESCE", span)?;
                Bound::new(Expr::Coalesce(list), ty)
            }
            "greatest" | "least" => {
                let greatest = name == "greatest";
                let name = if greatest { "GREATEST" } else { "LEAST" };
                let (mut args, ty) = self.same_type(name, &args.exprs, span)?;
                self.at(span, super::types::expect_comparable(ty.ty, true))?;
                if self.is_collation_open()
                    && let [first, others @ ..] = &mut args[..]
                {
                    for other in others {
                        *other = Expr::Coalesce(vec![collation::open(other.clone(), first), other.clone()]);
                    }
                }
                match self.order_at_hand(ty.ty).filter(|_| !ty.ty.is_array() && !self.is_collation_open()) {
                    Some(order) => Bound::new(collation::extreme(&order, greatest, args), ty),
                    None => Bound::new(Expr::Extreme { greatest, args }, ty),
                }
            }
            "nullif" => {
                let [left, right] = args.exprs[..] else {
                    return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "NULLIF takes two arguments")));
                };
                let (left_span, right_span) = (left.span(), right.span());
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                let (from, right_type) = (left.ty, right.ty.ty);
                let compared_as = resolve::comparison_type(from.ty, right_type);
                let order = self.order_at_hand(compared_as.unwrap_or(Type::Bool));
                if order.is_some_and(|order| !order.deterministic) {
                    return Err(self.place(span, Error::unsupported("NULLIF with a nondeterministic collation")));
                }
                let (compared, right) = self.comparable("=", left, left_span, right, right_span)?;
                // Where `=` takes both types as they are, the left one keeps its own.
                let keeps = |ty: Type| {
                    matches!(ty, Type::Int2 | Type::Int4 | Type::Int8)
                        || (matches!(ty, Type::Float4 | Type::Float8) && right_type.category() == Category::Number)
                        || (ty.category() == Category::DateTime && right_type.category() == Category::DateTime)
                };
                let (left, left_as, ty) = match (compared, compared_as) {
                    (compared, Some(ty)) if ty == from.ty => (compared, None, from),
                    (Expr::Cast { input, from: source, to, .. }, Some(ty))
                        if from.ty != Type::Unknown && keeps(from.ty) && (!is_integer(from.ty) || is_integer(ty)) =>
                    {
                        (*input, Some((source, to)), from)
                    }
                    (compared, ty) => (compared, None, super::expr::known(ty.unwrap_or(Type::Text)).into()),
                };
                let ty = if ty.ty == Type::Varchar { Type::Text.into() } else { ty.base() };
                Bound::new(Expr::NullIf { left: Box::new(left), left_as, right: Box::new(right) }, ty)
            }
            "current_timestamp" | "localtimestamp" | "current_date" | "localtime" if args.exprs.len() <= 1 => {
                let bound = self.call(name, Vec::new(), span)?;
                match args.exprs[..] {
                    [ast::Expr::Value(value)] => {
                        let digits = value.to_string().parse().unwrap_or(6u8).min(6);
                        let modifier = colibri_types::Modifier::fraction(digits);
                        let to = colibri_types::ColumnType::new(bound.ty.ty, modifier);
                        Bound::new(self.coerce(bound, to, CastContext::Explicit, span)?, to)
                    }
                    _ => bound,
                }
            }
            "json_build_object" | "json_build_array" | "jsonb_build_object" | "jsonb_build_array" => {
                self.json_of_values(name, &args.exprs, span)?
            }
            "num_nulls" | "num_nonnulls" if !args.exprs.is_empty() => {
                let negated = name == "num_nonnulls";
                let mut tests = Vec::with_capacity(args.exprs.len());
                for expr in &args.exprs {
                    let input = Box::new(self.expr(expr)?.expr);
                    tests.push(Bound::new(Expr::IsNull { input, negated }, Type::Bool));
                }
                self.call(".count_true", tests, span)?
            }
            "normalize" if matches!(args.exprs.len(), 1 | 2) => {
                let form = match args.exprs.get(1) {
                    None => "NFC",
                    Some(ast::Expr::Value(form)) if let ast::Value::SingleQuotedString(form) = &form.value => form,
                    Some(_) => {
                        let message = "the form of normalize() is NFC, NFD, NFKC or NFKD";
                        return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, message)));
                    }
                };
                let input = self.expr(args.exprs[0])?;
                self.call(name, vec![input, super::expr::text_literal(form)], span)?
            }
            _ if xml::is_made(name) => self.xml_made(name, &args.exprs, span)?,
            "to_json" | "to_jsonb" if args.exprs.len() == 1 => self.json_of_value(name, args.exprs[0])?,
            "populate_record" if args.exprs.len() == 2 && self.has_extension("hstore") => {
                self.record_of_hstore(args.exprs[0], args.exprs[1], span)?
            }
            _ if json::is_record(name) => self.json_record(name, &args.exprs, span)?,
            "enum_first" | "enum_last" if args.exprs.len() == 1 => self.enum_end(name, args.exprs[0], span)?,
            "enum_range" if matches!(args.exprs.len(), 1 | 2) => self.enum_range(&args.exprs, span)?,
            "pg_column_size" if args.exprs.len() == 1 => self.column_size(args.exprs[0])?,
            "pg_column_compression" if args.exprs.len() == 1 => self.column_compression(args.exprs[0])?,
            "pg_typeof" if args.exprs.len() == 1 => {
                let ty = self.expr(args.exprs[0])?.ty;
                let rows = self.row_type_of(ty).filter(|_| ty.domain.is_none());
                let oid = rows.map_or(ty.oid(), |rows| rows.oid);
                Bound::new(Expr::Const(Datum::Int(oid.into())), Type::RegType)
            }
            // These have a syntax of their own, which the parser takes for a call if it does not
            // match.
            "cast" | "extract" | "position" => {
                return Err(
                    self.place(span, Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{name}\"")))
                );
            }
            "row" => return Err(self.place(span, Error::unsupported("a row as a value"))),
            "grouping" => self.grouping(&args.exprs, span)?,
            _ => match session_value(name) {
                Some(name) if args.exprs.is_empty() => {
                    let ty = if name == "version" { Type::Text } else { Type::Name };
                    Bound::new(Expr::Session { function: SessionFunction::Named(name), args: Vec::new() }, ty)
                }
                _ => return Ok(None),
            },
        };
        Ok(Some(bound))
    }

    pub(super) fn current_schema(&mut self) -> Result<Bound> {
        let function = SessionFunction::Named("current_schema");
        Ok(Bound::new(Expr::Session { function, args: Vec::new() }, Type::Name))
    }

    fn same_type(&mut self, construct: &str, exprs: &[&ast::Expr], span: Span) -> Result<(Vec<Expr>, ColumnType)> {
        if exprs.is_empty() {
            let message = format!("{construct} takes at least one argument");
            return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, message)));
        }
        let mut bounds = Vec::with_capacity(exprs.len());
        for expr in exprs {
            bounds.push((self.expr(expr)?, start_of(expr)));
        }
        let types: Vec<Type> = bounds.iter().map(|(bound, _)| bound.ty.ty).collect();
        let ty = self.common_type(construct, &types, span)?;
        let result = super::expr::common_modifier(bounds.iter().map(|(bound, _)| bound.ty), ty);
        let mut list = Vec::with_capacity(bounds.len());
        for (bound, span) in bounds {
            list.push(self.coerce(bound, ty.into(), CastContext::Implicit, span)?);
        }
        Ok((list, result))
    }

    fn session_function(&mut self, found: &SessionFunctionEntry, args: Vec<Bound>, span: Span) -> Result<Bound> {
        let &(name, types, _, result, changes) = found;
        if !takes(found, args.len()) {
            return Err(self.place(span, no_such_function(name)));
        }
        self.has_side_effects |= changes;
        let mut args = args;
        // Those that take a relation by its number need no name.
        if types.first() != Some(&Type::Oid) {
            args = args.into_iter().map(|arg| self.sequence_name(arg)).collect::<Result<_>>()?;
        }
        if super::stored::SEQUENCE_FUNCTIONS.contains(&name) {
            if let Some(first) = args.first_mut()
                && matches!(first.ty.ty, Type::Oid | Type::Int2 | Type::Int4 | Type::Int8)
            {
                // A relation's number is its `regclass` wherever that is asked for.
                let number = std::mem::replace(first, Bound::new(Expr::Const(Datum::Null), Type::Unknown));
                let named = self.coerce(number, Type::RegClass.into(), CastContext::Explicit, span)?;
                *first = self.sequence_name(Bound::new(named, Type::RegClass))?;
            }
            // Whether there is such a function is asked before what its constants mean.
            for (arg, &ty) in args.iter().zip(types).skip(1) {
                let fits = arg.ty.ty == Type::Unknown
                    || arg.ty.ty == ty
                    || colibri_types::cast::cast_context(arg.ty.ty, ty) == Some(CastContext::Implicit);
                if !fits {
                    let given = args.iter().map(|arg| arg.ty.ty.to_string()).collect::<Vec<_>>().join(", ");
                    return Err(self.place(span, no_such_function(&format!("{name}({given})"))));
                }
            }
            self.expect_sequence(args.first(), span)?;
            // They are strict: what a constant NULL is given with is not even looked up.
            if args.iter().any(|arg| matches!(arg.expr, Expr::Const(Datum::Null))) {
                return Ok(Bound::new(Expr::Const(Datum::Null), result));
            }
        }
        if let (true, Some(Bound { expr: Expr::Const(Datum::Text(sequence)), .. })) =
            (super::stored::SEQUENCE_FUNCTIONS.contains(&name), args.first())
        {
            let sequence = sequence.clone();
            self.note_sequence(span, &sequence);
        }
        // The usual case: the sequence is known now.
        if let ("nextval", [Bound { expr: Expr::Const(Datum::Text(sequence)), .. }]) = (name, &args[..])
            && let Some(sequence) = self.sequence_by_text(sequence)
        {
            let function = SessionFunction::NextVal(sequence);
            return Ok(Bound::new(Expr::Session { function, args: Vec::new() }, result));
        }
        let mut typed = Vec::with_capacity(args.len());
        for (arg, &ty) in args.into_iter().zip(types) {
            let fits = arg.ty.ty == Type::Unknown
                || arg.ty.ty == ty
                || colibri_types::cast::cast_context(arg.ty.ty, ty) == Some(CastContext::Implicit);
            if !fits {
                return Err(self.place(span, no_such_function(&format!("{name}({})", arg.ty.ty))));
            }
            typed.push(self.coerce(arg, ty.into(), CastContext::Implicit, span)?);
        }
        Ok(Bound::new(Expr::Session { function: SessionFunction::Named(name), args: typed }, result))
    }

    /// A relation's number as the text that it is written as.
    fn sequence_name(&self, arg: Bound) -> Result<Bound> {
        if arg.ty.ty != Type::RegClass {
            return Ok(arg);
        }
        let to = ColumnType::from(Type::Text);
        Ok(match arg.expr {
            Expr::Const(Datum::Int(number)) => match self.catalog.sequence(number as u32) {
                Some(sequence) => {
                    let name = format!(
                        "\"{}\".\"{}\"",
                        sequence.schema.replace('"', "\"\""),
                        sequence.name.replace('"', "\"\"")
                    );
                    Bound::new(Expr::Const(Datum::text(&name)), to)
                }
                None => Bound::new(Expr::Const(Datum::text(&number.to_string())), to),
            },
            expr => {
                let context = CastContext::Explicit;
                Bound::new(Expr::Cast { input: Box::new(expr), from: Type::RegClass, to, context }, to)
            }
        })
    }

    /// A literal names what there is when the statement is planned, whether or not it is evaluated.
    fn expect_sequence(&mut self, arg: Option<&Bound>, span: Span) -> Result<()> {
        if let Some(arg) = arg
            && let (Expr::Const(Datum::Text(text)), Type::Unknown) = (&arg.expr, arg.ty.ty)
            && colibri_catalog::parse_name(text).is_none_or(|name| self.catalog.find(&name, self.search_path).is_none())
        {
            self.coerce(arg.clone(), Type::RegClass.into(), CastContext::Implicit, span)?;
        }
        Ok(())
    }

    fn sequence_by_text(&mut self, text: &str) -> Option<Arc<colibri_catalog::Sequence>> {
        let name = colibri_catalog::parse_name(text)?;
        match self.catalog.find(&name, self.search_path)? {
            Relation::Sequence(sequence) => {
                let sequence = Arc::clone(sequence);
                self.used.push(sequence.id);
                self.need_sequence(sequence.id);
                Some(sequence)
            }
            _ => None,
        }
    }
}

/// A value of type `character(n)` as a text with its blanks, which are not kept inside.
pub(super) fn with_blanks(bound: Bound) -> Bound {
    let Some(length) = bound.ty.modifier.chars_max().filter(|_| bound.ty.ty == Type::Char) else { return bound };
    let rpad = colibri_types::functions::ON_VALUES
        .named("rpad")
        .iter()
        .find(|function| function.args == [Type::Text, Type::Int4]);
    match rpad {
        Some(function) => {
            let length = Expr::Const(Datum::Int(length as i64));
            Bound::new(Expr::Call { function, args: vec![bound.expr, length] }, Type::Text)
        }
        None => bound,
    }
}

fn is_integer(ty: Type) -> bool {
    matches!(ty, Type::Int2 | Type::Int4 | Type::Int8)
}

fn type_by_name(name: &str) -> Result<Type> {
    let object = ast::ObjectName(vec![ast::ObjectNamePart::Identifier(ast::Ident::new(name))]);
    super::types::bind_type(&ast::DataType::Custom(object, Vec::new())).map(|ty| ty.ty)
}

/// That a function or an operator of arrays takes no arguments of such types.
fn no_such_call(function: &colibri_types::functions::Function, args: &[Bound]) -> Error {
    let types: Vec<&str> = args.iter().map(|arg| arg.ty.ty.sql_name()).collect();
    let message = match types[..] {
        [left, right] if !function.name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            format!("operator does not exist: {left} {} {right}", function.name)
        }
        _ => format!("function {}({}) does not exist", function.name, types.join(", ")),
    };
    Error::new(SqlState::NO_SUCH_FUNCTION, message)
}

fn no_such_function(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_FUNCTION, format!("function {name} does not exist"))
        .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

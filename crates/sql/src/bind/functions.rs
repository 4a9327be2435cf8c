//! Binding calls: functions, aggregates, what has a syntax of its own, what only the session can do.

use std::sync::Arc;

use colibri_catalog::Relation;
use colibri_types::{
    Category, ColumnType, Datum, Error, Result, SqlState, Type,
    cast::CastContext,
    functions::{LIST_OF_ROWS, OBJECT_OF_ROWS, Volatility},
    resolve,
};
use sqlparser::ast;
use sqlparser::ast::Spanned;
use sqlparser::tokenizer::Span;

use super::collation;
use super::expr::Bound;
use super::query::sort_key_options;
use super::{AGGREGATES, Binder, EXTRAS, fold, logical, name_parts, rewrite, whole};
use crate::expr::{Expr, SessionFunction, SubqueryKind};
use crate::plan::{AggregateCall, SortKey};

type SessionFunctionEntry = (&'static str, &'static [Type], usize, Type, bool);

/// Functions that only the session can compute: name, arguments at least and at most, result, and whether calling it
/// changes anything.
const SESSION_FUNCTIONS: &[SessionFunctionEntry] = &[
    ("nextval", &[Type::Text], 1, Type::Int8, true),
    ("currval", &[Type::Text], 1, Type::Int8, false),
    ("lastval", &[], 0, Type::Int8, false),
    ("setval", &[Type::Text, Type::Int8, Type::Bool], 2, Type::Int8, true),
    ("current_setting", &[Type::Text, Type::Bool], 1, Type::Text, false),
    ("set_config", &[Type::Text, Type::Text, Type::Bool], 3, Type::Text, true),
    ("pg_get_serial_sequence", &[Type::Text, Type::Text], 2, Type::Text, false),
    ("txid_current", &[], 0, Type::Int8, false),
    ("pg_current_xact_id", &[], 0, Type::Int8, false),
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

struct Args<'a> {
    exprs: Vec<&'a ast::Expr>,
    star: bool,
    distinct: bool,
    order: &'a [ast::OrderByExpr],
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

impl Binder<'_> {
    /// A call as the parser gives it.
    pub(super) fn function(&mut self, function: &ast::Function, span: Span) -> Result<Bound> {
        self.at(span, whole::function(function))?;
        let parts = name_parts(&function.name)?;
        self.at(span, self.expect_here(&function.name, 3))?;
        let name = match parts[parts.len().saturating_sub(2)..] {
            [name] => fold(name),
            [schema, name] if colibri_catalog::system_tables::is_system_schema(&fold(schema)) => fold(name),
            [schema, _] if self.catalog.schema(&fold(schema)).is_none() => {
                let message = format!("schema \"{}\" does not exist", fold(schema));
                return Err(self.place(span, Error::new(SqlState::NO_SUCH_SCHEMA, message)));
            }
            _ => return Err(self.place(span, no_such_function(&function.name.to_string()))),
        };
        if let Some(over) = &function.over {
            return self.window(&name, function, over, span);
        }
        if let ("array", ast::FunctionArguments::Subquery(query)) = (name.as_str(), &function.args) {
            return self.array_of_query(query, span);
        }
        if !function.within_group.is_empty() {
            return Err(self.place(span, Error::unsupported(format_args!("WITHIN GROUP of {name}"))));
        }
        let args = self.at(span, args(function))?;
        // `current_timestamp(3)` and the like have a precision; `current_schema()` is a function as well.
        let is_value =
            is_value(&name) && !matches!(&*name, "current_timestamp" | "localtimestamp" | "localtime" | "current_time");
        if is_value && matches!(function.args, ast::FunctionArguments::List(_)) {
            return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"(\"")));
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
        if matches!(&*name, "json_agg" | "json_object_agg") {
            return self.json_aggregate(&name, &args, function.filter.as_deref(), span);
        }
        // Whether it is an aggregate is asked by name first: its arguments are bound under other rules.
        if resolve::resolve_aggregate(&name, &[]).is_some() {
            return self.aggregate(&name, &args, function.filter.as_deref(), span);
        }
        if args.star || args.distinct || function.filter.is_some() || !args.order.is_empty() {
            let message = format!("DISTINCT, FILTER or ORDER BY specified, but {name} is not an aggregate function");
            return Err(self.place(span, Error::new(SqlState::WRONG_OBJECT_TYPE, message)));
        }
        let mut bounds = Vec::with_capacity(args.exprs.len());
        for expr in &args.exprs {
            let bound = self.expr(expr)?;
            types.push(bound.ty.ty);
            bounds.push(bound);
        }
        if super::series::gives_rows(&name) {
            let spans = args.exprs.iter().map(|expr| expr.span());
            return self.rows_in_list(&name, bounds.into_iter().zip(spans).collect(), span);
        }
        let mut named = SESSION_FUNCTIONS.iter().filter(|found| found.0 == name);
        if let Some(first) = named.next() {
            let fits = |found: &&_| takes(found, bounds.len());
            let found = std::iter::once(first).chain(named).find(fits).unwrap_or(first);
            return self.session_function(found, bounds, span);
        }
        self.call(&name, bounds, span)
    }

    /// A function of the registry.
    pub(super) fn call(&mut self, name: &str, args: Vec<Bound>, span: Span) -> Result<Bound> {
        let types: Vec<Type> = args.iter().map(|arg| arg.ty.ty).collect();
        // `text('x')`, `float8(1)`: a cast written as a call.
        if let ([from], Ok(to)) = (&types[..], type_by_name(name))
            && self.builtin.functions.function(name, &types).is_err()
            && colibri_types::cast::cast_context(*from, to).is_some_and(|_| true)
        {
            let arg = args.into_iter().next().expect("there is one argument");
            let expr = self.coerce(arg, to.into(), CastContext::Explicit, span)?;
            return Ok(Bound::new(expr, to));
        }
        let function = self.at(span, self.builtin.functions.function(name, &types))?;
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
                let to = ColumnType { ty: Type::Varchar, modifier: colibri_types::Modifier::length(1) };
                typed.push(self.coerce(arg, to, CastContext::Explicit, span)?);
                continue;
            }
            typed.push(self.argument(arg, function.arg_type(index), span)?);
        }
        self.checked_for_collation(function.name, &mut typed);
        Ok(Bound::new(Expr::Call { function, args: typed }, function.result))
    }

    /// A call of a function of `anyarray`: all of its arguments and what it gives go by the array at hand.
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
            true if crate::system::procedures::COMPATIBLE_FUNCTIONS.contains(&function.name) => {
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
        if collation::is_collatable(element) {
            self.checked_for_collation(function.name, &mut typed);
        }
        let call = Expr::Call { function, args: typed };
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

    /// A value as JSON.
    fn json_value(&mut self, bound: Bound, span: Span) -> Result<Expr> {
        use Type::{Bool, Date, Float4, Float8, Int2, Int4, Int8, Numeric, Timestamp, TimestampTz};
        let ty = bound.ty.ty;
        let has_own_form =
            matches!(ty, Bool | Int2 | Int4 | Int8 | Float4 | Float8 | Numeric | Date | Timestamp | TimestampTz);
        if ty == Type::Json {
            return Ok(bound.expr);
        }
        if has_own_form || ty.element().is_some() {
            return Ok(self.call("to_json", vec![bound], span)?.expr);
        }
        let as_text = self.coerce(bound, Type::Text.into(), CastContext::Explicit, span)?;
        Ok(self.call("to_json", vec![Bound::new(as_text, Type::Text)], span)?.expr)
    }

    /// `json_build_object` and `json_build_array`.
    fn json_of_values(&mut self, name: &str, exprs: &[&ast::Expr], span: Span) -> Result<Bound> {
        let is_object = name == "json_build_object";
        if exprs.is_empty() {
            let empty = if is_object { "{}" } else { "[]" };
            return Ok(Bound::new(Expr::Const(Datum::text(empty)), Type::Json));
        }
        if is_object && !exprs.len().is_multiple_of(2) {
            let message = "argument list must have even number of elements";
            let error = Error::new(SqlState::BAD_PARAMETER, message)
                .hint("The arguments of json_build_object() must consist of alternating keys and values.");
            return Err(self.place(span, error));
        }
        let mut args = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let bound = self.expr(expr)?;
            args.push(self.json_value(bound, expr.span())?);
        }
        let types = vec![Type::Json; args.len()];
        let function = self.at(span, self.builtin.functions.function(name, &types))?;
        Ok(Bound::new(Expr::Call { function, args }, Type::Json))
    }

    /// `json_agg` and `json_object_agg`: what arrays of the values are as JSON.
    fn json_aggregate(&mut self, name: &str, args: &Args<'_>, filter: Option<&ast::Expr>, span: Span) -> Result<Bound> {
        let (count, made_by) = match name {
            "json_agg" => (1, LIST_OF_ROWS),
            _ => (2, OBJECT_OF_ROWS),
        };
        if args.star || args.exprs.len() != count {
            return Err(self.place(span, no_such_function(name)));
        }
        if args.distinct && count > 1 {
            return Err(self.place(span, Error::unsupported(format_args!("DISTINCT in {name}"))));
        }
        let (mut arrays, mut types) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for &expr in &args.exprs {
            let one = Args { exprs: vec![expr], star: false, distinct: args.distinct, order: args.order };
            let array = self.aggregate("array_agg", &one, filter, span)?;
            types.push(array.ty.ty);
            arrays.push(array.expr);
        }
        let function = self.at(span, self.builtin.functions.function(made_by, &types))?;
        Ok(Bound::new(Expr::Call { function, args: arrays }, Type::Json))
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
        let bound = self.extra(logical::Extra::Rows(series, args), ty.into(), "set-returning functions", span)?;
        self.scope().rows_calls += 1;
        Ok(bound)
    }

    fn extra(&mut self, extra: logical::Extra, ty: ColumnType, what: &str, span: Span) -> Result<Bound> {
        let no_scope = self.frames.last().is_none_or(|frame| frame.scopes.is_empty());
        let place = if no_scope { "here" } else { self.scope().no_calls };
        match self.frames.last_mut().and_then(|frame| frame.scopes.last_mut()).and_then(|scope| scope.extras.as_mut()) {
            Some(extras) => {
                // The same call twice gives its rows side by side.
                let same = extras.iter().position(|other| rewrite::same_extra(other, &extra));
                let place = same.unwrap_or_else(|| {
                    extras.push(extra);
                    extras.len() - 1
                });
                Ok(Bound::new(Expr::Column(EXTRAS + place), ty))
            }
            None => {
                let message = format!("{what} are not allowed in {place}");
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

    /// `row_number() OVER (…)`
    fn window(&mut self, name: &str, function: &ast::Function, over: &ast::WindowType, span: Span) -> Result<Bound> {
        let ast::WindowType::WindowSpec(window) = over else {
            return Err(self.place(span, Error::unsupported("a window with a name")));
        };
        let no_args = matches!(&function.args, ast::FunctionArguments::List(list) if list.args.is_empty());
        let is_plain =
            window.window_frame.is_none() && window.window_name.is_none() && function.within_group.is_empty();
        if name != "row_number" || !no_args || !is_plain {
            return Err(self.place(span, Error::unsupported(format_args!("{name} as a window function"))));
        }
        if self.frame().scopes.is_empty() {
            return Err(self.place(span, Error::new(SqlState("42P20"), "window functions are not allowed here")));
        }
        if function.filter.is_some() {
            let message = "FILTER is not implemented for non-aggregate window functions";
            return Err(self.place(span, Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)));
        }
        let extras = self.scope().extras.take();
        if extras.is_none() {
            let message = format!("window functions are not allowed in {}", self.scope().no_calls);
            return Err(self.place(span, Error::new(SqlState("42P20"), message)));
        }
        let keys = self.window_keys(window);
        self.scope().extras = extras;
        let (partition, order) = keys?;
        self.extra(logical::Extra::RowNumber { partition, order }, Type::Int8.into(), "window functions", span)
    }

    fn window_keys(&mut self, window: &ast::WindowSpec) -> Result<(Vec<Expr>, Vec<SortKey>)> {
        let mut partition = Vec::with_capacity(window.partition_by.len());
        for expr in &window.partition_by {
            let bound = self.ordered_by(expr)?;
            let ty = super::expr::known(bound.ty.ty);
            partition.push(self.coerce(bound, ty.into(), CastContext::Implicit, expr.span())?);
        }
        let mut order = Vec::with_capacity(window.order_by.len());
        for key in &window.order_by {
            let bound = self.ordered_by(&key.expr)?;
            let ty = super::expr::known(bound.ty.ty);
            let expr = self.coerce(bound, ty.into(), CastContext::Implicit, key.expr.span())?;
            let (descending, nulls_first) = sort_key_options(&key.options)?;
            order.push(SortKey { expr, descending, nulls_first });
        }
        Ok((partition, order))
    }

    /// An expression that rows are put in order by.
    fn ordered_by(&mut self, expr: &ast::Expr) -> Result<Bound> {
        self.take_collation();
        let bound = self.apart(|binder| binder.expr(expr))?;
        let collation = self.take_collation();
        self.at(expr.span(), collation.expect_one())?;
        Ok(bound)
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
                if self.is_collation_open()
                    && let [first, others @ ..] = &mut args[..]
                {
                    for other in others {
                        *other = Expr::Coalesce(vec![collation::open(other.clone(), first), other.clone()]);
                    }
                }
                Bound::new(Expr::Extreme { greatest, args }, ty)
            }
            "nullif" => {
                let [left, right] = args.exprs[..] else {
                    return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "NULLIF takes two arguments")));
                };
                let (left_span, right_span) = (left.span(), right.span());
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                let (from, right_type) = (left.ty, right.ty.ty);
                let compared_as = resolve::comparison_type(from.ty, right_type);
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
                let ty = if ty.ty == Type::Varchar { Type::Text.into() } else { ty };
                Bound::new(Expr::NullIf { left: Box::new(left), left_as, right: Box::new(right) }, ty)
            }
            "current_timestamp" | "localtimestamp" | "current_date" | "localtime" if args.exprs.len() <= 1 => {
                let bound = self.call(name, Vec::new(), span)?;
                match args.exprs[..] {
                    [ast::Expr::Value(value)] => {
                        let digits = value.to_string().parse().unwrap_or(6u8).min(6);
                        let modifier = colibri_types::Modifier::fraction(digits);
                        let to = colibri_types::ColumnType { ty: bound.ty.ty, modifier };
                        Bound { expr: self.coerce(bound, to, CastContext::Explicit, span)?, ty: to }
                    }
                    _ => bound,
                }
            }
            "json_build_object" | "json_build_array" => self.json_of_values(name, &args.exprs, span)?,
            "to_json" if args.exprs.len() == 1 => {
                let bound = self.expr(args.exprs[0])?;
                if bound.ty.ty == Type::Unknown {
                    let message = "could not determine polymorphic type because input has type unknown";
                    return Err(self.place(span, Error::new(SqlState::TYPE_MISMATCH, message)));
                }
                Bound::new(self.json_value(bound, args.exprs[0].span())?, Type::Json)
            }
            "pg_typeof" if args.exprs.len() == 1 => {
                let ty = self.expr(args.exprs[0])?.ty.ty;
                Bound::new(Expr::Const(Datum::Int(ty.oid().into())), Type::RegType)
            }
            // These have a syntax of their own, which the parser takes for a call if it does not match.
            "cast" | "extract" | "position" => {
                return Err(
                    self.place(span, Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{name}\"")))
                );
            }
            "current_time" => return Err(self.place(span, Error::unsupported("type time with time zone"))),
            "row" => return Err(self.place(span, Error::unsupported("a row as a value"))),
            "grouping" => return Err(self.place(span, Error::unsupported("GROUPING"))),
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
            bounds.push((self.expr(expr)?, expr.span()));
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
        let mut args: Vec<Bound> = args.into_iter().map(|arg| self.sequence_name(arg)).collect::<Result<_>>()?;
        if super::stored::SEQUENCE_FUNCTIONS.contains(&name) {
            if let Some(first) = args.first_mut()
                && matches!(first.ty.ty, Type::Oid | Type::Int2 | Type::Int4 | Type::Int8)
            {
                // A relation's number is its `regclass` wherever that is asked for.
                let number = std::mem::replace(first, Bound::new(Expr::Const(Datum::Null), Type::Unknown));
                let named = self.coerce(number, Type::RegClass.into(), CastContext::Explicit, span)?;
                *first = self.sequence_name(Bound::new(named, Type::RegClass))?;
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
        if let Some(Bound { expr: Expr::Const(Datum::Text(text)), ty }) = arg
            && ty.ty == Type::Unknown
            && colibri_catalog::parse_name(text).is_none_or(|name| self.catalog.find(&name, self.search_path).is_none())
        {
            let named = Bound::new(Expr::Const(Datum::Text(text.clone())), Type::Unknown);
            self.coerce(named, Type::RegClass.into(), CastContext::Implicit, span)?;
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

    /// A call of an aggregate, which belongs to the innermost query that its arguments take columns from, or to the one at
    /// hand if they take none.
    fn aggregate(&mut self, name: &str, args: &Args<'_>, filter: Option<&ast::Expr>, span: Span) -> Result<Bound> {
        if self.frames.last().is_none_or(|frame| frame.scopes.is_empty()) {
            let message = "aggregate functions are not allowed here";
            return Err(self.place(span, Error::new(SqlState::GROUPING_ERROR, message)));
        }
        if self.scope().in_call {
            return Err(self.place(span, nested_aggregate()));
        }
        let args_before: Vec<usize> = self.frames.iter().map(|frame| frame.args.len()).collect();
        let rows_calls = self.rows_calls();
        self.scope().in_call = true;
        let bound = self.aggregate_call(name, args, filter, span);
        self.scope().in_call = false;
        let (mut call, first, is_open) = bound?;
        let message = "aggregate function calls cannot contain set-returning function calls";
        self.refuse_rows(rows_calls, message, span)?;
        if exprs_of_call(&call).any(|expr| !rewrite::extras_in(expr).is_empty()) {
            let message = "aggregate function calls cannot contain window function calls";
            return Err(self.place(span, Error::new(SqlState::GROUPING_ERROR, message)));
        }
        let here = self.frames.len() - 1;
        let level = exprs_of_call(&call).filter_map(|expr| self.level_of(expr, here)).max().unwrap_or(here);
        self.lift_call(&mut call, level, &args_before);
        let Some(scope) = self.frames[level].scopes.last_mut() else {
            return Err(self.place(span, Error::internal("an aggregate of a query without names")));
        };
        if scope.in_call {
            return Err(self.place(span, nested_aggregate()));
        }
        let no_calls = scope.no_calls;
        let Some(calls) = &mut scope.calls else {
            let message = match no_calls {
                "FROM" => "aggregate functions are not allowed in FROM clause of their own query level".to_owned(),
                place => format!("aggregate functions are not allowed in {place}"),
            };
            return Err(self.place(span, Error::new(SqlState::GROUPING_ERROR, message)));
        };
        // The blanks of character(n) are told by the length.
        let result = match (call.aggregate.result, name, first) {
            (Type::Char, "min" | "max", Some(first)) => first,
            (result, ..) => result.into(),
        };
        let mut place = |call: AggregateCall| {
            let same = calls.iter().position(|other| super::rewrite::same_call(other, &call));
            same.unwrap_or_else(|| {
                calls.push(call);
                calls.len() - 1
            })
        };
        let count = match resolve::resolve_aggregate("count", &[Type::Text]) {
            Some(Ok(count)) if is_open && matches!(name, "min" | "max") => {
                Some(place(AggregateCall { aggregate: count, ..call.clone() }))
            }
            _ => None,
        };
        let index = place(call);
        let mut value = self.handed_down(Expr::Column(AGGREGATES + index), level);
        if let Some(count) = count {
            let count = self.handed_down(Expr::Column(AGGREGATES + count), level);
            value = collation::open_extreme(value, count);
        }
        if result.ty == Type::AnyArray {
            let Some(to) = first.and_then(|first| super::expr::known(first.ty).array()) else {
                return Err(self.place(span, Error::unsupported("array_agg of arrays")));
            };
            let cast = Expr::Cast {
                input: Box::new(value),
                from: Type::AnyArray,
                to: to.into(),
                context: CastContext::Implicit,
            };
            return Ok(Bound::new(cast, to));
        }
        Ok(Bound::new(value, result))
    }

    /// The frame of the innermost query that an expression of the frame `at` takes columns from.
    fn level_of(&self, expr: &Expr, at: usize) -> Option<usize> {
        match expr {
            Expr::Column(_) => Some(at),
            Expr::Arg(slot) => self.level_of(self.frames[at].args.get(*slot)?, at.checked_sub(1)?),
            _ => {
                let mut level = None;
                rewrite::for_each_child(expr, &mut |child| level = level.max(self.level_of(child, at)));
                level
            }
        }
    }

    /// Turns a call over the row at hand into one over the row of the frame `level`. What it alone took from outside is not
    /// taken any more: it is looked at there.
    fn lift_call(&mut self, call: &mut AggregateCall, level: usize, args_before: &[usize]) {
        for at in (level + 1..self.frames.len()).rev() {
            let args = std::mem::take(&mut self.frames[at].args);
            for expr in exprs_of_call_mut(call) {
                rewrite::substitute_slots(expr, &|slot| args[slot].clone());
            }
            self.frames[at].args = args;
            self.frames[at].args.truncate(args_before[at]);
        }
    }

    /// An expression of the frame `from` as one of the frame at hand.
    pub(super) fn handed_down(&mut self, expr: Expr, from: usize) -> Expr {
        let mut expr = expr;
        for frame in &mut self.frames[from + 1..] {
            let same = frame.args.iter().position(|arg| super::rewrite::same(arg, &expr));
            let slot = same.unwrap_or_else(|| {
                frame.args.push(expr);
                frame.args.len() - 1
            });
            expr = Expr::Arg(slot);
        }
        expr
    }

    fn aggregate_call(
        &mut self,
        name: &str,
        args: &Args<'_>,
        filter: Option<&ast::Expr>,
        span: Span,
    ) -> Result<(AggregateCall, Option<ColumnType>, bool)> {
        if args.star && args.distinct {
            return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"*\"")));
        }
        if args.star && name != "count" {
            return Err(self.place(span, no_such_function(&format!("{name}(*)"))));
        }
        if args.exprs.is_empty() && !args.star {
            let error = match name {
                "count" => Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    "count(*) must be used to call a parameterless aggregate function",
                ),
                _ => no_such_function(&format!("{name}()")),
            };
            return Err(self.place(span, error));
        }
        let mut bounds = Vec::with_capacity(args.exprs.len());
        let mut is_open = false;
        for expr in &args.exprs {
            self.take_collation();
            let bound = self.apart(|binder| binder.expr(expr))?;
            let own = self.take_collation();
            is_open |= own.is_open() && collation::is_collatable(bound.ty.ty);
            bounds.push(bound);
            self.meet(own, expr.span())?;
        }
        if args.distinct {
            let collation = self.collation.clone().unwrap_or_default();
            self.at(span, collation.expect_one())?;
        }
        // As they were written: what ORDER BY says is compared with these.
        let written: Vec<Expr> = bounds.iter().map(|bound| bound.expr.clone()).collect();
        let types: Vec<Type> = bounds.iter().map(|bound| bound.ty.ty).collect();
        let Some(found) = resolve::resolve_aggregate(name, &types) else {
            return Err(self.place(span, no_such_function(name)));
        };
        let aggregate = self.at(span, found)?;
        let first = bounds.first().map(|bound| bound.ty);
        let mut typed = Vec::with_capacity(bounds.len());
        for (bound, &ty) in bounds.into_iter().zip(aggregate.args) {
            // An argument of any type keeps its own.
            typed.push(self.argument(bound, ty, span)?);
        }
        let filter = match filter {
            Some(filter) => {
                let extras = self.scope().extras.take();
                let no_calls = std::mem::replace(&mut self.scope().no_calls, "FILTER");
                let bound = self.condition(filter, "FILTER");
                (self.scope().extras, self.scope().no_calls) = (extras, no_calls);
                Some(bound?)
            }
            None => None,
        };
        let mut order = Vec::with_capacity(args.order.len());
        for key in args.order {
            let bound = self.ordered_by(&key.expr)?;
            let ty = super::expr::known(bound.ty.ty);
            // An argument that was converted by itself is sorted by as it is then.
            let argument =
                written.iter().position(|arg| bound.ty.ty != Type::Unknown && rewrite::same(arg, &bound.expr));
            let expr = match argument.and_then(|at| typed.get(at)) {
                Some(argument) => argument.clone(),
                None if args.distinct => {
                    let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
                    return Err(self.place(key.expr.span(), Error::new(SqlState::BAD_COLUMN_REFERENCE, message)));
                }
                None => self.coerce(bound, ty.into(), CastContext::Implicit, span)?,
            };
            let (descending, nulls_first) = sort_key_options(&key.options)?;
            order.push(SortKey { expr, descending, nulls_first });
        }
        // Values that are distinct come in their order, as from PostgreSQL, which sorts to find them.
        if args.distinct && order.is_empty() && matches!(aggregate.name, "array_agg" | "string_agg") {
            let key = |expr: &Expr| SortKey { expr: expr.clone(), descending: false, nulls_first: false };
            order.extend(typed.iter().map(key));
        }
        Ok((AggregateCall { aggregate, args: typed, distinct: args.distinct, filter, order }, first, is_open))
    }
}

fn nested_aggregate() -> Error {
    Error::new(SqlState::GROUPING_ERROR, "aggregate function calls cannot be nested")
}

fn exprs_of_call(call: &AggregateCall) -> impl Iterator<Item = &Expr> {
    call.args.iter().chain(&call.filter).chain(call.order.iter().map(|key| &key.expr))
}

fn exprs_of_call_mut(call: &mut AggregateCall) -> impl Iterator<Item = &mut Expr> {
    call.args.iter_mut().chain(&mut call.filter).chain(call.order.iter_mut().map(|key| &mut key.expr))
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

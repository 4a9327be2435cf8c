//! Calls with OVER: functions of windows and aggregates over one, and what a window is, by itself or
//! by the names of WINDOW.

use std::collections::HashMap;
use std::sync::Arc;

use colibri_types::{ColumnType, Error, Result, SqlState, Type, cast, cast::CastContext, resolve};
use compact_str::CompactString;
use sqlparser::ast;
use sqlparser::ast::Spanned;
use sqlparser::tokenizer::Span;

use super::{Args, args, no_such_function};
use crate::bind::expr::{Bound, known};
use crate::bind::logical::{Extra, Window};
use crate::bind::query::sort_key_options;
use crate::bind::{Binder, collation, fold, rewrite};
use crate::expr::Expr;
use crate::plan::{Exclude, Frame, FrameBound, FrameUnits, RangeOffset, SortKey, WindowCall, WindowFunction};

/// Windows that count as one level of a query.
pub(in crate::bind) const WINDOWS_PER_LEVEL: usize = 2;
/// What is wrong with a window or a frame.
const WINDOWING_ERROR: SqlState = SqlState("42P20");
/// Calls of window functions inside of such.
const NESTED: &str = "window function calls cannot be nested";
/// Such calls in what windows are made of.
const IN_DEFINITION: &str = "window functions are not allowed in window definitions";

/// A window as it is written, with what it takes from those that it names.
#[derive(Clone, Copy, Default)]
struct Written<'a> {
    partition: &'a [ast::Expr],
    order: &'a [ast::OrderByExpr],
    frame: Option<&'a ast::WindowFrame>,
    exclude: Exclude,
}

/// The windows that WINDOW names. Each takes parts of one before it at the most, so all of them are
/// known after one look at each in their order.
#[derive(Default)]
pub(in crate::bind) struct NamedWindows {
    definitions: Vec<ast::NamedWindowDefinition>,
    /// The first definition of each name.
    by_name: HashMap<CompactString, usize>,
    /// For each definition, where its parts are written, or what is wrong with it.
    parts: Vec<Result<Parts>>,
}

/// The definitions that say what a window is partitioned and ordered by.
#[derive(Clone, Copy)]
struct Parts {
    partition: usize,
    order: usize,
}

impl NamedWindows {
    pub(in crate::bind) fn new(definitions: &[ast::NamedWindowDefinition]) -> Self {
        let mut named = Self { definitions: definitions.to_vec(), ..Self::default() };
        for (at, ast::NamedWindowDefinition(ident, expr)) in definitions.iter().enumerate() {
            let parts = match expr {
                ast::NamedWindowExpr::WindowSpec(spec) => named.parts_of(at, spec),
                ast::NamedWindowExpr::NamedWindow(_) => Err(no_such_window(&fold(ident))),
            };
            named.parts.push(parts);
            named.by_name.entry(fold(ident)).or_insert(at);
        }
        named
    }

    /// The parts of a definition. Those before it are known, and it may name one of these.
    fn parts_of(&self, at: usize, spec: &ast::WindowSpec) -> Result<Parts> {
        self.written(spec, false)?;
        let from = spec.window_name.as_ref().map(|ident| self.parts_named(&fold(ident))).transpose()?;
        Ok(Parts {
            partition: from.map_or(at, |from| from.partition),
            order: from.filter(|_| spec.order_by.is_empty()).map_or(at, |from| from.order),
        })
    }

    fn parts_named(&self, name: &str) -> Result<Parts> {
        match self.by_name.get(name) {
            Some(&at) => self.parts[at].clone(),
            None => Err(no_such_window(name)),
        }
    }

    /// What a name stands for.
    fn window(&self, ident: &ast::Ident) -> Result<Written<'_>> {
        let name = fold(ident);
        match self.by_name.get(&name) {
            Some(&at) => self.at(at),
            None => Err(no_such_window(&name)),
        }
    }

    /// What a definition stands for.
    fn at(&self, at: usize) -> Result<Written<'_>> {
        let parts = self.parts[at].clone()?;
        let own = |at: usize| match &self.definitions[at].1 {
            ast::NamedWindowExpr::WindowSpec(spec) => Written::own(spec),
            ast::NamedWindowExpr::NamedWindow(_) => Written::default(),
        };
        Ok(Written { partition: own(parts.partition).partition, order: own(parts.order).order, ..own(at) })
    }

    /// What a window says, and what it takes from the one that it begins with the name of.
    fn written<'a>(&'a self, spec: &'a ast::WindowSpec, is_over: bool) -> Result<Written<'a>> {
        let own = Written::own(spec);
        let Some(ident) = &spec.window_name else { return Ok(own) };
        let from = self.window(ident)?;
        let name = fold(ident);
        let wrong = |message: String| Err(Error::new(WINDOWING_ERROR, message));
        if !own.partition.is_empty() {
            return wrong(format!("cannot override PARTITION BY clause of window \"{name}\""));
        }
        if !own.order.is_empty() && !from.order.is_empty() {
            return wrong(format!("cannot override ORDER BY clause of window \"{name}\""));
        }
        if from.frame.is_some() {
            let message = format!("cannot copy window \"{name}\" because it has a frame clause");
            let error = Error::new(WINDOWING_ERROR, message);
            let is_bare = is_over && own.order.is_empty() && own.frame.is_none();
            return Err(if is_bare { error.hint("Omit the parentheses in this OVER clause.") } else { error });
        }
        let order = if own.order.is_empty() { from.order } else { own.order };
        Ok(Written { partition: from.partition, order, ..own })
    }
}

impl<'a> Written<'a> {
    /// What a window says itself.
    fn own(spec: &'a ast::WindowSpec) -> Self {
        let mark = |expr: &ast::Expr| match expr {
            ast::Expr::Identifier(ident) => match ident.value.strip_prefix(colibri_syntax::EXCLUDE_MARK)? {
                "current row" => Some(Exclude::CurrentRow),
                "group" => Some(Exclude::Group),
                _ => Some(Exclude::Ties),
            },
            _ => None,
        };
        let (partition, exclude) = match spec.partition_by.split_last() {
            Some((last, others)) if mark(last).is_some() => (others, mark(last).unwrap_or_default()),
            _ => (&spec.partition_by[..], Exclude::NoOthers),
        };
        Self { partition, order: &spec.order_by, frame: spec.window_frame.as_ref(), exclude }
    }
}

fn no_such_window(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("window \"{name}\" does not exist"))
}

/// What a call gives.
enum Given {
    Value(ColumnType),
    /// What an aggregate does: the type of its first argument, and whether it is the least or the
    /// greatest of texts that nobody knows how to compare.
    Aggregate(Option<ColumnType>, bool),
}

/// A window with names and types resolved.
struct Resolved {
    partition: Vec<Expr>,
    order: Vec<SortKey>,
    frame: Frame,
}

impl Binder<'_> {
    /// A call with OVER.
    pub(super) fn window(
        &mut self,
        name: &str,
        function: &ast::Function,
        over: &ast::WindowType,
        span: Span,
    ) -> Result<Bound> {
        let gathers = std::mem::take(&mut self.gathers);
        if self.frame().scopes.is_empty() {
            return Err(self.place(span, Error::new(WINDOWING_ERROR, "window functions are not allowed here")));
        }
        if !function.within_group.is_empty() {
            return Err(self.no_within_group_over(name, span));
        }
        let mut args = self.at(span, args(function))?;
        let is_aggregate = resolve::resolve_aggregate(name, &[]).is_some();
        if is_aggregate {
            args.forget_variadic();
        }
        let refusal = match (is_aggregate, WindowFunction::named(name)) {
            (false, None) => {
                self.expect_function(name, &args, span)?;
                let message = format!("OVER specified, but {name} is not a window function nor an aggregate function");
                return Err(self.place(span, Error::new(SqlState::WRONG_OBJECT_TYPE, message)));
            }
            _ if args.distinct => Some("DISTINCT is not implemented for window functions"),
            _ if !args.order.is_empty() => Some("aggregate ORDER BY is not implemented for window functions"),
            (false, _) if function.filter.is_some() => {
                Some("FILTER is not implemented for non-aggregate window functions")
            }
            _ => None,
        };
        if let Some(message) = refusal {
            return Err(self.place(span, Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)));
        }
        let scope = self.scope();
        // Functions that give rows may stand there.
        let Some(extras) = scope.extras.take().filter(|_| scope.no_calls != "VALUES") else {
            let message = match scope.in_window {
                "" => format!("window functions are not allowed in {}", scope.no_calls),
                why => why.to_owned(),
            };
            return Err(self.place(span, Error::new(WINDOWING_ERROR, message)));
        };
        let bound = self.window_call(name, &args, function.filter.as_deref(), over, span);
        let scope = self.scope();
        (scope.extras, scope.in_window) = (Some(extras), "");
        let (call, window, given) = bound?;
        let (partition, order) = (window.partition, window.order);
        self.note_window(&partition, &order)?;
        let extra = |call| Extra::Window(Box::new(Window { call, partition: partition.clone(), order: order.clone() }));
        let (first, is_open) = match given {
            Given::Value(ty) => return self.extra(extra(call), ty, "window functions", span),
            Given::Aggregate(first, is_open) => (first, is_open),
        };
        let WindowFunction::Aggregate(aggregate) = call.function else {
            return Err(Error::internal("an aggregate that is none"));
        };
        let count = match resolve::resolve_aggregate("count", &[Type::Text]) {
            Some(Ok(count)) if is_open && matches!(name, "min" | "max") => {
                let call = WindowCall { function: WindowFunction::Aggregate(count), ..call.clone() };
                Some(self.extra(extra(call), Type::Int8.into(), "window functions", span)?.expr)
            }
            _ => None,
        };
        let args = call.args.clone();
        let value = self.extra(extra(call), aggregate.result.into(), "window functions", span)?.expr;
        let mut value = collation::text_of_extreme(value, aggregate.name, &args);
        if let Some(count) = count {
            value = collation::open_extreme(value, count);
        }
        if gathers {
            return Ok(Bound::new(value, Type::Record));
        }
        self.aggregate_value(value, aggregate, first, span)
    }

    /// Refuses the name of a function that there is not.
    fn expect_function(&mut self, name: &str, args: &Args<'_>, span: Span) -> Result<()> {
        if crate::bind::series::gives_rows(name) {
            return Ok(());
        }
        let mut types = Vec::with_capacity(args.exprs.len());
        for expr in &args.exprs {
            types.push(self.expr(expr)?.ty.ty);
        }
        match self.builtin.functions.function(name, &types) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.place(span, error)),
        }
    }

    /// The call, its window and what it gives.
    fn window_call(
        &mut self,
        name: &str,
        args: &Args<'_>,
        filter: Option<&ast::Expr>,
        over: &ast::WindowType,
        span: Span,
    ) -> Result<(WindowCall, Resolved, Given)> {
        self.scope().in_window = NESTED;
        let (function, typed, filter, given) = match WindowFunction::named(name) {
            Some(function) => {
                let (typed, ty) = self.window_function(function, args, span)?;
                (function, typed, None, Given::Value(ty))
            }
            None => {
                let (call, first, is_open) = self.aggregate_call(name, args, filter, span)?;
                (WindowFunction::Aggregate(call.aggregate), call.args, call.filter, Given::Aggregate(first, is_open))
            }
        };
        let window = self.over(over, span)?;
        let frame = if function.uses_frame() { window.frame.clone() } else { Frame::default() };
        Ok((WindowCall { function, args: typed, filter, frame, most: None }, window, given))
    }

    /// The arguments of a function of windows, and what it gives.
    fn window_function(
        &mut self,
        function: WindowFunction,
        args: &Args<'_>,
        span: Span,
    ) -> Result<(Vec<Expr>, ColumnType)> {
        use WindowFunction::{
            CumeDist, DenseRank, FirstValue, Lag, LastValue, Lead, NthValue, Ntile, PercentRank, Rank,
        };
        let name = function.name();
        let mut bounds = Vec::with_capacity(args.exprs.len());
        for expr in &args.exprs {
            bounds.push((self.expr(expr)?, expr.span()));
        }
        let types: Vec<Type> = bounds.iter().map(|(bound, _)| bound.ty.ty).collect();
        let no_such = |binder: &Self| {
            let types = types.iter().map(|ty| ty.sql_name()).collect::<Vec<_>>().join(", ");
            binder.place(span, no_such_function(&format!("{name}({types})")))
        };
        let (least, most) = match function {
            Ntile | FirstValue | LastValue => (1, 1),
            NthValue => (2, 2),
            Lag | Lead => (1, 3),
            _ => (0, 0),
        };
        let counts = |ty: &Type| cast::cast_context(*ty, Type::Int4) == Some(CastContext::Implicit);
        let count_at = if matches!(function, Ntile) { 0 } else { 1 };
        let is_of_sets = matches!(function, Rank | DenseRank | PercentRank | CumeDist);
        if is_of_sets && !types.is_empty() {
            let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
            return Err(self.place(span, Error::new(SqlState::WRONG_OBJECT_TYPE, message)));
        }
        if !(least..=most).contains(&types.len()) || !types.get(count_at).is_none_or(counts) {
            return Err(no_such(self));
        }
        let values: Vec<Type> = types.iter().enumerate().filter(|(at, _)| *at != count_at).map(|(_, &ty)| ty).collect();
        let value = match (function, &values[..]) {
            (FirstValue | LastValue | NthValue | Lag | Lead, [Type::Unknown]) => {
                let message = "could not determine polymorphic type because input has type unknown";
                return Err(self.place(span, Error::new(SqlState::TYPE_MISMATCH, message)));
            }
            (Ntile, _) | (_, []) => None,
            (_, [one]) => Some(known(*one)),
            (_, values) => Some(resolve::common_type(values).ok_or_else(|| no_such(self))?),
        };
        // The blanks of character(n) are told by the length.
        let padded =
            bounds.first().map(|(bound, _)| bound.ty).filter(|ty| ty.ty == Type::Char && value == Some(Type::Char));
        // What gives values as they come gives those of a domain, if it is called on nothing else.
        let mut called_on = bounds.iter().enumerate().filter(|(at, _)| *at != count_at).map(|(_, (bound, _))| bound.ty);
        let first = called_on.next();
        let domain = first.and_then(|first| first.domain).filter(|_| called_on.all(|ty| Some(ty) == first));
        let mut typed = Vec::with_capacity(bounds.len());
        for (at, (bound, span)) in bounds.into_iter().enumerate() {
            let to = if at == count_at { Type::Int4 } else { value.unwrap_or(Type::Int4) };
            typed.push(self.coerce(bound, to.into(), CastContext::Implicit, span)?);
        }
        let result = match function {
            Ntile => Type::Int4.into(),
            PercentRank | CumeDist => Type::Float8.into(),
            // Without the modifier of the argument.
            FirstValue | LastValue | NthValue | Lag | Lead => {
                ColumnType { domain, ..padded.unwrap_or(value.unwrap_or(Type::Int8).into()) }
            }
            _ => padded.unwrap_or(value.unwrap_or(Type::Int8).into()),
        };
        Ok((typed, result))
    }

    /// The window behind OVER.
    fn over(&mut self, over: &ast::WindowType, span: Span) -> Result<Resolved> {
        let named = Arc::clone(&self.scope().windows);
        let written = match over {
            ast::WindowType::NamedWindow(ident) => {
                named.window(ident).map_err(|error| self.place(ident.span, error))?
            }
            ast::WindowType::WindowSpec(spec) => named.written(spec, true).map_err(|error| self.place(span, error))?,
        };
        self.resolved(written, span)
    }

    /// The windows that WINDOW names: none twice, and all of them right, whether they are used or
    /// not.
    pub(in crate::bind) fn named_windows(&mut self) -> Result<()> {
        let named = Arc::clone(&self.scope().windows);
        for (at, ast::NamedWindowDefinition(ident, expr)) in named.definitions.iter().enumerate() {
            let name = fold(ident);
            if named.by_name.get(&name) != Some(&at) {
                let error = Error::new(WINDOWING_ERROR, format!("window \"{name}\" is already defined"));
                return Err(self.place(ident.span, error));
            }
            let ast::NamedWindowExpr::WindowSpec(_) = expr else { continue };
            let written = named.at(at).map_err(|error| self.place(ident.span, error))?;
            let extras = self.scope().extras.take();
            let resolved = self.resolved(written, ident.span);
            let scope = self.scope();
            (scope.extras, scope.in_window) = (extras, "");
            resolved?;
        }
        Ok(())
    }

    /// Notes a window that is computed. Each one may become two operators inside each other, so
    /// windows count as levels of the query.
    fn note_window(&mut self, partition: &[Expr], order: &[SortKey]) -> Result<()> {
        let most = self.queries_max * WINDOWS_PER_LEVEL;
        let computed = &mut self.scope().computed_windows;
        let same = |(other, other_order): &(Vec<Expr>, Vec<SortKey>)| {
            other.len() == partition.len()
                && other.iter().zip(partition).all(|(a, b)| rewrite::same(a, b))
                && rewrite::same_order(other_order, order)
        };
        if computed.iter().any(same) {
            return Ok(());
        }
        computed.push((partition.to_vec(), order.to_vec()));
        if computed.len() > most { Err(colibri_syntax::too_deep()) } else { Ok(()) }
    }

    fn resolved(&mut self, written: Written<'_>, span: Span) -> Result<Resolved> {
        self.scope().in_window = IN_DEFINITION;
        let mut partition = Vec::with_capacity(written.partition.len());
        for expr in written.partition {
            let (bound, collation) = self.ordered_by(expr)?;
            let ty = known(bound.ty.ty);
            let expr = self.coerce(bound, ty.into(), CastContext::Implicit, expr.span())?;
            partition.push(self.equality_key(&expr, ty, &collation).unwrap_or(expr));
        }
        let mut order = Vec::with_capacity(written.order.len());
        let mut last = Type::Unknown;
        for key in written.order {
            let (bound, collation) = self.ordered_by(&key.expr)?;
            last = known(bound.ty.ty);
            let expr = self.coerce(bound, last.into(), CastContext::Implicit, key.expr.span())?;
            let expr = self.sort_key(expr, last, &collation);
            let (descending, nulls_first) = sort_key_options(&key.options)?;
            order.push(SortKey { expr, descending, nulls_first });
        }
        let mut frame = Frame { exclude: written.exclude, ..Frame::default() };
        if let Some(of) = written.frame {
            let key = if order.len() == 1 { Some(last) } else { None };
            if of.units == ast::WindowFrameUnits::Groups && order.is_empty() {
                let error = Error::new(WINDOWING_ERROR, "GROUPS mode requires an ORDER BY clause");
                return Err(self.place(span, error));
            }
            frame.units = match of.units {
                ast::WindowFrameUnits::Rows => FrameUnits::Rows,
                ast::WindowFrameUnits::Groups => FrameUnits::Groups,
                ast::WindowFrameUnits::Range => FrameUnits::Range(None),
            };
            frame.start = self.frame_bound(&of.start_bound, &mut frame.units, key, span)?;
            if let Some(end) = &of.end_bound {
                frame.end = self.frame_bound(end, &mut frame.units, key, span)?;
            }
        }
        Ok(Resolved { partition, order, frame })
    }

    /// An end of a frame over rows in the order of a key.
    fn frame_bound(
        &mut self,
        bound: &ast::WindowFrameBound,
        units: &mut FrameUnits,
        key: Option<Type>,
        span: Span,
    ) -> Result<FrameBound> {
        let (offset, is_preceding) = match bound {
            ast::WindowFrameBound::CurrentRow => return Ok(FrameBound::CurrentRow),
            ast::WindowFrameBound::Preceding(None) => return Ok(FrameBound::UnboundedPreceding),
            ast::WindowFrameBound::Following(None) => return Ok(FrameBound::UnboundedFollowing),
            ast::WindowFrameBound::Preceding(Some(offset)) => (offset, true),
            ast::WindowFrameBound::Following(Some(offset)) => (offset, false),
        };
        let (clause, place) = match units {
            FrameUnits::Rows => ("ROWS", "window ROWS"),
            FrameUnits::Range(_) => ("RANGE", "window RANGE"),
            FrameUnits::Groups => ("GROUPS", "window GROUPS"),
        };
        let scope = self.scope();
        let (calls, no_calls) = (scope.calls.take(), std::mem::replace(&mut scope.no_calls, place));
        let bound = self.apart(|binder| binder.expr(offset));
        let scope = self.scope();
        (scope.calls, scope.no_calls) = (calls, no_calls);
        let bound = bound?;
        if rewrite::uses_row(&bound.expr) {
            let message = format!("argument of {clause} must not contain variables");
            return Err(self.place(offset.span(), Error::new(SqlState::BAD_COLUMN_REFERENCE, message)));
        }
        let from = bound.ty.ty;
        let is_implicit = |to: Type| cast::cast_context(from, to) == Some(CastContext::Implicit);
        let to = if let FrameUnits::Range(by) = units {
            let Some(key) = key else {
                let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
                return Err(self.place(span, Error::new(WINDOWING_ERROR, message)));
            };
            let Some((kind, to)) = difference_of(key) else {
                let message = format!(
                    "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}",
                    key.sql_name()
                );
                return Err(self.place(offset.span(), Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)));
            };
            if !is_implicit(to) {
                let message = format!(
                    "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset type {}",
                    key.sql_name(),
                    from.sql_name()
                );
                let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .hint("Cast the offset value to an appropriate type.");
                return Err(self.place(offset.span(), error));
            }
            *by = Some(kind);
            // A literal is read as a value of the key's type.
            if from == Type::Unknown && to != Type::Interval { key } else { to }
        } else {
            let context = cast::cast_context(from, Type::Int8);
            if !matches!(context, Some(CastContext::Implicit | CastContext::Assignment)) {
                let message = format!("argument of {clause} must be type bigint, not type {}", from.sql_name());
                return Err(self.place(offset.span(), Error::new(SqlState::TYPE_MISMATCH, message)));
            }
            Type::Int8
        };
        let expr = self.coerce(bound, to.into(), CastContext::Assignment, offset.span())?;
        Ok(if is_preceding { FrameBound::Preceding(expr) } else { FrameBound::Following(expr) })
    }
}

/// How differences are added to keys of a type, and their type.
fn difference_of(key: Type) -> Option<(RangeOffset, Type)> {
    Some(match key {
        Type::Int2 | Type::Int4 | Type::Int8 => (RangeOffset::Int, Type::Int8),
        Type::Float4 | Type::Float8 => (RangeOffset::Float, Type::Float8),
        Type::Numeric => (RangeOffset::Numeric, Type::Numeric),
        Type::Date => (RangeOffset::Date, Type::Interval),
        Type::Time | Type::TimeTz => (RangeOffset::Time, Type::Interval),
        Type::Timestamp => (RangeOffset::Timestamp, Type::Interval),
        Type::TimestampTz => (RangeOffset::TimestampTz, Type::Interval),
        Type::Interval => (RangeOffset::Interval, Type::Interval),
        _ => return None,
    })
}

//! Functions in FROM, and calls that give rows.

use colibri_types::functions::{SearchRows, ranges_as_array};
use colibri_types::{
    ColumnType, Error, Result, SqlState, Type,
    cast::{CastContext, cast_context},
};
use compact_str::CompactString;
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;

use super::collation::Collation;
use super::expr::Bound;
use super::functions::{json, search};
use super::logical::{Column, From, Relation, Source};
use super::{Binder, fold, name_span, qualified};
use crate::expr::{Expr, SessionFunction};
use crate::plan::Series;
use colibri_syntax::ROWS_FROM;

/// What a function gives: how it is run, with what, and the type of its values.
struct Call {
    name: CompactString,
    series: Series,
    args: Vec<Expr>,
    ty: ColumnType,
    /// The name of its column, if it has one of its own.
    named: Option<CompactString>,
}

impl Binder<'_> {
    /// Functions in FROM: one; `unnest` of several arrays; those that ROWS FROM lists.
    pub(super) fn functions(
        &mut self,
        name: &ast::ObjectName,
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        numbered: bool,
        relations: &mut Vec<Relation>,
    ) -> Result<From> {
        let (_, function) = qualified(name)?;
        let span = name_span(name);
        let named;
        let alias = match alias {
            // `AS (a int)`
            Some(alias) if alias.name.value.is_empty() => {
                let name = ast::Ident { span: alias.name.span, ..ast::Ident::with_quote('"', function.as_str()) };
                named = ast::TableAlias { name, ..alias.clone() };
                Some(&named)
            }
            alias => alias,
        };
        if function != ROWS_FROM
            && let Some(from) = self.routine_columns_in_from(name, args, alias, numbered, relations)?
        {
            return Ok(from);
        }
        if let Some(from) = self.json_in_from(name, &function, args, alias, numbered, relations)? {
            return Ok(from);
        }
        // `unnest` without its rows taken apart. (With one mark in front it is that of `tsvector`.)
        let plain = ast::ObjectName::from(vec![ast::Ident::new("unnest")]);
        let unmarked = function.strip_prefix(json::INNER).and_then(|name| name.strip_prefix(json::INNER));
        let is_inner = unmarked == Some("unnest");
        let (name, function) = if is_inner { (&plain, "unnest".into()) } else { (name, function) };
        if !is_inner && let Some(from) = self.rows_unnested(&function, args, alias, numbered, relations)? {
            return Ok(from);
        }
        if let Some(from) = self.search_in_from(&function, args, alias, numbered, relations)? {
            return Ok(from);
        }
        if let Some(typed) = alias.and_then(|alias| alias.columns.iter().find(|column| column.data_type.is_some())) {
            let message = "a column definition list is only allowed for functions returning \"record\"";
            return Err(self.place(typed.name.span, Error::new(SqlState::SYNTAX_ERROR, message)));
        }
        if let Some(table) = self.builtin.tables.function(&function).filter(|_| args.is_empty() && !numbered) {
            return self.system(table, name, alias, relations);
        }
        if let ("pg_options_to_table", [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(options))], false) =
            (function.as_str(), args, numbered)
        {
            let query = rows_of_options(options)?;
            let name = ast::Ident::new(function.as_str());
            let plain = ast::TableAlias { explicit: false, name, columns: Vec::new(), at: None };
            return self.lateral(&query, alias.unwrap_or(&plain), relations);
        }
        if let ("pg_partition_tree", [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(table))], false) =
            (function.as_str(), args, numbered)
        {
            let query = rows_of_partitions(table)?;
            let name = ast::Ident::new(function.as_str());
            let plain = ast::TableAlias { explicit: false, name, columns: Vec::new(), at: None };
            return self.lateral(&query, alias.unwrap_or(&plain), relations);
        }
        // The names before it are in sight, aggregates are not allowed.
        let no_calls = std::mem::replace(&mut self.scope().no_calls, "functions in FROM");
        let calls = self.calls_in_from(name, &function, args);
        self.scope().no_calls = no_calls;
        let mut calls = calls?;
        if let [Call { series: Series::Search(SearchRows::Lexemes), args, .. }] = &mut calls[..]
            && function == "unnest"
            && let Some(document) = args.pop()
        {
            return self.lexemes_in_from(document, alias, numbered, relations);
        }
        let visible_as = match alias {
            Some(alias) => fold(&alias.name),
            None if calls.len() == 1 => calls[0].name.clone(),
            // PostgreSQL calls `ROWS FROM` by its first function.
            None => calls.first().map_or(function, |call| call.name.clone()),
        };
        let mut columns = Vec::with_capacity(calls.len() + 1);
        let mut list = Vec::with_capacity(calls.len());
        let is_only = calls.len() == 1;
        for call in calls {
            let name = match json::column_of(&call.name) {
                _ if call.named.is_some() => call.named.unwrap_or_default(),
                Some(name) => name.into(),
                // It has a name for what it gives.
                None if call.name == "pg_partition_ancestors" => "relid".into(),
                None if is_only => visible_as.clone(),
                None => call.name,
            };
            columns.push(Column { name, ty: call.ty, origin: None, collation: Collation::Default });
            list.push((call.series, call.args));
        }
        if numbered {
            columns.push(Column {
                name: "ordinality".into(),
                ty: Type::Int8.into(),
                origin: None,
                collation: Collation::Default,
            });
        }
        if columns.is_empty() {
            return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "ROWS FROM needs a function")));
        }
        self.add(visible_as, None, columns, &[], Source::Functions { calls: list, numbered }, alias, relations)
    }

    /// `unnest` of an array of rows: the fields are columns. `None` for anything else.
    fn rows_unnested(
        &mut self,
        function: &str,
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        numbered: bool,
        relations: &mut Vec<Relation>,
    ) -> Result<Option<From>> {
        let ("unnest", [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(array))]) = (function, args) else {
            return Ok(None);
        };
        let no_calls = std::mem::replace(&mut self.scope().no_calls, "functions in FROM");
        let bound = self.expr(array);
        self.scope().no_calls = no_calls;
        let Some(Type::Composite(of)) = bound?.ty.ty.element() else { return Ok(None) };
        let fields: Vec<CompactString> = of.fields().iter().map(|field| field.name.clone()).collect();
        let query = json::rows_query(&format!("{}{function}", json::INNER), &fields, args.to_vec(), numbered)?;
        self.lateral(&query, &json::visible_as(function, alias), relations).map(Some)
    }

    fn calls_in_from(
        &mut self,
        name: &ast::ObjectName,
        function: &CompactString,
        args: &[ast::FunctionArg],
    ) -> Result<Vec<Call>> {
        let span = name_span(name);
        let mut calls = Vec::new();
        if function == ROWS_FROM {
            for arg in args {
                let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = arg else {
                    return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "ROWS FROM lists functions")));
                };
                calls.push(self.call_in_from(expr)?);
            }
        } else if function == "unnest" && args.len() > 1 {
            for arg in args {
                calls.push(self.call_in_from(&call_of(name, vec![arg.clone()]))?);
            }
        } else {
            calls.push(self.call_in_from(&call_of(name, args.to_vec()))?);
        }
        Ok(calls)
    }

    fn call_in_from(&mut self, expr: &ast::Expr) -> Result<Call> {
        let span = expr.span();
        let (name, args) = match expr {
            ast::Expr::Function(ast::Function { name, args: ast::FunctionArguments::List(list), .. }) => {
                (qualified(name)?.1, &list.args[..])
            }
            ast::Expr::Function(ast::Function { name, .. }) => (qualified(name)?.1, &[][..]),
            // What has a syntax of its own, such as EXTRACT, is called by the function that it is.
            other => (super::query::name_of(other), &[][..]),
        };
        if let Some((series, rows, ty)) = self.marked_rows(&name) {
            return Ok(Call { name, series, args: vec![rows], ty, named: None });
        }
        if let Some((name, series, call, ty)) = self.routine_in_from(expr, span)? {
            let named = super::routines::only_result(&call);
            return Ok(Call { name, series, args: vec![call], ty, named });
        }
        if gives_rows(&name) {
            let mut bounds = Vec::with_capacity(args.len());
            for arg in args {
                let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = arg else {
                    return Err(self.place(span, Error::unsupported("named arguments")));
                };
                bounds.push((self.json_argument(&name, bounds.len(), expr)?, expr.span()));
            }
            let (series, args, ty) = self.rows_of(&name, bounds, span)?;
            return Ok(Call { name, series, args, ty, named: None });
        }
        // Without arguments this is a table of the system where it stands alone.
        if self.builtin.tables.function(&name).is_some() {
            return Err(self.place(span, Error::unsupported(format_args!("{name} among other functions in FROM"))));
        }
        let bound = self.expr(expr)?;
        let ty = ColumnType { ty: super::expr::known(bound.ty.ty), ..bound.ty };
        let value = self.coerce(bound, ty, CastContext::Implicit, span)?;
        Ok(Call { name, series: Series::One, args: vec![value], ty, named: None })
    }

    /// A call of a function that gives rows: its arguments in the types that it takes, and the type
    /// of what it gives.
    pub(super) fn rows_of(
        &mut self,
        function: &str,
        mut bounds: Vec<(Bound, Span)>,
        span: Span,
    ) -> Result<(Series, Vec<Expr>, ColumnType)> {
        if let Some(rows) = self.search_rows_of(function, &mut bounds, span)? {
            return Ok(rows);
        }
        if json::gives_rows(function) {
            return self.json_rows_of(function, bounds, span);
        }
        let first = bounds.first().and_then(|(bound, _)| bound.ty.domain).filter(|domain| domain.is_array());
        let (series, args, ty) = self.plain_rows_of(function, bounds, span)?;
        let ty = self.type_of_series(series, ty);
        // Values of arrays of a domain are values of the domain.
        let domain = first.filter(|_| series == Series::Unnest).map(colibri_types::DomainType::element);
        Ok((series, args, ColumnType { domain, ..ty }))
    }

    fn plain_rows_of(
        &mut self,
        function: &str,
        bounds: Vec<(Bound, Span)>,
        span: Span,
    ) -> Result<(Series, Vec<Expr>, Type)> {
        match function {
            "generate_series" => self.series_of(bounds, span),
            "pg_partition_ancestors" => {
                let [(bound, at)] = <[_; 1]>::try_from(bounds).map_err(|_| self.place(span, wrong_call(function)))?;
                let ancestors = self.call("_pg_partition_ancestors", vec![bound], at)?;
                Ok((Series::Unnest, vec![ancestors.expr], Type::RegClass))
            }
            "skeys" | "svals" => {
                let [(bound, at)] = <[_; 1]>::try_from(bounds).map_err(|_| self.place(span, wrong_call(function)))?;
                let listed = if function == "skeys" { "akeys" } else { "avals" };
                if bound.ty.ty != Type::Hstore && bound.ty.ty != Type::Unknown || !self.has_extension("hstore") {
                    let message = format!("function {function}({}) does not exist", bound.ty.ty);
                    return Err(self.place(span, Error::new(SqlState::NO_SUCH_FUNCTION, message)));
                }
                let listed = self.call(listed, vec![bound], at)?;
                Ok((Series::Unnest, vec![listed.expr], Type::Text))
            }
            "pg_snapshot_xip" | "txid_snapshot_xip" => {
                let [(bound, at)] = <[_; 1]>::try_from(bounds).map_err(|_| self.place(span, wrong_call(function)))?;
                let (listed, ty) = match function {
                    "pg_snapshot_xip" => (".pg_snapshot_xip", Type::Xid8),
                    _ => (".txid_snapshot_xip", Type::Int8),
                };
                let at_work = self.call(listed, vec![bound], at)?;
                Ok((Series::Unnest, vec![at_work.expr], ty))
            }
            "pg_listening_channels" => {
                if !bounds.is_empty() {
                    return Err(self.place(span, wrong_call(function)));
                }
                let named = SessionFunction::Named("pg_listening_channels");
                Ok((Series::Unnest, vec![Expr::Session { function: named, args: Vec::new() }], Type::Text))
            }
            "regexp_matches" | "regexp_split_to_table" | "string_to_table" => self.rows_of_text(function, bounds, span),
            _ => self.rows_of_array(function, bounds, span),
        }
    }

    fn rows_of_text(
        &mut self,
        function: &str,
        bounds: Vec<(Bound, Span)>,
        span: Span,
    ) -> Result<(Series, Vec<Expr>, Type)> {
        let types: Vec<&str> = bounds.iter().map(|(bound, _)| bound.ty.ty.sql_name()).collect();
        let message = format!("function {function}({}) does not exist", types.join(", "));
        let no_such = self.place(span, Error::new(SqlState::NO_SUCH_FUNCTION, message));
        let implicit = |(bound, _): &(Bound, Span)| {
            bound.ty.ty == Type::Unknown
                || bound.ty.ty == Type::Text
                || cast_context(bound.ty.ty, Type::Text) == Some(CastContext::Implicit)
        };
        if !(2..=3).contains(&bounds.len()) || !bounds.iter().all(implicit) {
            return Err(no_such);
        }
        // Those of `citext` do without case.
        let folds = bounds[0].0.ty.ty == Type::Citext
            && matches!(bounds[1].0.ty.ty, Type::Citext | Type::Unknown)
            && function != "string_to_table";
        let mut args = Vec::with_capacity(bounds.len());
        for (bound, at) in bounds {
            args.push(self.coerce(bound, Type::Text.into(), CastContext::Implicit, at)?);
        }
        if folds {
            let flags = args.get(2).cloned().unwrap_or_else(|| Expr::Const(colibri_types::Datum::text("")));
            let flags = self.call(".citext_flags", vec![Bound::new(flags, Type::Text)], span)?.expr;
            args.truncate(2);
            args.push(flags);
        }
        Ok(match function {
            "regexp_matches" => (Series::Matches, args, Type::Text.array().unwrap_or(Type::Text)),
            "regexp_split_to_table" => (Series::Split, args, Type::Text),
            _ => (Series::Pieces, args, Type::Text),
        })
    }

    /// The type of what a function gives that is known to give values of this one.
    fn type_of_series(&mut self, series: Series, ty: Type) -> ColumnType {
        if series == Series::Expanded { self.type_of_expanded(ty) } else { ty.into() }
    }

    fn rows_of_array(
        &mut self,
        function: &str,
        bounds: Vec<(Bound, Span)>,
        span: Span,
    ) -> Result<(Series, Vec<Expr>, Type)> {
        let mut bounds = bounds.into_iter();
        let Some((mut array, _)) = bounds.next() else { return Err(self.place(span, wrong_call(function))) };
        if let ("unnest", Some(listed)) = (function, ranges_as_array(array.ty.ty)) {
            let call = Expr::Call { function: listed, args: vec![array.expr] };
            array = Bound::new(call, listed.result);
        }
        if function == "unnest" {
            array = self.user_ranges_listed(array)?;
        }
        let Some(element) = array.ty.ty.element() else {
            let message = format!("function {function}({}) does not exist", array.ty.ty);
            return Err(self.place(span, Error::new(SqlState::NO_SUCH_FUNCTION, message)));
        };
        let mut args = vec![array.expr];
        let (series, ty, rest): (_, _, &[Type]) = match function {
            "unnest" => (Series::Unnest, element, &[]),
            "_pg_expandarray" if element.is_integer() => (Series::Expanded, element, &[]),
            "_pg_expandarray" => {
                return Err(self.place(span, Error::unsupported("_pg_expandarray of anything but integers")));
            }
            _ => (Series::Subscripts, Type::Int4, &[Type::Int4, Type::Bool]),
        };
        for (&ty, (bound, at)) in rest.iter().zip(&mut bounds) {
            args.push(self.coerce(bound, ty.into(), CastContext::Implicit, at)?);
        }
        if bounds.next().is_some() || (series == Series::Subscripts && args.len() < 2) {
            return Err(self.place(span, wrong_call(function)));
        }
        Ok((series, args, ty))
    }

    fn series_of(&mut self, bounds: Vec<(Bound, Span)>, span: Span) -> Result<(Series, Vec<Expr>, Type)> {
        if !(2..=3).contains(&bounds.len()) {
            let error = Error::new(SqlState::NO_SUCH_FUNCTION, "function generate_series takes two or three arguments");
            return Err(self.place(span, error));
        }
        let types: Vec<Type> = bounds.iter().take(2).map(|(bound, _)| bound.ty.ty).collect();
        let common = colibri_types::resolve::common_type(&types).unwrap_or(Type::Int4);
        let (series, ty, step) = match common {
            Type::Int2 | Type::Int4 | Type::Unknown => match bounds.get(2).map(|(step, _)| step.ty.ty) {
                Some(Type::Int8) => (Series::Ints, Type::Int8, Type::Int8),
                Some(Type::Numeric) => (Series::Numerics, Type::Numeric, Type::Numeric),
                _ => (Series::Ints, Type::Int4, Type::Int4),
            },
            Type::Int8 => (Series::Ints, Type::Int8, Type::Int8),
            Type::Numeric => (Series::Numerics, Type::Numeric, Type::Numeric),
            Type::Date | Type::Timestamp => (Series::Timestamps, Type::Timestamp, Type::Interval),
            Type::TimestampTz => (Series::TimestampTzs, Type::TimestampTz, Type::Interval),
            other => {
                let message = format!("function generate_series({other}, {other}) does not exist");
                return Err(self.place(span, Error::new(SqlState::NO_SUCH_FUNCTION, message)));
            }
        };
        if step == Type::Interval && bounds.len() < 3 {
            let message = format!("function generate_series({ty}, {ty}) does not exist");
            return Err(self.place(span, Error::new(SqlState::NO_SUCH_FUNCTION, message)));
        }
        let mut exprs = Vec::with_capacity(bounds.len());
        for (index, (bound, span)) in bounds.into_iter().enumerate() {
            let ty = if index == 2 { step } else { ty };
            exprs.push(self.coerce(bound, ty.into(), CastContext::Implicit, span)?);
        }
        Ok((series, exprs, ty))
    }
}

/// `pg_options_to_table(options)`: names and values of a list such as `{a=b}`.
fn rows_of_options(options: &ast::Expr) -> Result<ast::Query> {
    let mut query = colibri_syntax::parse_query(
        "SELECT split_part(o, '=', 1) AS option_name, \
         CASE WHEN strpos(o, '=') > 0 THEN substr(o, strpos(o, '=') + 1) END AS option_value \
         FROM unnest(CAST(NULL AS text[])) AS listed(o)",
    )?;
    if let ast::SetExpr::Select(select) = &mut *query.body
        && let Some(from) = select.from.first_mut()
        && let ast::TableFactor::UNNEST { array_exprs, .. } = &mut from.relation
        && let [ast::Expr::Cast { expr, .. }] = &mut array_exprs[..]
    {
        **expr = options.clone();
        return Ok(query);
    }
    Err(Error::internal("the query of options has another form"))
}

/// `pg_partition_tree(table)`: arrays of numbers, side by side.
fn rows_of_partitions(table: &ast::Expr) -> Result<ast::Query> {
    let column =
        |at: u8| format!("pg_catalog.unnest(pg_catalog._pg_partition_tree(({table})::pg_catalog.regclass, {at}))");
    colibri_syntax::parse_query(&format!(
        "SELECT a::pg_catalog.regclass AS relid, NULLIF(b, 0)::pg_catalog.regclass AS parentrelid, c = 1 AS isleaf, \
         d::bigint::integer AS level FROM ROWS FROM ({}, {}, {}, {}) AS tree(a, b, c, d)",
        column(0),
        column(1),
        column(2),
        column(3)
    ))
}

/// Whether a function gives rows.
pub(super) fn gives_rows(name: &str) -> bool {
    json::gives_rows(name)
        || search::gives_rows(name)
        || matches!(
            name,
            "generate_series"
                | "unnest"
                | "generate_subscripts"
                | "skeys"
                | "svals"
                | "regexp_matches"
                | "regexp_split_to_table"
                | "string_to_table"
                | "_pg_expandarray"
                | "pg_partition_ancestors"
                | "pg_listening_channels"
                | "pg_snapshot_xip"
                | "txid_snapshot_xip"
        )
}

/// A call as an expression.
pub(super) fn call_of(name: &ast::ObjectName, args: Vec<ast::FunctionArg>) -> ast::Expr {
    let is_value = matches!(&name.0[..], [ast::ObjectNamePart::Identifier(ident)]
        if ident.quote_style.is_none() && super::functions::is_value(&ident.value.to_ascii_lowercase()));
    let args = if is_value && args.is_empty() {
        ast::FunctionArguments::None
    } else {
        ast::FunctionArguments::List(ast::FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() })
    };
    ast::Expr::Function(ast::Function {
        name: name.clone(),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args,
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn wrong_call(function: &str) -> Error {
    Error::new(SqlState::NO_SUCH_FUNCTION, format!("function {function} does not take these arguments"))
}

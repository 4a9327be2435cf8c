//! Calls that make JSON of any values, and those that make rows of JSON.
//!
//! The values that a function of JSON takes are made JSON by the function of their type. Functions
//! that give rows of several columns are queries in FROM: `json_each(x)` is `(SELECT (r).key,
//! (r).value FROM json_each(x) AS f(r))`, where the inner call has a point before its name. A list of
//! columns becomes arguments of that call: their names, and NULLs of their types.

use std::sync::Arc;

use colibri_catalog::Relation;
use colibri_types::cast::CastContext;
use colibri_types::functions::{JsonRows, POPULATE, member_type};
use colibri_types::row::row_type;
use colibri_types::{ColumnType, Datum, DomainType, Error, Result, RowType, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;

use super::super::expr::Bound;
use super::super::logical::{From, Relation as Joined};
use super::super::rows::template;
use super::super::{Binder, fold, name_span};
use super::no_such_function;
use crate::expr::Expr;
use crate::plan::Series;

/// The aggregates that make JSON: they are told the types of their arguments.
pub(super) const AGGREGATES: [&str; 4] = ["json_agg", "json_object_agg", "jsonb_agg", "jsonb_object_agg"];

/// What stands before the name of a call inside the query that a function in FROM is.
pub(in crate::bind) const INNER: char = '.';

/// A function that gives rows.
struct Rows {
    is_binary: bool,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Elements(bool),
    Members(bool),
    Keys,
    Query(bool),
    /// One row or several, of a type that the first argument has, or that columns tell.
    Records {
        many: bool,
        is_listed: bool,
    },
}

/// The domain that the rows are of which a function makes out of a first one.
fn domain_of_base(kind: Kind, bounds: &[(Bound, Span)]) -> Option<DomainType> {
    let Kind::Records { is_listed: false, .. } = kind else { return None };
    bounds.first()?.0.ty.domain.filter(|domain| !domain.is_array())
}

fn rows_named(name: &str) -> Option<Rows> {
    let name = name.strip_prefix(INNER).unwrap_or(name);
    let (is_binary, rest) = match name.strip_prefix("jsonb_") {
        Some(rest) => (true, rest),
        None => (false, name.strip_prefix("json_")?),
    };
    let kind = match rest {
        "array_elements" => Kind::Elements(false),
        "array_elements_text" => Kind::Elements(true),
        "each" => Kind::Members(false),
        "each_text" => Kind::Members(true),
        "object_keys" => Kind::Keys,
        "path_query" if is_binary => Kind::Query(false),
        "path_query_tz" if is_binary => Kind::Query(true),
        "populate_record" => Kind::Records { many: false, is_listed: false },
        "populate_recordset" => Kind::Records { many: true, is_listed: false },
        "to_record" => Kind::Records { many: false, is_listed: true },
        "to_recordset" => Kind::Records { many: true, is_listed: true },
        _ => return None,
    };
    Some(Rows { is_binary, kind })
}

/// Whether a function of JSON gives any number of rows.
pub(in crate::bind) fn gives_rows(name: &str) -> bool {
    rows_named(name).is_some_and(|rows| !matches!(rows.kind, Kind::Records { many: false, .. }))
}

/// Whether a function of JSON gives one row of several columns.
pub(super) fn is_record(name: &str) -> bool {
    rows_named(name).is_some_and(|rows| matches!(rows.kind, Kind::Records { many: false, .. }))
}

/// The name of the one column that a function of JSON gives, if it has one.
pub(in crate::bind) fn column_of(name: &str) -> Option<&'static str> {
    matches!(rows_named(name)?.kind, Kind::Elements(_)).then_some("value")
}

#[cold]
fn no_record() -> Error {
    let message = "function returning record called in context that cannot accept type record";
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

impl Binder<'_> {
    /// A value as JSON, in text or in binary form.
    pub(super) fn json_value(&mut self, bound: Bound, is_binary: bool, span: Span) -> Result<Expr> {
        use Type::{Bool, Date, Float4, Float8, Int2, Int4, Int8, Json, Jsonb, Numeric, Timestamp, TimestampTz};
        let ty = bound.ty.ty;
        let (wanted, name) = if is_binary { (Jsonb, "to_jsonb") } else { (Json, "to_json") };
        if ty == wanted {
            return Ok(bound.expr);
        }
        if ty == Type::Hstore {
            let name = if is_binary { "hstore_to_jsonb" } else { "hstore_to_json" };
            return Ok(self.call(name, vec![bound], span)?.expr);
        }
        let has_own_form = matches!(
            ty,
            Bool | Int2 | Int4 | Int8 | Float4 | Float8 | Numeric | Date | Timestamp | TimestampTz | Json | Jsonb
        );
        if has_own_form || ty.is_row() || ty.element().is_some() {
            return Ok(self.call(name, vec![bound], span)?.expr);
        }
        let bound = super::with_blanks(bound);
        let as_text = self.coerce(bound, Type::Text.into(), CastContext::Explicit, span)?;
        Ok(self.call(name, vec![Bound::new(as_text, Type::Text)], span)?.expr)
    }

    /// `to_json` and `to_jsonb`.
    pub(super) fn json_of_value(&mut self, name: &str, expr: &ast::Expr) -> Result<Bound> {
        let bound = self.expr(expr)?;
        if bound.ty.ty == Type::Unknown {
            let message = "could not determine polymorphic type because input has type unknown";
            return Err(self.place(expr.span(), Error::new(SqlState::TYPE_MISMATCH, message)));
        }
        let is_binary = name == "to_jsonb";
        let ty = if is_binary { Type::Jsonb } else { Type::Json };
        Ok(Bound::new(self.json_value(bound, is_binary, expr.span())?, ty))
    }

    /// `json_build_object`, `json_build_array` and the same of `jsonb`.
    pub(super) fn json_of_values(&mut self, name: &str, exprs: &[&ast::Expr], span: Span) -> Result<Bound> {
        let is_object = name.ends_with("object");
        let is_binary = name.starts_with("jsonb");
        let ty = if is_binary { Type::Jsonb } else { Type::Json };
        if exprs.is_empty() {
            let empty = Datum::text(if is_object { "{}" } else { "[]" });
            let empty = colibri_types::cast::cast(
                &empty,
                Type::Text,
                ty,
                colibri_types::Modifier::NONE,
                CastContext::Explicit,
                self.env,
            )?;
            return Ok(Bound::new(Expr::Const(empty), ty));
        }
        if is_object && !exprs.len().is_multiple_of(2) {
            let message = "argument list must have even number of elements";
            return Err(Error::new(SqlState::BAD_PARAMETER, message)
                .hint(format!("The arguments of {name}() must consist of alternating keys and values.")));
        }
        let mut args = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let bound = self.expr(expr)?;
            args.push(self.json_value(bound, is_binary, expr.span())?);
        }
        let types = vec![ty; args.len()];
        let function = self.at(span, self.builtin.functions.function(name, &types))?;
        Ok(Bound::new(Expr::Call { function, args }, ty))
    }

    /// The same of an array's values, and paths whose steps are an array's.
    pub(super) fn json_of_array(
        &mut self,
        name: &str,
        mut before: Vec<(Bound, Span)>,
        array: Bound,
        span: Span,
    ) -> Result<Option<Bound>> {
        Ok(match name {
            "json_build_object" | "json_build_array" | "jsonb_build_object" | "jsonb_build_array"
                if before.is_empty() =>
            {
                Some(self.call(&format!("{INNER}{name}"), vec![array], span)?)
            }
            "json_extract_path" | "jsonb_extract_path" | "json_extract_path_text" | "jsonb_extract_path_text"
                if before.len() == 1 =>
            {
                let symbol = if name.ends_with("text") { "#>>" } else { "#>" };
                let (document, at) = before.remove(0);
                let to = if name.starts_with("jsonb") { Type::Jsonb } else { Type::Json };
                let document = self.coerce(document, to.into(), CastContext::Implicit, at)?;
                Some(self.call_operator(symbol, Bound::new(document, to), at, array, span)?)
            }
            _ => None,
        })
    }

    /// A call of a function of JSON that gives rows: how it is run, with what, and what it gives.
    pub(in crate::bind) fn json_rows_of(
        &mut self,
        name: &str,
        bounds: Vec<(Bound, Span)>,
        span: Span,
    ) -> Result<(Series, Vec<Expr>, ColumnType)> {
        let Some(Rows { is_binary, kind }) = rows_named(name) else {
            return Err(Error::internal(format_args!("{name} gives no rows")));
        };
        let json = if is_binary { Type::Jsonb } else { Type::Json };
        let declared: &[Type] = match kind {
            Kind::Query(_) => &[Type::Jsonb, Type::JsonPath, Type::Jsonb, Type::Bool],
            Kind::Records { .. } => {
                let domain = domain_of_base(kind, &bounds);
                let (mut args, ty) = self.record_args(name, kind, json, bounds, span)?;
                let rules = match domain {
                    Some(domain) => Some(self.domain_rules(domain)?),
                    None => self.rules_of_fields(&ty)?,
                };
                if let (Some(rules), Some(template)) = (rules.filter(|rules| !rules.is_empty()), args.first_mut()) {
                    // A row without values obeys; the run looks at each row that it makes.
                    let input = Box::new(std::mem::replace(template, Expr::Const(Datum::Null)));
                    *template = Expr::Domain { input, rules };
                }
                let ty = self.type_of_rows(ty);
                return Ok((Series::Json(JsonRows::Records), args, ty));
            }
            _ if is_binary => &[Type::Jsonb],
            _ => &[Type::Json],
        };
        let least = if matches!(kind, Kind::Query(_)) { 2 } else { 1 };
        let fits = (least..=declared.len()).contains(&bounds.len())
            && bounds.iter().zip(declared).all(|((bound, _), ty)| {
                colibri_types::cast::cast_context(bound.ty.ty, *ty) == Some(CastContext::Implicit)
            });
        if !fits {
            let types: Vec<&str> = bounds.iter().map(|(bound, _)| bound.ty.ty.sql_name()).collect();
            return Err(self.place(span, no_such_function(&format!("{name}({})", types.join(", ")))));
        }
        let mut args = Vec::with_capacity(bounds.len());
        for ((bound, at), ty) in bounds.into_iter().zip(declared) {
            args.push(self.coerce(bound, (*ty).into(), CastContext::Implicit, at)?);
        }
        let text_or = |as_text| if as_text { Type::Text } else { json };
        let (rows, ty) = match kind {
            Kind::Elements(as_text) => (JsonRows::Elements { as_text }, text_or(as_text).into()),
            Kind::Members(as_text) => {
                let ty = self.type_of_rows(Arc::new(member_type(is_binary, as_text)));
                (JsonRows::Members { as_text }, ty)
            }
            Kind::Query(with_zone) => (JsonRows::Query { with_zone }, Type::Jsonb.into()),
            _ => (JsonRows::Keys, Type::Text.into()),
        };
        Ok((Series::Json(rows), args, ty))
    }

    /// `json_populate_record` and, inside a query of FROM, `json_to_record`.
    pub(super) fn json_record(&mut self, name: &str, exprs: &[&ast::Expr], span: Span) -> Result<Bound> {
        let Some(Rows { is_binary, kind }) = rows_named(name) else {
            return Err(Error::internal(format_args!("{name} gives no record")));
        };
        let mut bounds = Vec::with_capacity(exprs.len());
        for (at, expr) in exprs.iter().enumerate() {
            bounds.push((self.base_or_value(kind, at, expr)?, expr.span()));
        }
        self.record_of(name, Rows { is_binary, kind }, bounds, span)
    }

    /// `populate_record(row, hstore)`: what JSON with the same texts would give.
    pub(super) fn record_of_hstore(&mut self, base: &ast::Expr, value: &ast::Expr, span: Span) -> Result<Bound> {
        let base = (self.base_or_value(Kind::Records { many: false, is_listed: false }, 0, base)?, base.span());
        let value = (self.expr(value)?, value.span());
        self.record_with_hstore(base, value, span)
    }

    /// The same of operands that are bound: `row #= hstore`.
    pub(in crate::bind) fn record_with_hstore(
        &mut self,
        base: (Bound, Span),
        (value, at): (Bound, Span),
        span: Span,
    ) -> Result<Bound> {
        if !base.0.ty.ty.is_row() {
            let error = Error::new(SqlState::TYPE_MISMATCH, "first argument must be a rowtype");
            return Err(self.place(base.1, error));
        }
        let value = self.coerce(value, Type::Hstore.into(), CastContext::Implicit, at)?;
        let value = self.call("hstore_to_jsonb", vec![Bound::new(value, Type::Hstore)], at)?;
        let rows = Rows { is_binary: true, kind: Kind::Records { many: false, is_listed: false } };
        self.record_of("jsonb_populate_record", rows, vec![base, (value, at)], span)
    }

    fn record_of(&mut self, name: &str, rows: Rows, bounds: Vec<(Bound, Span)>, span: Span) -> Result<Bound> {
        let Rows { is_binary, kind } = rows;
        let json = if is_binary { Type::Jsonb } else { Type::Json };
        let domain = domain_of_base(kind, &bounds);
        let (args, ty) = self.record_args(name, kind, json, bounds, span)?;
        let rules = self.rules_of_fields(&ty)?;
        let ty = self.type_of_rows(ty);
        let record = Expr::Call { function: &POPULATE, args };
        // Bug: fields were taken to be of their domains as they came. Consequence: what no domain
        // allows was stored. Fix: they are looked at where the row is made.
        let record = match rules {
            Some(rules) => Expr::Domain { input: Box::new(record), rules },
            None => record,
        };
        match domain {
            Some(domain) => Ok(Bound::new(self.in_domain(record, domain)?, ColumnType { domain: Some(domain), ..ty })),
            None => Ok(Bound::new(record, ty)),
        }
    }

    /// An argument: the first one may be a NULL of a table's row type.
    pub(in crate::bind) fn json_argument(&mut self, name: &str, at: usize, expr: &ast::Expr) -> Result<Bound> {
        match rows_named(name) {
            Some(Rows { kind, .. }) => self.base_or_value(kind, at, expr),
            None => self.expr(expr),
        }
    }

    fn base_or_value(&mut self, kind: Kind, at: usize, expr: &ast::Expr) -> Result<Bound> {
        if let (Kind::Records { is_listed: false, .. }, 0) = (kind, at)
            && let ast::Expr::Cast { expr: inner, data_type: ast::DataType::Custom(name, arguments), .. } = expr
            && arguments.is_empty()
            && let ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Null, .. }) = &**inner
            && let Some(ty) = self.row_type_named(name)?
        {
            let ty = self.type_of_rows(Arc::new(ty));
            return Ok(Bound::new(Expr::Const(Datum::Null), ty));
        }
        self.expr(expr)
    }

    /// The type of the rows of a table or a view.
    fn row_type_named(&mut self, name: &ast::ObjectName) -> Result<Option<RowType>> {
        let found = match self.relation(name)? {
            Some(Relation::Table(table)) => {
                let columns = table.columns.iter().filter(|column| !column.dropped);
                let fields = columns.map(|column| (column.name.clone(), column.ty)).collect();
                (table.id, table.name.clone(), fields)
            }
            _ => return Ok(None),
        };
        let (id, name, fields) = found;
        self.used.push(id);
        Ok(Some(RowType { oid: row_type(id), name, fields }))
    }

    /// An empty row of the type, the row whose values stay, and the value: what is made records of.
    fn record_args(
        &mut self,
        name: &str,
        kind: Kind,
        json: Type,
        mut bounds: Vec<(Bound, Span)>,
        span: Span,
    ) -> Result<(Vec<Expr>, Arc<RowType>)> {
        let Kind::Records { is_listed, .. } = kind else { return Err(Error::internal("no records")) };
        if is_listed && !name.starts_with(INNER) {
            return Err(self.place(span, no_record()));
        }
        let wrong = |binder: &Self, bounds: &[(Bound, Span)]| {
            let types: Vec<&str> = bounds.iter().map(|(bound, _)| bound.ty.ty.sql_name()).collect();
            binder.place(span, no_such_function(&format!("{}({})", name.trim_start_matches(INNER), types.join(", "))))
        };
        let least = if is_listed { 1 } else { 2 };
        if bounds.len() < least || (!is_listed && bounds.len() > 3) {
            return Err(wrong(self, &bounds));
        }
        let (base, ty) = if is_listed {
            let mut fields = Vec::with_capacity(bounds.len() / 2);
            for pair in bounds[1..].chunks(2) {
                // Names and columns stand behind one argument.
                let [(Bound { expr: Expr::Const(Datum::Text(name)), .. }, _), (column, _)] = pair else {
                    return Err(wrong(self, &[]));
                };
                fields.push((name.clone(), column.ty));
            }
            let ty = RowType { oid: Type::Record.oid(), name: "record".into(), fields };
            (Expr::Const(Datum::Null), Arc::new(ty))
        } else {
            let (base, at) = bounds.remove(0);
            match (base.ty.ty, self.row_type_of(base.ty)) {
                (_, Some(ty)) => (base.expr, ty),
                (Type::Record, None) | (Type::Unknown, None) => {
                    let message = "could not determine row type for result of";
                    let name = name.trim_start_matches(INNER);
                    let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{message} {name}"));
                    return Err(self.place(at, error.hint(
                        "Provide a non-null record argument, or call the function in the FROM clause using a column \
                         definition list.",
                    )));
                }
                (ty, None) => {
                    let name = name.trim_start_matches(INNER);
                    let message = format!("first argument of {name} must be a row type");
                    let error = Error::new(SqlState::TYPE_MISMATCH, message);
                    let _ = ty;
                    return Err(self.place(at, error));
                }
            }
        };
        let (value, at) = bounds.swap_remove(0);
        if colibri_types::cast::cast_context(value.ty.ty, json) != Some(CastContext::Implicit) {
            bounds.insert(0, (value, at));
            return Err(wrong(self, &bounds));
        }
        let value = self.coerce(value, json.into(), CastContext::Implicit, at)?;
        Ok((vec![template(&ty), base, value], ty))
    }

    /// A function of several columns in FROM; `None` if it is none.
    pub(in crate::bind) fn json_in_from(
        &mut self,
        name: &ast::ObjectName,
        function: &str,
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        numbered: bool,
        relations: &mut Vec<Joined>,
    ) -> Result<Option<From>> {
        let Some(Rows { kind, .. }) = rows_named(function).filter(|_| !function.starts_with(INNER)) else {
            return Ok(None);
        };
        let span = name_span(name);
        let mut args = args.to_vec();
        let listed = alias.map_or(&[][..], |alias| &alias.columns[..]);
        let types = listed.iter().filter(|column| column.data_type.is_some()).count();
        let fields: Vec<CompactString> = match kind {
            Kind::Members(_) if types == 0 => vec!["key".into(), "value".into()],
            Kind::Records { is_listed: true, .. } => {
                if types == 0 || types < listed.len() {
                    let message = "a column definition list is required for functions returning \"record\"";
                    return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, message)));
                }
                if numbered {
                    let message = "WITH ORDINALITY cannot be used with a column definition list";
                    return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, message)));
                }
                for column in listed {
                    let name = fold(&column.name);
                    let value = |value| Box::new(ast::Expr::Value(ast::Value::with_empty_span(value)));
                    let data_type = column.data_type.clone().unwrap_or(ast::DataType::Text);
                    let kind = ast::CastKind::DoubleColon;
                    let typed = ast::Expr::Cast { kind, expr: value(ast::Value::Null), data_type, format: None };
                    for expr in [*value(ast::Value::SingleQuotedString(name.to_string())), typed] {
                        args.push(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)));
                    }
                }
                listed.iter().map(|column| fold(&column.name)).collect()
            }
            Kind::Records { is_listed: false, .. } => {
                let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(base))) = args.first() else {
                    return Ok(None);
                };
                let bound = self.base_or_value(kind, 0, base)?;
                match self.row_type_of(bound.ty) {
                    Some(ty) => ty.fields.iter().map(|(name, _)| name.clone()).collect(),
                    None => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        let query = rows_query(function, &fields, args, numbered)?;
        self.lateral(&query, &visible_as(function, alias), relations).map(Some)
    }
}

/// A function of several columns, as the query that takes its rows apart.
pub(in crate::bind) fn rows_query(
    function: &str,
    fields: &[CompactString],
    args: Vec<ast::FunctionArg>,
    numbered: bool,
) -> Result<ast::Query> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let mut list: Vec<String> = fields.iter().map(|name| format!("(r).{} AS {}", quoted(name), quoted(name))).collect();
    if numbered {
        list.push("ordinality".to_owned());
    }
    let (number, behind) = if numbered { (" WITH ORDINALITY", ", ordinality") } else { ("", "") };
    let inner = quoted(&format!("{INNER}{function}"));
    let text = format!("SELECT {} FROM {inner}(NULL){number} AS f(r{behind})", list.join(", "));
    let mut query = colibri_syntax::parse_query(&text)?;
    if let ast::SetExpr::Select(select) = &mut *query.body
        && let Some(from) = select.from.first_mut()
        && let ast::TableFactor::Table { args: Some(given), .. } = &mut from.relation
    {
        given.args = args;
        return Ok(query);
    }
    Err(Error::internal("the query of a function has another form"))
}

/// What the rows of a function are called.
pub(in crate::bind) fn visible_as(function: &str, alias: Option<&ast::TableAlias>) -> ast::TableAlias {
    let mut visible = alias.cloned().unwrap_or_else(|| ast::TableAlias {
        explicit: false,
        name: ast::Ident::new(function),
        columns: Vec::new(),
        at: None,
    });
    for column in &mut visible.columns {
        column.data_type = None;
    }
    visible
}

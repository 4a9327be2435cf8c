//! Binding queries: SELECT, VALUES, set operations, ORDER BY and LIMIT.

use compact_str::CompactString;
use sqlparser::ast;
use sqlparser::ast::Spanned;
use sqlparser::tokenizer::Span;

use super::expr::{Bound, known};
use super::logical::{Body, Column, Distinct, Extra, Group, Lock, Query, Select, SetOperation};
use super::{AGGREGATES, Binder, Scope, fold, qualified, rewrite};
use crate::cast::CastContext;
use crate::cluster::Privileges;
use crate::error::{Error, Result, SqlState};
use crate::expr::Expr;
use crate::plan::{IfRowLocked, RowLock, SortKey};
use crate::types::{ColumnType, Type};
use crate::value::Datum;

/// Columns of a result at most, as in PostgreSQL.
const OUTPUT_MAX: usize = 1664;

/// Whether an order is descending, and whether NULLs come first.
pub(crate) fn sort_key_options(options: &ast::OrderByOptions) -> Result<(bool, bool)> {
    let descending = match &options.sort {
        None | Some(ast::OrderBySort::Asc) => false,
        Some(ast::OrderBySort::Desc) => true,
        Some(ast::OrderBySort::Using(operator)) => match operator.to_string().as_str() {
            "<" | "<=" => false,
            ">" | ">=" => true,
            _ => return Err(Error::unsupported(format_args!("ORDER BY USING {operator}"))),
        },
    };
    Ok((descending, options.nulls_first.unwrap_or(descending)))
}

/// An item of a SELECT list.
struct Item {
    bound: Bound,
    name: CompactString,
    origin: Option<(u32, i16)>,
    span: Span,
}

/// The name of an unnamed expression, as PostgreSQL chooses it.
fn name_of(expr: &ast::Expr) -> CompactString {
    name_if_any(expr).map_or_else(|| "?column?".into(), |(name, _)| name)
}

/// How much a name says: a type's, or that something is a CASE, makes way for what stands around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strength {
    Weak,
    Strong,
}

fn name_if_any(expr: &ast::Expr) -> Option<(CompactString, Strength)> {
    use ast::Expr as E;
    let strong = |found: &Option<(CompactString, Strength)>| matches!(found, Some((_, Strength::Strong)));
    let name: CompactString = match expr {
        E::Nested(inner) | E::Collate { expr: inner, .. } => return name_if_any(inner),
        E::Cast { expr: inner, data_type, .. } => {
            let inner = name_if_any(inner);
            return if strong(&inner) { inner } else { type_name(data_type).map(|name| (name, Strength::Weak)) };
        }
        E::TypedString(typed) => return type_name(&typed.data_type).map(|name| (name, Strength::Weak)),
        E::Interval(_) => return Some(("interval".into(), Strength::Weak)),
        E::Case { else_result, .. } => {
            let otherwise = else_result.as_deref().and_then(name_if_any);
            return if strong(&otherwise) { otherwise } else { Some(("case".into(), Strength::Weak)) };
        }
        E::Identifier(ident) => fold(ident),
        E::CompoundIdentifier(parts) => fold(parts.last()?),
        E::Function(function) => qualified(&function.name).ok()?.1,
        E::Exists { negated: false, .. } => "exists".into(),
        E::Array(_) => "array".into(),
        E::Tuple(_) => "row".into(),
        E::CompoundFieldAccess { root, access_chain } => match access_chain.last()? {
            ast::AccessExpr::Dot(E::Identifier(field)) => fold(field),
            _ => return name_if_any(root),
        },
        E::Extract { .. } => "extract".into(),
        E::Ceil { .. } => "ceil".into(),
        E::Floor { .. } => "floor".into(),
        E::Position { .. } => "position".into(),
        E::Substring { shorthand, .. } => if *shorthand { "substr" } else { "substring" }.into(),
        E::Overlay { .. } => "overlay".into(),
        E::Trim { trim_where, .. } => match trim_where {
            None | Some(ast::TrimWhereField::Both) => "btrim".into(),
            Some(ast::TrimWhereField::Leading) => "ltrim".into(),
            Some(ast::TrimWhereField::Trailing) => "rtrim".into(),
        },
        E::AtTimeZone { .. } => "timezone".into(),
        E::Subquery(query) => first_name(&query.body)?,
        _ => return None,
    };
    Some((name, Strength::Strong))
}

/// The name of a query's first column, where that does not take looking at tables.
fn first_name(body: &ast::SetExpr) -> Option<CompactString> {
    match body {
        ast::SetExpr::Query(inner) => first_name(&inner.body),
        ast::SetExpr::SetOperation { left, .. } => first_name(left),
        ast::SetExpr::Values(_) => Some("column1".into()),
        ast::SetExpr::Select(select) => match select.projection.first()? {
            ast::SelectItem::UnnamedExpr(expr) => Some(name_of(expr)),
            ast::SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
            _ => None,
        },
        _ => None,
    }
}

/// What PostgreSQL calls a type inside, which is how a cast without another name is named.
fn type_name(data_type: &ast::DataType) -> Option<CompactString> {
    let ty = super::bind_type(data_type).ok()?.ty;
    // Brackets are no part of the name.
    let named = if matches!(ty, Type::Array(_)) { ty.element().unwrap_or(ty) } else { ty };
    Some(named.inner_name().into())
}

impl Binder<'_> {
    /// Binds a query with all its clauses.
    pub(crate) fn query(&mut self, query: &ast::Query) -> Result<Query> {
        if query.for_clause.is_some() || query.settings.is_some() || !query.pipe_operators.is_empty() {
            return Err(Error::unsupported("this clause of a query"));
        }
        let with = self.with.len();
        if let Some(clause) = &query.with {
            self.with(clause)?;
        }
        let bound = self.query_body(query);
        self.with.truncate(with);
        bound
    }

    fn query_body(&mut self, query: &ast::Query) -> Result<Query> {
        let order: &[ast::OrderByExpr] = match &query.order_by {
            None => &[],
            Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(keys), .. }) => keys,
            Some(ast::OrderBy { kind: ast::OrderByKind::All(_), .. }) => {
                return Err(Error::unsupported("ORDER BY ALL"));
            }
        };
        let mut bound = match &*query.body {
            ast::SetExpr::Select(select) => self.select(select, order)?,
            ast::SetExpr::Query(inner)
                if order.is_empty() && query.limit_clause.is_none() && query.locks.is_empty() =>
            {
                self.deeper(|binder| binder.query(inner))?
            }
            body => {
                let mut bound = self.deeper(|binder| binder.set_expr(body))?;
                if bound.order.is_empty() && bound.limit.is_none() && bound.offset.is_none() {
                    bound.order = self.order_of_result(&bound.columns, order)?;
                } else if !order.is_empty() || query.limit_clause.is_some() {
                    bound = enclose(bound);
                    bound.order = self.order_of_result(&bound.columns, order)?;
                }
                bound
            }
        };
        self.limits(query, &mut bound)?;
        for lock in &query.locks {
            let mode = match lock.lock_type {
                ast::LockType::Share => RowLock::Share,
                ast::LockType::Update => RowLock::Update,
            };
            let if_locked = match lock.nonblock {
                None => IfRowLocked::Wait,
                Some(ast::NonBlock::Nowait) => IfRowLocked::NoWait,
                Some(ast::NonBlock::SkipLocked) => IfRowLocked::Skip,
            };
            let of = lock.of.iter().map(|name| qualified(name).map(|(_, name)| name)).collect::<Result<_>>()?;
            bound.locks.push(Lock { mode, if_locked, of });
        }
        if !bound.locks.is_empty() {
            self.check_locks(&bound)?;
            self.need_locks(&bound);
        }
        Ok(bound)
    }

    /// Locking rows is the beginning of changing them.
    fn need_locks(&mut self, query: &Query) {
        let Body::Select(select) = &query.body else { return };
        for relation in &select.relations {
            let locked = query.locks.iter().any(|lock| lock.of.is_empty() || lock.of.contains(&relation.name));
            if let (super::logical::Source::Table(table), true) = (&relation.source, locked) {
                self.need(table.id, &table.schema, Privileges::UPDATE);
            }
        }
    }

    fn check_locks(&self, query: &Query) -> Result<()> {
        let refuse = |what: &str| {
            let message = format!("FOR UPDATE is not allowed with {what}");
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        };
        let Body::Select(select) = &query.body else { return refuse("UNION/INTERSECT/EXCEPT") };
        if select.group.is_some() {
            return refuse("GROUP BY clause");
        }
        if select.distinct != Distinct::No {
            return refuse("DISTINCT clause");
        }
        for lock in &query.locks {
            for name in &lock.of {
                if !select.relations.iter().any(|relation| relation.name == *name) {
                    let message = format!("relation \"{name}\" in FOR UPDATE clause not found in FROM clause");
                    return Err(Error::new(SqlState::NO_SUCH_TABLE, message));
                }
            }
        }
        Ok(())
    }

    fn limits(&mut self, query: &ast::Query, bound: &mut Query) -> Result<()> {
        let (limit, offset) = match &query.limit_clause {
            None => (None, None),
            Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(ast::LimitClause::OffsetCommaLimit { .. }) => {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "LIMIT #,# syntax is not supported")
                    .hint("Use separate LIMIT and OFFSET clauses."));
            }
        };
        let fetched = match &query.fetch {
            None => None,
            Some(ast::Fetch { with_ties: false, percent: false, quantity }) => Some(quantity.as_ref()),
            Some(ast::Fetch { with_ties: true, .. }) if limit.is_some() || bound.order.is_empty() => {
                let message = "WITH TIES cannot be specified without ORDER BY clause";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            Some(_) => return Err(Error::unsupported("FETCH FIRST WITH TIES")),
        };
        if let Some(limit) = limit.or(fetched.flatten()) {
            bound.limit = Some(self.count_of_rows(limit, "LIMIT")?);
        } else if fetched.is_some() {
            bound.limit = Some(Expr::Const(Datum::Int(1)));
        }
        if let Some(offset) = offset {
            bound.offset = Some(self.count_of_rows(offset, "OFFSET")?);
        }
        Ok(())
    }

    fn count_of_rows(&mut self, expr: &ast::Expr, clause: &'static str) -> Result<Expr> {
        // An outer query's columns are in sight, this one's are not.
        self.frame().scopes.push(Scope { no_calls: clause, ..Scope::default() });
        let bound = self.expr(expr);
        self.frame().scopes.pop();
        let bound = bound.map_err(|error| match error.state() {
            SqlState::NO_SUCH_COLUMN => {
                let error = Error::new(
                    SqlState::BAD_COLUMN_REFERENCE,
                    format!("argument of {clause} must not contain variables"),
                );
                self.place(expr.span(), error)
            }
            _ => error,
        })?;
        if !matches!(bound.ty.ty.category(), crate::types::Category::Number | crate::types::Category::Unknown) {
            let message = format!("argument of {clause} must be type bigint, not type {}", bound.ty.ty);
            return Err(self.place(expr.span(), Error::new(SqlState::TYPE_MISMATCH, message)));
        }
        let context = if bound.ty.ty.category() == crate::types::Category::Number {
            CastContext::Assignment
        } else {
            CastContext::Implicit
        };
        self.coerce(bound, Type::Int8.into(), context, expr.span())
    }

    fn set_expr(&mut self, body: &ast::SetExpr) -> Result<Query> {
        match body {
            ast::SetExpr::Select(select) => self.select(select, &[]),
            ast::SetExpr::Query(query) => self.deeper(|binder| binder.query(query)),
            ast::SetExpr::Values(values) => self.values(values),
            ast::SetExpr::SetOperation { left, op, set_quantifier, right } => {
                let op = match op {
                    ast::SetOperator::Union => SetOperation::Union,
                    ast::SetOperator::Intersect => SetOperation::Intersect,
                    ast::SetOperator::Except => SetOperation::Except,
                    ast::SetOperator::Minus => return Err(Error::new(SqlState::SYNTAX_ERROR, "MINUS is EXCEPT here")),
                };
                let all = match set_quantifier {
                    ast::SetQuantifier::All => true,
                    ast::SetQuantifier::None | ast::SetQuantifier::Distinct => false,
                    _ => return Err(Error::unsupported("set operations BY NAME")),
                };
                self.set_operation(op, all, left, right)
            }
            ast::SetExpr::Table(table) => {
                let Some(name) = &table.table_name else {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "TABLE needs a name"));
                };
                let statement = crate::statement::parse_query(&match &table.schema_name {
                    Some(schema) => format!("SELECT * FROM {schema}.{name}"),
                    None => format!("SELECT * FROM {name}"),
                })?;
                self.deeper(|binder| binder.query(&statement))
            }
            _ => Err(Error::unsupported("a statement that writes inside a query")),
        }
    }

    fn set_operation(
        &mut self,
        op: SetOperation,
        all: bool,
        left: &ast::SetExpr,
        right: &ast::SetExpr,
    ) -> Result<Query> {
        let mut left_query = self.deeper(|binder| binder.set_expr(left))?;
        let mut right_query = self.deeper(|binder| binder.set_expr(right))?;
        let name = match op {
            SetOperation::Union => "UNION",
            SetOperation::Intersect => "INTERSECT",
            SetOperation::Except => "EXCEPT",
        };
        if left_query.columns.len() != right_query.columns.len() {
            let message = format!("each {name} query must have the same number of columns");
            return Err(self.place(right.span(), Error::new(SqlState::SYNTAX_ERROR, message)));
        }
        let mut types = Vec::with_capacity(left_query.columns.len());
        for (left, right_column) in left_query.columns.iter().zip(&right_query.columns) {
            types.push(self.common_type(name, &[left.ty.ty, right_column.ty.ty], right.span())?);
        }
        let columns = left_query
            .columns
            .iter()
            .zip(&right_query.columns)
            .zip(&types)
            .map(|((left, right), &ty)| {
                let ty = if left.ty == right.ty && left.ty.ty == ty { left.ty } else { ColumnType::from(ty) };
                Column { name: left.name.clone(), ty, origin: None }
            })
            .collect();
        self.retype(&mut left_query, &types)?;
        self.retype(&mut right_query, &types)?;
        let body = Body::Set { op, all, left: Box::new(left_query), right: Box::new(right_query) };
        Ok(plain(body, columns))
    }

    pub(super) fn values(&mut self, values: &ast::Values) -> Result<Query> {
        let width = values.rows.first().map_or(0, |row| row.content.len());
        if width > OUTPUT_MAX {
            return Err(too_many_columns());
        }
        self.frame().scopes.push(Scope { no_calls: "VALUES", ..Scope::default() });
        let bound = self.values_rows(values, width);
        self.frame().scopes.pop();
        let (rows, types) = bound?;
        let columns = (1..=width)
            .zip(&types)
            .map(|(number, &ty)| Column { name: compact_str::format_compact!("column{number}"), ty, origin: None })
            .collect();
        Ok(plain(Body::Values(rows), columns))
    }

    fn values_rows(&mut self, values: &ast::Values, width: usize) -> Result<(Vec<Vec<Expr>>, Vec<ColumnType>)> {
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            if row.content.len() != width {
                let span = row.content.first().map_or(Span::empty(), Spanned::span);
                let error = Error::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length");
                return Err(self.place(span, error));
            }
            let mut bounds = Vec::with_capacity(width);
            for expr in &row.content {
                bounds.push((self.expr(expr)?, expr.span()));
            }
            rows.push(bounds);
        }
        let mut types: Vec<ColumnType> = Vec::with_capacity(width);
        for column in 0..width {
            let all: Vec<Type> = rows.iter().map(|row| row[column].0.ty.ty).collect();
            // One row's literals keep their openness: INSERT tells their types.
            let ty = if all.iter().all(|&ty| ty == Type::Unknown) {
                Type::Unknown
            } else {
                self.common_type("VALUES", &all, rows[0][column].1)?
            };
            types.push(super::expr::common_modifier(rows.iter().map(|row| row[column].0.ty), ty));
        }
        let mut exprs = Vec::with_capacity(rows.len());
        for row in rows {
            let mut typed = Vec::with_capacity(width);
            for ((bound, span), &ty) in row.into_iter().zip(&types) {
                typed.push(match ty.ty {
                    Type::Unknown => bound.expr,
                    _ => self.coerce(bound, ty.ty.into(), CastContext::Implicit, span)?,
                });
            }
            exprs.push(typed);
        }
        Ok((exprs, types))
    }

    /// ORDER BY over a result: by name or number of its columns.
    fn order_of_result(&mut self, columns: &[Column], order: &[ast::OrderByExpr]) -> Result<Vec<SortKey>> {
        let mut keys = Vec::with_capacity(order.len());
        for key in order {
            let (descending, nulls_first) = self.at(key.expr.span(), sort_key_options(&key.options))?;
            let place = match &key.expr {
                ast::Expr::Identifier(ident) => {
                    let name = fold(ident);
                    columns.iter().position(|column| column.name == name).ok_or_else(|| {
                        Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{name}\" does not exist"))
                    })
                }
                other => match ordinal(other) {
                    Some(number) => at_ordinal(number, columns.len(), "ORDER BY"),
                    None => Err(Error::new(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                    )
                    .detail("Only result column names can be used, not expressions or functions.")
                    .hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause.")),
                },
            };
            let place = self.at(key.expr.span(), place)?;
            keys.push(SortKey { expr: Expr::Column(place), descending, nulls_first });
        }
        Ok(keys)
    }

    fn select(&mut self, select: &ast::Select, order: &[ast::OrderByExpr]) -> Result<Query> {
        if select.into.is_some() || select.top.is_some() || select.qualify.is_some() || !select.named_window.is_empty()
        {
            return Err(Error::unsupported("this clause of SELECT"));
        }
        self.frame().scopes.push(Scope { no_calls: "FROM", ..Scope::default() });
        let bound = self.select_in_scope(select, order);
        self.frame().scopes.pop();
        bound
    }

    /// Columns of a table whose primary key is among the keys depend on it: they become keys too, which changes no group.
    fn add_dependent_keys(&self, keys: &mut Vec<Expr>, relations: &[super::logical::Relation], exprs: &[&Expr]) {
        for relation in relations {
            let super::logical::Source::Table(table) = &relation.source else { continue };
            let is_key = |keys: &[Expr], place: usize| {
                keys.iter().any(|key| matches!(key, Expr::Column(other) if *other == place))
            };
            let columns = table.key_columns();
            if table.primary_key.is_none() || !columns.iter().all(|&column| is_key(keys, relation.base + column)) {
                continue;
            }
            for expr in exprs {
                rewrite::for_each_column(expr, &mut |place| {
                    let inside = (relation.base..relation.base + relation.width).contains(&place);
                    if inside && !is_key(keys, place) {
                        keys.push(Expr::Column(place));
                    }
                });
            }
        }
    }

    fn select_in_scope(&mut self, select: &ast::Select, order: &[ast::OrderByExpr]) -> Result<Query> {
        let mut relations = Vec::new();
        let from = self.from(&select.from, &mut relations)?;
        self.scope().no_calls = "WHERE";
        let filter = match &select.selection {
            Some(condition) => rewrite::conjuncts(self.condition(condition, "WHERE")?),
            None => Vec::new(),
        };
        self.scope().calls = Some(Vec::new());
        self.scope().extras = Some(Vec::new());
        let mut items = self.items(&select.projection)?;
        let width = items.len();
        if width > OUTPUT_MAX {
            return Err(too_many_columns());
        }
        let keys = self.group_keys(&select.group_by, &items)?;
        let having = match &select.having {
            Some(condition) => Some(self.condition(condition, "HAVING")?),
            None => None,
        };
        let on = match &select.distinct {
            Some(ast::Distinct::On(exprs)) if exprs.is_empty() => {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \")\""));
            }
            Some(ast::Distinct::On(exprs)) => self.distinct_on(exprs, &mut items, width)?,
            _ => Vec::new(),
        };
        let all_distinct = matches!(select.distinct, Some(ast::Distinct::Distinct));
        let mut order = self.order(order, &mut items, width, all_distinct)?;
        if !on.is_empty() {
            order = order_for_distinct_on(order, &on)?;
        }
        let calls = self.scope().calls.take().unwrap_or_default();
        let mut extras = self.scope().extras.take().unwrap_or_default();
        let mut output = Vec::with_capacity(items.len());
        let mut columns = Vec::with_capacity(width);
        for (index, item) in items.into_iter().enumerate() {
            if index < width {
                columns.push(Column { name: item.name, ty: item.bound.ty, origin: item.origin });
            }
            output.push(item.bound.expr);
        }
        let grouped = !calls.is_empty() || having.is_some() || keys.is_some();
        let group = if grouped {
            let mut keys = keys.unwrap_or_default();
            if !keys.is_empty() {
                let of_extras = extras.iter().flat_map(Extra::exprs);
                let exprs: Vec<&Expr> = output.iter().chain(&having).chain(of_extras).collect();
                self.add_dependent_keys(&mut keys, &relations, &exprs);
            }
            let rewriter = rewrite::Grouping { keys: &keys, binder: self };
            for expr in output.iter_mut().chain(extras.iter_mut().flat_map(Extra::exprs_mut)) {
                rewriter.rewrite(expr)?;
            }
            let mut having = having;
            if let Some(having) = &mut having {
                rewriter.rewrite(having)?;
            }
            Some(Group { keys, calls, having })
        } else {
            None
        };
        let distinct = match &select.distinct {
            Some(ast::Distinct::Distinct) => Distinct::All(width),
            Some(ast::Distinct::On(_)) => Distinct::On(on),
            _ => Distinct::No,
        };
        let select = Select { relations, from, filter, group, extras, output, distinct };
        let mut query = plain(Body::Select(Box::new(select)), columns);
        query.order = order;
        Ok(query)
    }

    /// A list of expressions, with their names and places.
    pub(super) fn plain_items(&mut self, list: &[ast::SelectItem]) -> Result<Vec<(CompactString, Bound, Span)>> {
        let items = self.items(list)?;
        Ok(items.into_iter().map(|item| (item.name, item.bound, item.span)).collect())
    }

    fn items(&mut self, projection: &[ast::SelectItem]) -> Result<Vec<Item>> {
        let mut items = Vec::with_capacity(projection.len());
        for item in projection {
            match item {
                ast::SelectItem::UnnamedExpr(expr) => items.push(self.item(expr, name_of(expr))?),
                ast::SelectItem::ExprWithAlias { expr, alias } => items.push(self.item(expr, fold(alias))?),
                ast::SelectItem::Wildcard(_) => {
                    if self.scope().tables.is_empty() {
                        let error =
                            Error::new(SqlState::SYNTAX_ERROR, "SELECT * with no tables specified is not valid");
                        return Err(self.place(item.span(), error));
                    }
                    let all = self.scope().all(None).unwrap_or_default();
                    items.extend(all.into_iter().map(|column| from_column(column, item.span())));
                }
                ast::SelectItem::QualifiedWildcard(kind, _) => {
                    let ast::SelectItemQualifiedWildcardKind::ObjectName(name) = kind else {
                        return Err(self.place(item.span(), Error::unsupported("* of an expression")));
                    };
                    let table = qualified(name)?;
                    let Some(all) = self.scope().all(Some(&table)) else {
                        let message = format!("missing FROM-clause entry for table \"{}\"", table.1);
                        return Err(self.place(item.span(), Error::new(SqlState::NO_SUCH_TABLE, message)));
                    };
                    items.extend(all.into_iter().map(|column| from_column(column, item.span())));
                }
                other => return Err(self.place(other.span(), Error::unsupported(format_args!("{other}")))),
            }
        }
        Ok(items)
    }

    fn item(&mut self, expr: &ast::Expr, name: CompactString) -> Result<Item> {
        let bound = self.expr(expr)?;
        let origin = match bound.expr {
            Expr::Column(place) if place < AGGREGATES => {
                let scope = self.scope();
                scope.tables.iter().find_map(|table| table.columns.get(place.checked_sub(table.base)?)?.origin)
            }
            _ => None,
        };
        Ok(Item { bound, name, origin, span: expr.span() })
    }

    fn group_keys(&mut self, group_by: &ast::GroupByExpr, items: &[Item]) -> Result<Option<Vec<Expr>>> {
        let ast::GroupByExpr::Expressions(exprs, modifiers) = group_by else {
            return Err(Error::unsupported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(Error::unsupported("GROUP BY with a modifier"));
        }
        if exprs.is_empty() {
            return Ok(None);
        }
        let calls = self.scope().calls.take();
        let extras = self.scope().extras.take();
        self.scope().no_calls = "GROUP BY";
        let keys = self.group_keys_inner(exprs, items);
        self.scope().calls = calls;
        self.scope().extras = extras;
        keys.map(Some)
    }

    fn group_keys_inner(&mut self, exprs: &[ast::Expr], items: &[Item]) -> Result<Vec<Expr>> {
        let mut keys: Vec<Expr> = Vec::with_capacity(exprs.len());
        for expr in exprs {
            if let ast::Expr::Tuple(inner) = expr {
                keys.extend(self.group_keys_inner(inner, items)?);
                continue;
            }
            let span = expr.span();
            if is_useless_key(expr) {
                let error = Error::new(SqlState::SYNTAX_ERROR, "non-integer constant in GROUP BY");
                return Err(self.place(span, error));
            }
            let chosen = if let Some(number) = ordinal(expr) {
                Some(self.at(span, at_ordinal(number, items.len(), "GROUP BY"))?)
            } else if let ast::Expr::Identifier(ident) = expr {
                // A column of the input goes before a name of the output.
                let name = fold(ident);
                let is_column = self.scope().has_column(&name);
                if is_column { None } else { items.iter().position(|item| item.name == name) }
            } else {
                None
            };
            let key = match chosen {
                Some(item) => {
                    let key = items[item].bound.clone();
                    if rewrite::has_aggregates(&key.expr) {
                        let error =
                            Error::new(SqlState::GROUPING_ERROR, "aggregate functions are not allowed in GROUP BY");
                        return Err(self.place(items[item].span, error));
                    }
                    key
                }
                None => self.expr(expr)?,
            };
            let ty = known(key.ty.ty);
            let key = self.coerce(key, ty.into(), CastContext::Implicit, span)?;
            if !keys.iter().any(|other| rewrite::same(other, &key)) {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    fn distinct_on(&mut self, exprs: &[ast::Expr], items: &mut Vec<Item>, width: usize) -> Result<Vec<usize>> {
        exprs.iter().map(|expr| self.item_for(expr, items, width, "SELECT DISTINCT ON")).collect()
    }

    fn order(
        &mut self,
        order: &[ast::OrderByExpr],
        items: &mut Vec<Item>,
        width: usize,
        all_distinct: bool,
    ) -> Result<Vec<SortKey>> {
        let mut keys = Vec::with_capacity(order.len());
        let mut flat: Vec<(std::borrow::Cow<'_, ast::Expr>, &ast::OrderByOptions)> = Vec::with_capacity(order.len());
        for key in order {
            // A row orders by its parts, NULLs being the greatest values in it.
            match super::expr::as_tuple(&key.expr) {
                Some(parts) if key.options.nulls_first.is_none() => {
                    flat.extend(parts.iter().map(|part| (std::borrow::Cow::Owned(part.clone()), &key.options)));
                }
                _ => flat.push((std::borrow::Cow::Borrowed(&key.expr), &key.options)),
            }
        }
        for (expr, options) in flat {
            let (descending, nulls_first) = self.at(expr.span(), sort_key_options(options))?;
            let place = self.item_for(&expr, items, width, "ORDER BY")?;
            if all_distinct && place >= width {
                let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                return Err(self.place(expr.span(), Error::new(SqlState::BAD_COLUMN_REFERENCE, message)));
            }
            keys.push(SortKey { expr: Expr::Column(place), descending, nulls_first });
        }
        Ok(keys)
    }

    /// The item that a key of ORDER BY means: one of the list by name, number or expression, or one added for it.
    fn item_for(&mut self, expr: &ast::Expr, items: &mut Vec<Item>, width: usize, clause: &str) -> Result<usize> {
        if let ast::Expr::Identifier(ident) = expr {
            let name = fold(ident);
            let mut named = (0..width).filter(|&index| items[index].name == name);
            if let Some(first) = named.next() {
                if named.any(|other| !rewrite::same(&items[other].bound.expr, &items[first].bound.expr)) {
                    let message = format!("{clause} \"{name}\" is ambiguous");
                    return Err(self.place(ident.span, Error::new(SqlState::AMBIGUOUS_COLUMN, message)));
                }
                return Ok(first);
            }
        }
        if let Some(number) = ordinal(expr) {
            return self.at(expr.span(), at_ordinal(number, width, clause));
        }
        if is_useless_key(expr) {
            let error = Error::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {clause}"));
            return Err(self.place(expr.span(), error));
        }
        let bound = self.expr(expr)?;
        if let Some(same) = items.iter().position(|item| rewrite::same(&item.bound.expr, &bound.expr)) {
            return Ok(same);
        }
        let ty = known(bound.ty.ty);
        let expr_bound = self.coerce(bound, ty.into(), CastContext::Implicit, expr.span())?;
        let bound = Bound::new(expr_bound, ty);
        items.push(Item { bound, name: CompactString::default(), origin: None, span: expr.span() });
        Ok(items.len() - 1)
    }

    /// RETURNING: items over the scope at hand.
    pub(super) fn returning(&mut self, projection: &[ast::SelectItem]) -> Result<(Vec<Expr>, Vec<Column>)> {
        self.scope().no_calls = "RETURNING";
        let mut exprs = Vec::new();
        let mut columns = Vec::new();
        for item in self.items(projection)? {
            let ty = if item.bound.ty.ty == Type::Unknown { Type::Text.into() } else { item.bound.ty };
            exprs.push(self.coerce(item.bound, ty, CastContext::Implicit, item.span)?);
            columns.push(Column { name: item.name, ty, origin: item.origin });
        }
        Ok((exprs, columns))
    }
}

impl Scope {
    fn has_column(&self, name: &str) -> bool {
        self.merged.iter().any(|merged| merged.name == name)
            || self.tables.iter().filter(|table| table.visible).any(|table| {
                table.columns.iter().zip(&table.hidden).any(|(column, hidden)| !hidden && column.name == name)
            })
    }
}

fn from_column((column, expr): (Column, Expr), span: Span) -> Item {
    Item { bound: Bound { expr, ty: column.ty }, name: column.name, origin: column.origin, span }
}

fn plain(body: Body, columns: Vec<Column>) -> Query {
    Query { body, columns, order: Vec::new(), limit: None, offset: None, locks: Vec::new() }
}

/// One row without columns.
pub(super) fn one_row() -> Query {
    plain(Body::Values(vec![Vec::new()]), Vec::new())
}

/// A query in FROM of another that gives all its columns.
pub(super) fn enclose(inner: Query) -> Query {
    let columns = inner.columns.clone();
    let width = columns.len();
    let relation = super::logical::Relation {
        base: 0,
        width,
        source: super::logical::Source::Query(Box::new(inner)),
        name: "inner".into(),
    };
    let select = Select {
        relations: vec![relation],
        from: Some(super::logical::From::Relation(0)),
        filter: Vec::new(),
        group: None,
        extras: Vec::new(),
        output: (0..width).map(Expr::Column).collect(),
        distinct: Distinct::No,
    };
    plain(Body::Select(Box::new(select)), columns)
}

/// DISTINCT ON's columns come first in the order, in whichever order ORDER BY names them.
fn order_for_distinct_on(order: Vec<SortKey>, on: &[usize]) -> Result<Vec<SortKey>> {
    let is_on = |key: &SortKey| matches!(key.expr, Expr::Column(place) if on.contains(&place));
    let leading = order.iter().take_while(|key| is_on(key)).count();
    let named = on
        .iter()
        .filter(|&&place| order[..leading].iter().any(|key| matches!(key.expr, Expr::Column(other) if other == place)));
    if named.count() < on.len() && leading < order.len() {
        let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
        return Err(Error::new(SqlState::BAD_COLUMN_REFERENCE, message));
    }
    let mut keys = order;
    for &place in on.iter().rev() {
        if !keys.iter().any(|key| matches!(key.expr, Expr::Column(other) if other == place)) {
            keys.insert(0, SortKey { expr: Expr::Column(place), descending: false, nulls_first: false });
        }
    }
    Ok(keys)
}

/// Whether a key of ORDER BY or GROUP BY is a constant that is no number of a column.
fn is_useless_key(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Value(value) if !matches!(value.value, ast::Value::Placeholder(_)))
        && ordinal(expr).is_none()
}

/// The number in `ORDER BY 2`.
fn ordinal(expr: &ast::Expr) -> Option<i64> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn at_ordinal(number: i64, width: usize, clause: &str) -> Result<usize> {
    usize::try_from(number - 1).ok().filter(|&place| place < width).ok_or_else(|| {
        Error::new(SqlState::BAD_COLUMN_REFERENCE, format!("{clause} position {number} is not in select list"))
    })
}

fn too_many_columns() -> Error {
    Error::new(SqlState::TOO_MANY_COLUMNS, format!("target lists can have at most {OUTPUT_MAX} entries"))
}

//! Binding queries: VALUES, set operations, ORDER BY, LIMIT and FOR UPDATE; below it what a SELECT
//! has of its own.

mod grouping_sets;
mod locks;
mod names;
mod select;

pub use names::index_column_name;
pub(super) use names::name_of;

use colibri_types::{ColumnType, Datum, Error, Result, SqlState, Type, cast::CastContext};
use sqlparser::ast;
use sqlparser::ast::Spanned;
use sqlparser::tokenizer::Span;

use super::collation::Collation;
use super::logical::{Body, Column, Distinct, Lock, Query, Select, SetOperation};
use super::recursive::Barrier;
use super::{Binder, Scope, fold, whole};
use crate::expr::Expr;
use crate::plan::{IfRowLocked, SortKey};

/// Columns of a result at most, as in PostgreSQL.
pub(in crate::bind) const OUTPUT_MAX: usize = 1664;

/// Set operations in a row that cannot be done side by side, at most.
const STACKED_MAX: usize = 100;

/// How many of a row of set operations, the outermost first, the planner puts one on top of the
/// other. Below a UNION it does those side by side that leave out no more rows than that one does.
fn stacked(row: impl Iterator<Item = (SetOperation, bool)>) -> usize {
    let mut top: Option<(SetOperation, bool)> = None;
    row.filter(|&(op, all)| {
        let is_beside =
            matches!(top, Some((SetOperation::Union, top_all)) if op == SetOperation::Union && (all || !top_all));
        if !is_beside {
            top = Some((op, all));
        }
        !is_beside
    })
    .count()
}

/// What keeps the sides of a set operation from referring to a query around it that is recursive.
fn barriers(op: SetOperation, all: bool) -> (Option<Barrier>, Option<Barrier>) {
    match (op, all) {
        (SetOperation::Union, _) | (SetOperation::Intersect, false) => (None, None),
        (SetOperation::Intersect, true) => (Some(Barrier::Intersect), Some(Barrier::Intersect)),
        (SetOperation::Except, all) => (all.then_some(Barrier::Except), Some(Barrier::Except)),
    }
}

/// Whether an order is descending, and whether NULLs come first.
pub fn sort_key_options(options: &ast::OrderByOptions) -> Result<(bool, bool)> {
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

impl Binder<'_> {
    /// Binds a query with all its clauses.
    pub fn query(&mut self, query: &ast::Query) -> Result<Query> {
        whole::query(query)?;
        let with = self.with.len();
        if let Some(clause) = &query.with {
            self.with(clause)?;
        }
        // Parentheses around all of a statement are nothing.
        self.is_outermost &= query.with.is_none() && matches!(*query.body, ast::SetExpr::Query(_));
        let bound = self.query_body(query);
        self.with.truncate(with);
        bound
    }

    /// Binds a statement that stands behind the WITH of a query, which has nothing else.
    pub fn behind_with<T>(&mut self, query: &ast::Query, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        whole::query(query)?;
        let is_bare =
            query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none() && query.locks.is_empty();
        if !is_bare {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error: a statement that writes has no such clause"));
        }
        let with = self.with.len();
        if let Some(clause) = &query.with {
            if clause.recursive && matches!(*query.body, ast::SetExpr::Merge(_)) {
                let message = "WITH RECURSIVE is not supported for MERGE statement";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            self.with(clause)?;
        }
        self.is_outermost = false;
        let bound = bind(self);
        self.with.truncate(with);
        bound
    }

    fn query_body(&mut self, query: &ast::Query) -> Result<Query> {
        // Behind parentheses, clauses belong to the query inside them, as in PostgreSQL: it is
        // sorted before it is limited.
        if let ast::SetExpr::Query(inner) = &*query.body {
            let is_bare = query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
            if !is_bare || !query.locks.is_empty() {
                let joined = joined(inner, query)?;
                return self.deeper(|binder| binder.query(&joined));
            }
        }
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
                    let keys = self.order_of_result(&bound.columns, order)?;
                    if keys.iter().all(|key| matches!(key.expr, Expr::Column(_))) {
                        bound.order = keys;
                    } else {
                        bound = super::collation::ordered_by_keys(bound, keys);
                    }
                } else if !order.is_empty() || query.limit_clause.is_some() {
                    let keys = self.order_of_result(&bound.columns, order)?;
                    bound = super::collation::ordered_by_keys(bound, keys);
                }
                bound
            }
        };
        self.limits(query, &mut bound)?;
        for lock in &query.locks {
            whole::lock(lock);
            let (mode, of) = self.lock_of(lock)?;
            let if_locked = match lock.nonblock {
                None => IfRowLocked::Wait,
                Some(ast::NonBlock::Nowait) => IfRowLocked::NoWait,
                Some(ast::NonBlock::SkipLocked) => IfRowLocked::Skip,
            };
            let lock = Lock { mode, if_locked, of };
            self.lock_rows(&mut bound, lock)?;
        }
        Ok(bound)
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
            Some(ast::Fetch { with_ties: true, .. }) if limit.is_some() || bound.order.is_empty() => {
                let message = "WITH TIES cannot be specified without ORDER BY clause";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            Some(ast::Fetch { with_ties: true, .. })
                if query.locks.iter().any(|lock| matches!(lock.nonblock, Some(ast::NonBlock::SkipLocked))) =>
            {
                let message = "SKIP LOCKED and WITH TIES options cannot be used together";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            Some(ast::Fetch { with_ties, quantity, .. }) => {
                bound.with_ties = *with_ties;
                Some(quantity.as_ref())
            }
        };
        if let Some(limit) = limit.or(fetched.flatten()) {
            let limit = self.count_of_rows(limit, "LIMIT")?;
            if bound.with_ties && matches!(limit, Expr::Const(Datum::Null)) {
                let message = "row count cannot be null in FETCH FIRST ... WITH TIES clause";
                return Err(Error::new(SqlState::BAD_LIMIT, message));
            }
            bound.limit = Some(limit);
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
        if !matches!(bound.ty.ty.category(), colibri_types::Category::Number | colibri_types::Category::Unknown) {
            let message = format!("argument of {clause} must be type bigint, not type {}", bound.ty.ty);
            return Err(self.place(expr.span(), Error::new(SqlState::TYPE_MISMATCH, message)));
        }
        let context = if bound.ty.ty.category() == colibri_types::Category::Number {
            CastContext::Assignment
        } else {
            CastContext::Implicit
        };
        Ok(match self.coerce(bound, Type::Int8.into(), context, expr.span())? {
            // The planner goes by a number that it knows.
            Expr::Cast { input, .. } if matches!(*input, Expr::Const(Datum::Int(_))) => *input,
            count => count,
        })
    }

    pub(super) fn set_expr(&mut self, body: &ast::SetExpr) -> Result<Query> {
        match body {
            ast::SetExpr::Select(select) => self.select(select, &[]),
            ast::SetExpr::Query(query) => self.deeper(|binder| binder.query(query)),
            ast::SetExpr::Values(values) => self.values(values),
            ast::SetExpr::SetOperation { .. } => self.set_operations(body),
            ast::SetExpr::Table(table) => {
                if table.table_name.is_none() {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "TABLE needs a name"));
                }
                let statement = colibri_syntax::parse_query(&text_of_table(table))?;
                self.deeper(|binder| binder.query(&statement))
            }
            ast::SetExpr::Insert(_) | ast::SetExpr::Update(_) | ast::SetExpr::Delete(_) | ast::SetExpr::Merge(_) => {
                Err(Error::unsupported("a statement that writes inside a query"))
            }
        }
    }

    /// Set operations in a row, as in `a UNION b UNION c`: without recursion along the row, which
    /// may be long.
    fn set_operations(&mut self, body: &ast::SetExpr) -> Result<Query> {
        let mut links = Vec::new();
        let mut first = body;
        while let ast::SetExpr::SetOperation { left, op, set_quantifier, right } = first {
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
            links.push((op, all, &**right));
            first = left;
        }
        if stacked(links.iter().map(|&(op, all, _)| (op, all))) > STACKED_MAX {
            return Err(colibri_syntax::too_deep());
        }
        let before = self.barriers.len();
        self.barriers.extend(links.iter().filter_map(|&(op, all, _)| barriers(op, all).0));
        let first = self.deeper(|binder| binder.set_expr(first));
        let mut bound = first.inspect_err(|_| self.barriers.truncate(before))?;
        for (op, all, right) in links.into_iter().rev() {
            let (of_left, of_right) = barriers(op, all);
            if of_left.is_some() {
                self.barriers.pop();
            }
            let right_query = self.behind(of_right, |binder| binder.deeper(|binder| binder.set_expr(right)));
            let right_query = right_query.inspect_err(|_| self.barriers.truncate(before))?;
            bound = self.set_operation(op, all, bound, right_query, right.span())?;
        }
        Ok(bound)
    }

    fn set_operation(
        &mut self,
        op: SetOperation,
        all: bool,
        mut left_query: Query,
        mut right_query: Query,
        span: Span,
    ) -> Result<Query> {
        let name = match op {
            SetOperation::Union => "UNION",
            SetOperation::Intersect => "INTERSECT",
            SetOperation::Except => "EXCEPT",
        };
        // Literals in VALUES have a type before the operation has one; those of SELECT have not.
        for query in [&mut left_query, &mut right_query] {
            if matches!(query.body, Body::Values(_)) {
                let types: Vec<Type> = query.columns.iter().map(|column| super::expr::known(column.ty.ty)).collect();
                self.retype(query, &types)?;
            }
        }
        if left_query.columns.len() != right_query.columns.len() {
            let message = format!("each {name} query must have the same number of columns");
            return Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, message)));
        }
        let mut types = Vec::with_capacity(left_query.columns.len());
        for (left, right_column) in left_query.columns.iter().zip(&right_query.columns) {
            types.push(self.common_type(name, &[left.ty.ty, right_column.ty.ty], span)?);
        }
        let mut columns = Vec::with_capacity(types.len());
        for ((left, right), &ty) in left_query.columns.iter().zip(&right_query.columns).zip(&types) {
            let collation = self.both_collations(left.collation.clone(), right.collation.clone(), span)?;
            if op != SetOperation::Union || !all {
                self.at(span, collation.expect_one())?;
                self.at(span, crate::bind::types::expect_comparable(ty, false))?;
            }
            let collation = if collation.is_open() { Collation::Open } else { collation };
            let ty = if left.ty == right.ty && left.ty.ty == ty { left.ty } else { ColumnType::from(ty) };
            columns.push(Column { name: left.name.clone(), ty, origin: None, collation });
        }
        self.retype(&mut left_query, &types)?;
        self.retype(&mut right_query, &types)?;
        let key = |(place, column): (usize, &Column)| {
            self.equality_key(&Expr::Column(place), column.ty.ty, &column.collation)
        };
        let keys: Vec<Option<Expr>> = columns.iter().enumerate().map(key).collect();
        let (left, right) = (Box::new(left_query), Box::new(right_query));
        match (op, all) {
            (SetOperation::Union, true) => {}
            _ if keys.iter().all(Option::is_none) => {}
            (SetOperation::Union, false) => {
                let every = Query::plain(Body::Set { op, all: true, left, right }, columns);
                return Ok(super::collation::distinct_by_keys(every, keys));
            }
            _ => return Err(Error::unsupported(format_args!("{name} with a nondeterministic collation"))),
        }
        Ok(Query::plain(Body::Set { op, all, left, right }, columns))
    }

    pub(super) fn values(&mut self, values: &ast::Values) -> Result<Query> {
        whole::values(values)?;
        let width = values.rows.first().map_or(0, |row| row.content.len());
        if width > OUTPUT_MAX {
            return Err(too_many_columns());
        }
        self.frame().scopes.push(Scope { no_calls: "VALUES", ..Scope::default() });
        let bound = self.values_rows(values, width);
        self.frame().scopes.pop();
        let (rows, types, collations) = bound?;
        let columns = (1..=width)
            .zip(types.into_iter().zip(collations))
            .map(|(number, (ty, collation))| Column {
                name: compact_str::format_compact!("column{number}"),
                ty,
                origin: None,
                collation,
            })
            .collect();
        Ok(Query::plain(Body::Values(rows), columns))
    }

    fn values_rows(&mut self, values: &ast::Values, width: usize) -> Result<ValuesRows> {
        let mut collations = vec![Collation::Default; width];
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            if row.content.len() != width {
                let span = row.content.first().map_or(Span::empty(), Spanned::span);
                let error = Error::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length");
                return Err(self.place(span, error));
            }
            let mut bounds = Vec::with_capacity(width);
            for (expr, collation) in row.content.iter().zip(&mut collations) {
                self.ended_with = Collation::Default;
                bounds.push((self.expr(expr)?, expr.span()));
                let own = self.take_collation();
                *collation = self.both_collations(std::mem::take(collation), own, expr.span())?;
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
        Ok((exprs, types, collations))
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
            self.at(key.expr.span(), columns[place].collation.expect_one())?;
            self.at(key.expr.span(), crate::bind::types::expect_comparable(columns[place].ty.ty, true))?;
            let expr = self.sort_key(Expr::Column(place), columns[place].ty.ty, &columns[place].collation);
            keys.push(SortKey { expr, descending, nulls_first });
        }
        Ok(keys)
    }
}

/// Rows of VALUES, and of which types and collations their columns are.
type ValuesRows = (Vec<Vec<Expr>>, Vec<ColumnType>, Vec<Collation>);

/// A query in parentheses, with the clauses behind these.
pub(super) fn joined(inner: &ast::Query, outer: &ast::Query) -> Result<ast::Query> {
    fn put<T: Clone>(inner: &mut Option<T>, outer: Option<&T>, name: &str) -> Result<()> {
        if inner.is_some() && outer.is_some() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, format!("multiple {name} clauses not allowed")));
        }
        if let Some(outer) = outer {
            *inner = Some(outer.clone());
        }
        Ok(())
    }
    use ast::LimitClause::LimitOffset;
    let mut joined = inner.clone();
    put(&mut joined.order_by, outer.order_by.as_ref(), "ORDER BY")?;
    put(&mut joined.fetch, outer.fetch.as_ref(), "LIMIT")?;
    match (&mut joined.limit_clause, &outer.limit_clause) {
        (Some(LimitOffset { limit, offset, .. }), Some(LimitOffset { limit: more, offset: further, .. })) => {
            put(limit, more.as_ref(), "LIMIT")?;
            put(offset, further.as_ref(), "OFFSET")?;
        }
        (limit, outer) => put(limit, outer.as_ref(), "LIMIT")?,
    }
    joined.locks.extend(outer.locks.iter().cloned());
    Ok(joined)
}

/// `TABLE name`, as the query that it is.
pub(super) fn text_of_table(table: &ast::Table) -> String {
    let name = table.table_name.as_deref().unwrap_or_default();
    match &table.schema_name {
        Some(schema) => format!("SELECT * FROM {schema}.{name}"),
        None => format!("SELECT * FROM {name}"),
    }
}

/// A query in FROM of another that gives all its columns.
pub(super) fn enclose(inner: Query) -> Query {
    let columns = inner.columns.clone();
    let width = columns.len();
    let relation =
        super::logical::Relation::new(0, width, super::logical::Source::Query(Box::new(inner)), "inner".into());
    let select = Select {
        relations: vec![relation],
        from: Some(super::logical::From::Relation(0)),
        filter: Vec::new(),
        group: None,
        grouped_rows: Vec::new(),
        extras: Vec::new(),
        output: (0..width).map(Expr::Column).collect(),
        distinct: Distinct::No,
    };
    Query::plain(Body::Select(Box::new(select)), columns)
}

/// The number in `ORDER BY 2`.
fn ordinal(expr: &ast::Expr) -> Option<i64> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => text.parse::<i32>().ok().map(i64::from),
            _ => None,
        },
        // A sign in front of a number belongs to it, but a plus is an operator.
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => ordinal(expr).map(|number| -number),
        ast::Expr::Nested(inner) => ordinal(inner),
        _ => None,
    }
}

fn at_ordinal(number: i64, width: usize, clause: &str) -> Result<usize> {
    usize::try_from(number - 1).ok().filter(|&place| place < width).ok_or_else(|| {
        let clause = clause.trim_start_matches("SELECT ");
        Error::new(SqlState::BAD_COLUMN_REFERENCE, format!("{clause} position {number} is not in select list"))
    })
}

fn too_many_columns() -> Error {
    Error::new(SqlState::TOO_MANY_COLUMNS, format!("target lists can have at most {OUTPUT_MAX} entries"))
}

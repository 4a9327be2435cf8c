//! FROM: relations, joins, and the names that they bring.

use std::sync::Arc;

use compact_str::CompactString;
use sqlparser::ast;
use sqlparser::ast::Spanned;
use sqlparser::tokenizer::Span;

use super::expr::Bound;
use super::logical::{Column, From, Join, Query, Relation, Source};
use super::{Binder, Merged, Scope, ScopeTable, With, fold, name_parts, name_span, no_such_relation, qualified};
use crate::cast::CastContext;
use crate::catalog::{Relation as Object, Table, View};
use crate::cluster::Privileges;
use crate::error::{Error, Result, SqlState};
use crate::expr::{CompareOp, Expr};
use crate::plan::Series;
use crate::system::{self, SystemTable};
use crate::types::{ColumnType, Type};
use crate::value::Datum;

/// Relations that a query joins at most.
const RELATIONS_MAX: usize = 100;

impl Binder<'_> {
    /// Binds FROM, with commas as cross joins. The names go into the scope at hand.
    pub(super) fn from(
        &mut self,
        tables: &[ast::TableWithJoins],
        relations: &mut Vec<Relation>,
    ) -> Result<Option<From>> {
        let mut from = None;
        for table in tables {
            let right = self.joins(table, relations)?;
            from = Some(match from {
                None => right,
                Some(left) => {
                    From::Join { kind: Join::Inner, left: Box::new(left), right: Box::new(right), on: Vec::new() }
                }
            });
        }
        Ok(from)
    }

    fn joins(&mut self, table: &ast::TableWithJoins, relations: &mut Vec<Relation>) -> Result<From> {
        let first = self.scope().tables.len();
        let first_merged = self.scope().merged.len();
        let mut left = self.factor(&table.relation, relations)?;
        for join in &table.joins {
            let middle = self.scope().tables.len();
            let middle_merged = self.scope().merged.len();
            let right = self.factor(&join.relation, relations)?;
            let (kind, constraint) = self.join_kind(&join.join_operator)?;
            let sides = Sides { first, first_merged, middle, middle_merged };
            let on = self.constraint(kind, constraint, &sides, join.relation.span())?;
            left = From::Join { kind, left: Box::new(left), right: Box::new(right), on };
        }
        Ok(left)
    }

    fn join_kind<'j>(&self, operator: &'j ast::JoinOperator) -> Result<(Join, Option<&'j ast::JoinConstraint>)> {
        use ast::JoinOperator as J;
        Ok(match operator {
            J::Join(on) | J::Inner(on) => (Join::Inner, Some(on)),
            J::CrossJoin(_) => (Join::Inner, None),
            J::Left(on) | J::LeftOuter(on) => (Join::Left, Some(on)),
            J::Right(on) | J::RightOuter(on) => (Join::Right, Some(on)),
            J::FullOuter(on) => (Join::Full, Some(on)),
            _ => return Err(Error::unsupported("this kind of join")),
        })
    }

    fn constraint(
        &mut self,
        kind: Join,
        constraint: Option<&ast::JoinConstraint>,
        sides: &Sides,
        span: Span,
    ) -> Result<Vec<Expr>> {
        match constraint {
            None => Ok(Vec::new()),
            Some(ast::JoinConstraint::None) => {
                Err(self.place(span, Error::new(SqlState::SYNTAX_ERROR, "a join needs ON, USING or NATURAL")))
            }
            Some(ast::JoinConstraint::On(condition)) => {
                // Only the two sides are in sight.
                let tables = self.scope().tables.drain(..sides.first).collect::<Vec<_>>();
                let merged = self.scope().merged.drain(..sides.first_merged).collect::<Vec<_>>();
                let no_calls = std::mem::replace(&mut self.scope().no_calls, "JOIN conditions");
                let bound = self.condition(condition, "JOIN/ON");
                let scope = self.scope();
                scope.no_calls = no_calls;
                scope.tables.splice(..0, tables);
                scope.merged.splice(..0, merged);
                Ok(super::rewrite::conjuncts(bound?))
            }
            Some(ast::JoinConstraint::Using(names)) => {
                let mut columns = Vec::with_capacity(names.len());
                for name in names {
                    let ident = *name_parts(name)?.last().expect("a name has parts");
                    columns.push((fold(ident), ident.span));
                }
                self.merge(kind, &columns, sides)
            }
            Some(ast::JoinConstraint::Natural) => {
                let names = self.common_columns(sides);
                let columns: Vec<_> = names.into_iter().map(|name| (name, span)).collect();
                self.merge(kind, &columns, sides)
            }
        }
    }

    fn common_columns(&mut self, sides: &Sides) -> Vec<CompactString> {
        let scope = self.scope();
        let names = |tables: &[ScopeTable], merged: &[Merged]| {
            let mut names: Vec<CompactString> = merged.iter().map(|merged| merged.name.clone()).collect();
            for table in tables.iter().filter(|table| table.visible) {
                for (column, hidden) in table.columns.iter().zip(&table.hidden) {
                    if !hidden && !names.contains(&column.name) {
                        names.push(column.name.clone());
                    }
                }
            }
            names
        };
        let left =
            names(&scope.tables[sides.first..sides.middle], &scope.merged[sides.first_merged..sides.middle_merged]);
        let right = names(&scope.tables[sides.middle..], &scope.merged[sides.middle_merged..]);
        left.into_iter().filter(|name| right.contains(name)).collect()
    }

    /// Joins columns of the same name, which become one.
    fn merge(&mut self, kind: Join, columns: &[(CompactString, Span)], sides: &Sides) -> Result<Vec<Expr>> {
        let mut conditions = Vec::with_capacity(columns.len());
        let mut new = Vec::with_capacity(columns.len());
        for (index, (name, span)) in columns.iter().enumerate() {
            if columns[..index].iter().any(|(other, _)| other == name) {
                let message = format!("column name \"{name}\" appears more than once in USING clause");
                return Err(self.place(*span, Error::new(SqlState::DUPLICATE_COLUMN, message)));
            }
            let left = self.side_column(name, sides.first..sides.middle, sides.first_merged..sides.middle_merged);
            let left = self.at(*span, left.and_then(|found| found.ok_or_else(|| not_in_side(name, "left"))))?;
            let (tables, merged) = (self.scope().tables.len(), self.scope().merged.len());
            let right = self.side_column(name, sides.middle..tables, sides.middle_merged..merged);
            let right = self.at(*span, right.and_then(|found| found.ok_or_else(|| not_in_side(name, "right"))))?;
            let (left_bound, right_bound) = (
                Bound { expr: left.expr.clone(), ty: left.ty.into() },
                Bound { expr: right.expr.clone(), ty: right.ty.into() },
            );
            if crate::resolve::common_type(&[left.ty, right.ty]).is_none() {
                let message = format!("JOIN/USING types {} and {} cannot be matched", left.ty, right.ty);
                return Err(self.place(*span, Error::new(SqlState::TYPE_MISMATCH, message)));
            }
            let (left_expr, right_expr) =
                self.comparable("=", left_bound.clone(), *span, right_bound.clone(), *span)?;
            conditions.push(Expr::Compare {
                op: CompareOp::Eq,
                left: Box::new(left_expr),
                right: Box::new(right_expr),
            });
            let ty = self.common_type("JOIN/USING", &[left.ty, right.ty], *span)?;
            let left_expr = self.coerce(left_bound, ty.into(), CastContext::Implicit, *span)?;
            let right_expr = self.coerce(right_bound, ty.into(), CastContext::Implicit, *span)?;
            let expr = match kind {
                Join::Inner | Join::Left => left_expr,
                Join::Right => right_expr,
                Join::Full => Expr::Coalesce(vec![left_expr, right_expr]),
            };
            let parts = left.parts.iter().chain(&right.parts).copied().collect();
            new.push(Merged { name: name.clone(), expr, ty, parts });
        }
        let scope = self.scope();
        scope.merged.retain(|old| !new.iter().any(|new| old.parts.iter().all(|part| new.parts.contains(part))));
        scope.merged.extend(new);
        Ok(conditions)
    }

    fn side_column(
        &mut self,
        name: &str,
        tables: std::ops::Range<usize>,
        merged: std::ops::Range<usize>,
    ) -> Result<Option<Merged>> {
        let scope = self.scope();
        let mut found: Option<Merged> = scope.merged[merged].iter().find(|merged| merged.name == name).cloned();
        let covered: Vec<usize> = found.iter().flat_map(|found| found.parts.clone()).collect();
        for table in scope.tables[tables].iter().filter(|table| table.visible) {
            for (index, column) in table.columns.iter().enumerate() {
                let place = table.base + index;
                if table.hidden[index] || column.name != name || covered.contains(&place) {
                    continue;
                }
                if found.is_some() {
                    let message = format!("common column name \"{name}\" appears more than once in one side");
                    return Err(Error::new(SqlState::AMBIGUOUS_COLUMN, message));
                }
                found =
                    Some(Merged { name: name.into(), expr: Expr::Column(place), ty: column.ty.ty, parts: vec![place] });
            }
        }
        Ok(found)
    }

    fn factor(&mut self, factor: &ast::TableFactor, relations: &mut Vec<Relation>) -> Result<From> {
        if relations.len() >= RELATIONS_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT,
                format!("a query joins more than {RELATIONS_MAX} relations"),
            ));
        }
        let alias = match factor {
            ast::TableFactor::Table { alias, .. }
            | ast::TableFactor::Derived { alias, .. }
            | ast::TableFactor::Function { alias, .. } => alias.as_ref(),
            _ => None,
        };
        if let Some(alias) = alias {
            super::check_name(self.text, &alias.name)?;
        }
        match factor {
            ast::TableFactor::Table { name, sample: Some(_), .. } => {
                Err(self.place(name_span(name), Error::unsupported("TABLESAMPLE")))
            }
            ast::TableFactor::Table { name, alias, args: None, .. } => self.named(name, alias.as_ref(), relations),
            ast::TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                self.series(name, &args.args, alias.as_ref(), *with_ordinality, relations)
            }
            ast::TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                self.series(name, args, alias.as_ref(), *with_ordinality, relations)
            }
            // The parser takes this one apart from other functions.
            ast::TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                let name = ast::ObjectName::from(vec![ast::Ident::new("unnest")]);
                let arg = |expr: &ast::Expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr.clone()));
                let args: Vec<ast::FunctionArg> = array_exprs.iter().map(arg).collect();
                self.series(&name, &args, alias.as_ref(), *with_ordinality, relations)
            }
            ast::TableFactor::Derived { lateral, subquery, alias, .. } => {
                if *lateral {
                    return self.lateral(subquery, alias.as_ref(), relations, factor.span());
                }
                let Some(alias) = alias else {
                    let error = Error::new(SqlState::SYNTAX_ERROR, "subquery in FROM must have an alias")
                        .hint("For example, FROM (SELECT ...) [AS] foo.");
                    return Err(self.place(factor.span(), error));
                };
                let query = self.derived(subquery)?;
                let columns = query.columns.clone();
                self.add(fold(&alias.name), None, columns, &[], Source::Query(Box::new(query)), Some(alias), relations)
            }
            ast::TableFactor::NestedJoin { table_with_joins, alias } => {
                let first = self.scope().tables.len();
                let first_merged = self.scope().merged.len();
                let from = self.joins(table_with_joins, relations)?;
                if let Some(alias) = alias {
                    self.hide_behind(first, first_merged, alias)?;
                }
                Ok(from)
            }
            other => Err(self.place(other.span(), Error::unsupported(format_args!("{other} in FROM")))),
        }
    }

    /// `LATERAL (SELECT …)` without FROM: names for what is computed from the row at hand.
    fn lateral(
        &mut self,
        query: &ast::Query,
        alias: Option<&ast::TableAlias>,
        relations: &mut Vec<Relation>,
        span: Span,
    ) -> Result<From> {
        let (Some(list), Some(alias)) = (bare_list(query), alias) else {
            return Err(self.place(span, Error::unsupported("LATERAL with a query that has more than a list")));
        };
        let items = self.plain_items(list)?;
        let (mut columns, mut exprs) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for (name, bound, at) in items {
            let ty = ColumnType { ty: super::expr::known(bound.ty.ty), ..bound.ty };
            exprs.push(self.coerce(bound, ty.ty.into(), CastContext::Implicit, at)?);
            columns.push(Column { name, ty, origin: None });
        }
        for (column, renamed) in columns.iter_mut().zip(&alias.columns) {
            column.name = fold(&renamed.name);
        }
        // One row without columns to join with; the names are what it is about.
        let one = super::query::one_row();
        let name = fold(&alias.name);
        let from = self.add(name.clone(), None, Vec::new(), &[], Source::Query(Box::new(one)), None, relations)?;
        if let Some(table) = self.scope().tables.last_mut() {
            table.hidden = vec![false; columns.len()];
            table.columns = columns;
            table.exprs = Some(exprs);
        }
        Ok(from)
    }

    /// A query in FROM: it does not see the names beside it.
    pub(super) fn derived(&mut self, query: &ast::Query) -> Result<Query> {
        let beside = std::mem::take(&mut self.frame().scopes);
        let bound = self.deeper(|binder| binder.query(query));
        self.frame().scopes = beside;
        let mut query = bound?;
        let types: Vec<Type> = query.columns.iter().map(|column| super::expr::known(column.ty.ty)).collect();
        self.retype(&mut query, &types)?;
        Ok(query)
    }

    /// `(a JOIN b) AS x`: one name for all columns.
    fn hide_behind(&mut self, first: usize, first_merged: usize, alias: &ast::TableAlias) -> Result<()> {
        let scope = self.scope();
        let merged = scope.merged.split_off(first_merged);
        let mut parts: Vec<(Column, Expr, usize)> = Vec::new();
        for merged in &merged {
            let column = Column { name: merged.name.clone(), ty: merged.ty.into(), origin: None };
            parts.push((column, merged.expr.clone(), merged.parts[0]));
        }
        let covered: Vec<usize> = merged.iter().flat_map(|merged| merged.parts.clone()).collect();
        for table in &mut scope.tables[first..] {
            if table.visible {
                for (index, column) in table.columns.iter().enumerate() {
                    if !table.hidden[index] && !covered.contains(&(table.base + index)) {
                        parts.push((column.clone(), Expr::Column(table.base + index), table.base + index));
                    }
                }
            }
            table.visible = false;
        }
        // The name's columns are scattered over the wide row: each is a column of its own of a table without a base.
        for (index, (column, expr, place)) in parts.into_iter().enumerate() {
            let name = alias.columns.get(index).map_or(column.name.clone(), |column| fold(&column.name));
            let ty = column.ty;
            let scope = self.scope();
            scope.tables.push(ScopeTable {
                name: fold(&alias.name),
                schema: None,
                base: place,
                columns: vec![Column { name: name.clone(), ..column }],
                hidden: vec![false],
                visible: true,
                exprs: None,
                oid: None,
            });
            if !matches!(expr, Expr::Column(column) if column == place) {
                scope.merged.push(Merged { name, expr, ty: ty.ty, parts: vec![place] });
            }
        }
        Ok(())
    }

    fn named(
        &mut self,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        relations: &mut Vec<Relation>,
    ) -> Result<From> {
        let (schema, relation) = qualified(name)?;
        let visible_as = alias.map_or(relation.clone(), |alias| fold(&alias.name));
        if schema.is_none()
            && let Some(with) = self.with.iter().rev().find(|with| with.name == relation)
        {
            let (source, columns) =
                (Source::Shared { id: with.id, query: Arc::clone(&with.query) }, with.columns.clone());
            if with.frame != self.frames.len() && super::rewrite::query_uses_args(&with.query) {
                let error = Error::unsupported("a WITH query that depends on an outer query, inside another subquery");
                return Err(self.place(name_span(name), error));
            }
            return self.add(visible_as, None, columns, &[], source, alias, relations);
        }
        if let Some(table) = self.system_table(name)? {
            return self.system(table, name, alias, relations);
        }
        match self.relation(name)? {
            Some(Object::Table(table)) => {
                let table = Arc::clone(table);
                self.used.push(table.id);
                self.need(table.id, &table.schema, Privileges::SELECT);
                let (columns, hidden) = table_columns(&table);
                let schema = if alias.is_some() { None } else { Some(table.schema.clone()) };
                self.add(visible_as, schema, columns, &hidden, Source::Table(table), alias, relations)
            }
            Some(Object::View(view)) => {
                let view = Arc::clone(view);
                self.need(view.id, &view.schema, Privileges::SELECT);
                let query = self.view(&view)?;
                let columns = query.columns.clone();
                let schema = if alias.is_some() { None } else { Some(view.schema.clone()) };
                self.add(visible_as, schema, columns, &[], Source::Query(Box::new(query)), alias, relations)
            }
            Some(Object::Sequence(sequence)) => {
                let error = Error::unsupported(format_args!("reading sequence \"{}\" as a table", sequence.name));
                Err(self.place(name_span(name), error))
            }
            Some(other) => {
                let message = format!("cannot open relation \"{relation}\": it is an {}", other.kind());
                Err(self.place(name_span(name), Error::new(SqlState::WRONG_OBJECT_TYPE, message)))
            }
            None => Err(self.place(name_span(name), no_such_relation(name))),
        }
    }

    /// The system's table of a name: those of `pg_catalog` are found first, wherever names are looked up.
    pub(crate) fn system_table(&self, name: &ast::ObjectName) -> Result<Option<&'static SystemTable>> {
        let (schema, relation) = qualified(name)?;
        Ok(match schema {
            Some(schema) => system::table(&schema, &relation),
            None => system::table("pg_catalog", &relation)
                .or_else(|| self.search_path.iter().find_map(|schema| system::table(schema, &relation))),
        })
    }

    fn system(
        &mut self,
        table: &'static SystemTable,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        relations: &mut Vec<Relation>,
    ) -> Result<From> {
        let (_, relation) = qualified(name)?;
        let visible_as = alias.map_or(relation, |alias| fold(&alias.name));
        let schema = if alias.is_some() { None } else { Some(table.schema.into()) };
        let column = |(at, (name, ty)): (usize, &(&'static str, Type))| Column {
            name: CompactString::const_new(name),
            ty: (*ty).into(),
            origin: Some((table.oid, at as i16 + 1)),
        };
        let columns = table.columns.iter().enumerate().map(column).collect();
        // However often it is named, its rows are made once.
        let id = match self.system.iter().find(|(known, _)| *known == table.name) {
            Some((_, id)) => *id,
            None => {
                let id = self.new_id();
                self.system.push((table.name, id));
                id
            }
        };
        self.add(visible_as, schema, columns, &[], Source::System { id, table }, alias, relations)
    }

    /// A view's query, bound as if it stood here.
    fn view(&mut self, view: &View) -> Result<Query> {
        self.used.push(view.id);
        let statement = crate::statement::parse_query(&view.query)?;
        let with = std::mem::take(&mut self.with);
        let frames = std::mem::replace(&mut self.frames, vec![super::Frame::default()]);
        let text = std::mem::take(&mut self.text);
        let by = self.by.replace(view.owner);
        let bound = self.deeper(|binder| binder.query(&statement));
        self.by = by;
        self.text = text;
        self.frames = frames;
        self.with = with;
        let mut query = bound?;
        let types: Vec<Type> = query.columns.iter().map(|column| super::expr::known(column.ty.ty)).collect();
        self.retype(&mut query, &types)?;
        // What `*` meant when the view was made: columns added since come behind.
        query.columns.truncate(view.columns.len());
        for (column, name) in query.columns.iter_mut().zip(&view.columns) {
            column.name = name.clone();
            column.origin = None;
        }
        Ok(query)
    }

    fn series(
        &mut self,
        name: &ast::ObjectName,
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        numbered: bool,
        relations: &mut Vec<Relation>,
    ) -> Result<From> {
        let (_, function) = qualified(name)?;
        let span = name_span(name);
        if let Some(table) = system::function(&function).filter(|_| args.is_empty()) {
            return self.system(table, name, alias, relations);
        }
        if !gives_rows(&function) {
            return Err(self.place(span, Error::unsupported(format_args!("{function} in FROM"))));
        }
        let mut bounds = Vec::with_capacity(args.len());
        for arg in args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = arg else {
                return Err(self.place(span, Error::unsupported("named arguments")));
            };
            // It does not see the names beside it.
            let beside = std::mem::take(&mut self.frame().scopes);
            self.frame().scopes.push(Scope { no_calls: "functions in FROM", ..Scope::default() });
            let bound = self.expr(expr);
            self.frame().scopes = beside;
            bounds.push((bound?, expr.span()));
        }
        let (series, exprs, ty) = self.rows_of(&function, bounds, span)?;
        let visible_as = alias.map_or(function, |alias| fold(&alias.name));
        let mut columns = vec![Column { name: visible_as.clone(), ty: ColumnType::from(ty), origin: None }];
        if numbered {
            columns.push(Column { name: "ordinality".into(), ty: Type::Int8.into(), origin: None });
        }
        self.add(visible_as, None, columns, &[], Source::Series(series, exprs, numbered), alias, relations)
    }

    /// A call of a function that gives rows: its arguments in the types that it takes, and the type of what it gives.
    pub(super) fn rows_of(
        &mut self,
        function: &str,
        bounds: Vec<(Bound, Span)>,
        span: Span,
    ) -> Result<(Series, Vec<Expr>, Type)> {
        match function {
            "generate_series" => self.series_of(bounds, span),
            "pg_partition_ancestors" => {
                let [(bound, at)] = <[_; 1]>::try_from(bounds).map_err(|_| self.place(span, wrong_call(function)))?;
                let arg = self.coerce(bound, Type::RegClass.into(), CastContext::Implicit, at)?;
                Ok((Series::Nothing, vec![arg], Type::RegClass))
            }
            _ => self.rows_of_array(function, bounds, span),
        }
    }

    fn rows_of_array(
        &mut self,
        function: &str,
        bounds: Vec<(Bound, Span)>,
        span: Span,
    ) -> Result<(Series, Vec<Expr>, Type)> {
        let mut bounds = bounds.into_iter();
        let Some((array, _)) = bounds.next() else { return Err(self.place(span, wrong_call(function))) };
        let Some(element) = array.ty.ty.element() else {
            let message = format!("function {function}({}) does not exist", array.ty.ty);
            return Err(self.place(span, Error::new(SqlState::NO_SUCH_FUNCTION, message)));
        };
        let mut args = vec![array.expr];
        let (series, ty, rest): (_, _, &[Type]) = match function {
            "unnest" => (Series::Unnest, element, &[]),
            "_pg_expandarray" if element.is_integer() => (Series::Expanded, Type::Record, &[]),
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
        let common = crate::resolve::common_type(&types).unwrap_or(Type::Int4);
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

    #[expect(clippy::too_many_arguments, reason = "all that a relation in FROM consists of")]
    fn add(
        &mut self,
        name: CompactString,
        schema: Option<CompactString>,
        mut columns: Vec<Column>,
        hidden: &[bool],
        source: Source,
        alias: Option<&ast::TableAlias>,
        relations: &mut Vec<Relation>,
    ) -> Result<From> {
        let hidden: Vec<bool> = if hidden.is_empty() { vec![false; columns.len()] } else { hidden.to_vec() };
        if let Some(alias) = alias.filter(|alias| !alias.columns.is_empty()) {
            let shown: Vec<usize> = (0..columns.len()).filter(|&index| !hidden[index]).collect();
            if alias.columns.len() > shown.len() {
                let message = format!(
                    "table \"{name}\" has {} columns available but {} columns specified",
                    shown.len(),
                    alias.columns.len()
                );
                return Err(self.place(alias.name.span, Error::new(SqlState::BAD_COLUMN_REFERENCE, message)));
            }
            for (&index, renamed) in shown.iter().zip(&alias.columns) {
                columns[index].name = fold(&renamed.name);
            }
        }
        let scope = self.scope();
        if scope.tables.iter().any(|table| table.visible && table.name == name && table.schema == schema) {
            let message = format!("table name \"{name}\" specified more than once");
            let span = alias.map_or(Span::empty(), |alias| alias.name.span);
            return Err(self.place(span, Error::new(SqlState::DUPLICATE_ALIAS, message)));
        }
        let (base, width) = (scope.width, columns.len());
        scope.width += width;
        let oid = match &source {
            Source::Table(table) => Some(table.id),
            Source::System { table, .. } => Some(table.oid),
            _ => None,
        };
        let exprs = None;
        scope.tables.push(ScopeTable { name: name.clone(), schema, base, columns, hidden, visible: true, exprs, oid });
        relations.push(Relation { base, width, source, name });
        Ok(From::Relation(relations.len() - 1))
    }

    /// Binds WITH: each query sees those before it.
    pub(super) fn with(&mut self, with: &ast::With) -> Result<()> {
        if with.recursive {
            return Err(Error::unsupported("WITH RECURSIVE"));
        }
        let first = self.with.len();
        for cte in &with.cte_tables {
            let name = fold(&cte.alias.name);
            if self.with[first..].iter().any(|with| with.name == name) {
                let message = format!("WITH query name \"{name}\" specified more than once");
                return Err(self.place(cte.alias.name.span, Error::new(SqlState::DUPLICATE_ALIAS, message)));
            }
            let query = self.derived(&cte.query)?;
            let mut columns = query.columns.clone();
            if cte.alias.columns.len() > columns.len() {
                let message = format!(
                    "WITH query \"{name}\" has {} columns available but {} columns specified",
                    columns.len(),
                    cte.alias.columns.len()
                );
                return Err(self.place(cte.alias.name.span, Error::new(SqlState::BAD_COLUMN_REFERENCE, message)));
            }
            for (column, renamed) in columns.iter_mut().zip(&cte.alias.columns) {
                column.name = fold(&renamed.name);
            }
            let (id, frame) = (self.new_id(), self.frames.len());
            self.with.push(With { name, columns, id, query: Arc::new(query), frame });
        }
        Ok(())
    }

    /// A column by name, from the innermost query outwards.
    pub(super) fn column(
        &mut self,
        table: Option<(Option<CompactString>, CompactString)>,
        ident: &ast::Ident,
    ) -> Result<Bound> {
        let name = fold(ident);
        for depth in (0..self.frames.len()).rev() {
            let Some(scope) = self.frames[depth].scopes.last() else { continue };
            let found = self.at(ident.span, scope.find(table.as_ref(), &name))?;
            if let Some(mut bound) = found {
                for frame in &mut self.frames[depth + 1..] {
                    let same = frame.args.iter().position(|arg| super::rewrite::same(arg, &bound.expr));
                    let slot = same.unwrap_or_else(|| {
                        frame.args.push(bound.expr.clone());
                        frame.args.len() - 1
                    });
                    bound.expr = Expr::Arg(slot);
                }
                return Ok(bound);
            }
        }
        Err(self.place(ident.span, self.no_such_column(table.as_ref(), &name)))
    }

    fn no_such_column(&self, table: Option<&(Option<CompactString>, CompactString)>, name: &str) -> Error {
        match table {
            None => Error::new(SqlState::NO_SUCH_COLUMN, format!("column \"{name}\" does not exist")),
            Some((schema, table)) => {
                let known = self.frames.iter().flat_map(|frame| frame.scopes.last()).any(|scope| {
                    scope.tables.iter().any(|known| {
                        known.visible && known.name == *table && (schema.is_none() || known.schema == *schema)
                    })
                });
                if known {
                    Error::new(SqlState::NO_SUCH_COLUMN, format!("column {table}.{name} does not exist"))
                } else {
                    let message = format!("missing FROM-clause entry for table \"{table}\"");
                    Error::new(SqlState::NO_SUCH_TABLE, message)
                }
            }
        }
    }
}

/// Whether a function gives rows.
pub(super) fn gives_rows(name: &str) -> bool {
    matches!(name, "generate_series" | "unnest" | "generate_subscripts" | "_pg_expandarray" | "pg_partition_ancestors")
}

fn wrong_call(function: &str) -> Error {
    Error::new(SqlState::NO_SUCH_FUNCTION, format!("function {function} does not take these arguments"))
}

/// Where in the scope the two sides of a join are.
struct Sides {
    first: usize,
    first_merged: usize,
    middle: usize,
    middle_merged: usize,
}

fn not_in_side(name: &str, side: &str) -> Error {
    let message = format!("column \"{name}\" specified in USING clause does not exist in {side} table");
    Error::new(SqlState::NO_SUCH_COLUMN, message)
}

/// A table's columns as a relation has them, and which are not to be found by name.
pub(super) fn table_columns(table: &Table) -> (Vec<Column>, Vec<bool>) {
    let mut columns: Vec<Column> = table
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| Column {
            name: column.name.clone(),
            ty: column.ty,
            origin: Some((table.id, index as i16 + 1)),
        })
        .collect();
    let mut hidden: Vec<bool> = table.columns.iter().map(|column| column.dropped).collect();
    if table.primary_key.is_none() {
        columns.push(Column { name: CompactString::default(), ty: Type::Int8.into(), origin: None });
        hidden.push(true);
    }
    (columns, hidden)
}

impl ScopeTable {
    /// What a column is.
    fn column(&self, index: usize) -> Expr {
        match &self.exprs {
            Some(exprs) => exprs[index].clone(),
            None => Expr::Column(self.base + index),
        }
    }
}

/// The list of a query that is nothing but a list.
fn bare_list(query: &ast::Query) -> Option<&[ast::SelectItem]> {
    let ast::SetExpr::Select(select) = &*query.body else { return None };
    let plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
    plain.then_some(&select.projection)
}

impl Scope {
    fn find(&self, table: Option<&(Option<CompactString>, CompactString)>, name: &str) -> Result<Option<Bound>> {
        let mut covered: &[usize] = &[];
        let mut found: Option<Bound> = None;
        if table.is_none() {
            let mut merged = self.merged.iter().filter(|merged| merged.name == name);
            if let Some(first) = merged.next() {
                if merged.next().is_some() {
                    return Err(ambiguous(name));
                }
                covered = &first.parts;
                found = Some(Bound::new(first.expr.clone(), first.ty));
            }
        }
        for candidate in self.tables.iter().filter(|candidate| candidate.visible) {
            if let Some((schema, table)) = table {
                let same_schema = schema.is_none() || *schema == candidate.schema;
                if candidate.name != *table || !same_schema {
                    continue;
                }
            }
            let was_found = found.is_some();
            for (index, column) in candidate.columns.iter().enumerate() {
                let place = candidate.base + index;
                if candidate.hidden[index] || column.name != name || covered.contains(&place) {
                    continue;
                }
                if found.is_some() {
                    return Err(ambiguous(name));
                }
                found = Some(Bound { expr: candidate.column(index), ty: column.ty });
            }
            // The one system column that there is: which table a row is of.
            if let ("tableoid", Some(oid), true) = (name, candidate.oid, was_found == found.is_some()) {
                if was_found {
                    return Err(ambiguous(name));
                }
                found = Some(Bound::new(Expr::Const(Datum::Int(oid.into())), Type::Oid));
            }
        }
        Ok(found)
    }

    /// All columns in the order of `*`, or of one table.
    pub(super) fn all(&self, table: Option<&(Option<CompactString>, CompactString)>) -> Option<Vec<(Column, Expr)>> {
        let mut columns = Vec::new();
        let mut known = table.is_none();
        let mut covered = Vec::new();
        if table.is_none() {
            for merged in &self.merged {
                let column = Column { name: merged.name.clone(), ty: merged.ty.into(), origin: None };
                columns.push((column, merged.expr.clone()));
                covered.extend_from_slice(&merged.parts);
            }
        }
        for candidate in self.tables.iter().filter(|candidate| candidate.visible) {
            if let Some((schema, table)) = table
                && (candidate.name != *table || !(schema.is_none() || *schema == candidate.schema))
            {
                continue;
            }
            known = true;
            for (index, column) in candidate.columns.iter().enumerate() {
                let place = candidate.base + index;
                if !candidate.hidden[index] && !covered.contains(&place) {
                    columns.push((column.clone(), candidate.column(index)));
                }
            }
        }
        known.then_some(columns)
    }
}

fn ambiguous(name: &str) -> Error {
    Error::new(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{name}\" is ambiguous"))
}

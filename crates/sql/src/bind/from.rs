//! FROM: relations, joins, and the names that they bring.

use std::sync::Arc;

use compact_str::CompactString;
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;

use super::logical::{Column, From, Join, Query, Relation, Source};
use super::{Binder, With, fold, name_span, no_such_relation, qualified, whole};
use crate::cast::CastContext;
use crate::catalog::{Relation as Object, Table, View};
use crate::cluster::Privileges;
use crate::error::{Error, Result, SqlState};
use crate::system::{self, SystemTable};
use crate::types::{ColumnType, Type};

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

    pub(super) fn factor(&mut self, factor: &ast::TableFactor, relations: &mut Vec<Relation>) -> Result<From> {
        if relations.len() >= RELATIONS_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT,
                format!("a query joins more than {RELATIONS_MAX} relations"),
            ));
        }
        whole::factor(factor)?;
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
            self.note_schema(name, table.schema);
            return self.system(table, name, alias, relations);
        }
        match self.relation(name)? {
            Some(Object::Table(table)) => {
                let table = Arc::clone(table);
                self.note_schema(name, &table.schema);
                self.used.push(table.id);
                self.need(table.id, &table.schema, Privileges::SELECT);
                let (columns, hidden) = table_columns(&table);
                let schema = if alias.is_some() { None } else { Some(table.schema.clone()) };
                self.add(visible_as, schema, columns, &hidden, Source::Table(table), alias, relations)
            }
            Some(Object::View(view)) => {
                let view = Arc::clone(view);
                self.note_schema(name, &view.schema);
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

    pub(super) fn system(
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
    ///
    /// Bug: its names were looked up in the search path of whoever used it. Consequence: it read another table than when it was
    /// made, one that the user chose and only the owner might read. Fix: names are stored with their schemas.
    pub(crate) fn view(&mut self, view: &View) -> Result<Query> {
        self.used.push(view.id);
        let statement = crate::statement::parse_query(&view.query)?;
        let search_path = std::mem::replace(&mut self.search_path, &super::stored::SEARCH_PATH);
        let meanings = self.meanings.take();
        let with = std::mem::take(&mut self.with);
        let frames = std::mem::replace(&mut self.frames, vec![super::Frame::default()]);
        let text = std::mem::take(&mut self.text);
        let by = self.by.replace(view.owner);
        let bound = self.deeper(|binder| binder.query(&statement));
        self.by = by;
        self.meanings = meanings;
        self.search_path = search_path;
        self.text = text;
        self.frames = frames;
        self.with = with;
        let mut query = bound?;
        let types: Vec<Type> = query.columns.iter().map(|column| super::expr::known(column.ty.ty)).collect();
        self.retype(&mut query, &types)?;
        // Where `*` stands for a query's columns that have no names of their own.
        query.columns.truncate(view.columns.len());
        for (column, name) in query.columns.iter_mut().zip(&view.columns) {
            column.name = name.clone();
            column.origin = None;
        }
        query.view = Some(Arc::new(view.clone()));
        Ok(query)
    }

    /// Binds WITH: each query sees those before it.
    pub(super) fn with(&mut self, with: &ast::With) -> Result<()> {
        if with.recursive {
            return Err(Error::unsupported("WITH RECURSIVE"));
        }
        whole::with(with)?;
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

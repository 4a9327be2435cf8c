//! Views that are written to: what a view's columns and rows are in the table below it.
//!
//! A view can be written to by itself if it selects from one table, or from another such view, and
//! does no more than choose rows and columns. A statement that writes to it becomes one that writes
//! to the table. The view's columns are expressions over the table's row, and its conditions are
//! added to those of the statement. So nothing behind the binder knows of the view, but for WITH
//! CHECK OPTION: its conditions go along with the table's CHECKs.
//!
//! Invariant: [`ViewTarget::columns`], `filter` and `checks` are over the table's row, which begins
//! at place 0 of the statement's row.

use std::sync::Arc;

use colibri_catalog::{CheckOption, Relation, Table, View, cluster::Privileges};
use colibri_types::{ColumnType, Error, Result, SqlState};
use compact_str::CompactString;
use sqlparser::ast;
use sqlparser::tokenizer::Span;

use super::collation::Collation;
use super::from::table_columns;
use super::logical::{Body, Column, Distinct, Extra, Query};
use super::{Binder, Scope, ScopeTable, fold, rewrite};
use crate::expr::Expr;

/// What a statement does to a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// INSERT
    Insert,
    /// UPDATE
    Update,
    /// DELETE
    Delete,
}

impl Writing {
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Insert => "insert into",
            Self::Update => "update",
            Self::Delete => "delete from",
        }
    }
}

/// A view that a statement writes to.
pub struct ViewTarget {
    pub(super) view: Arc<View>,
    writing: Writing,
    /// The table that its rows are in.
    pub table: Arc<Table>,
    /// In the view's order.
    pub columns: Vec<ViewColumn>,
    /// Which of the table's rows the view has.
    pub(super) filter: Vec<Expr>,
    /// The views whose conditions new rows have to fulfil, with these: in the order in which they
    /// are looked at.
    pub(super) checks: Vec<(CompactString, Expr)>,
    /// Those of them that have queries in them.
    pub(super) queried: Vec<(CompactString, Expr)>,
    /// The relations that the statement needs privileges on: the view, and those below it.
    below: Vec<Below>,
    /// The table is named with ONLY.
    pub(super) is_only: bool,
}

/// A column of such a view.
pub struct ViewColumn {
    name: CompactString,
    ty: ColumnType,
    collation: Collation,
    expr: Expr,
    /// The view's own default, as SQL.
    default: Option<String>,
}

struct Below {
    id: u32,
    schema: CompactString,
    by: Option<u32>,
    /// Of a view: the table's columns that its columns are.
    columns: Option<Vec<Option<usize>>>,
}

impl ViewTarget {
    /// The table's column that a column of the view is; `None` if it is computed.
    #[must_use]
    pub fn place(&self, column: usize) -> Option<usize> {
        match self.columns.get(column)?.expr {
            Expr::Column(place) if place < self.table.columns.len() => Some(place),
            _ => None,
        }
    }

    /// The places of the columns that come before the first one that is computed.
    pub(super) fn first_places(&self) -> Vec<usize> {
        (0..self.columns.len()).map_while(|column| self.place(column)).collect()
    }

    /// The first column that is computed.
    pub(super) fn first_computed(&self) -> Option<&str> {
        let computed = (0..self.columns.len()).find(|&column| self.place(column).is_none())?;
        Some(&self.columns[computed].name)
    }

    /// The defaults that the view has for columns of the table.
    pub(super) fn defaults(&self) -> impl Iterator<Item = (usize, &str)> {
        self.columns.iter().enumerate().filter_map(|(at, column)| Some((self.place(at)?, column.default.as_deref()?)))
    }

    /// The relations below the view, from the uppermost down.
    pub(super) fn relations_below(&self) -> impl Iterator<Item = u32> {
        self.below.iter().skip(1).map(|below| below.id)
    }

    /// Whose rights count for the table; `None`: the user's.
    pub(super) fn table_by(&self) -> Option<u32> {
        self.below.last().and_then(|below| below.by)
    }

    /// Its name.
    pub(super) fn name(&self) -> &CompactString {
        &self.view.name
    }

    pub(super) fn not_of_base(&self, column: &str) -> Error {
        let verb = if self.writing == Writing::Insert { "insert into" } else { "update" };
        let message = format!("cannot {verb} column \"{column}\" of view \"{}\"", self.view.name);
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .detail("View columns that are not columns of their base relation are not updatable.")
    }
}

/// Why a view cannot be written to.
fn not_updatable(view: &View, writing: Writing, detail: &str) -> Error {
    let message = format!("cannot {} view \"{}\"", writing.verb(), view.name);
    let (doing, on) = match writing {
        Writing::Insert => ("inserting into the view", "INSERT"),
        Writing::Update => ("updating the view", "UPDATE"),
        Writing::Delete => ("deleting from the view", "DELETE"),
    };
    let hint =
        format!("To enable {doing}, provide an INSTEAD OF {on} trigger or an unconditional ON {on} DO INSTEAD rule.");
    Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message).detail(detail.to_owned()).hint(hint)
}

const NOT_SINGLE: &str = "Views that do not select from a single table or view are not automatically updatable.";

/// The relation that a view reads, and the SELECT, if the view's query has the form that allows
/// writing. Else why not.
fn shape<'q>(
    query: &'q ast::Query,
    bound: &Query,
) -> std::result::Result<(&'q ast::Select, &'q ast::ObjectName, Option<&'q ast::TableAlias>), &'static str> {
    let ast::SetExpr::Select(select) = &*query.body else {
        return Err(match &*query.body {
            ast::SetExpr::SetOperation { .. } => {
                "Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable."
            }
            _ => NOT_SINGLE,
        });
    };
    let inner = match &bound.body {
        Body::Select(inner) => Some(&**inner),
        _ => None,
    };
    if select.distinct.is_some() || inner.is_some_and(|inner| !matches!(inner.distinct, Distinct::No)) {
        return Err("Views containing DISTINCT are not automatically updatable.");
    }
    let groups = match &select.group_by {
        ast::GroupByExpr::All(_) => true,
        ast::GroupByExpr::Expressions(keys, sets) => !keys.is_empty() || !sets.is_empty(),
    };
    if groups {
        return Err("Views containing GROUP BY are not automatically updatable.");
    }
    if select.having.is_some() {
        return Err("Views containing HAVING are not automatically updatable.");
    }
    if query.with.is_some() {
        return Err("Views containing WITH are not automatically updatable.");
    }
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return Err("Views containing LIMIT or OFFSET are not automatically updatable.");
    }
    let Some(inner) = inner else { return Err(NOT_SINGLE) };
    if inner.group.is_some() {
        return Err("Views that return aggregate functions are not automatically updatable.");
    }
    if inner.extras.iter().any(|extra| matches!(extra, Extra::Window(_))) {
        return Err("Views that return window functions are not automatically updatable.");
    }
    if !inner.extras.is_empty() {
        return Err("Views that return set-returning functions are not automatically updatable.");
    }
    match &select.from[..] {
        [ast::TableWithJoins { relation: ast::TableFactor::Table { name, alias, args: None, sample, .. }, joins }]
            if joins.is_empty() =>
        {
            if sample.is_some() {
                return Err("Views containing TABLESAMPLE are not automatically updatable.");
            }
            Ok((select, name, alias.as_ref()))
        }
        _ => Err(NOT_SINGLE),
    }
}

impl Binder<'_> {
    /// What writing to a view means.
    ///
    /// # Errors
    /// 55000 if the view cannot be written to by itself.
    pub fn view_target(&mut self, view: &Arc<View>, writing: Writing) -> Result<ViewTarget> {
        self.view_target_below(view, writing, false)
    }

    /// The same of a view that is perhaps below one whose WITH CHECK OPTION extends to it.
    fn view_target_below(&mut self, view: &Arc<View>, writing: Writing, is_checked: bool) -> Result<ViewTarget> {
        let by = self.by;
        // Reading is no matter of a statement that does not read.
        let needs = self.needs.len();
        let bound = self.view(view)?;
        self.needs.truncate(needs);
        let query = colibri_syntax::parse_query(&view.query)?;
        let cascades = is_checked || view.check_option == Some(CheckOption::Cascaded);
        let checks = cascades || view.check_option.is_some();
        let target = match shape(&query, &bound) {
            Err(detail) => return Err(not_updatable(view, writing, detail)),
            Ok((select, name, alias)) => self.in_view(view, |binder| {
                binder.frame().scopes.push(Scope { no_calls: "WHERE", ..Scope::default() });
                let target = binder.over_target(view, &bound.columns, (writing, cascades), (select, name, alias));
                binder.frame().scopes.pop();
                target
            })?,
        };
        let Some((mut target, own)) = target else { return Err(not_updatable(view, writing, NOT_SINGLE)) };
        if checks && !own.is_empty() {
            let has_query =
                own.iter().any(|condition| rewrite::any(condition, &|part| matches!(part, Expr::Subquery(_))));
            let condition = rewrite::conjunction(own.clone()).map(|all| (view.name.clone(), is_true(all)));
            match has_query {
                // Queries are run as the statement is, and not with the table's constraints.
                true => target.queried.extend(condition),
                false => target.checks.extend(condition),
            }
        }
        target.filter.extend(own);
        let columns = (0..target.columns.len()).map(|column| target.place(column)).collect();
        target.below.insert(0, Below { id: view.id, schema: view.schema.clone(), by, columns: Some(columns) });
        let is_column = |column: usize| target.place(column).is_some();
        if writing != Writing::Delete && !(0..target.columns.len()).any(is_column) {
            let detail = "Views that have no updatable columns are not automatically updatable.";
            return Err(not_updatable(view, writing, detail));
        }
        Ok(target)
    }

    /// Binds a view's columns and conditions over what is below it: with the conditions of the view
    /// alone. `None` if it is no table and no view.
    fn over_target(
        &mut self,
        view: &Arc<View>,
        columns_bound: &[Column],
        (writing, cascades): (Writing, bool),
        (select, name, alias): (&ast::Select, &ast::ObjectName, Option<&ast::TableAlias>),
    ) -> Result<Option<(ViewTarget, Vec<Expr>)>> {
        let by = self.by;
        let (table, below) = match self.relation(name)?.cloned() {
            Some(Relation::Table(table)) if table.materialized.is_none() => (table, None),
            Some(Relation::View(inner)) => {
                let below = self.view_target_below(&inner, writing, cascades)?;
                (Arc::clone(&below.table), Some(below))
            }
            _ => return Ok(None),
        };
        self.used.push(table.id);
        let is_only = select.from.first().is_some_and(|from| super::whole::is_only(&from.relation));
        if is_only && table.partitioned.is_some() {
            return Err(Error::unsupported("writing to a view of ONLY a table with partitions"));
        }
        // ONLY says nothing of a view.
        let is_only = below.as_ref().map_or(is_only, |below| below.is_only);
        let shown = match (alias, &below) {
            (Some(alias), _) => fold(&alias.name),
            (None, Some(below)) => below.view.name.clone(),
            (None, None) => table.name.clone(),
        };
        match &below {
            Some(below) => self.scope_for_view(below, &shown),
            None => self.scope_for_table(&table, &shown, false),
        }
        if let Some(alias) = alias {
            // A column that was renamed is called here as it was when the view was made.
            let scope = self.scope();
            let columns = scope.tables.iter_mut().flat_map(|table| table.columns.iter_mut().zip(&table.hidden));
            let shown = columns.filter(|(_, hidden)| !**hidden).map(|(column, _)| column);
            for (column, renamed) in shown.zip(&alias.columns) {
                column.name = fold(&renamed.name);
            }
        }
        let mut columns: Vec<ViewColumn> = Vec::with_capacity(view.columns.len());
        for item in &select.projection {
            let found: Vec<Expr> = match item {
                ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => {
                    vec![self.expr(expr)?.expr]
                }
                _ => self.scope().all(None).unwrap_or_default().into_iter().map(|(_, expr)| expr).collect(),
            };
            for expr in found {
                let Some(Column { name, ty, collation, .. }) = columns_bound.get(columns.len()).cloned() else { break };
                let of_below = || {
                    let place = expr_place(&expr)?;
                    let columns = below.iter().flat_map(|below| &below.columns);
                    columns.into_iter().find(|column| expr_place(&column.expr) == Some(place))?.default.clone()
                };
                let default = view.defaults.get(&columns.len()).cloned().or_else(of_below);
                columns.push(ViewColumn { name, ty, collation, expr, default });
            }
        }
        let own = match &select.selection {
            Some(condition) => rewrite::conjuncts(self.condition(condition, "WHERE")?),
            None => Vec::new(),
        };
        let (filter, checks, queried, below) = match below {
            Some(below) => (below.filter, below.checks, below.queried, below.below),
            None => {
                let table = Below { id: table.id, schema: table.schema.clone(), by, columns: None };
                (Vec::new(), Vec::new(), Vec::new(), vec![table])
            }
        };
        let view = Arc::clone(view);
        let target = ViewTarget { view, writing, table, columns, filter, checks, queried, below, is_only };
        Ok(Some((target, own)))
    }

    /// Notes which privileges a statement on a view needs. The user needs them on the view. The
    /// view's owner needs them on what the view reads, or with `security_invoker` the user does.
    pub(super) fn need_on_view(&mut self, target: &ViewTarget, privileges: Privileges) {
        for below in &target.below {
            let by = std::mem::replace(&mut self.by, below.by);
            match &below.columns {
                // What is read of the table are the view's columns.
                None if privileges == Privileges::SELECT => {
                    let places = (0..target.columns.len()).filter_map(|column| target.place(column)).collect();
                    self.need_columns(below.id, &below.schema, privileges, places);
                }
                _ => self.need(below.id, &below.schema, privileges),
            }
            self.by = by;
        }
    }

    /// The same of a statement that writes to some of the table's columns.
    pub(super) fn need_on_view_columns(&mut self, target: &ViewTarget, privilege: Privileges, written: &[usize]) {
        for below in &target.below {
            let own = match &below.columns {
                None => written.to_vec(),
                Some(columns) => {
                    let is_written = |place: &Option<usize>| place.is_some_and(|place| written.contains(&place));
                    (0..columns.len()).filter(|&column| is_written(&columns[column])).collect()
                }
            };
            let by = std::mem::replace(&mut self.by, below.by);
            self.need_columns(below.id, &below.schema, privilege, own);
            self.by = by;
        }
    }

    /// Brings a view's columns into the scope at hand, as expressions over the table's row.
    pub(super) fn scope_for_view(&mut self, target: &ViewTarget, name: &str) {
        let scope = self.scope();
        let base = scope.width;
        scope.width += table_columns(&target.table).0.len();
        for column in &target.columns {
            let mut expr = column.expr.clone();
            rewrite::map_columns(&mut expr, &|place| place + base);
            let (base, computed) = match expr {
                Expr::Column(place) => (place, None),
                // It has no place of its own.
                other => (usize::MAX, Some(other)),
            };
            let (name_of_column, ty, collation) = (column.name.clone(), column.ty, column.collation.clone());
            scope.tables.push(ScopeTable {
                name: name.into(),
                schema: Some(target.view.schema.clone()),
                base,
                columns: vec![Column { name: name_of_column, ty, origin: None, collation }],
                hidden: vec![false],
                visible: true,
                oid: None,
                marker: None,
                row_name: CompactString::default(),
                is_scalar: false,
                is_nullable: false,
                computed,
                read: None,
            });
        }
    }

    /// The place of a view's column in the table, for a statement that writes to it.
    pub(super) fn view_column(&self, target: &ViewTarget, name: &str, span: Span) -> Result<usize> {
        let Some(at) = target.columns.iter().position(|column| column.name == name) else {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", target.view.name);
            return Err(self.place(span, Error::new(SqlState::NO_SUCH_COLUMN, message)));
        };
        target.place(at).ok_or_else(|| target.not_of_base(name))
    }
}

/// The place of the column that an expression is.
fn expr_place(expr: &Expr) -> Option<usize> {
    if let Expr::Column(place) = expr { Some(*place) } else { None }
}

/// A condition that is violated unless it is true.
pub(super) fn is_true(condition: Expr) -> Expr {
    Expr::Coalesce(vec![condition, Expr::Const(colibri_types::Datum::Bool(false))])
}

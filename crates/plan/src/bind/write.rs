//! Binding INSERT, UPDATE and DELETE; MERGE is beside it.

use std::sync::Arc;

use colibri_catalog::{Identity, Index, RoutineVolatility, Table, cluster::Privileges};
use colibri_types::{
    Error, Result, SqlState, Type,
    cast::{CastContext, is_immutable},
    functions::Volatility,
};
use compact_str::CompactString;
use sqlparser::ast;
use sqlparser::ast::Spanned;
use sqlparser::tokenizer::Span;

use super::elements::Target;
use super::expr::Bound;
use super::from::table_columns;
use super::logical::{Body, Column, Query, Relation, Source};
use super::partitions::WrittenTree;
use super::view_target::{ViewTarget, Writing};
use super::view_triggers::has_instead;
use super::{Binder, Scope, ScopeTable, current_of, fold, logical, name_parts, rewrite, whole};
use crate::expr::implied::implied;
use crate::expr::{Expr, SessionFunction};
use crate::plan::{Arbiter, CheckedRow, ConflictAction, OnConflict, RowCheck, RowChecks};

/// `INSERT`
pub struct BoundInsert {
    pub table: Arc<Table>,
    /// What gives the rows. `None`: one row of defaults.
    pub source: Option<Query>,
    /// For each of the table's columns, what it gets, over the source's row.
    pub values: Vec<Expr>,
    pub on_conflict: Option<OnConflict>,
    pub returning: Option<(Vec<Expr>, Vec<Column>)>,
    /// What row-level security demands.
    pub security: RowChecks,
    /// The view that it is written by.
    pub(super) view: Option<Arc<ViewTarget>>,
    pub tree: Option<WrittenTree>,
}

/// `UPDATE`: of the first relation.
pub struct BoundUpdate {
    pub table: Arc<Table>,
    pub relations: Vec<Relation>,
    pub from: logical::From,
    pub filter: Vec<Expr>,
    /// Over the wide row.
    pub assignments: Vec<(usize, BoundValue)>,
    pub returning: Option<(Vec<Expr>, Vec<Column>)>,
    /// What row-level security demands.
    pub security: RowChecks,
    /// The view that it is written by.
    pub(super) view: Option<Arc<ViewTarget>>,
    pub tree: Option<WrittenTree>,
}

/// What becomes of values given for identity columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Overriding {
    No,
    /// They are taken.
    System,
    /// They are ignored.
    User,
}

/// What a column is set to.
pub struct BoundValue {
    /// Whether parts of the column's array are written, and not all of it.
    is_part: bool,
    pub expr: Expr,
}

/// `DELETE`: from the first relation.
pub struct BoundDelete {
    pub table: Arc<Table>,
    pub relations: Vec<Relation>,
    pub from: logical::From,
    pub filter: Vec<Expr>,
    pub returning: Option<(Vec<Expr>, Vec<Column>)>,
    pub tree: Option<WrittenTree>,
}

pub(super) fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// Messages of a topic are never changed: a reader that has passed one would not learn of it.
#[cold]
#[must_use]
pub fn messages_stay(topic: &Table) -> Error {
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("messages of topic \"{}\" cannot be changed", topic.name))
        .hint("Old messages go by the topic's retention, or with topic.trim.")
}

impl Binder<'_> {
    /// The default of a column, cast to its type.
    pub fn column_default(&mut self, table: &Table, column: usize) -> Result<Expr> {
        let ty = table.columns[column].ty;
        let Some(text) = &table.columns[column].default else {
            if ty.domain.is_none() || table.columns[column].generated.is_some() {
                return Ok(Expr::Const(colibri_types::Datum::Null));
            }
            return match self.domain_default(ty)? {
                Some(default) => Ok(default),
                None => self.null_in(ty),
            };
        };
        // An identity's sequence is the table's own.
        let by = if table.columns[column].identity.is_some() { self.by.replace(table.owner) } else { self.by };
        let bound = self.stored_expr(text, None, table.columns[column].ty);
        self.by = by;
        bound
    }

    /// An expression that the catalogue holds as text, over a row of all the table's columns if a
    /// table is given.
    pub fn stored_expr(&mut self, text: &str, table: Option<&Table>, ty: colibri_types::ColumnType) -> Result<Expr> {
        let parsed = colibri_syntax::parse_expr(text)?;
        let old_text = std::mem::take(&mut self.text);
        let scope = Scope { no_calls: "stored expressions", ..Scope::default() };
        self.frame().scopes.push(scope);
        if let Some(table) = table {
            self.scope_for_table(table, &table.name.clone(), false);
        }
        let bound = self.stored(|binder| {
            binder.take_collation();
            Ok((binder.expr(&parsed)?, binder.take_collation()))
        });
        self.frame().scopes.pop();
        self.text = old_text;
        let (bound, collation) = bound?;
        // What stands for a text in an index, and is of another type, is its sort key.
        let is_key = ty.ty.element().unwrap_or(ty.ty) == Type::Bytea && super::collation::has_order(bound.ty.ty);
        if is_key && table.is_some() {
            let of = bound.ty.ty;
            return Ok(self.sort_key(bound.expr, of, &collation));
        }
        self.coerce(bound, ty, CastContext::Assignment, Span::empty())
    }

    /// A column's default, as it is stored.
    pub fn default_expr(&mut self, text: &str, column: &str, ty: colibri_types::ColumnType) -> Result<Expr> {
        self.stored(|binder| binder.new_default(text, column, ty))
    }

    /// A column's default, as it was written.
    pub(super) fn new_default(&mut self, text: &str, column: &str, ty: colibri_types::ColumnType) -> Result<Expr> {
        let parsed = colibri_syntax::parse_expr(text)?;
        self.frame().scopes.push(Scope { no_calls: "DEFAULT expressions", ..Scope::default() });
        let bound = self.expr(&parsed);
        self.frame().scopes.pop();
        let bound = match bound {
            Err(error) if error.state() == SqlState::NO_SUCH_COLUMN => {
                return Err(Error::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "cannot use column reference in DEFAULT expression",
                ));
            }
            bound => self.without_queries(bound?, "DEFAULT expression")?,
        };
        let from = bound.ty.sql_name();
        self.coerce(bound, ty, CastContext::Assignment, Span::empty()).map_err(|error| {
            if error.state() != SqlState::CANNOT_COERCE {
                return error;
            }
            let message =
                format!("column \"{column}\" is of type {} but default expression is of type {from}", ty.sql_name());
            Error::new(SqlState::TYPE_MISMATCH, message).hint("You will need to rewrite or cast the expression.")
        })
    }

    /// Binds a stored text over a table's rows. `place` is where aggregates and the like are
    /// refused.
    fn over_rows<T>(
        &mut self,
        text: &str,
        table: &Table,
        place: &'static str,
        bind: impl FnOnce(&mut Self, &ast::Expr) -> Result<T>,
    ) -> Result<T> {
        let parsed = colibri_syntax::parse_expr(text)?;
        self.frame().scopes.push(Scope { no_calls: place, ..Scope::default() });
        self.scope_for_table(table, &table.name.clone(), false);
        let bound = bind(self, &parsed);
        self.frame().scopes.pop();
        bound
    }

    /// A CHECK condition over a table's rows.
    pub fn check_expr(&mut self, text: &str, table: &Table) -> Result<Expr> {
        let bound = self.stored(|binder| {
            binder.over_rows(text, table, "check constraints", |binder, expr| binder.condition(expr, "CHECK"))
        });
        Ok(self.without_queries(Bound::new(bound?, Type::Bool), "check constraint")?.expr)
    }

    /// An expression of an index, over a table's rows: it gives the same for the same row whenever
    /// it is computed.
    ///
    /// # Errors
    /// 42P17 if it does not, and what else may be wrong with it.
    pub fn index_expr(&mut self, text: &str, table: &Table) -> Result<Bound> {
        self.stored(|binder| binder.new_index_expr(text, table))
    }

    /// The same as a key: sort keys in the place of texts that are compared by another collation than
    /// that of bytes.
    ///
    /// # Errors
    /// As those of [`Self::index_expr`].
    pub fn index_key(&mut self, text: &str, table: &Table) -> Result<Bound> {
        self.stored(|binder| {
            binder.take_collation();
            let bound = binder.new_index_expr(text, table)?;
            let collation = binder.take_collation();
            binder.at(Span::empty(), collation.expect_one())?;
            let ty = bound.ty.ty;
            let key = binder.sort_key(bound.expr.clone(), ty, &collation);
            if rewrite::same(&key, &bound.expr) {
                return Ok(bound);
            }
            Ok(Bound::new(key, if ty.is_array() { Type::Bytea.array_of() } else { Type::Bytea }))
        })
    }

    /// The same of what a statement says.
    fn new_index_expr(&mut self, text: &str, table: &Table) -> Result<Bound> {
        let bound = self.over_rows(text, table, "index expressions", Self::expr);
        let bound = self.of_index(bound?, "index expression")?;
        match bound.ty.ty {
            Type::Unknown => {
                let expr = self.coerce(bound, Type::Text.into(), CastContext::Implicit, Span::empty())?;
                Ok(Bound::new(expr, Type::Text))
            }
            _ => Ok(bound),
        }
    }

    /// What a generated column is computed of, over a table's rows, cast to its type.
    ///
    /// # Errors
    /// 42P17 if it is not the same for the same row always, or looks at a generated column.
    pub fn generated_expr(&mut self, text: &str, table: &Table, column: usize) -> Result<Expr> {
        let bound = self.stored(|binder| binder.over_rows(text, table, "column generation expressions", Self::expr));
        let bound = self.without_queries(bound?, "column generation expression")?;
        let wrong = |message: String| Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
        let mut other = None;
        rewrite::for_each_column(&bound.expr, &mut |place| {
            if let Some(of) = table.columns.get(place).filter(|of| of.generated.is_some()) {
                other.get_or_insert_with(|| of.name.clone());
            }
        });
        if let Some(name) = other {
            return wrong(format!("cannot use generated column \"{name}\" in column generation expression"));
        }
        if !is_repeatable(&bound.expr) {
            return wrong("generation expression is not immutable".to_owned());
        }
        self.assign(table, column, bound, Span::empty())
    }

    /// The condition of an index, over a table's rows.
    ///
    /// # Errors
    /// As [`Binder::index_expr`].
    pub fn index_predicate(&mut self, text: &str, table: &Table) -> Result<Expr> {
        self.stored(|binder| binder.new_index_predicate(text, table))
    }

    /// The same of what a statement says.
    fn new_index_predicate(&mut self, text: &str, table: &Table) -> Result<Expr> {
        let bound = self.over_rows(text, table, "index predicates", |binder, expr| binder.condition(expr, "WHERE"));
        Ok(self.of_index(Bound::new(bound?, Type::Bool), "index predicate")?.expr)
    }

    fn of_index(&self, bound: Bound, place: &str) -> Result<Bound> {
        let bound = self.without_queries(bound, place)?;
        if !is_repeatable(&bound.expr) {
            let message = format!("functions in {place} must be marked IMMUTABLE");
            return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
        }
        Ok(bound)
    }

    /// A condition on the rows of a COPY FROM.
    pub fn copy_condition(&mut self, condition: &ast::Expr, table: &Table) -> Result<Expr> {
        const PLACE: &str = "COPY FROM WHERE condition";
        self.frame().scopes.push(Scope { no_calls: "COPY FROM WHERE conditions", ..Scope::default() });
        self.scope_for_table(table, &table.name.clone(), false);
        let bound = self.condition(condition, "WHERE");
        self.frame().scopes.pop();
        let bound = bound?;
        if rewrite::any(&bound, &|expr| matches!(expr, Expr::Subquery(_))) {
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot use subquery in {PLACE}")));
        }
        Ok(bound)
    }

    /// An expression over a table's rows.
    pub fn table_expr(&mut self, expr: &ast::Expr, table: &Table) -> Result<Bound> {
        self.frame().scopes.push(Scope { no_calls: "transform expressions", ..Scope::default() });
        self.scope_for_table(table, &table.name.clone(), false);
        let bound = self.expr(expr);
        self.frame().scopes.pop();
        self.without_queries(bound?, "transform expression")
    }

    /// The values that EXECUTE gives.
    pub fn execute_parameter(&mut self, expr: &ast::Expr) -> Result<Bound> {
        self.frame().scopes.push(Scope { no_calls: "EXECUTE parameters", ..Scope::default() });
        let bound = self.expr(expr);
        self.frame().scopes.pop();
        self.without_queries(bound?, "EXECUTE parameter")
    }

    /// An expression of a body, without a query around it.
    ///
    /// # Errors
    /// What is wrong with it; and if it cannot do without a query around it.
    pub fn body_expression(&mut self, expr: &ast::Expr) -> Result<Bound> {
        self.frame().scopes.push(Scope { no_calls: "an expression", ..Scope::default() });
        let bound = self.expr(expr);
        self.frame().scopes.pop();
        bound
    }

    /// Refuses queries inside an expression.
    pub(super) fn without_queries(&self, bound: Bound, place: &str) -> Result<Bound> {
        if rewrite::any(&bound.expr, &|expr| matches!(expr, Expr::Subquery(_))) {
            let message = format!("cannot use subquery in {place}");
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(bound)
    }

    /// Brings a table's columns into the scope at hand.
    pub(super) fn scope_for_table(&mut self, table: &Table, name: &str, hidden_name: bool) {
        let (columns, hidden) = table_columns(table);
        let scope = self.scope();
        let base = scope.width;
        scope.width += columns.len();
        scope.tables.push(ScopeTable {
            name: name.into(),
            schema: Some(table.schema.clone()),
            base,
            columns,
            hidden,
            visible: !hidden_name,
            oid: Some(table.id),
            marker: super::from::marker(table).map(|place| base + place),
            row_name: table.name.clone(),
            is_scalar: false,
            is_nullable: false,
            computed: None,
            read: None,
        });
    }

    /// Brings what a statement writes to into the scope at hand: a table, or a view on it.
    fn scope_for_target(&mut self, table: &Table, name: &str) {
        match self.target_view.clone() {
            Some(view) => self.scope_for_view(&view, name),
            None => {
                self.scope_for_table(table, name, false);
                if let Some(read) = self.target_read.clone() {
                    self.notes_reads(&read);
                }
            }
        }
    }

    /// The statement writes to columns of a table, or of a view, of which it may read some:
    /// `reads` says whether it reads a view.
    fn need_on_target(&mut self, table: &Table, privilege: Privileges, columns: Vec<usize>, reads: bool) {
        match self.target_view.clone() {
            Some(view) => {
                if privilege == Privileges::DELETE {
                    self.need_on_view(&view, privilege);
                } else {
                    self.need_on_view_columns(&view, privilege, &columns);
                }
                if reads {
                    self.need_on_view(&view, Privileges::SELECT);
                }
            }
            None => {
                match privilege {
                    Privileges::DELETE => self.need(table.id, &table.schema, privilege),
                    _ => self.need_columns(table.id, &table.schema, privilege, columns),
                }
                if let Some(read) = self.target_read.clone() {
                    self.need_if_read(table.id, &table.schema, &read);
                }
            }
        }
    }

    /// Binds a statement that writes, and notes what it reads of what it writes to.
    pub(super) fn noting_target<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let around = (self.target_view.take(), self.target_read.replace(Arc::default()));
        let bound = bind(self);
        (self.target_view, self.target_read) = around;
        bound
    }

    pub(super) fn target_column(&mut self, table: &Table, ident: &ast::Ident) -> Result<usize> {
        let name = fold(ident);
        if let Some(view) = self.target_view.clone().filter(|view| view.table.id == table.id) {
            return self.view_column(&view, &name, ident.span);
        }
        table.column(&name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            self.place(ident.span, Error::new(SqlState::NO_SUCH_COLUMN, message))
        })
    }

    /// Casts a value to what a column takes.
    pub(super) fn assign(&mut self, table: &Table, column: usize, bound: Bound, span: Span) -> Result<Expr> {
        let column = &table.columns[column];
        let (from, to) = (bound.ty.ty, column.ty);
        let allowed = from == Type::Unknown
            || from == to.ty
            || colibri_types::cast::cast_context(from, to.ty).is_some_and(|weakest| weakest <= CastContext::Assignment)
            || self.user_cast(from, to, CastContext::Assignment).is_some();
        if !allowed {
            let (of, from) = (to.sql_name(), bound.ty.sql_name());
            let message = format!("column \"{}\" is of type {of} but expression is of type {from}", column.name);
            let error =
                Error::new(SqlState::TYPE_MISMATCH, message).hint("You will need to rewrite or cast the expression.");
            return Err(self.place(span, error));
        }
        self.coerce(bound, to, CastContext::Assignment, span)
    }

    /// What is written to a column, as a value of the domain that the column may be of.
    fn as_domain_of(&mut self, table: &Table, column: usize, value: Expr) -> Result<Expr> {
        match table.columns[column].ty.domain {
            Some(domain) => self.in_domain(value, domain),
            None => Ok(value),
        }
    }

    fn refuse_cursor_on_view(&mut self, has_cursor: bool, target: &ast::TableFactor) -> Result<()> {
        if let (true, ast::TableFactor::Table { name, .. }) = (has_cursor, target)
            && let Some(colibri_catalog::Relation::View(_)) = self.relation(name)?
        {
            return Err(Error::unsupported("WHERE CURRENT OF on a view"));
        }
        Ok(())
    }

    /// The table that a statement writes to, by itself or by a view.
    fn written_table(&mut self, name: &ast::ObjectName, writing: Writing) -> Result<Arc<Table>> {
        let verb = writing.verb();
        self.target_view = None;
        if let Some(colibri_catalog::Relation::View(view)) = self.relation(name)?
            && has_instead(view, writing)
        {
            let view = Arc::clone(view);
            return self.view_as_table(&view).map(Arc::new);
        }
        if let Some(colibri_catalog::Relation::View(view)) = self.relation(name)? {
            let found = self.view_target(view, writing);
            let target = Arc::new(self.at(super::name_span(name), found)?);
            let table = Arc::clone(&target.table);
            if table.as_topic().is_some() && !matches!(writing, Writing::Insert) {
                return Err(messages_stay(&table));
            }
            self.target_view = Some(target);
            return Ok(table);
        }
        if let Some(system) = self.system_relation(name)?.filter(|system| system.is_view) {
            let message = format!("cannot {verb} view \"{}\"", system.name);
            let error = Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message)
                .detail("Views that do not select from a single table or view are not automatically updatable.");
            return Err(self.place(super::name_span(name), error));
        }
        let table = self.table(name)?;
        if table.materialized.is_some() {
            let message = format!("cannot change materialized view \"{}\"", table.name);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if table.as_topic().is_some() && !matches!(writing, Writing::Insert) {
            return Err(messages_stay(&table));
        }
        Ok(table)
    }

    /// Binds INSERT.
    pub(super) fn insert(&mut self, insert: &ast::Insert) -> Result<BoundInsert> {
        let ast::TableObject::TableName(name) = &insert.table else {
            return Err(Error::unsupported("INSERT into something other than a table"));
        };
        whole::insert(insert)?;
        self.noting_target(|binder| binder.insert_into(insert, name))
    }

    fn insert_into(&mut self, insert: &ast::Insert, name: &ast::ObjectName) -> Result<BoundInsert> {
        let table = self.written_table(name, Writing::Insert)?;
        let shown = self.target_view.as_ref().map_or(&table.name, |view| view.name()).clone();
        let alias = insert.table_alias.as_ref().map_or(shown, |alias| fold(&alias.alias));
        let targets = self.insert_targets(&table, &insert.columns)?;
        let explicit = !insert.columns.is_empty();
        let overriding = match (insert.has_table_keyword, insert.overwrite) {
            (true, _) => Overriding::System,
            (_, true) => Overriding::User,
            _ => Overriding::No,
        };
        let mut values = self.default_row(&table, &targets)?;
        let source = match &insert.source {
            None => None,
            Some(query) => {
                let source = self.insert_source(&table, query, &targets, explicit, overriding, &mut values)?;
                Some(source)
            }
        };
        let given = match (&source, insert.source.as_ref().map(|query| &*query.body)) {
            (_, Some(ast::SetExpr::Values(rows))) => rows.rows.first().map_or(0, |row| row.content.len()),
            (Some(source), _) => source.columns.len(),
            (None, _) => 0,
        };
        let written = targets.iter().take(given).map(|(place, _)| *place).collect();
        self.need_on_target(&table, Privileges::INSERT, written, insert.returning.is_some());
        let on_conflict = match &insert.on {
            None => None,
            Some(ast::OnInsert::OnConflict(_)) if table.as_topic().is_some() => return Err(messages_stay(&table)),
            Some(ast::OnInsert::OnConflict(clause)) => Some(self.on_conflict(&table, &alias, clause)?),
            Some(_) => return Err(Error::new(SqlState::SYNTAX_ERROR, "ON DUPLICATE KEY is ON CONFLICT here")),
        };
        let returning = match &insert.returning {
            None => None,
            Some(items) => {
                self.frame().scopes.push(Scope::default());
                self.scope_for_target(&table, &alias);
                let bound = self.returning(items);
                self.frame().scopes.pop();
                let mut bound = bound?;
                Self::over_root(&table, &mut bound.0);
                Some(bound)
            }
        };
        let tree = self.inserted_tree(&table)?;
        let updates = matches!(on_conflict, Some(OnConflict { action: ConflictAction::Update { .. }, .. }));
        let reads = returning.is_some() || on_conflict.as_ref().is_some_and(|conflict| !conflict.arbiters.is_empty());
        let security = match self.subject_to_target(&table)? {
            Some(authority) => self.as_target(|binder| binder.insert_checks(&table, &authority, (reads, updates)))?,
            None => RowChecks::default(),
        };
        let mut security = security;
        let of_view = self.checks_of_view();
        if updates {
            security.update.extend(of_view.iter().cloned());
        }
        security.insert.extend(of_view);
        Ok(BoundInsert { table, source, values, on_conflict, returning, security, tree, view: self.target_view.take() })
    }

    /// The columns that a row's values are for, in their order; all without a list.
    pub(super) fn insert_targets<'n>(
        &mut self,
        table: &Arc<Table>,
        columns: &'n [ast::ObjectName],
    ) -> Result<Vec<(usize, Option<Target<'n>>)>> {
        let mut targets: Vec<(usize, Option<Target<'n>>)> = Vec::new();
        for column in columns {
            let target = Target::of(column)?;
            let place = self.target_column(table, target.column)?;
            let is_again = |(other, before): &(usize, Option<Target<'_>>)| {
                *other == place && !(target.is_part() && before.as_ref().is_some_and(Target::is_part))
            };
            if targets.iter().any(is_again) {
                let message = format!("column \"{}\" specified more than once", table.columns[place].name);
                return Err(self.place(target.column.span, Error::new(SqlState::DUPLICATE_COLUMN, message)));
            }
            self.expect_parts(table, place, &target)?;
            targets.push((place, Some(target)));
        }
        if targets.is_empty() {
            targets = match &self.target_view {
                Some(view) => view.first_places().into_iter().map(|place| (place, None)).collect(),
                None => table.live_columns().map(|(place, _)| (place, None)).collect(),
            };
        }
        Ok(targets)
    }

    /// What the columns of a new row are without values for them.
    pub(super) fn default_row(
        &mut self,
        table: &Arc<Table>,
        targets: &[(usize, Option<Target<'_>>)],
    ) -> Result<Vec<Expr>> {
        let mut values = Vec::with_capacity(table.columns.len());
        for (place, column) in table.columns.iter().enumerate() {
            values.push(if column.dropped {
                Expr::Const(colibri_types::Datum::Null)
            } else {
                self.column_default(table, place)?
            });
        }
        if let Some(view) = self.target_view.clone().filter(|view| view.table.id == table.id) {
            for (place, text) in view.defaults() {
                values[place] = self.stored_expr(text, None, table.columns[place].ty)?;
            }
        }
        // What parts are written into is NULL, whatever the default.
        for (place, _) in targets.iter().filter(|(_, target)| target.as_ref().is_some_and(Target::is_part)) {
            values[*place] = Expr::Const(colibri_types::Datum::Null);
        }
        Ok(values)
    }

    fn insert_source(
        &mut self,
        table: &Arc<Table>,
        query: &ast::Query,
        targets: &[(usize, Option<Target<'_>>)],
        explicit: bool,
        overriding: Overriding,
        values: &mut [Expr],
    ) -> Result<Query> {
        let rows = match &*query.body {
            ast::SetExpr::Values(rows)
                if query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none() =>
            {
                Some(rows)
            }
            _ => None,
        };
        let too_many = |binder: &Self, span: Span| {
            let view = binder.target_view.as_deref().filter(|_| !explicit);
            if let Some((view, computed)) = view.and_then(|view| Some((view, view.first_computed()?))) {
                return view.not_of_base(computed);
            }
            binder.place(span, Error::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns"))
        };
        let too_few = |binder: &Self, span: Span| {
            binder.place(span, Error::new(SqlState::SYNTAX_ERROR, "INSERT has more target columns than expressions"))
        };
        let Some(rows) = rows else {
            let mut source = self.query(query)?;
            let width = source.columns.len();
            if width > targets.len() {
                return Err(too_many(self, query.span()));
            }
            if width < targets.len() && explicit {
                return Err(too_few(self, query.span()));
            }
            // Literals of the SELECT list take the columns' types.
            let types: Vec<Type> =
                source
                    .columns
                    .iter()
                    .zip(targets)
                    .map(|(column, (place, target))| {
                        if column.ty.ty == Type::Unknown {
                            self.type_of(table, *place, target).ty
                        } else {
                            column.ty.ty
                        }
                    })
                    .collect();
            self.retype(&mut source, &types)?;
            for (index, (place, target)) in targets[..width].iter().enumerate() {
                let place = *place;
                if overriding == Overriding::User && table.columns[place].identity.is_some() {
                    continue;
                }
                self.refuse_generated(table, place, overriding)?;
                let bound = Bound::new(Expr::Column(index), source.columns[index].ty);
                let value = self.value_for(table, place, target, bound, query.span())?;
                self.put(table, place, target, value, values)?;
            }
            return Ok(source);
        };
        whole::values(rows)?;
        let width = rows.rows.first().map_or(0, |row| row.content.len());
        let mut bound_rows = Vec::with_capacity(rows.rows.len());
        let mut extras_found = Vec::new();
        // A row's own expressions are cast to the columns' types one by one.
        for row in &rows.rows {
            if row.content.len() != width {
                let span = row.content.first().map_or(Span::empty(), Spanned::span);
                let error = Error::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length");
                return Err(self.place(span, error));
            }
            if width > targets.len() {
                return Err(too_many(self, row.content[targets.len()].span()));
            }
            if width < targets.len() && explicit {
                return Err(too_few(self, row.content.first().map_or(Span::empty(), Spanned::span)));
            }
            // A single row may have functions that give rows, as the list of a SELECT may.
            let extras = (rows.rows.len() == 1).then(Vec::new);
            self.frame().scopes.push(Scope { no_calls: "VALUES", extras, ..Scope::default() });
            let mut exprs = Vec::with_capacity(width);
            for (expr, (place, target)) in row.content.iter().zip(targets) {
                let place = *place;
                if let (true, Some(target)) = (is_default(expr), target.as_ref().filter(|target| target.is_part())) {
                    return Err(self.default_of_part(target));
                }
                let ignored = overriding == Overriding::User && table.columns[place].identity.is_some();
                if ignored || is_default(expr) {
                    exprs.push(values[place].clone());
                    continue;
                }
                self.refuse_generated(table, place, overriding)?;
                let bound = self.expr(expr)?;
                exprs.push(self.value_for(table, place, target, bound, expr.span())?);
            }
            extras_found = self.frame().scopes.pop().and_then(|scope| scope.extras).unwrap_or_default();
            bound_rows.push(exprs);
        }
        let columns = targets[..width]
            .iter()
            .map(|(place, target)| Column {
                name: table.columns[*place].name.clone(),
                ty: self.type_of(table, *place, target),
                origin: None,
                collation: super::collation::Collation::Default,
            })
            .collect();
        for (index, (place, target)) in targets[..width].iter().enumerate() {
            self.put(table, *place, target, Expr::Column(index), values)?;
        }
        let body = if extras_found.is_empty() {
            Body::Values(bound_rows)
        } else {
            Body::Select(Box::new(logical::Select {
                relations: Vec::new(),
                from: None,
                filter: Vec::new(),
                group: None,
                grouped_rows: Vec::new(),
                extras: extras_found,
                output: bound_rows.pop().unwrap_or_default(),
                distinct: logical::Distinct::No,
            }))
        };
        Ok(Query::plain(body, columns))
    }

    fn type_of(&self, table: &Table, place: usize, target: &Option<Target<'_>>) -> colibri_types::ColumnType {
        target.as_ref().map_or(table.columns[place].ty, |target| self.type_of_target(table, place, target))
    }

    pub(super) fn value_for(
        &mut self,
        table: &Table,
        place: usize,
        target: &Option<Target<'_>>,
        bound: Bound,
        span: Span,
    ) -> Result<Expr> {
        match target {
            Some(target) => self.value_for_target(table, place, target, bound, span),
            None => self.assign(table, place, bound, span),
        }
    }

    /// Puts what a target is given into the values of a row.
    pub(super) fn put(
        &mut self,
        table: &Table,
        place: usize,
        target: &Option<Target<'_>>,
        value: Expr,
        values: &mut [Expr],
    ) -> Result<()> {
        values[place] = match target.as_ref().filter(|target| target.is_part()) {
            Some(target) => {
                // A domain is asked once, when all parts are written.
                let whole = match std::mem::replace(&mut values[place], Expr::Const(colibri_types::Datum::Null)) {
                    Expr::Domain { input, .. } => *input,
                    whole => whole,
                };
                let written = self.with_part(whole, table.columns[place].ty.ty, target, value)?;
                self.as_domain_of(table, place, written)?
            }
            None => value,
        };
        Ok(())
    }

    pub(super) fn refuse_generated(&self, table: &Table, column: usize, overriding: Overriding) -> Result<()> {
        let column = &table.columns[column];
        if column.generated.is_some() {
            let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
            let detail = format!("Column \"{}\" is a generated column.", column.name);
            return Err(Error::new(SqlState("428C9"), message).detail(detail));
        }
        if column.identity == Some(Identity::Always) && overriding != Overriding::System {
            let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
            let error = Error::new(SqlState("428C9"), message)
                .detail(format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", column.name))
                .hint("Use OVERRIDING SYSTEM VALUE to override.");
            return Err(error);
        }
        Ok(())
    }

    fn on_conflict(&mut self, table: &Arc<Table>, alias: &str, clause: &ast::OnConflict) -> Result<OnConflict> {
        whole::on_conflict(clause);
        let arbiters = match &clause.conflict_target {
            None => Vec::new(),
            Some(ast::ConflictTarget::Columns(columns)) => {
                let found = self.arbiters(table, columns)?;
                if found.is_empty() {
                    let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
                    return Err(Error::new(SqlState::BAD_COLUMN_REFERENCE, message));
                }
                found
            }
            Some(ast::ConflictTarget::OnConstraint(name)) => {
                let name = fold(name_parts(name)?.last().expect("a name has parts"));
                let key = table.primary_key.as_ref().filter(|key| key.name == name).map(|_| Arbiter::Key);
                let is_meant = |index: &&Arc<Index>| index.name == name && (index.unique || index.is_exclusion());
                let index = || table.indexes.iter().find(is_meant);
                if index().is_some_and(|index| !index.timing.is_fixed()) {
                    let message =
                        "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters";
                    return Err(Error::new(SqlState("55000"), message));
                }
                if let (ast::OnConflictAction::DoUpdate(_), Some(true)) =
                    (&clause.action, index().map(|index| index.is_exclusion()))
                {
                    let message = "ON CONFLICT DO UPDATE not supported with exclusion constraints";
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                match key.or_else(|| index().map(|index| Arbiter::Index(Arc::clone(index)))) {
                    Some(arbiter) => vec![arbiter],
                    None => {
                        let message = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
                        return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
                    }
                }
            }
        };
        let action = match &clause.action {
            ast::OnConflictAction::DoNothing => ConflictAction::Nothing,
            ast::OnConflictAction::DoUpdate(update) => {
                if arbiters.is_empty() {
                    let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                    return Err(
                        Error::new(SqlState::SYNTAX_ERROR, message).hint("For example, ON CONFLICT (column_name).")
                    );
                }
                self.frame().scopes.push(Scope { no_calls: "UPDATE", ..Scope::default() });
                self.scope_for_target(table, alias);
                // The row in the way comes without what is hidden.
                for hidden in self.scope().tables.iter_mut().flat_map(|table| table.columns.last_mut()) {
                    if hidden.name == "tableoid" {
                        hidden.name = "".into();
                    }
                }
                self.scope_for_excluded(table);
                let bound = self.conflict_update(table, update);
                self.frame().scopes.pop();
                let bound = bound?;
                let written = match &bound {
                    ConflictAction::Update { assignments, .. } => {
                        assignments.iter().map(|assignment| assignment.column).collect()
                    }
                    ConflictAction::Nothing => Vec::new(),
                };
                self.need_on_target(table, Privileges::UPDATE, written, true);
                bound
            }
        };
        Ok(OnConflict { arbiters, action })
    }

    /// What keeps unique what ON CONFLICT names: columns and expressions, perhaps of rows that fulfil
    /// a condition.
    fn arbiters(&mut self, table: &Arc<Table>, columns: &[ast::Ident]) -> Result<Vec<Arbiter>> {
        let stored: Vec<(usize, &str)> = table.expressions().collect();
        let mut places = Vec::with_capacity(columns.len());
        let mut given = Vec::new();
        for column in columns {
            match column.quote_style {
                Some(colibri_syntax::CONFLICT_EXPRESSION) => {
                    let expr = self.new_index_expr(&column.value, table)?.expr;
                    let mut found = None;
                    for &(place, text) in &stored {
                        if rewrite::same(&self.index_expr(text, table)?.expr, &expr) {
                            found = Some(place);
                        }
                    }
                    let Some(found) = found else { return Ok(Vec::new()) };
                    places.push(found);
                }
                Some(colibri_syntax::CONFLICT_CONDITION) => {
                    given = rewrite::conjuncts(self.new_index_predicate(&column.value, table)?);
                }
                _ => {
                    let place = self.target_column(table, column)?;
                    if let Some(read) = &self.target_read {
                        read.note(place);
                    }
                    places.push(self.key_of_column(table, place));
                }
            }
        }
        let mut found = unique_on(table, &places);
        for index in table.indexes.iter().filter(|index| index.unique) {
            let is_plain = index.predicate.is_none() && !table.is_on_expression(index);
            let of_index = || index.columns.iter().map(|part| part.column);
            if is_plain || index.columns.len() != places.len() || !of_index().all(|column| places.contains(&column)) {
                continue;
            }
            let is_limited = match table.predicate_of(index) {
                None => true,
                Some(condition) => implied(&given, &self.index_predicate(condition, table)?).is_some(),
            };
            if is_limited {
                found.push(Arbiter::Index(Arc::clone(index)));
            }
        }
        Ok(found)
    }

    /// The column that stands for the sort key of another one, if rows are told apart by it.
    fn key_of_column(&self, table: &Table, place: usize) -> usize {
        let column = &table.columns[place];
        let collation = column.collation.as_deref().unwrap_or("default");
        let order = super::collation::order_of(self.catalog, collation).filter(|order| !order.deterministic);
        if order.is_none() || !super::collation::has_order(column.ty.ty) {
            return place;
        }
        let text = colibri_types::functions::quote_identifier(&column.name);
        let key =
            table.expressions().find(|(place, known)| *known == text && table.columns[*place].ty.ty == Type::Bytea);
        key.map_or(place, |(key, _)| key)
    }

    /// `excluded`: the proposed row, found only by its full name.
    fn scope_for_excluded(&mut self, table: &Table) {
        let (columns, hidden) = table_columns(table);
        let columns: Vec<Column> = columns.into_iter().take(table.columns.len()).collect();
        // The existing row comes with its hidden number, if it has one, in no place: both rows are
        // the table's columns.
        let base = table.columns.len();
        if let Some(view) = self.target_view.clone() {
            self.scope().width = base;
            self.scope_for_view(&view, "excluded");
            self.scope().width = base * 2;
            return;
        }
        let read = self.target_read.clone().map(|read| (read, 0));
        let scope = self.scope();
        scope.tables.push(ScopeTable {
            name: "excluded".into(),
            schema: None,
            base,
            hidden: hidden[..columns.len()].to_vec(),
            columns,
            visible: true,
            oid: Some(table.id),
            marker: None,
            row_name: table.name.clone(),
            is_scalar: false,
            is_nullable: false,
            computed: None,
            read,
        });
        scope.width = base * 2;
    }

    fn conflict_update(&mut self, table: &Arc<Table>, update: &ast::DoUpdate) -> Result<ConflictAction> {
        let assignments = self.assignments(table, &update.assignments)?;
        let condition = match &update.selection {
            Some(condition) => Some(self.condition(condition, "WHERE")?),
            None => None,
        };
        let assignments = assignments
            .into_iter()
            .map(|(column, value)| crate::plan::Assignment {
                column,
                value: crate::plan::AssignedValue::Expr(value.expr),
            })
            .collect();
        Ok(ConflictAction::Update { assignments, condition })
    }

    pub(super) fn assignments(
        &mut self,
        table: &Arc<Table>,
        list: &[ast::Assignment],
    ) -> Result<Vec<(usize, BoundValue)>> {
        let mut assignments: Vec<(usize, BoundValue)> = Vec::with_capacity(list.len());
        for assignment in list {
            match &assignment.target {
                ast::AssignmentTarget::ColumnName(name) => {
                    self.assigned(table, name, &assignment.value, &mut assignments)?;
                }
                ast::AssignmentTarget::Tuple(names) => {
                    let values = self.source_of_row(&assignment.value, names.len())?;
                    for (name, value) in names.iter().zip(&values) {
                        self.assigned(table, name, value, &mut assignments)?;
                    }
                }
            }
        }
        Ok(assignments)
    }

    /// What several columns are set to at once: a query's only row, or a row that is written out. A
    /// value in parentheses is neither, so that one column alone is set to `ROW (value)`.
    fn source_of_row(&mut self, value: &ast::Expr, count: usize) -> Result<Vec<ast::Expr>> {
        let mut source = value;
        while let ast::Expr::Nested(inner) = source {
            source = inner;
        }
        let parts = match source {
            ast::Expr::Subquery(query) => match self.subquery_query(query)?.0.columns.len() {
                columns if columns == count && count > 1 => self.parts_of_row(query, count)?,
                columns => vec![source.clone(); columns],
            },
            row => match super::expr::as_tuple(row) {
                Some(parts) => parts.into_owned(),
                None => {
                    let message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
                    return Err(self.place(value.span(), Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)));
                }
            },
        };
        if parts.len() != count {
            let error = Error::new(SqlState::SYNTAX_ERROR, "number of columns does not match number of values");
            return Err(self.place(value.span(), error));
        }
        Ok(parts)
    }

    /// The parts of a query's only row, each as a query of its own.
    pub(super) fn parts_of_row(&self, query: &ast::Query, count: usize) -> Result<Vec<ast::Expr>> {
        let names: Vec<String> = (0..count).map(|index| format!("c{index}")).collect();
        let mut parts = Vec::with_capacity(count);
        for name in &names {
            let text = format!("SELECT {name} FROM (SELECT 1) AS \"row\"({})", names.join(", "));
            let mut part = colibri_syntax::parse_query(&text)?;
            if let ast::SetExpr::Select(select) = &mut *part.body
                && let Some(ast::TableWithJoins { relation: ast::TableFactor::Derived { subquery, .. }, .. }) =
                    select.from.first_mut()
            {
                **subquery = query.clone();
            }
            parts.push(ast::Expr::Subquery(Box::new(part)));
        }
        Ok(parts)
    }

    fn assigned(
        &mut self,
        table: &Arc<Table>,
        name: &ast::ObjectName,
        value: &ast::Expr,
        before: &mut Vec<(usize, BoundValue)>,
    ) -> Result<()> {
        let target = Target::of(name)?;
        let column = self.target_column(table, target.column)?;
        self.expect_parts(table, column, &target)?;
        let earlier = before.iter().position(|(other, _)| *other == column);
        if earlier.is_some_and(|at| !(target.is_part() && before[at].1.is_part)) {
            let message = format!("multiple assignments to same column \"{}\"", table.columns[column].name);
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        if is_default(value) {
            if target.is_part() {
                return Err(self.default_of_part(&target));
            }
            // What is generated follows from the other columns.
            if table.columns[column].generated.is_none() {
                let view = self.target_view.clone().filter(|view| view.table.id == table.id);
                let of_view = view.as_deref().and_then(|view| view.defaults().find(|(place, _)| *place == column));
                let expr = match of_view {
                    Some((_, text)) => self.stored_expr(text, None, table.columns[column].ty)?,
                    None => self.column_default(table, column)?,
                };
                before.push((column, BoundValue { expr, is_part: false }));
            }
            return Ok(());
        }
        if table.columns[column].generated.is_some() {
            let name = &table.columns[column].name;
            let message = format!("column \"{name}\" can only be updated to DEFAULT");
            let detail = format!("Column \"{name}\" is a generated column.");
            return Err(Error::new(SqlState("428C9"), message).detail(detail));
        }
        if table.columns[column].identity == Some(Identity::Always) {
            let message = format!("column \"{}\" can only be updated to DEFAULT", table.columns[column].name);
            let detail = "is an identity column defined as GENERATED ALWAYS.";
            let detail = format!("Column \"{}\" {detail}", table.columns[column].name);
            return Err(Error::new(SqlState("428C9"), message).detail(detail));
        }
        let bound = self.expr(value)?;
        let mut expr = self.value_for_target(table, column, &target, bound, value.span())?;
        if target.is_part() {
            let whole = match earlier.map_or(Expr::Column(column), |at| before.remove(at).1.expr) {
                Expr::Domain { input, .. } => *input,
                whole => whole,
            };
            expr = self.with_part(whole, table.columns[column].ty.ty, &target, expr)?;
            expr = self.as_domain_of(table, column, expr)?;
        }
        before.push((column, BoundValue { expr, is_part: target.is_part() }));
        Ok(())
    }

    pub(super) fn target(
        &mut self,
        factor: &ast::TableFactor,
        writing: Writing,
        relations: &mut Vec<Relation>,
    ) -> Result<(Arc<Table>, logical::From)> {
        whole::factor(factor)?;
        let ast::TableFactor::Table { name, alias, args: None, sample: None, .. } = factor else {
            return Err(Error::unsupported("writing to something other than a table"));
        };
        if let Some(column) = alias.iter().flat_map(|alias| &alias.columns).next() {
            let error = Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"(\"");
            return Err(self.place(column.name.span, error));
        }
        let table = self.written_table(name, writing)?;
        let shown = self.target_view.as_ref().map_or(&table.name, |view| view.name()).clone();
        let visible_as = alias.as_ref().map_or(shown, |alias| fold(&alias.name));
        let base = self.scope().width;
        self.scope_for_target(&table, &visible_as);
        let width = self.scope().width - base;
        let view = self.catalog.view(table.id).filter(|view| !view.materialized).cloned();
        let mut source = match (table.is_tree(), view) {
            (true, _) => Source::Tree(self.tree(&table)?),
            (false, Some(view)) => self.rows_of_view(&view)?,
            (false, None) => Source::Table(Arc::clone(&table)),
        };
        // ONLY says nothing of a view, and the view may name its table with it.
        let is_only = self.target_view.as_ref().map_or_else(|| whole::is_only(factor), |view| view.is_only);
        if is_only {
            Self::without_leaves(&mut source);
        }
        relations.push(Relation::new(base, width, source, visible_as));
        Ok((table, logical::From::Relation(relations.len() - 1)))
    }

    /// Binds UPDATE.
    pub(super) fn update(&mut self, update: &ast::Update) -> Result<BoundUpdate> {
        whole::update(update)?;
        if !update.table.joins.is_empty() {
            return Err(Error::unsupported("UPDATE of a join"));
        }
        self.frame().scopes.push(Scope { no_calls: "UPDATE", ..Scope::default() });
        let bound = self.noting_target(|binder| binder.update_in_scope(update));
        self.frame().scopes.pop();
        bound
    }

    fn update_in_scope(&mut self, update: &ast::Update) -> Result<BoundUpdate> {
        let mut relations = Vec::new();
        let cursor = current_of::cursor_of(update.selection.as_ref());
        self.refuse_cursor_on_view(cursor.is_some(), &update.table.relation)?;
        let (table, target) = self.target(&update.table.relation, Writing::Update, &mut relations)?;
        let reads =
            update.selection.is_some() && cursor.is_none() || update.from.is_some() || update.returning.is_some();
        let others: &[ast::TableWithJoins] = match &update.from {
            None => &[],
            Some(ast::UpdateTableFromKind::BeforeSet(from) | ast::UpdateTableFromKind::AfterSet(from)) => from,
        };
        let from = self.beside(target, others, &mut relations)?;
        // In PostgreSQL's order: see `select_in_scope`.
        self.scope().no_calls = "WHERE";
        let mut filter = match &update.selection {
            Some(condition) if cursor.is_none() => rewrite::conjuncts(self.condition(condition, "WHERE")?),
            _ => Vec::new(),
        };
        let returning = update.returning.as_ref().map(|items| self.returning(items)).transpose()?;
        self.scope().no_calls = "UPDATE";
        let assignments = self.assignments(&table, &update.assignments)?;
        let written = assignments.iter().map(|(column, _)| *column).collect();
        self.need_on_target(&table, Privileges::UPDATE, written, reads);
        filter.extend(cursor.into_iter().flat_map(|cursor| self.row_of_cursor(cursor, &table)));
        filter.extend(self.target_view.iter().flat_map(|view| view.filter.iter().cloned()));
        let mut security = RowChecks::default();
        if let Some(authority) = self.subject_to_target(&table)? {
            let width = relations[0].width;
            let assigned = assignments.iter().map(|(_, value)| &value.expr);
            let returned = returning.iter().flat_map(|(exprs, _)| exprs);
            let reads = reads_row(filter.iter().chain(assigned).chain(returned), width);
            let (shown, checks) = self.as_target(|binder| {
                let mut shown = if reads { binder.policy_filter(&table, &authority, 'r')? } else { Vec::new() };
                shown.extend(binder.policy_filter(&table, &authority, 'w')?);
                Ok((shown, binder.update_checks(&table, &authority, reads)?))
            })?;
            filter = Self::behind_policies(shown, filter, width);
            security.update = checks;
        }
        security.update.extend(self.checks_of_view());
        let tree = self.written_tree(&table)?;
        let view = self.target_view.take();
        Ok(BoundUpdate { table, relations, from, filter, assignments, returning, security, tree, view })
    }

    /// What WITH CHECK OPTION of the view that is written to demands with queries.
    fn checks_of_view(&self) -> Vec<RowCheck> {
        let check = |(view, condition): &(CompactString, Expr)| RowCheck {
            of: CheckedRow::New,
            table: view.clone(),
            policy: None,
            of_view: true,
            condition: condition.clone(),
        };
        self.target_view.iter().flat_map(|view| &view.queried).map(check).collect()
    }

    /// Does something with the rights of whoever uses the table that is written to: of the user, or
    /// of the owner of the view that it is written by.
    pub(super) fn as_target<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let by = match &self.target_view {
            Some(view) => std::mem::replace(&mut self.by, view.table_by()),
            None => self.by,
        };
        let done = act(self);
        self.by = by;
        done
    }

    /// The rights that the policies of the target table are applied to; `None` if they do not apply.
    pub(super) fn subject_to_target(
        &mut self,
        table: &Table,
    ) -> Result<Option<Arc<colibri_catalog::cluster::Authority>>> {
        self.as_target(|binder| binder.subject_to(table))
    }

    fn beside(
        &mut self,
        target: logical::From,
        others: &[ast::TableWithJoins],
        relations: &mut Vec<Relation>,
    ) -> Result<logical::From> {
        Ok(match self.from(others, relations)? {
            None => target,
            Some(right) => logical::From::Join {
                kind: logical::Join::Inner,
                left: Box::new(target),
                right: Box::new(right),
                on: Vec::new(),
            },
        })
    }

    /// Binds DELETE.
    pub(super) fn delete(&mut self, delete: &ast::Delete) -> Result<BoundDelete> {
        whole::delete(delete)?;
        self.frame().scopes.push(Scope { no_calls: "WHERE", ..Scope::default() });
        let bound = self.noting_target(|binder| binder.delete_in_scope(delete));
        self.frame().scopes.pop();
        bound
    }

    fn delete_in_scope(&mut self, delete: &ast::Delete) -> Result<BoundDelete> {
        let (ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables)) = &delete.from;
        let [table] = &tables[..] else {
            return Err(Error::unsupported("DELETE from several tables"));
        };
        if !table.joins.is_empty() {
            return Err(Error::unsupported("DELETE from a join"));
        }
        let mut relations = Vec::new();
        let cursor = current_of::cursor_of(delete.selection.as_ref());
        self.refuse_cursor_on_view(cursor.is_some(), &table.relation)?;
        let (table, target) = self.target(&table.relation, Writing::Delete, &mut relations)?;
        let reads =
            delete.selection.is_some() && cursor.is_none() || delete.using.is_some() || delete.returning.is_some();
        self.need_on_target(&table, Privileges::DELETE, Vec::new(), reads);
        let from = self.beside(target, delete.using.as_deref().unwrap_or_default(), &mut relations)?;
        let mut filter = match &delete.selection {
            Some(condition) if cursor.is_none() => rewrite::conjuncts(self.condition(condition, "WHERE")?),
            _ => Vec::new(),
        };
        let returning = delete.returning.as_ref().map(|items| self.returning(items)).transpose()?;
        filter.extend(cursor.into_iter().flat_map(|cursor| self.row_of_cursor(cursor, &table)));
        filter.extend(self.target_view.iter().flat_map(|view| view.filter.iter().cloned()));
        if let Some(authority) = self.subject_to_target(&table)? {
            let width = relations[0].width;
            let reads = reads_row(filter.iter().chain(returning.iter().flat_map(|(exprs, _)| exprs)), width);
            let shown = self.as_target(|binder| {
                let mut shown = if reads { binder.policy_filter(&table, &authority, 'r')? } else { Vec::new() };
                shown.extend(binder.policy_filter(&table, &authority, 'd')?);
                Ok(shown)
            })?;
            filter = Self::behind_policies(shown, filter, width);
        }
        let tree = self.written_tree(&table)?;
        Ok(BoundDelete { table, relations, from, filter, returning, tree })
    }
}

/// Whether some expressions look at the first columns of a row.
pub(super) fn reads_row<'e>(exprs: impl Iterator<Item = &'e Expr>, width: usize) -> bool {
    let mut reads = false;
    for expr in exprs {
        rewrite::for_each_column(expr, &mut |column| reads |= column < width);
    }
    reads
}

/// Whether an expression gives the same for the same row whenever it is computed.
pub(super) fn is_repeatable(expr: &Expr) -> bool {
    let differs = |part: &Expr| match part {
        Expr::Call { function, .. } => function.volatility != Volatility::Immutable,
        Expr::Chain { links, .. } => links.iter().any(|(function, _)| function.volatility != Volatility::Immutable),
        Expr::Cast { from, to, .. } => !is_immutable(*from, to.ty),
        Expr::Session { function: SessionFunction::Routine(call), .. } => {
            call.routine.volatility != RoutineVolatility::Immutable
        }
        Expr::Session { .. } => true,
        _ => false,
    };
    !rewrite::any(expr, &differs)
}

/// What keeps a set of columns unique.
pub fn unique_on(table: &Table, columns: &[usize]) -> Vec<Arbiter> {
    let same = |of: &[usize]| of.len() == columns.len() && of.iter().all(|column| columns.contains(column));
    let mut found = Vec::new();
    if table.primary_key.is_some() && same(table.key_columns()) {
        found.push(Arbiter::Key);
    }
    let unique = |index: &&Arc<Index>| {
        let of_index: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
        index.unique && same(&of_index)
    };
    found.extend(table.plain_indexes().filter(unique).map(|index| Arbiter::Index(Arc::clone(index))));
    found
}

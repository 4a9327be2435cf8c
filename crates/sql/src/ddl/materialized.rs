//! CREATE and REFRESH MATERIALIZED VIEW.
//!
//! A materialized view is a table that nobody writes to but these two statements, and beside it a
//! view of the same number, which has the query and what it reads. So its rows are read, indexed
//! and analysed as those of any table, and what depends on what is found as for views.
//!
//! Invariants: the table and the view have the same number, schema and name, and live and die
//! together; the view is found by its number alone.

use std::sync::Arc;

use colibri_catalog::{Catalog, Change, Materialized, ObjectId, Relation, Table, View, store_error::InSql as _};
use colibri_txn::SpaceId;
use colibri_types::{ColumnType, Error, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast;

use super::create::{duplicate_column, new_column, refuse_system_column};
use super::user_types::object_name;
use super::view::changes_rows;
use super::{Session, whole};
use crate::bind::fold;
use crate::bind::logical;

const CREATED: &str = "CREATE MATERIALIZED VIEW";

fn full_name(table: &Table) -> ast::ObjectName {
    object_name(&[table.schema.clone(), table.name.clone()])
}

impl Session {
    /// Gives the command tag.
    pub(super) fn create_materialized_view(&mut self, create: &ast::CreateView) -> Result<String> {
        whole::create_materialized_view(create)?;
        if self.is_named_temporary(&create.name)? {
            let message = "materialized views must not be temporary";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        let (schema, name) = self.new_name(&create.name)?;
        if create.if_not_exists && self.catalog().relation(&schema, &name).is_some() {
            self.notice_existing("relation", &name);
            return Ok(CREATED.to_owned());
        }
        self.expect_free(&schema, &name)?;
        self.expect_no_type(&schema, &name)?;
        let query = &*create.query;
        if self.reads_temporary(query)? {
            let message = "materialized views must not use temporary tables or views";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        if changes_rows(query) || with.into_iter().any(|part| changes_rows(&part.query)) {
            let message = "materialized views must not use data-modifying statements in WITH";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let (columns, text, reads) = self.with_binder("", |binder| {
            let (query, text) = binder.stored_query(query)?;
            if !binder.params.is_empty() {
                let message = "materialized views may not be defined using bound parameters";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            Ok((query.columns, text, std::mem::take(&mut binder.used)))
        })?;
        if create.columns.len() > columns.len() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
        }
        let mut declared = Vec::with_capacity(columns.len());
        for (place, column) in columns.iter().enumerate() {
            let name = create.columns.get(place).map_or(column.name.clone(), |given| fold(&given.name));
            declared.push(column_of(name, column)?);
            if declared[..place].iter().any(|other| other.name == declared[place].name) {
                return Err(duplicate_column(&declared[place].name));
            }
        }
        let names: Vec<CompactString> = declared.iter().map(|column| column.name.clone()).collect();
        let mut table = self.new_table(schema.clone(), name.clone(), declared)?;
        table.renew_generation();
        let (id, owner) = (table.id, table.owner);
        {
            let (_, txn) = self.catalog_and_txn()?;
            txn.create_space(SpaceId(table.space)).in_sql()?;
        }
        let (full, with_data) = (full_name(&table), !create.with_no_schema_binding);
        self.change(vec![Change::PutTable(table)])?;
        let rows = if with_data { Some(self.insert_query(&full, query)?) } else { None };
        let mut reads: Vec<ObjectId> = reads;
        reads.sort_unstable();
        reads.dedup();
        let (columns, query, acl) = (names, text, None);
        let (check_option, defaults, invoker) = (None, std::collections::BTreeMap::new(), false);
        let view = View {
            id,
            schema,
            name,
            columns,
            query,
            reads,
            materialized: true,
            check_option,
            defaults,
            invoker,
            owner,
            column_acls: colibri_catalog::ColumnAcls::new(),
            acl,
            triggers: Vec::new(),
        };
        self.finish_materialized(id, with_data, vec![Change::PutView(view)])?;
        Ok(rows.map_or_else(|| CREATED.to_owned(), |rows| format!("SELECT {rows}")))
    }

    /// Makes the table that has the rows a materialized view.
    fn finish_materialized(&mut self, id: ObjectId, populated: bool, mut changes: Vec<Change>) -> Result<()> {
        let table = self.catalog().table(id).ok_or_else(|| Error::internal("a materialized view has no table"))?;
        let table = Table { materialized: Some(Materialized { populated }), ..(**table).clone() };
        changes.push(Change::PutTable(table));
        self.change(changes)
    }

    pub(crate) fn refresh(&mut self, name: &[CompactString], concurrently: bool, with_data: bool) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let shown = name.last().cloned().unwrap_or_default();
        let table = match self.find_relation(&object_name(name))? {
            Some(Relation::Table(table)) if table.materialized.is_some() => table,
            Some(_) => {
                let message = format!("\"{shown}\" is not a materialized view");
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            None => {
                let message = format!("relation \"{}\" does not exist", name.join("."));
                return Err(Error::new(SqlState::NO_SUCH_TABLE, message));
            }
        };
        self.expect_owner(table.owner, "materialized view", &table.name)?;
        self.lock_table(&table)?;
        if concurrently {
            let is_populated = table.materialized.is_some_and(|view| view.populated);
            self.expect_concurrent(&table, is_populated, with_data)?;
        }
        self.expect_not_in_use(&table, "REFRESH MATERIALIZED VIEW")?;
        let view = self.catalog().view(table.id).cloned();
        let view = view.ok_or_else(|| Error::internal("a materialized view has no query"))?;
        // The rows go to new spaces, so that others read the old ones until this commits.
        let mut changed = Table { materialized: None, ..(*table).clone() };
        self.replace_spaces(&table, &mut changed)?;
        let full = full_name(&changed);
        self.change(vec![Change::PutTable(changed)])?;
        if with_data {
            let query = crate::statement::parse_query(&view.query)?;
            self.insert_stored_query(&full, &query)
                .map_err(|error| if concurrently { error } else { of_unique_index(error, &table.name) })?;
        }
        self.finish_materialized(table.id, with_data, Vec::new())
    }

    /// What CONCURRENTLY asks of a materialized view. Here all refreshes leave readers alone.
    fn expect_concurrent(&self, table: &Table, is_populated: bool, with_data: bool) -> Result<()> {
        if !is_populated {
            let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if !with_data {
            let message = "CONCURRENTLY and WITH NO DATA options cannot be used together";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        if table.plain_indexes().any(|index| index.unique) {
            return Ok(());
        }
        let quoted = crate::system::names::quoted;
        let name = format!("{}.{}", quoted(&table.schema), quoted(&table.name));
        Err(Error::new(
            SqlState::NOT_IN_PREREQUISITE_STATE,
            format!("cannot refresh materialized view \"{name}\" concurrently"),
        )
        .hint("Create a unique index with no WHERE clause on one or more columns of the materialized view."))
    }

    /// 42809 for a change that materialized views do not take.
    pub(super) fn expect_alterable(&self, table: &Table, operation: &ast::AlterTableOperation) -> Result<()> {
        use ast::{AlterColumnOperation as C, AlterTableOperation as O};
        if table.materialized.is_none() {
            return Ok(());
        }
        let action = match operation {
            O::AddColumn { .. } => "ADD COLUMN",
            O::DropColumn { .. } => "DROP COLUMN",
            O::AddConstraint { .. } => "ADD CONSTRAINT",
            O::DropConstraint { .. } => "DROP CONSTRAINT",
            O::ValidateConstraint { .. } => "VALIDATE CONSTRAINT",
            O::AlterColumn { op, .. } => match op {
                C::SetNotNull => "ALTER COLUMN ... SET NOT NULL",
                C::DropNotNull => "ALTER COLUMN ... DROP NOT NULL",
                C::SetDefault { .. } | C::DropDefault => "ALTER COLUMN ... SET DEFAULT",
                C::SetDataType { .. } => "ALTER COLUMN ... SET DATA TYPE",
                C::AddGenerated { .. } => return Ok(()),
            },
            _ => return Ok(()),
        };
        let message = format!("ALTER action {action} cannot be performed on relation \"{}\"", table.name);
        Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)
            .detail("This operation is not supported for materialized views."))
    }

    /// Drops views together with the rows that materialized ones have, in the order given.
    pub(super) fn drop_views(&mut self, views: &[Arc<View>]) -> Result<()> {
        for view in views {
            let table = self.catalog().table(view.id).filter(|_| view.materialized).cloned();
            let mut changes: Vec<Change> =
                self.rules_naming(view.id).iter().map(|rule| Change::DropRule(rule.id)).collect();
            changes.push(Change::DropView(view.id));
            if let Some(table) = table {
                self.lock_table(&table)?;
                self.expect_not_in_use(&table, "DROP MATERIALIZED VIEW")?;
                let (_, txn) = self.catalog_and_txn()?;
                txn.drop_space(SpaceId(table.space)).in_sql()?;
                for index in &table.indexes {
                    txn.drop_space(SpaceId(index.space)).in_sql()?;
                }
                changes.push(Change::DropTable(table.id));
            }
            self.change(changes)?;
        }
        Ok(())
    }

    /// The view that goes with a table, with another name, schema or owner; nothing for tables that
    /// are no materialized views.
    pub(crate) fn view_of(&self, table: &Table) -> Vec<Change> {
        let view = self.catalog().view(table.id).filter(|view| view.materialized);
        let renamed = view.map(|view| View {
            schema: table.schema.clone(),
            name: table.name.clone(),
            columns: table.live_columns().map(|(_, column)| column.name.clone()).collect(),
            owner: table.owner,
            ..(**view).clone()
        });
        renamed.map(Change::PutView).into_iter().collect()
    }
}

/// What PostgreSQL says when the new rows are equal in a unique index.
fn of_unique_index(error: Error, view: &str) -> Error {
    let report = error.report();
    let (true, Some(index)) = (error.state() == SqlState::UNIQUE_VIOLATION, &report.constraint) else { return error };
    let detail = report.detail.as_deref().unwrap_or_default().replace("already exists.", "is duplicated.");
    Error::new(SqlState::UNIQUE_VIOLATION, format!("could not create unique index \"{index}\"")).detail(detail).about(
        report.schema.as_deref().unwrap_or_default(),
        view,
        None,
        Some(index),
    )
}

/// A column for what a query gives.
fn column_of(name: CompactString, column: &logical::Column) -> Result<colibri_catalog::Column> {
    let ty: ColumnType = if column.ty.ty == Type::Unknown { Type::Text.into() } else { column.ty };
    refuse_system_column(&name)?;
    if !ty.ty.is_storable() {
        let message = format!("column \"{name}\" has pseudo-type {ty}");
        return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
    }
    if column.collation.is_open() {
        let message = format!("no collation was derived for column \"{name}\" with collatable type {}", ty.ty);
        return Err(Error::new(SqlState("42P22"), message));
    }
    Ok(colibri_catalog::Column { collation: column.collation.clone().name(), ..new_column(name, ty) })
}

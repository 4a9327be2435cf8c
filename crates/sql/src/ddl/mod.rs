//! Changing the catalogue: CREATE, ALTER, DROP, TRUNCATE.
//!
//! A statement works on the catalogue that its transaction sees, and gives the transaction a
//! changed copy. So changes are transactional, like all others. Tables that it changes are locked
//! first, so that it and transactions that write to them wait for each other.
//!
//! Invariants: all dependencies that PostgreSQL would find are found before anything is changed;
//! dropping an object drops only those others that CASCADE or ownership name.

mod aggregates;
mod alter;
mod alter_partitions;
mod casts;
mod collations;
mod composites;
mod compression;
mod constraint;
mod create;
mod domains;
mod drop;
mod exclusion;
mod extension_members;
mod extensions;
mod identity;
mod index;
mod inheritance;
mod like;
mod materialized;
mod operator_users;
mod operators;
mod partition_indexes;
mod partitions;
mod policies;
mod ranges;
mod renamed;
mod replica_identity;
pub(crate) mod routine_users;
mod routines;
mod rules;
mod schema_change;
mod schema_elements;
mod sequence;
mod statistics;
mod storage;
mod system_counts;
mod temporary;
mod text_search;
mod topics;
mod triggers;
mod type_dependents;
mod user_types;
mod view;
mod whole;

pub(crate) use sequence::SequenceOptions;

use std::sync::Arc;

use colibri_catalog::cluster::{ObjectKind, Privileges};
use colibri_catalog::{Catalog, Change, Relation, Table, catalog_space, record, store_error::InSql as _, table_key};
use colibri_txn::{IfLocked, LockMode};
use colibri_types::{ColumnType, Error, Result, SqlState};
use compact_str::CompactString;
use sqlparser::ast::{self, ObjectType, Statement};

use crate::bind::{in_database, name_span};
use crate::session::{Session, Severity};

/// The query that a statement makes a table or a materialized view of.
pub(crate) fn query_of(statement: &Statement) -> Option<&ast::Query> {
    match statement {
        Statement::CreateTable(create) => create.query.as_deref(),
        Statement::CreateView(create) if create.materialized => Some(&create.query),
        _ => None,
    }
}

/// Whether a statement changes the catalogue.
pub(crate) fn is_ddl(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateTable(_)
            | Statement::CreateIndex(_)
            | Statement::CreateSchema { .. }
            | Statement::CreateView(_)
            | Statement::AlterTable(_)
            | Statement::Drop { .. }
            | Statement::Truncate(_)
    ) || system_counts::is_about(statement)
}

/// PostgreSQL's command tag.
pub(crate) fn tag(statement: &Statement) -> &'static str {
    match statement {
        Statement::CreateTable(create) if create.query.is_some() => "SELECT",
        Statement::CreateTable(_) => "CREATE TABLE",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::CreateSchema { .. } => "CREATE SCHEMA",
        Statement::CreateView(create) if create.materialized && !create.with_no_schema_binding => "SELECT",
        Statement::CreateView(create) if create.materialized => "CREATE MATERIALIZED VIEW",
        Statement::CreateView(_) => "CREATE VIEW",
        Statement::AlterTable(alter) if alter.table_type.is_some() => "ALTER MATERIALIZED VIEW",
        Statement::AlterTable(_) => "ALTER TABLE",
        Statement::Drop { object_type, .. } => match object_type {
            ObjectType::Table => "DROP TABLE",
            ObjectType::Index => "DROP INDEX",
            ObjectType::Sequence => "DROP SEQUENCE",
            ObjectType::Schema => "DROP SCHEMA",
            ObjectType::View => "DROP VIEW",
            ObjectType::MaterializedView => "DROP MATERIALIZED VIEW",
            _ => "DROP",
        },
        Statement::Truncate(_) => "TRUNCATE TABLE",
        _ => "",
    }
}

impl Session {
    /// Runs a statement that changes the catalogue, within the current statement. Gives its command
    /// tag.
    pub(crate) fn ddl(&mut self, statement: &Statement) -> Result<String> {
        if let Statement::Update(update) = statement {
            return self.set_system_counts(update);
        }
        // Whoever changes temporary objects alone waits for nobody.
        if !self.is_of_session(statement)? {
            Catalog::lock(self.catalog_and_txn()?.1)?;
        }
        match statement {
            Statement::CreateTable(create) => return self.create_table(create),
            Statement::CreateIndex(create) => self.create_index(create)?,
            Statement::CreateSchema {
                schema_name,
                or_replace,
                if_not_exists,
                with,
                options,
                default_collate_spec,
                clone,
            } => {
                let has_others = with.is_some() || options.is_some() || default_collate_spec.is_some();
                if *or_replace || has_others || clone.is_some() {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error: CREATE SCHEMA has no such clause"));
                }
                self.create_schema(schema_name, *if_not_exists)?;
            }
            Statement::CreateView(create) if create.materialized => return self.create_materialized_view(create),
            Statement::CreateView(create) => self.create_view(create)?,
            Statement::AlterTable(alter) => self.alter_table(alter)?,
            Statement::Drop { object_type, if_exists, names, cascade, restrict: _, purge, temporary, table } => {
                if *purge && *object_type == ObjectType::Index {
                    self.expect_droppable_concurrently(names, *cascade)?;
                } else if *purge || *temporary || table.is_some() {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error: DROP has no such clause"));
                }
                self.drop_objects(*object_type, *if_exists, names, *cascade)?;
            }
            Statement::Truncate(truncate) => self.truncate(truncate)?,
            other => return Err(Error::unsupported(format_args!("the statement {other}"))),
        }
        Ok(tag(statement).to_owned())
    }

    /// Changes the catalogue of this transaction.
    pub(crate) fn change(&mut self, changes: Vec<Change>) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        self.check_topics(&changes)?;
        self.forget_surroundings();
        for change in &changes {
            if let Change::PutSequence(sequence) = change
                && self.catalog().sequences().all(|known| known.id != sequence.id)
            {
                self.add_sequence(sequence);
            }
        }
        let of_session = changes.iter().any(Change::is_temporary);
        let of_database = changes.iter().any(|change| !change.is_temporary());
        let (catalog, txn) = self.catalog_and_txn()?;
        if of_database {
            // Held already, but for statements that were taken to change temporary objects alone.
            Catalog::lock(txn)?;
        }
        Arc::make_mut(catalog).apply(txn, changes)?;
        self.catalog_changed(of_database, of_session);
        Ok(())
    }

    /// Locks a table exclusively, and makes sure that the transaction sees its newest state.
    fn lock_table(&mut self, table: &Table) -> Result<()> {
        let (_, txn) = self.catalog_and_txn()?;
        txn.lock(&catalog_space(), &table_key(table.id), LockMode::Exclusive, IfLocked::Wait).in_sql()?;
        // The transaction has to see the last writers' changes as well.
        for space in table.indexes.iter().map(|index| index.space()).chain([table.space()]) {
            txn.expect_newest(&space, &record::whole_range()).in_sql()?;
        }
        Ok(())
    }

    /// A new number for an object of the database.
    fn new_id(&mut self) -> Result<u32> {
        self.new_id_in("")
    }

    /// A new number for an object of a schema, or for a space of one.
    fn new_id_in(&mut self, schema: &str) -> Result<u32> {
        self.new_ids_in(schema, 1)
    }

    /// The schema that a new object goes to, and its name, which must be free.
    fn new_name(&self, name: &ast::ObjectName) -> Result<(CompactString, CompactString)> {
        let (schema, name) = in_database(self.engine().name(), name)?;
        let schema = match schema {
            Some(schema) if crate::system::is_system_schema(&schema) => {
                let message = format!("permission denied to create \"{schema}.{name}\"");
                return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                    .detail("System catalog modifications are currently disallowed."));
            }
            Some(schema) => {
                if self.catalog().schema(&schema).is_none() {
                    let message = format!("schema \"{schema}\" does not exist");
                    return Err(Error::new(SqlState::NO_SUCH_SCHEMA, message));
                }
                schema
            }
            None => self
                .creation_path()
                .iter()
                .find(|schema| self.catalog().schema(schema).is_some())
                .cloned()
                .ok_or_else(|| Error::new(SqlState::NO_SUCH_SCHEMA, "no schema has been selected to create in"))?,
        };
        if crate::system::is_system_schema(&schema) {
            return Err(Error::denied("schema", &schema));
        }
        self.expect_may_create_in(&schema)?;
        Ok((schema, name))
    }

    fn expect_free(&self, schema: &str, name: &str) -> Result<()> {
        match self.catalog().relation(schema, name) {
            None => Ok(()),
            Some(_) => Err(Error::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))),
        }
    }

    /// A name like PostgreSQL makes them: `table_column_suffix`, with a number if it is taken.
    fn free_name(&self, schema: &str, parts: &[&str], suffix: &str, taken: &[CompactString]) -> CompactString {
        (0u32..)
            .map(|number| match number {
                0 => suffix.to_owned(),
                number => format!("{suffix}{number}"),
            })
            .map(|suffix| compact_str::format_compact!("{}_{suffix}", short_stem(parts, suffix.len() + 1)))
            .find(|name| self.catalog().relation(schema, name).is_none() && !taken.contains(name))
            .expect("there are more numbers than names")
    }

    /// The notice of CREATE … IF NOT EXISTS for an existing object.
    fn notice_existing(&mut self, kind: &str, name: &str) {
        let state = match kind {
            "schema" => SqlState::DUPLICATE_SCHEMA,
            _ => SqlState::DUPLICATE_TABLE,
        };
        self.notice(Severity::Notice, state, format!("{kind} \"{name}\" already exists, skipping"));
    }

    /// The notice of … IF EXISTS for a missing object.
    pub(crate) fn notice_missing(&mut self, kind: &str, name: &str) {
        self.notice_skipped(&format!("{kind} \"{name}\" does not exist"));
    }

    fn notice_skipped(&mut self, why: &str) {
        self.notice(Severity::Notice, SqlState("00000"), format!("{why}, skipping"));
    }

    /// An expression as SQL that the catalogue keeps.
    fn stored_text(&self, expr: &ast::Expr) -> Result<String> {
        let mut expr = expr.clone();
        self.with_binder("", |binder| {
            binder.qualify_types(&mut expr);
            Ok(())
        })?;
        Ok(expr.to_string())
    }

    /// A type by its name.
    pub(crate) fn type_named(&self, data_type: &ast::DataType) -> Result<ColumnType> {
        let (catalog, search_path) = (self.catalog(), self.search_path());
        crate::bind::TypeNames { database: self.engine().name(), catalog, search_path }.find(data_type)
    }

    /// The same, which the user has to be allowed to use.
    pub(crate) fn usable_type_named(&self, data_type: &ast::DataType) -> Result<ColumnType> {
        let ty = self.type_named(data_type)?;
        let (named, element) = match ty.domain {
            Some(domain) => (domain.oid(), None),
            None => (ty.ty.oid(), ty.ty.element().map(|element| element.oid())),
        };
        let is_it = |known: &&Arc<colibri_catalog::UserType>| {
            known.id == named || known.array == named || Some(known.id) == element
        };
        let Some(found) = self.catalog().types().find(is_it) else { return Ok(ty) };
        let may = self.authority().may(Privileges::USAGE, ObjectKind::Type, found.owner, found.acl.as_ref());
        if may { Ok(ty) } else { Err(Error::denied("type", &found.name)) }
    }

    /// The table that a statement changes.
    fn find_table(&mut self, name: &ast::ObjectName) -> Result<Arc<Table>> {
        let table = self.with_binder("", |binder| binder.table(name))?;
        self.expect_owner(table.owner, "table", &table.name)?;
        self.lock_table(&table)?;
        Ok(table)
    }

    pub(crate) fn find_relation(&self, name: &ast::ObjectName) -> Result<Option<Relation>> {
        let (schema, relation) = in_database(self.engine().name(), name)?;
        let path = self.search_path();
        let found = match &schema {
            Some(schema) => self.catalog().relation(schema, &relation),
            None => path.iter().find_map(|schema| self.catalog().relation(schema, &relation)),
        };
        Ok(found.cloned())
    }
}

/// Joins the name of a table and those of columns, cut so that together with a suffix they do not
/// exceed the longest name: as in PostgreSQL the longer one of the table's name and of all columns
/// together loses its last character, again and again.
fn short_stem(parts: &[&str], suffix_bytes: usize) -> String {
    let longest = colibri_catalog::NAME_BYTES_MAX;
    let (table, columns) = parts.split_first().map_or(("", String::new()), |(&table, rest)| (table, rest.join("_")));
    let room = longest.saturating_sub(suffix_bytes + usize::from(!columns.is_empty()));
    let (mut table_bytes, mut columns_bytes) = (table.len(), columns.len().min(longest));
    while table_bytes + columns_bytes > room {
        if table_bytes > columns_bytes {
            table_bytes -= 1;
        } else {
            columns_bytes -= 1;
        }
    }
    let table = &table[..table.floor_char_boundary(table_bytes)];
    match &columns[..columns.floor_char_boundary(columns_bytes)] {
        "" => table.to_owned(),
        columns => format!("{table}_{columns}"),
    }
}

fn no_such(kind: &str, name: &ast::ObjectName) -> Error {
    let state = match kind {
        "schema" => SqlState::NO_SUCH_SCHEMA,
        "table" | "view" | "materialized view" | "sequence" => SqlState::NO_SUCH_TABLE,
        _ => SqlState::NO_SUCH_OBJECT,
    };
    let _ = name_span(name);
    let shown = crate::bind::name_parts(name)
        .map(|parts| parts.iter().map(|part| crate::bind::fold(part)).collect::<Vec<_>>().join("."))
        .unwrap_or_else(|_| name.to_string());
    Error::new(state, format!("{kind} \"{shown}\" does not exist"))
}

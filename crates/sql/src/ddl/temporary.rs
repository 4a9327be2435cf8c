//! What definitions of temporary objects have of their own: where they go, what may refer to them,
//! and what becomes of them at the end of a transaction.

use std::sync::Arc;

use colibri_catalog::temporary::{PG_TEMP, PG_TEMP_PREFIX, is_temporary};
use colibri_catalog::{
    Change, OnCommit, Relation, Table,
    cluster::{ObjectKind, Privileges},
    record,
    store_error::InSql as _,
};
use colibri_txn::{ColumnSet, Direction, Key, Space, SpaceId};
use colibri_types::{Error, Result, SqlState, pulse};
use compact_str::CompactString;
use sqlparser::ast::{self, ObjectType, Statement};

use super::Session;
use super::drop::Cascade;
use crate::bind::in_database;

/// A table with fewer rows than this loses them one by one when a transaction ends, so that plans
/// of it stay. A larger one gets new, empty spaces.
const ROWS_DELETED_MAX: u64 = 1000;

impl Session {
    /// As [`Session::new_name`], for an object that is temporary if the statement, or the schema,
    /// says so.
    pub(super) fn new_name_of(
        &mut self,
        name: &ast::ObjectName,
        temporary: bool,
    ) -> Result<(CompactString, CompactString)> {
        let (schema, short) = in_database(self.engine().name(), name)?;
        let own = self.own_schema();
        let is_own = |schema: &CompactString| schema == PG_TEMP || Some(schema) == own.as_ref();
        let goes_to_own = match &schema {
            Some(schema) if is_own(schema) => true,
            Some(schema) if schema.starts_with(PG_TEMP_PREFIX) => {
                let message = "cannot create relations in temporary schemas of other sessions";
                return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
            }
            Some(_) if temporary => {
                let message = "cannot create temporary relation in non-temporary schema";
                return Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message));
            }
            Some(_) => false,
            None => temporary || self.search_path_begins_with_temporary(),
        };
        if !goes_to_own {
            return self.new_name(name);
        }
        let database = self.own_database_info();
        if !self.authority().may(Privileges::TEMPORARY, ObjectKind::Database, database.owner, database.acl.as_ref()) {
            let message = format!("permission denied to create temporary tables in database \"{}\"", database.name);
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Ok((self.temporary_schema()?, short))
    }

    /// Whether the first schema in which new objects are made is that of temporary ones.
    fn search_path_begins_with_temporary(&self) -> bool {
        let own = self.own_schema();
        let is_own = |schema: &CompactString| schema == PG_TEMP || Some(schema) == own.as_ref();
        let mut path = self.creation_path().iter();
        path.find(|schema| is_own(schema) || self.catalog().schema(schema).is_some()).is_some_and(is_own)
    }

    /// What a temporary table does at the end of a transaction.
    pub(super) fn on_commit(create: &ast::CreateTable, schema: &str) -> Result<Option<OnCommit>> {
        match &create.on_commit {
            None => Ok(None),
            Some(_) if !schema.starts_with(PG_TEMP_PREFIX) => {
                let message = "ON COMMIT can only be used on temporary tables";
                Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message))
            }
            Some(ast::OnCommit::PreserveRows) => Ok(None),
            Some(ast::OnCommit::DeleteRows) => Ok(Some(OnCommit::DeleteRows)),
            Some(ast::OnCommit::Drop) => Ok(Some(OnCommit::Drop)),
        }
    }

    /// Refuses a reference between a temporary table and one that is not.
    pub(super) fn expect_same_persistence(table: &Table, target: &Table) -> Result<()> {
        let message = match (is_temporary(table.id), is_temporary(target.id)) {
            (true, false) => "constraints on temporary tables may reference only temporary tables",
            (false, true) => "constraints on permanent tables may reference only permanent tables",
            _ => return Ok(()),
        };
        Err(Error::new(SqlState::BAD_TABLE_DEFINITION, message))
    }

    /// Whether a query reads a temporary object: what is made of it is temporary then.
    pub(super) fn reads_temporary(&self, query: &ast::Query) -> Result<bool> {
        if self.own_schema().is_none() {
            return Ok(false);
        }
        self.with_binder("", |binder| {
            binder.stored_query(query)?;
            Ok(binder.used.iter().any(|&used| is_temporary(used)))
        })
    }

    /// Whether a name says that it is of a temporary object.
    pub(super) fn is_named_temporary(&self, name: &ast::ObjectName) -> Result<bool> {
        let (schema, _) = in_database(self.engine().name(), name)?;
        Ok(schema.is_some_and(|schema| schema == PG_TEMP || Some(schema) == self.own_schema()))
    }

    /// Whether a statement changes temporary objects alone: nobody else has to wait for it then.
    pub(super) fn is_of_session(&self, statement: &Statement) -> Result<bool> {
        match statement {
            Statement::CreateTable(create) if create.temporary => return Ok(true),
            Statement::CreateTable(create) => return self.is_named_temporary(&create.name),
            Statement::CreateView(create) if create.temporary => return Ok(true),
            Statement::CreateView(create) if !create.materialized => return self.is_named_temporary(&create.name),
            _ if self.own_schema().is_none() => return Ok(false),
            _ => {}
        }
        let is_own = |name: &ast::ObjectName| -> Result<bool> {
            let found = self.find_relation(name)?;
            let id = found.and_then(|found| self.catalog().number_of(&found));
            Ok(id.is_some_and(is_temporary))
        };
        let all = |names: &mut dyn Iterator<Item = &ast::ObjectName>| -> Result<bool> {
            for name in names {
                if !is_own(name)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        match statement {
            Statement::CreateIndex(create) => all(&mut std::iter::once(&create.table_name)),
            Statement::AlterTable(alter) => all(&mut std::iter::once(&alter.name)),
            Statement::Drop { object_type, names, .. } if *object_type != ObjectType::Schema => all(&mut names.iter()),
            Statement::Truncate(truncate) => all(&mut truncate.table_names.iter().map(|target| &target.name)),
            _ => Ok(false),
        }
    }

    /// Whether the session has temporary objects.
    pub(crate) fn has_temporary_objects(&self) -> bool {
        let Some(schema) = self.own_schema() else { return false };
        // Without a catalogue it is not known yet.
        self.catalog().temporary_schema().is_none()
            || self.catalog().relations(&schema).next().is_some()
            || self.catalog().routines().any(|routine| is_temporary(routine.id))
    }

    /// The temporary tables that do not just stay at the end of a transaction.
    fn tables_to_end(&self) -> Vec<Arc<Table>> {
        let Some(schema) = self.catalog().temporary_schema() else { return Vec::new() };
        let table = |relation: &Relation| match relation {
            Relation::Table(table) if table.on_commit.is_some() => Some(Arc::clone(table)),
            _ => None,
        };
        let mut tables: Vec<_> =
            self.catalog().relations(&schema.name).filter_map(|(_, relation)| table(relation)).collect();
        tables.sort_by_key(|table| table.id);
        tables
    }

    /// ON COMMIT of the temporary tables, at the end of a transaction.
    pub(crate) fn end_temporary_tables(&mut self) -> Result<()> {
        if self.catalog().temporary_schema().is_none() || !self.catalog_and_txn()?.1.has_writes() {
            return Ok(());
        }
        let (dropped, emptied): (Vec<_>, Vec<_>) =
            self.tables_to_end().into_iter().partition(|table| table.on_commit == Some(OnCommit::Drop));
        // References between them first: none may be left from a table that keeps its rows.
        for table in &emptied {
            let kept = self.catalog().referring_to(table.id).find(|source| source.on_commit.is_none());
            if let Some(source) = kept {
                let message = "unsupported ON COMMIT and foreign key combination";
                let detail = format!(
                    "Table \"{}\" references \"{}\", but they do not have the same ON COMMIT setting.",
                    source.name, table.name
                );
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail));
            }
        }
        for table in emptied {
            self.empty(&table)?;
        }
        for table in dropped {
            self.drop_table(table.id, &mut Cascade::new(true), &[])?;
        }
        Ok(())
    }

    fn empty(&mut self, table: &Arc<Table>) -> Result<()> {
        let (_, txn) = self.catalog_and_txn()?;
        match txn.count(&table.space(), &record::whole_range()).in_sql()? {
            0 => Ok(()),
            rows if rows < ROWS_DELETED_MAX => {
                let indexes = table.indexes.iter().map(|index| index.space());
                for space in indexes.chain([table.space()]) {
                    self.delete_all(&space)?;
                }
                Ok(())
            }
            _ => {
                let mut changed = (**table).clone();
                self.replace_spaces(table, &mut changed)?;
                self.change(vec![Change::PutTable(changed)])
            }
        }
    }

    fn delete_all(&mut self, space: &Space) -> Result<()> {
        let (_, txn) = self.catalog_and_txn()?;
        let mut keys: Vec<Key> = Vec::new();
        let visit = &mut |key: &[u8], _: &[u8]| {
            keys.push(Key::from_slice(key));
            std::ops::ControlFlow::Continue(())
        };
        let all = record::whole_range();
        txn.scan(space, &all, Direction::Forward, ColumnSet::NONE, usize::MAX, visit).in_sql()?;
        for key in keys {
            pulse::work(1)?;
            txn.delete(space, &key).in_sql()?;
        }
        Ok(())
    }

    /// Drops all temporary objects.
    pub(crate) fn drop_temporary_objects(&mut self) -> Result<()> {
        let Some(schema) = self.catalog().temporary_schema().map(|schema| schema.name.clone()) else { return Ok(()) };
        let mut changes = Vec::new();
        let mut spaces = Vec::new();
        for (_, relation) in self.catalog().relations(&schema) {
            match relation {
                Relation::Table(table) => {
                    spaces.push(table.space);
                    spaces.extend(table.indexes.iter().map(|index| index.space));
                    changes.push(Change::DropTable(table.id));
                }
                Relation::View(view) => changes.push(Change::DropView(view.id)),
                Relation::Sequence(sequence) => changes.push(Change::DropSequence(sequence.id)),
                Relation::Index(..) | Relation::PrimaryKey(_) => {}
            }
        }
        let types = self.catalog().types().filter(|ty| is_temporary(ty.id));
        changes.extend(types.map(|ty| Change::DropType(ty.id)));
        let routines = self.catalog().routines().filter(|routine| is_temporary(routine.id));
        changes.extend(routines.map(|routine| Change::DropRoutine(routine.id)));
        let (_, txn) = self.catalog_and_txn()?;
        for space in spaces {
            pulse::work(1)?;
            txn.drop_space(SpaceId(space)).in_sql()?;
        }
        self.change(changes)
    }
}

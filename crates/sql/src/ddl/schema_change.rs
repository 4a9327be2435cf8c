//! `ALTER … SET SCHEMA`: a table, view or sequence goes to another schema, together with its
//! indexes and the sequences that its columns own.
//!
//! Views that read what has moved name it by its new schema, defaults the sequences.

use std::sync::Arc;

use colibri_catalog::temporary::PG_TEMP_PREFIX;
use colibri_catalog::{Catalog, Change, Relation, Sequence, Table};
use colibri_syntax::tree::{Object, ObjectKind};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;

use super::Session;
use super::renamed::Renamed;
use super::user_types::object_name;
use crate::system::relations::table_indexes;

impl Session {
    pub(crate) fn set_schema(&mut self, object: &Object, if_exists: bool, to: &CompactString) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let shown = object.name.last().cloned().unwrap_or_default();
        let Some(found) = self.find_relation(&object_name(&object.name))? else {
            if if_exists {
                self.notice_missing("relation", &shown);
                return Ok(());
            }
            return Err(Error::new(SqlState::NO_SUCH_TABLE, format!("relation \"{shown}\" does not exist")));
        };
        let kind = match object.kind {
            ObjectKind::View => Some("view"),
            ObjectKind::MaterializedView => Some("materialized view"),
            ObjectKind::Sequence => Some("sequence"),
            _ => None,
        };
        if let Some(kind) = kind.filter(|kind| *kind != found.kind()) {
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{shown}\" is not a {kind}")));
        }
        self.expect_owner_of(&found)?;
        if let Relation::Sequence(sequence) = &found
            && let Some((table, _)) = sequence.owned_by
        {
            let table = self.current(table)?;
            let message = "cannot move an owned sequence into another schema";
            let detail = format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name, table.name);
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail));
        }
        let is_there = self.catalog().schema(to).is_some() || crate::system::is_system_schema(to) || to == "pg_temp";
        if !is_there {
            return Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{to}\" does not exist")));
        }
        let from = match &found {
            Relation::Table(table) => table.schema.clone(),
            Relation::View(view) => view.schema.clone(),
            Relation::Sequence(sequence) => sequence.schema.clone(),
            Relation::Index(..) | Relation::PrimaryKey(_) => {
                let message = format!("cannot change schema of index \"{shown}\"");
                return Err(
                    Error::new(SqlState::WRONG_OBJECT_TYPE, message).hint("Change the schema of the table instead.")
                );
            }
        };
        if to.starts_with(PG_TEMP_PREFIX) || to == "pg_temp" || from.starts_with(PG_TEMP_PREFIX) {
            let message = "cannot move objects into or out of temporary schemas";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if crate::system::is_system_schema(to) {
            return Err(Error::denied("schema", to));
        }
        self.expect_may_create_in(to)?;
        if from == *to {
            return Ok(());
        }
        self.expect_free_in(to, &shown)?;
        match found {
            Relation::Table(table) => self.move_table(&table, to),
            Relation::View(view) => {
                let renamed = Renamed::Schema(to);
                let views = self.views_with_renamed(view.id, (&view.schema, &view.name), &renamed)?;
                let rules = self.rules_with_renamed(view.id, (&view.schema, &view.name), &renamed, None)?;
                let mut changed = (*view).clone();
                changed.schema.clone_from(to);
                let mut changes = vec![Change::PutView(changed)];
                changes.extend(rules.iter().cloned().map(Change::PutRule));
                self.change_with_views(views, changes, "moving a view")?;
                self.expect_rules_bound(&rules, "moving a view")
            }
            Relation::Sequence(sequence) => self.rename_sequence(&sequence, (to, &sequence.name)),
            Relation::Index(..) | Relation::PrimaryKey(_) => Ok(()),
        }
    }

    /// 42P07 if a schema has a relation of that name, 42710 if it has a type of it.
    fn expect_free_in(&self, schema: &str, name: &str) -> Result<()> {
        if self.catalog().relation(schema, name).is_some() {
            let message = format!("relation \"{name}\" already exists in schema \"{schema}\"");
            return Err(Error::new(SqlState::DUPLICATE_TABLE, message));
        }
        if self.catalog().type_named(schema, name).is_some() {
            let message = format!("type \"{name}\" already exists in schema \"{schema}\"");
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        Ok(())
    }

    fn move_table(&mut self, table: &Arc<Table>, to: &CompactString) -> Result<()> {
        self.lock_table(table)?;
        self.expect_not_in_use(table, "ALTER TABLE")?;
        for index in table_indexes(table) {
            self.expect_free_in(to, &index.name)?;
        }
        let is_own = |sequence: &&Arc<Sequence>| sequence.owned_by.is_some_and(|(of, _)| of == table.id);
        let sequences: Vec<Arc<Sequence>> = self.catalog().sequences().filter(is_own).cloned().collect();
        for sequence in &sequences {
            self.expect_free_in(to, &sequence.name)?;
        }
        for sequence in sequences {
            self.rename_sequence(&sequence, (to, &sequence.name))?;
        }
        let renamed = Renamed::Schema(to);
        let views = self.views_with_renamed(table.id, (&table.schema, &table.name), &renamed)?;
        let rules = self.rules_with_renamed(table.id, (&table.schema, &table.name), &renamed, None)?;
        let mut changed = (*self.current(table.id)?).clone();
        changed.schema.clone_from(to);
        let mut changes = self.view_of(&changed);
        changes.push(Change::PutTable(changed));
        changes.extend(rules.iter().cloned().map(Change::PutRule));
        self.change_with_views(views, changes, "moving a table")?;
        self.expect_rules_bound(&rules, "moving a table")
    }
}

//! Inheritance of tables: `INHERITS`, `ALTER TABLE … INHERIT` and `NO INHERIT`, and what ALTER TABLE
//! does to the tables that inherit.
//!
//! A table has the columns and the CHECKs of the tables that it inherits from, and rows of its own.
//! Keys, indexes, foreign keys and identities are not inherited. How many tables a column or a CHECK
//! comes from is not stored: it is counted from the tables that are there.
//!
//! Invariants: a table is in the list of `children` of each table in its list `inherits`; each column
//! of a table is a column of the same name and type in all that inherit from it; tables of a session
//! inherit from such tables only.

use std::sync::Arc;

use colibri_catalog::temporary::{PG_TEMP_PREFIX, is_temporary};
use colibri_catalog::{Change, Check, Column, Table};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;
use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation, ColumnOption};

use super::create::Draft;
use super::drop::Cascade;
use super::partitions::name_of;
use super::{Session, compression};
use crate::bind::{self, fold};
use crate::session::Severity;

/// A default that two tables give a column in different ways. It cannot be read by anybody: the new
/// table has to say which one is meant.
const CONFLICT: &str = "\u{1}conflict";

fn wrong_table(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_TABLE_DEFINITION, message.into())
}

fn wrong_kind(message: impl Into<String>) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, message.into())
}

pub(super) fn mismatch(message: impl Into<String>) -> Error {
    Error::new(SqlState::TYPE_MISMATCH, message.into())
}

fn wrong_default(message: impl Into<String>) -> Error {
    Error::new(SqlState("42611"), message.into())
}

fn type_conflict(what: &str, name: &str, one: &Column, other: &Column) -> Error {
    let message = format!("{what} \"{name}\" has a type conflict");
    mismatch(message).detail(format!("{} versus {}", one.ty, other.ty))
}

fn collation_conflict(what: &str, name: &str, one: &Column, other: &Column) -> Error {
    let shown = |column: &Column| column.collation.as_deref().unwrap_or("default").to_owned();
    Error::new(SqlState("42P21"), format!("{what} \"{name}\" has a collation conflict")).detail(format!(
        "\"{}\" versus \"{}\"",
        shown(one),
        shown(other)
    ))
}

/// 42804 if the columns and CHECKs of a table are not those that its heir, or its partition, has.
pub(super) fn expect_compatible(parent: &Table, table: &Table) -> Result<()> {
    for (_, column) in parent.live_columns() {
        let Some(place) = table.column(&column.name) else {
            return Err(mismatch(format!("child table is missing column \"{}\"", column.name)));
        };
        let own = &table.columns[place];
        if own.ty != column.ty {
            return Err(different_type(table, &column.name));
        }
        if own.collation != column.collation {
            let message =
                format!("child table \"{}\" has different collation for column \"{}\"", table.name, column.name);
            return Err(Error::new(SqlState("42P21"), message));
        }
        if column.not_null && !own.not_null {
            return Err(mismatch(format!("column \"{}\" in child table must be marked NOT NULL", column.name)));
        }
        match (&column.generated, &own.generated) {
            (Some(_), None) => {
                let message = format!("column \"{}\" in child table must be a generated column", column.name);
                return Err(mismatch(message));
            }
            (None, Some(_)) => {
                let message = format!("column \"{}\" in child table must not be a generated column", column.name);
                return Err(mismatch(message));
            }
            _ => {}
        }
    }
    Ok(())
}

fn different_type(table: &Table, column: &str) -> Error {
    mismatch(format!("child table \"{}\" has different type for column \"{column}\"", table.name))
}

/// Marks the CHECKs of a table that its heir, or its partition, has to have.
pub(super) fn take_checks(parent: &Table, child: &mut Table) -> Result<()> {
    for check in parent.checks.iter().filter(|check| !check.no_inherit) {
        let child_name = child.name.clone();
        match child.checks.iter_mut().find(|own| own.name == check.name) {
            None => return Err(mismatch(format!("child table is missing constraint \"{}\"", check.name))),
            Some(own) if own.condition != check.condition => {
                let message = format!(
                    "child table \"{child_name}\" has different definition for check constraint \"{}\"",
                    check.name
                );
                return Err(mismatch(message));
            }
            Some(own) if own.no_inherit => {
                let message = format!(
                    "constraint \"{}\" conflicts with non-inherited constraint on child table \"{child_name}\"",
                    check.name
                );
                return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
            }
            Some(own) if own.inherited => {}
            Some(own) => (own.inherited, own.declared) = (true, true),
        }
    }
    Ok(())
}

/// Whether a table has a CHECK that its heirs have.
fn gives_check(table: &Table, name: &str) -> bool {
    table.checks.iter().any(|check| check.name == name && !check.no_inherit)
}

impl Session {
    /// The tables behind INHERITS, whose columns and CHECKs the new table gets.
    pub(super) fn columns_of_parents(
        &mut self,
        draft: &mut Draft,
        create: &ast::CreateTable,
    ) -> Result<Vec<Arc<Table>>> {
        let Some(names) = &create.inherits else { return Ok(Vec::new()) };
        if create.partition_by.is_some() {
            let message = "cannot create partitioned table as inheritance child";
            return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
        }
        let mut parents: Vec<Arc<Table>> = Vec::with_capacity(names.len());
        for name in names {
            let parent = self.parent_table(name)?;
            if is_temporary(parent.id) && !draft.table.schema.starts_with(PG_TEMP_PREFIX) {
                let message = format!("cannot inherit from temporary relation \"{}\"", parent.name);
                return Err(wrong_kind(message));
            }
            if draft.table.schema.starts_with(PG_TEMP_PREFIX) && !is_temporary(parent.id) {
                return Err(Error::unsupported("a temporary table that inherits from one that is not"));
            }
            if parents.iter().any(|known| known.id == parent.id) {
                let message = format!("relation \"{}\" would be inherited from more than once", parent.name);
                return Err(Error::new(SqlState::DUPLICATE_TABLE, message));
            }
            self.expect_not_in_use(&parent, "CREATE TABLE")?;
            parents.push(parent);
        }
        let mut said: Vec<usize> = Vec::new();
        for parent in &parents {
            for (_, column) in parent.live_columns() {
                self.inherit_column(draft, column, &mut said)?;
            }
            for check in parent.checks.iter().filter(|check| !check.no_inherit) {
                match draft.table.checks.iter().find(|own| own.name == check.name) {
                    Some(own) if own.condition == check.condition => {}
                    Some(_) => {
                        let message = format!(
                            "check constraint name \"{}\" appears multiple times but with different expressions",
                            check.name
                        );
                        return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
                    }
                    None => {
                        let id = self.new_id_in(&draft.table.schema)?;
                        let own = Check { id, not_valid: false, inherited: true, declared: false, ..check.clone() };
                        draft.table.checks.push(own);
                    }
                }
            }
        }
        draft.table.inherits = parents.iter().map(|parent| parent.id).collect();
        Ok(parents)
    }

    /// A table that others can inherit from.
    fn parent_table(&mut self, name: &ast::ObjectName) -> Result<Arc<Table>> {
        if let Some(found) = self.find_relation(name)?
            && !matches!(&found, colibri_catalog::Relation::Table(table) if table.materialized.is_none())
        {
            let (_, name) = bind::qualified(name)?;
            return Err(wrong_kind(format!("inherited relation \"{name}\" is not a table or foreign table")));
        }
        let parent = self.find_table(name)?;
        if parent.partitioned.is_some() {
            return Err(wrong_kind(format!("cannot inherit from partitioned table \"{}\"", parent.name)));
        }
        if parent.partition_of.is_some() {
            return Err(wrong_kind(format!("cannot inherit from partition \"{}\"", parent.name)));
        }
        Ok(parent)
    }

    /// Gives a new table a column of a table that it inherits from. `said`: the columns whose defaults
    /// come from such a table.
    fn inherit_column(&mut self, draft: &mut Draft, column: &Column, said: &mut Vec<usize>) -> Result<()> {
        let name = &column.name;
        // The sequence of an identity belongs to the other table.
        let default = if column.identity.is_some() { None } else { column.default.clone() };
        let Some(place) = draft.table.column(name) else {
            if default.is_some() || column.generated.is_some() {
                said.push(draft.table.columns.len());
            }
            let own = Column { missing: None, identity: None, default, inherited_only: true, ..column.clone() };
            draft.table.columns.push(own);
            return Ok(());
        };
        let message = format!("merging multiple inherited definitions of column \"{name}\"");
        self.notice(Severity::Notice, SqlState("00000"), message);
        let own = &mut draft.table.columns[place];
        if own.ty != column.ty {
            return Err(type_conflict("inherited column", name, own, column));
        }
        if own.collation != column.collation {
            return Err(collation_conflict("inherited column", name, own, column));
        }
        own.storage = compression::merged(own, column, true)?;
        own.not_null |= column.not_null;
        if own.generated.is_some() != column.generated.is_some() {
            return Err(mismatch(format!("inherited column \"{name}\" has a generation conflict")));
        }
        if default.is_some() || column.generated.is_some() {
            if said.contains(&place) && (own.default != default || own.generated != column.generated) {
                own.default = Some(CONFLICT.to_owned());
            } else {
                own.default = default;
                own.generated.clone_from(&column.generated);
            }
            said.push(place);
        }
        Ok(())
    }

    /// Adds a column that a new table declares, which may be one that it inherits.
    /// Adds a column that another table has, or merges it with one that is inherited.
    pub(super) fn merge_like(&mut self, draft: &mut Draft, own: Column, at: usize) -> Result<()> {
        let Some(place) = draft.table.column(&own.name) else {
            draft.table.columns.push(own);
            return Ok(());
        };
        let known = &draft.table.columns[place];
        if !known.inherited_only {
            return Err(super::create::duplicate_column(&own.name));
        }
        if own.ty != known.ty {
            return Err(type_conflict("column", &own.name, known, &own));
        }
        if own.collation != known.collation {
            return Err(collation_conflict("column", &own.name, known, &own));
        }
        let storage = compression::merged(known, &own, false)?;
        let how = if at == place { "merging" } else { "moving and merging" };
        let message = format!("{how} column \"{}\" with inherited definition", own.name);
        let mut notice = Error::new(SqlState("00000"), message);
        if at != place {
            notice = notice.detail("User-specified column moved to the position of the inherited column.");
        }
        self.notice_report(Severity::Notice, notice);
        let merged = &mut draft.table.columns[place];
        merged.inherited_only = false;
        merged.storage = storage;
        merged.not_null |= own.not_null;
        if own.default.is_some() {
            merged.default = own.default;
        }
        Ok(())
    }

    pub(super) fn merge_column(&mut self, draft: &mut Draft, definition: &ast::ColumnDef, at: usize) -> Result<()> {
        let name = fold(&definition.name);
        let inherited = draft.table.column(&name).filter(|&place| draft.table.columns[place].inherited_only);
        let Some(place) = inherited else { return self.add_column_to(draft, definition) };
        if at == place {
            let message = format!("merging column \"{name}\" with inherited definition");
            self.notice(Severity::Notice, SqlState("00000"), message);
        } else {
            let message = format!("moving and merging column \"{name}\" with inherited definition");
            let detail = "User-specified column moved to the position of the inherited column.";
            self.notice_report(Severity::Notice, Error::new(SqlState("00000"), message).detail(detail));
        }
        let known = draft.table.columns[place].clone();
        draft.table.columns[place].name = CompactString::default();
        let end = draft.table.columns.len();
        self.add_column_to(draft, definition)?;
        let Some(own) = draft.table.columns.pop() else { return Err(Error::internal("a column was not added")) };
        let table = draft.table.id;
        for (sequence, _) in &mut draft.sequences {
            if sequence.owned_by == Some((table, end)) {
                sequence.owned_by = Some((table, place));
            }
        }
        draft.put_off.iter_mut().filter(|(at, _)| *at == end).for_each(|(at, _)| *at = place);
        if own.ty != known.ty {
            return Err(type_conflict("column", &name, &known, &own));
        }
        if own.collation != known.collation {
            return Err(collation_conflict("column", &name, &known, &own));
        }
        let is_generated = known.generated.is_some();
        if is_generated && own.default.is_some() {
            let message = format!("column \"{name}\" inherits from generated column but specifies default");
            return Err(wrong_default(message));
        }
        if is_generated && own.identity.is_some() {
            let message = format!("column \"{name}\" inherits from generated column but specifies identity");
            return Err(wrong_default(message));
        }
        if own.generated.is_some() {
            let hint = "Omit the generation expression in the definition of the child table column to inherit the \
                        generation expression from the parent table.";
            return Err(wrong_default(format!("child column \"{name}\" specifies generation expression")).hint(hint));
        }
        let says_default = definition.options.iter().any(|option| matches!(option.option, ColumnOption::Default(_)))
            || own.default.is_some();
        let storage = compression::merged(&known, &own, false)?;
        let merged = Column {
            not_null: known.not_null || own.not_null,
            default: if says_default { own.default } else { known.default },
            identity: own.identity,
            inherited_only: false,
            storage,
            name,
            ..known
        };
        draft.table.columns[place] = merged;
        Ok(())
    }

    /// 42611 if two tables give a column different defaults, and the new table gives none.
    pub(super) fn expect_no_conflict(&self, table: &Table) -> Result<()> {
        let Some((_, column)) = table.live_columns().find(|(_, column)| column.default.as_deref() == Some(CONFLICT))
        else {
            return Ok(());
        };
        match &column.generated {
            Some(_) => {
                let message = format!("column \"{}\" inherits conflicting generation expressions", column.name);
                Err(wrong_default(message).hint("To resolve the conflict, omit the generation expression."))
            }
            None => {
                let message = format!("column \"{}\" inherits conflicting default values", column.name);
                Err(wrong_default(message).hint("To resolve the conflict, specify a default explicitly."))
            }
        }
    }

    /// Merges a CHECK that a table declares with one that it inherits; says whether there is one.
    pub(super) fn merge_check(
        &mut self,
        table: &mut Table,
        name: &str,
        condition: &str,
        no_inherit: bool,
    ) -> Result<bool> {
        let of = table.name.clone();
        let Some(own) = table.checks.iter_mut().find(|own| own.name == name && own.inherited && !own.declared) else {
            return Ok(false);
        };
        if own.condition != condition {
            let message = format!("constraint \"{name}\" for relation \"{of}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        if no_inherit {
            let message = format!("constraint \"{name}\" conflicts with inherited constraint on relation \"{of}\"");
            return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
        }
        own.declared = true;
        let message = format!("merging constraint \"{name}\" with inherited definition");
        self.notice(Severity::Notice, SqlState("00000"), message);
        Ok(true)
    }

    /// Enters a table into the lists of the tables that it inherits from.
    pub(super) fn add_to_parents(&mut self, parents: &[Arc<Table>], child: u32) -> Result<()> {
        for parent in parents {
            let mut changed = (*self.current(parent.id)?).clone();
            changed.children.push(child);
            self.change(vec![Change::PutTable(changed)])?;
        }
        Ok(())
    }

    /// Takes a table that is dropped out of the lists of those that it inherits from.
    pub(super) fn leave_parents(&mut self, table: &Table) -> Result<()> {
        for &id in &table.inherits {
            let Some(parent) = self.catalog().table(id).cloned() else { continue };
            self.lock_table(&parent)?;
            let mut changed = (*parent).clone();
            changed.children.retain(|&child| child != table.id);
            self.change(vec![Change::PutTable(changed)])?;
        }
        Ok(())
    }

    /// `ALTER TABLE … INHERIT parent`
    pub(super) fn inherit(&mut self, table: &Arc<Table>, parent: &[CompactString]) -> Result<()> {
        self.expect_inheritance_may_change(table)?;
        let name = name_of(parent);
        if let Some(found) = self.find_relation(&name)?
            && !matches!(&found, colibri_catalog::Relation::Table(parent) if parent.materialized.is_none())
        {
            let (_, name) = bind::qualified(&name)?;
            return Err(wrong_kind(format!("\"{name}\" is not a table or foreign table")));
        }
        let parent = self.parent_table(&name)?;
        if is_temporary(parent.id) != is_temporary(table.id) {
            if is_temporary(table.id) {
                return Err(Error::unsupported("a temporary table that inherits from one that is not"));
            }
            return Err(wrong_kind(format!("cannot inherit from temporary relation \"{}\"", parent.name)));
        }
        if self.catalog().partition_tree(table.id).contains(&parent.id) {
            let detail = format!("\"{}\" is already a child of \"{}\".", parent.name, table.name);
            return Err(Error::new(SqlState::DUPLICATE_TABLE, "circular inheritance not allowed").detail(detail));
        }
        if table.inherits.contains(&parent.id) {
            let message = format!("relation \"{}\" would be inherited from more than once", parent.name);
            return Err(Error::new(SqlState::DUPLICATE_TABLE, message));
        }
        self.expect_not_in_use(&parent, "ALTER TABLE")?;
        expect_compatible(&parent, table)?;
        let mut changed = (**table).clone();
        take_checks(&parent, &mut changed)?;
        changed.inherits.push(parent.id);
        self.change(vec![Change::PutTable(changed)])?;
        self.add_to_parents(&[parent], table.id)
    }

    fn expect_inheritance_may_change(&mut self, table: &Arc<Table>) -> Result<()> {
        if table.materialized.is_some() {
            return Err(wrong_kind(format!("\"{}\" is not a table or foreign table", table.name)));
        }
        if table.partition_of.is_some() {
            return Err(wrong_kind("cannot change inheritance of a partition"));
        }
        if table.partitioned.is_some() {
            return Err(wrong_kind("cannot change inheritance of partitioned table"));
        }
        self.expect_not_in_use(table, "ALTER TABLE")
    }

    /// `ALTER TABLE … NO INHERIT parent`
    pub(super) fn disinherit(&mut self, table: &Arc<Table>, parent: &[CompactString]) -> Result<()> {
        if table.partition_of.is_some() {
            return Err(wrong_kind("cannot change inheritance of a partition"));
        }
        let name = name_of(parent);
        let parent = self.with_binder("", |binder| binder.table(&name))?;
        if !table.inherits.contains(&parent.id) {
            let message = format!("relation \"{}\" is not a parent of relation \"{}\"", parent.name, table.name);
            return Err(Error::new(SqlState::NO_SUCH_TABLE, message));
        }
        self.lock_table(&parent)?;
        self.expect_not_in_use(table, "ALTER TABLE")?;
        let mut changed = (*parent).clone();
        changed.children.retain(|&child| child != table.id);
        self.change(vec![Change::PutTable(changed)])?;
        self.forget_parent(table.id, &parent)
    }

    /// Takes what a table no longer inherits from another one as its own.
    pub(super) fn forget_parent(&mut self, table: u32, parent: &Table) -> Result<()> {
        let mut changed = (*self.current(table)?).clone();
        changed.inherits.retain(|&id| id != parent.id);
        let others = self.tables_of(&changed.inherits)?;
        for column in &mut changed.columns {
            let still = others.iter().any(|other| other.column(&column.name).is_some());
            column.inherited_only &= still;
        }
        for check in &mut changed.checks {
            if check.inherited && !others.iter().any(|other| gives_check(other, &check.name)) {
                (check.inherited, check.declared) = (false, false);
            }
        }
        self.change(vec![Change::PutTable(changed)])
    }

    fn tables_of(&self, numbers: &[u32]) -> Result<Vec<Arc<Table>>> {
        numbers.iter().map(|&id| self.current(id)).collect()
    }

    /// Refuses what cannot be done to a table that inherits, or to the parent of others alone.
    pub(super) fn expect_alterable_heir(
        &mut self,
        table: &Arc<Table>,
        operation: &AlterTableOperation,
        only: bool,
    ) -> Result<()> {
        let parents = self.tables_of(&table.inherits)?;
        let is_inherited =
            |name: &str| table.column(name).is_some() && parents.iter().any(|parent| parent.column(name).is_some());
        let has_inherited_check =
            |name: &CompactString| table.checks.iter().any(|check| check.name == *name && check.inherited);
        let is_alone = only && !table.children.is_empty();
        match operation {
            AlterTableOperation::DropColumn { column_names, .. } => {
                if let Some(name) = column_names.iter().map(fold).find(|name| is_inherited(name)) {
                    return Err(wrong_table(format!("cannot drop inherited column \"{name}\"")));
                }
            }
            AlterTableOperation::RenameColumn { old_column_name, .. } => {
                let name = fold(old_column_name);
                if is_alone && table.column(&name).is_some() {
                    let message = format!("inherited column \"{name}\" must be renamed in child tables too");
                    return Err(wrong_table(message));
                }
                if is_inherited(&name) {
                    return Err(wrong_table(format!("cannot rename inherited column \"{name}\"")));
                }
            }
            AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::SetDataType { .. } } => {
                let name = fold(column_name);
                if is_inherited(&name) {
                    return Err(wrong_table(format!("cannot alter inherited column \"{name}\"")));
                }
                if is_alone {
                    let message = format!("type of inherited column \"{name}\" must be changed in child tables too");
                    return Err(wrong_table(message));
                }
            }
            AlterTableOperation::AddColumn { .. } if is_alone => {
                return Err(wrong_table("column must be added to child tables too"));
            }
            AlterTableOperation::AddConstraint { constraint: ast::TableConstraint::Check(check), .. }
                if is_alone && !check.no_inherit =>
            {
                return Err(wrong_table("constraint must be added to child tables too"));
            }
            AlterTableOperation::DropConstraint { name, .. } if has_inherited_check(&fold(name)) => {
                let message =
                    format!("cannot drop inherited constraint \"{}\" of relation \"{}\"", fold(name), table.name);
                return Err(wrong_table(message));
            }
            AlterTableOperation::RenameConstraint { old_name, .. } => {
                let name = fold(old_name);
                if is_alone && gives_check(table, &name) {
                    let message = format!("inherited constraint \"{name}\" must be renamed in child tables too");
                    return Err(wrong_table(message));
                }
                if has_inherited_check(&name) {
                    return Err(wrong_table(format!("cannot rename inherited constraint \"{name}\"")));
                }
            }
            AlterTableOperation::ValidateConstraint { name } if is_alone && gives_check(table, &fold(name)) => {
                return Err(wrong_table("constraint must be validated on child tables too"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether all that a table inherits a column from has it under another name by now.
    fn is_being_renamed(&self, table: &Table, name: &str) -> Result<bool> {
        let parents = self.tables_of(&table.inherits)?;
        if parents.is_empty() {
            return Ok(false);
        }
        for parent in &parents {
            if parent.column(name).is_some() && !self.is_being_renamed(parent, name)? {
                return Ok(false);
            }
        }
        Ok(table.column(name).is_some_and(|place| table.columns[place].inherited_only))
    }

    /// Does to the tables that inherit from a table what was done to it. `before` is the table as it
    /// was.
    pub(super) fn alter_heirs(
        &mut self,
        before: &Arc<Table>,
        operation: &AlterTableOperation,
        only: bool,
    ) -> Result<()> {
        for &id in &before.children {
            let child = self.current(id)?;
            let is_meant = match operation {
                AlterTableOperation::DropColumn { .. } | AlterTableOperation::DropConstraint { .. } => true,
                AlterTableOperation::AddConstraint { constraint: ast::TableConstraint::Check(check), .. } => {
                    !only && !check.no_inherit
                }
                operation if compression::is_set_storage(operation) => !only,
                AlterTableOperation::AlterColumn { op: AlterColumnOperation::AddGenerated { .. }, .. } => false,
                AlterTableOperation::AddColumn { .. }
                | AlterTableOperation::RenameColumn { .. }
                | AlterTableOperation::AlterColumn { .. }
                | AlterTableOperation::RenameConstraint { .. }
                | AlterTableOperation::ValidateConstraint { .. } => !only,
                _ => false,
            };
            if !is_meant {
                continue;
            }
            self.lock_table(&child)?;
            self.expect_not_in_use(&child, "ALTER TABLE")?;
            self.alter_heir(before, &child, operation, only)?;
        }
        Ok(())
    }

    fn alter_heir(
        &mut self,
        before: &Arc<Table>,
        child: &Arc<Table>,
        operation: &AlterTableOperation,
        only: bool,
    ) -> Result<()> {
        // Other tables that the child inherits from.
        let mut others = child.inherits.clone();
        others.retain(|&id| id != before.id);
        let others = self.tables_of(&others)?;
        let gives_column = |name: &str| others.iter().any(|other| other.column(name).is_some());
        match operation {
            AlterTableOperation::AddColumn { column_def, .. } => {
                let name = fold(&column_def.name);
                if before.column(&name).is_some() {
                    return Ok(());
                }
                self.add_inherited_column(before, child, operation, &name)
            }
            AlterTableOperation::DropColumn { column_names, drop_behavior, .. } => {
                for ident in column_names {
                    let name = fold(ident);
                    let (Some(place), Some(_)) = (child.column(&name), before.column(&name)) else { continue };
                    if gives_column(&name) || !child.columns[place].inherited_only {
                        continue;
                    }
                    if only {
                        let mut changed = (*self.current(child.id)?).clone();
                        changed.columns[place].inherited_only = false;
                        self.change(vec![Change::PutTable(changed)])?;
                        continue;
                    }
                    let mut cascade = Cascade::new(*drop_behavior == Some(ast::DropBehavior::Cascade));
                    self.drop_column(&child.id, &name, true, &mut cascade)?;
                    self.tell_cascade(cascade);
                    self.alter_heirs(child, operation, false)?;
                }
                Ok(())
            }
            AlterTableOperation::RenameColumn { old_column_name, .. } => {
                let name = fold(old_column_name);
                // It has got the new name by another way from the same parent.
                if child.column(&name).is_none() {
                    return Ok(());
                }
                // A parent that inherits the column from where it has been renamed is going to be
                // renamed as well.
                for other in &others {
                    if other.column(&name).is_some() && !self.is_being_renamed(other, &name)? {
                        return Err(wrong_table(format!("cannot rename inherited column \"{name}\"")));
                    }
                }
                self.alter_one(child, operation)?;
                self.alter_heirs(child, operation, false)
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let name = fold(column_name);
                if matches!(op, AlterColumnOperation::SetDataType { .. }) && gives_column(&name) {
                    let message = format!("cannot alter inherited column \"{name}\" of relation \"{}\"", child.name);
                    return Err(wrong_table(message));
                }
                self.alter_one(child, operation)?;
                self.alter_heirs(child, operation, false)
            }
            AlterTableOperation::AddConstraint { .. } => {
                let parent = self.current(before.id)?;
                for check in parent.checks.iter().skip(before.checks.len()) {
                    self.add_inherited_check(check, child.id)?;
                }
                Ok(())
            }
            AlterTableOperation::DropConstraint { name, .. } => {
                let name = fold(name);
                let goes = gives_check(before, &name) && !others.iter().any(|other| gives_check(other, &name));
                let Some(own) = child.checks.iter().find(|own| own.name == name && own.inherited && goes) else {
                    return Ok(());
                };
                if own.declared || only {
                    let mut changed = (*self.current(child.id)?).clone();
                    let own = changed.checks.iter_mut().filter(|own| own.name == name);
                    own.for_each(|own| (own.inherited, own.declared) = (false, false));
                    return self.change(vec![Change::PutTable(changed)]);
                }
                self.drop_constraint(child, &name, &mut Cascade::new(false))?;
                self.alter_heirs(child, operation, false)
            }
            AlterTableOperation::RenameConstraint { old_name, .. } => {
                let name = fold(old_name);
                if !gives_check(before, &name) {
                    return Ok(());
                }
                if others.iter().any(|other| gives_check(other, &name)) {
                    return Err(wrong_table(format!("cannot rename inherited constraint \"{name}\"")));
                }
                self.alter_one(child, operation)?;
                self.alter_heirs(child, operation, false)
            }
            AlterTableOperation::ValidateConstraint { name } if gives_check(before, &fold(name)) => {
                self.alter_one(child, operation)?;
                self.alter_heirs(child, operation, false)
            }
            _ => Ok(()),
        }
    }

    /// A column that was added to a table comes to a table that inherits from it.
    fn add_inherited_column(
        &mut self,
        before: &Arc<Table>,
        child: &Arc<Table>,
        operation: &AlterTableOperation,
        name: &str,
    ) -> Result<()> {
        let parent = self.current(before.id)?;
        let Some(place) = parent.column(name) else { return Ok(()) };
        let column = &parent.columns[place];
        if let Some(own) = child.column(name) {
            let own = &child.columns[own];
            if own.ty != column.ty {
                return Err(different_type(child, name));
            }
            if own.collation != column.collation {
                let message = format!("child table \"{}\" has different collation for column \"{name}\"", child.name);
                return Err(Error::new(SqlState("42P21"), message));
            }
            let message = format!("merging definition of column \"{name}\" for child \"{}\"", child.name);
            self.notice(Severity::Notice, SqlState("00000"), message);
        } else {
            let AlterTableOperation::AddColumn { column_keyword, if_not_exists, column_def, column_position } =
                operation
            else {
                return Ok(());
            };
            // Keys are not inherited, identities neither. CHECKs come as parts of those of the table.
            let mut plain = column_def.clone();
            let mut was_identity = false;
            plain.options.retain(|option| {
                was_identity |= is_identity(&option.option);
                is_of_column_alone(&option.option)
            });
            let plain = AlterTableOperation::AddColumn {
                column_keyword: *column_keyword,
                if_not_exists: *if_not_exists,
                column_def: plain,
                column_position: column_position.clone(),
            };
            self.alter_one(child, &plain)?;
            let mut changed = (*self.current(child.id)?).clone();
            if let Some(own) = changed.column(name) {
                let own = &mut changed.columns[own];
                own.inherited_only = true;
                own.default.clone_from(&column.default);
                if column.identity.is_some() {
                    own.default = None;
                }
            }
            self.change(vec![Change::PutTable(changed)])?;
            self.alter_heirs(child, operation, false)?;
        }
        for check in parent.checks.iter().skip(before.checks.len()).filter(|check| !check.no_inherit) {
            self.add_inherited_check(check, child.id)?;
        }
        Ok(())
    }

    /// A CHECK that was added to a table comes to a table that inherits from it, and to its heirs.
    fn add_inherited_check(&mut self, check: &Check, child: u32) -> Result<()> {
        self.take_check(check, child)?;
        for heir in self.current(child)?.children.clone() {
            self.add_inherited_check(check, heir)?;
        }
        Ok(())
    }
}

/// Whether an option of a column makes it an identity column.
fn is_identity(option: &ColumnOption) -> bool {
    matches!(option, ColumnOption::Generated { generation_expr: None, .. })
}

/// Whether an option says something of the column alone. Identities stay with the table that has
/// them, and keys and conditions are made in its partitions and heirs from those of the table.
pub(super) fn is_of_column_alone(option: &ColumnOption) -> bool {
    !is_identity(option)
        && !matches!(
            option,
            ColumnOption::PrimaryKey(_)
                | ColumnOption::Unique(_)
                | ColumnOption::ForeignKey(_)
                | ColumnOption::Check(_)
        )
}

//! ALTER TABLE of partitioned tables and of partitions: what is refused of either, and what is done to
//! partitions after it was done to their table.

use std::sync::Arc;

use colibri_catalog::{Change, Check, Table};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;
use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation};

use super::Session;
use super::compression::is_set_storage;
use super::drop::Cascade;
use super::inheritance::is_of_column_alone;
use crate::bind::{self, fold, rewrite};

fn wrong_table(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_TABLE_DEFINITION, message.into())
}

/// Whether a part of a table is one of something that the table above it has.
fn is_inherited(table: &Table, name: &str) -> bool {
    table.primary_key.as_ref().is_some_and(|key| key.name == name && key.parent.is_some())
        || table.indexes.iter().any(|index| index.name == name && index.parent.is_some())
        || table.checks.iter().any(|check| check.name == name && check.inherited)
        || table.foreign_keys.iter().any(|key| key.name == name && key.parent.is_some())
}

/// The names of the parts of a partition that belong to a constraint of its table.
fn parts_of(table: &Table, name: &str, partition: &Table) -> Vec<CompactString> {
    let mut names = Vec::new();
    if let Some(key) = table.primary_key.as_ref().filter(|key| key.name == name) {
        names.extend(partition.primary_key.iter().filter(|own| own.parent == Some(key.id)).map(|own| own.name.clone()));
    }
    for index in table.indexes.iter().filter(|index| index.name == name) {
        names.extend(partition.indexes.iter().filter(|own| own.parent == Some(index.id)).map(|own| own.name.clone()));
    }
    for key in table.foreign_keys.iter().filter(|key| key.name == name) {
        let own = partition.foreign_keys.iter().filter(|own| own.parent == Some(key.id));
        names.extend(own.map(|own| own.name.clone()));
    }
    if table.checks.iter().any(|check| check.name == name) {
        let own = partition.checks.iter().filter(|own| own.inherited && own.name == name);
        names.extend(own.map(|own| own.name.clone()));
    }
    names
}

impl Session {
    /// Refuses what cannot be done to a partition alone, or to a partitioned table.
    pub(super) fn expect_alterable_partition(
        &mut self,
        table: &Arc<Table>,
        operation: &AlterTableOperation,
        only: bool,
    ) -> Result<()> {
        if let Some(of) = &table.partition_of {
            let parent = self.current(of.parent)?;
            match operation {
                AlterTableOperation::AddColumn { .. } => {
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, "cannot add column to a partition"));
                }
                AlterTableOperation::DropColumn { column_names, .. } => {
                    let own = column_names.iter().map(fold).find(|name| table.column(name).is_some());
                    if let Some(name) = own {
                        return Err(wrong_table(format!("cannot drop inherited column \"{name}\"")));
                    }
                }
                AlterTableOperation::RenameColumn { old_column_name, .. } => {
                    let name = fold(old_column_name);
                    if table.column(&name).is_some() {
                        return Err(wrong_table(format!("cannot rename inherited column \"{name}\"")));
                    }
                }
                AlterTableOperation::AlterColumn { column_name, op } => {
                    let name = fold(column_name);
                    let of_parent = parent.column(&name).map(|place| &parent.columns[place]);
                    match op {
                        AlterColumnOperation::SetDataType { .. } if table.column(&name).is_some() => {
                            return Err(wrong_table(format!("cannot alter inherited column \"{name}\"")));
                        }
                        AlterColumnOperation::DropNotNull if of_parent.is_some_and(|column| column.not_null) => {
                            return Err(wrong_table(format!("column \"{name}\" is marked NOT NULL in parent table")));
                        }
                        _ => {}
                    }
                }
                AlterTableOperation::DropConstraint { name, .. } if is_inherited(table, &fold(name)) => {
                    let message =
                        format!("cannot drop inherited constraint \"{}\" of relation \"{}\"", fold(name), table.name);
                    return Err(wrong_table(message));
                }
                AlterTableOperation::RenameConstraint { old_name, .. }
                    if table.checks.iter().any(|check| check.name == fold(old_name) && check.inherited) =>
                {
                    return Err(wrong_table(format!("cannot rename inherited constraint \"{}\"", fold(old_name))));
                }
                _ => {}
            }
        }
        let Some(partitioned) = &table.partitioned else { return Ok(()) };
        let is_alone = only && !partitioned.partitions.is_empty();
        match operation {
            AlterTableOperation::DropColumn { column_names, .. } => {
                for name in column_names.iter().map(fold) {
                    self.expect_no_key_column(table, &name, "drop")?;
                }
                if is_alone {
                    let message = "cannot drop column from only the partitioned table when partitions exist";
                    return Err(wrong_table(message).hint("Do not specify the ONLY keyword."));
                }
            }
            AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::SetDataType { .. } } => {
                self.expect_no_key_column(table, &fold(column_name), "alter")?;
            }
            AlterTableOperation::AlterColumn { op: AlterColumnOperation::SetNotNull, .. } if is_alone => {
                let message = "constraint must be added to child tables too";
                return Err(wrong_table(message).hint("Do not specify the ONLY keyword."));
            }
            AlterTableOperation::AddColumn { .. } if is_alone => {
                return Err(wrong_table("column must be added to child tables too"));
            }
            AlterTableOperation::RenameColumn { old_column_name, .. } if is_alone => {
                let name = fold(old_column_name);
                return Err(wrong_table(format!("inherited column \"{name}\" must be renamed in child tables too")));
            }
            AlterTableOperation::AddConstraint { constraint: ast::TableConstraint::Check(_), .. } if is_alone => {
                return Err(wrong_table("constraint must be added to child tables too"));
            }
            AlterTableOperation::AddConstraint {
                constraint: ast::TableConstraint::ForeignKey(key),
                not_valid: true,
            } => {
                let (of, (_, target)) = (&table.name, bind::qualified(&key.foreign_table)?);
                let message = format!(
                    "cannot add NOT VALID foreign key on partitioned table \"{of}\" referencing relation \"{target}\""
                );
                let detail = "This feature is not yet supported on partitioned tables.";
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).detail(detail));
            }
            AlterTableOperation::DropConstraint { .. } if is_alone => {
                let message = "cannot remove constraint from only the partitioned table when partitions exist";
                return Err(wrong_table(message).hint("Do not specify the ONLY keyword."));
            }
            _ => {}
        }
        Ok(())
    }

    /// 42P16 if a column is what a table is divided by.
    fn expect_no_key_column(&mut self, table: &Arc<Table>, name: &str, what: &str) -> Result<()> {
        let (Some(place), Some(partitioned)) = (table.column(name), &table.partitioned) else { return Ok(()) };
        let expressions = self.with_binder("", |binder| binder.index_expressions(table))?;
        let mut used = partitioned.keys.contains(&place);
        for (_, expr) in expressions.iter().filter(|(column, _)| partitioned.keys.contains(column)) {
            rewrite::for_each_column(expr, &mut |column| used |= column == place);
        }
        if !used {
            return Ok(());
        }
        let of = &table.name;
        let message =
            format!("cannot {what} column \"{name}\" because it is part of the partition key of relation \"{of}\"");
        Err(wrong_table(message))
    }

    /// Does to the partitions of a table what was done to it. `before` is the table as it was.
    pub(super) fn alter_partitions(
        &mut self,
        before: &Arc<Table>,
        operation: &AlterTableOperation,
        only: bool,
    ) -> Result<()> {
        let Some(partitioned) = &before.partitioned else { return Ok(()) };
        if only {
            return Ok(());
        }
        match operation {
            AlterTableOperation::AddConstraint { .. } => return self.complete_partitions(before.id),
            AlterTableOperation::SetOptionsParens { .. } | AlterTableOperation::SetTblProperties { .. } => {
                return self.compress_partitions(before);
            }
            operation if is_set_storage(operation) => {}
            AlterTableOperation::AlterColumn { op: AlterColumnOperation::AddGenerated { .. }, .. } => return Ok(()),
            AlterTableOperation::AddColumn { .. }
            | AlterTableOperation::DropColumn { .. }
            | AlterTableOperation::RenameColumn { .. }
            | AlterTableOperation::AlterColumn { .. }
            | AlterTableOperation::DropConstraint { .. }
            | AlterTableOperation::RenameConstraint { .. }
            | AlterTableOperation::ValidateConstraint { .. } => {}
            _ => return Ok(()),
        }
        for &partition in &partitioned.partitions {
            let child = self.current(partition)?;
            self.lock_table(&child)?;
            self.expect_not_in_use(&child, "ALTER TABLE")?;
            match operation {
                AlterTableOperation::AddColumn { column_keyword, if_not_exists, column_def, column_position } => {
                    let name = fold(&column_def.name);
                    if child.column(&name).is_some() {
                        continue;
                    }
                    // Keys and conditions come as parts of those of the table.
                    let mut plain = column_def.clone();
                    plain.options.retain(|option| is_of_column_alone(&option.option));
                    let plain = AlterTableOperation::AddColumn {
                        column_keyword: *column_keyword,
                        if_not_exists: *if_not_exists,
                        column_def: plain,
                        column_position: column_position.clone(),
                    };
                    self.alter_one(&child, &plain)?;
                    self.alter_partitions(&child, &plain, false)?;
                }
                AlterTableOperation::DropConstraint { name, drop_behavior, .. } => {
                    for own in parts_of(before, &fold(name), &child) {
                        let mut cascade = Cascade::new(*drop_behavior == Some(ast::DropBehavior::Cascade));
                        let current = self.current(partition)?;
                        self.drop_constraint(&current, &own, &mut cascade)?;
                        let below = AlterTableOperation::DropConstraint {
                            if_exists: true,
                            name: ast::Ident::with_quote('"', own.as_str()),
                            drop_behavior: *drop_behavior,
                        };
                        self.alter_partitions(&child, &below, false)?;
                    }
                }
                AlterTableOperation::RenameConstraint { old_name, .. } => {
                    let name = fold(old_name);
                    if child.checks.iter().any(|check| check.name == name && check.inherited) {
                        self.alter_one(&child, operation)?;
                        self.alter_partitions(&child, operation, false)?;
                    }
                }
                AlterTableOperation::ValidateConstraint { name } => {
                    for own in parts_of(before, &fold(name), &child) {
                        let own =
                            AlterTableOperation::ValidateConstraint { name: ast::Ident::with_quote('"', own.as_str()) };
                        self.alter_one(&child, &own)?;
                        self.alter_partitions(&child, &own, false)?;
                    }
                }
                _ => {
                    self.alter_one(&child, operation)?;
                    self.alter_partitions(&child, operation, false)?;
                }
            }
        }
        match operation {
            AlterTableOperation::AddColumn { .. } => self.complete_partitions(before.id),
            _ => Ok(()),
        }
    }

    /// Gives the partitions of a table the parts of its constraints and indexes that they lack.
    fn complete_partitions(&mut self, table: u32) -> Result<()> {
        let table = self.current(table)?;
        for &partition in table.partitioned.iter().flat_map(|partitioned| &partitioned.partitions) {
            let child = self.current(partition)?;
            self.lock_table(&child)?;
            self.expect_not_in_use(&child, "ALTER TABLE")?;
            if let Some(key) = &table.primary_key
                && child.primary_key.as_ref().is_none_or(|own| own.parent != Some(key.id))
            {
                self.take_primary_key(&table, key, partition)?;
            }
            for index in &table.indexes {
                if !child.indexes.iter().any(|own| own.parent == Some(index.id)) {
                    self.take_index(&table, index, partition)?;
                }
            }
            for key in &table.foreign_keys {
                if !child.foreign_keys.iter().any(|own| own.parent == Some(key.id)) {
                    self.take_foreign_key(&table, key, partition)?;
                }
            }
            for check in table.checks.iter().filter(|check| !check.no_inherit) {
                self.take_check(check, partition)?;
            }
            self.complete_partitions(partition)?;
        }
        Ok(())
    }

    /// The part of a partition in a CHECK of its table.
    pub(super) fn take_check(&mut self, check: &Check, partition: u32) -> Result<()> {
        let child = self.current(partition)?;
        let mut changed = (*child).clone();
        match changed.checks.iter_mut().find(|own| own.name == check.name) {
            Some(own) if own.inherited => return Ok(()),
            Some(own) if own.condition == check.condition => {
                (own.inherited, own.declared) = (true, child.partition_of.is_none());
                let message = format!("merging constraint \"{}\" with inherited definition", check.name);
                self.notice(crate::session::Severity::Notice, SqlState("00000"), message);
            }
            Some(_) => {
                let message = format!("constraint \"{}\" for relation \"{}\" already exists", check.name, child.name);
                return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
            }
            None => {
                let own =
                    Check { id: self.new_id_in(&child.schema)?, inherited: true, declared: false, ..check.clone() };
                if !own.not_valid && changed.partitioned.is_none() {
                    self.check_rows(&child, &own)?;
                }
                changed.checks.push(own);
            }
        }
        self.change(vec![Change::PutTable(changed)])
    }
}

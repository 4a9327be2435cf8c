//! Indexes of partitioned tables: each has a part in every partition.

use std::sync::Arc;

use colibri_catalog::{Catalog, Change, Index, Relation, Table};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::partitions::{name_of, own_place};

/// An index, or a primary key as one.
struct NamedIndex {
    id: u32,
    name: CompactString,
    columns: Vec<usize>,
    unique: bool,
    parent: Option<u32>,
}

impl Session {
    /// `ALTER INDEX … ATTACH PARTITION`
    pub(crate) fn attach_index(&mut self, index: &[CompactString], partition: &[CompactString]) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let (parent, of_parent) = self.index_named(index)?;
        let (table, own) = self.index_named(partition)?;
        let cannot = |detail: String| {
            let message =
                format!("cannot attach index \"{}\" as a partition of index \"{}\"", own.name, of_parent.name);
            Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message).detail(detail)
        };
        if parent.partitioned.is_none() {
            let message =
                format!("ALTER action ATTACH PARTITION cannot be performed on relation \"{}\"", of_parent.name);
            return Err(
                Error::new(SqlState::WRONG_OBJECT_TYPE, message).detail("This operation is not supported for indexes.")
            );
        }
        if table.partition_of.as_ref().is_none_or(|of| of.parent != parent.id) {
            let detail =
                format!("Index \"{}\" is not an index on any partition of table \"{}\".", own.name, parent.name);
            return Err(cannot(detail));
        }
        if own.parent == Some(of_parent.id) {
            return Ok(());
        }
        if own.parent.is_some() {
            return Err(cannot(format!("Index \"{}\" is already attached to another index.", own.name)));
        }
        // Expressions are compared as texts.
        let mut scratch = (*table).clone();
        let places = of_parent.columns.iter().map(|&column| own_place(&parent, &mut scratch, column));
        let same = places.collect::<Result<Vec<_>>>()? == own.columns && own.unique == of_parent.unique;
        if !same {
            return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, cannot(String::new()).report().message.clone())
                .detail("The index definitions do not match."));
        }
        self.lock_table(&table)?;
        let mut changed = (*table).clone();
        changed.primary_key.iter_mut().filter(|key| key.id == own.id).for_each(|key| key.parent = Some(of_parent.id));
        for index in changed.indexes.iter_mut().filter(|index| index.id == own.id) {
            Arc::make_mut(index).parent = Some(of_parent.id);
        }
        self.change(vec![Change::PutTable(changed)])
    }

    /// What ALTER INDEX says of storage and statistics is checked, and changes nothing.
    pub(crate) fn alter_index(
        &mut self,
        index: &[CompactString],
        if_exists: bool,
        options: &[ast::Expr],
        column: Option<i32>,
    ) -> Result<()> {
        if if_exists && self.find_relation(&name_of(index))?.is_none() {
            self.notice_missing("relation", index.last().map_or("", |name| name.as_str()));
            return Ok(());
        }
        let (table, found) = self.index_named(index)?;
        let parts = crate::system::relations::table_indexes(&table);
        let Some(known) = parts.iter().find(|known| known.id == found.id) else { return Ok(()) };
        super::storage::check_index_options(options, known.method.as_deref())?;
        let Some(column) = column else { return Ok(()) };
        let part = usize::try_from(column).ok().and_then(|column| known.columns.get(column.checked_sub(1)?));
        let Some(part) = part else {
            let is_included = column > 0 && column as usize <= known.columns.len() + known.include.len();
            if is_included {
                let place = known.include[column as usize - 1 - known.columns.len()];
                let message = format!(
                    "cannot alter statistics on included column \"{}\" of index \"{}\"",
                    table.columns[place].name, known.name
                );
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            let message = format!("column number {column} of relation \"{}\" does not exist", known.name);
            return Err(Error::new(SqlState::NO_SUCH_COLUMN, message));
        };
        let column = &table.columns[part.column];
        if column.expression.is_none() {
            let message = format!(
                "cannot alter statistics on non-expression column \"{}\" of index \"{}\"",
                column.name, known.name
            );
            return Err(
                Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint("Alter statistics on table column instead.")
            );
        }
        Ok(())
    }

    fn index_named(&mut self, name: &[CompactString]) -> Result<(Arc<Table>, NamedIndex)> {
        let found = self.find_relation(&name_of(name))?;
        let last = name.last().cloned().unwrap_or_default();
        match found {
            Some(Relation::Index(table, index)) => {
                let table = self.current(table)?;
                self.expect_owner(table.owner, "index", &last)?;
                let columns = index.columns.iter().map(|part| part.column).collect();
                let found =
                    NamedIndex { id: index.id, name: last, columns, unique: index.unique, parent: index.parent };
                Ok((table, found))
            }
            Some(Relation::PrimaryKey(table)) => {
                let table = self.current(table)?;
                self.expect_owner(table.owner, "index", &last)?;
                let Some(key) = &table.primary_key else { return Err(Error::internal("a key is not there")) };
                let columns = key.columns.clone();
                let found = NamedIndex { id: key.id, name: last, columns, unique: true, parent: key.parent };
                Ok((table, found))
            }
            Some(_) => Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{last}\" is not an index"))),
            None => Err(Error::new(SqlState::NO_SUCH_TABLE, format!("relation \"{last}\" does not exist"))),
        }
    }

    /// Makes the spaces of a new index of a partitioned table, and its parts in the partitions.
    pub(super) fn index_partitions(&mut self, table: u32, index: u32) -> Result<()> {
        let parent = self.current(table)?;
        let Some(of_parent) = parent.indexes.iter().find(|known| known.id == index).cloned() else { return Ok(()) };
        for partition in parent.partitioned.iter().flat_map(|partitioned| &partitioned.partitions) {
            let child = self.current(*partition)?;
            self.lock_table(&child)?;
            self.take_index(&parent, &of_parent, *partition)?;
            let own = self.current(*partition)?;
            if let (Some(_), Some(own)) =
                (&own.partitioned, own.indexes.iter().find(|known| known.parent == Some(index)))
            {
                let own = own.id;
                self.index_partitions(*partition, own)?;
            }
        }
        Ok(())
    }

    /// Drops the parts of an index in the partitions of its table.
    pub(super) fn drop_index_parts(&mut self, table: u32, index: u32) -> Result<()> {
        let parent = self.current(table)?;
        for &partition in parent.partitioned.iter().flat_map(|partitioned| &partitioned.partitions) {
            let child = self.current(partition)?;
            let Some(own) = child.indexes.iter().find(|known| known.parent == Some(index)).cloned() else { continue };
            self.lock_table(&child)?;
            self.drop_index_parts(partition, own.id)?;
            self.drop_index_of(partition, &own.name)?;
        }
        Ok(())
    }

    /// Tells that a name is that of a partition's own part, which goes with the table's.
    pub(super) fn expect_no_parent_index(&self, index: &Index) -> Result<()> {
        let Some(parent) = index.parent else { return Ok(()) };
        let name = self.catalog().relation_numbered(parent).map(|(_, name, _)| name).unwrap_or_default();
        let message = format!("cannot drop index {} because index {name} requires it", index.name);
        Err(Error::new(SqlState::DEPENDENT_OBJECTS, message).hint(format!("You can drop index {name} instead.")))
    }
}

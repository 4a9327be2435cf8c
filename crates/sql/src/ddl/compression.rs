//! Compression of long values: the storage parameter `compression` of tables, COMPRESSION and STORAGE
//! of columns.
//!
//! Invariants: a change concerns values that are written from then on. Rows that there are stay as
//! they are, and are read whatever is set.

use std::sync::Arc;

use colibri_catalog::row::Compression;
use colibri_catalog::{Change, Column, ColumnStorage, CompressionName, Table};
use colibri_types::{Error, Result};
use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation, SqlOption};

use super::create::Draft;
use super::inheritance::mismatch;
use super::{Session, identity, storage};
use crate::bind::fold;

impl Session {
    /// ALTER TABLE … SET of storage parameters.
    pub(super) fn set_table_options(&mut self, draft: Draft, options: &[SqlOption]) -> Result<()> {
        storage::check_table_options(options)?;
        let mut table = draft.table;
        let topic = storage::topic_of(options, table.topic)?;
        let compression = storage::compression_of(options)?.or(table.compression);
        if topic == table.topic && compression == table.compression {
            return Ok(());
        }
        table.topic = topic;
        self.put_compressed(table, compression)
    }

    /// ALTER TABLE … RESET of storage parameters.
    pub(super) fn reset_table_options(&mut self, draft: Draft, options: &[SqlOption]) -> Result<()> {
        let mut table = draft.table;
        let (compression, topic) = storage::reset(options, table.compression, table.topic)?;
        if topic == table.topic && compression == table.compression {
            return Ok(());
        }
        table.topic = topic;
        self.put_compressed(table, compression)
    }

    fn put_compressed(&mut self, mut table: Table, compression: Option<Compression>) -> Result<()> {
        table.compression = compression;
        table.renew_layout();
        self.change(vec![Change::PutTable(table)])
    }

    /// ALTER COLUMN … SET COMPRESSION and SET STORAGE.
    pub(super) fn set_column_storage(&mut self, draft: Draft, place: usize, to: ColumnStorage) -> Result<()> {
        let mut table = draft.table;
        if table.columns[place].storage == to {
            return Ok(());
        }
        table.columns[place].storage = to;
        table.renew_layout();
        self.change(vec![Change::PutTable(table)])
    }

    /// Does to the partitions of a table what SET and RESET have done to its compression.
    pub(super) fn compress_partitions(&mut self, before: &Arc<Table>) -> Result<()> {
        let compression = self.current(before.id)?.compression;
        if compression == before.compression {
            return Ok(());
        }
        for &partition in before.partitioned.iter().flat_map(|partitioned| &partitioned.partitions) {
            let child = self.current(partition)?;
            self.lock_table(&child)?;
            self.expect_not_in_use(&child, "ALTER TABLE")?;
            self.put_compressed((*child).clone(), compression)?;
            self.compress_partitions(&child)?;
        }
        Ok(())
    }
}

/// What COMPRESSION says of a column that is declared.
pub(super) fn declared(column: &Column, options: &[SqlOption]) -> Result<ColumnStorage> {
    match options {
        [SqlOption::KeyValue { value: ast::Expr::Identifier(method), .. }] => {
            let compression = storage::compression_named(&fold(method), column.ty)?;
            Ok(ColumnStorage { compression, ..column.storage })
        }
        _ => Err(Error::internal("COMPRESSION has no method")),
    }
}

/// Whether an operation is SET STORAGE of a column, which concerns the partitions and the heirs of
/// the table as well. SET COMPRESSION does not, as in PostgreSQL.
pub(super) fn is_set_storage(operation: &AlterTableOperation) -> bool {
    let AlterTableOperation::AlterColumn { op: AlterColumnOperation::AddGenerated { sequence_options, .. }, .. } =
        operation
    else {
        return false;
    };
    identity::text_of(sequence_options.as_deref()).is_ok_and(|text| text.is_some_and(storage::is_set_storage))
}

/// How a column is kept that two tables declare, or a table and one that it inherits from.
/// `inherited`: the first one is inherited as well.
///
/// # Errors
/// They say different things.
pub(super) fn merged(known: &Column, own: &Column, inherited: bool) -> Result<ColumnStorage> {
    let conflict =
        |what: &str, one: &str, other: &str| Err(mismatch(what.to_owned()).detail(format!("{one} versus {other}")));
    let name = &known.name;
    let is_other_kind = known.storage.kind_of(known.ty.ty) != own.storage.kind_of(own.ty.ty);
    if is_other_kind && (inherited || own.storage.kind.is_some()) {
        let which = if inherited { "inherited column" } else { "column" };
        let (one, other) = (known.storage.kind_of(known.ty.ty), own.storage.kind_of(own.ty.ty));
        let what = format!("{which} \"{name}\" has a storage parameter conflict");
        return conflict(&what, one.name(), other.name());
    }
    match (known.storage.compression, own.storage.compression) {
        (Some(one), Some(other)) if one != other => {
            let what = format!("column \"{name}\" has a compression method conflict");
            conflict(&what, CompressionName::name(one), other.name())
        }
        (one, other) => Ok(ColumnStorage { compression: one.or(other), ..known.storage }),
    }
}

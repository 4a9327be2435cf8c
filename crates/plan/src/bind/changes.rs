//! Statements that write, of whichever kind: the main part of a statement, or one that stands in
//! WITH.

use std::sync::Arc;

use colibri_catalog::Table;
use colibri_types::{Error, Result};
use compact_str::CompactString;
use sqlparser::ast;

use super::Binder;
use super::logical::Column;
#[cfg(doc)]
use super::logical::Source;
use super::merge::BoundMerge;
use super::partitions::WrittenTree;
use super::write::{BoundDelete, BoundInsert, BoundUpdate};
use crate::expr::Expr;

/// A statement that writes.
#[expect(clippy::large_enum_variant, reason = "a statement has few of them")]
pub enum BoundChange {
    Insert(BoundInsert),
    Update(BoundUpdate),
    Delete(BoundDelete),
    Merge(BoundMerge),
}

/// A part of a statement that writes, beside the main one: it stands in WITH.
pub struct Part {
    /// Numbers what it gives: [`Source::Part`] has the same.
    pub id: usize,
    pub change: BoundChange,
}

impl BoundChange {
    /// The table that it writes to.
    pub fn table(&self) -> &Arc<Table> {
        match self {
            Self::Insert(insert) => &insert.table,
            Self::Update(update) => &update.table,
            Self::Delete(delete) => &delete.table,
            Self::Merge(merge) => &merge.table,
        }
    }

    /// The conditions of views that new rows have to fulfil, with the views' names.
    pub fn view_checks(&self) -> &[(CompactString, Expr)] {
        let view = match self {
            Self::Insert(insert) => &insert.view,
            Self::Update(update) => &update.view,
            Self::Delete(_) | Self::Merge(_) => &None,
        };
        view.as_ref().map_or(&[], |view| &view.checks)
    }

    /// The tables that have its rows, if that is a partitioned one.
    pub fn tree(&self) -> Option<&WrittenTree> {
        match self {
            Self::Insert(insert) => insert.tree.as_ref(),
            Self::Update(update) => update.tree.as_ref(),
            Self::Delete(delete) => delete.tree.as_ref(),
            Self::Merge(_) => None,
        }
    }

    /// The columns that it gives, if it has a RETURNING.
    pub fn returning(&self) -> Option<&[Column]> {
        let returning = match self {
            Self::Insert(insert) => &insert.returning,
            Self::Update(update) => &update.returning,
            Self::Delete(delete) => &delete.returning,
            Self::Merge(_) => return None,
        };
        returning.as_ref().map(|(_, columns)| &columns[..])
    }
}

impl Binder<'_> {
    /// Binds a statement that writes.
    pub fn change(&mut self, statement: &ast::Statement) -> Result<BoundChange> {
        self.is_outermost = false;
        match statement {
            ast::Statement::Insert(insert) => self.insert(insert).map(BoundChange::Insert),
            ast::Statement::Update(update) => self.update(update).map(BoundChange::Update),
            ast::Statement::Delete(delete) => self.delete(delete).map(BoundChange::Delete),
            ast::Statement::Merge(merge) => self.merge_statement(merge).map(BoundChange::Merge),
            _ => Err(Error::unsupported("the statement inside of WITH")),
        }
    }
}

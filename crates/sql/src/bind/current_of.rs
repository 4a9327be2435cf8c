//! `UPDATE … WHERE CURRENT OF cursor` and `DELETE … WHERE CURRENT OF cursor`.
//!
//! A row is known by its table's primary key, or by its hidden number. A cursor's query is bound
//! with the keys of its tables' rows behind its columns ([`CursorRows`]); the statement that
//! changes the row is bound as a comparison of the key with parameters that follow those of the
//! client ([`CurrentOf`]), and which the session fills when the statement begins.

use std::sync::Arc;

use colibri_catalog::Table;
use compact_str::CompactString;
use sqlparser::ast;

use super::logical::{Body, Distinct, Query, Source};
use super::{Binder, fold};
use crate::expr::{CompareOp, Expr};
use crate::statement::CURRENT_OF_MARK;

/// Which tables a cursor's rows are of, and where in them.
#[derive(Debug, Clone, Default)]
pub(crate) struct CursorRows {
    /// The query locks rows: only tables that it locks count.
    pub(crate) locks: bool,
    /// A table's number, and the places of its key in a row.
    pub(crate) tables: Vec<(u32, Vec<usize>)>,
}

/// The row to be changed.
#[derive(Debug, Clone)]
pub(crate) struct CurrentOf {
    pub(crate) cursor: CompactString,
    pub(crate) table: Arc<Table>,
}

/// The cursor in `WHERE CURRENT OF cursor`.
pub(super) fn cursor_of(selection: Option<&ast::Expr>) -> Option<&ast::Ident> {
    match selection {
        Some(ast::Expr::CompoundIdentifier(parts)) => match &parts[..] {
            [mark, cursor] if mark.value == CURRENT_OF_MARK => Some(cursor),
            _ => None,
        },
        _ => None,
    }
}

impl Binder<'_> {
    /// The conditions that only the row is left by which a cursor is on. To be bound last:
    /// parameters of the client come first.
    pub(super) fn row_of_cursor(&mut self, cursor: &ast::Ident, table: &Arc<Table>) -> Vec<Expr> {
        self.current_of = Some(CurrentOf { cursor: fold(cursor), table: Arc::clone(table) });
        let first = self.params.len();
        let columns = match table.key_columns() {
            [] => vec![table.columns.len()],
            key => key.to_vec(),
        };
        let is_equal = |(index, column)| Expr::Compare {
            op: CompareOp::Eq,
            left: Box::new(Expr::Column(column)),
            right: Box::new(Expr::Param(first + index)),
        };
        columns.into_iter().enumerate().map(is_equal).collect()
    }

    /// Has a cursor's rows come with their key, if they are rows of one table as they are.
    pub(crate) fn mark(&self, query: &mut Query) {
        let Body::Select(select) = &query.body else { return };
        let is_plain = select.group.is_none() && select.distinct == Distinct::No && select.extras.is_empty();
        let is_one = matches!(&select.relations[..], [relation] if matches!(relation.source, Source::Table(_)));
        query.is_marked = self.cursor_rows.is_some() && query.locks.is_empty() && is_plain && is_one;
    }
}

//! `UPDATE … WHERE CURRENT OF cursor` and `DELETE … WHERE CURRENT OF cursor`.
//!
//! A row is known by its table's primary key, or by its hidden number. A cursor's query is bound
//! with the keys of its tables' rows behind its columns ([`CursorRows`]); the statement that
//! changes the row is bound as a comparison of the key with parameters that follow those of the
//! client ([`CurrentOf`]), and which the session fills when the statement begins.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use colibri_catalog::Table;
use colibri_types::Datum;
use compact_str::CompactString;
use sqlparser::ast;

use super::logical::{Body, Distinct, Query, Relation, Select, Source};
use super::{Binder, fold, rewrite};
use crate::expr::{CompareOp, Expr};
use colibri_syntax::CURRENT_OF_MARK;

/// Which tables a cursor's rows are of, and where in them.
#[derive(Debug, Clone, Default)]
pub struct CursorRows {
    /// The query locks rows: only tables that it locks count.
    pub locks: bool,
    /// A table's number, and the places of its key in a row.
    pub tables: Vec<(u32, Vec<usize>)>,
}

/// The row to be changed.
#[derive(Debug, Clone)]
pub struct CurrentOf {
    pub cursor: CompactString,
    pub table: Arc<Table>,
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

/// Whether a SELECT gives rows of its FROM as they are.
fn is_plain(select: &Select) -> bool {
    let gives_rows = !select.extras.is_empty() || !select.grouped_rows.is_empty();
    select.group.is_none() && select.distinct == Distinct::No && !gives_rows
}

/// Puts the only view or query in FROM, or the only WITH query, in the place of its name, if both
/// give rows as they are; says whether it did.
fn pull_up(query: &mut Query) -> bool {
    let Body::Select(outer) = &mut query.body else { return false };
    if !is_plain(outer) {
        return false;
    }
    let [Relation { base: 0, source, .. }] = &mut outer.relations[..] else { return false };
    // A WITH query that is read once, and is not MATERIALIZED, is planned where it is read.
    if let Source::Shared { query, uses_args: false, reads, .. } = source
        && reads.load(Ordering::Relaxed) == 1
    {
        *source = Source::Query(Box::new(Query::clone(query)));
    }
    let Source::Query(inner) = source else { return false };
    let is_whole = inner.order.is_empty() && inner.limit.is_none() && inner.offset.is_none() && inner.locks.is_empty();
    let Body::Select(select) = &mut inner.body else { return false };
    if !is_whole || !is_plain(select) || select.output.iter().any(rewrite::is_volatile) {
        return false;
    }
    let output = std::mem::take(&mut select.output);
    let value = |column: usize| output.get(column).cloned().unwrap_or(Expr::Const(Datum::Null));
    let mut filter = std::mem::take(&mut select.filter);
    let (relations, from) = (std::mem::take(&mut select.relations), select.from.take());
    outer.filter.iter_mut().chain(&mut outer.output).for_each(|expr| rewrite::substitute(expr, &value));
    filter.append(&mut outer.filter);
    (outer.relations, outer.from, outer.filter) = (relations, from, filter);
    true
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
    pub fn mark(&self, query: &mut Query) {
        if self.cursor_rows.is_some() && query.locks.is_empty() {
            while pull_up(query) {}
        }
        let Body::Select(select) = &query.body else { return };
        let is_one = matches!(&select.relations[..], [relation] if matches!(relation.source, Source::Table(_)));
        query.is_marked = self.cursor_rows.is_some() && query.locks.is_empty() && is_plain(select) && is_one;
    }
}

//! Values of the columns that stand for expressions and conditions of indexes. No row holds them:
//! they are computed when entries are made or looked for.
//!
//! Invariants: an expression is computed only for rows that have an entry, since for others it may
//! fail. Expressions are immutable, so the entry that a row had is found again.

use std::borrow::Cow;

use colibri_catalog::{Index, Table, record};
use colibri_types::{Datum, Env, Result};

use crate::eval::Evaluate as _;
use crate::expr::Expr;
use crate::plan::TableRules;
use crate::{Exec, Scope};

/// What expressions are computed by.
pub(crate) trait Computes {
    /// The value of an expression over a row.
    fn compute(&mut self, expression: &Expr, row: &[Datum]) -> Result<Datum>;
}

impl Computes for Exec<'_, '_> {
    #[inline]
    fn compute(&mut self, expression: &Expr, row: &[Datum]) -> Result<Datum> {
        expression.eval_owned(&mut self.scope(), row)
    }
}

/// Without a session: functions of users cannot be called.
pub(crate) struct Alone<'e>(pub(crate) &'e Env);

impl Computes for Alone<'_> {
    fn compute(&mut self, expression: &Expr, row: &[Datum]) -> Result<Datum> {
        expression.eval_owned(&mut Scope::pure(self.0, &[], &[]), row)
    }
}

/// Whether an index asks functions of users, which may have become others since its entries were
/// made.
pub(crate) fn asks_routines(index: &Index, expressions: &Expressions) -> bool {
    let is_part =
        |column: usize| index.predicate == Some(column) || index.columns.iter().any(|part| part.column == column);
    let asks = |expression: &Expr| crate::expr::walk::any(expression, &|part| matches!(part, Expr::Session { .. }));
    expressions.iter().any(|(column, expression)| is_part(*column) && asks(expression))
}

/// Columns of a table with the expressions that they stand for, over all the table's columns.
pub type Expressions = [(usize, Expr)];

/// A row with what an index asks of it: whether it has an entry, and which. `row` has at least the
/// columns that the index' expressions look at.
///
/// # Errors
/// Of evaluating.
#[inline]
pub(crate) fn row_for<'r>(
    by: &mut dyn Computes,
    (table, index): (&Table, &Index),
    expressions: &Expressions,
    row: &'r [Datum],
) -> Result<Cow<'r, [Datum]>> {
    if expressions.is_empty() || index.predicate.is_none() && !table.is_on_expression(index) {
        return Ok(Cow::Borrowed(row));
    }
    filled(by, (table, index), expressions, row).map(Cow::Owned)
}

fn filled(
    by: &mut dyn Computes,
    (table, index): (&Table, &Index),
    expressions: &Expressions,
    row: &[Datum],
) -> Result<Vec<Datum>> {
    debug_assert!(table.columns.len() <= row.len(), "a row has all columns");
    let mut filled = row.to_vec();
    fill(by, expressions, &mut filled, &|column| index.predicate == Some(column))?;
    if record::has_entry(index, &filled) {
        fill(by, expressions, &mut filled, &|column| index.columns.iter().any(|part| part.column == column))?;
    }
    Ok(filled)
}

/// Computes the columns of a row that are computed of others.
///
/// # Errors
/// Of evaluating.
pub(crate) fn fill_generated(by: &mut dyn Computes, rules: &TableRules, row: &mut [Datum]) -> Result<()> {
    fill(by, &rules.generated, row, &|_| true)
}

fn fill(
    by: &mut dyn Computes,
    expressions: &Expressions,
    row: &mut [Datum],
    is_meant: &dyn Fn(usize) -> bool,
) -> Result<()> {
    for (column, expression) in expressions.iter().filter(|(column, _)| is_meant(*column)) {
        row[*column] = by.compute(expression, row)?;
    }
    Ok(())
}

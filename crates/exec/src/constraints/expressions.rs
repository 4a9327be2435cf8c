//! Values of the columns that stand for expressions and conditions of indexes. No row holds them:
//! they are computed when entries are made or looked for.
//!
//! Invariants: an expression is computed only for rows that have an entry, since for others it may
//! fail. Expressions are immutable, so the entry that a row had is found again.

use std::borrow::Cow;

use colibri_catalog::{Index, Table, record};
use colibri_types::{Datum, Env, Result};

use crate::Scope;
use crate::eval::Evaluate as _;
use crate::expr::Expr;
use crate::plan::TableRules;

/// Columns of a table with the expressions that they stand for, over all the table's columns.
pub type Expressions = [(usize, Expr)];

/// A row with what an index asks of it: whether it has an entry, and which. `row` has at least the
/// columns that the index' expressions look at.
///
/// # Errors
/// Of evaluating.
#[inline]
pub fn row_for<'r>(
    (table, index): (&Table, &Index),
    expressions: &Expressions,
    row: &'r [Datum],
    env: &Env,
) -> Result<Cow<'r, [Datum]>> {
    if expressions.is_empty() || index.predicate.is_none() && !table.is_on_expression(index) {
        return Ok(Cow::Borrowed(row));
    }
    filled((table, index), expressions, row, env).map(Cow::Owned)
}

fn filled((table, index): (&Table, &Index), expressions: &Expressions, row: &[Datum], env: &Env) -> Result<Vec<Datum>> {
    debug_assert!(table.columns.len() <= row.len(), "a row has all columns");
    let mut filled = row.to_vec();
    fill(expressions, &mut filled, &|column| index.predicate == Some(column), env)?;
    if record::has_entry(index, &filled) {
        fill(expressions, &mut filled, &|column| index.columns.iter().any(|part| part.column == column), env)?;
    }
    Ok(filled)
}

/// Computes the columns of a row that are computed of others.
///
/// # Errors
/// Of evaluating.
pub(crate) fn fill_generated(rules: &TableRules, row: &mut [Datum], env: &Env) -> Result<()> {
    fill(&rules.generated, row, &|_| true, env)
}

fn fill(expressions: &Expressions, row: &mut [Datum], is_meant: &dyn Fn(usize) -> bool, env: &Env) -> Result<()> {
    for (column, expression) in expressions.iter().filter(|(column, _)| is_meant(*column)) {
        row[*column] = expression.eval_owned(&mut Scope::pure(env, &[], &[]), row)?;
    }
    Ok(())
}

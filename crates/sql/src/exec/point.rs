//! The straight line: one row of one table by its whole key, perhaps with expressions over it.
//!
//! Nothing is remembered between steps and no operator is made: the key is encoded, the row fetched, its columns decoded
//! into the result.
//!
//! Invariants: what [`Point::new`] lets through has no query, no session function and no slot in it.

use colibri_catalog::{record::RowReader, store_error::InSql as _};
use colibri_txn::{Space, Transaction};
use colibri_types::{Error, Result};

use super::ranges::{Ranges, key_ranges};
use super::scan::is_point as is_point_access;
use super::{Batch, Context, Scope, Step, canceled};
use crate::expr::Expr;
use crate::plan::{Access, Fragment, Node, Scan};

/// The scan and the expressions above it, if a fragment is no more than that.
fn parts(fragment: &Fragment) -> Option<(&Scan, Option<&[Expr]>)> {
    match &fragment.root {
        Node::Scan(scan) => Some((scan, None)),
        Node::Project { input, exprs } => match &**input {
            Node::Scan(scan) => Some((scan, Some(exprs))),
            _ => None,
        },
        _ => None,
    }
}

/// What is the same in all runs of such a fragment.
#[derive(Debug)]
pub(crate) struct Point {
    space: Space,
    reader: RowReader,
    /// The row's first columns are the result: expressions do not change them.
    is_as_read: bool,
}

impl Point {
    /// `None` if a fragment gives anything but one row by its whole key, or none.
    pub(crate) fn new(fragment: &Fragment) -> Option<Self> {
        let (scan, exprs) = parts(fragment)?;
        let Access::Key { ranges } = &scan.access else { return None };
        let is_point = fragment.slots == 0
            && is_point_access(&scan.table, ranges)
            && exprs.is_none_or(|exprs| exprs.iter().all(|expr| matches!(expr, Expr::Column(_)) || expr.is_pure()));
        let unchanged = |(place, expr): (usize, &Expr)| matches!(expr, Expr::Column(column) if *column == place);
        let width = fragment.columns.len();
        is_point.then(|| Self {
            space: scan.table.space(),
            reader: RowReader::new(&scan.table, &scan.columns),
            is_as_read: exprs.is_none_or(|exprs| exprs.iter().take(width).enumerate().all(unchanged)),
        })
    }
}

/// Runs it, in one step.
pub(super) fn run(
    fragment: &Fragment,
    txn: &mut dyn Transaction,
    cx: &mut Context<'_>,
    out: &mut Batch,
) -> Result<Step> {
    if cx.cancel.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(canceled());
    }
    let (Some((scan, exprs)), Some(point)) = (parts(fragment), fragment.point()) else {
        return Err(Error::internal("a plan that is not for one row"));
    };
    cx.budget_rows -= 1;
    let mut scope = Scope::pure(cx.env, cx.params, &[]);
    let Ranges::Points(keys) = key_ranges(&scan.table, &scan.access, &mut scope)? else {
        return Err(Error::internal("a plan for one row without a whole key"));
    };
    let Some(key) = keys.first() else { return Ok(Step::Done) };
    let Some(value) = txn.get(&point.space, key, scan.depends).in_sql()? else { return Ok(Step::Done) };
    out.reset(scan.columns.len());
    point.reader.read(key, value, out.push())?;
    if let Some(filter) = &scan.filter
        && !filter.eval_condition(&mut scope, out.row(0))?
    {
        out.pop();
        return Ok(Step::Done);
    }
    let width = exprs.map_or(usize::MAX, <[Expr]>::len).min(fragment.columns.len());
    let (false, Some(exprs)) = (point.is_as_read, exprs) else {
        out.cut(width);
        return Ok(Step::Rows);
    };
    let row: smallvec::SmallVec<[colibri_types::Datum; 8]> = out.row_mut(0).iter_mut().map(std::mem::take).collect();
    out.reset(width);
    for (value, expr) in out.push().iter_mut().zip(exprs) {
        *value = expr.eval_owned(&mut scope, &row)?;
    }
    Ok(Step::Rows)
}

//! The straight line: one row of one table by its whole key, perhaps with expressions over it.
//!
//! No operator is made: the key is encoded, the row fetched, its columns decoded
//! into the result.
//!
//! Invariants: what [`Point::new`] lets through has no query, no session function and no slot in
//! it.

use std::sync::Arc;

use colibri_catalog::{record::RowReader, store_error::in_sql};
use colibri_txn::{Space, Transaction};
use colibri_types::{Error, Result};

use super::ranges::{Ranges, key_ranges};
use super::scan::is_point as is_point_access;
use super::{Batch, Context, Scope, Step, canceled};
use crate::eval::Evaluate as _;
use crate::expr::{Expr, walk};
use crate::plan::{Access, Exprs, Fragment, FragmentId, KeyPart, Node, Scan};

/// Such a plan, lowered.
pub(crate) struct Point {
    /// The plan's number.
    id: FragmentId,
    scan: Arc<Scan>,
    /// What is computed of the row.
    exprs: Option<Exprs>,
    space: Space,
    reader: RowReader,
    /// Columns of the result.
    width: usize,
    /// The row's first columns are the result: expressions do not change them.
    is_as_read: bool,
    done: bool,
    /// Why each run fails.
    fails: Option<Box<Error>>,
}

impl Point {
    /// `None` if a fragment gives anything but one row by its whole key, or none.
    pub(super) fn new(fragment: &Fragment) -> Option<Self> {
        let (scan, exprs) = match &fragment.root {
            Node::Scan(scan) => (scan, None),
            Node::Project { input, exprs } => match &**input {
                Node::Scan(scan) => (scan, Some(exprs)),
                _ => return None,
            },
            _ => return None,
        };
        let Access::Key { ranges } = &scan.access else { return None };
        let is_point = !fragment.is_marked
            && fragment.slots == 0
            && is_point_access(&scan.table, ranges)
            && ranges.prefix.iter().all(|part| matches!(part, KeyPart::Eq(value) if walk::is_pure(value)))
            && exprs
                .is_none_or(|exprs| exprs.iter().all(|expr| matches!(expr, Expr::Column(_)) || walk::is_pure(expr)));
        let unchanged = |(place, expr): (usize, &Expr)| matches!(expr, Expr::Column(column) if *column == place);
        let width = fragment.columns.len();
        is_point.then(|| Self {
            id: fragment.id,
            scan: Arc::clone(scan),
            exprs: exprs.cloned(),
            space: scan.table.space(),
            reader: RowReader::new(&scan.table, &scan.columns),
            width: exprs.map_or(usize::MAX, |exprs| exprs.len()).min(width),
            is_as_read: exprs.is_none_or(|exprs| exprs.iter().take(width).enumerate().all(unchanged)),
            done: false,
            fails: fragment.fails.clone().map(Box::new),
        })
    }

    /// As it was made; gives the plan's number.
    pub(super) fn reset(&mut self) -> FragmentId {
        self.done = false;
        self.id
    }

    /// Runs it, in one step; another one says that it is done.
    pub(super) fn step(&mut self, txn: &mut dyn Transaction, cx: &mut Context<'_>, out: &mut Batch) -> Result<Step> {
        if let Some(error) = &self.fails {
            return Err((**error).clone());
        }
        out.reset(0);
        if std::mem::replace(&mut self.done, true) {
            return Ok(Step::Done);
        }
        if cx.cancel.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(canceled());
        }
        let scan = &*self.scan;
        cx.budget_rows -= 1;
        let mut scope = Scope::pure(cx.env, cx.params, &[]);
        let Ranges::Points(keys) = key_ranges(&scan.table, &scan.access, &mut scope)? else {
            return Err(Error::internal("a plan for one row without a whole key"));
        };
        let Some(key) = keys.first() else { return Ok(Step::Done) };
        let value = match txn.get(&self.space, key, scan.depends) {
            Ok(value) => value,
            Err(error) => {
                // It may have to be fetched first.
                self.done = false;
                return Err(in_sql(error));
            }
        };
        let Some(value) = value else { return Ok(Step::Done) };
        out.reset(scan.columns.len());
        self.reader.read(key, value, out.push())?;
        if let Some(filter) = &scan.filter
            && !filter.eval_condition(&mut scope, out.row(0))?
        {
            out.pop();
            return Ok(Step::Done);
        }
        let (false, Some(exprs)) = (self.is_as_read, &self.exprs) else {
            out.cut(self.width);
            return Ok(Step::Rows);
        };
        let row: smallvec::SmallVec<[colibri_types::Datum; 8]> =
            out.row_mut(0).iter_mut().map(std::mem::take).collect();
        out.reset(self.width);
        for (value, expr) in out.push().iter_mut().zip(exprs.iter()) {
            *value = expr.eval_owned(&mut scope, &row)?;
        }
        Ok(Step::Rows)
    }
}

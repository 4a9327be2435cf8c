//! The operator that sorts: see [`Sorter`] for how.
//!
//! ```text
//! rows:     | row | keys |  | row | keys | ...      a key that is a column of the row is not stored twice
//! ```
//! With `top`, rows that cannot be among the first `top` ones are dropped on the way.

use std::sync::Arc;

use colibri_types::{Datum, Result};

use super::memory::{Reservation, Use};
use super::operator::{Operator, Run};
use super::sorter::{KeyOrder, Sorter};
use super::{Batch, Exec, Scope, Statement, Step};
use crate::eval::Evaluate as _;
use crate::explain::{Spilled, Usage};
use crate::expr::Expr;
use crate::plan::SortKey;

/// What letting go of a block of rows is to the budget, in rows.
const DROPPED_COST: usize = 256;
/// A `top` above this is sorted whole.
const TOP_MAX: usize = 65_536;

/// A sort.
pub(super) struct Sort {
    keys: Arc<[SortKey]>,
    top: Option<Expr>,
    run: SortRun,
}

/// A sort at work.
struct SortRun {
    input: Run,
    fresh: Batch,
    /// Columns of the input's rows.
    width: usize,
    /// Columns of the rows kept: the keys that had to be computed come last.
    kept_width: usize,
    sorter: Sorter,
    top: Option<usize>,
    /// With `top`: the last of the first `top` rows.
    worst: Option<usize>,
    memory: Reservation,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Taking,
    Spilling,
    Finishing,
    Giving,
}

impl Sort {
    pub(super) fn new(mut input: Run, keys: &Arc<[SortKey]>, top: Option<&Expr>) -> Self {
        input.forget_order();
        Self { keys: Arc::clone(keys), top: top.cloned(), run: SortRun::new(input) }
    }
}

impl Operator for Sort {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        self.run.step(&self.keys, self.top.as_ref(), ex, out)
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.run.forget();
        self.run.input.rewind(ex);
    }

    fn reset(&mut self) {
        self.run.forget();
        self.run.input.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.run.input.give_back(ex);
        self.run.memory.release();
    }

    fn usage(&self, _: &Statement) -> Option<Usage> {
        Some(self.run.usage())
    }
}

impl SortRun {
    fn new(input: Run) -> Self {
        Self {
            input,
            fresh: Batch::new(),
            width: 0,
            kept_width: 0,
            sorter: Sorter::new(0, Vec::new()),
            top: None,
            worst: None,
            memory: Reservation::default(),
            phase: Phase::Taking,
        }
    }

    /// Back to the start, but for the input.
    fn forget(&mut self) {
        *self = Self::new(self.input.take());
    }

    fn usage(&self) -> Usage {
        let on_disk = self.sorter.bytes_on_disk();
        let method = match self.top {
            _ if on_disk > 0 => "external merge",
            Some(_) => "top-N heapsort",
            None => "quicksort",
        };
        Usage::Sort(method, Spilled { memory_bytes: self.memory.peak() as u64, disk_bytes: on_disk, batches: 0 })
    }

    fn step(&mut self, keys: &[SortKey], top: Option<&Expr>, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        loop {
            match self.phase {
                Phase::Taking => match self.input.step(ex, &mut self.fresh)? {
                    Step::Yield => return Ok(Step::Yield),
                    Step::Rows => {
                        if self.kept_width == 0 {
                            self.begin(keys, top, ex);
                        }
                        self.take(keys, ex)?;
                    }
                    Step::Done => {
                        self.input.give_back(ex);
                        if let Some(top) = self.top {
                            self.keep_top(top)?;
                        }
                        self.phase = Phase::Finishing;
                    }
                },
                Phase::Spilling => {
                    if !self.sorter.spill(ex, Use::Rows.bytes_max(ex.cx.memory))? {
                        return Ok(Step::Yield);
                    }
                    self.memory.hold(ex.cx.memory, self.sorter.bytes(), Use::Rows);
                    self.phase = Phase::Taking;
                }
                Phase::Finishing => {
                    if !self.sorter.finish(ex, Use::Rows.bytes_max(ex.cx.memory))? {
                        return Ok(Step::Yield);
                    }
                    self.memory.hold(ex.cx.memory, self.sorter.bytes(), Use::Rows);
                    self.phase = Phase::Giving;
                }
                Phase::Giving => return self.give(ex, out),
            }
        }
    }

    fn give(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        out.reset(self.width);
        while !out.is_full() {
            if !self.sorter.next_into(out.push())? {
                out.pop();
                break;
            }
        }
        ex.spend(out.rows());
        if !out.is_empty() {
            return Ok(Step::Rows);
        }
        while self.sorter.drop_block() {
            ex.spend(DROPPED_COST);
            if ex.is_used_up() {
                return Ok(Step::Yield);
            }
        }
        Ok(Step::Done)
    }

    fn begin(&mut self, keys: &[SortKey], top: Option<&Expr>, ex: &mut Exec<'_, '_>) {
        self.width = self.fresh.width();
        self.kept_width = self.width;
        let mut order = Vec::with_capacity(keys.len());
        for key in keys {
            let place = match key.expr {
                Expr::Column(column) => column,
                _ => {
                    self.kept_width += 1;
                    self.kept_width - 1
                }
            };
            order.push(KeyOrder::new(place, key));
        }
        // Rows without columns and keys still have to be counted.
        self.kept_width = self.kept_width.max(1);
        self.sorter = Sorter::new(self.kept_width, order);
        // What is wrong with the limit is the Limit's business.
        let top = top.and_then(|top| top.eval_owned(&mut ex.scope(), &[]).ok());
        self.top = match top {
            Some(Datum::Int(top)) => usize::try_from(top).ok().filter(|&top| top <= TOP_MAX),
            _ => None,
        };
    }

    fn take(&mut self, keys: &[SortKey], ex: &mut Exec<'_, '_>) -> Result<()> {
        let mut scope = ex.scope();
        for index in 0..self.fresh.rows() {
            if let Some(worst) = self.worst
                && self.kept_width == self.width
                && self.sorter.compare_rows(self.fresh.row(index), self.sorter.row(worst)).is_ge()
            {
                continue;
            }
            let row = self.fresh.row_mut(index);
            let number = self.sorter.rows_in_memory();
            let computed = compute_keys(keys, &mut scope, row)?;
            let filled = row.iter_mut().map(std::mem::take).chain(computed).chain(std::iter::repeat(Datum::Null));
            self.sorter.push(filled.take(self.kept_width));
            if let Some(worst) = self.worst
                && self.sorter.compare_rows(self.sorter.row(number), self.sorter.row(worst)).is_ge()
            {
                self.sorter.pop();
            }
        }
        match self.top {
            Some(top) if self.sorter.rows_in_memory() >= (2 * top).max(1024) => self.keep_top(top)?,
            Some(_) => {}
            None => self.sorter.sort_full()?,
        }
        if self.memory.hold(ex.cx.memory, self.sorter.bytes(), Use::Rows) {
            return Ok(());
        }
        if let Some(top) = self.top {
            self.keep_top(top)?;
            if self.memory.hold(ex.cx.memory, self.sorter.bytes(), Use::Rows) {
                return Ok(());
            }
            // The first `top` rows alone are too much: they are sorted as all others are.
            (self.top, self.worst) = (None, None);
        }
        self.phase = Phase::Spilling;
        Ok(())
    }

    /// Drops all rows but the first `top`.
    fn keep_top(&mut self, top: usize) -> Result<()> {
        self.sorter.keep_top(top)?;
        self.worst = (self.sorter.rows_in_memory() == top && top > 0).then(|| top - 1);
        Ok(())
    }
}

/// The values of those keys that are not columns.
fn compute_keys(keys: &[SortKey], scope: &mut Scope<'_>, row: &[Datum]) -> Result<smallvec::SmallVec<[Datum; 2]>> {
    let computed = keys.iter().filter(|key| !matches!(key.expr, Expr::Column(_)));
    computed.map(|key| key.expr.eval_owned(scope, row)).collect()
}

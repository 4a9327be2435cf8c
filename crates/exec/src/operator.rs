//! The seam between operators.
//!
//! An operator is made once for its node of a plan ([`super::lower`]). It refers to what it
//! evaluates, has its inputs, and remembers from step to step how far it is. A plan that is run
//! again finds its operators as they were made.
//!
//! An operator keeps a [`Run`] for each input, and a [`Batch`] that [`Run::step`] fills. On
//! [`Step::Yield`] from an input it keeps its state and returns `Step::Yield` itself.
//!
//! Invariants: [`Operator::rewind`] goes on with what an operator knows of the statement;
//! [`Operator::reset`] leaves nothing of it, and little memory. Both go for its inputs as well.

use std::time::Instant;

use colibri_types::{Datum, Result};
use smallvec::SmallVec;

use super::keyed::Prepared;
use super::sorter::KeyOrder;
use super::{Batch, Exec, Statement, Step};
use crate::explain::Usage;

/// What every operator can do.
pub(super) trait Operator: Send {
    /// Goes on: fills the batch, which is empty, with new rows.
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step>;

    /// Back to its start, with the slots as they are then.
    fn rewind(&mut self, ex: &mut Exec<'_, '_>);

    /// As it was made, for another statement.
    fn reset(&mut self);

    /// Gives back the memory of what it and its inputs keep: it is not run any more, unless it goes
    /// back to its start.
    fn give_back(&mut self, _: &mut Exec<'_, '_>) {}

    /// The order of its rows does not matter. To be called before it is run.
    fn forget_order(&mut self) {}

    /// Says which columns of its rows the reader looks at: the others may have any values. To be
    /// called before it is run.
    fn look_at(&mut self, _columns: &[usize]) {}

    /// Says that the reader ignores the rows in `Beyond` until the operator is rewound. The operator
    /// may leave them out.
    fn leave_out(&mut self, _: Beyond) {}

    /// Skips at most `rows` rows, if it can do that without making them. Returns how many it has
    /// skipped: 0 if it cannot, or has given rows already.
    fn skip(&mut self, _rows: u64, _: &mut Exec<'_, '_>) -> Result<u64> {
        Ok(0)
    }

    /// Has rows that the statement keeps computed before they are read, if there are at most
    /// `rows_max`.
    fn prepare(&mut self, _rows_max: usize, _: &mut Exec<'_, '_>) -> Result<Prepared> {
        Ok(Prepared::Ready)
    }

    /// What it keeps and has put on disk, if it is one that does.
    fn usage(&self, _: &Statement) -> Option<Usage> {
        None
    }

    /// How many rows it has written, if it is one that does.
    fn affected(&self) -> Option<u64> {
        None
    }
}

/// Rows that come too late in an order: those behind a row that has `last` in the first columns of
/// the order.
pub(super) struct Beyond {
    /// The columns' places in the row, their order, and the values of the last row.
    pub(super) last: SmallVec<[(KeyOrder, Datum); 2]>,
    /// Those with the same values come too late as well.
    pub(super) or_equal: bool,
}

impl Beyond {
    /// Whether a row comes too late. No columns but those of the order are looked at.
    #[inline]
    pub(super) fn has(&self, row: &[Datum]) -> bool {
        let mut orders = self.last.iter().map(|(key, last)| key.compare(&row[key.place], last));
        match orders.find(|order| !order.is_eq()) {
            Some(order) => order.is_gt(),
            None => self.or_equal,
        }
    }
}

/// An operator with its number.
pub(super) struct Run {
    /// In the plan's order; see [`crate::plan::Node::for_each_operator`].
    number: usize,
    operator: Box<dyn Operator>,
}

/// Stands where an operator was taken from.
struct Taken;

impl Operator for Taken {
    fn step(&mut self, _: &mut Exec<'_, '_>, _: &mut Batch) -> Result<Step> {
        Err(colibri_types::Error::internal("an operator was taken away"))
    }

    fn rewind(&mut self, _: &mut Exec<'_, '_>) {}

    fn reset(&mut self) {}
}

impl Run {
    pub(super) fn new(number: usize, operator: impl Operator + 'static) -> Self {
        Self { number, operator: Box::new(operator) }
    }

    /// Moves it elsewhere.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(0, Taken))
    }

    /// Notes what is kept of all that it gave, if the statement is watched.
    pub(super) fn note_set(&self, usage: impl FnOnce() -> Usage, ex: &mut Exec<'_, '_>) {
        if let Some(actual) = ex.statement.actual(self.number) {
            actual.set = Some(usage().or_more(actual.set));
        }
    }

    /// Goes on: fills `out` with new rows in place of those in it.
    #[inline]
    pub(super) fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if ex.statement.actuals.is_some() {
            return self.step_counted(ex, out);
        }
        self.step_plain(ex, out)
    }

    #[cold]
    fn step_counted(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let start = Instant::now();
        let step = self.step_plain(ex, out);
        let time = start.elapsed();
        let usage = self.operator.usage(ex.statement);
        if let Some(actual) = ex.statement.actual(self.number) {
            actual.loops = actual.loops.max(1);
            actual.time += time;
            if matches!(step, Ok(Step::Rows)) {
                actual.rows += out.rows() as u64;
            }
            if let Some(usage) = usage {
                actual.usage = Some(usage.or_more(actual.usage));
            }
        }
        step
    }

    #[inline]
    fn step_plain(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        ex.check_cancel()?;
        out.reset(0);
        let step = self.operator.step(ex, out)?;
        debug_assert_eq!(step == Step::Rows, !out.is_empty());
        debug_assert!(out.rows() <= out.wanted());
        Ok(step)
    }

    /// Back to its start, with the slots as they are then; what it kept is given back.
    pub(super) fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        if let Some(actual) = ex.statement.actual(self.number) {
            actual.loops += 1;
        }
        self.operator.rewind(ex);
    }

    /// See [`Operator::reset`].
    pub(super) fn reset(&mut self) {
        self.operator.reset();
    }

    /// See [`Operator::give_back`].
    pub(super) fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.operator.give_back(ex);
    }

    /// See [`Operator::look_at`].
    pub(super) fn look_at(&mut self, columns: &[usize]) {
        self.operator.look_at(columns);
    }

    /// See [`Operator::forget_order`].
    pub(super) fn forget_order(&mut self) {
        self.operator.forget_order();
    }

    /// See [`Operator::leave_out`].
    pub(super) fn leave_out(&mut self, beyond: Beyond) {
        self.operator.leave_out(beyond);
    }

    /// See [`Operator::skip`].
    pub(super) fn skip(&mut self, rows: u64, ex: &mut Exec<'_, '_>) -> Result<u64> {
        self.operator.skip(rows, ex)
    }

    /// See [`Operator::prepare`].
    pub(super) fn prepare(&mut self, rows_max: usize, ex: &mut Exec<'_, '_>) -> Result<Prepared> {
        self.operator.prepare(rows_max, ex)
    }

    /// See [`Operator::affected`].
    pub(super) fn affected(&self) -> Option<u64> {
        self.operator.affected()
    }
}

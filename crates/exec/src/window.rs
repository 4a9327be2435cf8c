//! Functions over windows: ranks, values of other rows, aggregates of frames.
//!
//! The input comes sorted, so that a partition's rows come side by side and in their order.
//!
//! ```text
//! rows:   | row | number of its group of equal ones |  ...      of one partition, kept until all
//!                                                               of its rows are given
//! frame:        head ───────────► tail                          both only move forward
//! ```
//! Where no function looks at rows behind the one at hand (`row_number()`, running sums), nothing
//! is kept: each row goes on as it comes. There a call may have a bound ([`crate::plan::Most`]): once
//! it gives more, the partition's other rows are left out, and without partitions the window ends.
//!
//! Invariants: expressions were computed by the operator below; what is looked at here are columns,
//! and values that are the same for all rows. So nothing interrupts a row.

mod call;
mod frame;
mod place;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use colibri_types::{Datum, Result};

use self::call::{Call, Source};
use self::place::{Place, Rows};
use super::batch::BATCH_ROWS_MAX;
use super::group::equal_key;
use super::memory::Reservation;
use super::operator::{Operator, Run};
use super::{Batch, Exec, Statement, Step, row_bytes};
use crate::eval::Evaluate as _;
use crate::explain::{Spilled, Usage};
use crate::expr::Expr;
use crate::plan::{SortKey, WindowCall};

/// Bytes of values in a batch after which no row is added to it: the arrays and texts that
/// aggregates give may be as large as their partition, for each of its rows.
const GIVEN_BYTES_MAX: usize = 256 << 10;

/// Functions over a window.
pub(super) struct Window {
    by: WindowBy,
    run: WindowRun,
}

/// What makes a window, and what is called over it.
struct WindowBy {
    partition: Arc<[usize]>,
    order: Arc<[SortKey]>,
    calls: Arc<[WindowCall]>,
    /// No call looks at rows behind the one at hand.
    streams: bool,
}

/// Functions over a window at work.
struct WindowRun {
    input: Run,
    fresh: Batch,
    /// Rows of `fresh` that are taken.
    taken: usize,
    is_begun: bool,
    /// The input has no more rows.
    is_done: bool,
    /// All rows of the partition are there.
    is_whole: bool,
    calls: Vec<Call>,
    /// The partition's rows; none of them where nothing has to be kept.
    rows: Rows,
    /// The row at hand. Where nothing is kept it is the last one that came.
    place: Place,
    /// What the last row that was taken has in the columns of the partition and of the order.
    last: Vec<Datum>,
    last_group: i64,
    /// The rows that are left of the partition are of no interest to anybody.
    is_past: bool,
    row: Vec<Datum>,
    /// Bytes of the values that the batch at hand was given.
    given_bytes: usize,
    memory: Reservation,
}

impl Window {
    pub(super) fn new(input: Run, partition: &Arc<[usize]>, order: &Arc<[SortKey]>, calls: &Arc<[WindowCall]>) -> Self {
        let (partition, order, calls) = (Arc::clone(partition), Arc::clone(order), Arc::clone(calls));
        let streams = calls.iter().all(WindowCall::looks_back_only);
        Self { by: WindowBy { partition, order, calls, streams }, run: WindowRun::new(input) }
    }
}

impl Operator for Window {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if !self.run.is_begun {
            self.run.begin(&self.by, ex)?;
        }
        if self.by.streams { self.run.stream(&self.by, ex, out) } else { self.run.step(&self.by, ex, out) }
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
        self.run.rows.clear();
        self.run.calls.clear();
        self.run.memory.release();
    }

    fn usage(&self, _: &Statement) -> Option<Usage> {
        let (disk_bytes, memory_bytes) = self.run.rows.usage();
        let spilled = Spilled { memory_bytes: memory_bytes as u64, disk_bytes, batches: 0 };
        (disk_bytes > 0).then_some(Usage::Rows(spilled))
    }
}

/// The column of a key.
fn column_of(key: &SortKey) -> usize {
    if let Expr::Column(column) = key.expr { column } else { usize::MAX }
}

impl WindowBy {
    /// The columns of the partition and then those of the order.
    fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.partition.iter().copied().chain(self.order.iter().map(column_of))
    }

    /// How a row differs from the one before: whether it begins a partition, and a group of rows
    /// that are equal in the order.
    fn begins(&self, last: &[Datum], row: &[Datum]) -> (bool, bool) {
        if last.len() < self.partition.len() + self.order.len() {
            return (true, true);
        }
        let is_same = |(column, last): (usize, &Datum)| row.get(column).is_some_and(|value| equal_key(value, last));
        let mut pairs = self.columns().zip(last);
        let partition = pairs.by_ref().take(self.partition.len()).all(is_same);
        let group = partition && pairs.all(is_same);
        (!partition, !group)
    }
}

impl WindowRun {
    fn new(input: Run) -> Self {
        Self {
            input,
            fresh: Batch::new(),
            taken: 0,
            is_begun: false,
            is_done: false,
            is_whole: false,
            calls: Vec::new(),
            rows: Rows::default(),
            place: Place::default(),
            last: Vec::new(),
            last_group: 0,
            is_past: false,
            row: Vec::new(),
            given_bytes: 0,
            memory: Reservation::default(),
        }
    }

    /// Back to the start, but for the input.
    fn forget(&mut self) {
        let fresh = std::mem::take(&mut self.fresh).kept();
        *self = Self { fresh, ..Self::new(self.input.take()) };
    }

    fn begin(&mut self, by: &WindowBy, ex: &mut Exec<'_, '_>) -> Result<()> {
        let mut source = |expr: &Expr| match expr {
            Expr::Column(column) => Ok(Source::Column(*column)),
            fixed => fixed.eval_owned(&mut ex.scope(), &[]).map(Source::Value),
        };
        let mut calls = Vec::with_capacity(by.calls.len());
        for call in by.calls.iter() {
            calls.push(Call::new(call, &by.order, calls.len(), &mut source)?);
        }
        self.rows = Rows::of_calls(calls.len());
        (self.calls, self.is_begun) = (calls, true);
        Ok(())
    }

    /// Notes what a row has in the columns of the partition and of the order.
    fn note_last(last: &mut Vec<Datum>, by: &WindowBy, row: &[Datum]) {
        last.clear();
        last.extend(by.columns().map(|column| row.get(column).cloned().unwrap_or_default()));
    }

    /// Each row as it comes.
    fn stream(&mut self, by: &WindowBy, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        loop {
            if self.is_done {
                return Ok(Step::Done);
            }
            if self.taken == self.fresh.rows() {
                self.taken = 0;
                self.fresh.want(out.rows_max());
                match self.input.step(ex, &mut self.fresh)? {
                    Step::Rows => {}
                    other => {
                        self.fresh.reset(0);
                        return Ok(other);
                    }
                }
            }
            self.stream_rows(by, ex, out)?;
            if !out.is_empty() {
                self.hold(ex)?;
                return Ok(Step::Rows);
            }
            // All of them were of no interest.
            if ex.is_used_up() {
                return Ok(Step::Yield);
            }
        }
    }

    /// Gives rows of `fresh`.
    fn stream_rows(&mut self, by: &WindowBy, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<()> {
        let width = self.fresh.width();
        out.reset(width + self.calls.len());
        self.given_bytes = 0;
        while self.taken < self.fresh.rows() && !self.is_filled(out) {
            let row = self.fresh.row(self.taken);
            self.taken += 1;
            let (begins_partition, begins_group) = match self.place.len {
                0 => (true, true),
                _ => by.begins(&self.last, row),
            };
            if begins_partition {
                self.place = Place::default();
                self.is_past = false;
                self.calls.iter_mut().for_each(Call::start_over);
            }
            if self.is_past {
                continue;
            }
            if begins_group {
                Self::note_last(&mut self.last, by, row);
                self.place.begin_group();
            }
            self.place.at = self.place.len;
            self.place.len += 1;
            let new = out.push();
            for (value, call) in new[width..].iter_mut().zip(&mut self.calls) {
                *value = call.next(&self.place, row, ex.cx.env)?;
                self.is_past |= call.is_past(value);
            }
            if self.is_past {
                out.pop();
                if by.partition.is_empty() {
                    self.is_done = true;
                    self.input.give_back(ex);
                    return Ok(());
                }
                continue;
            }
            new[..width].clone_from_slice(row);
            self.given_bytes += row_bytes(new);
        }
        Ok(())
    }

    /// Whether a batch is to be handed on before it gets another row.
    fn is_filled(&self, out: &Batch) -> bool {
        out.is_full() || self.given_bytes >= GIVEN_BYTES_MAX
    }

    /// Partition by partition.
    fn step(&mut self, by: &WindowBy, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        loop {
            if ex.is_used_up() {
                return Ok(if out.is_empty() { Step::Yield } else { Step::Rows });
            }
            if self.is_whole {
                self.give(by, ex, out)?;
                self.hold(ex)?;
                if self.is_filled(out) {
                    return Ok(Step::Rows);
                }
            } else if self.taken < self.fresh.rows() {
                self.take(by, ex)?;
            } else if self.is_done {
                return Ok(if out.is_empty() { Step::Done } else { Step::Rows });
            } else {
                self.taken = 0;
                self.fresh.want(BATCH_ROWS_MAX);
                match self.input.step(ex, &mut self.fresh)? {
                    Step::Rows => {}
                    Step::Yield => self.fresh.reset(0),
                    Step::Done => {
                        self.fresh.reset(0);
                        self.input.give_back(ex);
                        self.is_done = true;
                        self.is_whole = self.rows.len() > 0;
                    }
                }
                if self.fresh.is_empty() && !self.is_done {
                    return Ok(if out.is_empty() { Step::Yield } else { Step::Rows });
                }
            }
        }
    }

    /// Takes rows of `fresh` into the partition, up to its end.
    fn take(&mut self, by: &WindowBy, ex: &mut Exec<'_, '_>) -> Result<()> {
        while self.taken < self.fresh.rows() {
            let row = self.fresh.row_mut(self.taken);
            let (begins_partition, begins_group) = match self.rows.len() {
                0 => (false, true),
                _ => by.begins(&self.last, row),
            };
            if begins_partition {
                self.is_whole = true;
                return Ok(());
            }
            if begins_group {
                self.last_group = if self.rows.len() == 0 { 0 } else { self.last_group + 1 };
                Self::note_last(&mut self.last, by, row);
            }
            self.row.clear();
            self.row.extend(row.iter_mut().map(std::mem::take));
            self.row.push(Datum::Int(self.last_group));
            self.rows.push(ex.cx.memory, &mut self.row)?;
            self.taken += 1;
        }
        ex.spend(self.fresh.rows());
        Ok(())
    }

    /// Gives rows of the partition; behind its last one it is empty again.
    fn give(&mut self, by: &WindowBy, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<()> {
        let width = self.rows.width() - 1;
        if out.is_empty() {
            out.reset(width + self.calls.len());
            self.given_bytes = 0;
        }
        let (before, len) = (out.rows(), self.rows.len());
        while self.place.at < len && !self.is_filled(out) {
            let new = out.push();
            let row = self.rows.row(Rows::AT_HAND, self.place.at)?;
            new[..width].clone_from_slice(&row[..width]);
            self.place.arrive(len, by.order.is_empty(), place::group_of(row));
            if self.place.at == 0 {
                for call in &mut self.calls {
                    call.begin(&new[..width])?;
                }
            }
            for (at, call) in self.calls.iter_mut().enumerate() {
                new[width + at] = call.value(&mut self.place, &mut self.rows, &new[..width], ex.cx.env)?;
            }
            self.given_bytes += row_bytes(new);
            self.place.at += 1;
        }
        ex.spend(out.rows() - before);
        if self.place.at == self.rows.len() {
            self.rows.clear();
            self.place = Place::default();
            self.is_whole = self.is_done && self.rows.len() > 0;
        }
        Ok(())
    }

    /// Tells how much the aggregates keep, and the batch at hand.
    fn hold(&mut self, ex: &mut Exec<'_, '_>) -> Result<()> {
        let kept: usize = self.calls.iter().map(Call::heap_bytes).sum();
        self.memory.hold_all(ex.cx.memory, kept + self.given_bytes)
    }
}

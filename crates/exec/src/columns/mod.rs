//! Groupings on column vectors.
//!
//! ```text
//! rows of the table ──► vectors of the columns that are needed, 1,024 rows at a time
//!                       the filter's steps ──► which rows are kept ──► vectors of these
//!                       the other steps    ──► keys, arguments
//!                       keys ──► groups    arguments ──► totals of each group
//! groups and totals ──► the grouping's own groups and states, when they are many, or all is read
//! ```
//! Which groupings there are is decided by the plan ([`crate::plan::columns`]). A batch that does
//! not go through (a numeric of another scale, an overflow, a division by zero, a damaged row)
//! *gives up*: the rows of its ranges are read and evaluated one by one, as if there were no
//! vectors. So errors are those of evaluating rows, and come for the same rows. Where batches give
//! up often, the rest is left to rows.
//!
//! Invariants:
//! 1. A row is taken in once: by vectors, or by rows. What a batch has read is taken in as a whole,
//!    or left as a whole.
//! 2. Groups that are in vectors are handed on before rows are read one by one, and before groups
//!    of jobs are taken in: so groups come in the order of their first rows.
//! 3. Memory is bounded: a batch, and [`GROUPS_MAX`] groups.

mod groups;
mod kernels;
mod program;
mod scan;
#[cfg(test)]
mod tests;
mod totals;

use std::sync::Arc;

use colibri_types::aggregates::State;
use colibri_types::column_vector::ColumnVector;
use colibri_types::{Datum, Env, Result};

use groups::ColumnGroups;
use program::Registers;
pub(super) use scan::Spans;
use scan::{ColumnScan, Filled};
use totals::Totals;

use crate::Exec;
use crate::plan::AggregateCall;
use crate::plan::columns::Columns as Plan;
use crate::ranges::{Ranges, key_ranges};

/// Groups that are kept in vectors before they are handed on.
const GROUPS_MAX: usize = if cfg!(test) { 8 } else { 16 << 10 };
/// Bytes of groups from which on they are handed on.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// Batches that may give up before it counts how many do.
const GIVEN_UP_MIN: usize = 4;

/// What a grouping on vectors has come to.
pub(super) enum Progress {
    /// The budget is used up.
    Yield,
    /// A batch was taken in.
    Taken,
    /// Groups are to be handed on; then it goes on.
    Full,
    /// The rows of these ranges are to be read one by one, groups handed on first; then it goes on.
    GaveUp(Spans),
    /// All is read. Groups are to be handed on.
    All,
    /// There is nothing to read by ranges: rows are to be read one by one, all of them.
    Rows,
}

/// What comes behind rows that were read one by one, because a batch gave up.
pub(super) enum BehindRows {
    /// The next batch.
    Batches,
    /// The rows of these ranges, one by one.
    Rows(Spans),
    /// Nothing: all is read.
    Nothing,
}

/// How a grouping is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Nothing was read yet.
    Start,
    /// On vectors.
    Batches,
    /// On rows, for the ranges of a batch.
    RowsOfBatch,
    /// On rows, from here on.
    Rows,
}

/// A grouping on vectors, at work.
pub(super) struct Columns {
    plan: Arc<Plan>,
    scan: ColumnScan,
    filter: Registers,
    rest: Registers,
    /// Rows that are kept, and their vectors.
    kept: Vec<u32>,
    picked: Vec<ColumnVector>,
    groups: ColumnGroups,
    totals: Totals,
    mode: Mode,
    /// No batch follows the rows that are read one by one.
    is_last: bool,
    /// The next group to hand on.
    handed: usize,
    batches: usize,
    given_up: usize,
    /// The number of the first operator below the grouping.
    input: usize,
}

impl Columns {
    /// `input` is the number of the first operator below the grouping.
    pub(super) fn new(plan: &Arc<Plan>, calls: &[AggregateCall], input: usize) -> Option<Self> {
        Some(Self {
            scan: ColumnScan::new(&plan.scan.table, plan.scan.depends, &plan.read)?,
            filter: Registers::default(),
            rest: Registers::default(),
            kept: Vec::new(),
            picked: Vec::new(),
            groups: ColumnGroups::new(),
            totals: Totals::new(calls, &plan.calls),
            mode: Mode::Start,
            is_last: false,
            handed: 0,
            batches: 0,
            given_up: 0,
            plan: Arc::clone(plan),
            input,
        })
    }

    /// Rows are read one by one, all of them.
    pub(super) fn leave_to_rows(&mut self) {
        self.mode = Mode::Rows;
    }

    /// As it was made, for another run.
    pub(super) fn forget(self, calls: &[AggregateCall]) -> Option<Self> {
        Self::new(&self.plan, calls, self.input)
    }

    /// Whether it is to go on, rather than the rows below.
    pub(super) fn is_at_work(&self) -> bool {
        matches!(self.mode, Mode::Start | Mode::Batches)
    }

    /// What comes behind rows that were read one by one.
    pub(super) fn behind_rows(&mut self) -> BehindRows {
        match self.mode {
            Mode::RowsOfBatch if self.is_last => match self.turn_off() {
                Some(spans) => BehindRows::Rows(spans),
                None => BehindRows::Nothing,
            },
            Mode::RowsOfBatch => {
                self.mode = Mode::Batches;
                self.scan.next_batch();
                BehindRows::Batches
            }
            _ => BehindRows::Nothing,
        }
    }

    /// No group is to be added any more. What is read one by one now is read to its end.
    pub(super) fn add_no_more(&mut self) {
        self.is_last = true;
    }

    /// Other ranges are to be read, of the same run.
    pub(super) fn begin_again(&mut self) {
        if self.mode != Mode::Rows {
            self.mode = Mode::Start;
        }
    }

    /// Rows are read one by one from here on. Gives the ranges that are left, between two batches;
    /// nothing if all are.
    pub(super) fn turn_off(&mut self) -> Option<Spans> {
        let before = std::mem::replace(&mut self.mode, Mode::Rows);
        if before == Mode::Start {
            return None;
        }
        self.scan.next_batch();
        Some(self.scan.spans_from_batch())
    }

    /// Whether there are groups to hand on.
    pub(super) fn has_groups(&self) -> bool {
        self.groups.len() > 0
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.groups.bytes() + self.totals.bytes() + self.scan.bytes()
    }

    /// Gives the memory of groups and batches back. There are no groups to hand on, and no batch
    /// that is read.
    pub(super) fn give_back(&mut self, calls: &[AggregateCall]) {
        self.groups = ColumnGroups::new();
        self.totals = Totals::new(calls, &self.plan.calls);
        self.picked = Vec::new();
        self.scan.give_back();
    }

    /// Goes on. `ranges` is what it is to read, if that is known.
    ///
    /// # Errors
    /// Of the transaction; the statement was cancelled.
    pub(super) fn step(&mut self, ranges: impl FnOnce() -> Option<Ranges>, ex: &mut Exec<'_, '_>) -> Result<Progress> {
        if self.mode == Mode::Start && !self.start(ranges, ex)? {
            self.mode = Mode::Rows;
            return Ok(Progress::Rows);
        }
        let filled = self.scan.fill(ex)?;
        if filled == Filled::Yield {
            return Ok(Progress::Yield);
        }
        if filled == Filled::Odd || !self.take(ex)? {
            return Ok(self.give_up());
        }
        self.scan.next_batch();
        self.batches += 1;
        if filled == Filled::All {
            return Ok(Progress::All);
        }
        let is_full = self.groups.len() >= GROUPS_MAX || self.groups.bytes() + self.totals.bytes() >= GROUP_BYTES_MAX;
        Ok(if is_full { Progress::Full } else { Progress::Taken })
    }

    /// Begins to read; `false` if that is not by ranges.
    fn start(&mut self, ranges: impl FnOnce() -> Option<Ranges>, ex: &mut Exec<'_, '_>) -> Result<bool> {
        if ex.txn.fetches() {
            return Ok(false);
        }
        let scan = &self.plan.scan;
        let ranges = match ranges() {
            Some(ranges) => ranges,
            None => key_ranges(&scan.table, &scan.access, &mut ex.scope())?,
        };
        let Ranges::Spans(spans) = ranges else { return Ok(false) };
        if !self.filter.settle(&self.plan.filter, &mut ex.scope())
            || !self.rest.settle(&self.plan.rest, &mut ex.scope())
        {
            return Ok(false);
        }
        self.scan.begin(spans);
        self.mode = Mode::Batches;
        Ok(true)
    }

    fn give_up(&mut self) -> Progress {
        self.given_up += 1;
        let is_often = self.given_up >= GIVEN_UP_MIN && self.given_up * 4 > self.batches;
        let spans = if is_often { self.scan.spans_from_batch() } else { self.scan.spans_of_batch() };
        self.mode = if is_often { Mode::Rows } else { Mode::RowsOfBatch };
        Progress::GaveUp(spans)
    }

    /// Takes the batch in; `false` if it gives up.
    fn take(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        let Self { plan, scan, filter, rest, kept, picked, groups, totals, .. } = self;
        let (mut columns, mut rows) = scan.batch();
        if !plan.conditions.is_empty() {
            if !filter.run(&plan.filter, columns, rows)? || !filter.select(&plan.conditions, columns, rows, kept) {
                return Ok(false);
            }
            if kept.len() < rows {
                if picked.len() != columns.len() {
                    *picked = columns.iter().map(ColumnVector::empty).collect();
                }
                for (column, picked) in columns.iter().zip(picked.iter_mut()) {
                    column.pick(kept, picked);
                }
                (columns, rows) = (picked, kept.len());
            }
        }
        if rows == 0 {
            return Ok(true);
        }
        if !rest.run(&plan.rest, columns, rows)? {
            return Ok(false);
        }
        let keys: Option<Vec<&ColumnVector>> = plan.keys.iter().map(|&key| rest.vector(key, columns)).collect();
        let Some(keys) = keys else { return Ok(false) };
        let of = |register: Option<usize>| register.and_then(|register| rest.vector(register, columns));
        if !totals.take(totals.inputs().map(|(_, input)| of(input))) || !groups.assign(&keys, rows) {
            return Ok(false);
        }
        let inputs: Vec<_> = totals.inputs().collect();
        for (at, (condition, input)) in inputs.into_iter().enumerate() {
            totals.update(at, of(input), of(condition), (groups.numbers(), groups.len()), ex.cx.env)?;
        }
        for operator in self.input..=self.input + plan.between {
            if let Some(actual) = ex.statement.actual(operator) {
                actual.loops = actual.loops.max(1);
                actual.rows += rows as u64;
            }
        }
        Ok(true)
    }

    /// Hands groups on, about `groups_max` of them: their keys, and the states of `calls`. `false`
    /// if there are more.
    ///
    /// # Errors
    /// Those of `take`.
    pub(super) fn hand_on(
        &mut self,
        calls: &[AggregateCall],
        groups_max: usize,
        mut take: impl FnMut(&[Datum], &mut [State]) -> Result<()>,
    ) -> Result<bool> {
        let (mut key, mut states) = (Vec::new(), Vec::new());
        let end = self.groups.len().min(self.handed + groups_max.max(1));
        while self.handed < end {
            self.groups.key(self.handed, &mut key);
            self.totals.states(self.handed, calls, &mut states)?;
            take(&key, &mut states)?;
            self.handed += 1;
        }
        if self.handed < self.groups.len() {
            return Ok(false);
        }
        self.groups.clear();
        self.totals.clear();
        self.handed = 0;
        Ok(true)
    }
}

/// What rows of groups are put together in.
pub(super) fn combine(states: &mut [State], others: &[State], env: &Env) -> Result<()> {
    states.iter_mut().zip(others).try_for_each(|(state, other)| state.combine(other, env))
}

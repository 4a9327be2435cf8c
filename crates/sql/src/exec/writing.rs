//! The course that INSERT, UPDATE and DELETE have in common.
//!
//! Rows of the source are dealt with as they come (the statement streams), or collected first, so that it does not meet
//! its own changes. When all are done, what had to wait for the end of the statement is checked; then RETURNING's rows
//! are given.
//!
//! Invariants: no row of RETURNING is given before all has been written. A step ends at the budget, between two batches;
//! what was done stays done.

use colibri_types::{Datum, Result};
use smallvec::SmallVec;

use super::row_store::RowStore;
use super::{Batch, Exec, Run, Step, operator_cache, row_bytes};
use crate::expr::Expr;
use crate::plan::Node;

/// What a statement does with the rows of its source.
pub(super) trait Changes {
    /// Deals with a batch of rows, and counts those affected.
    fn change(&mut self, ex: &mut Exec<'_, '_>, rows: &mut Batch, outcome: &mut Outcome) -> Result<()>;

    /// What is left to do at the end of the statement; `false` if the budget is used up and there is more.
    fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool>;
}

/// What has come of a statement.
#[derive(Default)]
pub(super) struct Outcome {
    /// Rows inserted, changed or deleted, those by actions of foreign keys not counted.
    pub(super) affected: u64,
    pub(super) returned: Returned,
}

/// How far a statement has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    Writing,
    Finishing,
    Returning,
}

/// A statement on its course.
pub(super) struct Course {
    source: Run,
    input: Batch,
    /// Rows collected, and how many of these batches are done.
    batches: Vec<Batch>,
    done: usize,
    bytes: usize,
    phase: Phase,
    streams: bool,
    pub(super) outcome: Outcome,
}

impl Course {
    /// `streams`: rows are dealt with as they come.
    pub(super) fn new(source: &Node, streams: bool) -> Self {
        Self {
            source: Run::new(source),
            input: Batch::new(),
            batches: Vec::new(),
            done: 0,
            bytes: 0,
            phase: Phase::Reading,
            streams,
            outcome: Outcome::default(),
        }
    }

    pub(super) fn again(&mut self, source: &Node) -> bool {
        self.input = std::mem::take(&mut self.input).kept();
        operator_cache::empty(&mut self.batches);
        (self.done, self.bytes) = (0, 0);
        self.phase = Phase::Reading;
        self.outcome.affected = 0;
        self.outcome.returned.again();
        self.source.again(source)
    }

    pub(super) fn step(
        &mut self,
        source: &Node,
        changes: &mut impl Changes,
        ex: &mut Exec<'_, '_>,
        out: &mut Batch,
    ) -> Result<Step> {
        loop {
            match self.phase {
                Phase::Reading => match self.source.step(source, ex, &mut self.input)? {
                    Step::Yield => return Ok(Step::Yield),
                    Step::Done => self.phase = Phase::Writing,
                    Step::Rows if self.streams => {
                        ex.spend(self.input.rows());
                        changes.change(ex, &mut self.input, &mut self.outcome)?;
                    }
                    Step::Rows => {
                        let batch = std::mem::take(&mut self.input);
                        let bytes = batch.iter().map(row_bytes).sum();
                        self.bytes += bytes;
                        ex.take_memory(bytes)?;
                        self.batches.push(batch);
                    }
                },
                Phase::Writing => {
                    if let Some(batch) = self.batches.get_mut(self.done) {
                        let mut batch = std::mem::take(batch);
                        ex.spend(batch.rows());
                        changes.change(ex, &mut batch, &mut self.outcome)?;
                        self.done += 1;
                    }
                    if self.done >= self.batches.len() {
                        ex.give_memory(std::mem::take(&mut self.bytes));
                        self.phase = Phase::Finishing;
                    }
                }
                Phase::Finishing => {
                    if !changes.finish(ex)? {
                        return Ok(Step::Yield);
                    }
                    self.phase = Phase::Returning;
                }
                Phase::Returning => return Ok(self.outcome.returned.give(ex, out)),
            }
            ex.check_cancel()?;
            if ex.is_used_up() && self.phase != Phase::Returning {
                return Ok(Step::Yield);
            }
        }
    }
}

/// Rows of RETURNING, kept until the statement has written all of its own.
#[derive(Default)]
pub(super) struct Returned {
    rows: RowStore<Datum>,
    given: usize,
    bytes: usize,
}

impl Returned {
    fn again(&mut self) {
        self.rows.again();
        (self.given, self.bytes) = (0, 0);
    }

    /// Evaluates RETURNING on a row.
    pub(super) fn push(&mut self, ex: &mut Exec<'_, '_>, exprs: &[Expr], row: &[Datum]) -> Result<()> {
        if self.rows.len() == 0 && self.rows.width() != exprs.len() {
            self.rows = RowStore::new(exprs.len());
        }
        let mut values: SmallVec<[Datum; 4]> = SmallVec::new();
        for expr in exprs {
            values.push(expr.eval_owned(&mut ex.scope(), row)?);
        }
        let bytes = row_bytes(&values);
        self.rows.push(values);
        self.bytes += bytes;
        ex.take_memory(bytes)
    }

    /// Fills a batch with rows not given yet.
    pub(super) fn give(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Step {
        if self.given == self.rows.len() {
            ex.give_memory(std::mem::take(&mut self.bytes));
            return Step::Done;
        }
        out.reset(self.rows.width());
        while self.given < self.rows.len() && !out.is_full() {
            out.push_taken(self.rows.row_mut(self.given));
            self.given += 1;
        }
        Step::Rows
    }
}

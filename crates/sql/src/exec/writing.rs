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

use super::batch::BATCH_ROWS_MAX;
use super::spill::KeptRows;
use super::{Batch, Exec, Run, Step};
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
    /// Rows collected, and how many of these are done.
    collected: KeptRows,
    done: usize,
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
            collected: KeptRows::default(),
            done: 0,
            phase: Phase::Reading,
            streams,
            outcome: Outcome::default(),
        }
    }

    pub(super) fn again(&mut self, source: &Node) -> bool {
        self.input = std::mem::take(&mut self.input).kept();
        self.collected.again();
        self.done = 0;
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
                        for index in 0..self.input.rows() {
                            self.collected.push(ex.cx.memory, self.input.row_mut(index))?;
                        }
                    }
                },
                Phase::Writing => {
                    let end = self.collected.len().min(self.done + BATCH_ROWS_MAX);
                    if self.done < end {
                        self.input.reset(self.collected.width());
                        for index in self.done..end {
                            self.collected.read(index, self.input.push(), true)?;
                        }
                        self.done = end;
                        ex.spend(self.input.rows());
                        changes.change(ex, &mut self.input, &mut self.outcome)?;
                    }
                    if self.done == self.collected.len() {
                        self.collected.again();
                        self.done = 0;
                        self.phase = Phase::Finishing;
                    }
                }
                Phase::Finishing => {
                    if !changes.finish(ex)? {
                        return Ok(Step::Yield);
                    }
                    self.phase = Phase::Returning;
                }
                Phase::Returning => return self.outcome.returned.give(ex, out),
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
    rows: KeptRows,
    given: usize,
}

impl Returned {
    fn again(&mut self) {
        self.rows.again();
        self.given = 0;
    }

    /// Evaluates RETURNING on a row.
    pub(super) fn push(&mut self, ex: &mut Exec<'_, '_>, exprs: &[Expr], row: &[Datum]) -> Result<()> {
        let mut values: SmallVec<[Datum; 4]> = SmallVec::new();
        for expr in exprs {
            values.push(expr.eval_owned(&mut ex.scope(), row)?);
        }
        self.rows.push(ex.cx.memory, &mut values)
    }

    /// Fills a batch with rows not given yet.
    pub(super) fn give(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if self.given == self.rows.len() {
            return Ok(Step::Done);
        }
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        out.reset(self.rows.width());
        while self.given < self.rows.len() && !out.is_full() {
            self.rows.read(self.given, out.push(), true)?;
            self.given += 1;
        }
        ex.spend(out.rows());
        Ok(Step::Rows)
    }
}

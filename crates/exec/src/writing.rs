//! The course that INSERT, UPDATE and DELETE have in common.
//!
//! Rows of the source are dealt with as they come (the statement streams), or collected first, so
//! that it does not meet its own changes. When all are done, what had to wait for the end of the
//! statement is checked; then RETURNING's rows are given.
//!
//! Invariants: no row of RETURNING is given before all has been written. A step ends at the budget,
//! between two batches; what was done stays done. Where something has to be fetched in the middle
//! of a row, the row is taken back to a savepoint, and the next step begins with it.

use colibri_catalog::{store_error, store_error::InSql as _};
use colibri_types::{Datum, Result};
use smallvec::SmallVec;

use super::batch::BATCH_ROWS_MAX;
use super::constraints::references::Mark;
use super::operator::{Operator, Run};
use super::spill::KeptRows;
use super::{Batch, Exec, Statement, Step};
use crate::eval::Evaluate as _;
use crate::explain::{Spilled, Usage};
use crate::expr::Expr;

/// What a statement does with the rows of its source.
pub(super) trait Changes {
    /// Deals with one row of a batch, and counts it if it is affected. It does so last, and leaves
    /// the row as it was if it fails.
    fn change(&mut self, ex: &mut Exec<'_, '_>, rows: &mut Batch, at: usize, outcome: &mut Outcome) -> Result<()>;

    /// What the rows so far have left to be done, for [`Changes::take_back`].
    fn mark(&self) -> Mark;

    /// Forgets what a row that failed has left to be done.
    fn take_back(&mut self, mark: Mark);

    /// What is left to do at the end of the statement; `false` if the budget is used up and there
    /// is more. After an error that says to fetch it goes on where it was.
    fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool>;

    /// Back to the start.
    fn forget(&mut self);
}

/// INSERT, UPDATE or DELETE at work.
pub(super) struct ChangeRun<C> {
    course: Course,
    changes: C,
}

impl<C: Changes> ChangeRun<C> {
    /// `streams`: rows are dealt with as they come.
    pub(super) fn over(source: Run, streams: bool, changes: C) -> Self {
        Self { course: Course::new(source, streams), changes }
    }

    fn forget(&mut self) {
        self.changes.forget();
        self.course.forget();
    }
}

impl<C: Changes + Send> Operator for ChangeRun<C> {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        self.course.step(&mut self.changes, ex, out)
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.forget();
        self.course.source.rewind(ex);
    }

    fn reset(&mut self) {
        self.forget();
        self.course.source.reset();
    }

    fn usage(&self, _: &Statement) -> Option<Usage> {
        Some(self.course.usage())
    }

    fn affected(&self) -> Option<u64> {
        Some(self.course.outcome.affected)
    }
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
struct Course {
    source: Run,
    input: Batch,
    /// How many rows of the input at hand are written.
    at: usize,
    /// Rows collected, and how many of these are done.
    collected: KeptRows,
    /// The bytes that they took on disk, and the most in memory, once all are done.
    took: (u64, usize),
    done: usize,
    phase: Phase,
    streams: bool,
    outcome: Outcome,
}

impl Course {
    fn new(source: Run, streams: bool) -> Self {
        Self {
            source,
            input: Batch::new(),
            at: 0,
            collected: KeptRows::default(),
            took: (0, 0),
            done: 0,
            phase: Phase::Reading,
            streams,
            outcome: Outcome::default(),
        }
    }

    /// Back to the start, but for the source.
    fn forget(&mut self) {
        self.input = std::mem::take(&mut self.input).kept();
        self.at = 0;
        self.collected.again();
        self.took = (0, 0);
        self.done = 0;
        self.phase = Phase::Reading;
        self.outcome.affected = 0;
        self.outcome.returned.again();
    }

    /// What was kept of rows to be written and rows to be given.
    fn usage(&self) -> Usage {
        let all = [self.took, self.collected.usage(), self.outcome.returned.rows.usage()];
        let disk_bytes = all.iter().map(|(on_disk, _)| on_disk).sum();
        let memory_bytes = all.iter().map(|(_, in_memory)| *in_memory as u64).max().unwrap_or(0);
        Usage::Rows(Spilled { memory_bytes, disk_bytes, batches: 1 })
    }

    /// Writes the rows of the input at hand that are not written yet. A row that something has to
    /// be fetched for is taken back, and is the next one to be written.
    fn change_rows(&mut self, changes: &mut impl Changes, ex: &mut Exec<'_, '_>) -> Result<()> {
        let fetches = ex.txn.fetches();
        while self.at < self.input.rows() {
            let before = fetches.then(|| (ex.txn.savepoint(), changes.mark()));
            if let Err(error) = changes.change(ex, &mut self.input, self.at, &mut self.outcome) {
                if let (Some((savepoint, mark)), true) = (before, store_error::is_fetch(&error)) {
                    ex.txn.rollback_to(savepoint).in_sql()?;
                    changes.take_back(mark);
                }
                return Err(error);
            }
            self.at += 1;
        }
        Ok(())
    }

    fn step(&mut self, changes: &mut impl Changes, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        loop {
            match self.phase {
                Phase::Reading | Phase::Writing if self.at < self.input.rows() => {
                    if let Err(error) = ex.seeing_all(|ex| self.change_rows(changes, ex)) {
                        return ex.interrupted(error, out);
                    }
                }
                Phase::Reading => match self.source.step(ex, &mut self.input)? {
                    Step::Yield => {
                        self.at = self.input.rows();
                        return Ok(Step::Yield);
                    }
                    Step::Done => {
                        self.at = self.input.rows();
                        self.phase = Phase::Writing;
                    }
                    Step::Rows if self.streams => {
                        self.at = 0;
                        ex.spend(self.input.rows());
                        continue;
                    }
                    Step::Rows => {
                        self.at = self.input.rows();
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
                        self.at = 0;
                        ex.spend(self.input.rows());
                        continue;
                    }
                    self.took = self.collected.usage();
                    self.collected.again();
                    self.done = 0;
                    self.phase = Phase::Finishing;
                }
                Phase::Finishing => match ex.seeing_all(|ex| changes.finish(ex)) {
                    Ok(true) => self.phase = Phase::Returning,
                    Ok(false) => return Ok(Step::Yield),
                    Err(error) => return ex.interrupted(error, out),
                },
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

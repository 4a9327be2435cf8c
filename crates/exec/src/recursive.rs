//! WITH RECURSIVE: a query that refers to itself, and the rows that it refers to.
//!
//! ```text
//! round 0: first term             -> rows, given and kept
//! round n: again(rows kept by the round before) -> rows, given and kept
//! ```
//! until a round gives nothing. Rows are given on as they are made, so that a LIMIT above ends an
//! endless one.
//!
//! Invariants: the rows of the last round lie with the statement only while `again` takes a step,
//! so that queries of one number may be at work side by side; all of `again` goes back to its start
//! with each round; what a round begins costs budget, whether it gives rows or not.

use colibri_types::{Error, Result};

use super::operator::{Operator, Run};
use super::seen_keys::SeenKeys;
use super::spill::KeptRows;
use super::{Batch, Exec, Statement, Step};
use crate::explain::{Spilled, Usage};

/// What going back to the start costs, in rows.
const ROWS_PER_ROUND: usize = 8;

/// A recursive query at work.
pub(super) struct RecursiveRun {
    id: usize,
    all: bool,
    columns: usize,
    first: Run,
    again: Run,
    at_first: bool,
    /// The term that refers to the query has run before: it has to go back to its start.
    has_run_again: bool,
    done: bool,
    /// What the round at hand reads.
    last: KeptRows,
    /// What it gave so far.
    fresh: KeptRows,
    /// All rows so far, where none is given twice.
    seen: Option<SeenKeys>,
}

impl RecursiveRun {
    pub(super) fn new((first, again): (Run, Run), id: usize, all: bool, columns: usize) -> Self {
        Self {
            id,
            all,
            columns,
            first,
            again,
            at_first: true,
            has_run_again: false,
            done: false,
            last: KeptRows::default(),
            fresh: KeptRows::default(),
            seen: None,
        }
    }

    /// Gives up all rows.
    fn forget_rows(&mut self) {
        self.seen = None;
        (self.last, self.fresh) = (KeptRows::default(), KeptRows::default());
    }

    /// A step of the term that refers to the query, with the rows of the last round where it looks
    /// for them.
    fn go_on(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let id = self.id;
        let working = &mut ex.statement.working;
        if working.len() <= id {
            working.resize_with(id + 1, || None);
        }
        let outer = working[id].replace(std::mem::take(&mut self.last));
        let step = self.again.step(ex, out);
        self.last = std::mem::replace(&mut ex.statement.working[id], outer).unwrap_or_default();
        step
    }

    fn next_round(&mut self, ex: &mut Exec<'_, '_>) {
        self.last = std::mem::take(&mut self.fresh);
        self.done = self.last.is_empty();
        if self.at_first {
            self.first.give_back(ex);
        }
        if self.done {
            return self.give_back(ex);
        }
        self.at_first = false;
        if std::mem::replace(&mut self.has_run_again, true) {
            self.again.rewind(ex);
        }
    }

    fn leave_out_seen(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<()> {
        let seen = self.seen.get_or_insert_with(|| SeenKeys::new(self.columns));
        out.retain(|row| seen.insert(row))?;
        seen.heed_memory(ex.cx.memory)
    }

    fn keep(&mut self, ex: &mut Exec<'_, '_>, out: &Batch) -> Result<()> {
        out.iter().try_for_each(|row| self.fresh.push_copy(ex.cx.memory, row))
    }
}

impl Operator for RecursiveRun {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        while !self.done {
            let step = if self.at_first { self.first.step(ex, out)? } else { self.go_on(ex, out)? };
            match step {
                Step::Yield => return Ok(Step::Yield),
                Step::Rows => {
                    if !self.all {
                        self.leave_out_seen(ex, out)?;
                    }
                    if !out.is_empty() {
                        self.keep(ex, out)?;
                        return Ok(Step::Rows);
                    }
                }
                Step::Done => {
                    self.next_round(ex);
                    ex.spend(ROWS_PER_ROUND);
                    if !self.done && ex.is_used_up() {
                        return Ok(Step::Yield);
                    }
                }
            }
        }
        Ok(Step::Done)
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.forget_rows();
        (self.at_first, self.done) = (true, false);
        self.first.rewind(ex);
    }

    fn reset(&mut self) {
        self.forget_rows();
        (self.at_first, self.has_run_again, self.done) = (true, false, false);
        self.first.reset();
        self.again.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.first.give_back(ex);
        self.again.give_back(ex);
        self.forget_rows();
    }

    fn usage(&self, _: &Statement) -> Option<Usage> {
        let (disk_bytes, memory_bytes) = self.seen.as_ref().map_or((0, 0), SeenKeys::usage);
        let rows = [&self.last, &self.fresh].map(KeptRows::usage);
        Some(Usage::Rows(Spilled {
            memory_bytes: (memory_bytes + rows[0].1 + rows[1].1) as u64,
            disk_bytes: disk_bytes + rows[0].0 + rows[1].0,
            batches: 0,
        }))
    }
}

/// A reader of the rows of the last round.
pub(super) struct WorkingRun {
    id: usize,
    at: usize,
}

impl WorkingRun {
    pub(super) fn new(id: usize) -> Self {
        Self { id, at: 0 }
    }
}

impl Operator for WorkingRun {
    fn reset(&mut self) {
        self.at = 0;
    }

    fn rewind(&mut self, _: &mut Exec<'_, '_>) {
        self.at = 0;
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let is_used_up = ex.is_used_up();
        let Some(rows) = ex.statement.working.get_mut(self.id).and_then(Option::as_mut) else {
            return Err(Error::internal("nothing around a recursive reference is recursive"));
        };
        if self.at >= rows.len() {
            return Ok(Step::Done);
        }
        if is_used_up {
            return Ok(Step::Yield);
        }
        out.reset(rows.width());
        let end = rows.len().min(self.at + out.rows_max());
        for index in self.at..end {
            rows.read(index, out.push(), false)?;
        }
        ex.spend(end - self.at);
        self.at = end;
        Ok(Step::Rows)
    }
}

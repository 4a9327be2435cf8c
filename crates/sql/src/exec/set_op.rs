//! DISTINCT, INTERSECT and EXCEPT.
//!
//! Invariants: NULL equals NULL here; of rows that are equal the first one is given. INTERSECT ALL and EXCEPT ALL are of
//! bags: as many copies as the smaller side has, or as the left has more than the right.

use colibri_types::{Datum, Result};

use super::batch::{BATCH_ROWS_FIRST, BATCH_ROWS_MAX};
use super::group::{Groups, equal_keys};
use super::{Batch, Exec, Run, Step, row_bytes};
use crate::plan::{Node, SetOp};

/// DISTINCT at work.
pub(crate) struct DistinctRun {
    input: Run,
    seen: Groups,
    /// With sorted input: the columns of the last row given.
    last: Option<Vec<Datum>>,
    begun: bool,
    texts: usize,
    bytes: usize,
}

impl DistinctRun {
    pub(super) fn new(input: &Node) -> Self {
        Self { input: Run::new(input), seen: Groups::new(0), last: None, begun: false, texts: 0, bytes: 0 }
    }

    pub(super) fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.input.give_back(ex);
        ex.give_memory(std::mem::take(&mut self.bytes));
    }

    pub(super) fn step(
        &mut self,
        input: &Node,
        columns: usize,
        sorted: bool,
        ex: &mut Exec<'_, '_>,
        out: &mut Batch,
    ) -> Result<Step> {
        if !self.begun {
            self.begun = true;
            self.seen = Groups::new(columns);
        }
        loop {
            match self.input.step(input, ex, out)? {
                Step::Rows => {}
                other => return Ok(other),
            }
            if sorted {
                let last = &mut self.last;
                out.retain(|row| {
                    let key = &row[..columns];
                    let new = last.as_ref().is_none_or(|last| !equal_keys(last, key));
                    if new {
                        last.get_or_insert_default().clear();
                        last.get_or_insert_default().extend_from_slice(key);
                    }
                    Ok::<_, colibri_types::Error>(new)
                })?;
            } else {
                let (seen, texts) = (&mut self.seen, &mut self.texts);
                out.retain(|row| {
                    let key = &row[..columns];
                    let (_, new) = seen.find_or_add(key);
                    *texts += if new { row_bytes(key) - size_of_val(key) } else { 0 };
                    Ok::<_, colibri_types::Error>(new)
                })?;
                let more = (self.seen.bytes() + self.texts).saturating_sub(self.bytes);
                self.bytes += more;
                ex.take_memory(more)?;
            }
            if !out.is_empty() {
                return Ok(Step::Rows);
            }
        }
    }
}

/// INTERSECT or EXCEPT at work.
pub(crate) struct SetOpRun {
    left: Run,
    right: Run,
    fresh: Batch,
    rows: Groups,
    /// For each row of the table, how often the right side has it; without ALL, 0 once it need not be given any more.
    counts: Vec<u64>,
    right_done: bool,
    at: usize,
    ahead: usize,
    texts: usize,
    bytes: usize,
}

impl SetOpRun {
    pub(super) fn new(left: &Node, right: &Node) -> Self {
        Self {
            left: Run::new(left),
            right: Run::new(right),
            fresh: Batch::new(),
            rows: Groups::new(0),
            counts: Vec::new(),
            right_done: false,
            at: 0,
            ahead: BATCH_ROWS_FIRST,
            texts: 0,
            bytes: 0,
        }
    }

    pub(super) fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.left.give_back(ex);
        self.right.give_back(ex);
        ex.give_memory(std::mem::take(&mut self.bytes));
    }

    fn account(&mut self, ex: &mut Exec<'_, '_>) -> Result<()> {
        let taken = self.rows.bytes() + self.counts.len() * 8 + self.texts;
        let more = taken.saturating_sub(self.bytes);
        self.bytes += more;
        ex.take_memory(more)
    }

    /// How often the right side has a row: found, or made with 0.
    fn count(&mut self, index: usize) -> &mut u64 {
        let row = self.fresh.row(index);
        if self.rows.len() == 0 {
            self.rows = Groups::new(row.len());
        }
        let (number, new) = self.rows.find_or_add(row);
        if new {
            self.texts += row_bytes(row) - size_of_val(row);
            self.counts.push(0);
        }
        &mut self.counts[number]
    }

    pub(super) fn step(
        &mut self,
        op: SetOp,
        all: bool,
        left: &Node,
        right: &Node,
        ex: &mut Exec<'_, '_>,
        out: &mut Batch,
    ) -> Result<Step> {
        while !self.right_done {
            match self.right.step(right, ex, &mut self.fresh)? {
                Step::Yield => return Ok(Step::Yield),
                Step::Rows => {
                    for index in 0..self.fresh.rows() {
                        *self.count(index) += 1;
                    }
                    self.account(ex)?;
                }
                Step::Done => {
                    self.right.give_back(ex);
                    self.right_done = true;
                    self.fresh.reset(0);
                }
            }
        }
        loop {
            out.reset(self.fresh.width());
            while self.at < self.fresh.rows() && !out.is_full() {
                if self.is_given(op, all) {
                    out.push_taken(self.fresh.row_mut(self.at));
                }
                self.at += 1;
            }
            if !out.is_empty() {
                self.account(ex)?;
                return Ok(Step::Rows);
            }
            self.at = 0;
            self.fresh.want(self.ahead);
            self.ahead = (self.ahead * 2).min(BATCH_ROWS_MAX);
            match self.left.step(left, ex, &mut self.fresh)? {
                Step::Rows => {}
                other => {
                    self.fresh.reset(0);
                    return Ok(other);
                }
            }
        }
    }

    /// Whether the left row at hand is given on.
    fn is_given(&mut self, op: SetOp, all: bool) -> bool {
        match (op, all) {
            (SetOp::Except, false) => {
                let count = self.count(self.at);
                std::mem::replace(count, 1) == 0
            }
            (SetOp::Except, true) => {
                let count = self.count(self.at);
                let left_over = *count == 0;
                *count = count.saturating_sub(1);
                left_over
            }
            (SetOp::Intersect, all) => {
                if self.rows.len() == 0 {
                    return false;
                }
                let Some(number) = self.rows.find(self.fresh.row(self.at)) else { return false };
                let count = &mut self.counts[number];
                let given = *count > 0;
                *count = if all { count.saturating_sub(1) } else { 0 };
                given
            }
        }
    }
}

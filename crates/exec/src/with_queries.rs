//! Rows that are read more than once: WITH queries.
//!
//! The rows belong to the statement, not to a reader. A reader that needs a row which is not there
//! yet runs the query on, and all readers read what it gave. A query that is only read a little is
//! only run a little: by as many rows at a time as its reader asks for.
//!
//! Invariants: a reader is at a place among the rows and holds nothing else. What a query gave that
//! depends on an outer row is forgotten when one of its readers goes back to its start, as the
//! outer row has changed then.

use colibri_types::{Datum, Error, Result};

use super::needs::Needs;
use super::operator::{Operator, Run};
use super::spill::KeptRows;
use super::{Batch, Exec, Statement, Step};
use crate::explain::{Spilled, Usage};
use crate::plan::Node;

/// What a shared query gave so far.
pub(super) struct Kept {
    run: Run,
    /// It has run, and has to go back to its start before it does so again.
    has_run: bool,
    /// Its own copy of the first reader's, as readers in queries inside expressions have others.
    slots: Vec<Datum>,
    slots_end: usize,
    /// Whether it depends on an outer row, or on the last round of a query that refers to itself.
    depends: bool,
    is_open: bool,
    rows: KeptRows,
    done: bool,
    fresh: Batch,
}

impl Kept {
    pub(super) fn new(input: &Node, run: Run) -> Self {
        let needs = Needs::of(input);
        Self {
            run,
            has_run: false,
            slots: Vec::new(),
            slots_end: needs.slots_end,
            depends: needs.slots || needs.working,
            is_open: false,
            rows: KeptRows::default(),
            done: false,
            fresh: Batch::new(),
        }
    }

    /// Forgets all rows. The next reader has them computed anew.
    fn forget(&mut self) {
        self.is_open = false;
        self.rows = KeptRows::default();
        self.done = false;
        self.fresh.reset(0);
    }

    /// As if the statement had not begun.
    pub(super) fn reset(&mut self) {
        self.forget();
        self.has_run = false;
        self.slots = Vec::new();
        self.fresh = std::mem::take(&mut self.fresh).kept();
        self.run.reset();
    }

    /// Runs the query on for a batch.
    fn run_on(&mut self, ex: &mut Exec<'_, '_>) -> Result<Step> {
        let begins = !std::mem::replace(&mut self.is_open, true);
        if begins {
            self.slots.clear();
            self.slots.extend_from_slice(ex.slots);
            self.slots.resize(self.slots.len().max(self.slots_end), Datum::Null);
        }
        let mut inner =
            Exec { txn: ex.txn, cx: ex.cx, slots: &mut self.slots, statement: ex.statement, lists: ex.lists };
        if begins && std::mem::replace(&mut self.has_run, true) {
            self.run.rewind(&mut inner);
        }
        let step = self.run.step(&mut inner, &mut self.fresh)?;
        match step {
            Step::Rows => {
                for index in 0..self.fresh.rows() {
                    self.rows.push(ex.cx.memory, self.fresh.row_mut(index))?;
                }
            }
            Step::Done => {
                self.done = true;
                self.run.give_back(ex);
            }
            Step::Yield => {}
        }
        Ok(step)
    }
}

/// A reader at work.
pub(super) struct SharedRun {
    id: usize,
    at: usize,
}

impl SharedRun {
    pub(super) fn new(id: usize) -> Self {
        Self { id, at: 0 }
    }

    fn read(&mut self, kept: &mut Kept, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        while self.at >= kept.rows.len() {
            if kept.done {
                return Ok(Step::Done);
            }
            // No more than is asked for: a row that nobody reads might fail, or take a sequence's
            // value.
            kept.fresh.want(out.rows_max());
            match kept.run_on(ex)? {
                Step::Yield => return Ok(Step::Yield),
                Step::Rows | Step::Done => {}
            }
        }
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        out.reset(kept.rows.width());
        let end = kept.rows.len().min(self.at + out.rows_max());
        for index in self.at..end {
            kept.rows.read(index, out.push(), false)?;
        }
        ex.spend(end - self.at);
        self.at = end;
        Ok(Step::Rows)
    }
}

impl Operator for SharedRun {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        // Taken out while it runs: a query that reads itself would be a mistake of the planner's.
        let Some(mut kept) = ex.statement.shared.get_mut(self.id).and_then(Option::take) else {
            return Err(Error::internal("a WITH query reads itself"));
        };
        let step = self.read(&mut kept, ex, out);
        ex.statement.shared[self.id] = Some(kept);
        step
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.give_back(ex);
        self.at = 0;
    }

    fn reset(&mut self) {
        self.at = 0;
    }

    /// The reader goes away, or back to its start.
    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        let shared = &mut ex.statement.shared;
        if let Some(mut kept) = shared.get_mut(self.id).and_then(|place| place.take_if(|kept| kept.depends)) {
            kept.run.give_back(ex);
            kept.forget();
            ex.statement.shared[self.id] = Some(kept);
        }
    }

    /// Of the query, which several may read.
    fn usage(&self, statement: &Statement) -> Option<Usage> {
        let kept = statement.shared.get(self.id).and_then(Option::as_ref);
        let (disk_bytes, memory_bytes) = kept.map_or((0, 0), |kept| kept.rows.usage());
        Some(Usage::Rows(Spilled { memory_bytes: memory_bytes as u64, disk_bytes, batches: 0 }))
    }
}

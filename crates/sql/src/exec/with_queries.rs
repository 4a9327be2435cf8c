//! Rows that are read more than once: WITH queries.
//!
//! The rows belong to the statement, not to a reader: whoever needs a row that is not there yet runs the query on, and all
//! read what it gave. A query that is only read a little is only run a little: by as many rows at a
//! time as its reader asks for.
//!
//! Invariants: a reader is at a place among the rows and holds nothing else. What a query gave that depends on an outer
//! row is forgotten when one of its readers goes back to its start, as the outer row has changed then.

use std::sync::Arc;

use colibri_types::{Datum, Error, Result};

use super::needs::Needs;
use super::spill::KeptRows;
use super::{Batch, Exec, Run, Step};
use crate::explain::{Spilled, Usage};
use crate::plan::Node;

/// What a shared query gave so far.
pub(crate) struct Kept {
    run: Run,
    /// Its own copy, as readers in queries inside expressions have other slots.
    slots: Vec<Datum>,
    /// Whether it depends on an outer row, or on the last round of a query that refers to itself.
    depends: bool,
    rows: KeptRows,
    done: bool,
    fresh: Batch,
}

impl Kept {
    fn new(input: &Node, slots: &[Datum]) -> Self {
        let needs = Needs::of(input);
        let mut slots = slots.to_vec();
        if slots.len() < needs.slots_end {
            slots.resize(needs.slots_end, Datum::Null);
        }
        Self {
            run: Run::new(input),
            slots,
            depends: needs.slots || needs.working,
            rows: KeptRows::default(),
            done: false,
            fresh: Batch::new(),
        }
    }

    /// Runs the query on for a batch.
    fn run_on(&mut self, input: &Node, ex: &mut Exec<'_, '_>) -> Result<Step> {
        let mut inner =
            Exec { txn: ex.txn, cx: ex.cx, slots: &mut self.slots, statement: ex.statement, lists: ex.lists };
        let step = self.run.step(input, &mut inner, &mut self.fresh)?;
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
#[derive(Default)]
pub(crate) struct SharedRun {
    id: usize,
    at: usize,
}

impl SharedRun {
    pub(super) fn step(
        &mut self,
        id: usize,
        input: &Arc<Node>,
        ex: &mut Exec<'_, '_>,
        out: &mut Batch,
    ) -> Result<Step> {
        self.id = id;
        if ex.statement.shared.len() <= id {
            ex.statement.shared.resize_with(id + 1, || None);
        }
        // Taken out while it runs: a query that reads itself would be a mistake of the planner's.
        let fresh = ex.statement.shared[id].take();
        let mut kept = fresh.unwrap_or_else(|| Box::new(Kept::new(input, ex.slots)));
        let step = self.read(&mut kept, input, ex, out);
        match ex.statement.shared.get_mut(id) {
            Some(place @ None) => *place = Some(kept),
            _ => return Err(Error::internal("a WITH query reads itself")),
        }
        step
    }

    /// Of the query, which several may read.
    pub(super) fn usage(&self, shared: &[Option<Box<Kept>>]) -> Usage {
        let kept = shared.get(self.id).and_then(Option::as_ref);
        let (disk_bytes, memory_bytes) = kept.map_or((0, 0), |kept| kept.rows.usage());
        Usage::Rows(Spilled { memory_bytes: memory_bytes as u64, disk_bytes, batches: 0 })
    }

    fn read(&mut self, kept: &mut Kept, input: &Node, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        while self.at >= kept.rows.len() {
            if kept.done {
                return Ok(Step::Done);
            }
            // No more than is asked for: a row that nobody reads might fail, or take a sequence's
            // value.
            kept.fresh.want(out.rows_max());
            match kept.run_on(input, ex)? {
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

    /// The reader goes away, or back to its start.
    pub(super) fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        if let Some(place) = ex.statement.shared.get_mut(self.id)
            && place.as_ref().is_some_and(|kept| kept.depends)
        {
            *place = None;
        }
    }
}

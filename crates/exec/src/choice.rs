//! A choice between two orders of joins that is made when something is known that the planner could
//! not know: how many different values a query gives.
//!
//! Few values are looked up one by one in the table that they are compared with; many of them go
//! into a hash table, which the table's rows ask. The values are computed first, up to as many as
//! are few. If there are more, they are forgotten: that has cost a small share of what the other
//! way costs.
//!
//! Invariant: the values depend on no row outside, so that the choice holds for all runs in a
//! statement.

use colibri_types::{Result, SqlState};

use super::keyed::Prepared;
use super::operator::{Operator, Run};
use super::{Batch, Exec, Step};

/// A choice at work.
pub(super) struct ChoiceRun {
    few_max: usize,
    /// What computes the values.
    kept: Run,
    few: Run,
    many: Run,
    chosen: Option<Way>,
}

#[derive(Clone, Copy)]
enum Way {
    Few,
    Many,
}

impl ChoiceRun {
    pub(super) fn new(few_max: usize, kept: Run, few: Run, many: Run) -> Self {
        Self { few_max, kept, few, many, chosen: None }
    }

    /// The way that was chosen.
    fn chosen(&mut self) -> Option<&mut Run> {
        Some(match self.chosen? {
            Way::Few => &mut self.few,
            Way::Many => &mut self.many,
        })
    }
}

impl Operator for ChoiceRun {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if self.chosen.is_none() {
            self.chosen = Some(match self.kept.prepare(self.few_max, ex) {
                Ok(Prepared::Yield) => return Ok(Step::Yield),
                Ok(Prepared::Ready) => Way::Few,
                Ok(Prepared::TooMany) => Way::Many,
                // They do not fit into memory: these are many.
                Err(error) if error.state() == SqlState::OUT_OF_MEMORY => Way::Many,
                Err(error) => return Err(error),
            });
        }
        self.chosen().map_or(Ok(Step::Done), |run| run.step(ex, out))
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        if let Some(run) = self.chosen() {
            run.rewind(ex);
        }
    }

    fn reset(&mut self) {
        self.chosen = None;
        self.kept.reset();
        self.few.reset();
        self.many.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        if let Some(run) = self.chosen() {
            run.give_back(ex);
        }
    }
}

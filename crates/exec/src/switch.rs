//! Two ways to the same rows: the one that costs nothing at the start, and the other one once the
//! first has cost as much as that takes.
//!
//! A query that is run for each row of another cannot know how often. As written it looks at some
//! rows each time; with its rows kept by keys it computes these once and finds them at once from
//! then on. Whoever changes over when both have cost the same pays twice the cheaper way at the
//! most, whatever the number of runs turns out to be.
//!
//! Invariants: it changes over between two runs only. What keeps the rows from being computed (an
//! error that rows which nobody asks for lead to, memory, many more rows than expected) is no error
//! of the statement: it goes on as written, and tries again when that has cost several times as
//! much.

use colibri_types::{Error, Result, SqlState};

use super::operator::{Operator, Run};
use super::{Batch, Exec, Step};

/// What beginning a run costs, in rows that are read one after the other.
const START_ROWS: u64 = 24;
/// A failed attempt is repeated when the plain way has looked at this many times as many rows.
const AGAIN: u64 = 4;

/// A switch at work.
pub(super) struct SwitchRun {
    /// Rows that the plain way may look at before the other one is taken: as planned, and now.
    planned: u64,
    after: u64,
    plain: Run,
    by_key: Run,
    way: Way,
    /// Rows that the plain way has looked at.
    looked_at: u64,
    /// Whether this run has given rows.
    has_given: bool,
    /// Whether the other way has run, and failed.
    has_failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    ByKey,
}

impl SwitchRun {
    pub(super) fn new(after: u64, plain: Run, by_key: Run) -> Self {
        Self {
            planned: after,
            after,
            plain,
            by_key,
            way: Way::Plain,
            looked_at: 0,
            has_given: false,
            has_failed: false,
        }
    }
}

impl Operator for SwitchRun {
    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.has_given = false;
        if self.way == Way::Plain && self.looked_at > self.after {
            self.way = Way::ByKey;
            self.plain.give_back(ex);
            if self.has_failed {
                self.by_key.rewind(ex);
            }
            return;
        }
        self.looked_at += START_ROWS;
        match self.way {
            Way::ByKey => self.by_key.rewind(ex),
            Way::Plain => self.plain.rewind(ex),
        }
    }

    fn reset(&mut self) {
        (self.way, self.after, self.looked_at) = (Way::Plain, self.planned, 0);
        (self.has_given, self.has_failed) = (false, false);
        self.plain.reset();
        self.by_key.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.plain.give_back(ex);
        self.by_key.give_back(ex);
    }

    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if self.way == Way::ByKey {
            match self.by_key.step(ex, out) {
                Ok(step) => {
                    self.has_given |= step == Step::Rows;
                    return Ok(step);
                }
                Err(error) if self.has_given || !is_of_rows(&error) => return Err(error),
                Err(_) => {
                    self.by_key.give_back(ex);
                    (self.way, self.has_failed) = (Way::Plain, true);
                    self.after = self.looked_at.saturating_mul(AGAIN);
                    self.plain.rewind(ex);
                    out.reset(0);
                }
            }
        }
        let budget = ex.cx.budget_rows;
        let step = self.plain.step(ex, out)?;
        self.looked_at += budget.saturating_sub(ex.cx.budget_rows).max(0) as u64;
        Ok(step)
    }
}

/// Whether an error comes from computing rows, which others may not lead to; or from keeping them,
/// for which memory or disk had no room.
fn is_of_rows(error: &Error) -> bool {
    let state = error.state();
    let of_values = ["22", "21", "42", "0A"].iter().any(|class| state.0.starts_with(class));
    let of_room = [SqlState::OUT_OF_MEMORY, SqlState::DISK_FULL, SqlState("53400")].contains(&state);
    of_values || of_room
}

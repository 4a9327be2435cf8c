//! A join that begins with one way and changes over to another one when it has met many rows.
//!
//! ```text
//! outer rows ──► the first `after` ──► few:  each looks its partners up in an index
//!            └─► those behind them ──► many: a hash join
//! ```
//! Looking partners up costs nothing before the first row, and too much for very many; a hash table
//! costs the reading of a whole table before the first row. The planner guesses how many rows there
//! will be, and may be wrong by any factor. Here the first rows tell.
//!
//! Both ways read outer rows through a [`RestRun`], which hands out those that no way has had yet.
//! So every row is joined once, and rows come in the order of the outer side wherever both ways
//! keep it.
//!
//! Invariant: the outer side belongs to the statement while the join runs, and only the join takes
//! it back to its start.

use colibri_types::{Error, Result};

use super::operator::{Operator, Run};
use super::{Batch, Exec, Step};

/// Outer rows that have not been joined yet.
pub(super) struct OuterRows {
    run: Run,
    /// How many rows are handed out before the way is changed.
    left: u64,
    is_done: bool,
}

impl OuterRows {
    pub(super) fn new(run: Run) -> Self {
        Self { run, left: 0, is_done: false }
    }

    /// As if the statement had not begun.
    pub(super) fn reset(&mut self) {
        (self.left, self.is_done) = (0, false);
        self.run.reset();
    }
}

/// An adaptive join at work.
pub(super) struct AdaptiveJoinRun {
    /// Which of the statement's outer rows it joins.
    place: usize,
    /// Rows that are few.
    after: u64,
    few: Run,
    many: Run,
    /// The hash table of the second way stays right when the join is run again.
    keeps_table: bool,
    way: Way,
    /// The second way has run, and has to go back to its start before it does so again.
    many_has_run: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Start,
    Few,
    Many,
}

fn no_outer() -> Error {
    Error::internal("a join has lost its outer side")
}

impl AdaptiveJoinRun {
    pub(super) fn new(place: usize, after: u64, few: Run, many: Run, keeps_table: bool) -> Self {
        Self { place, after, few, many, keeps_table, way: Way::Start, many_has_run: false }
    }

    /// Hands out as many outer rows from here on.
    fn hand_out(&self, rows: u64, ex: &mut Exec<'_, '_>) -> Result<()> {
        let outer = ex.statement.outer_rows.get_mut(self.place).and_then(Option::as_mut).ok_or_else(no_outer)?;
        outer.left = rows;
        Ok(())
    }

    /// Whether all outer rows are joined.
    fn is_done(&self, ex: &Exec<'_, '_>) -> bool {
        ex.statement.outer_rows.get(self.place).and_then(Option::as_ref).is_none_or(|outer| outer.is_done)
    }

    /// Does something with the outer side.
    fn with_outer(&self, ex: &mut Exec<'_, '_>, act: impl FnOnce(&mut OuterRows, &mut Exec<'_, '_>)) {
        let taken = ex.statement.outer_rows.get_mut(self.place).and_then(Option::take);
        if let Some(mut outer) = taken {
            act(&mut outer, ex);
            ex.statement.outer_rows[self.place] = Some(outer);
        }
    }
}

impl Operator for AdaptiveJoinRun {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        loop {
            match self.way {
                Way::Start => {
                    self.hand_out(self.after, ex)?;
                    self.way = Way::Few;
                }
                Way::Few => match self.few.step(ex, out)? {
                    Step::Done if !self.is_done(ex) => {
                        self.few.give_back(ex);
                        self.hand_out(u64::MAX, ex)?;
                        self.way = Way::Many;
                        if std::mem::replace(&mut self.many_has_run, true) {
                            self.many.rewind(ex);
                        }
                    }
                    step => return Ok(step),
                },
                Way::Many => return self.many.step(ex, out),
            }
        }
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.with_outer(ex, |outer, ex| {
            outer.is_done = false;
            outer.run.rewind(ex);
        });
        if self.way == Way::Many && self.keeps_table {
            self.many.rewind(ex);
            return;
        }
        if self.way != Way::Start {
            self.few.rewind(ex);
        }
        self.way = Way::Start;
    }

    fn reset(&mut self) {
        (self.way, self.many_has_run) = (Way::Start, false);
        self.few.reset();
        self.many.reset();
    }

    fn forget_order(&mut self) {
        self.few.forget_order();
        self.many.forget_order();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.few.give_back(ex);
        self.many.give_back(ex);
        self.with_outer(ex, |outer, ex| outer.run.give_back(ex));
    }
}

/// Reads outer rows that have not been joined yet.
pub(super) struct RestRun {
    place: usize,
}

impl RestRun {
    pub(super) fn new(place: usize) -> Self {
        Self { place }
    }
}

impl Operator for RestRun {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        // It stands outside the statement while it runs: it may be a join of this kind itself.
        let mut outer = ex.statement.outer_rows.get_mut(self.place).and_then(Option::take).ok_or_else(no_outer)?;
        let step = match outer.left {
            0 => Ok(Step::Done),
            left => {
                let wanted = out.wanted();
                out.want(wanted.min(usize::try_from(left).unwrap_or(usize::MAX)));
                let step = outer.run.step(ex, out);
                out.want(wanted);
                step
            }
        };
        match step {
            Ok(Step::Rows) => outer.left = outer.left.saturating_sub(out.rows() as u64),
            Ok(Step::Done) if outer.left > 0 => outer.is_done = true,
            _ => {}
        }
        ex.statement.outer_rows[self.place] = Some(outer);
        step
    }

    fn rewind(&mut self, _: &mut Exec<'_, '_>) {}

    fn reset(&mut self) {}
}

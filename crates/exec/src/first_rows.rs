//! The first rows in an order, in one of two ways: read in that order until there are enough, or
//! found in another way and sorted.
//!
//! Reading in order costs little if rows that fulfil the conditions come soon, and all of a table
//! if they come late: when what the conditions ask for goes with the order. The planner cannot
//! know. Here the first way begins. Its rows are kept back until there are enough of them. If it
//! has looked at as many rows before as the other way costs, it is given up, and the other one
//! begins anew. So both together cost twice the cheaper one at the most.
//!
//! Invariants: nothing is given before the way is certain, so no row is given twice. No more rows
//! are kept back than are wanted, nor more than memory has room for: then the first way goes on.

use colibri_types::{Datum, Result};

use super::memory::{Reservation, Use};
use super::operator::{Operator, Run};
use super::row_store::RowStore;
use super::{Batch, Exec, Step, row_bytes};
use crate::eval::Evaluate as _;
use crate::expr::Expr;

/// So many rows are kept back at most: behind them the first way goes on, whatever it costs.
const KEPT_BACK_MAX: usize = 10_000;

/// The two ways at work.
pub(super) struct FirstRowsRun {
    /// Rows that the first way may look at until it has found enough.
    after: u64,
    /// How many are wanted: as the plan says it, and as a number in this run.
    top: Expr,
    enough: Option<usize>,
    in_order: Run,
    sorted: Run,
    /// The second way has run, and has to go back to its start before it does so again.
    sorted_has_run: bool,
    looked_at: u64,
    fresh: Batch,
    kept: RowStore<Datum>,
    /// Columns of the rows.
    width: usize,
    /// Bytes of the values of what is kept.
    value_bytes: usize,
    /// How many of the rows that are kept were given.
    given: usize,
    memory: Reservation,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Rows are kept back; whether there are more is not known.
    Trying,
    /// There are enough rows, or no more.
    Giving {
        is_all: bool,
    },
    /// What was kept back is given.
    InOrder,
    Sorted,
}

impl FirstRowsRun {
    pub(super) fn new(after: u64, top: &Expr, in_order: Run, sorted: Run) -> Self {
        Self {
            after,
            top: top.clone(),
            enough: None,
            in_order,
            sorted,
            sorted_has_run: false,
            looked_at: 0,
            fresh: Batch::new(),
            kept: RowStore::new(0),
            width: 0,
            value_bytes: 0,
            given: 0,
            memory: Reservation::default(),
            phase: Phase::Trying,
        }
    }

    /// Back to the start, but for the ways.
    fn forget(&mut self) {
        (self.enough, self.looked_at, self.value_bytes, self.given) = (None, 0, 0, 0);
        self.kept = RowStore::new(0);
        self.memory.release();
        self.phase = Phase::Trying;
    }

    /// Reads rows in order, and keeps them back.
    fn try_in_order(&mut self, ex: &mut Exec<'_, '_>) -> Result<Option<Step>> {
        let enough = self.enough(ex);
        self.fresh.want(enough.saturating_sub(self.kept.len()).max(1));
        let budget = ex.cx.budget_rows;
        let step = self.in_order.step(ex, &mut self.fresh)?;
        self.looked_at += budget.saturating_sub(ex.cx.budget_rows).max(0) as u64;
        match step {
            Step::Rows => self.keep(enough, ex),
            Step::Done => self.phase = Phase::Giving { is_all: true },
            Step::Yield => {}
        }
        if self.phase == Phase::Trying && self.looked_at > self.after {
            self.forget();
            self.in_order.give_back(ex);
            self.phase = Phase::Sorted;
            if std::mem::replace(&mut self.sorted_has_run, true) {
                self.sorted.rewind(ex);
            }
        }
        self.fresh.reset(0);
        Ok((step == Step::Yield).then_some(step))
    }

    /// How many rows are kept back at most.
    fn enough(&mut self, ex: &mut Exec<'_, '_>) -> usize {
        *self.enough.get_or_insert_with(|| match self.top.eval_owned(&mut ex.scope(), &[]) {
            Ok(Datum::Int(top)) => usize::try_from(top).unwrap_or(0).min(KEPT_BACK_MAX),
            // What is wrong with the limit is the Limit's business.
            _ => 0,
        })
    }

    fn keep(&mut self, enough: usize, ex: &mut Exec<'_, '_>) {
        if self.kept.len() == 0 {
            self.width = self.fresh.width();
            self.kept = RowStore::new(self.width.max(1));
        }
        let width = self.kept.width();
        for index in 0..self.fresh.rows() {
            let row = self.fresh.row_mut(index);
            self.value_bytes += row_bytes(row);
            // Rows without columns have to be counted, too.
            self.kept.push(row.iter_mut().map(std::mem::take).chain(std::iter::repeat(Datum::Null)).take(width));
        }
        let bytes = self.kept.bytes() + self.value_bytes;
        let has_room = self.memory.hold(ex.cx.memory, bytes, Use::Rows);
        if self.kept.len() >= enough || !has_room {
            self.phase = Phase::Giving { is_all: false };
        }
    }
}

impl Operator for FirstRowsRun {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        loop {
            match self.phase {
                Phase::Trying => {
                    if let Some(step) = self.try_in_order(ex)? {
                        return Ok(step);
                    }
                }
                Phase::Giving { is_all } => {
                    if ex.is_used_up() {
                        return Ok(Step::Yield);
                    }
                    let left = self.kept.len() - self.given;
                    if left == 0 {
                        self.kept = RowStore::new(0);
                        self.memory.release();
                        if is_all {
                            return Ok(Step::Done);
                        }
                        self.phase = Phase::InOrder;
                        continue;
                    }
                    out.reset(self.width);
                    while !out.is_full() && self.given < self.kept.len() {
                        out.push_taken(&mut self.kept.row_mut(self.given)[..self.width]);
                        self.given += 1;
                    }
                    ex.spend(out.rows());
                    return Ok(Step::Rows);
                }
                Phase::InOrder => return self.in_order.step(ex, out),
                Phase::Sorted => return self.sorted.step(ex, out),
            }
        }
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.forget();
        self.in_order.rewind(ex);
    }

    fn reset(&mut self) {
        self.forget();
        self.sorted_has_run = false;
        self.fresh = std::mem::take(&mut self.fresh).kept();
        self.in_order.reset();
        self.sorted.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.kept = RowStore::new(0);
        self.memory.release();
        self.in_order.give_back(ex);
        self.sorted.give_back(ex);
    }
}

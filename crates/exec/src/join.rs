//! Nested loops: for each row of the outer side the inner one is run anew, with values of the outer
//! row in slots. With a scan by key inside this is the join through an index.
//!
//! Every pair is counted against the budget: a join that gives no rows looks at them all the same.
//!
//! Invariants: rows come in the order of the outer side. The inner side is run no further than
//! needed: a semi or an anti join stops at the first partner. No two loops of a fragment share
//! slots: the outer side of one may itself be a loop that goes on later.

use std::sync::Arc;

use colibri_types::{Datum, Error, Result};

use super::ahead::Ahead;
use super::batch::BATCH_ROWS_MAX;
use super::operator::{Operator, Run};
use super::{Batch, Exec, Step};
use crate::eval::Evaluate as _;
use crate::expr::Expr;
use crate::plan::{Exprs, JoinKind};

/// A nested loop.
pub(super) struct NestedLoop {
    pub(super) kind: JoinKind,
    pub(super) first_slot: usize,
    pub(super) args: Exprs,
    pub(super) on: Option<Arc<Expr>>,
    pub(super) inner_width: usize,
    pub(super) run: NestedLoopRun,
}

/// A nested loop at work.
pub(super) struct NestedLoopRun {
    outer: Run,
    inner: Run,
    outer_rows: Batch,
    /// The outer row at hand.
    outer_at: usize,
    inner_rows: Batch,
    inner_at: usize,
    /// Whether the inner side is running for the outer row at hand.
    open: bool,
    matched: bool,
    ahead: Ahead,
    /// The outer rows at hand have led to none so far.
    is_fruitless: bool,
}

/// What a nested loop goes by.
struct Parts<'p> {
    kind: JoinKind,
    first_slot: usize,
    args: &'p [Expr],
    on: Option<&'p Expr>,
    inner_width: usize,
}

impl Operator for NestedLoop {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let parts = Parts {
            kind: self.kind,
            first_slot: self.first_slot,
            args: &self.args,
            on: self.on.as_deref(),
            inner_width: self.inner_width,
        };
        let step = self.run.step(&parts, ex, out)?;
        if step == Step::Rows {
            self.run.ahead.note_given(out.rows());
        }
        Ok(step)
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.run.outer.rewind(ex);
        self.run.forget();
    }

    fn reset(&mut self) {
        let run = &mut self.run;
        run.forget();
        run.outer_rows = std::mem::take(&mut run.outer_rows).kept();
        run.inner_rows = std::mem::take(&mut run.inner_rows).kept();
        run.outer.reset();
        run.inner.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.run.outer.give_back(ex);
        self.run.inner.give_back(ex);
    }

    fn forget_order(&mut self) {
        self.run.outer.forget_order();
        self.run.inner.forget_order();
    }
}

impl NestedLoopRun {
    pub(super) fn new(outer: Run, inner: Run) -> Self {
        Self {
            outer,
            inner,
            outer_rows: Batch::new(),
            outer_at: 0,
            inner_rows: Batch::new(),
            inner_at: 0,
            open: false,
            matched: false,
            ahead: Ahead::default(),
            is_fruitless: false,
        }
    }

    /// Back to the start, but for the inputs.
    fn forget(&mut self) {
        self.outer_rows.reset(0);
        self.outer_at = 0;
        self.open = false;
        self.ahead = Ahead::default();
        self.is_fruitless = false;
    }

    fn step(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if matches!(parts.kind, JoinKind::Right | JoinKind::Full) {
            return Err(Error::internal("a nested loop cannot give rows of its inner side alone"));
        }
        let ended = |step: Step, out: &Batch| if out.is_empty() { step } else { Step::Rows };
        loop {
            if self.outer_at == self.outer_rows.rows() {
                // What was joined so far may be all that is wanted.
                if !out.is_empty() {
                    self.is_fruitless = false;
                    return Ok(Step::Rows);
                }
                self.outer_at = 0;
                // As long as outer rows find partners, no more of them are needed than rows are
                // wanted.
                let needed = if self.is_fruitless { BATCH_ROWS_MAX } else { out.rows_max() };
                self.outer_rows.want(self.ahead.next(out).min(needed));
                self.is_fruitless = true;
                let step = self.outer.step(ex, &mut self.outer_rows)?;
                if step != Step::Rows {
                    self.outer_rows.reset(0);
                    return Ok(step);
                }
                self.ahead.note_read(self.outer_rows.rows());
                let width = self.outer_rows.width();
                let gives_inner = matches!(parts.kind, JoinKind::Inner | JoinKind::Left);
                out.reset(width + if gives_inner { parts.inner_width } else { 0 });
            } else if out.is_empty() {
                let gives_inner = matches!(parts.kind, JoinKind::Inner | JoinKind::Left);
                out.reset(self.outer_rows.width() + if gives_inner { parts.inner_width } else { 0 });
            }
            while self.outer_at < self.outer_rows.rows() {
                if out.is_full() {
                    self.is_fruitless = false;
                    return Ok(Step::Rows);
                }
                if ex.is_used_up() {
                    return Ok(ended(Step::Yield, out));
                }
                if !self.open
                    && let Err(error) = self.begin_inner(parts, ex)
                {
                    return ex.interrupted(error, out);
                }
                match self.join_batch(parts, ex, out) {
                    Ok(true) => {
                        self.end_outer_row(parts, out);
                        continue;
                    }
                    Ok(false) => {}
                    Err(error) => return ex.interrupted(error, out),
                }
                if self.inner_at < self.inner_rows.rows() || out.is_full() || ex.is_used_up() {
                    continue;
                }
                let single = parts.on.is_none() && !matches!(parts.kind, JoinKind::Inner | JoinKind::Left);
                let room = if parts.on.is_none() { out.rows_max() - out.rows() } else { BATCH_ROWS_MAX };
                self.inner_rows.want(if single { 1 } else { room });
                self.inner_at = 0;
                match self.inner.step(ex, &mut self.inner_rows)? {
                    Step::Rows => {}
                    Step::Yield => {
                        self.inner_rows.reset(0);
                        return Ok(ended(Step::Yield, out));
                    }
                    Step::Done => {
                        self.inner_rows.reset(0);
                        self.end_outer_row(parts, out);
                    }
                }
            }
        }
    }

    fn begin_inner(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Result<()> {
        ex.spend(1);
        let row = self.outer_rows.row(self.outer_at);
        for (place, arg) in parts.args.iter().enumerate() {
            let value = match arg {
                Expr::Column(column) => row[*column].clone(),
                arg => arg.eval_owned(&mut ex.scope(), row)?,
            };
            ex.slots[parts.first_slot + place] = value;
        }
        self.inner.rewind(ex);
        self.inner_rows.reset(0);
        self.inner_at = 0;
        self.open = true;
        self.matched = false;
        Ok(())
    }

    /// Joins the outer row with the inner rows at hand, until the batch is full or the budget used
    /// up. `true` if the outer row needs no more of them. After an error it goes on with the same
    /// pair.
    fn join_batch(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<bool> {
        let outer = self.outer_rows.row(self.outer_at);
        while self.inner_at < self.inner_rows.rows() && !out.is_full() && !ex.is_used_up() {
            ex.spend(1);
            let inner = self.inner_rows.row(self.inner_at);
            match parts.kind {
                JoinKind::Semi | JoinKind::Anti => {
                    let partner = match parts.on {
                        None => true,
                        Some(on) => {
                            let joined: Vec<Datum> = outer.iter().chain(inner).cloned().collect();
                            on.eval_condition(&mut ex.scope(), &joined)?
                        }
                    };
                    self.inner_at += 1;
                    if partner {
                        self.matched = true;
                        return Ok(true);
                    }
                }
                _ => {
                    out.push_joined(outer, inner);
                    let partner = match parts.on {
                        None => Ok(true),
                        Some(on) => on.eval_condition(&mut ex.scope(), out.row(out.rows() - 1)),
                    };
                    if !matches!(partner, Ok(true)) {
                        out.pop();
                    }
                    let partner = partner?;
                    self.inner_at += 1;
                    self.matched |= partner;
                }
            }
        }
        Ok(false)
    }

    /// The outer row has seen its partners: gives it on alone where the join says so. There is room
    /// in the batch.
    fn end_outer_row(&mut self, parts: &Parts<'_>, out: &mut Batch) {
        self.open = false;
        let outer = self.outer_rows.row_mut(self.outer_at);
        self.outer_at += 1;
        match parts.kind {
            JoinKind::Left if !self.matched => {
                let row = out.push();
                let (front, back) = row.split_at_mut(outer.len());
                front.swap_with_slice(outer);
                back.fill(Datum::Null);
            }
            JoinKind::Semi if self.matched => out.push_taken(outer),
            JoinKind::Anti if !self.matched => out.push_taken(outer),
            _ => {}
        }
    }
}

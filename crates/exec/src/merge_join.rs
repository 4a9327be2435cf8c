//! Merge joins: both sides come in the order of their keys, and are read once, side by side.
//!
//! ```text
//! left:   1 2 2 4 5 ...        the row at hand looks for its partners
//! right:  1 1 2 3 5 ...        rows before it are passed by, those with its key become the group
//! group:  [2]                  kept, since the next left row may have the same key
//! ```
//! Nothing is kept but the group, which goes to disk when memory is full.
//!
//! Invariants: rows come in the order of the left side, partners in the order of the right side.
//! NULL is no key: it has no partner. A semi or an anti join without a condition keeps no group. The
//! inputs have to keep their order even if the reader of this join needs none, so
//! [`Operator::forget_order`] is not handed on to them.

use std::sync::Arc;

use colibri_types::{Datum, Result};

use super::batch::{BATCH_ROWS_FIRST, BATCH_ROWS_MAX};
use super::operator::{Operator, Run};
use super::sorter::KeyOrder;
use super::spill::KeptRows;
use super::{Batch, Exec, Statement, Step};
use crate::eval::Evaluate as _;
use crate::explain::{Spilled, Usage};
use crate::expr::Expr;
use crate::plan::{JoinKind, MergeKey, SortKey};

/// A merge join.
pub(super) struct MergeJoin {
    kind: JoinKind,
    keys: Vec<Key>,
    on: Option<Arc<Expr>>,
    right_width: usize,
    run: MergeJoinRun,
}

/// Columns that are equal, and how both sides are ordered by them.
#[derive(Clone, Copy)]
struct Key {
    left: usize,
    right: usize,
    order: KeyOrder,
}

/// A merge join at work.
struct MergeJoinRun {
    left: Side,
    right: Side,
    group: Group,
    /// The left row at hand has begun to look at its partners.
    open: bool,
    /// The partner to look at next.
    partner_at: usize,
    matched: bool,
    /// A partner that was on disk.
    partner: Vec<Datum>,
}

/// A side, with the row at hand.
struct Side {
    run: Run,
    rows: Batch,
    at: usize,
    ahead: usize,
    is_done: bool,
}

/// Right rows with the same key.
#[derive(Default)]
struct Group {
    /// Their key; empty if there is none.
    key: Vec<Datum>,
    first: Vec<Datum>,
    others: KeptRows,
    len: usize,
    /// More rows of it may come.
    is_open: bool,
}

/// What was found out about the partners of a left row.
enum Found {
    Partners,
    None,
    Yield,
}

impl Side {
    fn new(run: Run) -> Self {
        Self { run, rows: Batch::new(), at: 0, ahead: BATCH_ROWS_FIRST, is_done: false }
    }

    /// Has a row at hand, if there is one.
    fn step(&mut self, ex: &mut Exec<'_, '_>) -> Result<Step> {
        if self.at < self.rows.rows() {
            return Ok(Step::Rows);
        }
        if self.is_done {
            return Ok(Step::Done);
        }
        self.at = 0;
        self.rows.want(self.ahead);
        self.ahead = (self.ahead * 2).min(BATCH_ROWS_MAX);
        let step = self.run.step(ex, &mut self.rows)?;
        if step != Step::Rows {
            self.rows.reset(0);
            self.is_done = step == Step::Done;
        }
        Ok(step)
    }

    fn row(&self) -> &[Datum] {
        self.rows.row(self.at)
    }

    /// Back to the start, but for what runs.
    fn forget(&mut self) {
        self.rows.reset(0);
        (self.at, self.ahead, self.is_done) = (0, BATCH_ROWS_FIRST, false);
    }
}

impl Group {
    fn forget(&mut self) {
        self.key.clear();
        if self.len > 1 {
            self.others.again();
        }
        (self.len, self.is_open) = (0, false);
    }
}

impl MergeJoin {
    pub(super) fn new(
        kind: JoinKind,
        (left, right): (Run, Run),
        keys: &[MergeKey],
        on: Option<&Arc<Expr>>,
        right_width: usize,
    ) -> Self {
        let key = |key: &MergeKey| {
            let sort =
                SortKey { expr: Expr::Column(key.left), descending: key.descending, nulls_first: key.nulls_first };
            Key { left: key.left, right: key.right, order: KeyOrder::new(key.left, &sort) }
        };
        let run = MergeJoinRun {
            left: Side::new(left),
            right: Side::new(right),
            group: Group::default(),
            open: false,
            partner_at: 0,
            matched: false,
            partner: Vec::new(),
        };
        Self { kind, keys: keys.iter().map(key).collect(), on: on.cloned(), right_width, run }
    }

    /// Columns of the rows that it gives.
    fn width(&self) -> usize {
        let left = self.run.left.rows.width();
        if matches!(self.kind, JoinKind::Semi | JoinKind::Anti) { left } else { left + self.right_width }
    }

    /// Only whether there is a partner matters.
    fn asks_only_whether(&self) -> bool {
        self.on.is_none() && matches!(self.kind, JoinKind::Semi | JoinKind::Anti)
    }
}

impl Operator for MergeJoin {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let ended = |step: Step, out: &Batch| if out.is_empty() { step } else { Step::Rows };
        loop {
            if ex.is_used_up() {
                return Ok(ended(Step::Yield, out));
            }
            match self.run.left.step(ex)? {
                Step::Rows => {}
                step => return Ok(ended(step, out)),
            }
            if out.is_empty() {
                out.reset(self.width());
            }
            if out.is_full() {
                return Ok(Step::Rows);
            }
            if !self.run.open {
                match self.run.find_partners(&self.keys, self.asks_only_whether(), ex)? {
                    Found::Yield => return Ok(ended(Step::Yield, out)),
                    Found::Partners => {}
                    Found::None if self.run.gives_nothing_more(self.kind) => return Ok(ended(Step::Done, out)),
                    Found::None => self.run.partner_at = usize::MAX,
                }
                self.run.open = true;
            }
            match self.join_row(ex, out) {
                Ok(true) => self.end_row(out),
                Ok(false) => {}
                Err(error) => return ex.interrupted(error, out),
            }
        }
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.run.forget();
        self.run.left.run.rewind(ex);
        self.run.right.run.rewind(ex);
    }

    fn reset(&mut self) {
        let run = &mut self.run;
        run.forget();
        run.left.rows = std::mem::take(&mut run.left.rows).kept();
        run.right.rows = std::mem::take(&mut run.right.rows).kept();
        (run.group, run.partner) = (Group::default(), Vec::new());
        run.left.run.reset();
        run.right.run.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.run.left.run.give_back(ex);
        self.run.right.run.give_back(ex);
        self.run.group = Group::default();
    }

    fn usage(&self, _: &Statement) -> Option<Usage> {
        let (disk_bytes, memory) = self.run.group.others.usage();
        Some(Usage::Rows(Spilled { memory_bytes: memory as u64, disk_bytes, batches: 1 }))
    }
}

impl MergeJoin {
    /// Joins the left row at hand with its partners, until the batch is full or the budget used up;
    /// `true` if it needs no more of them. After an error it goes on with the same pair.
    fn join_row(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<bool> {
        let run = &mut self.run;
        if run.partner_at != usize::MAX && self.on.is_none() && matches!(self.kind, JoinKind::Semi | JoinKind::Anti) {
            run.matched = true;
            return Ok(true);
        }
        while run.partner_at < run.group.len {
            if out.is_full() || ex.is_used_up() {
                return Ok(false);
            }
            ex.spend(1);
            let partner = match run.partner_at.checked_sub(1) {
                None => &run.group.first,
                Some(at) => {
                    run.partner.resize(self.right_width, Datum::Null);
                    run.group.others.read(at, &mut run.partner, false)?;
                    &run.partner
                }
            };
            let left = run.left.row();
            let is_partner = match (self.kind, &self.on) {
                (JoinKind::Semi | JoinKind::Anti, Some(on)) => {
                    let joined: Vec<Datum> = left.iter().chain(partner).cloned().collect();
                    on.eval_condition(&mut ex.scope(), &joined)?
                }
                (_, on) => {
                    out.push_joined(left, partner);
                    let is_partner = match on {
                        None => Ok(true),
                        Some(on) => on.eval_condition(&mut ex.scope(), out.row(out.rows() - 1)),
                    };
                    if !matches!(is_partner, Ok(true)) {
                        out.pop();
                    }
                    is_partner?
                }
            };
            run.partner_at += 1;
            run.matched |= is_partner;
            if is_partner && matches!(self.kind, JoinKind::Semi | JoinKind::Anti) {
                break;
            }
        }
        Ok(true)
    }

    /// The left row has seen its partners: gives it on alone where the join says so. There is room
    /// in the batch, or it has had partners.
    fn end_row(&mut self, out: &mut Batch) {
        let run = &mut self.run;
        run.open = false;
        run.partner_at = 0;
        let matched = std::mem::take(&mut run.matched);
        let at = run.left.at;
        run.left.at += 1;
        let left = run.left.rows.row_mut(at);
        match self.kind {
            JoinKind::Left if !matched => {
                let row = out.push();
                let (front, back) = row.split_at_mut(left.len());
                front.swap_with_slice(left);
                back.fill(Datum::Null);
            }
            JoinKind::Semi if matched => out.push_taken(left),
            JoinKind::Anti if !matched => out.push_taken(left),
            _ => {}
        }
    }
}

impl MergeJoinRun {
    /// Back to the start, but for the inputs.
    fn forget(&mut self) {
        self.left.forget();
        self.right.forget();
        self.group.forget();
        (self.open, self.partner_at, self.matched) = (false, 0, false);
    }

    /// Whether no left row can have a partner any more, and none is given without.
    fn gives_nothing_more(&self, kind: JoinKind) -> bool {
        let is_over = self.right.is_done && self.right.at >= self.right.rows.rows() && self.group.len == 0;
        is_over && matches!(kind, JoinKind::Inner | JoinKind::Semi)
    }

    /// Looks for the partners of the left row at hand: the group that is there, or the next one.
    fn find_partners(&mut self, keys: &[Key], asks_only_whether: bool, ex: &mut Exec<'_, '_>) -> Result<Found> {
        let Self { left, right, group, .. } = self;
        let row = left.row();
        if keys.iter().any(|key| row[key.left].is_null()) {
            return Ok(Found::None);
        }
        if !group.is_open && group.len > 0 {
            let mut pairs = keys.iter().zip(&group.key);
            if pairs.all(|(key, value)| key.order.compare(&row[key.left], value).is_eq()) {
                return Ok(Found::Partners);
            }
            group.forget();
        }
        loop {
            if ex.is_used_up() {
                return Ok(Found::Yield);
            }
            match right.step(ex)? {
                Step::Rows => {}
                Step::Yield => return Ok(Found::Yield),
                Step::Done => {
                    group.is_open = false;
                    return Ok(if group.len > 0 { Found::Partners } else { Found::None });
                }
            }
            let other = right.row();
            if keys.iter().any(|key| other[key.right].is_null()) {
                right.at += 1;
                ex.spend(1);
                continue;
            }
            let order = keys
                .iter()
                .map(|key| key.order.compare(&other[key.right], &row[key.left]))
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal);
            match order {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal if asks_only_whether => return Ok(Found::Partners),
                std::cmp::Ordering::Equal => {
                    let at = right.at;
                    if group.len == 0 {
                        group.key = keys.iter().map(|key| other[key.right].clone()).collect();
                        group.first.clear();
                        group.first.extend(right.rows.row_mut(at).iter_mut().map(std::mem::take));
                    } else {
                        group.others.push(ex.cx.memory, right.rows.row_mut(at))?;
                    }
                    group.len += 1;
                    group.is_open = true;
                }
                std::cmp::Ordering::Greater => {
                    group.is_open = false;
                    return Ok(if group.len > 0 { Found::Partners } else { Found::None });
                }
            }
            right.at += 1;
            ex.spend(1);
        }
    }
}

//! The operator that sorts: see [`Sorter`] for how.
//!
//! ```text
//! rows:     | row | keys |  | row | keys | ...      a key that is a column of the row is not stored twice
//! ```
//! With `top`, rows that cannot be among the first `top` ones are dropped on the way.
//!
//! Rows that come in the order of the first keys already are sorted part by part. A part ends where
//! these keys change, and holds a number of rows at least: so a LIMIT reads one part or a few, and
//! small parts cost no more than one sort of all rows.
//!
//! A sort with `top` may be divided ([`parallel`](super::parallel)). Each thread keeps its own first
//! `top` rows. Rows that are equal in the keys are then ordered by the number of their morsel, so they
//! come as if one thread had read them all.

use std::sync::Arc;

use colibri_types::{Datum, Result};

use super::batch::BATCH_ROWS_MAX;
use super::memory::{Reservation, Use};
use super::operator::{Beyond, Operator, Run};
use super::parallel::{Dividing, Taken};
use super::sorter::{KeyOrder, Sorter, compare_keys};
use super::{Batch, Exec, Scope, Statement, Step};
use crate::eval::Evaluate as _;
use crate::explain::{Spilled, Usage};
use crate::expr::Expr;
use crate::plan::SortKey;

/// What letting go of a block of rows is to the budget, in rows.
const DROPPED_COST: usize = 256;
/// A `top` above this is sorted whole.
const TOP_MAX: usize = 65_536;
/// Rows of the first part, where the first keys are in order; it doubles from part to part. Tests
/// have parts of few rows.
const PART_ROWS_FIRST: usize = if cfg!(test) { 2 } else { 32 };
/// The most rows that a part is to have at least.
const PART_ROWS_MAX: usize = if cfg!(test) { 64 } else { 4_096 };

/// A sort.
pub(super) struct Sort {
    by: SortBy,
    run: SortRun,
}

/// What a sort goes by.
struct SortBy {
    keys: Arc<[SortKey]>,
    top: Option<Expr>,
    /// How many of the keys, columns all, the rows come in the order of.
    presorted: usize,
}

/// A sort at work.
struct SortRun {
    input: Run,
    fresh: Batch,
    /// Columns of the input's rows.
    width: usize,
    /// Keys that have to be computed.
    computed: usize,
    /// Columns of the rows kept: the keys that had to be computed come behind the row, and then the
    /// number of its morsel.
    kept_width: usize,
    sorter: Sorter,
    top: Option<usize>,
    /// With `top`: the last of the first `top` rows.
    worst: Option<usize>,
    memory: Reservation,
    phase: Phase,
    part: Part,
    /// If it may be divided.
    dividing: Option<Box<Dividing>>,
    /// It is divided: the last column kept is the number of the row's morsel.
    is_divided: bool,
    /// It gives its rows to another one.
    is_job: bool,
    /// A job whose rows are taken in.
    joining: Option<Joining>,
}

/// Rows of a job that are taken in.
struct Joining {
    job: Box<Sort>,
    /// The next of them.
    at: usize,
}

/// How far a sort is that goes part by part.
struct Part {
    /// Rows of `fresh` that are taken.
    taken: usize,
    /// Rows of this part so far.
    rows: usize,
    /// How many it is to have at least.
    rows_min: usize,
    /// What its last rows have in the presorted keys, once it has as many rows.
    last: Vec<Datum>,
    /// The input has no more rows.
    is_last: bool,
    /// Bytes on disk of the parts so far, at most.
    on_disk: u64,
}

impl Default for Part {
    fn default() -> Self {
        let rows_min = PART_ROWS_FIRST;
        Self { taken: 0, rows: 0, rows_min, last: Vec::new(), is_last: false, on_disk: 0 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    Taking,
    /// Rows of jobs are taken in.
    Joining,
    /// Rows go to disk; whether those of jobs are to follow, and no others.
    Spilling {
        is_joining: bool,
    },
    Finishing,
    Giving,
}

impl Sort {
    pub(super) fn new(mut input: Run, keys: &Arc<[SortKey]>, top: Option<&Expr>, presorted: usize) -> Self {
        if presorted == 0 {
            input.forget_order();
        }
        Self { by: SortBy { keys: Arc::clone(keys), top: top.cloned(), presorted }, run: SortRun::new(input) }
    }

    /// Has it be divided where that pays.
    pub(super) fn dividing(mut self, dividing: Option<Dividing>) -> Self {
        self.run.dividing = dividing.map(Box::new);
        self
    }

    pub(super) fn dividing_mut(&mut self) -> Option<&mut Dividing> {
        self.run.dividing.as_deref_mut()
    }

    /// Takes its morsels in, for somebody who takes the rows: a job. It gives none itself, and says
    /// `Step::Done` when it is done.
    pub(super) fn take_all(&mut self, ex: &mut Exec<'_, '_>) -> Result<Step> {
        self.run.is_job = true;
        self.run.step(&self.by, ex, &mut Batch::new())
    }
}

impl Operator for Sort {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        self.run.step(&self.by, ex, out)
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.run.forget();
        self.run.input.rewind(ex);
    }

    fn reset(&mut self) {
        self.run.forget();
        self.run.input.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.run.input.give_back(ex);
        if let Some(dividing) = &mut self.run.dividing {
            dividing.forget();
        }
        self.run.joining = None;
        self.run.memory.release();
    }

    fn usage(&self, _: &Statement) -> Option<Usage> {
        Some(self.run.usage())
    }
}

impl SortRun {
    fn new(input: Run) -> Self {
        Self {
            input,
            fresh: Batch::new(),
            width: 0,
            computed: 0,
            kept_width: 0,
            sorter: Sorter::new(0, Vec::new()),
            top: None,
            worst: None,
            memory: Reservation::default(),
            phase: Phase::Start,
            part: Part::default(),
            dividing: None,
            is_divided: false,
            is_job: false,
            joining: None,
        }
    }

    /// Back to the start, but for the input.
    fn forget(&mut self) {
        let mut dividing = self.dividing.take();
        if let Some(dividing) = &mut dividing {
            dividing.forget();
        }
        *self = Self { dividing, ..Self::new(self.input.take()) };
    }

    fn usage(&self) -> Usage {
        let on_disk = self.sorter.bytes_on_disk().max(self.part.on_disk);
        let method = match self.top {
            _ if on_disk > 0 => "external merge",
            Some(_) => "top-N heapsort",
            None => "quicksort",
        };
        Usage::Sort(method, Spilled { memory_bytes: self.memory.peak() as u64, disk_bytes: on_disk, batches: 0 })
    }

    fn step(&mut self, by: &SortBy, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        loop {
            match self.phase {
                Phase::Start => {
                    if !self.start(by, ex)? {
                        return Ok(Step::Yield);
                    }
                    self.phase = Phase::Taking;
                }
                Phase::Taking if self.part.taken < self.fresh.rows() => self.take(by, ex)?,
                Phase::Taking => {
                    self.part.taken = 0;
                    self.fresh.want(if by.presorted == 0 { BATCH_ROWS_MAX } else { self.part.rows_min });
                    match self.input.step(ex, &mut self.fresh)? {
                        Step::Yield => {
                            self.fresh.reset(0);
                            return Ok(Step::Yield);
                        }
                        Step::Rows => {
                            if self.kept_width == 0 {
                                self.begin(by, self.fresh.width());
                            }
                            self.take(by, ex)?;
                        }
                        Step::Done if self.dividing.as_mut().is_some_and(|dividing| dividing.next_morsel()) => {
                            self.fresh.reset(0);
                            self.input.rewind(ex);
                            self.leave_out(by);
                        }
                        Step::Done if self.is_job => {
                            self.fresh.reset(0);
                            if let Some(top) = self.top {
                                self.keep_top(top)?;
                            }
                            return Ok(Step::Done);
                        }
                        Step::Done if self.has_jobs() => {
                            self.fresh.reset(0);
                            self.phase = Phase::Joining;
                        }
                        Step::Done => {
                            self.fresh.reset(0);
                            self.input.give_back(ex);
                            self.part.is_last = true;
                            self.end_part()?;
                        }
                    }
                }
                Phase::Joining => {
                    if !self.join(by, ex)? {
                        return Ok(Step::Yield);
                    }
                }
                Phase::Spilling { is_joining } => {
                    if !self.sorter.spill(ex, Use::Rows.bytes_max(ex.cx.memory))? {
                        return Ok(Step::Yield);
                    }
                    self.memory.hold(ex.cx.memory, self.sorter.bytes(), Use::Rows);
                    self.phase = if is_joining { Phase::Joining } else { Phase::Taking };
                }
                Phase::Finishing => {
                    if !self.sorter.finish(ex, Use::Rows.bytes_max(ex.cx.memory))? {
                        return Ok(Step::Yield);
                    }
                    self.memory.hold(ex.cx.memory, self.sorter.bytes(), Use::Rows);
                    self.phase = Phase::Giving;
                }
                Phase::Giving => match self.give(ex, out)? {
                    Step::Done if self.has_more_parts() => self.begin_part(by),
                    step => return Ok(step),
                },
            }
        }
    }

    /// All rows of the part are there.
    fn end_part(&mut self) -> Result<()> {
        if let Some(top) = self.top {
            self.keep_top(top)?;
        }
        self.phase = Phase::Finishing;
        Ok(())
    }

    /// Whether rows may come behind those of the part that has been given.
    fn has_more_parts(&self) -> bool {
        !self.part.is_last && self.top != Some(0)
    }

    fn begin_part(&mut self, by: &SortBy) {
        self.part.on_disk = self.part.on_disk.max(self.sorter.bytes_on_disk());
        self.sorter = Sorter::new(self.kept_width, self.order(by));
        self.worst = None;
        self.part.rows = 0;
        self.part.rows_min = (self.part.rows_min * 2).min(PART_ROWS_MAX).min(self.top.unwrap_or(usize::MAX)).max(1);
        self.part.last.clear();
        self.phase = Phase::Taking;
    }

    fn give(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        out.reset(self.width);
        while !out.is_full() {
            if !self.sorter.next_into(out.push())? {
                out.pop();
                break;
            }
        }
        ex.spend(out.rows());
        if !out.is_empty() {
            self.top = self.top.map(|top| top.saturating_sub(out.rows()));
            return Ok(Step::Rows);
        }
        while self.sorter.drop_block() {
            ex.spend(DROPPED_COST);
            if ex.is_used_up() {
                return Ok(Step::Yield);
            }
        }
        Ok(Step::Done)
    }

    /// Finds out how many rows are wanted, and divides the sort if that pays; `false` while the budget
    /// is used up.
    #[inline(never)]
    fn start(&mut self, by: &SortBy, ex: &mut Exec<'_, '_>) -> Result<bool> {
        // What is wrong with the limit is the Limit's business.
        let top = by.top.as_ref().and_then(|top| top.eval_owned(&mut ex.scope(), &[]).ok());
        self.top = match top {
            Some(Datum::Int(top)) => usize::try_from(top).ok().filter(|&top| top <= TOP_MAX),
            _ => None,
        };
        self.part.rows_min = self.top.map_or(PART_ROWS_FIRST, |top| top.clamp(1, PART_ROWS_FIRST));
        if let Some(dividing) = &mut self.dividing
            && self.top.is_some()
        {
            if !dividing.begin(ex)? {
                return Ok(false);
            }
            self.is_divided = dividing.is_divided();
        }
        Ok(true)
    }

    /// Says how many columns the rows have.
    fn begin(&mut self, by: &SortBy, width: usize) {
        self.width = width;
        self.computed = by.keys.iter().filter(|key| !matches!(key.expr, Expr::Column(_))).count();
        // Rows without columns and keys still have to be counted.
        self.kept_width = (width + self.computed + usize::from(self.is_divided)).max(1);
        self.sorter = Sorter::new(self.kept_width, self.order(by));
    }

    fn has_jobs(&self) -> bool {
        self.joining.is_some() || self.dividing.as_ref().is_some_and(|dividing| dividing.has_jobs())
    }

    /// Takes in rows of jobs that have ended, and says what comes next; `false` while the budget is
    /// used up.
    #[inline(never)]
    fn join(&mut self, by: &SortBy, ex: &mut Exec<'_, '_>) -> Result<bool> {
        if ex.is_used_up() {
            return Ok(false);
        }
        let Joining { mut job, mut at } = match self.joining.take() {
            Some(joining) => joining,
            None => match self.dividing.as_mut().map_or(Ok(Taken::All), |dividing| dividing.take(ex))? {
                Taken::One(ended) => Joining { job: Box::new(ended.join(ex.txn).sort()?), at: 0 },
                Taken::Later => return Ok(false),
                Taken::All => {
                    self.input.give_back(ex);
                    self.part.is_last = true;
                    self.end_part()?;
                    return Ok(true);
                }
            },
        };
        if self.kept_width == 0 && job.run.kept_width > 0 {
            self.begin(by, job.run.width);
        }
        let rows = &mut job.run.sorter;
        let end = rows.rows_in_memory().min(at + BATCH_ROWS_MAX);
        ex.spend((end - at).max(1));
        ex.check_cancel()?;
        while at < end {
            self.sorter.push(rows.take_row(at));
            at += 1;
        }
        if at < rows.rows_in_memory() {
            self.joining = Some(Joining { job, at });
        }
        self.drop_late(None)?;
        self.heed_memory(true, ex)?;
        Ok(true)
    }

    /// Where the keys are in a kept row.
    fn order(&self, by: &SortBy) -> Vec<KeyOrder> {
        let mut computed = self.width..;
        let mut place = |key: &SortKey| match key.expr {
            Expr::Column(column) => Some(column),
            _ => computed.next(),
        };
        let of_keys = by.keys.iter().filter_map(|key| Some(KeyOrder::new(place(key)?, key)));
        let mut order: Vec<KeyOrder> = of_keys.collect();
        order.extend(self.is_divided.then(|| KeyOrder::ascending(self.kept_width - 1)));
        order
    }

    /// Takes rows of `fresh` in, up to the end of the part.
    fn take(&mut self, by: &SortBy, ex: &mut Exec<'_, '_>) -> Result<()> {
        let mut scope = ex.scope();
        let dividing = self.dividing.as_ref().filter(|_| self.is_divided);
        let morsel = dividing.map(|dividing| Datum::Int(dividing.at()));
        for index in self.part.taken..self.fresh.rows() {
            if by.presorted > 0 && self.is_behind_part(by, index) {
                self.part.taken = index;
                return self.end_part();
            }
            // A row that is equal to the last one in the keys comes later than that.
            let keys = &self.sorter.keys()[..by.keys.len()];
            if let Some(worst) = self.worst
                && self.computed == 0
                && compare_keys(keys, self.fresh.row(index), self.sorter.row(worst)).is_ge()
            {
                continue;
            }
            let row = self.fresh.row_mut(index);
            let number = self.sorter.rows_in_memory();
            let computed = compute_keys(&by.keys, &mut scope, row)?;
            let filled = row.iter_mut().map(std::mem::take).chain(computed).chain(morsel.clone());
            let filled = filled.chain(std::iter::repeat(Datum::Null));
            self.sorter.push(filled.take(self.kept_width));
            if let Some(worst) = self.worst
                && self.sorter.compare_rows(self.sorter.row(number), self.sorter.row(worst)).is_ge()
            {
                self.sorter.pop();
            }
        }
        self.part.taken = self.fresh.rows();
        if self.top.is_none() {
            self.sorter.sort_full()?;
        }
        self.drop_late(Some(by))?;
        self.heed_memory(false, ex)
    }

    /// Drops rows that are not among the first `top`, now and then, and tells the input of those that
    /// go.
    fn drop_late(&mut self, input_by: Option<&SortBy>) -> Result<()> {
        match self.top {
            Some(top) if self.sorter.rows_in_memory() >= (2 * top).max(1024) => {
                self.keep_top(top)?;
                if let Some(by) = input_by {
                    self.leave_out(by);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Goes on with putting rows on disk if memory is full.
    fn heed_memory(&mut self, is_joining: bool, ex: &mut Exec<'_, '_>) -> Result<()> {
        if self.memory.hold(ex.cx.memory, self.sorter.bytes(), Use::Rows) {
            return Ok(());
        }
        if let Some(top) = self.top {
            self.keep_top(top)?;
            if self.memory.hold(ex.cx.memory, self.sorter.bytes(), Use::Rows) {
                return Ok(());
            }
            if self.is_job {
                // With the rows of its morsel, which is bounded.
                self.dividing.iter().for_each(|dividing| dividing.close());
                return Ok(());
            }
            // The first `top` rows alone are too much: they are sorted as all others are.
            (self.top, self.worst) = (None, None);
        }
        self.phase = Phase::Spilling { is_joining };
        Ok(())
    }

    /// Whether a row that came belongs to the next part. If not, it is counted.
    fn is_behind_part(&mut self, by: &SortBy, index: usize) -> bool {
        let row = self.fresh.row(index);
        let presorted = by.keys[..by.presorted].iter().filter_map(|key| match key.expr {
            Expr::Column(column) => Some(&row[column]),
            _ => None,
        });
        let part = &mut self.part;
        if part.rows >= part.rows_min {
            let mut pairs = presorted.zip(&part.last);
            return !pairs.all(|(value, last)| KeyOrder::ascending(0).compare(value, last).is_eq());
        }
        part.rows += 1;
        if part.rows == part.rows_min {
            part.last = presorted.cloned().collect();
        }
        false
    }

    /// Tells the input which rows come too late to be among the first `top`.
    fn leave_out(&mut self, by: &SortBy) {
        // Keys that are computed have their effects for each row.
        if let (Some(worst), 0) = (self.worst, by.presorted)
            && self.computed == 0
        {
            let worst = self.sorter.row(worst);
            let last = self.sorter.keys()[..by.keys.len()].iter().map(|key| (*key, worst[key.place].clone()));
            self.input.leave_out(Beyond { last: last.collect(), or_equal: true });
        }
    }

    /// Drops all rows but the first `top`.
    fn keep_top(&mut self, top: usize) -> Result<()> {
        self.sorter.keep_top(top)?;
        self.worst = (self.sorter.rows_in_memory() == top && top > 0).then(|| top - 1);
        Ok(())
    }
}

/// The values of those keys that are not columns.
fn compute_keys(keys: &[SortKey], scope: &mut Scope<'_>, row: &[Datum]) -> Result<smallvec::SmallVec<[Datum; 2]>> {
    let computed = keys.iter().filter(|key| !matches!(key.expr, Expr::Column(_)));
    computed.map(|key| key.expr.eval_owned(scope, row)).collect()
}

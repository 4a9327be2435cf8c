//! Rows that are computed once and found by keys: what is left of a query that is run for each row
//! of another when all that depends on that row is taken out of it.
//!
//! The rows belong to the statement, not to the operator, which may be made anew for each row
//! outside. Whoever reads them first has them computed.
//!
//! Invariants: rows with the same key come in the order in which they were computed; NULL is no
//! key. Computing them is given up with an error when it looks at more rows than the plan says:
//! then [`super::switch`] goes on without.

use std::sync::Arc;

use colibri_types::{Datum, Error, Result, SqlState};
use smallvec::SmallVec;

use super::memory::{Reservation, Use};
use super::operator::{Operator, Run};
use super::row_table::{NONE, RowTable};
use super::{Batch, Exec, Step, row_bytes};
use crate::eval::Evaluate as _;
use crate::expr::Expr;

/// What a row is found by.
type KeyValues = SmallVec<[Datum; 2]>;

/// How many rows are linked between looks at the budget.
const LINKED_AT_ONCE: usize = 1024;

/// Rows by their keys, as far as they are there.
pub(super) struct Kept {
    run: Run,
    /// It has run, and has to go back to its start before it does so again.
    has_run: bool,
    /// The columns that rows are found by, and how many they have.
    columns: Vec<usize>,
    width: usize,
    fresh: Batch,
    table: RowTable,
    phase: Phase,
    /// Bytes of texts in the rows, which the table does not count.
    texts: usize,
    memory: Reservation,
    /// Rows looked at to compute them.
    looked_at: u64,
}

/// How far rows are that were to be prepared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prepared {
    /// The budget is used up.
    Yield,
    Ready,
    TooMany,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    Compute,
    Link,
    Ready,
}

/// A reader at work.
pub(super) struct KeyedRun {
    /// Which of the statement's kept rows it reads.
    place: usize,
    width: usize,
    keys: Arc<[(usize, Expr)]>,
    looked_at_max: u64,
    /// The key has been looked up.
    open: bool,
    candidate: u32,
}

fn empty_table(columns: &[usize], width: usize) -> RowTable {
    let keys: Vec<Expr> = columns.iter().map(|column| Expr::Column(*column)).collect();
    RowTable::new(width, &keys)
}

impl Kept {
    pub(super) fn new(run: Run, keys: &[(usize, Expr)], width: usize) -> Self {
        let columns: Vec<usize> = keys.iter().map(|(column, _)| *column).collect();
        Self {
            run,
            has_run: false,
            fresh: Batch::new(),
            table: empty_table(&columns, width),
            columns,
            width,
            phase: Phase::Start,
            texts: 0,
            memory: Reservation::default(),
            looked_at: 0,
        }
    }

    /// Forgets all rows. The next reader has them computed anew.
    fn forget(&mut self) {
        self.table = empty_table(&self.columns, self.width);
        self.phase = Phase::Start;
        (self.texts, self.looked_at) = (0, 0);
        self.memory.release();
    }

    /// As if the statement had not begun.
    pub(super) fn reset(&mut self) {
        self.forget();
        self.has_run = false;
        self.fresh = std::mem::take(&mut self.fresh).kept();
        self.run.reset();
    }

    /// Goes on until all rows are there, or more than are wanted.
    fn prepare(&mut self, looked_at_max: u64, rows_max: usize, ex: &mut Exec<'_, '_>) -> Result<Prepared> {
        if self.phase == Phase::Start {
            self.phase = Phase::Compute;
            if std::mem::replace(&mut self.has_run, true) {
                self.run.rewind(ex);
            }
        }
        while self.phase == Phase::Compute {
            let budget = ex.cx.budget_rows;
            let step = self.run.step(ex, &mut self.fresh)?;
            self.looked_at += budget.saturating_sub(ex.cx.budget_rows).max(0) as u64;
            match step {
                Step::Rows => self.take(ex)?,
                Step::Yield => return Ok(Prepared::Yield),
                Step::Done => {
                    self.run.give_back(ex);
                    self.phase = Phase::Link;
                }
            }
            if self.looked_at > looked_at_max || self.table.len() > rows_max {
                return Ok(Prepared::TooMany);
            }
        }
        while self.phase == Phase::Link {
            if ex.is_used_up() {
                return Ok(Prepared::Yield);
            }
            ex.check_cancel()?;
            ex.spend(self.table.len().min(LINKED_AT_ONCE));
            if self.table.link(LINKED_AT_ONCE) {
                self.phase = Phase::Ready;
            }
        }
        Ok(Prepared::Ready)
    }

    fn take(&mut self, ex: &mut Exec<'_, '_>) -> Result<()> {
        for index in 0..self.fresh.rows() {
            let row = self.fresh.row_mut(index);
            if self.columns.iter().any(|column| row[*column].is_null()) {
                continue;
            }
            let values: KeyValues = self.columns.iter().map(|column| row[*column].clone()).collect();
            let key = self.table.key(&values);
            self.texts += row_bytes(row) - size_of_val(row);
            self.table.push(Some(key), row)?;
        }
        match self.memory.hold(ex.cx.memory, self.table.bytes() + self.texts, Use::Hash) {
            true => Ok(()),
            false => Err(too_many()),
        }
    }
}

impl KeyedRun {
    pub(super) fn new(place: usize, width: usize, keys: &Arc<[(usize, Expr)]>, looked_at_max: u64) -> Self {
        Self { place, width, keys: Arc::clone(keys), looked_at_max, open: false, candidate: NONE }
    }

    /// The rows, which are taken out while they are at work: their input may read other kept rows.
    fn take_out(&self, ex: &mut Exec<'_, '_>) -> Result<Box<Kept>> {
        let kept = ex.statement.keyed.get_mut(self.place).and_then(Option::take);
        kept.ok_or_else(|| Error::internal("rows that are kept by keys read themselves"))
    }

    /// Puts them back; if they are not to be used they are forgotten.
    fn put_back(&self, mut kept: Box<Kept>, is_usable: bool, ex: &mut Exec<'_, '_>) {
        if !is_usable {
            kept.run.give_back(ex);
            kept.forget();
        }
        ex.statement.keyed[self.place] = Some(kept);
    }

    fn give(&mut self, table: &RowTable, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        if !self.open {
            ex.spend(1);
            self.open = true;
            self.candidate = NONE;
            let mut values = KeyValues::new();
            let mut scope = ex.scope();
            for (_, value) in self.keys.iter() {
                let value = match value.eval_owned(&mut scope, &[]) {
                    Ok(value) => value,
                    Err(error) => {
                        self.open = false;
                        return ex.interrupted(error, out);
                    }
                };
                if value.is_null() {
                    return Ok(Step::Done);
                }
                values.push(value);
            }
            self.candidate = table.find(&values);
        }
        out.reset(self.width);
        while self.candidate != NONE && !out.is_full() && !ex.is_used_up() {
            ex.spend(1);
            let row = self.candidate as usize;
            self.candidate = table.next(row);
            out.push_row(table.row(row));
        }
        Ok(match out.is_empty() {
            false => Step::Rows,
            true if self.candidate == NONE => Step::Done,
            true => Step::Yield,
        })
    }
}

impl Operator for KeyedRun {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let mut kept = self.take_out(ex)?;
        let step = match kept.prepare(self.looked_at_max, usize::MAX, ex) {
            Ok(Prepared::Ready) => self.give(&kept.table, ex, out),
            Ok(Prepared::Yield) => Ok(Step::Yield),
            Ok(Prepared::TooMany) => Err(too_many()),
            Err(error) => Err(error),
        };
        self.put_back(kept, step.is_ok(), ex);
        step
    }

    fn rewind(&mut self, _: &mut Exec<'_, '_>) {
        self.open = false;
    }

    fn reset(&mut self) {
        (self.open, self.candidate) = (false, NONE);
    }

    /// Has rows computed before they are read, if there are at most `rows_max`. More than these are
    /// forgotten.
    fn prepare(&mut self, rows_max: usize, ex: &mut Exec<'_, '_>) -> Result<Prepared> {
        let mut kept = self.take_out(ex)?;
        let prepared = kept.prepare(self.looked_at_max, rows_max, ex);
        self.put_back(kept, matches!(prepared, Ok(Prepared::Yield | Prepared::Ready)), ex);
        prepared
    }
}

#[cold]
fn too_many() -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, "more rows to keep by keys than the plan expected")
}

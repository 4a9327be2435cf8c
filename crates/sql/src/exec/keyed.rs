//! Rows that are computed once and found by keys: what is left of a query that is run for each row
//! of another when all that depends on that row is taken out of it.
//!
//! The rows belong to the statement, not to the operator, which may be made anew for each row
//! outside. Whoever reads them first has them computed.
//!
//! Invariants: rows with the same key come in the order in which they were computed; NULL is no
//! key. Computing them is given up with an error when it looks at more rows than the plan says:
//! then [`super::switch`] goes on without.

use colibri_types::{Datum, Error, Result, SqlState};
use smallvec::SmallVec;

use super::memory::{Reservation, Use};
use super::row_table::{NONE, RowTable};
use super::{Batch, Exec, Run, Step, row_bytes};
use crate::expr::Expr;
use crate::plan::{KeyedId, Node};

/// What a row is found by.
type KeyValues = SmallVec<[Datum; 2]>;

/// How many rows are linked between looks at the budget.
const LINKED_AT_ONCE: usize = 1024;

/// Rows by their keys, as far as they are there.
pub(crate) struct Kept {
    run: Run,
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
    Compute,
    Link,
    Ready,
}

/// What an operator of this kind consists of.
pub(super) struct Parts<'p> {
    pub(super) id: KeyedId,
    pub(super) input: &'p Node,
    pub(super) width: usize,
    pub(super) keys: &'p [(usize, Expr)],
    pub(super) looked_at_max: u64,
}

/// A reader at work.
#[derive(Default)]
pub(crate) struct KeyedRun {
    /// The key has been looked up.
    open: bool,
    candidate: u32,
}

impl Kept {
    fn new(parts: &Parts<'_>) -> Self {
        let keys: Vec<Expr> = parts.keys.iter().map(|(column, _)| Expr::Column(*column)).collect();
        Self {
            run: Run::new(parts.input),
            fresh: Batch::new(),
            table: RowTable::new(parts.width, &keys),
            phase: Phase::Compute,
            texts: 0,
            memory: Reservation::default(),
            looked_at: 0,
        }
    }

    /// Goes on until all rows are there, or more than are wanted.
    fn prepare(&mut self, parts: &Parts<'_>, rows_max: usize, ex: &mut Exec<'_, '_>) -> Result<Prepared> {
        while self.phase == Phase::Compute {
            let budget = ex.cx.budget_rows;
            let step = self.run.step(parts.input, ex, &mut self.fresh)?;
            self.looked_at += budget.saturating_sub(ex.cx.budget_rows).max(0) as u64;
            match step {
                Step::Rows => self.take(parts, ex)?,
                Step::Yield => return Ok(Prepared::Yield),
                Step::Done => {
                    self.run.give_back(ex);
                    self.phase = Phase::Link;
                }
            }
            if self.looked_at > parts.looked_at_max || self.table.len() > rows_max {
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

    fn take(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Result<()> {
        for index in 0..self.fresh.rows() {
            let row = self.fresh.row_mut(index);
            if parts.keys.iter().any(|(column, _)| row[*column].is_null()) {
                continue;
            }
            let values: KeyValues = parts.keys.iter().map(|(column, _)| row[*column].clone()).collect();
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

/// A node of this kind, taken apart.
pub(super) fn parts(node: &Node) -> Result<Parts<'_>> {
    match node {
        Node::Keyed { id, input, width, keys, looked_at_max } => {
            Ok(Parts { id: *id, input, width: *width, keys, looked_at_max: *looked_at_max })
        }
        _ => Err(Error::internal("rows by keys were given another node")),
    }
}

/// Rows are taken out while they are at work: their input may read other kept rows.
fn take_out(parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Box<Kept> {
    let all = &mut ex.statement.keyed;
    let place = all.iter().position(|(id, _)| *id == parts.id);
    place.map_or_else(|| Box::new(Kept::new(parts)), |place| all.swap_remove(place).1)
}

/// Has rows computed ahead of whoever reads them, if there are no more than some; if there are,
/// they are forgotten.
pub(super) fn prepare(parts: &Parts<'_>, rows_max: usize, ex: &mut Exec<'_, '_>) -> Result<Prepared> {
    let mut kept = take_out(parts, ex);
    let prepared = kept.prepare(parts, rows_max, ex);
    if matches!(prepared, Ok(Prepared::Yield | Prepared::Ready)) {
        ex.statement.keyed.push((parts.id, kept));
    } else {
        kept.run.give_back(ex);
    }
    prepared
}

impl KeyedRun {
    pub(super) fn step(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let mut kept = take_out(parts, ex);
        let step = match kept.prepare(parts, usize::MAX, ex) {
            Ok(Prepared::Ready) => self.give(&kept.table, parts, ex, out),
            Ok(Prepared::Yield) => Ok(Step::Yield),
            Ok(Prepared::TooMany) => Err(too_many()),
            Err(error) => Err(error),
        };
        if step.is_err() {
            kept.run.give_back(ex);
        } else {
            ex.statement.keyed.push((parts.id, kept));
        }
        step
    }

    fn give(&mut self, table: &RowTable, parts: &Parts<'_>, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        if !self.open {
            ex.spend(1);
            self.open = true;
            self.candidate = NONE;
            let mut values = KeyValues::new();
            let mut scope = ex.scope();
            for (_, value) in parts.keys {
                let value = value.eval_owned(&mut scope, &[])?;
                if value.is_null() {
                    return Ok(Step::Done);
                }
                values.push(value);
            }
            self.candidate = table.find(&values);
        }
        out.reset(parts.width);
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

    pub(super) fn rewind(&mut self) {
        self.open = false;
    }
}

#[cold]
fn too_many() -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, "more rows to keep by keys than the plan expected")
}

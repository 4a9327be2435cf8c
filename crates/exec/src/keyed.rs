//! Rows that are computed once and found by keys: what is left of a query that is run for each row
//! of another when all that depends on that row is taken out of it.
//!
//! The rows belong to the statement, not to the operator, which may be made anew for each row
//! outside. The first reader has them computed. They go to disk when memory is full.
//!
//! | phase | rows are |
//! | --- | --- |
//! | `Compute` | taken in: in a table in memory, or by a sorter |
//! | `Move` | moved from the table to the sorter: memory is full |
//! | `Spill` | written by the sorter, as often as memory is full |
//! | `Link` | put into the table's places, or in the order of their hashes |
//! | `Ready` | found |
//!
//! Invariants: rows with the same key come in the order in which they were computed; NULL is no key
//! unless the column says so. Computing them is given up with an error when it looks at more rows
//! than the plan says: then [`super::switch`] goes on without.

use std::sync::Arc;

use colibri_types::{Datum, Error, Result, SqlState};
use smallvec::SmallVec;

use super::disk_rows::{DiskReader, DiskRows};
use super::group::{equal_key, hash_values};
use super::memory::{Reservation, Use};
use super::operator::{Operator, Run};
use super::row_table::{NONE, RowTable};
use super::{Batch, Exec, Statement, Step, row_bytes};
use crate::eval::Evaluate as _;
use crate::explain::{Spilled, Usage};
use crate::expr::Expr;
use crate::plan::KeyColumn;

/// What a row is found by.
type KeyValues = SmallVec<[Datum; 2]>;

/// How many rows are linked, or moved, between looks at the budget.
const ROWS_AT_ONCE: usize = 1024;

/// An attempt that met too many rows is followed by one that may look at this many times as many.
const MORE_NEXT_TIME: u64 = 8;

/// Rows by their keys, as far as they are there.
pub(super) struct Kept {
    run: Run,
    /// It has run, and has to go back to its start before it does so again.
    has_run: bool,
    /// The columns that rows are found by, and how many they have.
    keys: Arc<[KeyColumn]>,
    width: usize,
    fresh: Batch,
    rows: Rows,
    phase: Phase,
    memory: Reservation,
    /// Rows looked at to compute them.
    looked_at: u64,
}

/// Where rows are.
enum Rows {
    InMemory {
        table: RowTable,
        /// Bytes of texts in the rows, which the table does not count.
        texts: usize,
    },
    OnDisk(Box<DiskRows>),
    /// Rows from a place of the table on have to be moved.
    Between(RowTable, usize, Box<DiskRows>),
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
    Move,
    Spill,
    Link,
    Ready,
}

/// A reader at work.
pub(super) struct KeyedRun {
    /// Which of the statement's kept rows it reads.
    place: usize,
    width: usize,
    keys: Arc<[KeyColumn]>,
    /// How many rows may be looked at to compute them: as planned, and now.
    planned_max: u64,
    looked_at_max: u64,
    /// The key, once it has been looked up.
    key: Option<KeyValues>,
    /// The next row in memory.
    candidate: u32,
    /// Where it reads on disk.
    reader: Option<Box<DiskReader>>,
}

impl Rows {
    fn new(keys: &[KeyColumn], width: usize) -> Self {
        let columns: Vec<Expr> = keys.iter().map(|key| Expr::Column(key.column)).collect();
        let has_nulls = keys.iter().any(|key| key.with_nulls);
        let table = if has_nulls { RowTable::with_nulls(width, &columns) } else { RowTable::new(width, &columns) };
        Self::InMemory { table, texts: 0 }
    }

    /// How many there are in memory.
    fn in_memory(&self) -> usize {
        if let Self::InMemory { table, .. } = self { table.len() } else { 0 }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::InMemory { table, texts } => table.bytes() + texts,
            Self::OnDisk(disk) => disk.bytes(),
            Self::Between(table, _, disk) => table.bytes() + disk.bytes(),
        }
    }
}

impl Kept {
    pub(super) fn new(run: Run, keys: &Arc<[KeyColumn]>, width: usize) -> Self {
        Self {
            run,
            has_run: false,
            fresh: Batch::new(),
            rows: Rows::new(keys, width),
            keys: Arc::clone(keys),
            width,
            phase: Phase::Start,
            memory: Reservation::default(),
            looked_at: 0,
        }
    }

    /// Forgets all rows. The next reader has them computed anew.
    fn forget(&mut self) {
        self.rows = Rows::new(&self.keys, self.width);
        self.phase = Phase::Start;
        self.looked_at = 0;
        self.memory.release();
    }

    /// As if the statement had not begun.
    pub(super) fn reset(&mut self) {
        self.forget();
        self.has_run = false;
        self.fresh = std::mem::take(&mut self.fresh).kept();
        self.run.reset();
    }

    fn usage(&self) -> Usage {
        let memory_bytes = self.memory.peak() as u64;
        let (buckets, disk_bytes) = match &self.rows {
            Rows::InMemory { table, .. } => (table.places() as u64, 0),
            Rows::OnDisk(disk) | Rows::Between(.., disk) => (0, disk.bytes_on_disk()),
        };
        let spilled = Spilled { memory_bytes, disk_bytes, batches: 1 };
        if self.keys.is_empty() { Usage::Rows(spilled) } else { Usage::Hash { buckets, spilled } }
    }

    /// Goes on until all rows are there, or more than are wanted.
    fn prepare(&mut self, looked_at_max: u64, rows_max: usize, ex: &mut Exec<'_, '_>) -> Result<Prepared> {
        while self.phase != Phase::Ready {
            let is_done = match self.phase {
                Phase::Start => {
                    if std::mem::replace(&mut self.has_run, true) {
                        self.run.rewind(ex);
                    }
                    self.phase = Phase::Compute;
                    true
                }
                Phase::Compute => {
                    let is_done = self.compute(ex)?;
                    if self.looked_at > looked_at_max || self.rows.in_memory() > rows_max {
                        return Ok(Prepared::TooMany);
                    }
                    is_done
                }
                Phase::Move => self.move_rows(ex)?,
                Phase::Spill => {
                    let Rows::OnDisk(disk) = &mut self.rows else { return Err(not_on_disk()) };
                    let is_done = disk.spill(ex)?;
                    if is_done {
                        self.memory.hold(ex.cx.memory, self.rows.bytes(), Use::Hash);
                        self.phase = Phase::Compute;
                    }
                    is_done
                }
                Phase::Link | Phase::Ready => self.link(ex)?,
            };
            if !is_done {
                return Ok(Prepared::Yield);
            }
        }
        Ok(Prepared::Ready)
    }

    /// Takes rows in; `false` if the budget is used up.
    fn compute(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        let budget = ex.cx.budget_rows;
        let step = self.run.step(ex, &mut self.fresh)?;
        self.looked_at += budget.saturating_sub(ex.cx.budget_rows).max(0) as u64;
        match step {
            Step::Rows => self.take(ex)?,
            Step::Yield => return Ok(false),
            Step::Done => {
                self.run.give_back(ex);
                self.phase = Phase::Link;
            }
        }
        Ok(true)
    }

    fn take(&mut self, ex: &mut Exec<'_, '_>) -> Result<()> {
        for index in 0..self.fresh.rows() {
            let row = self.fresh.row_mut(index);
            if self.keys.iter().any(|key| row[key.column].is_null() && !key.with_nulls) {
                continue;
            }
            match &mut self.rows {
                Rows::InMemory { table, texts } => {
                    let values: KeyValues = self.keys.iter().map(|key| row[key.column].clone()).collect();
                    let key = table.key(&values);
                    *texts += row_bytes(row) - size_of_val(row);
                    table.push(Some(key), row)?;
                }
                Rows::OnDisk(disk) => disk.push(hash_of(&self.keys, row), row)?,
                Rows::Between(..) => return Err(not_on_disk()),
            }
        }
        if self.memory.hold(ex.cx.memory, self.rows.bytes(), Use::Hash) {
            return Ok(());
        }
        self.phase = Phase::Spill;
        if matches!(self.rows, Rows::InMemory { .. })
            && let Rows::InMemory { table, .. } = std::mem::replace(&mut self.rows, Rows::new(&[], 0))
        {
            self.rows = Rows::Between(table, 0, Box::new(DiskRows::new(self.width)));
            self.phase = Phase::Move;
        }
        Ok(())
    }

    /// Moves rows out of the table; `false` if the budget is used up.
    fn move_rows(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        let Rows::Between(table, at, disk) = &mut self.rows else { return Err(not_on_disk()) };
        while *at < table.len() {
            if ex.is_used_up() {
                return Ok(false);
            }
            ex.check_cancel()?;
            ex.spend(ROWS_AT_ONCE);
            let end = table.len().min(*at + ROWS_AT_ONCE);
            for place in std::mem::replace(at, end)..end {
                let row = table.row_mut(place);
                disk.push(hash_of(&self.keys, row), row)?;
            }
        }
        while table.drop_some() {
            ex.spend(ROWS_AT_ONCE / 4);
        }
        if let Rows::Between(.., disk) = std::mem::replace(&mut self.rows, Rows::new(&[], 0)) {
            self.rows = Rows::OnDisk(disk);
        }
        self.phase = Phase::Spill;
        Ok(true)
    }

    /// Makes rows ready to be found; `false` if the budget is used up.
    fn link(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        match &mut self.rows {
            Rows::InMemory { table, .. } => loop {
                if ex.is_used_up() {
                    return Ok(false);
                }
                ex.check_cancel()?;
                ex.spend(table.len().min(ROWS_AT_ONCE));
                if table.link(ROWS_AT_ONCE) {
                    break;
                }
            },
            Rows::OnDisk(disk) => {
                if !disk.finish(ex)? {
                    return Ok(false);
                }
                self.memory.hold(ex.cx.memory, disk.bytes(), Use::Hash);
            }
            Rows::Between(..) => return Err(not_on_disk()),
        }
        self.phase = Phase::Ready;
        Ok(true)
    }
}

fn hash_of(keys: &[KeyColumn], row: &[Datum]) -> u64 {
    hash_values(keys.iter().map(|key| &row[key.column]))
}

#[cold]
fn not_on_disk() -> Error {
    Error::internal("rows that are kept by keys are not where they should be")
}

impl KeyedRun {
    pub(super) fn new(place: usize, width: usize, keys: &Arc<[KeyColumn]>, looked_at_max: u64) -> Self {
        let (planned_max, keys) = (looked_at_max, Arc::clone(keys));
        Self { place, width, keys, planned_max, looked_at_max, key: None, candidate: NONE, reader: None }
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

    /// Evaluates the key; `None` if no row can have it.
    fn key(&self, ex: &mut Exec<'_, '_>) -> Result<Option<KeyValues>> {
        let mut values = KeyValues::new();
        let mut scope = ex.scope();
        for key in self.keys.iter() {
            let value = key.value.eval_owned(&mut scope, &[])?;
            if value.is_null() && !key.with_nulls {
                return Ok(None);
            }
            values.push(value);
        }
        Ok(Some(values))
    }

    fn give(&mut self, rows: &Rows, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        if self.key.is_none() {
            ex.spend(1);
            let key = match self.key(ex) {
                Ok(Some(key)) => key,
                Ok(None) => return Ok(Step::Done),
                Err(error) => return ex.interrupted(error, out),
            };
            match rows {
                Rows::InMemory { table, .. } => self.candidate = table.find(&key),
                Rows::OnDisk(disk) => {
                    let reader = self.reader.get_or_insert_with(|| Box::new(DiskReader::new(self.width)));
                    disk.seek(hash_values(key.iter()), reader);
                }
                Rows::Between(..) => return Err(not_on_disk()),
            }
            self.key = Some(key);
        }
        out.reset(self.width);
        let is_done = match rows {
            Rows::InMemory { table, .. } => self.give_of_table(table, ex, out),
            Rows::OnDisk(disk) => self.give_of_disk(disk, ex, out)?,
            Rows::Between(..) => return Err(not_on_disk()),
        };
        Ok(match out.is_empty() {
            false => Step::Rows,
            true if is_done => Step::Done,
            true => Step::Yield,
        })
    }

    /// Gives rows; `true` if there are no more.
    fn give_of_table(&mut self, table: &RowTable, ex: &mut Exec<'_, '_>, out: &mut Batch) -> bool {
        while self.candidate != NONE && !out.is_full() && !ex.is_used_up() {
            ex.spend(1);
            let row = self.candidate as usize;
            self.candidate = table.next(row);
            out.push_row(table.row(row));
        }
        self.candidate == NONE
    }

    /// The same of rows on disk, of which others may have the same hash.
    fn give_of_disk(&mut self, disk: &DiskRows, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<bool> {
        let (Some(reader), Some(key)) = (&mut self.reader, &self.key) else { return Err(not_on_disk()) };
        while !out.is_full() && !ex.is_used_up() {
            ex.check_cancel()?;
            ex.spend(1);
            if !disk.next(reader)? {
                return Ok(true);
            }
            if self.keys.iter().zip(key).all(|(key, value)| equal_key(&reader.row()[key.column], value)) {
                out.push_row(reader.row());
            }
        }
        Ok(false)
    }
}

impl Operator for KeyedRun {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let mut kept = self.take_out(ex)?;
        let step = match kept.prepare(self.looked_at_max, usize::MAX, ex) {
            Ok(Prepared::Ready) => self.give(&kept.rows, ex, out),
            Ok(Prepared::Yield) => Ok(Step::Yield),
            Ok(Prepared::TooMany) => {
                self.looked_at_max = self.looked_at_max.saturating_mul(MORE_NEXT_TIME);
                Err(too_many())
            }
            Err(error) => Err(error),
        };
        self.put_back(kept, step.is_ok(), ex);
        step
    }

    fn rewind(&mut self, _: &mut Exec<'_, '_>) {
        self.key = None;
    }

    fn reset(&mut self) {
        (self.key, self.candidate, self.reader) = (None, NONE, None);
        self.looked_at_max = self.planned_max;
    }

    fn usage(&self, statement: &Statement) -> Option<Usage> {
        let kept = statement.keyed.get(self.place)?.as_ref()?;
        (kept.phase == Phase::Ready).then(|| kept.usage())
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

//! DISTINCT, INTERSECT and EXCEPT.
//!
//! Rows that there is no memory for wait on disk, divided by a hash, for later passes: DISTINCT as
//! grouping does, INTERSECT and EXCEPT with both sides divided in the same way, as hash joins are.
//!
//! Invariants: NULL equals NULL here; of rows that are equal the first one is given. INTERSECT ALL
//! and EXCEPT ALL are of bags: as many copies as the smaller side has, or as the left has more than
//! the right.

use colibri_types::{Datum, Error, Result};

use super::batch::{BATCH_ROWS_FIRST, BATCH_ROWS_MAX};
use super::group::{Groups, equal_keys, hash_values};
use super::memory::{Reservation, Use};
use super::operator::{Operator, Run};
use super::spill::{LEVELS_MAX, Leftover, Partitions, SpillFile, Tape, TapeReader};
use super::{Batch, Exec, Statement, Step, row_bytes};
use crate::explain::{Spilled, Usage};
use crate::plan::SetOp;

/// Rows that are read or written between two looks at the budget.
const ROWS_PER_LOOK: usize = 256;

/// DISTINCT at work.
pub(super) struct DistinctRun {
    input: Run,
    columns: usize,
    sorted: bool,
    seen: Groups,
    /// With sorted input: the columns of the last row given.
    last: Option<Vec<Datum>>,
    begun: bool,
    /// Columns of a row, once there was one.
    width: usize,
    /// Rows come from a part that was left over.
    in_part: bool,
    /// Memory is full: what was not seen is left over.
    is_full: bool,
    in_texts: usize,
    memory: Reservation,
    leftover: Leftover,
}

impl DistinctRun {
    pub(super) fn new(mut input: Run, columns: usize, sorted: bool) -> Self {
        if !sorted {
            input.forget_order();
        }
        Self {
            input,
            columns,
            sorted,
            seen: Groups::new(0),
            last: None,
            begun: false,
            width: 0,
            in_part: false,
            is_full: false,
            in_texts: 0,
            memory: Reservation::default(),
            leftover: Leftover::default(),
        }
    }

    /// Back to the start, but for the input.
    fn forget(&mut self) {
        *self = Self::new(self.input.take(), self.columns, self.sorted);
    }

    fn leave_out_seen(&mut self, columns: usize, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<()> {
        let (seen, in_texts, leftover) = (&mut self.seen, &mut self.in_texts, &mut self.leftover);
        if self.is_full {
            return out.retain(|row| {
                let key = &row[..columns];
                if seen.find(key).is_none() {
                    leftover.push(ex.cx.memory, hash_values(key.iter()), row)?;
                }
                Ok(false)
            });
        }
        out.retain(|row| {
            let key = &row[..columns];
            let (_, new) = seen.find_or_add(key);
            *in_texts += if new { row_bytes(key) - size_of_val(key) } else { 0 };
            Ok::<_, Error>(new)
        })?;
        self.is_full = !self.memory.hold(ex.cx.memory, self.seen.bytes() + self.in_texts, Use::Hash);
        Ok(())
    }

    fn read_part(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        ex.check_cancel()?;
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        out.reset(self.width);
        while !out.is_full() {
            if !self.leftover.read(out.push())? {
                out.pop();
                break;
            }
        }
        ex.spend(out.rows());
        Ok(if out.is_empty() { Step::Done } else { Step::Rows })
    }
}

impl Operator for DistinctRun {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let (columns, sorted) = (self.columns, self.sorted);
        if !self.begun {
            self.begun = true;
            self.seen = Groups::new(columns);
        }
        loop {
            let step = if self.in_part { self.read_part(ex, out)? } else { self.input.step(ex, out)? };
            match step {
                Step::Rows => {}
                Step::Yield => return Ok(Step::Yield),
                Step::Done => {
                    self.input.give_back(ex);
                    if !self.leftover.next_pass()? {
                        return Ok(Step::Done);
                    }
                    self.seen = Groups::new(columns);
                    (self.in_part, self.is_full, self.in_texts) = (true, false, 0);
                    continue;
                }
            }
            self.width = out.width();
            if sorted {
                let last = &mut self.last;
                out.retain(|row| {
                    let key = &row[..columns];
                    let new = last.as_ref().is_none_or(|last| !equal_keys(last, key));
                    if new {
                        last.get_or_insert_default().clear();
                        last.get_or_insert_default().extend_from_slice(key);
                    }
                    Ok::<_, Error>(new)
                })?;
            } else {
                self.leave_out_seen(columns, ex, out)?;
            }
            if !out.is_empty() {
                return Ok(Step::Rows);
            }
        }
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.forget();
        self.input.rewind(ex);
    }

    fn reset(&mut self) {
        self.forget();
        self.input.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.input.give_back(ex);
        self.memory.release();
        self.leftover = Leftover::default();
    }

    fn usage(&self, _: &Statement) -> Option<Usage> {
        let (batches, disk_bytes) = self.leftover.usage();
        Some(Usage::Groups(Spilled { memory_bytes: self.memory.peak() as u64, disk_bytes, batches }))
    }
}

/// INTERSECT or EXCEPT at work.
pub(super) struct SetOpRun {
    op: SetOp,
    all: bool,
    left: Run,
    right: Run,
    right_done: bool,
    phase: Phase,
    fresh: Batch,
    rows: Groups,
    /// For each row of the table, how often the right side has it; without ALL, 0 once it need not
    /// be given any more.
    counts: Vec<u64>,
    at: usize,
    ahead: usize,
    in_texts: usize,
    memory: Reservation,
    parted: Option<Box<Parted>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Rows of the right side are counted.
    Right,
    /// Those of the left side are given or not.
    Left,
    /// Both, of a part.
    RightPart,
    LeftPart,
    /// Memory is full: the table goes to parts from this row on, then what is left of both sides.
    DivideTable(usize),
    DivideRight,
    DivideLeft,
    NextPart,
    Done,
}

/// Both sides in parts.
struct Parted {
    file: SpillFile,
    width: usize,
    /// Where rows with their counts go, and left rows.
    right_parts: Option<Partitions>,
    left_parts: Option<Partitions>,
    pending: Vec<(Tape, Tape, u32)>,
    /// The part at hand.
    right: Option<TapeReader>,
    left: Option<TapeReader>,
    /// How often it was divided: 0 while the sides themselves are.
    level: u32,
    row: Vec<Datum>,
    /// How often each right row of the part at hand was counted before.
    counted: Vec<u64>,
    passes: u64,
}

impl Operator for SetOpRun {
    fn step(&mut self, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let (op, all) = (self.op, self.all);
        loop {
            ex.check_cancel()?;
            if ex.is_used_up() {
                return Ok(Step::Yield);
            }
            self.phase = match self.phase {
                Phase::Right => match self.right.step(ex, &mut self.fresh)? {
                    Step::Yield => return Ok(Step::Yield),
                    Step::Rows => {
                        for index in 0..self.fresh.rows() {
                            *self.count(index) += 1;
                        }
                        if self.fits(ex) { Phase::Right } else { self.begin_parts(ex)? }
                    }
                    Step::Done => {
                        self.end_right(ex);
                        Phase::Left
                    }
                },
                Phase::RightPart => match self.read_part(false, ex)? {
                    true => {
                        for index in 0..self.fresh.rows() {
                            let before = self.parted()?.counted[index];
                            *self.count(index) += before;
                        }
                        if self.fits(ex) { Phase::RightPart } else { self.divide_again()? }
                    }
                    false => {
                        self.parted()?.right = None;
                        Phase::LeftPart
                    }
                },
                Phase::Left | Phase::LeftPart => {
                    let in_part = self.phase == Phase::LeftPart;
                    out.reset(self.fresh.width());
                    while self.at < self.fresh.rows() && !out.is_full() {
                        if self.is_given(op, all) {
                            out.push_taken(self.fresh.row_mut(self.at));
                        }
                        self.at += 1;
                    }
                    // The rest of the rows at hand is given before anything else is done.
                    if !out.is_empty() {
                        return Ok(Step::Rows);
                    }
                    self.at = 0;
                    self.fresh.reset(0);
                    let is_full = !self.fits(ex);
                    let divides = is_full && (!in_part || self.parted()?.level <= LEVELS_MAX);
                    match (divides, in_part) {
                        (true, true) => self.divide_again()?,
                        (true, false) => self.begin_parts(ex)?,
                        (false, _) => match self.next_left(in_part, ex)? {
                            Some(next) => next,
                            None => return Ok(Step::Yield),
                        },
                    }
                }
                Phase::DivideTable(from) => self.divide_table(from, ex)?,
                Phase::DivideRight => match self.divide_right(ex)? {
                    Some(next) => next,
                    None => return Ok(Step::Yield),
                },
                Phase::DivideLeft => match self.divide_left(ex)? {
                    Some(next) => next,
                    None => return Ok(Step::Yield),
                },
                Phase::NextPart => self.next_part(ex)?,
                Phase::Done => return Ok(Step::Done),
            };
        }
    }

    fn rewind(&mut self, ex: &mut Exec<'_, '_>) {
        self.forget();
        self.left.rewind(ex);
        self.right.rewind(ex);
    }

    fn reset(&mut self) {
        self.forget();
        self.left.reset();
        self.right.reset();
    }

    fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.left.give_back(ex);
        self.right.give_back(ex);
        self.memory.release();
        self.parted = None;
    }

    fn usage(&self, _: &Statement) -> Option<Usage> {
        let (batches, disk_bytes) = self.parted.as_ref().map_or((1, 0), |parted| (parted.passes, parted.file.bytes()));
        Some(Usage::Groups(Spilled { memory_bytes: self.memory.peak() as u64, disk_bytes, batches }))
    }
}

impl SetOpRun {
    pub(super) fn new(mut left: Run, mut right: Run, op: SetOp, all: bool) -> Self {
        left.forget_order();
        right.forget_order();
        Self {
            op,
            all,
            left,
            right,
            right_done: false,
            phase: Phase::Right,
            fresh: Batch::new(),
            rows: Groups::new(0),
            counts: Vec::new(),
            at: 0,
            ahead: BATCH_ROWS_FIRST,
            in_texts: 0,
            memory: Reservation::default(),
            parted: None,
        }
    }

    /// Back to the start, but for the inputs.
    fn forget(&mut self) {
        *self = Self::new(self.left.take(), self.right.take(), self.op, self.all);
    }

    /// Whether what is kept may stay in memory.
    fn fits(&mut self, ex: &mut Exec<'_, '_>) -> bool {
        let taken = self.rows.bytes() + self.counts.len() * 8 + self.in_texts;
        self.memory.hold(ex.cx.memory, taken, Use::Hash)
    }

    /// How often the right side has a row: found, or made with 0.
    fn count(&mut self, index: usize) -> &mut u64 {
        let row = self.fresh.row(index);
        if self.rows.len() == 0 {
            self.rows = Groups::new(row.len());
        }
        let (number, new) = self.rows.find_or_add(row);
        if new {
            self.in_texts += row_bytes(row) - size_of_val(row);
            self.counts.push(0);
        }
        &mut self.counts[number]
    }

    /// Fetches left rows.
    fn next_left(&mut self, in_part: bool, ex: &mut Exec<'_, '_>) -> Result<Option<Phase>> {
        if in_part {
            return Ok(Some(if self.read_part(true, ex)? { Phase::LeftPart } else { Phase::NextPart }));
        }
        self.fresh.want(self.ahead);
        self.ahead = (self.ahead * 2).min(BATCH_ROWS_MAX);
        let step = self.left.step(ex, &mut self.fresh)?;
        if step != Step::Rows {
            self.fresh.reset(0);
        }
        Ok(match step {
            Step::Rows => Some(Phase::Left),
            Step::Yield => None,
            Step::Done => Some(Phase::Done),
        })
    }

    fn end_right(&mut self, ex: &mut Exec<'_, '_>) {
        self.right.give_back(ex);
        self.right_done = true;
        self.fresh.reset(0);
    }

    /// Whether the left row at hand is given on.
    fn is_given(&mut self, op: SetOp, all: bool) -> bool {
        match (op, all) {
            (SetOp::Except, false) => {
                let count = self.count(self.at);
                std::mem::replace(count, 1) == 0
            }
            (SetOp::Except, true) => {
                if self.rows.len() == 0 {
                    return true;
                }
                let Some(number) = self.rows.find(self.fresh.row(self.at)) else { return true };
                let count = &mut self.counts[number];
                let left_over = *count == 0;
                *count = count.saturating_sub(1);
                left_over
            }
            (SetOp::Intersect, all) => {
                if self.rows.len() == 0 {
                    return false;
                }
                let Some(number) = self.rows.find(self.fresh.row(self.at)) else { return false };
                let count = &mut self.counts[number];
                let given = *count > 0;
                *count = if all { count.saturating_sub(1) } else { 0 };
                given
            }
        }
    }

    // ---- in parts ----

    fn parted(&mut self) -> Result<&mut Parted> {
        self.parted.as_deref_mut().ok_or_else(|| Error::internal("a set operation is not in parts"))
    }

    fn begin_parts(&mut self, ex: &mut Exec<'_, '_>) -> Result<Phase> {
        let file = SpillFile::create(ex.cx.memory, Use::Hash.bytes_max(ex.cx.memory))?;
        self.parted = Some(Box::new(Parted {
            right_parts: Some(Partitions::new(&file, 0)),
            left_parts: Some(Partitions::new(&file, 0)),
            file,
            width: self.rows.key(0).len(),
            pending: Vec::new(),
            right: None,
            left: None,
            level: 0,
            row: Vec::new(),
            counted: Vec::new(),
            passes: 0,
        }));
        Ok(Phase::DivideTable(0))
    }

    /// Has the part at hand go to smaller ones; at the last level it is dealt with in memory,
    /// whatever that takes: all of its rows have the same hash.
    fn divide_again(&mut self) -> Result<Phase> {
        let parted = self.parted()?;
        if parted.level > LEVELS_MAX {
            return Ok(if parted.right.is_some() { Phase::RightPart } else { Phase::LeftPart });
        }
        parted.right_parts = Some(Partitions::new(&parted.file, parted.level));
        parted.left_parts = Some(Partitions::new(&parted.file, parted.level));
        Ok(Phase::DivideTable(0))
    }

    fn divide_table(&mut self, from: usize, ex: &mut Exec<'_, '_>) -> Result<Phase> {
        let end = self.rows.len().min(from + ROWS_PER_LOOK);
        let Some(Parted { file, right_parts: Some(right_parts), .. }) = self.parted.as_deref_mut() else {
            return Err(Error::internal("a set operation is not in parts"));
        };
        for at in from..end {
            let (row, count) = (self.rows.key(at), Datum::Int(self.counts[at] as i64));
            right_parts.push(file, hash_values(row.iter()), row.iter().chain(std::iter::once(&count)))?;
        }
        ex.spend(end - from);
        if end < self.rows.len() {
            return Ok(Phase::DivideTable(end));
        }
        self.forget_rows(ex);
        Ok(Phase::DivideRight)
    }

    fn forget_rows(&mut self, ex: &mut Exec<'_, '_>) {
        self.rows = Groups::new(0);
        self.counts = Vec::new();
        self.in_texts = 0;
        self.memory.hold(ex.cx.memory, 0, Use::Hash);
    }

    /// Has rows of the right side, or the right part, go to parts. `None` if the budget is used up.
    fn divide_right(&mut self, ex: &mut Exec<'_, '_>) -> Result<Option<Phase>> {
        let parted = self.parted()?;
        if parted.level > 0 {
            let Parted { file, right_parts: Some(into), right: reader, row, width, .. } = parted else {
                return Err(Error::internal("a set operation is not in parts"));
            };
            row.resize(*width + 1, Datum::Null);
            for _ in 0..ROWS_PER_LOOK {
                let has_row = match reader {
                    Some(reader) => reader.next(file, row)?,
                    None => false,
                };
                if !has_row {
                    *reader = None;
                    return Ok(Some(Phase::DivideLeft));
                }
                into.push(file, hash_values(row[..*width].iter()), &*row)?;
                ex.spend(1);
            }
            return Ok(Some(Phase::DivideRight));
        }
        if self.right_done {
            return Ok(Some(Phase::DivideLeft));
        }
        match self.right.step(ex, &mut self.fresh)? {
            Step::Yield => return Ok(None),
            Step::Done => {
                self.end_right(ex);
                return Ok(Some(Phase::DivideLeft));
            }
            Step::Rows => {}
        }
        let Some(Parted { file, right_parts: Some(into), .. }) = self.parted.as_deref_mut() else {
            return Err(Error::internal("a set operation is not in parts"));
        };
        for row in self.fresh.iter() {
            into.push(file, hash_values(row.iter()), row.iter().chain(std::iter::once(&Datum::Int(1))))?;
        }
        ex.spend(self.fresh.rows());
        Ok(Some(Phase::DivideRight))
    }

    /// The same of the left side; at its end the parts are there.
    fn divide_left(&mut self, ex: &mut Exec<'_, '_>) -> Result<Option<Phase>> {
        let is_at_end = if self.parted()?.level > 0 {
            !self.read_part(true, ex)?
        } else {
            match self.left.step(ex, &mut self.fresh)? {
                Step::Yield => return Ok(None),
                Step::Done => {
                    self.left.give_back(ex);
                    self.fresh.reset(0);
                    true
                }
                Step::Rows => false,
            }
        };
        let Some(Parted { file, right_parts, left_parts, pending, level, .. }) = self.parted.as_deref_mut() else {
            return Err(Error::internal("a set operation is not in parts"));
        };
        if is_at_end {
            if let (Some(right), Some(left)) = (right_parts.take(), left_parts.take()) {
                let (right, left) = (right.finish(file)?, left.finish(file)?);
                let below = *level + 1;
                pending.extend(right.into_iter().zip(left).map(|(right, left)| (right, left, below)).rev());
            }
            return Ok(Some(Phase::NextPart));
        }
        let Some(into) = left_parts else { return Err(Error::internal("a set operation is not in parts")) };
        for row in self.fresh.iter() {
            into.push(file, hash_values(row.iter()), row)?;
        }
        ex.spend(self.fresh.rows());
        self.fresh.reset(0);
        Ok(Some(Phase::DivideLeft))
    }

    /// Reads rows of a side of the part at hand; `false` if there are none.
    fn read_part(&mut self, is_left: bool, ex: &mut Exec<'_, '_>) -> Result<bool> {
        let Some(Parted { file, right, left, row, counted, width, .. }) = self.parted.as_deref_mut() else {
            return Err(Error::internal("a set operation is not in parts"));
        };
        self.fresh.reset(*width);
        counted.clear();
        let Some(reader) = (if is_left { left } else { right }) else { return Ok(false) };
        row.resize(if is_left { *width } else { *width + 1 }, Datum::Null);
        while self.fresh.rows() < ROWS_PER_LOOK && reader.next(file, row)? {
            if let Some(Datum::Int(count)) = row.get(*width) {
                counted.push(*count as u64);
            }
            self.fresh.push_taken(&mut row[..*width]);
        }
        ex.spend(self.fresh.rows());
        Ok(!self.fresh.is_empty())
    }

    fn next_part(&mut self, ex: &mut Exec<'_, '_>) -> Result<Phase> {
        self.forget_rows(ex);
        let parted = self.parted()?;
        let Some((right, left, level)) = parted.pending.pop() else { return Ok(Phase::Done) };
        ex.spend(1);
        if left.rows() == 0 {
            right.discard(&mut parted.file);
            return Ok(Phase::NextPart);
        }
        parted.level = level;
        parted.passes += 1;
        parted.right = Some(TapeReader::new(right, true));
        parted.left = Some(TapeReader::new(left, true));
        Ok(Phase::RightPart)
    }
}

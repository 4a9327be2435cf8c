//! Hash joins whose right side is more than may be kept in memory: part by part.
//!
//! ```text
//! right rows ──by hash of their keys──► right parts │ a part at a time: its right rows
//! left rows  ──by hash of their keys──► left parts  │ into the table, then its left rows
//!                                                   │ look their partners up
//! ```
//! A part that is still too much is divided again. One that dividing makes no smaller, since its
//! keys are one, or there are none, is joined in several *passes*: as many of its right rows as may
//! be kept, then all of its left rows against them, and so on. A bit for each left row then says
//! whether one of the passes so far had a partner for it.
//!
//! If somebody depends on the order of the left side, each left row has its number with it, what a
//! pass gives is written down with that, and the passes are merged by it at the end.
//!
//! Invariants: what is divided is in parts by equal keys, so a left row's partners are all in its
//! own part. A row without a key is in some part if the join gives it alone. Keys are evaluated
//! once: parts hold them where they are no columns.

use colibri_types::{Datum, Error, Result};
use smallvec::SmallVec;

use super::super::group::{Groups, hash_values};
use super::super::memory::{Reservation, Use};
use super::super::row_bytes;
use super::super::row_table::{NONE, RowTable};
use super::super::sorter::{KeyOrder, Sorter};
use super::super::spill::{LEVELS_MAX, Partitions, SpillFile, Tape, TapeReader, TapeWriter};
use super::super::{Batch, Exec, Step};
use super::{HashJoinRun, Parts, Table, with_key};
use crate::expr::Expr;
use crate::plan::JoinKind;

/// Rows that are read or written between two looks at the budget.
const ROWS_PER_LOOK: usize = 256;
/// Of ten right rows, how many in one part of a part show that dividing is of no use.
const SKEW_TENTHS: u64 = 9;

/// Where a join in parts stands; probing and giving what is left is as without parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The table's rows go to the right parts, from this one on.
    DivideTable(usize),
    /// The rest of the right side, or of a right part, does.
    DivideRight,
    /// The left side, or a left part.
    DivideLeft,
    NextPart,
    /// A part's right rows go into the table.
    Load,
    /// The left rows have been looked up in the table at hand.
    EndPass,
    /// All passes are over: what they gave is put in order.
    Order,
    Give,
}

/// Where keys are in the rows of parts.
struct Layout {
    width: usize,
    /// Behind the row's own values, unless all are columns.
    keys: SmallVec<[usize; 4]>,
}

impl Layout {
    fn new(width: usize, keys: &[Expr]) -> Self {
        let column = |key: &Expr| if let Expr::Column(column) = key { Some(*column) } else { None };
        match keys.iter().map(column).collect() {
            Some(keys) => Self { width, keys },
            None => Self { width: width + keys.len(), keys: (width..width + keys.len()).collect() },
        }
    }

    /// Of keys alone.
    fn of_keys(keys: usize) -> Self {
        Self { width: keys, keys: (0..keys).collect() }
    }

    /// The key's hash; `None` if one of its values is NULL.
    fn hash(&self, row: &[Datum]) -> Option<u64> {
        let key = || self.keys.iter().map(|&place| &row[place]);
        if key().any(Datum::is_null) { None } else { Some(hash_values(key())) }
    }

    /// The key; `None` if one of its values is NULL.
    fn key<'r>(&self, row: &'r [Datum], buffer: &'r mut Vec<Datum>) -> Option<&'r [Datum]> {
        if let [place] = self.keys[..] {
            return if row[place].is_null() { None } else { Some(std::slice::from_ref(&row[place])) };
        }
        buffer.clear();
        for &place in &self.keys {
            if row[place].is_null() {
                return None;
            }
            buffer.push(row[place].clone());
        }
        Some(buffer)
    }

    /// The keys as expressions over a row.
    fn exprs(&self) -> Vec<Expr> {
        self.keys.iter().map(|&place| Expr::Column(place)).collect()
    }
}

/// A key, where it is written beside its row or in place of it.
fn kept_key(key: &[Datum], is_needed: bool) -> SmallVec<[Datum; 4]> {
    if is_needed { key.into() } else { SmallVec::new() }
}

/// A part of both sides.
struct Part {
    right: Tape,
    left: Tape,
    level: u32,
    /// Dividing it is likely to make it smaller.
    divides: bool,
}

/// A part being joined.
struct PartAtWork {
    right: TapeReader,
    left: TapeReader,
    right_rows: u64,
    level: u32,
    divides: bool,
    /// Whether the right rows in the table are the last ones.
    is_last: bool,
    /// Of left rows: whether a pass so far had a partner. Empty while there was one pass only.
    marks: Vec<u64>,
    /// Of the first left row at hand, counted from the first of the part.
    first_left: usize,
}

/// A join in parts.
pub(super) struct Parted {
    file: SpillFile,
    right_layout: Layout,
    left_layout: Layout,
    right_parts: Option<Partitions>,
    /// The right parts of what is being divided, while the left ones are made.
    right_tapes: Vec<Tape>,
    left_parts: Option<Partitions>,
    pending: Vec<Part>,
    part: Option<PartAtWork>,
    row: Vec<Datum>,
    passes: u64,
    ordered: Option<Ordered>,
    marks: Reservation,
}

/// What passes gave, to be put in the order of the left side.
struct Ordered {
    sorter: Sorter,
    writer: TapeWriter,
    /// The number of the next left row.
    number: i64,
    /// Of the rows given: which of the left rows at hand each one came of.
    origins: Vec<u32>,
    given: Batch,
}

impl Parted {
    /// How many parts were joined, and bytes on disk.
    pub(super) fn usage(&self) -> (u64, u64) {
        let ordered = self.ordered.as_ref().map_or(0, |ordered| ordered.sorter.bytes_on_disk());
        (self.passes.max(1), self.file.bytes() + ordered)
    }

    /// A row was given that came of this one of the left rows at hand.
    #[inline]
    pub(super) fn note_given(&mut self, left: usize) {
        if let Some(ordered) = &mut self.ordered {
            ordered.origins.push(left as u32);
        }
    }

    /// The left row has seen the right rows at hand. Whether no pass before had a partner for it,
    /// and whether this is the last one.
    pub(super) fn end_left_row(&mut self, left: usize, matched: bool) -> (bool, bool) {
        let Some(part) = &mut self.part else { return (true, true) };
        let number = part.first_left + left;
        let Some(word) = part.marks.get_mut(number / 64) else { return (true, part.is_last) };
        let bit = 1 << (number % 64);
        let is_first = *word & bit == 0;
        if matched {
            *word |= bit;
        }
        (is_first, part.is_last)
    }
}

impl HashJoinRun {
    /// Whether what passes give has to be put in order.
    pub(super) fn orders_parts(&self) -> bool {
        self.parted.as_ref().is_some_and(|parted| parted.ordered.is_some())
    }

    /// Goes over to parts, with a table that is too large.
    pub(super) fn begin_parts(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Result<()> {
        let file = SpillFile::create(ex.cx.memory, Use::Hash.bytes_max(ex.cx.memory))?;
        let right_layout = match parts.keeps_rows() {
            true => Layout::new(parts.right_width, parts.right_keys),
            false => Layout::of_keys(parts.right_keys.len()),
        };
        let mut left_layout = Layout::new(parts.left_width, parts.left_keys);
        // Right and full joins give right rows behind all others, wherever those come from.
        let keeps_order = self.keeps_order && !parts.gives_right();
        let ordered = keeps_order.then(|| {
            // The number stands behind all else: in a left row of a part, and in a row that was
            // given.
            left_layout.width += 1;
            let width = parts.width();
            Ordered {
                sorter: Sorter::new(width + 1, vec![KeyOrder::ascending(width)]),
                writer: TapeWriter::default(),
                number: 0,
                origins: Vec::new(),
                given: Batch::new(),
            }
        });
        self.parted = Some(Box::new(Parted {
            right_parts: Some(Partitions::new(&file, 0)),
            file,
            right_layout,
            left_layout,
            right_tapes: Vec::new(),
            left_parts: None,
            pending: Vec::new(),
            part: None,
            row: Vec::new(),
            passes: 0,
            ordered,
            marks: Reservation::default(),
        }));
        self.phase = super::Phase::Parted(Phase::DivideTable(0));
        Ok(())
    }

    /// Goes on; `None` if there is a next phase to go on with.
    pub(super) fn step_parts(
        &mut self,
        phase: Phase,
        parts: &Parts<'_>,
        ex: &mut Exec<'_, '_>,
        out: &mut Batch,
    ) -> Result<Option<Step>> {
        ex.check_cancel()?;
        if ex.is_used_up() {
            return Ok(Some(Step::Yield));
        }
        let next = match phase {
            Phase::DivideTable(from) => {
                let end = self.divide_table(from, ex)?;
                if end == self.table.len() {
                    self.empty_table(parts);
                    self.memory.release();
                    Phase::DivideRight
                } else {
                    Phase::DivideTable(end)
                }
            }
            Phase::DivideRight => match self.divide_right(parts, ex)? {
                Step::Rows => Phase::DivideRight,
                Step::Yield => return Ok(Some(Step::Yield)),
                Step::Done => Phase::DivideLeft,
            },
            Phase::DivideLeft => match self.divide_left(parts, ex)? {
                Step::Rows => Phase::DivideLeft,
                Step::Yield => return Ok(Some(Step::Yield)),
                Step::Done => Phase::NextPart,
            },
            Phase::NextPart => match self.next_part(parts, ex)? {
                Some(phase) => phase,
                None => {
                    self.phase = super::Phase::Done;
                    return Ok(None);
                }
            },
            Phase::Load => match self.load(parts, ex)? {
                Some(phase) => phase,
                None => {
                    self.phase = super::Phase::Link;
                    return Ok(None);
                }
            },
            Phase::EndPass => self.end_pass(parts, ex)?,
            Phase::Order => {
                let Some(ordered) = self.parted.as_mut().and_then(|parted| parted.ordered.as_mut()) else {
                    return Err(Error::internal("a join in parts has no order"));
                };
                if !ordered.sorter.finish(ex, Use::Hash.bytes_max(ex.cx.memory))? {
                    return Ok(Some(Step::Yield));
                }
                Phase::Give
            }
            Phase::Give => return self.give_in_order(parts, ex, out).map(Some),
        };
        self.phase = super::Phase::Parted(next);
        Ok(None)
    }

    fn parted(&mut self) -> Result<&mut Parted> {
        self.parted.as_deref_mut().ok_or_else(|| Error::internal("a join is not in parts"))
    }

    /// A table for the right rows of a part.
    fn empty_table(&mut self, parts: &Parts<'_>) {
        let Some(parted) = &self.parted else { return };
        let layout = &parted.right_layout;
        self.table = match parts.keeps_rows() {
            true => Table::Rows(RowTable::new(layout.width, &layout.exprs())),
            false => Table::Keys(Groups::new(layout.width)),
        };
        self.in_texts = 0;
    }

    /// Writes some of the table's rows to the right parts; gives the place of the next one.
    fn divide_table(&mut self, from: usize, ex: &mut Exec<'_, '_>) -> Result<usize> {
        let end = self.table.len().min(from + ROWS_PER_LOOK);
        let Some(Parted { file, right_layout, right_parts: Some(right_parts), .. }) = self.parted.as_deref_mut() else {
            return Err(Error::internal("a join is not in parts"));
        };
        for at in from..end {
            match &self.table {
                Table::Keys(keys) => {
                    let key = keys.key(at);
                    right_parts.push(file, hash_values(key.iter()), key)?;
                }
                Table::Rows(rows) => {
                    let (row, kept) = (rows.row(at), rows.kept_key(at));
                    let hash = match kept {
                        [] => right_layout.hash(row),
                        key if key.iter().any(Datum::is_null) => None,
                        key => Some(hash_values(key.iter())),
                    };
                    right_parts.push(file, hash.unwrap_or(0), row.iter().chain(kept))?;
                }
            }
        }
        ex.spend(end - from);
        Ok(end)
    }

    /// Has right rows go to their parts: those of the part at hand, or of the whole side.
    fn divide_right(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Result<Step> {
        if self.parted()?.part.is_some() {
            return self.parted()?.divide_right_again(ex);
        }
        let step = self.right.step(ex, &mut self.fresh)?;
        let Some(Parted { file, right_parts, right_tapes, left_parts, .. }) = self.parted.as_deref_mut() else {
            return Err(Error::internal("a join is not in parts"));
        };
        if step == Step::Done {
            self.right.give_back(ex);
            if let Some(made) = right_parts.take() {
                *right_tapes = made.finish(file)?;
            }
            *left_parts = Some(Partitions::new(file, 0));
        }
        if step != Step::Rows {
            return Ok(step);
        }
        let Some(right_parts) = right_parts else { return Err(Error::internal("the right side is divided")) };
        let appends = parts.right_keys.iter().any(|key| !matches!(key, Expr::Column(_)));
        let needs_key = appends || !parts.keeps_rows();
        let mut buffer = Vec::new();
        let mut scope = ex.scope();
        for row in self.fresh.iter() {
            let take = |key: &[Datum]| (hash_values(key.iter()), kept_key(key, needs_key));
            let key = with_key(parts.right_keys, &mut scope, row, &mut buffer, take)?;
            match key {
                Some((hash, key)) if !parts.keeps_rows() => right_parts.push(file, hash, &key)?,
                Some((hash, key)) if appends => right_parts.push(file, hash, row.iter().chain(&key))?,
                Some((hash, _)) => right_parts.push(file, hash, row)?,
                None if !parts.gives_right() => {}
                None if appends => {
                    let nulls = std::iter::repeat_n(&Datum::Null, parts.right_keys.len());
                    right_parts.push(file, 0, row.iter().chain(nulls))?;
                }
                None => right_parts.push(file, 0, row)?,
            }
        }
        ex.spend(self.fresh.rows());
        Ok(Step::Rows)
    }

    /// Has left rows go to their parts: those of the part at hand, or of the whole side.
    fn divide_left(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Result<Step> {
        if self.parted()?.part.is_some() {
            return self.parted()?.divide_left_again(ex);
        }
        let step = self.step_left(ex)?;
        let Some(Parted { file, right_tapes, left_parts, pending, ordered, .. }) = self.parted.as_deref_mut() else {
            return Err(Error::internal("a join is not in parts"));
        };
        if step == Step::Done {
            self.left.give_back(ex);
            self.left_rows.reset(0);
            let left = left_parts.take().map_or_else(|| Ok(Vec::new()), |made| made.finish(file))?;
            // Without keys all rows are in one part.
            let divides = !parts.left_keys.is_empty();
            let part = |(right, left)| Part { right, left, level: 0, divides };
            pending.extend(std::mem::take(right_tapes).into_iter().zip(left).map(part).rev());
        }
        if step != Step::Rows {
            return Ok(step);
        }
        let Some(left_parts) = left_parts else { return Err(Error::internal("the left side is divided")) };
        let appends = parts.left_keys.iter().any(|key| !matches!(key, Expr::Column(_)));
        let gives_alone = matches!(parts.kind, JoinKind::Left | JoinKind::Full | JoinKind::Anti);
        let mut buffer = Vec::new();
        let mut scope = ex.scope();
        for row in self.left_rows.iter() {
            let take = |key: &[Datum]| (hash_values(key.iter()), kept_key(key, appends));
            let key = with_key(parts.left_keys, &mut scope, row, &mut buffer, take)?;
            let number = ordered.as_mut().map(|ordered| {
                ordered.number += 1;
                Datum::Int(ordered.number)
            });
            let (hash, key) = match key {
                Some((hash, key)) => (hash, key),
                None if gives_alone => (0, std::iter::repeat_n(Datum::Null, parts.left_keys.len()).collect()),
                None => continue,
            };
            let key = if appends { &key[..] } else { &[] };
            left_parts.push(file, hash, row.iter().chain(key).chain(&number))?;
        }
        ex.spend(self.left_rows.rows());
        Ok(Step::Rows)
    }

    /// Begins with the next part that gives rows; `None` after the last one.
    fn next_part(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Result<Option<Phase>> {
        loop {
            let parted = self.parted()?;
            let Some(Part { right, left, level, divides }) = parted.pending.pop() else {
                return Ok(if parted.ordered.is_some() { Some(Phase::Order) } else { None });
            };
            let needs_right = matches!(parts.kind, JoinKind::Inner | JoinKind::Right | JoinKind::Semi);
            if right.rows() == 0 && needs_right || left.rows() == 0 && !parts.gives_right() {
                right.discard(&mut parted.file);
                left.discard(&mut parted.file);
                ex.spend(1);
                continue;
            }
            parted.part = Some(PartAtWork {
                right_rows: right.rows(),
                right: TapeReader::new(right, true),
                left: TapeReader::new(left, false),
                level,
                divides,
                is_last: false,
                marks: Vec::new(),
                first_left: 0,
            });
            self.empty_table(parts);
            return Ok(Some(Phase::Load));
        }
    }

    /// Reads right rows into the table. `None` if they are there: all of the part's, or as many as
    /// may be kept.
    fn load(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Result<Option<Phase>> {
        let Some(Parted { file, right_layout, right_parts, part: Some(part), row, marks, passes, .. }) =
            self.parted.as_deref_mut()
        else {
            return Err(Error::internal("no part is at hand"));
        };
        row.resize(right_layout.width, Datum::Null);
        let mut buffer = Vec::new();
        let bytes_max = Use::Hash.bytes_max(ex.cx.memory);
        for _ in 0..ROWS_PER_LOOK {
            // Long values alone may be enough.
            if self.in_texts > bytes_max || !part.right.next(file, row)? {
                break;
            }
            ex.spend(1);
            match &mut self.table {
                Table::Keys(keys) => {
                    if keys.find_or_add(row).1 {
                        self.in_texts += row_bytes(row) - size_of_val(&row[..]);
                    }
                }
                Table::Rows(rows) => {
                    let key = right_layout.key(row, &mut buffer).map(|key| rows.key(key));
                    self.in_texts += row_bytes(row) - size_of_val(&row[..]);
                    rows.push(key, row)?;
                }
            }
        }
        let fits = self.memory.hold(ex.cx.memory, self.table.bytes() + self.in_texts, Use::Hash);
        part.is_last = part.right.rows_left() == 0;
        if fits && !part.is_last {
            return Ok(Some(Phase::Load));
        }
        // Nothing can be done about a last row that is too much.
        let is_first_pass = part.marks.is_empty();
        if !part.is_last && is_first_pass && part.divides && part.level < LEVELS_MAX {
            *right_parts = Some(Partitions::new(file, part.level + 1));
            return Ok(Some(Phase::DivideTable(0)));
        }
        if !part.is_last && is_first_pass {
            let words = (part.left.rows_left() as usize).div_ceil(64).max(1);
            marks.hold_all(ex.cx.memory, words * 8)?;
            part.marks = vec![0; words];
        }
        part.left.rewind(part.is_last);
        part.first_left = 0;
        *passes += 1;
        self.left_rows.reset(0);
        self.left_at = 0;
        self.open = false;
        self.forget_partners(parts);
        Ok(None)
    }

    /// The next left rows of the part at hand, with the first right row for each.
    pub(super) fn next_left_of_part(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Result<Step> {
        let Some(Parted { file, left_layout, part: Some(part), .. }) = self.parted.as_deref_mut() else {
            return Err(Error::internal("no part is at hand"));
        };
        part.first_left += self.left_rows.rows();
        self.left_rows.reset(left_layout.width);
        while !self.left_rows.is_full() && part.left.rows_left() > 0 {
            part.left.next(file, self.left_rows.push())?;
        }
        if self.left_rows.is_empty() {
            return Ok(Step::Done);
        }
        ex.spend(self.left_rows.rows());
        self.found.clear();
        let mut buffer = Vec::new();
        for row in self.left_rows.iter() {
            let key = left_layout.key(row, &mut buffer);
            self.found.push(match (&self.table, key) {
                (_, None) => NONE,
                (Table::Rows(rows), Some(key)) => rows.find(key),
                (Table::Keys(keys), Some(key)) => keys.find(key).map_or(NONE, |_| 0),
            });
        }
        // Of those that have had a partner, semi and anti joins want to know no more.
        if matches!(parts.kind, JoinKind::Semi | JoinKind::Anti) {
            for (at, found) in self.found.iter_mut().enumerate() {
                let number = part.first_left + at;
                if part.marks.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1) {
                    *found = NONE;
                }
            }
        }
        if let Table::Rows(rows) = &self.table {
            rows.touch(&self.found);
        }
        Ok(Step::Rows)
    }

    /// As [`HashJoinRun::probe`], with what it gives written down together with the left rows'
    /// numbers.
    pub(super) fn probe_in_order(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Result<Step> {
        loop {
            let Some(ordered) = &mut self.parted()?.ordered else { return Err(Error::internal("no order is kept")) };
            ordered.origins.clear();
            let mut given = std::mem::take(&mut ordered.given);
            let step = self.probe(parts, ex, &mut given);
            let Some(Parted { left_layout, ordered: Some(ordered), .. }) = self.parted.as_deref_mut() else {
                return Err(Error::internal("no order is kept"));
            };
            if matches!(step, Ok(Step::Rows)) {
                debug_assert_eq!(ordered.origins.len(), given.rows());
                let file = ordered.sorter.push_run(ex.cx.memory, Use::Hash.bytes_max(ex.cx.memory))?;
                for (row, &origin) in given.iter().zip(&ordered.origins) {
                    let number = &self.left_rows.row(origin as usize)[left_layout.width - 1];
                    ordered.writer.push(file, row.iter().chain(std::iter::once(number)))?;
                }
                ex.spend(given.rows());
            }
            ordered.given = given;
            let step = step?;
            if step != Step::Rows {
                return Ok(step);
            }
            ex.check_cancel()?;
        }
    }

    /// Goes on with the next right rows of the part, or with the next part.
    fn end_pass(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>) -> Result<Phase> {
        self.left_rows.reset(0);
        self.empty_table(parts);
        self.memory.hold(ex.cx.memory, 0, Use::Hash);
        let parted = self.parted()?;
        if let Some(ordered) = &mut parted.ordered {
            let writer = std::mem::take(&mut ordered.writer);
            if writer.rows() > 0 {
                let file = ordered.sorter.push_run(ex.cx.memory, Use::Hash.bytes_max(ex.cx.memory))?;
                let run = writer.finish(file)?;
                ordered.sorter.end_run(run);
            }
        }
        match &parted.part {
            Some(part) if !part.is_last => Ok(Phase::Load),
            _ => {
                if let Some(part) = parted.part.take() {
                    part.left.discard(&mut parted.file);
                }
                parted.marks.release();
                Ok(Phase::NextPart)
            }
        }
    }

    fn give_in_order(&mut self, parts: &Parts<'_>, ex: &mut Exec<'_, '_>, out: &mut Batch) -> Result<Step> {
        let Some(ordered) = &mut self.parted()?.ordered else { return Err(Error::internal("no order is kept")) };
        out.reset(parts.width());
        while !out.is_full() {
            if !ordered.sorter.next_into(out.push())? {
                out.pop();
                break;
            }
        }
        ex.spend(out.rows());
        Ok(if out.is_empty() { Step::Done } else { Step::Rows })
    }
}

impl Parted {
    /// Divides what is left of the right rows of the part at hand.
    fn divide_right_again(&mut self, ex: &mut Exec<'_, '_>) -> Result<Step> {
        let Self { file, right_layout, right_parts, right_tapes, left_parts, part: Some(part), row, .. } = self else {
            return Err(Error::internal("no part is at hand"));
        };
        let Some(into) = right_parts else { return Err(Error::internal("the right side is divided")) };
        row.resize(right_layout.width, Datum::Null);
        for _ in 0..ROWS_PER_LOOK {
            if !part.right.next(file, row)? {
                if let Some(made) = right_parts.take() {
                    *right_tapes = made.finish(file)?;
                }
                *left_parts = Some(Partitions::new(file, part.level + 1));
                part.left.rewind(true);
                return Ok(Step::Done);
            }
            into.push(file, right_layout.hash(row).unwrap_or(0), &*row)?;
            ex.spend(1);
        }
        Ok(Step::Rows)
    }

    /// Divides the left rows of the part at hand, which has come to its end then.
    fn divide_left_again(&mut self, ex: &mut Exec<'_, '_>) -> Result<Step> {
        let Self { file, left_layout, right_tapes, left_parts, part, pending, row, .. } = self;
        let (Some(at_work), Some(into)) = (&mut *part, &mut *left_parts) else {
            return Err(Error::internal("no part is at hand"));
        };
        row.resize(left_layout.width, Datum::Null);
        for _ in 0..ROWS_PER_LOOK {
            if !at_work.left.next(file, row)? {
                let left = left_parts.take().map_or_else(|| Ok(Vec::new()), |made| made.finish(file))?;
                let (rows, level) = (at_work.right_rows, at_work.level + 1);
                let smaller = |(right, left): (Tape, Tape)| {
                    let divides = right.rows() * 10 < rows * SKEW_TENTHS;
                    Part { right, left, level, divides }
                };
                pending.extend(std::mem::take(right_tapes).into_iter().zip(left).map(smaller).rev());
                *part = None;
                return Ok(Step::Done);
            }
            into.push(file, left_layout.hash(row).unwrap_or(0), &*row)?;
            ex.spend(1);
        }
        Ok(Step::Rows)
    }
}

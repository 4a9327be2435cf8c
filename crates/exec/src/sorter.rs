//! Rows put in order, in memory as far as that goes, and by merging on disk behind that.
//!
//! ```text
//! rows:     | row | row | ...
//! entries:  (heads of the first two keys: 8 bytes each in the order of the values, row)
//! memory:   | piece, sorted | piece | ...   merged ──► a run on a tape, when memory is used up
//! disk:     | run | run | run | ...         merged ──► rows in order
//! ```
//! Rows are taken in until a piece is full, which is then sorted; pieces are merged when rows go
//! out, or to a run. So no step takes longer than sorting one piece, and that polls where keys are
//! long. Runs are merged in as many passes as it takes to have few of them at a time.
//!
//! Invariants: equal rows stay in the order they came in: a run's rows came before those of the
//! runs behind it, and only runs side by side are merged. A head that is smaller belongs to a value
//! that comes first. Equal heads say nothing, but for values that are told by their heads: only behind
//! these the head of the second key counts.

use std::cmp::Ordering;
use std::sync::Arc;

use colibri_types::{Datum, Error, Result, operators, pulse, ranges};

use super::memory::SessionMemory;
use super::merge_sort;
use super::row_store::RowStore;
use super::spill::{SpillFile, Tape, TapeReader, TapeWriter};
use super::{Exec, datum_bytes, row_bytes};
use crate::plan::SortKey;

/// Rows sorted at once.
const PIECE_ROWS: usize = merge_sort::PIECE;
/// A key of more bytes than this takes long to compare.
const LONG_KEY_BYTES: usize = 256;
/// What finding the next row among the pieces takes, in units of work.
const UNITS_PER_MERGED: usize = 10;
/// Rows that are written, or merged, between two looks at the budget.
const ROWS_PER_LOOK: usize = 256;

/// How a key orders rows, and where it is in a kept row.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyOrder {
    pub(super) place: usize,
    descending: bool,
    nulls_first: bool,
}

impl KeyOrder {
    pub(super) fn new(place: usize, key: &SortKey) -> Self {
        Self { place, descending: key.descending, nulls_first: key.nulls_first }
    }

    /// From the least to the greatest, NULLs behind.
    pub(super) fn ascending(place: usize) -> Self {
        Self { place, descending: false, nulls_first: false }
    }

    #[inline]
    pub(super) fn compare(self, a: &Datum, b: &Datum) -> Ordering {
        match (a.is_null(), b.is_null()) {
            (false, false) => {
                let ordering = operators::compare(a, b);
                if self.descending { ordering.reverse() } else { ordering }
            }
            (true, true) => Ordering::Equal,
            (a_is_null, _) if a_is_null == self.nulls_first => Ordering::Less,
            _ => Ordering::Greater,
        }
    }

    /// Eight bytes in the order of the values.
    #[inline]
    pub(super) fn head(self, value: &Datum) -> u64 {
        let head = match value {
            Datum::Null => return if self.nulls_first { 0 } else { u64::MAX },
            Datum::Int(value) | Datum::Time(value) | Datum::Timestamp(value) => *value as u64 ^ 1 << 63,
            Datum::TimeTz(value) => value.at_greenwich() as u64 ^ 1 << 63,
            Datum::Date(value) => i64::from(*value) as u64 ^ 1 << 63,
            Datum::Float(value) if value.is_nan() => u64::MAX,
            Datum::Float(value) => {
                let bits = (*value + 0.0).to_bits();
                if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
            }
            Datum::Text(value) => head_of_bytes(value.as_bytes()),
            Datum::Bytes(value) | Datum::Query(value) => head_of_bytes(value),
            Datum::Range(value) => head_of_bytes(ranges::compared(value)),
            Datum::Uuid(value) => head_of_bytes(value),
            Datum::Bool(value) => u64::from(*value) << 32,
            Datum::Numeric(value) => value.order_head(),
            Datum::Interval(_) | Datum::Array(_) | Datum::Row(_) | Datum::Jsonb(_) => 1 << 63,
            Datum::Citext(_) => 1 << 63,
        };
        if self.descending { !head } else { head }
    }
}

/// Whether two values of a kind are equal if their heads are, unless these are the first or the last
/// one, which NULL has as well.
fn is_told_by_head(value: &Datum) -> bool {
    matches!(
        value,
        Datum::Null
            | Datum::Int(_)
            | Datum::Time(_)
            | Datum::Timestamp(_)
            | Datum::Date(_)
            | Datum::Float(_)
            | Datum::Bool(_)
    )
}

#[inline]
fn head_of_bytes(bytes: &[u8]) -> u64 {
    let mut head = [0; 8];
    let count = bytes.len().min(8);
    head[..count].copy_from_slice(&bytes[..count]);
    u64::from_be_bytes(head)
}

/// Compares kept rows by their keys.
pub(super) fn compare_keys(order: &[KeyOrder], a: &[Datum], b: &[Datum]) -> Ordering {
    order
        .iter()
        .map(|key| key.compare(&a[key.place], &b[key.place]))
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Heads of a row's first two keys; the second one is 0 where it does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Heads(u64, u64);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Entry {
    heads: Heads,
    row: u32,
}

/// Rows being sorted.
pub(super) struct Sorter {
    /// Columns of the rows: the keys are among them.
    width: usize,
    order: Vec<KeyOrder>,
    rows: RowStore<Datum>,
    in_texts: usize,
    /// Sorted.
    pieces: Vec<Vec<Entry>>,
    /// The piece that is being filled.
    entries: Vec<Entry>,
    /// Whether a key takes long to compare.
    has_long_keys: bool,
    /// The merge of what is in memory, while rows go out or to a run.
    merge: Option<Merge>,
    on_disk: Option<Box<Runs>>,
}

/// Pieces being merged.
struct Merge {
    /// The next place of each.
    next: Vec<usize>,
    /// Pieces by their next entries, the first on top.
    heap: Vec<usize>,
}

/// Runs, each sorted, in the order their rows came.
struct Runs {
    file: SpillFile,
    runs: Vec<Tape>,
    /// The run that is being written.
    writer: TapeWriter,
    /// Runs that are being merged, and where in `runs` what comes of it belongs.
    merge: Option<RunMerge>,
    merged_to: usize,
}

/// Runs being merged.
struct RunMerge {
    sources: Vec<Source>,
    /// Sources by their rows, the first on top.
    heap: Vec<usize>,
}

struct Source {
    reader: TapeReader,
    row: Vec<Datum>,
    heads: Heads,
}

impl Sorter {
    /// What it sorts by.
    pub(super) fn keys(&self) -> &[KeyOrder] {
        &self.order
    }

    /// Without rows; those to come have `width` values.
    pub(super) fn new(width: usize, order: Vec<KeyOrder>) -> Self {
        Self {
            width,
            order,
            rows: RowStore::new(width),
            in_texts: 0,
            pieces: Vec::new(),
            entries: Vec::new(),
            has_long_keys: false,
            merge: None,
            on_disk: None,
        }
    }

    /// How many rows are in memory.
    pub(super) fn rows_in_memory(&self) -> usize {
        self.rows.len()
    }

    /// Bytes that it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        let entries = self.pieces.len() * PIECE_ROWS + self.entries.capacity();
        self.rows.bytes() + self.in_texts + entries * size_of::<Entry>()
    }

    /// Bytes that it takes on disk.
    pub(super) fn bytes_on_disk(&self) -> u64 {
        self.on_disk.as_ref().map_or(0, |runs| runs.file.bytes())
    }

    /// A row that was taken in.
    pub(super) fn row(&self, row: usize) -> &[Datum] {
        self.rows.row(row)
    }

    /// Takes the values of a row that was taken in, which is of no use from then on.
    pub(super) fn take_row(&mut self, row: usize) -> impl Iterator<Item = Datum> {
        self.rows.row_mut(row).iter_mut().map(std::mem::take)
    }

    /// Takes a row in.
    #[inline]
    pub(super) fn push(&mut self, row: impl IntoIterator<Item = Datum>) {
        let number = self.rows.len();
        self.rows.push(row);
        let row = self.rows.row(number);
        let in_texts = row_bytes(row) - size_of_val(row);
        self.in_texts += in_texts;
        self.has_long_keys |=
            in_texts > LONG_KEY_BYTES && self.order.iter().any(|key| datum_bytes(&row[key.place]) > LONG_KEY_BYTES);
        let heads = self.heads(row);
        self.entries.push(Entry { heads, row: number as u32 });
    }

    /// Takes the last row back: nothing was sorted since.
    pub(super) fn pop(&mut self) {
        if let Some(Entry { row, .. }) = self.entries.pop() {
            let row = self.rows.row(row as usize);
            self.in_texts -= row_bytes(row) - size_of_val(row);
            self.rows.pop();
        }
    }

    #[inline]
    fn heads(&self, row: &[Datum]) -> Heads {
        let Some(first) = self.order.first() else { return Heads::default() };
        let (value, head) = (&row[first.place], first.head(&row[first.place]));
        match self.order.get(1) {
            Some(second) if is_told_by_head(value) && head != 0 && head != u64::MAX => {
                Heads(head, second.head(&row[second.place]))
            }
            _ => Heads(head, 0),
        }
    }

    /// Compares rows by their keys.
    pub(super) fn compare_rows(&self, a: &[Datum], b: &[Datum]) -> Ordering {
        compare_keys(&self.order, a, b)
    }

    /// Sorts the pieces that are full. To be called now and then.
    pub(super) fn sort_full(&mut self) -> Result<()> {
        while self.entries.len() >= PIECE_ROWS {
            let rest = self.entries.split_off(PIECE_ROWS);
            self.sort_entries()?;
            self.pieces.push(std::mem::replace(&mut self.entries, rest));
        }
        Ok(())
    }

    #[inline]
    fn compare(&self, a: Entry, b: Entry) -> Ordering {
        a.heads
            .cmp(&b.heads)
            .then_with(|| compare_keys(&self.order, self.rows.row(a.row as usize), self.rows.row(b.row as usize)))
            .then(a.row.cmp(&b.row))
    }

    /// Sorts the piece at hand.
    fn sort_entries(&mut self) -> Result<()> {
        let mut entries = std::mem::take(&mut self.entries);
        if entries.len() <= PIECE_ROWS && !self.has_long_keys {
            entries.sort_unstable_by(|&a, &b| self.compare(a, b));
        } else {
            let piece = if self.has_long_keys { merge_sort::PIECE_OF_LONG } else { merge_sort::PIECE };
            merge_sort::sort(&mut entries, piece, |&a, &b| self.compare(a, b))?;
        }
        self.entries = entries;
        Ok(())
    }

    /// Drops all rows but the first `top`: they are all in memory, and no piece was sorted before.
    pub(super) fn keep_top(&mut self, top: usize) -> Result<()> {
        self.sort_entries()?;
        self.entries.truncate(top);
        // Rows are numbered anew in sorted order, which is an order they may have come in as well.
        let mut rows = RowStore::new(self.width);
        self.in_texts = 0;
        for (number, entry) in self.entries.iter_mut().enumerate() {
            let row = self.rows.row_mut(entry.row as usize);
            self.in_texts += row_bytes(row) - size_of_val(row);
            rows.push(row.iter_mut().map(std::mem::take));
            entry.row = number as u32;
            pulse::work(UNITS_PER_MERGED)?;
        }
        self.rows = rows;
        Ok(())
    }

    /// Sorts what is left, and begins to merge what is in memory.
    fn begin_merge(&mut self) -> Result<()> {
        self.sort_full()?;
        self.sort_entries()?;
        if !self.entries.is_empty() {
            self.pieces.push(std::mem::take(&mut self.entries));
        }
        let count = self.pieces.len();
        let mut heap: Vec<usize> = (0..count).collect();
        // In order is a heap.
        let first = |piece: usize| self.pieces[piece][0];
        merge_sort::sort(&mut heap, merge_sort::PIECE_OF_LONG, |&a, &b| self.compare(first(a), first(b)))?;
        self.merge = Some(Merge { next: vec![0; count], heap });
        Ok(())
    }

    /// The number of the next row of those in memory.
    fn next_in_memory(&mut self) -> Option<usize> {
        let mut merge = self.merge.take()?;
        let row = merge.heap.first().copied().map(|piece| {
            let at = &mut merge.next[piece];
            let row = self.pieces[piece][*at].row as usize;
            *at += 1;
            if *at == self.pieces[piece].len() {
                merge.heap.swap_remove(0);
            }
            let next = |piece: usize| self.pieces[piece][merge.next[piece]];
            sift(&mut merge.heap, |a, b| self.compare(next(a), next(b)));
            row
        });
        self.merge = Some(merge);
        row
    }

    /// Writes what is in memory to disk, in order; `false` if the budget is used up before all of
    /// it is there, and this is to be called again.
    pub(super) fn spill(&mut self, ex: &mut Exec<'_, '_>, bytes_max: usize) -> Result<bool> {
        if self.merge.is_none() {
            self.begin_merge()?;
        }
        let mut runs = self.take_runs(ex.cx.memory, bytes_max)?;
        let is_done = self.write_run(ex, &mut runs)?;
        self.on_disk = Some(runs);
        Ok(is_done)
    }

    fn take_runs(&mut self, memory: &Arc<SessionMemory>, bytes_max: usize) -> Result<Box<Runs>> {
        match self.on_disk.take() {
            Some(runs) => Ok(runs),
            None => {
                let file = SpillFile::create(memory, bytes_max)?;
                let writer = TapeWriter::default();
                Ok(Box::new(Runs { file, runs: Vec::new(), writer, merge: None, merged_to: 0 }))
            }
        }
    }

    fn write_run(&mut self, ex: &mut Exec<'_, '_>, runs: &mut Runs) -> Result<bool> {
        while !ex.is_used_up() {
            for _ in 0..ROWS_PER_LOOK {
                let Some(row) = self.next_in_memory() else {
                    let run = std::mem::take(&mut runs.writer).finish(&mut runs.file)?;
                    runs.runs.push(run);
                    self.merge = None;
                    self.pieces.clear();
                    self.has_long_keys = false;
                    self.rows = RowStore::new(self.width);
                    self.in_texts = 0;
                    return Ok(true);
                };
                runs.writer.push(&mut runs.file, self.rows.row(row))?;
                pulse::work(UNITS_PER_MERGED)?;
            }
            ex.check_cancel()?;
            ex.spend(ROWS_PER_LOOK);
        }
        Ok(false)
    }

    /// Takes over rows that are sorted already, behind all that came before. Nothing is in memory.
    pub(super) fn push_run(&mut self, memory: &Arc<SessionMemory>, bytes_max: usize) -> Result<&mut SpillFile> {
        let runs = self.take_runs(memory, bytes_max)?;
        Ok(&mut self.on_disk.insert(runs).file)
    }

    /// A run whose rows were written to [`Sorter::push_run`]'s file.
    pub(super) fn end_run(&mut self, run: Tape) {
        if let Some(runs) = &mut self.on_disk
            && run.rows() > 0
        {
            runs.runs.push(run);
        }
    }

    /// Makes rows ready to go out, after the last one was taken in; `false` if the budget is used
    /// up before, and this is to be called again.
    pub(super) fn finish(&mut self, ex: &mut Exec<'_, '_>, bytes_max: usize) -> Result<bool> {
        if self.on_disk.is_none() {
            self.begin_merge()?;
            return Ok(true);
        }
        if self.rows.len() > 0 && !self.spill(ex, bytes_max)? {
            return Ok(false);
        }
        let Some(mut runs) = self.on_disk.take() else { return Ok(true) };
        let is_done = self.merge_runs(ex, &mut runs);
        self.on_disk = Some(runs);
        is_done
    }

    /// Merges runs until there are few enough to be merged as rows go out.
    fn merge_runs(&self, ex: &mut Exec<'_, '_>, runs: &mut Runs) -> Result<bool> {
        loop {
            if runs.merge.is_none() {
                let fan = runs.file.fan();
                let is_last = runs.runs.len() <= fan;
                // As few as bring their number down to what one merge takes, and of these the
                // shortest.
                let count = if is_last { runs.runs.len() } else { fan.min(runs.runs.len() - fan + 1) };
                let bytes = |at: usize| runs.runs[at..at + count].iter().map(Tape::blocks).sum::<usize>();
                let first = (0..=runs.runs.len() - count).min_by_key(|&at| bytes(at)).unwrap_or(0);
                runs.merged_to = first;
                let merged: Vec<Tape> = runs.runs.drain(first..first + count).collect();
                runs.merge = Some(self.run_merge(merged, &mut runs.file)?);
                if is_last {
                    return Ok(true);
                }
            }
            let Some(merge) = &mut runs.merge else { return Ok(true) };
            while !merge.heap.is_empty() {
                if ex.is_used_up() {
                    return Ok(false);
                }
                for _ in 0..ROWS_PER_LOOK {
                    let Some(row) = merge.first() else { break };
                    runs.writer.push(&mut runs.file, row)?;
                    self.advance(merge, &mut runs.file)?;
                }
                ex.check_cancel()?;
                ex.spend(ROWS_PER_LOOK);
            }
            runs.merge = None;
            let merged = std::mem::take(&mut runs.writer).finish(&mut runs.file)?;
            runs.runs.insert(runs.merged_to, merged);
        }
    }

    fn run_merge(&self, tapes: Vec<Tape>, file: &mut SpillFile) -> Result<RunMerge> {
        let mut merge = RunMerge { sources: Vec::with_capacity(tapes.len()), heap: Vec::new() };
        for tape in tapes {
            let mut reader = TapeReader::new(tape, true);
            let mut row = vec![Datum::Null; self.width];
            if reader.next(file, &mut row)? {
                let heads = self.heads(&row);
                merge.heap.push(merge.sources.len());
                merge.sources.push(Source { reader, row, heads });
            }
        }
        let RunMerge { sources, heap } = &mut merge;
        heap.sort_by(|&a, &b| self.compare_sources(sources, a, b));
        Ok(merge)
    }

    #[inline]
    fn compare_sources(&self, sources: &[Source], a: usize, b: usize) -> Ordering {
        let (first, second) = (&sources[a], &sources[b]);
        first
            .heads
            .cmp(&second.heads)
            .then_with(|| compare_keys(&self.order, &first.row, &second.row))
            .then_with(|| a.cmp(&b))
    }

    /// Goes to the next row of the runs.
    fn advance(&self, merge: &mut RunMerge, file: &mut SpillFile) -> Result<()> {
        pulse::work(UNITS_PER_MERGED)?;
        let Some(&first) = merge.heap.first() else { return Ok(()) };
        let source = &mut merge.sources[first];
        if source.reader.next(file, &mut source.row)? {
            source.heads = self.heads(&source.row);
        } else {
            merge.heap.swap_remove(0);
        }
        let RunMerge { sources, heap } = merge;
        sift(heap, |a, b| self.compare_sources(sources, a, b));
        Ok(())
    }

    /// The next row in order, once [`Sorter::finish`] is done: its values may be taken.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Option<&mut [Datum]>> {
        if let Some(runs) = &mut self.on_disk {
            let Some(merge) = &mut runs.merge else { return Err(Error::internal("rows were not merged")) };
            return Ok(merge.heap.first().map(|&first| &mut merge.sources[first].row[..]));
        }
        let next = self.merge.as_ref().and_then(|merge| {
            let piece = *merge.heap.first()?;
            Some(self.pieces[piece][merge.next[piece]].row as usize)
        });
        Ok(next.map(|row| self.rows.row_mut(row)))
    }

    /// Goes behind the row that [`Sorter::peek`] shows. In memory its keys have to be what they
    /// were.
    #[inline]
    pub(super) fn skip(&mut self) -> Result<()> {
        let Some(mut runs) = self.on_disk.take() else {
            pulse::work(UNITS_PER_MERGED)?;
            self.next_in_memory();
            return Ok(());
        };
        let advanced = match &mut runs.merge {
            Some(merge) => self.advance(merge, &mut runs.file),
            None => Ok(()),
        };
        self.on_disk = Some(runs);
        advanced
    }

    /// The next row in order, to be taken; an entry's row is compared no more once it is out.
    #[inline]
    pub(super) fn next_into(&mut self, into: &mut [Datum]) -> Result<bool> {
        if self.on_disk.is_some() {
            let Some(row) = self.peek()? else { return Ok(false) };
            into.swap_with_slice(&mut row[..into.len()]);
            self.skip()?;
            return Ok(true);
        }
        let Some(row) = self.next_in_memory() else { return Ok(false) };
        into.swap_with_slice(&mut self.rows.row_mut(row)[..into.len()]);
        pulse::work(UNITS_PER_MERGED)?;
        Ok(true)
    }

    /// Lets go of some rows in memory, from the end; `false` if there are none.
    pub(super) fn drop_block(&mut self) -> bool {
        self.merge = None;
        self.rows.drop_block()
    }
}

impl RunMerge {
    fn first(&self) -> Option<&[Datum]> {
        self.heap.first().map(|&first| &self.sources[first].row[..])
    }
}

/// Moves what is on top of a heap down to where it belongs.
#[inline]
fn sift(heap: &mut [usize], compare: impl Fn(usize, usize) -> Ordering) {
    let mut at = 0;
    loop {
        let mut least = at;
        for child in [2 * at + 1, 2 * at + 2] {
            if child < heap.len() && compare(heap[child], heap[least]).is_lt() {
                least = child;
            }
        }
        if least == at {
            return;
        }
        heap.swap(at, least);
        at = least;
    }
}

//! Sorting.
//!
//! ```text
//! rows:     | row | keys |  | row | keys | ...      a key that is a column of the row is not stored twice
//! entries:  (first key's head: 8 bytes in the order of the values, row) sorted in pieces of 8,192
//! ```
//! The input is taken in until a piece is full, which is then sorted; the pieces are merged when rows go out. So no step
//! takes longer than sorting one piece, and that polls where keys are long. With `top` rows that cannot be among the first so
//! many are dropped on the way.
//!
//! Invariants: equal rows stay in the order they came in; a head that is smaller belongs to a value that comes first, and
//! equal heads say nothing.

use std::cmp::Ordering;

use colibri_types::{Datum, Result, operators, pulse};

use super::merge_sort;
use super::row_store::RowStore;
use super::{Batch, Exec, Run, Scope, Step, datum_bytes, row_bytes};
use crate::expr::Expr;
use crate::plan::{Node, SortKey};

/// Rows sorted at once.
const PIECE_ROWS: usize = merge_sort::PIECE;
/// A key of more bytes than this takes long to compare.
const LONG_KEY_BYTES: usize = 256;
/// What finding the next row among the pieces takes, in units of work.
const UNITS_PER_MERGED: usize = 10;
/// What letting go of a block of rows is to the budget, in rows.
const DROPPED_COST: usize = 256;
/// A `top` above this is sorted whole.
const TOP_MAX: usize = 65_536;

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
    fn head(self, value: &Datum) -> u64 {
        let head = match value {
            Datum::Null => return if self.nulls_first { 0 } else { u64::MAX },
            Datum::Int(value) | Datum::Time(value) | Datum::Timestamp(value) => *value as u64 ^ 1 << 63,
            Datum::Date(value) => i64::from(*value) as u64 ^ 1 << 63,
            Datum::Float(value) if value.is_nan() => u64::MAX,
            Datum::Float(value) => {
                let bits = (*value + 0.0).to_bits();
                if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
            }
            Datum::Text(value) => head_of_bytes(value.as_bytes()),
            Datum::Bytes(value) => head_of_bytes(value),
            Datum::Uuid(value) => head_of_bytes(value),
            Datum::Bool(value) => u64::from(*value) << 32,
            Datum::Numeric(_) | Datum::Interval(_) | Datum::Array(_) => 1 << 63,
        };
        if self.descending { !head } else { head }
    }
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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Entry {
    head: u64,
    row: u32,
}

/// A sort at work.
pub(crate) struct SortRun {
    input: Run,
    fresh: Batch,
    /// Columns of the input's rows.
    width: usize,
    /// Columns of the rows kept: the keys that had to be computed come last.
    kept_width: usize,
    order: Vec<KeyOrder>,
    rows: RowStore<Datum>,
    /// Sorted.
    pieces: Vec<Vec<Entry>>,
    /// The piece that is being filled.
    entries: Vec<Entry>,
    /// Whether a key takes long to compare.
    has_long_keys: bool,
    top: Option<usize>,
    /// With `top`: the row that is the last of the first so many.
    worst: Option<usize>,
    bytes: usize,
    output: Option<Merge>,
}

/// Pieces being merged.
struct Merge {
    /// The next place of each.
    next: Vec<usize>,
    /// Pieces by their next entries, the first on top.
    heap: Vec<usize>,
}

impl SortRun {
    pub(super) fn new(input: &Node) -> Self {
        Self {
            input: Run::new(input),
            fresh: Batch::new(),
            width: 0,
            kept_width: 0,
            order: Vec::new(),
            rows: RowStore::new(0),
            pieces: Vec::new(),
            entries: Vec::new(),
            has_long_keys: false,
            top: None,
            worst: None,
            bytes: 0,
            output: None,
        }
    }

    pub(super) fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        self.input.give_back(ex);
        ex.give_memory(std::mem::take(&mut self.bytes));
    }

    pub(super) fn step(
        &mut self,
        input: &Node,
        keys: &[SortKey],
        top: Option<&Expr>,
        ex: &mut Exec<'_, '_>,
        out: &mut Batch,
    ) -> Result<Step> {
        while self.output.is_none() {
            match self.input.step(input, ex, &mut self.fresh)? {
                Step::Yield => return Ok(Step::Yield),
                Step::Rows => {
                    if self.kept_width == 0 {
                        self.begin(keys, top, ex);
                    }
                    self.take(keys, ex)?;
                }
                Step::Done => {
                    self.input.give_back(ex);
                    self.finish()?;
                }
            }
        }
        if ex.is_used_up() {
            return Ok(Step::Yield);
        }
        out.reset(self.width);
        while !out.is_full()
            && let Some(row) = self.next_row()
        {
            out.push_taken(&mut self.rows.row_mut(row)[..self.width]);
            pulse::work(UNITS_PER_MERGED)?;
        }
        ex.spend(out.rows());
        if !out.is_empty() {
            return Ok(Step::Rows);
        }
        while self.rows.drop_block() {
            ex.spend(DROPPED_COST);
            if ex.is_used_up() {
                return Ok(Step::Yield);
            }
        }
        Ok(Step::Done)
    }

    fn begin(&mut self, keys: &[SortKey], top: Option<&Expr>, ex: &mut Exec<'_, '_>) {
        self.width = self.fresh.width();
        self.kept_width = self.width;
        for key in keys {
            let place = match key.expr {
                Expr::Column(column) => column,
                _ => {
                    self.kept_width += 1;
                    self.kept_width - 1
                }
            };
            self.order.push(KeyOrder::new(place, key));
        }
        // Rows without columns and keys still have to be counted.
        self.kept_width = self.kept_width.max(1);
        self.rows = RowStore::new(self.kept_width);
        // What is wrong with the limit is the Limit's business.
        let top = top.and_then(|top| top.eval_owned(&mut ex.scope(), &[]).ok());
        self.top = match top {
            Some(Datum::Int(top)) => usize::try_from(top).ok().filter(|&top| top <= TOP_MAX),
            _ => None,
        };
    }

    fn take(&mut self, keys: &[SortKey], ex: &mut Exec<'_, '_>) -> Result<()> {
        let mut texts = 0;
        let mut scope = ex.scope();
        for index in 0..self.fresh.rows() {
            if let Some(worst) = self.worst
                && self.kept_width == self.width
                && compare_keys(&self.order, self.fresh.row(index), self.rows.row(worst)).is_ge()
            {
                continue;
            }
            let row = self.fresh.row_mut(index);
            let number = self.rows.len();
            let computed = compute_keys(keys, &mut scope, row)?;
            let filled = row.iter_mut().map(std::mem::take).chain(computed).chain(std::iter::repeat(Datum::Null));
            self.rows.push(filled.take(self.kept_width));
            let row = self.rows.row(number);
            if let Some(worst) = self.worst
                && compare_keys(&self.order, row, self.rows.row(worst)).is_ge()
            {
                self.rows.pop();
                continue;
            }
            let in_texts = row_bytes(row) - size_of_val(row);
            texts += in_texts;
            self.has_long_keys |=
                in_texts > LONG_KEY_BYTES && self.order.iter().any(|key| datum_bytes(&row[key.place]) > LONG_KEY_BYTES);
            let head = self.order.first().map_or(0, |key| key.head(&row[key.place]));
            self.entries.push(Entry { head, row: number as u32 });
        }
        match self.top {
            Some(top) => {
                if self.rows.len() >= (2 * top).max(1024) {
                    self.keep_top(top)?;
                }
            }
            None => {
                while self.entries.len() >= PIECE_ROWS {
                    let rest = self.entries.split_off(PIECE_ROWS);
                    self.sort_entries()?;
                    self.pieces.push(std::mem::replace(&mut self.entries, rest));
                }
            }
        }
        let entries = self.pieces.len() * PIECE_ROWS + self.entries.capacity();
        let taken = self.rows.bytes() + entries * size_of::<Entry>();
        let more = (taken + texts).saturating_sub(self.bytes);
        self.bytes += more;
        ex.take_memory(more)
    }

    fn compare(&self, a: Entry, b: Entry) -> Ordering {
        a.head
            .cmp(&b.head)
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

    /// Drops all rows but the first `top`.
    fn keep_top(&mut self, top: usize) -> Result<()> {
        self.sort_entries()?;
        self.entries.truncate(top);
        // Rows are numbered anew in sorted order, which is an order they may have come in as well.
        let mut rows = RowStore::new(self.kept_width);
        for (number, entry) in self.entries.iter_mut().enumerate() {
            rows.push(self.rows.row_mut(entry.row as usize).iter_mut().map(std::mem::take));
            entry.row = number as u32;
            pulse::work(UNITS_PER_MERGED)?;
        }
        self.rows = rows;
        self.worst = (self.rows.len() == top && top > 0).then(|| top - 1);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        match self.top {
            Some(top) => self.keep_top(top)?,
            None => self.sort_entries()?,
        }
        if !self.entries.is_empty() {
            self.pieces.push(std::mem::take(&mut self.entries));
        }
        let count = self.pieces.len();
        let mut heap: Vec<usize> = (0..count).collect();
        // In order is a heap.
        let first = |piece: usize| self.pieces[piece][0];
        merge_sort::sort(&mut heap, merge_sort::PIECE_OF_LONG, |&a, &b| self.compare(first(a), first(b)))?;
        self.output = Some(Merge { next: vec![0; count], heap });
        Ok(())
    }

    /// The next row in order.
    fn next_row(&mut self) -> Option<usize> {
        let mut merge = self.output.take()?;
        let row = merge.heap.first().copied().map(|piece| {
            let at = &mut merge.next[piece];
            let row = self.pieces[piece][*at].row as usize;
            *at += 1;
            if *at == self.pieces[piece].len() {
                merge.heap.swap_remove(0);
            }
            self.sift(&mut merge);
            row
        });
        self.output = Some(merge);
        row
    }

    /// Moves the first piece down to where it belongs.
    fn sift(&self, merge: &mut Merge) {
        let next = |piece: usize| self.pieces[piece][merge.next[piece]];
        let mut at = 0;
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < merge.heap.len() && self.compare(next(merge.heap[child]), next(merge.heap[least])).is_lt() {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            merge.heap.swap(at, least);
            at = least;
        }
    }
}

/// The values of those keys that are not columns.
fn compute_keys(keys: &[SortKey], scope: &mut Scope<'_>, row: &[Datum]) -> Result<smallvec::SmallVec<[Datum; 2]>> {
    let computed = keys.iter().filter(|key| !matches!(key.expr, Expr::Column(_)));
    computed.map(|key| key.expr.eval_owned(scope, row)).collect()
}

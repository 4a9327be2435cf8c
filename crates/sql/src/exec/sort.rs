//! Sorting.
//!
//! ```text
//! rows:     | row | keys |  | row | keys | ...      a key that is a column of the row is not stored twice
//! entries:  (first key's head: 8 bytes in the order of the values, row) sorted in pieces of 8,192
//! ```
//! The input is taken in until a piece is full, which is then sorted; the pieces are merged when rows go out. So no step
//! takes longer than sorting one piece. With `top` rows that cannot be among the first so many are dropped on the way.
//!
//! Invariants: equal rows stay in the order they came in; a head that is smaller belongs to a value that comes first, and
//! equal heads say nothing.

use std::cmp::Ordering;

use super::row_store::RowStore;
use super::{Batch, Exec, Run, Scope, Step, row_bytes};
use crate::error::Result;
use crate::expr::Expr;
use crate::operators;
use crate::plan::{Node, SortKey};
use crate::value::Datum;

/// Rows sorted at once.
const PIECE_ROWS: usize = 8_192;
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    entries: Vec<Entry>,
    /// Entries below this are in sorted pieces.
    sorted: usize,
    top: Option<usize>,
    /// With `top`: the row that is the last of the first so many.
    worst: Option<usize>,
    bytes: usize,
    output: Option<Merge>,
}

/// RowStore being merged: the next entry of each.
struct Merge {
    /// Ends and next places of the pieces.
    pieces: Vec<(usize, usize)>,
    /// RowStore by their next entries, the first on top. Empty with one piece.
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
            entries: Vec::new(),
            sorted: 0,
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
                    self.finish();
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
            texts += row_bytes(row) - size_of_val(row);
            let head = self.order.first().map_or(0, |key| key.head(&row[key.place]));
            self.entries.push(Entry { head, row: number as u32 });
        }
        match self.top {
            Some(top) => {
                if self.rows.len() >= (2 * top).max(1024) {
                    self.keep_top(top);
                }
            }
            None => {
                while self.entries.len() - self.sorted >= PIECE_ROWS {
                    self.sort_piece(self.sorted + PIECE_ROWS);
                }
            }
        }
        let taken = self.rows.bytes() + self.entries.capacity() * size_of::<Entry>();
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

    fn sort_piece(&mut self, end: usize) {
        let mut entries = std::mem::take(&mut self.entries);
        entries[self.sorted..end].sort_unstable_by(|&a, &b| self.compare(a, b));
        self.entries = entries;
        self.sorted = end;
    }

    /// Drops all rows but the first `top`.
    fn keep_top(&mut self, top: usize) {
        self.sorted = 0;
        self.sort_piece(self.entries.len());
        self.entries.truncate(top);
        // Rows are numbered anew in sorted order, which is an order they may have come in as well.
        let mut rows = RowStore::new(self.kept_width);
        for (number, entry) in self.entries.iter_mut().enumerate() {
            rows.push(self.rows.row_mut(entry.row as usize).iter_mut().map(std::mem::take));
            entry.row = number as u32;
        }
        self.rows = rows;
        self.sorted = 0;
        self.worst = (self.rows.len() == top && top > 0).then(|| top - 1);
    }

    fn finish(&mut self) {
        if let Some(top) = self.top {
            self.keep_top(top);
            self.sorted = self.entries.len();
        } else if self.sorted < self.entries.len() {
            self.sort_piece(self.entries.len());
        }
        let step = if self.top.is_some() { usize::MAX } else { PIECE_ROWS };
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < self.entries.len() {
            let end = start.saturating_add(step).min(self.entries.len());
            pieces.push((end, start));
            start = end;
        }
        let mut merge = Merge { heap: (0..pieces.len()).collect(), pieces };
        let ahead =
            |&a: &usize, &b: &usize| self.compare(self.entries[merge.pieces[a].1], self.entries[merge.pieces[b].1]);
        // In order is a heap.
        let mut heap = std::mem::take(&mut merge.heap);
        heap.sort_unstable_by(ahead);
        merge.heap = heap;
        self.output = Some(merge);
    }

    /// The next row in order.
    fn next_row(&mut self) -> Option<usize> {
        let mut merge = self.output.take()?;
        let row = merge.heap.first().copied().map(|piece| {
            let (end, at) = &mut merge.pieces[piece];
            let row = self.entries[*at].row as usize;
            *at += 1;
            if at == end {
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
        let next = |piece: usize| self.entries[merge.pieces[piece].1];
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

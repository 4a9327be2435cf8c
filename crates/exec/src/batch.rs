//! Rows side by side in one vector: what operators hand each other.
//!
//! Invariants: `cells` holds at least `rows * width` values; those behind are left over from
//! earlier rows, to be overwritten, so that a batch used again and again allocates nothing. Nobody
//! puts more rows into a batch than its reader wants. An operator that gave more would lock rows that
//! were not asked for, or make the transaction depend on them. Batches of wide rows end earlier, so
//! that the values are still in the processor's cache when they are read.

use colibri_types::Datum;

use super::operator_cache::{KEPT_CELLS_MAX, KEPT_TEXT_BYTES_MAX};

/// The most rows that operators put into a batch.
pub(crate) const BATCH_ROWS_MAX: usize = 1024;
/// The most values in a batch, 128 KiB, unless its rows are very wide.
const BATCH_CELLS_MAX: usize = 4096;
/// So many rows are in a batch however wide they are.
const BATCH_ROWS_LEAST: usize = 32;
/// How many rows an operator that reads ahead begins with; it doubles from batch to batch.
pub(crate) const BATCH_ROWS_FIRST: usize = 16;

/// Rows of equal width.
#[derive(Debug, Clone)]
pub struct Batch {
    cells: Vec<Datum>,
    width: usize,
    rows: usize,
    /// What the reader wants, and what there is to be of it in rows of this width.
    wanted: usize,
    rows_max: usize,
    /// All rows are in the place of the first one, for nobody looks at them.
    counts_only: bool,
    /// Cells behind these are as they were when the batch was emptied.
    touched: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// Without rows.
    pub fn new() -> Self {
        let (wanted, rows_max) = (BATCH_ROWS_MAX, BATCH_ROWS_MAX);
        Self { cells: Vec::new(), width: 0, rows: 0, wanted, rows_max, counts_only: false, touched: 0 }
    }

    /// Takes all rows out; the next ones will have `width` columns.
    #[inline]
    pub fn reset(&mut self, width: usize) {
        self.width = width;
        self.rows = 0;
        self.limit();
    }

    #[inline]
    fn limit(&mut self) {
        self.rows_max = if self.wanted * self.width <= BATCH_CELLS_MAX {
            self.wanted
        } else {
            self.wanted.min((BATCH_CELLS_MAX / self.width).max(BATCH_ROWS_LEAST))
        };
    }

    /// Columns of a row.
    #[inline]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows in it.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether it has no row.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The most rows that are to be put into this batch.
    #[inline]
    pub fn rows_max(&self) -> usize {
        self.rows_max
    }

    /// The most rows that the reader of this batch wants, whatever their width.
    #[inline]
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Says how many rows are wanted: at least one, at most `BATCH_ROWS_MAX`.
    #[inline]
    pub fn want(&mut self, rows: usize) {
        self.wanted = rows.clamp(1, BATCH_ROWS_MAX);
        self.limit();
    }

    /// Says whether the reader of this batch only counts its rows. Then a scan reads no column but
    /// those of its conditions, and all rows share the place of the first one.
    #[inline]
    pub(super) fn want_count_only(&mut self, counts_only: bool) {
        self.counts_only = counts_only;
    }

    /// Whether nobody looks at the values of its rows.
    #[inline]
    pub(super) fn counts_only(&self) -> bool {
        self.counts_only
    }

    /// Whether no more rows are to be put into it.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.rows >= self.rows_max
    }

    /// Without rows, for another statement: with the memory of a few small values.
    pub fn emptied(self) -> Self {
        self.trimmed(LEFTOVER_CELLS_MAX, LEFTOVER_TEXT_BYTES_MAX)
    }

    /// The same for another run of the plan, of which there may be many: with less.
    pub(super) fn kept(self) -> Self {
        self.trimmed(KEPT_CELLS_MAX, KEPT_TEXT_BYTES_MAX)
    }

    fn trimmed(mut self, cells_max: usize, text_bytes_max: usize) -> Self {
        if self.cells.capacity() > cells_max {
            return Self::new();
        }
        let touched = self.touched.min(self.cells.len());
        trim(&mut self.cells[..touched], text_bytes_max);
        Self { cells: self.cells, ..Self::new() }
    }

    /// A row.
    #[inline]
    pub fn row(&self, index: usize) -> &[Datum] {
        debug_assert!(index < self.rows && (index == 0 || !self.counts_only));
        &self.cells[index * self.width..(index + 1) * self.width]
    }

    /// A row, to be changed or moved out of.
    #[inline]
    pub fn row_mut(&mut self, index: usize) -> &mut [Datum] {
        debug_assert!(index < self.rows && (index == 0 || !self.counts_only));
        &mut self.cells[index * self.width..(index + 1) * self.width]
    }

    /// All rows.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Datum]> + '_ {
        (0..self.rows).map(|index| self.row(index))
    }

    /// A row more, to be filled in: its values are whatever they were. [`Batch::pop`] takes it
    /// back.
    #[inline]
    pub fn push(&mut self) -> &mut [Datum] {
        let start = if self.counts_only { 0 } else { self.rows * self.width };
        let end = start + self.width;
        if end > self.cells.len() {
            self.grow(end);
        }
        self.rows += 1;
        self.touched = self.touched.max(end);
        &mut self.cells[start..end]
    }

    #[cold]
    fn grow(&mut self, cells: usize) {
        let target = cells.max((self.cells.len() * 2).min(self.rows_max * self.width));
        self.cells.resize(target, Datum::Null);
    }

    /// A row more.
    pub fn push_row(&mut self, row: &[Datum]) {
        debug_assert_eq!(row.len(), self.width);
        self.push().clone_from_slice(row);
    }

    /// A row more that is one row and another behind it: what a join gives.
    #[inline]
    pub fn push_joined(&mut self, left: &[Datum], right: &[Datum]) {
        let row = self.push();
        row[..left.len()].clone_from_slice(left);
        row[left.len()..].clone_from_slice(right);
    }

    /// A row more, its values moved out of `row`.
    #[inline]
    pub fn push_taken(&mut self, row: &mut [Datum]) {
        self.push().swap_with_slice(row);
    }

    /// Takes the last row back.
    #[inline]
    pub fn pop(&mut self) {
        self.rows = self.rows.saturating_sub(1);
    }

    /// Keeps the first rows only.
    pub fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
    }

    /// Keeps the rows for which `keep` says so.
    pub fn retain<E>(&mut self, mut keep: impl FnMut(&[Datum]) -> Result<bool, E>) -> Result<(), E> {
        let mut kept = 0;
        for index in 0..self.rows {
            if keep(self.row(index))? {
                if kept < index {
                    let (front, back) = self.cells.split_at_mut(index * self.width);
                    front[kept * self.width..(kept + 1) * self.width].swap_with_slice(&mut back[..self.width]);
                }
                kept += 1;
            }
        }
        self.rows = kept;
        Ok(())
    }

    /// Keeps the first columns only.
    pub fn cut(&mut self, width: usize) {
        if width >= self.width {
            return;
        }
        for index in 1..self.rows {
            for column in 0..width {
                self.cells.swap(index * width + column, index * self.width + column);
            }
        }
        self.width = width;
    }
}

/// Values that are kept to be overwritten, after rows of one statement and before those of the
/// next.
pub const LEFTOVER_CELLS_MAX: usize = 64;
/// Bytes of a text among them.
const LEFTOVER_TEXT_BYTES_MAX: usize = 256;

/// Lets go of values that nobody needs any more, except for the memory of a few small ones: at most
/// 16 KiB.
pub fn trim_leftover(cells: &mut Vec<Datum>) {
    cells.truncate(LEFTOVER_CELLS_MAX);
    trim(cells, LEFTOVER_TEXT_BYTES_MAX);
}

fn trim(cells: &mut [Datum], text_bytes_max: usize) {
    for cell in cells {
        match cell {
            Datum::Text(text) if text.capacity() <= text_bytes_max => {}
            cell => *cell = Datum::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(rows: &[[i64; 2]]) -> Batch {
        let mut batch = Batch::new();
        batch.reset(2);
        rows.iter().for_each(|row| batch.push_row(&row.map(Datum::Int)));
        batch
    }

    fn ints(batch: &Batch) -> Vec<Vec<i64>> {
        let int = |value: &Datum| if let Datum::Int(value) = value { *value } else { panic!("not an integer") };
        batch.iter().map(|row| row.iter().map(int).collect()).collect()
    }

    #[test]
    fn rows_can_be_kept_and_cut() {
        let mut rows = batch(&[[1, 2], [3, 4], [5, 6]]);
        rows.retain(|row| Ok::<_, ()>(row[0] != Datum::Int(3))).unwrap();
        assert_eq!(ints(&rows), [[1, 2], [5, 6]]);
        rows.cut(1);
        assert_eq!(ints(&rows), [[1], [5]]);
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let mut rows = Batch::new();
        rows.reset(0);
        rows.push();
        rows.push();
        assert_eq!(rows.iter().len(), 2);
    }
}

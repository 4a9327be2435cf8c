//! Rows of a statement: values side by side in one vector.
//!
//! Invariants: `cells` holds at least `count * width` values; those after them are left over from
//! earlier rows and are reused, so that a caller that uses the same `Rows` for small results again
//! and again allocates nothing.

use std::fmt;
use std::sync::Arc;

use colibri_types::{Datum, Result};

use crate::exec::{KeptRows, LEFTOVER_CELLS_MAX, SessionMemory, trim_leftover};

/// Rows of equal width. Taking rows out with [`Rows::clear`] leaves the memory of a few small
/// values for the next ones.
#[derive(Default)]
pub struct Rows {
    cells: Vec<Datum>,
    width: usize,
    count: usize,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Clone for Rows {
    fn clone(&self) -> Self {
        Self { cells: self.cells[..self.count * self.width].to_vec(), width: self.width, count: self.count }
    }
}

impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl Rows {
    /// Rows from their values side by side.
    ///
    /// # Panics
    /// If these are not as many as `count` rows of `width` have.
    #[must_use]
    pub fn of_cells(width: usize, count: usize, cells: Vec<Datum>) -> Self {
        assert_eq!(cells.len(), width * count, "{count} rows of {width}");
        Self { cells, width, count }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A row.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn row(&self, index: usize) -> &[Datum] {
        assert!(index < self.count, "row {index} of {}", self.count);
        &self.cells[index * self.width..(index + 1) * self.width]
    }

    pub(crate) fn row_mut(&mut self, index: usize) -> &mut [Datum] {
        &mut self.cells[index * self.width..(index + 1) * self.width]
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Datum]> {
        (0..self.count).map(|index| self.row(index))
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.count) > 0 {
            trim_leftover(&mut self.cells);
        }
    }

    /// Without rows, for another statement: with the memory of a few small values at the most.
    pub(crate) fn emptied(mut self) -> Self {
        if self.cells.capacity() > LEFTOVER_CELLS_MAX {
            return Self::default();
        }
        self.clear();
        self
    }

    pub(crate) fn push(&mut self, row: impl Iterator<Item = Datum>) {
        let before = self.count * self.width;
        self.cells.truncate(before);
        self.cells.extend(row);
        self.width = self.cells.len() - before;
        self.count += 1;
    }

    /// A row more, exchanged for values that are left over.
    pub(crate) fn push_exchanged(&mut self, row: &mut [Datum]) {
        let before = self.count * self.width;
        self.width = row.len();
        if self.cells.len() < before + row.len() {
            self.cells.resize(before + row.len(), Datum::Null);
        }
        self.cells[before..before + row.len()].swap_with_slice(row);
        self.count += 1;
    }

    pub(crate) fn append(&mut self, other: &mut Self) {
        if self.count == 0 {
            std::mem::swap(self, other);
        } else {
            self.cells.truncate(self.count * self.width);
            other.cells.truncate(other.count * other.width);
            self.cells.append(&mut other.cells);
            self.count += std::mem::take(&mut other.count);
        }
        other.clear();
    }
}

/// Rows of a statement that are kept until its end in memory as they came; those behind them are
/// [`KeptBehind`].
pub(super) const KEPT_AT_HAND: usize = 1024;

/// Rows that are kept until the statement's end, in memory as far as that goes, and on disk behind
/// that.
#[derive(Default)]
pub(super) struct KeptBehind {
    rows: KeptRows,
    given: usize,
}

impl KeptBehind {
    pub(super) fn push(&mut self, memory: &Arc<SessionMemory>, row: &mut [Datum]) -> Result<()> {
        self.rows.push(memory, row)
    }

    /// Gives some of those that were not given yet; `false` if there are none.
    pub(super) fn give(&mut self, out: &mut Rows) -> Result<bool> {
        let mut row = vec![Datum::Null; self.rows.width()];
        let end = self.rows.len().min(self.given + KEPT_AT_HAND);
        for number in self.given..end {
            self.rows.read(number, &mut row, true)?;
            out.push_exchanged(&mut row);
        }
        let gives = end > self.given;
        self.given = end;
        Ok(gives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(cells: &[[i64; 2]]) -> Rows {
        let mut rows = Rows::default();
        cells.iter().for_each(|row| rows.push(row.map(Datum::Int).into_iter()));
        rows
    }

    #[test]
    fn what_is_left_over_is_never_seen() {
        let mut used = rows(&[[1, 2], [3, 4], [5, 6]]);
        used.clear();
        assert!(used.is_empty() && used == Rows::default());
        used.push_exchanged(&mut [7, 8].map(Datum::Int));
        assert_eq!(used, rows(&[[7, 8]]));
        assert_eq!(format!("{used:?}"), format!("{:?}", rows(&[[7, 8]])));
        let mut more = rows(&[[0, 0], [9, 10]]);
        more.clear();
        more.push([11, 12].map(Datum::Int).into_iter());
        used.append(&mut more);
        assert_eq!((used.clone(), more.len()), (rows(&[[7, 8], [11, 12]]), 0));
        // Of another width.
        used.clear();
        used.push_exchanged(&mut [Datum::Int(13)]);
        assert_eq!(used.iter().collect::<Vec<_>>(), [[Datum::Int(13)]]);
    }

    #[test]
    fn memory_of_small_values_is_used_again_and_that_of_large_ones_is_not_kept() {
        let text = |bytes: usize| Datum::text(&"x".repeat(bytes));
        let address = |value: &Datum| if let Datum::Text(text) = value { text.as_ptr().addr() } else { 0 };
        let mut rows = Rows::default();
        rows.push([text(100), text(1 << 20)].into_iter());
        let small = address(&rows.row(0)[0]);
        rows.clear();
        let mut next = [text(90), text(90)];
        rows.push_exchanged(&mut next);
        assert_eq!(address(&next[0]), small);
        assert_eq!(next[1], Datum::Null);
    }
}

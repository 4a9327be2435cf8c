//! Rows that a statement gave: values side by side in one vector.

use crate::value::Datum;

/// Rows of equal width.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    cells: Vec<Datum>,
    width: usize,
    count: usize,
}

impl Rows {
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
    /// If there are not so many.
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
        self.cells.clear();
        self.count = 0;
    }

    pub(crate) fn push(&mut self, row: impl Iterator<Item = Datum>) {
        let before = self.cells.len();
        self.cells.extend(row);
        self.width = self.cells.len() - before;
        self.count += 1;
    }

    pub(crate) fn append(&mut self, other: &mut Self) {
        if self.count == 0 {
            std::mem::swap(self, other);
        } else {
            self.cells.append(&mut other.cells);
            self.count += std::mem::take(&mut other.count);
        }
        other.clear();
    }
}

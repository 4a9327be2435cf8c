//! Values in rows of one width that are kept in blocks: what sorts, groups and hash joins hold.
//!
//! A vector that outgrows its memory is moved, all of it at once: tens of milliseconds for a
//! million rows, in which the statement lets nobody else run. A block stays where it is, and only
//! the first one grows. Letting go of all of it is as long, and polls between two blocks.
//!
//! Invariants: each block but the last holds [`BLOCK_ROWS`] rows.

use colibri_types::pulse;

use super::operator_cache;

/// Of a block; a power of two.
const BLOCK_ROWS: usize = 1024;

/// Rows of the same number of values each.
#[derive(Default)]
pub(super) struct RowStore<T> {
    width: usize,
    blocks: Vec<Vec<T>>,
    len: usize,
}

impl<T> RowStore<T> {
    /// Without rows; those to come have `width` values.
    pub(super) fn new(width: usize) -> Self {
        Self { width, blocks: Vec::new(), len: 0 }
    }

    /// How many rows there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Values of a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Bytes that it takes, what its values need elsewhere apart.
    pub(super) fn bytes(&self) -> usize {
        // All but the first and the last are alike, and full.
        let of_one = |block: Option<&Vec<T>>| block.map_or(0, |block| block.capacity() * size_of::<T>());
        let between = self.blocks.len().saturating_sub(2) * BLOCK_ROWS * self.width * size_of::<T>();
        let last = if self.blocks.len() > 1 { self.blocks.last() } else { None };
        of_one(self.blocks.first()) + between + of_one(last)
    }

    /// Adds a row: as many values as one has.
    #[inline]
    pub(super) fn push(&mut self, row: impl IntoIterator<Item = T>) {
        if self.len == self.blocks.len() * BLOCK_ROWS {
            let values = if self.len == 0 { 0 } else { BLOCK_ROWS * self.width };
            self.blocks.push(Vec::with_capacity(values));
        }
        let block = self.blocks.last_mut().expect("there is one for the row");
        block.extend(row);
        self.len += 1;
        debug_assert_eq!(block.len(), ((self.len - 1) % BLOCK_ROWS + 1) * self.width);
    }

    /// Takes the last row back.
    pub(super) fn pop(&mut self) {
        let Some(last) = self.len.checked_sub(1) else { return };
        self.len = last;
        match last % BLOCK_ROWS {
            0 => drop(self.blocks.pop()),
            rows => self.blocks[last / BLOCK_ROWS].truncate(rows * self.width),
        }
    }

    /// Without rows, for another run of the plan: with little memory.
    pub(super) fn again(&mut self) {
        while self.blocks.len() > 1 {
            self.drop_block();
        }
        self.blocks.iter_mut().for_each(operator_cache::empty);
        self.len = 0;
    }

    /// Lets go of the last block and what is in it; `false` if there is none.
    pub(super) fn drop_block(&mut self) -> bool {
        let dropped = self.blocks.pop().is_some();
        self.len = self.blocks.len() * BLOCK_ROWS;
        dropped
    }

    /// A row.
    #[inline]
    pub(super) fn row(&self, row: usize) -> &[T] {
        let start = row % BLOCK_ROWS * self.width;
        &self.blocks[row / BLOCK_ROWS][start..start + self.width]
    }

    /// A row, to be changed.
    #[inline]
    pub(super) fn row_mut(&mut self, row: usize) -> &mut [T] {
        let start = row % BLOCK_ROWS * self.width;
        &mut self.blocks[row / BLOCK_ROWS][start..start + self.width]
    }
}

impl<T> Drop for RowStore<T> {
    fn drop(&mut self) {
        while let Some(block) = self.blocks.pop() {
            pulse::note(block.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_where_they_were_put() {
        for width in [0, 1, 3] {
            let mut rows = RowStore::new(width);
            for row in 0..3 * BLOCK_ROWS {
                rows.push((0..width).map(|column| row * 10 + column));
            }
            rows.pop();
            assert_eq!(rows.len(), 3 * BLOCK_ROWS - 1);
            for row in 0..rows.len() {
                assert!(rows.row(row).iter().copied().eq((0..width).map(|column| row * 10 + column)), "row {row}");
            }
            let held = rows.len() * width * size_of::<usize>();
            assert!(
                (held..=held + BLOCK_ROWS * width * size_of::<usize>()).contains(&rows.bytes()),
                "{}",
                rows.bytes()
            );
            while rows.len() > BLOCK_ROWS {
                rows.pop();
            }
            rows.push(std::iter::repeat_n(7, width));
            rows.row_mut(BLOCK_ROWS).fill(8);
            assert!(rows.row(BLOCK_ROWS).iter().all(|&value| value == 8));
            assert!(rows.row(BLOCK_ROWS - 1).iter().all(|&value| value >= (BLOCK_ROWS - 1) * 10));
            while rows.len() > 0 {
                rows.pop();
            }
            rows.pop();
            assert_eq!(rows.bytes(), 0);
            for row in 0..BLOCK_ROWS + 1 {
                rows.push(std::iter::repeat_n(row, width));
            }
            assert!(rows.drop_block());
            assert_eq!(rows.len(), BLOCK_ROWS);
            assert!(rows.drop_block());
            assert!(!rows.drop_block());
            assert_eq!((rows.len(), rows.bytes()), (0, 0));
        }
    }
}

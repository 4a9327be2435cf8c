//! How many rows an operator reads ahead that gives fewer than it reads.
//!
//! At first a few, then twice as many from batch to batch. Where a LIMIT wants only some rows more,
//! what was read and given so far says about how many that takes: to read twice as many as before
//! would be up to twice the work.

use super::Batch;
use super::batch::{BATCH_ROWS_FIRST, BATCH_ROWS_MAX};

/// Rows read and given so far, and how many are read next.
#[derive(Debug)]
pub(super) struct Ahead {
    next: usize,
    read: u64,
    given: u64,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { next: BATCH_ROWS_FIRST, read: 0, given: 0 }
    }
}

impl Ahead {
    /// How many rows to read for a batch, from `BATCH_ROWS_FIRST` to `BATCH_ROWS_MAX`.
    #[inline]
    pub(super) fn next(&mut self, out: &Batch) -> usize {
        let next = self.next;
        self.next = (next * 2).min(BATCH_ROWS_MAX);
        let wanted = out.wanted().saturating_sub(out.rows());
        if self.given == 0 || out.wanted() == BATCH_ROWS_MAX {
            return next;
        }
        let needed = (wanted as u64).saturating_mul(self.read) / self.given;
        // A quarter more, for not all parts of a table are alike.
        next.min(needed.saturating_add(needed / 4) as usize).max(BATCH_ROWS_FIRST)
    }

    /// Notes rows that were read.
    #[inline]
    pub(super) fn note_read(&mut self, rows: usize) {
        self.read += rows as u64;
    }

    /// Notes rows that were given.
    #[inline]
    pub(super) fn note_given(&mut self, rows: usize) {
        self.given += rows as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_limit_still_wants_bounds_what_is_read() {
        let mut out = Batch::new();
        let mut ahead = Ahead::default();
        assert_eq!((ahead.next(&out), ahead.next(&out), ahead.next(&out)), (16, 32, 64));
        ahead.note_read(112);
        // Nothing was given yet, so nothing is known.
        out.want(20);
        assert_eq!(ahead.next(&out), 128);
        ahead.note_read(128);
        ahead.note_given(24);
        // One of ten, and a quarter more.
        assert_eq!(ahead.next(&out), 250);
        out.want(1);
        assert_eq!(ahead.next(&out), 16);
        out.want(BATCH_ROWS_MAX);
        assert_eq!(ahead.next(&out), BATCH_ROWS_MAX);
    }
}

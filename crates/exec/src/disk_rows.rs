//! Rows that are too many for memory, found by a hash of their keys: sorted by it on disk.
//!
//! Invariant: rows with the same hash come in the order in which they were taken in.

use colibri_types::{Datum, Result, pulse};

use super::Exec;
use super::memory::Use;
use super::sorter::{KeyOrder, Sorter};
use super::spill::{HashCursor, HashRun, SpillFile};

/// Rows that are written between two looks at the budget.
const ROWS_PER_LOOK: usize = 256;

/// Rows of one width.
pub(super) struct DiskRows {
    /// Rows with their hashes in front, until all are there.
    sorter: Option<Sorter>,
    sorted: Option<(SpillFile, HashRun)>,
    width: usize,
}

/// Where a reader is, and the row that it has read behind its hash.
pub(super) struct DiskReader {
    cursor: HashCursor,
    row: Vec<Datum>,
}

impl DiskReader {
    pub(super) fn new(width: usize) -> Self {
        Self { cursor: HashCursor::default(), row: vec![Datum::Null; width + 1] }
    }

    /// The row that was read last.
    pub(super) fn row(&self) -> &[Datum] {
        &self.row[1..]
    }
}

/// A hash as a word that is ordered as the hash is, and back.
fn word_of(hash: u64) -> i64 {
    (hash ^ 1 << 63) as i64
}

fn hash_of(word: &Datum) -> u64 {
    if let Datum::Int(word) = word { *word as u64 ^ 1 << 63 } else { 0 }
}

impl DiskRows {
    pub(super) fn new(width: usize) -> Self {
        Self { sorter: Some(Sorter::new(width + 1, vec![KeyOrder::ascending(0)])), sorted: None, width }
    }

    /// Takes a row in, moving its values out.
    pub(super) fn push(&mut self, hash: u64, row: &mut [Datum]) -> Result<()> {
        let Some(sorter) = &mut self.sorter else { return Ok(()) };
        sorter.push(std::iter::once(Datum::Int(word_of(hash))).chain(row.iter_mut().map(std::mem::take)));
        sorter.sort_full()
    }

    /// Bytes that it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.sorter.as_ref().map_or(0, Sorter::bytes)
    }

    /// Bytes that it takes on disk.
    pub(super) fn bytes_on_disk(&self) -> u64 {
        let sorted = self.sorted.as_ref().map_or(0, |(file, _)| file.bytes());
        self.sorter.as_ref().map_or(0, Sorter::bytes_on_disk) + sorted
    }

    /// Has what is in memory go to disk; `false` if the budget is used up before all of it is
    /// there, and this is to be called again.
    pub(super) fn spill(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        let bytes_max = Use::Hash.bytes_max(ex.cx.memory);
        self.sorter.as_mut().map_or(Ok(true), |sorter| sorter.spill(ex, bytes_max))
    }

    /// Makes rows ready to be found, after the last one was taken in; `false` as of
    /// [`DiskRows::spill`].
    pub(super) fn finish(&mut self, ex: &mut Exec<'_, '_>) -> Result<bool> {
        let Some(sorter) = &mut self.sorter else { return Ok(true) };
        let bytes_max = Use::Hash.bytes_max(ex.cx.memory);
        if self.sorted.is_none() {
            if !sorter.finish(ex, bytes_max)? {
                return Ok(false);
            }
            self.sorted = Some((SpillFile::for_look_ups(ex.cx.memory)?, HashRun::default()));
        }
        let Some((file, run)) = &mut self.sorted else { return Ok(true) };
        let mut row = vec![Datum::Null; self.width + 1];
        while !ex.is_used_up() {
            for _ in 0..ROWS_PER_LOOK {
                if !sorter.next_into(&mut row)? {
                    self.sorter = None;
                    return Ok(true);
                }
                run.push(file, hash_of(&row[0]), &row[1..])?;
                pulse::work(pulse::UNITS_PER_ROW)?;
            }
            ex.check_cancel()?;
            ex.spend(ROWS_PER_LOOK);
        }
        Ok(false)
    }

    /// Puts a reader in front of the rows with a hash.
    pub(super) fn seek(&self, hash: u64, reader: &mut DiskReader) {
        if let Some((_, run)) = &self.sorted {
            run.seek(hash, &mut reader.cursor);
        }
    }

    /// Reads the next row with the reader's hash; `false` if there is none.
    pub(super) fn next(&self, reader: &mut DiskReader) -> Result<bool> {
        match &self.sorted {
            Some((file, run)) => run.next(file, &mut reader.cursor, &mut reader.row),
            None => Ok(false),
        }
    }
}

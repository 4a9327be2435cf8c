//! Rows on disk in the order of their hashes, found by these.
//!
//! ```text
//! run: a tape of | hash | values | in the order of the hashes
//! fences: the hash that each block's first row has
//! ```
//! Finding the rows of a hash takes one block of the tape, or as many as they are in.
//!
//! Invariants: hashes ascend; rows with the same hash stay in the order in which they were pushed.

use colibri_types::{Datum, Result, pulse};

use super::tape::{decode, ends_early};
use super::{SpillFile, Tape, TapeWriter};

/// What passing a row takes, in units of work.
const UNITS_PER_PASSED: usize = 2;

/// A run.
#[derive(Default)]
pub(crate) struct HashRun {
    writer: TapeWriter,
    fences: Vec<Fence>,
}

/// Where the first row of a block begins.
struct Fence {
    hash: u64,
    block: usize,
    at: usize,
}

/// Where a run is read.
#[derive(Default)]
pub(crate) struct HashCursor {
    hash: u64,
    buffer: Vec<u8>,
    at: usize,
    /// The next block.
    block: usize,
    /// No row with the hash is left.
    is_done: bool,
}

impl HashRun {
    /// Appends a row, whose hash is no less than the last one's.
    pub(crate) fn push(&mut self, file: &mut SpillFile, hash: u64, values: &[Datum]) -> Result<()> {
        let word = Datum::Int(hash as i64);
        self.writer.push(file, std::iter::once(&word).chain(values))?;
        let (block, at) = self.writer.last_start;
        if self.fences.last().is_none_or(|last| last.block < block) {
            self.fences.push(Fence { hash, block, at });
        }
        Ok(())
    }

    /// Its rows, all of them: the hash, as a word, and the values.
    pub(crate) fn into_tape(self, file: &mut SpillFile) -> Result<Tape> {
        self.writer.finish(file)
    }

    /// Puts a cursor in front of the rows with a hash.
    pub(crate) fn seek(&self, hash: u64, cursor: &mut HashCursor) {
        // Rows of this hash may begin in the block before the first one that begins with it.
        let place = self.fences.partition_point(|fence| fence.hash < hash).saturating_sub(1);
        cursor.buffer.clear();
        (cursor.hash, cursor.is_done) = (hash, true);
        if let Some(fence) = self.fences.get(place) {
            (cursor.block, cursor.at, cursor.is_done) = (fence.block, fence.at, false);
        }
    }

    /// Reads the next row with the cursor's hash into `row`, the hash in front; `false` if there is
    /// none.
    pub(crate) fn next(&self, file: &SpillFile, cursor: &mut HashCursor, row: &mut [Datum]) -> Result<bool> {
        while !cursor.is_done {
            let is_read = !cursor.buffer.is_empty() && decode(&cursor.buffer, &mut cursor.at, row)?;
            if is_read {
                pulse::work(UNITS_PER_PASSED)?;
                match &row[0] {
                    Datum::Int(found) if (*found as u64) < cursor.hash => {}
                    Datum::Int(found) if *found as u64 == cursor.hash => return Ok(true),
                    _ => cursor.is_done = true,
                }
                continue;
            }
            // Behind the last block there is what was not written yet, and then nothing.
            if cursor.block > self.writer.blocks() {
                cursor.is_done = true;
                continue;
            }
            if !cursor.buffer.is_empty() {
                cursor.buffer.drain(..cursor.at);
                cursor.at = 0;
            }
            let before = cursor.buffer.len();
            self.writer.load(file, cursor.block, &mut cursor.buffer)?;
            if cursor.buffer.len() == before && cursor.block < self.writer.blocks() {
                return Err(ends_early());
            }
            cursor.block += 1;
        }
        Ok(false)
    }
}

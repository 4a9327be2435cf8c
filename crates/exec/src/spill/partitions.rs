//! Rows divided by a hash of their keys, so that each part can be dealt with by itself.
//!
//! Invariants: rows with equal keys come into the same part, in the order they were given. A part
//! that is divided again is divided by other bits of the hash, up to [`LEVELS_MAX`] times.

use colibri_types::{Datum, Result};

use super::{FAN_MAX, SpillFile, Tape, TapeWriter};

/// How often parts of parts are divided. Tables find places by a hash' low bits, parts by its high
/// ones.
pub(crate) const LEVELS_MAX: u32 = 6;

/// Bits that tell parts of one level apart.
const BITS: u32 = FAN_MAX.ilog2();

/// Parts being written.
pub(crate) struct Partitions {
    level: u32,
    writers: Vec<TapeWriter>,
}

impl Partitions {
    /// Of a level: 0 for rows that were not divided before.
    pub(crate) fn new(file: &SpillFile, level: u32) -> Self {
        Self { level, writers: std::iter::repeat_with(TapeWriter::default).take(file.fan()).collect() }
    }

    /// Appends a row to the part of its hash.
    pub(crate) fn push<'d>(
        &mut self,
        file: &mut SpillFile,
        hash: u64,
        row: impl IntoIterator<Item = &'d Datum>,
    ) -> Result<()> {
        let part = (hash >> (u64::BITS - BITS * (self.level + 1))) as usize & (self.writers.len() - 1);
        self.writers[part].push(file, row)
    }

    /// All parts, also those without rows.
    pub(crate) fn finish(self, file: &mut SpillFile) -> Result<Vec<Tape>> {
        self.writers.into_iter().map(|writer| writer.finish(file)).collect()
    }
}

//! Rows that an operator had no room for: they wait, divided by their keys, until what is in memory
//! is done with.
//!
//! ```text
//! pass over the input:  rows of keys in memory are dealt with, others ──► parts
//! pass over a part:     again, others ──► smaller parts
//! ```
//! Each pass takes in keys until its memory is full, so there is one pass less to do with each,
//! however the rows are divided.
//!
//! Invariants: rows with equal keys stay together, in the order they came.

use std::sync::Arc;

use colibri_types::{Datum, Result};

use super::super::memory::{SessionMemory, Use};
use super::{LEVELS_MAX, Partitions, SpillFile, Tape, TapeReader};

/// What is left over, and the part that is being read.
#[derive(Default)]
pub(crate) struct Leftover(Option<Box<OnDisk>>);

struct OnDisk {
    file: SpillFile,
    parts: Option<Partitions>,
    pending: Vec<(Tape, u32)>,
    reader: Option<TapeReader>,
    /// Of the parts that rows are left over for.
    level: u32,
    passes: u64,
}

impl Leftover {
    /// Puts a row away for a later pass.
    pub(crate) fn push<'d>(
        &mut self,
        memory: &Arc<SessionMemory>,
        hash: u64,
        row: impl IntoIterator<Item = &'d Datum>,
    ) -> Result<()> {
        let disk = match &mut self.0 {
            Some(disk) => disk,
            none => {
                let file = SpillFile::create(memory, Use::Hash.bytes_max(memory))?;
                let pending = Vec::new();
                none.insert(Box::new(OnDisk { file, parts: None, pending, reader: None, level: 0, passes: 1 }))
            }
        };
        let OnDisk { file, parts, level, .. } = &mut **disk;
        parts.get_or_insert_with(|| Partitions::new(file, (*level).min(LEVELS_MAX))).push(file, hash, row)
    }

    /// Goes on to a part that is left over: `false` if there is none.
    pub(crate) fn next_pass(&mut self) -> Result<bool> {
        let Some(disk) = &mut self.0 else { return Ok(false) };
        if let Some(parts) = disk.parts.take() {
            let level = disk.level + 1;
            let made = parts.finish(&mut disk.file)?;
            disk.pending.extend(made.into_iter().filter(|part| part.rows() > 0).map(|part| (part, level)).rev());
        }
        let Some((part, level)) = disk.pending.pop() else { return Ok(false) };
        disk.level = level;
        disk.passes += 1;
        disk.reader = Some(TapeReader::new(part, true));
        Ok(true)
    }

    /// Reads the next row of the part into `row`, which has its width; `false` if there is none.
    pub(crate) fn read(&mut self, row: &mut [Datum]) -> Result<bool> {
        match &mut self.0 {
            Some(disk) => match &mut disk.reader {
                Some(reader) => reader.next(&mut disk.file, row),
                None => Ok(false),
            },
            None => Ok(false),
        }
    }

    /// Passes so far, and bytes on disk.
    pub(crate) fn usage(&self) -> (u64, u64) {
        self.0.as_ref().map_or((1, 0), |disk| (disk.passes, disk.file.bytes()))
    }
}

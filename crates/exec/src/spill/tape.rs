//! Rows one after the other in blocks of a temporary file.
//!
//! Invariants: rows come back in the order they were written. A tape that is read to be used up
//! gives each block back as soon as it is read; one that is not can be read again from its start,
//! or from a block's first row.

use colibri_types::{Datum, Error, Result, SqlState};

use super::codec::{self, Bytes};
use super::{HEADER_BYTES, SpillFile};

/// In front of a row's values: how many bytes they take.
const LENGTH_BYTES: usize = 4;

/// Rows that were written.
#[derive(Default)]
pub(crate) struct Tape {
    blocks: Vec<u32>,
    rows: u64,
}

impl Tape {
    /// How many rows it has.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// How many blocks it has.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Gives its blocks back.
    pub(crate) fn discard(self, file: &mut SpillFile) {
        self.blocks.into_iter().for_each(|block| file.give_back(block));
    }
}

/// A tape being written.
#[derive(Default)]
pub(crate) struct TapeWriter {
    tape: Tape,
    /// The block at hand, with room for its header in front.
    buffer: Vec<u8>,
    /// Of the last row: the block that it begins in, by place in the tape, and where in its
    /// payload.
    pub(super) last_start: (usize, usize),
}

impl TapeWriter {
    /// How many rows it has.
    pub(crate) fn rows(&self) -> u64 {
        self.tape.rows
    }

    /// How many blocks are written.
    pub(super) fn blocks(&self) -> usize {
        self.tape.blocks.len()
    }

    /// Appends a row.
    pub(crate) fn push<'d>(&mut self, file: &mut SpillFile, row: impl IntoIterator<Item = &'d Datum>) -> Result<()> {
        if self.buffer.is_empty() {
            self.buffer.resize(HEADER_BYTES, 0);
        }
        let start = self.buffer.len();
        self.last_start = (self.tape.blocks.len(), start - HEADER_BYTES);
        self.buffer.extend_from_slice(&[0; LENGTH_BYTES]);
        row.into_iter().for_each(|value| codec::write(value, &mut self.buffer));
        let Ok(length) = u32::try_from(self.buffer.len() - start - LENGTH_BYTES) else {
            return Err(Error::new(SqlState::PROGRAM_LIMIT, "a row of more than 4 GB cannot be kept"));
        };
        self.buffer[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        self.tape.rows += 1;
        self.write_full(file)
    }

    /// Writes the blocks that are full.
    fn write_full(&mut self, file: &mut SpillFile) -> Result<()> {
        let full = HEADER_BYTES + file.payload_bytes();
        if self.buffer.len() < full {
            return Ok(());
        }
        let mut from = 0;
        while self.buffer.len() - from >= full {
            // The header stands where the end of the block before was, which is on disk by now.
            let block = file.write(&mut self.buffer[from..from + full])?;
            self.tape.blocks.push(block);
            from += full - HEADER_BYTES;
        }
        self.buffer.drain(..from);
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn finish(mut self, file: &mut SpillFile) -> Result<Tape> {
        if self.buffer.len() > HEADER_BYTES {
            let block = file.write(&mut self.buffer)?;
            self.tape.blocks.push(block);
        }
        Ok(self.tape)
    }

    /// Reads into a block that may not have been written yet.
    pub(super) fn load(&self, file: &SpillFile, place: usize, into: &mut Vec<u8>) -> Result<()> {
        match self.tape.blocks.get(place) {
            Some(&block) => file.read(block, into),
            None => {
                into.extend_from_slice(self.buffer.get(HEADER_BYTES..).unwrap_or_default());
                Ok(())
            }
        }
    }
}

/// A tape being read.
pub(crate) struct TapeReader {
    tape: Tape,
    next_block: usize,
    rows_left: u64,
    /// Blocks are given back once they are read.
    uses_up: bool,
    buffer: Vec<u8>,
    at: usize,
}

impl TapeReader {
    /// From the start. With `uses_up` it is read once.
    pub(crate) fn new(tape: Tape, uses_up: bool) -> Self {
        Self { rows_left: tape.rows, tape, next_block: 0, uses_up, buffer: Vec::new(), at: 0 }
    }

    /// Rows that are left.
    pub(crate) fn rows_left(&self) -> u64 {
        self.rows_left
    }

    /// Back to the start. From then on it may be used up.
    pub(crate) fn rewind(&mut self, uses_up: bool) {
        debug_assert!(!self.uses_up, "the blocks are gone");
        (self.next_block, self.rows_left, self.uses_up) = (0, self.tape.rows, uses_up);
        self.buffer.clear();
        self.at = 0;
    }

    /// Gives back what was not read.
    pub(crate) fn discard(self, file: &mut SpillFile) {
        let from = if self.uses_up { self.next_block } else { 0 };
        self.tape.blocks[from..].iter().for_each(|&block| file.give_back(block));
    }

    /// Reads the next row into `row`, which has as many values; `false` if there is none.
    pub(crate) fn next(&mut self, file: &mut SpillFile, row: &mut [Datum]) -> Result<bool> {
        if self.rows_left == 0 {
            return Ok(false);
        }
        self.rows_left -= 1;
        while !decode(&self.buffer, &mut self.at, row)? {
            let Some(&block) = self.tape.blocks.get(self.next_block) else { return Err(ends_early()) };
            self.buffer.drain(..self.at);
            self.at = 0;
            file.read(block, &mut self.buffer)?;
            if self.uses_up {
                file.give_back(block);
            }
            self.next_block += 1;
        }
        Ok(true)
    }
}

#[cold]
pub(super) fn ends_early() -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "a temporary file has fewer rows than were written")
}

/// Reads a row at a place, and goes behind it; `false` if the bytes end before it does.
#[inline]
pub(super) fn decode(buffer: &[u8], at: &mut usize, row: &mut [Datum]) -> Result<bool> {
    let rest = &buffer[*at..];
    let Some((length, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else { return Ok(false) };
    let length = u32::from_le_bytes(*length) as usize;
    let Some(bytes) = rest.get(..length) else { return Ok(false) };
    let mut bytes = Bytes(bytes);
    for value in row {
        *value = bytes.read()?;
    }
    *at += LENGTH_BYTES + length;
    if bytes.0.is_empty() { Ok(true) } else { Err(ends_early()) }
}

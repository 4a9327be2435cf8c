//! Rows on disk: what operators put away that is more than they may keep in memory.
//!
//! ```text
//! SpillFile: one temporary file of an operator      Tape: rows, in the order they were written
//! | block 0 | block 1 | block 2 | block 3 | ...     block 0, block 2, …
//!
//! block: | checksum: u64 | bytes used: u32 | block: u32 | rows; the last may go on in the next
//! row:   | bytes: u32 | values, see `codec`
//! ```
//! Where files come from is in [`super::scratch`].
//! A file has no name: the system takes it away when whoever made it closes it, ends or is killed.
//! Its blocks are written and read whole, and used again once their tape has been read.
//!
//! | module | holds |
//! | --- | --- |
//! | `codec` | values as bytes |
//! | `tape` | rows one after the other |
//! | `partitions` | rows divided by a hash |
//! | `leftover` | rows that one pass over the input had no room for |
//! | `kept` | rows in memory, and on disk from some row on, found by their number |
//! | `hash_run` | rows on disk in the order of their hashes, found by these |
//! | `key_index` | keys on disk, which come in lots |
//!
//! Invariants: nothing here outlives its statement's operators or its cursor. Errors leave nothing
//! to go on with, as everywhere among operators: 53100 for a full disk, 53400 beyond
//! `temp_file_limit`, 58030 for what else goes wrong, XX001 for a block that is not what was
//! written. Reading and writing count as work (see [`colibri_types::pulse`]).

mod codec;
mod hash_run;
mod kept;
mod key_index;
mod leftover;
mod partitions;
mod tape;

use std::io;
use std::sync::Arc;

use colibri_types::{Error, Result, SqlState, pulse};

use super::memory::{Reservation, SessionMemory, Use};
use super::scratch::ScratchFile;
pub use codec::{Bytes as ValueBytes, write as write_value};
pub(super) use hash_run::{HashCursor, HashRun};
pub use kept::KeptRows;
pub(super) use key_index::KeyIndex;
pub(super) use leftover::Leftover;
pub(super) use partitions::{LEVELS_MAX, Partitions};
pub(super) use tape::{Tape, TapeReader, TapeWriter};

/// Bytes of a block: a sixty-fourth of the operator's memory, within these.
const BLOCK_BYTES_MIN: usize = 8 << 10;
const BLOCK_BYTES_MAX: usize = 256 << 10;
/// Tapes that are written, or merged, side by side. Their blocks take half of the operator's
/// memory, or what the least number takes.
const FAN_MIN: usize = 8;
const FAN_MAX: usize = 64;
/// What an operator reckons with that goes to disk since all of the memory is in use.
const FULL_BYTES: usize = 4 << 20;
/// Bytes that are read or written in a unit of work.
const BYTES_PER_UNIT: usize = 16;

/// In front of each block.
const HEADER_BYTES: usize = 16;

/// A temporary file in blocks.
pub(crate) struct SpillFile {
    file: Box<dyn ScratchFile>,
    memory: Arc<SessionMemory>,
    block_bytes: usize,
    fan: usize,
    /// Blocks whose rows nobody needs any more.
    free: Vec<u32>,
    blocks: u32,
    /// Blocks in memory, of tapes that are written or read: counted until the file is closed.
    _buffers: Reservation,
}

impl SpillFile {
    /// A new one, for an operator that may keep a given number of bytes.
    pub(crate) fn create(memory: &Arc<SessionMemory>, bytes_max: usize) -> Result<Self> {
        // What others leave is less than what the session may have.
        let bytes_max = if memory.engine().is_full() { bytes_max.min(FULL_BYTES) } else { bytes_max };
        let block_bytes = (bytes_max / 64).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX).next_power_of_two();
        let fan = (bytes_max / 2 / block_bytes).clamp(FAN_MIN, FAN_MAX);
        let fan = if fan.is_power_of_two() { fan } else { fan.next_power_of_two() / 2 };
        let file = memory.engine().scratch().create().map_err(|error| {
            let message = format!("could not create temporary file: {}", said(&error));
            Error::new(state_of(&error), message)
        })?;
        memory.engine().file_made();
        let mut _buffers = Reservation::default();
        _buffers.hold(memory, fan * block_bytes, Use::Rows);
        Ok(Self { file, memory: Arc::clone(memory), block_bytes, fan, free: Vec::new(), blocks: 0, _buffers })
    }

    /// A new one whose blocks are small: finding a row reads one.
    pub(super) fn for_look_ups(memory: &Arc<SessionMemory>) -> Result<Self> {
        Self::create(memory, FAN_MIN * BLOCK_BYTES_MIN)
    }

    /// Tapes that are written, or merged, side by side: a power of two.
    pub(super) fn fan(&self) -> usize {
        self.fan
    }

    /// Bytes of rows in a block.
    fn payload_bytes(&self) -> usize {
        self.block_bytes - HEADER_BYTES
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.blocks) * self.block_bytes as u64
    }

    fn place(&self, block: u32) -> u64 {
        u64::from(block) * self.block_bytes as u64
    }

    /// Writes a block, whose first bytes are room for its header; gives its number.
    fn write(&mut self, bytes: &mut [u8]) -> Result<u32> {
        debug_assert!(bytes.len() <= self.block_bytes);
        let block = match self.free.pop() {
            Some(block) => block,
            None => {
                self.memory.take_temp(self.block_bytes as u64)?;
                self.blocks += 1;
                self.blocks - 1
            }
        };
        let used = (bytes.len() - HEADER_BYTES) as u32;
        bytes[8..12].copy_from_slice(&used.to_le_bytes());
        bytes[12..16].copy_from_slice(&block.to_le_bytes());
        let sum = checksum(&bytes[8..]);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        pulse::work(bytes.len() / BYTES_PER_UNIT)?;
        let place = self.place(block);
        self.file.write_at(place, bytes).map_err(|error| {
            Error::new(state_of(&error), format!("could not write block {block} of temporary file: {}", said(&error)))
        })?;
        Ok(block)
    }

    /// Reads a block, and appends what is in it.
    fn read(&self, block: u32, into: &mut Vec<u8>) -> Result<()> {
        let start = into.len();
        pulse::work(self.block_bytes / BYTES_PER_UNIT)?;
        let failed = |error: io::Error| {
            Error::new(state_of(&error), format!("could not read block {block} of temporary file: {}", said(&error)))
        };
        let damaged = || Error::new(SqlState::DATA_CORRUPTED, format!("block {block} of temporary file is damaged"));
        let mut header = [0; HEADER_BYTES];
        self.file.read_at(self.place(block), &mut header).map_err(failed)?;
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("a word has four bytes"));
        let used = word(8) as usize;
        if used > self.payload_bytes() || word(12) != block {
            return Err(damaged());
        }
        // The rows come to stand where they are wanted: the header goes in front of them for the
        // checksum, and is taken out again.
        into.extend_from_slice(&header[8..]);
        into.resize(start + 8 + used, 0);
        self.file.read_at(self.place(block) + HEADER_BYTES as u64, &mut into[start + 8..]).map_err(failed)?;
        if checksum(&into[start..]).to_le_bytes() != header[..8] {
            return Err(damaged());
        }
        into.drain(start..start + 8);
        Ok(())
    }

    fn give_back(&mut self, block: u32) {
        self.free.push(block);
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        self.memory.give_temp(self.bytes());
        self.memory.engine().file_closed();
    }
}

/// Tells bytes from others that came about by mistake.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = super::group::Fold::default();
    std::hash::Hasher::write(&mut hasher, bytes);
    std::hash::Hasher::finish(&hasher)
}

fn state_of(error: &io::Error) -> SqlState {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SqlState::DISK_FULL,
        _ => SqlState::IO_ERROR,
    }
}

/// An error in the system's words, without its number.
fn said(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

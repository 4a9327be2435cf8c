//! Rows that are kept to be read by their numbers: in memory as far as that goes, behind that on
//! disk.
//!
//! ```text
//! rows 0 .. n in memory | rows from n on a tape
//!                         starts[i]: the first row that begins in a block, and where
//! ```
//! Invariants: rows in memory are never moved to disk; a row is appended to the tape once there is
//! one. What was read last stays in memory, so that reading on, and back within a block, costs no
//! look at the disk.

use std::sync::Arc;

use colibri_types::{Datum, Result};

use super::super::memory::{Reservation, SessionMemory, Use};
use super::super::row_bytes;
use super::super::row_store::RowStore;
use super::tape::{decode, ends_early};
use super::{SpillFile, TapeWriter};

/// Bytes that come before the reservation is told of them.
const TOLD_BYTES: usize = 4 << 10;

/// Rows of one width.
#[derive(Default)]
pub struct KeptRows {
    rows: RowStore<Datum>,
    /// What the rows in memory hold besides their values' places.
    in_texts: usize,
    told: usize,
    reservation: Reservation,
    on_disk: Option<Box<OnDisk>>,
}

/// The rows that memory has no room for.
struct OnDisk {
    file: SpillFile,
    writer: TapeWriter,
    starts: Vec<Start>,
    /// What was read last.
    buffer: Vec<u8>,
    /// The row that begins at `first_at` in the buffer, and the one at `at`.
    first: u64,
    first_at: usize,
    next: u64,
    at: usize,
    /// The block behind those in the buffer, by its place on the tape.
    next_block: usize,
    /// The end of the buffer was not on disk yet: more may have come behind it.
    is_open: bool,
}

/// Where a row begins.
#[derive(Clone, Copy)]
struct Start {
    row: u64,
    block: usize,
    at: usize,
}

impl KeptRows {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len() + self.on_disk.as_ref().map_or(0, |disk| disk.writer.rows() as usize)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values of a row; 0 before the first one.
    pub fn width(&self) -> usize {
        self.rows.width()
    }

    /// Bytes on disk, and the most in memory.
    pub fn usage(&self) -> (u64, usize) {
        (self.on_disk.as_ref().map_or(0, |disk| disk.file.bytes()), self.reservation.peak())
    }

    /// Appends a row, moving its values out where it can.
    pub fn push(&mut self, memory: &Arc<SessionMemory>, row: &mut [Datum]) -> Result<()> {
        if let Some(disk) = &mut self.on_disk {
            return disk.push(row);
        }
        if self.rows.len() == 0 && self.rows.width() != row.len() {
            self.rows = RowStore::new(row.len());
        }
        self.in_texts += row_bytes(row) - size_of_val(row);
        self.rows.push(row.iter_mut().map(std::mem::take));
        let bytes = self.rows.bytes() + self.in_texts;
        if bytes >= self.told + TOLD_BYTES {
            self.told = bytes;
            if !self.reservation.hold(memory, bytes, Use::Rows) {
                let file = SpillFile::create(memory, Use::Rows.bytes_max(memory))?;
                self.on_disk = Some(Box::new(OnDisk::new(file)));
            }
        }
        Ok(())
    }

    /// Appends a copy of a row.
    pub fn push_copy(&mut self, memory: &Arc<SessionMemory>, row: &[Datum]) -> Result<()> {
        match &mut self.on_disk {
            Some(disk) => disk.push(row),
            None => self.push(memory, &mut smallvec::SmallVec::<[Datum; 8]>::from(row)),
        }
    }

    /// A row that is in memory.
    #[inline]
    pub fn in_memory(&self, row: usize) -> Option<&[Datum]> {
        (row < self.rows.len()).then(|| self.rows.row(row))
    }

    /// Reads a row into `into`, which has its width. With `takes` nobody will read it again.
    pub fn read(&mut self, row: usize, into: &mut [Datum], takes: bool) -> Result<()> {
        match (row.checked_sub(self.rows.len()), &mut self.on_disk) {
            (None, _) if takes => self.rows.row_mut(row).swap_with_slice(into),
            (None, _) => into.clone_from_slice(self.rows.row(row)),
            (Some(row), Some(disk)) => disk.read(row as u64, into)?,
            (Some(_), None) => return Err(ends_early()),
        }
        Ok(())
    }

    /// Without rows, for another run of the plan: with little memory.
    pub fn again(&mut self) {
        self.rows.again();
        self.on_disk = None;
        (self.in_texts, self.told) = (0, 0);
        self.reservation.release();
    }
}

impl OnDisk {
    fn new(file: SpillFile) -> Self {
        Self {
            file,
            writer: TapeWriter::default(),
            starts: Vec::new(),
            buffer: Vec::new(),
            first: 0,
            first_at: 0,
            next: 0,
            at: 0,
            next_block: 0,
            is_open: true,
        }
    }

    fn push(&mut self, row: &[Datum]) -> Result<()> {
        let number = self.writer.rows();
        self.writer.push(&mut self.file, row)?;
        let (block, at) = self.writer.last_start;
        if self.starts.last().is_none_or(|last| last.block < block) {
            self.starts.push(Start { row: number, block, at });
        }
        Ok(())
    }

    fn read(&mut self, row: u64, into: &mut [Datum]) -> Result<()> {
        if row < self.first || row > self.next || self.buffer.is_empty() {
            self.seek(row)?;
        } else if row < self.next {
            (self.next, self.at) = (self.first, self.first_at);
        }
        loop {
            let is_there = if self.next < row {
                self.skip()
            } else if decode(&self.buffer, &mut self.at, into)? {
                self.next += 1;
                return Ok(());
            } else {
                false
            };
            if !is_there {
                self.load_next(row)?;
            }
        }
    }

    /// Goes to the last block that a row before the one wanted, or this one, begins in.
    fn seek(&mut self, row: u64) -> Result<()> {
        let place = self.starts.partition_point(|start| start.row <= row);
        let Some(start) = place.checked_sub(1).map(|place| self.starts[place]) else { return Err(ends_early()) };
        self.buffer.clear();
        (self.first, self.first_at) = (start.row, start.at);
        (self.next, self.at) = (start.row, start.at);
        self.next_block = start.block;
        self.load()
    }

    fn load(&mut self) -> Result<()> {
        self.is_open = self.next_block >= self.writer.blocks();
        self.writer.load(&self.file, self.next_block, &mut self.buffer)?;
        self.next_block += 1;
        Ok(())
    }

    /// Has more bytes behind those of the buffer, of which the row at hand needs some.
    fn load_next(&mut self, row: u64) -> Result<()> {
        if self.is_open {
            // What has come since then is read together with what was there.
            if row >= self.writer.rows() {
                return Err(ends_early());
            }
            return self.seek(row);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        (self.first, self.first_at) = (self.next, 0);
        self.load()
    }

    /// Goes behind a row; `false` if its bytes are not all there.
    fn skip(&mut self) -> bool {
        let Some(length) = self.buffer[self.at..].first_chunk::<4>() else { return false };
        let end = self.at + 4 + u32::from_le_bytes(*length) as usize;
        if end > self.buffer.len() {
            return false;
        }
        self.at = end;
        self.next += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::memory::{EngineMemory, MemoryLimits, MemoryTotal};
    use super::super::super::scratch::MemoryScratch;
    use super::*;

    #[test]
    fn rows_are_read_in_any_order_while_others_come() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let scratch = MemoryScratch::default();
        let engine = Arc::new(EngineMemory::with_scratch(Arc::new(scratch.clone()), MemoryTotal::default()));
        let limits = MemoryLimits { work_bytes: 64 << 10, ..MemoryLimits::default() };
        let memory = SessionMemory::new(&engine, limits);
        let mut kept = KeptRows::default();
        let mut expected: Vec<Vec<Datum>> = Vec::new();
        let mut into = [Datum::Null, Datum::Null];
        let mut next = usize::MAX;
        while expected.len() < 6_000 {
            for _ in 0..random.usize(..300) {
                // Some rows take several blocks.
                let bytes = if random.u8(..200) == 0 { random.usize(..40_000) } else { random.usize(..60) };
                let row = vec![Datum::Int(expected.len() as i64), Datum::text(&"x".repeat(bytes))];
                expected.push(row.clone());
                kept.push(&memory, &mut row.into_boxed_slice()).unwrap();
            }
            assert_eq!(kept.len(), expected.len());
            let mut at = random.usize(..expected.len().max(1));
            for _ in 0..200 {
                at = match random.u8(..10) {
                    0 => random.usize(..expected.len().max(1)),
                    1..5 => at.saturating_sub(1),
                    _ => at + 1,
                };
                if at >= expected.len() {
                    at = 0;
                    continue;
                }
                kept.read(at, &mut into, false).unwrap();
                assert_eq!(into[..], expected[at], "row {at}");
            }
            // To the last one, behind which others will come.
            let from = expected.len().saturating_sub(random.usize(..20));
            for (row, expected) in expected.iter().enumerate().skip(from) {
                kept.read(row, &mut into, false).unwrap();
                assert_eq!(into[..], expected[..], "row {row}");
            }
            if random.bool() && next < expected.len() {
                kept.read(next, &mut into, false).unwrap();
                assert_eq!(into[..], expected[next], "row {next}");
            }
            next = expected.len();
        }
        let (on_disk, in_memory) = kept.usage();
        assert!(on_disk > 100_000 && in_memory < 128 << 10, "{on_disk} {in_memory}");
        for (row, expected) in expected.iter().enumerate() {
            kept.read(row, &mut into, true).unwrap();
            assert_eq!(into[..], expected[..]);
        }
        assert!(kept.read(expected.len(), &mut into, false).is_err());
        drop(kept);
        assert_eq!((memory.kept(), engine.temp_file_counts().open), (0, 0));
        assert_eq!(scratch.0.open.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}

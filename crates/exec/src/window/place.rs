//! The rows of a partition, and where among them one is.
//!
//! Rows that are on disk are read some at a time, for each of those that look at rows at a distance
//! by itself: what they want next is most often the row behind.

use std::sync::Arc;

use colibri_types::{Datum, Error, Result, pulse};

use super::super::memory::SessionMemory;
use super::super::row_bytes;
use super::super::spill::KeptRows;

/// Rows that are read from disk at once, and how many bytes of them at the most.
const READ_ROWS_MAX: usize = 64;
const READ_BYTES_MAX: usize = 16 << 10;
/// Rows that are looked at between two counts of them.
const ROWS_PER_COUNT: i64 = 256;

/// The rows of a partition, each with the number of its group of equal ones behind.
#[derive(Default)]
pub(super) struct Rows {
    kept: KeptRows,
    readers: Vec<Reader>,
    looked_at: i64,
}

/// Rows that were read from disk.
#[derive(Default)]
struct Reader {
    first: usize,
    count: usize,
    values: Vec<Datum>,
}

impl Rows {
    /// Reads the row at hand.
    pub(super) const AT_HAND: usize = 0;
    /// Looks for the end of a group.
    const PEERS: usize = 1;
    /// Readers that are no call's.
    const SHARED: usize = 2;
    /// Readers of each call.
    const OF_CALL: usize = 4;

    /// With what calls read by.
    pub(super) fn of_calls(calls: usize) -> Self {
        let mut readers = Vec::new();
        readers.resize_with(Self::SHARED + calls * Self::OF_CALL, Reader::default);
        Self { readers, ..Self::default() }
    }

    /// The first reader of a call.
    pub(super) fn reader_of(call: usize) -> usize {
        Self::SHARED + call * Self::OF_CALL
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn width(&self) -> usize {
        self.kept.width()
    }

    /// Bytes on disk, and the most in memory.
    pub(super) fn usage(&self) -> (u64, usize) {
        self.kept.usage()
    }

    pub(super) fn push(&mut self, memory: &Arc<SessionMemory>, row: &mut [Datum]) -> Result<()> {
        self.kept.push(memory, row)
    }

    /// Without rows.
    pub(super) fn clear(&mut self) {
        self.kept.again();
        for reader in &mut self.readers {
            reader.count = 0;
            reader.values.clear();
        }
    }

    /// A row, for a reader.
    pub(super) fn row(&mut self, reader: usize, at: usize) -> Result<&[Datum]> {
        self.looked_at += 1;
        if self.looked_at >= ROWS_PER_COUNT {
            pulse::rows_done(std::mem::take(&mut self.looked_at))?;
        }
        if self.kept.in_memory(at).is_none() {
            let reader = &mut self.readers[reader];
            reader.read(&mut self.kept, at)?;
            return Ok(reader.row(at, self.kept.width()));
        }
        self.kept.in_memory(at).ok_or_else(|| Error::internal("a row that is not there"))
    }

    /// The number of a row's group.
    pub(super) fn group(&mut self, reader: usize, at: usize) -> Result<i64> {
        self.row(reader, at).map(group_of)
    }
}

/// The number of the group of a row.
pub(super) fn group_of(row: &[Datum]) -> i64 {
    if let Some(Datum::Int(group)) = row.last() { *group } else { 0 }
}

impl Reader {
    fn read(&mut self, kept: &mut KeptRows, at: usize) -> Result<()> {
        if at >= self.first && at - self.first < self.count {
            return Ok(());
        }
        let width = kept.width();
        (self.first, self.count) = (at, 0);
        self.values.clear();
        let mut bytes = 0;
        while self.count < READ_ROWS_MAX && at + self.count < kept.len() && bytes < READ_BYTES_MAX {
            let start = self.values.len();
            self.values.resize(start + width, Datum::Null);
            kept.read(at + self.count, &mut self.values[start..], false)?;
            bytes += row_bytes(&self.values[start..]);
            self.count += 1;
        }
        Ok(())
    }

    fn row(&self, at: usize, width: usize) -> &[Datum] {
        let start = (at - self.first) * width;
        &self.values[start..start + width]
    }
}

/// Where a row is.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) at: usize,
    /// Rows of the partition; where rows go on as they come, those so far.
    pub(super) len: usize,
    /// The number of the row's group of equal ones, and where that begins.
    pub(super) group: i64,
    pub(super) group_start: usize,
    group_end: Option<usize>,
}

impl Place {
    /// The next row begins a group.
    pub(super) fn begin_group(&mut self) {
        if self.len > 0 {
            self.group += 1;
        }
        self.group_start = self.len;
    }

    /// Moves to the row at `at`. Its partition has `len` rows, which are all peers if `are_equal`.
    /// Its peers have the number `group`.
    pub(super) fn arrive(&mut self, len: usize, are_equal: bool, group: i64) {
        self.len = len;
        if self.at == 0 || group != self.group {
            (self.group, self.group_start) = (group, self.at);
            self.group_end = are_equal.then_some(len);
        }
    }

    /// Where the group of the row ends.
    pub(super) fn group_end(&mut self, rows: &mut Rows) -> Result<usize> {
        if let Some(end) = self.group_end {
            return Ok(end);
        }
        let mut end = self.at + 1;
        while end < self.len && rows.group(Rows::PEERS, end)? == self.group {
            end += 1;
        }
        self.group_end = Some(end);
        Ok(end)
    }
}

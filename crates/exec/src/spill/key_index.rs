//! Keys on disk that are looked up one by one: which rows a recursive query has given.
//!
//! ```text
//! run: a tape of | hash | key | in the order of the hashes
//! fences: the hash that each block's first row has
//! ```
//! Keys come in large lots, each of which becomes a run. A look-up asks each run, which takes a
//! block of it; so when there are many, they are merged into one.
//!
//! Invariants: within a run, hashes ascend.

use colibri_types::{Datum, Result, pulse};

use super::super::group::{Groups, equal_keys};
use super::super::merge_sort;
use super::tape::{decode, ends_early};
use super::{SpillFile, Tape, TapeReader, TapeWriter};

/// Runs that are looked at for a key.
const RUNS_MAX: usize = 8;

/// Keys of one width.
pub(crate) struct KeyIndex {
    file: SpillFile,
    width: usize,
    runs: Vec<Run>,
    /// A row of a run, and a block of it.
    row: Vec<Datum>,
    buffer: Vec<u8>,
}

struct Run {
    writer: TapeWriter,
    fences: Vec<Fence>,
}

/// Where the first row of a block begins.
struct Fence {
    hash: u64,
    block: usize,
    at: usize,
}

impl Run {
    fn new() -> Self {
        Self { writer: TapeWriter::default(), fences: Vec::new() }
    }

    fn push(&mut self, file: &mut SpillFile, hash: u64, key: &[Datum]) -> Result<()> {
        let word = Datum::Int(hash as i64);
        self.writer.push(file, std::iter::once(&word).chain(key))?;
        let (block, at) = self.writer.last_start;
        if self.fences.last().is_none_or(|last| last.block < block) {
            self.fences.push(Fence { hash, block, at });
        }
        Ok(())
    }
}

impl KeyIndex {
    pub(crate) fn new(file: SpillFile, width: usize) -> Self {
        Self { file, width, runs: Vec::new(), row: vec![Datum::Null; width + 1], buffer: Vec::new() }
    }

    /// Bytes that it takes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Adds keys that are not there, with their hashes.
    pub(crate) fn add(&mut self, keys: &Groups) -> Result<()> {
        let mut order: Vec<(u64, u32)> = (0..keys.len())
            .map(|number| (super::super::group::hash_values(keys.key(number).iter()), number as u32))
            .collect();
        merge_sort::sort(&mut order, merge_sort::PIECE, Ord::cmp)?;
        let mut run = Run::new();
        for (hash, number) in order {
            run.push(&mut self.file, hash, keys.key(number as usize))?;
            pulse::work(pulse::UNITS_PER_ROW)?;
        }
        self.runs.push(run);
        if self.runs.len() > RUNS_MAX { self.merge() } else { Ok(()) }
    }

    /// Whether a key is there.
    pub(crate) fn contains(&mut self, hash: u64, key: &[Datum]) -> Result<bool> {
        for run in &self.runs {
            if run.find(&self.file, hash, key, &mut self.row, &mut self.buffer)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes one run of all.
    fn merge(&mut self) -> Result<()> {
        let mut sources = Vec::new();
        for run in std::mem::take(&mut self.runs) {
            let tape: Tape = run.writer.finish(&mut self.file)?;
            let mut reader = TapeReader::new(tape, true);
            let mut row = vec![Datum::Null; self.width + 1];
            if reader.next(&mut self.file, &mut row)? {
                sources.push((reader, row));
            }
        }
        let hash_of = |row: &[Datum]| if let Datum::Int(hash) = row[0] { hash as u64 } else { 0 };
        let mut merged = Run::new();
        while let Some(least) = (0..sources.len()).min_by_key(|&at| hash_of(&sources[at].1)) {
            pulse::work(pulse::UNITS_PER_ROW)?;
            let (reader, row) = &mut sources[least];
            merged.push(&mut self.file, hash_of(row), &row[1..])?;
            if !reader.next(&mut self.file, row)? {
                sources.swap_remove(least);
            }
        }
        self.runs.push(merged);
        Ok(())
    }
}

impl Run {
    fn find(
        &self,
        file: &SpillFile,
        hash: u64,
        key: &[Datum],
        row: &mut [Datum],
        buffer: &mut Vec<u8>,
    ) -> Result<bool> {
        // Rows of this hash may begin in the block before the first one that begins with it.
        let place = self.fences.partition_point(|fence| fence.hash < hash).saturating_sub(1);
        let Some(fence) = self.fences.get(place) else { return Ok(false) };
        buffer.clear();
        let (mut block, mut at) = (fence.block, fence.at);
        loop {
            // Behind the last block there is what was not written yet, and then nothing.
            if block > self.writer.blocks() {
                return Ok(false);
            }
            buffer.drain(..if block > fence.block { at } else { 0 });
            at = if block > fence.block { 0 } else { at };
            let before = buffer.len();
            self.writer.load(file, block, buffer)?;
            if buffer.len() == before && block < self.writer.blocks() {
                return Err(ends_early());
            }
            block += 1;
            while decode(buffer, &mut at, row)? {
                pulse::work(2)?;
                match &row[0] {
                    Datum::Int(found) if (*found as u64) < hash => {}
                    Datum::Int(found) if *found as u64 == hash => {
                        if equal_keys(&row[1..], key) {
                            return Ok(true);
                        }
                    }
                    _ => return Ok(false),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::group::hash_values;
    use super::super::super::memory::{EngineMemory, MemoryLimits, MemoryTotal, SessionMemory};
    use super::super::MemoryScratch;
    use super::*;

    #[test]
    fn keys_of_many_runs_are_found_and_no_others() {
        let engine = Arc::new(EngineMemory::with_scratch(Arc::new(MemoryScratch::default()), MemoryTotal::default()));
        let memory = SessionMemory::new(&engine, MemoryLimits::default());
        let mut index = KeyIndex::new(SpillFile::create(&memory, 64 << 10).unwrap(), 2);
        let key = |number: i64| {
            let long = if number % 97 == 0 { 20_000 } else { 3 };
            [
                if number % 5 == 0 { Datum::Null } else { Datum::Int(number % 7) },
                Datum::text(&format!("{number:long$}")),
            ]
        };
        for lot in 0..20 {
            let mut groups = Groups::new(2);
            for number in 0..200 {
                groups.find_or_add(&key(lot * 200 + number));
            }
            index.add(&groups).unwrap();
            assert!(index.runs.len() <= RUNS_MAX);
        }
        for number in 0..8_000 {
            let key = key(number);
            assert_eq!(index.contains(hash_values(key.iter()), &key).unwrap(), number < 4_000, "{number}");
        }
    }
}

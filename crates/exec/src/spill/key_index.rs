//! Keys on disk that are looked up one by one: which rows a recursive query has given.
//!
//! Keys come in large lots, each of which becomes a [`HashRun`]. A look-up asks each run, which
//! takes a block of it; so when there are many, they are merged into one.

use colibri_types::{Datum, Result, pulse};

use super::super::group::{Groups, equal_keys, hash_values};
use super::super::merge_sort;
use super::{HashCursor, HashRun, SpillFile, TapeReader};

/// Runs that are looked at for a key.
const RUNS_MAX: usize = 8;

/// Keys of one width.
pub(crate) struct KeyIndex {
    file: SpillFile,
    width: usize,
    runs: Vec<HashRun>,
    /// A row of a run, and where it is read.
    row: Vec<Datum>,
    cursor: HashCursor,
}

impl KeyIndex {
    pub(crate) fn new(file: SpillFile, width: usize) -> Self {
        let (row, cursor) = (vec![Datum::Null; width + 1], HashCursor::default());
        Self { file, width, runs: Vec::new(), row, cursor }
    }

    /// Bytes that it takes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Adds keys that are not there, with their hashes.
    pub(crate) fn add(&mut self, keys: &Groups) -> Result<()> {
        let mut order: Vec<(u64, u32)> =
            (0..keys.len()).map(|number| (hash_values(keys.key(number).iter()), number as u32)).collect();
        merge_sort::sort(&mut order, merge_sort::PIECE, Ord::cmp)?;
        let mut run = HashRun::default();
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
            run.seek(hash, &mut self.cursor);
            while run.next(&self.file, &mut self.cursor, &mut self.row)? {
                if equal_keys(&self.row[1..], key) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Makes one run of all.
    fn merge(&mut self) -> Result<()> {
        let mut sources = Vec::new();
        for run in std::mem::take(&mut self.runs) {
            let mut reader = TapeReader::new(run.into_tape(&mut self.file)?, true);
            let mut row = vec![Datum::Null; self.width + 1];
            if reader.next(&mut self.file, &mut row)? {
                sources.push((reader, row));
            }
        }
        let hash_of = |row: &[Datum]| if let Datum::Int(hash) = row[0] { hash as u64 } else { 0 };
        let mut merged = HashRun::default();
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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

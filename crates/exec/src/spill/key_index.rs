//! Keys on disk that are looked up one by one: which rows a recursive query has given.
//!
//! Keys come in large lots, each of which becomes a [`HashRun`]. A look-up asks each run, which
//! takes a block of it; so when there are many, they are merged into one. Most keys that are not
//! there are known not to be without a look at the disk: a Bloom filter in memory has a byte for
//! each key, or as much as a quarter of what the operator may keep.

use colibri_types::{Datum, Result, pulse};

use super::super::group::{Groups, equal_keys, hash_values};
use super::super::merge_sort;
use super::{HashCursor, HashRun, SpillFile, TapeReader};

/// Runs that are looked at for a key.
const RUNS_MAX: usize = 8;

/// Tells of most hashes that they were not added.
#[derive(Default)]
struct BloomFilter {
    words: Vec<u64>,
}

impl BloomFilter {
    /// An empty filter. It has a byte for each of `hashes` expected hashes, `bytes_max` in all at the
    /// most.
    fn new(hashes: usize, bytes_max: usize) -> Self {
        let bytes = hashes.next_power_of_two().min(bytes_max).max(size_of::<u64>());
        Self { words: vec![0; (bytes / size_of::<u64>()).next_power_of_two()] }
    }

    fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    /// A word, and four bits in it.
    fn place(&self, hash: u64) -> (usize, u64) {
        let bits = (0..4).fold(0, |bits, at| bits | 1 << (hash >> (6 * at) & 63));
        ((hash >> 32) as usize & (self.words.len() - 1), bits)
    }

    fn add(&mut self, hash: u64) {
        let (word, bits) = self.place(hash);
        self.words[word] |= bits;
    }

    fn may_have(&self, hash: u64) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let (word, bits) = self.place(hash);
        self.words[word] & bits == bits
    }
}

/// Keys of one width.
pub(crate) struct KeyIndex {
    file: SpillFile,
    width: usize,
    runs: Vec<HashRun>,
    keys: usize,
    filter: BloomFilter,
    filter_bytes_max: usize,
    /// A row of a run, and where it is read.
    row: Vec<Datum>,
    cursor: HashCursor,
}

impl KeyIndex {
    /// For an operator that may keep a given number of bytes.
    pub(crate) fn new(file: SpillFile, width: usize, bytes_max: usize) -> Self {
        let (row, cursor) = (vec![Datum::Null; width + 1], HashCursor::default());
        let (filter, filter_bytes_max) = (BloomFilter::default(), bytes_max / 4);
        Self { file, width, runs: Vec::new(), keys: 0, filter, filter_bytes_max, row, cursor }
    }

    /// Bytes that it takes in memory.
    pub(crate) fn bytes_in_memory(&self) -> usize {
        self.filter.bytes()
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
        self.keys += order.len();
        let has_room = self.filter.bytes() >= self.keys.min(self.filter_bytes_max);
        if has_room {
            order.iter().for_each(|(hash, _)| self.filter.add(*hash));
        }
        let mut run = HashRun::default();
        for (hash, number) in order {
            run.push(&mut self.file, hash, keys.key(number as usize))?;
            pulse::work(pulse::UNITS_PER_ROW)?;
        }
        self.runs.push(run);
        if self.runs.len() > RUNS_MAX || !has_room { self.merge() } else { Ok(()) }
    }

    /// Whether a key is there.
    pub(crate) fn contains(&mut self, hash: u64, key: &[Datum]) -> Result<bool> {
        if !self.filter.may_have(hash) {
            return Ok(false);
        }
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

    /// Makes one run of all, and a filter that has room for twice as many keys.
    fn merge(&mut self) -> Result<()> {
        self.filter = BloomFilter::new(2 * self.keys, self.filter_bytes_max);
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
            self.filter.add(hash_of(row));
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
    use super::super::super::scratch::MemoryScratch;
    use super::*;

    #[test]
    fn keys_of_many_runs_are_found_and_no_others() {
        let engine = Arc::new(EngineMemory::with_scratch(Arc::new(MemoryScratch::default()), MemoryTotal::default()));
        let memory = SessionMemory::new(&engine, MemoryLimits::default());
        let mut index = KeyIndex::new(SpillFile::create(&memory, 64 << 10).unwrap(), 2, 8 << 10);
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

    /// Bug: each key that a recursive query gave was looked for in all runs on disk. Consequence: a
    /// chain of 200,000 rows took minutes with little memory. Fix: a filter knows most new keys.
    #[test]
    fn most_keys_that_are_not_there_cost_no_look_at_the_disk() {
        let scratch = MemoryScratch::default();
        let engine = Arc::new(EngineMemory::with_scratch(Arc::new(scratch.clone()), MemoryTotal::default()));
        let memory = SessionMemory::new(&engine, MemoryLimits::default());
        let mut index = KeyIndex::new(SpillFile::for_look_ups(&memory).unwrap(), 1, 1 << 20);
        for lot in 0..40 {
            let mut groups = Groups::new(1);
            (0..1_000).for_each(|number| _ = groups.find_or_add(&[Datum::Int(lot * 1_000 + number)]));
            index.add(&groups).unwrap();
        }
        assert!(index.bytes_in_memory() <= 256 << 10);
        let mut asked = 0;
        for number in 40_000..50_000 {
            let key = [Datum::Int(number)];
            asked += usize::from(index.filter.may_have(hash_values(key.iter())));
            assert!(!index.contains(hash_values(key.iter()), &key).unwrap());
        }
        assert!(asked < 1_000, "{asked} of 10,000 new keys were looked for");
    }
}

//! Numbers that were met, a bit each: an hour of 50,000 jobs a second takes 23 MB.
//!
//! Numbers are those that a sequence gives: dense, from 1.

use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a chunk.
const CHUNK_WORDS: usize = 1 << 13;
const CHUNK_NUMBERS: u64 = CHUNK_WORDS as u64 * 64;
/// Higher numbers are not noted: 10⁹ take 125 MB.
const NUMBER_MAX: u64 = 1_000_000_000;

/// Numbers that were met.
#[derive(Debug, Default)]
pub(super) struct Seen {
    chunks: RwLock<Vec<Box<[AtomicU64]>>>,
}

impl Seen {
    /// Notes a number. False if it was noted before.
    pub(super) fn note(&self, number: i64) -> bool {
        let Some(number) = u64::try_from(number).ok().filter(|&number| number < NUMBER_MAX) else { return true };
        let (chunk, bit) = ((number / CHUNK_NUMBERS) as usize, number % CHUNK_NUMBERS);
        let mark = |chunks: &[Box<[AtomicU64]>]| {
            let word = chunks.get(chunk)?.get((bit / 64) as usize)?;
            Some(word.fetch_or(1 << (bit % 64), Ordering::Relaxed) & (1 << (bit % 64)) == 0)
        };
        if let Some(is_new) = mark(&self.chunks.read().expect("nobody panics with the lock")) {
            return is_new;
        }
        let mut chunks = self.chunks.write().expect("nobody panics with the lock");
        while chunks.len() <= chunk {
            chunks.push((0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect());
        }
        mark(&chunks).unwrap_or(true)
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        self.chunks.write().expect("nobody panics with the lock").clear();
    }
}

//! Memory of keys and values that lie in no page as the program sees them.
//!
//! Pages hold keys in parts, so a key that a cursor returns is put together here. LMDB's keys stay
//! where they are until the transaction ends or writes, and programs may keep pointers to them. So
//! memory is used again only after [`KEPT_BYTES`] more bytes were given out, or in the next
//! transaction.
#![allow(unsafe_code, reason = "hands out parts of buffers that the program reads")]

use std::ptr::NonNull;

use super::abi::MdbVal;

/// At least as many bytes that were given out last are still there.
const KEPT_BYTES: usize = 32 << 20;
const FIRST_CHUNK: usize = 8 << 10;
const CHUNK_MAX: usize = 1 << 20;
/// What is given out starts at a multiple of this, for programs that read integers in place.
const ALIGN: usize = 8;

struct Chunk {
    start: NonNull<u64>,
    words: usize,
}

impl Chunk {
    fn new(bytes: usize) -> Self {
        let words: Box<[u64]> = vec![0; bytes.div_ceil(ALIGN)].into_boxed_slice();
        let words_len = words.len();
        let start = NonNull::new(Box::into_raw(words).cast::<u64>()).expect("a box has an address");
        Self { start, words: words_len }
    }

    fn bytes(&self) -> usize {
        self.words * ALIGN
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.words);
        // SAFETY: `new` made it of a box of as many words, and nobody else frees it.
        drop(unsafe { Box::from_raw(slice) });
    }
}

/// Memory of one transaction.
#[derive(Default)]
pub(crate) struct Arena {
    /// The one in use is the last.
    chunks: std::collections::VecDeque<Chunk>,
    used: usize,
    bytes: usize,
}

impl Arena {
    /// Room for `len` bytes, to be filled by `fill`, which gives how many it has used.
    #[inline]
    pub(crate) fn give(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> MdbVal {
        let start = self.room(len);
        // SAFETY: `room` gives the start of `len` bytes of a chunk, initialized when it was made, to
        // which no reference of Rust's is kept.
        let room = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) };
        let size = fill(room);
        MdbVal { size, data: start.as_ptr().cast() }
    }

    /// A copy of bytes.
    #[inline]
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> MdbVal {
        self.give(bytes.len(), |room| {
            room.copy_from_slice(bytes);
            bytes.len()
        })
    }

    #[inline]
    fn room(&mut self, len: usize) -> NonNull<u8> {
        let at = self.used;
        match self.chunks.back() {
            Some(chunk) if at + len <= chunk.bytes() => {
                self.used = (at + len).next_multiple_of(ALIGN);
                // SAFETY: within the chunk, as just compared.
                unsafe { chunk.start.cast::<u8>().add(at) }
            }
            _ => self.next_chunk(len),
        }
    }

    #[cold]
    fn next_chunk(&mut self, len: usize) -> NonNull<u8> {
        let oldest = self.chunks.front().map_or(0, Chunk::bytes);
        if self.bytes - oldest.min(self.bytes) >= KEPT_BYTES
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.bytes -= chunk.bytes();
            if chunk.bytes() >= len && chunk.bytes() <= CHUNK_MAX {
                self.bytes += chunk.bytes();
                self.chunks.push_back(chunk);
                self.used = len.next_multiple_of(ALIGN);
                return self.chunks.back().expect("it was just pushed").start.cast();
            }
        }
        let last = self.chunks.back().map_or(FIRST_CHUNK / 2, Chunk::bytes);
        let chunk = Chunk::new((last * 2).min(CHUNK_MAX).max(len));
        self.bytes += chunk.bytes();
        self.used = len.next_multiple_of(ALIGN);
        let start = chunk.start.cast();
        self.chunks.push_back(chunk);
        start
    }

    /// Forgets all, for the next transaction. Some memory is kept.
    pub(crate) fn clear(&mut self) {
        if self.chunks.len() > 1 || self.bytes > CHUNK_MAX {
            while self.chunks.len() > 1 {
                self.chunks.pop_front();
            }
            self.bytes = self.chunks.front().map_or(0, Chunk::bytes);
            if self.bytes > CHUNK_MAX {
                self.chunks.clear();
                self.bytes = 0;
            }
        }
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(value: &MdbVal) -> &[u8] {
        // SAFETY: the test keeps the arena, and fewer bytes than are kept were given out since.
        unsafe { std::slice::from_raw_parts(value.data.cast(), value.size) }
    }

    #[test]
    fn what_was_given_out_last_stays() {
        let mut arena = Arena::default();
        let mut given = std::collections::VecDeque::new();
        for i in 0..300_000_u32 {
            let text = format!("{i:>width$}", width = 1 + (i % 900) as usize);
            given.push_back((arena.copy(text.as_bytes()), text));
            if given.len() > 30_000 {
                let (value, text) = given.pop_front().unwrap();
                assert_eq!(bytes_of(&value), text.as_bytes());
            }
        }
        assert!(arena.bytes < 2 * KEPT_BYTES);
        arena.clear();
        assert!(arena.bytes <= CHUNK_MAX);
    }
}

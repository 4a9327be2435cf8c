//! Compressed values of rows: when a value is compressed, and its bytes.
//!
//! ```text
//! 0                                     4
//! | u32: length 30 bits, method 2 bits  | LZ4 block (method 0) ...
//! ```
//! - length: of the value without compression, in bytes, little-endian; the method is in the two
//!   highest bits. Methods 1 to 3 are not used yet.
//! - LZ4 block: the block format of LZ4, without a frame, a checksum or a dictionary. The page's
//!   checksum covers it.
//!
//! Invariants: a value has one of two forms, as it is or compressed, and the row says which. Either
//! form may be in any row, whatever the table's settings are by now. Memory for a value is taken
//! only if its block can give as many bytes. ON DISK: methods are never renumbered.

use colibri_types::Result;
use lz4_flex::block;
use serde::{Deserialize, Serialize};

use super::malformed;

/// Values below this length are not compressed: reading them as they are costs less than what the
/// shorter row saves. Measured in `docs/design/0014-dense-pages.md`.
pub const COMPRESSED_BYTES_MIN: usize = 512;

/// Bytes before the block.
const HEAD_BYTES: usize = 4;
/// Bits of the length; the method is above them.
const LENGTH_BITS: u32 = 30;
/// The longest value that is compressed. Longer ones are stored as they are.
const COMPRESSED_BYTES_MAX: usize = (1 << LENGTH_BITS) - 1;
// ON DISK: never renumber.
const LZ4: u32 = 0;
/// A byte of an LZ4 block adds 255 bytes to its value at most.
const EXPANSION_MAX: usize = 255;

/// How the values of a table, or of a column, are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// They are not.
    None,
    /// By LZ4.
    Lz4,
}

impl Compression {
    /// The method of a name; `None` if there is no such method.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "lz4" => Some(Self::Lz4),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
        }
    }
}

/// Compresses the bytes from `start` on in place, if they are long enough and at least a quarter of
/// them is saved. Whether they are compressed now.
pub(super) fn compress_tail(out: &mut Vec<u8>, start: usize) -> bool {
    let length = out.len() - start;
    if !(COMPRESSED_BYTES_MIN..=COMPRESSED_BYTES_MAX).contains(&length) {
        return false;
    }
    // The block goes behind the value, and takes its place if it is short enough.
    let end = out.len();
    out.resize(end + HEAD_BYTES + block::get_maximum_output_size(length), 0);
    let (value, room) = out[start..].split_at_mut(length);
    room[..HEAD_BYTES].copy_from_slice(&(length as u32 | LZ4 << LENGTH_BITS).to_le_bytes());
    let stored = block::compress_into(value, &mut room[HEAD_BYTES..]).map(|bytes| HEAD_BYTES + bytes);
    match stored {
        Ok(stored) if stored <= length - length / 4 => {
            out.copy_within(end..end + stored, start);
            out.truncate(start + stored);
            true
        }
        _ => {
            out.truncate(end);
            false
        }
    }
}

/// How many bytes a compressed value has without compression.
///
/// # Errors
/// Its bytes are damaged.
pub(super) fn expanded_bytes(stored: &[u8]) -> Result<usize> {
    let (head, block) = stored.split_first_chunk().ok_or_else(|| malformed("a compressed value is too short"))?;
    let head = u32::from_le_bytes(*head);
    let length = (head & COMPRESSED_BYTES_MAX as u32) as usize;
    if head >> LENGTH_BITS != LZ4 {
        return Err(malformed("a value is compressed by an unknown method"));
    }
    if length > block.len().saturating_mul(EXPANSION_MAX) {
        return Err(malformed("a compressed value is longer than its bytes can give"));
    }
    Ok(length)
}

/// The value of compressed bytes.
///
/// # Errors
/// The bytes are damaged.
pub(super) fn expand(stored: &[u8]) -> Result<Vec<u8>> {
    let mut value = vec![0; expanded_bytes(stored)?];
    match block::decompress_into(&stored[HEAD_BYTES..], &mut value) {
        Ok(length) if length == value.len() => Ok(value),
        Ok(_) => Err(malformed("a compressed value is shorter than it says")),
        Err(_) => Err(malformed("a compressed value cannot be decompressed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use colibri_types::SqlState;

    fn compressed(value: &[u8]) -> Option<Vec<u8>> {
        let mut out = b"before".to_vec();
        out.extend_from_slice(value);
        let is_compressed = compress_tail(&mut out, 6);
        assert_eq!(&out[..6], b"before");
        if !is_compressed {
            assert_eq!(&out[6..], value, "what is not compressed stays as it is");
        }
        is_compressed.then(|| out.split_off(6))
    }

    #[test]
    fn values_come_back_and_short_or_random_ones_stay_as_they_are() {
        let mut random = fastrand::Rng::with_seed(7);
        for length in (0..4_000).step_by(7).chain([100_000, 1 << 20]) {
            let letters: Vec<u8> = (0..length).map(|at| b'a' + (at % 7) as u8 + random.u8(0..2)).collect();
            let stored = compressed(&letters);
            assert_eq!(stored.is_some(), length >= COMPRESSED_BYTES_MIN, "{length}");
            if let Some(stored) = stored {
                assert!(stored.len() <= length - length / 4);
                assert_eq!(expand(&stored).unwrap(), letters);
            }
            let noise: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            assert!(compressed(&noise).is_none(), "{length}");
        }
    }

    #[test]
    fn damaged_blocks_are_errors_and_take_no_more_memory_than_their_bytes_can_give() {
        let mut random = fastrand::Rng::with_seed(8);
        let value: Vec<u8> = (0..3_000).map(|at| (at / 9) as u8).collect();
        let stored = compressed(&value).unwrap();
        let mut found = 0;
        for _ in 0..20_000 {
            let mut bad = stored.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bad.len());
                bad[at] = random.u8(..);
            }
            bad.truncate(random.usize(..=bad.len()));
            match expand(&bad) {
                Ok(value) => assert!(value.len() <= 255 * bad.len()),
                Err(error) => {
                    found += 1;
                    assert_eq!(error.state(), SqlState::DATA_CORRUPTED);
                }
            }
        }
        assert!(found > 10_000, "{found}");
        // The length alone is damaged: 1 GiB is not taken for a few bytes.
        let mut bad = stored;
        bad[..4].copy_from_slice(&(COMPRESSED_BYTES_MAX as u32).to_le_bytes());
        assert!(expand(&bad).is_err());
    }

    #[test]
    fn the_bytes_never_change() {
        // 600 times `a`, as LZ4's block format has it: a literal, a match of 594 bytes at distance
        // 1, and 5 literals at the end, which the format asks for.
        let stored = [0x58, 2, 0, 0, 0x1f, b'a', 1, 0, 255, 255, 65, 0x50, b'a', b'a', b'a', b'a', b'a'];
        assert_eq!(expand(&stored).unwrap(), [b'a'; 600]);
    }
}

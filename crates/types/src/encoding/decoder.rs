//! Bytes that come in pieces, as text.

use encoding_rs::DecoderResult;

use super::names::Tables;
use super::{Encoding, single};
use crate::error::{Error, Result};
use crate::pieces::{self, Pace};

/// Turns bytes that come in pieces into UTF-8: a character may be spread over two of them.
pub struct Decoder {
    encoding: Encoding,
    /// Of encodings with more than one byte a character.
    many: Option<encoding_rs::Decoder>,
    /// Of the family EUC: the first byte of a character has come, the second has not.
    is_within: bool,
    /// The last bytes of what came before, for the report of a character that goes on behind them.
    before: Vec<u8>,
}

/// In encodings of the family EUC, the least byte of characters that are not ASCII.
pub(super) const EUC_MIN: u8 = 0xa1;

/// The most bytes that a report shows of what came before.
const BEFORE_BYTES_MAX: usize = 4;

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Decoder").field(&self.encoding).finish()
    }
}

impl Decoder {
    /// One at the beginning of a text.
    ///
    /// # Errors
    /// 0A000 if the encoding cannot be converted.
    pub fn new(encoding: Encoding) -> Result<Self> {
        encoding.expect_converted()?;
        let many = match encoding.known().tables {
            Tables::Many(tables) | Tables::Euc(tables) => Some(tables.new_decoder_without_bom_handling()),
            Tables::Single(_) | Tables::None | Tables::Missing => None,
        };
        Ok(Self { encoding, many, is_within: false, before: Vec::new() })
    }

    /// Appends what the next bytes are, but for a character that is not whole yet.
    ///
    /// # Errors
    /// 22021, 22P05. The decoder is of no more use then.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        for piece in pieces::of_bytes(bytes, Pace::Computed) {
            self.push_piece(piece?, false, out)?;
        }
        Ok(())
    }

    /// The bytes have ended.
    ///
    /// # Errors
    /// 22021 in the middle of a character.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.push_piece(&[], true, out)
    }

    fn push_piece(&mut self, bytes: &[u8], is_last: bool, out: &mut Vec<u8>) -> Result<()> {
        let encoding = self.encoding;
        match encoding.known().tables {
            Tables::None | Tables::Missing => {
                out.extend_from_slice(bytes);
                return Ok(());
            }
            Tables::Single(which) => {
                let table = single::table(which);
                out.reserve(bytes.len());
                let mut utf8 = [0; 4];
                for byte in bytes {
                    let Some(char) = table.char_of(*byte) else { return Err(encoding.unknown(&[*byte])) };
                    out.extend_from_slice(char.encode_utf8(&mut utf8).as_bytes());
                }
                return Ok(());
            }
            Tables::Euc(_) => {
                for (at, &byte) in bytes.iter().enumerate() {
                    let is_upper = byte >= EUC_MIN;
                    if !is_upper && (self.is_within || !byte.is_ascii()) {
                        let from = if self.is_within { at.saturating_sub(1) } else { at };
                        return Err(encoding.invalid(&bytes[from..=at]));
                    }
                    self.is_within = is_upper && !self.is_within;
                }
            }
            Tables::Many(_) => {}
        }
        let Some(decoder) = &mut self.many else { return Err(Error::internal("an encoding without a decoder")) };
        let mut from = 0;
        loop {
            let wanted = decoder.max_utf8_buffer_length_without_replacement(bytes.len() - from);
            let start = out.len();
            out.resize(start + wanted.unwrap_or(4 * (bytes.len() - from) + 16), 0);
            let (result, read, written) =
                decoder.decode_to_utf8_without_replacement(&bytes[from..], &mut out[start..], is_last);
            out.truncate(start + written);
            from += read;
            match result {
                DecoderResult::OutputFull => {}
                DecoderResult::InputEmpty => {
                    self.before.extend_from_slice(&bytes[bytes.len().saturating_sub(BEFORE_BYTES_MAX)..]);
                    let surplus = self.before.len().saturating_sub(BEFORE_BYTES_MAX);
                    self.before.drain(..surplus);
                    return Ok(());
                }
                DecoderResult::Malformed(wrong, behind) => {
                    let seen = [&self.before[..], &bytes[..from]].concat();
                    let end = seen.len().saturating_sub(behind.into());
                    let start = end.saturating_sub(wrong.into());
                    return Err(encoding.invalid(&seen[start..end]));
                }
            }
        }
    }
}

//! Encodings of texts, by PostgreSQL's names and numbers.
//!
//! Texts are UTF-8 everywhere but at the borders: a client may have chosen another encoding
//! (`client_encoding`), COPY may read or write one, and `convert_from()` and its kin are given one.
//!
//! | module | holds |
//! | --- | --- |
//! | `names` | the list: names, other names, numbers, how many bytes a character has |
//! | `single` | encodings of one byte a character: a table of 128 characters each |
//! | `decoder`, this one | bytes to text, at once and in pieces; text to bytes |
//!
//! Values as clients send and receive them are the business of [`crate::client_values`].
//!
//! Tables come from `encoding_rs`, which has those of browsers. Where PostgreSQL's differ, these
//! are PostgreSQL's for encodings of one byte (`single`). Of the others `EUC_JP` and `SJIS`, `BIG5`,
//! `GBK`, `UHC` and `GB18030` are as browsers have them: a few characters among thousands have
//! another code, or none. `EUC_TW`, `EUC_JIS_2004`, `SHIFT_JIS_2004`, `JOHAB` and `MULE_INTERNAL`
//! are known by name, and cannot be converted.

mod decoder;
mod names;
mod single;

use std::borrow::Cow;
use std::fmt;

pub use decoder::Decoder;

use crate::error::{Error, Result, SqlState};
use crate::pieces::{self, Pace};
use names::{KNOWN, Tables};

/// A character has no code in the encoding wanted.
const UNTRANSLATABLE: SqlState = SqlState("22P05");

/// An encoding that PostgreSQL knows: its number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Encoding(u8);

impl Encoding {
    /// Whatever bytes: nothing is converted.
    pub const SQL_ASCII: Self = Self(0);
    /// What texts are in here.
    pub const UTF8: Self = Self(6);

    /// By one of its names: case, and all but letters and digits, do not count.
    pub fn named(name: &str) -> Option<Self> {
        names::find(name).map(Self)
    }

    /// By PostgreSQL's number.
    pub fn numbered(number: i64) -> Option<Self> {
        let number = u8::try_from(number).ok()?;
        KNOWN.get(usize::from(number)).map(|_| Self(number))
    }

    /// PostgreSQL's number.
    pub fn number(self) -> i64 {
        self.0.into()
    }

    /// PostgreSQL's name.
    pub fn name(self) -> &'static str {
        self.known().name
    }

    /// The most bytes that a character has.
    pub fn bytes_max(self) -> i64 {
        self.known().bytes_max.into()
    }

    fn known(self) -> &'static names::Known {
        &KNOWN[usize::from(self.0)]
    }

    /// Texts have the same bytes in it as here, so that nothing is to be converted.
    pub fn is_as_here(self) -> bool {
        matches!(self.known().tables, Tables::None)
    }

    /// Whether there is a conversion.
    pub fn is_converted(self) -> bool {
        !matches!(self.known().tables, Tables::Missing)
    }

    /// Fails unless there is a conversion between this encoding and UTF-8.
    ///
    /// # Errors
    /// 0A000.
    pub fn expect_converted(self) -> Result<()> {
        if self.is_converted() {
            return Ok(());
        }
        let message = format!("conversion between {} and UTF8 is not supported", self.name());
        Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    }

    /// The text that bytes in this encoding are.
    ///
    /// # Errors
    /// 22021 if the bytes are none in this encoding, 22P05 if UTF-8 has no such character; 0A000.
    pub fn decode(self, bytes: &[u8]) -> Result<Cow<'_, str>> {
        // ASCII is the same in all of them.
        if let Some(text) = (!self.is_as_here()).then(|| as_ascii(bytes)).flatten() {
            return Ok(Cow::Borrowed(text));
        }
        if self.is_as_here() {
            pieces::pass(bytes.len(), Pace::Read)?;
            return std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|error| {
                let at = &bytes[error.valid_up_to()..];
                // As long as its first byte says, or what there is of that.
                let length = match at[0] {
                    0xf0.. => 4,
                    0xe0.. => 3,
                    0xc0.. => 2,
                    _ => 1,
                };
                Self::UTF8.invalid(&at[..at.len().min(length)])
            });
        }
        let (mut decoder, mut text) = (Decoder::new(self)?, Vec::new());
        decoder.push(bytes, &mut text)?;
        decoder.finish(&mut text)?;
        String::from_utf8(text).map(Cow::Owned).map_err(Error::internal)
    }

    /// The bytes of a text in this encoding.
    ///
    /// # Errors
    /// 22P05 if it lacks a character; 0A000.
    pub fn encode(self, text: &str) -> Result<Cow<'_, [u8]>> {
        if self.is_as_here() || text.is_ascii() {
            return Ok(Cow::Borrowed(text.as_bytes()));
        }
        self.encoded(text, |char| Err(self.missing(char))).map(Cow::Owned)
    }

    /// The bytes of a text in this encoding, with a question mark for each character that it lacks:
    /// for reports of errors, which have to arrive.
    pub fn encode_lossy(self, text: &str) -> Cow<'_, [u8]> {
        if self.is_as_here() || text.is_ascii() {
            return Cow::Borrowed(text.as_bytes());
        }
        Cow::Owned(self.encoded(text, |_| Ok(b'?')).unwrap_or_default())
    }

    fn encoded(self, text: &str, otherwise: impl Fn(char) -> Result<u8>) -> Result<Vec<u8>> {
        self.expect_converted()?;
        let mut out = Vec::with_capacity(text.len());
        for piece in pieces::of_text(text, Pace::Computed) {
            self.append(piece?, &otherwise, &mut out)?;
        }
        Ok(out)
    }

    fn append(self, mut text: &str, otherwise: &impl Fn(char) -> Result<u8>, out: &mut Vec<u8>) -> Result<()> {
        let (encoding, is_euc) = match self.known().tables {
            Tables::Single(which) => {
                let table = single::table(which);
                for char in text.chars() {
                    out.push(match table.byte_of(char) {
                        Some(byte) => byte,
                        None => otherwise(char)?,
                    });
                }
                return Ok(());
            }
            Tables::Many(encoding) => (encoding, false),
            Tables::Euc(encoding) => (encoding, true),
            Tables::None | Tables::Missing => {
                out.extend_from_slice(text.as_bytes());
                return Ok(());
            }
        };
        if is_euc {
            // The tables are of a larger encoding, which has more characters.
            for char in text.chars() {
                if char.is_ascii() {
                    out.push(char as u8);
                    continue;
                }
                let mut utf8 = [0; 4];
                let (bytes, _, has_unmappable) = encoding.encode(char.encode_utf8(&mut utf8));
                if has_unmappable || bytes.iter().any(|&byte| byte < decoder::EUC_MIN) {
                    out.push(otherwise(char)?);
                } else {
                    out.extend_from_slice(&bytes);
                }
            }
            return Ok(());
        }
        let mut encoder = encoding.new_encoder();
        loop {
            let wanted = encoder.max_buffer_length_from_utf8_without_replacement(text.len());
            out.reserve(wanted.unwrap_or(text.len() * 4));
            let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(text, out, true);
            text = &text[read..];
            match result {
                encoding_rs::EncoderResult::InputEmpty => return Ok(()),
                encoding_rs::EncoderResult::OutputFull => {}
                encoding_rs::EncoderResult::Unmappable(char) => out.push(otherwise(char)?),
            }
        }
    }

    #[cold]
    fn missing(self, char: char) -> Error {
        let mut utf8 = [0; 4];
        let shown = hexadecimal(char.encode_utf8(&mut utf8).as_bytes());
        let message = format!(
            "character with byte sequence {shown} in encoding \"UTF8\" has no equivalent in encoding \"{}\"",
            self.name()
        );
        Error::new(UNTRANSLATABLE, message)
    }

    #[cold]
    fn unknown(self, bytes: &[u8]) -> Error {
        let message = format!(
            "character with byte sequence {} in encoding \"{}\" has no equivalent in encoding \"UTF8\"",
            hexadecimal(bytes),
            self.name()
        );
        Error::new(UNTRANSLATABLE, message)
    }

    #[cold]
    fn invalid(self, bytes: &[u8]) -> Error {
        let message = format!("invalid byte sequence for encoding \"{}\": {}", self.name(), hexadecimal(bytes));
        Error::new(SqlState::BAD_CHARACTER, message)
    }
}

impl fmt::Debug for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Default for Encoding {
    fn default() -> Self {
        Self::UTF8
    }
}

fn as_ascii(bytes: &[u8]) -> Option<&str> {
    bytes.is_ascii().then(|| std::str::from_utf8(bytes).ok()).flatten()
}

fn hexadecimal(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    bytes.join(" ")
}

#[cfg(test)]
mod tests;

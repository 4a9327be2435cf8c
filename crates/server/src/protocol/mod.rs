//! PostgreSQL's protocol, version 3.0: bytes to messages and messages to bytes. Nothing in here
//! reads or writes a socket.
//!
//! ```text
//! before the start          | length i32 | code i32 | … |           length counts itself
//! after it     | kind u8 | length i32 | body … |                    length counts itself, not the kind
//! ```
//!
//! Invariants: whatever bytes come, the outcome is a message or an error, never a panic; no length
//! that a client names makes anything be allocated before the bytes are there.
//!
//! | file | holds |
//! | --- | --- |
//! | `frontend` | what clients send |
//! | `startup` | what they send first |
//! | `backend` | what they are sent |
//! | `recode` | messages of clients whose texts are not UTF-8 |

pub(crate) mod backend;
pub(crate) mod frontend;
pub(crate) mod recode;
pub(crate) mod startup;

use std::ffi::CStr;

use colibri_sql::{Error, SqlState};

/// PostgreSQL's `protocol_violation`.
pub(crate) const PROTOCOL_VIOLATION: SqlState = SqlState("08P01");

#[cold]
pub(crate) fn violation(message: impl Into<String>) -> Error {
    Error::new(PROTOCOL_VIOLATION, message)
}

/// Takes a message's body apart. Every read says whether the bytes were there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        match self.rest.split_at_checked(count) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => Err(violation("insufficient data left in message")),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        match self.rest.split_first_chunk() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(*bytes)
            }
            None => Err(violation("insufficient data left in message")),
        }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn i16(&mut self) -> Result<i16, Error> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Error> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// How many of something follow.
    pub(crate) fn count(&mut self) -> Result<usize, Error> {
        // PostgreSQL reads these without a sign, so that there may be 65,535 parameters.
        Ok(usize::from(self.i16()? as u16))
    }

    /// A string that ends with a zero.
    pub(crate) fn string(&mut self) -> Result<&'a str, Error> {
        let Ok(string) = CStr::from_bytes_until_nul(self.rest) else {
            return Err(violation("invalid string in message"));
        };
        let text = string.to_bytes();
        self.rest = &self.rest[text.len() + 1..];
        std::str::from_utf8(text).map_err(|error| {
            let byte = text.get(error.valid_up_to()).copied().unwrap_or_default();
            let message = format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}");
            Error::new(SqlState::BAD_CHARACTER, message)
        })
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Says that there is nothing more.
    pub(crate) fn end(&self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(violation("invalid message format")) }
    }
}

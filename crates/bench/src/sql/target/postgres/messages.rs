//! Messages of a server: frames and their contents, read in place.
//!
//! ```text
//! frame   tag u8 │ length u32, itself included │ body
//! ```
//!
//! Invariants
//! - Bytes of a server are not trusted: malformed ones give an error or `None`.

use super::{BINARY_FORMAT, format_of, read_cell};
use crate::sql::target::batch::AnswerWriter;
use crate::sql::target::{Cell, Failure};

/// Frames are shorter than this; rows of these workloads are far shorter.
const FRAME_MAX: usize = 256 << 20;
const READ_BYTES: usize = 16 << 10;
const HEADER: usize = 5;

/// A frame in the buffer of the [`Reader`], until the next is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub(super) tag: u8,
    start: usize,
    end: usize,
}

/// Bytes as they came.
#[derive(Debug, Default)]
pub(super) struct Reader {
    buffer: Vec<u8>,
    /// The end of the frames that were taken, and the end of the bytes that have come.
    taken: usize,
    filled: usize,
}

impl Reader {
    /// The next frame that has arrived completely.
    pub(super) fn next(&mut self) -> Result<Option<Message>, String> {
        let there = &self.buffer[self.taken..self.filled];
        let [tag, a, b, c, d, ..] = *there else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if !(4..=FRAME_MAX).contains(&length) {
            return Err(format!("the server sent a frame of {length} bytes: it does not speak PostgreSQL's protocol"));
        }
        if there.len() <= length {
            return Ok(None);
        }
        let start = self.taken + HEADER;
        let end = self.taken + 1 + length;
        self.taken = end;
        Ok(Some(Message { tag, start, end }))
    }

    pub(super) fn body(&self, message: &Message) -> &[u8] {
        &self.buffer[message.start..message.end]
    }

    /// Space to read into. It removes the frames that were taken.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.taken > 0 {
            self.buffer.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
        }
        if self.buffer.len() < self.filled + READ_BYTES {
            self.buffer.resize((self.filled + READ_BYTES).next_power_of_two(), 0);
        }
        &mut self.buffer[self.filled..]
    }

    pub(super) fn filled(&mut self, count: usize) {
        self.filled += count;
    }
}

/// Takes a number off the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

/// A text up to its zero.
pub(super) fn text(body: &[u8]) -> &str {
    let end = body.iter().position(|&byte| byte == 0).unwrap_or(body.len());
    std::str::from_utf8(&body[..end]).unwrap_or_default()
}

/// An ErrorResponse.
pub(super) fn failure(body: &[u8]) -> Failure {
    let (mut state, mut message, mut detail) = ("XX000".to_owned(), String::new(), String::new());
    let mut rest = body;
    // A zero ends the list.
    while let [field, tail @ ..] = rest
        && *field != 0
    {
        let value = text(tail);
        match field {
            b'C' => value.clone_into(&mut state),
            b'M' => value.clone_into(&mut message),
            b'D' => detail = format!(" ({value})"),
            _ => {}
        }
        let length = tail.iter().position(|&byte| byte == 0).map_or(tail.len(), |end| end + 1);
        rest = &tail[length..];
    }
    Failure::sql(&state, message + &detail)
}

/// A ParameterDescription.
pub(super) fn parameter_types(mut body: &[u8]) -> Vec<u32> {
    let count = take(&mut body).map_or(0, u16::from_be_bytes);
    (0..count).map_while(|_| take(&mut body).map(u32::from_be_bytes)).collect()
}

/// The types of a RowDescription.
pub(super) fn column_types(mut body: &[u8]) -> Vec<u32> {
    let count = take(&mut body).map_or(0, u16::from_be_bytes);
    let column = |_| {
        let name = body.iter().position(|&byte| byte == 0)?;
        body = &body[name + 1..];
        let [_, _, _, _, _, _, a, b, c, d, ..] = *take::<18>(&mut body)?.as_slice() else { return None };
        Some(u32::from_be_bytes([a, b, c, d]))
    };
    (0..count).map_while(column).collect()
}

fn cells(mut body: &[u8], columns: &[u32], is_binary: impl Fn(u32) -> bool, out: &mut AnswerWriter<'_>) {
    let count = take(&mut body).map_or(0, u16::from_be_bytes);
    let mut width = 0;
    for column in 0..usize::from(count) {
        let Some(length) = take(&mut body).map(i32::from_be_bytes) else { break };
        let ty = columns.get(column).copied().unwrap_or_default();
        match usize::try_from(length).ok().and_then(|length| body.split_at_checked(length)) {
            Some((value, rest)) => {
                body = rest;
                read_cell(value, ty, is_binary(ty), out);
            }
            None => out.cell(Cell::Null),
        }
        width += 1;
    }
    out.end_row(width);
}

/// A DataRow of a prepared statement.
pub(super) fn row(body: &[u8], columns: &[u32], out: &mut AnswerWriter<'_>) {
    cells(body, columns, |ty| format_of(ty) == BINARY_FORMAT, out);
}

/// A DataRow of a statement that was sent as text.
pub(super) fn text_row(body: &[u8], columns: &[u32], out: &mut AnswerWriter<'_>) {
    cells(body, columns, |_| false, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::target::{Batch, Kind};

    fn feed(reader: &mut Reader, bytes: &[u8]) {
        reader.room()[..bytes.len()].copy_from_slice(bytes);
        reader.filled(bytes.len());
    }

    #[test]
    fn frames_come_in_pieces_of_any_size() {
        let stream = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
        for piece in 1..stream.len() {
            let mut reader = Reader::default();
            let mut found = Vec::new();
            for bytes in stream.chunks(piece) {
                feed(&mut reader, bytes);
                while let Some(message) = reader.next().unwrap() {
                    found.push((message.tag, reader.body(&message).to_vec()));
                }
            }
            assert_eq!(found, [(b'C', b"SELECT 1\0".to_vec()), (b'Z', b"I".to_vec())], "pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        let mut reader = Reader::default();
        feed(&mut reader, b"HTTP/1.1 400 Bad Request");
        assert!(reader.next().unwrap_err().contains("does not speak"));
        let mut reader = Reader::default();
        feed(&mut reader, b"Z\0\0\0\0");
        assert!(reader.next().is_err());
    }

    #[test]
    fn rows_and_errors_that_are_cut_off_are_read_as_far_as_they_go() {
        let full = b"\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff";
        for end in 0..=full.len() {
            let mut batch = Batch::default();
            row(&full[..end], &[23, 23], &mut batch.begin_answer());
            assert_eq!(batch.answer(0).rows(), 1);
            if end >= 10 {
                assert_eq!(batch.answer(0).int(0, 0), Some(7));
            }
        }
        let error = b"SERROR\0C40001\0Mtoo bad\0\0";
        for end in 0..=error.len() {
            let _never_panics = failure(&error[..end]);
        }
        assert_eq!((failure(error).state(), failure(error).kind()), ("40001", Kind::Conflict));
        let columns = b"\0\x01name\0\0\0\0\0\0\0\0\0\0\x17\0\x04\0\0\0\0\0\0";
        assert_eq!(column_types(columns), [23]);
        assert_eq!(column_types(&columns[..9]), Vec::<u32>::new());
    }
}

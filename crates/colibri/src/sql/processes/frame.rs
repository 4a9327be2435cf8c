//! Bytes of messages: numbers little-endian, texts and byte strings behind their length.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use colibri_sql::SqlState;
use rustix::net::SendFlags;

use crate::sql::{Error, Result};

/// Room for what comes in one call.
const READ_BYTES: usize = 64 << 10;
/// A buffer that was larger is given back when it is empty.
const KEPT_BYTES_MAX: usize = 1 << 20;

#[cold]
pub(super) fn damaged() -> Error {
    Error::new(SqlState("08P01"), "a message between processes on this database is damaged")
}

/// A frame that is being written.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn new(kind: u8) -> Self {
        Self(vec![0, 0, 0, 0, kind])
    }

    pub(super) fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    pub(super) fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A count or a length; what is too large makes the frame too large as well.
    pub(super) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn optional(&mut self, text: Option<&str>) {
        self.u8(text.is_some().into());
        if let Some(text) = text {
            self.text(text);
        }
    }

    /// The bytes, for what writes its own.
    pub(super) fn raw(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// The frame, whole.
    ///
    /// # Errors
    /// It is larger than a frame may be.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        let length = u32::try_from(self.0.len() - 4).map_err(|_| {
            Error::new(SqlState::PROGRAM_LIMIT, "a message between processes would have more than 4 GB")
        })?;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        Ok(self.0)
    }
}

/// What is left of a message.
pub(super) struct Reader<'b>(pub(super) &'b [u8]);

impl<'b> Reader<'b> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32> {
        self.take().map(i32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// A number of things that take a byte each at the least.
    pub(super) fn count(&mut self) -> Result<usize> {
        let count = self.u32()? as usize;
        if count > self.0.len() { Err(damaged()) } else { Ok(count) }
    }

    pub(super) fn bytes(&mut self) -> Result<&'b [u8]> {
        let length = self.u32()? as usize;
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn text(&mut self) -> Result<&'b str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| damaged())
    }

    pub(super) fn optional(&mut self) -> Result<Option<&'b str>> {
        Ok(if self.u8()? == 0 { None } else { Some(self.text()?) })
    }
}

/// What has come from a socket and was not taken yet.
#[derive(Default)]
pub(super) struct Incoming {
    buffer: Vec<u8>,
    /// Where the next frame begins.
    start: usize,
}

impl Incoming {
    /// The next frame without its length, if all of it is here.
    pub(super) fn next_frame(&mut self) -> Option<Vec<u8>> {
        let rest = &self.buffer[self.start..];
        let (length, rest) = rest.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize;
        let frame = rest.get(..length)?.to_vec();
        self.start += 4 + length;
        if self.start == self.buffer.len() {
            self.start = 0;
            self.buffer.clear();
            if self.buffer.capacity() > KEPT_BYTES_MAX {
                self.buffer = Vec::new();
            }
        }
        Some(frame)
    }

    /// Reads what there is, and waits if there is nothing; gives how many bytes, 0 at the end.
    pub(super) fn fill(&mut self, mut stream: &UnixStream) -> io::Result<usize> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let filled = self.buffer.len();
        let wanted = self.buffer.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize + 4);
        // A large frame is not read in many small pieces, nor is its length believed.
        let room = READ_BYTES.max(wanted.saturating_sub(filled).min(16 * READ_BYTES));
        self.buffer.resize(filled + room, 0);
        let read = loop {
            match stream.read(&mut self.buffer[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(filled + read.as_ref().copied().unwrap_or(0));
        read
    }

    /// Waits for the next frame; `None` at the end.
    pub(super) fn wait(&mut self, stream: &UnixStream) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(frame) = self.next_frame() {
                return Ok(Some(frame));
            }
            if self.fill(stream)? == 0 {
                return Ok(None);
            }
        }
    }
}

/// Writes all of some bytes. A program that has not ignored SIGPIPE gets an error as well.
pub(super) fn send(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::net::send(stream, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

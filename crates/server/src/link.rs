//! A connection's bytes: socket, encryption, received bytes that are not parsed yet, bytes to send.
//!
//! ```text
//! socket ─► the thread's scratch ─► (TLS) ─► inbox ─► messages
//! socket ◄────────────────────────── (TLS) ◄─ out   ◄─ messages
//! ```
//!
//! Invariants
//! - A connection that waits for its client holds no more than [`KEPT_BYTES`] for each direction:
//!   it reads into the thread's memory.
//! - Nothing is written before [`Link::poll_flush`]: a request's answer is one write, however many
//!   messages it has.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use colibri_runtime::net::{TcpStream, UnixStream};
use colibri_sql::Error;

use crate::protocol::frontend::{self, HEADER_BYTES, Header};
use crate::protocol::startup;
use crate::tls::Tls;

/// The buffer that a thread reads into.
const SCRATCH_BYTES: usize = 64 << 10;
/// The largest buffers that a connection keeps while it waits for its client.
const KEPT_BYTES: usize = 1 << 10;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The addresses of a client's connection, unless it is a Unix socket.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ends {
    pub(crate) client: Option<SocketAddr>,
    pub(crate) server: Option<SocketAddr>,
}

/// The socket underneath.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Socket {
    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream, _) => stream.poll_read(cx, buffer),
            Self::Unix(stream) => stream.poll_read(cx, buffer),
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream, _) => stream.poll_write(cx, bytes),
            Self::Unix(stream) => stream.poll_write(cx, bytes),
        }
    }
}

/// Received bytes that are not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    taken: usize,
}

impl Inbox {
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    pub(crate) fn take(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.bytes.len());
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        // Bytes that were taken make room before more are read.
        if self.taken > 0 && self.bytes.capacity() - self.bytes.len() < bytes.len() {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }
}

/// A connection's bytes.
#[derive(Debug)]
pub(crate) struct Link {
    socket: Socket,
    tls: Option<Box<Tls>>,
    pub(crate) inbox: Inbox,
    /// Bytes to send.
    pub(crate) out: Vec<u8>,
    /// The number of bytes of `out`, or of its encrypted form, that are sent already.
    sent: usize,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    is_over: bool,
}

impl Link {
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            socket,
            tls: None,
            inbox: Inbox::default(),
            out: Vec::new(),
            sent: 0,
            bytes_in: 0,
            bytes_out: 0,
            is_over: false,
        }
    }

    /// The client's address; `None` for Unix sockets.
    pub(crate) fn client(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(_, address) => Some(*address),
            Socket::Unix(_) => None,
        }
    }

    /// The two ends of the connection.
    pub(crate) fn ends(&self) -> Ends {
        let server = match &self.socket {
            Socket::Tcp(stream, _) => stream.local_addr().ok(),
            Socket::Unix(_) => None,
        };
        Ends { client: self.client(), server }
    }

    /// From now on everything is encrypted.
    pub(crate) fn encrypt(&mut self, tls: Tls) {
        self.tls = Some(Box::new(tls));
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
    }

    /// Reads available bytes, at most as many as the thread's buffer holds; false at the end.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.is_over {
            return Poll::Ready(Ok(false));
        }
        if self.tls.as_ref().is_some_and(|tls| !tls.sealed.is_empty()) {
            // The rest of a handshake: it may be what the client waits for.
            _ = self.poll_send(cx)?;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.resize(SCRATCH_BYTES, 0);
            loop {
                let read = ready!(self.socket.poll_read(cx, scratch))?;
                self.bytes_in += read as u64;
                if read == 0 {
                    self.is_over = true;
                    return Poll::Ready(Ok(false));
                }
                let Some(tls) = &mut self.tls else {
                    self.inbox.push(&scratch[..read]);
                    return Poll::Ready(Ok(true));
                };
                let inbox = &mut self.inbox;
                let (is_news, is_over) = tls.receive(&scratch[..read], |plain| inbox.push(plain))?;
                self.is_over |= is_over;
                if is_news || is_over {
                    return Poll::Ready(Ok(is_news));
                }
                // A handshake's answer has to go out before more can come.
                while let Poll::Ready(progress) = self.poll_send(cx)? {
                    if !progress {
                        break;
                    }
                }
            }
        })
    }

    /// Waits for more bytes; false at the end.
    pub(crate) async fn fill(&mut self) -> io::Result<bool> {
        poll_fn(|cx| self.poll_fill(cx)).await
    }

    /// Sends a part of the bytes; false if there are none.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let bytes = match &mut self.tls {
            Some(tls) => {
                tls.seal(&mut self.out)?;
                &mut tls.sealed
            }
            None => &mut self.out,
        };
        if bytes.is_empty() {
            return Poll::Ready(Ok(false));
        }
        match ready!(self.socket.poll_write(cx, &bytes[self.sent..]))? {
            0 => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            wrote => {
                self.sent += wrote;
                self.bytes_out += wrote as u64;
                if self.sent == bytes.len() {
                    bytes.clear();
                    self.sent = 0;
                }
                Poll::Ready(Ok(true))
            }
        }
    }

    /// Sends all bytes.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while ready!(self.poll_send(cx))? {}
        Poll::Ready(Ok(()))
    }

    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Frees buffers that have grown for one message.
    pub(crate) fn shrink(&mut self) {
        for buffer in [&mut self.inbox.bytes, &mut self.out] {
            if buffer.capacity() > KEPT_BYTES && buffer.len() < KEPT_BYTES {
                buffer.shrink_to(KEPT_BYTES);
            }
        }
        if let Some(tls) = &mut self.tls
            && tls.sealed.is_empty()
        {
            tls.sealed.shrink_to(KEPT_BYTES);
        }
    }

    /// Waits for a whole startup packet; `None` if the client goes away before.
    pub(crate) async fn startup_packet(&mut self) -> io::Result<Result<Option<Vec<u8>>, Error>> {
        loop {
            match startup::length(self.inbox.unread()) {
                Err(error) => return Ok(Err(error)),
                Ok(Some(length)) if self.inbox.unread().len() >= length => {
                    let packet = self.inbox.unread()[4..length].to_vec();
                    self.inbox.take(length);
                    return Ok(Ok(Some(packet)));
                }
                Ok(_) => {
                    if !self.fill().await? {
                        return Ok(Ok(None));
                    }
                }
            }
        }
    }

    /// The next message, if all of it is there.
    ///
    /// # Errors
    /// 08P01 if the bytes are no message, or the message is too long.
    pub(crate) fn message(&self, bytes_max: usize) -> Result<Option<Header>, Error> {
        let unread = self.inbox.unread();
        let header = frontend::header(unread, bytes_max)?;
        Ok(header.filter(|header| unread.len() - HEADER_BYTES >= header.body_bytes))
    }

    /// Waits for a whole message; `None` if the client goes away before.
    pub(crate) async fn wait_message(&mut self, bytes_max: usize) -> io::Result<Result<Option<Header>, Error>> {
        loop {
            match self.message(bytes_max) {
                Ok(None) => {
                    if !self.fill().await? {
                        return Ok(Ok(None));
                    }
                }
                done => return Ok(done),
            }
        }
    }

    /// Puts bytes back in front of those that are not taken yet.
    pub(crate) fn put_back(&mut self, bytes: &[u8]) {
        let rest = self.inbox.unread().to_vec();
        self.inbox = Inbox::default();
        self.inbox.push(bytes);
        self.inbox.push(&rest);
    }

    /// Bytes that are not sent yet.
    pub(crate) fn unsent(&self) -> usize {
        let sealed = self.tls.as_ref().map_or(0, |tls| tls.sealed.len());
        (self.out.len() + sealed).saturating_sub(self.sent)
    }

    /// Ends the sending direction, when all is sent.
    pub(crate) fn end_sending(&self) {
        if let Socket::Tcp(stream, _) = &self.socket {
            // If it is not connected any more, reading tells.
            _ = stream.shutdown(std::net::Shutdown::Write);
        }
    }

    /// Sends what is left, and closes the sending direction.
    pub(crate) async fn close(&mut self) {
        // The client may have gone before.
        if self.flush().await.is_ok()
            && let Some(tls) = &mut self.tls
        {
            tls.say_goodbye();
            _ = self.flush().await;
        }
    }
}

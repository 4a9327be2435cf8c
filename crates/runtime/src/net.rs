//! Sockets: TCP and Unix-domain. The thread that finds a socket ready runs the task that waits for
//! it.
//!
//! ```text
//! Listener<T> ─ accept ─► Stream<T> ─ read, write, vectored
//!    T: std's TcpListener, UnixListener     T: std's TcpStream, UnixStream
//! ```
//!
//! Reads and writes are tried first, and wait only if the kernel says so. After a read that gives
//! less than asked for, or a write that takes less, the next one waits for an event without trying
//! first.
//!
//! **Marks.** A read may end early although more bytes are there, and no event comes for these.
//! There are two cases. A read ends before a byte that was sent as urgent (`MSG_OOB`), on both
//! kinds of sockets; the reactor knows of those. And on a Unix socket it ends behind bytes that
//! came with descriptors (`SCM_RIGHTS`), and between bytes of different senders if credentials are
//! asked for (`SO_PASSCRED`). Both show in the flags of `recvmsg`, since there is no room for what
//! came beside the bytes. So Unix sockets are read with `recvmsg`. Descriptors that come are
//! closed, and urgent bytes are left out.
//!
//! After the runtime has shut down no event is reported: what would have to wait fails. A future
//! that is dropped while it waits leaves nothing behind. A waker that was given to one of the
//! `poll` methods stays until there is an event, or the socket is dropped.
//!
//! Not here: names. Looking them up blocks; [`spawn_blocking`](crate::spawn_blocking) is for that.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::SocketAddr as UnixAddr;
use std::path::Path;
use std::task::{Context, Poll};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, ReturnFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    connect, recvmsg, socket_with,
};

use crate::reactor::{Direction, Done, Registered, Ticket};
use crate::runtime::Handle;

/// The kernel takes no more buffers in one call.
const BUFFERS_MAX: usize = 1_024;
const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// Accepts TCP connections.
pub type TcpListener = Listener<std::net::TcpListener>;
/// A TCP connection.
pub type TcpStream = Stream<std::net::TcpStream>;
/// Accepts connections at a path.
pub type UnixListener = Listener<std::os::unix::net::UnixListener>;
/// A connection within this machine.
pub type UnixStream = Stream<std::os::unix::net::UnixStream>;

/// Accepts connections.
#[derive(Debug)]
pub struct Listener<T: AsFd> {
    io: Registered<T>,
}

/// A connection. Any number of tasks may use it through a reference; those that read at the same
/// time share what comes.
#[derive(Debug)]
pub struct Stream<T: AsFd> {
    io: Registered<T>,
}

fn done(done: usize, asked: usize) -> Done<usize> {
    // Nothing at all is the end, which stays there to be read.
    if done == 0 || done == asked { Done::All(done) } else { Done::Partly(done) }
}

fn receive<T: Kind>(stream: &T, buffer: &mut [u8]) -> io::Result<Done<usize>> {
    let (read, may_be_more) = stream.receive(buffer)?;
    Ok(if may_be_more { Done::All(read) } else { done(read, buffer.len()) })
}

fn receive_vectored<T: Kind>(stream: &T, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Done<usize>> {
    let (read, may_be_more) = stream.receive_vectored(buffers)?;
    let asked = buffers.iter().take(BUFFERS_MAX).map(|buffer| buffer.len()).sum();
    Ok(if may_be_more { Done::All(read) } else { done(read, asked) })
}

fn send<T>(mut stream: &T, bytes: &[u8]) -> io::Result<Done<usize>>
where
    for<'a> &'a T: Write,
{
    Ok(done(stream.write(bytes)?, bytes.len()))
}

fn send_vectored<T>(mut stream: &T, buffers: &[IoSlice<'_>]) -> io::Result<Done<usize>>
where
    for<'a> &'a T: Write,
{
    let asked = buffers.iter().take(BUFFERS_MAX).map(|buffer| buffer.len()).sum();
    Ok(done(stream.write_vectored(buffers)?, asked))
}

mod kind {
    use super::*;

    /// A kind of socket, by how it is read. A read gives how many bytes there were, and whether
    /// there may be more even if those were fewer than there was room for.
    pub trait Kind: AsFd {
        fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, bool)>;
        fn receive_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<(usize, bool)>;
    }

    impl Kind for std::net::TcpStream {
        fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
            let mut stream = self;
            Ok((stream.read(buffer)?, false))
        }

        fn receive_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<(usize, bool)> {
            let mut stream = self;
            Ok((stream.read_vectored(buffers)?, false))
        }
    }

    impl Kind for std::os::unix::net::UnixStream {
        fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
            self.receive_vectored(&mut [IoSliceMut::new(buffer)])
        }

        fn receive_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<(usize, bool)> {
            let buffers_max = buffers.len().min(BUFFERS_MAX);
            let mut no_room = RecvAncillaryBuffer::default();
            let received = recvmsg(self, &mut buffers[..buffers_max], &mut no_room, RecvFlags::empty())?;
            Ok((received.bytes, received.flags.contains(ReturnFlags::CTRUNC)))
        }
    }
}

use kind::Kind;

impl<T: AsFd> Listener<T> {
    async fn accept_fd(&self) -> io::Result<OwnedFd> {
        let accept = |listener: &T| Ok(Done::All(accept_with(listener, FLAGS)?));
        self.io.attempt(Direction::Read, accept).await
    }
}

impl Listener<std::net::TcpListener> {
    /// Listens at an address; port 0 is any free one.
    ///
    /// # Errors
    /// If the system refuses, for example because somebody listens there.
    ///
    /// # Panics
    /// If this thread neither belongs to a runtime nor waits for one of its futures.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::from_std(std::net::TcpListener::bind(address)?)
    }

    /// Takes over a listener of the standard library.
    ///
    /// # Errors
    /// See [`TcpListener::bind`].
    ///
    /// # Panics
    /// See [`TcpListener::bind`].
    pub fn from_std(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { io: Registered::new(&Handle::current().shared.reactor, listener)? })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get().local_addr()
    }

    /// The next connection, and where it comes from.
    ///
    /// # Errors
    /// If the system refuses, for example for want of descriptors: the connection waits, and the
    /// listener goes on.
    ///
    /// # Panics
    /// See [`TcpListener::bind`].
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            let stream = std::net::TcpStream::from(self.accept_fd().await?);
            let address = match stream.peer_addr() {
                // The connection has gone before it was accepted, which is no reason to stop
                // accepting.
                Err(e) if e.kind() == io::ErrorKind::NotConnected => continue,
                address => address?,
            };
            return Ok((Stream { io: Registered::new(&Handle::current().shared.reactor, stream)? }, address));
        }
    }
}

impl Listener<std::os::unix::net::UnixListener> {
    /// Listens at a path, which has to be free, and stays when the listener has gone.
    ///
    /// # Errors
    /// If the system refuses.
    ///
    /// # Panics
    /// If this thread neither belongs to a runtime nor waits for one of its futures.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(std::os::unix::net::UnixListener::bind(path)?)
    }

    /// Takes over a listener of the standard library.
    ///
    /// # Errors
    /// If the system refuses.
    ///
    /// # Panics
    /// See [`UnixListener::bind`].
    pub fn from_std(listener: std::os::unix::net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { io: Registered::new(&Handle::current().shared.reactor, listener)? })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_addr(&self) -> io::Result<UnixAddr> {
        self.io.get().local_addr()
    }

    /// The next connection.
    ///
    /// # Errors
    /// See [`TcpListener::accept`].
    ///
    /// # Panics
    /// See [`TcpListener::bind`].
    pub async fn accept(&self) -> io::Result<UnixStream> {
        let stream = std::os::unix::net::UnixStream::from(self.accept_fd().await?);
        Ok(Stream { io: Registered::new(&Handle::current().shared.reactor, stream)? })
    }
}

/// Whether an error means that connecting is under way.
fn is_under_way(error: rustix::io::Errno) -> bool {
    // A Unix socket whose listener is busy says `AGAIN`. Then nothing is under way.
    error == rustix::io::Errno::INPROGRESS
}

impl Stream<std::net::TcpStream> {
    /// Connects to an address.
    ///
    /// # Errors
    /// If nobody listens there, or the system refuses.
    ///
    /// # Panics
    /// If this thread neither belongs to a runtime nor waits for one of its futures.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, FLAGS, None)?;
        let reactor = Handle::current().shared.reactor.clone();
        match connect(&socket, &address) {
            Ok(()) => return Ok(Self { io: Registered::new(&reactor, socket.into())? }),
            Err(e) if is_under_way(e) => {}
            Err(e) => return Err(e.into()),
        }
        let io = Registered::not_ready(&reactor, std::net::TcpStream::from(socket))?;
        poll_fn(|cx| io.poll_ready(Direction::Write, cx, &mut Ticket::Anonymous)).await?;
        match io.get().take_error()? {
            None => Ok(Self { io }),
            Some(e) => Err(e),
        }
    }

    /// Takes over a connection of the standard library.
    ///
    /// # Errors
    /// If the system refuses.
    ///
    /// # Panics
    /// See [`TcpStream::connect`].
    pub fn from_std(stream: std::net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { io: Registered::new(&Handle::current().shared.reactor, stream)? })
    }

    /// Whether small writes go out at once.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.io.get().set_nodelay(nodelay)
    }

    /// The other end's address.
    ///
    /// # Errors
    /// If it is no longer connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.get().peer_addr()
    }

    /// This end's address.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get().local_addr()
    }

    /// Ends one direction or both.
    ///
    /// # Errors
    /// If it is no longer connected.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.get().shutdown(how)
    }
}

impl Stream<std::os::unix::net::UnixStream> {
    /// Connects to a path.
    ///
    /// # Errors
    /// If nobody listens there, or does not keep up with accepting.
    ///
    /// # Panics
    /// If this thread neither belongs to a runtime nor waits for one of its futures.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        connect(&socket, &SocketAddrUnix::new(path.as_ref())?)?;
        Ok(Self { io: Registered::new(&Handle::current().shared.reactor, socket.into())? })
    }

    /// Takes over a connection of the standard library.
    ///
    /// # Errors
    /// If the system refuses.
    ///
    /// # Panics
    /// See [`UnixStream::connect`].
    pub fn from_std(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { io: Registered::new(&Handle::current().shared.reactor, stream)? })
    }

    /// Two ends of a connection.
    ///
    /// # Errors
    /// If the system refuses.
    ///
    /// # Panics
    /// See [`UnixStream::connect`].
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = std::os::unix::net::UnixStream::pair()?;
        Ok((Self::from_std(a)?, Self::from_std(b)?))
    }

    /// Ends one direction or both.
    ///
    /// # Errors
    /// If it is no longer connected.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.get().shutdown(how)
    }
}

impl<T: Kind> Stream<T>
where
    for<'a> &'a T: Write,
{
    /// Reads into `buffer` what is there, and gives how much; 0 at the end.
    ///
    /// # Errors
    /// If the connection has failed, or it would have to wait and the runtime has shut down.
    pub fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io.poll(Direction::Read, cx, |stream| receive(stream, buffer))
    }

    /// See [`Stream::poll_read`].
    pub fn poll_read_vectored(&self, cx: &mut Context<'_>, buffers: &mut [IoSliceMut<'_>]) -> Poll<io::Result<usize>> {
        self.io.poll(Direction::Read, cx, |stream| receive_vectored(stream, buffers))
    }

    /// Writes some of `bytes`, and gives how many.
    ///
    /// # Errors
    /// If the connection has failed, or it would have to wait and the runtime has shut down.
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.io.poll(Direction::Write, cx, |stream| send(stream, bytes))
    }

    /// See [`Stream::poll_write`].
    pub fn poll_write_vectored(&self, cx: &mut Context<'_>, buffers: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.io.poll(Direction::Write, cx, |stream| send_vectored(stream, buffers))
    }

    /// Reads into `buffer` what is there, and gives how much; 0 at the end.
    ///
    /// # Errors
    /// See [`Stream::poll_read`].
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.io.attempt(Direction::Read, |stream: &T| receive(stream, buffer)).await
    }

    /// Fills the whole of `buffer`.
    ///
    /// # Errors
    /// If the connection has failed, or ended before that.
    pub async fn read_exact(&self, buffer: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        Ok(())
    }

    /// Reads into several buffers, one after another.
    ///
    /// # Errors
    /// If the connection has failed.
    pub async fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.io.attempt(Direction::Read, |stream: &T| receive_vectored(stream, buffers)).await
    }

    /// Writes some of `bytes`, and gives how many.
    ///
    /// # Errors
    /// If the connection has failed.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.io.attempt(Direction::Write, |stream: &T| send(stream, bytes)).await
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// If the connection has failed; some may have been written.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                wrote => bytes = &bytes[wrote..],
            }
        }
        Ok(())
    }

    /// Writes some of several buffers, one after another, and gives how many bytes.
    ///
    /// # Errors
    /// If the connection has failed.
    pub async fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.io.attempt(Direction::Write, |stream: &T| send_vectored(stream, buffers)).await
    }
}

impl<T: AsFd> AsFd for Stream<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get().as_fd()
    }
}

impl<T: AsFd> AsFd for Listener<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get().as_fd()
    }
}

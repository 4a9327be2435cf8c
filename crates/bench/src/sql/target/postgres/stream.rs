//! A socket of either kind.

use std::io;
use std::net::ToSocketAddrs;
use std::task::{Context, Poll};

use colibri_runtime::net::{TcpStream, UnixStream};
use colibri_runtime::spawn_blocking;

use super::Address;

pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(super) async fn connect(address: &Address) -> io::Result<Self> {
        if let Some(path) = address.socket() {
            return Ok(Self::Unix(UnixStream::connect(path)?));
        }
        let (host, port) = (address.host.clone(), address.port);
        // The C library looks names up, and blocks meanwhile.
        let found = spawn_blocking(move || (host.as_str(), port).to_socket_addrs()).await;
        let found: Vec<_> = found.map_err(|e| io::Error::other(e.to_string()))??.collect();
        let mut result = Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
        for address in found {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Self::Tcp(stream));
                }
                Err(e) => result = Err(e),
            }
        }
        result
    }

    pub(super) fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => stream.poll_read(cx, buffer),
            Self::Unix(stream) => stream.poll_read(cx, buffer),
        }
    }

    pub(super) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => stream.poll_write(cx, bytes),
            Self::Unix(stream) => stream.poll_write(cx, bytes),
        }
    }
}

//! Where a server listens: addresses, a Unix socket, what systemd has opened.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use colibri_runtime::net::{TcpListener, UnixListener};
use colibri_runtime::{Pool, sleep, spawn};

use crate::cluster::make_dir;
use crate::error::ServeError;
use crate::link::Socket;
use crate::options::Options;

/// The port of a Unix socket if there is no TCP port: PostgreSQL's.
const PORT: u16 = 5432;

/// A socket that clients connect to.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, #[expect(dead_code, reason = "for its end")] Option<SocketFile>),
}

/// The file of a Unix socket, which goes away with it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The next server that listens there removes it as well.
        _ = fs::remove_file(&self.path);
    }
}

/// What an address stands for: `HOST:PORT`, with `localhost` for both of this machine's own.
pub(crate) fn addresses(text: &str) -> Result<Vec<SocketAddr>, ServeError> {
    let bad = || ServeError::Address(text.to_owned());
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
    let port: u16 = port.parse().map_err(|_| bad())?;
    match host {
        "localhost" => Ok(vec![
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port),
        ]),
        "*" => Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)]),
        _ => Err(bad()),
    }
}

/// All that a server listens with. It is opened before anything is made in the server's directory:
/// a server that cannot start leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// For PostgreSQL's clients.
    pub(crate) clients: Vec<Listener>,
    /// For metrics and the dashboard.
    pub(crate) metrics: Vec<Listener>,
}

impl Sockets {
    pub(crate) fn open(options: &Options) -> Result<Self, ServeError> {
        let mut clients = Listener::activated()?;
        // With sockets of systemd, the server opens none itself.
        if clients.is_empty() {
            for text in &options.listen {
                for address in addresses(text)? {
                    match Listener::tcp(address) {
                        Ok(listener) => clients.push(listener),
                        // A machine may have no IPv6.
                        Err(_) if text.starts_with("localhost") && !clients.is_empty() => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        if let Some(open) = clients.iter().find(|listener| !listener.is_local())
            && options.auth.is_none()
        {
            return Err(ServeError::Open(open.name()));
        }
        if let Some(dir) = &options.socket_dir {
            if *dir == options.dir {
                make_dir(dir).map_err(ServeError::system("cannot make the server's directory"))?;
            }
            clients.push(Listener::unix(dir, port(&clients))?);
        }
        let addresses = options.metrics.as_deref().map_or_else(|| Ok(Vec::new()), addresses)?;
        let metrics = addresses.into_iter().map(Listener::tcp).collect::<Result<_, _>>()?;
        Ok(Self { clients, metrics })
    }

    /// The port that clients name.
    pub(crate) fn port(&self) -> u16 {
        port(&self.clients)
    }
}

fn port(listeners: &[Listener]) -> u16 {
    listeners.iter().find_map(Listener::port).unwrap_or(PORT)
}

impl Listener {
    pub(crate) fn tcp(address: SocketAddr) -> Result<Self, ServeError> {
        match TcpListener::bind(address) {
            Ok(listener) => Ok(Self::Tcp(listener)),
            Err(source) => Err(ServeError::Listen { address: address.to_string(), source }),
        }
    }

    /// Listens in a directory, under the name that clients look for.
    pub(crate) fn unix(dir: &Path, port: u16) -> Result<Self, ServeError> {
        let path = dir.join(format!(".s.PGSQL.{port}"));
        let listen = || {
            if std::os::unix::net::UnixStream::connect(&path).is_ok() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            // The socket's file is left over: no server listens there.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = UnixListener::bind(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
            Ok(listener)
        };
        match listen() {
            Ok(listener) => Ok(Self::Unix(listener, SocketFile { path }.into())),
            Err(source) => Err(ServeError::Listen { address: path.display().to_string(), source }),
        }
    }

    /// What systemd has opened for this process.
    pub(crate) fn activated() -> Result<Vec<Self>, ServeError> {
        let mut fds = listenfd::ListenFd::from_env();
        let mut listeners = Vec::new();
        for index in 0..fds.len() {
            let failed = |source| ServeError::Listen { address: format!("file descriptor {}", 3 + index), source };
            // A descriptor of another kind is returned.
            if let Ok(Some(listener)) = fds.take_tcp_listener(index) {
                listeners.push(Self::Tcp(TcpListener::from_std(listener).map_err(failed)?));
            } else if let Some(listener) = fds.take_unix_listener(index).map_err(failed)? {
                listeners.push(Self::Unix(UnixListener::from_std(listener).map_err(failed)?, None));
            }
        }
        Ok(listeners)
    }

    /// Whether only this machine can reach it.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Tcp(listener) => listener.local_addr().is_ok_and(|address| address.ip().is_loopback()),
            Self::Unix(..) => true,
        }
    }

    /// The address as text.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Tcp(listener) => listener.local_addr().map_or_else(|_| "?".to_owned(), |address| address.to_string()),
            Self::Unix(listener, _) => {
                let address = listener.local_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname());
                path.map_or_else(|| "a Unix socket".to_owned(), |path| path.display().to_string())
            }
        }
    }

    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
            Self::Unix(..) => None,
        }
    }

    /// Waits for a connection.
    pub(crate) async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                // Answers are written whole, and must not wait for acknowledgements of those
                // before.
                stream.set_nodelay(true)?;
                // A machine that vanishes sends nothing: after some time the kernel's keepalive
                // finds out, without this process.
                _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
                Ok(Socket::Tcp(stream, address))
            }
            Self::Unix(listener, _) => Ok(Socket::Unix(listener.accept().await?)),
        }
    }
}

/// Accepts connections until the server stops, and passes them on.
pub(crate) fn accept_all(
    listener: Arc<Listener>,
    log: crate::log::Log,
    serve: impl Fn(Socket) + Send + 'static,
) -> colibri_runtime::JoinHandle<()> {
    spawn(Pool::System, async move {
        loop {
            match listener.accept().await {
                Ok(socket) => serve(socket),
                Err(error) => {
                    log.warn("accept_failed", &[("listen", &listener.name()), ("error", &error)]);
                    // Most likely there are no descriptors left; wait before the next attempt.
                    sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn addresses_are_hosts_with_ports() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<_> = addresses(text).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(found, expected);
        };
        check("127.0.0.1:5432", &["127.0.0.1:5432"]);
        check("[::1]:0", &["[::1]:0"]);
        check("localhost:1", &["127.0.0.1:1", "[::1]:1"]);
        check("*:2", &["0.0.0.0:2"]);
        for wrong in ["", "5432", "localhost", "localhost:x", "example.org:5432", "127.0.0.1:65536"] {
            assert!(addresses(wrong).is_err(), "{wrong}");
        }
    }
}

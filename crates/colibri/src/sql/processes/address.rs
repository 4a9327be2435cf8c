//! The socket in a database's directory.
//!
//! Only the user who owns the process that made it may connect (mode 0600, and the other side's
//! user is asked for). The owner of the directory's lock alone makes it and takes it away, so a file
//! that a killed owner has left is replaced by the next one.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

const SOCKET_FILE: &str = "sql.sock";
/// Bytes of a path that every system takes as the address of a socket.
const ADDRESS_BYTES_MAX: usize = 100;
/// Guests that may wait to be let in.
const BACKLOG: i32 = 128;

/// Calls a function with a path of the socket that is short enough: a long one goes through the
/// descriptor of the directory.
fn at<T>(dir: &Path, call: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let path = dir.join(SOCKET_FILE);
    if path.as_os_str().len() <= ADDRESS_BYTES_MAX {
        return call(&path);
    }
    let dir = File::open(dir)?;
    call(&Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(SOCKET_FILE))
}

/// Connects to the owner.
pub(super) fn reach(dir: &Path) -> io::Result<UnixStream> {
    at(dir, |path| UnixStream::connect(path))
}

/// Whether the other side of a socket is this user's, or root's.
pub(super) fn is_of_this_user(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

/// The socket of an owner. A connection waits until the owner accepts it. Dropping this removes the
/// socket's file.
#[derive(Debug)]
pub(in crate::sql) struct Entrance {
    pub(super) listener: UnixListener,
    dir: PathBuf,
}

impl Entrance {
    /// Makes it. The caller has the directory's lock.
    pub(in crate::sql) fn new(dir: &Path) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        at(dir, |path| {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            bind(&socket, &SocketAddrUnix::new(path)?)?;
            // Nobody is let in before it listens.
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        })?;
        listen(&socket, BACKLOG)?;
        Ok(Self { listener: socket.into(), dir: dir.to_owned() })
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        // The next owner removes it as well.
        _ = fs::remove_file(self.dir.join(SOCKET_FILE));
    }
}

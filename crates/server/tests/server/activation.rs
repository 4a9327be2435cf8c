//! Sockets that systemd has opened: the server starts with the first connection, ends after the
//! last one, and starts again with the next one, which never notices.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::support::{Wire, as_server, until};

/// A server that gets a socket as its descriptor 3.
fn started(dir: &Path, socket: OwnedFd, options: &[(&str, &str)], notify: Option<&Path>) -> Child {
    let server = as_server(dir, options);
    // A shell moves the descriptor and knows its own number, which the server keeps.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"", "sh"]);
    shell.arg(server.get_program()).args(server.get_args());
    for (name, value) in server.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    if let Some(path) = notify {
        shell.env("NOTIFY_SOCKET", path);
    }
    shell.stdin(Stdio::from(socket)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn ends(child: &mut Child) -> bool {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        assert!(Instant::now() < until, "the server does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a connection, as systemd does before it starts the server.
fn wait_for_connection(listener: &TcpListener) {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(poll(&mut fds, Some(&limit)).unwrap(), 1, "nobody connects");
}

#[test]
fn a_server_starts_with_a_connection_ends_without_and_starts_with_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for round in 0..3 {
        // The client is there before the server is.
        let client = std::thread::spawn(move || {
            let mut wire = Wire::connect(address, &[("user", "postgres")]).unwrap();
            wire.run("CREATE TABLE IF NOT EXISTS t (a int)");
            wire.run("INSERT INTO t VALUES (1)");
            wire.value("SELECT count(*) FROM t")
        });
        wait_for_connection(&listener);
        let fd = OwnedFd::from(listener.try_clone().unwrap());
        let mut server = started(dir.path(), fd, &[("idle_exit_ms", "200"), ("listen", "")], None);
        assert_eq!(client.join().unwrap(), (round + 1).to_string());
        assert!(ends(&mut server));
    }
}

#[test]
fn who_connects_while_the_server_is_about_to_end_is_served_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    // Starts the server whenever a client waits and there is none.
    let keeper = std::thread::spawn({
        let (stop, listener, dir) =
            (std::sync::Arc::clone(&stop), listener.try_clone().unwrap(), dir.path().to_owned());
        move || {
            let mut starts = 0;
            loop {
                wait_for_connection(&listener);
                if stop.load(std::sync::atomic::Ordering::Acquire) {
                    return starts;
                }
                let fd = OwnedFd::from(listener.try_clone().unwrap());
                let options = [("idle_exit_ms", "20"), ("keep_ms", "0"), ("listen", "")];
                assert!(ends(&mut started(&dir, fd, &options, None)));
                starts += 1;
            }
        }
    });
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..40 {
        // About when it ends, sometimes before and sometimes after.
        std::thread::sleep(Duration::from_micros(random.u64(0..60_000)));
        let mut wire = Wire::connect(address, &[("user", "postgres")]).unwrap_or_else(|told| panic!("{told:?}"));
        assert_eq!(wire.value("SELECT 1"), "1");
    }
    stop.store(true, std::sync::atomic::Ordering::Release);
    let last: SocketAddr = address;
    // Wakes the keeper, unless a server that is about to end has taken it.
    while !keeper.is_finished() {
        drop(std::net::TcpStream::connect(last));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(keeper.join().unwrap() > 1, "it has never ended in between");
}

#[test]
fn a_unix_socket_is_taken_over_and_systemd_is_told_how_things_stand() {
    use std::io::{Read, Write};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(".s.PGSQL.5432");
    let listener = UnixListener::bind(&path).unwrap();
    let told = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    told.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let options = [("idle_exit_ms", "100"), ("listen", "")];
    let notify = dir.path().join("notify");
    let mut server = started(&dir.path().join("data"), OwnedFd::from(listener), &options, Some(&notify));
    let mut message = [0; 64];
    let mut hear = || {
        let length = told.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    assert_eq!(hear(), "READY=1");
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stream.write_all(&super::support::startup(&[("user", "postgres")])).unwrap();
    let mut kind = [0];
    stream.read_exact(&mut kind).unwrap();
    assert_eq!(kind, *b"R");
    drop(stream);
    assert_eq!(hear(), "STOPPING=1");
    assert!(ends(&mut server));
    // The file belongs to the process that opened it.
    assert!(path.exists());
}

/// `systemd-analyze` on the units that are shipped, with a program that is there.
#[test]
fn the_units_that_are_shipped_are_what_systemd_understands() {
    let Ok(version) = Command::new("systemd-analyze").arg("--version").output() else {
        return super::support::skipped("systemd-analyze is not installed (Debian: systemd)");
    };
    assert!(version.status.success());
    let dir = tempfile::tempdir().unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let program = std::env::current_exe().unwrap();
    for unit in ["colibri.service", "colibri.socket"] {
        let text = std::fs::read_to_string(shipped.join(unit)).unwrap();
        let text = text.replace("/usr/bin/colibri", program.to_str().unwrap());
        std::fs::write(dir.path().join(unit), text).unwrap();
    }
    let units = ["colibri.service", "colibri.socket"].map(|unit| dir.path().join(unit));
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    // Other units of the machine are verified along with these, and may have faults of their own.
    let faults: Vec<&str> = said.lines().filter(|line| line.contains("colibri")).collect();
    assert!(faults.is_empty(), "{said}");
}

#[test]
fn systemd_socket_activate_starts_the_server() {
    if Command::new("systemd-socket-activate").arg("--version").output().is_err() {
        return super::support::skipped("systemd-socket-activate is not installed (Debian: systemd)");
    }
    let dir = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let server = as_server(dir.path(), &[("idle_exit_ms", "200"), ("listen", "")]);
    let mut activate = Command::new("systemd-socket-activate");
    activate.arg("-l").arg(address.to_string());
    for (name, value) in server.get_envs() {
        activate.arg("-E").arg(format!("{}={}", name.to_string_lossy(), value.unwrap_or_default().to_string_lossy()));
    }
    activate.arg("--").arg(server.get_program()).args(server.get_args());
    let mut child = activate.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("it listens", || {
        std::fs::read_to_string("/proc/net/tcp").unwrap().contains(&format!(":{port:04X} 00000000:0000 0A"))
    });
    let mut wire = Wire::connect(address, &[("user", "postgres")]).unwrap();
    assert_eq!(wire.value("SELECT 1"), "1");
    drop(wire);
    assert!(ends(&mut child));
}

//! etcd for a test, and relays before it that can be cut.

use std::collections::BTreeSet;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Says aloud that a test has tested nothing.
pub(crate) fn not_run(test: &str) {
    _ = writeln!(std::io::stderr(), "NOT RUN: {test}: etcd is not installed (Debian: etcd-server)");
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join("etcd")).find(|program| program.exists())
}

/// Runs a future in this thread. It is not tokio's: the seam needs no runtime.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Files of TLS: etcd's certificate, the one that signed it, and a client's.
pub(crate) struct TlsFiles {
    pub(crate) ca: PathBuf,
    pub(crate) server: (PathBuf, PathBuf),
    pub(crate) client: (PathBuf, PathBuf),
}

/// How etcd is started.
#[derive(Default)]
pub(crate) struct Start<'a> {
    /// With TLS, and certificates asked of clients.
    pub(crate) tls: Option<&'a TlsFiles>,
    /// Further arguments.
    pub(crate) arguments: &'a [&'a str],
}

/// Members of etcd on loopback, in a directory that goes away with them. Dropping it ends them.
pub(crate) struct Servers {
    members: Vec<Child>,
    pub(crate) endpoints: Vec<SocketAddr>,
    _dir: tempfile::TempDir,
}

/// Whether a member serves: it knows its leader, and the alarms are off.
fn is_healthy(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut answer = String::new();
    let asked = stream.write_all(b"GET /health HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n");
    asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok() && answer.starts_with("HTTP/1.1 200")
}

/// A port that nobody listens on now.
/// A port that nobody uses now. None is given twice: a test would find another test's server there,
/// which has started faster.
fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if GIVEN.lock().unwrap().insert(port) {
            return port;
        }
    }
}

impl Servers {
    /// So many members, ready to serve; `None` where etcd is not installed.
    pub(crate) fn start(count: usize, start: &Start<'_>) -> Option<Self> {
        let program = program()?;
        // Another process may take a port between the look and the start: then once more.
        for _ in 0..5 {
            if let Some(servers) = Self::try_start(&program, count, start) {
                return Some(servers);
            }
        }
        panic!("etcd does not start");
    }

    fn try_start(program: &Path, count: usize, start: &Start<'_>) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let ports: Vec<[u16; 3]> = (0..count).map(|_| [free_port(), free_port(), free_port()]).collect();
        let peers: Vec<String> =
            ports.iter().enumerate().map(|(n, [_, peer, _])| format!("m{n}=http://127.0.0.1:{peer}")).collect();
        let scheme = if start.tls.is_some() { "https" } else { "http" };
        let members = ports.iter().enumerate().map(|(n, [client, peer, health])| {
            let (client, peer) = (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
            let mut command = Command::new(program);
            command.arg("--name").arg(format!("m{n}")).arg("--data-dir").arg(dir.path().join(format!("m{n}")));
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            command.args(["--initial-cluster", &peers.join(","), "--log-level", "error", "--logger", "zap"]);
            // Its health, without TLS and users.
            command.arg("--listen-metrics-urls").arg(format!("http://127.0.0.1:{health}"));
            command.args(start.arguments);
            if let Some(tls) = start.tls {
                command.arg("--cert-file").arg(&tls.server.0).arg("--key-file").arg(&tls.server.1);
                command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(&tls.ca);
            }
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        });
        let members = members.collect();
        let endpoints = ports.iter().map(|[client, ..]| SocketAddr::from(([127, 0, 0, 1], *client))).collect();
        let mut servers = Self { members, endpoints, _dir: dir };
        let end = Instant::now() + Duration::from_secs(30);
        while !ports.iter().all(|[.., health]| is_healthy(*health)) {
            let has_ended = |member: &mut Child| member.try_wait().unwrap().is_some();
            if Instant::now() > end || servers.members.iter_mut().any(has_ended) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(servers)
    }

    /// The endpoints as an address has them.
    pub(crate) fn hosts(&self) -> String {
        self.endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Ends a member with SIGKILL.
    pub(crate) fn kill(&mut self, member: usize) {
        self.members[member].kill().unwrap();
        self.members[member].wait().unwrap();
    }

    /// A call of the first member's HTTP interface: what an operator does with `etcdctl`.
    pub(crate) fn post(&self, path: &str, json: &str) -> String {
        let mut stream = TcpStream::connect(self.endpoints[0]).unwrap();
        let length = json.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(json.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        answer
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for member in &mut self.members {
            _ = member.kill();
            _ = member.wait();
        }
    }
}

const PASS: u8 = 0;
const CUT: u8 = 1;
const LOSE_ANSWERS: u8 = 2;

/// Passes bytes on between a node and etcd, until it is told otherwise.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    mode: AtomicU8,
    /// Connections with a lower number pass nothing on, and are not closed.
    silent_below: AtomicU32,
    last: AtomicU32,
    has_ended: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
}

impl Shared {
    fn end_connections(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Relay {
    pub(crate) fn new(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let serving = shared.clone();
        std::thread::spawn(move || {
            for node in listener.incoming() {
                if serving.has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(node) = node else { continue };
                if serving.mode.load(Ordering::SeqCst) == CUT {
                    continue;
                }
                let Ok(etcd) = TcpStream::connect(to) else { continue };
                _ = (node.set_nodelay(true), etcd.set_nodelay(true));
                let clones = [node.try_clone().unwrap(), etcd.try_clone().unwrap()];
                serving.connections.lock().unwrap().extend(clones);
                let (from_node, to_node) = (node.try_clone().unwrap(), node);
                let (from_etcd, to_etcd) = (etcd.try_clone().unwrap(), etcd);
                let (one, other) = (serving.clone(), serving.clone());
                let number = serving.last.fetch_add(1, Ordering::SeqCst) + 1;
                std::thread::spawn(move || pass_on(from_node, to_etcd, &one, number, false));
                std::thread::spawn(move || pass_on(from_etcd, to_node, &other, number, true));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn cut(&self) {
        self.shared.mode.store(CUT, Ordering::SeqCst);
        self.shared.end_connections();
    }

    pub(crate) fn lose_answers(&self) {
        self.shared.mode.store(LOSE_ANSWERS, Ordering::SeqCst);
    }

    /// The connections that there are pass nothing on any more, and nobody is told. New ones do.
    pub(crate) fn silence(&self) {
        self.shared.silent_below.store(self.shared.last.load(Ordering::SeqCst) + 1, Ordering::SeqCst);
    }

    pub(crate) fn heal(&self) {
        // Connections that have lost bytes are of no use.
        self.shared.end_connections();
        self.shared.mode.store(PASS, Ordering::SeqCst);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, shared: &Shared, number: u32, are_answers: bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut buffer) {
        if read == 0 {
            break;
        }
        let is_lost = are_answers && shared.mode.load(Ordering::SeqCst) == LOSE_ANSWERS
            || number < shared.silent_below.load(Ordering::SeqCst);
        if !is_lost && to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::SeqCst);
        self.shared.end_connections();
        // Wakes the listener.
        _ = TcpStream::connect(self.address);
    }
}

//! etcd and servers of a cluster as processes on loopback, and a client that knows simple queries.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The lease of the tests' nodes. etcd grants no shorter one than two seconds.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// Says aloud that a test has tested nothing.
pub(crate) fn not_run(test: &str, why: &str) {
    _ = writeln!(std::io::stderr(), "NOT RUN: {test}: {why}");
}

/// A program in PATH.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.exists())
}

/// A port that nobody uses now. None is given twice: a test would find another test's server there,
/// which has started faster.
pub(crate) fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if GIVEN.lock().unwrap().insert(port) {
            return port;
        }
    }
}

/// Tries until a closure gives something.
pub(crate) fn until<T>(what: &str, time_max: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + time_max;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within {time_max:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// etcd, which is killed when it is dropped.
pub(crate) struct Etcd {
    child: Child,
    port: u16,
    pub(crate) dir: tempfile::TempDir,
}

impl Etcd {
    /// One member, ready to serve; `None`, told aloud, where etcd is not installed.
    pub(crate) fn start(test: &str, arguments: &[&str]) -> Option<Self> {
        let Some(program) = program("etcd") else {
            not_run(test, "etcd is not installed (Debian: etcd-server)");
            return None;
        };
        for _ in 0..5 {
            if let Some(etcd) = Self::try_start(&program, arguments) {
                return Some(etcd);
            }
        }
        panic!("etcd does not start");
    }

    fn try_start(program: &Path, arguments: &[&str]) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let (port, peer) = (free_port(), free_port());
        let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
        let mut child = Command::new(program)
            .args(["--name", "m", "--data-dir"])
            .arg(dir.path().join("etcd"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("m={peer}"), "--log-level", "error", "--logger", "zap"])
            // No test switches the machine off, and a busy disk would end leases.
            .arg("--unsafe-no-fsync")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        let is_healthy = || {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
            let mut answer = String::new();
            stream.write_all(b"GET /health HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n").ok()?;
            stream.read_to_string(&mut answer).ok()?;
            answer.starts_with("HTTP/1.1 200").then_some(())
        };
        while is_healthy().is_none() {
            if Instant::now() > end || child.try_wait().unwrap().is_some() {
                _ = (child.kill(), child.wait());
                return None;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(Self { child, port, dir })
    }

    /// Where it listens for clients.
    pub(crate) fn client_address(&self) -> (&'static str, u16) {
        ("127.0.0.1", self.port)
    }

    pub(crate) fn address(&self) -> String {
        format!("etcd://127.0.0.1:{}/test", self.port)
    }

    /// With `-STOP`, all of its threads have stopped on return: until then one may still answer.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        if signal == "-STOP" {
            let is_stopped = |task: std::fs::DirEntry| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.rsplit(')').next().is_some_and(|rest| rest.trim_ascii_start().starts_with('T'))
            };
            until("it has stopped", Duration::from_secs(5), || {
                let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
                tasks.flatten().all(is_stopped).then_some(())
            });
        }
    }

    /// Starts a node with a directory of its own beside etcd's.
    pub(crate) fn node(&self, name: &str, arguments: &[&str]) -> Node {
        Node::start(self, name, &self.dir.path().join(name), free_port(), arguments)
    }

    /// Runs `colibri cluster`; what it printed, or its error.
    pub(crate) fn cluster(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_colibri"));
        command.arg("cluster").args(arguments);
        if !arguments.contains(&"--cluster") {
            command.args(["--cluster", &self.address()]);
        }
        let output = command.output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
    }

    pub(crate) fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.cluster(&["status", "--json"]).unwrap()).unwrap()
    }

    /// The node that leads a database, as etcd has it.
    pub(crate) fn leader(&self, database: &str) -> Option<String> {
        let status = self.status();
        let all = status["databases"].as_array().unwrap();
        let database = all.iter().find(|one| one["name"] == database)?;
        database["leader"].as_str().map(str::to_owned)
    }

    /// Waits until a node leads a database, and gives it.
    pub(crate) fn wait_leader(&self, database: &str, is_right: impl Fn(&str) -> bool) -> String {
        until("a leader", Duration::from_secs(30), || self.leader(database).filter(|leader| is_right(leader)))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A server of a cluster, which is killed when it is dropped.
pub(crate) struct Node {
    child: Child,
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) dir: PathBuf,
    log: Arc<Mutex<String>>,
}

impl Node {
    pub(crate) fn start(etcd: &Etcd, name: &str, dir: &Path, port: u16, arguments: &[&str]) -> Self {
        let lease = format!("{}s", LEASE.as_secs());
        let mut child = Command::new(env!("CARGO_BIN_EXE_colibri"))
            .arg("serve")
            .arg(dir)
            .args(["--listen", &format!("127.0.0.1:{port}"), "--node", name])
            .args(if arguments.contains(&"--lease") { Vec::new() } else { vec!["--lease", &*lease] })
            .args(if arguments.contains(&"--cluster") {
                Vec::new()
            } else {
                vec!["--cluster".to_owned(), etcd.address()]
            })
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let log: Arc<Mutex<String>> = Arc::default();
        let note = |log: &Mutex<String>, line: &str| {
            let mut log = log.lock().unwrap();
            log.push_str(line);
            log.push('\n');
        };
        loop {
            let line = lines.next().unwrap_or_else(|| panic!("{name} did not start: {}", log.lock().unwrap()));
            note(&log, &line);
            if line.contains(" ready ") {
                break;
            }
        }
        let copy = Arc::clone(&log);
        std::thread::spawn(move || lines.for_each(|line| note(&copy, &line)));
        Self { child, name: name.to_owned(), port, dir: dir.to_owned(), log }
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// What it has used of all processors so far.
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_ascii_whitespace().collect();
        // User and system time, in hundredths of a second (proc(5)).
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Resident memory that belongs to it alone.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
        line.trim_ascii().trim_end_matches(" kB").parse().unwrap_or(0)
    }

    /// Ends it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it as an administrator would.
    pub(crate) fn end(&mut self) {
        self.signal("-TERM");
        assert!(self.child.wait().unwrap().success(), "{}", self.log());
    }

    /// Starts it again, in the same directory and at the same port, after it has ended.
    pub(crate) fn start_again(&mut self, etcd: &Etcd, arguments: &[&str]) {
        *self = Self::start(etcd, &self.name.clone(), &self.dir.clone(), self.port, arguments);
    }

    pub(crate) fn try_connect(&self, database: &str) -> Result<Client, String> {
        self.try_connect_with(database, "")
    }

    /// With options as on a command line.
    pub(crate) fn try_connect_with(&self, database: &str, options: &str) -> Result<Client, String> {
        Client::connect_to("127.0.0.1", self.port, database, options, Duration::from_secs(60))
    }

    pub(crate) fn connect(&self, database: &str) -> Client {
        self.try_connect(database).unwrap_or_else(|code| panic!("{}: {code}\n{}", self.name, self.log()))
    }

    /// The first columns of a query's rows.
    pub(crate) fn query(&self, database: &str, sql: &str) -> Vec<String> {
        self.connect(database).rows(sql)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("== log of {}\n{}", self.name, self.log());
        }
    }
}

/// An error as the client is told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) detail: String,
    pub(crate) hint: String,
}

impl Told {
    /// The connection has ended without a word.
    fn nothing() -> Self {
        let [code, message, detail, hint] = [const { String::new() }; 4];
        Self { code, message, detail, hint }
    }
}

pub(crate) struct Client {
    stream: TcpStream,
    /// What the server has reported, in order.
    pub(crate) reported: Vec<(String, String)>,
    /// By which the session is cancelled: its number and its secret, as they came.
    key: Vec<u8>,
}

impl Client {
    /// Connects; the code of the error, or what the system says. Nothing is waited for longer than
    /// `silence_max`.
    pub(crate) fn connect_to(
        address: &str,
        port: u16,
        database: &str,
        options: &str,
        silence_max: Duration,
    ) -> Result<Self, String> {
        let to = std::net::SocketAddr::new(address.parse().unwrap(), port);
        let mut stream = TcpStream::connect_timeout(&to, silence_max).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(silence_max)).unwrap();
        let parameters = format!("user\0postgres\0database\0{database}\0options\0{options}\0\0");
        let mut packet = (parameters.len() as i32 + 8).to_be_bytes().to_vec();
        packet.extend_from_slice(&(3_i32 << 16).to_be_bytes());
        packet.extend_from_slice(parameters.as_bytes());
        stream.write_all(&packet).map_err(|error| error.to_string())?;
        let mut client = Self { stream, reported: Vec::new(), key: Vec::new() };
        client.answer().map_err(|told| told.code)?;
        Ok(client)
    }

    /// Runs a text; the first columns of its rows. A connection that ends gives the code of the
    /// last error, or none.
    pub(crate) fn run(&mut self, sql: &str) -> Result<Vec<String>, Told> {
        let mut message = vec![b'Q'];
        message.extend_from_slice(&(sql.len() as i32 + 5).to_be_bytes());
        message.extend_from_slice(sql.as_bytes());
        message.push(0);
        if self.stream.write_all(&message).is_err() {
            return Err(Told::nothing());
        }
        self.answer()
    }

    /// Messages of the extended protocol, of which the last is Sync: the rows.
    fn pipeline(&mut self, messages: &[(u8, Vec<u8>)]) -> Result<Vec<String>, Told> {
        let mut bytes = Vec::new();
        for (kind, body) in messages {
            bytes.push(*kind);
            bytes.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
            bytes.extend_from_slice(body);
        }
        if self.stream.write_all(&bytes).is_err() {
            return Err(Told::nothing());
        }
        self.answer()
    }

    /// Prepares a statement under a name.
    pub(crate) fn prepare(&mut self, name: &str, sql: &str) -> Result<Vec<String>, Told> {
        self.pipeline(&[(b'P', format!("{name}\0{sql}\0\0\0").into_bytes()), (b'S', Vec::new())])
    }

    /// Runs a statement that was prepared under a name.
    pub(crate) fn execute(&mut self, name: &str) -> Result<Vec<String>, Told> {
        let bind = format!("\0{name}\0\0\0\0\0\0\0").into_bytes();
        self.pipeline(&[(b'B', bind), (b'E', vec![0; 5]), (b'S', Vec::new())])
    }

    /// Prepares and runs a statement without a name, as drivers do.
    pub(crate) fn parse_and_execute(&mut self, sql: &str) -> Result<Vec<String>, Told> {
        let parse = format!("\0{sql}\0\0\0").into_bytes();
        self.pipeline(&[(b'P', parse), (b'B', vec![0; 8]), (b'E', vec![0; 5]), (b'S', Vec::new())])
    }

    /// Sends texts without waiting between them, and reads all answers. Behind an error that has
    /// ended the connection the others were not answered.
    pub(crate) fn run_all(&mut self, texts: &[&str]) -> Vec<Result<(), Told>> {
        let mut bytes = Vec::new();
        for text in texts {
            bytes.push(b'Q');
            bytes.extend_from_slice(&(text.len() as i32 + 5).to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0);
        }
        if self.stream.write_all(&bytes).is_err() {
            return texts.iter().map(|_| Err(Told::nothing())).collect();
        }
        texts.iter().map(|_| self.answer().map(drop)).collect()
    }

    /// Statements of the extended protocol with one Sync behind all: one transaction.
    pub(crate) fn execute_all(&mut self, statements: &[&str]) -> Result<Vec<String>, Told> {
        let mut messages = Vec::new();
        for sql in statements {
            messages.push((b'P', format!("\0{sql}\0\0\0").into_bytes()));
            messages.push((b'B', vec![0; 8]));
            messages.push((b'E', vec![0; 5]));
        }
        messages.push((b'S', Vec::new()));
        self.pipeline(&messages)
    }

    /// How to cancel what the session does, from elsewhere.
    pub(crate) fn canceller(&self) -> impl FnOnce() + Send + use<> {
        let (to, key) = (self.stream.peer_addr().unwrap(), self.key.clone());
        move || {
            let mut packet = (key.len() as i32 + 8).to_be_bytes().to_vec();
            packet.extend_from_slice(&80_877_102_i32.to_be_bytes());
            packet.extend_from_slice(&key);
            let mut stream = TcpStream::connect(to).unwrap();
            stream.write_all(&packet).unwrap();
            _ = stream.read(&mut [0]);
        }
    }

    pub(crate) fn rows(&mut self, sql: &str) -> Vec<String> {
        self.run(sql).unwrap_or_else(|told| panic!("{sql}: {told:?}"))
    }

    pub(crate) fn code(&mut self, sql: &str) -> String {
        self.run(sql).map_or_else(|told| told.code, |rows| panic!("{sql}: {rows:?}"))
    }

    /// What the server has reported last of a setting.
    pub(crate) fn reported(&self, name: &str) -> &str {
        let found = self.reported.iter().rev().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    fn answer(&mut self) -> Result<Vec<String>, Told> {
        let (mut rows, mut error) = (Vec::new(), None);
        loop {
            let mut header = [0; 5];
            let read = self.stream.read_exact(&mut header);
            let length = i32::from_be_bytes(header[1..].try_into().unwrap()).max(4) as usize - 4;
            let mut body = vec![0; length];
            if read.and_then(|()| self.stream.read_exact(&mut body)).is_err() {
                return Err(error.unwrap_or_else(Told::nothing));
            }
            match header[0] {
                b'D' => {
                    let length = i32::from_be_bytes(body[2..6].try_into().unwrap());
                    let value = &body[6..6 + usize::try_from(length).unwrap_or(0)];
                    rows.push(String::from_utf8_lossy(value).into_owned());
                }
                b'E' => {
                    let field = |kind: &[u8]| {
                        let fields = body.split(|&byte| byte == 0);
                        let found = fields.filter_map(|field| field.strip_prefix(kind)).next().unwrap_or_default();
                        String::from_utf8_lossy(found).into_owned()
                    };
                    error =
                        Some(Told { code: field(b"C"), message: field(b"M"), detail: field(b"D"), hint: field(b"H") });
                }
                b'S' => {
                    let text = String::from_utf8_lossy(&body).into_owned();
                    let mut parts = text.split('\0').map(str::to_owned);
                    self.reported.push((parts.next().unwrap(), parts.next().unwrap()));
                }
                b'K' => self.key = body,
                b'Z' => return error.map_or(Ok(rows), Err),
                _ => {}
            }
        }
    }
}

//! Servers as processes, and a client that sends given messages.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use colibri_server::{Auth, Options, serve};

/// Names the directory, for the process that is to be a server.
const DIR: &str = "COLIBRI_TEST_DIR";
/// `name=value` pairs, one a line.
const OPTIONS: &str = "COLIBRI_TEST_OPTIONS";

/// What a server says when it has closed a database.
pub(crate) const MEMORY_IS_GIVEN_BACK: &str = "memory is given back";

/// What the test's own process becomes when it is started once more.
pub(crate) fn be_the_server() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let mut options = Options::new(dir);
    options.listen = vec!["127.0.0.1:0".to_owned()];
    options.give_memory_back = || eprintln!("{MEMORY_IS_GIVEN_BACK}");
    for line in std::env::var(OPTIONS).unwrap_or_default().lines() {
        let (name, value) = line.split_once('=').unwrap();
        let ms = || Duration::from_millis(value.parse().unwrap());
        match name {
            "listen" => options.listen = value.split(',').filter(|at| !at.is_empty()).map(str::to_owned).collect(),
            "socket" => options.socket_dir = Some(value.into()),
            "connections" => options.connections_max = value.parse().unwrap(),
            "auth" => options.auth = Some(value.parse::<Auth>().unwrap()),
            "password" => options.password_file = Some(value.into()),
            "tls" => options.tls = Some((format!("{value}.crt").into(), format!("{value}.key").into())),
            "tiny" => options.tiny = true,
            "isolation" => options.isolation = Some(value.to_owned().leak()),
            "cpus" => options.cpus = Some(value.parse().unwrap()),
            "metrics" => options.metrics = Some(value.to_owned()),
            "slow_ms" => options.slow_statement = Some(ms()),
            "login_ms" => options.login_timeout = ms(),
            "keep_ms" => options.database_keep = ms(),
            "idle_exit_ms" => options.idle_exit = Some(ms()),
            "grace_ms" => options.grace = ms(),
            "ephemeral" => options.ephemeral = Some(value.to_owned()),
            "retention_s" => options.retention = Some((Duration::from_secs(value.parse().unwrap()), None)),
            "retention_bytes" => {
                options.retention = options.retention.map(|(age, _)| (age, Some(value.parse().unwrap())));
            }
            "prepared" => options.prepared_max = value.parse().unwrap(),
            "message_bytes" => options.message_bytes_max = value.parse().unwrap(),
            other => panic!("no option {other}"),
        }
    }
    if let Err(error) = serve(options) {
        eprintln!("colibri: {error}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

/// The command that makes this program a server in a directory.
pub(crate) fn as_server(dir: &Path, options: &[(&str, &str)]) -> Command {
    let lines: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["server_process", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env(OPTIONS, lines.join("\n"));
    command
}

/// Says what is not tested on this machine, past the test harness, which would keep it to itself.
pub(crate) fn skipped(why: &str) {
    _ = writeln!(io::stderr(), "SKIPPED: {why}");
}

/// How long a client may take to be installed: a network that swallows everything is one that is
/// not there.
const INSTALL_SECONDS_MAX: u32 = 300;
/// How long a client's test may take.
pub(crate) const RUN_SECONDS_MAX: u32 = 300;

/// A command that is ended after so long, with whatever it has started.
pub(crate) fn within(seconds_max: u32, program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.arg("--kill-after=5").arg(seconds_max.to_string()).arg(program).stdin(Stdio::null());
    command
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Where the scripts lie that install clients and run them.
pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// Runs the script that installs a client; where that is, or `None` if it cannot be had here.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let dir = tools_dir().join(name);
    let output = within(INSTALL_SECONDS_MAX, "sh").arg(scripts().join(name).join("install.sh")).arg(&dir).output();
    match output {
        Ok(output) if output.status.success() => return Some(dir),
        Ok(output) => skipped(&format!("{name} cannot be installed here: {}", said(&output).trim())),
        Err(error) => skipped(&format!("{name} cannot be installed here: {error}")),
    }
    None
}

/// Makes commands that run a program of PostgreSQL's: the machine's, or one that is unpacked beside
/// the build.
pub(crate) fn postgresql(program: &'static str) -> Option<impl Fn() -> Command> {
    static UNPACKED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let is_there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    let dir = if is_there { None } else { Some(UNPACKED.get_or_init(|| installed("postgresql")).clone()?) };
    Some(move || match &dir {
        None => within(RUN_SECONDS_MAX, program),
        Some(dir) => {
            let mut command = within(RUN_SECONDS_MAX, dir.join("bin").join(program).to_str().unwrap());
            command.env("LD_LIBRARY_PATH", dir.join("lib"));
            command
        }
    })
}

/// A server, which is killed when it is dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Option<SocketAddr>,
    log: Arc<Mutex<Vec<String>>>,
}

fn field(line: &str, name: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!(" {name}="))?;
    Some(rest.split(' ').next()?.trim_matches('"').to_owned())
}

impl Server {
    /// Starts one in a directory, and waits until it is ready.
    pub(crate) fn start(dir: &Path, options: &[(&str, &str)]) -> Self {
        Self::try_start(dir, options).unwrap_or_else(|log| panic!("the server did not start:\n{log}"))
    }

    /// As [`Server::start`]; gives what it said if it ends instead.
    pub(crate) fn try_start(dir: &Path, options: &[(&str, &str)]) -> Result<Self, String> {
        let mut child =
            as_server(dir, options).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let ready = loop {
            let mut line = String::new();
            if stderr.read_line(&mut line).unwrap() == 0 {
                child.wait().unwrap();
                return Err(log.lock().unwrap().join(""));
            }
            log.lock().unwrap().push(line.clone());
            if line.contains(" ready ") {
                break line;
            }
        };
        let lines = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        let first = field(&ready, "listen").unwrap();
        let address = first.split(',').find_map(|address| address.parse().ok());
        let metrics = field(&ready, "metrics").and_then(|address| address.parse().ok());
        Ok(Self { child, address: address.unwrap_or(([127, 0, 0, 1], 0).into()), metrics, log })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    pub(crate) fn connect(&self) -> Wire {
        self.connect_as("postgres", "postgres").unwrap()
    }

    pub(crate) fn connect_as(&self, user: &str, database: &str) -> Result<Wire, Told> {
        Wire::connect(self.address, &[("user", user), ("database", database)])
    }

    pub(crate) fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.pid().to_string()]).status().unwrap().success());
    }

    /// Waits until it has ended; whether it ended well.
    pub(crate) fn wait(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            assert!(Instant::now() < until, "the server does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A line of `/proc/PID/status`, as a number.
    pub(crate) fn status(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// An error or a notice, by its fields.
#[derive(Debug, Clone)]
pub(crate) struct Told(pub(crate) HashMap<u8, String>);

impl Told {
    fn read(body: &[u8]) -> Self {
        let fields = body.split(|&byte| byte == 0).filter(|field| !field.is_empty());
        Self(fields.map(|field| (field[0], String::from_utf8_lossy(&field[1..]).into_owned())).collect())
    }

    pub(crate) fn code(&self) -> &str {
        &self.0[&b'C']
    }

    pub(crate) fn message(&self) -> &str {
        &self.0[&b'M']
    }
}

/// A message from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: u8,
    pub(crate) body: Vec<u8>,
}

/// What a query gave.
#[derive(Debug, Default, Clone)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Vec<Option<String>>>,
    pub(crate) tags: Vec<String>,
    pub(crate) notices: Vec<Told>,
    pub(crate) kinds: String,
    /// The byte of ReadyForQuery.
    pub(crate) state: char,
}

/// A connection that sends given messages, byte by byte.
pub(crate) struct Wire {
    stream: TcpStream,
    unsent: Vec<u8>,
    pub(crate) pid: i32,
    pub(crate) key: Vec<u8>,
    pub(crate) parameters: HashMap<String, String>,
    /// All messages that came with an error.
    address: SocketAddr,
}

/// The body of a message from its parts.
pub(crate) fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = (3_i32 << 16).to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend_from_slice(name.as_bytes());
        body.push(0);
        body.extend_from_slice(value.as_bytes());
        body.push(0);
    }
    body.push(0);
    let mut packet = (body.len() as i32 + 4).to_be_bytes().to_vec();
    packet.extend(body);
    packet
}

pub(crate) fn row(body: &[u8]) -> Vec<Option<String>> {
    let count = usize::from(u16::from_be_bytes([body[0], body[1]]));
    let mut rest = &body[2..];
    (0..count)
        .map(|_| {
            let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
            rest = &rest[4..];
            let length = usize::try_from(length).ok()?;
            let (value, behind) = rest.split_at(length);
            rest = behind;
            Some(String::from_utf8_lossy(value).into_owned())
        })
        .collect()
}

impl Wire {
    pub(crate) fn open(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        // A test that waits for ever says nothing.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    pub(crate) fn connect(address: SocketAddr, parameters: &[(&str, &str)]) -> Result<Self, Told> {
        let stream = Self::open(address);
        let (unsent, key, parameters_told) = (startup(parameters), Vec::new(), HashMap::new());
        let mut wire = Self { stream, unsent, pid: 0, key, parameters: parameters_told, address };
        wire.flush();
        loop {
            let Message { kind, body } = wire.receive().unwrap();
            match kind {
                b'E' => return Err(Told::read(&body)),
                b'K' => {
                    wire.pid = i32::from_be_bytes(body[..4].try_into().unwrap());
                    wire.key = body[4..].to_vec();
                }
                b'S' => wire.note_parameter(&body),
                b'Z' => return Ok(wire),
                _ => {}
            }
        }
    }

    fn note_parameter(&mut self, body: &[u8]) {
        let mut parts = body.split(|&byte| byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
        self.parameters.insert(parts.next().unwrap(), parts.next().unwrap());
    }

    /// Adds a message to those that are sent next.
    pub(crate) fn put(&mut self, kind: u8, body: &[u8]) -> &mut Self {
        self.unsent.push(kind);
        self.unsent.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
        self.unsent.extend_from_slice(body);
        self
    }

    pub(crate) fn put_raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.unsent.extend_from_slice(bytes);
        self
    }

    pub(crate) fn parse(&mut self, name: &str, text: &str) -> &mut Self {
        self.put(b'P', format!("{name}\0{text}\0\0\0").as_bytes())
    }

    /// Binds text parameters, and asks for text.
    pub(crate) fn bind(&mut self, portal: &str, statement: &str, params: &[&str]) -> &mut Self {
        let mut body = format!("{portal}\0{statement}\0").into_bytes();
        body.extend_from_slice(&[0, 0]);
        body.extend_from_slice(&(params.len() as u16).to_be_bytes());
        for param in params {
            body.extend_from_slice(&(param.len() as i32).to_be_bytes());
            body.extend_from_slice(param.as_bytes());
        }
        body.extend_from_slice(&[0, 0]);
        self.put(b'B', &body)
    }

    pub(crate) fn execute(&mut self, portal: &str, rows_max: i32) -> &mut Self {
        let mut body = format!("{portal}\0").into_bytes();
        body.extend_from_slice(&rows_max.to_be_bytes());
        self.put(b'E', &body)
    }

    pub(crate) fn sync(&mut self) -> &mut Self {
        self.put(b'S', b"")
    }

    pub(crate) fn flush(&mut self) -> &mut Self {
        // A server that has closed the connection says why, which is to be read.
        _ = self.stream.write_all(&std::mem::take(&mut self.unsent));
        self
    }

    pub(crate) fn receive(&mut self) -> io::Result<Message> {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header)?;
        let length = i32::from_be_bytes(header[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body)?;
        Ok(Message { kind: header[0], body })
    }

    /// Reads up to ReadyForQuery.
    pub(crate) fn answer(&mut self) -> Result<Answer, Told> {
        let mut answer = Answer::default();
        let mut error = None;
        loop {
            let Message { kind, body } = self.receive().unwrap();
            answer.kinds.push(kind as char);
            match kind {
                b'D' => answer.rows.push(row(&body)),
                b'C' => answer.tags.push(String::from_utf8_lossy(&body[..body.len() - 1]).into_owned()),
                b'N' => answer.notices.push(Told::read(&body)),
                b'S' => self.note_parameter(&body),
                b'E' => {
                    let told = Told::read(&body);
                    if told.0[&b'S'] == "FATAL" {
                        return Err(told);
                    }
                    error.get_or_insert(told);
                }
                b'Z' => {
                    answer.state = body[0] as char;
                    return error.map_or(Ok(answer), Err);
                }
                _ => {}
            }
        }
    }

    /// Runs a query as text.
    pub(crate) fn query(&mut self, text: &str) -> Result<Answer, Told> {
        self.put(b'Q', format!("{text}\0").as_bytes()).flush().answer()
    }

    pub(crate) fn run(&mut self, text: &str) -> Answer {
        self.query(text).unwrap_or_else(|error| panic!("{text}: {error:?}"))
    }

    /// The first value that a query gives.
    pub(crate) fn value(&mut self, text: &str) -> String {
        self.run(text).rows[0][0].clone().unwrap()
    }

    /// Runs a query by the extended protocol.
    pub(crate) fn prepared(&mut self, text: &str, params: &[&str]) -> Result<Answer, Told> {
        self.parse("", text).bind("", "", params).execute("", 0).sync().flush().answer()
    }

    /// Asks, on another connection, for what this one does to be cancelled.
    pub(crate) fn cancel(&self) {
        cancel(self.address, self.pid, &self.key);
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

pub(crate) fn cancel(address: SocketAddr, pid: i32, key: &[u8]) {
    let mut stream = Wire::open(address);
    let mut packet = 16_i32.to_be_bytes().to_vec();
    packet.extend_from_slice(&80_877_102_i32.to_be_bytes());
    packet.extend_from_slice(&pid.to_be_bytes());
    packet.extend_from_slice(key);
    stream.write_all(&packet).unwrap();
    // The server closes the connection when it is done.
    _ = stream.read(&mut [0; 1]);
}

/// A directory for what is installed for tests, kept between runs.
pub(crate) fn tools_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let target = exe.ancestors().find(|dir| dir.file_name().is_some_and(|name| name == "debug" || name == "release"));
    let dir = target.and_then(Path::parent).unwrap_or(Path::new("/tmp")).join("test-clients");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} does not come true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

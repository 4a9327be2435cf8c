//! `colibri bench cluster`: three etcd and three servers on this machine, and what being a cluster
//! costs: commits beside raw appends, TPC-C beside a server without a cluster, reads, fail-over,
//! hand-over.
//!
//! The other benchmarks do the work, as processes of their own; what they write as JSON is read.
//! All processes that are started here end with this one.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use colibri_server::{ClusterStatus, append_times, cluster_status, move_database};
use serde_json::{Value, json};

use crate::failure::{Failure, Result};
use crate::serve::duration;

/// The tables that commits and reads are measured on. Texts are random letters and digits, of which
/// packing saves a quarter: texts that are alike would flatter the log.
const SETUP: &str = "CREATE TABLE commits (x bigserial PRIMARY KEY, y text);
CREATE TABLE points (x int PRIMARY KEY, y text);
INSERT INTO points SELECT g, repeat('p', 100) FROM generate_series(1, 10000) AS s (g);
CREATE TABLE texts (x int PRIMARY KEY, y text);
INSERT INTO texts SELECT g, (SELECT left(string_agg(replace(encode(sha512((g * 16 + k)::text::bytea), 'base64'), E'\\n', ''), ''), 700) FROM generate_series(1, 8) AS s (k)) FROM generate_series(1, 4096) AS s (g);
";
const INSERT: &str = "\\set x random(1, 4096)\nINSERT INTO commits (y) SELECT y FROM texts WHERE x = :x;\n";
const SELECT: &str = "\\set x random(1, 10000)\nSELECT y FROM points WHERE x = :x;\n";
const READY_MAX: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(4);
const MANY: u32 = 128;
/// The number of rounds. A round measures each of the figures that are compared, one after the other,
/// so that a slow phase of the machine affects all of them.
const ROUNDS: u32 = 3;

/// What a cluster costs, on this machine
///
/// Starts three etcd and three servers on loopback, and a server without a cluster beside them, and
/// ends all of them. With the servers, etcd and the clients on the same processors the figures are
/// worth something only beside each other.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// How long each part runs, from 1s to 1h
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time_of_a_part)]
    duration: Duration,
    /// TPC-C with a hundredth of the items and customers, to try things out
    #[arg(long)]
    miniature: bool,
    /// The program etcd
    #[arg(long, value_name = "PROGRAM", default_value = "etcd")]
    etcd: PathBuf,
    /// Directory for all data, which stay there [default: one that is removed in the end]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// File to write the figures to
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn time_of_a_part(text: &str) -> std::result::Result<Duration, String> {
    let time = duration(text)?;
    let is_right = (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&time);
    if is_right { Ok(time) } else { Err("a part takes from 1s to 1h".to_owned()) }
}

/// Processes that end with this one.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// A directory that is removed, unless it was asked for.
struct Place {
    dir: PathBuf,
    stays: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.stays {
            _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// A server.
struct Server {
    name: &'static str,
    port: u16,
    pid: u32,
    /// Its place among the processes.
    at: usize,
}

/// A line of the table.
struct Figure {
    what: &'static str,
    value: f64,
    unit: &'static str,
    /// What it should be, as the project has set itself.
    goal: &'static str,
}

fn failed(what: impl Into<String>) -> Failure {
    Failure::BenchCluster(what.into())
}

fn io_failed(what: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |error| failed(format!("{what}: {error}"))
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(io_failed("there is no free port"))?;
    Ok(listener.local_addr().map_err(io_failed("there is no free port"))?.port())
}

impl Processes {
    /// Starts three members of etcd; gives where they are.
    fn start_etcd(&mut self, program: &Path, dir: &Path) -> Result<String> {
        let ports = (0..6).map(|_| free_port()).collect::<Result<Vec<_>>>()?;
        let peers: Vec<_> = (0..3).map(|at| format!("m{at}=http://127.0.0.1:{}", ports[3 + at])).collect();
        for at in 0..3 {
            let (client, peer) =
                (format!("http://127.0.0.1:{}", ports[at]), format!("http://127.0.0.1:{}", ports[3 + at]));
            let mut command = Command::new(program);
            command.args(["--name", &format!("m{at}"), "--data-dir"]).arg(dir.join(format!("etcd{at}")));
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            command.args(["--initial-cluster", &peers.join(","), "--log-level", "error", "--logger", "zap"]);
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            self.0.push(child.map_err(io_failed("etcd cannot be started (Debian: etcd-server)"))?);
        }
        let hosts: Vec<_> = ports[..3].iter().map(|port| format!("127.0.0.1:{port}")).collect();
        Ok(format!("etcd://{}/bench", hosts.join(",")))
    }

    fn start_server(&mut self, name: &'static str, dir: &Path, cluster: Option<&str>) -> Result<Server> {
        let port = free_port()?;
        let mut command = Command::new(std::env::current_exe().map_err(io_failed("this program has no path"))?);
        command.arg("serve").arg(dir.join(name)).args(["--listen", &format!("127.0.0.1:{port}")]);
        command.args(["--max-connections", "300"]);
        if let Some(cluster) = cluster {
            let lease = format!("{}s", LEASE.as_secs());
            command.args(["--cluster", cluster, "--node", name, "--lease", &lease]);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(io_failed("a server cannot be started"))?;
        let mut lines = BufReader::new(child.stderr.take().expect("it is a pipe")).lines().map_while(io::Result::ok);
        let (pid, at) = (child.id(), self.0.len());
        self.0.push(child);
        let mut said = String::new();
        loop {
            match lines.next() {
                Some(line) if line.contains(" ready ") => break,
                Some(line) => said = line,
                None => return Err(failed(format!("the server {name} has ended: {said}"))),
            }
        }
        // What it says later is read, or it would wait.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Server { name, port, pid, at })
    }

    /// What the members of etcd have used of all processors so far. They are started first.
    fn etcd_time(&self) -> Duration {
        self.0.iter().take(3).filter_map(|child| processor_time(child.id())).sum()
    }
}

/// What a process has used of all processors so far.
fn processor_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_ascii_whitespace().collect();
    // User and system time, in hundredths of a second (proc(5)).
    let ticks: u64 = fields.get(11..13)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
}

impl Server {
    fn url(&self) -> String {
        self.url_of("postgres")
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    fn processor_time(&self) -> Duration {
        processor_time(self.pid).unwrap_or_default()
    }
}

/// A connection that runs simple queries, and is told how they end.
struct Connection(TcpStream);

impl Connection {
    fn open(port: u16) -> io::Result<Self> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let parameters = b"user\0postgres\0database\0postgres\0\0";
        let mut packet = (parameters.len() as u32 + 8).to_be_bytes().to_vec();
        packet.extend_from_slice(&(3_u32 << 16).to_be_bytes());
        packet.extend_from_slice(parameters);
        stream.write_all(&packet)?;
        let mut connection = Self(stream);
        connection.answer()?;
        Ok(connection)
    }

    fn run(&mut self, sql: &str) -> io::Result<()> {
        let mut message = vec![b'Q'];
        message.extend_from_slice(&(sql.len() as u32 + 5).to_be_bytes());
        message.extend_from_slice(sql.as_bytes());
        message.push(0);
        self.0.write_all(&message)?;
        self.answer()
    }

    fn answer(&mut self) -> io::Result<()> {
        let mut error = None;
        loop {
            let mut header = [0; 5];
            self.0.read_exact(&mut header)?;
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]).saturating_sub(4);
            let mut body = Vec::new();
            (&mut self.0).take(u64::from(length)).read_to_end(&mut body)?;
            match header[0] {
                b'E' => error = Some(String::from_utf8_lossy(&body).replace('\0', " ")),
                b'Z' => return error.map_or(Ok(()), |error| Err(io::Error::other(error))),
                _ => {}
            }
        }
    }
}

/// Tries until something comes.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let end = Instant::now() + READY_MAX;
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if Instant::now() >= end {
            return Err(failed(format!("not within {} s: {what}", READY_MAX.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs one of the other benchmarks; its result.
fn bench(dir: &Path, arguments: &[&str], time: Duration) -> Result<Value> {
    let file = dir.join("result.json");
    _ = fs::remove_file(&file);
    let mut command = Command::new(std::env::current_exe().map_err(io_failed("this program has no path"))?);
    command.arg("bench").args(arguments).args(["--duration", &format!("{}ms", time.as_millis())]);
    command.args(["--warmup", "1s", "--no-control", "--json"]).arg(&file);
    let output = command.stdin(Stdio::null()).output().map_err(io_failed("a benchmark cannot be started"))?;
    let text = fs::read_to_string(&file).unwrap_or_default();
    let results: Value = serde_json::from_str(&text).unwrap_or_default();
    match results.get(0) {
        Some(result) => Ok(result.clone()),
        None => Err(failed(format!("bench {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))),
    }
}

fn per_second(result: &Value) -> f64 {
    result["throughput_per_s"].as_f64().unwrap_or_default()
}

fn p50_ms(result: &Value) -> f64 {
    result["scheduled_us"]["p50"].as_f64().unwrap_or_default() / 1e3
}

/// The end of the log of the only database, and the bytes that are left of it.
fn log_of(status: &ClusterStatus) -> (u64, u64) {
    status.databases.first().map_or((0, 0), |database| (database.end.unwrap_or(0), database.log_bytes.unwrap_or(0)))
}

fn median_ms(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

/// The medians of figures that are compared with each other; `measure` is told which one it is.
fn in_turn<const N: usize>(mut measure: impl FnMut(usize) -> Result<f64>) -> Result<[f64; N]> {
    let mut rounds: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (which, values) in rounds.iter_mut().enumerate() {
            values.push(measure(which)?);
        }
    }
    Ok(rounds.map(|mut values| {
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    }))
}

pub(crate) fn run(args: &ClusterArgs) -> Result<()> {
    // What cannot be written is told before minutes of work, and not behind them.
    let file = args.json.as_ref().map(|file| fs::File::create(file).map_err(Failure::io("cannot write", file)));
    let mut file = file.transpose()?;
    let stays = args.dir.is_some();
    let default = || std::env::temp_dir().join(format!("colibri-bench-cluster-{}", std::process::id()));
    let place = Place { dir: args.dir.clone().unwrap_or_else(default), stays };
    fs::create_dir_all(&place.dir).map_err(io_failed("the directory cannot be made"))?;
    let mut processes = Processes(Vec::new());
    let figures = measure(args, &place.dir, &mut processes)?;
    drop(processes);
    print(&figures)?;
    let (Some(file), Some(path)) = (&mut file, &args.json) else { return Ok(()) };
    let all: Vec<Value> = figures
        .iter()
        .map(|figure| json!({ "what": figure.what, "value": figure.value, "unit": figure.unit, "goal": figure.goal }))
        .collect();
    let text = serde_json::to_string_pretty(&all).expect("names and numbers are JSON");
    file.write_all((text + "\n").as_bytes()).map_err(Failure::io("cannot write", path))
}

fn print(figures: &[Figure]) -> Result<()> {
    let mut rows = vec![["what", "value", "unit", "goal"].map(str::to_owned)];
    rows.extend(figures.iter().map(|figure| {
        let digits = if figure.value < 10.0 { 3 } else { 0 };
        [figure.what.to_owned(), format!("{:.digits$}", figure.value), figure.unit.to_owned(), figure.goal.to_owned()]
    }));
    let mut text = Vec::new();
    crate::columns::print(&rows, 1, &mut text).expect("memory takes what is written");
    io::stdout().lock().write_all(&text).map_err(Failure::Output)
}

fn measure(args: &ClusterArgs, dir: &Path, processes: &mut Processes) -> Result<Vec<Figure>> {
    let say = |what: &str| eprintln!("bench cluster: {what}");
    let time = args.duration;
    say("three etcd, three servers, and one without a cluster");
    let address = processes.start_etcd(&args.etcd, dir)?;
    let mut servers = Vec::new();
    for name in ["n1", "n2", "n3"] {
        servers.push(processes.start_server(name, dir, Some(&address))?);
    }
    let alone = processes.start_server("alone", dir, None)?;
    let leader_now = || {
        let status = cluster_status(&address).ok()?;
        status.databases.first()?.leader.clone()
    };
    let leader = until("somebody leads", leader_now)?;
    let place_of = |name: &str| servers.iter().position(|server| server.name == name);
    let leader = place_of(&leader).ok_or_else(|| failed("the leader is none of the three"))?;
    let standby = (leader + 1) % 3;
    let (leading, following) = (&servers[leader], &servers[standby]);

    // What is measured on, which the standby has then.
    let file = |name: &str, text: &str| {
        let path = dir.join(name);
        fs::write(&path, text).map_err(Failure::io("cannot write", &path)).map(|()| path.to_string_lossy().into_owned())
    };
    let (setup, insert, select) = (file("setup.sql", SETUP)?, file("insert.sql", INSERT)?, file("select.sql", SELECT)?);
    for server in [leading, &alone] {
        bench(dir, &["script", "load", "--setup", &setup, "--file", &select, "--target", &server.url()], time)
            .or_else(
                // A step that only loads has no result.
                |failure| {
                    Connection::open(server.port)
                        .and_then(|mut it| it.run("TABLE points"))
                        .map_or(Err(failure), |()| Ok(Value::Null))
                },
            )?;
    }
    until("the standby has the rows", || {
        Connection::open(following.port).ok()?.run("SELECT 1 / count(*) FROM points").ok()
    })?;
    let script = |server: &Server, file: &str, clients: u32, time: Duration| {
        let (url, clients) = (server.url(), clients.to_string());
        bench(dir, &["script", "run", "--file", file, "--target", &url, "--clients", &clients], time)
    };
    let round = (time / ROUNDS).max(Duration::from_secs(1));
    let status = || cluster_status(&address).map_err(Failure::from);

    say("one client");
    let (end_before, bytes_before) = log_of(&status()?);
    script(leading, &insert, 1, round)?;
    let (end_after, bytes_after) = log_of(&status()?);
    let entries = end_after.saturating_sub(end_before).max(1);
    // If the log was trimmed meanwhile, the text's length has to do.
    let entry_bytes =
        bytes_after.checked_sub(bytes_before).map_or(1_000, |bytes| (bytes / entries).clamp(500, 4_000)) as usize;
    let measured = address.replace("/bench", "/measure");
    let [one_ms, raw_ms] = in_turn(|which| match which {
        0 => script(leading, &insert, 1, round).map(|result| p50_ms(&result)),
        _ => Ok(median_ms(&mut append_times(&measured, entry_bytes, round)?)),
    })?;
    let (end_one, _) = log_of(&status()?);

    say("128 clients");
    let used = || (processes.etcd_time(), leading.processor_time(), servers.iter().map(Server::processor_time).sum());
    let before: (Duration, Duration, Duration) = used();
    let many = script(leading, &insert, MANY, time)?;
    let after = used();
    let (end_many, _) = log_of(&status()?);
    let seconds = many["seconds"].as_f64().unwrap_or(1.0).max(0.1);
    // The warm-up is a second as well.
    let groups_per_s = end_many.saturating_sub(end_one) as f64 / (seconds + 1.0);
    let us_a_commit = |used: Duration| used.as_secs_f64() * 1e6 / (per_second(&many) * (seconds + 1.0)).max(1.0);
    let (etcd_us, leader_us) = (us_a_commit(after.0 - before.0), us_a_commit(after.1 - before.1));
    let standbys_us = us_a_commit((after.2 - before.2).saturating_sub(after.1 - before.1));
    let bytes_per_s = per_second(&many) * entry_bytes as f64;
    let group_bytes = ((bytes_per_s / groups_per_s.max(1.0)) as usize).clamp(entry_bytes, 1 << 20);
    let grouped = append_times(&measured, group_bytes, time)?;
    let raw_bytes_per_s = group_bytes as f64 * grouped.len() as f64 / time.as_secs_f64();

    say("point reads");
    let [reads_alone, reads_leading, reads_following] = in_turn(|which| {
        let server = [&alone, leading, following][which];
        script(server, &select, 8, round).map(|result| per_second(&result))
    })?;

    say("TPC-C");
    let tpcc = |server: &Server, warehouses: &str, clients: &str, database: &str| {
        let url = server.url_of(database);
        let mut arguments = vec!["tpcc", "--warehouses", warehouses, "--no-wait", "--clients", clients];
        arguments.extend(["--target", &url]);
        arguments.extend(args.miniature.then_some("--miniature"));
        bench(dir, &arguments, time)
    };
    let tpcc_alone = per_second(&tpcc(&alone, "1", "8", "postgres")?);
    let used = || (leading.processor_time(), following.processor_time());
    let etcd_bytes = || status().map(|status| status.etcd.map_or(0, |etcd| etcd.bytes));
    let (before, etcd_before) = (used(), etcd_bytes()?);
    let tpcc_leading = per_second(&tpcc(leading, "1", "8", "postgres")?);
    let (after, etcd_after) = (used(), etcd_bytes()?);
    let (leader_used, standby_used) = (after.0 - before.0, after.1 - before.1);
    say("TPC-C with ten clients a warehouse");
    for server in [leading, &alone] {
        let made = Connection::open(server.port).and_then(|mut it| it.run("CREATE DATABASE tpcc"));
        made.map_err(io_failed("a database cannot be made"))?;
    }
    move_database(&address, "tpcc", leading.name, READY_MAX).map_err(Failure::from)?;
    let ten_alone = per_second(&tpcc(&alone, "4", "40", "tpcc")?);
    let ten_leading = per_second(&tpcc(leading, "4", "40", "tpcc")?);

    say("hand-overs");
    let waits = hand_overs(&address, leading, following)?;
    say("a leader that is killed");
    let fail_over = fail_over(&address, &servers, processes)?;

    let ratio = |value: f64, to: f64| if to > 0.0 { value / to } else { 0.0 };
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let figure = |what, value, unit, goal| Figure { what, value, unit, goal };
    Ok(vec![
        figure("an entry of one commit", entry_bytes as f64, "B", ""),
        figure("raw fenced append, p50", raw_ms, "ms", ""),
        figure("replicated commit, one client, p50", one_ms, "ms", ""),
        figure("commit / raw append", ratio(one_ms, raw_ms), "", "at most 1.3"),
        figure("raw grouped append", raw_bytes_per_s / 1e6, "MB/s", ""),
        figure("128 clients", bytes_per_s / 1e6, "MB/s", ""),
        figure("128 clients, commits", per_second(&many), "/s", ""),
        figure("128 clients / raw grouped append", ratio(bytes_per_s, raw_bytes_per_s), "", "at least 0.9"),
        figure("processor time of a commit: etcd, three members", etcd_us, "us", ""),
        figure("processor time of a commit: leader", leader_us, "us", ""),
        figure("processor time of a commit: two standbys", standbys_us, "us", ""),
        figure("TPC-C without a cluster, 1 warehouse, 8 clients", tpcc_alone, "/s", ""),
        figure("TPC-C through the leader, 1 warehouse, 8 clients", tpcc_leading, "/s", ""),
        figure("leader / without a cluster, 1 warehouse", ratio(tpcc_leading, tpcc_alone), "", "at least 0.4"),
        figure("TPC-C without a cluster, 4 warehouses, 40 clients", ten_alone, "/s", ""),
        figure("TPC-C through the leader, 4 warehouses, 40 clients", ten_leading, "/s", ""),
        figure("leader / without a cluster, 4 warehouses", ratio(ten_leading, ten_alone), "", "at least 0.4"),
        figure("point reads without a cluster", reads_alone, "/s", ""),
        figure("leader / without a cluster, reads", ratio(reads_leading, reads_alone), "", "at least 0.95"),
        figure("standby / without a cluster, reads", ratio(reads_following, reads_alone), "", "at least 0.95"),
        figure(
            "processor time of standby / leader, TPC-C",
            ratio(ms(standby_used), ms(leader_used)),
            "",
            "at most 0.5",
        ),
        figure("etcd before TPC-C", etcd_before as f64 / 1e6, "MB", ""),
        figure("etcd after TPC-C", etcd_after as f64 / 1e6, "MB", "flat over an hour"),
        figure("planned hand-over, longest wait of a statement", ms(waits), "ms", "at most 500"),
        figure("first write after kill -9 of the leader", ms(fail_over), "ms", "at most 6000"),
    ])
}

/// Moves the leadership to and fro while a client writes; the longest statement. An error ends it.
fn hand_overs(address: &str, leading: &Server, following: &Server) -> Result<Duration> {
    let mut writer = Connection::open(leading.port).map_err(io_failed("no connection"))?;
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let began = Instant::now();
                writer.run("INSERT INTO commits (y) VALUES ('moved')")?;
                longest = longest.max(began.elapsed());
            }
            Ok::<_, io::Error>(longest)
        });
        let mut moved = Ok(());
        for server in [following, leading, following, leading] {
            moved = moved.and_then(|()| move_database(address, "postgres", server.name, READY_MAX));
            std::thread::sleep(Duration::from_millis(300));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        let longest = writing.join().map_err(|_| failed("the writer has panicked"))?;
        moved?;
        longest.map_err(io_failed("a hand-over was an error for a client"))
    })
}

/// Kills the leader; how long it takes until another one has committed something.
fn fail_over(address: &str, servers: &[Server], processes: &mut Processes) -> Result<Duration> {
    let leader = until("somebody leads", || cluster_status(address).ok()?.databases.first()?.leader.clone())?;
    let dead =
        servers.iter().find(|server| server.name == leader).ok_or_else(|| failed("the leader is none of the three"))?;
    let child = &mut processes.0[dead.at];
    child.kill().and_then(|()| child.wait()).map_err(io_failed("the leader cannot be killed"))?;
    let killed = Instant::now();
    let write = |server: &Server| {
        Connection::open(server.port).and_then(|mut it| it.run("INSERT INTO commits (y) VALUES ('after')"))
    };
    until("a write", || servers.iter().filter(|server| server.name != leader).find_map(|server| write(server).ok()))?;
    Ok(killed.elapsed())
}

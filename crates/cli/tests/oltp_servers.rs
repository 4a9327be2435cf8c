//! `colibri bench` and servers that are killed, that hang, and that are PostgreSQL.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const COLIBRI: &str = env!("CARGO_BIN_EXE_colibri");
const CONDITIONS: usize = 12;

fn bench(dir: &Path, args: &str) -> Command {
    let mut command = Command::new(COLIBRI);
    command.current_dir(dir).arg("bench").args(args.split_whitespace());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn succeed(dir: &Path, args: &str) -> String {
    let output = bench(dir, args).output().unwrap();
    assert!(output.status.success(), "{args}: {}\n{}", output.status, told(&output));
    told(&output)
}

/// All conditions hold.
#[track_caller]
fn check(dir: &Path, flags: &str) {
    let told = succeed(dir, &format!("tpcc check --miniature {flags}"));
    let holds = told.lines().filter(|line| line.starts_with("condition ") && line.ends_with(": holds")).count();
    assert_eq!(holds, CONDITIONS, "{told}");
}

/// Waits, for as long as something may take on a busy machine.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ends with the test, however that ends.
struct Process(Child);

impl Process {
    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(status.success(), "kill {signal}");
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A server of Colibri on a Unix socket in `dir`, with its data beside that.
fn serve(dir: &Path) -> Process {
    serve_with(dir, &[])
}

fn serve_with(dir: &Path, flags: &[&str]) -> Process {
    let socket = dir.join(".s.PGSQL.5432");
    _ = std::fs::remove_file(&socket);
    let mut command = Command::new(COLIBRI);
    command.current_dir(dir).args(["serve", "served", "--listen", "none", "--socket", "."]).args(flags);
    let server = Process(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until("the server listens", || socket.exists());
    server
}

fn url(dir: &Path) -> String {
    format!("--target postgres://postgres@/postgres?host={}", dir.display())
}

/// The number of all orders, by the districts' numbers. The database must not be open elsewhere.
fn orders(dir: &Path, database: &str) -> u64 {
    let sql = "SELECT sum(d_next_o_id) FROM district";
    let output = Command::new(COLIBRI).current_dir(dir).args(["sql", database, "-c", sql]).output().unwrap();
    let text = told(&output);
    let number = text.split(|character: char| !character.is_ascii_digit()).find(|digits| !digits.is_empty());
    number.unwrap_or_else(|| panic!("no number: {text}")).parse().unwrap()
}

#[test]
fn a_process_killed_in_the_middle_of_a_run_leaves_all_conditions_true() {
    let dir = tempfile::tempdir().unwrap();
    succeed(dir.path(), "tpcc load --miniature --dir data");
    let mut before = orders(dir.path(), "data");
    for round in 0..3 {
        let run = "tpcc run --miniature --dir data --no-wait --clients 8 --duration 60s --warmup 0s --no-control";
        let run = Process(bench(dir.path(), run).spawn().unwrap());
        std::thread::sleep(Duration::from_millis(1_000 + 370 * round));
        run.kill();
        check(dir.path(), "--dir data");
        let after = orders(dir.path(), "data");
        assert!(after > before, "round {round}: it was killed before it did anything");
        before = after;
    }
}

#[test]
fn a_server_killed_in_the_middle_of_a_run_loses_nothing_and_the_run_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (database, url) = ("served/databases/postgres", url(dir.path()));
    let mut server = serve(dir.path());
    succeed(dir.path(), &format!("tpcc load --miniature {url}"));
    for round in 0..2 {
        server.signal("-TERM");
        until("the server ends", || server.0.try_wait().unwrap().is_some());
        let before = orders(dir.path(), database);
        server = serve(dir.path());

        let run = "tpcc run --miniature --no-wait --clients 8 --duration 60s --warmup 0s --timeout 3s --no-control --json r.json";
        let run = bench(dir.path(), &format!("{run} {url}")).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(2_000 + 370 * round));
        server.kill();
        let killed = Instant::now();
        let output = run.wait_with_output().unwrap();
        let text = told(&output);
        assert!(killed.elapsed() < Duration::from_secs(30), "it takes {:?} to notice", killed.elapsed());
        assert!(
            !output.status.success() && text.contains("NOT VALID: the target cannot be reached any more"),
            "{text}"
        );

        // What was acknowledged is there; of what was under way at the end at most one transaction
        // a client more.
        let result: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(dir.path().join("r.json")).unwrap()).unwrap();
        let acknowledged = result[0]["kinds"][0]["committed"].as_u64().unwrap();
        let found = orders(dir.path(), database) - before;
        assert!(acknowledged > 0, "{text}");
        assert!((acknowledged..=acknowledged + 8).contains(&found), "{found} orders of {acknowledged} acknowledged");
        server = serve(dir.path());
        check(dir.path(), &url);
    }
}

#[test]
fn a_server_that_hangs_ends_the_run_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let url = url(dir.path());
    let server = serve(dir.path());
    succeed(dir.path(), &format!("tpcc load --miniature {url}"));
    let run = "tpcc --miniature --no-wait --clients 4 --duration 60s --warmup 0s --timeout 1s --no-control";
    let run = bench(dir.path(), &format!("{run} {url}")).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    server.signal("-STOP");
    let stopped = Instant::now();
    let output = run.wait_with_output().unwrap();
    server.signal("-CONT");
    let text = told(&output);
    assert!(stopped.elapsed() < Duration::from_secs(40), "it takes {:?} to notice", stopped.elapsed());
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("NOT VALID: the target") && text.contains("no answer within 1.0 s"), "{text}");
    assert!(text.contains("not checked"), "{text}");
}

/// A script of one statement that reads nothing, beside the server; its flags.
fn script(dir: &Path) -> String {
    std::fs::write(dir.join("r.sql"), "SELECT 1;\n").unwrap();
    format!("script run --file r.sql --warmup 0s --no-control {}", url(dir))
}

fn result(dir: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(dir.join("r.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap()[0].clone()
}

/// Bug: each client of a server that was killed failed once and waited for a connection until the
/// end of the run. Consequence: that is less than one in a hundred, and the result was valid. Fix:
/// a run in which the target was not there for long is not.
#[test]
fn a_run_whose_server_is_killed_before_its_end_is_not_valid() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path());
    let run = format!("{} --clients 16 --duration 5s --json r.json", script(dir.path()));
    let run = bench(dir.path(), &run).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(2_000));
    server.kill();
    let output = run.wait_with_output().unwrap();
    let text = told(&output);
    assert!(!output.status.success() && text.contains("NOT VALID: the target was not reachable for"), "{text}");
    assert!(result(dir.path())["unreachable_s"].as_f64().unwrap() > 1.0, "{text}");
    let timeline = result(dir.path())["timeline"].clone();
    assert!(timeline[0]["p99_us"].as_f64().unwrap() > 0.0 && timeline[4]["p99_us"].is_null(), "{timeline}");
}

/// Bug: what was under way, or due, when a run ended was not in its latency. Consequence: a server
/// that hung from the middle of a run on had good percentiles, and the result was valid. Fix: all
/// that was due is in it, and silence is a reason not to believe a result.
#[test]
fn a_run_whose_server_hangs_before_its_end_is_not_valid_and_its_latency_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path());
    for pacing in ["--clients 16", "--rate 500"] {
        let run = format!("{} {pacing} --duration 5s --timeout 6s --json r.json", script(dir.path()));
        let run = bench(dir.path(), &run).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(2_000));
        server.signal("-STOP");
        let output = run.wait_with_output().unwrap();
        server.signal("-CONT");
        let text = told(&output);
        assert!(!output.status.success() && text.contains("NOT VALID: the target answered nothing for"), "{text}");
        let latency = &result(dir.path())["scheduled_us"];
        let of = if pacing.contains("rate") { "p99" } else { "max" };
        assert!(latency[of].as_f64().unwrap() > 1e6, "{latency}");
    }
}

/// Bug: only transactions had a limit. Consequence: a load waited for ever for a server that had
/// stopped. Fix: `--timeout` holds there, too.
#[test]
fn a_load_ends_with_an_error_if_the_server_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path());
    let load = format!("ycsb load --records 1000000 --timeout 1s {}", url(dir.path()));
    let load = bench(dir.path(), &load).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    server.signal("-STOP");
    let stopped = Instant::now();
    let output = load.wait_with_output().unwrap();
    let text = told(&output);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("the server hangs") || text.contains("the server does not answer"), "{text}");
    assert!(stopped.elapsed() < Duration::from_secs(30), "it takes {:?} to notice", stopped.elapsed());
    // Data on a server that does not answer are not checked, either.
    let check = bench(dir.path(), &format!("ycsb check --timeout 1s {}", url(dir.path()))).output().unwrap();
    assert!(!check.status.success() && told(&check).contains("does not answer"), "{}", told(&check));
    server.signal("-CONT");
}

/// Bug: clients beyond what a server takes went on trying to connect. Consequence: the generator
/// did nothing else, and a hundredth of the throughput was called valid. Fix: they share the
/// connections there are, and the result says so.
#[test]
fn more_clients_than_a_server_takes_share_its_connections() {
    let dir = tempfile::tempdir().unwrap();
    let _server = serve_with(dir.path(), &["--max-connections", "10"]);
    let run = |clients: u32| {
        let run = format!("{} --clients {clients} --duration 2s --json r.json", script(dir.path()));
        let told = succeed(dir.path(), &run);
        (result(dir.path())["throughput_per_s"].as_f64().unwrap(), told)
    };
    let (few, _) = run(9);
    let (many, told) = run(1_000);
    assert!(told.contains("connections of 1,000 clients: the server takes no more"), "{told}");
    assert!(many > few / 4.0, "{many} a second with a thousand clients, {few} with nine");
}

/// Bug: the process of `--server-pid` need not have been there. Consequence: a valid result with a
/// server that cost nothing. Fix: it has to be there from the begin to the end, and be a server's.
#[test]
fn costs_of_a_server_are_those_of_a_process_that_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut gone = Process(Command::new("true").spawn().unwrap());
    gone.0.wait().unwrap();
    let pid = gone.0.id();
    let run = format!("{} --duration 3s --clients 2", script(dir.path()));
    let server = serve(dir.path());
    let refused = bench(dir.path(), &format!("{run} --server-pid {pid}")).output().unwrap();
    assert!(
        !refused.status.success() && told(&refused).contains(&format!("--server-pid {pid}: there is no such process"))
    );
    let in_process = format!("ycsb --records 100 --duration 100ms --server-pid {}", server.0.id());
    let refused = bench(dir.path(), &in_process).output().unwrap();
    assert!(!refused.status.success() && told(&refused).contains("--server-pid is for a server"), "{}", told(&refused));

    let other = Process(Command::new("sleep").arg("60").spawn().unwrap());
    let run = bench(dir.path(), &format!("{run} --json r.json --server-pid {}", other.0.id())).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    other.kill();
    let output = run.wait_with_output().unwrap();
    assert!(!output.status.success() && told(&output).contains("of --server-pid has ended"), "{}", told(&output));
    assert!(result(dir.path())["cost"]["cpu_us_per_txn"].is_null());
}

/// The directory of PostgreSQL's programs, if it is installed.
fn postgresql() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten();
    let debian = debian.flatten().map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = debian.chain(std::env::split_paths(&path)).find(|bin| bin.join("initdb").exists())?;
    // It does not run as root.
    let is_root = told(&Command::new("id").arg("-u").output().ok()?).trim() == "0";
    let has_user = || Command::new("id").arg("postgres").output().is_ok_and(|output| output.status.success());
    (!is_root || has_user()).then_some(found)
}

/// A server of PostgreSQL, started and stopped by the script that the matrix uses.
struct PostgreSql {
    dir: tempfile::TempDir,
    bin: PathBuf,
}

impl PostgreSql {
    /// None where it is not installed.
    fn start() -> Option<Self> {
        let bin = postgresql()?;
        let dir = tempfile::tempdir().unwrap();
        // Its user is another one.
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let server = Self { dir, bin };
        let output = server.script("start");
        assert!(output.status.success() && told(&output).contains("URL=postgres://"), "{}", told(&output));
        Some(server)
    }

    fn script(&self, what: &str) -> Output {
        Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/bench-server"))
            .args([what, "postgresql"])
            .env("BENCH_DIR", self.dir.path().join("servers"))
            .env("BENCH_ANY_DISK", "yes")
            .env("PGBIN", &self.bin)
            .output()
            .unwrap()
    }
}

impl Drop for PostgreSql {
    fn drop(&mut self) {
        _ = self.script("stop");
    }
}

#[test]
fn postgresql_runs_the_same_data_and_transactions() {
    let Some(server) = PostgreSql::start() else {
        eprintln!("SKIPPED: PostgreSQL is not installed");
        return;
    };
    let dir = server.dir.path();
    let url = url(&dir.join("servers"));
    let quick = "--clients 8 --duration 1500ms --warmup 100ms --no-control";
    let told = succeed(dir, &format!("tpcc --miniature --no-wait {quick} {url} --json r.json"));
    assert!(told.contains("acknowledged NewOrders are there, and no others") && told.contains("PostgreSQL"), "{told}");
    let result: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(dir.join("r.json")).unwrap()).unwrap();
    let cost = &result[0]["cost"];
    // The result has all figures that it counts, and no others.
    assert!(
        cost["row_bytes_per_txn"].as_f64().unwrap() > 100.0 && cost["disk_bytes"].as_u64().unwrap() > 1 << 20,
        "{cost}"
    );
    check(dir, &url);
    for isolation in ["repeatable-read", "serializable"] {
        succeed(dir, &format!("tpcc run --miniature --no-wait {quick} --isolation {isolation} --retries 1000 {url}"));
    }
    check(dir, &url);
    for letter in ["a", "d", "e", "f"] {
        succeed(dir, &format!("ycsb --workload {letter} --records 500 {quick} {url}"));
    }
    // TPC-C has a table of that name as well.
    assert!(server.script("start").status.success());
    succeed(dir, &format!("stock --workload put-rand-order {quick} {url}"));
}

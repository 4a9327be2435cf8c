//! What the server costs while nothing is asked of it: nothing but memory, and little of that.

use std::time::{Duration, Instant};

use super::support::{Server, Wire};

/// Context switches of all threads, CPU time in clock ticks, bytes written.
fn costs(pid: u32) -> (u64, u64, u64) {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let (mut switches, mut ticks) = (0, 0);
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let task = task.unwrap().path();
        for line in read(format!("{}/status", task.display())).lines() {
            if line.contains("ctxt_switches") {
                switches += line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
            }
        }
        let stat = read(format!("{}/stat", task.display()));
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        ticks += fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    }
    let io = read(format!("/proc/{pid}/io"));
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap();
    (switches, ticks, written)
}

fn assert_quiet(server: &Server, seconds: u64, what: &str) {
    let before = costs(server.pid());
    std::thread::sleep(Duration::from_secs(seconds));
    assert_eq!(costs(server.pid()), before, "{what}: context switches, ticks of CPU, bytes written");
}

#[test]
fn nothing_wakes_up_and_nothing_is_written_while_nobody_asks() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[("metrics", "127.0.0.1:0"), ("keep_ms", "100")]);
    let mut clients: Vec<Wire> = (0..20).map(|_| server.connect()).collect();
    clients[0].run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)");
    for client in &mut clients {
        assert_eq!(client.value("SELECT a FROM t"), "1");
        client.run("LISTEN c");
    }
    clients[0].run("NOTIFY c, 'once'");
    super::web::get(server.metrics.unwrap(), "/metrics");
    // The steady point behind the last commit comes within ten seconds, threads for blocking calls
    // go after one.
    std::thread::sleep(Duration::from_secs(13));
    assert_quiet(&server, 3, "with clients that wait");
    drop(clients);
    std::thread::sleep(Duration::from_secs(2));
    assert_quiet(&server, 3, "without clients");
}

/// Bug: the C library keeps what a thread has freed while the thread is there. Consequence: a
/// server that nobody used any more held tens of megabytes of nothing after a load. Fix: when it
/// closes a database it has them given back.
#[test]
#[cfg(target_env = "gnu")]
fn memory_is_given_back_when_nobody_uses_the_database_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[("keep_ms", "100")]);
    let mut clients: Vec<Wire> = (0..2).map(|_| server.connect()).collect();
    clients[0].run("CREATE TABLE t (a int PRIMARY KEY, b text)");
    clients[0].run("INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 300000) g");
    let mut used_kb = 0;
    for client in &mut clients {
        // Rows in memory, in many pieces.
        assert_eq!(client.value("SELECT count(*) FROM (SELECT DISTINCT b || a FROM t) s"), "300000");
        used_kb = used_kb.max(server.status("RssAnon"));
    }
    drop(clients);
    let until = Instant::now() + Duration::from_secs(20);
    while server.status("RssAnon") > used_kb / 2 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let left_kb = server.status("RssAnon");
    println!("{used_kb} kB, then {left_kb} kB");
    assert!(used_kb > 16_000, "{used_kb} kB: the load is too small to tell");
    assert!(left_kb <= used_kb / 2, "{used_kb} kB, then {left_kb} kB");
}

/// Memory of idle connections, in bytes each.
fn idle_connections(count: usize, bytes_max: u64) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[("connections", &(count + 10).to_string())]);
    let mut first = server.connect();
    first.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)");
    let before = server.status("RssAnon");
    let mut wires = Vec::with_capacity(count);
    for _ in 0..count {
        let mut wire = server.connect();
        wire.run("SELECT 1");
        wires.push(wire);
    }
    let after = server.status("RssAnon");
    let each = (after - before) * 1024 / count as u64;
    println!("{count} idle connections: {after} kB, {each} bytes each");
    assert!(each <= bytes_max, "{each} bytes each");
    assert_eq!(first.value("SELECT a FROM t"), "1");
}

#[test]
fn five_hundred_idle_connections_take_little_memory() {
    // 200 MB for 10,000.
    idle_connections(500, 20_000);
}

#[test]
#[ignore = "10,000 connections need 20,000 descriptors: ulimit -n 25000"]
fn ten_thousand_idle_connections_take_at_most_200_megabytes() {
    idle_connections(10_000, 20_000);
}

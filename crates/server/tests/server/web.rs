//! Metrics and the dashboard.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use super::support::Server;

/// What a path gives, without its head.
pub(crate) fn get(address: SocketAddr, path: &str) -> String {
    let answer = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    body.to_owned()
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn server() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[("metrics", "127.0.0.1:0"), ("slow_ms", "1")]);
    let mut wire = server.connect();
    wire.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t SELECT * FROM generate_series(1, 1000)");
    wire.query("SELECT 1/0").unwrap_err();
    wire.run("SELECT count(*) FROM generate_series(1, 200000) /* a slow one */");
    (dir, server)
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let (_dir, server) = server();
    let _wire = server.connect();
    // The one before has gone, which the server may not have heard yet.
    let one = "colibri_sessions{state=\"idle\"} 1\n";
    super::support::until("one session is idle", || get(server.metrics.unwrap(), "/metrics").contains(one));
    let text = get(server.metrics.unwrap(), "/metrics");
    let mut families = std::collections::HashSet::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(family.split(' ').next().unwrap().to_owned()), "twice: {line}");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("colibri_") && value.parse::<f64>().is_ok(), "{line}");
        }
    }
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("{name}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(value("colibri_errors_total"), 1.0);
    assert!(value("colibri_statement_seconds_count") >= 3.0);
    assert!(value("colibri_database_commits_total{database=\"postgres\"}") >= 1.0);
    assert!(value("colibri_database_file_bytes{database=\"postgres\"}") > 0.0);
}

#[test]
fn health_is_told_and_anything_else_is_refused() {
    let (_dir, server) = server();
    let address = server.metrics.unwrap();
    assert_eq!(get(address, "/healthz"), "ok\n");
    let status = |request: &str| ask(address, request).split(' ').nth(1).unwrap().to_owned();
    assert_eq!(status("GET /nope HTTP/1.0\r\n\r\n"), "404");
    // Bug: a name that no database has was well. Consequence: a load balancer with a mistyped name
    // took every server. Fix: it is looked up.
    assert_eq!(status("GET /healthz?database=postgres HTTP/1.0\r\n\r\n"), "200");
    assert_eq!(status("GET /healthz?database=postgers HTTP/1.0\r\n\r\n"), "404");
    assert_eq!(status("POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\nx"), "405");
    assert_eq!(status("nonsense\r\n\r\n"), "400");
    let head = ask(address, "HEAD / HTTP/1.0\r\n\r\n");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn slow_statements_are_logged_and_remembered() {
    let (_dir, server) = server();
    // What it logs comes by a pipe.
    super::support::until("it is logged", || server.log().contains("slow_statement"));
    let status = get(server.metrics.unwrap(), "/status.json");
    assert!(status.contains("a slow one"), "{status}");
}

#[test]
fn the_dashboard_shows_what_happens_in_a_browser() {
    let (_dir, server) = server();
    let browsers = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let found = browsers.iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    let Some(browser) = found else {
        return super::support::skipped("the dashboard in a browser: no chromium is installed");
    };
    let profile = tempfile::tempdir().unwrap();
    let page = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{}/", server.metrics.unwrap()))
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.contains("data-ready=\"yes\""), "{page}");
    for shown in ["statements/s", "postgres", "a slow one", "batch"] {
        assert!(page.contains(shown), "{shown} is not there: {page}");
    }
}

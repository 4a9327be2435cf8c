//! The example that needs a server: Python with psycopg, as a user would run it. Those in Rust are
//! run by `cargo test` themselves.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server that ends with the test.
struct Server {
    child: Child,
    port: u16,
    log: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn start(dir: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_colibri"));
        command.args(["serve", "nest", "--listen", "127.0.0.1:0", "--log-format", "json"]).current_dir(dir);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let ready = lines.find(|line| line.contains("\"ready\"")).expect("it says that it is ready");
        let (_, rest) = ready.split_once("127.0.0.1:").unwrap_or_else(|| panic!("{ready}"));
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let log = std::thread::spawn(move || lines.for_each(drop));
        Self { child, port: digits.parse().unwrap(), log: Some(log) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
        if let Some(log) = self.log.take() {
            _ = log.join();
        }
    }
}

/// A Python with psycopg, installed into the build directory the first time; `None` where that
/// cannot be done.
fn python_with_psycopg() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("psycopg");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/clients/psycopg/install.sh");
    let output = Command::new("sh").arg(script).arg(&dir).output().unwrap();
    if !output.status.success() {
        eprintln!("NOT TESTED here, psycopg cannot be installed: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(dir.join("bin/python"))
}

#[test]
fn python_with_psycopg_gets_along_with_the_server() {
    let Some(python) = python_with_psycopg() else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../colibri/examples/with_psycopg.py");
    let conninfo = format!("host=127.0.0.1 port={} user=postgres", server.port);
    let output = Command::new(python).arg(example).arg(conninfo).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "feeder 1: 80 visits, 400 ml taken, 0 ml left\nfeeder 2: 0 visits, 0 ml taken, 0 ml left\n");
}

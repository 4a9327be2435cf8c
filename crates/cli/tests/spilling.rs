//! Temporary files of a process that is killed: they have no names, so nothing is left of them.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn sql(dir: &Path, texts: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_colibri"));
    command.args(["sql", "birds"]).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
    texts.iter().for_each(|text| _ = command.args(["-c", text]));
    command
}

/// Files of a database that have no name and that a process has open.
fn nameless(pid: u32, dir: &Path) -> usize {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let targets = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let is_one = |target: &Path| target.starts_with(dir) && target.to_string_lossy().ends_with("(deleted)");
    targets.filter(|target| is_one(target)).count()
}

fn names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_process_that_is_killed_leaves_no_temporary_file() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().canonicalize().unwrap();
    let create = "CREATE TABLE t AS SELECT i, md5(i::text) AS s FROM generate_series(1, 20000) i";
    assert!(sql(&dir, &[create]).status().unwrap().success());
    let before = names(&dir.join("birds"));
    let long =
        "SELECT count(*) FROM (SELECT a.s, b.i FROM t a, generate_series(1, 1000) b(i) ORDER BY a.s, b.i OFFSET 1) x";
    let mut child = sql(&dir, &["SET work_mem = '1MB'", long]).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while nameless(child.id(), &dir.join("birds")) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it ended without a temporary file");
        assert!(began.elapsed() < Duration::from_secs(60), "it makes no temporary file");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let left: Vec<String> = names(&dir.join("birds")).difference(&before).cloned().collect();
    // What processes share, and the log, are there while one is at work.
    let known = ["lock", "log.0", "log.1", "sql.lock", "sql.sock"];
    assert!(left.iter().all(|name| known.contains(&name.as_str())), "{left:?}");
    assert!(sql(&dir, &["SELECT count(*) FROM t"]).status().unwrap().success());
}

//! The clients and libraries that people use, unmodified. Each is installed by its own package manager into the build
//! directory; where that cannot be done the test says so and is skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::support::{Server, tools_dir};

fn server() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[("connections", "40")]);
    (dir, server)
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// A command with the environment that PostgreSQL's clients look at.
fn client(server: &Server, program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", server.address.port().to_string())
        .env("PGUSER", "postgres")
        .env("PGDATABASE", "postgres")
        .env("PGSSLMODE", "disable")
        .env_remove("PGPASSWORD");
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs the script that installs a client; where that is, or `None` if it cannot be had here.
fn installed(name: &str) -> Option<PathBuf> {
    let dir = tools_dir().join(name);
    let output = Command::new("sh").arg(scripts().join(name).join("install.sh")).arg(&dir).output();
    match output {
        Ok(output) if output.status.success() => Some(dir),
        Ok(output) => {
            eprintln!("SKIPPED: {name} cannot be installed here:\n{}", said(&output));
            None
        }
        Err(error) => {
            eprintln!("SKIPPED: {name} cannot be installed here: {error}");
            None
        }
    }
}

/// Runs a client's test program, which ends with `ok`.
fn passes(name: &str) {
    let Some(dir) = installed(name) else { return };
    let (_dir, server) = server();
    let mut command = client(&server, Path::new("sh"));
    let output = command.arg(scripts().join(name).join("run.sh")).arg(&dir).output().unwrap();
    let said = said(&output);
    assert!(output.status.success() && said.trim_end().ends_with("ok"), "{said}\n{}", server.log());
    assert!(!server.log().contains("panic"), "{}", server.log());
}

#[test]
fn psycopg_works() {
    passes("psycopg");
}

#[test]
fn node_postgres_works() {
    passes("node-postgres");
}

#[test]
fn pgx_works() {
    passes("pgx");
}

#[test]
fn lib_pq_works() {
    passes("lib-pq");
}

#[test]
fn pgjdbc_works() {
    passes("pgjdbc");
}

fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("SKIPPED: {program} is not installed (Debian: postgresql-client, postgresql-contrib)");
    }
    is_there
}

#[test]
fn psql_runs_scripts_shows_errors_and_copies() {
    if !has("psql") {
        return;
    }
    let (_dir, server) = server();
    let run = |args: &[&str], input: &str| {
        use std::io::Write;
        let mut command = client(&server, Path::new("psql"));
        let mut child = command
            .args(["-X", "-At", "-v", "ON_ERROR_STOP=1"])
            .args(args)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let script = "CREATE TABLE t (a int PRIMARY KEY, b text);\nCOPY t FROM STDIN;\n1\tone\n2\t\\N\n\\.\n\
                  SELECT count(*), max(b) FROM t;\n\\copy t to pstdout csv\nBEGIN; DELETE FROM t; ROLLBACK;\n\
                  SELECT count(*) FROM t \\gset n_\n\\echo :n_count\n";
    let output = run(&[], script);
    assert_eq!(said(&output), "CREATE TABLE\nCOPY 2\n2|one\n1,one\n2,\nBEGIN\nDELETE 2\nROLLBACK\n2\n");
    let names = run(&["-c", "SELECT 'int4'::regtype, 't'::regclass, pg_typeof(1.0)"], "");
    assert_eq!(said(&names), "integer|t|numeric\n");
    let output = run(&["-c", "SELECT a,\n  nope FROM t"], "");
    assert_eq!(said(&output), "ERROR:  column \"nope\" does not exist\nLINE 2:   nope FROM t\n          ^\n");
    let output = run(&["-c", "INSERT INTO t VALUES (1)"], "");
    assert!(said(&output).contains("duplicate key value violates unique constraint"), "{}", said(&output));
}

#[test]
fn pgbench_runs_in_every_mode_without_a_failed_transaction() {
    if !has("pgbench") {
        return;
    }
    let (_dir, server) = server();
    let run = |args: &[&str]| {
        let output = client(&server, Path::new("pgbench")).args(args).output().unwrap();
        let said = said(&output);
        assert!(output.status.success(), "{args:?}: {said}\n{}", server.log());
        said
    };
    run(&["-i", "-s", "1", "-q"]);
    let mut runs = 0;
    for mode in ["simple", "extended", "prepared"] {
        for script in ["tpcb-like", "simple-update", "select-only"] {
            let said = run(&["-n", "-M", mode, "-b", script, "-c", "4", "-j", "2", "-t", "50"]);
            assert!(said.contains("number of failed transactions: 0 "), "{mode} {script}: {said}");
            runs += if script == "tpcb-like" { 200 } else { 0 };
        }
    }
    let mut wire = server.connect();
    // Each transaction has written its line, and sums agree.
    let updates = wire.value("SELECT count(*) FROM pgbench_history").parse::<u32>().unwrap();
    assert_eq!(updates, 2 * runs);
    assert_eq!(
        wire.value("SELECT sum(abalance) FROM pgbench_accounts"),
        wire.value("SELECT sum(delta) FROM pgbench_history")
    );
}

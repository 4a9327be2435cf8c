//! The clients and libraries that people use, unmodified. Each is installed by its own package
//! manager into the build directory; where that cannot be done the test says so and is skipped.

use std::process::Command;

use super::support::{RUN_SECONDS_MAX, Server, installed, postgresql, said, scripts, within};

fn server() -> (tempfile::TempDir, Server) {
    server_with(&[])
}

fn server_with(options: &[(&str, &str)]) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[&[("connections", "40")], options].concat());
    (dir, server)
}

/// Gives a command the environment that PostgreSQL's clients look at.
fn client(server: &Server, mut command: Command) -> Command {
    command
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", server.address.port().to_string())
        .env("PGUSER", "postgres")
        .env("PGDATABASE", "postgres")
        .env("PGSSLMODE", "disable")
        .env_remove("PGPASSWORD");
    command
}

/// What a client said that had to succeed.
fn ran(server: &Server, command: Command, args: &[&str]) -> String {
    let output = client(server, command).args(args).output().unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{args:?}: {said}\n{}", server.log());
    said
}

/// Runs a client's test program, which ends with `ok`.
fn passes(name: &str) {
    passes_with(name, &[]);
}

/// The same on a server with options.
fn passes_with(name: &str, options: &[(&str, &str)]) {
    let Some(dir) = installed(name) else { return };
    let (_dir, server) = server_with(options);
    let mut command = client(&server, within(RUN_SECONDS_MAX, "sh"));
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
fn psycopg2_works() {
    passes("psycopg2");
}

#[test]
fn asyncpg_works() {
    passes("asyncpg");
}

#[test]
fn postgres_js_works() {
    passes("postgres-js");
}

#[test]
fn pgcli_works() {
    passes("pgcli");
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

/// Frameworks of tests with a fresh database for each test, as `docs/TEST_DATABASES.md` shows them.
const EPHEMERAL: &[(&str, &str)] = &[("ephemeral", "model")];

#[test]
fn pytest_has_fresh_databases() {
    passes_with("fresh-pytest", EPHEMERAL);
}

#[test]
fn django_has_fresh_databases() {
    passes("fresh-django");
}

#[test]
fn junit_has_fresh_databases() {
    passes_with("fresh-junit", EPHEMERAL);
}

#[test]
fn go_has_fresh_databases() {
    passes_with("fresh-go", EPHEMERAL);
}

#[test]
fn node_has_fresh_databases() {
    passes_with("fresh-node", EPHEMERAL);
}

#[test]
fn psql_runs_scripts_shows_errors_and_copies() {
    let Some(psql) = postgresql("psql") else { return };
    let (_dir, server) = server();
    let run = |args: &[&str], input: &str| {
        use std::io::Write;
        let mut command = client(&server, psql());
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
fn psql_fetches_large_results_piece_by_piece() {
    let Some(psql) = postgresql("psql") else { return };
    let (_dir, server) = server();
    let mut command = client(&server, psql());
    // With FETCH_COUNT, psql declares a cursor and fetches from it.
    let output = command
        .args(["-X", "-At", "-v", "ON_ERROR_STOP=1", "-v", "FETCH_COUNT=1000"])
        .args(["-c", "SELECT n, repeat('x', 10) FROM generate_series(1, 12345) n"])
        .output()
        .unwrap();
    let said = said(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[12_344]), (12_345, "1|xxxxxxxxxx", "12345|xxxxxxxxxx"));
}

#[test]
fn pgbench_fails_no_transaction_where_all_change_the_same_rows() {
    let Some(pgbench) = postgresql("pgbench") else { return };
    let (dir, server) = server();
    let run = |args: &[&str]| ran(&server, pgbench(), args);
    run(&["-i", "-s", "1", "-q"]);
    let none_failed = |args: &[&str]| {
        let said = run(args);
        assert!(said.contains("number of failed transactions: 0 "), "{args:?}: {said}");
    };
    none_failed(&["-n", "-M", "prepared", "-c", "8", "-j", "2", "-t", "200"]);
    // What reads before it writes: as one text, and as one pipeline, it runs again unseen.
    let script = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let steps = [
        "SELECT sum(bbalance) FROM pgbench_branches",
        "UPDATE pgbench_branches SET bbalance = (SELECT bbalance FROM pgbench_branches WHERE bid = 1) + 1 WHERE bid = 1",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, 1, 1, CURRENT_TIMESTAMP)",
    ];
    let text = script("text.sql", &format!("{};\n", steps.join(" \\;\n")));
    let pipeline = script("pipeline.sql", &format!("\\startpipeline\n{};\n\\endpipeline\n", steps.join(";\n")));
    let before: i64 = server.connect().value("SELECT sum(bbalance) FROM pgbench_branches").parse().unwrap();
    none_failed(&["-n", "-M", "simple", "-f", &text, "-c", "8", "-j", "2", "-t", "50"]);
    none_failed(&["-n", "-M", "extended", "-f", &pipeline, "-c", "8", "-j", "2", "-t", "50"]);
    let after: i64 = server.connect().value("SELECT sum(bbalance) FROM pgbench_branches").parse().unwrap();
    assert_eq!(after - before, 800, "none is lost, and none is done twice");
}

#[test]
fn pgbench_runs_in_every_mode_without_a_failed_transaction() {
    let Some(pgbench) = postgresql("pgbench") else { return };
    let (_dir, server) = server();
    let run = |args: &[&str]| ran(&server, pgbench(), args);
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

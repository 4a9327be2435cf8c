//! Settings that a server keeps, in `colibri dump --sql`.

#![allow(clippy::unwrap_used, reason = "tests")]

mod served;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const PSQL: &str = "/usr/lib/postgresql/15/bin/psql";
const KEPT: &str = "SELECT coalesce(rolname, '') || '|' || (setdatabase <> 0)::text || '|' || array_to_string(setconfig, '; ') \
                    FROM pg_db_role_setting LEFT JOIN pg_roles r ON r.oid = setrole ORDER BY 1";

fn dumped(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_colibri")).arg("dump").args(args).arg("--sql").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn load(server: &served::Served, text: &str) {
    let mut child = Command::new(PSQL)
        .args(["-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h", "127.0.0.1"])
        .args(["-p", &server.address.port().to_string(), "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_dump_keeps_what_the_database_and_its_roles_begin_with() {
    if !Path::new(PSQL).exists() {
        _ = writeln!(std::io::stderr(), "SKIPPED: no psql to load a dump with");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let first = dir.path().join("first");
    let server = served::Served::start(&first);
    let mut client = server.connect("postgres");
    for statement in [
        "CREATE ROLE \"Odd one\" LOGIN",
        "CREATE TABLE t (a int)",
        "ALTER DATABASE postgres SET default_transaction_isolation = 'read committed'",
        "ALTER DATABASE postgres SET search_path TO 'A b', public",
        "ALTER ROLE \"Odd one\" SET search_path TO ''",
        "ALTER ROLE \"Odd one\" SET app.it TO $$it's$$",
        "ALTER ROLE \"Odd one\" IN DATABASE postgres SET timezone TO 'UTC'",
        "ALTER ROLE ALL SET work_mem = '64MB'",
    ] {
        client.run(statement).unwrap_or_else(|code| panic!("{code}: {statement}"));
    }
    let kept = client.run(KEPT).unwrap();
    assert_eq!(kept.len(), 4, "{kept:?}");
    drop(client);
    server.end();
    let (database, cluster) = (first.join("databases/postgres"), first.join("cluster"));
    let plain = dumped(&[database.to_str().unwrap()]);
    assert!(plain.contains("default_transaction_isolation") && !plain.contains("Odd one"), "{plain}");
    let all = dumped(&[database.to_str().unwrap(), "--roles", cluster.to_str().unwrap()]);
    for (name, text) in [("plain", &plain), ("all", &all)] {
        let server = served::Served::start(&dir.path().join(name));
        load(&server, text);
        let mut client = server.connect("postgres");
        assert_eq!(client.run("SHOW default_transaction_isolation").unwrap(), ["read committed"], "{name}");
        let loaded = client.run(KEPT).unwrap();
        if name == "plain" {
            assert_eq!(loaded.len(), 1, "{loaded:?}");
            assert!(kept.contains(&loaded[0]), "{loaded:?}");
        } else {
            assert_eq!(loaded, kept, "{text}");
        }
    }
}

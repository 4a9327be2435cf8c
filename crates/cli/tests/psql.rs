//! psql's backslash commands of PostgreSQL 15 on a database of everything that Colibri has:
//! `foreign/psql.txt` has the commands that show what they show on PostgreSQL, and those that
//! show something else but must not fail.
//!
//! Without PostgreSQL 15 the test passes visibly without testing.

#![allow(clippy::unwrap_used, reason = "tests")]

mod served;

use std::process::Command;

use served::Served;
use served::postgres::{PROGRAMS, Postgres};

const COMMANDS: &str = include_str!("foreign/psql.txt");

/// What a command writes, errors included.
fn shown(host: &str, port: &str, database: &str, args: &[&str]) -> String {
    let output = Command::new(format!("{PROGRAMS}/psql"))
        .args(["-X", "-h", host, "-p", port, "-U", "postgres", "-d", database])
        .args(args)
        .env("PGTZ", "UTC")
        .output()
        .unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Without blanks at the ends of lines.
fn trimmed(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.trim_end_matches(' ')).collect()
}

#[test]
fn the_commands_of_psql_show_what_they_show_on_postgresql() {
    let Some(postgres) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    let (ours, theirs) = ((served.address.ip().to_string(), served.address.port().to_string()), postgres.host());
    let on_ours = |database: &str, args: &[&str]| shown(&ours.0, &ours.1, database, args);
    let on_theirs = |database: &str, args: &[&str]| shown(&theirs, "5432", database, args);
    let foreign = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign");
    let (roles, everything) = (format!("{foreign}/roles.sql"), format!("{foreign}/everything.sql"));
    for run in [&on_ours as &dyn Fn(&str, &[&str]) -> String, &on_theirs] {
        run("postgres", &["-c", "CREATE DATABASE everything"]);
        let said = run("postgres", &["-q", "-f", &roles]) + &run("everything", &["-q", "-f", &everything]);
        assert!(!said.contains("ERROR"), "{said}");
    }
    let mut wrong = String::new();
    let lines: Vec<&str> = COMMANDS.lines().filter(|line| !line.starts_with('#')).collect();
    let parts: Vec<&[&str]> = lines.split(|line| line.is_empty()).collect();
    let [same, others] = parts[..] else { panic!("two parts") };
    for &command in same {
        let (ours, theirs) = (on_ours("everything", &["-c", command]), on_theirs("everything", &["-c", command]));
        if trimmed(&ours) != trimmed(&theirs) {
            wrong.push_str(&format!("{command}\n--- PostgreSQL\n{theirs}--- Colibri\n{ours}\n"));
        }
    }
    for &command in others {
        let ours = on_ours("everything", &["-c", command]);
        if ours.contains("ERROR") || ours.contains("invalid command") {
            wrong.push_str(&format!("{command}\n{ours}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

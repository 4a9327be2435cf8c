//! What unmodified clients ask of the catalogue: the texts that they send, and what PostgreSQL 15
//! answers on the same schema.
//!
//! `catalog/schema.sql` makes the schema. Each file `catalog/*.txt` has one client's statements:
//! ```text
//! # what made the client ask
//! the text, with {name} for the number of a relation
//! ----
//! rows as psql shows them unaligned, with tabs between columns
//! ```
//! An answer that begins with `@ours:` is ours where PostgreSQL's is another one, and says why;
//! `@runs:` says why only that there is an answer is checked.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use colibri_sql::{Copy, Datum, Engine, Session};
use colibri_storage::{Database, Durability, Options};

const SCHEMA: &str = include_str!("catalog/schema.sql");

fn open(dir: &std::path::Path) -> Arc<Engine> {
    Engine::open(Database::open(dir, &Options::new().durability(Durability::NoSync)).unwrap()).unwrap()
}

/// Puts numbers in the place of `{name}`.
fn numbered(session: &mut Session, text: &str) -> String {
    let mut out = text.to_owned();
    while let Some(start) = out.find('{') {
        let Some(length) = out[start..].find('}') else { break };
        let name = out[start + 1..start + length].to_owned();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') || name == "0" {
            // An array, not a name.
            out.replace_range(start..=start, "\u{1}");
            continue;
        }
        let number = session.run(&format!("SELECT to_regclass('{name}')::oid")).unwrap();
        match number[0].rows.row(0)[0] {
            Datum::Int(number) => out.replace_range(start..=start + length, &number.to_string()),
            _ => out.replace_range(start..=start, "\u{1}"),
        }
    }
    out.replace('\u{1}', "{")
}

/// The answer as psql shows it unaligned.
fn answer(session: &mut Session, text: &str) -> String {
    let answers = match session.run(text) {
        Ok(answers) => answers,
        Err(error) => return format!("ERROR {}: {error}\n", error.state().0),
    };
    let Some(last) = answers.last() else { return String::new() };
    let show = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
    let rows = last.text_rows(session).into_iter();
    rows.map(|row| row.into_iter().map(show).collect::<Vec<_>>().join("\t") + "\n").collect()
}

fn sorted(answer: &str) -> String {
    let mut lines: Vec<&str> = answer.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Asks what a client asks, and compares the answers.
fn check(file: &str, text: &str) {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir.path().join("cat"));
    let mut session = Session::new(&engine, "postgres");
    session.run(SCHEMA).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for block in text.split("\n# ") {
        let (why, rest) = block.split_once('\n').unwrap();
        let (query, expected) = rest.split_once("\n----\n").unwrap();
        let (runs_only, expected) = match expected.strip_prefix('@') {
            Some(ours) => (ours.starts_with("runs:"), ours.split_once('\n').map_or("", |(_, ours)| ours)),
            None => (false, expected),
        };
        let query = numbered(&mut session, query);
        let expected = numbered(&mut session, expected.trim_end_matches('\n'));
        let (mut expected, mut found) = (expected, answer(&mut session, &query).trim_end_matches('\n').to_owned());
        count += 1;
        if !query.to_ascii_uppercase().contains("ORDER BY") {
            (expected, found) = (sorted(&expected), sorted(&found));
        }
        let right = if runs_only { !found.starts_with("ERROR") } else { found == expected };
        if !right {
            wrong.push(format!("---- {file}: {why}\n{query}\n---- expected\n{expected}\n---- found\n{found}"));
        }
    }
    assert!(count > 0);
    assert!(wrong.is_empty(), "{}\n{} of {count} answers differ", wrong.join("\n"), wrong.len());
}

#[test]
fn psql_gets_the_answers_that_postgresql_gives() {
    check("psql", include_str!("catalog/psql.txt"));
}

#[test]
fn pgjdbc_gets_the_answers_that_postgresql_gives() {
    check("pgjdbc", include_str!("catalog/pgjdbc.txt"));
}

#[test]
fn sqlalchemy_gets_the_answers_that_postgresql_gives() {
    check("sqlalchemy", include_str!("catalog/sqlalchemy.txt"));
}

/// `pgbench -i` with foreign keys, and a transaction: the statements as it sends them, one a line.
#[test]
fn pgbench_fills_its_tables_and_runs() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::new(&open(dir.path()), "postgres");
    for statement in include_str!("catalog/pgbench.sql").lines() {
        if Session::is_copy(statement) {
            let Copy::From(mut copy) = session.copy(statement).unwrap() else { panic!("{statement}") };
            for aid in 1..=10 {
                session.copy_data(&mut copy, format!("{aid}\t1\t0\t\n").as_bytes()).unwrap();
            }
            session.copy_end(&mut copy).unwrap();
            continue;
        }
        let answers = session.run(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        if statement.contains("partitioned_table") {
            let row = answers[0].text_rows(&session);
            assert_eq!(row, [[Some("2".to_owned()), None, Some("0".to_owned())]]);
        }
    }
    let figures = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches), \
        (SELECT sum(delta) FROM pgbench_history)";
    let answers = session.run(figures).unwrap();
    assert_eq!(answers[0].rows.row(0), [Datum::Int(2852), Datum::Int(2852), Datum::Int(2852)]);
}

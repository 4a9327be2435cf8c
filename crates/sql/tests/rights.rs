//! Runs the sqllogictest files in `tests/rights`: grants, memberships, owners, and what comes of
//! them. They are of the form of those in `tests/slt`, but need roles, and so a cluster around the
//! session. PostgreSQL's answers: `tests/against-postgres --record tests/rights/FILE.sql`, which
//! writes to `tests/slt`: move the file here. `rights/random.py SEED COUNT` makes random ones.

#![allow(clippy::unwrap_used)]

mod cluster;

use std::path::Path;
use std::sync::Arc;

use cluster::InMemory;
use colibri_sql::{Engine, Session};
use colibri_storage::{Database, Durability, Options};
use sqllogictest::{Condition, DefaultColumnType, ExpectedError, QueryExpect, StatementExpect};

type Record = sqllogictest::Record<DefaultColumnType>;

fn shown(value: Option<String>) -> String {
    match value {
        None => "NULL".to_owned(),
        Some(text) if text.is_empty() => "(empty)".to_owned(),
        Some(text) => text.replace('\n', "\\n").replace('\t', "\\t"),
    }
}

/// What a statement gives, as the files have it: rows, nothing, or the error's code.
type Answer = Result<Vec<String>, String>;

fn answer(session: &mut Session, sql: &str) -> Answer {
    let answers = session.run(sql).map_err(|error| error.state().0.to_owned())?;
    let Some(last) = answers.last() else { return Ok(Vec::new()) };
    let rows = last.text_rows(session);
    Ok(rows.into_iter().map(|row| row.into_iter().map(shown).collect::<Vec<_>>().join("\t")).collect())
}

fn expected(record: &Record) -> Option<(&str, &[Condition], Answer)> {
    let code = |error: &ExpectedError| match error {
        ExpectedError::Inline(code) => code.to_string(),
        other => panic!("an error without a code: {other:?}"),
    };
    match record {
        Record::Statement { sql, conditions, expected, .. } => Some((
            sql,
            conditions,
            match expected {
                StatementExpect::Error(error) => Err(code(error)),
                _ => Ok(Vec::new()),
            },
        )),
        Record::Query { sql, conditions, expected, .. } => Some((
            sql,
            conditions,
            match expected {
                QueryExpect::Error(error) => Err(code(error)),
                QueryExpect::Results { results, .. } => Ok(results.clone()),
            },
        )),
        _ => None,
    }
}

fn run_file(path: &Path) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync);
    let engine = Engine::open(Database::open(dir.path().join("slt"), &options).unwrap()).unwrap();
    let cluster = InMemory::shared("slt");
    let mut session = Session::in_cluster(&Arc::clone(&engine), &cluster, "postgres", 7).unwrap();
    let mut failures = Vec::new();
    for record in sqllogictest::parse_file::<DefaultColumnType>(path).unwrap() {
        let Some((sql, conditions, wanted)) = expected(&record) else { continue };
        if conditions.iter().any(|condition| matches!(condition, Condition::SkipIf { label } if label == "colibri")) {
            continue;
        }
        let got = answer(&mut session, sql);
        let agrees = match (&wanted, &got) {
            (Err(wanted), Err(got)) => wanted.contains(got.as_str()),
            (wanted, got) => wanted == got,
        };
        if !agrees {
            failures.push(format!("{}: {sql}\n  PostgreSQL: {wanted:?}\n  here:       {got:?}", path.display()));
        }
    }
    failures
}

#[test]
fn rights_are_those_that_postgresql_gives() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rights");
    let chosen = std::env::var_os("COLIBRI_RIGHTS_DIR");
    let least = if chosen.is_some() { 1 } else { 2 };
    let dir = chosen.map_or(dir, Into::into);
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "slt"));
    files.sort();
    assert!(files.len() >= least, "{files:?}");
    let failures: Vec<String> = files.iter().flat_map(|path| run_file(path)).collect();
    assert!(failures.is_empty(), "{} records do not agree:\n{}", failures.len(), failures.join("\n"));
}

//! Runs the sqllogictest files in `tests/slt` against a database in a temporary directory; see
//! `slt/README.md` for how values and errors are written. `tests/against-postgres` runs the same
//! files against PostgreSQL.
//!
//! `COLIBRI_SLT=joins,casts` runs only these files, `COLIBRI_SLT_DIR` says where they are:
//! `generate-slt/fuzz.py` makes new ones. Records marked `skipif colibri` stand for what is not
//! supported; how many they are is printed at the end.
//!
//! `COLIBRI_SLT_COLUMNS=on` plans with every rewrite that is allowed, from one row on, so that all
//! groupings that can work on column vectors do; `off` plans the same, and works on rows.
//!
//! `slt_in_memory`, `slt_fetched` and `slt_from_disk` run them on other stores.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use colibri_sql::{Lifting, Session};
use colibri_storage::Durability;
use sqllogictest::{Condition, DBOutput, DefaultColumnType, Record, Runner};

mod stores;

/// Records that look at what only the storage engine has: the sizes of files.
const LOCAL_ONLY: [&str; 1] = ["pg_database_size(current_database()) > 0"];

/// What `skipif` calls us.
const LABEL: &str = "colibri";

/// An error as the files expect it: its code first.
#[derive(Debug)]
struct Failure(String);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

struct Connection(Session);

fn shown(value: Option<String>) -> String {
    match value {
        None => "NULL".to_owned(),
        Some(text) if text.is_empty() => "(empty)".to_owned(),
        Some(text) => text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t"),
    }
}

impl sqllogictest::DB for Connection {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<Self::ColumnType>, Self::Error> {
        let answers = self.0.run(sql).map_err(|error| Failure(format!("{}: {error}", error.state().0)))?;
        let Some(answer) = answers.last() else { return Ok(DBOutput::StatementComplete(0)) };
        if answer.columns.is_empty() && answer.rows.is_empty() {
            let count = answer.tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
            return Ok(DBOutput::StatementComplete(count));
        }
        let rows = answer.text_rows(&self.0);
        Ok(DBOutput::Rows {
            types: vec![DefaultColumnType::Any; answer.columns.len()],
            rows: rows.into_iter().map(|row| row.into_iter().map(shown).collect()).collect(),
        })
    }
}

/// As many transactions may be prepared as in the PostgreSQL that the files agree with.
const PREPARED_MAX: usize = 4;

/// What came of a file.
struct Outcome {
    run: usize,
    skipped: usize,
    failures: Vec<String>,
}

/// Whether a record is not for us.
fn is_skipped(record: &Record<DefaultColumnType>) -> bool {
    let (Record::Statement { conditions, .. } | Record::Query { conditions, .. }) = record else { return false };
    conditions.iter().any(|condition| matches!(condition, Condition::SkipIf { label } if label == LABEL))
}

/// Whether a record is not for the store that it is run on.
fn is_for_another_store(record: &Record<DefaultColumnType>) -> bool {
    let Record::Query { sql, .. } = record else { return false };
    !stores::is_local() && LOCAL_ONLY.iter().any(|part| sql.contains(part))
}

/// Whether a file has bodies of functions, which stores that fetch refuse.
fn has_bodies(path: &std::path::Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap().to_ascii_uppercase();
    ["FUNCTION ", "PROCEDURE ", "TRIGGER ", "DO $", "DO LANGUAGE"].iter().any(|word| {
        text.lines().any(|line| {
            line.starts_with(&format!("CREATE {word}"))
                || line.starts_with(&format!("CREATE OR REPLACE {word}"))
                || word.starts_with("DO") && line.starts_with(word)
        })
    })
}

/// Runs one file.
fn run_file(path: &std::path::Path, lifting: Lifting) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _) = stores::open(&dir.path().join("slt"), Durability::NoSync);
    engine.set_prepared_max(PREPARED_MAX);
    let columns = std::env::var("COLIBRI_SLT_COLUMNS").ok();
    if columns.is_some() {
        engine.rewrite_queries(true);
    }
    let connect = Arc::clone(&engine);
    let mut runner = Runner::new(move || {
        let (engine, columns) = (Arc::clone(&connect), columns.clone());
        async move {
            let mut session = Session::new(&engine, "postgres");
            session.set_lifting(lifting);
            if let Some(columns) = &columns {
                session.run(&format!("SET colibri.columns = {columns}")).unwrap();
            }
            Ok(Connection(session))
        }
    });
    runner.with_column_validator(|_, _| true);
    runner.with_normalizer(|text| text.clone());
    runner.with_validator(|_, actual, expected| {
        actual.iter().map(|row| row.join("\t")).eq(expected.iter().map(String::as_str))
    });
    runner.add_label(LABEL);
    let mut outcome = Outcome { run: 0, skipped: 0, failures: Vec::new() };
    for record in sqllogictest::parse_file::<DefaultColumnType>(path).unwrap() {
        if is_for_another_store(&record) {
            outcome.skipped += 1;
            continue;
        }
        if matches!(record, Record::Query { .. } | Record::Statement { .. }) {
            if is_skipped(&record) {
                outcome.skipped += 1;
            } else {
                outcome.run += 1;
            }
        }
        if let Err(error) = runner.run(record) {
            outcome.failures.push(error.to_string());
        }
    }
    outcome
}

pub(crate) fn main() {
    let chosen = std::env::var("COLIBRI_SLT").ok();
    let ours = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let dir = std::env::var_os("COLIBRI_SLT_DIR").map_or(ours, Into::into);
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .filter(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            chosen.as_ref().is_none_or(|chosen| chosen.split(',').any(|chosen| chosen == name))
        })
        .filter(|path| stores::is_local() || !path.ends_with("two_phase.slt"))
        .filter(|path| !stores::fetches() || !has_bodies(path))
        .collect();
    files.sort();
    let count = files.len();
    let (mut run, mut skipped, mut failed) = (0, 0, 0);
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // With the literals in the text and with each lifted out of it: the same.
        for lifting in [Lifting::Never, Lifting::Always] {
            let outcome = run_file(&path, lifting);
            for failure in &outcome.failures {
                println!("---- {name}, literals lifted: {lifting:?}\n{failure}");
            }
            if !outcome.failures.is_empty() {
                println!("{name}: {} of {} records agree", outcome.run - outcome.failures.len(), outcome.run);
            }
            run += outcome.run;
            skipped += outcome.skipped;
            failed += outcome.failures.len();
        }
    }
    println!("{count} files: {} of {run} records agree, {skipped} are skipped", run - failed);
    assert!(failed == 0, "{failed} records do not agree");
}

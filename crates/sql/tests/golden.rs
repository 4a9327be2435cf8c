//! What SQL writes is read for ever: keys, rows and the catalogue's entries of a database that was
//! written when the format was new, kept as text in `golden/`.
//!
//! `v1.sql` makes the database, `v1.dump` is each of its entries (in the form of `mdb_dump`, see
//! `colibri_storage::dump`), and `v1.out` what questions about it answer. A change of a form on
//! disk fails in [`what_is_written_is_what_was_written`]; one that is not compatible in
//! [`what_was_written_is_read`], too. An entry of the catalogue may gain fields: then the former's
//! text is made anew as version 2, and the latter goes on with both.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use colibri_sql::{Engine, Session};
use colibri_storage::dump::{self, LoadOptions};
use colibri_storage::{Database, Durability, Options};

/// Each of them ends with an order that makes the answer one.
const QUESTIONS: [&str; 16] = [
    "SELECT id, yes, i2, i8, o, f4, f8, n, n2 FROM forms ORDER BY id",
    "SELECT id, d, t, ts, tz, iv, u FROM forms ORDER BY id",
    "SELECT id, left(s, 10), length(s), v, c, b, ia, ta, na FROM forms ORDER BY id",
    "SELECT id FROM forms ORDER BY yes, i2 DESC, i8 NULLS FIRST, o",
    "SELECT id FROM forms WHERE f4 = -1.5 ORDER BY f8",
    "SELECT id FROM forms WHERE n < 0 ORDER BY n DESC, n2",
    "SELECT id FROM forms WHERE d = '2024-02-29' ORDER BY t DESC",
    "SELECT id FROM forms WHERE v = 'nine char' ORDER BY b DESC",
    "SELECT a, b, c, replace(d, E'\\001', '!'), e FROM ranges ORDER BY d, a, b, c",
    "SELECT * FROM grown ORDER BY id",
    "SELECT x, y FROM heap ORDER BY x, y",
    "SELECT * FROM garden.birds ORDER BY name",
    "SELECT * FROM garden.families ORDER BY name",
    "SELECT obj_description('garden.birds'::regclass), has_table_privilege('public', 'garden.families', 'select')",
    "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint ORDER BY conname",
    "SELECT tablename, indexname, indexdef FROM pg_indexes ORDER BY tablename, indexname",
];

/// What is done to it then: it goes on where it was left.
const CHANGES: [&str; 7] = [
    "INSERT INTO grown (a, c) VALUES (5, 1) RETURNING id, b, c",
    "UPDATE grown SET a = a + 1, b = b || '!' WHERE id <= 2 RETURNING id, a, b, c",
    "INSERT INTO heap VALUES (2, 'two') RETURNING x",
    "INSERT INTO garden.birds (name, seen) VALUES ('Berta', NULL) RETURNING ticket",
    "UPDATE forms SET id = 20 WHERE id = 2 RETURNING s",
    "DELETE FROM garden.birds WHERE name = 'Colibri' RETURNING form",
    "SELECT name, mother, form FROM garden.birds ORDER BY name",
];

/// Each is refused, with this code.
const REFUSED: [(&str, &str); 4] = [
    ("INSERT INTO garden.birds (name) VALUES ('')", "23514"),
    ("INSERT INTO garden.birds (name, form) VALUES ('x', 77)", "23503"),
    ("INSERT INTO forms (id, v, b, c, u) SELECT 9, v, b, c, u FROM forms WHERE id = 1", "23505"),
    ("INSERT INTO grown (id, a) VALUES (1, 1)", "428C9"),
];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn database(dir: &Path) -> Database {
    Database::open(dir, &Options::new().durability(Durability::NoSync)).unwrap()
}

/// A database that `v1.sql` made just now, closed.
fn written_now(dir: &Path) {
    let engine = Engine::open(database(dir)).unwrap();
    Session::new(&engine, "postgres").run(&std::fs::read_to_string(golden("v1.sql")).unwrap()).unwrap();
}

/// All its entries. The size that a map for them would have is left out: it depends on the engine's
/// pages, which have golden files of their own.
fn dump_of(db: &Database) -> String {
    let mut text = Vec::new();
    dump::dump(&db.read().unwrap(), None, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    text.lines().filter(|line| !line.starts_with("mapsize=")).fold(String::new(), |all, line| all + line + "\n")
}

fn answer(session: &mut Session, text: &str, out: &mut String) {
    writeln!(out, "> {text}").unwrap();
    let answers = session.run(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    for row in answers.last().unwrap().text_rows(session) {
        let cells: Vec<String> = row.into_iter().map(|cell| cell.unwrap_or_else(|| "NULL".to_owned())).collect();
        writeln!(out, "{}", cells.join(" | ")).unwrap();
    }
}

/// All answers, with the changes done; the database is sound before and after.
fn answers(engine: &Arc<Engine>) -> String {
    let mut out = String::new();
    assert_eq!(engine.check().unwrap(), Vec::<String>::new());
    let mut session = Session::new(engine, "postgres");
    session.run("SET TIME ZONE 'UTC'").unwrap();
    for text in QUESTIONS.iter().chain(&CHANGES) {
        answer(&mut session, text, &mut out);
    }
    for (text, code) in REFUSED {
        assert_eq!(session.run(text).unwrap_err().state().0, code, "{text}");
    }
    assert_eq!(engine.check().unwrap(), Vec::<String>::new());
    out
}

#[test]
fn what_is_written_is_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    written_now(dir.path());
    let now = dump_of(&database(dir.path()));
    let then = std::fs::read_to_string(golden("v1.dump")).unwrap();
    for (at, (now, then)) in now.lines().zip(then.lines()).enumerate() {
        assert_eq!(now, then, "line {} of v1.dump", at + 1);
    }
    assert_eq!(now.len(), then.len());
}

#[test]
fn what_was_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path());
    let then = std::fs::read(golden("v1.dump")).unwrap();
    dump::load(&db, &mut then.as_slice(), &LoadOptions::new()).unwrap();
    assert_eq!(answers(&Engine::open(db).unwrap()), std::fs::read_to_string(golden("v1.out")).unwrap());
}

/// Until version 1 of the format is released its files may be written anew.
#[test]
#[ignore = "writes the files that the other tests compare with"]
fn write_golden_files() {
    let dir = tempfile::tempdir().unwrap();
    written_now(dir.path());
    let db = database(dir.path());
    std::fs::write(golden("v1.dump"), dump_of(&db)).unwrap();
    std::fs::write(golden("v1.out"), answers(&Engine::open(db).unwrap())).unwrap();
}

//! What sessions leave behind for each other, and for the next opening.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use colibri_sql::{Datum, Engine, Session};
use colibri_storage::{Database, Durability, Options};

fn open(dir: &std::path::Path) -> Arc<Engine> {
    Engine::open(Database::open(dir, &Options::new().durability(Durability::NoSync)).unwrap()).unwrap()
}

fn ints(session: &mut Session, text: &str) -> Vec<i64> {
    let answers = session.run(text).unwrap();
    let int = |row: &[Datum]| match row[0] {
        Datum::Int(value) => value,
        ref other => panic!("{other:?}"),
    };
    answers.last().unwrap().rows.iter().map(int).collect()
}

/// Bug: looking for the last row number of a table without a primary key read the row without its bytes. Consequence: the
/// first INSERT after opening a database failed. Fix: the bytes are handed on.
#[test]
fn a_table_without_a_primary_key_goes_on_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    {
        let engine = open(dir.path());
        Session::new(&engine, "u").run("CREATE TABLE s (id int); INSERT INTO s VALUES (1), (2)").unwrap();
        engine.store().database().sync().unwrap();
    }
    let engine = open(dir.path());
    let mut session = Session::new(&engine, "u");
    session.run("INSERT INTO s VALUES (3)").unwrap();
    assert_eq!(ints(&mut session, "SELECT id FROM s ORDER BY id"), [1, 2, 3]);
    assert_eq!(engine.check().unwrap(), Vec::<String>::new());
}

/// Bug: a statement prepared in a block that changed the catalogue kept the version that the block would have made.
/// Consequence: after a rollback another change got the same version, and the statement wrote into the wrong table. Fix: such
/// a statement belongs to no version.
#[test]
fn what_was_prepared_in_a_block_that_was_taken_back_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let mut session = Session::new(&engine, "u");
    session.run("BEGIN; CREATE TABLE a1 (x int); PREPARE p AS INSERT INTO a1 VALUES (1); ROLLBACK").unwrap();
    session.run("CREATE TABLE u2 (y text)").unwrap();
    assert_eq!(session.run("EXECUTE p").unwrap_err().state().0, "42P01");
    assert_eq!(ints(&mut session, "SELECT count(*) FROM u2"), [0]);
}

#[test]
fn closing_gives_back_what_is_left_of_a_sequence() {
    let dir = tempfile::tempdir().unwrap();
    for expected in 1..=3 {
        let engine = open(dir.path());
        let mut session = Session::new(&engine, "u");
        session.run("CREATE SEQUENCE IF NOT EXISTS q").unwrap();
        assert_eq!(ints(&mut session, "SELECT nextval('q')"), [expected]);
        drop(session);
        let database = engine.store().database().clone();
        drop(engine);
        database.sync().unwrap();
    }
}

#[test]
fn a_setting_is_shown_under_the_name_that_postgresql_gives_it() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let mut session = Session::new(&engine, "u");
    let mut shown = |what: &str| session.run(&format!("SHOW {what}")).unwrap()[0].columns[0].name.to_string();
    assert_eq!(shown("datestyle"), "DateStyle");
    assert_eq!(shown("TIME ZONE"), "TimeZone");
    assert_eq!(shown("IntervalSTYLE"), "IntervalStyle");
    assert_eq!(shown("Work_Mem"), "work_mem");
}

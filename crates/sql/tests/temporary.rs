//! Temporary objects of several sessions: nobody sees, meets or keeps another's.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use colibri_sql::{Copy, Datum, Engine, Session};
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

fn state(session: &mut Session, text: &str) -> &'static str {
    session.run(text).unwrap_err().state().0
}

#[test]
fn sessions_with_the_same_names_neither_see_nor_wait_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let (mut one, mut other) = (Session::new(&engine, "u"), Session::new(&engine, "u"));
    one.run("CREATE TABLE t (a int); INSERT INTO t VALUES (0)").unwrap();
    // Both blocks are open at the same time, on one thread: a lock to wait for would never come.
    for (session, value) in [(&mut one, 1), (&mut other, 2)] {
        session.run("BEGIN; CREATE TEMP TABLE t (a int PRIMARY KEY, b serial); CREATE INDEX i ON t (b)").unwrap();
        session.run("CREATE TEMP SEQUENCE s; CREATE TEMP VIEW v AS SELECT a FROM t").unwrap();
        session.run(&format!("INSERT INTO t VALUES ({value}); ALTER TABLE t ADD COLUMN c int DEFAULT 7")).unwrap();
        session.run("DROP INDEX i; TRUNCATE t").unwrap();
        session.run(&format!("INSERT INTO t VALUES ({value}); SELECT nextval('s')")).unwrap();
    }
    one.run("COMMIT").unwrap();
    other.run("COMMIT").unwrap();
    assert_eq!(ints(&mut one, "SELECT a FROM v"), [1]);
    assert_eq!(ints(&mut other, "SELECT a FROM v"), [2]);
    assert_eq!(ints(&mut other, "SELECT nextval('s')"), [2]);
    let mut third = Session::new(&engine, "u");
    assert_eq!(ints(&mut third, "SELECT a FROM t"), [0]);
    assert_eq!(state(&mut third, "SELECT * FROM pg_temp.t"), "42P01");
    assert_eq!(ints(&mut third, "SELECT count(*) FROM pg_class WHERE relpersistence = 't'"), [0]);
    drop(one);
    assert_eq!(ints(&mut other, "SELECT a FROM t"), [2]);
}

#[test]
fn other_sessions_definitions_are_seen_beside_temporary_tables_and_in_plans() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let (mut one, mut other) = (Session::new(&engine, "u"), Session::new(&engine, "u"));
    other.run("CREATE TABLE p (a int); INSERT INTO p VALUES (1)").unwrap();
    one.run("CREATE TEMP TABLE t (a int); INSERT INTO t VALUES (1)").unwrap();
    let text = "SELECT count(*) FROM t JOIN p USING (a)";
    assert_eq!(ints(&mut one, text), [1]);
    other.run("ALTER TABLE p ADD COLUMN b int; DROP TABLE p; CREATE TABLE p (a int)").unwrap();
    assert_eq!(ints(&mut one, text), [0]);
    one.run("BEGIN; INSERT INTO t VALUES (2); CREATE TEMP TABLE u AS SELECT 5 AS a").unwrap();
    other.run("CREATE TABLE q (a int); INSERT INTO q VALUES (5)").unwrap();
    assert_eq!(ints(&mut one, "SELECT count(*) FROM u JOIN q USING (a)"), [1]);
    // A permanent table that is made beside temporary ones is there for all, and they are not.
    one.run("CREATE TABLE r AS SELECT a FROM t; COMMIT").unwrap();
    assert_eq!(ints(&mut other, "SELECT a FROM r ORDER BY a"), [1, 2]);
    assert_eq!(state(&mut other, "SELECT * FROM u"), "42P01");
    assert_eq!(ints(&mut one, "SELECT count(*) FROM t"), [2]);
}

#[test]
fn a_conflict_takes_temporary_changes_back_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let (mut one, mut other) = (Session::new(&engine, "u"), Session::new(&engine, "u"));
    other.run("CREATE TABLE p (a int PRIMARY KEY, b int); INSERT INTO p VALUES (1, 0), (2, 0)").unwrap();
    one.run("CREATE TEMP TABLE t (a int)").unwrap();
    one.run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(b) FROM p; INSERT INTO t VALUES (1)").unwrap();
    one.run("UPDATE p SET b = 1 WHERE a = 1").unwrap();
    other.run("UPDATE p SET b = 1 WHERE a = 2").unwrap();
    assert_eq!(state(&mut one, "COMMIT"), "40001");
    assert_eq!(ints(&mut one, "SELECT count(*) FROM t"), [0]);
}

#[test]
fn nothing_is_left_when_sessions_end_and_files_have_no_names() {
    let dir = tempfile::tempdir().unwrap();
    let names = |dir: &std::path::Path| {
        let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.starts_with("temporary")).collect();
        names.sort();
        names
    };
    let engine = open(dir.path());
    let before = engine.local_store().unwrap().database().stat().unwrap();
    {
        let mut session = Session::new(&engine, "u");
        session.run("CREATE TEMP TABLE t (a int PRIMARY KEY, b text)").unwrap();
        session.run("INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 20000) AS g").unwrap();
        session.run("CREATE INDEX ON t (b); UPDATE t SET b = b || 'y' WHERE a % 10 = 0").unwrap();
        assert_eq!(ints(&mut session, "SELECT count(*) FROM t"), [20_000]);
        assert_eq!(ints(&mut session, "SELECT (pg_table_size('t') > 8000000)::int"), [1]);
    }
    assert_eq!(names(dir.path()), Vec::<String>::new());
    let after = engine.local_store().unwrap().database().stat().unwrap();
    assert_eq!((before.txn, before.pages), (after.txn, after.pages), "nothing was committed to the database");
    // The next session finds an empty store.
    let mut session = Session::new(&engine, "u");
    session.run("CREATE TEMP TABLE t (a int)").unwrap();
    assert_eq!(ints(&mut session, "SELECT count(*) FROM t"), [0]);
    assert_eq!(engine.check().unwrap(), Vec::<String>::new());
    drop((session, engine));
    assert_eq!(
        ints(&mut Session::new(&open(dir.path()), "u"), "SELECT count(*) FROM pg_class WHERE relname = 't'"),
        [0]
    );
}

#[test]
fn rows_are_copied_into_a_temporary_table_in_a_transaction_that_only_reads() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let mut session = Session::new(&engine, "u");
    session.run("CREATE TABLE p (a int); CREATE TEMP TABLE t (a int, b text); BEGIN READ ONLY").unwrap();
    let Ok(Copy::From(mut copy)) = session.copy("COPY t FROM STDIN") else { panic!("a COPY FROM") };
    session.copy_data(&mut copy, b"1\tone\n2\ttwo\n").unwrap();
    session.copy_end(&mut copy).unwrap();
    assert_eq!(ints(&mut session, "SELECT a FROM t ORDER BY a"), [1, 2]);
    assert!(session.copy("COPY p FROM STDIN").is_err_and(|error| error.state().0 == "25006"));
    session.run("ROLLBACK").unwrap();
    assert_eq!(ints(&mut session, "SELECT count(*) FROM t"), [0]);
}

#[test]
fn what_another_session_takes_away_under_a_temporary_object_is_an_error_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let (mut one, mut other) = (Session::new(&engine, "u"), Session::new(&engine, "u"));
    other.run("CREATE TYPE mood AS ENUM ('low', 'high'); CREATE DOMAIN d AS int CHECK (VALUE > 0)").unwrap();
    other.run("CREATE TABLE p (a int); CREATE SEQUENCE s").unwrap();
    one.run("CREATE TEMP TABLE t (a int, m mood, d d, n int DEFAULT nextval('s'))").unwrap();
    one.run("INSERT INTO t VALUES (1, 'high', 2); CREATE TEMP VIEW v AS SELECT a FROM p").unwrap();
    other.run("DROP TYPE mood; DROP DOMAIN d; DROP TABLE p; DROP SEQUENCE s").unwrap();
    assert_eq!(ints(&mut one, "SELECT a FROM t"), [1]);
    assert_eq!(state(&mut one, "SELECT * FROM v"), "42P01");
    // Whatever these come to, they come to an end.
    for text in [
        "SELECT * FROM t",
        "SELECT m FROM t ORDER BY m",
        "SELECT m = 'low' FROM t",
        "SELECT d + 1 FROM t",
        "INSERT INTO t VALUES (2, 'low', 3)",
        "INSERT INTO t (a) VALUES (3)",
        "UPDATE t SET m = 'low', d = 4",
        "SELECT * FROM information_schema.columns WHERE table_name = 't'",
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass",
        "ALTER TABLE t DROP COLUMN m",
        "CREATE INDEX ON t (d)",
    ] {
        _ = one.run(text);
    }
    assert_eq!(ints(&mut one, "SELECT count(*) FROM t WHERE a = 1"), [1]);
    one.run("DISCARD ALL").unwrap();
    assert_eq!(state(&mut one, "SELECT * FROM t"), "42P01");
}

//! Domains and materialized views beyond one session: after the database was opened again, after
//! transactions that were rolled back, and for plans that knew an older state of a domain.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use colibri_sql::{Copy, Engine, Session};
use colibri_storage::{Database, Durability, Options};

fn open(dir: &Path) -> Arc<Engine> {
    Engine::open(Database::open(dir, &Options::new().durability(Durability::NoSync)).unwrap()).unwrap()
}

fn session(engine: &Arc<Engine>) -> Session {
    Session::new(engine, "postgres")
}

/// The rows of a query, each with bars between its values.
fn rows(session: &mut Session, text: &str) -> Vec<String> {
    let answers = session.run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let cell = |cell: Option<String>| cell.unwrap_or_else(|| "NULL".to_owned());
    let rows = answers.last().unwrap().text_rows(session);
    rows.into_iter().map(|row| row.into_iter().map(cell).collect::<Vec<_>>().join("|")).collect()
}

fn code(session: &mut Session, text: &str) -> &'static str {
    session.run(text).unwrap_err().state().0
}

const SETUP: &str = "
    CREATE SCHEMA app;
    CREATE TYPE app.level AS ENUM ('low', 'high');
    CREATE DOMAIN app.most AS app.level CHECK (VALUE <> 'low');
    CREATE DOMAIN posint AS int DEFAULT 7 CHECK (VALUE > 0);
    CREATE DOMAIN app.even AS posint CHECK (VALUE % 2 = 0);
    CREATE DOMAIN code AS varchar(3) COLLATE \"C\" NOT NULL;
    CREATE TABLE t (id posint PRIMARY KEY, level app.most, evens app.even[], code code DEFAULT 'x', gone posint);
    INSERT INTO t VALUES (1, 'high', '{2,4}', 'ab', 1);
    ALTER TABLE t ADD COLUMN later app.even DEFAULT 6;
    INSERT INTO t (evens) VALUES (NULL);
    ALTER TABLE t DROP COLUMN gone;
    ALTER TYPE app.level ADD VALUE 'top';
    ALTER DOMAIN posint ADD CONSTRAINT limited CHECK (VALUE < 100) NOT VALID;
    COMMENT ON DOMAIN posint IS 'counted';
    CREATE MATERIALIZED VIEW m AS SELECT id, later FROM t WHERE id < 50;
    CREATE UNIQUE INDEX m_id ON m (id);
    CREATE MATERIALIZED VIEW hollow AS SELECT id FROM m WITH NO DATA;
";

#[test]
fn what_was_defined_is_there_after_the_database_was_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    session(&open(dir.path())).run(SETUP).unwrap();
    for _ in 0..2 {
        let engine = open(dir.path());
        assert_eq!(engine.check().unwrap(), Vec::<String>::new());
        let mut session = session(&engine);
        assert_eq!(rows(&mut session, "SELECT * FROM t ORDER BY id"), ["1|high|{2,4}|ab|6", "7|NULL|NULL|x|6"]);
        let types = "SELECT pg_typeof(id), pg_typeof(level), pg_typeof(evens), pg_typeof(code) FROM t LIMIT 1";
        assert_eq!(rows(&mut session, types), ["posint|app.most|app.even[]|code"]);
        for (text, expected) in [
            ("INSERT INTO t VALUES (0)", "23514"),
            ("INSERT INTO t VALUES (100)", "23514"),
            ("INSERT INTO t (id, level) VALUES (3, 'low')", "23514"),
            ("INSERT INTO t (id, evens) VALUES (3, '{2,3}')", "23514"),
            ("INSERT INTO t (id, evens) VALUES (3, '{-2}')", "23514"),
            ("INSERT INTO t (id, code) VALUES (3, NULL)", "23502"),
            ("INSERT INTO t (id, code) VALUES (3, 'abcd')", "22001"),
            ("SELECT * FROM hollow", "55000"),
            ("INSERT INTO m VALUES (1, 2)", "42809"),
        ] {
            assert_eq!(code(&mut session, text), expected, "{text}");
        }
        session.run("BEGIN; INSERT INTO t (id, level) VALUES (3, 'top'); ROLLBACK").unwrap();
        assert_eq!(rows(&mut session, "SELECT obj_description('posint'::regtype, 'pg_type')"), ["counted"]);
        assert_eq!(rows(&mut session, "SELECT * FROM m ORDER BY id"), ["1|6", "7|6"]);
        session.run("BEGIN; DELETE FROM t WHERE id = 7; REFRESH MATERIALIZED VIEW CONCURRENTLY m").unwrap();
        assert_eq!(rows(&mut session, "SELECT * FROM m"), ["1|6"]);
        session.run("REFRESH MATERIALIZED VIEW hollow; ROLLBACK").unwrap();
        assert_eq!(rows(&mut session, "SELECT count(*) FROM m"), ["2"]);
        assert_eq!(engine.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn plans_of_other_sessions_know_what_a_domain_demands_now() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let (mut one, mut other) = (session(&engine), session(&engine));
    one.run("CREATE DOMAIN d AS int CHECK (VALUE > 0); CREATE TABLE t (a d)").unwrap();
    other.run("PREPARE p(int) AS INSERT INTO t VALUES ($1); PREPARE q(int) AS SELECT $1::d").unwrap();
    other.run("EXECUTE p(5); EXECUTE q(5)").unwrap();
    one.run("ALTER DOMAIN d ADD CONSTRAINT small CHECK (VALUE < 10)").unwrap();
    assert_eq!(code(&mut other, "EXECUTE p(20)"), "23514");
    assert_eq!(code(&mut other, "EXECUTE q(20)"), "23514");
    one.run("ALTER DOMAIN d DROP CONSTRAINT small; ALTER DOMAIN d SET NOT NULL").unwrap();
    other.run("EXECUTE p(20)").unwrap();
    assert_eq!(code(&mut other, "EXECUTE p(NULL)"), "23502");
}

/// Conditions that lead back to their own domain are looked at once and for ever.
#[test]
fn conditions_in_a_circle_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = session(&open(dir.path()));
    session.run("CREATE DOMAIN a AS int; CREATE DOMAIN b AS int CHECK (VALUE::a > 0)").unwrap();
    let made = session.run("ALTER DOMAIN a ADD CHECK (VALUE::b < 10)");
    if made.is_ok() {
        assert_eq!(code(&mut session, "SELECT 1::a"), "54001");
        assert_eq!(code(&mut session, "SELECT 1::b"), "54001");
    }
}

#[test]
fn copied_rows_obey_domains() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let mut session = session(&engine);
    session
        .run(
            "CREATE DOMAIN d AS int DEFAULT 3 CHECK (VALUE > 0); CREATE DOMAIN n AS int NOT NULL; \
              CREATE TABLE t (k int PRIMARY KEY, a d, b d[]); CREATE TABLE u (k int, a n)",
        )
        .unwrap();
    let copy = |session: &mut Session, text: &str, data: &str| -> &'static str {
        let Copy::From(mut copy) = session.copy(text).unwrap() else { panic!("{text}") };
        let copied = session.copy_data(&mut copy, data.as_bytes());
        let copied = copied.and_then(|()| session.copy_end(&mut copy).map(drop));
        copied.map_or_else(|error| error.state().0, |()| "")
    };
    assert_eq!(copy(&mut session, "COPY t FROM STDIN", "1\t5\t{1,2}\n2\t\\N\t\\N\n"), "");
    assert_eq!(copy(&mut session, "COPY t FROM STDIN", "3\t0\t\\N\n"), "23514");
    assert_eq!(copy(&mut session, "COPY t FROM STDIN", "3\t1\t{1,-2}\n"), "23514");
    assert_eq!(copy(&mut session, "COPY t (k) FROM STDIN", "3\n"), "");
    assert_eq!(copy(&mut session, "COPY u (k) FROM STDIN", "3\n"), "23502");
    assert_eq!(copy(&mut session, "COPY u FROM STDIN", "3\t\\N\n"), "23502");
    assert_eq!(copy(&mut session, "COPY u FROM STDIN WITH (FORMAT csv)", "3,4\n"), "");
    assert_eq!(rows(&mut session, "SELECT * FROM t ORDER BY k"), ["1|5|{1,2}", "2|NULL|NULL", "3|3|NULL"]);
    assert_eq!(rows(&mut session, "SELECT * FROM u"), ["3|4"]);
}

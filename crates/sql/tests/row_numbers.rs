//! Tables without a primary key: their rows have hidden numbers, never the same one twice.

#![allow(clippy::unwrap_used, reason = "tests")]

mod clients;

use clients::TestDatabase;
use colibri_sql::{Engine, Session};
use colibri_storage::{Database, Durability, Options};

// The first row since the opening is numbered behind the last one there is, and that one was read
// without its value, which is malformed then: after the next start of the database nothing could be
// inserted.
#[test]
fn rows_can_be_added_after_the_database_was_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync);
    for round in 1..4 {
        let engine = Engine::open(Database::open(dir.path(), &options).unwrap()).unwrap();
        let mut session = Session::new(&engine, "postgres");
        session.run("CREATE TABLE IF NOT EXISTS t (a int)").unwrap();
        session.run("INSERT INTO t VALUES (1), (2)").unwrap();
        assert_eq!(session.run("SELECT * FROM t").unwrap()[0].rows.len(), 2 * round);
        assert_eq!(engine.check().unwrap(), [""; 0]);
    }
}

// Rows that lose their key are numbered before the space that they go to is there.
#[test]
fn rows_that_lose_their_key_are_numbered() {
    for (drop, values) in [("ALTER TABLE t DROP CONSTRAINT t_pkey", "(3, 3)"), ("ALTER TABLE t DROP COLUMN id", "(3)")]
    {
        for before in [
            "",
            "BEGIN",
            "BEGIN; TRUNCATE t; INSERT INTO t VALUES (7, 7)",
            "BEGIN; ALTER TABLE t ALTER COLUMN a TYPE text",
        ] {
            let db =
                TestDatabase::new("CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1), (2, 2)");
            let mut session = db.session();
            session.run(&format!("{before}; {drop}; INSERT INTO t VALUES {values}")).unwrap();
            session.run("COMMIT").unwrap();
            session.run(&format!("INSERT INTO t VALUES {values}")).unwrap();
            assert_eq!(db.engine.check().unwrap(), [""; 0], "{before}; {drop}");
        }
    }
}

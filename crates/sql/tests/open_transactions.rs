//! What an open transaction sees of what others commit: the catalogue, and keys that have been
//! taken.

#![allow(clippy::unwrap_used, reason = "tests")]

mod clients;

use clients::{BOTH, Client, READ_COMMITTED, Reply, SERIALIZABLE, TestDatabase};

const REPEATABLE_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
const ALL: [&str; 3] = [READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE];
const CONFLICT: &str = "40001";
const DUPLICATE: &str = "23505";
const TABLES: &str = "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL); INSERT INTO t VALUES (1, 0), (2, 0); \
                      CREATE TABLE other (a int); INSERT INTO other VALUES (7)";

/// Others change something.
fn others(db: &TestDatabase, text: &str) {
    db.session().run(text).unwrap();
}

/// A client whose transaction has read something, so that its snapshot stands still.
fn reader(db: &TestDatabase, begin: &str) -> Client {
    let mut client = db.begun(begin);
    assert_eq!(client.ok("SELECT a FROM other"), ["7"]);
    client
}

/// Bug: a statement was prepared for the catalogue of the transaction's snapshot, which in READ
/// COMMITTED moves only when the statement runs. Consequence: a table that others had made
/// meanwhile was 42P01, as a migration tool found that waits for the schema in a transaction of its
/// own. Fix: statements are prepared for the newest catalogue, and the transaction moves to it, if
/// what it has read holds there.
#[test]
fn a_table_that_others_make_is_there_in_open_transactions() {
    for begin in ALL {
        let db = TestDatabase::new(TABLES);
        let mut idle = db.begun(begin);
        idle.ok("SELECT 1");
        let mut reads = reader(&db, begin);
        let mut writes = reader(&db, begin);
        writes.ok("INSERT INTO t VALUES (3, 3)");
        others(&db, "CREATE TABLE fresh (a int PRIMARY KEY, b text DEFAULT 'x'); INSERT INTO fresh VALUES (1)");
        for client in [&mut idle, &mut reads, &mut writes] {
            assert_eq!(client.ok("SELECT a, b FROM fresh"), ["1 x"], "{begin}");
            assert_eq!(client.ok("SELECT count(*) FROM pg_class WHERE relname = 'fresh'"), ["1"], "{begin}");
            assert_eq!(client.ok("SELECT to_regclass('fresh') IS NULL"), ["f"], "{begin}");
        }
        writes.ok("INSERT INTO fresh VALUES (2)");
        writes.ok("COMMIT");
        assert_eq!(db.now("SELECT a FROM fresh ORDER BY a"), ["1", "2"], "{begin}");
    }
}

#[test]
fn other_changes_of_the_catalogue_are_seen_as_well() {
    for begin in ALL {
        let db = TestDatabase::new(TABLES);
        let mut client = reader(&db, begin);
        others(&db, "ALTER TABLE t ADD COLUMN w int DEFAULT 5");
        assert_eq!(client.ok("SELECT * FROM t WHERE id = 1"), ["1 0 5"], "{begin}");
        others(&db, "CREATE INDEX t_v ON t (v); INSERT INTO t VALUES (3, 9)");
        let count = if begin == READ_COMMITTED { "1" } else { "0" };
        // What has been read of the table stands.
        assert_eq!(client.ok("SELECT count(*) FROM t WHERE v = 9"), [count], "{begin}");
        let mut client = reader(&db, begin);
        others(&db, "CREATE VIEW named AS SELECT id FROM t; CREATE SCHEMA s; CREATE SEQUENCE q");
        assert_eq!(client.ok("SELECT count(*) FROM named"), ["3"], "{begin}");
        assert_eq!(client.ok("SELECT nextval('q')"), ["1"], "{begin}");
        others(&db, "DROP VIEW named");
        let mut client = reader(&db, begin);
        others(&db, "ALTER TABLE t RENAME TO moved");
        assert_eq!(client.ok("SELECT count(*) FROM moved"), ["3"], "{begin}");
        let mut client = reader(&db, begin);
        others(&db, "DROP TABLE moved");
        assert_eq!(client.fails("SELECT 1 FROM moved"), "42P01", "{begin}");
    }
}

#[test]
fn what_was_prepared_before_meets_the_newest_catalogue() {
    for begin in ALL {
        let db = TestDatabase::new(TABLES);
        let mut client = reader(&db, begin);
        client.ok("PREPARE p AS SELECT v FROM t WHERE id = 1");
        assert_eq!(client.ok("EXECUTE p"), ["0"]);
        others(&db, "CREATE TABLE fresh (a int)");
        assert_eq!(client.ok("EXECUTE p"), ["0"], "{begin}");
        client.ok("COMMIT");
        let mut client = reader(&db, begin);
        let prepared = client.session.prepare("SELECT v FROM t WHERE id = 1", &[]).unwrap();
        others(&db, "ALTER TABLE t ADD COLUMN w int; ALTER TABLE t DROP COLUMN w");
        let answer = client.session.execute(&prepared, Vec::new()).unwrap();
        assert_eq!(answer.rows.len(), 1, "{begin}");
    }
}

/// A transaction whose reads do not hold in the newest state cannot move there, and says so if a
/// statement needs what is new. Elsewhere it goes on with the catalogue of its snapshot.
#[test]
fn a_transaction_that_cannot_move_to_the_newest_catalogue_conflicts_where_it_needs_it() {
    for begin in [REPEATABLE_READ, SERIALIZABLE] {
        let db = TestDatabase::new(TABLES);
        let mut client = reader(&db, begin);
        others(&db, "UPDATE other SET a = 8; CREATE TABLE fresh (a int)");
        assert_eq!(client.ok("SELECT a FROM other"), ["7"], "{begin}");
        assert_eq!(client.ok("SELECT count(*) FROM t"), ["2"], "{begin}");
        assert_eq!(client.fails("SELECT 1 FROM fresh"), CONFLICT, "{begin}");
        client.ok("ROLLBACK");
        // What a transaction that only reads has read is not remembered.
        let mut client = db.begun(&format!("{begin} READ ONLY"));
        client.ok("SELECT a FROM other");
        others(&db, "CREATE TABLE fresher (a int)");
        assert_eq!(client.fails("SELECT 1 FROM fresher"), CONFLICT, "{begin}");
        client.ok("ROLLBACK");
    }
    let db = TestDatabase::new(TABLES);
    let mut client = reader(&db, READ_COMMITTED);
    others(&db, "UPDATE other SET a = 8; CREATE TABLE fresh (a int)");
    assert_eq!(client.ok("SELECT count(*) FROM fresh"), ["0"]);
    assert_eq!(client.ok("SELECT a FROM other"), ["8"]);
}

#[test]
fn a_savepoint_takes_no_newer_catalogue_back() {
    for begin in ALL {
        let db = TestDatabase::new(TABLES);
        let mut client = reader(&db, begin);
        client.ok("SAVEPOINT a");
        others(&db, "CREATE TABLE fresh (a int)");
        assert_eq!(client.ok("SELECT count(*) FROM fresh"), ["0"], "{begin}");
        client.ok("ROLLBACK TO a");
        assert_eq!(client.ok("SELECT count(*) FROM fresh"), ["0"], "{begin}");
        client.ok("CREATE TABLE mine (a int)");
        client.ok("ROLLBACK TO a");
        assert_eq!(client.fails("SELECT 1 FROM mine"), "42P01", "{begin}");
        client.ok("ROLLBACK TO a");
        assert_eq!(client.ok("SELECT count(*) FROM fresh"), ["0"], "{begin}");
        client.ok("COMMIT");
    }
}

#[test]
fn a_cursor_goes_on_beside_a_newer_catalogue() {
    for begin in ALL {
        let db = TestDatabase::new(TABLES);
        others(&db, "INSERT INTO t SELECT g, g FROM generate_series(3, 500) AS g");
        let mut client = db.begun(begin);
        client.ok("DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id");
        assert_eq!(client.ok("FETCH 2 FROM c"), ["1", "2"]);
        others(&db, "CREATE TABLE fresh (a int)");
        let mut reply = client.send("SELECT count(*) FROM fresh");
        while reply == Reply::Yields {
            reply = client.step(i64::MAX);
        }
        assert_eq!(reply.rows("count"), ["0"], "{begin}");
        assert_eq!(client.ok("FETCH 2 FROM c"), ["3", "4"], "{begin}");
        assert_eq!(client.ok("MOVE ALL FROM c"), [""; 0]);
        client.ok("COMMIT");
    }
}

// ---- keys that have been taken ----

/// Bug: of two transactions that look for a key, find it free and insert it, the second was told of
/// a conflict (40001). Consequence: programs that know what to do about a duplicate, and know of no
/// conflicts, failed. Fix: where the row is there by now the statement is told so (23505), as in
/// PostgreSQL; who has asked for SERIALIZABLE is told of the conflict.
#[test]
fn a_key_that_was_found_free_and_is_taken_is_a_duplicate_to_who_knows_of_no_conflicts() {
    for (begin, expected) in [
        ("BEGIN", DUPLICATE),
        (READ_COMMITTED, DUPLICATE),
        (REPEATABLE_READ, DUPLICATE),
        (SERIALIZABLE, CONFLICT),
        ("BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", CONFLICT),
    ] {
        for (look, write) in [
            ("SELECT v FROM t WHERE id = 3", "INSERT INTO t VALUES (3, 3)"),
            ("SELECT v FROM t WHERE id = 3 FOR UPDATE", "INSERT INTO t VALUES (4, 4), (3, 3)"),
            ("SELECT count(*) FROM t", "INSERT INTO t VALUES (3, 3)"),
            ("SELECT v FROM t WHERE id = 3", "UPDATE t SET id = 3 WHERE id = 1"),
            ("SELECT v FROM t WHERE id = 3", "INSERT INTO t SELECT id + 1, 0 FROM t WHERE id = 2"),
        ] {
            let db = TestDatabase::new(TABLES);
            let (mut first, mut second) = (db.client(), db.client());
            for client in [&mut first, &mut second] {
                for part in begin.split("; ") {
                    client.ok(part);
                }
                client.ok(look);
            }
            first.ok("INSERT INTO t VALUES (3, 30)");
            second.ok("SAVEPOINT s");
            second.waits(write);
            first.ok("COMMIT");
            assert_eq!(second.then_fails(), expected, "{begin}: {look}: {write}");
            second.ok("ROLLBACK TO s");
            // In READ COMMITTED it goes on with the row that is there; elsewhere it sees what it
            // saw, and writes nothing.
            let sees = second.ok("SELECT v FROM t WHERE id = 3");
            let change = second.send("UPDATE t SET v = 99 WHERE id = 3");
            let commit = second.send("COMMIT");
            if begin == READ_COMMITTED {
                assert_eq!(sees, ["30"], "{look}");
                assert_eq!(db.now("SELECT v FROM t WHERE id = 3"), ["99"]);
            } else {
                let is_over = matches!(change, Reply::Failed(CONFLICT, _)) || matches!(commit, Reply::Done(..));
                assert!(is_over || matches!(commit, Reply::Failed(CONFLICT, _)), "{begin}: {change:?}, {commit:?}");
                assert_eq!(db.now("SELECT v FROM t WHERE id = 3"), ["30"], "{begin}: {look}: {write}");
            }
        }
    }
}

#[test]
fn a_look_at_what_a_statement_would_meet_leaves_nothing_behind() {
    let db = TestDatabase::new(TABLES);
    let (mut first, mut second) = (db.begun("BEGIN"), db.begun("BEGIN"));
    for client in [&mut first, &mut second] {
        client.ok("SELECT v FROM t WHERE id = 3");
    }
    second.ok("INSERT INTO other VALUES (1)");
    first.ok("INSERT INTO t VALUES (3, 30)");
    second.ok("SAVEPOINT s");
    second.waits("INSERT INTO t VALUES (4, 4), (5, 5), (3, 3)");
    first.ok("COMMIT");
    assert_eq!(second.then_fails(), DUPLICATE);
    second.ok("ROLLBACK TO s");
    assert_eq!(second.ok("SELECT id FROM t ORDER BY id"), ["1", "2"]);
    assert_eq!(second.ok("SELECT a FROM other ORDER BY a"), ["1", "7"]);
    // What it wrote before cannot be committed beside what it has read.
    assert_eq!(second.fails("COMMIT"), CONFLICT);
    assert_eq!(db.now("SELECT a FROM other"), ["7"]);
    assert_eq!(db.now("SELECT id FROM t ORDER BY id"), ["1", "2", "3"]);
}

#[test]
fn a_conflict_that_is_no_duplicate_stays_one() {
    for begin in ["BEGIN", REPEATABLE_READ] {
        let db = TestDatabase::new(TABLES);
        let mut client = db.begun(begin);
        client.ok("SELECT v FROM t WHERE id = 1");
        others(&db, "UPDATE t SET v = 5 WHERE id = 1");
        assert_eq!(client.fails("UPDATE t SET v = v + 1 WHERE id = 1"), CONFLICT, "{begin}");
        client.ok("ROLLBACK");
        assert_eq!(db.now("SELECT v FROM t WHERE id = 1"), ["5"]);
    }
}

// ---- isolation by default ----

#[test]
fn a_default_isolation_is_what_blocks_and_statements_have() {
    let db = TestDatabase::new(TABLES);
    let mut client = db.client();
    client.ok("SET default_transaction_isolation = 'read committed'");
    client.ok("BEGIN");
    client.ok("SELECT v FROM t WHERE id = 1");
    others(&db, "UPDATE t SET v = 5 WHERE id = 1");
    client.ok("UPDATE t SET v = v + 1 WHERE id = 1");
    client.ok("COMMIT");
    assert_eq!(db.now("SELECT v FROM t WHERE id = 1"), ["6"]);
    for begin in BOTH {
        client.ok(begin);
        let level = if begin == SERIALIZABLE { "serializable" } else { "read committed" };
        assert_eq!(client.ok("SHOW transaction_isolation"), [level]);
        client.ok("COMMIT");
    }
}

//! The four strengths of `SELECT … FOR`, what UPDATE, DELETE and foreign keys take of them, and
//! what that leaves as it was.

#![allow(clippy::unwrap_used)]

mod clients;

use clients::{BOTH, READ_COMMITTED, Reply, SERIALIZABLE, TestDatabase};

const ROWS: &str = "CREATE TABLE t (id int PRIMARY KEY, code int UNIQUE, v int NOT NULL);
    INSERT INTO t VALUES (1, 10, 0), (2, 20, 0);
    CREATE TABLE child (n int PRIMARY KEY, t int REFERENCES t, code int REFERENCES t (code))";
const CLAUSES: [&str; 4] = ["FOR KEY SHARE", "FOR SHARE", "FOR NO KEY UPDATE", "FOR UPDATE"];
const LOCKED: &str = "55P03";
const CONFLICT: &str = "40001";

/// PostgreSQL's table of conflicts: clauses in the order of [`CLAUSES`].
const GO_TOGETHER: [[bool; 4]; 4] =
    [[true, true, true, false], [true, true, false, false], [true, false, false, false], [false, false, false, false]];

#[test]
fn clauses_go_together_as_in_postgresql() {
    for begin in BOTH {
        for (held, row) in CLAUSES.iter().zip(GO_TOGETHER) {
            for (wanted, together) in CLAUSES.iter().zip(row) {
                let db = TestDatabase::new(ROWS);
                let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
                t1.ok(&format!("SELECT v FROM t WHERE id = 1 {held}"));
                let reply = t2.send(&format!("SELECT v FROM t WHERE id = 1 {wanted} NOWAIT"));
                let expected = if together { None } else { Some(LOCKED) };
                let code = match &reply {
                    Reply::Failed(code, _) => Some(*code),
                    _ => None,
                };
                assert_eq!(code, expected, "{begin}: {wanted} beside {held}: {reply:?}");
            }
        }
    }
}

/// What statements take: a change that leaves all unique columns as they were takes NO KEY UPDATE,
/// also if it sets them.
#[test]
fn statements_take_what_postgresql_takes() {
    let statements = [
        ("UPDATE t SET v = 5 WHERE id = 1", [true, false, false, false]),
        ("UPDATE t SET v = v + 1 WHERE id = 1", [true, false, false, false]),
        ("UPDATE t SET id = 1, code = 10, v = 5 WHERE id = 1", [true, false, false, false]),
        ("UPDATE t SET code = 11 WHERE id = 1", [false; 4]),
        ("UPDATE t SET id = 7 WHERE id = 1", [false; 4]),
        ("DELETE FROM t WHERE id = 1", [false; 4]),
        ("INSERT INTO t VALUES (1, 10, 5) ON CONFLICT (id) DO UPDATE SET v = 5", [true, false, false, false]),
        (
            "INSERT INTO t VALUES (7, 10, 5) ON CONFLICT (code) DO UPDATE SET v = excluded.v",
            [true, false, false, false],
        ),
        ("INSERT INTO t VALUES (1, 10, 5) ON CONFLICT (id) DO UPDATE SET code = 11", [false; 4]),
    ];
    for begin in BOTH {
        for (statement, goes_with) in statements {
            for (held, goes) in CLAUSES.iter().zip(goes_with) {
                let db = TestDatabase::new(ROWS);
                let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
                t1.ok(&format!("SELECT v FROM t WHERE id = 1 {held}"));
                let waits = t2.send(statement) == Reply::Waits;
                assert_eq!(waits, !goes, "{begin}: {statement} beside {held}");
            }
        }
    }
}

/// Bug: what a foreign key's action changes was locked as for a DELETE. Consequence: it waited for
/// transactions that only refer to the changed row. Fix: NO KEY UPDATE, unless a column that others
/// can refer to is set.
#[test]
fn actions_of_foreign_keys_lock_no_more_than_they_change() {
    const TABLES: &str = "CREATE TABLE p (id int PRIMARY KEY);
        CREATE TABLE c (n int PRIMARY KEY, p int REFERENCES p ON DELETE SET NULL ON UPDATE CASCADE);
        CREATE TABLE d (p int PRIMARY KEY REFERENCES p ON UPDATE CASCADE ON DELETE CASCADE);
        INSERT INTO p VALUES (1), (2); INSERT INTO c VALUES (1, 1); INSERT INTO d VALUES (2)";
    let cases = [
        ("SELECT 1 FROM c FOR KEY SHARE", "DELETE FROM p WHERE id = 1", false),
        ("SELECT 1 FROM c FOR KEY SHARE", "UPDATE p SET id = 9 WHERE id = 1", false),
        ("SELECT 1 FROM c FOR SHARE", "UPDATE p SET id = 9 WHERE id = 1", true),
        ("SELECT 1 FROM d FOR KEY SHARE", "UPDATE p SET id = 9 WHERE id = 2", true),
        ("SELECT 1 FROM d FOR KEY SHARE", "DELETE FROM p WHERE id = 2", true),
    ];
    for (held, statement, waits) in cases {
        let db = TestDatabase::new(TABLES);
        let (mut t1, mut t2) = (db.begun(READ_COMMITTED), db.begun(READ_COMMITTED));
        t1.ok(held);
        assert_eq!(t2.send(statement) == Reply::Waits, waits, "{statement} beside {held}");
    }
}

#[test]
fn a_child_goes_with_changes_of_its_parent_but_those_of_keys() {
    for child in ["INSERT INTO child VALUES (1, 1, NULL)", "INSERT INTO child VALUES (1, NULL, 10)"] {
        let db = TestDatabase::new(ROWS);
        let (mut t1, mut t2) = (db.begun(READ_COMMITTED), db.begun(READ_COMMITTED));
        t1.ok(child);
        t2.ok("UPDATE t SET v = 7 WHERE id = 1");
        t2.ok("SELECT v FROM t WHERE id = 1 FOR NO KEY UPDATE NOWAIT");
        assert_eq!(t2.fails("SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT"), LOCKED, "{child}");
        t2.ok("ROLLBACK");
        let mut t3 = db.begun(READ_COMMITTED);
        t3.waits("DELETE FROM t WHERE id = 1");
        t1.ok("COMMIT");
        assert_eq!(t3.then_fails(), "23503", "{child}");
    }
}

/// KEY SHARE keeps nobody from changing what was read: the check of reads at the commit still finds
/// it.
#[test]
fn key_share_does_not_weaken_serializable() {
    for clause in CLAUSES {
        let db = TestDatabase::new(ROWS);
        let (mut t1, mut t2) = (db.begun(SERIALIZABLE), db.begun(SERIALIZABLE));
        t1.ok(&format!("SELECT v FROM t WHERE id = 1 {clause}"));
        t2.ok(&format!("SELECT v FROM t WHERE id = 2 {clause}"));
        // Each changes what the other has read.
        let first = t1.send("UPDATE t SET v = 1 WHERE id = 2");
        let second = t2.send("UPDATE t SET v = 1 WHERE id = 1");
        let mut failed = 0;
        for (client, reply) in [(&mut t1, first), (&mut t2, second)] {
            let reply = match reply {
                Reply::Waits => continue,
                Reply::Failed(..) => reply,
                _ => client.send("COMMIT"),
            };
            failed += usize::from(matches!(reply, Reply::Failed(code, _) if code == CONFLICT || code == "40P01"));
        }
        assert!(failed >= 1, "{clause}: both came through");
    }
}

/// What another has changed beside a KEY SHARE is seen by the next statement, and no update is
/// lost.
#[test]
fn a_change_beside_key_share_is_not_lost() {
    for begin in BOTH {
        let db = TestDatabase::new(ROWS);
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("SELECT v FROM t WHERE id = 1 FOR KEY SHARE");
        t2.ok("UPDATE t SET v = v + 1 WHERE id = 1");
        t2.ok("COMMIT");
        let reply = t1.send("UPDATE t SET v = v * 2 + 1 WHERE id = 1");
        let came_through = match reply {
            Reply::Failed(code, _) => {
                assert_eq!(code, CONFLICT);
                false
            }
            _ => !matches!(t1.send("COMMIT"), Reply::Failed(..)),
        };
        assert_eq!(came_through, begin == READ_COMMITTED, "{begin}");
        let expected = if came_through { "3" } else { "1" };
        assert_eq!(db.now("SELECT v FROM t WHERE id = 1"), [expected], "{begin}");
    }
}

/// Bug: FOR UPDATE over a view or a query in FROM locked nothing. Consequence: two who took the
/// same job from a view both got it. Fix: the rows of its tables are locked, those that the
/// conditions leave.
#[test]
fn rows_behind_views_and_queries_are_locked() {
    let setup = format!("{ROWS}; CREATE VIEW w AS SELECT id, v FROM t WHERE v < 5");
    for begin in BOTH {
        for from in ["w", "(SELECT id, v FROM t) AS w", "(SELECT * FROM w) AS w"] {
            let db = TestDatabase::new(&setup);
            let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
            assert_eq!(t1.ok(&format!("SELECT id FROM {from} WHERE id = 1 FOR UPDATE")), ["1"]);
            assert_eq!(t2.ok("SELECT id FROM t FOR UPDATE SKIP LOCKED"), ["2"], "{begin}: {from}");
        }
    }
}

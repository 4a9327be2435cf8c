//! The anomalies of the literature, by name, through sessions in one thread: what SERIALIZABLE
//! rules out, and what READ COMMITTED allows; and what sessions wait for.

#![allow(clippy::unwrap_used, reason = "tests")]

mod clients;

use clients::{BOTH, Client, READ_COMMITTED, Reply, SERIALIZABLE, TestDatabase};

const CONFLICT: &str = "40001";
const DUPLICATE: &str = "23505";
const EXCLUDED: &str = "23P01";
const NO_PARENT: &str = "23503";
const LOCKED: &str = "55P03";

const ACCOUNTS: &str = "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL); INSERT INTO t VALUES (1, 0), (2, 0)";
/// Rows that a statement with a small budget stops between.
const SLICE: i64 = 64;

/// Starts a statement that looks at many rows, and leaves it in the middle, with its snapshot
/// taken.
#[track_caller]
fn stop_in_the_middle(client: &mut Client, text: &str) {
    assert_eq!(client.send_slice(text, SLICE), Reply::Yields, "{text}");
}

/// Whether a transaction fails for a conflict, at a statement or at its end.
#[track_caller]
fn conflicts(client: &mut Client, text: &str) -> bool {
    match client.send(text) {
        Reply::Failed(CONFLICT, _) => {
            client.ok("ROLLBACK");
            true
        }
        Reply::Done(..) => match client.send("COMMIT") {
            Reply::Failed(CONFLICT, _) => true,
            reply => {
                reply.rows("COMMIT");
                false
            }
        },
        other => panic!("{text}: {other:?}"),
    }
}

// ---- anomalies by name ----

#[test]
fn dirty_write_never_mixes_two_transactions() {
    for begin in BOTH {
        let db = TestDatabase::new(ACCOUNTS);
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("UPDATE t SET v = 1 WHERE id = 1");
        t2.waits("UPDATE t SET v = 2 WHERE id = 1");
        t1.ok("UPDATE t SET v = 1 WHERE id = 2");
        t1.ok("COMMIT");
        t2.then_ok();
        t2.ok("UPDATE t SET v = 2 WHERE id = 2");
        t2.ok("COMMIT");
        assert_eq!(db.now("SELECT v FROM t ORDER BY id"), ["2", "2"], "{begin}");
    }
}

#[test]
fn dirty_read_shows_nothing_uncommitted() {
    for begin in BOTH {
        let db = TestDatabase::new(ACCOUNTS);
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("UPDATE t SET v = 1 WHERE id = 1");
        t1.ok("UPDATE t SET v = 2 WHERE id = 1");
        assert_eq!(t2.ok("SELECT v FROM t WHERE id = 1"), ["0"]);
        t1.ok("ROLLBACK");
        assert_eq!(t2.ok("SELECT v FROM t WHERE id = 1"), ["0"]);
        t2.ok("COMMIT");
    }
}

#[test]
fn intermediate_read_shows_only_what_was_committed_last() {
    for begin in BOTH {
        let db = TestDatabase::new(ACCOUNTS);
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("UPDATE t SET v = 1 WHERE id = 1");
        assert_eq!(t2.ok("SELECT v FROM t WHERE id = 2"), ["0"]);
        t1.ok("UPDATE t SET v = 2 WHERE id = 1");
        t1.ok("COMMIT");
        assert_ne!(t2.ok("SELECT v FROM t WHERE id = 1"), ["1"]);
        t2.ok("COMMIT");
    }
}

/// Two transactions that read a row and then set it to one more.
fn lost_update(begin: &str, change: &str) -> (bool, Vec<String>) {
    let db = TestDatabase::new(ACCOUNTS);
    let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
    assert_eq!(t1.ok("SELECT v FROM t WHERE id = 1"), ["0"]);
    assert_eq!(t2.ok("SELECT v FROM t WHERE id = 1"), ["0"]);
    t1.ok(change);
    t1.ok("COMMIT");
    (conflicts(&mut t2, change), db.now("SELECT v FROM t WHERE id = 1"))
}

#[test]
fn lost_update_is_a_conflict() {
    assert_eq!(lost_update(SERIALIZABLE, "UPDATE t SET v = 1 WHERE id = 1"), (true, vec!["1".to_owned()]));
}

#[test]
fn lost_update_by_what_the_client_computed_is_allowed_in_read_committed() {
    assert_eq!(lost_update(READ_COMMITTED, "UPDATE t SET v = 1 WHERE id = 1"), (false, vec!["1".to_owned()]));
}

#[test]
fn an_update_of_what_is_there_is_never_lost() {
    assert_eq!(lost_update(READ_COMMITTED, "UPDATE t SET v = v + 1 WHERE id = 1"), (false, vec!["2".to_owned()]));
    assert_eq!(lost_update(SERIALIZABLE, "UPDATE t SET v = v + 1 WHERE id = 1"), (true, vec!["1".to_owned()]));
}

#[test]
fn fuzzy_read_shows_the_same_twice_unless_in_read_committed() {
    for (begin, seen) in [(SERIALIZABLE, "0"), (READ_COMMITTED, "1")] {
        let db = TestDatabase::new(ACCOUNTS);
        let mut t1 = db.begun(begin);
        assert_eq!(t1.ok("SELECT v FROM t WHERE id = 1"), ["0"]);
        db.now("UPDATE t SET v = 1 WHERE id = 1");
        assert_eq!(t1.ok("SELECT v FROM t WHERE id = 1"), [seen], "{begin}");
        t1.ok("COMMIT");
    }
}

#[test]
fn read_skew_shows_one_state_unless_in_read_committed() {
    for (begin, seen) in [(SERIALIZABLE, "0"), (READ_COMMITTED, "5")] {
        let db = TestDatabase::new(ACCOUNTS);
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        assert_eq!(t1.ok("SELECT v FROM t WHERE id = 1"), ["0"]);
        t2.ok("UPDATE t SET v = 5 WHERE id = 1");
        t2.ok("UPDATE t SET v = 5 WHERE id = 2");
        t2.ok("COMMIT");
        assert_eq!(t1.ok("SELECT v FROM t WHERE id = 2"), [seen], "{begin}");
        t1.ok("COMMIT");
    }
}

#[test]
fn read_skew_within_one_statement_is_ruled_out_always() {
    for begin in BOTH {
        let db = TestDatabase::new(
            "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 5000) AS g",
        );
        let mut t1 = db.begun(begin);
        t1.send_slice("SELECT sum(v) FROM t", SLICE);
        db.now("UPDATE t SET v = 1");
        assert_eq!(t1.then_ok(), ["0"], "{begin}");
    }
}

/// A transaction reads, another makes a change, the first reads again, and writes.
fn phantom(begin: &str, setup: &str, read: &str, change: &str) -> (bool, bool) {
    let db = TestDatabase::new(setup);
    let mut t1 = db.begun(begin);
    let before = t1.ok(read);
    db.now(change);
    let same = t1.ok(read) == before;
    (same, conflicts(&mut t1, "INSERT INTO log VALUES (1)"))
}

const WITH_INDEX: &str =
    "CREATE TABLE t (id int PRIMARY KEY, a int, b int, c text); CREATE INDEX ON t (a); CREATE TABLE log (n int);
    INSERT INTO t SELECT g, g / 10, g, 'x' || g FROM generate_series(1, 400) AS g";

#[test]
fn phantoms_are_ruled_out_by_keys_indexes_filters_and_counts() {
    let cases = [
        ("SELECT id FROM t WHERE id BETWEEN 10 AND 1000", "INSERT INTO t VALUES (500, 500, 500, 'x')"),
        ("SELECT id FROM t WHERE id BETWEEN 10 AND 1000", "DELETE FROM t WHERE id = 77"),
        ("SELECT id FROM t WHERE id = 500", "INSERT INTO t VALUES (500, 500, 500, 'x')"),
        ("SELECT id FROM t WHERE a = 7", "INSERT INTO t VALUES (500, 7, 500, 'x')"),
        ("SELECT id FROM t WHERE a = 7", "UPDATE t SET a = 7 WHERE id = 1"),
        ("SELECT id FROM t WHERE a = 7", "UPDATE t SET a = 8 WHERE id = 70"),
        ("SELECT id FROM t WHERE a = 7", "DELETE FROM t WHERE id = 70"),
        ("SELECT id FROM t WHERE a > 39", "INSERT INTO t VALUES (500, 99, 500, 'x')"),
        ("SELECT id FROM t WHERE b = 1000", "UPDATE t SET b = 1000 WHERE id = 3"),
        ("SELECT count(*) FROM t", "INSERT INTO t VALUES (500, 7, 500, 'x')"),
        ("SELECT count(*) FROM t", "DELETE FROM t WHERE id = 70"),
        ("SELECT count(*) FROM t WHERE a = 7", "INSERT INTO t VALUES (500, 7, 500, 'x')"),
        ("SELECT max(id) FROM t", "INSERT INTO t VALUES (500, 7, 500, 'x')"),
        ("SELECT id FROM t ORDER BY id DESC LIMIT 1", "INSERT INTO t VALUES (500, 7, 500, 'x')"),
        ("SELECT id FROM t ORDER BY a, id LIMIT 3", "INSERT INTO t VALUES (500, -1, 500, 'x')"),
        ("SELECT 1 WHERE EXISTS (SELECT 1 FROM t WHERE a = 999)", "INSERT INTO t VALUES (500, 999, 500, 'x')"),
        ("SELECT 1 WHERE 999 IN (SELECT b FROM t)", "INSERT INTO t VALUES (500, 1, 999, 'x')"),
        ("SELECT x.id FROM t AS x JOIN t AS y ON y.a = x.b WHERE x.id = 39", "UPDATE t SET a = 39 WHERE id = 1"),
        ("SELECT sum(b) FROM t GROUP BY a ORDER BY 1", "UPDATE t SET b = 0 WHERE id = 5"),
    ];
    for (read, change) in cases {
        assert_eq!(phantom(SERIALIZABLE, WITH_INDEX, read, change), (true, true), "{read}; {change}");
        assert_eq!(phantom(READ_COMMITTED, WITH_INDEX, read, change), (false, false), "{read}; {change}");
    }
}

#[test]
fn changes_beside_what_was_read_are_no_conflicts() {
    let cases = [
        ("SELECT id FROM t WHERE id BETWEEN 10 AND 20", "INSERT INTO t VALUES (500, 500, 500, 'x')"),
        ("SELECT id FROM t WHERE id BETWEEN 10 AND 20", "UPDATE t SET b = 0 WHERE id = 15"),
        ("SELECT id FROM t WHERE a = 7", "INSERT INTO t VALUES (500, 8, 500, 'x')"),
        ("SELECT id, a FROM t WHERE a = 7", "UPDATE t SET b = 0 WHERE id = 70"),
        ("SELECT count(*) FROM t", "UPDATE t SET a = 1"),
        ("SELECT b FROM t WHERE id = 5", "UPDATE t SET c = 'y' WHERE id = 5"),
        ("SELECT b FROM t WHERE id = 5", "UPDATE t SET a = a + 1 WHERE id = 5"),
        ("SELECT b FROM t WHERE id = 5", "DELETE FROM t WHERE id = 6"),
    ];
    for (read, change) in cases {
        assert_eq!(phantom(SERIALIZABLE, WITH_INDEX, read, change), (true, false), "{read}; {change}");
    }
}

#[test]
fn write_skew_is_a_conflict_unless_in_read_committed() {
    for (begin, expected) in [(SERIALIZABLE, true), (READ_COMMITTED, false)] {
        let db = TestDatabase::new(
            "CREATE TABLE doctors (name text PRIMARY KEY, on_call bool); INSERT INTO doctors VALUES ('a', true), ('b', true)",
        );
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        for client in [&mut t1, &mut t2] {
            assert_eq!(client.ok("SELECT count(*) FROM doctors WHERE on_call"), ["2"]);
        }
        t1.ok("UPDATE doctors SET on_call = false WHERE name = 'a'");
        t2.ok("UPDATE doctors SET on_call = false WHERE name = 'b'");
        t1.ok("COMMIT");
        let reply = t2.send("COMMIT");
        assert_eq!(matches!(reply, Reply::Failed(CONFLICT, _)), expected, "{begin}: {reply:?}");
        let left = if expected { "1" } else { "0" };
        assert_eq!(db.now("SELECT count(*) FROM doctors WHERE on_call"), [left]);
    }
}

#[test]
fn write_skew_by_inserts_is_a_conflict() {
    let db = TestDatabase::new(
        "CREATE TABLE t (id int PRIMARY KEY, kind int, n int); INSERT INTO t VALUES (1, 1, 10), (2, 2, 20)",
    );
    let (mut t1, mut t2) = (db.begun(SERIALIZABLE), db.begun(SERIALIZABLE));
    t1.ok("INSERT INTO t SELECT 3, 2, sum(n) FROM t WHERE kind = 1");
    t2.ok("INSERT INTO t SELECT 4, 1, sum(n) FROM t WHERE kind = 2");
    t1.ok("COMMIT");
    assert_eq!(t2.fails("COMMIT"), CONFLICT);
}

/// Fekete, O'Neil, O'Neil: a withdrawal with a fee, a deposit, and a reader that sees the deposit
/// only.
#[test]
fn read_only_anomaly_is_ruled_out() {
    for begin in ["BEGIN", "BEGIN READ ONLY"] {
        let db = TestDatabase::new(ACCOUNTS);
        let mut withdrawal = db.begun(SERIALIZABLE);
        assert_eq!(withdrawal.ok("SELECT sum(v) FROM t"), ["0"]);
        let mut deposit = db.begun(SERIALIZABLE);
        deposit.ok("SELECT v FROM t WHERE id = 2");
        deposit.ok("UPDATE t SET v = 20 WHERE id = 2");
        deposit.ok("COMMIT");
        let mut reader = db.begun(begin);
        assert_eq!(reader.ok("SELECT v FROM t ORDER BY id"), ["0", "20"]);
        reader.ok("COMMIT");
        assert!(conflicts(&mut withdrawal, "UPDATE t SET v = -11 WHERE id = 1"), "{begin}");
    }
}

#[test]
fn read_only_anomaly_is_allowed_in_read_committed() {
    let db = TestDatabase::new(ACCOUNTS);
    let mut withdrawal = db.begun(READ_COMMITTED);
    withdrawal.ok("SELECT sum(v) FROM t");
    db.now("UPDATE t SET v = 20 WHERE id = 2");
    assert_eq!(db.now("SELECT v FROM t ORDER BY id"), ["0", "20"]);
    assert!(!conflicts(&mut withdrawal, "UPDATE t SET v = -11 WHERE id = 1"));
}

// ---- foreign keys ----

const FAMILY: &str = "CREATE TABLE parent (id int PRIMARY KEY, code int UNIQUE, n int DEFAULT 0);
    CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent, code int REFERENCES parent (code));
    CREATE INDEX ON child (parent); INSERT INTO parent VALUES (1, 10), (2, 20)";
const ORPHANS: &str = "SELECT id FROM child WHERE parent IS NOT NULL AND parent NOT IN (SELECT id FROM parent)
    OR code IS NOT NULL AND code NOT IN (SELECT code FROM parent)";

/// Two transactions of which only one may come through: the second fails, at a statement or at its
/// end.
#[track_caller]
fn one_comes_through(db: &TestDatabase, begin: &str, first: &str, second: &str) {
    let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
    t1.ok(first);
    let reply = t2.send(second);
    t1.ok("COMMIT");
    let reply = if reply == Reply::Waits { t2.step(i64::MAX) } else { reply };
    let reply = if matches!(reply, Reply::Done(..)) { t2.send("COMMIT") } else { reply };
    assert!(matches!(reply, Reply::Failed(CONFLICT | NO_PARENT, _)), "{begin}: {first}; {second}: {reply:?}");
    assert_eq!(db.now(ORPHANS), [""; 0], "{begin}: {first}; {second}");
}

#[test]
fn a_child_and_the_end_of_its_parent_never_both_commit() {
    for begin in BOTH {
        for child in ["INSERT INTO child VALUES (1, 1, NULL)", "INSERT INTO child VALUES (1, NULL, 10)"] {
            for end in ["DELETE FROM parent WHERE id = 1", "UPDATE parent SET id = 5, code = 50 WHERE id = 1"] {
                one_comes_through(&TestDatabase::new(FAMILY), begin, child, end);
                one_comes_through(&TestDatabase::new(FAMILY), begin, end, child);
            }
        }
    }
}

#[test]
fn a_child_may_come_when_the_end_of_its_parent_is_taken_back() {
    for begin in BOTH {
        let db = TestDatabase::new(FAMILY);
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("DELETE FROM parent WHERE id = 1");
        let reply = t2.send("INSERT INTO child VALUES (1, 1, 10)");
        t1.ok("ROLLBACK");
        if reply == Reply::Waits {
            t2.then_ok();
        }
        t2.ok("COMMIT");
        assert_eq!(db.now("SELECT id FROM child"), ["1"]);
    }
}

#[test]
fn children_of_one_parent_do_not_wait_for_each_other_or_for_its_other_columns() {
    for begin in BOTH {
        let db = TestDatabase::new(FAMILY);
        let (mut t1, mut t2, mut t3) = (db.begun(begin), db.begun(begin), db.begun(begin));
        t1.ok("INSERT INTO child VALUES (1, 1, 10)");
        t2.ok("INSERT INTO child VALUES (2, 1, 10)");
        t3.ok("UPDATE parent SET n = n + 1 WHERE id = 1");
        for client in [&mut t3, &mut t1, &mut t2] {
            client.ok("COMMIT");
        }
    }
}

/// What another commits while a statement is on its way, whose snapshot is older.
#[track_caller]
fn while_a_statement_runs(begin: &str, setup: &str, slow: &str, meanwhile: &str) -> (TestDatabase, Reply) {
    let db = TestDatabase::new(setup);
    let mut t1 = db.begun(begin);
    stop_in_the_middle(&mut t1, slow);
    db.now(meanwhile);
    let reply = t1.step(i64::MAX);
    let reply = if matches!(reply, Reply::Done(..)) { t1.send("COMMIT") } else { reply };
    (db, reply)
}

// In READ COMMITTED the lock on a parent found by a unique index was given although the parent's
// key had changed since the statement's snapshot, so a child could come to refer to a key that was
// gone: nobody had said that it mattered.
#[test]
fn a_statement_on_its_way_sees_no_parent_that_has_gone_meanwhile() {
    let children = |columns: &str| {
        format!(
            "INSERT INTO child (id, {columns}) SELECT g, CASE WHEN g = 2000 THEN {{}} END FROM generate_series(1, 2000) AS g"
        )
    };
    let cases = [
        (children("parent").replace("{}", "1"), "DELETE FROM parent WHERE id = 1"),
        (children("code").replace("{}", "10"), "DELETE FROM parent WHERE id = 1"),
        (children("code").replace("{}", "10"), "UPDATE parent SET code = 11 WHERE id = 1"),
        (children("parent").replace("{}", "1"), "UPDATE parent SET id = 3 WHERE id = 1"),
        (children("code").replace("{}", "10"), "DELETE FROM parent WHERE id = 1; INSERT INTO parent VALUES (1, 11)"),
    ];
    for begin in BOTH {
        for (slow, meanwhile) in &cases {
            let db = TestDatabase::new(FAMILY);
            let mut t1 = db.begun(begin);
            stop_in_the_middle(&mut t1, slow);
            db.session().run(meanwhile).unwrap();
            let reply = t1.step(i64::MAX);
            let reply = if matches!(reply, Reply::Done(..)) { t1.send("COMMIT") } else { reply };
            assert!(matches!(reply, Reply::Failed(CONFLICT | NO_PARENT, _)), "{begin}: {slow}; {meanwhile}: {reply:?}");
            assert_eq!(db.now(ORPHANS), [""; 0], "{begin}: {slow}; {meanwhile}");
        }
    }
}

fn a_parent_on_its_way_out_sees_children(begin: &str) {
    let many = format!("{FAMILY}; INSERT INTO parent SELECT g FROM generate_series(3, 2000) AS g");
    for slow in ["DELETE FROM parent", "UPDATE parent SET id = id + 10000, code = code + 1000"] {
        for child in ["INSERT INTO child VALUES (1, 2000, NULL)", "INSERT INTO child VALUES (1, NULL, 20)"] {
            let db = TestDatabase::new(&many);
            let (mut t1, mut t2) = (db.begun(begin), db.client());
            stop_in_the_middle(&mut t1, slow);
            let came = t2.send(child);
            let reply = t1.step(i64::MAX);
            let reply = if matches!(reply, Reply::Done(..)) { t1.send("COMMIT") } else { reply };
            let what = format!("{begin}: {slow}; {child}: {came:?}, {reply:?}");
            match came {
                Reply::Done(..) => assert!(matches!(reply, Reply::Failed(CONFLICT | NO_PARENT, _)), "{what}"),
                // The parent was already on its way: its child waits for it, and finds it gone.
                _ => {
                    assert!(came == Reply::Waits && matches!(reply, Reply::Done(..)), "{what}");
                    assert_eq!(t2.then_fails(), NO_PARENT, "{what}");
                }
            }
            assert_eq!(db.now(ORPHANS), [""; 0], "{what}");
        }
    }
}

// In READ COMMITTED children were looked for in the statement's snapshot, although some could have
// come since, before the lock on the parent was had; and reads are not validated there: they were
// left without a parent.
#[test]
fn a_parent_on_its_way_out_sees_children_that_have_come_meanwhile() {
    BOTH.into_iter().for_each(a_parent_on_its_way_out_sees_children);
}

/// Begins two transactions at different levels, and runs a step of each in turn, first to last;
/// whoever waits is gone on with when the other has ended. No order may leave a child without its
/// parent.
fn mixed_levels(child: &str, end: &str, child_begin: &str, end_begin: &str) {
    // Who makes the first step, who the second, who commits first.
    for order in 0..4 {
        let db = TestDatabase::new(FAMILY);
        let (mut t1, mut t2) = (db.begun(child_begin), db.begun(end_begin));
        let mut sides =
            if order & 1 == 0 { [(&mut t1, child), (&mut t2, end)] } else { [(&mut t2, end), (&mut t1, child)] };
        // Each has a snapshot of its own before the other begins to write.
        sides.iter_mut().for_each(|(client, _)| drop(client.ok("SELECT n FROM parent WHERE id = 2")));
        let first = sides[0].0.send(sides[0].1);
        assert!(matches!(first, Reply::Done(..)), "{first:?}");
        let second = sides[1].0.send(sides[1].1);
        let commit = |client: &mut Client, reply: Reply| match reply {
            Reply::Waits => client.step(i64::MAX),
            other => other,
        };
        let [(one, _), (other, _)] = sides;
        let mut ended = Vec::new();
        // Who waits cannot be the first to commit.
        let turns = if order & 2 == 0 || second == Reply::Waits {
            [(one, first), (other, second)]
        } else {
            [(other, second), (one, first)]
        };
        for (client, reply) in turns {
            let reply = commit(client, reply);
            ended.push(if matches!(reply, Reply::Done(..)) { client.send("COMMIT") } else { reply });
        }
        let what = format!("{child_begin}: {child}; {end_begin}: {end}; order {order}: {ended:?}");
        assert_eq!(db.now(ORPHANS), [""; 0], "{what}");
        let committed = |reply: &Reply| matches!(reply, Reply::Done(_, tag) if tag == "COMMIT");
        assert_eq!(ended.iter().filter(|reply| committed(reply)).count(), 1, "{what}");
    }
}

// In SERIALIZABLE a child does not lock its parent but is checked at commit, in READ COMMITTED a
// parent that goes was locked and not checked: if the parent's end committed last, the child was
// left without it.
#[test]
fn a_child_and_the_end_of_its_parent_never_both_commit_at_different_levels() {
    for child in ["INSERT INTO child VALUES (1, 1, NULL)", "INSERT INTO child VALUES (1, NULL, 10)"] {
        for end in ["DELETE FROM parent WHERE id = 1", "UPDATE parent SET id = 5, code = 50 WHERE id = 1"] {
            mixed_levels(child, end, SERIALIZABLE, READ_COMMITTED);
            mixed_levels(child, end, READ_COMMITTED, SERIALIZABLE);
        }
    }
}

#[test]
fn a_child_does_not_keep_others_from_changing_its_parent() {
    for child_begin in BOTH {
        let db = TestDatabase::new(FAMILY);
        let mut t1 = db.begun(SERIALIZABLE);
        t1.ok("INSERT INTO child VALUES (1, 1, 10)");
        let mut t2 = db.begun(child_begin);
        t2.ok("UPDATE parent SET n = 7 WHERE id = 1");
        t2.ok("COMMIT");
        t1.ok("UPDATE parent SET n = n + 1 WHERE id = 1");
        t1.ok("COMMIT");
        assert_eq!(db.now("SELECT n FROM parent WHERE id = 1"), ["8"]);
    }
}

// ---- unique keys ----

const UNIQUE: &str =
    "CREATE TABLE t (id int PRIMARY KEY, a int, b text, UNIQUE (a, b)); INSERT INTO t VALUES (1, 1, 'x')";

#[test]
fn of_two_who_insert_the_same_key_one_fails() {
    for begin in BOTH {
        for (first, second) in [
            ("INSERT INTO t VALUES (2, 2, 'x')", "INSERT INTO t VALUES (2, 3, 'x')"),
            ("INSERT INTO t VALUES (2, 2, 'x')", "INSERT INTO t VALUES (3, 2, 'x')"),
            ("UPDATE t SET a = 2 WHERE id = 1", "INSERT INTO t VALUES (3, 2, 'x')"),
            ("INSERT INTO t VALUES (3, 2, 'x')", "UPDATE t SET a = 2 WHERE id = 1"),
        ] {
            let db = TestDatabase::new(UNIQUE);
            let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
            t1.ok(first);
            t2.waits(second);
            t1.ok("COMMIT");
            assert_eq!(t2.then_fails(), DUPLICATE, "{begin}: {first}; {second}");
            // And if the first is taken back, the second comes through.
            let db = TestDatabase::new(UNIQUE);
            let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
            t1.ok(first);
            t2.waits(second);
            t1.ok("ROLLBACK");
            t2.then_ok();
            t2.ok("COMMIT");
        }
    }
}

#[test]
fn a_key_that_a_transaction_found_free_is_a_conflict_if_it_is_taken() {
    let db = TestDatabase::new(UNIQUE);
    let mut t1 = db.begun(SERIALIZABLE);
    assert_eq!(t1.ok("SELECT id FROM t WHERE a = 2 AND b = 'x'"), [""; 0]);
    db.now("INSERT INTO t VALUES (2, 2, 'x')");
    assert!(conflicts(&mut t1, "INSERT INTO t VALUES (3, 2, 'x')"));
}

// The lock of a key of a secondary index is named by the values, which are no entry of their own:
// comparing the entry of that very key could not tell that the values had been taken since the
// statement's snapshot. In READ COMMITTED, where reads are not validated, a duplicate got in.
#[test]
fn a_statement_on_its_way_sees_keys_that_have_been_taken_meanwhile() {
    let slow = [
        "INSERT INTO t SELECT g, g, 'x' FROM generate_series(2, 2000) AS g",
        "INSERT INTO t SELECT g, g, 'x' FROM generate_series(2, 2000) AS g ON CONFLICT (id) DO NOTHING",
    ];
    for begin in BOTH {
        for slow in slow {
            let (db, reply) = while_a_statement_runs(begin, UNIQUE, slow, "INSERT INTO t VALUES (5000, 2000, 'x')");
            assert!(matches!(reply, Reply::Failed(CONFLICT | DUPLICATE, _)), "{begin}: {slow}: {reply:?}");
            assert_eq!(db.now("SELECT a, b FROM t GROUP BY a, b HAVING count(*) > 1"), [""; 0]);
        }
        let (_, reply) = while_a_statement_runs(begin, UNIQUE, slow[0], "INSERT INTO t VALUES (2000, -1, 'x')");
        assert!(matches!(reply, Reply::Failed(CONFLICT | DUPLICATE, _)), "{begin}: {reply:?}");
        let many = format!("{UNIQUE}; INSERT INTO t SELECT g, g, 'x' FROM generate_series(2, 2000) AS g");
        // Who runs again from its start sees the new row, and moves it out of the way.
        let slow = "UPDATE t SET a = -a";
        let (db, reply) = while_a_statement_runs(begin, &many, slow, "INSERT INTO t VALUES (5000, -2000, 'x')");
        assert!(
            matches!(reply, Reply::Done(..) | Reply::Failed(CONFLICT | DUPLICATE, _)),
            "{begin}: {slow}: {reply:?}"
        );
        assert_eq!(db.now("SELECT a, b FROM t GROUP BY a, b HAVING count(*) > 1"), [""; 0]);
    }
}

const STAYS: &str = "CREATE EXTENSION btree_gist; CREATE TABLE stays (id int PRIMARY KEY, room int, during int4range, \
                     EXCLUDE USING gist (room WITH =, during WITH &&)); INSERT INTO stays VALUES (1, 1, '[0,10)')";
const OVERLAPS: &str =
    "SELECT a.id FROM stays a JOIN stays b ON a.room = b.room AND a.id < b.id AND a.during && b.during";

#[test]
fn of_two_who_take_overlapping_ranges_one_fails() {
    for begin in BOTH {
        for (first, second) in [
            ("INSERT INTO stays VALUES (2, 1, '[10,20)')", "INSERT INTO stays VALUES (3, 1, '[15,16)')"),
            ("INSERT INTO stays VALUES (2, 1, '[15,16)')", "INSERT INTO stays VALUES (3, 1, '[10,20)')"),
            ("INSERT INTO stays VALUES (2, 2, '(,)')", "INSERT INTO stays VALUES (3, 2, '[5,6)')"),
            ("UPDATE stays SET during = '[0,20)' WHERE id = 1", "INSERT INTO stays VALUES (3, 1, '[15,16)')"),
            ("INSERT INTO stays VALUES (3, 2, '[5,6)')", "UPDATE stays SET room = 2 WHERE id = 1"),
        ] {
            let db = TestDatabase::new(STAYS);
            let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
            t1.ok(first);
            t2.waits(second);
            t1.ok("COMMIT");
            assert_eq!(t2.then_fails(), EXCLUDED, "{begin}: {first}; {second}");
            assert_eq!(db.now(OVERLAPS), [""; 0]);
            // And if the first is taken back, the second comes through.
            let db = TestDatabase::new(STAYS);
            let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
            t1.ok(first);
            t2.waits(second);
            t1.ok("ROLLBACK");
            t2.then_ok();
            t2.ok("COMMIT");
        }
        // Other rooms do not wait for each other.
        let db = TestDatabase::new(STAYS);
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("INSERT INTO stays VALUES (2, 1, '[10,20)')");
        t2.ok("INSERT INTO stays VALUES (3, 2, '[10,20)')");
        t1.ok("COMMIT");
        t2.ok("COMMIT");
    }
}

#[test]
fn a_statement_on_its_way_sees_ranges_that_have_been_taken_meanwhile() {
    for begin in BOTH {
        // In a room of its own each: whoever takes a room that the statement has taken waits for it.
        let slow = "INSERT INTO stays SELECT g, g, int4range(g * 10, g * 10 + 5) FROM generate_series(2, 2000) AS g";
        for other in ["'[20000,20001)'", "'[19900,30000)'", "'[20001,20003)'"] {
            let other = format!("INSERT INTO stays VALUES (5000, 2000, {other})");
            let (db, reply) = while_a_statement_runs(begin, STAYS, slow, &other);
            assert!(matches!(reply, Reply::Failed(CONFLICT | EXCLUDED, _)), "{begin}: {other}: {reply:?}");
            assert_eq!(db.now(OVERLAPS), [""; 0]);
        }
    }
}

#[test]
fn an_upsert_on_its_way_meets_keys_that_have_been_taken_meanwhile() {
    for begin in BOTH {
        let slow = "INSERT INTO t SELECT g, g, 'x' FROM generate_series(2, 2000) AS g ON CONFLICT (a, b) DO UPDATE SET id = -t.id";
        let (db, reply) = while_a_statement_runs(begin, UNIQUE, slow, "INSERT INTO t VALUES (5000, 2000, 'x')");
        assert!(matches!(reply, Reply::Done(..) | Reply::Failed(CONFLICT, _)), "{begin}: {reply:?}");
        assert_eq!(db.now("SELECT a, b FROM t GROUP BY a, b HAVING count(*) > 1"), [""; 0], "{begin}");
        if matches!(reply, Reply::Done(..)) {
            assert_eq!(db.now("SELECT id FROM t WHERE a = 2000"), ["-5000"]);
        }
    }
}

#[test]
fn upserts_of_one_key_count_all() {
    for begin in BOTH {
        let db = TestDatabase::new("CREATE TABLE t (k text PRIMARY KEY, n int)");
        let upsert = "INSERT INTO t VALUES ('a', 1) ON CONFLICT (k) DO UPDATE SET n = t.n + 1";
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok(upsert);
        t2.waits(upsert);
        t1.ok("COMMIT");
        t2.then_ok();
        t2.ok("COMMIT");
        assert_eq!(db.now("SELECT n FROM t"), ["2"]);
    }
}

// ---- changes of the catalogue ----

#[test]
fn a_change_of_a_table_waits_for_its_writers() {
    for change in [
        "ALTER TABLE t ADD COLUMN w int NOT NULL DEFAULT 7",
        "CREATE INDEX by_v ON t (v)",
        "ALTER TABLE t ADD CHECK (v < 100)",
        "TRUNCATE t",
        "DROP TABLE t",
    ] {
        for begin in BOTH {
            let db = TestDatabase::new(ACCOUNTS);
            let mut t1 = db.begun(begin);
            t1.ok("INSERT INTO t VALUES (3, 3)");
            let mut ddl = db.client();
            ddl.waits(change);
            t1.ok("INSERT INTO t VALUES (4, 4)");
            t1.ok("COMMIT");
            ddl.then_ok();
            match change {
                "TRUNCATE t" => assert_eq!(db.now("SELECT count(*) FROM t"), ["0"]),
                "DROP TABLE t" => assert_eq!(db.client().fails("SELECT 1 FROM t"), "42P01"),
                _ => assert_eq!(db.now("SELECT v FROM t WHERE v > 0 ORDER BY v"), ["3", "4"]),
            }
        }
    }
}

#[test]
fn a_writer_waits_for_a_change_of_its_table_and_sees_it() {
    for begin in BOTH {
        let db = TestDatabase::new(ACCOUNTS);
        let mut ddl = db.begun("BEGIN");
        ddl.ok("ALTER TABLE t ADD COLUMN w int DEFAULT 7");
        let mut t1 = db.begun(begin);
        t1.waits("INSERT INTO t VALUES (3, 3)");
        ddl.ok("COMMIT");
        t1.then_ok();
        t1.ok("COMMIT");
        assert_eq!(db.now("SELECT w FROM t ORDER BY id"), ["7", "7", "7"]);
    }
}

#[test]
fn a_writer_after_a_dropped_table_is_told() {
    for begin in BOTH {
        let db = TestDatabase::new(ACCOUNTS);
        let mut ddl = db.begun("BEGIN");
        ddl.ok("DROP TABLE t");
        let mut t1 = db.begun(begin);
        t1.waits("INSERT INTO t VALUES (3, 3)");
        ddl.ok("COMMIT");
        assert_eq!(t1.then_fails(), "42P01");
    }
}

#[test]
fn a_transaction_that_has_read_a_table_which_then_changes_does_not_write_by_it() {
    for begin in BOTH {
        let db = TestDatabase::new(ACCOUNTS);
        let mut t1 = db.begun(begin);
        t1.ok("SELECT * FROM t");
        db.now("ALTER TABLE t ADD COLUMN w int NOT NULL DEFAULT 7");
        let reply = t1.send("INSERT INTO t VALUES (3, 3)");
        match reply {
            Reply::Done(..) => _ = t1.ok("COMMIT"),
            Reply::Failed(CONFLICT, _) => assert_eq!(begin, SERIALIZABLE),
            other => panic!("{begin}: {other:?}"),
        }
        assert_eq!(db.now("SELECT count(*) FROM t WHERE w IS NULL"), ["0"]);
    }
}

// The lock that keeps a table from being changed was given although the table had been changed
// since the transaction's snapshot: its row in the catalogue had not been read, so nothing of it
// seemed to matter. An index made meanwhile got no entries for what the transaction wrote.
#[test]
fn a_transaction_older_than_an_index_does_not_pass_it_by() {
    let setup = format!("{ACCOUNTS}; CREATE TABLE log (n int); CREATE TABLE other (id int PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE);
        INSERT INTO other VALUES (1, 1), (2, 2)");
    for begin in BOTH {
        for (change, write) in [
            ("CREATE INDEX by_v ON t (v)", "INSERT INTO t VALUES (3, 3)"),
            ("CREATE INDEX by_v ON t (v)", "UPDATE t SET v = v + 1"),
            ("CREATE INDEX by_v ON t (v)", "DELETE FROM t WHERE id = 2"),
            ("ALTER TABLE t ADD CHECK (v < 3)", "INSERT INTO t VALUES (3, 3)"),
            ("CREATE INDEX by_t ON other (t)", "DELETE FROM t WHERE id = 2"),
            ("ALTER TABLE other ADD COLUMN w int", "DELETE FROM t WHERE id = 2"),
        ] {
            let db = TestDatabase::new(&setup);
            let mut t1 = db.begun(begin);
            t1.ok("SELECT * FROM log");
            db.now(change);
            let reply = t1.send(write);
            if matches!(reply, Reply::Done(..)) {
                t1.send("COMMIT");
            }
            assert!(!matches!(reply, Reply::Done(..)) || !change.contains("CHECK"), "{begin}: {change}; {write}");
            assert_eq!(db.engine.check().unwrap(), [""; 0], "{begin}: {change}; {write}");
        }
    }
}

#[test]
fn an_index_waits_for_the_rows_that_a_foreign_key_takes_along() {
    for begin in BOTH {
        let db = TestDatabase::new(&format!(
            "{ACCOUNTS}; CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE);
            CREATE INDEX by_t ON child (t); INSERT INTO child VALUES (1, 1), (2, 2)"
        ));
        let mut t1 = db.begun(begin);
        t1.ok("DELETE FROM t WHERE id = 2");
        let mut ddl = db.client();
        let reply = ddl.send("CREATE INDEX by_both ON child (t, id)");
        t1.send("COMMIT");
        if reply == Reply::Waits {
            ddl.then_ok();
        }
        assert_eq!(db.engine.check().unwrap(), [""; 0], "{begin}");
    }
}

#[test]
fn rows_of_a_statement_on_its_way_keep_to_a_constraint_that_has_come_meanwhile() {
    // The statement holds the table from its start, so the change waits for it.
    for begin in BOTH {
        let db = TestDatabase::new(ACCOUNTS);
        let mut t1 = db.begun(begin);
        stop_in_the_middle(&mut t1, "INSERT INTO t SELECT g, g FROM generate_series(3, 2000) AS g");
        let mut ddl = db.client();
        ddl.waits("ALTER TABLE t ADD CHECK (v < 1000)");
        t1.then_ok();
        t1.ok("COMMIT");
        assert_eq!(ddl.then_fails(), "23514");
    }
}

// Two changes side by side both made the catalogue's next version of the same last one. A session
// that had met the one took what it knew for the other: it missed an index, and its rows were not
// entered there.
#[test]
fn changes_of_two_tables_side_by_side_make_two_versions() {
    for begin in BOTH {
        let db = TestDatabase::new("CREATE TABLE one (a int, b int); CREATE TABLE two (a int, b int)");
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("ALTER TABLE one ADD CHECK (a > 0)");
        let reply = t2.send("ALTER TABLE two ADD CHECK (a > 0)");
        t1.ok("COMMIT");
        if reply == Reply::Waits {
            t2.then_ok();
        }
        t2.ok("COMMIT");
        let (mut t1, mut t2) = (t1, t2);
        for client in [&mut t1, &mut t2] {
            assert_eq!(client.fails("INSERT INTO one VALUES (-1, 0)"), "23514", "{begin}");
            assert_eq!(client.fails("INSERT INTO two VALUES (-1, 0)"), "23514", "{begin}");
        }
    }
}

#[test]
fn tables_made_side_by_side_are_all_there() {
    let db = TestDatabase::new("CREATE TABLE zero (a int)");
    let (mut t1, mut t2) = (db.begun("BEGIN"), db.begun("BEGIN"));
    t1.ok("CREATE TABLE one (a int)");
    let reply = t2.send("CREATE TABLE two (a int)");
    t1.ok("COMMIT");
    let reply = if reply == Reply::Waits { t2.step(i64::MAX) } else { reply };
    let reply = if matches!(reply, Reply::Done(..)) { t2.send("COMMIT") } else { reply };
    assert!(matches!(reply, Reply::Done(..) | Reply::Failed(CONFLICT, _)), "{reply:?}");
    db.now("INSERT INTO one VALUES (1)");
    assert_eq!(matches!(db.client().send("SELECT * FROM two"), Reply::Done(..)), matches!(reply, Reply::Done(..)));
}

// ---- sequences ----

#[test]
fn values_of_sequences_are_never_taken_back() {
    for begin in BOTH {
        let db = TestDatabase::new("CREATE SEQUENCE s; CREATE TABLE t (id serial PRIMARY KEY, v int)");
        let mut t1 = db.begun(begin);
        assert_eq!(t1.ok("SELECT nextval('s')"), ["1"]);
        assert_eq!(t1.ok("INSERT INTO t (v) VALUES (1) RETURNING id"), ["1"]);
        t1.ok("ROLLBACK");
        let mut t2 = db.begun(begin);
        assert_eq!(t2.ok("SELECT nextval('s')"), ["2"]);
        assert_eq!(t2.ok("INSERT INTO t (v) VALUES (1) RETURNING id"), ["2"]);
        t2.ok("COMMIT");
    }
}

#[test]
fn sequences_are_no_cause_to_wait_or_fail() {
    for begin in BOTH {
        let db = TestDatabase::new("CREATE TABLE t (id serial PRIMARY KEY, v int)");
        let mut clients: Vec<Client> = (0..5).map(|_| db.begun(begin)).collect();
        let mut given = Vec::new();
        for _ in 0..30 {
            for client in &mut clients {
                given.extend(client.ok("INSERT INTO t (v) VALUES (1) RETURNING id"));
            }
        }
        clients.iter_mut().for_each(|client| _ = client.ok("COMMIT"));
        given.sort();
        given.dedup();
        assert_eq!(given.len(), 150);
    }
}

// ---- waiting ----

#[test]
fn nowait_and_skip_locked_do_not_wait() {
    for begin in BOTH {
        let db = TestDatabase::new("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)");
        let mut t1 = db.begun(begin);
        t1.ok("SELECT * FROM t WHERE id = 2 FOR UPDATE");
        let mut t2 = db.begun(begin);
        assert_eq!(t2.ok("SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED"), ["1", "3"]);
        assert_eq!(t2.fails("SELECT id FROM t WHERE id = 2 FOR UPDATE NOWAIT"), LOCKED);
        assert_eq!(t2.fails("SELECT 1"), "25P02");
        t2.ok("ROLLBACK");
        let mut t3 = db.begun(begin);
        assert_eq!(t3.fails("SELECT id FROM t FOR SHARE NOWAIT"), LOCKED);
        t3.ok("ROLLBACK");
        t1.ok("COMMIT");
    }
}

#[test]
fn share_locks_go_together_and_keep_writers_out() {
    for begin in BOTH {
        let db = TestDatabase::new(ACCOUNTS);
        let (mut t1, mut t2, mut t3) = (db.begun(begin), db.begun(begin), db.begun(begin));
        t1.ok("SELECT * FROM t WHERE id = 1 FOR SHARE");
        t2.ok("SELECT * FROM t WHERE id = 1 FOR SHARE");
        t3.waits("UPDATE t SET v = 1 WHERE id = 1");
        t1.ok("COMMIT");
        assert_eq!(t3.step(i64::MAX), Reply::Waits);
        t2.ok("COMMIT");
        t3.then_ok();
        t3.ok("COMMIT");
    }
}

#[test]
fn lock_timeout_ends_waiting() {
    for begin in BOTH {
        let db = TestDatabase::new(ACCOUNTS);
        let mut t1 = db.begun(begin);
        t1.ok("UPDATE t SET v = 1 WHERE id = 1");
        let mut t2 = db.begun(begin);
        t2.ok("SET lock_timeout = '20ms'");
        t2.ok("UPDATE t SET v = 1 WHERE id = 2");
        let error = t2.session.run("UPDATE t SET v = 2 WHERE id = 1").unwrap_err();
        assert_eq!(error.state().0, LOCKED);
        assert_eq!(t2.fails("SELECT 1"), "25P02");
        t2.ok("ROLLBACK");
        // Who has given up is in nobody's way.
        t1.ok("COMMIT");
        db.now("UPDATE t SET v = 3");
        assert!(db.engine.store().locks().is_empty());
    }
}

#[test]
fn a_change_of_the_catalogue_gives_up_after_lock_timeout() {
    let db = TestDatabase::new(ACCOUNTS);
    let mut t1 = db.begun("BEGIN");
    t1.ok("UPDATE t SET v = 1 WHERE id = 1");
    let mut session = db.session();
    session.run("SET lock_timeout = '20ms'").unwrap();
    assert_eq!(session.run("DROP TABLE t").unwrap_err().state().0, LOCKED);
    t1.ok("COMMIT");
    assert_eq!(db.now("SELECT v FROM t ORDER BY id"), ["1", "0"]);
}

#[test]
fn of_two_who_wait_for_each_other_one_fails() {
    for begin in BOTH {
        let db = TestDatabase::new(ACCOUNTS);
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("UPDATE t SET v = v + 1 WHERE id = 1");
        t2.ok("UPDATE t SET v = v + 10 WHERE id = 2");
        // Additions go together, so others are needed for a circle.
        t1.waits("UPDATE t SET v = 5 WHERE id = 2");
        assert_eq!(t2.fails("UPDATE t SET v = 6 WHERE id = 1"), CONFLICT);
        assert!(!t1.is_parked() || t2.session.state() == colibri_sql::TransactionState::Failed);
        t2.ok("ROLLBACK");
        t1.then_ok();
        t1.ok("COMMIT");
        assert_eq!(db.now("SELECT v FROM t ORDER BY id"), ["1", "5"]);
    }
}

#[test]
fn of_three_who_wait_in_a_circle_one_fails() {
    let db =
        TestDatabase::new("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)");
    let mut clients: Vec<Client> = (0..3).map(|_| db.begun(SERIALIZABLE)).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.ok(&format!("UPDATE t SET v = 1 WHERE id = {}", n + 1));
    }
    clients[0].waits("UPDATE t SET v = 2 WHERE id = 2");
    clients[1].waits("UPDATE t SET v = 2 WHERE id = 3");
    assert_eq!(clients[2].fails("UPDATE t SET v = 2 WHERE id = 1"), CONFLICT);
    clients[2].ok("ROLLBACK");
    clients[1].then_ok();
    clients[1].ok("COMMIT");
    clients[0].then_ok();
    clients[0].ok("COMMIT");
}

#[test]
fn a_session_that_ends_while_it_waits_is_in_nobodys_way() {
    let db = TestDatabase::new(ACCOUNTS);
    let mut t1 = db.begun("BEGIN");
    t1.ok("UPDATE t SET v = 1 WHERE id = 1");
    let mut t2 = db.begun("BEGIN");
    t2.waits("UPDATE t SET v = 2 WHERE id = 1");
    let mut t3 = db.begun("BEGIN");
    t3.waits("UPDATE t SET v = 3 WHERE id = 1");
    drop(t2);
    t1.ok("COMMIT");
    t3.then_ok();
    t3.ok("COMMIT");
    assert_eq!(db.now("SELECT v FROM t WHERE id = 1"), ["3"]);
    assert!(db.engine.store().locks().is_empty());
}

// ---- what is no conflict ----

#[test]
fn reading_a_column_while_another_is_added_to_is_no_conflict() {
    let db = TestDatabase::new(
        "CREATE TABLE w (id int PRIMARY KEY, tax int, ytd int); CREATE TABLE log (n int); INSERT INTO w VALUES (1, 5, 0)",
    );
    let (mut t1, mut t2) = (db.begun(SERIALIZABLE), db.begun(SERIALIZABLE));
    assert_eq!(t1.ok("SELECT tax FROM w WHERE id = 1"), ["5"]);
    t2.ok("UPDATE w SET ytd = ytd + 10 WHERE id = 1");
    t1.ok("INSERT INTO log VALUES (1)");
    t2.ok("COMMIT");
    t1.ok("COMMIT");
    // Who reads the column that is added to does conflict.
    let mut t1 = db.begun(SERIALIZABLE);
    t1.ok("SELECT ytd FROM w WHERE id = 1");
    db.now("UPDATE w SET ytd = ytd + 10 WHERE id = 1");
    assert!(conflicts(&mut t1, "INSERT INTO log VALUES (1)"));
}

#[test]
fn many_sessions_add_to_one_row_without_failures() {
    for begin in BOTH {
        let db = TestDatabase::new(ACCOUNTS);
        let mut clients: Vec<Client> = (0..8).map(|_| db.client()).collect();
        for round in 0..20 {
            for client in &mut clients {
                client.ok(begin);
            }
            let mut parked = Vec::new();
            for (n, client) in clients.iter_mut().enumerate() {
                // Alternately as an addition and as something that has to see the value.
                let text = match (round + n) % 2 {
                    0 => "UPDATE t SET v = v + 1 WHERE id = 1",
                    _ => "UPDATE t SET v = CASE WHEN v % 2 = 0 THEN v + 1 ELSE v + 1 END WHERE id = 1",
                };
                match client.send(text) {
                    Reply::Waits => parked.push(n),
                    reply => {
                        reply.rows(text);
                    }
                }
            }
            for (n, client) in clients.iter_mut().enumerate() {
                if !parked.contains(&n) {
                    client.ok("COMMIT");
                }
            }
            while !parked.is_empty() {
                let n = parked.iter().position(|&n| !clients[n].is_parked()).expect("somebody can go on");
                let n = parked.remove(n);
                match clients[n].step(i64::MAX) {
                    Reply::Waits => parked.push(n),
                    reply => {
                        reply.rows("UPDATE");
                        clients[n].ok("COMMIT");
                    }
                }
            }
        }
        assert_eq!(db.now("SELECT v FROM t WHERE id = 1"), ["160"], "{begin}");
    }
}

#[test]
fn a_queue_gives_each_row_once() {
    let take = "DELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY id LIMIT 1 FOR UPDATE) RETURNING id";
    let skip =
        "DELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";
    let setup = "CREATE TABLE queue (id int PRIMARY KEY, job text); INSERT INTO queue SELECT g, 'job' FROM generate_series(1, 60) AS g";
    for begin in BOTH {
        for take in [take, skip] {
            let db = TestDatabase::new(setup);
            let mut clients: Vec<Client> = (0..4).map(|_| db.client()).collect();
            let mut taken: Vec<i32> = Vec::new();
            let (mut turn, mut failures) = (0, 0);
            while taken.len() < 60 {
                turn += 1;
                assert!(turn < 10_000, "{begin}: {take}: only {taken:?} were taken");
                let client = &mut clients[turn * 7 % 4];
                let reply = if client.is_parked() {
                    continue;
                } else if client.is_busy() {
                    client.step(i64::MAX)
                } else {
                    client.ok(begin);
                    client.send(take)
                };
                match reply {
                    Reply::Waits => {}
                    Reply::Done(rows, _) => match client.send("COMMIT") {
                        Reply::Done(..) => taken.extend(rows.iter().map(|row| row.parse::<i32>().unwrap())),
                        Reply::Failed(CONFLICT, _) => failures += 1,
                        other => panic!("{other:?}"),
                    },
                    Reply::Failed(CONFLICT, _) => {
                        failures += 1;
                        client.ok("ROLLBACK");
                    }
                    other => panic!("{begin}: {take}: {other:?}"),
                }
            }
            taken.sort_unstable();
            assert_eq!(taken, (1..=60).collect::<Vec<_>>(), "{begin}: {take}");
            assert_eq!(failures, 0, "{begin}: {take}");
        }
    }
}

#[test]
fn who_waited_for_the_first_of_a_queue_gets_the_next() {
    let setup = "CREATE TABLE queue (id int PRIMARY KEY); INSERT INTO queue VALUES (1), (2), (3)";
    let take = "SELECT id FROM queue ORDER BY id LIMIT 1 FOR UPDATE";
    for begin in BOTH {
        let db = TestDatabase::new(setup);
        let (mut t1, mut t2, mut t3) = (db.begun(begin), db.begun(begin), db.begun(begin));
        assert_eq!(t1.ok(take), ["1"]);
        t2.waits(take);
        t3.waits(take);
        t1.ok("DELETE FROM queue WHERE id = 1");
        t1.ok("COMMIT");
        assert_eq!(t2.then_ok(), ["2"], "{begin}");
        t2.ok("ROLLBACK");
        assert_eq!(t3.then_ok(), ["2"], "{begin}");
        t3.ok("COMMIT");
    }
}

#[test]
fn a_unique_value_is_waited_for_while_its_row_may_go() {
    let setup = "CREATE TABLE u (id int PRIMARY KEY, email text UNIQUE, v int); \
                 INSERT INTO u VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 0)";
    for begin in BOTH {
        let db = TestDatabase::new(setup);
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("DELETE FROM u WHERE id = 1");
        t2.waits("INSERT INTO u VALUES (4, 'a', 0)");
        t1.ok("COMMIT");
        t2.then_ok();
        t2.ok("COMMIT");
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("UPDATE u SET email = 'x' WHERE id = 2");
        t2.waits("INSERT INTO u VALUES (5, 'b', 0)");
        t1.ok("ROLLBACK");
        assert_eq!(t2.then_fails(), DUPLICATE, "{begin}");
        t2.ok("ROLLBACK");
        // A change of another column is in nobody's way.
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("UPDATE u SET v = 1 WHERE id = 3");
        assert_eq!(t2.fails("INSERT INTO u VALUES (6, 'c', 0)"), DUPLICATE, "{begin}");
        t1.ok("COMMIT");
    }
}

#[test]
fn a_statement_of_its_own_runs_again_until_it_comes_through() {
    let db = TestDatabase::new(ACCOUNTS);
    let mut client = db.client();
    let text = "UPDATE t SET v = (SELECT sum(v) FROM t) + 1 WHERE id = 1";
    let mut t1 = db.begun("BEGIN");
    t1.ok("UPDATE t SET v = 10");
    client.waits(text);
    t1.ok("COMMIT");
    client.then_ok();
    assert_eq!(db.now("SELECT v FROM t ORDER BY id"), ["21", "10"]);
}

#[test]
fn a_savepoint_takes_back_what_came_behind_it_alone() {
    for begin in BOTH {
        let db = TestDatabase::new(ACCOUNTS);
        let mut t1 = db.begun(begin);
        t1.ok("UPDATE t SET v = 1 WHERE id = 1");
        t1.ok("SAVEPOINT a");
        t1.ok("UPDATE t SET v = 2 WHERE id = 2");
        assert_eq!(t1.fails("INSERT INTO t VALUES (1, 1)"), DUPLICATE);
        t1.ok("ROLLBACK TO a");
        // Locks stay until the transaction ends.
        let mut t2 = db.begun(begin);
        t2.waits("UPDATE t SET v = 3 WHERE id = 2");
        t1.ok("COMMIT");
        t2.then_ok();
        t2.ok("COMMIT");
        assert_eq!(db.now("SELECT v FROM t ORDER BY id"), ["1", "3"]);
    }
}

/// Bug: after ROLLBACK TO, a column that the transaction had added to before the savepoint was read
/// without what others had added meanwhile. See
/// `back_at_a_savepoint_a_row_that_is_added_to_is_that_of_the_snapshot` of the transactions.
#[test]
fn a_savepoint_does_not_take_back_what_others_have_added() {
    let db = TestDatabase::new(ACCOUNTS);
    let mut others = db.client();
    others.ok("UPDATE t SET v = 0");
    let mut t1 = db.begun(SERIALIZABLE);
    t1.ok("UPDATE t SET v = v + 1 WHERE id = 1");
    t1.ok("SAVEPOINT a");
    t1.ok("UPDATE t SET v = v + 9 WHERE id = 1");
    others.ok("UPDATE t SET v = v + 100 WHERE id = 1");
    others.ok("UPDATE t SET v = 5 WHERE id = 2");
    // Comes upon a row that was changed, and runs again on a newer snapshot.
    t1.ok("UPDATE t SET v = 6 WHERE id = 2");
    t1.ok("ROLLBACK TO a");
    assert_eq!(t1.ok("SELECT v FROM t WHERE id = 1"), ["101"]);
    t1.ok("COMMIT");
    assert_eq!(db.now("SELECT v FROM t ORDER BY id"), ["101", "5"]);
}

// ---- REPEATABLE READ: one state, and no lost updates ----

const REPEATABLE_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";

/// Bug: REPEATABLE READ was serializable. Consequence: transactions failed because of rows that
/// they had only read, four times for each one that committed in sysbench's mixed test. Fix: its
/// commit checks what was written alone.
#[test]
fn repeatable_read_allows_write_skew_as_in_postgresql() {
    for (begin, fails) in [(REPEATABLE_READ, false), (SERIALIZABLE, true)] {
        let db = TestDatabase::new(ACCOUNTS);
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("SELECT v FROM t ORDER BY id");
        t2.ok("SELECT v FROM t ORDER BY id");
        t1.ok("UPDATE t SET v = 1 WHERE id = 1");
        assert!(!conflicts(&mut t2, "UPDATE t SET v = 1 WHERE id = 2"));
        assert_eq!(matches!(t1.send("COMMIT"), Reply::Failed(CONFLICT, _)), fails, "{begin}");
    }
}

#[test]
fn repeatable_read_sees_one_state_and_its_own_changes() {
    let db = TestDatabase::new(ACCOUNTS);
    let mut t1 = db.begun(REPEATABLE_READ);
    assert_eq!(t1.ok("SELECT sum(v) FROM t"), ["0"]);
    db.now("UPDATE t SET v = 10");
    db.now("INSERT INTO t VALUES (3, 3)");
    assert_eq!(t1.ok("SELECT count(*), sum(v) FROM t"), ["2 0"]);
    t1.ok("INSERT INTO t VALUES (4, 4)");
    assert_eq!(t1.ok("SELECT count(*), sum(v) FROM t"), ["3 4"]);
    t1.ok("COMMIT");
    assert_eq!(db.now("SELECT count(*), sum(v) FROM t"), ["4 27"]);
}

#[test]
fn repeatable_read_loses_no_update() {
    for change in
        ["UPDATE t SET v = v + 1 WHERE id = 1", "DELETE FROM t WHERE id = 1", "SELECT v FROM t WHERE id = 1 FOR UPDATE"]
    {
        let db = TestDatabase::new(ACCOUNTS);
        let (mut t1, mut t2) = (db.begun(REPEATABLE_READ), db.begun(REPEATABLE_READ));
        t1.ok("SELECT v FROM t");
        t2.ok("SELECT v FROM t");
        t1.ok("UPDATE t SET v = v + 1 WHERE id = 1");
        t2.waits(change);
        t1.ok("COMMIT");
        assert_eq!(t2.then_fails(), CONFLICT, "{change}");
        t2.ok("ROLLBACK");
        // A row that nobody else has changed is free, whatever else has changed.
        let mut t3 = db.begun(REPEATABLE_READ);
        t3.ok("SELECT v FROM t");
        db.now("UPDATE t SET v = v + 1 WHERE id = 1");
        t3.ok("UPDATE t SET v = v + 1 WHERE id = 2");
        t3.ok("COMMIT");
        assert_eq!(db.now("SELECT v FROM t ORDER BY id"), ["2", "1"], "{change}");
    }
}

#[test]
fn repeatable_read_keeps_keys_and_references() {
    let tables =
        "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p, u int UNIQUE);
        INSERT INTO p VALUES (1), (2)";
    // A reference to a row that goes, in either order.
    let db = TestDatabase::new(tables);
    let (mut t1, mut t2) = (db.begun(REPEATABLE_READ), db.begun(REPEATABLE_READ));
    t1.ok("SELECT count(*) FROM c");
    t2.ok("SELECT count(*) FROM p");
    t1.ok("DELETE FROM p WHERE id = 1");
    t2.waits("INSERT INTO c VALUES (1, 1, 1)");
    t1.ok("COMMIT");
    assert!([CONFLICT, NO_PARENT].contains(&t2.then_fails()));
    t2.ok("ROLLBACK");
    let (mut t1, mut t2) = (db.begun(REPEATABLE_READ), db.begun(REPEATABLE_READ));
    t1.ok("SELECT count(*) FROM c");
    t2.ok("SELECT count(*) FROM p");
    t2.ok("INSERT INTO c VALUES (2, 2, 2)");
    t1.waits("DELETE FROM p WHERE id = 2");
    t2.ok("COMMIT");
    assert!([CONFLICT, NO_PARENT].contains(&t1.then_fails()));
    t1.ok("ROLLBACK");
    assert_eq!(db.now("SELECT count(*) FROM c WHERE p NOT IN (SELECT id FROM p)"), ["0"]);
    // Two with the same key.
    let (mut t1, mut t2) = (db.begun(REPEATABLE_READ), db.begun(REPEATABLE_READ));
    t1.ok("SELECT count(*) FROM c");
    t2.ok("SELECT count(*) FROM c");
    t1.ok("INSERT INTO c VALUES (7, 2, 7)");
    t2.waits("INSERT INTO c VALUES (8, 2, 7)");
    t1.ok("COMMIT");
    assert!([CONFLICT, DUPLICATE].contains(&t2.then_fails()));
    t2.ok("ROLLBACK");
    assert_eq!(db.now("SELECT count(*) FROM c WHERE u = 7"), ["1"]);
}

/// Bug: ALTER DOMAIN left the records of tables as they were, of which a writer makes sure that they
/// are what it has planned for. Consequence: a transaction that could not see a new condition
/// committed a row that it forbids. Fix: the records count such changes.
#[test]
fn what_a_new_condition_of_a_domain_forbids_is_not_written_from_an_old_state() {
    for begin in [REPEATABLE_READ, SERIALIZABLE] {
        let db = TestDatabase::new("CREATE DOMAIN d AS int; CREATE TABLE t (a d); CREATE TABLE other (x int)");
        let (mut t1, mut t2) = (db.begun(begin), db.client());
        t1.ok("SELECT count(*) FROM other");
        t2.ok("INSERT INTO other VALUES (1)");
        t2.ok("ALTER DOMAIN d ADD CONSTRAINT c CHECK (VALUE < 100)");
        assert!(conflicts(&mut t1, "INSERT INTO t VALUES (500)"), "{begin}");
        assert_eq!(db.now("SELECT count(*) FROM t"), ["0"], "{begin}");
        // The same of NULL, and of one that is validated later.
        let mut t1 = db.begun(begin);
        t1.ok("SELECT count(*) FROM other");
        t2.ok("INSERT INTO other VALUES (2)");
        t2.ok("ALTER DOMAIN d SET NOT NULL");
        assert!(conflicts(&mut t1, "INSERT INTO t VALUES (NULL)"), "{begin}");
        t2.ok("ALTER DOMAIN d ADD CONSTRAINT later CHECK (VALUE <> 7) NOT VALID");
        let mut t1 = db.begun(begin);
        t1.ok("SELECT count(*) FROM other");
        t2.ok("INSERT INTO other VALUES (3)");
        t2.ok("ALTER DOMAIN d VALIDATE CONSTRAINT later");
        assert!(conflicts(&mut t1, "INSERT INTO t VALUES (8)"), "{begin}");
        t2.ok("INSERT INTO t VALUES (9)");
        assert_eq!(t2.fails("INSERT INTO t VALUES (500)"), "23514");
        assert_eq!(db.now("SELECT a FROM t"), ["9"], "{begin}");
    }
}

/// A writer that waits for the table while the domain of its column is altered obeys what is new.
#[test]
fn a_writer_that_waited_for_a_change_of_a_domain_obeys_it() {
    for begin in BOTH {
        let db = TestDatabase::new("CREATE DOMAIN d AS int; CREATE TABLE t (a d)");
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("ALTER DOMAIN d ADD CHECK (VALUE < 100)");
        t2.waits("INSERT INTO t VALUES (500)");
        t1.ok("COMMIT");
        assert!(["23514", CONFLICT].contains(&t2.then_fails()), "{begin}");
        t2.ok("ROLLBACK");
        // The other way round, the change waits for the writer and sees its row.
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("INSERT INTO t VALUES (50)");
        t2.waits("ALTER DOMAIN d ADD CHECK (VALUE < 10)");
        t1.ok("COMMIT");
        assert!(["23514", CONFLICT].contains(&t2.then_fails()), "{begin}");
        t2.ok("ROLLBACK");
        assert_eq!(db.now("SELECT a FROM t"), ["50"], "{begin}");
    }
}

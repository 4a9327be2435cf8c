//! What a store says that it can do is heeded; and where it has to fetch, statements go on where
//! they were.

#![allow(clippy::unwrap_used, reason = "tests")]

mod clients;

use std::time::Duration;

use clients::{BOTH, Reply, SERIALIZABLE, TestDatabase};
use colibri_txn::MemoryOptions;

const ACCOUNTS: &str = "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL); INSERT INTO t VALUES (1, 0), (2, 0)";

#[test]
fn a_row_is_locked_for_an_addition_where_patches_are_not_applied_at_commit() {
    for begin in BOTH {
        let options = MemoryOptions { patches_at_commit: false, ..MemoryOptions::default() };
        let db = TestDatabase::in_memory(options, ACCOUNTS);
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("UPDATE t SET v = v + 1 WHERE id = 1");
        t2.waits("UPDATE t SET v = v + 1 WHERE id = 1");
        t1.ok("COMMIT");
        t2.then_ok();
        t2.ok("COMMIT");
        assert_eq!(db.now("SELECT v FROM t WHERE id = 1"), ["2"], "{begin}");
    }
}

#[test]
fn contention_ends_in_a_conflict_where_nothing_can_be_locked() {
    for begin in BOTH {
        let db = TestDatabase::in_memory(MemoryOptions { locks: false, ..MemoryOptions::default() }, ACCOUNTS);
        let (mut t1, mut t2) = (db.begun(begin), db.begun(begin));
        t1.ok("UPDATE t SET v = 1 WHERE id = 1");
        t2.ok("UPDATE t SET v = 2 WHERE id = 1");
        t1.ok("COMMIT");
        assert_eq!(t2.fails("COMMIT"), "40001", "{begin}");
        // Statements by themselves run again.
        db.now("UPDATE t SET v = v + 10");
        assert_eq!(db.now("SELECT v FROM t ORDER BY id"), ["11", "10"]);
    }
}

#[test]
fn the_longest_key_is_the_one_that_the_store_takes() {
    let setup = "CREATE TABLE names (name text PRIMARY KEY)";
    let db = TestDatabase::in_memory(MemoryOptions { key_bytes_max: 100, ..MemoryOptions::default() }, setup);
    let mut client = db.client();
    client.ok("INSERT INTO names VALUES (repeat('x', 50))");
    assert_eq!(client.fails("INSERT INTO names VALUES (repeat('x', 150))"), "54000");
}

#[test]
fn a_transaction_that_is_older_than_its_store_allows_fails() {
    let options = MemoryOptions { txn_age_max: Some(Duration::from_millis(300)), ..MemoryOptions::default() };
    for begin in BOTH {
        let db = TestDatabase::in_memory(options, ACCOUNTS);
        let mut client = db.begun(begin);
        client.ok("UPDATE t SET v = 1 WHERE id = 1");
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(client.fails("SELECT 1"), "54000", "{begin}");
        client.ok("ROLLBACK");
        // One that has no end does not run again and again.
        let endless = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b";
        assert_eq!(db.session().run(endless).unwrap_err().state().0, "54000");
        client.ok("UPDATE t SET v = 2 WHERE id = 2");
        assert_eq!(db.now("SELECT v FROM t ORDER BY id"), ["0", "2"]);
    }
}

#[test]
fn no_range_is_counted_where_counting_takes_long() {
    let options = MemoryOptions { counts: false, ..MemoryOptions::default() };
    // The store refuses to count anything but whole tables.
    let db = TestDatabase::in_memory(options, SHOP);
    let plain = TestDatabase::in_memory(MemoryOptions::default(), SHOP);
    for text in [
        "SELECT id FROM t WHERE a = 2 AND b > 3 ORDER BY id",
        "SELECT t.id, u.n FROM t JOIN u ON u.t = t.id WHERE t.b BETWEEN 3 AND 50 AND u.n < 30 ORDER BY t.id, u.id",
        "SELECT id FROM t WHERE a IN (1, 3) ORDER BY b LIMIT 3",
        "UPDATE u SET n = n + 1 WHERE t IN (SELECT id FROM t WHERE a = 1)",
        "SELECT * FROM u ORDER BY id",
    ] {
        assert_eq!(db.client().send(text), plain.client().send(text), "{text}");
    }
}

/// A store that has to fetch all that it is asked for.
fn fetching(setup: &str) -> TestDatabase {
    let latency = Duration::from_micros(1);
    TestDatabase::in_memory(MemoryOptions { latency, fetches_percent: 100, ..MemoryOptions::default() }, setup)
}

const SHOP: &str = "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int, c int NOT NULL DEFAULT 0, UNIQUE (b));
    CREATE INDEX by_a ON t (a);
    CREATE TABLE u (id int PRIMARY KEY, t int REFERENCES t, n int NOT NULL);
    CREATE INDEX by_t ON u (t);
    CREATE TABLE keyless (a int, b text);
    INSERT INTO t SELECT g, g % 4, g, 0 FROM generate_series(1, 60) AS g;
    INSERT INTO u SELECT g, 1 + g % 40, g FROM generate_series(1, 60) AS g";

#[test]
fn no_statement_runs_again_because_rows_have_to_be_fetched() {
    let db = fetching(SHOP);
    let plain = TestDatabase::in_memory(MemoryOptions::default(), SHOP);
    let statements = [
        "SELECT * FROM t WHERE id = 7",
        "SELECT id FROM t WHERE id IN (3, 5, 7, 59) ORDER BY id DESC",
        "SELECT id, c FROM t WHERE a = 2 ORDER BY id",
        "SELECT a, count(*), sum(b) FROM t GROUP BY a ORDER BY a",
        "SELECT t.id, u.n FROM t JOIN u ON u.t = t.id ORDER BY t.id, u.id",
        "SELECT t.id, u.n FROM t LEFT JOIN u ON u.t = t.id AND u.n > (SELECT min(n) FROM u) ORDER BY t.id, u.id",
        "SELECT id, (SELECT sum(n) FROM u WHERE u.t = t.id), (SELECT max(n) FROM u) FROM t ORDER BY id",
        "SELECT id FROM t WHERE a = (SELECT min(a) FROM t AS o WHERE o.b > t.b - 3) ORDER BY id",
        "SELECT id FROM t WHERE id > ALL (SELECT n FROM u WHERE n < 50) OR b = 2 ORDER BY id",
        "SELECT id, ARRAY(SELECT n FROM u WHERE u.t = t.id ORDER BY n) FROM t WHERE a = 1 ORDER BY id",
        "WITH RECURSIVE r AS (SELECT id FROM t WHERE id = 1 UNION SELECT t.id FROM t JOIN r ON t.id = r.id + 1) SELECT count(*) FROM r",
        "SELECT id FROM t WHERE a = 3 ORDER BY id FOR UPDATE",
        "SELECT id FROM t ORDER BY b LIMIT (SELECT count(*) FROM u WHERE n < 4)",
        "VALUES ((SELECT count(*) FROM t), (SELECT count(*) FROM u))",
        "INSERT INTO t SELECT id + 100, a, b + 100, c FROM t WHERE a < 2 RETURNING id, (SELECT count(*) FROM u)",
        "INSERT INTO t VALUES (1, 2, 3, 4), (900, 1, 900, 0) ON CONFLICT (id) DO UPDATE SET c = t.c + 1 RETURNING id, c",
        "INSERT INTO t VALUES (1, 2, 3, 4), (901, 1, 901, 0) ON CONFLICT DO NOTHING",
        "INSERT INTO keyless SELECT id, 'x' FROM t WHERE id < 9",
        "UPDATE t SET c = c + 1, a = (SELECT count(*) FROM u WHERE u.t = t.id) WHERE id < 30",
        "UPDATE t SET b = b + 1000 WHERE b > 30",
        "UPDATE t SET b = b + 1 WHERE b > 1000",
        "UPDATE t SET id = id + 1 WHERE id > 100",
        "UPDATE u SET n = t.c FROM t WHERE t.id = u.t AND t.a = 1",
        "DELETE FROM u WHERE n < 20 RETURNING id",
        "DELETE FROM t WHERE id > 50",
        "DELETE FROM keyless",
    ];
    for text in statements {
        let before = db.engine.store().counters().restarts;
        let reply = db.client().send(text);
        assert_eq!(reply, plain.client().send(text), "{text}");
        assert!(matches!(reply, Reply::Done(..)), "{text}: {reply:?}");
        assert_eq!(db.engine.store().counters().restarts, before, "{text}");
    }
    for query in ["SELECT * FROM t ORDER BY id", "SELECT * FROM u ORDER BY id", "SELECT * FROM keyless ORDER BY a"] {
        assert_eq!(db.now(query), plain.now(query), "{query}");
    }
    assert_eq!(db.engine.check().unwrap(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_gone_on_with_runs_again_and_comes_to_the_same() {
    let setup = format!(
        "{SHOP}; CREATE TABLE w (id int PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE ON UPDATE CASCADE);
        INSERT INTO w SELECT id, id FROM t"
    );
    let (db, plain) = (fetching(&setup), TestDatabase::in_memory(MemoryOptions::default(), &setup));
    let statements = [
        "SELECT a, sum((SELECT count(*) FROM u WHERE u.t = t.id)) FROM t GROUP BY a ORDER BY a",
        "SELECT id FROM t ORDER BY (SELECT max(n) FROM u WHERE u.t = t.id) NULLS FIRST, id",
        "EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, COSTS OFF) SELECT * FROM t WHERE id = 7",
        "DELETE FROM t WHERE id > 50",
        "UPDATE t SET id = id + 100 WHERE id > 45",
        "CREATE TABLE copied AS SELECT * FROM t",
        "CREATE INDEX by_c ON t (c, a)",
        "ALTER TABLE t ADD COLUMN d int DEFAULT 3",
        "ALTER TABLE u ALTER COLUMN n TYPE bigint",
    ];
    for text in statements {
        assert_eq!(db.client().send(text), plain.client().send(text), "{text}");
    }
    for query in ["SELECT * FROM t ORDER BY id", "SELECT * FROM w ORDER BY id", "SELECT * FROM copied ORDER BY id"] {
        assert_eq!(db.now(query), plain.now(query), "{query}");
    }
    assert_eq!(db.engine.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_block_that_the_store_refuses_can_be_repeated() {
    let db = TestDatabase::in_memory(MemoryOptions::default(), ACCOUNTS);
    db.refuse_commits(50);
    let mut refused = 0;
    for _ in 0..20 {
        loop {
            let mut client = db.begun(SERIALIZABLE);
            client.ok("UPDATE t SET v = v + 1 WHERE id = 2");
            match client.send("COMMIT") {
                Reply::Done(..) => break,
                reply => assert_eq!(reply.code("COMMIT"), "40001"),
            }
            refused += 1;
        }
        // A statement by itself is repeated unseen.
        db.session().run("UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
    }
    assert!(refused > 0);
    assert_eq!(db.now("SELECT v FROM t ORDER BY id"), ["20", "20"]);
}

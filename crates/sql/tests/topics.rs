//! Topics: messages are put as rows, numbered when they are committed, read by groups that keep
//! their place, and never changed. PostgreSQL has no counterpart that could agree.

#![allow(clippy::unwrap_used, reason = "tests")]

mod clients;

use std::time::{Duration, Instant};

use clients::{BOTH, READ_COMMITTED, SERIALIZABLE, TestDatabase};

const EVENTS: &str = "CREATE EXTENSION topic; SELECT topic.create('events', 2)";

fn events() -> TestDatabase {
    TestDatabase::new(EVENTS)
}

/// What a table of messages holds, in order.
const ALL: &str = r#"SELECT partition, "offset", key, payload FROM events ORDER BY 1, 2"#;

#[test]
fn offsets_are_given_in_the_order_of_commits_and_without_gaps() {
    for begin in BOTH {
        let db = events();
        let (mut one, mut other) = (db.begun(begin), db.begun(begin));
        one.ok("INSERT INTO events (partition, payload) VALUES (0, 'a'), (0, 'b')");
        other.ok("INSERT INTO events (partition, payload) VALUES (0, 'c')");
        let mut lost = db.begun(begin);
        lost.ok("INSERT INTO events (partition, payload) VALUES (0, 'never')");
        lost.ok("ROLLBACK");
        other.ok("SAVEPOINT s");
        other.ok("INSERT INTO events (partition, payload) VALUES (0, 'neither')");
        other.ok("ROLLBACK TO s");
        other.ok("INSERT INTO events (partition, payload) VALUES (0, 'd')");
        assert_eq!(other.ok("SELECT count(*) FROM events"), ["0"], "a transaction does not see what it puts");
        // Which makes it depend on there being none.
        other.ok("COMMIT");
        one.ok("COMMIT");
        assert_eq!(db.now(ALL), ["0 1 NULL c", "0 2 NULL d", "0 3 NULL a", "0 4 NULL b"], "{begin}");
    }
}

#[test]
fn a_key_keeps_to_its_partition_and_a_session_without_keys_to_one() {
    let db = TestDatabase::new("CREATE EXTENSION topic; SELECT topic.create('events', 8)");
    let mut client = db.client();
    client.ok("INSERT INTO events (key, payload) SELECT 'key ' || n % 50, n FROM generate_series(1, 500) AS s (n)");
    assert_eq!(db.now("SELECT count(DISTINCT key), count(DISTINCT partition) FROM events"), ["50 8"]);
    let apart =
        "SELECT count(*) FROM (SELECT key FROM events GROUP BY key HAVING min(partition) <> max(partition)) AS k";
    assert_eq!(db.now(apart), ["0"]);
    for _ in 0..3 {
        client.ok("INSERT INTO events (payload) VALUES ('keyless'), ('keyless')");
    }
    assert_eq!(db.now("SELECT count(DISTINCT partition), count(*) FROM events WHERE key IS NULL"), ["1 6"]);
    assert_eq!(client.fails("INSERT INTO events (partition, payload) VALUES (8, 'x')"), "22003");
    assert_eq!(client.fails("INSERT INTO events (partition, payload) VALUES (-1, 'x')"), "22003");
}

#[test]
fn what_is_returned_has_no_offset_yet_and_a_restored_row_has_its_own() {
    let db = events();
    let mut client = db.client();
    let put = r#"INSERT INTO events (partition, payload) VALUES (1, 'x') RETURNING partition, "offset", payload"#;
    assert_eq!(client.ok(put), ["1 NULL x"]);
    client.ok(r#"INSERT INTO events (partition, "offset", payload) VALUES (1, 40, 'restored')"#);
    client.ok("INSERT INTO events (partition, payload) VALUES (1, 'behind')");
    assert_eq!(db.now(ALL), ["1 1 NULL x", "1 40 NULL restored", "1 41 NULL behind"]);
    for offset in ["0", "-5", "9223372036854775807", "9223372036854775000"] {
        let put = format!(r#"INSERT INTO events (partition, "offset", payload) VALUES (1, {offset}, 'x')"#);
        assert_eq!(client.fails(&put), "22003", "{offset}");
    }
    assert_eq!(client.fails(r#"INSERT INTO events (partition, "offset", payload) VALUES (1, 40, 'x')"#), "23505");
}

#[test]
fn messages_are_not_changed() {
    let db = events();
    let mut client = db.client();
    client.ok("SELECT topic.put('events', 'k', 'v')");
    client.ok("CREATE TABLE other (a int)");
    client.ok("CREATE VIEW shown AS SELECT * FROM events");
    for refused in [
        "UPDATE events SET payload = 'x'",
        "DELETE FROM events",
        "DELETE FROM shown",
        "TRUNCATE events",
        "INSERT INTO events (payload) VALUES ('x') ON CONFLICT DO NOTHING",
        "MERGE INTO events USING other ON a = 1 WHEN NOT MATCHED THEN INSERT (payload) VALUES ('x')",
        "CREATE INDEX ON events (key)",
        "ALTER TABLE events ADD UNIQUE (key)",
        "ALTER TABLE other ADD p int, ADD o bigint, ADD FOREIGN KEY (p, o) REFERENCES events",
        "CREATE TABLE heir () INHERITS (events)",
        "CREATE TEMPORARY TABLE t (p int, o bigint, PRIMARY KEY (p, o)) WITH (topic_partitions = 1)",
    ] {
        assert_eq!(client.fails(refused), "0A000", "{refused}");
    }
    let key = |key: &str| {
        format!("CREATE TABLE t (p int, o bigint, t text, PRIMARY KEY ({key})) WITH (topic_partitions = 1)")
    };
    for wrong in ["p", "o", "o, p", "p, t", "p, o, t"] {
        assert_eq!(client.fails(&key(wrong)), "42P16", "{wrong}");
    }
    for (settings, code) in [
        ("topic_partitions = 0", "22023"),
        ("topic_partitions = 5000", "22023"),
        ("topic_retention = '1 day'", "22023"),
        ("topic_partitions = 1, topic_retention = '-1 day'", "22023"),
        ("topic_partitions = 1, topic_retention = 'soon'", "22007"),
    ] {
        let made = format!("CREATE TABLE t (p int, o bigint, PRIMARY KEY (p, o)) WITH ({settings})");
        assert_eq!(client.fails(&made), code, "{settings}");
    }
    assert_eq!(client.fails("ALTER TABLE events SET (topic_partitions = 1)"), "22023");
    client.ok(
        "ALTER TABLE events SET (topic_partitions = 3, topic_retention = '1 day', topic_retention_bytes = 1000000)",
    );
    let options = "SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE relname = 'events'";
    assert_eq!(
        db.now(options),
        ["topic_partitions=3 topic_retention=86400000000 microseconds topic_retention_bytes=1000000"]
    );
    assert_eq!(client.fails("ALTER TABLE events RESET (topic_partitions, topic_retention)"), "22023");
    client.ok("ALTER TABLE events RESET (topic_retention)");
    assert_eq!(db.now(options), ["topic_partitions=3 topic_retention_bytes=1000000"]);
    client.ok("ALTER TABLE events RESET (topic_retention_bytes, fillfactor)");
    assert_eq!(db.now(options), ["topic_partitions=3"]);
}

#[test]
fn a_group_reads_all_messages_once_in_order_and_another_one_again() {
    for begin in BOTH {
        let db = events();
        let mut client = db.client();
        client.ok("SELECT topic.put('events', array['a', 'b', 'a', 'c'], array['1', '2', '3', '4'])");
        for group in ["billing", "search"] {
            let mut read = Vec::new();
            loop {
                client.ok(begin);
                let found = client.ok(&format!(
                    r#"SELECT partition, "offset", key, payload FROM topic.read('events', '{group}', 2)"#
                ));
                let Some(last) = found.last() else { break };
                let words: Vec<&str> = last.split(' ').collect();
                client.ok(&format!("SELECT topic.commit('events', '{group}', {}, {})", words[0], words[1]));
                client.ok("COMMIT");
                read.extend(found);
            }
            client.ok("COMMIT");
            read.sort();
            assert_eq!(read, db.now(ALL), "{begin}");
        }
        assert_eq!(db.now("SELECT sum(lag), count(*) FROM topic.lag('events')"), ["0 4"]);
        client.ok("SELECT topic.put('events', 'a', '5')");
        assert_eq!(db.now("SELECT sum(lag) FROM topic.lag('events')"), ["2"]);
        client.ok("SELECT topic.seek('events', 'billing', p, 0) FROM generate_series(0, 1) AS s (p)");
        assert_eq!(db.now("SELECT sum(lag) FROM topic.lag('events') WHERE consumer = 'billing'"), ["5"]);
        assert_eq!(client.fails("SELECT topic.commit('events', 'nobody', 0, 1)"), "P0002");
    }
}

#[test]
fn a_group_that_begins_at_the_end_reads_what_comes_then() {
    let db = events();
    let mut client = db.client();
    client.ok("SELECT topic.put('events', 'a', 'old')");
    client.ok("SELECT topic.subscribe('events', 'late', 'last')");
    assert_eq!(client.ok("SELECT payload FROM topic.read('events', 'late')"), Vec::<String>::new());
    client.ok("SELECT topic.put('events', 'a', 'new')");
    assert_eq!(client.ok("SELECT payload FROM topic.read('events', 'late')"), ["new"]);
    assert_eq!(client.fails("SELECT topic.subscribe('events', 'late', 'middle')"), "22023");
}

/// Two consumers of a group read different partitions; what one has not committed the next reads.
#[test]
fn consumers_of_a_group_share_partitions_and_what_fails_is_read_again() {
    for begin in BOTH {
        let db = events();
        let mut client = db.client();
        client.ok("INSERT INTO events (partition, payload) VALUES (0, 'p0'), (1, 'p1')");
        client.ok("SELECT topic.subscribe('events', 'g')");
        let (mut one, mut other, mut third) = (db.begun(begin), db.begun(begin), db.begun(begin));
        let read = "SELECT payload FROM topic.read('events', 'g')";
        let (first, second) = (one.ok(read), other.ok(read));
        assert_ne!(first, second);
        assert_eq!(third.ok(read), Vec::<String>::new(), "both partitions are taken");
        third.ok("ROLLBACK");
        one.ok("ROLLBACK");
        let mut again = db.begun(begin);
        assert_eq!(again.ok(read), first);
        let partition = &first[0][1..];
        again.ok(&format!("SELECT topic.commit('events', 'g', {partition}, 1)"));
        again.ok("COMMIT");
        other.ok("ROLLBACK");
        assert_eq!(db.client().ok(read), second);
    }
}

/// Reading does not depend on there being no more messages.
#[test]
fn who_reads_and_changes_rows_does_not_conflict_with_who_puts() {
    let db = events();
    let mut setup = db.client();
    setup.ok("CREATE TABLE totals (id int PRIMARY KEY, n bigint)");
    setup.ok("INSERT INTO totals VALUES (1, 0)");
    setup.ok("INSERT INTO events (partition, payload) VALUES (0, '10'), (0, '20')");
    setup.ok("SELECT topic.subscribe('events', 'g')");
    let mut reader = db.begun(SERIALIZABLE);
    assert_eq!(reader.ok("SELECT sum(payload::int) FROM topic.read('events', 'g')"), ["30"]);
    reader.ok("UPDATE totals SET n = n + 30 WHERE id = 1");
    reader.ok("SELECT topic.commit('events', 'g', 0, 2)");
    setup.ok("INSERT INTO events (partition, payload) VALUES (0, '30')");
    reader.ok("COMMIT");
    assert_eq!(db.now("SELECT n FROM totals"), ["30"]);
    assert_eq!(db.now("SELECT payload FROM topic.read('events', 'g')"), ["30"]);
}

#[test]
fn a_reader_waits_until_somebody_puts_or_its_time_is_over() {
    for begin in [None, Some(READ_COMMITTED), Some(SERIALIZABLE)] {
        let db = events();
        db.client().ok("SELECT topic.subscribe('events', 'g')");
        let begun = Instant::now();
        let read = |wait: &str| format!("SELECT payload FROM topic.read('events', 'g', wait => '{wait}')");
        assert_eq!(db.client().ok(&read("200 ms")), Vec::<String>::new());
        assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut client = db.client();
                if let Some(begin) = begin {
                    client.ok(begin);
                }
                client.ok(&read("60 s"))
            });
            std::thread::sleep(Duration::from_millis(100));
            // What is rolled back wakes nobody.
            let mut putter = db.begun(SERIALIZABLE);
            putter.ok("SELECT topic.put('events', 'k', 'never')");
            putter.ok("ROLLBACK");
            std::thread::sleep(Duration::from_millis(50));
            assert!(!reader.is_finished());
            putter.ok("SELECT topic.put('events', 'k', 'woken')");
            assert_eq!(reader.join().unwrap(), ["woken"], "{begin:?}");
        });
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }
}

#[test]
fn readers_of_many_partitions_get_every_message_once_while_others_put() {
    const PUTTERS: usize = 3;
    const EACH: usize = 60;
    let db = TestDatabase::new(
        "CREATE EXTENSION topic; SELECT topic.create('events', 4); SELECT topic.subscribe('events', 'g');
         CREATE TABLE got (payload text)",
    );
    std::thread::scope(|scope| {
        for putter in 0..PUTTERS {
            let db = &db;
            scope.spawn(move || {
                let mut client = db.client();
                for n in 0..EACH {
                    client.ok(&format!("SELECT topic.put('events', 'key {}', '{putter} {n}')", n % 7));
                }
            });
        }
        for _ in 0..3 {
            let db = &db;
            scope.spawn(move || {
                let mut client = db.client();
                loop {
                    client.ok(READ_COMMITTED);
                    let got = client.ok(r#"WITH r AS (SELECT * FROM topic.read('events', 'g', 5, '500 ms')),
                        put AS (INSERT INTO got SELECT payload FROM r)
                        SELECT partition, max("offset") FROM r GROUP BY partition"#);
                    if let Some((partition, offset)) = got.first().and_then(|row| row.split_once(' ')) {
                        client.ok(&format!("SELECT topic.commit('events', 'g', {partition}, {offset})"));
                    }
                    client.ok("COMMIT");
                    if got.is_empty() && db.now("SELECT count(*) FROM events") == [(PUTTERS * EACH).to_string()] {
                        break;
                    }
                }
            });
        }
    });
    let all = (PUTTERS * EACH).to_string();
    assert_eq!(db.now("SELECT count(*), count(DISTINCT payload) FROM got"), [format!("{all} {all}")]);
}

#[test]
fn what_is_too_old_or_too_much_goes_and_offsets_go_on() {
    let db = events();
    let mut client = db.client();
    let put = |age: &str, count: i32| {
        format!(
            "INSERT INTO events (partition, payload, put_at) \
             SELECT 0, 'x', clock_timestamp() - interval '{age}' FROM generate_series(1, {count})"
        )
    };
    client.ok(&put("10 days", 1000));
    client.ok(&put("1 day", 500));
    let ends = r#"SELECT min("offset"), max("offset"), count(*) FROM events"#;
    assert_eq!(db.now(ends), ["1 1500 1500"]);
    client.ok("ALTER TABLE events SET (topic_retention = '2 days')");
    client.ok(&put("0 s", 1));
    assert_eq!(db.now(ends), ["1001 1501 501"], "the put that finds old messages cuts them off");
    client.ok("ALTER TABLE events SET (topic_retention = '1 hour')");
    client.ok("SELECT topic.trim('events')");
    assert_eq!(db.now(ends), ["1501 1501 1"]);
    client.ok("SELECT topic.trim('events', 0, 1000000)");
    assert_eq!(db.now(ends), ["1501 1501 1"], "the last one stays");
    // A group that was behind goes on with what is there.
    client.ok("SELECT topic.subscribe('events', 'g')");
    assert_eq!(client.ok(r#"SELECT "offset" FROM topic.read('events', 'g')"#), ["1501"]);
    assert_eq!(db.now("SELECT first, last, lag FROM topic.lag('events') WHERE partition = 0"), ["1501 1501 1"]);
    // By bytes.
    client.ok("ALTER TABLE events SET (topic_retention = 'none', topic_retention_bytes = 200000)");
    for _ in 0..30 {
        client.ok("INSERT INTO events (partition, payload) SELECT 0, repeat('y', 1000) FROM generate_series(1, 50)");
    }
    let kept: u64 = db.now("SELECT count(*) FROM events")[0].parse().unwrap();
    assert!((100..400).contains(&kept), "{kept} of 1,501 messages of 1 KB are kept in 200 KB");
    assert_eq!(db.now(r#"SELECT max("offset") FROM events"#), ["3001"]);
}

#[test]
fn names_that_need_quotes_and_other_schemas_do_as_well() {
    let db = TestDatabase::new(r#"CREATE EXTENSION topic; CREATE SCHEMA "Odd one""#);
    let mut client = db.client();
    client.ok(r#"SELECT topic.create('"Odd one"."a ""b"" c"', 1, retention => '3 days', payload => 'jsonb')"#);
    let name = r#"'"Odd one"."a ""b"" c"'"#;
    client.ok(&format!(r#"SELECT topic.put({name}, 'k''ey', '{{"a": [1, 2]}}')"#));
    client.ok(&format!(r#"SELECT topic.put({name}, array['x', null], array['1', null])"#));
    assert_eq!(
        client.ok(&format!("SELECT key, payload FROM topic.read({name}, 'it''s')")),
        [r#"k'ey {"a": [1, 2]}"#, "x 1", "NULL NULL"]
    );
    assert_eq!(client.ok(&format!("SELECT topic.channel({name})")), [r#"topic.a "b" c"#]);
    client.ok(&format!("SELECT topic.drop({name})"));
    assert_eq!(db.now(r#"SELECT count(*) FROM pg_class WHERE relname LIKE 'a %'"#), ["0"]);
    assert_eq!(client.fails("SELECT topic.create('a.b.c')"), "42602");
    assert_eq!(client.fails("SELECT topic.create('bad', payload => 'text); DROP TABLE x; --')"), "42601");
    client.ok("CREATE TABLE plain (a int PRIMARY KEY)");
    assert_eq!(client.fails("SELECT topic.drop('plain')"), "42809");
    assert_eq!(client.fails("SELECT topic.read('plain', 'g')"), "42P01");
    assert_eq!(client.fails("SELECT topic.lag('nowhere')"), "42P01");
}

#[test]
fn the_extension_comes_and_goes_and_topics_stay() {
    let db = events();
    let mut client = db.client();
    client.ok("SELECT topic.put('events', 'a', 'b')");
    assert_eq!(client.fails("ALTER EXTENSION topic SET SCHEMA public"), "0A000");
    assert_eq!(client.fails("DROP FUNCTION topic.channel"), "2BP01");
    client.ok("DROP EXTENSION topic");
    assert_eq!(client.fails("SELECT topic.put('events', 'a', 'b')"), "42883");
    client.ok("INSERT INTO events (key, payload) VALUES ('a', 'c')");
    assert_eq!(client.fails("CREATE EXTENSION topic SCHEMA public"), "0A000");
    client.ok("CREATE EXTENSION topic");
    assert_eq!(client.ok("SELECT payload FROM topic.read('events', 'g') ORDER BY 1"), ["b", "c"]);
}

#[test]
fn a_transaction_that_has_put_cannot_be_prepared() {
    let db = events();
    let mut client = db.client();
    client.ok(SERIALIZABLE);
    client.ok("INSERT INTO events (payload) VALUES ('x')");
    let code = client.fails("PREPARE TRANSACTION 'p'");
    assert!(["0A000", "55000"].contains(&code), "{code}");
    assert_eq!(db.now("SELECT count(*) FROM events"), ["0"]);
}

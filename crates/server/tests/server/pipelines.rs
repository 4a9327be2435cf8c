//! What leaves the server when: errors and what came before them; and portals that statements and
//! both protocols share.

use std::time::{Duration, Instant};

use super::support::{Answer, Server, Told, Wire};

fn server() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    (dir, server)
}

/// The kinds of so many messages, which have to come without another word.
fn kinds(wire: &mut Wire, count: usize) -> String {
    wire.flush();
    (0..count).map(|_| wire.receive().unwrap().kind as char).collect()
}

/// Bug: an error was kept until the next Sync. Consequence: clients that send one only when they
/// have read the error (asyncpg, postgres.js, pgloader) hung on every query that failed. Fix: it
/// leaves as soon as the server has nothing more to read.
#[test]
fn an_error_leaves_before_a_sync_whichever_message_it_answers() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    // With a Flush behind it, and without.
    for ask in ["H", ""] {
        let end = |wire: &mut Wire| {
            if !ask.is_empty() {
                wire.put(b'H', b"");
            }
            assert_eq!(kinds(wire, 1), "E");
            // What follows is left out up to the Sync.
            wire.parse("", "SELECT 1").put(b'H', b"").sync();
            assert_eq!(kinds(wire, 1), "Z");
        };
        wire.parse("", "SELEC 1").put(b'D', b"S\0");
        end(&mut wire);
        wire.bind("", "nowhere", &[]);
        end(&mut wire);
        wire.put(b'D', b"Pnowhere\0");
        end(&mut wire);
        wire.execute("nowhere", 0);
        end(&mut wire);
        wire.put(b'B', b"broken");
        end(&mut wire);
        wire.parse("", "SELECT 1/n FROM generate_series(0, 1) n").bind("", "", &[]).execute("", 0).put(b'H', b"");
        assert_eq!(kinds(&mut wire, 2), "12");
        end(&mut wire);
    }
}

#[test]
fn what_a_pipeline_has_given_leaves_with_the_error_behind_it() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.run("CREATE TABLE t (a int PRIMARY KEY)");
    wire.parse("i", "INSERT INTO t VALUES ($1) RETURNING a").bind("", "i", &["1"]).execute("", 0);
    wire.bind("", "i", &["1"]).execute("", 0).bind("", "i", &["2"]).execute("", 0).put(b'H', b"");
    assert_eq!(kinds(&mut wire, 6), "12DC2E");
    wire.sync();
    assert_eq!(kinds(&mut wire, 1), "Z");
    assert_eq!(wire.value("SELECT count(*) FROM t"), "0");
}

#[test]
fn a_request_of_several_messages_is_answered_in_one_write() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    for (text, kinds) in [("SELECT 1", "12DCZ"), ("SELECT 1/n FROM generate_series(0, 1) n", "12EZ"), ("SELEC 1", "EZ")]
    {
        wire.parse("", text).bind("", "", &[]).execute("", 0).sync().flush();
        // All of it has come with the first byte.
        std::thread::sleep(Duration::from_millis(50));
        wire.stream().set_nonblocking(true).unwrap();
        let came: String = kinds.chars().map(|_| wire.receive().unwrap().kind as char).collect();
        assert_eq!(came, kinds);
        wire.stream().set_nonblocking(false).unwrap();
    }
}

/// Answers are held back for a moment so that one write has several commits; not for as long as
/// another session has a lock.
#[test]
fn answers_leave_though_the_statement_behind_them_waits() {
    let (_dir, server) = server();
    let (mut one, mut other) = (server.connect(), server.connect());
    one.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)");
    one.run("BEGIN; UPDATE t SET a = 2");
    other.parse("", "INSERT INTO t VALUES (7)").bind("", "", &[]).execute("", 0).sync();
    other.parse("", "DELETE FROM t WHERE a = 1").bind("", "", &[]).execute("", 0).sync().flush();
    assert_eq!(other.answer().unwrap().tags, ["INSERT 0 1"]);
    one.run("ROLLBACK");
    assert_eq!(other.answer().unwrap().tags, ["DELETE 1"]);
}

#[test]
fn a_conflict_after_a_part_was_seen_is_told_and_not_run_again() {
    let (_dir, server) = server();
    let (mut one, mut other) = (server.connect(), server.connect());
    one.run("CREATE TABLE t (a int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)");
    one.parse("", "SELECT n FROM t WHERE a = 1").bind("", "", &[]).execute("", 0).put(b'H', b"");
    assert_eq!(kinds(&mut one, 4), "12DC");
    other.run("UPDATE t SET n = n + 1 WHERE a = 1");
    one.parse("", "UPDATE t SET n = n + 1 WHERE a = 2").bind("", "", &[]).execute("", 0).sync();
    let told = one.flush().answer().unwrap_err();
    assert_eq!(told.code(), "40001");
    assert_eq!(one.value("SELECT n FROM t WHERE a = 2"), "0");
}

// ---- portals ----

fn table(wire: &mut Wire) {
    wire.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t SELECT * FROM generate_series(1, 5)");
}

fn given(answer: Result<Answer, Told>) -> (usize, String, Vec<String>) {
    let answer = answer.unwrap();
    (answer.rows.len(), answer.kinds, answer.tags)
}

/// Bug: a simple query ended the portals of its transaction. Consequence: drivers that fetch in
/// pieces and query by text in between lost their cursor. Fix: what others could ask for is the
/// session's, among its cursors.
#[test]
fn a_named_portal_outlives_simple_queries_and_is_a_cursor_of_sql() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    table(&mut wire);
    wire.run("BEGIN");
    wire.parse("s", "SELECT a FROM t ORDER BY a").bind("p", "s", &[]).sync().flush().answer().unwrap();
    assert_eq!(wire.value("SELECT name || statement FROM pg_cursors"), "pSELECT a FROM t ORDER BY a");
    // It shows the table as it was when it was bound.
    wire.run("INSERT INTO t VALUES (0); DELETE FROM t WHERE a = 3");
    assert_eq!(wire.run("FETCH 2 FROM p").rows, [[Some("1".to_owned())], [Some("2".to_owned())]]);
    assert_eq!(given(wire.execute("p", 2).sync().flush().answer()), (2, "DDsZ".to_owned(), vec![]));
    assert_eq!(wire.run("MOVE 1 FROM p").tags, ["MOVE 1"]);
    assert_eq!(given(wire.execute("p", 2).sync().flush().answer()), (0, "CZ".to_owned(), vec!["SELECT 0".to_owned()]));
    assert_eq!(given(wire.execute("p", 0).sync().flush().answer()).2, ["SELECT 0"]);
    wire.run("CLOSE p");
    wire.run("SAVEPOINT here");
    assert_eq!(wire.execute("p", 0).sync().flush().answer().unwrap_err().code(), "34000");
    wire.run("ROLLBACK TO here");
    // One of the other kind under the same name.
    wire.run("DECLARE p CURSOR FOR SELECT 'x'");
    assert_eq!(given(wire.execute("p", 0).sync().flush().answer()).2, ["SELECT 1"]);
    assert_eq!(wire.bind("p", "s", &[]).sync().flush().answer().unwrap_err().code(), "42P03");
    wire.run("ROLLBACK");
}

#[test]
fn command_tags_count_what_this_execute_gave() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    table(&mut wire);
    wire.run("BEGIN");
    wire.parse("s", "SELECT a FROM t").bind("p", "s", &[]).execute("p", 3).execute("p", 3).execute("p", 3).sync();
    assert_eq!(given(wire.flush().answer()), (5, "12DDDsDDCCZ".to_owned(), vec!["SELECT 2".into(), "SELECT 0".into()]));
    let insert = "INSERT INTO t SELECT * FROM generate_series(11, 13) RETURNING a";
    wire.parse("", insert).bind("", "", &[]).execute("", 2).execute("", 2).execute("", 2).sync();
    let tags = vec!["INSERT 0 1".to_owned(), "INSERT 0 0".to_owned()];
    assert_eq!(given(wire.flush().answer()), (3, "12DDsDCCZ".to_owned(), tags));
    // What gives no rows runs once.
    wire.parse("", "DELETE FROM t").bind("", "", &[]).execute("", 1).sync();
    assert_eq!(given(wire.flush().answer()).2, ["DELETE 8"]);
    wire.parse("", "DELETE FROM t").bind("", "", &[]).execute("", 1).execute("", 1).sync();
    assert_eq!(wire.flush().answer().unwrap_err().code(), "55000");
    wire.run("ROLLBACK");
}

#[test]
fn portals_end_with_the_savepoint_that_they_are_younger_than() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    table(&mut wire);
    wire.run("BEGIN");
    wire.parse("s", "SELECT a FROM t ORDER BY a")
        .bind("old", "s", &[])
        .execute("old", 1)
        .sync()
        .flush()
        .answer()
        .unwrap();
    wire.run("SAVEPOINT here");
    wire.bind("young", "s", &[]).execute("young", 1).sync().flush().answer().unwrap();
    assert_eq!(wire.query("SELECT 1/0").unwrap_err().code(), "22012");
    assert_eq!(wire.execute("old", 1).sync().flush().answer().unwrap_err().code(), "25P02");
    wire.run("ROLLBACK TO here");
    assert_eq!(wire.execute("young", 1).sync().flush().answer().unwrap_err().code(), "34000");
    wire.run("ROLLBACK TO here");
    assert_eq!(wire.execute("old", 1).sync().flush().answer().unwrap().rows, [[Some("2".to_owned())]]);
    wire.run("COMMIT");
    assert_eq!(wire.execute("old", 1).sync().flush().answer().unwrap_err().code(), "34000");
}

#[test]
fn names_count_up_to_63_bytes() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    let (long, longer) = ("n".repeat(63), "n".repeat(80));
    wire.parse(&longer, "SELECT 7").bind(&longer, &long, &[]).execute(&long, 0).sync();
    assert_eq!(wire.flush().answer().unwrap().rows, [[Some("7".to_owned())]]);
    assert_eq!(wire.parse(&long, "SELECT 8").sync().flush().answer().unwrap_err().code(), "42P05");
}

/// Bug: nothing counted how deep prepared statements execute each other. Consequence: one that
/// executes itself used up the stack, and the server with all of its sessions was gone. Fix: a
/// limit.
#[test]
fn a_prepared_statement_that_executes_itself_is_refused() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.parse("s", "EXECUTE s").sync().flush().answer().unwrap();
    assert_eq!(wire.query("EXECUTE s").unwrap_err().code(), "54001");
    assert_eq!(wire.bind("", "s", &[]).execute("", 0).sync().flush().answer().unwrap_err().code(), "54001");
    assert_eq!(wire.value("SELECT 1"), "1");
}

#[test]
fn a_simple_query_ends_the_unnamed_statement_and_portal() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.run("BEGIN");
    wire.parse("", "SELECT 1").bind("", "", &[]).sync().flush().answer().unwrap();
    wire.run("SAVEPOINT here");
    assert_eq!(wire.execute("", 0).sync().flush().answer().unwrap_err().code(), "34000");
    wire.run("ROLLBACK TO here");
    assert_eq!(wire.bind("", "", &[]).sync().flush().answer().unwrap_err().code(), "26000");
}

// ---- one text of several statements ----

/// Bug: the statements of a text were read one by one. Consequence: those in front of a mistake
/// were carried out, and a COMMIT among them kept them. Fix: all of a text is read before anything
/// of it runs.
#[test]
fn nothing_of_a_text_runs_that_has_a_mistake_further_down() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    table(&mut wire);
    for mistake in ["SELEC 1", "COPY t FORM STDIN", "DECLARE c CURSOR FOR SELEC 1", "DROP ROLE", "FETCH 1 2 3"] {
        let text = format!("BEGIN; INSERT INTO t VALUES (99); COMMIT; {mistake}; INSERT INTO t VALUES (98)");
        let told = wire.query(&text).unwrap_err();
        assert_eq!(told.code(), "42601", "{mistake}");
        assert_eq!(wire.value("SELECT count(*) FROM t"), "5");
    }
    wire.run("BEGIN");
    assert_eq!(wire.query("SELECT 1; SELEC 1").unwrap_err().code(), "42601");
    assert_eq!(wire.query("SELECT 1").unwrap_err().code(), "25P02");
    assert_eq!(wire.run("COMMIT AND CHAIN").state, 'T');
    wire.run("ROLLBACK");
    let told = wire.query("SELECT 1; SELEC 1").unwrap_err();
    assert_eq!(told.0[&b'P'], "11");
}

#[test]
fn a_text_that_ends_the_transaction_that_it_is_warns() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    table(&mut wire);
    let codes = |answer: Answer| answer.notices.iter().map(|told| told.code().to_owned()).collect::<Vec<_>>();
    // What is in front of the COMMIT stays, and what is behind it is a transaction of its own.
    let answer = wire.query("INSERT INTO t VALUES (6); COMMIT; INSERT INTO t VALUES (7); SELECT 1/0");
    assert_eq!(answer.unwrap_err().code(), "22012");
    assert_eq!(wire.value("SELECT max(a) FROM t"), "6");
    assert_eq!(codes(wire.run("INSERT INTO t VALUES (7); COMMIT")), ["25P01"]);
    assert_eq!(codes(wire.run("INSERT INTO t VALUES (8); ROLLBACK")), ["25P01"]);
    assert_eq!(wire.value("SELECT max(a) FROM t"), "7");
    assert_eq!(codes(wire.run("BEGIN; BEGIN; COMMIT")), ["25001"]);
    for text in ["ABORT", "END", "SET LOCAL application_name = 'x'", "SET TRANSACTION READ ONLY"] {
        assert_eq!(codes(wire.run(text)), ["25P01"], "{text}");
    }
    for text in ["COMMIT AND CHAIN", "SELECT 1; ROLLBACK AND CHAIN", "SELECT 1; SAVEPOINT s", "SELECT 1; RELEASE s"] {
        assert_eq!(wire.query(text).unwrap_err().code(), "25P01", "{text}");
    }
}

// ---- databases ----

#[test]
fn a_database_is_dropped_right_after_its_last_session_has_said_goodbye() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    for round in 0..100 {
        wire.run("CREATE DATABASE d");
        let mut guest = server.connect_as("postgres", "d").unwrap();
        guest.run("CREATE TABLE t (a int)");
        guest.put(b'X', b"").flush();
        drop(guest);
        wire.query("DROP DATABASE d").unwrap_or_else(|told| panic!("round {round}: {told:?}"));
    }
}

#[test]
fn a_session_that_stays_keeps_its_database() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.run("CREATE DATABASE d");
    let guest = server.connect_as("postgres", "d").unwrap();
    for text in ["DROP DATABASE d", "ALTER DATABASE d RENAME TO e"] {
        let began = Instant::now();
        let told = wire.query(text).unwrap_err();
        assert_eq!((told.code(), told.message()), ("55006", "database \"d\" is being accessed by other users"));
        assert!(began.elapsed() > Duration::from_secs(4), "sessions that end were not waited for");
    }
    // No other session waits meanwhile, and a waiting one can be cancelled.
    wire.put(b'Q', b"DROP DATABASE d\0").flush();
    let mut other = server.connect();
    assert_eq!(other.value("SELECT 1"), "1");
    wire.cancel();
    assert_eq!(wire.answer().unwrap_err().code(), "57014");
    wire.run("DROP DATABASE d WITH (FORCE)");
    drop(guest);
}

// ---- advisory locks ----

fn waits(server: &Server, wire: &mut Wire, text: &str) {
    wire.put(b'Q', format!("{text}\0").as_bytes()).flush();
    let mut look = server.connect();
    let query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    super::support::until("a session waits", || look.value(query) == "1");
}

#[test]
fn an_advisory_lock_is_waited_for_and_let_go_of_with_its_session() {
    let (_dir, server) = server();
    let (mut one, mut other) = (server.connect(), server.connect());
    assert_eq!(one.run("SELECT pg_advisory_lock(7)").rows, [[Some(String::new())]]);
    let shown =
        "SELECT classid || ' ' || objid || ' ' || objsubid || ' ' || mode FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(other.value(shown), "0 7 1 ExclusiveLock");
    assert_eq!(other.value("SELECT pg_try_advisory_lock(7)"), "f");
    assert_eq!(other.value("SELECT pg_try_advisory_lock(0, 7)"), "t");
    waits(&server, &mut other, "SELECT pg_advisory_lock(7)");
    drop(one);
    other.answer().unwrap();
    other.run("SET lock_timeout = '50ms'");
    let mut third = server.connect();
    third.run("SET lock_timeout = '50ms'");
    assert_eq!(third.query("SELECT pg_advisory_xact_lock(7)").unwrap_err().code(), "55P03");
    third.run("SET lock_timeout = 0");
    waits(&server, &mut third, "SELECT pg_advisory_lock_shared(7)");
    third.cancel();
    assert_eq!(third.answer().unwrap_err().code(), "57014");
    waits(&server, &mut third, "SELECT pg_advisory_lock_shared(7)");
    other.run("DISCARD ALL");
    third.answer().unwrap();
    assert_eq!(third.value("SELECT pg_advisory_unlock_shared(7)"), "t");
    assert_eq!(other.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
}

#[test]
fn a_statement_that_waits_for_its_second_advisory_lock_has_its_first_once() {
    let (_dir, server) = server();
    let (mut one, mut other) = (server.connect(), server.connect());
    one.run("SELECT pg_advisory_lock(2)");
    waits(&server, &mut other, "SELECT pg_advisory_lock(1), pg_advisory_lock(2)");
    assert_eq!(one.value("SELECT pg_try_advisory_lock(1)"), "f");
    assert_eq!(one.value("SELECT pg_advisory_unlock(2)"), "t");
    other.answer().unwrap();
    assert_eq!(other.value("SELECT pg_advisory_unlock(1)"), "t");
    let again = other.run("SELECT pg_advisory_unlock(1)");
    assert_eq!(again.rows, [[Some("f".to_owned())]]);
    assert_eq!(again.notices[0].message(), "you don't own a lock of type ExclusiveLock");
    assert_eq!(one.value("SELECT pg_try_advisory_lock(1)"), "t");
}

#[test]
fn circles_of_advisory_locks_and_rows_are_found() {
    let (_dir, server) = server();
    let (mut one, mut other) = (server.connect(), server.connect());
    one.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)");
    one.run("SELECT pg_advisory_lock(1)");
    other.run("BEGIN; UPDATE t SET a = a");
    waits(&server, &mut other, "SELECT pg_advisory_lock(1)");
    let told = one.query("UPDATE t SET a = a").unwrap_err();
    assert_eq!((told.code(), told.message()), ("40001", "deadlock detected"));
    one.run("SELECT pg_advisory_unlock_all()");
    other.answer().unwrap();
    other.run("COMMIT");
}

#[test]
fn advisory_locks_keep_a_counter_right_without_a_conflict() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.run("CREATE TABLE t (n int); INSERT INTO t VALUES (0)");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut wire = server.connect();
            std::thread::spawn(move || {
                for _ in 0..25 {
                    wire.run("SELECT pg_advisory_lock(3, 4)");
                    let n: i32 = wire.value("SELECT n FROM t").parse().unwrap();
                    wire.run(&format!("UPDATE t SET n = {}", n + 1));
                    wire.run("SELECT pg_advisory_unlock(3, 4)");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(wire.value("SELECT n FROM t"), "100");
}

/// Bug: a statement whose next message came later than itself had no time of its own. Consequence:
/// in pipelines, `now()` was 2000-01-01, and was stored. Fix: waiting for the next message leaves the
/// time at which a statement began.
#[test]
fn a_statement_that_waits_for_the_next_message_has_the_time_at_which_it_began() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    let times = "SELECT now() > '2020-01-01', statement_timestamp() > '2020-01-01', now() <= clock_timestamp()";
    wire.parse("", times).bind("", "", &[]).execute("", 0).flush();
    // The server has taken these, and waits for what follows.
    std::thread::sleep(std::time::Duration::from_millis(200));
    wire.parse("", times).bind("", "", &[]).execute("", 0).sync().flush();
    let rows = wire.answer().unwrap().rows;
    let all_true = vec![Some("t".to_owned()); 3];
    assert_eq!(rows, [all_true.clone(), all_true]);
}

/// Bug: limits were read when a client was told that the server is ready. Consequence: a
/// `statement_timeout` did not hold for statements behind it in the same text or pipeline. Fix: they
/// are read again where settings have changed.
#[test]
fn a_time_limit_holds_for_the_statements_behind_it_in_a_text_and_in_a_pipeline() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    let told = wire.query("SET statement_timeout = '20ms'; SELECT pg_sleep(60)").unwrap_err();
    assert_eq!(told.code(), "57014");
    wire.run("RESET statement_timeout");
    wire.parse("", "SET statement_timeout = '20ms'").bind("", "", &[]).execute("", 0);
    wire.parse("", "SELECT pg_sleep(60)").bind("", "", &[]).execute("", 0).sync().flush();
    assert_eq!(wire.answer().unwrap_err().code(), "57014");
    // Taken back with the transaction in which it was set.
    assert_eq!(wire.value("SELECT pg_sleep(0.1) IS NOT NULL"), "t");
    wire.run("SET statement_timeout = '20ms'");
    assert_eq!(wire.query("SET statement_timeout = 0; SELECT pg_sleep(0.1)").unwrap().tags, ["SET", "SELECT 1"]);
}

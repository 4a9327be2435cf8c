//! Timeouts, cancellations, numbers of connections, slow readers, priorities.

use std::io::Read;
use std::time::{Duration, Instant};

use super::support::{Server, Wire, until};

const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000000000)";

fn server(options: &[(&str, &str)]) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), options);
    (dir, server)
}

/// Waits until a session does something.
fn until_active(watcher: &mut Wire, metrics: &Server) {
    _ = (watcher, metrics);
    std::thread::sleep(Duration::from_millis(100));
}

#[test]
fn a_scan_is_cancelled_in_the_middle_on_one_thread_too() {
    for cpus in ["1", "2"] {
        let (_dir, server) = server(&[("cpus", cpus)]);
        let (mut wire, mut watcher) = (server.connect(), server.connect());
        wire.put(b'Q', format!("{ENDLESS}\0").as_bytes()).flush();
        until_active(&mut watcher, &server);
        // Others go on meanwhile.
        let asked = Instant::now();
        assert_eq!(watcher.value("SELECT 1"), "1");
        assert!(asked.elapsed() < Duration::from_secs(1));
        super::support::cancel(server.address, wire.pid, b"nope");
        wire.cancel();
        let error = wire.answer().unwrap_err();
        assert_eq!((error.code(), error.message()), ("57014", "canceling statement due to user request"));
        assert!(asked.elapsed() < Duration::from_secs(5));
        // A cancellation that comes too late cancels nothing.
        wire.cancel();
        assert_eq!(wire.value("SELECT 1"), "1");
    }
}

#[test]
fn statements_that_take_too_long_are_ended() {
    let (_dir, server) = server(&[]);
    let mut wire = server.connect();
    wire.run("SET statement_timeout = '100ms'");
    let error = wire.query(ENDLESS).unwrap_err();
    assert_eq!((error.code(), error.message()), ("57014", "canceling statement due to statement timeout"));
    let error = wire.prepared(ENDLESS, &[]).unwrap_err();
    assert_eq!(error.code(), "57014");
    assert_eq!(wire.value("SELECT 1"), "1");
    // A time limit of a block's statement makes the block a failed one.
    wire.run("BEGIN");
    wire.query(ENDLESS).unwrap_err();
    assert_eq!(wire.query("SELECT 1").unwrap_err().code(), "25P02");
}

/// Bug: a text was read to its end, whatever the time. Consequence: a message of megabytes kept its
/// thread for seconds, and no limit ended it. Fix: reading counts as the statement's work.
#[test]
fn texts_that_take_too_long_to_read_are_ended() {
    let (_dir, server) = server(&[]);
    let mut wire = server.connect();
    wire.run("SET statement_timeout = '20ms'");
    let list = "1, ".repeat(4_000_000);
    for text in [format!("SELECT 1 IN ({list}1)"), format!("SELECT 1; SELECT 1 IN ({list}1)")] {
        let error = wire.query(&text).unwrap_err();
        assert_eq!((error.code(), error.message()), ("57014", "canceling statement due to statement timeout"));
    }
    assert_eq!(wire.value("SELECT 1"), "1");
}

#[test]
fn who_waits_for_a_lock_waits_without_a_thread_and_within_limits() {
    let (_dir, server) = server(&[("cpus", "1")]);
    let (mut holder, mut waiter) = (server.connect(), server.connect());
    holder.run("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 0)");
    holder.run("BEGIN; SELECT * FROM t WHERE a = 1 FOR UPDATE");
    waiter.run("SET lock_timeout = '100ms'");
    let error = waiter.query("SELECT * FROM t WHERE a = 1 FOR UPDATE").unwrap_err();
    assert_eq!((error.code(), error.message()), ("55P03", "canceling statement due to lock timeout"));
    waiter.run("SET lock_timeout = 0; SET statement_timeout = '100ms'");
    let error = waiter.query("SELECT * FROM t WHERE a = 1 FOR UPDATE").unwrap_err();
    assert_eq!(error.code(), "57014");
    waiter.run("SET statement_timeout = 0");
    // Cancelled while it waits.
    waiter.put(b'Q', b"SELECT * FROM t WHERE a = 1 FOR UPDATE\0").flush();
    until_active(&mut holder, &server);
    waiter.cancel();
    assert_eq!(waiter.answer().unwrap_err().code(), "57014");
    // A client that goes away while it waits lets go of what it has.
    waiter.run("INSERT INTO t VALUES (2, 0)");
    waiter.run("BEGIN; UPDATE t SET b = 1 WHERE a = 2");
    waiter.put(b'Q', b"SELECT * FROM t WHERE a = 1 FOR UPDATE\0").flush();
    until_active(&mut holder, &server);
    drop(waiter);
    let mut third = server.connect();
    third.run("SET lock_timeout = '5s'; UPDATE t SET b = 2 WHERE a = 2");
    // And one that has waited gets the lock.
    third.put(b'Q', b"SELECT b FROM t WHERE a = 1 FOR UPDATE\0").flush();
    until_active(&mut holder, &server);
    holder.run("UPDATE t SET b = 7 WHERE a = 1; COMMIT");
    assert_eq!(third.answer().unwrap().rows[0][0].as_deref(), Some("7"));
}

#[test]
fn a_block_that_is_left_open_is_ended() {
    let (_dir, server) = server(&[]);
    let mut wire = server.connect();
    wire.run("CREATE TABLE t (a int PRIMARY KEY)");
    wire.run("SET idle_in_transaction_session_timeout = '100ms'; BEGIN; INSERT INTO t VALUES (1)");
    let error = wire.answer().unwrap_err();
    assert_eq!(error.code(), "25P03");
    assert_eq!(server.connect().value("SELECT count(*) FROM t"), "0");
}

#[test]
fn a_connection_too_many_is_told_so_and_can_still_cancel() {
    let (_dir, server) = server(&[("connections", "3")]);
    let mut wires: Vec<Wire> = (0..3).map(|_| server.connect()).collect();
    let error = server.connect_as("postgres", "postgres").err().unwrap();
    assert_eq!((error.code(), error.message()), ("53300", "sorry, too many clients already"));
    wires[0].put(b'Q', format!("{ENDLESS}\0").as_bytes()).flush();
    std::thread::sleep(Duration::from_millis(50));
    wires[0].cancel();
    assert_eq!(wires[0].answer().unwrap_err().code(), "57014");
    wires.pop();
    until("a place is free", || server.connect_as("postgres", "postgres").is_ok());
}

#[test]
fn who_does_not_log_in_is_let_go() {
    let (_dir, server) = server(&[("login_ms", "200")]);
    let mut half_open = Wire::open(server.address);
    assert_eq!(half_open.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_reader_who_is_slow_stops_its_statement_and_nothing_else() {
    let (_dir, server) = server(&[]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    let before = server.status("VmHWM");
    // The answer would have some gigabytes.
    let query = "SELECT repeat('x', 1000) FROM generate_series(1, 5000000)\0";
    slow.put(b'Q', query.as_bytes()).flush();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(other.value("SELECT 1"), "1");
    let grown_kb = server.status("VmHWM") - before;
    assert!(grown_kb < 32 << 10, "{grown_kb} kB more");
    // It goes on where it stopped.
    let mut rows = 0;
    while rows < 10_000 {
        rows += usize::from(slow.receive().unwrap().kind == b'D');
    }
    slow.cancel();
    let error = loop {
        let message = slow.receive().unwrap();
        if message.kind == b'E' {
            break message;
        }
    };
    assert!(error.body.windows(5).any(|window| window == b"57014"));
}

#[test]
fn messages_that_are_too_long_end_the_session_before_they_are_read() {
    let (_dir, server) = server(&[("message_bytes", "100000")]);
    let mut wire = server.connect();
    wire.put_raw(b"Q\x7f\xff\xff\xff").flush();
    assert_eq!(wire.answer().unwrap_err().code(), "08P01");
    let mut wire = server.connect();
    assert_eq!(wire.query(&format!("SELECT '{}'", "x".repeat(90_000))).unwrap().rows.len(), 1);
    wire.put_raw(b"!").flush();
    assert_eq!(wire.answer().unwrap_err().code(), "08P01");
}

#[test]
fn statements_that_take_long_sink_to_batch_and_short_ones_stay_fast() {
    let (_dir, server) = server(&[("cpus", "1"), ("metrics", "127.0.0.1:0")]);
    let (mut long, mut short) = (server.connect(), server.connect());
    short.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t SELECT * FROM generate_series(1, 1000)");
    long.put(b'Q', format!("{ENDLESS}\0").as_bytes()).flush();
    std::thread::sleep(Duration::from_millis(400));
    let began = Instant::now();
    for _ in 0..200 {
        short.prepared("SELECT a FROM t WHERE a = $1", &["7"]).unwrap();
    }
    let each = began.elapsed() / 200;
    // A slice of the long one, and whatever else this machine does.
    assert!(each < Duration::from_millis(50), "{each:?} a statement");
    let metrics = super::web::get(server.metrics.unwrap(), "/metrics");
    assert!(metrics.contains("colibri_statements_sunk_total 1\n"), "{metrics}");
    long.cancel();
    long.answer().unwrap_err();
    long.run("SET colibri.priority = 'batch'");
    assert_eq!(long.value("SELECT count(*) FROM generate_series(1, 100000)"), "100000");
    assert_eq!(long.query("SET colibri.priority = 'urgent'").unwrap_err().code(), "22023");
}

/// Bug: there was no `pg_sleep`. Consequence: programs that test their time limits with it failed.
/// Fix: a statement that sleeps waits as one that waits for a lock does: it holds no thread, and
/// its cancellation or its time limit ends it.
#[test]
fn sessions_sleep_without_threads_beside_others_and_are_ended_at_once() {
    let (_dir, server) = server(&[("cpus", "1"), ("connections", "200")]);
    let threads = || std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().count();
    let mut watcher = server.connect();
    watcher.run("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 5) g");
    let before = threads();
    let sleeps = ["SELECT pg_sleep(1000)", "SELECT a FROM t WHERE pg_sleep('Infinity') IS NOT NULL"];
    let mut sleepers: Vec<Wire> = (0..100).map(|_| server.connect()).collect();
    for (sleeper, sleep) in sleepers.iter_mut().zip(sleeps.iter().cycle()) {
        sleeper.put(b'Q', format!("{sleep}\0").as_bytes()).flush();
    }
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Timeout' AND wait_event = 'PgSleep'";
    until("all of them sleep", || watcher.value(asleep) == "100");
    let asked = Instant::now();
    assert_eq!(server.connect().value("SELECT count(*) FROM t"), "5");
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    assert!(threads() <= before + 2, "{} threads instead of {before}", threads());
    let asked = Instant::now();
    sleepers.iter_mut().for_each(|sleeper| sleeper.cancel());
    for sleeper in &mut sleepers {
        let error = sleeper.answer().unwrap_err();
        assert_eq!((error.code(), error.message()), ("57014", "canceling statement due to user request"));
    }
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
}

fn took_ms(what: impl FnOnce()) -> u128 {
    let begun = Instant::now();
    what();
    begun.elapsed().as_millis()
}

#[test]
fn a_statement_sleeps_as_long_as_all_its_calls_say_and_within_its_time_limit() {
    let (_dir, server) = server(&[("cpus", "1")]);
    let (mut wire, mut other) = (server.connect(), server.connect());
    wire.run("CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t SELECT g, '' FROM generate_series(1, 5) g");
    for (statement, least) in [
        ("SELECT pg_sleep(0.1) FROM t", 500),
        ("SELECT a FROM t WHERE pg_sleep(0.1) IS NOT NULL", 500),
        ("SELECT a, pg_sleep(0.1) FROM t ORDER BY a DESC LIMIT 2", 200),
        ("SELECT count(*) FROM t WHERE pg_sleep(0.1)::text = ''", 500),
        ("UPDATE t SET b = pg_sleep(0.1)::text WHERE a < 3 RETURNING a", 200),
        ("INSERT INTO t SELECT a + 100, pg_sleep(0.1)::text FROM t WHERE a < 3", 200),
        ("SELECT (SELECT pg_sleep(0.2)) IS NULL", 200),
        ("VALUES (pg_sleep(0.1)), (pg_sleep(0.1))", 200),
        ("SELECT * FROM pg_sleep_for('200 ms')", 200),
        ("SELECT pg_sleep_until(clock_timestamp() + interval '200 ms')", 200),
        ("EXPLAIN ANALYZE SELECT pg_sleep(0.2)", 200),
        ("BEGIN; DECLARE c CURSOR FOR SELECT pg_sleep(0.1) FROM t WHERE a < 4; FETCH ALL FROM c; COMMIT", 300),
        ("COPY (SELECT pg_sleep(0.1) FROM t WHERE a < 3) TO STDOUT", 200),
    ] {
        let took = took_ms(|| {
            wire.put(b'Q', format!("{statement}\0").as_bytes()).flush();
            wire.answer().unwrap();
        });
        assert!((least..least + 400).contains(&took), "{statement}: {took} ms");
    }
    let took = took_ms(|| {
        wire.prepared("SELECT pg_sleep($1)", &["0.2"]).unwrap();
    });
    assert!((200..600).contains(&took), "{took} ms");
    // What is in front of a sleep in a row is of the time before it.
    let between = "SELECT extract(epoch FROM c2 - c1) BETWEEN 0.2 AND 0.5 FROM \
                   (SELECT clock_timestamp() c1, pg_sleep(0.2), clock_timestamp() c2 OFFSET 0) s";
    assert_eq!(wire.value(between), "t");
    // It commits behind its sleep, and not at all if that is ended.
    wire.run("SET statement_timeout = '200ms'");
    for statement in ["INSERT INTO t SELECT 50, pg_sleep(9)::text", "SELECT pg_sleep(9)", "SELECT pg_sleep(9) FROM t"] {
        let took = took_ms(|| {
            let error = wire.query(statement).unwrap_err();
            assert_eq!((error.code(), error.message()), ("57014", "canceling statement due to statement timeout"));
        });
        assert!((200..600).contains(&took), "{statement}: {took} ms");
    }
    assert_eq!(other.value("SELECT count(*) FROM t WHERE a = 50"), "0");
    // One that waits for a lock and runs again sleeps no second time.
    wire.run("SET statement_timeout = 0; BEGIN; SELECT 1 FROM t WHERE a = 1 FOR UPDATE");
    other.put(b'Q', b"UPDATE t SET b = 'x' WHERE a = 1 AND pg_sleep(0.3) IS NOT NULL\0").flush();
    std::thread::sleep(Duration::from_millis(100));
    let took = took_ms(|| {
        wire.run("COMMIT");
        other.answer().unwrap();
    });
    assert!(took < 600, "{took} ms");
}

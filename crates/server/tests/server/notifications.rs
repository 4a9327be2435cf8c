//! LISTEN and NOTIFY: who is told what, when, and in which order.

use std::io::ErrorKind;
use std::time::Duration;

use super::support::{Message, Server, Wire};

fn server() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    (dir, server)
}

/// A notification: the session that it is of, the channel, the payload.
fn told(message: &Message) -> (i32, String, String) {
    assert_eq!(message.kind, b'A', "{message:?}");
    let (pid, texts) = message.body.split_at(4);
    let mut texts = texts.split(|&byte| byte == 0).map(|text| String::from_utf8(text.to_vec()).unwrap());
    (i32::from_be_bytes(pid.try_into().unwrap()), texts.next().unwrap(), texts.next().unwrap())
}

fn hear(wire: &mut Wire) -> (i32, String, String) {
    told(&wire.receive().unwrap())
}

/// The payloads of so many notifications.
fn payloads(wire: &mut Wire, count: usize) -> Vec<String> {
    (0..count).map(|_| hear(wire).2).collect()
}

fn hears_nothing(wire: &mut Wire) {
    wire.stream().set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let error = wire.receive().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    wire.stream().set_read_timeout(Some(Duration::from_secs(60))).unwrap();
}

#[test]
fn a_session_that_waits_is_told_at_once_what_has_committed() {
    let (_dir, server) = server();
    let (mut listener, mut other) = (server.connect(), server.connect());
    listener.run("LISTEN a; LISTEN \"B c\"");
    other.run("NOTIFY a, 'one'");
    assert_eq!(hear(&mut listener), (other.pid, "a".to_owned(), "one".to_owned()));
    other
        .run("BEGIN; NOTIFY a, 'x'; NOTIFY unheard, 'y'; NOTIFY \"B c\"; NOTIFY a, 'x'; NOTIFY a, 'z'; NOTIFY \"B c\"");
    hears_nothing(&mut listener);
    other.run("COMMIT");
    assert_eq!(payloads(&mut listener, 3), ["x", "", "z"], "what was said twice is told once");
    other.run("BEGIN; NOTIFY a, 'lost'");
    other.run("ROLLBACK");
    other.run("BEGIN; NOTIFY a, '1'; SAVEPOINT s; NOTIFY a, '2'; ROLLBACK TO s; NOTIFY a, '3'; COMMIT");
    assert_eq!(payloads(&mut listener, 2), ["1", "3"]);
    other.query("NOTIFY a, 'lost'; SELECT 1/0").unwrap_err();
    other.run("DO $$ BEGIN PERFORM pg_notify('a', 'body'); BEGIN NOTIFY a, 'lost'; RAISE 'x'; EXCEPTION WHEN OTHERS THEN END; END $$");
    assert_eq!(payloads(&mut listener, 1), ["body"]);
    listener.run("UNLISTEN a");
    other.run("NOTIFY a; NOTIFY \"B c\", 'last'");
    assert_eq!(payloads(&mut listener, 1), ["last"]);
    drop(listener);
    other.run("NOTIFY \"B c\"");
}

#[test]
fn own_notifications_come_before_ready_for_query() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    let answer = wire.run("LISTEN a; NOTIFY a, 'mine'; SELECT 1");
    assert_eq!(answer.kinds, "CCTDCAZ");
    let answer = wire.prepared("SELECT pg_notify('a', 'b')", &[]).unwrap();
    assert_eq!(answer.kinds, "12DCAZ");
    assert_eq!(wire.run("BEGIN; NOTIFY a; SAVEPOINT s").kinds, "CCCZ");
    assert_eq!(wire.run("COMMIT").kinds, "CAZ");
    assert_eq!(wire.run("BEGIN; NOTIFY a; UNLISTEN a; COMMIT").kinds, "CCCCZ", "it has ceased to listen");
}

#[test]
fn a_session_in_a_transaction_is_told_when_that_has_ended() {
    let (_dir, server) = server();
    let (mut listener, mut other) = (server.connect(), server.connect());
    listener.run("LISTEN a");
    listener.run("BEGIN");
    other.run("NOTIFY a, 'early'");
    assert_eq!(listener.run("SELECT 1").kinds, "TDCZ");
    hears_nothing(&mut listener);
    assert_eq!(listener.run("ROLLBACK").kinds, "CAZ");
    // Messages without a Sync behind them are a transaction as well.
    listener.parse("", "SELECT 1").bind("", "", &[]).execute("", 0).put(b'H', b"").flush();
    assert_eq!((0..4).map(|_| listener.receive().unwrap().kind as char).collect::<String>(), "12DC");
    other.run("NOTIFY a, 'late'");
    hears_nothing(&mut listener);
    assert_eq!(listener.sync().flush().answer().unwrap().kinds, "AZ");
    // LISTEN begins with its commit.
    other.run("BEGIN; LISTEN b");
    listener.run("NOTIFY b, 'before'");
    assert_eq!(other.run("COMMIT").kinds, "CZ");
    listener.run("NOTIFY b, 'behind'");
    assert_eq!(payloads(&mut other, 1), ["behind"]);
}

#[test]
fn channels_belong_to_a_database() {
    let (_dir, server) = server();
    let mut here = server.connect();
    here.run("CREATE DATABASE there");
    let mut there = server.connect_as("postgres", "there").unwrap();
    here.run("LISTEN a");
    there.run("LISTEN a");
    there.run("NOTIFY a, 'there'");
    hears_nothing(&mut here);
    here.run("SELECT 1");
}

#[test]
fn many_sessions_listen_and_only_those_of_the_channel_are_told() {
    let (_dir, server) = server();
    let mut wires: Vec<Wire> = (0..60).map(|_| server.connect()).collect();
    for (at, wire) in wires.iter_mut().enumerate() {
        wire.run(&format!("LISTEN c{}", at % 3));
    }
    let mut other = server.connect();
    other.run("NOTIFY c1, 'x'; NOTIFY c1, 'y'");
    for wire in wires.iter_mut().skip(1).step_by(3) {
        assert_eq!(payloads(wire, 2), ["x", "y"]);
    }
    for wire in wires.iter_mut().step_by(30) {
        hears_nothing(wire);
    }
}

/// Each transaction raises one number and tells it: the order of the numbers is that of the commits.
#[test]
fn notifications_come_in_the_order_of_commits_and_behind_what_they_are_about() {
    const SESSIONS: usize = 4;
    const ROUNDS: usize = 60;
    let (_dir, server) = server();
    let mut listener = server.connect();
    listener.run("CREATE TABLE counter (id int PRIMARY KEY, n int); INSERT INTO counter VALUES (1, 0); LISTEN c");
    let mut looks = server.connect();
    std::thread::scope(|scope| {
        for _ in 0..SESSIONS {
            let mut wire = server.connect();
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    if round % 2 == 0 {
                        wire.run("WITH u AS (UPDATE counter SET n = n + 1 RETURNING n) SELECT pg_notify('c', n::text) FROM u");
                        continue;
                    }
                    wire.run("BEGIN; UPDATE counter SET n = n + 1; SELECT pg_notify('c', n::text) FROM counter; COMMIT");
                }
            });
        }
        for expected in 1..=SESSIONS * ROUNDS {
            assert_eq!(hear(&mut listener).2, expected.to_string());
            if expected % 20 == 0 {
                let seen: usize = looks.value("SELECT n FROM counter").parse().unwrap();
                assert!(seen >= expected, "{expected} was told, {seen} is seen");
            }
        }
    });
    hears_nothing(&mut listener);
}

#[test]
fn a_session_that_reads_nothing_ends_the_room_for_notifications_and_its_end_gives_it_back() {
    let (_dir, server) = server();
    let (mut listener, mut other) = (server.connect(), server.connect());
    listener.run("LISTEN a");
    listener.run("BEGIN");
    let fill = "SELECT count(pg_notify('a', repeat('x', 7900) || g)) FROM generate_series(1, 2000) g";
    let mut rounds = 0;
    let error = loop {
        match other.query(fill) {
            Ok(_) => rounds += 1,
            Err(error) => break error,
        }
        assert!(rounds < 10, "there is no end to it");
    };
    assert!(rounds > 2);
    assert_eq!((error.code(), error.message()), ("54000", "too many notifications in the NOTIFY queue"));
    let used: f64 = other.value("SELECT pg_notification_queue_usage()").parse().unwrap();
    assert!(used > 0.5, "{used}");
    drop(listener);
    super::support::until("the room is free", || other.value("SELECT pg_notification_queue_usage()") == "0");
    other.run(fill);
}

//! Processes that end, in every way; and who may come in.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use colibri::sql::{Database, TransactionState};

use super::child::Process;

fn count(conn: &mut colibri::sql::Connection, sql: &str) -> i64 {
    conn.query_row(sql, ()).unwrap().get(0).unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A statement that ends by being cancelled.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000000000)";

#[test]
fn a_guest_that_is_killed_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut conn = db.connect();
    conn.batch("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    let (mut idle, mut working) = (Process::open(dir.path()), Process::open(dir.path()));
    assert_eq!(idle.ask("connect"), format!("guest of {}", std::process::id()));
    assert_eq!(idle.ask("BEGIN"), "ok ");
    assert_eq!(idle.ask("UPDATE t SET a = 2"), "ok ");
    // Its session has it until it ends.
    assert_eq!(working.ask("SELECT pg_advisory_lock(7)"), "ok ");
    let is_free = |conn: &mut colibri::sql::Connection| count(conn, "SELECT pg_try_advisory_lock(7)::int::bigint") == 1;
    assert!(!is_free(&mut conn));
    working.tell(ENDLESS);
    std::thread::sleep(Duration::from_millis(200));
    idle.kill();
    working.kill();
    // The row's lock is free, and the statement that ran for nobody has ended.
    assert_eq!(conn.execute("UPDATE t SET a = 3", ()).unwrap(), 1);
    until("its session ends", || is_free(&mut conn));
    assert_eq!(count(&mut conn, "SELECT a::bigint FROM t"), 3);
}

#[test]
fn an_owner_that_is_killed_is_followed_by_a_guest() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = Process::open(dir.path());
    let mut third = Process::open(dir.path());
    let db = Database::open(dir.path()).unwrap();
    let (mut idle, mut open, mut running) = (db.connect(), db.connect(), db.connect());
    idle.batch("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(third.ask("INSERT INTO t VALUES (2)"), "ok ");
    open.batch("BEGIN; INSERT INTO t VALUES (3)").unwrap();
    let lost = std::thread::scope(|scope| {
        let running = scope.spawn(|| running.execute(ENDLESS, ()));
        std::thread::sleep(Duration::from_millis(100));
        owner.kill();
        running.join().unwrap().unwrap_err()
    });
    // Outside of a block a statement may have committed.
    assert_eq!(lost.state().0, "40003", "{lost}");
    let lost = open.execute("INSERT INTO t VALUES (4)", ()).unwrap_err();
    assert_eq!(lost.state().0, "08006", "{lost}");
    assert_eq!(open.transaction_state(), TransactionState::Idle);
    for conn in [&mut idle, &mut open, &mut running] {
        assert_eq!(conn.execute("SELECT 1", ()).unwrap_err().state().0, "08006");
        assert_eq!(conn.setting("TimeZone").unwrap_err().state().0, "08006");
    }
    // What had committed is there, and nothing else.
    let mut conn = db.connect();
    assert!(db.is_owner() && conn.owner().is_none());
    assert_eq!(count(&mut conn, "SELECT sum(a) FROM t"), 3);
    assert!(third.ask("SELECT 1").starts_with("error 08006"));
    assert_eq!(third.ask("connect"), format!("guest of {}", std::process::id()));
    assert_eq!(third.ask("INSERT INTO t VALUES (5)"), "ok ");
    assert_eq!(count(&mut conn, "SELECT sum(a) FROM t"), 8);
}

#[test]
fn an_owner_that_closes_sends_its_guests_away() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut conn = db.connect();
    conn.batch("CREATE TABLE t (a int PRIMARY KEY)").unwrap();
    let (mut open, mut running) = (Process::open(dir.path()), Process::open(dir.path()));
    open.ask("BEGIN");
    assert_eq!(open.ask("INSERT INTO t VALUES (1)"), "ok ");
    running.tell(ENDLESS);
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    drop(conn);
    drop(db);
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert!(running.hear().starts_with("error "));
    assert!(!dir.path().join("sql.sock").exists());
    assert!(open.ask("COMMIT").starts_with("error "));
    assert_eq!(open.ask("connect"), "owner");
    assert_eq!(open.ask("SELECT count(*) FROM t"), "ok 0");
    assert_eq!(running.ask("connect"), format!("guest of {}", open.id()));
    assert_eq!(open.ask("close"), "ok");
}

#[test]
fn owners_follow_each_other_while_others_work() {
    let dir = tempfile::tempdir().unwrap();
    let mut processes: Vec<Process> = (0..4).map(|_| Process::open(dir.path())).collect();
    processes[0].ask("CREATE TABLE t (a serial PRIMARY KEY)");
    let mut inserted = 0;
    while let Some(mut owner) = (!processes.is_empty()).then(|| processes.remove(0)) {
        for process in std::iter::once(&mut owner).chain(&mut processes) {
            process.ask("connect");
            assert_eq!(process.ask("INSERT INTO t DEFAULT VALUES"), "ok ");
            inserted += 1;
        }
        assert_eq!(owner.ask("SELECT count(*) FROM t"), format!("ok {inserted}"));
        owner.kill();
        // All that are left come at once; one of them opens the database.
        processes.iter_mut().for_each(|process| process.tell("connect"));
        let heard: Vec<String> = processes.iter_mut().map(Process::hear).collect();
        assert_eq!(heard.iter().filter(|heard| *heard == "owner").count(), usize::from(!heard.is_empty()), "{heard:?}");
        // The one that did is the next to go.
        if let Some(at) = heard.iter().position(|heard| heard == "owner") {
            processes.swap(0, at);
        }
    }
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(count(&mut db.connect(), "SELECT count(*) FROM t"), inserted);
}

#[test]
fn another_version_is_refused_with_a_clear_text() {
    let dir = tempfile::tempdir().unwrap();
    drop(Database::open(dir.path()).unwrap());
    let other = Process::of_another_version(dir.path());
    let refused = Database::open(dir.path()).unwrap_err();
    assert_eq!(refused.state().0, "55006");
    let text = refused.to_string();
    assert!(text.contains("version 9.9.9/9") && text.contains(env!("CARGO_PKG_VERSION")), "{text}");
    assert!(text.contains(&format!("process {}", other.id())), "{text}");
    drop(other);

    // And the other way round: the owner says what it is, and goes on.
    let db = Database::open(dir.path()).unwrap();
    for hello in [
        &b"colibri sql\n\x05\x000.0/0\x00\x01\x00x"[..],
        b"GET / HTTP/1.1\r\nHost: birds\r\n",
        b"",
        b"colibri sql\n\xff\xff",
    ] {
        let mut stream = UnixStream::connect(dir.path().join("sql.sock")).unwrap();
        stream.write_all(hello).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // A socket that is closed with bytes unread gives an error.
        _ = stream.read_to_end(&mut answer);
        if hello.starts_with(b"colibri sql\n\x05") {
            assert!(String::from_utf8_lossy(&answer).contains(env!("CARGO_PKG_VERSION")), "{answer:?}");
        }
    }
    assert_eq!(count(&mut db.connect(), "SELECT 1::bigint"), 1);
}

#[test]
fn only_its_user_may_connect_to_the_socket() {
    let parent = tempfile::tempdir().unwrap();
    // A path that is too long for the address of a socket.
    let dir = parent.path().join("n".repeat(120)).join("d");
    std::fs::create_dir_all(&dir).unwrap();
    let db = Database::open(&dir).unwrap();
    let mode = std::fs::metadata(dir.join("sql.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut guest = Process::open(&dir);
    assert_eq!(guest.ask("SELECT 1"), "ok 1");
    drop(db);
    // What a killed owner has left is no hindrance.
    std::fs::write(dir.join("sql.sock"), "").unwrap();
    assert_eq!(guest.ask("connect"), "owner");
}

#[test]
fn a_guest_has_the_files_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = Process::open(dir.path());
    owner.ask("CREATE TABLE t (a int)");
    let db = Database::open(dir.path()).unwrap();
    let mut backup = Vec::new();
    db.storage().unwrap().backup(None, &mut backup).unwrap();
    assert!(!backup.is_empty());
    let catalog = db.connect().catalog().unwrap();
    assert!(catalog.relation("public", "t").is_some());
    // The storage is at hand when the database is to be opened here.
    owner.kill();
    assert_eq!(count(&mut db.connect(), "SELECT count(*) FROM t"), 0);
}

/// Times that threads of this name have slept and were woken, in this process.
fn wake_ups(name: &str) -> u64 {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        let is_meant = std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.starts_with(name));
        let Ok(status) = std::fs::read_to_string(task.join("status")) else { continue };
        let switches = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        if is_meant && let Some(switches) = switches {
            sum += switches.trim_ascii().parse::<u64>().unwrap();
        }
    }
    sum
}

#[test]
fn nothing_wakes_up_while_nobody_does_anything() {
    // In a process of its own, as other tests have threads of these names.
    if std::env::var_os("COLIBRI_TEST_IDLE").is_none() {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "ends::nothing_wakes_up_while_nobody_does_anything"]).env("COLIBRI_TEST_IDLE", "1");
        let output = command.output().unwrap();
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut guest = Process::open(dir.path());
    assert_eq!(guest.ask("SELECT 1"), "ok 1");
    until("they sleep", || {
        let before = wake_ups("colibri-");
        std::thread::sleep(Duration::from_millis(200));
        wake_ups("colibri-") == before
    });
    let before = wake_ups("colibri-");
    assert!(before > 0, "there are threads");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(wake_ups("colibri-"), before);
    drop(db);
}

//! Transactions that conflict: which ones run again without anybody noticing, and which ones are
//! told.

use std::collections::HashSet;

use super::support::{Answer, Server, Told, Wire, until};

const CLIENTS: usize = 6;
const EACH: usize = 40;

fn server() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[("metrics", "127.0.0.1:0")]);
    server.connect().run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0)");
    server.connect().run("CREATE TABLE h (v int PRIMARY KEY)");
    server.connect().run("CREATE TABLE gate (id int PRIMARY KEY); INSERT INTO gate VALUES (1)");
    (dir, server)
}

/// Runs something from several clients, `EACH` times each; what all of them got.
fn at_once(server: &Server, run: impl Fn(&mut Wire) -> String + Send + Copy + 'static) -> Vec<String> {
    let threads: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut wire = server.connect();
            std::thread::spawn(move || (0..EACH).map(|_| run(&mut wire)).collect::<Vec<_>>())
        })
        .collect();
    threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
}

/// That each client got a number of its own, and none is missing.
fn assert_all_different(server: &Server, numbers: &[String]) {
    let different: HashSet<_> = numbers.iter().collect();
    assert_eq!(different.len(), CLIENTS * EACH);
    let mut check = server.connect();
    assert_eq!(check.value("SELECT v FROM t WHERE id = 1"), (CLIENTS * EACH).to_string());
    assert_eq!(check.value("SELECT count(*) FROM h"), (CLIENTS * EACH).to_string());
    let metrics = super::web::get(server.metrics.unwrap(), "/metrics");
    let repeated = metrics.lines().find_map(|line| line.strip_prefix("colibri_transactions_repeated_total ")).unwrap();
    println!("{repeated} repeated");
    assert_ne!(repeated, "0", "there were no conflicts: the test shows nothing");
}

#[test]
fn texts_of_several_statements_that_conflict_run_again_unseen() {
    let (_dir, server) = server();
    // What the first statement reads, the others depend on: there is no order but one after the
    // other.
    let text = "SELECT v + 1 FROM t WHERE id = 1; UPDATE t SET v = (SELECT max(v) FROM t) + 1 WHERE id = 1; \
                INSERT INTO h SELECT v FROM t WHERE id = 1";
    let numbers = at_once(&server, move |wire| {
        let answer = wire.run(text);
        assert_eq!(answer.kinds, "TDCCCZ");
        assert_eq!(answer.tags, ["SELECT 1", "UPDATE 1", "INSERT 0 1"]);
        answer.rows[0][0].clone().unwrap()
    });
    assert_all_different(&server, &numbers);
}

#[test]
fn a_text_from_begin_to_commit_runs_again_as_well() {
    let (_dir, server) = server();
    let text = "SELECT 'in front'; COMMIT; BEGIN; SELECT v + 1 FROM t WHERE id = 1; \
                UPDATE t SET v = (SELECT max(v) FROM t) + 1 WHERE id = 1; \
                INSERT INTO h SELECT v FROM t WHERE id = 1; COMMIT";
    let numbers = at_once(&server, move |wire| {
        let answer = wire.run(text);
        // What had committed before is not run again.
        assert_eq!(answer.tags, ["SELECT 1", "COMMIT", "BEGIN", "SELECT 1", "UPDATE 1", "INSERT 0 1", "COMMIT"]);
        answer.rows[1][0].clone().unwrap()
    });
    assert_all_different(&server, &numbers);
}

#[test]
fn pipelines_that_conflict_run_again_unseen() {
    let (_dir, server) = server();
    let numbers = at_once(&server, |wire| {
        wire.parse("", "SELECT v + $1::int FROM t WHERE id = 1").bind("", "", &["1"]).put(b'D', b"P\0").execute("", 0);
        wire.parse("", "UPDATE t SET v = (SELECT max(v) FROM t) + $1 WHERE id = $2").bind("", "", &["1", "1"]);
        wire.execute("", 0);
        wire.parse("", "INSERT INTO h SELECT v FROM t WHERE id = $1 RETURNING v").bind("", "", &["1"]).execute("", 0);
        let answer = wire.parse("", "SELECT 1").sync().flush().answer().unwrap();
        assert_eq!(answer.kinds, "12TDC12C12DC1Z");
        assert_eq!(answer.rows[0], answer.rows[1]);
        answer.rows[0][0].clone().unwrap()
    });
    assert_all_different(&server, &numbers);
}

/// Bug: DECLARE gave its parameters away, and the server took what it had left for running it
/// again. Consequence: a client whose transaction conflicted was told that there is no parameter
/// $1. Fix: it keeps them.
#[test]
fn a_cursor_with_parameters_is_declared_again() {
    let (_dir, server) = server();
    let (mut wire, mut keeper) = (server.connect(), server.connect());
    keeper.run("BEGIN; SELECT id FROM gate FOR UPDATE; UPDATE t SET v = 5 WHERE id = 1");
    // Only a cursor that is to outlive them can be declared by statements between two Syncs.
    wire.parse("", "DECLARE c CURSOR WITH HOLD FOR SELECT v FROM t WHERE id = $1::int")
        .bind("", "", &["1"])
        .execute("", 0);
    wire.parse("", "FETCH ALL FROM c").bind("", "", &[]).execute("", 0);
    wire.parse("", "SELECT id FROM gate FOR UPDATE").bind("", "", &[]).execute("", 0);
    wire.parse("", "INSERT INTO h VALUES (1)").bind("", "", &[]).execute("", 0).sync().flush();
    until_waiting(&server);
    keeper.run("COMMIT");
    let answer = wire.answer().unwrap();
    assert_eq!(answer.tags, ["DECLARE CURSOR", "FETCH 1", "SELECT 1", "INSERT 0 1"]);
    assert_eq!(answer.rows[0][0].as_deref(), Some("5"), "the first run saw 0");
}

#[test]
fn a_transaction_that_its_client_has_seen_a_part_of_is_told() {
    let (_dir, server) = server();
    let (mut wire, mut other) = (server.connect(), server.connect());
    // In a block of the client's, what it was told does not hold any more.
    wire.run("BEGIN");
    assert_eq!(wire.value("SELECT sum(v) FROM t"), "0");
    other.run("UPDATE t SET v = 7 WHERE id = 1");
    wire.run("INSERT INTO h VALUES (1)");
    assert_eq!(wire.query("COMMIT").unwrap_err().code(), "40001");
    // In a pipeline, Flush has it told.
    wire.parse("", "SELECT sum(v) FROM t").bind("", "", &[]).execute("", 0).put(b'H', b"").flush();
    while wire.receive().unwrap().kind != b'C' {}
    other.run("UPDATE t SET v = 8 WHERE id = 1");
    wire.parse("", "INSERT INTO h VALUES (1)").bind("", "", &[]).execute("", 0).sync();
    assert_eq!(wire.flush().answer().unwrap_err().code(), "40001");
    assert_eq!(wire.value("SELECT count(*) FROM h"), "0");
    // And so has an answer that is longer than what is kept back.
    let long = "SELECT sum(v), repeat('x', 100000) FROM t; SELECT id FROM gate FOR UPDATE; INSERT INTO h VALUES (1)";
    let told = meanwhile(&server, &mut wire, long, "UPDATE t SET v = 9 WHERE id = 1");
    assert_eq!(told.unwrap_err().code(), "40001");
    // What would be done twice is not repeated either.
    let prepares =
        "PREPARE p AS SELECT 1; SELECT sum(v) FROM t; SELECT id FROM gate FOR UPDATE; INSERT INTO h VALUES (1)";
    let told = meanwhile(&server, &mut wire, prepares, "UPDATE t SET v = 10 WHERE id = 1");
    assert_eq!(told.unwrap_err().code(), "40001");
    assert_eq!(wire.value("SELECT count(*) FROM h"), "0");
}

/// Sends a text that waits at the gate, changes something else meanwhile, and lets it pass.
fn meanwhile(server: &Server, wire: &mut Wire, text: &str, change: &str) -> Result<Answer, Told> {
    let mut keeper = server.connect();
    keeper.run("BEGIN; SELECT id FROM gate FOR UPDATE");
    keeper.run(change);
    wire.put(b'Q', format!("{text}\0").as_bytes()).flush();
    until_waiting(server);
    keeper.run("COMMIT");
    wire.answer()
}

fn until_waiting(server: &Server) {
    let mut watcher = server.connect();
    until("a session waits for a lock", || {
        watcher.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1"
    });
}

#[test]
fn a_repeated_transaction_that_fails_otherwise_is_told_that() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.run("INSERT INTO h VALUES (5)");
    let text = "SELECT sum(v) FROM t; SELECT id FROM gate FOR UPDATE; INSERT INTO h SELECT v FROM t WHERE id = 1";
    // At the second time the row is there already.
    let told = meanwhile(&server, &mut wire, text, "UPDATE t SET v = 5 WHERE id = 1");
    assert_eq!(told.unwrap_err().code(), "23505");
    assert_eq!(wire.run("SELECT 1").state, 'I');
    // Otherwise it is as though it had come later.
    let answer = meanwhile(&server, &mut wire, text, "UPDATE t SET v = 6 WHERE id = 1").unwrap();
    assert_eq!(answer.rows[0][0].as_deref(), Some("6"));
    // A cancellation ends it wherever it is.
    let mut keeper = server.connect();
    keeper.run("BEGIN; SELECT id FROM gate FOR UPDATE");
    wire.put(b'Q', format!("{text}\0").as_bytes()).flush();
    until_waiting(&server);
    wire.cancel();
    assert_eq!(wire.answer().unwrap_err().code(), "57014");
}

/// pgbench's transaction, message by message. Whether it has committed. With a `mark` its texts are
/// like no others.
fn tpcb(wire: &mut Wire, random: &mut fastrand::Rng, mark: &str) -> bool {
    let (account, teller, delta) = (random.u32(1..=8), random.u32(1..=4), random.i32(-500..500).to_string());
    let steps: [(&str, &[&str]); 7] = [
        ("BEGIN", &[]),
        ("UPDATE accounts SET balance = balance + $1 WHERE id = $2", &[&delta, &account.to_string()]),
        ("SELECT balance FROM accounts WHERE id = $1", &[&account.to_string()]),
        ("UPDATE tellers SET balance = balance + $1 WHERE id = $2", &[&delta, &teller.to_string()]),
        ("UPDATE branches SET balance = balance + $1 WHERE id = $2", &[&delta, "1"]),
        ("INSERT INTO history VALUES ($1, $2, $3)", &[&account.to_string(), &teller.to_string(), &delta]),
        ("COMMIT", &[]),
    ];
    for (text, params) in steps {
        if let Err(error) = wire.prepared(&format!("{text}{mark}"), params) {
            assert!(["40001", "40P01"].contains(&error.code()), "{error:?}");
            wire.run("ROLLBACK");
            return false;
        }
    }
    true
}

#[test]
fn transactions_that_read_what_they_have_added_do_not_stand_in_each_others_way() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut setup = server.connect();
    for (table, rows) in [("accounts", 8), ("tellers", 4), ("branches", 1)] {
        setup.run(&format!("CREATE TABLE {table} (id int PRIMARY KEY, balance int)"));
        setup.run(&format!("INSERT INTO {table} SELECT n, 0 FROM generate_series(1, {rows}) n"));
    }
    setup.run("CREATE TABLE history (account int, teller int, delta int)");
    let failed_of = |each: usize, has_marks: bool| {
        let threads: Vec<_> = (0..8_u64)
            .map(|seed| {
                let mut wire = server.connect();
                std::thread::spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    let mark = |at: usize| if has_marks { format!(" /* {seed} {at} */") } else { String::new() };
                    (0..each).filter(|&at| !tpcb(&mut wire, &mut random, &mark(at))).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    };
    // Which additions are read is learned, by statement, from the first who do so. From texts that
    // come once nothing is.
    assert_ne!(failed_of(30, true), 0, "nobody stands in anybody's way: the test shows nothing");
    let learning = failed_of(2, false);
    assert_eq!(failed_of(50, false), 0, "{learning} before that");
    for table in ["accounts", "tellers", "branches"] {
        let differ = format!("SELECT (SELECT sum(balance) FROM {table}) - (SELECT sum(delta) FROM history)");
        assert_eq!(setup.value(&differ), "0", "{table}");
    }
}

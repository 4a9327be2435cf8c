//! Databases after the model of others: branches, copies, going back, databases that go with their
//! last connection; all of it with sessions in the model, behind restarts and kills.

use std::time::Duration;

use super::crash::acknowledged;
use super::support::{Server, Wire, until};

fn server(options: &[(&str, &str)]) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), options);
    (dir, server)
}

fn connect(server: &Server, database: &str) -> Wire {
    server.connect_as("postgres", database).unwrap()
}

fn code(wire: &mut Wire, text: &str) -> String {
    wire.query(text).expect_err(text).code().to_owned()
}

/// Runs statements one by one: most of them may not be in a text with others.
fn each(wire: &mut Wire, texts: &[&str]) {
    for text in texts {
        wire.run(text);
    }
}

/// The branches in the file of a database that is not open.
fn branches(dir: &tempfile::TempDir, directory: &str) -> Vec<String> {
    let path = dir.path().join("databases").join(directory);
    let database = colibri_storage::Database::open(path, &colibri_storage::Options::new()).unwrap();
    database.branches().unwrap().into_iter().skip(1).map(|branch| branch.name).collect()
}

#[test]
fn a_branch_has_what_its_model_had_and_goes_its_own_way() {
    let (dir, server) = server(&[]);
    let mut root = server.connect();
    root.run("CREATE DATABASE a");
    let mut a = connect(&server, "a");
    a.run("CREATE TABLE t (id serial PRIMARY KEY, x text UNIQUE)");
    a.run("INSERT INTO t (x) SELECT 'row ' || n FROM generate_series(1, 1000) n");
    // Its sessions go on, and what is not committed is not in the branch.
    a.run("BEGIN; INSERT INTO t (x) VALUES ('open')");
    root.run("CREATE DATABASE b TEMPLATE a");
    a.run("COMMIT");
    let mut b = connect(&server, "b");
    assert_eq!(b.value("SELECT count(*) FROM t"), "1000");
    assert_eq!(b.value("SELECT current_database()"), "b");
    b.run("DELETE FROM t WHERE id <= 500; INSERT INTO t (x) VALUES ('mine')");
    a.run("UPDATE t SET x = 'theirs' WHERE id = 1; CREATE TABLE u (a int)");
    assert_eq!(a.value("SELECT count(*) FROM t"), "1001");
    assert_eq!(b.value("SELECT count(*) FROM t WHERE x IN ('mine', 'theirs')"), "1");
    assert_eq!(code(&mut b, "SELECT * FROM u"), "42P01");
    // A branch of a branch.
    root.run("CREATE DATABASE c TEMPLATE b");
    assert_eq!(connect(&server, "c").value("SELECT count(*) FROM t"), "501");
    drop((a, b, root, server));
    let server = Server::start(dir.path(), &[]);
    for (database, count) in [("a", "1001"), ("b", "501"), ("c", "501")] {
        assert_eq!(connect(&server, database).value("SELECT count(*) FROM t"), count, "{database}");
    }
    let mut root = server.connect();
    for (text, state) in [
        ("CREATE DATABASE d TEMPLATE nosuch", "3D000"),
        ("CREATE DATABASE b TEMPLATE a", "42P04"),
        ("CREATE DATABASE \"x/y\" TEMPLATE a", "42602"),
        ("CREATE DATABASE d TEMPLATE a LOCALE_PROVIDER icu ICU_LOCALE 'de'", "22023"),
        ("BEGIN; CREATE DATABASE d TEMPLATE a", "25001"),
    ] {
        assert_eq!(code(&mut root, text), state, "{text}");
        root.run("ROLLBACK");
    }
}

#[test]
fn locks_sequences_and_notifications_of_branches_are_their_own() {
    let (_dir, server) = server(&[]);
    let mut root = server.connect();
    root.run("CREATE TABLE t (id int PRIMARY KEY, x int); INSERT INTO t VALUES (1, 0); CREATE SEQUENCE s");
    root.run("SELECT nextval('s')");
    root.run("CREATE DATABASE b TEMPLATE postgres");
    let mut b = connect(&server, "b");
    b.run("SET statement_timeout = '5s'");
    root.run("BEGIN; UPDATE t SET x = 1 WHERE id = 1; SELECT pg_advisory_xact_lock(1)");
    // Neither the row nor the number is locked in the other database.
    b.run("BEGIN; UPDATE t SET x = 2 WHERE id = 1; SELECT pg_advisory_xact_lock(1); COMMIT");
    root.run("COMMIT");
    assert_eq!((root.value("SELECT x FROM t"), b.value("SELECT x FROM t")), ("1".to_owned(), "2".to_owned()));
    let next: i64 = b.value("SELECT nextval('s')").parse().unwrap();
    assert!(next > 1, "{next}");
    assert_eq!(root.value("SELECT nextval('s')"), "2");
}

#[test]
fn writers_of_many_branches_write_at_the_same_time() {
    let (_dir, server) = server(&[("connections", "50")]);
    let mut root = server.connect();
    root.run("CREATE TABLE t (id int PRIMARY KEY, x int); INSERT INTO t SELECT n, 0 FROM generate_series(1, 100) n");
    let names: Vec<String> = (0..6).map(|n| format!("b{n}")).collect();
    for name in &names {
        root.run(&format!("CREATE DATABASE {name} TEMPLATE postgres"));
    }
    std::thread::scope(|scope| {
        for (n, name) in names.iter().enumerate() {
            let server = &server;
            scope.spawn(move || {
                let mut wire = connect(server, name);
                for round in 0..100 {
                    wire.run(&format!("UPDATE t SET x = x + {n} WHERE id = {}", round + 1));
                }
            });
        }
    });
    for (n, name) in names.iter().enumerate() {
        let sum = connect(&server, name).value("SELECT sum(x) FROM t");
        assert_eq!(sum, (100 * n).to_string(), "{name}");
    }
    assert_eq!(root.value("SELECT sum(x) FROM t"), "0");
}

#[test]
fn a_branch_outlives_its_model_and_the_file_its_last_database() {
    let (dir, server) = server(&[("keep_ms", "0")]);
    let mut root = server.connect();
    root.run("CREATE DATABASE a");
    connect(&server, "a").run("CREATE TABLE t AS SELECT generate_series(1, 100) AS x");
    each(&mut root, &["CREATE DATABASE b TEMPLATE a", "CREATE DATABASE c TEMPLATE a"]);
    root.run("DROP DATABASE a");
    assert_eq!(connect(&server, "b").value("SELECT count(*) FROM t"), "100");
    // The name is free, and the new database has nothing of the old one.
    root.run("CREATE DATABASE a");
    assert_eq!(code(&mut connect(&server, "a"), "SELECT * FROM t"), "42P01");
    root.run("ALTER DATABASE b RENAME TO d");
    drop((root, server));
    let server = Server::start(dir.path(), &[("keep_ms", "0")]);
    assert_eq!(connect(&server, "d").value("SELECT count(*) FROM t"), "100");
    assert_eq!(code(&mut connect(&server, "a"), "SELECT * FROM t"), "42P01");
    let mut root = server.connect();
    root.run("DROP DATABASE c");
    assert!(dir.path().join("databases/a").exists());
    root.run("DROP DATABASE d");
    assert!(!dir.path().join("databases/a").exists(), "nobody is in the directory any more");
    root.run("DROP DATABASE a");
    let left: Vec<_> = std::fs::read_dir(dir.path().join("databases")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_branch_goes_back_to_what_its_model_is() {
    let (_dir, server) = server(&[]);
    let mut root = server.connect();
    root.run("CREATE TABLE t (x int); INSERT INTO t VALUES (1)");
    each(&mut root, &["CREATE DATABASE b TEMPLATE postgres", "CREATE DATABASE other"]);
    let mut b = connect(&server, "b");
    b.run("INSERT INTO t VALUES (2); CREATE TABLE u (x int)");
    root.run("INSERT INTO t VALUES (3)");
    assert_eq!(code(&mut root, "ALTER DATABASE b RESET TO other"), "55000");
    assert_eq!(code(&mut root, "ALTER DATABASE b RESET TO b"), "55000");
    assert_eq!(code(&mut root, "ALTER DATABASE b RESET TO nosuch"), "3D000");
    assert_eq!(code(&mut root, "ALTER DATABASE nosuch RESET TO b"), "3D000");
    assert_eq!(code(&mut root, "ALTER DATABASE postgres RESET TO b"), "55006");
    assert_eq!(code(&mut root, "ALTER DATABASE b RESET TO postgres"), "55006");
    root.run("ALTER DATABASE b RESET TO postgres (FORCE)");
    assert_eq!(b.query("SELECT 1").unwrap_err().code(), "57P01");
    let mut b = connect(&server, "b");
    assert_eq!(b.value("SELECT string_agg(x::text, ' ' ORDER BY x) FROM t"), "1 3");
    assert_eq!(code(&mut b, "SELECT * FROM u"), "42P01");
    b.run("INSERT INTO t VALUES (4)");
    // The other way: what was made after it becomes the model's state.
    drop(root);
    let mut elsewhere = connect(&server, "other");
    until("sessions have ended", || elsewhere.query("ALTER DATABASE postgres RESET TO b").is_ok());
    assert_eq!(server.connect().value("SELECT count(*) FROM t"), "3");
}

#[test]
fn a_database_is_made_of_what_its_model_was() {
    let (dir, mut server) = server(&[("retention_s", "3600")]);
    let mut root = server.connect();
    root.run("CREATE DATABASE a");
    let mut a = connect(&server, "a");
    a.run("CREATE TABLE t (id serial PRIMARY KEY, x text)");
    a.run("INSERT INTO t (x) SELECT 'row ' || n FROM generate_series(1, 1000) n");
    let transaction = a.value("SELECT txid_current()");
    std::thread::sleep(Duration::from_millis(20));
    let time = a.value("SELECT clock_timestamp()");
    std::thread::sleep(Duration::from_millis(20));
    a.run("DELETE FROM t WHERE id <= 500");
    a.run("CREATE TABLE u (a int)");
    let later = a.value("SELECT txid_current()");
    a.run("DROP TABLE t");
    root.run(&format!("CREATE DATABASE b TEMPLATE a AS OF TRANSACTION {transaction}"));
    root.run(&format!("CREATE DATABASE c TEMPLATE a AS OF '{time}'"));
    root.run(&format!("CREATE DATABASE d TEMPLATE a AS OF TRANSACTION {later}"));
    let count = |database: &str| connect(&server, database).value("SELECT count(*) FROM t");
    assert_eq!((count("b"), count("c"), count("d")), ("1000".into(), "1000".into(), "500".into()));
    let mut b = connect(&server, "b");
    // Sequences go on behind what they had given out; it goes its own way.
    let id: u32 = b.value("INSERT INTO t (x) VALUES ('mine') RETURNING id").parse().unwrap();
    assert!((1_001..1_100).contains(&id), "{id}");
    assert_eq!(code(&mut b, "SELECT * FROM u"), "42P01");
    assert_eq!(connect(&server, "d").value("SELECT count(*) FROM u"), "0");
    // Back and forth, of itself and of another.
    drop((a, b));
    until("sessions have ended", || {
        root.query(&format!("ALTER DATABASE a RESET TO a AS OF TRANSACTION {later}")).is_ok()
    });
    assert_eq!(count("a"), "500");
    root.run(&format!("ALTER DATABASE b RESET TO a AS OF '{time}' (FORCE)"));
    assert_eq!(count("b"), "1000");

    assert_eq!(code(&mut root, "CREATE DATABASE e TEMPLATE a AS OF TRANSACTION 1000000000"), "22023");
    assert_eq!(code(&mut root, "CREATE DATABASE e TEMPLATE a AS OF 'tomorrow'"), "22023");
    assert_eq!(code(&mut root, "CREATE DATABASE e TEMPLATE a AS OF 'no time'"), "22007");
    let error = root.query("CREATE DATABASE e TEMPLATE a AS OF '2000-01-01'").unwrap_err();
    assert_eq!((error.code(), error.message()), ("72000", "the state that was asked for is not kept"));
    assert_eq!(code(&mut root, "CREATE DATABASE e TEMPLATE a STRATEGY file_copy AS OF 'now'"), "0A000");
    assert_eq!(code(&mut root, "CREATE DATABASE e AS OF 'now'"), "42601");
    assert_eq!(code(&mut root, "CREATE DATABASE e TEMPLATE nosuch AS OF 'now'"), "3D000");
    assert_eq!(root.value("SELECT count(*) FROM pg_database WHERE datname = 'e'"), "0");

    // Behind a kill it is all there; a server that keeps nothing gives it up.
    drop(root);
    server.signal("-KILL");
    server.wait();
    let server = Server::start(dir.path(), &[("retention_s", "3600"), ("retention_bytes", "1000000000")]);
    let mut root = server.connect();
    root.run(&format!("CREATE DATABASE e TEMPLATE a AS OF TRANSACTION {transaction}"));
    assert_eq!(connect(&server, "e").value("SELECT count(*) FROM t"), "1000");
    drop((root, server));
    let server = Server::start(dir.path(), &[]);
    let mut root = server.connect();
    let error = root.query(&format!("CREATE DATABASE f TEMPLATE a AS OF TRANSACTION {transaction}")).unwrap_err();
    assert_eq!((error.code(), error.message()), ("55000", "no states of the past are kept"));
}

#[test]
fn a_copy_has_a_file_of_its_own() {
    let (dir, server) = server(&[("keep_ms", "0")]);
    let mut root = server.connect();
    root.run("CREATE DATABASE a");
    connect(&server, "a").run("CREATE TABLE t AS SELECT generate_series(1, 1000) AS x");
    root.run("CREATE DATABASE b TEMPLATE a");
    root.run("CREATE DATABASE c TEMPLATE b STRATEGY = file_copy");
    connect(&server, "c").run("DELETE FROM t WHERE x > 10");
    assert_eq!(connect(&server, "b").value("SELECT count(*) FROM t"), "1000");
    assert!(dir.path().join("databases/c/data").exists() && !dir.path().join("databases/b").exists());
    assert_eq!(code(&mut root, "ALTER DATABASE c RESET TO a"), "55000");
    each(&mut root, &["DROP DATABASE b", "DROP DATABASE a"]);
    assert_eq!(connect(&server, "c").value("SELECT count(*) FROM t"), "10");
}

#[test]
fn who_may_copy_a_database() {
    let (_dir, server) = server(&[]);
    let mut root = server.connect();
    root.run("CREATE ROLE maker LOGIN CREATEDB; CREATE ROLE nobody LOGIN");
    each(&mut root, &["CREATE DATABASE mine OWNER maker", "CREATE DATABASE theirs"]);
    let mut maker = server.connect_as("maker", "mine").unwrap();
    let mut nobody = server.connect_as("nobody", "mine").unwrap();
    maker.run("CREATE DATABASE one TEMPLATE mine");
    assert_eq!(code(&mut maker, "CREATE DATABASE two TEMPLATE theirs"), "42501");
    assert_eq!(code(&mut nobody, "CREATE DATABASE two TEMPLATE mine"), "42501");
    assert_eq!(code(&mut nobody, "ALTER DATABASE one RESET TO mine"), "42501");
    root.run("ALTER DATABASE theirs IS_TEMPLATE true");
    assert_eq!(root.value("SELECT datistemplate FROM pg_database WHERE datname = 'theirs'"), "t");
    assert_eq!(code(&mut root, "DROP DATABASE theirs"), "42809");
    maker.run("CREATE DATABASE two TEMPLATE theirs");
    maker.run("ALTER DATABASE two RESET TO theirs");
    assert_eq!(code(&mut nobody, "CREATE DATABASE three TEMPLATE theirs"), "42501");
    each(&mut root, &["ALTER DATABASE theirs IS_TEMPLATE false", "DROP DATABASE theirs"]);
    assert_eq!(code(&mut maker, "ALTER DATABASE two RESET TO mine"), "55000");
}

/// A kill between the making of a branch and its record, or between the end of a record and that of
/// its branch, leaves a branch that nobody names. It goes when the file is opened next.
#[test]
fn kills_leave_whole_databases_and_no_branch_without_one() {
    let (dir, mut server) = server(&[]);
    let mut root = server.connect();
    root.run("CREATE DATABASE a");
    connect(&server, "a").run("CREATE TABLE t AS SELECT generate_series(1, 300) AS x");
    drop(root);
    let mut random = fastrand::Rng::new();
    let mut known: Vec<String> = Vec::new();
    let mut next = 0;
    for round in 0..12 {
        let first = known.clone();
        let wire = server.connect();
        let load = std::thread::spawn(move || {
            let mut known = first;
            let mut stream = wire.stream().try_clone().unwrap();
            loop {
                next += 1;
                let drops = known.len() > 5 || next % 3 == 0 && !known.is_empty();
                let name = if drops { known.remove(0) } else { format!("b{next}") };
                let text = match drops {
                    true => format!("DROP DATABASE {name}"),
                    false => format!("CREATE DATABASE {name} TEMPLATE a"),
                };
                if !acknowledged(&mut stream, &text) {
                    return (known, Some(name), next);
                }
                if !drops {
                    known.push(name);
                }
            }
        });
        std::thread::sleep(Duration::from_millis(random.u64(1..120)));
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        let in_doubt;
        (known, in_doubt, next) = load.join().unwrap();
        server = Server::start(dir.path(), &[]);
        let names = server.connect().run("SELECT datname FROM pg_database WHERE datname LIKE 'b%' ORDER BY 1").rows;
        let names: Vec<String> = names.into_iter().map(|row| row[0].clone().unwrap()).collect();
        assert!(known.iter().all(|name| names.contains(name)), "round {round}: {known:?}, {names:?}");
        for name in &names {
            assert!(known.contains(name) || in_doubt.as_ref() == Some(name), "round {round}: {name}");
            assert_eq!(connect(&server, name).value("SELECT sum(x) FROM t"), "45150", "round {round}: {name}");
        }
        connect(&server, "a").value("SELECT 1");
        known = names;
    }
    server.signal("-INT");
    assert!(server.wait());
    assert_eq!(branches(&dir, "a").len(), known.len());
}

#[test]
fn a_database_that_is_asked_for_is_there_until_its_last_connection_ends() {
    let (dir, server) = server(&[("ephemeral", "model"), ("keep_ms", "0")]);
    let mut root = server.connect();
    assert_eq!(server.connect_as("postgres", "test1").err().unwrap().code(), "3D000");
    each(&mut root, &["CREATE DATABASE model", "CREATE ROLE tester LOGIN"]);
    connect(&server, "model").run("CREATE TABLE t AS SELECT generate_series(1, 10) AS x; GRANT ALL ON t TO PUBLIC");
    let mut one = server.connect_as("tester", "test1").unwrap();
    let mut same = server.connect_as("tester", "test1").unwrap();
    let mut other = server.connect_as("tester", "test2").unwrap();
    one.run("DELETE FROM t; CREATE SCHEMA mine");
    assert_eq!(same.value("SELECT count(*) FROM t"), "0");
    assert_eq!(other.value("SELECT count(*) FROM t"), "10");
    assert_eq!(root.value("SELECT count(*) FROM pg_database WHERE datname LIKE 'test%'"), "2");
    drop(one);
    assert_eq!(same.value("SELECT count(*) FROM t"), "0");
    drop((same, other));
    let count = "SELECT count(*) FROM pg_database WHERE datname LIKE 'test%'";
    until("they are gone", || root.value(count) == "0");
    assert_eq!(server.connect_as("tester", "test1").unwrap().value("SELECT count(*) FROM t"), "10");
    // Who may not come in gets none.
    assert_eq!(server.connect_as("nosuch", "test3").err().unwrap().code(), "28000");
    assert_eq!(server.connect_as("tester", "bad/name").err().unwrap().code(), "42602");
    until("they are gone", || root.value(count) == "0");
    // One that is made by a statement stays.
    root.run("CREATE DATABASE stays TEMPLATE model");
    drop(connect(&server, "stays"));
    // Many at once, on the same names.
    std::thread::scope(|scope| {
        for client in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for round in 0..20 {
                    let name = format!("test{}", (client + round) % 3);
                    let mut wire = server.connect_as("tester", &name).unwrap();
                    assert_eq!(wire.value("SELECT count(*) FROM t"), "10");
                }
            });
        }
    });
    let mut held = server.connect_as("tester", "test9").unwrap();
    held.run("INSERT INTO t VALUES (11)");
    let mut server = server;
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let mut server = Server::start(dir.path(), &[("ephemeral", "model")]);
    let names = server.connect().run("SELECT datname FROM pg_database ORDER BY 1").rows;
    let names: Vec<_> = names.into_iter().map(|row| row[0].clone().unwrap()).collect();
    assert_eq!(names, ["model", "postgres", "stays"]);
    assert_eq!(server.connect_as("tester", "test9").unwrap().value("SELECT count(*) FROM t"), "10");
    server.signal("-INT");
    assert!(server.wait());
    assert!(branches(&dir, "model").len() <= 2);
}

#[test]
fn transactions_that_are_prepared_keep_a_database_from_being_a_model() {
    let (_dir, server) = server(&[("prepared", "2")]);
    let mut root = server.connect();
    root.run("CREATE TABLE t (x int); BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'");
    assert_eq!(code(&mut root, "CREATE DATABASE b TEMPLATE postgres"), "55006");
    each(&mut root, &["COMMIT PREPARED 'p'", "CREATE DATABASE b TEMPLATE postgres"]);
    assert_eq!(connect(&server, "b").value("SELECT count(*) FROM t"), "1");
}

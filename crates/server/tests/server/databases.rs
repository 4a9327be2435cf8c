//! Several databases, start and end of the server.

use std::time::{Duration, Instant};

use super::support::{MEMORY_IS_GIVEN_BACK, Server, Wire, until};

#[test]
fn a_new_server_answers_within_milliseconds_of_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let server = Server::start(&dir.path().join("new/one"), &[]);
    assert_eq!(server.connect().value("SELECT 1"), "1");
    let took = began.elapsed();
    // Many times what it takes on a machine that does nothing else.
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn sigterm_lets_transactions_end_and_sigint_does_not() {
    for (signal, finishes) in [("-TERM", true), ("-INT", false)] {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Server::start(dir.path(), &[]);
        let (mut idle, mut busy) = (server.connect(), server.connect());
        busy.run("CREATE TABLE t (a int)");
        busy.run("BEGIN; INSERT INTO t VALUES (1)");
        server.signal(signal);
        assert_eq!(idle.answer().unwrap_err().code(), "57P01");
        if finishes {
            busy.run("INSERT INTO t VALUES (2)");
            busy.put(b'Q', b"COMMIT\0").flush().answer().unwrap();
        }
        assert_eq!(busy.answer().unwrap_err().code(), "57P01");
        assert!(server.wait(), "{}", server.log());
        let server = Server::start(dir.path(), &[]);
        assert_eq!(server.connect().value("SELECT count(*) FROM t"), if finishes { "2" } else { "0" });
    }
}

#[test]
fn a_transaction_that_does_not_end_has_so_long_and_no_longer() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &[("grace_ms", "200")]);
    let mut busy = server.connect();
    busy.run("BEGIN");
    busy.put(b'Q', b"SELECT count(*) FROM generate_series(1, 1000000000000)\0").flush();
    server.signal("-TERM");
    assert_eq!(busy.answer().unwrap_err().code(), "57P01");
    assert!(server.wait());
}

#[test]
fn a_server_that_nobody_uses_ends_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &[("idle_exit_ms", "300"), ("keep_ms", "0")]);
    let mut wire = server.connect();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(wire.value("SELECT 1"), "1");
    drop(wire);
    assert!(server.wait(), "{}", server.log());
}

#[test]
fn a_database_that_nobody_uses_is_closed_and_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[("keep_ms", "100")]);
    let path = dir.path().join("databases/postgres");
    let mut wire = server.connect();
    wire.run("CREATE TABLE t (a int)");
    assert!(!server.log().contains(MEMORY_IS_GIVEN_BACK), "{}", server.log());
    drop(wire);
    // Another process can open it now, and its memory is free.
    until("the database is closed", || colibri_sql::DirectoryLock::for_sql(&path).is_ok());
    until("its memory is given back", || server.log().contains(MEMORY_IS_GIVEN_BACK));
    server.connect().run("INSERT INTO t VALUES (1)");
    assert!(colibri_sql::DirectoryLock::for_sql(&path).is_err());
}

#[test]
fn the_unix_socket_is_there_while_the_server_is() {
    use std::io::{Read, Write};
    let (dir, sockets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut server = Server::start(dir.path(), &[("socket", sockets.path().to_str().unwrap())]);
    let path = sockets.path().join(format!(".s.PGSQL.{}", server.address.port()));
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stream.write_all(&super::support::startup(&[("user", "postgres")])).unwrap();
    let mut kind = [0];
    stream.read_exact(&mut kind).unwrap();
    assert_eq!(kind, *b"R");
    server.signal("-INT");
    assert!(server.wait());
    assert!(!path.exists());
}

#[test]
fn one_server_serves_a_directory_at_an_address() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let log = Server::try_start(dir.path(), &[]).err().unwrap();
    assert!(log.contains(&format!("is served by process {}", server.pid())), "{log}");
    let other = tempfile::tempdir().unwrap();
    let log = Server::try_start(other.path(), &[("listen", &server.address.to_string())]).err().unwrap();
    assert!(log.contains("cannot listen at 127.0.0.1:"), "{log}");
}

#[test]
fn others_see_what_sessions_do_and_can_end_them() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[("metrics", "127.0.0.1:0")]);
    let parameters = [("user", "postgres"), ("application_name", "tests")];
    let mut wire = Wire::connect(server.address, &parameters).unwrap();
    wire.run("BEGIN");
    let status = super::web::get(server.metrics.unwrap(), "/status.json");
    assert!(status.contains("\"idle in transaction\"") && status.contains("\"tests\""), "{status}");
}

/// A database's own collation is that of its locale, and stays so behind a restart.
#[test]
fn a_database_compares_texts_by_its_locale() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut root = server.connect();
    root.run("CREATE DATABASE bytes ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    root.run(
        "CREATE DATABASE english ENCODING 'UTF8' LC_COLLATE 'en_US.UTF-8' LC_CTYPE 'en_US.UTF-8' TEMPLATE template0",
    );
    root.run("CREATE DATABASE german LOCALE_PROVIDER icu ICU_LOCALE 'de' TEMPLATE template0");
    for (statement, code) in [
        ("CREATE DATABASE x LC_COLLATE 'nosuch' TEMPLATE template0", "42809"),
        ("CREATE DATABASE x LC_COLLATE 'en_US.UTF-8'", "22023"),
        ("CREATE DATABASE x LOCALE_PROVIDER icu ICU_LOCALE 'de'", "22023"),
        ("CREATE DATABASE x LOCALE_PROVIDER icu TEMPLATE template0", "42P17"),
        ("CREATE DATABASE x ICU_LOCALE 'de' TEMPLATE template0", "42P17"),
        ("CREATE DATABASE x ENCODING 'nosuch'", "42704"),
        ("CREATE DATABASE x ENCODING 'LATIN1' TEMPLATE template0", "0A000"),
        ("CREATE DATABASE x LOCALE 'C' LC_COLLATE 'C'", "42601"),
    ] {
        assert_eq!(root.query(statement).unwrap_err().code(), code, "{statement}");
    }
    let of = |wire: &mut Wire, text: &str| -> Vec<String> {
        wire.run(text)
            .rows
            .into_iter()
            .map(|row| row.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join(" "))
            .collect()
    };
    let known = "SELECT datname, datcollate, datctype, datlocprovider, daticulocale FROM pg_database \
                 WHERE datname IN ('bytes', 'english', 'german') ORDER BY 1";
    assert_eq!(of(&mut root, known), ["bytes C C c ", "english en_US.UTF-8 en_US.UTF-8 c ", "german C C.UTF-8 i de"]);
    for database in ["bytes", "english", "german"] {
        let mut wire = server.connect_as("postgres", database).unwrap();
        wire.run("CREATE TABLE t (a text PRIMARY KEY, b varchar(10))");
        wire.run("CREATE INDEX ON t (b)");
        wire.run("INSERT INTO t SELECT a, a FROM unnest('{a,B,ä,Z,z,o}'::text[]) a");
    }
    drop(root);
    drop(server);
    let server = Server::start(dir.path(), &[]);
    for (database, order, least) in
        [("bytes", ["B Z a o z ä"], "B"), ("english", ["a ä B o z Z"], "a"), ("german", ["a ä B o z Z"], "a")]
    {
        let mut wire = server.connect_as("postgres", database).unwrap();
        assert_eq!(of(&mut wire, "SELECT string_agg(a, ' ' ORDER BY a) FROM t"), order, "{database}");
        wire.run("SET enable_seqscan = off");
        assert_eq!(of(&mut wire, "SELECT b FROM t ORDER BY b LIMIT 1"), [least], "{database}");
        assert_eq!(of(&mut wire, "SELECT min(a) FROM t"), [least], "{database}");
        assert_eq!(of(&mut wire, "SELECT a FROM t WHERE a = 'ä'"), ["ä"], "{database}");
        assert_eq!(of(&mut wire, "SELECT 'a' < 'B'"), [if database == "bytes" { "f" } else { "t" }], "{database}");
        let code = wire.query("INSERT INTO t VALUES ('a', '')").unwrap_err().code().to_owned();
        assert_eq!(code, "23505", "{database}");
    }
}

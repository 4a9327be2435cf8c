//! Roles, passwords, TLS.

use std::io::{Read, Write};
use std::path::Path;

use super::support::{Server, Wire};

/// A certificate and its key, as `NAME.crt` and `NAME.key`.
fn certificate(dir: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let base = dir.join("server");
    std::fs::write(base.with_extension("crt"), made.cert.pem()).unwrap();
    std::fs::write(base.with_extension("key"), made.signing_key.serialize_pem()).unwrap();
    base.to_str().unwrap().to_owned()
}

fn with_password(options: &[(&str, &str)]) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "right\nanother line\n").unwrap();
    let mut all = vec![("auth", "scram-sha-256"), ("password", file.to_str().unwrap())];
    all.extend_from_slice(options);
    let server = Server::start(&dir.path().join("server"), &all);
    (dir, server)
}

/// Runs psql; what it says, or the error.
fn psql(server: &Server, conninfo: &str, password: &str) -> Option<Result<String, String>> {
    let conninfo =
        format!("host=localhost hostaddr=127.0.0.1 port={} dbname=postgres {conninfo}", server.address.port());
    let args = ["-X", "-At", "-c", "SELECT current_user", &conninfo];
    let run = super::support::postgresql("psql")?().args(args).env("PGPASSWORD", password).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Some(if run.status.success() { Ok(text(&run.stdout)) } else { Err(text(&run.stderr)) })
}

#[test]
fn a_server_that_others_can_reach_does_not_start_without_passwords() {
    let dir = tempfile::tempdir().unwrap();
    let log = Server::try_start(dir.path(), &[("listen", "0.0.0.0:0")]).err().unwrap();
    assert!(log.contains("can be reached from elsewhere"), "{log}");
    Server::start(dir.path(), &[("listen", "0.0.0.0:0"), ("auth", "trust")]);
}

#[test]
fn a_server_that_nobody_can_log_in_to_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[("auth", "scram-sha-256")]);
    assert!(server.log().contains("no_password"), "{}", server.log());
    let (_dir, server) = with_password(&[]);
    assert!(!server.log().contains("no_password"), "{}", server.log());
}

#[test]
fn roles_that_are_not_there_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let error = server.connect_as("nobody-by-this-name", "postgres").err().unwrap();
    assert_eq!(error.code(), "28000");
    let error = Wire::connect(server.address, &[("database", "postgres")]).err().unwrap();
    assert_eq!(error.code(), "28000");
    super::support::until("it is logged", || server.log().contains("refused"));
}

#[test]
fn psql_logs_in_with_the_right_password_only() {
    let (_dir, server) = with_password(&[]);
    let Some(right) = psql(&server, "user=postgres", "right") else { return };
    assert_eq!(right.unwrap(), "postgres");
    let wrong = psql(&server, "user=postgres", "wrong").unwrap().unwrap_err();
    // Nothing tells a name that is not there from a password that is wrong.
    let nobody = psql(&server, "user=nobody-by-this-name", "wrong").unwrap().unwrap_err();
    let without_name = |text: &str| text.replace("nobody-by-this-name", "postgres");
    assert_eq!(without_name(&wrong), without_name(&nobody));
    assert!(wrong.contains("password authentication failed for user \"postgres\""), "{wrong}");
    assert!(!server.log().contains("right"), "{}", server.log());
}

#[test]
fn psql_binds_its_login_to_the_encrypted_connection() {
    let files = tempfile::tempdir().unwrap();
    let base = certificate(files.path());
    let (_dir, server) = with_password(&[("tls", &base)]);
    for conninfo in ["sslmode=require", "sslmode=require channel_binding=require", "sslmode=disable"] {
        let Some(run) = psql(&server, &format!("user=postgres {conninfo}"), "right") else { return };
        assert_eq!(run.unwrap(), "postgres", "{conninfo}");
    }
    let verified = format!("user=postgres sslmode=verify-full sslrootcert={base}.crt");
    assert_eq!(psql(&server, &verified, "right").unwrap().unwrap(), "postgres");
    let wrong = psql(&server, "user=postgres sslmode=require channel_binding=require", "wrong").unwrap().unwrap_err();
    assert!(wrong.contains("password authentication failed"), "{wrong}");
    // Without encryption there is nothing to bind to.
    psql(&server, "user=postgres sslmode=disable channel_binding=require", "right").unwrap().unwrap_err();
    // Certificates are read again when asked.
    let old = std::fs::read(format!("{base}.crt")).unwrap();
    certificate(files.path());
    server.signal("-HUP");
    super::support::until("the new certificate is used", || server.log().contains("reloaded"));
    assert_eq!(psql(&server, &verified, "right").unwrap().unwrap(), "postgres");
    std::fs::write(format!("{base}.crt"), old).unwrap();
    psql(&server, &verified, "right").unwrap().unwrap_err();
}

#[test]
fn what_is_sent_before_encryption_is_not_taken_for_what_comes_after() {
    let files = tempfile::tempdir().unwrap();
    let (_dir, server) = with_password(&[("tls", &certificate(files.path()))]);
    let mut stream = Wire::open(server.address);
    let mut bytes = 8_i32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&80_877_103_i32.to_be_bytes());
    bytes.extend_from_slice(&super::support::startup(&[("user", "postgres")]));
    stream.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer);
    assert_eq!(answer[0], b'S');
    assert!(answer.windows(5).any(|window| window == b"08P01"), "{answer:?}");
    assert!(!answer.windows(5).any(|window| window == b"\0\0\0\x0a" as &[u8]), "no login is begun");
}

#[test]
fn bytes_that_are_no_tls_end_the_connection() {
    let files = tempfile::tempdir().unwrap();
    let (_dir, server) = with_password(&[("tls", &certificate(files.path())), ("login_ms", "500")]);
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 100], b"\x16\x03\x01"] {
        let mut stream = Wire::open(server.address);
        let mut bytes = 8_i32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&80_877_103_i32.to_be_bytes());
        stream.write_all(&bytes).unwrap();
        let mut answer = [0];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"S");
        _ = stream.write_all(garbage);
        let mut rest = Vec::new();
        _ = stream.read_to_end(&mut rest);
    }
    assert!(!server.log().contains("panic"), "{}", server.log());
    assert!(psql(&server, "user=postgres sslmode=require", "right").is_none_or(|run| run.is_ok()));
}

/// Messages of a login by hand: what comes up to the server's choice of mechanisms.
fn mechanisms(server: &Server) -> Vec<String> {
    let mut stream = Wire::open(server.address);
    stream.write_all(&super::support::startup(&[("user", "postgres")])).unwrap();
    let mut header = [0; 9];
    stream.read_exact(&mut header).unwrap();
    assert_eq!((header[0], &header[5..]), (b'R', &10_i32.to_be_bytes()[..]));
    let length = i32::from_be_bytes(header[1..5].try_into().unwrap()) as usize - 8;
    let mut names = vec![0; length];
    stream.read_exact(&mut names).unwrap();
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Answers the server's choice of mechanisms, and gives the code of the error.
fn refused(server: &Server, mechanism: &str, first: &[u8]) -> String {
    let mut stream = Wire::open(server.address);
    stream.write_all(&super::support::startup(&[("user", "postgres")])).unwrap();
    let mut body = format!("{mechanism}\0").into_bytes();
    body.extend_from_slice(&(first.len() as i32).to_be_bytes());
    body.extend_from_slice(first);
    let mut message = vec![b'p'];
    message.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
    message.extend_from_slice(&body);
    stream.write_all(&message).unwrap();
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (_, code) = text.split_once("\0C").unwrap_or_else(|| panic!("no error: {text:?}"));
    code[..5].to_owned()
}

#[test]
fn a_login_cannot_be_talked_into_something_weaker() {
    let (_dir, server) = with_password(&[]);
    // What needs encryption to bind to is not offered without, and not taken.
    assert_eq!(mechanisms(&server), ["SCRAM-SHA-256"]);
    assert_eq!(refused(&server, "SCRAM-SHA-256-PLUS", b"p=tls-server-end-point,,n=,r=abc"), "08P01");
    assert_eq!(refused(&server, "PLAIN", b"\0postgres\0right"), "08P01");
    assert_eq!(refused(&server, "SCRAM-SHA-256", b"p=tls-server-end-point,,n=,r=abc"), "08P01");
    assert_eq!(refused(&server, "SCRAM-SHA-256", b"nonsense"), "08P01");
    assert_eq!(refused(&server, "SCRAM-SHA-256", b""), "08P01");
    // A client that says it would have bound its login, if only the server had offered it, to a
    // server that does offer it, speaks through somebody who has taken the offer out.
    let files = tempfile::tempdir().unwrap();
    let (_dir, server) = with_password(&[("tls", &certificate(files.path()))]);
    if let Some(run) = psql(&server, "user=postgres sslmode=require channel_binding=require", "right") {
        assert_eq!(run.unwrap(), "postgres");
    }
    // The password is no password message: those of other methods are not read as one.
    let mut stream = Wire::open(server.address);
    stream.write_all(&super::support::startup(&[("user", "postgres")])).unwrap();
    stream.write_all(b"Q\0\0\0\x0dSELECT 1\0").unwrap();
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer);
    assert!(String::from_utf8_lossy(&answer).contains("C08P01"), "a query before the login is over");
    assert!(!server.log().contains("panic"), "{}", server.log());
}

#[test]
fn messages_before_a_login_are_short_or_refused() {
    let (_dir, server) = with_password(&[("login_ms", "5000")]);
    let before = server.status("VmHWM");
    for claimed in [i32::MAX, 100_000_000, 20_000, -1, 0, 7] {
        let mut stream = Wire::open(server.address);
        let mut bytes = claimed.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0x20; 64]);
        stream.write_all(&bytes).unwrap();
        // Closed at once, whatever more is said to come.
        let mut rest = Vec::new();
        _ = stream.read_to_end(&mut rest);
    }
    // The same of what comes as an answer to the server's question.
    for _ in 0..4 {
        let mut stream = Wire::open(server.address);
        stream.write_all(&super::support::startup(&[("user", "postgres")])).unwrap();
        stream.write_all(b"p\x7f\xff\xff\xff").unwrap();
        let mut rest = Vec::new();
        _ = stream.read_to_end(&mut rest);
        assert!(String::from_utf8_lossy(&rest).contains("C08P01"), "{rest:?}");
    }
    let grown_kb = server.status("VmHWM") - before;
    assert!(grown_kb < 8 << 10, "{grown_kb} kB more");
    assert_eq!(server.log().matches("ready").count(), 1, "{}", server.log());
}

#[test]
fn a_user_without_grants_is_refused_and_learns_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut owner = server.connect();
    owner.run("CREATE ROLE app LOGIN; CREATE ROLE gone LOGIN");
    owner.run("CREATE DATABASE private");
    owner.run("REVOKE CONNECT ON DATABASE private FROM PUBLIC");
    owner.run("CREATE TABLE secrets (id int PRIMARY KEY, word text); INSERT INTO secrets VALUES (1, 'hummingbird')");
    owner.run("CREATE SEQUENCE numbers; CREATE VIEW words AS SELECT word FROM secrets");
    let mut app = server.connect_as("app", "postgres").unwrap();
    for sql in [
        "SELECT word FROM secrets",
        "SELECT count(*) FROM secrets",
        "SELECT word FROM words",
        "SELECT id FROM secrets WHERE word = 'x'",
        "EXPLAIN ANALYZE SELECT * FROM secrets",
        "COPY secrets TO STDOUT",
        "COPY secrets FROM STDIN",
        "INSERT INTO secrets VALUES (2, 'x')",
        "UPDATE secrets SET word = word",
        "DELETE FROM secrets",
        "TRUNCATE secrets",
        "SELECT id FROM secrets FOR UPDATE",
        "CREATE INDEX i ON secrets (word)",
        "DROP TABLE secrets",
        "ALTER TABLE secrets ADD COLUMN x int",
        "ALTER SEQUENCE numbers RESTART",
        "SELECT nextval('numbers')",
        "GRANT SELECT ON secrets TO app",
        "CREATE ROLE other",
        "ALTER ROLE app SUPERUSER",
        "CREATE DATABASE mine",
        "DROP DATABASE private",
        "SET SESSION AUTHORIZATION postgres",
        "SET ROLE postgres",
        "CHECKPOINT",
        "BEGIN; DECLARE c CURSOR FOR SELECT word FROM secrets",
    ] {
        for prepared in [false, true] {
            if prepared && (sql.starts_with("BEGIN") || sql.starts_with("COPY")) {
                continue;
            }
            let told = if prepared { app.prepared(sql, &[]) } else { app.query(sql) };
            let error = told.map(|answer| panic!("{sql}: {answer:?}")).unwrap_err();
            assert!(["42501", "42809"].contains(&error.code()), "{sql}: {error:?}");
            assert!(!format!("{error:?}").contains("hummingbird"), "{sql}: {error:?}");
            app.run("ROLLBACK");
        }
    }
    // Neither do errors that come of a row's values, nor other sessions' statements.
    owner.put(b'Q', b"SELECT 'hummingbird', count(*) FROM generate_series(1, 100000000000)\0").flush();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let seen = app.run("SELECT usename, query FROM pg_stat_activity").rows;
    assert!(!format!("{seen:?}").contains("hummingbird"), "{seen:?}");
    let seen = app.run("SELECT query FROM pg_stat_statements").rows;
    assert!(!format!("{seen:?}").contains("hummingbird"), "{seen:?}");
    assert_eq!(app.query(&format!("SELECT pg_terminate_backend({})", owner.pid)).unwrap_err().code(), "42501");
    assert_eq!(app.query(&format!("SELECT pg_cancel_backend({})", owner.pid)).unwrap_err().code(), "42501");
    owner.cancel();
    owner.answer().unwrap_err();
    // Only a client with the right to know can tell forbidden databases from missing ones.
    assert_eq!(server.connect_as("app", "private").err().unwrap().code(), "42501");
    super::support::until("it is logged", || server.log().contains("42501"));
    // A role that goes away while it is connected can do nothing more.
    let mut gone = server.connect_as("gone", "postgres").unwrap();
    owner.run("GRANT SELECT ON secrets TO gone");
    assert_eq!(gone.value("SELECT count(*) FROM secrets"), "1");
    owner.run("REVOKE SELECT ON secrets FROM gone");
    assert_eq!(gone.query("SELECT count(*) FROM secrets").unwrap_err().code(), "42501");
}

/// Bug: CREATE DATABASE read CONNECTION LIMIT and left it out. Consequence: a database that was to
/// have one session had any number of them. Fix: what a database is made with is kept with its
/// name.
#[test]
fn a_database_keeps_the_limits_it_was_made_with() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut owner = server.connect();
    owner.run("CREATE ROLE app LOGIN");
    owner.run("CREATE DATABASE narrow WITH CONNECTION LIMIT = 1 STRATEGY wal_log TABLESPACE pg_default");
    owner.run("CREATE DATABASE shut ALLOW_CONNECTIONS false");
    let told =
        "SELECT datname, datconnlimit, datallowconn FROM pg_database WHERE datname IN ('narrow', 'shut') ORDER BY 1";
    let rows = owner.run(told).rows;
    assert_eq!(
        format!("{rows:?}"),
        format!(
            "{:?}",
            [
                ["narrow", "1", "t"].map(|text| Some(text.to_owned())),
                ["shut", "-1", "f"].map(|text| Some(text.to_owned())),
            ]
        )
    );
    let first = server.connect_as("app", "narrow").unwrap();
    assert_eq!(server.connect_as("app", "narrow").err().unwrap().code(), "53300");
    drop(first);
    super::support::until("its place is free", || server.connect_as("app", "narrow").is_ok());
    assert_eq!(server.connect_as("app", "shut").err().unwrap().code(), "55000");
    owner.run("ALTER DATABASE shut ALLOW_CONNECTIONS on");
    server.connect_as("app", "shut").unwrap();
}

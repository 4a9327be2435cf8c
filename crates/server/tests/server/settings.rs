//! Settings that the server stores for roles and databases, reports of settings to clients, and the
//! user of a session.

use super::support::{Server, Wire};

fn server(options: &[(&str, &str)]) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), options);
    (dir, server)
}

/// A setting of a new session, and where `pg_settings` says that it comes from.
fn begins_with(server: &Server, user: &str, database: &str, name: &str) -> (String, String) {
    let mut wire = server.connect_as(user, database).unwrap();
    let row = wire.run(&format!("SELECT current_setting(name), source FROM pg_settings WHERE name = '{name}'")).rows;
    (row[0][0].clone().unwrap(), row[0][1].clone().unwrap())
}

#[test]
fn what_is_kept_for_roles_and_databases_counts_in_postgresqls_order_and_outlives_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[("isolation", "read committed")]);
    let mut root = server.connect();
    root.run("CREATE ROLE alice LOGIN");
    root.run("CREATE DATABASE d");
    let of = |server: &Server, user: &str, database: &str| begins_with(server, user, database, "work_mem");
    let is = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    let mut expect = vec![];
    for (statement, value, source) in [
        ("ALTER ROLE ALL SET work_mem = '1MB'", "1MB", "global"),
        ("ALTER DATABASE d SET work_mem TO '2MB'", "2MB", "database"),
        ("ALTER ROLE alice SET work_mem = '3MB'", "3MB", "user"),
        ("ALTER ROLE alice IN DATABASE d SET work_mem = '4MB'", "4MB", "database user"),
    ] {
        root.run(statement);
        assert_eq!(of(&server, "alice", "d"), is(value, source), "{statement}");
        expect.push((value, source));
    }
    assert_eq!(of(&server, "postgres", "d"), is("2MB", "database"));
    assert_eq!(of(&server, "postgres", "postgres"), is("1MB", "global"));
    assert_eq!(of(&server, "alice", "postgres"), is("3MB", "user"));
    // The client counts most, and RESET goes back to what it brought.
    let options = [("user", "alice"), ("database", "d"), ("options", "-c work_mem=5MB")];
    let mut wire = Wire::connect(server.address, &options).unwrap();
    wire.run("SET work_mem = '6MB'; RESET work_mem");
    assert_eq!(wire.value("SHOW work_mem"), "5MB");
    let isolation = |server: &Server| begins_with(server, "alice", "d", "default_transaction_isolation");
    assert_eq!(isolation(&server), is("read committed", "command line"));
    root.run("ALTER DATABASE d SET default_transaction_isolation = 'Repeatable Read'");
    drop(server);
    let server = Server::start(dir.path(), &[]);
    assert_eq!(of(&server, "alice", "d"), is("4MB", "database user"));
    assert_eq!(isolation(&server), is("repeatable read", "database"));
    // Taken back one by one, the next counts.
    let mut root = server.connect();
    for (statement, (value, source)) in [
        ("ALTER ROLE alice IN DATABASE d RESET work_mem", expect[2]),
        ("ALTER USER alice RESET ALL", expect[1]),
        ("ALTER DATABASE d SET work_mem TO DEFAULT", expect[0]),
    ] {
        root.run(statement);
        assert_eq!(of(&server, "alice", "d"), is(value, source), "{statement}");
    }
    root.run("ALTER ROLE ALL RESET ALL");
    assert_eq!(of(&server, "alice", "d").1.replace("command line", "default"), "default");
}

#[test]
fn what_is_kept_is_shown_where_postgresql_shows_it_and_goes_with_its_role_or_database() {
    let (_dir, server) = server(&[]);
    let mut root = server.connect();
    root.run("CREATE ROLE alice LOGIN");
    root.run("CREATE ROLE bob LOGIN");
    root.run("CREATE DATABASE d");
    root.run("ALTER ROLE alice SET search_path TO 'TenantA', public");
    root.run("ALTER ROLE alice SET timezone TO 'Asia/Tokyo'");
    root.run("ALTER ROLE alice SET app.tenant TO $$acme's$$");
    root.run("ALTER ROLE bob IN DATABASE d SET TIME ZONE INTERVAL '+01:00' HOUR TO MINUTE");
    root.run("ALTER DATABASE d SET statement_timeout = '10min'");
    let drds = "SELECT coalesce(rolname, ''), coalesce(datname, ''), array_to_string(setconfig, '; ') \
                FROM pg_catalog.pg_db_role_setting s \
                LEFT JOIN pg_catalog.pg_database d ON d.oid = setdatabase \
                LEFT JOIN pg_catalog.pg_roles r ON r.oid = setrole ORDER BY 1, 2";
    let rows = |root: &mut Wire| -> Vec<String> {
        let join = |row: Vec<Option<String>>| row.into_iter().flatten().collect::<Vec<_>>().join("|");
        root.run(drds).rows.into_iter().map(join).collect()
    };
    assert_eq!(
        rows(&mut root),
        [
            "|d|statement_timeout=10min",
            "alice||search_path=\"TenantA\", public; TimeZone=Asia/Tokyo; app.tenant=acme's",
            "bob|d|TimeZone=INTERVAL '01:00:00'",
        ]
    );
    let config = "SELECT array_to_string(rolconfig, '; ') FROM pg_roles WHERE rolname = 'alice'";
    assert_eq!(root.value(config), "search_path=\"TenantA\", public; TimeZone=Asia/Tokyo; app.tenant=acme's");
    let mut alice = server.connect_as("alice", "d").unwrap();
    assert_eq!(alice.value("SHOW search_path"), "\"TenantA\", public");
    assert_eq!(alice.value("SELECT current_setting('app.tenant')"), "acme's");
    assert_eq!(alice.parameters["TimeZone"], "Asia/Tokyo");
    let mut bob = server.connect_as("bob", "d").unwrap();
    assert_eq!(bob.value("SHOW timezone"), "<+01>-01");
    drop((alice, bob));
    root.run("DROP ROLE bob");
    super::support::until("the database is free", || root.query("DROP DATABASE d").is_ok());
    assert_eq!(rows(&mut root).len(), 1);
    root.run("DROP ROLE alice");
    assert_eq!(rows(&mut root), [""; 0]);
}

#[test]
fn who_may_not_set_something_for_others_is_refused_and_what_cannot_be_is_not_kept() {
    let (_dir, server) = server(&[]);
    let mut root = server.connect();
    root.run("CREATE ROLE alice LOGIN");
    root.run("CREATE ROLE bob LOGIN");
    root.run("CREATE ROLE maker LOGIN CREATEROLE");
    root.run("CREATE DATABASE d OWNER bob");
    let state =
        |wire: &mut Wire, text: &str| wire.query(text).map_or_else(|e| e.code().to_owned(), |_| "ok".to_owned());
    let mut alice = server.connect_as("alice", "d").unwrap();
    for (statement, expected) in [
        ("ALTER ROLE alice SET work_mem = '1MB'", "ok"),
        ("ALTER ROLE CURRENT_USER SET work_mem = '1MB'", "ok"),
        ("ALTER ROLE bob SET work_mem = '1MB'", "42501"),
        ("ALTER ROLE postgres SET work_mem = '1MB'", "42501"),
        ("ALTER ROLE ALL SET work_mem = '1MB'", "42501"),
        ("ALTER DATABASE d SET work_mem = '1MB'", "42501"),
        ("ALTER DATABASE d RESET ALL", "42501"),
        ("ALTER ROLE alice SET log_statement = 'all'", "42501"),
    ] {
        assert_eq!(state(&mut alice, statement), expected, "{statement}");
    }
    let mut bob = server.connect_as("bob", "d").unwrap();
    assert_eq!(state(&mut bob, "ALTER DATABASE d SET work_mem = '1MB'"), "ok");
    assert_eq!(state(&mut bob, "ALTER DATABASE postgres SET work_mem = '1MB'"), "42501");
    let mut maker = server.connect_as("maker", "d").unwrap();
    assert_eq!(state(&mut maker, "ALTER ROLE bob SET work_mem = '1MB'"), "ok");
    assert_eq!(state(&mut maker, "ALTER ROLE postgres SET work_mem = '1MB'"), "42501");
    for (statement, expected) in [
        ("ALTER ROLE bob SET work_mem = 'much'", "22023"),
        ("ALTER ROLE bob SET nosuch = 1", "42704"),
        ("ALTER ROLE bob SET server_version = 1", "55P02"),
        ("ALTER ROLE bob SET role = nosuch", "22023"),
        ("ALTER ROLE nosuch SET work_mem = '1MB'", "42704"),
        ("ALTER DATABASE nosuch SET work_mem = '1MB'", "3D000"),
        ("ALTER ROLE bob IN DATABASE nosuch SET work_mem = '1MB'", "3D000"),
        ("ALTER ROLE bob IN DATABASE d", "42601"),
        ("ALTER ROLE bob SET work_mem", "42601"),
        ("ALTER DATABASE d SET TABLESPACE x", "0A000"),
        ("ALTER ROLE ALL LOGIN", "42601"),
    ] {
        assert_eq!(state(&mut root, statement), expected, "{statement}");
    }
}

/// A role that is not there any more, or that one may not be any more, keeps nobody from logging
/// in.
#[test]
fn a_setting_that_cannot_be_any_more_is_warned_of_at_login() {
    let (_dir, server) = server(&[]);
    let mut root = server.connect();
    root.run("CREATE ROLE staff; CREATE ROLE alice LOGIN; GRANT staff TO alice");
    root.run("ALTER ROLE alice SET role = 'staff'");
    let mut alice = server.connect_as("alice", "postgres").unwrap();
    assert_eq!(alice.value("SELECT current_user || ' ' || session_user"), "staff alice");
    alice.run("SET ROLE NONE; RESET ROLE");
    assert_eq!(alice.value("SELECT current_user"), "staff");
    root.run("REVOKE staff FROM alice");
    let mut alice = server.connect_as("alice", "postgres").unwrap();
    assert_eq!(alice.value("SELECT current_user"), "alice");
}

#[test]
fn clients_are_told_when_a_setting_changes_back() {
    let (_dir, server) = server(&[]);
    let mut wire = server.connect();
    let mut told = |text: &str, name: &str| {
        _ = wire.query(text);
        wire.parameters[name].clone()
    };
    for (text, zone) in [
        ("SET timezone = '+02:00'", "+02:00"),
        ("SET TIME ZONE 3", "<+03>-03"),
        ("BEGIN", "<+03>-03"),
        ("SET LOCAL timezone = 'Europe/berlin'", "Europe/Berlin"),
        ("SAVEPOINT a", "Europe/Berlin"),
        ("SELECT set_config('timezone', 'asia/tokyo', true)", "Asia/Tokyo"),
        ("SELECT 1 / 0", "Europe/Berlin"),
        ("ROLLBACK TO a", "Europe/Berlin"),
        ("COMMIT", "<+03>-03"),
        ("BEGIN; SET timezone = 'UTC'", "UTC"),
        ("SELECT 1 / 0", "<+03>-03"),
        ("ROLLBACK", "<+03>-03"),
        ("SET LOCAL timezone = 'UTC'", "<+03>-03"),
        ("SET LOCAL timezone = 'UTC'; SELECT 1", "<+03>-03"),
        ("DISCARD ALL", "UTC"),
    ] {
        assert_eq!(told(text, "TimeZone"), zone, "{text}");
    }
    assert_eq!(told("SET application_name = \"x\"", "application_name"), "x");
    assert_eq!(told("SET client_encoding = 'utf-8'", "client_encoding"), "UTF8");
    told("CREATE ROLE alice", "TimeZone");
    assert_eq!(told("SET SESSION AUTHORIZATION alice", "session_authorization"), "alice");
    assert_eq!(told("SELECT 1", "is_superuser"), "off");
    assert_eq!(told("RESET SESSION AUTHORIZATION", "session_authorization"), "postgres");
    assert_eq!(told("SELECT 1", "is_superuser"), "on");
}

/// Bug: roles that were SET within a transaction were kept beside the settings, and neither
/// savepoints nor `set_config` knew of them. Consequence: a pool that sets a role for a transaction
/// could leave it to the next user. Fix: the session's user follows from its settings.
#[test]
fn roles_are_settings_and_are_taken_back_like_them() {
    let (_dir, server) = server(&[]);
    let mut wire = server.connect();
    wire.run("CREATE ROLE r1; CREATE ROLE r2");
    let mut who = |text: &str| {
        wire.run(text);
        let who = wire.value("SELECT session_user || ' ' || current_user || ' ' || current_setting('role')");
        who.replace("postgres", "p")
    };
    for (text, expected) in [
        ("BEGIN; SET LOCAL ROLE r1", "p r1 r1"),
        ("SAVEPOINT a; SET ROLE r2", "p r2 r2"),
        ("ROLLBACK TO a", "p r1 r1"),
        ("COMMIT", "p p none"),
        ("BEGIN; SET ROLE r1; COMMIT", "p r1 r1"),
        ("RESET ALL", "p r1 r1"),
        ("BEGIN; RESET ROLE; ROLLBACK", "p r1 r1"),
        ("SET ROLE NONE", "p p none"),
        ("SELECT set_config('role', 'r1', true)", "p p none"),
        ("BEGIN; SELECT set_config('role', 'r1', true)", "p r1 r1"),
        ("COMMIT", "p p none"),
        ("SELECT set_config('role', 'r2', false)", "p r2 r2"),
        ("DISCARD ALL", "p p none"),
        ("BEGIN; SET LOCAL SESSION AUTHORIZATION r1", "r1 r1 none"),
        ("COMMIT", "p p none"),
        ("SET SESSION AUTHORIZATION 'r1'", "r1 r1 none"),
        ("SET SESSION AUTHORIZATION DEFAULT", "p p none"),
        ("SET SESSION ROLE r2", "p r2 r2"),
        ("SET SESSION AUTHORIZATION r1", "r1 r1 none"),
        ("RESET SESSION AUTHORIZATION", "p p none"),
    ] {
        assert_eq!(who(text), expected, "{text}");
    }
    for (text, code) in [
        ("SET ROLE nosuch", "22023"),
        ("SET SESSION AUTHORIZATION nosuch", "22023"),
        ("SELECT set_config('role', 'nosuch', false)", "22023"),
        ("SET ROLE DEFAULT", "42601"),
    ] {
        assert_eq!(wire.query(text).unwrap_err().code(), code, "{text}");
    }
    wire.run("CREATE ROLE alice LOGIN");
    let mut alice = server.connect_as("alice", "postgres").unwrap();
    for text in ["SET ROLE r1", "SELECT set_config('role', 'r1', true)", "SET SESSION AUTHORIZATION r1"] {
        assert_eq!(alice.query(text).unwrap_err().code(), "42501", "{text}");
    }
}

#[test]
fn what_does_nothing_outside_a_block_is_warned_of() {
    let (_dir, server) = server(&[]);
    let mut wire = server.connect();
    for (text, message) in [
        ("SET LOCAL work_mem = '1MB'", "SET LOCAL can only be used in transaction blocks"),
        ("SET TRANSACTION READ ONLY", "SET TRANSACTION can only be used in transaction blocks"),
        ("RESET transaction_isolation", "RESET TRANSACTION can only be used in transaction blocks"),
        ("SET CONSTRAINTS ALL DEFERRED", "SET CONSTRAINTS can only be used in transaction blocks"),
    ] {
        let notices = wire.run(text).notices;
        assert_eq!((notices[0].code(), notices[0].message()), ("25P01", message), "{text}");
        assert_eq!(wire.run(&format!("BEGIN; {text}; COMMIT")).notices.len(), 0, "{text}");
    }
    wire.run("SET client_min_messages = error");
    assert_eq!(wire.run("SET LOCAL work_mem = '1MB'").notices.len(), 0);
}

/// Bug: every transaction was serializable unless its client said otherwise. Consequence: programs
/// that do not repeat transactions failed with 40001. Fix: the owner of a database, or the server's
/// command line, chooses the default isolation.
#[test]
fn threads_that_select_and_update_do_not_conflict_in_a_read_committed_database() {
    let (_dir, server) = server(&[]);
    server.connect().run("CREATE DATABASE d");
    let mut root = server.connect_as("postgres", "d").unwrap();
    root.run("ALTER DATABASE d SET default_transaction_isolation = 'read committed'");
    root.run("CREATE TABLE t (id int PRIMARY KEY, v int)");
    root.run("INSERT INTO t SELECT g, 0 FROM generate_series(1, 3) AS g");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let mut wire = server.connect_as("postgres", "d").unwrap();
            scope.spawn(move || {
                for round in 0..30 {
                    let id = (thread + round) % 3 + 1;
                    wire.run("BEGIN");
                    wire.run(&format!("SELECT v FROM t WHERE id = {id}"));
                    wire.run(&format!("UPDATE t SET v = v + 1 WHERE id = {id}"));
                    wire.run("COMMIT");
                }
            });
        }
    });
    assert_eq!(root.value("SELECT sum(v) FROM t"), "120");
}

#[test]
fn a_session_that_is_left_alone_is_ended_if_it_says_so() {
    let (_dir, server) = server(&[]);
    let mut wire = server.connect();
    wire.run("SET idle_session_timeout = '200ms'");
    assert_eq!(wire.answer().unwrap_err().code(), "57P05");
}

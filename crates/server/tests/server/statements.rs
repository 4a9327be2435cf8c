//! Simple and extended queries, portals, COPY.

use std::time::Duration;

use super::support::{Answer, Message, Server, Wire, row};

fn server() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    (dir, server)
}

#[test]
fn clients_are_told_what_they_need_to_know_when_they_connect() {
    let (_dir, server) = server();
    let wire = server.connect();
    for (name, value) in [
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("TimeZone", "UTC"),
        ("is_superuser", "on"),
        ("session_authorization", "postgres"),
    ] {
        assert_eq!(wire.parameters[name], value, "{name}");
    }
    assert!(wire.parameters["server_version"].starts_with("15."));
    assert!(wire.pid > 0 && wire.key.len() == 4);
}

#[test]
fn several_statements_of_a_text_are_one_transaction() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    let answer = wire.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); SELECT a FROM t ORDER BY a");
    assert_eq!(answer.tags, ["CREATE TABLE", "INSERT 0 2", "SELECT 2"]);
    assert_eq!(answer.kinds, "CCTDDCZ");
    let error = wire.query("INSERT INTO t VALUES (3); SELECT 1/0; INSERT INTO t VALUES (4)").unwrap_err();
    assert_eq!(error.code(), "22012");
    assert_eq!(wire.value("SELECT count(*) FROM t"), "2");
    // COMMIT in the middle keeps what was before it.
    wire.query("BEGIN; INSERT INTO t VALUES (3); COMMIT; INSERT INTO t VALUES (4); SELECT 1/0").unwrap_err();
    assert_eq!(wire.value("SELECT count(*) FROM t"), "3");
    let error = wire.query("SELECT 'ä'; SELECT nope FROM t").unwrap_err();
    assert_eq!((error.code(), &*error.0[&b'P']), ("42703", "20"));
    for empty in ["", "  ", ";", "-- nothing"] {
        assert_eq!(wire.run(empty).kinds, "IZ", "{empty:?}");
    }
}

/// Bug: names in parameters were looked up in the catalogue that the last statement had left, which
/// a change of settings takes away. Consequence: where a plan was known, `$1::regclass` failed with
/// "there is no catalogue" after a SET. Fix: a catalogue is there before parameters are read.
#[test]
fn names_in_parameters_are_found_after_settings_have_changed() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    for setting in ["SET search_path = public", "SET timezone = 'UTC'", "BEGIN READ ONLY; COMMIT", "SELECT 1"] {
        wire.run(setting);
        for (text, given, found) in [
            ("SELECT $1::regclass::text", "pg_catalog.pg_class", "pg_class"),
            ("SELECT ($1::regclass[])::text", "{pg_class,pg_type}", "{pg_class,pg_type}"),
        ] {
            let answer = wire.prepared(text, &[given]).unwrap();
            assert_eq!(answer.rows, [[Some(found.to_owned())]], "{setting}");
        }
    }
}

#[test]
fn a_failed_block_takes_nothing_but_its_end() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    assert_eq!(wire.run("BEGIN").state, 'T');
    assert_eq!(wire.query("SELECT 1/0").unwrap_err().code(), "22012");
    assert_eq!(wire.query("SELECT 1").unwrap_err().code(), "25P02");
    assert_eq!(wire.prepared("SELECT 1", &[]).unwrap_err().code(), "25P02");
    let answer = wire.run("COMMIT");
    assert_eq!((&*answer.tags[0], answer.state), ("ROLLBACK", 'I'));
    let answer = wire.run("COMMIT");
    assert_eq!(answer.notices[0].code(), "25P01");
    let answer = wire.run("SET application_name = 'tests'");
    assert_eq!((answer.kinds.as_str(), &*wire.parameters["application_name"]), ("CSZ", "tests"));
}

#[test]
fn statements_are_prepared_bound_described_and_run() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.run("CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(10,2))");
    let answer = wire.prepared("INSERT INTO t VALUES ($1, $2, $3)", &["1", "x", "1.5"]).unwrap();
    assert_eq!((answer.kinds.as_str(), &*answer.tags[0]), ("12CZ", "INSERT 0 1"));
    wire.parse("s", "SELECT a, b, c FROM t WHERE a = $1").put(b'D', b"Ss\0").sync();
    assert_eq!(wire.flush().answer().unwrap().kinds, "1tTZ");
    for _ in 0..3 {
        let answer = wire.bind("", "s", &["1"]).put(b'D', b"P\0").execute("", 0).sync().flush().answer().unwrap();
        assert_eq!(answer.kinds, "2TDCZ");
        assert_eq!(answer.rows, [["1", "x", "1.50"].map(|text| Some(text.to_owned()))]);
    }
    // Binary there and back.
    let body = [&b"\0s\0\0\x01\0\x01\0\x01"[..], &4_i32.to_be_bytes(), &1_i32.to_be_bytes(), &[0, 1, 0, 1]].concat();
    wire.put(b'B', &body).execute("", 0).sync().flush();
    let row = loop {
        let Message { kind, body } = wire.receive().unwrap();
        if kind == b'D' {
            break body;
        }
    };
    assert_eq!(row[2..10], [0, 0, 0, 4, 0, 0, 0, 1]);
    wire.answer().unwrap();
    wire.put(b'C', b"Ss\0").sync();
    assert_eq!(wire.flush().answer().unwrap().kinds, "3Z");
    let code = |wire: &mut super::support::Wire| wire.sync().flush().answer().unwrap_err().code().to_owned();
    wire.bind("", "s", &["1"]);
    assert_eq!(code(&mut wire), "26000");
    wire.execute("nope", 0);
    assert_eq!(code(&mut wire), "34000");
    wire.parse("t", "SELECT 1").parse("t", "SELECT 1");
    assert_eq!(code(&mut wire), "42P05");
    wire.parse("", "SELECT 1; SELECT 2");
    assert_eq!(code(&mut wire), "42601");
    wire.parse("", "SELECT $1::int").bind("", "", &["x"]);
    assert_eq!(code(&mut wire), "22P02");
    wire.parse("", "SELECT $1::int").bind("", "", &[]);
    assert_eq!(code(&mut wire), "08P01");
    assert_eq!(wire.prepared("", &[]).unwrap().kinds, "12IZ");
    // What SQL forgets the protocol has forgotten, too.
    wire.parse("u", "SELECT 1").sync().flush().answer().unwrap();
    wire.run("DEALLOCATE u");
    wire.bind("", "u", &[]);
    assert_eq!(code(&mut wire), "26000");
}

#[test]
fn messages_up_to_a_sync_are_one_transaction_and_nothing_follows_an_error() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.run("CREATE TABLE t (a int PRIMARY KEY)");
    let insert = "INSERT INTO t VALUES ($1)";
    wire.parse("i", insert).bind("", "i", &["1"]).execute("", 0).bind("", "i", &["2"]).execute("", 0).sync();
    assert_eq!(wire.flush().answer().unwrap().kinds, "12C2CZ");
    wire.bind("", "i", &["3"]).execute("", 0).bind("", "i", &["1"]).execute("", 0);
    wire.bind("", "i", &["4"]).execute("", 0).sync();
    assert_eq!(wire.flush().answer().unwrap_err().code(), "23505");
    assert_eq!(wire.value("SELECT count(*) FROM t"), "2");
    // Several Syncs in one piece: each is a transaction, and one error ends one of them.
    for value in ["5", "1", "6"] {
        wire.bind("", "i", &[value]).execute("", 0).sync();
    }
    wire.flush();
    assert!(wire.answer().is_ok() && wire.answer().is_err() && wire.answer().is_ok());
    assert_eq!(wire.value("SELECT count(*) FROM t"), "4");
    // A block that is begun among them stays open behind the Sync.
    wire.parse("b", "BEGIN").bind("", "b", &[]).execute("", 0).bind("", "i", &["7"]).execute("", 0).sync();
    assert_eq!(wire.flush().answer().unwrap().state, 'T');
    assert_eq!(wire.run("ROLLBACK").state, 'I');
    assert_eq!(wire.value("SELECT count(*) FROM t"), "4");
}

#[test]
fn a_portal_gives_its_rows_in_pieces() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t SELECT * FROM generate_series(1, 5000)");
    wire.run("BEGIN");
    wire.parse("s", "SELECT a FROM t ORDER BY a").bind("p", "s", &[]).bind("q", "s", &[]).sync();
    wire.flush().answer().unwrap();
    let mut seen = Vec::new();
    loop {
        // Another portal in between does no harm.
        wire.execute("q", 1);
        let answer = wire.execute("p", 700).sync().flush().answer().unwrap();
        seen.extend(answer.rows[1..].iter().map(|row| row[0].clone().unwrap().parse::<i32>().unwrap()));
        match answer.kinds.chars().rev().nth(1) {
            Some('s') => assert_eq!(answer.rows.len(), 701),
            Some('C') => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, (1..=5000).collect::<Vec<_>>());
    assert_eq!(wire.execute("p", 0).sync().flush().answer().unwrap().tags, ["SELECT 0"]);
    wire.run("ROLLBACK");
    // Outside of a block the portal ends with the Sync.
    wire.bind("r", "s", &[]).execute("r", 2).sync();
    assert_eq!(wire.flush().answer().unwrap().kinds, "2DDsZ");
    assert_eq!(wire.execute("r", 2).sync().flush().answer().unwrap_err().code(), "34000");
}

#[test]
fn cursors_of_sql_are_fetched_by_both_protocols_and_described_like_portals() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t SELECT * FROM generate_series(1, 5000)");
    wire.run("BEGIN");
    let declared = wire.prepared("DECLARE \"C c\" CURSOR FOR SELECT a, a + $1 AS b FROM t ORDER BY a", &["1"]).unwrap();
    assert_eq!(declared.tags, ["DECLARE CURSOR"]);
    wire.put(b'D', b"PC c\0").sync();
    assert_eq!(wire.flush().answer().unwrap().kinds, "TZ");
    let answer = wire.prepared("FETCH FORWARD 700 FROM \"C c\"", &[]).unwrap();
    assert_eq!((answer.rows.len(), &*answer.tags[0]), (700, "FETCH 700"));
    assert_eq!(wire.run("MOVE 299 IN \"C c\"").tags, ["MOVE 299"]);
    let answer = wire.run("FETCH 1 FROM \"C c\"");
    assert_eq!((answer.kinds.as_str(), &answer.rows[0][1]), ("TDCZ", &Some("1001".to_owned())));
    // As a portal is closed.
    wire.put(b'C', b"PC c\0").sync().flush().answer().unwrap();
    assert_eq!(wire.query("FETCH \"C c\"").unwrap_err().code(), "34000");
    // Two that take turns, one of them with rows in binary form whatever the client says.
    wire.run("ROLLBACK; BEGIN; DECLARE b BINARY CURSOR FOR SELECT 258; DECLARE c CURSOR FOR SELECT a FROM t");
    wire.put(b'Q', b"FETCH b\0").flush();
    while wire.receive().unwrap() != (Message { kind: b'D', body: b"\0\x01\0\0\0\x04\0\0\x01\x02".to_vec() }) {}
    wire.answer().unwrap();
    assert_eq!(wire.value("FETCH c"), "1");
    assert_eq!(wire.run("FETCH b").rows.len(), 0);
    assert_eq!(wire.value("FETCH c"), "2");
    // They end with the block, also with an implicit one.
    wire.run("COMMIT");
    assert_eq!(wire.query("FETCH c").unwrap_err().code(), "34000");
    let answer = wire.run("DECLARE c CURSOR FOR SELECT a FROM t; FETCH 2 FROM c; FETCH 1 FROM c");
    assert_eq!(answer.rows.concat(), ["1", "2", "3"].map(|text| Some(text.to_owned())));
    assert_eq!(wire.query("FETCH c").unwrap_err().code(), "34000");
    assert_eq!(wire.query("DECLARE c CURSOR FOR SELECT 1").unwrap_err().code(), "25P01");
}

#[test]
fn a_cursor_over_more_rows_than_there_are_is_cancelled_and_fetched_in_time() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.run("BEGIN; DECLARE c CURSOR FOR SELECT g FROM generate_series(1, 1000000000000) AS g (g)");
    assert_eq!(wire.run("FETCH 100 FROM c").rows.len(), 100);
    wire.run("SET statement_timeout = '200ms'");
    assert_eq!(wire.query("MOVE ALL FROM c").unwrap_err().code(), "57014");
    assert_eq!(wire.run("ROLLBACK").state, 'I');
    assert_eq!(wire.value("SELECT 1"), "1");
}

#[test]
fn explain_analyze_says_over_the_wire_what_a_statement_did() {
    let (_dir, server) = server();
    let (mut wire, mut other) = (server.connect(), server.connect());
    wire.run("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t SELECT n, 0 FROM generate_series(1, 100) n");
    let plan = |answer: super::support::Answer| {
        answer.rows.into_iter().map(|row| row[0].clone().unwrap()).collect::<Vec<_>>().join("\n")
    };
    for prepared in [false, true] {
        let mut run = |sql: &str| plan(if prepared { wire.prepared(sql, &[]).unwrap() } else { wire.run(sql) });
        let said = run("EXPLAIN ANALYZE SELECT * FROM t WHERE a <= 10");
        assert!(said.contains("Index Scan using t_pkey on t") && said.contains("rows=10 loops=1"), "{said}");
        assert!(said.contains("Execution Time: "), "{said}");
        let said = run("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT * FROM t WHERE a = 1 FOR UPDATE");
        assert!(said.contains("LockRows  (actual rows=1 loops=1)"), "{said}");
        let said = run("EXPLAIN (ANALYZE, BUFFERS, VERBOSE, SETTINGS, WAL, SUMMARY OFF) UPDATE t SET b = b + 1");
        assert!(said.contains("Update on t"), "{said}");
    }
    // It does what it explains.
    assert_eq!(wire.value("SELECT sum(b) FROM t"), "200");
    // With the lock, where there is a block to hold it for.
    wire.run("BEGIN; EXPLAIN ANALYZE SELECT * FROM t WHERE a = 1 FOR UPDATE");
    assert_eq!(other.query("SELECT * FROM t WHERE a = 1 FOR UPDATE NOWAIT").unwrap_err().code(), "55P03");
    wire.run("ROLLBACK");
    wire.run("BEGIN READ ONLY");
    assert_eq!(wire.query("EXPLAIN ANALYZE SELECT * FROM t FOR UPDATE").unwrap_err().code(), "25006");
    wire.run("ROLLBACK");
    assert_eq!(wire.query("EXPLAIN (ANALYSE) SELECT 1; EXPLAIN (NOPE) SELECT 1").unwrap_err().code(), "42601");
    // A plan as JSON, for programs.
    let said = plan(wire.run("EXPLAIN (FORMAT JSON, ANALYZE) SELECT count(*) FROM t WHERE b > 1"));
    assert!(said.starts_with("[\n  {\n    \"Plan\": {\n      \"Node Type\": \"Aggregate\","), "{said}");
}

#[test]
fn rows_of_what_changes_something_come_after_it_is_durable_and_in_full() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.run("CREATE TABLE t (a serial PRIMARY KEY, b text)");
    let answer = wire.run("INSERT INTO t (b) SELECT 'x' FROM generate_series(1, 20000) RETURNING a");
    assert_eq!((answer.rows.len(), &*answer.tags[0]), (20_000, "INSERT 0 20000"));
    let answer = wire.prepared("UPDATE t SET b = $1 WHERE a <= 3 RETURNING a, b", &["y"]).unwrap();
    assert_eq!(answer.rows.len(), 3);
}

#[test]
fn copy_takes_and_gives_rows_in_every_format() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.run("CREATE TABLE t (a int PRIMARY KEY, b text)");
    let copied = |wire: &mut super::support::Wire, sql: &str, data: &[u8], pieces: usize| {
        wire.put(b'Q', format!("{sql}\0").as_bytes()).flush();
        assert_eq!(wire.receive().unwrap().kind, b'G');
        for piece in data.chunks(pieces) {
            wire.put(b'd', piece);
        }
        wire.put(b'c', b"").flush().answer()
    };
    let answer = copied(&mut wire, "COPY t FROM STDIN", b"1\tone\n2\t\\N\n", 3).unwrap();
    assert_eq!(answer.tags, ["COPY 2"]);
    copied(&mut wire, "COPY t FROM STDIN (FORMAT csv)", b"3,\"a\nb\"\n", 1_000).unwrap();
    let given = |wire: &mut super::support::Wire, sql: &str| {
        wire.put(b'Q', format!("{sql}\0").as_bytes()).flush();
        assert_eq!(wire.receive().unwrap().kind, b'H');
        let mut pieces = Vec::new();
        loop {
            let Message { kind, body } = wire.receive().unwrap();
            match kind {
                b'd' => pieces.push(body),
                b'c' => break,
                other => panic!("{other}"),
            }
        }
        wire.answer().unwrap();
        pieces
    };
    // A row a message.
    assert_eq!(given(&mut wire, "COPY t TO STDOUT"), [&b"1\tone\n"[..], b"2\t\\N\n", b"3\ta\\nb\n"]);
    let binary = given(&mut wire, "COPY t TO STDOUT (FORMAT binary)");
    assert!(binary.len() == 4 && binary[0].starts_with(b"PGCOPY\n") && binary[3] == [0xff, 0xff]);
    wire.run("CREATE TABLE u (a int, b text)");
    copied(&mut wire, "COPY u FROM STDIN (FORMAT binary)", &binary.concat(), 7).unwrap();
    assert_eq!(wire.value("SELECT count(*) FROM u JOIN t ON u.a = t.a AND u.b IS NOT DISTINCT FROM t.b"), "3");
    // What fails leaves nothing, and what was sent behind it does no harm.
    let error = copied(&mut wire, "COPY t FROM STDIN", b"7\tx\nseven\tx\n8\tx\n", 1_000).unwrap_err();
    assert_eq!(error.code(), "22P02");
    wire.put(b'Q', b"COPY t FROM STDIN\0").put(b'd', b"9\tx\n").put(b'f', b"changed my mind\0").flush();
    let error = wire.answer().unwrap_err();
    assert!(error.code() == "57014" && error.message().contains("changed my mind"), "{error:?}");
    assert_eq!(wire.value("SELECT count(*) FROM t"), "3");
    // By the extended protocol, with the Sync before the data.
    wire.parse("", "COPY t FROM STDIN").bind("", "", &[]).execute("", 0).sync().put(b'd', b"9\tx\n").put(b'c', b"");
    let answer = wire.sync().flush().answer().unwrap();
    assert_eq!(answer.tags, ["COPY 1"]);
    let error = wire.put(b'Q', b"COPY t FROM STDIN\0").put(b'Q', b"SELECT 1\0").flush().answer().unwrap_err();
    assert_eq!(error.code(), "08P01");
}

#[test]
fn a_setting_is_the_same_whichever_way_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[("connections", "20"), ("tiny", "")]);
    let options = [("user", "postgres"), ("options", "-c colibri.priority=batch -c work_mem=8MB")];
    let mut wire = Wire::connect(server.address, &options).unwrap();
    let same = |wire: &mut Wire, name: &str, shown: &str, listed: &str, default: &str, source: &str| {
        assert_eq!(wire.value(&format!("SHOW {name}")), shown, "{name}");
        assert_eq!(wire.value(&format!("SELECT current_setting('{name}')")), shown, "{name}");
        let of = format!("concat_ws(' ', setting, reset_val, source) FROM pg_settings WHERE name = '{name}'");
        assert_eq!(wire.value(&format!("SELECT {of}")), format!("{listed} {default} {source}"), "{name}");
    };
    let (port, address) = (server.address.port().to_string(), server.address.to_string());
    let path = dir.path().display().to_string();
    for (name, value) in [
        ("max_connections", "20"),
        ("data_directory", &path),
        ("port", &port),
        ("ssl", "off"),
        ("listen_addresses", &address),
    ] {
        same(&mut wire, name, value, value, value, "command line");
    }
    same(&mut wire, "colibri.priority", "batch", "batch", "batch", "client");
    same(&mut wire, "work_mem", "8MB", "8192", "8192", "client");
    same(&mut wire, "row_security", "on", "on", "on", "default");
    wire.run("SET work_mem = '1GB'");
    same(&mut wire, "work_mem", "1GB", "1048576", "8192", "session");
    wire.run("RESET work_mem");
    same(&mut wire, "work_mem", "8MB", "8192", "8192", "client");
    same(&mut server.connect(), "work_mem", "4MB", "4096", "4096", "command line");
    assert_eq!(wire.put(b'Q', b"SET port = 1\0").flush().answer().unwrap_err().code(), "55P02");
    let types = "SELECT string_agg(vartype, ' ' ORDER BY name) FROM pg_settings WHERE name IN ('port', 'ssl', 'data_directory')";
    assert_eq!(wire.value(types), "string integer bool");
}

#[test]
fn what_a_server_has_not_is_refused_and_the_session_goes_on() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    let error = wire.put(b'F', &[0; 12]).flush().answer().unwrap_err();
    assert_eq!(error.code(), "0A000");
    let error = server.connect_as("postgres", "nope").err().unwrap();
    assert_eq!(error.code(), "3D000");
    let told = super::support::Wire::connect(server.address, &[("user", "postgres"), ("replication", "true")]);
    assert_eq!(told.err().unwrap().code(), "0A000");
    let told = super::support::Wire::connect(server.address, &[("user", "postgres"), ("no_such_thing", "1")]);
    assert_eq!(told.err().unwrap().code(), "42704");
    let options = [("user", "postgres"), ("options", "-c statement_timeout=7s"), ("TimeZone", "Europe/Berlin")];
    let mut other = super::support::Wire::connect(server.address, &options).unwrap();
    assert_eq!(other.value("SHOW statement_timeout"), "7s");
    assert_eq!(other.parameters["TimeZone"], "Europe/Berlin");
    assert_eq!(wire.value("SELECT 1"), "1");
    assert_eq!(row(b"\0\x01\0\0\0\x01x"), [Some("x".to_owned())]);
}

/// Bug: one clock was read when a statement began and the other when the first answer to it could
/// be known. Consequence: a pause between the two was added to `now()` of all that came with it.
/// Fix: both are read together.
#[test]
fn a_statement_began_when_it_was_its_turn_however_its_messages_come() {
    let (_dir, server) = server();
    let (mut wire, mut keeper) = (server.connect(), server.connect());
    keeper.run("CREATE TABLE gate (id int PRIMARY KEY); INSERT INTO gate VALUES (1)");
    let pause = || std::thread::sleep(Duration::from_millis(1_200));
    let soon = "SELECT clock_timestamp() - now() BETWEEN '0' AND '600 ms', clock_timestamp() - statement_timestamp() BETWEEN '0' AND '600 ms'";
    wire.parse("soon", soon).sync().flush().answer().unwrap();
    let is_soon = |answer: Answer| assert_eq!(answer.rows, [[Some("t".to_owned()), Some("t".to_owned())]]);

    // What follows an Execute says whether it is a transaction by itself.
    wire.parse("", "SELECT 1").bind("", "", &[]).execute("", 0).flush();
    pause();
    wire.sync().bind("", "soon", &[]).execute("", 0).sync().flush();
    wire.answer().unwrap();
    is_soon(wire.answer().unwrap());

    // Behind one that takes its time.
    keeper.run("BEGIN; SELECT id FROM gate FOR UPDATE");
    wire.parse("", "SELECT id FROM gate FOR UPDATE").bind("", "", &[]).execute("", 0).sync();
    wire.bind("", "soon", &[]).execute("", 0).sync().flush();
    pause();
    keeper.run("COMMIT");
    wire.answer().unwrap();
    is_soon(wire.answer().unwrap());
}

/// Binds to what has no parameters, and asks for rows in binary form.
fn bind_binary(wire: &mut Wire, statement: &str) {
    let mut body = format!("\0{statement}\0").into_bytes();
    body.extend_from_slice(&[0, 0, 0, 0, 0, 1, 0, 1]);
    wire.put(b'B', &body);
}

#[test]
fn prepared_statements_give_labels_that_were_added_since() {
    let (_dir, server) = server();
    let (mut one, mut two) = (server.connect(), server.connect());
    one.run("CREATE TYPE m AS ENUM ('a', 'c'); CREATE TABLE t (x m); INSERT INTO t VALUES ('a')");
    one.parse("s", "SELECT x FROM t ORDER BY x").sync().flush().answer().unwrap();
    let both = |one: &mut Wire| {
        let text = one.bind("", "s", &[]).execute("", 0).sync().flush().answer().unwrap().rows;
        bind_binary(one, "s");
        assert_eq!(one.execute("", 0).sync().flush().answer().unwrap().rows, text);
        text.into_iter().map(|row| row[0].clone().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(both(&mut one), ["a"]);
    two.run("ALTER TYPE m ADD VALUE 'b' BEFORE 'c'; INSERT INTO t VALUES ('b'), ('c')");
    assert_eq!(both(&mut one), ["a", "b", "c"]);
    two.run("ALTER TYPE m RENAME VALUE 'b' TO 'bee'");
    assert_eq!(both(&mut one), ["a", "bee", "c"]);
    // Row by row, and by the statements of SQL.
    one.run("BEGIN");
    one.bind("p", "s", &[]).execute("p", 1).sync().flush().answer().unwrap();
    one.run("ALTER TYPE m RENAME VALUE 'bee' TO 'be'");
    let rest = one.execute("p", 0).sync().flush().answer().unwrap().rows;
    assert_eq!(rest, [[Some("be".to_owned())], [Some("c".to_owned())]]);
    one.run("COMMIT; PREPARE q AS SELECT max(x) FROM t");
    two.run("ALTER TYPE m ADD VALUE 'd'; INSERT INTO t VALUES ('d')");
    assert_eq!(one.value("EXECUTE q"), "d");
}

#[test]
fn parameters_may_have_types_that_another_session_has_just_made() {
    let (_dir, server) = server();
    let (mut one, mut two) = (server.connect(), server.connect());
    assert_eq!(one.value("SELECT 1"), "1");
    two.run("CREATE TYPE m AS ENUM ('a', 'b')");
    let number: u32 = two.value("SELECT 'm'::regtype::oid").parse().unwrap();
    let mut body = b"\0SELECT $1\0\0\x01".to_vec();
    body.extend_from_slice(&number.to_be_bytes());
    one.put(b'P', &body);
    assert_eq!(one.bind("", "", &["b"]).execute("", 0).sync().flush().answer().unwrap().rows, [[Some("b".to_owned())]]);
}

/// Bug: a client that knows a domain sends lists of its values as such, and they were refused.
/// Consequence: pgx could not send a composite value with a list of a domain. Fix: the domain's number
/// stands for its type.
#[test]
fn lists_of_a_domain_come_in_binary_by_the_domains_number() {
    let (_dir, server) = server();
    let mut wire = server.connect();
    wire.run("CREATE DOMAIN positive AS int CHECK (VALUE > 0)");
    wire.run("CREATE TYPE kind AS ENUM ('a')");
    let number = |wire: &mut Wire, name: &str| -> u32 {
        wire.value(&format!("SELECT oid FROM pg_type WHERE typname = '{name}'")).parse().unwrap()
    };
    let (domain, kind) = (number(&mut wire, "positive"), number(&mut wire, "kind"));
    let mut sent = |element: u32, value: i32, ty: &str| {
        wire.parse("", &format!("SELECT ($1::{ty})[1]"));
        let list = [1, 0, element as i32, 1, 1, 4, value].map(i32::to_be_bytes).concat();
        let mut bind = b"\0\0\0\x01\0\x01\0\x01".to_vec();
        bind.extend_from_slice(&(list.len() as i32).to_be_bytes());
        bind.extend_from_slice(&list);
        bind.extend_from_slice(&[0, 0]);
        wire.put(b'B', &bind).execute("", 0).sync().flush();
        wire.answer().map(|answer| answer.rows[0][0].clone().unwrap()).map_err(|told| told.code().to_owned())
    };
    assert_eq!(sent(domain, 7, "positive[]"), Ok("7".to_owned()));
    assert_eq!(sent(23, 7, "positive[]"), Ok("7".to_owned()));
    assert_eq!(sent(domain, -7, "positive[]"), Err("23514".to_owned()));
    assert_eq!(sent(25, 0x6161_6161, "positive[]"), Err("42804".to_owned()));
    assert_eq!(sent(domain, 7, "kind[]"), Err("22P03".to_owned()));
    assert_eq!(sent(kind, 0x6100_0000, "kind[]").unwrap_err(), "22021");
}

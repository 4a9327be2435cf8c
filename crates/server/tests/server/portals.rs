//! Portals as others see them: what a failed block leaves of them, what is only known by name, what
//! they have been bound for and not run; and what statements between two Syncs are told that no
//! block is around them.

use super::support::{Server, Wire};

fn server() -> (tempfile::TempDir, Server, Wire) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut wire = server.connect();
    wire.run(
        "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t SELECT n, 'r' || n FROM generate_series(1, 6) n",
    );
    (dir, server, wire)
}

/// The kinds of the messages up to the next Sync's answer, notices and errors with their codes.
fn said(wire: &mut Wire) -> String {
    wire.sync().flush();
    let mut said = String::new();
    loop {
        let message = wire.receive().unwrap();
        said.push(char::from(message.kind));
        if matches!(message.kind, b'E' | b'N') {
            let mut fields = message.body.split(|&byte| byte == 0).filter(|field| field.first() == Some(&b'C'));
            said.push_str(&String::from_utf8_lossy(&fields.next().unwrap()[1..]));
            said.push(' ');
        }
        if message.kind == b'Z' {
            return said;
        }
    }
}

#[test]
fn the_row_that_a_portal_is_on_can_be_changed() {
    let (_dir, _server, mut wire) = server();
    for text in ["SELECT b FROM t WHERE a > $1 ORDER BY a", "SELECT b FROM t WHERE a > $1 ORDER BY a FOR UPDATE"] {
        wire.run("BEGIN");
        wire.parse("s", text).bind("p", "s", &["1"]).execute("p", 2);
        assert_eq!(said(&mut wire), "12DDsZ");
        assert_eq!(wire.run("DELETE FROM t WHERE CURRENT OF p RETURNING a").rows, [[Some("3".to_owned())]]);
        wire.parse("u", "UPDATE t SET b = $1 WHERE CURRENT OF p RETURNING a");
        wire.execute("p", 1).bind("", "u", &["changed"]).execute("", 0);
        assert_eq!(said(&mut wire), "1Ds2DCZ");
        assert_eq!(wire.value("SELECT a FROM t WHERE b = 'changed'"), "4");
        wire.run("MOVE ALL FROM p");
        assert_eq!(wire.query("DELETE FROM t WHERE CURRENT OF p").unwrap_err().code(), "24000");
        wire.run("ROLLBACK; DEALLOCATE ALL");
    }
    wire.run("BEGIN");
    wire.parse("i", "INSERT INTO t VALUES (9) RETURNING a").bind("p", "i", &[]).execute("p", 0);
    assert_eq!(said(&mut wire), "12DCZ");
    assert_eq!(wire.query("DELETE FROM t WHERE CURRENT OF p").unwrap_err().code(), "24000");
}

/// Bug: statements of a pipeline were taken for statements in a block. Consequence: DECLARE, whose
/// cursor the next Sync ends, and SET LOCAL, which has no effect behind it, went through without a
/// word. Fix: they get the error that there is none.
#[test]
fn statements_between_two_syncs_are_in_no_block() {
    let (_dir, _server, mut wire) = server();
    let run = |wire: &mut Wire, text: &str| {
        // Something else follows, so that it is not a transaction by itself.
        wire.parse("", text).bind("", "", &[]).execute("", 0).parse("", "SELECT 1").bind("", "", &[]).execute("", 0);
        said(wire)
    };
    assert_eq!(run(&mut wire, "DECLARE c CURSOR FOR SELECT 1"), "12E25P01 Z");
    assert_eq!(run(&mut wire, "LOCK TABLE t"), "12E25P01 Z");
    assert_eq!(run(&mut wire, "SET LOCAL application_name = 'x'"), "12N25P01 C12DCZ");
    assert_eq!(run(&mut wire, "SET TRANSACTION READ ONLY"), "12N25P01 C12DCZ");
    assert_eq!(run(&mut wire, "DECLARE c CURSOR WITH HOLD FOR SELECT 1"), "12C12DCZ");
    assert_eq!(wire.value("FETCH c"), "1");
    // Several statements of one message are a block.
    assert_eq!(wire.run("DECLARE d CURSOR FOR SELECT 1; FETCH d").tags, ["DECLARE CURSOR", "FETCH 1"]);
}

#[test]
fn a_failed_block_keeps_the_names_of_its_portals_until_it_ends() {
    let (_dir, _server, mut wire) = server();
    wire.run("BEGIN");
    wire.parse("b", "SHOW application_name").parse("c", "COMMIT").bind("p", "b", &[]).execute("nowhere", 0);
    assert_eq!(said(&mut wire), "112E34000 Z");
    wire.execute("p", 0);
    assert_eq!(said(&mut wire), "E25P02 Z");
    wire.bind("p", "c", &[]);
    assert_eq!(said(&mut wire), "E42P03 Z");
    wire.parse("", " -- nothing").bind("", "", &[]);
    assert_eq!(said(&mut wire), "1E25P02 Z");
    wire.bind("q", "c", &[]).execute("q", 0);
    assert_eq!(said(&mut wire), "2CZ");
    wire.execute("p", 0);
    assert_eq!(said(&mut wire), "E34000 Z");
    // Another block follows at once, and has none of them.
    wire.run("BEGIN");
    wire.bind("p", "b", &[]).parse("", "COMMIT AND CHAIN").bind("", "", &[]).execute("", 0).execute("p", 0);
    assert_eq!(said(&mut wire), "212CE34000 Z");
}

#[test]
fn portals_of_statements_that_give_no_rows_are_closed_by_name() {
    let (_dir, _server, mut wire) = server();
    wire.run("BEGIN");
    wire.parse("s", "SET application_name = 'x'").bind("p", "s", &[]).execute("p", 0).bind("q", "s", &[]);
    // The setting is reported, too.
    assert_eq!(said(&mut wire), "12C2SZ");
    assert_eq!(wire.value("SELECT count(*) FROM pg_cursors WHERE name IN ('p', 'q')"), "2");
    assert_eq!(wire.run("CLOSE p").tags, ["CLOSE CURSOR"]);
    wire.run("SAVEPOINT here");
    wire.execute("p", 0);
    assert_eq!(said(&mut wire), "E34000 Z");
    wire.run("ROLLBACK TO here");
    wire.parse("", "CLOSE own").bind("own", "", &[]).execute("own", 0);
    assert_eq!(said(&mut wire), "12E24000 Z");
}

/// Bug: a portal that was bound, and not executed, ran when another statement followed.
/// Consequence: sequences moved on and locks were released by statements that were not run. Fix:
/// what has effects waits until it is asked for rows.
#[test]
fn what_is_bound_and_not_executed_has_no_effects() {
    let (_dir, _server, mut wire) = server();
    wire.run("CREATE SEQUENCE s");
    wire.parse("n", "SELECT nextval('s')").parse("i", "INSERT INTO t VALUES (100)");
    wire.bind("p", "n", &[]).bind("", "i", &[]).execute("", 0);
    assert_eq!(said(&mut wire), "1122CZ");
    assert_eq!(wire.value("SELECT nextval('s')"), "1");
}

#[test]
fn what_is_said_comes_in_front_of_the_rows_and_errors_of_what_writes_in_front_of_their_description() {
    let (_dir, _server, mut wire) = server();
    wire.parse("", "SELECT pg_advisory_unlock(5)").bind("", "", &[]).execute("", 0);
    assert_eq!(said(&mut wire), "12N01000 DCZ");
    wire.put(b'Q', b"INSERT INTO t VALUES (1) RETURNING a\0");
    wire.flush();
    assert_eq!(wire.receive().unwrap().kind, b'E');
    assert_eq!(wire.receive().unwrap().kind, b'Z');
    wire.put(b'Q', b"INSERT INTO t VALUES (77) RETURNING a\0");
    wire.flush();
    let kinds: Vec<u8> = (0..4).map(|_| wire.receive().unwrap().kind).collect();
    assert_eq!(kinds, b"TDCZ");
}

/// Bug: what a failed statement of a message Query left behind was refused as anything else in a
/// failed block; CLOSE ALL left the unnamed portal, if it had given all of its rows. Consequence:
/// other codes than PostgreSQL's. Fix: it is asked whether it could have run there, and CLOSE ALL
/// ends all but itself.
#[test]
fn what_a_failed_query_left_cannot_be_run_and_close_all_ends_the_unnamed_portal() {
    let (_dir, _server, mut wire) = server();
    for (text, code) in [("ROLLBACK TO nosuch", "55000"), ("SELECT 1/0", "25P02")] {
        wire.run("BEGIN");
        assert!(wire.query(text).is_err());
        wire.execute("", 0);
        assert_eq!(said(&mut wire), format!("E{code} Z"), "{text}");
        wire.run("ROLLBACK");
    }
    wire.parse("", "SELECT 1").bind("", "", &[]).execute("", 0);
    wire.parse("c", "CLOSE ALL").bind("p", "c", &[]).execute("p", 0).execute("", 0);
    assert_eq!(said(&mut wire), "12DC12CE34000 Z");
    // Nothing can be done in a failed block, too.
    wire.run("BEGIN");
    wire.parse("e", "").bind("p", "e", &[]);
    assert_eq!(said(&mut wire), "12Z");
    assert!(wire.query("SELECT 1/0").is_err());
    wire.execute("p", 0);
    assert_eq!(said(&mut wire), "IZ");
}

/// Bug: EXECUTE counted as a statement that writes. Consequence: a transaction that only reads
/// refused prepared queries. Fix: what counts is the statement that it runs.
#[test]
fn prepared_queries_run_in_transactions_that_only_read() {
    let (_dir, _server, mut wire) = server();
    wire.run("PREPARE q AS SELECT count(*) FROM t; PREPARE w AS DELETE FROM t; BEGIN READ ONLY");
    assert_eq!(wire.value("EXECUTE q"), "6");
    assert_eq!(wire.query("EXECUTE w").unwrap_err().code(), "25006");
    wire.run("ROLLBACK");
}

/// Bug: FETCH took rows from portals of statements with plans only. Consequence: drivers that bind
/// SHOW, EXPLAIN, EXECUTE or FETCH under a name could not read it piece by piece from SQL. Fix:
/// what has no plan runs to its end when it is first asked for rows, and these are given as a
/// cursor's are.
#[test]
fn rows_are_fetched_from_portals_of_show_explain_execute_and_fetch() {
    let (_dir, _server, mut wire) = server();
    wire.run("PREPARE q AS SELECT n FROM generate_series(1, 3) n");
    wire.parse("x", "EXECUTE q").parse("s", "SHOW search_path").parse("e", "EXPLAIN (COSTS OFF) SELECT 1");
    assert_eq!(said(&mut wire), "111Z");
    wire.run("BEGIN");
    wire.bind("p", "x", &[]).execute("p", 1);
    assert_eq!(said(&mut wire), "2DsZ");
    assert_eq!(wire.value("FETCH p"), "2");
    assert_eq!(wire.value("SELECT statement FROM pg_cursors"), "EXECUTE q");
    assert_eq!(wire.run("MOVE 1 FROM p").tags, ["MOVE 1"]);
    assert_eq!(wire.run("FETCH p").tags, ["FETCH 0"]);
    assert_eq!(wire.query("MOVE BACKWARD 1 FROM p").unwrap_err().code(), "55000");
    wire.run("ROLLBACK; BEGIN");
    wire.bind("p", "x", &[]).execute("p", 2).execute("p", 0).execute("p", 0);
    assert_eq!(said(&mut wire), "2DDsDCCZ");
    assert_eq!(wire.run("FETCH p").tags, ["FETCH 0"]);
    wire.bind("ps", "s", &[]).bind("pe", "e", &[]);
    assert_eq!(said(&mut wire), "22Z");
    assert_eq!(wire.value("FETCH ps"), "\"$user\", public");
    assert_eq!(wire.run("FETCH ps").tags, ["FETCH 0"]);
    assert_eq!(wire.value("FETCH ALL FROM pe"), "Result");
    wire.run("DECLARE c CURSOR FOR SELECT n FROM generate_series(1, 3) n");
    wire.parse("f", "FETCH 2 FROM c").bind("pf", "f", &[]);
    assert_eq!(said(&mut wire), "12Z");
    assert_eq!(wire.value("FETCH pf"), "1");
    assert_eq!(wire.value("FETCH c"), "3");
    assert_eq!(wire.value("FETCH ALL FROM pf"), "2");
    wire.run("ROLLBACK");
    for text in ["COPY t TO STDOUT", "INSERT INTO t VALUES (50)", "BEGIN", "DECLARE d CURSOR FOR SELECT 1"] {
        wire.run("BEGIN");
        wire.parse("", text).bind("p", "", &[]);
        assert_eq!(said(&mut wire), "12Z", "{text}");
        assert_eq!(wire.query("FETCH p").unwrap_err().code(), "XX000", "{text}");
        wire.run("ROLLBACK");
    }
}

/// Bug: what constants fail with was told when the statement ran. Consequence: rows were described
/// that could not come, and a portal was made that could not run. Fix: it is told where PostgreSQL
/// plans.
#[test]
fn constants_fail_when_a_portal_is_made_and_before_rows_are_described() {
    let (_dir, _server, mut wire) = server();
    wire.parse("", "SELECT 1/0").bind("", "", &[]).execute("", 0);
    assert_eq!(said(&mut wire), "1E22012 Z");
    wire.put(b'Q', b"SELECT 1/0\0");
    wire.flush();
    assert_eq!(wire.receive().unwrap().kind, b'E');
    assert_eq!(wire.receive().unwrap().kind, b'Z');
    wire.run("BEGIN");
    assert_eq!(wire.query("DECLARE c CURSOR FOR SELECT 1/0").unwrap_err().code(), "22012");
}

#[test]
fn planning_is_under_the_limit_of_a_statement() {
    let (_dir, _server, mut wire) = server();
    wire.run("SET statement_timeout = 1");
    let text = format!("SELECT {}", vec!["a"; 20_000].join(" + ") + " FROM t");
    wire.parse("", &text);
    assert_eq!(said(&mut wire), "E57014 Z");
}

/// A FETCH from the portal of a FETCH, and so on, has to end somewhere.
#[test]
fn portals_that_fetch_from_each_other_do_not_overflow_the_stack() {
    let (_dir, _server, mut wire) = server();
    wire.run("BEGIN; DECLARE p0 CURSOR FOR SELECT n FROM generate_series(1, 3) n");
    for level in 0..2_000 {
        wire.parse("", &format!("FETCH ALL FROM p{level}")).bind(&format!("p{}", level + 1), "", &[]);
        assert_eq!(said(&mut wire), "12Z");
    }
    assert_eq!(wire.value("FETCH p10"), "1");
    assert_eq!(wire.query("FETCH p2000").unwrap_err().code(), "54001");
}

//! What cursors give, and what they refuse.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::session::Engine;

fn session(rows: u32) -> (tempfile::TempDir, Arc<Engine>, Session) {
    let dir = tempfile::tempdir().unwrap();
    let database = colibri_storage::Database::open(dir.path(), &colibri_storage::Options::new()).unwrap();
    let engine = Engine::open(database).unwrap();
    let mut session = Session::new(&engine, "me");
    session.run("CREATE TABLE t (a int PRIMARY KEY)").unwrap();
    session.run(&format!("INSERT INTO t SELECT * FROM generate_series(1, {rows})")).unwrap();
    (dir, engine, session)
}

/// What a statement gives, as text: its rows and its tag.
fn said(session: &mut Session, sql: &str) -> String {
    let answer = match session.run(sql) {
        Ok(mut answers) => answers.pop().unwrap(),
        Err(error) => return error.state().0.to_owned(),
    };
    let rows = answer.text_rows(session);
    let mut values: Vec<String> = rows.into_iter().map(|mut row| row.remove(0).unwrap_or_default()).collect();
    values.push(answer.tag.into());
    values.join(" ")
}

fn check(session: &mut Session, cases: &[(&str, &str)]) {
    for (sql, expected) in cases {
        assert_eq!(said(session, sql), *expected, "{sql}");
    }
}

#[test]
fn a_cursor_gives_rows_forward_as_they_are_asked_for() {
    let (_dir, _engine, mut session) = session(5);
    check(
        &mut session,
        &[
            ("DECLARE c CURSOR FOR SELECT a FROM t", "25P01"),
            ("FETCH c", "34000"),
            ("BEGIN", "BEGIN"),
            ("DECLARE c NO SCROLL CURSOR FOR SELECT a FROM t ORDER BY a", "DECLARE CURSOR"),
            ("FETCH c", "1 FETCH 1"),
            ("FETCH NEXT FROM c", "2 FETCH 1"),
            (
                "SELECT name || statement FROM pg_cursors",
                "cDECLARE c NO SCROLL CURSOR FOR SELECT a FROM t ORDER BY a SELECT 1",
            ),
            ("MOVE 1 IN c", "MOVE 1"),
            ("FETCH FORWARD 1 FROM c", "4 FETCH 1"),
            ("FETCH ALL FROM c", "5 FETCH 1"),
            ("FETCH c", "FETCH 0"),
            ("MOVE FORWARD ALL IN c", "MOVE 0"),
            ("CLOSE c", "CLOSE CURSOR"),
            ("DECLARE c CURSOR FOR VALUES (1), (2)", "DECLARE CURSOR"),
            ("FETCH ABSOLUTE 2 FROM c", "2 FETCH 1"),
            ("CLOSE ALL", "CLOSE CURSOR ALL"),
            ("SELECT name FROM pg_cursors", "SELECT 0"),
            ("DECLARE c CURSOR FOR SELECT 1", "DECLARE CURSOR"),
            ("COMMIT", "COMMIT"),
            ("BEGIN", "BEGIN"),
            ("FETCH c", "34000"),
            ("ROLLBACK", "ROLLBACK"),
            ("BEGIN", "BEGIN"),
            ("DECLARE c CURSOR FOR SELECT a FROM t", "DECLARE CURSOR"),
            ("DECLARE c CURSOR FOR SELECT a FROM t", "42P03"),
            ("ROLLBACK", "ROLLBACK"),
            ("BEGIN", "BEGIN"),
            ("DECLARE c CURSOR FOR SELECT count(*) FROM t", "DECLARE CURSOR"),
            ("FETCH BACKWARD 1 FROM c", "55000"),
            ("ROLLBACK", "ROLLBACK"),
            ("BEGIN", "BEGIN"),
            ("DECLARE c CURSOR FOR DELETE FROM t", "42601"),
            ("ROLLBACK", "ROLLBACK"),
        ],
    );
}

#[test]
fn a_scrolling_cursor_goes_both_ways() {
    let (_dir, _engine, mut session) = session(4);
    check(
        &mut session,
        &[
            ("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT a FROM t ORDER BY a", "DECLARE CURSOR"),
            ("FETCH PRIOR FROM c", "FETCH 0"),
            ("FETCH 2 FROM c", "1 2 FETCH 2"),
            ("FETCH RELATIVE 0 FROM c", "2 FETCH 1"),
            ("FETCH PRIOR FROM c", "1 FETCH 1"),
            ("FETCH LAST FROM c", "4 FETCH 1"),
            ("FETCH c", "FETCH 0"),
            ("FETCH BACKWARD 2 FROM c", "4 3 FETCH 2"),
            ("FETCH FIRST FROM c", "1 FETCH 1"),
            ("FETCH ABSOLUTE -2 FROM c", "3 FETCH 1"),
            ("FETCH RELATIVE -1 FROM c", "2 FETCH 1"),
            ("FETCH BACKWARD ALL FROM c", "1 FETCH 1"),
            ("FETCH ABSOLUTE 9 FROM c", "FETCH 0"),
            ("FETCH -1 FROM c", "4 FETCH 1"),
            ("FETCH ABSOLUTE -9 FROM c", "FETCH 0"),
            ("FETCH NEXT c", "1 FETCH 1"),
            ("COMMIT", "COMMIT"),
        ],
    );
}

#[test]
fn a_cursor_reads_no_further_than_it_is_fetched() {
    let (_dir, _engine, mut session) = session(1);
    session.run("BEGIN; DECLARE c CURSOR FOR SELECT g FROM generate_series(1, 1000000000000) AS g").unwrap();
    check(&mut session, &[("FETCH 3 FROM c", "1 2 3 FETCH 3"), ("FETCH c", "4 FETCH 1")]);
    assert!(session.cursors["c"].rows.len() <= 4_096, "a batch of rows at the most");
    // The query would run for very long.
    session.run("CLOSE c; COMMIT").unwrap();
}

#[test]
fn a_cursor_sees_nothing_that_its_transaction_writes_later() {
    let (_dir, engine, mut session) = session(3_000);
    for level in ["SERIALIZABLE", "READ COMMITTED"] {
        session
            .run(&format!("BEGIN ISOLATION LEVEL {level}; DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a"))
            .unwrap();
        session.run("DECLARE d CURSOR FOR SELECT count(*) FROM t").unwrap();
        check(&mut session, &[("FETCH 2 FROM c", "1 2 FETCH 2")]);
        session.run("DELETE FROM t WHERE a > 5; INSERT INTO t VALUES (10000)").unwrap();
        check(
            &mut session,
            &[
                ("MOVE 2000 IN c", "MOVE 2000"),
                ("FETCH 1 FROM c", "2003 FETCH 1"),
                ("MOVE ALL IN c", "MOVE 997"),
                ("FETCH d", "3000 FETCH 1"),
                ("SELECT count(*) FROM t", "6 SELECT 1"),
                ("ROLLBACK", "ROLLBACK"),
            ],
        );
    }
    let mut other = Session::new(&engine, "other");
    session.run("BEGIN ISOLATION LEVEL READ COMMITTED; DECLARE c CURSOR FOR SELECT count(*) FROM t; SELECT 1").unwrap();
    other.run("DELETE FROM t WHERE a = 1").unwrap();
    check(
        &mut session,
        &[("SELECT count(*) FROM t", "2999 SELECT 1"), ("FETCH c", "3000 FETCH 1"), ("ROLLBACK", "ROLLBACK")],
    );
}

#[test]
fn cursors_end_with_the_savepoint_that_they_are_younger_than() {
    let (_dir, _engine, mut session) = session(3);
    check(
        &mut session,
        &[
            (
                "BEGIN; DECLARE old CURSOR FOR SELECT a FROM t; SAVEPOINT s; DECLARE young CURSOR FOR SELECT a FROM t",
                "DECLARE CURSOR",
            ),
            ("INSERT INTO t VALUES (9)", "INSERT 0 1"),
            ("FETCH young", "1 FETCH 1"),
            ("SELECT 1/0", "22012"),
            ("FETCH old", "25P02"),
            ("ROLLBACK TO s", "ROLLBACK"),
            ("FETCH ALL FROM old", "1 2 3 FETCH 3"),
            ("FETCH young", "34000"),
            ("ROLLBACK", "ROLLBACK"),
        ],
    );
    // A query that fails half way takes back nothing that was done meanwhile.
    check(
        &mut session,
        &[
            (
                "BEGIN; INSERT INTO t VALUES (10); DECLARE c CURSOR FOR SELECT 1 / (a - 3) FROM t WHERE a < 4",
                "DECLARE CURSOR",
            ),
            ("SAVEPOINT s", "SAVEPOINT"),
            ("FETCH ALL FROM c", "22012"),
            ("ROLLBACK TO s", "ROLLBACK"),
            ("FETCH c", "55000"),
            ("ROLLBACK TO s", "ROLLBACK"),
            ("SELECT count(*) FROM t", "4 SELECT 1"),
            ("ROLLBACK", "ROLLBACK"),
        ],
    );
}

/// Bug: the rows of a cursor that had to be kept (to go back, or since the transaction wrote
/// something) failed with 53200 beyond `work_mem`. Consequence: programs that walk a large result
/// could not run. Fix: they go to disk.
#[test]
fn rows_that_have_to_be_kept_go_to_disk() {
    let (_dir, engine, mut session) = session(10);
    session.run("SET work_mem = '1MB'").unwrap();
    let query = "SELECT i, repeat('x', 1000) FROM generate_series(1, 10000) i";
    let open = || engine.temp_files().open;
    for declare in ["DECLARE c SCROLL CURSOR FOR", "DECLARE c CURSOR WITH HOLD FOR", "DECLARE c CURSOR FOR"] {
        session.run("BEGIN").unwrap();
        session.run(&format!("{declare} {query}")).unwrap();
        assert_eq!(session.run("FETCH 3 FROM c").unwrap()[0].rows.len(), 3);
        session.run("DELETE FROM t WHERE a < 0").unwrap();
        assert_eq!(open(), 1, "{declare}");
        if declare.contains("HOLD") {
            session.run("COMMIT").unwrap();
            assert_eq!(open(), 1);
        }
        session.run("MOVE FORWARD 9995 FROM c").unwrap();
        check(
            &mut session,
            &[("SELECT count(*) FROM t", "10 SELECT 1"), ("MOVE c", "MOVE 1"), ("MOVE FORWARD ALL FROM c", "MOVE 1")],
        );
        if !declare.contains("c CURSOR FOR") {
            let rows = session.run("FETCH BACKWARD ALL FROM c").unwrap().remove(0).rows;
            let numbers: Vec<_> = rows.iter().map(|row| row[0].clone()).collect();
            assert_eq!(numbers, (1..=10_000).rev().map(Datum::Int).collect::<Vec<_>>());
        }
        session.run(if declare.contains("HOLD") { "CLOSE c" } else { "ROLLBACK" }).unwrap();
        assert_eq!((open(), session.memory.kept()), (0, 0), "{declare}");
    }
}

/// Bug: `UPDATE … WHERE CURRENT OF c` was a syntax error. Consequence: programs that walk a cursor
/// and change its rows could not run. Fix: a cursor's rows come with the keys of its table's rows.
#[test]
fn the_row_that_a_cursor_is_on_can_be_changed() {
    let (_dir, _engine, mut session) = session(2_500);
    for lock in ["", " FOR UPDATE"] {
        session.run("BEGIN").unwrap();
        let declare = format!("DECLARE c CURSOR FOR SELECT a FROM t WHERE a > 5 ORDER BY a{lock}");
        check(
            &mut session,
            &[
                (&declare, "DECLARE CURSOR"),
                ("SAVEPOINT s", "SAVEPOINT"),
                ("DELETE FROM t WHERE CURRENT OF c", "24000"),
                ("ROLLBACK TO s", "ROLLBACK"),
                ("DELETE FROM t WHERE CURRENT OF d", "34000"),
                ("ROLLBACK TO s", "ROLLBACK"),
                ("FETCH 2 FROM c", "6 7 FETCH 2"),
                ("DELETE FROM t WHERE CURRENT OF c RETURNING a", "7 DELETE 1"),
                ("DELETE FROM t WHERE CURRENT OF c", "DELETE 0"),
                // A position far beyond the first batch.
                ("MOVE 2000 FROM c", "MOVE 2000"),
                ("UPDATE t SET a = -a WHERE CURRENT OF c RETURNING a", "-2007 UPDATE 1"),
                ("MOVE ALL FROM c", "MOVE 493"),
                ("DELETE FROM t WHERE CURRENT OF c", "24000"),
                ("ROLLBACK", "ROLLBACK"),
            ],
        );
    }
}

#[test]
fn a_cursor_with_hold_outlives_its_block_and_sees_what_that_saw() {
    let (_dir, engine, mut session) = session(3_000);
    let mut other = Session::new(&engine, "other");
    check(
        &mut session,
        &[
            ("DECLARE alone CURSOR WITH HOLD FOR SELECT a FROM t ORDER BY a", "DECLARE CURSOR"),
            ("BEGIN; DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT a FROM t ORDER BY a", "DECLARE CURSOR"),
            ("FETCH 2 FROM c", "1 2 FETCH 2"),
            ("COMMIT", "COMMIT"),
        ],
    );
    other.run("DELETE FROM t WHERE a > 2").unwrap();
    other.run("ALTER TABLE t ADD COLUMN b text").unwrap();
    other.run("DROP TABLE t").unwrap();
    check(
        &mut session,
        &[
            ("FETCH c", "3 FETCH 1"),
            ("BEGIN", "BEGIN"),
            ("FETCH alone", "1 FETCH 1"),
            ("SELECT 1/0", "22012"),
            ("ROLLBACK", "ROLLBACK"),
            ("MOVE ALL FROM c", "MOVE 2997"),
            ("FETCH LAST FROM alone", "3000 FETCH 1"),
            ("SELECT count(*) FROM pg_cursors WHERE is_holdable", "2 SELECT 1"),
            ("CLOSE alone", "CLOSE CURSOR"),
            ("DISCARD ALL", "DISCARD ALL"),
            ("FETCH c", "34000"),
        ],
    );
}

#[test]
fn a_cursor_with_hold_that_cannot_be_read_to_its_end_fails_the_commit() {
    let (_dir, _engine, mut session) = session(3);
    check(
        &mut session,
        &[
            ("BEGIN; INSERT INTO t VALUES (100)", "INSERT 0 1"),
            ("DECLARE c CURSOR WITH HOLD FOR SELECT 1 / (a - 3) FROM t", "DECLARE CURSOR"),
            ("COMMIT", "22012"),
            ("SELECT count(*) FROM t", "3 SELECT 1"),
            ("FETCH c", "34000"),
            ("DECLARE c CURSOR WITH HOLD FOR SELECT 1 / (a - 3) FROM t", "22012"),
            ("FETCH c", "34000"),
        ],
    );
    session.run("SET work_mem = '1MB'; SET temp_file_limit = '2MB'").unwrap();
    let declare = "DECLARE c CURSOR WITH HOLD FOR SELECT repeat('x', 1000) FROM generate_series(1, 10000)";
    check(&mut session, &[(declare, "53400"), ("FETCH c", "34000")]);
}

#[test]
fn a_bound_query_with_effects_has_none_before_it_is_asked_for_rows() {
    let (_dir, _engine, mut session) = session(3);
    session.run("CREATE SEQUENCE s; BEGIN").unwrap();
    let prepared = session.prepare("SELECT nextval('s')", &[]).unwrap();
    session.open_portal("p", &prepared, Some(Vec::new())).unwrap();
    session.run("DELETE FROM t").unwrap();
    check(&mut session, &[("SELECT nextval('s')", "1 SELECT 1"), ("FETCH p", "2 FETCH 1"), ("COMMIT", "COMMIT")]);
}

#[test]
fn directions_are_read_as_postgresql_reads_them() {
    use crate::statement::parse;
    let goal = |text: &str| match parse(text).unwrap().pop() {
        Some(Statement::Fetch(fetch)) => (fetch.goal, fetch.name.to_string()),
        other => panic!("{text}: {other:?}"),
    };
    let c = || "c".to_owned();
    assert_eq!(goal("FETCH c"), (Goal::Forward(1), c()));
    assert_eq!(goal("FETCH next"), (Goal::Forward(1), "next".to_owned()));
    assert_eq!(goal("FETCH FROM c;"), (Goal::Forward(1), c()));
    assert_eq!(goal("fetch forward all in \"C d\""), (Goal::Forward(u64::MAX), "C d".to_owned()));
    assert_eq!(goal("FETCH -3 c"), (Goal::Backward(3), c()));
    assert_eq!(goal("MOVE BACKWARD -3 FROM c"), (Goal::Forward(3), c()));
    assert_eq!(goal("FETCH RELATIVE +2 c"), (Goal::Relative(2), c()));
    for wrong in
        ["FETCH", "FETCH 1", "FETCH ABSOLUTE c", "CLOSE", "CLOSE a b", "DECLARE c FOR SELECT 1", "FETCH 99999999999 c"]
    {
        assert_eq!(parse(wrong).unwrap_err().state().0, "42601", "{wrong}");
    }
    let text = "/* x */ DECLARE c BINARY CURSOR FOR SELECT 'ä'";
    let Some(Statement::Declare(declare)) = parse(text).unwrap().pop() else { panic!() };
    assert_eq!((declare.binary, declare.scroll), (true, None));
    assert_eq!(&text[declare.query.bytes.clone()], "SELECT 'ä'");
}

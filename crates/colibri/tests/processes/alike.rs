//! What is asked in another process is answered as in this one.

use std::io::Write as _;
use std::time::{Duration, Instant};

use colibri::sql::{AsyncConnection, Connection, CopyDirection, Database, Error, Next, Numeric, Value};

use super::child::Process;

/// Statements that make what the questions are about.
const SETUP: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TYPE pair AS (a int, m mood, t text);
    CREATE TYPE span AS RANGE (subtype = float8);
    CREATE DOMAIN grams AS numeric(6, 2) CHECK (VALUE > 0);
    CREATE TABLE birds (id int PRIMARY KEY, name text NOT NULL, weight grams, m mood, p pair, s span, ms mood[],
                        ps pair[]);
    INSERT INTO birds VALUES
        (1, 'bee', 1.95, 'happy', ROW (1, 'sad', 'a b'), '[1,2)', '{ok,sad}', ARRAY[ROW (1, 'ok', NULL)::pair]),
        (2, 'giant', 20.2, 'sad', NULL, NULL, NULL, NULL);
    CREATE FUNCTION told(int) RETURNS int LANGUAGE plpgsql AS
        'BEGIN RAISE NOTICE ''told %'', $1 USING HINT = ''listen''; RETURN $1; END';
    CREATE FUNCTION fails() RETURNS int LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION ''no'' USING ERRCODE = ''XY123'', DETAIL = ''d'', HINT = ''h''; END'";

const QUESTIONS: &[&str] = &[
    "SELECT * FROM birds ORDER BY id",
    "SELECT p, (p).m, ROW (m, id) FROM birds ORDER BY id",
    "SELECT true, 1::smallint, 2, 3::bigint, 0.1::real, 0.1::float8, 1e100::numeric, 'x'::char(4), '\\x00ff'::bytea",
    "SELECT date '2024-02-29', time '12:34:56.7', timetz '12:00+02', timestamp '2024-01-01', timestamptz '2024-06-01 UTC'",
    "SELECT interval '1 month 2 days 03:04:05', '00000000-0000-0000-0000-00000000002a'::uuid, '{\"a\": [1, null]}'::jsonb",
    "SELECT '{\"a\":1}'::json, int4range(1, 5), '{[1,2),[5,6)}'::int4multirange, point '(1,2)', inet '10.0.0.1/8', B'101'",
    "SELECT '{{1,2},{3,NULL}}'::int[], '{}'::text[], '[2:3]={a,b}'::text[], 'birds'::regclass, '{birds}'::regclass[]",
    "SELECT 'a & b'::tsquery, to_tsvector('simple', 'a b'), '12.34'::money, pg_typeof(1), 'infinity'::date, 'NaN'::numeric",
    "SELECT",
    "SELECT 1 WHERE false",
    "SELECT n, repeat('x', n % 100) FROM generate_series(1, 30000) AS s (n)",
    "INSERT INTO birds (id, name) VALUES (3, 'anna')",
    "INSERT INTO birds (id, name) VALUES (4, 'x'), (5, 'y') RETURNING id, name",
    "UPDATE birds SET weight = weight + 1 WHERE id < 3",
    "DELETE FROM birds WHERE id = 5 RETURNING *",
    "INSERT INTO birds (id, name) VALUES (1, 'again')",
    "INSERT INTO birds VALUES (9, 'x', -1)",
    "SELECT nothing FROM birds",
    "SELEC 1",
    "SELECT 1 / 0",
    "SELECT fails()",
    "SELECT told(7)",
    "SET TimeZone = 'Europe/Berlin'",
    "SET DateStyle = 'German'",
    "SET IntervalStyle = 'iso_8601'",
    "SET bytea_output = 'escape'",
    "SET extra_float_digits = 0",
    "SELECT timestamptz '2024-06-01 UTC', date '2024-02-29', interval '1 day 2 hours', '\\x0041'::bytea, 0.1::real",
    "BEGIN",
    "SELECT count(*) FROM birds",
    "SAVEPOINT s",
    "SELECT 1 / 0",
    "SELECT 1",
    "ROLLBACK TO s",
    "SELECT count(*) FROM birds",
    "COMMIT",
    "BEGIN",
    "SELECT 1 / 0",
    "COMMIT",
    "EXPLAIN SELECT * FROM birds WHERE id = 1",
    "SHOW TimeZone",
];

/// All that a statement's answer says.
fn answer(connection: &mut Connection, sql: &str) -> String {
    let mut said = String::new();
    let run = |connection: &mut Connection, said: &mut String| -> Result<(), Error> {
        let statement = connection.prepare(sql)?;
        for column in statement.columns() {
            *said += &format!("{} {} {}\n", column.name(), column.type_name(), column.type_oid());
        }
        *said += &format!("{} {}\n", statement.params(), statement.gives_rows());
        connection.start(&statement, ())?;
        let mut number = 0;
        loop {
            match connection.next_block()? {
                Next::End(tag) => {
                    *said += &tag;
                    return Ok(());
                }
                Next::Rows(block) => {
                    for row in 0..block.len() {
                        number += 1;
                        *said += &format!("{number} {:?}", block.row(row).unwrap());
                        for column in 0..block.columns().len() {
                            let mut text = Vec::new();
                            block.write_text(row, column, connection, &mut text);
                            *said += &format!(" {}", String::from_utf8(text).unwrap());
                        }
                        said.push('\n');
                    }
                }
            }
        }
    };
    if let Err(error) = run(connection, &mut said) {
        said += &format!("{:?}", error.report());
    }
    said += &format!("\n{:?} {:?}", connection.transaction_state(), connection.take_notices());
    said
}

#[test]
fn a_guest_gets_what_an_owner_gets() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Names of databases are shown in few places; these are alike.
    let (here, there) = (here.path().join("birds"), there.path().join("birds"));
    let owner = Process::open(&there);
    let (here, there) = (Database::open(&here).unwrap(), Database::open(&there).unwrap());
    assert!(here.is_owner() && !there.is_owner());
    let (mut here, mut there) = (here.connect(), there.connect());
    assert_eq!((here.owner(), there.owner()), (None, Some(owner.id())));
    here.batch(SETUP).unwrap();
    there.batch(SETUP).unwrap();
    for sql in QUESTIONS {
        let (expected, found) = (answer(&mut here, sql), answer(&mut there, sql));
        assert_eq!(found, expected, "{sql}");
    }
}

#[test]
fn parameters_arrive_as_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let _owner = Process::open(dir.path());
    let mut conn = Database::open(dir.path()).unwrap().connect();
    let values: Vec<(&str, Value<'static>)> = vec![
        ("bool", Value::Bool(true)),
        ("bigint", Value::Int(-5)),
        ("real", Value::Real(0.1)),
        ("float8", Value::Float(0.1)),
        ("numeric", Value::Numeric(Numeric::parse("1.50").unwrap())),
        ("text", Value::from("é")),
        ("bytea", Value::from(vec![0u8, 1])),
        ("uuid", Value::Uuid([9; 16])),
        ("int[]", Value::Array(vec![Value::Int(1), Value::Null])),
        ("int", Value::Null),
    ];
    for (ty, value) in values {
        let row = conn.query_row(format!("SELECT $1::{ty}"), [&value]).unwrap();
        assert_eq!(row.get::<_, Value<'_>>(0).unwrap(), value, "{ty}");
    }
    let error = conn.query("SELECT $1::int", ("no number",)).unwrap_err();
    assert_eq!(error.state().0, "22P02");
    let error = conn.query("SELECT $1::int", (1, 2)).unwrap_err();
    assert_eq!(error.state().0, "08P01");
}

#[test]
fn copy_and_many_rows_at_once_go_through() {
    let dir = tempfile::tempdir().unwrap();
    let _owner = Process::open(dir.path());
    let db = Database::open(dir.path()).unwrap();
    let mut conn = db.connect();
    conn.batch("CREATE TABLE t (a int PRIMARY KEY, b text)").unwrap();
    let mut copy = conn.copy_in("COPY t FROM STDIN").unwrap();
    for n in 0..20_000 {
        writeln!(copy, "{n}\trow {n}").unwrap();
    }
    assert_eq!(copy.finish().unwrap(), 20_000);
    let mut copy = conn.copy_in("COPY t FROM STDIN").unwrap();
    copy.write_all(b"1\tagain\n").unwrap();
    assert_eq!(copy.finish().unwrap_err().state().0, "23505");
    let mut copy = conn.copy_in("COPY t FROM STDIN").unwrap();
    copy.write_all(b"30000\tdropped\n").unwrap();
    drop(copy);
    assert_eq!(conn.start_copy("COPY t TO STDOUT").unwrap(), CopyDirection::Out);
    assert_eq!(conn.execute("SELECT 1", ()).unwrap_err().state().0, "55000");
    conn.copy_cancel().unwrap();
    let mut out = Vec::new();
    assert_eq!(conn.copy_out("COPY (SELECT * FROM t ORDER BY a) TO STDOUT", &mut out).unwrap(), 20_000);
    assert!(out.starts_with(b"0\trow 0\n1\trow 1\n") && out.ends_with(b"19999\trow 19999\n"));

    let rows: Vec<(i32, String)> = (20_000..25_000).map(|n| (n, format!("row {n}"))).collect();
    let done = conn.transaction(|tx| tx.execute_many("INSERT INTO t VALUES ($1, $2)", &rows));
    assert_eq!(done.unwrap(), 5_000);
    let error = conn.execute_many("INSERT INTO t VALUES ($1, 'x')", &[(25_000,), (1,)]).unwrap_err();
    assert_eq!(error.state().0, "23505");
    assert_eq!(conn.query_row("SELECT count(*) FROM t", ()).unwrap().get::<_, i64>(0).unwrap(), 25_001);
}

#[test]
fn rows_are_taken_as_they_come_and_left_early() {
    let dir = tempfile::tempdir().unwrap();
    let _owner = Process::open(dir.path());
    let mut conn = Database::open(dir.path()).unwrap().connect();
    let endless = "SELECT n FROM generate_series(1, 100000000) AS s (n)";
    let mut sum = 0;
    for row in conn.query_iter(endless, ()).unwrap() {
        sum += row.unwrap().get::<_, i64>(0).unwrap();
        if sum > 1_000_000 {
            break;
        }
    }
    let statement = conn.prepare(endless).unwrap();
    conn.start(&statement, ()).unwrap();
    assert!(matches!(conn.next_block().unwrap(), Next::Rows(_)));
    assert_eq!(conn.execute("SELECT 1", ()).unwrap_err().state().0, "55000");
    conn.stop().unwrap();
    assert_eq!(conn.execute("SELECT 1", ()).unwrap(), 1);
}

#[test]
fn a_statement_is_cancelled_from_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let _owner = Process::open(dir.path());
    let mut conn = Database::open(dir.path()).unwrap().connect();
    let handle = conn.cancel_handle();
    for by_flag in [false, true] {
        let canceled = std::thread::scope(|scope| {
            let running = scope.spawn(|| conn.query("SELECT count(*) FROM generate_series(1, 1000000000000)", ()));
            while !running.is_finished() {
                std::thread::sleep(Duration::from_millis(20));
                match by_flag {
                    true => handle.flag().store(true, std::sync::atomic::Ordering::Relaxed),
                    false => handle.cancel(),
                }
            }
            running.join().unwrap()
        });
        assert_eq!(canceled.unwrap_err().state().0, "57014");
    }
    // A cancellation that came too late may end the next statement, as with PostgreSQL.
    _ = conn.execute("SELECT 1", ());
    assert_eq!(conn.execute("SELECT 1", ()).unwrap(), 1);
}

#[test]
fn notifications_reach_other_processes() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = Process::open(dir.path());
    let db = Database::open(dir.path()).unwrap();
    let (mut conn, mut other) = (db.connect(), db.connect());
    conn.batch("LISTEN nests").unwrap();
    owner.ask("NOTIFY nests, 'from the owner'");
    let told = conn.wait_for_notifications(Duration::from_secs(60)).unwrap();
    assert_eq!(told[0].payload.as_str(), "from the owner");
    other.batch("NOTIFY nests, 'from a guest'").unwrap();
    let told = conn.wait_for_notifications(Duration::from_secs(60)).unwrap();
    assert_eq!(told[0].payload.as_str(), "from a guest");
    assert_eq!(told[0].session, other.number());
    let begun = Instant::now();
    assert!(conn.wait_for_notifications(Duration::from_millis(50)).unwrap().is_empty());
    assert!(begun.elapsed() >= Duration::from_millis(50));
    owner.ask("LISTEN nests");
    conn.batch("NOTIFY nests, 'to the owner'").unwrap();
    assert_eq!(owner.ask("SELECT 1"), "ok 1");
}

fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn futures_wait_for_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = Process::open(dir.path());
    let db = Database::open(dir.path()).unwrap();
    owner.ask("CREATE TABLE counters (n bigint)");
    owner.ask("INSERT INTO counters VALUES (0)");
    let mut conns: Vec<AsyncConnection> = (0..4).map(|_| db.connect_async()).collect();
    block_on(async {
        for round in 0..50 {
            for conn in &mut conns {
                let added = conn
                    .transaction(async |tx| {
                        let n: i64 = tx.query_row("SELECT n FROM counters", ()).await?.get(0)?;
                        tx.execute("UPDATE counters SET n = $1", (n + 1,)).await
                    })
                    .await;
                assert_eq!(added.unwrap(), 1, "{round}");
            }
        }
        let mut rows = 0;
        let count = conns[0].for_each("SELECT * FROM generate_series(1, 30000)", (), |_| {
            rows += 1;
            Ok(())
        });
        assert_eq!((count.await.unwrap(), rows), (30_000, 30_000));
    });
    assert_eq!(owner.ask("SELECT n FROM counters"), "ok 200");
}

#[test]
fn four_processes_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut conn = db.connect();
    conn.batch("CREATE TABLE counters (n bigint); INSERT INTO counters VALUES (0)").unwrap();
    let mut workers: Vec<Process> = (0..4).map(|_| Process::open(dir.path())).collect();
    workers.iter_mut().for_each(|worker| worker.tell("add 100"));
    for worker in &mut workers {
        assert_eq!(worker.hear(), "ok");
    }
    assert_eq!(conn.query_row("SELECT n FROM counters", ()).unwrap().get::<_, i64>(0).unwrap(), 400);
}

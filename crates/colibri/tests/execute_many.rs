//! `execute_many` within a transaction inserts many rows at once where nobody can tell, and is one
//! statement after the other where somebody could.

#![allow(clippy::unwrap_used)]

use colibri::sql::{Connection, Database, Error, Value};

type Rows = Vec<Vec<Value<'static>>>;

const SETUP: &str = "
    CREATE TABLE parents (id int PRIMARY KEY);
    INSERT INTO parents SELECT generate_series(0, 50);
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TABLE plain (a int, b text);
    CREATE TABLE keyed (id bigserial PRIMARY KEY, a int UNIQUE, b text DEFAULT 'none' NOT NULL,
        double int GENERATED ALWAYS AS (a * 2) STORED, CHECK (a < 900));
    CREATE TABLE children (a int REFERENCES parents, b text);
    CREATE TABLE moods (a int, b mood);
    CREATE TABLE parted (a int, b text) PARTITION BY RANGE (a);
    CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (30);
    CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (30) TO (MAXVALUE);
    CREATE TABLE watched (a int, b text);
    CREATE TABLE log (n int);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO log VALUES (1); RETURN NULL; END $$;
    CREATE TRIGGER note AFTER INSERT ON watched EXECUTE FUNCTION note();
    CREATE VIEW seen AS SELECT a, b FROM plain;
    CREATE DOMAIN small AS int CHECK (VALUE < 40);
    CREATE TABLE domains (a small, b text);
";

const STATEMENTS: [(&str, &str); 14] = [
    ("INSERT INTO plain VALUES ($1, $2)", "SELECT a, b FROM plain ORDER BY 1, 2"),
    ("INSERT INTO plain (b, a) VALUES (upper($2) || 'x', $1 + 1)", "SELECT a, b FROM plain ORDER BY 1, 2"),
    ("INSERT INTO plain VALUES ($1, $2), (-1, $2)", "SELECT a, b FROM plain ORDER BY 1, 2"),
    ("INSERT INTO plain VALUES ($1, (SELECT max(a)::text || $2 FROM plain))", "SELECT a, b FROM plain ORDER BY 1, 2"),
    ("INSERT INTO plain SELECT $1, $2", "SELECT a, b FROM plain ORDER BY 1, 2"),
    ("INSERT INTO keyed (a, b) VALUES ($1, $2)", "SELECT id, a, b, double FROM keyed ORDER BY 1"),
    (
        "INSERT INTO keyed (a, b) VALUES ($1, $2) ON CONFLICT (a) DO UPDATE SET b = keyed.b || $2",
        "SELECT a, b FROM keyed ORDER BY 1",
    ),
    ("INSERT INTO keyed (a, b) VALUES ($1, $2) ON CONFLICT DO NOTHING", "SELECT a, b FROM keyed ORDER BY 1"),
    ("INSERT INTO children VALUES ($1, $2)", "SELECT a, b FROM children ORDER BY 1, 2"),
    (
        "INSERT INTO moods VALUES ($1, CASE WHEN $2 = 'b1' THEN 'sad' ELSE 'ok' END::mood)",
        "SELECT a, b FROM moods ORDER BY 1, 2",
    ),
    ("INSERT INTO parted VALUES ($1, $2)", "SELECT tableoid::regclass::text, a, b FROM parted ORDER BY 2, 3"),
    ("INSERT INTO watched VALUES ($1, $2)", "SELECT (SELECT count(*) FROM log), a, b FROM watched ORDER BY 2, 3"),
    ("INSERT INTO seen VALUES ($1, $2)", "SELECT a, b FROM plain ORDER BY 1, 2"),
    ("INSERT INTO domains VALUES ($1, $2)", "SELECT a, b FROM domains ORDER BY 1, 2"),
];

fn row(a: i32, b: &str) -> Vec<Value<'static>> {
    vec![Value::Int(i64::from(a)), Value::Text(b.to_owned().into())]
}

fn fresh() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("birds")).unwrap();
    db.connect().batch(SETUP).unwrap();
    (dir, db)
}

fn content(conn: &mut Connection, query: &str) -> Vec<String> {
    let rows = conn.query(query, ()).unwrap();
    rows.iter().map(|row| format!("{row:?}")).collect()
}

/// What a run comes to: how many rows, what there is then, and which error there was.
fn outcome(
    statement: &str,
    query: &str,
    rows: &Rows,
    run: impl FnOnce(&mut Connection, &str, &Rows) -> Result<u64, Error>,
) -> (Result<u64, String>, Vec<String>) {
    let (_dir, db) = fresh();
    let mut conn = db.connect();
    conn.batch("BEGIN").unwrap();
    let done = run(&mut conn, statement, rows);
    conn.batch("COMMIT").unwrap();
    (done.map_err(|error| format!("{} {}", error.state().0, error.report().message)), content(&mut conn, query))
}

fn at_once(conn: &mut Connection, statement: &str, rows: &Rows) -> Result<u64, Error> {
    conn.execute_many(statement, rows)
}

fn one_by_one(conn: &mut Connection, statement: &str, rows: &Rows) -> Result<u64, Error> {
    let prepared = conn.prepare(statement)?;
    rows.iter().try_fold(0, |sum, row| Ok(sum + conn.execute(&prepared, row.clone())?))
}

#[test]
fn it_does_what_one_statement_after_the_other_does() {
    let distinct: Rows = (0..45).map(|n| row(n, &format!("b{n}"))).collect();
    let many: Rows = (0..2_500).map(|n| row(n % 30, &format!("b{}", n % 7))).collect();
    let violating: Rows = (0..45).map(|n| row(if n == 33 { 4 } else { n }, "b")).collect();
    let too_high: Rows = (0..45).map(|n| row(if n == 20 { 950 } else { n }, "b")).collect();
    let nulls: Rows =
        (0..9).map(|n| vec![Value::Int(i64::from(n)), if n == 5 { Value::Null } else { Value::Bool(true) }]).collect();
    let narrow: Rows = (0..9).map(|n| if n == 4 { vec![Value::Int(i64::from(n))] } else { row(n, "b") }).collect();
    for (statement, query) in STATEMENTS {
        for (what, rows) in [
            ("distinct", &distinct),
            ("many", &many),
            ("violating", &violating),
            ("too high", &too_high),
            ("nulls", &nulls),
            ("narrow", &narrow),
            ("none", &Rows::new()),
        ] {
            let expected = outcome(statement, query, rows, one_by_one);
            let done = outcome(statement, query, rows, at_once);
            assert_eq!(done, expected, "{statement}, rows: {what}");
        }
    }
}

/// Rows that are inserted together are one statement to the clock.
#[test]
fn rows_are_inserted_together() {
    let (_dir, db) = fresh();
    let mut conn = db.connect();
    conn.batch("CREATE TABLE times (n int, at timestamptz DEFAULT statement_timestamp())").unwrap();
    let rows: Vec<(i32,)> = (0..3_000).map(|n| (n,)).collect();
    let inserted = conn.transaction(|tx| tx.execute_many("INSERT INTO times (n) VALUES ($1)", &rows)).unwrap();
    assert_eq!(inserted, 3_000);
    let row = conn.query_row("SELECT count(*), count(DISTINCT n), count(DISTINCT at) FROM times", ()).unwrap();
    assert_eq!((row.get::<_, i64>(0).unwrap(), row.get::<_, i64>(1).unwrap()), (3_000, 3_000));
    assert!(row.get::<_, i64>(2).unwrap() <= 3, "{row:?}");
}

/// Outside of a transaction what was done before a failure stays.
#[test]
fn without_a_transaction_rows_before_a_failure_stay() {
    let (_dir, db) = fresh();
    let mut conn = db.connect();
    let rows: Rows = (0..45).map(|n| row(if n == 33 { 4 } else { n }, "b")).collect();
    let error = conn.execute_many("INSERT INTO keyed (a, b) VALUES ($1, $2)", &rows).unwrap_err();
    assert_eq!(error.state().0, "23505");
    assert_eq!(content(&mut conn, "SELECT count(*) FROM keyed"), content(&mut conn, "SELECT 33::int8 AS count"));
}

/// A table that was altered since the statement was prepared is inserted into as it is now.
#[test]
fn a_trigger_that_came_later_is_called_for_each() {
    let (_dir, db) = fresh();
    let mut conn = db.connect();
    let insert = conn.prepare("INSERT INTO plain VALUES ($1, $2)").unwrap();
    conn.batch("BEGIN").unwrap();
    conn.execute_many(&insert, &(0..9).map(|n| row(n, "b")).collect::<Rows>()).unwrap();
    conn.batch("CREATE TRIGGER late AFTER INSERT ON plain EXECUTE FUNCTION note()").unwrap();
    conn.execute_many(&insert, &(0..9).map(|n| row(n, "b")).collect::<Rows>()).unwrap();
    conn.batch("COMMIT").unwrap();
    let row = conn.query_row("SELECT (SELECT count(*) FROM log), (SELECT count(*) FROM plain)", ()).unwrap();
    assert_eq!((row.get::<_, i64>(0).unwrap(), row.get::<_, i64>(1).unwrap()), (9, 18));
}

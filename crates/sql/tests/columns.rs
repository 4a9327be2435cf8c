//! Groupings on column vectors give what they give on rows: the same rows in the same order, and
//! the same errors.
//!
//! Random queries over a table of all kinds of values are run both ways: with NULLs, numerics of
//! several scales, values that overflow, divisors that are zero, rows of older layouts, and rows
//! that the transaction has written itself. A seed that fails is told, and `COLIBRI_SEED` runs it
//! again.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::thread;

use colibri_sql::parallel::{Helpers, Job, Left};
use colibri_sql::{Engine, Session};
use colibri_storage::{Database, Durability, Options};
use rand::prelude::*;
use rand::rngs::StdRng;

/// Rows of the table: several batches.
const ROWS: usize = 5_000;

/// A thread for each job.
struct Threads;

impl Helpers for Threads {
    fn count(&self) -> usize {
        2
    }

    fn rows_min(&self) -> u64 {
        2
    }

    fn help(&self, job: Arc<Job>) {
        thread::spawn(move || while job.run(700) == Left::More {});
    }
}

fn open(dir: &tempfile::TempDir) -> Arc<Engine> {
    let database = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    let engine = Engine::open(database).unwrap();
    engine.rewrite_queries(true);
    let mut session = Session::new(&engine, "postgres");
    // `n` has one scale in the first rows, and others in a part of the rest; `big` is near the ends
    // of its type in a few rows.
    session
        .run(&format!(
            "CREATE TABLE t (id int PRIMARY KEY, a int, b bigint, s smallint, c numeric(12, 2), d text, e bool, f float8,
                 g date, h timestamp, n numeric, big bigint, v varchar(9));
             INSERT INTO t SELECT i, nullif(i * 7 % 13, 5), nullif(i * 31 % 97, 3), i * 11 % 200 - 100, nullif(i % 11, 0) * 1.50,
                 nullif('text ' || i % 17, 'text 4'), nullif(i % 3, 1) = 0, nullif(i % 8, 0) / 2.0, date '2020-01-01' + i % 50,
                 timestamp '2020-01-01' + i * interval '1 minute',
                 CASE WHEN i % 1000 < 900 THEN (i % 7)::numeric(9, 2)
                      WHEN i % 7 = 0 THEN 1e30 + i WHEN i % 13 = 0 THEN 'NaN' ELSE (i % 7) * 1.5 END,
                 CASE WHEN i % 2500 = 77 THEN 9223372036854775000 + i % 800 ELSE i END, 'v' || i % 5
                 FROM generate_series(1, {}) AS x (i);
             ALTER TABLE t ADD COLUMN late int DEFAULT 7;
             INSERT INTO t SELECT i, i % 3, i % 4, i % 5, i % 6, 'later', true, 1, '2021-01-01', '2021-01-01', 1.25, i, 'w', i % 9
                 FROM generate_series({}, {}) AS x (i)",
            ROWS / 2,
            ROWS / 2 + 1,
            ROWS
        ))
        .unwrap();
    engine
}

fn rows_of(session: &mut Session, sql: &str) -> Result<Vec<String>, String> {
    let answers = session.run(sql).map_err(|error| error.state().0.to_owned())?;
    Ok(answers.last().unwrap().text_rows(session).into_iter().map(|row| format!("{row:?}")).collect())
}

/// The rows of a query in a transaction that has written before, if it `writes`.
fn rows_with(session: &mut Session, sql: &str, writes: bool) -> Result<Vec<String>, String> {
    if !writes {
        return rows_of(session, sql);
    }
    session
        .run(
            "BEGIN; DELETE FROM t WHERE id % 100 = 3;
             INSERT INTO t (id, a, c, d) VALUES (-5, 1, 2.25, 'own'), (100003, 2, 3, NULL)",
        )
        .unwrap();
    let rows = rows_of(session, sql);
    session.run("ROLLBACK").unwrap();
    rows
}

/// Numerics without zeros at their ends.
fn without_scales(rows: Result<Vec<String>, String>) -> Result<Vec<String>, String> {
    let is_decimal = |text: &str| text.contains('.') && text.bytes().all(|b| b.is_ascii_digit() || b"-.".contains(&b));
    let shorter = |text: &str| match is_decimal(text) {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    Ok(rows?.iter().map(|row| row.split('"').map(shorter).collect::<Vec<_>>().join("\"")).collect())
}

fn sorted(rows: Result<Vec<String>, String>) -> Result<Vec<String>, String> {
    rows.map(|mut rows| {
        rows.sort_unstable();
        rows
    })
}

struct Generator(StdRng);

impl Generator {
    fn pick(&mut self, from: &[&str]) -> String {
        (*from.choose(&mut self.0).unwrap()).to_owned()
    }

    fn number(&mut self, depth: usize) -> String {
        match self.0.random_range(0..if depth == 0 { 5 } else { 9 }) {
            0 => self.pick(&["a", "b", "s", "late", "big"]),
            1 | 2 => self.pick(&["c", "c", "n"]),
            3 => self.pick(&["1", "0", "2.50", "-3", "100000"]),
            4 => "id".to_owned(),
            5 => format!("CASE WHEN {} THEN {} ELSE {} END", self.condition(0), self.number(0), self.number(0)),
            6 => {
                let divisor = self.pick(&["a", "3", "(s - 7)", "b"]);
                format!("({} / {divisor})", self.pick(&["a", "b", "id", "late"]))
            }
            7 => format!("{} % {}", self.pick(&["a", "b", "id"]), self.pick(&["7", "late", "a"])),
            _ => {
                let op = self.pick(&["+", "-", "*"]);
                format!("({} {op} {})", self.number(depth - 1), self.number(depth - 1))
            }
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        let op = self.pick(&["=", "<>", "<", "<=", ">", ">="]);
        match self.0.random_range(0..if depth == 0 { 10 } else { 14 }) {
            0 => format!("{} {op} {}", self.pick(&["a", "b", "s", "id", "late"]), self.0.random_range(-5..90)),
            1 => format!("{} {op} {}", self.pick(&["c", "n"]), self.pick(&["3.00", "4.5", "0", "1.505"])),
            2 => format!("d {op} {}", self.pick(&["'text 7'", "''", "v", "'text'"])),
            3 => {
                let also = self.pick(&["", " + interval '1 day'"]);
                format!("g {op} date '2020-01-{:02}'{also}", self.0.random_range(1..32))
            }
            4 => format!("{} IS {}NULL", self.pick(&["a", "c", "d", "e", "f"]), self.pick(&["", "NOT "])),
            5 => format!(
                "d {}LIKE {}",
                self.pick(&["", "NOT "]),
                self.pick(&["'text 1%'", "'%4'", "'t_xt 2'", "'%ex%'"])
            ),
            6 => format!("a {}IN ({})", self.pick(&["", "NOT "]), self.pick(&["1, 2, 3", "4, NULL", "0"])),
            7 => self.pick(&["e", "NOT e", "e IS TRUE", "e IS NOT FALSE", "e IS UNKNOWN"]),
            8 => format!("id {op} {}", self.0.random_range(0..ROWS)),
            9 => format!("f {op} {}", self.pick(&["1.5", "0", "'NaN'"])),
            10 => format!("({} AND {})", self.condition(depth - 1), self.condition(depth - 1)),
            11 => format!("({} OR {})", self.condition(depth - 1), self.condition(depth - 1)),
            12 => format!("NOT ({})", self.condition(depth - 1)),
            _ => format!("{} {op} {}", self.number(1), self.number(0)),
        }
    }

    fn query(&mut self) -> String {
        let mut calls = Vec::new();
        for _ in 0..self.0.random_range(1..5) {
            let filter =
                if self.0.random_bool(0.2) { format!(" FILTER (WHERE {})", self.condition(1)) } else { String::new() };
            let call = match self.0.random_range(0..8) {
                0 => "count(*)".to_owned(),
                1 => format!("count({})", self.pick(&["a", "d", "c", "e", "1", "f"])),
                2 | 3 => format!("sum({})", self.number(2)),
                4 => format!("avg({})", self.number(1)),
                5 => format!("min({})", self.pick(&["d", "c", "g", "h", "s", "n", "f"])),
                6 => format!("max({})", self.pick(&["d", "c", "g", "b", "n", "v", "big"])),
                _ => self.pick(&["bool_and(e)", "bool_or(e)"]),
            };
            calls.push(call + &filter);
        }
        let keys = self.pick(&[
            "",
            "",
            "a",
            "d",
            "d, e",
            "c",
            "n",
            "g, v",
            "id % 40",
            "id",
            "v",
            "a, s, late",
            "h",
            "s + a",
            "e",
        ]);
        let from = match self.0.random_range(0..4) {
            0 => "(SELECT *, a + b AS ab FROM t) AS t".to_owned(),
            _ => "t".to_owned(),
        };
        let condition = match self.0.random_range(0..5) {
            0 => String::new(),
            1 => format!(" WHERE {} AND {}", self.condition(1), self.condition(0)),
            _ => format!(" WHERE {}", self.condition(2)),
        };
        let (listed, group) = if keys.is_empty() {
            (String::new(), String::new())
        } else {
            (format!("{keys}, "), format!(" GROUP BY {keys}"))
        };
        format!("SELECT {listed}{} FROM {from}{condition}{group}", calls.join(", "))
    }
}

#[test]
fn random_groupings_give_the_same_on_vectors_as_on_rows() {
    let seed = std::env::var("COLIBRI_SEED").map_or(1, |seed| seed.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    let [mut on_rows, mut on_columns, mut helped] = [(), (), ()].map(|()| Session::new(&engine, "postgres"));
    on_rows.run("SET colibri.columns = off").unwrap();
    helped.set_helpers(Some(Arc::new(Threads) as Arc<dyn Helpers>));
    let mut generator = Generator(StdRng::seed_from_u64(seed));
    let (mut with_columns, mut failures) = (0, 0);
    for number in 0..300 {
        let query = generator.query();
        // Rows that a transaction has written are among those that it reads.
        let writes = number % 7 == 0;
        // Which groups are put away when memory is full, and come later, is another matter.
        let is_short = number % 5 == 0;
        if is_short {
            on_columns.run("SET work_mem = '64kB'; SET hash_mem_multiplier = 1").unwrap();
        }
        let expected = rows_with(&mut on_rows, &query, writes);
        for round in 0..2 {
            let given = rows_with(&mut on_columns, &query, writes);
            if is_short {
                assert_eq!(sorted(given), sorted(expected.clone()), "seed {seed}, short of memory: {query}");
            } else {
                assert_eq!(given, expected, "seed {seed}, round {round}, query {number}: {query}");
            }
        }
        if !writes {
            // Of equal numerics, whichever thread comes first decides whether a group is shown as
            // 3.0 or 3.00.
            let [given, expected] = [rows_of(&mut helped, &query), expected.clone()].map(without_scales).map(sorted);
            assert_eq!(given, expected, "seed {seed}, helped: {query}");
        }
        on_columns.run("RESET work_mem; RESET hash_mem_multiplier").unwrap();
        failures += usize::from(expected.is_err());
        let plan = rows_of(&mut on_columns, &format!("EXPLAIN {query}")).unwrap();
        with_columns += usize::from(plan.iter().any(|line| line.contains("Column Vectors")));
        assert!(!rows_of(&mut on_rows, &format!("EXPLAIN {query}")).unwrap().concat().contains("Column Vectors"));
    }
    assert!(with_columns > 150, "plans on vectors: {with_columns}");
    assert!((10..150).contains(&failures), "queries that fail: {failures}");
}

#[test]
fn what_vectors_have_read_counts_as_read_by_the_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    let [mut one, mut two] = [(), ()].map(|()| Session::new(&engine, "postgres"));
    one.run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(a) FROM t WHERE id > 100; INSERT INTO t (id) VALUES (-1)")
        .unwrap();
    two.run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM t WHERE id < 0; INSERT INTO t (id, a) VALUES (200000, 1); COMMIT")
        .unwrap();
    assert_eq!(one.run("COMMIT").unwrap_err().state().0, "40001");
    // Below the range nothing was read.
    one.run(
        "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(a) FROM t WHERE id > 100; INSERT INTO t (id) VALUES (300000)",
    )
    .unwrap();
    two.run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM t WHERE id >= 300000; INSERT INTO t (id, a) VALUES (-7, 1); COMMIT")
        .unwrap();
    one.run("COMMIT").unwrap();
}

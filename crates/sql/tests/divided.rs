//! Groupings and sorts that other threads help with give what they give alone: whoever helps, whenever, and
//! whatever else happens meanwhile.
//!
//! Random queries over a table with NULLs are compared with the same ones without help. A seed that
//! fails is told, and `COLIBRI_SEED` runs it again.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use colibri_sql::parallel::{Helpers, Job, Left};
use colibri_sql::{Engine, Session};
use colibri_storage::{Database, Durability, Options};
use rand::prelude::*;
use rand::rngs::StdRng;

/// How jobs are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// Each by a thread of its own.
    Threads,
    /// To its end, before the statement has looked at anything.
    AtOnce,
    /// A little, and then never again.
    Begun,
    /// By nobody.
    Never,
}

struct Help {
    how: How,
    asked: AtomicUsize,
}

impl Help {
    fn new(how: How) -> Arc<Self> {
        Arc::new(Self { how, asked: AtomicUsize::new(0) })
    }
}

impl Helpers for Help {
    fn count(&self) -> usize {
        2
    }

    fn rows_min(&self) -> u64 {
        2
    }

    fn help(&self, job: Arc<Job>) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.how {
            How::Threads => drop(thread::spawn(move || while job.run(50) == Left::More {})),
            How::AtOnce => while job.run(1_000) == Left::More {},
            How::Begun => drop(job.run(30)),
            How::Never => {}
        }
    }
}

fn open(dir: &tempfile::TempDir) -> Arc<Engine> {
    let database = Database::open(dir.path(), &Options::new().durability(Durability::NoSync)).unwrap();
    let engine = Engine::open(database).unwrap();
    engine.rewrite_queries(true);
    let mut session = Session::new(&engine, "postgres");
    session
        .run(
            "CREATE TABLE t (id int PRIMARY KEY, a int, b bigint, c numeric, d text, e bool);
             INSERT INTO t SELECT g, nullif(g * 7 % 13, 5), nullif(g * 31 % 97, 3), nullif(g % 11, 0) * 1.50,
                 nullif('text ' || g % 17, 'text 4'), nullif(g % 3, 1) = 0 FROM generate_series(1, 3000) AS s (g);
             CREATE INDEX ON t (a, b);
             CREATE INDEX ON t (d);
             CREATE TABLE u (a int PRIMARY KEY, name text);
             INSERT INTO u SELECT g, 'u' || g FROM generate_series(0, 9) AS s (g);
             CREATE TABLE v (id int PRIMARY KEY, n int);
             INSERT INTO v SELECT g, 100 FROM generate_series(1, 3000) AS s (g)",
        )
        .unwrap();
    engine
}

fn rows_in_order(session: &mut Session, sql: &str) -> Result<Vec<String>, String> {
    let answers = session.run(sql).map_err(|error| format!("{}: {error}", error.state().0))?;
    Ok(answers.last().unwrap().text_rows(session).into_iter().map(|row| format!("{row:?}")).collect())
}

fn rows_of(session: &mut Session, sql: &str) -> Result<Vec<String>, String> {
    let mut rows = rows_in_order(session, sql)?;
    rows.sort_unstable();
    Ok(rows)
}

struct Generator(StdRng);

impl Generator {
    fn pick(&mut self, from: &[&str]) -> String {
        (*from.choose(&mut self.0).unwrap()).to_owned()
    }

    fn condition(&mut self) -> String {
        let (low, high) = (self.0.random_range(0..3_000), self.0.random_range(0..100));
        match self.0.random_range(0..8) {
            0 => format!("t.id BETWEEN {low} AND {}", low + 900),
            1 => format!("t.a = {}", high % 13),
            2 => format!("t.b > {high} AND t.a IN (1, 2, {})", high % 13),
            3 => format!("t.d LIKE 'text {}%'", high % 10),
            4 => "t.e".to_owned(),
            5 => format!("t.id % {} = 0", 2 + high % 5),
            6 => format!("t.id IN ({low}, {}) OR t.id > {low}", low + 1),
            _ => "true".to_owned(),
        }
    }

    fn from(&mut self) -> String {
        self.pick(&[
            "t",
            "t",
            "t JOIN u ON u.a = t.a",
            "t LEFT JOIN u ON u.a = t.a AND u.name <> 'u3'",
            "(SELECT * FROM t WHERE t.id > 40) AS t",
        ])
    }

    /// The first rows of some, in an order that tells all of them apart; or what they are ordered by.
    fn first_rows(&mut self) -> String {
        let listed = self.pick(&["t.id, t.a", "t.*", "t.d", "t.id + t.a AS sum, t.e", "upper(t.d) AS d, t.id"]);
        let (from, condition) = (self.from(), self.condition());
        let keys = self.pick(&["t.a", "t.d, t.a", "t.b % 7, t.a", "upper(t.d)", "t.e, t.c", "t.c * t.a", "t.id % 10"]);
        let order = self.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
        // Which of the rows that are equal in the keys come first, depends on the plan.
        let (listed, last) = if self.0.random_bool(0.3) { (keys.clone(), "") } else { (listed, ", t.id") };
        let limit = self.pick(&["1", "10", "10", "700", "2000", "0", "NULL", "100000"]);
        let offset = self.pick(&["", "", " OFFSET 25", " OFFSET 2990"]);
        format!("SELECT {listed} FROM {from} WHERE {condition} ORDER BY {keys}{order}{last} LIMIT {limit}{offset}")
    }

    fn query(&mut self) -> String {
        let calls = [
            "count(*)",
            "count(t.b)",
            "sum(t.a)",
            "sum(t.b)",
            "sum(t.c)",
            "avg(t.a)",
            "avg(t.c)",
            "min(t.d)",
            "max(t.c)",
            "bool_and(t.e)",
            "bool_or(t.e)",
            "count(*) FILTER (WHERE t.a > 4)",
            "sum(t.b + t.a)",
            "max(t.id)",
        ];
        let count = self.0.random_range(1..4);
        let calls: Vec<String> = (0..count).map(|_| self.pick(&calls)).collect();
        let keys = self.pick(&["", "t.a", "t.d", "t.a, t.e", "t.id % 100", "t.id", "upper(t.d)"]);
        let from = self.from();
        let also = self.pick(&[
            "",
            "",
            " AND EXISTS (SELECT FROM u WHERE u.a = t.a)",
            " AND NOT EXISTS (SELECT FROM u WHERE u.a = t.a AND u.name > 'u4')",
        ]);
        let condition = self.condition();
        let listed = if keys.is_empty() { String::new() } else { format!("{keys}, ") };
        let group = if keys.is_empty() { String::new() } else { format!(" GROUP BY {keys}") };
        let having = self.pick(&["", "", " HAVING count(*) > 3"]);
        format!("SELECT {listed}{} FROM {from} WHERE {condition}{also}{group}{having}", calls.join(", "))
    }
}

/// Compares random queries with and without help. `rows` gives the rows of one.
fn compare(query: fn(&mut Generator) -> String, rows: fn(&mut Session, &str) -> Result<Vec<String>, String>) {
    let seed = std::env::var("COLIBRI_SEED").map_or(1, |seed| seed.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    let mut alone = Session::new(&engine, "postgres");
    let mut generator = Generator(StdRng::seed_from_u64(seed));
    let mut asked = 0;
    for number in 0..400 {
        let query = query(&mut generator);
        let expected = rows(&mut alone, &query);
        let how = [How::Threads, How::AtOnce, How::Begun, How::Never][number % 4];
        let help = Help::new(how);
        let mut helped = Session::new(&engine, "postgres");
        helped.set_helpers(Some(Arc::clone(&help) as Arc<dyn Helpers>));
        if number % 3 == 0 {
            helped.run("SET work_mem = '64kB'").unwrap();
        }
        assert_eq!(rows(&mut helped, &query), expected, "seed {seed}, {how:?}: {query}");
        // Operators are kept between runs.
        assert_eq!(rows(&mut helped, &query), expected, "seed {seed}, again, {how:?}: {query}");
        asked += help.asked.load(Ordering::Relaxed);
    }
    assert!(asked > 200, "jobs were given away: {asked}");
}

#[test]
fn random_groupings_give_the_same_rows_with_help() {
    compare(Generator::query, rows_of);
}

#[test]
fn random_first_rows_come_in_the_same_order_with_help() {
    compare(Generator::first_rows, rows_in_order);
}

#[test]
fn help_sees_the_state_of_the_transaction_whatever_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = {
        let (engine, is_over) = (Arc::clone(&engine), Arc::clone(&is_over));
        thread::spawn(move || {
            let mut session = Session::new(&engine, "postgres");
            let mut round = 0;
            while !is_over.load(Ordering::Relaxed) {
                round += 1;
                // The sum over all rows stays what it is.
                let (from, to) = (1 + round * 37 % 3_000, 1 + round * 101 % 3_000);
                if from != to {
                    let sql = format!(
                        "UPDATE v SET n = n + CASE id WHEN {from} THEN -5 ELSE 5 END WHERE id IN ({from}, {to})"
                    );
                    session.run(&sql).unwrap();
                }
            }
            round
        })
    };
    let mut session = Session::new(&engine, "postgres");
    session.set_helpers(Some(Help::new(How::Threads)));
    for _ in 0..200 {
        assert_eq!(
            rows_of(&mut session, "SELECT sum(n), count(*) FROM v").unwrap(),
            [r#"[Some("300000"), Some("3000")]"#]
        );
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(writer.join().unwrap() > 0);
}

#[test]
fn what_help_has_read_counts_as_read_by_the_transaction() {
    for how in [How::AtOnce, How::Threads, How::Never] {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(&dir);
        let [mut one, mut two] = [(), ()].map(|()| Session::new(&engine, "postgres"));
        one.set_helpers(Some(Help::new(how)));
        one.run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(a) FROM t; INSERT INTO u VALUES (100, 'sum')").unwrap();
        two.run(
            "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM u; INSERT INTO t VALUES (2999999, 1); COMMIT",
        )
        .unwrap();
        let error = one.run("COMMIT").unwrap_err();
        assert_eq!(error.state().0, "40001", "{how:?}");
    }
}

#[test]
fn errors_of_jobs_are_the_statements_and_the_session_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    for how in [How::AtOnce, How::Threads, How::Begun, How::Never] {
        let mut session = Session::new(&engine, "postgres");
        session.set_helpers(Some(Help::new(how)));
        for _ in 0..20 {
            let error = rows_of(&mut session, "SELECT sum(1 / (id - 2500)) FROM t").unwrap_err();
            assert!(error.starts_with("22012"), "{how:?}: {error}");
            assert_eq!(rows_of(&mut session, "SELECT count(*) FROM t").unwrap(), [r#"[Some("3000")]"#]);
        }
    }
}

#[test]
fn own_writes_are_seen_and_statements_in_functions_stay_whole() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    let help = Help::new(How::AtOnce);
    let mut session = Session::new(&engine, "postgres");
    session.set_helpers(Some(Arc::clone(&help) as Arc<dyn Helpers>));
    session.run("BEGIN; DELETE FROM t WHERE id > 1000").unwrap();
    assert_eq!(
        rows_of(&mut session, "SELECT count(*), sum(a) > 0 FROM t WHERE e IS NOT NULL OR e IS NULL").unwrap(),
        [r#"[Some("1000"), Some("t")]"#]
    );
    session.run("ROLLBACK").unwrap();
    assert_eq!(help.asked.load(Ordering::Relaxed), 0, "nobody helps a transaction that has written");
    session.run("SET max_parallel_workers_per_gather = 0").unwrap();
    rows_of(&mut session, "SELECT sum(a) FROM t").unwrap();
    assert_eq!(help.asked.load(Ordering::Relaxed), 0, "nobody helps who wants no help");
    session.run("RESET max_parallel_workers_per_gather").unwrap();
    rows_of(&mut session, "SELECT sum(a) FROM t").unwrap();
    assert_eq!(help.asked.load(Ordering::Relaxed), 2);
}

/// Bug: a job that began when memory was full took no morsel, and its scan read all of the table.
/// Consequence: rows came twice and sums were too large, if another job had filled the memory before.
/// Fix: without a morsel there is nothing to read.
#[test]
fn jobs_that_begin_when_memory_is_full_read_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&dir);
    for how in [How::AtOnce, How::Threads] {
        let mut session = Session::new(&engine, "postgres");
        session.set_helpers(Some(Help::new(how)));
        session.run("SET work_mem = '64kB'; SET hash_mem_multiplier = 1").unwrap();
        let sorted = "SELECT id FROM t WHERE id BETWEEN 1001 AND 2000 ORDER BY b % 7, id LIMIT 725";
        let mut rows = rows_of(&mut session, sorted).unwrap();
        rows.dedup();
        assert_eq!(rows.len(), 725, "{how:?}");
        let grouped = "SELECT id, repeat(d, 40), count(*) FROM t GROUP BY id, 2 HAVING count(*) > 1";
        assert_eq!(rows_of(&mut session, grouped).unwrap(), [""; 0], "{how:?}");
    }
}

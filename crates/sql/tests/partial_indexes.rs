//! Random changes of a table that has indexes on expressions and of some rows, and of one without:
//! both hold the same rows, queries find the same by both, and each index has exactly its entries.

#![allow(clippy::unwrap_used, reason = "tests")]

mod clients;

use clients::{Client, Reply, TestDatabase};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const COLUMNS: &str = "(id int PRIMARY KEY, a int, b text, c int, gone boolean)";

const INDEXES: &[&str] = &[
    "CREATE INDEX ON t (lower(b))",
    "CREATE INDEX ON t (a) WHERE NOT gone",
    "CREATE INDEX ON t (c DESC, a) WHERE c IS NOT NULL",
    "CREATE INDEX ON t ((a + c), id) WHERE b = 'x' OR b = 'Y'",
    "CREATE INDEX ON t (b) WHERE a > 5",
    "CREATE INDEX ON t (upper(b), (a % 3)) WHERE gone IS NOT TRUE AND a BETWEEN 2 AND 8",
    "CREATE UNIQUE INDEX ON t ((id * 2))",
    "CREATE INDEX ON t ((100 / a)) WHERE a <> 0",
    "CREATE INDEX ON t (c) WHERE a IN (1, 2, 3)",
];

fn number(random: &mut StdRng) -> String {
    if random.random_bool(0.15) { "NULL".to_owned() } else { random.random_range(0..10).to_string() }
}

fn text(random: &mut StdRng) -> &'static str {
    ["NULL", "'x'", "'X'", "'y'", "'Y'", "'zebra'", "''"].choose(random).unwrap()
}

fn truth(random: &mut StdRng) -> &'static str {
    ["true", "false", "NULL"].choose(random).unwrap()
}

fn condition(random: &mut StdRng) -> String {
    let (n, m) = (random.random_range(0..10), random.random_range(0..10));
    let text = ["x", "X", "y", "Y", "zebra"].choose(random).unwrap();
    match random.random_range(0..19) {
        0 => format!("lower(b) = '{}'", text.to_ascii_lowercase()),
        1 => format!("lower(b) LIKE '{}%'", &text.to_ascii_lowercase()[..1]),
        2 => "NOT gone".to_owned(),
        3 => format!("a = {n} AND gone = false"),
        4 => format!("c > {n}"),
        5 => format!("c = {n} AND a < {m}"),
        6 => format!("a + c = {n} AND b = 'x'"),
        7 => format!("a + c > {n} AND b IN ('x', 'Y')"),
        8 => format!("b = '{text}' AND a > {n}"),
        9 => format!("b = '{text}' AND a = {n}"),
        10 => format!("upper(b) = '{}' AND NOT gone AND a = {n}", text.to_ascii_uppercase()),
        11 => format!("upper(b) = '{}' AND gone IS NOT TRUE AND a > 1 AND a < 9", text.to_ascii_uppercase()),
        12 => format!("id * 2 = {n}"),
        13 => format!("a <> 0 AND 100 / a > {n}"),
        14 => format!("a > {n} AND 100 / a = {}", 100 / (n + 1)),
        15 => format!("c = {n} AND a IN (1, 3)"),
        16 => format!("c >= {n} AND a = 2"),
        17 => format!("(lower(b) = 'x' OR a = {n} AND NOT gone)"),
        _ => format!("c IS NOT NULL AND a IS NULL AND id > {n}"),
    }
}

/// The same text for the table with indexes and the one without.
fn on_both(client: &mut Client, statement: &str) -> [Result<Vec<String>, &'static str>; 2] {
    ["t", "plain"].map(|table| match client.send(&statement.replace("TABLE", table)) {
        Reply::Done(rows, _) => Ok(rows),
        other => Err(other.code(statement)),
    })
}

fn history(seed: u64) {
    let db = TestDatabase::new(&format!("CREATE TABLE t {COLUMNS}; CREATE TABLE plain {COLUMNS}"));
    let (mut client, mut random) = (db.client(), StdRng::seed_from_u64(seed));
    let fill = "INSERT INTO TABLE SELECT g, nullif(g * 7 % 11, 10), CASE g % 5 WHEN 0 THEN 'x' WHEN 1 THEN 'Y' END,
                g * 3 % 13, g % 4 = 0 FROM generate_series(200, 999) AS g";
    assert!(on_both(&mut client, fill).iter().all(Result::is_ok));
    let mut by_index = 0;
    let mut waiting: Vec<&str> = INDEXES.to_vec();
    for step in 0..100 {
        // Some indexes come when there are rows already.
        if !waiting.is_empty() && random.random_bool(0.2) {
            client.ok(waiting.remove(random.random_range(0..waiting.len())));
        }
        let id = random.random_range(0..60);
        let statement = match random.random_range(0..10) {
            0..4 => format!(
                "INSERT INTO TABLE VALUES ({id}, {}, {}, {}, {}) ON CONFLICT (id) DO UPDATE SET a = excluded.a, b = excluded.b",
                number(&mut random),
                text(&mut random),
                number(&mut random),
                truth(&mut random),
            ),
            4 => format!("UPDATE TABLE SET a = {} WHERE {}", number(&mut random), condition(&mut random)),
            5 => format!("UPDATE TABLE SET b = {} WHERE id % 7 = {}", text(&mut random), id % 7),
            6 => format!("UPDATE TABLE SET c = c + 1, gone = {} WHERE id < {id}", truth(&mut random)),
            7 => format!("UPDATE TABLE SET id = id + 60 WHERE id = {id}"),
            8 => format!("DELETE FROM TABLE WHERE {} AND id % 3 = {}", condition(&mut random), id % 3),
            _ => {
                client.ok("BEGIN");
                for statement in ["UPDATE TABLE SET a = a + 1, b = upper(b)", "DELETE FROM TABLE WHERE id % 2 = 0"] {
                    let [with, without] = on_both(&mut client, statement);
                    assert_eq!(with, without, "seed {seed}, step {step}: {statement}");
                }
                client.ok("ROLLBACK");
                "SELECT count(*) FROM TABLE".to_owned()
            }
        };
        let [with, without] = on_both(&mut client, &statement);
        assert_eq!(with, without, "seed {seed}, step {step}: {statement}");
        let condition = condition(&mut random);
        let plan = client.ok(&format!("EXPLAIN SELECT * FROM t WHERE {condition}"));
        by_index += usize::from(plan.iter().any(|line| line.contains(" using t_") && !line.contains("t_pkey")));
        for query in [
            format!("SELECT * FROM TABLE WHERE {condition} ORDER BY id"),
            format!("SELECT count(*), min(a), max(c) FROM TABLE WHERE {condition}"),
            format!("SELECT id, lower(b) FROM TABLE WHERE {condition} ORDER BY lower(b) DESC NULLS LAST, id LIMIT 4"),
        ] {
            let [with, without] = on_both(&mut client, &query);
            assert_eq!(with, without, "seed {seed}, step {step}: {query}");
        }
    }
    drop(client);
    assert!(by_index > 20, "seed {seed}: {by_index} of 100 queries went by such an index");
    assert_eq!(db.engine.check().unwrap(), Vec::<String>::new(), "seed {seed}");
}

#[test]
fn queries_find_the_same_with_and_without_and_indexes_have_their_entries() {
    (0..12).for_each(history);
}

/// Whoever has counted by a partial index, and whoever changes a row that comes into it, cannot
/// both commit on what they have seen.
#[test]
fn a_row_that_comes_into_a_partial_index_is_a_conflict() {
    let db = TestDatabase::new(
        "CREATE TABLE t (id int PRIMARY KEY, state text, n int); CREATE INDEX ON t (n) WHERE state = 'open';
         INSERT INTO t SELECT g, 'done', g FROM generate_series(1, 1000) AS g",
    );
    let mut one = db.begun("BEGIN ISOLATION LEVEL SERIALIZABLE");
    let mut other = db.begun("BEGIN ISOLATION LEVEL SERIALIZABLE");
    assert_eq!(one.ok("SELECT count(*) FROM t WHERE state = 'open'"), ["0"]);
    assert_eq!(other.ok("SELECT count(*) FROM t WHERE state = 'open'"), ["0"]);
    one.ok("UPDATE t SET state = 'open' WHERE id = 1");
    other.ok("UPDATE t SET state = 'open' WHERE id = 2");
    one.ok("COMMIT");
    assert_eq!(other.fails("COMMIT"), "40001");
}

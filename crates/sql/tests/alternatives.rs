//! Conditions that are alternatives (`OR`, rows in a list, rows compared) find the same rows by
//! keys and indexes as without any, in the order that was asked for.
//!
//! Random tables and conditions; a seed that fails is told, and `COLIBRI_SEED` runs it again.

#![allow(clippy::unwrap_used, reason = "tests")]

use colibri_sql::{Engine, Session};
use colibri_storage::{Database, Durability, Options};
use rand::prelude::*;
use rand::rngs::StdRng;

/// Values of a column are of 0 to this, and NULL where it may be.
const VALUES: i32 = 6;

fn value(random: &mut StdRng) -> String {
    if random.random_ratio(1, 25) { "NULL".to_owned() } else { random.random_range(-1..=VALUES + 1).to_string() }
}

/// A comparison of one column.
fn one(random: &mut StdRng) -> String {
    let column = ["a", "b", "c", "d"].choose(random).unwrap();
    match random.random_range(0..8) {
        0..3 => format!("{column} = {}", value(random)),
        3 => format!("{column} IN ({}, {})", value(random), value(random)),
        4 => format!("{column} BETWEEN {} AND {}", value(random), value(random)),
        5 => format!("{column} IS NULL"),
        6 => format!("{column} = ANY (ARRAY[{}, {}]::int[])", value(random), value(random)),
        _ => format!("{column} {} {}", ["<", "<=", ">", ">=", "<>"].choose(random).unwrap(), value(random)),
    }
}

fn all_of(random: &mut StdRng) -> String {
    let count = random.random_range(1..=3);
    let parts: Vec<String> = (0..count).map(|_| one(random)).collect();
    parts.join(" AND ")
}

/// Alternatives of some form.
fn any_of(random: &mut StdRng) -> String {
    let columns: &[&str] = [&["a", "b"][..], &["a", "b", "c"], &["b", "a"], &["d", "a"]].choose(random).unwrap();
    let row = |random: &mut StdRng| {
        let values: Vec<String> = columns.iter().map(|_| value(random)).collect();
        format!("({})", values.join(", "))
    };
    match random.random_range(0..4) {
        0 => {
            let count = random.random_range(1..6);
            let rows: Vec<String> = (0..count).map(|_| row(random)).collect();
            format!("({}) IN ({})", columns.join(", "), rows.join(", "))
        }
        1 => {
            let op = ["<", "<=", ">", ">="].choose(random).unwrap();
            format!("({}) {op} {}", columns.join(", "), row(random))
        }
        _ => {
            let count = random.random_range(2..5);
            let parts: Vec<String> = (0..count).map(|_| format!("({})", all_of(random))).collect();
            format!("({})", parts.join(" OR "))
        }
    }
}

fn rows(session: &mut Session, text: &str) -> Vec<Vec<Option<String>>> {
    let answers = session.run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    answers[0].text_rows(session)
}

fn run(seed: u64) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync);
    let engine = Engine::open(Database::open(dir.path(), &options).unwrap()).unwrap();
    let mut session = Session::new(&engine, "postgres");
    session
        .run(
            "CREATE TABLE k (a int, b int, c int, d int, PRIMARY KEY (a, b, c));
             CREATE INDEX k_b ON k (b DESC, a);
             CREATE INDEX k_d ON k (d, c DESC NULLS LAST);
             CREATE TABLE n (a int, b int, c int, d int)",
        )
        .unwrap();
    for a in 0..=VALUES {
        for b in 0..=VALUES {
            for c in 0..=VALUES {
                if random.random_ratio(2, 3) {
                    let d = value(&mut random);
                    session.run(&format!("INSERT INTO k VALUES ({a}, {b}, {c}, {d})")).unwrap();
                }
            }
        }
    }
    session.run("INSERT INTO n SELECT * FROM k; ANALYZE").unwrap();
    let mut by_alternatives = 0;
    for _ in 0..300 {
        let mut condition = any_of(&mut random);
        for _ in 0..random.random_range(0..3) {
            let other = if random.random() { one(&mut random) } else { any_of(&mut random) };
            condition = format!("{condition} AND {other}");
        }
        let order = [
            "a, b, c",
            "a DESC, b DESC, c DESC",
            "b DESC, a, c",
            "b, a DESC, c",
            "d, c DESC NULLS LAST, a, b",
            "c, a, b",
        ]
        .choose(&mut random)
        .unwrap();
        let limit = if random.random() { format!(" LIMIT {}", random.random_range(1..8)) } else { String::new() };
        let query = |table: &str| format!("SELECT * FROM {table} WHERE {condition} ORDER BY {order}{limit}");
        let (found, expected) = (rows(&mut session, &query("k")), rows(&mut session, &query("n")));
        assert_eq!(found, expected, "seed {seed}: {}", query("k"));
        let count = |table: &str| format!("SELECT count(*) FROM {table} WHERE {condition}");
        let (found, expected) = (rows(&mut session, &count("k")), rows(&mut session, &count("n")));
        assert_eq!(found, expected, "seed {seed}: {}", count("k"));
        let plan = rows(&mut session, &format!("EXPLAIN {}", query("k")));
        by_alternatives += usize::from(
            plan.iter().flatten().flatten().any(|line| line.contains("Index Cond: (") && line.contains(" OR ")),
        );
    }
    by_alternatives
}

#[test]
fn alternatives_find_by_keys_what_they_find_without() {
    if let Ok(seed) = std::env::var("COLIBRI_SEED") {
        run(seed.parse().unwrap());
        return;
    }
    let first: u64 = rand::rng().random_range(0..1 << 32);
    println!("seeds from {first}");
    let by_alternatives: usize = (first..first + 8).map(run).sum();
    assert!(by_alternatives > 100, "few of the plans have used alternatives: {by_alternatives}");
}

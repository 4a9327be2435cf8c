//! Rows that are found by patterns, by what queries and settings give, in an order with a LIMIT
//! through joins, and by plans for the values that a statement is run with, are those that are
//! found without any index.
//!
//! Random tables and conditions; a seed that fails is told, and `COLIBRI_SEED` runs it again.

#![allow(clippy::unwrap_used, reason = "tests")]

use colibri_sql::{Engine, Session};
use colibri_storage::{Database, Durability, Options};
use rand::prelude::*;
use rand::rngs::StdRng;

const ROWS: usize = 3_000;

/// A text of few letters, so that many have the same beginnings.
fn text(random: &mut StdRng, length_max: usize) -> String {
    let length = random.random_range(0..=length_max);
    (0..length).map(|_| *["a", "b", "B", "%", "_", "\\", ".", "\u{10ffff}"].choose(random).unwrap()).collect()
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn pattern(random: &mut StdRng) -> String {
    let column = ["s", "v"].choose(random).unwrap();
    let mut begins = text(random, 2);
    match random.random_range(0..4) {
        0 => {
            begins = begins.replace('\\', "\\\\");
            begins.push_str(["", "%", "_", "%a", "\\%"].choose(random).unwrap());
            format!("{column} LIKE {}", literal(&begins))
        }
        1 => {
            let plain: String = begins.chars().filter(|letter| letter.is_ascii_alphanumeric()).collect();
            let rest = ["", "$", ".", "*", "+", "[ab]", "|b", "\\.", "(a|b)"].choose(random).unwrap();
            format!("{column} ~ {}", literal(&format!("^{plain}b{rest}")))
        }
        2 => format!("starts_with({column}, {})", literal(&begins)),
        _ => format!("{column} LIKE (SELECT p FROM q WHERE i = {})", random.random_range(0..6)),
    }
}

fn bound(random: &mut StdRng) -> String {
    let column = ["id", "k", "g"].choose(random).unwrap();
    let op = ["=", "=", "<", "<=", ">", ">="].choose(random).unwrap();
    let which = random.random_range(0..6);
    match random.random_range(0..7) {
        0..3 => format!("{column} {op} (SELECT n FROM q WHERE i = {which})"),
        3 => format!("{column} {op} (SELECT max(n) - {which} FROM q)"),
        4 => format!("{column} IN ({which}, (SELECT n FROM q WHERE i = {which}))"),
        5 => format!("{column} = ANY (ARRAY(SELECT n FROM q WHERE i <= {which}))"),
        _ => format!("{column} {op} current_setting('my.number')::int"),
    }
}

fn not_in(random: &mut StdRng) -> String {
    let column = ["id", "k", "g"].choose(random).unwrap();
    let inner = ["n", "m"].choose(random).unwrap();
    let tested = if random.random() { format!(" WHERE {inner} IS NOT NULL") } else { String::new() };
    format!("{column} NOT IN (SELECT {inner} FROM q{tested})")
}

fn condition(random: &mut StdRng) -> String {
    let mut all = Vec::new();
    for _ in 0..random.random_range(1..=3) {
        let one = match random.random_range(0..8) {
            0..3 => pattern(random),
            3..6 => bound(random),
            6 => not_in(random),
            _ => format!("({} OR {})", pattern(random), bound(random)),
        };
        all.push(one);
    }
    all.join(" AND ")
}

fn rows(session: &mut Session, text: &str) -> Vec<Vec<Option<String>>> {
    let answers = session.run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    answers.last().unwrap().text_rows(session)
}

/// `t` has indexes and `n` has none; `g` has one value in nearly all rows and many in the others.
fn fill(session: &mut Session, random: &mut StdRng) {
    session
        .run(
            "CREATE TABLE t (id int PRIMARY KEY, k int, g int NOT NULL, s text, v varchar(9));
             CREATE INDEX t_k ON t (k DESC, s); CREATE INDEX t_g ON t (g); CREATE INDEX t_s ON t (s, k);
             CREATE INDEX t_v ON t (v DESC NULLS LAST);
             CREATE TABLE n (id int, k int, g int, s text, v varchar(9));
             CREATE TABLE q (i int, n int, m int NOT NULL, p text); SET my.number = '7'",
        )
        .unwrap();
    let mut values = Vec::new();
    for id in 0..ROWS {
        let g = if random.random_ratio(1, 100) { random.random_range(1..20) } else { 0 };
        let optional = |random: &mut StdRng, text: String| match random.random_ratio(1, 12) {
            true => "NULL".to_owned(),
            false => literal(&text),
        };
        let (s, v) = (text(random, 4), text(random, 3));
        let (s, v) = (optional(random, s), optional(random, v));
        values.push(format!("({id}, {}, {g}, {s}, {v})", id * 7 % 50));
    }
    session.run(&format!("INSERT INTO t VALUES {}", values.join(", "))).unwrap();
    session.run("INSERT INTO n SELECT * FROM t").unwrap();
    for i in 0..6 {
        let n = if i == 3 { "NULL".to_owned() } else { random.random_range(-1..60).to_string() };
        let p = if i == 4 { "NULL".to_owned() } else { literal(&(text(random, 2).replace('\\', "") + "%")) };
        session.run(&format!("INSERT INTO q VALUES ({i}, {n}, {i} * 9, {p})")).unwrap();
    }
}

const ORDERS: [&str; 6] = ["id", "id DESC", "s, k, id", "k DESC, s, id", "v DESC NULLS LAST, id", "g, id"];

fn run(seed: u64) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync);
    let engine = Engine::open(Database::open(dir.path(), &options).unwrap()).unwrap();
    let mut session = Session::new(&engine, "postgres");
    fill(&mut session, &mut random);
    let mut by_index = 0;
    for _ in 0..150 {
        let condition = condition(&mut random);
        let order = ORDERS.choose(&mut random).unwrap();
        let limit = if random.random() { format!(" LIMIT {}", random.random_range(1..8)) } else { String::new() };
        let query = |table: &str| format!("SELECT * FROM {table} WHERE {condition} ORDER BY {order}{limit}");
        let (found, expected) = (rows(&mut session, &query("t")), rows(&mut session, &query("n")));
        assert_eq!(found, expected, "seed {seed}: {}", query("t"));
        let plan = rows(&mut session, &format!("EXPLAIN {}", query("t")));
        by_index += usize::from(plan.iter().flatten().flatten().any(|line| line.contains("Index Cond: ")));
        // Joined, in the order of either side.
        let join = ["JOIN", "LEFT JOIN", "JOIN q AS r ON r.m = x.k LEFT JOIN"].choose(&mut random).unwrap();
        let order = ORDERS.choose(&mut random).unwrap().replace(", ", ", x.");
        let query = |table: &str| {
            format!(
                "SELECT x.id, q.i FROM {table} AS x {join} q ON q.n = x.k WHERE {condition}
                 ORDER BY x.{order}, q.i{limit}"
            )
        };
        let (found, expected) = (rows(&mut session, &query("t")), rows(&mut session, &query("n")));
        assert_eq!(found, expected, "seed {seed}: {}", query("t"));
    }
    // The plan follows the values, the rows do not.
    for table in ["t", "n"] {
        let text = format!(
            "PREPARE of_{table} AS SELECT x.id, y.k FROM {table} AS x JOIN {table} AS y ON y.id = x.k
             WHERE x.g = $1 AND x.s LIKE $2 AND x.id > $3 ORDER BY x.id LIMIT 50"
        );
        session.run(&text).unwrap();
    }
    for _ in 0..60 {
        let g = if random.random() { 0 } else { random.random_range(0..20) };
        let pattern = text(&mut random, 1).replace('\\', "") + "%";
        let id = [-1, 0, 100, ROWS as i32 - 50].choose(&mut random).unwrap();
        let execute = |table: &str| format!("EXECUTE of_{table}({g}, {}, {id})", literal(&pattern));
        let (found, expected) = (rows(&mut session, &execute("t")), rows(&mut session, &execute("n")));
        assert_eq!(found, expected, "seed {seed}: {}", execute("t"));
    }
    by_index
}

#[test]
fn what_is_known_before_the_first_row_finds_what_is_found_without() {
    if let Ok(seed) = std::env::var("COLIBRI_SEED") {
        run(seed.parse().unwrap());
        return;
    }
    let first: u64 = rand::rng().random_range(0..1 << 32);
    println!("seeds from {first}");
    let by_index: usize = (first..first + 4).map(run).sum();
    assert!(by_index > 100, "few of the plans have used an index: {by_index}");
}

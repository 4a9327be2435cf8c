//! Sorts, groups and joins of rows that come in the order of an index, joins that change over, rows
//! that several indexes find, least and greatest values at the ends of an index, and rows that an
//! OFFSET leaves out give what they give without any index.
//!
//! Random tables and queries; a seed that fails is told, and `COLIBRI_SEED` runs it again.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use colibri_sql::{Engine, Session};
use colibri_storage::{Database, Durability, Options};
use rand::prelude::*;
use rand::rngs::StdRng;

/// Enough for every way to pay.
const USERS: usize = 3_000;
const ORDERS: usize = 5_000;
const QUERIES: usize = 150;

/// What plans have to show now and then.
const WAYS: &[&str] = &[
    "Incremental Sort",
    "GroupAggregate",
    "Presorted Key",
    "Unique",
    "Merge Join",
    "Merge Left Join",
    "Merge Semi Join",
    "Merge Anti Join",
    "Adaptive Join",
    "Bitmap Heap Scan",
    "Indexes: o_",
    "Index Cond: (a IS NOT NULL)",
    "(f = true)",
    "(f = false)",
    // Values that are asked for, in the order that is wanted.
    "Sort Key: o.",
    "Run Condition",
    // The next page, in the order of the index.
    "Index Cond: (((f = true) AND (a",
];

/// A transaction that has changed what it reads.
const CHANGES: &str = "BEGIN; UPDATE u SET a = a + 1, f = NOT f WHERE id % 97 = 0; DELETE FROM u WHERE id % 89 = 4;
    DELETE FROM o WHERE id % 89 = 3; INSERT INTO u VALUES (1, 2, 3, 4, 't5', true), (3, NULL, NULL, NULL, NULL, NULL)";

const INDEXES: &str = "CREATE INDEX u_a ON u (a); CREATE INDEX u_bd ON u (b DESC, d NULLS FIRST);
    CREATE INDEX u_t ON u (t); CREATE INDEX u_fa ON u (f, a); CREATE INDEX o_u ON o (u); CREATE INDEX o_a ON o (a); CREATE INDEX o_d ON o (d DESC NULLS LAST)";

fn value(random: &mut StdRng, below: i32) -> String {
    if random.random_ratio(1, 12) { "NULL".to_owned() } else { random.random_range(0..below).to_string() }
}

/// Tables `u` and `o`, the same for all sessions.
fn setup(random: &mut StdRng) -> String {
    let users: Vec<String> = (0..USERS)
        .map(|id| {
            let text = value(random, 400);
            let text = if text == "NULL" { text } else { format!("'t{text}'") };
            let (a, b, d) = (value(random, 30), value(random, 700), value(random, 9));
            let flag = ["true", "false", "false", "false", "NULL"].choose(random).unwrap();
            format!("({}, {a}, {b}, {d}, {text}, {flag})", id * 2)
        })
        .collect();
    let orders: Vec<String> = (0..ORDERS)
        .map(|id| {
            let user = value(random, USERS as i32 * 3);
            format!("({id}, {user}, {}, {})", value(random, 4), value(random, 40))
        })
        .collect();
    format!(
        "CREATE TABLE u (id int PRIMARY KEY, a int, b int, d int, t text, f boolean);
         CREATE TABLE o (id int PRIMARY KEY, u int, a int, d int);
         INSERT INTO u VALUES {}; INSERT INTO o VALUES {}",
        users.join(", "),
        orders.join(", "),
    )
}

/// A session with its own database; with or without indexes, and with all rewrites or none, or those
/// that pay.
fn session(setup: &str, indexed: bool, rewrites: Option<bool>) -> (tempfile::TempDir, Session) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync);
    let engine = Engine::open(Database::open(dir.path(), &options).unwrap()).unwrap();
    if let Some(all) = rewrites {
        engine.rewrite_queries(all);
    }
    let mut session = Session::new(&engine, "postgres");
    session.run(setup).unwrap();
    if indexed {
        session.run(INDEXES).unwrap();
    }
    session.run("ANALYZE").unwrap();
    (dir, session)
}

fn condition(random: &mut StdRng, table: &str) -> String {
    let columns: &[(&str, i32)] = if table == "u" {
        &[("a", 30), ("b", 700), ("d", 9), ("id", 6_000)]
    } else {
        &[("a", 4), ("d", 40), ("id", 5_000)]
    };
    if table == "u" && random.random_ratio(1, 6) {
        let flags =
            ["u.f", "NOT u.f", "u.f IS TRUE", "u.f IS NOT TRUE", "u.f IS FALSE", "u.f IS UNKNOWN", "u.f = true"];
        return (*flags.choose(random).unwrap()).to_owned();
    }
    let &(column, below) = columns.choose(random).unwrap();
    match random.random_range(0..7) {
        0 => format!("{table}.{column} = {}", random.random_range(0..below)),
        1 => format!("{table}.{column} >= {}", random.random_range(0..below)),
        2 => format!("{table}.{column} < {}", random.random_range(0..below)),
        3 => format!("{table}.{column} IS NOT NULL"),
        // Nobody knows how many rows these leave.
        4 => format!("({table}.{column} * 7) % 5 <> {}", random.random_range(0..5)),
        5 => format!("({table}.id * 7) % 1000 = {}", random.random_range(0..1000)),
        _ => {
            let low = random.random_range(0..below);
            format!("{table}.{column} BETWEEN {low} AND {}", low + below / 2)
        }
    }
}

fn conditions(random: &mut StdRng, tables: &[&str]) -> String {
    let count = random.random_range(0..=2);
    let mut one = || {
        let table = tables.choose(random).unwrap();
        condition(random, table)
    };
    let all: Vec<String> = (0..count).map(|_| one()).collect();
    if all.is_empty() { "true".to_owned() } else { all.join(" AND ") }
}

/// Some of the keys, each in some direction, and the last ones, which make the order a total one.
fn order(random: &mut StdRng, keys: &[&str], last: &[&str]) -> String {
    let mut keys: Vec<&str> = keys.to_vec();
    keys.shuffle(random);
    keys.truncate(random.random_range(1..=keys.len()));
    let flipped = random.random_ratio(1, 3);
    let key = |key: &str, random: &mut StdRng| {
        let descending = random.random_ratio(1, 4) != flipped;
        let nulls = ["", "", "", " NULLS FIRST", " NULLS LAST"].choose(random).unwrap();
        format!("{key}{}{nulls}", if descending { " DESC" } else { "" })
    };
    let all: Vec<String> = keys.iter().chain(last).map(|name| key(name, random)).collect();
    all.join(", ")
}

fn limit(random: &mut StdRng) -> String {
    match random.random_range(0..4) {
        0 => String::new(),
        1 => format!(" LIMIT {} OFFSET {}", random.random_range(0..40), random.random_range(0..200)),
        _ => format!(" LIMIT {}", random.random_range(0..40)),
    }
}

/// A query whose answer is the same in every order in which its rows may be found.
fn query(random: &mut StdRng) -> String {
    let filter = conditions(random, &["u"]);
    let end = limit(random);
    let both = conditions(random, &["u", "o"]);
    let join = ["JOIN", "LEFT JOIN"].choose(random).unwrap();
    let on = ["o.u = u.id", "o.id = u.id", "o.id = u.id AND o.a < u.d", "u.a = o.d AND o.a = 1", "o.d = u.b"]
        .choose(random)
        .unwrap();
    match random.random_range(0..16) {
        15 => up_to_a_number(random, &filter, &end),
        13 => of_windows(random, &filter, &end),
        // Functions that take values of another part, which others are joined to.
        14 => {
            let order = order(random, &["u.id", "g", "o.d"], &["u.id", "g", "o.id"]);
            format!(
                "SELECT u.id, g, o.id, o.d FROM u CROSS JOIN LATERAL generate_series(u.a - 1, u.a) g \
                 {join} o ON o.id = g * 100 WHERE {both} ORDER BY {order}{end}"
            )
        }
        9 => {
            let end = |random: &mut StdRng| {
                format!(
                    "{}({})",
                    ["min", "max"].choose(random).unwrap(),
                    ["a", "b", "d", "t", "id"].choose(random).unwrap()
                )
            };
            let ends: Vec<String> = (0..random.random_range(1..=2)).map(|_| end(random)).collect();
            format!("SELECT {} FROM u WHERE {filter}", ends.join(", "))
        }
        // The next page of some that have a value in common.
        12 => {
            let (a, id) = (random.random_range(0..30), random.random_range(0..6_000));
            let op = ["<", "<=", ">", ">="].choose(random).unwrap();
            let behind = match random.random_ratio(1, 2) {
                true => format!("(a, id) {op} ({a}, {id})"),
                false => format!("(a {} {a} OR (a = {a} AND id {op} {id}))", &op[..1]),
            };
            let direction = ["", " DESC"].choose(random).unwrap();
            format!("SELECT id, a FROM u WHERE f AND {behind} ORDER BY a{direction}, id{direction} LIMIT {}", id % 20)
        }
        11 => {
            let (own, other) = [("id", "u"), ("id", "id"), ("a", "d"), ("b", "d"), ("b", "u")].choose(random).unwrap();
            let (order, of_values) = (order(random, &[&format!("u.{own}")], &["u.id"]), conditions(random, &["o"]));
            let join = if random.random_ratio(1, 3) { "JOIN o AS p ON p.id = u.id" } else { "" };
            format!(
                "SELECT u.id, u.t FROM u {join} WHERE {filter} AND u.{own} IN (SELECT o.{other} FROM o WHERE {of_values}) \
                 ORDER BY {order}{end}"
            )
        }
        10 => {
            let table = ["u", "o"].choose(random).unwrap();
            let few = [String::new(), format!(" WHERE id BETWEEN {} AND 4000", random.random_range(0..4_000))];
            let direction = ["", " DESC"].choose(random).unwrap();
            let (few, passed) = (few.choose(random).unwrap(), random.random_range(0..6_000));
            format!("SELECT * FROM {table}{few} ORDER BY id{direction} LIMIT 3 OFFSET {passed}")
        }
        0 | 1 => {
            let order = order(random, &["a", "b", "d", "t", "a + d"], &["id"]);
            format!("SELECT id, a, b, d, t FROM u WHERE {filter} ORDER BY {order}{end}")
        }
        2 => {
            let keys: &[&str] = [&["a"][..], &["b", "d"], &["t"], &["t", "a"], &["id", "a"]].choose(random).unwrap();
            let having = if random.random_ratio(1, 3) { " HAVING count(*) > 1" } else { "" };
            let order = order(random, keys, keys);
            let keys = keys.join(", ");
            format!(
                "SELECT {keys}, count(*), sum(b), min(t), array_agg(d ORDER BY id) FROM u WHERE {filter} \
                 GROUP BY {keys}{having} ORDER BY {order}{end}"
            )
        }
        3 => {
            let keys: &[&str] = [&["a"][..], &["b", "d"], &["a", "d"], &["t", "d"]].choose(random).unwrap();
            let order = order(random, keys, keys);
            format!("SELECT DISTINCT {} FROM u WHERE {filter} ORDER BY {order}{end}", keys.join(", "))
        }
        4 => {
            let key = ["a", "b", "t"].choose(random).unwrap();
            let order = order(random, &["d", "t"], &["id"]);
            format!("SELECT DISTINCT ON ({key}) {key}, d, id FROM u WHERE {filter} ORDER BY {key}, {order}{end}")
        }
        5 | 6 => {
            let order = order(random, &["u.id", "o.id", "u.a", "o.d", "u.t"], &["u.id", "o.id"]);
            format!("SELECT u.id, u.t, o.id, o.d FROM u {join} o ON {on} WHERE {both} ORDER BY {order}{end}")
        }
        7 => {
            let not = ["", "NOT "].choose(random).unwrap();
            format!(
                "SELECT count(*), sum(u.id), min(u.t) FROM u WHERE {filter} AND {not}EXISTS (SELECT 1 FROM o WHERE {on})"
            )
        }
        _ => {
            let order = order(random, &["u.a", "u.id"], &["u.id"]);
            format!(
                "SELECT u.id, count(o.id), sum(o.d) FROM u {join} o ON {on} WHERE {both} GROUP BY u.id \
                 ORDER BY {order}{end}"
            )
        }
    }
}

/// Functions over windows, of which some take the order that rows come in, and some go on row by
/// row.
fn of_windows(random: &mut StdRng, filter: &str, end: &str) -> String {
    let keys: &[&str] = &["a", "b", "d", "t"];
    let total = order(random, keys, &["id"]);
    let window = |random: &mut StdRng| {
        let partition = ["", "", "PARTITION BY a ", "PARTITION BY d "].choose(random).unwrap();
        let by = match random.random_range(0..4) {
            0 => "id".to_owned(),
            1 => "id DESC".to_owned(),
            2 => total.clone(),
            _ => order(random, keys, &[]),
        };
        let frame = [
            "",
            "",
            " ROWS UNBOUNDED PRECEDING",
            " GROUPS UNBOUNDED PRECEDING",
            " RANGE UNBOUNDED PRECEDING EXCLUDE TIES",
        ]
        .choose(random)
        .unwrap();
        let call = ["sum(b)", "count(*)", "rank()", "min(t)", "avg(d) FILTER (WHERE f)"].choose(random).unwrap();
        // Which of several equal rows come first nobody says.
        let is_total = by.contains("id");
        let frame = if is_total || !frame.contains("ROWS") { frame } else { "" };
        format!("{call} OVER ({partition}ORDER BY {by}{frame})")
    };
    let calls: Vec<String> = (0..random.random_range(1..=2)).map(|_| window(random)).collect();
    let by = ["id", "id DESC", &*total].choose(random).unwrap().to_owned();
    format!("SELECT id, {} FROM u WHERE {filter} ORDER BY {by}{end}", calls.join(", "))
}

/// Rows of a subquery up to some number in a window.
fn up_to_a_number(random: &mut StdRng, filter: &str, end: &str) -> String {
    let partition = ["", "", "PARTITION BY a ", "PARTITION BY f, d "].choose(random).unwrap();
    let by = if random.random_ratio(1, 3) { "id".to_owned() } else { order(random, &["a", "b", "d", "t"], &["id"]) };
    let call = ["row_number()", "rank()", "dense_rank()", "count(*)", "count(b)"].choose(random).unwrap();
    let beside = ["", ", sum(b) OVER w AS v", ", count(*) OVER (PARTITION BY d) AS v"].choose(random).unwrap();
    let most = random.random_range(-1..40);
    let bound = match random.random_range(0..5) {
        0 => format!("n < {most}"),
        1 => format!("{most} >= n"),
        2 => format!("n = {most}"),
        3 => format!("n BETWEEN {} AND {most}", most - 7),
        _ => format!("n <= {most} AND (id * 7) % 5 <> 2"),
    };
    let order = order(random, &["n", "id"], &["id"]);
    format!(
        "SELECT * FROM (SELECT id, a, {call} OVER w AS n{beside} FROM u WHERE {filter} \
         WINDOW w AS ({partition}ORDER BY {by})) AS s WHERE {bound} ORDER BY {order}{end}"
    )
}

/// Conditions that two indexes answer.
fn of_two_indexes(random: &mut StdRng) -> String {
    let low = random.random_range(0..30);
    format!(
        "SELECT count(*), sum(id), sum(u) FROM o WHERE a = {} AND d BETWEEN {low} AND {}",
        random.random_range(0..4),
        low + random.random_range(2..12)
    )
}

fn rows(session: &mut Session, text: &str) -> Vec<Vec<Option<String>>> {
    let answers = session.run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    answers[0].text_rows(session)
}

fn run(seed: u64, seen: &mut BTreeMap<&'static str, usize>) {
    let mut random = StdRng::seed_from_u64(seed);
    let setup = setup(&mut random);
    let (_plain_dir, mut plain) = session(&setup, false, Some(false));
    let mut others = [session(&setup, true, None), session(&setup, true, Some(true))];
    for at in 0..QUERIES {
        if at == QUERIES * 2 / 3 {
            plain.run(CHANGES).unwrap();
            others.iter_mut().for_each(|(_, session)| drop(session.run(CHANGES).unwrap()));
        }
        let query = if random.random_ratio(1, 10) { of_two_indexes(&mut random) } else { query(&mut random) };
        let expected = rows(&mut plain, &query);
        for (_, session) in &mut others {
            let found = rows(session, &query);
            let plan = rows(session, &format!("EXPLAIN VERBOSE {query}"));
            assert_eq!(found, expected, "seed {seed}: {query}\n{plan:#?}");
            let lines: Vec<&String> = plan.iter().flatten().flatten().collect();
            for &way in WAYS {
                *seen.entry(way).or_default() += usize::from(lines.iter().any(|line| line.contains(way)));
            }
        }
    }
}

#[test]
fn rows_in_the_order_of_an_index_give_the_same_answers_as_without_one() {
    if let Ok(seed) = std::env::var("COLIBRI_SEED") {
        run(seed.parse().unwrap(), &mut BTreeMap::new());
        return;
    }
    let first: u64 = rand::rng().random_range(0..1 << 32);
    println!("seeds from {first}");
    let two = |first: u64| {
        let mut seen = BTreeMap::new();
        (first..first + 2).for_each(|seed| run(seed, &mut seen));
        seen
    };
    let (mut seen, others) = std::thread::scope(|scope| {
        let others = scope.spawn(|| two(first + 2));
        (two(first), others.join().unwrap())
    });
    others.into_iter().for_each(|(way, times)| *seen.entry(way).or_default() += times);
    for &way in WAYS {
        assert!(seen[way] > 3, "{way} was seldom seen: {seen:?}");
    }
}

//! Random changes of a table with inverted indexes, and of one without: both hold the same rows,
//! conditions find the same by tokens and by reading all rows, and each index has exactly its
//! entries. And what transactions depend on that have read such an index.

#![allow(clippy::unwrap_used, reason = "tests")]

mod clients;

use clients::{Client, Reply, TestDatabase};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const COLUMNS: &str = "(id int PRIMARY KEY, d jsonb, a int[], w text[], t text, r int4range, n numrange)";

const INDEXES: &[&str] = &[
    "CREATE INDEX ON t USING gin (d)",
    "CREATE INDEX ON t USING gin (d jsonb_path_ops) WHERE id % 2 = 0",
    "CREATE INDEX ON t USING gin (a, w)",
    "CREATE INDEX ON t USING gin (t gin_trgm_ops)",
    "CREATE INDEX ON t USING gin ((d -> 'b') jsonb_path_ops)",
    "CREATE INDEX ON t USING gist (upper(t) gist_trgm_ops)",
    "CREATE INDEX ON t USING gist (r)",
    "CREATE INDEX ON t USING gist (n, r)",
    "CREATE INDEX ON t (id DESC)",
];

fn scalar(random: &mut StdRng) -> String {
    ["1", "2", "3", "1.50", "true", "false", "null", r#""a""#, r#""b""#, r#""c""#, r#""it is long""#]
        .choose(random)
        .unwrap()
        .to_string()
}

fn document(random: &mut StdRng, depth: usize) -> String {
    let several = |random: &mut StdRng, one: &mut dyn FnMut(&mut StdRng) -> String| {
        let count = random.random_range(0..3);
        (0..count).map(|_| one(random)).collect::<Vec<_>>().join(",")
    };
    match random.random_range(0..if depth == 0 { 1 } else { 5 }) {
        0 => scalar(random),
        1 => format!("[{}]", several(random, &mut |random| document(random, depth - 1))),
        _ => format!(
            "{{{}}}",
            several(random, &mut |random| {
                let key = ["a", "b", "c", "d"].choose(random).unwrap();
                format!(r#""{key}":{}"#, document(random, depth - 1))
            })
        ),
    }
}

fn numbers(random: &mut StdRng) -> String {
    let count = random.random_range(0..4);
    let one = |random: &mut StdRng| {
        if random.random_bool(0.1) { "NULL".to_owned() } else { random.random_range(0..12).to_string() }
    };
    format!("{{{}}}", (0..count).map(|_| one(random)).collect::<Vec<_>>().join(","))
}

fn words(random: &mut StdRng) -> String {
    let count = random.random_range(0..4);
    let one = |random: &mut StdRng| ["x", "yy", "zebra", "NULL", "\"\""].choose(random).unwrap().to_string();
    format!("{{{}}}", (0..count).map(|_| one(random)).collect::<Vec<_>>().join(","))
}

fn text(random: &mut StdRng) -> String {
    let count = random.random_range(0..4);
    let parts = ["foo", "Bar", "foobar", " ", "-", "straße", "Übung", "a", "12", "x y"];
    (0..count).map(|_| *parts.choose(random).unwrap()).collect()
}

/// A range of whole numbers.
fn range(random: &mut StdRng) -> String {
    let low = random.random_range(-60..60);
    let high = low + [0, 1, 3, 20, 200].choose(random).unwrap();
    match random.random_range(0..9) {
        0 => format!("(,{high})"),
        1 => format!("[{low},)"),
        2 => "(,)".to_owned(),
        3 => "empty".to_owned(),
        _ => format!("[{low},{high})"),
    }
}

fn or_null(random: &mut StdRng, value: String) -> String {
    if random.random_bool(0.1) { "NULL".to_owned() } else { format!("'{value}'") }
}

fn values(random: &mut StdRng) -> String {
    let all = [document(random, 3), numbers(random), words(random), text(random), range(random), range(random)];
    all.map(|value| or_null(random, value)).join(", ")
}

fn condition(random: &mut StdRng) -> String {
    let n = random.random_range(0..900);
    match random.random_range(0..27) {
        22 => format!("r @> {}", random.random_range(-70..70)),
        23..25 => {
            let operator = ["&&", "@>", "<@", "=", "<<", ">>"].choose(random).unwrap();
            format!("r {operator} '{}'::int4range", range(random))
        }
        25 => format!("n {} '{}'::numrange", ["&&", "@>", "<@", "="].choose(random).unwrap(), range(random)),
        26 => format!("'{}'::int4range {} r", range(random), ["&&", "@>", "<@", "<<", ">>"].choose(random).unwrap()),
        0..3 => format!("d @> '{}'", document(random, 3)),
        3 => format!("d ? '{}'", ["a", "b", "c", "x"].choose(random).unwrap()),
        4 => format!(
            "d ?{} '{{{}}}'",
            ["|", "&"].choose(random).unwrap(),
            ["a,b", "c", "", "b,NULL"].choose(random).unwrap()
        ),
        5 | 6 => {
            let path = [
                "$.a",
                "$.a.b",
                "$.** ? (@ == 1.5)",
                "$.a ? (@ == \"b\")",
                "$[*] ? (@.a == 1 || @.b == 2)",
                "$.*.c",
                "$.a.size() ? (@ > 1)",
                "$.b[*].a ? (@ == null)",
                "strict $.a[0].b",
                "$.a ? (!(@ == 1))",
            ];
            format!("d @? '{}'", path.choose(random).unwrap())
        }
        7 => {
            let path =
                ["$.a == 1", "$.a.b == \"a\" && $.c == 1", "$.a > 1", "exists($.b.c)", "$.b == 1 || $.c == true"];
            format!("d @@ '{}'", path.choose(random).unwrap())
        }
        8 => format!("d -> 'b' @> '{}'", document(random, 2)),
        9..12 => format!("a {} '{}'", ["@>", "<@", "&&", "="].choose(random).unwrap(), numbers(random)),
        12 | 13 => format!("w {} '{}'", ["@>", "<@", "&&", "="].choose(random).unwrap(), words(random)),
        14..17 => {
            let operator = ["LIKE", "ILIKE", "NOT LIKE"].choose(random).unwrap();
            let (left, right) = (["%", "", "_"].choose(random).unwrap(), ["%", "", "_%"].choose(random).unwrap());
            format!("t {operator} '{left}{}{right}'", text(random))
        }
        17 => {
            let pattern = ["foo+", "^foo", "bar$", "(foo|bar) ?a", "[fF]oo.*1", r"\mx", "ßE?", "übung"];
            format!("t {} '{}'", ["~", "~*"].choose(random).unwrap(), pattern.choose(random).unwrap())
        }
        18 => format!("t {} '{}'", ["%", "%>", "%>>", "="].choose(random).unwrap(), text(random)),
        19 => format!("upper(t) LIKE '%{}%'", ["FOO", "BAR", "ÜBUNG", "X Y"].choose(random).unwrap()),
        20 => format!("id % 2 = 0 AND d @> '{}'", document(random, 2)),
        _ => format!("id < {n}"),
    }
}

fn conditions(random: &mut StdRng) -> String {
    let one = condition(random);
    match random.random_range(0..6) {
        0 => format!("{one} AND {}", condition(random)),
        1 => format!("({one} OR {})", condition(random)),
        2 => format!("{one} AND ({} OR {})", condition(random), condition(random)),
        3 => format!("NOT ({one})"),
        _ => one,
    }
}

/// The same text for the table with indexes and the one without.
fn on_both(client: &mut Client, statement: &str) -> [Result<Vec<String>, &'static str>; 2] {
    ["t", "plain"].map(|table| match client.send(&statement.replace("TABLE", table)) {
        Reply::Done(rows, _) => Ok(rows),
        other => Err(other.code(statement)),
    })
}

/// `rows`: as many there are at first; with few of them, every way by tokens is tried.
fn history(seed: u64, rows: usize) {
    let db =
        TestDatabase::new(&format!("CREATE EXTENSION pg_trgm; CREATE TABLE t {COLUMNS}; CREATE TABLE plain {COLUMNS}"));
    if rows < 1_000 {
        db.engine.rewrite_queries(true);
    }
    let (mut client, mut random) = (db.client(), StdRng::seed_from_u64(seed));
    let all: Vec<String> = (0..rows).map(|id| format!("({}, {})", 100 + id, values(&mut random))).collect();
    assert!(on_both(&mut client, &format!("INSERT INTO TABLE VALUES {}", all.join(", "))).iter().all(Result::is_ok));
    let mut by_index = 0;
    let mut waiting: Vec<&str> = INDEXES.to_vec();
    for step in 0..60 {
        // Some indexes come when there are rows already.
        if !waiting.is_empty() && random.random_bool(0.4) {
            client.ok(waiting.remove(random.random_range(0..waiting.len())));
        }
        let id = random.random_range(0..200);
        let statement = match random.random_range(0..9) {
            0..3 => format!(
                "INSERT INTO TABLE VALUES ({id}, {}) ON CONFLICT (id) DO UPDATE SET d = excluded.d, a = excluded.a",
                values(&mut random)
            ),
            3 => {
                let new = document(&mut random, 3);
                format!(
                    "UPDATE TABLE SET d = {} WHERE {} AND id < 300",
                    or_null(&mut random, new),
                    condition(&mut random)
                )
            }
            4 => format!("UPDATE TABLE SET w = w || 'new'::text, t = t || 'foo' WHERE id % 7 = {}", id % 7),
            5 => format!("UPDATE TABLE SET id = id + 10000 WHERE id = {id}"),
            6 => format!("DELETE FROM TABLE WHERE {} AND id % 3 = {}", conditions(&mut random), id % 3),
            7 => format!(
                "MERGE INTO TABLE AS m USING (VALUES ({id}, '{}'::int[])) AS s (id, a) ON m.id = s.id \
                 WHEN MATCHED AND m.a @> s.a THEN DELETE WHEN MATCHED THEN UPDATE SET a = s.a \
                 WHEN NOT MATCHED THEN INSERT (id, a) VALUES (s.id, s.a)",
                numbers(&mut random)
            ),
            _ => {
                client.ok("BEGIN");
                for statement in [
                    "UPDATE TABLE SET t = upper(t), a = a || 7",
                    "DELETE FROM TABLE WHERE id % 2 = 0",
                    "UPDATE TABLE SET d = NULL",
                ] {
                    let [with, without] = on_both(&mut client, statement);
                    assert_eq!(with, without, "seed {seed}, step {step}: {statement}");
                    let query = format!("SELECT id FROM TABLE WHERE {} ORDER BY id", conditions(&mut random));
                    let [with, without] = on_both(&mut client, &query);
                    assert_eq!(with, without, "seed {seed}, step {step}: {statement}; {query}");
                }
                client.ok("ROLLBACK");
                "SELECT count(*) FROM TABLE".to_owned()
            }
        };
        let [with, without] = on_both(&mut client, &statement);
        assert_eq!(with, without, "seed {seed}, step {step}: {statement}");
        for _ in 0..3 {
            let conditions = conditions(&mut random);
            let plan = client.ok(&format!("EXPLAIN SELECT * FROM t WHERE {conditions}"));
            by_index += usize::from(plan.iter().any(|line| line.contains("Bitmap Heap Scan")));
            for query in [
                format!("SELECT * FROM TABLE WHERE {conditions} ORDER BY id"),
                format!("SELECT count(*), min(t), max(id) FROM TABLE WHERE {conditions}"),
                format!("SELECT id FROM TABLE WHERE {conditions} ORDER BY id DESC LIMIT 3"),
                "SELECT x.id, y.id FROM TABLE x JOIN TABLE y ON y.a @> x.a AND y.id < 130 WHERE x.id < 110 ORDER BY 1, 2"
                    .to_owned(),
            ] {
                let [with, without] = on_both(&mut client, &query);
                assert_eq!(with, without, "seed {seed}, step {step}: {query}\n{plan:#?}");
            }
        }
    }
    drop(client);
    assert!(by_index > 20, "seed {seed}: {by_index} of 180 queries went by tokens");
    assert_eq!(db.engine.check().unwrap(), Vec::<String>::new(), "seed {seed}");
}

#[test]
fn conditions_find_the_same_by_tokens_and_indexes_have_their_entries() {
    (0..10).for_each(|seed| history(seed, 300));
}

#[test]
fn tokens_that_most_rows_have_are_left_out() {
    (100..102).for_each(|seed| history(seed, 1_500));
}

const POSTS: &str = "CREATE TABLE t (id int PRIMARY KEY, tags text[], n int);
    CREATE INDEX ON t USING gin (tags);
    INSERT INTO t SELECT g, ARRAY['k' || g % 500], g FROM generate_series(1, 3000) AS g";

/// Whoever has counted by a token, and whoever writes a row that has it, cannot both commit on what
/// they have seen; whoever writes other tokens is in nobody's way.
#[test]
fn a_row_that_gets_a_token_that_was_looked_for_is_a_conflict() {
    let count = |tag: &str| format!("SELECT count(*) FROM t WHERE tags @> '{{{tag}}}'");
    let db = TestDatabase::new(POSTS);
    let plan = db.now(&format!("EXPLAIN {}", count("x")));
    assert!(plan.iter().any(|line| line.contains("t_tags_idx")), "{plan:#?}");
    for (mine, theirs, expected) in [("x", "x", Some("40001")), ("x", "y", None)] {
        let mut one = db.begun("BEGIN ISOLATION LEVEL SERIALIZABLE");
        let mut other = db.begun("BEGIN ISOLATION LEVEL SERIALIZABLE");
        one.ok(&count(mine));
        other.ok(&count(theirs));
        one.ok(&format!("UPDATE t SET tags = tags || '{mine}'::text WHERE id = 1"));
        other.ok(&format!("UPDATE t SET tags = tags || '{theirs}'::text WHERE id = 2"));
        one.ok("COMMIT");
        match expected {
            Some(code) => assert_eq!(other.fails("COMMIT"), code),
            None => _ = other.ok("COMMIT"),
        }
    }
    assert_eq!(db.engine.check().unwrap(), Vec::<String>::new());
}

/// Whoever has looked for ranges beside one and found none depends on there being none, whatever
/// their length.
#[test]
fn a_range_that_overlaps_what_was_looked_for_is_a_conflict() {
    let db = TestDatabase::new(
        "CREATE TABLE t (id int PRIMARY KEY, r int4range); CREATE INDEX t_r ON t USING gist (r);
         INSERT INTO t SELECT g, int4range(g * 10, g * 10 + 5) FROM generate_series(1, 3000) AS g",
    );
    let count = |range: &str| format!("SELECT count(*) FROM t WHERE r && '{range}'");
    let plan = db.now(&format!("EXPLAIN {}", count("[7,9)")));
    assert!(plan.iter().any(|line| line.contains("t_r")), "{plan:#?}");
    let cases = [
        ("[7,9)", "[8,9)", Some("40001")),
        ("[7,9)", "[-1000000,1000000)", Some("40001")),
        ("[7,9)", "(,8)", Some("40001")),
        ("[7,9)", "(,)", Some("40001")),
        ("[7,9)", "[100000,100001)", None),
        ("[7,9)", "empty", None),
    ];
    for (mine, theirs, expected) in cases {
        let mut one = db.begun("BEGIN ISOLATION LEVEL SERIALIZABLE");
        let mut other = db.begun("BEGIN ISOLATION LEVEL SERIALIZABLE");
        one.ok(&count(mine));
        other.ok("SELECT r FROM t WHERE id = 1");
        one.ok("UPDATE t SET r = r WHERE id = 1");
        one.ok("UPDATE t SET r = '[5000000,5000001)' WHERE id = 1");
        other.ok(&format!("INSERT INTO t VALUES (9000, '{theirs}')"));
        other.ok("COMMIT");
        match expected {
            Some(code) => assert_eq!(one.fails("COMMIT"), code, "{theirs}"),
            None => _ = one.ok("COMMIT"),
        }
        db.now("DELETE FROM t WHERE id = 9000");
        db.now("UPDATE t SET r = '[10,15)' WHERE id = 1");
    }
    assert_eq!(db.engine.check().unwrap(), Vec::<String>::new());
}

/// Of several tokens the rarest is read, and the others are looked for by the keys that are left: a
/// row that gets one of them, too, is a conflict.
#[test]
fn a_token_that_was_looked_for_by_keys_is_depended_on() {
    let db = TestDatabase::new(POSTS);
    db.now("UPDATE t SET tags = tags || 'often'::text WHERE id % 6 = 0");
    db.now("UPDATE t SET tags = tags || 'rare'::text WHERE id % 100 = 1");
    let both = "SELECT count(*) FROM t WHERE tags @> '{rare,often}'";
    let mut one = db.begun("BEGIN ISOLATION LEVEL SERIALIZABLE");
    let mut other = db.begun("BEGIN ISOLATION LEVEL SERIALIZABLE");
    assert_eq!(one.ok(both), ["0"]);
    assert_eq!(other.ok(both), ["0"]);
    one.ok("UPDATE t SET tags = tags || 'often'::text WHERE id = 101");
    other.ok("UPDATE t SET tags = tags || 'often'::text WHERE id = 201");
    one.ok("COMMIT");
    assert_eq!(other.fails("COMMIT"), "40001");
    assert_eq!(db.now(both), ["1"]);
}

#[test]
fn an_index_is_built_beside_writers_and_filled_by_copies_of_rows() {
    let db = TestDatabase::new(POSTS);
    db.now("CREATE INDEX CONCURRENTLY later ON t USING gin ((tags || 'always'::text))");
    db.now("CREATE TABLE copy AS SELECT * FROM t");
    db.now("CREATE INDEX ON copy USING gin (tags)");
    assert_eq!(db.now("SELECT count(*) FROM copy WHERE tags @> '{k7}'"), ["6"]);
    db.now("INSERT INTO copy SELECT id + 10000, tags, n FROM copy WHERE tags @> '{k7}'");
    assert_eq!(db.now("SELECT count(*) FROM copy WHERE tags @> '{k7}'"), ["12"]);
    assert_eq!(db.engine.check().unwrap(), Vec::<String>::new());
}

/// Documents that are as deep as they may be, and long ones, have entries; a long scalar has a short
/// one.
#[test]
fn documents_of_all_depths_and_lengths_are_found() {
    let db = TestDatabase::new(
        "CREATE TABLE t (id int PRIMARY KEY, d jsonb);
         CREATE INDEX ON t USING gin (d); CREATE INDEX ON t USING gin (d jsonb_path_ops);
         INSERT INTO t SELECT g, jsonb_build_object('n', g) FROM generate_series(1, 2000) AS g",
    );
    let deep = format!("{}7{}", r#"{"a":["#.repeat(60), "]}".repeat(60));
    let wide: Vec<String> = (0..5_000).map(|at| format!(r#""key{at}":{at}"#)).collect();
    let long = "long ".repeat(20_000);
    for (id, text) in [(1, deep.clone()), (2, format!("{{{}}}", wide.join(","))), (3, format!(r#"{{"x":"{long}"}}"#))] {
        db.now(&format!("UPDATE t SET d = '{text}' WHERE id = {id}"));
    }
    assert_eq!(db.now(&format!("SELECT id FROM t WHERE d @> '{deep}'")), ["1"]);
    assert_eq!(db.now(&format!("SELECT id FROM t WHERE d @> '{{{}}}'", wide[100..2000].join(","))), ["2"]);
    assert_eq!(db.now(r#"SELECT id FROM t WHERE d @> '{"key4999":4999}'"#), ["2"]);
    assert_eq!(db.now(&format!(r#"SELECT id FROM t WHERE d @> '{{"x":"{long}"}}'"#)), ["3"]);
    assert_eq!(db.now("DELETE FROM t WHERE id <= 3 RETURNING id").len(), 3);
    assert_eq!(db.engine.check().unwrap(), Vec::<String>::new());
}

/// Bug: rows that refer to a row were found by two indexes together, and looking whether they are the
/// newest ones failed. Consequence: `DELETE` of a row that others refer to was an internal error at
/// READ COMMITTED. Fix: it then looks at all of the table.
#[test]
fn rows_that_refer_to_others_may_be_found_by_several_indexes() {
    let db = TestDatabase::new(
        "CREATE TABLE parent (a int, b int, PRIMARY KEY (a, b));
         CREATE TABLE child (id int PRIMARY KEY, a int, b int, FOREIGN KEY (a, b) REFERENCES parent ON DELETE CASCADE);
         CREATE INDEX ON child (a); CREATE INDEX ON child (b);
         INSERT INTO parent VALUES (1, 1), (1, 2); INSERT INTO child VALUES (1, 1, 1), (2, 1, 2)",
    );
    db.engine.rewrite_queries(true);
    let mut client = db.begun("BEGIN ISOLATION LEVEL READ COMMITTED");
    client.ok("DELETE FROM parent WHERE b = 1");
    assert_eq!(client.ok("SELECT id FROM child"), ["2"]);
    client.ok("COMMIT");
}

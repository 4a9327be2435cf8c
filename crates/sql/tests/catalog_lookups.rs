//! Rows of system tables that are looked up by a key are those that reading all of the table finds: with conditions of all forms, as a side of joins, and inside other queries;
//! also right after the catalogue has changed, and after the change was taken back.
//!
//! Random conditions over a random schema; a seed that fails is told, and `COLIBRI_SEED` runs it
//! again.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use colibri_sql::{Engine, Session};
use colibri_storage::{Database, Durability, Options};
use rand::prelude::*;
use rand::rngs::StdRng;

/// Tables of the schema that conditions ask for; the last ones are not there.
const TABLES: usize = 6;
/// Keys that are numbers: a table, the key, a column that is given.
const NUMBERS: [(&str, &str, &str); 9] = [
    ("pg_class", "oid", "relname"),
    ("pg_class", "relnamespace", "relname"),
    ("pg_attribute", "attrelid", "attname"),
    ("pg_index", "indrelid", "indexrelid::regclass::text"),
    ("pg_index", "indexrelid", "indrelid::regclass::text"),
    ("pg_constraint", "conrelid", "conname"),
    ("pg_attrdef", "adrelid", "adnum::text"),
    ("pg_type", "typrelid", "typname"),
    ("pg_depend", "refobjid", "refobjsubid::text"),
];
/// Keys that are names.
const NAMES: [(&str, &str, &str); 5] = [
    ("pg_class", "relname", "relkind::text"),
    ("pg_attribute", "attname", "attrelid::regclass::text"),
    ("pg_type", "typname", "typtype::text"),
    ("information_schema.columns", "table_name", "column_name"),
    ("information_schema.table_constraints", "table_name", "constraint_name"),
];

fn name(random: &mut StdRng) -> String {
    match random.random_range(0..8) {
        0 => "NULL".to_owned(),
        1 => ["'pg_class'", "'id'", "'int4'", "''"].choose(random).unwrap().to_string(),
        _ => format!("'t{}'", random.random_range(0..TABLES + 2)),
    }
}

fn number(random: &mut StdRng) -> String {
    let table = random.random_range(0..TABLES);
    match random.random_range(0..9) {
        0 => "NULL".to_owned(),
        1 => random.random_range(0..3000).to_string(),
        2 => format!("(SELECT max(oid) FROM pg_class WHERE relname = 't{table}')"),
        3 => "1259".to_owned(),
        4 => format!("(SELECT max(oid)::bigint FROM pg_class WHERE relname = 't{table}')"),
        _ => format!("coalesce(to_regclass('t{table}')::oid, 0)"),
    }
}

/// A condition on a key.
fn condition(random: &mut StdRng, key: &str, value: &dyn Fn(&mut StdRng) -> String, array: &str) -> String {
    match random.random_range(0..6) {
        0 => format!("{key} IN ({}, {})", value(random), value(random)),
        1 => format!("{key} = ANY (ARRAY[{}, {}]::{array}[])", value(random), value(random)),
        2 => format!("{} = {key}", value(random)),
        3 => format!("{key} = {} AND {key} <> {}", value(random), value(random)),
        4 => format!("({key} = {} OR {key} = {})", value(random), value(random)),
        _ => format!("{key} = {}", value(random)),
    }
}

/// A query, with `@` in front of the names of the tables that it is about.
fn query(random: &mut StdRng) -> String {
    let by_name = random.random_ratio(2, 5);
    let (table, key, given) = *if by_name { NAMES.choose(random).unwrap() } else { NUMBERS.choose(random).unwrap() };
    let condition = match by_name {
        true => condition(random, key, &name, "text"),
        false => condition(random, key, &number, "oid"),
    };
    let (other, other_key, _) = *NUMBERS.choose(random).unwrap();
    let joined = |random: &mut StdRng, kind: &str| {
        let table = random.random_range(0..TABLES);
        format!(
            "SELECT c.relname, x.* FROM @pg_class c {kind} @{other} x ON x.{other_key} = c.oid WHERE c.relname LIKE 't%' \
             AND c.relname >= 't{table}'"
        )
    };
    match random.random_range(0..8) {
        0 => joined(random, "JOIN"),
        1 => joined(random, "LEFT JOIN"),
        2 => format!(
            "SELECT c.relname, (SELECT count(*) FROM @{other} x WHERE x.{other_key} = c.oid) FROM @pg_class c \
             WHERE c.relname LIKE 't%'"
        ),
        3 => {
            let not = ["", "NOT"].choose(random).unwrap();
            let exists = format!("{not} EXISTS (SELECT 1 FROM @{other} x WHERE x.{other_key} = c.oid)");
            format!("SELECT c.relname FROM @pg_class c WHERE c.relname LIKE 't%' AND {exists}")
        }
        5 => {
            // Keys of two columns.
            let (table, id) = (random.random_range(0..TABLES), number(random));
            let place = ["= 1", "IN (1, 2, NULL)", "= ANY ('{2,2,3}')", "= 2.0", "> 1"].choose(random).unwrap();
            let [on_attributes, on_names] = [
                format!("SELECT attname FROM @pg_attribute WHERE attrelid = {id} AND attnum {place}"),
                format!(
                    "SELECT relkind FROM @pg_class WHERE relname = 't{table}' AND relnamespace = 'public'::regnamespace"
                ),
            ];
            if random.random_ratio(2, 3) { on_attributes } else { on_names }
        }
        4 => format!("SELECT count(*) FROM @{table} WHERE NOT coalesce({condition}, false)"),
        _ => format!("SELECT {given}, {key} FROM @{table} WHERE {condition}"),
    }
}

/// The query over copies of the tables, which are made in full.
fn in_full(query: &str) -> String {
    let names: BTreeSet<&str> = NUMBERS.iter().chain(&NAMES).map(|(table, ..)| *table).collect();
    let copies: Vec<String> =
        names.iter().map(|name| format!("{} AS MATERIALIZED (SELECT * FROM {name})", copy(name))).collect();
    let over_copies = names
        .iter()
        .fold(query.to_owned(), |query, name| query.replace(&format!("@{name} "), &format!("{} ", copy(name))));
    format!("WITH {} {over_copies}", copies.join(", "))
}

fn copy(name: &str) -> String {
    format!("copy_of_{}", name.rsplit('.').next().unwrap())
}

fn rows(session: &mut Session, text: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    let answers = session.run(text).map_err(|error| error.to_string())?;
    Ok(answers[0].text_rows(session))
}

fn change(random: &mut StdRng) -> String {
    let table = random.random_range(0..TABLES);
    match random.random_range(0..6) {
        0 => format!("CREATE TABLE IF NOT EXISTS t{table} (id int PRIMARY KEY, a text DEFAULT 'x', UNIQUE (a))"),
        1 => format!("DROP TABLE IF EXISTS t{table} CASCADE"),
        2 => format!("ALTER TABLE IF EXISTS t{table} ADD COLUMN IF NOT EXISTS b int DEFAULT 7"),
        3 => format!("CREATE INDEX IF NOT EXISTS t{table}_a ON t{table} (a)"),
        4 => format!("CREATE TEMPORARY TABLE IF NOT EXISTS t{table} (id int)"),
        _ => format!("ALTER TABLE IF EXISTS t{table} ADD CHECK (id > {})", random.random_range(0..9)),
    }
}

/// Runs a seed, and returns how many queries looked rows up.
fn run(seed: u64) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync);
    let engine = Engine::open(Database::open(dir.path(), &options).unwrap()).unwrap();
    let mut session = Session::new(&engine, "postgres");
    for table in 0..TABLES / 2 {
        session.run(&format!("CREATE TABLE t{table} (id int PRIMARY KEY, a text DEFAULT 'x', UNIQUE (a))")).unwrap();
    }
    let mut looked_up = 0;
    for _ in 0..40 {
        let in_block = random.random_ratio(1, 3);
        if in_block {
            session.run("BEGIN").unwrap();
        }
        // A change that cannot be made (an index of a table that is not there) ends the block.
        let failed = session.run(&change(&mut random)).is_err();
        if !(failed && in_block) {
            for _ in 0..6 {
                let asked = query(&mut random);
                let text = asked.replace('@', "");
                let plan = rows(&mut session, &format!("EXPLAIN {text}")).unwrap_or_default();
                looked_up += usize::from(plan.iter().flatten().flatten().any(|line| line.contains("Lookup Cond")));
                let with_keys = rows(&mut session, &text);
                let without = rows(&mut session, &in_full(&asked));
                let sorted = |rows: Result<Vec<Vec<Option<String>>>, String>| {
                    rows.map(|mut rows| {
                        rows.sort();
                        rows
                    })
                };
                assert_eq!(sorted(with_keys), sorted(without), "seed {seed}: {text}");
            }
        }
        if in_block {
            session.run("ROLLBACK").unwrap();
        }
    }
    looked_up
}

#[test]
fn rows_that_are_looked_up_are_those_that_reading_everything_finds() {
    let seeds = match std::env::var("COLIBRI_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..4).collect(),
    };
    for seed in seeds {
        let looked_up = run(seed);
        assert!(looked_up > 60, "seed {seed}: only {looked_up} queries looked rows up");
    }
}

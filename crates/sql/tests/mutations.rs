//! The statements of `tests/slt`, a few tokens of each replaced, left out, doubled or swapped:
//! whatever comes of that, it is rows or an error with a code of PostgreSQL's; nothing panics, and
//! the tables stay whole.

#![allow(clippy::unwrap_used, reason = "tests")]

mod clients;

use std::path::Path;

use clients::TestDatabase;
use colibri_sql::{Session, SqlState};
use colibri_storage::Durability;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

/// The statements of a file, in their order.
fn statements(path: &Path) -> Vec<String> {
    use sqllogictest::{DefaultColumnType, Record, parse_file};
    let sql = |record| match record {
        Record::Statement { sql, .. } | Record::Query { sql, .. } => Some(sql),
        _ => None,
    };
    parse_file::<DefaultColumnType>(path).unwrap().into_iter().filter_map(sql).collect()
}

fn files() -> Vec<std::path::PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|extension| extension == "slt")).collect();
    files.sort();
    files
}

/// Words, numbers, strings, single signs, and the blanks between them.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let end = match first {
            '\'' => rest[1..].find('\'').map(|end| end + 2),
            c if is_word(c) => rest.find(|c: char| !is_word(c)),
            c if c.is_ascii_whitespace() => rest.find(|c: char| !c.is_ascii_whitespace()),
            c => Some(c.len_utf8()),
        };
        let (token, left) = rest.split_at(end.unwrap_or(rest.len()));
        tokens.push(token);
        rest = left;
    }
    tokens
}

const ODD: &[&str] = &[
    "NULL",
    "0",
    "-1",
    "1e400",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "0.1",
    "''",
    "'x'",
    "'NaN'",
    "'infinity'",
    "'1 year -1 day'",
    "'\\xff'",
    "'2024-02-30'",
    "'0001-01-01 BC'",
    "DEFAULT",
    "*",
    "(",
    ")",
    "()",
    ",",
    ";",
    "'",
    "\"",
    "$1",
    "$$",
    "--",
    "/*",
    "::int",
    "::text",
    "::numeric(3,1)",
    "::date",
    "::interval",
    "::bytea",
    "::bool",
    "ARRAY[1]",
    "NOT",
    "AND",
    "OR",
    "IS NULL",
    "DISTINCT",
    "ALL",
    "ANY",
    "EXISTS (SELECT 1)",
    "(SELECT NULL)",
    "(SELECT 1 UNION SELECT 2)",
    "(VALUES (1), (2))",
    "CASE",
    "WHEN",
    "END",
    "GROUP BY 1",
    "ORDER BY 99",
    "LIMIT -1",
    "OFFSET 1",
    "FOR UPDATE",
    "HAVING true",
    "count(*)",
    "sum(1)",
    "max(x)",
    "||",
    "=",
    "<>",
    "<",
    "+",
    "-",
    "/",
    "%",
    "^",
    "~",
    "LIKE",
    "IN (1, NULL)",
    "BETWEEN",
    "a",
    "b",
    "t",
    "id",
    "x.y.z",
    "é",
    "\u{1F426}",
];

fn mutate(rng: &mut StdRng, text: &str, others: &[Vec<&str>]) -> String {
    let mut tokens = tokens(text);
    for _ in 0..rng.random_range(1..=3) {
        if tokens.is_empty() {
            break;
        }
        let at = rng.random_range(0..tokens.len());
        match rng.random_range(0..7) {
            0 => _ = tokens.remove(at),
            1 => tokens.insert(at, tokens[at]),
            2 => tokens[at] = ODD.choose(rng).unwrap(),
            3 => tokens.insert(at, ODD.choose(rng).unwrap()),
            4 => {
                let other = rng.random_range(0..tokens.len());
                tokens.swap(at, other);
            }
            5 => tokens[at] = others.choose(rng).unwrap().choose(rng).unwrap_or(&""),
            _ => {
                // A piece of another statement.
                let other = others.choose(rng).unwrap();
                let from = rng.random_range(0..=other.len());
                let to = (from + rng.random_range(0..12)).min(other.len());
                tokens.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    let mut text = String::new();
    for token in tokens {
        // Signs put side by side must not make one word of two.
        text.push_str(token);
        if rng.random_ratio(1, 3) {
            text.push(' ');
        }
    }
    text
}

/// What would take long because it was meant to.
fn is_slow(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["generate_series", "repeat", "pg_sleep", "pad(", "^", "power", "exp("].iter().any(|word| lower.contains(word))
}

fn run_one(session: &mut Session, text: &str, seed: u64) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        session.run(text).map(|answers| answers.iter().for_each(|answer| drop(answer.text_rows(session))))
    }));
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let state = error.state();
            // PostgreSQL, too, says so of what some functions are given.
            let meant = [
                "unrecognized objtype abbreviation",
                "could not open relation with OID",
                "cache lookup failed for text search",
                "cannot rename trigger",
                // Of texts that are no `hstore`.
                "Syntax error near",
                "Unexpected end of string",
            ];
            let is_meant = meant.iter().any(|message| error.to_string().contains(message));
            assert!(
                is_meant || !matches!(state, SqlState::INTERNAL | SqlState::DATA_CORRUPTED | SqlState::IO_ERROR),
                "seed {seed}: {text}\n{state:?}: {error}"
            );
        }
        Err(_) => panic!("seed {seed}: {text}\npanics"),
    }
}

/// Runs all statements, a share of them changed, and gives what went wrong.
fn run(seed: u64, one_in: u32) -> Vec<String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let all: Vec<Vec<String>> = files().iter().map(|path| statements(path)).collect();
    let others: Vec<Vec<&str>> = all.iter().flatten().map(|text| tokens(text)).collect();
    let mut wrong = Vec::new();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.shuffle(&mut rng);
    for file in order {
        let db = TestDatabase::with(Durability::NoSync);
        let mut session = db.session();
        session.run("SET lock_timeout = '100ms'; SET statement_timeout = '5s'; SET work_mem = '64MB'").unwrap();
        for text in &all[file] {
            let texts = match rng.random_ratio(1, one_in) {
                // The statement itself as well, so that those behind it have something to work on.
                true => vec![mutate(&mut rng, text, &others), text.clone()],
                false => vec![text.clone()],
            };
            for text in texts.iter().filter(|text| !is_slow(text)) {
                let outcome =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_one(&mut session, text, seed)));
                if let Err(what) = outcome {
                    wrong.push(what.downcast_ref::<String>().cloned().unwrap_or_else(|| format!("{text} panics")));
                    session = db.session();
                }
            }
        }
        if let Err(what) = db.engine.local_store().unwrap().database().check() {
            wrong.push(format!("seed {seed}, file {file}: {what}"));
        }
        drop(session);
        match db.engine.check() {
            Ok(findings) if findings.is_empty() => {}
            other => wrong.push(format!("seed {seed}, file {file}: {other:?}")),
        }
    }
    wrong
}

fn none_goes_wrong(seeds: std::ops::Range<u64>, one_in: u32) {
    let wrong: Vec<String> = seeds.flat_map(|seed| run(seed, one_in)).collect();
    assert!(wrong.is_empty(), "{} went wrong:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn changed_statements_never_panic() {
    none_goes_wrong(0..1, 2);
}

#[test]
#[ignore = "many more seeds: minutes"]
fn changed_statements_never_panic_for_long() {
    none_goes_wrong(1..40, 1);
}

//! What holds for every text: it is read again as it is written, nothing panics, and nothing goes
//! on for ever.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use colibri_syntax::{Statement, ast, parse, parse_query, scan};
use colibri_types::SqlState;
use colibri_types::pulse::{Hook, Pulse};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The statements of the files of `sql/tests/slt`.
fn statements() -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../sql/tests/slt")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "slt") {
            continue;
        }
        let file = std::fs::read_to_string(&path).unwrap();
        let mut lines = file.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("statement ") || line.starts_with("query ") {
                let text: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty() && *line != "----").collect();
                found.push(text.join("\n"));
            }
        }
    }
    found
}

/// The catalogue keeps queries as the tree writes them: they must mean the same when they are read
/// again.
#[test]
fn queries_mean_the_same_when_they_are_written_and_read_again() {
    let mut compared = 0;
    for text in statements() {
        let Ok(read) = parse(&text) else { continue };
        let [Statement::Relational(statement)] = &read[..] else { continue };
        let ast::Statement::Query(query) = &**statement else { continue };
        if !matches!(
            &*query.body,
            ast::SetExpr::Select(_) | ast::SetExpr::SetOperation { .. } | ast::SetExpr::Values(_)
        ) || text.to_ascii_uppercase().contains("OVERRIDING")
        {
            continue;
        }
        let written = query.to_string();
        match parse_query(&written) {
            Ok(again) => assert_eq!(again, **query, "{text}\n{written}"),
            Err(error) => panic!("{text}\n{written}\n{:?}", error.report()),
        }
        compared += 1;
    }
    assert!(compared > 5_000, "{compared} queries");
}

const VOCABULARY: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "ORDER",
    "HAVING",
    "UNION",
    "ALL",
    "DISTINCT",
    "ON",
    "JOIN",
    "LEFT",
    "CROSS",
    "NATURAL",
    "USING",
    "VALUES",
    "WITH",
    "RECURSIVE",
    "AS",
    "INSERT",
    "INTO",
    "UPDATE",
    "SET",
    "DELETE",
    "RETURNING",
    "CREATE",
    "TABLE",
    "VIEW",
    "INDEX",
    "ALTER",
    "DROP",
    "ADD",
    "COLUMN",
    "CONSTRAINT",
    "PRIMARY",
    "KEY",
    "REFERENCES",
    "CHECK",
    "DEFAULT",
    "NOT",
    "NULL",
    "AND",
    "OR",
    "IS",
    "IN",
    "BETWEEN",
    "SYMMETRIC",
    "LIKE",
    "SIMILAR",
    "TO",
    "ESCAPE",
    "ANY",
    "EXISTS",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST",
    "EXTRACT",
    "TRIM",
    "SUBSTRING",
    "POSITION",
    "OVERLAY",
    "INTERVAL",
    "YEAR",
    "DAY",
    "ARRAY",
    "ROW",
    "OVER",
    "PARTITION",
    "ROWS",
    "PRECEDING",
    "FOR",
    "SHARE",
    "OF",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "FIRST",
    "ONLY",
    "OPERATOR",
    "COLLATE",
    "AT",
    "TIME",
    "ZONE",
    "EXPLAIN",
    "PREPARE",
    "EXECUTE",
    "BEGIN",
    "COMMIT",
    "DECLARE",
    "CURSOR",
    "COPY",
    "STDIN",
    "GRANT",
    "ROLE",
    "OWNER",
    "SEQUENCE",
    "IDENTITY",
    "GENERATED",
    "SHOW",
    "VACUUM",
    "COMMENT",
    "a",
    "b",
    "t",
    "\"q\"",
    "f",
    "1",
    "2.5",
    "'s'",
    "E'\\n'",
    "$1",
    "$$d$$",
    "(",
    ")",
    "(",
    ")",
    "[",
    "]",
    ",",
    ".",
    ";",
    "::",
    ":",
    "=",
    "<",
    ">",
    "<=",
    "<>",
    "+",
    "-",
    "*",
    "/",
    "^",
    "||",
    "@",
    "~",
    "!!",
    "=>",
    "int",
    "text",
    "numeric",
    "timestamp",
    "é",
    "\u{1}",
    "{",
    "'",
    "\"",
    "/*",
    "--",
];

/// Bug: none yet. Consequence of one: a session that ends, or a text that is read for ever.
#[test]
fn random_tokens_give_a_tree_or_an_error_with_a_position_in_the_text() {
    let seed = rand::rng().random::<u64>();
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..40_000 {
        let length = rng.random_range(1..40);
        let picked: Vec<&str> = (0..length).map(|_| VOCABULARY[rng.random_range(0..VOCABULARY.len())]).collect();
        check_soup(&picked.join(if rng.random_bool(0.9) { " " } else { "" }), seed);
    }
}

/// Statements with a token left out, doubled, or put elsewhere: most are nearly right.
#[test]
fn statements_with_a_mistake_give_a_tree_or_an_error_with_a_position_in_the_text() {
    let seed = rand::rng().random::<u64>();
    let mut rng = StdRng::seed_from_u64(seed);
    let all = statements();
    for _ in 0..40_000 {
        let text = &all[rng.random_range(0..all.len())];
        let Ok(mut parts) = scan(text).map(|scanned| scanned.token_texts()) else { continue };
        for _ in 0..rng.random_range(1..3) {
            let (from, to) = (rng.random_range(0..parts.len()), rng.random_range(0..parts.len()));
            match rng.random_range(0..4) {
                0 => _ = parts.remove(from),
                1 => parts.insert(to, parts[from]),
                2 => parts.swap(from, to),
                _ => parts[from] = VOCABULARY[rng.random_range(0..VOCABULARY.len())],
            }
            if parts.is_empty() {
                break;
            }
        }
        check_soup(&parts.join(" "), seed);
    }
}

#[track_caller]
fn check_soup(text: &str, seed: u64) {
    let _ = scan(text).and_then(colibri_syntax::Scanned::parse_parts);
    if let Err(error) = parse(text) {
        let report = error.report();
        let end = text.chars().count() as u32 + 1;
        // What options and names mean is found out behind the grammar, which tells no position
        // then: PostgreSQL tells none either.
        let is_of_meaning = [
            "requires a ",
            "conflicting or redundant options",
            "column name must be qualified",
            "no inline code specified",
        ]
        .iter()
        .any(|said| report.message.contains(said));
        if report.state == SqlState::SYNTAX_ERROR && !is_of_meaning {
            assert!(
                report.position.is_some_and(|position| (1..=end).contains(&position)),
                "{seed}: {text}\n{report:?}"
            );
        }
        assert_ne!(report.state, SqlState::INTERNAL, "{seed}: {text}");
    }
}

#[test]
fn what_is_nested_too_deep_is_refused_in_front_of_the_parser() {
    for (open, middle, close) in [
        ("(", "1", ")"),
        ("(SELECT ", "1", ")"),
        ("f(", "1", ")"),
        ("- ", "1", ""),
        ("NOT ", "true", ""),
        ("CASE WHEN ", "true", " THEN 1 END"),
        ("ARRAY[", "1", "]"),
        ("1 + ", "1", ""),
        ("a = ANY (", "b", ")"),
        ("EXISTS (SELECT ", "1", ")"),
        ("cast(", "1", " AS int)"),
    ] {
        let text = format!("SELECT {}{middle}{}", open.repeat(100_000), close.repeat(100_000));
        let error = scan(&text).map(|scanned| scanned.is_deep()).unwrap_err();
        assert_eq!(error.state(), SqlState::TOO_COMPLEX, "{open}");
    }
}

/// Nothing that is not counted makes the parser call itself: this stack would overflow.
#[test]
fn joins_whose_conditions_come_last_are_read_or_refused() {
    for joins in [50, 5_000, 200_000] {
        for condition in ["", " ON true"] {
            let text = format!("SELECT * FROM a{}{}", " JOIN b".repeat(joins), condition.repeat(joins));
            let read = scan(&text).and_then(|scanned| if scanned.is_deep() { Ok(Vec::new()) } else { scanned.parse() });
            match read {
                Ok(read) => assert!(joins > 50 || read.len() == 1),
                Err(error) if condition.is_empty() => {
                    assert!([SqlState::SYNTAX_ERROR, SqlState::TOO_COMPLEX].contains(&error.state()));
                }
                Err(error) => assert_eq!(error.state(), SqlState::TOO_COMPLEX),
            }
        }
    }
}

#[test]
fn as_many_levels_as_are_promised_are_read_on_a_stack_made_for_them() {
    let text = format!("SELECT {}1{}", "(".repeat(2_400), ")".repeat(2_400));
    let thread = std::thread::Builder::new().stack_size(128 << 20).spawn(move || {
        let scanned = scan(&text).unwrap();
        assert!(scanned.is_deep());
        assert_eq!(scanned.parse().unwrap().len(), 1);
    });
    thread.unwrap().join().unwrap();
}

/// Bug: a text of megabytes was read without a look at the time. Consequence: others waited for it,
/// and neither a cancel nor a timeout ended it. Fix: tokens count as work.
#[test]
fn a_long_text_lets_others_run_and_ends_when_it_is_cancelled() {
    let text = format!("SELECT {}", vec!["a + 1"; 400_000].join(", "));
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, cancel) = (Arc::clone(&calls), Arc::new(AtomicBool::new(false)));
    let hook: Hook = Arc::new(move || _ = counted.fetch_add(1, Ordering::Relaxed));
    let at_work = Pulse::new(Some(hook), &cancel).begin();
    assert_eq!(parse(&text).unwrap().len(), 1);
    let polls = calls.load(Ordering::Relaxed);
    assert!(polls > 1_000, "{polls} polls");
    cancel.store(true, Ordering::Relaxed);
    for ended in [parse(&text).map(drop), scan(&text).map(drop)] {
        assert_eq!(ended.unwrap_err().state(), SqlState::CANCELED);
    }
    assert!(calls.load(Ordering::Relaxed) < polls + 10, "it ended late");
    drop(at_work);
}

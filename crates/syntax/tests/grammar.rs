//! Texts that are read, texts that are not, and what is told of the latter.
#![allow(clippy::unwrap_used, missing_docs)]

use colibri_syntax::{parse, parse_expr, parse_query, parse_type, split, text_prepared};

#[track_caller]
fn check(text: &str, expected: &str) {
    let read = parse(text).unwrap_or_else(|error| panic!("{text}: {:?}", error.report()));
    let written: Vec<String> = read.iter().map(ToString::to_string).collect();
    assert_eq!(written.join("; "), expected, "{text}");
}

#[track_caller]
fn wrong(text: &str, message: &str, position: u32) {
    let error = parse(text).expect_err(text);
    let report = error.report();
    assert_eq!((&*report.message, report.position), (message, Some(position)), "{text}");
}

/// What an expression is, with all its parentheses.
fn shape(text: &str) -> String {
    use colibri_syntax::ast::Expr as E;
    fn of(expr: &E) -> String {
        match expr {
            E::BinaryOp { left, op, right } => format!("({} {op} {})", of(left), of(right)),
            E::UnaryOp { op, expr } => format!("({op} {})", of(expr)),
            E::IsNull(inner) => format!("({} IS NULL)", of(inner)),
            E::Like { expr, pattern, .. } => format!("({} LIKE {})", of(expr), of(pattern)),
            E::Between { expr, low, high, .. } => format!("({} BETWEEN {} AND {})", of(expr), of(low), of(high)),
            E::Cast { expr, data_type, .. } => format!("({}::{data_type})", of(expr)),
            E::AtTimeZone { timestamp, time_zone } => format!("({} AT {})", of(timestamp), of(time_zone)),
            E::Collate { expr, collation } => format!("({} COLLATE {collation})", of(expr)),
            E::IsDistinctFrom(left, right) => format!("({} DISTINCT {})", of(left), of(right)),
            E::Nested(inner) => of(inner),
            other => other.to_string(),
        }
    }
    of(&parse_expr(text).unwrap_or_else(|error| panic!("{text}: {:?}", error.report())))
}

#[test]
fn operators_bind_as_in_postgresql() {
    for (text, expected) in [
        ("a OR b AND NOT c = d", "(a OR (b AND (NOT (c = d))))"),
        ("a + b * c ^ d ^ e", "(a + (b * ((c ^ d) ^ e)))"),
        ("- 2 ^ 2", "((- 2) ^ 2)"),
        ("- a :: int", "(- (a::INT))"),
        ("a || b + c", "(a || (b + c))"),
        ("a + b @> c - d", "((a + b) @> (c - d))"),
        ("a < b || c", "(a < (b || c))"),
        ("a ~ b = c", "((a ~ b) = c)"),
        ("@ a - b", "(@ (a - b))"),
        ("@ a || b", "((@ a) || b)"),
        ("a OPERATOR(pg_catalog.+) b * c", "(a OPERATOR(pg_catalog.+) (b * c))"),
        ("a * b OPERATOR(pg_catalog.*) c + d", "((a * b) OPERATOR(pg_catalog.*) (c + d))"),
        ("OPERATOR(pg_catalog.-) a + b", "(- (a + b))"),
        ("a = b IS NULL", "((a = b) IS NULL)"),
        ("a IS NULL = b", "((a IS NULL) = b)"),
        ("NOT a IS NULL", "(NOT (a IS NULL))"),
        ("a = NOT b = c", "(a = (NOT (b = c)))"),
        ("a LIKE b || c", "(a LIKE (b || c))"),
        ("a < b LIKE c", "(a < (b LIKE c))"),
        ("a BETWEEN b AND c AND d", "((a BETWEEN b AND c) AND d)"),
        ("a BETWEEN b + 1 AND c - 1 OR d", "((a BETWEEN (b + 1) AND (c - 1)) OR d)"),
        ("a + b AT TIME ZONE c", "(a + (b AT c))"),
        ("a AT TIME ZONE b COLLATE c", "(a AT (b COLLATE c))"),
        ("a IS DISTINCT FROM b + c", "(a DISTINCT (b + c))"),
        ("a -> b ->> c", "((a -> b) ->> c)"),
    ] {
        assert_eq!(shape(text), expected, "{text}");
    }
}

#[test]
fn operators_that_do_not_stand_in_a_row_are_refused() {
    wrong("SELECT 1 < 2 < 3", "syntax error at or near \"<\"", 14);
    wrong("SELECT 1 = 2 = 3", "syntax error at or near \"=\"", 14);
    wrong("SELECT a LIKE b LIKE c", "syntax error at or near \"LIKE\"", 17);
    wrong("SELECT 1 BETWEEN 1 AND 2 BETWEEN 3 AND 4", "syntax error at or near \"BETWEEN\"", 26);
    wrong("SELECT a IS DISTINCT FROM b IS NULL", "syntax error at or near \"IS\"", 29);
    check("SELECT 1 IN (1) IN (true), 1 IS NULL IS NULL", "SELECT 1 IN (1) IN (true), 1 IS NULL IS NULL");
}

#[test]
fn errors_are_postgresqls() {
    wrong("SELECT FROM WHERE 'abc", "syntax error at or near \"WHERE\"", 13);
    wrong("SELECT 'abc", "unterminated quoted string at or near \"'abc\"", 8);
    wrong("SELECT \"abc", "unterminated quoted identifier at or near \"\"abc\"", 8);
    wrong("SELECT $a$ abc", "unterminated dollar-quoted string at or near \"$a$ abc\"", 8);
    wrong("SELECT /* abc", "unterminated /* comment at or near \"/* abc\"", 8);
    wrong("SELECT \"\"", "zero-length delimited identifier at or near \"\"\"\"", 8);
    wrong("SELECT (1", "syntax error at end of input", 10);
    wrong("SELECT 'ä', (1;", "syntax error at or near \";\"", 15);
    wrong("SELECT 1xyz", "trailing junk after numeric literal at or near \"1xyz\"", 8);
    wrong("SELECT 1e+x", "trailing junk after numeric literal at or near \"1e+\"", 8);
    wrong("SELECT $1abc", "trailing junk after parameter at or near \"$1abc\"", 8);
    wrong("SELECT 1 'b'", "syntax error at or near \"'b'\"", 10);
    wrong("SELECT 'a' 'b'", "syntax error at or near \"'b'\"", 12);
    wrong("SELECT E'ab\\ud800x'", "invalid Unicode surrogate pair at or near \"x\"", 18);
    wrong("SELECT U&'!0041' UESCAPE '+'", "invalid Unicode escape character at or near \"'+'\"", 26);
    wrong("SELECT * FROM a NATURAL CROSS JOIN b", "syntax error at or near \"CROSS\"", 25);
    wrong("SELECT * FROM a NATURAL b", "syntax error at or near \"b\"", 25);
    wrong("SELECT left", "syntax error at end of input", 12);
    wrong("SELECT 1; SELEC 2", "syntax error at or near \"SELEC\"", 11);
    wrong("SELECT * FROM t LIMIT 1, 2", "LIMIT #,# syntax is not supported", 17);
    wrong("CREATE TABLE t (a int NOT NUL)", "syntax error at or near \"NUL\"", 27);
    wrong("TRUNCATE t RESTART", "syntax error at end of input", 19);
    wrong("SELECT greatest()", "syntax error at or near \")\"", 17);
}

#[test]
fn a_feature_that_is_missing_is_told_unless_there_is_a_mistake_further_down() {
    for text in [
        "SELECT a LIKE ALL (ARRAY['x'])",
        "SELECT xmlelement(name a)",
        "CREATE TABLE t (LIKE s INCLUDING ALL)",
        "CREATE TABLE t (a int) PARTITION BY RANGE (a)",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "UPDATE t SET a[1] = 2",
        "SELECT * FROM t TABLESAMPLE system (10)",
        "SELECT * FROM a JOIN b USING (x) AS j",
        "ALTER TABLE t ENABLE TRIGGER ALL",
    ] {
        assert_eq!(parse(text).expect_err(text).state().0, "0A000", "{text}");
        let worse = format!("{text}; SELECT 1 +");
        let state = parse(&worse).expect_err(&worse).state();
        assert!(state.0 == "42601" || text.starts_with("CREATE FUNCTION"), "{worse}");
    }
}

#[test]
fn marks_stand_for_what_the_tree_has_no_place_for() {
    check("SELECT a BETWEEN SYMMETRIC b AND c", "SELECT a BETWEEN !!b AND c");
    check("SELECT trim(leading from x)", "SELECT TRIM(LEADING ' ' FROM x)");
    check("TABLE a UNION TABLE b", "SELECT * FROM a UNION SELECT * FROM b");
    check("SELECT 'a'\n'b' -- c\n 'd'", "SELECT 'abd'");
    for text in [
        "SELECT a FROM t FOR NO KEY UPDATE",
        "SELECT a FROM t FOR KEY SHARE NOWAIT",
        "SELECT a FROM t, u FOR UPDATE OF t, u SKIP LOCKED",
        "SELECT a FROM t, u FOR KEY SHARE OF t, u",
        "SELECT a BETWEEN SYMMETRIC - b AND c",
    ] {
        let once = parse(text).unwrap()[0].to_string();
        assert_eq!(parse_query(&once).unwrap().to_string(), once, "views keep such texts");
    }
    // Nobody can write them.
    assert!(parse("SELECT 2 BETWEEN !! 1 AND 3").is_err());
}

#[test]
fn strings_with_quotes_are_the_same_when_they_are_written_and_read_again() {
    for text in ["''''''", "'\\'''", "'a''b'", "E'\\'\\''", "''", "N''''''", "$$''$$"] {
        let once = parse_expr(text).unwrap();
        assert_eq!(parse_expr(&once.to_string()).unwrap(), once, "{text}");
    }
}

#[test]
fn parts_of_texts() {
    assert_eq!(split("SELECT ';' ; ;\n SELECT 2 -- c;\n").unwrap(), ["SELECT ';'", "SELECT 2"]);
    assert_eq!(text_prepared("PREPARE p (int) AS SELECT a AS b;").unwrap(), "SELECT a AS b");
    assert_eq!(parse_type("double precision[]").unwrap().to_string(), "DOUBLE PRECISION[]");
    assert!(parse_type("int int").is_err());
    assert!(parse_expr("1 2").is_err());
}

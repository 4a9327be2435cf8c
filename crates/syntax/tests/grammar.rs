//! Texts that are read, texts that are not, and what is told of the latter.
#![allow(clippy::unwrap_used, missing_docs)]

use colibri_syntax::tree::{Admin, Given, Setting, To};
use colibri_syntax::{Statement, is_copy, parse, parse_expr, parse_query, parse_type, scan};

fn written(statement: &Statement) -> String {
    match statement {
        Statement::Relational(statement) => statement.to_string(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let read = parse(text).unwrap_or_else(|error| panic!("{text}: {:?}", error.report()));
    let written: Vec<String> = read.iter().map(written).collect();
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
    wrong("CREATE ROLE user", "syntax error at or near \"user\"", 13);
    wrong("CREATE ROLE session_user", "SESSION_USER cannot be used as a role name here", 13);
    wrong("CREATE ROLE none", "role name \"none\" is reserved", 13);
    wrong("CREATE ROLE r superuser nosuperuser", "conflicting or redundant options", 25);
    wrong("CREATE ROLE r nosuch", "unrecognized role option \"nosuch\"", 15);
    wrong("GRANT SELECT, ON t TO r", "syntax error at or near \"ON\"", 15);
    wrong("GRANT ON t TO r", "syntax error at or near \"ON\"", 7);
    wrong("DECLARE select CURSOR FOR SELECT 1", "syntax error at or near \"select\"", 9);
    wrong("COPY t (select) TO STDOUT", "syntax error at or near \"select\"", 9);
}

#[test]
fn bodies_of_functions_are_read_to_their_end() {
    use colibri_syntax::plpgsql::{self, StmtKind};
    let body = plpgsql::parse(
        "<<b>> DECLARE x CONSTANT int := 1; c CURSOR (a int) FOR SELECT a; \
         BEGIN SELECT 1, 2 INTO STRICT x, r.y FROM t; INSERT INTO t VALUES (1) RETURNING a INTO x; \
         FOR i IN REVERSE 1..10 BY 2 LOOP EXIT b WHEN i = 1; END LOOP; x[1] := 2; \
         EXCEPTION WHEN unique_violation OR SQLSTATE '22012' THEN RAISE; END b;",
    )
    .unwrap();
    assert_eq!(body.block.declared.len(), 2);
    let kinds: Vec<&str> = body.block.body.iter().map(|statement| statement.kind.word()).collect();
    assert_eq!(kinds, ["SQL statement", "SQL statement", "FOR with integer loop variable", "assignment"]);
    let StmtKind::Sql { text, into: Some(into) } = &body.block.body[0].kind else { panic!("no statement of SQL") };
    assert_eq!(text.text, "SELECT 1, 2   FROM t");
    assert!(into.strict && into.targets[1].parts == ["r", "y"]);
    for (text, state) in [
        ("BEGIN IF a THEN END", "42601"),
        ("BEGIN RAISE 'a %'; END", "42601"),
        ("BEGIN x := ; END", "42601"),
        ("BEGIN SELECT 1 +; END", "42601"),
        ("<<a>> BEGIN NULL; END b", "42601"),
        ("DECLARE x int NOT NULL; BEGIN END", "22004"),
        ("BEGIN LOOP NULL; END", "42601"),
    ] {
        assert_eq!(plpgsql::parse(text).expect_err(text).state().0, state, "{text}");
    }
}

#[test]
fn a_feature_that_is_missing_is_told_unless_there_is_a_mistake_further_down() {
    for text in [
        "SELECT xmlexists(a PASSING b)",
        "CREATE OPERATOR CLASS c FOR TYPE int USING btree AS STORAGE int",
        "SELECT * FROM t TABLESAMPLE system (10) REPEATABLE (a + 1)",
    ] {
        assert_eq!(parse(text).expect_err(text).state().0, "0A000", "{text}");
        let worse = format!("{text}; SELECT 1 +");
        let state = parse(&worse).expect_err(&worse).state();
        assert!(state.0 == "42601" || text.starts_with("CREATE OPERATOR"), "{worse}");
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
        "SELECT * FROM a JOIN b USING (x) AS j",
    ] {
        let once = written(&parse(text).unwrap()[0]);
        assert_eq!(parse_query(&once).unwrap().to_string(), once, "views keep such texts");
    }
    // Nobody can write them: what looks like one is an operator.
    check("SELECT 2 BETWEEN !! 1 AND 3", "SELECT 2 BETWEEN \"!!\"(1) AND 3");
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
    let parts = |text| scan(text).unwrap().parse_parts();
    assert_eq!(parts("SELECT ';' ; ;\n SELECT 2 -- c;\n").unwrap(), ["SELECT ';'", "SELECT 2"]);
    assert!(parts(" ; -- nothing").unwrap().is_empty());
    assert_eq!(parts("SELECT 1; SELEC 2").unwrap_err().report().position, Some(11));
    assert_eq!(scan(" ; SELECT 1 ;; ").unwrap().only_part(), Some("SELECT 1"));
    assert_eq!(scan("SELECT 1; SELECT 2").unwrap().only_part(), None);
    assert_eq!(scan("SELECT 1; 'a").unwrap().only_part(), None);
    assert!(is_copy(" -- c\n copy t TO STDOUT") && !is_copy("SELECT copy") && !is_copy(""));
    assert_eq!(parse_type("double precision[]").unwrap().to_string(), "DOUBLE PRECISION[]");
    assert!(parse_type("int int").is_err());
    assert!(parse_expr("1 2").is_err());
}

fn read(text: &str) -> Statement {
    let mut read = parse(text).unwrap_or_else(|error| panic!("{text}: {:?}", error.report()));
    assert_eq!(read.len(), 1, "{text}");
    read.pop().unwrap()
}

#[test]
fn a_statement_inside_of_another_is_part_of_its_tree() {
    for (text, inner) in [
        ("PREPARE p (int) AS SELECT a AS b; ", "SELECT a AS b"),
        ("DECLARE c SCROLL CURSOR WITH HOLD FOR TABLE t -- end", "TABLE t"),
        ("COPY (DELETE FROM t RETURNING (a)) TO STDOUT (FORMAT csv)", "DELETE FROM t RETURNING (a)"),
        ("COPY ((SELECT 1) UNION SELECT 2) TO STDOUT", "(SELECT 1) UNION SELECT 2"),
    ] {
        let bytes = match read(text) {
            Statement::Prepare(prepare) => prepare.inner.bytes,
            Statement::Declare(declare) => declare.query.bytes,
            Statement::Copy(copy) => match copy.source {
                colibri_syntax::tree::CopySource::Query(query) => query.bytes,
                other => panic!("{text}: {other:?}"),
            },
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(&text[bytes], inner, "{text}");
    }
    // Positions are those of the whole text.
    wrong("PREPARE p AS SELECT FROM WHERE", "syntax error at or near \"WHERE\"", 26);
    wrong("DECLARE c CURSOR FOR SELECT (1", "syntax error at end of input", 31);
    wrong("DECLARE c CURSOR FOR UPDATE t SET a = 1", "syntax error at or near \"UPDATE\"", 22);
    wrong("COPY (SELECT 1 +) TO STDOUT", "syntax error at or near \")\"", 17);
    wrong("COPY t FROM STDIN WHERE a = ", "syntax error at end of input", 29);
    wrong("COPY t TO STDOUT WHERE true", "WHERE clause not allowed with COPY TO", 18);
    wrong("EXPLAIN (ANALYZE off) SELECT 1 1", "syntax error at or near \"1\"", 32);
    wrong("EXPLAIN CREATE SEQUENCE s", "syntax error at or near \"SEQUENCE\"", 16);
    wrong("ALTER TABLE t ALTER a SET START 5 SET INCREMENT x", "syntax error at or near \"x\"", 49);
    wrong("CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY (START x))", "syntax error at or near \"x\"", 59);
}

#[test]
fn statements_about_roles_and_upkeep_are_read_in_whichever_order_their_options_come() {
    for text in [
        "CREATE USER alice WITH PASSWORD 'x' LOGIN NOSUPERUSER CONNECTION LIMIT 5 VALID UNTIL '2030-01-01' IN ROLE a, b",
        "create role \"Bob\"",
        "ALTER ROLE alice NOLOGIN; ",
        "ALTER USER CURRENT_USER PASSWORD NULL",
        "ALTER GROUP g ADD USER a, b",
        "DROP USER IF EXISTS a, b",
        "CREATE DATABASE d WITH OWNER = alice ENCODING 'UTF8' TEMPLATE template0 LC_COLLATE = 'C'",
        "DROP DATABASE IF EXISTS d WITH (FORCE)",
        "ALTER DATABASE d OWNER TO CURRENT_USER",
        "GRANT SELECT, INSERT ON TABLE a, s.b TO alice, PUBLIC WITH GRANT OPTION",
        "GRANT ALL PRIVILEGES ON ALL TABLES IN SCHEMA public TO alice",
        "GRANT a, b TO c WITH ADMIN OPTION",
        "REVOKE GRANT OPTION FOR UPDATE ON t FROM alice CASCADE",
        "REVOKE ADMIN OPTION FOR a FROM b",
        "REVOKE ALL ON DATABASE d FROM PUBLIC",
        "ALTER TABLE IF EXISTS public.t OWNER TO bob",
        "ALTER TABLE t RENAME TO u",
        "ALTER INDEX IF EXISTS i RENAME TO j",
        "ALTER VIEW v OWNER TO SESSION_USER",
        "ALTER SEQUENCE s OWNED BY NONE INCREMENT BY -2 NO CYCLE RESTART",
        "CREATE SEQUENCE IF NOT EXISTS s AS smallint START WITH 5 CACHE 1",
        "COMMENT ON COLUMN public.t.c IS 'it''s'",
        "COMMENT ON TABLE t IS NULL",
        "ALTER ROLE ALL IN DATABASE d SET work_mem TO '1MB'",
        "ALTER USER alice SET TIME ZONE INTERVAL '+01:00' HOUR TO MINUTE",
        "ALTER DATABASE d SET search_path FROM CURRENT",
        "ALTER DATABASE d RESET ALL",
        "ALTER DATABASE d RESET TO e",
        "ALTER DATABASE d RESET TO e WITH (FORCE)",
        "ALTER DATABASE d RESET TO d AS OF TRANSACTION 7 WITH (FORCE)",
        "ALTER DATABASE d RESET TO e AS OF '2026-01-02 03:04:05'",
        "CREATE DATABASE d TEMPLATE e AS OF '2026-01-02 03:04:05+00'",
        "CREATE DATABASE d TEMPLATE = e AS OF TIMESTAMP 'yesterday' IS_TEMPLATE true",
        "CREATE DATABASE d AS OF TRANSACTION 7 TEMPLATE e",
        "CREATE DATABASE d TEMPLATE e STRATEGY = file_copy IS_TEMPLATE true",
        "VACUUM (ANALYZE, VERBOSE) t, u (a, b)",
        "VACUUM FULL FREEZE t",
        "REINDEX TABLE CONCURRENTLY t",
        "LOCK TABLE a, b IN SHARE ROW EXCLUSIVE MODE NOWAIT",
        "REASSIGN OWNED BY a TO b",
        "DROP OWNED BY a, CURRENT_USER CASCADE",
        "LISTEN a",
        "UNLISTEN *",
        "NOTIFY \"B c\", 'payload'",
    ] {
        assert!(matches!(read(text), Statement::Admin(_)), "{text}");
    }
    for text in [
        "GRANT",
        "CREATE ROLE",
        "GRANT SELECT ON t",
        "GRANT ALL TO a",
        "DROP DATABASE d WITH (FORCE",
        "ALTER DATABASE d RESET TO",
        "ALTER DATABASE d RESET TO e f",
        "ALTER DATABASE d RESET TO e AS OF 7",
        "ALTER DATABASE d AS OF TRANSACTION 7",
        "CREATE DATABASE d TEMPLATE e AS OF TRANSACTION -7",
        "CREATE DATABASE d TEMPLATE e AS OF TRANSACTION 7 AS OF TRANSACTION 7",
        "CREATE DATABASE d TEMPLATE e AS",
        "LOCK t IN NO MODE",
        "VACUUM (",
        "NOTIFY x y",
        "CREATE ROLE a LOGIN NOLOGIN",
        "VACUUM t (a)",
        "CREATE TEMP SEQUENCE",
        "ALTER VIEW v ALTER COLUMN a SET",
        "ALTER TABLE t OWNER TO",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    for text in ["ALTER TABLE t OWNER TO a, ADD b int", "ALTER TABLE t ADD b int, OWNER TO a"] {
        assert!(matches!(read(text), Statement::Relational(_)), "{text}");
    }
    let Statement::Admin(admin) = read("ALTER ROLE a SET x = 5, on") else { panic!() };
    let Admin::Settings { change, .. } = *admin else { panic!("{admin:?}") };
    let values = To::Values(vec![Given::Number("5".to_owned()), Given::Text("on".to_owned())]);
    assert_eq!(change, colibri_syntax::tree::SettingChange::Set("x".into(), values));
    let Statement::Setting(setting) = read("RESET ALL") else { panic!() };
    assert_eq!(*setting, Setting::ResetAll);
}

#[test]
fn types_and_extensions_are_made_changed_and_dropped() {
    use colibri_syntax::tree::{LabelPlace, TypeChange};
    for text in [
        "CREATE TYPE s.mood AS ENUM ()",
        "CREATE TYPE \"Mood\" AS ENUM ('a', E'b')",
        "CREATE TYPE r AS RANGE (subtype = int)",
        "ALTER TYPE mood RENAME VALUE 'a' TO 'b'",
        "ALTER TYPE mood RENAME TO feeling",
        "ALTER TYPE mood SET SCHEMA s",
        "ALTER TYPE mood OWNER TO CURRENT_USER",
        "DROP TYPE IF EXISTS mood, s.other CASCADE",
        "CREATE EXTENSION IF NOT EXISTS \"uuid-ossp\" WITH SCHEMA public VERSION '1.1' CASCADE",
        "CREATE EXTENSION pgcrypto VERSION v1",
        "ALTER EXTENSION pgcrypto UPDATE TO '1.3'",
        "DROP EXTENSION IF EXISTS a, b RESTRICT",
        "COMMENT ON TYPE s.mood IS 'x'",
        "COMMENT ON EXTENSION a IS NULL",
    ] {
        assert!(matches!(read(text), Statement::Admin(_)), "{text}");
    }
    let Statement::Admin(admin) = read("ALTER TYPE mood ADD VALUE IF NOT EXISTS 'b' BEFORE 'c'") else { panic!() };
    let Admin::AlterType { change, .. } = *admin else { panic!("{admin:?}") };
    let place = LabelPlace::Before("c".to_owned());
    assert_eq!(change, TypeChange::AddValue { text: "b".to_owned(), if_not_exists: true, place });
    wrong("CREATE TYPE mood AS ENUM (a)", "syntax error at or near \"a\"", 27);
    wrong("CREATE TYPE mood AS ENUM ('a',)", "syntax error at or near \")\"", 31);
    wrong("ALTER TYPE mood ADD VALUE b", "syntax error at or near \"b\"", 27);
    let unknown = "CREATE TYPE r (INPUT = read, OUTPUT = write)";
    assert_eq!(parse(unknown).expect_err(unknown).state().0, "0A000");
}

#[test]
fn domains_are_made_changed_and_dropped() {
    use colibri_syntax::tree::DomainChange;
    for text in [
        "CREATE DOMAIN s.d AS int",
        "CREATE DOMAIN d varchar(5)[] COLLATE \"C\" DEFAULT '{}' NOT NULL CONSTRAINT c CHECK (VALUE <> '{x}') CHECK (true)",
        "ALTER DOMAIN d SET DEFAULT 1 + 1",
        "ALTER DOMAIN d DROP DEFAULT",
        "ALTER DOMAIN d SET NOT NULL",
        "ALTER DOMAIN d DROP NOT NULL",
        "ALTER DOMAIN d ADD CHECK (VALUE > 0)",
        "ALTER DOMAIN d DROP CONSTRAINT IF EXISTS c CASCADE",
        "ALTER DOMAIN d RENAME CONSTRAINT c TO e",
        "ALTER DOMAIN d VALIDATE CONSTRAINT c",
        "ALTER DOMAIN d RENAME TO e",
        "ALTER DOMAIN d SET SCHEMA s",
        "ALTER DOMAIN d OWNER TO CURRENT_USER",
        "DROP DOMAIN IF EXISTS s.d, e CASCADE",
        "COMMENT ON DOMAIN d IS 'x'",
        "COMMENT ON CONSTRAINT c ON DOMAIN s.d IS NULL",
        "GRANT USAGE ON DOMAIN d TO PUBLIC",
        "REFRESH MATERIALIZED VIEW CONCURRENTLY s.m WITH NO DATA",
        "COMMENT ON MATERIALIZED VIEW m IS 'x'",
        "ALTER MATERIALIZED VIEW IF EXISTS m RENAME TO n",
    ] {
        assert!(matches!(read(text), Statement::Admin(_)), "{text}");
    }
    let Statement::Admin(admin) = read("ALTER DOMAIN d ADD CONSTRAINT c CHECK (VALUE > 0) NOT VALID") else { panic!() };
    let Admin::AlterDomain { change, .. } = *admin else { panic!("{admin:?}") };
    let DomainChange::AddConstraint { check, not_valid: true } = change else { panic!("{change:?}") };
    assert_eq!(check.name.map(|name| name.value).as_deref(), Some("c"));
    wrong("CREATE DOMAIN d", "syntax error at end of input", 16);
    wrong("ALTER DOMAIN d ADD", "syntax error at end of input", 19);
    wrong("ALTER DOMAIN d ENABLE", "syntax error at or near \"ENABLE\"", 16);
}

#[test]
fn partitions_are_made_attached_and_detached() {
    use colibri_syntax::tree::PartitionChange;
    for text in [
        "CREATE TABLE t (a int, b text) PARTITION BY RANGE (a, lower(b), (a + 1))",
        "CREATE TABLE p PARTITION OF t FOR VALUES FROM (1, MINVALUE) TO (2, MAXVALUE)",
        "CREATE TABLE p PARTITION OF t (a NOT NULL, b WITH OPTIONS DEFAULT 'x', CHECK (a > 0)) DEFAULT",
        "CREATE TABLE p PARTITION OF s.t FOR VALUES IN (1, NULL) PARTITION BY HASH (b)",
        "CREATE TABLE p PARTITION OF t FOR VALUES WITH (remainder 1, MODULUS 4)",
    ] {
        let read = parse(text).unwrap_or_else(|error| panic!("{text}: {:?}", error.report()));
        assert!(matches!(&read[..], [Statement::Relational(_)]), "{text}");
    }
    let admin = |text: &str| match read(text) {
        Statement::Admin(admin) => *admin,
        other => panic!("{other:?}"),
    };
    let change = |text: &str| match admin(text) {
        Admin::ChangePartitions { change, .. } => change,
        other => panic!("{other:?}"),
    };
    assert!(matches!(change("ALTER TABLE t INHERIT s.p"), PartitionChange::Inherit { parent } if parent == ["s", "p"]));
    assert!(matches!(change("ALTER TABLE t NO INHERIT p"), PartitionChange::NoInherit { parent } if parent == ["p"]));
    assert!(matches!(change("ALTER TABLE t ATTACH PARTITION p DEFAULT"), PartitionChange::Attach { .. }));
    let concurrently = change("ALTER TABLE IF EXISTS t DETACH PARTITION s.p CONCURRENTLY");
    assert!(matches!(concurrently, PartitionChange::Detach { concurrently: true, finalize: false, .. }));
    let finalize = change("ALTER TABLE t DETACH PARTITION p FINALIZE");
    assert!(matches!(finalize, PartitionChange::Detach { concurrently: false, finalize: true, .. }));
    assert!(matches!(admin("ALTER INDEX i ATTACH PARTITION s.j"), Admin::AttachIndex { .. }));
    wrong("CREATE TABLE p PARTITION OF t", "syntax error at end of input", 30);
    wrong("CREATE TABLE p PARTITION OF t FOR VALUES WITH (modulus 4)", "syntax error at or near \")\"", 57);
    wrong("CREATE TABLE p PARTITION OF t (a int) DEFAULT", "syntax error at or near \"int\"", 34);
}

#[test]
fn cursors_go_where_they_are_told() {
    use colibri_syntax::tree::Goal;
    for (text, goal) in [
        ("FETCH c", Goal::Forward(1)),
        ("FETCH next", Goal::Forward(1)),
        ("FETCH NEXT FROM c", Goal::Forward(1)),
        ("FETCH -3 IN c", Goal::Backward(3)),
        ("FETCH +3 c", Goal::Forward(3)),
        ("FETCH ALL c", Goal::Forward(u64::MAX)),
        ("FETCH BACKWARD 0 c", Goal::Backward(0)),
        ("FETCH BACKWARD ALL c", Goal::Backward(u64::MAX)),
        ("MOVE ABSOLUTE -1 c", Goal::Absolute(-1)),
        ("MOVE RELATIVE 2 FROM c", Goal::Relative(2)),
        ("MOVE LAST c", Goal::Absolute(-1)),
    ] {
        let Statement::Fetch(fetch) = read(text) else { panic!("{text}") };
        assert_eq!((fetch.goal, fetch.moves), (goal, text.starts_with("MOVE")), "{text}");
    }
    wrong("FETCH 3000000000 c", "syntax error at or near \"3000000000\"", 7);
}

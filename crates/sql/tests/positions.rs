//! Where errors stand in the text: as PostgreSQL 15 says it, which `psql` shows with a caret.
//!
//! Each statement has a `^` in front of what PostgreSQL points to; without one it points nowhere.

mod clients;

use clients::TestDatabase;

const STATEMENTS: &[(&str, &str)] = &[
    ("22P02", "SELECT sqrt(^'x')"),
    ("22P02", "SELECT lower('a'), make_date(2020, ^'q', 1)"),
    ("22P02", "SELECT pg_sleep(^'x')"),
    ("22P02", "SELECT pg_advisory_lock(^'x')"),
    ("22P02", "SELECT generate_series(1, ^'x')"),
    ("22P02", "SELECT 1 + ^'x'"),
    ("22P02", "SELECT 1 IN (2, ^'x')"),
    ("22P02", "SELECT coalesce(1, ^'x')"),
    ("22P02", "SELECT CASE WHEN true THEN 1 ELSE ^'x' END"),
    ("22P02", "SELECT ARRAY[1, ^'x']"),
    ("22P02", "INSERT INTO t VALUES (^'x', 1)"),
    ("22P02", "UPDATE t SET a = ^'x'"),
    ("22P02", "SELECT * FROM t LIMIT ^'x'"),
    ("42P01", "SELECT nextval(^'nowhere')"),
    ("42P01", "SELECT currval(^'nowhere')"),
    ("42P01", "SELECT setval(^'nowhere', 1)"),
    ("22P02", "SELECT setval('s', ^'x')"),
    ("42P01", "SELECT pg_relation_size(^'nowhere')"),
    ("42883", "SELECT ^to_char(now(), 5)"),
    ("42P21", "SELECT 'a' COLLATE \"C\" < 'b' ^COLLATE \"POSIX\""),
    ("42P21", "SELECT lower('a' COLLATE \"C\") < lower('b' ^COLLATE \"POSIX\")"),
    ("42P21", "SELECT concat('a' COLLATE \"C\", 'x', 'b' ^COLLATE \"POSIX\") < 'x'"),
    ("42P21", "SELECT CASE WHEN true THEN 'a' COLLATE \"C\" ELSE 'b' ^COLLATE \"POSIX\" END < 'c'"),
    ("42P21", "SELECT max('a' COLLATE \"C\" || ('b' ^COLLATE \"POSIX\"))"),
    ("42P21", "SELECT ROW ('a' COLLATE \"C\") < ROW ('b' ^COLLATE \"POSIX\")"),
    ("42P21", "SELECT 'a' COLLATE \"C\" IN ('b' ^COLLATE \"POSIX\")"),
    ("42P21", "SELECT 'a' COLLATE \"C\" UNION SELECT 'b' ^COLLATE \"POSIX\" ORDER BY 1"),
    ("42804", "SELECT 1 ^COLLATE \"C\""),
    ("42725", "SELECT ^-'a'"),
    ("42725", "SELECT 1 + ^- ('a')"),
    ("42883", "SELECT ^- true"),
    ("42883", "SELECT 1, ^@ (now())"),
    ("42601", "COMMENT ON COLUMN said IS 'x'"),
    ("22023", "SELECT json_build_object('a')"),
];

#[test]
fn errors_stand_where_postgresql_puts_them() {
    let database = TestDatabase::new("CREATE TABLE t (a int, b int); CREATE SEQUENCE s");
    let mut session = database.session();
    for &(state, marked) in STATEMENTS {
        let expected = marked.find('^').map(|at| marked[..at].chars().count() as u32 + 1);
        let error = session.run(&marked.replacen('^', "", 1)).unwrap_err();
        assert_eq!((error.state().0, error.report().position), (state, expected), "{marked}: {error}");
    }
}

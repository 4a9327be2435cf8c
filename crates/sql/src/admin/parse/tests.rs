//! Statements as they are written, and what is made of them.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn statements_are_read_in_whichever_order_their_options_come() {
    for text in [
        "CREATE USER alice WITH PASSWORD 'x' LOGIN NOSUPERUSER CONNECTION LIMIT 5 VALID UNTIL '2030-01-01' IN ROLE a, b",
        "create role \"Bob\"",
        "ALTER ROLE alice NOLOGIN; ",
        "ALTER USER CURRENT_USER PASSWORD NULL",
        "DROP USER IF EXISTS a, b",
        "CREATE DATABASE d WITH OWNER = alice ENCODING 'UTF8' TEMPLATE template0 LC_COLLATE = 'C'",
        "DROP DATABASE IF EXISTS d WITH (FORCE)",
        "ALTER DATABASE d OWNER TO CURRENT_USER",
        "GRANT SELECT, INSERT ON TABLE a, s.b TO alice, PUBLIC WITH GRANT OPTION",
        "GRANT ALL PRIVILEGES ON ALL TABLES IN SCHEMA public TO alice",
        "GRANT a, b TO c WITH ADMIN OPTION",
        "REVOKE GRANT OPTION FOR UPDATE ON t FROM alice CASCADE",
        "REVOKE ALL ON DATABASE d FROM PUBLIC",
        "ALTER TABLE IF EXISTS public.t OWNER TO bob",
        "COMMENT ON COLUMN public.t.c IS 'it''s'",
        "COMMENT ON TABLE t IS NULL",
        "ALTER ROLE ALL IN DATABASE d SET work_mem TO '1MB'",
        "ALTER USER alice SET TIME ZONE INTERVAL '+01:00' HOUR TO MINUTE",
        "ALTER DATABASE d SET search_path FROM CURRENT",
        "ALTER DATABASE d RESET ALL",
        "VACUUM (ANALYZE, VERBOSE) t, u (a, b)",
        "VACUUM FULL FREEZE t",
        "REINDEX TABLE CONCURRENTLY t",
        "LOCK TABLE a, b IN SHARE ROW EXCLUSIVE MODE NOWAIT",
        "DISCARD PLANS",
    ] {
        assert!(parse(text).unwrap().is_some(), "{text}");
    }
}

#[test]
fn other_statements_are_left_alone() {
    for text in [
        "CREATE TABLE t (a int)",
        "ALTER TABLE t ADD c int",
        "SET ROLE alice",
        "DROP TABLE t",
        "DISCARD ALL",
        "SELECT 1",
        "RESET ALL",
    ] {
        assert!(parse(text).unwrap().is_none(), "{text}");
    }
    for text in [
        "GRANT",
        "CREATE ROLE",
        "GRANT SELECT ON t",
        "DROP DATABASE d WITH (FORCE",
        "LOCK t IN NO MODE",
        "VACUUM (",
        "NOTIFY x",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

//! Roles, privileges and databases, in a cluster that is kept in memory.

#![allow(clippy::unwrap_used)]

mod cluster;

use std::sync::Arc;

use cluster::InMemory;
use colibri_sql::cluster::Cluster;
use colibri_sql::{Datum, Engine, Session};
use colibri_storage::{Database, Durability, Options};

struct World {
    engine: Arc<Engine>,
    cluster: Arc<dyn Cluster>,
    _dir: tempfile::TempDir,
}

impl World {
    fn new(setup: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().durability(Durability::NoSync);
        let engine = Engine::open(Database::open(dir.path().join("db"), &options).unwrap()).unwrap();
        let world = Self { engine, cluster: InMemory::shared("db"), _dir: dir };
        world.session("postgres").run(setup).unwrap();
        world
    }

    fn session(&self, user: &str) -> Session {
        Session::in_cluster(&self.engine, &self.cluster, user, 7).unwrap()
    }
}

fn state(session: &mut Session, text: &str) -> &'static str {
    match session.run(text) {
        Ok(_) => "ok",
        Err(error) => error.state().0,
    }
}

fn message(session: &mut Session, text: &str) -> String {
    session.run(text).unwrap_err().to_string()
}

fn text(session: &mut Session, query: &str) -> String {
    let answers = session.run(query).unwrap();
    let last = answers.last().unwrap();
    let rows = last.text_rows(session);
    rows.into_iter()
        .map(|row| row.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join(","))
        .collect::<Vec<_>>()
        .join(";")
}

const SETUP: &str = "CREATE ROLE alice LOGIN; CREATE USER bob PASSWORD 'x'; CREATE ROLE staff; GRANT staff TO alice; \
    CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'one'); CREATE SEQUENCE s; \
    CREATE VIEW seen AS SELECT id FROM t";

#[test]
fn what_was_not_granted_is_denied_and_nothing_else_is_said() {
    let world = World::new(SETUP);
    let mut alice = world.session("alice");
    for statement in [
        "SELECT * FROM t",
        "SELECT count(*) FROM t",
        "INSERT INTO t VALUES (2, 'two')",
        "UPDATE t SET v = 'x'",
        "DELETE FROM t WHERE id = 1",
        "TRUNCATE t",
        "SELECT * FROM (SELECT id FROM t) AS inner_query",
        "SELECT EXISTS (SELECT 1 FROM t)",
        "EXPLAIN SELECT * FROM t",
        "CREATE TABLE copy AS SELECT * FROM t",
        "WITH w AS (SELECT * FROM t) SELECT * FROM w",
    ] {
        let denied = message(&mut alice, statement);
        assert!(
            denied == "permission denied for table t" || denied == "permission denied for schema public",
            "{statement}: {denied}"
        );
    }
    assert_eq!(message(&mut alice, "SELECT * FROM seen"), "permission denied for view seen");
    assert_eq!(message(&mut alice, "SELECT nextval('s')"), "permission denied for sequence s");
    for statement in [
        "DROP TABLE t",
        "ALTER TABLE t ADD c int",
        "CREATE INDEX ON t (v)",
        "DROP VIEW seen",
        "ALTER TABLE t OWNER TO alice",
    ] {
        assert!(message(&mut alice, statement).starts_with("must be owner of "), "{statement}");
    }
    assert_eq!(state(&mut alice, "CREATE TABLE mine (a int)"), "42501");
    assert_eq!(state(&mut alice, "GRANT SELECT ON t TO alice"), "42501");
    assert!(alice.copy("COPY t TO STDOUT").is_err());
    assert!(alice.copy("COPY t FROM STDIN").is_err());
}

#[test]
fn a_grant_is_felt_by_a_plan_that_is_kept_and_so_is_taking_it_back() {
    let world = World::new(SETUP);
    let (mut root, mut alice) = (world.session("postgres"), world.session("alice"));
    assert_eq!(state(&mut alice, "SELECT v FROM t WHERE id = 1"), "42501");
    root.run("GRANT SELECT ON t TO staff").unwrap();
    let prepared = alice.prepare("SELECT v FROM t WHERE id = $1", &[]).unwrap();
    assert_eq!(alice.execute(&prepared, vec![Datum::Int(1)]).unwrap().rows.len(), 1);
    root.run("REVOKE staff FROM alice").unwrap();
    assert_eq!(alice.execute(&prepared, vec![Datum::Int(1)]).unwrap_err().state().0, "42501");
    // The condition reads another column.
    root.run("GRANT SELECT (v) ON t TO alice").unwrap();
    assert_eq!(alice.execute(&prepared, vec![Datum::Int(1)]).unwrap_err().state().0, "42501");
    root.run("GRANT SELECT (id) ON t TO alice").unwrap();
    assert_eq!(alice.execute(&prepared, vec![Datum::Int(1)]).unwrap().rows.len(), 1);
    root.run("REVOKE SELECT (id, v) ON t FROM alice").unwrap();
    assert_eq!(alice.execute(&prepared, vec![Datum::Int(1)]).unwrap_err().state().0, "42501");
    root.run("GRANT SELECT ON t TO PUBLIC").unwrap();
    assert_eq!(alice.execute(&prepared, vec![Datum::Int(1)]).unwrap().rows.len(), 1);
    root.run("REVOKE SELECT ON t FROM PUBLIC").unwrap();
    assert_eq!(alice.execute(&prepared, vec![Datum::Int(1)]).unwrap_err().state().0, "42501");
    // A grant that is taken back with its transaction was none.
    root.run("BEGIN; GRANT SELECT ON t TO alice; ROLLBACK").unwrap();
    assert_eq!(alice.execute(&prepared, vec![Datum::Int(1)]).unwrap_err().state().0, "42501");
}

#[test]
fn a_view_shows_what_its_owner_may_see() {
    let world = World::new(SETUP);
    let (mut root, mut alice) = (world.session("postgres"), world.session("alice"));
    root.run("GRANT SELECT ON seen TO alice").unwrap();
    assert_eq!(text(&mut alice, "SELECT * FROM seen"), "1");
    root.run("ALTER VIEW seen OWNER TO bob").unwrap();
    assert_eq!(message(&mut alice, "SELECT * FROM seen"), "permission denied for table t");
}

/// Bug: names in a view were looked up in the search path of the user who read it, with its owner's
/// privileges. Consequence: whoever was granted a view could read any table of the owner's that had
/// a name as in the view. Fix: names are stored with schemas.
#[test]
fn a_view_shows_nothing_else_that_its_owner_may_see() {
    let world = World::new(SETUP);
    let (mut root, mut alice) = (world.session("postgres"), world.session("alice"));
    root.run("CREATE SCHEMA private; CREATE TABLE private.t (id int); INSERT INTO private.t VALUES (77)").unwrap();
    root.run("GRANT SELECT ON seen TO alice").unwrap();
    assert_eq!(message(&mut alice, "SELECT * FROM private.t"), "permission denied for schema private");
    alice.run("SET search_path = private, public").unwrap();
    assert_eq!(text(&mut alice, "SELECT * FROM public.seen"), "1");
}

#[test]
fn writing_needs_what_it_does_and_reading_back_needs_more() {
    let world = World::new(SETUP);
    let (mut root, mut alice) = (world.session("postgres"), world.session("alice"));
    root.run("GRANT INSERT, UPDATE ON t TO alice; GRANT USAGE ON SEQUENCE s TO alice").unwrap();
    assert_eq!(state(&mut alice, "INSERT INTO t VALUES (2, 'two')"), "ok");
    assert_eq!(state(&mut alice, "INSERT INTO t VALUES (3, 'three') RETURNING id"), "42501");
    assert_eq!(state(&mut alice, "UPDATE t SET v = 'x'"), "ok");
    assert_eq!(state(&mut alice, "UPDATE t SET v = 'x' WHERE id = 1"), "42501");
    assert_eq!(state(&mut alice, "SELECT nextval('s')"), "ok");
    assert_eq!(state(&mut alice, "SELECT setval('s', 5)"), "42501");
    root.run("GRANT SELECT ON t TO alice").unwrap();
    assert_eq!(state(&mut alice, "SELECT * FROM t FOR UPDATE"), "ok");
    assert_eq!(state(&mut alice, "DELETE FROM t WHERE id = 1"), "42501");
}

#[test]
fn schemas_have_doors_too() {
    let world = World::new(SETUP);
    let (mut root, mut alice) = (world.session("postgres"), world.session("alice"));
    root.run("CREATE SCHEMA inner_part; CREATE TABLE inner_part.u (a int); GRANT SELECT ON inner_part.u TO alice")
        .unwrap();
    assert_eq!(message(&mut alice, "SELECT * FROM inner_part.u"), "permission denied for schema inner_part");
    root.run("GRANT USAGE ON SCHEMA inner_part TO alice").unwrap();
    assert_eq!(state(&mut alice, "SELECT * FROM inner_part.u"), "ok");
    assert_eq!(state(&mut alice, "CREATE TABLE inner_part.x (a int)"), "42501");
    root.run("GRANT CREATE ON SCHEMA inner_part TO alice").unwrap();
    assert_eq!(state(&mut alice, "CREATE TABLE inner_part.x (a serial)"), "ok");
    assert_eq!(text(&mut alice, "SELECT tableowner FROM pg_tables WHERE tablename = 'x'"), "alice");
    assert_eq!(state(&mut alice, "INSERT INTO inner_part.x DEFAULT VALUES"), "ok");
}

#[test]
fn roles_are_made_by_those_who_may_and_superusers_by_superusers() {
    let world = World::new(SETUP);
    let (mut root, mut alice) = (world.session("postgres"), world.session("alice"));
    assert_eq!(state(&mut alice, "CREATE ROLE r"), "42501");
    assert_eq!(state(&mut alice, "ALTER ROLE alice SUPERUSER"), "42501");
    assert_eq!(state(&mut alice, "ALTER ROLE alice PASSWORD 'new'"), "ok");
    assert_eq!(state(&mut alice, "ALTER ROLE bob PASSWORD 'new'"), "42501");
    assert_eq!(state(&mut alice, "DROP ROLE bob"), "42501");
    assert_eq!(state(&mut alice, "GRANT staff TO bob"), "42501");
    root.run("ALTER ROLE alice CREATEROLE").unwrap();
    assert_eq!(state(&mut alice, "CREATE ROLE r LOGIN IN ROLE staff"), "ok");
    assert_eq!(state(&mut alice, "CREATE ROLE evil SUPERUSER"), "42501");
    assert_eq!(state(&mut alice, "ALTER ROLE postgres NOLOGIN"), "42501");
    assert_eq!(state(&mut root, "CREATE ROLE alice"), "42710");
    assert_eq!(state(&mut root, "CREATE ROLE pg_evil"), "42939");
    assert_eq!(state(&mut root, "DROP ROLE nobody"), "42704");
    assert_eq!(state(&mut root, "DROP ROLE IF EXISTS nobody"), "ok");
    assert_eq!(state(&mut root, "ALTER TABLE t OWNER TO bob"), "ok");
    let error = root.run("DROP ROLE bob").unwrap_err();
    assert_eq!((error.state().0, error.report().detail.as_deref()), ("2BP01", Some("owner of table t")));
    assert_eq!(state(&mut root, "REASSIGN OWNED BY bob TO alice"), "ok");
    assert_eq!(state(&mut root, "DROP ROLE bob"), "ok");
    assert!(Session::in_cluster(&world.engine, &world.cluster, "bob", 8).is_err());
    assert!(Session::in_cluster(&world.engine, &world.cluster, "staff", 8).is_err());
    assert_eq!(text(&mut root, "SELECT rolpassword FROM pg_authid WHERE rolname = 'alice'"), "SCRAM-SHA-256$4096:3");
    assert_eq!(state(&mut alice, "SELECT * FROM pg_authid"), "42501");
    assert_eq!(text(&mut alice, "SELECT DISTINCT rolpassword FROM pg_roles"), "********");
}

#[test]
fn a_role_is_put_on_and_taken_off() {
    let world = World::new(SETUP);
    let (mut root, mut alice) = (world.session("postgres"), world.session("alice"));
    root.run("GRANT SELECT ON t TO bob").unwrap();
    root.run("SET ROLE bob").unwrap();
    assert_eq!(text(&mut root, "SELECT current_user, session_user, id FROM t"), "bob,postgres,1");
    assert_eq!(state(&mut root, "DELETE FROM t"), "42501");
    root.run("RESET ROLE").unwrap();
    assert_eq!(state(&mut root, "DELETE FROM t WHERE id = 99"), "ok");
    root.run("BEGIN; SET LOCAL ROLE bob").unwrap();
    assert_eq!(text(&mut root, "SELECT current_user"), "bob");
    root.run("COMMIT").unwrap();
    assert_eq!(text(&mut root, "SELECT current_user"), "postgres");
    root.run("BEGIN; SET ROLE bob; ROLLBACK").unwrap();
    assert_eq!(text(&mut root, "SELECT current_user"), "postgres");
    assert_eq!(state(&mut alice, "SET ROLE bob"), "42501");
    assert_eq!(state(&mut alice, "SET ROLE staff"), "ok");
    assert_eq!(state(&mut alice, "SET SESSION AUTHORIZATION bob"), "42501");
    root.run("SET SESSION AUTHORIZATION bob").unwrap();
    assert_eq!(text(&mut root, "SELECT current_user, session_user"), "bob,bob");
    root.run("DISCARD ALL").unwrap();
    assert_eq!(text(&mut root, "SELECT current_user, session_user"), "postgres,postgres");
}

/// Programs ask it before they do what only superusers may; all ways to ask agree, whoever the
/// session is by now.
#[test]
fn whether_the_user_is_a_superuser_is_shown() {
    let world = World::new(SETUP);
    let (mut root, mut alice) = (world.session("postgres"), world.session("alice"));
    let shown = |session: &mut Session| {
        let setting = "(SELECT setting FROM pg_settings WHERE name = 'is_superuser')";
        let others = text(session, &format!("SELECT current_setting('is_superuser'), {setting}"));
        format!("{},{others}", text(session, "SHOW is_superuser"))
    };
    assert_eq!(shown(&mut root), "on,on,on");
    assert_eq!(shown(&mut alice), "off,off,off");
    root.run("SET ROLE bob").unwrap();
    assert_eq!((shown(&mut root), root.setting("is_superuser").unwrap()), ("off,off,off".into(), "off".into()));
    root.run("BEGIN; RESET ROLE").unwrap();
    assert_eq!(shown(&mut root), "on,on,on");
    root.run("ROLLBACK").unwrap();
    assert_eq!(shown(&mut root), "off,off,off");
    assert_eq!(state(&mut root, "SET is_superuser = on"), "55P02");
}

#[test]
fn databases_belong_to_somebody() {
    let world = World::new(SETUP);
    let (mut root, mut alice) = (world.session("postgres"), world.session("alice"));
    assert_eq!(state(&mut alice, "CREATE DATABASE mine"), "42501");
    root.run("ALTER ROLE alice CREATEDB").unwrap();
    assert_eq!(state(&mut alice, "CREATE DATABASE mine"), "ok");
    assert_eq!(state(&mut alice, "CREATE DATABASE mine"), "42P04");
    assert_eq!(state(&mut alice, "BEGIN"), "ok");
    assert_eq!(state(&mut alice, "CREATE DATABASE other"), "25001");
    assert_eq!(state(&mut alice, "ROLLBACK"), "ok");
    assert_eq!(state(&mut alice, "DROP DATABASE db"), "42501");
    assert_eq!(state(&mut root, "DROP DATABASE db"), "55006");
    assert_eq!(
        text(&mut root, "SELECT datname, pg_get_userbyid(datdba) FROM pg_database ORDER BY 1"),
        "db,postgres;mine,alice"
    );
    root.run("REVOKE CONNECT ON DATABASE db FROM PUBLIC").unwrap();
    assert!(Session::in_cluster(&world.engine, &world.cluster, "alice", 8).is_err());
    root.run("GRANT CONNECT ON DATABASE db TO alice").unwrap();
    assert!(Session::in_cluster(&world.engine, &world.cluster, "alice", 8).is_ok());
    assert_eq!(
        text(&mut root, "SELECT array_to_string(datacl, ' ') FROM pg_database WHERE datname = 'db'"),
        "=T/postgres postgres=CTc/postgres alice=c/postgres"
    );
    assert_eq!(state(&mut alice, "DROP DATABASE mine"), "ok");
    assert_eq!(state(&mut alice, "DROP DATABASE mine"), "3D000");
    assert_eq!(state(&mut alice, "DROP DATABASE IF EXISTS mine"), "ok");
}

#[test]
fn others_statements_are_hidden_and_only_ones_own_are_cancelled() {
    let world = World::new(SETUP);
    let mut alice = world.session("alice");
    assert_eq!(
        text(&mut alice, "SELECT pid, usename, query FROM pg_stat_activity ORDER BY pid"),
        "1,postgres,<insufficient privilege>;2,alice,SELECT 'secret of alice'"
    );
    assert_eq!(state(&mut alice, "SELECT pg_cancel_backend(1)"), "42501");
    assert_eq!(text(&mut alice, "SELECT pg_cancel_backend(2), pg_terminate_backend(99)"), "t,f");
}

#[test]
fn privileges_are_told_to_those_who_ask() {
    let world = World::new(SETUP);
    let mut root = world.session("postgres");
    root.run("GRANT SELECT, INSERT ON t TO alice WITH GRANT OPTION; GRANT ALL ON ALL TABLES IN SCHEMA public TO staff")
        .unwrap();
    assert_eq!(
        text(&mut root, "SELECT array_to_string(relacl, ' ') FROM pg_class WHERE relname = 't'"),
        "postgres=arwdDxt/postgres alice=a*r*/postgres staff=arwdDxt/postgres"
    );
    assert_eq!(
        text(
            &mut root,
            "SELECT has_table_privilege('alice', 't', 'DELETE'), has_table_privilege('bob', 't', 'SELECT, INSERT'), \
             has_table_privilege('alice', 't', 'SELECT WITH GRANT OPTION'), has_schema_privilege('bob', 'public', 'CREATE'), \
             has_database_privilege('bob', 'db', 'CONNECT'), pg_has_role('alice', 'staff', 'MEMBER'), \
             has_sequence_privilege('bob', 's', 'USAGE')"
        ),
        "t,f,t,f,t,t,f"
    );
    let mut alice = world.session("alice");
    assert_eq!(state(&mut alice, "GRANT SELECT ON t TO bob"), "ok");
    // Whoever may do something with it is told only that nothing was granted.
    assert_eq!(state(&mut alice, "GRANT DELETE ON t TO bob"), "ok");
    assert_eq!(alice.take_notices()[0].report.state().0, "01007");
    assert_eq!(
        text(
            &mut root,
            "SELECT grantor, grantee, privilege_type, is_grantable FROM information_schema.table_privileges \
             WHERE table_name = 't' AND grantee = 'bob'"
        ),
        "alice,bob,SELECT,NO"
    );
}

#[test]
fn what_somebody_else_has_prepared_gives_nobody_their_privileges() {
    let world = World::new(SETUP);
    let (mut root, mut alice) = (world.session("postgres"), world.session("alice"));
    for statement in
        ["SELECT v FROM t WHERE id = $1", "SELECT id FROM seen WHERE id = $1", "DELETE FROM t WHERE id = $1"]
    {
        let prepared = root.prepare(statement, &[]).unwrap();
        assert_eq!(alice.prepare(statement, &[]).map(|_| ()).unwrap_err().state().0, "42501", "{statement}");
        // Nor do they take them.
        root.execute(&prepared, vec![Datum::Int(7)]).unwrap();
    }
    root.run("GRANT SELECT ON t TO alice").unwrap();
    let prepared = alice.prepare("SELECT v FROM t WHERE id = $1", &[]).unwrap();
    assert_eq!(alice.execute(&prepared, vec![Datum::Int(1)]).unwrap().rows.len(), 1);
    root.run("REVOKE SELECT ON t FROM alice").unwrap();
    assert_eq!(alice.execute(&prepared, vec![Datum::Int(1)]).map(|_| ()).unwrap_err().state().0, "42501");
}

#[test]
fn what_statements_cost_is_counted() {
    let world = World::new(SETUP);
    let mut root = world.session("postgres");
    for id in 0..5 {
        let prepared = root.prepare("SELECT v FROM t WHERE id = $1", &[]).unwrap();
        root.execute(&prepared, vec![Datum::Int(id)]).unwrap();
    }
    assert_eq!(
        text(
            &mut root,
            "SELECT calls, rows, mean_exec_time > 0, max_exec_time >= min_exec_time FROM pg_stat_statements \
             WHERE query = 'SELECT v FROM t WHERE id = $1'"
        ),
        "5,1,t,t"
    );
}

#[test]
fn locks_are_listed_with_their_sessions() {
    let world = World::new(SETUP);
    let mut root = world.session("postgres");
    root.run("BEGIN; SELECT * FROM t WHERE id = 1 FOR UPDATE").unwrap();
    let mut other = Session::in_cluster(&world.engine, &world.cluster, "postgres", 8).unwrap();
    assert_eq!(
        text(&mut other, "SELECT relation::regclass, mode, granted, pid FROM pg_locks WHERE locktype = 'tuple'"),
        "t,ExclusiveLock,t,7"
    );
    root.run("ROLLBACK").unwrap();
    assert_eq!(text(&mut other, "SELECT count(*) FROM pg_locks"), "0");
    root.run("BEGIN; LOCK TABLE t").unwrap();
    assert_eq!(state(&mut other, "BEGIN; LOCK TABLE t NOWAIT"), "55P03");
}

//! Standbys at work: definitions and sequences as they come, backups taken from one, readers that
//! stay while the log is trimmed.

use std::process::Command;
use std::time::Duration;

use crate::support::{Client, Etcd, Node, until};
use crate::{SOON, expect, sorted};

/// Has a session see what another one has committed last.
fn follow(reader: &mut Client, writer: &mut Client) {
    let token = writer.rows("SELECT colibri_commit_token()").remove(0);
    reader.rows(&format!("SET colibri.read_after = '{token}'"));
}

#[test]
fn a_standby_has_every_definition_as_it_comes() {
    let Some(etcd) = Etcd::start("a_standby_has_every_definition_as_it_comes", &[]) else { return };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let mut writer = leader.connect("postgres");
    writer.rows("CREATE ROLE owner_of_all");
    expect(standbys[0], "postgres", "SELECT count(*) FROM pg_roles WHERE rolname = 'owner_of_all'", &["1"]);
    let mut reader = standbys[0].connect("postgres");
    // What the standby has planned before is planned again.
    reader.rows("PREPARE relations AS SELECT relname || relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1");
    let compared = [
        "EXECUTE relations",
        "SELECT attrelid::regclass || attname || format_type(atttypid, atttypmod) FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid WHERE relnamespace = 'public'::regnamespace AND attnum > 0 ORDER BY 1",
        "SELECT conname || pg_get_constraintdef(oid) FROM pg_constraint ORDER BY 1",
        "SELECT typname FROM pg_type WHERE typnamespace = 'public'::regnamespace ORDER BY 1",
        "SELECT nspname FROM pg_namespace ORDER BY 1",
    ];
    writer.rows("PREPARE relations AS SELECT relname || relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1");
    for (statement, query) in [
        ("CREATE TABLE a (id int PRIMARY KEY, x text NOT NULL)", "SELECT count(*) FROM a"),
        ("INSERT INTO a SELECT g, 'x' || g FROM generate_series(1, 100) g", "SELECT sum(id), max(x) FROM a"),
        ("CREATE INDEX a_x ON a (x)", "SELECT id FROM a WHERE x = 'x77'"),
        ("CREATE TABLE b (a int REFERENCES a ON DELETE CASCADE, n numeric CHECK (n > 0))", "SELECT count(*) FROM b"),
        ("INSERT INTO b SELECT id, id FROM a", "SELECT sum(n) FROM b JOIN a ON b.a = a.id"),
        ("ALTER TABLE a ADD COLUMN y int DEFAULT 7", "SELECT sum(y) FROM a"),
        ("ALTER TABLE a RENAME COLUMN y TO z", "SELECT sum(z) FROM a"),
        ("CREATE VIEW v AS SELECT z, count(*) AS c FROM a GROUP BY z", "SELECT c FROM v"),
        ("DELETE FROM a WHERE id > 50", "SELECT count(*) FROM b"),
        (
            "CREATE TYPE mood AS ENUM ('sad', 'happy'); ALTER TABLE b ADD COLUMN m mood DEFAULT 'happy'",
            "SELECT m FROM b LIMIT 1",
        ),
        ("ALTER TYPE mood ADD VALUE 'ok' BEFORE 'happy'", "SELECT enum_range(NULL::mood)"),
        ("CREATE SEQUENCE s START 10 INCREMENT 5; SELECT nextval('s')", "SELECT last_value >= 10 FROM s"),
        ("SELECT setval('s', 1000); INSERT INTO a VALUES (1000, 'a commit behind it')", "SELECT last_value FROM s"),
        ("TRUNCATE b", "SELECT count(*) FROM b"),
        ("ALTER TABLE b RENAME TO c; DROP INDEX a_x", "SELECT count(*) FROM c"),
        ("CREATE SCHEMA other; CREATE TABLE other.t AS TABLE a", "SELECT count(*) FROM other.t"),
        (
            "ALTER TABLE a OWNER TO owner_of_all; GRANT SELECT ON a TO PUBLIC",
            "SELECT tableowner FROM pg_tables WHERE tablename = 'a'",
        ),
        ("DROP VIEW v; DROP TABLE c; DROP SCHEMA other CASCADE; DROP TYPE mood", "SELECT count(*) FROM a"),
    ] {
        writer.rows(statement);
        follow(&mut reader, &mut writer);
        assert_eq!(reader.rows(query), writer.rows(query), "{statement}");
        for query in compared {
            assert_eq!(reader.rows(query), writer.rows(query), "after {statement}: {query}");
        }
    }
}

/// Bug: VACUUM and its kin succeeded on a standby, and a cluster told who prepared a transaction to
/// set a setting that has no effect there. Consequence: scripts for PostgreSQL's standbys saw
/// another server. Fix: the answers are PostgreSQL's, and the hint is one that helps.
#[test]
fn what_a_standby_or_a_cluster_cannot_do_is_refused_as_postgresql_does_it() {
    let test = "what_a_standby_or_a_cluster_cannot_do_is_refused_as_postgresql_does_it";
    let Some(etcd) = Etcd::start(test, &[]) else { return };
    let prepared = ["--max-prepared-transactions", "5"];
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &prepared));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let mut writer = leader.connect("postgres");
    writer.rows("CREATE TABLE t (x int PRIMARY KEY)");
    let mut reader = standbys[0].connect("postgres");
    follow(&mut reader, &mut writer);
    for sql in ["VACUUM", "VACUUM t", "ANALYZE", "ANALYZE t", "REINDEX TABLE t", "CLUSTER", "CLUSTER t USING t_pkey"] {
        writer.rows(sql);
        let told = reader.run(sql).unwrap_err();
        let word = sql.split(' ').next().unwrap();
        assert_eq!((told.code.as_str(), told.message), ("25006", format!("cannot execute {word} during recovery")));
        assert!(told.hint.contains(&leader.port.to_string()), "{}", told.hint);
    }
    reader.rows("CHECKPOINT");
    assert_eq!(writer.rows("SHOW max_prepared_transactions"), ["0"]);
    writer.rows("BEGIN; INSERT INTO t VALUES (1)");
    let told = writer.run("PREPARE TRANSACTION 'p'").unwrap_err();
    assert_eq!(told.code, "55000");
    assert!(told.hint.contains("cluster") && !told.hint.contains("Set max"), "{}", told.hint);
    assert_eq!(writer.rows("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn a_backup_taken_from_a_standby_is_a_database_by_itself() {
    let Some(etcd) = Etcd::start("a_backup_taken_from_a_standby_is_a_database_by_itself", &[]) else { return };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let mut writer = leader.connect("postgres");
    writer.rows("CREATE TABLE t (x serial PRIMARY KEY, y text); INSERT INTO t (y) SELECT repeat('y', 100) FROM generate_series(1, 2000)");
    let mut reader = standbys[0].connect("postgres");
    follow(&mut reader, &mut writer);
    assert_eq!(reader.rows("SELECT count(*) FROM t"), ["2000"]);
    // A backup beside a node waits for its next steady point.
    reader.rows("CHECKPOINT");
    let replica = replica_of(standbys[0]);
    let (full, since, restored) = (path(&etcd, "full"), path(&etcd, "since"), path(&etcd, "restored"));
    colibri(&["backup", &replica, &full]);
    writer.rows("INSERT INTO t (y) SELECT 'later' FROM generate_series(1, 10)");
    follow(&mut reader, &mut writer);
    assert_eq!(reader.rows("SELECT count(*) FROM t"), ["2010"]);
    reader.rows("CHECKPOINT");
    // What was committed while it was made is in it or not; what was there before is.
    colibri(&["backup", &replica, &since, "--since", &full]);
    colibri(&["restore", &restored, &full, &since]);
    assert_eq!(colibri(&["sql", &restored, "-c", "SELECT count(*), max(x) FROM t"]), "2010 2010");
    colibri(&["check", &restored]);
    // The standby goes on.
    writer.rows("INSERT INTO t (y) VALUES ('after')");
    follow(&mut reader, &mut writer);
    assert_eq!(reader.rows("SELECT count(*) FROM t"), ["2011"]);
}

#[test]
fn a_reader_that_stays_on_a_standby_sees_one_state_while_the_log_is_trimmed() {
    let test = "a_reader_that_stays_on_a_standby_sees_one_state_while_the_log_is_trimmed";
    let Some(etcd) = Etcd::start(test, &[]) else { return };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let mut writer = leader.connect("postgres");
    writer.rows(
        "CREATE TABLE t (x int PRIMARY KEY, y text); INSERT INTO t SELECT g, 'old' FROM generate_series(1, 500) g",
    );
    let mut reader = standbys[0].connect("postgres");
    follow(&mut reader, &mut writer);
    reader.rows("BEGIN ISOLATION LEVEL REPEATABLE READ");
    let sum = "SELECT count(*) || ' ' || sum(x) || ' ' || max(y) FROM t";
    let seen = reader.rows(sum);
    let mut round = 0;
    until("the log is trimmed", Duration::from_secs(60), || {
        round += 1;
        writer.rows(&format!("UPDATE t SET y = 'new{round}', x = x + 1000 WHERE x % 2 = {}", round % 2));
        writer.rows(&format!("DELETE FROM t WHERE x % 97 = {}; INSERT INTO t VALUES ({}, 'more')", round % 97, -round));
        writer.rows("CHECKPOINT");
        standbys[0].connect("postgres").rows("CHECKPOINT");
        assert_eq!(reader.rows(sum), seen, "its state does not change");
        std::thread::sleep(Duration::from_millis(300));
        (etcd.status()["databases"][0]["first"].as_u64()? > 3).then_some(())
    });
    // Others see what is new beside it, and the standby is not held up.
    let now = writer.rows(sum);
    expect(standbys[0], "postgres", sum, &[&now[0]]);
    assert_eq!(reader.rows(sum), seen);
    reader.rows("COMMIT");
    follow(&mut reader, &mut writer);
    assert_eq!(reader.rows(sum), now);
    // The node can be closed and opened again from what it has on its disk and what is left of the log.
    let at = usize::from(standbys[0].name == "n2");
    let mut nodes = nodes;
    nodes[at].kill();
    nodes[at].start_again(&etcd, &[]);
    expect(&nodes[at], "postgres", sum, &[&now[0]]);
}

fn path(etcd: &Etcd, name: &str) -> String {
    etcd.dir.path().join(name).to_string_lossy().into_owned()
}

/// The directory of a node's copy of the database `postgres`.
fn replica_of(node: &Node) -> String {
    node.dir.join("replicas/5").to_string_lossy().into_owned()
}

/// Runs a command; the words of the last line it has printed that has digits, for those that query.
fn colibri(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_colibri")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_row = |line: &&str| line.contains(|c: char| c.is_ascii_digit()) && !line.contains("row");
    let row = said.lines().rev().find(is_row).unwrap_or_default();
    row.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[test]
fn databases_come_and_go_under_standbys_that_use_them() {
    let Some(etcd) = Etcd::start("databases_come_and_go_under_standbys_that_use_them", &[]) else { return };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    sorted(&etcd, "postgres", &nodes);
    for round in 0..4 {
        // The two nodes take turns. Each makes and drops the database, as leader and as standby.
        let (one, other) = (&nodes[round % 2], &nodes[1 - round % 2]);
        one.connect("postgres").rows("CREATE DATABASE comes");
        expect(other, "postgres", "SELECT count(*) FROM pg_database WHERE datname = 'comes'", &["1"]);
        let (leader, standbys) = sorted(&etcd, "comes", &nodes);
        until("it is open", SOON, || {
            leader.try_connect("comes").ok()?.run(&format!("CREATE TABLE t AS SELECT {round} AS x")).ok()
        });
        expect(standbys[0], "comes", "SELECT x FROM t", &[&round.to_string()]);
        let mut using = standbys[0].connect("comes");
        assert_eq!(using.rows("SELECT x FROM t"), [round.to_string()]);
        other.connect("postgres").rows("DROP DATABASE comes WITH (FORCE)");
        until("its sessions end", SOON, || using.run("SELECT x FROM t").err());
        for node in &nodes {
            until("it is dropped", SOON, || (node.try_connect("comes").err()? == "3D000").then_some(()));
        }
    }
}

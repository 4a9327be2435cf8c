//! Clusters of servers on one machine, with Debian's etcd: forming, reading on standbys, who writes
//! where, fail-over, copies for new nodes, moves, limits. Where etcd is missing nothing is tested,
//! which is told.

#![allow(clippy::unwrap_used, reason = "tests")]

mod clients;
mod clocks;
mod copies;
mod drivers;
mod faults;
mod fleet;
mod lag;
mod moving;
mod names;
mod quorum;
mod standbys;
mod support;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::{Etcd, LEASE, Node, free_port, not_run, program, until};

const SOON: Duration = Duration::from_secs(15);

/// Waits until a query on a node gives what is expected.
fn expect(node: &Node, database: &str, sql: &str, expected: &[&str]) {
    let mut last = Err(String::new());
    let end = Instant::now() + SOON;
    while Instant::now() < end {
        last = node.try_connect(database).and_then(|mut client| client.run(sql).map_err(|told| told.code));
        if last.as_ref().is_ok_and(|rows| rows == expected) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{}: {sql}: {last:?} and not {expected:?}", node.name);
}

/// The leader of a database among nodes, and the others.
fn sorted<'n>(etcd: &Etcd, database: &str, nodes: &'n [Node]) -> (&'n Node, Vec<&'n Node>) {
    let leader = etcd.wait_leader(database, |leader| nodes.iter().any(|node| node.name == leader));
    let (leading, others): (Vec<&Node>, Vec<&Node>) = nodes.iter().partition(|node| node.name == leader);
    (leading[0], others)
}

/// Inserts into a table `t (x int, y text)` until the beginning of the log is trimmed. Bases are
/// published every few seconds, and the log is trimmed up to them.
fn trim(etcd: &Etcd, client: &mut support::Client, nodes: &[Node]) {
    until("the log is trimmed", Duration::from_secs(60), || {
        client.rows("INSERT INTO t SELECT max_x + g, repeat('y', 1000) FROM generate_series(1, 200) g, (SELECT coalesce(max(x), 0) AS max_x FROM t) m");
        client.rows("CHECKPOINT");
        for node in nodes {
            node.connect("postgres").rows("CHECKPOINT");
        }
        std::thread::sleep(Duration::from_millis(500));
        (etcd.status()["databases"][0]["first"].as_u64()? > 1).then_some(())
    });
}

#[test]
fn a_standby_shows_what_the_leader_commits_and_refuses_to_write() {
    let Some(etcd) = Etcd::start("a_standby_shows_what_the_leader_commits_and_refuses_to_write", &[]) else { return };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let standby = standbys[0];
    let mut writer = leader.connect("postgres");
    writer.rows("CREATE TABLE t (id serial PRIMARY KEY, x text); INSERT INTO t (x) VALUES ('a'), ('b')");
    let token = writer.rows("SELECT colibri_commit_token()").remove(0);
    let mut reader = standby.connect("postgres");
    reader.rows(&format!("SET colibri.read_after = '{token}'"));
    assert_eq!(reader.rows("SELECT x FROM t ORDER BY id"), ["a", "b"], "its own write is seen at once");
    for (sql, leads, follows) in [
        ("SELECT pg_is_in_recovery()", "f", "t"),
        ("SHOW transaction_read_only", "off", "on"),
        ("SHOW default_transaction_read_only", "off", "on"),
        ("SHOW in_hot_standby", "off", "on"),
    ] {
        assert_eq!((writer.rows(sql), reader.rows(sql)), (vec![leads.to_owned()], vec![follows.to_owned()]), "{sql}");
    }
    assert_eq!((writer.reported("in_hot_standby"), reader.reported("in_hot_standby")), ("off", "on"));
    assert_eq!(reader.reported("default_transaction_read_only"), "on");
    for sql in
        ["INSERT INTO t VALUES (9)", "CREATE TABLE u (x int)", "SELECT nextval('t_id_seq')", "SELECT FROM t FOR UPDATE"]
    {
        let told = reader.run(sql).unwrap_err();
        assert_eq!(told.code, "25006", "{sql}");
        assert!(told.hint.contains(&format!("127.0.0.1:{}", leader.port)), "{sql}: {}", told.hint);
    }
    assert_eq!(reader.code("BEGIN READ WRITE"), "0A000");
    reader.rows("ROLLBACK");
    // Definitions, sequences and rows as they come by the log, in one session.
    for round in 0..5 {
        writer
            .rows(&format!("ALTER TABLE t ADD COLUMN c{round} int DEFAULT {round}; INSERT INTO t (x) VALUES ('more')"));
        let token = writer.rows("SELECT colibri_commit_token()").remove(0);
        reader.rows(&format!("SET colibri.read_after = '{token}'"));
        assert_eq!(reader.rows(&format!("SELECT sum(c{round}) FROM t")), [(round * (3 + round)).to_string()]);
    }
    let last = reader.rows("SELECT last_value FROM t_id_seq");
    writer.rows("SELECT setval('t_id_seq', 1000)");
    expect(standby, "postgres", "SELECT last_value FROM t_id_seq", &["1000"]);
    assert_ne!(last, ["1000"]);
    assert_eq!(reader.code("SET colibri.read_after = 'nonsense'"), "22023", "and not with the next statement");
    assert_eq!(reader.rows("SELECT 1"), ["1"]);
    reader.rows("SET colibri.read_after = '1/1'");
    assert_eq!(reader.code("SELECT 1"), "22023", "of another database");
    reader.rows("RESET colibri.read_after");
    assert_eq!(reader.rows("SELECT 1"), ["1"]);
}

#[test]
fn clients_of_libpq_find_the_leader_and_the_standby() {
    let test = "clients_of_libpq_find_the_leader_and_the_standby";
    let Some(psql) = program("psql") else { return not_run(test, "psql is not installed") };
    let Some(etcd) = Etcd::start(test, &[]) else { return };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    leader.connect("postgres").rows("SELECT 1");
    expect(standbys[0], "postgres", "SELECT pg_is_in_recovery()", &["t"]);
    for (attributes, expected) in [
        ("read-write", leader.port),
        ("primary", leader.port),
        ("read-only", standbys[0].port),
        ("standby", standbys[0].port),
        ("prefer-standby", standbys[0].port),
    ] {
        for ports in [[nodes[0].port, nodes[1].port], [nodes[1].port, nodes[0].port]] {
            let to = format!(
                "host=127.0.0.1,127.0.0.1 port={},{} user=postgres dbname=postgres target_session_attrs={attributes}",
                ports[0], ports[1]
            );
            let output = Command::new(&psql).args(["-XAt", &to, "-c", "SHOW port"]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(said.trim_ascii(), expected.to_string(), "{attributes}: {output:?}");
        }
    }
}

#[test]
fn roles_databases_and_settings_belong_to_all_nodes() {
    let Some(etcd) = Etcd::start("roles_databases_and_settings_belong_to_all_nodes", &[]) else { return };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    // On both at the same time: none of the changes is lost.
    std::thread::scope(|scope| {
        for node in &nodes {
            scope.spawn(move || {
                let mut client = node.connect("postgres");
                for number in 0..10 {
                    client.rows(&format!("CREATE ROLE {}_{number}", node.name));
                }
            });
        }
    });
    let one = nodes[0].connect("postgres").code("CREATE ROLE n2_3");
    assert_eq!(one, "42710");
    for node in &nodes {
        expect(node, "postgres", "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'n_\\_%'", &["20"]);
    }
    nodes[1].connect("postgres").rows("CREATE DATABASE birds");
    nodes[0].query("postgres", "ALTER DATABASE postgres SET statement_timeout = '77s'");
    expect(&nodes[1], "postgres", "SHOW statement_timeout", &["77s"]);
    expect(&nodes[0], "birds", "SELECT 1", &["1"]);
    expect(&nodes[1], "birds", "SELECT 1", &["1"]);
    let (leader, standbys) = sorted(&etcd, "birds", &nodes);
    leader.connect("birds").rows("CREATE TABLE t AS SELECT 7 AS x");
    expect(standbys[0], "birds", "SELECT x FROM t", &["7"]);
    standbys[0].connect("postgres").rows("ALTER DATABASE birds RENAME TO colibris");
    for node in &nodes {
        expect(node, "colibris", "SELECT x FROM t", &["7"]);
        until("the old name is gone", SOON, || (node.try_connect("birds").err()? == "3D000").then_some(()));
    }
    let oid = nodes[0].query("postgres", "SELECT oid FROM pg_database WHERE datname = 'colibris'").remove(0);
    nodes[0].connect("postgres").rows("DROP DATABASE colibris WITH (FORCE)");
    for node in &nodes {
        until("it is dropped", SOON, || (node.try_connect("colibris").err()? == "3D000").then_some(()));
        let dir = node.dir.join("replicas").join(&oid);
        until("its directory is gone", SOON, || (!dir.exists()).then_some(()));
    }
    assert!(!etcd.cluster(&["log"]).unwrap().contains("colibris"));
}

#[test]
fn a_killed_leader_is_followed_within_its_lease_and_no_acknowledged_commit_is_lost() {
    let test = "a_killed_leader_is_followed_within_its_lease_and_no_acknowledged_commit_is_lost";
    let Some(etcd) = Etcd::start(test, &[]) else { return };
    let mut nodes = ["n1", "n2", "n3"].map(|name| etcd.node(name, &[]));
    let leader = etcd.wait_leader("postgres", |_| true);
    let at = nodes.iter().position(|node| node.name == leader).unwrap();
    nodes[at].connect("postgres").rows("CREATE TABLE t (x int PRIMARY KEY)");
    for node in &nodes {
        expect(node, "postgres", "SELECT count(*) FROM t", &["0"]);
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (mut client, is_over) = (nodes[at].connect("postgres"), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let mut acknowledged = Vec::new();
                for number in 0.. {
                    let x = writer * 1_000_000 + number;
                    match client.run(&format!("INSERT INTO t VALUES ({x})")) {
                        Ok(_) => acknowledged.push(x),
                        Err(_) => break,
                    }
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
                acknowledged
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(700));
    nodes[at].kill();
    let killed = Instant::now();
    is_over.store(true, Ordering::Relaxed);
    let acknowledged: Vec<i32> = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
    assert!(acknowledged.len() > 20, "{}", acknowledged.len());
    let others: Vec<&Node> = nodes.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, node)| node).collect();
    let mut second = until("a write", Duration::from_secs(30), || {
        others.iter().find_map(|node| {
            let mut client = node.try_connect("postgres").ok()?;
            client.run("INSERT INTO t VALUES (-1)").ok().map(|_| client)
        })
    });
    let took = killed.elapsed();
    assert!(took < LEASE + Duration::from_secs(2), "the first write came after {took:?}");
    let there: std::collections::BTreeSet<i32> =
        second.rows("SELECT x FROM t").iter().map(|x| x.parse().unwrap()).collect();
    let lost: Vec<_> = acknowledged.iter().filter(|x| !there.contains(x)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    // The old leader comes back, with all that was committed meanwhile.
    second.rows("INSERT INTO t VALUES (-2)");
    nodes[at].start_again(&etcd, &[]);
    expect(&nodes[at], "postgres", "SELECT count(*) FROM t WHERE x < 0", &["2"]);
    let all = second.run("SELECT count(*) FROM t").unwrap_or_default();
    if let [all] = &all[..] {
        for node in &nodes {
            expect(node, "postgres", "SELECT count(*) FROM t", &[all]);
        }
    }
}

#[test]
fn a_leader_that_was_stopped_gives_no_outdated_read_and_acknowledges_nothing() {
    let test = "a_leader_that_was_stopped_gives_no_outdated_read_and_acknowledges_nothing";
    let Some(etcd) = Etcd::start(test, &[]) else { return };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let mut client = leader.connect("postgres");
    client.rows("CREATE TABLE t (x int); INSERT INTO t VALUES (1)");
    let mut agreed = leader.connect("postgres");
    agreed.rows("SET colibri.reads = agreed");
    expect(standbys[0], "postgres", "SELECT x FROM t", &["1"]);
    leader.signal("-STOP");
    let mut second = until("another leader", Duration::from_secs(30), || {
        let mut client = standbys[0].try_connect("postgres").ok()?;
        client.run("UPDATE t SET x = 2").ok().map(|_| client)
    });
    leader.signal("-CONT");
    // It answers with an error, or after it has learned that it does not lead.
    let read = client.run("SELECT x FROM t");
    assert!(read.as_ref().map_or(true, |rows| rows[..] == ["2"]), "an outdated read: {read:?}");
    assert!(read.is_err(), "the session of a leader ends with its term: {read:?}");
    // The log is gone on with, under the old leader's feet.
    second.rows("INSERT INTO t VALUES (3)");
    for node in &nodes {
        expect(node, "postgres", "SELECT x FROM t ORDER BY x", &["2", "3"]);
    }
}

#[test]
fn a_new_node_copies_what_the_log_has_no_more() {
    let Some(etcd) = Etcd::start("a_new_node_copies_what_the_log_has_no_more", &[]) else { return };
    let keep = ["--database-keep", "100ms"];
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &keep));
    let (leader, _) = sorted(&etcd, "postgres", &nodes);
    let mut client = leader.connect("postgres");
    client.rows("CREATE TABLE t (x int PRIMARY KEY, y text)");
    trim(&etcd, &mut client, &nodes);
    let count = client.rows("SELECT count(*) FROM t");
    let third = etcd.node("n3", &keep);
    expect(&third, "postgres", "SELECT count(*) FROM t", &[&count[0]]);
    assert!(third.log().contains(" copied "), "{}", third.log());
    client.rows("INSERT INTO t VALUES (-1)");
    expect(&third, "postgres", "SELECT count(*) FROM t WHERE x < 0", &["1"]);
    // Half a copy is no database.
    assert!(!third.dir.join("replicas/5.copying").exists());
}

#[test]
fn a_server_with_databases_becomes_the_first_node_and_others_get_its_databases() {
    let test = "a_server_with_databases_becomes_the_first_node_and_others_get_its_databases";
    let Some(etcd) = Etcd::start(test, &[]) else { return };
    let dir = etcd.dir.path().join("n1");
    let sql = |dir: &std::path::Path, text: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_colibri"));
        let output = command.arg("sql").arg(dir).args(["-c", text]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    for (name, text) in [("birds", "CREATE TABLE t AS SELECT 1 AS x"), ("postgres", "CREATE TABLE p AS SELECT 2 AS x")]
    {
        let path = dir.join("databases").join(name);
        std::fs::create_dir_all(&path).unwrap();
        sql(&path, text);
    }
    let first = etcd.node("n1", &[]);
    expect(&first, "birds", "SELECT x FROM t", &["1"]);
    let second = etcd.node("n2", &[]);
    expect(&second, "birds", "SELECT x FROM t", &["1"]);
    expect(&second, "postgres", "SELECT x FROM p", &["2"]);
    let (leader, standbys) = sorted(&etcd, "birds", std::slice::from_ref(&first));
    assert!(standbys.is_empty());
    leader.connect("birds").rows("INSERT INTO t VALUES (5)");
    expect(&second, "birds", "SELECT x FROM t ORDER BY x", &["1", "5"]);
    // Another directory with databases of its own is not taken.
    let other = etcd.dir.path().join("n3");
    std::fs::create_dir_all(other.join("databases/x")).unwrap();
    sql(&other.join("databases/x"), "CREATE TABLE t (x int)");
    let mut command = Command::new(env!("CARGO_BIN_EXE_colibri"));
    command.arg("serve").arg(&other).args(["--listen", "127.0.0.1:0", "--cluster", &etcd.address(), "--node", "n3"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("databases of its own"), "{said}");
    // And a node's directory is not served without its cluster.
    drop(first);
    let output = Command::new(env!("CARGO_BIN_EXE_colibri")).arg("serve").arg(&dir).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("--cluster"), "{said}");
}

#[test]
fn an_administrator_moves_a_database_and_forgets_a_node() {
    let Some(etcd) = Etcd::start("an_administrator_moves_a_database_and_forgets_a_node", &[]) else { return };
    let mut nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let (from, to) = (leader.name.clone(), standbys[0].name.clone());
    let mut client = leader.connect("postgres");
    client.rows("CREATE TABLE t (x int); INSERT INTO t VALUES (1)");
    let mut waiting = standbys[0].connect("postgres");
    assert_eq!(waiting.code("INSERT INTO t VALUES (2)"), "25006");
    until("the home is near enough", SOON, || etcd.cluster(&["move", "postgres", &to]).ok());
    assert_eq!(etcd.leader("postgres"), Some(to.clone()));
    client.rows("INSERT INTO t VALUES (3)");
    // The session of a standby that leads now goes on, and may write.
    until("the standby leads", SOON, || waiting.run("INSERT INTO t VALUES (4)").ok());
    assert_eq!(waiting.reported("in_hot_standby"), "off");
    let at = nodes.iter().position(|node| node.name == from).unwrap();
    expect(&nodes[at], "postgres", "SELECT count(*) FROM t", &["3"]);
    let told = etcd.cluster(&["move", "postgres", "nobody"]).unwrap_err();
    assert!(told.contains("no node"), "{told}");
    assert!(etcd.cluster(&["move", "nothing", &to]).unwrap_err().contains("does not exist"));
    let status = etcd.cluster(&["status"]).unwrap();
    assert!(status.contains(&from) && status.contains("standby") && status.contains("leader"), "{status}");
    assert!(etcd.cluster(&["remove", &from]).unwrap_err().contains("end its server first"));
    nodes[at].end();
    until("it has left", SOON, || etcd.cluster(&["remove", &from]).ok());
    assert!(etcd.cluster(&["remove", &from]).unwrap_err().contains("nothing is known"));
    // The chosen node ends: another one leads, and the choice counts again when it is back.
    nodes[at].start_again(&etcd, &[]);
    let chosen = 1 - at;
    expect(&nodes[at], "postgres", "SELECT count(*) FROM t", &["3"]);
    nodes[chosen].end();
    etcd.wait_leader("postgres", |leader| leader == from);
    expect(&nodes[at], "postgres", "INSERT INTO t VALUES (5) RETURNING x", &["5"]);
    nodes[chosen].start_again(&etcd, &[]);
    etcd.wait_leader("postgres", |leader| leader == to);
    expect(&nodes[chosen], "postgres", "SELECT count(*) FROM t WHERE x = 5", &["1"]);
}

#[test]
fn a_database_that_nobody_uses_is_closed_everywhere_and_keeps_its_leader() {
    let Some(etcd) = Etcd::start("a_database_that_nobody_uses_is_closed_everywhere_and_keeps_its_leader", &[]) else {
        return;
    };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &["--database-keep", "300ms"]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    leader.connect("postgres").rows("CREATE TABLE t AS SELECT 1 AS x");
    expect(standbys[0], "postgres", "SELECT x FROM t", &["1"]);
    let standings = || -> Vec<String> {
        let status = etcd.status();
        let copies = status["databases"][0]["copies"].as_array().unwrap().clone();
        copies.iter().map(|copy| copy["standing"].as_str().unwrap().to_owned()).collect()
    };
    until("both have closed it", SOON, || (standings() == ["closed", "closed"]).then_some(()));
    assert_eq!(etcd.leader("postgres"), Some(leader.name.clone()));
    // The first connection opens it, for reading and writing.
    let began = Instant::now();
    let mut client = leader.connect("postgres");
    client.rows("INSERT INTO t VALUES (2)");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(etcd.leader("postgres"), Some(leader.name.clone()));
    expect(standbys[0], "postgres", "SELECT x FROM t ORDER BY x", &["1", "2"]);
}

/// Bug: a session that waited for a database to be opened asked for it without a pause.
/// Consequence: a processor was busy, and a database that was being opened could stand still for
/// half a minute. Fix: see `cluster/lease.rs`.
#[test]
fn sessions_that_wait_for_a_database_sleep() {
    let Some(etcd) = Etcd::start("sessions_that_wait_for_a_database_sleep", &[]) else { return };
    let node = etcd.node("n1", &["--database-keep", "100ms"]);
    node.connect("postgres").rows("CREATE TABLE t AS SELECT 1 AS x");
    until("it is closed", SOON, || {
        let closed = etcd.status()["databases"][0]["copies"][0]["standing"] == "closed";
        closed.then_some(())
    });
    etcd.signal("-STOP");
    std::thread::scope(|scope| {
        // The second one disturbs the first.
        let waiting = [(); 2].map(|()| {
            std::thread::sleep(Duration::from_millis(200));
            scope.spawn(|| node.try_connect("postgres").map(drop))
        });
        std::thread::sleep(Duration::from_millis(200));
        let before = node.processor_time();
        std::thread::sleep(Duration::from_millis(1000));
        let used = node.processor_time() - before;
        let are_waiting = waiting.iter().all(|session| !session.is_finished());
        etcd.signal("-CONT");
        waiting.into_iter().for_each(|session| _ = session.join().unwrap());
        assert!(are_waiting, "nobody can open it meanwhile");
        assert!(used < Duration::from_millis(300), "{used:?} in a second");
    });
    expect(&node, "postgres", "SELECT x FROM t", &["1"]);
}

#[test]
fn etcd_that_fills_is_told_of_at_half_and_refuses_writes_before_it_stops() {
    let test = "etcd_that_fills_is_told_of_at_half_and_refuses_writes_before_it_stops";
    let Some(etcd) = Etcd::start(test, &["--quota-backend-bytes", "33554432"]) else { return };
    let address = format!("{}?quota=32MiB", etcd.address());
    let port = free_port();
    let node = etcd.node("n1", &["--cluster", &address, "--metrics", &format!("127.0.0.1:{port}")]);
    let mut client = node.connect("postgres");
    client.rows("CREATE TABLE t (x text)");
    // Of texts that are alike little would be left in the log.
    let insert = |rows: u32| {
        format!(
            "INSERT INTO t SELECT (SELECT string_agg(md5(random()::text || g || h), '') \
             FROM generate_series(1, 313) h) FROM generate_series(1, {rows}) g"
        )
    };
    let has_told = |event: &str| node.log().lines().any(|line| line.contains(event));
    let level = || {
        let (_, metrics) = lag::get(port, "/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix("colibri_cluster_etcd_level "));
        line.unwrap_or_else(|| panic!("{metrics}")).to_owned()
    };
    assert_eq!(level(), "0");
    let used = || {
        let status = etcd.cluster(&["status", "--json", "--cluster", &address]).unwrap();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        (status["etcd"]["bytes"].as_u64().unwrap(), status["etcd"]["level"].as_str().unwrap().to_owned())
    };
    assert_eq!(used().1, "ample");
    // Half of the quota: it is told, and everything goes on.
    until("half is told", Duration::from_secs(90), || {
        assert!(!has_told(" etcd_full "), "{}", node.log());
        if used().0 < 20 << 20 {
            (0..3).for_each(|_| _ = client.rows(&insert(100)));
        }
        has_told(" etcd_half_full ").then_some(())
    });
    let (bytes, is) = used();
    assert!(bytes >= 16 << 20 && is == "half", "{bytes} {is}");
    assert_eq!(level(), "1");
    client.rows("INSERT INTO t VALUES ('at half')");
    // Nine tenths: writes are refused, with a hint, and reads go on.
    let told = until("writes are refused", Duration::from_secs(90), || {
        std::thread::sleep(Duration::from_millis(200));
        client.run(&insert(60)).err()
    });
    assert_eq!(told.code, "53100");
    assert!(told.hint.contains("etcd"), "{told:?}");
    assert!(has_told(" etcd_full "), "{}", node.log());
    assert_eq!(level(), "2");
    assert_eq!(client.rows("SELECT count(*) FROM t WHERE x = 'at half'"), ["1"], "reads go on");
}

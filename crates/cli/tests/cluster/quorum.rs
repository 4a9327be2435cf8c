//! Clusters whose etcd does not answer: what is refused, what is shown to whom, and what an
//! administrator is told. The one member of etcd is stopped, as if most of several were gone.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::lag::get;
use crate::support::{Client, Etcd, LEASE, Node, free_port, until};
use crate::{SOON, expect, sorted};

/// A statement is refused within the lease and some seconds.
const REFUSED_MAX: Duration = Duration::from_secs(LEASE.as_secs() + 8);

fn reads_agreed(node: &Node) -> Client {
    node.try_connect_with("postgres", "-c colibri.reads=agreed").unwrap()
}

#[test]
fn without_a_quorum_nothing_is_read_that_was_not_asked_for_and_all_say_why() {
    let test = "without_a_quorum_nothing_is_read_that_was_not_asked_for_and_all_say_why";
    let Some(etcd) = Etcd::start(test, &[]) else { return };
    let ports = [free_port(), free_port()];
    let node = |at: usize| etcd.node(["n1", "n2"][at], &["--metrics", &format!("127.0.0.1:{}", ports[at])]);
    let nodes = [node(0), node(1)];
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let standby = standbys[0];
    let mut writer = leader.connect("postgres");
    writer.rows("CREATE TABLE t (x int); INSERT INTO t VALUES (1)");
    expect(standby, "postgres", "SELECT x FROM t", &["1"]);
    let (mut idle, mut open, mut following) =
        (leader.connect("postgres"), leader.connect("postgres"), standby.connect("postgres"));
    let mut asked = [reads_agreed(leader), reads_agreed(standby)];
    open.rows("BEGIN; INSERT INTO t VALUES (7)");
    // What a commit was acknowledged for is shown without a steady point.
    writer.rows("INSERT INTO t VALUES (2)");
    expect(standby, "postgres", "SELECT count(*) FROM t", &["2"]);
    assert_eq!(get(ports[0], "/healthz").1, "ok\n");
    etcd.signal("-STOP");
    for port in ports {
        until("the lease is over", REFUSED_MAX, || {
            get(port, "/metrics").1.contains("\ncolibri_cluster_reached 0\n").then_some(())
        });
    }

    // Nothing is under way: the sessions go on, and are told.
    for client in [&mut idle, &mut following] {
        let told = client.run("SELECT x FROM t").unwrap_err();
        assert_eq!(told.code, "57P03", "{told:?}");
        assert!(told.message.contains("cluster cannot be reached"), "{told:?}");
        assert!(told.detail.contains("etcd") && told.hint.contains("colibri.reads"), "{told:?}");
        assert_eq!(client.parse_and_execute("SELECT x FROM t").unwrap_err().code, "57P03");
        client.rows("SET statement_timeout = 0");
        assert_eq!(client.rows("SHOW statement_timeout"), ["0"]);
        client.rows("SET colibri.reads = agreed");
        assert_eq!(client.rows("SELECT x FROM t ORDER BY x"), ["1", "2"]);
        client.rows("SET colibri.reads = current");
        assert_eq!(client.code("SELECT x FROM t"), "57P03");
    }
    for client in &mut asked {
        assert_eq!(client.rows("SELECT x FROM t ORDER BY x"), ["1", "2"]);
    }
    // Nobody is told that this is the leader, so that clients go on to the next node.
    assert_eq!(leader.try_connect("postgres").err().as_deref(), Some("57P03"));
    assert_eq!(reads_agreed(leader).rows("SELECT x FROM t ORDER BY x"), ["1", "2"]);
    let began = Instant::now();
    let told = writer.run("INSERT INTO t VALUES (3)").unwrap_err();
    assert_eq!(told.code, "57P03", "nothing was sent to the log: {told:?}");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(open.run("COMMIT").unwrap_err().code, "40003", "this one was under way");

    // That term is lost. The state that was agreed on is shown, to who asks for it.
    until("the leader is cut off", REFUSED_MAX, || {
        leader.log().lines().any(|line| line.contains(" cut_off ")).then_some(())
    });
    let told = idle.run("SELECT x FROM t").unwrap_err();
    assert_eq!(told.code, "57P03", "{told:?}");
    idle.rows("SET colibri.reads = agreed");
    for client in asked.iter_mut().chain([&mut idle]) {
        assert_eq!(client.rows("SELECT x FROM t ORDER BY x"), ["1", "2"], "all that was acknowledged");
    }
    for node in &nodes {
        let mut late = node.connect("postgres");
        assert_eq!(late.code("SELECT x FROM t"), "57P03");
        assert_eq!(reads_agreed(node).rows("SELECT x FROM t ORDER BY x"), ["1", "2"]);
    }

    // Everything that tells of the cluster says what is the matter.
    for (at, node) in nodes.iter().enumerate() {
        let (status, body) = get(ports[at], "/healthz");
        assert_eq!(status, "200", "the server itself is well");
        assert!(body.contains("cluster not reached: etcd has not answered for "), "{body}");
        for path in ["/healthz?role=leader", "/healthz?role=standby", "/healthz?role=standby&database=postgres"] {
            let (status, body) = get(ports[at], path);
            assert_eq!(status, "503", "{path}: {body}");
            assert!(body.contains("cluster not reached"), "{path}: {body}");
        }
        let (_, metrics) = get(ports[at], "/metrics");
        assert!(metrics.contains("\ncolibri_cluster_reached 0\n"), "{metrics}");
        let silent = metrics.lines().find_map(|line| line.strip_prefix("colibri_cluster_unreached_seconds "));
        assert!(silent.unwrap().parse::<f64>().unwrap() > 1.0);
        assert!(node.log().contains(" cluster_unreachable "), "{}", node.log());
    }
    let began = Instant::now();
    let told = etcd.cluster(&["status"]).unwrap_err();
    assert!(told.contains("etcd does not answer"), "{told}");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let dir = leader.dir.to_str().unwrap();
    let began = Instant::now();
    let status = etcd.cluster(&["status", "--dir", dir]).unwrap();
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    for part in ["etcd cannot be asked", "n1", "n2", "postgres", "cut off", "etcd has not answered for"] {
        assert!(status.contains(part), "{part}: {status}");
    }
    let json = Command::new(env!("CARGO_BIN_EXE_colibri"))
        .args(["cluster", "status", "--json", "--dir", standby.dir.to_str().unwrap()])
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["etcd"].is_null() && json["trouble"].is_string(), "{json}");
    assert_eq!(json["databases"][0]["copies"].as_array().unwrap().len(), 2, "{json}");

    // etcd is back. What was cut off is opened again, and its sessions are told why they end.
    etcd.signal("-CONT");
    let told = until("its term is over", SOON, || idle.run("SELECT x FROM t").err());
    assert_eq!(told.code, "57P03", "{told:?}");
    assert!(told.message.contains("lost the lead"), "{told:?}");
    until("writes again", Duration::from_secs(30), || {
        nodes.iter().find_map(|node| node.try_connect("postgres").ok()?.run("INSERT INTO t VALUES (4)").ok())
    });
    for node in &nodes {
        expect(node, "postgres", "SELECT x FROM t WHERE x NOT IN (3, 7) ORDER BY x", &["1", "2", "4"]);
        // Its lease has lived on, or has ended meanwhile.
        let log = node.log();
        assert!(log.contains(" cluster_reached ") || log.contains(" joined_again "), "{log}");
    }
    assert_eq!(following.rows("SELECT x FROM t WHERE x = 1"), ["1"], "a session of the standby goes on");
    assert!(etcd.cluster(&["status"]).unwrap().contains("members up"));
    assert_eq!(get(ports[0], "/healthz").1, "ok\n");
}

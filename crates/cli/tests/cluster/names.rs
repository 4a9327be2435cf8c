//! Names: two servers that were given one, and names of databases that have to be escaped.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::lag::get;
use crate::support::{Etcd, LEASE, Node, free_port, until};
use crate::{SOON, expect, sorted};

/// Starts a server that is expected to end; what it says.
fn refused(etcd: &Etcd, dir: &str, node: &str) -> String {
    let address = format!("127.0.0.1:{}", free_port());
    let lease = format!("{}s", LEASE.as_secs());
    let output = Command::new("timeout")
        .args(["60", env!("CARGO_BIN_EXE_colibri"), "serve"])
        .arg(etcd.dir.path().join(dir))
        .args(["--listen", &address, "--cluster", &etcd.address(), "--node", node, "--lease", &lease])
        .output()
        .unwrap();
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Bug: a server whose lease had ended took its name back from whoever had it. Consequence: two
/// servers with one name by mistake ended each other's leases in turn, and nothing said so. Fix: a
/// member's record says which directory and which start of the server it is of.
#[test]
fn the_second_server_of_a_name_is_refused_and_told_of_the_first() {
    let Some(etcd) = Etcd::start("the_second_server_of_a_name_is_refused_and_told_of_the_first", &[]) else { return };
    let mut nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, _) = sorted(&etcd, "postgres", &nodes);
    leader.connect("postgres").rows("CREATE TABLE t AS SELECT 1 AS x");
    let epoch = etcd.status()["databases"][0]["epoch"].clone();
    let began = Instant::now();
    let said = refused(&etcd, "other", "n1");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let first = format!("another server is the node n1 of the cluster, at 127.0.0.1:{}", nodes[0].port);
    assert!(said.contains(&first), "{said}");
    assert_eq!(etcd.status()["databases"][0]["epoch"], epoch, "the first one has noticed nothing");

    // The first one crashes, and the second one comes when its lease has ended: it is a new machine
    // of that name. Now the first one is the second, and is told so.
    nodes[0].kill();
    let other = Node::start(&etcd, "n1", &etcd.dir.path().join("other"), free_port(), &[]);
    expect(&other, "postgres", "SELECT x FROM t", &["1"]);
    let said = refused(&etcd, "n1", "n1");
    assert!(said.contains(&format!("at 127.0.0.1:{}", other.port)), "{said}");

    // One that was stopped for longer than its lease does not take the name back either.
    let stopped = other;
    stopped.signal("-STOP");
    let third = Node::start(&etcd, "n1", &etcd.dir.path().join("third"), free_port(), &[]);
    expect(&third, "postgres", "SELECT x FROM t", &["1"]);
    stopped.signal("-CONT");
    until("it is told", SOON, || stopped.log().contains(" node_name_taken ").then_some(()));
    assert_eq!(stopped.connect("postgres").code("SELECT x FROM t"), "57P03");
    std::thread::sleep(LEASE);
    let status = etcd.status();
    let n1 = status["nodes"].as_array().unwrap().iter().find(|node| node["id"] == "n1").unwrap().clone();
    assert_eq!(n1["address"], format!("127.0.0.1:{}", third.port), "{status}");
    expect(&third, "postgres", "SELECT x FROM t", &["1"]);
    assert!(!third.log().contains(" lease_lost "), "{}", third.log());
}

#[test]
fn a_server_that_has_crashed_is_itself_again_at_once() {
    let Some(etcd) = Etcd::start("a_server_that_has_crashed_is_itself_again_at_once", &[]) else { return };
    let mut node = etcd.node("n1", &["--lease", "60s"]);
    node.connect("postgres").rows("CREATE TABLE t AS SELECT 1 AS x");
    node.kill();
    let began = Instant::now();
    node.start_again(&etcd, &["--lease", "60s"]);
    assert!(began.elapsed() < Duration::from_secs(20), "its lease is not waited for: {:?}", began.elapsed());
    expect(&node, "postgres", "SELECT x FROM t", &["1"]);
}

#[test]
fn a_name_with_escapes_is_that_database() {
    let Some(etcd) = Etcd::start("a_name_with_escapes_is_that_database", &[]) else { return };
    let port = free_port();
    let node = etcd.node("n1", &["--metrics", &format!("127.0.0.1:{port}")]);
    node.connect("postgres").rows("CREATE DATABASE \"my V\u{f6}gel&=%\"");
    let (status, body) = get(port, "/healthz?database=my%20V%c3%b6gel%26%3D%25");
    assert_eq!(status, "200", "{body}");
    until("it leads it", SOON, || {
        (get(port, "/healthz?role=leader&database=my+V%C3%B6gel%26%3d%25").0 == "200").then_some(())
    });
    assert_eq!(get(port, "/healthz?database=my%20V%c3%b6gel").0, "404");
    assert_eq!(get(port, "/healthz?database=%zz").0, "400");
}

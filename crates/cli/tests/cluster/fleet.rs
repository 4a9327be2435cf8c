//! Many databases on three nodes: leaders spread, move when a node dies or comes back, and cost
//! nothing while nobody uses them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::expect;
use crate::support::{Etcd, LEASE, Node, until};

/// How many databases each node leads.
fn led(etcd: &Etcd) -> BTreeMap<String, usize> {
    let status = etcd.status();
    let nodes = status["nodes"].as_array().unwrap();
    nodes
        .iter()
        .map(|node| (node["id"].as_str().unwrap().to_owned(), node["leads"].as_u64().unwrap() as usize))
        .collect()
}

/// Messages that etcd has received from its clients so far, by what they are.
fn requests(etcd: &Etcd) -> BTreeMap<String, u64> {
    let mut stream = TcpStream::connect(etcd.client_address()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text.lines().filter(|line| line.starts_with("grpc_server_msg_received_total{"));
    let method = |line: &str| line.split("grpc_method=\"").nth(1)?.split('"').next().map(str::to_owned);
    lines.filter_map(|line| Some((method(line)?, line.rsplit(' ').next()?.parse::<f64>().ok()? as u64))).collect()
}

fn are_closed(etcd: &Etcd) -> bool {
    let status = etcd.status();
    let copies = status["databases"].as_array().unwrap().iter().flat_map(|one| one["copies"].as_array().unwrap());
    copies.into_iter().all(|copy| copy["standing"] == "closed" || copy["standing"] == "gone")
}

/// Makes databases, lets a node die and come back, and looks at what it costs when nobody uses them.
fn a_fleet(test: &str, count: usize, time_max: Duration) {
    let Some(etcd) = Etcd::start(test, &[]) else { return };
    let mut nodes = ["n1", "n2", "n3"].map(|name| etcd.node(name, &["--database-keep", "500ms"]));
    let began = Instant::now();
    let mut client = nodes[0].connect("postgres");
    for number in 0..count {
        client.rows(&format!("CREATE DATABASE d{number}"));
    }
    println!("{count} databases made in {:?}", began.elapsed());
    let all = count + 1;
    let is_spread = |counts: &BTreeMap<String, usize>, nodes: usize| {
        counts.values().sum::<usize>() == all
            && counts.len() == nodes
            && counts.values().all(|led| led * nodes * 2 > all)
    };
    let spread = until("all are led", time_max, || Some(led(&etcd)).filter(|counts| is_spread(counts, 3)));
    println!("led after {:?}: {spread:?}", began.elapsed());
    drop(client);
    // Some of them are used, on whichever node leads them.
    let used = |step: usize| (0..count).step_by((count / 12).max(1)).skip(step).step_by(3);
    let on_leader = |nodes: &[Node], name: &str, sql: &str| {
        until(name, time_max, || nodes.iter().find_map(|node| node.try_connect(name).ok()?.run(sql).ok()))
    };
    for number in used(0) {
        on_leader(&nodes, &format!("d{number}"), &format!("CREATE TABLE t AS SELECT {number} AS x"));
    }
    until("all are closed", time_max, || are_closed(&etcd).then_some(()));

    // Nobody uses them: the keepalives of three leases are all there is.
    std::thread::sleep(Duration::from_secs(2));
    let before = (requests(&etcd), nodes.each_ref().map(Node::processor_time));
    let idle = Duration::from_secs(10);
    std::thread::sleep(idle);
    let after = (requests(&etcd), nodes.each_ref().map(Node::processor_time));
    let asked: BTreeMap<_, _> =
        after.0.iter().map(|(method, now)| (method, now - before.0.get(method).unwrap_or(&0))).collect();
    let asked: BTreeMap<_, _> = asked.into_iter().filter(|(_, count)| *count > 0).collect();
    let used_s: Vec<_> = after.1.iter().zip(&before.1).map(|(after, before)| *after - *before).collect();
    println!("in {idle:?} without use: {asked:?}; processor time of the nodes {used_s:?}");
    let keepalives = 3 * (idle.as_secs() * 3 / LEASE.as_secs() + 2);
    for (method, count) in &asked {
        assert!(method.as_str() == "LeaseKeepAlive" && *count <= keepalives, "{method}: {count}");
    }
    assert!(used_s.iter().all(|used| *used < Duration::from_millis(500)), "{used_s:?}");

    // A node dies: the others lead what it led.
    nodes[2].kill();
    let died = Instant::now();
    let two = until("two lead all", time_max, || Some(led(&etcd)).filter(|counts| is_spread(counts, 2)));
    println!("led by two {:?} after the kill: {two:?}", died.elapsed());
    for number in used(1) {
        on_leader(&nodes[..2], &format!("d{number}"), &format!("CREATE TABLE t AS SELECT {number} AS x"));
    }
    // It comes back, copies what it lacks, and leads its own again.
    nodes[2].start_again(&etcd, &["--database-keep", "500ms"]);
    let came = Instant::now();
    let again = until("as before", time_max, || Some(led(&etcd)).filter(|counts| *counts == spread));
    println!("as before {:?} after its start: {again:?}", came.elapsed());
    for number in used(2) {
        on_leader(&nodes, &format!("d{number}"), &format!("CREATE TABLE t AS SELECT {number} AS x"));
    }
    for number in used(0).chain(used(1)).chain(used(2)) {
        for node in &nodes {
            expect(node, &format!("d{number}"), "SELECT x FROM t", &[&number.to_string()]);
        }
    }
    for mut node in nodes {
        println!("{}: {} KiB resident", node.name, node.resident_kib());
        node.end();
    }
}

#[test]
fn leaders_spread_and_come_back_and_unused_databases_cost_three_leases() {
    a_fleet("leaders_spread_and_come_back_and_unused_databases_cost_three_leases", 24, Duration::from_secs(120));
}

#[test]
#[ignore = "minutes: for .ci/nightly"]
fn a_thousand_databases_on_three_nodes() {
    a_fleet("a_thousand_databases_on_three_nodes", 1_000, Duration::from_secs(900));
}

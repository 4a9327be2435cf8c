//! Copies of a database that are not what they should be: bases of another cluster, of another
//! time, or with damage; a node's own copy with damage.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::{Etcd, LEASE, Node, free_port, until};
use crate::{SOON, expect, sorted, trim};

const TABLE: &str = "CREATE TABLE t (x int PRIMARY KEY, y text)";
const ALL: &str = "SELECT count(*) || ' ' || sum(x) || ' ' || sum(length(y)) FROM t";

/// Spoils some bytes of each page of a file, from one part of it to another, in thousandths.
fn spoil(data: &Path, from: usize, to: usize) {
    let mut bytes = fs::read(data).unwrap();
    let pages = bytes.len() / 4096;
    for page in pages * from / 1000..(pages * to / 1000).max(1) {
        let at = page * 4096 + 2000;
        bytes[at..at + 64].iter_mut().for_each(|byte| *byte ^= 0x5a);
        // Pages without much in them have their contents at the ends.
        bytes[page * 4096 + 20] ^= 1;
    }
    fs::write(data, bytes).unwrap();
}

/// A directory with a copy of a stopped node's database, for `--base`.
fn base_of(node: &Node, base: &Path) {
    fs::create_dir_all(base.join("5")).unwrap();
    fs::copy(node.dir.join("replicas/5/data"), base.join("5/data")).unwrap();
}

/// A server of HTTP that has the files of a directory below `/birds/`, for who has the key. Gives its
/// port.
fn serve_files(dir: PathBuf) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let name = line.strip_prefix("GET /birds/").and_then(|rest| rest.strip_suffix("?key=7 HTTP/1.1\r\n"));
            let answer = match name.map(|name| fs::read(dir.join(name))) {
                Some(Ok(file)) => {
                    [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", file.len()).as_bytes(), &file].concat()
                }
                Some(Err(_)) => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
                None => b"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\nno key".to_vec(),
            };
            _ = stream.write_all(&answer);
        }
    });
    port
}

/// Kept copies of the database, by the word behind its number.
fn kept(node: &Node, word: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(node.dir.join("replicas")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&format!("5.{word}-"))).collect()
}

#[test]
fn a_base_is_taken_only_if_it_is_whole_and_of_this_database() {
    let Some(etcd) = Etcd::start("a_base_is_taken_only_if_it_is_whole_and_of_this_database", &[]) else { return };
    let mut nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let standby = usize::from(standbys[0].name == "n2");
    let mut client = leader.connect("postgres");
    client.rows(TABLE);
    trim(&etcd, &mut client, &nodes);
    let all = client.rows(ALL).remove(0);
    expect(&nodes[standby], "postgres", ALL, &[&all]);
    nodes[standby].end();
    let dir = |name: &str| etcd.dir.path().join(name);
    base_of(&nodes[standby], &dir("good"));
    base_of(&nodes[standby], &dir("spoilt"));
    spoil(&dir("spoilt/5/data"), 300, 900);
    nodes[standby].start_again(&etcd, &[]);

    // Another cluster, of the same name at another etcd, whose database has as many commits.
    let other = Etcd::start("another cluster", &[]).unwrap();
    let mut foreign = other.node("f1", &[]);
    let mut there = foreign.connect("postgres");
    there.rows(TABLE);
    let last = |token: String| u64::from_str_radix(token.split_once('/').unwrap().1, 16).unwrap();
    let goal = last(client.rows("SELECT colibri_commit_token()").remove(0));
    while last(
        there
            .rows("INSERT INTO t SELECT coalesce(max(x), 0) + 1, 'foreign' FROM t RETURNING colibri_commit_token()")
            .remove(0),
    ) < goal + 20
    {}
    foreign.end();
    base_of(&foreign, &dir("foreign"));

    let with_base = |name: &str, base: &str| {
        let node = etcd.node(name, &["--base", dir(base).to_str().unwrap()]);
        expect(&node, "postgres", ALL, &[&all]);
        node
    };
    let good = with_base("n3", "good");
    let from = format!("{}/5", dir("good").display());
    let line = good.log().lines().find(|line| line.contains(" copied ")).map(str::to_owned).unwrap();
    assert!(line.contains(&from), "{line}");
    // From an object store; one that refuses is passed over.
    let port = serve_files(dir("good"));
    for (name, query, is_right) in [("n7", "?key=7", true), ("n8", "", false)] {
        let store = format!("http://127.0.0.1:{port}/birds");
        let node = etcd.node(name, &["--base", &format!("{store}{query}")]);
        expect(&node, "postgres", ALL, &[&all]);
        let log = node.log();
        let from = format!("{store}/5/data");
        assert_eq!(log.lines().any(|line| line.contains(" copied ") && line.contains(&from)), is_right, "{log}");
        let refused = log.lines().any(|line| line.contains(" base_refused ") && line.contains("answers 403: no key"));
        assert_eq!(refused, !is_right, "{log}");
    }
    for (name, base, why) in [("n4", "spoilt", "it is damaged"), ("n5", "foreign", "it is of another cluster")] {
        let node = with_base(name, base);
        let log = node.log();
        let refused = log.lines().find(|line| line.contains(" base_refused ")).unwrap_or_default();
        assert!(refused.contains(why), "{base}: {log}");
        assert!(log.lines().any(|line| line.contains(" copied ") && line.contains("127.0.0.1")), "{log}");
    }

    // What is wrong with the whole directory is said at the start.
    for (base, why) in [
        (dir("nothing"), "is no directory"),
        (foreign.dir.clone(), "those of another cluster"),
        (PathBuf::from("s3://?"), "is no name of a bucket"),
        (PathBuf::from("http://h:port/"), "is no http://HOST"),
    ] {
        let address = format!("127.0.0.1:{}", free_port());
        let output = Command::new(env!("CARGO_BIN_EXE_colibri"))
            .arg("serve")
            .arg(dir("n6"))
            .args(["--listen", &address, "--cluster", &etcd.address(), "--node", "n6", "--base"])
            .arg(&base)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
}

/// Bug: a node whose copy could not be read tried to open it again for ever, or told its clients of
/// the damage each time. Consequence: somebody had to remove the copy by hand. Fix: the node takes
/// another one from a node that has it.
#[test]
fn a_node_whose_copy_is_damaged_takes_another_one_and_keeps_the_last_two() {
    let test = "a_node_whose_copy_is_damaged_takes_another_one_and_keeps_the_last_two";
    let Some(etcd) = Etcd::start(test, &[]) else { return };
    let mut nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let at = usize::from(standbys[0].name == "n2");
    let mut client = leader.connect("postgres");
    client.rows(TABLE);
    client.rows("INSERT INTO t SELECT g, repeat('y', 500) FROM generate_series(1, 4000) g");
    let all = client.rows(ALL).remove(0);
    // In its first pages; in those that only a query meets; again.
    for (round, (from, to)) in [(0, 0), (500, 900), (200, 990)].into_iter().enumerate() {
        expect(&nodes[at], "postgres", ALL, &[&all]);
        nodes[at].connect("postgres").rows("CHECKPOINT");
        nodes[at].kill();
        let data = nodes[at].dir.join("replicas/5/data");
        spoil(&data, from, to);
        if to == 0 {
            let mut bytes = fs::read(&data).unwrap();
            bytes[..8192].fill(0x5a);
            fs::write(&data, bytes).unwrap();
        }
        nodes[at].start_again(&etcd, &[]);
        let node = &nodes[at];
        until("it is whole again", Duration::from_secs(60), || {
            let rows = node.try_connect("postgres").ok()?.run(ALL).ok()?;
            (rows == [all.clone()]).then_some(())
        });
        assert!(node.log().contains(" damaged "), "round {round}: {}", node.log());
        let damaged = kept(node, "damaged");
        assert_eq!(damaged.len(), (round + 1).min(2), "{damaged:?}");
    }
    // It follows as before.
    client.rows("INSERT INTO t VALUES (-1, '')");
    expect(&nodes[at], "postgres", "SELECT count(*) FROM t WHERE x < 0", &["1"]);
}

#[test]
fn a_leader_whose_copy_is_damaged_gives_the_lead_to_who_has_a_whole_one() {
    let test = "a_leader_whose_copy_is_damaged_gives_the_lead_to_who_has_a_whole_one";
    let Some(etcd) = Etcd::start(test, &[]) else { return };
    let mut nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let (at, other) = if leader.name == "n1" { (0, 1) } else { (1, 0) };
    let mut client = leader.connect("postgres");
    client.rows(TABLE);
    client.rows("INSERT INTO t SELECT g, repeat('y', 500) FROM generate_series(1, 4000) g");
    let all = client.rows(ALL).remove(0);
    expect(standbys[0], "postgres", ALL, &[&all]);
    for node in &nodes {
        node.connect("postgres").rows("CHECKPOINT");
    }
    nodes.iter_mut().for_each(Node::kill);
    std::thread::sleep(LEASE * 2);
    spoil(&nodes[at].dir.join("replicas/5/data"), 500, 900);
    // Alone it shows what can be read.
    nodes[at].start_again(&etcd, &[]);
    let mut alone = nodes[at].connect("postgres");
    until("it leads", SOON, || (alone.rows("SELECT pg_is_in_recovery()") == ["f"]).then_some(()));
    assert_eq!(alone.code(ALL), "XX001");
    assert_eq!(alone.rows("SELECT 1"), ["1"]);
    nodes[other].start_again(&etcd, &[]);
    for node in &nodes {
        until("it is whole again", Duration::from_secs(60), || {
            let rows = node.try_connect("postgres").ok()?.run(ALL).ok()?;
            (rows == [all.clone()]).then_some(())
        });
    }
    assert_eq!(kept(&nodes[at], "damaged").len(), 1);
    assert!(kept(&nodes[other], "damaged").is_empty());
}

//! Drivers of other languages, unmodified, against a cluster. Each is installed by its own package
//! manager beside the build; where that cannot be done the test says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Etcd, Node, not_run, program, until};
use crate::{SOON, expect, sorted};

const INSTALL_SECONDS_MAX: &str = "600";
const RUN_SECONDS_MAX: &str = "120";

fn scripts(driver: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/drivers").join(driver)
}

/// Installs a driver; where it is.
fn installed(test: &str, driver: &str) -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster-drivers").join(driver);
    let install = scripts(driver).join("install.sh");
    let output = Command::new("timeout").args([INSTALL_SECONDS_MAX, "sh"]).arg(install).arg(&dir).output();
    match output {
        Ok(output) if output.status.success() => Some(dir),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            not_run(test, &format!("{driver} cannot be installed here: {}", said.trim_ascii()));
            None
        }
        Err(error) => {
            not_run(test, &format!("{driver} cannot be installed here: {error}"));
            None
        }
    }
}

fn command(driver: &str, dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args([RUN_SECONDS_MAX, "sh"]).arg(scripts(driver).join("run.sh")).arg(dir).args(arguments);
    command
}

/// A driver finds nodes by what it is asked for, and its connection writes while leaders change.
fn works(test: &str, driver: &str, leads: &[&str], follows: &[&str]) {
    let Some(dir) = installed(test, driver) else { return };
    let Some(etcd) = Etcd::start(test, &[]) else { return };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    leader.connect("postgres").rows("CREATE TABLE t (x bigint PRIMARY KEY)");
    expect(standbys[0], "postgres", "SELECT count(*) FROM t", &["0"]);
    let host = |node: &Node| format!("127.0.0.1:{}", node.port);
    for hosts in [[&nodes[0], &nodes[1]], [&nodes[1], &nodes[0]]] {
        let hosts = hosts.map(host).join(",");
        let output = command(driver, &dir, &["find", &hosts]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let found: BTreeMap<_, _> = said.lines().filter_map(|line| line.split_once(' ')).collect();
        let of = |node: &Node| node.port.to_string();
        for kind in leads {
            assert_eq!(found[kind], of(leader), "{kind} of {hosts}");
        }
        for kind in follows {
            assert_eq!(found[kind], of(standbys[0]), "{kind} of {hosts}");
        }
        assert!([of(leader), of(standbys[0])].contains(&found["any"].to_owned()), "{said}");
    }
    // One connection, through two hand-overs and back.
    let writing = command(driver, &dir, &["write", &host(leader), "6000", "1000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("it writes", SOON, || (leader.query("postgres", "SELECT count(*) FROM t") != ["0"]).then_some(()));
    for node in [standbys[0], leader] {
        std::thread::sleep(Duration::from_millis(500));
        until("it moves", SOON, || etcd.cluster(&["move", "postgres", &node.name]).ok());
    }
    let output = writing.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let count = String::from_utf8_lossy(&output.stdout).trim_ascii().to_owned();
    println!("{driver}: {count} rows by one connection, through two hand-overs");
    for node in &nodes {
        expect(node, "postgres", "SELECT count(*) FROM t", &[&count]);
    }
}

#[test]
fn pgjdbc_finds_leader_and_standby_and_writes_through_hand_overs() {
    let test = "pgjdbc_finds_leader_and_standby_and_writes_through_hand_overs";
    works(test, "pgjdbc", &["primary", "preferPrimary"], &["secondary", "preferSecondary"]);
}

#[test]
fn pgx_finds_leader_and_standby_and_writes_through_hand_overs() {
    let test = "pgx_finds_leader_and_standby_and_writes_through_hand_overs";
    works(test, "pgx", &["read-write", "primary"], &["read-only", "standby", "prefer-standby"]);
}

#[test]
fn psql_finds_any_node_and_is_told_what_it_is() {
    let test = "psql_finds_any_node_and_is_told_what_it_is";
    let Some(psql) = program("psql") else { return not_run(test, "psql is not installed") };
    let Some(etcd) = Etcd::start(test, &[]) else { return };
    let nodes = ["n1", "n2"].map(|name| etcd.node(name, &[]));
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    expect(standbys[0], "postgres", "SELECT pg_is_in_recovery()", &["t"]);
    let ask = |ports: [u16; 2], attributes: &str| {
        let to = format!(
            "host=127.0.0.1,127.0.0.1 port={},{} user=postgres dbname=postgres target_session_attrs={attributes}",
            ports[0], ports[1]
        );
        let output = Command::new(&psql).args(["-XAt", &to, "-c", "SHOW port"]).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim_ascii().to_owned()
    };
    let (leads, follows) = (leader.port, standbys[0].port);
    for (attributes, ports, found) in [
        ("any", [leads, follows], leads),
        ("any", [follows, leads], follows),
        ("read-only", [leads, follows], follows),
        // Where there is no standby, a client that prefers one takes the leader.
        ("prefer-standby", [leads, leads], leads),
    ] {
        assert_eq!(ask(ports, attributes), found.to_string(), "{attributes} of {ports:?}");
    }
    assert!(ask([follows, follows], "read-write").contains("read-only"), "there is none");
    assert!(ask([leads, leads], "standby").contains("not in hot standby"), "there is none");
}

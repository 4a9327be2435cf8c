//! How far copies are behind, as administrators, metrics, load balancers and the dashboard are told.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{Etcd, free_port, until};
use crate::{SOON, expect, sorted};

/// What a path of the metrics gives: the status, and what comes behind the head.
pub(crate) fn get(port: u16, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
}

#[test]
fn leader_epoch_positions_and_lag_are_told_everywhere() {
    let Some(etcd) = Etcd::start("leader_epoch_positions_and_lag_are_told_everywhere", &[]) else { return };
    let ports = [free_port(), free_port()];
    let node = |at: usize| etcd.node(["n1", "n2"][at], &["--metrics", &format!("127.0.0.1:{}", ports[at])]);
    let nodes = [node(0), node(1)];
    let (leader, standbys) = sorted(&etcd, "postgres", &nodes);
    let standby = standbys[0];
    let metrics_of = |name: &str| ports[usize::from(name == "n2")];
    let mut writer = leader.connect("postgres");
    writer.rows("CREATE TABLE t (x int)");
    expect(standby, "postgres", "SELECT count(*) FROM t", &["0"]);
    let copy = |name: &str| {
        let status = etcd.status();
        let copies = status["databases"][0]["copies"].as_array().unwrap().clone();
        (status["databases"][0].clone(), copies.into_iter().find(|copy| copy["node"] == name).unwrap())
    };
    let at_end = |name: &str| {
        let (database, copy) = copy(name);
        (copy["behind"] == 0 && copy["behind_bytes"] == 0 && copy["behind_s"] == 0.0)
            .then_some((database["end"].as_u64()?, database["epoch"].as_u64()?))
    };
    let (end, epoch) = until("the standby has all", SOON, || at_end(&standby.name));
    assert!(end > 1 && epoch > 0);

    // Metrics and health of both, while nothing is behind.
    for node in [leader, standby] {
        let (_, text) = get(metrics_of(&node.name), "/metrics");
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("colibri_cluster_{name}{{")));
            line.unwrap_or_else(|| panic!("{name}: {text}")).rsplit(' ').next().unwrap().parse::<f64>().unwrap()
        };
        assert_eq!((value("agreed_position"), value("applied_position")), (end as f64, end as f64));
        assert_eq!([value("lag_entries"), value("lag_bytes"), value("lag_seconds")], [0.0; 3]);
        assert_eq!((value("epoch"), value("leader") == 1.0), (epoch as f64, node.name == leader.name));
        let led_by = format!("colibri_cluster_led_by{{database=\"postgres\",node=\"{}\"}} 1\n", leader.name);
        assert!(text.contains(&led_by), "{text}");
        let (status, health) = get(metrics_of(&node.name), "/healthz?database=postgres&lag_max=1");
        assert_eq!(status, "200", "{health}");
        for line in [
            format!("leader {}", leader.name),
            format!("epoch {epoch}"),
            format!("agreed {end}"),
            format!("applied {end}"),
            "behind_entries 0".to_owned(),
            "behind_bytes 0".to_owned(),
            "behind_s 0.000".to_owned(),
        ] {
            assert!(health.lines().any(|found| found == line), "{line}: {health}");
        }
        let (_, page) = get(metrics_of(&node.name), "/status.json");
        let page: serde_json::Value = serde_json::from_str(&page).unwrap();
        let shown = &page["cluster"]["databases"][0];
        assert_eq!((&shown["agreed"], &shown["behind"]), (&end.into(), &0.into()));
        assert_eq!((&shown["leader"], &shown["epoch"]), (&leader.name.as_str().into(), &epoch.into()));
        let (_, html) = get(metrics_of(&node.name), "/");
        assert!(html.contains("id=\"copies\""));
    }
    assert_eq!(get(ports[0], "/healthz").1, "ok\n");
    assert_eq!(get(ports[0], "/healthz?lag_max=soon").0, "400");
    assert_eq!(get(ports[0], "/healthz?database=postgers").0, "404");

    // A copy that is held up: what is known of it is what it has on its disk.
    until("it has told what it has on its disk", SOON, || copy(&standby.name).1["on_disk"].as_u64());
    standby.signal("-STOP");
    for number in 0..3 {
        writer.rows(&format!("INSERT INTO t VALUES ({number})"));
        std::thread::sleep(Duration::from_millis(400));
    }
    let (database, held_up) = copy(&standby.name);
    assert_eq!(database["end"], end + 3);
    let behind = held_up["behind"].as_u64().unwrap_or_else(|| panic!("{held_up}"));
    assert_eq!(held_up["standing"], "silent");
    assert!(behind >= 3 && held_up["behind_bytes"].as_u64().unwrap() > 100, "{held_up}");
    let seconds = held_up["behind_s"].as_f64().unwrap();
    assert!((1.0..60.0).contains(&seconds), "{held_up}");
    let (_, leading) = copy(&leader.name);
    assert_eq!((&leading["behind"], &leading["behind_s"]), (&0.into(), &0.0.into()));
    let text = etcd.cluster(&["status"]).unwrap();
    assert!(text.contains("agreed") && text.contains("time"), "{text}");
    standby.signal("-CONT");
    until("it has caught up", SOON, || at_end(&standby.name));
}

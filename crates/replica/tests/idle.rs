//! What costs nothing while nothing happens: a node with many databases wakes up for its lease
//! only.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "contract/servers.rs"]
#[allow(dead_code, reason = "the relays are for the contract")]
mod servers;

use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use colibri_replica::etcd::{Etcd, EtcdOptions};
use colibri_replica::simulation::Simulation;
use colibri_replica::{
    Address, Campaign, Cluster, Database, Follower, JoinOptions, Leadership, Membership, Node, NodeId, Reservation,
};

const DATABASES: usize = 1000;
const TTL: Duration = Duration::from_secs(6);

async fn join(cluster: &Cluster) -> Membership {
    let node = Node { id: NodeId::new("n1").unwrap(), address: "h1:5432".to_owned() };
    cluster.join(node, JoinOptions { lease_ttl: TTL, ..JoinOptions::default() }).await.unwrap()
}

/// Leads so many databases, and follows each of them.
async fn lead_all(membership: &Membership) -> Vec<(Leadership, Follower)> {
    let mut all = Vec::new();
    for n in 0..DATABASES {
        let db = Database(format!("db{n}"));
        let Campaign::Elected(leadership) = membership.campaign(&db, Reservation::Heed).await.unwrap() else {
            panic!("somebody else leads {db}")
        };
        let mut follower = membership.cluster().follow(&db, membership.cluster().start(&db));
        assert_eq!(follower.next_if_there().await.unwrap(), None);
        all.push((leadership, follower));
    }
    all
}

#[test]
fn a_thousand_idle_databases_cost_the_keepalives_of_one_lease() {
    let simulation = Simulation::new(1);
    let cluster = Cluster::new(simulation.connect("n1"), "idle");
    let joined = cluster.clone();
    let membership = simulation.block_on(async move { join(&joined).await });
    let kept = membership.clone();
    simulation.spawn("n1", async move { _ = kept.keep_alive().await });
    let leading = membership.clone();
    let all = simulation.block_on(async move { lead_all(&leading).await });
    for (_, mut follower) in all {
        simulation.spawn("n1", async move { _ = follower.next().await });
    }
    simulation.run_for(TTL);
    let before = simulation.request_count();
    simulation.run_for(TTL * 100);
    let requests = simulation.request_count() - before;
    assert!((290..=300).contains(&requests), "{requests} requests in 100 lives of a lease: three in each");
    assert!(!membership.lease_left().is_zero());
}

/// How often the thread for etcd has gone to sleep.
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let of_etcd = tasks.filter(|task| read(task.join("comm")).trim() == "etcd");
    let counts = of_etcd.map(|task| {
        let status = read(task.join("status"));
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    });
    counts.sum()
}

#[test]
fn the_thread_for_etcd_wakes_up_for_keepalives_only() {
    let Some(servers) = servers::Servers::start(1, &servers::Start::default()) else {
        return servers::not_run("the_thread_for_etcd_wakes_up_for_keepalives_only");
    };
    let address = Address::parse(&format!("etcd://{}/idle", servers.hosts())).unwrap();
    let etcd = Etcd::new(&address, EtcdOptions { request_timeout: Duration::from_secs(5), ..EtcdOptions::default() });
    let cluster = Cluster::new(etcd.unwrap(), "idle");
    let (membership, mut all) = servers::block_on(async {
        let membership = join(&cluster).await;
        let kept = membership.clone();
        std::thread::spawn(move || servers::block_on(kept.keep_alive()));
        let all = lead_all(&membership).await;
        (membership, all)
    });
    // All followers wait for their next record.
    let mut waiting: Vec<_> = all.iter_mut().map(|(_, follower)| Box::pin(follower.next())).collect();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waiting.iter_mut().all(|next| matches!(next.as_mut().poll(&mut context), Poll::Pending)));
    std::thread::sleep(Duration::from_secs(2));
    let before = sleeps();
    assert!(before > 0, "the thread is found");
    std::thread::sleep(TTL);
    let slept = sleeps() - before;
    println!("{slept} wake-ups in {TTL:?}, with {DATABASES} databases led and followed");
    // Each of three keepalives: a timer, a request, an answer, the end of a stream.
    assert!(slept <= 24, "{slept} wake-ups in {TTL:?}");
    assert!(!membership.lease_left().is_zero());
}

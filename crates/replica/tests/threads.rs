//! Threads commit to replicated databases in directories while the engines' own threads make steady
//! points, and the leadership is handed over again and again. The network and its time are
//! simulated; threads, files and steady points are not, so no run is like another.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use colibri_replica::simulation::Simulation;
use colibri_replica::{
    Campaign, Cluster, CommitError, Database, Driver, JoinOptions, Node, NodeId, Replica, ReplicaOptions, Reservation,
    WriteError,
};
use colibri_storage::{Durability, Options, TableKind};

const THREADS: u64 = 4;
const COMMITS: u64 = 300;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which sleeps meanwhile.
fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

fn db() -> Database {
    Database("app".to_owned())
}

fn open(simulation: &Simulation, name: &str, dir: &Path) -> (Replica, Driver) {
    let cluster = Cluster::new(simulation.connect(name), "test");
    let dir = dir.to_owned();
    let options = ReplicaOptions { queue_bytes_max: 20_000, ..ReplicaOptions::default() };
    Replica::open(&cluster, &db(), &NodeId::new(name).unwrap(), options, move |proposer| {
        // Steady points are due all the time.
        let options = Options::new().durability(Durability::Agreed).proposer(proposer).log_bytes(64 << 10);
        colibri_storage::Database::open(&dir, &options)
    })
    .unwrap()
}

/// Leads when nobody does, and follows.
async fn live(cluster: Cluster, name: &'static str, mut driver: Driver) {
    let node = Node { id: NodeId::new(name).unwrap(), address: format!("{name}:1") };
    let membership = cluster.join(node, JoinOptions::default()).await.unwrap();
    let mut kept = pin!(membership.keep_alive());
    loop {
        let elected = {
            let mut following = pin!(driver.follow(&membership));
            let campaign = async {
                loop {
                    cluster.coordinator().sleep(Duration::from_millis(20)).await;
                    if let Ok(Campaign::Elected(elected)) = membership.campaign(&db(), Reservation::Heed).await {
                        return elected;
                    }
                }
            };
            let mut campaign = pin!(campaign);
            std::future::poll_fn(|context| {
                assert!(kept.as_mut().poll(context).is_pending(), "the lease is kept");
                if let Poll::Ready(stopped) = following.as_mut().poll(context) {
                    panic!("{name} cannot follow: {stopped}");
                }
                campaign.as_mut().poll(context)
            })
            .await
        };
        let mut leading = pin!(driver.lead(&elected));
        std::future::poll_fn(|context| {
            assert!(kept.as_mut().poll(context).is_pending(), "the lease is kept");
            leading.as_mut().poll(context)
        })
        .await
        .unwrap();
    }
}

/// Commits rows at whichever node leads.
fn commit_rows(replicas: &[Replica; 2], thread: u64) {
    for number in 0..COMMITS {
        let key = (thread * COMMITS + number).to_be_bytes();
        let mut node = (thread + number) as usize % 2;
        loop {
            let replica = &replicas[node];
            match wait_for(replica.write()) {
                Ok(mut txn) => {
                    let table = txn.create_table("t", TableKind::Plain).unwrap();
                    txn.put(&table, &key, &[number as u8; 200]).unwrap();
                    match replica.commit(txn).map(wait_for) {
                        Ok(Ok(_)) => break,
                        Ok(Err(e)) | Err(e) => {
                            assert!(!matches!(e, CommitError::Unknown), "hand-overs leave nothing unknown");
                            panic!("hand-overs fail no commit: {e}");
                        }
                    }
                }
                Err(WriteError::NotLeading) => {
                    node = 1 - node;
                    thread::sleep(Duration::from_micros(200));
                }
                Err(e) => panic!("cannot write: {e}"),
            }
        }
    }
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn rows(replica: &Replica) -> Rows {
    let snapshot = replica.read().unwrap();
    let table = snapshot.table("t").unwrap();
    let rows = snapshot.view(&table).unwrap().range(..).unwrap();
    rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

#[test]
fn threads_lose_no_commit_while_leaders_hand_over_and_steady_points_are_made() {
    let simulation = Simulation::new(1);
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let opened = [open(&simulation, "n1", dirs[0].path()), open(&simulation, "n2", dirs[1].path())];
    let replicas = opened.each_ref().map(|(replica, _)| replica.clone());
    for ((_, driver), name) in opened.into_iter().zip(["n1", "n2"]) {
        let cluster = Cluster::new(simulation.connect(name), "test");
        simulation.spawn(name, live(cluster, name, driver));
    }
    let mut handed_over = 0;
    thread::scope(|scope| {
        let replicas = &replicas;
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || commit_rows(replicas, n))).collect();
        let mut rounds = 0_u64;
        while threads.iter().any(|thread| !thread.is_finished()) {
            simulation.run_for(Duration::from_millis(1));
            thread::yield_now();
            rounds += 1;
            if rounds.is_multiple_of(200) {
                let leader = replicas.iter().find(|replica| replica.read_current().is_ok()).cloned();
                if let Some(leader) = leader {
                    handed_over += 1;
                    simulation.spawn("operator", async move { _ = leader.hand_over(None).await });
                }
            }
        }
    });
    simulation.run_for(Duration::from_secs(20));
    assert!(handed_over > 0, "the run is too short");
    assert_eq!(rows(&replicas[0]).len() as u64, THREADS * COMMITS);
    assert_eq!(rows(&replicas[0]), rows(&replicas[1]));
    let chains = replicas.each_ref().map(|replica| replica.engine().unwrap().chain());
    assert_eq!(chains[0], chains[1]);
    assert_eq!(chains[0].0.0, THREADS * COMMITS, "one transaction for each row");
    ["n1", "n2", "operator"].into_iter().for_each(|name| simulation.kill(name));
}

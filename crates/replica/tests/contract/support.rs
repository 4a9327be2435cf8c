//! What the tests need of a place to run in.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use colibri_replica::coordinator::Coordinator;
use colibri_replica::{
    Appender, Campaign, Cluster, Database, Follower, JoinOptions, Leadership, Membership, Node, NodeId, Outcome,
    Record, Reservation,
};

pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// A service, and ways to it that can be cut.
pub(crate) trait Bed {
    /// A connection of a node. Called once for each node.
    fn connect(&mut self, node: &str) -> Arc<dyn Coordinator>;
    /// Runs a future to its end.
    fn block_on(&mut self, future: Boxed<()>);
    /// Runs a future beside.
    fn spawn(&mut self, node: &str, future: Pin<Box<dyn Future<Output = ()> + Send>>);
    /// Lets time pass.
    fn pass(&mut self, duration: Duration);
    /// Cuts a node off from the service.
    fn cut(&mut self, node: &str);
    /// From now on the node's requests arrive, and no answer comes back.
    fn lose_answers(&mut self, node: &str);
    /// Ends a cut.
    fn heal(&mut self, node: &str);
    /// Forgets old revisions of the service.
    fn compact(&mut self);
    /// Bytes of the largest entry.
    fn entry_bytes_max(&self) -> usize;
    /// A name that no other test uses.
    fn cluster_name(&self) -> String;
}

/// Runs a future and gives its value.
pub(crate) fn run<T: 'static>(bed: &mut dyn Bed, future: impl Future<Output = T> + 'static) -> T {
    let result = std::rc::Rc::new(std::cell::RefCell::new(None));
    let slot = result.clone();
    bed.block_on(Box::pin(async move { *slot.borrow_mut() = Some(future.await) }));
    result.take().unwrap()
}

pub(crate) fn db() -> Database {
    Database("app".to_owned())
}

pub(crate) fn node(name: &str) -> Node {
    Node { id: NodeId::new(name).unwrap(), address: format!("{name}.example:5432") }
}

/// The lease of tests: etcd grants no shorter one than two seconds.
pub(crate) const TTL: Duration = Duration::from_secs(2);

pub(crate) fn cluster(bed: &mut dyn Bed, name: &str) -> Cluster {
    let cluster_name = bed.cluster_name();
    Cluster::new(bed.connect(name), &cluster_name)
}

/// A node that has joined. Its lease is kept alive.
pub(crate) fn join(bed: &mut dyn Bed, name: &str) -> Membership {
    let membership = join_only(bed, name);
    let kept = membership.clone();
    bed.spawn(name, Box::pin(async move { _ = kept.keep_alive().await }));
    membership
}

/// A node that has joined, and does not keep its lease alive.
pub(crate) fn join_only(bed: &mut dyn Bed, name: &str) -> Membership {
    let cluster = cluster(bed, name);
    let node = node(name);
    run(bed, async move { cluster.join(node, JoinOptions { lease_ttl: TTL, ..JoinOptions::default() }).await.unwrap() })
}

/// A node that has joined with a lease for the whole test, which nobody keeps alive.
pub(crate) async fn join_with(cluster: &Cluster, name: &str) -> Membership {
    let options = JoinOptions { lease_ttl: Duration::from_secs(60), ..JoinOptions::default() };
    cluster.join(node(name), options).await.unwrap()
}

pub(crate) async fn elected(membership: &Membership) -> Leadership {
    match membership.campaign(&db(), Reservation::Heed).await.unwrap() {
        Campaign::Elected(leadership) => leadership,
        Campaign::Led(leader) => panic!("led by {leader:?}"),
        Campaign::Reserved(node) => panic!("reserved for {node}"),
    }
}

/// Campaigns until the leader before is gone.
pub(crate) async fn elected_in_time(membership: &Membership) -> Leadership {
    for _ in 0..200 {
        if let Ok(Campaign::Elected(leadership)) = membership.campaign(&db(), Reservation::Heed).await {
            return leadership;
        }
        membership.cluster().coordinator().sleep(Duration::from_millis(100)).await;
    }
    panic!("not elected in 20 s");
}

pub(crate) async fn append(appender: &mut Appender, bytes: &[u8]) {
    assert_eq!(appender.stage(bytes).append().await, Outcome::Appended);
}

/// So many records from a follower.
pub(crate) async fn take(follower: &mut Follower, count: usize) -> Vec<Record> {
    let mut records = Vec::new();
    while records.len() < count {
        records.push(follower.next().await.unwrap());
    }
    records
}

/// All records that are there now, from the log's start.
pub(crate) async fn all(cluster: &Cluster) -> Vec<Record> {
    let mut follower = cluster.follow(&db(), cluster.start(&db()));
    let mut records = Vec::new();
    while let Some(record) = follower.next_if_there().await.unwrap() {
        records.push(record);
    }
    records
}

pub(crate) fn texts(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8_lossy(&record.bytes).into_owned()).collect()
}

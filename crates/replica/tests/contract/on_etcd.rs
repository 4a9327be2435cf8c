//! The contract on etcd, in real time, and what only etcd has: members that die, TLS, users.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use colibri_replica::coordinator::{Coordinator, Failure, Get, Revision};
use colibri_replica::etcd::{Etcd, EtcdOptions};
use colibri_replica::{Address, Cluster};

use crate::servers::{Relay, Servers, block_on, not_run};
use crate::support::{Bed, Boxed};

/// One member serves all tests that run at the same time. The last of them ends it.
fn shared_servers() -> Option<Arc<Servers>> {
    static SHARED: Mutex<Weak<Servers>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap();
    if let Some(servers) = shared.upgrade() {
        return Some(servers);
    }
    let servers = Arc::new(Servers::start(1, None)?);
    *shared = Arc::downgrade(&servers);
    Some(servers)
}

pub(crate) fn connect(address: &str) -> Arc<Etcd> {
    Etcd::new(&Address::parse(address).unwrap(), EtcdOptions::default()).unwrap()
}

struct OnEtcd {
    servers: Arc<Servers>,
    relays: HashMap<String, Relay>,
    name: String,
}

impl OnEtcd {
    fn start() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        Some(Self { servers: shared_servers()?, relays: HashMap::new(), name })
    }
}

impl Bed for OnEtcd {
    fn connect(&mut self, node: &str) -> Arc<dyn Coordinator> {
        let relay = Relay::new(self.servers.endpoints[0]);
        let etcd = connect(&format!("etcd://{}/{}", relay.address, self.name));
        self.relays.insert(node.to_owned(), relay);
        etcd
    }

    fn block_on(&mut self, future: Boxed<()>) {
        block_on(future);
    }

    fn spawn(&mut self, _: &str, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        std::thread::spawn(move || block_on(future));
    }

    fn pass(&mut self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn cut(&mut self, node: &str) {
        self.relays[node].cut();
    }

    fn lose_answers(&mut self, node: &str) {
        self.relays[node].lose_answers();
    }

    fn heal(&mut self, node: &str) {
        self.relays[node].heal();
    }

    fn compact(&mut self) {
        let etcd = connect(&format!("etcd://{}/any", self.servers.hosts()));
        block_on(async {
            let newest = etcd.get(Get::key(b"none")).await.unwrap().revision;
            etcd.compact(newest).await.unwrap();
            // Once more is no failure.
            etcd.compact(newest).await.unwrap();
        });
    }

    fn entry_bytes_max(&self) -> usize {
        1 << 20
    }

    fn cluster_name(&self) -> String {
        self.name.clone()
    }
}

/// One test for each function of the suite.
macro_rules! on_etcd {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            match OnEtcd::start() {
                Some(mut bed) => crate::suite::$name(&mut bed),
                None => not_run(stringify!($name)),
            }
        }
    )*};
}

crate::suite::for_each_test!(on_etcd);

#[test]
fn appends_go_on_when_a_member_is_killed() {
    use crate::support::{db, elected, node};
    use colibri_replica::{JoinOptions, Outcome};

    let Some(mut servers) = Servers::start(3, None) else {
        return not_run("appends_go_on_when_a_member_is_killed");
    };
    let cluster = Cluster::new(connect(&format!("etcd://{}/three", servers.hosts())), "three");
    let options = JoinOptions { lease_ttl: Duration::from_secs(10), replace: true };
    let membership = block_on(async {
        loop {
            // The members may still elect their leader.
            if let Ok(membership) = cluster.join(node("n1"), options).await {
                break membership;
            }
        }
    });
    let kept = membership.clone();
    std::thread::spawn(move || block_on(kept.keep_alive()));
    let (leadership, mut appender) = block_on(async {
        let leadership = elected(&membership).await;
        let appender = leadership.appender().await.unwrap();
        (leadership, appender)
    });
    let follower = Cluster::new(connect(&format!("etcd://{}/three", servers.hosts())), "three");
    let mut follower = follower.follow(&db(), cluster.start(&db()));
    for n in 0..60u32 {
        if n == 20 {
            // The member that both are connected to: the first that was tried.
            servers.kill(0);
        }
        let staged = appender.stage(&n.to_le_bytes());
        let begun = Instant::now();
        block_on(async {
            while let outcome = staged.append().await
                && outcome != Outcome::Appended
            {
                assert!(matches!(outcome, Outcome::Unknown(_) | Outcome::NotSent(_)), "{outcome:?}");
                assert!(begun.elapsed() < Duration::from_secs(20), "{outcome:?}");
            }
        });
        let record = block_on(follower.next()).unwrap();
        assert_eq!(record.bytes, n.to_le_bytes());
    }
    let (health, usage) = block_on(cluster.health(1 << 30)).unwrap();
    assert_eq!(health.members_up, (2, 3));
    assert!(health.bytes > 0 && health.bytes_in_use > 0 && !usage.is_told, "{health:?}");
    assert!(block_on(leadership.confirm()).unwrap());
    // Without a majority nothing is answered, and nothing is believed.
    servers.kill(1);
    let lonely = appender.stage(b"lonely");
    assert!(matches!(block_on(lonely.append()), Outcome::Unknown(_) | Outcome::NotSent(_)));
    assert!(block_on(cluster.leader(&db())).is_err(), "a serializable read would have been answered");
}

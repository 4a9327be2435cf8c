//! The contract on etcd, in real time, and what only etcd has: members that die, TLS, users.

use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use colibri_replica::coordinator::{Coordinator, Failure, Get, Operation, Refusal, Txn};
use colibri_replica::etcd::{Etcd, EtcdOptions};
use colibri_replica::{Address, Cluster, JoinOptions, Level, Outcome, Replace};

use crate::servers::{Relay, Servers, Start, TlsFiles, block_on, not_run};
use crate::support::{Bed, Boxed, append, db, elected, join, join_with, node, take, texts};

/// One member serves all tests that run at the same time. The last of them ends it.
fn shared_servers() -> Option<Arc<Servers>> {
    static SHARED: Mutex<Weak<Servers>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap();
    if let Some(servers) = shared.upgrade() {
        return Some(servers);
    }
    let servers = Arc::new(Servers::start(1, &Start::default())?);
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
    let Some(mut servers) = Servers::start(3, &Start::default()) else {
        return not_run("appends_go_on_when_a_member_is_killed");
    };
    let cluster = Cluster::new(connect(&format!("etcd://{}/three", servers.hosts())), "three");
    let options =
        JoinOptions { lease_ttl: Duration::from_secs(10), replace: Replace::EarlierStart, ..JoinOptions::default() };
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
    let mut slowest = Duration::ZERO;
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
        slowest = slowest.max(begun.elapsed());
    }
    println!("{slowest:?} until the first append after the kill was appended and read");
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

#[test]
fn a_network_that_goes_silent_is_noticed_by_the_keepalive() {
    let Some(mut bed) = OnEtcd::start() else {
        return not_run("a_network_that_goes_silent_is_noticed_by_the_keepalive");
    };
    let (standby, leader) = (join(&mut bed, "standby"), join(&mut bed, "leader"));
    let mut appender = block_on(async { elected(&leader).await.appender().await.unwrap() });
    let mut follower = standby.cluster().follow(&db(), standby.cluster().start(&db()));
    block_on(append(&mut appender, b"0"));
    assert_eq!(texts(&block_on(take(&mut follower, 1))), ["0"]);
    block_on(append(&mut appender, b"1"));
    assert_eq!(texts(&block_on(take(&mut follower, 1))), ["1"]);
    // Nobody closes the connection, and the follower itself sends nothing.
    bed.relays["standby"].silence();
    block_on(append(&mut appender, b"2"));
    let begun = Instant::now();
    assert_eq!(texts(&block_on(take(&mut follower, 1))), ["2"]);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

/// Appends and follows: what every way to connect has to carry.
fn use_it(address: &str) {
    let cluster = Cluster::new(connect(address), "used");
    block_on(async {
        let membership = join_with(&cluster, "n1").await;
        let mut appender = elected(&membership).await.appender().await.unwrap();
        append(&mut appender, b"read").await;
        let mut follower = cluster.follow(&db(), cluster.start(&db()));
        assert_eq!(texts(&take(&mut follower, 1).await), ["read"]);
        append(&mut appender, b"watched").await;
        assert_eq!(texts(&take(&mut follower, 1).await), ["watched"]);
        membership.leave().await.unwrap();
    });
}

/// Certificates for etcd and a client, signed by one authority.
fn tls_files(dir: &Path) -> TlsFiles {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(params, ca_key);
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let signed = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &issuer).unwrap();
        (write(&format!("{name}.pem"), certificate.pem()), write(&format!("{name}.key"), key.serialize_pem()))
    };
    TlsFiles { ca: write("ca.pem", ca.pem()), server: signed("server"), client: signed("client") }
}

#[test]
fn connections_use_tls_and_certificates_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let files = tls_files(dir.path());
    let Some(servers) = Servers::start(1, &Start { tls: Some(&files), ..Start::default() }) else {
        return not_run("connections_use_tls_and_certificates_of_their_own");
    };
    let (hosts, ca) = (servers.hosts(), files.ca.display());
    let (cert, key) = (files.client.0.display(), files.client.1.display());
    use_it(&format!("etcds://{hosts}/tls?ca={ca}&cert={cert}&key={key}"));
    // Without a certificate of its own, with an authority that has not signed etcd's, without TLS.
    let other_dir = tempfile::tempdir().unwrap();
    let other = tls_files(other_dir.path()).ca;
    for address in [
        format!("etcds://{hosts}/tls?ca={ca}"),
        format!("etcds://{hosts}/tls?ca={}&cert={cert}&key={key}", other.display()),
        format!("etcd://{hosts}/tls"),
    ] {
        let failure = block_on(connect(&address).get(Get::key(b"k"))).unwrap_err();
        assert!(matches!(failure, Failure::NotSent(_) | Failure::Unknown(_)), "{address}: {failure:?}");
    }
    let missing = Address::parse(&format!("etcds://{hosts}/tls?ca=/nowhere/ca.pem")).unwrap();
    let error = Etcd::new(&missing, EtcdOptions::default()).err().unwrap();
    assert!(error.to_string().starts_with("cannot read /nowhere/ca.pem"), "{error}");
}

#[test]
fn users_have_passwords_and_their_tokens_are_renewed() {
    let start = Start { arguments: &["--auth-token-ttl", "1"], ..Start::default() };
    let Some(servers) = Servers::start(1, &start) else {
        return not_run("users_have_passwords_and_their_tokens_are_renewed");
    };
    servers.post("/v3/auth/user/add", r#"{"name": "root", "password": "top"}"#);
    servers.post("/v3/auth/role/add", r#"{"name": "root"}"#);
    servers.post("/v3/auth/user/grant", r#"{"user": "root", "role": "root"}"#);
    servers.post("/v3/auth/user/add", r#"{"name": "app", "password": "p@ss:word"}"#);
    servers.post("/v3/auth/role/add", r#"{"name": "colibri"}"#);
    // All keys that begin with /colibri/, in base64: what an operator's guide has to say.
    let permission = r#"{"permType": "READWRITE", "key": "L2NvbGlicmkv", "range_end": "L2NvbGlicmkw"}"#;
    servers.post("/v3/auth/role/grant", &format!(r#"{{"name": "colibri", "perm": {permission}}}"#));
    servers.post("/v3/auth/user/grant", r#"{"user": "app", "role": "colibri"}"#);
    servers.post("/v3/auth/enable", "{}");
    let hosts = servers.hosts();
    let address = format!("etcd://app:p%40ss%3Aword@{hosts}/auth");
    use_it(&address);
    let refused = |address: String| block_on(connect(&address).get(Get::key(b"/colibri/k"))).unwrap_err();
    for address in [format!("etcd://app:wrong@{hosts}/auth"), format!("etcd://{hosts}/auth")] {
        let failure = refused(address);
        assert!(matches!(failure, Failure::Refused(Refusal::NotAllowed(_))), "{failure:?}");
    }
    let etcd = connect(&address);
    let elsewhere = block_on(etcd.get(Get::key(b"/elsewhere"))).unwrap_err();
    assert!(matches!(elsewhere, Failure::Refused(Refusal::NotAllowed(_))), "{elsewhere:?}");
    // The token becomes invalid while nothing happens; then calls and watches go on with a new one.
    let cluster = Cluster::new(etcd, "renewed");
    block_on(async {
        let membership = join_with(&cluster, "n1").await;
        let leadership = elected(&membership).await;
        let mut appender = leadership.appender().await.unwrap();
        append(&mut appender, b"0").await;
        cluster.coordinator().sleep(Duration::from_secs(3)).await;
        append(&mut appender, b"1").await;
        cluster.coordinator().sleep(Duration::from_secs(3)).await;
        let mut follower = cluster.follow(&db(), cluster.start(&db()));
        assert_eq!(texts(&take(&mut follower, 2).await), ["0", "1"]);
        append(&mut appender, b"2").await;
        assert_eq!(texts(&take(&mut follower, 1).await), ["2"]);
    });
}

#[test]
fn a_full_etcd_refuses_and_is_told_as_full() {
    let start = Start { arguments: &["--quota-backend-bytes", "8388608"], ..Start::default() };
    let Some(servers) = Servers::start(1, &start) else { return not_run("a_full_etcd_refuses_and_is_told_as_full") };
    let cluster = Cluster::new(connect(&format!("etcd://{}/full?quota=8MiB", servers.hosts())), "full");
    block_on(async {
        let membership = join_with(&cluster, "n1").await;
        let mut appender = elected(&membership).await.appender().await.unwrap();
        let (_, usage) = cluster.health(8 << 20).await.unwrap();
        assert_eq!(usage.level, Level::Ample);
        let mut outcome = Outcome::Appended;
        // etcd looks at the size of its file, which grows some time after the writes.
        for _ in 0..200 {
            outcome = appender.stage(&[0; 700_000]).append().await;
            if outcome != Outcome::Appended {
                break;
            }
            cluster.coordinator().sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(outcome, Outcome::Refused(Refusal::NoSpace));
        // Reads go on, and the lease is kept.
        assert!(cluster.leader(&db()).await.unwrap().is_some());
        assert!(cluster.coordinator().keep_alive(membership.lease()).await.unwrap().is_some());
        let (health, usage) = cluster.health(8 << 20).await.unwrap();
        assert!(health.no_space && usage.level == Level::Full, "{health:?}");
    });
}

#[test]
fn a_request_beyond_the_limit_is_refused_and_not_unknown() {
    let Some(servers) = shared_servers() else {
        return not_run("a_request_beyond_the_limit_is_refused_and_not_unknown");
    };
    let etcd = connect(&format!("etcd://{}/any", servers.hosts()));
    for bytes in [(3 << 19) + 1, 8 << 20] {
        let put = Operation::Put { key: b"large".to_vec(), value: vec![0; bytes], lease: None };
        let failure = block_on(etcd.transact(Txn { then: vec![put], ..Txn::default() })).unwrap_err();
        assert_eq!(failure, Failure::Refused(Refusal::TooLarge), "{bytes} bytes");
    }
    let many = (0..200).map(|n| Operation::Put { key: vec![b'm', n], value: vec![], lease: None }).collect();
    let failure = block_on(etcd.transact(Txn { then: many, ..Txn::default() })).unwrap_err();
    assert_eq!(failure, Failure::Refused(Refusal::TooLarge));
}

#[test]
fn an_etcd_that_is_not_there_is_told_as_not_sent() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let failure = block_on(connect(&format!("etcd://127.0.0.1:{port}/none")).get(Get::key(b"k"))).unwrap_err();
    assert!(matches!(&failure, Failure::NotSent(why) if why.contains("refused")), "{failure:?}");
}

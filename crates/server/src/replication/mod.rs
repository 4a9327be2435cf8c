//! A node of a cluster: databases of which other nodes have copies, with etcd as the judge.
//!
//! ```text
//!  thread "lease"     keeps the node's one lease alive, and joins again when it was lost
//!  thread "watch"     leaders, members, open databases, shared records ─► keepers, directory
//!  thread "homes"     who should lead what; copies that are missing; quota; compaction
//!  thread "db-<oid>"  one for each open database (`keeper`)
//! ```
//!
//! | file | holds |
//! | --- | --- |
//! | `keeper` | one database: opening, following, leading, closing |
//! | `records` | what the nodes share besides databases |
//! | `homes` | which node should lead a database, and moving leaders there |
//! | `seed` | copying a database from another node, or from a base |
//! | `base`, `object_store`, `sign` | where copies are that no node has to send: a directory, or a store that speaks HTTP or S3 |
//! | `peer`, `answer` | what nodes ask each other: as who asks, as who answers |
//! | `gate` | who is in a transaction, so that the leadership is handed over between transactions |
//! | `relay`, `forwarded` | a client's connection that another node serves: at the node that has the client, and at the other one |
//! | `status` | the cluster as an administrator sees it |
//! | `measure` | appends without a database, to compare commits with |
//! | `wait` | waiting without a runtime |
//!
//! Invariants
//! - Nothing here exists in a server without a cluster.
//! - While no database is open, the keepalives of the lease are the only traffic.

pub(crate) mod answer;
pub(crate) mod base;
pub(crate) mod forwarded;
pub(crate) mod gate;
mod homes;
pub(crate) mod keeper;
pub(crate) mod measure;
mod object_store;
pub(crate) mod peer;
pub(crate) mod records;
pub(crate) mod relay;
mod seed;
mod sign;
pub(crate) mod status;
pub(crate) mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use colibri_replica::etcd::{Etcd, EtcdOptions};
use colibri_replica::{
    Address, Cluster, ClusterRecord, Database, Instance, JoinError, JoinOptions, Leader, Level, Member, Membership,
    Node, NodeId, Replace, Replica, Seen,
};
use parking_lot::{Mutex, RwLock};

use crate::error::ServeError;
use crate::log::Log;
use base::Base;
use keeper::Keeper;
use records::{Identity, SharedRecords};
use wait::{Either, Signal, block_on, race};

/// How long a start waits for etcd, and for the lease of the node before a crash to end.
const START_MAX: Duration = Duration::from_secs(30);
/// The pause between tries to reach etcd.
const RETRY: Duration = Duration::from_millis(500);
/// How long the end of a server waits for a database.
const END_MAX: Duration = Duration::from_secs(10);

/// How a server is a node of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Where the cluster is: `etcd://h1:2379,h2:2379/NAME`.
    pub address: String,
    /// The node's name: letters, digits, `-`, `_` and `.`. Unless it is given, that of the last
    /// start, or that of the machine.
    pub node: Option<String>,
    /// Where clients and other nodes reach this server, HOST:PORT. Unless it is given, where it
    /// listens.
    pub advertise: Option<String>,
    /// A directory with copies of databases, each in one named after its number, or the address of
    /// such a place in an object store. They are tried before other nodes are asked.
    pub base: Option<PathBuf>,
    /// How long the node's lease lives without it: about as long as others wait for a dead leader.
    pub lease: Duration,
}

/// What the server does when shared records and databases change.
pub(crate) trait Listener: Send + Sync {
    /// A record of the cluster is this now.
    fn take_record(&self, record: &ClusterRecord);
    /// The databases with their numbers, and the node that is to lead each, if one was named.
    fn databases(&self) -> Vec<KnownDatabase>;
    /// Whether a database of this number was ever made, by what the shared record says.
    fn was_made(&self, oid: u32) -> bool;
    /// The keeper of a database, which is made if there is none.
    fn keeper_of(&self, oid: u32) -> Option<Arc<Keeper>>;
    /// The keepers that were made.
    fn keepers(&self) -> Vec<Arc<Keeper>>;
}

/// A database of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownDatabase {
    pub(crate) oid: u32,
    pub(crate) name: String,
    /// The node that had it before the cluster.
    pub(crate) origin: Option<String>,
    /// The node that an administrator has chosen.
    pub(crate) home: Option<String>,
}

impl KnownDatabase {
    pub(crate) fn db(&self) -> Database {
        Database(self.oid.to_string())
    }
}

/// This node.
pub(crate) struct Replication {
    pub(crate) cluster: Cluster,
    pub(crate) node: Node,
    pub(crate) shared: SharedRecords,
    pub(crate) secret: [u8; 32],
    pub(crate) log: Log,
    /// Where copies of databases are.
    dir: PathBuf,
    base: Option<Base>,
    join: JoinOptions,
    quota_bytes: u64,
    membership: RwLock<Membership>,
    leaders: Mutex<BTreeMap<String, Leader>>,
    members: Mutex<BTreeMap<NodeId, Member>>,
    open: Mutex<BTreeSet<String>>,
    listener: OnceLock<Weak<dyn Listener>>,
    trimmed_bytes: std::sync::atomic::AtomicU64,
    level: AtomicU8,
    is_ending: AtomicBool,
    /// Another server that has the node's name, since this one had lost its lease.
    name_taken_by: Mutex<Option<Node>>,
    /// Members, leaders or databases have changed.
    pub(crate) news: Signal,
}

fn cluster_error(message: String) -> ServeError {
    ServeError::Replication(message)
}

fn name_taken(holder: &Node) -> ServeError {
    cluster_error(format!(
        "another server is the node {} of the cluster, at {}: give each server a name of its own (--node)",
        holder.id, holder.address
    ))
}

/// A connection to etcd, and the cluster in it.
pub(crate) fn connect(address: &str) -> Result<(Cluster, u64), ServeError> {
    let address = Address::parse(address).map_err(|error| cluster_error(error.to_string()))?;
    let etcd = Etcd::new(&address, EtcdOptions::default()).map_err(|error| cluster_error(error.to_string()))?;
    Ok((Cluster::new(etcd, &address.name), address.quota_bytes))
}

/// A node before it has joined.
pub(crate) struct Joining {
    pub(crate) cluster: Cluster,
    quota_bytes: u64,
    options: ClusterOptions,
    node: Node,
    instance: Instance,
    log: Log,
}

impl Joining {
    /// `listens`: where the server listens. `known`: the name of the node at the last start.
    pub(crate) fn new(
        options: &ClusterOptions,
        listens: Option<&str>,
        known: Option<&str>,
        instance: Instance,
        log: Log,
    ) -> Result<Self, ServeError> {
        let (cluster, quota_bytes) = connect(&options.address)?;
        let machine = crate::machine::host_name();
        let name = options.node.as_deref().or(known).or(machine.as_deref());
        let name = name.ok_or_else(|| cluster_error("the machine has no name: give --node ID".to_owned()))?;
        let id = NodeId::new(name).map_err(|error| cluster_error(format!("{error}: give --node ID")))?;
        let address = options.advertise.clone().or_else(|| listens.map(str::to_owned));
        let address = address.filter(|address| !address.starts_with("0.0.0.0:") && !address.starts_with("[::]:"));
        let address = address.ok_or_else(|| {
            cluster_error("other nodes have to know where this one is: give --advertise HOST:PORT".to_owned())
        })?;
        if address.contains(char::is_whitespace) || !address.contains(':') {
            return Err(cluster_error(format!("{address:?} is no HOST:PORT (--advertise)")));
        }
        Ok(Self { cluster, quota_bytes, options: options.clone(), node: Node { id, address }, instance, log })
    }

    pub(crate) fn node(&self) -> &str {
        self.node.id.as_str()
    }

    pub(crate) fn address(&self) -> &str {
        &self.node.address
    }

    /// Asks the service until it answers or it takes too long. That it waits is logged.
    pub(crate) fn ask<T, F>(&self, mut call: impl FnMut() -> F) -> Result<T, ServeError>
    where
        F: Future<Output = Result<T, colibri_replica::Error>>,
    {
        let until = Instant::now() + START_MAX;
        let mut is_told = false;
        loop {
            match block_on(call()) {
                Ok(answer) => return Ok(answer),
                Err(error @ colibri_replica::Error::Damaged { .. }) => return Err(cluster_error(error.to_string())),
                Err(error) if Instant::now() >= until => {
                    return Err(cluster_error(format!("the cluster cannot be joined: {error}")));
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_told, true) {
                        let fields: [(&str, &dyn std::fmt::Display); 2] =
                            [("error", &error), ("waits_s", &START_MAX.as_secs())];
                        self.log.warn("cluster_not_reached", &fields);
                    }
                    std::thread::sleep(RETRY);
                }
            }
        }
    }

    /// Joins, and starts what a node does.
    pub(crate) fn join(self, identity: Identity, dir: PathBuf) -> Result<Arc<Replication>, ServeError> {
        let secret = identity.secret()?;
        let options =
            JoinOptions { lease_ttl: self.options.lease, instance: self.instance, replace: Replace::EarlierStart };
        let membership = self.first_membership(options, &secret)?;
        crate::cluster::make_dir(&dir)
            .and_then(|()| seed::tidy(&dir))
            .map_err(|error| cluster_error(format!("{}: {error}", dir.display())))?;
        Ok(Arc::new(Replication {
            shared: SharedRecords::new(&self.cluster),
            cluster: self.cluster,
            node: self.node,
            secret,
            log: self.log,
            dir,
            base: self.options.base.as_deref().map(Base::of).transpose().map_err(cluster_error)?,
            join: JoinOptions { replace: Replace::Itself, ..options },
            quota_bytes: self.quota_bytes,
            membership: RwLock::new(membership),
            leaders: Mutex::default(),
            members: Mutex::default(),
            open: Mutex::default(),
            listener: OnceLock::new(),
            trimmed_bytes: 0.into(),
            level: AtomicU8::new(0),
            is_ending: AtomicBool::new(false),
            name_taken_by: Mutex::default(),
            news: Signal::default(),
        }))
    }

    /// Joins. Who has the node's name already is asked: one who answers is another server; one who
    /// does not has crashed, and its lease is waited for.
    fn first_membership(&self, options: JoinOptions, secret: &[u8; 32]) -> Result<Membership, ServeError> {
        let until = Instant::now() + START_MAX;
        let mut is_told = false;
        loop {
            let joined = block_on(self.cluster.join(self.node.clone(), options));
            match joined {
                Ok(membership) => return Ok(membership),
                Err(JoinError::NameTaken { holder }) => {
                    let answers = holder.address != self.node.address
                        && peer::ask(&holder.address, secret, peer::What::Standing, "").is_ok();
                    if answers || Instant::now() >= until {
                        return Err(name_taken(&holder));
                    }
                    if !std::mem::replace(&mut is_told, true) {
                        self.log.warn("node_name_taken", &[("node", &holder.id), ("by", &holder.address)]);
                    }
                    std::thread::sleep(RETRY);
                }
                Err(error) if Instant::now() >= until => {
                    return Err(cluster_error(format!("the cluster cannot be joined: {error}")));
                }
                Err(_) => std::thread::sleep(RETRY),
            }
        }
    }
}

impl Replication {
    /// Begins to watch the cluster.
    pub(crate) fn begin(self: &Arc<Self>, listener: Weak<dyn Listener>) -> Result<(), ServeError> {
        _ = self.listener.set(listener);
        let start = |name: &str, run: fn(&Arc<Self>)| {
            let node = Arc::clone(self);
            let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&node));
            started.map(drop).map_err(ServeError::system("cannot start a thread of the cluster"))
        };
        start("lease", |node| block_on(node.keep_lease()))?;
        start("watch", |node| block_on(node.watch()))?;
        start("homes", |node| block_on(node.keep_homes()))
    }

    pub(crate) fn listener(&self) -> Option<Arc<dyn Listener>> {
        self.listener.get()?.upgrade()
    }

    /// Where a database is.
    pub(crate) fn path_of(&self, oid: u32) -> PathBuf {
        self.dir.join(oid.to_string())
    }

    pub(crate) async fn sleep(&self, pause: Duration) {
        self.cluster.coordinator().sleep(pause).await;
    }

    pub(crate) fn membership(&self) -> Membership {
        self.membership.read().clone()
    }

    /// Whether the lease is certainly valid: not long ago the service has answered.
    pub(crate) fn is_reached(&self) -> bool {
        !self.membership.read().lease_left().is_zero()
    }

    /// Whether the service has answered last, be it that the lease has ended.
    pub(crate) fn has_answer(&self) -> bool {
        let membership = self.membership.read();
        membership.is_lost() || !membership.lease_left().is_zero()
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    // ---- who leads what ----

    pub(crate) fn leader(&self, db: &Database) -> Option<Leader> {
        self.leaders.lock().get(&db.0).cloned()
    }

    pub(crate) fn is_led_by_another(&self, db: &Database) -> bool {
        self.leader(db).is_some_and(|leader| leader.node.id != self.node.id)
    }

    /// Whether the node leads a database, be it open or closed.
    pub(crate) fn has_leadership(&self, db: &Database) -> bool {
        self.leader(db).is_some_and(|leader| leader.node.id == self.node.id)
    }

    /// Whether the leader of a database has it open, and is another node.
    pub(crate) fn is_open_at_leader(&self, db: &Database) -> bool {
        self.open.lock().contains(&db.0) && !self.has_leadership(db)
    }

    /// A campaign has found this leader.
    pub(crate) fn note_leader(&self, db: &Database, leader: Leader) {
        let mut leaders = self.leaders.lock();
        match leaders.get(&db.0) {
            Some(known) if known.epoch >= leader.epoch => {}
            _ => _ = leaders.insert(db.0.clone(), leader),
        }
    }

    pub(crate) fn members(&self) -> Vec<Node> {
        self.members.lock().values().map(|member| member.node.clone()).collect()
    }

    /// The members that are not about to leave.
    pub(crate) fn staying_members(&self) -> Vec<Node> {
        let members = self.members.lock();
        members.values().filter(|member| !member.is_leaving).map(|member| member.node.clone()).collect()
    }

    pub(crate) fn other_members(&self) -> Vec<Node> {
        self.members().into_iter().filter(|member| member.id != self.node.id).collect()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.level() == Level::Full
    }

    pub(crate) fn level(&self) -> Level {
        match self.level.load(Ordering::Acquire) {
            0 => Level::Ample,
            1 => Level::Half,
            _ => Level::Full,
        }
    }

    pub(crate) fn note_trimmed(&self, replica: &Replica) {
        self.trimmed_bytes.fetch_add(replica.take_trimmed_bytes(), Ordering::Relaxed);
    }

    // ---- threads ----

    async fn keep_lease(&self) {
        while !self.is_ending() {
            let membership = self.membership();
            _ = membership.keep_alive_and_tell(&mut |is_reached| self.note_reached(is_reached)).await;
            if self.is_ending() {
                return;
            }
            self.log.warn("lease_lost", &[("node", &self.node.id)]);
            let mut is_told = false;
            loop {
                match self.cluster.join(self.node.clone(), self.join).await {
                    Ok(membership) => {
                        *self.membership.write() = membership;
                        break;
                    }
                    Err(_) if self.is_ending() => return,
                    Err(error) => {
                        if let JoinError::NameTaken { holder } = &error {
                            if !std::mem::replace(&mut is_told, true) {
                                self.log.error("node_name_taken", &[("node", &holder.id), ("by", &holder.address)]);
                            }
                            *self.name_taken_by.lock() = Some(holder.clone());
                        }
                        self.sleep(RETRY).await;
                    }
                }
            }
            *self.name_taken_by.lock() = None;
            self.log.info("joined_again", &[("node", &self.node.id)]);
            self.ring_keepers();
        }
    }

    fn note_reached(&self, is_reached: bool) {
        if is_reached {
            self.log.info("cluster_reached", &[("node", &self.node.id)]);
        } else {
            let error = self.membership().contact().trouble.unwrap_or_default();
            self.log.warn("cluster_unreachable", &[("node", &self.node.id), ("error", &error)]);
        }
        self.ring_keepers();
    }

    /// Why the node does not reach the cluster, if it does not.
    pub(crate) fn trouble(&self) -> Option<String> {
        if let Some(holder) = &*self.name_taken_by.lock() {
            return Some(format!("another server is the node {} by now, at {}", holder.id, holder.address));
        }
        let contact = self.membership().contact();
        if !contact.lease_left.is_zero() {
            return None;
        }
        let why = contact.trouble.map(|why| format!(": {why}")).unwrap_or_default();
        Some(format!("etcd has not answered for {} s{why}", contact.uncertain_for.as_secs()))
    }

    fn ring_keepers(&self) {
        if let Some(listener) = self.listener() {
            listener.keepers().iter().for_each(|keeper| keeper.changed.give());
        }
        self.news.give();
    }

    async fn watch(self: &Arc<Self>) {
        let mut leaders = self.cluster.observe_leaders();
        let mut members = self.cluster.observe_members();
        let mut open = self.cluster.observe_open();
        let mut records = self.cluster.observe_records();
        loop {
            let databases = race(leaders.next(), open.next());
            let nodes = race(members.next(), records.next());
            let seen = race(databases, nodes).await;
            if self.is_ending() {
                return;
            }
            let failed = match seen {
                Either::First(Either::First(Ok(seen))) => self.note_leaders(seen).err(),
                Either::First(Either::Second(Ok(seen))) => self.note_open(seen).err(),
                Either::Second(Either::First(Ok(seen))) => self.note_members(seen).err(),
                Either::Second(Either::Second(Ok(seen))) => self.note_record(seen).err(),
                Either::First(Either::First(Err(error)) | Either::Second(Err(error)))
                | Either::Second(Either::First(Err(error)) | Either::Second(Err(error))) => Some(error),
            };
            if let Some(error) = failed {
                self.log.error("cluster", &[("error", &error)]);
                self.sleep(RETRY).await;
            }
        }
    }

    fn keeper(&self, db: &str) -> Option<Arc<Keeper>> {
        self.listener()?.keeper_of(db.parse().ok()?)
    }

    fn note_leaders(&self, seen: Seen<(Database, Leader)>) -> Result<(), colibri_replica::Error> {
        let (Seen::Is((db, _)) | Seen::Was((db, _))) = &seen;
        let db = db.0.clone();
        {
            let mut leaders = self.leaders.lock();
            match seen {
                Seen::Is((_, leader)) => _ = leaders.insert(db.clone(), leader),
                // A campaign may have told of a newer one already.
                Seen::Was((_, was)) => {
                    if leaders.get(&db).is_some_and(|known| known.epoch <= was.epoch) {
                        leaders.remove(&db);
                    }
                }
            }
        }
        if let Some(keeper) = self.keeper(&db) {
            keeper.changed.give();
        }
        self.news.give();
        Ok(())
    }

    fn note_open(&self, seen: Seen<Database>) -> Result<(), colibri_replica::Error> {
        match seen {
            Seen::Is(db) => {
                self.open.lock().insert(db.0.clone());
                if let Some(keeper) = self.keeper(&db.0) {
                    keeper.run();
                    keeper.changed.give();
                }
            }
            Seen::Was(db) => {
                self.open.lock().remove(&db.0);
                if let Some(keeper) = self.keeper(&db.0) {
                    keeper.changed.give();
                }
            }
        }
        Ok(())
    }

    fn note_members(&self, seen: Seen<Member>) -> Result<(), colibri_replica::Error> {
        match seen {
            Seen::Is(member) => _ = self.members.lock().insert(member.node.id.clone(), member),
            Seen::Was(member) => {
                let mut members = self.members.lock();
                if members.get(&member.node.id).is_some_and(|known| known.lease == member.lease) {
                    members.remove(&member.node.id);
                }
            }
        }
        self.news.give();
        Ok(())
    }

    fn note_record(&self, seen: Seen<ClusterRecord>) -> Result<(), colibri_replica::Error> {
        if let (Seen::Is(record), Some(listener)) = (&seen, self.listener()) {
            listener.take_record(record);
        }
        self.news.give();
        Ok(())
    }

    // ---- the end ----

    /// Closes all databases, gives up what this node leads, and leaves. Waits, with the thread.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
        let keepers = self.listener().map(|listener| listener.keepers()).unwrap_or_default();
        keepers.iter().for_each(|keeper| keeper.changed.give());
        self.news.give();
        for keeper in &keepers {
            if !keeper.wait_closed(END_MAX) {
                self.log.error("close_failed", &[("database", &keeper.name), ("error", &"it is still in use")]);
            }
        }
        let leave = async {
            if let Err(error) = self.membership().leave().await {
                self.log.warn("leave_failed", &[("error", &error)]);
            }
        };
        _ = block_on(race(leave, self.sleep(END_MAX)));
    }
}

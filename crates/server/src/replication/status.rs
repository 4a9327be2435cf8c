//! A cluster as an administrator sees it, who reaches etcd: what there is, and changing it.
//!
//! What nodes know only themselves, such as how far they have applied a log, they are asked for with
//! the cluster's secret, which whoever reaches etcd can read.

use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use colibri_replica::coordinator::Revision;
use colibri_replica::{Cluster, Database, Lag, Node, NodeId, Position, RecordPut};
use serde::Serialize;
use serde_json::Value;

use super::records::{DATABASES, IDENTITY, Identity};
use super::wait::{Either, block_on, race};
use super::{cluster_error, connect, peer};
use crate::cluster::{Databases, Records};
use crate::error::ServeError;

type Result<T> = std::result::Result<T, ServeError>;

/// The pause between looks whether a database has moved.
const LOOK: Duration = Duration::from_millis(50);

/// A cluster.
#[derive(Debug, Clone, Serialize)]
pub struct ClusterStatus {
    /// Its name.
    pub name: String,
    /// etcd's version, members that answer and all of them, bytes used and the quota. `None` if it
    /// does not answer, and this is what a node knows.
    pub etcd: Option<EtcdStatus>,
    /// Why etcd does not answer, if it does not.
    pub trouble: Option<String>,
    /// Its nodes that are there.
    pub nodes: Vec<NodeStatus>,
    /// Its databases.
    pub databases: Vec<DatabaseStatus>,
}

/// etcd, as far as it tells.
#[derive(Debug, Clone, Serialize)]
pub struct EtcdStatus {
    /// In its own words.
    pub version: String,
    /// Members that answer.
    pub members_up: usize,
    /// All members.
    pub members: usize,
    /// Bytes that count against the quota.
    pub bytes: u64,
    /// The quota in bytes.
    pub quota_bytes: u64,
    /// `ample`, `half` or `full`.
    pub level: &'static str,
    /// Whether it has reached its quota, and writes nothing before `etcdctl alarm disarm`.
    pub alarm: bool,
}

/// A node.
#[derive(Debug, Clone, Serialize)]
pub struct NodeStatus {
    /// Its name.
    pub id: String,
    /// Where it is.
    pub address: String,
    /// Databases that it leads.
    pub leads: usize,
    /// Why it does not answer, or does not reach etcd.
    pub trouble: Option<String>,
}

/// A database.
#[derive(Debug, Clone, Serialize)]
pub struct DatabaseStatus {
    /// Its name.
    pub name: String,
    /// Its number, which is its name in the log.
    pub oid: u32,
    /// The node that leads it.
    pub leader: Option<String>,
    /// The leader's term.
    pub epoch: Option<u64>,
    /// The node that was chosen to lead it.
    pub home: Option<String>,
    /// The first entry of its log that is left. This and what follows of the log is known if etcd
    /// answers.
    pub first: Option<u64>,
    /// The position behind the last entry.
    pub end: Option<u64>,
    /// Bytes of the entries that are left.
    pub log_bytes: Option<u64>,
    /// What its copies are like.
    pub copies: Vec<CopyStatus>,
}

/// A copy of a database.
#[derive(Debug, Clone, Serialize)]
pub struct CopyStatus {
    /// The node.
    pub node: String,
    /// `leader`, `standby`, `opening`, `closed`, or `cut off` after a term that was lost with etcd;
    /// `silent` for a node that does not answer, `gone` for one that is not there.
    pub standing: String,
    /// The position up to which it has applied the log, if it is open.
    pub applied: Option<u64>,
    /// Its last transaction, if it is open.
    pub txn: Option<u64>,
    /// The position up to which it holds the log on its disk.
    pub on_disk: Option<u64>,
    /// Entries between what it has applied, or has on its disk if it is closed, and the log's end.
    pub behind: Option<u64>,
    /// Their bytes.
    pub behind_bytes: Option<u64>,
    /// How long ago the oldest of them was made, in seconds, by the clocks of the leader and of who
    /// asks.
    pub behind_s: Option<f64>,
    /// Why it cannot be opened.
    pub trouble: Option<String>,
}

/// How long etcd may take to answer at all.
const ETCD_MAX: Duration = Duration::from_secs(3);

struct Seen {
    cluster: Cluster,
    quota_bytes: u64,
    secret: [u8; 32],
}

fn failed(error: impl std::fmt::Display) -> ServeError {
    cluster_error(error.to_string())
}

impl Seen {
    fn new(address: &str) -> Result<Self> {
        let (cluster, quota_bytes) = connect(address)?;
        let coordinator = cluster.coordinator();
        let identity = match block_on(race(cluster.record(IDENTITY), coordinator.sleep(ETCD_MAX))) {
            Either::First(identity) => identity.map_err(unreached)?,
            Either::Second(()) => return Err(unreached(format!("nothing came in {} s", ETCD_MAX.as_secs()))),
        };
        let identity = identity.ok_or_else(|| {
            failed(format!("there is no cluster {:?} in etcd: its first server makes it", cluster.name()))
        })?;
        let secret = Identity::read(&identity.value)?.secret()?;
        Ok(Self { cluster, quota_bytes, secret })
    }

    fn databases(&self) -> Result<(Databases, Revision)> {
        let record = block_on(self.cluster.record(DATABASES)).map_err(failed)?;
        let record = record.ok_or_else(|| failed("the cluster has no record of databases"))?;
        let databases = serde_json::from_slice(&record.value).map_err(|_| super::records::damaged(DATABASES))?;
        Ok((databases, record.revision))
    }

    fn members(&self) -> Result<Vec<Node>> {
        let members = block_on(self.cluster.members()).map_err(failed)?;
        Ok(members.into_iter().map(|member| member.node).collect())
    }
}

fn unreached(why: impl std::fmt::Display) -> ServeError {
    failed(format!("etcd does not answer: {why}"))
}

/// What a node knows.
fn ask(address: &str, secret: &[u8; 32]) -> std::result::Result<Value, String> {
    let ask = || {
        let mut text = String::new();
        peer::ask(address, secret, peer::What::Standing, "")?.read_to_string(&mut text)?;
        std::io::Result::Ok(text)
    };
    let text = ask().map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// What nodes have told of themselves, or why they do not answer.
type Told = [(Node, std::result::Result<Value, String>)];

/// A copy of a database as its node has told of it.
fn copy_of(oid: u32, (member, answer): &(Node, std::result::Result<Value, String>)) -> CopyStatus {
    let all = answer.as_ref().ok().and_then(|answer| answer["databases"].as_array());
    let own = all.and_then(|all| all.iter().find(|one| one["oid"] == oid));
    let number = |name: &str| own.and_then(|own| own[name].as_u64());
    let text = |name: &str| own.and_then(|own| own[name].as_str()).map(str::to_owned);
    CopyStatus {
        node: member.id.to_string(),
        standing: text("standing").unwrap_or_else(|| if answer.is_ok() { "closed" } else { "silent" }.to_owned()),
        applied: number("position"),
        txn: number("txn"),
        on_disk: None,
        behind: None,
        behind_bytes: None,
        behind_s: None,
        trouble: text("trouble"),
    }
}

fn nodes_of(told: &Told, leads: impl Fn(&Node) -> usize) -> Vec<NodeStatus> {
    let nodes = told.iter().map(|(member, answer)| NodeStatus {
        id: member.id.to_string(),
        address: member.address.clone(),
        leads: leads(member),
        trouble: match answer {
            Ok(answer) => answer["trouble"].as_str().map(str::to_owned),
            Err(why) => Some(format!("does not answer: {why}")),
        },
    });
    nodes.collect()
}

/// What the server of a directory knows of its cluster, and what the other nodes tell of
/// themselves: for when etcd does not answer. `why`: why it does not.
///
/// # Errors
/// If the directory is not that of a node, or its server does not answer.
pub fn cluster_status_of_node(dir: &Path, why: &str) -> Result<ClusterStatus> {
    let found = Records::membership(&dir.join("cluster"))?;
    let (identity, address) =
        found.ok_or_else(|| failed(format!("{} is not the directory of a node of a cluster", dir.display())))?;
    let secret = Identity::read(&identity)?.secret()?;
    let here = ask(&address, &secret);
    let here = here.map_err(|error| failed(format!("the server at {address} does not answer: {error}")))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let members = here["members"].as_array().into_iter().flatten();
    let members = members.filter_map(|member| {
        Some(Node { id: NodeId::new(member["id"].as_str()?).ok()?, address: text(&member["address"]) })
    });
    let told: Vec<_> = members
        .map(|member| {
            let answer =
                if here["node"] == member.id.as_str() { Ok(here.clone()) } else { ask(&member.address, &secret) };
            (member, answer)
        })
        .collect();
    let known = here["known"].as_array().cloned().unwrap_or_default();
    let databases = known.iter().filter_map(|database| {
        let oid = u32::try_from(database["oid"].as_u64()?).ok()?;
        Some(DatabaseStatus {
            name: text(&database["name"]),
            oid,
            leader: database["leader"].as_str().map(str::to_owned),
            epoch: database["epoch"].as_u64(),
            home: database["home"].as_str().map(str::to_owned),
            first: None,
            end: None,
            log_bytes: None,
            copies: told.iter().map(|told| copy_of(oid, told)).collect(),
        })
    });
    Ok(ClusterStatus {
        name: text(&here["cluster"]),
        etcd: None,
        trouble: Some(why.to_owned()),
        nodes: nodes_of(&told, |node| known.iter().filter(|one| one["leader"] == node.id.as_str()).count()),
        databases: databases.collect(),
    })
}

/// What there is of a cluster.
///
/// # Errors
/// If etcd cannot be asked, which is told within some seconds, or there is no such cluster. A node
/// that does not answer is no error.
pub fn cluster_status(address: &str) -> Result<ClusterStatus> {
    let seen = Seen::new(address)?;
    let cluster = &seen.cluster;
    let (health, usage) = block_on(cluster.health(seen.quota_bytes)).map_err(failed)?;
    let leaders = block_on(cluster.leaders()).map_err(failed)?;
    let members = seen.members()?;
    let told: Vec<_> = members
        .into_iter()
        .map(|member| {
            let answer = ask(&member.address, &seen.secret);
            (member, answer)
        })
        .collect();
    let nodes = nodes_of(&told, |node| leaders.iter().filter(|(_, leader)| leader.node.id == node.id).count());
    let mut databases = Vec::new();
    for record in &seen.databases()?.0.all {
        let db = Database(record.info.oid.to_string());
        let range = block_on(cluster.log_range(&db)).map_err(failed)?;
        let bases = block_on(cluster.bases(&db)).map_err(failed)?;
        let leader = leaders.iter().find(|(led, _)| *led == db).map(|(_, leader)| leader);
        let mut copies: Vec<CopyStatus> = told.iter().map(|told| copy_of(record.info.oid, told)).collect();
        for base in &bases.bases {
            let node = base.node.id.to_string();
            let on_disk = Some(base.covers.next.0);
            match copies.iter_mut().find(|copy| copy.node == node) {
                Some(copy) => copy.on_disk = on_disk,
                None => copies.push(CopyStatus {
                    node,
                    standing: "gone".to_owned(),
                    applied: None,
                    txn: None,
                    on_disk,
                    behind: None,
                    behind_bytes: None,
                    behind_s: None,
                    trouble: None,
                }),
            }
        }
        for copy in &mut copies {
            let Some(has) = copy.applied.or(copy.on_disk) else { continue };
            // Of several copies that are at the end, none is asked about.
            let lag = match range.end.next.0 <= has {
                true => Lag::none(range.end.next),
                false => block_on(cluster.lag(&db, Position(has))).map_err(failed)?,
            };
            copy.behind = Some(lag.entries);
            copy.behind_bytes = Some(lag.bytes);
            copy.behind_s = lag.age.map(|age| age.as_secs_f64());
        }
        databases.push(DatabaseStatus {
            name: record.info.name.to_string(),
            oid: record.info.oid,
            leader: leader.map(|leader| leader.node.id.to_string()),
            epoch: leader.map(|leader| leader.epoch.0),
            home: record.home.clone(),
            first: Some(range.first.0),
            end: Some(range.end.next.0),
            log_bytes: Some(range.bytes),
            copies,
        });
    }
    let level = match usage.level {
        colibri_replica::Level::Ample => "ample",
        colibri_replica::Level::Half => "half",
        colibri_replica::Level::Full => "full",
    };
    let etcd = EtcdStatus {
        version: health.version,
        members_up: health.members_up.0,
        members: health.members_up.1,
        bytes: usage.bytes,
        quota_bytes: usage.quota_bytes,
        level,
        alarm: usage.has_alarm,
    };
    Ok(ClusterStatus { name: cluster.name().to_owned(), etcd: Some(etcd), trouble: None, nodes, databases })
}

/// Changes the record of databases, and gives what the change gave.
fn change<T>(seen: &Seen, mut change: impl FnMut(&mut Databases) -> Result<T>) -> Result<T> {
    loop {
        let (mut databases, revision) = seen.databases()?;
        let done = change(&mut databases)?;
        let value = serde_json::to_vec(&databases).map_err(failed)?;
        match block_on(seen.cluster.put_record(DATABASES, value, revision)).map_err(failed)? {
            RecordPut::Done(_) => return Ok(done),
            RecordPut::Changed(_) => {}
        }
    }
}

/// Chooses the node that leads a database, and waits until it does. The leader before finishes what
/// it has begun, and hands the leadership over.
///
/// # Errors
/// If there is no such database or node, or it takes too long: then the choice stays, and the
/// database moves when it can.
pub fn move_database(address: &str, database: &str, node: &str, time_max: Duration) -> Result<()> {
    let seen = Seen::new(address)?;
    if !seen.members()?.iter().any(|member| member.id.as_str() == node) {
        return Err(failed(format!("there is no node {node:?} in the cluster now")));
    }
    let oid = change(&seen, |databases| {
        let place = databases.place(database);
        let record = place.map(|place| &mut databases.all[place]);
        let record = record.ok_or_else(|| failed(format!("database {database:?} does not exist")))?;
        record.home = Some(node.to_owned());
        Ok(record.info.oid)
    })?;
    let until = Instant::now() + time_max;
    loop {
        let leader = block_on(seen.cluster.leader(&Database(oid.to_string()))).map_err(failed)?;
        if leader.is_some_and(|leader| leader.node.id.as_str() == node) {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(failed(format!(
                "{node} does not lead {database:?} yet: it moves when {node} has applied its log"
            )));
        }
        std::thread::sleep(LOOK);
    }
}

/// Forgets a node that does not come back: the log is not kept for it any more. If it does come
/// back, it copies what it lacks.
///
/// # Errors
/// If the node is there, or was not known.
pub fn remove_node(address: &str, node: &str) -> Result<()> {
    let seen = Seen::new(address)?;
    let id = colibri_replica::NodeId::new(node).map_err(failed)?;
    if seen.members()?.iter().any(|member| member.id == id) {
        return Err(failed(format!("node {node:?} is in the cluster: end its server first")));
    }
    let mut was_known = false;
    for record in &seen.databases()?.0.all {
        let db = Database(record.info.oid.to_string());
        was_known |= block_on(seen.cluster.withdraw_base(&db, &id)).map_err(failed)?;
    }
    let was_home = change(&seen, |databases| {
        let mut was_home = false;
        for record in databases.all.iter_mut().filter(|record| record.home.as_deref() == Some(node)) {
            record.home = None;
            was_home = true;
        }
        Ok(was_home)
    })?;
    if was_known || was_home { Ok(()) } else { Err(failed(format!("nothing is known of a node {node:?}"))) }
}

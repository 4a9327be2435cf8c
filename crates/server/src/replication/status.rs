//! A cluster as an administrator sees it, who reaches etcd: what there is, and changing it.
//!
//! What nodes know only themselves, such as how far they have applied a log, they are asked for with
//! the cluster's secret, which whoever reaches etcd can read.

use std::io::Read as _;
use std::time::{Duration, Instant};

use colibri_replica::coordinator::Revision;
use colibri_replica::{Cluster, Database, Lag, Node, Position, RecordPut};
use serde::Serialize;
use serde_json::Value;

use super::records::{DATABASES, IDENTITY, Identity};
use super::wait::block_on;
use super::{cluster_error, connect, peer};
use crate::cluster::Databases;
use crate::error::ServeError;

type Result<T> = std::result::Result<T, ServeError>;

/// The pause between looks whether a database has moved.
const LOOK: Duration = Duration::from_millis(50);

/// A cluster.
#[derive(Debug, Clone, Serialize)]
pub struct ClusterStatus {
    /// Its name.
    pub name: String,
    /// etcd's version, members that answer and all of them, bytes used and the quota.
    pub etcd: EtcdStatus,
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
    /// Why it does not answer, if it does not.
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
    /// The first entry of its log that is left, and the one behind the last.
    pub first: u64,
    /// The position behind the last entry.
    pub end: u64,
    /// Bytes of the entries that are left.
    pub log_bytes: u64,
    /// What its copies are like.
    pub copies: Vec<CopyStatus>,
}

/// A copy of a database.
#[derive(Debug, Clone, Serialize)]
pub struct CopyStatus {
    /// The node.
    pub node: String,
    /// `leader`, `standby`, `opening` or `closed`; `silent` for a node that does not answer, `gone`
    /// for one that is not there.
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
        let identity = block_on(cluster.record(IDENTITY)).map_err(failed)?;
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

    fn ask(&self, node: &Node) -> std::result::Result<Value, String> {
        let ask = || {
            let mut text = String::new();
            peer::ask(&node.address, &self.secret, peer::What::Standing, "")?.read_to_string(&mut text)?;
            std::io::Result::Ok(text)
        };
        let text = ask().map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }
}

/// What there is of a cluster.
///
/// # Errors
/// If etcd cannot be asked, or there is no such cluster. A node that does not answer is no error.
pub fn cluster_status(address: &str) -> Result<ClusterStatus> {
    let seen = Seen::new(address)?;
    let cluster = &seen.cluster;
    let (health, usage) = block_on(cluster.health(seen.quota_bytes)).map_err(failed)?;
    let leaders = block_on(cluster.leaders()).map_err(failed)?;
    let members = seen.members()?;
    let told: Vec<_> = members.iter().map(|member| (member, seen.ask(member))).collect();
    let nodes = told.iter().map(|(member, answer)| NodeStatus {
        id: member.id.to_string(),
        address: member.address.clone(),
        leads: leaders.iter().filter(|(_, leader)| leader.node.id == member.id).count(),
        trouble: answer.as_ref().err().cloned(),
    });
    let nodes = nodes.collect();
    let mut databases = Vec::new();
    for record in &seen.databases()?.0.all {
        let db = Database(record.info.oid.to_string());
        let range = block_on(cluster.log_range(&db)).map_err(failed)?;
        let bases = block_on(cluster.bases(&db)).map_err(failed)?;
        let leader = leaders.iter().find(|(led, _)| *led == db).map(|(_, leader)| leader);
        let mut copies: Vec<CopyStatus> = told
            .iter()
            .map(|(member, answer)| {
                let all = answer.as_ref().ok().and_then(|answer| answer["databases"].as_array());
                let own = all.and_then(|all| all.iter().find(|one| one["oid"] == record.info.oid));
                let number = |name: &str| own.and_then(|own| own[name].as_u64());
                let text = |name: &str| own.and_then(|own| own[name].as_str()).map(str::to_owned);
                CopyStatus {
                    node: member.id.to_string(),
                    standing: text("standing")
                        .unwrap_or_else(|| if answer.is_ok() { "closed" } else { "silent" }.to_owned()),
                    applied: number("position"),
                    txn: number("txn"),
                    on_disk: None,
                    behind: None,
                    behind_bytes: None,
                    behind_s: None,
                    trouble: text("trouble"),
                }
            })
            .collect();
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
            first: range.first.0,
            end: range.end.next.0,
            log_bytes: range.bytes,
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
    };
    Ok(ClusterStatus { name: cluster.name().to_owned(), etcd, nodes, databases })
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

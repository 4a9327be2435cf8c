//! A server's directory as that of a node of a cluster.
//!
//! ```text
//! DIR/cluster/              copies of the records that all nodes share; which cluster and node it is
//! DIR/replicas/<oid>/       databases, by their numbers: a name may change on another node
//! DIR/databases/NAME/       what was there before the cluster, until it has been moved
//! ```
//! The first node makes the cluster: its roles, databases and settings become those of all. Other
//! nodes begin with an empty directory.
//!
//! Invariants
//! - A directory belongs to one cluster. Its databases are never those of another one.
//! - A database that had contents before the cluster is in its place before anybody leads it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use colibri_replica::coordinator::Revision;
use colibri_replica::{ClusterRecord, Instance, RecordPut};
use colibri_sql::{CompactString, Error, Result, SqlState};
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::records::{Databases, Loaded, Records};
use super::{Directory, io_error, make_dir, sync_dir};
use crate::auth::scram;
use crate::error::ServeError;
use crate::log::Log;
use crate::registry::{Stop, Why};
use crate::replication::base::Base;
use crate::replication::keeper::{Keeper, Surroundings};
use crate::replication::records::{DATABASES, IDENTITY, Identity, Known, ROLES, SETTINGS, damaged};
use crate::replication::{ClusterOptions, Joining, KnownDatabase, Listener, Replication};

/// What a directory has in a cluster.
pub(super) struct Joined {
    pub(super) node: Arc<Replication>,
    pub(super) around: Arc<Surroundings>,
    keepers: Mutex<HashMap<u32, Arc<Keeper>>>,
}

/// How a server joins.
pub(crate) struct Join<'a> {
    pub(crate) options: &'a ClusterOptions,
    /// Where the server listens.
    pub(crate) listens: Option<&'a str>,
    pub(crate) log: Log,
}

impl Joined {
    pub(super) fn new(node: Arc<Replication>, around: Surroundings) -> Self {
        Self { node, around: Arc::new(around), keepers: Mutex::default() }
    }
}

pub(super) fn replicas(dir: &Path) -> PathBuf {
    dir.join("replicas")
}

/// Whether there are databases in a directory.
fn has_databases(dir: &Path) -> bool {
    let has_data = |dir: PathBuf| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.path().join("data").exists())
    };
    has_data(dir.join("databases")) || has_data(replicas(dir))
}

/// Joins the cluster, or makes it. What was loaded becomes what the cluster has.
pub(super) fn join(
    dir: &Path,
    records: &Records,
    loaded: &mut Loaded,
    join: &Join<'_>,
) -> std::result::Result<Arc<Replication>, ServeError> {
    let directory = match loaded.directory {
        Some(directory) => directory,
        None => {
            let directory = u64::from_le_bytes(scram::random()?);
            records.write_directory(directory)?;
            directory
        }
    };
    let instance = Instance { dir: directory, start: u64::from_le_bytes(scram::random()?) };
    let joining = Joining::new(join.options, join.listens, loaded.node.as_deref(), instance, join.log)?;
    records.write_address(joining.address())?;
    let mut own = loaded.identity.as_deref().map(Identity::read).transpose()?;
    let identity = loop {
        let found = joining.ask(|| joining.cluster.record(IDENTITY))?;
        match (found, &own) {
            (Some(found), own) => {
                let identity = Identity::read(&found.value)?;
                if own.as_ref().is_none_or(|own| own.id != identity.id) && has_databases(dir) {
                    return Err(foreign(dir, joining.cluster.name()).into());
                }
                records.write_identity(&found.value, joining.node())?;
                break identity;
            }
            (None, Some(_)) if fs::read_dir(replicas(dir)).is_ok_and(|mut entries| entries.next().is_some()) => {
                let message = format!("etcd knows nothing of the cluster that {} is of", dir.display());
                let hint = "Look whether --cluster names the right etcd and the right cluster. If etcd has lost its data, \
                            restore them; or move the databases from `replicas` to `databases` in a new directory.";
                return Err(Error::new(SqlState::DATA_CORRUPTED, message).hint(hint).into());
            }
            (None, _) => own = Some(form(dir, records, loaded, &joining)?),
        }
    };
    if let Some(base) = &join.options.base {
        check_base(base, &identity)?;
    }
    for name in [ROLES, DATABASES, SETTINGS] {
        let record = joining.ask(|| joining.cluster.record(name))?.ok_or_else(|| damaged(name))?;
        match name {
            ROLES => loaded.roles = read(name, &record.value)?,
            DATABASES => loaded.databases = read(name, &record.value)?,
            _ => loaded.settings = read(name, &record.value)?,
        }
        records.write_copy(name, &record.value)?;
    }
    loaded.secret = identity.secret()?;
    take_in(dir, &loaded.databases, joining.node())?;
    joining.join(identity, replicas(dir))
}

/// A directory of copies has to be there, and the address of a store to be one. Where it is known
/// which cluster a directory is of, it has to be this one; of each copy, its history tells
/// (`crate::replication::seed`).
fn check_base(base: &Path, identity: &Identity) -> Result<()> {
    let found = Base::of(base).map_err(|why| Error::new(SqlState::BAD_PARAMETER, format!("--base: {why}")))?;
    let Base::Dir(base) = found else { return Ok(()) };
    let records = [base.join("cluster"), base.join("../cluster")].into_iter().find(|dir| dir.join("data").exists());
    let Some((other, _)) = records.map(|dir| Records::membership(&dir)).transpose()?.flatten() else { return Ok(()) };
    if Identity::read(&other)?.id == identity.id {
        return Ok(());
    }
    let message = format!("--base: the databases in {} are those of another cluster", base.display());
    Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).hint("Give a directory of a node of this cluster."))
}

fn foreign(dir: &Path, cluster: &str) -> Error {
    let message = format!("{} has databases of its own, and the cluster {cluster:?} is there already", dir.display());
    Error::new(SqlState::WRONG_OBJECT_TYPE, message)
        .hint("Give an empty directory: the databases of the cluster are copied to it.")
}

/// Makes the cluster of what the directory has. Somebody else may have done so meanwhile.
fn form(
    dir: &Path,
    records: &Records,
    loaded: &Loaded,
    joining: &Joining,
) -> std::result::Result<Identity, ServeError> {
    let own = Identity::new(&loaded.secret, u128::from_le_bytes(scram::random()?));
    let identity = json(&own)?;
    // Before the service has it: a start after a crash knows the cluster as its own.
    records.write_identity(&identity, joining.node())?;
    let mut databases = loaded.databases.clone();
    if let Some(record) = databases.all.iter().find(|record| record.branch.is_some()) {
        let message = format!("a cluster with database \"{}\", which is a branch of another one", record.info.name);
        let hint =
            "Copy it first, on a server without --cluster: CREATE DATABASE ... TEMPLATE ... STRATEGY = file_copy.";
        return Err(Error::unsupported(message).hint(hint).into());
    }
    for record in &mut databases.all {
        if dir.join("databases").join(record.directory()).join("data").exists() {
            record.origin = Some(joining.node().to_owned());
        }
    }
    let first = [
        (IDENTITY, identity),
        (ROLES, json(&loaded.roles)?),
        (DATABASES, json(&databases)?),
        (SETTINGS, json(&loaded.settings)?),
    ];
    joining.ask(|| joining.cluster.create_records(&first))?;
    Ok(own)
}

/// Moves databases that were there before the cluster to where the cluster's are.
fn take_in(dir: &Path, databases: &Databases, node: &str) -> Result<()> {
    let to = replicas(dir);
    make_dir(&to).map_err(io_error("cannot make", &to))?;
    for record in databases.all.iter().filter(|record| record.origin.as_deref() == Some(node)) {
        let from = dir.join("databases").join(record.directory());
        let to = to.join(record.info.oid.to_string());
        if from.join("data").exists() && !to.exists() {
            fs::rename(&from, &to).map_err(io_error("cannot rename", &from))?;
        }
    }
    sync_dir(&to).map_err(io_error("cannot flush", &to))
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(Error::internal)
}

fn read<T: DeserializeOwned>(name: &str, value: &[u8]) -> Result<T> {
    serde_json::from_slice(value).map_err(|_| damaged(name))
}

impl Directory {
    /// This server in its cluster.
    pub(crate) fn replication(&self) -> Option<&Arc<Replication>> {
        self.joined.as_ref().map(|joined| &joined.node)
    }

    /// The keeper of a database, in a cluster.
    pub(crate) fn keeper_named(&self, name: &str) -> Option<Arc<Keeper>> {
        self.joined.as_ref()?;
        let oid = {
            let databases = self.databases.read();
            databases.all[databases.place(name)?].info.oid
        };
        self.keeper_of(oid)
    }

    /// Whether this server certainly leads a database, or another one does; `None` without a
    /// cluster, and `Some(None)` where neither is known.
    pub(crate) fn role_of(&self, name: &str) -> Option<Option<bool>> {
        let node = self.replication()?;
        let Some(keeper) = self.keeper_named(name) else { return Some(None) };
        let is_certain = !node.membership().lease_left().is_zero();
        Some(match node.leader(&keeper.db) {
            Some(leader) if leader.node.id == node.node.id => is_certain.then_some(true),
            // What it has is shown only while the cluster is reached.
            Some(_) => is_certain.then_some(false),
            None => None,
        })
    }

    /// Changes a shared record by what it is made of. The change is made again where another node
    /// was faster.
    pub(super) fn change_shared<T, R>(
        &self,
        joined: &Joined,
        name: &str,
        now: &RwLock<Arc<T>>,
        change: &mut dyn FnMut(&mut T) -> Result<R>,
    ) -> Result<R>
    where
        T: Clone + PartialEq + Serialize,
    {
        loop {
            let (before, seen): (Arc<T>, Revision) = {
                let known = joined.node.shared.known();
                (Arc::clone(&now.read()), known.revision(name))
            };
            let seen = if seen == Revision::default() { self.revision_of(joined, name)? } else { seen };
            let mut value = T::clone(&before);
            let done = change(&mut value)?;
            if value == *before {
                return Ok(done);
            }
            match joined.node.shared.put(name, json(&value)?, seen)? {
                RecordPut::Done(record) => {
                    self.take(joined, &record)?;
                    return Ok(done);
                }
                RecordPut::Changed(Some(record)) => self.take(joined, &record)?,
                RecordPut::Changed(None) => return Err(damaged(name)),
            }
        }
    }

    /// Asks for a record of which the watch has not told yet.
    fn revision_of(&self, joined: &Joined, name: &str) -> Result<Revision> {
        let record = crate::replication::wait::block_on(joined.node.cluster.record(name));
        let record = record.map_err(|error| crate::replication::records::service_error(&error))?;
        let record = record.ok_or_else(|| damaged(name))?;
        self.take(joined, &record)?;
        Ok(record.revision)
    }

    /// Takes a record as the cluster has it.
    fn take(&self, joined: &Joined, record: &ClusterRecord) -> Result<()> {
        let mut known = joined.node.shared.known();
        let before = Arc::clone(&self.databases.read());
        self.take_known(&mut known, record)?;
        drop(known);
        if record.name == DATABASES {
            self.end_those_gone(joined, &before);
        }
        Ok(())
    }

    fn take_known(&self, known: &mut Known, record: &ClusterRecord) -> Result<()> {
        if ![ROLES, DATABASES, SETTINGS].contains(&record.name.as_str()) || !known.note(record) {
            return Ok(());
        }
        match record.name.as_str() {
            ROLES => *self.roles.write() = Arc::new(read(ROLES, &record.value)?),
            DATABASES => *self.databases.write() = Arc::new(read(DATABASES, &record.value)?),
            _ => *self.kept_settings.write() = Arc::new(read(SETTINGS, &record.value)?),
        }
        self.version.fetch_add(1, Ordering::AcqRel);
        self.records.write_copy(&record.name, &record.value)
    }

    /// Ends databases that were dropped, and those that have another name now.
    fn end_those_gone(&self, joined: &Joined, before: &Databases) {
        let now = Arc::clone(&self.databases.read());
        for record in &before.all {
            let (oid, name) = (record.info.oid, &record.info.name);
            if now.all.iter().any(|other| other.info.oid == oid && other.info.name == *name) {
                continue;
            }
            self.slots.lock().remove(name);
            self.registry.stop(Stop::Now, Why::Administrator, |member| member.database == *name);
            if let Some(keeper) = joined.keepers.lock().remove(&oid) {
                keeper.end();
            }
        }
        joined.node.news.give();
    }
}

impl Listener for Directory {
    fn take_record(&self, record: &ClusterRecord) {
        let Some(joined) = &self.joined else { return };
        if let Err(error) = self.take(joined, record) {
            joined.node.log.error("cluster_record", &[("name", &record.name), ("error", &error)]);
        }
    }

    fn was_made(&self, oid: u32) -> bool {
        self.databases.read().was_made(oid)
    }

    fn databases(&self) -> Vec<KnownDatabase> {
        let databases = self.databases.read();
        let known = databases.all.iter().map(|record| KnownDatabase {
            oid: record.info.oid,
            name: record.info.name.to_string(),
            origin: record.origin.clone(),
            home: record.home.clone(),
        });
        known.collect()
    }

    fn keeper_of(&self, oid: u32) -> Option<Arc<Keeper>> {
        let joined = self.joined.as_ref()?;
        let databases = Arc::clone(&self.databases.read());
        let record = databases.all.iter().find(|record| record.info.oid == oid)?;
        let name: &CompactString = &record.info.name;
        let mut keepers = joined.keepers.lock();
        if let Some(keeper) = keepers.get(&oid).filter(|keeper| keeper.name == *name && !keeper.is_gone()) {
            return Some(Arc::clone(keeper));
        }
        let place = self.slot(name);
        let keeper = Keeper::new(&joined.node, &joined.around, place, (oid, name, record.origin.clone()));
        if let Some(before) = keepers.insert(oid, Arc::clone(&keeper)) {
            before.end();
        }
        Some(keeper)
    }

    fn keepers(&self) -> Vec<Arc<Keeper>> {
        self.joined.as_ref().map(|joined| joined.keepers.lock().values().cloned().collect()).unwrap_or_default()
    }
}

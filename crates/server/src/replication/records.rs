//! Records that the nodes of a cluster share: roles, databases, kept settings, and who the cluster
//! is.
//!
//! ```text
//! record/identity    {"version":1,"id":"…","secret":"…"}    never changes
//! record/roles       as in DIR/cluster
//! record/databases   as in DIR/cluster, with the node that had a database before the cluster was formed
//! record/settings    as in DIR/cluster
//! ```
//! Any node changes them, by compare and put. All nodes watch them and keep a copy in memory and in
//! `DIR/cluster`.
//!
//! Invariants:
//! 1. A node's copy is never older than what the node itself has put or been told.
//! 2. The records of a cluster are made together by its first node, or not at all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use colibri_replica::coordinator::Revision;
use colibri_replica::{Cluster, ClusterRecord, RecordPut};
use colibri_sql::{Error, Result, SqlState};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use super::wait::block_on;

const VERSION: u32 = 1;
/// Names of records. IN THE SERVICE: never rename.
pub(crate) const IDENTITY: &str = "identity";
pub(crate) const ROLES: &str = "roles";
pub(crate) const DATABASES: &str = "databases";
pub(crate) const SETTINGS: &str = "settings";

/// Who a cluster is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    version: u32,
    /// A random number: two clusters of one name are told apart by it.
    pub(crate) id: String,
    /// In hexadecimal digits. Nodes prove to each other that they know it.
    secret: String,
}

impl Identity {
    pub(crate) fn new(secret: &[u8; 32], id: u128) -> Self {
        let secret = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { version: VERSION, id: format!("{id:032x}"), secret }
    }

    /// # Errors
    /// XX001 for what is no identity, 0A000 for one of another version.
    pub(crate) fn read(value: &[u8]) -> Result<Self> {
        let identity: Self = serde_json::from_slice(value).map_err(|_| damaged(IDENTITY))?;
        if identity.version != VERSION {
            let message = format!("the cluster's records have version {}, and not {VERSION}", identity.version);
            return Err(Error::unsupported(message));
        }
        Ok(identity)
    }

    /// # Errors
    /// XX001 if it is none.
    pub(crate) fn secret(&self) -> Result<[u8; 32]> {
        let mut secret = [0; 32];
        let digits = self.secret.as_bytes();
        if digits.len() != 2 * secret.len() {
            return Err(damaged(IDENTITY));
        }
        for (byte, pair) in secret.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| damaged(IDENTITY))?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| damaged(IDENTITY))?;
        }
        Ok(secret)
    }
}

pub(crate) fn damaged(name: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("the cluster's record of {name} cannot be read"))
        .hint("Something else has written to it: etcdctl get --prefix /colibri/ shows it.")
}

/// What clients are told when the coordination service fails.
pub(crate) fn service_error(error: &colibri_replica::Error) -> Error {
    Error::new(SqlState("57P03"), format!("the cluster's records cannot be changed now: {error}"))
        .hint("etcd has to be reachable, and most of its members have to be up.")
}

/// The shared records, as far as this node knows them.
pub(crate) struct SharedRecords {
    cluster: Cluster,
    known: Mutex<Known>,
    /// Bytes of records that this node has replaced, which the service keeps until a compaction.
    replaced_bytes: AtomicU64,
}

/// The states of the service that have put the records this node knows.
#[derive(Default)]
pub(crate) struct Known(HashMap<String, Revision>);

impl Known {
    pub(crate) fn revision(&self, name: &str) -> Revision {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Notes a record. False if it is not newer than what is known.
    pub(crate) fn note(&mut self, record: &ClusterRecord) -> bool {
        let is_newer = self.revision(&record.name) < record.revision;
        if is_newer {
            self.0.insert(record.name.clone(), record.revision);
        }
        is_newer
    }
}

impl SharedRecords {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone(), known: Mutex::default(), replaced_bytes: AtomicU64::new(0) }
    }

    /// While this is held, what a node knows of the records does not change.
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Puts a record that was made of the one with this revision. Waits, with the thread.
    ///
    /// # Errors
    /// 57P03 if the service cannot be asked: then the record may be put.
    pub(crate) fn put(&self, name: &str, value: Vec<u8>, seen: Revision) -> Result<RecordPut> {
        let bytes = value.len() as u64;
        let put = block_on(self.cluster.put_record(name, value, seen)).map_err(|error| service_error(&error))?;
        if matches!(put, RecordPut::Done(_)) {
            // The new record is about as long as the one in whose place it is.
            self.replaced_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(put)
    }

    /// The bytes of records that were replaced since the last call.
    pub(super) fn take_replaced_bytes(&self) -> u64 {
        self.replaced_bytes.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_identity_comes_back_and_what_is_none_is_refused() {
        let secret: [u8; 32] = std::array::from_fn(|at| at as u8 * 7);
        let identity = Identity::new(&secret, 5);
        let json = serde_json::to_vec(&identity).unwrap();
        assert_eq!(Identity::read(&json).unwrap().secret().unwrap(), secret);
        for wrong in [&b"{}"[..], b"", br#"{"version":2,"id":"","secret":""}"#] {
            assert!(Identity::read(wrong).is_err());
        }
        let short = Identity { secret: "00".to_owned(), ..identity };
        assert!(short.secret().is_err());
    }

    #[test]
    fn an_older_record_is_not_taken() {
        let mut known = Known::default();
        let record =
            |revision| ClusterRecord { name: ROLES.to_owned(), value: Vec::new(), revision: Revision(revision) };
        assert!(known.note(&record(5)) && !known.note(&record(5)) && !known.note(&record(4)) && known.note(&record(6)));
    }
}

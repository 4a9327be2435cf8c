//! The state of the simulated service: keys with revisions, leases, and the changes that were not
//! compacted. It knows no time and no network.
//!
//! Invariants:
//! 1. A transaction that writes makes one revision; one that only reads makes none.
//! 2. `changes` has every change of the revisions above `compacted`, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::coordinator::{
    Change, Compare, Done, Found, Get, Health, KeyValue, LeaseId, Operation, Refusal, Revision, Txn,
};

/// etcd's limit of the operations of a transaction.
const OPERATIONS_MAX: usize = 128;
/// etcd's limit of a request, in bytes.
const REQUEST_BYTES_MAX: usize = 3 << 19;

#[derive(Default)]
pub(super) struct Store {
    keys: BTreeMap<Vec<u8>, KeyValue>,
    leases: BTreeSet<LeaseId>,
    changes: Vec<(Revision, Change)>,
    revision: Revision,
    pub(super) compacted: Revision,
    next_lease: i64,
    pub(super) quota_bytes: Option<u64>,
    /// Compares of keys that begin so hold always: the fault that a test of a test makes.
    pub(super) ignored_compares: Option<Vec<u8>>,
    /// The bytes of a value that fit: small in tests, so that records have parts.
    pub(super) value_bytes_max: usize,
}

impl Store {
    pub(super) fn new(value_bytes_max: usize) -> Self {
        Self { value_bytes_max, ..Self::default() }
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn transact(&mut self, txn: &Txn) -> Result<Done, Refusal> {
        let bytes: usize = txn.then.iter().chain(&txn.otherwise).map(size_of_operation).sum();
        let operations = txn.compares.len().max(txn.then.len()).max(txn.otherwise.len());
        if bytes > REQUEST_BYTES_MAX || operations > OPERATIONS_MAX {
            return Err(Refusal::TooLarge);
        }
        let held = txn.compares.iter().all(|compare| self.holds(compare));
        let operations = if held { &txn.then } else { &txn.otherwise };
        let puts = || operations.iter().filter(|operation| matches!(operation, Operation::Put { .. }));
        let reaches_quota = |bytes: u64| self.quota_bytes.is_some_and(|quota| bytes > quota);
        if puts().next().is_some() && reaches_quota(self.bytes()) {
            return Err(Refusal::NoSpace);
        }
        // This one is carried out, and refused, as etcd does.
        let is_refused = puts().next().is_some() && reaches_quota(self.bytes() + bytes as u64);
        for put in puts() {
            if let Operation::Put { lease: Some(lease), .. } = put
                && !self.leases.contains(lease)
            {
                return Err(Refusal::NoLease);
            }
        }
        let next = Revision(self.revision.0 + 1);
        let changes_before = self.changes.len();
        let mut read = Vec::new();
        for operation in operations {
            match operation {
                Operation::Put { key, value, lease } => {
                    let created = self.keys.get(key).map_or(next, |before| before.created);
                    let put =
                        KeyValue { key: key.clone(), value: value.clone(), created, modified: next, lease: *lease };
                    self.keys.insert(key.clone(), put.clone());
                    self.changes.push((next, Change::Put(put)));
                }
                Operation::Delete(range) => self.delete(range, next),
                Operation::Get(get) => read.push(self.get(get).keys),
            }
        }
        if self.changes.len() > changes_before {
            self.revision = next;
        }
        if is_refused {
            return Err(Refusal::NoSpace);
        }
        Ok(Done { held, revision: self.revision, read })
    }

    fn delete(&mut self, range: &Range<Vec<u8>>, revision: Revision) {
        let gone: Vec<_> = self.keys.range(range.clone()).map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.keys.remove(&key);
            self.changes.push((revision, Change::Deleted(key)));
        }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let (Compare::Created(key, _) | Compare::Modified(key, _) | Compare::Exists(key)) = compare;
        if self.ignored_compares.as_ref().is_some_and(|prefix| key.starts_with(prefix)) {
            return true;
        }
        let found = self.keys.get(key);
        match compare {
            Compare::Created(_, revision) => found.map_or(Revision(0), |found| found.created) == *revision,
            Compare::Modified(_, revision) => found.map_or(Revision(0), |found| found.modified) == *revision,
            Compare::Exists(_) => found.is_some(),
        }
    }

    pub(super) fn get(&self, get: &Get) -> Found {
        let all = self.keys.range(get.keys.clone()).map(|(_, key)| key);
        let mut found: Vec<&KeyValue> = all.collect();
        if get.last_first {
            found.reverse();
        }
        let keys_max = if get.keys_max == 0 { usize::MAX } else { get.keys_max };
        let more = found.len() > keys_max;
        found.truncate(keys_max);
        let value = |key: &KeyValue| if get.keys_only { Vec::new() } else { key.value.clone() };
        let keys = found.into_iter().map(|key| KeyValue { value: value(key), ..key.clone() }).collect();
        Found { revision: self.revision, keys, more }
    }

    /// The changes of a range from a revision on; `None` if some of them were compacted.
    pub(super) fn changes_from(&self, range: &Range<Vec<u8>>, from: Revision) -> Option<Vec<Change>> {
        if from <= self.compacted {
            return None;
        }
        let key = |change: &Change| match change {
            Change::Put(key) => range.contains(&key.key),
            Change::Deleted(key) => range.contains(key),
        };
        let wanted = self.changes.iter().filter(|(revision, change)| *revision >= from && key(change));
        Some(wanted.map(|(_, change)| change.clone()).collect())
    }

    pub(super) fn compact(&mut self, revision: Revision) {
        self.compacted = self.compacted.max(revision.min(self.revision));
        let compacted = self.compacted;
        self.changes.retain(|(revision, _)| *revision > compacted);
    }

    pub(super) fn grant(&mut self) -> LeaseId {
        self.next_lease += 1;
        self.leases.insert(LeaseId(self.next_lease));
        LeaseId(self.next_lease)
    }

    pub(super) fn is_alive(&self, lease: LeaseId) -> bool {
        self.leases.contains(&lease)
    }

    /// Ends a lease and deletes its keys.
    pub(super) fn revoke(&mut self, lease: LeaseId) {
        if !self.leases.remove(&lease) {
            return;
        }
        let gone: Vec<_> =
            self.keys.values().filter(|key| key.lease == Some(lease)).map(|key| key.key.clone()).collect();
        if gone.is_empty() {
            return;
        }
        self.revision = Revision(self.revision.0 + 1);
        for key in gone {
            self.keys.remove(&key);
            self.changes.push((self.revision, Change::Deleted(key)));
        }
    }

    /// The bytes of keys and of changes that were not compacted: what a compaction makes smaller.
    fn bytes(&self) -> u64 {
        let kept = self.changes.iter().map(|(_, change)| match change {
            Change::Put(key) => key.key.len() + key.value.len(),
            Change::Deleted(key) => key.len(),
        });
        let kept: usize = kept.sum();
        let live = self.keys.values().filter(|key| key.modified <= self.compacted);
        let live: usize = live.map(|key| key.key.len() + key.value.len()).sum();
        (kept + live) as u64
    }

    pub(super) fn health(&self) -> Health {
        let bytes = self.bytes();
        Health {
            bytes,
            bytes_in_use: bytes,
            quota_bytes: self.quota_bytes,
            no_space: self.quota_bytes.is_some_and(|quota| bytes >= quota),
            members_up: (1, 1),
            version: "simulated".to_owned(),
        }
    }
}

fn size_of_operation(operation: &Operation) -> usize {
    match operation {
        Operation::Put { key, value, .. } => key.len() + value.len(),
        Operation::Delete(range) => range.start.len() + range.end.len(),
        Operation::Get(get) => get.keys.start.len() + get.keys.end.len(),
    }
}

//! Trimming logs, bounded by what nodes hold, and compaction of the service.
//!
//! A *base* is what a node has on its disk without the log: it covers the log up to a point. The
//! log is trimmed up to a point that enough nodes hold ([`Bases::held_by`]). The transaction that
//! trims compares the leader's key, and the records of the very bases that the point was taken
//! from: if one was withdrawn or replaced meanwhile, nothing is trimmed.
//!
//! The last entry always stays: it carries the chain value from which the next one goes on.
//!
//! Trimming deletes keys. Their bytes are free only after a compaction of the service, which is one
//! for the whole cluster. Each node counts what it has trimmed ([`Compactor`]), and claims the next
//! compaction when that is enough. The claim is a compare-and-put of one key, so one node wins. It
//! compacts up to the claim before, so that watches which are not older than the last claim go on
//! undisturbed.
//!
//! Invariants:
//! 1. No entry is deleted that is not below the point of a [`Held`].
//! 2. A log that has had an entry has one.

use crate::cluster::{Cluster, Error};
use crate::coordinator::{Compare, Get, Operation, Revision, Txn};
use crate::entry::{Point, decode};
use crate::keys::{TrimPoint, decode_base, encode_base, encode_trim, position_of};
use crate::leadership::Leadership;
use crate::membership::Membership;
use crate::names::{CommitId, Database, Node, NodeId};

/// What a node holds of a database without the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The node, and where others fetch the base.
    pub node: Node,
    /// The point up to which the base covers the log.
    pub covers: Point,
    /// The commit with which the part of the log before that point ends, if the node has told.
    pub commit: Option<CommitId>,
    modified: Revision,
}

/// All bases of a database, of one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bases {
    /// The bases, in the order of the nodes' names.
    pub bases: Vec<Base>,
}

/// A point up to which the log may be trimmed, with the bases that hold what is before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    point: Point,
    bases: Vec<(NodeId, Revision)>,
}

impl Held {
    /// A point that something else holds than the nodes' bases, such as an object store. The caller
    /// answers for it.
    #[must_use]
    pub fn elsewhere(point: Point) -> Self {
        Self { point, bases: Vec::new() }
    }

    /// The point.
    #[must_use]
    pub fn point(&self) -> Point {
        self.point
    }
}

impl Bases {
    /// The newest point that at least so many nodes hold, if as many have a base.
    #[must_use]
    pub fn held_by(&self, node_count: usize) -> Option<Held> {
        let mut newest_first: Vec<&Base> = self.bases.iter().collect();
        newest_first.sort_by_key(|base| std::cmp::Reverse(base.covers.next));
        let used = newest_first.get(..node_count)?;
        let bases = used.iter().map(|base| (base.node.id.clone(), base.modified)).collect();
        Some(Held { point: used.last()?.covers, bases })
    }
}

/// How trimming ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trimmed {
    /// Entries were deleted.
    Done {
        /// Their bytes. They are free after a compaction.
        bytes: u64,
    },
    /// There was nothing below the point.
    Nothing,
    /// The node does not lead any more. Nothing was deleted.
    Fenced,
    /// A base has changed, or somebody else has trimmed. Nothing was deleted: read the bases again.
    Changed,
}

impl Cluster {
    /// The bases of a database.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn bases(&self, db: &Database) -> Result<Bases, Error> {
        let found = self.get(Get::range(self.keys.bases(db))).await?;
        let bases = found.keys.iter().map(|key| {
            let (node, covers, commit) = decode_base(&key.value).ok_or_else(|| Error::damaged(&key.key, "no base"))?;
            Ok(Base { node, covers, commit, modified: key.modified })
        });
        Ok(Bases { bases: bases.collect::<Result<_, Error>>()? })
    }

    /// Forgets a node's base: the node has lost it, or has left the cluster for good. True if there
    /// was one.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn withdraw_base(&self, db: &Database, node: &NodeId) -> Result<bool, Error> {
        let key = self.keys.base(db, node);
        let found = self.get(Get::key(&key)).await?;
        let Some(base) = found.keys.first() else { return Ok(false) };
        let txn = Txn {
            compares: vec![Compare::Modified(key.clone(), base.modified)],
            then: vec![Operation::Delete(crate::coordinator::only(&key))],
            otherwise: Vec::new(),
        };
        Ok(self.coordinator.transact(txn).await?.held)
    }
}

impl Membership {
    /// Tells what this node's base of a database covers. False if somebody has changed the node's
    /// record meanwhile: nothing was told then.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn publish_base(&self, db: &Database, covers: Point) -> Result<bool, Error> {
        self.publish_base_of(db, covers, None).await
    }

    /// As [`Membership::publish_base`], with the commit with which the covered part of the log ends.
    pub(crate) async fn publish_base_of(
        &self,
        db: &Database,
        covers: Point,
        commit: Option<CommitId>,
    ) -> Result<bool, Error> {
        let key = self.cluster.keys.base(db, &self.node().id);
        let found = self.cluster.get(Get::key(&key)).await?;
        let known = found.keys.first().map_or_else(Revision::default, |key| key.modified);
        // The compare keeps a request that arrives late, or twice, from bringing an older base
        // back.
        let txn = Txn {
            compares: vec![Compare::Modified(key.clone(), known)],
            then: vec![Operation::Put { key, value: encode_base(self.node(), covers, commit), lease: None }],
            otherwise: Vec::new(),
        };
        Ok(self.cluster.coordinator.transact(txn).await?.held)
    }
}

impl Leadership {
    /// Deletes the entries below a point, but not the last entry of the log.
    ///
    /// # Errors
    /// [`Error`]; after an unknown outcome, trim again.
    pub async fn trim(&self, held: &Held) -> Result<Trimmed, Error> {
        let cluster = self.cluster();
        let (keys, db) = (&cluster.keys, &self.db);
        let last = Get::range(keys.entries(db)).last_first().at_most(1).keys_only();
        let done = cluster.read([last, Get::key(&keys.trim(db))]).await?;
        let trim = cluster.trim_in(&done.read[1])?;
        let trim_modified = done.read[1].first().map_or_else(Revision::default, |key| key.modified);
        let Some(last) = done.read[0].first().and_then(|key| position_of(&key.key)) else {
            return Ok(Trimmed::Nothing);
        };
        let first = held.point.next.min(last);
        if first <= trim.first {
            return Ok(Trimmed::Nothing);
        }
        let found = cluster.get(Get { keys: keys.only_entry(db, first), ..Get::key(&[]) }).await?;
        // Another leader has trimmed it between the two reads.
        let Some(entry) = found.keys.first() else { return Ok(Trimmed::Changed) };
        let bytes_total = decode(first, &entry.value).map_err(|reason| Error::damaged(&entry.key, reason))?.bytes_total;
        let bytes_before = bytes_total - entry.value.len() as u64;
        let mut compares =
            vec![self.fence(), Compare::Exists(keys.entry(db, first)), Compare::Modified(keys.trim(db), trim_modified)];
        compares.extend(held.bases.iter().map(|(node, revision)| Compare::Modified(keys.base(db, node), *revision)));
        let trimmed = TrimPoint { first, bytes_before };
        let txn = Txn {
            compares,
            then: vec![
                Operation::Delete(keys.entries_below(db, first)),
                Operation::Put { key: keys.trim(db), value: encode_trim(trimmed), lease: None },
            ],
            otherwise: vec![Operation::Get(Get::key(&self.key()))],
        };
        let done = cluster.coordinator.transact(txn).await?;
        if done.held {
            return Ok(Trimmed::Done { bytes: bytes_before - trim.bytes_before });
        }
        let leader = cluster.leader_in(&done.read[0])?;
        let leads = leader.is_some_and(|leader| leader.epoch == self.epoch);
        Ok(if leads { Trimmed::Changed } else { Trimmed::Fenced })
    }
}

/// What a call of [`Compactor::run`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compaction {
    /// The service has forgotten the states before this revision.
    Done(Revision),
    /// This was the first claim of the cluster: the next one compacts up to it.
    Claimed,
    /// Another node has claimed the compaction since this one last looked.
    ByAnother,
}

/// A node's part in the compactions of its cluster. Nothing happens unless something was trimmed.
pub struct Compactor {
    cluster: Cluster,
    every_bytes: u64,
    trimmed_bytes: u64,
    claimed: Option<Revision>,
}

impl Compactor {
    /// Is due whenever this node has trimmed so many bytes. A few times 16 MiB keep the number of
    /// compactions low and the service small.
    #[must_use]
    pub fn new(cluster: &Cluster, every_bytes: u64) -> Self {
        Self { cluster: cluster.clone(), every_bytes, trimmed_bytes: 0, claimed: None }
    }

    /// Counts what was trimmed. Gives whether a compaction is due.
    pub fn note(&mut self, trimmed: Trimmed) -> bool {
        if let Trimmed::Done { bytes } = trimmed {
            self.trimmed_bytes += bytes;
        }
        self.trimmed_bytes >= self.every_bytes
    }

    /// Claims the next compaction, and does it if this node wins.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn run(&mut self) -> Result<Compaction, Error> {
        let key = self.cluster.keys.compaction();
        let found = self.cluster.get(Get::key(&key)).await?;
        let before = found.keys.first().map_or_else(Revision::default, |key| key.modified);
        if self.claimed.is_some_and(|known| known != before) {
            (self.claimed, self.trimmed_bytes) = (Some(before), 0);
            return Ok(Compaction::ByAnother);
        }
        let txn = Txn {
            compares: vec![Compare::Modified(key.clone(), before)],
            then: vec![Operation::Put { key: key.clone(), value: Vec::new(), lease: None }],
            otherwise: vec![Operation::Get(Get::key(&key))],
        };
        let done = self.cluster.coordinator.transact(txn).await?;
        self.trimmed_bytes = 0;
        if !done.held {
            self.claimed = done.read[0].first().map(|key| key.modified);
            return Ok(Compaction::ByAnother);
        }
        self.claimed = Some(done.revision);
        if before == Revision::default() {
            return Ok(Compaction::Claimed);
        }
        self.cluster.coordinator.compact(before).await?;
        Ok(Compaction::Done(before))
    }
}

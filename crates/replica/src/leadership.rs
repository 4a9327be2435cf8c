//! Who leads a database: campaigns, epochs, planned hand-overs.
//!
//! A leader is the node whose lease the key `leader/<db>` is under. The transaction that created
//! the key is the *epoch* of the leadership. The key is created only where there is none, so epochs
//! ascend, and of each epoch there is one leader at most.
//!
//! A planned hand-over deletes the leader's key and reserves the leadership for a successor in one
//! transaction. The reservation is under the successor's lease, so it ends with the successor.
//! Other nodes heed it unless they are told to ignore it.
//!
//! Invariants:
//! 1. Nothing is appended under an epoch once its leader's key is gone.
//! 2. A node that campaigns and leads already gets its leadership again, with the same epoch,
//!    unless it has begun to resign that one: the resignation may still arrive, so it is repeated
//!    first.
//! 3. While [`Leadership::certain_for`] is not zero, nobody else is elected.

use std::time::Duration;

use crate::cluster::{Cluster, Error, Leader};
use crate::coordinator::{Compare, Failure, Get, Operation, Revision, Txn, only};
use crate::entry::Epoch;
use crate::keys::{decode_successor, encode_node, encode_successor};
use crate::membership::Membership;
use crate::names::{Database, NodeId};

/// What to do about a leadership that is reserved for another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reservation {
    /// Do not take it.
    Heed,
    /// Take it: the successor is late.
    Ignore,
}

/// How a campaign ended.
pub enum Campaign {
    /// This node leads.
    Elected(Leadership),
    /// Another node leads.
    Led(Leader),
    /// Nobody leads; the leadership is reserved for this node.
    Reserved(NodeId),
}

/// How a resignation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resigned {
    /// The leadership is over.
    Done,
    /// It was over before.
    WasOver,
    /// The successor is no member of the cluster. The leadership goes on.
    NoSuchMember,
}

/// The leadership of a database, under one epoch. It may be over without this value knowing it:
/// what it appends is fenced then.
#[derive(Clone)]
pub struct Leadership {
    pub(crate) membership: Membership,
    pub(crate) db: Database,
    pub(crate) epoch: Epoch,
}

impl Membership {
    /// Tries once to lead a database. To learn when it is worth trying again, observe the leaders
    /// ([`Cluster::observe_leaders`]).
    ///
    /// # Errors
    /// [`Error`]. After an unknown outcome campaign again: if the first campaign succeeded, this
    /// gives its leadership.
    pub async fn campaign(&self, db: &Database, reservation: Reservation) -> Result<Campaign, Error> {
        let (leader_key, successor_key) = (self.cluster.keys.leader(db), self.cluster.keys.successor(db));
        // A reservation that this node may use: the next try uses it.
        let mut reserved = None;
        for _ in 0..4 {
            let mut then = vec![Operation::Put {
                key: leader_key.clone(),
                value: encode_node(self.node()),
                lease: Some(self.lease()),
            }];
            then.extend(reserved.map(|_| Operation::Delete(only(&successor_key))));
            let txn = Txn {
                compares: vec![
                    Compare::Created(leader_key.clone(), Revision::default()),
                    Compare::Modified(successor_key.clone(), reserved.unwrap_or_default()),
                ],
                then,
                otherwise: vec![Operation::Get(Get::key(&leader_key)), Operation::Get(Get::key(&successor_key))],
            };
            let done = self.cluster.coordinator.transact(txn).await?;
            if done.held {
                return Ok(Campaign::Elected(self.leadership(db, Epoch(done.revision.0))));
            }
            if let Some(leader) = self.cluster.leader_in(&done.read[0])? {
                if leader.lease != self.lease() || leader.node.id != self.node().id {
                    return Ok(Campaign::Led(leader));
                }
                let leadership = self.leadership(db, leader.epoch);
                if !self.is_resigning(leader.epoch) {
                    return Ok(Campaign::Elected(leadership));
                }
                // Reserved for itself: a node that opens a database again goes on leading it.
                leadership.resign(Some(&self.node().id)).await?;
                continue;
            }
            let Some(found) = done.read[1].first() else { continue };
            let successor =
                decode_successor(&found.value).ok_or_else(|| Error::damaged(&successor_key, "no successor"))?;
            if successor != self.node().id && reservation == Reservation::Heed {
                return Ok(Campaign::Reserved(successor));
            }
            reserved = Some(found.modified);
        }
        Err(Failure::NotSent("the leadership changed hands during the campaign".to_owned()).into())
    }

    fn leadership(&self, db: &Database, epoch: Epoch) -> Leadership {
        Leadership { membership: self.clone(), db: db.clone(), epoch }
    }
}

impl Leadership {
    /// The term.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// The node that leads, with its lease.
    #[must_use]
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.membership.cluster
    }

    pub(crate) fn key(&self) -> Vec<u8> {
        self.cluster().keys.leader(&self.db)
    }

    /// The compare that fences.
    pub(crate) fn fence(&self) -> Compare {
        Compare::Created(self.key(), Revision(self.epoch.0))
    }

    /// Asks the service whether this node leads. Costs a round trip; [`Leadership::certain_for`]
    /// does not, and is enough where its margin is trusted.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn confirm(&self) -> Result<bool, Error> {
        let leader = self.cluster().leader(&self.db).await?;
        Ok(leader.is_some_and(|leader| leader.epoch == self.epoch))
    }

    /// How much longer the node certainly leads: [`Membership::lease_left`], or zero once it has
    /// begun to resign.
    #[must_use]
    pub fn certain_for(&self) -> Duration {
        if self.membership.is_resigning(self.epoch) { Duration::ZERO } else { self.membership.lease_left() }
    }

    /// Gives the leadership up, for a successor or for whoever comes first. Appends under way are
    /// fenced from then on, so a planned hand-over waits for them before.
    ///
    /// # Errors
    /// [`Error`]; after an unknown outcome, resign again.
    pub async fn resign(&self, successor: Option<&NodeId>) -> Result<Resigned, Error> {
        let mut then = vec![Operation::Delete(only(&self.key()))];
        if let Some(successor) = successor {
            let found = self.cluster().get(Get::key(&self.cluster().keys.member(successor))).await?;
            let Some(member) = found.keys.first() else { return Ok(Resigned::NoSuchMember) };
            then.push(Operation::Put {
                key: self.cluster().keys.successor(&self.db),
                value: encode_successor(successor),
                lease: member.lease,
            });
        }
        let txn = Txn { compares: vec![self.fence()], then, otherwise: Vec::new() };
        self.membership.note_resigning(self.epoch);
        match self.cluster().coordinator.transact(txn).await {
            Ok(done) => Ok(if done.held { Resigned::Done } else { Resigned::WasOver }),
            Err(Failure::Refused(crate::coordinator::Refusal::NoLease)) => Ok(Resigned::NoSuchMember),
            Err(failure) => Err(failure.into()),
        }
    }
}

//! A node's membership: one lease for the node and everything that it leads.
//!
//! # When the lease is certainly valid
//! The service counts a lease's time from when it handles a keepalive, which is after the keepalive
//! was sent. So the node counts from the sending of the last keepalive that was answered, on a
//! clock that only goes forward and goes on while the machine is suspended, and takes off a margin
//! of a tenth for clocks that run at different speeds. Setting the wall clock changes nothing.
//!
//! The lease alone makes nothing safe: appends are fenced by compares. It is for reads: a leader
//! that has taken its snapshot and then finds its lease valid has read the newest state.
//!
//! Invariants:
//! 1. A moment that [`Membership::lease_left`] calls valid is before the lease's end at the
//!    service.
//! 2. Nothing but [`Membership::keep_alive`] wakes up while nothing happens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cluster::{Cluster, Error};
use crate::coordinator::{Compare, Failure, Get, LeaseId, Moment, Operation, Refusal, Txn};
use crate::entry::Epoch;
use crate::keys::{decode_instance, decode_node, encode_member};
use crate::names::{Instance, Node};

/// The part of a lease that is not counted on, for clocks of different speeds: one in ten.
const MARGIN_PART: u32 = 10;
/// A lease is prolonged so many times in its life.
const KEEPALIVES_PER_TTL: u32 = 3;
/// The pause after a keepalive that was not answered: this part of the lease's life.
const RETRY_PART: u32 = 20;

/// Whose lease a node ends that joins under a name which is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// Nobody's.
    Nobody,
    /// Its own: that of the same start of the server.
    Itself,
    /// Also that of an earlier start, with the same directory and the same address. For a node that
    /// comes back after a crash, and has made sure that nobody else has its directory.
    EarlierStart,
}

/// How a node joins.
#[derive(Debug, Clone, Copy)]
pub struct JoinOptions {
    /// How long the lease lives without a keepalive. The service may make it longer.
    pub lease_ttl: Duration,
    /// Who joins.
    pub instance: Instance,
    /// Whose lease is ended first.
    pub replace: Replace,
}

impl Default for JoinOptions {
    fn default() -> Self {
        Self { lease_ttl: Duration::from_secs(5), instance: Instance::default(), replace: Replace::Nobody }
    }
}

impl JoinOptions {
    /// Whether the holder of the name is ended first.
    fn replaces(&self, node: &Node, value: &[u8]) -> bool {
        let (Some(holder), Some(instance)) = (decode_node(value), decode_instance(value)) else { return false };
        match self.replace {
            Replace::Nobody => false,
            Replace::Itself => instance == self.instance,
            Replace::EarlierStart => instance.dir == self.instance.dir && holder.address == node.address,
        }
    }
}

/// Why a node cannot join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// A node of this name is there. If it is this one before a crash, its lease ends soon.
    #[error("a node {} is in the cluster already, at {}", holder.id, holder.address)]
    NameTaken {
        /// The node that has the name.
        holder: Node,
    },
    /// Anything else.
    #[error(transparent)]
    Other(#[from] Error),
}

impl From<Failure> for JoinError {
    fn from(failure: Failure) -> Self {
        Self::Other(failure.into())
    }
}

/// A node in its cluster. Copies are the same membership.
#[derive(Clone)]
pub struct Membership {
    pub(crate) cluster: Cluster,
    shared: Arc<Shared>,
}

struct Shared {
    node: Node,
    instance: Instance,
    lease: LeaseId,
    state: Mutex<Lease>,
    /// Epochs that this node has begun to resign. A request that does so may arrive late.
    resigning: Mutex<BTreeSet<Epoch>>,
}

struct Lease {
    ttl: Duration,
    valid_until: Moment,
    is_lost: bool,
    /// Why the last keepalive was not answered, if it was not.
    trouble: Option<String>,
}

/// Whether a node reaches the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// How much longer the lease is certainly valid; zero if it may have expired.
    pub lease_left: Duration,
    /// For how long it has not been certainly valid.
    pub uncertain_for: Duration,
    /// Why the last keepalive was not answered, if it was not.
    pub trouble: Option<String>,
}

/// The lease has expired or was ended: the node leads nothing any more. It may join again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseLost;

impl Cluster {
    /// Joins with a lease and an address. The caller has to run [`Membership::keep_alive`].
    ///
    /// # Errors
    /// [`JoinError`]. After an unknown outcome the node joins again with `replace`, or waits for
    /// the lease to end.
    pub async fn join(&self, node: Node, options: JoinOptions) -> Result<Membership, JoinError> {
        let key = self.keys.member(&node.id);
        if options.replace != Replace::Nobody {
            let found = self.get(Get::key(&key)).await?;
            let holder = found.keys.first().filter(|key| options.replaces(&node, &key.value));
            if let Some(lease) = holder.and_then(|key| key.lease) {
                self.coordinator.revoke(lease).await?;
            }
        }
        let sent = self.coordinator.now();
        let (lease, ttl) = self.coordinator.grant(options.lease_ttl).await?;
        let txn = Txn {
            compares: vec![Compare::Created(key.clone(), Default::default())],
            then: vec![Operation::Put {
                key: key.clone(),
                value: encode_member(&node, options.instance, false),
                lease: Some(lease),
            }],
            otherwise: vec![Operation::Get(Get::key(&key))],
        };
        let done = self.coordinator.transact(txn).await?;
        let holder = done.read.first().and_then(|keys| keys.first());
        if let Some(holder) = holder.filter(|key| !done.held && key.lease != Some(lease)) {
            _ = self.coordinator.revoke(lease).await;
            let holder = decode_node(&holder.value).ok_or_else(|| Error::damaged(&key, "no member"))?;
            return Err(JoinError::NameTaken { holder });
        }
        let state = Mutex::new(Lease { ttl, valid_until: sent.after(certain(ttl)), is_lost: false, trouble: None });
        let instance = options.instance;
        Ok(Membership {
            cluster: self.clone(),
            shared: Arc::new(Shared { node, instance, lease, state, resigning: Mutex::default() }),
        })
    }
}

impl Membership {
    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// This node.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.shared.node
    }

    /// The node's one lease.
    #[must_use]
    pub fn lease(&self) -> LeaseId {
        self.shared.lease
    }

    /// How much longer the lease is certainly valid; zero if it may have expired. Asks nobody: this
    /// is a look at a clock.
    #[must_use]
    pub fn lease_left(&self) -> Duration {
        let state = self.shared.state.lock();
        if state.is_lost { Duration::ZERO } else { state.valid_until.since(self.cluster.coordinator.now()) }
    }

    /// Whether the node reaches the service, as far as keepalives have told. Asks nobody.
    #[must_use]
    pub fn contact(&self) -> Contact {
        let state = self.shared.state.lock();
        let now = self.cluster.coordinator.now();
        Contact {
            lease_left: if state.is_lost { Duration::ZERO } else { state.valid_until.since(now) },
            uncertain_for: now.since(state.valid_until),
            trouble: state.trouble.clone(),
        }
    }

    /// Whether the lease is known to have ended.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.shared.state.lock().is_lost
    }

    pub(crate) fn note_resigning(&self, epoch: Epoch) {
        self.shared.resigning.lock().insert(epoch);
    }

    pub(crate) fn is_resigning(&self, epoch: Epoch) -> bool {
        self.shared.resigning.lock().contains(&epoch)
    }

    /// Keeps the lease alive until it has ended. The server runs this as a task of its own. It is
    /// the only thing here that wakes up while nothing happens: three times in a lease's life.
    pub async fn keep_alive(&self) -> LeaseLost {
        self.keep_alive_and_tell(&mut |_| ()).await
    }

    /// As [`Membership::keep_alive`]; tells when the lease is not certainly valid any more since
    /// the service does not answer (false), and when it has answered again (true).
    pub async fn keep_alive_and_tell(&self, tell: &mut (dyn FnMut(bool) + Send)) -> LeaseLost {
        let mut is_silent = false;
        let coordinator = &self.cluster.coordinator;
        let ttl = self.shared.state.lock().ttl;
        let mut pause = ttl / KEEPALIVES_PER_TTL;
        loop {
            coordinator.sleep(pause).await;
            let sent = coordinator.now();
            pause = ttl / RETRY_PART;
            match coordinator.keep_alive(self.shared.lease).await {
                Ok(Some(left)) => {
                    let mut state = self.shared.state.lock();
                    state.valid_until = state.valid_until.max(sent.after(certain(left)));
                    state.trouble = None;
                    drop(state);
                    if std::mem::take(&mut is_silent) {
                        tell(true);
                    }
                    pause = left.min(ttl) / KEEPALIVES_PER_TTL;
                }
                Ok(None) | Err(Failure::Refused(Refusal::NoLease)) => {
                    self.shared.state.lock().is_lost = true;
                    return LeaseLost;
                }
                Err(failure) => {
                    self.shared.state.lock().trouble = Some(failure.to_string());
                    if !is_silent && self.lease_left().is_zero() {
                        is_silent = true;
                        tell(false);
                    }
                }
            }
            if self.is_lost() {
                return LeaseLost;
            }
        }
    }

    /// Tells the others that the node is about to leave: they are to give it nothing more to lead.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn say_leaving(&self) -> Result<(), Failure> {
        let key = self.cluster.keys.member(&self.shared.node.id);
        let put = Operation::Put {
            key: key.clone(),
            value: encode_member(&self.shared.node, self.shared.instance, true),
            lease: Some(self.shared.lease),
        };
        let txn = Txn { compares: vec![Compare::Exists(key)], then: vec![put], otherwise: Vec::new() };
        self.cluster.coordinator.transact(txn).await.map(drop)
    }

    /// Leaves the cluster: ends the lease, and with it all that the node leads. A planned end gives
    /// its leaderships away first ([`crate::Leadership::resign`]).
    ///
    /// # Errors
    /// [`Failure`]: then the lease ends by itself.
    pub async fn leave(&self) -> Result<(), Failure> {
        self.shared.state.lock().is_lost = true;
        self.cluster.coordinator.revoke(self.shared.lease).await
    }
}

/// The part of a lease's life that is counted on.
fn certain(ttl: Duration) -> Duration {
    ttl - ttl / MARGIN_PART
}

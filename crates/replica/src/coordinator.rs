//! The coordination service below the log: a small ordered key-value store on which several
//! machines agree, with transactions, leases and watches, as etcd has them.
//!
//! This is the seam between what a consensus engine does and what Colibri does. There are two
//! implementations: [`crate::etcd`], and [`crate::simulation`] in memory. Everything above it
//! (leadership, the log, trimming) is written once and runs the same on both.
//!
//! # What an implementation promises
//! 1. Transactions and reads are strictly serializable: a read sees every write that was answered
//!    before the read was sent. An implementation on etcd never uses serializable reads.
//! 2. Each transaction that writes has a revision of its own. Revisions ascend.
//! 3. [`Failure::NotSent`] and [`Failure::Refused`] mean that nothing was done and that nothing
//!    will be done, but for [`Refusal::NoSpace`]: the request that reaches the quota is carried out
//!    and refused all the same. [`Failure::Unknown`] means that the request was carried out, or will be, or
//!    never will. Every call ends with an answer or a failure within the request timeout.
//! 4. The service may carry out a request twice, the second time after the answer. So every
//!    transaction of this crate changes nothing when it is repeated.
//! 5. A lease lives at least as long as was granted, counted from when the grant or the last
//!    keepalive was sent. With it go the keys that were put under it.
//! 6. A watch gives the changes from its first revision on in order and without a gap, until
//!    [`WatchEvent::Cut`] or [`WatchEvent::Compacted`], which is its last event. A change may come
//!    twice.
//! 7. A call is a future that needs no particular runtime. Dropping it does not take the request
//!    back. A service without calls, leases and changes wakes nobody.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A call's answer to come. It needs no particular runtime.
pub type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The number of a state of the whole service. Zero stands for "never".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

/// A lease, as the service names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

/// A point of a clock that only goes forward, also while the machine is suspended. It counts from
/// some moment of the machine's past, so it means nothing on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub Duration);

impl Moment {
    /// The moment that is so much later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }

    /// How long after another one it is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Vec<u8>,
    /// The value; empty if only keys were asked for.
    pub value: Vec<u8>,
    /// The transaction that created the key. A key that was deleted and put again has another one.
    pub created: Revision,
    /// The last transaction that put the key.
    pub modified: Revision,
    /// The lease with which the key goes.
    pub lease: Option<LeaseId>,
}

/// A condition of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compare {
    /// The key was created by this transaction; with revision zero: there is no such key.
    Created(Vec<u8>, Revision),
    /// The key was last put by this transaction; with revision zero: there is no such key.
    Modified(Vec<u8>, Revision),
    /// There is such a key.
    Exists(Vec<u8>),
}

/// A step of a transaction. A transaction writes to a key once at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Puts a key.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// The lease with which it goes.
        lease: Option<LeaseId>,
    },
    /// Deletes the keys of a range.
    Delete(Range<Vec<u8>>),
    /// Reads.
    Get(Get),
}

/// A read of a range of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Get {
    /// The first key, and the end, which is not part of the range.
    pub keys: Range<Vec<u8>>,
    /// At most this many keys; zero stands for all.
    pub keys_max: usize,
    /// From the last key of the range downwards.
    pub last_first: bool,
    /// Leaves the values out.
    pub keys_only: bool,
}

impl Get {
    /// All of a range.
    #[must_use]
    pub fn range(keys: Range<Vec<u8>>) -> Self {
        Self { keys, keys_max: 0, last_first: false, keys_only: false }
    }

    /// One key.
    #[must_use]
    pub fn key(key: &[u8]) -> Self {
        Self::range(only(key))
    }

    /// The largest number of keys to give.
    #[must_use]
    pub fn at_most(self, keys_max: usize) -> Self {
        Self { keys_max, ..self }
    }

    /// From the last key on downwards.
    #[must_use]
    pub fn last_first(self) -> Self {
        Self { last_first: true, ..self }
    }

    /// Without the values.
    #[must_use]
    pub fn keys_only(self) -> Self {
        Self { keys_only: true, ..self }
    }
}

/// The range that holds one key.
#[must_use]
pub fn only(key: &[u8]) -> Range<Vec<u8>> {
    let mut end = key.to_vec();
    end.push(0);
    key.to_vec()..end
}

/// The range of all keys that begin with a prefix, which ends with a byte below 255.
#[must_use]
pub fn beginning_with(prefix: &[u8]) -> Range<Vec<u8>> {
    let mut end = prefix.to_vec();
    let last = end.last_mut().expect("a prefix of this crate ends with a slash");
    *last += 1;
    prefix.to_vec()..end
}

/// A transaction: compares, and what is done if all of them hold, or if one does not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Txn {
    /// The conditions.
    pub compares: Vec<Compare>,
    /// The steps if all conditions hold.
    pub then: Vec<Operation>,
    /// The steps if one does not.
    pub otherwise: Vec<Operation>,
}

/// What a transaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Whether all conditions held.
    pub held: bool,
    /// The state that the transaction made, or saw if it wrote nothing.
    pub revision: Revision,
    /// What each [`Operation::Get`] of the steps that were carried out has read, in their order.
    pub read: Vec<Vec<KeyValue>>,
}

/// What a read found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The state that was read. A watch from the next one on misses nothing.
    pub revision: Revision,
    /// The keys, in the order that was asked for.
    pub keys: Vec<KeyValue>,
    /// There are more keys in the range than were asked for.
    pub more: bool,
}

/// A change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It was put.
    Put(KeyValue),
    /// It was deleted, or its lease has expired.
    Deleted(Vec<u8>),
}

/// What a watch gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// Changes in their order. They do not end in the middle of a transaction, unless the
    /// transaction changed more than one answer of the service holds.
    Changes(Vec<Change>),
    /// The connection is gone. The watch has to be made again after reading what there is.
    Cut,
    /// The service has forgotten changes that the watch has not given.
    Compacted,
}

/// Changes of a range of keys, as they come. Dropping it ends the watch.
pub trait Watch: Send {
    /// The next event. After [`WatchEvent::Cut`] or [`WatchEvent::Compacted`] there is none.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<WatchEvent>;
}

/// Why a call did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nothing was done, and nothing will be. Trying again is safe.
    #[error("the coordination service cannot be reached: {0}")]
    NotSent(String),
    /// The connection was lost: the request may have been carried out, or may still be.
    #[error("the coordination service did not answer, so the outcome is unknown: {0}")]
    Unknown(String),
    /// The service has refused.
    #[error("the coordination service refused: {0}")]
    Refused(Refusal),
}

/// Why the service refused. Nothing was done, unless there was no space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The service's quota is used up (etcd: `NOSPACE`). The request that reaches the quota may have
    /// been carried out: etcd looks at its size first, and tells of it last. An operator has to compact, defragment and
    /// disarm the alarm.
    NoSpace,
    /// The request has more bytes or operations than the service takes.
    TooLarge,
    /// User, password or certificate are wrong, or the user may not do this.
    NotAllowed(String),
    /// The lease does not exist any more.
    NoLease,
    /// Anything else, in the service's words.
    Other(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace => f.write_str("its quota is used up: compact and defragment it, then disarm the alarm"),
            Self::TooLarge => f.write_str("the request is larger than it takes"),
            Self::NotAllowed(why) => write!(f, "not allowed: {why}"),
            Self::NoLease => f.write_str("the lease has expired"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

/// The state of the service itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// The size of its database in bytes. It counts against the quota, and only defragmentation
    /// makes it smaller.
    pub bytes: u64,
    /// What of it is in use, in bytes. Compaction makes this smaller.
    pub bytes_in_use: u64,
    /// The quota in bytes, if the service tells it.
    pub quota_bytes: Option<u64>,
    /// The service refuses writes because the quota was used up.
    pub no_space: bool,
    /// Members of the service that answer, and all of its members.
    pub members_up: (usize, usize),
    /// The version of the service, in its own words.
    pub version: String,
}

/// A connection to the service. All calls may be made from any thread, and none blocks.
pub trait Coordinator: Send + Sync + 'static {
    /// Carries out a transaction.
    fn transact(&self, txn: Txn) -> Answer<Result<Done, Failure>>;

    /// Reads the newest state.
    fn get(&self, get: Get) -> Answer<Result<Found, Failure>>;

    /// Watches a range from a revision on.
    fn watch(&self, keys: Range<Vec<u8>>, from: Revision) -> Box<dyn Watch>;

    /// Makes a lease; gives how long it was granted for. That may be longer than what was asked
    /// for.
    fn grant(&self, ttl: Duration) -> Answer<Result<(LeaseId, Duration), Failure>>;

    /// Prolongs a lease; gives how long it lives on, or `None` if it does not exist any more.
    fn keep_alive(&self, lease: LeaseId) -> Answer<Result<Option<Duration>, Failure>>;

    /// Ends a lease with all keys under it. A lease that does not exist any more is no failure.
    fn revoke(&self, lease: LeaseId) -> Answer<Result<(), Failure>>;

    /// Forgets the states before a revision. One that is forgotten already is no failure.
    fn compact(&self, revision: Revision) -> Answer<Result<(), Failure>>;

    /// The state of the service.
    fn health(&self) -> Answer<Result<Health, Failure>>;

    /// The bytes of a value that fit into a transaction with a few compares.
    fn value_bytes_max(&self) -> usize;

    /// The time. [`Moment`] says which.
    fn now(&self) -> Moment;

    /// The wall's clock, since 1970: for what people are told, and for nothing else.
    fn wall_clock(&self) -> Duration {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
    }

    /// Is ready after a time.
    fn sleep(&self, duration: Duration) -> Answer<()>;

    /// Runs work where answers come in, so that no other thread has to be woken up between an answer
    /// and what follows from it. The work must not block, since other answers wait meanwhile. Once
    /// the future is dropped nothing of the work runs any more. It is ready when the work has ended,
    /// or when nobody is left to run it.
    fn beside_answers(&self, work: Answer<()>) -> Answer<()> {
        work
    }
}

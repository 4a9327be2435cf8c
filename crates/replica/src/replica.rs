//! A replicated database as sessions see it: reading, beginning and committing transactions, and
//! what the node is of it.
//!
//! # A commit
//! ```text
//! Replica::write ─► WriteTxn ─► Replica::commit ─► Commit (a future)
//!                                  └ propose ─► queue ─► append ─► agree ┄► it resolves
//! ```
//! # What a read has seen
//! - [`Replica::read`], on any node: a state that was agreed on. Nothing of it can be lost.
//! - [`Replica::read_current`], on the leader: also everything that was acknowledged before. The
//!   snapshot is taken first, then the lease is looked at.
//!
//! Invariants:
//! 1. A commit is acknowledged, and is seen by a snapshot, after it is in the log and no earlier.
//! 2. [`CommitError::NotCommitted`] is given only for a commit that is not in the log and never
//!    will be.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use colibri_storage::{Admission, Database as Engine, Fate, Proposer as _, Snapshot, Ticket, TxnId, WriteTxn};
use parking_lot::Mutex;

use crate::cluster::{Cluster, Error};
use crate::entry::{Epoch, Point};
use crate::lag::Lag;
use crate::leadership::Leadership;
use crate::marks::{Mark, Marks};
use crate::names::{Database, NodeId};
use crate::proposals::{HandOver, HandedOver, Proposals};

/// Bounds and pauses of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaOptions {
    /// New transactions wait while more bytes of records than this wait for the log. One record
    /// comes on top. 8 MiB by default.
    pub queue_bytes_max: usize,
    /// A standby makes at most so many bytes of records visible together. 4 MiB by default.
    pub apply_bytes_max: usize,
    /// How long after a commit the node first looks for a steady point that it can publish as its
    /// base, and how long it waits to look again. While all is published nothing wakes up. Five
    /// seconds by default.
    pub upkeep_pause: Duration,
    /// For tests: commits are agreed on before they are in the log.
    #[cfg(test)]
    pub(crate) is_hasty: bool,
}

impl Default for ReplicaOptions {
    fn default() -> Self {
        Self {
            queue_bytes_max: 8 << 20,
            apply_bytes_max: 4 << 20,
            upkeep_pause: Duration::from_secs(5),
            #[cfg(test)]
            is_hasty: false,
        }
    }
}

/// What a node is of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It applies what another node commits, or waits for somebody to lead.
    Standby,
    /// It commits.
    Leader(Epoch),
    /// It has given up what was not agreed on, and opens the database again. That waits until all
    /// snapshots and transactions of the opening before have ended.
    Reopening,
}

/// Where a replica stands, without asking anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// What the node is.
    pub role: Role,
    /// The last transaction that reads see.
    pub txn: TxnId,
    /// The point of the log behind that transaction's group, once it is known.
    pub point: Option<Point>,
    /// Commits that are not agreed on.
    pub commits_under_way: usize,
    /// Bytes of their records.
    pub bytes_under_way: usize,
}

/// Why a transaction cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// This node does not lead the database, or is handing the leadership over. The leader takes
    /// the transaction.
    #[error("this node does not lead the database: its leader takes the transaction")]
    NotLeading,
    /// The engine refuses.
    #[error(transparent)]
    Engine(#[from] colibri_storage::Error),
}

/// Why a commit was not acknowledged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// It is not in the log, and never will be: the node has lost the leadership. Try again at the
    /// leader.
    #[error("the transaction was not committed: this node does not lead the database any more")]
    NotCommitted,
    /// It is in the log, or may still come into it, or never will: the node has lost the leadership
    /// or its disk before it could learn of that. Look for its effects at the leader.
    #[error("whether the transaction was committed is not known: this node does not lead the database any more")]
    Unknown,
    /// The engine has refused it. It was not committed.
    #[error(transparent)]
    Engine(#[from] colibri_storage::Error),
}

/// Why a read was not given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The database is being opened again: try again soon.
    #[error("the database is being opened again: try again")]
    Reopening,
    /// This node does not certainly lead: there may be newer commits elsewhere.
    #[error("this node does not certainly lead the database: there may be newer commits elsewhere")]
    NotCertain,
    /// The engine refuses.
    #[error(transparent)]
    Engine(#[from] colibri_storage::Error),
}

/// Why the leadership was not handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandOverError {
    /// This node does not lead, or has lost the leadership meanwhile.
    #[error("this node does not lead the database")]
    NotLeading,
    /// The successor is no member of the cluster. The leadership goes on.
    #[error("the successor is no member of the cluster")]
    NoSuchMember,
}

/// A replicated database on one node. Copies are the same one.
#[derive(Clone)]
pub struct Replica(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) cluster: Cluster,
    pub(crate) name: Database,
    pub(crate) options: ReplicaOptions,
    pub(crate) state: Mutex<State>,
    pub(crate) marks: Mutex<Marks>,
    pub(crate) trimmed_bytes: AtomicU64,
}

pub(crate) struct State {
    /// `None` while it is being opened again.
    pub(crate) engine: Option<Engine>,
    /// Of this opening.
    pub(crate) proposals: Proposals,
    /// What the engine has applied of the log, once it is known.
    pub(crate) point: Option<Point>,
    /// The term in which it commits.
    pub(crate) leading: Option<Leadership>,
}

impl Replica {
    /// The database has what is in the log up to this mark.
    pub(crate) fn note_applied(&self, mark: Mark) {
        self.0.state.lock().point = Some(mark.point);
        self.0.marks.lock().push(mark);
    }

    /// The name of the database.
    #[must_use]
    pub fn name(&self) -> &Database {
        &self.0.name
    }

    /// Where it stands. Asks nobody.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let state = self.0.state.lock();
        let role = match (&state.engine, &state.leading) {
            (None, _) => Role::Reopening,
            (Some(_), Some(leadership)) => Role::Leader(leadership.epoch()),
            (Some(_), None) => Role::Standby,
        };
        let (commits_under_way, bytes_under_way) = state.proposals.under_way();
        let txn = state.engine.as_ref().map_or(TxnId(0), Engine::readable_txn);
        Standing { role, txn, point: state.point, commits_under_way, bytes_under_way }
    }

    /// How far it is behind the log's end. Asks the service, unless it leads: a leader has applied
    /// whatever is in the log. `None` if the replica does not know yet where it stands.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn lag(&self) -> Result<Option<Lag>, Error> {
        let standing = self.standing();
        match (standing.point, standing.role) {
            (None, _) => Ok(None),
            (Some(point), Role::Leader(_)) => Ok(Some(Lag::none(point.next))),
            (Some(point), _) => self.0.cluster.lag(&self.0.name, point.next).await.map(Some),
        }
    }

    /// The engine as it is open now, for reading, statistics and backups. Transactions begin with
    /// [`Replica::write`]. Whoever keeps this handle keeps the database from being opened again
    /// after a lost leadership.
    ///
    /// # Errors
    /// [`ReadError::Reopening`].
    pub fn engine(&self) -> Result<Engine, ReadError> {
        self.0.state.lock().engine.clone().ok_or(ReadError::Reopening)
    }

    /// The newest state that was agreed on, as far as this node knows.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&self) -> Result<Snapshot<'static>, ReadError> {
        Ok(self.engine()?.into_read()?)
    }

    /// A state that has every commit that any node has acknowledged before this call. Only the
    /// leader can tell, while its lease is certainly valid.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_current(&self) -> Result<Snapshot<'static>, ReadError> {
        let leading = self.0.state.lock().leading.clone().ok_or(ReadError::NotCertain)?;
        let snapshot = self.read()?;
        if leading.certain_for().is_zero() { Err(ReadError::NotCertain) } else { Ok(snapshot) }
    }

    /// Begins a transaction on the leader. Waits while too much is under way to the log, and, with
    /// the thread, while another transaction writes.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write(&self) -> Result<WriteTxn, WriteError> {
        loop {
            let proposals = self.0.state.lock().proposals.clone();
            if poll_fn(|context| proposals.poll_room(context)).await == Admission::Closed {
                return Err(WriteError::NotLeading);
            }
            if let Some(txn) = self.begin(&proposals)? {
                return Ok(txn);
            }
        }
    }

    /// A transaction, unless too much is under way when the writer's lock is held.
    fn begin(&self, proposals: &Proposals) -> Result<Option<WriteTxn>, WriteError> {
        let engine = self.engine().map_err(|_| WriteError::NotLeading)?;
        let txn = engine.write().map_err(|e| match e {
            // Given up, and not yet opened again.
            colibri_storage::Error::Poisoned if proposals.admission() == Admission::Closed => WriteError::NotLeading,
            e => WriteError::Engine(e),
        })?;
        // A hand-over may have begun before the lock was there.
        match proposals.admission() {
            Admission::Yes => Ok(Some(txn)),
            Admission::Full => Ok(None),
            Admission::Closed => Err(WriteError::NotLeading),
        }
    }

    /// Commits. The future is ready when the commit is in the log; dropping it changes nothing
    /// about the commit.
    ///
    /// # Errors
    /// [`CommitError::NotCommitted`] and [`CommitError::Engine`]: nothing was committed.
    pub fn commit(&self, txn: WriteTxn) -> Result<Commit, CommitError> {
        let proposals = self.0.state.lock().proposals.clone();
        let ticket = txn.commit_ticket().map_err(|e| match e {
            // The node has given up what it had not agreed on, before this was proposed.
            colibri_storage::Error::Poisoned => CommitError::NotCommitted,
            e => CommitError::Engine(e),
        })?;
        #[cfg(test)]
        if self.0.options.is_hasty
            && let Some(engine) = &self.0.state.lock().engine
        {
            _ = engine.agree(ticket.txn());
        }
        Ok(Commit { ticket, proposals })
    }

    /// Hands the leadership over, to a successor or to whoever comes first: no transaction begins
    /// any more, those that have begun are waited for, what was proposed is appended, and then the
    /// leadership is resigned. Dropping the future does not take the request back.
    ///
    /// # Errors
    /// [`HandOverError`].
    pub async fn hand_over(&self, successor: Option<NodeId>) -> Result<(), HandOverError> {
        let hand_over = HandOver::to(successor);
        let proposals = self.0.state.lock().proposals.clone();
        proposals.close_for(hand_over.clone());
        match poll_fn(|context| hand_over.poll(context)).await {
            HandedOver::Done => Ok(()),
            HandedOver::NoSuchMember => Err(HandOverError::NoSuchMember),
            HandedOver::Ended => Err(HandOverError::NotLeading),
        }
    }

    /// The bytes of entries that this node has trimmed from the log since it was asked last: for
    /// the [`crate::Compactor`] of the node.
    #[must_use]
    pub fn take_trimmed_bytes(&self) -> u64 {
        self.0.trimmed_bytes.swap(0, Ordering::Relaxed)
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("name", &self.0.name).field("standing", &self.standing()).finish()
    }
}

/// A commit on its way into the log.
#[must_use = "the commit is not agreed on yet"]
pub struct Commit {
    ticket: Ticket,
    proposals: Proposals,
}

impl Commit {
    /// The transaction. One that has changed nothing has the number of the state that it has seen.
    #[must_use]
    pub fn txn(&self) -> TxnId {
        self.ticket.txn()
    }
}

impl Future for Commit {
    type Output = Result<TxnId, CommitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.ticket).poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(txn)) => Poll::Ready(Ok(txn)),
            Poll::Ready(Err(_)) => Poll::Ready(match self.proposals.fate(self.txn()) {
                Fate::Agreed => Ok(self.txn()),
                Fate::NotCommitted => Err(CommitError::NotCommitted),
                Fate::Unknown => Err(CommitError::Unknown),
            }),
        }
    }
}

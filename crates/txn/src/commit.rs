//! A commit that others are ahead of, or that is on its way, whatever the store.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::Result;
use crate::outcome::StoreWait;
use crate::ticket::CommitTicket;

/// What is called when a transaction has committed: see [`crate::Transaction::at_commit`].
pub type AtCommit = Box<dyn FnOnce(CommitTicket) + Send>;

/// How far a commit is.
#[must_use = "the transaction may still be in the queue of commits"]
pub enum Commit {
    /// The transaction has ended.
    Ended(CommitTicket),
    /// Others are committing, and the transaction is queued behind them.
    Queued(QueuedCommit),
}

impl Commit {
    /// Blocks the thread until the transaction has ended. The ticket tells when it is durable.
    ///
    /// # Errors
    /// As [`crate::Transaction::commit`].
    pub fn wait(self) -> Result<CommitTicket> {
        let mut commit = self;
        loop {
            match commit {
                Self::Ended(ticket) => return Ok(ticket),
                Self::Queued(queued) => {
                    queued.turn().wait();
                    commit = queued.go_on()?;
                }
            }
        }
    }
}

/// A transaction in the queue of commits.
///
/// Dropping it rolls the transaction back, unless the store has begun to commit it: then nobody
/// learns what became of it.
#[must_use = "dropping it takes the transaction back"]
pub struct QueuedCommit(Box<dyn PendingCommit>);

/// A commit that a store has taken and not ended yet. What dropping it means is told at
/// [`QueuedCommit`].
pub trait PendingCommit: Send {
    /// What to wait for before [`PendingCommit::go_on`].
    fn turn(&self) -> CommitTurn;

    /// The end, if it has come.
    ///
    /// # Errors
    /// As [`crate::Transaction::commit`].
    fn go_on(self: Box<Self>) -> Result<Commit>;
}

impl QueuedCommit {
    /// Of a store's commit.
    pub fn new(pending: Box<dyn PendingCommit>) -> Self {
        Self(pending)
    }

    /// A future to wait for before [`QueuedCommit::go_on`].
    pub fn turn(&self) -> CommitTurn {
        self.0.turn()
    }

    /// The end, if it has come. If the local store's queue has no leader, this thread becomes it
    /// and commits all that is queued.
    ///
    /// # Errors
    /// As [`crate::Transaction::commit`].
    pub fn go_on(self) -> Result<Commit> {
        self.0.go_on()
    }
}

/// Waiting for one's turn, with a thread or without.
pub trait Turn: Future<Output = ()> + Send + Unpin {
    /// Blocks the thread until it has come.
    fn block(self: Box<Self>);
}

impl Turn for StoreWait {
    fn block(self: Box<Self>) {
        self.wait();
    }
}

/// Waiting in the queue of commits, as a future that needs no thread. It is ready when
/// [`QueuedCommit::go_on`] has something to do.
#[must_use = "a future does nothing unless it is awaited"]
pub struct CommitTurn(Box<dyn Turn>);

impl CommitTurn {
    /// Of a store's turn.
    pub fn new(turn: impl Turn + 'static) -> Self {
        Self(Box::new(turn))
    }

    /// Blocks the thread instead.
    pub fn wait(self) {
        self.0.block();
    }
}

impl Future for CommitTurn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut *self.0).poll(context)
    }
}

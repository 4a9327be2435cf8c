//! Waiting until what a transaction did and saw is durable, with or without a thread.
//!
//! A transaction may have seen commits that are not durable yet (see [`crate::Begin::newest`]). A
//! caller that learns of its end could pass on what it saw. So a ticket waits for the newest state
//! that the transaction has seen or made.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use colibri_storage::{Database, Fate, Ticket, TxnId};

use crate::error::{Error, Result};

/// Where a transaction stands among all that have committed. They are serializable in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Committed {
    /// The transaction of the storage that it was committed with.
    pub txn: TxnId,
    /// The order of those that were committed with the same transaction of the storage.
    pub sequence: u64,
}

/// A transaction that has ended well. Dropping the ticket changes nothing about that.
///
/// As a future it needs no particular runtime.
#[derive(Clone)]
#[must_use = "what the transaction did or saw may not be durable yet"]
pub struct CommitTicket {
    seen: TxnId,
    committed: Option<Committed>,
    /// `None` once everything is durable.
    pending: Option<Ticket>,
}

impl CommitTicket {
    /// A ticket for what is durable already: what was read as of a state, and what was made of it
    /// if the transaction wrote.
    pub fn durable(seen: TxnId, committed: Option<Committed>) -> Self {
        Self { seen, committed, pending: None }
    }

    /// A ticket for a transaction that saw a state, and made one if it wrote.
    pub(crate) fn new(database: &Database, seen: TxnId, committed: Option<Committed>) -> Self {
        let seen = committed.map_or(seen, |committed| seen.max(committed.txn));
        let ticket = database.ticket(seen);
        Self { seen, committed, pending: (!ticket.is_durable()).then_some(ticket) }
    }

    /// The newest state that the transaction saw or made. A transaction that begins after it
    /// ([`crate::Store::begin_after`]) sees what this one did.
    #[must_use]
    pub fn seen(&self) -> TxnId {
        self.seen
    }

    /// Where the transaction stands in the order of commits; `None` if it changed nothing.
    #[must_use]
    pub fn committed(&self) -> Option<Committed> {
        self.committed
    }

    /// Whether what the transaction did and saw is as durable as the database's mode says.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.pending.as_ref().is_none_or(Ticket::is_durable)
    }

    /// Flushes on this thread if nobody else waits for a flush: see [`Ticket::flush_if_alone`].
    /// Gives whether everything is durable now. For a thread that may block for as long as a flush
    /// takes.
    ///
    /// # Errors
    /// As of [`CommitTicket::wait`].
    pub fn flush_if_alone(&mut self) -> Result<bool> {
        let Some(ticket) = &self.pending else { return Ok(true) };
        if ticket.flush_if_alone().map_err(|e| unknown(self.committed, None, e))? {
            self.pending = None;
        }
        Ok(self.pending.is_none())
    }

    /// Whether [`CommitTicket::flush_if_alone`] would flush: see [`Ticket::is_alone`].
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.pending.as_ref().is_some_and(Ticket::is_alone)
    }

    /// Waits until it is; gives [`CommitTicket::seen`].
    ///
    /// # Errors
    /// [`Error::Unknown`] if the flush fails: only opening the database again tells what is on
    /// disk.
    pub fn wait(mut self) -> Result<TxnId> {
        match self.pending.take() {
            Some(ticket) if ticket.is_durable() => Ok(self.seen),
            Some(ticket) => ticket.wait_here().or_else(|e| settled(self.seen, self.committed, ticket.fate(), e)),
            None => Ok(self.seen),
        }
    }
}

/// What a failed ticket means for a transaction. Where others have to agree, they may have done so
/// although this machine was not told in time.
fn settled(seen: TxnId, committed: Option<Committed>, fate: Option<Fate>, e: colibri_storage::Error) -> Result<TxnId> {
    if fate == Some(Fate::Agreed) { Ok(seen) } else { Err(unknown(committed, fate, e)) }
}

/// What a failed flush means for a transaction: nothing, if it only read. What a reader has seen of
/// commits that were not agreed on it must not tell.
fn unknown(committed: Option<Committed>, fate: Option<Fate>, error: colibri_storage::Error) -> Error {
    match (committed, fate) {
        (Some(_), Some(Fate::NotCommitted)) | (None, Some(_)) => Error::NotLeading,
        (Some(_), Some(_)) => {
            let reason = "this server does not lead the database any more, and was not told".to_owned();
            Error::Unknown { reason }
        }
        (Some(_), None) => Error::Unknown { reason: error.to_string() },
        (None, None) => Error::Storage(error),
    }
}

impl Future for CommitTicket {
    type Output = Result<TxnId>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(ticket) = &mut self.pending else { return Poll::Ready(Ok(self.seen)) };
        match Pin::new(&mut *ticket).poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(txn)) => {
                self.pending = None;
                Poll::Ready(Ok(txn))
            }
            Poll::Ready(Err(e)) => {
                let fate = ticket.fate();
                self.pending = None;
                Poll::Ready(settled(self.seen, self.committed, fate, e))
            }
        }
    }
}

//! Waiting for a commit to become durable, with or without a thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::agreement::Fate;
use crate::db::Handle;
use crate::page::TxnId;
use crate::{Error, Result};

/// A commit on its way to the disk. Dropping the ticket changes nothing about the commit.
///
/// As a future it needs no particular runtime: a background thread, started with the first such
/// ticket, flushes the log while somebody waits and sleeps otherwise.
#[derive(Clone)]
#[must_use = "the commit is not durable yet"]
pub struct Ticket {
    handle: Arc<Handle>,
    txn: TxnId,
}

impl Ticket {
    pub(crate) fn new(handle: Arc<Handle>, txn: TxnId) -> Self {
        Self { handle, txn }
    }

    /// The transaction.
    #[must_use]
    pub fn txn(&self) -> TxnId {
        self.txn
    }

    /// What became of the commit, if the ticket has failed and others had to agree on it.
    #[must_use]
    pub fn fate(&self) -> Option<Fate> {
        self.handle.core.agreement.as_ref().map(|agreement| agreement.proposer().fate(self.txn))
    }

    /// Whether the changes are as durable as the database's mode says.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.handle.core.shared.visible() >= self.txn
    }

    /// Flushes on this thread if no flush is under way, and nobody else waits for one or did so
    /// lately. Otherwise does nothing: then the background thread flushes for all of them together.
    /// Waking that thread and being woken by it takes about as long as the flush. Gives whether the
    /// changes are durable.
    ///
    /// # Errors
    /// As of [`Ticket::wait`].
    pub fn flush_if_alone(&self) -> Result<bool> {
        let core = &self.handle.core;
        if self.is_alone() {
            core.wait_durable(self.txn)?;
            core.log.was_alone();
        }
        Ok(self.is_durable())
    }

    /// Whether [`Ticket::flush_if_alone`] would flush. If others have to agree, it would not.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        let core = &self.handle.core;
        core.agreement.is_none() && !self.is_durable() && core.log.is_alone()
    }

    /// Waits until they are.
    pub fn wait(self) -> Result<TxnId> {
        self.wait_here()
    }

    /// As [`Ticket::wait`]; the ticket can be asked afterwards.
    pub fn wait_here(&self) -> Result<TxnId> {
        if !self.is_durable() {
            self.handle.core.wait_durable(self.txn)?;
        }
        Ok(self.txn)
    }
}

impl Future for Ticket {
    type Output = Result<TxnId>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let core = &self.handle.core;
        if self.is_durable() {
            return Poll::Ready(Ok(self.txn));
        }
        // A flush that ended after the check above has woken nobody, so check again.
        let more = match &core.agreement {
            Some(agreement) => agreement.wake_later(self.txn, context.waker()),
            None => core.log.wake_later(context.waker()),
        };
        if self.is_durable() {
            return Poll::Ready(Ok(self.txn));
        }
        if !more || core.ensure_usable().is_err() {
            return Poll::Ready(Err(Error::Poisoned));
        }
        if core.agreement.is_some() {
            return Poll::Pending;
        }
        match self.handle.ask_for_flush() {
            Ok(()) => Poll::Pending,
            Err(e) => Poll::Ready(Err(e)),
        }
    }
}

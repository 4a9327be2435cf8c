//! Commits that others have to agree on: the redo log is kept elsewhere, by several machines. What
//! callers do about it is in `agreed`.
//!
//! A commit hands its record to a [`Proposer`] and is published for the next writer only. Whoever
//! agrees on records calls [`Database::agree`]; then tickets resolve and snapshots see the commit.
//! A database that follows the log of another one carries out its records with
//! [`Database::apply`], which makes the same transactions of them.
//!
//! ```text
//! leader     commit ─► record ─► Proposer::propose ┄► agreed log ┄► Database::agree
//! follower                                            agreed log ┄► Database::apply
//! ```
//!
//! Invariants:
//! 1. Nothing is visible, and no ticket resolves, beyond what was agreed on.
//! 2. No steady point is beyond what was agreed on: what a crash leaves is a state that all have.
//! 3. Records are proposed in the order of their transactions, without gaps. Each is sealed with
//!    the checksum of the one before, which the steady point remembers; so two databases with the
//!    same chain have the same history, and a record that does not fit is refused.
//!
//! # Agreed on before it is published
//! A commit proposes its record, then publishes its root. Others may agree in between. So what was
//! agreed on is kept, and whoever comes second, the commit or the agreement, makes it visible.
//!
//! Bug: an agreement on a commit that was not published yet was cut to what was, and forgotten.
//! Consequence: on a busy machine, where a thread may be stopped in between for longer than a log
//! takes, the commit was not acknowledged before a later one came. If the leadership was handed
//! over meanwhile, its caller was told that it was not committed, though the log had it.
//! Fix: the agreement is kept.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use crate::lock_file::Shared;
use crate::log::{Position, record};
use crate::page::{TxnId, get_u64};
use crate::sync::{Condvar, Mutex};
use crate::{Error, Result};

/// Takes the records of commits to where others agree on them.
pub trait Proposer: Send + Sync {
    /// A transaction has committed with this record. Called with the writer's lock held, in the
    /// order of the transactions: it only takes a copy, and does not wait.
    fn propose(&self, txn: TxnId, record: &[u8]);

    /// Whether a transaction may begin. Whoever begins transactions asks before it takes the
    /// writer's lock, and again when it has the lock: [`Database::write`](crate::Database::write)
    /// itself does not ask.
    fn admission(&self) -> Admission {
        Admission::Yes
    }

    /// Blocks the thread while the admission is [`Admission::Full`]; gives what it is then.
    fn wait_for_room(&self) -> Admission {
        self.admission()
    }

    /// What became of a commit whose ticket has failed.
    fn fate(&self, txn: TxnId) -> Fate {
        _ = txn;
        Fate::Unknown
    }
}

/// Whether a transaction may begin where others agree on commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Yes,
    /// Not yet: too much is under way.
    Full,
    /// Nobody here will agree on it.
    Closed,
}

/// What became of a commit that others had to agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// They have agreed on it.
    Agreed,
    /// They have not, and never will.
    NotCommitted,
    /// They may have, or may still.
    Unknown,
}

/// The proposer of a database.
#[derive(Clone)]
pub(crate) struct Proposing(pub(crate) Arc<dyn Proposer>);

impl Debug for Proposing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Proposing")
    }
}

/// A database whose commits others agree on, and who waits for that.
pub(crate) struct Agreement {
    proposer: Proposing,
    /// The last transaction that was proposed, and the last one that was agreed on.
    proposed: AtomicU64,
    agreed: AtomicU64,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// With the transaction that each of them waits for.
    wakers: Vec<(TxnId, Waker)>,
    /// Nothing will be agreed on any more.
    failed: bool,
}

impl Agreement {
    pub(crate) fn new(proposer: Proposing) -> Self {
        Self {
            proposer,
            proposed: AtomicU64::new(0),
            agreed: AtomicU64::new(0),
            waiting: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn proposer(&self) -> &Arc<dyn Proposer> {
        &self.proposer.0
    }

    /// Hands over the record of a commit. Gives the position behind it, in a log that has no files
    /// here.
    pub(crate) fn propose(&self, at: Position, record: &mut record::Builder, txn: TxnId) -> Position {
        let bytes = record.seal(txn, at.chain);
        self.proposed.store(txn.0, Ordering::SeqCst);
        self.proposer.0.propose(txn, bytes);
        Position { offset: at.offset + bytes.len() as u64, chain: get_u64(bytes, 0), ..at }
    }

    /// Others have agreed on the transactions up to this one, as far as they were proposed.
    pub(crate) fn agree(&self, shared: &Shared, txn: TxnId) {
        let agreed = txn.0.min(self.proposed.load(Ordering::SeqCst));
        // Pairs with the load in `published`.
        self.agreed.fetch_max(agreed, Ordering::SeqCst);
        shared.raise_visible(TxnId(agreed).min(shared.newest()));
        self.notify(shared.visible());
    }

    /// A transaction that was proposed has been published.
    pub(crate) fn published(&self, shared: &Shared, txn: TxnId) {
        if self.agreed.load(Ordering::SeqCst) >= txn.0 {
            shared.raise_visible(txn);
            self.notify(txn);
        }
    }

    /// Waits until `is_agreed` is true.
    pub(crate) fn wait(&self, is_agreed: impl Fn() -> bool) -> Result<()> {
        let mut waiting = self.waiting.lock();
        while !is_agreed() {
            if waiting.failed {
                return Err(Error::Poisoned);
            }
            self.changed.wait(&mut waiting);
        }
        Ok(())
    }

    /// Calls `waker` when a transaction is agreed on, or never will be; `false` if nothing will be any
    /// more. The caller looks again afterwards: an agreement before the call wakes nobody.
    pub(crate) fn wake_later(&self, txn: TxnId, waker: &Waker) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.wakers.push((txn, waker.clone()));
        !waiting.failed
    }

    /// Wakes those who wait for transactions up to this one, which is visible.
    pub(crate) fn notify(&self, visible: TxnId) {
        self.wake(|txn| txn <= visible, false);
    }

    /// Nothing will be agreed on any more: wakes all.
    pub(crate) fn fail(&self) {
        self.wake(|_| true, true);
    }

    fn wake(&self, is_over: impl Fn(TxnId) -> bool, failed: bool) {
        let mut waiting = self.waiting.lock();
        waiting.failed |= failed;
        self.changed.notify_all();
        let all = std::mem::take(&mut waiting.wakers);
        let (over, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(txn, _)| is_over(*txn));
        waiting.wakers = others;
        drop(waiting);
        over.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

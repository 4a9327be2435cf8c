//! Commits that others have to agree on: the redo log is kept elsewhere, by several machines.
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

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::task::Waker;

use crate::db::{Core, Database};
use crate::log::record::{self, Operations};
use crate::log::{Position, RECORD_HEADER_BYTES, record_of};
use crate::page::{TxnId, get_u32, get_u64};
use crate::sync::{Condvar, Mutex};
use crate::txn::WriteTxn;
use crate::{Durability, Error, Result};

/// Takes the records of commits to where others agree on them.
pub trait Proposer: Send + Sync {
    /// A transaction has committed with this record. Called with the writer's lock held, in the
    /// order of the transactions: it only takes a copy, and does not wait.
    fn propose(&self, txn: TxnId, record: &[u8]);
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
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    wakers: Vec<Waker>,
    /// Nothing will be agreed on any more.
    failed: bool,
}

impl Agreement {
    pub(crate) fn new(proposer: Proposing) -> Self {
        Self { proposer, waiting: Mutex::default(), changed: Condvar::new() }
    }

    /// Hands over the record of a commit. Gives the position behind it, in a log that has no files
    /// here.
    pub(crate) fn propose(&self, at: Position, record: &mut record::Builder, txn: TxnId) -> Position {
        let bytes = record.seal(txn, at.chain);
        self.proposer.0.propose(txn, bytes);
        Position { offset: at.offset + bytes.len() as u64, chain: get_u64(bytes, 0), ..at }
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

    /// Calls `waker` after the next agreement; `false` if there will be none.
    pub(crate) fn wake_later(&self, waker: &Waker) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.wakers.push(waker.clone());
        !waiting.failed
    }

    /// Wakes all who wait, to check again.
    pub(crate) fn notify(&self, failed: bool) {
        let mut waiting = self.waiting.lock();
        waiting.failed |= failed;
        self.changed.notify_all();
        let wakers = std::mem::take(&mut waiting.wakers);
        drop(waiting);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Core {
    /// Refuses what needs a log that others agree on.
    fn agreement(&self) -> Result<&Agreement> {
        self.agreement.as_ref().ok_or(Error::NotAgreed)
    }
}

impl Database {
    /// Others have agreed on the records up to a transaction: these commits are visible now, and
    /// their tickets resolve. Numbers that are not used yet are taken for the newest one.
    ///
    /// # Errors
    /// [`Error::NotAgreed`] if the database is not open with [`Durability::Agreed`].
    pub fn agree(&self, txn: TxnId) -> Result<()> {
        let core = &self.0.core;
        let agreement = core.agreement()?;
        core.shared.raise_visible(txn.min(core.shared.newest()));
        agreement.notify(false);
        Ok(())
    }

    /// Carries out records of another database's commits that were agreed on: all of them become
    /// visible at once.
    ///
    /// # Errors
    /// [`Error::Diverged`] if the first record does not follow the newest state of this database,
    /// or another one the record before it, or if this database has a commit of its own that
    /// nobody has agreed on; [`Error::CorruptedLog`] if a record cannot be carried out. After an
    /// error nothing has changed.
    pub fn apply<'r>(&self, records: impl IntoIterator<Item = &'r [u8]>) -> Result<()> {
        let core = &self.0.core;
        core.agreement()?;
        let work = core.lock_writer(true)?;
        let root = core.shared.root();
        let mut parts = Vec::new();
        let (mut txn, mut position) = (root.txn, root.log);
        let mut check = |bytes: &'r [u8]| {
            let record = record_of(bytes, position.chain).ok_or(Error::Diverged { txn: txn.next() })?;
            if record.0 != txn.next() {
                return Err(Error::Diverged { txn: txn.next() });
            }
            txn = record.0;
            let offset = position.offset + bytes.len() as u64;
            position = Position { offset, chain: record.1, ..position };
            parts.push(&bytes[RECORD_HEADER_BYTES..]);
            Ok(())
        };
        let checked = match core.shared.visible() < root.txn {
            true => Err(Error::Diverged { txn: root.txn }),
            false => records.into_iter().try_for_each(&mut check),
        };
        if checked.is_err() || txn == root.txn {
            core.unlock_writer(work);
            return checked;
        }
        let mut replaying = WriteTxn::replaying(Arc::clone(&self.0), work, txn);
        for part in parts {
            for operation in Operations::new(part) {
                let (table, operation) = operation?;
                replaying.replay(table, operation)?;
            }
        }
        replaying.commit_replayed(position)?;
        core.agreement()?.notify(false);
        Ok(())
    }

    /// The checksum of the newest record: two databases that have it in common after the same
    /// transaction have the same history.
    #[must_use]
    pub fn chain(&self) -> (TxnId, u64) {
        let root = self.0.core.shared.root();
        (root.txn, root.log.chain)
    }

    /// The last steady point: the state that a crash of the system leaves, if it is not a newer
    /// one.
    #[must_use]
    pub fn steady_txn(&self) -> TxnId {
        self.0.core.shared.steady()
    }

    /// Gives up what others have not agreed on: nothing is written any more, all who wait are told
    /// [`Error::Poisoned`], and the next opening finds the last steady point. For a database with
    /// [`Durability::Agreed`] whose proposals will not be agreed on.
    ///
    /// # Errors
    /// [`Error::NotAgreed`] if the database is not open with [`Durability::Agreed`].
    pub fn abandon(&self) -> Result<()> {
        let core = &self.0.core;
        core.agreement()?;
        core.poison();
        Ok(())
    }
}

/// The record of one commit, as [`Proposer::propose`] was given it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitRecord<'a> {
    /// The transaction.
    pub txn: TxnId,
    /// Its checksum, which [`Database::chain`] gives after it was carried out.
    pub chain: u64,
    /// All of its bytes.
    pub bytes: &'a [u8],
}

/// Takes bytes apart that are records one behind the other. Each record says how long it is. Its
/// checksum is compared when it is carried out.
///
/// # Errors
/// [`Error::CorruptedLog`] if the bytes are no sequence of records.
pub fn split_records(mut bytes: &[u8]) -> Result<Vec<CommitRecord<'_>>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let length = (bytes.len() >= RECORD_HEADER_BYTES).then(|| get_u32(bytes, 8) as usize);
        let fits = length.filter(|length| (RECORD_HEADER_BYTES..=bytes.len()).contains(length));
        let (record, rest) =
            bytes.split_at(fits.ok_or(Error::CorruptedLog { reason: "the bytes end within a record" })?);
        records.push(CommitRecord { txn: TxnId(get_u64(record, 16)), chain: get_u64(record, 0), bytes: record });
        bytes = rest;
    }
    Ok(records)
}

/// The way that agreed commits of a database take, by its mode.
pub(crate) fn agreement_of(durability: Durability, proposer: Option<&Proposing>) -> Option<Agreement> {
    let is_agreed = durability == Durability::Agreed;
    proposer.filter(|_| is_agreed).map(|proposer| Agreement::new(proposer.clone()))
}

#[cfg(test)]
mod tests;

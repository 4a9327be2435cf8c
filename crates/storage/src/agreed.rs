//! Agreeing on commits, and carrying out those of another database: see `agreement`.

use std::sync::Arc;

use crate::agreement::{Agreement, Proposer};
use crate::db::{Core, Database};
use crate::log::{Position, RECORD_HEADER_BYTES, record_of};
use crate::page::{TxnId, get_u32, get_u64};
use crate::recovery::Batches;
use crate::txn::WriteTxn;
use crate::{Error, Result};

impl Core {
    /// Refuses what needs a log that others agree on.
    fn agreement(&self) -> Result<&Agreement> {
        self.agreement.as_ref().ok_or(Error::NotAgreed)
    }
}

impl Database {
    /// Who takes the records of commits to others, with [`crate::Durability::Agreed`].
    #[must_use]
    pub fn proposer(&self) -> Option<&Arc<dyn Proposer>> {
        self.0.core.agreement.as_ref().map(Agreement::proposer)
    }

    /// Others have agreed on the records up to a transaction: these commits are visible now, and
    /// their tickets resolve. Numbers that were not proposed yet are taken for the last one that was.
    ///
    /// # Errors
    /// [`Error::NotAgreed`] if the database is not open with [`crate::Durability::Agreed`].
    pub fn agree(&self, txn: TxnId) -> Result<()> {
        let core = &self.0.core;
        core.agreement()?.agree(&core.shared, txn);
        Ok(())
    }

    /// Carries out records of another database's commits that were agreed on: all of them become
    /// visible at once, but for those that make, drop or reset a branch, which follow those before
    /// them.
    ///
    /// # Errors
    /// [`Error::Diverged`] if the first record does not follow the newest state of this database,
    /// or another one the record before it, or if this database has a commit of its own that
    /// nobody has agreed on; [`Error::CorruptedLog`] if a record cannot be carried out. After an
    /// error nothing has changed, unless some of the records are about branches: those before them may
    /// have been carried out.
    pub fn apply<'r>(&self, records: impl IntoIterator<Item = &'r [u8]>) -> Result<()> {
        let core = &self.0.core;
        core.agreement()?;
        let work = core.lock_writer(true)?;
        let root = core.shared.root();
        let (mut parts, mut batches) = (Vec::new(), Batches::default());
        let (mut txn, mut position) = (root.txn, root.log);
        let mut check = |bytes: &'r [u8]| {
            let record = record_of(bytes, position.chain).ok_or(Error::Diverged { txn: txn.next() })?;
            if record.0 != txn.next() {
                return Err(Error::Diverged { txn: txn.next() });
            }
            txn = record.0;
            let offset = position.offset + bytes.len() as u64;
            position = Position { offset, chain: record.1, ..position };
            let operations = &bytes[RECORD_HEADER_BYTES..];
            batches.add(txn, operations);
            parts.push((txn, position, operations));
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
        let mut work = Some(work);
        let mut parts = parts.into_iter();
        for end in batches.end(txn) {
            let work = work.take().map_or_else(|| core.lock_writer(true), Ok)?;
            let mut replaying = WriteTxn::replaying(Arc::clone(&self.0), work, end)?;
            let mut behind = Position::default();
            for (txn, position, operations) in parts.by_ref() {
                replaying.replay_record(operations)?;
                behind = position;
                if txn == end {
                    break;
                }
            }
            replaying.commit_replayed(behind)?;
        }
        core.agreement()?.notify(core.shared.visible());
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
    /// [`crate::Durability::Agreed`] whose proposals will not be agreed on.
    ///
    /// # Errors
    /// [`Error::NotAgreed`] if the database is not open with [`crate::Durability::Agreed`].
    pub fn abandon(&self) -> Result<()> {
        let core = &self.0.core;
        core.agreement()?;
        core.poison();
        Ok(())
    }
}

/// The record of one commit, as [`crate::Proposer::propose`] was given it.
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

#[cfg(test)]
mod tests;

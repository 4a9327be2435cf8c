//! PREPARE TRANSACTION, COMMIT PREPARED and ROLLBACK PREPARED.
//!
//! ```text
//! PREPARE TRANSACTION   checks ─► locks (may wait) ─► Committing: the store keeps the transaction ─► Giving
//! COMMIT PREPARED       found, allowed ─► Committing: the store ends it ─► Giving
//! ```
//!
//! What is kept is described in `txn/src/prepared.rs`. This file adds what SQL has to know of it,
//! the [`About`]: who may end it, when it was prepared, whether it changes the catalogue, which
//! sequences it has created or changed.
//!
//! Invariants:
//! 1. A session that has prepared its transaction is in none. It knows nothing any more of what the
//!    transaction has made: the catalogue, sequences, notifications.
//! 2. A transaction with something that ends with its session cannot be prepared: temporary
//!    objects, cursors WITH HOLD, LISTEN and NOTIFY, advisory locks.

use std::sync::Arc;

use colibri_catalog::{
    Catalog, ObjectId,
    cluster::RoleId,
    store_error::{InSql as _, fetched_now, in_sql},
};
use colibri_syntax::tree::{Statement, Transaction};
use colibri_txn::{Begin, Commit, CommitTicket, Error as TxnError, PreparedInfo};
use colibri_types::{Error, Result, SqlState};

use super::block::CommitStep;
use super::plans::Command;
use super::step::Ends;
use super::{Prepared, Running, Session, TransactionState};

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 199;
/// ON DISK: never renumber.
const VERSION: u8 = 1;

/// What SQL keeps with a prepared transaction.
///
/// ```text
/// version u8 = 1 │ time i64 │ owner u32 │ changes the catalogue u8 │ count u32 │ sequences u32 …
/// ```
pub(crate) struct About {
    /// When it was prepared, in microseconds since 2000-01-01 00:00 UTC.
    pub(crate) time_us: i64,
    pub(crate) owner: RoleId,
    changes_catalog: bool,
    sequences: Vec<ObjectId>,
}

impl About {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.time_us.to_le_bytes());
        bytes.extend_from_slice(&self.owner.to_le_bytes());
        bytes.push(self.changes_catalog.into());
        bytes.extend_from_slice(&(self.sequences.len() as u32).to_le_bytes());
        for sequence in &self.sequences {
            bytes.extend_from_slice(&sequence.to_le_bytes());
        }
        bytes
    }

    /// Reads what the store has kept.
    ///
    /// # Errors
    /// XX001.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        fn part<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
            let (part, left) = bytes.split_first_chunk::<N>()?;
            *bytes = left;
            Some(*part)
        }
        let read = |mut bytes: &[u8]| {
            let bytes = &mut bytes;
            if part::<1>(bytes)? != [VERSION] {
                return None;
            }
            let time_us = i64::from_le_bytes(part(bytes)?);
            let owner = RoleId::from_le_bytes(part(bytes)?);
            let [changes_catalog] = part(bytes)?;
            let count = u32::from_le_bytes(part(bytes)?);
            let sequences: Option<Vec<_>> = (0..count).map(|_| part(bytes).map(ObjectId::from_le_bytes)).collect();
            Some(Self { time_us, owner, changes_catalog: changes_catalog != 0, sequences: sequences? })
        };
        read(bytes)
            .ok_or_else(|| Error::new(SqlState::DATA_CORRUPTED, "the record of a prepared transaction cannot be read"))
    }
}

/// What a session is about to do with a prepared transaction.
pub(super) enum TwoPhase<'s> {
    /// It prepares the one of its block.
    Prepare(&'s str),
    /// It ends one.
    Finish { name: &'s str, commits: bool },
}

/// What a statement does with prepared transactions.
pub(super) fn of(statement: &Statement) -> Option<TwoPhase<'_>> {
    match statement {
        Statement::Transaction(Transaction::Prepare(name)) => Some(TwoPhase::Prepare(name)),
        Statement::Transaction(Transaction::CommitPrepared(name)) => Some(TwoPhase::Finish { name, commits: true }),
        Statement::Transaction(Transaction::RollbackPrepared(name)) => Some(TwoPhase::Finish { name, commits: false }),
        _ => None,
    }
}

fn cannot_prepare(why: &str) -> Error {
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot PREPARE a transaction that has {why}"))
}

fn no_such(name: &str) -> Error {
    let message = format!("prepared transaction with identifier \"{name}\" does not exist");
    Error::new(SqlState::NO_SUCH_OBJECT, message)
}

/// A store's failure to prepare a transaction of this name or to end it.
fn failed(name: &str, error: TxnError) -> Error {
    match error {
        TxnError::PreparedExists => {
            let message = format!("transaction identifier \"{name}\" is already in use");
            Error::new(SqlState::DUPLICATE_OBJECT, message)
        }
        TxnError::TooManyPrepared { max } => {
            Error::new(SqlState::OUT_OF_MEMORY, "maximum number of prepared transactions reached")
                .hint(format!("Increase max_prepared_transactions (currently {max})."))
        }
        TxnError::NoSuchPrepared => no_such(name),
        TxnError::TemporaryUsed => cannot_prepare("operated on temporary objects"),
        TxnError::SeriesUsed => cannot_prepare("put messages into a topic"),
        error => in_sql(error),
    }
}

impl Prepared {
    /// The name under which it prepares the transaction of its block.
    pub(super) fn prepares(&self) -> Option<&str> {
        match &self.command {
            Command::Control(statement) => match of(statement) {
                Some(TwoPhase::Prepare(name)) => Some(name),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Session {
    /// Refuses to prepare a block that has made what ends with its session.
    pub(super) fn expect_no_held_cursor(&self) -> Result<()> {
        match self.cursors.values().any(|cursor| cursor.is_to_be_held()) {
            true => Err(cannot_prepare("created a cursor WITH HOLD")),
            false => Ok(()),
        }
    }

    fn expect_preparable(&mut self, name: &str) -> Result<()> {
        if name.len() > NAME_BYTES_MAX {
            let message = format!("transaction identifier \"{name}\" is too long");
            return Err(Error::new(SqlState::BAD_PARAMETER, message));
        }
        if self.own.engine.prepared_max() == 0 {
            // A cluster has none, whatever is set: a prepared one would have to be agreed on, too.
            let hint = match self.own.engine.is_agreed_on() {
                true => "A server that is a node of a cluster prepares none.",
                false => "Set max_prepared_transactions to a nonzero value.",
            };
            return Err(
                Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, "prepared transactions are disabled").hint(hint)
            );
        }
        if self.own.notifications.is_used() {
            return Err(cannot_prepare("executed LISTEN, UNLISTEN, or NOTIFY"));
        }
        if self.own.advisory.is_held_by_transaction() {
            return Err(Error::unsupported("PREPARE of a transaction that holds advisory locks"));
        }
        Ok(())
    }

    /// Begins a statement about prepared transactions. `None`: it has its way as other statements
    /// about transactions have.
    pub(super) fn begin_two_phase(&mut self, running: &mut Running) -> Result<Option<TwoPhaseBegun>> {
        let prepared = Arc::clone(&running.prepared);
        let Command::Control(statement) = &prepared.command else { return Ok(None) };
        match of(statement) {
            Some(TwoPhase::Prepare(name)) if self.state == TransactionState::Open && !self.block.implicit => {
                self.expect_preparable(name)?;
                self.ensure_block_txn()?;
                let savepoint = match &self.txn {
                    Some(txn) => txn.savepoint(),
                    None => return Err(Error::internal("a block has no transaction")),
                };
                Ok(Some(TwoPhaseBegun::Locks(savepoint)))
            }
            Some(TwoPhase::Finish { name, commits }) => {
                self.begin_to_finish(name, commits)?;
                Ok(Some(TwoPhaseBegun::Finishes))
            }
            _ => Ok(None),
        }
    }

    /// Takes the locks with which the transaction can be prepared.
    pub(super) fn lock_to_prepare(&mut self, running: &mut Running) -> Result<()> {
        let name = running.prepared.prepares().unwrap_or_default();
        let txn = self.txn.as_mut().ok_or_else(|| Error::internal("a block has no transaction"))?;
        txn.begin_to_prepare().map_err(|error| failed(name, error))?;
        running.stage = super::step::Stage::Committing { what: Ends::Prepared, tag: "PREPARE TRANSACTION".into() };
        Ok(())
    }

    /// Hands the block's transaction over to the store, or continues with that.
    pub(super) fn prepare_step(&mut self, name: &str) -> Result<CommitStep> {
        let step = self.prepare_on(name);
        if !matches!(step, Ok(CommitStep::Waits(_))) {
            self.own.own_sequences.clear();
            self.own.notifications.forget();
            self.own.advisory.end_transaction();
            self.forget_catalog();
            self.end_block(step.is_ok());
        }
        step
    }

    fn prepare_on(&mut self, name: &str) -> Result<CommitStep> {
        self.own.calls.close_cursors();
        let commit = match (self.committing.take(), self.txn.take()) {
            (Some(queued), _) => queued.go_on(),
            (None, Some(mut txn)) => {
                let sequences = self.own.own_sequences.keys().copied().collect();
                if !self.own.own_sequences.is_empty() {
                    self.own.write_sequences(&mut *txn)?;
                }
                let about = About {
                    time_us: colibri_types::clock_us(),
                    owner: self.own.authority.role,
                    changes_catalog: self.block.catalog_changed,
                    sequences,
                };
                txn.prepare(name, about.to_bytes())
            }
            (None, None) => return Err(Error::internal("a block has no transaction")),
        };
        self.waits_or_ends(commit.map_err(|error| failed(name, error))?)
    }

    fn waits_or_ends(&mut self, commit: Commit) -> Result<CommitStep> {
        match commit {
            Commit::Queued(queued) => {
                let turn = queued.turn();
                self.committing = Some(queued);
                Ok(CommitStep::Waits(turn))
            }
            Commit::Ended(ticket) => {
                self.seen = self.seen.max(ticket.seen());
                if let Some(committed) = ticket.committed() {
                    self.own.last_commit = Some(committed.txn);
                }
                Ok(CommitStep::Ended(Some(ticket)))
            }
        }
    }

    fn begin_to_finish(&mut self, name: &str, commits: bool) -> Result<()> {
        let what = if commits { "COMMIT PREPARED" } else { "ROLLBACK PREPARED" };
        if self.state != TransactionState::Idle {
            let message = format!("{what} cannot run inside a transaction block");
            return Err(Error::new(SqlState::ACTIVE_TRANSACTION, message));
        }
        if self.own.engine.is_standby() {
            let message = format!("cannot execute {what} during recovery");
            return Err(Error::new(SqlState::READ_ONLY_TRANSACTION, message));
        }
        self.own.expect_room()?;
        let known = self.own.engine.store.prepared().in_sql()?;
        let Some(PreparedInfo { about, .. }) = known.into_iter().find(|known| known.name == name) else {
            return Err(no_such(name));
        };
        let about = About::read(&about)?;
        if about.owner != self.own.authority.role && !self.own.authority.is_superuser() {
            return Err(Error::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                "permission denied to finish prepared transaction",
            )
            .hint("Must be superuser or the user that prepared the transaction."));
        }
        self.finishing = Some(about);
        Ok(())
    }

    /// Ends a prepared transaction, or continues with that.
    pub(super) fn finish_step(&mut self, prepared: &Prepared) -> Result<CommitStep> {
        let Command::Control(statement) = &prepared.command else { return Ok(CommitStep::Ended(None)) };
        let Some(TwoPhase::Finish { name, commits }) = of(statement) else { return Ok(CommitStep::Ended(None)) };
        let commit = match self.committing.take() {
            Some(queued) => queued.go_on(),
            None => self.own.engine.store.finish_prepared(name, commits),
        };
        let step = self.waits_or_ends(commit.map_err(|error| failed(name, error))?)?;
        if let CommitStep::Ended(Some(ticket)) = &step
            && let Some(about) = self.finishing.take()
            && commits
        {
            self.has_finished(&about, ticket)?;
        }
        Ok(step)
    }

    /// What a prepared transaction has made of what sessions share is read again.
    fn has_finished(&mut self, about: &About, ticket: &CommitTicket) -> Result<()> {
        for &sequence in &about.sequences {
            self.own.engine.look_again_at(sequence);
        }
        if about.changes_catalog {
            let begin = Begin { newest: true, read_only: true, ..Begin::default() };
            let mut txn = self.own.engine.store.begin_after(begin, ticket.seen()).in_sql()?;
            let catalog = fetched_now(|| Catalog::load(&mut *txn))?;
            self.own.engine.keep_catalog(&Arc::new(catalog));
        }
        Ok(())
    }
}

/// How a statement about prepared transactions begins.
pub(super) enum TwoPhaseBegun {
    /// It locks what the transaction adds to; the transaction can go back to here.
    Locks(colibri_txn::Savepoint),
    /// It ends a prepared transaction.
    Finishes,
}

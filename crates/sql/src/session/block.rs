//! Transaction blocks: what a session keeps from BEGIN to the end, and how its transaction begins, commits and is taken back.

use std::collections::HashMap;
use std::sync::Arc;

use colibri_txn::{Begin, Commit, CommitTicket, CommitTurn, Isolation, Savepoint, SpaceId};
use compact_str::CompactString;
use smallvec::SmallVec;

use super::activity::Counter;
use super::advisory;
use super::{Session, Settings, TransactionState};
use crate::catalog::Catalog;
use crate::cluster::RoleId;
use crate::error::{Error, Result, SqlState};

/// What belongs to a transaction block.
pub(super) struct Block {
    /// It was begun by the protocol, which ends it as well.
    pub(super) implicit: bool,
    pub(super) isolation: Isolation,
    pub(super) read_only: bool,
    pub(super) savepoints: Vec<NamedSavepoint>,
    /// Settings as they were before the block.
    pub(super) settings_before: Option<Settings>,
    /// Settings made by SET LOCAL.
    pub(super) local: Vec<CompactString>,
    /// The catalogue was changed by the block.
    pub(super) catalog_changed: bool,
    /// As whom statements ran before the block changed that, and whether it goes back at its end anyway.
    pub(super) role_before: Option<(RoleId, bool)>,
    /// Something was read or written already: the isolation can no more be chosen.
    pub(super) used: bool,
    /// Where statements have added to rows that others add to as well.
    pub(super) added: SmallVec<[(SpaceId, Arc<Counter>); 4]>,
    /// Tables that the transaction depends on, and whether it has locked them: see [`Session::depend`].
    pub(super) depends: SmallVec<[(u32, bool); 8]>,
}

/// How far the session's commit has come.
pub(super) enum CommitStep {
    /// It is done; the ticket tells when it is durable. `None` if there was no transaction.
    Ended(Option<CommitTicket>),
    /// Others are committing: wait for this, and go on.
    Waits(CommitTurn),
}

pub(super) struct NamedSavepoint {
    pub(super) name: CompactString,
    pub(super) savepoint: Savepoint,
    pub(super) catalog: Arc<Catalog>,
    pub(super) catalog_changed: bool,
    pub(super) settings: Settings,
    /// Cursors that were declared before it.
    pub(super) cursor_serial: u64,
    /// Advisory locks that were held before it.
    pub(super) advisory: HashMap<advisory::Key, advisory::Counts>,
}

impl Session {
    pub(super) fn default_isolation(&self) -> Isolation {
        self.own.settings.hot().isolation
    }

    /// Makes sure that there is a transaction, which begins now if there is none (in microseconds since 2000-01-01 00:00 UTC),
    /// and that the catalogue is the one it sees.
    pub(super) fn ensure_txn(&mut self, begin: Begin, now_us: i64) -> Result<()> {
        if self.txn.is_none() {
            self.begin_txn(begin, now_us)?;
        }
        self.see_catalog()
    }

    /// Begins a transaction, at a time in microseconds since 2000-01-01 00:00 UTC.
    pub(super) fn begin_txn(&mut self, begin: Begin, now_us: i64) -> Result<()> {
        self.env.transaction_us = now_us;
        self.block.depends.clear();
        let txn = match self.remains.take() {
            Some(remains) => remains.begin_after(begin, self.seen)?,
            None => self.own.engine.store.begin_after(begin, self.seen)?,
        };
        if !begin.read_only {
            self.own.presence.works_as(Some(txn.id()));
            self.own.advisory.works_as(txn.id());
        }
        self.txn = Some(txn);
        Ok(())
    }

    pub(super) fn see_catalog(&mut self) -> Result<()> {
        let Some(txn) = &mut self.txn else { return Ok(()) };
        if self.block.catalog_changed {
            return Ok(());
        }
        if self.looked_at.0 != txn.sees() {
            self.looked_at = (txn.sees(), Catalog::version_seen_by(txn)?);
        }
        let version = self.looked_at.1;
        if self.own.catalog.version != version {
            self.own.catalog = match self.own.engine.catalog(version) {
                Some(catalog) => catalog,
                None => {
                    let catalog = Arc::new(Catalog::load(txn)?);
                    self.own.engine.keep_catalog(&catalog);
                    catalog
                }
            };
        }
        Ok(())
    }

    /// Commits, or goes on with a commit that had to wait. After an error the transaction is taken back.
    pub(super) fn commit_step(&mut self) -> Result<CommitStep> {
        let commit = match (self.committing.take(), self.txn.take()) {
            (Some(queued), _) => queued.go_on(),
            (None, Some(txn)) => txn.commit_leaving(&mut self.remains),
            (None, None) => return Ok(CommitStep::Ended(None)),
        };
        match commit {
            Ok(Commit::Queued(queued)) => {
                let turn = queued.turn();
                self.committing = Some(queued);
                Ok(CommitStep::Waits(turn))
            }
            Ok(Commit::Ended(ticket)) => {
                self.own.advisory.end_transaction();
                self.seen = self.seen.max(ticket.seen());
                if self.block.catalog_changed {
                    self.own.engine.keep_catalog(&self.own.catalog);
                }
                if !self.own.restarted.is_empty() {
                    for restarted in std::mem::take(&mut self.own.restarted).into_values() {
                        restarted.keep(&self.own.engine)?;
                    }
                }
                Ok(CommitStep::Ended(Some(ticket)))
            }
            Err(error) => {
                self.own.advisory.end_transaction();
                self.forget_catalog();
                Err(error.into())
            }
        }
    }

    /// Goes on with a commit until it is done; the thread waits.
    pub(super) fn commit_now(&mut self) -> Result<Option<CommitTicket>> {
        loop {
            match self.commit_step()? {
                CommitStep::Ended(ticket) => return Ok(ticket),
                CommitStep::Waits(turn) => turn.wait(),
            }
        }
    }

    /// Takes the transaction back. What it saw may have been told: the ticket says when that is durable.
    pub(super) fn abort_txn(&mut self) -> Option<CommitTicket> {
        self.committing = None;
        self.own.advisory.end_transaction();
        let txn = self.txn.take()?;
        self.own.engine.activity().roll_back();
        let ticket = txn.ticket_of_reads();
        drop(txn);
        self.forget_catalog();
        Some(ticket)
    }

    fn forget_catalog(&mut self) {
        self.own.restarted.clear();
        if std::mem::take(&mut self.block.catalog_changed) {
            // The version's number will be given to somebody else's.
            self.own.catalog = Arc::default();
        }
    }

    /// Ends a block: what was set for it alone is taken back, all if it did not commit.
    pub(super) fn end_block(&mut self, committed: bool) {
        if let Some((role, local)) = self.block.role_before
            && (local || !committed)
        {
            self.renew_authority(role);
        }
        let before = self.block.settings_before.take();
        // Settings say what they mean by the catalogue and the role, too.
        let is_plain = committed && !self.block.catalog_changed && self.block.role_before.is_none();
        if let Some(before) = before.filter(|before| !is_plain || !self.own.settings.are_still(before)) {
            if committed {
                for name in std::mem::take(&mut self.block.local) {
                    self.own.settings.restore(&before, &name);
                }
            } else {
                self.own.settings = before;
            }
            self.settings_set();
        }
        self.block = Block::default();
        if !self.cursors.is_empty() {
            self.forget_cursors();
        }
        self.repeats = false;
        self.state = TransactionState::Idle;
    }
}

pub(super) fn isolation_of(name: &str) -> Isolation {
    match name {
        "read committed" | "read uncommitted" => Isolation::ReadCommitted,
        _ => Isolation::Serializable,
    }
}

pub(super) fn in_failed_block() -> Error {
    Error::new(
        SqlState::FAILED_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

impl Block {
    pub(super) fn note_added(&mut self, space: SpaceId, counter: &Arc<Counter>) {
        /// Of a long transaction with many statements, the first ones.
        const STATEMENTS_MAX: usize = 16;
        let is_known = self.added.iter().any(|(_, known)| Arc::ptr_eq(known, counter));
        if !is_known && self.added.len() < STATEMENTS_MAX {
            self.added.push((space, Arc::clone(counter)));
        }
    }
}

impl Default for Block {
    fn default() -> Self {
        Self {
            implicit: false,
            isolation: Isolation::Serializable,
            read_only: false,
            savepoints: Vec::new(),
            settings_before: None,
            local: Vec::new(),
            catalog_changed: false,
            role_before: None,
            used: false,
            added: SmallVec::new(),
            depends: SmallVec::new(),
        }
    }
}

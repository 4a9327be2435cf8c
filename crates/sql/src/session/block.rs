//! Transaction blocks: the state of a session from BEGIN to the end, and how its transaction
//! begins, commits and is rolled back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use colibri_catalog::{
    Catalog, store_error,
    store_error::{InSql as _, in_sql},
};
use colibri_txn::{Begin, Commit, CommitTicket, CommitTurn, Savepoint, SpaceId, Transaction};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;
use smallvec::SmallVec;

use super::activity::Counter;
use super::advisory;
use super::deferral::{Deferral, DeferralMark};
use super::notifications;
use super::sequences::OwnSequences;
use super::settings::{Level, Modes};
use super::{Session, Settings, TransactionState};

/// The state of a transaction block.
pub(super) struct Block {
    /// It was begun by the protocol, which ends it as well.
    pub(super) implicit: bool,
    /// Begun for messages of the extended protocol, which are not in a block for the client:
    /// statements that need a block are refused, or give a warning.
    pub(super) pipelined: bool,
    /// The modes of its transaction.
    pub(super) modes: Modes,
    /// The modes of the transaction at its beginning, before any statement changed them. A block
    /// that fails has these modes again, and so has the next one after COMMIT or ROLLBACK AND
    /// CHAIN.
    pub(super) modes_at_first: Modes,
    pub(super) savepoints: Vec<NamedSavepoint>,
    /// Settings as they were before the block.
    pub(super) settings_before: Option<Settings>,
    /// The catalogue was changed by the block.
    pub(super) catalog_changed: bool,
    /// The session's temporary objects were changed by the block.
    pub(super) temporary_changed: bool,
    /// A version of the catalogue that the transaction's snapshot cannot move to.
    pub(super) stuck_behind: u64,
    /// A query has run already: the isolation level can no longer be set.
    pub(super) used: bool,
    /// Statements that changed rows by adding to them: the space of the rows, and the counter of
    /// the plan that learns when such a row is read back.
    pub(super) added: SmallVec<[(SpaceId, Arc<Counter>); 4]>,
    /// Tables that the transaction depends on, and whether it has locked them: see
    /// [`Session::depend`].
    pub(super) depends: SmallVec<[(u32, bool); 8]>,
}

/// The transaction that a statement is prepared in.
pub(super) enum Preparing {
    /// The current transaction.
    Within,
    /// A transaction for this purpose alone.
    Alone,
    /// The same, beside the current transaction, which sees an older catalogue.
    Beside(Option<Box<dyn Transaction>>),
}

/// The state of the session's commit.
pub(super) enum CommitStep {
    /// It is done; the ticket says when it is durable. `None` if there was no transaction.
    Ended(Option<CommitTicket>),
    /// Others are committing: wait for this, and continue.
    Waits(CommitTurn),
}

pub(super) struct NamedSavepoint {
    pub(super) name: CompactString,
    pub(super) savepoint: Savepoint,
    pub(super) catalog: Arc<Catalog>,
    pub(super) catalog_changed: bool,
    pub(super) temporary_changed: bool,
    pub(super) own_sequences: OwnSequences,
    pub(super) settings: Settings,
    /// Whether the transaction was read-only. ROLLBACK TO and RELEASE restore this.
    pub(super) read_only: bool,
    /// Cursors that were declared before it.
    pub(super) cursor_serial: u64,
    /// Advisory locks that were held before it.
    pub(super) advisory: HashMap<advisory::Key, advisory::Counts>,
    /// What SET CONSTRAINTS had said, and which checks had been made.
    pub(super) deferral: DeferralMark,
    pub(super) notifications: notifications::Mark,
}

impl Session {
    /// Gives up the snapshot of a statement that runs by itself and reads nothing any more.
    pub(crate) fn give_up_snapshot(&mut self) {
        self.txn = None;
    }

    /// How the current block begins its transaction.
    pub(super) fn begin_of_block(&self) -> Begin {
        let Modes { level, read_only, .. } = self.block.modes;
        let read_only = read_only || self.own.engine.is_standby();
        Begin { isolation: level.isolation(), read_only, newest: self.repeats }
    }

    /// Makes sure that there is a transaction, and begins one at this time if there is none (in
    /// microseconds since 2000-01-01 00:00 UTC), and that the catalogue is the one it sees.
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
        let age_max = self.own.capabilities.txn_age_max;
        self.txn_until = age_max.map(|age_max| Instant::now() + age_max);
        let txn = match self.remains.take() {
            Some(remains) => remains.begin_after(begin, self.seen).in_sql()?,
            None => self.own.engine.store.begin_after(begin, self.seen).in_sql()?,
        };
        let txn = match &self.own.temporary {
            Some(temporary) => temporary.accompany(txn),
            None => txn,
        };
        if !begin.read_only {
            self.own.presence.works_as(Some(txn.id()));
            self.own.advisory.works_as(txn.id());
        }
        self.txn = Some(txn);
        Ok(())
    }

    /// Refuses to go on in a transaction that is older than the store allows. A commit the store
    /// refuses itself.
    pub(super) fn check_age(&self) -> Result<()> {
        match self.txn_until {
            Some(until) if self.txn.is_some() && Instant::now() >= until => {
                Err(Error::new(SqlState::PROGRAM_LIMIT, "the transaction has lasted longer than its store allows")
                    .hint("Do less within one transaction."))
            }
            _ => Ok(()),
        }
    }

    /// The version of the catalogue in the state that the transaction sees; `None` if there is no
    /// transaction.
    fn version_seen(&mut self) -> Result<Option<u64>> {
        let Some(txn) = &mut self.txn else { return Ok(None) };
        if self.looked_at.0 != txn.sees() {
            self.looked_at = (txn.sees(), store_error::fetched_now(|| Catalog::version_seen_by(&mut **txn))?);
        }
        Ok(Some(self.looked_at.1))
    }

    /// Whether another transaction has changed the catalogue since the state that the transaction
    /// sees.
    pub(super) fn is_behind(&mut self) -> Result<bool> {
        let seen = if self.block.catalog_changed { None } else { self.version_seen()? };
        Ok(seen.is_some_and(|seen| seen < self.own.engine.catalog_version()))
    }

    /// Makes sure that there is a transaction to prepare a statement in. It is not the current one
    /// if that sees an older catalogue: the current one moves forward only with a statement.
    pub(super) fn begin_preparing(&mut self) -> Result<Preparing> {
        let read_only = Begin { read_only: true, ..Begin::default() };
        if self.txn.is_none() {
            self.ensure_txn(read_only, colibri_types::clock_us())?;
            return Ok(Preparing::Alone);
        }
        // Temporary objects that the transaction has made are seen by it alone.
        if self.own.temporary.is_some() || !self.is_behind()? {
            self.see_catalog()?;
            return Ok(Preparing::Within);
        }
        let newer = self.own.engine.store.begin_after(read_only, self.seen).in_sql()?;
        let held = self.txn.replace(newer);
        match self.see_catalog() {
            Ok(()) => Ok(Preparing::Beside(held)),
            Err(error) => {
                self.txn = held;
                Err(error)
            }
        }
    }

    pub(super) fn end_preparing(&mut self, preparing: Preparing) {
        match preparing {
            Preparing::Within => {}
            Preparing::Alone => self.txn = None,
            Preparing::Beside(held) => self.txn = held,
        }
    }

    /// Reads the catalogue of the current transaction. It includes later commits if the transaction
    /// can move to their state, which it can unless something that it has read was changed there.
    pub(super) fn see_catalog(&mut self) -> Result<()> {
        if self.block.catalog_changed {
            return self.see_temporary();
        }
        let (Some(mut version), newest) = (self.version_seen()?, self.own.engine.catalog_version()) else {
            return Ok(());
        };
        if version < newest && self.block.stuck_behind != newest {
            let Some(txn) = &mut self.txn else { return Ok(()) };
            match txn.catch_up().in_sql()? {
                Some(true) => version = self.version_seen()?.unwrap_or(version),
                Some(false) => self.block.stuck_behind = newest,
                // The commit that made it is not durable and not acknowledged yet.
                None => {}
            }
        }
        let Some(txn) = &mut self.txn else { return Ok(()) };
        if self.own.catalog.version != version {
            self.own.catalog = match self.own.engine.catalog(version) {
                Some(catalog) => catalog,
                None => {
                    let catalog = Arc::new(store_error::fetched_now(|| Catalog::load(&mut **txn))?);
                    self.own.engine.keep_catalog(&catalog);
                    catalog
                }
            };
        }
        self.see_temporary()
    }

    /// Commits, or continues a commit that had to wait. After an error the transaction is rolled
    /// back.
    pub(super) fn commit_step(&mut self) -> Result<CommitStep> {
        self.own.calls.close_cursors();
        let commit = match (self.committing.take(), self.txn.take()) {
            (Some(queued), _) => queued.go_on(),
            (None, Some(txn)) => {
                self.txn = Some(txn);
                if let Err(error) = self.end_temporary_tables() {
                    self.abort_txn();
                    return Err(error);
                }
                let Some(mut txn) = self.txn.take() else { return Ok(CommitStep::Ended(None)) };
                if !self.own.own_sequences.is_empty()
                    && let Err(error) = self.own.write_sequences(&mut *txn)
                {
                    drop(txn);
                    self.own.notifications.forget();
                    self.forget_catalog();
                    return Err(error);
                }
                let hub = Arc::clone(self.own.engine.notifications());
                if let Err(error) = self.own.notifications.before_commit(&hub, self.own.number, &mut *txn) {
                    self.txn = Some(txn);
                    self.abort_txn();
                    return Err(error);
                }
                txn.commit_leaving(&mut self.remains)
            }
            (None, None) => return Ok(CommitStep::Ended(None)),
        };
        match commit {
            Ok(Commit::Queued(queued)) => {
                let turn = queued.turn();
                self.committing = Some(queued);
                Ok(CommitStep::Waits(turn))
            }
            Ok(Commit::Ended(ticket)) => {
                self.own.notifications.has_committed(&ticket);
                self.own.advisory.end_transaction();
                self.seen = self.seen.max(ticket.seen());
                if let Some(committed) = ticket.committed() {
                    self.own.last_commit = Some(committed.txn);
                }
                if self.block.catalog_changed {
                    match &self.own.temporary {
                        None => self.own.engine.keep_catalog(&self.own.catalog),
                        Some(_) => self.own.engine.keep_catalog(&Arc::new(self.own.catalog.without_temporary())),
                    }
                }
                if !self.own.own_sequences.is_empty() {
                    self.own.hand_over_sequences();
                }
                Ok(CommitStep::Ended(Some(ticket)))
            }
            Err(error) => {
                self.own.notifications.forget();
                self.own.advisory.end_transaction();
                self.forget_catalog();
                Err(in_sql(error))
            }
        }
    }

    /// Continues a commit until it is done; the thread waits.
    pub(super) fn commit_now(&mut self) -> Result<Option<CommitTicket>> {
        loop {
            match self.commit_step()? {
                CommitStep::Ended(ticket) => return Ok(ticket),
                CommitStep::Waits(turn) => turn.wait(),
            }
        }
    }

    /// Rolls the transaction back. The client may know what it saw: the ticket says when that is
    /// durable.
    pub(super) fn abort_txn(&mut self) -> Option<CommitTicket> {
        self.committing = None;
        self.own.calls.close_cursors();
        self.own.notifications.forget();
        self.own.advisory.end_transaction();
        let txn = self.txn.take()?;
        self.own.engine.activity().roll_back();
        let ticket = txn.ticket_of_reads();
        drop(txn);
        self.forget_catalog();
        Some(ticket)
    }

    pub(super) fn forget_catalog(&mut self) {
        if !self.own.own_sequences.is_empty() {
            // If the place cannot be written, the values are skipped.
            _ = self.own.take_back_sequences(OwnSequences::default());
        }
        let temporary_changed = std::mem::take(&mut self.block.temporary_changed);
        if std::mem::take(&mut self.block.catalog_changed) || temporary_changed {
            // Another transaction will use the number of this version.
            self.own.catalog = Arc::default();
            // What bodies have prepared may be of objects that are gone.
            self.own.calls.serial += 1;
        }
    }

    /// Settings at the end of a transaction: local ones end, and without a commit all changes are
    /// undone.
    pub(super) fn end_settings(&mut self, before: Option<Settings>, committed: bool) {
        let of_statement = self.own.settings_before.take();
        let mut changed = self.own.settings.forget_local();
        if let Some(before) = before.or(of_statement).filter(|_| !committed)
            && !self.own.settings.are_still(&before)
        {
            self.own.settings.go_back_to(before);
            changed = true;
        }
        // The meaning of some settings depends on the catalogue, too.
        if changed || self.block.catalog_changed || self.own.settings_changed {
            self.settings_set();
        }
    }

    /// Marks the current block as failed. Settings and modes go back at once to the beginning of
    /// the block, or to its last savepoint.
    pub(super) fn block_has_failed(&mut self) {
        self.state = TransactionState::Failed;
        self.own.settings_before = None;
        match self.block.savepoints.last() {
            // The other modes cannot change after a savepoint.
            Some(savepoint) => self.be_read_only(savepoint.read_only),
            None => {
                self.block.modes = self.block.modes_at_first;
                self.own.modes = Some(self.block.modes);
            }
        }
        let before = match self.block.savepoints.last() {
            Some(savepoint) => Some(&savepoint.settings),
            None => self.block.settings_before.as_ref(),
        };
        if let Some(before) = before.filter(|before| !self.own.settings.are_still(before)).cloned() {
            self.own.settings.go_back_to(before);
            self.settings_set();
        }
    }

    /// Ends a block: local settings are undone, and all changes of settings if it did not commit.
    pub(super) fn end_block(&mut self, committed: bool) {
        let before = self.block.settings_before.take();
        self.end_settings(before, committed);
        self.block = Block::default();
        self.own.deferral = Deferral::default();
        if self.own.modes.take().is_some() {
            self.env.surroundings = None;
        }
        if !self.cursors.is_empty() {
            self.end_cursors(committed);
        }
        self.repeats = false;
        self.blocks_ended += 1;
        self.state = TransactionState::Idle;
    }

    /// How many blocks have ended. Statements that are transactions by themselves do not count.
    #[must_use]
    pub fn blocks_ended(&self) -> u64 {
        self.blocks_ended
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
        /// The most statements that are remembered: the first ones of a long transaction.
        const STATEMENTS_MAX: usize = 16;
        let is_known = self.added.iter().any(|(_, known)| Arc::ptr_eq(known, counter));
        if !is_known && self.added.len() < STATEMENTS_MAX {
            self.added.push((space, Arc::clone(counter)));
        }
    }
}

impl Default for Block {
    fn default() -> Self {
        let modes = Modes { level: Level::default(), read_only: false, deferrable: false, level_is_asked: false };
        Self {
            implicit: false,
            pipelined: false,
            modes,
            modes_at_first: modes,
            savepoints: Vec::new(),
            settings_before: None,
            catalog_changed: false,
            temporary_changed: false,
            stuck_behind: 0,
            used: false,
            added: SmallVec::new(),
            depends: SmallVec::new(),
        }
    }
}

//! Advisory locks: `pg_advisory_lock` and its kin, by numbers that mean something to applications
//! only.
//!
//! A session holds one lock of a number however often it has asked for it, in the strongest mode of
//! those that it has asked for. The counts here say when the session releases it. Locks of `_xact_`
//! functions end with the transaction, the others when they are unlocked as often as they were
//! locked, or with the session.
//!
//! A statement that has to wait is broken off and runs again from its start, and so does one that
//! conflicts. Its changes of the counts are undone then, while the locks themselves are kept. A
//! lock without a count is released when the statement ends.
//!
//! Invariants
//! - The mode in the lock table is the strongest that has a count. While a statement runs it may be
//!   stronger.
//! - `by_statement` is empty between statements.

use std::collections::HashMap;

use colibri_catalog::store_error::in_sql;
use colibri_txn::{IfLocked, LockMode, OwnerId, SessionLocks, SpaceId};
use colibri_types::{Datum, Result};

use super::engine::Engine;

/// Locks by one number of 64 bits, and by two of 32. No rows lie there.
pub(crate) const BY_ONE: SpaceId = SpaceId(u32::MAX);
pub(crate) const BY_TWO: SpaceId = SpaceId(u32::MAX - 1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    space: SpaceId,
    number: u64,
}

/// How long a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Unlocked,
    TransactionEnds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Shared,
    Exclusive,
}

/// For each mode, how often a lock was taken and not unlocked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    by_session: [u32; 2],
    by_transaction: [u32; 2],
}

impl Counts {
    fn of(&mut self, mode: Mode, until: Until) -> &mut u32 {
        let counts = match until {
            Until::Unlocked => &mut self.by_session,
            Until::TransactionEnds => &mut self.by_transaction,
        };
        &mut counts[mode as usize]
    }

    fn has(&self, mode: Mode) -> bool {
        self.by_session[mode as usize] + self.by_transaction[mode as usize] > 0
    }

    /// The mode that the lock has to be held in.
    fn mode(&self) -> Option<LockMode> {
        if self.has(Mode::Exclusive) {
            Some(LockMode::Exclusive)
        } else {
            self.has(Mode::Shared).then_some(LockMode::Share)
        }
    }
}

/// A session's advisory locks.
#[derive(Default)]
pub(super) struct Advisory {
    /// Made when the session first asks for a lock.
    locks: Option<SessionLocks>,
    counts: HashMap<Key, Counts>,
    /// The counts that the current statement found, which come back if it runs again.
    by_statement: Vec<(Key, Counts)>,
    /// Locks that may be held in a stronger mode than their counts ask for.
    touched: Vec<Key>,
    /// Changes of what outlives a transaction.
    changes: u64,
    /// Pending warnings: modes of locks that were unlocked and not held.
    unowned: Vec<&'static str>,
}

impl Advisory {
    /// Calls a function by its name, for a session with this transaction.
    pub(super) fn call(
        &mut self,
        engine: &Engine,
        transaction: Option<OwnerId>,
        name: &str,
        args: &[Datum],
    ) -> Result<Datum> {
        if name == "pg_advisory_unlock_all" {
            self.unlock_all();
            return Ok(Datum::text(""));
        }
        let key = match args {
            [Datum::Int(number)] => Key { space: BY_ONE, number: *number as u64 },
            [Datum::Int(first), Datum::Int(second)] => {
                Key { space: BY_TWO, number: u64::from(*first as u32) << 32 | u64::from(*second as u32) }
            }
            _ => return Ok(Datum::Null),
        };
        let mode = if name.ends_with("_shared") { Mode::Shared } else { Mode::Exclusive };
        if name.starts_with("pg_advisory_unlock") {
            return Ok(Datum::Bool(self.unlock(key, mode)));
        }
        let until = if name.contains("_xact_") { Until::TransactionEnds } else { Until::Unlocked };
        let tries = name.starts_with("pg_try_");
        let if_locked = if tries { IfLocked::Refuse } else { IfLocked::Wait };
        let locks = self.locks.get_or_insert_with(|| engine.store().session_locks());
        if let Some(transaction) = transaction {
            locks.works_as(transaction);
        }
        if !self.counts.get(&key).is_some_and(|counts| counts.has(mode)) {
            let wanted = if mode == Mode::Shared { LockMode::Share } else { LockMode::Exclusive };
            // A lock that is granted after its waiter has given up is released.
            self.touched.push(key);
            match locks.take(key.space, key.number, wanted, if_locked) {
                Ok(()) => {}
                Err(colibri_txn::Error::NotAvailable) if tries => return Ok(Datum::Bool(false)),
                Err(error) => return Err(in_sql(error)),
            }
        }
        *self.noted(key).of(mode, until) += 1;
        self.changes += u64::from(until == Until::Unlocked);
        Ok(if tries { Datum::Bool(true) } else { Datum::text("") })
    }

    /// The counts of a lock that are about to change.
    fn noted(&mut self, key: Key) -> &mut Counts {
        let counts = self.counts.entry(key).or_default();
        self.by_statement.push((key, *counts));
        self.touched.push(key);
        counts
    }

    fn unlock(&mut self, key: Key, mode: Mode) -> bool {
        let held = self.counts.get(&key).is_some_and(|counts| counts.by_session[mode as usize] > 0);
        if held {
            *self.noted(key).of(mode, Until::Unlocked) -= 1;
            self.changes += 1;
        } else {
            self.unowned.push(if mode == Mode::Shared { "ShareLock" } else { "ExclusiveLock" });
        }
        held
    }

    /// Releases all locks of the session, but not those of the transaction.
    pub(super) fn unlock_all(&mut self) {
        let keys: Vec<Key> = self.counts.keys().copied().collect();
        for key in keys {
            self.noted(key).by_session = [0; 2];
        }
        self.changes += 1;
    }

    /// Undoes the current statement's changes, as it runs again from its start.
    pub(super) fn take_statement_back(&mut self) {
        for (key, before) in self.by_statement.drain(..).rev() {
            self.counts.insert(key, before);
        }
        self.unowned.clear();
    }

    /// Ends the current statement, whether it succeeded or failed. Gives its warnings.
    pub(super) fn end_statement(&mut self) -> Vec<&'static str> {
        self.by_statement.clear();
        self.let_go();
        std::mem::take(&mut self.unowned)
    }

    /// Whether [`Advisory::end_statement`] has anything to do.
    pub(super) fn has_changed(&self) -> bool {
        !self.touched.is_empty() || !self.unowned.is_empty()
    }

    /// The transaction is over.
    pub(super) fn end_transaction(&mut self) {
        if self.counts.is_empty() {
            return;
        }
        self.set_transaction_counts(&HashMap::new());
    }

    /// Whether the transaction holds any.
    pub(super) fn is_held_by_transaction(&self) -> bool {
        self.counts.values().any(|counts| counts.by_transaction != [0; 2])
    }

    /// The locks of the transaction, for a savepoint.
    pub(super) fn transaction_counts(&self) -> HashMap<Key, Counts> {
        self.counts.clone()
    }

    /// Goes back to the transaction's locks at a savepoint.
    pub(super) fn set_transaction_counts(&mut self, before: &HashMap<Key, Counts>) {
        for (key, counts) in &mut self.counts {
            let before = before.get(key).map_or([0; 2], |before| before.by_transaction);
            if counts.by_transaction != before {
                counts.by_transaction = before;
                self.touched.push(*key);
            }
        }
        // A statement that may run again keeps the counts that it found.
        for (key, counts) in &mut self.by_statement {
            counts.by_transaction = before.get(key).map_or([0; 2], |before| before.by_transaction);
        }
        if self.by_statement.is_empty() {
            self.let_go();
        }
    }

    /// Whether a lock is held that outlives its transaction.
    pub(super) fn outlives_transactions(&self) -> bool {
        self.counts.values().any(|counts| counts.by_session != [0; 2])
    }

    /// Sets the transaction that the session is in.
    pub(super) fn works_as(&self, transaction: OwnerId) {
        if let Some(locks) = self.locks.as_ref().filter(|_| !self.counts.is_empty()) {
            locks.works_as(transaction);
        }
    }

    /// The session's number among owners of locks.
    pub(super) fn owner(&self) -> Option<OwnerId> {
        self.locks.as_ref().map(SessionLocks::owner)
    }

    /// A number that changes with each change that a rollback does not undo.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Weakens or releases each lock to the mode that its counts ask for.
    fn let_go(&mut self) {
        let Some(locks) = &mut self.locks else { return };
        for key in self.touched.drain(..) {
            match self.counts.get(&key).and_then(Counts::mode) {
                Some(LockMode::Exclusive) => {}
                Some(mode) => locks.weaken(key.space, key.number, mode),
                None => {
                    locks.release(key.space, key.number);
                    self.counts.remove(&key);
                }
            }
        }
    }
}

/// The functions that [`Advisory::call`] knows.
pub(super) fn is_advisory(name: &str) -> bool {
    name.starts_with("pg_advisory_") || name.starts_with("pg_try_advisory_")
}

/// The warning of PostgreSQL for a lock that is unlocked and not held.
pub(super) fn unowned_message(mode: &str) -> String {
    format!("you don't own a lock of type {mode}")
}

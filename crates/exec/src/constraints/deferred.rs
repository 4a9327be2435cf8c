//! Checks of foreign keys and of deferrable keys that are put off until the transaction ends, or
//! until SET CONSTRAINTS asks for them.
//!
//! Invariants: a check looks at the rows as they are when it is made. So it may be made more often
//! than needed, and one of what has been taken back meanwhile finds nothing wrong.

use std::sync::Arc;

use colibri_catalog::{Index, ObjectId, Table, Timing};
use colibri_txn::Key;
use colibri_types::Result;

use super::actions::{Event, Round, expect_allowed};
use super::exclusion::expect_single;
use super::references::Unchecked;
use crate::memory::Reservation;
use crate::triggers::PutOff;
use crate::{Exec, SessionCalls};

/// A check that is put off.
pub struct Deferred {
    constraint: ObjectId,
    check: Check,
    /// What it takes in memory.
    _memory: Reservation,
}

enum Check {
    /// Two rows had the same values of a deferrable key.
    Key(Arc<Table>, Arc<Index>, Key),
    /// A row refers to one that was not there.
    Row(Unchecked),
    /// A row has gone that others may refer to.
    Gone(Event),
    /// A constraint trigger has yet to fire.
    Trigger(PutOff),
}

impl Deferred {
    pub(super) fn row(ex: &mut Exec<'_, '_>, constraint: ObjectId, row: Unchecked) -> Result<Self> {
        Self::new(ex, constraint, size_of::<Self>() + row.key_bytes(), Check::Row(row))
    }

    /// Two rows have the same values of a deferrable key, as yet.
    pub(super) fn key(ex: &mut Exec<'_, '_>, table: &Table, index: &Index, values: Key) -> Result<Self> {
        let bytes = size_of::<Self>() + size_of::<Table>() + values.len();
        Self::new(ex, index.id, bytes, Check::Key(Arc::new(table.clone()), Arc::new(index.clone()), values))
    }

    pub(super) fn gone(ex: &mut Exec<'_, '_>, constraint: ObjectId, event: Event, bytes: usize) -> Result<Self> {
        Self::new(ex, constraint, size_of::<Self>() + bytes, Check::Gone(event))
    }

    /// A constraint trigger that has yet to fire. `bytes` is the size of the row that it is given.
    pub(crate) fn trigger(ex: &mut Exec<'_, '_>, constraint: ObjectId, put_off: PutOff, bytes: usize) -> Result<Self> {
        Self::new(ex, constraint, size_of::<Self>() + bytes, Check::Trigger(put_off))
    }

    /// Whether it calls a function of a user's.
    #[must_use]
    pub fn calls_routine(&self) -> bool {
        matches!(self.check, Check::Trigger(_))
    }

    fn new(ex: &mut Exec<'_, '_>, constraint: ObjectId, bytes: usize, check: Check) -> Result<Self> {
        let mut memory = Reservation::default();
        memory.add(ex.cx.memory, bytes)?;
        Ok(Self { constraint, check, _memory: memory })
    }

    /// Whose check it is.
    #[must_use]
    pub fn constraint(&self) -> ObjectId {
        self.constraint
    }

    /// Whether it is about rows of a table, or about rows that refer to these.
    #[must_use]
    pub fn is_about(&self, table: ObjectId) -> bool {
        match &self.check {
            Check::Key(of, ..) => of.id == table,
            Check::Row(row) => row.table() == table,
            Check::Gone(event) => event.table.id == table || event.rule().source.id == table,
            Check::Trigger(put_off) => put_off.table() == table,
        }
    }

    /// Makes the check.
    ///
    /// # Errors
    /// 23503, 23505, and of the transaction.
    pub fn check(&self, ex: &mut Exec<'_, '_>) -> Result<()> {
        match &self.check {
            Check::Key(table, index, values) => expect_single(ex, table, index, values),
            Check::Row(row) => row.check(ex),
            Check::Gone(event) => expect_allowed(ex, &Round::default(), event),
            Check::Trigger(put_off) => put_off.fire(ex),
        }
    }
}

/// Whether a constraint's checks are put off now.
pub(super) fn is_deferred(session: &dyn SessionCalls, constraint: ObjectId, timing: Timing) -> bool {
    !timing.is_fixed() && session.is_deferred(constraint, timing)
}

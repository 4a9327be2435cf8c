//! Sequences that a transaction has made, changed or set back.
//!
//! What `nextval` gives is never taken back, but what a sequence is belongs to the catalogue, and CREATE, ALTER and RESTART
//! go with their transaction. A sequence that a transaction has made or set back stands at a place of the transaction's
//! own, which is written with the rest of the transaction at its commit, and handed to all sessions then. One that it has
//! changed goes on for all, so that no two are given the same value; if the transaction is taken back and nobody else has
//! used the sequence, it goes back to where it stood.
//!
//! Invariants: a sequence that was never committed leaves nothing behind, in memory or on disk: its number may be given to
//! another one. A savepoint keeps which of these there were, not where they stood: values given since are not given again.

use std::collections::HashMap;
use std::sync::Arc;

use colibri_catalog::{ObjectId, Sequence, catalog_space, sequence_state_key, store_error::InSql as _};
use colibri_txn::Transaction;
use colibri_types::{Error, Result, SqlState};
use parking_lot::Mutex;

use super::engine::{SequencePlace, after, check_value};
use super::own::Own;

/// A transaction's own sequences. Savepoints share them.
pub(super) type OwnSequences = HashMap<ObjectId, Arc<OwnSequence>>;

/// What a transaction has done to a sequence last.
pub(super) struct OwnSequence {
    stand: Mutex<Stand>,
    /// What it did before that.
    earlier: Option<Arc<Self>>,
}

#[derive(Debug, Clone, Copy)]
enum Stand {
    /// It was made, or set back: nobody else sees where it stands.
    Apart(SequencePlace),
    /// It was changed where it stood before, and the transaction has left it there: others may have moved it since.
    Shared { before: SequencePlace, left: SequencePlace },
}

impl Own {
    /// Refuses what moves a sequence where nothing may be written.
    fn expect_may_write(&self, function: &str) -> Result<()> {
        if !self.read_only {
            return Ok(());
        }
        let message = format!("cannot execute {function}() in a read-only transaction");
        Err(Error::new(SqlState::READ_ONLY_TRANSACTION, message))
    }

    /// `nextval`
    pub(super) fn take_value(&mut self, sequence: &Sequence) -> Result<i64> {
        self.expect_may_write("nextval")?;
        let value = match self.own_sequences.get(&sequence.id) {
            None => self.engine.next_value(sequence)?,
            Some(own) => match &mut *own.stand.lock() {
                Stand::Apart(place) => {
                    let next = if place.called { after(sequence, place.value)? } else { place.value };
                    *place = SequencePlace { value: next, called: true };
                    next
                }
                Stand::Shared { left, .. } => {
                    let next = self.engine.next_value(sequence)?;
                    *left = SequencePlace { value: next, called: true };
                    next
                }
            },
        };
        self.current.insert(sequence.id, value);
        self.last = Some(sequence.id);
        Ok(value)
    }

    /// `setval`
    pub(super) fn set_value(&mut self, sequence: &Sequence, value: i64, called: bool) -> Result<()> {
        self.expect_may_write("setval")?;
        check_value(sequence, value)?;
        let new = SequencePlace { value, called };
        match self.own_sequences.get(&sequence.id) {
            None => self.engine.set_value(sequence, value, called)?,
            Some(own) => match &mut *own.stand.lock() {
                Stand::Apart(place) => *place = new,
                Stand::Shared { left, .. } => {
                    self.engine.set_value(sequence, value, called)?;
                    *left = new;
                }
            },
        }
        // `lastval` goes on speaking of the sequence that `nextval` was called for.
        if called {
            self.current.insert(sequence.id, value);
        }
        Ok(())
    }

    /// Where a sequence stands, as this session sees it.
    pub(super) fn place_of(&self, sequence: &Sequence) -> Result<SequencePlace> {
        match self.own_sequences.get(&sequence.id).map(|own| *own.stand.lock()) {
            Some(Stand::Apart(place)) => Ok(place),
            Some(Stand::Shared { .. }) | None => self.engine.place(sequence),
        }
    }

    fn put_own(&mut self, id: ObjectId, stand: Stand) {
        let earlier = self.own_sequences.remove(&id);
        self.own_sequences.insert(id, Arc::new(OwnSequence { stand: Mutex::new(stand), earlier }));
    }

    /// A sequence that the transaction makes.
    pub(super) fn add_sequence(&mut self, sequence: &Sequence) {
        self.set_back(sequence, sequence.start);
        // Another one of its number may have been taken back.
        self.current.remove(&sequence.id);
        self.last = self.last.filter(|&last| last != sequence.id);
    }

    /// A sequence goes back to a value, which it gives next, if the transaction commits.
    pub(super) fn set_back(&mut self, sequence: &Sequence, to: i64) {
        self.put_own(sequence.id, Stand::Apart(SequencePlace { value: to, called: false }));
    }

    /// A sequence changes, and goes on from where it stands.
    pub(super) fn change_sequence(&mut self, sequence: &Sequence) -> Result<()> {
        let stand = match self.own_sequences.get(&sequence.id).map(|own| *own.stand.lock()) {
            Some(Stand::Apart(place)) => Stand::Apart(place),
            Some(Stand::Shared { .. }) | None => {
                let place = self.engine.place(sequence)?;
                Stand::Shared { before: place, left: place }
            }
        };
        self.put_own(sequence.id, stand);
        Ok(())
    }

    /// Writes where the transaction's own sequences stand, as it is about to commit.
    pub(super) fn write_sequences(&self, txn: &mut dyn Transaction) -> Result<()> {
        for (sequence, place) in self.apart() {
            txn.put(&catalog_space(), &sequence_state_key(sequence.id), &place.to_bytes()).in_sql()?;
        }
        Ok(())
    }

    /// Hands the transaction's own sequences over to all sessions: it has committed.
    pub(super) fn hand_over_sequences(&mut self) {
        for (sequence, place) in self.apart() {
            self.engine.take_over(&sequence, place);
        }
        self.own_sequences.clear();
    }

    /// Those that nobody else sees, without those that are gone by now.
    fn apart(&self) -> Vec<(Arc<Sequence>, SequencePlace)> {
        let apart = |sequence: &Arc<Sequence>| match *self.own_sequences.get(&sequence.id)?.stand.lock() {
            Stand::Apart(place) => Some((Arc::clone(sequence), place)),
            Stand::Shared { .. } => None,
        };
        self.catalog.sequences().filter_map(apart).collect()
    }

    /// Goes back to what the transaction had done to sequences at a savepoint, or before it began.
    pub(super) fn take_back_sequences(&mut self, kept: OwnSequences) -> Result<()> {
        for (id, own) in std::mem::replace(&mut self.own_sequences, kept) {
            let until = self.own_sequences.get(&id);
            let mut next = Some(own);
            while let Some(own) = next.filter(|own| until.is_none_or(|until| !Arc::ptr_eq(until, own))) {
                if let Stand::Shared { before, left } = *own.stand.lock() {
                    self.engine.put_back(id, left, before)?;
                }
                next = own.earlier.clone();
            }
        }
        Ok(())
    }
}

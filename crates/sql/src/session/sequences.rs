//! Sequences that a transaction has made, changed or set back.
//!
//! What `nextval` gives is never taken back, but what a sequence is belongs to the catalogue, and CREATE, ALTER and RESTART
//! go with their transaction: so a sequence that a transaction has done one of these to stands at a place of the
//! transaction's own. At the commit the place is written with the rest of the transaction, and handed to all sessions
//! then; when the transaction is taken back, wholly or to a savepoint, it is dropped, and the sequence stands where it
//! stood.
//!
//! Invariants: a sequence that was never committed leaves nothing behind, in memory or on disk: its number may be given to
//! another one. A savepoint keeps which places there were, not where they stood: values given since are not given again.

use std::collections::HashMap;
use std::sync::Arc;

use colibri_txn::Transaction;
use parking_lot::Mutex;

use super::calls::Own;
use super::engine::{SequencePlace, after, check_value};
use crate::catalog::{ObjectId, Sequence, catalog_space, sequence_state_key};
use crate::error::{Error, Result, SqlState};

/// Places of a transaction's own sequences. Savepoints share them.
pub(super) type OwnSequences = HashMap<ObjectId, Arc<Mutex<OwnPlace>>>;

/// Where a transaction's own sequence stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnPlace {
    place: SequencePlace,
    /// Where the sequence stood for all when it was changed: values that others have taken since are not to be given
    /// again. `None`: the sequence is new, or was set back on purpose.
    changed_at: Option<SequencePlace>,
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
            Some(own) => {
                let place = &mut own.lock().place;
                let next = if place.called { after(sequence, place.value)? } else { place.value };
                *place = SequencePlace { value: next, called: true };
                next
            }
        };
        self.current.insert(sequence.id, value);
        self.last = Some(sequence.id);
        Ok(value)
    }

    /// `setval`
    pub(super) fn set_value(&mut self, sequence: &Sequence, value: i64, called: bool) -> Result<()> {
        self.expect_may_write("setval")?;
        check_value(sequence, value)?;
        match self.own_sequences.get(&sequence.id) {
            None => self.engine.set_value(sequence, value, called)?,
            Some(own) => *own.lock() = OwnPlace { place: SequencePlace { value, called }, changed_at: None },
        }
        // `lastval` goes on speaking of the sequence that `nextval` was called for.
        if called {
            self.current.insert(sequence.id, value);
        }
        Ok(())
    }

    /// Where a sequence stands, as this session sees it.
    pub(super) fn place_of(&self, sequence: &Sequence) -> Result<SequencePlace> {
        match self.own_sequences.get(&sequence.id) {
            Some(own) => Ok(own.lock().place),
            None => self.engine.place(sequence),
        }
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
        let own = OwnPlace { place: SequencePlace { value: to, called: false }, changed_at: None };
        self.own_sequences.insert(sequence.id, Arc::new(Mutex::new(own)));
    }

    /// A sequence changes, and goes on from where it stands.
    pub(super) fn change_sequence(&mut self, sequence: &Sequence) -> Result<()> {
        let own = match self.own_sequences.get(&sequence.id) {
            Some(own) => *own.lock(),
            None => {
                let place = self.engine.place(sequence)?;
                OwnPlace { place, changed_at: Some(place) }
            }
        };
        self.own_sequences.insert(sequence.id, Arc::new(Mutex::new(own)));
        Ok(())
    }

    /// Writes the places of the transaction's own sequences, as it is about to commit.
    pub(super) fn write_sequences(&self, txn: &mut dyn Transaction) -> Result<()> {
        for (sequence, own) in self.settled() {
            let place = self.settle(&sequence, own)?;
            txn.put(&catalog_space(), &sequence_state_key(sequence.id), &place.to_bytes())?;
        }
        Ok(())
    }

    /// Hands the transaction's own sequences over to all sessions: it has committed.
    pub(super) fn hand_over_sequences(&mut self) -> Result<()> {
        for (sequence, own) in self.settled() {
            let place = self.settle(&sequence, own)?;
            self.engine.take_over(&sequence, place);
        }
        self.own_sequences.clear();
        Ok(())
    }

    /// Those that are still there, without those that were changed and stand where they stood.
    fn settled(&self) -> Vec<(Arc<Sequence>, OwnPlace)> {
        let own = |sequence: &Arc<Sequence>| {
            let own = *self.own_sequences.get(&sequence.id)?.lock();
            (own.changed_at != Some(own.place)).then(|| (Arc::clone(sequence), own))
        };
        self.catalog.sequences().filter_map(own).collect()
    }

    fn settle(&self, sequence: &Sequence, own: OwnPlace) -> Result<SequencePlace> {
        let Some(before) = own.changed_at else { return Ok(own.place) };
        let now = self.engine.place(sequence)?;
        Ok(if now == before { own.place } else { own.place.farther(now, sequence) })
    }
}

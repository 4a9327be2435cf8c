//! Sequences that a transaction has created, changed or restarted.
//!
//! `nextval` is never rolled back, but CREATE, ALTER and RESTART of a sequence belong to their
//! transaction. A sequence that a transaction has created or restarted has a private position,
//! which is written at the commit, together with the rest of the transaction, and becomes the
//! position for all sessions then. A sequence that it has changed keeps its shared position, so
//! that no value is given twice. If the transaction is rolled back and no other session has used
//! the sequence, the position goes back.
//!
//! Invariants: a sequence that was never committed leaves nothing behind, in memory or on disk: its
//! number may be used again. A savepoint remembers which of these sequences existed, not their
//! positions: values given since are not given again.

use std::collections::HashMap;
use std::sync::Arc;

use colibri_catalog::temporary::is_temporary;
use colibri_catalog::{ObjectId, Sequence, catalog_space, sequence_state_key, store_error::InSql as _};
use colibri_txn::Transaction;
use colibri_types::Result;
use parking_lot::Mutex;

use super::engine::{SequencePlace, after, check_value};
use super::own::Own;

/// A transaction's own sequences. Savepoints share them.
pub(super) type OwnSequences = HashMap<ObjectId, Arc<OwnSequence>>;

/// The last change of a sequence by a transaction.
#[derive(Debug)]
pub(crate) struct OwnSequence {
    stand: Mutex<Stand>,
    /// The change before that.
    earlier: Option<Arc<Self>>,
}

#[derive(Debug, Clone, Copy)]
enum Stand {
    /// It was created or restarted: other sessions do not see its position.
    Apart(SequencePlace),
    /// It was changed and keeps its shared position: the one `before` the change, and the one that
    /// the transaction has `left`. Other sessions may have moved it since.
    Shared { before: SequencePlace, left: SequencePlace },
}

impl OwnSequence {
    /// Where it stands for its transaction alone: its value, and whether it has given it.
    pub(crate) fn apart(&self) -> Option<(i64, bool)> {
        match *self.stand.lock() {
            Stand::Apart(place) => Some((place.value, place.called)),
            Stand::Shared { .. } => None,
        }
    }
}

impl Own {
    /// Refuses `nextval` and `setval` in a read-only transaction.
    fn expect_may_write(&self, function: &str, sequence: &Sequence) -> Result<()> {
        if !self.read_only || is_temporary(sequence.id) {
            return Ok(());
        }
        Err(self.refusal(format!("cannot execute {function}() in a read-only transaction")))
    }

    /// `nextval`
    pub(super) fn take_value(&mut self, sequence: &Sequence) -> Result<i64> {
        self.expect_may_write("nextval", sequence)?;
        let value = match self.own_sequences.get(&sequence.id).cloned() {
            None => self.next_of_all(sequence)?,
            Some(own) => match &mut *own.stand.lock() {
                Stand::Apart(place) => {
                    let next = if place.called { after(sequence, place.value)? } else { place.value };
                    *place = SequencePlace { value: next, called: true };
                    next
                }
                Stand::Shared { left, .. } => {
                    let next = self.next_of_all(sequence)?;
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
        self.expect_may_write("setval", sequence)?;
        check_value(sequence, value)?;
        let new = SequencePlace { value, called };
        match self.own_sequences.get(&sequence.id).cloned() {
            None => self.set_of_all(sequence, value, called)?,
            Some(own) => match &mut *own.stand.lock() {
                Stand::Apart(place) => *place = new,
                Stand::Shared { left, .. } => {
                    self.set_of_all(sequence, value, called)?;
                    *left = new;
                }
            },
        }
        // `lastval` still refers to the sequence of the last `nextval`.
        if called {
            self.current.insert(sequence.id, value);
        }
        Ok(())
    }

    /// The position of a sequence as this session sees it.
    pub(super) fn place_of(&self, sequence: &Sequence) -> Result<SequencePlace> {
        match self.own_sequences.get(&sequence.id).map(|own| *own.stand.lock()) {
            Some(Stand::Apart(place)) => Ok(place),
            Some(Stand::Shared { .. }) | None => self.place_of_all(sequence),
        }
    }

    fn put_own(&mut self, id: ObjectId, stand: Stand) {
        let earlier = self.own_sequences.remove(&id);
        self.own_sequences.insert(id, Arc::new(OwnSequence { stand: Mutex::new(stand), earlier }));
    }

    /// Adds a sequence that the transaction creates.
    pub(super) fn add_sequence(&mut self, sequence: &Sequence) {
        self.set_back(sequence, sequence.start);
        // A sequence with the same number may have been rolled back before.
        self.current.remove(&sequence.id);
        self.last = self.last.filter(|&last| last != sequence.id);
    }

    /// Restarts a sequence, if the transaction commits: the given value comes next.
    pub(super) fn set_back(&mut self, sequence: &Sequence, to: i64) {
        self.put_own(sequence.id, Stand::Apart(SequencePlace { value: to, called: false }));
    }

    /// Changes a sequence, which keeps its position.
    pub(super) fn change_sequence(&mut self, sequence: &Sequence) -> Result<()> {
        let stand = match self.own_sequences.get(&sequence.id).map(|own| *own.stand.lock()) {
            Some(Stand::Apart(place)) => Stand::Apart(place),
            Some(Stand::Shared { .. }) | None => {
                let place = self.place_of_all(sequence)?;
                Stand::Shared { before: place, left: place }
            }
        };
        self.put_own(sequence.id, stand);
        Ok(())
    }

    /// Writes the private positions before the transaction commits.
    pub(super) fn write_sequences(&self, txn: &mut dyn Transaction) -> Result<()> {
        for (sequence, place) in self.apart().into_iter().filter(|(sequence, _)| !is_temporary(sequence.id)) {
            txn.put(&catalog_space(), &sequence_state_key(sequence.id), &place.to_bytes()).in_sql()?;
        }
        Ok(())
    }

    /// Publishes the private positions to all sessions after the commit.
    pub(super) fn hand_over_sequences(&mut self) {
        for (sequence, place) in self.apart() {
            self.take_over(&sequence, place);
        }
        self.own_sequences.clear();
    }

    /// The sequences with private positions, without dropped ones.
    fn apart(&self) -> Vec<(Arc<Sequence>, SequencePlace)> {
        let apart = |sequence: &Arc<Sequence>| match *self.own_sequences.get(&sequence.id)?.stand.lock() {
            Stand::Apart(place) => Some((Arc::clone(sequence), place)),
            Stand::Shared { .. } => None,
        };
        self.catalog.sequences().filter_map(apart).collect()
    }

    /// Goes back to the transaction's changes of sequences at a savepoint, or at its beginning.
    pub(super) fn take_back_sequences(&mut self, kept: OwnSequences) -> Result<()> {
        for (id, own) in std::mem::replace(&mut self.own_sequences, kept) {
            let until = self.own_sequences.get(&id).cloned();
            let mut next = Some(own);
            while let Some(own) = next.filter(|own| until.as_ref().is_none_or(|until| !Arc::ptr_eq(until, own))) {
                if let Stand::Shared { before, left } = *own.stand.lock() {
                    self.put_back(id, left, before)?;
                }
                next = own.earlier.clone();
            }
        }
        Ok(())
    }
}

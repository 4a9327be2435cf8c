//! Keys, each once, that are asked for one by one: the newest in memory, the others on disk when
//! that is full.
//!
//! Invariants: no key is both in memory and on disk.

use std::sync::Arc;

use colibri_types::{Datum, Result};

use super::group::{Groups, hash_values};
use super::memory::{Reservation, SessionMemory, Use};
use super::row_bytes;
use super::spill::{KeyIndex, SpillFile};

/// Keys of one width; NULL is equal to NULL.
pub(super) struct SeenKeys {
    newest: Groups,
    in_texts: usize,
    memory: Reservation,
    others: Option<Box<KeyIndex>>,
    width: usize,
}

impl SeenKeys {
    pub(super) fn new(width: usize) -> Self {
        Self { newest: Groups::new(width), in_texts: 0, memory: Reservation::default(), others: None, width }
    }

    /// Whether a key is there.
    pub(super) fn contains(&mut self, key: &[Datum]) -> Result<bool> {
        if self.newest.find(key).is_some() {
            return Ok(true);
        }
        match &mut self.others {
            Some(others) => others.contains(hash_values(key.iter()), key),
            None => Ok(false),
        }
    }

    /// Adds a key; `false` if it is there.
    pub(super) fn insert(&mut self, key: &[Datum]) -> Result<bool> {
        if self.others.is_some() && self.contains(key)? {
            return Ok(false);
        }
        let (_, new) = self.newest.find_or_add(key);
        self.in_texts += if new { row_bytes(key) - size_of_val(key) } else { 0 };
        Ok(new)
    }

    /// Has keys go to disk if memory is full. To be called now and then while keys are added.
    pub(super) fn heed_memory(&mut self, memory: &Arc<SessionMemory>) -> Result<()> {
        let filter = self.others.as_ref().map_or(0, |others| others.bytes_in_memory());
        if self.memory.hold(memory, self.newest.bytes() + self.in_texts + filter, Use::Hash) {
            return Ok(());
        }
        let others = match &mut self.others {
            Some(others) => others,
            none => {
                let bytes_max = Use::Hash.bytes_max(memory);
                let file = SpillFile::for_look_ups(memory)?;
                none.insert(Box::new(KeyIndex::new(file, self.width, bytes_max)))
            }
        };
        others.add(&self.newest)?;
        self.newest = Groups::new(self.width);
        self.in_texts = 0;
        let filter = others.bytes_in_memory();
        self.memory.hold(memory, filter, Use::Hash);
        Ok(())
    }

    /// Bytes on disk, and the most in memory.
    pub(super) fn usage(&self) -> (u64, usize) {
        (self.others.as_ref().map_or(0, |others| others.bytes()), self.memory.peak())
    }
}

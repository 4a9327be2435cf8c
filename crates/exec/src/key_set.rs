//! Sets of rows' keys: which rows a statement has changed.
//!
//! A set that outgrows its memory is moved, all of it at once. One of many keys is therefore kept
//! as many small ones, which grow one by one; letting go of them polls between two: see
//! [`colibri_types::pulse`].

use std::collections::HashSet;
use std::hash::BuildHasher;

use colibri_txn::Key;
use colibri_types::pulse;

/// Keys that are kept in one set.
const WHOLE_MAX: usize = 4096;
/// Sets that many keys are kept in.
const PARTS: usize = 256;

/// Keys, each once.
#[derive(Default)]
pub(super) struct KeySet {
    hasher: foldhash::fast::RandomState,
    whole: HashSet<Key, foldhash::fast::RandomState>,
    /// Empty until there are many.
    parts: Vec<HashSet<Key, foldhash::fast::RandomState>>,
}

impl KeySet {
    /// Adds a key; `false` if it is there.
    pub(super) fn insert(&mut self, key: Key) -> bool {
        if self.parts.is_empty() {
            if self.whole.len() < WHOLE_MAX {
                return self.whole.insert(key);
            }
            self.parts.resize_with(PARTS, HashSet::default);
            for key in std::mem::take(&mut self.whole) {
                let part = self.part(&key);
                self.parts[part].insert(key);
            }
        }
        let part = self.part(&key);
        self.parts[part].insert(key)
    }

    /// Whether a key is there.
    pub(super) fn contains(&self, key: &Key) -> bool {
        if self.parts.is_empty() { self.whole.contains(key) } else { self.parts[self.part(key)].contains(key) }
    }

    fn part(&self, key: &Key) -> usize {
        self.hasher.hash_one(key) as usize % PARTS
    }
}

impl Drop for KeySet {
    fn drop(&mut self) {
        while let Some(part) = self.parts.pop() {
            pulse::note(part.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_there_once_however_many_there_are() {
        let mut set = KeySet::default();
        let key = |number: usize| Key::from_slice(&number.to_be_bytes());
        for round in 0..2 {
            for number in 0..3 * WHOLE_MAX {
                assert_eq!(set.contains(&key(number)), round == 1, "{number}");
                assert_eq!(set.insert(key(number)), round == 0, "{number}");
            }
        }
        assert!(!set.contains(&key(3 * WHOLE_MAX)));
    }
}

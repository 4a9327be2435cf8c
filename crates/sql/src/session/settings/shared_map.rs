//! Names and what belongs to them, in the order of the names: a map whose copies share what they
//! have in common.
//!
//! Transactions and savepoints keep copies of a session's settings, and a program may make up as
//! many settings as it likes. So a change of a map that has copies takes one chunk of it, not all
//! of it:
//! ```text
//! map ──► [ ● ][ ● ][ ● ]      the list of chunks: copied by a change, if it is shared
//!           │    │    └─► (q..t)
//!           │    └──────► (h..p)   a chunk of at most CHUNK_MAX: copied if a change is about it
//!           └───────────► (a..g)
//! ```
//! Invariants: no chunk is empty; names ascend within and across chunks.

use std::sync::Arc;

use compact_str::CompactString;

/// Names in a chunk: one that has more is divided.
const CHUNK_MAX: usize = 64;

type Chunk<V> = Arc<Vec<(CompactString, V)>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharedMap<V>(Arc<Vec<Chunk<V>>>);

impl<V> Default for SharedMap<V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<V: Clone> SharedMap<V> {
    /// The chunk in which a name is or would be; one past the last if it is greater than all.
    fn chunk_of(&self, name: &str) -> usize {
        self.0.partition_point(|chunk| chunk.last().is_some_and(|(last, _)| last.as_str() < name))
    }

    pub(super) fn get(&self, name: &str) -> Option<&V> {
        let chunk = self.0.get(self.chunk_of(name))?;
        let place = chunk.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        Some(&chunk[place].1)
    }

    pub(super) fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &CompactString> {
        self.0.iter().flat_map(|chunk| chunk.iter().map(|(name, _)| name))
    }

    pub(super) fn insert(&mut self, name: CompactString, value: V) {
        let at = self.chunk_of(&name);
        let chunks = Arc::make_mut(&mut self.0);
        let Some(last) = chunks.len().checked_sub(1) else {
            chunks.push(Arc::new(vec![(name, value)]));
            return;
        };
        let at = at.min(last);
        let chunk = Arc::make_mut(&mut chunks[at]);
        match chunk.binary_search_by(|(known, _)| known.cmp(&name)) {
            Ok(place) => chunk[place].1 = value,
            Err(place) => chunk.insert(place, (name, value)),
        }
        if chunk.len() > CHUNK_MAX {
            let second = chunk.split_off(chunk.len() / 2);
            chunks.insert(at + 1, Arc::new(second));
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if !self.contains_key(name) {
            return;
        }
        let at = self.chunk_of(name);
        let chunks = Arc::make_mut(&mut self.0);
        let chunk = Arc::make_mut(&mut chunks[at]);
        chunk.retain(|(known, _)| known.as_str() != name);
        if chunk.is_empty() {
            chunks.remove(at);
        }
    }

    /// Forgets the names for which `stays` does not say so.
    pub(super) fn retain(&mut self, stays: impl Fn(&str) -> bool) {
        if self.keys().all(|name| stays(name)) {
            return;
        }
        let chunks = Arc::make_mut(&mut self.0);
        for chunk in chunks.iter_mut() {
            Arc::make_mut(chunk).retain(|(name, _)| stays(name));
        }
        chunks.retain(|chunk| !chunk.is_empty());
    }

    /// Whether nothing was changed since one was cloned from the other.
    pub(super) fn is_still(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeMap;

    use super::*;

    fn check(map: &SharedMap<u64>, model: &BTreeMap<CompactString, u64>) {
        assert!(map.0.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK_MAX));
        assert!(map.keys().eq(model.keys()));
        for (name, value) in model {
            assert_eq!(map.get(name), Some(value), "{name}");
        }
    }

    #[test]
    fn it_is_what_a_plain_map_is_and_copies_stay_as_they_were() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 33
        };
        let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
        let mut copies = Vec::new();
        for step in 0..20_000 {
            let name = compact_str::format_compact!("n{}", next() % 700);
            match next() % 8 {
                0 | 1 => {
                    map.remove(&name);
                    model.remove(&name);
                }
                _ => {
                    map.insert(name.clone(), step);
                    model.insert(name.clone(), step);
                }
            }
            assert_eq!(map.get(&name), model.get(&name));
            if step % 1_000 == 0 {
                copies.push((map.clone(), model.clone()));
            }
        }
        check(&map, &model);
        map.retain(|name| name.ends_with('7'));
        model.retain(|name, _| name.ends_with('7'));
        check(&map, &model);
        copies.iter().for_each(|(map, model)| check(map, model));
    }

    #[test]
    fn a_change_copies_one_chunk_of_a_map_that_is_shared() {
        let mut map = SharedMap::default();
        (0..10_000).for_each(|at| map.insert(compact_str::format_compact!("name{at:05}"), at));
        let copy = map.clone();
        map.insert("name05000".into(), 0);
        let shared = map.0.iter().filter(|chunk| copy.0.iter().any(|other| Arc::ptr_eq(chunk, other))).count();
        assert_eq!(shared, map.0.len() - 1);
        assert_eq!(copy.get("name05000"), Some(&5_000));
        assert!(!map.is_still(&copy));
    }
}

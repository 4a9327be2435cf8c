//! The changes of one space: a log of them, and two indexes over the log that are made when they
//! are needed.
//!
//! ```text
//! log     | put b | delete a | put c | put b | delete d |
//!             0         1        2       3         4        ids of changes
//! keys    | b | a | c | b | d |                             their keys, one after the other
//! found   the newest change of a key, by the key's hash     of the changes before `hashed`
//! order   | 1 | 3 | 2 | 4 |                                 of the changes before `sorted`
//! ```
//! A statement that writes many rows and looks none of them up only appends to the log. Putting
//! each change into a sorted map took half of the time of a large DELETE. Sorting all of them at
//! once takes a fraction of it, and a commit needs them in order.
//!
//! An index catches up with the log when it is asked. `found` takes up change by change. `order`
//! takes up few changes one by one, and many by sorting them and merging them with what it has. So
//! a change costs at most a constant number of comparisons more than in a sorted map, however
//! changes and reads alternate.
//!
//! Invariants:
//! 1. The log has the changes in the order in which they were made. Going back cuts off its end.
//! 2. `older` of a change that an index has taken up is the change of the same key before it.
//! 3. An index has the newest change of each key among those that it has taken up, and no other.
//! 4. Chunks of `order` are not empty. Their changes are in the order of their keys.

use std::cell::{Cell, Ref, RefCell};
use std::cmp::Ordering;
use std::hash::{BuildHasher, Hasher};
use std::ops::Bound;

use smallvec::SmallVec;

use crate::store::KeyRange;
use crate::write::Write;

/// No change.
const NONE: u32 = u32::MAX;
/// Up to so many changes are looked through one by one instead of by hash.
const UNHASHED_MAX: usize = if cfg!(test) { 3 } else { 8 };
/// The most changes of a chunk. Moving half of them takes about as long as finding the place.
const CHUNK_MAX: usize = if cfg!(test) { 8 } else { 512 };
/// Changes of a chunk that is filled in order: there is room for some more.
const CHUNK_FILLED: usize = CHUNK_MAX * 3 / 4;
/// Changes are taken up one by one if there are so many times as many already.
const MANY_MORE: usize = 16;

/// A change in the log.
struct Change {
    write: Write,
    /// Where its key ends among the keys; it begins where that of the change before ends.
    key_end: usize,
    /// The number of the change among those of all spaces.
    number: u32,
    /// The change of the same key before it, or `NONE`.
    older: Cell<u32>,
}

/// The changes of a space.
#[derive(Default)]
pub(crate) struct Changes {
    keys: Vec<u8>,
    log: Vec<Change>,
    /// How many changes in the log are patches.
    patches: usize,
    /// How many changes in the log are to a series.
    of_series: usize,
    found: RefCell<Found>,
    hashed: Cell<usize>,
    order: RefCell<Order>,
    sorted: Cell<usize>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Makes a change. `number` is higher than that of any change before.
    pub(crate) fn push(&mut self, key: &[u8], write: Write, number: u32) {
        self.patches += usize::from(matches!(write, Write::Patch(_)));
        self.of_series += usize::from(is_of_series(&write));
        self.keys.extend_from_slice(key);
        self.log.push(Change { write, key_end: self.keys.len(), number, older: Cell::new(NONE) });
    }

    /// The newest change of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Write> {
        let id = match self.log.len() {
            0 => return None,
            few @ 1..=UNHASHED_MAX => (0..few as u32).rev().find(|&id| self.key(id) == key)?,
            _ => {
                self.catch_up_found();
                self.found.borrow().get(key, |id| self.key(id) == key)?
            }
        };
        Some(&self.log[id as usize].write)
    }

    /// The newest change of each key, in the order of the keys.
    pub(crate) fn iter(&self) -> Range<'_> {
        self.range(Bound::Unbounded, Bound::Unbounded)
    }

    /// The newest changes in a range of keys.
    pub(crate) fn in_range(&self, range: &KeyRange) -> Range<'_> {
        let (low, high) = range.bounds();
        self.range(low, high)
    }

    fn range(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Range<'_> {
        self.sort();
        let order = self.order.borrow();
        let front = match low {
            Bound::Unbounded => Place::default(),
            Bound::Included(low) => order.place(|id| self.key(id) < low),
            Bound::Excluded(low) => order.place(|id| self.key(id) <= low),
        };
        let back = match high {
            Bound::Unbounded => order.end(),
            Bound::Included(high) => order.place(|id| self.key(id) <= high),
            Bound::Excluded(high) => order.place(|id| self.key(id) < high),
        };
        // A range may end before it starts.
        Range { changes: self, order, front: front.min(back), back }
    }

    /// The newest changes of keys that are patches, in the order of the keys.
    pub(crate) fn patched(&self) -> impl Iterator<Item = (&[u8], &Write)> {
        let all = (self.patches > 0).then(|| self.iter());
        all.into_iter().flatten().filter(|(_, write)| matches!(write, Write::Patch(_)))
    }

    /// Calls `set` with the changes of [`Changes::patched`].
    pub(crate) fn set_patched(&mut self, mut set: impl FnMut(&mut Write)) {
        if self.patches == 0 {
            return;
        }
        self.sort();
        for &id in self.order.get_mut().chunks.iter().flatten() {
            let write = &mut self.log[id as usize].write;
            if matches!(write, Write::Patch(_)) {
                set(write);
            }
        }
    }

    /// Whether entries are appended to a series, or cut off from one.
    pub(crate) fn has_series(&self) -> bool {
        self.of_series > 0
    }

    pub(crate) fn has_patches(&self) -> bool {
        self.patches > 0
    }

    /// All changes, also those that were replaced by newer ones.
    pub(crate) fn log(&self) -> impl Iterator<Item = (&[u8], &Write)> {
        (0..self.log.len()).map(|at| (self.key(at as u32), &self.log[at].write))
    }

    /// Takes changes with this number or a higher one back, from the newest on; calls `undone` with
    /// each. Gives the lowest number taken back.
    pub(crate) fn cut(&mut self, number: u32, mut undone: impl FnMut(&[u8], &Write)) -> Option<u32> {
        let len = self.log.partition_point(|change| change.number < number);
        let first = self.log.get(len)?.number;
        self.cut_found(len);
        self.cut_order(len);
        for id in (len..self.log.len()).rev() {
            let write = &self.log[id].write;
            self.patches -= usize::from(matches!(write, Write::Patch(_)));
            self.of_series -= usize::from(is_of_series(write));
            undone(self.key(id as u32), write);
        }
        self.log.truncate(len);
        self.keys.truncate(self.log.last().map_or(0, |last| last.key_end));
        Some(first)
    }

    #[inline]
    fn key(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = id.checked_sub(1).map_or(0, |before| self.log[before].key_end);
        &self.keys[start..self.log[id].key_end]
    }

    // ---- by hash ----

    fn catch_up_found(&self) {
        let hashed = self.hashed.replace(self.log.len());
        if hashed == self.log.len() {
            return;
        }
        let mut found = self.found.borrow_mut();
        for (id, change) in (hashed as u32..).zip(&self.log[hashed..]) {
            let key = self.key(id);
            change.older.set(found.put(key, id, |other| self.key(other) == key));
        }
    }

    fn cut_found(&mut self, len: usize) {
        let hashed = self.hashed.get();
        if len >= hashed {
            return;
        }
        self.hashed.set(len);
        if len <= UNHASHED_MAX {
            // Whoever asks next may not need it.
            *self.found.get_mut() = Found::default();
            self.hashed.set(0);
            return;
        }
        let mut found = self.found.take();
        for id in (len..hashed).rev() {
            found.undo(self.key(id as u32), id as u32, self.log[id].older.get());
        }
        self.found.replace(found);
    }

    // ---- in order ----

    /// Makes sure that all changes are in order.
    pub(crate) fn sort(&self) {
        let sorted = self.sorted.replace(self.log.len());
        if sorted == self.log.len() {
            return;
        }
        let order = &mut *self.order.borrow_mut();
        let new = sorted as u32..self.log.len() as u32;
        let last = order.last();
        let is_above = last.is_none_or(|last| self.key(last) < self.key(new.start));
        if is_above && new.clone().skip(1).all(|id| self.key(id - 1) < self.key(id)) {
            new.for_each(|id| order.push(id));
            return;
        }
        let count = order.len;
        if new.len() * MANY_MORE < count {
            new.for_each(|id| self.insert(order, id));
            return;
        }
        let new = self.newest_of(new);
        if is_above_all(order, &new, |id| self.key(id)) {
            new.iter().for_each(|&(newest, _)| order.push(newest));
            return;
        }
        let old = std::mem::take(order);
        let (mut old, mut new) = (old.chunks.iter().flatten().copied().peekable(), new.into_iter().peekable());
        loop {
            let next = match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(&old), Some(&(newest, _))) => self.key(old).cmp(self.key(newest)),
            };
            let before = if next.is_le() { old.next() } else { None };
            let after = if next.is_ge() { new.next() } else { None };
            match (before, after) {
                (Some(before), Some((newest, oldest))) => {
                    self.log[oldest as usize].older.set(before);
                    order.push(newest);
                }
                (Some(id), None) | (None, Some((id, _))) => order.push(id),
                (None, None) => return,
            }
        }
    }

    /// Changes in the order of their keys: the newest and the oldest of each key. Links the changes
    /// of the same key.
    fn newest_of(&self, ids: std::ops::Range<u32>) -> Vec<(u32, u32)> {
        let first = self.key(ids.start);
        let shared = ids.clone().fold(first.len(), |shared, id| {
            let pairs = self.key(id).iter().zip(&first[..shared]);
            pairs.take_while(|(one, other)| one == other).count()
        });
        let mut heads: Vec<(u64, u32)> = ids.map(|id| (head(&self.key(id)[shared..]), id)).collect();
        heads.sort_unstable_by(|&(head, id), &(other_head, other)| {
            head.cmp(&other_head).then_with(|| self.key(id).cmp(self.key(other))).then(id.cmp(&other))
        });
        let mut newest: Vec<(u32, u32)> = Vec::with_capacity(heads.len());
        let mut head_before = 0;
        for (head, id) in heads {
            match newest.last_mut() {
                Some((before, _)) if head == head_before && self.key(*before) == self.key(id) => {
                    self.log[id as usize].older.set(*before);
                    *before = id;
                }
                _ => newest.push((id, id)),
            }
            head_before = head;
        }
        newest
    }

    /// Takes up one change.
    fn insert(&self, order: &mut Order, id: u32) {
        let key = self.key(id);
        let place = order.place(|other| self.key(other) < key);
        match order.get(place) {
            Some(other) if self.key(other) == key => {
                self.log[id as usize].older.set(other);
                order.chunks[place.chunk][place.at] = id;
            }
            _ => order.insert(place, id),
        }
    }

    fn cut_order(&mut self, len: usize) {
        let sorted = self.sorted.get();
        if len >= sorted {
            return;
        }
        self.sorted.set(len);
        let order = self.order.take();
        self.order.replace(self.without(order, len, sorted));
    }

    /// An order without the changes from `len` to `sorted`.
    fn without(&self, mut order: Order, len: usize, sorted: usize) -> Order {
        if (sorted - len) * MANY_MORE < sorted {
            for id in (len..sorted).rev() {
                let key = self.key(id as u32);
                let place = order.place(|other| self.key(other) < key);
                debug_assert_eq!(order.get(place), Some(id as u32), "the newest change of its key");
                match self.log[id].older.get() {
                    NONE => order.remove(place),
                    older => order.chunks[place.chunk][place.at] = older,
                }
            }
            return order;
        }
        let mut kept = Order::default();
        for &newest in order.chunks.iter().flatten() {
            let mut id = newest;
            while id != NONE && id as usize >= len {
                id = self.log[id as usize].older.get();
            }
            if id != NONE {
                kept.push(id);
            }
        }
        kept
    }
}

fn is_of_series(write: &Write) -> bool {
    matches!(write, Write::Append(_) | Write::Cut(_))
}

/// Whether all new changes have higher keys than those that are in order.
fn is_above_all<'k>(order: &Order, new: &[(u32, u32)], key: impl Fn(u32) -> &'k [u8]) -> bool {
    match (order.last(), new.first()) {
        (Some(last), Some(&(first, _))) => key(last) < key(first),
        _ => true,
    }
}

/// The first bytes of a key as an integer. Integers sort as the bytes do.
#[inline]
fn head(key: &[u8]) -> u64 {
    if let Some(head) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    head[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(head)
}

/// Changes by the hashes of their keys: open addressing, the next free slot.
#[derive(Default)]
struct Found {
    hasher: foldhash::fast::RandomState,
    slots: Vec<Slot>,
    used: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    hash: u32,
    /// The change, or `NONE`.
    id: u32,
}

impl Found {
    fn hash(&self, key: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish() as u32
    }

    /// The slot of a key, or the free one where it belongs.
    fn slot(&self, hash: u32, is_key: impl Fn(u32) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.id == NONE || (slot.hash == hash && is_key(slot.id)) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    fn get(&self, key: &[u8], is_key: impl Fn(u32) -> bool) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let id = self.slots[self.slot(self.hash(key), is_key)].id;
        (id != NONE).then_some(id)
    }

    /// Puts the change of a key in the place of an older one. Gives the older one, or `NONE`.
    fn put(&mut self, key: &[u8], id: u32, is_key: impl Fn(u32) -> bool) -> u32 {
        if self.used * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        let hash = self.hash(key);
        let at = self.slot(hash, is_key);
        let older = std::mem::replace(&mut self.slots[at], Slot { hash, id }).id;
        self.used += usize::from(older == NONE);
        older
    }

    /// Takes a change back. The older one takes its place, if there is any.
    fn undo(&mut self, key: &[u8], id: u32, older: u32) {
        let mut free = self.slot(self.hash(key), |other| other == id);
        debug_assert_eq!(self.slots[free].id, id, "the newest change of its key");
        self.slots[free].id = older;
        if older != NONE {
            return;
        }
        self.used -= 1;
        // What is behind it and was looked for from there or from before moves up.
        let mask = self.slots.len() - 1;
        let mut at = free;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.id == NONE {
                return;
            }
            let home = slot.hash as usize & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(free) & mask {
                self.slots[free] = slot;
                self.slots[at].id = NONE;
                free = at;
            }
        }
    }

    fn grow(&mut self) {
        let len = (self.slots.len() * 2).max(4 * UNHASHED_MAX.next_power_of_two());
        let old = std::mem::replace(&mut self.slots, vec![Slot { hash: 0, id: NONE }; len]);
        for slot in old.into_iter().filter(|slot| slot.id != NONE) {
            let mut at = slot.hash as usize & (len - 1);
            while self.slots[at].id != NONE {
                at = (at + 1) & (len - 1);
            }
            self.slots[at] = slot;
        }
    }
}

/// Changes that lie next to each other in the order of their keys.
type Chunk = SmallVec<[u32; 6]>;

/// The newest changes of keys in the order of the keys.
#[derive(Default)]
struct Order {
    chunks: SmallVec<[Chunk; 1]>,
    len: usize,
}

/// A place in an order. The end is the first place of the chunk behind the last one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    chunk: usize,
    at: usize,
}

impl Order {
    fn end(&self) -> Place {
        Place { chunk: self.chunks.len(), at: 0 }
    }

    fn last(&self) -> Option<u32> {
        self.chunks.last()?.last().copied()
    }

    fn get(&self, place: Place) -> Option<u32> {
        self.chunks.get(place.chunk)?.get(place.at).copied()
    }

    /// The first change that is not before something.
    fn place(&self, is_before: impl Fn(u32) -> bool) -> Place {
        let chunk = self.chunks.partition_point(|chunk| chunk.last().is_some_and(|&last| is_before(last)));
        let at = self.chunks.get(chunk).map_or(0, |chunk| chunk.partition_point(|&id| is_before(id)));
        Place { chunk, at }
    }

    fn push(&mut self, id: u32) {
        self.len += 1;
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK_FILLED => last.push(id),
            _ => self.chunks.push(SmallVec::from_iter([id])),
        }
    }

    fn insert(&mut self, place: Place, id: u32) {
        let Some(chunk) = self.chunks.get_mut(place.chunk) else { return self.push(id) };
        self.len += 1;
        chunk.insert(place.at, id);
        if chunk.len() > CHUNK_MAX {
            let half = chunk.drain(CHUNK_MAX / 2..).collect();
            self.chunks.insert(place.chunk + 1, half);
        }
    }

    fn remove(&mut self, place: Place) {
        let Some(chunk) = self.chunks.get_mut(place.chunk) else { return };
        self.len -= 1;
        chunk.remove(place.at);
        if chunk.is_empty() {
            self.chunks.remove(place.chunk);
        }
    }
}

/// The newest changes in a range of keys, from either end.
pub(crate) struct Range<'a> {
    changes: &'a Changes,
    order: Ref<'a, Order>,
    front: Place,
    back: Place,
}

impl<'a> Range<'a> {
    fn item(&self, place: Place) -> (&'a [u8], &'a Write) {
        let id = self.order.chunks[place.chunk][place.at];
        (self.changes.key(id), &self.changes.log[id as usize].write)
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = (&'a [u8], &'a Write);

    fn next(&mut self) -> Option<Self::Item> {
        if self.front >= self.back {
            return None;
        }
        let item = self.item(self.front);
        self.front.at += 1;
        if self.front.at == self.order.chunks[self.front.chunk].len() {
            self.front = Place { chunk: self.front.chunk + 1, at: 0 };
        }
        Some(item)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front >= self.back {
            return None;
        }
        self.back = match self.back.at.checked_sub(1) {
            Some(at) => Place { at, ..self.back },
            None => {
                let chunk = self.back.chunk - 1;
                Place { chunk, at: self.order.chunks[chunk].len() - 1 }
            }
        };
        Some(self.item(self.back))
    }
}

#[cfg(test)]
mod tests;

//! What a transaction is going to write, and how it goes back to a savepoint.
//!
//! Each space has a *base*: the stored entries, unless the transaction made the space. Changes to
//! single keys lie on top of the base, in a log ([`changes`](crate::changes)). All changes are
//! numbered. Going back takes those with the highest numbers back.
//!
//! Invariants:
//! 1. A patch is kept only for a key of a stored base. To anything else it is applied at once.
//! 2. `bytes` is the memory that the changes take, those that were replaced by newer ones included:
//!    they are kept for going back. What a base that was replaced takes does not count.
//! 3. A dropped space has no changes.
//! 4. The images of patched rows are those in the transaction's snapshot, unless `has_old_images`.
//!    In changes that were replaced they may be older.
//! 5. While old changes are kept, `old` has what the first change since then replaced, for each key
//!    that was changed since. Going back to a savepoint leaves it as it is: what it says stays true.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::changes::Changes;
use crate::error::Result;
use crate::store::{Key, KeyRange, SpaceId};
use crate::write::WRITE_BYTES;
pub(crate) use crate::write::{Image, Patched, StoredAt, Write};

/// What the changes of a space are made to.
pub(crate) enum Base {
    /// The stored entries.
    Stored,
    /// A space made by this transaction, with the entries it was filled with.
    Made(Vec<(Key, Vec<u8>)>),
    /// The space is going to be removed.
    Dropped {
        /// It was made by this transaction, so there is nothing to remove.
        made: bool,
    },
}

pub(crate) struct SpaceWrites {
    pub(crate) id: SpaceId,
    pub(crate) base: Base,
    pub(crate) changes: Changes,
    /// What there was in the places of changes when old ones began to be kept.
    old: BTreeMap<Key, Option<Write>>,
    sees_old: bool,
}

impl SpaceWrites {
    /// The change of a key that reads see: the old one, if these are to be seen.
    pub(crate) fn seen(&self, key: &[u8]) -> Option<&Write> {
        match self.old.get(key) {
            Some(before) if self.sees_old => before.as_ref(),
            _ => self.changes.get(key),
        }
    }

    /// How many entries of a range there are with these changes, of `base` without them.
    /// `is_stored` says whether the store has a key.
    pub(crate) fn count_over(
        &self,
        base: u64,
        range: &KeyRange,
        is_stored: impl Fn(&[u8]) -> Result<bool>,
    ) -> Result<u64> {
        let mut count = base;
        for (key, write) in self.in_range(range) {
            let was = match &self.base {
                Base::Stored => is_stored(key)?,
                Base::Made(entries) => find_loaded(entries, key).is_some(),
                Base::Dropped { .. } => false,
            };
            count = count + u64::from(write.value().is_some()) - u64::from(was);
        }
        Ok(count)
    }

    /// The changes in a range, as reads see them.
    pub(crate) fn in_range<'a>(
        &'a self,
        range: &KeyRange,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a Write)> + use<'a> {
        let changes = (!self.changes.is_empty()).then(|| self.changes.in_range(range));
        let seen = |(key, write): (&'a [u8], &'a Write)| match self.old.get(key) {
            Some(before) if self.sees_old => before.as_ref().map(|before| (key, before)),
            _ => Some((key, write)),
        };
        changes.into_iter().flatten().filter_map(seen)
    }
}

/// What the base of a space was before a change, with the changes that there were to it.
struct BaseBefore {
    /// The number of the change.
    number: u32,
    /// Index of the space.
    space: u32,
    base: Base,
    changes: Changes,
}

/// All changes of a transaction.
#[derive(Default)]
pub(crate) struct WriteSet {
    spaces: SmallVec<[SpaceWrites; 2]>,
    bases: Vec<BaseBefore>,
    /// How many changes were made, of keys and of bases.
    count: u32,
    bytes: usize,
    /// So many changes are from before the snapshot was moved.
    old_count: u32,
    has_old_images: bool,
    /// Old changes are kept, and are what reads see.
    keeps_old: bool,
    sees_old: bool,
    /// Memory that they take, which is in `bytes`.
    old_bytes: usize,
}

/// The most changes of a transaction. Its memory ends long before.
const COUNT_MAX: u32 = u32::MAX - 1;

/// Changes of a set that are freed by the thread that ends the transaction: a million take 200 ms.
const CHANGES_FREED_HERE_MAX: u32 = 1 << 15;

impl WriteSet {
    pub(crate) fn spaces(&self) -> &[SpaceWrites] {
        &self.spaces
    }

    pub(crate) fn space(&self, id: SpaceId) -> Option<&SpaceWrites> {
        self.spaces.iter().find(|space| space.id == id)
    }

    pub(crate) fn find(&self, id: SpaceId, key: &[u8]) -> Option<&Write> {
        self.space(id)?.changes.get(key)
    }

    /// Empties the set for the next transaction, and gives its memory back.
    pub(crate) fn renew(&mut self) {
        self.forget_old();
        if self.count > 0 || !self.spaces.is_empty() {
            let old = std::mem::take(self);
            if old.count >= CHANGES_FREED_HERE_MAX {
                // Whoever waits for the end of the transaction does not wait for the memory.
                // Without a thread, the memory is freed here.
                let _ = std::thread::Builder::new().name("free".to_owned()).spawn(move || drop(old));
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spaces
            .iter()
            .all(|space| space.changes.is_empty() && matches!(space.base, Base::Stored | Base::Dropped { made: true }))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many changes were made since a mark.
    pub(crate) fn changes_since(&self, mark: usize) -> usize {
        self.mark().saturating_sub(mark)
    }

    fn index(&mut self, id: SpaceId) -> usize {
        if let Some(index) = self.spaces.iter().position(|space| space.id == id) {
            return index;
        }
        self.spaces.push(SpaceWrites {
            id,
            base: Base::Stored,
            changes: Changes::default(),
            old: BTreeMap::new(),
            sees_old: self.sees_old,
        });
        self.spaces.len() - 1
    }

    /// Whether no more changes can be counted.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= COUNT_MAX
    }

    pub(crate) fn change(&mut self, id: SpaceId, key: &[u8], write: Write) {
        self.keep(id, key);
        let index = self.index(id);
        self.bytes += write.bytes(key);
        let number = self.next_number();
        self.spaces[index].changes.push(key, write, number);
    }

    fn next_number(&mut self) -> u32 {
        self.count += 1;
        self.count - 1
    }

    /// Keeps the change of a key, or that there is none, if old ones are kept and none is yet.
    pub(crate) fn keep(&mut self, id: SpaceId, key: &[u8]) {
        if !self.keeps_old {
            return;
        }
        let index = self.index(id);
        let SpaceWrites { changes, old, .. } = &mut self.spaces[index];
        if old.contains_key(key) {
            return;
        }
        let before = changes.get(key).cloned();
        let bytes = before.as_ref().map_or(WRITE_BYTES + key.len(), |before| before.bytes(key));
        self.old_bytes += bytes;
        self.bytes += bytes;
        old.insert(Key::from_slice(key), before);
    }

    /// Old changes are kept from here on.
    pub(crate) fn keep_old(&mut self) {
        self.forget_old();
        self.keeps_old = true;
    }

    /// Whether reads see old changes, as far as these are kept. Gives what it was.
    pub(crate) fn see_old(&mut self, sees_old: bool) -> bool {
        let before = self.sees_old;
        if self.keeps_old && before != sees_old {
            self.sees_old = sees_old;
            self.spaces.iter_mut().for_each(|space| space.sees_old = sees_old);
        }
        before
    }

    /// Old changes are no longer kept.
    pub(crate) fn forget_old(&mut self) {
        if !self.keeps_old {
            return;
        }
        self.see_old(false);
        self.keeps_old = false;
        self.bytes = self.bytes.saturating_sub(std::mem::take(&mut self.old_bytes));
        self.spaces.iter_mut().for_each(|space| space.old = BTreeMap::new());
    }

    /// Whether a key was changed since old changes are kept.
    pub(crate) fn has_old(&self, id: SpaceId, key: &[u8]) -> bool {
        self.space(id).is_some_and(|space| space.old.contains_key(key))
    }

    /// Replaces the base of a space together with its changes.
    pub(crate) fn rebase(&mut self, id: SpaceId, base: Base) {
        let index = self.index(id);
        let space = &mut self.spaces[index];
        let changes = std::mem::take(&mut space.changes);
        let before = std::mem::replace(&mut space.base, base);
        self.bytes = (self.bytes + base_bytes(&self.spaces[index].base))
            .saturating_sub(base_bytes(&before) + changes_bytes(&changes));
        let number = self.next_number();
        self.bases.push(BaseBefore { number, space: index as u32, base: before, changes });
    }

    /// A place to go back to.
    pub(crate) fn mark(&self) -> usize {
        self.count as usize
    }

    /// Brings the changes of all spaces into order.
    pub(crate) fn sort(&self) {
        self.spaces.iter().for_each(|space| space.changes.sort());
    }

    pub(crate) fn undo(&mut self, mark: usize) {
        // Nothing stays: to let go of everything at once takes a fraction of the time.
        if mark == 0 {
            let (keeps_old, sees_old) = (self.keeps_old, self.sees_old);
            self.renew();
            (self.keeps_old, self.sees_old) = (keeps_old, sees_old);
            return;
        }
        let Some(mark) = u32::try_from(mark).ok().filter(|&mark| mark < self.count) else { return };
        while let Some(before) = self.bases.pop_if(|before| before.number >= mark) {
            let space = &mut self.spaces[before.space as usize];
            let now = base_bytes(&space.base) + changes_bytes(&space.changes);
            self.bytes = (self.bytes + base_bytes(&before.base) + changes_bytes(&before.changes)).saturating_sub(now);
            self.has_old_images |= before.number < self.old_count && before.changes.has_patches();
            space.base = before.base;
            space.changes = before.changes;
        }
        for space in &mut self.spaces {
            let bytes = &mut self.bytes;
            let first = space.changes.cut(mark, |key, write| *bytes = bytes.saturating_sub(write.bytes(key)));
            // One that has come back may be a patch whose image is that of an earlier snapshot.
            self.has_old_images |= first.is_some_and(|first| first < self.old_count) && space.changes.has_patches();
        }
        self.count = mark;
        self.old_count = self.old_count.min(mark);
    }

    /// Whether going back has restored a patched row with the image of an earlier snapshot.
    pub(crate) fn has_old_images(&self) -> bool {
        self.has_old_images
    }

    /// The snapshot was moved: the changes that were replaced so far have images of an earlier one.
    pub(crate) fn make_notes_old(&mut self) {
        self.old_count = self.count;
    }

    /// All patches that are kept.
    pub(crate) fn patched(&self) -> impl Iterator<Item = (SpaceId, &[u8], &Patched)> {
        self.spaces.iter().flat_map(|space| {
            space.changes.patched().filter_map(move |(key, write)| match write {
                Write::Patch(patched) => Some((space.id, key, &**patched)),
                _ => None,
            })
        })
    }

    /// Sets the images of all patched rows, in the order of [`WriteSet::patched`].
    pub(crate) fn set_images(&mut self, images: Vec<Option<Image>>) {
        self.has_old_images = false;
        let mut images = images.into_iter();
        for space in &mut self.spaces {
            space.changes.set_patched(|write| {
                if let (Write::Patch(patched), Some(image)) = (write, images.next()) {
                    (patched.image, patched.made_of) = image.unzip();
                }
            });
        }
    }
}

fn base_bytes(base: &Base) -> usize {
    match base {
        Base::Made(entries) => entries.iter().map(|(key, value)| WRITE_BYTES + key.len() + value.len()).sum(),
        Base::Stored | Base::Dropped { .. } => 0,
    }
}

fn changes_bytes(changes: &Changes) -> usize {
    changes.log().map(|(key, write)| write.bytes(key)).sum()
}

/// The value of a key among entries that were loaded, which are in the order of their keys.
pub(crate) fn find_loaded<'a>(entries: &'a [(Key, Vec<u8>)], key: &[u8]) -> Option<&'a [u8]> {
    let index = entries.binary_search_by(|(known, _)| known.as_slice().cmp(key)).ok()?;
    entries.get(index).map(|(_, value)| value.as_slice())
}

//! A shard: the locks of some names.
//!
//! The cost of a lock is mostly that of the memory it lies in: fetching a cache line that another
//! CPU has changed takes as long as some hundred instructions. So a shard is one cache line. Nearly
//! all locks have one owner and nobody waits for them; these lie in that line, or, if there are
//! more of them, in a map of small entries. A statement that changes many rows takes as many.
//!
//! Invariants:
//! - A lock is in one place: among `alone` of the line or of `more`, while one owner holds it and
//!   nobody waits, or among `shared`.
//! - A lock in `shared` is held or waited for.
//! - The first of a queue does not go with some holder (other than itself).
//!
//! Not here: which shard a name belongs to, deadlocks, and waking the owners that got a lock.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::{LockInfo, LockName, OwnerId, Waiter, Woken, goes_with, join};
use crate::store::{LockMode, SpaceId};

/// Locks of one owner each that have room in a shard's line, beside its mutex and the pointer to
/// more.
const ALONE: usize = 2;
/// An empty map is kept for reuse unless it has room for more locks than this.
const MORE_KEPT: usize = 64;

/// Lock names are hashes already.
#[derive(Default)]
pub(super) struct NameHasher(u64);

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("names are hashed as words")
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

pub(super) type ByName<V> = HashMap<LockName, V, BuildHasherDefault<NameHasher>>;

/// A lock that is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) name: LockName,
    pub(super) space: SpaceId,
    pub(super) owner: OwnerId,
    pub(super) mode: LockMode,
    /// The owner holds it already, in another mode.
    pub(super) holds: bool,
}

struct Holder {
    owner: OwnerId,
    mode: LockMode,
}

/// A lock of any number of owners.
struct Lock {
    space: SpaceId,
    holders: SmallVec<[Holder; 1]>,
    queue: VecDeque<Arc<Waiter>>,
}

/// The owner of a lock that nobody else holds or waits for.
#[derive(Clone, Copy)]
struct Owned {
    owner: OwnerId,
    space: SpaceId,
    mode: LockMode,
}

/// A lock that one owner holds, and nobody waits for.
#[derive(Clone, Copy)]
struct Alone {
    name: LockName,
    owned: Owned,
}

/// The locks that have no room in a shard's line.
#[derive(Default)]
struct More {
    alone: ByName<Owned>,
    shared: ByName<Lock>,
}

/// The locks of some names.
#[derive(Default)]
pub(super) struct Shard {
    alone: [Option<Alone>; ALONE],
    more: Option<Box<More>>,
}

impl Lock {
    fn free(space: SpaceId) -> Self {
        Self { space, holders: SmallVec::new(), queue: VecDeque::new() }
    }

    /// Whether an owner could hold the lock in a mode beside those who hold it.
    fn admits(&self, owner: OwnerId, mode: LockMode) -> bool {
        self.holders.iter().all(|holder| holder.owner == owner || goes_with(holder.mode, mode))
    }

    fn hold(&mut self, owner: OwnerId, mode: LockMode) {
        match self.holders.iter_mut().find(|holder| holder.owner == owner) {
            Some(holder) => holder.mode = join(holder.mode, mode),
            None => self.holders.push(Holder { owner, mode }),
        }
    }

    /// Gives the lock if nobody has to be waited for.
    fn try_hold(&mut self, wanted: &Wanted) -> bool {
        let now = (wanted.holds || self.queue.is_empty()) && self.admits(wanted.owner, wanted.mode);
        if now {
            self.hold(wanted.owner, wanted.mode);
        }
        now
    }

    /// Gives the lock to those in front who can have it now.
    fn promote(&mut self, woken: &mut Woken) {
        while let Some(first) = self.queue.front()
            && self.admits(first.owner, first.mode)
        {
            let Some(first) = self.queue.pop_front() else { return };
            self.hold(first.owner, first.mode);
            first.granted.store(true, Ordering::Release);
            woken.push(first);
        }
    }

    fn is_free(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty()
    }

    /// Adds those for whom `owner` waits here to `blockers`.
    fn blockers(&self, owner: OwnerId, blockers: &mut Blockers) {
        let Some(place) = self.queue.iter().position(|waiter| waiter.owner == owner) else { return };
        // Those before it wait for this lock and nothing else, so what they wait for is looked at
        // here as well.
        blockers.ahead.extend(self.queue.iter().take(place).map(|waiter| waiter.owner));
        for holder in &self.holders {
            let blocks = |waiter: &Arc<Waiter>| waiter.owner != holder.owner && !goes_with(holder.mode, waiter.mode);
            if self.queue.iter().take(place + 1).any(blocks) {
                blockers.holders.push(holder.owner);
            }
        }
    }
}

/// The owners that an owner waits for.
#[derive(Default)]
pub(super) struct Blockers {
    /// In the queue before it. They wait for the same lock.
    pub(super) ahead: SmallVec<[OwnerId; 4]>,
    /// Whom it or those ahead cannot go with. One that wants more of this lock stands in its queue,
    /// and may wait for others.
    pub(super) holders: SmallVec<[OwnerId; 4]>,
}

impl Shard {
    /// Gives the lock if nobody has to be waited for.
    pub(super) fn try_hold(&mut self, wanted: &Wanted) -> bool {
        let Wanted { name, space, owner, mode, .. } = *wanted;
        if let Some(owned) = self.owned(name) {
            if owned.owner == owner {
                owned.mode = join(owned.mode, mode);
                return true;
            }
            return goes_with(owned.mode, mode) && self.shared(name, space).try_hold(wanted);
        }
        if let Some(lock) = self.more.as_mut().and_then(|more| more.shared.get_mut(&name)) {
            return lock.try_hold(wanted);
        }
        let owned = Owned { owner, space, mode };
        match self.alone.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(Alone { name, owned }),
            None => _ = self.more.get_or_insert_default().alone.insert(name, owned),
        }
        true
    }

    /// A lock that one owner holds, and nobody waits for.
    fn owned(&mut self, name: LockName) -> Option<&mut Owned> {
        if let Some(alone) = self.alone.iter_mut().flatten().find(|alone| alone.name == name) {
            return Some(&mut alone.owned);
        }
        self.more.as_mut()?.alone.get_mut(&name)
    }

    /// Gives the lock, or a place in its queue: behind the holders that want more already for one
    /// who holds it, at the end for others.
    pub(super) fn hold_or_queue(&mut self, wanted: &Wanted, waiter: impl FnOnce() -> Waiter) -> Option<Arc<Waiter>> {
        if self.try_hold(wanted) {
            return None;
        }
        let waiter = Arc::new(waiter());
        let Lock { holders, queue, .. } = self.shared(wanted.name, wanted.space);
        let place = match wanted.holds {
            true => {
                let is_holder = |waiter: &Waiter| holders.iter().any(|holder| holder.owner == waiter.owner);
                queue.iter().take_while(|waiter| is_holder(waiter)).count()
            }
            false => queue.len(),
        };
        queue.insert(place, Arc::clone(&waiter));
        Some(waiter)
    }

    /// The lock where it has room for others.
    fn shared(&mut self, name: LockName, space: SpaceId) -> &mut Lock {
        let more = self.more.get_or_insert_default();
        let lock = more.shared.entry(name).or_insert_with(|| Lock::free(space));
        for place in &mut self.alone {
            if let Some(alone) = place.take_if(|alone| alone.name == name) {
                lock.hold(alone.owned.owner, alone.owned.mode);
            }
        }
        if let Some(owned) = more.alone.remove(&name) {
            lock.hold(owned.owner, owned.mode);
        }
        lock
    }

    /// An owner releases the lock.
    pub(super) fn release(&mut self, owner: OwnerId, name: LockName, woken: &mut Woken) {
        if let Some(place) = self.alone.iter_mut().find(|place| place.is_some_and(|alone| alone.name == name)) {
            place.take_if(|alone| alone.owned.owner == owner);
            return;
        }
        if let Some(more) = &mut self.more
            && let Entry::Occupied(alone) = more.alone.entry(name)
        {
            if alone.get().owner == owner {
                alone.remove();
                self.give_memory_back();
            }
            return;
        }
        self.change(name, woken, |lock| {
            lock.holders.retain(|holder| holder.owner != owner);
            true
        });
    }

    /// Keeps no memory for many locks when there are none.
    fn give_memory_back(&mut self) {
        if self.more.as_ref().is_some_and(|more| {
            more.alone.is_empty()
                && more.shared.is_empty()
                && more.alone.capacity() + more.shared.capacity() > MORE_KEPT
        }) {
            self.more = None;
        }
    }

    /// An owner changes the lock to a weaker mode.
    pub(super) fn weaken(&mut self, owner: OwnerId, name: LockName, mode: LockMode, woken: &mut Woken) {
        if let Some(owned) = self.owned(name) {
            if owned.owner == owner {
                owned.mode = mode;
            }
            return;
        }
        self.change(name, woken, |lock| {
            let holder = lock.holders.iter_mut().find(|holder| holder.owner == owner);
            holder.is_some_and(|holder| {
                holder.mode = mode;
                true
            })
        });
    }

    /// Removes a waiting owner from the queue, unless it has got the lock already.
    pub(super) fn cancel(&mut self, waiter: &Arc<Waiter>, woken: &mut Woken) {
        self.change(waiter.name, woken, |lock| {
            let place = lock.queue.iter().position(|other| Arc::ptr_eq(other, waiter));
            place.is_some_and(|place| lock.queue.remove(place).is_some())
        });
    }

    /// Removes an owner from a lock: `change` does it and says whether there was anything to
    /// remove. Others may get the lock then.
    fn change(&mut self, name: LockName, woken: &mut Woken, change: impl FnOnce(&mut Lock) -> bool) {
        let Some(more) = &mut self.more else { return };
        let Some(lock) = more.shared.get_mut(&name) else { return };
        if !change(lock) {
            return;
        }
        lock.promote(woken);
        if lock.is_free() {
            more.shared.remove(&name);
            self.give_memory_back();
        }
    }

    /// Those for whom an owner waits at this lock; none if it does not.
    pub(super) fn blockers(&self, name: LockName, owner: OwnerId) -> Blockers {
        let mut blockers = Blockers::default();
        if let Some(lock) = self.more.as_ref().and_then(|more| more.shared.get(&name)) {
            lock.blockers(owner, &mut blockers);
        }
        blockers
    }

    /// All of its locks, those who hold one before those who wait for it.
    pub(super) fn list(&self, infos: &mut Vec<LockInfo>) {
        let in_line = self.alone.iter().flatten().map(|alone| (alone.name, alone.owned));
        let in_map = self.more.iter().flat_map(|more| more.alone.iter().map(|(&name, &owned)| (name, owned)));
        infos.extend(in_line.chain(in_map).map(|(name, owned)| {
            let Owned { owner, space, mode } = owned;
            LockInfo { space, name, owner, mode, granted: true }
        }));
        for (&name, lock) in self.more.iter().flat_map(|more| more.shared.iter()) {
            let info = |owner, mode, granted| LockInfo { space: lock.space, name, owner, mode, granted };
            infos.extend(lock.holders.iter().map(|holder| info(holder.owner, holder.mode, true)));
            infos.extend(lock.queue.iter().map(|waiter| info(waiter.owner, waiter.mode, false)));
        }
    }
}

#[cfg(test)]
mod tests;

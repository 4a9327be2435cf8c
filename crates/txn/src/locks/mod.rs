//! Row locks: who holds which, who waits, and in which order they get it.
//!
//! A lock is named by a hash of its space and key, with a random seed. Two rows with the same name
//! would wait for each other without need, and that is all. A lock exists while somebody holds it
//! or waits for it. Locks live in [shards](shard), each behind a mutex that is held for a few
//! instructions.
//!
//! | wanted \ held | KeyShare | Share | Add | NoKeyUpdate | Exclusive |
//! | --- | --- | --- | --- | --- | --- |
//! | KeyShare | yes | yes | yes | yes | no |
//! | Share | yes | yes | no | no | no |
//! | Add | yes | no | yes | no | no |
//! | NoKeyUpdate | yes | no | no | no | no |
//! | Exclusive | no | no | no | no | no |
//!
//! Invariants:
//! 1. Waiting owners queue up and get the lock in the order of their arrival. No later one passes
//!    them, not even with a mode that is compatible with the holders'. A holder that wants a
//!    stronger mode goes to the front.
//! 2. An owner waits for one lock at a time, and `waits` says for which. It may still say so after
//!    the wait.
//! 3. The order of mutexes: `waits`, then a shard, then a waiter's state.
//!
//! Deadlocks: an owner is added to a queue only while `waits` is locked, and checks before it
//! unlocks `waits` whether it waits for itself, over any number of others. Every other change only
//! ends a wait, or turns a wait for a waiting owner into a wait for a holder. So each deadlock is
//! found by the owner that closes the circle, and what is found is a deadlock.

use std::cell::OnceCell;
mod session;
mod shard;

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

pub use self::session::SessionLocks;
use self::shard::{ByName, Shard, Wanted};
use crate::error::{Error, Result};
use crate::outcome::Interruption;
use crate::store::{IfLocked, Key, LockMode, SpaceId};
use crate::sync::{Condvar, Mutex};

/// So many shards that the locks of some tens of transactions mostly fit their cache lines; 64 KiB.
const SHARDS: usize = 1024;

/// An owner of locks: a number that is never used twice while a store is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub u64);

/// The name of a lock: a hash of space and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(pub u64);

/// A lock that somebody holds or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockInfo {
    /// The space of the row.
    pub space: SpaceId,
    /// The lock.
    pub name: LockName,
    /// The transaction.
    pub owner: OwnerId,
    /// The mode held or wanted.
    pub mode: LockMode,
    /// Whether it is held; else the transaction waits for it.
    pub granted: bool,
}

fn goes_with(a: LockMode, b: LockMode) -> bool {
    use LockMode::{Add, Exclusive, KeyShare, Share};
    match (a, b) {
        (Exclusive, _) | (_, Exclusive) => false,
        (KeyShare, _) | (_, KeyShare) => true,
        _ => a == b && matches!(a, Share | Add),
    }
}

/// Whether a mode excludes everything that another one excludes.
fn covers(held: LockMode, wanted: LockMode) -> bool {
    use LockMode::{Exclusive, KeyShare, NoKeyUpdate};
    match (held, wanted) {
        (Exclusive, _) | (_, KeyShare) => true,
        (NoKeyUpdate, wanted) => wanted != Exclusive,
        _ => held == wanted,
    }
}

/// The weakest mode that covers both.
fn join(a: LockMode, b: LockMode) -> LockMode {
    match () {
        () if covers(a, b) => a,
        () if covers(b, a) => b,
        // Share and Add.
        () => LockMode::NoKeyUpdate,
    }
}

/// Owners that got a lock, to be woken when no mutex is held.
type Woken = SmallVec<[Arc<Waiter>; 4]>;

/// Each shard has a cache line of its own, so that threads at different shards do not disturb each
/// other.
#[derive(Default)]
#[repr(align(64))]
struct Line(Mutex<Shard>);

#[cfg(not(feature = "shuttle"))]
const _: () = assert!(size_of::<Line>() == 64, "a shard is one cache line");

/// An owner in the queue of a lock.
struct Waiter {
    owner: OwnerId,
    name: LockName,
    /// The mode that it waits for.
    mode: LockMode,
    /// Set with the shard locked.
    granted: AtomicBool,
    state: Mutex<WaiterState>,
    changed: Condvar,
}

#[derive(Default)]
struct WaiterState {
    /// It has the lock, or does not want it any more.
    over: bool,
    waker: Option<Waker>,
}

impl Waiter {
    fn end(&self) {
        let waker = {
            let mut state = self.state.lock();
            state.over = true;
            state.waker.take()
        };
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// All row locks of a store.
pub(crate) struct LockTable {
    hasher: foldhash::quality::RandomState,
    shards: Box<[Line]>,
    waits: Mutex<Waits>,
    next_owner: AtomicU64,
    /// Transactions may be prepared: their locks are kept with their keys.
    pub(crate) keeps_keys: AtomicBool,
    pub(crate) waits_count: AtomicU64,
    pub(crate) deadlocks_count: AtomicU64,
}

/// Who waits.
#[derive(Default)]
struct Waits {
    /// For which lock.
    locks: HashMap<OwnerId, LockName>,
    /// A session and the transaction that it is in, each by the other: what the one holds is
    /// released when the other does not wait any more.
    same: HashMap<OwnerId, OwnerId>,
}

/// The answer to a request for a lock.
enum Asked {
    Held,
    Refused,
    Queued(Arc<Waiter>),
    Deadlock,
}

impl LockTable {
    pub(crate) fn new() -> Self {
        Self {
            hasher: foldhash::quality::RandomState::default(),
            shards: (0..SHARDS).map(|_| Line::default()).collect(),
            waits: Mutex::default(),
            next_owner: AtomicU64::new(1),
            keeps_keys: AtomicBool::new(false),
            waits_count: AtomicU64::new(0),
            deadlocks_count: AtomicU64::new(0),
        }
    }

    /// The name of a row's lock.
    pub(crate) fn name(&self, space: SpaceId, key: &[u8]) -> LockName {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u32(space.0);
        hasher.write(key);
        LockName(hasher.finish())
    }

    fn shard(&self, name: LockName) -> &Mutex<Shard> {
        // Other bits than those that hash maps use, which are the low ones and the seven highest.
        &self.shards[(name.0 >> 40) as usize % SHARDS].0
    }

    fn ask(&self, wanted: &Wanted, wait: IfLocked) -> Asked {
        let Wanted { name, owner, mode, .. } = *wanted;
        if self.shard(name).lock().try_hold(wanted) {
            return Asked::Held;
        }
        if wait == IfLocked::Refuse {
            return Asked::Refused;
        }
        let mut waits = self.waits.lock();
        let (granted, state, changed) = (AtomicBool::new(false), Mutex::default(), Condvar::new());
        let waiter = || Waiter { owner, name, mode, granted, state, changed };
        let Some(waiter) = self.shard(name).lock().hold_or_queue(wanted, waiter) else { return Asked::Held };
        waits.locks.insert(owner, name);
        if self.waits_for_itself(&waits, owner) {
            waits.locks.remove(&owner);
            drop(waits);
            self.cancel(&waiter);
            if waiter.granted.load(Ordering::Acquire) {
                // Another owner of the circle has given up in the last moment.
                return Asked::Held;
            }
            self.deadlocks_count.fetch_add(1, Ordering::Relaxed);
            return Asked::Deadlock;
        }
        self.waits_count.fetch_add(1, Ordering::Relaxed);
        Asked::Queued(waiter)
    }

    fn waits_for_itself(&self, waits: &Waits, start: OwnerId) -> bool {
        let other = waits.same.get(&start).copied();
        let mut seen = HashSet::from([start]);
        let mut next = vec![start];
        while let Some(owner) = next.pop() {
            let Some(&name) = waits.locks.get(&owner) else { continue };
            let blockers = self.shard(name).lock().blockers(name, owner);
            let is_start = |owner: &OwnerId| *owner == start || Some(*owner) == other;
            if blockers.ahead.iter().any(is_start) || blockers.holders.iter().any(is_start) {
                return true;
            }
            seen.extend(blockers.ahead);
            for holder in blockers.holders {
                // A session and its transaction are one party: either may hold what the other waits
                // for.
                let holder = [Some(holder), waits.same.get(&holder).copied()];
                next.extend(holder.into_iter().flatten().filter(|&holder| seen.insert(holder)));
            }
        }
        false
    }

    /// Removes a waiting owner from the queue, unless it has got the lock already.
    fn cancel(&self, waiter: &Arc<Waiter>) {
        let mut woken = Woken::new();
        self.shard(waiter.name).lock().cancel(waiter, &mut woken);
        waiter.end();
        tell(woken);
    }

    fn release(&self, owner: OwnerId, name: LockName) {
        let mut woken = Woken::new();
        self.shard(name).lock().release(owner, name, &mut woken);
        tell(woken);
    }

    fn weaken(&self, owner: OwnerId, name: LockName, mode: LockMode) {
        let mut woken = Woken::new();
        self.shard(name).lock().weaken(owner, name, mode, &mut woken);
        tell(woken);
    }

    /// All locks, holders before those who wait. Each shard as of one moment.
    pub(crate) fn list(&self) -> Vec<LockInfo> {
        let mut infos = Vec::new();
        self.shards.iter().for_each(|shard| shard.0.lock().list(&mut infos));
        infos
    }
}

fn tell(woken: Woken) {
    for waiter in woken {
        waiter.end();
    }
}

/// A lock that a transaction holds.
struct Held {
    mode: LockMode,
    /// The row was compared under the lock and is what the transaction sees. For KeyShare: what the
    /// transaction has read of it is.
    verified: bool,
}

/// A lock as it is held after a request.
pub(crate) struct Taken {
    pub(crate) name: LockName,
    pub(crate) mode: LockMode,
    /// Whether [`Locks::verified`] has been called for it.
    pub(crate) verified: bool,
}

/// The locks of one transaction. Dropping it releases all.
pub(crate) struct Locks {
    table: Arc<LockTable>,
    /// The owner's number. It is drawn when first needed: numbers come from a word that all threads
    /// share, and a transaction that only reads needs none.
    owner: OnceCell<OwnerId>,
    held: ByName<Held>,
    /// What the names of locks stand for, if that is kept ([`LockTable::keeps_keys`]). Some of them
    /// may not be held, or stand here twice.
    keys: Vec<(LockName, SpaceId, Key)>,
    waiting: Option<Waiting>,
    has_waited: bool,
}

struct Waiting {
    waiter: Arc<Waiter>,
    /// What the caller was given; the caller may have dropped it.
    given: Weak<WaitHandle>,
}

impl Locks {
    pub(crate) fn new(table: &Arc<LockTable>) -> Self {
        let table = Arc::clone(table);
        Self {
            table,
            owner: OnceCell::new(),
            held: ByName::default(),
            keys: Vec::new(),
            waiting: None,
            has_waited: false,
        }
    }

    pub(crate) fn owner(&self) -> OwnerId {
        *self.owner.get_or_init(|| OwnerId(self.table.next_owner.fetch_add(1, Ordering::Relaxed)))
    }

    /// Makes these the locks of the next transaction, which has none.
    pub(crate) fn renew(&mut self) {
        self.release();
        self.owner = OnceCell::new();
        self.held = ByName::default();
        self.keys = Vec::new();
    }

    /// The locks that are held, with what they lock: all of them, if that was kept from the start.
    pub(crate) fn kept(&self) -> Vec<(SpaceId, Key, LockMode)> {
        let mut left: HashMap<LockName, LockMode> = self.held.iter().map(|(name, held)| (*name, held.mode)).collect();
        let kept = |(name, space, key): &(LockName, SpaceId, Key)| Some((*space, key.clone(), left.remove(name)?));
        self.keys.iter().filter_map(kept).collect()
    }

    /// Takes out all locks, for somebody else to hold them; leaves none.
    pub(crate) fn take_all(&mut self) -> Self {
        let mut none = Self::new(&self.table);
        self.settle();
        std::mem::swap(self, &mut none);
        none
    }

    /// Takes a lock.
    pub(crate) fn take(&mut self, space: SpaceId, key: &[u8], mode: LockMode, if_locked: IfLocked) -> Result<Taken> {
        let name = self.table.name(space, key);
        if self.table.keeps_keys.load(Ordering::Relaxed) && !self.held.contains_key(&name) {
            self.keys.push((name, space, Key::from_slice(key)));
        }
        self.take_named(name, space, mode, if_locked)
    }

    /// Takes a lock by its name.
    fn take_named(&mut self, name: LockName, space: SpaceId, mode: LockMode, if_locked: IfLocked) -> Result<Taken> {
        self.settle();
        let held = self.held.get(&name);
        if let Some(held) = held
            && covers(held.mode, mode)
        {
            return Ok(Taken { name, mode: held.mode, verified: held.verified });
        }
        let mut held = held.map(|held| held.mode);
        let joined = |held: Option<LockMode>| held.map_or(mode, |held| join(held, mode));
        if let Some(waiting) = self.waiting.take() {
            if waiting.waiter.name == name
                && waiting.waiter.mode == joined(held)
                && let Some(given) = waiting.given.upgrade()
            {
                self.waiting = Some(waiting);
                return match if_locked {
                    IfLocked::Wait => Err(Error::Interrupted(Interruption::Wait(LockWait(given)))),
                    IfLocked::Refuse => Err(Error::NotAvailable),
                };
            }
            self.table.cancel(&waiting.waiter);
            // It may have got the lock in the last moment.
            self.keep_granted(&waiting.waiter);
            let known = self.held.get(&name);
            if let Some(held) = known
                && covers(held.mode, mode)
            {
                return Ok(Taken { name, mode: held.mode, verified: held.verified });
            }
            held = known.map(|held| held.mode);
        }
        let (mode, holds) = (joined(held), held.is_some());
        let wanted = Wanted { name, space, owner: self.owner(), mode, holds };
        match self.table.ask(&wanted, if_locked) {
            Asked::Held => {
                self.held.insert(name, Held { mode, verified: false });
                Ok(Taken { name, mode, verified: false })
            }
            Asked::Refused => Err(Error::NotAvailable),
            Asked::Deadlock => {
                self.has_waited = true;
                Err(Error::Deadlock)
            }
            Asked::Queued(waiter) => {
                let given = Arc::new(WaitHandle { table: Arc::clone(&self.table), waiter: Arc::clone(&waiter) });
                self.waiting = Some(Waiting { waiter, given: Arc::downgrade(&given) });
                self.has_waited = true;
                Err(Error::Interrupted(Interruption::Wait(LockWait(given))))
            }
        }
    }

    /// Notes that the row of a lock was compared and is what the transaction sees. While the lock
    /// is held nobody changes what it protects.
    pub(crate) fn verified(&mut self, name: LockName) {
        if let Some(held) = self.held.get_mut(&name) {
            held.verified = true;
        }
    }

    /// Notes a lock that was granted since the last look.
    fn settle(&mut self) {
        if let Some(waiting) = &self.waiting
            && waiting.waiter.granted.load(Ordering::Acquire)
            && let Some(waiting) = self.waiting.take()
        {
            self.keep_granted(&waiting.waiter);
        }
    }

    fn keep_granted(&mut self, waiter: &Waiter) {
        if waiter.granted.load(Ordering::Acquire) {
            self.held.insert(waiter.name, Held { mode: waiter.mode, verified: false });
        }
    }

    /// Changes a held lock to a weaker mode.
    fn weaken(&mut self, name: LockName, mode: LockMode) {
        self.settle();
        let Some(held) = self.held.get_mut(&name) else { return };
        held.mode = mode;
        self.table.weaken(self.owner(), name, mode);
    }

    /// Releases one lock.
    fn release_one(&mut self, name: LockName) {
        if let Some(waiting) = self.waiting.take_if(|waiting| waiting.waiter.name == name) {
            self.table.cancel(&waiting.waiter);
            self.keep_granted(&waiting.waiter);
        }
        if self.held.remove(&name).is_some() {
            self.table.release(self.owner(), name);
        }
    }

    /// Releases all locks.
    pub(crate) fn release(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            self.table.cancel(&waiting.waiter);
            self.keep_granted(&waiting.waiter);
        }
        // An owner without a number has asked for no lock.
        let Some(&owner) = self.owner.get() else { return };
        for (name, _) in self.held.drain() {
            self.table.release(owner, name);
        }
        if std::mem::take(&mut self.has_waited) {
            self.table.waits.lock().locks.remove(&owner);
        }
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        self.release();
    }
}

/// Leaves the queue when the last reference is dropped.
struct WaitHandle {
    table: Arc<LockTable>,
    waiter: Arc<Waiter>,
}

impl Drop for WaitHandle {
    fn drop(&mut self) {
        self.table.cancel(&self.waiter);
    }
}

/// A place in the queue of a lock. The caller waits, restarts the statement, and runs it again; the
/// transaction has the lock then. (Restarting first and waiting then is as correct, but the
/// statement would most likely have to be restarted once more.)
///
/// Dropping it leaves the queue. A lock that was granted already stays with the transaction.
pub struct LockWait(Arc<WaitHandle>);

impl LockWait {
    /// Waits until the transaction has the lock, or has ended.
    pub fn wait(self) {
        let waiter = &self.0.waiter;
        let mut state = waiter.state.lock();
        while !state.over {
            waiter.changed.wait(&mut state);
        }
    }

    /// Waits at most so long. Gives whether the transaction has the lock, or has ended.
    #[must_use]
    pub fn wait_for(&self, timeout: Duration) -> bool {
        let waiter = &self.0.waiter;
        let until = Instant::now().checked_add(timeout);
        let mut state = waiter.state.lock();
        while !state.over {
            match until {
                Some(until) if waiter.changed.wait_until(&mut state, until).timed_out() => break,
                Some(_) => {}
                None => waiter.changed.wait(&mut state),
            }
        }
        state.over
    }

    /// Whether waiting is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.waiter.state.lock().over
    }
}

impl Future for LockWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.waiter.state.lock();
        if state.over {
            return Poll::Ready(());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => state.waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl std::fmt::Debug for LockWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Waiter { owner, name, mode, .. } = &*self.0.waiter;
        f.debug_struct("LockWait").field("owner", owner).field("name", name).field("mode", mode).finish()
    }
}

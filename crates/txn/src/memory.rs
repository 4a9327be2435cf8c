//! A store in memory whose entries have to be fetched, whose commits take their time, and which
//! refuses some of them: for tests of what uses a store.
//!
//! A state of the database is immutable, and a commit makes a new one: maps that it changes are
//! copied. So a snapshot is a counted reference. Commits are checked against the newest state by
//! comparing what was read, and are durable at once.
//!
//! What a transaction asks for is on its way to it or is there, call by call: a call that was
//! fetched once is answered from then on, as long as the transaction lasts. Which calls have to be
//! fetched, and which commits are refused, follows from a seed and from the order of what happens.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Range};
use std::hash::{BuildHasher, Hash};
use std::ops::Bound;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use colibri_storage::TxnId;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::apply::{patch_all, patch_one};
use crate::columns::ColumnSet;
use crate::commit::{Commit, PendingCommit, QueuedCommit};
use crate::error::{Error, Result};
use crate::local::{Counts, count};
use crate::locks::{LockInfo, LockTable, Locks, OwnerId, SessionLocks, Taken};
use crate::merge::{self, Entries, Loaded, first_entry, slice_of};
use crate::outcome::{Interruption, StoreWait};
use crate::reads::ReadSet;
use crate::series;
use crate::store::{
    Begin, Capabilities, Counters, Direction, IfLocked, Isolation, Key, KeyRange, LockMode, Patch, Remains, Savepoint,
    Space, SpaceId, SpaceSize, Store, Transaction, Visit,
};
use crate::ticket::CommitTicket;
use crate::validate::same;
use crate::writes::{Base, Image, Patched, StoredAt, Write, WriteSet, find_loaded};

mod commit;

use commit::{Pending, Request, holds};

/// How a [`MemoryStore`] behaves.
#[derive(Debug, Clone, Copy)]
pub struct MemoryOptions {
    /// What is random follows from it.
    pub seed: u64,
    /// How long a fetch or a commit takes.
    pub latency: Duration,
    /// The percentage of calls that have to be fetched when a transaction makes them for the first
    /// time.
    pub fetches_percent: u32,
    /// Commits take as long as a fetch, and wait in a queue meanwhile.
    pub slow_commits: bool,
    /// See [`Capabilities::locks`].
    pub locks: bool,
    /// See [`Capabilities::patches_at_commit`].
    pub patches_at_commit: bool,
    /// See [`Capabilities::key_bytes_max`].
    pub key_bytes_max: usize,
    /// See [`Capabilities::txn_age_max`]. Whoever uses the store sees to it.
    pub txn_age_max: Option<Duration>,
    /// See [`Capabilities::counts`]. Without, the store estimates nothing but whole spaces.
    pub counts: bool,
}

impl Default for MemoryOptions {
    /// A store that can do what the local one can, with nothing to wait for.
    fn default() -> Self {
        Self {
            seed: 0,
            latency: Duration::ZERO,
            fetches_percent: 0,
            slow_commits: false,
            locks: true,
            patches_at_commit: true,
            // That of a database with pages of 4 KiB.
            key_bytes_max: 960,
            txn_age_max: None,
            counts: true,
        }
    }
}

/// A store in memory. Clones are the same store.
#[derive(Clone)]
pub struct MemoryStore(Arc<Shared>);

/// The entries of a space.
type Map = BTreeMap<Key, Arc<[u8]>>;

/// A state of the database.
#[derive(Default)]
struct State {
    txn: TxnId,
    spaces: HashMap<SpaceId, Arc<Map>>,
}

struct Shared {
    /// Itself, for what happens later.
    this: Weak<Self>,
    options: MemoryOptions,
    newest: Mutex<Arc<State>>,
    locks: Arc<LockTable>,
    counts: Counts,
    /// See [`MemoryStore::refuse_commits`].
    refused_percent: AtomicU32,
    /// Draws so far.
    draws: AtomicU64,
    hasher: foldhash::fast::FixedState,
    /// What is to be done later, in order.
    later: Sender<(Instant, Box<dyn FnOnce() + Send>)>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(options: MemoryOptions) -> Self {
        let (later, jobs) = channel::<(Instant, Box<dyn FnOnce() + Send>)>();
        if options.fetches_percent > 0 || options.slow_commits {
            std::thread::spawn(move || {
                for (due, job) in jobs {
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    job();
                }
            });
        }
        Self(Arc::new_cyclic(|this| Shared {
            this: this.clone(),
            options,
            newest: Mutex::default(),
            locks: Arc::new(LockTable::new()),
            counts: Counts::default(),
            refused_percent: AtomicU32::new(0),
            draws: AtomicU64::new(0),
            hasher: foldhash::fast::FixedState::with_seed(options.seed),
            later,
        }))
    }

    /// Sets the percentage of writing commits that fail with a conflict, as if others had changed
    /// what they have read.
    pub fn refuse_commits(&self, percent: u32) {
        self.0.refused_percent.store(percent, Ordering::Relaxed);
    }
}

impl Shared {
    fn newest(&self) -> Arc<State> {
        Arc::clone(&self.newest.lock())
    }

    fn hash(&self, of: impl Hash) -> u64 {
        self.hasher.hash_one(of)
    }

    /// Whether something happens that is to happen so many times in 100.
    fn happens(&self, percent: u32) -> bool {
        percent > 0 && self.hash(self.draws.fetch_add(1, Ordering::Relaxed)) % 100 < u64::from(percent)
    }

    fn after_latency(&self, job: impl FnOnce() + Send + 'static) {
        // If the thread is gone, the job is dropped, and with it what ends the wait.
        _ = self.later.send((Instant::now() + self.options.latency, Box::new(job)));
    }

    fn begin(&self, begun: Begin) -> Box<dyn Transaction> {
        let shared = self.this.upgrade().expect("whoever calls it holds the store");
        Box::new(MemoryTransaction {
            begun,
            snapshot: self.newest(),
            behind: None,
            blind: None,
            read_back: None,
            reads: ReadSet::default(),
            pinned: ReadSet::default(),
            writes: WriteSet::default(),
            locks: Locks::new(&self.locks),
            nonce: self.draws.fetch_add(1, Ordering::Relaxed),
            fetched: Arc::default(),
            shared,
        })
    }
}

impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        let options = &self.0.options;
        Capabilities {
            key_bytes_max: options.key_bytes_max,
            value_bytes_max: u32::MAX as usize,
            txn_bytes_max: None,
            txn_age_max: options.txn_age_max,
            locks: options.locks,
            patches_at_commit: options.patches_at_commit,
            counts: options.counts,
            fetches: options.fetches_percent > 0,
        }
    }

    fn begin_after(&self, how: Begin, _: TxnId) -> Result<Box<dyn Transaction>> {
        Ok(self.0.begin(how))
    }

    fn newest_txn(&self) -> TxnId {
        self.0.newest.lock().txn
    }

    fn counters(&self) -> Counters {
        let Shared { counts, locks, .. } = &*self.0;
        Counters {
            commits: counts.commits.load(Ordering::Relaxed),
            batches: counts.commits.load(Ordering::Relaxed),
            conflicts: counts.conflicts.load(Ordering::Relaxed),
            lock_waits: locks.waits_count.load(Ordering::Relaxed),
            deadlocks: locks.deadlocks_count.load(Ordering::Relaxed),
            restarts: counts.restarts.load(Ordering::Relaxed),
        }
    }

    fn space_size(&self, space: SpaceId) -> Result<Option<SpaceSize>> {
        let newest = self.0.newest();
        let size = |map: &Arc<Map>| SpaceSize {
            entries: map.len() as u64,
            bytes: map.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum(),
        };
        Ok(newest.spaces.get(&space).map(size))
    }

    fn session_locks(&self) -> SessionLocks {
        SessionLocks::new(&self.0.locks)
    }

    fn locks(&self) -> Vec<LockInfo> {
        self.0.locks.list()
    }

    fn set_long_work_hook(&self, _: Box<dyn Fn() + Send + Sync>) {}
}

/// A transaction of a [`MemoryStore`].
struct MemoryTransaction {
    shared: Arc<Shared>,
    begun: Begin,
    snapshot: Arc<State>,
    /// The snapshot to go back to while it looks ahead.
    behind: Option<Arc<State>>,
    blind: Option<SpaceId>,
    read_back: Option<SpaceId>,
    reads: ReadSet,
    /// What would have been locked, where nothing can be: it is checked whatever the isolation.
    pinned: ReadSet,
    writes: WriteSet,
    locks: Locks,
    /// Has other calls fetched than in other transactions.
    nonce: u64,
    /// Calls whose answers have been asked for; `None` once they have come.
    fetched: Arc<Mutex<HashMap<u64, Option<StoreWait>>>>,
}

/// Entries of a map in the order of a scan.
struct Walk<'a> {
    rest: Range<'a, Key, Arc<[u8]>>,
    at: Option<(&'a Key, &'a Arc<[u8]>)>,
    direction: Direction,
}

impl<'a> Walk<'a> {
    fn new(map: &'a Map, range: &KeyRange, direction: Direction) -> Self {
        let (low, high) = range.bounds();
        let mut walk = Self { rest: map.range::<[u8], _>((low, high)), at: None, direction };
        walk.step();
        walk
    }

    fn step(&mut self) {
        self.at = match self.direction {
            Direction::Forward => self.rest.next(),
            Direction::Backward => self.rest.next_back(),
        };
    }
}

impl Entries for Walk<'_> {
    fn key(&self) -> Option<&[u8]> {
        self.at.map(|(key, _)| key.as_slice())
    }

    fn value(&self) -> Result<&[u8]> {
        Ok(self.at.map_or(&[], |(_, value)| value))
    }

    fn advance(&mut self) -> Result<()> {
        self.step();
        Ok(())
    }
}

fn in_range<'a>(map: &'a Map, range: &KeyRange) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
    let found = (!range.is_empty()).then(|| {
        let (low, high) = range.bounds();
        map.range::<[u8], _>((low, high))
    });
    found.into_iter().flatten().map(|(key, value)| (key.as_slice(), &**value))
}

/// All keys that begin so.
fn with_prefix(prefix: &[u8]) -> KeyRange {
    let mut end = Key::from_slice(prefix);
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return KeyRange { low: Bound::Included(Key::from_slice(prefix)), high: Bound::Excluded(end) };
        }
    }
    KeyRange { low: Bound::Included(Key::from_slice(prefix)), high: Bound::Unbounded }
}

impl MemoryTransaction {
    /// Whether the answer to a call has come.
    fn fetch(&self, call: impl Hash) -> Result<()> {
        let options = &self.shared.options;
        if options.fetches_percent == 0 {
            return Ok(());
        }
        let call = self.shared.hash((self.nonce, call));
        if call % 100 >= u64::from(options.fetches_percent) {
            return Ok(());
        }
        let mut fetched = self.fetched.lock();
        let wait = match fetched.get(&call) {
            Some(None) => return Ok(()),
            Some(Some(wait)) => wait.clone(),
            None => {
                let (wait, done) = StoreWait::new();
                let known = Arc::clone(&self.fetched);
                fetched.insert(call, Some(wait.clone()));
                self.shared.after_latency(move || {
                    known.lock().insert(call, None);
                    drop(done);
                });
                wait
            }
        };
        Err(Error::Interrupted(Interruption::Fetch(wait)))
    }

    fn fetch_key(&self, space: SpaceId, key: &[u8]) -> Result<()> {
        self.fetch((space, key))
    }

    fn fetch_range(&self, space: SpaceId, range: &KeyRange, what: usize) -> Result<()> {
        self.fetch((space, &range.low, &range.high, what))
    }

    fn map_in(state: &State, space: SpaceId) -> Result<&Arc<Map>> {
        state.spaces.get(&space).ok_or(Error::NoSuchSpace { space })
    }

    fn stored(&self, space: SpaceId, key: &[u8]) -> Result<Option<&[u8]>> {
        Ok(Self::map_in(&self.snapshot, space)?.get(key).map(|value| &**value))
    }

    fn own_base(&self, space: SpaceId) -> Option<&Base> {
        self.writes.space(space).map(|writes| &writes.base).filter(|base| !matches!(base, Base::Stored))
    }

    fn is_read_committed(&self) -> bool {
        self.begun.isolation == Isolation::ReadCommitted
    }

    fn remembers(&mut self, space: SpaceId) -> bool {
        if !self.begun.read_only || !self.writes.is_empty() {
            return true;
        }
        if !self.is_read_committed() {
            self.blind.get_or_insert(space);
        }
        false
    }

    fn read_point(&mut self, space: &Space, key: &[u8], columns: ColumnSet) {
        if self.remembers(space.id) {
            self.reads.point(space, key, columns);
        }
    }

    fn read_range(&mut self, space: &Space, range: KeyRange, columns: ColumnSet) {
        if self.remembers(space.id) {
            self.reads.range(space, range, columns);
        }
    }

    fn see(&self, space: SpaceId, key: &[u8]) -> Result<Option<&[u8]>> {
        if let Some(writes) = self.writes.space(space) {
            if let Some(write) = writes.seen(key) {
                return Ok(write.value());
            }
            match &writes.base {
                Base::Stored => {}
                Base::Made(entries) => return Ok(find_loaded(entries, key)),
                Base::Dropped { .. } => return Ok(None),
            }
        }
        self.stored(space, key)
    }

    fn base_count(&self, space: SpaceId, range: &KeyRange) -> Result<u64> {
        match self.own_base(space) {
            _ if range.is_empty() => Ok(0),
            Some(Base::Made(entries)) => Ok(slice_of(entries, range).len() as u64),
            Some(_) => Ok(0),
            None => Ok(in_range(Self::map_in(&self.snapshot, space)?, range).count() as u64),
        }
    }

    fn check_writable(&self, space: SpaceId) -> Result<()> {
        if self.begun.read_only {
            return Err(Error::ReadOnly);
        }
        match self.own_base(space) {
            Some(Base::Dropped { .. }) => Err(Error::NoSuchSpace { space }),
            _ => Ok(()),
        }
    }

    fn check_entry(&self, key: &[u8], value_bytes: usize) -> Result<()> {
        let capabilities = MemoryStore(Arc::clone(&self.shared)).capabilities();
        capabilities.check_key(key)?;
        capabilities.check_value(value_bytes)
    }

    fn take_lock(&mut self, space: &Space, key: &[u8], mode: LockMode, if_locked: IfLocked) -> Result<()> {
        if !self.shared.options.locks {
            self.pinned.range(space, with_prefix(key), ColumnSet::ALL);
            return Ok(());
        }
        let taken = self.locks.take(space.id, key, mode, if_locked)?;
        if taken.verified {
            return Ok(());
        }
        if !self.sees_the_newest(space, key, &taken) {
            return Err(Error::Interrupted(Interruption::Stale));
        }
        if taken.mode != LockMode::Add {
            self.locks.verified(taken.name);
        }
        Ok(())
    }

    /// As of the local store's transactions.
    fn sees_the_newest(&self, space: &Space, key: &[u8], taken: &Taken) -> bool {
        let newest = self.shared.newest();
        if Arc::ptr_eq(&newest, &self.snapshot) || self.own_base(space.id).is_some() {
            return true;
        }
        let (old, new) = match (self.snapshot.spaces.get(&space.id), newest.spaces.get(&space.id)) {
            (Some(old), Some(new)) => (old, new),
            (old, new) => return old.is_none() && new.is_none(),
        };
        let (before, after) = (old.get(key).map(|value| &**value), new.get(key).map(|value| &**value));
        if before.is_none() && after.is_none() {
            let keys = |map: &'_ Arc<Map>| -> Vec<Key> {
                in_range(map, &with_prefix(key)).map(|(key, _)| Key::from_slice(key)).collect()
            };
            return keys(old) == keys(new);
        }
        if before == after {
            return true;
        }
        let stands_still = !matches!(taken.mode, LockMode::Add | LockMode::KeyShare);
        if stands_still || before.is_none() || after.is_none() {
            return false;
        }
        let columns = self.reads.columns_of(space.id, key).unwrap_or(ColumnSet::NONE);
        same(space, columns, before, after)
    }

    fn keep_for_itself(&mut self, space: &Space, key: &[u8], columns: ColumnSet) -> Result<()> {
        match self.writes.find(space.id, key) {
            Some(Write::Patch(patched)) if patched.adds.intersects(columns) => {
                self.read_back = Some(space.id);
                self.take_lock(space, key, LockMode::NoKeyUpdate, IfLocked::Wait)
            }
            _ => Ok(()),
        }
    }

    fn images_in(&self, state: &State) -> Result<Vec<Option<Image>>> {
        let mut images = Vec::new();
        for (space, key, patched) in self.writes.patched() {
            let row = state.spaces.get(&space).and_then(|map| map.get(key));
            let image = |row| Result::Ok((patch_all(&patched.patches, row)?, StoredAt::new(state.txn, row)));
            images.push(row.map(|row| image(row)).transpose()?);
        }
        Ok(images)
    }

    fn renew_images(&mut self) -> Result<()> {
        if self.writes.has_old_images() {
            let images = self.images_in(&self.snapshot)?;
            self.writes.set_images(images);
        }
        Ok(())
    }

    fn move_to(&mut self, state: Arc<State>) -> Result<()> {
        let images = self.images_in(&state)?;
        self.writes.set_images(images);
        self.writes.make_notes_old();
        self.snapshot = state;
        Ok(())
    }

    fn check_reads(&self, newer: &State) -> Result<()> {
        let checked = match self.blind {
            Some(space) => Err(Error::Conflict { space }),
            None => holds(&self.reads, &self.snapshot, newer),
        };
        if checked.is_err() {
            count(&self.shared.counts.conflicts, 1);
        }
        checked
    }
}

impl Transaction for MemoryTransaction {
    fn begun(&self) -> Begin {
        self.begun
    }

    fn id(&self) -> OwnerId {
        self.locks.owner()
    }

    fn sees(&self) -> TxnId {
        self.snapshot.txn
    }

    fn ticket_of_reads(&self) -> CommitTicket {
        CommitTicket::durable(self.snapshot.txn, None)
    }

    fn take_read_back(&mut self) -> Option<SpaceId> {
        self.read_back.take()
    }

    fn set_read_only(&mut self, read_only: bool) {
        self.begun.read_only = read_only;
    }

    fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    fn write_bytes(&self) -> usize {
        self.writes.bytes()
    }

    fn get(&mut self, space: &Space, key: &[u8], columns: ColumnSet) -> Result<Option<&[u8]>> {
        let writes = self.writes.space(space.id);
        let write = writes.and_then(|writes| writes.seen(key));
        match (write, writes.map(|writes| &writes.base)) {
            (Some(Write::Patch(_)), _) => {
                self.keep_for_itself(space, key, columns)?;
                self.read_point(space, key, columns);
            }
            (None, None | Some(Base::Stored)) => {
                self.fetch_key(space.id, key)?;
                Self::map_in(&self.snapshot, space.id)?;
                self.read_point(space, key, columns);
            }
            _ => {}
        }
        self.see(space.id, key)
    }

    fn peek(&mut self, space: &Space, key: &[u8]) -> Result<Option<&[u8]>> {
        if self.own_base(space.id).is_none() {
            self.fetch_key(space.id, key)?;
        }
        self.see(space.id, key)
    }

    fn scan(
        &mut self,
        space: &Space,
        range: &KeyRange,
        direction: Direction,
        columns: ColumnSet,
        limit: usize,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let own = self.writes.space(space.id);
        match own.map(|own| &own.base) {
            Some(Base::Dropped { .. }) => return Ok(()),
            Some(Base::Made(entries)) => {
                let loaded = Loaded::new(entries, range, direction);
                return merge::scan(loaded, own, range, direction, visit).map(|_| ());
            }
            Some(Base::Stored) | None => {}
        }
        let adds = |(key, write): (&[u8], &Write)| match write {
            Write::Patch(patched) if patched.adds.intersects(columns) => Some(Key::from_slice(key)),
            _ => None,
        };
        let added: Vec<Key> = own.map(|own| own.in_range(range).filter_map(adds).collect()).unwrap_or_default();
        self.fetch_range(space.id, range, direction as usize)?;
        for key in added {
            self.read_back = Some(space.id);
            self.take_lock(space, &key, LockMode::NoKeyUpdate, IfLocked::Wait)?;
        }
        let snapshot = Arc::clone(&self.snapshot);
        let stored = Walk::new(Self::map_in(&snapshot, space.id)?, range, direction);
        let mut left = limit;
        let mut visit = |key: &[u8], value: &[u8]| {
            assert!(left > 0, "a visitor looks at more entries than it has said");
            left -= 1;
            visit(key, value)
        };
        let end = merge::scan(stored, self.writes.space(space.id), range, direction, &mut visit)?;
        let mut covered = range.clone();
        if let Some(end) = end {
            match direction {
                Direction::Forward => covered.high = Bound::Included(end),
                Direction::Backward => covered.low = Bound::Included(end),
            }
        }
        self.read_range(space, covered, columns);
        Ok(())
    }

    fn prefetch(&mut self, space: &Space, keys: &[&[u8]], ranges: &[KeyRange]) {
        // That they are on their way is all that is wanted.
        for key in keys {
            drop(self.fetch_key(space.id, key));
        }
        for range in ranges {
            drop(self.fetch_range(space.id, range, Direction::Forward as usize));
        }
    }

    fn fetches(&self) -> bool {
        self.shared.options.fetches_percent > 0
    }

    fn count(&mut self, space: &Space, range: &KeyRange) -> Result<u64> {
        let stored = self.own_base(space.id).is_none();
        if stored {
            self.fetch_range(space.id, range, 2)?;
        }
        let mut count = self.base_count(space.id, range)?;
        if let Some(own) = self.writes.space(space.id) {
            count = own.count_over(count, range, |key| Ok(self.stored(space.id, key)?.is_some()))?;
        }
        if stored {
            self.read_range(space, range.clone(), ColumnSet::NONE);
        }
        Ok(count)
    }

    fn estimate(&self, space: &Space, range: &KeyRange) -> Result<u64> {
        assert!(self.shared.options.counts || *range == KeyRange::all(), "nothing counts this range quickly");
        self.fetch_range(space.id, range, 3)?;
        self.base_count(space.id, range)
    }

    fn sample(&self, space: &Space, entries_max: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.fetch((space.id, "sample", entries_max))?;
        let entries: Vec<(&[u8], &[u8])> = match self.own_base(space.id) {
            Some(Base::Made(entries)) => entries.iter().map(|(key, value)| (key.as_slice(), &value[..])).collect(),
            Some(_) => Vec::new(),
            None => in_range(Self::map_in(&self.snapshot, space.id)?, &KeyRange::all()).collect(),
        };
        let count = entries.len().min(entries_max);
        for nth in 0..count {
            let (key, value) = entries[(2 * nth + 1) * entries.len() / (2 * count)];
            visit(key, value);
        }
        Ok(())
    }

    fn put(&mut self, space: &Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_writable(space.id)?;
        self.check_entry(key, value.len())?;
        self.writes.change(space.id, key, Write::Put(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, space: &Space, key: &[u8]) -> Result<()> {
        self.check_writable(space.id)?;
        self.check_entry(key, 0)?;
        self.writes.change(space.id, key, Write::Delete);
        Ok(())
    }

    fn append(&mut self, space: &Space, prefix: &[u8], value: &[u8]) -> Result<()> {
        self.check_writable(space.id)?;
        let key = series::place_holder(prefix, self.writes.mark());
        self.check_entry(&key, value.len())?;
        self.writes.change(space.id, &key, Write::Append(value.to_vec()));
        Ok(())
    }

    fn cut(&mut self, space: &Space, prefix: &[u8], below: i64) -> Result<()> {
        self.check_writable(space.id)?;
        let key = series::cut_mark(prefix);
        self.check_entry(&key, 0)?;
        self.writes.change(space.id, &key, Write::Cut(below));
        Ok(())
    }

    fn edge(&mut self, space: &Space, range: &KeyRange, direction: Direction) -> Result<Option<(Key, Vec<u8>)>> {
        if range.is_empty() {
            return Ok(None);
        }
        match self.own_base(space.id) {
            Some(Base::Made(entries)) => return first_entry(&Loaded::new(entries, range, direction)),
            Some(_) => return Ok(None),
            None => self.fetch_range(space.id, range, 4 + usize::from(direction == Direction::Forward))?,
        }
        first_entry(&Walk::new(Self::map_in(&self.snapshot, space.id)?, range, direction))
    }

    fn patch(&mut self, space: &Space, key: &[u8], adds: ColumnSet, patch: Arc<dyn Patch>) -> Result<()> {
        self.check_writable(space.id)?;
        let missing = || Error::NoSuchKey { space: space.id };
        let write = match self.writes.find(space.id, key) {
            Some(Write::Delete | Write::Append(_) | Write::Cut(_)) => return Err(missing()),
            Some(Write::Put(value)) => Write::Put(patch_one(&*patch, value)?),
            Some(Write::Patch(patched)) => {
                let image = patch_one(&*patch, patched.image.as_deref().ok_or_else(missing)?)?;
                let mut patched = patched.clone();
                patched.patches.push(patch);
                patched.adds = patched.adds.union(adds);
                patched.image = Some(image);
                Write::Patch(patched)
            }
            None if self.own_base(space.id).is_some() => {
                let row = self.see(space.id, key)?.ok_or_else(missing)?;
                Write::Put(patch_one(&*patch, row)?)
            }
            None => {
                self.fetch_key(space.id, key)?;
                let at_commit = self.shared.options.patches_at_commit;
                self.read_point(space, key, if at_commit { ColumnSet::NONE } else { ColumnSet::ALL });
                let row = self.stored(space.id, key)?.ok_or_else(missing)?;
                let image = patch_one(&*patch, row)?;
                match at_commit {
                    true => Write::Patch(Box::new(Patched {
                        patches: SmallVec::from_iter([patch]),
                        adds,
                        image: Some(image),
                        made_of: None,
                    })),
                    false => Write::Put(image),
                }
            }
        };
        self.writes.change(space.id, key, write);
        Ok(())
    }

    fn keep_old(&mut self) {
        self.writes.keep_old();
    }

    fn see_old(&mut self, sees_old: bool) -> bool {
        self.writes.see_old(sees_old)
    }

    fn forget_old(&mut self) {
        self.writes.forget_old();
    }

    fn is_written(&self, space: &Space, key: &[u8]) -> bool {
        self.writes.has_old(space.id, key)
    }

    fn note_written(&mut self, space: &Space, key: &[u8]) {
        self.writes.keep(space.id, key);
    }

    fn load(&mut self, space: &Space, entries: Vec<(Key, Vec<u8>)>) -> Result<()> {
        self.check_writable(space.id)?;
        match self.writes.space(space.id) {
            Some(own) if own.changes.is_empty() && matches!(&own.base, Base::Made(entries) if entries.is_empty()) => {}
            _ => return Err(Error::NotEmpty { space: space.id }),
        }
        for (key, value) in &entries {
            self.check_entry(key, value.len())?;
        }
        if entries.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(colibri_storage::Error::KeyNotInOrder.into());
        }
        self.writes.rebase(space.id, Base::Made(entries));
        Ok(())
    }

    fn create_space(&mut self, space: SpaceId) -> Result<()> {
        if self.begun.read_only {
            return Err(Error::ReadOnly);
        }
        self.writes.rebase(space, Base::Made(Vec::new()));
        Ok(())
    }

    fn drop_space(&mut self, space: SpaceId) -> Result<()> {
        if self.begun.read_only {
            return Err(Error::ReadOnly);
        }
        let made = matches!(self.own_base(space), Some(Base::Made(_) | Base::Dropped { made: true }));
        self.writes.rebase(space, Base::Dropped { made });
        Ok(())
    }

    fn lock(&mut self, space: &Space, key: &[u8], mode: LockMode, if_locked: IfLocked) -> Result<()> {
        if self.begun.read_only {
            return Err(Error::ReadOnly);
        }
        self.fetch((space.id, "lock", key))?;
        self.take_lock(space, key, mode, if_locked)
    }

    fn expect_newest(&mut self, space: &Space, range: &KeyRange) -> Result<()> {
        let newest = self.shared.newest();
        if Arc::ptr_eq(&newest, &self.snapshot) || self.own_base(space.id).is_some() {
            return Ok(());
        }
        self.fetch_range(space.id, range, 4)?;
        let old = Self::map_in(&self.snapshot, space.id)?;
        match newest.spaces.get(&space.id) {
            Some(new) if Arc::ptr_eq(old, new) || in_range(old, range).eq(in_range(new, range)) => Ok(()),
            _ => Err(Error::Interrupted(Interruption::Stale)),
        }
    }

    fn begin_statement(&mut self) -> Result<Savepoint> {
        self.writes.forget_old();
        if self.is_read_committed() {
            self.reads.clear();
        }
        let depends = !self.reads.reads().is_empty() || !self.pinned.reads().is_empty() || self.blind.is_some();
        let newest = self.shared.newest();
        if !depends && !Arc::ptr_eq(&newest, &self.snapshot) {
            self.move_to(newest)?;
        }
        Ok(self.savepoint())
    }

    fn savepoint(&self) -> Savepoint {
        Savepoint { writes: self.writes.mark(), reads: self.reads.mark(), beside: 0 }
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.writes.undo(savepoint.writes);
        self.renew_images()
    }

    fn restart(&mut self, savepoint: Savepoint) -> Result<()> {
        self.writes.forget_old();
        count(&self.shared.counts.restarts, 1);
        self.writes.undo(savepoint.writes);
        self.reads.cut(savepoint.reads);
        let newest = self.shared.newest();
        if Arc::ptr_eq(&newest, &self.snapshot) {
            return self.renew_images();
        }
        if !self.is_read_committed() {
            self.check_reads(&newest)?;
        }
        holds(&self.pinned, &self.snapshot, &newest)?;
        self.move_to(newest)
    }

    fn catch_up(&mut self) -> Result<Option<bool>> {
        if self.blind.is_some() && !self.is_read_committed() {
            return Ok(Some(false));
        }
        let newest = self.shared.newest();
        if Arc::ptr_eq(&newest, &self.snapshot) {
            return Ok(None);
        }
        if self.is_read_committed() {
            self.reads.clear();
        } else if self.check_reads(&newest).is_err() {
            return Ok(Some(false));
        }
        if holds(&self.pinned, &self.snapshot, &newest).is_err() {
            return Ok(Some(false));
        }
        self.move_to(newest)?;
        Ok(Some(true))
    }

    fn look_ahead(&mut self) -> Result<()> {
        let space = self.reads.reads().first().map(|read| self.reads.space(read.space).id);
        let before = Arc::clone(&self.snapshot);
        self.move_to(self.shared.newest())?;
        self.behind = Some(before);
        self.blind = self.blind.or(space);
        Ok(())
    }

    fn look_back(&mut self) -> Result<()> {
        match self.behind.take() {
            Some(behind) => self.move_to(behind),
            None => Ok(()),
        }
    }

    fn commit_leaving(self: Box<Self>, _: &mut Option<Box<dyn Remains>>) -> Result<Commit> {
        let ticket = self.ticket_of_reads();
        let Self { shared, begun, snapshot, blind, mut reads, pinned, writes, locks, .. } = *self;
        if writes.is_empty() {
            return Ok(Commit::Ended(ticket));
        }
        if !begun.isolation.validates_reads() {
            reads.clear();
        }
        let request = Request { shared: Arc::clone(&shared), snapshot, blind, reads, pinned, writes, _locks: locks };
        if !shared.options.slow_commits {
            return request.commit().map(Commit::Ended);
        }
        let (wait, done) = StoreWait::new();
        let result = Arc::new(Mutex::new(None));
        let told = Arc::clone(&result);
        shared.after_latency(move || {
            *told.lock() = Some(request.commit());
            drop(done);
        });
        let pending: Box<dyn PendingCommit> = Box::new(Pending { wait, result });
        Ok(Commit::Queued(QueuedCommit::new(pending)))
    }
}

//! Prepared transactions: transactions that have promised to be able to commit, and wait, over
//! crashes and restarts, to be told whether to.
//!
//! PREPARE checks a transaction as a commit does. Then it writes a *record* into a table of the
//! storage instead of changing anything else: the writes, what was read, the locks that are held.
//! The record is the promise. Ending the transaction removes the record, and a commit carries out
//! its writes first, in one transaction of the storage.
//!
//! ```text
//! table "prepared":  "g" → generation, u64      changes whenever a record comes or goes
//!                    "p" + name → record
//! record: version u8 = 1, number u64, about, locks, reads, writes
//! locks:  count u32, { space u32, mode u8, key }
//! reads:  count u32, { space u32, low, high }   bound: 0 | 1 key (included) | 2 key (excluded)
//! writes: count u32, { space u32, base u8, entries, changes }
//!         entries, changes: count u32, { key, 0 | 1 value }   base: 0 stored, 1 made, 2 dropped
//! about, key, value: length u32, bytes
//! ```
//!
//! Invariants:
//! 1. Between PREPARE and the end of a prepared transaction no commit changes what it has read or
//!    written. The leader of the queue of commits refuses such a commit. So what PREPARE has checked
//!    still holds at COMMIT PREPARED, which needs no check of its own.
//! 2. No transaction is prepared that has read what another prepared one has written. So prepared
//!    transactions can commit in any order.
//! 3. What is refused follows from the stored records alone, so it is the same after a crash, on
//!    another machine, and in another process. The locks are held in memory beside that: whoever
//!    asks for one waits, and is not refused at its commit.
//! 4. A patch is never a part of a record. The rows of patches are locked before PREPARE, so that the
//!    rows that it makes of them stay right.
//!
//! [`State::at`] says up to which commit the records in memory are those of the storage. The leader
//! looks at the generation only if anybody else has committed since.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Bound, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use colibri_storage::{Error as StorageError, Snapshot, Table, TableKind, TxnId, View, WriteTxn};

use crate::error::{Error, Result};
use crate::local::{Shared, table_name};
use crate::locks::Locks;
use crate::queue::Request;
use crate::reads::{Covered, ReadSet};
use crate::series;
use crate::store::{IfLocked, Key, KeyRange, LockMode, PreparedInfo, SpaceId};
use crate::sync::Mutex;
use crate::writes::{Base, Write, WriteSet};

/// The table of the storage that holds the records.
const TABLE: &str = "prepared";
/// The key of the generation.
const GENERATION: &[u8] = b"g";
/// What the keys of records begin with.
const RECORD: u8 = b'p';
/// ON DISK: never renumber.
const VERSION: u8 = 1;
/// ON DISK: never renumber. The modes of locks by their numbers.
const MODES: [LockMode; 5] =
    [LockMode::KeyShare, LockMode::Share, LockMode::Add, LockMode::NoKeyUpdate, LockMode::Exclusive];

/// What a request of the queue of commits is to do.
pub(crate) enum Task {
    /// Commit what the transaction has written.
    Commit,
    /// Prepare it, under a name. The bytes are handed on to whoever lists prepared transactions.
    Prepare { name: String, about: Vec<u8> },
    /// End a prepared transaction.
    Finish { name: String, commits: bool },
}

/// The prepared transactions of a store.
#[derive(Default)]
pub(crate) struct PreparedSet {
    state: Mutex<State>,
    /// How many there may be. 0: none can be made, and no keys of locks are kept.
    max: AtomicUsize,
}

/// What is known of them. The leader of the queue of commits changes it.
#[derive(Default)]
pub(crate) struct State {
    /// The commit up to which `guards` are those of the storage.
    at: Option<TxnId>,
    generation: u64,
    guards: BTreeMap<String, Guard>,
    /// The locks that they hold here.
    held: HashMap<String, Locks>,
}

/// What a prepared transaction keeps others from changing, and from reading if they are to be
/// prepared.
#[derive(Default)]
struct Guard(HashMap<SpaceId, SpaceGuard>);

#[derive(Default)]
struct SpaceGuard {
    /// It has made or dropped the space.
    is_whole: bool,
    written: BTreeSet<Key>,
    points: BTreeSet<Key>,
    ranges: Vec<KeyRange>,
}

impl SpaceGuard {
    fn covers(&self, key: &[u8]) -> bool {
        self.is_whole
            || self.written.contains(key)
            || self.points.contains(key)
            || self.ranges.iter().any(|range| range.contains(key))
    }

    /// Whether it keeps anything of a series: which entries will change is not known yet.
    fn has_any_of(&self, prefix: &[u8]) -> bool {
        let all = series::range(prefix, i64::MIN..=i64::MAX);
        let is_in = |keys: &BTreeSet<Key>| keys.range::<[u8], _>(all.bounds()).next().is_some();
        self.is_whole
            || is_in(&self.written)
            || is_in(&self.points)
            || self.ranges.iter().any(|range| range.touches(&all))
    }

    fn has_written(&self, covered: &Covered) -> bool {
        self.is_whole
            || match covered {
                Covered::Point(key) => self.written.contains(key),
                Covered::Range(range) => {
                    !range.is_empty() && self.written.range::<[u8], _>(range.bounds()).next().is_some()
                }
            }
    }
}

impl PreparedSet {
    pub(crate) fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    pub(crate) fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// For the leader, in a transaction of the storage: brings what is known up to date.
    pub(crate) fn in_batch(&self, shared: &Shared, txn: &WriteTxn) -> Result<impl DerefMut<Target = State> + use<'_>> {
        let mut state = self.state.lock();
        let begun = TxnId(txn.txn().0 - 1);
        if state.at != Some(begun) {
            let view = match txn.table(TABLE) {
                Err(StorageError::NoSuchTable { .. }) => None,
                table => Some(txn.view(&table?)?),
            };
            state.read(shared, view.as_ref())?;
            state.at = Some(begun);
        }
        Ok(state)
    }

    /// Reads the records when a database is opened, so that their locks are held from the start.
    pub(crate) fn load(&self, shared: &Shared) -> Result<()> {
        let snapshot = shared.database.read_newest_owned()?;
        let table = find(&snapshot)?;
        let view = table.map(|table| snapshot.view(&table)).transpose()?;
        let mut state = self.state.lock();
        state.read(shared, view.as_ref())?;
        state.at = Some(snapshot.txn());
        Ok(())
    }
}

fn find(snapshot: &Snapshot<'_>) -> Result<Option<Table>> {
    match snapshot.table(TABLE) {
        Err(StorageError::NoSuchTable { .. }) => Ok(None),
        table => Ok(Some(table?)),
    }
}

/// All records, with their names.
fn records<'v>(view: &View<'v>) -> Result<Vec<(String, Record<'v>)>> {
    let mut found = Vec::new();
    for entry in view.range((Bound::Included(&[RECORD][..]), Bound::Unbounded))? {
        let (key, _) = entry?;
        let name = String::from_utf8(key.get(1..).unwrap_or_default().to_vec()).map_err(|_| damaged())?;
        let Some(bytes) = view.get(&key)? else { continue };
        found.push((name, Record::read(bytes)?));
    }
    Ok(found)
}

/// What can be told of the prepared transactions of a state.
pub(crate) fn list(snapshot: &Snapshot<'_>) -> Result<Vec<PreparedInfo>> {
    let Some(table) = find(snapshot)? else { return Ok(Vec::new()) };
    let view = snapshot.view(&table)?;
    let info = |(name, record): (String, Record<'_>)| {
        let about = record.about.to_vec();
        let last_put = |space: &SpaceRecord<'_>| {
            let (key, value) = space.last_put()?;
            Some((space.id, Key::from_slice(key), value.to_vec()))
        };
        let last_puts = record.writes.iter().filter_map(last_put).collect();
        PreparedInfo { name, number: record.number, about, last_puts }
    };
    Ok(records(&view)?.into_iter().map(info).collect())
}

impl State {
    /// Whether there is any.
    pub(crate) fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// Takes over what the storage has, if that has changed. Locks of new records are taken, and
    /// those of records that are gone are released.
    fn read(&mut self, shared: &Shared, view: Option<&View<'_>>) -> Result<()> {
        let generation = match view.map(|view| view.get(GENERATION)).transpose()?.flatten() {
            Some(bytes) => u64::from_le_bytes(bytes.try_into().map_err(|_| damaged())?),
            None => 0,
        };
        if generation == self.generation && self.at.is_some() {
            return Ok(());
        }
        self.guards.clear();
        let all = view.map(records).transpose()?.unwrap_or_default();
        for (name, record) in &all {
            self.guards.insert(name.clone(), record.guard());
        }
        self.held.retain(|name, _| all.iter().any(|(known, _)| known == name));
        for (name, record) in &all {
            if !self.held.contains_key(name) {
                self.held.insert(name.clone(), record.take_locks(shared)?);
            }
        }
        self.generation = generation;
        Ok(())
    }

    /// Refuses what a prepared transaction keeps others from. `reads` are given of a transaction
    /// that is going to be prepared itself.
    pub(crate) fn check(&self, writes: &WriteSet, reads: Option<&ReadSet>) -> Result<()> {
        for guard in self.guards.values() {
            for space in writes.spaces() {
                let Some(kept) = guard.0.get(&space.id) else { continue };
                let is_kept = match &space.base {
                    Base::Stored => space.changes.iter().any(|(key, write)| match write {
                        Write::Append(_) | Write::Cut(_) => kept.has_any_of(series::prefix_of(key)),
                        _ => kept.covers(key),
                    }),
                    Base::Made(_) | Base::Dropped { .. } => true,
                };
                if is_kept {
                    return Err(Error::HeldByPrepared { space: space.id });
                }
            }
            for read in reads.into_iter().flat_map(ReadSet::reads) {
                let space = reads.map_or(SpaceId(0), |reads| reads.space(read.space).id);
                if guard.0.get(&space).is_some_and(|kept| kept.has_written(&read.covered)) {
                    return Err(Error::HeldByPrepared { space });
                }
            }
        }
        Ok(())
    }

    /// Refuses a name that cannot be used for another one.
    pub(crate) fn check_new(&self, name: &str, max: usize) -> Result<()> {
        if self.guards.contains_key(name) {
            return Err(Error::PreparedExists);
        }
        if self.guards.len() >= max {
            return Err(Error::TooManyPrepared { max });
        }
        Ok(())
    }

    /// A transaction of the storage that is not published yet has prepared a transaction or ended
    /// one: the requests behind it are checked against what it has made of the records. Locks stay
    /// as they are until it is published.
    pub(crate) fn changed(&mut self, txn: &WriteTxn, name: &str) -> Result<()> {
        let view = txn.view(&txn.table(TABLE)?)?;
        match view.get(&key_of(name))? {
            Some(bytes) => _ = self.guards.insert(name.to_owned(), Record::read(bytes)?.guard()),
            None => _ = self.guards.remove(name),
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    /// The transaction of the storage was published.
    pub(crate) fn published(&mut self, number: TxnId) {
        self.at = Some(number);
    }

    /// It was not: what is known is read anew.
    pub(crate) fn forget(&mut self) {
        self.at = None;
    }

    /// Keeps the locks of a transaction that was prepared.
    pub(crate) fn hold(&mut self, name: &str, locks: Locks) -> Option<Locks> {
        self.held.insert(name.to_owned(), locks)
    }

    /// The locks of one that has ended, to be released by dropping them.
    pub(crate) fn let_go(&mut self, name: &str) -> Option<Locks> {
        self.held.remove(name)
    }
}

// ---- carrying out ----

fn key_of(name: &str) -> Vec<u8> {
    let mut key = vec![RECORD];
    key.extend_from_slice(name.as_bytes());
    key
}

fn next_generation(txn: &mut WriteTxn, table: &Table) -> std::result::Result<(), StorageError> {
    let bytes = txn.view(table)?.get(GENERATION)?.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
    let next = bytes.map_or(0, u64::from_le_bytes).wrapping_add(1);
    txn.put(table, GENERATION, &next.to_le_bytes())
}

/// Writes the record of a request that was checked.
pub(crate) fn prepare(
    request: &Request,
    rows: &[impl AsRef<[u8]>],
    (name, about): (&str, &[u8]),
    txn: &mut WriteTxn,
) -> std::result::Result<(), StorageError> {
    let number = txn.txn().0;
    let mut out = vec![VERSION];
    out.extend_from_slice(&number.to_le_bytes());
    put_bytes(&mut out, about);
    let locks = request.work.locks.kept();
    put_count(&mut out, locks.len());
    for (space, key, mode) in locks {
        out.extend_from_slice(&space.0.to_le_bytes());
        out.push(MODES.iter().position(|known| *known == mode).unwrap_or_default() as u8);
        put_bytes(&mut out, &key);
    }
    let reads = &request.work.reads;
    put_count(&mut out, reads.reads().len());
    for read in reads.reads() {
        out.extend_from_slice(&reads.space(read.space).id.0.to_le_bytes());
        match &read.covered {
            Covered::Point(key) => {
                put_bound(&mut out, Bound::Included(key));
                put_bound(&mut out, Bound::Included(key));
            }
            Covered::Range(range) => {
                put_bound(&mut out, range.low.as_ref());
                put_bound(&mut out, range.high.as_ref());
            }
        }
    }
    let mut rows = rows.iter();
    let is_left = |base: &Base| !matches!(base, Base::Dropped { made: true });
    let spaces: Vec<_> = request.work.writes.spaces().iter().filter(|space| is_left(&space.base)).collect();
    put_count(&mut out, spaces.len());
    for space in spaces {
        out.extend_from_slice(&space.id.0.to_le_bytes());
        let none = Vec::new();
        let (base, entries) = match &space.base {
            Base::Stored => (0, &none),
            Base::Made(entries) => (1, entries),
            Base::Dropped { .. } => (2, &none),
        };
        out.push(base);
        put_count(&mut out, entries.len());
        for (key, value) in entries {
            put_change(&mut out, key, Some(value));
        }
        put_count(&mut out, space.changes.iter().count());
        for (key, write) in space.changes.iter() {
            let value = match write {
                Write::Put(value) => Some(&value[..]),
                Write::Delete => None,
                Write::Append(_) | Write::Cut(_) => unreachable!("such a transaction is not prepared"),
                Write::Patch(_) => {
                    Some(rows.next().expect("a row was made for each patch when the request was checked").as_ref())
                }
            };
            put_change(&mut out, key, value);
        }
    }
    let table = txn.create_table(TABLE, TableKind::Plain)?;
    txn.put(&table, &key_of(name), &out)?;
    next_generation(txn, &table)
}

/// Ends a prepared transaction. Gives the spaces that were removed.
pub(crate) fn finish(
    shared: &Shared,
    name: &str,
    commits: bool,
    txn: &mut WriteTxn,
) -> Result<std::result::Result<Vec<SpaceId>, StorageError>> {
    let table = match txn.table(TABLE) {
        Err(StorageError::NoSuchTable { .. }) => return Err(Error::NoSuchPrepared),
        table => table?,
    };
    let key = key_of(name);
    let bytes = txn.view(&table)?.get(&key)?.ok_or(Error::NoSuchPrepared)?.to_vec();
    let record = Record::read(&bytes)?;
    let mut apply = || -> std::result::Result<Vec<SpaceId>, StorageError> {
        let mut dropped = Vec::new();
        if commits {
            shared.recent.forget(txn.txn());
            for space in &record.writes {
                space.apply(txn, &mut dropped)?;
            }
        }
        txn.delete(&table, &key)?;
        next_generation(txn, &table)?;
        Ok(dropped)
    };
    Ok(apply())
}

// ---- records ----

/// A record as it is stored.
struct Record<'b> {
    number: u64,
    about: &'b [u8],
    locks: Vec<(SpaceId, &'b [u8], LockMode)>,
    reads: Vec<(SpaceId, KeyRange)>,
    writes: Vec<SpaceRecord<'b>>,
}

struct SpaceRecord<'b> {
    id: SpaceId,
    base: u8,
    entries: Vec<(&'b [u8], Option<&'b [u8]>)>,
    changes: Vec<(&'b [u8], Option<&'b [u8]>)>,
}

impl<'b> Record<'b> {
    fn read(bytes: &'b [u8]) -> Result<Self> {
        let mut bytes = Bytes(bytes);
        if bytes.byte()? != VERSION {
            return Err(damaged());
        }
        let number = u64::from_le_bytes(bytes.array()?);
        let about = bytes.bytes()?;
        let locks = bytes.list(|bytes| {
            let (space, mode) = (bytes.space()?, bytes.byte()?);
            Ok((space, bytes.bytes()?, *MODES.get(usize::from(mode)).ok_or_else(damaged)?))
        })?;
        let reads = bytes.list(|bytes| Ok((bytes.space()?, KeyRange { low: bytes.bound()?, high: bytes.bound()? })))?;
        let writes = bytes.list(|bytes| {
            let (id, base) = (bytes.space()?, bytes.byte()?);
            let (entries, changes) = (bytes.list(Bytes::change)?, bytes.list(Bytes::change)?);
            if base > 2 { Err(damaged()) } else { Ok(SpaceRecord { id, base, entries, changes }) }
        })?;
        if bytes.0.is_empty() { Ok(Self { number, about, locks, reads, writes }) } else { Err(damaged()) }
    }

    fn guard(&self) -> Guard {
        let mut guard = Guard::default();
        for (space, range) in &self.reads {
            let space = guard.0.entry(*space).or_default();
            match (&range.low, &range.high) {
                (Bound::Included(low), Bound::Included(high)) if low == high => _ = space.points.insert(low.clone()),
                _ => space.ranges.push(range.clone()),
            }
        }
        for write in &self.writes {
            let space = guard.0.entry(write.id).or_default();
            space.is_whole |= write.base != 0;
            space.written.extend(write.changes.iter().map(|(key, _)| Key::from_slice(key)));
        }
        guard
    }

    /// Takes its locks. One that is held by somebody else is left out: the guard refuses what it
    /// would have kept waiting.
    fn take_locks(&self, shared: &Shared) -> Result<Locks> {
        let mut locks = Locks::new(&shared.locks);
        for (space, key, mode) in &self.locks {
            match locks.take(*space, key, *mode, IfLocked::Refuse) {
                Ok(_) | Err(Error::NotAvailable) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(locks)
    }
}

impl SpaceRecord<'_> {
    /// The greatest key that gets a value, with the value.
    fn last_put(&self) -> Option<(&[u8], &[u8])> {
        let all = self.entries.iter().chain(&self.changes);
        all.filter_map(|(key, value)| Some((*key, (*value)?))).max_by_key(|(key, _)| *key)
    }

    fn apply(&self, txn: &mut WriteTxn, dropped: &mut Vec<SpaceId>) -> std::result::Result<(), StorageError> {
        let name = table_name(self.id);
        let table = match self.base {
            0 if self.changes.is_empty() => return Ok(()),
            0 => txn.table(&name)?,
            1 => txn.create_table(&name, TableKind::Plain)?,
            _ => {
                let table = txn.table(&name)?;
                dropped.push(self.id);
                return txn.drop_table(&table).map(drop);
            }
        };
        if !self.entries.is_empty() {
            let entries = self.entries.iter().map(|(key, value)| (key, value.unwrap_or_default()));
            txn.load_sorted(&table, entries)?;
        }
        for (key, value) in &self.changes {
            match value {
                Some(value) => txn.put(&table, key, value)?,
                None => _ = txn.delete(&table, key)?,
            }
        }
        Ok(())
    }
}

#[cold]
fn damaged() -> Error {
    Error::UnreadableRecord
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_bound(out: &mut Vec<u8>, bound: Bound<&Key>) {
    match bound {
        Bound::Unbounded => out.push(0),
        Bound::Included(key) => {
            out.push(1);
            put_bytes(out, key);
        }
        Bound::Excluded(key) => {
            out.push(2);
            put_bytes(out, key);
        }
    }
}

fn put_change(out: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    put_bytes(out, key);
    out.push(value.is_some().into());
    if let Some(value) = value {
        put_bytes(out, value);
    }
}

/// What is left of a record.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8]> {
        let (taken, left) = self.0.split_at_checked(count).ok_or_else(damaged)?;
        self.0 = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| damaged())
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn space(&mut self) -> Result<SpaceId> {
        Ok(SpaceId(u32::from_le_bytes(self.array()?)))
    }

    fn bytes(&mut self) -> Result<&'b [u8]> {
        let count = u32::from_le_bytes(self.array()?);
        self.take(count as usize)
    }

    fn bound(&mut self) -> Result<Bound<Key>> {
        Ok(match self.byte()? {
            0 => Bound::Unbounded,
            1 => Bound::Included(Key::from_slice(self.bytes()?)),
            2 => Bound::Excluded(Key::from_slice(self.bytes()?)),
            _ => return Err(damaged()),
        })
    }

    fn change(&mut self) -> Result<(&'b [u8], Option<&'b [u8]>)> {
        let key = self.bytes()?;
        match self.byte()? {
            0 => Ok((key, None)),
            1 => Ok((key, Some(self.bytes()?))),
            _ => Err(damaged()),
        }
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = u32::from_le_bytes(self.array()?);
        (0..count).map(|_| item(self)).collect()
    }
}

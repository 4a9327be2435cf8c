//! A transaction of the local store.
//!
//! It reads from a snapshot of the storage, under its own writes. It moves the snapshot forward
//! only to a state in which everything it has read still holds. So at any time everything it has
//! read could have been read from the current snapshot.
//!
//! Invariants:
//! 1. What was read from stored entries is in `reads`. Exceptions: a read-only transaction only
//!    sets `blind`, and READ COMMITTED forgets reads at the end of a statement.
//! 2. What the transaction has written itself, and a space that it made, depends on nobody, and is
//!    not remembered as read. A patched row is remembered, since it is made from a stored one.
//! 3. A column to which the transaction has added without reading is read only with the row locked
//!    exclusively, so that no addition of another transaction makes the read wrong.

mod pages;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use colibri_storage::{Both, Database, Error as StorageError, OpenTable, Snapshot, TxnId, View};
use smallvec::SmallVec;

use crate::apply::{patch_all, patch_one};
use crate::columns::ColumnSet;
use crate::commit::{AtCommit, Commit};
use crate::error::{Error, Result};
use crate::fetching::Fetched;
use crate::local::{Shared, count, snapshot};
use crate::locks::{Locks, OwnerId, Taken};
use crate::long_work::LongWork;
use crate::merge::{self, Loaded, Stored, first_entry, slice_of};
use crate::opened::{OpenSpaces, in_space};
use crate::outcome::Interruption;
use crate::prepared::Task;
use crate::queue::Request;
use crate::reads::{Covered, ForkReads, ReadSet};
use crate::series;
use crate::store::{
    Begin, Direction, Found, IfLocked, Isolation, Key, KeyRange, LockMode, Patch, Remains, Savepoint, Skipped, Space,
    SpaceId, Transaction, Visit, get_each,
};
use crate::ticket::CommitTicket;
use crate::validate::{same, validate};
use crate::writes::{Base, Image, Patched, StoredAt, Write, WriteSet, find_loaded};

/// A transaction with more reads than this checks them before it enters the queue of commits. Then
/// the leader has little to check while it keeps all others from committing.
const READS_LEFT_TO_LEADER_MAX: usize = 8;

/// A transaction of a [`crate::LocalStore`].
pub struct LocalTransaction {
    shared: Arc<Shared>,
    begun: Begin,
    snapshot: Snapshot<'static>,
    /// The snapshot may not be durable yet.
    weak: bool,
    blind: Option<SpaceId>,
    read_back: Option<SpaceId>,
    /// The snapshot to go back to while it looks ahead.
    behind: Option<Box<Behind>>,
    /// Calls may be interrupted to fetch pages.
    may_fetch: bool,
    /// What it has fetched.
    fetched: Fetched,
    work: Box<Work>,
}

/// What a transaction gathers. It is boxed, because a short read would spend more time on moving it
/// than on reading. It goes on to the queue of commits, or to the next transaction of the session.
pub(crate) struct Work {
    /// Spaces as they were last found, in the transaction's snapshot or an earlier one.
    pub(crate) open: OpenSpaces,
    pub(crate) reads: ReadSet,
    pub(crate) writes: WriteSet,
    pub(crate) locks: Locks,
    /// To be called when it has committed.
    pub(crate) at_commit: Option<AtCommit>,
    long_work: Arc<LongWork>,
}

impl Work {
    /// How many changes and reads there are, which tells how long work on them takes.
    pub(crate) fn items(&self) -> usize {
        self.writes.mark() + self.reads.reads().len()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.long_work.begins(self.items());
    }
}

/// The most found spaces that a transaction leaves to the next one. If it has more, it leaves none.
const SPACES_LEFT_MAX: usize = 16;

/// What a transaction leaves to the next one of its session: see
/// [`LocalTransaction::commit_leaving`].
///
/// It keeps no page from being reused. It is a handle of the store like any other.
pub struct LocalRemains {
    shared: Arc<Shared>,
    database: Database,
    /// Without reads and writes.
    work: Box<Work>,
}

impl LocalRemains {
    /// As [`crate::LocalStore::begin_after`], on the store of the transaction that left this.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn begin_after(self, how: Begin, seen: TxnId) -> Result<LocalTransaction> {
        let Self { shared, database, work } = self;
        let (snapshot, weak) = snapshot(database, how.newest, seen)?;
        Ok(LocalTransaction {
            shared,
            begun: how,
            snapshot,
            weak,
            blind: None,
            read_back: None,
            behind: None,
            may_fetch: false,
            fetched: Fetched::default(),
            work,
        })
    }
}

impl Remains for LocalRemains {
    fn begin_after(self: Box<Self>, how: Begin, seen: TxnId) -> Result<Box<dyn Transaction>> {
        Ok(Box::new(Self::begin_after(*self, how, seen)?))
    }
}

impl LocalTransaction {
    pub(crate) fn begin(shared: &Arc<Shared>, begun: Begin, seen: TxnId) -> Result<Self> {
        let locks = Locks::new(&shared.locks);
        let (open, reads, writes) = (OpenSpaces::default(), ReadSet::default(), WriteSet::default());
        let work =
            Box::new(Work { open, reads, writes, locks, at_commit: None, long_work: Arc::clone(&shared.long_work) });
        LocalRemains { shared: Arc::clone(shared), database: shared.database.clone(), work }.begin_after(begun, seen)
    }

    /// As [`Transaction::commit`].
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit(mut self) -> Result<CommitTicket> {
        if self.work.writes.is_empty() {
            // In this order, a transaction that gets a lock of this one need not wait for its
            // ticket.
            let ticket = self.ticket_of_reads();
            self.work.locks.release();
            if let Some(then) = self.work.at_commit.take() {
                then(ticket.clone());
            }
            return Ok(ticket);
        }
        self.queue_up(Task::Commit)?.wait()
    }

    /// The first half of [`Transaction::commit`]; the other is [`Commit::wait`]. While others
    /// commit it returns a place in the queue instead of waiting. A transaction that has written
    /// nothing leaves what the next one can begin with ([`LocalRemains::begin_after`]). The store,
    /// the database and the found tables are counted references that all threads share, and short
    /// reads on several CPUs would pass the cache lines of the counters back and forth.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_leaving(self, remains: &mut Option<LocalRemains>) -> Result<Commit> {
        if self.has_writes() {
            return self.queue_up(Task::Commit);
        }
        // In this order, a transaction that gets a lock of this one need not wait for its ticket.
        let ticket = self.ticket_of_reads();
        let Self { shared, snapshot, mut work, .. } = self;
        if let Some(then) = work.at_commit.take() {
            then(ticket.clone());
        }
        work.locks.renew();
        work.reads.renew();
        work.writes.renew();
        if work.open.len() > SPACES_LEFT_MAX {
            work.open = OpenSpaces::default();
        }
        *remains = Some(LocalRemains { shared, database: snapshot.into_database(), work });
        Ok(Commit::Ended(ticket))
    }

    /// As [`crate::Store::finish_prepared`].
    pub(crate) fn finish_prepared(shared: &Arc<Shared>, name: &str, commits: bool) -> Result<Commit> {
        let how = Begin { isolation: Isolation::ReadCommitted, read_only: false, newest: true };
        let name = name.to_owned();
        Self::begin(shared, how, TxnId(0))?.queue_up(Task::Finish { name, commits })
    }

    /// Commits what was written, or queues up for it.
    fn queue_up(mut self, task: Task) -> Result<Commit> {
        if !self.begun.isolation.validates_reads() {
            self.work.reads.clear();
        }
        let mut images = None;
        let reads = self.work.reads.reads();
        let is_range = |read: &crate::reads::Read| matches!(read.covered, Covered::Range(_));
        if (reads.len() > READS_LEFT_TO_LEADER_MAX || reads.iter().any(is_range))
            && self.shared.database.newest_txn() != self.snapshot.txn()
        {
            self.work.long_work.begins(reads.len());
            let newest = self.shared.database.read_newest_owned()?;
            self.check_reads(&newest)?;
            // The images of patched rows are kept: most are still what the commit would make again.
            images = Some(std::mem::replace(&mut self.snapshot, newest));
        }
        if self.snapshot.is_cold() {
            self.await_pages_to_write()?;
        }
        let Self { shared, snapshot, blind, work, .. } = self;
        // Here, so that the leader need not do it while it keeps all others from committing.
        work.long_work.begins(work.items());
        work.writes.sort();
        shared.queue.commit(&shared, Box::new(Request { snapshot, images, blind, task, work }))
    }

    // ---- spaces ----

    /// Makes sure that a stored space has been found in this snapshot.
    fn open(&mut self, space: SpaceId) -> Result<()> {
        self.work.open.open(&self.shared, &self.snapshot, space)
    }

    fn view(&self, space: SpaceId) -> Result<View<'_>> {
        self.work.open.view(&self.shared, &self.snapshot, space).map_err(|e| in_space(space, e))
    }

    fn opened(&self, space: SpaceId) -> Result<&OpenTable> {
        self.work.open.found_in(&self.snapshot, space).ok_or_else(|| no_such_space(space))
    }

    /// A stored value, as the snapshot has it.
    fn stored(&self, space: SpaceId, key: &[u8]) -> Result<Option<&[u8]>> {
        Ok(self.snapshot.get_open(self.opened(space)?, key)?)
    }

    /// What the transaction made of a space, if it is not the stored one.
    fn own_base(&self, space: SpaceId) -> Option<&Base> {
        self.work.writes.space(space).map(|writes| &writes.base).filter(|base| !matches!(base, Base::Stored))
    }

    // ---- reads ----

    fn remembers(&mut self, space: SpaceId) -> bool {
        // A transaction that became read-only after it had written still depends on what it reads.
        if !self.begun.read_only || !self.work.writes.is_empty() {
            return true;
        }
        if self.begun.isolation != Isolation::ReadCommitted {
            self.blind.get_or_insert(space);
        }
        false
    }

    fn read_point(&mut self, space: &Space, key: &[u8], columns: ColumnSet) {
        if self.remembers(space.id) {
            self.work.reads.point(space, key, columns);
        }
    }

    fn read_range(&mut self, space: &Space, range: KeyRange, columns: ColumnSet) {
        if self.remembers(space.id) {
            self.work.reads.range(space, range, columns);
        }
    }

    /// If the transaction has added to columns that it reads now, locks the row, so that no other
    /// transaction adds to it.
    fn keep_for_itself(&mut self, space: &Space, key: &[u8], columns: ColumnSet) -> Result<()> {
        match self.work.writes.find(space.id, key) {
            Some(Write::Patch(patched)) if patched.adds.intersects(columns) => {
                self.read_back = Some(space.id);
                self.take_lock(space, key, LockMode::NoKeyUpdate, IfLocked::Wait)
            }
            _ => Ok(()),
        }
    }

    /// A value under the transaction's own writes. The space is open if it is stored.
    fn see(&self, space: SpaceId, key: &[u8]) -> Result<Option<&[u8]>> {
        if let Some(writes) = self.work.writes.space(space) {
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

    /// How many entries a range has without the transaction's own changes.
    fn base_count(&self, space: SpaceId, range: &KeyRange) -> Result<u64> {
        if range.is_empty() {
            return Ok(0);
        }
        match self.own_base(space) {
            Some(Base::Made(entries)) => Ok(slice_of(entries, range).len() as u64),
            Some(_) => Ok(0),
            None => Ok(self.view(space)?.count(range.bounds())?),
        }
    }

    // ---- writes ----

    fn check_writable(&self, space: SpaceId) -> Result<()> {
        if self.begun.read_only {
            return Err(Error::ReadOnly);
        }
        match self.own_base(space) {
            Some(Base::Dropped { .. }) => Err(no_such_space(space)),
            _ => Ok(()),
        }
    }

    fn check_key(&self, key: &[u8]) -> Result<()> {
        self.shared.capabilities.check_key(key)
    }

    /// Makes a change. If that exceeds the limit, undoes it.
    fn change(&mut self, make: impl FnOnce(&mut WriteSet)) -> Result<()> {
        let mark = self.work.writes.mark();
        let bytes_max = self.shared.capabilities.txn_bytes_max;
        if self.work.writes.is_full() {
            return Err(Error::TooLarge { bytes_max: bytes_max.unwrap_or(usize::MAX) });
        }
        make(&mut self.work.writes);
        match bytes_max {
            Some(bytes_max) if self.work.writes.bytes() > bytes_max => {
                self.work.writes.undo(mark);
                Err(Error::TooLarge { bytes_max })
            }
            _ => Ok(()),
        }
    }

    // ---- locks ----

    fn take_lock(&mut self, space: &Space, key: &[u8], mode: LockMode, if_locked: IfLocked) -> Result<()> {
        let taken = self.work.locks.take(space.id, key, mode, if_locked)?;
        if taken.verified {
            return Ok(());
        }
        if !self.sees_the_newest(space, key, &taken)? {
            return Err(Error::Interrupted(Interruption::Stale));
        }
        if taken.mode != LockMode::Add {
            self.work.locks.verified(taken.name);
        }
        Ok(())
    }

    /// Whether the row is what the transaction sees. Under a lock that lets others change the row
    /// or add to it, it is enough that what the transaction has read of the row still holds.
    fn sees_the_newest(&self, space: &Space, key: &[u8], taken: &Taken) -> Result<bool> {
        let (seen, now) = (self.snapshot.txn(), self.shared.database.newest_txn());
        if now == seen || self.own_base(space.id).is_some() {
            return Ok(true);
        }
        if space.locks_are_of_keys && self.shared.recent.is_unchanged(taken.name, seen, now) {
            return Ok(true);
        }
        let newest = self.shared.database.read_newest_owned()?;
        let table = match self.work.open.table(&self.shared, space.id, |name| newest.table(name)) {
            // The lock is not one of a row.
            Err(StorageError::NoSuchTable { .. }) => return Ok(true),
            table => table?,
        };
        let old = there(self.work.open.view(&self.shared, &self.snapshot, space.id))?;
        let (old, new) = match (old, there(newest.view(&table))?) {
            (Some(old), Some(new)) => (old, new),
            // Made or dropped since, or in neither state.
            (old, new) => return Ok(old.is_none() && new.is_none()),
        };
        if old.is_same_tree(&new) {
            return Ok(true);
        }
        // A lock on an index is named by the values, and the entry goes on with the row that has
        // them.
        let (before, after) = match old.get_both_with_prefix(&new, key)? {
            Both::Same => return Ok(true),
            Both::Apart(None, None) => return Ok(false),
            Both::Apart(before, after) => (before, after),
        };
        if same(&Space::new(space.id), ColumnSet::ALL, before, after) {
            return Ok(true);
        }
        let stands_still = !matches!(taken.mode, LockMode::Add | LockMode::KeyShare);
        if stands_still || before.is_none() || after.is_none() {
            return Ok(false);
        }
        let columns = self.work.reads.columns_of(space.id, key).unwrap_or(ColumnSet::NONE);
        Ok(same(space, columns, before, after))
    }

    // ---- moving forward ----

    /// The patched rows as they would be in a state.
    fn images_in(&self, snapshot: &Snapshot<'_>) -> Result<Vec<Option<Image>>> {
        let mut images = Vec::new();
        for (space, key, patched) in self.work.writes.patched() {
            // If the space is gone, the commit reports it.
            let table = there(self.work.open.table(&self.shared, space, |name| snapshot.table(name)))?;
            let view = table.map(|table| there(snapshot.view(&table))).transpose()?.flatten();
            let row = view.map(|view| view.get(key)).transpose()?.flatten();
            let image = |row| Result::Ok((patch_all(&patched.patches, row)?, StoredAt::new(snapshot.txn(), row)));
            images.push(row.map(image).transpose()?);
        }
        Ok(images)
    }

    /// Makes the images anew after a rollback to before the snapshot was moved.
    fn renew_images(&mut self) -> Result<()> {
        if self.work.writes.has_old_images() {
            let images = self.images_in(&self.snapshot)?;
            self.work.writes.set_images(images);
        }
        Ok(())
    }

    /// Moves to a state in which what was read holds.
    fn move_to(&mut self, snapshot: Snapshot<'static>, weak: bool) -> Result<()> {
        let images = self.images_in(&snapshot)?;
        self.work.writes.set_images(images);
        self.work.writes.make_notes_old();
        self.snapshot = snapshot;
        self.weak = weak;
        Ok(())
    }

    /// Checks what was read against another state.
    fn check_reads(&self, newer: &Snapshot<'_>) -> Result<()> {
        let checked = match self.blind {
            Some(space) => Err(Error::Conflict { space }),
            None => {
                let old = |space| self.work.open.view(&self.shared, &self.snapshot, space);
                let (seen, now) = (self.snapshot.txn(), newer.txn());
                let is_unchanged = |space, key: &[u8]| self.shared.is_unchanged(space, key, seen, now);
                validate(&self.work.reads, is_unchanged, old, newer)
            }
        };
        if let Err(Error::Conflict { .. }) = checked {
            count(&self.shared.counts.conflicts, 1);
        }
        checked
    }

    fn is_read_committed(&self) -> bool {
        self.begun.isolation == Isolation::ReadCommitted
    }
}

/// The state to go back to after [`Transaction::look_ahead`].
struct Behind {
    snapshot: Snapshot<'static>,
    weak: bool,
}

/// `None` if there is no such table.
fn there<T>(found: colibri_storage::Result<T>) -> Result<Option<T>> {
    match found {
        Err(StorageError::NoSuchTable { .. }) => Ok(None),
        found => Ok(Some(found?)),
    }
}

fn no_such_space(space: SpaceId) -> Error {
    Error::NoSuchSpace { space }
}

impl Transaction for LocalTransaction {
    fn fork(&self) -> Result<Option<Box<dyn Transaction>>> {
        if self.has_writes() || self.behind.is_some() {
            return Ok(None);
        }
        let Some(snapshot) = self.snapshot.beside_owned()? else { return Ok(None) };
        let (open, reads, writes) = (OpenSpaces::default(), ReadSet::default(), WriteSet::default());
        let (locks, long_work) = (Locks::new(&self.shared.locks), Arc::clone(&self.shared.long_work));
        let work = Box::new(Work { open, reads, writes, locks, at_commit: None, long_work });
        let (shared, begun, weak) = (Arc::clone(&self.shared), self.begun, self.weak);
        Ok(Some(Box::new(Self {
            shared,
            begun,
            snapshot,
            weak,
            blind: None,
            read_back: None,
            behind: None,
            may_fetch: false,
            fetched: Fetched::default(),
            work,
        })))
    }

    fn into_reads(mut self: Box<Self>) -> Option<ForkReads> {
        Some(ForkReads { reads: std::mem::take(&mut self.work.reads), blind: self.blind })
    }

    fn join(&mut self, fork: ForkReads) {
        self.work.reads.add(fork.reads);
        self.blind = self.blind.or(fork.blind);
    }

    fn begun(&self) -> Begin {
        self.begun
    }

    fn id(&self) -> OwnerId {
        self.work.locks.owner()
    }

    fn sees(&self) -> TxnId {
        self.snapshot.txn()
    }

    fn ticket_of_reads(&self) -> CommitTicket {
        match self.weak {
            true => CommitTicket::new(&self.shared.database, self.snapshot.txn(), None),
            false => CommitTicket::durable(self.snapshot.txn(), None),
        }
    }

    fn take_read_back(&mut self) -> Option<SpaceId> {
        self.read_back.take()
    }

    fn set_read_only(&mut self, read_only: bool) {
        self.begun.read_only = read_only;
    }

    fn has_writes(&self) -> bool {
        !self.work.writes.is_empty()
    }

    fn write_bytes(&self) -> usize {
        self.work.writes.bytes()
    }

    fn get(&mut self, space: &Space, key: &[u8], columns: ColumnSet) -> Result<Option<&[u8]>> {
        let writes = self.work.writes.space(space.id);
        let write = writes.and_then(|writes| writes.seen(key));
        match (write, writes.map(|writes| &writes.base)) {
            (Some(Write::Put(_) | Write::Delete | Write::Append(_) | Write::Cut(_)), _) => self.see(space.id, key),
            (Some(Write::Patch(_)), _) => {
                self.open(space.id)?;
                self.keep_for_itself(space, key, columns)?;
                self.read_point(space, key, columns);
                self.see(space.id, key)
            }
            (None, None | Some(Base::Stored)) => {
                self.open(space.id)?;
                self.bring(space.id, &[key])?;
                self.read_point(space, key, columns);
                self.stored(space.id, key)
            }
            (None, Some(_)) => self.see(space.id, key),
        }
    }

    fn get_many(&mut self, space: &Space, keys: &[&[u8]], columns: ColumnSet, visit: &mut Found<'_>) -> Result<()> {
        if let Some(own) = self.work.writes.space(space.id)
            && !(matches!(own.base, Base::Stored) && keys.iter().all(|key| own.seen(key).is_none()))
        {
            return get_each(self, space, keys, columns, visit);
        }
        self.open(space.id)?;
        self.bring(space.id, keys)?;
        let remembers = self.remembers(space.id);
        let Work { open, reads, .. } = &mut *self.work;
        let open = open.found_in(&self.snapshot, space.id).ok_or_else(|| no_such_space(space.id))?;
        self.snapshot.get_many(open, keys, |at, value| {
            if remembers {
                reads.point(space, keys[at], columns);
            }
            visit(at, value)
        })?;
        Ok(())
    }

    fn depend(&mut self, space: &Space, key: &[u8], columns: ColumnSet) -> Result<()> {
        if self.work.writes.space(space.id).is_some() {
            return self.get(space, key, columns).map(|_| ());
        }
        self.read_point(space, key, columns);
        Ok(())
    }

    fn peek(&mut self, space: &Space, key: &[u8]) -> Result<Option<&[u8]>> {
        if self.own_base(space.id).is_none() {
            self.open(space.id)?;
            self.bring(space.id, &[key])?;
        }
        self.see(space.id, key)
    }

    fn scan(
        &mut self,
        space: &Space,
        range: &KeyRange,
        direction: Direction,
        columns: ColumnSet,
        _: usize,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let own = self.work.writes.space(space.id);
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
        if !added.is_empty() {
            self.read_back = Some(space.id);
        }
        for key in added {
            self.take_lock(space, &key, LockMode::NoKeyUpdate, IfLocked::Wait)?;
        }
        self.open(space.id)?;
        let start = match direction {
            Direction::Forward => &range.low,
            Direction::Backward => &range.high,
        };
        if let Bound::Included(key) | Bound::Excluded(key) = start {
            self.bring(space.id, &[key])?;
        }
        let view = self.snapshot.view_open(self.opened(space.id)?);
        let stored = Stored::new(&view, range, direction)?;
        let end = merge::scan(stored, self.work.writes.space(space.id), range, direction, visit)?;
        drop(view);
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

    fn prefetch(&mut self, space: &Space, keys: &[&[u8]], _: &[KeyRange]) {
        // That they are on their way is all that is wanted; the call that needs them tells errors.
        if self.may_fetch && self.own_base(space.id).is_none() && self.open(space.id).is_ok() {
            drop(self.opened(space.id).map(|open| self.snapshot.read_ahead(open, keys)));
        }
    }

    fn fetches(&self) -> bool {
        self.may_fetch
    }

    fn let_fetch(&mut self, may: bool) {
        self.may_fetch = may && self.snapshot.is_cold();
    }

    fn count(&mut self, space: &Space, range: &KeyRange) -> Result<u64> {
        let stored = self.own_base(space.id).is_none();
        if stored {
            self.open(space.id)?;
        }
        let mut count = self.base_count(space.id, range)?;
        if let Some(own) = self.work.writes.space(space.id) {
            count = own.count_over(count, range, |key| Ok(self.stored(space.id, key)?.is_some()))?;
        }
        if stored {
            self.read_range(space, range.clone(), ColumnSet::NONE);
        }
        Ok(count)
    }

    fn skip(&mut self, space: &Space, range: &KeyRange, direction: Direction, rows: u64) -> Result<Option<Skipped>> {
        if rows == 0 || self.work.writes.space(space.id).is_some() {
            return Ok(None);
        }
        self.open(space.id)?;
        let view = self.view(space.id)?;
        let count = view.count(range.bounds())?;
        let (skipped, covered) = if rows >= count {
            (Skipped::All(count), range.clone())
        } else {
            let before = match range.bounds().0 {
                Bound::Unbounded => 0,
                Bound::Included(low) => view.rank(low)?,
                Bound::Excluded(low) => view.count((Bound::Unbounded, Bound::Included(low)))?,
            };
            let last = match direction {
                Direction::Forward => before + rows - 1,
                Direction::Backward => before + count - rows,
            };
            let Some((key, _)) = view.nth(last)? else { return Ok(None) };
            let key = Key::from_slice(&key);
            let mut covered = range.clone();
            match direction {
                Direction::Forward => covered.high = Bound::Included(key.clone()),
                Direction::Backward => covered.low = Bound::Included(key.clone()),
            }
            (Skipped::Until(key), covered)
        };
        drop(view);
        self.read_range(space, covered, ColumnSet::NONE);
        Ok(Some(skipped))
    }

    fn estimate(&self, space: &Space, range: &KeyRange) -> Result<u64> {
        self.base_count(space.id, range)
    }

    fn sample(&self, space: &Space, entries_max: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        // Each is in the middle of the entries that it stands for.
        let spread = |entries: u64| {
            let count = entries.min(entries_max as u64);
            (0..count).map(move |nth| (u128::from(2 * nth + 1) * u128::from(entries) / u128::from(2 * count)) as u64)
        };
        match self.own_base(space.id) {
            Some(Base::Made(entries)) => {
                for rank in spread(entries.len() as u64) {
                    let (key, value) = &entries[rank as usize];
                    visit(key, value);
                }
            }
            Some(_) => {}
            None => {
                let view = self.view(space.id)?;
                for rank in spread(view.stat().entries) {
                    if let Some((key, value)) = view.nth(rank)? {
                        visit(&key, &value);
                    }
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, space: &Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_writable(space.id)?;
        self.check_key(key)?;
        self.shared.capabilities.check_value(value.len())?;
        self.change(|writes| writes.change(space.id, key, Write::Put(value.to_vec())))
    }

    fn delete(&mut self, space: &Space, key: &[u8]) -> Result<()> {
        self.check_writable(space.id)?;
        self.check_key(key)?;
        self.change(|writes| writes.change(space.id, key, Write::Delete))
    }

    fn append(&mut self, space: &Space, prefix: &[u8], value: &[u8]) -> Result<()> {
        self.check_writable(space.id)?;
        let key = series::place_holder(prefix, self.work.writes.mark());
        self.check_key(&key)?;
        self.shared.capabilities.check_value(value.len())?;
        self.change(|writes| writes.change(space.id, &key, Write::Append(value.to_vec())))
    }

    fn cut(&mut self, space: &Space, prefix: &[u8], below: i64) -> Result<()> {
        self.check_writable(space.id)?;
        let key = series::cut_mark(prefix);
        self.check_key(&key)?;
        self.change(|writes| writes.change(space.id, &key, Write::Cut(below)))
    }

    fn edge(&mut self, space: &Space, range: &KeyRange, direction: Direction) -> Result<Option<(Key, Vec<u8>)>> {
        if range.is_empty() {
            return Ok(None);
        }
        match self.own_base(space.id) {
            Some(Base::Made(entries)) => return first_entry(&Loaded::new(entries, range, direction)),
            Some(_) => return Ok(None),
            None => self.open(space.id)?,
        }
        let view = self.snapshot.view_open(self.opened(space.id)?);
        first_entry(&Stored::new(&view, range, direction)?)
    }

    fn patch(&mut self, space: &Space, key: &[u8], adds: ColumnSet, patch: Arc<dyn Patch>) -> Result<()> {
        self.check_writable(space.id)?;
        let missing = || Error::NoSuchKey { space: space.id };
        let write = match self.work.writes.find(space.id, key) {
            Some(Write::Delete | Write::Append(_) | Write::Cut(_)) => return Err(missing()),
            Some(Write::Put(value)) => Write::Put(patch_one(&*patch, value)?),
            Some(Write::Patch(patched)) => {
                let image = patch_one(&*patch, patched.image.as_deref().ok_or_else(missing)?)?;
                let mut patches = patched.patches.clone();
                patches.push(patch);
                let made_of = patched.made_of;
                Write::Patch(Box::new(Patched { patches, adds: patched.adds.union(adds), image: Some(image), made_of }))
            }
            None if self.own_base(space.id).is_some() => {
                let row = self.see(space.id, key)?.ok_or_else(missing)?;
                Write::Put(patch_one(&*patch, row)?)
            }
            None => {
                self.open(space.id)?;
                self.read_point(space, key, ColumnSet::NONE);
                // A transaction that changes a row has mostly just read it.
                let row = self.snapshot.get_again(self.opened(space.id)?, key)?.ok_or_else(missing)?;
                let (image, made_of) = (Some(patch_one(&*patch, row)?), Some(StoredAt::new(self.sees(), row)));
                Write::Patch(Box::new(Patched { patches: SmallVec::from_iter([patch]), adds, image, made_of }))
            }
        };
        self.change(|writes| writes.change(space.id, key, write))
    }

    fn keep_old(&mut self) {
        self.work.writes.keep_old();
    }

    fn see_old(&mut self, sees_old: bool) -> bool {
        self.work.writes.see_old(sees_old)
    }

    fn forget_old(&mut self) {
        self.work.writes.forget_old();
    }

    fn is_written(&self, space: &Space, key: &[u8]) -> bool {
        self.work.writes.has_old(space.id, key)
    }

    fn note_written(&mut self, space: &Space, key: &[u8]) {
        self.work.writes.keep(space.id, key);
    }

    fn load(&mut self, space: &Space, entries: Vec<(Key, Vec<u8>)>) -> Result<()> {
        self.check_writable(space.id)?;
        match self.work.writes.space(space.id) {
            Some(own) if own.changes.is_empty() && matches!(&own.base, Base::Made(entries) if entries.is_empty()) => {}
            _ => return Err(Error::NotEmpty { space: space.id }),
        }
        for (key, value) in &entries {
            self.check_key(key)?;
            self.shared.capabilities.check_value(value.len())?;
        }
        if entries.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(StorageError::KeyNotInOrder.into());
        }
        self.change(|writes| writes.rebase(space.id, Base::Made(entries)))
    }

    fn create_space(&mut self, space: SpaceId) -> Result<()> {
        if self.begun.read_only {
            return Err(Error::ReadOnly);
        }
        self.change(|writes| writes.rebase(space, Base::Made(Vec::new())))
    }

    fn drop_space(&mut self, space: SpaceId) -> Result<()> {
        if self.begun.read_only {
            return Err(Error::ReadOnly);
        }
        let made = matches!(self.own_base(space), Some(Base::Made(_) | Base::Dropped { made: true }));
        self.change(|writes| writes.rebase(space, Base::Dropped { made }))
    }

    fn lock(&mut self, space: &Space, key: &[u8], mode: LockMode, if_locked: IfLocked) -> Result<()> {
        if self.begun.read_only {
            return Err(Error::ReadOnly);
        }
        self.take_lock(space, key, mode, if_locked)
    }

    fn expect_newest(&mut self, space: &Space, range: &KeyRange) -> Result<()> {
        if self.shared.database.newest_txn() == self.snapshot.txn() || self.own_base(space.id).is_some() {
            return Ok(());
        }
        let newest = self.shared.database.read_newest_owned()?;
        self.open(space.id)?;
        let old = self.snapshot.view_open(self.opened(space.id)?);
        let Some(new) = there(newest.view(old.table()))? else { return Err(Error::Interrupted(Interruption::Stale)) };
        if old.is_same_tree(&new) {
            return Ok(());
        }
        let (low, high) = range.bounds();
        let mut same = true;
        old.diff(&new, low, high, &mut |_, before, after| {
            same = before == after;
            if same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if same { Ok(()) } else { Err(Error::Interrupted(Interruption::Stale)) }
    }

    fn begin_statement(&mut self) -> Result<Savepoint> {
        self.work.writes.forget_old();
        if self.is_read_committed() {
            self.work.reads.clear();
        }
        // Nothing depends on the snapshot, so a newer one is better: the client may have been idle
        // since the transaction began.
        let depends = !self.work.reads.reads().is_empty() || self.blind.is_some();
        let newest = match self.begun.newest || self.weak {
            true => self.shared.database.newest_txn(),
            false => self.shared.database.readable_txn(),
        };
        if !depends && newest != self.snapshot.txn() {
            let (snapshot, weak) = self.shared.snapshot(self.begun.newest, self.snapshot.txn())?;
            if snapshot.txn() != self.snapshot.txn() {
                self.move_to(snapshot, weak)?;
            }
        }
        Ok(self.savepoint())
    }

    fn savepoint(&self) -> Savepoint {
        Savepoint { writes: self.work.writes.mark(), reads: self.work.reads.mark(), beside: 0 }
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.work.long_work.begins(self.work.writes.changes_since(savepoint.writes));
        self.work.writes.undo(savepoint.writes);
        self.renew_images()
    }

    fn restart(&mut self, savepoint: Savepoint) -> Result<()> {
        self.work.writes.forget_old();
        count(&self.shared.counts.restarts, 1);
        self.work.long_work.begins(self.work.items());
        self.work.writes.undo(savepoint.writes);
        self.work.reads.cut(savepoint.reads);
        if self.shared.database.newest_txn() == self.snapshot.txn() {
            return self.renew_images();
        }
        let newest = self.shared.database.read_newest_owned()?;
        if !self.is_read_committed() {
            self.check_reads(&newest)?;
        }
        self.move_to(newest, true)
    }

    fn catch_up(&mut self) -> Result<Option<bool>> {
        if self.blind.is_some() && !self.is_read_committed() {
            return Ok(Some(false));
        }
        let (snapshot, weak) = self.shared.snapshot(self.begun.newest || self.weak, self.snapshot.txn())?;
        if snapshot.txn() == self.snapshot.txn() {
            return Ok(None);
        }
        if self.is_read_committed() {
            self.work.reads.clear();
        } else if let Err(error) = self.check_reads(&snapshot) {
            return if matches!(error, Error::Conflict { .. }) { Ok(Some(false)) } else { Err(error) };
        }
        self.move_to(snapshot, weak)?;
        Ok(Some(true))
    }

    fn look_ahead(&mut self) -> Result<()> {
        let newest = self.shared.database.read_newest_owned()?;
        let space = self.work.reads.reads().first().map(|read| self.work.reads.space(read.space).id);
        let images = self.images_in(&newest)?;
        self.work.writes.set_images(images);
        self.work.writes.make_notes_old();
        let snapshot = std::mem::replace(&mut self.snapshot, newest);
        self.behind = Some(Box::new(Behind { snapshot, weak: std::mem::replace(&mut self.weak, true) }));
        // Whatever it writes from here on belongs to no state that there was.
        self.blind = self.blind.or(space);
        Ok(())
    }

    fn look_back(&mut self) -> Result<()> {
        let Some(behind) = self.behind.take() else { return Ok(()) };
        self.snapshot = behind.snapshot;
        self.weak = behind.weak;
        let images = self.images_in(&self.snapshot)?;
        self.work.writes.set_images(images);
        self.work.writes.make_notes_old();
        Ok(())
    }

    fn at_commit(&mut self, then: AtCommit) -> Option<AtCommit> {
        self.work.at_commit = Some(then);
        None
    }

    fn commit(self: Box<Self>) -> Result<CommitTicket> {
        Self::commit(*self)
    }

    fn commit_leaving(self: Box<Self>, remains: &mut Option<Box<dyn Remains>>) -> Result<Commit> {
        let mut left = None;
        let commit = Self::commit_leaving(*self, &mut left)?;
        if let Some(left) = left {
            *remains = Some(Box::new(left));
        }
        Ok(commit)
    }

    fn begin_to_prepare(&mut self) -> Result<()> {
        if self.begun.read_only {
            return Ok(());
        }
        if self.work.writes.spaces().iter().any(|space| space.changes.has_series()) {
            return Err(Error::SeriesUsed);
        }
        // Others may be adding to the rows of patches until these are locked.
        let patched: Vec<_> = self.work.writes.patched().map(|(space, key, _)| (space, Key::from_slice(key))).collect();
        for (space, key) in patched {
            self.take_lock(&Space::of_keys(space), &key, LockMode::NoKeyUpdate, IfLocked::Wait)?;
        }
        Ok(())
    }

    fn prepare(self: Box<Self>, name: &str, about: Vec<u8>) -> Result<Commit> {
        self.queue_up(Task::Prepare { name: name.to_owned(), about })
    }
}

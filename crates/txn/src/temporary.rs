//! Transactions of sessions that have temporary spaces.
//!
//! The spaces of a session's temporary objects are not in the database. They are in a store beside
//! it, which several sessions share and which lasts as long as the process. A
//! [`WithTemporary`] is a transaction of the database together with one of that store: calls go to
//! the one or the other by the number of the space. So operators, constraints and definitions work
//! on temporary objects as on all others.
//!
//! One space of the database, that of its catalogue, has entries on both sides: the keys say which.
//!
//! Invariants:
//! 1. Spaces with numbers from [`FIRST_TEMPORARY`] on are in the store beside, and no others.
//! 2. A temporary space belongs to one session. So locks in it are granted without being taken, and
//!    what is read there needs no check at the commit.
//! 3. The transaction of the database commits first. It is the only one that others can refuse.
//! 4. The transaction of the store beside begins with the first call for it. A session whose
//!    statement uses no temporary object has no cost but the look at a number.

use std::cell::OnceCell;
use std::sync::Arc;

use colibri_storage::TxnId;

use crate::columns::ColumnSet;
use crate::commit::{AtCommit, Commit, CommitTurn, PendingCommit, QueuedCommit};
use crate::error::{Error, Result};
use crate::local::LocalStore;
use crate::locks::OwnerId;
use crate::reads::ForkReads;
use crate::store::{
    Begin, Direction, Found, IfLocked, Isolation, Key, KeyRange, LockMode, Patch, Remains, Savepoint, Skipped, Space,
    SpaceId, Transaction, Visit,
};
use crate::ticket::CommitTicket;
use crate::transaction::LocalTransaction;

/// The first number of a temporary space.
pub const FIRST_TEMPORARY: u32 = 1 << 31;

/// Where a session's temporary spaces are.
#[derive(Debug, Clone)]
pub struct TemporarySpaces {
    /// The store beside the database.
    pub store: LocalStore,
    /// The space of the database that has entries on both sides.
    pub split: SpaceId,
    /// Whether an entry of that space, by its key, is a temporary object's.
    pub is_temporary: fn(&[u8]) -> bool,
    /// The session's space that such entries are in.
    pub beside: SpaceId,
}

impl TemporarySpaces {
    /// Begins a transaction of the store beside.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn begin(&self) -> Result<LocalTransaction> {
        let how = Begin { isolation: Isolation::ReadCommitted, read_only: false, newest: true };
        self.store.begin(how)
    }
}

/// A transaction of the database and one of the store with the session's temporary spaces.
pub struct WithTemporary {
    inner: Box<dyn Transaction>,
    spaces: TemporarySpaces,
    beside: OnceCell<LocalTransaction>,
    keeps_old: bool,
    sees_old: bool,
}

impl WithTemporary {
    /// Gives a transaction of the database the session's temporary spaces.
    #[must_use]
    pub fn new(inner: Box<dyn Transaction>, spaces: TemporarySpaces) -> Self {
        Self { inner, spaces, beside: OnceCell::new(), keeps_old: false, sees_old: false }
    }

    fn is_temporary(space: &Space) -> bool {
        space.id.0 >= FIRST_TEMPORARY
    }

    /// The space beside that an entry is in; `None` if it is in the database.
    fn place(&self, space: &Space, key: &[u8]) -> Option<Space> {
        if Self::is_temporary(space) {
            return Some(space.clone());
        }
        let is_beside = space.id == self.spaces.split && (self.spaces.is_temporary)(key);
        is_beside.then(|| Space { id: self.spaces.beside, ..space.clone() })
    }

    fn beside(&self) -> Result<&LocalTransaction> {
        if let Some(beside) = self.beside.get() {
            return Ok(beside);
        }
        let mut begun = self.spaces.begin()?;
        if self.keeps_old {
            begun.keep_old();
            begun.see_old(self.sees_old);
        }
        Ok(self.beside.get_or_init(|| begun))
    }

    fn beside_mut(&mut self) -> Result<&mut LocalTransaction> {
        self.beside()?;
        Ok(self.beside.get_mut().expect("it was begun a line above"))
    }

    /// A savepoint as the transaction beside understands it.
    fn mark_beside(savepoint: Savepoint) -> Savepoint {
        Savepoint { writes: savepoint.beside, reads: 0, beside: 0 }
    }
}

impl Transaction for WithTemporary {
    fn fork(&self) -> Result<Option<Box<dyn Transaction>>> {
        // What it has written beside a fork would not see.
        if self.has_writes() || self.keeps_old {
            return Ok(None);
        }
        let inner = self.inner.fork()?;
        Ok(inner.map(|inner| Box::new(Self::new(inner, self.spaces.clone())) as Box<dyn Transaction>))
    }

    fn into_reads(self: Box<Self>) -> Option<ForkReads> {
        self.inner.into_reads()
    }

    fn join(&mut self, reads: ForkReads) {
        self.inner.join(reads);
    }

    fn begun(&self) -> Begin {
        self.inner.begun()
    }

    fn id(&self) -> OwnerId {
        self.inner.id()
    }

    fn sees(&self) -> TxnId {
        self.inner.sees()
    }

    fn ticket_of_reads(&self) -> CommitTicket {
        self.inner.ticket_of_reads()
    }

    fn take_read_back(&mut self) -> Option<SpaceId> {
        let beside = self.beside.get_mut().and_then(|beside| beside.take_read_back());
        self.inner.take_read_back().or(beside)
    }

    fn set_read_only(&mut self, read_only: bool) {
        self.inner.set_read_only(read_only);
    }

    fn has_writes(&self) -> bool {
        self.inner.has_writes() || self.beside.get().is_some_and(Transaction::has_writes)
    }

    fn write_bytes(&self) -> usize {
        self.inner.write_bytes() + self.beside.get().map_or(0, Transaction::write_bytes)
    }

    fn get(&mut self, space: &Space, key: &[u8], columns: ColumnSet) -> Result<Option<&[u8]>> {
        match self.place(space, key) {
            Some(space) => self.beside_mut()?.get(&space, key, columns),
            None => self.inner.get(space, key, columns),
        }
    }

    fn get_many(&mut self, space: &Space, keys: &[&[u8]], columns: ColumnSet, visit: &mut Found<'_>) -> Result<()> {
        if Self::is_temporary(space) {
            return self.beside_mut()?.get_many(space, keys, columns, visit);
        }
        self.inner.get_many(space, keys, columns, visit)
    }

    fn depend(&mut self, space: &Space, key: &[u8], columns: ColumnSet) -> Result<()> {
        match self.place(space, key) {
            // Nobody else changes it.
            Some(_) => Ok(()),
            None => self.inner.depend(space, key, columns),
        }
    }

    fn peek(&mut self, space: &Space, key: &[u8]) -> Result<Option<&[u8]>> {
        match self.place(space, key) {
            Some(space) => self.beside_mut()?.peek(&space, key),
            None => self.inner.peek(space, key),
        }
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
        if Self::is_temporary(space) {
            return self.beside_mut()?.scan(space, range, direction, columns, limit, visit);
        }
        self.inner.scan(space, range, direction, columns, limit, visit)
    }

    fn prefetch(&mut self, space: &Space, keys: &[&[u8]], ranges: &[KeyRange]) {
        if !Self::is_temporary(space) {
            self.inner.prefetch(space, keys, ranges);
        }
    }

    fn fetches(&self) -> bool {
        self.inner.fetches()
    }

    fn let_fetch(&mut self, may: bool) {
        self.inner.let_fetch(may);
    }

    fn count(&mut self, space: &Space, range: &KeyRange) -> Result<u64> {
        if Self::is_temporary(space) {
            return self.beside_mut()?.count(space, range);
        }
        self.inner.count(space, range)
    }

    fn skip(&mut self, space: &Space, range: &KeyRange, direction: Direction, rows: u64) -> Result<Option<Skipped>> {
        if Self::is_temporary(space) {
            return self.beside_mut()?.skip(space, range, direction, rows);
        }
        self.inner.skip(space, range, direction, rows)
    }

    fn estimate(&self, space: &Space, range: &KeyRange) -> Result<u64> {
        if Self::is_temporary(space) {
            return self.beside()?.estimate(space, range);
        }
        self.inner.estimate(space, range)
    }

    fn sample(&self, space: &Space, entries_max: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        if Self::is_temporary(space) {
            return self.beside()?.sample(space, entries_max, visit);
        }
        self.inner.sample(space, entries_max, visit)
    }

    fn put(&mut self, space: &Space, key: &[u8], value: &[u8]) -> Result<()> {
        match self.place(space, key) {
            Some(space) => self.beside_mut()?.put(&space, key, value),
            None => self.inner.put(space, key, value),
        }
    }

    fn delete(&mut self, space: &Space, key: &[u8]) -> Result<()> {
        match self.place(space, key) {
            Some(space) => self.beside_mut()?.delete(&space, key),
            None => self.inner.delete(space, key),
        }
    }

    fn append(&mut self, space: &Space, prefix: &[u8], value: &[u8]) -> Result<()> {
        if Self::is_temporary(space) {
            return self.beside_mut()?.append(space, prefix, value);
        }
        self.inner.append(space, prefix, value)
    }

    fn cut(&mut self, space: &Space, prefix: &[u8], below: i64) -> Result<()> {
        if Self::is_temporary(space) {
            return self.beside_mut()?.cut(space, prefix, below);
        }
        self.inner.cut(space, prefix, below)
    }

    fn edge(&mut self, space: &Space, range: &KeyRange, direction: Direction) -> Result<Option<(Key, Vec<u8>)>> {
        if Self::is_temporary(space) {
            return self.beside_mut()?.edge(space, range, direction);
        }
        self.inner.edge(space, range, direction)
    }

    fn patch(&mut self, space: &Space, key: &[u8], adds: ColumnSet, patch: Arc<dyn Patch>) -> Result<()> {
        match self.place(space, key) {
            Some(space) => self.beside_mut()?.patch(&space, key, adds, patch),
            None => self.inner.patch(space, key, adds, patch),
        }
    }

    fn keep_old(&mut self) {
        (self.keeps_old, self.sees_old) = (true, false);
        self.inner.keep_old();
        if let Some(beside) = self.beside.get_mut() {
            beside.keep_old();
        }
    }

    fn see_old(&mut self, sees_old: bool) -> bool {
        let before = self.inner.see_old(sees_old);
        if self.keeps_old {
            self.sees_old = sees_old;
        }
        if let Some(beside) = self.beside.get_mut() {
            beside.see_old(sees_old);
        }
        before
    }

    fn forget_old(&mut self) {
        (self.keeps_old, self.sees_old) = (false, false);
        self.inner.forget_old();
        if let Some(beside) = self.beside.get_mut() {
            beside.forget_old();
        }
    }

    fn is_written(&self, space: &Space, key: &[u8]) -> bool {
        match self.place(space, key) {
            Some(space) => self.beside.get().is_some_and(|beside| beside.is_written(&space, key)),
            None => self.inner.is_written(space, key),
        }
    }

    fn note_written(&mut self, space: &Space, key: &[u8]) {
        match self.place(space, key) {
            // Without a transaction there are no entries that count as written to.
            Some(space) => {
                if let Ok(beside) = self.beside_mut() {
                    beside.note_written(&space, key);
                }
            }
            None => self.inner.note_written(space, key),
        }
    }

    fn load(&mut self, space: &Space, entries: Vec<(Key, Vec<u8>)>) -> Result<()> {
        if Self::is_temporary(space) {
            return self.beside_mut()?.load(space, entries);
        }
        self.inner.load(space, entries)
    }

    fn create_space(&mut self, space: SpaceId) -> Result<()> {
        if space.0 >= FIRST_TEMPORARY {
            return self.beside_mut()?.create_space(space);
        }
        self.inner.create_space(space)
    }

    fn drop_space(&mut self, space: SpaceId) -> Result<()> {
        if space.0 >= FIRST_TEMPORARY {
            return self.beside_mut()?.drop_space(space);
        }
        self.inner.drop_space(space)
    }

    fn lock(&mut self, space: &Space, key: &[u8], mode: LockMode, if_locked: IfLocked) -> Result<()> {
        match self.place(space, key) {
            // Nobody else asks for it.
            Some(_) => Ok(()),
            None => self.inner.lock(space, key, mode, if_locked),
        }
    }

    fn expect_newest(&mut self, space: &Space, range: &KeyRange) -> Result<()> {
        if Self::is_temporary(space) { Ok(()) } else { self.inner.expect_newest(space, range) }
    }

    fn begin_statement(&mut self) -> Result<Savepoint> {
        (self.keeps_old, self.sees_old) = (false, false);
        let savepoint = self.inner.begin_statement()?;
        let beside = match self.beside.get_mut() {
            Some(beside) => beside.begin_statement()?.writes,
            None => 0,
        };
        Ok(Savepoint { beside, ..savepoint })
    }

    fn savepoint(&self) -> Savepoint {
        let beside = self.beside.get().map_or(0, |beside| beside.savepoint().writes);
        Savepoint { beside, ..self.inner.savepoint() }
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        if let Some(beside) = self.beside.get_mut() {
            beside.rollback_to(Self::mark_beside(savepoint))?;
        }
        self.inner.rollback_to(savepoint)
    }

    fn restart(&mut self, savepoint: Savepoint) -> Result<()> {
        (self.keeps_old, self.sees_old) = (false, false);
        if let Some(beside) = self.beside.get_mut() {
            beside.restart(Self::mark_beside(savepoint))?;
        }
        self.inner.restart(savepoint)
    }

    fn catch_up(&mut self) -> Result<Option<bool>> {
        self.inner.catch_up()
    }

    fn look_ahead(&mut self) -> Result<()> {
        self.inner.look_ahead()
    }

    fn look_back(&mut self) -> Result<()> {
        self.inner.look_back()
    }

    fn at_commit(&mut self, then: AtCommit) -> Option<AtCommit> {
        self.inner.at_commit(then)
    }

    fn commit_leaving(self: Box<Self>, remains: &mut Option<Box<dyn Remains>>) -> Result<Commit> {
        let Self { inner, mut beside, .. } = *self;
        let commit = inner.commit_leaving(remains)?;
        match beside.take().filter(Transaction::has_writes) {
            Some(beside) => go_on(commit, beside),
            None => Ok(commit),
        }
    }

    fn begin_to_prepare(&mut self) -> Result<()> {
        if self.beside.get().is_some() {
            return Err(Error::TemporaryUsed);
        }
        self.inner.begin_to_prepare()
    }

    fn prepare(self: Box<Self>, name: &str, about: Vec<u8>) -> Result<Commit> {
        self.inner.prepare(name, about)
    }
}

/// Commits the transaction beside, if that of the database has committed.
fn go_on(commit: Commit, beside: LocalTransaction) -> Result<Commit> {
    match commit {
        Commit::Ended(ticket) => {
            let lost = |error: Error| Error::Unknown {
                reason: format!("the transaction has committed, but not its changes of temporary tables: {error}"),
            };
            // Nobody waits for it to be durable: it ends with the session.
            drop(beside.commit().map_err(lost)?);
            Ok(Commit::Ended(ticket))
        }
        Commit::Queued(queued) => Ok(Commit::Queued(QueuedCommit::new(Box::new(Pending { queued, beside })))),
    }
}

/// A commit of the database that is on its way, and the transaction that commits after it.
struct Pending {
    queued: QueuedCommit,
    beside: LocalTransaction,
}

impl PendingCommit for Pending {
    fn turn(&self) -> CommitTurn {
        self.queued.turn()
    }

    fn go_on(self: Box<Self>) -> Result<Commit> {
        let Self { queued, beside } = *self;
        go_on(queued.go_on()?, beside)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use colibri_storage::{Database, Durability, Options};

    use super::*;

    const ROWS: Space = Space { id: SpaceId(7), layout: None, locks_are_of_keys: true };
    const OWN: Space = Space { id: SpaceId(FIRST_TEMPORARY + 1), layout: None, locks_are_of_keys: true };
    const SPLIT: Space = Space { id: SpaceId(0), layout: None, locks_are_of_keys: true };

    struct World {
        store: LocalStore,
        spaces: TemporarySpaces,
        _dirs: [tempfile::TempDir; 2],
    }

    fn world() -> World {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let options = Options::new().durability(Durability::NoSync);
        let open = |at: usize| LocalStore::new(Database::open(dirs[at].path(), &options).unwrap());
        let (store, beside) = (open(0), open(1));
        let mut txn = store.begin(Begin::default()).unwrap();
        txn.create_space(SPLIT.id).unwrap();
        txn.create_space(ROWS.id).unwrap();
        txn.commit().unwrap().wait().unwrap();
        let spaces = TemporarySpaces {
            store: beside,
            split: SPLIT.id,
            is_temporary: |key| key.starts_with(b"t"),
            beside: SpaceId(FIRST_TEMPORARY),
        };
        let mut txn = spaces.begin().unwrap();
        txn.create_space(spaces.beside).unwrap();
        txn.commit().unwrap().wait().unwrap();
        World { store, spaces, _dirs: dirs }
    }

    impl World {
        fn begin(&self) -> Box<dyn Transaction> {
            let inner = self.store.begin_after(Begin { newest: true, ..Begin::default() }, TxnId(0)).unwrap();
            Box::new(WithTemporary::new(Box::new(inner), self.spaces.clone()))
        }
    }

    fn get(txn: &mut dyn Transaction, space: &Space, key: &[u8]) -> Option<Vec<u8>> {
        txn.get(space, key, ColumnSet::ALL).unwrap().map(<[u8]>::to_vec)
    }

    #[test]
    fn both_sides_commit_together_and_are_taken_back_together() {
        let world = world();
        let mut txn = world.begin();
        txn.create_space(OWN.id).unwrap();
        for space in [&ROWS, &OWN] {
            txn.put(space, b"k", b"1").unwrap();
        }
        let savepoint = txn.savepoint();
        for space in [&ROWS, &OWN] {
            txn.put(space, b"k", b"2").unwrap();
            txn.put(space, b"l", b"3").unwrap();
        }
        txn.rollback_to(savepoint).unwrap();
        for space in [&ROWS, &OWN] {
            assert_eq!(get(&mut *txn, space, b"k"), Some(b"1".to_vec()));
            assert_eq!(get(&mut *txn, space, b"l"), None);
        }
        txn.commit().unwrap().wait().unwrap();
        let mut txn = world.begin();
        for space in [&ROWS, &OWN] {
            assert_eq!(get(&mut *txn, space, b"k"), Some(b"1".to_vec()));
            txn.put(space, b"k", b"4").unwrap();
        }
        drop(txn);
        let mut txn = world.begin();
        for space in [&ROWS, &OWN] {
            assert_eq!(get(&mut *txn, space, b"k"), Some(b"1".to_vec()));
        }
    }

    #[test]
    fn a_refused_commit_of_the_database_takes_the_temporary_spaces_back() {
        let world = world();
        let mut txn = world.begin();
        txn.create_space(OWN.id).unwrap();
        txn.commit().unwrap().wait().unwrap();
        let mut one = world.begin();
        assert_eq!(get(&mut *one, &ROWS, b"k"), None);
        one.put(&ROWS, b"l", b"1").unwrap();
        one.put(&OWN, b"l", b"1").unwrap();
        let mut other = world.begin();
        other.put(&ROWS, b"k", b"2").unwrap();
        other.commit().unwrap().wait().unwrap();
        assert!(matches!(one.commit(), Err(Error::Conflict { .. })));
        assert_eq!(get(&mut *world.begin(), &OWN, b"l"), None);
    }

    #[test]
    fn entries_of_the_split_space_go_where_their_keys_say() {
        let world = world();
        let mut txn = world.begin();
        txn.put(&SPLIT, b"t1", b"beside").unwrap();
        txn.put(&SPLIT, b"p1", b"here").unwrap();
        txn.commit().unwrap().wait().unwrap();
        let mut plain = world.store.begin(Begin { newest: true, ..Begin::default() }).unwrap();
        assert_eq!(get(&mut plain, &SPLIT, b"t1"), None);
        assert_eq!(get(&mut plain, &SPLIT, b"p1"), Some(b"here".to_vec()));
        let mut txn = world.begin();
        assert_eq!(get(&mut *txn, &SPLIT, b"t1"), Some(b"beside".to_vec()));
        assert_eq!(get(&mut *txn, &SPLIT, b"p1"), Some(b"here".to_vec()));
    }

    #[test]
    fn a_transaction_that_only_reads_the_database_may_write_temporary_spaces() {
        let world = world();
        let inner = world.store.begin_after(Begin { read_only: true, ..Begin::default() }, TxnId(0)).unwrap();
        let mut txn = WithTemporary::new(Box::new(inner), world.spaces.clone());
        txn.create_space(OWN.id).unwrap();
        txn.put(&OWN, b"k", b"1").unwrap();
        assert!(matches!(txn.put(&ROWS, b"k", b"1"), Err(Error::ReadOnly)));
        Box::new(txn).commit().unwrap().wait().unwrap();
        assert_eq!(get(&mut *world.begin(), &OWN, b"k"), Some(b"1".to_vec()));
    }

    #[test]
    fn old_entries_are_kept_on_both_sides() {
        let world = world();
        let mut txn = world.begin();
        txn.create_space(OWN.id).unwrap();
        txn.put(&OWN, b"k", b"1").unwrap();
        txn.commit().unwrap().wait().unwrap();
        let mut txn = world.begin();
        txn.keep_old();
        txn.put(&OWN, b"k", b"2").unwrap();
        txn.see_old(true);
        assert_eq!(get(&mut *txn, &OWN, b"k"), Some(b"1".to_vec()));
        assert!(txn.is_written(&OWN, b"k"));
        txn.forget_old();
        assert_eq!(get(&mut *txn, &OWN, b"k"), Some(b"2".to_vec()));
    }
}

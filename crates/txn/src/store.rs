//! What a transactional store of ordered keys gives: the only door through which SQL reaches data.
//!
//! A store holds *spaces* (a table's rows, an index' entries), each an ordered map from keys to
//! values. A transaction reads as of a snapshot, keeps its writes to itself, and commits them all
//! or none. What it read is remembered, and a commit is refused ([`Error::Conflict`]) unless all of
//! it still holds: so committed transactions are serializable in the order of their commits, and a
//! transaction that wrote nothing is serializable as of its snapshot, without a check.
//!
//! Invariants that every implementation keeps:
//! - Nothing waits inside a call. A call that would have to is interrupted ([`Interruption`]), and
//!   changes nothing. For a lock the caller waits, takes the statement back
//!   ([`Transaction::restart`]), and runs it again. For what has to be fetched it waits, and makes
//!   the same call again.
//! - Only calls that read stored entries are interrupted to fetch: `get`, `depend`, `peek`, `scan`,
//!   `count`, `estimate`, `sample`, `patch`, `lock` and `expect_newest`. When what they ask for has
//!   come they are answered, and are answered again as long as the transaction lasts: so whoever
//!   makes the same calls from the start comes further each time.
//! - A range is remembered as far as it was really covered: up to the last key visited if the
//!   visitor broke off, whole otherwise. Rows are remembered with the columns that mattered; a
//!   range always covers which keys are there.
//! - A transaction sees its own writes.
//! - After any error but [`Error::Interrupted`] and [`Error::NotAvailable`] the statement is over;
//!   [`Transaction::rollback_to`] brings the transaction back to a savepoint.
//!
//! What a store over the network needs is in the signatures already: ranges are explicit, visitors
//! see pages of entries and no cursor stays open between calls, outcomes tell a conflict from an
//! unknown end, limits are declared ([`Capabilities`]), and a call that has to fetch something
//! first says [`Interruption::Fetch`].

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use colibri_storage::TxnId;
use smallvec::SmallVec;

use crate::columns::ColumnSet;
use crate::commit::{AtCommit, Commit};
use crate::error::{Error, Result};
use crate::locks::{LockInfo, OwnerId, SessionLocks};
#[cfg(doc)]
use crate::outcome::Interruption;
use crate::reads::ForkReads;
use crate::ticket::CommitTicket;

/// The number of a space. Never used twice in a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

/// A key, up to 32 bytes without an allocation.
pub type Key = SmallVec<[u8; 32]>;

/// Says which columns two versions of a row differ in.
pub trait RowLayout: Send + Sync {
    /// The columns whose values differ. May name too many, never too few.
    fn changed(&self, old: &[u8], new: &[u8]) -> ColumnSet;
}

/// A space as a transaction uses it: its number, and how its values are made up of columns.
#[derive(Clone)]
pub struct Space {
    /// Its number.
    pub id: SpaceId,
    /// `None` if a value is one column.
    pub layout: Option<Arc<dyn RowLayout>>,
    /// Locks in it are named by whole keys. Else a lock may be named by what several keys begin
    /// with, and stand for all of them.
    pub locks_are_of_keys: bool,
}

impl Space {
    /// A space whose values are not made up of columns, and in which locks may be named by
    /// beginnings of keys.
    #[must_use]
    pub fn new(id: SpaceId) -> Self {
        Self { id, layout: None, locks_are_of_keys: false }
    }

    /// A space whose values are not made up of columns, and in which locks have to be named by
    /// whole keys.
    #[must_use]
    pub fn of_keys(id: SpaceId) -> Self {
        Self { id, layout: None, locks_are_of_keys: true }
    }

    /// A space whose values are rows, and in which locks have to be named by whole keys.
    #[must_use]
    pub fn with_layout(id: SpaceId, layout: Arc<dyn RowLayout>) -> Self {
        Self { id, layout: Some(layout), locks_are_of_keys: true }
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Space({})", self.id.0)
    }
}

/// The part of a space between two keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it starts.
    pub low: Bound<Key>,
    /// Where it ends.
    pub high: Bound<Key>,
}

/// Told of the value of a key, which it knows by its index; breaks off or goes on.
pub type Found<'v> = dyn FnMut(usize, Option<&[u8]>) -> ControlFlow<()> + 'v;

/// Told of a key and its value; breaks off or goes on.
pub type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// The order in which a range is visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest key.
    Forward,
    /// From the highest key.
    Backward,
}

/// A change to some columns of a row, applied to whatever the row is when the transaction commits.
///
/// So updating one column never overwrites another's newer value, and `c = c + x` needs no read of
/// `c`.
pub trait Patch: Send + Sync {
    /// Writes the changed row to `out`, which is empty.
    ///
    /// # Errors
    /// What the user is told if the change cannot be made to this row: an overflow, say.
    fn apply(&self, row: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), PatchError>;
}

/// Why a patch cannot be applied. It is passed through to the maker of the patch, who knows its
/// type.
pub type PatchError = Box<dyn std::error::Error + Send + Sync>;

/// What a lock on a row keeps others from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// From taking the row away or changing its keys: columns that are unique, to which others may
    /// refer. Goes with all modes but [`LockMode::Exclusive`].
    KeyShare,
    /// From changing the row. Goes with itself.
    Share,
    /// From everything but adding to the row as well. Goes with itself.
    Add,
    /// From everything but counting on the row's keys: for changes that leave these alone.
    NoKeyUpdate,
    /// From everything.
    Exclusive,
}

/// What to do when a lock cannot be had at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfLocked {
    /// Queue up: [`Interruption::Wait`].
    Wait,
    /// [`Error::NotAvailable`].
    Refuse,
}

/// How far a transaction is kept apart from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// As if transactions ran one after the other.
    #[default]
    Serializable,
    /// Each transaction sees one state of the database, and what it writes to nobody has changed
    /// since. What it has only read may have changed by its commit.
    Snapshot,
    /// Each statement sees what was committed before it; reads are not remembered. Lost updates are
    /// still ruled out by row locks.
    ReadCommitted,
}

impl Isolation {
    /// Whether a commit checks that what was read still holds.
    #[must_use]
    pub fn validates_reads(self) -> bool {
        self == Self::Serializable
    }
}

/// How a transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Begin {
    /// Its isolation.
    pub isolation: Isolation,
    /// Writes and locks are refused ([`Error::ReadOnly`]) and reads not remembered.
    pub read_only: bool,
    /// See the newest committed state even where it is not durable yet. The end of the transaction
    /// then waits until it is. Right for statements that write; a reader would wait for others'
    /// flushes.
    pub newest: bool,
}

/// What a store can do.
#[derive(Debug, Clone, Copy)]
pub struct Capabilities {
    /// The longest key in bytes.
    pub key_bytes_max: usize,
    /// The largest value in bytes.
    pub value_bytes_max: usize,
    /// How many bytes a transaction may write. `None`: as many as memory holds.
    pub txn_bytes_max: Option<usize>,
    /// How long a transaction may last. `None`: as long as it likes.
    pub txn_age_max: Option<std::time::Duration>,
    /// Rows can be locked before commit; without, contention ends in conflicts.
    pub locks: bool,
    /// Patches are applied at commit; without, they are applied to the snapshot's row, which then
    /// counts as read.
    pub patches_at_commit: bool,
    /// Counting a range costs O(log n).
    pub counts: bool,
    /// Calls may be interrupted because what they ask for has to be fetched
    /// ([`Interruption::Fetch`]).
    pub fetches: bool,
}

impl Capabilities {
    /// Refuses a key that the store would not take.
    ///
    /// # Errors
    /// [`Error::KeyLength`].
    pub fn check_key(&self, key: &[u8]) -> Result<()> {
        match (key.len(), self.key_bytes_max) {
            (bytes, bytes_max) if bytes == 0 || bytes > bytes_max => Err(Error::KeyLength { bytes, bytes_max }),
            _ => Ok(()),
        }
    }

    /// Refuses a value that the store would not take.
    ///
    /// # Errors
    /// [`Error::ValueTooLong`].
    pub fn check_value(&self, bytes: usize) -> Result<()> {
        let bytes_max = self.value_bytes_max;
        if bytes > bytes_max { Err(Error::ValueTooLong { bytes, bytes_max }) } else { Ok(()) }
    }
}

/// What has happened since the store was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Transactions that changed something and committed.
    pub commits: u64,
    /// Groups that they were committed in. The fewer these are, the more commits shared one.
    pub batches: u64,
    /// Times that something read was no longer valid.
    pub conflicts: u64,
    /// Times that a lock had to be waited for.
    pub lock_waits: u64,
    /// Deadlocks that were broken.
    pub deadlocks: u64,
    /// Statements that were rolled back to run again.
    pub restarts: u64,
}

/// How much a space takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpaceSize {
    /// Its entries.
    pub entries: u64,
    /// Bytes that are set aside for them.
    pub bytes: u64,
}

/// A database of spaces.
pub trait Store: Send + Sync + 'static {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Begins a transaction.
    ///
    /// # Errors
    /// Those of the storage underneath.
    fn begin(&self, how: Begin) -> Result<Box<dyn Transaction>> {
        self.begin_after(how, TxnId(0))
    }

    /// Begins a transaction that sees at least this commit, even if it is not durable yet: for a
    /// session that goes on before its last commit is durable.
    ///
    /// # Errors
    /// Those of the storage underneath.
    fn begin_after(&self, how: Begin, seen: TxnId) -> Result<Box<dyn Transaction>>;

    /// The newest committed state that the store knows of, be it durable or not.
    fn newest_txn(&self) -> TxnId;

    /// What has happened so far. Counters are read one by one.
    fn counters(&self) -> Counters;

    /// How much a space takes in a recent state; `None` if it is not there.
    ///
    /// # Errors
    /// Those of the storage underneath.
    fn space_size(&self, space: SpaceId) -> Result<Option<SpaceSize>>;

    /// Locks that a session holds by itself, none at first.
    fn session_locks(&self) -> SessionLocks;

    /// The locks that are held or waited for.
    fn locks(&self) -> Vec<LockInfo>;

    /// Sets how many transactions may be prepared at the same time; none at first. To be called
    /// before the first transaction begins. A store that cannot prepare any does nothing.
    fn set_prepared_max(&self, _: usize) {}

    /// Reads which transactions are prepared and takes their locks, for a store that others have
    /// written to.
    ///
    /// # Errors
    /// Those of the storage.
    fn load_prepared(&self) -> Result<()> {
        Ok(())
    }

    /// The prepared transactions, by name.
    ///
    /// # Errors
    /// Those of the storage.
    fn prepared(&self) -> Result<Vec<PreparedInfo>> {
        Ok(Vec::new())
    }

    /// Commits a prepared transaction, or takes it back.
    ///
    /// # Errors
    /// [`Error::NoSuchPrepared`]. Those of the storage: then it is still prepared, or nobody knows.
    fn finish_prepared(&self, _name: &str, _commits: bool) -> Result<Commit> {
        Err(Error::NoSuchPrepared)
    }

    /// Has `hook` called before work on thousands of changes that cannot be interrupted: a commit,
    /// a check, a rollback. It is called on the thread that does the work. That may be another
    /// thread than the one of the session, and others may wait meanwhile, so the hook must neither
    /// wait long nor use the store. Only the first hook of a store counts. A store whose work is
    /// elsewhere need not call it.
    fn set_long_work_hook(&self, hook: Box<dyn Fn() + Send + Sync>);
}

/// What a store knows of a prepared transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedInfo {
    /// The name by which it is ended.
    pub name: String,
    /// The number of the commit that prepared it.
    pub number: u64,
    /// What was given for others to read when it was prepared.
    pub about: Vec<u8>,
    /// For each space that it writes values to, the greatest key that gets one, with the value.
    pub last_puts: Vec<(SpaceId, Key, Vec<u8>)>,
}

/// [`Transaction::get_many`], one key after the other.
///
/// # Errors
/// As there.
pub fn get_each<T: Transaction + ?Sized>(
    txn: &mut T,
    space: &Space,
    keys: &[&[u8]],
    columns: ColumnSet,
    visit: &mut Found<'_>,
) -> Result<()> {
    for (at, key) in keys.iter().enumerate() {
        if visit(at, txn.get(space, key, columns)?).is_break() {
            break;
        }
    }
    Ok(())
}

/// What [`Transaction::skip`] has passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skipped {
    /// All entries of the range: so many.
    All(u64),
    /// As many as were asked for, and this was the last of them. There are more.
    Until(Key),
}

/// A place in a transaction to go back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Savepoint {
    pub(crate) writes: usize,
    pub(crate) reads: usize,
    /// The writes to temporary spaces: see [`crate::WithTemporary`].
    pub(crate) beside: usize,
}

/// A transaction. Dropping it takes it back.
pub trait Transaction: Send + 'static {
    /// Takes out what is inside, of one that stands for another one; `None` of any other.
    fn lend(&mut self) -> Option<Box<dyn Transaction>> {
        None
    }

    /// Puts back what was taken out.
    fn give_back(&mut self, _: Box<dyn Transaction>) {}

    /// How it began.
    fn begun(&self) -> Begin;

    /// Its number among the owners of locks.
    fn id(&self) -> OwnerId;

    /// The committed state that it sees, under its own writes.
    fn sees(&self) -> TxnId;

    /// A ticket for what was read so far: for a caller that passes it on before the transaction
    /// ends, or although it is rolled back.
    fn ticket_of_reads(&self) -> CommitTicket;

    /// A space in which the transaction has read columns that it had added to before, if that
    /// happened since the last call. A caller that locks such rows exclusively from the start
    /// avoids a later upgrade of the lock, with which two transactions may block each other.
    fn take_read_back(&mut self) -> Option<SpaceId>;

    /// Makes it read-only, or read-write again.
    fn set_read_only(&mut self, read_only: bool);

    /// Whether it changed anything so far.
    fn has_writes(&self) -> bool;

    /// Bytes its writes take in memory.
    fn write_bytes(&self) -> usize;

    /// The value of a key. `columns` are those that the caller looks at: the transaction depends on
    /// them, and on whether the key is there.
    ///
    /// # Errors
    /// Of the storage. [`Interruption::Fetch`] if the entry has to be fetched.
    /// [`Interruption::Wait`] if the row has an addition of this transaction's pending in one of
    /// the columns and others' additions have to end first.
    fn get(&mut self, space: &Space, key: &[u8], columns: ColumnSet) -> Result<Option<&[u8]>>;

    /// As [`Transaction::get`] of some keys in turn, until the visitor breaks off. A store whose
    /// entries are in memory loads several together.
    ///
    /// # Errors
    /// As `get`: the keys before have been visited.
    fn get_many(&mut self, space: &Space, keys: &[&[u8]], columns: ColumnSet, visit: &mut Found<'_>) -> Result<()> {
        get_each(self, space, keys, columns, visit)
    }

    /// Has the transaction depend on a key as [`Transaction::get`] does, for somebody who knows
    /// already what is there.
    ///
    /// # Errors
    /// As `get`.
    fn depend(&mut self, space: &Space, key: &[u8], columns: ColumnSet) -> Result<()> {
        self.get(space, key, columns).map(|_| ())
    }

    /// The value of a key, without coming to depend on it.
    ///
    /// # Errors
    /// Of the storage.
    fn peek(&mut self, space: &Space, key: &[u8]) -> Result<Option<&[u8]>>;

    /// Visits the entries of a range in order, until the visitor breaks off, which it does with the
    /// entry number `limit` at the latest: a store that has to fetch them fetches no more. It
    /// fetches before the visitor sees the first of them.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    fn scan(
        &mut self,
        space: &Space,
        range: &KeyRange,
        direction: Direction,
        columns: ColumnSet,
        limit: usize,
        visit: &mut Visit<'_>,
    ) -> Result<()>;

    /// Says which keys and ranges will be asked for soon, so that a store that has to fetch them
    /// can do so together. Changes nothing else, and the transaction does not come to depend on
    /// them.
    fn prefetch(&mut self, _space: &Space, _keys: &[&[u8]], _ranges: &[KeyRange]) {}

    /// Whether calls may be interrupted to fetch now: see [`Capabilities::fetches`] and
    /// [`Transaction::let_fetch`].
    fn fetches(&self) -> bool {
        false
    }

    /// Says whether calls may be interrupted from here on because what they ask for has to come from
    /// the disk of this machine; at first they may not, and wait on their thread. A store that has to
    /// fetch anyway, or that has nothing on a disk, does nothing. To be set between statements.
    fn let_fetch(&mut self, _may: bool) {}

    /// How many entries a range has. Depends on which keys are there.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    fn count(&mut self, space: &Space, range: &KeyRange) -> Result<u64>;

    /// Passes over entries of a range, from the side that `direction` begins at, without looking at
    /// them: `rows`, or all if there are fewer. Depends on which keys are there. `None`: the store
    /// cannot do that sooner than by visiting them.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    fn skip(&mut self, _space: &Space, _range: &KeyRange, _: Direction, _rows: u64) -> Result<Option<Skipped>> {
        Ok(None)
    }

    /// About how many entries a range has. The transaction does not come to depend on it.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    fn estimate(&self, space: &Space, range: &KeyRange) -> Result<u64>;

    /// At most `entries_max` entries of a space, in order and about evenly spread over all of them:
    /// what the entries look like, for estimates. The transaction does not come to depend on them.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    fn sample(&self, space: &Space, entries_max: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;

    /// Writes a whole value. What was there before does not matter; a caller to whom it matters has
    /// read it.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::ReadOnly`].
    fn put(&mut self, space: &Space, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a key.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    fn delete(&mut self, space: &Space, key: &[u8]) -> Result<()>;

    /// Adds an entry behind all others of a series when the transaction commits: see
    /// [`series`](crate::series). Its number is given out then. The transaction does not see it,
    /// and does not come to depend on what else is in the series.
    ///
    /// # Errors
    /// As [`Transaction::put`]. The commit may fail with [`Error::SeriesFull`].
    fn append(&mut self, space: &Space, prefix: &[u8], value: &[u8]) -> Result<()>;

    /// Removes the entries of a series below a number when the transaction commits, but never the
    /// last one that is there then. Whole pages go without a look at their entries. The transaction
    /// still sees them, and does not come to depend on them.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    fn cut(&mut self, space: &Space, prefix: &[u8], below: i64) -> Result<()>;

    /// The first entry of a range in a direction, as the snapshot has it, without the transaction's
    /// own changes. The transaction does not come to depend on it.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    fn edge(&mut self, space: &Space, range: &KeyRange, direction: Direction) -> Result<Option<(Key, Vec<u8>)>>;

    /// Changes the row that a key has when the transaction commits; depends on the key being there.
    /// Gives the row as the transaction sees it from now on. `adds` are the columns that the patch
    /// adds to without having read them.
    ///
    /// # Errors
    /// [`Error::Patch`] if the patch does not apply to the row the transaction sees;
    /// [`Error::NoSuchKey`].
    fn patch(&mut self, space: &Space, key: &[u8], adds: ColumnSet, patch: Arc<dyn Patch>) -> Result<()>;

    /// Keeps from here on what entries were before the transaction writes to them, for a statement
    /// whose parts are not to see each other's changes: see [`Transaction::see_old`]. They are kept
    /// until [`Transaction::forget_old`], or until a statement begins or is taken back.
    fn keep_old(&mut self);

    /// Whether reads see entries as they were when they began to be kept, and depend on them as
    /// they were. Writes and locks are not concerned. Gives what it was before; nothing happens if
    /// entries are not kept.
    fn see_old(&mut self, sees_old: bool) -> bool;

    /// Keeps nothing any more; reads see all that was written.
    fn forget_old(&mut self);

    /// Whether an entry was written to since entries are kept.
    fn is_written(&self, space: &Space, key: &[u8]) -> bool;

    /// Has an entry count as written to, though nothing of it has changed.
    fn note_written(&mut self, space: &Space, key: &[u8]);

    /// Fills a space made in this transaction with entries in strictly ascending order of keys.
    /// Cheaper by far than as many `put`s.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::NotEmpty`] if the space was not made in this transaction or
    /// has entries.
    fn load(&mut self, space: &Space, entries: Vec<(Key, Vec<u8>)>) -> Result<()>;

    /// Makes a space. Its number must never have been used.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    fn create_space(&mut self, space: SpaceId) -> Result<()>;

    /// Removes a space with all its entries, when the transaction commits.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    fn drop_space(&mut self, space: SpaceId) -> Result<()>;

    /// Takes a lock, held until the transaction ends, and makes sure that the transaction sees the
    /// row as it is now.
    ///
    /// A row's lock is named by its space and key; any other bytes name a lock as well, if all
    /// agree on them, among them the beginning of keys where [`Space::locks_are_of_keys`] is not
    /// set. A lock held already, in this mode or a stronger one, costs next to nothing.
    ///
    /// # Errors
    /// [`Interruption::Wait`] and [`Error::NotAvailable`] as `if_locked` says.
    /// [`Interruption::Stale`] if the row has changed since the snapshot: the lock is held now;
    /// restart the statement. [`Error::Deadlock`].
    fn lock(&mut self, space: &Space, key: &[u8], mode: LockMode, if_locked: IfLocked) -> Result<()>;

    /// Makes sure that the keys of a range, and their values, are those of the newest committed
    /// state. For what a lock has kept others from changing from now on, but not before: in
    /// [`Isolation::ReadCommitted`] nothing else would say so.
    ///
    /// # Errors
    /// [`Interruption::Stale`] if they are not: restart the statement.
    fn expect_newest(&mut self, space: &Space, range: &KeyRange) -> Result<()>;

    /// Begins a statement: a savepoint, and, in [`Isolation::ReadCommitted`] or if the transaction
    /// does not depend on anything it has read yet, a new snapshot.
    ///
    /// # Errors
    /// Of the storage.
    fn begin_statement(&mut self) -> Result<Savepoint>;

    /// A savepoint.
    fn savepoint(&self) -> Savepoint;

    /// Takes back what was written since a savepoint. What was read meanwhile stays remembered: the
    /// caller may have told somebody. Locks stay.
    ///
    /// # Errors
    /// Of the storage.
    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()>;

    /// Takes back a statement whose results nobody has seen, what it read included, and moves the
    /// snapshot to the newest committed state, so that it can run again.
    ///
    /// # Errors
    /// [`Error::Conflict`] if what was read before the savepoint does not hold any more.
    fn restart(&mut self, savepoint: Savepoint) -> Result<()>;

    /// Moves to the newest state, if all that was read holds there (in READ COMMITTED, between
    /// statements, it need not). `false` if something does not hold; `None` if there is no newer
    /// state that it may see.
    ///
    /// # Errors
    /// Those of the storage.
    fn catch_up(&mut self) -> Result<Option<bool>>;

    /// Looks at the newest state although what was read does not hold there, to find out what a
    /// statement that cannot be carried out would meet. The transaction cannot write until it goes
    /// back with [`Transaction::look_back`].
    ///
    /// # Errors
    /// Those of the storage; then it sees what it saw.
    fn look_ahead(&mut self) -> Result<()>;

    /// Goes back to the state before [`Transaction::look_ahead`].
    ///
    /// # Errors
    /// Those of the storage.
    fn look_back(&mut self) -> Result<()>;

    /// Another transaction that reads the same state, for a thread that helps with a statement.
    /// What it has read is to be told to this one with [`Transaction::join`]. `None`: the store has
    /// none, or this transaction sees more than a committed state.
    ///
    /// # Errors
    /// Those of the storage.
    fn fork(&self) -> Result<Option<Box<dyn Transaction>>> {
        Ok(None)
    }

    /// Ends a transaction that [`Transaction::fork`] has given, and takes out what it has read.
    fn into_reads(self: Box<Self>) -> Option<ForkReads> {
        None
    }

    /// Depends on what a fork of it has read.
    fn join(&mut self, _reads: ForkReads) {}

    /// Has a function called as soon as the transaction has committed, in the order in which
    /// transactions commit, on whichever thread commits it. It is to be short, and must not use the
    /// store. It is not called if the transaction does not commit.
    ///
    /// A store without such an order gives the function back: the caller calls it then.
    fn at_commit(&mut self, then: AtCommit) -> Option<AtCommit> {
        Some(then)
    }

    /// Commits, and blocks the thread meanwhile. The ticket tells when the changes, and everything
    /// that was read, are durable; nobody outside may be told of them before. Dropping the ticket
    /// changes nothing about the commit.
    ///
    /// # Errors
    /// [`Error::Conflict`]: nothing was changed, try again. [`Error::Unknown`]: nobody knows.
    /// Others: nothing was changed.
    fn commit(self: Box<Self>) -> Result<CommitTicket> {
        self.commit_leaving(&mut None)?.wait()
    }

    /// The first half of [`Transaction::commit`]; the other is [`Commit::wait`]. A commit that
    /// would have to wait gives a place in a queue instead. A transaction that has written nothing
    /// may leave what the next one can begin with.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    fn commit_leaving(self: Box<Self>, remains: &mut Option<Box<dyn Remains>>) -> Result<Commit>;

    /// Makes ready for [`Transaction::prepare`]: takes the locks that it needs.
    ///
    /// # Errors
    /// As [`Transaction::lock`]; [`Error::TemporaryUsed`], [`Error::SeriesUsed`],
    /// [`Error::CannotPrepare`].
    fn begin_to_prepare(&mut self) -> Result<()> {
        Err(Error::CannotPrepare)
    }

    /// Prepares the transaction under a name: it can commit from here on, whatever happens, and
    /// keeps its locks until [`Store::finish_prepared`] ends it. `about` is handed on by
    /// [`Store::prepared`]. It is prepared when the ticket is due.
    ///
    /// # Errors
    /// As [`Transaction::commit`]; [`Error::PreparedExists`], [`Error::TooManyPrepared`].
    fn prepare(self: Box<Self>, _name: &str, _about: Vec<u8>) -> Result<Commit> {
        Err(Error::CannotPrepare)
    }
}

/// What a transaction leaves to the next one of its session: see [`Transaction::commit_leaving`].
///
/// It keeps no state of the database alive.
pub trait Remains: Send {
    /// As [`Store::begin_after`], on the store of the transaction that left this.
    ///
    /// # Errors
    /// Those of the storage.
    fn begin_after(self: Box<Self>, how: Begin, seen: TxnId) -> Result<Box<dyn Transaction>>;
}

//! The past: states that are kept for a while after they are no longer the newest, so that a branch
//! can be made of what there was at a transaction or at a time.
//!
//! With a [`Retention`], each steady point first keeps what it is about to make steady. A *point*
//! says that the state of a transaction is kept: for each branch that has changed since the point
//! before, a fork of it (see `forest`) which nothing but the past may start from. A fork has the
//! number of the transaction that makes it, so a point takes as many transactions as there are new
//! forks, one after the other. What was committed
//! between two points is kept as the log's records, in a table of the forest. So the state of any
//! transaction is a fork and the records behind it.
//!
//! ```text
//! point 40            point 57                      point 90
//! fork 41             fork 58                       fork 91
//!    records 42 to 57    records 59 to 90
//! ```
//!
//! | table | key | value |
//! | --- | --- | --- |
//! | `points` | transaction 8 | the last transaction with the same state 8, time 8, pages given up to the point before 8 |
//! | `kept` | branch 8, transaction 8 | fork 8 |
//! | `history` | last transaction 8 | records: transaction 8, time 8, length 4, operations |
//!
//! Numbers in keys are big-endian, in values little-endian. Times are microseconds since 1970 in UTC.
//!
//! A commit costs the time in its record, eleven bytes. The pages that a change gives up are a
//! fork's, so they stay; and a steady point writes the records once more, into the data file.
//!
//! Points are dropped by age and by bytes, the oldest first, when a new one is kept and something
//! has changed since the last. So nothing runs while nobody writes. Their forks are reaped as those
//! of branches that were dropped.
//!
//! Invariants:
//! 1. A branch that has changed between two points has an entry in `kept` for the second. One that
//!    was made or reset has one for the transaction that did it.
//! 2. Behind a point stand the records of all transactions up to the next, or some are missing and
//!    no state behind the gap is told from this point on.
//! 3. A transaction without a record, which is a steady point itself, is followed by a point, made
//!    before another transaction begins.
//! 4. Times do not go back from one transaction to the next.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::db::Database;
use crate::flusher::ReaperSignal;
use crate::forest::BranchId;
use crate::log::Position;
use crate::meta::PAST_VERSION;
use crate::options::{Clock, Durability, RETENTION_NEEDS_LOG, Retention};
use crate::page::{PageId, TxnId};
use crate::root::Root;
use crate::txn::WriteTxn;
use crate::{Error, Result};

mod keep;
mod states;
pub(crate) use states::{Found, PastOf, replay};

/// Which state of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsOf {
    /// That of a transaction, as it was when the transaction had committed.
    Transaction(TxnId),
    /// What had been committed at a time, in microseconds since 1970-01-01 in UTC.
    Time(i64),
}

/// What a file keeps of its past, as [`Database::past`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PastInfo {
    /// The oldest transaction whose state is kept, and its time in microseconds since 1970-01-01 in
    /// UTC; `None` if nothing is kept.
    pub since: Option<(TxnId, i64)>,
    /// States that are kept as pages. What was committed between them is kept as records.
    pub points: u64,
    /// Bytes of pages that are in use for the past only, about: those that a change gave up. Pages
    /// that a branch still shares are counted as well.
    pub state_bytes: u64,
    /// Bytes of pages with records.
    pub history_bytes: u64,
    /// Points that this opening has dropped before their time, because of
    /// [`Retention::bytes_max`].
    pub cut_short: u64,
}

/// What an open database knows of its past.
pub(crate) struct Past {
    retention: Mutex<Option<Retention>>,
    /// There is a retention: points are made.
    on: AtomicBool,
    /// Records say when they were committed: the file has the version that allows it.
    stamps: AtomicBool,
    clock: Clock,
    /// The last time that was told.
    last_time: AtomicI64,
    /// Up to where the log was read, if this process has kept the last point.
    read_to: Mutex<Option<(Position, TxnId)>>,
    cut_short: AtomicU64,
    pub(crate) reaper: OnceLock<ReaperSignal>,
}

impl Past {
    pub(crate) fn new(retention: Option<Retention>, clock: Clock) -> Self {
        Self {
            retention: Mutex::new(retention),
            // From the first moment on: a steady point behind a recovery drops the log.
            on: AtomicBool::new(retention.is_some()),
            stamps: AtomicBool::new(false),
            clock,
            last_time: AtomicI64::new(i64::MIN),
            read_to: Mutex::new(None),
            cut_short: AtomicU64::new(0),
            reaper: OnceLock::new(),
        }
    }

    /// Whether points are made.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Whether records say when they were committed.
    #[inline]
    pub(crate) fn stamps(&self) -> bool {
        self.stamps.load(Ordering::Acquire)
    }

    /// Has records say when they were committed, if the file says that it is of a version that allows
    /// it: an older one is to refuse its format before it finds a record that it does not know.
    pub(crate) fn allow_stamps(&self, version: u32) {
        if version >= PAST_VERSION && self.is_on() {
            self.stamps.store(true, Ordering::Release);
        }
    }

    /// Notes a transaction without a record that follows the state that was kept last.
    pub(crate) fn note_steady(&self, root: &Root) {
        if self.is_on() {
            *self.read_to.lock() = Some((root.log, root.txn));
        }
    }

    /// The time, which never goes back.
    pub(crate) fn now(&self) -> i64 {
        let now = self.clock.now();
        self.last_time.fetch_max(now, Ordering::AcqRel).max(now)
    }
}

impl Clock {
    fn now(&self) -> i64 {
        match self {
            Self::Given(clock) => clock(),
            Self::System => match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
                Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
                Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
            },
        }
    }
}

impl Database {
    /// Sets for how long states of the past are kept, from now on; `None` for not at all. What was
    /// kept before stays until it is too old by what is set now, or until
    /// [`Database::forget_past`].
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless the durability is [`Durability::Sync`]: in other modes there is
    /// no log that says what happened; those of a commit and a steady point.
    pub fn set_retention(&self, retention: Option<Retention>) -> Result<()> {
        let core = &self.0.core;
        if retention.is_some() && core.durability != Durability::Sync {
            return Err(Error::InvalidOption { option: "retention", reason: RETENTION_NEEDS_LOG });
        }
        if core.read_only {
            return if retention.is_none() { Ok(()) } else { Err(Error::ReadOnly) };
        }
        let mut work = core.lock_writer(true)?;
        *core.past.retention.lock() = retention;
        core.past.on.store(retention.is_some(), Ordering::Release);
        core.past.allow_stamps(core.last_meta.lock().0.version);
        let kept = core.keep_point(&mut work, false);
        core.unlock_writer(work);
        if retention.is_none() {
            core.past.stamps.store(false, Ordering::Release);
            return Ok(());
        }
        // The steady point has the version that allows records with times.
        kept.and_then(|()| core.sync()).and_then(|()| self.0.ask_for_reaping())
    }

    /// For how long states of the past are kept, by this opening.
    #[must_use]
    pub fn retention(&self) -> Option<Retention> {
        *self.0.core.past.retention.lock()
    }

    /// What the file keeps of its past.
    pub fn past(&self) -> Result<PastInfo> {
        let cut_short = self.0.core.past.cut_short.load(Ordering::Relaxed);
        self.forest(|pager, bounds, _, forest| PastOf::new(pager, bounds, forest)?.info(cut_short))
    }

    /// Gives up all states of the past that are kept. With a retention, they are kept from now on
    /// again. Their pages are given back in the background ([`Database::reap_branches`] waits for
    /// that).
    ///
    /// # Errors
    /// Those of a commit.
    pub fn forget_past(&self) -> Result<()> {
        let core = &self.0.core;
        if core.shared.root().forest == PageId::NONE {
            return Ok(());
        }
        let mut work = core.lock_writer(true)?;
        let done = core.forget_past(&mut work).and_then(|()| core.keep_point(&mut work, false));
        core.unlock_writer(work);
        done?;
        self.0.committed(false);
        self.0.ask_for_reaping()
    }

    /// Makes a branch of what this one was at a transaction or at a time, and opens it. The state is
    /// the kept one before, with the records of the commits in between; so it takes as long as
    /// making up for those after a crash, during which others do not commit. The commit is a steady
    /// point.
    ///
    /// # Errors
    /// [`Error::NotKept`] if the state is older than what is kept, or nothing is kept;
    /// [`Error::PastMissing`] if what led to it was not kept; [`Error::StillToCome`]; those of
    /// [`Database::branch`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use std::time::Duration;
    /// use colibri_storage::{AsOf, Database, Options, Retention, TableKind};
    /// let hour = Retention::new(Duration::from_secs(3600));
    /// let db = Database::open(dir.path(), &Options::new().retention(hour))?;
    /// let mut txn = db.write()?;
    /// let birds = txn.create_table("birds", TableKind::Plain)?;
    /// txn.put(&birds, b"colibri", b"80 beats a second")?;
    /// let before = txn.commit()?;
    /// let mut txn = db.write()?;
    /// txn.drop_table(&birds)?;
    /// txn.commit()?;
    ///
    /// let rescued = db.branch_as_of("rescued", AsOf::Transaction(before))?;
    /// assert!(rescued.read()?.get(&birds, b"colibri")?.is_some());
    /// # Ok::<(), colibri_storage::Error>(())
    /// ```
    pub fn branch_as_of(&self, name: &str, as_of: AsOf) -> Result<Self> {
        let id = self.at(as_of, |txn, origin, found| txn.make_branch_as_of(name, origin, found))?;
        Ok(self.handle_of(id, name))
    }

    /// Gives a branch what this one was at a transaction or at a time, as [`Database::reset_branch`]
    /// does with what it is now.
    ///
    /// # Errors
    /// Those of [`Database::branch_as_of`]; [`Error::NoSuchBranch`].
    pub fn reset_branch_as_of(&self, name: &str, as_of: AsOf) -> Result<()> {
        let missing = || Error::NoSuchBranch { name: name.to_owned() };
        self.at(as_of, |txn, origin, found| {
            let id = txn.branch_or_main(name)?.ok_or_else(missing)?;
            txn.reset_branch_as_of(id, origin, found)
        })?;
        self.0.ask_for_reaping()
    }

    /// Runs a transaction on the main branch that starts from a state of this one's past.
    fn at<T>(&self, as_of: AsOf, change: impl FnOnce(&mut WriteTxn, BranchId, &Found) -> Result<T>) -> Result<T> {
        let core = &self.0.core;
        // All that was committed so far has to be in the file's past.
        let mut work = core.lock_writer(true)?;
        let kept = self.past().and_then(|past| past.since.map_or(Ok(()), |_| core.keep_point(&mut work, true)));
        core.unlock_writer(work);
        kept?;
        let mut txn = self.main().write()?;
        self.ensure_there(&txn)?;
        let origin = self.branch_id();
        let found = txn.past()?.find(origin, as_of, core.past.now())?;
        let changed = change(&mut txn, origin, &found)?;
        txn.commit()?;
        Ok(changed)
    }
}

impl Retention {
    /// States are kept for so long.
    #[must_use]
    pub fn new(age: Duration) -> Self {
        Self { age, bytes_max: None }
    }

    /// The bytes that the past may take, about. The oldest states go before their time if it takes
    /// more.
    #[must_use]
    pub fn bytes_max(mut self, bytes: u64) -> Self {
        self.bytes_max = Some(bytes);
        self
    }
}

#[cfg(test)]
mod tests;

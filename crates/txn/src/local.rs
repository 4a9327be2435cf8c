//! The store on the storage engine of this process: what its transactions share.
//!
//! A space is a plain table that is named after its number. Several processes may have the database
//! open at the same time. What a transaction read is checked under the writer's lock that they
//! share, so all of their transactions are serializable together. Row locks belong to one process;
//! they only avoid conflicts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use colibri_storage::{Database, Snapshot, Table, TxnId, VALUE_BYTES_MAX};
use parking_lot::RwLock;

use crate::commit::Commit;
use crate::error::Result;
use crate::fetching::Fetcher;
use crate::locks::{LockInfo, LockTable, SessionLocks};
use crate::long_work::LongWork;
use crate::prepared::{self, PreparedSet};
use crate::queue::CommitQueue;
use crate::recent::RecentWrites;
use crate::store::{Begin, Capabilities, Counters, PreparedInfo, SpaceId, SpaceSize, Store, Transaction};
use crate::transaction::LocalTransaction;

/// A store on a database of this machine. Clones are the same store.
#[derive(Clone)]
pub struct LocalStore(Arc<Shared>);

/// What the transactions of a store share.
pub(crate) struct Shared {
    pub(crate) database: Database,
    /// Handles of tables that were used. They are valid for every state of the database. A
    /// transaction keeps those that it uses.
    tables: RwLock<HashMap<SpaceId, Table>>,
    pub(crate) locks: Arc<LockTable>,
    pub(crate) recent: RecentWrites,
    pub(crate) queue: CommitQueue,
    pub(crate) prepared: PreparedSet,
    pub(crate) counts: Counts,
    pub(crate) capabilities: Capabilities,
    pub(crate) long_work: Arc<LongWork>,
    pub(crate) fetcher: Fetcher,
}

/// Counters.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) commits: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) restarts: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl LocalStore {
    /// A store on an open database. There should be one per database: sessions of two stores do not
    /// see each other's row locks, and have conflicts instead.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self::with_write_bytes_max(database, None)
    }

    /// As [`LocalStore::new`]; a transaction whose writes take more memory than this, in bytes, is
    /// refused.
    #[must_use]
    pub fn with_write_bytes_max(database: Database, write_bytes_max: Option<usize>) -> Self {
        let capabilities = Capabilities {
            key_bytes_max: database.key_bytes_max(),
            value_bytes_max: VALUE_BYTES_MAX as usize,
            txn_bytes_max: write_bytes_max,
            txn_age_max: None,
            locks: true,
            patches_at_commit: true,
            counts: true,
            fetches: false,
        };
        Self(Arc::new(Shared {
            database,
            tables: RwLock::default(),
            locks: Arc::new(LockTable::new()),
            recent: RecentWrites::default(),
            queue: CommitQueue::default(),
            prepared: PreparedSet::default(),
            counts: Counts::default(),
            capabilities,
            long_work: Arc::default(),
            fetcher: Fetcher::default(),
        }))
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.0.database
    }

    /// As [`Store::begin`].
    ///
    /// # Errors
    /// Those of the storage.
    pub fn begin(&self, how: Begin) -> Result<LocalTransaction> {
        self.begin_after(how, TxnId(0))
    }

    /// As [`Store::begin_after`].
    ///
    /// # Errors
    /// Those of the storage.
    pub fn begin_after(&self, how: Begin, seen: TxnId) -> Result<LocalTransaction> {
        LocalTransaction::begin(&self.0, how, seen)
    }
}

impl Store for LocalStore {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities
    }

    fn begin_after(&self, how: Begin, seen: TxnId) -> Result<Box<dyn Transaction>> {
        Ok(Box::new(LocalTransaction::begin(&self.0, how, seen)?))
    }

    fn newest_txn(&self) -> TxnId {
        self.0.database.newest_txn()
    }

    fn counters(&self) -> Counters {
        let Shared { counts, locks, .. } = &*self.0;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            commits: read(&counts.commits),
            batches: read(&counts.batches),
            conflicts: read(&counts.conflicts),
            lock_waits: read(&locks.waits_count),
            deadlocks: read(&locks.deadlocks_count),
            restarts: read(&counts.restarts),
        }
    }

    fn space_size(&self, space: SpaceId) -> Result<Option<SpaceSize>> {
        let snapshot = self.0.database.read()?;
        let stat = match snapshot.table(&table_name(space)) {
            Ok(table) => snapshot.view(&table)?.stat(),
            Err(colibri_storage::Error::NoSuchTable { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let pages = stat.leaf_pages + stat.branch_pages + stat.overflow_pages;
        let bytes = pages * u64::from(self.0.database.page_size());
        Ok(Some(SpaceSize { entries: stat.entries, bytes }))
    }

    fn session_locks(&self) -> SessionLocks {
        SessionLocks::new(&self.0.locks)
    }

    fn locks(&self) -> Vec<LockInfo> {
        self.0.locks.list()
    }

    fn set_prepared_max(&self, max: usize) {
        self.0.prepared.set_max(max);
        self.0.locks.keeps_keys.store(max > 0, Ordering::Relaxed);
    }

    fn load_prepared(&self) -> Result<()> {
        self.0.prepared.load(&self.0)
    }

    fn prepared(&self) -> Result<Vec<PreparedInfo>> {
        prepared::list(&self.0.database.read_newest_owned()?)
    }

    fn finish_prepared(&self, name: &str, commits: bool) -> Result<Commit> {
        LocalTransaction::finish_prepared(&self.0, name, commits)
    }

    fn set_long_work_hook(&self, hook: Box<dyn Fn() + Send + Sync>) {
        self.0.long_work.set(hook);
    }
}

impl std::fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalStore").field("database", &self.0.database).finish()
    }
}

/// The table that holds a space.
pub(crate) fn table_name(space: SpaceId) -> String {
    format!("s{}", space.0)
}

impl Shared {
    /// A handle of a space's table, found with `find` if nobody has used it yet.
    pub(crate) fn table(
        &self,
        space: SpaceId,
        find: impl FnOnce(&str) -> colibri_storage::Result<Table>,
    ) -> colibri_storage::Result<Table> {
        if let Some(table) = self.tables.read().get(&space) {
            return Ok(table.clone());
        }
        let table = find(&table_name(space))?;
        Ok(self.tables.write().entry(space).or_insert(table).clone())
    }

    /// Whether a row is known to be the same in two states without comparing them.
    pub(crate) fn is_unchanged(&self, space: SpaceId, key: &[u8], seen: TxnId, now: TxnId) -> bool {
        self.recent.is_unchanged(self.locks.name(space, key), seen, now)
    }

    /// Forgets the table of a space that was removed.
    pub(crate) fn forget(&self, space: SpaceId) {
        self.tables.write().remove(&space);
    }

    /// As [`snapshot`], with a new handle of the database.
    pub(crate) fn snapshot(&self, newest: bool, seen: TxnId) -> Result<(Snapshot<'static>, bool)> {
        snapshot(self.database.clone(), newest, seen)
    }
}

/// The newest durable state, or, if asked for or if the durable one is older than `seen`, the
/// newest of all; and whether it is the latter. The snapshot owns the handle.
pub(crate) fn snapshot(database: Database, newest: bool, seen: TxnId) -> Result<(Snapshot<'static>, bool)> {
    if newest {
        return Ok((database.into_read_newest()?, true));
    }
    let durable = database.into_read()?;
    if durable.txn() >= seen {
        return Ok((durable, false));
    }
    Ok((durable.into_database().into_read_newest()?, true))
}

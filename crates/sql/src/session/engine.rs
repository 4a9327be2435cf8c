//! What all sessions of a database share: the store, the newest catalogue, sequences and row
//! numbers.
//!
//! Sequences and row numbers are counters in memory. A sequence's state on disk is ahead of the
//! counter by a block of values, written by a transaction of its own without a wait: a transaction
//! that uses a value follows it in the log, so if that is durable, the block is, too. After a crash
//! the rest of a block is skipped.
//!
//! On a standby nothing of that is kept in memory: its commits come from elsewhere.
//!
//! Sequences that a transaction creates, changes or restarts are private until it commits: see
//! [`sequences`](super::sequences).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use colibri_catalog::cluster::DatabaseLocale;
use colibri_catalog::{
    Catalog, ObjectId, Sequence, Table, catalog_space, record, sequence_state_key,
    store_error::{InSql as _, fetched_now},
};
use colibri_storage::{Admission, Database};
use colibri_txn::{Begin, ColumnSet, Direction, FIRST_TEMPORARY, LocalStore, SpaceId, SpaceSize, Store, Transaction};
use colibri_types::{Datum, Env, Error, Result, SqlState};
use compact_str::CompactString;
use parking_lot::{Mutex, RwLock};

use crate::exec::{EngineMemory, MemoryTotal, TempFileCounts, check_table};
use crate::planner::{Rewrites, Sizes as _};
use crate::session::activity::Activity;
use crate::session::notifications::Hub;
use crate::session::recipes::Recipes;
use crate::session::sealed_scratch::SealedScratch;
use crate::session::sizes::TxnSizes;
use crate::session::temporary::TemporaryStore;
use crate::system::kept::KeptTables;

/// Values of a sequence that one write sets aside.
const SEQUENCE_BLOCK: i64 = 32;

/// A database that sessions work on.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    /// The same, if it is the one on this machine.
    local: Option<LocalStore>,
    /// The newest catalogue that a session has met.
    catalog: RwLock<Arc<Catalog>>,
    /// Its version: every statement of a block asks for it.
    catalog_version: AtomicU64,
    sequences: Mutex<HashMap<ObjectId, Counter>>,
    /// For each space, the last row number given.
    row_numbers: Mutex<HashMap<u32, i64>>,
    next_session: AtomicI32,
    /// Where temporary objects of sessions are, if there are any.
    temporary: Mutex<Option<Arc<TemporaryStore>>>,
    /// Where temporary files are made.
    temp_dir: PathBuf,
    name: String,
    activity: Activity,
    recipes: Recipes,
    notifications: Arc<Hub>,
    /// How many transactions may be prepared at the same time.
    prepared_max: AtomicUsize,
    memory: Arc<EngineMemory>,
    /// Which rewrites plans are made with.
    rewrites: AtomicU8,
    /// An [`Access`].
    access: AtomicU8,
    kept_tables: KeptTables,
}

/// What sessions may do with a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    /// All that their roles may.
    Full = 0,
    /// Read: another machine leads the database, and its commits come from there.
    Standby = 1,
    /// Read: those that have to agree on commits have no room for more.
    NoRoom = 2,
}

/// Where a sequence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SequencePlace {
    /// The value that `nextval` gave last, or the one it will give if `called` is not set.
    pub(crate) value: i64,
    pub(crate) called: bool,
}

impl SequencePlace {
    /// As the catalogue's space holds it.
    pub(crate) fn to_bytes(self) -> [u8; 9] {
        let mut bytes = [0; 9];
        bytes[..8].copy_from_slice(&self.value.to_le_bytes());
        bytes[8] = self.called.into();
        bytes
    }
}

/// A sequence's counter.
#[derive(Debug, Clone, Copy)]
struct Counter {
    /// The value that `nextval` gave last, or the one it will give if `called` is not set.
    value: i64,
    called: bool,
    /// Values that the state on disk is ahead.
    left: i64,
    /// From one to the next of these.
    increment: i64,
}

impl Engine {
    /// Makes a database ready for sessions; a new one gets an empty catalogue.
    ///
    /// # Errors
    /// Those of the storage; a damaged catalogue.
    pub fn open(database: Database) -> Result<Arc<Self>> {
        Self::open_within(database, MemoryTotal::default())
    }

    /// The same, for one of several databases that keep no more in memory together than so much.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_within(database: Database, total: MemoryTotal) -> Result<Arc<Self>> {
        Self::open_with_locale(database, total, None)
    }

    /// The same; a new database has the collation of a locale, if one is named, as its own.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_with_locale(
        database: Database,
        total: MemoryTotal,
        locale: Option<CompactString>,
    ) -> Result<Arc<Self>> {
        let name = database.path().file_name().map_or("colibri".to_owned(), |name| name.to_string_lossy().into_owned());
        Self::open_named(database, name, total, locale)
    }

    /// The same for a database with another name than that of its directory, as a branch has.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_named(
        database: Database,
        name: String,
        total: MemoryTotal,
        locale: Option<CompactString>,
    ) -> Result<Arc<Self>> {
        let directory = database.path().to_owned();
        let memory = Arc::new(memory_of(&database, total)?);
        let local = LocalStore::new(database);
        let around = (memory, directory, locale);
        Self::open_on(Arc::new(local.clone()), Some(local), name, around, Access::Full)?
            .ok_or_else(|| Error::internal("a new database has no catalogue"))
    }

    /// The database's locale; `None` is `C`.
    pub(crate) fn database_locale(&self) -> Option<DatabaseLocale> {
        let order = CompactString::from(self.catalog.read().locale()?);
        Some(DatabaseLocale { order: Some(order), collate: "C".into(), ctype: "C".into(), is_icu: true })
    }

    /// The same for a database of which other machines have copies, by its name. `None` for a
    /// standby that has not got the first commit of the database yet, which is the catalogue.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_replica(
        database: Database,
        name: &str,
        total: MemoryTotal,
        access: Access,
    ) -> Result<Option<Arc<Self>>> {
        let directory = database.path().to_owned();
        let memory = Arc::new(memory_of(&database, total)?);
        let local = LocalStore::new(database);
        Self::open_on(Arc::new(local.clone()), Some(local), name.to_owned(), (memory, directory, None), access)
    }

    /// The same, on another store than the one on this machine. Temporary files go to `temp_dir`.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_store(store: Arc<dyn Store>, name: &str, temp_dir: &Path) -> Result<Arc<Self>> {
        let memory = Arc::new(EngineMemory::new(temp_dir, MemoryTotal::default()));
        Self::open_on(store, None, name.to_owned(), (memory, temp_dir.to_owned(), None), Access::Full)?
            .ok_or_else(|| Error::internal("a new database has no catalogue"))
    }

    fn open_on(
        store: Arc<dyn Store>,
        local: Option<LocalStore>,
        name: String,
        (memory, temp_dir, locale): (Arc<EngineMemory>, PathBuf, Option<CompactString>),
        access: Access,
    ) -> Result<Option<Arc<Self>>> {
        if access != Access::Standby {
            store.load_prepared().in_sql()?;
        }
        let mut txn = store.begin(Begin { newest: true, ..Begin::default() }).in_sql()?;
        let catalog = if fetched_now(|| Catalog::exists(&mut *txn))? {
            fetched_now(|| Catalog::load(&mut *txn))?
        } else if access == Access::Standby {
            return Ok(None);
        } else {
            drop(txn);
            let mut txn = store.begin(Begin { newest: true, ..Begin::default() }).in_sql()?;
            let catalog = fetched_now(|| Catalog::create(&mut *txn, locale.clone()))?;
            txn.commit().in_sql()?.wait().in_sql()?;
            catalog
        };
        Ok(Some(Arc::new(Self {
            store,
            local,
            catalog_version: AtomicU64::new(catalog.version),
            catalog: RwLock::new(Arc::new(catalog)),
            sequences: Mutex::default(),
            row_numbers: Mutex::default(),
            next_session: AtomicI32::new(1),
            temporary: Mutex::default(),
            temp_dir,
            name,
            activity: Activity::default(),
            recipes: Recipes::default(),
            notifications: Arc::default(),
            prepared_max: AtomicUsize::new(0),
            memory,
            rewrites: AtomicU8::new(Rewrites::Paying as u8),
            access: AtomicU8::new(access as u8),
            kept_tables: KeptTables::default(),
        })))
    }

    /// Sets what sessions may do from now on. A standby may become one that is written to. For the
    /// other way there is [`Engine::retire`]: without it, sessions and this engine have to end, since
    /// it knows where sequences stand.
    pub fn set_access(&self, access: Access) {
        self.access.store(access as u8, Ordering::Release);
    }

    /// Sets how many transactions may be prepared at the same time (PREPARE TRANSACTION); none
    /// unless it is called. To be called before the first session begins. Those that are prepared
    /// already can be ended whatever the number is.
    pub fn set_prepared_max(&self, max: usize) {
        self.prepared_max.store(max, Ordering::Relaxed);
        self.store.set_prepared_max(max);
    }

    /// How many transactions may be prepared at the same time.
    pub(crate) fn prepared_max(&self) -> usize {
        self.prepared_max.load(Ordering::Relaxed)
    }

    /// A prepared transaction has changed a sequence: where that stands is read again.
    pub(crate) fn look_again_at(&self, sequence: ObjectId) {
        self.sequences.lock().remove(&sequence);
    }

    /// The last row number that prepared transactions have given in a table.
    fn last_row_number_prepared(&self, table: &Table) -> Result<i64> {
        let mut last = 0;
        for prepared in self.store.prepared().in_sql()? {
            for (_, key, value) in prepared.last_puts.iter().filter(|(space, ..)| *space == table.space().id) {
                last = last.max(row_number(table, key, value)?);
            }
        }
        Ok(last)
    }

    /// What sessions may do.
    #[must_use]
    pub fn access(&self) -> Access {
        match self.access.load(Ordering::Acquire) {
            0 => Access::Full,
            1 => Access::Standby,
            _ => Access::NoRoom,
        }
    }

    /// Hands a database over to another machine that is to lead it: gives back what is left of
    /// blocks of sequences' values, and forgets where sequences and row numbers stand. From here on
    /// the engine is a standby's. No session may be in a transaction, or begin one, meanwhile.
    ///
    /// # Errors
    /// Those of the storage. Then nothing has changed, but for values that were given back.
    pub fn retire(&self) -> Result<()> {
        self.give_back_values()?;
        self.stand_down();
        Ok(())
    }

    /// This machine has lost the lead of the database, and commits nothing any more: what was
    /// committed stays to be read until the engine ends. What is left of blocks of sequences'
    /// values is lost with it.
    pub fn stand_down(&self) {
        // In this order: a standby's sessions look at the disk.
        self.set_access(Access::Standby);
        self.sequences.lock().clear();
        self.row_numbers.lock().clear();
        self.notifications.close();
    }

    fn give_back_values(&self) -> Result<()> {
        let counters: Vec<_> = {
            let counters = self.sequences.lock();
            counters.iter().filter(|(_, counter)| counter.left > 0).map(|(&id, &counter)| (id, counter)).collect()
        };
        for (id, counter) in counters {
            self.write_state(id, counter.value, counter.called)?;
            if let Some(counter) = self.sequences.lock().get_mut(&id) {
                counter.left = 0;
            }
        }
        Ok(())
    }

    /// Whether other machines agree on what is committed: the database is one of a cluster.
    pub(crate) fn is_agreed_on(&self) -> bool {
        self.local.as_ref().is_some_and(|local| local.database().proposer().is_some())
    }

    /// Whether another machine leads the database.
    #[must_use]
    pub fn is_standby(&self) -> bool {
        self.access() == Access::Standby
    }

    /// Calls `hook` before a commit or a rollback of thousands of changes, on the thread that
    /// carries it out. See [`Store::set_long_work_hook`].
    pub fn set_long_work_hook(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.store.set_long_work_hook(Box::new(hook));
    }

    /// The database's name, for clients that ask.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The store underneath.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The store underneath, if it is the one on this machine: for what only that has, above all
    /// the files.
    #[must_use]
    pub fn local_store(&self) -> Option<&LocalStore> {
        self.local.as_ref()
    }

    /// Walks all tables and their indexes, and says what does not fit together. Empty: all does.
    ///
    /// # Errors
    /// Those of the storage; a catalogue that cannot be read. Damaged rows are findings.
    pub fn check(&self) -> Result<Vec<String>> {
        let mut txn = self.store.begin(Begin { newest: true, read_only: true, ..Begin::default() }).in_sql()?;
        let catalog = fetched_now(|| Catalog::load(&mut *txn))?;
        let (mut findings, env) = (Vec::new(), Env::default());
        for table in catalog.tables() {
            let expressions = TxnSizes::alone(&*txn, &catalog, &env).expressions(table);
            findings.extend(fetched_now(|| check_table(&mut *txn, table, &expressions, &env))?);
        }
        Ok(findings)
    }

    /// The temporary files that statements made since the database was opened.
    #[must_use]
    pub fn temp_files(&self) -> TempFileCounts {
        self.memory.temp_file_counts()
    }

    /// Where temporary objects of sessions are, which is made for the first one.
    pub(crate) fn temporary_store(&self) -> Result<Arc<TemporaryStore>> {
        let mut temporary = self.temporary.lock();
        if let Some(store) = &*temporary {
            return Ok(Arc::clone(store));
        }
        let store = Arc::new(TemporaryStore::make(&self.temp_dir, self.local.as_ref().map(LocalStore::database))?);
        *temporary = Some(Arc::clone(&store));
        Ok(store)
    }

    /// A session that had temporary objects has ended. Without others, a large file is given back.
    pub(crate) fn let_go_of_temporary_store(&self, store: &Arc<TemporaryStore>) {
        let mut temporary = self.temporary.lock();
        // The engine's and the session's.
        let is_last = Arc::strong_count(store) <= 2;
        if is_last && temporary.as_ref().is_some_and(|known| Arc::ptr_eq(known, store)) && store.is_large() {
            *temporary = None;
        }
    }

    /// How much a space takes in a recent state; `None` if it is not there.
    pub(crate) fn space_size(&self, space: SpaceId) -> Result<Option<SpaceSize>> {
        if space.0 < FIRST_TEMPORARY {
            return self.store.space_size(space).in_sql();
        }
        let temporary = self.temporary.lock().clone();
        temporary.map_or(Ok(None), |temporary| temporary.space_size(space))
    }

    pub(crate) fn memory(&self) -> &Arc<EngineMemory> {
        &self.memory
    }

    /// Has queries planned as they were written (`false`), or with every rewrite that is allowed,
    /// whatever it costs (`true`), so that tests can compare what they give. To be called before
    /// the first statement.
    #[doc(hidden)]
    pub fn rewrite_queries(&self, all: bool) {
        let rewrites = if all { Rewrites::All } else { Rewrites::None };
        self.rewrites.store(rewrites as u8, Ordering::Relaxed);
    }

    /// Which rewrites plans are made with.
    pub(crate) fn rewrites(&self) -> Rewrites {
        let rewrites = self.rewrites.load(Ordering::Relaxed);
        [Rewrites::All, Rewrites::None].into_iter().find(|&one| one as u8 == rewrites).unwrap_or_default()
    }

    /// The rows of system tables that are kept.
    pub(crate) fn kept_tables(&self) -> &KeptTables {
        &self.kept_tables
    }

    /// What sessions know of statements and share.
    pub(crate) fn recipes(&self) -> &Recipes {
        &self.recipes
    }

    /// Sessions that listen, and what they are notified of.
    pub(super) fn notifications(&self) -> &Arc<Hub> {
        &self.notifications
    }

    /// What happened here.
    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// The session that a transaction belongs to.
    pub(crate) fn session_of(&self, owner: colibri_txn::OwnerId) -> Option<i32> {
        self.activity.session_of(owner)
    }

    /// Where a sequence stands for all sessions.
    pub(crate) fn place(&self, sequence: &Sequence) -> Result<SequencePlace> {
        if self.is_standby() {
            let (value, called) = self.state_on_disk(sequence)?;
            return Ok(SequencePlace { value, called });
        }
        let mut counters = self.sequences.lock();
        let counter = self.counter(&mut counters, sequence)?;
        Ok(SequencePlace { value: counter.value, called: counter.called })
    }

    /// Takes over where a transaction that has committed has left a sequence. The state on disk
    /// says so already.
    pub(crate) fn take_over(&self, sequence: &Sequence, place: SequencePlace) {
        let SequencePlace { value, called } = place;
        self.sequences.lock().insert(sequence.id, Counter { value, called, left: 0, increment: sequence.increment });
    }

    /// A sequence's value, and whether it has given it.
    pub(crate) fn sequence_state(&self, sequence: &Sequence) -> Result<(i64, bool)> {
        if self.is_standby() {
            return self.state_on_disk(sequence);
        }
        let mut counters = self.sequences.lock();
        let counter = self.counter(&mut counters, sequence)?;
        Ok((counter.value, counter.called))
    }

    pub(crate) fn new_session_number(&self) -> i32 {
        self.next_session.fetch_add(1, Ordering::Relaxed)
    }

    /// The catalogue of a version, if it is the newest one known.
    pub(crate) fn catalog(&self, version: u64) -> Option<Arc<Catalog>> {
        let catalog = self.catalog.read();
        (catalog.version == version).then(|| Arc::clone(&catalog))
    }

    /// Keeps a committed catalogue if it is newer than the one known.
    pub(crate) fn keep_catalog(&self, catalog: &Arc<Catalog>) {
        let mut newest = self.catalog.write();
        if newest.version < catalog.version {
            *newest = Arc::clone(catalog);
            self.catalog_version.store(catalog.version, Ordering::Release);
        }
    }

    /// The version of the newest catalogue that was committed.
    pub(crate) fn catalog_version(&self) -> u64 {
        self.catalog_version.load(Ordering::Acquire)
    }

    fn read_state(&self, sequence: &Sequence) -> Result<Option<(i64, bool)>> {
        let mut txn = self.store.begin(Begin { newest: true, read_only: true, ..Begin::default() }).in_sql()?;
        let key = sequence_state_key(sequence.id);
        let state = fetched_now(|| Ok(txn.peek(&catalog_space(), &key).in_sql()?.map(<[u8]>::to_vec)))?;
        match state {
            None => Ok(None),
            Some(bytes) => match <[u8; 9]>::try_from(&bytes[..]) {
                Ok([value @ .., called]) => Ok(Some((i64::from_le_bytes(value), called != 0))),
                Err(_) => Err(Error::new(SqlState::DATA_CORRUPTED, "a sequence's state has a wrong length")),
            },
        }
    }

    /// The state on disk; that of a new sequence if there is none.
    fn state_on_disk(&self, sequence: &Sequence) -> Result<(i64, bool)> {
        Ok(self.read_state(sequence)?.unwrap_or((sequence.start, false)))
    }

    fn write_state(&self, id: ObjectId, value: i64, called: bool) -> Result<()> {
        let bytes = SequencePlace { value, called }.to_bytes();
        let mut txn = self.store.begin(Begin { newest: true, ..Begin::default() }).in_sql()?;
        txn.put(&catalog_space(), &sequence_state_key(id), &bytes).in_sql()?;
        // Without a wait: transactions that use the values follow this one in the log.
        drop(txn.commit().in_sql()?);
        Ok(())
    }

    fn counter<'c>(
        &self,
        counters: &'c mut HashMap<ObjectId, Counter>,
        sequence: &Sequence,
    ) -> Result<&'c mut Counter> {
        use std::collections::hash_map::Entry;
        Ok(match counters.entry(sequence.id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let (value, called) = self.state_on_disk(sequence)?;
                entry.insert(Counter { value, called, left: 0, increment: sequence.increment })
            }
        })
    }

    /// `nextval`
    pub(crate) fn next_value(&self, sequence: &Sequence) -> Result<i64> {
        let mut counters = self.sequences.lock();
        let counter = self.counter(&mut counters, sequence)?;
        let next = if counter.called { after(sequence, counter.value)? } else { counter.value };
        // Those that were set aside are counted in steps of the length that the sequence had then.
        let mut left = if counter.increment == sequence.increment { counter.left } else { 0 };
        if left == 0 {
            // As many values ahead as there are before the sequence's end.
            let mut ahead = next;
            for _ in 1..SEQUENCE_BLOCK {
                match ahead.checked_add(sequence.increment) {
                    Some(value) if (sequence.min..=sequence.max).contains(&value) => ahead = value,
                    _ => break,
                }
                left += 1;
            }
            self.write_state(sequence.id, ahead, true)?;
        } else {
            left -= 1;
        }
        *counter = Counter { value: next, called: true, left, increment: sequence.increment };
        Ok(next)
    }

    /// `setval`
    pub(crate) fn set_value(&self, sequence: &Sequence, value: i64, called: bool) -> Result<()> {
        let mut counters = self.sequences.lock();
        self.write_state(sequence.id, value, called)?;
        counters.insert(sequence.id, Counter { value, called, left: 0, increment: sequence.increment });
        Ok(())
    }

    /// A sequence goes back to where it stood, if it stands where it was left.
    pub(crate) fn put_back(&self, id: ObjectId, left: SequencePlace, before: SequencePlace) -> Result<()> {
        let mut counters = self.sequences.lock();
        let Some(counter) = counters.get_mut(&id) else { return Ok(()) };
        let stands = SequencePlace { value: counter.value, called: counter.called };
        if stands != left || left == before {
            return Ok(());
        }
        let SequencePlace { value, called } = before;
        self.write_state(id, value, called)?;
        *counter = Counter { value, called, left: 0, increment: counter.increment };
        Ok(())
    }

    /// A number for a new row of a table that has no primary key.
    pub(crate) fn next_row_number(&self, txn: &mut dyn Transaction, table: &Table) -> Result<i64> {
        let mut numbers = self.row_numbers.lock();
        if let Some(last) = numbers.get_mut(&table.space) {
            *last += 1;
            return Ok(*last);
        }
        // The first row since the database was opened gets the number after the last existing one.
        // A space that this transaction makes is not in the newest state yet; no other transaction
        // writes to it.
        let mut newest = self.store.begin(Begin { newest: true, read_only: true, ..Begin::default() }).in_sql()?;
        let last = match fetched_now(|| last_row_number(&mut *newest, table))? {
            Some(last) => last,
            None => last_row_number(txn, table)?.unwrap_or(0),
        };
        let last = last.max(self.last_row_number_prepared(table)?);
        numbers.insert(table.space, last + 1);
        Ok(last + 1)
    }
}

/// The last row number in a table without a primary key, 0 if it has no rows; `None` if the
/// transaction sees no such table.
pub(super) fn last_row_number(txn: &mut dyn Transaction, table: &Table) -> Result<Option<i64>> {
    let mut found = None;
    let all = record::whole_range();
    match txn.scan(&table.space(), &all, Direction::Backward, ColumnSet::NONE, 1, &mut |key, value| {
        found = Some((key.to_vec(), value.to_vec()));
        std::ops::ControlFlow::Break(())
    }) {
        Err(colibri_txn::Error::NoSuchSpace { .. }) => return Ok(None),
        scanned => scanned.in_sql()?,
    }
    let Some((key, value)) = found else { return Ok(Some(0)) };
    row_number(table, &key, &value).map(Some)
}

/// The row number in an entry of a table without a primary key.
fn row_number(table: &Table, key: &[u8], value: &[u8]) -> Result<i64> {
    let mut number = [Datum::Null];
    record::read_row(table, key, value, &[table.columns.len()], &mut number)?;
    Ok(match number {
        [Datum::Int(number)] => number.max(0),
        _ => 0,
    })
}

impl Drop for Engine {
    /// Gives back what is left of blocks of sequences' values. If that fails, the values are
    /// skipped, as after a crash.
    ///
    /// So are they where others agree on commits and too many are under way: the thread could be the
    /// one that is to agree.
    fn drop(&mut self) {
        let proposer = self.local.as_ref().and_then(|local| local.database().proposer());
        if proposer.is_some_and(|proposer| proposer.admission() != Admission::Yes) {
            return;
        }
        _ = self.give_back_values();
    }
}

/// What sessions keep together, with temporary files in the database's directory: sealed, if the
/// database is encrypted.
fn memory_of(database: &Database, total: MemoryTotal) -> Result<EngineMemory> {
    if !database.is_encrypted() {
        return Ok(EngineMemory::new(database.path(), total));
    }
    let scratch = SealedScratch::new(database.path()).map_err(colibri_txn::Error::from).in_sql()?;
    Ok(EngineMemory::with_scratch(Arc::new(scratch), total))
}

/// Refuses a value that `setval` may not set a sequence to.
pub(super) fn check_value(sequence: &Sequence, value: i64) -> Result<()> {
    if (sequence.min..=sequence.max).contains(&value) {
        return Ok(());
    }
    let message = format!(
        "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
        sequence.name, sequence.min, sequence.max
    );
    Err(Error::new(SqlState::OUT_OF_RANGE, message))
}

/// The value behind another.
pub(super) fn after(sequence: &Sequence, value: i64) -> Result<i64> {
    match value.checked_add(sequence.increment) {
        Some(next) if (sequence.min..=sequence.max).contains(&next) => Ok(next),
        _ if sequence.cycle => Ok(if sequence.increment > 0 { sequence.min } else { sequence.max }),
        _ => {
            let (end, bound) =
                if sequence.increment > 0 { ("maximum", sequence.max) } else { ("minimum", sequence.min) };
            let message = format!("nextval: reached {end} value of sequence \"{}\" ({bound})", sequence.name);
            Err(Error::new(SqlState("2200H"), message))
        }
    }
}

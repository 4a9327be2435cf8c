//! Temporary objects: tables, sequences and views of one session, which end with it.
//!
//! They are not in the database, but in a store beside it, which all sessions of this process
//! share: a [`TemporaryStore`], made for the first of them and gone with the process, whatever
//! ends it. A session that has made a temporary object has a [`Temporary`]. From then on its
//! transactions are [`WithTemporary`], and its catalogue is the database's with its own objects
//! added (`colibri_catalog::temporary`). So definitions, plans and operators treat temporary
//! objects as all others.
//!
//! Invariants:
//! 1. Nothing of a temporary object is in the database, its log or its catalogue, and no other
//!    session sees it or waits for it.
//! 2. A catalogue with temporary objects never leaves its session.
//! 3. Positions of temporary sequences, and the last row numbers of temporary tables, are kept by
//!    the session. The engine knows those of all others.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use colibri_catalog::store_error::InSql as _;
use colibri_catalog::temporary::{PG_TEMP, PG_TEMP_PREFIX, is_temporary, is_temporary_entry, temporary_spaces};
use colibri_catalog::{CATALOG_SPACE, Catalog, ObjectId, Sequence, Table};
use colibri_storage::{Database, Durability, EncryptionKey, FreeSpace, Options};
use colibri_txn::{
    Begin, FIRST_TEMPORARY, LocalStore, SpaceId, SpaceSize, Store as _, TemporarySpaces, Transaction, WithTemporary,
};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;
use parking_lot::Mutex;

use super::Session;
use super::engine::{Engine, SequencePlace, after, last_row_number};
use super::own::Own;
use crate::surroundings::SearchPath;

/// A store beside the database that no session uses is closed when its file is larger than this, in
/// bytes. A smaller one is kept for the next session.
const BYTES_KEPT_MAX: u64 = 16 << 20;

/// The number of the next directory of this process.
static DIRECTORIES: AtomicU64 = AtomicU64::new(0);

/// Where the temporary objects of a database's sessions are.
#[derive(Debug)]
pub(crate) struct TemporaryStore {
    store: LocalStore,
    /// The next number of an object or a space.
    next: AtomicU32,
}

impl TemporaryStore {
    /// Makes one beside a database, with pages of the same size, and encrypted if that is. Its files
    /// have no names any more when this returns, so nothing is left of them when the process ends.
    pub(crate) fn make(directory: &Path, beside: Option<&Database>) -> Result<Self> {
        let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("temporary-{}-{number}", std::process::id()));
        // It lasts no longer than the process, so nothing is made durable.
        let mut options = Options::new().durability(Durability::NoSync).free_space(FreeSpace::Lowest);
        if let Some(database) = beside {
            options = options.page_size(database.page_size());
            if database.is_encrypted() {
                // A key that is in the memory of this process only.
                let key = EncryptionKey::random().map_err(colibri_txn::Error::from).in_sql()?;
                options = options.encryption_key(key);
            }
        }
        let opened = Database::open(&path, &options.readers_max(1 << 16).temporary(true));
        let database = opened.map_err(colibri_txn::Error::from).in_sql()?;
        Ok(Self { store: LocalStore::new(database), next: AtomicU32::new(FIRST_TEMPORARY) })
    }

    /// New numbers, as many as asked for: the first of them.
    pub(crate) fn new_ids(&self, count: u32) -> Result<u32> {
        let next = |first: u32| first.checked_add(count);
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .map_err(|_| Error::new(SqlState::PROGRAM_LIMIT, "all numbers of temporary objects have been used"))
    }

    /// How much a space takes; `None` if it is not there.
    pub(crate) fn space_size(&self, space: SpaceId) -> Result<Option<SpaceSize>> {
        self.store.space_size(space).in_sql()
    }

    /// Whether its file is so large that it is not worth keeping.
    pub(crate) fn is_large(&self) -> bool {
        self.store.database().stat().is_ok_and(|stat| stat.file_bytes > BYTES_KEPT_MAX)
    }
}

/// Where a session's temporary sequences stand, which functions that list sequences ask for.
pub(crate) type TemporaryPlaces = Arc<Mutex<HashMap<ObjectId, SequencePlace>>>;

/// What a session with temporary objects has.
pub(crate) struct Temporary {
    engine: Arc<Engine>,
    store: Arc<TemporaryStore>,
    spaces: TemporarySpaces,
    /// Its schema.
    schema: ObjectId,
    schema_name: CompactString,
    /// Where its sequences stand.
    places: TemporaryPlaces,
    /// For each space of a table without a primary key, the last row number given.
    row_numbers: HashMap<u32, i64>,
}

impl Temporary {
    fn new(engine: &Arc<Engine>, session: i32) -> Result<Self> {
        let store = engine.temporary_store()?;
        let first = store.new_ids(2)?;
        let spaces = TemporarySpaces {
            store: store.store.clone(),
            split: CATALOG_SPACE,
            is_temporary: is_temporary_entry,
            beside: SpaceId(first),
        };
        // In a transaction of its own: the session keeps it, whatever becomes of the one at hand.
        let mut txn = spaces.begin().in_sql()?;
        txn.create_space(spaces.beside).in_sql()?;
        drop(txn.commit().in_sql()?);
        let schema_name = compact_str::format_compact!("{PG_TEMP_PREFIX}{session}");
        let (places, row_numbers) = (TemporaryPlaces::default(), HashMap::new());
        Ok(Self { engine: Arc::clone(engine), store, spaces, schema: first + 1, schema_name, places, row_numbers })
    }

    /// The name of its schema.
    pub(super) fn schema_name(&self) -> &CompactString {
        &self.schema_name
    }

    /// A transaction of the database, which has the temporary objects as well from here on.
    pub(super) fn accompany(&self, txn: Box<dyn Transaction>) -> Box<dyn Transaction> {
        Box::new(WithTemporary::new(txn, self.spaces.clone()))
    }

    fn add_to(&self, catalog: &mut Catalog, txn: &mut dyn Transaction) -> Result<()> {
        catalog.add_temporary(txn, self.spaces.beside, self.schema, &self.schema_name)
    }

    /// A search path as names are looked up: temporary objects come first, unless it says where.
    pub(super) fn within(&self, path: &SearchPath) -> SearchPath {
        let own = &self.schema_name;
        if path.iter().any(|schema| schema == PG_TEMP) {
            return path.iter().map(|schema| if schema == PG_TEMP { own } else { schema }).cloned().collect();
        }
        std::iter::once(own).chain(path.iter().filter(|schema| *schema != own)).cloned().collect()
    }

    fn drop_spaces(&self) -> Result<()> {
        let mut txn = self.spaces.begin().in_sql()?;
        for space in temporary_spaces(&mut txn, self.spaces.beside)? {
            txn.drop_space(space).in_sql()?;
        }
        txn.drop_space(self.spaces.beside).in_sql()?;
        drop(txn.commit().in_sql()?);
        Ok(())
    }
}

impl Drop for Temporary {
    /// Gives back what the session's objects take. If that fails, they take it until the store is
    /// closed.
    fn drop(&mut self) {
        _ = self.drop_spaces();
        self.engine.let_go_of_temporary_store(&self.store);
    }
}

impl Own {
    /// What the session has if it has temporary objects.
    fn own_temporary(&mut self) -> Result<&mut Temporary> {
        self.temporary.as_deref_mut().ok_or_else(|| Error::internal("a session without temporary objects has one"))
    }

    /// `nextval` of a sequence whose position no transaction keeps to itself.
    pub(super) fn next_of_all(&mut self, sequence: &Sequence) -> Result<i64> {
        if !is_temporary(sequence.id) {
            return self.engine.next_value(sequence);
        }
        let place = self.place_of_all(sequence)?;
        let value = if place.called { after(sequence, place.value)? } else { place.value };
        self.set_of_all(sequence, value, true)?;
        Ok(value)
    }

    /// `setval` of such a sequence.
    pub(super) fn set_of_all(&mut self, sequence: &Sequence, value: i64, called: bool) -> Result<()> {
        if !is_temporary(sequence.id) {
            return self.engine.set_value(sequence, value, called);
        }
        self.own_temporary()?.places.lock().insert(sequence.id, SequencePlace { value, called });
        Ok(())
    }

    /// Where such a sequence stands.
    pub(super) fn place_of_all(&self, sequence: &Sequence) -> Result<SequencePlace> {
        if !is_temporary(sequence.id) {
            return self.engine.place(sequence);
        }
        let place = self.temporary.as_deref().and_then(|temporary| temporary.places.lock().get(&sequence.id).copied());
        Ok(place.unwrap_or(SequencePlace { value: sequence.start, called: false }))
    }

    /// A sequence's position goes over from a transaction that has committed.
    pub(super) fn take_over(&mut self, sequence: &Sequence, place: SequencePlace) {
        match (is_temporary(sequence.id), self.temporary.as_deref_mut()) {
            (false, _) => self.engine.take_over(sequence, place),
            (true, Some(temporary)) => _ = temporary.places.lock().insert(sequence.id, place),
            (true, None) => {}
        }
    }

    /// A sequence goes back to where it stood, if it stands where it was left.
    pub(super) fn put_back(&mut self, id: ObjectId, left: SequencePlace, before: SequencePlace) -> Result<()> {
        if !is_temporary(id) {
            return self.engine.put_back(id, left, before);
        }
        let mut places = match &self.temporary {
            Some(temporary) => temporary.places.lock(),
            None => return Ok(()),
        };
        if places.get(&id) == Some(&left) {
            places.insert(id, before);
        }
        Ok(())
    }

    /// A number for a new row of a table that has no primary key.
    pub(super) fn new_row_number(&mut self, txn: &mut dyn Transaction, table: &Table) -> Result<i64> {
        if !is_temporary(table.id) {
            return self.engine.next_row_number(txn, table);
        }
        let temporary = self.own_temporary()?;
        let number = match temporary.row_numbers.get(&table.space) {
            Some(last) => last + 1,
            None => last_row_number(txn, table)?.unwrap_or(0) + 1,
        };
        temporary.row_numbers.insert(table.space, number);
        Ok(number)
    }

    /// Positions of the session's temporary sequences, for functions that list them.
    pub(super) fn temporary_places(&self) -> TemporaryPlaces {
        self.temporary.as_deref().map(|temporary| Arc::clone(&temporary.places)).unwrap_or_default()
    }
}

impl Session {
    /// Adds the session's temporary objects to its catalogue, if that does not have them.
    pub(super) fn see_temporary(&mut self) -> Result<()> {
        let (Some(temporary), Some(txn)) = (self.own.temporary.as_deref(), self.txn.as_deref_mut()) else {
            return Ok(());
        };
        if self.own.catalog.temporary_schema().is_none() {
            self.env.surroundings = None;
            temporary.add_to(Arc::make_mut(&mut self.own.catalog), txn)?;
        }
        Ok(())
    }

    /// Makes sure that the session has a schema for temporary objects, and gives its name.
    pub(crate) fn temporary_schema(&mut self) -> Result<CompactString> {
        if self.own.temporary.is_none() {
            let temporary = Temporary::new(&self.own.engine, self.own.number)?;
            if let Some(txn) = self.txn.take() {
                self.txn = Some(temporary.accompany(txn));
            }
            self.own.temporary = Some(Box::new(temporary));
            self.see_temporary()?;
            self.settings_set();
            self.surround();
        }
        self.see_temporary()?;
        Ok(self.own_schema().unwrap_or_default())
    }

    /// The name of the session's schema of temporary objects, if it has one.
    pub(crate) fn own_schema(&self) -> Option<CompactString> {
        self.own.temporary.as_deref().map(|temporary| temporary.schema_name.clone())
    }

    /// New numbers for objects of a schema and their spaces, as many as asked for: the first of
    /// them.
    pub(crate) fn new_ids_in(&mut self, schema: &str, count: u32) -> Result<ObjectId> {
        if let Some(temporary) = self.own.temporary.as_deref()
            && temporary.schema_name == schema
        {
            return temporary.store.new_ids(count);
        }
        let (_, txn) = self.catalog_and_txn()?;
        Catalog::new_ids(txn, count)
    }

    /// DISCARD TEMP: drops all temporary objects, in the transaction at hand or in one of its own.
    pub(super) fn discard_temporary(&mut self) -> Result<()> {
        if self.own.temporary.is_none() {
            return Ok(());
        }
        let alone = self.state == super::TransactionState::Idle && self.txn.is_none();
        self.ensure_txn(Begin { newest: true, ..self.begin_of_block() }, self.env.statement_us)?;
        let dropped = self.drop_temporary_objects();
        if !alone {
            return dropped;
        }
        let ended = dropped.and_then(|()| self.commit_now().map(drop));
        if ended.is_err() {
            self.abort_txn();
        }
        self.block = super::block::Block::default();
        ended
    }
}

//! The key-value interface, modelled after that of the package lmdb.
//!
//! Reading is done on JavaScript's thread, since a key is found in less time than a thread is told
//! to look for it; what is not in memory it waits for (`prefetch` does not). Writing, and beginning
//! and ending a transaction that writes, are jobs.

use std::sync::Arc;

use colibri::sql::Result;
use colibri::{Cursor, Options, Snapshot, TableKind, View, WriteTxn};
use napi::Env;
use napi::bindgen_prelude::{Buffer, BufferSlice, Either};
use napi_derive::napi;
use parking_lot::Mutex;

use crate::database::{Held, Shelf, durability, place_of};
use crate::failure::{error_json, in_sql, interface_error};
use crate::hub::{Hub, Outcome};
use crate::rows::write_string;
use crate::workers::Lane;

static OPEN: Shelf<colibri::Database> = Shelf::new();

/// A database of a file, or of a branch of it, and what keeps the file open.
#[derive(Clone)]
struct Opened {
    database: colibri::Database,
    held: Arc<Held<colibri::Database>>,
}

type Handle = Arc<Mutex<Option<Opened>>>;

/// A key, or a value.
type Bytes = Either<String, Buffer>;

fn bytes_of(bytes: &Bytes) -> &[u8] {
    match bytes {
        Either::A(text) => text.as_bytes(),
        Either::B(bytes) => bytes,
    }
}

/// An error of a call that JavaScript's thread has made; `lib/kv.js` reads the report.
fn thrown<T>(result: Result<T>) -> napi::Result<T> {
    result.map_err(|error| napi::Error::from_reason(error_json(&error)))
}

fn opened(handle: &Handle) -> Result<Opened> {
    handle.lock().clone().ok_or_else(|| interface_error("the database is closed"))
}

/// A database of keys and values.
#[napi]
pub struct Environment {
    handle: Handle,
    lane: Arc<Lane>,
}

/// A table within it.
#[napi]
pub struct KeyTable {
    table: colibri::Table,
}

/// What a transaction of its own is to do.
#[napi]
pub struct Batch {
    changes: Vec<Change>,
}

enum Change {
    Put(colibri::Table, Vec<u8>, Vec<u8>),
    Insert(colibri::Table, Vec<u8>, Vec<u8>),
    Remove(colibri::Table, Vec<u8>, Option<Vec<u8>>),
    Clear(colibri::Table),
    Drop(colibri::Table),
}

impl Change {
    /// Gives whether it has changed something.
    fn apply(&self, txn: &mut WriteTxn) -> colibri::Result<bool> {
        match self {
            Self::Put(table, key, value) => txn.put(table, key, value).map(|()| true),
            Self::Insert(table, key, value) => insert(txn, table, key, value),
            Self::Remove(table, key, value) => remove(txn, table, key, value.as_deref()),
            Self::Clear(table) => txn.clear_table(table).map(|()| true),
            Self::Drop(table) => txn.drop_table(table).map(|()| true),
        }
    }
}

fn insert(txn: &mut WriteTxn, table: &colibri::Table, key: &[u8], value: &[u8]) -> colibri::Result<bool> {
    if table.kind() != TableKind::Multi {
        return txn.insert(table, key, value);
    }
    if txn.view(table)?.contains(key)? {
        return Ok(false);
    }
    txn.put(table, key, value).map(|()| true)
}

fn remove(txn: &mut WriteTxn, table: &colibri::Table, key: &[u8], value: Option<&[u8]>) -> colibri::Result<bool> {
    match value {
        Some(value) if table.kind() == TableKind::Multi => txn.delete_value(table, key, value),
        Some(value) => {
            let is_there = txn.get(table, key)? == Some(value);
            if is_there { txn.delete(table, key) } else { Ok(false) }
        }
        None => txn.delete(table, key),
    }
}

fn kind(is_multi: bool) -> TableKind {
    if is_multi { TableKind::Multi } else { TableKind::Plain }
}

#[napi]
impl KeyTable {
    /// A table by its name; `is_multi` where keys have many values.
    #[napi(constructor)]
    pub fn new(name: String, is_multi: bool) -> Self {
        Self { table: colibri::Table::named(&name, kind(is_multi)) }
    }
}

#[napi]
impl Batch {
    #[napi(constructor)]
    #[allow(clippy::new_without_default, reason = "only JavaScript makes them")]
    pub fn new() -> Self {
        Self { changes: Vec::new() }
    }

    #[napi]
    pub fn put(&mut self, table: &KeyTable, key: Bytes, value: Bytes) {
        self.changes.push(Change::Put(table.table.clone(), bytes_of(&key).to_vec(), bytes_of(&value).to_vec()));
    }

    /// Stores a value unless the key is there.
    #[napi]
    pub fn insert(&mut self, table: &KeyTable, key: Bytes, value: Bytes) {
        self.changes.push(Change::Insert(table.table.clone(), bytes_of(&key).to_vec(), bytes_of(&value).to_vec()));
    }

    #[napi]
    pub fn remove(&mut self, table: &KeyTable, key: Bytes, value: Option<Bytes>) {
        let value = value.map(|value| bytes_of(&value).to_vec());
        self.changes.push(Change::Remove(table.table.clone(), bytes_of(&key).to_vec(), value));
    }

    #[napi]
    pub fn clear(&mut self, table: &KeyTable) {
        self.changes.push(Change::Clear(table.table.clone()));
    }

    #[napi]
    pub fn drop(&mut self, table: &KeyTable) {
        self.changes.push(Change::Drop(table.table.clone()));
    }
}

#[napi]
impl Environment {
    #[napi(constructor)]
    #[allow(clippy::new_without_default, reason = "only JavaScript makes them")]
    pub fn new() -> Self {
        Self { handle: Handle::default(), lane: Arc::default() }
    }

    fn run(&self, hub: &Hub, id: u32, job: impl FnOnce(Opened) -> Result<Outcome> + Send + 'static) {
        let handle = Arc::clone(&self.handle);
        hub.run(&self.lane, id, move || job(opened(&handle)?));
    }

    #[napi]
    #[allow(clippy::too_many_arguments, reason = "the options of opening")]
    pub fn open(
        &self,
        hub: &Hub,
        id: u32,
        path: String,
        durability: String,
        create: bool,
        read_only: bool,
        size_max: Option<f64>,
    ) {
        let handle = Arc::clone(&self.handle);
        hub.run(&self.lane, id, move || {
            let mode = self::durability(&durability)?;
            let mut options = Options::new().durability(mode).create(create && !read_only).read_only(read_only);
            if let Some(bytes) = size_max {
                options = options.size_max(bytes as u64);
            }
            let place = place_of(&path)?;
            let held = OPEN.at(place.clone(), || in_sql(colibri::Database::open(&place, &options)))?;
            *handle.lock() = Some(Opened { database: held.get().clone(), held });
            Ok(Outcome::default())
        });
    }

    #[napi]
    pub fn close(&self, hub: &Hub, id: u32) {
        let handle = Arc::clone(&self.handle);
        hub.run(&self.lane, id, move || {
            let last = handle.lock().take();
            drop(last);
            Ok(Outcome::default())
        });
    }

    /// Makes a table if there is none; 42809 if there is one of the other kind.
    #[napi]
    pub fn open_table(&self, hub: &Hub, id: u32, name: String, is_multi: bool) {
        self.run(hub, id, move |Opened { database, .. }| {
            let found = database.read_owned().and_then(|snapshot| snapshot.table(&name));
            let table = match found {
                Err(colibri::Error::NoSuchTable { .. }) if !database.is_read_only() => {
                    let mut txn = in_sql(database.write())?;
                    let table = in_sql(txn.create_table(&name, kind(is_multi)))?;
                    in_sql(txn.commit())?;
                    table
                }
                found => in_sql(found)?,
            };
            if table.kind() != kind(is_multi) {
                return Err(interface_error(format!("\"{name}\" is {}", table.kind())));
            }
            Ok(Outcome::default())
        });
    }

    /// Makes changes, as one transaction; gives a byte for each: whether it has changed something.
    #[napi]
    pub fn write(&self, hub: &Hub, id: u32, batch: &mut Batch) {
        let changes = std::mem::take(&mut batch.changes);
        self.run(hub, id, move |Opened { database, .. }| {
            let mut txn = in_sql(database.write())?;
            let done: colibri::Result<Vec<u8>> =
                changes.iter().map(|change| change.apply(&mut txn).map(u8::from)).collect();
            let done = in_sql(done)?;
            in_sql(txn.commit())?;
            Ok(Outcome { text: String::new(), bytes: Some(done) })
        });
    }

    /// Makes a transaction ready that writes.
    #[napi]
    pub fn begin(&self, hub: &Hub, id: u32, transaction: &KeyTransaction) {
        let (handle, work) = (Arc::clone(&self.handle), Arc::clone(&transaction.work));
        hub.run(&transaction.lane, id, move || {
            let opened = opened(&handle)?;
            let txn = in_sql(opened.database.write())?;
            *work.lock() = Some(Work { inner: Inner::Write(Box::new(txn)), _held: opened.held });
            Ok(Outcome::default())
        });
    }

    /// What is committed now, for reading.
    #[napi]
    pub fn snapshot(&self) -> napi::Result<KeyTransaction> {
        let opened = thrown(opened(&self.handle))?;
        let snapshot = thrown(in_sql(opened.database.read_owned()))?;
        let work = Work { inner: Inner::Read(snapshot), _held: opened.held };
        Ok(KeyTransaction { work: Arc::new(Mutex::new(Some(work))), lane: Arc::default() })
    }

    /// Waits until all that is committed is on disk.
    #[napi]
    pub fn sync(&self, hub: &Hub, id: u32) {
        self.run(hub, id, |Opened { database, .. }| in_sql(database.sync()).map(|()| Outcome::default()));
    }

    /// Copies what is committed to a new database.
    #[napi]
    pub fn copy(&self, hub: &Hub, id: u32, path: String, compact: bool) {
        self.run(hub, id, move |Opened { database, .. }| {
            in_sql(database.copy_to(path, compact)).map(|_| Outcome::default())
        });
    }

    // ---- branches ----

    /// Opens a branch, or makes it of what is committed here; `target` is its database then.
    #[napi]
    pub fn branch(&self, hub: &Hub, id: u32, target: &Environment, name: String, make: bool) {
        let target = Arc::clone(&target.handle);
        self.run(hub, id, move |Opened { database, held }| {
            let branch = if make { database.branch(&name) } else { database.open_branch(&name) };
            *target.lock() = Some(Opened { database: in_sql(branch)?, held });
            Ok(Outcome::default())
        });
    }

    #[napi]
    pub fn drop_branch(&self, hub: &Hub, id: u32, name: String) {
        self.run(hub, id, move |Opened { database, .. }| {
            in_sql(database.drop_branch(&name)).map(|()| Outcome::default())
        });
    }

    /// The names of the branches, the main one's first.
    #[napi]
    pub fn branches(&self, hub: &Hub, id: u32) {
        self.run(hub, id, |Opened { database, .. }| {
            let mut out = String::from("[");
            for (place, branch) in in_sql(database.branches())?.iter().enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                write_string(&mut out, &branch.name);
            }
            out.push(']');
            Ok(Outcome::json(out))
        });
    }
}

/// A transaction, or a snapshot.
#[napi]
pub struct KeyTransaction {
    work: Arc<Mutex<Option<Work>>>,
    /// Its end is a job: a transaction that is dropped gives its place up.
    lane: Arc<Lane>,
}

struct Work {
    inner: Inner,
    /// Keeps the file open, and is dropped last.
    _held: Arc<Held<colibri::Database>>,
}

enum Inner {
    Read(Snapshot<'static>),
    Write(Box<WriteTxn>),
}

impl KeyTransaction {
    /// Runs a function on a table as the transaction sees it; `None` for a table that is not there.
    fn view<T>(&self, table: &KeyTable, run: impl FnOnce(View<'_>) -> colibri::Result<T>) -> napi::Result<Option<T>> {
        let work = self.work.lock();
        let work = thrown(work.as_ref().ok_or_else(ended))?;
        let view = match &work.inner {
            Inner::Read(snapshot) => snapshot.view(&table.table),
            Inner::Write(txn) => txn.view(&table.table),
        };
        thrown(match view {
            Err(colibri::Error::NoSuchTable { .. }) => Ok(None),
            view => in_sql(view.and_then(run).map(Some)),
        })
    }

    fn write<T>(&self, run: impl FnOnce(&mut WriteTxn) -> colibri::Result<T>) -> napi::Result<T> {
        let mut work = self.work.lock();
        thrown(match work.as_mut().map(|work| &mut work.inner) {
            None => Err(ended()),
            Some(Inner::Read(_)) => Err(interface_error("a snapshot only reads")),
            Some(Inner::Write(txn)) => in_sql(run(txn)),
        })
    }
}

fn ended() -> colibri::sql::Error {
    interface_error("the transaction has ended")
}

impl Drop for KeyTransaction {
    fn drop(&mut self) {
        if self.work.try_lock().is_some_and(|work| work.is_none()) {
            return;
        }
        let work = Arc::clone(&self.work);
        self.lane.push(Box::new(move |_| drop(work.lock().take())));
    }
}

/// Which entries are read.
#[napi(object)]
pub struct Span {
    /// The first key; with `reverse` the last one.
    pub start: Option<Either<String, Buffer>>,
    /// The key behind the last one; with `reverse` the one before the first.
    pub end: Option<Either<String, Buffer>>,
    pub reverse: bool,
    /// The entry after which to go on.
    pub after_key: Option<Buffer>,
    pub after_value: Option<Buffer>,
    /// How many entries at most, and about how many bytes.
    pub limit: u32,
    pub bytes_max: u32,
    /// Keys once, and without values.
    pub keys_only: bool,
}

impl Span {
    /// To the first entry that is wanted.
    fn begin(&self, cursor: &mut Cursor<'_>) -> colibri::Result<bool> {
        let after = (self.after_key.as_deref(), self.after_value.as_deref().unwrap_or_default());
        match (after, self.start.as_ref().map(bytes_of), self.reverse) {
            ((Some(key), value), _, false) => {
                if !self.keys_only && cursor.seek_value(key, value)? {
                    return if cursor.value()? == value { cursor.next() } else { Ok(true) };
                }
                // The key that follows.
                cursor.seek(&[key, &[0]].concat())
            }
            ((Some(key), value), _, true) => {
                if !self.keys_only && cursor.seek_value(key, value)? {
                    return cursor.prev();
                }
                if !self.keys_only && cursor.seek_exact(key)? {
                    // All that are left of the key are before that value.
                    return cursor.last_value();
                }
                cursor.seek_before(key)
            }
            (_, None, false) => cursor.first(),
            (_, None, true) => cursor.last(),
            (_, Some(start), false) => cursor.seek(start),
            (_, Some(start), true) => {
                if cursor.seek_exact(start)? {
                    return cursor.last_value();
                }
                cursor.seek_before(start)
            }
        }
    }

    fn step(&self, cursor: &mut Cursor<'_>) -> colibri::Result<bool> {
        match (self.reverse, self.keys_only) {
            (false, false) => cursor.next(),
            (false, true) => cursor.next_key(),
            (true, false) => cursor.prev(),
            (true, true) => cursor.prev_key(),
        }
    }

    fn is_within(&self, key: &[u8]) -> bool {
        match (self.end.as_ref().map(bytes_of), self.reverse) {
            (None, _) => true,
            (Some(end), false) => key < end,
            (Some(end), true) => key > end,
        }
    }
}

fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    // Neither keys nor values have 4 GiB.
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

#[napi]
impl KeyTransaction {
    /// One that `Environment.begin` makes ready.
    #[napi(constructor)]
    #[allow(clippy::new_without_default, reason = "only JavaScript makes them")]
    pub fn new() -> Self {
        Self { work: Arc::default(), lane: Arc::default() }
    }

    /// The value of a key; the first one, where a key has many.
    #[napi]
    pub fn get<'e>(&self, env: &'e Env, table: &KeyTable, key: Bytes) -> napi::Result<Option<BufferSlice<'e>>> {
        let found = self.view(table, |view| {
            let copy = |value: &[u8]| BufferSlice::copy_from(env, value);
            if view.table().kind() == TableKind::Multi {
                let mut cursor = view.cursor();
                return Ok(if cursor.seek_exact(bytes_of(&key))? { Some(copy(cursor.value()?)) } else { None });
            }
            Ok(view.get(bytes_of(&key))?.map(copy))
        })?;
        found.flatten().transpose()
    }

    /// The same as a string.
    #[napi]
    pub fn get_text(&self, table: &KeyTable, key: Bytes) -> napi::Result<Option<String>> {
        let found = self.view(table, |view| {
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            if view.table().kind() == TableKind::Multi {
                let mut cursor = view.cursor();
                return Ok(if cursor.seek_exact(bytes_of(&key))? { Some(text(cursor.value()?)) } else { None });
            }
            Ok(view.get(bytes_of(&key))?.map(text))
        })?;
        Ok(found.flatten())
    }

    /// Whether a key is there; with a value, whether it has that.
    #[napi]
    pub fn has(&self, table: &KeyTable, key: Bytes, value: Option<Bytes>) -> napi::Result<bool> {
        let found = self.view(table, |view| match &value {
            None => view.contains(bytes_of(&key)),
            Some(value) if view.table().kind() == TableKind::Multi => {
                view.contains_value(bytes_of(&key), bytes_of(value))
            }
            Some(value) => Ok(view.get(bytes_of(&key))? == Some(bytes_of(value))),
        })?;
        Ok(found.unwrap_or(false))
    }

    /// Entries: the length of each key and the key, the length of its value and the value. Lengths
    /// are of four bytes, little-endian.
    #[napi]
    pub fn range(&self, table: &KeyTable, span: Span) -> napi::Result<Buffer> {
        let entries = self.view(table, |view| read(&view, &span))?;
        Ok(entries.unwrap_or_default().into())
    }

    /// How many entries have keys from `low` on and below `high`.
    #[napi]
    pub fn count(&self, table: &KeyTable, low: Option<Bytes>, high: Option<Bytes>) -> napi::Result<f64> {
        use std::ops::Bound;
        let counted = self.view(table, |view| {
            let low = low.as_ref().map_or(Bound::Unbounded, |key| Bound::Included(bytes_of(key)));
            let high = high.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(bytes_of(key)));
            view.count((low, high))
        })?;
        Ok(counted.unwrap_or(0) as f64)
    }

    #[napi]
    pub fn put(&self, table: &KeyTable, key: Bytes, value: Bytes) -> napi::Result<()> {
        self.write(|txn| txn.put(&table.table, bytes_of(&key), bytes_of(&value)))
    }

    #[napi]
    pub fn insert(&self, table: &KeyTable, key: Bytes, value: Bytes) -> napi::Result<bool> {
        self.write(|txn| insert(txn, &table.table, bytes_of(&key), bytes_of(&value)))
    }

    #[napi]
    pub fn remove(&self, table: &KeyTable, key: Bytes, value: Option<Bytes>) -> napi::Result<bool> {
        self.write(|txn| remove(txn, &table.table, bytes_of(&key), value.as_ref().map(bytes_of)))
    }

    /// Deletes the entries from `low` on and below `high`; gives how many there were.
    #[napi]
    pub fn remove_range(&self, table: &KeyTable, low: Option<Bytes>, high: Option<Bytes>) -> napi::Result<f64> {
        use std::ops::Bound;
        let low = low.as_ref().map_or(Bound::Unbounded, |key| Bound::Included(bytes_of(key)));
        let high = high.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(bytes_of(key)));
        self.write(|txn| txn.delete_range(&table.table, (low, high))).map(|count| count as f64)
    }

    #[napi]
    pub fn clear(&self, table: &KeyTable) -> napi::Result<()> {
        self.write(|txn| txn.clear_table(&table.table))
    }

    /// The values of keys, as `range` gives entries, but for keys that are not there: those have no
    /// entry. They are read on another thread.
    #[napi]
    pub fn get_many(&self, hub: &Hub, id: u32, table: &KeyTable, keys: Vec<Bytes>) {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| bytes_of(key).to_vec()).collect();
        let (shared, table) = (Arc::clone(&self.work), table.table.clone());
        hub.run(&self.lane, id, move || {
            let work = shared.lock();
            let Some(Work { inner: Inner::Read(snapshot), .. }) = work.as_ref() else { return Err(ended()) };
            let mut out = Vec::new();
            match snapshot.view(&table) {
                Err(colibri::Error::NoSuchTable { .. }) => {}
                view => {
                    let view = in_sql(view)?;
                    let mut cursor = view.cursor();
                    for key in &keys {
                        if in_sql(cursor.seek_exact(key))? {
                            push(&mut out, key);
                            push(&mut out, in_sql(cursor.value())?);
                        }
                    }
                }
            }
            Ok(Outcome { text: String::new(), bytes: Some(out) })
        });
    }

    #[napi]
    pub fn commit(&self, hub: &Hub, id: u32) {
        let shared = Arc::clone(&self.work);
        hub.run(&self.lane, id, move || {
            // JavaScript's thread does not wait for the mutex while this commits.
            let work = shared.lock().take();
            match work {
                None => Err(ended()),
                Some(Work { inner: Inner::Read(_), .. }) => Ok(Outcome::default()),
                Some(Work { inner: Inner::Write(txn), _held }) => in_sql(txn.commit()).map(|_| Outcome::default()),
            }
        });
    }

    #[napi]
    pub fn abort(&self, hub: &Hub, id: u32) {
        let shared = Arc::clone(&self.work);
        hub.run(&self.lane, id, move || {
            let work = shared.lock().take();
            drop(work);
            Ok(Outcome::default())
        });
    }

    /// Ends a snapshot.
    #[napi]
    pub fn release(&self) {
        // A job may be reading: that one ends it then.
        if let Some(mut work) = self.work.try_lock() {
            drop(work.take());
        }
    }
}

fn read(view: &View<'_>, span: &Span) -> colibri::Result<Vec<u8>> {
    let (mut out, mut count) = (Vec::new(), 0);
    let mut cursor = view.cursor();
    let mut stands = span.begin(&mut cursor)?;
    while stands && count < span.limit && out.len() < span.bytes_max as usize && span.is_within(cursor.key()) {
        push(&mut out, cursor.key());
        if !span.keys_only {
            push(&mut out, cursor.value()?);
        }
        count += 1;
        stands = span.step(&mut cursor)?;
    }
    Ok(out)
}

//! The key-value interface, modelled after py-lmdb's.
//!
//! A cursor is a place, not a path: it keeps its entry, and a few entries behind it in a
//! transaction that only reads. So it sees what its transaction writes, and nothing borrows from
//! anything.

use std::collections::VecDeque;
use std::ops;
use std::sync::Arc;

use colibri::{Options, Snapshot, TableKind, View, WriteTxn};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::connection::{OfProcess, durability};
use crate::failure::{OrRaise, exception, interface_error};

/// Entries that a cursor that only reads takes ahead.
const AHEAD: usize = 128;

type Entry = (Vec<u8>, Vec<u8>);

/// A database of keys and values.
#[pyclass(frozen, weakref, module = "colibri._colibri")]
pub(crate) struct Environment {
    database: Mutex<OfProcess<colibri::Database>>,
}

/// A table within it.
#[pyclass(frozen, module = "colibri._colibri")]
pub(crate) struct Table {
    table: colibri::Table,
}

/// A transaction.
#[pyclass(frozen, module = "colibri._colibri")]
pub(crate) struct Transaction {
    work: Arc<Mutex<Work>>,
    table: colibri::Table,
}

enum Work {
    Read(OfProcess<Snapshot<'static>>),
    Write(Box<OfProcess<WriteTxn>>),
}

impl Work {
    /// Runs a function on a table as the transaction sees it; `None` for a table that is not there.
    fn view<T>(&mut self, table: &colibri::Table, run: impl FnOnce(View<'_>) -> colibri::Result<T>) -> Seen<T> {
        let view = match self {
            Self::Read(snapshot) => snapshot.get()?.view(table),
            Self::Write(txn) => txn.get()?.view(table),
        };
        match view {
            Err(colibri::Error::NoSuchTable { .. }) => Ok(None),
            view => view.and_then(run).map(Some).map_err(colibri::sql::engine::in_sql),
        }
    }

    fn writing(&mut self) -> colibri::sql::Result<&mut WriteTxn> {
        match self {
            Self::Read(_) => Err(interface_error("the transaction only reads: begin it with write=True")),
            Self::Write(txn) => txn.get(),
        }
    }
}

type Seen<T> = colibri::sql::Result<Option<T>>;

fn in_sql(error: colibri::Error) -> colibri::sql::Error {
    colibri::sql::engine::in_sql(error)
}

#[pymethods]
impl Environment {
    #[new]
    #[pyo3(signature = (path, readonly = false, durability = "sync", create = true, map_size = None))]
    fn open(
        py: Python<'_>,
        path: std::path::PathBuf,
        readonly: bool,
        durability: &str,
        create: bool,
        map_size: Option<u64>,
    ) -> PyResult<Self> {
        let mode = self::durability(durability).or_raise()?;
        let mut options = Options::new().durability(mode).create(create && !readonly).read_only(readonly);
        if let Some(bytes) = map_size {
            options = options.size_max(bytes);
        }
        let database = py.detach(|| colibri::Database::open(path, &options)).or_raise()?;
        Ok(Self { database: Mutex::new(OfProcess::new(database)) })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.database.lock().end().map_or(Ok(()), colibri::Database::close)).or_raise()
    }

    /// A table by name, made if there is none; without a name the main one.
    #[pyo3(signature = (key = None, dupsort = false))]
    fn open_db(&self, py: Python<'_>, key: Option<&[u8]>, dupsort: bool) -> PyResult<Table> {
        let name = match key {
            None => "main",
            Some(bytes) => {
                std::str::from_utf8(bytes).map_err(|_| exception(&interface_error("the name of a table is UTF-8")))?
            }
        };
        let kind = if dupsort { TableKind::Multi } else { TableKind::Plain };
        let opened = py.detach(|| {
            let database = self.database.lock().get()?.clone();
            match database.read_owned().and_then(|snapshot| snapshot.table(name)) {
                Ok(table) => return Ok(table),
                Err(colibri::Error::NoSuchTable { .. }) if !database.is_read_only() => {}
                Err(error) => return Err(in_sql(error)),
            }
            let mut txn = database.write().map_err(in_sql)?;
            let table = txn.create_table(name, kind).map_err(in_sql)?;
            txn.commit().map_err(in_sql)?;
            Ok(table)
        });
        Ok(Table { table: opened.or_raise()? })
    }

    /// Begins a transaction. `db` is the table that calls without one are about.
    #[pyo3(signature = (write = false, db = None))]
    fn begin(&self, py: Python<'_>, write: bool, db: Option<&Table>) -> PyResult<Transaction> {
        let table = db.map_or_else(|| colibri::Table::named("main", TableKind::Plain), |db| db.table.clone());
        let work = py.detach(|| -> colibri::sql::Result<Work> {
            let database = self.database.lock().get()?.clone();
            Ok(if write {
                let mut txn = database.write().map_err(in_sql)?;
                txn.create_table(table.name(), table.kind()).map_err(in_sql)?;
                Work::Write(Box::new(OfProcess::new(txn)))
            } else {
                Work::Read(OfProcess::new(database.read_owned().map_err(in_sql)?))
            })
        });
        Ok(Transaction { work: Arc::new(Mutex::new(work.or_raise()?)), table })
    }

    #[pyo3(signature = (force = true))]
    fn sync(&self, py: Python<'_>, force: bool) -> PyResult<()> {
        let _ = force;
        py.detach(|| {
            let database = self.database.lock().get()?.clone();
            database.sync().map_err(in_sql)
        })
        .or_raise()
    }

    #[pyo3(signature = (path, compact = false))]
    fn copy(&self, py: Python<'_>, path: std::path::PathBuf, compact: bool) -> PyResult<()> {
        py.detach(|| {
            let database = self.database.lock().get()?.clone();
            database.copy_to(path, compact).map(drop).map_err(in_sql)
        })
        .or_raise()
    }

    /// A branch: a database of its own in the same file. It is made of what is committed here, in
    /// about a commit's time, or with `create=False` opened.
    #[pyo3(signature = (name, create = true))]
    fn branch(&self, py: Python<'_>, name: &str, create: bool) -> PyResult<Self> {
        let branch = py.detach(|| {
            let database = self.database.lock().get()?.clone();
            if create { database.branch(name) } else { database.open_branch(name) }.map_err(in_sql)
        });
        Ok(Self { database: Mutex::new(OfProcess::new(branch.or_raise()?)) })
    }

    /// The names of all branches, the main one's first.
    fn branches(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| {
            let database = self.database.lock().get()?.clone();
            let branches = database.branches().map_err(in_sql)?;
            Ok::<_, colibri::sql::Error>(branches.into_iter().map(|branch| branch.name).collect())
        })
        .or_raise()
    }

    /// Drops a branch, whose pages are given back in the background.
    fn drop_branch(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| {
            let database = self.database.lock().get()?.clone();
            database.drop_branch(name).map_err(in_sql)
        })
        .or_raise()
    }

    /// Gives a branch what is committed here.
    fn reset_branch(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| {
            let database = self.database.lock().get()?.clone();
            database.reset_branch(name).map_err(in_sql)
        })
        .or_raise()
    }

    /// Ends the slots of processes that are gone; gives how many there were.
    fn reader_check(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| Ok::<_, colibri::sql::Error>(self.database.lock().get()?.release_dead_readers())).or_raise()
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

impl Transaction {
    fn table<'t>(&'t self, db: Option<&'t Table>) -> &'t colibri::Table {
        db.map_or(&self.table, |db| &db.table)
    }

    fn write<T: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&mut WriteTxn) -> colibri::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| run(self.work.lock().writing()?).map_err(in_sql)).or_raise()
    }
}

#[pymethods]
impl Transaction {
    /// The value of a key; the first one, where a key has many.
    #[pyo3(signature = (key, default = None, db = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        default: Option<Bound<'py, PyAny>>,
        db: Option<&Table>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let table = self.table(db);
        let mut work = self.work.lock();
        // A key is found in less time than the interpreter's lock is given back and taken.
        let found = work.view(table, |view| {
            if view.table().kind() == TableKind::Multi {
                let mut cursor = view.cursor();
                return Ok(if cursor.seek_exact(key)? { Some(PyBytes::new(py, cursor.value()?)) } else { None });
            }
            Ok(view.get(key)?.map(|value| PyBytes::new(py, value)))
        });
        drop(work);
        Ok(found.or_raise()?.flatten().map(Bound::into_any).or(default))
    }

    /// Stores a value; gives whether it did.
    #[pyo3(signature = (key, value, dupdata = true, overwrite = true, append = false, db = None))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of py-lmdb's function")]
    fn put(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: &[u8],
        dupdata: bool,
        overwrite: bool,
        append: bool,
        db: Option<&Table>,
    ) -> PyResult<bool> {
        let table = self.table(db).clone();
        self.write(py, |txn| {
            let is_multi = table.kind() == TableKind::Multi;
            if append {
                txn.append(&table, key, value)?;
            } else if is_multi
                && ((!dupdata && txn.view(&table)?.contains_value(key, value)?)
                    || (!overwrite && txn.view(&table)?.contains(key)?))
            {
                return Ok(false);
            } else if !overwrite && !is_multi {
                return txn.insert(&table, key, value);
            } else {
                txn.put(&table, key, value)?;
            }
            Ok(true)
        })
    }

    /// Deletes a key; where keys have many values, one of them if it is given. Gives whether it was
    /// there.
    #[pyo3(signature = (key, value = None, db = None))]
    fn delete(&self, py: Python<'_>, key: &[u8], value: Option<&[u8]>, db: Option<&Table>) -> PyResult<bool> {
        let table = self.table(db).clone();
        self.write(py, |txn| match value {
            Some(value) if table.kind() == TableKind::Multi && !value.is_empty() => {
                txn.delete_value(&table, key, value)
            }
            _ => txn.delete(&table, key),
        })
    }

    #[pyo3(signature = (key, db = None))]
    fn pop<'py>(&self, py: Python<'py>, key: &[u8], db: Option<&Table>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.get(py, key, None, db)?;
        self.delete(py, key, None, db)?;
        Ok(value)
    }

    /// Empties a table, or removes it.
    #[pyo3(signature = (db, delete = true))]
    fn drop(&self, py: Python<'_>, db: &Table, delete: bool) -> PyResult<()> {
        let table = db.table.clone();
        self.write(py, |txn| if delete { txn.drop_table(&table) } else { txn.clear_table(&table) })
    }

    /// How many entries a table has; with bounds, those from `low` on and below `high`.
    #[pyo3(signature = (low = None, high = None, db = None))]
    fn count(&self, py: Python<'_>, low: Option<&[u8]>, high: Option<&[u8]>, db: Option<&Table>) -> PyResult<u64> {
        let table = self.table(db).clone();
        let counted = py.detach(|| {
            let bounds = (
                low.map_or(ops::Bound::Unbounded, ops::Bound::Included),
                high.map_or(ops::Bound::Unbounded, ops::Bound::Excluded),
            );
            self.work.lock().view(&table, |view| view.count(bounds))
        });
        Ok(counted.or_raise()?.unwrap_or(0))
    }

    /// How many entries have keys below this one.
    #[pyo3(signature = (key, db = None))]
    fn rank(&self, py: Python<'_>, key: &[u8], db: Option<&Table>) -> PyResult<u64> {
        let table = self.table(db).clone();
        let ranked = py.detach(|| self.work.lock().view(&table, |view| view.rank(key)));
        Ok(ranked.or_raise()?.unwrap_or(0))
    }

    /// Deletes the entries from `low` on and below `high`; gives how many there were.
    #[pyo3(signature = (low = None, high = None, db = None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        db: Option<&Table>,
    ) -> PyResult<u64> {
        let table = self.table(db).clone();
        self.write(py, |txn| {
            let bounds = (
                low.map_or(ops::Bound::Unbounded, ops::Bound::Included),
                high.map_or(ops::Bound::Unbounded, ops::Bound::Excluded),
            );
            txn.delete_range(&table, bounds)
        })
    }

    #[pyo3(signature = (db = None))]
    fn cursor(&self, db: Option<&Table>) -> KeyCursor {
        KeyCursor { work: Arc::clone(&self.work), table: self.table(db).clone(), place: Mutex::default() }
    }

    /// Number of the transaction.
    fn id(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| -> colibri::sql::Result<u64> {
            Ok(match &mut *self.work.lock() {
                Work::Read(snapshot) => snapshot.get()?.txn().0,
                Work::Write(txn) => txn.get()?.txn().0,
            })
        })
        .or_raise()
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| match &mut *self.work.lock() {
            Work::Read(snapshot) => {
                drop(snapshot.end());
                Ok(())
            }
            Work::Write(txn) => {
                txn.get()?;
                txn.end().map_or(Ok(()), |txn| txn.commit().map(drop).map_err(in_sql))
            }
        })
        .or_raise()
    }

    fn abort(&self, py: Python<'_>) {
        py.detach(|| match &mut *self.work.lock() {
            Work::Read(snapshot) => drop(snapshot.end()),
            Work::Write(txn) => drop(txn.end()),
        });
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Commits, unless there was an exception.
    #[pyo3(signature = (kind, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if kind.is_none() {
            let is_open = match &mut *self.work.lock() {
                Work::Read(snapshot) => snapshot.get().is_ok(),
                Work::Write(txn) => txn.get().is_ok(),
            };
            return if is_open { self.commit(py) } else { Ok(()) };
        }
        self.abort(py);
        Ok(())
    }
}

/// A cursor.
#[pyclass(frozen, module = "colibri._colibri")]
pub(crate) struct KeyCursor {
    work: Arc<Mutex<Work>>,
    table: colibri::Table,
    place: Mutex<Place>,
}

#[derive(Default)]
struct Place {
    at: Option<Entry>,
    /// What follows, in a transaction that only reads.
    ahead: VecDeque<Entry>,
}

/// Where a cursor goes.
#[derive(Clone, Copy)]
enum Move<'k> {
    First,
    Last,
    Next,
    Prev,
    NextKey,
    Seek(&'k [u8]),
    SeekExact(&'k [u8]),
}

impl KeyCursor {
    fn go(&self, py: Python<'_>, to: Move<'_>) -> PyResult<bool> {
        let mut place = self.place.lock();
        if let (Move::Next, Some(next)) = (to, place.ahead.pop_front()) {
            place.at = Some(next);
            return Ok(true);
        }
        place.ahead.clear();
        let before = place.at.take();
        let gone = py.detach(|| {
            let mut work = self.work.lock();
            let takes_ahead = matches!((&*work, to), (Work::Read(_), Move::Next));
            work.view(&self.table, |view| {
                let mut cursor = view.cursor();
                let back_at = |cursor: &mut colibri::Cursor<'_>, entry: &Entry| match view.table().kind() {
                    TableKind::Multi => cursor.seek_value(&entry.0, &entry.1),
                    _ => cursor.seek(&entry.0),
                };
                let stands = match (to, &before) {
                    (Move::First, _) | (Move::Next | Move::NextKey, None) => cursor.first()?,
                    (Move::Last, _) | (Move::Prev, None) => cursor.last()?,
                    (Move::Seek(key), _) => cursor.seek(key)?,
                    (Move::SeekExact(key), _) => cursor.seek_exact(key)?,
                    (Move::Next, Some(entry)) => {
                        let stands = back_at(&mut cursor, entry)?
                            || view.table().kind() == TableKind::Multi
                                && cursor.seek(&[&entry.0[..], &[0]].concat())?;
                        // If its entry is gone, it stands on the next one already.
                        stands && (cursor.key() != entry.0 || cursor.value()? != entry.1 || cursor.next()?)
                    }
                    (Move::NextKey, Some(entry)) => cursor.seek(&[&entry.0[..], &[0]].concat())?,
                    (Move::Prev, Some(entry)) => {
                        if back_at(&mut cursor, entry)? {
                            cursor.prev()?
                        } else {
                            cursor.seek_before(&entry.0)?
                        }
                    }
                };
                let mut entries = VecDeque::new();
                let mut stands = stands;
                while stands && entries.len() < if takes_ahead { AHEAD } else { 1 } {
                    entries.push_back((cursor.key().to_vec(), cursor.value()?.to_vec()));
                    if entries.len() < AHEAD && takes_ahead {
                        stands = cursor.next()?;
                    }
                }
                Ok(entries)
            })
        });
        place.ahead = gone.or_raise()?.unwrap_or_default();
        place.at = place.ahead.pop_front();
        Ok(place.at.is_some())
    }

    fn entry<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let place = self.place.lock();
        let (key, value) = place.at.as_ref().map_or((&[][..], &[][..]), |(key, value)| (key, value));
        (PyBytes::new(py, key), PyBytes::new(py, value))
    }
}

#[pymethods]
impl KeyCursor {
    fn first(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, Move::First)
    }

    fn last(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, Move::Last)
    }

    fn next(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, Move::Next)
    }

    fn prev(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, Move::Prev)
    }

    fn next_nodup(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, Move::NextKey)
    }

    fn set_key(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        self.go(py, Move::SeekExact(key))
    }

    /// To the first entry whose key is not below this one.
    fn set_range(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        self.go(py, Move::Seek(key))
    }

    fn key<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.entry(py).0
    }

    fn value<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.entry(py).1
    }

    fn item<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        self.entry(py)
    }

    /// The entries from here on, or from the first: at most `at_most` of them.
    #[pyo3(signature = (at_most))]
    fn take<'py>(&self, py: Python<'py>, at_most: usize) -> PyResult<Bound<'py, PyList>> {
        let entries = PyList::empty(py);
        let mut stands = self.place.lock().at.is_some() || self.go(py, Move::First)?;
        while stands && entries.len() < at_most {
            entries.append(self.entry(py))?;
            stands = self.go(py, Move::Next)?;
        }
        Ok(entries)
    }

    fn close(&self) {
        *self.place.lock() = Place::default();
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// The next entry.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        Ok(self.go(py, Move::Next)?.then(|| self.entry(py)))
    }
}

//! Databases that the process has open for SQL.
//!
//! Within a process a directory is opened once, and each thread of `worker_threads` may open it: so
//! they share what one of them has opened, and it is closed when the last of its handles and
//! connections has ended.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Component, PathBuf};
use std::sync::{Arc, Weak};

use colibri::sql::{self, Error, Result, SqlState};
use colibri::{Durability, Options};
use napi_derive::napi;
use parking_lot::{Condvar, Mutex};

use crate::connection::Connection;
use crate::failure::{in_sql, interface_error};
use crate::hub::{Hub, Outcome};
use crate::workers::Lane;

/// What a name of a durability stands for.
pub(crate) fn durability(name: &str) -> Result<Durability> {
    match name {
        "sync" => Ok(Durability::Sync),
        "lazy" => Ok(Durability::LAZY),
        "nosync" => Ok(Durability::NoSync),
        _ => Err(interface_error(format!("durability is \"sync\", \"lazy\" or \"nosync\", not \"{name}\""))),
    }
}

/// A directory, by one of its names for all of them, whether it is there or not.
pub(crate) fn place_of(path: &str) -> Result<PathBuf> {
    let failed = |error| Error::new(SqlState::IO_ERROR, format!("{path}: {error}"));
    let mut place = PathBuf::new();
    for part in std::path::absolute(path).map_err(failed)?.components() {
        if part == Component::ParentDir {
            // What is there already has no links in it any more, so this is its parent.
            place.pop();
            continue;
        }
        place.push(part);
        if let Ok(known) = place.canonicalize() {
            place = known;
        }
    }
    Ok(place)
}

/// Things that are open, at most one for each directory.
pub(crate) struct Shelf<T: 'static>(Mutex<Option<HashMap<PathBuf, Arc<Slot<T>>>>>);

struct Slot<T> {
    state: Mutex<SlotState<T>>,
    closed: Condvar,
}

struct SlotState<T> {
    held: Weak<Held<T>>,
    /// It is open, or being closed by the thread that has dropped the last of its handles.
    is_open: bool,
}

/// Something that is open; dropping the last handle closes it.
pub(crate) struct Held<T> {
    inner: Option<T>,
    slot: Arc<Slot<T>>,
}

impl<T> Held<T> {
    pub(crate) fn get(&self) -> &T {
        self.inner.as_ref().expect("only dropping takes it")
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        drop(self.inner.take());
        self.slot.state.lock().is_open = false;
        self.slot.closed.notify_all();
    }
}

impl<T> Shelf<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// What is open at a place, or opens it.
    pub(crate) fn at(&self, place: PathBuf, open: impl FnOnce() -> Result<T>) -> Result<Arc<Held<T>>> {
        let slot = {
            let mut slots = self.0.lock();
            let slots = slots.get_or_insert_default();
            // Slots that nobody has, and of which nothing is open, are of no use any more.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
            let new =
                || Slot { state: Mutex::new(SlotState { held: Weak::new(), is_open: false }), closed: Condvar::new() };
            Arc::clone(slots.entry(place).or_insert_with(|| Arc::new(new())))
        };
        let mut state = slot.state.lock();
        loop {
            if let Some(held) = state.held.upgrade() {
                return Ok(held);
            }
            if !state.is_open {
                break;
            }
            slot.closed.wait(&mut state);
        }
        let held = Arc::new(Held { inner: Some(open()?), slot: Arc::clone(&slot) });
        *state = SlotState { held: Arc::downgrade(&held), is_open: true };
        Ok(held)
    }
}

static OPEN: Shelf<sql::Database> = Shelf::new();

/// What a handle of a database has, while it is open.
type Handle = Arc<Mutex<Option<Arc<Held<sql::Database>>>>>;

/// A directory that is open for SQL.
#[napi]
pub struct Database {
    handle: Handle,
    lane: Arc<Lane>,
}

fn held(handle: &Handle) -> Result<Arc<Held<sql::Database>>> {
    handle.lock().clone().ok_or_else(|| interface_error("the database is closed"))
}

#[napi]
impl Database {
    /// A handle of nothing yet.
    #[napi(constructor)]
    #[allow(clippy::new_without_default, reason = "only JavaScript makes them")]
    pub fn new() -> Self {
        Self { handle: Handle::default(), lane: Arc::default() }
    }

    /// Opens a directory.
    #[napi]
    pub fn open(&self, hub: &Hub, id: u32, path: String, durability: String, create: bool) {
        let handle = Arc::clone(&self.handle);
        hub.run(&self.lane, id, move || {
            let options = Options::new().durability(self::durability(&durability)?).create(create);
            let place = place_of(&path)?;
            let held = OPEN.at(place.clone(), || sql::Database::open_with(&place, &options))?;
            *handle.lock() = Some(held);
            Ok(Outcome::default())
        });
    }

    /// Makes a connection ready, as a session of a user. Gives its number.
    #[napi]
    pub fn connect(&self, hub: &Hub, id: u32, connection: &Connection, user: String) {
        let (handle, open) = (Arc::clone(&self.handle), connection.opener());
        hub.run(connection.lane(), id, move || {
            let held = held(&handle)?;
            let session = held.get().try_connect_as(&user)?;
            let number = session.number();
            open(session, held)?;
            Ok(Outcome::json(number.to_string()))
        });
    }

    /// Writes a full backup to a file.
    #[napi]
    pub fn backup(&self, hub: &Hub, id: u32, path: String) {
        let handle = Arc::clone(&self.handle);
        hub.run(&self.lane, id, move || {
            let storage = held(&handle)?.get().storage()?;
            let failed = |error: std::io::Error| Error::new(SqlState::IO_ERROR, format!("{path}: {error}"));
            let mut out = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(&path).map_err(failed)?);
            in_sql(storage.backup(None, &mut out))?;
            out.flush().map_err(failed)?;
            Ok(Outcome::default())
        });
    }

    /// Gives up the handle.
    #[napi]
    pub fn close(&self, hub: &Hub, id: u32) {
        let handle = Arc::clone(&self.handle);
        hub.run(&self.lane, id, move || {
            // Closing may flush.
            let last = handle.lock().take();
            drop(last);
            Ok(Outcome::default())
        });
    }
}

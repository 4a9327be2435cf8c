//! Snapshots: the database as of one committed transaction, for as long as it is held.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use smallvec::SmallVec;

use crate::catalog::{Description, Table, TableKind};
use crate::cold::Moment;
use crate::db::{Core, Database, Handle};
use crate::lock_file::{ReaderId, ReaderInfo, Shared};
use crate::meta::Meta;
use crate::page::{PageId, TxnId};
use crate::pager::Bounds;
use crate::root::{Root, Tree};
use crate::view::{self, View};
use crate::{Error, Result};

/// What a thread remembers of its last snapshot.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The reader slot it had. A hint: it may belong to another database.
    pub(crate) hint: u32,
    /// The thread's number in the operating system; 0 until it was asked for.
    pub(crate) thread: u32,
}

thread_local! {
    static PLACE: Cell<Place> = const { Cell::new(Place { hint: 0, thread: 0 }) };
}

impl Place {
    #[inline]
    fn of_this_thread() -> Self {
        let place = PLACE.get();
        if place.thread == 0 { place.ask() } else { place }
    }

    #[cold]
    fn ask(mut self) -> Self {
        self.thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        PLACE.set(self);
        self
    }
}

pub(crate) enum Owner<'db> {
    Borrowed(&'db Handle),
    Owned(Arc<Handle>),
    /// It went to the caller of [`Snapshot::into_database`].
    Gone,
}

impl Owner<'_> {
    #[inline]
    fn handle(&self) -> &Handle {
        match self {
            Owner::Borrowed(handle) => handle,
            Owner::Owned(handle) => handle,
            Owner::Gone => unreachable!("a snapshot that was ended is not used"),
        }
    }
}

/// A parked snapshot: nobody looks at it for a while. It keeps its pages, unless a writer that
/// needs them evicts it.
///
/// A long-lived reader that parks its snapshot between uses never makes the file grow without
/// bound: see [`crate::SlowReaders`].
pub struct ParkedSnapshot {
    /// `None` once it was unparked.
    handle: Option<Arc<Handle>>,
    reader: ReaderId,
    root: Root,
    bounds: Bounds,
}

impl ParkedSnapshot {
    /// The newest transaction that the snapshot sees.
    #[must_use]
    pub fn txn(&self) -> TxnId {
        self.root.txn
    }

    /// Unparks the snapshot; [`Error::Evicted`] if a writer took its pages.
    pub fn resume(mut self) -> Result<Snapshot<'static>> {
        let handle = self.handle.take().expect("a parked snapshot is taken up once");
        if !handle.core.shared.unpark(self.reader, self.root.txn) {
            return Err(Error::Evicted { txn: self.root.txn });
        }
        Ok(Snapshot {
            owner: Owner::Owned(handle),
            reader: self.reader,
            root: self.root,
            bounds: self.bounds,
            holds_slot: true,
        })
    }
}

impl Drop for ParkedSnapshot {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.core.shared.unpin(self.reader);
        }
    }
}

/// Pages on their way from the disk into memory: see [`Snapshot::read_ahead`].
pub struct Reading {
    core: Arc<Core>,
    runs: SmallVec<[(PageId, u32); 2]>,
}

impl Reading {
    pub(crate) fn new(core: Arc<Core>, runs: SmallVec<[(PageId, u32); 2]>) -> Self {
        Self { core, runs }
    }

    /// Returns once they are in memory. They may be gone again when they are used, where memory is
    /// scarce: using them then waits for them.
    pub fn wait(&self) {
        self.runs.iter().for_each(|&(id, pages)| self.core.pager.await_read(id, pages));
    }
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").field("runs", &self.runs.len()).finish()
    }
}

/// A table as one snapshot has it: see [`Snapshot::open`].
#[derive(Debug, Clone)]
pub struct OpenTable {
    table: Table,
    opening: u64,
    txn: TxnId,
    tree: Tree,
    last: LastLeaf,
}

/// The leaf that any thread looked into last; [`PageId::NONE`] at first.
#[derive(Debug, Default)]
struct LastLeaf(AtomicU32);

impl Clone for LastLeaf {
    fn clone(&self) -> Self {
        Self(AtomicU32::new(self.0.load(Relaxed)))
    }
}

impl OpenTable {
    /// The table.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The transaction whose state it was found in.
    #[must_use]
    pub fn txn(&self) -> TxnId {
        self.txn
    }
}

/// The database as of one committed transaction. It delays nobody; its only cost is the space of
/// its pages.
pub struct Snapshot<'db> {
    owner: Owner<'db>,
    reader: ReaderId,
    root: Root,
    bounds: Bounds,
    /// Whether it still has its reader slot, which goes to a [`ParkedSnapshot`] or ends with the
    /// handle.
    holds_slot: bool,
}

impl<'db> Snapshot<'db> {
    #[inline]
    pub(crate) fn borrowed(handle: &'db Handle) -> Result<Self> {
        Self::newest(Owner::Borrowed(handle))?.of_branch()
    }

    pub(crate) fn owned(handle: Arc<Handle>) -> Result<Self> {
        Self::newest(Owner::Owned(handle))?.of_branch()
    }

    /// The newest committed state, be it durable or not.
    pub(crate) fn weak(handle: Arc<Handle>) -> Result<Self> {
        Self::take(Owner::Owned(handle), |core, place| core.shared.pin(place.hint, place.thread, true))?.of_branch()
    }

    /// Has it see the handle's branch. What is pinned is the state of the whole file.
    #[inline]
    fn of_branch(mut self) -> Result<Self> {
        if let Some(branch) = &self.owner.handle().branch {
            self.root.catalog = branch.catalog(&self.core().pager, self.bounds, &self.root)?;
        }
        Ok(self)
    }

    #[inline]
    fn newest(owner: Owner<'db>) -> Result<Self> {
        Self::take(owner, |core, place| core.shared.pin(place.hint, place.thread, core.weak_reads))
    }

    /// The last steady point, which no crash takes back, with its meta page and the result of
    /// `read` on its free map. The free map is pinned only while `read` runs.
    pub(crate) fn steady<T>(handle: &'db Handle, read: impl FnOnce(&Meta) -> T) -> Result<(Self, Meta, T)> {
        let mut meta = Meta::default();
        let mut snapshot = Self::take(Owner::Borrowed(handle), |core, place| {
            core.shared.pin_steady(place.hint, place.thread, |steady| {
                core.pager.disk().refresh()?;
                // A newer meta page may not be on disk yet.
                (meta, _) = core.newest_meta(steady)?;
                Ok(meta.root())
            })
        })?;
        // All pages of a steady point are sealed.
        snapshot.bounds.steady = meta.txn;
        let read = read(&meta);
        snapshot.core().shared.release_map(snapshot.reader, &snapshot.root);
        Ok((snapshot, meta, read))
    }

    /// The state that another live snapshot sees, with as much of its root as walking takes. `None`
    /// if that snapshot is gone, or no slot is free.
    pub(crate) fn beside(handle: &'db Handle, reader: &ReaderInfo) -> Result<Option<Self>> {
        let taken = Self::take(Owner::Borrowed(handle), |core, place| core.shared.pin_beside(reader, place.thread));
        match taken {
            Err(Error::Evicted { .. } | Error::ReadersFull { .. }) => Ok(None),
            taken => taken.map(Some),
        }
    }

    /// Another snapshot of the same state, for another thread. `None`: no reader slot behind its own
    /// is free.
    ///
    /// # Errors
    /// Those of the file.
    pub fn beside_owned(&self) -> Result<Option<Snapshot<'static>>> {
        let root = self.root;
        let taken = Snapshot::take(Owner::Owned(self.owner.handle().to_arc()), |core, place| {
            // This snapshot pins the state meanwhile.
            Ok((core.shared.pin_also(self.reader, root.txn, place.thread)?, root))
        });
        match taken {
            Err(Error::ReadersFull { .. }) => Ok(None),
            taken => taken.map(Some),
        }
    }

    /// The state of another branch that this snapshot of the main one pins.
    pub(crate) fn on_branch(&self, branch: &Database) -> Result<Snapshot<'static>> {
        let root = self.root;
        Snapshot::take(Owner::Owned(Arc::clone(&branch.0)), |core, place| {
            Ok((core.shared.pin_also(self.reader, root.txn, place.thread)?, root))
        })?
        .of_branch()
    }

    #[inline]
    pub(crate) fn take(owner: Owner<'db>, pin: impl FnOnce(&Core, Place) -> Result<(ReaderId, Root)>) -> Result<Self> {
        let core = &owner.handle().core;
        let place = Place::of_this_thread();
        // Loaded before the pin: pages of the pinned state that are not newer than this steady
        // point were sealed for it. A steady point that is made meanwhile may not have sealed all
        // of them.
        let steady = core.shared.steady();
        let (reader, root) = pin(core, place)?;
        if Shared::hint(reader) != place.hint {
            PLACE.set(Place { hint: Shared::hint(reader), ..place });
        }
        if let Err(e) = core.ensure_mapped(root.page_count) {
            core.shared.unpin(reader);
            return Err(e);
        }
        let bounds = Bounds { page_count: root.page_count, newest: root.txn, steady: steady.min(root.txn) };
        Ok(Self { bounds, owner, reader, root, holds_slot: true })
    }

    #[inline]
    pub(crate) fn core(&self) -> &Core {
        &self.owner.handle().core
    }

    #[inline]
    fn opening(&self) -> u64 {
        self.owner.handle().opening
    }

    /// Ends the snapshot and gives back the handle that it was taken with, for the next
    /// [`Database::into_read`].
    #[must_use]
    pub fn into_database(mut self) -> Database {
        let database = match std::mem::replace(&mut self.owner, Owner::Gone) {
            Owner::Borrowed(handle) => Database(handle.to_arc()),
            Owner::Owned(handle) => Database(handle),
            Owner::Gone => unreachable!("a snapshot is ended once"),
        };
        database.0.core.shared.unpin(self.reader);
        // The slot was released above.
        self.holds_slot = false;
        database
    }

    /// Parks the snapshot: a writer that needs its pages may evict it, if the database's
    /// [`crate::SlowReaders`] say so.
    #[must_use]
    pub fn park(mut self) -> ParkedSnapshot {
        let handle = self.owner.handle().to_arc();
        let (reader, root, bounds) = (self.reader, self.root, self.bounds);
        handle.core.shared.park(reader);
        // The slot belongs to the parked snapshot now.
        self.holds_slot = false;
        ParkedSnapshot { handle: Some(handle), reader, root, bounds }
    }

    pub(crate) fn root(&self) -> Root {
        self.root
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The newest transaction the snapshot sees.
    #[must_use]
    pub fn txn(&self) -> TxnId {
        self.root.txn
    }

    /// Pages up to the last one that the state may use, meta pages included.
    #[must_use]
    pub fn page_count(&self) -> u32 {
        self.root.page_count
    }

    /// Page size in bytes.
    #[must_use]
    pub fn page_size(&self) -> u32 {
        self.core().pager.page_size() as u32
    }

    /// A table by name.
    pub fn table(&self, name: &str) -> Result<Table> {
        let found = Description::find(&self.core().pager, self.bounds, &self.root.catalog, name)?;
        let found = found.ok_or_else(|| Error::NoSuchTable { name: name.to_owned() })?;
        let table = Table::new(name, found.kind);
        table.remember(self.opening(), self.txn(), found.tree);
        Ok(table)
    }

    /// All tables, by name.
    pub fn tables(&self) -> Result<Vec<Table>> {
        list_tables(self.core(), self.bounds, self.root.catalog)
    }

    #[inline]
    fn tree(&self, table: &Table) -> Result<Tree> {
        let opening = self.opening();
        if let Some(tree) = table.found_in(opening, self.txn()) {
            return Ok(tree);
        }
        let found = Description::find(&self.core().pager, self.bounds, &self.root.catalog, table.name())?;
        let tree = resolve(table, found)?;
        table.remember(opening, self.txn(), tree);
        Ok(tree)
    }

    /// A table, for reading.
    #[inline]
    pub fn view(&self, table: &Table) -> Result<View<'_>> {
        Ok(View { pager: &self.core().pager, bounds: self.bounds, tree: self.tree(table)?, table: table.clone() })
    }

    /// Finds a table once, for many reads. A [`Table`] handle is shared and remembers only where
    /// its last user found the table.
    pub fn open(&self, table: &Table) -> Result<OpenTable> {
        let (opening, txn, tree) = (self.opening(), self.txn(), self.tree(table)?);
        Ok(OpenTable { table: table.clone(), opening, txn, tree, last: LastLeaf::default() })
    }

    /// Finds a table in this state that was found in another state before. If that fails, `open`
    /// stays as it was.
    #[inline]
    pub fn reopen(&self, open: &mut OpenTable) -> Result<()> {
        open.tree = self.tree(&open.table)?;
        (open.opening, open.txn, open.last) = (self.opening(), self.txn(), LastLeaf::default());
        Ok(())
    }

    /// A table found by [`Snapshot::open`], for reading.
    ///
    /// # Panics
    /// If it was found in another state than this snapshot's.
    #[inline]
    #[must_use]
    pub fn view_open(&self, open: &OpenTable) -> View<'_> {
        self.expect_found(open);
        View { pager: &self.core().pager, bounds: self.bounds, tree: open.tree, table: open.table.clone() }
    }

    /// The value of a key of a table found by [`Snapshot::open`], in place.
    ///
    /// # Panics
    /// As [`Snapshot::view_open`].
    #[inline]
    pub fn get_open(&self, open: &OpenTable, key: &[u8]) -> Result<Option<&[u8]>> {
        self.expect_found(open);
        open.table.expect_kind(&[TableKind::Plain, TableKind::Integer], "get")?;
        let pager = &self.core().pager;
        let started = Moment::now();
        let (leaf, payload) = open.tree.get_from(pager, self.bounds, key)?;
        open.last.0.store(leaf.0, Relaxed);
        let value = payload.map(|payload| pager.value(self.bounds, payload)).transpose();
        pager.cold.note(started);
        value
    }

    /// Whether lookups have lately waited for the disk: then [`Snapshot::read_ahead`] is worth its
    /// time.
    #[inline]
    #[must_use]
    pub fn is_cold(&self) -> bool {
        self.core().pager.is_cold()
    }

    /// The values of some keys, in place, told to `visit` in turn until it breaks off: for each the
    /// key's index and its value. What they take is loaded together, where one lookup after the
    /// other waits for its own. Keys that are near each other are found sooner.
    ///
    /// # Panics
    /// As [`Snapshot::view_open`].
    pub fn get_many<'s>(
        &'s self,
        open: &OpenTable,
        keys: &[&[u8]],
        mut visit: impl FnMut(usize, Option<&'s [u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.expect_found(open);
        open.table.expect_kind(&[TableKind::Plain, TableKind::Integer], "get")?;
        let pager = &self.core().pager;
        open.tree.get_many(pager, self.bounds, keys, |at, payload| {
            let value = payload.map(|payload| pager.value(self.bounds, payload)).transpose()?;
            Ok(visit(at, value))
        })
    }

    /// Starts reading what lookups of these keys would wait for, without waiting. Gives what is on its
    /// way, `None` if all of it is in memory. A large value is asked for only once the leaf that
    /// refers to it is in memory: ask again after waiting.
    ///
    /// # Panics
    /// As [`Snapshot::view_open`].
    pub fn read_ahead(&self, open: &OpenTable, keys: &[&[u8]]) -> Result<Option<Reading>> {
        self.expect_found(open);
        let pager = &self.core().pager;
        if !pager.reads_ahead() {
            return Ok(None);
        }
        let mut branch = None;
        let mut runs = SmallVec::new();
        for key in keys {
            let run = open.tree.read_ahead(pager, self.bounds, key, &mut branch)?;
            runs.extend(run.filter(|run| runs.last() != Some(run)));
        }
        pager.cold.looked(!runs.is_empty());
        Ok((!runs.is_empty()).then(|| Reading::new(Arc::clone(&self.owner.handle().core), runs)))
    }

    /// As [`Snapshot::get_open`], for a key that was probably read just now: looks into the leaf of
    /// the last read first.
    ///
    /// # Panics
    /// As [`Snapshot::view_open`].
    pub fn get_again(&self, open: &OpenTable, key: &[u8]) -> Result<Option<&[u8]>> {
        self.expect_found(open);
        let leaf = PageId(open.last.0.load(Relaxed));
        if leaf != PageId::NONE
            && let Some(value) = view::get_in(&self.core().pager, self.bounds, leaf, key)?
        {
            return Ok(Some(value));
        }
        self.get_open(open, key)
    }

    #[inline]
    fn expect_found(&self, open: &OpenTable) {
        assert!(
            open.txn == self.txn() && open.opening == self.opening(),
            "a table was found in another state of the database"
        );
    }

    /// The value of a key, in place: `view(table)?.get(key)`.
    #[inline]
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<&[u8]>> {
        view::get(&self.core().pager, self.bounds, &self.tree(table)?, table, key)
    }
}

impl Drop for Snapshot<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.holds_slot {
            self.core().shared.unpin(self.reader);
        }
    }
}

/// The tree of a table, if it is still what the handle says.
pub(crate) fn resolve(table: &Table, found: Option<Description>) -> Result<Tree> {
    let found = found.ok_or_else(|| Error::NoSuchTable { name: table.name().to_owned() })?;
    if found.kind != table.kind() {
        return Err(Error::TableExists { name: table.name().to_owned(), kind: found.kind });
    }
    Ok(found.tree)
}

/// All tables of a catalogue, by name.
pub(crate) fn list_tables(core: &Core, bounds: Bounds, catalog: Tree) -> Result<Vec<Table>> {
    let mut cursor = crate::cursor::RawCursor::new(&core.pager, bounds, catalog);
    let mut tables = Vec::new();
    let mut valid = cursor.first()?;
    while valid {
        let name = std::str::from_utf8(cursor.key())
            .map_err(|_| Error::Corrupted { page: cursor.page(), reason: "a table's name is not text" })?;
        let found = Description::decode(crate::node::Payload::Inline(cursor.value()?))?;
        tables.push(Table::new(name, found.kind));
        valid = cursor.next()?;
    }
    Ok(tables)
}

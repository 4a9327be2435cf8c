//! Transactions: reading, writing, nested; what each knows of databases.
//!
//! One thread at a time uses a transaction and its cursors, as LMDB demands. A transaction holds
//! raw pointers to its environment, to its cursors, to its parent and to its child. Each pointer is
//! valid for this reason:
//! - The program closes an environment after all its transactions, so `env` lives longer.
//! - A transaction that ends first ends what is nested in it, and lets go of its cursors: those of a
//!   reading one stay, without a transaction; those of a writing one are freed.
//! - The outermost write transaction owns `Work`, and ends last.
#![allow(unsafe_code, reason = "handles of C refer to each other by address")]

use std::cell::RefCell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use colibri_storage::{Database, Error, OpenTable, Snapshot, Table, View, WriteTxn};

use super::abi::{Code, MdbStat, MdbVal, Result, env_flag};
use super::arena::Arena;
use super::cursor::{AfterRemoval, CursorHandle, Standing};
use super::env::{Env, FREE_DBI, MAIN_DBI};
use super::names::{self, In};
use super::table::{Db, Description, Shape, Walk, mapped};

/// What a transaction knows of a database.
pub(crate) struct State {
    pub(crate) db: Arc<Db>,
    sequence: u32,
    pub(crate) shape: Shape,
    /// In a reading one: where its table is; `None` if it is not there yet.
    open: Option<OpenTable>,
    /// What `open` says is right for the snapshot at hand.
    is_current: bool,
    /// In a writing one: the table is there, and described as it is.
    is_ready: bool,
    /// Of the unnamed database, in a writing one: it may have entries for named ones.
    pub(crate) has_named: bool,
}

/// A value that the program fills in after the call that stored it.
struct Reserved {
    table: Table,
    tree_key: Vec<u8>,
    /// The beginning of the stored value that is not the program's.
    head: usize,
    /// Made of a box; freed by `drop`.
    bytes: *mut [u8],
}

impl Reserved {
    fn stored(&self) -> &[u8] {
        // SAFETY: it is a box's, which this owns. The program writes to it between calls only.
        unsafe { &*self.bytes }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: it was made of a box, and is freed once.
        drop(unsafe { Box::from_raw(self.bytes) });
    }
}

/// The storage's write transaction, which a transaction and those nested in it share.
pub(crate) struct Work {
    pub(crate) txn: WriteTxn,
    /// Changes with each change of an entry: cursors look for their place again.
    generation: u64,
    reserved: Vec<Reserved>,
    /// Known once something is stored and the program has set a bound.
    pages: Option<Pages>,
}

/// How many pages entries take.
struct Pages {
    all: u64,
    /// Those of databases that were written to, by handle.
    of: Vec<(u32, u64)>,
}

enum Kind {
    /// Reset, or ended and kept for the next one.
    Idle(Database),
    Reading(Snapshot<'static>),
    /// The depth is 0 for the outermost.
    Writing {
        work: *mut Work,
        depth: usize,
    },
    Ended,
}

/// A transaction of C.
pub(crate) struct Txn {
    env: *const Env,
    parent: *mut Txn,
    child: *mut Txn,
    flags: u32,
    kind: Kind,
    /// A change failed half way: it can only be aborted.
    failed: bool,
    states: Vec<Option<State>>,
    pub(crate) cursors: Vec<*mut CursorHandle>,
    pub(crate) arena: Arena,
    new_dbis: Vec<u32>,
    /// Tells it from all others that have opened handles; 0 until it has.
    serial: u64,
    /// What databases were before this transaction described them anew.
    undo: Vec<(Arc<Db>, Description)>,
    /// The thread whose reader slot it has; 0 with `MDB_NOTLS`.
    thread: usize,
    scratch: Vec<u8>,
}

thread_local! {
    /// The environments in which this thread has a read transaction.
    static READING: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

fn this_thread() -> usize {
    READING.with(|reading| ptr::from_ref(reading).addr())
}

/// Extends the life of a view to that of the transaction that it belongs to.
///
/// The caller uses the view, and what it gives, no longer than the transaction: a reading one keeps
/// its pages; in a writing one, no longer than until the next change of an entry.
fn lasting(view: View<'_>) -> View<'static> {
    // SAFETY: a view refers to the pager of the open database, which is on the heap and lives at
    // least as long as the snapshot or write transaction that the view is of.
    unsafe { std::mem::transmute::<View<'_>, View<'static>>(view) }
}

impl Txn {
    fn new(env: &Env, kind: Kind) -> Self {
        Self {
            env,
            parent: ptr::null_mut(),
            child: ptr::null_mut(),
            flags: 0,
            kind,
            failed: false,
            states: Vec::new(),
            cursors: Vec::new(),
            arena: Arena::default(),
            new_dbis: Vec::new(),
            serial: 0,
            undo: Vec::new(),
            thread: 0,
            scratch: Vec::new(),
        }
    }

    // ---- beginning ----

    pub(crate) fn begin(env: &Env, parent: *mut Txn, flags: u32) -> Result<Box<Self>> {
        let opened = env.opened()?;
        if flags & !(env_flag::RDONLY | env_flag::NOSYNC | env_flag::NOMETASYNC) != 0 {
            return Err(Code::INVAL);
        }
        let reads = flags & env_flag::RDONLY != 0;
        if env.has(env_flag::RDONLY) && !reads {
            return Err(Code::ACCES);
        }
        if !parent.is_null() {
            return Self::begin_nested(env, parent, flags);
        }
        if reads {
            let mut txn =
                opened.take_pooled().unwrap_or_else(|| Box::new(Self::new(env, Kind::Idle(opened.db().clone()))));
            txn.env = env;
            txn.flags = flags;
            if let Err(e) = txn.start_reading() {
                opened.pool(txn);
                return Err(e);
            }
            return Ok(txn);
        }
        let work = Work { txn: opened.db().write()?, generation: 1, reserved: Vec::new(), pages: None };
        let work = Box::into_raw(Box::new(work));
        let mut txn = Box::new(Self::new(env, Kind::Writing { work, depth: 0 }));
        txn.flags = flags;
        Ok(txn)
    }

    fn begin_nested(env: &Env, parent: *mut Txn, flags: u32) -> Result<Box<Self>> {
        // SAFETY: the program gives a transaction that has not ended, and uses it in one thread.
        let outer = unsafe { &mut *parent };
        let Kind::Writing { work, .. } = outer.kind else { return Err(Code::INVAL) };
        if flags & env_flag::RDONLY != 0 {
            return Err(Code::INVAL);
        }
        if !ptr::eq(outer.env, env) || env.has(env_flag::WRITEMAP) {
            return Err(Code::BAD_TXN);
        }
        outer.ensure_usable()?;
        outer.flush_reserved(true)?;
        let depth = outer.work_mut()?.txn.begin_nested();
        let mut txn = Box::new(Self::new(env, Kind::Writing { work, depth }));
        txn.parent = parent;
        txn.flags = flags | outer.flags;
        outer.child = &raw mut *txn;
        Ok(txn)
    }

    fn start_reading(&mut self) -> Result<()> {
        self.take_reader_slot()?;
        let Kind::Idle(db) = std::mem::replace(&mut self.kind, Kind::Ended) else { return Err(Code::INVAL) };
        match self.env().snapshot(db) {
            Ok(snapshot) => self.kind = Kind::Reading(snapshot),
            Err(e) => {
                self.kind = Kind::Idle(self.env().opened()?.db().clone());
                self.release_reader_slot();
                return Err(e);
            }
        }
        for state in self.states.iter_mut().flatten() {
            state.is_current = false;
        }
        Ok(())
    }

    /// Without `MDB_NOTLS`, a thread has one read transaction at a time.
    fn take_reader_slot(&mut self) -> Result<()> {
        let env = self.env();
        if env.has(env_flag::NOTLS) {
            self.thread = 0;
            return Ok(());
        }
        let (id, thread) = (env.id, this_thread());
        let is_taken = READING.with_borrow(|reading| reading.contains(&id));
        if is_taken {
            // Another thread may have ended it.
            let mut ended = env.ended_elsewhere.lock();
            let at = ended.iter().position(|&other| other == thread).ok_or(Code::BAD_RSLOT)?;
            ended.swap_remove(at);
        } else {
            READING.with_borrow_mut(|reading| reading.push(id));
        }
        self.thread = thread;
        Ok(())
    }

    fn release_reader_slot(&mut self) {
        let (id, thread) = (self.env().id, std::mem::take(&mut self.thread));
        if thread == 0 {
            return;
        }
        if thread != this_thread() {
            self.env().ended_elsewhere.lock().push(thread);
            return;
        }
        READING.with_borrow_mut(|reading| {
            if let Some(at) = reading.iter().position(|&other| other == id) {
                reading.swap_remove(at);
            }
        });
    }

    // ---- what it is ----

    #[inline]
    pub(crate) fn env<'e>(&self) -> &'e Env {
        // SAFETY: the environment is closed after its transactions (the head of this file).
        unsafe { &*self.env }
    }

    pub(crate) fn env_address(&self) -> *const Env {
        self.env
    }

    pub(crate) fn id(&self) -> u64 {
        match &self.kind {
            Kind::Reading(snapshot) => snapshot.txn().0,
            Kind::Writing { .. } => self.work().map_or(0, |work| work.txn.txn().0),
            Kind::Idle(_) | Kind::Ended => 0,
        }
    }

    pub(crate) fn is_writing(&self) -> bool {
        matches!(self.kind, Kind::Writing { .. })
    }

    #[inline]
    pub(crate) fn ensure_usable(&self) -> Result<()> {
        let is_active = matches!(self.kind, Kind::Reading(_) | Kind::Writing { .. });
        if is_active && !self.failed && self.child.is_null() { Ok(()) } else { Err(Code::BAD_TXN) }
    }

    pub(crate) fn ensure_writing(&self) -> Result<()> {
        match self.kind {
            Kind::Reading(_) | Kind::Idle(_) => Err(Code::ACCES),
            Kind::Writing { .. } => self.ensure_usable(),
            Kind::Ended => Err(Code::BAD_TXN),
        }
    }

    /// Notes that a change may have been made in part.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
    }

    fn work(&self) -> Option<&Work> {
        match self.kind {
            // SAFETY: the outermost transaction owns it and has not ended, as this one has not. No
            // other reference to it lives between calls, and one thread makes them.
            Kind::Writing { work, .. } => Some(unsafe { &*work }),
            _ => None,
        }
    }

    fn work_mut(&mut self) -> Result<&mut Work> {
        match self.kind {
            // SAFETY: as in `work`; `self` is borrowed exclusively.
            Kind::Writing { work, .. } => Ok(unsafe { &mut *work }),
            _ => Err(Code::ACCES),
        }
    }

    /// The storage transaction, for writing. The caller calls [`Txn::changed`] after it has changed
    /// entries.
    pub(crate) fn write(&mut self) -> Result<&mut WriteTxn> {
        Ok(&mut self.work_mut()?.txn)
    }

    /// Cursors have to look for their places again.
    pub(crate) fn changed(&mut self) {
        if let Ok(work) = self.work_mut() {
            work.generation += 1;
        }
    }

    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.work().map_or(0, |work| work.generation)
    }

    // ---- databases ----

    /// What is known of a database; its handle is checked.
    #[inline]
    pub(crate) fn state(&mut self, dbi: u32) -> Result<&mut State> {
        let sequence = self.env().opened()?.sequence(dbi).ok_or(Code::INVAL)?;
        let is_known = matches!(self.states.get(dbi as usize), Some(Some(state))
            if state.sequence == sequence && state.is_current);
        if !is_known {
            self.learn(dbi, sequence)?;
        }
        self.states[dbi as usize].as_mut().ok_or(Code::BAD_DBI)
    }

    #[cold]
    fn learn(&mut self, dbi: u32, sequence: u32) -> Result<()> {
        let at = dbi as usize;
        if self.states.len() <= at {
            self.states.resize_with(at + 1, || None);
        }
        let known = self.states[at].take().filter(|state| state.sequence == sequence);
        let (db, known) = match known {
            Some(state) => (state.db, state.open),
            None => (self.env().opened()?.db_at(dbi, |owner| self.sees(owner))?, None),
        };
        let mut open = None;
        let mut has_named = false;
        let is_there = match &self.kind {
            Kind::Reading(snapshot) => {
                let found = match known {
                    Some(mut known) => snapshot.reopen(&mut known).map(|()| known),
                    None => snapshot.open(&db.table),
                };
                match found {
                    Err(Error::NoSuchTable { .. }) => false,
                    found => {
                        open = Some(found?);
                        true
                    }
                }
            }
            Kind::Writing { .. } => {
                let work = self.work().ok_or(Code::BAD_TXN)?;
                has_named = dbi == MAIN_DBI && names::has_named(&work.txn)?;
                match work.txn.view(&db.table) {
                    Err(Error::NoSuchTable { .. }) => false,
                    found => found.map(|_| true)?,
                }
            }
            Kind::Idle(_) | Kind::Ended => return Err(Code::BAD_TXN),
        };
        if !is_there && db.name.is_some() {
            return Err(Code::INVAL);
        }
        let shape = db.shape();
        self.states[at] = Some(State { db, sequence, shape, open, is_current: true, is_ready: false, has_named });
        Ok(())
    }

    /// Whether a handle that is open stands for a database that this transaction sees.
    pub(crate) fn knows_or_finds(&mut self, dbi: u32) -> Result<bool> {
        let db = self.env().opened()?.db_at(dbi, |owner| self.sees(owner))?;
        match self.description(db.name.as_deref())? {
            Some(description) if description == db.shape().description() => Ok(true),
            // Its comparison was set and nothing was written yet.
            Some(description) => Ok(description.flags == db.shape().flags && db.shape().labels),
            None => Ok(false),
        }
    }

    pub(crate) fn description(&self, name: Option<&[u8]>) -> Result<Option<Description>> {
        match &self.kind {
            Kind::Reading(snapshot) => names::description(&mut In::Snapshot(snapshot), name),
            Kind::Writing { .. } => names::description(&mut In::Write(&self.work().ok_or(Code::BAD_TXN)?.txn), name),
            Kind::Idle(_) | Kind::Ended => Err(Code::BAD_TXN),
        }
    }

    /// Whether a transaction is this one, or around it.
    pub(crate) fn sees(&self, owner: u64) -> bool {
        if self.serial == owner {
            return true;
        }
        // SAFETY: null, or the transaction around this one, which ends later.
        unsafe { self.parent.as_ref() }.is_some_and(|parent| parent.sees(owner))
    }

    /// The number by which handles name it.
    pub(crate) fn serial(&mut self) -> u64 {
        static SERIALS: AtomicU64 = AtomicU64::new(1);
        if self.serial == 0 {
            self.serial = SERIALS.fetch_add(1, Ordering::Relaxed);
        }
        self.serial
    }

    pub(crate) fn note_new(&mut self, dbi: u32) {
        self.new_dbis.push(dbi);
        if let Some(Some(main)) = self.states.get_mut(MAIN_DBI as usize) {
            main.has_named = true;
        }
    }

    /// Describes a database anew; undone if the transaction is.
    pub(crate) fn redescribe(&mut self, dbi: u32, description: Description) -> Result<()> {
        let db = self.state(dbi)?.db.clone();
        names::describe(self.write()?, db.name.as_deref(), description)?;
        self.undo.push((db.clone(), db.shape().description()));
        db.describe_as(description);
        self.reshape(dbi)
    }

    /// Takes over how a database's entries lie now.
    pub(crate) fn reshape(&mut self, dbi: u32) -> Result<()> {
        let state = self.state(dbi)?;
        state.shape = state.db.shape();
        state.is_ready = false;
        self.forget_cursors_of(dbi);
        Ok(())
    }

    /// Makes sure that a database has its table, and is described as it is, before it is written to.
    #[inline]
    pub(crate) fn prepare_write(&mut self, dbi: u32) -> Result<()> {
        if self.state(dbi)?.is_ready {
            return Ok(());
        }
        if dbi == FREE_DBI {
            return Err(Code::INVAL);
        }
        let (db, shape) = {
            let state = self.state(dbi)?;
            (state.db.clone(), state.shape)
        };
        let kept = self.description(db.name.as_deref())?.unwrap_or_default();
        let write = self.write()?;
        if db.name.is_none() {
            write.create_table(db.table.name(), db.table.kind())?;
        }
        if kept != shape.description() {
            names::describe(write, db.name.as_deref(), shape.description())?;
        }
        self.state(dbi)?.is_ready = true;
        Ok(())
    }

    /// Fails if the entries have as many pages as the program allows, or would have with a value of so
    /// many bytes.
    #[inline]
    pub(crate) fn ensure_room(&mut self, dbi: u32, bytes: usize) -> Result<()> {
        let pages_max = self.env().pages_max();
        if pages_max == u64::MAX { Ok(()) } else { self.ensure_pages(dbi, bytes, pages_max) }
    }

    fn ensure_pages(&mut self, dbi: u32, bytes: usize, pages_max: u64) -> Result<()> {
        let table = self.state(dbi)?.db.table.clone();
        let page_size = self.env().opened()?.db().page_size() as usize;
        let Work { txn, pages, .. } = self.work_mut()?;
        let pages_of = |table: &Table| match txn.view(table) {
            Err(Error::NoSuchTable { .. }) => Ok(0),
            view => view.map(|view| view.stat()).map(|stat| stat.leaf_pages + stat.branch_pages + stat.overflow_pages),
        };
        let pages = match pages {
            Some(pages) => pages,
            None => {
                let all = txn.tables()?.iter().map(&pages_of).sum::<colibri_storage::Result<u64>>()?;
                pages.insert(Pages { all, of: Vec::new() })
            }
        };
        let now = pages_of(&table)?;
        match pages.of.iter_mut().find(|(of, _)| *of == dbi) {
            Some((_, before)) => {
                pages.all = (pages.all + now).saturating_sub(*before);
                *before = now;
            }
            None => pages.of.push((dbi, now)),
        }
        // A large value has pages of its own.
        let wanted = if bytes > page_size / 4 { bytes.div_ceil(page_size) as u64 } else { 0 };
        if pages.all + wanted >= pages_max { Err(Code::MAP_FULL) } else { Ok(()) }
    }

    /// A place in a database; `None` if nothing was ever written to it.
    pub(crate) fn walk(&mut self, dbi: u32) -> Result<Option<Walk>> {
        self.state(dbi)?;
        let state = self.states[dbi as usize].as_ref().ok_or(Code::BAD_DBI)?;
        let view = match &self.kind {
            Kind::Reading(snapshot) => state.open.as_ref().map(|open| snapshot.view_open(open)),
            Kind::Writing { .. } => match self.work().ok_or(Code::BAD_TXN)?.txn.view(&state.db.table) {
                Err(Error::NoSuchTable { .. }) => None,
                view => Some(view?),
            },
            Kind::Idle(_) | Kind::Ended => return Err(Code::BAD_TXN),
        };
        Ok(view.map(|view| Walk::new(lasting(view), state.shape)))
    }

    pub(crate) fn entries(&mut self, dbi: u32) -> Result<u64> {
        Ok(self.walk(dbi)?.map_or(0, |walk| walk.view().len()))
    }

    pub(crate) fn stat(&mut self, dbi: u32) -> Result<MdbStat> {
        self.ensure_usable()?;
        self.flush_reserved(false)?;
        let psize = self.env().opened()?.db().page_size();
        let Some(walk) = self.walk(dbi)? else {
            return Ok(MdbStat { psize, depth: 0, branch_pages: 0, leaf_pages: 0, overflow_pages: 0, entries: 0 });
        };
        let stat = walk.view().stat();
        Ok(MdbStat {
            psize,
            depth: stat.depth,
            branch_pages: stat.branch_pages as usize,
            leaf_pages: stat.leaf_pages as usize,
            overflow_pages: stat.overflow_pages as usize,
            entries: stat.entries as usize,
        })
    }

    // ---- reading ----

    /// The value of a key, or its first one.
    #[inline]
    pub(crate) fn get(&mut self, dbi: u32, key: &[u8]) -> Result<MdbVal> {
        if let Err(code) = self.ensure_usable() {
            // A transaction that is reset knows no databases.
            return Err(if matches!(self.kind, Kind::Idle(_)) { Code::INVAL } else { code });
        }
        if key.is_empty() {
            return Err(Code::BAD_VALSIZE);
        }
        self.flush_reserved(false)?;
        self.state(dbi)?;
        let state = self.states[dbi as usize].as_ref().ok_or(Code::BAD_DBI)?;
        if state.shape.labels || state.shape.is_multi() {
            return self.get_first(dbi, key);
        }
        let key = if state.shape.keys.reversed {
            self.scratch.clear();
            self.scratch.extend(key.iter().rev());
            &self.scratch
        } else {
            key
        };
        let found = match &self.kind {
            Kind::Reading(snapshot) => match &state.open {
                Some(open) => snapshot.get_open(open, key)?,
                None => None,
            },
            // SAFETY: as in `work`.
            Kind::Writing { work, .. } => match unsafe { &**work }.txn.get(&state.db.table, key) {
                Err(Error::NoSuchTable { .. }) => None,
                found => found?,
            },
            Kind::Idle(_) | Kind::Ended => None,
        };
        found.map(mapped).ok_or(Code::NOTFOUND)
    }

    fn get_first(&mut self, dbi: u32, key: &[u8]) -> Result<MdbVal> {
        let mut walk = self.walk(dbi)?.ok_or(Code::NOTFOUND)?;
        let shape = self.state(dbi)?.shape;
        let mut identity = std::mem::take(&mut self.scratch);
        shape.identity_onto(key, &mut identity);
        let found = walk.seek_first_of(&identity).and_then(|found| Ok(found && walk.has_identity(&identity)?));
        self.scratch = identity;
        if found? { walk.value(&mut self.arena) } else { Err(Code::NOTFOUND) }
    }

    /// The value of a key as its table has it.
    pub(crate) fn get_stored(&mut self, dbi: u32, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.get(dbi, key) {
            Ok(found) => {
                // SAFETY: it was just returned, and nothing was written since.
                let bytes = unsafe { std::slice::from_raw_parts(found.data.cast::<u8>(), found.size) };
                Ok(Some(bytes.to_vec()))
            }
            Err(Code::NOTFOUND) => Ok(None),
            Err(e) => Err(e),
        }
    }

    // ---- values that the program fills in later ----

    /// Stores `head` and as many zeros as the program wants, and gives the place for its bytes. They
    /// are taken over by the next call that writes, or reads, and at the commit.
    pub(crate) fn reserve(&mut self, dbi: u32, tree_key: &[u8], head: &[u8], size: usize) -> Result<MdbVal> {
        let table = self.state(dbi)?.db.table.clone();
        let mut bytes = vec![0; head.len() + size].into_boxed_slice();
        bytes[..head.len()].copy_from_slice(head);
        let work = self.work_mut()?;
        work.txn.put(&table, tree_key, &bytes)?;
        work.generation += 1;
        let bytes = Box::into_raw(bytes);
        work.reserved.push(Reserved { table, tree_key: tree_key.to_vec(), head: head.len(), bytes });
        let reserved = &work.reserved[work.reserved.len() - 1];
        // SAFETY: `head` is not longer than the box.
        let data = unsafe { bytes.cast::<u8>().add(reserved.head) };
        Ok(MdbVal { size, data: data.cast() })
    }

    /// Takes over what the program has written into reserved values. Before a change they end.
    #[inline]
    pub(crate) fn flush_reserved(&mut self, ends: bool) -> Result<()> {
        match self.work() {
            Some(work) if !work.reserved.is_empty() => self.take_over_reserved(ends),
            _ => Ok(()),
        }
    }

    #[cold]
    fn take_over_reserved(&mut self, ends: bool) -> Result<()> {
        let work = self.work_mut()?;
        for reserved in &work.reserved {
            if work.txn.get(&reserved.table, &reserved.tree_key)? != Some(reserved.stored()) {
                work.txn.put(&reserved.table, &reserved.tree_key, reserved.stored())?;
                work.generation += 1;
            }
        }
        if ends {
            work.reserved.clear();
        }
        Ok(())
    }

    // ---- cursors ----

    /// Takes a cursor off the list; whether it was there.
    pub(crate) fn unlist(&mut self, cursor: *const CursorHandle) -> bool {
        let at = self.cursors.iter().position(|&other| ptr::eq(other, cursor));
        at.map(|at| self.cursors.swap_remove(at)).is_some()
    }

    pub(crate) fn forget_cursors_of(&mut self, dbi: u32) {
        for &cursor in &self.cursors {
            // SAFETY: a cursor is taken off this list before it is freed.
            let cursor = unsafe { &mut *cursor };
            if cursor.dbi == dbi {
                cursor.forget();
            }
        }
    }

    /// Moves the cursors that stood on removed entries, but for one that is in use. Gives where they
    /// are now. `is_gone` says which keys of the table were removed, `tree_key` is one of them.
    ///
    /// Bug: a cursor behind the last entry stayed there when the last entries were removed by others.
    /// Consequence: it said that there is no entry (`MDB_NOTFOUND`) where one of LMDB's stands nowhere
    /// (`EINVAL`): sequence 6347 of the random ones. Fix: cursors of an empty table stand nowhere.
    pub(crate) fn note_removal(
        &mut self,
        dbi: u32,
        tree_key: &[u8],
        identity: &[u8],
        is_gone: impl Fn(&[u8]) -> bool,
        in_use: *const CursorHandle,
    ) -> Result<Option<AfterRemoval>> {
        let is_multi = self.state(dbi)?.shape.is_multi();
        let (mut moved, mut at_end) = (Vec::new(), Vec::new());
        for &cursor in &self.cursors {
            if ptr::eq(cursor, in_use) {
                continue;
            }
            // SAFETY: a cursor is taken off this list before it is freed, and this one is not in use.
            let found = unsafe { &*cursor };
            if found.dbi == dbi && found.standing == Standing::AtEnd {
                at_end.push(cursor);
            } else if found.dbi == dbi && found.spot().is_some_and(&is_gone) {
                moved.push(cursor);
            }
        }
        if moved.is_empty() && at_end.is_empty() && in_use.is_null() {
            return Ok(None);
        }
        let mut walk = self.walk(dbi)?.ok_or(Code::BAD_DBI)?;
        let to = AfterRemoval::find(&mut walk, tree_key, identity, is_multi)?;
        for cursor in moved {
            // SAFETY: as above.
            unsafe { &mut *cursor }.stand_after_removal(&to);
        }
        if to.is_nowhere() {
            for cursor in at_end {
                // SAFETY: as above.
                unsafe { &mut *cursor }.stand_after_removal(&to);
            }
        }
        Ok(Some(to))
    }

    /// Gives the cursors of a database new places, because its entries have other keys now.
    pub(crate) fn move_cursors(&mut self, dbi: u32, place: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        for &cursor in &self.cursors {
            // SAFETY: as above. No cursor is in use: writing borrows the transaction alone.
            let cursor = unsafe { &mut *cursor };
            if cursor.dbi == dbi
                && let Some(to) = cursor.spot().and_then(&place)
            {
                cursor.move_to(&to);
            }
        }
    }

    fn let_go_of_cursors(&mut self, frees: bool) {
        for cursor in std::mem::take(&mut self.cursors) {
            if frees {
                // SAFETY: it was made of a box when it was opened; the program uses it no more once
                // its write transaction has ended.
                drop(unsafe { Box::from_raw(cursor) });
            } else {
                // SAFETY: a cursor is taken off this list before it is freed.
                unsafe { &mut *cursor }.leave_txn();
            }
        }
    }

    // ---- ending ----

    /// Ends a read transaction for a while; `renew` begins it again with a newer snapshot.
    pub(crate) fn reset(&mut self) -> Result<()> {
        self.stop_reading()?;
        self.env().opened()?.count_idle(true);
        Ok(())
    }

    fn stop_reading(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.kind, Kind::Ended) {
            Kind::Reading(snapshot) => {
                for &cursor in &self.cursors {
                    // SAFETY: as above.
                    unsafe { &mut *cursor }.forget();
                }
                self.kind = Kind::Idle(snapshot.into_database());
                self.release_reader_slot();
                self.arena.clear();
                Ok(())
            }
            kind => {
                self.kind = kind;
                Err(Code::INVAL)
            }
        }
    }

    pub(crate) fn renew(&mut self) -> Result<()> {
        if !matches!(self.kind, Kind::Idle(_)) {
            return Err(Code::INVAL);
        }
        self.start_reading()?;
        self.env().opened()?.count_idle(false);
        Ok(())
    }

    pub(crate) fn commit(mut self: Box<Self>) -> Result<()> {
        if !self.is_writing() {
            self.publish_handles();
            self.end_reading();
            return Ok(());
        }
        if !self.child.is_null() {
            // SAFETY: a nested transaction takes itself out of `child` when it ends.
            let child = unsafe { Box::from_raw(self.child) };
            self.child = ptr::null_mut();
            if let Err(e) = child.commit() {
                self.abort();
                return Err(e);
            }
        }
        if self.failed {
            self.abort();
            return Err(Code::BAD_TXN);
        }
        if let Err(e) = self.flush_reserved(true) {
            self.abort();
            return Err(e);
        }
        let Kind::Writing { work, depth } = std::mem::replace(&mut self.kind, Kind::Ended) else {
            return Err(Code::BAD_TXN);
        };
        self.let_go_of_cursors(true);
        if depth > 0 {
            // SAFETY: the outer transaction has not ended: it ends nested ones first.
            let parent = unsafe { &mut *self.parent };
            // SAFETY: as in `work`.
            unsafe { &mut *work }.txn.commit_nested(depth);
            // SAFETY: as before.
            unsafe { &mut *work }.generation += 1;
            parent.child = ptr::null_mut();
            parent.states.clear();
            for &dbi in &self.new_dbis {
                self.env().opened()?.hand_over(dbi, parent.serial());
            }
            parent.new_dbis.append(&mut self.new_dbis);
            parent.undo.append(&mut self.undo);
            return Ok(());
        }
        // SAFETY: the outermost transaction owns it, and no other is left.
        let work = unsafe { Box::from_raw(work) };
        let result = self.env().commit(work.txn, self.flags);
        if result.is_err() {
            self.take_back_handles()
        } else {
            self.publish_handles()
        }
        result
    }

    pub(crate) fn abort(mut self: Box<Self>) {
        if !self.is_writing() {
            self.end_reading();
            return;
        }
        if !self.child.is_null() {
            // SAFETY: as in `commit`.
            let child = unsafe { Box::from_raw(self.child) };
            self.child = ptr::null_mut();
            child.abort();
        }
        let Kind::Writing { work, depth } = std::mem::replace(&mut self.kind, Kind::Ended) else { return };
        self.let_go_of_cursors(true);
        if self.env().opened().is_ok_and(super::env::Opened::is_of_other_process) {
            // A copy in a forked process: what it refers to is not this process's.
            return;
        }
        if depth > 0 {
            // SAFETY: as in `commit`.
            let (work, parent) = unsafe { (&mut *work, &mut *self.parent) };
            work.reserved.clear();
            work.txn.abort_nested(depth);
            work.generation += 1;
            parent.child = ptr::null_mut();
            parent.states.clear();
        } else {
            // SAFETY: as in `commit`.
            drop(unsafe { Box::from_raw(work) });
        }
        self.take_back_handles();
    }

    fn publish_handles(&mut self) {
        if let Ok(opened) = self.env().opened() {
            self.new_dbis.drain(..).for_each(|dbi| opened.hand_over(dbi, 0));
        }
    }

    fn take_back_handles(&mut self) {
        for (db, description) in self.undo.drain(..).rev() {
            db.describe_as(description);
        }
        if let Ok(opened) = self.env().opened() {
            for dbi in self.new_dbis.drain(..) {
                opened.close_dbi(dbi);
            }
        }
    }

    fn end_reading(mut self: Box<Self>) {
        self.let_go_of_cursors(false);
        let Ok(opened) = self.env().opened() else { return };
        if opened.is_of_other_process() {
            std::mem::forget(self);
            return;
        }
        if matches!(self.kind, Kind::Idle(_)) {
            opened.count_idle(false)
        } else {
            _ = self.stop_reading()
        }
        self.take_back_handles();
        self.serial = 0;
        if matches!(self.kind, Kind::Idle(_)) {
            opened.pool(self);
        }
    }
}

//! Leases: a database is open as long as there is a lease, and for some time after the last one.
//!
//! Opening and closing wait for the disk, so they run on threads of their own: [`Directory::lease`]
//! opens on such a thread. A task sleeps until it is time to close a database, and then closes it
//! on such a thread. A database has at most one such task, from the end of the last lease until the
//! database is closed or used again.
//!
//! In a cluster a database's keeper opens and closes it (`crate::replication::keeper`), and leases
//! wait for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use colibri_runtime::{Handle, Pool, sleep_until};
use colibri_sql::{CompactString, Engine, Error, Result, SqlState};
use parking_lot::{Mutex, MutexGuard};

use super::files::FileUse;
use super::{Directory, IN_USE, no_such_database};
use crate::replication::keeper::{Hidden, Keeper, Place};

/// How long a client waits for a database of a cluster to be opened.
const OPEN_MAX: Duration = Duration::from_secs(30);

/// A database's place among those that are open.
pub(crate) struct Slot {
    name: CompactString,
    opened: Mutex<Opened>,
    leases: AtomicUsize,
    /// A task waits for the time to close it.
    is_closing: AtomicBool,
    last_used: Mutex<Instant>,
}

#[derive(Default)]
struct Opened {
    open: Option<Open>,
    /// The database was dropped or renamed.
    is_gone: bool,
}

/// Fields are dropped in order: the database is closed before another session may open it.
struct Open {
    engine: Arc<Engine>,
    /// In a cluster the keeper has it.
    file: Option<FileUse>,
}

/// The right to use an open database.
pub(crate) struct Lease {
    directory: Arc<Directory>,
    slot: Arc<Slot>,
    engine: Option<Arc<Engine>>,
    /// In a cluster.
    keeper: Option<Arc<Keeper>>,
}

/// A slot that cannot be opened while this exists.
pub(crate) struct Closed<'a> {
    opened: MutexGuard<'a, Opened>,
}

impl Closed<'_> {
    /// Allows opening again.
    pub(crate) fn reopen(mut self) {
        self.opened.is_gone = false;
    }
}

impl Slot {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            opened: Mutex::default(),
            leases: AtomicUsize::new(0),
            is_closing: AtomicBool::new(false),
            last_used: Mutex::new(Instant::now()),
        }
    }

    pub(crate) fn name(&self) -> &CompactString {
        &self.name
    }

    /// Keeps the database from being closed or dropped, until [`Slot::let_go`]. False if it was
    /// dropped. Waits while it is being opened or dropped.
    pub(super) fn hold(&self) -> bool {
        let opened = self.opened.lock();
        if !opened.is_gone {
            self.leases.fetch_add(1, Ordering::AcqRel);
        }
        !opened.is_gone
    }

    /// Ends [`Slot::hold`]: whether nobody uses the database now.
    pub(super) fn let_go(&self) -> bool {
        self.leases.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        // A database that is being opened does not count as open.
        self.opened.try_lock()?.open.as_ref().map(|open| Arc::clone(&open.engine))
    }

    /// Closes the database if it has no lease, or in any case if `though_used`.
    pub(crate) fn close(&self, though_used: bool) -> Result<()> {
        let mut opened = self.opened.lock();
        if self.leases.load(Ordering::Acquire) > 0 && !though_used {
            return Ok(());
        }
        match opened.open.take() {
            Some(open) => close(open),
            None => Ok(()),
        }
    }

    /// Closes the database so that it cannot be opened again under this name. Connected sessions
    /// have the time `patience` to end. To be called by a thread that may wait.
    ///
    /// # Errors
    /// 55006 if sessions are left; 57014 if `cancel` was set meanwhile; of the disk.
    pub(crate) fn close_for_good(&self, name: &str, patience: Duration, cancel: &AtomicBool) -> Result<Closed<'_>> {
        let until = Instant::now() + patience;
        loop {
            let mut opened = self.opened.lock();
            let leases = self.leases.load(Ordering::Acquire);
            if leases == 0 {
                opened.is_gone = true;
                if let Some(open) = opened.open.take() {
                    close(open)?;
                }
                return Ok(Closed { opened });
            }
            drop(opened);
            if Instant::now() >= until {
                let plural = if leases == 1 { "is 1 other session" } else { "are other sessions" };
                return Err(Error::new(IN_USE, format!("database \"{name}\" is being accessed by other users"))
                    .detail(format!("There {plural} using the database.")));
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::new(SqlState::CANCELED, "canceling statement due to user request"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn close(open: Open) -> Result<()> {
    let Open { engine, file } = open;
    // Unused values of sequences are given back before the last steady point. If a session that is
    // ending still has the database, it closes it.
    drop(engine);
    file.map_or(Ok(()), FileUse::end)
}

impl Directory {
    /// A lease, if the database is open.
    fn lease_open(self: &Arc<Self>, slot: &Arc<Slot>, opened: &Opened) -> Result<Option<Lease>> {
        if opened.is_gone {
            return Err(no_such_database(&slot.name));
        }
        let Some(open) = &opened.open else { return Ok(None) };
        // Under the lock, so that it is not closed between being counted and being used.
        slot.leases.fetch_add(1, Ordering::AcqRel);
        let engine = Some(Arc::clone(&open.engine));
        Ok(Some(Lease { directory: Arc::clone(self), slot: Arc::clone(slot), engine, keeper: None }))
    }

    /// A lease on a database of a cluster, which its keeper opens.
    ///
    /// Bug: a session counted the keeper's changes, asked it, which was a change, and waited for
    /// the next change, which had happened. Consequence: it asked without a pause, and the keeper
    /// had no time for commits: a database that was being opened stood still until the session gave
    /// up. Fix: asking again is no change, and a keeper that is disturbed goes on with the term
    /// before it looks again.
    async fn lease_replica(self: &Arc<Self>, slot: &Arc<Slot>, keeper: Arc<Keeper>) -> Result<Lease> {
        let until = Instant::now() + OPEN_MAX;
        loop {
            keeper.ask_for();
            let seen = keeper.changed.count();
            if keeper.is_gone() {
                return Err(no_such_database(&slot.name));
            }
            let lease = self.lease_open(slot, &slot.opened.lock())?;
            if let Some(mut lease) = lease {
                lease.keeper = Some(keeper);
                return Ok(lease);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = keeper.trouble().unwrap_or_else(|| "nobody leads it, or its log cannot be read".to_owned());
                let message = format!("database \"{}\" cannot be opened now: {why}", slot.name);
                return Err(Error::new(SqlState("57P03"), message));
            }
            _ = colibri_runtime::timeout(left, keeper.changed.wait(seen)).await;
        }
    }

    /// Opens a database on this thread, unless it is open.
    ///
    /// # Errors
    /// 3D000 if there is none; 55006 if another process has it open; of the disk.
    pub(crate) fn lease_now(self: &Arc<Self>, name: &str) -> Result<Lease> {
        if self.databases.read().place(name).is_none() {
            return Err(no_such_database(name));
        }
        let slot = self.slot(name);
        let mut opened = slot.opened.lock();
        if let Some(lease) = self.lease_open(&slot, &opened)? {
            return Ok(lease);
        }
        let (file, database) = self.use_database(name)?;
        let known = self.databases.read();
        let locale = known.place(name).and_then(|place| known.all[place].info.locale.as_ref()?.order.clone());
        drop(known);
        let engine = Engine::open_named(database, name.to_owned(), self.memory.clone(), locale)?;
        engine.set_prepared_max(self.prepared_max());
        engine.set_long_work_hook(colibri_runtime::budget::before_long_call);
        opened.open = Some(Open { engine, file: Some(file) });
        let lease = self.lease_open(&slot, &opened)?;
        lease.ok_or_else(|| Error::internal("a database that was opened is not open"))
    }

    /// A lease on a database. Unless it is open, it is opened on a thread that may wait.
    ///
    /// # Errors
    /// As [`Directory::lease_now`].
    pub(crate) async fn lease(self: &Arc<Self>, name: &str) -> Result<Lease> {
        if self.databases.read().place(name).is_none() {
            return Err(no_such_database(name));
        }
        let slot = self.slot(name);
        if let Some(keeper) = self.keeper_named(name) {
            return self.lease_replica(&slot, keeper).await;
        }
        if let Some(opened) = slot.opened.try_lock()
            && let Some(lease) = self.lease_open(&slot, &opened)?
        {
            return Ok(lease);
        }
        let (directory, name) = (Arc::clone(self), CompactString::new(name));
        let opening = colibri_runtime::spawn_blocking(move || directory.lease_now(&name));
        match opening.await {
            Ok(lease) => lease,
            Err(error) => Err(Error::new(SqlState::INTERNAL, format!("opening the database failed: {error}"))),
        }
    }

    /// Closes a database when its time has come, unless it is used again.
    async fn close_later(self: Arc<Self>, slot: Arc<Slot>) {
        loop {
            let until = *slot.last_used.lock() + self.unused.keep;
            sleep_until(until).await;
            if slot.leases.load(Ordering::Acquire) > 0 {
                slot.is_closing.store(false, Ordering::Release);
                // Leases that ended since then have seen that this task waits, and left the closing
                // to it.
                if slot.leases.load(Ordering::Acquire) > 0 || slot.is_closing.swap(true, Ordering::AcqRel) {
                    return;
                }
            } else if *slot.last_used.lock() + self.unused.keep <= Instant::now() {
                break;
            }
        }
        slot.is_closing.store(false, Ordering::Release);
        let give_memory_back = self.unused.give_memory_back;
        let closing = colibri_runtime::spawn_blocking(move || {
            let closed = slot.close(false);
            give_memory_back();
            closed
        });
        if let Ok(Err(error)) = closing.await {
            // The next opening reports the error, too, to a client.
            crate::log::Log::default().error("close_failed", &[("error", &error)]);
        }
    }
}

impl Lease {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        self.engine.as_ref().expect("it is there until it is dropped")
    }

    /// In a cluster: who knows whether this server leads the database.
    pub(crate) fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.keeper.as_ref()
    }
}

impl Place for Slot {
    fn uses(&self) -> usize {
        self.leases.load(Ordering::Acquire)
    }

    fn last_used(&self) -> Instant {
        *self.last_used.lock()
    }

    fn show(&self, engine: Arc<Engine>) {
        self.opened.lock().open = Some(Open { engine, file: None });
    }

    fn shown(&self) -> Option<Arc<Engine>> {
        self.opened.lock().open.as_ref().map(|open| Arc::clone(&open.engine))
    }

    fn hide(&self, if_unused: bool) -> Hidden {
        let mut opened = self.opened.lock();
        // Leases are counted under this lock.
        if if_unused && self.leases.load(Ordering::Acquire) > 0 {
            return Hidden::InUse;
        }
        Hidden::Yes(opened.open.take().map(|open| open.engine))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.engine.take());
        *self.slot.last_used.lock() = Instant::now();
        let is_last = self.slot.leases.fetch_sub(1, Ordering::AcqRel) == 1;
        if let Some(keeper) = &self.keeper {
            if is_last {
                keeper.changed.give();
            }
            return;
        }
        if is_last {
            self.directory.unused(&self.slot.name);
        }
        if !is_last || self.slot.is_closing.swap(true, Ordering::AcqRel) {
            return;
        }
        match Handle::try_current() {
            Some(handle) => {
                let closing = Arc::clone(&self.directory).close_later(Arc::clone(&self.slot));
                drop(handle.spawn(Pool::Batch, closing));
            }
            // The server is about to end, and closes all databases.
            None => self.slot.is_closing.store(false, Ordering::Release),
        }
    }
}

//! LMDB and MDBX: one implementation for both, as their interfaces have the same shape.
//!
//! Both get their fastest use: the unnamed table, and read transactions that are reset after each
//! read and renewed for the next one. The only module of this crate with unsafe code, which is
//! calls to C.
//!
//! Invariants that the calls rely on
//! 1. An environment is open from [`open`] until its [`Mdb`] is dropped; sessions borrow the
//!    [`Mdb`], so all transactions are over by then.
//! 2. A session stays on the thread that made it (it is not `Send`), and has at most one
//!    transaction that is active at a time. Its read transaction is reset whenever no read is going
//!    on.
//! 3. Bytes that the engine hands out are visited before the transaction that owns them writes
//!    again or ends.
//! 4. An [`ActiveWrite`] is committed or aborted exactly once.
//! 5. A database directory is opened once in a process, as both engines demand.
//!
//! Not here: named tables, nested transactions, more than one process.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CString, c_int};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use crate::engine::Mode;
use crate::engine::targets::{Config, EntryVisitor, Session, Target, TargetName, TxnBody, ValueVisitor, WriteOps};
use crate::measure::{Error, Result};

mod lmdb;
mod mdbx;

/// Address space for the database: reserved, not used. Far more than any benchmark here fills.
const MAP_BYTES: usize = 256 << 30;
/// Permissions of the files.
const FILE_MODE: u32 = 0o644;

/// Handle of the one table.
type Dbi = u32;

pub(super) fn open_lmdb(dir: &Path, config: &Config) -> Result<Box<dyn Target>> {
    Ok(Box::new(Mdb::<lmdb::Lmdb>::open(dir, config)?))
}

pub(super) fn open_mdbx(dir: &Path, config: &Config) -> Result<Box<dyn Target>> {
    Ok(Box::new(Mdb::<mdbx::Mdbx>::open(dir, config)?))
}

/// The C functions of one of the two engines.
///
/// # Safety
///
/// Each function must do what LMDB documents for its name, and answer 0 for success.
unsafe trait Api: 'static {
    const NAME: TargetName;
    const NOT_FOUND: c_int;
    const FIRST: u32;
    const NEXT: u32;
    type Env;
    type Txn;
    type Cursor;

    fn error_text(code: c_int) -> String;
    fn notes(mode: Mode) -> &'static str;

    /// Creates, configures and opens an environment; on an error nothing stays open.
    ///
    /// # Safety
    /// Invariant 5: `path` is not open in this process.
    unsafe fn env_open(path: &CString, config: &Config) -> std::result::Result<*mut Self::Env, c_int>;
    /// # Safety
    /// The environment is open, and no transaction is.
    unsafe fn env_close(env: *mut Self::Env);
    /// # Safety
    /// The environment is open.
    unsafe fn env_sync(env: *mut Self::Env) -> c_int;
    /// # Safety
    /// The environment is open, and this thread has no active transaction.
    unsafe fn txn_begin(env: *mut Self::Env, read_only: bool, txn: &mut *mut Self::Txn) -> c_int;
    /// # Safety
    /// The transaction is active; it is gone afterwards, even on an error.
    unsafe fn txn_commit(txn: *mut Self::Txn) -> c_int;
    /// # Safety
    /// The transaction is active or reset; it is gone afterwards.
    unsafe fn txn_abort(txn: *mut Self::Txn);
    /// # Safety
    /// The transaction is active and read-only.
    unsafe fn txn_reset(txn: *mut Self::Txn);
    /// # Safety
    /// The transaction is reset.
    unsafe fn txn_renew(txn: *mut Self::Txn) -> c_int;
    /// # Safety
    /// The transaction is active.
    unsafe fn dbi_open(txn: *mut Self::Txn, dbi: &mut Dbi) -> c_int;
    /// # Safety
    /// The transaction is active; the bytes live as long as it and its next write.
    unsafe fn get(txn: *mut Self::Txn, dbi: Dbi, key: &[u8], value: &mut &[u8]) -> c_int;
    /// # Safety
    /// The transaction is active and not read-only.
    unsafe fn put(txn: *mut Self::Txn, dbi: Dbi, key: &[u8], value: &[u8]) -> c_int;
    /// # Safety
    /// The transaction is active and not read-only.
    unsafe fn del(txn: *mut Self::Txn, dbi: Dbi, key: &[u8]) -> c_int;
    /// # Safety
    /// The transaction is active.
    unsafe fn cursor_open(txn: *mut Self::Txn, dbi: Dbi, cursor: &mut *mut Self::Cursor) -> c_int;
    /// # Safety
    /// The cursor is open and its transaction active; the bytes live as long as that.
    unsafe fn cursor_get<'t>(cursor: *mut Self::Cursor, key: &mut &'t [u8], value: &mut &'t [u8], op: u32) -> c_int;
    /// # Safety
    /// The cursor is open; it is gone afterwards.
    unsafe fn cursor_close(cursor: *mut Self::Cursor);
}

fn check<A: Api>(code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::engine(A::NAME, A::error_text(code))) }
}

/// As [`check`], but a missing key is an answer.
fn check_found<A: Api>(code: c_int) -> Result<bool> {
    if code == A::NOT_FOUND { Ok(false) } else { check::<A>(code).map(|()| true) }
}

struct Mdb<A: Api> {
    env: *mut A::Env,
    dbi: Dbi,
    mode: Mode,
}

// SAFETY: both engines document an environment as usable from all threads at once; the other fields
// are plain numbers.
unsafe impl<A: Api> Sync for Mdb<A> {}

impl<A: Api> Mdb<A> {
    fn open(dir: &Path, config: &Config) -> Result<Self> {
        let path = CString::new(dir.as_os_str().as_bytes()).map_err(|error| Error::engine(A::NAME, error))?;
        // SAFETY: invariant 5, as the harness opens each directory once, when it is new.
        let env = unsafe { A::env_open(&path, config) }.or_else(|code| check::<A>(code).map(|()| ptr::null_mut()))?;
        let mut target = Self { env, dbi: 0, mode: config.mode };
        let write = ActiveWrite::<A>::begin(env)?;
        // SAFETY: the write transaction is active.
        check::<A>(unsafe { A::dbi_open(write.txn, &mut target.dbi) })?;
        write.commit()?;
        Ok(target)
    }
}

impl<A: Api> Drop for Mdb<A> {
    fn drop(&mut self) {
        // SAFETY: invariant 1.
        unsafe { A::env_close(self.env) }
    }
}

impl<A: Api> Target for Mdb<A> {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(MdbSession::<A> {
            env: self.env,
            dbi: self.dbi,
            read: Cell::new(ptr::null_mut()),
            target: PhantomData,
        }))
    }

    fn sync(&self) -> Result<()> {
        // SAFETY: invariant 1.
        check::<A>(unsafe { A::env_sync(self.env) })
    }

    fn notes(&self) -> String {
        A::notes(self.mode).to_owned()
    }
}

struct MdbSession<'a, A: Api> {
    env: *mut A::Env,
    dbi: Dbi,
    /// The read transaction: null until the first read, reset between reads.
    read: Cell<*mut A::Txn>,
    target: PhantomData<&'a Mdb<A>>,
}

/// The session's read transaction while a read is going on; reset when dropped.
struct ActiveRead<A: Api>(*mut A::Txn);

impl<A: Api> Drop for ActiveRead<A> {
    fn drop(&mut self) {
        // SAFETY: it was begun or renewed when this was made, and is read-only.
        unsafe { A::txn_reset(self.0) }
    }
}

impl<A: Api> MdbSession<'_, A> {
    fn begin_read(&self) -> Result<ActiveRead<A>> {
        let mut txn = self.read.get();
        if txn.is_null() {
            // SAFETY: invariants 1 and 2.
            check::<A>(unsafe { A::txn_begin(self.env, true, &mut txn) })?;
            self.read.set(txn);
        } else {
            // SAFETY: it is reset, as no `ActiveRead` is alive: the methods that make one do so one
            // at a time.
            check::<A>(unsafe { A::txn_renew(txn) })?;
        }
        Ok(ActiveRead(txn))
    }
}

impl<A: Api> Drop for MdbSession<'_, A> {
    fn drop(&mut self) {
        let txn = self.read.get();
        if !txn.is_null() {
            // SAFETY: a transaction of this session, on its thread, reset (invariant 2).
            unsafe { A::txn_abort(txn) }
        }
    }
}

impl<A: Api> Session for MdbSession<'_, A> {
    fn transact(&mut self, body: TxnBody<'_>) -> Result<()> {
        let write = ActiveWrite::<A>::begin(self.env)?;
        body(&mut MdbOps::<A> { txn: write.txn, dbi: self.dbi })?;
        write.commit()
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        let read = self.begin_read()?;
        get::<A>(read.0, self.dbi, key, visit)
    }

    fn walk(&mut self, visit: EntryVisitor<'_>) -> Result<()> {
        let read = self.begin_read()?;
        let cursor = OpenCursor::<A>::open(&read, self.dbi)?;
        let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
        let mut op = A::FIRST;
        loop {
            // SAFETY: the cursor is open and `read` alive; the bytes are visited before either
            // ends.
            let found = check_found::<A>(unsafe { A::cursor_get(cursor.cursor, &mut key, &mut value, op) })?;
            match (found, op == A::FIRST) {
                (true, _) if !visit(key, value) => return Ok(()),
                (true, _) => op = A::NEXT,
                (false, true) => return Ok(()),
                (false, false) => op = A::FIRST,
            }
        }
    }
}

fn get<A: Api>(txn: *mut A::Txn, dbi: Dbi, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
    let mut value: &[u8] = &[];
    // SAFETY: callers pass their active transaction; the bytes are visited before it does anything
    // else.
    let found = check_found::<A>(unsafe { A::get(txn, dbi, key, &mut value) })?;
    if found {
        visit(value);
    }
    Ok(found)
}

/// A cursor of a read transaction, closed before that is reset.
struct OpenCursor<'r, A: Api> {
    cursor: *mut A::Cursor,
    read: PhantomData<&'r ActiveRead<A>>,
}

impl<'r, A: Api> OpenCursor<'r, A> {
    fn open(read: &'r ActiveRead<A>, dbi: Dbi) -> Result<Self> {
        let mut cursor = ptr::null_mut();
        // SAFETY: an `ActiveRead` is an active transaction.
        check::<A>(unsafe { A::cursor_open(read.0, dbi, &mut cursor) })?;
        Ok(Self { cursor, read: PhantomData })
    }
}

impl<A: Api> Drop for OpenCursor<'_, A> {
    fn drop(&mut self) {
        // SAFETY: opened when this was made, and closed here only.
        unsafe { A::cursor_close(self.cursor) }
    }
}

/// A write transaction, aborted when dropped.
struct ActiveWrite<A: Api> {
    txn: *mut A::Txn,
}

impl<A: Api> ActiveWrite<A> {
    fn begin(env: *mut A::Env) -> Result<Self> {
        let mut txn = ptr::null_mut();
        // SAFETY: invariants 1 and 2.
        check::<A>(unsafe { A::txn_begin(env, false, &mut txn) })?;
        Ok(Self { txn })
    }

    fn commit(self) -> Result<()> {
        let txn = self.txn;
        std::mem::forget(self);
        // SAFETY: active until now; forgetting `self` keeps it from being aborted as well
        // (invariant 4).
        check::<A>(unsafe { A::txn_commit(txn) })
    }
}

impl<A: Api> Drop for ActiveWrite<A> {
    fn drop(&mut self) {
        // SAFETY: active, as `commit` forgets what it commits (invariant 4).
        unsafe { A::txn_abort(self.txn) }
    }
}

struct MdbOps<A: Api> {
    txn: *mut A::Txn,
    dbi: Dbi,
}

impl<A: Api> WriteOps for MdbOps<A> {
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        // SAFETY: `transact` keeps the write transaction active while it lends this out.
        check::<A>(unsafe { A::put(self.txn, self.dbi, key, value) })
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        // SAFETY: as in `set`.
        check_found::<A>(unsafe { A::del(self.txn, self.dbi, key) })
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        get::<A>(self.txn, self.dbi, key, visit)
    }
}

//! The functions of C for the key-value interface.
#![allow(unsafe_code, reason = "names that programs of C link to, and descriptors of theirs")]

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::fs::File;
use std::io::{Read, Write};
use std::mem::ManuallyDrop;
use std::ops::Bound;
use std::os::fd::FromRawFd;

use embedded::{BackupInfo, Database, Table, TableKind, TxnId, WriteTxn};

use super::objects::{
    DATABASES, Kv, SNAPSHOTS, Snap, TABLES, TICKETS, TXNS, Tab, Tick, Txn, database_of, in_snapshot, in_txn, table_of,
};
use super::walk::{CURSORS, Move, Walk};
use crate::fault::{self, Fault, OK, Result};
use crate::fork::OfProcess;
use crate::handles::Handle;
use crate::pointers::{bytes, give, give_if_wanted, guard, path, read_if_given, text, wanted};
use crate::sql::{self, ColibriOptions, Db};

/// `colibri_bytes`: bytes of the program's, or of the library's. ABI.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ColibriBytes {
    data: *const c_void,
    length: usize,
}

/// `colibri_backup_info`. ABI.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ColibriBackupInfo {
    database_id: [u8; 16],
    /// 0 for a full one.
    since: u64,
    txn: u64,
    page_size: u32,
    reserved: u32,
    pages: u64,
    bytes: u64,
}

impl ColibriBytes {
    fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), length: bytes.len() }
    }

    fn get<'a>(self) -> Result<&'a [u8]> {
        bytes(self.data.cast(), self.length)
    }
}

impl From<BackupInfo> for ColibriBackupInfo {
    fn from(info: BackupInfo) -> Self {
        let BackupInfo { database_id, since, txn, page_size, pages, bytes } = info;
        Self { database_id, since: since.map_or(0, |txn| txn.0), txn: txn.0, page_size, reserved: 0, pages, bytes }
    }
}

impl From<ColibriBackupInfo> for BackupInfo {
    fn from(info: ColibriBackupInfo) -> Self {
        let ColibriBackupInfo { database_id, since, txn, page_size, pages, bytes, .. } = info;
        Self { database_id, since: (since > 0).then_some(TxnId(since)), txn: TxnId(txn), page_size, pages, bytes }
    }
}

fn found(is_there: bool) -> c_int {
    if is_there { OK } else { fault::NOT_FOUND }
}

type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The bounds of a range: a null pointer to a bound is none.
fn bounds<'a>(low: *const ColibriBytes, high: *const ColibriBytes) -> Result<Bounds<'a>> {
    let low = read_if_given(low).map(ColibriBytes::get).transpose()?;
    let high = read_if_given(high).map(ColibriBytes::get).transpose()?;
    Ok((low.map_or(Bound::Unbounded, Bound::Included), high.map_or(Bound::Unbounded, Bound::Excluded)))
}

// ---- databases ----

#[unsafe(no_mangle)]
extern "C" fn colibri_kv_open(dir: *const c_char, options: *const ColibriOptions, kv: *mut *mut Kv) -> c_int {
    guard(|| {
        wanted(kv)?;
        let database = Database::open(path(dir)?, &ColibriOptions::of_storage(read_if_given(options))?)?;
        hand_out(database, kv)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_kv_close(kv: *mut Kv) -> c_int {
    guard(|| {
        // Snapshots and transactions keep it open until they end. In a forked process only this
        // process' copy goes.
        if let Ok(database) = DATABASES.remove_copied(Handle::of(kv))?.database.take() {
            database.close()?;
        }
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_kv_sync(kv: *mut Kv) -> c_int {
    guard(|| {
        database_of(kv)?.sync()?;
        Ok(OK)
    })
}

// ---- branches ----

/// What is not there is a code, and everything else an error.
fn unless_missing<T>(done: std::result::Result<T, embedded::Error>) -> Result<Option<T>> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(embedded::Error::NoSuchBranch { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn hand_out(database: Database, kv: *mut *mut Kv) -> Result<()> {
    give(kv, DATABASES.add(Kv { database: OfProcess::new(database) })?.as_pointer())
}

#[unsafe(no_mangle)]
extern "C" fn colibri_kv_branch(kv: *mut Kv, name: *const c_char, branch: *mut *mut Kv) -> c_int {
    guard(|| {
        wanted(branch)?;
        hand_out(database_of(kv)?.branch(text(name, usize::MAX)?)?, branch)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_kv_open_branch(kv: *mut Kv, name: *const c_char, branch: *mut *mut Kv) -> c_int {
    guard(|| {
        wanted(branch)?;
        let Some(opened) = unless_missing(database_of(kv)?.open_branch(text(name, usize::MAX)?))? else {
            return Ok(fault::NOT_FOUND);
        };
        hand_out(opened, branch)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_kv_drop_branch(kv: *mut Kv, name: *const c_char) -> c_int {
    guard(|| Ok(found(unless_missing(database_of(kv)?.drop_branch(text(name, usize::MAX)?))?.is_some())))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_kv_reset_branch(kv: *mut Kv, name: *const c_char) -> c_int {
    guard(|| Ok(found(unless_missing(database_of(kv)?.reset_branch(text(name, usize::MAX)?))?.is_some())))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_kv_branch_name(kv: *mut Kv, place: usize, name: *mut *const c_char) -> c_int {
    thread_local! {
        static NAME: RefCell<CString> = RefCell::default();
    }
    guard(|| {
        wanted(name)?;
        let Some(branch) = database_of(kv)?.branches()?.into_iter().nth(place) else { return Ok(fault::NOT_FOUND) };
        // A name with a zero byte, which no function of C makes, ends there.
        let ended = branch.name.bytes().take_while(|&byte| byte != 0).collect::<Vec<u8>>();
        let told = NAME.with(|kept| {
            let mut kept = kept.borrow_mut();
            *kept = CString::new(ended).unwrap_or_default();
            kept.as_ptr()
        });
        give(name, told)?;
        Ok(OK)
    })
}

// ---- snapshots ----

#[unsafe(no_mangle)]
extern "C" fn colibri_kv_snapshot(kv: *mut Kv, snapshot: *mut *mut Snap) -> c_int {
    guard(|| {
        wanted(snapshot)?;
        let taken = database_of(kv)?.read_owned()?;
        let handle = SNAPSHOTS.add(Snap { snapshot: OfProcess::new(taken.into()) })?;
        give(snapshot, handle.as_pointer())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_snapshot_release(snapshot: *mut Snap) -> c_int {
    guard(|| {
        drop(SNAPSHOTS.remove(Handle::of(snapshot))?);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_snapshot_txn(snapshot: *mut Snap, txn: *mut u64) -> c_int {
    guard(|| {
        give(txn, SNAPSHOTS.with(Handle::of(snapshot), |snapshot| Ok(snapshot.snapshot.get()?.txn().0))?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_snapshot_table(snapshot: *mut Snap, name: *const c_char, table: *mut *mut Tab) -> c_int {
    guard(|| {
        wanted(table)?;
        let name = text(name, usize::MAX)?;
        let opened = SNAPSHOTS.with(Handle::of(snapshot), |snapshot| match snapshot.snapshot.get()?.table(name) {
            Err(embedded::Error::NoSuchTable { .. }) => Ok(None),
            opened => Ok(Some(opened?)),
        })?;
        let Some(opened) = opened else { return Ok(fault::NOT_FOUND) };
        give(table, TABLES.add(Tab { table: opened })?.as_pointer())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_snapshot_get(
    snapshot: *mut Snap,
    table: *mut Tab,
    key: ColibriBytes,
    value: *mut ColibriBytes,
) -> c_int {
    guard(|| {
        wanted(value)?;
        let key = key.get()?;
        in_snapshot(snapshot, table, |snapshot, table| match snapshot.get(table, key)? {
            None => Ok(fault::NOT_FOUND),
            Some(bytes) => {
                give(value, ColibriBytes::of(bytes))?;
                Ok(OK)
            }
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_snapshot_count(
    snapshot: *mut Snap,
    table: *mut Tab,
    low: *const ColibriBytes,
    high: *const ColibriBytes,
    count: *mut u64,
) -> c_int {
    guard(|| {
        let range = bounds(low, high)?;
        give(count, in_snapshot(snapshot, table, |snapshot, table| Ok(snapshot.view(table)?.count(range)?))?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_snapshot_rank(snapshot: *mut Snap, table: *mut Tab, key: ColibriBytes, rank: *mut u64) -> c_int {
    guard(|| {
        let key = key.get()?;
        give(rank, in_snapshot(snapshot, table, |snapshot, table| Ok(snapshot.view(table)?.rank(key)?))?)?;
        Ok(OK)
    })
}

// ---- cursors ----

#[unsafe(no_mangle)]
extern "C" fn colibri_cursor_open(snapshot: *mut Snap, table: *mut Tab, cursor: *mut *mut Walk) -> c_int {
    guard(|| {
        wanted(cursor)?;
        let table = table_of(table)?;
        let walk = SNAPSHOTS.with(Handle::of(snapshot), |snapshot| Walk::new(snapshot.snapshot.get()?, &table))?;
        give(cursor, CURSORS.add(walk)?.as_pointer())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_cursor_close(cursor: *mut Walk) -> c_int {
    guard(|| {
        drop(CURSORS.remove(Handle::of(cursor))?);
        Ok(OK)
    })
}

/// Hands over the entry on which a cursor stands, if it does.
fn arrive(walk: &mut Walk, stands: bool, key: *mut ColibriBytes, value: *mut ColibriBytes) -> Result<c_int> {
    if stands {
        let (at_key, at_value) = walk.entry()?;
        give_if_wanted(key, ColibriBytes::of(at_key));
        give_if_wanted(value, ColibriBytes::of(at_value));
    }
    Ok(found(stands))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_cursor_move(
    cursor: *mut Walk,
    to: u32,
    wanted_key: ColibriBytes,
    key: *mut ColibriBytes,
    value: *mut ColibriBytes,
) -> c_int {
    guard(|| {
        let (to, wanted_key) = (Move::numbered(to)?, wanted_key.get()?);
        CURSORS.with(Handle::of(cursor), |walk| {
            let stands = walk.go(to, wanted_key)?;
            arrive(walk, stands, key, value)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_cursor_nth(
    cursor: *mut Walk,
    index: u64,
    key: *mut ColibriBytes,
    value: *mut ColibriBytes,
) -> c_int {
    guard(|| {
        CURSORS.with(Handle::of(cursor), |walk| {
            let stands = walk.go_to_nth(index)?;
            arrive(walk, stands, key, value)
        })
    })
}

// ---- write transactions ----

#[unsafe(no_mangle)]
extern "C" fn colibri_kv_begin(kv: *mut Kv, txn: *mut *mut Txn) -> c_int {
    guard(|| {
        wanted(txn)?;
        give(txn, TXNS.add(Txn { txn: OfProcess::new(database_of(kv)?.write()?) })?.as_pointer())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_txn_commit(txn: *mut Txn, number: *mut u64) -> c_int {
    guard(|| {
        let committed = TXNS.remove(Handle::of(txn))?.txn.take()?.commit()?;
        give_if_wanted(number, committed.0);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_txn_commit_ticket(txn: *mut Txn, ticket: *mut *mut Tick) -> c_int {
    guard(|| {
        wanted(ticket)?;
        let given = TXNS.remove(Handle::of(txn))?.txn.take()?.commit_ticket()?;
        give(ticket, TICKETS.add(Tick { ticket: OfProcess::new(given) })?.as_pointer())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_txn_abort(txn: *mut Txn) -> c_int {
    guard(|| {
        drop(TXNS.remove(Handle::of(txn))?);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_txn_table(txn: *mut Txn, name: *const c_char, is_multi: bool, table: *mut *mut Tab) -> c_int {
    guard(|| {
        wanted(table)?;
        let name = text(name, usize::MAX)?;
        let kind = if is_multi { TableKind::Multi } else { TableKind::Plain };
        let made = TXNS.with(Handle::of(txn), |txn| Ok(txn.txn.get()?.create_table(name, kind)?))?;
        give(table, TABLES.add(Tab { table: made })?.as_pointer())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_table_close(table: *mut Tab) -> c_int {
    guard(|| {
        drop(TABLES.remove_copied(Handle::of(table))?);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_txn_drop_table(txn: *mut Txn, table: *mut Tab) -> c_int {
    guard(|| in_txn(txn, table, |txn, table| Ok(txn.drop_table(table)?)).map(|()| OK))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_txn_clear_table(txn: *mut Txn, table: *mut Tab) -> c_int {
    guard(|| in_txn(txn, table, |txn, table| Ok(txn.clear_table(table)?)).map(|()| OK))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_txn_get(txn: *mut Txn, table: *mut Tab, key: ColibriBytes, value: *mut ColibriBytes) -> c_int {
    guard(|| {
        wanted(value)?;
        let key = key.get()?;
        in_txn(txn, table, |txn, table| match txn.get(table, key)? {
            None => Ok(fault::NOT_FOUND),
            Some(bytes) => {
                give(value, ColibriBytes::of(bytes))?;
                Ok(OK)
            }
        })
    })
}

type WriteEntry = fn(&mut WriteTxn, &Table, &[u8], &[u8]) -> embedded::Result<()>;

fn write_entry(
    (txn, table): (*mut Txn, *mut Tab),
    (key, value): (ColibriBytes, ColibriBytes),
    write: WriteEntry,
) -> c_int {
    guard(|| {
        let (key, value) = (key.get()?, value.get()?);
        in_txn(txn, table, |txn, table| Ok(write(txn, table, key, value)?)).map(|()| OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_txn_put(txn: *mut Txn, table: *mut Tab, key: ColibriBytes, value: ColibriBytes) -> c_int {
    write_entry((txn, table), (key, value), WriteTxn::put)
}

#[unsafe(no_mangle)]
extern "C" fn colibri_txn_insert(
    txn: *mut Txn,
    table: *mut Tab,
    key: ColibriBytes,
    value: ColibriBytes,
    is_new: *mut bool,
) -> c_int {
    guard(|| {
        wanted(is_new)?;
        let (key, value) = (key.get()?, value.get()?);
        give(is_new, in_txn(txn, table, |txn, table| Ok(txn.insert(table, key, value)?))?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_txn_append(txn: *mut Txn, table: *mut Tab, key: ColibriBytes, value: ColibriBytes) -> c_int {
    write_entry((txn, table), (key, value), WriteTxn::append)
}

#[unsafe(no_mangle)]
extern "C" fn colibri_txn_delete(txn: *mut Txn, table: *mut Tab, key: ColibriBytes) -> c_int {
    guard(|| {
        let key = key.get()?;
        in_txn(txn, table, |txn, table| Ok(found(txn.delete(table, key)?)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_txn_delete_value(
    txn: *mut Txn,
    table: *mut Tab,
    key: ColibriBytes,
    value: ColibriBytes,
) -> c_int {
    guard(|| {
        let (key, value) = (key.get()?, value.get()?);
        in_txn(txn, table, |txn, table| Ok(found(txn.delete_value(table, key, value)?)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_txn_delete_range(
    txn: *mut Txn,
    table: *mut Tab,
    low: *const ColibriBytes,
    high: *const ColibriBytes,
    count: *mut u64,
) -> c_int {
    guard(|| {
        let range = bounds(low, high)?;
        let deleted = in_txn(txn, table, |txn, table| Ok(txn.delete_range(table, range)?))?;
        give_if_wanted(count, deleted);
        Ok(OK)
    })
}

// ---- tickets ----

#[unsafe(no_mangle)]
extern "C" fn colibri_ticket_is_durable(ticket: *mut Tick, is_durable: *mut bool) -> c_int {
    guard(|| {
        give(is_durable, TICKETS.with(Handle::of(ticket), |ticket| Ok(ticket.ticket.get()?.is_durable()))?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_ticket_wait(ticket: *mut Tick) -> c_int {
    guard(|| {
        TICKETS.remove(Handle::of(ticket))?.ticket.take()?.wait()?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_ticket_drop(ticket: *mut Tick) -> c_int {
    guard(|| {
        drop(TICKETS.remove(Handle::of(ticket))?);
        Ok(OK)
    })
}

// ---- copies and backups ----

/// A descriptor of the program's, which stays open.
fn file_of(fd: c_int) -> Result<ManuallyDrop<File>> {
    if fd < 0 {
        return Err(Fault::Misuse("the descriptor is negative"));
    }
    // SAFETY: the program lends it for the call, and it is not closed here.
    Ok(ManuallyDrop::new(unsafe { File::from_raw_fd(fd) }))
}

fn back_up(
    database: &Database,
    fd: c_int,
    since: *const ColibriBackupInfo,
    info: *mut ColibriBackupInfo,
) -> Result<c_int> {
    let since = read_if_given(since).map(BackupInfo::from);
    let file = file_of(fd)?;
    let mut out = std::io::BufWriter::with_capacity(1 << 20, &*file);
    let made = database.backup(since.as_ref(), &mut out)?;
    out.flush().map_err(|error| {
        let message = format!("cannot write the backup: {error}");
        embedded::sql::Error::new(embedded::sql::SqlState::IO_ERROR, message)
    })?;
    give_if_wanted(info, made.into());
    Ok(OK)
}

#[unsafe(no_mangle)]
extern "C" fn colibri_kv_backup(
    kv: *mut Kv,
    fd: c_int,
    since: *const ColibriBackupInfo,
    info: *mut ColibriBackupInfo,
) -> c_int {
    guard(|| back_up(&database_of(kv)?, fd, since, info))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_backup(
    db: *mut Db,
    fd: c_int,
    since: *const ColibriBackupInfo,
    info: *mut ColibriBackupInfo,
) -> c_int {
    guard(|| back_up(&sql::database_of(Handle::of(db))?.storage()?, fd, since, info))
}

#[unsafe(no_mangle)]
extern "C" fn colibri_restore(fds: *const c_int, count: usize, dir: *const c_char) -> c_int {
    guard(|| {
        let dir = path(dir)?;
        let mut inputs: Vec<Box<dyn Read>> = Vec::new();
        for place in 0..count {
            let fd = read_if_given(fds.wrapping_add(place)).ok_or(Fault::Misuse("there are no descriptors"))?;
            let file = file_of(fd)?.try_clone().map_err(|error| {
                let message = format!("cannot read the backup: {error}");
                embedded::sql::Error::new(embedded::sql::SqlState::IO_ERROR, message)
            })?;
            inputs.push(Box::new(std::io::BufReader::with_capacity(1 << 20, file)));
        }
        embedded::restore(&mut inputs, dir)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn colibri_kv_copy(kv: *mut Kv, dir: *const c_char, is_compact: bool) -> c_int {
    guard(|| {
        let dir = path(dir)?;
        database_of(kv)?.copy_to(dir, is_compact)?;
        Ok(OK)
    })
}

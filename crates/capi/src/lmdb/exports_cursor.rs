//! The functions of C for cursors. What holds for pointers is said in `exports`.
#![allow(unsafe_code, reason = "pointers of C, and names that it links to")]

use std::ffi::{c_int, c_uint};
use std::ptr;

use super::abi::{Code, MdbVal, Move, Result, db_flag, put_flag};
use super::cursor::CursorHandle;
use super::env::FREE_DBI;
use super::exports::{bytes, give, give_put, guard, the, the_mut, to_store};
use super::moves;
use super::txn::Txn;
use super::write;

/// A cursor and its transaction, which are two objects.
#[inline]
fn with_txn<'a>(cursor: *mut CursorHandle) -> Result<(&'a mut CursorHandle, &'a mut Txn)> {
    let cursor = the_mut(cursor)?;
    // A cursor whose transaction has ended has none.
    // SAFETY: it is null then; otherwise the transaction lives, and one thread uses both.
    let txn = unsafe { cursor.txn.as_mut() }.ok_or(Code::BAD_TXN)?;
    Ok((cursor, txn))
}

/// Opens a cursor.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_cursor_open(txn: *mut Txn, dbi: c_uint, cursor: *mut *mut CursorHandle) -> c_int {
    guard(|| {
        let txn_at = txn;
        let txn = the_mut(txn)?;
        if cursor.is_null() {
            return Err(Code::INVAL);
        }
        txn.state(dbi).map(|_| ()).or_else(|code| if txn.ensure_usable().is_err() { Ok(()) } else { Err(code) })?;
        txn.ensure_usable()?;
        if dbi == FREE_DBI && txn.is_writing() {
            return Err(Code::INVAL);
        }
        let mut opened = Box::new(CursorHandle::new(dbi));
        opened.txn = txn_at;
        let opened = Box::into_raw(opened);
        txn.cursors.push(opened);
        give(cursor, opened)
    })
}

/// Closes a cursor.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_cursor_close(cursor: *mut CursorHandle) {
    guard(|| {
        if cursor.is_null() {
            return Ok(());
        }
        if let Ok((_, txn)) = with_txn(cursor) {
            txn.unlist(cursor);
        }
        // SAFETY: `mdb_cursor_open` made it of a box; the program uses it no more.
        drop(unsafe { Box::from_raw(cursor) });
        Ok(())
    });
}

/// Has a cursor of a read transaction serve another one.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_cursor_renew(txn: *mut Txn, cursor: *mut CursorHandle) -> c_int {
    guard(|| {
        let txn_at = txn;
        let (txn, found) = (the_mut(txn)?, the_mut(cursor)?);
        if txn.is_writing() {
            return Err(Code::INVAL);
        }
        txn.ensure_usable()?;
        txn.state(found.dbi)?;
        if !ptr::eq(found.txn, txn_at) {
            // SAFETY: null, or a transaction that lives: ended ones have let go of it.
            if let Some(old) = unsafe { found.txn.as_mut() } {
                if old.is_writing() {
                    return Err(Code::INVAL);
                }
                old.unlist(cursor);
            }
            txn.cursors.push(cursor);
        }
        let found = the_mut(cursor)?;
        found.forget();
        found.txn = txn_at;
        Ok(())
    })
}

/// The transaction of a cursor.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_cursor_txn(cursor: *mut CursorHandle) -> *mut Txn {
    the(cursor).map_or(ptr::null_mut(), |cursor| cursor.txn)
}

/// The database of a cursor.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_cursor_dbi(cursor: *mut CursorHandle) -> c_uint {
    the(cursor).map_or(0, |cursor| cursor.dbi)
}

/// Moves a cursor, and gives the entry that it stands on.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_cursor_get(
    cursor: *mut CursorHandle,
    key: *mut MdbVal,
    value: *mut MdbVal,
    to: c_uint,
) -> c_int {
    guard(|| {
        let (cursor, txn) = with_txn(cursor)?;
        let to = Move::of(to).ok_or(Code::INVAL)?;
        let wants_key = matches!(to, Move::Set | Move::SetKey | Move::SetRange | Move::GetBoth | Move::GetBothRange);
        let wanted_key = if wants_key { Some(bytes(key)?) } else { None };
        let wanted_value = if matches!(to, Move::GetBoth | Move::GetBothRange) { Some(bytes(value)?) } else { None };
        let given = moves::go(cursor, txn, to, wanted_key, wanted_value)?;
        if let Some(found) = given.key
            && !key.is_null()
        {
            give(key, found)?;
        }
        if let Some(found) = given.value
            && !value.is_null()
        {
            give(value, found)?;
        }
        Ok(())
    })
}

/// Stores an entry through a cursor.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_cursor_put(
    cursor: *mut CursorHandle,
    key: *const MdbVal,
    value: *mut MdbVal,
    flags: c_uint,
) -> c_int {
    guard(|| {
        let (cursor, txn) = with_txn(cursor)?;
        let key = bytes(key)?;
        let known = put_flag::PLAIN | put_flag::CURRENT | put_flag::MULTIPLE;
        if flags & !known != 0 {
            return Err(Code::INVAL);
        }
        if flags & put_flag::MULTIPLE != 0 {
            return put_multiple(cursor, txn, key, value, flags);
        }
        let (stored, size) = to_store(value, flags)?;
        give_put(write::put_at(cursor, txn, key, stored, size, flags)?, value)
    })
}

/// Stores values that lie one behind the other: `value[0]` has the size of one and where they start,
/// `value[1]` how many there are, and then how many were stored.
fn put_multiple(cursor: &mut CursorHandle, txn: &mut Txn, key: &[u8], value: *mut MdbVal, flags: u32) -> Result<()> {
    let first = *the(value)?;
    if !txn.state(cursor.dbi)?.shape.has(db_flag::DUPFIXED) {
        return Err(Code::INCOMPATIBLE);
    }
    // SAFETY: with this flag the program gives two of them.
    let counted = unsafe { value.add(1) };
    let count = the(counted)?.size;
    let bytes_all = first.size.checked_mul(count).ok_or(Code::BAD_VALSIZE)?;
    let all = MdbVal { size: bytes_all, data: first.data };
    let values: Vec<&[u8]> = match first.size {
        0 => Vec::new(),
        size => bytes(&all)?.chunks_exact(size).collect(),
    };
    let (done, result) = write::put_multiple(cursor, txn, key, &values, flags);
    the_mut(counted)?.size = done;
    result
}

/// Removes the entry that a cursor stands on.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_cursor_del(cursor: *mut CursorHandle, flags: c_uint) -> c_int {
    guard(|| {
        let (cursor, txn) = with_txn(cursor)?;
        txn.state(cursor.dbi)?;
        write::delete_at(cursor, txn, flags)
    })
}

/// How many values the cursor's key has.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_cursor_count(cursor: *mut CursorHandle, count: *mut usize) -> c_int {
    guard(|| {
        let (cursor, txn) = with_txn(cursor)?;
        if count.is_null() {
            return Err(Code::INVAL);
        }
        give(count, moves::count(cursor, txn)?)
    })
}

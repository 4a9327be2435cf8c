//! LMDB's functions and flags.
//!
//! Not here: a choice of page size (LMDB takes the operating system's), and a bound for lazy writes
//! (it has none).

use std::ffi::{CStr, CString, c_int};
use std::{ptr, slice};

use lmdb_master_sys as ffi;

use crate::engine::Mode;
use crate::engine::targets::mdb::{Api, Dbi, FILE_MODE, MAP_BYTES};
use crate::engine::targets::{Config, TargetName};

pub(super) struct Lmdb;

fn lend(bytes: &[u8]) -> ffi::MDB_val {
    ffi::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast_mut().cast() }
}

/// # Safety
/// LMDB filled `value`, and what it points to lives for `'t`.
unsafe fn borrow<'t>(value: &ffi::MDB_val) -> &'t [u8] {
    if value.mv_size == 0 {
        return &[];
    }
    // SAFETY: not empty, so it points at `mv_size` bytes; the caller vouches for how long.
    unsafe { slice::from_raw_parts(value.mv_data.cast(), value.mv_size) }
}

const EMPTY: ffi::MDB_val = ffi::MDB_val { mv_size: 0, mv_data: ptr::null_mut() };

// SAFETY: each function calls LMDB's function of that name, under the same conditions.
unsafe impl Api for Lmdb {
    const NAME: TargetName = TargetName::Lmdb;
    const NOT_FOUND: c_int = ffi::MDB_NOTFOUND;
    const FIRST: u32 = ffi::MDB_FIRST;
    const NEXT: u32 = ffi::MDB_NEXT;
    type Env = ffi::MDB_env;
    type Txn = ffi::MDB_txn;
    type Cursor = ffi::MDB_cursor;

    fn error_text(code: c_int) -> String {
        // SAFETY: LMDB answers with a string that ends in zero and lives until the thread's next
        // such call.
        unsafe { CStr::from_ptr(ffi::mdb_strerror(code)) }.to_string_lossy().into_owned()
    }

    fn notes(mode: Mode) -> &'static str {
        match mode {
            Mode::Sync => "LMDB defaults; page size is the operating system's",
            Mode::Lazy => {
                "LMDB NOSYNC|NOMETASYNC: no bound, and a power loss may corrupt the database (not crash-safe)"
            }
            Mode::Nosync => "LMDB WRITEMAP|MAPASYNC|NOSYNC: a power loss may corrupt the database (not crash-safe)",
        }
    }

    unsafe fn env_open(path: &CString, config: &Config) -> Result<*mut Self::Env, c_int> {
        let flags = match config.mode {
            Mode::Sync => 0,
            Mode::Lazy => ffi::MDB_NOSYNC | ffi::MDB_NOMETASYNC,
            Mode::Nosync => ffi::MDB_WRITEMAP | ffi::MDB_MAPASYNC | ffi::MDB_NOSYNC,
        };
        let mut env = ptr::null_mut();
        // SAFETY: in the order that LMDB asks for: create, configure, open; an environment that
        // fails to open is closed, as it asks for too.
        unsafe {
            match ffi::mdb_env_create(&mut env) {
                0 => {}
                code => return Err(code),
            }
            let mut code = ffi::mdb_env_set_mapsize(env, MAP_BYTES);
            if code == 0 {
                code = ffi::mdb_env_open(env, path.as_ptr(), flags, FILE_MODE);
            }
            if code != 0 {
                ffi::mdb_env_close(env);
                return Err(code);
            }
        }
        Ok(env)
    }

    unsafe fn env_close(env: *mut Self::Env) {
        // SAFETY: the caller's.
        unsafe { ffi::mdb_env_close(env) }
    }

    unsafe fn env_sync(env: *mut Self::Env) -> c_int {
        // SAFETY: the caller's.
        unsafe { ffi::mdb_env_sync(env, 1) }
    }

    unsafe fn txn_begin(env: *mut Self::Env, read_only: bool, txn: &mut *mut Self::Txn) -> c_int {
        let flags = if read_only { ffi::MDB_RDONLY } else { 0 };
        // SAFETY: the caller's.
        unsafe { ffi::mdb_txn_begin(env, ptr::null_mut(), flags, txn) }
    }

    unsafe fn txn_commit(txn: *mut Self::Txn) -> c_int {
        // SAFETY: the caller's.
        unsafe { ffi::mdb_txn_commit(txn) }
    }

    unsafe fn txn_abort(txn: *mut Self::Txn) {
        // SAFETY: the caller's.
        unsafe { ffi::mdb_txn_abort(txn) }
    }

    unsafe fn txn_reset(txn: *mut Self::Txn) {
        // SAFETY: the caller's.
        unsafe { ffi::mdb_txn_reset(txn) }
    }

    unsafe fn txn_renew(txn: *mut Self::Txn) -> c_int {
        // SAFETY: the caller's.
        unsafe { ffi::mdb_txn_renew(txn) }
    }

    unsafe fn dbi_open(txn: *mut Self::Txn, dbi: &mut Dbi) -> c_int {
        // SAFETY: the caller's; no name means the unnamed table.
        unsafe { ffi::mdb_dbi_open(txn, ptr::null(), 0, dbi) }
    }

    unsafe fn get(txn: *mut Self::Txn, dbi: Dbi, key: &[u8], value: &mut &[u8]) -> c_int {
        let (mut key, mut data) = (lend(key), EMPTY);
        // SAFETY: the caller's; LMDB does not write through the key.
        unsafe {
            let code = ffi::mdb_get(txn, dbi, &mut key, &mut data);
            if code == 0 {
                *value = borrow(&data);
            }
            code
        }
    }

    unsafe fn put(txn: *mut Self::Txn, dbi: Dbi, key: &[u8], value: &[u8]) -> c_int {
        let (mut key, mut data) = (lend(key), lend(value));
        // SAFETY: the caller's; without MDB_RESERVE, LMDB does not write through either.
        unsafe { ffi::mdb_put(txn, dbi, &mut key, &mut data, 0) }
    }

    unsafe fn del(txn: *mut Self::Txn, dbi: Dbi, key: &[u8]) -> c_int {
        let mut key = lend(key);
        // SAFETY: the caller's; the table has no duplicates, so no value is needed.
        unsafe { ffi::mdb_del(txn, dbi, &mut key, ptr::null_mut()) }
    }

    unsafe fn cursor_open(txn: *mut Self::Txn, dbi: Dbi, cursor: &mut *mut Self::Cursor) -> c_int {
        // SAFETY: the caller's.
        unsafe { ffi::mdb_cursor_open(txn, dbi, cursor) }
    }

    unsafe fn cursor_get<'t>(cursor: *mut Self::Cursor, key: &mut &'t [u8], value: &mut &'t [u8], op: u32) -> c_int {
        let (mut found_key, mut data) = (EMPTY, EMPTY);
        // SAFETY: the caller's; FIRST and NEXT fill both.
        unsafe {
            let code = ffi::mdb_cursor_get(cursor, &mut found_key, &mut data, op);
            if code == 0 {
                (*key, *value) = (borrow(&found_key), borrow(&data));
            }
            code
        }
    }

    unsafe fn cursor_close(cursor: *mut Self::Cursor) {
        // SAFETY: the caller's.
        unsafe { ffi::mdb_cursor_close(cursor) }
    }
}

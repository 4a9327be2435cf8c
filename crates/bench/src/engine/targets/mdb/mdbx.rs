//! MDBX's functions and flags.
//!
//! Not here: MDBX's own check and its statistics.

use std::ffi::{CStr, CString, c_int};
use std::{ptr, slice};

use signet_mdbx_sys as ffi;

use crate::engine::Mode;
use crate::engine::targets::mdb::{Api, Dbi, FILE_MODE, MAP_BYTES};
use crate::engine::targets::{Config, TargetName};

/// The bounds of Colibri's default lazy mode: bytes, and a period in 1/65536 of a second.
const LAZY_BYTES: u64 = 64 << 20;
const LAZY_PERIOD_16DOT16: u64 = 1 << 16;

pub(super) struct Mdbx;

/// MDBX says with a code of its own that there was nothing to do, which is success.
fn settled(code: c_int) -> c_int {
    if code == ffi::MDBX_RESULT_TRUE { 0 } else { code }
}

fn lend(bytes: &[u8]) -> ffi::MDBX_val {
    ffi::MDBX_val { iov_len: bytes.len(), iov_base: bytes.as_ptr().cast_mut().cast() }
}

/// # Safety
/// MDBX filled `value`, and what it points to lives for `'t`.
unsafe fn borrow<'t>(value: &ffi::MDBX_val) -> &'t [u8] {
    if value.iov_len == 0 {
        return &[];
    }
    // SAFETY: not empty, so it points at `iov_len` bytes; the caller vouches for how long.
    unsafe { slice::from_raw_parts(value.iov_base.cast(), value.iov_len) }
}

const EMPTY: ffi::MDBX_val = ffi::MDBX_val { iov_len: 0, iov_base: ptr::null_mut() };

// SAFETY: each function calls MDBX's function of that name, under the same conditions.
unsafe impl Api for Mdbx {
    const NAME: TargetName = TargetName::Mdbx;
    const NOT_FOUND: c_int = ffi::MDBX_NOTFOUND;
    const FIRST: u32 = ffi::MDBX_FIRST;
    const NEXT: u32 = ffi::MDBX_NEXT;
    type Env = ffi::MDBX_env;
    type Txn = ffi::MDBX_txn;
    type Cursor = ffi::MDBX_cursor;

    fn error_text(code: c_int) -> String {
        // SAFETY: MDBX answers with a string that ends in zero and lives until the thread's next
        // such call.
        unsafe { CStr::from_ptr(ffi::mdbx_strerror(code)) }.to_string_lossy().into_owned()
    }

    fn notes(mode: Mode) -> &'static str {
        match mode {
            Mode::Sync => "MDBX SYNC_DURABLE|LIFORECLAIM",
            Mode::Lazy => {
                "MDBX SAFE_NOSYNC|NOMETASYNC|LIFORECLAIM, synced by the committing writer per 64 MiB or 1 s; a power loss rolls back to the last sync"
            }
            Mode::Nosync => {
                "MDBX WRITEMAP|UTTERLY_NOSYNC|LIFORECLAIM: a power loss may corrupt the database (not crash-safe)"
            }
        }
    }

    unsafe fn env_open(path: &CString, config: &Config) -> Result<*mut Self::Env, c_int> {
        let flags = match config.mode {
            Mode::Sync => ffi::MDBX_SYNC_DURABLE,
            Mode::Lazy => ffi::MDBX_SAFE_NOSYNC | ffi::MDBX_NOMETASYNC,
            Mode::Nosync => ffi::MDBX_WRITEMAP | ffi::MDBX_UTTERLY_NOSYNC,
        };
        let page_bytes = isize::try_from(config.page_bytes).expect("at most 64 KiB");
        let mut env = ptr::null_mut();
        // SAFETY: in the order that MDBX asks for: create, configure, open, bounds; an environment
        // that fails to open is closed, as it asks for too.
        unsafe {
            match ffi::mdbx_env_create(&mut env) {
                0 => {}
                code => return Err(code),
            }
            let mut code = ffi::mdbx_env_set_geometry(env, -1, -1, MAP_BYTES as isize, -1, -1, page_bytes);
            if code == 0 {
                code = ffi::mdbx_env_open(env, path.as_ptr(), flags | ffi::MDBX_LIFORECLAIM, FILE_MODE);
            }
            if code == 0 && config.mode == Mode::Lazy {
                code = ffi::mdbx_env_set_option(env, ffi::MDBX_opt_sync_bytes, LAZY_BYTES);
            }
            if code == 0 && config.mode == Mode::Lazy {
                code = ffi::mdbx_env_set_option(env, ffi::MDBX_opt_sync_period, LAZY_PERIOD_16DOT16);
            }
            if code != 0 {
                ffi::mdbx_env_close_ex(env, true);
                return Err(code);
            }
        }
        Ok(env)
    }

    unsafe fn env_close(env: *mut Self::Env) {
        // SAFETY: the caller's.
        unsafe { ffi::mdbx_env_close_ex(env, true) };
    }

    unsafe fn env_sync(env: *mut Self::Env) -> c_int {
        // SAFETY: the caller's.
        unsafe { settled(ffi::mdbx_env_sync_ex(env, true, false)) }
    }

    unsafe fn txn_begin(env: *mut Self::Env, read_only: bool, txn: &mut *mut Self::Txn) -> c_int {
        let flags = if read_only { ffi::MDBX_TXN_RDONLY } else { ffi::MDBX_TXN_READWRITE };
        // SAFETY: the caller's.
        unsafe { ffi::mdbx_txn_begin_ex(env, ptr::null_mut(), flags, txn, ptr::null_mut()) }
    }

    unsafe fn txn_commit(txn: *mut Self::Txn) -> c_int {
        // SAFETY: the caller's.
        unsafe { settled(ffi::mdbx_txn_commit_ex(txn, ptr::null_mut())) }
    }

    unsafe fn txn_abort(txn: *mut Self::Txn) {
        // SAFETY: the caller's.
        unsafe { ffi::mdbx_txn_abort(txn) };
    }

    unsafe fn txn_reset(txn: *mut Self::Txn) {
        // SAFETY: the caller's.
        unsafe { ffi::mdbx_txn_reset(txn) };
    }

    unsafe fn txn_renew(txn: *mut Self::Txn) -> c_int {
        // SAFETY: the caller's.
        unsafe { ffi::mdbx_txn_renew(txn) }
    }

    unsafe fn dbi_open(txn: *mut Self::Txn, dbi: &mut Dbi) -> c_int {
        // SAFETY: the caller's; no name means the unnamed table.
        unsafe { ffi::mdbx_dbi_open(txn, ptr::null(), ffi::MDBX_DB_DEFAULTS, dbi) }
    }

    unsafe fn get(txn: *mut Self::Txn, dbi: Dbi, key: &[u8], value: &mut &[u8]) -> c_int {
        let (key, mut data) = (lend(key), EMPTY);
        // SAFETY: the caller's; MDBX does not write through the key.
        unsafe {
            let code = ffi::mdbx_get(txn, dbi, &key, &mut data);
            if code == 0 {
                *value = borrow(&data);
            }
            code
        }
    }

    unsafe fn put(txn: *mut Self::Txn, dbi: Dbi, key: &[u8], value: &[u8]) -> c_int {
        let (key, mut data) = (lend(key), lend(value));
        // SAFETY: the caller's; without MDB_RESERVE, MDBX does not write through either.
        unsafe { ffi::mdbx_put(txn, dbi, &key, &mut data, ffi::MDBX_UPSERT) }
    }

    unsafe fn del(txn: *mut Self::Txn, dbi: Dbi, key: &[u8]) -> c_int {
        let key = lend(key);
        // SAFETY: the caller's; the table has no duplicates, so no value is needed.
        unsafe { ffi::mdbx_del(txn, dbi, &key, ptr::null()) }
    }

    unsafe fn cursor_open(txn: *mut Self::Txn, dbi: Dbi, cursor: &mut *mut Self::Cursor) -> c_int {
        // SAFETY: the caller's.
        unsafe { ffi::mdbx_cursor_open(txn, dbi, cursor) }
    }

    unsafe fn cursor_get<'t>(cursor: *mut Self::Cursor, key: &mut &'t [u8], value: &mut &'t [u8], op: u32) -> c_int {
        let (mut found_key, mut data) = (EMPTY, EMPTY);
        // SAFETY: the caller's; FIRST and NEXT fill both.
        unsafe {
            let code = ffi::mdbx_cursor_get(cursor, &mut found_key, &mut data, op);
            if code == 0 {
                (*key, *value) = (borrow(&found_key), borrow(&data));
            }
            code
        }
    }

    unsafe fn cursor_close(cursor: *mut Self::Cursor) {
        // SAFETY: the caller's.
        unsafe { ffi::mdbx_cursor_close(cursor) }
    }
}

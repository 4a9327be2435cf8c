//! The functions of C for environments, transactions and databases.
//!
//! Each turns pointers into references, catches panics, and returns a code. What holds for all of
//! them, because the interface demands it of the program: a pointer is null or points to what it
//! says; a handle was returned by this library and has not ended; a transaction and its cursors are
//! used by one thread at a time. Each block says which of these it needs.
#![allow(unsafe_code, reason = "pointers of C, and names that it links to")]
#![allow(clippy::missing_safety_doc, reason = "the head of this file says it for all")]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;
use std::sync::atomic::Ordering;

use super::abi::{
    CP_COMPACT, Code, Compare, KEY_BYTES_MAX, MdbEnvInfo, MdbStat, MdbVal, Result, VERSION, VERSION_TEXT, put_flag,
    text_of,
};
use super::env::Env;
use super::names;
use super::txn::Txn;
use super::write::{self, Put};

/// Runs the body of a function of C.
#[inline]
pub(crate) fn guard(body: impl FnOnce() -> Result<()>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code.0,
        Err(_) => Code::PANIC.0,
    }
}

/// A reference to what a pointer of the program points to, if it is not null.
#[inline]
pub(crate) fn the<'a, T>(pointer: *const T) -> Result<&'a T> {
    // SAFETY: null, or what the interface says (the head of this file); nobody changes it meanwhile.
    unsafe { pointer.as_ref() }.ok_or(Code::INVAL)
}

/// An exclusive one.
#[inline]
pub(crate) fn the_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T> {
    // SAFETY: as in `the`; one thread at a time uses it.
    unsafe { pointer.as_mut() }.ok_or(Code::INVAL)
}

/// Stores a result.
#[inline]
pub(crate) fn give<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Code::INVAL);
    }
    // SAFETY: not null, so it points to room for such a value.
    unsafe { out.write(value) };
    Ok(())
}

/// The bytes of a value.
#[inline]
pub(crate) fn bytes<'a>(value: *const MdbVal) -> Result<&'a [u8]> {
    let value = the(value)?;
    if value.size == 0 || value.data.is_null() {
        return Ok(&[]);
    }
    // SAFETY: the caller of the C function promises that `data` points to `size` bytes, and that
    // they do not change during the call.
    Ok(unsafe { std::slice::from_raw_parts(value.data.cast(), value.size) })
}

fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: null, or a text with a zero byte at its end.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

fn path<'a>(path: *const c_char) -> Result<&'a Path> {
    text(path).map(|path| Path::new(OsStr::from_bytes(path.to_bytes()))).ok_or(Code::INVAL)
}

// ---- the library ----

/// The version of LMDB whose interface this is.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_version(major: *mut c_int, minor: *mut c_int, patch: *mut c_int) -> *const c_char {
    for (out, number) in [(major, VERSION.0), (minor, VERSION.1), (patch, VERSION.2)] {
        let _ = give(out, number);
    }
    VERSION_TEXT.as_ptr()
}

/// What a code means.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_strerror(code: c_int) -> *const c_char {
    match text_of(code) {
        Some(text) => text.as_ptr(),
        None if (-30799..-30780).contains(&code) || code < 0 => c"an error of another kind".as_ptr(),
        // SAFETY: it takes any number.
        None => unsafe { libc::strerror(code) },
    }
}

// ---- environments ----

/// Makes an environment, which is opened later.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_create(env: *mut *mut Env) -> c_int {
    guard(|| {
        if env.is_null() {
            return Err(Code::INVAL);
        }
        give(env, Box::into_raw(Box::new(Env::new())))
    })
}

/// Opens an environment.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_open(env: *mut Env, at: *const c_char, flags: c_uint, mode: libc::mode_t) -> c_int {
    guard(|| the(env)?.open(path(at)?, flags, mode))
}

/// Closes an environment.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_close(env: *mut Env) {
    guard(|| {
        if !env.is_null() {
            // SAFETY: `mdb_env_create` made it of a box; the program uses it no more.
            unsafe { Box::from_raw(env) }.close();
        }
        Ok(())
    });
}

/// Copies an environment to a path.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_copy(env: *mut Env, to: *const c_char) -> c_int {
    mdb_env_copy2(env, to, 0)
}

/// Copies an environment to a path.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_copy2(env: *mut Env, to: *const c_char, flags: c_uint) -> c_int {
    guard(|| the(env)?.copy(path(to)?, flags & CP_COMPACT != 0))
}

/// Writes a copy of an environment to a descriptor.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_copyfd(env: *mut Env, fd: c_int) -> c_int {
    mdb_env_copyfd2(env, fd, 0)
}

/// Writes a copy of an environment to a descriptor.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_copyfd2(env: *mut Env, fd: c_int, flags: c_uint) -> c_int {
    guard(|| {
        let env = the(env)?;
        if fd < 0 {
            return Err(Code(libc::EBADF));
        }
        // SAFETY: the program has the descriptor open; it is not closed here.
        let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
        env.copy_onto(&mut file, flags & CP_COMPACT != 0)
    })
}

/// Size and shape of the unnamed database.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_stat(env: *mut Env, stat: *mut MdbStat) -> c_int {
    guard(|| {
        let env = the(env)?;
        if stat.is_null() {
            return Err(Code::INVAL);
        }
        let snapshot = env.snapshot(env.opened()?.db().clone())?;
        let table = colibri_storage::Table::named(names::MAIN_TABLE, colibri_storage::TableKind::Plain);
        let psize = env.opened()?.db().page_size();
        let found = match snapshot.view(&table) {
            Err(colibri_storage::Error::NoSuchTable { .. }) => None,
            view => Some(view?.stat()),
        };
        let of = |count: fn(&colibri_storage::TableStat) -> u64| found.as_ref().map_or(0, count) as usize;
        give(
            stat,
            MdbStat {
                psize,
                depth: found.as_ref().map_or(0, |found| found.depth),
                branch_pages: of(|found| found.branch_pages),
                leaf_pages: of(|found| found.leaf_pages),
                overflow_pages: of(|found| found.overflow_pages),
                entries: of(|found| found.entries),
            },
        )
    })
}

/// Figures of an environment.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_info(env: *mut Env, info: *mut MdbEnvInfo) -> c_int {
    guard(|| {
        let env = the(env)?;
        if info.is_null() {
            return Err(Code::INVAL);
        }
        give(info, env.info()?)
    })
}

/// Makes what was committed durable.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_sync(env: *mut Env, force: c_int) -> c_int {
    guard(|| the(env)?.sync(force != 0))
}

/// Sets or clears flags of an environment.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_set_flags(env: *mut Env, flags: c_uint, on: c_int) -> c_int {
    guard(|| the(env)?.set_flags(flags, on != 0))
}

/// The flags of an environment.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_get_flags(env: *mut Env, flags: *mut c_uint) -> c_int {
    guard(|| give(flags, the(env)?.flags()))
}

/// The path that an environment was opened with.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_get_path(env: *mut Env, path: *mut *const c_char) -> c_int {
    guard(|| {
        let env = the(env)?;
        if path.is_null() {
            return Err(Code::INVAL);
        }
        give(path, env.opened().map_or(ptr::null(), |opened| opened.path().as_ptr()))
    })
}

/// A descriptor of the file with the data.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_get_fd(env: *mut Env, fd: *mut c_int) -> c_int {
    guard(|| {
        let env = the(env)?;
        if fd.is_null() {
            return Err(Code::INVAL);
        }
        give(fd, env.opened().map_or(-1, |opened| opened.file().as_raw_fd()))
    })
}

/// Says how large the environment may become. It grows by itself, so this is only remembered.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_set_mapsize(env: *mut Env, bytes: usize) -> c_int {
    guard(|| {
        the(env)?.set_mapsize(bytes);
        Ok(())
    })
}

/// Says how many reader slots an environment has.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_set_maxreaders(env: *mut Env, readers: c_uint) -> c_int {
    guard(|| the(env)?.set_maxreaders(readers))
}

/// How many reader slots an environment has.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_get_maxreaders(env: *mut Env, readers: *mut c_uint) -> c_int {
    guard(|| give(readers, the(env)?.maxreaders()))
}

/// Says how many named databases can be open.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_set_maxdbs(env: *mut Env, dbs: c_uint) -> c_int {
    guard(|| the(env)?.set_maxdbs(dbs))
}

/// The longest key in bytes.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_get_maxkeysize(_env: *mut Env) -> c_int {
    KEY_BYTES_MAX as c_int
}

/// Keeps a pointer of the program's with an environment.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_set_userctx(env: *mut Env, context: *mut c_void) -> c_int {
    guard(|| {
        the(env)?.userctx.store(context, Ordering::Release);
        Ok(())
    })
}

/// The pointer kept with an environment.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_get_userctx(env: *mut Env) -> *mut c_void {
    the(env).map_or(ptr::null_mut(), |env| env.userctx.load(Ordering::Acquire))
}

/// A function for assertions that fail: none of this library's calls it.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_env_set_assert(env: *mut Env, _function: *const c_void) -> c_int {
    guard(|| the(env).map(|_| ()))
}

/// Tells of each snapshot, by calling a function with lines of text.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_reader_list(
    env: *mut Env,
    function: Option<unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int>,
    context: *mut c_void,
) -> c_int {
    let mut result = 0;
    let code = guard(|| {
        let (env, function) = (the(env)?, function.ok_or(Code::INVAL)?);
        let readers = env.opened()?.db().readers();
        let mut lines = Vec::new();
        let idle = env.opened()?.idle();
        if readers.is_empty() && idle == 0 {
            lines.push("(no active readers)\n".to_owned());
        } else {
            lines.push("    pid     thread     txnid\n".to_owned());
            let live = |reader: &colibri_storage::ReaderInfo| {
                format!("{:10} {:x} {}\n", reader.process, reader.thread, reader.txn.0)
            };
            lines.extend(readers.iter().map(live));
            let process = std::process::id();
            lines.extend((0..idle).map(|_| format!("{process:10} 0 -\n")));
        }
        for line in lines {
            let line = CString::new(line).map_err(|_| Code::INVAL)?;
            // SAFETY: the program gives the function for such calls; the text lives until it returns.
            result = unsafe { function(line.as_ptr(), context) };
            if result < 0 {
                break;
            }
        }
        Ok(())
    });
    if code == 0 { result } else { code }
}

/// Releases the snapshots of processes that have ended: how many there were.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_reader_check(env: *mut Env, dead: *mut c_int) -> c_int {
    guard(|| {
        let released = the(env)?.opened()?.db().release_dead_readers();
        if !dead.is_null() {
            give(dead, released as c_int)?;
        }
        Ok(())
    })
}

// ---- transactions ----

/// Begins a transaction.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_txn_begin(env: *mut Env, parent: *mut Txn, flags: c_uint, txn: *mut *mut Txn) -> c_int {
    guard(|| {
        let env = the(env)?;
        if txn.is_null() {
            return Err(Code::INVAL);
        }
        give(txn, Box::into_raw(Txn::begin(env, parent, flags)?))
    })
}

/// The environment of a transaction.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_txn_env(txn: *mut Txn) -> *mut Env {
    the(txn).map_or(ptr::null_mut(), |txn| txn.env_address().cast_mut())
}

/// The number of a transaction.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_txn_id(txn: *mut Txn) -> usize {
    the(txn).map_or(0, |txn| txn.id() as usize)
}

/// Ends a transaction and keeps its changes.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_txn_commit(txn: *mut Txn) -> c_int {
    guard(|| {
        if txn.is_null() {
            return Err(Code::INVAL);
        }
        // SAFETY: `mdb_txn_begin` made it of a box; the program uses it no more.
        unsafe { Box::from_raw(txn) }.commit()
    })
}

/// Ends a transaction and undoes its changes.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_txn_abort(txn: *mut Txn) {
    guard(|| {
        if !txn.is_null() {
            // SAFETY: as in `mdb_txn_commit`.
            unsafe { Box::from_raw(txn) }.abort();
        }
        Ok(())
    });
}

/// Ends a read transaction for a while.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_txn_reset(txn: *mut Txn) {
    guard(|| the_mut(txn)?.reset());
}

/// Begins a read transaction again.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_txn_renew(txn: *mut Txn) -> c_int {
    guard(|| the_mut(txn)?.renew())
}

// ---- databases ----

/// Opens a database: its handle.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_dbi_open(txn: *mut Txn, name: *const c_char, flags: c_uint, dbi: *mut c_uint) -> c_int {
    guard(|| {
        let txn = the_mut(txn)?;
        if dbi.is_null() {
            return Err(Code::INVAL);
        }
        give(dbi, names::open(txn, text(name).map(CStr::to_bytes), flags)?)
    })
}

/// Closes a database's handle.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_dbi_close(env: *mut Env, dbi: c_uint) {
    guard(|| {
        the(env)?.opened()?.close_dbi(dbi);
        Ok(())
    });
}

/// The flags that are kept with a database.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_dbi_flags(txn: *mut Txn, dbi: c_uint, flags: *mut c_uint) -> c_int {
    guard(|| {
        let txn = the_mut(txn)?;
        txn.ensure_usable()?;
        give(flags, txn.state(dbi)?.shape.flags)
    })
}

/// Size and shape of a database.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_stat(txn: *mut Txn, dbi: c_uint, stat: *mut MdbStat) -> c_int {
    guard(|| {
        let txn = the_mut(txn)?;
        if stat.is_null() {
            return Err(Code::INVAL);
        }
        give(stat, txn.stat(dbi)?)
    })
}

/// Empties a database, or removes it.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_drop(txn: *mut Txn, dbi: c_uint, remove: c_int) -> c_int {
    guard(|| {
        if !(0..=1).contains(&remove) {
            return Err(Code::INVAL);
        }
        names::drop(the_mut(txn)?, dbi, remove == 1)
    })
}

/// Has keys compared by a function of the program.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_set_compare(txn: *mut Txn, dbi: c_uint, compare: Option<Compare>) -> c_int {
    guard(|| names::set_compare(the_mut(txn)?, dbi, compare, false))
}

/// Has the values of a key compared by a function of the program.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_set_dupsort(txn: *mut Txn, dbi: c_uint, compare: Option<Compare>) -> c_int {
    guard(|| names::set_compare(the_mut(txn)?, dbi, compare, true))
}

/// Without effect, as in LMDB.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_set_relfunc(txn: *mut Txn, dbi: c_uint, _function: *const c_void) -> c_int {
    guard(|| the_mut(txn)?.state(dbi).map(|_| ()))
}

/// Without effect, as in LMDB.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_set_relctx(txn: *mut Txn, dbi: c_uint, _context: *mut c_void) -> c_int {
    guard(|| the_mut(txn)?.state(dbi).map(|_| ()))
}

fn sign(order: std::cmp::Ordering) -> c_int {
    order as c_int
}

/// Compares two keys as a database does.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_cmp(txn: *mut Txn, dbi: c_uint, one: *const MdbVal, other: *const MdbVal) -> c_int {
    let mut result = 0;
    guard(|| {
        result = sign(the_mut(txn)?.state(dbi)?.shape.compare_keys(bytes(one)?, bytes(other)?));
        Ok(())
    });
    result
}

/// Compares two values of a key as a database does.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_dcmp(txn: *mut Txn, dbi: c_uint, one: *const MdbVal, other: *const MdbVal) -> c_int {
    let mut result = 0;
    guard(|| {
        result = sign(the_mut(txn)?.state(dbi)?.shape.compare_values(bytes(one)?, bytes(other)?));
        Ok(())
    });
    result
}

// ---- entries ----

/// The value of a key.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_get(txn: *mut Txn, dbi: c_uint, key: *const MdbVal, value: *mut MdbVal) -> c_int {
    guard(|| {
        let (txn, key) = (the_mut(txn)?, bytes(key)?);
        if value.is_null() {
            return Err(Code::INVAL);
        }
        give(value, txn.get(dbi, key)?)
    })
}

/// What a put gives back to the program.
pub(crate) fn give_put(done: Put, value: *mut MdbVal) -> Result<()> {
    match done {
        Put::Done { room: None, .. } => Ok(()),
        Put::Done { room: Some(room), .. } => give(value, room),
        Put::Exists { value: there, .. } => {
            if let Some(there) = there {
                give(value, there)?;
            }
            Err(Code::KEYEXIST)
        }
    }
}

/// The value to be stored, and its size.
pub(crate) fn to_store<'a>(value: *const MdbVal, flags: u32) -> Result<(&'a [u8], usize)> {
    if flags & put_flag::RESERVE != 0 {
        return Ok((&[], the(value)?.size));
    }
    let value = bytes(value)?;
    Ok((value, value.len()))
}

/// Stores an entry.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_put(
    txn: *mut Txn,
    dbi: c_uint,
    key: *const MdbVal,
    value: *mut MdbVal,
    flags: c_uint,
) -> c_int {
    guard(|| {
        let (txn, key) = (the_mut(txn)?, bytes(key)?);
        let (stored, size) = to_store(value, flags)?;
        txn.state(dbi)?;
        if flags & !put_flag::PLAIN != 0 {
            return Err(Code::INVAL);
        }
        give_put(write::put(txn, dbi, key, stored, size, flags)?, value)
    })
}

/// Removes a key, or one of its values.
#[unsafe(no_mangle)]
pub(super) extern "C" fn mdb_del(txn: *mut Txn, dbi: c_uint, key: *const MdbVal, value: *const MdbVal) -> c_int {
    guard(|| {
        let (txn, key) = (the_mut(txn)?, bytes(key)?);
        let value = if value.is_null() { None } else { Some(bytes(value)?) };
        txn.state(dbi)?;
        write::delete(txn, dbi, key, value)
    })
}

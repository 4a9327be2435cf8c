//! Pointers of C, for the functions of `colibri.h`.
//!
//! What holds for all of them, because the header demands it of the program: a pointer to a result
//! is null or has room for one; a text has a zero byte at its end, or as many bytes as its length
//! says; bytes that are handed over do not change during the call.
#![allow(unsafe_code, reason = "pointers of C")]

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::fault::{self, Fault, Result};

/// Runs the body of a function of C: no panic leaves it, and a failure is remembered.
#[inline]
pub(crate) fn guard(body: impl FnOnce() -> Result<c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(fault)) => fault::failed(fault),
        Err(_) => fault::failed(Fault::Panic),
    }
}

/// Refuses a null pointer to a result.
#[inline]
pub(crate) fn wanted<T>(out: *mut T) -> Result<()> {
    if out.is_null() { Err(Fault::Misuse("the pointer to the result is null")) } else { Ok(()) }
}

/// Stores a result.
#[inline]
pub(crate) fn give<T>(out: *mut T, value: T) -> Result<()> {
    wanted(out)?;
    // SAFETY: not null, so it points to room for such a value (the head of this file).
    unsafe { out.write(value) };
    Ok(())
}

/// Stores a result, unless nobody wants it.
#[inline]
pub(crate) fn give_if_wanted<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: as in `give`.
        unsafe { out.write(value) };
    }
}

/// A struct of the program's that it need not give.
pub(crate) fn read_if_given<T: Copy>(pointer: *const T) -> Option<T> {
    // SAFETY: null, or it points to such a struct.
    unsafe { pointer.as_ref() }.copied()
}

/// Bytes of the program's.
#[inline]
pub(crate) fn bytes<'a>(data: *const u8, length: usize) -> Result<&'a [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if data.is_null() || isize::try_from(length).is_err() {
        return Err(Fault::Misuse("the pointer to the bytes is null, or their number is impossible"));
    }
    // SAFETY: the program promises that the pointer has this many bytes behind it, and that nobody
    // changes them during the call.
    Ok(unsafe { std::slice::from_raw_parts(data, length) })
}

/// A text of the program's: with a zero byte at its end if `length` is `SIZE_MAX`.
pub(crate) fn text<'a>(text: *const c_char, length: usize) -> Result<&'a str> {
    let bytes = if length == usize::MAX { terminated(text)?.to_bytes() } else { bytes(text.cast(), length)? };
    std::str::from_utf8(bytes).map_err(|_| {
        let message = "invalid byte sequence for encoding \"UTF8\"";
        embedded::sql::Error::new(embedded::sql::SqlState::BAD_CHARACTER, message).into()
    })
}

/// A text with a zero byte at its end.
pub(crate) fn terminated<'a>(text: *const c_char) -> Result<&'a CStr> {
    if text.is_null() {
        return Err(Fault::Misuse("the pointer to the text is null"));
    }
    // SAFETY: not null, so a text with a zero byte at its end.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// The path that a text is.
pub(crate) fn path<'a>(text: *const c_char) -> Result<&'a Path> {
    terminated(text).map(|path| Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// Copies a text into room of the program's, with a zero byte at its end.
///
/// # Errors
/// There is too little room.
pub(crate) fn fill(room: *mut c_char, room_bytes: usize, text: &str) -> Result<()> {
    wanted(room)?;
    if text.len() >= room_bytes {
        return Err(Fault::Misuse("the room for the text is too small"));
    }
    // SAFETY: the program promises `room_bytes` bytes there, which are more than the text and a
    // zero byte.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), room.cast(), text.len());
        room.add(text.len()).write(0);
    }
    Ok(())
}

//! What can go wrong in a call of `colibri.h`: its codes, and the report of this thread's last
//! failure.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::ptr;

use embedded::sql::{Error, SqlState};

/// Codes that functions return. ABI: never renumber.
pub(crate) const OK: c_int = 0;
pub(crate) const ROW: c_int = 1;
pub(crate) const DONE: c_int = 2;
pub(crate) const PENDING: c_int = 3;
pub(crate) const IS_NULL: c_int = 4;
pub(crate) const NOT_FOUND: c_int = 5;
const ERROR: c_int = -1;
const MISUSE: c_int = -2;
const BUSY: c_int = -3;
const PANIC: c_int = -4;

/// Why a call has failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error of SQL or of the storage.
    Error(Box<Error>),
    /// The handle was closed, or is none.
    Closed,
    /// Another call uses the handle.
    Busy,
    /// There are more handles than there may be.
    TooMany,
    /// An argument, or the order of calls.
    Misuse(&'static str),
    /// The process was forked after the handle was made.
    Forked,
    /// A panic inside the library.
    Panic,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Error(Box::new(error))
    }
}

impl From<embedded::Error> for Fault {
    fn from(error: embedded::Error) -> Self {
        embedded::sql::engine::in_sql(error).into()
    }
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    fn code(&self) -> c_int {
        match self {
            Self::Error(_) => ERROR,
            Self::Closed | Self::TooMany | Self::Misuse(_) | Self::Forked => MISUSE,
            Self::Busy => BUSY,
            Self::Panic => PANIC,
        }
    }

    pub(crate) fn into_error(self) -> Error {
        let misuse = |message: &str| Error::new(SqlState("HY010"), message);
        match self {
            Self::Error(error) => *error,
            Self::Closed => misuse("the handle is not open: it was closed, or it is no handle of this kind"),
            Self::Busy => misuse("another call is using the handle")
                .hint("One thread at a time uses a connection and its statements."),
            Self::TooMany => misuse("there are too many open handles"),
            Self::Misuse(what) => misuse(what),
            Self::Forked => misuse("the process was forked after the handle was made")
                .hint("Open the database after fork, or start processes by exec."),
            Self::Panic => Error::internal("a panic inside the library"),
        }
    }
}

/// `colibri_error`: what is known of a failure. ABI: fields are only added, at the end.
#[repr(C)]
pub(crate) struct ColibriError {
    sqlstate: [c_char; 6],
    position: u32,
    message: *const c_char,
    detail: *const c_char,
    hint: *const c_char,
    context: *const c_char,
    schema: *const c_char,
    table: *const c_char,
    column: *const c_char,
    data_type: *const c_char,
    constraint: *const c_char,
    severity: *const c_char,
}

/// A report, with the texts that it points to.
struct Told {
    report: ColibriError,
    _texts: Vec<CString>,
}

impl Told {
    fn new(error: &Error, severity: &str) -> Self {
        let from = error.report();
        let mut texts = Vec::new();
        let mut keep = |text: Option<&str>| match text {
            None => ptr::null(),
            Some(text) => {
                let bytes: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
                let text = CString::new(bytes).unwrap_or_default();
                // The bytes are on the heap, and stay where they are when the vector grows.
                let pointer = text.as_ptr();
                texts.push(text);
                pointer
            }
        };
        let mut sqlstate = [0; 6];
        for (to, byte) in sqlstate.iter_mut().zip(from.state.0.bytes().take(5)) {
            *to = byte as c_char;
        }
        let report = ColibriError {
            sqlstate,
            position: from.position.unwrap_or(0),
            message: keep(Some(&from.message)),
            detail: keep(from.detail.as_deref()),
            hint: keep(from.hint.as_deref()),
            context: keep(from.context.as_deref()),
            schema: keep(from.schema.as_deref()),
            table: keep(from.table.as_deref()),
            column: keep(from.column.as_deref()),
            data_type: keep(from.data_type.as_deref()),
            constraint: keep(from.constraint.as_deref()),
            severity: keep(Some(severity)),
        };
        Self { report, _texts: texts }
    }

    fn as_pointer(&self) -> *const ColibriError {
        &raw const self.report
    }
}

thread_local! {
    static LAST: RefCell<Option<Box<Told>>> = const { RefCell::new(None) };
    static NOTICE: RefCell<Option<Box<Told>>> = const { RefCell::new(None) };
}

/// Keeps a notice for the program to look at, until this thread takes the next one.
pub(crate) fn tell(notice: &Error, severity: &str) -> *const ColibriError {
    let told = Box::new(Told::new(notice, severity));
    let report = told.as_pointer();
    // Without thread-local memory, as when the thread ends, nobody looks.
    match NOTICE.try_with(|kept| kept.replace(Some(told))) {
        Ok(_) => report,
        Err(_) => ptr::null(),
    }
}

/// Remembers a failure for [`last_error`]; gives its code.
#[cold]
pub(crate) fn failed(fault: Fault) -> c_int {
    let code = fault.code();
    let told = Box::new(Told::new(&fault.into_error(), "ERROR"));
    // Without thread-local memory, as when the thread ends, there is nobody to ask.
    _ = LAST.try_with(|last| last.replace(Some(told)));
    code
}

/// The report of this thread's last failure; null if there was none.
pub(crate) fn last_error() -> *const ColibriError {
    LAST.try_with(|last| last.borrow().as_ref().map_or(ptr::null(), |told| told.as_pointer())).unwrap_or(ptr::null())
}

//! The structs of Arrow's C data and C stream interfaces.
//!
//! Whoever has one of these structs calls its `release` once; that frees all it points to. A struct
//! whose `release` is null has been released, or was moved elsewhere. What a struct points to is
//! owned by its private data, a box: it does not move when the struct does.
#![allow(unsafe_code, reason = "structs that programs of other languages read and release")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::super::{Error, Result};
use super::build::{Buffer, Field, Values};

/// `ARROW_FLAG_NULLABLE`
const NULLABLE: i64 = 2;

/// `struct ArrowSchema`: the type of a column, or of a batch of rows.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Self,
    dictionary: *mut Self,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray`: the values of a column, or a batch of rows.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Self,
    dictionary: *mut Self,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private_data: *mut c_void,
}

/// `struct ArrowArrayStream`: batches of rows, one after the other.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut Self, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Self, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Self) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private_data: *mut c_void,
}

// SAFETY: what the structs own is plain memory that nobody else refers to.
unsafe impl Send for ArrowSchema {}
// SAFETY: as above.
unsafe impl Send for ArrowArray {}
// SAFETY: as above; the function that gives batches is `Send`.
unsafe impl Send for ArrowArrayStream {}

/// What a schema points to.
struct SchemaParts {
    _format: CString,
    _name: CString,
    _metadata: Vec<u8>,
    children: Vec<*mut ArrowSchema>,
}

/// What an array points to.
struct ArrayParts {
    _buffers: Vec<Option<Buffer>>,
    _pointers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

type NextBatch = Box<dyn FnMut() -> Result<Option<Values>> + Send>;

struct StreamParts {
    schema: Field,
    next: NextBatch,
    last_error: Option<CString>,
}

/// A text for C. Names of columns cannot hold a zero byte; should one come here, it is left out.
fn c_text(text: &str) -> CString {
    CString::new(text.bytes().filter(|byte| *byte != 0).collect::<Vec<_>>()).expect("zero bytes were left out")
}

/// Metadata as the interface lays them out; none is an empty vector.
fn metadata(pairs: &[(&str, String)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if !pairs.is_empty() {
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX).to_ne_bytes();
        bytes.extend(number(pairs.len()));
        for (key, value) in pairs {
            bytes.extend(number(key.len()));
            bytes.extend(key.as_bytes());
            bytes.extend(number(value.len()));
            bytes.extend(value.as_bytes());
        }
    }
    bytes
}

impl Field {
    pub(super) fn to_c(&self) -> ArrowSchema {
        let children = self.children.iter().map(|child| Box::into_raw(Box::new(child.to_c()))).collect();
        let (format, name, metadata) = (c_text(&self.format), c_text(&self.name), metadata(&self.metadata));
        let (at_format, at_name) = (format.as_ptr(), name.as_ptr());
        let at_metadata = if metadata.is_empty() { ptr::null() } else { metadata.as_ptr().cast() };
        let mut parts = Box::new(SchemaParts { _format: format, _name: name, _metadata: metadata, children });
        ArrowSchema {
            format: at_format,
            name: at_name,
            metadata: at_metadata,
            flags: NULLABLE,
            n_children: parts.children.len() as i64,
            children: parts.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_schema),
            private_data: Box::into_raw(parts).cast(),
        }
    }
}

impl Values {
    pub(super) fn into_c(self) -> ArrowArray {
        let children: Vec<_> = self.children.into_iter().map(|child| Box::into_raw(Box::new(child.into_c()))).collect();
        let pointers = self.buffers.iter().map(|buffer| buffer.as_ref().map_or(ptr::null(), Buffer::pointer)).collect();
        let mut parts = Box::new(ArrayParts { _buffers: self.buffers, _pointers: pointers, children });
        ArrowArray {
            length: self.len as i64,
            null_count: self.null_count as i64,
            offset: 0,
            n_buffers: parts._pointers.len() as i64,
            n_children: parts.children.len() as i64,
            buffers: parts._pointers.as_mut_ptr(),
            children: parts.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(parts).cast(),
        }
    }
}

impl Buffer {
    fn pointer(&self) -> *const c_void {
        match self {
            Self::Bytes(values) => values.as_ptr().cast(),
            Self::I16(values) => values.as_ptr().cast(),
            Self::I32(values) => values.as_ptr().cast(),
            Self::I64(values) => values.as_ptr().cast(),
            Self::U32(values) => values.as_ptr().cast(),
            Self::F32(values) => values.as_ptr().cast(),
            Self::F64(values) => values.as_ptr().cast(),
            Self::I128(values) => values.as_ptr().cast(),
            Self::Intervals(values) => values.as_ptr().cast(),
        }
    }
}

/// A struct of the interface, which has a function that ends it.
trait Releases {
    fn release(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
}

impl Releases for ArrowSchema {
    fn release(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.release
    }
}

impl Releases for ArrowArray {
    fn release(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.release
    }
}

/// Ends the children of a struct.
///
/// # Safety
///
/// Each child is a box that was leaked, and nobody else frees it: the interface forbids consumers to.
unsafe fn release_children<T: Releases>(children: Vec<*mut T>) {
    for child in children {
        // SAFETY: as this function asks.
        let mut child = unsafe { Box::from_raw(child) };
        if let Some(release) = child.release() {
            // SAFETY: it was not released or moved away, since it has its function.
            unsafe { release(&raw mut *child) };
        }
    }
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the interface has the consumer call it once, with a struct that was not released.
    let Some(schema) = (unsafe { schema.as_mut() }) else { return };
    if schema.release.take().is_none() {
        return;
    }
    // SAFETY: `to_c` has made the private data of a box of this type, and each child of a box.
    unsafe { release_children(Box::from_raw(schema.private_data.cast::<SchemaParts>()).children) };
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: as in `release_schema`.
    let Some(array) = (unsafe { array.as_mut() }) else { return };
    if array.release.take().is_none() {
        return;
    }
    // SAFETY: `into_c` has made the private data of a box of this type, and each child of a box.
    unsafe { release_children(Box::from_raw(array.private_data.cast::<ArrayParts>()).children) };
}

impl ArrowSchema {
    /// A struct that owns nothing.
    #[must_use]
    pub fn released() -> Self {
        Self {
            format: ptr::null(),
            name: ptr::null(),
            metadata: ptr::null(),
            flags: 0,
            n_children: 0,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }
}

impl ArrowArray {
    /// A struct that owns nothing.
    #[must_use]
    pub fn released() -> Self {
        Self {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: ptr::null_mut(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }

    /// How many values, or rows, there are.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.length).unwrap_or(0)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ArrowArrayStream {
    pub(super) fn new(schema: Field, next: impl FnMut() -> Result<Option<Values>> + Send + 'static) -> Self {
        let parts = Box::new(StreamParts { schema, next: Box::new(next), last_error: None });
        Self {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(get_last_error),
            release: Some(release_stream),
            private_data: Box::into_raw(parts).cast(),
        }
    }

    /// A struct that owns nothing.
    #[must_use]
    pub fn released() -> Self {
        Self { get_schema: None, get_next: None, get_last_error: None, release: None, private_data: ptr::null_mut() }
    }

    /// The next batch of rows; `None` at the end.
    ///
    /// # Errors
    /// The statement's.
    pub fn next_batch(&mut self) -> Result<Option<ArrowArray>> {
        if self.release.is_none() {
            return Ok(None);
        }
        // SAFETY: a stream that was not released, borrowed exclusively.
        let parts = unsafe { &mut *self.private_data.cast::<StreamParts>() };
        Ok((parts.next)()?.map(Values::into_c))
    }
}

/// Borrows what a stream of ours owns.
///
/// # Safety
/// `stream` is null, or points to a stream that `ArrowArrayStream::new` has made, that was not
/// released, and that nobody else uses meanwhile: the interface demands it of consumers.
unsafe fn parts_of<'a>(stream: *mut ArrowArrayStream) -> Option<&'a mut StreamParts> {
    // SAFETY: the caller's promise.
    unsafe { stream.as_ref().filter(|stream| stream.release.is_some())?.private_data.cast::<StreamParts>().as_mut() }
}

unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: a call by the rules of the interface.
    let Some(parts) = (unsafe { parts_of(stream) }).filter(|_| !out.is_null()) else { return EINVAL };
    // SAFETY: not null, so it is room for such a struct.
    unsafe { out.write(parts.schema.to_c()) };
    0
}

unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: a call by the rules of the interface.
    let Some(parts) = (unsafe { parts_of(stream) }).filter(|_| !out.is_null()) else { return EINVAL };
    let next = &mut parts.next;
    let result = catch_unwind(AssertUnwindSafe(next))
        .unwrap_or_else(|_| Err(Error::internal("a panic while rows were being read")));
    match result {
        Ok(batch) => {
            // SAFETY: not null, so it is room for such a struct.
            unsafe { out.write(batch.map_or_else(ArrowArray::released, Values::into_c)) };
            0
        }
        Err(error) => {
            parts.last_error = Some(c_text(&error.to_string()));
            EIO
        }
    }
}

unsafe extern "C" fn get_last_error(stream: *mut ArrowArrayStream) -> *const c_char {
    // SAFETY: a call by the rules of the interface.
    let parts = unsafe { parts_of(stream) };
    parts.and_then(|parts| parts.last_error.as_ref()).map_or(ptr::null(), |text| text.as_ptr())
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: as in `release_schema`.
    let Some(stream) = (unsafe { stream.as_mut() }) else { return };
    if stream.release.take().is_none() {
        return;
    }
    // SAFETY: `new` has made the private data of a box of this type.
    let parts = unsafe { Box::from_raw(stream.private_data.cast::<StreamParts>()) };
    // What ends a statement may panic, and nothing may leave this function.
    _ = catch_unwind(AssertUnwindSafe(move || drop(parts)));
}

/// Numbers of errors, as the interface has them; they are the same on all systems that it runs on.
const EIO: c_int = 5;
const EINVAL: c_int = 22;

impl Drop for ArrowSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it has not been released, and nobody else refers to it.
            unsafe { release(self) };
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it has not been released, and nobody else refers to it.
            unsafe { release(self) };
        }
    }
}

impl Drop for ArrowArrayStream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it has not been released, and nobody else refers to it.
            unsafe { release(self) };
        }
    }
}

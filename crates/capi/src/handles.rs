//! Handles of C that cannot be misused: numbers in the shape of pointers, looked up in a table.
//!
//! ```text
//! 63     56 55            28 27             0
//! |  kind  |   generation   |     place     |
//! ```
//! A program gets such a number as a pointer to an incomplete struct and never follows it. Each
//! call finds the object by its place, and compares kind and generation: a handle that was closed,
//! or is of another kind, or is no handle at all, is noticed. The object is locked while a call
//! uses it; a second call meanwhile gets [`Fault::Busy`] instead of waiting. Databases and tables may
//! be used by many threads: a call takes a copy of them ([`Handles::copy_of`]), and works with that.
//!
//! Invariants: a place's generation grows with each object that is removed from it, and a place
//! whose generation is at its end is not used again; so no two objects ever have the same handle.
//! The kind is never 0, so no handle is null.

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::fault::Fault;

const PLACE_BITS: u32 = 28;
const GENERATION_BITS: u32 = 28;
const GENERATION_MAX: u64 = (1 << GENERATION_BITS) - 1;
/// The first chunk has this many places; each further one twice as many as the one before.
const FIRST_CHUNK: usize = 64;
const CHUNKS: usize = 22;
/// A copy takes less than a microsecond. Longer than this a handle is locked only in a process that
/// was forked while another thread of its parent took one.
const COPY_TIME_MAX: Duration = Duration::from_secs(1);

/// Places for objects, made when the first of them is needed.
type Chunk<T> = OnceLock<Box<[Mutex<Entry<T>>]>>;

/// Objects of one kind that programs have handles of.
pub(crate) struct Handles<T> {
    kind: u64,
    chunks: [Chunk<T>; CHUNKS],
    unused: Mutex<Unused>,
}

struct Entry<T> {
    generation: u64,
    object: Option<T>,
}

struct Unused {
    /// Places whose objects were removed.
    free: Vec<usize>,
    /// The first place that was never used.
    next: usize,
}

/// A handle: what the program has instead of a pointer.
pub(crate) struct Handle<T> {
    number: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Handle<T> {
    /// A pointer that a program has given, as a handle; it need not be one.
    #[inline]
    pub(crate) fn of(pointer: *const T) -> Self {
        Self { number: pointer.addr() as u64, of: PhantomData }
    }

    /// As the program gets it.
    pub(crate) fn as_pointer(self) -> *mut T {
        std::ptr::without_provenance_mut(self.number as usize)
    }

    fn new(kind: u64, generation: u64, place: usize) -> Self {
        let number = kind << (PLACE_BITS + GENERATION_BITS) | generation << PLACE_BITS | place as u64;
        Self { number, of: PhantomData }
    }

    fn parts(self) -> (u64, u64, usize) {
        let place = (self.number & ((1 << PLACE_BITS) - 1)) as usize;
        (self.number >> (PLACE_BITS + GENERATION_BITS), self.number >> PLACE_BITS & GENERATION_MAX, place)
    }

    /// For maps that are ordered by handles.
    pub(crate) fn number(self) -> u64 {
        self.number
    }
}

/// Chunk and place within it of a place in the table.
fn located(place: usize) -> (usize, usize) {
    let chunk = (place / FIRST_CHUNK + 1).ilog2() as usize;
    (chunk, place - FIRST_CHUNK * ((1 << chunk) - 1))
}

impl<T> Handles<T> {
    /// A table of a kind, from 1 to 255.
    pub(crate) const fn new(kind: u8) -> Self {
        assert!(kind > 0);
        let unused = Unused { free: Vec::new(), next: 0 };
        Self { kind: kind as u64, chunks: [const { OnceLock::new() }; CHUNKS], unused: Mutex::new(unused) }
    }

    fn entry(&self, place: usize) -> Option<&Mutex<Entry<T>>> {
        let (chunk, within) = located(place);
        self.chunks.get(chunk)?.get()?.get(within)
    }

    /// Takes an object in; gives its handle.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn add(&self, object: T) -> Result<Handle<T>, Fault> {
        let place = {
            let mut unused = self.unused.lock();
            unused.free.pop().unwrap_or_else(|| {
                unused.next += 1;
                unused.next - 1
            })
        };
        let (chunk, within) = located(place);
        if place >= 1 << PLACE_BITS || chunk >= CHUNKS {
            return Err(Fault::TooMany);
        }
        let chunk = self.chunks[chunk].get_or_init(|| {
            (0..FIRST_CHUNK << chunk).map(|_| Mutex::new(Entry { generation: 0, object: None })).collect()
        });
        let mut entry = chunk[within].lock();
        entry.object = Some(object);
        Ok(Handle::new(self.kind, entry.generation, place))
    }

    /// Runs a function on an object, which nobody else uses meanwhile.
    ///
    /// # Errors
    /// The function's; `Closed` if there is no such object, `Busy` if another call uses it.
    #[inline]
    pub(crate) fn with<R>(&self, handle: Handle<T>, run: impl FnOnce(&mut T) -> Result<R, Fault>) -> Result<R, Fault> {
        let mut entry = self.place_of(handle)?.try_lock().ok_or(Fault::Busy)?;
        run(entry.object_of(handle)?)
    }

    /// A copy of an object that any number of threads use. Waits while others take theirs.
    ///
    /// # Errors
    /// The function's; `Closed` if there is no such object; `Busy` after [`COPY_TIME_MAX`].
    #[inline]
    pub(crate) fn copy_of<R>(
        &self,
        handle: Handle<T>,
        copy: impl FnOnce(&mut T) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        copy(lock_soon(self.place_of(handle)?)?.object_of(handle)?)
    }

    /// Where an object of a handle would be.
    #[inline]
    fn place_of(&self, handle: Handle<T>) -> Result<&Mutex<Entry<T>>, Fault> {
        let (kind, _, place) = handle.parts();
        if kind == self.kind { self.entry(place).ok_or(Fault::Closed) } else { Err(Fault::Closed) }
    }

    /// Takes an object out; its handle is worth nothing from now on.
    ///
    /// # Errors
    /// As [`Handles::with`].
    pub(crate) fn remove(&self, handle: Handle<T>) -> Result<T, Fault> {
        self.remove_if(handle, |_| Ok(()))
    }

    /// As [`Handles::remove`], of an object that others may be copying.
    ///
    /// # Errors
    /// As [`Handles::copy_of`].
    pub(crate) fn remove_copied(&self, handle: Handle<T>) -> Result<T, Fault> {
        self.take(handle, lock_soon(self.place_of(handle)?)?)
    }

    /// As [`Handles::remove`], unless the function objects.
    ///
    /// # Errors
    /// The function's, and as [`Handles::with`].
    pub(crate) fn remove_if(
        &self,
        handle: Handle<T>,
        may: impl FnOnce(&mut T) -> Result<(), Fault>,
    ) -> Result<T, Fault> {
        let mut entry = self.place_of(handle)?.try_lock().ok_or(Fault::Busy)?;
        may(entry.object_of(handle)?)?;
        self.take(handle, entry)
    }

    fn take(&self, handle: Handle<T>, mut entry: MutexGuard<'_, Entry<T>>) -> Result<T, Fault> {
        entry.object_of(handle)?;
        let object = entry.object.take().ok_or(Fault::Closed)?;
        if entry.generation < GENERATION_MAX {
            entry.generation += 1;
            drop(entry);
            self.unused.lock().free.push(handle.parts().2);
        }
        Ok(object)
    }
}

impl<T> Entry<T> {
    /// The object, if the handle is of this one and not of an earlier one.
    #[inline]
    fn object_of(&mut self, handle: Handle<T>) -> Result<&mut T, Fault> {
        let is_this = self.generation == handle.parts().1;
        self.object.as_mut().filter(|_| is_this).ok_or(Fault::Closed)
    }
}

/// Locks what is locked for moments only. It does not park: in a forked process nobody would wake it.
fn lock_soon<T>(entry: &Mutex<Entry<T>>) -> Result<MutexGuard<'_, Entry<T>>, Fault> {
    if let Some(locked) = entry.try_lock() {
        return Ok(locked);
    }
    let end = Instant::now() + COPY_TIME_MAX;
    loop {
        std::thread::yield_now();
        match entry.try_lock() {
            Some(locked) => return Ok(locked),
            None if Instant::now() > end => return Err(Fault::Busy),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_all_chunks_are_found() {
        let mut expected = (0, 0);
        for place in 0..100_000 {
            assert_eq!(located(place), expected, "place {place}");
            expected.1 += 1;
            if expected.1 == FIRST_CHUNK << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        // Places that a handle can name at all are in a chunk.
        assert!(located((1 << PLACE_BITS) - FIRST_CHUNK).0 <= CHUNKS);
    }

    #[test]
    fn a_handle_is_of_one_object_only() {
        static NUMBERS: Handles<u32> = Handles::new(3);
        static OTHERS: Handles<u32> = Handles::new(4);
        let get = |handle| NUMBERS.with(handle, |number| Ok(*number));
        let handles: Vec<_> = (0..1_000).map(|number| NUMBERS.add(number).unwrap()).collect();
        for (number, handle) in handles.iter().enumerate() {
            assert_eq!(get(*handle).unwrap(), number as u32);
            assert!(matches!(OTHERS.with(*handle, |_| Ok(())), Err(Fault::Closed)), "of another kind");
        }
        assert_eq!(NUMBERS.remove(handles[7]).unwrap(), 7);
        assert!(matches!(get(handles[7]), Err(Fault::Closed)));
        assert!(matches!(NUMBERS.remove(handles[7]), Err(Fault::Closed)), "closed twice");
        let newer = NUMBERS.add(70).unwrap();
        assert_eq!(newer.parts().2, handles[7].parts().2, "the place is used again");
        assert!(newer != handles[7]);
        assert!(matches!(get(handles[7]), Err(Fault::Closed)));
        for number in [0, 1, 0x1234_5678_9abc_def0, u64::MAX] {
            assert!(matches!(get(Handle { number, of: PhantomData }), Err(Fault::Closed)), "no handle at all");
        }
        let inner = NUMBERS.with(newer, |_| Ok(matches!(NUMBERS.with(newer, |_| Ok(())), Err(Fault::Busy))));
        assert!(inner.unwrap(), "it is used already");
    }
}

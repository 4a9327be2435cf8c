//! Handles of C that cannot be misused: numbers in the shape of pointers, looked up in a table.
//!
//! ```text
//! 63     56 55            28 27             0
//! |  kind  |   generation   |     place     |
//! ```
//! A program gets such a number as a pointer to an incomplete struct and never follows it. Each
//! call finds the object by its place, and compares kind and generation: a handle that was closed,
//! or is of another kind, or is no handle at all, is noticed. The object is locked while a call
//! uses it; a second call meanwhile gets [`Fault::Busy`] instead of waiting.
//!
//! Invariants: a place's generation grows with each object that is removed from it, and a place
//! whose generation is at its end is not used again; so no two objects ever have the same handle.
//! The kind is never 0, so no handle is null.

use std::marker::PhantomData;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::fault::Fault;

const PLACE_BITS: u32 = 28;
const GENERATION_BITS: u32 = 28;
const GENERATION_MAX: u64 = (1 << GENERATION_BITS) - 1;
/// The first chunk has this many places; each further one twice as many as the one before.
const FIRST_CHUNK: usize = 64;
const CHUNKS: usize = 22;

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
        let (kind, generation, place) = handle.parts();
        let entry = if kind == self.kind { self.entry(place) } else { None };
        let mut entry = entry.ok_or(Fault::Closed)?.try_lock().ok_or(Fault::Busy)?;
        if entry.generation != generation {
            return Err(Fault::Closed);
        }
        run(entry.object.as_mut().ok_or(Fault::Closed)?)
    }

    /// Takes an object out; its handle is worth nothing from now on.
    ///
    /// # Errors
    /// As [`Handles::with`].
    pub(crate) fn remove(&self, handle: Handle<T>) -> Result<T, Fault> {
        self.remove_if(handle, |_| Ok(()))
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
        let (kind, generation, place) = handle.parts();
        let found = if kind == self.kind { self.entry(place) } else { None };
        let mut entry = found.ok_or(Fault::Closed)?.try_lock().ok_or(Fault::Busy)?;
        if entry.generation != generation {
            return Err(Fault::Closed);
        }
        may(entry.object.as_mut().ok_or(Fault::Closed)?)?;
        let object = entry.object.take().ok_or(Fault::Closed)?;
        if entry.generation < GENERATION_MAX {
            entry.generation += 1;
            drop(entry);
            self.unused.lock().free.push(place);
        }
        Ok(object)
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

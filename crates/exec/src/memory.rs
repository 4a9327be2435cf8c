//! Memory that operators keep rows in: reserved, limited, and given back by itself.
//!
//! ```text
//! EngineMemory: what all sessions of a database keep together, and where their temporary files are
//!   └── SessionMemory: the limits of a session (work_mem, hash_mem_multiplier, temp_file_limit)
//!         └── Reservation: what one operator keeps, counted in both until it is dropped
//! ```
//! A reservation is told how much there is ([`Reservation::hold`]), and says whether that may stay.
//! Whoever is told no spills: it writes rows to a temporary file and goes on with less. What cannot
//! spill ([`Reservation::hold_all`]) is only refused (53200) when the database as a whole has
//! no more.
//!
//! Invariants: what is counted is what reservations say, no matter how a statement ends. An
//! operator may always keep [`FLOOR_BYTES`], however full the database is, so that each one gets
//! on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use colibri_types::{Datum, Error, Result, SqlState};

use super::scratch::{DirectoryScratch, Scratch};

/// What an operator may keep whatever others do.
const FLOOR_BYTES: usize = 1 << 20;
/// What a database's sessions share is counted in steps of this: small statements leave it alone.
const STEP_BYTES: usize = 64 << 10;

/// What the operators of one database, or of all that a server has open, may keep together. Beyond
/// that each puts more on disk than its session's limits would have it; only what cannot be put
/// there fails (53200).
#[derive(Clone)]
pub struct MemoryTotal(Arc<Total>);

struct Total {
    /// Bytes that are kept, in whole steps.
    used: AtomicUsize,
    bytes_max: usize,
}

impl Default for MemoryTotal {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl MemoryTotal {
    /// So many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Total { used: AtomicUsize::new(0), bytes_max }))
    }

    /// Bytes that operators keep now, large ones to 64 KiB, small ones left out.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        self.used() > self.0.bytes_max
    }
}

/// What a database's sessions keep together.
pub struct EngineMemory {
    total: MemoryTotal,
    scratch: Arc<dyn Scratch>,
    temp_files: AtomicU64,
    temp_bytes: AtomicU64,
    open_files: AtomicUsize,
}

/// What temporary files were made since a database was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TempFileCounts {
    /// How many.
    pub files: u64,
    /// Bytes written to them.
    pub bytes: u64,
    /// How many there are now.
    pub open: usize,
}

impl EngineMemory {
    /// Of a database in a directory.
    pub fn new(directory: &std::path::Path, total: MemoryTotal) -> Self {
        Self::with_scratch(Arc::new(DirectoryScratch::new(directory)), total)
    }

    /// With temporary files elsewhere.
    pub fn with_scratch(scratch: Arc<dyn Scratch>, total: MemoryTotal) -> Self {
        Self {
            total,
            scratch,
            temp_files: AtomicU64::new(0),
            temp_bytes: AtomicU64::new(0),
            open_files: AtomicUsize::new(0),
        }
    }

    pub fn temp_file_counts(&self) -> TempFileCounts {
        TempFileCounts {
            files: self.temp_files.load(Ordering::Relaxed),
            bytes: self.temp_bytes.load(Ordering::Relaxed),
            open: self.open_files.load(Ordering::Relaxed),
        }
    }

    /// Whether all that operators may keep together is in use.
    pub(super) fn is_full(&self) -> bool {
        self.total.is_full()
    }

    pub(super) fn scratch(&self) -> &dyn Scratch {
        &*self.scratch
    }

    pub(super) fn file_made(&self) {
        self.temp_files.fetch_add(1, Ordering::Relaxed);
        self.open_files.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn file_closed(&self) {
        self.open_files.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A session's limits, and what it keeps.
pub struct SessionMemory {
    engine: Arc<EngineMemory>,
    work_bytes: AtomicUsize,
    hash_bytes: AtomicUsize,
    temp_bytes_max: AtomicU64,
    /// What its operators keep in memory.
    kept: AtomicUsize,
    /// What its temporary files have room for.
    temp_bytes: AtomicU64,
}

/// What a session may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// `work_mem`: bytes of a sort, or of rows that are kept.
    pub work_bytes: usize,
    /// `work_mem` times `hash_mem_multiplier`: bytes of a hash table.
    pub hash_bytes: usize,
    /// `temp_file_limit`: bytes of all temporary files of the session.
    pub temp_bytes_max: u64,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { work_bytes: usize::MAX, hash_bytes: usize::MAX, temp_bytes_max: u64::MAX }
    }
}

impl SessionMemory {
    pub fn new(engine: &Arc<EngineMemory>, limits: MemoryLimits) -> Arc<Self> {
        Arc::new(Self {
            engine: Arc::clone(engine),
            work_bytes: AtomicUsize::new(limits.work_bytes),
            hash_bytes: AtomicUsize::new(limits.hash_bytes),
            temp_bytes_max: AtomicU64::new(limits.temp_bytes_max),
            kept: AtomicUsize::new(0),
            temp_bytes: AtomicU64::new(0),
        })
    }

    /// Limits from now on. Only the session itself writes here, so this costs as much as any
    /// memory.
    #[inline]
    pub fn set_limits(&self, limits: MemoryLimits) {
        self.work_bytes.store(limits.work_bytes, Ordering::Relaxed);
        self.hash_bytes.store(limits.hash_bytes, Ordering::Relaxed);
        self.temp_bytes_max.store(limits.temp_bytes_max, Ordering::Relaxed);
    }

    pub(super) fn work_bytes(&self) -> usize {
        self.work_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn hash_bytes(&self) -> usize {
        self.hash_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that its operators keep in memory: tests ask whether anything is left.
    pub fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// Temporary files that its database has made.
    #[cfg(test)]
    pub fn temp_files(&self) -> u64 {
        self.engine.temp_file_counts().files
    }

    pub(super) fn engine(&self) -> &EngineMemory {
        &self.engine
    }

    /// Counts room in temporary files.
    ///
    /// # Errors
    /// 53400 if that is more than the session may have.
    pub(super) fn take_temp(&self, bytes: u64) -> Result<()> {
        let limit = self.temp_bytes_max.load(Ordering::Relaxed);
        if self.temp_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > limit {
            self.give_temp(bytes);
            let message = format!("temporary file size exceeds temp_file_limit ({}kB)", limit >> 10);
            return Err(Error::new(SqlState("53400"), message));
        }
        self.engine.temp_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn give_temp(&self, bytes: u64) {
        self.temp_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Which of a session's limits holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// `work_mem`
    Rows,
    /// `work_mem` times `hash_mem_multiplier`
    Hash,
}

impl Use {
    /// Bytes that an operator may keep for it.
    pub(super) fn bytes_max(self, memory: &SessionMemory) -> usize {
        match self {
            Self::Rows => memory.work_bytes(),
            Self::Hash => memory.hash_bytes(),
        }
    }
}

/// What an operator keeps. Dropping it gives that back.
#[derive(Default)]
pub(crate) struct Reservation {
    memory: Option<Arc<SessionMemory>>,
    bytes: usize,
    peak: usize,
}

impl Reservation {
    /// Says how much is kept now; whether it may stay. Counted it is either way.
    pub(crate) fn hold(&mut self, memory: &Arc<SessionMemory>, bytes: usize, use_: Use) -> bool {
        self.set(memory, bytes);
        let limit = use_.bytes_max(memory);
        bytes <= limit && (bytes <= FLOOR_BYTES || !memory.engine.is_full())
    }

    /// The same of what cannot be spilled.
    ///
    /// # Errors
    /// 53200 if all sessions together keep more than there is.
    pub(crate) fn hold_all(&mut self, memory: &Arc<SessionMemory>, bytes: usize) -> Result<()> {
        let grows = bytes > self.bytes;
        self.set(memory, bytes);
        if grows && bytes > FLOOR_BYTES && memory.engine.is_full() {
            Err(out_of_memory(&memory.engine.total))
        } else {
            Ok(())
        }
    }

    /// Keeps `bytes` more bytes that cannot be spilled.
    ///
    /// # Errors
    /// As [`Reservation::hold_all`].
    pub(crate) fn add(&mut self, memory: &Arc<SessionMemory>, bytes: usize) -> Result<()> {
        self.hold_all(memory, self.bytes + bytes)
    }

    fn set(&mut self, memory: &Arc<SessionMemory>, bytes: usize) {
        if bytes == self.bytes {
            return;
        }
        let memory = self.memory.get_or_insert_with(|| Arc::clone(memory));
        let steps = |bytes: usize| bytes / STEP_BYTES * STEP_BYTES;
        let (before, now) = (steps(self.bytes), steps(bytes));
        if now > before {
            memory.engine.total.0.used.fetch_add(now - before, Ordering::Relaxed);
        } else if now < before {
            memory.engine.total.0.used.fetch_sub(before - now, Ordering::Relaxed);
        }
        // Wraps around where there is less than before.
        memory.kept.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
        self.peak = self.peak.max(bytes);
    }

    /// What is kept.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most that was kept at a time.
    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    /// Nothing is kept any more.
    pub(crate) fn release(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.set(&memory, 0);
            self.memory = None;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

/// Memory of rows that are kept outside of operators, and cannot be spilled.
#[derive(Default)]
pub struct RowsHeld(Reservation);

impl RowsHeld {
    /// Counts a row that is kept from here on.
    ///
    /// # Errors
    /// 53200 if all sessions together keep more than there is.
    pub fn add(&mut self, memory: &Arc<SessionMemory>, row: &[Datum]) -> Result<()> {
        let bytes = row.iter().map(super::datum_bytes).sum();
        self.0.add(memory, bytes)
    }
}

#[cold]
fn out_of_memory(total: &MemoryTotal) -> Error {
    let bytes_max = total.0.bytes_max;
    Error::new(SqlState::OUT_OF_MEMORY, "out of memory")
        .detail(format!("What statements keep in memory needs more than {bytes_max} bytes."))
        .hint("Lower work_mem, so that others leave more, or let the statement keep fewer rows.")
}

#[cfg(test)]
mod tests {
    use super::super::scratch::MemoryScratch;
    use super::*;

    #[test]
    fn reservations_count_for_session_and_database_until_they_are_dropped() {
        let total = MemoryTotal::new(4 << 20);
        let engine = Arc::new(EngineMemory::with_scratch(Arc::new(MemoryScratch::default()), total.clone()));
        let limits = MemoryLimits { work_bytes: 2 << 20, hash_bytes: 4 << 20, ..MemoryLimits::default() };
        let memory = SessionMemory::new(&engine, limits);
        let (mut first, mut second) = (Reservation::default(), Reservation::default());
        assert!(first.hold(&memory, 2 << 20, Use::Rows));
        assert!(!first.hold(&memory, (2 << 20) + 1, Use::Rows));
        assert!(first.hold(&memory, 3 << 20, Use::Hash));
        assert_eq!((memory.kept(), total.used()), (3 << 20, 3 << 20));
        assert!(second.hold(&memory, FLOOR_BYTES, Use::Rows));
        assert!(!second.hold(&memory, FLOOR_BYTES + STEP_BYTES, Use::Rows), "the database is full");
        assert!(second.hold(&memory, FLOOR_BYTES, Use::Rows));
        assert_eq!(second.add(&memory, STEP_BYTES).unwrap_err().state(), SqlState::OUT_OF_MEMORY);
        first.release();
        second.add(&memory, 1).unwrap();
        assert_eq!((first.bytes(), first.peak()), (0, 3 << 20));
        assert_eq!(memory.kept(), FLOOR_BYTES + STEP_BYTES + 1);
        drop(second);
        assert_eq!((memory.kept(), total.used()), (0, 0));
    }
}

//! Which columns of a relation a statement reads.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Columns by their places. What names mean says which are read.
#[derive(Debug, Default)]
pub(super) struct ColumnsRead(Mutex<BTreeSet<usize>>);

impl ColumnsRead {
    fn columns(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        // No half of an insertion can be seen.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A column is read.
    pub(super) fn note(&self, column: usize) {
        self.columns().insert(column);
    }

    /// Whether none is read.
    pub(super) fn is_empty(&self) -> bool {
        self.columns().is_empty()
    }

    /// Whether something holds for all that are read.
    pub(super) fn all(&self, holds: impl FnMut(usize) -> bool) -> bool {
        self.columns().iter().copied().all(holds)
    }
}
